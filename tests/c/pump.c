/* pump.c ARRAY: with the caller's block and no threads, the whole life takes no malloc at all.
 *
 * Opens on a static block, streams boxes by pump and by pops that wait, resets, closes, and does it
 * again on the same block. Between open and close the process has one thread.
 */
#define _GNU_SOURCE
#include "check.h"
#include "count_alloc.h"

#include <fcntl.h>
#include <sys/syscall.h>

enum { BOX = 10, SAMPLES = 3, BATCHES = 40, BLOCK_BYTES = 96 << 20 };

static _Alignas(4096) unsigned char block[BLOCK_BYTES];

/* Threads of this process, counted without stdio or opendir, which allocate. */
static int thread_count(void) {
    struct entry {
        uint64_t inode;
        int64_t offset;
        uint16_t bytes;
        uint8_t type;
        char name[];
    };
    static _Alignas(8) char entries[4096];
    const int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
    int count = 0;
    long got;
    CHECK(folder >= 0);
    while ((got = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
        for (long at = 0; at < got; at += ((struct entry *)(void *)(entries + at))->bytes)
            count += ((struct entry *)(void *)(entries + at))->name[0] != '.';
    }
    close(folder);
    return count;
}

static void at_of(uint64_t number, int64_t *at) {
    uint64_t state = number + 77;
    for (int axis = 0; axis < 3; axis++)
        at[axis] = random_below(&state, EDGE - BOX + 1);
}

/* Streams BATCHES batches; even ones wait in pop, odd ones are pumped until pop has them. */
static void stream(wavetrain_loader loader, const char *uri) {
    uint64_t pushed = 0;
    for (uint64_t number = 0; number < BATCHES; number++) {
        for (int i = 0; i < SAMPLES; i++, pushed++) {
            int64_t at[3];
            at_of(pushed, at);
            push_cube(loader, uri, at[0], at[1], at[2], BOX, pushed);
        }
        wavetrain_batch batch = 0;
        const uint64_t timeout_ns = number % 2 == 0 ? LONG_NS : 0;
        wavetrain_status status = wavetrain_pop(loader, timeout_ns, &batch, NULL);
        /* Ends: a pump that has nothing to do has made the batch. */
        while (status == WAVETRAIN_AGAIN) {
            const wavetrain_status pumped = wavetrain_pump(loader, number % 4 == 1 ? 0 : 1000000);
            CHECK(pumped == WAVETRAIN_OK || pumped == WAVETRAIN_AGAIN);
            status = wavetrain_pop(loader, 0, &batch, NULL);
            CHECK(pumped == WAVETRAIN_OK || status == WAVETRAIN_OK);
        }
        CHECK(status == WAVETRAIN_OK);
        const wavetrain_batch_view view = view_of(loader, batch);
        CHECK((unsigned char *)view.data >= block);
        CHECK((unsigned char *)view.data + view.bytes <= block + BLOCK_BYTES);
        for (uint32_t row = 0; row < SAMPLES; row++) {
            int64_t at[3];
            at_of(view.tags[row], at);
            CHECK(row_is_cube(&view, row, 0, at[0], at[1], at[2], BOX));
        }
        CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const uint64_t calls_before = atomic_load(&alloc_calls);
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_config config = cube_config(BOX);
    config.samples_per_batch = SAMPLES;
    config.thread_mode = WAVETRAIN_THREADS_PUMP;
    config.max_chunk_uncompressed_bytes = 1 << 16;
    config.max_host_memory_bytes = BLOCK_BYTES;
    config.memory.host_block = block;
    config.memory.host_block_bytes = sizeof block;
    wavetrain_memory need = { .struct_size = sizeof need };
    CHECK_OK(wavetrain_memory_need(&config, &need, &error), error);
    CHECK(need.threads == 0 && need.host_bytes <= BLOCK_BYTES && need.host_align <= 4096);
    CHECK(need.pinned_bytes == 0 && need.device_bytes == 0);
    uint64_t lines = 0;
    for (uint32_t line = 0; line < need.line_count; line++)
        lines += need.lines[line].bytes;
    CHECK(lines == need.host_bytes);

    for (int life = 0; life < 2; life++) {
        wavetrain_loader loader;
        CHECK_OK(wavetrain_open(&config, &loader, &error), error);
        CHECK(thread_count() == 1);
        stream(loader, argv[1]);
        push_cube(loader, argv[1], 0, 0, 0, BOX, 0);
        CHECK_STATUS(wavetrain_reset(loader), WAVETRAIN_OK);
        stream(loader, argv[1]);
        CHECK(thread_count() == 1);
        CHECK_STATUS(wavetrain_close(loader, 0, NULL), WAVETRAIN_OK);
    }
    CHECK(atomic_load(&alloc_calls) == calls_before);
    return 0;
}
