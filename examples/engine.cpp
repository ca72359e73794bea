/* engine.cpp ARRAY PAK: wavetrain inside a small game engine.
 *
 *     tools/archive.sh out
 *     c++ -std=c++17 -fno-exceptions -fno-rtti -Iout examples/engine.cpp out/libwavetrain.a \
 *         -lpthread -ldl -o engine
 *     ./engine path/to/array.zarr world.pak
 *
 * Packs the array into one pak file, then streams crops from it while a frame loop runs:
 *
 *   pak       one file with an index at its end; the files hook reads it
 *   arena     the engine's memory; wavetrain gets one block of it and takes nothing else
 *   jobs      the engine's threads. First they pump wavetrain, which starts none of its own; then,
 *             in a second run, it hands them its work itself (thread_mode = HOOK)
 *   log       a ring of lines that the frame loop prints; wavetrain's lines go there too
 *   frames    never wait: a batch that is not ready is taken in a later frame
 *
 * In the end the same crops are streamed from the folder, by wavetrain's own threads and files, and
 * every byte is compared. No exceptions, no RTTI, no allocation but the arena and what threads and
 * stdio cost.
 *
 * This file is over 500 lines because an example is one file, with an engine around the loader.
 */
#include "wavetrain.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

/* ---- Log: any thread writes, the frame loop prints ---------------------------------------- */

class engine_log {
public:
    void line(const char *format, ...) __attribute__((format(printf, 2, 3))) {
        va_list arguments;
        va_start(arguments, format);
        pthread_mutex_lock(&lock_);
        if (count_ < lines_max)
            std::vsnprintf(lines_[count_++], line_bytes, format, arguments);
        else
            dropped_++;
        pthread_mutex_unlock(&lock_);
        va_end(arguments);
    }
    /* wavetrain's log hook. It must be quick, for a worker calls it in the middle of its work. */
    void operator()(std::uint32_t level, std::uint64_t tag, const char *text, std::uint64_t) {
        line("wavetrain[%u] tag %llu: %s", level, static_cast<unsigned long long>(tag), text);
    }
    void print() {
        pthread_mutex_lock(&lock_);
        for (std::uint32_t index = 0; index < count_; index++)
            std::puts(lines_[index]);
        if (dropped_ > 0)
            std::printf("(%u lines dropped)\n", dropped_);
        count_ = dropped_ = 0;
        pthread_mutex_unlock(&lock_);
    }

private:
    static constexpr std::uint32_t lines_max = 64, line_bytes = 700;
    pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
    std::uint32_t count_ = 0, dropped_ = 0;
    char lines_[lines_max][line_bytes];
};

engine_log journal;

bool fail(const char *what, const char *detail) {
    journal.line("%s: %s", what, detail);
    return false;
}

/* ---- Memory: one arena for everything ----------------------------------------------------- */

class engine_arena {
public:
    /* Aligned to a power of two; NULL where the arena is full. */
    void *take(std::uint64_t bytes, std::uint64_t align) {
        const std::uint64_t first = (used_ + align - 1) & ~(align - 1);
        if (bytes > sizeof block_ || first > sizeof block_ - bytes)
            return nullptr;
        used_ = first + bytes;
        return block_ + first;
    }
    std::uint64_t mark() const { return used_; }
    void free_to(std::uint64_t mark) { used_ = mark; }

private:
    alignas(4096) unsigned char block_[192u << 20];
    std::uint64_t used_ = 0;
};

engine_arena arena;

/* ---- Pak: files of a folder in one file --------------------------------------------------- */

/* Behind the data lies an index of these, sorted by name, and behind it a footer. */
struct pak_entry {
    char name[112]; /* "c/0/1", below the folder that was packed */
    std::uint64_t offset, bytes;
};
struct pak_footer {
    char magic[8];
    std::uint64_t index_offset, count;
};
constexpr char pak_magic[8] = { 'P', 'A', 'K', '-', '0', '0', '0', '1' };
constexpr std::uint32_t pak_files_max = 65536;

bool read_at(int file, void *target, std::uint64_t bytes, std::uint64_t offset) {
    char *to = static_cast<char *>(target);
    while (bytes > 0) {
        const ssize_t got = pread(file, to, bytes, static_cast<off_t>(offset));
        if (got <= 0)
            return false;
        to += got;
        offset += static_cast<std::uint64_t>(got);
        bytes -= static_cast<std::uint64_t>(got);
    }
    return true;
}

int by_name(const void *a, const void *b) {
    return std::strcmp(static_cast<const pak_entry *>(a)->name,
                       static_cast<const pak_entry *>(b)->name);
}

