// wavetrain_zstd_literals, _sequences, _frames: from zstd frames of a wave to their bytes.
//
// In: blocks of frames (zstd.cuh), side by side from `blocks_at` on. Out: literals and sequences in
// the scratch of each block, then the targets of streams in `decoded`, and their words of status.
// Invariant: kStreamDone is said of a frame only if libzstd takes it and fills the target with the
// same bytes; less is taken than libzstd takes, of what no writer writes.
//
// Ends: a table has as many entries as its log says, a stream of bits is read as often as its head
// says, and of a frame's sequences each is looked at once.
//
// WAVETRAIN_MUTATE_n takes a barrier or a guard away, for the test that each is needed.
//
// This file is over 500 lines because its three kernels are one PTX module, and find blocks and
// scratch by the same functions.
#include "zstd.cuh"

constexpr uint32_t kTreeLogMax = 11;
constexpr uint32_t kTreeSymbols = 256;
constexpr uint32_t kWeightMax = kTreeLogMax;
constexpr uint32_t kWeightLogMax = 6;

// What a group has of a tree.
struct zstd_tree {
  // First a table of FSE for the weights, then bits of the code and its symbol.
  union {
    uint16_t entries[1 << kTreeLogMax];
    uint32_t weight_table[1 << kWeightLogMax];
  };
  fse_counts counts;
  uint8_t weights[kTreeSymbols];
  uint32_t symbols;
  uint32_t log;
  // Where streams begin behind it; 0: there is no tree.
  uint32_t end;
  uint32_t is_broken;
};

// Reads the weights that a table of FSE encodes: 0 where they are none.
__device__ __forceinline__ uint32_t read_fse_weights(const zstd_content& content, zstd_tree& tree) {
  uint32_t at = 0, count = 0;
  fse_shape shape = {};
  if (!read_counts(content, at, kWeightLogMax, kWeightMax + 1, tree.counts, shape)) return 0;
  if (!make_table(tree.weight_table, tree.counts, shape)) return 0;
  zstd_bits bits = {};
  if (!begin_bits(bits, content, at, content.count - at)) return 0;
  uint32_t states[2];
  fill_bits(bits);
  states[0] = read_bits(bits, shape.log);
  states[1] = read_bits(bits, shape.log);
  if (bits.left < 0) return 0;
  // Two states take turns. The bits end in the middle of a step, whose symbol is the other's.
#pragma unroll 1
  for (uint32_t turn = 0; count + 2 < kTreeSymbols; turn ^= 1) {
    uint32_t entry = tree.weight_table[turn ? states[1] : states[0]];
    tree.weights[count++] = static_cast<uint8_t>(fse_symbol(entry));
    fill_bits(bits);
    uint32_t next = fse_base(entry) + read_bits(bits, fse_bits(entry));
    if (turn) states[1] = next;
    else states[0] = next;
    if (bits.left < 0) {
      uint32_t last = tree.weight_table[turn ? states[0] : states[1]];
      tree.weights[count++] = static_cast<uint8_t>(fse_symbol(last));
      return count;
    }
  }
  return 0;
}

// Reads a tree from the head of the literals; false where there is none.
__device__ __noinline__ bool read_tree(const zstd_content& content, zstd_tree& tree) {
  uint32_t head = content_byte(content, 0), count = 0;
  bool is_plain = head >= 128;
  uint32_t bytes = is_plain ? (head - 127 + 1) / 2 : head;
  if (1 + bytes > content.count) return false;
  tree.end = 1 + bytes;
  if (is_plain) {
    count = head - 127;
#pragma unroll 1
    for (uint32_t i = 0; i < count; i++) {
      tree.weights[i] = content_byte(content, 1 + i / 2) >> (i % 2 ? 0 : 4) & 15;
    }
  } else {
    count = read_fse_weights({content.bytes + 1, bytes}, tree);
  }
  uint32_t sum = 0, ones = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < count; i++) {
    if (tree.weights[i] > kWeightMax) return false;
    sum += 1u << tree.weights[i] >> 1;
    ones += tree.weights[i] == 1;
  }
  if (sum == 0) return false;
  // The last weight is what is left to a power of two.
  tree.log = 32 - static_cast<uint32_t>(__clz(static_cast<int>(sum)));
  if (tree.log > kTreeLogMax) return false;
  uint32_t rest = (1u << tree.log) - sum;
  if (rest & (rest - 1)) return false;
  uint32_t last = 32 - static_cast<uint32_t>(__clz(static_cast<int>(rest)));
  tree.weights[count] = static_cast<uint8_t>(last);
  tree.symbols = count + 1;
  ones += last == 1;
  return ones >= 2 && ones % 2 == 0;
}

