/* numa.c: the program of tools/numa.sh, the first process of an emulated machine whose NUMA
 * nodes 0 and 1 have two CPUs each, and node 2 has none.
 *
 * It opens loaders on each node, and looks in the kernel's own tables at where pages and threads are.
 * The last line is "numa: passed" or "numa: failed". */
#define _GNU_SOURCE
#include "wavetrain.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { EDGE = 1 << 20, PAGE = 4096, NODES = 3 };

static int failures;
static int is_shared; /* batches lie in memory that processes share */
static char line[512];

static void check(int holds, const char *what) {
    printf("  %s: %s\n", holds ? "ok" : "FAILED", what);
    failures += !holds;
}

static void on_log(void *user, uint32_t level, uint64_t tag, const char *text,
                   uint64_t bytes) {
    (void)user, (void)tag, (void)bytes;
    if (strstr(text, "NUMA")) {
        printf("  log %u: %s\n", level, text);
        snprintf(line, sizeof line, "%s", text);
    }
}

/* An array of bytes, as a .npy file of a header and zeros. */
static void write_array(const char *path) {
    char header[128];
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    int bytes = snprintf(header + 10, 100, "{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }",
                         EDGE);
    header[10 + bytes] = ' ';
    header[127] = '\n';
    FILE *file = fopen(path, "wb");
    fwrite(header, 1, sizeof header, file);
    static unsigned char zeros[EDGE];
    fwrite(zeros, 1, sizeof zeros, file);
    fclose(file);
}

/* Pages of a batch by their node; others are counted last. */
static void count_pages(const void *start, uint64_t bytes, int counts[NODES + 1]) {
    memset(counts, 0, (NODES + 1) * sizeof counts[0]);
    for (uint64_t at = 0; at < bytes; at += PAGE) {
        void *page = (void *)(((uintptr_t)start + at) / PAGE * PAGE);
        int node = -1;
        syscall(SYS_move_pages, 0, 1UL, &page, NULL, &node, 0);
        counts[node >= 0 && node < NODES ? node : NODES]++;
    }
}

/* Pages of all mappings of 4 MiB and more by their node. */
static void count_mappings(int counts[NODES]) {
    char text[1024];
    memset(counts, 0, NODES * sizeof counts[0]);
    FILE *maps = fopen("/proc/self/numa_maps", "r");
    while (maps && fgets(text, sizeof text, maps)) {
        int here[NODES] = {0};
        for (char *word = strtok(text, " \n"); word; word = strtok(NULL, " \n"))
            for (int node = 0; node < NODES; node++) {
                char name[8];
                snprintf(name, sizeof name, "N%d=", node);
                if (strncmp(word, name, 3) == 0)
                    here[node] = atoi(word + 3);
            }
        if (here[0] + here[1] + here[2] < 1024)
            continue;
        for (int node = 0; node < NODES; node++)
            counts[node] += here[node];
    }
    if (maps)
        fclose(maps);
}

/* Threads of the library that run on other CPUs than these; how many there are of them. */
static int count_elsewhere(const char *cpus, int *threads) {
    int elsewhere = 0;
    DIR *tasks = opendir("/proc/self/task");
    *threads = 0;
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        char path[300], text[256], name[64] = "", list[64] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *status = fopen(path, "r");
        while (status && fgets(text, sizeof text, status)) {
            sscanf(text, "Name: %63s", name);
            sscanf(text, "Cpus_allowed_list: %63s", list);
        }
        if (status)
            fclose(status);
        if (strncmp(name, "wavetrain-", 10) != 0)
            continue;
        ++*threads;
        elsewhere += strcmp(list, cpus) != 0;
        if (*threads == 1)
            printf("  thread %s runs on CPUs %s\n", name, list);
    }
    if (tasks)
        closedir(tasks);
    return elsewhere;
}

