// A tile of a unit: what the threads of its block know together, and which vectors it has.
//
// One thread checks the unit and fills in the state; then each finds the places of its vectors in
// it. Invariant: a unit that would read outside its data has no good tile.
#pragma once
#include "common.cuh"

constexpr uint32_t kThreads = 256;
constexpr uint32_t kTileVectors = 4096;
constexpr uint32_t kVectorBytes = 16;

// Path of src/assemble/vectors.rs.
enum : uint8_t {
  kElements = 0,
  kCopy = 1,
  kFill = 2,
  kToF32 = 3,
  kToBf16 = 4,
  kToF16 = 5,
  kUnshuffle = 6,
};

enum : uint8_t { kNoFilter = 0, kBytes = 1, kBits = 2 };

// What the threads of a block know together.
struct tile_state {
  wavetrain_unit unit;
  wavetrain_fold folds[kRankMax];
  // Address of decoded byte 0 of the chunk.
  uint64_t data;
  // Of the first row, and of its first element. Source and target leave folded axes out.
  uint64_t coordinates[kRankMax];
  uint64_t source;
  uint64_t target;
  // Vector of the first row that the tile begins with.
  uint64_t column;
  // Rows from the first on until axis 1 begins again.
  uint32_t rows_left;
  // Of rows with fewer vectors than a tile: what divides by their number (1 has none), else 0.
  uint32_t row_reciprocal;
  // Of longer rows: vectors until the row ends, of which a tile can see one end.
  uint32_t columns_left;
  uint32_t vectors;
  uint32_t is_good;
  // Where all rows begin at the same place of their first vector: that place, the vector that they
  // end in, and where in it, all in bytes.
  uint32_t row_begin;
  uint32_t last_column;
  uint32_t row_end;
  // From a vector of a thread to its next one: rows and columns, and, where that passes the end of
  // a row, one row more and all columns less; bytes likewise. Until `run_rows` rows are over.
  uint32_t run_rows;
  uint32_t step_rows;
  uint32_t step_columns;
  uint64_t step_source;
  uint64_t step_target;
  uint64_t wrap_source;
  uint64_t wrap_target;
  // Whether elements are U16 as they are, on their way to F32; and the vectors of a run, if one is
  // read from a multiple of 8, all are, may all be, and no two of them are 2^31 bytes apart.
  uint32_t is_near_u16;
  // By how many bits a place of the target is shifted for the number of an element, and which bits
  // say where in a vector it lies.
  uint32_t target_shift;
  uint32_t vector_shift;
  uint32_t vector_mask;
  // Bytes of the chunk that the unit may read: its data, of filtered data the blocks that it needs.
  uint64_t read_first;
  uint64_t read_bytes;
  // Vectors that are read from `words_first` to `words_span` bytes behind it lie in those, and in
  // words of which all may be read: of a wave all others, of the caller's memory not those that it
  // cuts.
  uint64_t words_first;
  uint64_t words_span;
  uint32_t pattern[4];
  // Elements of a filtered block, and of the last one.
  uint32_t block_elements;
  uint32_t last_block;
  uint32_t last_elements;
};

// That of this block. Functions that are not inlined name it, because an address of shared memory
// that is handed to them is one of any memory, and takes registers.
__shared__ tile_state block_tile;

// Adds `count - 1` steps to the low or high end of a range of bytes; false where it does not fit.
__device__ bool widen(uint64_t& low, uint64_t& high, uint64_t count, int64_t step) {
  uint64_t distance = step < 0 ? 0 - static_cast<uint64_t>(step) : static_cast<uint64_t>(step);
  uint64_t span = (count - 1) * distance;
  if (__umul64hi(count - 1, distance) != 0) return false;
  if (step < 0) {
    if (span > low) return false;
    low -= span;
  } else {
    if (span > ~high) return false;
    high += span;
  }
  return true;
}

// What of a wave is data: from its first byte on, and what was decoded on the device.
struct wave_extents {
  uint64_t units_at;
  uint64_t decoded_at;
  uint64_t decoded_limit;
};