// Fills the entries from the weights, all lanes of a group together.
__device__ __forceinline__ void fill_tree(zstd_tree& tree) {
  uint32_t start = 0;
#pragma unroll 1
  for (uint32_t weight = 1; weight <= tree.log; weight++) {
#pragma unroll 1
    for (uint32_t symbol = 0; symbol < tree.symbols; symbol++) {
      if (tree.weights[symbol] != weight) continue;
      uint32_t span = 1u << weight >> 1, bits = tree.log + 1 - weight;
#pragma unroll 1
      for (uint32_t i = group_lane(); i < span; i += kGroupLanes) {
        tree.entries[start + i] = static_cast<uint16_t>(bits << 8 | symbol);
      }
      start += span;
    }
  }
}

__device__ __forceinline__ uint32_t next_literal(zstd_bits& bits, const zstd_tree& tree) {
  uint32_t entry = tree.entries[look_at_bits(bits, tree.log)];
  skip_bits(bits, entry >> 8);
  return entry & 255;
}

// Decodes a stream of literals; whether it ends where its bits do.
__device__ __forceinline__ bool decode_literals(zstd_bits& bits, const zstd_tree& tree,
                                                uint8_t* target, uint32_t count) {
  uint32_t i = 0;
  uint32_t head = static_cast<uint32_t>(-reinterpret_cast<uintptr_t>(target) % 4);
#pragma unroll 1
  for (; i < min(head, count); i++) {
    fill_bits(bits);
    target[i] = static_cast<uint8_t>(next_literal(bits, tree));
  }
  // Two codes are at most 22 bits.
#pragma unroll 1
  for (; i + 4 <= count; i += 4) {
    fill_bits(bits);
    uint32_t word = next_literal(bits, tree);
    word |= next_literal(bits, tree) << 8;
    fill_bits(bits);
    word |= next_literal(bits, tree) << 16;
    word |= next_literal(bits, tree) << 24;
    *reinterpret_cast<uint32_t*>(target + i) = word;
  }
#pragma unroll 1
  for (; i < count; i++) {
    fill_bits(bits);
    target[i] = static_cast<uint8_t>(next_literal(bits, tree));
  }
  return bits.left == 0;
}

// Decodes one of a block's streams of literals into its scratch.
__device__ __forceinline__ bool decode_stream(const zstd_content& content, uint32_t number,
                                              const zstd_sections& found, const zstd_tree& tree,
                                              uint8_t* target) {
  uint32_t first = tree.end, bytes = content.count - first, begin = 0, count = found.literals;
  if (found.literal_streams == 4) {
    if (bytes < 6 || count < 6) return false;
    uint32_t sum = 0, share = (count + 3) / 4;
#pragma unroll 1
    for (uint32_t i = 0; i <= number; i++) {
      uint32_t at = tree.end + 2 * i, left = bytes - 6 - sum;
      uint32_t size = content_byte(content, at) | content_byte(content, at + 1) << 8;
      if (i == 3) size = left;
      if (size > left) return false;
      first = tree.end + 6 + sum;
      sum += size;
      if (i == number) bytes = size;
    }
    begin = number * share;
    if (begin > count) return false;
    count = number == 3 ? count - begin : share;
    if (count > found.literals - begin) return false;
  }
  zstd_bits bits = {};
  if (!begin_bits(bits, content, first, bytes)) return false;
  return decode_literals(bits, tree, target + begin, count);
}

