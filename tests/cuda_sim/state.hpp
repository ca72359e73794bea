// What the simulated driver knows: settings, counters, injected faults, and what it found wrong.
//
// Everything is under one lock, `state.lock`, and in memory of fixed size: once streams and events
// are made, the simulator allocates nothing, so a program that counts its malloc calls counts its
// own. (A kernel's first launch on a thread takes memory for its fibers.)
#pragma once

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <condition_variable>
#include <mutex>
#include <new>

#include "simt.hpp"

namespace sim {

// CUresult, as far as the simulator gives it.
enum : unsigned {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kInvalidPtx = 218,
  kUnsupportedPtx = 222,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kAlreadyRegistered = 712,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureMerge = 902,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCaptureImplicit = 906,
  kCapturedEvent = 907,
  kCaptureWrongThread = 908,
};

// When queued work runs.
enum class Mode : uint8_t {
  eager,   // a thread per stream, as soon as it can
  jitter,  // the same, and each thread dawdles at random: streams overtake each other
  lazy,    // only when a query or a wait asks for it, then only what it depends on, in an order
           // drawn from the seed: an order that nothing enforces does not come about by luck
  slow,    // as jitter, and calls take long at random, so that other threads get far in between
};

// Blocks, streams and events that live at a time.
constexpr unsigned kDevices = 4, kContexts = 16, kStreams = 256, kEvents = 4096;
constexpr unsigned kBlocks = 1024, kPinned = 1024, kModules = 64, kOps = 1 << 16;
constexpr unsigned kThreadContexts = 16, kCaptures = 16, kGraphs = 64;

struct Settings {
  int devices = 1;
  int version = 12000;
  int capability_major = 8, capability_minor = 0;
  unsigned attribute = 0;  // of a device that has another value than it would
  int attribute_value = 0;
  uint64_t memory_bytes = uint64_t(4) << 30;  // of a device
  uint64_t pinned_bytes_max = uint64_t(4) << 30;
  uint64_t context_bytes = 8 << 20, module_bytes = 1 << 20;  // that come off the free memory
  unsigned init_result = kSuccess;
  Mode mode = Mode::eager;
  uint64_t seed = 1;
  simt::Schedule schedule;
  int64_t dropped_wait = -1;  // of cuStreamWaitEvent calls, counted from 0
  bool is_held = false;       // nothing runs
  bool is_shared = false;     // all streams share one connection
};

// The n-th call of an entry (of all, where entry is -1) and `times - 1` more do nothing but fail.
struct Fault {
  int entry = -1;
  uint64_t first = UINT64_MAX, times = 0;
  unsigned code = 0;
  uint64_t seen = 0;
};

constexpr unsigned kEntriesMax = 96;
constexpr unsigned kFindings = 64, kFindingBytes = 240;

struct State {
  std::mutex lock;
  std::condition_variable changed;
  Settings settings;
  bool is_initialized = false;
  const char* names[kEntriesMax] = {};
  unsigned name_count = 0;
  uint64_t calls[kEntriesMax] = {};
  uint64_t call_count = 0, allocation_count = 0, wait_count = 0, launch_count = 0;
  uint64_t pageable_copies = 0;
  uint64_t bus_bytes = 0;  // to devices
  uint64_t random = 1;  // of mode lazy
  Fault fault;
  int stalled_entry = -1;  // of which a call stops, after so many others
  uint64_t calls_until_stall = 0;
  bool is_stalled = false;
  char findings[kFindings][kFindingBytes] = {};
  unsigned finding_count = 0;
};

// Never destroyed: threads of the simulator wait in it when the process ends.
alignas(State) inline unsigned char state_memory[sizeof(State)];
inline State& state = *new (state_memory) State;
using Lock = std::unique_lock<std::mutex>;

// Something that a program must not do, or a defect that only shows here.
__attribute__((format(printf, 1, 2))) inline void found(const char* format, ...) {
  if (state.finding_count < kFindings) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(state.findings[state.finding_count], kFindingBytes, format, arguments);
    va_end(arguments);
  }
  state.finding_count++;
}

inline int entry_number(const char* name) {
  for (unsigned i = 0; i < state.name_count; i++) {
    if (!strcmp(state.names[i], name)) return int(i);
  }
  return -1;
}

inline int add_entry(const char* name) {
  if (state.name_count == kEntriesMax) abort();
  state.names[state.name_count] = name;
  return int(state.name_count++);
}

// Counts a call; not kSuccess where it must fail. Under the lock.
inline unsigned count_call(int entry) {
  state.calls[entry]++;
  state.call_count++;
  Fault& fault = state.fault;
  if (fault.times == 0 || (fault.entry >= 0 && fault.entry != entry)) return kSuccess;
  uint64_t number = fault.seen++;
  if (number < fault.first || number - fault.first >= fault.times) return kSuccess;
  return fault.code;
}

inline uint64_t random_below(uint64_t& random, uint64_t limit) {
  return simt::random_from(random) % limit;
}

inline double now_milliseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) * 1e3 + double(now.tv_nsec) * 1e-6;
}

inline uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = getenv(name);
  return text ? strtoull(text, nullptr, 0) : otherwise;
}

inline simt::Schedule schedule_from(const char* order, uint64_t seed) {
  if (!strcmp(order, "reverse")) return {simt::Order::reverse, seed};
  if (!strcmp(order, "shuffled")) return {simt::Order::shuffled, seed};
  return {simt::Order::forward, seed};
}

// What a program without the control functions says with its environment.
inline void read_environment() {
  Settings& s = state.settings;
  s.devices = int(number_from_environment("SIMCUDA_DEVICES", uint64_t(s.devices)));
  s.version = int(number_from_environment("SIMCUDA_VERSION", uint64_t(s.version)));
  uint64_t capability = number_from_environment("SIMCUDA_CAPABILITY", 80);
  s.capability_major = int(capability / 10);
  s.capability_minor = int(capability % 10);
  s.memory_bytes = number_from_environment("SIMCUDA_MEMORY", s.memory_bytes);
  s.init_result = unsigned(number_from_environment("SIMCUDA_INIT", s.init_result));
  s.seed = state.random = number_from_environment("SIMCUDA_SEED", s.seed);
  s.dropped_wait = int64_t(number_from_environment("SIMCUDA_DROP_WAIT", UINT64_MAX));
  if (const char* mode = getenv("SIMCUDA_MODE")) {
    s.mode = !strcmp(mode, "lazy")     ? Mode::lazy
             : !strcmp(mode, "jitter") ? Mode::jitter
             : !strcmp(mode, "slow")   ? Mode::slow
                                       : Mode::eager;
  }
  if (const char* order = getenv("SIMCUDA_ORDER")) s.schedule = schedule_from(order, s.seed);
  // SIMCUDA_FAIL=cuMemAlloc_v2:0:2 fails the first such call with code 2.
  if (const char* fail = getenv("SIMCUDA_FAIL")) {
    char name[64] = {};
    unsigned long long first = 0;
    unsigned code = 0;
    if (sscanf(fail, "%63[^:]:%llu:%u", name, &first, &code) == 3) {
      state.fault = {entry_number(name), first, 1, code, 0};
    }
  }
}

}  // namespace sim
