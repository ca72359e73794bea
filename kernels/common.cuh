// Types and memory access that the kernels share. No header of CUDA or the system is needed: NVRTC
// compiles these files as they are; tests/cuda_sim/simt.hpp gives a C++ compiler the same words.
#pragma once

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
#endif

constexpr uint32_t kRankMax = 16;
constexpr uint32_t kRecordBytes = 512;

// The records of src/assemble/units.rs, where each field is described.
struct wavetrain_axis {
  uint64_t length;
  int64_t source_step;
  uint64_t target_step;
};

struct wavetrain_unit {
  uint64_t data;
  uint64_t data_first;
  uint64_t data_bytes;
  uint64_t source;
  uint64_t target;
  uint64_t elements;
  uint64_t chunk_bytes;
  uint32_t filter_block_bytes;
  uint32_t filter_typesize;
  uint8_t filter;
  uint8_t axis_count;
  uint8_t source_dtype;
  uint8_t target_dtype;
  uint8_t source_bytes;
  uint8_t target_bytes;
  uint8_t word_bytes;
  uint8_t is_fill;
  uint16_t folded;
  uint8_t reflects;
  uint8_t path;
  uint8_t vector_elements;
  uint8_t is_absolute;
  uint8_t change_records;
  uint8_t change_rank;
  uint8_t fill[16];
  uint64_t row_vectors;
  uint64_t place;
  uint64_t reserved_words[2];
  wavetrain_axis axes[kRankMax];
};

struct wavetrain_fold {
  int64_t begin;
  uint64_t extent;
  uint64_t first;
  uint64_t limit;
};

// A copy between device addresses.
struct wavetrain_span {
  uint64_t source;
  uint64_t target;
  uint64_t bytes;
};

static_assert(sizeof(wavetrain_unit) == kRecordBytes, "a unit is a record");
static_assert(sizeof(wavetrain_fold) * kRankMax == kRecordBytes, "the folds of a unit are one");

// Dtype of src/records/dtype.rs, as far as the kernels tell types apart.
enum : uint8_t {
  kF32 = 1,
  kBf16 = 2,
  kF16 = 3,
  kI32 = 4,
  kI64 = 5,
  kU8 = 6,
  kI8 = 7,
  kU16 = 8,
  kI16 = 9,
  kU32 = 10,
  kU64 = 11,
  kF64 = 12,
  kBool = 13,
  kRaw = 16,
};

__device__ __forceinline__ const uint8_t* bytes_at(uint64_t address) {
  return reinterpret_cast<const uint8_t*>(address);
}

// Four times kWords bytes from a multiple of as many.
template <int kWords>
__device__ __forceinline__ void load_aligned(const uint8_t* at, uint32_t (&words)[kWords]) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4, "what one instruction loads");
  if constexpr (kWords == 1) {
    words[0] = __ldg(reinterpret_cast<const uint32_t*>(at));
  } else if constexpr (kWords == 2) {
    uint2 pair = __ldg(reinterpret_cast<const uint2*>(at));
    words[0] = pair.x;
    words[1] = pair.y;
  } else {
    uint4 four = __ldg(reinterpret_cast<const uint4*>(at));
    words[0] = four.x;
    words[1] = four.y;
    words[2] = four.z;
    words[3] = four.w;
  }
}

// Four times kWords bytes from any address. Words are read where they lie, so up to 3 bytes before
// and behind are read too, but no word that has no byte of the range.
template <int kWords>
__device__ __forceinline__ void load_words(const uint8_t* at, uint32_t (&words)[kWords]) {
  constexpr uintptr_t kAlign = kWords >= 4 ? 16 : kWords * 4;
  uintptr_t place = reinterpret_cast<uintptr_t>(at);
  if (place % kAlign == 0) {
    if constexpr (kWords <= 4) {
      load_aligned(at, words);
    } else {
#pragma unroll
      for (int i = 0; i < kWords; i += 4) {
        uint4 four = __ldg(reinterpret_cast<const uint4*>(at) + i / 4);
        words[i] = four.x;
        words[i + 1] = four.y;
        words[i + 2] = four.z;
        words[i + 3] = four.w;
      }
    }
    return;
  }
  uint32_t shift = static_cast<uint32_t>(place % 4) * 8;
  const uint32_t* aligned = reinterpret_cast<const uint32_t*>(place - place % 4);
  uint32_t low = __ldg(aligned);
#pragma unroll
  for (int i = 0; i < kWords; i++) {
    uint32_t high = i + 1 < kWords || shift ? __ldg(aligned + i + 1) : 0;
    words[i] = __funnelshift_r(low, high, shift);
    low = high;
  }
}

// To a global address that is a multiple of 16.
__device__ __forceinline__ void store_words(uint64_t target, const uint32_t (&words)[4]) {
#ifdef __CUDACC_RTC__
  // Said in PTX, because the compiler cuts a vector of converted floats into four stores again, and
  // would have to read shared memory anew after a store that might go there.
  asm volatile(
      "{ .reg .u64 place; cvta.to.global.u64 place, %0;\n"
      "st.global.v4.u32 [place], {%1, %2, %3, %4}; }" ::"l"(target),
      "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]));
#else
  uint4 four = make_uint4(words[0], words[1], words[2], words[3]);
  *reinterpret_cast<uint4*>(target) = four;
#endif
}

// Likewise the low 1, 2 or 4 bytes of a word, to a multiple of as many.
template <int kBytes>
__device__ __forceinline__ void store_low(uint64_t target, uint32_t word) {
#ifdef __CUDACC_RTC__
#define WAVETRAIN_STORE(type)                                                             \
  asm volatile("{ .reg .u64 place; cvta.to.global.u64 place, %0;\n"                       \
               "st.global." type " [place], %1; }" ::"l"(target), "r"(word))
  if constexpr (kBytes == 4) WAVETRAIN_STORE("u32");
  if constexpr (kBytes == 2) WAVETRAIN_STORE("u16");
  if constexpr (kBytes == 1) WAVETRAIN_STORE("u8");
#undef WAVETRAIN_STORE
#else
  __builtin_memcpy(reinterpret_cast<void*>(target), &word, kBytes);
#endif
}