__device__ __forceinline__ zstd_content content_of(const uint8_t* wave,
                                                   const wavetrain_zstd_block& block) {
  return {wave + block.source, block.source_bytes};
}

// The sections of a sound compressed block, whose scratch is as large as they say.
__device__ __forceinline__ bool sections_of(const wavetrain_zstd_block& block, const uint8_t* wave,
                                            uint64_t wave_bytes, uint64_t arena_bytes,
                                            zstd_sections& found) {
  if (block.kind != kBlockCompressed || !is_sound(block, wave_bytes, arena_bytes)) return false;
  return find_sections(content_of(wave, block), found) && scratch_bytes(found) <= block.bytes;
}

struct zstd_wave {
  const uint8_t* wave;
  uint64_t wave_bytes;
  const wavetrain_zstd_block* blocks;
  uint32_t block_count;
  uint8_t* arena;
  uint64_t arena_bytes;
};

// The block before `number` that describes what this one repeats.
__device__ __forceinline__ bool find_back(const zstd_wave& in, uint32_t number, uint32_t what,
                                          wavetrain_zstd_block& block, zstd_sections& found) {
  uint32_t back = in.blocks[number].back[what];
  if (back > number) return false;
  block = in.blocks[number - back];
  return sections_of(block, in.wave, in.wave_bytes, in.arena_bytes, found);
}

__device__ __forceinline__ uint8_t* scratch_of(const zstd_wave& in,
                                               const wavetrain_zstd_block& block) {
  return in.arena + static_cast<uint64_t>(block.scratch) * kScratchUnit;
}

__device__ __forceinline__ zstd_content literals_of(const zstd_content& content,
                                                    const zstd_sections& found) {
  return {content.bytes + found.literals_at, found.literals_source_bytes};
}

// Word 0 of a block's scratch is for its literals.
extern "C" __global__ void __launch_bounds__(kStreamLanes)
    wavetrain_zstd_literals(const uint8_t* wave, uint64_t wave_bytes, uint64_t blocks_at,
                            uint32_t block_count, uint8_t* arena, uint64_t arena_bytes) {
  __shared__ zstd_tree trees[kZstdGroups];
  zstd_tree& tree = trees[zstd_group()];
  const auto* blocks = reinterpret_cast<const wavetrain_zstd_block*>(wave + blocks_at);
  zstd_wave in = {wave, wave_bytes, blocks, block_count, arena, arena_bytes};
  uint32_t number = blockIdx.x * kZstdGroups + zstd_group();
  wavetrain_zstd_block block = {};
  zstd_sections found = {};
  bool is_block = number < block_count;
  if (is_block) block = blocks[number];
  is_block = is_block && sections_of(block, wave, wave_bytes, arena_bytes, found) &&
             found.literals_kind >= kLiteralsTree;
  if (group_lane() == 0) {
    wavetrain_zstd_block owner = block;
    zstd_sections there = found;
    bool is_tree = is_block;
    bool is_own = found.literals_kind == kLiteralsTree;
    if (is_tree && !is_own) is_tree = find_back(in, number, kTree, owner, there);
    is_tree = is_tree && there.literals_kind == kLiteralsTree;
    if (is_tree) is_tree = read_tree(literals_of(content_of(wave, owner), there), tree);
    tree.is_broken = !is_tree;
    if (!is_own) tree.end = 0;
  }
#ifndef WAVETRAIN_MUTATE_34
  __syncwarp();
#endif
  bool is_sound = is_block && !tree.is_broken;
  if (is_sound) fill_tree(tree);
#ifndef WAVETRAIN_MUTATE_35
  __syncwarp();
#endif
  if (is_sound) {
    uint8_t* target = scratch_of(in, block) + kScratchHead;
    zstd_content content = literals_of(content_of(wave, block), found);
#pragma unroll 1
    for (uint32_t i = group_lane(); i < found.literal_streams; i += kGroupLanes) {
      if (!decode_stream(content, i, found, tree, target)) tree.is_broken = 1;
    }
  }
  __syncwarp();
  if (is_block && group_lane() == 0) {
    uint32_t result = tree.is_broken ? kStreamBroken : kStreamDone;
    reinterpret_cast<uint32_t*>(scratch_of(in, block))[0] = result;
  }
}

