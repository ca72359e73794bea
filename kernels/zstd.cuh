// What the kernels for zstd frames (RFC 8878) share: blocks, bits, and tables of FSE.
//
// A frame is decoded in three steps, each a kernel: literals and sequences of all blocks of all
// frames, side by side, into scratch memory, then each frame's sequences in their order.
//
// In: blocks that src/decode/zstd_blocks.rs found in a frame, sections that it measured. All is
// checked again where it is used: what a kernel loads lies in the content of a block, what it
// stores in the block's scratch or in the frame's target.
//
// A warp has eight groups of lanes for eight blocks, because a block has little that lanes can do
// at once: four streams of literals, three tables, one stream of sequences.
#pragma once
#include "streams.cuh"

constexpr uint32_t kZstdGroups = kStreamLanes == 1 ? 1 : 8;
constexpr uint32_t kGroupLanes = kStreamLanes / kZstdGroups;
static_assert(kGroupLanes > 0, "a group has lanes");

constexpr uint32_t kBlockBytesMax = 128 << 10;

// The record of src/device/streams.rs.
struct wavetrain_zstd_block {
  uint64_t source;
  // How many blocks before this one those lie that describe its tree and its three tables.
  uint16_t back[4];
  uint32_t source_bytes;
  // Bytes that a raw block or a run becomes, or bytes of scratch.
  uint32_t bytes;
  uint32_t kind;
  // Place of the scratch, in units of kScratchUnit.
  uint32_t scratch;
};
static_assert(sizeof(wavetrain_zstd_block) == 32, "two loads are a record");

enum : uint32_t { kBlockRaw = 0, kBlockRun = 1, kBlockCompressed = 2 };
enum : uint32_t { kTree = 0, kLiteralLengths = 1, kOffsets = 2, kMatchLengths = 3 };
enum : uint32_t { kLiteralsRaw = 0, kLiteralsRun = 1, kLiteralsTree = 2, kLiteralsTreeless = 3 };
enum : uint32_t { kModePredefined = 0, kModeRun = 1, kModeTable = 2, kModeRepeat = 3 };

// The scratch of a block: two words of status, its literals if they are compressed, and its
// sequences.
constexpr uint32_t kScratchUnit = 16;
constexpr uint32_t kScratchHead = 16;

// Bits of a sequence: 30 of an offset, 17 of literals, 17 of a match less 3.
constexpr uint32_t kOffsetBits = 30;
constexpr uint32_t kLengthBits = 17;
constexpr uint32_t kZstdMatchMin = 3;

// Where the sections of a compressed block lie in its content.
struct zstd_sections {
  uint32_t literals_kind;
  uint32_t literals_at;
  uint32_t literals_source_bytes;
  uint32_t literals;
  uint32_t literal_streams;
  uint32_t sequences;
  uint32_t modes;
  // Of the first table, or of nothing where there is no sequence.
  uint32_t tables_at;
};

__device__ __forceinline__ uint32_t zstd_group() { return stream_lane() / kGroupLanes; }
__device__ __forceinline__ uint32_t group_lane() { return stream_lane() % kGroupLanes; }

// The content of a block, whose places are counted from its first byte.
struct zstd_content {
  const uint8_t* bytes;
  uint32_t count;
};

__device__ __forceinline__ uint32_t content_byte(const zstd_content& content, uint32_t at) {
  return at < content.count ? __ldg(content.bytes + at) : 0;
}

// Four bytes from `at` on, which may be negative; 0 for those outside.
__device__ __forceinline__ uint32_t content_word(const zstd_content& content, int32_t at) {
  const uint8_t* place = content.bytes + at;
  bool is_inside = at >= 0 && static_cast<uint32_t>(at) + 4 <= content.count;
  if (is_inside && reinterpret_cast<uintptr_t>(place) % 4 == 0) {
    WAVETRAIN_WATCH(place, 4);
    return __ldg(reinterpret_cast<const uint32_t*>(place));
  }
  uint32_t word = 0;
#pragma unroll
  for (int32_t i = 0; i < 4; i++) {
    bool is_ours = at + i >= 0 && at + i < static_cast<int32_t>(content.count);
    word |= (is_ours ? static_cast<uint32_t>(__ldg(place + i)) : 0u) << 8 * i;
  }
  return word;
}

