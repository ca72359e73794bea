// mpi_tiles.cpp: one array, many ranks. Each rank streams its own part and no two the same.
//
//     tools/archive.sh out
//     mpicxx -std=c++17 -Iout examples/mpi_tiles.cpp out/libwavetrain.a -lpthread -ldl -o mpi_tiles
//     mpirun -n 4 ./mpi_tiles tiles STORE [verify=1]
//     mpirun -n 4 ./mpi_tiles samples STORE [samples=256] [batch=32] [edge=16] [seed=1] [epochs=2]
//                             [from_epoch=0] [from_step=0] [steps=0]
//
// tiles: the array is a grid of its files where they suffice for all ranks, else of its chunks, and
// each rank takes as many of them, so that nothing is read twice. It streams them as blocks of one
// chunk. Every voxel comes once; verify=1 compares with rank 0 reading all of it alone.
//
// samples: a list of random crops, told by the seed alone, is walked in an order that is told by
// seed and epoch. A step takes `batch` entries of it and every rank its share of those, whatever
// the number of ranks: a run may be stopped after a step and go on from there, with the same
// batches, on more ranks or on less. steps=0 goes on to the end.
//
// Where a machine has GPUs its ranks take one each, in turn (LOCAL_RANK says which rank of the
// machine this is, else MPI does), and elsewhere the host; driver=PATH names another libcuda.so.1.
//
// Both end with a checksum that does not depend on the order: a sum of hashes, modulo 2^64.
#include "wavetrain.hpp"
#include "wavetrain_tiles.h"

