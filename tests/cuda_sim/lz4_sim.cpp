// wavetrain_lz4 on the CPU, for tests/cuda/sweeps/lz4.rs and the fuzz target lz4_kernel: as a
// library, and, for AddressSanitizer, as a program (-DSIM_PROGRAM) that runs what the test wrote
// into a file. With -DWAVETRAIN_LANES=1 a warp is one lane, and nothing but the kernel is
// compiled.
#include <stdint.h>

// Loads of the kernel of more than a byte that lie in none of these extents, {first, limit}.
static const uint64_t (*watched)[2];
static uint64_t watched_count;
static uint32_t strays;

static void watch_load(const void* place, uint64_t bytes) {
  uint64_t first = reinterpret_cast<uint64_t>(place);
  bool is_inside = false;
  for (uint64_t i = 0; i < watched_count && !is_inside; i++) {
    is_inside = first >= watched[i][0] && first + bytes <= watched[i][1];
  }
  strays += watched_count && !is_inside;
}
#define WAVETRAIN_WATCH(place, bytes) watch_load(place, bytes)

#if defined(WAVETRAIN_LANES) && WAVETRAIN_LANES == 1
#include "lane.hpp"
#else
#include "simt.hpp"
#endif

#include "../../kernels/lz4.cu"

// A launch as `cuda` makes it, in one of three orders of its threads. Of a fuzzer's warps there is
// but one order.
extern "C" void sim_lz4(const uint8_t* wave, uint64_t wave_bytes, uint64_t streams_at,
                        uint32_t stream_count, uint8_t* decoded, uint64_t decoded_bytes,
                        uint32_t* status, uint32_t order) {
  uint32_t blocks = (stream_count + kStreamWarps - 1) / kStreamWarps;
#if WAVETRAIN_LANES == 1
  for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
    for (threadIdx.x = 0; threadIdx.x < kStreamThreads; threadIdx.x++) {
      wavetrain_lz4(wave, wave_bytes, streams_at, stream_count, decoded, decoded_bytes, status);
    }
  }
  (void)order;
#else
  simt::Schedule schedule = {static_cast<simt::Order>(order), 0x9E3779B97F4A7C15u};
  void* params[] = {&wave,    &wave_bytes,    &streams_at, &stream_count,
                    &decoded, &decoded_bytes, &status};
  simt::launch_params(wavetrain_lz4, blocks, kStreamThreads, 0, params, schedule);
#endif
}

// Starts to watch loads, or stops where there is nothing to watch; how many went astray before.
extern "C" uint32_t sim_watch(const uint64_t (*extents)[2], uint64_t count) {
  watched = extents;
  watched_count = count;
  uint32_t found = strays;
  strays = 0;
  return found;
}

// Where the kernel thinks the fields lie, and its numbers, in the order in which the test asks.
extern "C" uint64_t sim_number(uint32_t number) {
  static const uint64_t numbers[] = {
      offsetof(wavetrain_stream, source),
      offsetof(wavetrain_stream, target),
      offsetof(wavetrain_stream, source_bytes),
      offsetof(wavetrain_stream, target_bytes),
      offsetof(wavetrain_stream, kind),
      offsetof(wavetrain_stream, scratch),
      sizeof(wavetrain_stream),
      kStreamWarps,
      kStreamBytesMax,
      kStreamNothing,
      kStreamCopy,
      kStreamLz4,
      kStreamDone,
      kStreamKind,
      kStreamOutside,
      kStreamCut,
      kStreamOffset,
      kStreamTooLong,
      kStreamTooShort,
  };
  return number < sizeof numbers / sizeof *numbers ? numbers[number] : ~0ull;
}

#ifdef SIM_PROGRAM
#include <sanitizer/asan_interface.h>

// What the file has of each launch: this, the wave, what the arena becomes where streams are taken,
// and a byte for each stream, whether it is.
struct Job {
  uint64_t wave_bytes, source_bytes, streams_at, stream_count, decoded_bytes;
};

constexpr uint8_t kPoison = 0xA5;

static void read_all(FILE* file, void* to, size_t bytes) {
  if (fread(to, 1, bytes, file) != bytes) {
    fprintf(stderr, "the file is cut short\n");
    exit(2);
  }
}

