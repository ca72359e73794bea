/* source_limits.cpp FOLDER: what sources refuse and by which name, whose threads call when, and
 * what lives how long. FOLDER/cube is a sparse cube of tests/common/store.rs.
 *
 * Built without exceptions and RTTI. This file is over 500 lines because its facts share one
 * program and one cube.
 */
#include "given.hpp"

static char cube[4096], missing[4096]; /* uris of an array, and of none */

/* Until another thread has made it true. */
static void wait_for(const std::atomic<bool> &fact) {
    while (!fact)
        sched_yield();
}

/* ---- Threads ------------------------------------------------------------------------------ */

/* Each call waits until the one behind it in its batch is over. */
static void results_are_in_order_whatever_the_order_of_the_threads() {
    static std::atomic<bool> over[3 * SIZE + 1];
    static std::atomic<std::uint64_t> first_done{ UINT64_MAX };
    source made([](const sample_info &info, given_sample &out) {
        if (info.idx_in_epoch >= 3 * SIZE)
            return false;
        if (info.idx_in_batch < SIZE - 1)
            wait_for(over[info.idx_in_epoch + 1]);
        std::uint64_t none = UINT64_MAX;
        first_done.compare_exchange_strong(none, info.idx_in_epoch);
        give_sample(out, info.idx_in_epoch);
        over[info.idx_in_epoch] = true;
        return true;
    });
    source_settings settings;
    settings.parallel = SIZE;
    open(made, settings);
    const workers ours(made, SIZE);
    batch found;
    for (std::uint64_t iteration = 0; iteration < 3; iteration++) {
        CHECK(made.next(found).ok());
        check_batch(found, iteration * SIZE, SIZE);
    }
    CHECK(first_done == SIZE - 1);
    check_end(made);
    made.close();
}

/* A job system: runs a job at once, when it is told to, or on threads of its own. */
class job_system {
public:
    enum kind { INLINE, LATER, POOL };
    explicit job_system(kind which) : which_(which) {
        for (pthread_t &thread : threads_)
            CHECK(which != POOL || pthread_create(&thread, nullptr, &serve, this) == 0);
    }
    ~job_system() {
        CHECK(begun_ == handed_ && depth_max <= 1);
        is_over_ = true;
        for (const pthread_t thread : threads_)
            if (which_ == POOL)
                pthread_join(thread, nullptr);
    }
    void operator()(void (*job)(void *), void *argument) {
        CHECK(handed_ - begun_ < 16);
        if (which_ == INLINE) {
            handed_++, begun_++;
            depth_++;
            depth_max = depth_ > depth_max ? depth_ : depth_max;
            job(argument);
            depth_--;
            return;
        }
        pthread_mutex_lock(&lock_);
        queue_[handed_++ % 16] = { job, argument };
        pthread_mutex_unlock(&lock_);
    }
    /* Runs the job that was handed in first; whether there was one. */
    bool run_one() {
        pthread_mutex_lock(&lock_);
        const bool is_there = begun_ != handed_;
        const entry first = is_there ? queue_[begun_++ % 16] : entry{};
        pthread_mutex_unlock(&lock_);
        if (is_there)
            first.job(first.argument);
        return is_there;
    }
    std::uint64_t handed() const { return handed_; }
    std::uint32_t depth_max = 0;

private:
    struct entry {
        void (*job)(void *);
        void *argument;
    };
    static void *serve(void *self) {
        while (!static_cast<job_system *>(self)->is_over_)
            if (!static_cast<job_system *>(self)->run_one())
                sched_yield();
        return nullptr;
    }
    const kind which_;
    pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
    entry queue_[16];
    std::atomic<std::uint64_t> handed_{ 0 }, begun_{ 0 };
    std::uint32_t depth_ = 0;
    std::atomic<bool> is_over_{ false };
    pthread_t threads_[3];
};

