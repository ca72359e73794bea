/* cuda_pump.c ARRAY DRIVER own|pump: hundreds of batches on a device, and nothing is allocated.
 *
 * DRIVER is the simulated one of tests/cuda_sim. Every element is checked where it lies, which
 * simulated device memory allows. From open to close the process calls no malloc, and the driver is
 * asked for no memory, stream, event or module.
 */
#define _GNU_SOURCE
#include "check.h"
#include "count_alloc.h"
#include "digest.h"

#include <dlfcn.h>

enum { BOX = 10, SAMPLES = 3, BATCHES = 300, LIVES = 2 };

static void at_of(uint64_t number, int64_t *at) {
    uint64_t state = number + 77;
    for (int axis = 0; axis < 3; axis++)
        at[axis] = random_below(&state, EDGE - BOX + 1);
}

static void stream(wavetrain_loader loader, const char *uri) {
    uint64_t pushed = 0;
    for (uint64_t number = 0; number < BATCHES; number++) {
        for (; pushed < (number + 1) * SAMPLES; pushed++) {
            int64_t at[3];
            at_of(pushed, at);
            push_cube(loader, uri, at[0], at[1], at[2], BOX, pushed);
        }
        wavetrain_batch batch = 0;
        wavetrain_error error = { .struct_size = sizeof error };
        CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
        const wavetrain_batch_view view = view_of(loader, batch);
        CHECK(view.backend == WAVETRAIN_BACKEND_CUDA && view.ready_stream != NULL);
        for (uint32_t row = 0; row < SAMPLES; row++) {
            int64_t at[3];
            at_of(view.tags[row], at);
            CHECK(row_is_cube(&view, row, 0, at[0], at[1], at[2], BOX));
        }
        check_digests(&view, number * SAMPLES);
        struct DLManagedTensorVersioned *tensor = NULL;
        CHECK_STATUS(wavetrain_dlpack(loader, batch, 0, view.ready_stream, &tensor), WAVETRAIN_OK);
        /* The deleter is behind version and manager_ctx. */
        void (*deleter)(struct DLManagedTensorVersioned *);
        memcpy(&deleter, (char *)tensor + 16, sizeof deleter);
        CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
        deleter(tensor);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    void *driver = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    CHECK(driver != NULL);
    uint64_t (*allocations)(void);
    void *found = dlsym(driver, "simcuda_allocations");
    CHECK(found != NULL);
    memcpy(&allocations, &found, sizeof found);

    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_config config = cube_config(BOX);
    config.samples_per_batch = SAMPLES;
    config.digest = 1;
    config.backend = WAVETRAIN_BACKEND_CUDA;
    config.device = 0;
    config.cuda_driver = argv[2];
    config.thread_mode =
        strcmp(argv[3], "pump") == 0 ? WAVETRAIN_THREADS_PUMP : WAVETRAIN_THREADS_OWN;
    config.max_chunk_uncompressed_bytes = 1 << 16;
    config.max_gpu_memory_bytes = 4 << 20;
    config.max_host_memory_bytes = 64 << 20;
    wavetrain_memory need = { .struct_size = sizeof need };
    CHECK_OK(wavetrain_memory_need(&config, &need, &error), error);
    CHECK(need.pinned_bytes > 0 && need.device_bytes > 0 && need.device_bytes <= 4 << 20);

    for (int life = 0; life < LIVES; life++) {
        wavetrain_loader loader;
        CHECK_OK(wavetrain_open(&config, &loader, &error), error);
        const uint64_t calls_before = atomic_load(&alloc_calls), asked_before = allocations();
        stream(loader, argv[1]);
        push_cube(loader, argv[1], 0, 0, 0, BOX, 0);
        CHECK_STATUS(wavetrain_reset(loader), WAVETRAIN_OK);
        stream(loader, argv[1]);
        CHECK(atomic_load(&alloc_calls) == calls_before);
        CHECK(allocations() == asked_before);
        CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
    }
    printf("%d batches, 0 allocations\n", 2 * LIVES * BATCHES);
    return 0;
}
