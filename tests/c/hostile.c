/* hostile.c ARRAY: NULL and nonsense through every function give a status and touch nothing.
 *
 * Every argument is wrong in turn while the others are right. Outputs are poisoned before a call
 * that must fail, and compared after it. Afterwards the same loader still delivers correct batches.
 *
 * This file is over 500 lines because every function of the header has its wrong arguments here.
 */
#define _GNU_SOURCE
#include "check.h"

enum { BOX = 8, POISON = 0x5C };

static const char *uri;
static unsigned char scratch[WAVETRAIN_SCRATCH_BYTES];

#define INIT(name, type)                                                                           \
    type name;                                                                                     \
    memset(&name, POISON, sizeof name);                                                            \
    name.struct_size = sizeof name

/* Whether every byte from `first` on is still poison. */
static int is_poison(const void *bytes, size_t first, size_t limit) {
    for (size_t i = first; i < limit; i++)
        if (((const unsigned char *)bytes)[i] != POISON)
            return 0;
    return 1;
}

static int is_untouched(const void *bytes, size_t size) {
    return is_poison(bytes, sizeof(size_t), size);
}

static wavetrain_config small_config(void) {
    wavetrain_config config = cube_config(BOX);
    config.thread_mode = WAVETRAIN_THREADS_PUMP;
    config.max_chunk_uncompressed_bytes = 1 << 16;
    return config;
}

static wavetrain_loader open_small(const wavetrain_config *config) {
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_loader loader = 0;
    CHECK_OK(wavetrain_open(config, &loader, &error), error);
    CHECK(loader != 0);
    return loader;
}

/* ---- status, version ---- */

static void check_names(void) {
    CHECK(wavetrain_version() == WAVETRAIN_VERSION);
    CHECK(strcmp(wavetrain_status_str(WAVETRAIN_NOT_FOUND), "NOT_FOUND") == 0);
    CHECK(strcmp(wavetrain_status_str(WAVETRAIN_END), "END") == 0);
    const wavetrain_status unknown[] = { 5, -13, 77, INT32_MAX, INT32_MIN };
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        CHECK(strcmp(wavetrain_status_str(unknown[i]), "UNKNOWN") == 0);
}

/* ---- struct_size ---- */

/* Calls `fill` with a poisoned struct of every size; not a byte past it may be written, and too
 * small a size is refused. */
static void check_sizes(wavetrain_status (*fill)(void *target, size_t size), size_t known,
                        wavetrain_status expected) {
    static _Alignas(8) unsigned char bytes[16384];
    CHECK(known + 64 <= sizeof bytes);
    for (size_t size = 0; size <= known + 64; size++) {
        memset(bytes, POISON, sizeof bytes);
        memcpy(bytes, &size, sizeof size);
        const wavetrain_status status = fill(bytes, size);
        if (size < sizeof(size_t))
            CHECK(status == WAVETRAIN_INVALID && is_untouched(bytes, sizeof bytes));
        else
            CHECK(status == expected);
        CHECK(is_poison(bytes, size < sizeof size ? sizeof size : size, sizeof bytes));
    }
}

static wavetrain_loader sized_loader;
static wavetrain_batch sized_batch;

static wavetrain_status fill_default(void *target, size_t size) {
    return wavetrain_config_default(target, size);
}
static wavetrain_status fill_need(void *target, size_t size) {
    const wavetrain_config config = small_config();
    (void)size;
    return wavetrain_memory_need(&config, target, NULL);
}
static wavetrain_status fill_error(void *target, size_t size) {
    wavetrain_config config = small_config();
    wavetrain_loader loader;
    (void)size;
    config.sample_rank = 99;
    return wavetrain_open(&config, &loader, target);
}
static wavetrain_status fill_info(void *target, size_t size) {
    (void)size;
    return wavetrain_batch_info(sized_loader, sized_batch, 0, target);
}
static wavetrain_status fill_stats(void *target, size_t size) {
    (void)size;
    return wavetrain_stats(sized_loader, target);
}
static wavetrain_status fill_last(void *target, size_t size) {
    (void)size;
    return wavetrain_last_error(sized_loader, target);
}
static wavetrain_status fill_array(void *target, size_t size) {
    (void)size;
    return wavetrain_array_info(uri, NULL, scratch, sizeof scratch, target, NULL);
}

static void check_struct_sizes(void) {
    const wavetrain_config config = small_config();
    sized_loader = open_small(&config);
    push_cube(sized_loader, uri, 0, 0, 0, BOX, 1);
    CHECK_STATUS(wavetrain_pop(sized_loader, LONG_NS, &sized_batch, NULL), WAVETRAIN_OK);
    check_sizes(fill_need, sizeof(wavetrain_memory), WAVETRAIN_OK);
    check_sizes(fill_error, sizeof(wavetrain_error), WAVETRAIN_INVALID);
    check_sizes(fill_info, sizeof(wavetrain_batch_view), WAVETRAIN_OK);
    check_sizes(fill_stats, sizeof(wavetrain_stats_view), WAVETRAIN_OK);
    check_sizes(fill_last, sizeof(wavetrain_error), WAVETRAIN_OK);
    check_sizes(fill_array, sizeof(wavetrain_array_view), WAVETRAIN_OK);
    check_sizes(fill_default, sizeof(wavetrain_config), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_release(sized_loader, sized_batch, NULL), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_close(sized_loader, LONG_NS, NULL), WAVETRAIN_OK);

    /* A config of an older header: what it lacks takes its default. */
    INIT(need, wavetrain_memory);
    wavetrain_config older = small_config();
    const size_t batch_bytes = offsetof(wavetrain_config, max_gpu_memory_bytes);
    for (size_t size = batch_bytes; size < sizeof older; size++) {
        older.struct_size = size;
        CHECK_STATUS(wavetrain_memory_need(&older, &need, NULL), WAVETRAIN_OK);
    }
    /* A config of a newer header: what we do not know must be 0. */
    struct {
        wavetrain_config config;
        unsigned char more[64];
    } newer;
    memset(&newer, 0, sizeof newer);
    newer.config = small_config();
    newer.config.struct_size = sizeof newer;
    CHECK_STATUS(wavetrain_memory_need(&newer.config, &need, NULL), WAVETRAIN_OK);
    newer.more[63] = 1;
    CHECK_STATUS(wavetrain_memory_need(&newer.config, &need, NULL), WAVETRAIN_INVALID);
}

/* ---- config ---- */

