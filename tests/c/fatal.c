/* fatal.c ends|returns|again: last words before a defect ends the process.
 *
 * No input is known to make an assertion of the library fail, so this program breaks what the
 * library stands on: its clock_gettime comes before libc's, and fails when told to. "ends": the
 * hook of the loader that was opened first ends the process with code 7. "returns": every hook
 * returns, and the process aborts. "again": the hook meets the defect once more, and the process
 * aborts.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/syscall.h>
#include <time.h>

static int is_broken, calls;
static const char *mode;
static wavetrain_loader loaders[3];
static int users[3];

int clock_gettime(clockid_t clock, struct timespec *now) {
    return is_broken ? -1 : (int)syscall(SYS_clock_gettime, clock, now);
}

static void fatal_hook(void *user, const char *file, uint32_t line, const char *text) {
    CHECK(user == &users[calls == 0 ? 1 : 2]); /* the first was closed */
    CHECK(strstr(file, "wavetrain ") == file && line == 0);
    CHECK(strstr(text, "assertion failed at +0x") == text && strchr(text, '\n') == NULL);
    calls += 1;
    if (strcmp(mode, "ends") == 0)
        _exit(7);
    if (strcmp(mode, "again") == 0)
        wavetrain_pop(loaders[1], 0, NULL, NULL), wavetrain_pump(loaders[1], 0), _exit(1);
    if (calls == 2)
        CHECK(write(1, "both\n", 5) == 5);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    mode = argv[1];
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_config config = cube_config(8);
    config.thread_mode = WAVETRAIN_THREADS_PUMP;
    config.max_chunk_uncompressed_bytes = 1 << 16;
    config.max_host_memory_bytes = 64 << 20;
    config.fatal.fatal = fatal_hook;
    for (int i = 0; i < 3; i++) {
        config.fatal.user = &users[i];
        CHECK_OK(wavetrain_open(&config, &loaders[i], &error), error);
    }
    CHECK_STATUS(wavetrain_close(loaders[0], LONG_NS, NULL), WAVETRAIN_OK);
    is_broken = 1;
    wavetrain_pump(loaders[2], 0);
    return 1;
}
