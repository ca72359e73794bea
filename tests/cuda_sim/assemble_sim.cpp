// The project's kernels on the CPU, for tests/cuda/sweeps/units.rs: as a library, and, for
// AddressSanitizer, as a program (-DSIM_PROGRAM) that runs what the test wrote into a file.
#define SIMT_WATCH
#include "simt.hpp"

#include "../../kernels/assemble.cu"
#include "../../kernels/copy.cu"
#include "../../kernels/digest.cu"

static simt::Schedule schedule(uint32_t order) {
  return {static_cast<simt::Order>(order), 0x9E3779B97F4A7C15u};
}

extern "C" void sim_assemble(const uint8_t* wave, uint64_t units_at, uint64_t tiles_at,
                             uint32_t unit_count, uint32_t* status, uint32_t tiles,
                             uint32_t order) {
  uint64_t decoded_at = 0, decoded_limit = 0;
  void* params[] = {&wave,       &units_at,      &tiles_at, &unit_count,
                    &decoded_at, &decoded_limit, &status};
  simt::launch_params(wavetrain_assemble, tiles, kThreads, 0, params, schedule(order));
}

// Loads that go near one of `count` ranges, each a first and a last address, and not inside of it.
static const uint64_t (*watched)[2];
static uint32_t watched_count, strays;

static void count_stray(uintptr_t first, size_t bytes) {
  for (uint32_t i = 0; i < watched_count; i++) {
    bool is_near = first + bytes + 16 > watched[i][0] && first < watched[i][1] + 16;
    bool is_inside = first >= watched[i][0] && first + bytes <= watched[i][1];
    strays += is_near && !is_inside;
  }
}

extern "C" uint32_t sim_watch(const uint64_t (*ranges)[2], uint32_t count) {
  watched = ranges;
  watched_count = count;
  simt_watch = count ? count_stray : nullptr;
  uint32_t found = strays;
  strays = 0;
  return found;
}

extern "C" void sim_copy(const wavetrain_span* spans, uint32_t blocks, uint32_t count,
                         uint32_t order) {
  void* params[] = {&spans};
  simt::launch_params(wavetrain_copy, dim3(blocks, count), kCopyThreads, 0, params,
                      schedule(order));
}

extern "C" void sim_digest(const uint8_t* data, uint64_t sample_bytes, uint64_t parts,
                           uint64_t count, uint64_t* shares, uint32_t blocks, uint32_t order) {
  void* params[] = {&data, &sample_bytes, &parts, &count, &shares};
  simt::launch_params(wavetrain_digest, blocks, kDigestThreads, 0, params, schedule(order));
}

// Where the kernels think the fields lie, in the order in which the test asks.
extern "C" uint64_t sim_place(uint32_t number) {
  static const uint64_t places[] = {
      offsetof(wavetrain_unit, data),
      offsetof(wavetrain_unit, data_first),
      offsetof(wavetrain_unit, data_bytes),
      offsetof(wavetrain_unit, source),
      offsetof(wavetrain_unit, target),
      offsetof(wavetrain_unit, elements),
      offsetof(wavetrain_unit, chunk_bytes),
      offsetof(wavetrain_unit, filter_block_bytes),
      offsetof(wavetrain_unit, filter_typesize),
      offsetof(wavetrain_unit, filter),
      offsetof(wavetrain_unit, axis_count),
      offsetof(wavetrain_unit, source_dtype),
      offsetof(wavetrain_unit, target_dtype),
      offsetof(wavetrain_unit, source_bytes),
      offsetof(wavetrain_unit, target_bytes),
      offsetof(wavetrain_unit, word_bytes),
      offsetof(wavetrain_unit, is_fill),
      offsetof(wavetrain_unit, folded),
      offsetof(wavetrain_unit, reflects),
      offsetof(wavetrain_unit, path),
      offsetof(wavetrain_unit, vector_elements),
      offsetof(wavetrain_unit, is_absolute),
      offsetof(wavetrain_unit, change_records),
      offsetof(wavetrain_unit, change_rank),
      offsetof(wavetrain_unit, fill),
      offsetof(wavetrain_unit, row_vectors),
      offsetof(wavetrain_unit, place),
      offsetof(wavetrain_unit, axes),
      offsetof(wavetrain_axis, length),
      offsetof(wavetrain_axis, source_step),
      offsetof(wavetrain_axis, target_step),
      offsetof(wavetrain_fold, begin),
      offsetof(wavetrain_fold, extent),
      offsetof(wavetrain_fold, first),
      offsetof(wavetrain_fold, limit),
      offsetof(wavetrain_span, source),
      offsetof(wavetrain_span, target),
      offsetof(wavetrain_span, bytes),
      kTileVectors,
      kThreads,
      kRecordBytes,
      kDigestThreads,
      kLanes,
      kPartBytes,
  };
  return number < sizeof places / sizeof *places ? places[number] : ~0ull;
}

#ifdef SIM_PROGRAM
#include <sanitizer/asan_interface.h>

// What the file begins with; then the wave, whose targets count from 0, and what they become.
struct Job {
  uint64_t wave_bytes, units_at, tiles_at, unit_count, tiles, target_bytes, status;
};

static void read_all(FILE* file, void* to, size_t bytes) {
  if (fread(to, 1, bytes, file) != bytes) {
    fprintf(stderr, "the file is cut short\n");
    exit(2);
  }
}

// Lets nothing but the decoded bytes of the units be read, and the eights in which they begin and
// end.
static void poison(uint8_t* wave, const Job& job, const std::vector<uint32_t>& records) {
  ASAN_POISON_MEMORY_REGION(wave, job.units_at);
  for (uint32_t record : records) {
    wavetrain_unit unit;
    memcpy(&unit, wave + job.units_at + record * kRecordBytes, sizeof unit);
    if (unit.is_fill || unit.data > job.units_at || unit.data_bytes > job.units_at) continue;
    uint64_t first = unit.data & ~7ull, limit = (unit.data + unit.data_bytes + 7) & ~7ull;
    ASAN_UNPOISON_MEMORY_REGION(wave + first, limit - first);
  }
}

static bool runs_as_told(FILE* file) {
  Job job;
  if (fread(&job, sizeof job, 1, file) != 1) exit(0);
  uint8_t* wave = static_cast<uint8_t*>(aligned_alloc(512, (job.wave_bytes + 511) & ~511ull));
  std::vector<uint8_t> expected(job.target_bytes);
  read_all(file, wave, job.wave_bytes);
  read_all(file, expected.data(), job.target_bytes);
  uint8_t* target = static_cast<uint8_t*>(aligned_alloc(256, (job.target_bytes + 255) & ~255ull));
  std::vector<uint32_t> records;
  for (uint32_t i = 0; i < job.unit_count; i++) {
    auto* unit = reinterpret_cast<wavetrain_unit*>(wave + job.units_at + i * kRecordBytes);
    unit->target += reinterpret_cast<uint64_t>(target);
    records.push_back(i);
    i += (unit->folded != 0) + unit->change_records;
  }
  poison(wave, job, records);
  bool is_right = true;
  for (uint32_t order = 0; order < 3; order++) {
    memset(target, 0xA5, job.target_bytes);
    uint32_t status = 0;
    sim_assemble(wave, job.units_at, job.tiles_at, job.unit_count, &status, job.tiles, order);
    is_right = is_right && status == job.status;
    is_right = is_right && memcmp(target, expected.data(), job.target_bytes) == 0;
  }
  ASAN_UNPOISON_MEMORY_REGION(wave, job.units_at);
  free(wave);
  free(target);
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