constexpr uint32_t kTables = 3;
constexpr uint32_t kTableEntries = 512 + 256 + 512;

// By table: literal lengths, offsets, match lengths.
__constant__ uint8_t kTableLogs[kTables] = {9, 8, 9};
__constant__ uint16_t kTableFirst[kTables] = {0, 512, 768};
__constant__ uint8_t kTableSymbols[kTables] = {36, 32, 53};
__constant__ uint8_t kPredefinedLogs[kTables] = {6, 5, 6};
__constant__ uint8_t kPredefinedSymbols[kTables] = {36, 29, 53};
__constant__ int8_t kPredefined[kTables][kFseSymbols] = {
    {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2,
     2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1},
    {1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1},
    {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1,  1, 1,
     1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1},
};

// From the code of a length to its first value, and to the bits that are added.
__device__ __forceinline__ uint32_t literal_length(uint32_t code, uint32_t& bits) {
  bits = code < 16 ? 0 : code < 20 ? 1 : code < 22 ? 2 : code < 24 ? 3 : code == 24 ? 4 : code - 19;
  if (code < 16) return code;
  if (code < 20) return 16 + 2 * (code - 16);
  if (code < 22) return 24 + 4 * (code - 20);
  if (code < 24) return 32 + 8 * (code - 22);
  return code == 24 ? 48 : 1u << (code - 19);
}

__device__ __forceinline__ uint32_t match_length(uint32_t code, uint32_t& bits) {
  bits = code < 32 ? 0 : code < 36 ? 1 : code < 38 ? 2 : code < 40 ? 3 : code < 42 ? 4
         : code == 42 ? 5 : code - 36;
  if (code < 32) return code;
  if (code < 36) return 32 + 2 * (code - 32);
  if (code < 38) return 40 + 4 * (code - 36);
  if (code < 40) return 48 + 8 * (code - 38);
  if (code < 42) return 64 + 16 * (code - 40);
  return code == 42 ? 96 : 1u << (code - 36);
}

// What a group has of three tables.
struct zstd_tables {
  uint32_t entries[kTableEntries];
  fse_counts counts[kTables];
  uint32_t logs[kTables];
  // Where the block goes on behind those that it describes itself.
  uint32_t ends[kTables];
  uint32_t is_broken;
};

__device__ __forceinline__ uint32_t mode_of(const zstd_sections& found, uint32_t table) {
  return found.modes >> (6 - 2 * table) & 3;
}

// Makes one table as a block describes it, and moves `at` behind its description.
__device__ __noinline__ bool describe_table(const zstd_content& content,
                                            const zstd_sections& found, uint32_t table,
                                            zstd_tables& tables, uint32_t& at) {
  fse_shape shape = {};
  fse_counts& counts = tables.counts[table];
  at = found.tables_at;
#pragma unroll 1
  for (uint32_t i = 0; i <= table; i++) {
    uint32_t mode = mode_of(found, i);
    if (mode == kModeTable) {
      if (!read_counts(content, at, kTableLogs[i], kTableSymbols[i], counts, shape)) return false;
    }
    if (mode == kModeRun) at++;
  }
  uint32_t mode = mode_of(found, table), *entries = tables.entries + kTableFirst[table];
  if (mode == kModeRun) {
    uint32_t symbol = content_byte(content, at - 1);
    entries[0] = fse_entry(symbol, 0, 0);
    tables.logs[table] = 0;
    return at <= content.count && symbol < kTableSymbols[table];
  }
  if (mode == kModePredefined) {
    shape = {kPredefinedLogs[table], kPredefinedSymbols[table]};
    for (uint32_t i = 0; i < shape.symbols; i++) counts.count[i] = kPredefined[table][i];
  }
  tables.logs[table] = shape.log;
  return mode != kModeRepeat && make_table(entries, counts, shape);
}

