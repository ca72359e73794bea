/* core.cpp FOLDER: wavetrain.hpp does what it says, checked value by value.
 *
 * FOLDER/cube is a sparse cube of tests/common/store.rs, FOLDER/damaged one with broken indexes.
 * Built without exceptions and RTTI. The program's own malloc counts: a whole life in the caller's
 * block, from open to close without threads, calls it never.
 *
 * This file is over 500 lines because one program checks all of wavetrain.hpp.
 */
#include "cube.hpp"
#include "digest.h"
#include "wavetrain_epoch.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

extern "C" std::uint64_t alloc_call_count(void);

/* What dlpack.h declares, as far as the checks go. */
struct dl_tensor_start {
    void *data;
    std::int32_t device_type, device_id, ndim;
    std::uint8_t dtype_code, dtype_bits;
    std::uint16_t dtype_lanes;
    std::int64_t *shape, *strides;
    std::uint64_t byte_offset;
};
struct DLManagedTensor {
    dl_tensor_start dl_tensor;
    void *manager_ctx;
    void (*deleter)(DLManagedTensor *);
};
struct DLManagedTensorVersioned {
    struct {
        std::uint32_t major, minor;
    } version;
    void *manager_ctx;
    void (*deleter)(DLManagedTensorVersioned *);
    std::uint64_t flags;
    dl_tensor_start dl_tensor;
};

using wavetrain::batch;
using wavetrain::config;
using wavetrain::error;
using wavetrain::index_list;
using wavetrain::loader;
using wavetrain::sample;
using wavetrain::span;
using wavetrain::status;

static const char *cube;    /* uri of the good array */
static const char *damaged; /* and of the broken one */
static char missing[4096];  /* and of none */

static void types_are_what_they_should_be() {
    static_assert(!std::is_copy_constructible_v<loader> && !std::is_copy_assignable_v<loader>);
    static_assert(!std::is_copy_constructible_v<batch> && !std::is_copy_assignable_v<batch>);
    static_assert(std::is_nothrow_move_constructible_v<loader>);
    static_assert(std::is_nothrow_move_assignable_v<loader>);
    static_assert(std::is_nothrow_move_constructible_v<batch>);
    static_assert(std::is_nothrow_move_assignable_v<batch>);
    static_assert(std::is_trivially_copyable_v<sample> && std::is_trivially_copyable_v<status>);
    static_assert(std::is_trivially_copyable_v<span<int>>);
    static_assert(sizeof(loader) == 8 && sizeof(status) == 4);
    static_assert(sizeof(config) == sizeof(wavetrain_config));
    static_assert(sizeof(error) == sizeof(wavetrain_error));
    static_assert(!std::is_polymorphic_v<loader> && !std::is_polymorphic_v<config>);
    static_assert(!std::is_convertible_v<status, bool> && !std::is_convertible_v<status, int>);

    constexpr status ok, again = WAVETRAIN_AGAIN, invalid = WAVETRAIN_INVALID;
    static_assert(ok && ok.ok() && !ok.not_now() && !ok.failed());
    static_assert(!again && again.not_now() && !again.failed() && again == WAVETRAIN_AGAIN);
    static_assert(!invalid && invalid.failed() && !invalid.not_now() && invalid != again);
    CHECK(strcmp(invalid.name(), "INVALID") == 0 && invalid.value() == -1);
    CHECK(wavetrain::version() == WAVETRAIN_VERSION);
}

static void spans_borrow_arrays_and_containers() {
    struct numbers {
        int values[3] = { 5, 6, 7 };
        int *data() { return values; }
        const int *data() const { return values; }
        std::size_t size() const { return 3; }
    } container;
    const numbers fixed;
    int array[2] = { 1, 2 };
    const span<int> writable = container;
    const span<const int> from_const = fixed, from_span = writable, from_array = array;
    writable[1] = 60;
    CHECK(from_span[1] == 60 && from_const[1] == 6 && from_array.size() == 2);
    int sum = 0;
    for (const int value : from_span)
        sum += value;
    CHECK(sum == 72 && span<int>().empty() && span<int>().begin() == span<int>().end());
    static_assert(!std::is_constructible_v<span<int>, const numbers &>);
    static_assert(!std::is_constructible_v<span<wavetrain_sample>, span<sample>>);
}

static void config_starts_with_the_defaults() {
    config made;
    wavetrain_config plain;
    CHECK(wavetrain_config_default(&plain, sizeof plain) == WAVETRAIN_OK);
    CHECK(memcmp(&plain, static_cast<wavetrain_config *>(&made), sizeof plain) == 0);
    made.shape({ 4, 5 }).samples_per_batch = 7;
    CHECK(made.sample_rank == 2 && made.sample_shape[0] == 4 && made.sample_shape[1] == 5);
    const std::uint64_t many[20] = { 1 };
    made.shape(span<const std::uint64_t>(many));
    loader none;
    error why;
    CHECK(loader::open(made, none, &why) == WAVETRAIN_INVALID && !none);
    CHECK(why.status == WAVETRAIN_INVALID && strstr(why.text, "sample_rank") != nullptr);

    wavetrain::memory need;
    CHECK(cube_settings().memory_need(need).ok());
    std::uint64_t sum = 0;
    for (const wavetrain_memory_line &line : wavetrain::lines(need))
        sum += line.bytes;
    CHECK(sum == need.host_bytes && sum > 0);
    config small = cube_settings();
    small.max_host_memory_bytes = 1;
    CHECK(small.memory_need(need, &why) == WAVETRAIN_BUDGET && need.host_bytes > 1);
}

static void metadata_calls_need_no_loader() {
    static wavetrain::scratch room;
    wavetrain::array_view array;
    error why;
    CHECK_OK(wavetrain::array_info(cube, array, room, &why).value(), why);
    CHECK(array.rank == 3 && array.shape[2] == EDGE && array.dtype == WAVETRAIN_U16);
    CHECK(wavetrain::entries(array).empty());
    CHECK(wavetrain::array_info(missing, array, room, &why) == WAVETRAIN_NOT_FOUND);
    CHECK(strstr(why.text, missing) != nullptr);
    config fitted = cube_settings();
    fitted.max_chunk_uncompressed_bytes = 1;
    CHECK_OK(fitted.fit(cube, room, &why).value(), why);
    CHECK(fitted.max_chunk_uncompressed_bytes == CHUNK * CHUNK * CHUNK * 2);
    const char *const uris[] = { cube, missing };
    CHECK(fitted.fit(uris, room) == WAVETRAIN_NOT_FOUND);
}

static void a_batch_shows_what_was_pushed() {
    loader from = open_cube(cube_settings());
    std::size_t taken = 9;
    const sample samples[2] = { cube_sample(cube, 0), cube_sample(cube, 1) };
    CHECK(from.push(samples, WAVETRAIN_FOREVER, taken).ok() && taken == 2);
    const wavetrain_sample raw = samples[1].raw();
    CHECK(from.push({ &raw, 1 }, 0, taken).ok() && taken == 1);
    CHECK(from.push(cube_sample(cube, 2)).ok() && from.flush().ok());

    batch first, second;
    CHECK(!first && first.data() == nullptr && first.tags().empty() && first.shape().empty());
    CHECK(from.pop(first).ok() && first && batch_is_right(first));
    CHECK(first.tags()[0] == 0 && first.tags()[1] == 1 && first.tags()[2] == 1);
    CHECK(first.shape().size() == 4 && first.shape()[0] == SAMPLES && first.shape()[3] == BOX);
    CHECK(first.statuses().size() == SAMPLES && first.statuses()[2] == WAVETRAIN_OK);
    CHECK(first.bytes() == SAMPLES * BOX * BOX * BOX * 4 && first.batch_id() == 0);
    CHECK(from.pop(second).ok() && second.sample_count() == 1 && second.batch_id() == 1);
    CHECK(second.tags()[0] == 2 && batch_is_right(second));
    CHECK(from.pop(second) == WAVETRAIN_END && !second);
    CHECK(from.stats_reset().ok() && held_by(from) == 1);
}

static void a_box_reads_lists_of_indices() {
    const std::int64_t rows[3] = { 37, 2, 2 }, columns[2] = { 63, 9 };
    const index_list lists[2] = { { 0, rows }, { 2, columns } };
    config settings = cube_settings();
    settings.shape({ 3, 4, 2 });
    settings.max_indices_per_sample = 6;
    loader from = open_cube(settings);
    sample one(cube, { 0, 14, 0 }, { 3, 18, 2 }, 5);
    one.with(lists);
    CHECK(from.push(one).ok() && from.flush().ok());
    batch found;
    CHECK(from.pop(found).ok() && found.as<float>().size() == 24 && found.tags()[0] == 5);
    const float *at = found.as<float>().data();
    for (const std::int64_t row : rows)
        for (std::int64_t middle = 14; middle < 18; middle++)
            for (const std::int64_t column : columns)
                CHECK(*at++ == static_cast<float>(sparse_at(0, row, middle, column)));
    const std::int64_t many[4] = { 1, 3, 5, 7 };
    const index_list more[2] = { { 0, many }, { 2, columns } };
    sample large(cube, { 0, 0, 0 }, { 4, 4, 2 });
    error why;
    large.with(more);
    CHECK(from.push(large) == WAVETRAIN_INVALID && from.last_error(why).ok());
    CHECK(strstr(why.text, "max_indices_per_sample") != nullptr);
}

