/* program.c ARRAY: a program of the header of 0.1.0, which lies beside it, with a later library. It
 * makes every call, looks at every struct that one of them fills, and at every voxel.
 */
#include "check.h"

enum { BOX = 12, SAMPLES = 2, BATCHES = 3, POISON = 0xA5, LINE = 64 };

static unsigned char scratch[WAVETRAIN_SCRATCH_BYTES];

/* A struct of this header between bytes that no call may touch. */
#define GUARDED(type, name)                                                                        \
    struct {                                                                                       \
        type it;                                                                                   \
        unsigned char behind[LINE];                                                                \
    } name;                                                                                        \
    memset(&name, POISON, sizeof name);                                                            \
    name.it.struct_size = sizeof name.it

static void untouched(const unsigned char *behind) {
    for (int at = 0; at < LINE; at++)
        CHECK(behind[at] == POISON);
}

static wavetrain_config config_of(const char *uri) {
    GUARDED(wavetrain_config, config);
    GUARDED(wavetrain_error, error);
    GUARDED(wavetrain_memory, need);
    GUARDED(wavetrain_array_view, info);
    CHECK_STATUS(wavetrain_config_default(&config.it, sizeof config.it), WAVETRAIN_OK);
    untouched(config.behind);
    CHECK_OK(wavetrain_array_info(uri, NULL, scratch, sizeof scratch, &info.it, &error.it),
             error.it);
    CHECK(info.it.kind == WAVETRAIN_NODE_ARRAY && info.it.dtype == WAVETRAIN_U16);
    CHECK(info.it.rank == 3 && info.it.shape[2] == EDGE && info.it.chunk_shape[0] == CHUNK);
    CHECK(info.it.file_counts[0] == EDGE / SHARD && info.it.is_rectilinear == 0);
    untouched(info.behind);
    config.it.samples_per_batch = SAMPLES;
    config.it.sample_rank = 3;
    for (int axis = 0; axis < 3; axis++)
        config.it.sample_shape[axis] = BOX;
    config.it.dtype = WAVETRAIN_U16;
    config.it.n_io_threads = 2;
    config.it.n_decode_threads = 2;
    config.it.max_chunk_uncompressed_bytes = 1;
    CHECK_OK(wavetrain_config_fit(&config.it, &uri, 1, scratch, sizeof scratch, &error.it),
             error.it);
    CHECK(config.it.max_chunk_uncompressed_bytes == CHUNK * CHUNK * CHUNK * 2);
    untouched(config.behind);
    CHECK_OK(wavetrain_memory_need(&config.it, &need.it, &error.it), error.it);
    CHECK(need.it.host_bytes > 0 && need.it.threads == 4 && need.it.line_count > 5);
    untouched(need.behind);
    untouched(error.behind);
    return config.it;
}

static int64_t corner(int number, int axis) {
    return (number * 13 + axis * 7) % (EDGE - BOX + 1);
}

/* A batch is pushed as one array of samples, their boxes as another. */
static void push(wavetrain_loader loader, const char *uri, int first) {
    wavetrain_box boxes[SAMPLES];
    wavetrain_sample samples[SAMPLES];
    size_t taken = 0;
    for (int i = 0; i < SAMPLES; i++) {
        const int number = first + i;
        boxes[i] =
            cube_box(uri, corner(number, 0), corner(number, 1), corner(number, 2), BOX);
        samples[i] = sample_of(&boxes[i], (uint64_t)number);
    }
    CHECK_STATUS(wavetrain_push(loader, samples, SAMPLES, sizeof *samples, LONG_NS, &taken),
                 WAVETRAIN_OK);
    CHECK(taken == SAMPLES);
}

static void check_batch(wavetrain_loader loader, wavetrain_batch batch, int first) {
    GUARDED(wavetrain_batch_view, view);
    CHECK_STATUS(wavetrain_batch_info(loader, batch, 0, &view.it), WAVETRAIN_OK);
    untouched(view.behind);
    CHECK(view.it.rank == 4 && view.it.shape[0] == SAMPLES && view.it.shape[3] == BOX);
    CHECK(view.it.dtype == WAVETRAIN_U16 && view.it.sample_count == SAMPLES);
    CHECK(view.it.device == -1 && view.it.ready_stream == NULL && view.it.failed_samples == 0);
    const uint16_t *voxel = view.it.data;
    for (int i = 0; i < SAMPLES; i++) {
        CHECK(view.it.tags[i] == (uint64_t)(first + i) && view.it.statuses[i] == 0);
        for (int z = 0; z < BOX; z++)
            for (int y = 0; y < BOX; y++)
                for (int x = 0; x < BOX; x++)
                    CHECK(*voxel++ == sparse_at(0, corner(first + i, 0) + z,
                                                corner(first + i, 1) + y,
                                                corner(first + i, 2) + x));
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    CHECK(wavetrain_version() >> 16 == WAVETRAIN_VERSION_MAJOR);
    const wavetrain_config config = config_of(argv[1]);
    GUARDED(wavetrain_error, error);
    GUARDED(wavetrain_stats_view, stats);
    wavetrain_loader loader = 0;
    wavetrain_batch batch = 0;
    struct DLManagedTensorVersioned *tensor = NULL;
    uint32_t held = 9;
    CHECK_OK(wavetrain_open(&config, &loader, &error.it), error.it);
    for (int number = 0; number < BATCHES; number++) {
        push(loader, argv[1], number * SAMPLES);
        CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error.it), error.it);
        check_batch(loader, batch, number * SAMPLES);
        CHECK_STATUS(wavetrain_dlpack(loader, batch, 1, NULL, &tensor), WAVETRAIN_INVALID);
        CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    }
    CHECK_STATUS(wavetrain_flush(loader), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_pop(loader, LONG_NS, &batch, &error.it), WAVETRAIN_END);
    CHECK_STATUS(wavetrain_pump(loader, 0), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_last_error(loader, &error.it), WAVETRAIN_OK);
    CHECK(error.it.status == WAVETRAIN_INVALID && strstr(error.it.text, "thread_mode") != NULL);
    untouched(error.behind);
    CHECK_STATUS(wavetrain_stats(loader, &stats.it), WAVETRAIN_OK);
    CHECK(stats.it.batches_emitted == BATCHES && stats.it.samples_pushed == BATCHES * SAMPLES);
    CHECK(stats.it.chunks_decoded[WAVETRAIN_CODEC_ZSTD] == stats.it.decode.count);
    CHECK(strcmp(stats.it.backend_reason, "host: asked for by the config") == 0);
    untouched(stats.behind);
    CHECK_STATUS(wavetrain_stats_reset(loader), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_reset(loader), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, &held), WAVETRAIN_OK);
    CHECK(held == 0);
    return 0;
}
