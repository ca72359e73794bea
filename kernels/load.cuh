// Elements of a decoded chunk in registers: side by side, or out of the blocks of blosc's filters.
//
// Block by block as src/decode/unshuffle.rs: bytes behind the last whole element stay where they
// are, elements of one byte have no bytes to shuffle, and where a block's elements are not a
// multiple of 8 their bits stay too.
#pragma once
#include "tile.cuh"

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

// The kCount elements that words are, each in its own register.
template <int kWords, int kCount>
__device__ __forceinline__ void split_words(const uint32_t (&words)[kWords],
                                            uint32_t (&raw)[kCount]) {
  constexpr int kInWord = kCount / kWords, kBits = 32 / kInWord;
  static_assert(kInWord == 2 || kInWord == 4, "elements of 2 bytes, or of 1");
#pragma unroll
  for (int i = 0; i < kCount; i++) {
    raw[i] = words[i / kInWord] >> kBits * (i % kInWord) & ((1u << kBits) - 1);
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
    split_words(words, raw);
  } else if (bytes == 1) {
    uint32_t words[kCount / 4];
    load_words(at, words);
    split_words(words, raw);
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