static void chunks_that_cannot_be_read_are_nan_and_listed() {
    config settings = cube_settings();
    settings.on_error = WAVETRAIN_ON_ERROR_NAN;
    loader from = open_cube(settings);
    for (std::uint64_t number = 0; number < SAMPLES; number++)
        CHECK(from.push(cube_sample(damaged, number)).ok());
    batch found;
    CHECK(from.pop(found).ok());
    std::size_t nan = 0, failed = 0;
    for (const float value : found.as<float>())
        nan += value != value;
    for (const wavetrain_status status : found.statuses())
        failed += status != WAVETRAIN_OK;
    error why;
    CHECK(nan > 0 && failed > 0 && from.bad_chunk(0, why).ok());
    CHECK(why.status < 0 && why.chunk_rank == 3 && strstr(why.text, damaged) != nullptr);
    CHECK(from.bad_chunk(64, why) == WAVETRAIN_END);
    wavetrain_error none = {};
    CHECK(wavetrain_bad_chunk(from.handle(), 0, &none) == WAVETRAIN_INVALID);
    CHECK(wavetrain_bad_chunk(from.handle(), 0, nullptr) == WAVETRAIN_INVALID);
}

static void elements_come_out_as_what_they_are_only() {
    struct half {
        std::uint16_t bits;
    };
    loader from = open_cube(cube_settings());
    batch floats;
    for (std::uint64_t number = 0; number < SAMPLES; number++)
        CHECK(from.push(cube_sample(cube, number)).ok());
    CHECK(from.pop(floats).ok());
    const std::size_t count = SAMPLES * BOX * BOX * BOX;
    CHECK(floats.as<float>().size() == count && floats.as<const float>().size() == count);
    CHECK(floats.as<double>().empty() && floats.as<std::int32_t>().empty());
    CHECK(floats.as<std::uint32_t>().empty() && floats.as<half>().empty());
    CHECK(floats.as<std::byte>().size() == count * 4);
    CHECK(floats.row<float>(1).data() == floats.as<float>().data() + count / SAMPLES);
    CHECK(floats.row<float>(2).size() == count / SAMPLES);
    CHECK(floats.row<float>(3).empty() && floats.row<double>(0).empty());

    config other = cube_settings();
    other.dtype = WAVETRAIN_BF16;
    loader bits = open_cube(other);
    batch shorts;
    for (std::uint64_t number = 0; number < SAMPLES; number++)
        CHECK(bits.push(cube_sample(cube, number)).ok());
    CHECK(bits.pop(shorts).ok() && shorts.as<float>().empty() && shorts.as<std::int16_t>().empty());
    CHECK(shorts.as<std::uint16_t>().size() == count && shorts.as<half>().size() == count);
    const float first = floats.as<float>()[0];
    std::uint32_t word;
    memcpy(&word, &first, sizeof word);
    const std::uint32_t difference = (word >> 16) - shorts.as<half>()[0].bits;
    CHECK(difference + 1 <= 1); /* rounded up or not */
}

/* Fills `out` with `count` batches. */
static void pop_some(loader &from, batch *out, int count) {
    for (int number = 0; number < count * SAMPLES; number++)
        CHECK(from.push(cube_sample(cube, static_cast<std::uint64_t>(number))).ok());
    for (int number = 0; number < count; number++)
        CHECK(from.pop(out[number]).ok());
}

static void a_batch_is_held_until_its_owner_goes() {
    loader from = open_cube(cube_settings());
    {
        batch held[2];
        pop_some(from, held, 2);
        const void *data = held[0].data();
        CHECK(held_by(from) == 2);
        batch moved(std::move(held[0]));
        CHECK(!held[0] && held[0].data() == nullptr && moved.data() == data && held_by(from) == 2);
        batch &same = moved;
        moved = std::move(same);
        CHECK(moved && moved.data() == data && held_by(from) == 2);
        held[1] = std::move(moved); /* gives the second back */
        CHECK(held_by(from) == 1 && held[1].batch_id() == 0 && !moved);
        CHECK(held[0].release().ok()); /* nothing is there */
        int event = 0;
        CHECK(held[1].release(&event) == WAVETRAIN_UNSUPPORTED && held[1] && held_by(from) == 1);
    }
    CHECK(held_by(from) == 0);
    batch again[1];
    pop_some(from, again, 1);
    const wavetrain_batch number = again[0].detach();
    CHECK(!again[0] && held_by(from) == 1);
    CHECK(wavetrain_release(from.handle(), number, nullptr) == WAVETRAIN_OK && held_by(from) == 0);
}

/* How many of the calls that wait take a timeout of this type. */
template <class T> constexpr auto pushes(int)
    -> decltype(std::declval<loader &>().push(sample(), T()), 1) { return 1; }
template <class T> constexpr int pushes(long) { return 0; }
template <class T> constexpr auto pops(int)
    -> decltype(std::declval<loader &>().pop(std::declval<batch &>(), T()), 1) { return 1; }
template <class T> constexpr int pops(long) { return 0; }
template <class T> constexpr auto pumps(int)
    -> decltype(std::declval<loader &>().pump(T()), 1) { return 1; }
template <class T> constexpr int pumps(long) { return 0; }
template <class T> constexpr auto closes(int)
    -> decltype(std::declval<loader &>().close(T()), 1) { return 1; }
template <class T> constexpr int closes(long) { return 0; }
template <class T> constexpr int takers() {
    return pushes<T>(0) + pops<T>(0) + pumps<T>(0) + closes<T>(0);
}
static_assert(takers<std::uint64_t>() == 4 && takers<int>() == 4, "nanoseconds");
static_assert(takers<double>() == 0 && takers<float>() == 0, "a fraction of one would be lost");

static void a_pop_waits_as_long_as_the_config_says() {
    config impatient = cube_settings();
    impatient.pop_timeout_ns = 1;
    loader from = open_cube(impatient);
    batch out;
    error why;
    CHECK(from.pop(out, WAVETRAIN_POP_TIMEOUT, &why) == WAVETRAIN_STARVED);
    CHECK(why.status == WAVETRAIN_STARVED && strstr(why.text, "samples are missing") != nullptr);
    CHECK(from.pop(out) == WAVETRAIN_STARVED && from.try_pop(out, &why) == WAVETRAIN_AGAIN);
    CHECK(why.status == WAVETRAIN_AGAIN && !out);
}

static void push_says_which_sample_it_refused() {
    loader from = open_cube(cube_settings());
    sample samples[3] = { cube_sample(cube, 0), cube_sample(cube, 1), cube_sample(cube, 2) };
    std::size_t taken = 9;
    samples[1].end[2]++;
    samples[1].tag = 31;
    CHECK(from.push(samples, 0, taken) == WAVETRAIN_INVALID && taken == 1);
    error why;
    CHECK(from.last_error(why).ok() && why.status == WAVETRAIN_INVALID && why.tag == 31);
    const std::int64_t first[2] = { 0, 0 }, last[3] = { 1, 1, 1 };
    CHECK(from.push(wavetrain::box(cube, strlen(cube), first, last)) == WAVETRAIN_RANK);
    CHECK(wavetrain::box(cube, strlen(cube), first, last).rank > WAVETRAIN_RANK_MAX);
    CHECK(from.push(sample()) == WAVETRAIN_INVALID); /* a scalar of no array */
    CHECK(from.push(wavetrain::box(cube, { 0, 0 }, { BOX, BOX })) == WAVETRAIN_RANK);
    /* The default lookahead of small batches is 64 samples; a slot may have more already. */
    std::uint64_t number = 1;
    status pushed;
    while ((pushed = from.push(cube_sample(cube, number), 0)).ok())
        number++;
    CHECK(pushed == WAVETRAIN_AGAIN && number >= 64);
}

/* An allocator hook that counts. */
struct counted_memory {
    alignas(4096) static unsigned char block[64 << 20];
    int allocs = 0, frees = 0;
    std::uint64_t used = 0;

    void *alloc(std::uint64_t bytes, std::uint64_t align) {
        used = (used + align - 1) / align * align + bytes;
        allocs++;
        return used <= sizeof block ? block + used - bytes : nullptr;
    }
    void free(void *, std::uint64_t, std::uint64_t) { frees++; }
};
alignas(4096) unsigned char counted_memory::block[64 << 20];

