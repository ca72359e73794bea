// The words of CUDA for kernels whose warps are one lane (WAVETRAIN_LANES 1): threads run one after
// another, as plain calls, so that a fuzzer can launch millions of times. simt.hpp runs warps.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dim3 {
  unsigned x, y, z;
};

#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __constant__ static const
#define __shared__ static thread_local

static thread_local dim3 threadIdx, blockIdx;

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

inline void __syncwarp() {}
template <class T>
T __ldg(const T* place) {
  return *place;
}
inline unsigned __shfl_sync(unsigned, unsigned value, int) { return value; }
inline unsigned __shfl_up_sync(unsigned, unsigned value, unsigned) { return value; }
inline unsigned __ballot_sync(unsigned, int is_so) { return is_so != 0; }
inline int __any_sync(unsigned, int is_so) { return is_so; }
inline int __clz(int value) { return value ? __builtin_clz(unsigned(value)) : 32; }
inline int __ffs(int value) { return __builtin_ffs(value); }
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
