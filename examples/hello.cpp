/* hello.cpp ARRAY: wavetrain from C++, in the order in which you will need it.
 *
 *     tools/archive.sh out
 *     c++ -std=c++17 -Iout examples/hello.cpp out/libwavetrain.a -lpthread -ldl -o hello
 *     ./hello path/to/array.zarr
 *
 * Read main first: each line of it is a chapter. Nothing here throws, allocates or needs RTTI;
 * build it with -fno-exceptions -fno-rtti if you like. examples/engine.cpp goes on from here with
 * pak files and a job system; wavetrain_exceptions.hpp is for those who prefer exceptions.
 */
#include "wavetrain.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr std::uint32_t samples_per_batch = 4;
constexpr std::uint64_t edge_max = 32;

/* Every failure is told in one of these: what, where, and the fix. */
wavetrain::error why;

/* ---- 1. What is there? -------------------------------------------------------------------- */

wavetrain::array_view array;

/* array_info reads metadata only and needs no loader. It is also how you find out what a group
 * holds: the levels of an image, the wells of a plate. */
bool look_at(const char *uri) {
    static wavetrain::scratch room; /* four MiB: too much for a stack */
    if (!wavetrain::array_info(uri, array, room, &why))
        return false;
    for (const wavetrain_group_entry &entry : wavetrain::entries(array))
        std::printf("%s is a group, and has %s\n", uri, entry.path);
    if (array.kind != WAVETRAIN_NODE_ARRAY) {
        std::snprintf(why.text, sizeof why.text, "name one of the arrays in it");
        return false;
    }
    std::printf("%s: %s, rank %u, chunks %s\n", uri, array.dtype_name, array.rank, array.codecs);
    return true;
}

/* ---- 2. Where samples come from ----------------------------------------------------------- */

/* A generator of samples: boxes at random places, all of the shape that the batch has. A stream
 * calls it whenever the lookahead has room, and holds it by value. */
class crops {
public:
    crops(const char *uri, const wavetrain::config &config, std::uint64_t count)
        : uri_(uri), config_(&config), left_(count) {}

    bool operator()(wavetrain::sample &out) noexcept {
        if (left_ == 0)
            return false; /* the end; `out` does not count */
        std::int64_t begin[WAVETRAIN_RANK_MAX], end[WAVETRAIN_RANK_MAX];
        for (std::uint32_t axis = 0; axis < config_->sample_rank; axis++) {
            const std::uint64_t room = array.shape[axis] - config_->sample_shape[axis] + 1;
            begin[axis] = static_cast<std::int64_t>(next_random() % room);
            end[axis] = begin[axis] + static_cast<std::int64_t>(config_->sample_shape[axis]);
        }
        /* The uri is borrowed until push has copied it. The tag is yours, and comes back. */
        const std::size_t rank = config_->sample_rank;
        out = wavetrain::box(uri_, std::strlen(uri_), { begin, rank }, { end, rank });
        out.tag = left_--;
        return true;
    }

private:
    std::uint64_t next_random() noexcept {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return state_ >> 33;
    }

    const char *uri_;
    const wavetrain::config *config_;
    std::uint64_t left_;
    std::uint64_t state_ = 7;
};

/* ---- 3. Configuration --------------------------------------------------------------------- */

/* A config starts with the defaults, which work as they are; only the shape must be set. */
bool configure(const char *uri, wavetrain::config &config) {
    std::uint64_t shape[WAVETRAIN_RANK_MAX];
    for (std::uint32_t axis = 0; axis < array.rank; axis++)
        shape[axis] = array.shape[axis] < edge_max ? array.shape[axis] : edge_max;
    config.shape({ shape, array.rank }).samples_per_batch = samples_per_batch;

    /* fit raises the cap on the size of a chunk, if this array has larger ones. */
    static wavetrain::scratch room;
    if (!config.fit(uri, room, &why))
        return false;

    /* All memory is taken by open, none later. This is the bill, before anything is taken. */
    wavetrain::memory need;
    if (!config.memory_need(need, &why))
        return false;
    for (const wavetrain_memory_line &line : wavetrain::lines(need))
        std::printf("  %12llu bytes for the %s\n", static_cast<unsigned long long>(line.bytes),
                    line.name);
    return true;
}

/* ---- 4. Batches by hand ------------------------------------------------------------------- */

void show(const wavetrain::batch &batch) {
    double sum = 0;
    const wavetrain::span<float> elements = batch.as<float>(); /* empty if they were not f32 */
    for (const float element : elements)
        sum += static_cast<double>(element);
    std::printf("batch %llu: %u samples, mean %.3f\n",
                static_cast<unsigned long long>(batch.batch_id()), batch.sample_count(),
                sum / static_cast<double>(elements.size()));
}

