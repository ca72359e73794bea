/* hello.c STORE: the first program. Streams random boxes of an array and prints the mean of each
 * batch.
 *
 *     tools/archive.sh out
 *     cc -Iout examples/hello.c out/libwavetrain.a -lpthread -ldl -o hello
 *     ./hello path/to/array.zarr
 */
#include "wavetrain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 8, SAMPLES = 4, EDGE_MAX = 32 };

static wavetrain_error error; /* every failure is told here: what, where, and the way out */

static int failed(const char *what, wavetrain_status status) {
    fprintf(stderr, "%s: %s: %s\n", what, wavetrain_status_str(status), error.text);
    return 1;
}

int main(int argc, char **argv) {
    static unsigned char scratch[WAVETRAIN_SCRATCH_BYTES];
    const char *uri = argc == 2 ? argv[1] : NULL;
    wavetrain_status status;

    if (uri == NULL) {
        fprintf(stderr, "usage: hello STORE (a zarr v3 array: a folder with a zarr.json)\n");
        return 2;
    }
    error.struct_size = sizeof error;

    /* What is the array? */
    wavetrain_array_view array;
    array.struct_size = sizeof array;
    status = wavetrain_array_info(uri, NULL, scratch, sizeof scratch, &array, &error);
    if (status != WAVETRAIN_OK)
        return failed("array_info", status);
    printf("%s: %s, rank %u\n", uri, array.dtype_name, array.rank);

    /* Batches of SAMPLES boxes as f32, of at most EDGE_MAX along each axis. All memory is taken by
     * open; config_fit raises the cap on the size of a chunk if this array has larger ones. */
    wavetrain_config config;
    wavetrain_config_default(&config, sizeof config);
    config.samples_per_batch = SAMPLES;
    config.sample_rank = array.rank;
    for (uint32_t axis = 0; axis < array.rank; axis++)
        config.sample_shape[axis] = array.shape[axis] < EDGE_MAX ? array.shape[axis] : EDGE_MAX;
    status = wavetrain_config_fit(&config, &uri, 1, scratch, sizeof scratch, &error);
    if (status != WAVETRAIN_OK)
        return failed("config_fit", status);
    wavetrain_loader loader;
    status = wavetrain_open(&config, &loader, &error);
    if (status != WAVETRAIN_OK)
        return failed("open", status);

    uint64_t tag = 0;
    for (int number = 0; number < BATCHES; number++) {
        /* Push one batch of random boxes. A real trainer keeps the lookahead full instead. */
        for (int i = 0; i < SAMPLES; i++) {
            wavetrain_box box;
            memset(&box, 0, sizeof box);
            box.uri = uri;
            box.uri_bytes = strlen(uri);
            box.rank = array.rank;
            for (uint32_t axis = 0; axis < array.rank; axis++) {
                const uint64_t room = array.shape[axis] - config.sample_shape[axis] + 1;
                box.begin[axis] = (int64_t)((uint64_t)rand() % room);
                box.end[axis] = box.begin[axis] + (int64_t)config.sample_shape[axis];
            }
            const wavetrain_sample sample = { &box, 1, sizeof box, tag++ };
            size_t taken;
            status = wavetrain_push(loader, &sample, 1, sizeof sample, WAVETRAIN_FOREVER, &taken);
            if (status != WAVETRAIN_OK) {
                wavetrain_last_error(loader, &error);
                return failed("push", status);
            }
        }
        /* Pop it, use it where it lies, give it back. */
        wavetrain_batch batch;
        wavetrain_batch_view view;
        status = wavetrain_pop(loader, WAVETRAIN_FOREVER, &batch, &error);
        if (status != WAVETRAIN_OK)
            return failed("pop", status);
        view.struct_size = sizeof view;
        wavetrain_batch_info(loader, batch, 0, &view);
        const float *data = (const float *)view.data;
        const uint64_t elements = view.bytes / sizeof *data;
        double sum = 0;
        for (uint64_t i = 0; i < elements; i++)
            sum += data[i];
        printf("batch %llu: %u samples, mean %.3f\n", (unsigned long long)view.batch_id,
               view.sample_count, sum / (double)elements);
        wavetrain_release(loader, batch, NULL);
    }
    wavetrain_close(loader, WAVETRAIN_FOREVER, NULL);
    return 0;
}
