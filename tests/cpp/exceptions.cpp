/* exceptions.cpp FOLDER: wavetrain_exceptions.hpp throws the class of what went wrong, and its
 * names behave as the reference's do.
 *
 * FOLDER/cube is a sparse cube of tests/common/store.rs, FOLDER/damaged one with broken indexes.
 */
#include "wavetrain_exceptions.hpp"

#include "cube.hpp"

#include <typeinfo>

using wavetrain::Batch;
using wavetrain::Config;
using wavetrain::Pipeline;
using wavetrain::Sample;

static std::string cube, damaged, missing;

static Sample numbered(const std::string &uri, std::uint64_t number) {
    const place at(number);
    return Sample(uri, { { at.z, at.z + BOX }, { at.y, at.y + BOX }, { at.x, at.x + BOX } },
                  number);
}

static std::vector<Sample> some(std::uint64_t count) {
    std::vector<Sample> samples;
    for (std::uint64_t number = 0; number < count; number++)
        samples.push_back(numbered(cube, number));
    return samples;
}

static Config settings() {
    Config config(SAMPLES, { BOX, BOX, BOX });
    set_cube(config);
    return config;
}

/* The call must throw this class, not another of ours. */
template <class Expected, class Call> Expected thrown_by(Call call) {
    try {
        call();
    } catch (const Expected &error) {
        CHECK(typeid(error) == typeid(Expected));
        CHECK(std::strstr(error.what(), error.status().name()) != nullptr);
        CHECK(std::strncmp(error.what(), error.stage(), std::strlen(error.stage())) == 0);
        const std::string head = std::string(error.stage()) + ": " + error.status().name() + ": ";
        CHECK(std::strlen(error.what()) > head.size()); /* and the reason */
        return error;
    } catch (const std::exception &error) {
        fprintf(stderr, "another exception: %s\n", error.what());
        _exit(1);
    }
    fprintf(stderr, "nothing was thrown\n");
    _exit(1);
}

static bool says(const std::exception &error, const std::string &text) {
    return std::string(error.what()).find(text) != std::string::npos;
}

/* ---- one class per status ---- */

static void wrong_arguments_are_invalid_arguments() {
    thrown_by<wavetrain::InvalidArgument>([] { Config(0, { BOX }); });
    thrown_by<wavetrain::InvalidArgument>([] { Config(1, {}); });
    for (const std::int64_t wrong : { std::int64_t(-1), (std::int64_t(1) << 32) + 2 })
        CHECK(says(thrown_by<wavetrain::InvalidArgument>([&] { Config(wrong, { BOX }); }),
                   "samples_per_batch"));
    const auto error = thrown_by<wavetrain::InvalidArgument>([] {
        Pipeline pipeline(settings());
        pipeline.push({ numbered(cube, 1), Sample(cube, { { 0, 3 }, { 0, 3 }, { 0, 3 } }, 77) });
    });
    CHECK(error.status() == WAVETRAIN_INVALID && error.tag() == 77 && says(error, "sample_shape"));
    thrown_by<wavetrain::InvalidArgument>([] { wavetrain::dtype_from_name("nope"); });
    thrown_by<wavetrain::InvalidArgument>([] { Batch().info(); });
    thrown_by<wavetrain::InvalidArgument>([] { Sample().axis(0); });
    std::vector<std::pair<std::int64_t, std::int64_t>> axes(17, { 0, 1 });
    thrown_by<wavetrain::InvalidArgument>([&] { Sample(cube, axes.begin(), axes.end()); });
}