bool by_hand(wavetrain::loader &loader, crops next) {
    wavetrain::sample sample;
    /* push waits while the lookahead is full; with a timeout of 0 it says AGAIN instead. */
    for (std::uint32_t number = 0; number < samples_per_batch + 1; number++)
        if (!next(sample) || !loader.push(sample, WAVETRAIN_FOREVER))
            return loader.last_error(why).ignore(), false;

    /* pop waits as long as config.pop_timeout_ns says, and gives the oldest batch. */
    wavetrain::batch first, second;
    if (!loader.pop(first, WAVETRAIN_POP_TIMEOUT, &why))
        return false;
    show(first);

    /* A fifth sample does not fill a batch. flush says that there are no more for now. */
    loader.flush().ignore();
    if (!loader.pop(second, WAVETRAIN_POP_TIMEOUT, &why))
        return false;
    show(second);

    /* Batches are given back in any order: by release, by assignment, or by going out of scope.
     * Until then their memory is yours, to write to as well. first.dlpack(&tensor) would hand it to
     * another library, until the tensor's deleter is called. */
    first.release().ignore();
    return loader.pop(second, WAVETRAIN_POP_TIMEOUT, &why) == WAVETRAIN_END;
}

/* ---- 5. Batches by a stream --------------------------------------------------------------- */

/* A stream pushes ahead of every pop, flushes at the end, and is a range of batches. */
bool by_generator(wavetrain::loader &loader, const crops &source) {
    auto stream = loader.stream(source);
    for (wavetrain::batch &batch : stream)
        show(batch); /* given back when the loop goes on; std::move it out to keep it */
    why = stream.error();
    return stream.status().ok(); /* a loop cannot say why it ended: always ask */
}

/* The same over iterators: of an array, a vector, a file that you parse, anything whose elements
 * convert to wavetrain::sample. Here by next, which suits a loop with other things to do. */
bool by_iterators(wavetrain::loader &loader, crops source) {
    wavetrain::sample list[3 * samples_per_batch];
    for (wavetrain::sample &sample : list)
        if (!source(sample))
            return false;
    auto stream = loader.stream(list, list + 3 * samples_per_batch);
    wavetrain::batch batch;
    while (stream.next(batch))
        show(batch);
    why = stream.error();
    return stream.done();
}

/* ---- 6. When things go wrong -------------------------------------------------------------- */

/* A sample that is wrong by itself is refused by push. What depends on the store comes at pop,
 * behind the batches before it, and stays until reset. */
bool go_wrong(wavetrain::loader &loader, crops source) {
    const wavetrain::sample empty_box("/nowhere", { 5 }, { 5 }, 1);
    if (loader.push(empty_box).ok())
        return false;
    loader.last_error(why).ignore();
    std::printf("push:  %s: %s\n", wavetrain::status(why.status).name(), why.text);

    wavetrain::sample sample;
    wavetrain::batch batch;
    if (!source(sample))
        return false;
    sample.uri = "/nowhere";
    sample.uri_bytes = std::strlen(sample.uri);
    loader.push(sample).ignore();
    loader.flush().ignore();
    if (loader.pop(batch, WAVETRAIN_POP_TIMEOUT, &why).ok())
        return false;
    std::printf("pop:   %s: %s (tag %llu)\n", wavetrain::status(why.status).name(), why.text,
                static_cast<unsigned long long>(why.tag));
    return loader.reset().ok(); /* as good as new; what was queued is dropped */
}

/* With on_error = SKIP the stream goes on: a sample that could not be had holds pad_value and says
 * why, and the log has the text. A hook keeps the ADDRESS of your lambda, which must live on. */
bool go_on(const char *uri, wavetrain::config config) {
    std::atomic<int> lines{ 0 }; /* log lines come from many threads */
    auto log = [&lines](std::uint32_t level, std::uint64_t tag, const char *text, std::uint64_t) {
        lines++;
        std::printf("log:   level %u, tag %llu: %s\n", level,
                    static_cast<unsigned long long>(tag), text);
    };
    config.use_log(log);
    config.on_error = WAVETRAIN_ON_ERROR_SKIP;
    config.pad_value = -1;
    config.samples_per_batch = 2;

    wavetrain::loader loader;
    if (!wavetrain::loader::open(config, loader, &why))
        return false;
    crops source(uri, config, 2);
    wavetrain::sample sample;
    for (int number = 0; source(sample); number++) {
        if (number == 1) {
            sample.uri = "/nowhere";
            sample.uri_bytes = std::strlen(sample.uri);
        }
        if (!loader.push(sample))
            return false;
    }
    wavetrain::batch batch;
    if (!loader.pop(batch, WAVETRAIN_POP_TIMEOUT, &why))
        return false;
    for (std::uint32_t row = 0; row < batch.sample_count(); row++)
        std::printf("row %u: %s, first element %.1f\n", row,
                    wavetrain::status(batch.statuses()[row]).name(),
                    static_cast<double>(batch.row<float>(row)[0]));
    return batch.view().failed_samples == 1 && lines > 0;
    /* Here the batch goes first, then the loader, then the lambda: the reverse of their making. A
     * batch that outlives its loader is no crash: the loader then ends with its last batch. */
}

