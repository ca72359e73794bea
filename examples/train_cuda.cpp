// train_cuda.cpp: a training loop on a GPU whose batches are loaded while it computes.
//
//     tools/archive.sh out
//     c++ -std=c++17 -O2 -Iout examples/train_cuda.cpp out/libwavetrain.a -lpthread -ldl -o trainer
//     ./trainer ARRAY [name=value ...]
//
// ARRAY is a zarr array whose values are whole numbers from 0 on. Options: batches=100, batch=8
// samples, edge=64 elements along the last three axes, rounds=200 (work for each value),
// blocks=264 of the kernel, release=event or export, verify=1, driver=libcuda.so.1, device=0.
//
// It is an engine of its own: no CUDA toolkit, only the driver, which it loads as the library does.
// It makes a context and a stream, and a kernel (PTX below) works on each batch there, while the
// loader copies and assembles the next ones on streams of its own. What orders the two:
//
//   pop      the data is complete, on every stream: the kernel is launched without a wait.
//   release  the slot is used again after the kernel. Either behind an event (release=event), or
//            because the batch was exported to the kernel's stream (release=export), as a framework
//            does that takes DLPack tensors.
//
// Nothing here waits for the device but the end: the number of batch slots bounds what is queued.
// With verify=1 the same boxes are loaded into host memory too, and summed up by the CPU.
// Exit status: 0; 1 something failed; 2 usage; 77 there is no driver or no device.
#include "wavetrain.hpp"

#include <dlfcn.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// Of dlpack.h, as far as it is looked into here.
struct DLManagedTensorVersioned {
    std::uint32_t major, minor;
    void *context;
    void (*deleter)(DLManagedTensorVersioned *);
};

