// wavetrain_assemble: from the decoded chunks of a wave to the samples of batches.
//
// In: a wave: [data][units][tile_first, unit_count + 1 numbers], and behind it what was decoded
// here of encoded data; memory of the caller's, in the place of decoded data, whose address a unit
// has. Out: every place that a unit writes, and the status word. Invariant: the bytes that
// src/assemble/mod.rs writes; a unit that would read outside its data writes nothing, and the
// status word names it.
//
// A thread block is one tile: kTileVectors vectors of one unit, in row-major order. It finds its
// unit, one thread checks it and finds the tile's first row; then each thread takes every 256th
// vector, side by side with its neighbours. A vector is 16 bytes of the target, loaded and
// converted as such by a loop for its kind of work, which steps from vector to vector with
// additions, and stored as far as its row goes. What would be read outside its unit's data then,
// what is not dense and filters that do not fit are done element by element, after that, by code
// that is there once (elements.cuh).
//
// WAVETRAIN_MUTATE_n takes a barrier or a guard away, for the test that each is needed.
//
// Places of decoded bytes are counted from the chunk's first one, and `data` is where that would
// lie; what the threads go through are addresses.
#include "augment.cuh"
#include "common.cuh"
#include "convert.cuh"
#include "elements.cuh"
#include "load.cuh"
#include "tile.cuh"

// The bits of the floats that elements of up to 4 bytes are; for binary16 of clamped integers, as
// in float_from_integer.
template <int kCount>
__device__ __forceinline__ void make_floats(const wavetrain_unit& unit, bool is_to_f16,
                                            uint32_t (&raw)[kCount]) {
  uint8_t dtype = unit.source_dtype;
  if (is_unsigned(dtype)) {
    uint32_t most = dtype == kBool ? 1 : is_to_f16 ? 65520 : 0xFFFFFFFF;
#pragma unroll
    for (int i = 0; i < kCount; i++) {
      uint32_t number = min(raw[i], most);
      raw[i] = bits_from_float(static_cast<float>(number));
    }
  } else if (is_signed(dtype)) {
    uint32_t shift = 32 - 8 * unit.source_bytes;
#pragma unroll
    for (int i = 0; i < kCount; i++) {
      int32_t number = static_cast<int32_t>(raw[i] << shift) >> shift;
      if (is_to_f16) number = max(min(number, 65520), -65520);
      raw[i] = bits_from_float(static_cast<float>(number));
    }
  } else if (dtype == kF16) {
#pragma unroll
    for (int i = 0; i < kCount; i++) raw[i] = f32_from_f16(raw[i]);
  } else if (dtype == kBf16) {
#pragma unroll
    for (int i = 0; i < kCount; i++) raw[i] = f32_from_bf16(raw[i]);
  }
}

// Halves side by side in words.
__device__ __forceinline__ void pack_halves(const uint32_t (&halves)[8], uint32_t (&words)[4]) {
#pragma unroll
  for (int i = 0; i < 4; i++) words[i] = halves[2 * i] | halves[2 * i + 1] << 16;
}

// The kinds of work: each gives the 16 bytes of a vector; false where its elements do not lie where
// they can be taken together.
struct copy_work {
  __device__ __forceinline__ static bool run(const tile_state& tile, uint64_t source,
                                             uint32_t (&words)[4]) {
    load_words(bytes_at(source), words);
    swap_words(words, tile.unit.word_bytes);
    return true;
  }
};

struct fill_work {
  __device__ __forceinline__ static bool run(const tile_state& tile, uint64_t,
                                             uint32_t (&words)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) words[i] = tile.pattern[i];
    return true;
  }
};

// Unsigned integers of one size as they are: no filter, no other byte order.
template <uint32_t kElementBytes>
struct integers_to_f32_work {
  __device__ __forceinline__ static bool run(const tile_state&, uint64_t source,
                                             uint32_t (&words)[4]) {
    load_elements(source, kElementBytes, words);
#pragma unroll
    for (int i = 0; i < 4; i++) words[i] = bits_from_float(static_cast<float>(words[i]));
    return true;
  }
};