/* ---- 7. No threads but yours, no memory but yours ----------------------------------------- */

/* thread_mode = PUMP starts no thread, and use_block takes no memory: work happens in pump, which
 * any of your threads may call, for about as long as you say. */
bool by_pump(const char *uri, wavetrain::config config) {
    wavetrain::memory need;
    config.thread_mode = WAVETRAIN_THREADS_PUMP;
    if (!config.memory_need(need, &why))
        return false;
    void *block = std::aligned_alloc(need.host_align, (need.host_bytes + need.host_align - 1) /
                                                          need.host_align * need.host_align);
    config.use_block(block, need.host_bytes);
    bool is_good = false;
    wavetrain::loader loader;
    if (block != nullptr && wavetrain::loader::open(config, loader, &why)) {
        auto stream = loader.stream(crops(uri, config, 2 * samples_per_batch));
        wavetrain::batch batch;
        std::uint32_t frames = 0, batches = 0;
        for (; !stream.done() && stream.status().ok(); frames++) {
            if (stream.try_pop(batch)) /* never waits: OK, AGAIN, or the end */
                batches++;
            loader.pump(1000000).ignore(); /* one millisecond of this frame */
        }
        std::printf("pumped %u batches\n", batches);
        is_good = stream.done() && batches == 2 && frames >= batches;
        why = stream.error();
    }
    /* The block is yours again when close says OK, or the loader is gone. */
    loader = wavetrain::loader();
    std::free(block);
    return is_good;
}

/* ---- 8. Figures, and the end -------------------------------------------------------------- */

bool finish(wavetrain::loader &loader) {
    wavetrain::stats_view stats; /* cheap enough for every frame */
    if (!loader.stats(stats))
        return false;
    std::printf("%llu samples, %llu chunks decoded in %.1f ms, %llu bytes read, %llu of memory\n",
                static_cast<unsigned long long>(stats.samples_pushed),
                static_cast<unsigned long long>(stats.decode.count),
                static_cast<double>(stats.decode.ns) / 1e6,
                static_cast<unsigned long long>(stats.io.input_bytes),
                static_cast<unsigned long long>(stats.host_bytes_committed));
    /* The destructor would do; close says whether batches or tensors still keep memory. After a
     * destructor only the log does, with a WARN, and loader::close_kept() ends what they kept. */
    std::uint32_t held = 0;
    if (!loader.close(WAVETRAIN_FOREVER, &held)) {
        std::snprintf(why.text, sizeof why.text, "%u slots are kept by batches or tensors", held);
        return false;
    }
    return true;
}

int failed(const char *what) {
    std::fprintf(stderr, "%s: %s: %s\n", what, wavetrain::status(why.status).name(), why.text);
    return 1;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: hello ARRAY (a folder with a zarr.json or .zarray)\n");
        return 2;
    }
    const char *uri = argv[1];
    /* An archive of another major version has other structs. */
    if (wavetrain::version() >> 16 != WAVETRAIN_VERSION_MAJOR)
        return failed("version");

    wavetrain::config config;
    wavetrain::loader loader;
    if (!look_at(uri))
        return failed("array_info");
    if (!configure(uri, config))
        return failed("config");
    if (!wavetrain::loader::open(config, loader, &why)) /* memory is taken, threads start */
        return failed("open");
    if (!by_hand(loader, crops(uri, config, samples_per_batch + 1)))
        return failed("by hand");
    if (!by_generator(loader, crops(uri, config, 3 * samples_per_batch)))
        return failed("by generator");
    if (!by_iterators(loader, crops(uri, config, 3 * samples_per_batch)))
        return failed("by iterators");
    if (!go_wrong(loader, crops(uri, config, 1)))
        return failed("go wrong");
    if (!go_on(uri, config))
        return failed("go on");
    if (!by_pump(uri, config))
        return failed("by pump");
    if (!finish(loader))
        return failed("finish");
    return 0;
}
