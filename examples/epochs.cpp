/* epochs.cpp ARRAY STATE [BATCHES]: three epochs of boxes in a chunk-aware shuffle, with a
 * checkpoint.
 *
 *     tools/archive.sh out
 *     c++ -std=c++17 -Iout examples/epochs.cpp out/libwavetrain.a -lpthread -ldl -o epochs
 *
 * Boxes are numbered chunk by chunk, and a chunk is decoded while all that need it are near. STATE
 * is a file; where it exists, the run goes on behind the batch that it was written after. With
 * BATCHES it ends after as many, as if it had been killed.
 */
#include "wavetrain.hpp"
#include "wavetrain_epoch.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

const std::uint64_t edge = 32;

int fail(const char *why) { return std::fprintf(stderr, "%s\n", why), 1; }

int main(int argc, char **argv) {
    if (argc < 3)
        return fail("usage: epochs ARRAY STATE [BATCHES]");
    static wavetrain::scratch room;
    wavetrain::array_view array;
    wavetrain::error why;
    if (!wavetrain::array_info(argv[1], array, room, &why))
        return fail(why.text);
    wavetrain_boxes boxes = {};
    boxes.rank = array.rank;
    boxes.flags = WAVETRAIN_BOXES_JITTER;
    std::copy_n(array.shape, array.rank, boxes.shape);
    std::copy_n(array.chunk_shape, array.rank, boxes.chunk);
    std::fill_n(boxes.box, array.rank, edge);

    wavetrain::config config;
    config.shape({ boxes.box, boxes.rank });
    config.samples_per_batch = 8, config.drop_last = 0;
    config.chunk_cache_bytes = 256 << 20; /* holds what a shuffle window needs */
    wavetrain::loader loader;
    if (!wavetrain::loader::open(config, loader, &why))
        return fail(why.text);

    const wavetrain_chunk_shuffle shuffle = { 8, 16 }; /* 8 boxes of a chunk, among 16 x 8 */
    wavetrain_epoch epoch;
    const std::uint64_t count = wavetrain_boxes_count(&boxes, 1, nullptr);
    if (count == 0 || !wavetrain_epoch_begin(&epoch, &shuffle, count, 42, 0))
        return fail("no epoch of such boxes");
    epoch.batch = config.samples_per_batch;
    wavetrain_epoch_state state;
    if (std::FILE *file = std::fopen(argv[2], "rb")) {
        const bool is_read = std::fread(&state, sizeof state, 1, file) == 1;
        std::fclose(file);
        if (!is_read || !wavetrain_epoch_resume(&epoch, &shuffle, &state))
            return fail("the checkpoint is of another run");
    }

    long left = argc > 3 ? std::atol(argv[3]) : -1;
    const auto box = [&](std::uint64_t index, wavetrain_place place, wavetrain::sample &out) {
        std::int64_t begin[WAVETRAIN_RANK_MAX], end[WAVETRAIN_RANK_MAX];
        wavetrain_boxes_at(&boxes, index, epoch.state.seed, place.epoch, begin);
        for (std::uint32_t axis = 0; axis < boxes.rank; axis++)
            end[axis] = begin[axis] + std::int64_t(edge);
        out = wavetrain::box(argv[1], std::strlen(argv[1]), { begin, boxes.rank },
                             { end, boxes.rank });
        out.tag = index;
    };
    auto run = wavetrain::make_epochs(epoch, &shuffle, box);
    for (; run.number() < 3; run.turn()) {
        auto stream = loader.stream(run.samples());
        for (wavetrain::batch &batch : stream) {
            if (left-- == 0)
                return 0;
            const auto voxels = batch.as<const float>();
            const double sum = std::accumulate(voxels.begin(), voxels.end(), 0.0);
            std::printf("epoch %lu: %.0f of", run.number(), sum);
            for (std::uint64_t tag : batch.tags())
                std::printf(" %lu", tag);
            std::puts("");
            run.popped(batch.sample_count());
            std::FILE *file = std::fopen(argv[2], "wb");
            if (!file || std::fwrite(&run.state(), sizeof state, 1, file) != 1 || std::fclose(file))
                return fail("the checkpoint can't be written");
        }
        if (!stream.status())
            return fail(stream.error().text);
    }
    return 0;
}