static void the_last_batch_ends_a_loader_that_went_first() {
    counted_memory memory;
    wavetrain_loader number = 0;
    batch early, late;
    {
        config settings = cube_settings();
        settings.use_memory(memory);
        loader from = open_cube(settings);
        number = from.handle();
        batch both[2];
        pop_some(from, both, 2);
        early = std::move(both[0]);
        late = std::move(both[1]);
        CHECK(memory.allocs > 0 && memory.frees == 0);
    }
    CHECK(memory.frees == 0 && batch_is_right(early) && batch_is_right(late));
    CHECK(wavetrain_flush(number) == WAVETRAIN_SHUTDOWN);
    early = batch();
    CHECK(memory.frees == 0 && batch_is_right(late));
    CHECK(late.release().ok() && memory.frees == memory.allocs);
    CHECK(wavetrain_close(number, 0, nullptr) == WAVETRAIN_SHUTDOWN);
}

static void tensors_share_the_batch_and_keep_its_slot() {
    loader from = open_cube(cube_settings());
    DLManagedTensorVersioned *tensor = nullptr;
    DLManagedTensor *legacy = nullptr;
    float first;
    {
        batch exported[1];
        pop_some(from, exported, 1);
        first = exported[0].as<float>()[0];
        int stream = 0;
        CHECK(exported[0].dlpack(&tensor, &stream) == WAVETRAIN_UNSUPPORTED);
        CHECK(exported[0].dlpack(&tensor, nullptr, 1) == WAVETRAIN_INVALID && tensor == nullptr);
        CHECK(exported[0].dlpack(&tensor).ok() && exported[0].dlpack(&legacy).ok());
        CHECK(tensor->version.major == 1 && tensor->dl_tensor.data == exported[0].data());
        CHECK(tensor->dl_tensor.ndim == 4 && tensor->dl_tensor.shape[0] == SAMPLES);
        CHECK(tensor->dl_tensor.shape[3] == BOX && tensor->dl_tensor.byte_offset == 0);
        CHECK(legacy->dl_tensor.data == exported[0].data() && legacy->dl_tensor.dtype_bits == 32);
    }
    CHECK(held_by(from) == 1 && *static_cast<float *>(tensor->dl_tensor.data) == first);
    tensor->deleter(tensor);
    CHECK(held_by(from) == 1);
    legacy->deleter(legacy);
    CHECK(held_by(from) == 0);
    CHECK(batch().dlpack(&tensor) == WAVETRAIN_SHUTDOWN); /* of no loader */
}

/* Opens a loader, exports a batch, and lets both go. */
static DLManagedTensorVersioned *orphan(config settings, wavetrain_loader *number) {
    DLManagedTensorVersioned *tensor = nullptr;
    batch exported[1];
    loader from = open_cube(settings);
    *number = from.handle();
    pop_some(from, exported, 1);
    CHECK(exported[0].dlpack(&tensor).ok());
    exported[0] = batch();
    return tensor;
}

static void a_tensor_that_outlives_its_loader_keeps_the_memory_and_the_log_says_so() {
    struct {
        int count = 0;
        char text[600] = "";
        void operator()(std::uint32_t level, std::uint64_t, const char *line, std::uint64_t) {
            CHECK(level == WAVETRAIN_LOG_WARN);
            snprintf(text, sizeof text, "%s", line);
            count++;
        }
    } lines;
    counted_memory memory;
    config settings = cube_settings();
    settings.use_memory(memory).use_log(lines);
    wavetrain_loader number = 0;
    DLManagedTensorVersioned *tensor = orphan(settings, &number);
    CHECK(lines.count == 1 && strstr(lines.text, "batches not released: 0") != nullptr);
    CHECK(strstr(lines.text, "tensors not deleted: 1") != nullptr);
    CHECK(loader::close_kept() == 1 && memory.frees == 0);
    CHECK(static_cast<float *>(tensor->dl_tensor.data)[0] > 0);
    tensor->deleter(tensor);
    CHECK(loader::close_kept() == 0 && memory.frees == memory.allocs && lines.count == 1);
    CHECK(wavetrain_close(number, 0, nullptr) == WAVETRAIN_SHUTDOWN);
}

static void the_next_loader_ends_those_that_tensors_kept() {
    counted_memory memory;
    config settings = cube_settings();
    settings.use_memory(memory);
    wavetrain_loader number = 0;
    DLManagedTensorVersioned *tensor = orphan(settings, &number);
    loader next = open_cube(cube_settings());
    CHECK(memory.frees == 0);
    tensor->deleter(tensor);
    next = loader(); /* its end */
    CHECK(memory.frees == memory.allocs);
    memory.used = 0;
    tensor = orphan(settings, &number);
    tensor->deleter(tensor);
    next = open_cube(cube_settings());
    CHECK(memory.frees == memory.allocs && wavetrain_flush(number) == WAVETRAIN_SHUTDOWN);
    /* Who closes one by its number leaves nothing to do. */
    memory.used = 0;
    tensor = orphan(settings, &number);
    tensor->deleter(tensor);
    CHECK(wavetrain_close(number, 0, nullptr) == WAVETRAIN_OK && loader::close_kept() == 0);
}

static void close_tells_what_is_held() {
    loader from = open_cube(cube_settings());
    batch kept[1];
    pop_some(from, kept, 1);
    std::uint32_t held = 9;
    CHECK(from.close(LONG_NS, &held) == WAVETRAIN_AGAIN && held == 1 && from);
    CHECK(from.flush() == WAVETRAIN_SHUTDOWN);
    kept[0] = batch(); /* ends it */
    CHECK(from.close(LONG_NS, &held) == WAVETRAIN_SHUTDOWN && held == 0 && !from);
    loader other = open_cube(cube_settings());
    CHECK(other.close(LONG_NS, &held).ok() && !other);
}

static void loaders_move_and_close() {
    loader first = open_cube(cube_settings());
    const wavetrain_loader one = first.handle();
    loader second(std::move(first));
    CHECK(!first && second.handle() == one && second.flush().ok());
    loader &same = second;
    second = std::move(same);
    CHECK(second.handle() == one && second.flush().ok());
    const wavetrain_loader two = [&] {
        loader fresh = open_cube(cube_settings());
        const wavetrain_loader number = fresh.handle();
        second = std::move(fresh); /* closes the first */
        return number;
    }();
    CHECK(wavetrain_flush(one) == WAVETRAIN_SHUTDOWN && wavetrain_flush(two) == WAVETRAIN_OK);
    /* A failed open leaves what was there; one that succeeds closes it. */
    config wrong = cube_settings();
    wrong.samples_per_batch = 0;
    CHECK(loader::open(wrong, second) == WAVETRAIN_INVALID && second.handle() == two);
    CHECK(loader::open(cube_settings(), second).ok() && second.handle() != two);
    CHECK(wavetrain_flush(two) == WAVETRAIN_SHUTDOWN);
    loader adopted = loader::adopt(second.detach());
    CHECK(!second && adopted.flush().ok() && second.flush() == WAVETRAIN_SHUTDOWN);
    error why;
    CHECK(second.last_error(why) == WAVETRAIN_SHUTDOWN && why.status == WAVETRAIN_SHUTDOWN);
    CHECK(strstr(why.text, "open another") != nullptr);
}

static void hooks_are_members_and_lambdas() {
    static const char metadata[] =
        "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[4,4],\"data_type\":\"uint8\","
        "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[4,4]}},"
        "\"chunk_key_encoding\":{\"name\":\"default\"},\"fill_value\":7,"
        "\"codecs\":[{\"name\":\"bytes\"}],\"attributes\":{}}";
    struct table {
        std::int64_t size(const char *name) const {
            if (strcmp(name, "/table/zarr.json") == 0)
                return std::int64_t(sizeof metadata) - 1;
            return strcmp(name, "/table/c/0/0") == 0 ? WAVETRAIN_FILE_FAILED
                                                     : WAVETRAIN_FILE_ABSENT;
        }
        std::int64_t read(const char *name, std::uint64_t offset, void *target,
                          std::uint64_t bytes) const {
            if (strcmp(name, "/table/zarr.json") != 0)
                return WAVETRAIN_FILE_FAILED;
            memcpy(target, metadata + offset, bytes);
            return 0;
        }
    };
    const table files{};
    int lines = 0;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    auto log = [&](std::uint32_t level, std::uint64_t tag, const char *text, std::uint64_t bytes) {
        pthread_mutex_lock(&lock);
        lines += level == WAVETRAIN_LOG_WARN && tag == 31 && strlen(text) == bytes;
        pthread_mutex_unlock(&lock);
    };
    counted_memory memory;
    {
        config settings = cube_settings();
        settings.shape({ 4, 4 }).use_files(files).use_log(log).use_memory(memory);
        settings.samples_per_batch = 1;
        settings.on_error = WAVETRAIN_ON_ERROR_SKIP;
        settings.pad_value = 3;
        loader from = open_cube(settings);
        batch out;
        CHECK(from.push({ "/table", { 0, 0 }, { 4, 4 }, 31 }).ok() && from.pop(out).ok());
        CHECK(out.view().failed_samples == 1 && out.statuses()[0] == WAVETRAIN_IO);
        CHECK(out.as<float>()[0] == 3 && out.as<float>()[15] == 3);
    }
    CHECK(lines == 1 && memory.allocs > 0 && memory.frees == memory.allocs);
}

