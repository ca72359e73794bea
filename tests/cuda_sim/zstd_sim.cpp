// The kernels of zstd frames on the CPU, for tests/cuda/zstd.rs and the fuzz target zstd_kernel: as
// a library. With -DWAVETRAIN_LANES=1 a warp is one lane, and nothing but the kernels is compiled.
#include <stdint.h>

#if defined(WAVETRAIN_LANES) && WAVETRAIN_LANES == 1
#include "lane.hpp"
#else
#include "simt.hpp"
#endif

#include "../../kernels/zstd.cu"

// The three launches, as `cuda` makes them, in one of three orders of their threads. Of a fuzzer's
// warps there is but one order.
extern "C" void sim_zstd(const uint8_t* wave, uint64_t wave_bytes, uint64_t blocks_at,
                         uint32_t block_count, uint8_t* arena, uint64_t arena_bytes,
                         uint64_t streams_at, uint32_t stream_count, uint8_t* decoded,
                         uint64_t decoded_bytes, uint32_t* status, uint32_t order) {
  uint32_t groups = (block_count + kZstdGroups - 1) / kZstdGroups;
  uint32_t frames = (stream_count + kStreamWarps - 1) / kStreamWarps;
#if WAVETRAIN_LANES == 1
  threadIdx.x = 0;
  for (blockIdx.x = 0; blockIdx.x < groups; blockIdx.x++) {
    wavetrain_zstd_literals(wave, wave_bytes, blocks_at, block_count, arena, arena_bytes);
  }
  for (blockIdx.x = 0; blockIdx.x < groups; blockIdx.x++) {
    wavetrain_zstd_sequences(wave, wave_bytes, blocks_at, block_count, arena, arena_bytes);
  }
  for (blockIdx.x = 0; blockIdx.x < frames; blockIdx.x++) {
    for (threadIdx.x = 0; threadIdx.x < kStreamThreads; threadIdx.x++) {
      wavetrain_zstd_frames(wave, wave_bytes, blocks_at, block_count, arena, arena_bytes,
                            streams_at, stream_count, decoded, decoded_bytes, status);
    }
  }
  (void)order;
#else
  simt::Schedule schedule = {static_cast<simt::Order>(order), 0x9E3779B97F4A7C15u};
  void* params[] = {&wave,       &wave_bytes,   &blocks_at, &block_count,   &arena, &arena_bytes,
                    &streams_at, &stream_count, &decoded,   &decoded_bytes, &status};
  if (groups) {
    simt::launch_params(wavetrain_zstd_literals, groups, kStreamLanes, 0, params, schedule);
    simt::launch_params(wavetrain_zstd_sequences, groups, kStreamLanes, 0, params, schedule);
  }
  simt::launch_params(wavetrain_zstd_frames, frames, kStreamThreads, 0, params, schedule);
#endif
}