__device__ bool lies_in(const wavetrain_unit& unit, uint64_t first, uint64_t limit) {
  return unit.data >= first && unit.data <= limit && unit.data_bytes <= limit - unit.data;
}

// Whether all that the unit reads is in its data, and its data in the wave's, or in no wave.
__device__ bool reads_inside(tile_state& tile, const wave_extents& extents) {
  const wavetrain_unit& unit = tile.unit;
  if (unit.is_fill) return true;
  if (unit.is_absolute) {
    // Its bounds are those of the caller's memory, which has no blocks.
    if (unit.data_bytes > ~unit.data || unit.filter != kNoFilter) return false;
  } else if (!lies_in(unit, 0, extents.units_at) &&
             !lies_in(unit, extents.decoded_at, extents.decoded_limit)) {
    return false;
  }
  uint64_t low = unit.source, high = unit.source;
  for (uint32_t axis = 0; axis < unit.axis_count; axis++) {
    bool is_folded = unit.folded >> axis & 1;
    const wavetrain_fold& fold = tile.folds[axis];
    if (is_folded && fold.first >= fold.limit) return false;
    uint64_t count = is_folded ? fold.limit - fold.first : unit.axes[axis].length;
    if (!widen(low, high, count, unit.axes[axis].source_step)) return false;
  }
  if (unit.source_bytes > ~high) return false;
  high += unit.source_bytes;
  tile.read_first = unit.data_first;
  tile.read_bytes = unit.data_bytes;
  if (unit.filter != kNoFilter) {
    uint64_t block_bytes = unit.filter_block_bytes;
    if (block_bytes == 0 || unit.filter_typesize - 1 >= 255) return false;
    if (unit.chunk_bytes > 0xFFFFFFFF || high > unit.chunk_bytes) return false;
    // Of a block all bytes are read.
    low -= low % block_bytes;
    high = min((high + block_bytes - 1) / block_bytes * block_bytes, unit.chunk_bytes);
    tile.read_first = low;
    tile.read_bytes = high - low;
  }
#ifdef WAVETRAIN_MUTATE_1
  return true;
#endif
  return low >= unit.data_first && high >= low && high - unit.data_first <= unit.data_bytes;
}

__device__ bool is_well_formed(const tile_state& tile) {
  const wavetrain_unit& unit = tile.unit;
  if (unit.axis_count - 1u >= kRankMax || unit.path > kUnshuffle) return false;
  if (unit.elements == 0 || unit.row_vectors == 0) return false;
  if (unit.source_bytes - 1u >= 16 || unit.target_bytes - 1u >= 16) return false;
  uint32_t vector_elements = unit.vector_elements;
  if (vector_elements == 0 || (vector_elements & (vector_elements - 1)) != 0) return false;
  if (vector_elements > 1 && vector_elements * unit.target_bytes != 16) return false;
  for (uint32_t axis = 0; axis < unit.axis_count; axis++) {
    if (unit.axes[axis].length == 0) return false;
  }
  return true;
}

__device__ uint32_t logarithm(uint32_t power) { return 31 - __clz(static_cast<int>(power)); }

