/* given.hpp: what the programs about wavetrain_source.hpp share: images and labels by number.
 *
 * Image number n has a shape of its own and elements that tell n, label n is n, so that a batch can
 * be checked by the numbers that it should hold. A batch has SIZE samples, an epoch COUNT.
 */
#ifndef GIVEN_HPP
#define GIVEN_HPP

#include "check.h"
#include "wavetrain_source.hpp"

#include <pthread.h>
#include <sched.h>

#include <cstdio>

enum { SIZE = 4, COUNT = 10, EPOCH = 3, HEIGHT = 8, WIDTH = 9, IMAGES = 64, PAD = -1 };

using wavetrain::batch;
using wavetrain::batch_info;
using wavetrain::config;
using wavetrain::cycle;
using wavetrain::error;
using wavetrain::fed;
using wavetrain::given_batch;
using wavetrain::given_sample;
using wavetrain::sample_info;
using wavetrain::source;
using wavetrain::source_core;
using wavetrain::source_place;
using wavetrain::source_settings;
using wavetrain::span;
using wavetrain::status;

struct image {
    std::uint64_t height, width;
    std::int32_t elements[HEIGHT * WIDTH];
};
inline image images[IMAGES];
inline std::int64_t labels[IMAGES];

inline void make_images() {
    for (std::int32_t number = 0; number < IMAGES; number++) {
        image &made = images[number];
        made.height = 3 + static_cast<std::uint64_t>(number) % 5;
        made.width = 4 + static_cast<std::uint64_t>(number) % 4;
        for (std::int32_t at = 0; at < HEIGHT * WIDTH; at++)
            made.elements[at] = 1000 * number + at;
        labels[number] = number;
    }
}

/* Two fields, and the loader's work on the thread that pops. */
inline config table() {
    static const wavetrain::field fields[] = {
        wavetrain::field("image", WAVETRAIN_I32, { HEIGHT, WIDTH })
            .padding(WAVETRAIN_PAD_CONSTANT, PAD),
        wavetrain::field("label", WAVETRAIN_I64),
    };
    config made;
    made.use_fields(fields).samples_per_batch = SIZE;
    made.thread_mode = WAVETRAIN_THREADS_PUMP;
    made.max_host_memory_bytes = 14 << 20;
    made.max_chunk_uncompressed_bytes = 1 << 16;
    made.n_io_threads = made.n_decode_threads = 2;
    made.pop_timeout_ns = LONG_NS;
    return made;
}

/* Memory of one source at a time. */
inline unsigned char room[4 << 20];

inline void open(source_core &made, const source_settings &settings = {},
                 const config &of = table()) {
    error why;
    CHECK(made.need(of, settings) <= sizeof room);
    CHECK_OK(made.open(of, settings, { room, made.need(of, settings) }, &why).value(), why);
}

/* Samples of a batch of an epoch. */
inline std::uint64_t count_of(std::uint64_t iteration) {
    const std::uint64_t left = COUNT - iteration * SIZE;
    return left < SIZE ? left : static_cast<std::uint64_t>(SIZE);
}

inline void give_sample(given_sample &out, std::uint64_t number) {
    const image &given = images[number];
    out.array("image", given.elements, { given.height, given.width }).value("label", number);
}

/* Samples by number, batches by number, and what comes next, which may begin again. */
inline bool by_sample(const sample_info &info, given_sample &out) {
    CHECK(info.idx_in_epoch == info.iteration * SIZE + info.idx_in_batch);
    if (info.idx_in_epoch >= COUNT)
        return false;
    give_sample(out, info.idx_in_epoch);
    return true;
}

inline status by_batch(const batch_info &info, given_batch &out) {
    const std::uint64_t first = info.iteration * SIZE;
    if (first >= COUNT)
        return WAVETRAIN_END;
    const std::uint64_t count = count_of(info.iteration);
    for (std::uint32_t row = 0; row < count; row++) {
        const image &given = images[first + row];
        out.sample(row).array(0, given.elements, { given.height, given.width });
    }
    out.column("label", labels + first, { count });
    return WAVETRAIN_OK;
}

