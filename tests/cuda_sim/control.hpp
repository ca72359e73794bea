// How a test sets the simulated driver up and asks what it found: functions with C names that
// tests/common/cuda_sim.rs looks up. The end of driver.cpp, whose objects they look at.
#pragma once

#define CONTROL extern "C" __attribute__((visibility("default")))

namespace {

// Objects that live, and what they are.
uint64_t live(char* text, size_t bytes) {
  uint64_t count[7] = {};
  for (const Block& block : blocks) count[0] += block.is_used;
  for (const Pinned& block : pinned) count[1] += block.is_used;
  for (const Stream& stream : streams) count[2] += stream.is_alive && !stream.is_default;
  for (const Event& event : events) count[3] += event.is_alive;
  for (const Module& module : modules) count[4] += module.is_alive;
  for (const Context& context : contexts) count[5] += context.is_alive ? context.retains : 0;
  for (const Graph& graph : graphs) count[6] += graph.is_alive;
  if (text && bytes) {
    snprintf(text, bytes,
             "%llu blocks, %llu pinned blocks, %llu streams, %llu events, %llu modules, "
             "%llu retains, %llu graphs",
             (unsigned long long)count[0], (unsigned long long)count[1],
             (unsigned long long)count[2], (unsigned long long)count[3],
             (unsigned long long)count[4], (unsigned long long)count[5],
             (unsigned long long)count[6]);
  }
  uint64_t sum = 0;
  for (uint64_t each : count) sum += each;
  return sum;
}

}  // namespace

// Forgets settings, counters, faults, findings and which streams are held; the memory that a device
// had most is now.
// Objects that live stay: the number of them, as simcuda_live counts.
CONTROL uint64_t simcuda_reset() {
  Lock lock(state.lock);
  state.settings = Settings();
  // Of a test that failed, and that would stand in the way of the next one's.
  for (Stream& stream : streams) stream.is_held = false;
  state.changed.notify_all();
  for (uint64_t& calls : state.calls) calls = 0;
  state.call_count = state.allocation_count = state.wait_count = state.launch_count = 0;
  state.pageable_copies = state.bus_bytes = 0;
  refused_one_in = 0;
  state.random = 1;
  state.fault = Fault();
  state.stalled_entry = -1;
  state.is_stalled = false;
  state.finding_count = 0;
  state.is_initialized = true;
  for (DeviceMemory& memory : device_memory) memory.peak_bytes = memory.used_bytes;
  return live(nullptr, 0);
}

// As a process that did not call cuInit.
CONTROL void simcuda_uninitialize() {
  Lock lock(state.lock);
  state.is_initialized = false;
}

// Calls of an entry, of all for NULL; UINT64_MAX where there is no such entry.
CONTROL uint64_t simcuda_calls(const char* name) {
  Lock lock(state.lock);
  if (!name) return state.call_count;
  int entry = entry_number(name);
  return entry < 0 ? UINT64_MAX : state.calls[entry];
}

// Blocks, streams, events and modules that were asked for so far, and what streams were given work
// of a kind for the first time.
CONTROL uint64_t simcuda_allocations() {
  Lock lock(state.lock);
  return state.allocation_count;
}

// The n-th call from now on of an entry (NULL: of all), counted from 0, and `times - 1` after it,
// fail with `code` and do nothing else.
CONTROL void simcuda_fail(const char* name, uint64_t first, unsigned code, uint64_t times) {
  Lock lock(state.lock);
  state.fault = {name ? entry_number(name) : -1, first, times, code, 0};
  if (name && state.fault.entry < 0) abort();
}

// The n-th call from now on of an entry, counted from 0, stops before it does anything; NULL: it
// goes on.
CONTROL void simcuda_stall(const char* name, uint64_t number) {
  Lock lock(state.lock);
  state.stalled_entry = name ? entry_number(name) : -1;
  if (name && state.stalled_entry < 0) abort();
  state.calls_until_stall = number;
  state.is_stalled = false;
  state.changed.notify_all();
}

// Whether a call has stopped.
CONTROL int simcuda_is_stalled() {
  Lock lock(state.lock);
  return state.is_stalled;
}

// Calls that the fault of simcuda_fail has looked at.
CONTROL uint64_t simcuda_fault_seen() {
  Lock lock(state.lock);
  return state.fault.seen;
}

// The n-th cuStreamWaitEvent from now on, counted from 0, is forgotten; -1: none.
CONTROL void simcuda_drop_wait(int64_t number) {
  Lock lock(state.lock);
  state.wait_count = 0;
  state.settings.dropped_wait = number;
}

// Calls of cuStreamWaitEvent since simcuda_drop_wait or simcuda_reset.
CONTROL uint64_t simcuda_waits() {
  Lock lock(state.lock);
  return state.wait_count;
}

CONTROL uint64_t simcuda_launches() {
  Lock lock(state.lock);
  return state.launch_count;
}

// Asynchronous copies from or to memory of the host that is not pinned.
CONTROL uint64_t simcuda_pageable_copies() {
  Lock lock(state.lock);
  return state.pageable_copies;
}

// Bytes of copies to devices, since simcuda_reset.
CONTROL uint64_t simcuda_bus_bytes() {
  Lock lock(state.lock);
  return state.bus_bytes;
}