// Makes one of the tables of a block, its own or that of a block before it.
__device__ __forceinline__ bool make_own_table(const zstd_wave& in, uint32_t number,
                                               const wavetrain_zstd_block& block,
                                               const zstd_sections& found, uint32_t table,
                                               zstd_tables& tables) {
  wavetrain_zstd_block owner = block;
  zstd_sections there = found;
  bool is_own = mode_of(found, table) != kModeRepeat;
  tables.ends[table] = found.tables_at;
  if (!is_own && !find_back(in, number, 1 + table, owner, there)) return false;
  if (there.sequences == 0) return false;
  uint32_t at = 0;
  if (!describe_table(content_of(in.wave, owner), there, table, tables, at)) return false;
  if (is_own) tables.ends[table] = at;
  return true;
}

// Decodes the sequences of a block into its scratch: false where their bits end elsewhere.
__device__ __forceinline__ bool decode_sequences(const zstd_content& content,
                                                 const zstd_sections& found,
                                                 const zstd_tables& tables, uint64_t* sequences) {
  uint32_t first = max(max(tables.ends[0], tables.ends[1]), tables.ends[2]);
  zstd_bits bits = {};
  if (first > content.count) return false;
  if (!begin_bits(bits, content, first, content.count - first)) return false;
  fill_bits(bits);
  uint32_t literals = read_bits(bits, tables.logs[0]), offsets = read_bits(bits, tables.logs[1]);
  fill_bits(bits);
  uint32_t matches = read_bits(bits, tables.logs[2]);
#pragma unroll 1
  for (uint32_t i = 0; i < found.sequences; i++) {
    uint32_t literal_entry = tables.entries[kTableFirst[0] + literals];
    uint32_t offset_entry = tables.entries[kTableFirst[1] + offsets];
    uint32_t match_entry = tables.entries[kTableFirst[2] + matches];
    uint32_t code = fse_symbol(offset_entry), literal_bits = 0, match_bits = 0;
    if (code >= kOffsetBits) return false;
    fill_bits(bits);
    uint64_t offset = (1u << code) + read_bits(bits, code);
    uint64_t length = literal_length(fse_symbol(literal_entry), literal_bits);
    uint64_t match = match_length(fse_symbol(match_entry), match_bits);
    fill_bits(bits);
    match += read_bits(bits, match_bits);
    length += read_bits(bits, literal_bits);
    sequences[i] = match << (kOffsetBits + kLengthBits) | length << kOffsetBits | offset;
    if (i + 1 < found.sequences) {
      fill_bits(bits);
      literals = fse_base(literal_entry) + read_bits(bits, fse_bits(literal_entry));
      matches = fse_base(match_entry) + read_bits(bits, fse_bits(match_entry));
      offsets = fse_base(offset_entry) + read_bits(bits, fse_bits(offset_entry));
    }
  }
  return bits.left == 0;
}

// Word 1 of a block's scratch is for its sequences.
extern "C" __global__ void __launch_bounds__(kStreamLanes)
    wavetrain_zstd_sequences(const uint8_t* wave, uint64_t wave_bytes, uint64_t blocks_at,
                             uint32_t block_count, uint8_t* arena, uint64_t arena_bytes) {
  __shared__ zstd_tables group_tables[kZstdGroups];
  zstd_tables& tables = group_tables[zstd_group()];
  const auto* blocks = reinterpret_cast<const wavetrain_zstd_block*>(wave + blocks_at);
  zstd_wave in = {wave, wave_bytes, blocks, block_count, arena, arena_bytes};
  uint32_t number = blockIdx.x * kZstdGroups + zstd_group();
  wavetrain_zstd_block block = {};
  zstd_sections found = {};
  bool is_block = number < block_count;
  if (is_block) block = blocks[number];
  is_block = is_block && sections_of(block, wave, wave_bytes, arena_bytes, found) &&
             found.sequences > 0;
  if (group_lane() == 0) tables.is_broken = 0;
  __syncwarp();
  if (is_block) {
#pragma unroll 1
    for (uint32_t table = group_lane(); table < kTables; table += kGroupLanes) {
      if (!make_own_table(in, number, block, found, table, tables)) tables.is_broken = 1;
    }
  }
#ifndef WAVETRAIN_MUTATE_36
  __syncwarp();
#endif
  if (!is_block || group_lane() != 0) return;
  uint8_t* scratch = scratch_of(in, block);
  auto* sequences = reinterpret_cast<uint64_t*>(scratch + kScratchHead + scratch_literals(found));
  bool is_done = !tables.is_broken;
  if (is_done) is_done = decode_sequences(content_of(wave, block), found, tables, sequences);
  reinterpret_cast<uint32_t*>(scratch)[1] = is_done ? kStreamDone : kStreamBroken;
}