/* The config is refused by memory_need and by open, with a text that names the field. */
static void refused(const wavetrain_config *config, wavetrain_status expected, const char *name) {
    INIT(need, wavetrain_memory);
    INIT(error, wavetrain_error);
    wavetrain_loader loader = 55;
    CHECK_STATUS(wavetrain_memory_need(config, &need, &error), expected);
    CHECK(error.status == expected && strstr(error.text, name) != NULL);
    memset(&error, POISON, sizeof error);
    error.struct_size = sizeof error;
    CHECK_STATUS(wavetrain_open(config, &loader, &error), expected);
    CHECK(loader == 55 && error.status == expected && strstr(error.text, name) != NULL);
}

#define REFUSED(field, value, expected)                                                            \
    do {                                                                                           \
        wavetrain_config config = small_config();                                                  \
        config.field = (value);                                                                    \
        refused(&config, expected, #field);                                                        \
    } while (0)

#define REFUSED_CHOICE(field, first_wrong)                                                         \
    REFUSED(field, first_wrong, WAVETRAIN_INVALID);                                                \
    REFUSED(field, UINT32_MAX, WAVETRAIN_INVALID)

static void check_config(void) {
    REFUSED_CHOICE(dtype, 17);
    REFUSED_CHOICE(dtype, 0);
    REFUSED_CHOICE(backend, 3);
    REFUSED_CHOICE(thread_mode, 3);
    REFUSED_CHOICE(drop_last, 2);
    REFUSED_CHOICE(on_error, 3);
    REFUSED_CHOICE(missing_chunks, 2);
    REFUSED_CHOICE(pad_mode, 4);
    REFUSED_CHOICE(pad_value_set, 2);
    REFUSED_CHOICE(cf, 2);
    REFUSED_CHOICE(enable_gds, 3);
    REFUSED_CHOICE(numa_strategy, 3);
    REFUSED_CHOICE(log_level, 7);
    REFUSED_CHOICE(log_quiet, 2);
    REFUSED_CHOICE(reserved, 1);
    REFUSED_CHOICE(samples_per_batch, 0);
    REFUSED_CHOICE(sample_rank, 0);
    REFUSED_CHOICE(sample_rank, 17);
    REFUSED_CHOICE(n_batch_slots, 0);
    REFUSED_CHOICE(host_buffer_waves, 1);
    REFUSED_CHOICE(max_chunks_per_wave, 0);
    REFUSED_CHOICE(n_io_threads, 0);
    REFUSED_CHOICE(metadata_io_concurrency, 0);
    REFUSED_CHOICE(n_array_meta_cache, 0);
    REFUSED_CHOICE(n_shard_index_cache, 0);
    REFUSED_CHOICE(n_chunk_layout_cache, 0);
    REFUSED(n_decode_threads, UINT32_MAX, WAVETRAIN_INVALID);
    REFUSED(lookahead_samples, UINT32_MAX, WAVETRAIN_INVALID);
    REFUSED(dtype_bytes, 3, WAVETRAIN_INVALID);
    REFUSED(sample_shape[1], 0, WAVETRAIN_INVALID);
    REFUSED(max_chunk_uncompressed_bytes, 0, WAVETRAIN_INVALID);
    REFUSED(max_chunk_uncompressed_bytes, UINT64_MAX, WAVETRAIN_INVALID);
    REFUSED(max_read_op_bytes, 0, WAVETRAIN_INVALID);
    REFUSED(max_host_memory_bytes, 1, WAVETRAIN_BUDGET);
    REFUSED(chunk_cache_bytes, 1, WAVETRAIN_INVALID);
    /* Not built yet, so not silently ignored. */
    REFUSED(enable_gds, WAVETRAIN_GDS_ON, WAVETRAIN_UNSUPPORTED);
    REFUSED(numa_node, 0, WAVETRAIN_INVALID);
    REFUSED(numa_strategy, WAVETRAIN_NUMA_PIN, WAVETRAIN_INVALID);
    REFUSED(device, 0, WAVETRAIN_INVALID); /* of the host */
    REFUSED(consumer_stream, scratch, WAVETRAIN_INVALID);
    REFUSED(cuda_driver, "", WAVETRAIN_INVALID);
    static char long_path[WAVETRAIN_URI_BYTES_MAX + 2];
    memset(long_path, 'x', sizeof long_path - 1);
    REFUSED(cuda_driver, long_path, WAVETRAIN_INVALID);

    wavetrain_config config = small_config();
    config.metadata_latency.lognormal_sigma_ln_ns = -1;
    refused(&config, WAVETRAIN_INVALID, "metadata_latency");
    config = small_config();
    config.store.reads_max = 1;
    refused(&config, WAVETRAIN_INVALID, "store: its members need files.size and files.read");
    config = small_config();
    config.dtype = WAVETRAIN_U8;
    config.pad_value = 256;
    refused(&config, WAVETRAIN_INVALID, "pad_value = 256: u8 cannot hold it");
    config = small_config();
    INIT(need, wavetrain_memory);
    wavetrain_loader loader = 55;
    for (int axis = 0; axis < 3; axis++)
        config.sample_shape[axis] = UINT64_MAX;
    CHECK_STATUS(wavetrain_memory_need(&config, &need, NULL), WAVETRAIN_BUDGET);
    config = small_config();
    CHECK_STATUS(wavetrain_config_default(NULL, sizeof config), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_memory_need(NULL, &need, NULL), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_memory_need(&config, NULL, NULL), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_open(NULL, &loader, NULL), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_open(&config, NULL, NULL), WAVETRAIN_INVALID);
    const size_t sizes[] = { 0, 1, sizeof(size_t) - 1, 1 << 20, SIZE_MAX };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        config.struct_size = sizes[i];
        CHECK_STATUS(wavetrain_open(&config, &loader, NULL), WAVETRAIN_INVALID);
        CHECK_STATUS(wavetrain_memory_need(&config, &need, NULL), WAVETRAIN_INVALID);
    }
    CHECK(loader == 55);
}

/* ---- calls without a loader ---- */