namespace {

enum { SKIPPED = 77 };

[[noreturn]] void stop(int code, const char *what, const char *why) {
    std::fprintf(code == SKIPPED ? stdout : stderr, "%s%s: %s\n",
                 code == SKIPPED ? "skipped: " : "", what, why);
    std::exit(code);
}

// ---- The driver -------------------------------------------------------------------------------

using device_pointer = unsigned long long;
constexpr unsigned NO_DEVICE = 100;

// The entries that this program calls, as cuda.h declares them, with void * for every handle.
struct {
    unsigned (*cuInit)(unsigned);
    unsigned (*cuGetErrorName)(unsigned, const char **);
    unsigned (*cuDeviceGet)(int *, int);
    unsigned (*cuDeviceGetName)(char *, int, int);
    unsigned (*cuDevicePrimaryCtxRetain)(void **, int);
    unsigned (*cuDevicePrimaryCtxRelease_v2)(int);
    unsigned (*cuCtxSetCurrent)(void *);
    unsigned (*cuModuleLoadDataEx)(void **, const void *, unsigned, unsigned *, void **);
    unsigned (*cuModuleGetFunction)(void **, void *, const char *);
    unsigned (*cuModuleUnload)(void *);
    unsigned (*cuMemAlloc_v2)(device_pointer *, std::size_t);
    unsigned (*cuMemFree_v2)(device_pointer);
    unsigned (*cuMemsetD8Async)(device_pointer, unsigned char, std::size_t, void *);
    unsigned (*cuMemcpyDtoH_v2)(void *, device_pointer, std::size_t);
    unsigned (*cuStreamCreate)(void **, unsigned);
    unsigned (*cuStreamSynchronize)(void *);
    unsigned (*cuStreamDestroy_v2)(void *);
    unsigned (*cuEventCreate)(void **, unsigned);
    unsigned (*cuEventRecord)(void *, void *);
    unsigned (*cuEventDestroy_v2)(void *);
    unsigned (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, void *, void **, void **);
} cu;

void check(unsigned code, const char *call) {
    if (code == 0)
        return;
    const char *name = nullptr;
    char text[96];
    cu.cuGetErrorName(code, &name);
    std::snprintf(text, sizeof text, "%s (error %u)%s", name ? name : "it failed", code,
                  code == NO_DEVICE ? ": there is no CUDA device here" : "");
    stop(code == NO_DEVICE ? SKIPPED : 1, call, text);
}
#define CU(name, ...) check(cu.name(__VA_ARGS__), #name)

// Function pointers are as large as data pointers on every system with dlsym.
template <class Entry> void find(void *library, Entry &entry, const char *name) {
    void *found = dlsym(library, name);
    if (!found)
        stop(SKIPPED, name, "the driver has no such entry: it is too old");
    std::memcpy(&entry, &found, sizeof entry);
}

void load_driver(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        stop(SKIPPED, "there is no CUDA driver here", dlerror());
#define FIND(name) find(library, cu.name, #name)
    FIND(cuInit), FIND(cuGetErrorName), FIND(cuDeviceGet), FIND(cuDeviceGetName);
    FIND(cuDevicePrimaryCtxRetain), FIND(cuDevicePrimaryCtxRelease_v2), FIND(cuCtxSetCurrent);
    FIND(cuModuleLoadDataEx), FIND(cuModuleGetFunction), FIND(cuModuleUnload);
    FIND(cuMemAlloc_v2), FIND(cuMemFree_v2), FIND(cuMemsetD8Async), FIND(cuMemcpyDtoH_v2);
    FIND(cuStreamCreate), FIND(cuStreamSynchronize), FIND(cuStreamDestroy_v2);
    FIND(cuEventCreate), FIND(cuEventRecord), FIND(cuEventDestroy_v2), FIND(cuLaunchKernel);
#undef FIND
}

// ---- The kernel -------------------------------------------------------------------------------

// Adds the values to *sum, and drives a weight of each thread through `rounds` dependent steps for
// each of its values. PTX 8.0 for compute_80, which the driver compiles for its GPU. Beside it is
// what it says in C++; tests/cuda_sim/train_step.cu has that whole.
constexpr char KERNEL[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry train_step(
    .param .u64 values,             // const float *
    .param .u64 count,
    .param .u32 rounds,
    .param .u64 weights,            // float *, one for each thread
    .param .u64 sum                 // unsigned long long *
)
{
    .reg .pred %p<3>;
    .reg .f32 %f<3>;
    .reg .b32 %r<6>;
    .reg .b64 %d<14>;
    ld.param.u64 %d0, [values];
    ld.param.u64 %d1, [count];
    ld.param.u32 %r0, [rounds];
    ld.param.u64 %d2, [weights];
    ld.param.u64 %d3, [sum];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;  // thread = blockIdx.x * blockDim.x + threadIdx.x
    mul.wide.u32 %d4, %r4, 4;
    add.u64 %d4, %d2, %d4;
    ld.global.f32 %f0, [%d4];       // weight = weights[thread]
    mov.u64 %d5, 0;                 // part = 0
    cvt.u64.u32 %d6, %r4;           // i = thread
    mov.u32 %r1, %nctaid.x;
    mul.wide.u32 %d7, %r1, %r2;     // stride = gridDim.x * blockDim.x
NEXT:
    setp.ge.u64 %p0, %d6, %d1;      // while (i < count) {
    @%p0 bra DONE;
    shl.b64 %d8, %d6, 2;
    add.u64 %d8, %d0, %d8;
    ld.global.f32 %f1, [%d8];       //   value = values[i]
    cvt.rzi.u64.f32 %d9, %f1;
    add.u64 %d5, %d5, %d9;          //   part += (unsigned long long)value
    mov.u32 %r5, 0;                 //   round = 0
ROUND:
    setp.ge.u32 %p1, %r5, %r0;      //   while (round < rounds) {
    @%p1 bra STEP;
    fma.rn.f32 %f0, %f0, 0f3F000000, %f1; //  weight = weight * 0.5f + value
    add.u32 %r5, %r5, 1;            //     round++
    bra ROUND;                      //   }
STEP:
    add.u64 %d6, %d6, %d7;          //   i += stride
    bra NEXT;                       // }
DONE:
    st.global.f32 [%d4], %f0;       // weights[thread] = weight
    red.global.add.u64 [%d3], %d5;  // atomicAdd(sum, part)
    ret;
}
)";

constexpr unsigned THREADS = 256;

// A context, a stream, and the kernel with its memory: what stands for the model.
class trainer {
public:
    trainer(int ordinal, unsigned blocks, unsigned rounds) : blocks_(blocks), rounds_(rounds) {
        CU(cuDeviceGet, &device_, ordinal);
        CU(cuDevicePrimaryCtxRetain, &context_, device_);
        CU(cuCtxSetCurrent, context_); // a loader whose device is -1 takes it
        CU(cuStreamCreate, &stream_, 1u /* not ordered by the default stream */);
        CU(cuEventCreate, &event_, 2u /* takes no time */);
        CU(cuModuleLoadDataEx, &module_, KERNEL, 0, nullptr, nullptr);
        CU(cuModuleGetFunction, &kernel_, module_, "train_step");
        const std::size_t bytes = std::size_t(blocks_) * THREADS * sizeof(float);
        CU(cuMemAlloc_v2, &weights_, bytes);
        CU(cuMemAlloc_v2, &sum_, sizeof(std::uint64_t));
        CU(cuMemsetD8Async, weights_, 0, bytes, stream_);
        CU(cuMemsetD8Async, sum_, 0, sizeof(std::uint64_t), stream_);
    }
    trainer(const trainer &) = delete;
    trainer &operator=(const trainer &) = delete;
    ~trainer() {
        CU(cuMemFree_v2, sum_);
        CU(cuMemFree_v2, weights_);
        CU(cuModuleUnload, module_);
        CU(cuEventDestroy_v2, event_);
        CU(cuStreamDestroy_v2, stream_);
        CU(cuCtxSetCurrent, nullptr);
        CU(cuDevicePrimaryCtxRelease_v2, device_);
    }

