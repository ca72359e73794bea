// Arithmetic on the elements of a unit on their way to the batch: src/assemble/augment.rs, bit for
// bit. include/wavetrain.h has the definition, at wavetrain_augment.
//
// In: the words of src/assemble/changes.rs, in the records next to the unit. Out: elements of the
// field. Invariant: words that lead outside of their records are refused before one is used.
//
// The two functions that the kernel calls are not inlined, so that what they take does not weigh on
// units that are cast alone.
#pragma once
#include "convert.cuh"
#include "elements.cuh"
#include "normal.cuh"
#include "tile.cuh"

// Places of src/records/augment.rs.
constexpr uint32_t kChangeFlags = 1;
constexpr uint32_t kChangeChannels = 2;
constexpr uint32_t kChangeAxis = 3;
constexpr uint32_t kChangeLow = 4;
constexpr uint32_t kChangeHigh = 5;
constexpr uint32_t kChangeSigma = 6;
constexpr uint32_t kChangeErases = 7;
constexpr uint32_t kChangeKey = 8;
constexpr uint32_t kChangeHead = 10;

constexpr uint32_t kHasScale = 1;
constexpr uint32_t kHasBias = 2;
constexpr uint32_t kHasClamp = 4;

constexpr uint32_t kChannelsMax = 64;
constexpr uint32_t kErasesMax = 8;

// Words of an axis of the field: its extent, the first place that is changed, and one past the
// last, two words each.
constexpr uint32_t kAxisWords = 6;

__device__ __forceinline__ uint32_t change_word(const uint32_t* words, uint32_t at) {
  return __ldg(words + at);
}

__device__ __forceinline__ float change_float(const uint32_t* words, uint32_t at) {
  return float_from_bits(change_word(words, at));
}

__device__ __forceinline__ uint64_t change_long(const uint32_t* words, uint32_t at) {
  return static_cast<uint64_t>(change_word(words, at + 1)) << 32 | change_word(words, at);
}

// The word of the first box that is erased, in front of the others. Each has its begin, its end,
// the number of its values, and these.
__device__ __forceinline__ uint32_t first_erased(const uint32_t* words) {
  uint32_t tables = __popc(change_word(words, kChangeFlags) & (kHasScale | kHasBias));
  return kChangeHead + tables * change_word(words, kChangeChannels);
}

// Whether the words of the unit lead to no others than those of its records.
__device__ __noinline__ bool is_change_well_formed(const uint32_t* words) {
#ifdef WAVETRAIN_MUTATE_37
  return true;
#endif
  const wavetrain_unit& unit = block_tile.unit;
  uint32_t target_bytes = unit.target_dtype == kF32 ? 4 : 2, rank = unit.change_rank;
  if (unit.target_dtype - kF32 > kF16 - kF32 || unit.target_bytes != target_bytes) return false;
  if (unit.path != kElements || rank > kRankMax) return false;
  uint32_t limit = unit.change_records * (kRecordBytes / 4), count = change_word(words, 0);
  if (count < kChangeHead || count > limit || kAxisWords * rank > limit - count) return false;
  for (uint32_t axis = 0; axis < rank; axis++) {
    if (change_long(words, count + kAxisWords * axis) == 0) return false;
  }
  uint32_t channels = change_word(words, kChangeChannels), axis = change_word(words, kChangeAxis);
  if (channels > kChannelsMax) return false;
  if (channels > 1 && axis >= rank) return false;
  if (channels > 1 && change_long(words, count + kAxisWords * axis) != channels) return false;
  uint32_t erases = change_word(words, kChangeErases) >> 16, at = first_erased(words);
  if (erases > kErasesMax || at > count) return false;
  if (erases > 0 && (change_word(words, kChangeErases) & 0xFFFF) != rank) return false;
  for (uint32_t number = 0; number < erases; number++) {
    if (count - at < 4 * rank + 1) return false;
    at += 4 * rank + 1;
    uint32_t values = change_word(words, at - 1);
    if (values == 0 || (values != 1 && values != channels) || count - at < values) return false;
    at += values;
  }
  return true;
}

// How a place of the field is changed.
struct alignas(8) change_spot {
  // Number of its factor and term; kUnchanged if it is cast alone.
  uint32_t channel;
  // The word of the value that overwrites it; 0 if there is none.
  uint32_t value;
};

constexpr uint32_t kUnchanged = ~0u;