static void check_array_info(void) {
    static char long_uri[5001];
    INIT(array, wavetrain_array_view);
    INIT(error, wavetrain_error);
    memset(long_uri, 'a', 5000);
    const struct {
        const char *uri;
        wavetrain_status expected;
    } wrong[] = {
        { NULL, WAVETRAIN_INVALID },          { "", WAVETRAIN_INVALID },
        { long_uri, WAVETRAIN_INVALID },      { "/\xFF\xFE", WAVETRAIN_INVALID },
        { "s3://a/b", WAVETRAIN_UNSUPPORTED }, { "/nonexistent/x", WAVETRAIN_NOT_FOUND },
        { "/dev/null", WAVETRAIN_NOT_FOUND },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_STATUS(wavetrain_array_info(wrong[i].uri, NULL, scratch, sizeof scratch, &array,
                                          &error),
                     wrong[i].expected);
        CHECK(is_untouched(&array, sizeof array));
        CHECK(error.status == wrong[i].expected);
        CHECK(memchr(error.text, 0, sizeof error.text) != NULL);
    }
    CHECK_STATUS(wavetrain_array_info(uri, NULL, NULL, sizeof scratch, &array, NULL),
                 WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_array_info(uri, NULL, scratch, 0, &array, NULL), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_array_info(uri, NULL, scratch, sizeof scratch - 1, &array, NULL),
                 WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_array_info(uri, NULL, scratch, sizeof scratch, NULL, NULL),
                 WAVETRAIN_INVALID);
    CHECK(is_untouched(&array, sizeof array));
}

static void check_metadata(void) {
    static unsigned char out[1 << 16];
    const wavetrain_config config = small_config();
    wavetrain_metadata_part part = { .struct_size = sizeof part, .shard_count = 1 };
    part.out = out;
    part.out_bytes = sizeof out;
    CHECK_STATUS(wavetrain_metadata(uri, &config, scratch, sizeof scratch, &part, NULL),
                 WAVETRAIN_OK);
    CHECK(part.written > 0 && part.written <= sizeof out);
    CHECK_STATUS(wavetrain_metadata(NULL, &config, scratch, sizeof scratch, &part, NULL),
                 WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_metadata(uri, NULL, scratch, sizeof scratch, &part, NULL),
                 WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_metadata(uri, &config, NULL, sizeof scratch, &part, NULL),
                 WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_metadata(uri, &config, scratch, sizeof scratch - 1, &part, NULL),
                 WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_metadata(uri, &config, scratch, sizeof scratch, NULL, NULL),
                 WAVETRAIN_INVALID);
    part.out_bytes = 8;
    CHECK_STATUS(wavetrain_metadata(uri, &config, scratch, sizeof scratch, &part, NULL),
                 WAVETRAIN_BUDGET);
    part.out = NULL;
    CHECK_STATUS(wavetrain_metadata(uri, &config, scratch, sizeof scratch, &part, NULL),
                 WAVETRAIN_INVALID);
    part.struct_size = 1;
    CHECK_STATUS(wavetrain_metadata(uri, &config, scratch, sizeof scratch, &part, NULL),
                 WAVETRAIN_INVALID);
}

static void check_config_fit(void) {
    wavetrain_config config = small_config(), before;
    const char *uris[] = { uri, "/nonexistent/x" }, *null_uri[] = { NULL };
    config.max_chunk_uncompressed_bytes = 1;
    memcpy(&before, &config, sizeof config);
    const size_t all = sizeof scratch;
    CHECK_STATUS(wavetrain_config_fit(NULL, uris, 1, scratch, all, NULL), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_config_fit(&config, NULL, 1, scratch, all, NULL), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_config_fit(&config, null_uri, 1, scratch, all, NULL), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_config_fit(&config, uris, 1, NULL, all, NULL), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_config_fit(&config, uris, 1, scratch, 100, NULL), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_config_fit(&config, uris, 2, scratch, all, NULL), WAVETRAIN_NOT_FOUND);
    CHECK(memcmp(&before, &config, sizeof config) == 0);
    CHECK_STATUS(wavetrain_config_fit(&config, NULL, 0, scratch, all, NULL), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_config_fit(&config, uris, 1, scratch, all, NULL), WAVETRAIN_OK);
    CHECK(config.max_chunk_uncompressed_bytes == CHUNK * CHUNK * CHUNK * 2);
}

/* ---- handles ---- */

/* Every call with a loader that is not open is SHUTDOWN and writes nothing. */
static void check_dead(wavetrain_loader loader, wavetrain_batch batch) {
    const wavetrain_box box = cube_box(uri, 0, 0, 0, BOX);
    const wavetrain_sample sample = sample_of(&box, 1);
    INIT(error, wavetrain_error);
    INIT(view, wavetrain_batch_view);
    INIT(stats, wavetrain_stats_view);
    wavetrain_batch popped = 55;
    size_t taken = 0;
    CHECK_STATUS(wavetrain_push(loader, &sample, 1, sizeof sample, UINT64_MAX, &taken),
                 WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_flush(loader), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_pop(loader, UINT64_MAX, &popped, NULL), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_batch_info(loader, batch, 0, &view), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_SHUTDOWN);
    struct DLManagedTensorVersioned *versioned = NULL;
    struct DLManagedTensor *legacy = NULL;
    CHECK_STATUS(wavetrain_dlpack(loader, batch, 0, NULL, &versioned), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_dlpack_legacy(loader, batch, 0, NULL, &legacy), WAVETRAIN_SHUTDOWN);
    CHECK(versioned == NULL && legacy == NULL);
    CHECK_STATUS(wavetrain_reset(loader), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_pump(loader, UINT64_MAX), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_stats(loader, &stats), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_stats_reset(loader), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_last_error(loader, &error), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_close(loader, UINT64_MAX, NULL), WAVETRAIN_SHUTDOWN);
    CHECK(popped == 55 && is_untouched(&view, sizeof view) && is_untouched(&stats, sizeof stats));
    CHECK(error.status == WAVETRAIN_SHUTDOWN && strstr(error.text, "open another") != NULL);
}