/* The files of the system, read by a thread of its own. */
struct late_files {
    struct request {
        wavetrain_loader loader;
        std::uint64_t ticket, offset, bytes;
        char name[512];
        void *target;
    };
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
    request queue[64];
    std::uint32_t first = 0, limit = 0, completed = 0;
    bool is_over = false;

    std::int64_t size(const char *name) const {
        struct stat status;
        if (stat(name, &status) != 0)
            return WAVETRAIN_FILE_ABSENT;
        return status.st_size;
    }
    std::int64_t read(const char *name, std::uint64_t offset, void *target,
                      std::uint64_t bytes) const {
        const int file = open(name, O_RDONLY);
        if (file < 0)
            return WAVETRAIN_FILE_ABSENT;
        const ssize_t got = pread(file, target, bytes, static_cast<off_t>(offset));
        close(file);
        return static_cast<std::uint64_t>(got) == bytes ? 0 : WAVETRAIN_FILE_FAILED;
    }
    std::int64_t read_async(wavetrain_loader loader, std::uint64_t ticket, const char *name,
                            std::uint64_t offset, void *target, std::uint64_t bytes) {
        pthread_mutex_lock(&lock);
        CHECK(limit - first < 64 && strlen(name) < sizeof queue[0].name);
        request &next = queue[limit++ % 64];
        next.loader = loader, next.ticket = ticket, next.offset = offset, next.bytes = bytes;
        next.target = target;
        strcpy(next.name, name);
        pthread_cond_signal(&wake);
        pthread_mutex_unlock(&lock);
        return 0;
    }
    static void *work(void *of) {
        late_files &self = *static_cast<late_files *>(of);
        pthread_mutex_lock(&self.lock);
        while (self.first != self.limit || !self.is_over) {
            if (self.first == self.limit) {
                pthread_cond_wait(&self.wake, &self.lock);
                continue;
            }
            const request next = self.queue[self.first++ % 64];
            pthread_mutex_unlock(&self.lock);
            const std::int64_t got = self.read(next.name, next.offset, next.target, next.bytes);
            CHECK(wavetrain::read_done(next.loader, next.ticket, got).ok());
            pthread_mutex_lock(&self.lock);
            self.completed++;
        }
        pthread_mutex_unlock(&self.lock);
        return nullptr;
    }
};

static void reads_may_be_completed_by_another_thread() {
    static late_files files;
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, late_files::work, &files) == 0);
    {
        config settings = cube_settings();
        settings.use_files(files);
        CHECK(settings.files.read_async != nullptr);
        loader from = open_cube(settings);
        std::uint64_t number = 0;
        auto stream = from.stream([&number](sample &out) {
            out = cube_sample(cube, number);
            return number++ < 30;
        });
        for (const batch &got : stream)
            CHECK(batch_is_right(got));
        CHECK(stream.done() && files.completed > 0);
        CHECK(wavetrain::read_done(from.handle(), 12345, 0) == WAVETRAIN_INVALID);
    }
    pthread_mutex_lock(&files.lock);
    files.is_over = true;
    pthread_cond_signal(&files.wake);
    pthread_mutex_unlock(&files.lock);
    CHECK(pthread_join(thread, nullptr) == 0);
}

static void work_runs_on_the_workers_of_the_host() {
    struct inline_jobs {
        int runs = 0;
        void operator()(void (*job)(void *), void *argument) {
            runs++;
            job(argument);
        }
    } jobs;
    config settings = cube_settings();
    settings.use_workers(jobs);
    wavetrain::memory need;
    CHECK(settings.memory_need(need).ok() && need.threads == 0);
    loader from = open_cube(settings);
    batch some[1];
    pop_some(from, some, 1);
    CHECK(batch_is_right(some[0]) && jobs.runs > 0);
}

/* ---- streams ---- */

/* Makes samples first .. limit; counts its calls. May not be copied. */
struct numbers {
    std::uint64_t next, limit;
    int *calls;

    numbers(std::uint64_t first, std::uint64_t last, int *counter)
        : next(first), limit(last), calls(counter) {}
    numbers(numbers &&) = default;
    numbers(const numbers &) = delete;
    bool operator()(sample &out) noexcept {
        ++*calls;
        if (next == limit)
            return false;
        out = cube_sample(cube, next++);
        return true;
    }
};

/* An input iterator with a sentinel of another type, whose elements only convert to samples. */
struct element {
    std::uint64_t number;
    operator sample() const { return cube_sample(cube, number); }
};
struct until {
    std::uint64_t limit;
};
struct input_iterator {
    std::uint64_t number;
    element operator*() const { return { number }; }
    input_iterator &operator++() { return number++, *this; }
    bool operator!=(until end) const { return number != end.limit; }
};

/* Takes batches to the end; their tags must be first .. limit. */
template <class Stream> void drain(Stream &stream, std::uint64_t first, std::uint64_t limit) {
    std::uint64_t number = first;
    for (const batch &got : stream) {
        CHECK(batch_is_right(got));
        for (const std::uint64_t tag : got.tags())
            CHECK(tag == number++);
    }
    CHECK(number == limit && stream.status().ok() && stream.done());
    batch none;
    CHECK(!stream.next(none) && stream.try_pop(none) == WAVETRAIN_END && stream.status().ok());
}

static void streams_give_every_sample_once_and_in_order() {
    loader from = open_cube(cube_settings());
    int calls = 0;
    { /* a generator that may only be moved, far longer than the lookahead; a last, short batch */
        auto stream = from.stream(numbers(0, 100, &calls));
        static_assert(noexcept(stream.next(std::declval<batch &>())));
        drain(stream, 0, 100);
        CHECK(calls == 101 && stream.error().text[0] == 0);
    }
    { /* nothing at all */
        auto stream = from.stream(numbers(5, 5, &calls));
        drain(stream, 5, 5);
    }
    sample array[7];
    for (std::uint64_t number = 0; number < 7; number++)
        array[number] = cube_sample(cube, number);
    { /* pointers */
        auto stream = from.stream(array, array + 7);
        drain(stream, 0, 7);
    }
    { /* a sentinel of another type, elements that convert */
        auto stream = from.stream(input_iterator{ 3 }, until{ 20 });
        drain(stream, 3, 20);
    }
    { /* a lambda that changes the sample in place */
        std::uint64_t number = 0;
        auto stream = from.stream([&](sample &out) {
            const place at(number);
            const std::int64_t begin[3] = { at.z, at.y, at.x };
            if (number == 0)
                out = cube_sample(cube, 0);
            out.tag = number;
            for (int axis = 0; axis < 3; axis++)
                out.end[axis] = (out.begin[axis] = begin[axis]) + BOX;
            return number++ < 10;
        });
        drain(stream, 0, 10);
    }
    CHECK(held_by(from) == 0);
}

static void a_stream_feeds_no_further_than_the_lookahead() {
    config settings = cube_settings();
    settings.lookahead_samples = 4;
    loader from = open_cube(settings);
    int calls = 0;
    auto stream = from.stream(numbers(0, UINT64_MAX, &calls));
    batch out;
    for (std::uint64_t number = 0; number < 20; number++) {
        CHECK(stream.next(out) && out.tags()[0] == number * SAMPLES && batch_is_right(out));
        /* Popped, three slots, the lookahead, and the one sample that found no room. */
        CHECK(calls <= int(number + 1 + 3) * SAMPLES + 4 + 1);
    }
    CHECK(stream.status().ok() && !stream.done());
}

static void leaving_early_drops_what_was_pushed() {
    loader from = open_cube(cube_settings());
    int calls = 0;
    batch kept;
    {
        auto stream = from.stream(numbers(0, UINT64_MAX, &calls));
        for (batch &got : stream)
            if (got.batch_id() == 2) {
                kept = std::move(got);
                break;
            }
        CHECK(stream.status().ok() && !stream.done());
    }
    CHECK(held_by(from) == 1 && kept.tags()[0] == 2 * SAMPLES && batch_is_right(kept));
    { /* the next stream sees its own samples only; so after one that only began */
        auto idle = from.stream(numbers(700, 800, &calls));
        auto stream = from.stream(numbers(50, 60, &calls));
        drain(stream, 50, 60);
    }
    {
        auto stream = from.stream(numbers(1000, 2000, &calls));
        batch out;
        stream.try_pop(out).ignore();
    }
    auto stream = from.stream(numbers(60, 70, &calls));
    drain(stream, 60, 70);
    CHECK(batch_is_right(kept));
}

