/* stack.c: libc takes the thread-local variables of a program out of the stack of every thread,
 * which is ours. Compiled with TLS_BYTES of them and EXPECTED, a status of open.
 */
#include "check.h"

static _Thread_local volatile char variable[TLS_BYTES];

int main(void) {
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_config config = cube_config(8);
    wavetrain_loader loader = 55;
    variable[TLS_BYTES / 2] = 1;
    const wavetrain_status status = wavetrain_open(&config, &loader, &error);
    CHECK_STATUS(status, EXPECTED);
    if (status == WAVETRAIN_OK) {
        CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
        return 0;
    }
    CHECK(loader == 55 && strstr(error.text, "thread-local variables of the program") != NULL);
    printf("%s\n", error.text);
    /* Without threads of ours there is no stack of ours. */
    config.thread_mode = WAVETRAIN_THREADS_PUMP;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
    return 0;
}