struct to_f32_work {
  __device__ __forceinline__ static bool run(const tile_state& tile, uint64_t source,
                                             uint32_t (&words)[4]) {
    if (!load_raw(tile, source, words)) return false;
    make_floats(tile.unit, false, words);
    return true;
  }
};

struct to_halves_work {
  __device__ __forceinline__ static bool run(const tile_state& tile, uint64_t source,
                                             uint32_t (&words)[4]) {
    uint32_t raw[8];
    if (!load_raw(tile, source, raw)) return false;
    bool is_to_f16 = tile.unit.path == kToF16;
    make_floats(tile.unit, is_to_f16, raw);
#pragma unroll
    for (int i = 0; i < 8; i++) {
      raw[i] = is_to_f16 ? f16_from_f32(raw[i]) : bf16_from_f32(raw[i]);
    }
    pack_halves(raw, words);
    return true;
  }
};

struct unshuffle_work {
  __device__ __forceinline__ static bool run(const tile_state& tile, uint64_t source,
                                             uint32_t (&words)[4]) {
    if (tile.unit.source_bytes == 4) {
      if (!load_raw(tile, source, words)) return false;
    } else if (tile.unit.source_bytes == 2) {
      uint32_t raw[8];
      if (!load_raw(tile, source, raw)) return false;
      pack_halves(raw, words);
    } else {
      // Of single bytes only the bits can be filtered, and a plane is all there is.
      block_place place;
      if (!find_in_block(tile, source, 16, place)) return false;
      load_bit_plane<16>(place.rows, place.elements, place.first, words);
    }
    return true;
  }
};

// The vectors of a thread, two bits for each in one register: those that nobody has looked at yet,
// and, from kLeftShift on, those left to be done by elements.
constexpr uint32_t kLeftShift = 16;
constexpr uint32_t kOpen = 0xFFFF;
static_assert(kTileVectors / kThreads <= kLeftShift, "both kinds have room in a register");

// Does vector `i` of the thread, which lies at `vector`, and those after it that additions lead to.
template <class Work>
__device__ __forceinline__ void run_vectors(const tile_state& tile, const vector_place& vector,
                                            uint32_t i, uint32_t& vectors) {
  const wavetrain_unit& unit = tile.unit;
  uint32_t count = 32 - __clz(static_cast<int>(vectors & kOpen));
  uint64_t first = static_cast<uint64_t>(vector.first);
  uint32_t part = part_of_row(unit, vector.first);
  uint64_t source = vector.row.source + first * unit.source_bytes;
  uint64_t target = vector.row.target + first * unit.target_bytes;
  uint32_t rows = vector.rows, column = static_cast<uint32_t>(vector.column);
#pragma unroll 1
  for (;;) {
#ifdef WAVETRAIN_MUTATE_5
    part = kWholePart;
#endif
    if (part != 0) {
      uint32_t words[4];
      if (has_words(tile, source) && Work::run(tile, source, words)) {
        store_part(target, words, part);
      } else {
        vectors |= 1u << kLeftShift << i;
      }
    }
    i++;
    rows += tile.step_rows;
    column += tile.step_columns;
    source += tile.step_source;
    target += tile.step_target;
    if (column >= static_cast<uint32_t>(unit.row_vectors)) {
      rows++;
      column -= static_cast<uint32_t>(unit.row_vectors);
      source += tile.wrap_source;
      target += tile.wrap_target;
    }
    if (i >= count || rows >= tile.run_rows) break;
    part = part_of_column(tile, column);
  }
  vectors &= ~(kOpen >> (kLeftShift - i));
}

