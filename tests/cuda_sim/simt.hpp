// CUDA kernels on the CPU: one fiber per CUDA thread, one block after another. For tests only.
//
// Compile a kernel with `g++ -std=c++17 -x c++ -U_FORTIFY_SOURCE -include simt.hpp kernel.cu`, or
// include this file and then the kernel; standard headers come first, because this file gives
// words like __noinline__ a meaning. `simt::launch_params` takes what cuLaunchKernel takes.
//
// A fiber runs until it reaches a collective (barrier, shuffle, vote) and waits there until all
// that take part have come. The order in which fibers get their turn is chosen per launch
// (Schedule): a missing barrier gives another result in at least one of the orders. Reported with
// the line of the source, and then abort(): a barrier that not all threads reach or that they reach
// in different lines, lanes that meet in different operations or with different masks, a shuffle
// from a lane outside the mask, a launch beyond the limits of the device.
//
// Several host threads may launch at once: all state is thread_local, __shared__ included.
// With -fsanitize=address a read behind a buffer is reported at its line in the kernel; with
// -fsanitize=thread races between launches of different host threads are.
//
// What it does not show: races of a block that no order of whole turns uncovers, blocks that run
// at the same time, shared memory that was not written (it keeps what the block before left,
// dynamic shared memory apart, which is painted).
//
// This file is over 500 lines because a kernel includes one header for all words of CUDA.
#pragma once

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define SIMT_SWAPS_CONTEXTS 1
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define SIMT_SWAPS_CONTEXTS 1
#elif defined(_FORTIFY_SOURCE) && _FORTIFY_SOURCE > 0
#error "fibers jump between stacks, which _FORTIFY_SOURCE takes for an attack: -U_FORTIFY_SOURCE"
#endif

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace simt {

// Who gets the next turn, among the blocks of a grid and the threads of a block.
enum class Order : uint8_t { forward, reverse, shuffled };

struct Schedule {
  Order order = Order::forward;
  uint64_t seed = 1;  // of shuffled
};

// The schedule of launches that name none: SIMT_ORDER = forward | reverse | shuffled[:seed].
inline Schedule schedule_from_environment() {
  const char* text = getenv("SIMT_ORDER");
  if (!text || !strcmp(text, "forward")) return {};
  if (!strcmp(text, "reverse")) return {Order::reverse, 1};
  if (!strncmp(text, "shuffled", 8) && (text[8] == 0 || text[8] == ':')) {
    return {Order::shuffled, text[8] ? strtoull(text + 9, nullptr, 10) : 1};
  }
  fprintf(stderr, "simt: SIMT_ORDER=%s: forward, reverse, shuffled or shuffled:SEED\n", text);
  abort();
}

constexpr unsigned kWarp = 32;
constexpr unsigned kThreadsMax = 1024;
constexpr size_t kSharedMax = 48 << 10;  // without the driver call that raises it
constexpr size_t kPage = 4096;
#ifdef SIMT_SWAPS_CONTEXTS
constexpr size_t kStack = 256 << 10;  // sanitizers put red zones into frames
#else
constexpr size_t kStack = 64 << 10;
#endif

inline bool is_launchable(dim3 grid, dim3 block, size_t shared_bytes) {
  bool has_threads = block.x && block.y && block.z && block.x <= 1024 && block.y <= 1024;
  bool has_blocks = grid.x && grid.y && grid.z && grid.x <= 0x7fffffffu;
  return has_threads && has_blocks && block.z <= 64 && grid.y <= 65535 && grid.z <= 65535 &&
         block.x * block.y * block.z <= kThreadsMax && shared_bytes <= kSharedMax;
}

struct Site {
  const char* what;
  const char* file;
  int line;
  bool operator==(const Site& other) const {
    return line == other.line && is_same(what, other.what) && is_same(file, other.file);
  }
  static bool is_same(const char* text, const char* other) {
    return text == other || !strcmp(text, other);
  }
};

enum class State : uint8_t { ready, waiting, left };

// Stacks of fibers outlive their host threads: a test starts hundreds of streams. Sanitizers mark
// the frames of a stack, so that theirs are mapped anew.
inline std::mutex stacks_lock;
inline std::vector<void*>& stacks_free = *new std::vector<void*>;  // threads may outlive exit()

inline void* new_stack() {
  {
    std::lock_guard<std::mutex> lock(stacks_lock);
    if (!stacks_free.empty()) {
      void* memory = stacks_free.back();
      stacks_free.pop_back();
      return memory;
    }
  }
  void* memory = mmap(nullptr, kPage + kStack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kPage, PROT_NONE)) {
    perror("simt: stack of a fiber");
    abort();
  }
  return memory;
}