    // Queues a step on the elements of a batch.
    void step(const wavetrain::batch &batch) {
        device_pointer values = reinterpret_cast<std::uintptr_t>(batch.data());
        std::uint64_t count = batch.as<float>().size();
        void *parameters[] = { &values, &count, &rounds_, &weights_, &sum_ };
        CU(cuLaunchKernel, kernel_, blocks_, 1, 1, THREADS, 1, 1, 0, stream_, parameters, nullptr);
    }
    // An event behind all that is queued.
    void *event() {
        CU(cuEventRecord, event_, stream_);
        return event_;
    }
    void *stream() const { return stream_; }
    std::uint64_t sum() {
        std::uint64_t sum = 0;
        CU(cuStreamSynchronize, stream_);
        CU(cuMemcpyDtoH_v2, &sum, sum_, sizeof sum);
        return sum;
    }

private:
    unsigned blocks_, rounds_;
    int device_ = 0;
    void *context_ = nullptr, *stream_ = nullptr, *event_ = nullptr;
    void *module_ = nullptr, *kernel_ = nullptr;
    device_pointer weights_ = 0, sum_ = 0;
};

// ---- The loop ---------------------------------------------------------------------------------

struct options {
    const char *array = nullptr;
    const char *driver = "libcuda.so.1";
    const char *release = "event";
    std::uint64_t batches = 100, batch = 8, edge = 64, rounds = 200, blocks = 264, verify = 0;
    std::uint64_t device = 0;
};

options parsed(int count, char **words) {
    options out;
    struct {
        const char *name;
        std::uint64_t *value;
    } numbers[] = { { "batches=", &out.batches }, { "batch=", &out.batch },
                    { "edge=", &out.edge },       { "rounds=", &out.rounds },
                    { "blocks=", &out.blocks },   { "verify=", &out.verify },
                    { "device=", &out.device } };
    for (int i = 1; i < count; i++) {
        const char *word = words[i];
        bool is_known = false;
        for (auto &number : numbers) {
            const std::size_t length = std::strlen(number.name);
            char *end = nullptr;
            if (std::strncmp(word, number.name, length) != 0)
                continue;
            *number.value = std::strtoull(word + length, &end, 10);
            is_known = word[length] != '-' && end != word + length && *end == 0 &&
                       *number.value <= UINT32_MAX; /* strtoull wraps and saturates */
        }
        if (std::strncmp(word, "driver=", 7) == 0)
            out.driver = word + 7, is_known = true;
        if (!std::strcmp(word, "release=event") || !std::strcmp(word, "release=export"))
            out.release = word + 8, is_known = true;
        if (!is_known && !out.array && !std::strchr(word, '='))
            out.array = word, is_known = true;
        if (!is_known)
            stop(2, word, "not an option: see the head of train_cuda.cpp");
    }
    if (!out.array || !out.batches || !out.batch || !out.edge || !out.blocks)
        stop(2, "usage", "trainer ARRAY [name=value ...]");
    return out;
}

// Random boxes, the same for the same number.
struct source {
    const char *uri;
    wavetrain::array_view array;
    std::uint64_t crop[WAVETRAIN_RANK_MAX] = {};
    std::uint64_t number = 0, limit;