// From here on a warp has a frame.
constexpr uint32_t kAll = 0xFFFFFFFF;
// From how many bytes on all lanes copy what is one lane's.
constexpr uint32_t kLongBytes = 32;

__device__ __forceinline__ uint32_t from_lane(uint32_t value, uint32_t lane) {
  return __shfl_sync(kAll, value, static_cast<int>(lane));
}

// The sum of a value of this lane and all before it.
__device__ __forceinline__ uint32_t sum_lanes(uint32_t value) {
#pragma unroll
  for (uint32_t step = 1; step < kStreamLanes; step *= 2) {
    uint32_t other = __shfl_up_sync(kAll, value, step);
    if (stream_lane() >= step) value += other;
  }
  return value;
}

// The last three offsets.
struct zstd_history {
  uint32_t offset[3];
};

// Takes the offsets of lanes into the history.
__device__ __forceinline__ void remember(zstd_history& history, uint32_t offset, uint32_t from,
                                         uint32_t to) {
#pragma unroll 1
  for (uint32_t lane = max(from + 3, to) - 3; lane < to; lane++) {
    history.offset[2] = history.offset[1];
    history.offset[1] = history.offset[0];
    history.offset[0] = from_lane(offset, lane);
  }
}

// What a lane has of a sequence, and where its parts go.
struct zstd_step {
  uint32_t literals;
  uint32_t match;
  // As it is encoded, then the distance.
  uint32_t offset;
  uint32_t literals_at;
  uint32_t place;
};

// From codes of offsets to distances.
__device__ __forceinline__ void find_offsets(zstd_history& history, zstd_step& step,
                                             uint32_t count) {
  uint32_t lane = stream_lane(), code = step.offset;
  uint32_t repeats = __ballot_sync(kAll, lane < count && code <= 3), known = 0;
  step.offset = code - 3;
  // Ends: every turn takes a lane.
#pragma unroll 1
  while (repeats) {
    uint32_t at = static_cast<uint32_t>(__ffs(static_cast<int>(repeats)) - 1);
    repeats &= repeats - 1;
    remember(history, step.offset, known, at);
    uint32_t which = from_lane(code, at) - (from_lane(step.literals, at) != 0);
    uint32_t found = which == 3   ? history.offset[0] - 1
                     : which == 2 ? history.offset[2]
                     : which == 1 ? history.offset[1]
                                  : history.offset[0];
    if (which >= 2) history.offset[2] = history.offset[1];
    if (which >= 1) history.offset[1] = history.offset[0];
    history.offset[0] = found;
    if (lane == at) step.offset = found;
    known = at + 1;
  }
  remember(history, step.offset, known, count);
}

// Literals of a block: bytes, or one for all.
struct zstd_literals {
  const uint8_t* bytes;
  uint32_t count;
  bool is_run;
};

__device__ __forceinline__ void fill_wide(uint8_t* target, uint8_t value, uint32_t count) {
  for (uint32_t i = stream_lane(); i < count; i += kStreamLanes) target[i] = value;
}

__device__ __forceinline__ void copy_literals(const zstd_literals& literals, uint32_t from,
                                              uint8_t* target, uint32_t count) {
  if (literals.is_run) {
    fill_wide(target, literals.bytes[0], count);
  } else {
    const uint8_t* limit = literals.bytes + literals.count;
    copy_wide(target, literals.bytes + from, count, literals.bytes, limit);
  }
}