inline void give_stack_back(void* memory) {
#ifdef SIMT_SWAPS_CONTEXTS
  munmap(memory, kPage + kStack);
#else
  std::lock_guard<std::mutex> lock(stacks_lock);
  stacks_free.push_back(memory);
#endif
}

// A CUDA thread. It waits until `*watched` is no longer `phase`.
struct Fiber {
  dim3 thread;
  unsigned index = 0;
  State state = State::left;
  const uint64_t* watched = nullptr;
  uint64_t phase = 0;
  Site site = {};
  void* memory = nullptr;  // a page without access, then the stack
  bool was_entered = false;
  ucontext_t context;
  jmp_buf jump;
  void* tsan = nullptr;

  Fiber() = default;
  Fiber(const Fiber&) = delete;
  ~Fiber() {
    if (memory) give_stack_back(memory);
#ifdef __SANITIZE_THREAD__
    if (tsan) __tsan_destroy_fiber(tsan);
#endif
  }
  char* stack() const { return static_cast<char*>(memory) + kPage; }
};

// Where the lanes of one mask exchange a value each. `values` has two sides: a lane that is fast
// enters the next meeting while slow ones still read this one.
struct Meeting {
  uint32_t mask = 0, arrived = 0;
  const char* operation = nullptr;
  uint64_t phase = 0;
  uint64_t values[2][kWarp];
};

struct Warp {
  Meeting meetings[kWarp];  // by the lowest lane of their mask
};

// The block that this host thread runs.
struct Block {
  dim3 grid, size, place;
  unsigned threads = 0, left = 0;
  Fiber* current = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Warp> warps;
  std::vector<unsigned> turns;
  std::vector<unsigned char> dynamic_shared;
  unsigned arrived = 0;  // at the barrier
  uint64_t barrier_phase = 0;
  int predicates[2] = {0, 0};
  Site barrier_site = {};
  void (*body)(void*) = nullptr;
  void* argument = nullptr;
  ucontext_t scheduler;
  jmp_buf scheduler_jump;
  const void* scheduler_stack = nullptr;
  size_t scheduler_bytes = 0;
  void* scheduler_tsan = nullptr;
};

inline thread_local Block* block = nullptr;

inline void show(const char* state, const Fiber& f) {
  const char* operation = f.site.what ? f.site.what : "nothing";
  const char* file = f.site.file ? f.site.file : "the kernel";
  fprintf(stderr, "  thread %u %s %s, %s:%d\n", f.index, state, operation, file, f.site.line);
}

[[noreturn]] inline void fail(const char* what) {
  const Block& b = *block;
  fprintf(stderr, "simt: %s in block (%u,%u,%u)\n", what, b.place.x, b.place.y, b.place.z);
  if (b.current) show("came to", *b.current);
  unsigned shown = 0;
  for (unsigned i = 0; i < b.threads && shown < 16; i++) {
    if (b.fibers[i]->state != State::waiting) continue;
    show("waits at", *b.fibers[i]);
    shown++;
  }
  if (b.left) fprintf(stderr, "  %u of %u threads have left the kernel\n", b.left, b.threads);
  abort();
}

// The switch between the scheduler and a fiber: plainly, a jump after the first entry, because
// swapcontext costs two system calls; under a sanitizer, swapcontext with its annotations.
#ifdef SIMT_SWAPS_CONTEXTS
inline void switch_to_scheduler() {
  Fiber& me = *block->current;
#ifdef __SANITIZE_ADDRESS__
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, block->scheduler_stack, block->scheduler_bytes);
  swapcontext(&me.context, &block->scheduler);
  __sanitizer_finish_switch_fiber(fake, &block->scheduler_stack, &block->scheduler_bytes);
#else
  __tsan_switch_to_fiber(block->scheduler_tsan, 0);
  swapcontext(&me.context, &block->scheduler);
