/* nvtx_profiler.cpp ARRAY: wavetrain's stages as ranges of NVTX, which Nsight Systems shows.
 *
 *     tools/archive.sh out
 *     c++ -std=c++17 -Iout -I/usr/local/cuda/include examples/nvtx_profiler.cpp \
 *         out/libwavetrain.a -lpthread -ldl -o nvtx_profiler
 *     nsys profile --trace=nvtx,osrt ./nvtx_profiler path/to/array.zarr
 *
 * The profiler hook calls begin before a stage and end after it, on the thread that does the work,
 * so ranges of a thread are nested as NVTX wants them. Streams 64 boxes of half the array's extents
 * (16 voxels at most) along each axis. Without a profiler NVTX does nothing.
 */
#include "wavetrain.hpp"

#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

struct nvtx_ranges {
    void begin(const char *name) noexcept { nvtxRangePushA(name); }
    void end() noexcept { nvtxRangePop(); }
};

int failed(const char *what, const wavetrain::error &why) {
    std::fprintf(stderr, "%s: %s\n", what, why.text);
    return 1;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: nvtx_profiler ARRAY\n");
        return 2;
    }
    wavetrain::error why;
    wavetrain::array_view array;
    static wavetrain::scratch room; /* four MiB: too much for a stack */
    if (!wavetrain::array_info(argv[1], array, room, &why))
        return failed("array_info", why);

    std::vector<std::uint64_t> shape(array.rank);
    for (std::uint32_t axis = 0; axis < array.rank; axis++)
        shape[axis] = array.shape[axis] < 32 ? (array.shape[axis] + 1) / 2 : 16;
    nvtx_ranges ranges; /* used until close */
    wavetrain::config config;
    config.shape({ shape.data(), shape.size() }).use_profiler(ranges).samples_per_batch = 8;
    if (!config.fit(argv[1], room, &why))
        return failed("config_fit", why);

    wavetrain::loader loader;
    if (!wavetrain::loader::open(config, loader, &why))
        return failed("open", why);
    std::vector<std::int64_t> begin(array.rank), end(array.rank);
    std::uint64_t left = 64;
    auto stream = loader.stream([&](wavetrain::sample &out) {
        if (left == 0)
            return false;
        left--;
        for (std::uint32_t axis = 0; axis < array.rank; axis++) {
            begin[axis] = static_cast<std::int64_t>(left % (array.shape[axis] - shape[axis] + 1));
            end[axis] = begin[axis] + static_cast<std::int64_t>(shape[axis]);
        }
        out = wavetrain::box(argv[1], std::strlen(argv[1]), { begin.data(), begin.size() },
                             { end.data(), end.size() });
        return true;
    });
    std::uint64_t batches = 0;
    for (wavetrain::batch &batch : stream) {
        /* Ranges of your own lie beside those of wavetrain. */
        nvtxRangePushA("use a batch");
        batches += batch.sample_count() > 0;
        nvtxRangePop();
    }
    if (!stream.status().ok()) {
        if (!loader.last_error(why).ok())
            return 1;
        return failed("stream", why);
    }
    std::printf("%llu batches\n", static_cast<unsigned long long>(batches));
    return 0;
}
