/* check.h: what the C test programs share: checks that name their line, and the test arrays' rules.
 *
 * A failed check prints where and what, and ends the program with 1. Exit code 77 means skipped:
 * this machine cannot run the test. Nothing here allocates.
 */
#ifndef CHECK_H
#define CHECK_H

#include "wavetrain.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_SKIPPED = 77 };

#define SECOND_NS 1000000000ull
/* Longer than any test takes: a pop that runs into it is a hang. */
#define LONG_NS (60 * SECOND_NS)

#define CHECK(fact)                                                                                \
    do {                                                                                           \
        if (!(fact)) {                                                                             \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #fact);                   \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define CHECK_STATUS(call, expected)                                                               \
    do {                                                                                           \
        const wavetrain_status got_ = (call);                                                      \
        if (got_ != (expected)) {                                                                  \
            fprintf(stderr, "%s:%d: %s is %s (%d), not %s\n", __FILE__, __LINE__, #call,           \
                    wavetrain_status_str(got_), (int)got_, #expected);                             \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* For a call with `error`: shows its text where the call fails. */
#define CHECK_OK(call, error)                                                                      \
    do {                                                                                           \
        const wavetrain_status got_ = (call);                                                      \
        if (got_ != WAVETRAIN_OK) {                                                                \
            fprintf(stderr, "%s:%d: %s is %s: %s\n", __FILE__, __LINE__, #call,                    \
                    wavetrain_status_str(got_), (error).text);                                     \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* The arrays that tests/common/store.rs writes: cubes of uint16. */
enum { EDGE = 64, SHARD = 16, CHUNK = 8, FILL = 42, VOLUMES = 6 };

static inline uint16_t value_at(unsigned seed, int64_t z, int64_t y, int64_t x) {
    return (uint16_t)(seed * 101u + (unsigned)z * 2309u + (unsigned)y * 151u + (unsigned)x * 7u);
}

/* What an element of a sparse array reads as. */
static inline uint16_t sparse_at(unsigned seed, int64_t z, int64_t y, int64_t x) {
    const int64_t shards = z / SHARD + y / SHARD + x / SHARD;
    const int64_t chunks = z / CHUNK * 4 + y / CHUNK * 2 + x / CHUNK;
    return shards % 7 == 3 || chunks % 11 == 5 ? (uint16_t)FILL : value_at(seed, z, y, x);
}

/* A pseudo-random number below `limit`; the same on every run. */
static inline uint32_t random_below(uint64_t *state, uint32_t limit) {
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((*state >> 33) % limit);
}

static inline wavetrain_config cube_config(uint64_t edge) {
    wavetrain_config config;
    CHECK(wavetrain_config_default(&config, sizeof config) == WAVETRAIN_OK);
    config.sample_rank = 3;
    for (int axis = 0; axis < 3; axis++)
        config.sample_shape[axis] = edge;
    config.n_io_threads = 2;
    config.n_decode_threads = 2;
    config.backend = WAVETRAIN_BACKEND_HOST;
    return config;
}

static inline wavetrain_box cube_box(const char *uri, int64_t z, int64_t y, int64_t x,
                                     int64_t edge) {
    wavetrain_box box;
    memset(&box, 0, sizeof box);
    box.uri = uri;
    box.uri_bytes = strlen(uri);
    box.rank = 3;
    box.begin[0] = z, box.begin[1] = y, box.begin[2] = x;
    for (int axis = 0; axis < 3; axis++)
        box.end[axis] = box.begin[axis] + edge;
    return box;
}

static inline wavetrain_sample sample_of(const wavetrain_box *box, uint64_t tag) {
    /* By place: programs of the first header, which names the count otherwise, include this. */
    const wavetrain_sample sample = { box, 1, sizeof *box, tag };
    return sample;
}

/* Pushes one cube; the lookahead must have room for it. */
static inline void push_cube(wavetrain_loader loader, const char *uri, int64_t z, int64_t y,
                             int64_t x, int64_t edge, uint64_t tag) {
    const wavetrain_box box = cube_box(uri, z, y, x, edge);
    const wavetrain_sample sample = sample_of(&box, tag);
    size_t taken = 99;
    CHECK_STATUS(wavetrain_push(loader, &sample, 1, sizeof sample, LONG_NS, &taken), WAVETRAIN_OK);
    CHECK(taken == 1);
}

static inline wavetrain_batch_view view_of(wavetrain_loader loader, wavetrain_batch batch) {
    wavetrain_batch_view view;
    view.struct_size = sizeof view;
    CHECK_STATUS(wavetrain_batch_info(loader, batch, 0, &view), WAVETRAIN_OK);
    return view;
}

/* Whether row `row` of an f32 batch is the cube of a sparse array. */
static inline int row_is_cube(const wavetrain_batch_view *view, uint32_t row, unsigned seed,
                              int64_t z, int64_t y, int64_t x, int64_t edge) {
    const float *at = (const float *)view->data + (int64_t)row * edge * edge * edge;
    for (int64_t i = 0; i < edge; i++)
        for (int64_t j = 0; j < edge; j++)
            for (int64_t k = 0; k < edge; k++)
                if (*at++ != (float)sparse_at(seed, z + i, y + j, x + k))
                    return 0;
    return 1;
}

#endif
