/* hooks.c: memory, files and log come from the host when it says so.
 *
 * The store is a table in this program: an array of 8x8 uint16 in raw chunks of 4x4, of which one
 * is absent, and arrays that fail in every way a hook can fail.
 */
#include "check.h"

#include <stdatomic.h>

enum { SIDE = 8, TILE = 4, TILE_BYTES = TILE * TILE * 2 };

static const char metadata[] =
    "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[8,8],\"data_type\":\"uint16\","
    "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[4,4]}},"
    "\"chunk_key_encoding\":{\"name\":\"default\",\"configuration\":{\"separator\":\"/\"}},"
    "\"fill_value\":7,\"codecs\":[{\"name\":\"bytes\",\"configuration\":{\"endian\":\"little\"}}],"
    "\"attributes\":{}}";

static unsigned char tiles[3][TILE_BYTES]; /* of c/0/0, c/0/1, c/1/0; c/1/1 is absent */

static const struct file {
    const char *name;
    const void *bytes;
    int64_t size;       /* what size returns */
    int64_t read_gives; /* what read returns */
} files[] = {
    { "/table/good/zarr.json", metadata, sizeof metadata - 1, 0 },
    { "/table/good/c/0/0", tiles[0], TILE_BYTES, 0 },
    { "/table/good/c/0/1", tiles[1], TILE_BYTES, 0 },
    { "/table/good/c/1/0", tiles[2], TILE_BYTES, 0 },
    { "/table/no_size/zarr.json", metadata, sizeof metadata - 1, 0 },
    { "/table/no_size/c/0/0", tiles[0], WAVETRAIN_FILE_FAILED, 0 },
    { "/table/odd_size/zarr.json", metadata, sizeof metadata - 1, 0 },
    { "/table/odd_size/c/0/0", tiles[0], -77, 0 },
    { "/table/no_read/zarr.json", metadata, sizeof metadata - 1, 0 },
    { "/table/no_read/c/0/0", tiles[0], TILE_BYTES, WAVETRAIN_FILE_FAILED },
    { "/table/odd_read/zarr.json", metadata, sizeof metadata - 1, 0 },
    { "/table/odd_read/c/0/0", tiles[0], TILE_BYTES, 32 },
    { "/table/short/zarr.json", metadata, sizeof metadata - 1, 0 },
    { "/table/short/c/0/0", tiles[0], TILE_BYTES - 1, 0 },
    { "/table/no_metadata/zarr.json", metadata, WAVETRAIN_FILE_FAILED, 0 },
};

static int the_user; /* its address is what every hook gets */
static _Atomic int closed;

static const struct file *find(void *user, const char *name) {
    CHECK(user == &the_user && !atomic_load(&closed));
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}

static int64_t size_hook(void *user, const char *name) {
    const struct file *file = find(user, name);
    return file == NULL ? WAVETRAIN_FILE_ABSENT : file->size;
}

static int64_t read_hook(void *user, const char *name, uint64_t offset, void *target,
                         uint64_t bytes) {
    const struct file *file = find(user, name);
    if (file == NULL)
        return WAVETRAIN_FILE_ABSENT;
    CHECK(file->size >= 0 && offset <= (uint64_t)file->size);
    CHECK(bytes <= (uint64_t)file->size - offset);
    if (file->read_gives == 0)
        memcpy(target, (const char *)file->bytes + offset, bytes);
    return file->read_gives;
}

static wavetrain_config table_config(uint32_t thread_mode) {
    wavetrain_config config = cube_config(1);
    config.sample_rank = 2;
    config.sample_shape[0] = config.sample_shape[1] = SIDE;
    config.thread_mode = thread_mode;
    config.max_chunk_uncompressed_bytes = 1 << 16;
    config.files.user = &the_user;
    config.files.size = size_hook;
    config.files.read = read_hook;
    return config;
}

static void push_table(wavetrain_loader loader, const char *uri, int64_t side, uint64_t tag) {
    wavetrain_box box = cube_box(uri, 0, 0, 0, side);
    box.rank = 2;
    const wavetrain_sample sample = sample_of(&box, tag);
    size_t taken = 0;
    CHECK_STATUS(wavetrain_push(loader, &sample, 1, sizeof sample, LONG_NS, &taken), WAVETRAIN_OK);
}

static void check_files(uint32_t thread_mode) {
    const wavetrain_config config = table_config(thread_mode);
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_loader loader;
    wavetrain_batch batch;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    push_table(loader, "/table/good", SIDE, 5);
    push_table(loader, "file:///table/good/", SIDE, 6);
    for (uint64_t tag = 5; tag < 7; tag++) {
        CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
        const wavetrain_batch_view view = view_of(loader, batch);
        CHECK(view.tags[0] == tag);
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                const int absent = y >= TILE && x >= TILE;
                CHECK(((float *)view.data)[y * SIDE + x] == (float)(absent ? 7 : 1000 * y + x));
            }
        CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    }
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
}