template <class Give> static void by_jobs(job_system::kind kind, Give give) {
    job_system jobs(kind);
    source made(give);
    source_settings settings;
    settings.use_workers(jobs, 3).cycle = cycle::raise;
    settings.prefetch = 2;
    settings.blocking = kind != job_system::LATER;
    open(made, settings);
    batch found;
    for (int epoch = 0; epoch < 5; epoch++) {
        for (std::uint64_t iteration = 0; iteration < EPOCH;) {
            const status got = made.next(found);
            CHECK(got.ok() || (got == WAVETRAIN_AGAIN && kind == job_system::LATER));
            if (got.ok())
                check_batch(found, iteration * SIZE, count_of(iteration));
            else
                CHECK(jobs.run_one());
            iteration += got.ok();
        }
        while (made.next(found) == WAVETRAIN_AGAIN)
            CHECK(jobs.run_one());
        CHECK(made.status().ok());
    }
    /* Of the pool's, the thread in next may have made all the calls before the pool could. */
    CHECK(jobs.handed() > (kind == job_system::POOL ? 0 : 5));
    while (kind == job_system::LATER && jobs.run_one()) {
    }
    made.close();
}

static void jobs_of_the_host_make_the_calls() {
    for (const job_system::kind kind :
         { job_system::INLINE, job_system::LATER, job_system::POOL }) {
        by_jobs(kind, &by_sample);
        by_jobs(kind, &by_batch);
        by_jobs(kind, next_samples());
        by_jobs(kind, next_batches());
    }
}

static void nobody_waits_where_blocking_is_false() {
    static std::atomic<bool> go_on;
    go_on = false;
    source made([](const sample_info &info, given_sample &out) {
        wait_for(go_on);
        return by_sample(info, out);
    });
    source_settings settings;
    settings.parallel = 2;
    settings.blocking = false;
    open(made, settings);
    const workers ours(made, 2);
    check_fails(made, WAVETRAIN_AGAIN, "not there yet: calls are under way");
    go_on = true;
    batch found;
    for (std::uint64_t count = 0; count < COUNT; count += found.sample_count()) {
        while (made.next(found) == WAVETRAIN_AGAIN)
            sched_yield();
        check_batch(found, count, count_of(count / SIZE));
    }
    made.close();
}

/* The thread in next makes calls itself, but cannot do what another one does. */
static void a_wait_for_calls_ends_when_its_time_is_over() {
    static std::atomic<bool> go_on, is_in;
    go_on = is_in = false;
    source made([](const sample_info &info, given_sample &out) {
        if (info.idx_in_epoch == 0) {
            is_in = true;
            wait_for(go_on);
        }
        return by_sample(info, out);
    });
    source_settings settings;
    settings.parallel = 1;
    open(made, settings);
    const workers ours(made, 1);
    batch found;
    CHECK(made.try_next(found) == WAVETRAIN_AGAIN);
    wait_for(is_in);
    error why;
    CHECK(made.next(found, SECOND_NS / 100, &why) == WAVETRAIN_STARVED);
    CHECK(strstr(why.text, "calls are under way") != nullptr);
    go_on = true;
    check_epoch(made);
    made.close();
}

static void prefetch_says_how_many_batches_are_asked_for_ahead() {
    static std::atomic<std::uint64_t> most, least;
    most = 0, least = UINT64_MAX;
    source made([](const batch_info &info, given_batch &out) {
        most = info.iteration > most ? info.iteration : most.load();
        least = info.iteration < least ? info.iteration : least.load();
        return by_batch({ info.iteration % 2, 0 }, out);
    });
    source_settings settings;
    settings.parallel = 1;
    settings.prefetch = 3;
    open(made, settings);
    batch found;
    CHECK(made.next(found).ok());
    while (made.work().ok()) {
    }
    /* One came out, one is the loader's, and four are asked for at a time. */
    CHECK(made.work() == WAVETRAIN_AGAIN && least == 0 && most >= 3 && most <= 5);
    CHECK(made.next(found).ok());
    made.close();
}

static void work_says_why_it_does_nothing() {
    source made(&by_sample);
    CHECK(made.work() == WAVETRAIN_SHUTDOWN);
    open(made);
    CHECK(made.work() == WAVETRAIN_INVALID);
    source_settings settings;
    settings.parallel = 1;
    open(made, settings);
    CHECK(made.work() == WAVETRAIN_AGAIN && made.work(SECOND_NS / 100) == WAVETRAIN_STARVED);
    batch found;
    CHECK(made.try_next(found) == WAVETRAIN_AGAIN && made.work().ok());
    made.close();
    CHECK(made.work() == WAVETRAIN_SHUTDOWN && made.next(found) == WAVETRAIN_SHUTDOWN);
    CHECK(made.reset() == WAVETRAIN_SHUTDOWN && made.go_to({}) == WAVETRAIN_SHUTDOWN);
}

