// Vectors by single elements: any type, size, order, distance and filter. The slow, general way.
#pragma once
#include "convert.cuh"
#include "tile.cuh"

// An element of up to 16 bytes, least significant first.
struct element_bits {
  uint64_t low;
  uint64_t high;
};

// Whether an element of 1, 2, 4 or 8 bytes lies where it may be loaded or stored at once. Of
// another size the answer means nothing, and is not used: no branch below is for it. (A remainder
// by a number that is not known here is a division.)
__device__ __forceinline__ bool is_aligned(uint64_t address, uint32_t bytes) {
  return (address & (bytes - 1u)) == 0;
}

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
  if (is_plain && is_aligned(source, bytes)) {
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
  if (is_aligned(target, bytes)) {
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