static void limits_of_config_and_machine_have_their_classes() {
    thrown_by<wavetrain::BudgetExceeded>([] {
        Config config = settings();
        config.max_host_memory_bytes = 1;
        config.validate();
    });
    thrown_by<wavetrain::Unsupported>([] {
        Config config = settings();
        config.numa_strategy = WAVETRAIN_NUMA_PIN;
        Pipeline pipeline(config);
    });
    struct nothing {
        void *alloc(std::uint64_t, std::uint64_t) { return nullptr; }
        void free(void *, std::uint64_t, std::uint64_t) {}
    } memory;
    const auto error = thrown_by<wavetrain::OutOfMemory>([&] {
        Config config = settings();
        config.use_memory(memory);
        Pipeline pipeline(config);
    });
    CHECK(std::string(error.stage()) == "open");
    thrown_by<wavetrain::RankMismatch>([] {
        Pipeline pipeline(settings());
        pipeline.push({ Sample(cube, { { 0, BOX } }) });
    });
}

/* Pops until it throws; the batches before must be right. */
static void pop_all(Pipeline &pipeline) {
    for (Batch &batch : pipeline.batches())
        CHECK(batch_is_right(batch));
}

static void errors_of_the_store_come_at_pop_and_name_the_sample() {
    std::vector<Sample> samples = some(9);
    samples[7] = numbered(missing, 7);
    Pipeline pipeline(settings());
    pipeline.push(samples);
    const auto absent = thrown_by<wavetrain::NotFound>([&] { pop_all(pipeline); });
    CHECK(absent.tag() == 7 && absent.batch_id() == 2 && absent.sample() == 1);
    CHECK(says(absent, missing) && absent.chunk().empty());
    /* It stays until reset; then the pipeline is as good as new. */
    thrown_by<wavetrain::NotFound>([&] { pipeline.pop(); });
    thrown_by<wavetrain::NotFound>([&] { pipeline.push(some(1)); });
    pipeline.reset();

    samples[7] = numbered(damaged, 7);
    pipeline.push(std::move(samples));
    const auto broken = thrown_by<wavetrain::DecodeError>([&] { pop_all(pipeline); });
    CHECK(broken.tag() == 7 && broken.batch_id() == 2 && says(broken, damaged));
    pipeline.reset();
    pipeline.push(some(3));
    CHECK(batch_is_right(pipeline.pop()));

    thrown_by<wavetrain::DtypeMismatch>([] {
        Config config = settings();
        config.dtype = WAVETRAIN_U8;
        Pipeline narrow(config);
        narrow.push(some(3));
        narrow.pop();
    });
    struct broken_disk {
        std::int64_t size(const char *) { return WAVETRAIN_FILE_FAILED; }
        std::int64_t read(const char *, std::uint64_t, void *, std::uint64_t) {
            return WAVETRAIN_FILE_FAILED;
        }
    } disk;
    thrown_by<wavetrain::StorageError>([&] {
        Config config = settings();
        config.use_files(disk);
        Pipeline other(config);
        other.push(some(3));
        other.pop();
    });
}

static void a_missing_chunk_is_named_where_it_is_an_error() {
    Config config = settings();
    config.missing_chunks = WAVETRAIN_MISSING_ERROR;
    Pipeline pipeline(config);
    pipeline.push({ numbered(cube, 5), numbered(cube, 6), numbered(cube, 7) });
    pipeline.push([](Sample &out) { /* without end: some box meets a chunk that is not there */
        out = numbered(cube, 8);
        return true;
    });
    const auto error = thrown_by<wavetrain::NotFound>([&] { pop_all(pipeline); });
    CHECK(error.chunk().size() == 3);
}

template <class Expected> static void is_thrown_of(wavetrain_status status) {
    const auto why = wavetrain::error_of(status, "the text");
    CHECK(thrown_by<Expected>([&] { wavetrain::throw_error("pop", why); }).status() == status);
}