    source(const options &with) : uri(with.array), limit(with.batches * with.batch) {
        static wavetrain::scratch room;
        wavetrain::error why;
        if (!wavetrain::array_info(uri, array, room, &why))
            stop(1, uri, why.text);
        for (std::uint32_t axis = 0; axis < array.rank; axis++) {
            const std::uint64_t wanted = axis + 3 < array.rank ? 1 : with.edge;
            crop[axis] = array.shape[axis] < wanted ? array.shape[axis] : wanted;
        }
    }
    bool operator()(wavetrain::sample &out) {
        if (number == limit)
            return false;
        out = wavetrain::sample();
        out.uri = uri;
        out.uri_bytes = std::strlen(uri);
        out.rank = array.rank;
        for (std::uint32_t axis = 0; axis < array.rank; axis++) {
            // splitmix64.
            std::uint64_t draw = number * 16 + axis + 0x9E3779B97F4A7C15u;
            draw = (draw ^ (draw >> 30)) * 0xBF58476D1CE4E5B9u;
            draw = (draw ^ (draw >> 27)) * 0x94D049BB133111EBu;
            const std::uint64_t places = array.shape[axis] - crop[axis] + 1;
            out.begin[axis] = std::int64_t((draw ^ (draw >> 31)) % places);
            out.end[axis] = out.begin[axis] + std::int64_t(crop[axis]);
        }
        out.tag = number++;
        return true;
    }
};

wavetrain::loader opened(const options &with, const source &boxes, std::uint32_t backend) {
    wavetrain::config config;
    static wavetrain::scratch room;
    wavetrain::error why;
    config.shape({ boxes.crop, boxes.array.rank }).samples_per_batch = std::uint32_t(with.batch);
    config.backend = backend;
    config.cuda_driver = backend == WAVETRAIN_BACKEND_CUDA ? with.driver : nullptr;
    if (!config.fit(with.array, room, &why))
        stop(1, "config", why.text);
    wavetrain::loader loader;
    if (!wavetrain::loader::open(config, loader, &why))
        stop(1, "open", why.text);
    return loader;
}

// Gives a batch back while the kernel still works on it.
void give_back(wavetrain::batch &batch, trainer &model, const options &with) {
    if (std::strcmp(with.release, "event") == 0) {
        const wavetrain::status released = batch.release(model.event());
        if (!released)
            stop(1, "release", released.name());
        return;
    }
    // A framework would work on this tensor; its last reader calls the deleter.
    DLManagedTensorVersioned *tensor = nullptr;
    const wavetrain::status exported = batch.dlpack(&tensor, model.stream());
    if (!exported)
        stop(1, "dlpack", exported.name());
    const wavetrain::status released = batch.release();
    tensor->deleter(tensor);
    if (!released)
        stop(1, "release", released.name());
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::uint64_t train(const options &with, const source &boxes) {
    trainer model(int(with.device), unsigned(with.blocks), unsigned(with.rounds));
    wavetrain::loader loader = opened(with, boxes, WAVETRAIN_BACKEND_CUDA);
    auto stream = loader.stream(source(boxes));
    wavetrain::batch batch;
    std::uint64_t batches = 0;
    double waited = 0, first = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
        const auto asked = std::chrono::steady_clock::now();
        if (!stream.next(batch))
            break;
        (batches++ ? waited : first) += seconds_since(asked); // nothing overlaps the first
        if (!batch.is_device())
            stop(1, "backend", "the batch is in host memory");
        model.step(batch);
        give_back(batch, model, with);
    }
    if (!stream.status())
        stop(1, "stream", stream.error().text);
    const std::uint64_t sum = model.sum();
    const double seconds = seconds_since(begin);
    wavetrain::stats_view stats;
    if (!loader.stats(stats))
        stop(1, "stats", "the loader is closed");
    std::printf("%s\n", stats.backend_text);
    std::printf("%" PRIu64 " batches of %" PRIu64 " samples in %.3f s: %.1f batches/s\n", batches,
                with.batch, seconds, double(batches) / seconds);
    std::printf("first batch after %.1f ms; then %.1f %% of the time waiting in pop\n",
                first * 1e3, seconds > first ? 100 * waited / (seconds - first) : 0.0);
    std::printf("copies %.1f ms, assembling %.1f ms of device time\n",
                double(stats.input_transfer.ns) / 1e6, double(stats.assemble.ns) / 1e6);
    std::printf("sum %" PRIu64 "\n", sum);
    return sum;
    // Before the trainer, in the reverse order of their making, batch, stream and loader end: the
    // loader's close waits for what is queued on its slots.
}

std::uint64_t sum_on_the_host(const options &with, const source &boxes) {
    wavetrain::loader loader = opened(with, boxes, WAVETRAIN_BACKEND_HOST);
    auto stream = loader.stream(source(boxes));
    std::uint64_t sum = 0;
    for (wavetrain::batch &batch : stream)
        for (const float value : batch.as<float>())
            sum += std::uint64_t(value);
    if (!stream.status())
        stop(1, "stream", stream.error().text);
    return sum;
}

} // namespace

int main(int count, char **words) {
    const options with = parsed(count, words);
    load_driver(with.driver);
    CU(cuInit, 0);
    const source boxes(with);
    const std::uint64_t sum = train(with, boxes);
    if (with.verify && sum != sum_on_the_host(with, boxes))
        stop(1, "verify", "the host's sum is another one");
    if (with.verify)
        std::printf("the host's sum is the same\n");
    return 0;
}