/* The tool that makes a pak. Folders wait in the index itself, as entries to be looked into. */
class pak_writer {
public:
    bool pack(const char *folder, const char *pak) {
        const std::uint64_t mark = arena.mark();
        entries_ = static_cast<pak_entry *>(arena.take(sizeof(pak_entry) * pak_files_max, 8));
        out_ = std::fopen(pak, "wb");
        if (out_ == nullptr || entries_ == nullptr)
            return fail("pak", "cannot be written");
        bool is_good = list(folder, "");
        /* Folders are taken out of the list, and what is in them is put behind. */
        for (std::uint32_t index = 0; is_good && index < count_; index++) {
            while (is_good && index < count_ && entries_[index].bytes == is_folder) {
                const pak_entry found = entries_[index];
                entries_[index] = entries_[--count_];
                is_good = list(folder, found.name);
            }
            if (index < count_)
                is_good = is_good && copy(folder, entries_[index]);
        }
        is_good = is_good && finish();
        is_good = std::fclose(out_) == 0 && is_good;
        arena.free_to(mark);
        return is_good;
    }

private:
    static constexpr std::uint64_t is_folder = UINT64_MAX;

    bool list(const char *folder, const char *below) {
        char path[4096];
        std::snprintf(path, sizeof path, "%s/%s", folder, below);
        DIR *open = opendir(path);
        if (open == nullptr)
            return fail(path, "is not a folder");
        bool is_good = true;
        for (const dirent *item = readdir(open); is_good && item != nullptr; item = readdir(open))
            if (std::strcmp(item->d_name, ".") != 0 && std::strcmp(item->d_name, "..") != 0)
                is_good = add(folder, below, item->d_name);
        closedir(open);
        return is_good;
    }
    bool add(const char *folder, const char *below, const char *name) {
        if (count_ == pak_files_max)
            return fail(folder, "has too many files for a pak");
        pak_entry &entry = entries_[count_++];
        entry = pak_entry();
        const char *slash = below[0] == 0 ? "" : "/";
        const int bytes =
            std::snprintf(entry.name, sizeof entry.name, "%s%s%s", below, slash, name);
        if (bytes < 0 || static_cast<std::size_t>(bytes) >= sizeof entry.name)
            return fail(name, "has too long a name for a pak");
        char path[4096];
        struct stat status;
        std::snprintf(path, sizeof path, "%s/%s", folder, entry.name);
        if (stat(path, &status) != 0)
            return fail(path, "cannot be looked at");
        if (S_ISDIR(status.st_mode))
            entry.bytes = is_folder;
        return true;
    }
    bool copy(const char *folder, pak_entry &entry) {
        static char buffer[1 << 16];
        char path[4096];
        std::snprintf(path, sizeof path, "%s/%s", folder, entry.name);
        std::FILE *in = std::fopen(path, "rb");
        if (in == nullptr)
            return fail(path, "cannot be opened");
        entry.offset = at_;
        std::size_t got;
        while ((got = std::fread(buffer, 1, sizeof buffer, in)) > 0)
            at_ += std::fwrite(buffer, 1, got, out_);
        const bool is_good = std::ferror(in) == 0 && std::ferror(out_) == 0;
        std::fclose(in);
        entry.bytes = at_ - entry.offset;
        return is_good || fail(path, "cannot be copied");
    }
    bool finish() {
        pak_footer footer = {};
        std::memcpy(footer.magic, pak_magic, sizeof pak_magic);
        footer.index_offset = at_;
        footer.count = count_;
        std::qsort(entries_, count_, sizeof *entries_, by_name);
        return std::fwrite(entries_, sizeof *entries_, count_, out_) == count_ &&
               std::fwrite(&footer, sizeof footer, 1, out_) == 1;
    }

    std::FILE *out_ = nullptr;
    pak_entry *entries_ = nullptr;
    std::uint32_t count_ = 0;
    std::uint64_t at_ = 0;
};

/* The files hook: names below "/pak" are looked up in the index, and read with pread, which many
 * threads may do at once. Absent and failed are two things: an absent chunk is the fill value. */
class pak_files {
public:
    static constexpr char root[] = "/pak";

