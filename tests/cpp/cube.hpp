/* cube.hpp: what the C++ test programs share: configs and samples over the cube of tests/c/check.h.
 *
 * Sample number n of a stream is the cube of BOX^3 at place(n), and its tag is n, so that a batch
 * can be checked by its tags alone.
 */
#ifndef CUBE_HPP
#define CUBE_HPP

#include "check.h"
#include "wavetrain.hpp"

enum { BOX = 10, SAMPLES = 3 };

/* Where sample number n lies. */
struct place {
    std::int64_t z, y, x;

    explicit place(std::uint64_t number) {
        std::uint64_t state = number + 77;
        z = random_below(&state, EDGE - BOX + 1);
        y = random_below(&state, EDGE - BOX + 1);
        x = random_below(&state, EDGE - BOX + 1);
    }
};

inline wavetrain::sample cube_sample(const char *uri, std::uint64_t number) {
    const place at(number);
    return { uri, { at.z, at.y, at.x }, { at.z + BOX, at.y + BOX, at.x + BOX }, number };
}

inline void set_cube(wavetrain_config &config) {
    config.samples_per_batch = SAMPLES;
    config.n_io_threads = 2;
    config.n_decode_threads = 2;
    config.backend = WAVETRAIN_BACKEND_HOST;
    config.max_chunk_uncompressed_bytes = 1 << 16;
    config.max_host_memory_bytes = 48 << 20;
    config.pop_timeout_ns = LONG_NS;
}

inline wavetrain::config cube_settings() {
    wavetrain::config config;
    config.shape({ BOX, BOX, BOX });
    set_cube(config);
    return config;
}

inline wavetrain::loader open_cube(const wavetrain::config &config) {
    wavetrain::loader loader;
    wavetrain::error why;
    CHECK_OK(wavetrain::loader::open(config, loader, &why).value(), why);
    return loader;
}

/* Whether every row of the batch is the cube that its tag names. */
inline bool batch_is_right(const wavetrain::batch &batch) {
    if (batch.as<float>().size() != batch.sample_count() * std::size_t(BOX * BOX * BOX))
        return false;
    for (std::uint32_t row = 0; row < batch.sample_count(); row++) {
        const place at(batch.tags()[row]);
        if (!row_is_cube(&batch.view(), row, 0, at.z, at.y, at.x, BOX))
            return false;
    }
    return true;
}

inline std::uint32_t held_by(const wavetrain::loader &loader) {
    wavetrain::stats_view stats;
    CHECK(loader.stats(stats).ok());
    return stats.batches_held;
}

#endif
