/* stacks.c ARRAY [DOCUMENTS]: how much stack each public function takes, beside what a thread has
 * in use when it does nothing. The header promises STACK_BYTES at most, apart from calls that work
 * for a loader without threads of ours.
 *
 * Each call is made on a thread of its own, whose stack was painted before it began. DOCUMENTS is a
 * folder of metadata documents, good and bad ones, each in a folder of its own.
 */
#define _GNU_SOURCE
#include "check.h"

#include <dirent.h>
#include <pthread.h>

enum { STACK_BYTES = 32 << 10, PAINTED_BYTES = 1 << 20, PAINT = 0xA5, BOX = 6, BATCH = 2 };

static _Alignas(4096) unsigned char stack[PAINTED_BYTES];
static unsigned char scratch[WAVETRAIN_SCRATCH_BYTES];
static size_t idle_bytes;

static const char *uri;
static wavetrain_config config;
static wavetrain_loader loader;
static wavetrain_batch batch;
static wavetrain_error error = { .struct_size = sizeof error };
static wavetrain_status status;

static void *enter(void *call) {
    ((void (*)(void))(uintptr_t)call)();
    return NULL;
}

static size_t bytes_of(void (*call)(void)) {
    pthread_attr_t attributes;
    pthread_t thread;
    memset(stack, PAINT, sizeof stack);
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstack(&attributes, stack, sizeof stack) == 0);
    CHECK(pthread_create(&thread, &attributes, enter, (void *)(uintptr_t)call) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_attr_destroy(&attributes) == 0);
    size_t untouched = 0;
    while (untouched < sizeof stack && stack[untouched] == PAINT)
        untouched++;
    return sizeof stack - untouched;
}

static int is_over;

/* Makes a call and says what it took. */
static void measure(const char *name, void (*call)(void)) {
    const size_t bytes = bytes_of(call) - idle_bytes;
    if (bytes > STACK_BYTES) {
        is_over = 1;
        fprintf(stderr, "wavetrain_%s took %zu bytes of stack, not %d at most\n", name, bytes,
                STACK_BYTES);
    }
    printf("%s %zu\n", name, bytes);
}

static void nothing(void) {
}

static void take_line(void *user, uint32_t level, uint64_t tag, const char *text, uint64_t bytes) {
    (void)user, (void)level, (void)tag;
    CHECK(strlen(text) == bytes);
}

static void version(void) {
    CHECK(wavetrain_version() == WAVETRAIN_VERSION);
}

static void status_str(void) {
    CHECK(strcmp(wavetrain_status_str(WAVETRAIN_IO), "IO") == 0);
}

static void config_default(void) {
    wavetrain_config other;
    CHECK_STATUS(wavetrain_config_default(&other, sizeof other), WAVETRAIN_OK);
}

static void config_fit(void) {
    wavetrain_config fitted = config;
    const char *const uris[2] = { uri, uri };
    fitted.max_host_memory_bytes = 1;
    CHECK_OK(wavetrain_config_fit(&fitted, uris, 2, scratch, sizeof scratch, &error), error);
    CHECK(fitted.max_host_memory_bytes > 1);
}

static wavetrain_memory need = { .struct_size = sizeof need };

static void memory_need(void) {
    CHECK_OK(wavetrain_memory_need(&config, &need, &error), error);
}

static void memory_need_over_the_cap(void) {
    wavetrain_config poor = config;
    poor.max_host_memory_bytes = 1;
    CHECK_STATUS(wavetrain_memory_need(&poor, &need, &error), WAVETRAIN_BUDGET);
}

static wavetrain_array_view view = { .struct_size = sizeof view };

static void array_info(void) {
    status = wavetrain_array_info(uri, NULL, scratch, sizeof scratch, &view, &error);
}

static void array_info_of_before(void) {
    const size_t whole = view.struct_size;
    view.struct_size = offsetof(wavetrain_array_view, entries);
    status = wavetrain_array_info(uri, NULL, scratch, sizeof scratch, &view, &error);
    view.struct_size = whole;
}