// That of a place, counted from the first of the sample, row-major.
__device__ __forceinline__ change_spot find_spot(const uint32_t* words, uint64_t place) {
  uint32_t rank = block_tile.unit.change_rank, axes = change_word(words, 0);
  uint32_t channels = change_word(words, kChangeChannels);
  uint32_t channel_axis = change_word(words, kChangeAxis);
  uint32_t erases = change_word(words, kChangeErases) >> 16;
  // Boxes that the place lies in along all axes so far, as bits.
  uint32_t boxes = (1u << erases) - 1, channel = 0;
#pragma unroll 1
  for (uint32_t axis = rank; axis-- > 0;) {
    uint32_t along = axes + kAxisWords * axis;
    uint64_t extent = change_long(words, along), outer = place / extent;
    uint64_t at = place - outer * extent;
    place = outer;
    bool is_inside = at >= change_long(words, along + 2) && at < change_long(words, along + 4);
    if (!is_inside) return {kUnchanged, 0};
    if (channels > 1 && axis == channel_axis) channel = static_cast<uint32_t>(at);
    uint32_t erased = first_erased(words);
#pragma unroll 1
    for (uint32_t number = 0; number < erases; number++) {
      bool is_erased = at >= change_long(words, erased + 2 * axis) &&
                       at < change_long(words, erased + 2 * (rank + axis));
      if (!is_erased) boxes &= ~(1u << number);
      erased += 4 * rank + 1 + change_word(words, erased + 4 * rank);
    }
  }
  if (boxes == 0) return {channel, 0};
  // The last of them.
  uint32_t value = first_erased(words) + 4 * rank + 1;
#pragma unroll 1
  for (; boxes > 1; boxes >>= 1) value += change_word(words, value - 1) + 4 * rank + 1;
  return {channel, value + (change_word(words, value - 1) > 1 ? channel : 0)};
}

// An entry of the table of the header.
__device__ __forceinline__ float quantile(uint32_t entry) {
  bool is_upper = entry >= kHalfQuantiles;
  uint32_t at = is_upper ? entry - kHalfQuantiles : kHalfQuantiles - 1 - entry;
  return float_from_bits(kUpperHalf[at] | (is_upper ? 0 : 0x80000000));
}

// A number of the normal distribution for a place.
__device__ __forceinline__ float normal(uint64_t key, uint64_t place) {
  uint64_t hash = key + (place + 1) * 0x9E3779B97F4A7C15;
  hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9;
  hash = (hash ^ hash >> 27) * 0x94D049BB133111EB;
  hash ^= hash >> 31;
  uint32_t first = static_cast<uint32_t>(hash >> 53), second = hash >> 42 & 2047;
  return __fadd_rn(quantile(first), quantile(second));
}

// The element of the field that a float becomes which is changed.
__device__ __forceinline__ uint32_t changed(const uint32_t* words, uint32_t bits, change_spot spot,
                                        uint64_t place) {
  uint32_t flags = change_word(words, kChangeFlags), table = kChangeHead + spot.channel;
  float x = float_from_bits(bits), sigma = change_float(words, kChangeSigma);
  if (flags & kHasScale) {
    x = __fmul_rn(x, change_float(words, table));
    table += change_word(words, kChangeChannels);
  }
  if (flags & kHasBias) x = __fadd_rn(x, change_float(words, table));
  if (sigma != 0) {
    x = __fadd_rn(x, __fmul_rn(sigma, normal(change_long(words, kChangeKey), place)));
  }
  if (flags & kHasClamp) {
    float low = change_float(words, kChangeLow), high = change_float(words, kChangeHigh);
    x = x < low ? low : x;
    x = x > high ? high : x;
  }
  if (spot.value != 0) x = change_float(words, spot.value);
  bits = bits_from_float(x);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) bits = 0x7FC00000;
  uint8_t dtype = block_tile.unit.target_dtype;
  return dtype == kF32 ? bits : dtype == kBf16 ? bf16_from_f32(bits) : f16_from_f32(bits);
}

// Writes the elements of this thread; each is a vector of the unit. A place that is changed gets a
// float that went through the words, another is cast alone.
__device__ __noinline__ void change_tile(const uint32_t* words) {
  const tile_state& tile = block_tile;
  const wavetrain_unit& unit = tile.unit;
  bool is_copy = unit.source_dtype == unit.target_dtype;
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < tile.vectors; i += kThreads) {
    vector_place vector = vector_at(tile, i);
    if (vector.row.target == 0) continue;
    uint64_t at = static_cast<uint64_t>(vector.first), source = vector.row.source;
    if (!step_source(tile, 0, at, source)) continue;
    uint64_t target = vector.row.target + at * unit.axes[0].target_step;
    uint64_t place = unit.place + ((target - unit.target) >> tile.target_shift);
    change_spot spot = find_spot(words, place);
    bool is_changed = spot.channel != kUnchanged;
    element_bits element = unit.is_fill ? fill_element(unit) : load_element(tile, source);
    if (is_changed || !is_copy) {
      uint8_t dtype = unit.target_dtype;
      if (is_changed) dtype = kF32;
      element.low = converted(element.low, unit.source_dtype, unit.source_bytes, dtype);
    }
    if (is_changed) element.low = changed(words, static_cast<uint32_t>(element.low), spot, place);
    store_element(target, unit.target_bytes, element);
  }
}