#endif
}
inline void switch_to_fiber(Fiber& fiber) {
  block->current = &fiber;
#ifdef __SANITIZE_ADDRESS__
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, fiber.stack(), kStack);
  swapcontext(&block->scheduler, &fiber.context);
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
  block->scheduler_tsan = __tsan_get_current_fiber();
  if (!fiber.tsan) fiber.tsan = __tsan_create_fiber(0);
  __tsan_switch_to_fiber(fiber.tsan, 0);
  swapcontext(&block->scheduler, &fiber.context);
#endif
}
inline void fiber_entered() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &block->scheduler_stack, &block->scheduler_bytes);
#endif
}
#else
inline void switch_to_scheduler() {
  if (!_setjmp(block->current->jump)) _longjmp(block->scheduler_jump, 1);
}
inline void switch_to_fiber(Fiber& fiber) {
  block->current = &fiber;
  if (_setjmp(block->scheduler_jump)) return;
  if (fiber.was_entered) _longjmp(fiber.jump, 1);
  fiber.was_entered = true;
  setcontext(&fiber.context);
}
inline void fiber_entered() {}
#endif

// What a fiber does for ever: a thread of one block after another.
inline void fiber_main() {
  fiber_entered();
  for (;;) {
    block->body(block->argument);
    block->current->state = State::left;
    block->left++;
    switch_to_scheduler();
  }
}

inline void wait_for(const uint64_t* watched, uint64_t phase) {
  Fiber& me = *block->current;
  me.watched = watched;
  me.phase = phase;
  me.state = State::waiting;
  switch_to_scheduler();
}

// __syncthreads and its kin: the number of threads whose predicate is not 0.
inline int barrier(int predicate, Site site) {
  Block& b = *block;
  b.current->site = site;
  if (b.arrived == 0) b.barrier_site = site;
  if (!(b.barrier_site == site)) fail("threads meet at different barriers");
  uint64_t phase = b.barrier_phase;
  b.predicates[phase & 1] += predicate != 0;
  if (++b.arrived < b.threads) {
    wait_for(&b.barrier_phase, phase);
  } else {
    b.arrived = 0;
    b.predicates[(phase + 1) & 1] = 0;
    b.barrier_phase++;
  }
  return b.predicates[phase & 1];
}

inline unsigned lane() { return block->current->index % kWarp; }

// The lanes of `mask` exchange a value each: the values, by lane.
inline const uint64_t* meet(uint32_t mask, uint64_t value, Site site) {
  Fiber& me = *block->current;
  me.site = site;
  uint32_t bit = 1u << lane();
  if (!(mask & bit)) fail("a lane is not in its own mask");
  Meeting& m = block->warps[me.index / kWarp].meetings[__builtin_ctz(mask)];
  if (m.arrived == 0) {
    m.operation = site.what;
    m.mask = mask;
  }
  if (!Site::is_same(m.operation, site.what)) fail("lanes of a warp meet in different operations");
  if (m.mask != mask) fail("lanes of a warp meet with different masks");
  uint64_t phase = m.phase;
  m.values[phase & 1][lane()] = value;
  m.arrived |= bit;
  if (m.arrived != mask) {
    wait_for(&m.phase, phase);
  } else {
    m.arrived = 0;
    m.phase++;
  }
  return m.values[phase & 1];
}

template <class T>
uint64_t bits_from(T value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>, "at most 8 plain bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T value_from(uint64_t bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// What lane `from` gave, or one's own value where the lane asked for lies outside the segment.
template <class T>
T shuffle(uint32_t mask, T value, unsigned from, bool is_inside, Site site) {
  const uint64_t* values = meet(mask, bits_from(value), site);
  if (!is_inside) return value;
  if (!(mask >> from & 1)) fail("a shuffle reads a lane outside its mask");
  return value_from<T>(values[from]);
}

inline void* dynamic_shared() {
  uintptr_t place = reinterpret_cast<uintptr_t>(block->dynamic_shared.data());
  return reinterpret_cast<void*>((place + 15) & ~uintptr_t(15));
}

inline uint64_t random_from(uint64_t& state) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return state >> 33;
}

