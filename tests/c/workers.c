/* workers.c ARRAY own|pump|inline|deferred|reverse|pool [async]: the same boxes on whatever
 * threads the host gives.
 *
 * "own" and "pump" are the other thread modes, to be compared with. Else jobs go to this program:
 * it runs them at once, or from a queue on its one thread in order or in reverse, or on threads of
 * a pool. With "async" files come from this program too, and reads of chunks end later than they
 * begin: at once, or out of a second queue, the youngest first. Every element is checked, and from
 * open to close the process allocates nothing.
 */
#define _GNU_SOURCE
#include "check.h"
#include "count_alloc.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum { BOX = 10, SAMPLES = 3, BATCHES = 40, LOOKAHEAD = 24, QUEUE = 64, POOL = 3, WORKERS = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
static struct job {
    void (*job)(void *argument);
    void *argument;
} jobs[QUEUE];
static int job_count, most_jobs, is_over;
static _Atomic uint64_t runs;
static _Thread_local int depth; /* jobs of the loader that this thread is in */

static void run_one(struct job job) {
    depth += 1;
    CHECK(depth <= 2); /* a job that is run inside of run, inside of a job */
    job.job(job.argument);
    depth -= 1;
}

static void run_inline(void *user, void (*job)(void *argument), void *argument) {
    CHECK(user == &jobs);
    atomic_fetch_add(&runs, 1);
    run_one((struct job){ job, argument });
}

static void run_queued(void *user, void (*job)(void *argument), void *argument) {
    CHECK(user == &jobs);
    atomic_fetch_add(&runs, 1);
    pthread_mutex_lock(&lock);
    CHECK(job_count < WORKERS); /* no more wait than could run */
    jobs[job_count++] = (struct job){ job, argument };
    most_jobs = job_count > most_jobs ? job_count : most_jobs;
    pthread_cond_signal(&ready);
    pthread_mutex_unlock(&lock);
}

