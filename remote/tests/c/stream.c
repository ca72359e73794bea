/* stream.c URI ENDPOINT: streams an array of 8 x 8 floats from s3 in boxes of 4 x 4, two batches of
 * two, and prints the sum of each batch. Then it reads a uri that is absent, which must be
 * NOT_FOUND, and closes. */
#include "wavetrain_remote.h"

#include <stdio.h>
#include <string.h>

enum { EDGE = 4, SAMPLES = 2 };

static wavetrain_error error;

static int failed(const char *what, int status, wavetrain_remote_client *client) {
    char text[1024] = "";
    if (client != NULL)
        wavetrain_remote_last_error(client, text, sizeof text);
    fprintf(stderr, "%s: %d: %s (%s)\n", what, status, error.text, text);
    return 1;
}

static wavetrain_status push(wavetrain_loader loader, const char *uri, int row, int column) {
    wavetrain_box box;
    memset(&box, 0, sizeof box);
    box.uri = uri;
    box.uri_bytes = strlen(uri);
    box.rank = 2;
    box.begin[0] = row;
    box.begin[1] = column;
    box.end[0] = row + EDGE;
    box.end[1] = column + EDGE;
    const wavetrain_sample sample = { &box, 1, sizeof box, 0 };
    size_t taken;
    return wavetrain_push(loader, &sample, 1, sizeof sample, WAVETRAIN_FOREVER, &taken);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    error.struct_size = sizeof error;
    const char *options[] = { "aws_access_key_id=test", "aws_secret_access_key=test-secret-key" };
    wavetrain_remote_config remote;
    wavetrain_remote_config_default(&remote, sizeof remote);
    remote.read_done = wavetrain_read_done;
    remote.endpoint = argv[2];
    remote.region = "us-east-1";
    remote.allow_http = 1;
    remote.options = options;
    remote.n_options = 2;
    wavetrain_remote_client *client;
    if (wavetrain_remote_open(&remote, &client, error.text, sizeof error.text) != 0)
        return failed("remote_open", 1, NULL);

    wavetrain_config config;
    wavetrain_config_default(&config, sizeof config);
    config.samples_per_batch = SAMPLES;
    config.sample_rank = 2;
    config.sample_shape[0] = config.sample_shape[1] = EDGE;
    wavetrain_remote_files_hook(client, &config.files);
    wavetrain_remote_store_hook(client, &config.store);
    wavetrain_loader loader;
    wavetrain_status status = wavetrain_open(&config, &loader, &error);
    if (status == WAVETRAIN_UNSUPPORTED) {
        /* A library that has no versions and listings yet. */
        const wavetrain_store_hook none = { .struct_size = sizeof none, .retries_itself = 1 };
        config.store = none;
        status = wavetrain_open(&config, &loader, &error);
    }
    if (status != WAVETRAIN_OK)
        return failed("open", status, client);

    for (int number = 0; number < 2; number++) {
        for (int sample = 0; sample < SAMPLES; sample++)
            if (push(loader, argv[1], EDGE * number, EDGE * sample) != WAVETRAIN_OK)
                return failed("push", 1, client);
        wavetrain_batch batch;
        wavetrain_batch_view view;
        status = wavetrain_pop(loader, WAVETRAIN_FOREVER, &batch, &error);
        if (status != WAVETRAIN_OK)
            return failed("pop", status, client);
        view.struct_size = sizeof view;
        wavetrain_batch_info(loader, batch, 0, &view);
        double sum = 0;
        for (uint64_t i = 0; i < view.bytes / sizeof(float); i++)
            sum += ((const float *)view.data)[i];
        printf("%.1f\n", sum);
        wavetrain_release(loader, batch, NULL);
    }
    for (int sample = 0; sample < SAMPLES; sample++)
        push(loader, "s3://bucket/absent.zarr", 0, 0);
    wavetrain_batch batch;
    status = wavetrain_pop(loader, WAVETRAIN_FOREVER, &batch, &error);
    if (status != WAVETRAIN_NOT_FOUND)
        return failed("absent", status, client);
    wavetrain_remote_stats_view stats;
    stats.struct_size = sizeof stats;
    wavetrain_remote_stats(client, &stats);
    if (stats.requests == 0 || stats.failed != 0)
        return failed("stats", 1, client);
    wavetrain_close(loader, WAVETRAIN_FOREVER, NULL);
    return wavetrain_remote_close(client);
}
