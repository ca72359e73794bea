// Memory of the simulated devices, and pinned memory of the host.
//
// Device memory is a mapping of its own per device, which the host can read too. A block lies
// between two guard zones, is aligned to 256 bytes and to no more, is painted when it is given out
// and when it comes back, and its place is not given out again before all others were. Under
// AddressSanitizer what is not given out cannot be touched.
#pragma once

#include "state.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace sim {

constexpr unsigned char kPoison = 0xFB, kGuard = 0xFD, kPinnedPoison = 0xFA;
constexpr uint64_t kGuardBytes = 512, kAlign = 256;
// A large block is painted at its ends, so that a test pays for what it uses; of a freed one less
// stays, because its place is not given out again soon.
constexpr uint64_t kPaintedBytes = 512 << 10, kFreedBytes = 64 << 10;
// Addresses of a device; more than memory_bytes, for guards and places that rest.
constexpr uint64_t kDeviceSpan = uint64_t(64) << 30;

struct Context;

struct Block {
  bool is_used = false;
  int device = 0;
  Context* context = nullptr;
  uint64_t first = 0, bytes = 0;
};

struct Pinned {
  bool is_used = false;
  Context* context = nullptr;
  unsigned char* first = nullptr;
  uint64_t bytes = 0, mapped = 0;
};

struct DeviceMemory {
  uint64_t first = 0;  // of the mapping; 0: not mapped yet
  uint64_t next = 0;   // where the search for a place begins
  uint64_t used_bytes = 0, peak_bytes = 0, overhead_bytes = 0;
};

inline Block blocks[kBlocks];
inline Pinned pinned[kPinned];
inline DeviceMemory device_memory[kDevices];
inline uint64_t pinned_used_bytes = 0;

inline void forbid(uint64_t first, uint64_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __asan_poison_memory_region(reinterpret_cast<void*>(first), bytes);
#else
  (void)first, (void)bytes;
#endif
}
inline void allow(uint64_t first, uint64_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(reinterpret_cast<void*>(first), bytes);
#else
  (void)first, (void)bytes;
#endif
}

inline void paint(uint64_t first, uint64_t bytes, unsigned char value, uint64_t most) {
  unsigned char* place = reinterpret_cast<unsigned char*>(first);
  uint64_t part = bytes < most ? bytes : most;
  memset(place, value, part);
  if (bytes > part) memset(place + bytes - part, value, part);
}