/* Takes a job, the oldest or the youngest; 0 where there is none. */
static int take_job(struct job *job, int is_reverse) {
    pthread_mutex_lock(&lock);
    const int found = job_count > 0;
    if (found) {
        *job = jobs[is_reverse ? job_count - 1 : 0];
        job_count -= 1;
        if (!is_reverse)
            memmove(jobs, jobs + 1, (size_t)job_count * sizeof jobs[0]);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void *pool_main(void *unused) {
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (job_count == 0 && !is_over)
            pthread_cond_wait(&ready, &lock);
        const int ends = is_over;
        pthread_mutex_unlock(&lock);
        struct job job;
        if (ends)
            return NULL;
        if (take_job(&job, 0))
            run_one(job);
    }
}

/* ---- files ---- */

static struct read {
    wavetrain_loader loader;
    uint64_t ticket;
    int64_t result;
} reads[QUEUE];
static int read_count;
static int completes_at_once;
static _Atomic uint64_t async_reads;

static int64_t size_hook(void *user, const char *name) {
    struct stat found;
    (void)user;
    return stat(name, &found) == 0 ? (int64_t)found.st_size : WAVETRAIN_FILE_ABSENT;
}

static int64_t read_hook(void *user, const char *name, uint64_t offset, void *target,
                         uint64_t bytes) {
    (void)user;
    const int file = open(name, O_RDONLY);
    if (file < 0)
        return WAVETRAIN_FILE_ABSENT;
    const int64_t got = pread(file, target, bytes, (off_t)offset);
    close(file);
    return got == (int64_t)bytes ? 0 : WAVETRAIN_FILE_FAILED;
}

static int64_t read_async_hook(void *user, wavetrain_loader loader, uint64_t ticket,
                               const char *name, uint64_t offset, void *target, uint64_t bytes) {
    const int64_t result = read_hook(user, name, offset, target, bytes);
    atomic_fetch_add(&async_reads, 1);
    if (completes_at_once) {
        CHECK_STATUS(wavetrain_read_done(loader, ticket, result), WAVETRAIN_OK);
        CHECK_STATUS(wavetrain_read_done(loader, ticket, result), WAVETRAIN_INVALID);
        return 0;
    }
    pthread_mutex_lock(&lock);
    CHECK(read_count < 2 * 2); /* n_io_threads is 2 */
    reads[read_count++] = (struct read){ loader, ticket, result };
    pthread_mutex_unlock(&lock);
    return 0;
}

/* Completes the read that was begun last; 0 where there is none. */
static int complete_one(void) {
    struct read read;
    pthread_mutex_lock(&lock);
    const int found = read_count > 0;
    if (found)
        read = reads[--read_count];
    pthread_mutex_unlock(&lock);
    if (found)
        CHECK_STATUS(wavetrain_read_done(read.loader, read.ticket, read.result), WAVETRAIN_OK);
    return found;
}

/* ---- the stream ---- */

static void at_of(uint64_t number, int64_t *at) {
    uint64_t state = number + 77;
    for (int axis = 0; axis < 3; axis++)
        at[axis] = random_below(&state, EDGE - BOX + 1);
}

/* What the host does where no batch is ready; whether it did anything. */
static int work(wavetrain_loader loader, const wavetrain_config *config, int is_reverse) {
    struct job job;
    if (complete_one())
        return 1;
    if (config->thread_mode == WAVETRAIN_THREADS_PUMP)
        return wavetrain_pump(loader, 0) == WAVETRAIN_OK;
    if (config->workers.run == run_queued && take_job(&job, is_reverse)) {
        run_one(job);
        return 1;
    }
    return 0;
}

/* Streams BATCHES batches and never waits, so that nothing but the jobs does the work, unless the
 * host has threads that do it: then it waits. */
static void stream(wavetrain_loader loader, const wavetrain_config *config, const char *uri,
                   int waits, int is_reverse) {
    uint64_t pushed = 0;
    for (uint64_t number = 0; number < BATCHES; number++) {
        for (; pushed < BATCHES * SAMPLES && pushed < number * SAMPLES + LOOKAHEAD; pushed++) {
            int64_t at[3];
            at_of(pushed, at);
            push_cube(loader, uri, at[0], at[1], at[2], BOX, pushed);
        }
        wavetrain_batch batch = 0;
        wavetrain_status status;
        for (;;) {
            const int is_busy = !waits && work(loader, config, is_reverse);
            status = wavetrain_pop(loader, waits ? 100000 : 0, &batch, NULL);
            if (status == WAVETRAIN_OK)
                break;
            CHECK(status == (waits ? WAVETRAIN_STARVED : WAVETRAIN_AGAIN));
            /* Nothing to do, and no batch: only threads of somebody's could still make it. */
            CHECK(is_busy || waits || job_count > 0 || read_count > 0 ||
                  config->thread_mode == WAVETRAIN_THREADS_OWN);
            complete_one();
        }
        const wavetrain_batch_view view = view_of(loader, batch);
        for (uint32_t row = 0; row < SAMPLES; row++) {
            int64_t at[3];
            at_of(view.tags[row], at);
            CHECK(row_is_cube(&view, row, 0, at[0], at[1], at[2], BOX));
        }
        CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    }
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    const char *mode = argv[2];
    const int is_pool = strcmp(mode, "pool") == 0, is_reverse = strcmp(mode, "reverse") == 0;
    const int is_inline = strcmp(mode, "inline") == 0, is_async = argc > 3;
    const int is_own = strcmp(mode, "own") == 0, is_pump = strcmp(mode, "pump") == 0;
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_config config = cube_config(BOX);
    config.samples_per_batch = SAMPLES;
    config.lookahead_samples = LOOKAHEAD;
    config.n_decode_threads = WORKERS;
    config.max_chunk_uncompressed_bytes = 1 << 16;
    config.max_host_memory_bytes = 64 << 20;
    config.thread_mode = is_own    ? WAVETRAIN_THREADS_OWN
                         : is_pump ? WAVETRAIN_THREADS_PUMP
                                   : WAVETRAIN_THREADS_HOOK;
    if (config.thread_mode == WAVETRAIN_THREADS_HOOK) {
        config.workers.user = &jobs;
        config.workers.run = is_inline ? run_inline : run_queued;
    }
    if (is_async) {
        config.files.size = size_hook;
        config.files.read = read_hook;
        config.files.read_async = read_async_hook;
        completes_at_once = is_inline;
    }
    wavetrain_memory need = { .struct_size = sizeof need };
    CHECK_OK(wavetrain_memory_need(&config, &need, &error), error);
    CHECK((need.threads == 0) == !is_own);

    pthread_t pool[POOL];
    for (int i = 0; is_pool && i < POOL; i++)
        CHECK(pthread_create(&pool[i], NULL, pool_main, NULL) == 0);

    for (int life = 0; life < 2; life++) {
        wavetrain_loader loader;
        const uint64_t calls_before = atomic_load(&alloc_calls);
        CHECK_OK(wavetrain_open(&config, &loader, &error), error);
        const uint64_t calls_opened = atomic_load(&alloc_calls);
        CHECK(is_own || calls_opened == calls_before);
        stream(loader, &config, argv[1], is_own || is_pool, is_reverse);
        push_cube(loader, argv[1], 0, 0, 0, BOX, 0);
        CHECK_STATUS(wavetrain_reset(loader), WAVETRAIN_OK);
        stream(loader, &config, argv[1], is_own || is_pool, is_reverse);
        CHECK(atomic_load(&alloc_calls) == calls_opened);
        while (complete_one())
            ;
        /* Jobs that nobody runs do not hold it up. */
        wavetrain_status closed = wavetrain_close(loader, 0, NULL);
        while (closed == WAVETRAIN_AGAIN) {
            complete_one();
            closed = wavetrain_close(loader, 1000000, NULL);
        }
        CHECK_STATUS(closed, WAVETRAIN_OK);
        const uint64_t runs_before = atomic_load(&runs);
        struct job job;
        /* Beside the pool, so that the next life starts with none. */
        while (take_job(&job, is_reverse))
            run_one(job); /* late: it does nothing */
        CHECK(atomic_load(&runs) == runs_before);
    }
    pthread_mutex_lock(&lock);
    is_over = 1;
    pthread_cond_broadcast(&ready);
    pthread_mutex_unlock(&lock);
    for (int i = 0; is_pool && i < POOL; i++)
        CHECK(pthread_join(pool[i], NULL) == 0);
    CHECK((atomic_load(&runs) > 0) == (config.thread_mode == WAVETRAIN_THREADS_HOOK));
    CHECK((atomic_load(&async_reads) > 0) == is_async);
    printf("%s: %llu jobs, at most %d waited, %llu asynchronous reads\n", mode,
           (unsigned long long)atomic_load(&runs), most_jobs,
           (unsigned long long)atomic_load(&async_reads));
    return 0;
}