static void every_status_has_its_class() {
    is_thrown_of<wavetrain::PoolStarved>(WAVETRAIN_AGAIN);
    is_thrown_of<wavetrain::PoolStarved>(WAVETRAIN_STARVED);
    is_thrown_of<wavetrain::PoolStarved>(WAVETRAIN_END);
    is_thrown_of<wavetrain::InvalidArgument>(WAVETRAIN_INVALID);
    is_thrown_of<wavetrain::NotFound>(WAVETRAIN_NOT_FOUND);
    is_thrown_of<wavetrain::DtypeMismatch>(WAVETRAIN_DTYPE);
    is_thrown_of<wavetrain::RankMismatch>(WAVETRAIN_RANK);
    is_thrown_of<wavetrain::StorageError>(WAVETRAIN_IO);
    is_thrown_of<wavetrain::DecodeError>(WAVETRAIN_DECODE);
    is_thrown_of<wavetrain::Unsupported>(WAVETRAIN_UNSUPPORTED);
    is_thrown_of<wavetrain::NativeCudaError>(WAVETRAIN_CUDA);
    is_thrown_of<wavetrain::OutOfMemory>(WAVETRAIN_OUT_OF_MEMORY);
    is_thrown_of<wavetrain::BudgetExceeded>(WAVETRAIN_BUDGET);
    is_thrown_of<wavetrain::ShutdownError>(WAVETRAIN_SHUTDOWN);
    is_thrown_of<wavetrain::InternalError>(WAVETRAIN_INTERNAL);
}

/* A range whose elements become samples, and whose iterator is only moved. */
struct only_moved {
    struct iterator {
        std::unique_ptr<std::uint64_t> at;
        Sample operator*() const { return numbered(cube, *at); }
        iterator &operator++() { return ++*at, *this; }
        bool operator!=(std::uint64_t last) const { return *at != last; }
    };
    iterator begin() const { return { std::make_unique<std::uint64_t>(3) }; }
    std::uint64_t end() const { return 6; }
};

static void a_pipeline_moves_with_what_waits_in_it() {
    Config config = settings();
    config.lookahead_samples = 3;
    Pipeline first(config);
    first.push(some(3));
    first.push(only_moved());
    CHECK(first.pending());
    Pipeline second(std::move(first));
    auto batches = second.batches(2);
    std::uint64_t expected = 0;
    for (auto at = batches.begin(), end = batches.end(); at != end; ++at) {
        CHECK(batch_is_right(*at));
        for (const std::uint64_t tag : at->tags())
            CHECK(tag == expected++);
    }
    CHECK(expected == 6 && !second.pending());
    batches = second.batches(0);
    CHECK(!(batches.begin() != batches.end()));
}

static void what_no_failure_here_provokes_is_thrown_all_the_same() {
    wavetrain::error why;
    std::snprintf(why.text, sizeof why.text, "the text");
    why.tag = 5;
    why.chunk_rank = 2;
    why.chunk[1] = 9;
    why.status = WAVETRAIN_CUDA;
    const auto cuda =
        thrown_by<wavetrain::NativeCudaError>([&] { wavetrain::throw_error("pop", why); });
    CHECK(cuda.tag() == 5 && cuda.chunk().size() == 2 && cuda.chunk()[1] == 9);
    CHECK(std::string(cuda.what()) == "pop: CUDA: the text");
    why.status = WAVETRAIN_INTERNAL;
    thrown_by<wavetrain::InternalError>([&] { wavetrain::throw_error("pop", why); });
    why.status = -999;
    try {
        wavetrain::throw_error("pop", why);
    } catch (const wavetrain::Error &error) {
        CHECK(error.status() == -999 && typeid(error) == typeid(wavetrain::InternalError));
    }
    wavetrain::throw_unless_ok("pop", wavetrain::status());
}

