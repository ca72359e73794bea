/* fork.c ARRAY: in a forked child every call on the parent's loader is SHUTDOWN; the parent goes
 * on.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/wait.h>

enum { BOX = 8 };

/* The host's job system keeps jobs and runs none: pops do their work. */
static void (*last_job)(void *argument);
static void *last_argument;
static int handed_in;

static void run_hook(void *user, void (*job)(void *argument), void *argument) {
    (void)user;
    last_job = job;
    last_argument = argument;
    handed_in += 1;
}

/* The child has the parent's memory but none of its threads: nothing there may be locked or woken.
 * */
static void check_child(wavetrain_loader loader, wavetrain_batch batch, const char *uri) {
    const wavetrain_box box = cube_box(uri, 0, 0, 0, BOX);
    const wavetrain_sample sample = sample_of(&box, 1);
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_batch_view view = { .struct_size = sizeof view };
    wavetrain_stats_view stats = { .struct_size = sizeof stats };
    wavetrain_batch popped = 55;
    uint32_t held = 66;
    size_t taken = 77;
    CHECK_STATUS(wavetrain_push(loader, &sample, 1, sizeof sample, LONG_NS, &taken),
                 WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_flush(loader), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_pop(loader, LONG_NS, &popped, &error), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_batch_info(loader, batch, 0, &view), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_SHUTDOWN);
    struct DLManagedTensorVersioned *tensor = NULL;
    CHECK_STATUS(wavetrain_dlpack(loader, batch, 0, NULL, &tensor), WAVETRAIN_SHUTDOWN);
    CHECK(tensor == NULL);
    CHECK_STATUS(wavetrain_reset(loader), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_pump(loader, 0), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_read_done(loader, 1, 0), WAVETRAIN_SHUTDOWN);
    static float block[BOX * BOX * BOX];
    const wavetrain_target target = { block, sizeof block };
    CHECK_STATUS(wavetrain_read_into(loader, &box, sizeof box, block, sizeof block, NULL, LONG_NS,
                                     &error),
                 WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_lend(loader, &target, 1, sizeof target, NULL, 0), WAVETRAIN_SHUTDOWN);
    const int before = handed_in;
    if (last_job != NULL)
        last_job(last_argument);
    CHECK(handed_in == before);
    CHECK_STATUS(wavetrain_stats(loader, &stats), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_stats_reset(loader), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_last_error(loader, &error), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, &held), WAVETRAIN_SHUTDOWN);
    CHECK(popped == 55 && view.data == NULL && stats.files_opened == 0);
}

static void check_in_child(wavetrain_loader loader, wavetrain_batch batch, const char *uri) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(30); /* a child that hangs fails */
        check_child(loader, batch, uri);
        _exit(0);
    }
    int ended = -1;
    CHECK(waitpid(child, &ended, 0) == child);
    CHECK(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const char *uri = argv[1];
    wavetrain_config config = cube_config(BOX);
    wavetrain_error error = { .struct_size = sizeof error };
    for (uint32_t mode = WAVETRAIN_THREADS_OWN; mode <= WAVETRAIN_THREADS_HOOK; mode++) {
        config.thread_mode = mode;
        config.workers.run = mode == WAVETRAIN_THREADS_HOOK ? run_hook : NULL;
        wavetrain_loader loader;
        wavetrain_batch batch;
        CHECK_OK(wavetrain_open(&config, &loader, &error), error);
        push_cube(loader, uri, 1, 2, 3, BOX, 0);
        CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
        push_cube(loader, uri, 9, 8, 7, BOX, 1);

        check_in_child(loader, batch, uri);

        wavetrain_batch_view view = view_of(loader, batch);
        CHECK(row_is_cube(&view, 0, 0, 1, 2, 3, BOX));
        static float block[BOX * BOX * BOX];
        const wavetrain_box box = cube_box(uri, 4, 5, 6, BOX);
        CHECK_OK(wavetrain_read_into(loader, &box, sizeof box, block, sizeof block, NULL, LONG_NS,
                                     &error),
                 error);
        const wavetrain_batch_view read = { .data = block };
        CHECK(row_is_cube(&read, 0, 0, 4, 5, 6, BOX));
        CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
        CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
        view = view_of(loader, batch);
        CHECK(row_is_cube(&view, 0, 0, 9, 8, 7, BOX));

        /* The same where close has given most of the memory back. */
        CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_AGAIN);
        check_in_child(loader, batch, uri);
        view = view_of(loader, batch);
        CHECK(row_is_cube(&view, 0, 0, 9, 8, 7, BOX));
        CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
        CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
        CHECK((last_job != NULL) == (mode == WAVETRAIN_THREADS_HOOK));
    }
    return 0;
}
