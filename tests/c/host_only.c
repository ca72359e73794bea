/* host_only.c ARRAY: a library that was made without CUDA says so, and streams on the host. */
#include "check.h"

enum { BOX = 8 };

static wavetrain_config config_of(uint32_t backend) {
    wavetrain_config config = cube_config(BOX);
    config.backend = backend;
    return config;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_loader loader = 55;
    wavetrain_config config = config_of(WAVETRAIN_BACKEND_CUDA);
    CHECK_STATUS(wavetrain_open(&config, &loader, &error), WAVETRAIN_UNSUPPORTED);
    CHECK(loader == 55 && strstr(error.text, "made without CUDA") != NULL);
    config = config_of(WAVETRAIN_BACKEND_AUTO);
    config.device = 0;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    wavetrain_stats_view stats = { .struct_size = sizeof stats };
    CHECK_STATUS(wavetrain_stats(loader, &stats), WAVETRAIN_OK);
    CHECK(stats.backend == WAVETRAIN_BACKEND_HOST);
    CHECK(strstr(stats.backend_reason, "made without CUDA") != NULL);
    push_cube(loader, arguments[1], 3, 5, 7, BOX, 1);
    wavetrain_batch batch = 0;
    CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
    const wavetrain_batch_view view = view_of(loader, batch);
    CHECK(view.backend == WAVETRAIN_BACKEND_HOST && row_is_cube(&view, 0, 0, 3, 5, 7, BOX));
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
    return 0;
}