// The literals of a batch, and then its matches: those whose bytes are there, until all are.
__device__ __forceinline__ void write_batch(const zstd_literals& literals, const zstd_step& step,
                                            uint8_t* target) {
  uint8_t* place = target + step.place;
  uint32_t large = __ballot_sync(kAll, step.literals > kLongBytes);
  if (step.literals <= kLongBytes) {
    for (uint32_t i = 0; i < step.literals; i++) {
      place[i] = literals.bytes[literals.is_run ? 0 : step.literals_at + i];
    }
  }
#pragma unroll 1
  while (large) {
    uint32_t lane = static_cast<uint32_t>(__ffs(static_cast<int>(large)) - 1);
    large &= large - 1;
    copy_literals(literals, from_lane(step.literals_at, lane), target + from_lane(step.place, lane),
                  from_lane(step.literals, lane));
  }
  uint32_t to = step.place + step.literals, from = to - step.offset;
  uint32_t behind = min(from + step.match, to);
  bool is_left = step.match > 0;
  uint32_t left = __ballot_sync(kAll, is_left);
  // Ends: the first lane that is left has all its bytes, so every turn takes one at least.
#pragma unroll 1
  while (left) {
    __syncwarp();
    uint32_t first = static_cast<uint32_t>(__ffs(static_cast<int>(left)) - 1);
    uint32_t there = from_lane(to, first);
    bool is_ready = is_left && behind <= there;
    is_left = is_left && !is_ready;
    large = __ballot_sync(kAll, is_ready && step.match > kLongBytes);
    if (is_ready && step.match <= kLongBytes) {
      for (uint32_t i = 0; i < step.match; i++) target[to + i] = target[from + i];
    }
#pragma unroll 1
    while (large) {
      uint32_t lane = static_cast<uint32_t>(__ffs(static_cast<int>(large)) - 1);
      large &= large - 1;
      copy_match(target, from_lane(to, lane), from_lane(step.offset, lane),
                 from_lane(step.match, lane));
    }
    left = __ballot_sync(kAll, is_left);
  }
  __syncwarp();
}

// Writes what a compressed block becomes behind `done` bytes; kStreamDone, or what is wrong.
__device__ __forceinline__ uint32_t write_block(const zstd_wave& in,
                                                const wavetrain_zstd_block& block,
                                                zstd_history& history, uint8_t* target,
                                                uint32_t& done, uint32_t target_bytes,
                                                uint32_t bytes_max) {
  zstd_sections found = {};
  if (!sections_of(block, in.wave, in.wave_bytes, in.arena_bytes, found)) return kStreamBroken;
  zstd_content content = literals_of(content_of(in.wave, block), found);
  const uint8_t* scratch = scratch_of(in, block);
  const auto* words = reinterpret_cast<const uint32_t*>(scratch);
  bool is_coded = found.literals_kind >= kLiteralsTree;
  if (is_coded && words[0] != kStreamDone) return kStreamBroken;
  if (found.sequences && words[1] != kStreamDone) return kStreamBroken;
  const uint8_t* first = is_coded ? scratch + kScratchHead : content.bytes;
  zstd_literals literals = {first, found.literals, found.literals_kind == kLiteralsRun};
  const auto* sequences =
      reinterpret_cast<const uint64_t*>(scratch + kScratchHead + scratch_literals(found));
  uint32_t taken = 0, limit = done + min(bytes_max, target_bytes - done);
#pragma unroll 1
  for (uint32_t i = 0; i < found.sequences; i += kStreamLanes) {
    uint32_t count = min(found.sequences - i, kStreamLanes);
    zstd_step step = {0, 0, 4, 0, 0};
    if (stream_lane() < count) {
      uint64_t sequence = sequences[i + stream_lane()];
      step.offset = static_cast<uint32_t>(sequence) & ((1u << kOffsetBits) - 1);
      step.literals = static_cast<uint32_t>(sequence >> kOffsetBits) & ((1u << kLengthBits) - 1);
      step.match = static_cast<uint32_t>(sequence >> (kOffsetBits + kLengthBits)) + kZstdMatchMin;
    }
    uint32_t literals_end = sum_lanes(step.literals), end = sum_lanes(step.literals + step.match);
    uint32_t all_literals = from_lane(literals_end, kStreamLanes - 1);
    uint32_t all = from_lane(end, kStreamLanes - 1);
    if (all_literals > literals.count - taken) return kStreamCut;
#ifndef WAVETRAIN_MUTATE_29
    if (all > limit - done) return kStreamTooLong;
#endif
    find_offsets(history, step, count);
    step.literals_at = taken + literals_end - step.literals;
    step.place = done + end - step.literals - step.match;
    bool is_before = step.offset == 0 || step.offset > step.place + step.literals;
#ifndef WAVETRAIN_MUTATE_30
    if (__any_sync(kAll, stream_lane() < count && is_before)) return kStreamOffset;
#endif
    write_batch(literals, step, target);
    taken += all_literals;
    done += all;
  }
  uint32_t rest = literals.count - taken;
#ifndef WAVETRAIN_MUTATE_31
  if (rest > limit - done) return kStreamTooLong;
#endif
  copy_literals(literals, taken, target + done, rest);
  done += rest;
  return kStreamDone;
}