/* What is under way when it begins again gives nothing, and its memory is not used meanwhile. */
static void a_reset_does_not_wait_for_calls() {
    static std::atomic<bool> go_on, is_in;
    go_on = is_in = false;
    source made([](const sample_info &info, given_sample &out) {
        if (info.epoch == 0 && info.idx_in_epoch == 1) {
            is_in = true;
            wait_for(go_on);
            give_sample(out, 40);
            return false;
        }
        return by_sample(info, out);
    });
    source_settings settings;
    settings.parallel = 2;
    open(made, settings);
    {
        workers ours(made, 2);
        batch found;
        CHECK(made.try_next(found) == WAVETRAIN_AGAIN);
        wait_for(is_in);
        CHECK(made.reset().ok());
        check_next(made, 0);
        go_on = true;
        check_next(made, 1);
        check_next(made, 2);
        check_end(made);
        CHECK(made.place().epoch == 1);
        made.close();
    }
}

static void close_waits_for_calls_under_way() {
    static std::atomic<bool> is_in, is_over;
    is_in = is_over = false;
    source made([](const batch_info &, given_batch &out) {
        is_in = true;
        for (int step = 0; step < 1000; step++)
            sched_yield();
        is_over = true;
        return out.fail(WAVETRAIN_IO, "nobody hears this");
    });
    source_settings settings;
    settings.parallel = 1;
    open(made, settings);
    const workers ours(made, 1);
    batch found;
    CHECK(made.try_next(found) == WAVETRAIN_AGAIN);
    wait_for(is_in);
    made.close();
    CHECK(is_over);
}

/* ---- Errors ------------------------------------------------------------------------------- */

/* The text behind an error, of a callback for which sample 9 is wrong; it is in batch 2. */
template <class Give>
static void comes_out_behind(Give give, wavetrain_status with, const char *text,
                             source_settings settings = {}, const config &of = table()) {
    for (std::uint32_t threads = 0; threads <= 2; threads += 2) {
        settings.parallel = threads;
        source made([&](const sample_info &info, given_sample &out) -> status {
            if (info.idx_in_epoch != 9)
                return by_sample(info, out) ? WAVETRAIN_OK : WAVETRAIN_END;
            return give(out);
        });
        open(made, settings, of);
        const workers ours(made, threads);
        for (int epoch = 0; epoch < 2; epoch++) {
            check_next(made, 0);
            check_next(made, 1);
            for (int again = 0; again < 3; again++)
                check_fails(made, with, text);
            CHECK(made.reset().ok());
        }
        made.close();
    }
}

static void an_error_comes_behind_the_batches_before_it() {
    comes_out_behind([](given_sample &out) { return out.fail(WAVETRAIN_IO, "cut short"); },
                     WAVETRAIN_IO, "sample 1 of batch 2 of epoch ");
    comes_out_behind([](given_sample &out) { return out.fail(WAVETRAIN_IO, "cut short"); },
                     WAVETRAIN_IO, ": cut short");
    comes_out_behind([](given_sample &) { return WAVETRAIN_DECODE; }, WAVETRAIN_DECODE,
                     "the source returned DECODE");
    comes_out_behind([](given_sample &) { return WAVETRAIN_AGAIN; }, WAVETRAIN_INVALID,
                     "the source returned AGAIN: OK, END or an error is wanted");
    comes_out_behind([](given_sample &out) { return out.fail(WAVETRAIN_END, "no error"); },
                     WAVETRAIN_INVALID, "no error");
    comes_out_behind([](given_sample &) { return WAVETRAIN_OK; }, WAVETRAIN_INVALID,
                     "nothing is given for it");
}