inline void run_block(const Schedule& schedule, uint64_t& random) {
  Block& b = *block;
  b.left = b.arrived = 0;
  std::fill(b.dynamic_shared.begin(), b.dynamic_shared.end(), 0xCD);
  for (Warp& warp : b.warps) {
    for (Meeting& meeting : warp.meetings) meeting.arrived = 0;
  }
  for (unsigned i = 0; i < b.threads; i++) {
    Fiber& f = *b.fibers[i];
    f.index = i;
    f.state = State::ready;
    f.site = {};
    f.thread = dim3(i % b.size.x, i / b.size.x % b.size.y, i / (b.size.x * b.size.y));
  }
  while (b.left < b.threads) {
    for (unsigned i = b.threads; schedule.order == Order::shuffled && i > 1; i--) {
      std::swap(b.turns[i - 1], b.turns[random_from(random) % i]);
    }
    bool has_run = false;
    for (unsigned turn : b.turns) {
      Fiber& f = *b.fibers[turn];
      bool is_waiting = f.state == State::waiting && *f.watched == f.phase;
      if (f.state == State::left || is_waiting) continue;
      f.state = State::ready;
      has_run = true;
      switch_to_fiber(f);
    }
    b.current = nullptr;
    if (!has_run) fail("deadlock: not all threads reach the same barrier, shuffle or vote");
  }
}

inline void prepare_fibers(Block& b) {
  while (b.fibers.size() < b.threads) {
    auto f = std::make_unique<Fiber>();
    f->memory = new_stack();
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack();
    f->context.uc_stack.ss_size = kStack;
    f->context.uc_link = nullptr;
    makecontext(&f->context, fiber_main, 0);
    b.fibers.push_back(std::move(f));
  }
}

inline void prepare(dim3 grid, dim3 size, size_t shared_bytes, const Schedule& schedule) {
  static thread_local std::unique_ptr<Block> owner = std::make_unique<Block>();
  block = owner.get();
  Block& b = *block;
  if (!is_launchable(grid, size, shared_bytes)) fail("a launch beyond the limits of a device");
  b.grid = grid;
  b.size = size;
  b.threads = size.x * size.y * size.z;
  b.current = nullptr;
  b.dynamic_shared.resize(shared_bytes + 16);
  b.warps.resize((b.threads + kWarp - 1) / kWarp);
  b.turns.resize(b.threads);
  for (unsigned i = 0; i < b.threads; i++) {
    b.turns[i] = schedule.order == Order::reverse ? b.threads - 1 - i : i;
  }
  prepare_fibers(b);
}

// Calls `body()` once for each thread of the grid.
template <class Body>
void launch(dim3 grid, dim3 size, size_t shared_bytes, Body body, Schedule schedule) {
  prepare(grid, size, shared_bytes, schedule);
  block->argument = &body;
  block->body = [](void* argument) { (*static_cast<Body*>(argument))(); };
  uint64_t random = schedule.seed;
  uint64_t blocks = uint64_t(grid.x) * grid.y * grid.z;
  // Shuffled blocks: a walk by a step that has no divisor in common with their number.
  uint64_t step = 1, first = 0;
  if (schedule.order == Order::shuffled) {
    first = random_from(random) % blocks;
    step = random_from(random) % blocks | 1;
    while (std::__gcd(step, blocks) != 1) step += 2;
  }
  for (uint64_t i = 0; i < blocks; i++) {
    uint64_t at = schedule.order == Order::reverse ? blocks - 1 - i : (first + i * step) % blocks;
    block->place = dim3(unsigned(at % grid.x), unsigned(at / grid.x % grid.y),
                        unsigned(at / grid.x / grid.y));
    run_block(schedule, random);
  }
}

template <class... A, size_t... I>
void call(void (*kernel)(A...), void** params, std::index_sequence<I...>) {
  kernel(*static_cast<A*>(params[I])...);
}

// As cuLaunchKernel: `params[i]` points to parameter i, which is read before this returns.
template <class... A>
void launch_params(void (*kernel)(A...), dim3 grid, dim3 size, size_t shared_bytes, void** params,
                   Schedule schedule = schedule_from_environment()) {
  auto body = [=] { call(kernel, params, std::index_sequence_for<A...>{}); };
  launch(grid, size, shared_bytes, body, schedule);
}

}  // namespace simt

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __constant__ static const
#define __shared__ static thread_local
#define SIMT_DYNAMIC_SHARED(T, name) T* name = static_cast<T*>(simt::dynamic_shared())

