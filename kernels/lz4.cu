// wavetrain_lz4: from the encoded streams of a wave to their bytes, each stream by a warp.
//
// In: a wave with sources and, from `streams_at` on, a record for each stream: LZ4 blocks
// (lz4_Block_format.md) and bytes to be copied. Out: the targets in `decoded`, and a word of status
// for each stream. Invariant: kStreamDone is said of a block only if src/loops/lz4.rs takes it and
// fills the target with the same bytes; nothing outside of the target is written in any case, and
// nothing outside of the source or the target is read.
//
// All lanes go through the sequences together. What they look at comes from a ring in shared
// memory, two pages of the source, of which the next one is on its way in registers. A short
// sequence is one step: a lane for each byte, be it a literal, or of a match that reaches into
// these literals or into itself. The bytes are stored when the next sequence is known, so that
// finding that hides the load. Whatever is longer is copied by all lanes, literals first. A stream
// that is only to be copied is a sequence without a match.
//
// Ends: every turn of the outer loop but the one between literals and their match takes a token of
// the source, every turn of a length a byte, and a copy has the length that was compared with the
// room for it. There is no other loop that data decides, and no warp waits for another.
//
// WAVETRAIN_MUTATE_n takes a barrier or a guard away, for the test that each is needed.
#include "streams.cuh"

constexpr uint32_t kPageBytes = 512;
constexpr uint32_t kPageVectors = kPageBytes / 16;
constexpr uint32_t kRingBytes = 2 * kPageBytes;
// Vectors of a page that a lane has, and bytes of a step.
constexpr uint32_t kLaneVectors = kPageVectors / kStreamLanes;
constexpr uint32_t kStepBytes = 32;
constexpr uint32_t kLaneBytes = kStepBytes / kStreamLanes;
static_assert(kLaneVectors * kLaneBytes > 0, "no lane is without work");
static_assert(kWideBytes + 8 < kPageBytes, "a token, such literals and an offset are in the ring");
constexpr uint32_t kLengthMore = 15;
constexpr uint32_t kMatchMin = 4;
// No stream has as many.
constexpr int32_t kNoPage = -2;

// The source, whose places are counted from `base`, which is a multiple of 16. Behind its last byte
// there are zeros in the ring.
struct lz4_source {
  const uint8_t* base;
  uint4* ring;
  uint32_t first;
  uint32_t limit;
  // This page and the one behind it are in the ring, the one behind those is in `next`.
  int32_t page;
  uint4 next[kLaneVectors];
};

// Bytes of a step that are still to be stored.
struct lz4_step {
  uint32_t first;
  uint32_t count;
  uint8_t bytes[kLaneBytes];
};

__device__ __forceinline__ uint4 load_vector(const lz4_source& source, uint32_t at) {
  bool is_inside = at >= source.first && at + 16 <= source.limit;
#ifdef WAVETRAIN_MUTATE_16
  is_inside = true;
#endif
  if (is_inside) {
    WAVETRAIN_WATCH(source.base + at, 16);
    return __ldg(reinterpret_cast<const uint4*>(source.base + at));
  }
  uint64_t low = 0, high = 0;
#pragma unroll 1
  for (uint32_t byte = 0; byte < 16; byte++) {
    bool is_ours = at + byte >= source.first && at + byte < source.limit;
    uint64_t value = is_ours ? __ldg(source.base + at + byte) : 0;
    (byte < 8 ? low : high) |= value << 8 * (byte % 8);
  }
  return make_uint4(static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
                    static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32));
}

// Puts into the ring the page that has `at` in it, and the one behind that.
__device__ __forceinline__ void turn_to(lz4_source& source, uint32_t at) {
  int32_t page = static_cast<int32_t>(at / kPageBytes);
  if (page == source.page) return;
  // Nobody looks at what is overwritten any more.
#ifndef WAVETRAIN_MUTATE_17
  __syncwarp();
#endif
  // After a leap the registers have nothing of use.
  int32_t number = page == source.page + 1 ? page + 1 : page - 1;
#pragma unroll 1
  for (; number <= page + 1; number++) {
#pragma unroll
    for (uint32_t i = 0; i < kLaneVectors; i++) {
      uint32_t vector = stream_lane() + i * kStreamLanes;
      if (number >= page) source.ring[number % 2 * kPageVectors + vector] = source.next[i];
      uint32_t place = static_cast<uint32_t>(number + 1) * kPageBytes + 16 * vector;
      source.next[i] = load_vector(source, place);
    }
  }
  source.page = page;
#ifndef WAVETRAIN_MUTATE_18
  __syncwarp();
#endif
}