// How a thread steps from one of its vectors to the next. `has_even_rows`: all rows begin at the
// same place of their first vector; where they do not, each vector is found for itself.
__device__ void begin_steps(tile_state& tile, bool has_even_rows) {
  const wavetrain_unit& unit = tile.unit;
  tile.vector_shift = logarithm(unit.vector_elements);
  tile.target_shift = logarithm(unit.target_bytes);
  tile.vector_mask = unit.vector_elements > 1 ? 15 : 0;
  tile.run_rows = 0;
  tile.is_near_u16 = 0;
  if (!has_even_rows || unit.row_vectors >> 31) return;
  uint32_t columns = static_cast<uint32_t>(unit.row_vectors);
  tile.row_begin = static_cast<uint32_t>(tile.target) & tile.vector_mask;
  uint64_t last_byte = tile.row_begin + (unit.axes[0].length << tile.target_shift) - 1;
  tile.last_column = static_cast<uint32_t>(last_byte / kVectorBytes);
  tile.row_end = last_byte % kVectorBytes + 1;
  tile.run_rows = tile.rows_left;
  tile.step_rows = kThreads / columns;
  tile.step_columns = kThreads % columns;
  uint64_t vector_source = static_cast<uint64_t>(unit.source_bytes) << tile.vector_shift;
  uint64_t vector_target = static_cast<uint64_t>(unit.target_bytes) << tile.vector_shift;
  uint64_t row_source = static_cast<uint64_t>(unit.axes[1].source_step);
  uint64_t row_target = unit.axes[1].target_step;
  tile.step_source = tile.step_rows * row_source + tile.step_columns * vector_source;
  tile.step_target = tile.step_rows * row_target + tile.step_columns * vector_target;
  tile.wrap_source = row_source - columns * vector_source;
  tile.wrap_target = row_target - columns * vector_target;
  constexpr uint64_t kNear = 1 << 30;
  uint64_t step = max(row_source, row_target);
  bool is_plain = unit.filter == kNoFilter && unit.word_bytes == 1;
  // Memory of the caller's ends where it ends.
  bool has_eights = !unit.is_absolute || (unit.data | unit.data_bytes) % 8 == 0;
#ifdef WAVETRAIN_MUTATE_11
  has_eights = true;
#endif
  tile.is_near_u16 = unit.path == kToF32 && unit.source_dtype == kU16 && is_plain && has_eights &&
                     columns < kNear / 16 && step < kNear / (kTileVectors + 1) &&
                     row_source % 8 == 0;
}

// The element of a fill as often as 16 bytes have room for it.
__device__ void begin_fill(tile_state& tile) {
  const wavetrain_unit& unit = tile.unit;
  uint32_t at = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < 4; i++) {
    uint32_t word = 0;
    for (uint32_t byte = 0; byte < 4; byte++) {
      word |= static_cast<uint32_t>(unit.fill[at]) << 8 * byte;
      if (++at == unit.target_bytes) at = 0;
    }
    tile.pattern[i] = word;
  }
}

// A vector that its row cuts is read as a whole, where all of it is the unit's to read. Memory of
// the caller's ends where it ends, and what lies beside it in a word is nobody's to read.
__device__ void begin_words(tile_state& tile) {
  const wavetrain_unit& unit = tile.unit;
  tile.words_first = 0;
  tile.words_span = ~0ull;
  if (unit.is_fill) return;
  uint64_t first = tile.data + tile.read_first, last = first + tile.read_bytes, limit = last;
#ifndef WAVETRAIN_MUTATE_9
  if (unit.is_absolute) {
    first = (first + 3) & ~3ull;
    last &= ~3ull;
  }
#endif
  uint64_t bytes = unit.vector_elements * unit.source_bytes;
  // Where no vector will do, that is behind all of them.
  bool has_some = first <= last && bytes <= last - first;
  tile.words_first = has_some ? first : limit;
  tile.words_span = has_some ? last - first - bytes : 0;
#ifdef WAVETRAIN_MUTATE_10
  tile.words_first = 0;
  tile.words_span = ~0ull;
#endif
}

__device__ __forceinline__ bool has_words(const tile_state& tile, uint64_t source) {
  return source - tile.words_first <= tile.words_span;
}

__device__ void begin_filter(tile_state& tile) {
  const wavetrain_unit& unit = tile.unit;
  uint32_t chunk_bytes = static_cast<uint32_t>(unit.chunk_bytes);
  tile.block_elements = unit.filter_block_bytes / unit.filter_typesize;
  tile.last_block = (chunk_bytes - 1) / unit.filter_block_bytes;
  uint32_t last_bytes = chunk_bytes - tile.last_block * unit.filter_block_bytes;
  tile.last_elements = last_bytes / unit.filter_typesize;
#ifdef WAVETRAIN_MUTATE_6
  tile.last_elements = tile.block_elements;
#endif
}

