// trainer_libtorch.cpp: trains a small Conv3d net on random crops of a zarr array, by libtorch.
//
//     tools/archive.sh out
//     T=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')/../..
//     H="-Iout -isystem $T/include -isystem $T/include/torch/csrc/api/include"
//     L="out/libwavetrain.a -L$T/lib -Wl,-rpath,$T/lib -ltorch -ltorch_cpu -lc10 -lpthread -ldl"
//     c++ -std=c++20 -O1 $H examples/trainer_libtorch.cpp $L -o trainer
//     ./trainer STORE [STEPS]
//
// libtorch older than 2.6 from PyPI wants -std=c++17 -D_GLIBCXX_USE_CXX11_ABI=0 instead. For
// batches in device memory add -DTRAINER_CUDA, -isystem CUDA/include and -lc10_cuda.
//
// The net learns to guess voxels that were masked from those around them, so any volume will do.
// Crops reach it without a copy: a batch is exported as a DLPack tensor, normalised where it lies,
// and its slot is filled anew once the tensor is deleted and the batch released.
#include "wavetrain.h"

#include <ATen/DLConvertor.h>
#include <torch/torch.h>
#ifdef TRAINER_CUDA
#include <c10/cuda/CUDAStream.h>
#endif

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace {

constexpr uint32_t SAMPLES = 8;
constexpr uint64_t EDGE_MAX = 16;
constexpr double MASKED = 0.2; // of the voxels

/// A struct of wavetrain.h, empty, with its size filled in.
template <class Struct> Struct sized() {
    Struct made = {};
    made.struct_size = sizeof made;
    return made;
}

wavetrain_error error = sized<wavetrain_error>(); // why a call failed

void check(const char *what, wavetrain_status status) {
    if (status == WAVETRAIN_OK)
        return;
    std::fprintf(stderr, "%s: %s: %s\n", what, wavetrain_status_str(status), error.text);
    std::exit(1);
}

/// An array and the shape of its crops: up to EDGE_MAX along the last three axes.
struct Source {
    const char *uri;
    wavetrain_array_view array;
    uint64_t crop[WAVETRAIN_RANK_MAX];
    std::mt19937_64 random{1};

    wavetrain_box box() {
        wavetrain_box box = {};
        box.uri = uri;
        box.uri_bytes = std::strlen(uri);
        box.rank = array.rank;
        for (uint32_t axis = 0; axis < array.rank; axis++) {
            const uint64_t room = array.shape[axis] - crop[axis];
            box.begin[axis] = int64_t(std::uniform_int_distribution<uint64_t>(0, room)(random));
            box.end[axis] = box.begin[axis] + int64_t(crop[axis]);
        }
        return box;
    }
};

/// Pushes crops until the loader takes no more.
void fill(wavetrain_loader loader, Source &source) {
    static wavetrain_box box; // the one that found no room last time
    static bool is_waiting = false;
    for (;;) {
        if (!is_waiting)
            box = source.box();
        const wavetrain_sample sample = {&box, 1, sizeof box, 0};
        size_t taken = 0;
        const wavetrain_status status =
            wavetrain_push(loader, &sample, 1, sizeof sample, 0, &taken);
        is_waiting = status == WAVETRAIN_AGAIN;
        if (is_waiting)
            return;
        if (status < 0)
            wavetrain_last_error(loader, &error);
        check("push", status);
    }
}

/// The stream that this thread's work on the batch's device is queued on; null on the host.
void *stream_of(const wavetrain_batch_view &view) {
    if (view.device < 0)
        return nullptr;
#ifdef TRAINER_CUDA
    void *stream = c10::cuda::getCurrentCUDAStream(c10::DeviceIndex(view.device)).stream();
    return stream ? stream : reinterpret_cast<void *>(1); // CU_STREAM_LEGACY
#else
    std::fprintf(stderr, "batches in device memory need -DTRAINER_CUDA\n");
    std::exit(1);
#endif
}

/// The batch as a tensor, without a copy. Deleting the tensor, and all views of it, gives it back.
torch::Tensor tensor_of(wavetrain_loader loader, wavetrain_batch batch, void *stream) {
#if defined(DLPACK_MAJOR_VERSION) && DLPACK_MAJOR_VERSION >= 1
    DLManagedTensorVersioned *tensor = nullptr;
    check("dlpack", wavetrain_dlpack(loader, batch, 0, stream, &tensor));
    return at::fromDLPackVersioned(tensor);
#else
    DLManagedTensor *tensor = nullptr;
    check("dlpack_legacy", wavetrain_dlpack_legacy(loader, batch, 0, stream, &tensor));
    return at::fromDLPack(tensor);
#endif
}

/// One step on [N, 1, z, y, x]: the mean squared error of the guesses, in units of the variance.
double learn(torch::nn::Sequential &net, torch::optim::Optimizer &optimizer, torch::Tensor crops) {
    crops.sub_(crops.mean()).div_(crops.std().clamp_min(1e-6)); // in the slot itself
    const torch::Tensor mask = torch::rand_like(crops) < MASKED;
    const torch::Tensor guesses = net->forward(crops.masked_fill(mask, 0));
    const torch::Tensor loss = (guesses - crops).masked_select(mask).square().mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss.item<double>();
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3) {
        std::fprintf(stderr, "usage: trainer_libtorch STORE [STEPS]\n");
        return 2;
    }
    char *rest = argc == 3 ? argv[2] : nullptr;
    const long steps = argc == 3 ? std::strtol(argv[2], &rest, 10) : 100;
    if (steps < 1 || steps > INT_MAX || (argc == 3 && *rest != '\0')) {
        std::fprintf(stderr, "STEPS = %s: must be a number from 1 on\n", argv[2]);
        return 2;
    }
    std::vector<unsigned char> scratch(WAVETRAIN_SCRATCH_BYTES);
    Source source = {};
    source.uri = argv[1];
    source.array = sized<wavetrain_array_view>();
    check("array_info", wavetrain_array_info(source.uri, nullptr, scratch.data(), scratch.size(),
                                             &source.array, &error));

    wavetrain_config config;
    wavetrain_config_default(&config, sizeof config);
    config.samples_per_batch = SAMPLES;
    config.sample_rank = source.array.rank;
    const uint32_t spatial = std::min(source.array.rank, 3u);
    for (uint32_t axis = 0; axis < source.array.rank; axis++) {
        const uint64_t edge = axis + spatial < source.array.rank ? 1 : EDGE_MAX;
        source.crop[axis] = std::min(source.array.shape[axis], edge);
        config.sample_shape[axis] = source.crop[axis];
    }
#ifndef TRAINER_CUDA
    config.backend = WAVETRAIN_BACKEND_HOST;
#endif
    check("config_fit", wavetrain_config_fit(&config, &source.uri, 1, scratch.data(),
                                             scratch.size(), &error));
    wavetrain_loader loader;
    check("open", wavetrain_open(&config, &loader, &error));

    torch::manual_seed(1);
    torch::nn::Sequential net(
        torch::nn::Conv3d(torch::nn::Conv3dOptions(1, 8, 3).padding(1)), torch::nn::ReLU(),
        torch::nn::Conv3d(torch::nn::Conv3dOptions(8, 1, 3).padding(1)));
    torch::optim::Adam optimizer(net->parameters(), 0.01);

    std::vector<int64_t> shape = {-1, 1};
    shape.insert(shape.end(), 3 - spatial, 1);
    for (uint32_t axis = source.array.rank - spatial; axis < source.array.rank; axis++)
        shape.push_back(int64_t(source.crop[axis]));

    double first = 0, last = 0;
    for (int step = 0; step < steps; step++) {
        fill(loader, source);
        wavetrain_batch batch;
        wavetrain_batch_view view = sized<wavetrain_batch_view>();
        check("pop", wavetrain_pop(loader, WAVETRAIN_FOREVER, &batch, &error));
        check("batch_info", wavetrain_batch_info(loader, batch, 0, &view));
        {
            torch::Tensor crops = tensor_of(loader, batch, stream_of(view));
            if (crops.data_ptr() != view.data)
                return std::fprintf(stderr, "the tensor is a copy\n"), 1;
            net->to(crops.device());
            last = learn(net, optimizer, crops.view(shape));
        }
        // Behind the step: on a device this orders the slot's next use behind what the step queued
        // on the stream that was exported to. On the host the work is over here.
        check("release", wavetrain_release(loader, batch, nullptr));
        if (step == 0)
            first = last;
        if (step % 20 == 0 || step + 1 == steps)
            std::printf("step %d loss %.4f\n", step, last);
    }
    // AGAIN where a tensor of a batch lives: delete it and close again, else the memory stays.
    uint32_t held = 0;
    check("close", wavetrain_close(loader, WAVETRAIN_FOREVER, &held));
    std::printf("loss %.4f -> %.4f over %ld steps of %u crops\n", first, last, steps, SAMPLES);
    return 0;
}
