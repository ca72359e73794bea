/* no_alloc.c STORES BATCHES [seccomp]: after open nothing allocates or maps, whatever the
 * data does.
 *
 * Streams random boxes of more arrays, shards and index pages than any cache holds, some of them
 * damaged, missing or out of range, with on_error = skip, and checks every element; beside each
 * batch it reads a box into memory of its own. Without
 * "seccomp" the malloc family is counted from open to close; with it the kernel kills the process
 * at the first mmap, munmap, mremap, brk or clone after open, and the program ends without close.
 */
#define _GNU_SOURCE
#include "check.h"
#include "count_alloc.h"
#include "forbid.h"

enum { SAMPLES = 4, BOX = 8, LOOKAHEAD = 16, KINDS = 4 };

/* What a sample asks for; its tag finds it again. */
struct asked {
    unsigned kind; /* an index of kind_names */
    unsigned seed;
    int64_t at[3];
};
enum { GOOD, DAMAGED, ABSENT, OUTSIDE };

static char uris[VOLUMES + 2][512];

/* A sample by its number: the same number asks for the same thing in every run. */
static struct asked asked_of(uint64_t number) {
    uint64_t state = number * 2654435761u + 12345;
    struct asked asked;
    random_below(&state, 7);
    const uint32_t dice = random_below(&state, 100);
    asked.kind = dice < 10 ? DAMAGED : dice < 12 ? ABSENT : dice < 14 ? OUTSIDE : GOOD;
    asked.seed = random_below(&state, VOLUMES);
    for (int axis = 0; axis < 3; axis++)
        asked.at[axis] = random_below(&state, EDGE - BOX + 1);
    if (asked.kind == OUTSIDE)
        asked.at[2] = EDGE - BOX + 1 + random_below(&state, 1000);
    return asked;
}

static const char *uri_of(const struct asked *asked) {
    switch (asked->kind) {
    case DAMAGED: return uris[VOLUMES];
    case ABSENT: return uris[VOLUMES + 1];
    default: return uris[asked->seed];
    }
}

static void check_row(const wavetrain_batch_view *view, uint32_t row, uint64_t *seen) {
    const struct asked asked = asked_of(view->tags[row]);
    const wavetrain_status status = view->statuses[row];
    const unsigned seed = asked.kind == DAMAGED ? VOLUMES : asked.seed;
    seen[asked.kind] += 1;
    if (asked.kind == DAMAGED && status != WAVETRAIN_OK)
        CHECK(status == WAVETRAIN_DECODE || status == WAVETRAIN_IO);
    else
        CHECK(status == (asked.kind == ABSENT    ? WAVETRAIN_NOT_FOUND
                         : asked.kind == OUTSIDE ? WAVETRAIN_INVALID
                                                 : WAVETRAIN_OK));
    if (status == WAVETRAIN_OK) {
        CHECK(row_is_cube(view, row, seed, asked.at[0], asked.at[1], asked.at[2], BOX));
        return;
    }
    const float *at = (const float *)view->data + (size_t)row * BOX * BOX * BOX;
    for (int i = 0; i < BOX * BOX * BOX; i++)
        CHECK(at[i] == -7.5f);
}

/* Pushes as many of the samples from *next on as are taken now. */
static void push_some(wavetrain_loader loader, uint64_t *next, uint64_t limit) {
    wavetrain_box boxes[LOOKAHEAD];
    wavetrain_sample samples[LOOKAHEAD];
    size_t count = 0, taken = 0;
    for (; count < LOOKAHEAD && *next + count < limit; count++) {
        const struct asked asked = asked_of(*next + count);
        boxes[count] = cube_box(uri_of(&asked), asked.at[0], asked.at[1], asked.at[2], BOX);
        samples[count] = sample_of(&boxes[count], *next + count);
    }
    const wavetrain_status status =
        wavetrain_push(loader, samples, count, sizeof samples[0], 0, &taken);
    CHECK(status == (taken == count ? WAVETRAIN_OK : WAVETRAIN_AGAIN));
    *next += taken;
}

/* Reads what a sample would have into memory of the program, between guards. */
static void read_one(wavetrain_loader loader, uint64_t number) {
    enum { COUNT = BOX * BOX * BOX, GUARD = 64 };
    static float block[GUARD + COUNT + GUARD];
    const struct asked asked = asked_of(number);
    const wavetrain_box box = cube_box(uri_of(&asked), asked.at[0], asked.at[1], asked.at[2], BOX);
    for (int i = 0; i < GUARD + COUNT + GUARD; i++)
        block[i] = -1.25f;
    const wavetrain_status status = wavetrain_read_into(
        loader, &box, sizeof box, block + GUARD, COUNT * sizeof block[0], NULL, LONG_NS, NULL);
    for (int i = 0; i < GUARD; i++)
        CHECK(block[i] == -1.25f && block[GUARD + COUNT + i] == -1.25f);
    if (asked.kind == DAMAGED && status != WAVETRAIN_OK) {
        CHECK(status == WAVETRAIN_DECODE || status == WAVETRAIN_IO);
        return;
    }
    CHECK(status == (asked.kind == ABSENT    ? WAVETRAIN_NOT_FOUND
                     : asked.kind == OUTSIDE ? WAVETRAIN_INVALID
                                             : WAVETRAIN_OK));
    const wavetrain_batch_view view = { .data = block + GUARD };
    const unsigned seed = asked.kind == DAMAGED ? VOLUMES : asked.seed;
    CHECK(status != WAVETRAIN_OK ||
          row_is_cube(&view, 0, seed, asked.at[0], asked.at[1], asked.at[2], BOX));
}