/* Opens, takes a batch, looks. `node`: expected of memory; `cpus`: of threads. */
static void run(const char *title, uint32_t strategy, int32_t numa_node, int node, const char *cpus,
                const char *words) {
    static wavetrain_error error;
    error.struct_size = sizeof error;
    printf("%s\n", title);
    wavetrain_config config;
    wavetrain_config_default(&config, sizeof config);
    config.samples_per_batch = 1;
    config.sample_rank = 1;
    config.sample_shape[0] = EDGE;
    config.dtype = WAVETRAIN_U8;
    config.numa_strategy = strategy;
    config.numa_node = numa_node;
    config.share_name = is_shared ? "numa" : NULL;
    config.share_consumers = config.share_owner = (uint32_t)is_shared;
    config.log_level = WAVETRAIN_LOG_INFO;
    config.log.log = on_log;
    line[0] = 0;
    wavetrain_loader loader;
    wavetrain_status status = wavetrain_open(&config, &loader, &error);
    if (node < 0) {
        printf("  open: %s: %s\n", wavetrain_status_str(status), error.text);
        check(status == WAVETRAIN_INVALID && strstr(error.text, words), "open is refused");
        return;
    }
    check(status == WAVETRAIN_OK, "it opens");
    if (status != WAVETRAIN_OK) {
        printf("  %s\n", error.text);
        return;
    }
    check(strstr(line, words) != NULL, words);
    wavetrain_box box;
    memset(&box, 0, sizeof box);
    box.uri = "/tmp/array.npy";
    box.uri_bytes = strlen(box.uri);
    box.rank = 1;
    box.end[0] = EDGE;
    const wavetrain_sample sample = {&box, 1, sizeof box, 0};
    size_t taken;
    wavetrain_batch batch = 0;
    wavetrain_batch_view view;
    memset(&view, 0, sizeof view);
    view.struct_size = sizeof view;
    status = wavetrain_push(loader, &sample, 1, sizeof sample, WAVETRAIN_FOREVER, &taken);
    if (status == WAVETRAIN_OK)
        status = wavetrain_pop(loader, WAVETRAIN_FOREVER, &batch, &error);
    if (status == WAVETRAIN_OK)
        status = wavetrain_batch_info(loader, batch, 0, &view);
    wavetrain_last_error(loader, &error);
    check(status == WAVETRAIN_OK, "a batch is there");
    if (status != WAVETRAIN_OK)
        printf("  %s\n", error.text);
    int of_batch[NODES + 1], of_maps[NODES], threads;
    count_pages(view.data, EDGE, of_batch);
    count_mappings(of_maps);
    const int of_all = of_maps[0] + of_maps[1] + of_maps[2];
    printf("  pages of the batch on nodes 0, 1, 2: %d, %d, %d; on none: %d\n", of_batch[0],
           of_batch[1], of_batch[2], of_batch[NODES]);
    printf("  pages of large mappings on nodes 0, 1, 2: %d, %d, %d\n", of_maps[0], of_maps[1],
           of_maps[2]);
    check(of_batch[node] == EDGE / PAGE, "the batch is on the node");
    /* An owner's own consumer has tables that are nowhere in particular. */
    check(of_maps[node] > 10000 && (is_shared || of_maps[node] == of_all),
          "the block is on the node");
    check(count_elsewhere(cpus, &threads) == 0 && threads > 16, "threads run on the CPUs");
    wavetrain_release(loader, batch, NULL);
    check(wavetrain_close(loader, WAVETRAIN_FOREVER, NULL) == WAVETRAIN_OK, "it closes");
}

static void keep_to(int first, int limit) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    for (int cpu = first; cpu < limit; cpu++)
        CPU_SET(cpu, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
}

int main(void) {
    mkdir("/proc", 0755), mkdir("/sys", 0755), mkdir("/tmp", 0755);
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sysfs", "/sys", "sysfs", 0, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    write_array("/tmp/array.npy");
    printf("\nnuma: begins\n"); /* the firmware has left half a line */
    run("PIN 0", WAVETRAIN_NUMA_PIN, 0, 0, "0-1", "NUMA node 0 of 3 by numa_node");
    run("PIN 1", WAVETRAIN_NUMA_PIN, 1, 1, "2-3", "NUMA node 1 of 3 by numa_node");
    keep_to(2, 4);
    run("AUTO, the thread on CPUs 2-3", WAVETRAIN_NUMA_AUTO, -1, 1, "2-3",
        "NUMA node 1 of 3 by the opening thread");
    keep_to(0, 2);
    run("AUTO, the thread on CPUs 0-1", WAVETRAIN_NUMA_AUTO, -1, 0, "0-1",
        "NUMA node 0 of 3 by the opening thread");
    run("PIN 1, the mask has CPUs of node 0 alone", WAVETRAIN_NUMA_PIN, 1, 1, "0-1",
        "; no CPU of it is for threads");
    is_shared = 1;
    run("PIN 1 likewise, batches are shared", WAVETRAIN_NUMA_PIN, 1, 1, "0-1",
        "; no CPU of it is for threads");
    is_shared = 0;
    keep_to(1, 3);
    run("PIN 1, the mask has CPUs 1-2", WAVETRAIN_NUMA_PIN, 1, 1, "2",
        "NUMA node 1 of 3 by numa_node");
    keep_to(0, 4);
    run("PIN 2, which has no CPU", WAVETRAIN_NUMA_PIN, 2, 2, "0-3",
        "; no CPU of it is for threads");
    run("PIN 7", WAVETRAIN_NUMA_PIN, 7, -1, "", "choose one of 0-2");
    printf("numa: %s\n", failures == 0 ? "passed" : "failed");
    fflush(stdout);
    sync();
    reboot(RB_POWER_OFF);
    return failures != 0;
}