static uint8_t* read_new(FILE* file, size_t bytes) {
  uint8_t* made = static_cast<uint8_t*>(aligned_alloc(64, (bytes + 127) & ~size_t(63)));
  read_all(file, made, bytes);
  return made;
}

// Lets nothing be touched but the extents of streams that lie in the wave and in the arena.
static uint64_t open_extents(const Job& job, uint8_t* wave, uint8_t* decoded,
                             uint64_t (*extents)[2]) {
  ASAN_POISON_MEMORY_REGION(wave, job.streams_at);
  ASAN_POISON_MEMORY_REGION(decoded, job.decoded_bytes);
  const auto* streams = reinterpret_cast<const wavetrain_stream*>(wave + job.streams_at);
  uint64_t count = 0;
  auto open = [&](uint8_t* base, uint64_t at, uint64_t bytes, uint64_t limit) {
    if (bytes > limit || at > limit - bytes) return;
    ASAN_UNPOISON_MEMORY_REGION(base + at, bytes);
    extents[count][0] = reinterpret_cast<uint64_t>(base + at);
    extents[count++][1] = reinterpret_cast<uint64_t>(base + at + bytes);
  };
  for (uint64_t i = 0; i < job.stream_count; i++) {
    open(wave, streams[i].source, streams[i].source_bytes, job.source_bytes);
    open(decoded, streams[i].target, streams[i].target_bytes, job.decoded_bytes);
  }
  return count;
}

// Whether what was written is what the file expects: targets of refused streams hold anything.
static bool is_expected(const Job& job, const wavetrain_stream* streams, uint8_t* decoded,
                        const uint8_t* expected, const uint8_t* taken, const uint32_t* status) {
  bool is_right = true;
  for (uint64_t i = 0; i < job.stream_count; i++) {
    is_right = is_right && taken[i] == (status[i] == kStreamDone);
    bool is_lie = status[i] == kStreamKind || status[i] == kStreamOutside;
    if (is_lie || streams[i].kind == kStreamNothing) continue;
    uint8_t* target = decoded + streams[i].target;
    const uint8_t* wanted = expected + streams[i].target;
    is_right = is_right && (!taken[i] || !memcmp(target, wanted, streams[i].target_bytes));
    memset(target, kPoison, streams[i].target_bytes);
  }
  for (uint64_t i = 0; i < job.decoded_bytes; i++) is_right = is_right && decoded[i] == kPoison;
  return is_right;
}

static bool runs_as_told(FILE* file) {
  Job job;
  if (fread(&job, sizeof job, 1, file) != 1) exit(0);
  uint8_t* wave = read_new(file, job.wave_bytes);
  uint8_t* expected = read_new(file, job.decoded_bytes);
  uint8_t* taken = read_new(file, job.stream_count);
  auto* decoded = static_cast<uint8_t*>(aligned_alloc(64, (job.decoded_bytes + 127) & ~63ull));
  auto* status = static_cast<uint32_t*>(malloc(4 * job.stream_count));
  auto* extents = static_cast<uint64_t(*)[2]>(malloc(32 * job.stream_count));
  bool is_right = true;
  for (uint32_t order = 0; order < 3; order++) {
    memset(decoded, kPoison, job.decoded_bytes);
    memset(status, 0, 4 * job.stream_count);
    sim_watch(extents, open_extents(job, wave, decoded, extents));
    sim_lz4(wave, job.source_bytes, job.streams_at, uint32_t(job.stream_count), decoded,
            job.decoded_bytes, status, order);
    if (uint32_t found = sim_watch(nullptr, 0)) {
      fprintf(stderr, "%u loads outside of the streams\n", found);
      is_right = false;
    }
    ASAN_UNPOISON_MEMORY_REGION(wave, job.wave_bytes);
    ASAN_UNPOISON_MEMORY_REGION(decoded, job.decoded_bytes);
    const auto* streams = reinterpret_cast<const wavetrain_stream*>(wave + job.streams_at);
    is_right = is_right && is_expected(job, streams, decoded, expected, taken, status);
  }
  void* memory[] = {wave, expected, taken, decoded, status, extents};
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