static void check_handles(void) {
    const wavetrain_config config = small_config();
    const wavetrain_loader loader = open_small(&config), other = open_small(&config);
    const uint64_t garbage[] = { 0,
                                 1,
                                 63,
                                 64,
                                 255,
                                 UINT32_MAX,
                                 UINT64_MAX,
                                 0xDEADBEEFCAFEull,
                                 loader ^ 1ull << 63,
                                 loader + (1ull << 32),
                                 loader - (1ull << 32),
                                 ~loader };
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++)
        if (garbage[i] != loader && garbage[i] != other)
            check_dead(garbage[i], 1);
    CHECK(loader != other);
    wavetrain_batch batch = 0, foreign = 0;
    push_cube(loader, uri, 0, 0, 0, BOX, 1);
    push_cube(other, uri, 0, 0, 0, BOX, 2);
    CHECK_STATUS(wavetrain_pop(loader, LONG_NS, &batch, NULL), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_pop(other, LONG_NS, &foreign, NULL), WAVETRAIN_OK);
    CHECK(batch != foreign); /* the first of each, in the first slot of each */

    INIT(view, wavetrain_batch_view);
    const uint64_t wrong[] = { 0,         1,         UINT64_MAX,          batch + 1,
                               batch - 1, foreign,   batch ^ 1ull << 40 };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_STATUS(wavetrain_batch_info(loader, wrong[i], 0, &view), WAVETRAIN_INVALID);
        CHECK_STATUS(wavetrain_release(loader, wrong[i], NULL), WAVETRAIN_INVALID);
    }
    CHECK_STATUS(wavetrain_batch_info(loader, batch, 1, &view), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_batch_info(loader, batch, UINT32_MAX, &view), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_batch_info(loader, batch, 0, NULL), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_release(loader, batch, scratch), WAVETRAIN_UNSUPPORTED);
    CHECK(is_untouched(&view, sizeof view));
    CHECK_STATUS(wavetrain_batch_info(loader, batch, 0, &view), WAVETRAIN_OK);
    uint32_t held = 99;
    CHECK_STATUS(wavetrain_close(loader, UINT64_MAX, &held), WAVETRAIN_AGAIN);
    CHECK(held == 1);
    CHECK_STATUS(wavetrain_close(loader, 0, NULL), WAVETRAIN_AGAIN);
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, &held), WAVETRAIN_OK);
    CHECK(held == 0);
    check_dead(loader, batch);
    CHECK_STATUS(wavetrain_release(other, foreign, NULL), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_close(other, 0, NULL), WAVETRAIN_OK);

    /* A place that is used again has another name. */
    for (int i = 0; i < 20; i++) {
        const wavetrain_loader again = open_small(&config);
        CHECK(again != loader && again != other);
        check_dead(loader, batch);
        CHECK_STATUS(wavetrain_close(again, 0, NULL), WAVETRAIN_OK);
    }
}

/* ---- samples ---- */

/* The sample is refused, nothing is taken, and the text is there. */
static void push_refused(wavetrain_loader loader, const wavetrain_sample *sample, size_t bytes) {
    INIT(error, wavetrain_error);
    size_t taken = 99;
    const wavetrain_status status = wavetrain_push(loader, sample, 1, bytes, 0, &taken);
    if (status >= 0 || status == WAVETRAIN_SHUTDOWN || status == WAVETRAIN_INTERNAL) {
        fprintf(stderr, "a bad sample is %s\n", wavetrain_status_str(status));
        CHECK(!"refused");
    }
    CHECK(taken == 0);
    CHECK_STATUS(wavetrain_last_error(loader, &error), WAVETRAIN_OK);
    CHECK(error.status == status && error.text[0] != 0);
}

static void box_refused(wavetrain_loader loader, const wavetrain_box *box) {
    const wavetrain_sample sample = sample_of(box, 7);
    push_refused(loader, &sample, sizeof sample);
}

static void check_samples(wavetrain_loader loader) {
    static char long_uri[5001];
    const wavetrain_box good = cube_box(uri, 1, 2, 3, BOX);
    wavetrain_sample sample = sample_of(&good, 7);
    size_t taken = 99;
    memset(long_uri, 'a', 5000);
    long_uri[0] = '/';

    CHECK_STATUS(wavetrain_push(loader, NULL, 1, sizeof sample, 0, &taken), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_push(loader, &sample, 1, sizeof sample, 0, NULL), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_push(loader, &sample, SIZE_MAX, sizeof sample, 0, &taken),
                 WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_push(loader, NULL, 0, sizeof sample, UINT64_MAX, &taken), WAVETRAIN_OK);
    CHECK(taken == 0);
    const size_t sizes[] = { 0, 1, sizeof sample - 1, SIZE_MAX };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        push_refused(loader, &sample, sizes[i]);
    const uint32_t counts[] = { 0, 2, UINT32_MAX };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        sample.n_boxes = counts[i];
        push_refused(loader, &sample, sizeof sample);
    }
    sample = sample_of(&good, 7);
    const uint32_t box_sizes[] = { 0, 1, offsetof(wavetrain_box, field) - 1, UINT32_MAX };
    for (size_t i = 0; i < sizeof box_sizes / sizeof box_sizes[0]; i++) {
        sample.box_bytes = box_sizes[i];
        push_refused(loader, &sample, sizeof sample);
    }
    sample = sample_of(NULL, 7);
    push_refused(loader, &sample, sizeof sample);

    const uint32_t ranks[] = { 0, 2, 17, 4000000000u, UINT32_MAX };
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        wavetrain_box box = good;
        box.rank = ranks[i];
        box_refused(loader, &box);
    }
    const int64_t ranges[][2] = { { 8, 0 },
                                  { 0, 0 },
                                  { 0, BOX + 1 },
                                  { INT64_MIN, INT64_MAX },
                                  { INT64_MAX, INT64_MIN },
                                  { INT64_MIN, INT64_MIN },
                                  { INT64_MAX, INT64_MAX },
                                  { 0, INT64_MAX },
                                  { INT64_MIN, 0 } };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        wavetrain_box box = good;
        box.begin[1] = ranges[i][0];
        box.end[1] = ranges[i][1];
        box_refused(loader, &box);
    }
    const struct {
        const char *uri;
        uint64_t bytes;
    } uris[] = {
        { NULL, 5 },           { NULL, 0 },      { uri, 0 },           { long_uri, 4096 },
        { long_uri, 5000 },    { uri, UINT64_MAX }, { "/\xC3(", 3 },   { "/\xED\xA0\x80", 4 },
        { "/a\0b", 4 },        { "s3://a/b", 8 },
    };
    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        wavetrain_box box = good;
        box.uri = uris[i].uri;
        box.uri_bytes = uris[i].bytes;
        box_refused(loader, &box);
    }
    wavetrain_box box = good;
    box.reserved = 1;
    box_refused(loader, &box);

    /* Of several, those before the wrong one are taken. */
    box.rank = 17;
    const wavetrain_sample three[] = { sample_of(&good, 1), sample_of(&box, 2),
                                       sample_of(&good, 3) };
    const wavetrain_status status = wavetrain_push(loader, three, 3, sizeof three[0], 0, &taken);
    CHECK(status < 0 && taken == 1);

    /* A longer sample of a newer header: what we do not know must be 0. */
    struct {
        wavetrain_sample sample;
        uint64_t more;
    } longer = { sample_of(&good, 4), 0 };
    CHECK_STATUS(wavetrain_push(loader, &longer.sample, 1, sizeof longer, 0, &taken), WAVETRAIN_OK);
    longer.more = 1;
    push_refused(loader, &longer.sample, sizeof longer);

    /* After all that the two good samples come out, unharmed. */
    for (uint64_t tag = 1; tag <= 4; tag += 3) {
        wavetrain_batch batch = 0;
        CHECK_STATUS(wavetrain_pop(loader, UINT64_MAX, &batch, NULL), WAVETRAIN_OK);
        const wavetrain_batch_view view = view_of(loader, batch);
        CHECK(view.tags[0] == tag && row_is_cube(&view, 0, 0, 1, 2, 3, BOX));
        CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    }
}

