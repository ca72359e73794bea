/* exceptions.cpp FOLDER: a call of wavetrain_exceptions.hpp that fails throws the class of its
 * status, and a call that does not fail does what that of wavetrain.hpp does.
 *
 * FOLDER/cube is a sparse cube of tests/common/store.rs, FOLDER/damaged one with broken indexes.
 */
#include "wavetrain_exceptions.hpp"

#include "cube.hpp"

#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

using wavetrain::Batch;
using wavetrain::config;
using wavetrain::Pipeline;
using wavetrain::sample;

static std::string cube, damaged, missing;

static std::vector<sample> some(std::uint64_t count) {
    std::vector<sample> samples;
    for (std::uint64_t number = 0; number < count; number++)
        samples.push_back(cube_sample(cube.c_str(), number));
    return samples;
}

static void push_some(Pipeline &pipeline, std::uint64_t count) {
    for (const sample &one : some(count))
        pipeline.push(one);
}

/* Streams the samples until it throws; the batches before must be right. */
static void stream(Pipeline &pipeline, const std::vector<sample> &samples) {
    for (Batch &batch : pipeline.batches(samples.begin(), samples.end()))
        CHECK(batch_is_right(batch));
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
    const auto none = thrown_by<wavetrain::InvalidArgument>([] { Pipeline{ config() }; });
    CHECK(says(none, "sample_rank") && std::string(none.stage()) == "open");
    const auto error = thrown_by<wavetrain::InvalidArgument>([] {
        Pipeline pipeline(cube_settings());
        pipeline.push({ cube.c_str(), { 0, 0, 0 }, { 3, 3, 3 }, 77 });
    });
    CHECK(error.status() == WAVETRAIN_INVALID && error.tag() == 77 && says(error, "sample_shape"));
}

static void limits_of_config_and_machine_have_their_classes() {
    const auto budget = thrown_by<wavetrain::BudgetExceeded>([] {
        config settings = cube_settings();
        settings.max_host_memory_bytes = 1;
        wavetrain::memory need;
        wavetrain::error why;
        wavetrain::throw_unless_ok("memory_need", settings.memory_need(need, &why), why);
    });
    CHECK(std::string(budget.stage()) == "memory_need");
    thrown_by<wavetrain::Unsupported>([] {
        config settings = cube_settings();
        settings.enable_gds = WAVETRAIN_GDS_ON;
        Pipeline pipeline(settings);
    });
    struct nothing {
        void *alloc(std::uint64_t, std::uint64_t) { return nullptr; }
        void free(void *, std::uint64_t, std::uint64_t) {}
    } memory;
    const auto error = thrown_by<wavetrain::OutOfMemory>([&] {
        config settings = cube_settings();
        settings.use_memory(memory);
        Pipeline pipeline(settings);
    });
    CHECK(std::string(error.stage()) == "open");
    thrown_by<wavetrain::RankMismatch>([] {
        Pipeline pipeline(cube_settings());
        pipeline.push({ cube.c_str(), { 0 }, { BOX } });
    });
}

static void errors_of_the_store_come_at_pop_and_name_the_sample() {
    std::vector<sample> samples = some(9);
    samples[7] = cube_sample(missing.c_str(), 7);
    Pipeline pipeline(cube_settings());
    const auto absent = thrown_by<wavetrain::NotFound>([&] { stream(pipeline, samples); });
    CHECK(absent.tag() == 7 && absent.batch_id() == 2 && absent.sample() == 1);
    CHECK(says(absent, missing) && absent.chunk().empty());
    /* It stays until reset; then the pipeline is as good as new. */
    thrown_by<wavetrain::NotFound>([&] { pipeline.pop(); });
    thrown_by<wavetrain::NotFound>([&] { pipeline.push(samples[0]); });
    pipeline.reset();

    samples[7] = cube_sample(damaged.c_str(), 7);
    const auto broken = thrown_by<wavetrain::DecodeError>([&] { stream(pipeline, samples); });
    CHECK(broken.tag() == 7 && broken.batch_id() == 2 && says(broken, damaged));
    pipeline.reset();
    push_some(pipeline, 3);
    CHECK(batch_is_right(pipeline.pop()));

    thrown_by<wavetrain::DtypeMismatch>([] {
        config settings = cube_settings();
        settings.dtype = WAVETRAIN_U8;
        Pipeline narrow(settings);
        push_some(narrow, 3);
        narrow.pop();
    });
    struct broken_disk {
        std::int64_t size(const char *) { return WAVETRAIN_FILE_FAILED; }
        std::int64_t read(const char *, std::uint64_t, void *, std::uint64_t) {
            return WAVETRAIN_FILE_FAILED;
        }
    } disk;
    thrown_by<wavetrain::StorageError>([&] {
        config settings = cube_settings();
        settings.use_files(disk);
        Pipeline other(settings);
        push_some(other, 3);
        other.pop();
    });
}

