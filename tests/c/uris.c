/* uris.c ARRAY OTHER FOLDER: what is done with uris as texts: no byte of one forges a line of the
 * log or of an error, and a relative one means what it meant at open.
 *
 * The arrays have seeds 0 and 1; the empty folder is this program's to write to.
 */
#define _GNU_SOURCE
#include "check.h"

#include <stdatomic.h>
#include <sys/stat.h>

enum { BOX = 8 };

#define EVIL "a\nwavetrain: ERROR forged\r\x1b[2J\x7f\xc2\x85\xe2\x80\xa8\xe2\x80\xae"
#define SHOWN                                                                                      \
    "a\\nwavetrain: ERROR forged\\r\\u{1b}[2J\\u{7f}\\u{85}\\u{2028}\\u{202e}"

static _Atomic int lines;
static _Atomic int lines_of_the_uri;

/* Whether a text has no control characters: lines and texts of errors have none. */
static int is_one_line(const char *text) {
    for (; *text != 0; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return 0;
    return 1;
}

static void log_hook(void *user, uint32_t level, uint64_t tag, const char *text, uint64_t bytes) {
    (void)user, (void)level, (void)tag;
    CHECK(strlen(text) == bytes && is_one_line(text));
    atomic_fetch_add(&lines, 1);
    atomic_fetch_add(&lines_of_the_uri, strstr(text, SHOWN) != NULL);
}

static void has_the_uri(const wavetrain_error *error) {
    if (strstr(error->text, SHOWN) == NULL || !is_one_line(error->text)) {
        fprintf(stderr, "%s\n", error->text);
        _exit(1);
    }
}

static wavetrain_config config_of(uint32_t samples) {
    wavetrain_config config = cube_config(BOX);
    config.samples_per_batch = samples;
    config.thread_mode = WAVETRAIN_THREADS_PUMP;
    config.log.struct_size = sizeof config.log;
    config.log.log = log_hook;
    config.log_level = WAVETRAIN_LOG_INFO;
    return config;
}

static void names_forge_no_lines(const char *folder) {
    static unsigned char scratch[WAVETRAIN_SCRATCH_BYTES];
    char uri[512], path[600];
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_config config = config_of(1);
    wavetrain_loader loader;
    wavetrain_batch batch;
    snprintf(uri, sizeof uri, "%s/%s", folder, EVIL);
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    push_cube(loader, uri, 0, 0, 0, BOX, 0);
    CHECK_STATUS(wavetrain_pop(loader, LONG_NS, &batch, &error), WAVETRAIN_NOT_FOUND);
    has_the_uri(&error);
    CHECK_STATUS(wavetrain_last_error(loader, &error), WAVETRAIN_OK);
    has_the_uri(&error);
    CHECK(atomic_load(&lines_of_the_uri) > 0);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);

    wavetrain_array_view view = { .struct_size = sizeof view };
    CHECK_STATUS(wavetrain_array_info(uri, NULL, scratch, sizeof scratch, &view, &error),
                 WAVETRAIN_NOT_FOUND);
    has_the_uri(&error);
    const char *const uris[] = { uri };
    CHECK_STATUS(wavetrain_config_fit(&config, uris, 1, scratch, sizeof scratch, &error),
                 WAVETRAIN_NOT_FOUND);
    has_the_uri(&error);

    /* A document may say what it likes, too: a codec of that name. */
    CHECK(mkdir(uri, 0700) == 0);
    snprintf(path, sizeof path, "%s/zarr.json", uri);
    FILE *const file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file, "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[8],\"data_type\":"
                  "\"uint8\",\"chunk_grid\":{\"name\":\"regular\",\"configuration\":"
                  "{\"chunk_shape\":[8]}},\"chunk_key_encoding\":{\"name\":\"default\"},"
                  "\"fill_value\":0,\"codecs\":[{\"name\":\"x\\n\\u001b[2Jy\"}]}");
    fclose(file);
    CHECK_STATUS(wavetrain_array_info(uri, NULL, scratch, sizeof scratch, &view, &error),
                 WAVETRAIN_UNSUPPORTED);
    has_the_uri(&error);
    CHECK(strstr(error.text, "[2Jy") != NULL);

    wavetrain_field field = { .name = "a\nb", .dtype = 99, .sample_rank = 0 };
    config.fields = &field;
    config.n_fields = 1;
    config.field_bytes = sizeof field;
    config.sample_rank = 0;
    memset(config.sample_shape, 0, sizeof config.sample_shape);
    CHECK(wavetrain_open(&config, &loader, &error) < 0 && is_one_line(error.text));
}