static void a_closed_pipeline_throws_shutdown() {
    Pipeline pipeline(settings());
    pipeline.push(some(3));
    Batch held = pipeline.pop();
    pipeline.close();
    pipeline.close();
    CHECK(batch_is_right(held));
    const auto popped = thrown_by<wavetrain::ShutdownError>([&] { pipeline.pop(); });
    CHECK(says(popped, "the loader is closed") && says(popped, "open another"));
    thrown_by<wavetrain::ShutdownError>([&] { pipeline.push(some(1)); });
    thrown_by<wavetrain::ShutdownError>([&] { pipeline.flush(); });
    pipeline.close();
    thrown_by<wavetrain::ShutdownError>([&] { pipeline.stats(); });
    thrown_by<wavetrain::ShutdownError>([&] { pipeline.stats_reset(); });
    const auto reset = thrown_by<wavetrain::ShutdownError>([&] { pipeline.reset(); });
    CHECK(says(reset, "open another"));
    CHECK(!pipeline.pending());
}

static void no_batch_in_time_is_pool_starved() {
    Config config = settings();
    config.pop_timeout_ns = 1000000;
    Pipeline pipeline(config);
    pipeline.push(some(2));
    const auto error = thrown_by<wavetrain::PoolStarved>([&] { pipeline.pop(); });
    CHECK(error.status() == WAVETRAIN_STARVED && says(error, "samples are missing"));
    Batch none;
    CHECK(!pipeline.try_pop(none) && !none);
    pipeline.push({ numbered(cube, 2) });
    while (!pipeline.try_pop(none)) {
    }
    CHECK(none.tags()[2] == 2 && batch_is_right(none));
    pipeline.flush();
    const auto end = thrown_by<wavetrain::PoolStarved>([&] { pipeline.pop(); });
    CHECK(end.status() == WAVETRAIN_END && says(end, "push more"));
}

/* ---- the reference's names ---- */

static void push_takes_any_range_lazily() {
    Config config = settings();
    config.lookahead_samples = 4;
    Pipeline pipeline(config);
    std::uint64_t made = 0;
    pipeline.push(some(5));                                  /* a vector */
    pipeline.push({ numbered(cube, 5), numbered(cube, 6) }); /* a list */
    pipeline.push([&, number = std::make_unique<std::uint64_t>(7)](Sample &out) {
        out = numbered(cube, (*number)++); /* a generator without end, which may not be copied */
        made++;
        return true;
    });
    CHECK(pipeline.pending() && made <= 12);
    std::uint64_t expected = 0;
    for (Batch &batch : pipeline.batches(20)) {
        CHECK(batch.batch_id() == expected / SAMPLES && batch_is_right(batch));
        for (const std::uint64_t tag : batch.tags())
            CHECK(tag == expected++);
    }
    CHECK(expected == 60 && made < 60 + 12 && pipeline.pending());
    pipeline.reset();
    CHECK(!pipeline.pending());
}

static void flush_gives_the_rest_and_batches_ends() {
    Pipeline pipeline(settings());
    for (int round = 0; round < 2; round++) {
        pipeline.push(some(50));
        pipeline.flush();
        std::uint64_t expected = 0;
        std::uint32_t last = 0;
        for (Batch &batch : pipeline.batches()) {
            CHECK(batch_is_right(batch) && batch.tags()[0] == expected);
            expected += last = batch.sample_count();
        }
        CHECK(expected == 50 && last == 2 && !pipeline.pending());
    }
    /* Flushed twice with samples between: two short batches, in order. */
    pipeline.push(some(1));
    pipeline.flush();
    pipeline.push(some(2));
    pipeline.flush();
    CHECK(pipeline.pop().sample_count() == 1 && pipeline.pop().sample_count() == 2);
}