static void a_missing_chunk_is_named_where_it_is_an_error() {
    config settings = cube_settings();
    settings.missing_chunks = WAVETRAIN_MISSING_ERROR;
    Pipeline pipeline(settings);
    const auto error = thrown_by<wavetrain::NotFound>([&] {
        /* Without an end: some box meets a chunk that does not exist. */
        for (Batch &batch : pipeline.batches([number = 5u](sample &out) mutable noexcept {
                 out = cube_sample(cube.c_str(), number < 8 ? number++ : number);
                 return true;
             }))
            CHECK(batch_is_right(batch));
    });
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

static void errors_that_no_failure_here_provokes_are_thrown_all_the_same() {
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
    wavetrain::throw_unless_ok("pop", WAVETRAIN_OK, why);
    /* The text of another failure is not shown. */
    const auto replaced = thrown_by<wavetrain::Unsupported>(
        [&] { wavetrain::throw_unless_ok("pop", WAVETRAIN_UNSUPPORTED, why); });
    CHECK(!says(replaced, "the text") && replaced.tag() != 5);
}

static void a_closed_pipeline_throws_shutdown() {
    Pipeline pipeline(cube_settings());
    push_some(pipeline, 3);
    Batch held = pipeline.pop();
    pipeline.close();
    pipeline.close();
    CHECK(batch_is_right(held));
    const sample one = cube_sample(cube.c_str(), 0);
    const auto popped = thrown_by<wavetrain::ShutdownError>([&] { pipeline.pop(); });
    CHECK(says(popped, "the loader is closed") && says(popped, "open another"));
    thrown_by<wavetrain::ShutdownError>([&] { pipeline.push(one); });
    thrown_by<wavetrain::ShutdownError>([&] { stream(pipeline, { one }); });
    thrown_by<wavetrain::ShutdownError>([&] { pipeline.try_pop(held); });
    thrown_by<wavetrain::ShutdownError>([&] { pipeline.flush(); });
    thrown_by<wavetrain::ShutdownError>([&] { pipeline.stats(); });
    thrown_by<wavetrain::ShutdownError>([&] { pipeline.stats_reset(); });
    thrown_by<wavetrain::ShutdownError>([&] { pipeline.forget(nullptr); });
    thrown_by<wavetrain::ShutdownError>([&] { pipeline.pump(0); });
    const auto reset = thrown_by<wavetrain::ShutdownError>([&] { pipeline.reset(); });
    CHECK(says(reset, "open another"));
}

static void no_batch_in_time_is_pool_starved() {
    config settings = cube_settings();
    settings.pop_timeout_ns = 1000000;
    Pipeline pipeline(settings);
    push_some(pipeline, 2);
    const auto error = thrown_by<wavetrain::PoolStarved>([&] { pipeline.pop(); });
    CHECK(error.status() == WAVETRAIN_STARVED && says(error, "samples are missing"));
    CHECK(thrown_by<wavetrain::PoolStarved>([&] { pipeline.pop(0); }).status() == WAVETRAIN_AGAIN);
    Batch none;
    CHECK(!pipeline.try_pop(none) && !none);
    pipeline.push(cube_sample(cube.c_str(), 2));
    while (!pipeline.try_pop(none)) {
    }
    CHECK(none.tags()[2] == 2 && batch_is_right(none));
    pipeline.flush();
    const auto end = thrown_by<wavetrain::PoolStarved>([&] { pipeline.pop(); });
    CHECK(end.status() == WAVETRAIN_END && says(end, "push more"));
    CHECK(!pipeline.try_pop(none));
}

static void a_full_lookahead_is_pool_starved() {
    config settings = cube_settings();
    settings.lookahead_samples = SAMPLES;
    Pipeline pipeline(settings);
    const auto full = thrown_by<wavetrain::PoolStarved>([&] {
        for (const sample &one : some(1000)) /* until the batches ahead are full, too */
            pipeline.push(one, 200000000);
    });
    CHECK(full.status() == WAVETRAIN_AGAIN && std::string(full.stage()) == "push");
    /* The call that does not throw. */
    CHECK(pipeline.loader::push(some(1)[0], 0) == WAVETRAIN_AGAIN);
    std::size_t taken = 0;
    const std::vector<sample> samples = some(2);
    thrown_by<wavetrain::PoolStarved>([&] { pipeline.push(samples, 0, taken); });
    CHECK(taken == 0);
}

/* ---- calls that do not fail ---- */

static void batches_takes_a_callable_lazily() {
    config settings = cube_settings();
    settings.lookahead_samples = 4;
    Pipeline first(settings), pipeline(std::move(first)); /* a move takes the loader along */
    std::uint64_t made = 0, expected = 0;
    for (Batch &batch : pipeline.batches([&, number = std::make_unique<std::uint64_t>(0)](
                                             sample &out) { /* without an end, and move-only */
             out = cube_sample(cube.c_str(), (*number)++);
             made++;
             return true;
         })) {
        CHECK(batch.batch_id() == expected / SAMPLES && batch_is_right(batch));
        for (const std::uint64_t tag : batch.tags())
            CHECK(tag == expected++);
        if (expected == 60)
            break;
    }
    CHECK(expected == 60 && made < 60 + 12);
}

static void batches_without_a_source_flushes_and_ends() {
    Pipeline pipeline(cube_settings());
    for (int round = 0; round < 2; round++) {
        push_some(pipeline, 8);
        std::uint64_t expected = 0;
        std::uint32_t last = 0;
        for (Batch &batch : pipeline.batches()) {
            CHECK(batch_is_right(batch) && batch.tags()[0] == expected);
            expected += last = batch.sample_count();
        }
        CHECK(expected == 8 && last == 2);
    }
    /* Flushed twice with samples between: two short batches, in order. */
    push_some(pipeline, 1);
    pipeline.flush();
    push_some(pipeline, 2);
    pipeline.flush();
    CHECK(pipeline.pop().sample_count() == 1 && pipeline.pop().sample_count() == 2);
}

static void an_exception_of_a_source_leaves_the_pipeline_usable() {
    Pipeline pipeline(cube_settings());
    int calls = 0;
    try {
        for (Batch &batch : pipeline.batches([&](sample &out) -> bool {
                 out = cube_sample(cube.c_str(), 0);
                 return ++calls < 3 ? true : throw std::out_of_range("of the source");
             }))
            CHECK(!batch);
        CHECK(!"not reached");
    } catch (const std::out_of_range &) {
    }
    CHECK(calls == 3);
    stream(pipeline, some(4));
}

/* The batches of the samples before a refused one come out, then its error. */
static void a_sample_that_is_refused_ends_its_range() {
    Pipeline pipeline(cube_settings());
    std::vector<sample> samples = some(40);
    samples[31] = { cube.c_str(), { 0 }, { 1 }, 31 };
    std::uint32_t count = 0;
    const auto error = thrown_by<wavetrain::RankMismatch>([&] {
        for (Batch &batch : pipeline.batches(samples.begin(), samples.end()))
            count += batch.sample_count();
    });
    CHECK(count == 31 && error.tag() == 31);
    stream(pipeline, some(2));
}

static void batches_and_figures_are_those_of_the_core() {
    Pipeline pipeline(cube_settings());
    push_some(pipeline, 3);
    Batch batch = pipeline.pop();
    CHECK(batch.shape().size() == 4 && batch.shape()[0] == SAMPLES && batch.batch_id() == 0);
    CHECK(batch.as<float>().size() == SAMPLES * BOX * BOX * BOX);
    thrown_by<wavetrain::DtypeMismatch>([&] { batch.as<double>(); });
    int event = 0;
    const auto on_host = thrown_by<wavetrain::Unsupported>([&] { batch.release(&event); });
    CHECK(says(on_host, "which no event of a device is for"));
    CHECK(says(thrown_by<wavetrain::Unsupported>([&] {
                   batch.to_dlpack<DLManagedTensor>(&event);
               }),
               "stream is set"));
    thrown_by<wavetrain::InvalidArgument>([&] { batch.to_dlpack<DLManagedTensor>(nullptr, 1); });
    CHECK(pipeline.stats().batches_held == 1);
    batch.release();
    batch.release();
    const wavetrain::stats_view stats = pipeline.stats();
    CHECK(stats.batches_held == 0 && stats.samples_pushed == 3 && stats.decode.count > 0);
    pipeline.stats_reset();
    CHECK(pipeline.stats().decode.count == 0);
    pipeline.forget(cube.c_str());
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
    errors_that_no_failure_here_provokes_are_thrown_all_the_same();
    a_closed_pipeline_throws_shutdown();
    no_batch_in_time_is_pool_starved();
    a_full_lookahead_is_pool_starved();
    batches_takes_a_callable_lazily();
    batches_without_a_source_flushes_and_ends();
    an_exception_of_a_source_leaves_the_pipeline_usable();
    a_sample_that_is_refused_ends_its_range();
    batches_and_figures_are_those_of_the_core();
    return 0;
}
