// mpi_tiles.cpp: one array, many ranks. Each rank streams its own part and no two the same.
//
//     tools/archive.sh out
//     mpicxx -std=c++17 -Iout examples/mpi_tiles.cpp out/libwavetrain.a -lpthread -ldl -o mpi_tiles
//     mpirun -n 4 ./mpi_tiles tiles STORE [verify=1]
//     mpirun -n 4 ./mpi_tiles samples STORE [samples=256] [batch=32] [edge=16] [seed=1] [epochs=2]
//                             [from_epoch=0] [from_step=0] [steps=0]
//
// tiles: the array is cut into a grid of boxes, one per rank, along the borders of its files where
// they suffice, else of its chunks, so that nothing is read twice. A rank streams its box as blocks
// of one chunk. Every voxel comes once; verify=1 compares with rank 0 reading all of it alone.
//
// samples: a list of random crops, told by the seed alone, is walked in an order that is told by
// seed and epoch. A step takes `batch` entries of it and every rank its share of those, whatever
// the number of ranks: a run may be stopped after a step and go on from there, with the same
// batches, on more ranks or on less. steps=0 goes on to the end.
//
// Both end with a checksum that does not depend on the order: a sum of hashes, modulo 2^64.
#include "wavetrain.h"

#define OMPI_SKIP_MPICXX 1 // the C interface is enough
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

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

using Extents = std::vector<uint64_t>;

/// A struct of wavetrain.h, empty, with its size filled in.
template <class Struct> Struct sized() {
    Struct made = {};
    made.struct_size = sizeof made;
    return made;
}

wavetrain_error error = sized<wavetrain_error>(); // why a call failed

[[noreturn]] void fail(const char *what, const char *why) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::fprintf(stderr, "rank %d: %s: %s\n", rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();
}