// The head of the literals: 1 to 5 bytes.
__device__ __forceinline__ bool find_literals(const zstd_content& content, zstd_sections& found) {
  uint32_t low = content_word(content, 0), format = low >> 2 & 3;
  found.literals_kind = low & 3;
  uint32_t head = 0;
  if (found.literals_kind <= kLiteralsRun) {
    head = format == 3 ? 3 : format == 1 ? 2 : 1;
    found.literals = format == 3   ? low >> 4 & 0xFFFFF
                     : format == 1 ? low >> 4 & 0xFFF
                                   : (low & 255) >> 3;
    found.literals_source_bytes = found.literals_kind == kLiteralsRun ? 1 : found.literals;
    found.literal_streams = 0;
  } else {
    uint32_t bits = format == 3 ? 18 : format == 2 ? 14 : 10;
    head = format == 3 ? 5 : format == 2 ? 4 : 3;
    uint64_t both = (static_cast<uint64_t>(content_byte(content, 4)) << 32 | low) >> 4;
    found.literals = static_cast<uint32_t>(both) & ((1u << bits) - 1);
    found.literals_source_bytes = static_cast<uint32_t>(both >> bits) & ((1u << bits) - 1);
    found.literal_streams = format == 0 ? 1 : 4;
  }
  found.literals_at = head;
  bool is_inside = head <= content.count && found.literals_source_bytes <= content.count - head;
  return is_inside && found.literals <= kBlockBytesMax;
}

// Finds the sections; false where there is none such.
__device__ __forceinline__ bool find_sections(const zstd_content& content, zstd_sections& found) {
  found = {};
  if (!find_literals(content, found)) return false;
  uint32_t at = found.literals_at + found.literals_source_bytes;
  if (at >= content.count) return false;
  uint32_t first = content_byte(content, at), second = content_byte(content, at + 1);
  uint32_t head = first < 128 ? 1 : first < 255 ? 2 : 3;
  found.sequences = head == 1   ? first
                    : head == 2 ? (first - 128) << 8 | second
                                : (second | content_byte(content, at + 2) << 8) + 0x7F00;
  at += head;
  found.tables_at = at;
  if (found.sequences == 0) return at == content.count;
  if (at >= content.count) return false;
  found.modes = content_byte(content, at);
  found.tables_at = at + 1;
  return (found.modes & 3) == 0;
}

// Bytes of scratch that a compressed block takes.
__device__ __forceinline__ uint32_t scratch_literals(const zstd_sections& found) {
  bool is_compressed = found.literals_kind >= kLiteralsTree;
  return is_compressed ? (found.literals + 7) / 8 * 8 : 0;
}

__device__ __forceinline__ uint64_t scratch_bytes(const zstd_sections& found) {
  return kScratchHead + scratch_literals(found) + 8ull * found.sequences;
}

// A block that a kernel may work on: its content lies in the wave, its scratch in the arena.
__device__ __forceinline__ bool is_sound(const wavetrain_zstd_block& block, uint64_t wave_bytes,
                                         uint64_t arena_bytes) {
  if (block.kind > kBlockCompressed) return false;
#ifndef WAVETRAIN_MUTATE_27
  if (!is_within(block.source, block.source_bytes, wave_bytes)) return false;
#endif
  if (block.source_bytes > kBlockBytesMax) return false;
  if (block.kind != kBlockCompressed) return block.bytes <= kBlockBytesMax;
#ifdef WAVETRAIN_MUTATE_28
  arena_bytes = ~0ull;
#endif
  return is_within(static_cast<uint64_t>(block.scratch) * kScratchUnit, block.bytes, arena_bytes);
}

// A stream of bits that is read from its last byte to its first. `left` counts those that are to
// come; what is read behind the last is anything.
struct zstd_bits {
  zstd_content content;
  uint64_t window;
  int32_t have;
  // Place of the word in `next`.
  int32_t at;
  uint32_t next;
  int32_t left;
};

__device__ __forceinline__ void fill_bits(zstd_bits& bits) {
  if (bits.have > 32) return;
  bits.window |= static_cast<uint64_t>(bits.next) << (32 - bits.have);
  bits.have += 32;
  bits.at = max(bits.at - 4, -4);
  bits.next = content_word(bits.content, bits.at);
}

// At most 32 bits, of which there are so many behind fill_bits.
__device__ __forceinline__ uint32_t look_at_bits(const zstd_bits& bits, uint32_t count) {
  return static_cast<uint32_t>(bits.window >> 1 >> (63 - count));
}

__device__ __forceinline__ void skip_bits(zstd_bits& bits, uint32_t count) {
  bits.window <<= count;
  bits.have -= static_cast<int32_t>(count);
  bits.left -= static_cast<int32_t>(count);
}

__device__ __forceinline__ uint32_t read_bits(zstd_bits& bits, uint32_t count) {
  uint32_t value = look_at_bits(bits, count);
  skip_bits(bits, count);
  return value;
}