static void metadata(void) {
    static unsigned char out[1 << 20];
    wavetrain_metadata_part part = { .struct_size = sizeof part, .shard_count = 64 };
    part.out = out;
    part.out_bytes = sizeof out;
    status = wavetrain_metadata(uri, &config, scratch, sizeof scratch, &part, &error);
}

static void open_call(void) {
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
}

static void open_over_the_cap(void) {
    wavetrain_loader none;
    wavetrain_config poor = config;
    poor.max_host_memory_bytes = 1;
    CHECK_STATUS(wavetrain_open(&poor, &none, &error), WAVETRAIN_BUDGET);
}

static void push(void) {
    for (int i = 0; i < BATCH; i++)
        push_cube(loader, uri, i, 2 * i, 3 * i, BOX, (uint64_t)i);
}

static void push_what_is_refused(void) {
    wavetrain_box box = cube_box(uri, 0, 0, 0, BOX + 1);
    const wavetrain_sample sample = sample_of(&box, 1);
    size_t taken;
    CHECK_STATUS(wavetrain_push(loader, &sample, 1, sizeof sample, 0, &taken), WAVETRAIN_INVALID);
}

static void push_table(void) {
    static const int64_t begins[] = { 0, 0, 0, 1, 2, 3 };
    static const uint64_t shape[] = { BOX, BOX, BOX };
    const wavetrain_column column = { .struct_size = sizeof column,
                                      .rank = 3,
                                      .flags = WAVETRAIN_SHAPE_IS_ONE,
                                      .uris = &uri,
                                      .n_uris = 1,
                                      .begin = begins,
                                      .shape = shape };
    size_t taken;
    CHECK_STATUS(wavetrain_push_table(loader, &column, 1, sizeof column, 2, NULL, 0, &taken),
                 WAVETRAIN_OK);
}

static void push_table_that_is_refused(void) {
    const char *const no_scheme = "s3://bucket/array";
    static const int64_t begin[] = { 0, 0, 0 };
    static const uint64_t shape[] = { BOX, BOX, BOX };
    const wavetrain_column column = { .struct_size = sizeof column,
                                      .rank = 3,
                                      .uris = &no_scheme,
                                      .n_uris = 1,
                                      .begin = begin,
                                      .shape = shape };
    size_t taken;
    CHECK_STATUS(wavetrain_push_table(loader, &column, 1, sizeof column, 1, NULL, 0, &taken),
                 WAVETRAIN_UNSUPPORTED);
}

static void flush(void) {
    CHECK_STATUS(wavetrain_flush(loader), WAVETRAIN_OK);
}

static void pop(void) {
    CHECK_STATUS(wavetrain_pop(loader, LONG_NS, &batch, &error), WAVETRAIN_OK);
}

static void pop_in_vain(void) {
    CHECK_STATUS(wavetrain_pop(loader, 1000, &batch, &error), WAVETRAIN_STARVED);
}

static void pop_a_failure(void) {
    wavetrain_batch none;
    CHECK_STATUS(wavetrain_pop(loader, LONG_NS, &none, &error), WAVETRAIN_INVALID);
}

static void batch_info(void) {
    const wavetrain_batch_view seen = view_of(loader, batch);
    CHECK(seen.sample_count == BATCH);
}

static struct DLManagedTensorVersioned *tensor;
static struct DLManagedTensor *legacy;

static void dlpack(void) {
    CHECK_STATUS(wavetrain_dlpack(loader, batch, 0, NULL, &tensor), WAVETRAIN_OK);
}

static void dlpack_legacy(void) {
    CHECK_STATUS(wavetrain_dlpack_legacy(loader, batch, 0, NULL, &legacy), WAVETRAIN_OK);
}

/* The deleters' places in dlpack.h. */
static void deleters(void) {
    void (*deleter)(void *);
    memcpy(&deleter, (char *)tensor + 16, sizeof deleter);
    deleter(tensor);
    memcpy(&deleter, (char *)legacy + 56, sizeof deleter);
    deleter(legacy);
}