/* Gives good samples, and in place of number `at` what the test wants. */
struct with_fault {
    std::uint64_t at;
    sample fault;
    std::uint64_t next = 0;

    bool operator()(sample &out) {
        out = next == at ? fault : cube_sample(cube, next);
        return next++ < 1000;
    }
};

static void a_store_error_comes_behind_the_batches_before_it() {
    struct {
        const char *uri;
        wavetrain_status expected;
    } const faults[] = { { missing, WAVETRAIN_NOT_FOUND }, { damaged, WAVETRAIN_DECODE } };
    loader from = open_cube(cube_settings());
    for (const auto &fault : faults) {
        {
            auto stream = from.stream(with_fault{ 7, sample(cube_sample(fault.uri, 7)) });
            std::uint64_t batches = 0;
            for (const batch &got : stream)
                CHECK(batch_is_right(got) && got.tags()[0] == SAMPLES * batches++);
            CHECK(batches == 2 && stream.status() == fault.expected && !stream.done());
            const error &why = stream.error();
            CHECK(why.status == fault.expected && why.tag == 7 && why.batch_id == 2);
            CHECK(why.sample == 1 && strstr(why.text, fault.uri) != nullptr);
            batch none;
            CHECK(!stream.next(none) && stream.try_pop(none) == fault.expected);
        }
        /* The loader stays as it is until reset, also when the stream is gone. */
        CHECK(from.push(cube_sample(cube, 0)) == fault.expected && from.reset().ok());
    }
    int calls = 0;
    auto stream = from.stream(numbers(0, 9, &calls));
    drain(stream, 0, 9);
}

static void a_refused_sample_ends_the_stream_behind_those_before_it() {
    loader from = open_cube(cube_settings());
    sample flat = wavetrain::box(cube, { 0, 0 }, { BOX, BOX });
    flat.tag = 10;
    auto stream = from.stream(with_fault{ 10, flat });
    std::uint64_t number = 0;
    for (const batch &got : stream)
        for (const std::uint64_t tag : got.tags())
            CHECK(tag == number++);
    CHECK(number == 10 && stream.status() == WAVETRAIN_RANK && !stream.done());
    CHECK(stream.error().status == WAVETRAIN_RANK && stream.error().tag == 10);
    CHECK(strstr(stream.error().text, "sample_shape") != nullptr);
    batch none;
    CHECK(stream.try_pop(none) == WAVETRAIN_RANK);
    /* The loader is as good as before. */
    int calls = 0;
    auto next = from.stream(numbers(0, 9, &calls));
    drain(next, 0, 9);
}

static void a_starved_stream_goes_on() {
    config settings = cube_settings();
    settings.pop_timeout_ns = 1000000;
    loader from = open_cube(settings);
    int calls = 0;
    auto stream = from.stream(numbers(0, 30, &calls));
    batch held[4];
    for (int slot = 0; slot < 3; slot++)
        while (!stream.next(held[slot]))
            CHECK(stream.status() == WAVETRAIN_STARVED);
    CHECK(stream.status().ok());
    CHECK(!stream.next(held[3]) && stream.status() == WAVETRAIN_STARVED && !stream.done());
    CHECK(strstr(stream.error().text, "slots are held") != nullptr);
    held[0] = batch();
    CHECK(stream.pop(held[3], LONG_NS).ok() && held[3].tags()[0] == 9 && stream.status().ok());
}

static void streams_and_loaders_move_while_they_run() {
    loader first = open_cube(cube_settings());
    int calls = 0;
    auto begun = first.stream(numbers(0, 40, &calls));
    batch out;
    CHECK(begun.next(out) && out.tags()[0] == 0);
    loader second(std::move(first));
    auto moved(std::move(begun));
    CHECK(!begun.next(out) && begun.status().ok()); /* moved from: over, and resets nothing */
    CHECK(moved.next(out) && out.tags()[0] == SAMPLES && batch_is_right(out));
    drain(moved, 2 * SAMPLES, 40);
}

static void a_stream_ends_when_its_loader_is_closed() {
    loader from = open_cube(cube_settings());
    int calls = 0;
    auto stream = from.stream(numbers(0, UINT64_MAX, &calls));
    batch out;
    CHECK(stream.next(out));
    from = loader();
    CHECK(!stream.next(out) && stream.status() == WAVETRAIN_SHUTDOWN && !out);
}

/* ---- one thread, the caller's block, no malloc at all ---- */

static void fields_are_found_by_number_and_by_name() {
    const wavetrain::field table[] = {
        wavetrain::field("image", WAVETRAIN_F32, { BOX, BOX, BOX }),
        wavetrain::field("half", WAVETRAIN_U16, { BOX, BOX / 2 })
            .padding(WAVETRAIN_PAD_CONSTANT, 5),
        wavetrain::field("label", WAVETRAIN_I64),
        wavetrain::field("weights", WAVETRAIN_F64, { 2, 2 }),
    };
    config settings;
    set_cube(settings);
    settings.use_fields(table).max_boxes_per_sample = 5;
    settings.digest = 1;
    loader feeding = open_cube(settings);
    const double weights[2][2] = { { 1, 2 }, { 3, 4 } };
    for (std::int64_t number = 0; number < SAMPLES; number++) {
        const place at(static_cast<std::uint64_t>(number));
        const wavetrain::tensor label(&number), weight(&weights[0][0], { 2, 2 });
        CHECK(label.dtype == WAVETRAIN_I64 && weight.dtype == WAVETRAIN_F64);
        using wavetrain::box;
        const box parts[] = {
            box(cube, { at.z, at.y, at.x }, { at.z + BOX, at.y + BOX, at.x + BOX }),
            /* A plane whose axes are turned; every second column, backwards. */
            box(cube, { at.z, at.y, at.x }, { at.z + 1, at.y + BOX, at.x + 4 })
                .into(1, { 0, 1 })
                .along({ 0, 1, 2 })
                .steps({ 1, 1, -2 }),
            box(label, 0, WAVETRAIN_BOX_VALUE).into(2),
            box(weight, 2).into(3),
        };
        CHECK(feeding.push(wavetrain::boxes{ parts, std::uint64_t(number) }).ok());
    }
    batch popped;
    CHECK(feeding.pop(popped).ok() && batch_is_right(popped));
    CHECK(strcmp(popped.name(), "image") == 0 && popped.filled_shape(0)[2] == BOX);
    const wavetrain::field_view half = popped.field("half"), label = popped.field(2);
    CHECK(half && label && half.shape().size() == 3 && label.shape().size() == 1);
    CHECK(label.as<std::int64_t>()[2] == 2 && label.as<std::uint64_t>().empty());
    const wavetrain::field_view weight = popped.field("weights");
    CHECK(weight.row<double>(1)[3] == 4 && weight.filled_shape(9).empty());
    CHECK(!popped.field("none") && !popped.field(static_cast<const char *>(nullptr)));
    CHECK(popped.field(0).data() == popped.data() && popped.field(1u).data() == half.data());
    CHECK(popped.field(std::size_t(1)).data() == half.data() && !popped.field(-1));
    CHECK(!popped.field((UINT64_C(1) << 32) + 1));
    CHECK(!popped.field(4) && popped.field(4).as<float>().empty());
    for (std::uint32_t row = 0; row < SAMPLES; row++) {
        const place at(row);
        const auto plane = half.row<std::uint16_t>(row);
        for (int y = 0; y < BOX; y++)
            for (int x = 0; x < BOX / 2; x++) {
                const int from = x == 1 ? 3 : 1;
                const std::uint16_t wanted =
                    x == 1 || x == 2 ? sparse_at(0, at.z, at.y + y, at.x + from) : 5;
                CHECK(plane[std::size_t(y * (BOX / 2) + x)] == wanted);
            }
        CHECK(half.filled_shape(row)[0] == BOX && half.filled_shape(row)[1] == 3);
    }
    check_digests(&popped.view(), 0);
    check_digests(&label.view(), 0);
    CHECK(label.digests().size() == SAMPLES && label.digests().data() == label.view().digests);
    CHECK(label.digest() == label.view().digest && label.digest() != weight.digest());
    CHECK(popped.field(4).digests().empty() && popped.field(4).digest() == 0);
    DLManagedTensorVersioned *tensor = nullptr;
    CHECK(popped.dlpack(&tensor, nullptr, 2).ok() && tensor->dl_tensor.ndim == 1);
    tensor->deleter(tensor);
    CHECK(popped.dlpack(&tensor, nullptr, 4) == WAVETRAIN_INVALID);
    /* The same as a table, whose rows are the same samples. */
    const char *const uris[] = { cube };
    std::int64_t numbers[SAMPLES], begins[3 * SAMPLES];
    std::uint64_t tags[SAMPLES];
    for (std::uint64_t number = 0; number < SAMPLES; number++) {
        const place at(number);
        numbers[number] = std::int64_t(tags[number] = number);
        begins[3 * number] = at.z, begins[3 * number + 1] = at.y, begins[3 * number + 2] = at.x;
    }
    const std::uint64_t places[] = { BOX, BOX, BOX };
    const wavetrain::column columns[] = {
        wavetrain::column(uris, begins, places),
        wavetrain::column(wavetrain::span<const std::int64_t>(numbers)).into(2),
    };
    std::size_t taken = 0;
    CHECK(feeding.push(columns, tags, 0, taken).ok() && taken == SAMPLES);
    CHECK(feeding.pop(popped).ok() && batch_is_right(popped));
    CHECK(popped.field(2).as<std::int64_t>()[SAMPLES - 1] == SAMPLES - 1);
    /* What is wrong is told by the name of the field. */
    const wavetrain::box twice[] = { wavetrain::box(cube, { 0, 0, 0 }, { 1, 4, 4 }).into(1),
                                     wavetrain::box(cube, { 0, 0, 0 }, { 1, 4, 4 }).into(1) };
    CHECK(feeding.push(wavetrain::boxes{ twice, 7 }) == WAVETRAIN_INVALID);
    error why;
    CHECK(feeding.last_error(why).ok() && why.tag == 7);
    CHECK(strstr(why.text, "field half: boxes 0 and 1 overlap") != nullptr);
}