__device__ __forceinline__ uint8_t ring_byte(const lz4_source& source, uint32_t at) {
  return reinterpret_cast<const uint8_t*>(source.ring)[at % kRingBytes];
}

__device__ __forceinline__ uint32_t ring_word(const lz4_source& source, uint32_t at) {
  const uint32_t* words = reinterpret_cast<const uint32_t*>(source.ring);
  uint32_t low = words[at % kRingBytes / 4], high = words[(at + 4) % kRingBytes / 4];
  return __funnelshift_r(low, high, at % 4 * 8);
}

// Adds the bytes from `at` on that belong to a length. It stops where that is more than `room`;
// where the source ends, `at` is behind its limit. The ring has what follows, as it has a token's.
__device__ __forceinline__ void add_length(lz4_source& source, uint32_t& at, uint32_t room,
                                           uint32_t& length) {
#pragma unroll 1
  for (bool is_more = true; is_more;) {
    turn_to(source, at);
    // Four at a time. The zeros behind the source end every length.
    uint32_t word = ring_word(source, at);
    uint32_t full = word == 0xFFFFFFFF ? 4 : static_cast<uint32_t>(__ffs(~word) - 1) / 8;
    is_more = full == 4;
    length += 255 * full + (is_more ? 0 : word >> 8 * full & 255);
    at += full + !is_more;
#ifndef WAVETRAIN_MUTATE_19
    is_more = is_more && length <= room;
#endif
  }
}

__device__ __forceinline__ void finish(lz4_step& step, uint8_t* target) {
#pragma unroll
  for (uint32_t i = 0; i < kLaneBytes; i++) {
    uint32_t byte = stream_lane() + i * kStreamLanes;
    if (byte < step.count) target[step.first + byte] = step.bytes[i];
  }
  step.count = 0;
}

// What a sequence says, with its literals in the source and the target.
struct lz4_sequence {
  uint32_t at;
  uint32_t done;
  uint32_t literals;
  uint32_t offset;
  uint32_t match;
};

// A short sequence: its bytes, to be stored later. All that the target has before it is visible.
__device__ __forceinline__ void begin(lz4_step& step, const lz4_source& source,
                                      const uint8_t* target, const lz4_sequence& sequence) {
  step.first = sequence.done;
  step.count = sequence.literals + sequence.match;
#pragma unroll
  for (uint32_t i = 0; i < kLaneBytes; i++) {
    uint32_t byte = stream_lane() + i * kStreamLanes;
    if (byte >= step.count) break;
    // The place of the byte that it repeats, from the first literal on: below 0 is in the target.
    int32_t from = static_cast<int32_t>(byte);
    if (byte >= sequence.literals) {
      uint32_t repeated = byte - sequence.literals;
      if (repeated >= sequence.offset) repeated %= sequence.offset;
      from = static_cast<int32_t>(sequence.literals + repeated - sequence.offset);
    }
    step.bytes[i] = from >= 0 ? ring_byte(source, sequence.at + static_cast<uint32_t>(from))
                              : target[sequence.done - static_cast<uint32_t>(-from)];
  }
}

// Copies the literals that lie at `at`, or, where there is an offset, repeats what lies so far
// before `done`: all of the target that the warp has written is visible.
__device__ __forceinline__ void copy_long(const lz4_source& source, uint32_t at, uint8_t* target,
                                          uint32_t done, uint32_t offset, uint32_t count) {
  uint8_t* place = target + done;
  uint32_t copied = 0;
  if (count <= kWideBytes || (offset && offset < kWideBytes)) {
    // Byte by byte, round and round in what is repeated: no lane needs another's bytes.
    copied = min(count, kWideBytes);
    uint32_t step = kStreamLanes, from = stream_lane();
    if (offset && offset <= kStreamLanes) {
      step %= offset;
      from %= offset;
    }
#pragma unroll 1
    for (uint32_t i = stream_lane(); i < copied; i += kStreamLanes) {
      place[i] = offset ? *(place - offset + from) : ring_byte(source, at + from);
      from += step;
      if (offset && from >= offset) from -= offset;
    }
  }
  // Of a match there is twice as much to copy from with each turn.
#pragma unroll 1
  while (copied < count) {
    const uint8_t *first = source.base + source.first, *limit = source.base + source.limit;
    const uint8_t* from = source.base + at;
    uint32_t bytes = count;
    if (offset) {
#ifndef WAVETRAIN_MUTATE_20
      __syncwarp();
#endif
      uint32_t distance = (offset + copied) / offset * offset;
      first = target;
      limit = place + copied;
      from = limit - distance;
      bytes = min(count - copied, distance);
    }
    copy_wide(place + copied, from, bytes, first, limit);
    copied += bytes;
  }
}

