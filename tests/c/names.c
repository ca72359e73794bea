/* names.c ARRAY: the threads that open starts have names, and no other thread's name changes. */
#define _GNU_SOURCE
#include "check.h"

#include <dirent.h>
#include <sys/prctl.h>

enum { BOX = 10, IO = 12, DECODE = 11, THREADS_MAX = 128 };

static char names[THREADS_MAX][32];
static int name_count;

/* Reads the names of all threads of this process; how many there are. */
static int read_names(void) {
    DIR *folder = opendir("/proc/self/task");
    const struct dirent *entry;
    CHECK(folder != NULL);
    name_count = 0;
    while ((entry = readdir(folder)) != NULL) {
        char path[300];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        CHECK(file != NULL && name_count < THREADS_MAX);
        CHECK(fgets(names[name_count++], sizeof names[0], file) != NULL);
        fclose(file);
    }
    closedir(folder);
    return name_count;
}

/* How many of the threads that read_names found have this name. */
static int has(const char *name) {
    char line[32];
    int found = 0;
    snprintf(line, sizeof line, "%s\n", name);
    for (int i = 0; i < name_count; i++)
        found += strcmp(names[i], line) == 0;
    return found;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    CHECK(prctl(PR_SET_NAME, "program", 0, 0, 0) == 0);
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_config config = cube_config(BOX);
    config.n_io_threads = IO;
    config.n_decode_threads = DECODE;
    wavetrain_loader loader;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    CHECK(read_names() == 1 + IO + DECODE && has("program") == 1);
    for (int number = 0; number < IO || number < DECODE; number++) {
        char name[32];
        snprintf(name, sizeof name, "wavetrain-io%d", number);
        CHECK(has(name) == (number < IO));
        snprintf(name, sizeof name, "wavetrain-dec%d", number);
        CHECK(has(name) == (number < DECODE));
    }
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
    CHECK(read_names() == 1);

    /* A number that has no room is left out. */
    config.n_io_threads = 1;
    config.n_decode_threads = 103;
    config.max_chunk_uncompressed_bytes = 1 << 16;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    CHECK(read_names() == 1 + 1 + 103);
    CHECK(has("wavetrain-dec99") == 1 && has("wavetrain-dec") == 3);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);

    /* Jobs of the program's run on its own threads, which keep their names. */
    config = cube_config(BOX);
    config.thread_mode = WAVETRAIN_THREADS_PUMP;
    config.samples_per_batch = 1;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    push_cube(loader, argv[1], 0, 0, 0, BOX, 0);
    wavetrain_batch batch = 0;
    CHECK_STATUS(wavetrain_pop(loader, LONG_NS, &batch, NULL), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    CHECK(read_names() == 1 && has("program") == 1);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
    return 0;
}