static void places_are_mapped_to_voxels() {
    const wavetrain::field table[] = { wavetrain::field("x", WAVETRAIN_F32, { 3, 4 }),
                                       wavetrain::field("near", WAVETRAIN_U16, { 3, 4 }) };
    config settings;
    settings.use_fields(table).samples_per_batch = 1;
    settings.augment = 1;
    loader from = open_cube(settings);
    /* A quarter turn, and halfway to the next voxel along the last axis: means of two voxels. */
    const wavetrain::affine turn({ 1, 2 }, { { 0, 1, 2 }, { -1, 0, 5.5 } });
    wavetrain::affine near({ 1, 2 }, { { 0, 1, 2 }, { -1, 0, 5.5 } }, WAVETRAIN_NEAREST);
    near.at_level(0);
    CHECK(turn.rank == 2 && turn.matrix[0][3] == 2 && turn.matrix[1][2] == 0 && turn.level == -1);
    wavetrain::augment doubled;
    const float two[] = { 2 };
    doubled.linear(two);
    const wavetrain::box parts[] = {
        wavetrain::box(cube, { 1, 0, 0 }, { 2, 3, 4 }).with(turn).with(doubled),
        wavetrain::box(cube, { 1, 0, 0 }, { 2, 3, 4 }).into(1).with(near),
    };
    batch popped;
    CHECK(from.push(wavetrain::boxes{ parts, 7 }).ok() && from.flush().ok());
    CHECK(from.pop(popped).ok());
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++) {
            const int low = sparse_at(0, 1, 2 + j, 5 - i), high = sparse_at(0, 1, 2 + j, 6 - i);
            const float wanted = 2 * (float(low) + float(high - low) * 0.5f);
            CHECK(popped.as<float>()[std::size_t(4 * i + j)] == wanted);
            CHECK(popped.field(1).as<std::uint16_t>()[std::size_t(4 * i + j)] == high);
        }
    /* A table: one for each row, and one for all. */
    const std::int64_t begins[] = { 1, 0, 0, 2, 0, 0 };
    const std::uint64_t places[] = { 1, 3, 4 }, tags[] = { 1, 2 };
    const char *const uris[] = { cube };
    const wavetrain::affine rows[] = { wavetrain::affine({ 1, 2 }, { { 1, 0, 3 }, { 0, 2, 0 } }),
                                       wavetrain::affine({ 2, 1 }, { { 2, 0, 1 }, { 0, 1, 2 } }) };
    wavetrain::column column(uris, begins, places);
    std::size_t taken = 0;
    for (const bool is_one : { false, true }) {
        wavetrain::column &mapped = is_one ? column.with_one(rows[1]) : column.with(rows);
        CHECK(from.push({ &mapped, 1 }, tags, 0, taken).ok() && taken == 2);
        for (const int row : { 0, 1 }) {
            CHECK(from.pop(popped).ok());
            for (int place = 0; place < 12; place++) {
                const int i = place / 4, j = place % 4;
                const int element = row == 0 && !is_one ? sparse_at(0, 1, 3 + i, 2 * j)
                                                        : sparse_at(0, 1 + row, 2 + i, 1 + 2 * j);
                CHECK(popped.as<float>()[std::size_t(place)] == float(element));
            }
        }
    }
    /* Memory, its rows from the last to the first: the same quarter turn as above. */
    std::int16_t planes[8][8];
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++)
            planes[7 - y][x] = std::int16_t(100 * y + x * x);
    wavetrain::tensor backwards(&planes[7][0], { 1, 8, 8 });
    backwards.strides[0] = sizeof planes;
    backwards.strides[1] = -std::int64_t(sizeof planes[0]);
    backwards.strides[2] = sizeof planes[0][0];
    wavetrain::box fed[] = { wavetrain::box(backwards, 3).with(turn).with(doubled) };
    fed[0].end[1] = 3, fed[0].end[2] = 4;
    CHECK(from.push(wavetrain::boxes{ fed, 8 }).ok() && from.pop(popped).ok());
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++) {
            const int low = 100 * (2 + j) + (5 - i) * (5 - i);
            const int high = 100 * (2 + j) + (6 - i) * (6 - i);
            CHECK(popped.as<float>()[std::size_t(4 * i + j)] == float(low + high));
        }
    const wavetrain::affine flat({ 1, 2 }, { { 1, 1, 0 }, { 1, 1, 0 } });
    wavetrain::box refused = parts[0];
    error why;
    CHECK(from.push(refused.with(flat)) == WAVETRAIN_INVALID);
    CHECK(from.last_error(why).ok() && strstr(why.text, "affine: matrix is singular") != nullptr);
    /* The cube is an array, which has neither other levels nor units. */
    wavetrain::affine measured = turn;
    CHECK(measured.at_level(2).in_units().level == 2 && measured.has_units == 1);
    CHECK(from.push(refused.with(measured)).ok() && from.flush().ok());
    CHECK(from.pop(popped) == WAVETRAIN_INVALID);
    CHECK(from.last_error(why).ok() && strstr(why.text, "level = 2: the uri names an") != nullptr);
}

/* A field with cf reads each array as by a uri that ends with #cf=1: the cube has no attributes of
 * CF and stays as it is, a file without attributes is refused, what is fed is not touched. */
static void fields_are_decoded_by_cf() {
    const wavetrain::field table[] = {
        wavetrain::field("x", WAVETRAIN_F32, { 2, 2, 2 }).decode_cf(),
        wavetrain::field("y", WAVETRAIN_F32, { 2, 2, 2 }).decode_cf().decode_cf(false),
        wavetrain::field("label", WAVETRAIN_I64).decode_cf(),
    };
    CHECK(table[0].cf == 1 && table[1].cf == 0);
    config settings;
    settings.use_fields(table).samples_per_batch = 1;
    settings.max_boxes_per_sample = 3;
    loader from = open_cube(settings);
    using wavetrain::box;
    const std::int64_t number = 9;
    const wavetrain::tensor value(&number);
    const box given = box(value, 0, WAVETRAIN_BOX_VALUE).into(2);
    const box parts[] = { box(cube, { 1, 2, 3 }, { 3, 4, 5 }),
                          box(cube, { 1, 2, 3 }, { 3, 4, 5 }).into(1), given };
    CHECK(from.push(wavetrain::boxes{ parts, 1 }).ok());
    batch popped;
    CHECK(from.pop(popped).ok());
    const wavetrain::span<float> x = popped.field(0).as<float>(), y = popped.field(1).as<float>();
    CHECK(x.size() == 8 && memcmp(x.data(), y.data(), 8 * sizeof *x.data()) == 0);
    CHECK(popped.field(2).as<std::int64_t>()[0] == number);
    error why;
    CHECK(from.push(box("/none/x.npy", { 0, 0, 0 }, { 2, 2, 2 })) == WAVETRAIN_UNSUPPORTED);
    CHECK(from.last_error(why).ok() && strstr(why.text, "cf = 1 needs attributes") != nullptr);
    CHECK(from.push(box("/none/x.npy", { 0, 0, 0 }, { 2, 2, 2 }).into(1)).ok());
}