/* A store that fails as `uri` does gives `expected` at pop, with a text that names it. */
static void check_failure(const char *uri, wavetrain_status expected, uint32_t thread_mode) {
    const wavetrain_config config = table_config(thread_mode);
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_loader loader;
    wavetrain_batch batch = 55;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    push_table(loader, "/table/good", SIDE, 1);
    push_table(loader, uri, SIDE, 2);
    CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    batch = 55;
    for (int time = 0; time < 2; time++) { /* the error stays */
        memset(&error, 0, sizeof error);
        error.struct_size = sizeof error;
        CHECK_STATUS(wavetrain_pop(loader, LONG_NS, &batch, &error), expected);
        CHECK(batch == 55 && error.status == expected && error.tag == 2 && error.batch_id == 1);
        CHECK(strstr(error.text, uri) != NULL);
    }
    CHECK_STATUS(wavetrain_reset(loader), WAVETRAIN_OK);
    push_table(loader, "/table/good", SIDE, 3);
    CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
    CHECK(view_of(loader, batch).tags[0] == 3 && view_of(loader, batch).batch_id == 0);
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
}

static void check_metadata_calls(void) {
    static unsigned char scratch[WAVETRAIN_SCRATCH_BYTES + 1];
    wavetrain_config config = table_config(WAVETRAIN_THREADS_PUMP);
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_array_view array = { .struct_size = sizeof array };
    /* Scratch of any alignment will do. */
    CHECK_OK(wavetrain_array_info("/table/good", &config.files, scratch + 1,
                                  WAVETRAIN_SCRATCH_BYTES, &array, &error),
             error);
    CHECK(array.rank == 2 && array.shape[0] == SIDE && array.shape[1] == SIDE);
    CHECK(array.chunk_shape[0] == TILE && array.file_shape[1] == TILE && array.shard_levels == 0);
    CHECK(array.dtype == WAVETRAIN_U16 && array.dtype_bytes == 2 && array.chunk_bytes == 32);
    CHECK(array.fill[0] == 7 && array.fill[1] == 0 && strstr(array.codecs, "bytes") != NULL);
    CHECK_STATUS(wavetrain_array_info("/table/nothing", &config.files, scratch, sizeof scratch,
                                      &array, &error),
                 WAVETRAIN_NOT_FOUND);
    CHECK_STATUS(wavetrain_array_info("/table/no_metadata", &config.files, scratch, sizeof scratch,
                                      &array, &error),
                 WAVETRAIN_IO);
    CHECK(array.rank == 2 && strstr(error.text, "/table/no_metadata") != NULL);

    const char *uris[] = { "/table/good" };
    config.max_chunk_uncompressed_bytes = 1;
    CHECK_OK(wavetrain_config_fit(&config, uris, 1, scratch, sizeof scratch, &error), error);
    CHECK(config.max_chunk_uncompressed_bytes >= TILE_BYTES);
}

/* ---- memory ---- */

enum { BLOCKS_MAX = 64 };
static struct {
    void *block;
    uint64_t bytes, align;
} blocks[BLOCKS_MAX];
static int block_count, calls_left;

static void *alloc_hook(void *user, uint64_t bytes, uint64_t align) {
    CHECK(user == &the_user && align != 0 && (align & (align - 1)) == 0 && bytes != 0);
    if (calls_left-- == 0)
        return NULL;
    void *block = aligned_alloc(align, (bytes + align - 1) / align * align);
    CHECK(block != NULL && block_count < BLOCKS_MAX);
    memset(block, 0xA5, bytes); /* a hook's memory need not be zero */
    blocks[block_count].block = block;
    blocks[block_count].bytes = bytes;
    blocks[block_count++].align = align;
    return block;
}

static void free_hook(void *user, void *block, uint64_t bytes, uint64_t align) {
    CHECK(user == &the_user);
    for (int i = 0; i < block_count; i++)
        if (blocks[i].block == block) {
            CHECK(blocks[i].bytes == bytes && blocks[i].align == align);
            blocks[i] = blocks[--block_count];
            free(block);
            return;
        }
    CHECK(!"free got a block that alloc did not give");
}

static void check_memory(uint32_t thread_mode) {
    wavetrain_config config = table_config(thread_mode);
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_memory need = { .struct_size = sizeof need };
    wavetrain_loader loader = 55;
    config.memory.user = &the_user;
    config.memory.alloc = alloc_hook;
    config.memory.free = free_hook;
    CHECK_OK(wavetrain_memory_need(&config, &need, &error), error);
    CHECK(block_count == 0);
    /* Every allocation of open fails once; everything before it is given back. */
    int step = 0;
    for (;; step++) {
        calls_left = step;
        error.text[0] = 0;
        const wavetrain_status status = wavetrain_open(&config, &loader, &error);
        if (status == WAVETRAIN_OK)
            break;
        CHECK_STATUS(status, WAVETRAIN_OUT_OF_MEMORY);
        CHECK(loader == 55 && block_count == 0 && error.text[0] != 0 && step < BLOCKS_MAX);
    }
    uint64_t bytes = 0;
    for (int i = 0; i < block_count; i++)
        bytes += blocks[i].bytes;
    CHECK(step > 0 && bytes == need.host_bytes);
    calls_left = 0;
    wavetrain_batch batch;
    push_table(loader, "/table/good", SIDE, 5);
    CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);

    /* A held batch keeps everything alive. */
    uint32_t held = 0;
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, &held), WAVETRAIN_AGAIN);
    CHECK(held == 1 && block_count > 0);
    CHECK(((float *)view_of(loader, batch).data)[SIDE + 1] == 1001.0f);
    CHECK_STATUS(wavetrain_flush(loader), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, &held), WAVETRAIN_OK);
    CHECK(held == 0 && block_count == 0);
}

