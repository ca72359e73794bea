/* cancel.c ARRAY: a thread that is cancelled (pthread_cancel) inside of a call ends behind it.
 *
 * Every function is called by a thread that was cancelled before, so that the first cancellation
 * point inside would end it there, with whatever lock it held: such a call returns, does what it is
 * to do, and the loader goes on. So do threads that are cancelled while they wait, in hooks too.
 */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>

enum { BOX = 6, PATIENCE_SECONDS = 100 };

static const char *uri;
static unsigned char scratch[WAVETRAIN_SCRATCH_BYTES];
static wavetrain_config config;
static wavetrain_loader loader;
static wavetrain_batch batch;
static wavetrain_error error = { .struct_size = sizeof error };
static _Atomic int has_returned;
static _Atomic pid_t waiter;

static void *cancelled(void *call) {
    CHECK(pthread_cancel(pthread_self()) == 0);
    atomic_store(&waiter, (pid_t)syscall(SYS_gettid));
    ((void (*)(void))(uintptr_t)call)();
    atomic_store(&has_returned, 1);
    pthread_testcancel();
    CHECK(!"a thread goes on that was cancelled");
    return NULL;
}

static pthread_t begin(void (*call)(void)) {
    pthread_t thread;
    atomic_store(&has_returned, 0);
    atomic_store(&waiter, 0);
    CHECK(pthread_create(&thread, NULL, cancelled, (void *)(uintptr_t)call) == 0);
    return thread;
}

static void end(pthread_t thread) {
    void *result = NULL;
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED && atomic_load(&has_returned));
}

/* Makes a call on a thread that is cancelled already. */
static void call_cancelled(void (*call)(void)) {
    end(begin(call));
}

/* Until the thread that `begin` started sleeps. */
static void await_sleep(void) {
    char path[64], text[512];
    for (;;) {
        const pid_t thread = atomic_load(&waiter);
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
        const int file = thread == 0 ? -1 : open(path, O_RDONLY);
        if (file >= 0) {
            const ssize_t got = read(file, text, sizeof text - 1);
            close(file);
            CHECK(got > 0);
            text[got] = 0;
            const char *state = strrchr(text, ')');
            if (state != NULL && state[2] == 'S')
                return;
        }
        sched_yield();
    }
}

static void fit(void) {
    wavetrain_config fitted = config;
    CHECK_OK(wavetrain_config_fit(&fitted, &uri, 1, scratch, sizeof scratch, &error), error);
}

static void need(void) {
    static wavetrain_memory bill = { .struct_size = sizeof bill };
    CHECK_OK(wavetrain_memory_need(&config, &bill, &error), error);
}

static void info(void) {
    static wavetrain_array_view view = { .struct_size = sizeof view };
    CHECK_OK(wavetrain_array_info(uri, NULL, scratch, sizeof scratch, &view, &error), error);
}

static void open_it(void) {
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
}

static void push_one(void) {
    push_cube(loader, uri, 3, 5, 7, BOX, 1);
}

static void push_a_wrong_one(void) {
    const wavetrain_box box = cube_box(uri, 0, 0, 0, BOX + 1);
    const wavetrain_sample sample = sample_of(&box, 2);
    size_t taken;
    CHECK_STATUS(wavetrain_push(loader, &sample, 1, sizeof sample, 0, &taken), WAVETRAIN_INVALID);
}

static void flush(void) {
    CHECK_STATUS(wavetrain_flush(loader), WAVETRAIN_OK);
}

static void pop(void) {
    CHECK_STATUS(wavetrain_pop(loader, WAVETRAIN_FOREVER, &batch, &error), WAVETRAIN_OK);
}

static void pop_in_vain(void) {
    CHECK_STATUS(wavetrain_pop(loader, 1000000, &batch, &error), WAVETRAIN_STARVED);
}

static void release(void) {
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
}

static void reset(void) {
    CHECK_STATUS(wavetrain_reset(loader), WAVETRAIN_OK);
}

static void pump(void) {
    while (wavetrain_pump(loader, 1000000) == WAVETRAIN_OK) {
    }
}

static void close_it(void) {
    CHECK_STATUS(wavetrain_close(loader, WAVETRAIN_FOREVER, NULL), WAVETRAIN_OK);
}

/* The batch that push_one asked for. */
static void check_batch(void) {
    const wavetrain_batch_view view = view_of(loader, batch);
    CHECK(view.sample_count == 1 && row_is_cube(&view, 0, 0, 3, 5, 7, BOX));
}