#define threadIdx (simt::block->current->thread)
#define blockIdx (simt::block->place)
#define blockDim (simt::block->size)
#define gridDim (simt::block->grid)

struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

// Each collective carries the line that it stands in.
#define SIMT_LINE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define SIMT_SITE simt::Site{__func__, file, line}

inline void __syncthreads(SIMT_LINE) { simt::barrier(0, SIMT_SITE); }
inline int __syncthreads_count(int p, SIMT_LINE) { return simt::barrier(p, SIMT_SITE); }
inline int __syncthreads_or(int p, SIMT_LINE) { return simt::barrier(p, SIMT_SITE) != 0; }
inline int __syncthreads_and(int p, SIMT_LINE) { return simt::barrier(!p, SIMT_SITE) == 0; }
inline void __syncwarp(unsigned mask = ~0u, SIMT_LINE) { simt::meet(mask, 0, SIMT_SITE); }

inline unsigned simt_votes(unsigned mask, const uint64_t* values) {
  unsigned votes = 0;
  for (unsigned i = 0; i < simt::kWarp; i++) {
    if ((mask >> i & 1) && values[i]) votes |= 1u << i;
  }
  return votes;
}
inline unsigned __ballot_sync(unsigned mask, int p, SIMT_LINE) {
  return simt_votes(mask, simt::meet(mask, p != 0, SIMT_SITE));
}
inline int __any_sync(unsigned mask, int p, SIMT_LINE) {
  return simt_votes(mask, simt::meet(mask, p != 0, SIMT_SITE)) != 0;
}
inline int __all_sync(unsigned mask, int p, SIMT_LINE) {
  return simt_votes(mask, simt::meet(mask, p != 0, SIMT_SITE)) == mask;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, SIMT_LINE) {
  const uint64_t* values = simt::meet(mask, simt::bits_from(value), SIMT_SITE);
  unsigned equal = 0;
  for (unsigned i = 0; i < simt::kWarp; i++) {
    if ((mask >> i & 1) && values[i] == simt::bits_from(value)) equal |= 1u << i;
  }
  return equal;
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, SIMT_LINE) {
  unsigned segment = simt::lane() & ~(unsigned(width) - 1);
  unsigned from = segment | (unsigned(source) & (unsigned(width) - 1));
  return simt::shuffle(mask, value, from, true, SIMT_SITE);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, SIMT_LINE) {
  unsigned from = simt::lane() ^ unsigned(lanes);
  bool is_inside = from < simt::kWarp && from / width <= simt::lane() / width;
  return simt::shuffle(mask, value, from % simt::kWarp, is_inside, SIMT_SITE);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = 32, SIMT_LINE) {
  bool is_inside = (simt::lane() & (unsigned(width) - 1)) >= lanes;
  return simt::shuffle(mask, value, (simt::lane() - lanes) % simt::kWarp, is_inside, SIMT_SITE);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32, SIMT_LINE) {
  bool is_inside = (simt::lane() & (unsigned(width) - 1)) + lanes < unsigned(width);
  return simt::shuffle(mask, value, (simt::lane() + lanes) % simt::kWarp, is_inside, SIMT_SITE);
}
// Which lanes are together is the hardware's choice: a kernel that asks depends on it.
inline unsigned __activemask() { simt::fail("__activemask has no meaning here"); }

// The reductions of sm_80.
template <class T, class F>
T simt_reduced(unsigned mask, const uint64_t* values, F combined) {
  unsigned first = unsigned(__builtin_ctz(mask));
  T result = simt::value_from<T>(values[first]);
  for (unsigned i = first + 1; i < simt::kWarp; i++) {
    if (mask >> i & 1) result = combined(result, simt::value_from<T>(values[i]));
  }
  return result;
}
#define SIMT_REDUCTION(name, expression)                                              \
  template <class T>                                                                  \
  T name(unsigned mask, T value, SIMT_LINE) {                                         \
    const uint64_t* values = simt::meet(mask, simt::bits_from(value), SIMT_SITE);     \
    return simt_reduced<T>(mask, values, [](T a, T b) -> T { return expression; });   \
  }
