/* parallel_load.cpp FOLDER: numbered .npy files as one array, of which each rank loads its share.
 *
 *     tools/archive.sh out
 *     c++ -std=c++17 -Iout examples/parallel_load.cpp out/libwavetrain.a -lpthread -ldl -o load
 *     mpirun -n 4 ./load FOLDER
 *
 * Files may have any number of rows: shares are cut by rows. A hole in the sequence, or a file of
 * another type or shape, is an error. The share is one batch, whose samples are the rank's tiles;
 * with WAVETRAIN_BACKEND_CUDA it lies on the rank's GPU.
 */
#include "launchers.hpp"
#include "wavetrain.hpp"
#include "wavetrain_tiles.h"

#include <cstdio>
#include <cstdlib>

int main(int argc, char **argv) {
    static wavetrain::scratch room;
    const char *const folder = argc > 1 ? argv[1] : ".";
    launchers::place place; /* what one launcher says; half of it is an error */
    if (!launchers::who(place))
        return 1;
    const std::uint32_t rank = place.rank, world = place.world;
    wavetrain::array_view array;
    wavetrain::array_info(folder, array, room).ignore(); /* fit tells what is wrong */
    const wavetrain_split split = { array.shape[0], world, 2, 0 }; /* two tiles for each rank */
    wavetrain::config config;
    config.shape({ array.shape, array.rank }).dtype = array.dtype;
    config.sample_shape[0] = wavetrain_tile_rows(&split);
    config.samples_per_batch = split.per_rank;
    /* So that a box may be less than a sample, the last tile; and one batch is all. */
    config.max_boxes_per_sample = config.n_batch_slots = 1;
    config.backend = WAVETRAIN_BACKEND_HOST;
    wavetrain::loader loader;
    wavetrain::error why;
    if (!config.fit(folder, room, &why) || !wavetrain::loader::open(config, loader, &why))
        return std::fprintf(stderr, "%s\n", why.text), 1;
    auto share = loader.stream([&, number = std::uint64_t(rank)](wavetrain::sample &s) mutable {
        s.uri = folder, s.uri_bytes = std::strlen(folder), s.rank = array.rank;
        s.tag = std::exchange(number, number + world); /* of the tile: this rank's next */
        return wavetrain_grid_box(s.rank, array.shape, config.sample_shape, s.tag, s.begin, s.end);
    });
    for (const wavetrain::batch &batch : share)
        for (std::uint32_t k = 0; k < batch.sample_count(); k++) {
            const wavetrain_rows rows = wavetrain_tile(&split, rank, k);
            const auto tile = batch.row<const unsigned char>(k);
            const auto bytes = tile.size() / config.sample_shape[0] * batch.filled_shape(k)[0];
            std::uint64_t hash = 0xcbf29ce484222325;
            for (std::size_t at = 0; at < bytes; at++)
                hash = (hash ^ tile[at]) * 0x100000001b3; /* FNV-1a */
            std::printf("rank %u: rows %lu to %lu, hash %lx\n", rank, rows.begin, rows.end, hash);
        }
    return share.status() ? 0 : (std::fprintf(stderr, "%s\n", share.error().text), 1);
}
