// libcuda.so.1 without a GPU, for tests: the entries that wavetrain and its tests call.
//
// Device memory is a mapping of this process, kernels are the project's own kernels/*.cu run by
// simt.hpp, work is queued and runs later on another thread. What CUDA leaves undefined or does not
// check is found here: wild copies, writes beside a block, memory given back twice or too early,
// handles of another context. Functions of control.hpp set it up and say what it found.
//
// What it does not do: it does not execute the PTX, only reads its head and its entries; a graph
// that was captured can be counted and not launched.
//
// Built by tools/cuda_sim.sh. This file is over 500 lines because the entries of one library are
// one list.
#include <signal.h>
#include <map>

#include "engine.hpp"

#include "kernels.hpp"

using namespace sim;

#define ENTRY extern "C" __attribute__((visibility("default"))) unsigned

namespace {

// What a thread has: its stack of contexts and its capture mode, numbers for mode slow, and one
// that no thread had before, because the id of a thread is given out again when it has ended. Found
// by a key and not thread_local, which would make every thread that calls the driver allocate a
// block with the __shared__ variables of all kernels.
struct ThreadState {
  bool is_taken;
  unsigned depth;
  unsigned capture_mode;
  uint64_t random, number;
  Context* contexts[kThreadContexts];
};
ThreadState thread_states[1024];
uint64_t threads_seen;
pthread_key_t thread_key;

void leave_thread(void* argument) {
  ThreadState* thread = static_cast<ThreadState*>(argument);
  thread->depth = thread->capture_mode = 0;
  __atomic_store_n(&thread->is_taken, false, __ATOMIC_RELEASE);
}

// The calling thread's.
ThreadState& mine() {
  if (void* known = pthread_getspecific(thread_key)) return *static_cast<ThreadState*>(known);
  for (ThreadState& thread : thread_states) {
    if (__atomic_exchange_n(&thread.is_taken, true, __ATOMIC_ACQUIRE)) continue;
    pthread_setspecific(thread_key, &thread);
    thread.number = __atomic_add_fetch(&threads_seen, 1, __ATOMIC_RELAXED);
    return thread;
  }
  fprintf(stderr, "simcuda: more than 1,024 threads\n");
  abort();
}

struct Module {
  bool is_alive;
  Context* context;
  const Kernel* kernels[16];
  unsigned kernel_count;
};
Module modules[kModules];

// A function is a kernel of a module.
struct Function {
  Module* module;
  const Kernel* kernel;
};
Function functions[kModules * 16];

enum Needs : unsigned {
  kNothing = 0,
  kInit = 1,
  kContext = 2,
  kUnsafe = 4,  // that a capture in global mode forbids
};

Context* current() {
  return mine().depth ? mine().contexts[mine().depth - 1] : nullptr;
}

uint64_t thread_number() { return uint64_t(pthread_self()); }

#include "capture.hpp"

// What stands before every call.
unsigned enter(int entry, unsigned needs) {
  unsigned code = count_call(entry);
  if (code) return code;
  if ((needs & (kInit | kContext)) && !state.is_initialized) return kNotInitialized;
  if ((needs & kContext) && !current()) return kInvalidContext;
  if ((needs & kContext) && !current()->is_alive) return kInvalidContext;
  if ((needs & kUnsafe) && breaks_a_capture()) return kCaptureUnsupported;
  return kSuccess;
}

// In mode slow every second call takes long, as one of a real driver does now and then.
void dawdle() {
  if (state.settings.mode != Mode::slow) return;
  uint64_t& random = mine().random;
  if (random == 0) random = thread_number();
  if (random_below(random, 2) != 0) return;
  timespec pause = {0, long(random_below(random, 300'000))};
  nanosleep(&pause, nullptr);
}

// Stops here until the test lets the call go on, if it said so.
void stall(int entry, Lock& lock) {
  if (state.stalled_entry != entry || state.calls_until_stall-- > 0) return;
  state.stalled_entry = -1;
  state.is_stalled = true;
  while (state.is_stalled) state.changed.wait(lock);
}

// The entry's own number, its lock, and what stands before every call.
#define CALL(name, needs)                                  \
  static const int entry_of_##name = number_of(#name);     \
  dawdle();                                                \
  Lock lock(state.lock);                                   \
  stall(entry_of_##name, lock);                            \
  if (unsigned failed = enter(entry_of_##name, needs)) return failed

int number_of(const char* name) {
  Lock lock(state.lock);
  int number = entry_number(name);
  if (number < 0) abort();
  return number;
}

// All entries that are counted and can be made to fail, in the order of the table in src/cuda.
const char* const kNames[] = {
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2",
    "cuDeviceGetUuid",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuCtxGetDevice",
    "cuCtxGetStreamPriorityRange",
    "cuThreadExchangeStreamCaptureMode",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoH_v2",
    "cuMemsetD8Async",
    "cuPointerGetAttribute",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy_v2",
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuStreamIsCapturing",
    "cuStreamGetCtx",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuEventElapsedTime",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuFuncGetAttribute",
    "cuLaunchKernel",
    // What programs around wavetrain use.
    "cuCtxCreate_v2",
    "cuCtxDestroy_v2",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuStreamCreate",
    "cuStreamWaitValue32_v2",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphGetNodes",
    "cuGraphDestroy",
    "cuMemcpyHtoD_v2",
};

struct Start {
  Start() {
    if (pthread_key_create(&thread_key, leave_thread)) abort();
    for (const char* name : kNames) add_entry(name);
    read_environment();
  }
} start;

bool is_legacy(void* handle) { return uintptr_t(handle) <= 1; }

// A default stream of the current context, of a thread or, for 0, the legacy one. It is made when
// it is first used, and lasts as long as its context: what a thread queued runs when that has
// ended, too.
Stream* default_stream(uint64_t thread) {
  Context* context = current();
  if (!context) return nullptr;
  for (Stream& stream : streams) {
    bool is_it = stream.is_alive && stream.is_default && stream.context == context;
    if (is_it && stream.thread == thread) return &stream;
  }
  Stream* made = new_stream(context);
  if (!made) return nullptr;
  made->is_default = made->is_blocking = true;
  made->is_legacy = !thread;
  made->thread = thread;
  return made;
}

// The stream of a handle, in the current context for NULL, LEGACY and PER_THREAD; null where the
// handle is none.
Stream* stream_of(void* handle) {
  if (is_legacy(handle)) return default_stream(0);
  if (uintptr_t(handle) == 2) return default_stream(mine().number);
  for (Stream& stream : streams) {
    if (&stream == handle) return stream.is_alive ? &stream : nullptr;
  }
  return nullptr;
}

Event* event_of(void* handle) {
  for (Event& event : events) {
    if (&event == handle) return event.is_alive ? &event : nullptr;
  }
  return nullptr;
}

Context* context_of(void* handle) {
  for (Context& context : contexts) {
    if (&context == handle) return context.is_alive ? &context : nullptr;
  }
  return nullptr;
}

Module* module_of(void* handle) {
  for (Module& module : modules) {
    if (&module == handle) return module.is_alive ? &module : nullptr;
  }
  return nullptr;
}

Function* function_of(void* handle) {
  for (Function& function : functions) {
    if (&function != handle) continue;
    return function.module && function.module->is_alive ? &function : nullptr;
  }
  return nullptr;
}

bool is_device(int device) { return device >= 0 && device < state.settings.devices; }

// The stream that work is queued in: alive, of the current context, and not in the way of a
// capture. Where it has a capture the work only becomes part of a graph.
unsigned queue_of(void* handle, Stream** stream) {
  if (is_legacy(handle) && break_what_legacy_orders()) return kCaptureImplicit;
  *stream = stream_of(handle);
  if (!*stream || (*stream)->context != current()) return kInvalidHandle;
  const Capture* capture = (*stream)->capture;
  return capture && capture->is_broken ? kCaptureInvalidated : kSuccess;
}

// A copy between places that were checked, queued or, for pageable memory of the host, staged.
unsigned queue_copy(void* handle, void* target, const void* source, uint64_t bytes,
                    const void* host, bool host_is_read) {
  Stream* stream = nullptr;
  if (unsigned failed = queue_of(handle, &stream)) return failed;
  if (stream->capture) return add_node(*stream);
  if (bytes == 0) return kSuccess;
  Op* op = new_op(Op::copy);
  op->connection = !host ? Op::kernels : host_is_read ? Op::to_device : Op::to_host;
  op->target = target;
  op->source = source;
  op->bytes = bytes;
  bool is_pageable = host && !pinned_of(host, bytes);
  if (is_pageable) state.pageable_copies++;
  if (is_pageable && host_is_read) {
    // CUDA stages such a source before it returns.
    void* staged = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (staged == MAP_FAILED) return kOutOfMemory;
    memcpy(staged, source, bytes);
    op->source = staged;
    op->is_staged = true;
  }
  enqueue(*stream, op);
  return kSuccess;
}

// Whether [first, first + bytes) is device memory of the current context.
bool is_device_memory(const char* what, uint64_t first, uint64_t bytes) {
  Block* block = block_of(first, bytes);
  if (block && block->context == current()) return true;
  found("%s: 0x%llx, %llu bytes: %s", what, (unsigned long long)first, (unsigned long long)bytes,
        block ? "of another context" : "not inside one block of device memory");
  return false;
}

// What a query says. Who asks in a loop would otherwise hold the lock nearly all the time.
unsigned answer(Lock& lock, bool is_done) {
  if (is_done) return kSuccess;
  lock.unlock();
  sched_yield();
  return kNotReady;
}

void* place(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

// ---- The driver and its devices ----------------------------------------------------------------

ENTRY cuInit(unsigned flags) {
  CALL(cuInit, kNothing);
  if (flags) return kInvalidValue;
  if (state.settings.init_result) return state.settings.init_result;
  if (state.settings.devices == 0) return kNoDevice;
  state.is_initialized = true;
  return kSuccess;
}

ENTRY cuDriverGetVersion(int* version) {
  CALL(cuDriverGetVersion, kNothing);
  *version = state.settings.version;
  return kSuccess;
}

// A code that no list of ours has.
static const unsigned kNewerCode = 4242;

ENTRY cuGetErrorName(unsigned code, const char** name) {
  CALL(cuGetErrorName, kNothing);
  // cuda.h of CUDA 13.0, `CUresult`, as far as a driver's calls return it.
  static const std::map<unsigned, const char*> names = {
      {kSuccess, "CUDA_SUCCESS"},
      {1, "CUDA_ERROR_INVALID_VALUE"},
      {2, "CUDA_ERROR_OUT_OF_MEMORY"},
      {3, "CUDA_ERROR_NOT_INITIALIZED"},
      {4, "CUDA_ERROR_DEINITIALIZED"},
      {34, "CUDA_ERROR_STUB_LIBRARY"},
      {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
      {100, "CUDA_ERROR_NO_DEVICE"},
      {101, "CUDA_ERROR_INVALID_DEVICE"},
      {200, "CUDA_ERROR_INVALID_IMAGE"},
      {201, "CUDA_ERROR_INVALID_CONTEXT"},
      {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
      {218, "CUDA_ERROR_INVALID_PTX"},
      {220, "CUDA_ERROR_NVLINK_UNCORRECTABLE"},
      {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"},
      {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
      {223, "CUDA_ERROR_JIT_COMPILATION_DISABLED"},
      {304, "CUDA_ERROR_OPERATING_SYSTEM"},
      {400, "CUDA_ERROR_INVALID_HANDLE"},
      {401, "CUDA_ERROR_ILLEGAL_STATE"},
      {500, "CUDA_ERROR_NOT_FOUND"},
      {600, "CUDA_ERROR_NOT_READY"},
      {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
      {702, "CUDA_ERROR_LAUNCH_TIMEOUT"},
      {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
      {710, "CUDA_ERROR_ASSERT"},
      {714, "CUDA_ERROR_HARDWARE_STACK_ERROR"},
      {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"},
      {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
      {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE"},
      {718, "CUDA_ERROR_INVALID_PC"},
      {719, "CUDA_ERROR_LAUNCH_FAILED"},
      {800, "CUDA_ERROR_NOT_PERMITTED"},
      {801, "CUDA_ERROR_NOT_SUPPORTED"},
      {802, "CUDA_ERROR_SYSTEM_NOT_READY"},
      {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
      {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"},
      {805, "CUDA_ERROR_MPS_CONNECTION_FAILED"},
      {808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED"},
      {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
      {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE"},
      {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
      {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
      {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
      {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
      {907, "CUDA_ERROR_CAPTURED_EVENT"},
      {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
      {999, "CUDA_ERROR_UNKNOWN"},
      {kNewerCode, "CUDA_ERROR_OF_A_NEWER_DRIVER"},
  };
  auto found = names.find(code);
  *name = found == names.end() ? nullptr : found->second;
  return *name ? kSuccess : kInvalidValue;
}

ENTRY cuGetErrorString(unsigned code, const char** text) {
  CALL(cuGetErrorString, kNothing);
  *text = nullptr;
  if (code == kSuccess) *text = "no error";
  if (code == kNewerCode) *text = "an error of a newer driver";
  return *text ? kSuccess : kInvalidValue;
}

ENTRY cuDeviceGetCount(int* count) {
  CALL(cuDeviceGetCount, kInit);
  *count = state.settings.devices;
  return kSuccess;
}

ENTRY cuDeviceGet(int* device, int ordinal) {
  CALL(cuDeviceGet, kInit);
  if (!is_device(ordinal)) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}

ENTRY cuDeviceGetName(char* name, int bytes, int device) {
  CALL(cuDeviceGetName, kInit);
  if (!is_device(device)) return kInvalidDevice;
  if (bytes <= 0) return kInvalidValue;
  snprintf(name, size_t(bytes), "Simulated GPU %d", device);
  return kSuccess;
}

ENTRY cuDeviceGetAttribute(int* value, unsigned attribute, int device) {
  CALL(cuDeviceGetAttribute, kInit);
  if (!is_device(device)) return kInvalidDevice;
  if (attribute == state.settings.attribute) {
    *value = state.settings.attribute_value;
    return kSuccess;
  }
  switch (attribute) {
    case 1: *value = 1024; break;        // threads of a block
    case 5: *value = 0x7fffffff; break;  // blocks along x
    case 16: *value = 4; break;          // processors
    case 18: *value = 0; break;          // integrated
    case 19: *value = 1; break;          // memory of the host for kernels
    case 20: *value = 0; break;          // compute mode
    case 33: *value = device + 1; break;
    case 34: *value = 0; break;
    case 36: *value = 1000000; break;
    case 37: *value = 256; break;
    case 38: *value = 4 << 20; break;
    case 40: *value = 2; break;  // copy engines
    case 41: *value = 1; break;  // one space of addresses
    case 50: *value = 0; break;
    case 75: *value = state.settings.capability_major; break;
    case 76: *value = state.settings.capability_minor; break;
    default: return kInvalidValue;
  }
  return kSuccess;
}

ENTRY cuDeviceTotalMem_v2(size_t* bytes, int device) {
  CALL(cuDeviceTotalMem_v2, kInit);
  if (!is_device(device)) return kInvalidDevice;
  *bytes = state.settings.memory_bytes;
  return kSuccess;
}

ENTRY cuDeviceGetUuid(unsigned char* uuid, int device) {
  CALL(cuDeviceGetUuid, kInit);
  if (!is_device(device)) return kInvalidDevice;
  for (int i = 0; i < 16; i++) uuid[i] = (unsigned char)(device * 16 + i);
  return kSuccess;
}

// ---- Contexts ----------------------------------------------------------------------------------

namespace {

Context* new_context(int device, bool is_primary) {
  for (Context& context : contexts) {
    if (context.is_alive) continue;
    context = {true, is_primary, device, 0};
    device_memory[device].overhead_bytes += state.settings.context_bytes;
    return &context;
  }
  return nullptr;
}

// Everything of a context goes with it, and counts as a leak.
void end_context(Context* context, Lock& lock) {
  unsigned left = 0;
  for (Stream& stream : streams) {
    if (!stream.is_alive || stream.context != context) continue;
    if (stream.capture) break_capture(stream.capture);
    wait_for(lock, stream, stream.queued);
    stream.is_alive = false;
    stream.capture = nullptr;
  }
  for (Block& block : blocks) {
    if (block.is_used && block.context == context) {
      left++;
      device_free(block.first);
    }
  }
  for (Pinned& block : pinned) {
    if (block.is_used && block.context == context) {
      left++;
      host_free(&block);
    }
  }
  for (Event& event : events) {
    if (event.is_alive && event.context == context) {
      left++;
      drop(event.ticket);
      event.is_alive = false;
    }
  }
  for (Module& module : modules) {
    if (module.is_alive && module.context == context) {
      left++;
      module.is_alive = false;
      device_memory[context->device].overhead_bytes -= state.settings.module_bytes;
    }
  }
  if (left) found("a context ended with %u blocks, events or modules in it", left);
  device_memory[context->device].overhead_bytes -= state.settings.context_bytes;
  context->is_alive = false;
  state.changed.notify_all();
}

Context* primary_of(int device) {
  for (Context& context : contexts) {
    if (context.is_alive && context.is_primary && context.device == device) return &context;
  }
  return nullptr;
}

}  // namespace

ENTRY cuDevicePrimaryCtxRetain(void** context, int device) {
  CALL(cuDevicePrimaryCtxRetain, kInit);
  if (!is_device(device)) return kInvalidDevice;
  Context* primary = primary_of(device);
  if (!primary) primary = new_context(device, true);
  if (!primary) return kOutOfMemory;
  primary->retains++;
  *context = primary;
  return kSuccess;
}

ENTRY cuDevicePrimaryCtxRelease_v2(int device) {
  CALL(cuDevicePrimaryCtxRelease_v2, kInit);
  if (!is_device(device)) return kInvalidDevice;
  Context* primary = primary_of(device);
  if (!primary) {
    found("cuDevicePrimaryCtxRelease without a retain");
    return kInvalidContext;
  }
  if (--primary->retains == 0) end_context(primary, lock);
  return kSuccess;
}

ENTRY cuCtxCreate_v2(void** context, unsigned, int device) {
  CALL(cuCtxCreate_v2, kInit);
  if (!is_device(device)) return kInvalidDevice;
  if (mine().depth == kThreadContexts) return kOutOfMemory;
  Context* made = new_context(device, false);
  if (!made) return kOutOfMemory;
  mine().contexts[mine().depth++] = made;
  *context = made;
  return kSuccess;
}

ENTRY cuCtxDestroy_v2(void* handle) {
  CALL(cuCtxDestroy_v2, kInit);
  Context* context = context_of(handle);
  if (!context || context->is_primary) return kInvalidContext;
  end_context(context, lock);
  if (current() == context) mine().depth--;
  return kSuccess;
}

ENTRY cuCtxGetCurrent(void** context) {
  CALL(cuCtxGetCurrent, kInit);
  *context = current();
  return kSuccess;
}

ENTRY cuCtxSetCurrent(void* handle) {
  CALL(cuCtxSetCurrent, kInit);
  if (mine().depth) mine().depth--;
  if (!handle) return kSuccess;
  Context* context = context_of(handle);
  if (!context) return kInvalidContext;
  mine().contexts[mine().depth++] = context;
  return kSuccess;
}

ENTRY cuCtxPushCurrent_v2(void* handle) {
  CALL(cuCtxPushCurrent_v2, kInit);
  Context* context = context_of(handle);
  if (!context) return kInvalidContext;
  if (mine().depth == kThreadContexts) return kInvalidContext;
  mine().contexts[mine().depth++] = context;
  return kSuccess;
}

ENTRY cuCtxPopCurrent_v2(void** context) {
  CALL(cuCtxPopCurrent_v2, kInit);
  if (mine().depth == 0) return kInvalidContext;
  Context* popped = mine().contexts[--mine().depth];
  if (context) *context = popped;
  return kSuccess;
}

ENTRY cuCtxGetDevice(int* device) {
  CALL(cuCtxGetDevice, kContext);
  *device = current()->device;
  return kSuccess;
}

ENTRY cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  CALL(cuCtxGetStreamPriorityRange, kContext);
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return kSuccess;
}

ENTRY cuCtxSynchronize() {
  CALL(cuCtxSynchronize, kContext | kUnsafe);
  for (Stream& stream : streams) {
    if (!stream.is_alive || !stream.capture || stream.context != current()) continue;
    break_capture(stream.capture);
    return kCaptureUnsupported;
  }
  wait_for_all(lock);
  return kSuccess;
}

ENTRY cuThreadExchangeStreamCaptureMode(unsigned* mode) {
  CALL(cuThreadExchangeStreamCaptureMode, kInit);
  if (*mode > 2) return kInvalidValue;
  unsigned before = mine().capture_mode;
  mine().capture_mode = *mode;
  *mode = before;
  return kSuccess;
}

// ---- Memory ------------------------------------------------------------------------------------

ENTRY cuMemAlloc_v2(uint64_t* block, size_t bytes) {
  CALL(cuMemAlloc_v2, kContext | kUnsafe);
  state.allocation_count++;
  return device_alloc(current(), current()->device, bytes, block);
}

ENTRY cuMemFree_v2(uint64_t block) {
  CALL(cuMemFree_v2, kContext | kUnsafe);
  wait_for_all(lock);
  return device_free(block);
}

ENTRY cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  CALL(cuMemGetInfo_v2, kContext);
  const DeviceMemory& memory = device_memory[current()->device];
  uint64_t taken = memory.used_bytes + memory.overhead_bytes;
  uint64_t total = state.settings.memory_bytes;
  *free_bytes = taken < total ? total - taken : 0;
  *total_bytes = total;
  return kSuccess;
}

ENTRY cuMemHostAlloc(void** block, size_t bytes, unsigned flags) {
  CALL(cuMemHostAlloc, kContext | kUnsafe);
  if (flags > 7) return kInvalidValue;
  state.allocation_count++;
  return host_alloc(current(), bytes, block);
}

ENTRY cuMemFreeHost(void* first) {
  CALL(cuMemFreeHost, kContext | kUnsafe);
  for (Pinned& block : pinned) {
    if (!block.is_used || block.first != first) continue;
    if (op_on_host_memory(block.first, block.bytes)) {
      found("cuMemFreeHost of %llu bytes that queued work uses", (unsigned long long)block.bytes);
    }
    wait_for_all(lock);
    return host_free(&block);
  }
  found("cuMemFreeHost of %p, which is no block, or was freed before", first);
  return kInvalidValue;
}

ENTRY cuMemHostRegister_v2(void* first, size_t bytes, unsigned flags) {
  CALL(cuMemHostRegister_v2, kContext | kUnsafe);
  if (flags > 15 || !first || !bytes) return kInvalidValue;
  if (pinned_of(first, 1)) return kAlreadyRegistered;
  return host_register(current(), first, bytes);
}

ENTRY cuMemHostUnregister(void* first) {
  CALL(cuMemHostUnregister, kContext | kUnsafe);
  for (Pinned& block : pinned) {
    if (!block.is_used || block.mapped || block.first != first) continue;
    if (op_on_host_memory(block.first, block.bytes)) {
      found("cuMemHostUnregister of %llu bytes that queued work uses",
            (unsigned long long)block.bytes);
    }
    pinned_used_bytes -= block.bytes;
    block.is_used = false;
    return kSuccess;
  }
  found("cuMemHostUnregister of %p, which is not registered", first);
  return kInvalidValue;
}

ENTRY cuMemcpyHtoDAsync_v2(uint64_t target, const void* source, size_t bytes, void* stream) {
  CALL(cuMemcpyHtoDAsync_v2, kContext);
  if (!is_device_memory("cuMemcpyHtoDAsync", target, bytes)) return kInvalidValue;
  unsigned code = queue_copy(stream, place(target), source, bytes, source, true);
  if (!code) count_first_use(*stream_of(stream), Op::copy);
  if (!code) state.bus_bytes += bytes;
  return code;
}

ENTRY cuMemcpyDtoHAsync_v2(void* target, uint64_t source, size_t bytes, void* stream) {
  CALL(cuMemcpyDtoHAsync_v2, kContext);
  if (!is_device_memory("cuMemcpyDtoHAsync", source, bytes)) return kInvalidValue;
  bool is_pageable = !pinned_of(target, bytes);
  if (unsigned failed = queue_copy(stream, target, place(source), bytes, target, false)) {
    return failed;
  }
  Stream* queue = stream_of(stream);
  // CUDA returns from a copy into pageable memory when it is there.
  if (is_pageable && !queue->capture) wait_for(lock, *queue, queue->queued);
  return kSuccess;
}

ENTRY cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t bytes, void* stream) {
  CALL(cuMemcpyDtoDAsync_v2, kContext);
  if (!is_device_memory("cuMemcpyDtoDAsync", target, bytes)) return kInvalidValue;
  if (!is_device_memory("cuMemcpyDtoDAsync", source, bytes)) return kInvalidValue;
  return queue_copy(stream, place(target), place(source), bytes, nullptr, false);
}

// Synchronous copies run in the legacy default stream.
ENTRY cuMemcpyDtoH_v2(void* target, uint64_t source, size_t bytes) {
  CALL(cuMemcpyDtoH_v2, kContext | kUnsafe);
  if (!is_device_memory("cuMemcpyDtoH", source, bytes)) return kInvalidValue;
  if (unsigned failed = queue_copy(nullptr, target, place(source), bytes, nullptr, false)) {
    return failed;
  }
  Stream* queue = stream_of(nullptr);
  wait_for(lock, *queue, queue->queued);
  return kSuccess;
}

ENTRY cuMemcpyHtoD_v2(uint64_t target, const void* source, size_t bytes) {
  CALL(cuMemcpyHtoD_v2, kContext | kUnsafe);
  if (!is_device_memory("cuMemcpyHtoD", target, bytes)) return kInvalidValue;
  if (unsigned failed = queue_copy(nullptr, place(target), source, bytes, nullptr, false)) {
    return failed;
  }
  Stream* queue = stream_of(nullptr);
  wait_for(lock, *queue, queue->queued);
  return kSuccess;
}

ENTRY cuMemsetD8Async(uint64_t target, unsigned char value, size_t bytes, void* handle) {
  CALL(cuMemsetD8Async, kContext);
  if (!is_device_memory("cuMemsetD8Async", target, bytes)) return kInvalidValue;
  Stream* stream = nullptr;
  if (unsigned failed = queue_of(handle, &stream)) return failed;
  if (stream->capture) return add_node(*stream);
  Op* op = new_op(Op::fill);
  op->target = place(target);
  op->value = value;
  op->bytes = bytes;
  enqueue(*stream, op);
  return kSuccess;
}

ENTRY cuPointerGetAttribute(void* value, unsigned attribute, uint64_t pointer) {
  CALL(cuPointerGetAttribute, kInit);
  Block* block = block_of(pointer, 1);
  bool is_pinned = pinned_of(place(pointer), 1) != nullptr;
  if (!block && !is_pinned) return kInvalidValue;
  switch (attribute) {
    case 1: *static_cast<void**>(value) = block ? block->context : nullptr; break;
    case 2: *static_cast<unsigned*>(value) = block ? 2 : 1; break;
    case 9: *static_cast<int*>(value) = block ? block->device : 0; break;
    default: return kInvalidValue;
  }
  return kSuccess;
}

// ---- Streams and events ------------------------------------------------------------------------

ENTRY cuStreamCreateWithPriority(void** stream, unsigned flags, int) {
  CALL(cuStreamCreateWithPriority, kContext);
  if (flags > 1) return kInvalidValue;
  state.allocation_count++;
  Stream* made = new_stream(current());
  if (!made) return kOutOfMemory;
  made->is_blocking = flags == 0;
  *stream = made;
  return kSuccess;
}

ENTRY cuStreamCreate(void** stream, unsigned flags) {
  CALL(cuStreamCreate, kContext);
  if (flags > 1) return kInvalidValue;
  Stream* made = new_stream(current());
  if (!made) return kOutOfMemory;
  made->is_blocking = flags == 0;
  *stream = made;
  return kSuccess;
}

ENTRY cuStreamDestroy_v2(void* handle) {
  CALL(cuStreamDestroy_v2, kContext);
  Stream* stream = uintptr_t(handle) <= 2 ? nullptr : stream_of(handle);
  if (!stream) {
    found("cuStreamDestroy of what is no stream, or was destroyed before");
    return kInvalidHandle;
  }
  if (stream->capture) break_capture(stream->capture);
  stream->capture = nullptr;
  // Its work still runs; in mode lazy nobody could ask for it later.
  if (state.settings.mode == Mode::lazy) wait_for(lock, *stream, stream->queued);
  stream->is_alive = false;
  state.changed.notify_all();
  return kSuccess;
}

// Whether work of `other` counts as work of `stream`: the legacy default stream stands for all that
// it orders.
static bool stands_for(const Stream& stream, const Stream& other) {
  bool is_ordered = other.is_alive && other.is_blocking && other.context == stream.context;
  return &stream == &other || (stream.is_legacy && is_ordered);
}

ENTRY cuStreamQuery(void* handle) {
  CALL(cuStreamQuery, kContext | kUnsafe);
  if (is_legacy(handle) && break_what_legacy_orders()) return kCaptureImplicit;
  Stream* stream = stream_of(handle);
  if (!stream) return kInvalidHandle;
  if (stream->capture) return break_capture(stream->capture), kCaptureUnsupported;
  bool is_done = true;
  for (Stream& other : streams) {
    if (!stands_for(*stream, other)) continue;
    uint64_t number = other.queued;
    ask(lock, other, number, steps_of_query());
    is_done = is_done && other.done >= number;
  }
  return answer(lock, is_done);
}

ENTRY cuStreamSynchronize(void* handle) {
  CALL(cuStreamSynchronize, kContext | kUnsafe);
  if (is_legacy(handle) && break_what_legacy_orders()) return kCaptureImplicit;
  Stream* stream = stream_of(handle);
  if (!stream) return kInvalidHandle;
  if (stream->capture) return break_capture(stream->capture), kCaptureUnsupported;
  for (Stream& other : streams) {
    if (stands_for(*stream, other)) wait_for(lock, other, other.queued);
  }
  return kSuccess;
}

ENTRY cuStreamWaitEvent(void* handle, void* event_handle, unsigned flags) {
  CALL(cuStreamWaitEvent, kContext);
  Stream* stream = stream_of(handle);
  Event* event = event_of(event_handle);
  if (!stream || !event) return kInvalidHandle;
  if (flags > 1) return kInvalidValue;
  if (is_legacy(handle) && break_what_legacy_orders()) return kCaptureImplicit;
  if (stream->capture || event->capture_id) return wait_in_capture(*stream, *event);
  count_first_use(*stream, Op::wait);
  if (int64_t(state.wait_count++) == state.settings.dropped_wait) return kSuccess;
  if (!event->ticket || event->ticket->is_done) return kSuccess;
  Op* op = new_op(Op::wait);
  op->ticket = event->ticket;
  op->ticket->references++;
  enqueue(*stream, op);
  return kSuccess;
}

// Only for a word of pinned memory to be at least a value.
ENTRY cuStreamWaitValue32_v2(void* handle, uint64_t address, uint32_t value, unsigned flags) {
  CALL(cuStreamWaitValue32_v2, kContext);
  bool is_word = address % sizeof value == 0 && pinned_of(place(address), sizeof value);
  if (!is_word || flags) return kInvalidValue;
  Stream* stream = nullptr;
  if (unsigned failed = queue_of(handle, &stream)) return failed;
  if (stream->capture) return add_node(*stream);
  Op* op = new_op(Op::gate);
  op->source = place(address);
  op->bytes = value;
  gates_queued++;
  enqueue(*stream, op);
  return kSuccess;
}

ENTRY cuStreamGetCtx(void* handle, void** context) {
  CALL(cuStreamGetCtx, kContext);
  Stream* stream = stream_of(handle);
  if (!stream) return kInvalidHandle;
  *context = stream->context;
  return kSuccess;
}

ENTRY cuStreamBeginCapture_v2(void* handle, unsigned mode) {
  CALL(cuStreamBeginCapture_v2, kContext);
  if (is_legacy(handle)) return kCaptureUnsupported;
  Stream* stream = stream_of(handle);
  if (!stream || mode > 2) return kInvalidValue;
  return stream->capture ? kIllegalState : begin_capture(*stream, mode);
}

ENTRY cuStreamEndCapture(void* handle, void** graph) {
  CALL(cuStreamEndCapture, kContext);
  Stream* stream = stream_of(handle);
  if (!stream || !graph) return kInvalidValue;
  return stream->capture ? end_capture(*stream, graph) : kIllegalState;
}

ENTRY cuStreamIsCapturing(void* handle, unsigned* status) {
  CALL(cuStreamIsCapturing, kContext);
  // This breaks nothing, so it is the way to find out.
  if (is_legacy(handle) && is_legacy_unusable()) return kCaptureImplicit;
  Stream* stream = stream_of(handle);
  if (!stream) return kInvalidHandle;
  *status = !stream->capture ? 0 : stream->capture->is_broken ? 2 : 1;
  return kSuccess;
}

ENTRY cuGraphGetNodes(void* handle, void** nodes, size_t* count) {
  CALL(cuGraphGetNodes, kInit);
  Graph* graph = graph_of(handle);
  if (!graph || nodes || !count) return kInvalidValue;
  *count = graph->nodes;
  return kSuccess;
}

ENTRY cuGraphDestroy(void* handle) {
  CALL(cuGraphDestroy, kInit);
  Graph* graph = graph_of(handle);
  if (!graph) return kInvalidValue;
  graph->is_alive = false;
  return kSuccess;
}

ENTRY cuEventCreate(void** event, unsigned flags) {
  CALL(cuEventCreate, kContext);
  if (flags & ~3u) return kInvalidValue;
  static unsigned next = 0;
  for (unsigned tries = 0; tries < kEvents; tries++) {
    Event* made = events + next++ % kEvents;
    if (made->is_alive) continue;
    *made = Event();
    made->is_alive = true;
    made->takes_time = !(flags & 2);
    made->context = current();
    state.allocation_count++;
    *event = made;
    return kSuccess;
  }
  return kOutOfMemory;
}

ENTRY cuEventDestroy_v2(void* handle) {
  CALL(cuEventDestroy_v2, kContext);
  Event* event = event_of(handle);
  if (!event) {
    found("cuEventDestroy of what is no event, or was destroyed before");
    return kInvalidHandle;
  }
  drop(event->ticket);
  event->is_alive = false;
  return kSuccess;
}

ENTRY cuEventRecord(void* event_handle, void* handle) {
  CALL(cuEventRecord, kContext);
  Event* event = event_of(event_handle);
  if (!event) return kInvalidHandle;
  Stream* stream = nullptr;
  if (unsigned failed = queue_of(handle, &stream)) return failed;
  if (event->context != stream->context) return kInvalidHandle;
  drop(event->ticket);
  event->ticket = nullptr;
  event->capture_id = stream->capture ? stream->capture->id : 0;
  event->captured_on = stream;
  event->captured_nodes = stream->nodes;
  if (stream->capture) return kSuccess;
  count_first_use(*stream, Op::record);
  Op* op = new_op(Op::record);
  op->connection = stream->connection;
  enqueue(*stream, op);
  event->ticket = new_ticket(stream, op->number);
  op->ticket = event->ticket;
  op->ticket->references++;
  return kSuccess;
}

ENTRY cuEventQuery(void* handle) {
  CALL(cuEventQuery, kContext | kUnsafe);
  Event* event = event_of(handle);
  if (!event) return kInvalidHandle;
  if (event->capture_id) return ask_captured(*event);
  Ticket* ticket = event->ticket;
  if (!ticket || ticket->is_done) return kSuccess;
  ticket->references++;
  ask(lock, *ticket->stream, ticket->number, steps_of_query());
  bool is_done = ticket->is_done;
  drop(ticket);
  return answer(lock, is_done);
}

ENTRY cuEventSynchronize(void* handle) {
  CALL(cuEventSynchronize, kContext | kUnsafe);
  Event* event = event_of(handle);
  if (!event) return kInvalidHandle;
  if (event->capture_id) return ask_captured(*event);
  if (event->ticket && !event->ticket->is_done) {
    wait_for(lock, *event->ticket->stream, event->ticket->number);
  }
  return kSuccess;
}

ENTRY cuEventElapsedTime(float* milliseconds, void* first_handle, void* last_handle) {
  CALL(cuEventElapsedTime, kContext);
  Event* first = event_of(first_handle);
  Event* last = event_of(last_handle);
  if (!first || !last || !first->takes_time || !last->takes_time) return kInvalidHandle;
  if (!first->ticket || !last->ticket) return kInvalidHandle;
  if (!first->ticket->is_done || !last->ticket->is_done) return kNotReady;
  *milliseconds = float(last->ticket->milliseconds - first->ticket->milliseconds);
  return kSuccess;
}

// ---- Kernels -----------------------------------------------------------------------------------

namespace {

// PTX ISA of a driver: 12.0 knows 8.0; 12.6 has 8.5 as 12.5; from 12.7 on one less; 13.0 has 9.0.
int isa_of_driver(int version) {
  int major = version / 1000, minor = version % 1000 / 10;
  if (major >= 13) return 90 + minor;
  return major == 12 ? 80 + (minor <= 5 ? minor : minor - 1) : 70 + minor;
}

// The entry of a kernel in PTX, from behind its name on; null where there is none.
const char* entry_in(const char* ptx, const char* name) {
  size_t length = strlen(name);
  for (const char* at = strstr(ptx, ".entry"); at; at = strstr(at + 1, ".entry")) {
    const char* word = at + 6;
    while (*word == ' ' || *word == '\t') word++;
    const char* behind = word + length;
    if (!strncmp(word, name, length) && (*behind == '(' || *behind == '\n' || *behind == ' ')) {
      return behind;
    }
  }
  return nullptr;
}

// Bytes of a parameter as PTX declares it behind ".param": .u64 name, or .align 8 .b8 name[24].
unsigned declared_bytes(const char* declaration) {
  const char* end = strpbrk(declaration, ",)");
  const char* type = strpbrk(declaration, "ubsf");
  unsigned bits = 0;
  if (!end || !type || sscanf(type + 1, "%u", &bits) != 1) return 0;
  const char* bracket = strchr(type, '[');
  return bits / 8 * (bracket && bracket < end ? unsigned(atoi(bracket + 1)) : 1);
}

// Whether the parameters that PTX declares are those of the kernel.
bool has_parameters(const char* entry, const Kernel& kernel) {
  const char* end = strchr(entry, ')');
  unsigned count = 0;
  for (const char* at = strstr(entry, ".param"); at && at < end; at = strstr(at + 1, ".param")) {
    if (count >= kernel.parameter_count) return false;
    // A name has "param" in it as well, but no dot before it.
    if (declared_bytes(at + 6) != kernel.parameter_bytes[count]) return false;
    count++;
  }
  return count == kernel.parameter_count;
}

unsigned refuse_ptx(unsigned code, const char* text, char* log, uintptr_t log_bytes) {
  if (log && log_bytes) snprintf(log, log_bytes, "%s\nsecond line of the log\n", text);
  return code;
}

}  // namespace

ENTRY cuModuleLoadDataEx(void** module, const void* image, unsigned option_count, unsigned* options,
                         void** values) {
  CALL(cuModuleLoadDataEx, kContext | kUnsafe);
  const char* ptx = static_cast<const char*>(image);
  char* log = nullptr;
  uintptr_t log_bytes = 0;
  for (unsigned i = 0; i < option_count; i++) {
    if (options[i] == 5) log = static_cast<char*>(values[i]);
    if (options[i] == 6) log_bytes = reinterpret_cast<uintptr_t>(values[i]);
  }
  int major = 0, minor = 0, target = 0;
  const char* version = strstr(ptx, ".version ");
  const char* architecture = strstr(ptx, ".target sm_");
  if (!version || sscanf(version + 9, "%d.%d", &major, &minor) != 2 || !architecture ||
      sscanf(architecture + 11, "%d", &target) != 1) {
    return refuse_ptx(kInvalidPtx, "ptxas fatal: no .version or no .target", log, log_bytes);
  }
  if (major * 10 + minor > isa_of_driver(state.settings.version)) {
    return refuse_ptx(kUnsupportedPtx, "ptxas fatal: Unsupported .version", log, log_bytes);
  }
  if (target > state.settings.capability_major * 10 + state.settings.capability_minor) {
    return refuse_ptx(kNoBinaryForGpu, "ptxas fatal: .target is above the device", log, log_bytes);
  }
  for (Module& made : modules) {
    if (made.is_alive) continue;
    made = {true, current(), {}, 0};
    for (const Kernel& kernel : kernel_table) {
      const char* entry = entry_in(ptx, kernel.name);
      if (!entry) continue;
      if (!has_parameters(entry, kernel)) {
        made.is_alive = false;
        found("the parameters of %s in the PTX are not those of its source", kernel.name);
        return refuse_ptx(kInvalidPtx, "ptxas fatal: parameters differ", log, log_bytes);
      }
      made.kernels[made.kernel_count++] = &kernel;
    }
    if (made.kernel_count == 0) {
      made.is_alive = false;
      return refuse_ptx(kInvalidPtx, "ptxas fatal: no kernel that is known", log, log_bytes);
    }
    device_memory[current()->device].overhead_bytes += state.settings.module_bytes;
    state.allocation_count++;
    *module = &made;
    return kSuccess;
  }
  return kOutOfMemory;
}

ENTRY cuModuleUnload(void* handle) {
  CALL(cuModuleUnload, kContext | kUnsafe);
  Module* module = module_of(handle);
  if (!module) return kInvalidHandle;
  wait_for_all(lock);
  module->is_alive = false;
  device_memory[module->context->device].overhead_bytes -= state.settings.module_bytes;
  return kSuccess;
}

ENTRY cuModuleGetFunction(void** function, void* handle, const char* name) {
  CALL(cuModuleGetFunction, kContext);
  Module* module = module_of(handle);
  if (!module || module->context != current()) return kInvalidHandle;
  for (unsigned i = 0; i < module->kernel_count; i++) {
    if (strcmp(module->kernels[i]->name, name)) continue;
    Function& made = functions[(module - modules) * 16 + i];
    made = {module, module->kernels[i]};
    *function = &made;
    return kSuccess;
  }
  return kNotFound;
}

ENTRY cuFuncGetAttribute(int* value, unsigned attribute, void* handle) {
  CALL(cuFuncGetAttribute, kContext);
  if (!function_of(handle)) return kInvalidHandle;
  const int values[] = {1024, 0, 0, 0, 32, 80, 80};
  if (attribute > 6) return kInvalidValue;
  *value = values[attribute];
  return kSuccess;
}

ENTRY cuLaunchKernel(void* handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                     unsigned bz, unsigned shared_bytes, void* stream_handle, void** parameters,
                     void** extra) {
  CALL(cuLaunchKernel, kContext);
  Function* function = function_of(handle);
  if (!function || function->module->context != current()) return kInvalidHandle;
  dim3 grid(gx, gy, gz), size(bx, by, bz);
  if (!simt::is_launchable(grid, size, shared_bytes) || extra) return kInvalidValue;
  const Kernel& kernel = *function->kernel;
  if (kernel.parameter_count && !parameters) return kInvalidValue;
  Stream* stream = nullptr;
  if (unsigned failed = queue_of(stream_handle, &stream)) return failed;
  state.launch_count++;
  if (stream->capture) return add_node(*stream);
  count_first_use(*stream, Op::launch);
  Op* op = new_op(Op::launch);
  op->kernel = &kernel;
  op->grid = grid;
  op->block = size;
  op->shared_bytes = shared_bytes;
  unsigned char* at = op->parameters;
  for (unsigned i = 0; i < kernel.parameter_count; i++) {
    memcpy(at, parameters[i], kernel.parameter_bytes[i]);
    at += (kernel.parameter_bytes[i] + 15) / 16 * 16;
  }
  enqueue(*stream, op);
  return kSuccess;
}

#include "control.hpp"