// Whether a match is one: kStreamDone, or what is wrong with it.
__device__ __forceinline__ uint32_t check_match(uint32_t offset, uint32_t done, uint32_t count,
                                                uint32_t room) {
#ifndef WAVETRAIN_MUTATE_23
  if (count > room) return kStreamTooLong;
#endif
#ifndef WAVETRAIN_MUTATE_24
  if (offset == 0 || offset > done) return kStreamOffset;
#endif
  return kStreamDone;
}

// Decodes a block, or copies what is none; kStreamDone, or what is wrong with it. A turn takes a
// short sequence, or the literals of a long one, or its match.
__device__ __forceinline__ uint32_t decode(lz4_source& source, bool is_block, uint8_t* target,
                                           uint32_t target_bytes) {
  uint32_t at = source.first, done = 0, token = 0;
  bool is_match = false;
  lz4_step step = {};
#pragma unroll 1
  while (at < source.limit || !is_block) {
    turn_to(source, at);
    uint32_t word = ring_word(source, at), room = target_bytes - done;
    uint32_t length = source.limit - at, offset = 0;
    if (is_block) {
      offset = is_match ? word & 0xFFFF : 0;
      if (!is_match) token = word & 255;
      at += is_match ? 2 : 1;
      length = is_match ? token & 15 : token >> 4;
      if (length == kLengthMore) add_length(source, at, room, length);
    }
    if (is_match) {
      length += kMatchMin;
      uint32_t found = check_match(offset, done, length, room);
      if (found != kStreamDone) return found;
    } else {
#ifndef WAVETRAIN_MUTATE_21
      if (length > room) return kStreamTooLong;
#endif
#ifndef WAVETRAIN_MUTATE_22
      if (at > source.limit || length > source.limit - at) return kStreamCut;
#endif
      uint32_t match = (token & 15) + kMatchMin, left = source.limit - at - length;
      // Of an offset that is cut the ring has zeros, and no token lies behind it.
      if (left && match < kLengthMore + kMatchMin && length + match <= kStepBytes) {
        offset = ring_word(source, at + length) & 0xFFFF;
        uint32_t found = check_match(offset, done + length, match, room - length);
        if (found != kStreamDone) return found;
        finish(step, target);
#ifndef WAVETRAIN_MUTATE_25
        __syncwarp();
#endif
        begin(step, source, target, {at, done, length, offset, match});
        at += length + 2;
        done += length + match;
        continue;
      }
    }
    finish(step, target);
#ifndef WAVETRAIN_MUTATE_26
    __syncwarp();
#endif
    copy_long(source, at, target, done, offset, length);
    done += length;
    if (!is_match) at += length;
    if (!is_match && at == source.limit) {
#ifndef WAVETRAIN_MUTATE_13
      if (done != target_bytes) return kStreamTooShort;
#endif
      return kStreamDone;
    }
    is_match = !is_match;
  }
  return kStreamCut;
}

// Status word i is for stream i: 0 is never written.
extern "C" __global__ void __launch_bounds__(kStreamThreads)
    wavetrain_lz4(const uint8_t* wave, uint64_t wave_bytes, uint64_t streams_at,
                  uint32_t stream_count, uint8_t* decoded, uint64_t decoded_bytes,
                  uint32_t* status) {
  __shared__ uint4 rings[kStreamWarps][kRingBytes / 16];
  uint32_t warp = threadIdx.x / kStreamLanes;
  uint64_t number = static_cast<uint64_t>(blockIdx.x) * kStreamWarps + warp;
  if (number >= stream_count) return;
  const auto* records = reinterpret_cast<const wavetrain_stream*>(wave + streams_at);
  wavetrain_stream stream = records[number];
  // Frames are other kernels'.
  if (stream.kind == kStreamZstd) return;
  uint32_t result = check_stream(stream, wave_bytes, decoded_bytes);
  if (result == kStreamDone && stream.kind != kStreamNothing) {
    const uint8_t* first = wave + stream.source;
    uint32_t skew = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(first) % 16);
    lz4_source source = {first - skew, rings[warp], skew, skew + stream.source_bytes, kNoPage, {}};
    bool is_block = stream.kind == kStreamLz4;
    result = decode(source, is_block, decoded + stream.target, stream.target_bytes);
  }
  if (stream_lane() == 0) status[number] = result;
}