SIMT_REDUCTION(__reduce_add_sync, a + b)
SIMT_REDUCTION(__reduce_min_sync, a < b ? a : b)
SIMT_REDUCTION(__reduce_max_sync, a < b ? b : a)
SIMT_REDUCTION(__reduce_and_sync, a & b)
SIMT_REDUCTION(__reduce_or_sync, a | b)
SIMT_REDUCTION(__reduce_xor_sync, a ^ b)

inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }
inline int __clz(int v) { return v ? __builtin_clz(unsigned(v)) : 32; }
inline int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
inline unsigned __brev(unsigned v) {
  unsigned r = 0;
  for (int i = 0; i < 32; i++) r |= (v >> i & 1) << (31 - i);
  return r;
}
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  uint64_t bytes = uint64_t(high) << 32 | low;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) {
    unsigned choice = selector >> 4 * i & 15;
    unsigned byte = unsigned(bytes >> (choice & 7) * 8 & 255);
    // Bit 3 of a choice repeats the sign of the byte.
    r |= (choice & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
  }
  return r;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline unsigned __float_as_uint(float v) { return simt::value_from<unsigned>(simt::bits_from(v)); }
inline float __uint_as_float(unsigned v) { return simt::value_from<float>(v); }
inline long long __double_as_longlong(double v) {
  return simt::value_from<long long>(simt::bits_from(v));
}
inline double __longlong_as_double(long long v) {
  return simt::value_from<double>(simt::bits_from(v));
}
template <class T, class U>
std::common_type_t<T, U> min(T a, U b) {
  return b < a ? b : a;
}
template <class T, class U>
std::common_type_t<T, U> max(T a, U b) {
  return a < b ? b : a;
}

// Loads and stores with a cache hint.
#ifdef SIMT_WATCH
// Each load by __ldg is reported to it. Each library has its own: an inline one would be that of
// all libraries of a process, whose tests run at the same time.
static void (*simt_watch)(uintptr_t first, size_t bytes) = nullptr;
#endif
template <class T> T __ldg(const T* place) {
#ifdef SIMT_WATCH
  if (simt_watch) simt_watch(reinterpret_cast<uintptr_t>(place), sizeof(T));
#endif
  return *place;
}
template <class T> T __ldcg(const T* place) { return *place; }
template <class T> T __ldcs(const T* place) { return *place; }
template <class T> T __ldlu(const T* place) { return *place; }
template <class T> void __stcg(T* place, T value) { *place = value; }
template <class T> void __stcs(T* place, T value) { *place = value; }
template <class T> void __stwt(T* place, T value) { *place = value; }

template <class T, class F>
T simt_atomic(T* place, F next) {
  T seen;
  __atomic_load(place, &seen, __ATOMIC_RELAXED);
  for (;;) {
    T wanted = next(seen);
    if (__atomic_compare_exchange(place, &seen, &wanted, true, __ATOMIC_RELAXED,
                                  __ATOMIC_RELAXED)) {
      return seen;
    }
  }
}
template <class T, class U> T atomicAdd(T* place, U value) {
  return simt_atomic(place, [=](T seen) { return T(seen + T(value)); });
}
template <class T, class U> T atomicSub(T* place, U value) {
  return simt_atomic(place, [=](T seen) { return T(seen - T(value)); });
}
template <class T, class U> T atomicOr(T* place, U value) {
  return simt_atomic(place, [=](T seen) { return T(seen | T(value)); });
}
template <class T, class U> T atomicAnd(T* place, U value) {
  return simt_atomic(place, [=](T seen) { return T(seen & T(value)); });
}
template <class T, class U> T atomicXor(T* place, U value) {
  return simt_atomic(place, [=](T seen) { return T(seen ^ T(value)); });
}
template <class T, class U> T atomicMin(T* place, U value) {
  return simt_atomic(place, [=](T seen) { return seen < T(value) ? seen : T(value); });
}
template <class T, class U> T atomicMax(T* place, U value) {
  return simt_atomic(place, [=](T seen) { return T(value) < seen ? seen : T(value); });
}
template <class T, class U> T atomicExch(T* place, U value) {
  return simt_atomic(place, [=](T) { return T(value); });
}
template <class T, class U, class V> T atomicCAS(T* place, U compare, V value) {
  return simt_atomic(place, [=](T seen) { return seen == T(compare) ? T(value) : seen; });
}
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __nanosleep(unsigned) {}
[[noreturn]] inline void __trap() { simt::fail("__trap"); }