static void what_does_not_fit_is_refused_by_its_name() {
    static const float zeros[100] = {};
    static const unsigned char bytes[80] = {};
    const auto give = [](auto fill) {
        return [fill](given_sample &out) {
            fill(out);
            return WAVETRAIN_OK;
        };
    };
    comes_out_behind(give([](given_sample &out) { out.value("mask", 1); }), WAVETRAIN_INVALID,
                     "the source gives a field 'mask', and the config has none");
    comes_out_behind(give([](given_sample &out) { out.value(2, 1); }), WAVETRAIN_INVALID,
                     "the source gives field 2, and the config has none");
    comes_out_behind(give([](given_sample &out) { out.value(-1, 1); }), WAVETRAIN_INVALID,
                     "and the config has none");
    comes_out_behind(give([](given_sample &out) { out.value(1, 1).value(1, 1).value(1, 1); }),
                     WAVETRAIN_INVALID, "more boxes than max_boxes_per_sample = 2");
    comes_out_behind(give([](given_sample &out) { out.value("label", 0.5); }), WAVETRAIN_DTYPE,
                     "field 'label': a number must be one of i64 (got one with a fraction");
    comes_out_behind(give([](given_sample &out) { out.array("image", zeros, { 3, 3 }); }),
                     WAVETRAIN_DTYPE, "f32");
    comes_out_behind(give([](given_sample &out) { out.array("image", labels, { 3, 3 }); }),
                     WAVETRAIN_DTYPE, "i64");
    comes_out_behind(give([](given_sample &out) {
                         out.array("image", images[0].elements, { 9, 8 });
                     }),
                     WAVETRAIN_INVALID, "9 places from 0 on do not fit an extent of 8");
    comes_out_behind(give([](given_sample &out) {
                         const wavetrain::tensor many(bytes, { 80 });
                         wavetrain::box box(many, 1, WAVETRAIN_BOX_VALUE);
                         out.add(box.into(1));
                     }),
                     WAVETRAIN_INVALID, "field 'label': a value has at most 64 bytes (got 80)");
    comes_out_behind(give([](given_sample &out) {
                         out.array("image", wavetrain::tensor(bytes, { 80 }), 17);
                     }),
                     WAVETRAIN_RANK, "field 'image' must have at most 16 axes (got 17)");
    source_settings copying;
    copying.copy = true;
    copying.copy_bytes = 200;
    comes_out_behind(give([](given_sample &out) { out.array("image", labels, { 5, 7 }); }),
                     WAVETRAIN_BUDGET,
                     "field 'image': 280 bytes are to be copied, and of copy_bytes = 208 there are "
                     "208 left: raise it",
                     copying);
}

/* push refuses it, with copy or without: nothing is read of what is not there. */
static void what_is_null_is_refused() {
    source_settings settings;
    for (int copies = 0; copies <= 1; copies++) {
        settings.copy = copies == 1;
        comes_out_behind([](given_sample &out) {
                             wavetrain_box box = {};
                             box.uri_bytes = 4;
                             box.rank = 1;
                             out.add(box);
                             return WAVETRAIN_OK;
                         },
                         WAVETRAIN_INVALID, "a uri is NULL, or its 4 bytes", settings);
        comes_out_behind([](given_sample &out) {
                             static const wavetrain_index_list list = { 0, 0, nullptr, 3 };
                             wavetrain::box box("/a", { 0 }, { 3 });
                             box.lists = &list, box.n_lists = 1, box.list_bytes = sizeof list;
                             out.add(box);
                             return WAVETRAIN_OK;
                         },
                         WAVETRAIN_INVALID, "indices must not be NULL", settings);
        comes_out_behind([](given_sample &out) {
                             static const std::int64_t rows[] = { 2, 0, 1 };
                             static const wavetrain::index_list lists[] = { { 0, rows } };
                             wavetrain::box box("/a", { 0 }, { 1 });
                             out.add(box.with(lists));
                             return WAVETRAIN_OK;
                         },
                         WAVETRAIN_INVALID, "index lists of 3 indices", settings);
        comes_out_behind([](given_sample &out) {
                             wavetrain_box box = {};
                             box.kind = WAVETRAIN_BOX_MEMORY;
                             out.add(box);
                             return WAVETRAIN_OK;
                         },
                         WAVETRAIN_INVALID, "tensor is NULL", settings);
        comes_out_behind([](given_sample &out) {
                             out.array(0, static_cast<const std::int32_t *>(nullptr), { 2, 2 });
                             return WAVETRAIN_OK;
                         },
                         WAVETRAIN_INVALID, "tensor.data is NULL", settings);
        comes_out_behind([](given_sample &out) {
                             out.value(static_cast<const char *>(nullptr), 1);
                             return WAVETRAIN_OK;
                         },
                         WAVETRAIN_INVALID, "and the config has none", settings);
        comes_out_behind([](given_sample &out) { return out.fail(WAVETRAIN_IO, nullptr); },
                         WAVETRAIN_IO, "sample 1 of batch 2 of epoch ", settings);
    }
    source columns([](given_batch &out) {
        out.column(1, static_cast<const std::int64_t *>(nullptr), { 2 });
        return true;
    });
    open(columns);
    check_fails(columns, WAVETRAIN_INVALID, "tensor.data is NULL");
    error why;
    CHECK(columns.open(table(), {}, { nullptr, 1 << 20 }, &why) == WAVETRAIN_BUDGET);
}