struct next_samples {
    std::uint64_t at = COUNT;
    void rewind() { at = 0; }
    bool operator()(given_sample &out) {
        CHECK(at <= COUNT); /* not behind the end */
        if (at++ == COUNT)
            return false;
        give_sample(out, at - 1);
        return true;
    }
};

struct next_batches {
    std::uint64_t at = EPOCH;
    void rewind() { at = 0; }
    bool operator()(given_batch &out) {
        CHECK(at <= EPOCH);
        return by_batch({ at++, 0 }, out).ok();
    }
};

/* A batch that is made of these images and labels, and their tags. */
inline void check_batch(const batch &found, std::uint64_t first, std::uint64_t count,
                        std::uint64_t first_tag) {
    const span<const std::int64_t> names = found.field("label").as<const std::int64_t>();
    CHECK(names.size() == count);
    for (std::uint32_t row = 0; row < count; row++) {
        const std::uint64_t number = first + row;
        const image &given = images[number];
        const span<const std::uint64_t> reach = found.filled_shape(row);
        CHECK(names[row] == static_cast<std::int64_t>(number));
        CHECK(found.tags()[row] == first_tag + row);
        CHECK(reach[0] == given.height && reach[1] == given.width);
        const std::int32_t *at = found.row<const std::int32_t>(row).data();
        for (std::uint64_t y = 0; y < HEIGHT; y++)
            for (std::uint64_t x = 0; x < WIDTH; x++, at++) {
                const bool is_there = y < given.height && x < given.width;
                CHECK(*at == (is_there ? given.elements[y * given.width + x] : PAD));
            }
    }
}

inline void check_batch(const batch &found, std::uint64_t first, std::uint64_t count) {
    check_batch(found, first, count, first);
}

/* The next batch is number `iteration` of an epoch. */
inline void check_next(source_core &from, std::uint64_t iteration) {
    batch found;
    error why;
    CHECK_OK(from.next(found, WAVETRAIN_POP_TIMEOUT, &why).value(), why);
    check_batch(found, iteration * SIZE, count_of(iteration));
}

inline void check_end(source_core &from) {
    batch found;
    CHECK(from.next(found) == WAVETRAIN_END && !found && from.status().ok());
}

inline void check_epoch(source_core &from) {
    for (std::uint64_t iteration = 0; iteration < EPOCH; iteration++)
        check_next(from, iteration);
    check_end(from);
}

/* What next fails with, and a part of its text. */
inline void check_fails(source_core &from, wavetrain_status with, const char *text) {
    batch found;
    error why;
    const status got = from.next(found, WAVETRAIN_POP_TIMEOUT, &why);
    if (got != with || why.status != with || strstr(why.text, text) == nullptr) {
        fprintf(stderr, "%s, not %s: %s\n", got.name(), wavetrain_status_str(with), why.text);
        fprintf(stderr, "looked for: %s\n", text);
        _exit(1);
    }
    CHECK(from.status() == with && strstr(from.error().text, text) != nullptr && !found);
}

/* Threads of the program that make calls until the source is closed. */
class workers {
public:
    workers(source_core &from, std::uint32_t count) : count_(count) {
        CHECK(count <= 8);
        for (std::uint32_t number = 0; number < count; number++)
            CHECK(pthread_create(&threads_[number], nullptr, &work, &from) == 0);
    }
    ~workers() {
        for (std::uint32_t number = 0; number < count_; number++)
            pthread_join(threads_[number], nullptr);
    }

private:
    static void *work(void *from) {
        while (static_cast<source_core *>(from)->work(WAVETRAIN_FOREVER).ok()) {
        }
        return nullptr;
    }
    pthread_t threads_[8];
    std::uint32_t count_;
};

#endif