/* Index lists: each member wrong in turn, then one that is right. */
static void check_lists(void) {
    wavetrain_config config = small_config();
    config.max_indices_per_sample = 64;
    const wavetrain_loader loader = open_small(&config);
    static const int64_t indices[] = { 7, 0, 0, 5, 6, 7, 2, 1, INT64_MAX };
    wavetrain_index_list lists[2];
    wavetrain_box box;
    INIT(error, wavetrain_error);
#define LISTS_REFUSED(change, word)                                                                \
    do {                                                                                           \
        box = cube_box(uri, 0, 0, 0, BOX);                                                         \
        memset(lists, 0, sizeof lists);                                                            \
        for (int i = 0; i < 2; i++)                                                                \
            lists[i] = (wavetrain_index_list){ (uint32_t)i, 0, indices, BOX };                     \
        box.lists = lists, box.n_lists = 2, box.list_bytes = sizeof *lists;                        \
        change;                                                                                    \
        box_refused(loader, &box);                                                                 \
        CHECK_STATUS(wavetrain_last_error(loader, &error), WAVETRAIN_OK);                          \
        CHECK(strstr(error.text, word) != NULL);                                                   \
    } while (0)
    LISTS_REFUSED(box.n_lists = 0, "n_lists = 0");
    LISTS_REFUSED(box.n_lists = 17, "n_lists = 17");
    LISTS_REFUSED(box.lists = NULL, "n_lists = 2");
    LISTS_REFUSED(box.list_bytes = 0, "list_bytes = 0");
    LISTS_REFUSED(box.list_bytes = sizeof *lists - 8, "list_bytes = 16");
    LISTS_REFUSED(box.list_bytes = UINT32_MAX, "list_bytes = 4294967295");
    LISTS_REFUSED(lists[0].axis = 3, "lists[0].axis = 3");
    LISTS_REFUSED(lists[1].axis = 0, "it has a list already");
    LISTS_REFUSED(lists[1].reserved = 1, "reserved = 1");
    LISTS_REFUSED(lists[0].indices = NULL, "must not be NULL");
    LISTS_REFUSED(lists[0].indices = (const int64_t *)((const char *)indices + 1), "multiple of 8");
    LISTS_REFUSED(lists[0].n_indices = 0, "begin 0, end 8");
    LISTS_REFUSED(lists[0].n_indices = 7, "begin 0, end 8");
    LISTS_REFUSED(lists[0].n_indices = UINT64_MAX, "18446744073709551615 indices");
    LISTS_REFUSED(lists[0].indices = indices + 1, "9223372036854775807");
    LISTS_REFUSED(box.begin[0] = 1, "begin 1, end 8");
    LISTS_REFUSED(box.step[1] = 2, "step 2");
    LISTS_REFUSED((box.n_lists = 1, lists[0].axis = 0, lists[0].n_indices = 9, box.end[0] = 9),
                  "9223372036854775807");
#undef LISTS_REFUSED
    box = cube_box(uri, 0, 0, 0, BOX);
    for (uint32_t i = 0; i < 2; i++)
        lists[i] = (wavetrain_index_list){ i, 0, indices, BOX };
    box.lists = lists, box.n_lists = 2, box.list_bytes = sizeof *lists;
    unsigned char target[BOX * BOX * BOX * 8];
    CHECK_STATUS(wavetrain_read_into(loader, &box, sizeof box, target, sizeof target, NULL, LONG_NS,
                                     &error), WAVETRAIN_OK);
    lists[1].reserved = 1;
    CHECK_STATUS(wavetrain_read_into(loader, &box, sizeof box, target, sizeof target, NULL, LONG_NS,
                                     &error), WAVETRAIN_INVALID);
    lists[1].reserved = 0;
    const wavetrain_sample sample = sample_of(&box, 5);
    wavetrain_batch batch = 0;
    size_t taken = 0;
    CHECK_STATUS(wavetrain_push(loader, &sample, 1, sizeof sample, 0, &taken), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_flush(loader), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_pop(loader, UINT64_MAX, &batch, &error), WAVETRAIN_OK);
    const wavetrain_batch_view view = view_of(loader, batch);
    CHECK(view.tags[0] == 5 && view.failed_samples == 0);
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_close(loader, UINT64_MAX, NULL), WAVETRAIN_OK);
}

/* Boxes whose shape is right but which no array can have: the store's metadata refuses them at pop.
 * */
static void check_far_boxes(void) {
    const int64_t begins[] = { -1,        INT64_MIN, INT64_MAX - BOX, EDGE - BOX + 1,
                               1ll << 32, 1ll << 62 };
    for (uint32_t pad = WAVETRAIN_PAD_NONE; pad <= WAVETRAIN_PAD_REFLECT; pad++) {
        wavetrain_config config = small_config();
        config.on_error = WAVETRAIN_ON_ERROR_SKIP;
        config.pad_mode = pad;
        config.pad_value_set = 1;
        config.pad_value = 5;
        const wavetrain_loader loader = open_small(&config);
        for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
            wavetrain_batch batch = 0;
            push_cube(loader, uri, 0, begins[i], 0, BOX, i);
            CHECK_STATUS(wavetrain_pop(loader, LONG_NS, &batch, NULL), WAVETRAIN_OK);
            const wavetrain_batch_view view = view_of(loader, batch);
            if (pad == WAVETRAIN_PAD_NONE)
                CHECK(view.statuses[0] == WAVETRAIN_INVALID && ((float *)view.data)[0] == 5);
            else
                CHECK(view.statuses[0] == WAVETRAIN_OK || view.statuses[0] == WAVETRAIN_INVALID);
            CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
        }
        CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
    }
}

/* ---- the stream ---- */

/* ---- tables ---- */