// Of a frame: its blocks are records of the wave, and none becomes more than its scratch says.
__device__ __forceinline__ uint32_t write_frame(const zstd_wave& in,
                                                const wavetrain_stream& stream, uint8_t* target) {
  uint32_t target_bytes = stream.target_bytes, bytes_max = min(stream.scratch, kBlockBytesMax);
  zstd_history history = {{1, 4, 8}};
  uint32_t done = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < stream.source_bytes; i++) {
    wavetrain_zstd_block block = in.blocks[stream.source + i];
    if (!is_sound(block, in.wave_bytes, in.arena_bytes)) return kStreamOutside;
    const uint8_t* content = in.wave + block.source;
    if (block.kind == kBlockCompressed) {
      uint32_t result = write_block(in, block, history, target, done, target_bytes, bytes_max);
      if (result != kStreamDone) return result;
    } else {
#ifndef WAVETRAIN_MUTATE_32
      if (block.bytes > target_bytes - done) return kStreamTooLong;
#endif
      bool is_run = block.kind == kBlockRun;
      if (block.source_bytes != (is_run ? 1 : block.bytes)) return kStreamOutside;
      copy_literals({content, block.bytes, is_run}, 0, target + done, block.bytes);
      done += block.bytes;
    }
    // What is written here may be repeated by the next.
    __syncwarp();
  }
  return done == target_bytes ? kStreamDone : kStreamTooShort;
}

// Status word i is for stream i, if it is a frame. A frame's source are its blocks, by number.
extern "C" __global__ void __launch_bounds__(kStreamThreads, 4)
    wavetrain_zstd_frames(const uint8_t* wave, uint64_t wave_bytes, uint64_t blocks_at,
                          uint32_t block_count, uint8_t* arena, uint64_t arena_bytes,
                          uint64_t streams_at, uint32_t stream_count, uint8_t* decoded,
                          uint64_t decoded_bytes, uint32_t* status) {
  uint32_t warp = threadIdx.x / kStreamLanes;
  uint64_t number = static_cast<uint64_t>(blockIdx.x) * kStreamWarps + warp;
  if (number >= stream_count) return;
  wavetrain_stream stream = reinterpret_cast<const wavetrain_stream*>(wave + streams_at)[number];
  if (stream.kind != kStreamZstd) return;
  const auto* blocks = reinterpret_cast<const wavetrain_zstd_block*>(wave + blocks_at);
  zstd_wave in = {wave, wave_bytes, blocks, block_count, arena, arena_bytes};
  uint32_t result = kStreamOutside;
  bool is_inside = is_within(stream.source, stream.source_bytes, block_count) &&
#ifndef WAVETRAIN_MUTATE_33
                   is_within(stream.target, stream.target_bytes, decoded_bytes) &&
#endif
                   stream.target_bytes <= kStreamBytesMax;
  if (is_inside) result = write_frame(in, stream, decoded + stream.target);
  if (stream_lane() == 0) status[number] = result;
}
