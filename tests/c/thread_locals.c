/* thread_locals.c ARRAY: a program with TLS_BYTES of thread-local variables, which may be larger
 * than our stacks.
 *
 * libc puts them on the stack of every thread, so that without room for them our threads would not
 * start, or with a little less of them write over each other's stacks.
 */
#include "check.h"

static _Thread_local unsigned char locals[TLS_BYTES];

int main(int argc, char **argv) {
    enum { BOX = 20 };
    CHECK(argc == 2);
    memset(locals, 7, sizeof locals);
    wavetrain_config config = cube_config(BOX);
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_memory need = { .struct_size = sizeof need }, plain;
    wavetrain_loader loader;
    wavetrain_batch batch;

    /* The bill has them: four threads' worth. */
    CHECK_OK(wavetrain_memory_need(&config, &need, &error), error);
    config.thread_mode = WAVETRAIN_THREADS_PUMP;
    plain.struct_size = sizeof plain;
    CHECK_OK(wavetrain_memory_need(&config, &plain, &error), error);
    CHECK(need.threads == 4);
    uint64_t stacks = 0;
    for (uint32_t line = 0; line < need.line_count; line++)
        if (strcmp(need.lines[line].name, "thread stacks") == 0)
            stacks = need.lines[line].bytes;
    CHECK(stacks > 4 * sizeof locals);
    CHECK(plain.threads == 0);

    config.thread_mode = WAVETRAIN_THREADS_OWN;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    for (int64_t at = 0; at < 40; at += 8) {
        push_cube(loader, argv[1], at, 17, 40 - at, BOX, 0);
        CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
        const wavetrain_batch_view view = view_of(loader, batch);
        CHECK(row_is_cube(&view, 0, 0, at, 17, 40 - at, BOX));
        CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    }
    CHECK_STATUS(wavetrain_close(loader, WAVETRAIN_FOREVER, NULL), WAVETRAIN_OK);
    for (size_t i = 0; i < sizeof locals; i++)
        CHECK(locals[i] == 7);
    return 0;
}