/* A push of one row that is refused, with a text that has `word` in it. */
static void table_refused(wavetrain_loader loader, const wavetrain_column *column,
                          wavetrain_status expected, const char *word) {
    INIT(error, wavetrain_error);
    const uint64_t tags[] = { 5 };
    size_t taken = 99;
    CHECK_STATUS(wavetrain_push_table(loader, column, 1, sizeof *column, 1, tags, 0, &taken),
                 expected);
    CHECK(taken == 0);
    CHECK_STATUS(wavetrain_last_error(loader, &error), WAVETRAIN_OK);
    CHECK(error.status == expected && error.tag == 5);
    if (strstr(error.text, word) == NULL || strncmp(error.text, "row 0: ", 7) != 0) {
        fprintf(stderr, "no \"%s\": %s\n", word, error.text);
        _exit(1);
    }
}

/* read_into with whatever is no box, no target, or no place for it. */
static void check_reads(wavetrain_loader loader) {
    static float target[BOX * BOX * BOX];
    const uint64_t bytes = sizeof target;
    wavetrain_box good;
    memset(&good, 0, sizeof good);
    good.uri = uri;
    good.uri_bytes = strlen(uri);
    good.rank = 3;
    for (int axis = 0; axis < 3; axis++)
        good.end[axis] = BOX;
#define READ(box, size, to, many, strides, status)                                                 \
    CHECK_STATUS(wavetrain_read_into(loader, box, size, to, many, strides, LONG_NS, NULL), status)
    READ(&good, sizeof good, target, bytes, NULL, WAVETRAIN_OK);
    READ(NULL, sizeof good, target, bytes, NULL, WAVETRAIN_INVALID);
    READ(&good, sizeof good, NULL, bytes, NULL, WAVETRAIN_INVALID);
    const size_t sizes[] = { 0, 1, 8, SIZE_MAX };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        READ(&good, sizes[i], target, bytes, NULL, WAVETRAIN_INVALID);
    const uint64_t few[] = { 0, 1, bytes - 1 };
    for (size_t i = 0; i < sizeof few / sizeof few[0]; i++)
        READ(&good, sizeof good, target, few[i], NULL, WAVETRAIN_INVALID);
    const int64_t strides[][3] = { { 0, 0, 0 },
                                   { 4, 4, 4 },
                                   { INT64_MIN, INT64_MIN, INT64_MIN },
                                   { INT64_MAX, INT64_MAX, INT64_MAX },
                                   { BOX * BOX * 4, BOX * 4, 3 },
                                   { BOX * BOX * 4, BOX * 4, INT64_MIN },
                                   { BOX * BOX * 4, 1, 4 } };
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++)
        READ(&good, sizeof good, target, bytes, strides[i], WAVETRAIN_INVALID);
    wavetrain_box wrong = good;
    wrong.rank = 17;
    READ(&wrong, sizeof wrong, target, bytes, NULL, WAVETRAIN_RANK);
    wrong = good;
    wrong.at[0] = 1;
    READ(&wrong, sizeof wrong, target, bytes, NULL, WAVETRAIN_INVALID);
    wrong = good;
    wrong.field = 1;
    READ(&wrong, sizeof wrong, target, bytes, NULL, WAVETRAIN_INVALID);
    wrong = good;
    wrong.end[0] = INT64_MAX;
    READ(&wrong, sizeof wrong, target, bytes, NULL, WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_read_into(0, &good, sizeof good, target, bytes, NULL, 0, NULL),
                 WAVETRAIN_SHUTDOWN);
#undef READ
}

/* lend with whatever is no memory for a batch: nothing is written. */
static void check_lends(wavetrain_loader loader) {
    static float block[64];
    const wavetrain_target good = { block, sizeof block };
    const uint32_t size = sizeof good;
    CHECK_STATUS(wavetrain_lend(loader, NULL, 1, size, NULL, 0), WAVETRAIN_INVALID);
    const uint32_t counts[] = { 0, 2, UINT32_MAX }, sizes[] = { 0, 1, 8, UINT32_MAX };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        CHECK_STATUS(wavetrain_lend(loader, &good, counts[i], size, NULL, 0), WAVETRAIN_INVALID);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        CHECK_STATUS(wavetrain_lend(loader, &good, 1, sizes[i], NULL, 0), WAVETRAIN_INVALID);
    const wavetrain_target targets[] = { { NULL, UINT64_MAX },
                                         { block, 0 },
                                         { block, sizeof block },
                                         { block, UINT64_MAX },
                                         { (char *)block + 1, UINT32_MAX },
                                         { (void *)UINTPTR_MAX, 1 },
                                         { (void *)(UINTPTR_MAX - 3), UINT64_MAX } };
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
        CHECK_STATUS(wavetrain_lend(loader, &targets[i], 1, size, NULL, 0), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_lend(0, &good, 1, size, NULL, 0), WAVETRAIN_SHUTDOWN);
}

static void check_tables(wavetrain_loader loader) {
    static const int64_t begin[] = { 1, 2, 3 }, far[] = { INT64_MAX, 2, 3 };
    static const uint64_t shape[] = { BOX, BOX, BOX }, flat[] = { BOX, 0, BOX };
    static const uint64_t endless[] = { UINT64_MAX, BOX, BOX }, at[] = { 0, 1, 0 };
    static const int64_t least[] = { 1, 1, INT64_MIN };
    static const uint32_t second[] = { 1 };
    static const float floats[64] = { 1 };
    const char *const uris[] = { uri, NULL };
    wavetrain_augment augment;
    wavetrain_affine affine;
    wavetrain_erase erase;
    wavetrain_column good;
    memset(&good, 0, sizeof good);
    good.struct_size = sizeof good;
    good.rank = 3;
    good.uris = uris;
    good.n_uris = 2;
    good.begin = begin;
    good.shape = shape;
    const uint32_t size = sizeof good;
    size_t taken = 99;
    CHECK_STATUS(wavetrain_push_table(loader, NULL, 1, size, 1, NULL, 0, &taken),
                 WAVETRAIN_INVALID);
    CHECK(taken == 0);
    CHECK_STATUS(wavetrain_push_table(loader, &good, 1, size, 1, NULL, 0, NULL),
                 WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_push_table(loader, NULL, 0, 0, 0, NULL, UINT64_MAX, &taken),
                 WAVETRAIN_OK);
    const size_t counts[] = { SIZE_MAX, SIZE_MAX / 24, SIZE_MAX / 24 + 1, SIZE_MAX / 8 + 1 };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const uint64_t *const tags = i == 0 ? at : NULL;
        taken = 99;
        CHECK_STATUS(wavetrain_push_table(loader, &good, 1, size, counts[i], tags, 0, &taken),
                     WAVETRAIN_INVALID);
        CHECK(taken == 0);
    }
    const uint32_t n_columns[] = { 0, 2, UINT32_MAX };
    for (size_t i = 0; i < sizeof n_columns / sizeof n_columns[0]; i++)
        CHECK_STATUS(wavetrain_push_table(loader, &good, n_columns[i], size, 1, NULL, 0, &taken),
                     WAVETRAIN_INVALID);
    const uint32_t sizes[] = { 0, 1, size - 1, size - 8, size + 4, UINT32_MAX };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        CHECK_STATUS(wavetrain_push_table(loader, &good, 1, sizes[i], 1, NULL, 0, &taken),
                     WAVETRAIN_INVALID);

