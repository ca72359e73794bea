// Streams of encoded bytes in a wave, and what a warp does with bytes that nobody aligned.
//
// A stream is one warp's: it loads nothing outside of its source and stores nothing outside of its
// target, whose neighbours in the same word may be another warp's at the same time.
//
// WAVETRAIN_LANES 1 is for a fuzzer: all of a warp is one thread, and nothing waits.
// WAVETRAIN_WATCH tells a test of the loads of more than a byte.
#pragma once
#include "common.cuh"

#ifndef WAVETRAIN_LANES
#define WAVETRAIN_LANES 32
#endif
#ifndef WAVETRAIN_WATCH
#define WAVETRAIN_WATCH(place, bytes)
#endif
constexpr uint32_t kStreamLanes = WAVETRAIN_LANES;
constexpr uint32_t kStreamWarps = 8;
constexpr uint32_t kStreamThreads = kStreamWarps * kStreamLanes;

// The most bytes of a source, and of a target: sums of two such sizes fit their type. An LZ4 block
// has less.
constexpr uint32_t kStreamBytesMax = 0x7FFFFFFF;

// The record of src/device/streams.rs, where each field, kind and status is described.
struct wavetrain_stream {
  uint64_t source;
  uint64_t target;
  uint32_t source_bytes;
  uint32_t target_bytes;
  uint32_t kind;
  uint32_t scratch;
};
static_assert(sizeof(wavetrain_stream) == 32, "two loads are a record");

enum : uint32_t { kStreamNothing = 0, kStreamCopy = 1, kStreamLz4 = 2, kStreamZstd = 3 };

enum : uint32_t {
  kStreamDone = 1,
  kStreamKind = 2,
  kStreamOutside = 3,
  kStreamCut = 4,
  kStreamOffset = 5,
  kStreamTooLong = 6,
  kStreamTooShort = 7,
  kStreamBroken = 8,
};

__device__ __forceinline__ uint32_t stream_lane() { return threadIdx.x % kStreamLanes; }

// Whether `bytes` from `first` on lie within `limit`.
__device__ __forceinline__ bool is_within(uint64_t first, uint64_t bytes, uint64_t limit) {
  return bytes <= limit && first <= limit - bytes;
}

// What is wrong with a record, or kStreamDone: then both of its extents may be touched.
__device__ __forceinline__ uint32_t check_stream(const wavetrain_stream& stream,
                                                 uint64_t wave_bytes, uint64_t decoded_bytes) {
  if (stream.kind == kStreamNothing) return kStreamDone;
  if (stream.kind > kStreamLz4) return kStreamKind;
#ifndef WAVETRAIN_MUTATE_11
  if (!is_within(stream.source, stream.source_bytes, wave_bytes)) return kStreamOutside;
#endif
#ifndef WAVETRAIN_MUTATE_12
  if (!is_within(stream.target, stream.target_bytes, decoded_bytes)) return kStreamOutside;
#endif
  if (max(stream.source_bytes, stream.target_bytes) > kStreamBytesMax) return kStreamOutside;
  return kStreamDone;
}

// Copies bytes that do not overlap, between places of any alignment, 16 at a time. Words are read
// where they lie, and none that reaches out of [first, limit), which has the source in it. What
// other lanes wrote there has to be visible.
__device__ __forceinline__ void copy_wide(uint8_t* target, const uint8_t* source, uint32_t bytes,
                                       const uint8_t* first, const uint8_t* limit) {
  constexpr uint32_t kInFlight = 2;
  uint32_t lane = stream_lane();
  uint32_t head = (16 - static_cast<uint32_t>(reinterpret_cast<uintptr_t>(target) % 16)) % 16;
  head = min(head, bytes);
  uint32_t skew = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(source + head) % 4);
#ifndef WAVETRAIN_MUTATE_14
  if (static_cast<uint64_t>(source + head - first) < skew) head = min(head + 16, bytes);
#endif
  uint32_t vectors = (bytes - head) / 16;
  uint32_t behind = skew ? 4 - skew : 0;
#ifndef WAVETRAIN_MUTATE_15
  // The source ends at the limit or before, so the last vector alone can reach behind it.
  uint64_t left = static_cast<uint64_t>(limit - source) - head;
  if (vectors && 16ull * vectors + behind > left) vectors--;
#endif
  for (uint32_t i = lane; i < head; i += kStreamLanes) target[i] = source[i];
  uint32_t tail = head + 16 * vectors;
  for (uint32_t i = tail + lane; i < bytes; i += kStreamLanes) target[i] = source[i];
  target += head;
  const uint32_t* words = reinterpret_cast<const uint32_t*>(source + head - skew);
  bool is_aligned = reinterpret_cast<uintptr_t>(words) % 16 == 0 && skew == 0;
#pragma unroll 1
  for (uint32_t vector = lane; vector < vectors; vector += kInFlight * kStreamLanes) {
    uint4 found[kInFlight];
#pragma unroll
    for (uint32_t i = 0; i < kInFlight; i++) {
      uint32_t at = vector + i * kStreamLanes;
      if (at >= vectors) break;
      const uint32_t* from = words + 4ull * at;
      WAVETRAIN_WATCH(from, skew ? 20 : 16);
      if (is_aligned) {
        found[i] = *reinterpret_cast<const uint4*>(from);
      } else {
        uint32_t last = skew ? from[4] : 0;
        found[i].x = __funnelshift_r(from[0], from[1], 8 * skew);
        found[i].y = __funnelshift_r(from[1], from[2], 8 * skew);
        found[i].z = __funnelshift_r(from[2], from[3], 8 * skew);
        found[i].w = __funnelshift_r(from[3], last, 8 * skew);
      }
    }
#pragma unroll
    for (uint32_t i = 0; i < kInFlight; i++) {
      uint32_t at = vector + i * kStreamLanes;
      if (at < vectors) *reinterpret_cast<uint4*>(target + 16ull * at) = found[i];
    }
  }
}

// From how many bytes on 16 at a time are faster than one.
constexpr uint32_t kWideBytes = 128;

// Repeats what lies `offset` bytes before `done`, of which `offset` at least are there: all of the
// target that the warp has written is visible.
__device__ __forceinline__ void copy_match(uint8_t* target, uint32_t done, uint32_t offset,
                                           uint32_t count) {
  uint8_t* place = target + done;
  uint32_t copied = 0;
  if (count <= kWideBytes || offset < kWideBytes) {
    // Byte by byte, round and round in what is repeated: no lane needs another's bytes.
    copied = min(count, kWideBytes);
    for (uint32_t i = stream_lane(); i < copied; i += kStreamLanes) {
      place[i] = *(place - offset + i % offset);
    }
  }
  // There is twice as much to copy from with each turn.
#pragma unroll 1
  while (copied < count) {
    __syncwarp();
    uint32_t distance = (offset + copied) / offset * offset;
    uint32_t bytes = min(count - copied, distance);
    copy_wide(place + copied, place + copied - distance, bytes, target, place + copied);
    copied += bytes;
  }
}