/* A text of the program's is one line, whatever it says. */
static void control_characters_are_escaped() {
    comes_out_behind([](given_sample &out) {
                         return out.fail(WAVETRAIN_IO, "a\nb\r\t\x1b[2J\x7f\xc3\xa4.");
                     },
                     WAVETRAIN_IO, ": a\\nb\\r\\t\\u{1b}[2J\\u{7f}\xc3\xa4.");
    comes_out_behind([](given_sample &out) {
                         out.value("la\nbel", 1);
                         return WAVETRAIN_OK;
                     },
                     WAVETRAIN_INVALID, "gives a field 'la\\nbel', and");
}

static void types_axes_and_layouts_are_checked() {
    static const std::uint8_t bytes[8] = {};
    const auto cubic = [](given_sample &out) {
        out.array("image", images[0].elements, { 2, 2, 1 });
        return WAVETRAIN_OK;
    };
    const auto narrow = [](given_sample &out) {
        out.array("image", bytes, { 2, 4 });
        return WAVETRAIN_OK;
    };
    source_settings settings;
    settings.expect(0, WAVETRAIN_I32, 2).layout(1, "");
    comes_out_behind(narrow, WAVETRAIN_DTYPE, "field 'image' must be an array of i32 (got u8)",
                     settings);
    comes_out_behind(cubic, WAVETRAIN_RANK, "field 'image' must have 2 axes (got 3)", settings);
    settings.layout(0, "HW");
    comes_out_behind(cubic, WAVETRAIN_RANK, "must have 2 axes, as layout HW (got 3)", settings);
    source made(&by_sample);
    open(made, settings);
    check_epoch(made);
    settings = {};
    settings.layout(0, "HWC");
    open(made, settings);
    check_fails(made, WAVETRAIN_RANK, "sample 0 of batch 0 of epoch 0: field 'image' must have 3");
}

static void the_first_sample_that_is_wrong_counts() {
    source made([](const sample_info &info, given_sample &out) -> status {
        if (info.idx_in_batch == 0)
            return out.value(1, 1).fail(WAVETRAIN_IO, "zero");
        return out.fail(WAVETRAIN_DECODE, "another");
    });
    source_settings settings;
    settings.parallel = 4;
    open(made, settings);
    const workers ours(made, 4);
    check_fails(made, WAVETRAIN_IO, "sample 0 of batch 0 of epoch 0: zero");
    made.close();
}

template <class Fill> static void is_no_batch(wavetrain_status with, const char *text, Fill fill) {
    source made([&](const batch_info &, given_batch &out) {
        fill(out);
        return true;
    });
    open(made);
    check_fails(made, with, text);
    made.close();
    source pushed;
    open(pushed);
    error why;
    CHECK(pushed.feed(fill, 0, &why) == with && why.status == with);
    CHECK(strstr(why.text, text) != nullptr);
    CHECK(pushed.feed([](given_batch &out) { out.column(1, labels, { 4 }); }).ok());
    batch found;
    CHECK(pushed.next(found).ok() && found.field(1).as<const std::int64_t>()[3] == 3);
}

static void a_batch_that_is_wrong_is_refused_by_name() {
    is_no_batch(WAVETRAIN_INVALID, "a batch must have 1 to 4 samples (got 0)",
                [](given_batch &) {});
    is_no_batch(WAVETRAIN_INVALID, "1 to 4 samples, of each field (got 5)", [](given_batch &out) {
        CHECK(out.capacity() == SIZE);
        out.column(1, labels, { 5 });
    });
    is_no_batch(WAVETRAIN_INVALID, "2 to 2 samples, of each field (got 3)", [](given_batch &out) {
        out.column(1, labels, { 2 }).column(0, labels, { 3, 1 });
    });
    is_no_batch(WAVETRAIN_RANK, "a column must have an axis", [](given_batch &out) {
        out.column(1, wavetrain::tensor(labels), 0);
    });
    is_no_batch(WAVETRAIN_INVALID, "1 to 4 samples (the source gives number 4)",
                [](given_batch &out) { out.sample(4).value(1, 1); });
    is_no_batch(WAVETRAIN_INVALID, "a column has 2 samples, and the source gives number 2",
                [](given_batch &out) { out.column(1, labels, { 2 }).sample(2); });
    is_no_batch(WAVETRAIN_INVALID, "nothing is given for it",
                [](given_batch &out) { out.sample(1).value(1, 1); });
    is_no_batch(WAVETRAIN_IO, ": shut", [](given_batch &out) {
        out.fail(WAVETRAIN_IO, "shut").ignore();
    });
}