static void release(void) {
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
}

static void release_what_is_not_held(void) {
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_INVALID);
}

static void reset(void) {
    CHECK_STATUS(wavetrain_reset(loader), WAVETRAIN_OK);
}

static void pump_in_vain(void) {
    CHECK_STATUS(wavetrain_pump(loader, 0), WAVETRAIN_INVALID);
}

static void read_done(void) {
    CHECK_STATUS(wavetrain_read_done(loader, 7, 0), WAVETRAIN_INVALID);
}

static void stats(void) {
    static wavetrain_stats_view seen = { .struct_size = sizeof seen };
    CHECK_STATUS(wavetrain_stats(loader, &seen), WAVETRAIN_OK);
}

static void stats_reset(void) {
    CHECK_STATUS(wavetrain_stats_reset(loader), WAVETRAIN_OK);
}

static void last_error(void) {
    CHECK_STATUS(wavetrain_last_error(loader, &error), WAVETRAIN_OK);
}

static void close_in_vain(void) {
    uint32_t held = 0;
    CHECK_STATUS(wavetrain_close(loader, 0, &held), WAVETRAIN_AGAIN);
}

static void close_call(void) {
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
}

/* Every document, as an array and as a group; the deepest of them is what counts. */
static void measure_documents(const char *folder) {
    static char path[4096];
    DIR *documents = opendir(folder);
    size_t most = 0, count = 0;
    CHECK(documents != NULL);
    for (struct dirent *entry; (entry = readdir(documents)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        uri = path;
        const size_t now = bytes_of(array_info), before = bytes_of(array_info_of_before);
        const size_t looked_up = bytes_of(metadata);
        most = now > most ? now : most;
        most = looked_up > most ? looked_up : most;
        most = before > most ? before : most;
        count++;
    }
    closedir(documents);
    uri = folder;
    const size_t listed = bytes_of(array_info);
    most = listed > most ? listed : most;
    CHECK(count > 0);
    is_over |= most - idle_bytes > STACK_BYTES;
    printf("array_info of %zu documents: %zu\n", count, most - idle_bytes);
}

static void measure_life(void) {
    measure("open", open_call);
    measure("open", open_over_the_cap);
    measure("pop", pop_in_vain);
    measure("push", push);
    measure("pop", pop);
    measure("batch_info", batch_info);
    measure("dlpack", dlpack);
    measure("dlpack_legacy", dlpack_legacy);
    measure("a deleter", deleters);
    measure("release", release);
    measure("release", release_what_is_not_held);
    measure("push", push_what_is_refused);
    measure("push_table", push_table);
    pop();
    release();
    measure("push_table", push_table_that_is_refused);
    measure("last_error", last_error);
    push();
    push_cube(loader, uri, EDGE, EDGE, EDGE, BOX, 9);
    measure("flush", flush);
    measure("pop", pop);
    measure("pop", pop_a_failure);
    measure("reset", reset);
    measure("pump", pump_in_vain);
    measure("read_done", read_done);
    measure("stats", stats);
    measure("stats_reset", stats_reset);
    measure("close", close_in_vain);
    release();
    measure("close", close_call);
}

int main(int argc, char **argv) {
    CHECK(argc == 2 || argc == 3);
    uri = argv[1];
    config = cube_config(BOX);
    config.samples_per_batch = BATCH;
    config.log.log = take_line;
    idle_bytes = bytes_of(nothing);
    measure("version", version);
    measure("status_str", status_str);
    measure("config_default", config_default);
    measure("config_fit", config_fit);
    measure("memory_need", memory_need);
    measure("memory_need", memory_need_over_the_cap);
    config.chunk_cache_bytes = 1 << 20;
    measure_life();
    measure("array_info", array_info);
    CHECK_STATUS(status, WAVETRAIN_OK);
    measure("metadata", metadata);
    CHECK_STATUS(status, WAVETRAIN_OK);
    if (argc == 3)
        measure_documents(argv[2]);
    return is_over;
}