void check(const char *what, wavetrain_status status) {
    if (status != WAVETRAIN_OK)
        fail(what, error.text[0] ? error.text : wavetrain_status_str(status));
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

wavetrain_array_view array_at(const char *uri) {
    std::vector<unsigned char> scratch(WAVETRAIN_SCRATCH_BYTES);
    wavetrain_array_view array = sized<wavetrain_array_view>();
    check("array_info", wavetrain_array_info(uri, nullptr, scratch.data(), scratch.size(), &array,
                                             &error));
    return array;
}

/// A config for boxes of this shape in the array's own type, bit for bit. Ranks on one machine
/// share its processors, so each takes few threads.
wavetrain_config config_for(const char *uri, const wavetrain_array_view &array,
                            const Extents &shape, uint32_t samples_per_batch) {
    wavetrain_config config;
    wavetrain_config_default(&config, sizeof config);
    config.samples_per_batch = samples_per_batch;
    config.sample_rank = array.rank;
    std::copy(shape.begin(), shape.end(), config.sample_shape);
    config.dtype = array.dtype;
    config.dtype_bytes = array.dtype == WAVETRAIN_RAW ? array.dtype_bytes : 0;
    config.n_io_threads = 4;
    config.pad_mode = WAVETRAIN_PAD_CONSTANT; // the last block of an axis may reach over the edge
    config.backend = WAVETRAIN_BACKEND_HOST;  // the checksums are taken here
    std::vector<unsigned char> scratch(WAVETRAIN_SCRATCH_BYTES);
    check("config_fit", wavetrain_config_fit(&config, &uri, 1, scratch.data(), scratch.size(),
                                             &error));
    return config;
}

enum class Feed { sample, flush, end };

/// Streams what `next` gives, and calls `use` with every batch: keeps the lookahead full, pops when
/// it is. `next` fills a box and a tag, or says that the batch ends here, or, behind a last flush,
/// that all is done.
template <class Next, class Use>
void stream(const wavetrain_config &config, Next next, Use use) {
    wavetrain_loader loader;
    check("open", wavetrain_open(&config, &loader, &error));
    wavetrain_box box = {};
    uint64_t tag = 0;
    Feed feed = next(box, tag);
    for (;;) {
        while (feed != Feed::end) {
            wavetrain_status status = WAVETRAIN_OK;
            if (feed == Feed::flush) {
                status = wavetrain_flush(loader);
            } else {
                const wavetrain_sample sample = {&box, 1, sizeof box, tag};
                size_t taken = 0;
                status = wavetrain_push(loader, &sample, 1, sizeof sample, 0, &taken);
            }
            if (status == WAVETRAIN_AGAIN)
                break;
            if (status < 0)
                wavetrain_last_error(loader, &error);
            check("push", status);
            feed = next(box, tag);
        }
        wavetrain_batch batch;
        wavetrain_batch_view view = sized<wavetrain_batch_view>();
        const wavetrain_status status =
            wavetrain_pop(loader, WAVETRAIN_FOREVER, &batch, &error);
        if (status == WAVETRAIN_END)
            break;
        check("pop", status);
        check("batch_info", wavetrain_batch_info(loader, batch, 0, &view));
        use(view);
        check("release", wavetrain_release(loader, batch, nullptr));
    }
    check("close", wavetrain_close(loader, WAVETRAIN_FOREVER, nullptr));
}

wavetrain_box box_at(const char *uri, const Extents &begin, const Extents &shape) {
    wavetrain_box box = {};
    box.uri = uri;
    box.uri_bytes = std::strlen(uri);
    box.rank = uint32_t(shape.size());
    for (size_t axis = 0; axis < shape.size(); axis++) {
        box.begin[axis] = int64_t(begin[axis]);
        box.end[axis] = int64_t(begin[axis] + shape[axis]);
    }
    return box;
}

/// Steps `place` to the next of a grid, the last axis fastest. False behind the last one.
bool advance(Extents &place, const Extents &counts) {
    for (size_t axis = counts.size(); axis-- > 0;) {
        if (++place[axis] < counts[axis])
            return true;
        place[axis] = 0;
    }
    return false;
}

// ---- tiles --------------------------------------------------------------------------------------

struct Totals {
    uint64_t voxels = 0;
    uint64_t checksum = 0;
};

/// How many pieces each axis is cut into for `ranks` tiles: the prime factors of the number, the
/// largest first, each for the axis with the most units per piece. E.g. 6 ranks on 4 x 9 x 1 units:
/// 2 x 3 x 1.
Extents pieces_for(uint64_t ranks, const Extents &units) {
    Extents factors, pieces(units.size(), 1);
    for (uint64_t factor = 2; ranks > 1; factor++) {
        for (; ranks % factor == 0; ranks /= factor)
            factors.push_back(factor);
    }
    for (size_t i = factors.size(); i-- > 0;) {
        size_t best = 0;
        for (size_t axis = 1; axis < units.size(); axis++) {
            if (units[axis] * pieces[best] > units[best] * pieces[axis])
                best = axis;
        }
        pieces[best] *= factors[i];
    }
    return pieces;
}

/// Streams tile number `rank` of `ranks`. A tile may be empty, where there are more ranks than
/// chunks.
Totals stream_tile(const char *uri, const wavetrain_array_view &array, uint64_t rank,
                   uint64_t ranks) {
    const size_t axes = array.rank;
    const Extents shape(array.shape, array.shape + axes);
    const Extents block(array.chunk_shape, array.chunk_shape + axes);

    // Tiles end at files if there are as many of them as ranks, so that no file has two readers.
    Extents unit(array.file_shape, array.file_shape + axes), units(axes);
    const auto count_units = [&] {
        uint64_t count = 1;
        for (size_t axis = 0; axis < axes; axis++) {
            units[axis] = (shape[axis] + unit[axis] - 1) / unit[axis];
            count *= units[axis];
        }
        return count;
    };
    if (count_units() < ranks) {
        unit = block;
        count_units();
    }
    const Extents pieces = pieces_for(ranks, units);
    Extents begin(axes), end(axes), blocks(axes);
    bool is_empty = false;
    for (size_t axis = axes; axis-- > 0; rank /= pieces[axis]) {
        const uint64_t piece = rank % pieces[axis];
        begin[axis] = std::min(units[axis] * piece / pieces[axis] * unit[axis], shape[axis]);
        end[axis] = std::min(units[axis] * (piece + 1) / pieces[axis] * unit[axis], shape[axis]);
        blocks[axis] = (end[axis] - begin[axis] + block[axis] - 1) / block[axis];
        is_empty |= begin[axis] == end[axis];
    }
    Totals totals;
    if (is_empty)
        return totals;

    Extents place(axes, 0); // of the next block, in blocks from the tile's corner
    bool is_last = false, is_flushed = false;
    const auto next = [&](wavetrain_box &box, uint64_t &) {
        if (is_last) {
            const Feed feed = is_flushed ? Feed::end : Feed::flush;
            is_flushed = true;
            return feed;
        }
        Extents corner(axes);
        for (size_t axis = 0; axis < axes; axis++)
            corner[axis] = begin[axis] + place[axis] * block[axis];
        box = box_at(uri, corner, block);
        is_last = !advance(place, blocks);
        return Feed::sample;
    };
    Extents popped(axes, 0); // the block that comes next: batches come in push order
    const auto use = [&](const wavetrain_batch_view &view) {
        const auto *element = static_cast<const unsigned char *>(view.data);
        for (uint32_t sample = 0; sample < view.sample_count; sample++) {
            Extents inner(axes, 0);
            do {
                uint64_t index = 0; // in the array, row-major
                bool is_inside = true;
                for (size_t axis = 0; axis < axes; axis++) {
                    const uint64_t at = begin[axis] + popped[axis] * block[axis] + inner[axis];
                    is_inside &= at < end[axis];
                    index = index * shape[axis] + at;
                }
                if (is_inside) {
                    totals.voxels++;
                    totals.checksum += hash_element(index, element, view.dtype_bytes);
                }
                element += view.dtype_bytes;
            } while (advance(inner, block));
            advance(popped, blocks);
        }
    };
    stream(config_for(uri, array, block, 4), next, use);
    return totals;
}

int tiles(const char *uri, bool is_verified, int rank, int ranks) {
    const wavetrain_array_view array = array_at(uri);
    const Totals mine = stream_tile(uri, array, uint64_t(rank), uint64_t(ranks));
    uint64_t sent[2] = {mine.voxels, mine.checksum}, sums[2] = {0, 0};
    MPI_Reduce(sent, sums, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    std::vector<uint64_t> voxels(size_t(ranks), 0);
    MPI_Gather(sent, 1, MPI_UINT64_T, voxels.data(), 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (rank != 0)
        return 0;
    for (int other = 0; other < ranks; other++)
        std::printf("rank %d: %llu voxels\n", other, (unsigned long long)voxels[size_t(other)]);
    std::printf("tiles of %d ranks: %llu voxels, checksum %016llx\n", ranks,
                (unsigned long long)sums[0], (unsigned long long)sums[1]);
    if (is_verified) {
        const Totals alone = stream_tile(uri, array, 0, 1);
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
};

/// The order of an epoch: a permutation of the list that seed and epoch tell.
std::vector<uint64_t> order_of(const Options &options, uint64_t epoch) {
    std::vector<uint64_t> order(options.samples);
    std::iota(order.begin(), order.end(), uint64_t(0));
    uint64_t state = mix(options.seed) ^ mix(~epoch);
    for (uint64_t left = options.samples; left > 1; left--) {
        state = mix(state);
        std::swap(order[left - 1], order[state % left]);
    }
    return order;
}

/// Walks the share of one rank: entry by entry, a flush where an epoch ends with a batch that is
/// not full.
class Walk {
  public:
    Walk(const Options &options, uint64_t rank, uint64_t ranks)
        : options_(options), rank_(rank), ranks_(ranks), epoch_(options.from_epoch),
          step_(options.from_step) {
        steps_per_epoch_ = (options.samples + options.batch - 1) / options.batch;
        const uint64_t all = options.epochs * steps_per_epoch_;
        const uint64_t done = epoch_ * steps_per_epoch_ + step_;
        left_ = all > done ? all - done : 0;
        if (options.steps != 0)
            left_ = std::min(left_, options.steps);
    }

    /// The next entry: its epoch and its number in the list.
    Feed next(uint64_t &epoch, uint64_t &number) {
        while (at_ == end_) {
            if (left_ == 0 || needs_flush_) {
                const Feed feed = is_flushed_ && left_ == 0 ? Feed::end : Feed::flush;
                is_flushed_ = left_ == 0;
                needs_flush_ = false;
                return feed;
            }
            begin_step();
        }
        epoch = entry_epoch_;
        number = order_[at_++];
        return Feed::sample;
    }

    uint64_t epoch() const { return epoch_; }
    uint64_t step() const { return step_; }

  private:
    /// Entries [begin, begin + count) are this step's; of them this rank has [at, end).
    void begin_step() {
        if (order_.empty() || order_epoch_ != epoch_) {
            order_ = order_of(options_, epoch_);
            order_epoch_ = epoch_;
        }
        const uint64_t begin = step_ * options_.batch;
        const uint64_t count = std::min(options_.batch, options_.samples - begin);
        at_ = begin + count * rank_ / ranks_;
        end_ = begin + count * (rank_ + 1) / ranks_;
        entry_epoch_ = epoch_;
        left_--;
        if (++step_ == steps_per_epoch_) {
            step_ = 0;
            epoch_++;
            needs_flush_ = count != options_.batch && at_ != end_;
        }
    }

    const Options options_;
    const uint64_t rank_, ranks_;
    uint64_t epoch_, step_; // of the step that comes next
    uint64_t steps_per_epoch_ = 0, left_ = 0;
    uint64_t at_ = 0, end_ = 0, entry_epoch_ = 0, order_epoch_ = 0;
    bool needs_flush_ = false, is_flushed_ = false;
    std::vector<uint64_t> order_;
};

int samples(const char *uri, const Options &options, int rank, int ranks) {
    const wavetrain_array_view array = array_at(uri);
    if (options.batch == 0 || options.batch % uint64_t(ranks) != 0)
        fail("batch", "must be a multiple of the number of ranks");
    if (options.samples == 0 || options.edge == 0)
        fail("samples, edge", "must be more than 0");
    if (options.from_step * options.batch >= options.samples)
        fail("from_step", "an epoch has fewer steps");
    Extents shape(array.rank);
    for (size_t axis = 0; axis < shape.size(); axis++)
        shape[axis] = std::min(array.shape[axis], options.edge);

    // A tag is epoch * samples + number; `seen` counts what came, by number.
    std::vector<uint64_t> seen(options.samples, 0), all(options.samples, 0);
    uint64_t checksum = 0, batches = 0;
    Walk walk(options, uint64_t(rank), uint64_t(ranks));
    const auto next = [&](wavetrain_box &box, uint64_t &tag) {
        uint64_t epoch = 0, number = 0;
        const Feed feed = walk.next(epoch, number);
        if (feed == Feed::sample) {
            Extents begin(shape.size());
            for (size_t axis = 0; axis < shape.size(); axis++) {
                const uint64_t draw = mix(options.seed + mix(number * WAVETRAIN_RANK_MAX + axis));
                begin[axis] = draw % (array.shape[axis] - shape[axis] + 1);
            }
            box = box_at(uri, begin, shape);
            tag = epoch * options.samples + number;
        }
        return feed;
    };
    const auto use = [&](const wavetrain_batch_view &view) {
        batches++;
        const auto *element = static_cast<const unsigned char *>(view.data);
        const uint64_t elements = view.bytes / view.sample_count / view.dtype_bytes;
        for (uint32_t sample = 0; sample < view.sample_count; sample++) {
            seen[view.tags[sample] % options.samples]++;
            for (uint64_t i = 0; i < elements; i++, element += view.dtype_bytes)
                checksum += hash_element(mix(view.tags[sample]) + i, element, view.dtype_bytes);
        }
    };
    const uint32_t share = uint32_t(options.batch / uint64_t(ranks));
    stream(config_for(uri, array, shape, share), next, use);

    uint64_t sent[2] = {checksum, batches}, sums[2] = {0, 0};
    MPI_Reduce(sent, sums, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(seen.data(), all.data(), int(all.size()), MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank != 0)
        return 0;
    // What one rank alone would see: the union of the shares must be that.
    std::vector<uint64_t> expected(options.samples, 0);
    Walk alone(options, 0, 1);
    uint64_t epoch = 0, number = 0, count = 0;
    for (Feed feed; (feed = alone.next(epoch, number)) != Feed::end;) {
        if (feed == Feed::sample) {
            expected[number]++;
            count++;
        }
    }
    if (all != expected)
        fail("samples", "the shares of the ranks are not the list");
    std::printf("samples of %d ranks: %llu, in %llu batches, checksum %016llx\n", ranks,
                (unsigned long long)count, (unsigned long long)sums[1],
                (unsigned long long)sums[0]);
    std::printf("go on with from_epoch=%llu from_step=%llu\n", (unsigned long long)alone.epoch(),
                (unsigned long long)alone.step());
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, ranks = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const std::string mode = argc >= 3 ? argv[1] : "";
    Options options;
    uint64_t verify = 0;
    const std::map<std::string, uint64_t *> names = {
        {"samples", &options.samples},       {"batch", &options.batch},
        {"edge", &options.edge},             {"seed", &options.seed},
        {"epochs", &options.epochs},         {"from_epoch", &options.from_epoch},
        {"from_step", &options.from_step},   {"steps", &options.steps},
        {"verify", &verify},
    };
    if (mode != "tiles" && mode != "samples")
        fail("usage", "mpi_tiles tiles|samples STORE [name=number ..]");
    for (int i = 3; i < argc; i++) {
        const char *equals = std::strchr(argv[i], '=');
        const auto found = names.find(std::string(argv[i], equals ? size_t(equals - argv[i]) : 0));
        char *rest = nullptr;
        if (found != names.end())
            *found->second = std::strtoull(equals + 1, &rest, 10);
        if (found == names.end() || rest == equals + 1 || *rest != '\0')
            fail(argv[i], "is no option of this program");
        if (equals[1] == '-' || *found->second > INT64_MAX || options.batch > UINT32_MAX)
            fail(argv[i], "the number is out of range"); /* strtoull wraps and saturates */
    }
    const int result = mode == "tiles" ? tiles(argv[2], verify != 0, rank, ranks)
                                       : samples(argv[2], options, rank, ranks);
    MPI_Finalize();
    return result;
}