#define COLUMN_REFUSED(change, status, word)                                                       \
    do {                                                                                           \
        wavetrain_column wrong = good;                                                             \
        change;                                                                                    \
        table_refused(loader, &wrong, status, word);                                               \
    } while (0)
    COLUMN_REFUSED(wrong.struct_size = 0, WAVETRAIN_INVALID, "struct_size = 0");
    COLUMN_REFUSED(wrong.rank = 17, WAVETRAIN_RANK, "rank 17");
    COLUMN_REFUSED(wrong.rank = UINT32_MAX, WAVETRAIN_RANK, "rank");
    COLUMN_REFUSED(wrong.field = 1, WAVETRAIN_INVALID, "field = 1");
    COLUMN_REFUSED(wrong.kind = WAVETRAIN_BOX_MEMORY, WAVETRAIN_INVALID, "kind = 1");
    COLUMN_REFUSED(wrong.kind = 3, WAVETRAIN_INVALID, "kind = 3");
    COLUMN_REFUSED(wrong.kind = WAVETRAIN_BOX_VALUE, WAVETRAIN_INVALID, "uris or values");
    COLUMN_REFUSED(wrong.flags = 256, WAVETRAIN_INVALID, "flags = 256");
    COLUMN_REFUSED(wrong.reserved = 1, WAVETRAIN_INVALID, "reserved = 1");
    COLUMN_REFUSED(wrong.affine_bytes = 8, WAVETRAIN_INVALID, "affine_bytes = 8");
    COLUMN_REFUSED(wrong.affine = &affine, WAVETRAIN_INVALID, "affine_bytes = 0");
    COLUMN_REFUSED(wrong.augment_bytes = 8, WAVETRAIN_INVALID, "augment_bytes = 8");
    COLUMN_REFUSED(wrong.augment = &augment, WAVETRAIN_INVALID, "augment_bytes = 0");
    /* A change of a column's augment, of its one erased box too, and a word of the refusal. */
#define AUGMENT_REFUSED(change, word)                                                              \
    do {                                                                                           \
        memset(&augment, 0, sizeof augment);                                                       \
        memset(&erase, 0, sizeof erase);                                                           \
        augment.struct_size = sizeof augment;                                                      \
        augment.scale = floats;                                                                    \
        augment.n_channels = 2;                                                                    \
        augment.erase = &erase;                                                                    \
        augment.n_erase = 1;                                                                       \
        augment.erase_bytes = sizeof erase;                                                        \
        erase.end[0] = erase.end[1] = 1;                                                           \
        erase.values = floats;                                                                     \
        erase.n_values = 1;                                                                        \
        wavetrain_column wrong = good;                                                             \
        wrong.augment = &augment;                                                                  \
        wrong.augment_bytes = sizeof augment;                                                      \
        wrong.flags |= WAVETRAIN_AUGMENT_IS_ONE;                                                   \
        change;                                                                                    \
        table_refused(loader, &wrong, WAVETRAIN_INVALID, word);                                    \
    } while (0)
    AUGMENT_REFUSED((void)0, "the config keeps no memory");
    AUGMENT_REFUSED(augment.struct_size = 0, "augment.struct_size = 0");
    AUGMENT_REFUSED(augment.struct_size = sizeof augment + 8, "more than augment_bytes = 80");
    AUGMENT_REFUSED(wrong.augment_bytes = sizeof augment - 8, "augment_bytes = 72");
    AUGMENT_REFUSED(wrong.augment_bytes = sizeof augment + 4, "augment_bytes = 84");
    AUGMENT_REFUSED(augment.n_channels = 65, "n_channels = 65");
    AUGMENT_REFUSED(augment.n_channels = UINT32_MAX, "n_channels");
    AUGMENT_REFUSED(augment.n_channels = 0, "n_channels = 0, but scale");
    AUGMENT_REFUSED(augment.has_clamp = 2, "has_clamp = 2");
    AUGMENT_REFUSED(augment.pad_goes_through = 2, "pad_goes_through = 2");
    AUGMENT_REFUSED(augment.reserved = 1, "reserved = 1");
    AUGMENT_REFUSED(augment.n_erase = 9, "n_erase = 9");
    AUGMENT_REFUSED(augment.n_erase = 0, "n_erase = 0");
    AUGMENT_REFUSED(augment.erase = NULL, "n_erase = 1");
    AUGMENT_REFUSED((augment.erase = NULL, augment.n_erase = 0), "erase_bytes 0");
    AUGMENT_REFUSED(augment.erase_bytes = 0, "augment.erase_bytes = 0");
    AUGMENT_REFUSED(augment.erase_bytes = sizeof erase - 1, "erase_bytes");
    AUGMENT_REFUSED(erase.values = NULL, "erase[0]: 1 values");
    AUGMENT_REFUSED(erase.n_values = 0, "erase[0]: 0 values");
    AUGMENT_REFUSED(erase.n_values = 65, "erase[0]: 65 values");
    AUGMENT_REFUSED(erase.reserved = 1, "erase[0].reserved = 1");
#undef AUGMENT_REFUSED
#define AFFINE_REFUSED(change, word)                                                               \
    do {                                                                                           \
        memset(&affine, 0, sizeof affine);                                                         \
        affine.struct_size = sizeof affine;                                                        \
        wavetrain_column wrong = good;                                                             \
        wrong.affine = &affine;                                                                    \
        wrong.affine_bytes = sizeof affine;                                                        \
        wrong.flags |= WAVETRAIN_AFFINE_IS_ONE;                                                    \
        change;                                                                                    \
        table_refused(loader, &wrong, WAVETRAIN_INVALID, word);                                    \
    } while (0)
    AFFINE_REFUSED((void)0, "the config keeps no memory");
    AFFINE_REFUSED(affine.struct_size = 0, "affine.struct_size = 0");
    AFFINE_REFUSED(affine.struct_size = sizeof affine + 8, "more than affine_bytes = 136");
    AFFINE_REFUSED(wrong.affine_bytes = sizeof affine - 8, "affine_bytes = 128");
    AFFINE_REFUSED(wrong.affine_bytes = sizeof affine + 4, "affine_bytes = 140");
    AFFINE_REFUSED(affine.has_units = 2, "has_units = 2");
    AFFINE_REFUSED(affine.reserved = 1, "reserved = 1");