// The same for U16 to F32 where that is plain and near (is_near_u16). Nothing but memory holds it
// up, so a thread has several vectors on their way before it waits for the first. Distances from
// there have 32 bits, because registers are what limits how many. A vector that its row cuts is
// read as a whole: where some of eight bytes are the unit's, the others may be read too.
__device__ __forceinline__ void run_near_u16(const tile_state& tile, const vector_place& vector,
                                             uint32_t i, uint32_t& vectors) {
  constexpr uint32_t kInFlight = 4;
  uint32_t columns = static_cast<uint32_t>(tile.unit.row_vectors);
  uint64_t source = vector.row.source + static_cast<uint64_t>(vector.first) * 2;
  uint64_t target = vector.row.target + static_cast<uint64_t>(vector.first) * 4;
  uint32_t rows = vector.rows, column = static_cast<uint32_t>(vector.column);
  uint32_t source_at = 0, target_at = 0;
  // The thread's vectors from `i` on, a bit for each.
  uint32_t open = (vectors & kOpen) >> i;
#pragma unroll 1
  for (; open != 0 && rows < tile.run_rows; open >>= kInFlight, i += kInFlight) {
    // Eight bits of each vector: its part in words, and whether its thread passes a row's end then.
    uint32_t words[kInFlight][2], parts = 0;
#pragma unroll
    for (uint32_t j = 0; j < kInFlight; j++) {
      uint32_t is_ours = rows < tile.run_rows ? open & 1u << j : 0;
#ifdef WAVETRAIN_MUTATE_8
      is_ours = open & 1u << j;
#endif
      if (is_ours) {
        uint32_t part = part_of_column(tile, column) >> 2;
#ifdef WAVETRAIN_MUTATE_7
        part = kWholePart >> 2;
#endif
        if (part != 0) {
          load_aligned(bytes_at(source + static_cast<int32_t>(source_at)), words[j]);
        }
        parts |= part << 8 * j;
        vectors &= ~(1u << (i + j));
      }
      rows += tile.step_rows;
      column += tile.step_columns;
      source_at += static_cast<uint32_t>(tile.step_source);
      if (column < columns) continue;
      parts |= 0x80u << 8 * j;
      rows++;
      column -= columns;
      source_at += static_cast<uint32_t>(tile.wrap_source);
    }
#pragma unroll
    for (uint32_t j = 0; j < kInFlight; j++) {
      uint32_t part = parts >> 8 * j & 0x7F;
      if (part != 0) {
        uint32_t raw[4];
        split_words(words[j], raw);
#pragma unroll
        for (int k = 0; k < 4; k++) raw[k] = bits_from_float(static_cast<float>(raw[k]));
        store_part(target + static_cast<int32_t>(target_at), raw, part << 2);
      }
      target_at += static_cast<uint32_t>(tile.step_target);
      if (parts >> 8 * j & 0x80) target_at += static_cast<uint32_t>(tile.wrap_target);
    }
  }
}

// Whether that may be done: the tile's rows are so, and the vector is aligned and in a run.
__device__ __forceinline__ bool is_near_u16(const tile_state& tile, const vector_place& vector) {
  uint64_t place = vector.row.source + static_cast<uint64_t>(vector.first) * 2;
  return tile.is_near_u16 && vector.rows < tile.run_rows && place % 8 == 0;
}

__device__ __forceinline__ void run_open_vectors(const tile_state& tile,
                                                  const vector_place& vector, uint32_t i,
                                                  uint32_t& vectors) {
  const wavetrain_unit& unit = tile.unit;
  if (is_near_u16(tile, vector)) return run_near_u16(tile, vector, i, vectors);
  bool is_plain = unit.filter == kNoFilter && unit.word_bytes == 1;
  if (unit.path == kCopy) {
    run_vectors<copy_work>(tile, vector, i, vectors);
  } else if (unit.path == kFill) {
    run_vectors<fill_work>(tile, vector, i, vectors);
  } else if (unit.path == kUnshuffle) {
    run_vectors<unshuffle_work>(tile, vector, i, vectors);
  } else if (unit.path != kToF32) {
    run_vectors<to_halves_work>(tile, vector, i, vectors);
  } else if (is_plain && unit.source_dtype == kU16) {
    run_vectors<integers_to_f32_work<2>>(tile, vector, i, vectors);
  } else if (is_plain && unit.source_dtype == kU8) {
    run_vectors<integers_to_f32_work<1>>(tile, vector, i, vectors);
  } else {
    run_vectors<to_f32_work>(tile, vector, i, vectors);
  }
}