    bool open(const char *pak) {
        pak_footer footer;
        struct stat status;
        file_ = ::open(pak, O_RDONLY | O_CLOEXEC);
        if (file_ < 0 || fstat(file_, &status) != 0)
            return fail(pak, "cannot be opened");
        const std::uint64_t size = static_cast<std::uint64_t>(status.st_size);
        if (size < sizeof footer || !read_at(file_, &footer, sizeof footer, size - sizeof footer) ||
            std::memcmp(footer.magic, pak_magic, sizeof pak_magic) != 0)
            return fail(pak, "is no pak file");
        const std::uint64_t room = size - sizeof footer;
        if (footer.count > pak_files_max || footer.index_offset > room ||
            footer.count * sizeof(pak_entry) != room - footer.index_offset)
            return fail(pak, "has a damaged index");
        count_ = footer.count;
        entries_ = static_cast<pak_entry *>(arena.take(count_ * sizeof(pak_entry), 8));
        if (entries_ == nullptr ||
            !read_at(file_, entries_, count_ * sizeof(pak_entry), footer.index_offset))
            return fail(pak, "has an index that cannot be read");
        for (std::uint64_t index = 0; index < count_; index++) {
            const pak_entry &entry = entries_[index];
            if (entry.name[sizeof entry.name - 1] != 0 || entry.offset > footer.index_offset ||
                entry.bytes > footer.index_offset - entry.offset)
                return fail(pak, "has a damaged index");
        }
        return true;
    }
    void close() { ::close(file_); }
    std::uint64_t count() const { return count_; }

    std::int64_t size(const char *name) const {
        const pak_entry *entry = find(name);
        return entry == nullptr ? std::int64_t(WAVETRAIN_FILE_ABSENT)
                                : static_cast<std::int64_t>(entry->bytes);
    }
    std::int64_t read(const char *name, std::uint64_t offset, void *target,
                      std::uint64_t bytes) const {
        const pak_entry *entry = find(name);
        if (entry == nullptr)
            return WAVETRAIN_FILE_ABSENT;
        const bool is_inside = offset <= entry->bytes && bytes <= entry->bytes - offset;
        return is_inside && read_at(file_, target, bytes, entry->offset + offset)
                   ? 0
                   : WAVETRAIN_FILE_FAILED;
    }

private:
    const pak_entry *find(const char *name) const {
        const std::size_t skip = sizeof root - 1;
        pak_entry key;
        if (std::strncmp(name, root, skip) != 0 || name[skip] != '/' ||
            std::strlen(name + skip + 1) >= sizeof key.name)
            return nullptr;
        std::strcpy(key.name, name + skip + 1);
        return static_cast<const pak_entry *>(
            std::bsearch(&key, entries_, count_, sizeof key, by_name));
    }

    int file_ = -1;
    pak_entry *entries_ = nullptr;
    std::uint64_t count_ = 0;
};

/* ---- Jobs: the engine's threads ----------------------------------------------------------- */

class job_system {
public:
    static constexpr std::uint32_t worker_count = 3;

    bool start() {
        for (; started_ < worker_count; started_++)
            if (pthread_create(&threads_[started_], nullptr, work, this) != 0)
                return fail("jobs", "a thread cannot be started");
        return true;
    }
    /* False where the queue is full: the frame loop does not wait for room. */
    bool kick(void (*job)(void *), void *argument) {
        pthread_mutex_lock(&lock_);
        const bool has_room = limit_ - first_ < queue_max;
        if (has_room)
            queue_[limit_++ % queue_max] = { job, argument };
        pthread_mutex_unlock(&lock_);
        if (has_room)
            pthread_cond_signal(&wake_);
        return has_room;
    }
    /* wavetrain's workers hook: its jobs are as good as the engine's. A job that finds no room runs
     * at once; there is always room, for wavetrain hands in n_decode_threads of them at most. */
    void operator()(void (*job)(void *), void *argument) {
        if (!kick(job, argument))
            job(argument);
    }
    /* Runs what is queued, then ends the threads. */
    void stop() {
        pthread_mutex_lock(&lock_);
        is_stopping_ = true;
        pthread_mutex_unlock(&lock_);
        pthread_cond_broadcast(&wake_);
        for (; started_ > 0; started_--)
            pthread_join(threads_[started_ - 1], nullptr);
    }

private:
    static constexpr std::uint32_t queue_max = 64;
    struct job {
        void (*run)(void *);
        void *argument;
    };

    static void *work(void *system) {
        job_system &jobs = *static_cast<job_system *>(system);
        pthread_mutex_lock(&jobs.lock_);
        for (;;) {
            if (jobs.first_ != jobs.limit_) {
                const job next = jobs.queue_[jobs.first_++ % queue_max];
                pthread_mutex_unlock(&jobs.lock_);
                next.run(next.argument);
                pthread_mutex_lock(&jobs.lock_);
            } else if (jobs.is_stopping_) {
                pthread_mutex_unlock(&jobs.lock_);
                return nullptr;
            } else {
                pthread_cond_wait(&jobs.wake_, &jobs.lock_);
            }
        }
    }

    pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t wake_ = PTHREAD_COND_INITIALIZER;
    pthread_t threads_[worker_count];
    job queue_[queue_max];
    std::uint32_t first_ = 0, limit_ = 0, started_ = 0;
    bool is_stopping_ = false;
};

/* Gives a loader the workers' idle time, one slice per job, so that other jobs get their turn. The
 * frame loop tops it up; there are never more slices queued than workers. */
class pump_jobs {
public:
    pump_jobs(job_system &jobs, wavetrain::loader &loader) : jobs_(jobs), loader_(loader) {}
    void top_up() {
        while (in_flight_.load() < job_system::worker_count) {
            in_flight_++;
            if (!jobs_.kick(slice, this)) {
                in_flight_--;
                return;
            }
        }
    }
    std::uint32_t useful() const { return useful_.load(); }

private:
    static void slice(void *of) {
        pump_jobs &self = *static_cast<pump_jobs *>(of);
        /* AGAIN: there was nothing to do. Half a millisecond is a small part of a frame. */
        if (self.loader_.pump(500000))
            self.useful_++;
        self.in_flight_--;
    }

    job_system &jobs_;
    wavetrain::loader &loader_;
    std::atomic<std::uint32_t> in_flight_{ 0 }, useful_{ 0 };
};

/* ---- The training job --------------------------------------------------------------------- */

constexpr std::uint32_t batch_count = 24, samples_per_batch = 4;
constexpr std::uint64_t edge_max = 32, batch_bytes_max = 1u << 19;

/* What the engine streamed, to be compared. A real one trains on it instead. */
unsigned char streamed[batch_count][batch_bytes_max];
std::uint64_t streamed_bytes[batch_count];

wavetrain::error why;
wavetrain::scratch room;

/* Crops at places that depend on their number only, so that two runs ask for the same. */
struct crops {
    const char *uri;
    const wavetrain::array_view *array;
    const wavetrain::config *config;
    std::uint64_t next = 0;

    bool operator()(wavetrain::sample &out) noexcept {
        if (next == std::uint64_t(batch_count) * samples_per_batch)
            return false;
        std::int64_t begin[WAVETRAIN_RANK_MAX], end[WAVETRAIN_RANK_MAX];
        std::uint64_t random = next * 7919 + 13;
        for (std::uint32_t axis = 0; axis < array->rank; axis++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            const std::uint64_t extent = config->sample_shape[axis];
            begin[axis] = static_cast<std::int64_t>((random >> 33) %
                                                    (array->shape[axis] - extent + 1));
            end[axis] = begin[axis] + static_cast<std::int64_t>(extent);
        }
        out = wavetrain::box(uri, std::strlen(uri), { begin, array->rank }, { end, array->rank });
        out.tag = next++;
        return true;
    }
};

/* Boxes of edge_max along the last three axes and 1 along the others. */
bool configure(const char *uri, const wavetrain::array_view &array, wavetrain::config &config) {
    std::uint64_t shape[WAVETRAIN_RANK_MAX];
    for (std::uint32_t axis = 0; axis < array.rank; axis++) {
        const std::uint64_t edge = axis + 3 < array.rank ? 1 : edge_max;
        shape[axis] = array.shape[axis] < edge ? array.shape[axis] : edge;
    }
    config.shape({ shape, array.rank }).samples_per_batch = samples_per_batch;
    config.max_host_memory_bytes = 64u << 20;
    config.n_io_threads = config.n_decode_threads = 2;
    return config.fit(uri, room, &why).ok();
}

/* ---- The frame loop ----------------------------------------------------------------------- */

double milliseconds(std::chrono::steady_clock::time_point since) {
    const std::chrono::duration<double, std::milli> passed =
        std::chrono::steady_clock::now() - since;
    return passed.count();
}

/* Stands for the rest of the engine: some hundred microseconds of work that is not ours. */
std::uint32_t simulate(std::uint32_t state) {
    for (int step = 0; step < 200000; step++)
        state = state * 1664525u + 1013904223u;
    return state;
}