static void a_source_that_fails_is_dropped_and_the_others_go_on() {
    Pipeline pipeline(settings());
    int calls = 0;
    try {
        pipeline.push([&](Sample &) -> bool { throw std::out_of_range(std::to_string(calls++)); });
        CHECK(!"not reached");
    } catch (const std::out_of_range &) {
    }
    CHECK(!pipeline.pending() && calls == 1);
    std::vector<Sample> wrong = some(40);
    wrong[30] = Sample(cube, { { 0, 1 } }, 30);
    pipeline.push(wrong); /* the wrong one has no room yet */
    pipeline.push(some(2));
    pipeline.flush();
    std::vector<std::uint64_t> tags;
    int refused = 0;
    const auto keep = [&](Batch &batch) {
        CHECK(batch_is_right(batch));
        tags.insert(tags.end(), batch.tags().begin(), batch.tags().end());
    };
    for (bool is_over = false; !is_over;) {
        try {
            for (Batch &batch : pipeline.batches())
                keep(batch);
            is_over = true;
        } catch (const wavetrain::RankMismatch &) {
            refused++;
        }
    }
    CHECK(refused == 1 && tags.size() == 32 && tags[29] == 29 && tags[30] == 0 && tags[31] == 1);
}

static void values_are_what_they_say() {
    CHECK(wavetrain::dtype_from_name("BFloat16") == wavetrain::Dtype::BF16);
    CHECK(wavetrain::dtype_from_name("f32") == wavetrain::Dtype::F32);
    const Sample one(cube, { { 0, 64 }, { 1, 3 } }, 4);
    CHECK(one == Sample(cube, { { 0, 64 }, { 1, 3 } }, 4));
    CHECK(one != Sample(cube, { { 0, 64 }, { 1, 4 } }, 4));
    CHECK(one.uri() == cube && one.rank() == 2 && one.axis(1).second == 3 && one.tag() == 4);

    Pipeline pipeline(settings());
    CHECK(pipeline.device() == -1 && pipeline.config().samples_per_batch == SAMPLES);
    pipeline.push(some(3));
    Batch batch = pipeline.pop();
    const wavetrain::BatchInfo info = batch.info();
    CHECK(info.device_ptr == batch.data() && info.dtype == wavetrain::Dtype::F32);
    CHECK(info.shape.size() == 4 && info.shape[0] == SAMPLES && info.batch_id == 0);
    CHECK(info.ready_stream == nullptr && batch.as<float>().size() == SAMPLES * BOX * BOX * BOX);
    thrown_by<wavetrain::DtypeMismatch>([&] { batch.as<double>(); });
    int event = 0;
    const auto on_host = thrown_by<wavetrain::Unsupported>([&] { batch.release(&event); });
    CHECK(says(on_host, "which no event of a device is for"));
    CHECK(says(thrown_by<wavetrain::Unsupported>([&] {
                   batch.to_dlpack<DLManagedTensor>(&event);
               }),
               "stream is set"));
    CHECK(pipeline.stats().raw.batches_held == 1);
    batch.release();
    batch.release();
    const wavetrain::Stats stats = pipeline.stats();
    CHECK(stats.raw.batches_held == 0 && stats.raw.samples_pushed == 3);
    CHECK(std::string(stats.decode.name) == "decode" && stats.decode.count > 0);
    CHECK(stats.decode.ms > 0 && stats.decode.best_ms <= stats.decode.ms);
    CHECK(stats.input_transfer.count == 0 && stats.input_transfer.best_ms == 1e30);
    pipeline.stats_reset();
    CHECK(pipeline.stats().decode.count == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    cube = std::string(argv[1]) + "/cube";
    damaged = std::string(argv[1]) + "/damaged";
    missing = std::string(argv[1]) + "/missing";

    wrong_arguments_are_invalid_arguments();
    limits_of_config_and_machine_have_their_classes();
    errors_of_the_store_come_at_pop_and_name_the_sample();
    a_missing_chunk_is_named_where_it_is_an_error();
    every_status_has_its_class();
    a_pipeline_moves_with_what_waits_in_it();
    what_no_failure_here_provokes_is_thrown_all_the_same();
    a_closed_pipeline_throws_shutdown();
    no_batch_in_time_is_pool_starved();
    push_takes_any_range_lazily();
    flush_gives_the_rest_and_batches_ends();
    a_source_that_fails_is_dropped_and_the_others_go_on();
    values_are_what_they_say();
    return 0;
}