static void settings_that_are_wrong_are_refused() {
    const auto refused = [](source_core &made, const source_settings &settings, const char *text) {
        error why;
        CHECK(made.open(table(), settings, { room, sizeof room }, &why) == WAVETRAIN_INVALID);
        CHECK(why.status == WAVETRAIN_INVALID && strstr(why.text, text) != nullptr);
        batch found;
        CHECK(made.next(found) == WAVETRAIN_SHUTDOWN);
    };
    source any(&by_sample);
    source once([](given_sample &) { return false; });
    source pushed;
    auto run = [](void (*job)(void *), void *argument) { job(argument); };
    source_settings settings;
    settings.cycle = static_cast<cycle>(3);
    refused(any, settings, "cycle must be no, quiet or raise");
    settings.cycle = cycle::quiet;
    refused(pushed, settings, "cycle must be no");
    refused(once, settings, "cannot begin again");
    settings = {};
    settings.repeat_last = true;
    refused(any, settings, "repeat_last is for what is fed");
    settings = {};
    settings.prefetch = 0;
    refused(any, settings, "prefetch must be 1 or more");
    settings = {};
    refused(any, settings.use_workers(run, 0), "parallel must be 1 or more");
    refused(pushed, settings.use_workers(run, 1), "use_workers is for callbacks");
    settings = {};
    refused(any, settings.layout(0, "HH"), "layout must have different letters");
    settings.layout(0, "HWC").expect(0, 0, 2);
    refused(any, settings, "layout must have as many letters");
    settings = {};
    refused(any, settings.expect(8, 0), "the config has no such field");
    settings = {};
    refused(any, settings.layout(2, "HW"), "the config has no such field");
    settings = {};
    refused(any, settings.expect(0, 17), "there is no such dtype");

    error why;
    settings = {};
    const std::uint64_t need = any.need(table(), settings);
    CHECK(any.open(table(), settings, { room, need - 1 }, &why) == WAVETRAIN_BUDGET);
    CHECK(strstr(why.text, "a source of this config needs") != nullptr);
    CHECK(any.open(table(), settings, { room + 1, need }, &why).ok());
    check_epoch(any);
    settings.parallel = 1;
    settings.prefetch = UINT32_MAX;
    settings.copy = true;
    settings.copy_bytes = UINT64_MAX / 2;
    CHECK(any.need(table(), settings) == UINT64_MAX);
    config wrong = table();
    wrong.n_batch_slots = 0;
    CHECK(any.open(wrong, {}, { room, sizeof room }, &why) == WAVETRAIN_INVALID);
    CHECK(strstr(why.text, "n_batch_slots") != nullptr);
}

/* ---- What is given ------------------------------------------------------------------------ */

/* One buffer for all samples, seen backwards; and the uri, too. */
static void a_copy_lets_memory_be_written_to() {
    static std::int32_t pixels[HEIGHT * WIDTH];
    source_settings settings;
    settings.copy = true;
    source made([](const sample_info &info, given_sample &out) {
        for (std::int32_t at = 0; at < HEIGHT * WIDTH; at++)
            pixels[at] = static_cast<std::int32_t>(info.idx_in_epoch) * 100 + at;
        wavetrain::tensor turned(pixels + HEIGHT * WIDTH - 1, { WIDTH, HEIGHT - 1 });
        turned.strides[0] = -4;
        turned.strides[1] = -4 * WIDTH;
        wavetrain::box box(turned, 2);
        out.add(box.into(0).along({ 2, 1 })).value(1, info.idx_in_epoch);
        return info.idx_in_epoch < 7 * SIZE;
    });
    open(made, settings);
    batch found;
    for (std::int32_t number = 0; number < 7; number++) {
        CHECK(made.next(found).ok());
        const span<const std::int32_t> all = found.as<const std::int32_t>();
        for (std::int32_t at = 0; at < SIZE * HEIGHT * WIDTH; at++) {
            const std::int32_t row = at / (HEIGHT * WIDTH), place = at % (HEIGHT * WIDTH);
            const std::int32_t y = place / WIDTH, x = place % WIDTH;
            const std::int32_t source = (HEIGHT - 1 - y) * WIDTH + (WIDTH - 1 - x);
            const std::int32_t wanted = (number * SIZE + row) * 100 + source;
            CHECK(all[static_cast<std::size_t>(at)] == (y < HEIGHT - 1 ? wanted : PAD));
        }
    }
    check_end(made);
}

