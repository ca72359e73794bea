// Facts about simt.hpp, one per argument: `simt_test NAME`. Those named fails_* must be reported.
#include "simt.hpp"

#include <thread>

static void require(bool fact, const char* what) {
  if (!fact) {
    fprintf(stderr, "simt_test: %s\n", what);
    exit(1);
  }
}

static const simt::Schedule kSchedules[] = {
    {simt::Order::forward, 1}, {simt::Order::reverse, 1}, {simt::Order::shuffled, 7}};

// The sum of a grid's numbers: shuffles in a warp, shared memory and a barrier in a block, an
// atomic between blocks.
static void sum(const unsigned* numbers, unsigned count, unsigned long long* total) {
  __shared__ unsigned parts[8];
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned value = i < count ? numbers[i] : 0;
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
#ifndef SIMT_MUTATE_BARRIER
  __syncthreads();
#endif
  if (threadIdx.x != 0) return;
  for (unsigned warp = 1; warp < blockDim.x / 32; warp++) value += parts[warp];
  atomicAdd(total, value);
}

static unsigned long long summed(const simt::Schedule& schedule) {
  std::vector<unsigned> numbers(1000);
  for (unsigned i = 0; i < numbers.size(); i++) numbers[i] = i * 37 + 5;
  const unsigned* place = numbers.data();
  unsigned count = 1000;
  unsigned long long total = 0, *result = &total;
  void* params[] = {&place, &count, &result};
  simt::launch_params(sum, 4, 256, 0, params, schedule);
  return total;
}

static void sums_in_every_order() {
  for (auto schedule : kSchedules) require(summed(schedule) == 18486500, "the sum is wrong");
}

static void launches_of_several_host_threads() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) threads.emplace_back(sums_in_every_order);
  for (auto& thread : threads) thread.join();
}

static void exchange(unsigned* out) {
  unsigned lane = threadIdx.x % 32;
  unsigned up = __shfl_up_sync(~0u, lane, 3, 8);
  unsigned down = __shfl_down_sync(~0u, lane, 3, 8);
  unsigned from = __shfl_sync(~0u, lane, 5, 8);
  unsigned odd = __ballot_sync(~0u, lane & 1);
  unsigned like = __match_any_sync(~0u, lane / 4);
  unsigned most = __reduce_max_sync(~0u, lane * lane);
  out[threadIdx.x] = up + (down << 5) + (from << 10);
  out[threadIdx.x] ^= (odd == 0xAAAAAAAAu) << 20 | (like == 0xFu << lane / 4 * 4) << 21;
  out[threadIdx.x] ^= (most == 961) << 22 | (__any_sync(~0u, lane == 9) != 0) << 23;
  out[threadIdx.x] ^= (__all_sync(~0u, lane == 9) == 0) << 24;
  out[threadIdx.x] ^= unsigned(__syncthreads_count(lane < 3) == 6) << 25;
}

static void collectives_are_those_of_the_manual() {
  for (auto schedule : kSchedules) {
    unsigned out[64], *place = out;
    void* params[] = {&place};
    simt::launch_params(exchange, 1, 64, 0, params, schedule);
    for (unsigned i = 0; i < 64; i++) {
      unsigned lane = i % 32, segment = lane / 8 * 8;
      unsigned up = lane % 8 >= 3 ? lane - 3 : lane;
      unsigned down = lane % 8 < 5 ? lane + 3 : lane;
      unsigned expected = up + (down << 5) + ((segment + 5) << 10) + (63u << 20);
      require(out[i] == expected, "a collective is wrong");
    }
  }
}

static void integers_are_those_of_the_manual() {
  require(__byte_perm(0x33221100, 0x77665544, 0x6240) == 0x66224400, "__byte_perm");
  require(__byte_perm(0x00008000, 0, 0x9919) == 0xFFFF80FF, "__byte_perm with signs");
  require(__funnelshift_r(0x44332211, 0x88776655, 8) == 0x55443322, "__funnelshift_r");
  require(__funnelshift_l(0x44332211, 0x88776655, 8) == 0x77665544, "__funnelshift_l");
  require(__brev(1) == 0x80000000u && __clz(0) == 32 && __ffs(8) == 4, "__brev, __clz, __ffs");
}

static void dynamic() {
  SIMT_DYNAMIC_SHARED(unsigned, words);
  require(words[threadIdx.x] == 0xCDCDCDCDu, "dynamic shared memory is not painted");
  words[threadIdx.x] = threadIdx.x;
}
static void dynamic_shared_memory_is_painted() {
  simt::launch_params(dynamic, 3, 64, 256, nullptr);
}

static void one_leaves() {
  if (threadIdx.x == 5) return;
  __syncthreads();
}
static void fails_where_a_thread_leaves_before_the_barrier() {
  simt::launch_params(one_leaves, 1, 64, 0, nullptr);
}

static void two_barriers() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
static void fails_where_threads_meet_at_different_barriers() {
  simt::launch_params(two_barriers, 1, 64, 0, nullptr);
}

static void two_operations() {
  if (threadIdx.x & 1) __ballot_sync(~0u, 1);
  else __shfl_sync(~0u, 1, 0);
}
static void fails_where_lanes_meet_in_different_operations() {
  simt::launch_params(two_operations, 1, 32, 0, nullptr);
}

static void foreign_lane() { __shfl_sync(0xFFu, 1, 9); }
static void fails_where_a_shuffle_reads_outside_its_mask() {
  simt::launch_params(foreign_lane, 1, 8, 0, nullptr);
}

static void half_warp() { __syncwarp(); }
static void fails_where_a_mask_names_lanes_that_are_not_there() {
  simt::launch_params(half_warp, 1, 16, 0, nullptr);
}

static void nothing() {}
static void fails_where_a_block_is_too_large() {
  simt::launch_params(nothing, 1, dim3(1024, 2), 0, nullptr);
}

static void read_behind(const unsigned* words, unsigned* sink) {
  sink[threadIdx.x] = words[threadIdx.x + 1];  // the line that a report names
}
static void fails_where_a_kernel_reads_behind_its_input() {
  unsigned *words = static_cast<unsigned*>(calloc(32, 4)), sink[32], *out = sink;
  void* params[] = {&words, &out};
  simt::launch_params(read_behind, 1, 32, 0, params);
  free(words);
}

#define FACT(name) {#name, name}
static const std::pair<const char*, void (*)()> kFacts[] = {
    FACT(sums_in_every_order),
    FACT(launches_of_several_host_threads),
    FACT(collectives_are_those_of_the_manual),
    FACT(integers_are_those_of_the_manual),
    FACT(dynamic_shared_memory_is_painted),
    FACT(fails_where_a_thread_leaves_before_the_barrier),
    FACT(fails_where_threads_meet_at_different_barriers),
    FACT(fails_where_lanes_meet_in_different_operations),
    FACT(fails_where_a_shuffle_reads_outside_its_mask),
    FACT(fails_where_a_mask_names_lanes_that_are_not_there),
    FACT(fails_where_a_block_is_too_large),
    FACT(fails_where_a_kernel_reads_behind_its_input),
};

int main(int count, char** names) {
  for (const auto& [name, fact] : kFacts) {
    if (count == 2 && !strcmp(name, names[1])) {
      fact();
      return 0;
    }
  }
  fprintf(stderr, "simt_test: no such fact\n");
  return 2;
}
