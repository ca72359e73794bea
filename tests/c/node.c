/* node.c ARRAY: consumers in other processes. A forked child of a consumer gets SHUTDOWN on its
 * parent's loader, and attaches anew; calls that fill batches are the owner's.
 */
#define _GNU_SOURCE
#include "check.h"
#include "wavetrain_node.h"

#include <sys/wait.h>

enum { BOX = 8, COUNT = 6 };

/* Takes batches of this consumer up to END; each has one sample, whose tag is its place. */
static int take(wavetrain_loader loader) {
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_batch batch;
    wavetrain_status got;
    int count = 0;
    while ((got = wavetrain_pop(loader, LONG_NS, &batch, &error)) == WAVETRAIN_OK) {
        const wavetrain_batch_view view = view_of(loader, batch);
        const int64_t at = (int64_t)view.tags[0];
        CHECK(row_is_cube(&view, 0, 0, at, at + 1, at + 2, BOX));
        CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
        count += 1;
    }
    CHECK_STATUS(got, WAVETRAIN_END);
    return count;
}

static void check_forked(wavetrain_loader loader, const char *name) {
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_batch batch;
    wavetrain_loader anew;
    CHECK_STATUS(wavetrain_pop(loader, LONG_NS, &batch, &error), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_flush(loader), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_attach(name, 0, 0, &anew, &error), WAVETRAIN_INVALID); /* taken */
    CHECK_OK(wavetrain_attach(name, 1, LONG_NS, &anew, &error), error);
    CHECK(take(anew) == COUNT / 2);
    CHECK_STATUS(wavetrain_close(anew, LONG_NS, NULL), WAVETRAIN_OK);
}

static void consume(const char *name, const char *uri) {
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_loader loader;
    CHECK_OK(wavetrain_attach(name, 0, LONG_NS, &loader, &error), error);
    const wavetrain_box box = cube_box(uri, 0, 0, 0, BOX);
    const wavetrain_sample sample = sample_of(&box, 1);
    size_t taken = 0;
    CHECK_STATUS(wavetrain_push(loader, &sample, 1, sizeof sample, 0, &taken), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_flush(loader), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_reset(loader), WAVETRAIN_INVALID);
    const pid_t child = fork();
    if (child == 0) {
        alarm(30); /* a child that hangs fails */
        check_forked(loader, name);
        _exit(0);
    }
    int ended = -1;
    CHECK(take(loader) == COUNT / 2);
    CHECK(waitpid(child, &ended, 0) == child && WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_loader loader = 0;
    char name[64];
    snprintf(name, sizeof name, "node.c.%d", (int)getpid());
    CHECK_STATUS(wavetrain_attach(NULL, 0, 0, &loader, &error), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_attach(name, 0, 0, NULL, &error), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_attach("", 0, 0, &loader, &error), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_attach(name, 0, 0, &loader, &error), WAVETRAIN_NOT_FOUND);
    const pid_t child = fork(); /* before the loader is open */
    if (child == 0) {
        consume(name, argv[1]);
        _exit(0);
    }
    wavetrain_config config = cube_config(BOX);
    config.share_name = name;
    config.share_consumers = 2;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    for (uint64_t at = 0; at < COUNT; at++)
        push_cube(loader, argv[1], (int64_t)at, (int64_t)at + 1, (int64_t)at + 2, BOX, at);
    CHECK_STATUS(wavetrain_flush(loader), WAVETRAIN_OK);
    wavetrain_batch none;
    CHECK_STATUS(wavetrain_pop(loader, LONG_NS, &none, &error), WAVETRAIN_END);
    int ended = -1;
    CHECK(waitpid(child, &ended, 0) == child && WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
    return 0;
}