// Fills in what follows from the unit, and from the number of the tile among its `tiles`.
__device__ void begin_tile(tile_state& tile, const wave_extents& extents, uint32_t number,
                           uint32_t tiles) {
  const wavetrain_unit& unit = tile.unit;
  tile.is_good = is_well_formed(tile) && reads_inside(tile, extents);
  if (!tile.is_good) return;
  uint64_t rows = unit.elements / unit.axes[0].length;
  uint64_t first = static_cast<uint64_t>(number) * kTileVectors;
  uint64_t total = rows * unit.row_vectors;
  // The host cut the unit as this kernel does, or something would be left out.
  tile.is_good = number < tiles && tiles == (total + kTileVectors - 1) / kTileVectors;
  if (!tile.is_good) return;
  tile.vectors = static_cast<uint32_t>(min(total - first, static_cast<uint64_t>(kTileVectors)));
  uint64_t row = first / unit.row_vectors;
  tile.column = first - row * unit.row_vectors;
  bool is_short = unit.row_vectors < kTileVectors;
  tile.row_reciprocal = is_short ? 0xFFFFFFFF / static_cast<uint32_t>(unit.row_vectors) + 1 : 0;
  uint64_t columns_left = unit.row_vectors - tile.column;
  tile.columns_left = static_cast<uint32_t>(min(columns_left, static_cast<uint64_t>(kTileVectors)));
  tile.source = tile.data + unit.source;
  tile.target = unit.target;
  tile.rows_left = 1;
  bool has_even_rows = true;
  for (uint32_t axis = 1; axis < unit.axis_count; axis++) {
    const wavetrain_axis& along = unit.axes[axis];
    uint64_t outer = row < along.length ? 0 : row / along.length;
    uint64_t at = row - outer * along.length;
    row = outer;
    tile.coordinates[axis] = at;
    tile.source += at * static_cast<uint64_t>(along.source_step);
    tile.target += at * along.target_step;
    has_even_rows = has_even_rows && along.target_step % 16 == 0;
    if (axis > 1) continue;
    uint64_t left = along.length - at;
    tile.rows_left = static_cast<uint32_t>(min(left, static_cast<uint64_t>(kTileVectors + 1)));
  }
  // A row is then found by the general way.
  if (unit.folded >> 1) tile.rows_left = 0;
  begin_steps(tile, has_even_rows);
  begin_words(tile);
  if (unit.path == kFill) begin_fill(tile);
  if (unit.filter != kNoFilter) begin_filter(tile);
}

// Where a row begins; a target of 0 where the chunk has nothing of it.
struct alignas(16) row_place {
  uint64_t source;
  uint64_t target;
};

// The coordinate that padding makes of a place, as numpy.pad does.
__device__ uint64_t fold_source(const wavetrain_fold& fold, uint64_t place, bool reflects) {
  int64_t at = fold.begin + static_cast<int64_t>(place);
  uint64_t last = fold.extent - 1;
  if (!reflects) return at < 0 ? 0 : min(static_cast<uint64_t>(at), last);
  if (last == 0) return 0;
  // The image is the same on both sides of 0.
  uint64_t distance = at < 0 ? 0 - static_cast<uint64_t>(at) : static_cast<uint64_t>(at);
  uint64_t phase = distance % (2 * last);
  return min(phase, 2 * last - phase);
}

// Moves `source` along an axis to a place; false where the chunk does not fill it.
__device__ __forceinline__ bool step_source(const tile_state& tile, uint32_t axis, uint64_t place,
                                            uint64_t& source) {
  const wavetrain_unit& unit = tile.unit;
  if (unit.folded >> axis & 1) {
    const wavetrain_fold& fold = tile.folds[axis];
    uint64_t at = fold_source(fold, place, unit.reflects);
    if (at < fold.first || at >= fold.limit) return false;
    place = at - fold.first;
  }
  source += place * static_cast<uint64_t>(unit.axes[axis].source_step);
  return true;
}

