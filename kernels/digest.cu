// wavetrain_digest: what each part of the samples of a field gives to their digests.
//
// In: samples, one behind the other, of `sample_bytes` bytes each, which are `parts` parts of
// kPartBytes, the last of what is left; `count` parts in all. Out: for each part the sum over its
// words of mix(number of the word in its sample + 1, word) modulo 2^64, as include/wavetrain.h
// defines it. A warp takes a part, so no block waits for another and nothing is added up across
// warps: the host does that, and closes the digests.
#include "common.cuh"

constexpr uint32_t kDigestThreads = 256;
constexpr uint32_t kLanes = 32;
constexpr uint64_t kPartBytes = 16384;

__device__ __forceinline__ uint64_t mix(uint64_t position, uint64_t word) {
  word ^= position * 0x9E3779B97F4A7C15u;
  word ^= word >> 32;
  word *= 0xD6E8FEB86659FD93u;
  word ^= word >> 32;
  word *= 0xD6E8FEB86659FD93u;
  return word ^ word >> 32;
}

extern "C" __global__ void __launch_bounds__(kDigestThreads)
    wavetrain_digest(const uint8_t* data, uint64_t sample_bytes, uint64_t parts, uint64_t count,
                     uint64_t* shares) {
  uint64_t warps = kDigestThreads / kLanes;
  uint64_t part = static_cast<uint64_t>(blockIdx.x) * warps + threadIdx.x / kLanes;
  if (part >= count) return;
  uint32_t lane = threadIdx.x % kLanes;
  uint64_t first = part % parts * kPartBytes;
  const uint8_t* bytes = data + part / parts * sample_bytes + first;
  uint64_t length = min(sample_bytes - first, kPartBytes);
  uint64_t vectors = length / 16;
  // The position of a word is its number and one.
  uint64_t position = first / 8 + 1;
  uint64_t sum = 0;
#pragma unroll 1
  for (uint64_t vector = lane; vector < vectors; vector += kLanes) {
    uint32_t words[4];
    load_words(bytes + 16 * vector, words);
    uint64_t low = words[0] | static_cast<uint64_t>(words[1]) << 32;
    uint64_t high = words[2] | static_cast<uint64_t>(words[3]) << 32;
    sum += mix(position + 2 * vector, low) + mix(position + 2 * vector + 1, high);
  }
  // What is no vector: a word, one that is filled up with zeros, or both.
  uint64_t at = 16 * vectors + 8 * lane;
  if (at < length) {
    uint64_t word = 0;
    for (uint32_t byte = 0; byte < 8 && at + byte < length; byte++) {
      word |= static_cast<uint64_t>(bytes[at + byte]) << 8 * byte;
    }
    sum += mix(position + at / 8, word);
  }
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, lanes);
  }
  if (lane == 0) shares[part] = sum;
}