/* The whole life of a loader, each call on a thread that was cancelled before it. */
static void live(void) {
    call_cancelled(need);
    call_cancelled(open_it);
    for (int turn = 0; turn < 3; turn++) {
        call_cancelled(push_one);
        if (config.thread_mode != WAVETRAIN_THREADS_OWN)
            call_cancelled(pump);
        call_cancelled(pop);
        check_batch();
        call_cancelled(release);
    }
    call_cancelled(pop_in_vain);
    call_cancelled(push_a_wrong_one);
    call_cancelled(push_one);
    call_cancelled(reset);
    call_cancelled(push_one);
    call_cancelled(flush);
    call_cancelled(pop);
    call_cancelled(release);
    call_cancelled(close_it);
}

/* Threads that are cancelled while they wait, and what they wait for comes later. */
static void wait_cancelled(void) {
    static wavetrain_batch held[3];
    open_it();
    pthread_t thread = begin(pop);
    await_sleep();
    push_one();
    end(thread);
    check_batch();
    held[0] = batch;
    for (int slot = 1; slot < 3; slot++) {
        push_one();
        pop();
        held[slot] = batch;
    }
    push_one();
    push_one();
    thread = begin(push_one); /* the lookahead is full, and every slot is held */
    await_sleep();
    CHECK_STATUS(wavetrain_release(loader, held[0], NULL), WAVETRAIN_OK);
    end(thread);
    for (int turn = 0; turn < 3; turn++) {
        pop();
        check_batch();
        release();
    }
    for (int slot = 1; slot < 3; slot++)
        CHECK_STATUS(wavetrain_release(loader, held[slot], NULL), WAVETRAIN_OK);
    close_it();
}

/* Files of the system, through a hook that cancels the thread that it is called on. */
static sem_t begun, go_on;
static _Atomic int must_wait;

static int64_t size_hook(void *user, const char *name) {
    (void)user;
    CHECK(pthread_cancel(pthread_self()) == 0);
    const int file = open(name, O_RDONLY);
    const int64_t bytes = file < 0 ? WAVETRAIN_FILE_ABSENT : lseek(file, 0, SEEK_END);
    if (file >= 0)
        close(file);
    return bytes;
}

static int64_t read_hook(void *user, const char *name, uint64_t offset, void *target,
                         uint64_t bytes) {
    (void)user;
    CHECK(pthread_cancel(pthread_self()) == 0);
    pthread_testcancel();
    if (atomic_load(&must_wait)) {
        sem_post(&begun);
        sem_wait(&go_on);
    }
    const int file = open(name, O_RDONLY);
    if (file < 0)
        return WAVETRAIN_FILE_ABSENT;
    const int is_read = pread(file, target, bytes, (off_t)offset) == (ssize_t)bytes;
    close(file);
    return is_read ? 0 : WAVETRAIN_FILE_FAILED;
}

/* Close waits for a read that is in flight. */
static void close_cancelled(void) {
    atomic_store(&must_wait, 1);
    open_it();
    push_one();
    CHECK(sem_wait(&begun) == 0);
    const pthread_t thread = begin(close_it);
    await_sleep();
    CHECK(!atomic_load(&has_returned));
    atomic_store(&must_wait, 0);
    CHECK(sem_post(&go_on) == 0);
    end(thread);
    CHECK_STATUS(wavetrain_flush(loader), WAVETRAIN_SHUTDOWN);
}

static void (*queued_job)(void *);
static void *queued_argument;

static void run_hook(void *user, void (*job)(void *), void *argument) {
    (void)user;
    queued_job = job;
    queued_argument = argument;
}

static void run_job(void) {
    queued_job(queued_argument);
}

/* Jobs of a host that cancels the thread which runs them. */
static void jobs_cancelled(void) {
    open_it();
    call_cancelled(push_one);
    wavetrain_status status;
    while ((status = wavetrain_pop(loader, 0, &batch, NULL)) == WAVETRAIN_AGAIN)
        call_cancelled(run_job);
    CHECK_STATUS(status, WAVETRAIN_OK);
    check_batch();
    release();
    close_it();
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    uri = argv[1];
    alarm(PATIENCE_SECONDS);
    CHECK(sem_init(&begun, 0, 0) == 0 && sem_init(&go_on, 0, 0) == 0);
    config = cube_config(BOX);
    config.max_chunk_uncompressed_bytes = 1 << 16;
    config.lookahead_samples = 2;
    call_cancelled(info);
    call_cancelled(fit);
    live();
    wait_cancelled();
    config.thread_mode = WAVETRAIN_THREADS_PUMP;
    live();
    config.files.size = size_hook;
    config.files.read = read_hook;
    live();
    config.thread_mode = WAVETRAIN_THREADS_OWN;
    live();
    close_cancelled();
    config.thread_mode = WAVETRAIN_THREADS_HOOK;
    config.workers.run = run_hook;
    jobs_cancelled();
    return 0;
}