#undef AFFINE_REFUSED
    COLUMN_REFUSED(wrong.values = at, WAVETRAIN_INVALID, "uris or values");
    COLUMN_REFUSED(wrong.uris = NULL, WAVETRAIN_INVALID, "uris is NULL");
    COLUMN_REFUSED(wrong.n_uris = 0, WAVETRAIN_INVALID, "which = 0: 0 uris");
    COLUMN_REFUSED(wrong.which = second, WAVETRAIN_INVALID, "a uri is NULL");
    COLUMN_REFUSED((wrong.which = second, wrong.n_uris = 1), WAVETRAIN_INVALID,
                   "which = 1: 1 uris");
    COLUMN_REFUSED(wrong.begin = NULL, WAVETRAIN_INVALID, "begin is missing");
    COLUMN_REFUSED(wrong.shape = NULL, WAVETRAIN_INVALID, "shape is missing");
    COLUMN_REFUSED(wrong.begin = (const void *)((const char *)begin + 1), WAVETRAIN_INVALID,
                   "begin does");
    COLUMN_REFUSED(wrong.shape = flat, WAVETRAIN_INVALID, "axis 1: box [2, 2) is empty");
    COLUMN_REFUSED(wrong.shape = endless, WAVETRAIN_INVALID, "no such box");
    COLUMN_REFUSED(wrong.begin = far, WAVETRAIN_INVALID, "no such box");
    COLUMN_REFUSED(wrong.step = least, WAVETRAIN_INVALID, "no such box");
    COLUMN_REFUSED(wrong.at = at, WAVETRAIN_INVALID, "do not fit an extent of 8");
    wavetrain_column value;
    memset(&value, 0, sizeof value);
    value.struct_size = sizeof value;
    value.kind = WAVETRAIN_BOX_VALUE;
    value.values = at;
    value.value_dtype = WAVETRAIN_I64;
    value.value_bytes = 8;
    table_refused(loader, &value, WAVETRAIN_RANK, "do not give sample_shape");
    value.values = NULL;
    table_refused(loader, &value, WAVETRAIN_INVALID, "values is missing");
    value.values = at;
    value.value_dtype = 99;
    table_refused(loader, &value, WAVETRAIN_INVALID, "value_dtype = 99");
    value.value_dtype = WAVETRAIN_I64;
    value.value_bytes = UINT32_MAX;
    value.flags = WAVETRAIN_VALUES_IS_ONE;
    value.values = NULL;
    table_refused(loader, &value, WAVETRAIN_INVALID, "values is missing");
    /* A row that is right is taken, before one that is not. */
    const int64_t begins[] = { 1, 2, 3, 4, 5, 6 };
    const uint32_t which[] = { 0, 1 };
    const uint64_t tags[] = { 70, 71 };
    good.begin = begins;
    good.which = which;
    good.flags = WAVETRAIN_SHAPE_IS_ONE;
    CHECK_STATUS(wavetrain_push_table(loader, &good, 1, size, 2, tags, 0, &taken),
                 WAVETRAIN_INVALID);
    CHECK(taken == 1);
    good.flags |= WAVETRAIN_WHICH_IS_ONE;
    CHECK_STATUS(wavetrain_push_table(loader, &good, 1, size, 1, tags, 0, &taken), WAVETRAIN_OK);
    CHECK(taken == 1);
    wavetrain_batch batch;
    CHECK_STATUS(wavetrain_flush(loader), WAVETRAIN_OK);
    for (int seen = 0; seen < 2;) {
        CHECK_STATUS(wavetrain_pop(loader, LONG_NS, &batch, NULL), WAVETRAIN_OK);
        const wavetrain_batch_view view = view_of(loader, batch);
        for (uint32_t row = 0; row < view.sample_count; row++, seen++)
            CHECK(view.tags[row] == 70 && row_is_cube(&view, row, 0, 1, 2, 3, BOX));
        CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    }
}

static void check_stream(uint32_t thread_mode) {
    wavetrain_config config = small_config();
    config.thread_mode = thread_mode;
    const wavetrain_loader loader = open_small(&config);
    INIT(error, wavetrain_error);
    wavetrain_batch batch = 55;
    CHECK_STATUS(wavetrain_pop(loader, 0, &batch, &error), WAVETRAIN_AGAIN);
    CHECK_STATUS(wavetrain_pop(loader, 1, &batch, &error), WAVETRAIN_STARVED);
    CHECK(error.status == WAVETRAIN_STARVED && error.text[0] != 0 && batch == 55);
    CHECK_STATUS(wavetrain_pop(loader, 0, NULL, NULL), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_stats(loader, NULL), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_last_error(loader, NULL), WAVETRAIN_INVALID);
    const wavetrain_status pumped = wavetrain_pump(loader, UINT64_MAX);
    CHECK(pumped == (thread_mode == WAVETRAIN_THREADS_PUMP ? WAVETRAIN_AGAIN : WAVETRAIN_INVALID));
    check_samples(loader);
    CHECK_STATUS(wavetrain_flush(loader), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_flush(loader), WAVETRAIN_OK);
    batch = 55;
    CHECK_STATUS(wavetrain_pop(loader, UINT64_MAX, &batch, NULL), WAVETRAIN_END);
    CHECK_STATUS(wavetrain_pop(loader, 0, &batch, NULL), WAVETRAIN_END);
    CHECK(batch == 55);
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(wavetrain_reset(loader), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_stats_reset(loader), WAVETRAIN_OK);
    check_samples(loader);
    check_tables(loader);
    check_reads(loader);
    check_lends(loader);
    CHECK_STATUS(wavetrain_close(loader, UINT64_MAX, NULL), WAVETRAIN_OK);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    uri = argv[1];
    alarm(120); /* a hang is a failure */
    check_names();
    check_config();
    check_array_info();
    check_metadata();
    check_config_fit();
    check_struct_sizes();
    check_handles();
    check_lists();
    check_far_boxes();
    check_stream(WAVETRAIN_THREADS_PUMP);
    check_stream(WAVETRAIN_THREADS_OWN);
    return 0;
}