static void elements_are_augmented_on_their_way() {
    const wavetrain::field table[] = { wavetrain::field("x", WAVETRAIN_F32, { 2, 3 }) };
    config settings;
    settings.use_fields(table).samples_per_batch = 2;
    settings.max_boxes_per_sample = 1;
    settings.augment = 1;
    loader from = open_cube(settings);
    const std::int16_t elements[2][3] = { { 1, 2, 3 }, { 40, 50, 60 } };
    const float scale[] = { 2, 0.5f }, bias[] = { 0, -1 }, values[] = { 7, 8 }, one[] = { 10 };
    const wavetrain::erase erases[] = { wavetrain::erase({ 0, 2 }, { 2, 3 }, values) };
    wavetrain::augment all, scaled;
    all.linear(scale, bias).clamp(3, 21).erasing(erases);
    scaled.linear(one);
    const wavetrain::tensor given(&elements[0][0], { 2, 3 });
    CHECK(from.push(wavetrain::box(given, 2).with(all)).ok());
    CHECK(from.push(wavetrain::box(given, 2).with(scaled)).ok());
    const float wanted[2][6] = { { 3, 4, 7, 19, 21, 8 }, { 10, 20, 30, 400, 500, 600 } };
    batch popped;
    CHECK(from.pop(popped).ok());
    for (std::uint32_t row = 0; row < 2; row++)
        CHECK(memcmp(popped.row<float>(row).data(), wanted[row], sizeof wanted[row]) == 0);
    /* Noise is added where there is some, and spans of different lengths are refused. */
    scaled.noise(0.5f, 42);
    CHECK(from.push(wavetrain::box(given, 2).with(scaled)).ok() && from.flush().ok());
    CHECK(from.pop(popped).ok() && popped.sample_count() == 1);
    for (std::size_t at = 0; at < 6; at++) {
        const float difference = popped.as<float>()[at] - wanted[1][at];
        CHECK(difference != 0 && difference > -2.5f && difference < 2.5f);
    }
    all.linear(scale, one);
    error why;
    CHECK(from.push(wavetrain::box(given, 2).with(all)) == WAVETRAIN_INVALID);
    CHECK(from.last_error(why).ok() && strstr(why.text, "augment: n_channels") != nullptr);
    all.linear({}, bias).erasing({});
    CHECK(all.scale == nullptr && all.n_channels == 2 && all.n_erase == 0);

    /* A table: one for all rows, and one for each. */
    const std::int64_t begins[] = { 0, 0, 0, 0, 0, 5 };
    const std::uint64_t places[] = { 1, 2, 3 }, tags[] = { 1, 2 };
    const char *const uris[] = { cube };
    wavetrain::augment rows[2];
    const float factors[] = { 2, 3 };
    for (std::size_t row = 0; row < 2; row++)
        rows[row].linear(span<const float>(&factors[row], 1));
    wavetrain::column column(uris, begins, places);
    std::size_t taken = 0;
    CHECK(from.push({ &column.with(rows), 1 }, tags, 0, taken).ok() && taken == 2);
    CHECK(from.push({ &column.with_one(rows[1]), 1 }, tags, 0, taken).ok() && taken == 2);
    for (const bool is_one : { false, true }) {
        CHECK(from.pop(popped).ok());
        for (std::uint32_t row = 0; row < 2; row++)
            for (int at = 0; at < 6; at++) {
                const float element = sparse_at(0, 0, at / 3, begins[3 * row + 2] + at % 3);
                CHECK(popped.row<float>(row)[std::size_t(at)] ==
                      element * factors[is_one ? 1 : row]);
            }
    }
}

/* Epochs in a plain order or a chunk-aware shuffle, against the calls in C. */
template <class Run>
static void check_epochs(Run run, wavetrain_epoch epoch, const wavetrain_chunk_shuffle *shuffle,
                         std::uint64_t batches, std::uint64_t last) {
    for (; run.number() < 2; run.turn()) {
        for (std::uint64_t left = batches; left > 0; left--) {
            CHECK(run.left() == left);
            /* What was pushed and not popped comes again in the next stream. */
            auto samples = run.samples();
            wavetrain_epoch ahead = epoch;
            std::uint64_t wanted = 0, out = 0, count = 0;
            while (wavetrain_epoch_next(&ahead, shuffle, nullptr, &wanted) > 0)
                CHECK(samples(out) && out == wanted);
            CHECK(!samples(out));
            run.popped(left > 1 ? epoch.batch : last, [&](std::uint64_t i, wavetrain_place at) {
                CHECK(i == count++ &&
                      wavetrain_epoch_next(&epoch, shuffle, nullptr, &wanted) > 0);
                CHECK(wanted == wavetrain_epoch_at(&epoch, shuffle, at));
            });
            CHECK(count == (left > 1 ? epoch.batch : last));
            CHECK(memcmp(&run.state(), &epoch.state, sizeof epoch.state) == 0);
        }
        CHECK(run.left() == 0);
        CHECK(wavetrain_epoch_turn(&epoch, shuffle) == 1);
    }
}

static void epochs_go_on_behind_what_was_popped() {
    const auto fill = [](std::uint64_t index, wavetrain_place, std::uint64_t &out) { out = index; };
    wavetrain_epoch epoch;
    CHECK(wavetrain_epoch_begin(&epoch, nullptr, 10, 3, WAVETRAIN_EPOCH_SHUFFLE) == 1);
    epoch.batch = 4;
    check_epochs(wavetrain::make_epochs(epoch, nullptr, fill), epoch, nullptr, 3, 2);
    /* Two rounds of two windows of 4, and 2 of the 5 samples after them: two batches of 4, and
     * what is no whole one is dropped by the loader, too. */
    const wavetrain_chunk_shuffle shuffle = { 2, 2 };
    CHECK(wavetrain_epoch_begin(&epoch, &shuffle, 21, 3, WAVETRAIN_EPOCH_DROP) == 1);
    epoch.rank = 1;
    epoch.world = 2;
    epoch.batch = 4;
    CHECK(wavetrain_epoch_left(&epoch, &shuffle) == 10);
    const std::uint64_t hash = epoch.state.order_hash;
    check_epochs(wavetrain::make_epochs(epoch, &shuffle, fill), epoch, &shuffle, 2, 4);
    /* Inside of a round a state is of its world. */
    wavetrain_epoch other = epoch;
    std::uint64_t index = 0;
    CHECK(wavetrain_epoch_next(&epoch, &shuffle, nullptr, &index) == 1);
    CHECK(epoch.state.position == 1 && !wavetrain_epoch_is_portable(&epoch, &shuffle));
    CHECK(wavetrain_epoch_resume(&other, &shuffle, &epoch.state) == 1);
    CHECK(memcmp(&other.state, &epoch.state, sizeof epoch.state) == 0);
    CHECK(wavetrain_epoch_turn(&other, &shuffle) == 1 && other.state.order_hash == hash);
    other.world = 3;
    const wavetrain_epoch_state before = other.state;
    CHECK(wavetrain_epoch_resume(&other, &shuffle, &epoch.state) == 0);
    CHECK(memcmp(&other.state, &before, sizeof before) == 0);
    /* More samples than one call deals, and a batch that nobody looks at. */
    CHECK(wavetrain_epoch_begin(&epoch, nullptr, 300, 3, WAVETRAIN_EPOCH_SHUFFLE) == 1);
    epoch.batch = 100;
    check_epochs(wavetrain::make_epochs(epoch, nullptr, fill), epoch, nullptr, 3, 100);
    auto run = wavetrain::make_epochs(epoch, nullptr, fill);
    run.popped(100);
    CHECK(run.state().position == 100 && run.left() == 2);
}

