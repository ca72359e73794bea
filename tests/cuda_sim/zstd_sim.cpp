// The kernels of zstd frames on the CPU, for tests/cuda/sweeps/zstd.rs and the fuzz target
// zstd_kernel: as a library, and, for AddressSanitizer, as a program (-DSIM_PROGRAM) that runs
// what the test wrote into a file. With -DWAVETRAIN_LANES=1 a warp is one lane, and nothing but
// the kernels is compiled.
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

#ifdef SIM_PROGRAM
// What the file has of each launch: this, the wave with its records, what the targets become, and a
// byte for each frame: 0 where it is to be refused, 1 where it is to be taken, 2 where it may be.
struct Job {
  uint64_t wave_bytes, source_bytes, records_at, block_count, stream_count, arena_bytes;
  uint64_t decoded_bytes;
};

static void read_all(FILE* file, void* to, size_t bytes) {
  if (fread(to, 1, bytes, file) != bytes) {
    fprintf(stderr, "the file is cut short\n");
    exit(2);
  }
}

// As large as is said, to the byte, so that whatever lies behind is forbidden.
static uint8_t* read_new(FILE* file, size_t bytes) {
  uint8_t* made = static_cast<uint8_t*>(malloc(bytes));
  read_all(file, made, bytes);
  return made;
}

static bool runs_as_told(FILE* file) {
  Job job;
  if (fread(&job, sizeof job, 1, file) != 1) exit(0);
  uint8_t* source = read_new(file, job.source_bytes);
  uint8_t* records = read_new(file, job.wave_bytes - job.records_at);
  uint8_t* expected = read_new(file, job.decoded_bytes);
  uint8_t* wanted = read_new(file, job.stream_count);
  auto* arena = static_cast<uint8_t*>(malloc(job.arena_bytes));
  auto* decoded = static_cast<uint8_t*>(malloc(job.decoded_bytes));
  auto* status = static_cast<uint32_t*>(malloc(4 * job.stream_count));
  const auto* streams = reinterpret_cast<const wavetrain_stream*>(records) + job.block_count;
  // Records are no part of what blocks may lie in.
  uint64_t blocks_at = reinterpret_cast<uint64_t>(records) - reinterpret_cast<uint64_t>(source);
  bool is_right = true;
  for (uint32_t order = 0; order < 3; order++) {
    memset(decoded, 0xA5, job.decoded_bytes);
    memset(arena, 0xA5, job.arena_bytes);
    memset(status, 0, 4 * job.stream_count);
    sim_zstd(source, job.source_bytes, blocks_at, uint32_t(job.block_count), arena,
             job.arena_bytes, blocks_at + sizeof *streams * job.block_count,
             uint32_t(job.stream_count), decoded, job.decoded_bytes, status, order);
    for (uint64_t i = 0; i < job.stream_count; i++) {
      bool is_taken = status[i] == kStreamDone;
      is_right = is_right && status[i] && (wanted[i] == 2 || wanted[i] == is_taken);
      uint64_t at = streams[i].target, bytes = streams[i].target_bytes;
      if (is_taken) is_right = is_right && !memcmp(decoded + at, expected + at, bytes);
      if (is_within(at, bytes, job.decoded_bytes)) memset(decoded + at, 0xA5, bytes);
    }
    for (uint64_t i = 0; i < job.decoded_bytes; i++) is_right = is_right && decoded[i] == 0xA5;
  }
  void* memory[] = {source, records, expected, wanted, arena, decoded, status};
  for (void* block : memory) free(block);
  return is_right;
}

int main(int, char** names) {
  FILE* file = fopen(names[1], "rb");
  for (int number = 0; file; number++) {
    if (!runs_as_told(file)) {
      fprintf(stderr, "job %d came out wrong\n", number);
      return 1;
    }
  }
  return 2;
}
#endif