/* Without copy, arrays of at most 64 bytes are copied all the same. */
static void few_elements_are_copied_at_once() {
    static std::int32_t pixels[32];
    source made([](const sample_info &info, given_sample &out) {
        for (std::int32_t at = 0; at < 32; at++)
            pixels[at] = static_cast<std::int32_t>(info.idx_in_epoch) * 100 + at;
        wavetrain::tensor every_second(pixels, { 4, 4 });
        every_second.strides[0] = 32;
        every_second.strides[1] = 8;
        out.array(0, every_second, 2);
        return info.idx_in_epoch < 2 * SIZE;
    });
    open(made);
    batch found;
    for (std::int32_t number = 0; number < 2; number++) {
        CHECK(made.next(found).ok());
        for (std::uint32_t row = 0; row < SIZE; row++)
            for (std::int32_t y = 0; y < 4; y++)
                for (std::int32_t x = 0; x < 4; x++) {
                    const std::size_t at = static_cast<std::size_t>(y * WIDTH + x);
                    const std::int32_t first = (number * SIZE + std::int32_t(row)) * 100;
                    CHECK(found.row<const std::int32_t>(row)[at] == first + y * 8 + x * 2);
                }
    }
}

static void boxes_of_stores_lie_beside_what_is_given() {
    const wavetrain::field fields[] = { wavetrain::field("voxels", WAVETRAIN_F32, { 4, 4, 4 }),
                                        wavetrain::field("place", WAVETRAIN_U8, { 3 }) };
    config of = table();
    of.use_fields(fields);
    source_settings settings;
    settings.copy = true;
    settings.copy_bytes = 2 * WAVETRAIN_URI_BYTES_MAX;
    static char uri[4096]; /* of the call alone */
    source made([](const sample_info &info, given_sample &out) {
        const std::int64_t at = static_cast<std::int64_t>(info.idx_in_epoch) * 3;
        snprintf(uri, sizeof uri, "%s", info.idx_in_epoch == 9 ? missing : cube);
        out.add(wavetrain::box(uri, { at, 2, 5 }, { at + 8, 6, 9 }).steps({ 2, 1, -1 }));
        memset(uri, '#', sizeof uri);
        const std::uint8_t place[] = { static_cast<std::uint8_t>(at), 2, 5 };
        out.array("place", place, { 3 });
        return info.idx_in_epoch < 10;
    });
    open(made, settings, of);
    batch found;
    for (std::int64_t number = 0; number < 2 * SIZE; number++) {
        const std::uint32_t row = static_cast<std::uint32_t>(number % SIZE);
        if (row == 0)
            CHECK(made.next(found).ok());
        const span<const float> voxels = found.row<const float>(row);
        for (std::int64_t z = 0; z < 4; z++)
            for (std::int64_t y = 0; y < 4; y++)
                for (std::int64_t x = 0; x < 4; x++)
                    CHECK(voxels[static_cast<std::size_t>(z * 16 + y * 4 + x)] ==
                          sparse_at(0, number * 3 + 2 * z, 2 + y, 8 - x));
        CHECK(found.field(1).row<const std::uint8_t>(row)[0] == number * 3);
    }
    for (int again = 0; again < 2; again++)
        check_fails(made, WAVETRAIN_NOT_FOUND, missing);
}

/* A number of any type for a field of any. */
template <class T>
static void number_becomes(T given, std::uint32_t dtype, const void *wanted, std::size_t bytes) {
    const wavetrain::field fields[] = { wavetrain::field("number", dtype) };
    config of = table();
    of.use_fields(fields).samples_per_batch = 1;
    source made([=](const sample_info &, given_sample &out) {
        out.value(0, given);
        return true;
    });
    open(made, {}, of);
    if (wanted == nullptr) {
        check_fails(made, WAVETRAIN_DTYPE, "field 'number': a number must be one of ");
        return;
    }
    batch found;
    error why;
    CHECK_OK(made.next(found, LONG_NS, &why).value(), why);
    CHECK(found.bytes() == bytes && memcmp(found.data(), wanted, bytes) == 0);
}