template <class Stream>
bool run_frames(Stream &stream, wavetrain::loader &loader, pump_jobs *pump) {
    wavetrain::batch batch;
    std::uint32_t batches = 0, world = 1;
    double longest = 0;
    for (std::uint32_t frame = 0; !stream.done(); frame++) {
        const auto start = std::chrono::steady_clock::now();
        world = simulate(world);
        if (pump != nullptr)
            pump->top_up();
        /* At most one batch per frame, and only one that is there. */
        const wavetrain::status popped = stream.try_pop(batch);
        if (popped.failed())
            return fail("stream", stream.error().text);
        if (popped.ok()) {
            if (batches == batch_count || batch.bytes() > batch_bytes_max)
                return fail("stream", "a batch more than was asked for");
            std::memcpy(streamed[batches], batch.data(), batch.bytes());
            streamed_bytes[batches++] = batch.bytes();
            batch.release().ignore(); /* the slot is filled again from here on */
        }
        wavetrain::stats_view stats;
        loader.stats(stats).ignore();
        const double took = milliseconds(start);
        longest = took > longest ? took : longest;
        journal.line("frame %3u: %5.2f ms  %s  %2u batches  %4llu chunks  %7.1f KiB read  %u jobs",
                     frame, took, popped.ok() ? "batch" : "-    ", batches,
                     static_cast<unsigned long long>(stats.decode.count),
                     static_cast<double>(stats.io.input_bytes) / 1024,
                     pump == nullptr ? 0 : pump->useful());
        journal.print();
    }
    journal.line("%u batches; the longest frame took %.2f ms (world %u)", batches, longest, world);
    return batches == batch_count || fail("stream", "batches are missing");
}

/* Streams from the pak, on the engine's threads, in the engine's memory. */
bool run_engine(const pak_files &files, bool is_pumped) {
    wavetrain::config config;
    wavetrain::array_view array;
    wavetrain::memory need;
    job_system jobs;
    config.use_files(files).use_log(journal).log_level = WAVETRAIN_LOG_INFO;
    if (!wavetrain::array_info(pak_files::root, array, room, &why, &config.files) ||
        !configure(pak_files::root, array, config))
        return fail("array", why.text);

    if (is_pumped)
        config.thread_mode = WAVETRAIN_THREADS_PUMP;
    else
        config.use_workers(jobs);
    if (!config.memory_need(need, &why))
        return fail("memory", why.text);
    const std::uint64_t mark = arena.mark();
    void *block = arena.take(need.host_bytes, need.host_align);
    if (block == nullptr)
        return fail("memory", "the arena is too small for the bill");
    config.use_block(block, need.host_bytes);
    journal.line("wavetrain has %.1f MiB of the arena and %u threads",
                 static_cast<double>(need.host_bytes) / (1 << 20), need.threads);

    wavetrain::loader loader;
    if (!wavetrain::loader::open(config, loader, &why))
        return fail("open", why.text);
    bool is_good = jobs.start();
    if (is_good) {
        pump_jobs pump(jobs, loader);
        auto stream = loader.stream(crops{ pak_files::root, &array, &config });
        is_good = run_frames(stream, loader, is_pumped ? &pump : nullptr);
        jobs.stop(); /* before the pump and the loader go: slices may still be queued */
    }
    jobs.stop();
    is_good = loader.close(WAVETRAIN_FOREVER).ok() && is_good;
    arena.free_to(mark);
    return is_good;
}

/* ---- The comparison ----------------------------------------------------------------------- */

/* The same from the folder, as simply as it goes. */
bool run_plain(const char *folder) {
    wavetrain::config config;
    wavetrain::array_view array;
    wavetrain::loader loader;
    if (!wavetrain::array_info(folder, array, room, &why) || !configure(folder, array, config) ||
        !wavetrain::loader::open(config, loader, &why))
        return fail("plain run", why.text);
    auto stream = loader.stream(crops{ folder, &array, &config });
    std::uint32_t batches = 0;
    for (const wavetrain::batch &batch : stream) {
        if (batches == batch_count || batch.bytes() != streamed_bytes[batches] ||
            std::memcmp(batch.data(), streamed[batches], batch.bytes()) != 0)
            return fail("plain run", "its bytes differ");
        batches++;
    }
    if (!stream.done())
        return fail("plain run", stream.error().text);
    return batches == batch_count || fail("plain run", "batches are missing");
}

bool run(const char *folder, const char *pak) {
    static pak_files files;
    if (!pak_writer().pack(folder, pak) || !files.open(pak))
        return false;
    journal.line("%s: %llu files", pak, static_cast<unsigned long long>(files.count()));
    const bool is_good = run_engine(files, true) && run_plain(folder) &&
                         run_engine(files, false) && run_plain(folder);
    files.close();
    if (is_good)
        journal.line("every byte is that of the plain run");
    return is_good;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: engine ARRAY PAK (a folder with an array; a file to make)\n");
        return 2;
    }
    const bool is_good = run(argv[1], argv[2]);
    journal.print();
    return is_good ? 0 : 1;
}