inline bool map_device(int device) {
  DeviceMemory& memory = device_memory[device];
  if (memory.first) return true;
  void* mapped = mmap(nullptr, kDeviceSpan, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return false;
  memory.first = memory.next = reinterpret_cast<uint64_t>(mapped);
  return true;
}

// A block, guards included, that lies across [first, last).
inline Block* block_across(int device, uint64_t first, uint64_t last) {
  for (Block& block : blocks) {
    if (block.is_used && block.device == device && block.first - kGuardBytes < last &&
        first < block.first + block.bytes + kGuardBytes) {
      return &block;
    }
  }
  return nullptr;
}

// The block that holds [first, first + bytes), or null.
inline Block* block_of(uint64_t first, uint64_t bytes) {
  for (Block& block : blocks) {
    if (block.is_used && first >= block.first && first - block.first <= block.bytes &&
        bytes <= block.bytes - (first - block.first)) {
      return &block;
    }
  }
  return nullptr;
}

// Where a block of `bytes` may begin, at or behind `from`; 0 where there is no room up to the end.
inline uint64_t place_from(int device, uint64_t from, uint64_t bytes) {
  uint64_t end = device_memory[device].first + kDeviceSpan;
  for (unsigned tries = 0; tries <= kBlocks; tries++) {
    // An odd multiple of the alignment, so that nobody relies on more.
    uint64_t first = (from + kGuardBytes + 2 * kAlign - 1) / (2 * kAlign) * (2 * kAlign) + kAlign;
    if (first + bytes + kGuardBytes > end) return 0;
    Block* other = block_across(device, first - kGuardBytes, first + bytes + kGuardBytes);
    if (!other) return first;
    from = other->first + other->bytes + kGuardBytes;
  }
  return 0;
}

inline unsigned device_alloc(Context* context, int device, uint64_t bytes, uint64_t* result) {
  DeviceMemory& memory = device_memory[device];
  uint64_t taken = memory.used_bytes + memory.overhead_bytes;
  if (bytes == 0) return kInvalidValue;
  if (taken > state.settings.memory_bytes || bytes > state.settings.memory_bytes - taken) {
    return kOutOfMemory;
  }
  Block* block = nullptr;
  for (Block& candidate : blocks) {
    if (!candidate.is_used) block = &candidate;
  }
  if (!block || !map_device(device)) return kOutOfMemory;
  uint64_t first = place_from(device, memory.next, bytes);
  if (!first) first = place_from(device, memory.first, bytes);
  if (!first) return kOutOfMemory;
  *block = {true, device, context, first, bytes};
  allow(first - kGuardBytes, bytes + 2 * kGuardBytes);
  memset(reinterpret_cast<void*>(first - kGuardBytes), kGuard, kGuardBytes);
  memset(reinterpret_cast<void*>(first + bytes), kGuard, kGuardBytes);
  paint(first, bytes, kPoison, kPaintedBytes);
  forbid(first - kGuardBytes, kGuardBytes);
  forbid(first + bytes, kGuardBytes);
  memory.next = first + bytes + kGuardBytes;
  memory.used_bytes += bytes;
  if (memory.used_bytes > memory.peak_bytes) memory.peak_bytes = memory.used_bytes;
  *result = first;
  return kSuccess;
}

inline bool is_guard_whole(const Block& block) {
  allow(block.first - kGuardBytes, kGuardBytes);
  allow(block.first + block.bytes, kGuardBytes);
  const unsigned char* before = reinterpret_cast<unsigned char*>(block.first - kGuardBytes);
  const unsigned char* behind = reinterpret_cast<unsigned char*>(block.first + block.bytes);
  bool is_whole = true;
  for (uint64_t i = 0; i < kGuardBytes; i++) {
    is_whole = is_whole && before[i] == kGuard && behind[i] == kGuard;
  }
  if (!is_whole) {
    memset(reinterpret_cast<void*>(block.first - kGuardBytes), kGuard, kGuardBytes);
    memset(reinterpret_cast<void*>(block.first + block.bytes), kGuard, kGuardBytes);
  }
  forbid(block.first - kGuardBytes, kGuardBytes);
  forbid(block.first + block.bytes, kGuardBytes);
  return is_whole;
}

// After work on a device: whether it stayed in its blocks.
inline void check_guards(const char* what) {
  for (const Block& block : blocks) {
    if (block.is_used && !is_guard_whole(block)) {
      found("%s wrote beside a block of %llu bytes", what, (unsigned long long)block.bytes);
    }
  }
}

inline unsigned device_free(uint64_t first) {
  for (Block& block : blocks) {
    if (!block.is_used || block.first != first) continue;
    if (!is_guard_whole(block)) found("cuMemFree: the guards of the block were written");
    if (block.bytes > 2 * kFreedBytes) {
      uint64_t page = (first + 4095) / 4096 * 4096;
      uint64_t last = (first + block.bytes) / 4096 * 4096;
      madvise(reinterpret_cast<void*>(page), last - page, MADV_DONTNEED);
    }
    paint(first, block.bytes, kPoison, kFreedBytes);
    forbid(first, block.bytes);
    device_memory[block.device].used_bytes -= block.bytes;
    block.is_used = false;
    return kSuccess;
  }
  if (first == 0) return kSuccess;
  found("cuMemFree of 0x%llx, which is no block, or was freed before", (unsigned long long)first);
  return kInvalidValue;
}

inline unsigned host_alloc(Context* context, uint64_t bytes, void** result) {
  uint64_t left = state.settings.pinned_bytes_max - pinned_used_bytes;
  if (bytes == 0) return kInvalidValue;
  if (pinned_used_bytes > state.settings.pinned_bytes_max || bytes > left) return kOutOfMemory;
  for (Pinned& block : pinned) {
    if (block.is_used) continue;
    // A page behind the block that nobody may touch.
    uint64_t mapped = (bytes + 4095) / 4096 * 4096 + 4096;
    void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return kOutOfMemory;
    unsigned char* first = static_cast<unsigned char*>(memory);
    mprotect(first + mapped - 4096, 4096, PROT_NONE);
    paint(reinterpret_cast<uint64_t>(first), bytes, kPinnedPoison, kPaintedBytes);
    block = {true, context, first, bytes, mapped};
    pinned_used_bytes += bytes;
    *result = first;
    return kSuccess;
  }
  return kOutOfMemory;
}

// Memory of others, which is pinned in its place: nothing of it is mapped here.
inline unsigned host_register(Context* context, void* first, uint64_t bytes) {
  for (Pinned& block : pinned) {
    if (block.is_used) continue;
    block = {true, context, static_cast<unsigned char*>(first), bytes, 0};
    pinned_used_bytes += bytes;
    return kSuccess;
  }
  return kOutOfMemory;
}

// The pinned block that holds [first, first + bytes), or null.
inline Pinned* pinned_of(const void* first, uint64_t bytes) {
  const unsigned char* place = static_cast<const unsigned char*>(first);
  for (Pinned& block : pinned) {
    if (block.is_used && place >= block.first && uint64_t(place - block.first) <= block.bytes &&
        bytes <= block.bytes - uint64_t(place - block.first)) {
      return &block;
    }
  }
  return nullptr;
}

inline unsigned host_free(Pinned* block) {
  munmap(block->first, block->mapped);
  pinned_used_bytes -= block->bytes;
  block->is_used = false;
  return kSuccess;
}

}  // namespace sim