/* The calls for one sample give what those for many do, and what is wrong is refused. */
static void single_calls_are_bulk_calls_of_one() {
    wavetrain_epoch epoch = {};
    std::uint64_t index = 7;
    CHECK(wavetrain_epoch_is_wrong(&epoch, nullptr) && wavetrain_epoch_left(&epoch, nullptr) == 0);
    CHECK(wavetrain_epoch_next(&epoch, nullptr, nullptr, &index) == -1 && index == 7);
    CHECK(wavetrain_epoch_at(&epoch, nullptr, { 0, 0 }) == WAVETRAIN_EPOCH_NO_INDEX);
    CHECK(wavetrain_epoch_begin(nullptr, nullptr, 5, 1, 0) == 0);
    CHECK(wavetrain_epoch_resume(&epoch, nullptr, nullptr) == 0);
    const wavetrain_chunk_shuffle none = { 0, 1 }, one = { 1, 1 };
    CHECK(wavetrain_epoch_begin(&epoch, &none, 5, 1, 0) == 0);
    CHECK(wavetrain_epoch_is_wrong(&epoch, nullptr));
    CHECK(wavetrain_epoch_begin(&epoch, &one, 5, 1, WAVETRAIN_EPOCH_SHUFFLE) == 0);
    CHECK(wavetrain_epoch_begin(&epoch, nullptr, WAVETRAIN_EPOCH_MAX + 1, 1, 0) == 0);
    CHECK(wavetrain_epoch_begin(&epoch, nullptr, 5, 1, WAVETRAIN_EPOCH_PAD) == 1);
    epoch.world = 2;
    CHECK(!wavetrain_epoch_is_wrong(&epoch, nullptr) && wavetrain_epoch_left(&epoch, nullptr) == 3);
    CHECK(wavetrain_epoch_take_many(&epoch, nullptr, 1, nullptr, &index, nullptr) == 1);
    char bytes[sizeof epoch + 1];
    CHECK(wavetrain_epoch_turn(reinterpret_cast<wavetrain_epoch *>(bytes + 1), nullptr) == 0);

    const std::uint64_t positions[] = { 3, 1, 4 };
    std::uint64_t out[3];
    CHECK(wavetrain_permute_many(9, 5, positions, 3, out) == 1);
    CHECK(wavetrain_permute_many(9, 5, nullptr, 3, out) == 0);
    for (int k = 0; k < 3; k++)
        CHECK(wavetrain_permute(9, 5, positions[k]) == out[k]);
    CHECK(wavetrain_below_many(9, 5, 2, positions, 3, out) == 1);
    for (int k = 0; k < 3; k++)
        CHECK(wavetrain_below(9, 5, positions[k], 2) == out[k]);
    CHECK(wavetrain_permute(9, 5, 9) == WAVETRAIN_EPOCH_NO_INDEX);

    std::uint64_t sums[] = { 1, 0, 3 };
    const wavetrain_place places[] = { { 0, 4 }, { 1, 5 } };
    CHECK(wavetrain_accumulate(sums, 3) == 1 && sums[2] == 4);
    CHECK(wavetrain_weighted_many(sums, 3, 7, places, 2, out) == 1);
    CHECK(wavetrain_weighted(sums, 3, 7, places[1]) == out[1] && out[1] != 1);
    const wavetrain_share shares[] = { { 4, 3, 0 }, { 2, 1, 0 } };
    std::uint32_t sources[2], source = 9;
    CHECK(wavetrain_mixed_many(shares, 2, 7, places, 2, sources, out) == 1);
    CHECK(wavetrain_mixed(shares, 2, 7, places[1], &source, &index) == 1);
    CHECK(source == sources[1] && index == out[1]);

    wavetrain_boxes boxes = {};
    boxes.rank = 2;
    boxes.shape[0] = boxes.shape[1] = 10;
    boxes.box[0] = boxes.box[1] = 4;
    std::int64_t begins[4], begin[2];
    const std::uint64_t points[] = { 3, 4, 9, 0 };
    CHECK(wavetrain_boxes_count(&boxes, 1, nullptr) == 4);
    CHECK(wavetrain_boxes_many(&boxes, WAVETRAIN_BOXES_AROUND, 1, places, points, 2, begins) == 2);
    CHECK(wavetrain_boxes_around(&boxes, points + 2, 1, places[1], begin) == 1);
    CHECK(begin[0] == begins[2] && begin[1] == begins[3] && begin[0] == 6);
    CHECK(wavetrain_boxes_many(&boxes, WAVETRAIN_BOXES_ANYWHERE, 1, places, nullptr, 2, begins) ==
          2);
    CHECK(wavetrain_boxes_anywhere(&boxes, 1, places[1], begin) == 1);
    CHECK(begin[0] == begins[2] && begin[1] == begins[3]);
    CHECK(wavetrain_boxes_at(&boxes, 3, 1, 0, begin) == 1 && begin[0] == 4 && begin[1] == 4);
    CHECK(wavetrain_boxes_at(&boxes, 4, 1, 0, begin) == 0);
    CHECK(wavetrain_boxes_many(&boxes, 3, 1, places, nullptr, 2, begins) == 0);
}

/* Names and lists that are not there are refused as in C, and nothing is read of them. */
static void what_is_null_is_refused() {
    static wavetrain::scratch room;
    const char *const none = nullptr;
    config settings = cube_settings();
    loader from = open_cube(settings);
    error why;
    CHECK(from.push(sample(none, { 0 }, { 1 })) == WAVETRAIN_INVALID);
    CHECK(from.last_error(why).ok() && strstr(why.text, "a uri is NULL") != nullptr);
    std::size_t taken = 7;
    CHECK(from.push(span<const sample>(nullptr, 3), 0, taken) == WAVETRAIN_INVALID && taken == 0);
    CHECK(from.last_error(why).ok() && strstr(why.text, "samples is NULL") != nullptr);
    CHECK(from.push(span<const sample>(), 0, taken).ok() && taken == 0);
    CHECK(from.push(wavetrain::boxes{ { nullptr, 2 }, 1 }) == WAVETRAIN_INVALID);
    CHECK(from.last_error(why).ok() && strstr(why.text, "boxes is NULL") != nullptr);
    wavetrain::array_view view;
    CHECK(wavetrain::array_info(none, view, room, &why) == WAVETRAIN_INVALID);
    CHECK(strstr(why.text, "a uri is NULL") != nullptr);
    CHECK(wavetrain::array_info(cube, view, { nullptr, 9 }, &why) == WAVETRAIN_INVALID);
    CHECK(settings.fit(none, room, &why) == WAVETRAIN_INVALID);
    CHECK(settings.fit({ nullptr, 2 }, room, &why) == WAVETRAIN_INVALID);
    const wavetrain::field nameless[] = { wavetrain::field(none) };
    loader refused;
    CHECK(loader::open(config().use_fields(nameless), refused, &why) == WAVETRAIN_INVALID);
    CHECK(loader::open(config().use_fields({ nullptr, 2 }), refused, &why) == WAVETRAIN_INVALID);
    CHECK(strstr(why.text, "fields is NULL") != nullptr);
    const std::uint64_t no_cpu[] = { 0, 0 };
    CHECK(loader::open(config().use_cpus(no_cpu), refused, &why) == WAVETRAIN_INVALID);
    CHECK(strstr(why.text, "cpus: no bit is set") != nullptr);
}

static void a_whole_life_takes_no_allocation() {
    const std::uint64_t before = alloc_call_count();
    config settings = cube_settings();
    settings.thread_mode = WAVETRAIN_THREADS_PUMP;
    settings.use_block(counted_memory::block, sizeof counted_memory::block);
    loader from = open_cube(settings);
    int calls = 0;
    auto stream = from.stream(numbers(0, 50, &calls));
    batch out;
    std::uint64_t batches = 0, frames = 0;
    for (status got = WAVETRAIN_AGAIN; got != WAVETRAIN_END; frames++) {
        got = stream.try_pop(out);
        CHECK(!got.failed());
        if (got.ok())
            CHECK(batch_is_right(out) && out.tags()[0] == SAMPLES * batches++);
        if (got == WAVETRAIN_AGAIN)
            from.pump(0).ignore();
    }
    CHECK(batches == 17 && frames > batches && stream.done());
    CHECK(from.close(0).ok() && alloc_call_count() == before);
}

int main(int argc, char **argv) {
    static char good[4096], bad[4096];
    CHECK(argc == 2);
    snprintf(good, sizeof good, "%s/cube", argv[1]);
    snprintf(bad, sizeof bad, "%s/damaged", argv[1]);
    snprintf(missing, sizeof missing, "%s/missing", argv[1]);
    cube = good;
    damaged = bad;

    types_are_what_they_should_be();
    spans_borrow_arrays_and_containers();
    config_starts_with_the_defaults();
    metadata_calls_need_no_loader();
    a_batch_shows_what_was_pushed();
    a_box_reads_lists_of_indices();
    chunks_that_cannot_be_read_are_nan_and_listed();
    elements_come_out_as_what_they_are_only();
    a_batch_is_held_until_its_owner_goes();
    a_pop_waits_as_long_as_the_config_says();
    push_says_which_sample_it_refused();
    the_last_batch_ends_a_loader_that_went_first();
    tensors_share_the_batch_and_keep_its_slot();
    a_tensor_that_outlives_its_loader_keeps_the_memory_and_the_log_says_so();
    the_next_loader_ends_those_that_tensors_kept();
    close_tells_what_is_held();
    loaders_move_and_close();
    hooks_are_members_and_lambdas();
    reads_may_be_completed_by_another_thread();
    work_runs_on_the_workers_of_the_host();
    streams_give_every_sample_once_and_in_order();
    a_stream_feeds_no_further_than_the_lookahead();
    leaving_early_drops_what_was_pushed();
    a_store_error_comes_behind_the_batches_before_it();
    a_refused_sample_ends_the_stream_behind_those_before_it();
    a_starved_stream_goes_on();
    streams_and_loaders_move_while_they_run();
    a_stream_ends_when_its_loader_is_closed();
    fields_are_found_by_number_and_by_name();
    fields_are_decoded_by_cf();
    elements_are_augmented_on_their_way();
    places_are_mapped_to_voxels();
    epochs_go_on_behind_what_was_popped();
    single_calls_are_bulk_calls_of_one();
    what_is_null_is_refused();
    a_whole_life_takes_no_allocation();
    return 0;
}
