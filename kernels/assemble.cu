// wavetrain_assemble: from the decoded chunks of a wave to the samples of batches.
//
// In: a wave: [decoded data][units][tile_first, unit_count + 1 numbers]. Out: every place that a
// unit writes, and the status word. Invariant: the bytes that src/assemble/mod.rs writes; a unit
// that would read outside its data writes nothing, and the status word names it.
//
// A thread block is one tile: kTileVectors vectors of one unit, in row-major order. It finds its
// unit, one thread checks it and finds the tile's first row; then each thread takes every 256th
// vector, side by side with its neighbours. A vector that lies whole in its row is 16 bytes of the
// target, loaded, converted and stored as such, by a loop for its kind of work that steps from
// vector to vector with additions. What the row's ends cut, what is not dense and filters that do
// not fit are done element by element, after that, by code that is there once.
//
// WAVETRAIN_MUTATE_n takes a barrier or a guard away, for the test that each is needed.
//
// Places of decoded bytes are counted from the chunk's first one, and `data` is where that would
// lie; what the threads go through are addresses.
#include "common.cuh"
#include "convert.cuh"

constexpr uint32_t kThreads = 256;
constexpr uint32_t kTileVectors = 2048;

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
  // Whole vectors of a row, where all rows begin at the same place of their first vector.
  uint32_t whole_first;
  uint32_t whole_count;
  // From a vector of a thread to its next one: rows and columns, and, where that passes the end of
  // a row, one row more and all columns less; bytes likewise. Until `run_rows` rows are over.
  uint32_t run_rows;
  uint32_t step_rows;
  uint32_t step_columns;
  uint64_t step_source;
  uint64_t step_target;
  uint64_t wrap_source;
  uint64_t wrap_target;
  // By how many bits a place of the target is shifted for the number of an element, and which bits
  // say where in a vector it lies.
  uint32_t target_shift;
  uint32_t vector_shift;
  uint32_t vector_mask;
  uint32_t pattern[4];
  // Elements of a filtered block, and of the last one.
  uint32_t block_elements;
  uint32_t last_block;
  uint32_t last_elements;
};

// ---- which unit, which tile -----------------------------------------------------------------

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