// Does the vectors of this thread: first as such, then those that are left by elements.
__device__ __forceinline__ void run_tile(const tile_state& tile) {
  if (threadIdx.x >= tile.vectors) return;
  uint32_t count = (tile.vectors - threadIdx.x + kThreads - 1) / kThreads;
  uint32_t all = (1u << count) - 1;
  uint32_t vectors = tile.unit.path == kElements ? all << kLeftShift : all;
#pragma unroll 1
  while (vectors != 0) {
    bool is_open = (vectors & kOpen) != 0;
    uint32_t bit = __ffs(static_cast<int>(vectors)) - 1;
    uint32_t i = is_open ? bit : bit - kLeftShift;
    vector_place vector = vector_at(tile, i * kThreads + threadIdx.x);
    // What is known of the tile is read anew, or it would take registers from here on.
    asm volatile("" ::: "memory");
    if (vector.row.target != 0 && is_open) {
      run_open_vectors(tile, vector, i, vectors);
    } else {
      if (vector.row.target != 0) vector_by_elements(tile, vector);
      vectors &= vectors - 1;
    }
  }
}

// The last record whose first tile is not behind this one: the threads cut the range in 256 and
// look at all cuts at once. `unit_count` of them where there is none.
__device__ __forceinline__ uint32_t find_unit(const uint32_t* tile_first, uint32_t unit_count) {
  uint32_t first = 0, count = unit_count;
  while (count > 1) {
    uint32_t step = (count + kThreads - 1) / kThreads;
    uint32_t at = threadIdx.x * step;
    bool is_before = at < count && tile_first[first + at] <= blockIdx.x;
    int before = __syncthreads_count(is_before);
    if (before == 0) return unit_count;
    uint32_t skipped = (before - 1) * step;
    first += skipped;
    count = min(step, count - skipped);
  }
  return first;
}

__device__ void load_record(void* record, const uint8_t* from) {
  // Both lie at multiples of 4, and a block has more threads than a record words.
  uint32_t* words = static_cast<uint32_t*>(record);
  if (threadIdx.x < kRecordBytes / 4) {
    words[threadIdx.x] = reinterpret_cast<const uint32_t*>(from)[threadIdx.x];
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 4)
    wavetrain_assemble(const uint8_t* wave, uint64_t units_at, uint64_t tiles_at,
                       uint32_t unit_count, uint64_t decoded_at, uint64_t decoded_limit,
                       uint32_t* status) {
  tile_state& tile = block_tile;
  const uint32_t* tile_first = reinterpret_cast<const uint32_t*>(wave + tiles_at);
  uint32_t number = find_unit(tile_first, unit_count);
  if (number >= unit_count || blockIdx.x < tile_first[number]) return;
  const uint8_t* record = wave + units_at + static_cast<uint64_t>(number) * kRecordBytes;
  load_record(&tile.unit, record);
#ifndef WAVETRAIN_MUTATE_2
  __syncthreads();
#endif
  // A unit that says it is folded and is the last one has no folds.
  bool has_folds = tile.unit.folded != 0 && number + 1 < unit_count;
  if (has_folds) load_record(tile.folds, record + kRecordBytes);
#ifndef WAVETRAIN_MUTATE_4
  __syncthreads();
#endif
  // The records of the change lie next to the unit and its folds.
  uint32_t words_at = number + 1 + has_folds;
  const uint32_t* words = reinterpret_cast<const uint32_t*>(
      wave + units_at + static_cast<uint64_t>(words_at) * kRecordBytes);
  if (threadIdx.x == 0) {
    uint32_t tiles = tile_first[number + 1] - tile_first[number];
    uint64_t base = tile.unit.is_absolute ? 0 : reinterpret_cast<uint64_t>(wave);
    tile.data = base + tile.unit.data - tile.unit.data_first;
    wave_extents extents = {units_at, decoded_at, decoded_limit};
    begin_tile(tile, extents, blockIdx.x - tile_first[number], tiles);
    if (tile.unit.folded != 0 && !has_folds) tile.is_good = 0;
    uint32_t records = tile.unit.change_records;
    bool has_words = records <= unit_count - words_at;
    if (records != 0 && !(has_words && is_change_well_formed(words))) tile.is_good = 0;
    // The lowest number has the highest complement.
    if (!tile.is_good) atomicMax(status, ~number);
  }
#ifndef WAVETRAIN_MUTATE_3
  __syncthreads();
#endif
  if (!tile.is_good) return;
  if (tile.unit.change_records == 0) return run_tile(tile);
  change_tile(words);
}