/* Pops a batch of one cube of the array with this seed. */
static void pops(wavetrain_loader loader, unsigned seed) {
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_batch batch;
    CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
    const wavetrain_batch_view view = view_of(loader, batch);
    CHECK(row_is_cube(&view, 0, seed, 1, 2, 3, BOX));
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
}

static void relative_uris_are_fixed_at_open(const char *array, const char *other,
                                            const char *folder) {
    char text[600];
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_config config = config_of(1);
    wavetrain_loader one, two;
    wavetrain_batch batch;
    CHECK(chdir(folder) == 0 && mkdir("one", 0700) == 0 && mkdir("two", 0700) == 0);
    CHECK(symlink(array, "one/x") == 0 && symlink(other, "two/x") == 0);
    CHECK(chdir("one") == 0);
    CHECK_OK(wavetrain_open(&config, &one, &error), error);
    push_cube(one, "x", 1, 2, 3, BOX, 0);
    pops(one, 0);
    CHECK(chdir("../two") == 0);
    CHECK_OK(wavetrain_open(&config, &two, &error), error);
    for (int again = 0; again < 2; again++) {
        push_cube(one, "x", 1, 2, 3, BOX, 0);
        push_cube(one, "./x", 1, 2, 3, BOX, 0);
        push_cube(one, "../two/x", 1, 2, 3, BOX, 0);
        push_cube(two, "x/", 1, 2, 3, BOX, 0);
        push_cube(two, "../one/x", 1, 2, 3, BOX, 0);
        pops(one, 0);
        pops(one, 0);
        pops(one, 1);
        pops(two, 1);
        pops(two, 0);
        CHECK_STATUS(wavetrain_reset(one), WAVETRAIN_OK);
        CHECK(chdir("/") == 0);
    }
    /* The text says which file it was. */
    push_cube(one, "y", 0, 0, 0, BOX, 0);
    CHECK_STATUS(wavetrain_pop(one, LONG_NS, &batch, &error), WAVETRAIN_NOT_FOUND);
    snprintf(text, sizeof text, "%s/one/y", folder);
    CHECK(strstr(error.text, text) != NULL);
    CHECK_STATUS(wavetrain_close(one, LONG_NS, NULL), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_close(two, LONG_NS, NULL), WAVETRAIN_OK);

    /* A folder that is gone has no path: what is relative is refused, and nothing else is. */
    snprintf(text, sizeof text, "%s/gone", folder);
    CHECK(mkdir(text, 0700) == 0 && chdir(text) == 0 && rmdir(text) == 0);
    CHECK_OK(wavetrain_open(&config, &one, &error), error);
    const wavetrain_box box = cube_box("x", 1, 2, 3, BOX);
    const wavetrain_sample sample = sample_of(&box, 0);
    size_t taken = 0;
    CHECK(chdir("/") == 0);
    CHECK_STATUS(wavetrain_push(one, &sample, 1, sizeof sample, 0, &taken), WAVETRAIN_INVALID);
    CHECK_STATUS(wavetrain_last_error(one, &error), WAVETRAIN_OK);
    CHECK(strstr(error.text, "x: the current folder had no path") != NULL);
    CHECK(strstr(error.text, "give an absolute path") != NULL);
    push_cube(one, array, 1, 2, 3, BOX, 0);
    pops(one, 0);
    CHECK_STATUS(wavetrain_close(one, LONG_NS, NULL), WAVETRAIN_OK);
}

/* Names go to a hook as they were pushed. */
static _Atomic int names_seen;

static int64_t size_hook(void *user, const char *name) {
    (void)user;
    CHECK(strncmp(name, "b/x", 3) == 0);
    atomic_fetch_add(&names_seen, 1);
    return WAVETRAIN_FILE_ABSENT;
}

static int64_t read_hook(void *user, const char *name, uint64_t offset, void *target,
                         uint64_t bytes) {
    (void)user, (void)name, (void)offset, (void)target, (void)bytes;
    return WAVETRAIN_FILE_FAILED;
}

static void hooks_get_names_as_they_are(void) {
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_config config = config_of(1);
    wavetrain_loader loader;
    wavetrain_batch batch;
    config.files.struct_size = sizeof config.files;
    config.files.size = size_hook;
    config.files.read = read_hook;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    push_cube(loader, "b/x", 0, 0, 0, BOX, 0);
    CHECK_STATUS(wavetrain_pop(loader, LONG_NS, &batch, &error), WAVETRAIN_NOT_FOUND);
    CHECK(strncmp(error.text, "b/x", 3) == 0 && atomic_load(&names_seen) > 0);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    names_forge_no_lines(argv[3]);
    CHECK(atomic_load(&lines) > 0);
    relative_uris_are_fixed_at_open(argv[1], argv[2], argv[3]);
    hooks_get_names_as_they_are();
    return 0;
}