// The stream of `count` bytes from `first` on; the highest bit of the last byte ends it. False
// where there is none.
__device__ __forceinline__ bool begin_bits(zstd_bits& bits, const zstd_content& content,
                                           uint32_t first, uint32_t count) {
  if (count == 0 || first > content.count || count > content.count - first) return false;
  uint32_t last = content_byte(content, first + count - 1);
  if (last == 0) return false;
  bits.content = {content.bytes + first, count};
  uint32_t mark = 31 - static_cast<uint32_t>(__clz(static_cast<int>(last)));
  bits.left = static_cast<int32_t>(8 * (count - 1) + mark);
  // Words lie where loads of them are aligned: the last one may reach behind the stream.
  uint32_t skew = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(bits.content.bytes) % 4);
  int32_t word = static_cast<int32_t>((skew + count - 1) / 4 * 4) - static_cast<int32_t>(skew);
  uint32_t behind = static_cast<uint32_t>(word) + 4 - count;
  uint64_t high = content_word(bits.content, word), low = content_word(bits.content, word - 4);
  uint32_t drop = 8 * behind + 8 - mark;
  bits.window = (high << 32 | low) << drop;
  bits.have = 64 - static_cast<int32_t>(drop);
  bits.at = max(word - 8, -4);
  bits.next = content_word(bits.content, bits.at);
  return true;
}

// An entry of a table of FSE: from a state to the symbol, and to the next state.
__device__ __forceinline__ uint32_t fse_entry(uint32_t symbol, uint32_t bits, uint32_t base) {
  return symbol << 16 | bits << 12 | base;
}
__device__ __forceinline__ uint32_t fse_symbol(uint32_t entry) { return entry >> 16; }
__device__ __forceinline__ uint32_t fse_bits(uint32_t entry) { return entry >> 12 & 15; }
__device__ __forceinline__ uint32_t fse_base(uint32_t entry) { return entry & 0xFFF; }

// Symbols of a table at most: 53 lengths of matches.
constexpr uint32_t kFseSymbols = 56;

// What a description says: how often each symbol comes, -1 for less than once.
struct fse_counts {
  int16_t count[kFseSymbols];
};

struct fse_shape {
  uint32_t log;
  uint32_t symbols;
};

// Reads the description that begins at `at`, and moves `at` behind it; false where it is none.
__device__ __noinline__ bool read_counts(const zstd_content& content, uint32_t& at,
                                         uint32_t log_max, uint32_t symbols_max,
                                         fse_counts& counts, fse_shape& shape) {
  uint32_t bit = 8 * at;
  auto look = [&](uint32_t count) {
    uint32_t low = content_word(content, static_cast<int32_t>(bit / 8));
    return low >> bit % 8 & ((1u << count) - 1);
  };
  shape.log = look(4) + 5;
  if (shape.log > log_max) return false;
  bit += 4;
  int32_t left = (1 << shape.log) + 1, threshold = 1 << shape.log;
  uint32_t width = shape.log + 1, symbol = 0;
  // Ends: every turn takes a symbol.
#pragma unroll 1
  while (left > 1 && symbol < symbols_max) {
    int32_t value = static_cast<int32_t>(look(width)), low = value & (threshold - 1);
    int32_t most = 2 * threshold - 1 - left;
    bool is_short = low < most;
    if (is_short) value = low;
    if (!is_short && value >= threshold) value -= most;
    bit += is_short ? width - 1 : width;
    int32_t count = value - 1;
    left -= count < 0 ? -count : count;
    counts.count[symbol++] = static_cast<int16_t>(count);
    // Zeros come as numbers of two bits, up to the first that is not 3.
    bool is_run = count == 0;
#pragma unroll 1
    while (is_run) {
      uint32_t more = look(2);
      bit += 2;
      is_run = more == 3;
      for (uint32_t i = 0; i < more && symbol < symbols_max; i++) counts.count[symbol++] = 0;
      if (more && symbol == symbols_max) is_run = false;
    }
#pragma unroll 1
    while (left < threshold && threshold > 1) {
      width--;
      threshold >>= 1;
    }
  }
  shape.symbols = symbol;
  at = (bit + 7) / 8;
  return left == 1 && at <= content.count;
}

// Fills the table; false where the counts are none of one.
__device__ __noinline__ bool make_table(uint32_t* table, fse_counts& counts,
                                        const fse_shape& shape) {
  uint32_t size = 1u << shape.log, high = size, mask = size - 1;
#pragma unroll 1
  for (uint32_t symbol = 0; symbol < shape.symbols; symbol++) {
    if (counts.count[symbol] == -1) table[--high] = symbol;
  }
  uint32_t place = 0, step = (size >> 1) + (size >> 3) + 3;
#pragma unroll 1
  for (uint32_t symbol = 0; symbol < shape.symbols; symbol++) {
#pragma unroll 1
    for (int32_t i = 0; i < counts.count[symbol]; i++) {
      table[place] = symbol;
      // Ends: a step is odd, so the places go round all of the table.
      do place = (place + step) & mask;
      while (place >= high);
    }
    if (counts.count[symbol] == -1) counts.count[symbol] = 1;
  }
#pragma unroll 1
  for (uint32_t state = 0; state < size; state++) {
    uint32_t symbol = table[state];
    uint32_t next = static_cast<uint32_t>(counts.count[symbol]++);
    uint32_t bits = shape.log - (31 - static_cast<uint32_t>(__clz(static_cast<int>(next))));
    table[state] = fse_entry(symbol, bits, (next << bits) - size);
  }
  return place == 0;
}