// One stream in so many is refused by the kernel that decodes it, and its target is painted; 0:
// none but those that it refuses by itself.
CONTROL void simcuda_refuse_streams(unsigned one_in) { refused_one_in = one_in; }

CONTROL void simcuda_set_devices(int count) {
  Lock lock(state.lock);
  if (count < 0 || count > int(kDevices)) abort();
  state.settings.devices = count;
}

CONTROL void simcuda_set_version(int version) {
  Lock lock(state.lock);
  state.settings.version = version;
}

CONTROL void simcuda_set_capability(int major, int minor) {
  Lock lock(state.lock);
  state.settings.capability_major = major;
  state.settings.capability_minor = minor;
}

// What one attribute of all devices is, whatever else would be said; 0: none.
CONTROL void simcuda_set_attribute(unsigned attribute, int value) {
  Lock lock(state.lock);
  state.settings.attribute = attribute;
  state.settings.attribute_value = value;
}

CONTROL void simcuda_set_init_result(unsigned code) {
  Lock lock(state.lock);
  state.settings.init_result = code;
}

CONTROL void simcuda_set_memory(uint64_t bytes) {
  Lock lock(state.lock);
  state.settings.memory_bytes = bytes;
}

CONTROL void simcuda_set_pinned_max(uint64_t bytes) {
  Lock lock(state.lock);
  state.settings.pinned_bytes_max = bytes;
}

// 0 eager, 1 jitter, 2 lazy, 3 slow; the seed of all but the first.
CONTROL void simcuda_set_mode(unsigned mode, uint64_t seed) {
  Lock lock(state.lock);
  if (mode > 3) abort();
  state.settings.mode = Mode(mode);
  state.settings.seed = state.random = seed * 2 + 1;
  for (Stream& stream : streams) stream.random = state.settings.seed * 1000003 + stream.queued;
  state.changed.notify_all();
}

// The order of blocks and threads of a kernel: "forward", "reverse", "shuffled".
CONTROL void simcuda_set_order(const char* order, uint64_t seed) {
  Lock lock(state.lock);
  state.settings.schedule = schedule_from(order, seed);
}

// 1: nothing that is queued runs, until 0. Who waits for it waits so long.
CONTROL void simcuda_hold(int is_held) {
  Lock lock(state.lock);
  state.settings.is_held = is_held != 0;
  state.changed.notify_all();
}

// The same for one stream.
CONTROL void simcuda_hold_stream(void* handle, int is_held) {
  Lock lock(state.lock);
  Stream* stream = stream_of(handle);
  if (!stream) abort();
  stream->is_held = is_held != 0;
  state.changed.notify_all();
}

// 1: all streams share one connection, as with CUDA_DEVICE_MAX_CONNECTIONS=1, until 0. Before
// anything is queued, and not in mode lazy.
CONTROL void simcuda_share_connection(int is_shared) {
  Lock lock(state.lock);
  state.settings.is_shared = is_shared != 0;
}

// Bytes of blocks of a device: now, and most so far.
CONTROL uint64_t simcuda_used_bytes(int device) {
  Lock lock(state.lock);
  return device_memory[device].used_bytes;
}
CONTROL uint64_t simcuda_peak_bytes(int device) {
  Lock lock(state.lock);
  return device_memory[device].peak_bytes;
}
CONTROL uint64_t simcuda_pinned_bytes() {
  Lock lock(state.lock);
  return pinned_used_bytes;
}

// Blocks, pinned blocks, streams that were made, events, modules, retains of primary contexts and
// graphs that live; a text that says how many of which.
CONTROL uint64_t simcuda_live(char* text, size_t bytes) {
  Lock lock(state.lock);
  return live(text, bytes);
}

// How many things were found wrong, and what, one per line.
CONTROL uint64_t simcuda_findings(char* text, size_t bytes) {
  Lock lock(state.lock);
  if (text && bytes) text[0] = 0;
  size_t length = 0;
  unsigned kept = state.finding_count < kFindings ? state.finding_count : kFindings;
  for (unsigned i = 0; text && i < kept && length + 1 < bytes; i++) {
    length += size_t(snprintf(text + length, bytes - length, "%s\n", state.findings[i]));
  }
  return state.finding_count;
}

// The calling thread's contexts, from the oldest on, and its capture mode; how many contexts.
CONTROL unsigned simcuda_thread(void** contexts_of_thread, unsigned count, unsigned* capture_mode) {
  for (unsigned i = 0; i < count && i < mine().depth; i++) {
    contexts_of_thread[i] = mine().contexts[i];
  }
  if (capture_mode) *capture_mode = mine().capture_mode;
  return mine().depth;
}

// At the end of a program that asks for it: findings and what was not given back, on stderr.
namespace {
struct End {
  ~End() {
    if (!getenv("SIMCUDA_REPORT")) return;
    char text[4096];
    uint64_t count = simcuda_findings(text, sizeof text);
    fprintf(stderr, "simcuda: %llu findings\n%s", (unsigned long long)count, text);
    count = simcuda_live(text, sizeof text);
    fprintf(stderr, "simcuda: %llu objects live (%s)\n", (unsigned long long)count, text);
  }
} end;
}  // namespace