#define OMPI_SKIP_MPICXX 1 // the C interface is enough
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace {

using ull = unsigned long long; // what %llu prints

[[noreturn]] void fail(const char *what, const char *why) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::fprintf(stderr, "rank %d: %s: %s\n", rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();
}

void check(const char *what, wavetrain::status status, const wavetrain::error &why) {
    if (!status)
        fail(what, why.text[0] ? why.text : status.name());
}

/// splitmix64: every bit of the argument stirs every bit of the result.
uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/// A hash of an element of up to 16 bytes and the place it belongs to.
uint64_t hash_element(uint64_t place, const unsigned char *element, uint32_t bytes) {
    uint64_t words[2] = {0, 0};
    std::memcpy(words, element, bytes);
    return mix(place + mix(words[0] + mix(words[1])));
}

// ---- The GPU of a rank --------------------------------------------------------------------------

/// The driver, as far as this program needs it: to count devices, and to copy for the checksums.
struct {
    unsigned (*cuInit)(unsigned) = nullptr;
    unsigned (*cuDeviceGetCount)(int *) = nullptr;
    unsigned (*cuDeviceGet)(int *, int) = nullptr;
    unsigned (*cuDevicePrimaryCtxRetain)(void **, int) = nullptr;
    unsigned (*cuDevicePrimaryCtxRelease_v2)(int) = nullptr;
    unsigned (*cuCtxSetCurrent)(void *) = nullptr;
    unsigned (*cuMemcpyDtoH_v2)(void *, uintptr_t, size_t) = nullptr;
} cu;

bool load_driver(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const auto find = [library](auto &entry, const char *name) {
        void *found = library ? dlsym(library, name) : nullptr;
        std::memcpy(&entry, &found, sizeof entry);
        return found != nullptr;
    };
    return find(cu.cuInit, "cuInit") && find(cu.cuDeviceGetCount, "cuDeviceGetCount") &&
           find(cu.cuDeviceGet, "cuDeviceGet") &&
           find(cu.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain") &&
           find(cu.cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease_v2") &&
           find(cu.cuCtxSetCurrent, "cuCtxSetCurrent") &&
           find(cu.cuMemcpyDtoH_v2, "cuMemcpyDtoH_v2");
}

/// The number of this rank among those of its machine.
int local_rank() {
    if (const char *told = std::getenv("LOCAL_RANK"))
        return std::max(std::atoi(told), 0);
    MPI_Comm machine;
    int rank = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, &rank);
    MPI_Comm_free(&machine);
    return rank;
}

/// The device that this rank takes, its primary context made current; -1 where there is none. With
/// more ranks than devices they share.
int take_device(const char *driver) {
    const int local = local_rank(); // of all ranks, for MPI wants them all
    int count = 0, device = 0;
    void *context = nullptr;
    if (!load_driver(driver) || cu.cuInit(0) || cu.cuDeviceGetCount(&count) || count == 0)
        return -1;
    if (cu.cuDeviceGet(&device, local % count) || cu.cuDevicePrimaryCtxRetain(&context, device) ||
        cu.cuCtxSetCurrent(context))
        fail("device", "the driver has it and does not give it");
    return local % count;
}

// ---- Streaming ----------------------------------------------------------------------------------

struct Place {
    const char *uri;
    const char *driver = "libcuda.so.1";
    int device = -1; // -1: the host
    uint32_t rank = 0, ranks = 1;
    wavetrain::array_view array = {};

    uint32_t axes() const { return array.rank; }
};

wavetrain::scratch room;

/// A loader of boxes of this shape in the array's own type, bit for bit. Ranks on one machine
/// share its processors, so each takes few threads.
wavetrain::loader open(const Place &at, const uint64_t *shape, uint64_t samples_per_batch) {
    wavetrain::config config;
    config.shape({shape, at.axes()}).samples_per_batch = uint32_t(samples_per_batch);
    config.dtype = at.array.dtype;
    config.dtype_bytes = config.dtype == WAVETRAIN_RAW ? at.array.dtype_bytes : 0;
    config.n_io_threads = 4;
    config.pad_mode = WAVETRAIN_PAD_CONSTANT; // the last block of an axis may reach over the edge
    if (at.device >= 0) {
        config.backend = WAVETRAIN_BACKEND_AUTO; // the host, where the device is too old
        config.device = at.device;
        config.cuda_driver = at.driver;
    }
    wavetrain::error why;
    wavetrain::loader loader;
    check("config_fit", config.fit(at.uri, room, &why), why);
    check("open", wavetrain::loader::open(config, loader, &why), why);
    return loader;
}

/// Streams the samples of `source` and hands every batch to `use`, its elements in host memory.
template <class Source, class Use> void stream(wavetrain::loader &loader, Source source, Use use) {
    std::vector<unsigned char> copy;
    auto batches = loader.stream(std::move(source));
    for (wavetrain::batch &batch : batches) {
        const unsigned char *elements = static_cast<const unsigned char *>(batch.data());
        if (batch.is_device()) {
            copy.resize(batch.bytes());
            if (cu.cuMemcpyDtoH_v2(copy.data(), reinterpret_cast<uintptr_t>(elements), copy.size()))
                fail("copy", "the driver did not copy a batch");
            elements = copy.data();
        }
        use(batch, elements);
    }
    check("stream", batches.status(), batches.error());
}

/// A box of the array with this corner.
wavetrain::sample sample_at(const Place &at, const int64_t *begin, const uint64_t *shape,
                            uint64_t tag) {
    int64_t end[WAVETRAIN_RANK_MAX];
    for (uint32_t axis = 0; axis < at.axes(); axis++)
        end[axis] = begin[axis] + int64_t(shape[axis]);
    return {wavetrain::box(at.uri, std::strlen(at.uri), {begin, at.axes()}, {end, at.axes()}), tag};
}

// ---- tiles --------------------------------------------------------------------------------------

/// The array as a grid of units, which are its files or its chunks, and each unit as one of blocks,
/// which are chunks. Blocks are numbered unit by unit; at the array's far edges some have nothing.
struct Blocks {
    uint32_t axes;
    const uint64_t *shape, *unit, *block;
    uint64_t units, per_unit;

    Blocks(const wavetrain::array_view &array, uint32_t ranks)
        : axes(array.rank), shape(array.shape), unit(array.file_shape), block(array.chunk_shape) {
        if (wavetrain_grid_count(axes, shape, unit) < ranks)
            unit = block;
        units = wavetrain_grid_count(axes, shape, unit);
        per_unit = wavetrain_grid_count(axes, unit, block);
    }
    /// What a block has of the array; false where that is nothing.
    bool box(uint64_t number, int64_t *begin, int64_t *end) const {
        int64_t first[WAVETRAIN_RANK_MAX], last[WAVETRAIN_RANK_MAX];
        wavetrain_grid_box(axes, shape, unit, number / per_unit, begin, end);
        wavetrain_grid_box(axes, unit, block, number % per_unit, first, last);
        bool is_any = true;
        for (uint32_t axis = 0; axis < axes; axis++) {
            end[axis] = std::min(end[axis], begin[axis] + last[axis]);
            begin[axis] += first[axis];
            is_any &= begin[axis] < end[axis];
        }
        return is_any;
    }
};

struct Totals {
    uint64_t voxels = 0, checksum = 0;
    uint64_t devices = 0; // 1 + the device that it came over; 0: none

    /// Adds the elements of a block that lie in the array: a row of them at a time.
    void add(const Blocks &blocks, uint64_t number, const unsigned char *elements, uint32_t bytes) {
        int64_t begin[WAVETRAIN_RANK_MAX], end[WAVETRAIN_RANK_MAX];
        blocks.box(number, begin, end);
        const uint64_t count = std::accumulate(blocks.block, blocks.block + blocks.axes,
                                               uint64_t(1), std::multiplies<uint64_t>());
        for (uint64_t element = 0; element < count; element++, elements += bytes) {
            uint64_t index = 0, stride = 1, rest = element; // in the array, row-major
            bool is_inside = true;
            for (uint32_t axis = blocks.axes; axis-- > 0; rest /= blocks.block[axis]) {
                const uint64_t place = uint64_t(begin[axis]) + rest % blocks.block[axis];
                is_inside &= place < uint64_t(end[axis]);
                index += place * stride;
                stride *= blocks.shape[axis];
            }
            voxels += is_inside;
            checksum += is_inside ? hash_element(index, elements, bytes) : 0;
        }
    }
};

/// Streams the units of a rank. There may be none, where there are more ranks than chunks.
Totals stream_tile(const Place &at) {
    const Blocks blocks(at.array, at.ranks);
    const wavetrain_split split = {blocks.units, at.ranks, 1, 1};
    const wavetrain_rows mine = wavetrain_tile(&split, at.rank, 0);
    uint64_t number = mine.begin * blocks.per_unit;
    Totals totals;
    wavetrain::loader loader = open(at, blocks.block, 4);
    wavetrain::stats_view stats;
    check("stats", loader.stats(stats), {});
    totals.devices = stats.backend == WAVETRAIN_BACKEND_CUDA ? uint64_t(at.device + 1) : 0;
    const auto next = [&, number](wavetrain::sample &out) mutable {
        int64_t begin[WAVETRAIN_RANK_MAX], end[WAVETRAIN_RANK_MAX];
        while (number < mine.end * blocks.per_unit) {
            if (!blocks.box(number++, begin, end))
                continue;
            out = sample_at(at, begin, blocks.block, number - 1);
            return true;
        }
        return false;
    };
    stream(loader, next, [&](const wavetrain::batch &batch, const unsigned char *elements) {
        const uint64_t bytes = batch.bytes() / batch.sample_count();
        for (const uint64_t tag : batch.tags()) {
            totals.add(blocks, tag, elements, batch.view().dtype_bytes);
            elements += bytes;
        }
    });
    return totals;
}

int tiles(const Place &at, bool is_verified) {
    const Totals mine = stream_tile(at);
    uint64_t sent[3] = {mine.voxels, mine.checksum, mine.devices}, sums[2] = {0, 0};
    MPI_Reduce(sent, sums, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    std::vector<uint64_t> all(3 * size_t(at.ranks), 0);
    MPI_Gather(sent, 3, MPI_UINT64_T, all.data(), 3, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (at.rank != 0)
        return 0;
    for (uint32_t rank = 0; rank < at.ranks; rank++) {
        const uint64_t device = all[3 * rank + 2];
        const std::string where = device ? "CUDA device " + std::to_string(device - 1) : "the host";
        std::printf("rank %u: %llu voxels, on %s\n", rank, ull(all[3 * rank]), where.c_str());
    }
    std::printf("tiles of %u ranks: %llu voxels, checksum %016llx\n", at.ranks, ull(sums[0]),
                ull(sums[1]));
    if (is_verified) {
        Place all_of_it = at;
        all_of_it.ranks = 1;
        const Totals alone = stream_tile(all_of_it);
        if (alone.voxels != sums[0] || alone.checksum != sums[1])
            fail("verify", "one rank alone read something else");
        std::printf("one rank alone: the same\n");
    }
    return 0;
}

// ---- samples ------------------------------------------------------------------------------------

struct Options {
    uint64_t samples = 256; // in the list
    uint64_t batch = 32;    // entries that a step takes, over all ranks
    uint64_t edge = 16;     // of a crop, at most
    uint64_t seed = 1;
    uint64_t epochs = 2;
    uint64_t from_epoch = 0;
    uint64_t from_step = 0;
    uint64_t steps = 0;

    uint64_t steps_per_epoch() const { return (samples + batch - 1) / batch; }
    /// The first step that is walked, counted over all epochs, and the one behind the last.
    uint64_t first() const { return from_epoch * steps_per_epoch() + from_step; }
    uint64_t limit() const {
        const uint64_t all = std::max(epochs * steps_per_epoch(), first());
        return steps == 0 ? all : std::min(all, first() + steps);
    }
};

/// The numbers of the samples that a rank takes in an epoch, in order.
std::vector<uint64_t> share_of(const Options &options, uint64_t epoch, uint32_t rank,
                               uint32_t ranks) {
    // A permutation of the list that seed and epoch tell.
    std::vector<uint64_t> order(options.samples), share;
    std::iota(order.begin(), order.end(), uint64_t(0));
    uint64_t state = mix(options.seed) ^ mix(~epoch);
    for (uint64_t left = options.samples; left > 1; left--) {
        state = mix(state);
        std::swap(order[left - 1], order[state % left]);
    }
    const uint64_t before = epoch * options.steps_per_epoch();
    for (uint64_t step = 0; step < options.steps_per_epoch(); step++) {
        if (before + step < options.first() || before + step >= options.limit())
            continue;
        const uint64_t begin = step * options.batch;
        const wavetrain_split entries = {std::min(options.batch, options.samples - begin), ranks, 1,
                                         1};
        const wavetrain_rows mine = wavetrain_tile(&entries, rank, 0);
        for (uint64_t entry = mine.begin; entry < mine.end; entry++)
            share.push_back(order[begin + entry]);
    }
    return share;
}

int samples(const Place &at, const Options &options) {
    if (options.batch == 0 || options.batch % at.ranks != 0)
        fail("batch", "must be a multiple of the number of ranks");
    if (options.samples == 0 || options.edge == 0)
        fail("samples, edge", "must be more than 0");
    if (options.from_step >= options.steps_per_epoch())
        fail("from_step", "an epoch has fewer steps");
    uint64_t shape[WAVETRAIN_RANK_MAX];
    for (uint32_t axis = 0; axis < at.axes(); axis++)
        shape[axis] = std::min(at.array.shape[axis], options.edge);

    // A tag is epoch * samples + number. `seen` counts what came by number, `expected` what one
    // rank alone would see.
    std::vector<uint64_t> seen(options.samples, 0), all(options.samples, 0), expected = all;
    uint64_t sent[2] = {0, 0}, sums[2] = {0, 0}; // checksum, batches
    wavetrain::loader loader = open(at, shape, options.batch / at.ranks);
    const auto use = [&](const wavetrain::batch &batch, const unsigned char *elements) {
        sent[1]++;
        const uint32_t bytes = batch.view().dtype_bytes;
        const uint64_t count = batch.bytes() / batch.sample_count() / bytes;
        for (const uint64_t tag : batch.tags()) {
            seen[tag % options.samples]++;
            for (uint64_t i = 0; i < count; i++, elements += bytes)
                sent[0] += hash_element(mix(tag) + i, elements, bytes);
        }
    };
    const uint64_t per_epoch = options.steps_per_epoch();
    for (uint64_t epoch = options.from_epoch; epoch * per_epoch < options.limit(); epoch++) {
        for (const uint64_t number : share_of(options, epoch, 0, 1))
            expected[number]++;
        // Behind the last entry comes a flush, so that an epoch's last batch may have less.
        const std::vector<uint64_t> share = share_of(options, epoch, at.rank, at.ranks);
        const auto next = [&, place = size_t(0)](wavetrain::sample &out) mutable {
            if (place == share.size())
                return false;
            const uint64_t number = share[place++];
            int64_t begin[WAVETRAIN_RANK_MAX];
            for (uint32_t axis = 0; axis < at.axes(); axis++) {
                const uint64_t draw = mix(options.seed + mix(number * WAVETRAIN_RANK_MAX + axis));
                begin[axis] = int64_t(draw % (at.array.shape[axis] - shape[axis] + 1));
            }
            out = sample_at(at, begin, shape, epoch * options.samples + number);
            return true;
        };
        stream(loader, next, use);
    }
    MPI_Reduce(sent, sums, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(seen.data(), all.data(), int(all.size()), MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (at.rank != 0)
        return 0;
    if (all != expected)
        fail("samples", "the shares of the ranks are not the list");
    std::printf("samples of %u ranks: %llu, in %llu batches, checksum %016llx\n", at.ranks,
                ull(std::accumulate(all.begin(), all.end(), uint64_t(0))), ull(sums[1]),
                ull(sums[0]));
    std::printf("go on with from_epoch=%llu from_step=%llu\n", ull(options.limit() / per_epoch),
                ull(options.limit() % per_epoch));
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const std::string mode = argc >= 3 ? argv[1] : "";
    if (mode != "tiles" && mode != "samples")
        fail("usage", "mpi_tiles tiles|samples STORE [name=value ..]");
    Options options;
    uint64_t verify = 0;
    const std::map<std::string, uint64_t *> names = {
        {"samples", &options.samples},       {"batch", &options.batch},
        {"edge", &options.edge},             {"seed", &options.seed},
        {"epochs", &options.epochs},         {"from_epoch", &options.from_epoch},
        {"from_step", &options.from_step},   {"steps", &options.steps},
        {"verify", &verify},
    };
    Place at{argv[2]};
    for (int i = 3; i < argc; i++) {
        const char *equals = std::strchr(argv[i], '=');
        const std::string name(argv[i], equals ? size_t(equals - argv[i]) : 0);
        const auto found = names.find(name);
        char *rest = nullptr;
        if (name == "driver") {
            at.driver = equals + 1;
            continue;
        }
        if (found != names.end())
            *found->second = std::strtoull(equals + 1, &rest, 10);
        if (found == names.end() || rest == equals + 1 || *rest != '\0')
            fail(argv[i], "is no option of this program");
        if (equals[1] == '-' || *found->second > INT32_MAX)
            fail(argv[i], "the number is out of range"); /* strtoull wraps and saturates */
    }
    int rank = 0, ranks = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    at.rank = uint32_t(rank);
    at.ranks = uint32_t(ranks);
    at.device = take_device(at.driver);
    wavetrain::error why;
    check("array_info", wavetrain::array_info(at.uri, at.array, room, &why), why);
    const int result = mode == "tiles" ? tiles(at, verify != 0) : samples(at, options);
    if (at.device >= 0)
        cu.cuDevicePrimaryCtxRelease_v2(at.device);
    MPI_Finalize();
    return result;
}
