// wavetrain_copy: bytes from device addresses to device addresses, at any alignment.
//
// In: spans; block (x, y) takes part x of span y. Out: their targets. No span may overlap another's
// target. Also the yardstick of what the device's memory gives: it does nothing but load and store.
#include "common.cuh"

constexpr uint32_t kCopyThreads = 256;
// 16-byte vectors that a thread has in flight.
constexpr uint32_t kInFlight = 4;

extern "C" __global__ void __launch_bounds__(kCopyThreads)
    wavetrain_copy(const wavetrain_span* spans) {
  wavetrain_span span = spans[blockIdx.y];
  const uint8_t* source = reinterpret_cast<const uint8_t*>(span.source);
  uint8_t* target = reinterpret_cast<uint8_t*>(span.target);
  uint64_t head = min((16 - span.target % 16) % 16, span.bytes);
  uint64_t vectors = (span.bytes - head) / 16;
  uint64_t tail = head + vectors * 16;
  if (blockIdx.x == 0) {
    if (threadIdx.x < head) target[threadIdx.x] = source[threadIdx.x];
    if (tail + threadIdx.x < span.bytes && threadIdx.x < 16) {
      target[tail + threadIdx.x] = source[tail + threadIdx.x];
    }
  }
  uint64_t stride = static_cast<uint64_t>(gridDim.x) * kCopyThreads * kInFlight;
  uint64_t first = static_cast<uint64_t>(blockIdx.x) * kCopyThreads * kInFlight + threadIdx.x;
#pragma unroll 1
  for (; first < vectors; first += stride) {
    uint32_t words[kInFlight][4];
#pragma unroll
    for (uint32_t i = 0; i < kInFlight; i++) {
      uint64_t vector = first + i * kCopyThreads;
      if (vector < vectors) load_words(source + head + 16 * vector, words[i]);
    }
#pragma unroll
    for (uint32_t i = 0; i < kInFlight; i++) {
      uint64_t vector = first + i * kCopyThreads;
      if (vector < vectors) store_words(span.target + head + 16 * vector, words[i]);
    }
  }
}