// The general way to the first element of a row. Not inlined, so that what it takes does not weigh
// on the loops: it is rare.
__device__ __noinline__ row_place find_row(uint32_t rows) {
  const tile_state& tile = block_tile;
  const wavetrain_unit& unit = tile.unit;
  row_place row = {tile.data + unit.source, unit.target};
  uint64_t carry = rows;
#pragma unroll 1
  for (uint32_t axis = 1; axis < unit.axis_count; axis++) {
    uint64_t at = tile.coordinates[axis] + carry, length = unit.axes[axis].length;
    carry = at < length ? 0 : at / length;
    at -= carry * length;
    if (!step_source(tile, axis, at, row.source)) return {0, 0};
    row.target += at * unit.axes[axis].target_step;
  }
  return row;
}

// The first element of the row that comes `rows` after the tile's first one.
__device__ __forceinline__ row_place row_at(const tile_state& tile, uint32_t rows) {
  if (rows >= tile.rows_left) return find_row(rows);
  const wavetrain_axis& along = tile.unit.axes[1];
  uint64_t source_step = static_cast<uint64_t>(along.source_step);
  return {tile.source + rows * source_step, tile.target + rows * along.target_step};
}

struct vector_place {
  row_place row;
  // Rows from the tile's first one, and vectors from the row's first one.
  uint32_t rows;
  uint64_t column;
  // Element of the row that the vector begins with; before 0 where it begins before the row.
  int64_t first;
};

__device__ __forceinline__ vector_place vector_at(const tile_state& tile, uint32_t number) {
  const wavetrain_unit& unit = tile.unit;
  vector_place vector;
  if (tile.row_reciprocal != 0) {
    // Both are below 2^13, so that the product with the reciprocal rounded up gives the quotient.
    vector.rows = __umulhi(static_cast<uint32_t>(tile.column) + number, tile.row_reciprocal);
  } else {
    // A row is longer than a tile, or there is one vector in each.
    vector.rows = unit.row_vectors == 1 ? number : number >= tile.columns_left;
  }
  vector.column = tile.column + number - vector.rows * unit.row_vectors;
  vector.row = row_at(tile, vector.rows);
  uint32_t low = static_cast<uint32_t>(vector.row.target);
  uint32_t before = (low & tile.vector_mask) >> tile.target_shift;
  vector.first = static_cast<int64_t>((vector.column << tile.vector_shift) - before);
  return vector;
}

// What of a vector lies in its row: where in it that begins, and, from bit 4 on, where it ends, in
// bytes; 0 where nothing does.
constexpr uint32_t kWholePart = kVectorBytes << 4;

// That of a vector which begins with an element of its row.
__device__ __forceinline__ uint32_t part_of_row(const wavetrain_unit& unit, int64_t first) {
  int64_t left = static_cast<int64_t>(unit.axes[0].length) - first;
  if (left <= 0) return 0;
  uint32_t elements = unit.vector_elements;
  uint32_t limit = left < elements ? static_cast<uint32_t>(left) : elements;
  uint32_t before = first < 0 ? static_cast<uint32_t>(-first) : 0;
  return (before | limit << 4) * unit.target_bytes;
}

// The same where all rows begin at the same place of their first vector.
__device__ __forceinline__ uint32_t part_of_column(const tile_state& tile, uint32_t column) {
  uint32_t last = tile.last_column;
  if (column > last) return 0;
  return (column == 0 ? tile.row_begin : 0) | (column == last ? tile.row_end : kVectorBytes) << 4;
}

// Stores what of a vector lies in its row: the rest belongs to others.
__device__ __forceinline__ void store_part(uint64_t target, const uint32_t (&words)[4],
                                           uint32_t part) {
  if (part == kWholePart) return store_words(target, words);
  uint32_t at = part % 16, limit = part / 16;
#pragma unroll 1
  while (at < limit) {
    uint32_t low = at & 4 ? words[1] : words[0], high = at & 4 ? words[3] : words[2];
    uint32_t word = (at & 8 ? high : low) >> 8 * (at % 4);
    uint32_t left = limit - at;
    if (at % 4 == 0 && left >= 4) {
      store_low<4>(target + at, word);
      at += 4;
    } else if (at % 2 == 0 && left >= 2) {
      store_low<2>(target + at, word);
      at += 2;
    } else {
      store_low<1>(target + at, word);
      at += 1;
    }
  }
}