static void check_wrong_memory(void) {
    static _Alignas(4096) unsigned char small[8192];
    wavetrain_config config = table_config(WAVETRAIN_THREADS_PUMP);
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_memory need = { .struct_size = sizeof need };
    wavetrain_loader loader = 55;
    config.memory.alloc = alloc_hook;
    CHECK_STATUS(wavetrain_open(&config, &loader, &error), WAVETRAIN_INVALID);
    config.memory.alloc = NULL;
    config.memory.host_block = small;
    CHECK_STATUS(wavetrain_open(&config, &loader, &error), WAVETRAIN_INVALID);
    config.memory.host_block_bytes = 4096;
    CHECK_STATUS(wavetrain_open(&config, &loader, &error), WAVETRAIN_BUDGET);
    CHECK_OK(wavetrain_memory_need(&config, &need, &error), error);
    /* C asks that the size is a multiple of the alignment. */
    unsigned char *block = aligned_alloc(4096, (need.host_bytes / 4096 + 3) * 4096);
    CHECK(block != NULL && need.host_align > 1);
    config.memory.host_block = block + 1;
    config.memory.host_block_bytes = need.host_bytes + 4096;
    CHECK_STATUS(wavetrain_open(&config, &loader, &error), WAVETRAIN_INVALID);
    CHECK(loader == 55);
    config.memory.host_block = block;
    config.memory.host_block_bytes = need.host_bytes;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
    free(block);
}

/* ---- log ---- */

static _Atomic int lines, warned;

static void log_hook(void *user, uint32_t level, uint64_t tag, const char *text,
                     uint64_t text_bytes) {
    CHECK(user == &the_user && !atomic_load(&closed));
    CHECK(level < WAVETRAIN_LOG_OFF && strlen(text) == text_bytes);
    CHECK(text_bytes > 0 && strchr(text, '\n') == NULL);
    atomic_fetch_add(&lines, 1);
    if (tag == 31 && level >= WAVETRAIN_LOG_WARN && strstr(text, "/table/no_read") != NULL)
        atomic_fetch_add(&warned, 1);
}

static void check_log(uint32_t level) {
    wavetrain_config config = table_config(WAVETRAIN_THREADS_OWN);
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_loader loader;
    wavetrain_batch batch;
    atomic_store(&lines, 0);
    atomic_store(&warned, 0);
    config.on_error = WAVETRAIN_ON_ERROR_SKIP;
    config.pad_value = 3;
    config.log_level = level;
    config.log.user = &the_user;
    config.log.log = log_hook;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    push_table(loader, "/table/no_read", SIDE, 31);
    CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
    const wavetrain_batch_view view = view_of(loader, batch);
    CHECK(view.failed_samples == 1 && view.statuses[0] == WAVETRAIN_IO && view.tags[0] == 31);
    CHECK(((float *)view.data)[0] == 3 && ((float *)view.data)[SIDE * SIDE - 1] == 3);
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
    atomic_store(&closed, 1);
    CHECK(level == WAVETRAIN_LOG_OFF ? lines == 0 : warned > 0);
    atomic_store(&closed, 0);
}

int main(void) {
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            const unsigned value = (unsigned)(1000 * y + x);
            const int tile = y / TILE * 2 + x / TILE, at = (y % TILE * TILE + x % TILE) * 2;
            if (tile < 3) {
                tiles[tile][at] = (unsigned char)value;
                tiles[tile][at + 1] = (unsigned char)(value >> 8);
            }
        }
    for (uint32_t mode = WAVETRAIN_THREADS_OWN; mode <= WAVETRAIN_THREADS_PUMP; mode++) {
        check_files(mode);
        check_failure("/table/nothing", WAVETRAIN_NOT_FOUND, mode);
        check_failure("/table/no_metadata", WAVETRAIN_IO, mode);
        check_failure("/table/no_size", WAVETRAIN_IO, mode);
        check_failure("/table/odd_size", WAVETRAIN_IO, mode);
        check_failure("/table/no_read", WAVETRAIN_IO, mode);
        check_failure("/table/odd_read", WAVETRAIN_IO, mode);
        check_failure("/table/short", WAVETRAIN_DECODE, mode);
        check_memory(mode);
    }
    check_metadata_calls();
    check_wrong_memory();
    check_log(WAVETRAIN_LOG_WARN);
    check_log(WAVETRAIN_LOG_TRACE);
    check_log(WAVETRAIN_LOG_OFF);
    return 0;
}