/* Every third batch goes to memory of the program. A batch that was begun before has a slot. */
static void lend_one(wavetrain_loader loader, uint64_t number) {
    static float block[SAMPLES * BOX * BOX * BOX];
    const wavetrain_target target = { block, sizeof block };
    wavetrain_stats_view stats;
    stats.struct_size = sizeof stats;
    CHECK_STATUS(wavetrain_stats(loader, &stats), WAVETRAIN_OK);
    if (number % 3 == 0 && stats.memories_lent == 0)
        CHECK_STATUS(wavetrain_lend(loader, &target, 1, sizeof target, NULL, number),
                     WAVETRAIN_OK);
    else if (stats.memories_lent == 1)
        CHECK_STATUS(wavetrain_lend(loader, &target, 1, sizeof target, NULL, number),
                     WAVETRAIN_INVALID);
}

int main(int argc, char **argv) {
    static char output[4096];
    CHECK(argc >= 3);
    const uint64_t batches = strtoull(argv[2], NULL, 10);
    const int filtered = argc > 3;
    setvbuf(stdout, output, _IOFBF, sizeof output);
    for (int volume = 0; volume < VOLUMES; volume++)
        snprintf(uris[volume], sizeof uris[volume], "%s/volume%d", argv[1], volume);
    snprintf(uris[VOLUMES], sizeof uris[0], "%s/damaged", argv[1]);
    snprintf(uris[VOLUMES + 1], sizeof uris[0], "%s/absent", argv[1]);

    wavetrain_config config = cube_config(BOX);
    config.samples_per_batch = SAMPLES;
    config.lookahead_samples = LOOKAHEAD;
    config.on_error = WAVETRAIN_ON_ERROR_SKIP;
    config.pad_value = -7.5;
    config.n_array_meta_cache = 2;
    config.n_shard_index_cache = 8;
    config.n_chunk_layout_cache = 8;
    config.max_chunk_uncompressed_bytes = 1 << 16;
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_loader loader;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);

    if (filtered)
        forbid_memory();
    const uint64_t calls_before = atomic_load(&alloc_calls);
    uint64_t next = 0, seen[KINDS] = { 0 }, failed = 0, lent = 0;
    wavetrain_batch held = 0;
    for (uint64_t number = 0; number < batches; number++) {
        push_some(loader, &next, batches * SAMPLES);
        lend_one(loader, number);
        read_one(loader, number * 7);
        wavetrain_batch batch;
        CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
        const wavetrain_batch_view view = view_of(loader, batch);
        CHECK(view.batch_id == number && view.sample_count == SAMPLES);
        CHECK(view.digests == NULL && view.digest == 0);
        for (uint32_t row = 0; row < SAMPLES; row++) {
            CHECK(view.tags[row] == number * SAMPLES + row);
            check_row(&view, row, seen);
        }
        failed += view.failed_samples;
        lent += view.is_lent;
        /* One batch stays held while the next is popped. */
        if (held != 0)
            CHECK_STATUS(wavetrain_release(loader, held, NULL), WAVETRAIN_OK);
        held = batch;
    }
    CHECK_STATUS(wavetrain_release(loader, held, NULL), WAVETRAIN_OK);
    const uint64_t calls_after = atomic_load(&alloc_calls);

    wavetrain_stats_view stats;
    stats.struct_size = sizeof stats;
    CHECK_STATUS(wavetrain_stats(loader, &stats), WAVETRAIN_OK);
    CHECK(stats.batches_emitted == batches && stats.samples_failed == failed);
    /* The test tests something: every kind was there, and every cache was too small. */
    for (int kind = 0; kind < KINDS; kind++)
        CHECK(seen[kind] > 0);
    CHECK(failed > seen[ABSENT] + seen[OUTSIDE] && stats.chunks_missing > 0);
    CHECK(stats.array_meta_misses > VOLUMES + 2 && stats.shard_index_misses > 300);
    CHECK(stats.files_opened > 300);
    CHECK(lent > batches / 10 && lent < batches);
    CHECK(calls_after == calls_before);
    printf("%llu batches, %llu failed samples, %llu files opened, 0 allocations\n",
           (unsigned long long)batches, (unsigned long long)failed,
           (unsigned long long)stats.files_opened);
    fflush(stdout);
    if (filtered)
        _exit(0);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
    return 0;
}