template <class T, class Wanted>
static void becomes(T given, std::uint32_t dtype, Wanted wanted) {
    number_becomes(given, dtype, &wanted, sizeof wanted);
}
template <class T> static void does_not_become(T given, std::uint32_t dtype) {
    number_becomes(given, dtype, nullptr, 0);
}

static void numbers_become_those_of_their_field_or_are_refused() {
    const double infinity = 1e308 * 10;
    becomes(7, WAVETRAIN_U8, std::uint8_t(7));
    becomes(255u, WAVETRAIN_U8, std::uint8_t(255));
    does_not_become(256, WAVETRAIN_U8);
    does_not_become(-1, WAVETRAIN_U8);
    becomes(-128, WAVETRAIN_I8, std::int8_t(-128));
    does_not_become(-129, WAVETRAIN_I8);
    does_not_become(128, WAVETRAIN_I8);
    becomes(INT64_MIN, WAVETRAIN_I64, INT64_MIN);
    does_not_become(UINT64_MAX, WAVETRAIN_I64);
    becomes(UINT64_MAX, WAVETRAIN_U64, UINT64_MAX);
    becomes(-0.0, WAVETRAIN_U64, std::uint64_t(0));
    becomes(-3.0, WAVETRAIN_I16, std::int16_t(-3));
    does_not_become(3.5f, WAVETRAIN_I16);
    does_not_become(infinity, WAVETRAIN_I64);
    does_not_become(infinity - infinity, WAVETRAIN_U64);
    does_not_become(0x1p64, WAVETRAIN_U64);
    becomes(true, WAVETRAIN_BOOL, true);
    does_not_become(2, WAVETRAIN_BOOL);
    becomes(1 << 24, WAVETRAIN_F32, 16777216.0f);
    does_not_become((1 << 24) + 1, WAVETRAIN_F32);
    becomes(0.1, WAVETRAIN_F32, 0.1f);
    does_not_become(1e39, WAVETRAIN_F32);
    becomes(-infinity, WAVETRAIN_F32, -static_cast<float>(infinity));
    becomes(0.1, WAVETRAIN_F64, 0.1);
    becomes(1e308, WAVETRAIN_F64, 1e308);
    becomes(INT64_C(1) << 53, WAVETRAIN_F64, 9007199254740992.0);
    does_not_become((INT64_C(1) << 53) + 1, WAVETRAIN_F64);
    becomes(UINT64_C(1) << 63, WAVETRAIN_F64, 9223372036854775808.0);
    becomes(-2, WAVETRAIN_F16, std::uint16_t(0xC000));
    does_not_become(65520.0, WAVETRAIN_F16);
    does_not_become(2049, WAVETRAIN_F16);
    becomes(1.5f, WAVETRAIN_BF16, std::uint16_t(0x3FC0));
    does_not_become(257, WAVETRAIN_BF16);
    const float single[] = { 2.5f, 0 };
    const double twice[] = { -7, 0 };
    number_becomes(2.5, WAVETRAIN_C64, single, sizeof single);
    number_becomes(-7, WAVETRAIN_C128, twice, sizeof twice);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    snprintf(cube, sizeof cube, "%s/cube", argv[1]);
    snprintf(missing, sizeof missing, "%s/missing", argv[1]);
    make_images();
    results_are_in_order_whatever_the_order_of_the_threads();
    jobs_of_the_host_make_the_calls();
    nobody_waits_where_blocking_is_false();
    a_wait_for_calls_ends_when_its_time_is_over();
    prefetch_says_how_many_batches_are_asked_for_ahead();
    work_says_why_it_does_nothing();
    a_reset_does_not_wait_for_calls();
    close_waits_for_calls_under_way();
    an_error_comes_behind_the_batches_before_it();
    what_does_not_fit_is_refused_by_its_name();
    what_is_null_is_refused();
    control_characters_are_escaped();
    types_axes_and_layouts_are_checked();
    the_first_sample_that_is_wrong_counts();
    a_batch_that_is_wrong_is_refused_by_name();
    settings_that_are_wrong_are_refused();
    a_copy_lets_memory_be_written_to();
    few_elements_are_copied_at_once();
    boxes_of_stores_lie_beside_what_is_given();
    numbers_become_those_of_their_field_or_are_refused();
    return 0;
}