// Whether all that the unit reads is in its data, and its data in the wave's.
__device__ bool reads_inside(const tile_state& tile, uint64_t units_at) {
  const wavetrain_unit& unit = tile.unit;
  if (unit.is_fill) return true;
  if (unit.data > units_at || unit.data_bytes > units_at - unit.data) return false;
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
  if (unit.filter != kNoFilter) {
    uint64_t block_bytes = unit.filter_block_bytes;
    if (block_bytes == 0 || unit.filter_typesize - 1 >= 255) return false;
    if (unit.chunk_bytes > 0xFFFFFFFF || high > unit.chunk_bytes) return false;
    // Of a block all bytes are read.
    low -= low % block_bytes;
    high = min((high + block_bytes - 1) / block_bytes * block_bytes, unit.chunk_bytes);
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
  if (!has_even_rows || unit.row_vectors >> 31) return;
  uint32_t columns = static_cast<uint32_t>(unit.row_vectors);
  uint32_t before = (static_cast<uint32_t>(tile.target) & tile.vector_mask) >> tile.target_shift;
  tile.whole_first = before > 0;
  uint64_t whole_limit = (unit.axes[0].length + before) >> tile.vector_shift;
  tile.whole_count = static_cast<uint32_t>(whole_limit) - tile.whole_first;
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
}

// The element of a fill as often as 16 bytes have room for it.
__device__ void begin_fill(tile_state& tile) {
  const wavetrain_unit& unit = tile.unit;
  for (uint32_t i = 0; i < 4; i++) {
    tile.pattern[i] = 0;
    for (uint32_t byte = 0; byte < 4; byte++) {
      uint32_t value = unit.fill[(4 * i + byte) % unit.target_bytes];
      tile.pattern[i] |= value << 8 * byte;
    }
  }
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
__device__ void begin_tile(tile_state& tile, uint64_t units_at, uint32_t number, uint32_t tiles) {
  const wavetrain_unit& unit = tile.unit;
  tile.is_good = is_well_formed(tile) && reads_inside(tile, units_at);
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
  if (unit.path == kFill) begin_fill(tile);
  if (unit.filter != kNoFilter) begin_filter(tile);
}

// ---- which vector ---------------------------------------------------------------------------

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
__device__ __noinline__ row_place find_row(const tile_state& tile, uint32_t rows) {
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
  if (rows >= tile.rows_left) return find_row(tile, rows);
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
    // Both are below 2^12, so that the product with the reciprocal rounded up gives the quotient.
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

// ---- whole vectors --------------------------------------------------------------------------

template <int kWords>
__device__ __forceinline__ void swap_words(uint32_t (&words)[kWords], uint32_t word_bytes) {
  if (word_bytes == 1) return;
  uint32_t selector = word_bytes == 2 ? 0x2301 : 0x0123;
#pragma unroll
  for (int i = 0; i < kWords; i++) words[i] = __byte_perm(words[i], 0, selector);
  if (word_bytes != 8) return;
#pragma unroll
  for (int i = 0; i + 1 < kWords; i += 2) {
    uint32_t low = words[i];
    words[i] = words[i + 1];
    words[i + 1] = low;
  }
}

// The elements side by side from an address on, each in its own register.
template <int kCount>
__device__ __forceinline__ void load_elements(uint64_t from, uint32_t bytes,
                                              uint32_t (&raw)[kCount]) {
  const uint8_t* at = reinterpret_cast<const uint8_t*>(from);
  if (bytes == 2) {
    uint32_t words[kCount / 2];
    load_words(at, words);
#pragma unroll
    for (int i = 0; i < kCount; i++) raw[i] = i % 2 ? words[i / 2] >> 16 : words[i / 2] & 0xFFFF;
  } else if (bytes == 1) {
    uint32_t words[kCount / 4];
    load_words(at, words);
#pragma unroll
    for (int i = 0; i < kCount; i++) raw[i] = words[i / 4] >> 8 * (i % 4) & 0xFF;
  } else {
    load_words(at, raw);
  }
}

// The transpose of an 8x8 matrix of bits, row r in byte r, column c in bit c: three rounds swap the
// off-diagonal quarters of 2x2, 4x4 and 8x8 matrices (Hacker's Delight, section 7-3).
__device__ __forceinline__ uint64_t transposed(uint64_t matrix) {
  uint64_t swap = (matrix ^ (matrix >> 7)) & 0x00AA00AA00AA00AA;
  matrix ^= swap ^ (swap << 7);
  swap = (matrix ^ (matrix >> 14)) & 0x0000CCCC0000CCCC;
  matrix ^= swap ^ (swap << 14);
  swap = (matrix ^ (matrix >> 28)) & 0x00000000F0F0F0F0;
  return matrix ^ swap ^ (swap << 28);
}

// One byte of each of eight elements: byte `group` of the eight rows of their bits. Not inlined:
// eight copies of it were a quarter of the kernel.
__device__ __noinline__ uint64_t group_of_bits(const uint8_t* rows, uint32_t pitch,
                                               uint32_t group) {
  uint32_t low = 0, high = 0;
  const uint8_t* at = rows + group;
#pragma unroll
  for (uint32_t bit = 0; bit < 4; bit++) {
    low |= static_cast<uint32_t>(__ldg(at + bit * pitch)) << 8 * bit;
    high |= static_cast<uint32_t>(__ldg(at + (4 + bit) * pitch)) << 8 * bit;
  }
  return transposed(static_cast<uint64_t>(high) << 32 | low);
}

// One byte of each element from `first` on, from the rows of their bits.
template <int kCount>
__device__ __forceinline__ void load_bit_plane(const uint8_t* rows, uint32_t elements,
                                               uint32_t first, uint32_t (&plane)[kCount / 4]) {
  uint32_t pitch = elements / 8, group = first / 8, skip = first % 8;
  uint64_t low = group_of_bits(rows, pitch, group);
#pragma unroll
  for (int i = 0; i < kCount; i += 8) {
    uint64_t high = 0;
    if (skip + kCount > i + 8u) high = group_of_bits(rows, pitch, group + i / 8 + 1);
    uint64_t bytes = skip ? low >> 8 * skip | high << (64 - 8 * skip) : low;
    plane[i / 4] = static_cast<uint32_t>(bytes);
    if (i + 4 < kCount) plane[i / 4 + 1] = static_cast<uint32_t>(bytes >> 32);
    low = high;
  }
}

// Where elements lie in a filtered block: its bytes, its number of elements, the first of them.
struct block_place {
  const uint8_t* rows;
  uint32_t elements;
  uint32_t first;
};

// Finds `count` elements of 1, 2 or 4 bytes. False where they do not lie in one block, or the block
// is not filtered.
__device__ __forceinline__ bool find_in_block(const tile_state& tile, uint64_t source,
                                              uint32_t count, block_place& place) {
  const wavetrain_unit& unit = tile.unit;
  uint32_t at = static_cast<uint32_t>(source - tile.data);
  uint32_t block = at / unit.filter_block_bytes;
  uint32_t block_first = block * unit.filter_block_bytes;
  place.rows = bytes_at(tile.data) + block_first;
  place.elements = block == tile.last_block ? tile.last_elements : tile.block_elements;
  // 1, 2 and 4 bytes are 0, 1 and 2 bits of a place.
  place.first = (at - block_first) >> (unit.source_bytes >> 1);
  if (place.first + count > place.elements) return false;
  return unit.filter != kBits || place.elements % 8 == 0;
}

// Elements of 1, 2 or 4 bytes from a filtered block, each in its own register.
template <int kCount>
__device__ __forceinline__ bool load_filtered(const tile_state& tile, uint64_t source,
                                              uint32_t (&raw)[kCount]) {
  block_place place;
  if (!find_in_block(tile, source, kCount, place)) return false;
#pragma unroll
  for (int i = 0; i < kCount; i++) raw[i] = 0;
#pragma unroll 1
  for (uint32_t byte = 0; byte < tile.unit.source_bytes; byte++) {
    uint32_t plane[kCount / 4];
    if (tile.unit.filter == kBytes) {
      load_words(place.rows + place.first, plane);
    } else {
      load_bit_plane<kCount>(place.rows, place.elements, place.first, plane);
    }
    place.rows += place.elements;
#pragma unroll
    for (int i = 0; i < kCount; i++) raw[i] |= (plane[i / 4] >> 8 * (i % 4) & 0xFF) << 8 * byte;
  }
  return true;
}

template <int kCount>
__device__ __forceinline__ bool load_raw(const tile_state& tile, uint64_t source,
                                         uint32_t (&raw)[kCount]) {
  const wavetrain_unit& unit = tile.unit;
  if (unit.filter == kNoFilter) {
    load_elements(source, unit.source_bytes, raw);
  } else if (!load_filtered(tile, source, raw)) {
    return false;
  }
  if (unit.word_bytes == 1) return true;
  uint32_t selector = unit.word_bytes == 2 ? 0x4401 : 0x0123;
#pragma unroll
  for (int i = 0; i < kCount; i++) raw[i] = __byte_perm(raw[i], 0, selector);
  return true;
}

// The bits of the floats that elements of up to 4 bytes are; for binary16 of clamped integers, as
// in float_from_integer.
template <int kCount>
__device__ __forceinline__ void make_floats(const wavetrain_unit& unit, bool is_to_f16,
                                            uint32_t (&raw)[kCount]) {
  uint8_t dtype = unit.source_dtype;
  if (is_unsigned(dtype)) {
#pragma unroll
    for (int i = 0; i < kCount; i++) {
      uint32_t number = is_to_f16 ? min(raw[i], 65520u) : raw[i];
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

// The kinds of work: each does a vector that lies whole in its row; false where it has to be done
// by elements.
struct copy_work {
  __device__ __forceinline__ static bool run(const tile_state& tile, uint64_t source,
                                             uint64_t target) {
    uint32_t words[4];
    load_words(bytes_at(source), words);
    swap_words(words, tile.unit.word_bytes);
    store_words(target, words);
    return true;
  }
};

struct fill_work {
  __device__ __forceinline__ static bool run(const tile_state& tile, uint64_t, uint64_t target) {
    store_words(target, tile.pattern);
    return true;
  }
};

// Unsigned integers of one size as they are: no filter, no other byte order.
template <uint32_t kElementBytes>
struct integers_to_f32_work {
  __device__ __forceinline__ static bool run(const tile_state&, uint64_t source,
                                             uint64_t target) {
    uint32_t raw[4];
    load_elements(source, kElementBytes, raw);
#pragma unroll
    for (int i = 0; i < 4; i++) raw[i] = bits_from_float(static_cast<float>(raw[i]));
    store_words(target, raw);
    return true;
  }
};

struct to_f32_work {
  __device__ __forceinline__ static bool run(const tile_state& tile, uint64_t source,
                                             uint64_t target) {
    uint32_t raw[4];
    if (!load_raw(tile, source, raw)) return false;
    make_floats(tile.unit, false, raw);
    store_words(target, raw);
    return true;
  }
};

struct to_halves_work {
  __device__ __forceinline__ static bool run(const tile_state& tile, uint64_t source,
                                             uint64_t target) {
    uint32_t raw[8], words[4];
    if (!load_raw(tile, source, raw)) return false;
    bool is_to_f16 = tile.unit.path == kToF16;
    make_floats(tile.unit, is_to_f16, raw);
#pragma unroll
    for (int i = 0; i < 8; i++) {
      raw[i] = is_to_f16 ? f16_from_f32(raw[i]) : bf16_from_f32(raw[i]);
    }
    pack_halves(raw, words);
    store_words(target, words);
    return true;
  }
};

struct unshuffle_work {
  __device__ __forceinline__ static bool run(const tile_state& tile, uint64_t source,
                                             uint64_t target) {
    uint32_t words[4] = {0, 0, 0, 0};
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
    store_words(target, words);
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
  bool is_whole = vector.first >= 0 && first + unit.vector_elements <= unit.axes[0].length;
#ifdef WAVETRAIN_MUTATE_5
  is_whole = true;
#endif
  uint64_t source = vector.row.source + first * unit.source_bytes;
  uint64_t target = vector.row.target + first * unit.target_bytes;
  uint32_t rows = vector.rows, column = static_cast<uint32_t>(vector.column);
#pragma unroll 1
  for (;;) {
    if (!is_whole || !Work::run(tile, source, target)) vectors |= 1u << kLeftShift << i;
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
    is_whole = column - tile.whole_first < tile.whole_count;
  }
  vectors &= ~(kOpen >> (kLeftShift - i));
}

__device__ __forceinline__ void run_whole_vectors(const tile_state& tile,
                                                  const vector_place& vector, uint32_t i,
                                                  uint32_t& vectors) {
  const wavetrain_unit& unit = tile.unit;
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

// ---- elements -------------------------------------------------------------------------------

// An element of up to 16 bytes, least significant first.
struct element_bits {
  uint64_t low;
  uint64_t high;
};

// Byte `place` of the decoded chunk, whose blocks may still be filtered.
__device__ uint32_t byte_at(const tile_state& tile, uint64_t place) {
  const wavetrain_unit& unit = tile.unit;
  const uint8_t* data = bytes_at(tile.data);
  if (unit.filter == kNoFilter) return data[place];
  uint32_t block = static_cast<uint32_t>(place) / unit.filter_block_bytes;
  uint32_t block_first = block * unit.filter_block_bytes;
  uint32_t at = static_cast<uint32_t>(place) - block_first, typesize = unit.filter_typesize;
  uint32_t elements = block == tile.last_block ? tile.last_elements : tile.block_elements;
  const uint8_t* rows = data + block_first;
  // Bytes behind the last whole element stay where they are, and so do all where elements are not a
  // multiple of 8 and their bits were to be shuffled.
  bool has_bits = unit.filter == kBits;
  if (at >= elements * typesize || (has_bits && elements % 8 != 0)) return rows[at];
  uint32_t element = at / typesize;
  rows += (at - element * typesize) * elements;
  if (!has_bits) return rows[element];
  uint32_t byte = 0;
#pragma unroll 1
  for (uint32_t bit = 0; bit < 8; bit++) {
    byte |= (rows[bit * (elements / 8) + element / 8] >> element % 8 & 1u) << bit;
  }
  return byte;
}

__device__ __forceinline__ element_bits load_element(const tile_state& tile, uint64_t source) {
  const wavetrain_unit& unit = tile.unit;
  uint32_t bytes = unit.source_bytes;
  const uint8_t* at = bytes_at(source);
  bool is_plain = unit.filter == kNoFilter && unit.word_bytes == 1;
  if (is_plain && source % bytes == 0) {
    if (bytes == 1) return {__ldg(at), 0};
    if (bytes == 2) return {__ldg(reinterpret_cast<const uint16_t*>(at)), 0};
    if (bytes == 4) return {__ldg(reinterpret_cast<const uint32_t*>(at)), 0};
    if (bytes == 8) return {__ldg(reinterpret_cast<const uint64_t*>(at)), 0};
  }
  element_bits element = {0, 0};
#pragma unroll 1
  for (uint32_t i = 0; i < bytes; i++) {
    // Words have a power of two of bytes: this counts backwards in each.
    uint64_t byte = byte_at(tile, source - tile.data + (i ^ (unit.word_bytes - 1u)));
    if (i < 8) {
      element.low |= byte << 8 * i;
    } else {
      element.high |= byte << 8 * (i - 8);
    }
  }
  return element;
}

__device__ __forceinline__ void store_element(uint64_t target, uint32_t bytes,
                                              const element_bits& element) {
  if (target % bytes == 0) {
    if (bytes == 1) *reinterpret_cast<uint8_t*>(target) = static_cast<uint8_t>(element.low);
    if (bytes == 2) *reinterpret_cast<uint16_t*>(target) = static_cast<uint16_t>(element.low);
    if (bytes == 4) *reinterpret_cast<uint32_t*>(target) = static_cast<uint32_t>(element.low);
    if (bytes == 8) *reinterpret_cast<uint64_t*>(target) = element.low;
    if (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) return;
  }
#pragma unroll 1
  for (uint32_t i = 0; i < bytes; i++) {
    uint64_t bits = i < 8 ? element.low >> 8 * i : element.high >> 8 * (i - 8);
    reinterpret_cast<uint8_t*>(target)[i] = static_cast<uint8_t>(bits);
  }
}

__device__ __forceinline__ element_bits fill_element(const wavetrain_unit& unit) {
  element_bits element = {0, 0};
#pragma unroll 1
  for (uint32_t i = 0; i < 8; i++) {
    element.low |= static_cast<uint64_t>(unit.fill[i]) << 8 * i;
    element.high |= static_cast<uint64_t>(unit.fill[8 + i]) << 8 * i;
  }
  return element;
}

// The elements of a vector that lie in its row, one after the other.
__device__ __forceinline__ void vector_by_elements(const tile_state& tile,
                                                   const vector_place& vector) {
  const wavetrain_unit& unit = tile.unit;
  bool is_copy = unit.source_dtype == unit.target_dtype || unit.source_dtype == kRaw ||
                 unit.target_dtype == kRaw;
  uint64_t length = unit.axes[0].length;
#pragma unroll 1
  for (uint32_t i = 0; i < unit.vector_elements; i++) {
    // Before the row it is beyond any length.
    uint64_t place = static_cast<uint64_t>(vector.first) + i;
    if (place >= length) continue;
    uint64_t source = vector.row.source;
    if (!step_source(tile, 0, place, source)) continue;
    uint64_t target = vector.row.target + place * unit.axes[0].target_step;
    element_bits element;
    if (unit.is_fill) {
      element = fill_element(unit);
    } else {
      element = load_element(tile, source);
      if (!is_copy) {
        uint32_t bytes = unit.source_bytes;
        element.low = converted(element.low, unit.source_dtype, bytes, unit.target_dtype);
      }
    }
    store_element(target, unit.target_bytes, element);
  }
}

// ---- a tile ---------------------------------------------------------------------------------

// Does the vectors of this thread: first those that are whole, then the others.
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
    if (vector.row.target != 0 && is_open) {
      run_whole_vectors(tile, vector, i, vectors);
    } else {
      if (vector.row.target != 0) vector_by_elements(tile, vector);
      vectors &= vectors - 1;
    }
  }
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
                       uint32_t unit_count, uint32_t* status) {
  __shared__ tile_state tile;
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
  if (threadIdx.x == 0) {
    uint32_t tiles = tile_first[number + 1] - tile_first[number];
    tile.data = reinterpret_cast<uint64_t>(wave) + tile.unit.data - tile.unit.data_first;
    begin_tile(tile, units_at, blockIdx.x - tile_first[number], tiles);
    if (tile.unit.folded != 0 && !has_folds) tile.is_good = 0;
    // The lowest number has the highest complement.
    if (!tile.is_good) atomicMax(status, ~number);
  }
#ifndef WAVETRAIN_MUTATE_3
  __syncthreads();
#endif
  if (!tile.is_good) return;
  run_tile(tile);
}
