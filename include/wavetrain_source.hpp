/* wavetrain_source.hpp - batches of what a program gives: callbacks, or what its threads feed.
 *
 * SPDX-License-Identifier: MIT
 *
 * Python has it as wavetrain.source.Source, in the words that users of DALI's external_source know.
 * C++17, header-only: no standard containers, no exceptions, no RTTI, no virtual functions, no
 * threads of its own, NO ALLOCATION. All memory is the room that open is given, whose size need()
 * returns, and the loader's, which its config bounds. This file is over 500 lines because users
 * include one header. Callers need what stands before "Parts that are not for callers", and the
 * classes after those.
 *
 *     auto give = [&](const wavetrain::sample_info &info, wavetrain::given_sample &out) {
 *         if (info.idx_in_epoch >= image_count)
 *             return false;                                    // the end of the epoch
 *         const image &of = images[info.idx_in_epoch];
 *         out.array("image", of.pixels, { of.height, of.width, 3 }).value("label", of.label);
 *         return true;
 *     };
 *     wavetrain::source_settings settings;
 *     settings.cycle = wavetrain::cycle::raise;
 *     settings.parallel = 4;                  // calls that threads of yours make: batches.work()
 *     wavetrain::source batches(give);
 *     std::vector<unsigned char> room(batches.need(config, settings));
 *     wavetrain::error why;
 *     if (!batches.open(config, settings, std::move(room), &why))
 *         return fail(why.text);
 *     for (wavetrain::batch &batch : batches)                  // an epoch
 *         train(batch.field("image").as<float>(), batch.field("label").as<std::int64_t>());
 *     if (!batches.status())
 *         return fail(batches.error().text);
 *
 * The callback takes what it is asked for and fills in what it gives. It is one of
 *
 *     bool give(const sample_info &, given_sample &)    a sample by its number; any number of
 *     bool give(const batch_info &, given_batch &)      threads may ask, in any order
 *     bool give(given_sample &)                         what comes next: asked by one thread at a
 *     bool give(given_batch &)                          time, in order
 *
 * or there is none: source<fed>, which feed() is called of. It returns false at the end, or a
 * status: OK, WAVETRAIN_END, or an error, whose text given_sample::fail takes. It must not throw,
 * and must not call the source. Calls are made up to two batches before a batch is needed, and with
 * parallel prefetch + 1 more, after the end, too. An iterator is not called after its end; if it
 * has a member rewind(), that is called before each epoch, else there is only one. A last batch may
 * have fewer samples; with drop_last of the config it is dropped.
 *
 * Memory and uris that a callback names must stay as they are until their batch is popped or reset
 * or close has returned. With repeat_last they must stay until the next batch is popped. Arrays of
 * up to 64 bytes are copied at once, and with copy everything is, uris, too.
 *
 * Lifetimes. The source holds the callback by value, and the room that was moved into open. Both
 * live until its calls and its loader have ended, however early the function is left that declares
 * it. It borrows a block that open is given as { block, bytes }, whatever a callback refers to, the
 * object of use_workers and the hooks of the config. Declare these before the source.
 *
 * An error of the callback, and of data that is refused, is returned after the batches before it,
 * and again until reset. The tag of a sample is its number in the epoch.
 *
 * Threads. work, feed and feed_end may be called from any thread, all else from one at a time. That
 * one makes calls itself while it waits for them. So the callback is called by threads in work, in
 * jobs of use_workers, and in next. None of your functions is called with a lock held.
 */
#ifndef WAVETRAIN_SOURCE_HPP
#define WAVETRAIN_SOURCE_HPP

#include "wavetrain.hpp"

#include <new>
#include <pthread.h>
#include <time.h>

namespace wavetrain {

/* ---- Plain types -------------------------------------------------------------------------- */

/* Which sample a callback is asked for. */
struct sample_info {
    std::uint64_t idx_in_epoch; /* iteration * samples_per_batch + idx_in_batch */
    std::uint32_t idx_in_batch;
    std::uint64_t iteration; /* the batch, from 0 in each epoch */
    std::uint64_t epoch;
};

/* Which batch a callback is asked for. */
struct batch_info {
    std::uint64_t iteration; /* from 0 in each epoch */
    std::uint64_t epoch;
};

/* A place in the stream: the next batch, and how many samples the epoch has before it. Numbers
 * alone, to be kept in a file. */
struct source_place {
    std::uint64_t epoch;
    std::uint64_t iteration;
    std::uint64_t samples;
};

/* The sequel of the end. no: nothing, until reset. raise: END, and the next call begins another
 * epoch. quiet: another epoch, without a signal. */
enum class cycle : std::uint32_t { no, quiet, raise };

/* In the place of a callback: feed() is called. */
struct fed {};

/* The settings of a source; the defaults work. */
struct source_settings {
    wavetrain::cycle cycle = cycle::no;
    /* 0: the thread in next makes the calls. Else your threads do, in work(), or as that many jobs
     * at a time if there are workers. */
    std::uint32_t parallel = 0;
    /* With parallel: batches that calls are made for in advance. If batches are fed: how many may
     * wait. */
    std::uint32_t prefetch = 1;
    /* false: next does not wait for calls of other threads, nor for what is fed: AGAIN. */
    bool blocking = true;
    /* If nothing was fed, the last batch that was fed is taken again. */
    bool repeat_last = false;
    /* Arrays and uris are copied as they come, into copy_bytes for each sample; 0: as many as its
     * fields take in their types, or in those of expect(). */
    bool copy = false;
    std::uint64_t copy_bytes = 0;

    /* Arrays for a field must have this type (0: any) and as many axes (-1: any). */
    source_settings &expect(std::uint32_t field, std::uint32_t dtype,
                            std::int32_t axes = -1) noexcept {
        if (field < WAVETRAIN_FIELDS_MAX) {
            expected[field].dtype = dtype;
            expected[field].axes = axes;
        }
        is_beyond |= field >= WAVETRAIN_FIELDS_MAX;
        return *this;
    }
    /* Arrays for a field must have as many axes as this has letters: "HWC"; NULL: any number. */
    source_settings &layout(std::uint32_t field, const char *letters) noexcept {
        if (field < WAVETRAIN_FIELDS_MAX)
            expected[field].set_layout(letters);
        is_beyond |= field >= WAVETRAIN_FIELDS_MAX;
        return *this;
    }
    /* run(job, argument) has job(argument) called, on some thread or at once: what
     * config.use_workers takes. A job makes one call. Each must be called exactly once: close waits
     * for that. run is kept by its address, so declare it before the source; it is called by one
     * thread at a time, and must not wait for a job. */
    template <class T> source_settings &use_workers(T &run, std::uint32_t jobs) noexcept {
        parallel = jobs;
        workers_user = const_cast<void *>(static_cast<const void *>(&run));
        workers_run = [](void *user, void (*job)(void *), void *argument) noexcept {
            (*static_cast<T *>(user))(job, argument);
        };
        return *this;
    }

    struct expectation {
        std::uint32_t dtype = 0;
        std::int32_t axes = -1;
        bool has_layout = false;
        char layout[WAVETRAIN_RANK_MAX + 2] = {}; /* of one letter too many: open refuses it */

        void set_layout(const char *letters) noexcept {
            has_layout = letters != nullptr;
            std::size_t count = 0;
            for (; has_layout && count + 1 < sizeof layout && letters[count] != 0; count++)
                layout[count] = letters[count];
            layout[count] = 0;
        }
    };
    expectation expected[WAVETRAIN_FIELDS_MAX];
    bool is_beyond = false; /* open refuses it */
    void *workers_user = nullptr;
    void (*workers_run)(void *user, void (*job)(void *argument), void *argument) = nullptr;
};

/* A field by its number, or by its name. */
class field_key {
public:
    template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
    field_key(T its_number) noexcept
        : number(its_number < T() ? UINT64_MAX : static_cast<std::uint64_t>(its_number)) {}
    field_key(const char *its_name) noexcept : name(its_name) {}

    std::uint64_t number = UINT64_MAX;
    const char *name = nullptr;
};

/* The memory of a source. A container is moved in, and the source frees it: std::move(vector). A
 * block is borrowed, { block, bytes } or a wavetrain::span, and must stay until close has returned.
 * A container or an array without std::move does not compile: one that is declared after the source
 * would be freed before it. */
class source_room {
    template <class C> using if_container = std::enable_if_t<
        !std::is_lvalue_reference_v<C> && !std::is_array_v<C> && !std::is_same_v<C, source_room> &&
        std::is_constructible_v<span<unsigned char>, C &>>;

public:
    source_room() noexcept = default; /* none */
    source_room(unsigned char *block, std::size_t bytes) noexcept : block_(block, bytes) {}
    source_room(span<unsigned char> block) noexcept : block_(block) {}
    template <class C, class = if_container<C>> source_room(C &&container) noexcept {
        static_assert(sizeof(C) <= sizeof container_ && alignof(C) <= alignof(void *) &&
                          std::is_nothrow_move_constructible_v<C>,
                      "a room is a handle on memory, which moves as std::vector does");
        hold(std::move(container));
    }
    template <class C> source_room(C &) = delete; /* std::move it, or name { block, bytes } */
    source_room(source_room &&other) noexcept { take(other); }
    source_room &operator=(source_room &&other) noexcept {
        if (this == &other)
            return *this;
        clear();
        take(other);
        return *this;
    }
    ~source_room() { clear(); }

    unsigned char *data() const noexcept { return block_.data(); }
    std::size_t size() const noexcept { return block_.size(); }

private:
    template <class C> void hold(C &&container) noexcept {
        C &held = *::new (static_cast<void *>(container_)) C(std::move(container));
        block_ = span<unsigned char>(held);
        move_to_ = [](source_room &from, source_room *to) noexcept {
            C &moved = *static_cast<C *>(static_cast<void *>(from.container_));
            if (to != nullptr)
                to->hold(std::move(moved));
            moved.~C();
        };
    }
    void take(source_room &other) noexcept {
        if (other.move_to_ != nullptr)
            other.move_to_(other, this);
        else
            block_ = other.block_;
        other.move_to_ = nullptr;
        other.block_ = {};
    }
    void clear() noexcept {
        if (move_to_ != nullptr)
            move_to_(*this, nullptr);
        move_to_ = nullptr;
        block_ = {};
    }

    span<unsigned char> block_;
    /* Moves the container to another room, or to nowhere; NULL where the block is borrowed. */
    void (*move_to_)(source_room &from, source_room *to) noexcept = nullptr;
    alignas(void *) unsigned char container_[64];
};

/* ---- Parts that are not for callers ------------------------------------------------------- */

class source_core;
class given_batch;
class given_sample;
template <class Give> class source;

namespace source_parts {

constexpr std::uint32_t ahead = 2;        /* batches the loader has before the first is popped */
constexpr std::uint64_t value_bytes = 64; /* that push copies, see wavetrain.h */
constexpr std::uint32_t nowhere = UINT32_MAX;

/* Writes words and numbers into a text; what finds no room is cut. */
class writer {
public:
    explicit writer(error &to) noexcept : to_(to) {}
    writer &operator<<(const char *words) noexcept {
        append_text(to_, words);
        return *this;
    }
    writer &operator<<(std::uint64_t number) noexcept {
        char digits[21];
        char *first = digits + sizeof digits - 1;
        *first = '\0';
        do
            *--first = static_cast<char>('0' + number % 10);
        while ((number /= 10) != 0);
        return *this << static_cast<const char *>(first);
    }

private:
    error &to_;
};

class guard {
public:
    explicit guard(pthread_mutex_t &lock) noexcept : lock_(lock) { pthread_mutex_lock(&lock_); }
    guard(const guard &) = delete;
    guard &operator=(const guard &) = delete;
    ~guard() { pthread_mutex_unlock(&lock_); }

private:
    pthread_mutex_t &lock_;
};

/* When a wait is over. */
class deadline {
public:
    explicit deadline(std::uint64_t timeout_ns) noexcept : waits_(timeout_ns != 0) {
        const std::uint64_t begin = now_ns();
        ends_ns_ = timeout_ns > UINT64_MAX - begin ? WAVETRAIN_FOREVER : begin + timeout_ns;
    }
    std::uint64_t left_ns() const noexcept {
        if (ends_ns_ == WAVETRAIN_FOREVER)
            return WAVETRAIN_FOREVER;
        const std::uint64_t now = now_ns();
        return now < ends_ns_ ? ends_ns_ - now : 0;
    }
    /* Whether there ever was time. */
    bool waits() const noexcept { return waits_; }
    /* Sleeps until it is woken or the time is over. */
    void wait(pthread_cond_t &wake, pthread_mutex_t &lock) const noexcept {
        if (ends_ns_ / 1000000000u > INT32_MAX) {
            pthread_cond_wait(&wake, &lock);
            return;
        }
        timespec when;
        when.tv_sec = static_cast<time_t>(ends_ns_ / 1000000000u);
        when.tv_nsec = static_cast<long>(ends_ns_ % 1000000000u);
        pthread_cond_timedwait(&wake, &lock, &when);
    }

private:
    static std::uint64_t now_ns() noexcept {
        timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return static_cast<std::uint64_t>(now.tv_sec) * 1000000000u +
               static_cast<std::uint64_t>(now.tv_nsec);
    }
    bool waits_;
    std::uint64_t ends_ns_;
};

/* A product, or UINT64_MAX where that is more than fits. */
inline std::uint64_t product(std::uint64_t a, std::uint64_t b) noexcept {
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}
inline std::uint64_t sum(std::uint64_t a, std::uint64_t b) noexcept {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}
/* Up to the alignment of everything that lies in a room. */
inline std::uint64_t aligned(std::uint64_t bytes) noexcept {
    return bytes > UINT64_MAX - 15 ? UINT64_MAX : (bytes + 15) / 16 * 16;
}

/* For an element; 0 if there is no such type. */
inline std::uint64_t element_bytes(std::uint32_t dtype, std::uint32_t raw_bytes) noexcept {
    if (dtype == WAVETRAIN_RAW)
        return raw_bytes;
    constexpr unsigned char sizes[] = { 0, 4, 2, 2, 4, 8, 1, 1, 2, 2, 4, 8, 8, 1, 8, 16 };
    return dtype < sizeof sizes ? sizes[dtype] : 0;
}
inline const char *dtype_name(std::uint32_t dtype) noexcept {
    constexpr const char *names[] = { "no type", "f32", "bf16", "f16",  "i32", "i64",
                                      "u8",      "i8",  "u16",  "i16",  "u32", "u64",
                                      "f64",     "bool", "c64", "c128", "raw" };
    return names[dtype <= WAVETRAIN_RAW ? dtype : 0];
}

/* Whether no stride is given: then the elements are row-major. */
inline bool is_row_major(const wavetrain_tensor &of) noexcept {
    for (const std::int64_t stride : of.strides)
        if (stride != 0)
            return false;
    return true;
}

/* For all elements; UINT64_MAX if it is more than fits. */
inline std::uint64_t array_bytes(const wavetrain_tensor &of, std::uint32_t rank) noexcept {
    std::uint64_t bytes = element_bytes(of.dtype, of.dtype_bytes);
    for (std::uint32_t axis = 0; axis < rank; axis++)
        bytes = product(bytes, of.shape[axis]);
    return bytes;
}

/* Copies the elements in row-major order, in runs that lie side by side. */
inline void gather(const wavetrain_tensor &from, std::uint32_t rank, unsigned char *to) noexcept {
    std::uint64_t run = element_bytes(from.dtype, from.dtype_bytes);
    std::uint32_t outer = rank;
    const bool is_dense = is_row_major(from);
    while (outer > 0 && (is_dense || from.shape[outer - 1] == 1 ||
                         from.strides[outer - 1] == static_cast<std::int64_t>(run)))
        run *= from.shape[--outer];
    const unsigned char *at = static_cast<const unsigned char *>(from.data);
    std::uint64_t place[WAVETRAIN_RANK_MAX] = {};
    for (std::uint32_t axis = 0; axis != nowhere; to += run) {
        std::memcpy(to, at, run);
        for (axis = outer; axis-- > 0;) {
            at += from.strides[axis];
            if (++place[axis] < from.shape[axis])
                break;
            at -= from.strides[axis] * static_cast<std::int64_t>(from.shape[axis]);
            place[axis] = 0;
        }
    }
}

/* A number as C++ has it: whole, or a double. */
struct number {
    bool is_real, is_negative;
    std::uint64_t magnitude;
    double real;

    template <class T> static number of(T value) noexcept {
        static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8, "a number of at most 8 bytes");
        if constexpr (std::is_floating_point_v<T>) {
            return { true, value < 0, 0, static_cast<double>(value) };
        } else {
            const std::uint64_t bits = static_cast<std::uint64_t>(value);
            const bool is_below = std::is_signed_v<T> && value < T();
            return { false, is_below, is_below ? ~bits + 1 : bits, 0 };
        }
    }
    /* A double that is whole as such a number. */
    bool make_whole() noexcept {
        if (!is_real)
            return true;
        const double size = is_negative ? -real : real;
        if (!(size < 0x1p64)) /* nor is NaN */
            return false;
        magnitude = static_cast<std::uint64_t>(size);
        return !(static_cast<double>(magnitude) < size); /* it was cut off, never raised */
    }
    /* Whether a float of so many significant bits that is below `limit` holds it: a whole number
     * as it is, another one rounded. */
    bool fits_float(std::uint32_t bits, double limit) const noexcept {
        if (is_real) {
            const double size = is_negative ? -real : real;
            return !(size >= limit) || size > 0x1.fffffffffffffp1023; /* NaN, infinity */
        }
        std::uint64_t odd = magnitude;
        while (odd != 0 && odd % 2 == 0)
            odd /= 2;
        return odd < (UINT64_C(1) << bits) && static_cast<double>(magnitude) < limit;
    }
    double as_double() const noexcept {
        const double size = static_cast<double>(magnitude);
        return is_real ? real : is_negative ? -size : size;
    }
};

/* Writes a number as an element of a field; its type, or 0 where the field cannot hold it. Floats
 * narrower than 64 bits are given as these, for push rounds. */
inline std::uint32_t write_number(number given, std::uint32_t dtype, unsigned char *to) noexcept {
    constexpr double f32_limit = 0x1.ffffffp127, bf16_limit = 0x1.ffp127, f16_limit = 65520;
    const bool is_single = dtype == WAVETRAIN_F32 || dtype == WAVETRAIN_C64;
    switch (dtype) {
    case WAVETRAIN_F32:
    case WAVETRAIN_F64:
    case WAVETRAIN_BF16:
    case WAVETRAIN_F16:
    case WAVETRAIN_C64:
    case WAVETRAIN_C128: {
        const bool fits = is_single                  ? given.fits_float(24, f32_limit)
                          : dtype == WAVETRAIN_BF16 ? given.fits_float(8, bf16_limit)
                          : dtype == WAVETRAIN_F16  ? given.fits_float(11, f16_limit)
                                                    : given.fits_float(53, 0x1p65) || given.is_real;
        if (!fits)
            return 0;
        const double parts[2] = { given.as_double(), 0 };
        if (dtype != WAVETRAIN_C64) {
            std::memcpy(to, parts, sizeof parts);
            return dtype == WAVETRAIN_C128 ? WAVETRAIN_C128 : WAVETRAIN_F64;
        }
        const float singles[2] = { static_cast<float>(parts[0]), 0 };
        std::memcpy(to, singles, sizeof singles);
        return WAVETRAIN_C64;
    }
    case WAVETRAIN_RAW: return 0;
    default: break;
    }
    const std::uint64_t bytes = element_bytes(dtype, 0);
    if (bytes == 0 || !given.make_whole())
        return 0;
    const bool is_signed = dtype == WAVETRAIN_I8 || dtype == WAVETRAIN_I16 ||
                           dtype == WAVETRAIN_I32 || dtype == WAVETRAIN_I64;
    const std::uint64_t bits = dtype == WAVETRAIN_BOOL ? 1 : 8 * bytes - (is_signed ? 1 : 0);
    const std::uint64_t top = UINT64_MAX >> (64 - bits);
    const bool is_below = given.is_negative && given.magnitude != 0;
    if (is_below ? !is_signed || given.magnitude - 1 > top : given.magnitude > top)
        return 0;
    const std::uint64_t word = is_below ? ~given.magnitude + 1 : given.magnitude;
    std::memcpy(to, &word, bytes); /* little-endian, as every machine of the library */
    return dtype;
}

/* A batch on its way:
 *
 *   empty    its memory is free.
 *   filling  a thread in feed() writes it.
 *   asked    calls are to be made for it, or it was fed: it waits in the queue.
 *   dropped  nobody wants it any more, and calls of it are still under way.
 *   taken    the loader gets it. With repeat_last it stays so until another one was taken.
 */
struct slot {
    enum class state : std::uint8_t { empty, filling, asked, dropped, taken };

    /* These change under the lock, but where filling, by the one thread in feed(). */
    slot::state now = state::empty;
    std::uint32_t calls = 0;   /* to be made */
    std::uint32_t begun = 0;   /* of them; the first ones */
    std::uint32_t settled = 0; /* of these: over, or not needed any more */
    std::uint32_t running = 0; /* that a thread is in */
    std::uint32_t end = nowhere;    /* the first sample that there is none of */
    std::uint32_t failed = nowhere; /* the first sample that is wrong; of a batch as such 0 */
    error why;

    /* The batches that were asked for. */
    std::uint64_t epoch = 0, iteration = 0;
    /* The results, written by the calls. */
    std::uint32_t count = 0; /* samples of a batch */
    bool is_counted = false; /* by a column: all have that length */
    given_sample *rows = nullptr;
    /* On the way to the loader, of the thread in next alone. */
    wavetrain_sample *samples = nullptr;
    std::uint32_t taken = 0; /* samples that are to be pushed */
    std::size_t pushed = 0;
    bool is_flushed = false;
    bool is_kept = false; /* for repeat_last */
    source_place behind = {};
};

/* The kinds of callbacks that a source is made from. */
struct caller {
    void *object;
    wavetrain::status (*give)(void *object, const sample_info &, given_sample &, given_batch &);
    void (*rewind)(void *object); /* or NULL */
    bool is_fed, is_batch, is_ordered;
};

/* How much a source takes of its room, all of it multiplied by the one before. */
struct extents {
    std::uint64_t batches, rows, boxes, copy_bytes;
};

} // namespace source_parts

/* ---- What is given ------------------------------------------------------------------------ */

/* A sample that a callback fills in. A fault in it is noted, and next returns it in the place of
 * its batch. An array that is smaller than its field lies at the first place of all;
 * field_view::filled_shape is how far it reaches. */
class given_sample {
public:
    given_sample(const given_sample &) = delete;
    given_sample &operator=(const given_sample &) = delete;

    /* array("image", pixels, { height, width }). The type is that of the elements, or, with a
     * code, any. */
    template <class T, std::size_t N, class... Code>
    given_sample &array(field_key to, const T *first, const std::uint64_t (&shape)[N],
                        Code... dtype) noexcept {
        return array(to, tensor(first, shape, dtype...), N);
    }
    /* The same with strides, and of ranks known at run time. The struct is copied. */
    given_sample &array(field_key to, const wavetrain_tensor &from, std::size_t rank) noexcept;
    /* A number, which becomes one of the field's type: a whole one must fit as it is. */
    template <class T> given_sample &value(field_key to, T given) noexcept {
        return put_number(to, source_parts::number::of(given));
    }
    /* Any box that push takes: of a store, of memory, with a place, steps and axes. The tensor of
     * one of memory is copied. */
    given_sample &add(const wavetrain_box &box) noexcept;
    /* The reason of a call that fails: return out.fail(WAVETRAIN_IO, "frame 7 is cut short"). */
    status fail(status what, const char *text) noexcept;

private:
    friend class source_core;
    friend class given_batch;

    given_sample() noexcept = default;
    void clear() noexcept {
        count_ = 0;
        copied_ = 0;
    }
    std::uint32_t find(field_key which) noexcept;
    bool is_expected(std::uint32_t field, std::uint32_t dtype, std::uint32_t rank) noexcept;
    void put(wavetrain_box box, const wavetrain_tensor &from) noexcept;
    void put_box(const wavetrain_box &box) noexcept;
    bool copy(wavetrain_box &box, wavetrain_tensor &from) noexcept;
    bool copy_lists(wavetrain_box &box) noexcept;
    unsigned char *take_copy(std::uint64_t bytes, std::uint32_t field) noexcept;
    given_sample &put_number(field_key to, source_parts::number given) noexcept;

    source_core *core_ = nullptr;
    source_parts::slot *slot_ = nullptr;
    wavetrain_box *boxes_ = nullptr;
    wavetrain_tensor *tensors_ = nullptr; /* one for each box */
    unsigned char *values_ = nullptr;     /* value_bytes for each box */
    unsigned char *copies_ = nullptr;
    std::uint64_t copied_ = 0; /* bytes of these in use */
    std::uint32_t count_ = 0;  /* boxes */
    std::uint32_t number_ = 0; /* its place in the batch */
};

/* A batch that a callback fills in, by columns or by samples, of which it has 1 to capacity(). */
class given_batch {
public:
    /* column("label", labels, { 4 }): an array with an axis of samples before the others. All
     * columns have as many. */
    template <class T, std::size_t N, class... Code>
    given_batch &column(field_key to, const T *first, const std::uint64_t (&shape)[N],
                        Code... dtype) noexcept {
        return column(to, tensor(first, shape, dtype...), N);
    }
    given_batch &column(field_key to, const wavetrain_tensor &from, std::size_t rank) noexcept;
    /* One of its samples: there are as many as the last one that was named, and its field may be of
     * a shape of its own. */
    given_sample &sample(std::uint32_t index) noexcept;
    std::uint32_t capacity() const noexcept;
    /* As given_sample's. */
    status fail(status what, const char *text) noexcept;

private:
    friend class source_core;
    template <class Give> friend class source;
    given_batch(source_core &core, source_parts::slot &at) noexcept : core_(core), slot_(at) {}

    source_core &core_;
    source_parts::slot &slot_;
};

/* ---- What sources of all callbacks share -------------------------------------------------- */

class source_core : public batch_range<source_core> {
    using slot = source_parts::slot;
    using guard = source_parts::guard;

public:
    source_core(const source_core &) = delete;
    source_core &operator=(const source_core &) = delete;

    /* The bytes that open takes of its room; UINT64_MAX where no machine has as many. */
    std::uint64_t need(const config &of, const source_settings &settings) const noexcept {
        return bytes_of(extents_of(of, settings));
    }

    /* Opens a loader of this config, and the source over it. room: need() bytes of any alignment,
     * which the source uses until close: std::move a container in, or name { block, bytes }, which
     * are borrowed. A loader that was open before is closed. A config without fields and
     * max_boxes_per_sample gets one box.
     * OK; INVALID: a setting is wrong, the text names it; BUDGET: the room is too small; else as
     * loader::open. */
    wavetrain::status open(const config &of, const source_settings &settings, source_room room,
                           wavetrain::error *why = nullptr) noexcept;

    /* The next batch; what `out` held is given back first. Waits up to timeout_ns for calls, for
     * what is fed, and for the loader, unless you say how long as long as config.pop_timeout_ns.
     * OK. END: see cycle. AGAIN: it is not there, and nobody should wait: blocking is false, or
     * timeout_ns is 0. STARVED: the timeout ran out; a later call continues. SHUTDOWN: it is not
     * open. Else what is wrong, until reset. */
    wavetrain::status next(batch &out, std::uint64_t timeout_ns = WAVETRAIN_POP_TIMEOUT,
                           wavetrain::error *why = nullptr) noexcept;
    wavetrain::status try_next(batch &out, wavetrain::error *why = nullptr) noexcept {
        return next(out, 0, why);
    }

    /* Makes one call that is asked for, on the calling thread; any number of threads may. Waits up
     * to timeout_ns for one. OK: it did. AGAIN, STARVED: there was nothing to do. SHUTDOWN: close
     * was called, or it is not open. INVALID: parallel is 0. */
    wavetrain::status work(std::uint64_t timeout_ns = 0) noexcept;

    /* Begins the next epoch. Batches that were fed and not taken are dropped. Calls under way are
     * not waited for: what they give is dropped. */
    wavetrain::status reset() noexcept {
        return restart({ place_.epoch + 1, 0, 0 });
    }

    /* The place after the last batch that was taken. */
    source_place place() const noexcept { return place_; }
    /* Continues from there: asks for the samples that follow, or drops those that a callback with
     * rewind() gives before. INVALID: a source that is fed, or an iterator without rewind(), has no
     * place to return to; or no place has such numbers. */
    wavetrain::status go_to(const source_place &place, wavetrain::error *why = nullptr) noexcept;

    /* Ends the threads' waits in work, waits for calls under way, for jobs that were handed in, and
     * ends the loader; then gives back a room that was moved in. Not to be called by a callback or
     * a job. */
    void close() noexcept;

    /* That makes the batches: its stats. */
    wavetrain::loader &loader() noexcept { return loader_; }

    /* The last result of next, and the reason; END is OK. To be called after a loop over the
     * batches. */
    wavetrain::status status() const noexcept {
        return last_ == WAVETRAIN_END ? wavetrain::status() : last_;
    }
    [[nodiscard]] const wavetrain::error &error() const noexcept { return error_; }

protected:
    explicit source_core(source_parts::caller caller) noexcept : caller_(caller) {
        pthread_condattr_t monotonic;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&has_work_, &monotonic);
        pthread_cond_init(&has_more_, &monotonic);
        pthread_condattr_destroy(&monotonic);
    }
    ~source_core() {
        pthread_cond_destroy(&has_work_);
        pthread_cond_destroy(&has_more_);
        pthread_mutex_destroy(&lock_);
    }

private:
    friend class given_sample;
    friend class given_batch;
    template <class Give> friend class source;

    using words = source_parts::writer;
    static constexpr const char *fed_behind_end = "nothing is fed behind feed_end, until reset";

    /* ---- Opening */
    /* The table of fields; empty if there is none, or if open refuses it. */
    static span<const wavetrain_field> table_of(const config &of) noexcept {
        if (of.fields == nullptr || of.n_fields > WAVETRAIN_FIELDS_MAX ||
            of.field_bytes != sizeof(wavetrain_field))
            return {};
        return { of.fields, of.n_fields };
    }
    source_parts::extents extents_of(const config &of,
                                     const source_settings &settings) const noexcept {
        using source_parts::aligned;
        using source_parts::product;
        const span<const wavetrain_field> table = table_of(of);
        source_parts::extents made = {};
        made.batches = source_parts::ahead + 1;
        if (caller_.is_fed)
            made.batches += settings.prefetch + std::uint64_t(settings.repeat_last) - 1;
        else if (settings.parallel != 0)
            made.batches += settings.prefetch;
        made.rows = of.samples_per_batch;
        made.boxes = of.max_boxes_per_sample != 0 ? of.max_boxes_per_sample
                     : table.empty()              ? 1
                                                  : table.size();
        if (!settings.copy)
            return made;
        made.copy_bytes = aligned(settings.copy_bytes);
        for (std::size_t field = 0; settings.copy_bytes == 0 && field <= table.size(); field++) {
            if (field == table.size() && field != 0)
                break;
            const bool is_table = !table.empty();
            const std::uint32_t rank = is_table ? table[field].sample_rank : of.sample_rank;
            const std::uint64_t *const shape =
                is_table ? table[field].sample_shape : of.sample_shape;
            const std::uint32_t wanted = settings.expected[field].dtype;
            const std::uint32_t own = is_table ? table[field].dtype : of.dtype;
            std::uint64_t bytes = source_parts::element_bytes(
                wanted != 0 ? wanted : own, is_table ? table[field].dtype_bytes : of.dtype_bytes);
            for (std::uint32_t axis = 0; axis < rank && axis < WAVETRAIN_RANK_MAX; axis++)
                bytes = product(bytes, shape[axis]);
            made.copy_bytes = source_parts::sum(made.copy_bytes, aligned(bytes));
        }
        if (settings.copy_bytes == 0 && of.max_indices_per_sample != 0) {
            const std::uint64_t list = sizeof(wavetrain_index_list) + 2 * sizeof(std::int64_t);
            const std::uint64_t most = std::uint64_t(of.max_indices_per_sample) + made.boxes;
            made.copy_bytes = source_parts::sum(made.copy_bytes, aligned(product(most, list)));
        }
        return made;
    }
    static std::uint64_t bytes_of(const source_parts::extents &of) noexcept {
        using source_parts::aligned;
        using source_parts::product;
        using source_parts::sum;
        const std::uint64_t box = aligned(sizeof(wavetrain_box)) +
                                  aligned(sizeof(wavetrain_tensor)) + source_parts::value_bytes;
        const std::uint64_t row =
            sum(aligned(sizeof(wavetrain_sample)) + aligned(sizeof(given_sample)),
                sum(product(of.boxes, box), of.copy_bytes));
        const std::uint64_t batch = sum(aligned(sizeof(slot)) + 16, product(of.rows, row));
        return sum(product(of.batches, batch), 15);
    }
    /* The reason why open refuses settings_; NULL if nothing is wrong. */
    const char *wrong_setting(std::size_t fields) const noexcept {
        const bool begins_once =
            caller_.is_fed || (caller_.is_ordered && caller_.rewind == nullptr);
        if (settings_.cycle > cycle::raise)
            return "cycle must be no, quiet or raise";
        if (settings_.cycle != cycle::no && begins_once)
            return "cycle must be no: a source that is fed, or that gives what comes next and has "
                   "no rewind(), cannot begin again";
        if (settings_.repeat_last && !caller_.is_fed)
            return "repeat_last is for what is fed: the source must be one of fed";
        if (settings_.workers_run != nullptr && caller_.is_fed)
            return "use_workers is for callbacks: what is fed is not asked for";
        if (settings_.workers_run != nullptr && settings_.parallel == 0)
            return "parallel must be 1 or more: the jobs of use_workers at a time";
        if (settings_.prefetch == 0)
            return "prefetch must be 1 or more";
        for (std::size_t number = 0; number < WAVETRAIN_FIELDS_MAX; number++) {
            const source_settings::expectation &field = settings_.expected[number];
            const bool is_told = field.dtype != 0 || field.axes >= 0 || field.has_layout;
            if (settings_.is_beyond || (number >= fields && is_told))
                return "expect and layout: the config has no such field";
            if (field.dtype > WAVETRAIN_RAW || field.axes > WAVETRAIN_RANK_MAX)
                return "expect: there is no such dtype, or an array cannot have as many axes";
            if (!field.has_layout)
                continue;
            const char *const letters = field.layout;
            const std::size_t count = std::strlen(letters);
            if (count > WAVETRAIN_RANK_MAX ||
                (field.axes >= 0 && count != static_cast<std::size_t>(field.axes)))
                return "layout must have as many letters as arrays have axes";
            for (std::size_t at = 1; at < count; at++)
                if (std::memchr(letters, letters[at], at) != nullptr)
                    return "layout must have different letters";
        }
        return nullptr;
    }
    void note_fields(const config &of) noexcept {
        const span<const wavetrain_field> table = table_of(of);
        has_names_ = !table.empty();
        fields_ = has_names_ ? static_cast<std::uint32_t>(table.size()) : 1;
        dtypes_[0] = of.dtype;
        for (std::uint32_t field = 0; field < table.size(); field++) {
            dtypes_[field] = table[field].dtype;
            std::memcpy(names_[field], table[field].name, sizeof names_[field]);
        }
    }
    /* Cuts the room into what is in it. */
    void carve(unsigned char *room, const source_parts::extents &of) noexcept {
        using source_parts::aligned;
        std::uintptr_t at = aligned(reinterpret_cast<std::uintptr_t>(room));
        const auto cut = [&at](std::uint64_t bytes) noexcept {
            void *const first = reinterpret_cast<void *>(at);
            at += aligned(bytes);
            return first;
        };
        slot_count_ = static_cast<std::uint32_t>(of.batches);
        slots_ = static_cast<slot *>(cut(of.batches * sizeof(slot)));
        queue_ = static_cast<slot **>(cut(of.batches * sizeof(slot *)));
        for (std::uint32_t number = 0; number < of.batches; number++) {
            slot &made = *::new (static_cast<void *>(slots_ + number)) slot();
            made.samples = static_cast<wavetrain_sample *>(cut(of.rows * sizeof(wavetrain_sample)));
            made.rows = static_cast<given_sample *>(cut(of.rows * sizeof(given_sample)));
            for (std::uint32_t row = 0; row < of.rows; row++) {
                given_sample &sample = *::new (static_cast<void *>(made.rows + row)) given_sample();
                sample.core_ = this;
                sample.slot_ = &made;
                sample.number_ = row;
                sample.boxes_ = static_cast<wavetrain_box *>(cut(of.boxes * sizeof(wavetrain_box)));
                sample.tensors_ =
                    static_cast<wavetrain_tensor *>(cut(of.boxes * sizeof(wavetrain_tensor)));
                sample.values_ =
                    static_cast<unsigned char *>(cut(of.boxes * source_parts::value_bytes));
                sample.copies_ = static_cast<unsigned char *>(cut(of.copy_bytes));
            }
        }
    }

    /* ---- Errors */
    /* A fault of a row, or, `nowhere`, of a batch as such: takes the text with the reason, and is
     * noted after it. The first sample's counts, and of that the first. */
    class refusal {
    public:
        refusal(source_core &core, slot &at, std::uint32_t row, wavetrain_status what) noexcept
            : core_(core), at_(at), row_(row == source_parts::nowhere ? 0 : row) {
            const bool is_sample = row != source_parts::nowhere;
            made_.status = what;
            made_.sample = row_;
            if (is_sample)
                *this << "sample " << row << " of ";
            if (core.caller_.is_fed) {
                *this << "what is fed: ";
                return;
            }
            made_.batch_id = at.iteration;
            if (is_sample && !core.caller_.is_batch)
                made_.tag = at.iteration * core.size_ + row;
            *this << "batch " << at.iteration << " of epoch " << at.epoch << ": ";
        }
        refusal(const refusal &) = delete;
        refusal &operator=(const refusal &) = delete;
        ~refusal() {
            const guard locked(core_.lock_);
            if (row_ >= at_.failed)
                return;
            at_.failed = row_;
            at_.why = made_;
        }
        template <class T> refusal &operator<<(T word) noexcept {
            words(made_) << word;
            return *this;
        }
        refusal &field(std::uint32_t number) noexcept {
            if (!core_.has_names_)
                return *this << "field " << number;
            return *this << "field '" << core_.names_[number] << "'";
        }

    private:
        source_core &core_;
        slot &at_;
        std::uint32_t row_;
        wavetrain::error made_;
    };
    wavetrain::status fail(slot &at, std::uint32_t row, wavetrain::status what,
                           const char *text) noexcept {
        const wavetrain::status failed =
            what.failed() ? what : wavetrain::status(WAVETRAIN_INVALID);
        refusal(*this, at, row, failed.value()) << text;
        return failed;
    }
    wavetrain::status ended(wavetrain::status with, wavetrain::error *why,
                            const wavetrain::error &made) noexcept {
        error_ = made;
        if (why != nullptr)
            *why = made;
        return last_ = with;
    }
    wavetrain::status ended(wavetrain::status with, const char *text,
                            wavetrain::error *why) noexcept {
        return ended(with, why, error_of(with, text));
    }

    /* ---- Calls, under the lock where nothing else is said */
    struct call {
        slot *at;
        std::uint32_t row;
        std::uint64_t skipped; /* that a callback without an info gives before it */
        bool rewinds;
    };
    /* Asks for as many batches as are asked for in advance. */
    void ask() noexcept {
        const std::uint64_t prefetch = settings_.parallel != 0 ? settings_.prefetch : 0;
        while (queued_ <= prefetch && !has_ordered_end_) {
            slot *const at = unused();
            if (at == nullptr)
                break;
            at->now = slot::state::asked;
            at->epoch = next_.epoch;
            at->iteration = next_.iteration + queued_;
            at->calls = caller_.is_batch ? 1 : size_;
            to_begin_ += at->calls;
            queue_[queued_++] = at;
            pthread_cond_broadcast(&has_work_);
        }
    }
    /* The first call that nobody has begun. */
    bool take_call(call &out) noexcept {
        if (to_begin_ == 0 || is_busy_)
            return false;
        std::uint32_t place = 0;
        while (queue_[place]->begun == queue_[place]->calls)
            place++;
        slot &at = *queue_[place];
        out = { &at, at.begun++, skip_, must_rewind_ };
        at.running++;
        to_begin_--;
        is_busy_ = caller_.is_ordered;
        must_rewind_ = false;
        skip_ = 0;
        return true;
    }
    /* Makes a call: takes the lock off meanwhile. */
    void make_call(const call &made) noexcept {
        pthread_mutex_unlock(&lock_);
        const wavetrain::status with = give(made);
        pthread_mutex_lock(&lock_);
        settle(made, with);
        hand_out();
    }
    /* Calls the callback. Samples before the place to go on from are not looked at. */
    wavetrain::status give(const call &made) noexcept {
        slot &at = *made.at;
        given_batch batch(*this, at);
        const sample_info info = { at.iteration * size_ + made.row, made.row, at.iteration,
                                   at.epoch };
        const std::uint32_t first = caller_.is_batch ? 0 : made.row;
        const std::uint32_t limit = caller_.is_batch ? size_ : made.row + 1;
        if (made.rewinds)
            caller_.rewind(caller_.object);
        wavetrain::status with;
        for (std::uint64_t number = 0; number <= made.skipped && with.ok(); number++) {
            for (std::uint32_t row = first; row < limit; row++)
                at.rows[row].clear();
            if (caller_.is_batch) { /* a call for a sample is not alone */
                at.count = 0;
                at.is_counted = false;
            }
            if (made.skipped != 0) {
                const guard locked(lock_);
                at.failed = source_parts::nowhere;
            }
            with = caller_.give(caller_.object, info, at.rows[made.row], batch);
        }
        if (with != WAVETRAIN_END)
            look_over(at, made.row, with);
        return with;
    }
    /* Notes what is wrong with a batch or a sample as a whole. */
    void look_over(slot &at, std::uint32_t row, wavetrain::status with) noexcept {
        if (!with) {
            refusal text(*this, at, caller_.is_batch ? source_parts::nowhere : row,
                         with.failed() ? with.value() : WAVETRAIN_INVALID);
            text << "the source returned " << with.name();
            if (!with.failed())
                text << (caller_.is_fed ? ": OK or an error is wanted"
                                        : ": OK, END or an error is wanted");
            return;
        }
        if (caller_.is_batch && at.count == 0)
            refusal(*this, at, source_parts::nowhere, WAVETRAIN_INVALID)
                << "a batch must have 1 to " << size_ << " samples (got 0)";
        const std::uint32_t limit = caller_.is_batch ? at.count : row + 1;
        for (; row < limit; row++) {
            if (at.rows[row].count_ != 0)
                continue;
            refusal(*this, at, row, WAVETRAIN_INVALID) << "nothing is given for it";
            return;
        }
    }
    void settle(const call &made, wavetrain::status with) noexcept {
        slot &at = *made.at;
        at.running--;
        if (caller_.is_ordered) {
            is_busy_ = false;
            pthread_cond_broadcast(&has_work_);
            pthread_cond_broadcast(&has_more_);
        }
        if (at.now == slot::state::dropped) {
            if (at.running == 0)
                release(at);
            return;
        }
        at.settled++;
        if (with == WAVETRAIN_END && made.row < at.end)
            at.end = made.row;
        if (with == WAVETRAIN_END || at.failed <= made.row) {
            skip_rest(at);
            has_ordered_end_ = caller_.is_ordered;
            for (std::uint32_t place = 0; has_ordered_end_ && place < queued_; place++)
                skip_rest(*queue_[place]);
        }
        if (at.settled == at.calls)
            pthread_cond_broadcast(&has_more_);
    }
    /* The batches that were asked for or fed are no longer wanted. */
    void drop_asked() noexcept {
        for (std::uint32_t place = 0; place < queued_; place++) {
            slot &at = *queue_[place];
            skip_rest(at);
            at.now = slot::state::dropped;
            if (at.running == 0)
                release(at);
        }
        queued_ = 0;
    }
    /* Calls of this slot that nobody has begun are not made any more. */
    void skip_rest(slot &at) noexcept {
        const std::uint32_t rest = at.calls - at.begun;
        to_begin_ -= rest;
        at.settled += rest;
        at.begun = at.calls;
    }
    void release(slot &at) noexcept {
        at.now = slot::state::empty;
        pthread_cond_broadcast(&has_more_); /* threads in feed may wait for it */
    }
    /* Hands in jobs for calls that nobody has begun: takes the lock off meanwhile. One thread at a
     * time does, and looks again afterwards, so that a host that runs a job at once makes no
     * recursion. */
    void hand_out() noexcept {
        if (settings_.workers_run == nullptr || is_handing_)
            return;
        is_handing_ = true;
        const std::uint32_t most = caller_.is_ordered ? 1 : settings_.parallel;
        while (is_open_ && !is_busy_ && waiting_ < to_begin_ && jobs_ < most) {
            jobs_++;
            waiting_++;
            pthread_mutex_unlock(&lock_);
            settings_.workers_run(settings_.workers_user, &source_core::run_job, this);
            pthread_mutex_lock(&lock_);
        }
        is_handing_ = false;
        if (!is_open_)
            pthread_cond_broadcast(&has_more_);
    }
    /* The jobs that hand_out hands in. After its last look at the source close may return. */
    static void run_job(void *self) noexcept {
        source_core &core = *static_cast<source_core *>(self);
        const guard locked(core.lock_);
        core.waiting_--;
        call made;
        if (core.take_call(made))
            core.make_call(made);
        core.jobs_--;
        core.hand_out();
        if (!core.is_open_)
            pthread_cond_broadcast(&core.has_more_);
    }
    /* A slot that is free, as if new; NULL if there is none. */
    slot *unused() noexcept {
        for (std::uint32_t number = 0; number < slot_count_; number++) {
            slot &at = slots_[number];
            if (at.now != slot::state::empty)
                continue;
            at.calls = at.begun = at.settled = at.running = 0;
            at.end = at.failed = source_parts::nowhere;
            at.count = at.taken = 0;
            at.is_counted = at.is_flushed = at.is_kept = false;
            at.pushed = 0;
            return &at;
        }
        return nullptr;
    }

    /* ---- The thread in next */
    void begin_epoch(const source_place &at) noexcept {
        const guard locked(lock_);
        drop_asked();
        has_ordered_end_ = false;
        must_rewind_ = caller_.rewind != nullptr;
        skip_ = caller_.rewind == nullptr ? 0 : caller_.is_batch ? at.iteration : at.samples;
        next_ = at;
        is_over_ = false;
        failure_ = wavetrain::error();
    }
    wavetrain::status restart(const source_place &at) noexcept {
        if (!is_open_)
            return WAVETRAIN_SHUTDOWN;
        {
            const guard locked(lock_);
            drop_asked();
            has_fed_end_ = false;
        }
        wavetrain::status done = loader_.reset();
        while (done == WAVETRAIN_AGAIN) /* what runs may read what is retired below */
            done = loader_.reset();
        keep(nullptr);
        while (taken_count_ > 0)
            retire(*taken_[--taken_count_]);
        last_ = WAVETRAIN_OK;
        error_ = wavetrain::error();
        place_ = at;
        begin_epoch(at);
        return done;
    }
    /* Takes the next one; whether there was one. */
    bool make() noexcept {
        slot *at = nullptr;
        bool is_end = false;
        if (is_over_ || failure_.status != WAVETRAIN_OK || !find_next(at, is_end))
            return false;
        std::uint32_t count = 0;
        if (at != nullptr && at->failed < at->end) {
            failure_ = at->why;
            retire(*at);
            return false;
        }
        if (at != nullptr) {
            is_end = at->end != source_parts::nowhere;
            count = caller_.is_batch ? at->count : size_;
            count = is_end && at->end < count ? at->end : count;
        }
        take(at, count, is_end);
        return true;
    }
    /* Finds the next batch, or NULL, and whether that is the end; false if it is not there. */
    bool find_next(slot *&out, bool &is_end) noexcept {
        const guard locked(lock_);
        if (!caller_.is_fed) {
            ask();
            hand_out();
            call made;
            while (settings_.parallel == 0 && take_call(made))
                make_call(made);
        }
        if (!has_next()) {
            out = kept_;
            return kept_ != nullptr && taken_count_ == 0;
        }
        is_end = queued_ == 0;
        if (is_end)
            return true;
        out = queue_[0];
        out->now = slot::state::taken;
        queued_--;
        std::memmove(queue_, queue_ + 1, queued_ * sizeof *queue_);
        return true;
    }
    /* Whether the next one is known. Under the lock. */
    bool has_next() const noexcept {
        if (caller_.is_fed)
            return queued_ > 0 || has_fed_end_;
        return queued_ > 0 && queue_[0]->settled == queue_[0]->calls;
    }
    /* Until there is more to take, or the time is over: false. Makes calls meanwhile. */
    bool wait_for_more(const source_parts::deadline &until) noexcept {
        const guard locked(lock_);
        for (;;) {
            if (!caller_.is_fed) {
                ask();
                hand_out();
            }
            call made;
            if (has_next())
                return true;
            if (until.left_ns() == 0)
                return false;
            if (take_call(made))
                make_call(made);
            else
                until.wait(has_more_, lock_);
        }
    }
    /* Moves on by a batch of so many samples, which the loader gets. */
    void take(slot *at, std::uint32_t count, bool is_end) noexcept {
        const source_place from = next_;
        const bool is_short = count < size_;
        const bool is_given = count > 0 && !(is_short && drops_last_);
        next_.iteration += count > 0;
        next_.samples += is_given ? count : 0;
        is_over_ = is_end;
        if (is_given) {
            for (std::uint32_t row = 0; row < count; row++) {
                const given_sample &sample = at->rows[row];
                at->samples[row] = { sample.boxes_, sample.count_, sizeof(wavetrain_box),
                                     from.samples + row };
            }
            at->taken = count;
            at->pushed = 0;
            at->is_flushed = !is_short;
            at->behind = next_;
            taken_[taken_count_++] = at;
            if (settings_.repeat_last)
                keep(at);
            push_taken();
        } else if (at != nullptr) {
            retire(*at);
        }
        if (!is_end)
            return;
        if (settings_.cycle == cycle::quiet && next_.samples > 0 &&
            failure_.status == WAVETRAIN_OK) {
            begin_epoch({ from.epoch + 1, 0, 0 });
        } else {
            const guard locked(lock_);
            drop_asked();
        }
    }
    /* Keeps this batch, to be taken again, in the place of another. */
    void keep(slot *at) noexcept {
        if (at == kept_)
            return;
        slot *const before = kept_;
        kept_ = at;
        if (at != nullptr)
            at->is_kept = true;
        if (before == nullptr)
            return;
        before->is_kept = false;
        for (std::uint32_t number = 0; number < taken_count_; number++)
            if (taken_[number] == before)
                return;
        retire(*before);
    }
    /* Pushes what has room. The samples of the first batch have it always: all before them were
     * planned. */
    void push_taken() noexcept {
        for (std::uint32_t number = 0; number < taken_count_; number++) {
            slot &at = *taken_[number];
            if (at.pushed < at.taken) {
                std::size_t count = 0;
                const span<const wavetrain_sample> rest(at.samples + at.pushed,
                                                        at.taken - at.pushed);
                const wavetrain::status pushed = loader_.push(rest, 0, count);
                at.pushed += count;
                if (pushed.failed()) {
                    failure_ = last_error(loader_.handle());
                    failure_.status = pushed.value();
                    while (taken_count_ > number)
                        retire(*taken_[--taken_count_]);
                    return;
                }
                if (at.pushed < at.taken)
                    return;
            }
            if (!at.is_flushed)
                loader_.flush().ignore(); /* what fails here fails in pop too */
            at.is_flushed = true;
        }
    }
    /* Retires a batch that the loader is done with. */
    void retire(slot &at) noexcept {
        const guard locked(lock_);
        if (!at.is_kept)
            release(at);
    }
    wavetrain::status pop(batch &out, const source_parts::deadline &until,
                          wavetrain::error *why) noexcept {
        wavetrain::error made;
        const wavetrain::status popped = loader_.pop(out, until.left_ns(), &made);
        if (popped == WAVETRAIN_AGAIN && until.waits())
            return ended(made.status = WAVETRAIN_STARVED, why, made);
        if (!popped)
            return ended(popped, why, made);
        slot &at = *taken_[0];
        place_ = at.behind;
        taken_count_--;
        for (std::uint32_t number = 0; number < taken_count_; number++)
            taken_[number] = taken_[number + 1];
        retire(at);
        return last_ = popped;
    }

    /* ---- The threads in feed */
    wavetrain::status begin_feed(std::uint64_t timeout_ns, slot *&out,
                                 wavetrain::error *why) noexcept {
        const guard locked(lock_);
        const source_parts::deadline until(timeout_ns == WAVETRAIN_POP_TIMEOUT ? pop_timeout_ns_
                                                                               : timeout_ns);
        wavetrain::error made;
        users_++;
        while (made.status == WAVETRAIN_OK && out == nullptr) {
            if (!is_open_)
                made = error_of(WAVETRAIN_SHUTDOWN, "the source is not open");
            else if (has_fed_end_)
                made = error_of(WAVETRAIN_INVALID, fed_behind_end);
            else if ((out = unused()) != nullptr)
                out->now = slot::state::filling;
            else if (until.left_ns() == 0)
                made = error_of(WAVETRAIN_AGAIN, "there is no room: prefetch says for how many");
            else
                until.wait(has_more_, lock_);
        }
        for (std::uint32_t row = 0; out != nullptr && row < size_; row++)
            out->rows[row].clear();
        if (out != nullptr)
            return WAVETRAIN_OK;
        leave_feed();
        if (why != nullptr)
            *why = made;
        return made.status;
    }
    void leave_feed() noexcept {
        users_--;
        pthread_cond_broadcast(&has_more_);
    }
    /* Checks what was filled in and queues it. */
    wavetrain::status queue_feed(slot &at, wavetrain::status with, wavetrain::error *why) noexcept {
        look_over(at, 0, with);
        const guard locked(lock_);
        leave_feed();
        wavetrain::error made;
        if (at.failed != source_parts::nowhere) {
            made = at.why;
        } else if (!is_open_) {
            made = error_of(WAVETRAIN_SHUTDOWN, "the source was closed");
        } else if (has_fed_end_) {
            made = error_of(WAVETRAIN_INVALID, fed_behind_end);
        } else {
            at.now = slot::state::asked;
            queue_[queued_++] = &at;
            return WAVETRAIN_OK;
        }
        if (why != nullptr)
            *why = made;
        release(at);
        return made.status;
    }
    wavetrain::status feed_end() noexcept {
        const guard locked(lock_);
        if (!is_open_)
            return WAVETRAIN_SHUTDOWN;
        has_fed_end_ = true;
        pthread_cond_broadcast(&has_more_);
        return WAVETRAIN_OK;
    }

    /* Until close nobody writes these. */
    const source_parts::caller caller_;
    source_settings settings_;
    std::uint64_t pop_timeout_ns_ = 0;
    std::uint32_t size_ = 0; /* samples of a batch */
    bool drops_last_ = false;
    std::uint32_t boxes_ = 0; /* of a sample, at most */
    std::uint64_t copy_bytes_ = 0;
    std::uint32_t fields_ = 0;
    bool has_names_ = false;
    char names_[WAVETRAIN_FIELDS_MAX][WAVETRAIN_NAME_BYTES] = {};
    std::uint32_t dtypes_[WAVETRAIN_FIELDS_MAX] = {};
    source_room room_; /* of what follows */
    slot *slots_ = nullptr;
    std::uint32_t slot_count_ = 0;

    /* Only for the thread in next. */
    wavetrain::loader loader_;
    wavetrain::status last_;
    wavetrain::error error_, failure_; /* its status is 0 where there is none */
    source_place place_ = {};          /* of what came out */
    source_place next_ = {};           /* that is made next */
    slot *taken_[source_parts::ahead] = {};
    std::uint32_t taken_count_ = 0;
    slot *kept_ = nullptr; /* for repeat_last */
    bool is_over_ = false;

    pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t has_work_; /* for threads in work */
    pthread_cond_t has_more_; /* for those in next, feed and close */
    /* Under the lock. */
    slot **queue_ = nullptr; /* what was asked for, or fed, in order */
    std::uint32_t queued_ = 0;
    std::uint64_t to_begin_ = 0;   /* calls */
    std::uint32_t users_ = 0;      /* threads in work and feed */
    std::uint32_t jobs_ = 0;       /* handed in and not over */
    bool is_handing_ = false;      /* a thread is in workers_run */
    std::uint32_t waiting_ = 0;    /* jobs that did not begin */
    bool is_open_ = false;         /* changed by the thread in next alone */
    bool has_fed_end_ = false;
    bool is_busy_ = false;         /* a call of what is asked in order is under way */
    bool has_ordered_end_ = false; /* that callback has come to its end, or failed */
    bool must_rewind_ = false;
    std::uint64_t skip_ = 0; /* what it gives before the place to go on from */
};

/* ---- Given samples and batches ------------------------------------------------------------ */

inline std::uint32_t given_sample::find(field_key which) noexcept {
    if (which.name == nullptr && which.number < core_->fields_)
        return static_cast<std::uint32_t>(which.number);
    for (std::uint32_t field = 0; which.name != nullptr && field < core_->fields_; field++)
        if (core_->has_names_ && std::strcmp(core_->names_[field], which.name) == 0)
            return field;
    source_core::refusal text(*core_, *slot_, number_, WAVETRAIN_INVALID);
    if (which.name != nullptr)
        text << "the source gives a field '" << which.name << "'";
    else
        text << "the source gives field " << which.number;
    text << ", and the config has none";
    return source_parts::nowhere;
}

/* Whether the settings let an array of this type and rank go to the field. */
inline bool given_sample::is_expected(std::uint32_t field, std::uint32_t dtype,
                                      std::uint32_t rank) noexcept {
    const source_settings::expectation &wanted = core_->settings_.expected[field];
    const std::size_t letters = std::strlen(wanted.layout);
    const std::uint32_t axes = static_cast<std::uint32_t>(wanted.axes);
    const bool is_right_rank =
        wanted.has_layout ? rank == letters : wanted.axes < 0 || rank == axes;
    if (is_right_rank && (wanted.dtype == 0 || wanted.dtype == dtype))
        return true;
    source_core::refusal text(*core_, *slot_, number_,
                              is_right_rank ? WAVETRAIN_DTYPE : WAVETRAIN_RANK);
    text.field(field);
    if (is_right_rank)
        text << " must be an array of " << source_parts::dtype_name(wanted.dtype) << " (got "
             << source_parts::dtype_name(dtype) << ")";
    else if (wanted.has_layout)
        text << " must have " << letters << " axes, as layout " << wanted.layout << " (got " << rank
             << ")";
    else
        text << " must have " << axes << " axes (got " << rank << ")";
    return false;
}

inline void given_sample::put_box(const wavetrain_box &box) noexcept {
    if (count_ < core_->boxes_) {
        boxes_[count_++] = box;
        return;
    }
    source_core::refusal(*core_, *slot_, number_, WAVETRAIN_INVALID)
        << "the source gives more boxes than max_boxes_per_sample = " << core_->boxes_;
}

inline unsigned char *given_sample::take_copy(std::uint64_t bytes, std::uint32_t field) noexcept {
    if (bytes <= core_->copy_bytes_ - copied_) {
        unsigned char *const first = copies_ + copied_;
        copied_ += source_parts::aligned(bytes); /* as copy_bytes_ is */
        return first;
    }
    source_core::refusal(*core_, *slot_, number_, WAVETRAIN_BUDGET).field(field)
        << ": " << bytes << " bytes are to be copied, and of copy_bytes = " << core_->copy_bytes_
        << " there are " << core_->copy_bytes_ - copied_ << " left: raise it";
    return nullptr;
}

/* Copies what is small or is to be copied; false where it does not fit, which is noted. Data that
 * push refuses by itself is left to push. */
inline bool given_sample::copy(wavetrain_box &box, wavetrain_tensor &from) noexcept {
    const std::uint64_t bytes = source_parts::array_bytes(from, box.rank);
    if (from.device != -1 || from.data == nullptr || bytes == 0)
        return true;
    unsigned char *to = nullptr;
    if (bytes <= source_parts::value_bytes) {
        to = values_ + count_ * source_parts::value_bytes;
        box.kind = WAVETRAIN_BOX_VALUE;
    } else if (box.kind == WAVETRAIN_BOX_VALUE) {
        source_core::refusal(*core_, *slot_, number_, WAVETRAIN_INVALID).field(box.field)
            << ": a value has at most " << source_parts::value_bytes << " bytes (got " << bytes
            << ")";
        return false;
    } else if (!core_->settings_.copy) {
        return true;
    } else if ((to = take_copy(bytes, box.field)) == nullptr) {
        return false;
    }
    source_parts::gather(from, box.rank, to);
    from.data = to;
    std::memset(from.strides, 0, sizeof from.strides);
    return true;
}

/* Copies the index lists of a box; false where they do not fit, which is noted. Lists that push
 * refuses are left to push. */
inline bool given_sample::copy_lists(wavetrain_box &box) noexcept {
    if (box.lists == nullptr || box.n_lists > WAVETRAIN_RANK_MAX ||
        box.list_bytes != sizeof(wavetrain_index_list))
        return true;
    unsigned char *const to = take_copy(box.n_lists * sizeof(wavetrain_index_list), box.field);
    if (to == nullptr)
        return false;
    std::memcpy(to, box.lists, box.n_lists * sizeof(wavetrain_index_list));
    wavetrain_index_list *const made = reinterpret_cast<wavetrain_index_list *>(to);
    for (std::uint32_t number = 0; number < box.n_lists; number++) {
        if (made[number].indices == nullptr)
            continue;
        const std::uint64_t bytes =
            source_parts::product(made[number].n_indices, sizeof(std::int64_t));
        unsigned char *const indices = take_copy(bytes, box.field);
        if (indices == nullptr)
            return false;
        std::memcpy(indices, made[number].indices, bytes);
        made[number].indices = reinterpret_cast<const std::int64_t *>(indices);
    }
    box.lists = made;
    return true;
}

/* A box of memory. */
inline void given_sample::put(wavetrain_box box, const wavetrain_tensor &from) noexcept {
    if (count_ < core_->boxes_) {
        wavetrain_tensor &kept = tensors_[count_];
        kept = from;
        if (!copy(box, kept))
            return;
        box.tensor = &kept;
    }
    put_box(box);
}

inline given_sample &given_sample::array(field_key to, const wavetrain_tensor &from,
                                         std::size_t rank) noexcept {
    const std::uint32_t field = find(to);
    if (field == source_parts::nowhere)
        return *this;
    if (rank > WAVETRAIN_RANK_MAX) {
        source_core::refusal(*core_, *slot_, number_, WAVETRAIN_RANK).field(field)
            << " must have at most " << std::uint64_t(WAVETRAIN_RANK_MAX) << " axes (got "
            << std::uint64_t(rank) << ")";
    } else if (is_expected(field, from.dtype, static_cast<std::uint32_t>(rank))) {
        put(box(from, rank).into(field), from);
    }
    return *this;
}

inline given_sample &given_sample::add(const wavetrain_box &given) noexcept {
    wavetrain_box made = given;
    if (find(given.field) == source_parts::nowhere)
        return *this;
    if (given.rank > WAVETRAIN_RANK_MAX) {
        put_box(given); /* push refuses it before it looks at anything else */
    } else if (given.kind == WAVETRAIN_BOX_URI) {
        if (core_->settings_.copy && given.uri != nullptr &&
            given.uri_bytes <= WAVETRAIN_URI_BYTES_MAX) { /* push refuses the others */
            unsigned char *const uri = take_copy(given.uri_bytes, given.field);
            if (uri == nullptr)
                return *this;
            std::memcpy(uri, given.uri, given.uri_bytes);
            made.uri = reinterpret_cast<const char *>(uri);
            if (!copy_lists(made))
                return *this;
        }
        put_box(made);
    } else if (given.tensor == nullptr) {
        put_box(given); /* the same */
    } else if (is_expected(given.field, given.tensor->dtype, given.rank)) {
        put(given, *given.tensor);
    }
    return *this;
}

inline given_sample &given_sample::put_number(field_key to, source_parts::number given) noexcept {
    const std::uint32_t field = find(to);
    if (field == source_parts::nowhere)
        return *this;
    unsigned char element[16];
    const std::uint32_t dtype = source_parts::write_number(given, core_->dtypes_[field], element);
    if (dtype != 0) {
        const tensor one(element, span<const std::uint64_t>(), dtype);
        put(box(one, 0, WAVETRAIN_BOX_VALUE).into(field), one);
        return *this;
    }
    source_core::refusal text(*core_, *slot_, number_, WAVETRAIN_DTYPE);
    text.field(field) << ": a number must be one of "
                      << source_parts::dtype_name(core_->dtypes_[field]);
    if (!given.is_real)
        text << " (got " << (given.is_negative ? "-" : "") << given.magnitude << ")";
    else
        text << " (got one with a fraction, or too large)";
    return *this;
}

inline status given_sample::fail(status what, const char *text) noexcept {
    return core_->fail(*slot_, number_, what, text);
}

inline status given_batch::fail(status what, const char *text) noexcept {
    return core_.fail(slot_, source_parts::nowhere, what, text);
}

inline std::uint32_t given_batch::capacity() const noexcept {
    return core_.size_;
}

inline given_sample &given_batch::sample(std::uint32_t index) noexcept {
    if (index < (slot_.is_counted ? slot_.count : core_.size_)) {
        slot_.count = index < slot_.count ? slot_.count : index + 1;
        return slot_.rows[index];
    }
    source_core::refusal text(core_, slot_, source_parts::nowhere, WAVETRAIN_INVALID);
    if (slot_.is_counted)
        text << "a column has " << slot_.count << " samples, and the source gives number " << index;
    else
        text << "a batch must have 1 to " << core_.size_ << " samples (the source gives number "
             << index << ")";
    return slot_.rows[0]; /* of a batch in whose place next returns this error */
}

inline given_batch &given_batch::column(field_key to, const wavetrain_tensor &from,
                                        std::size_t rank) noexcept {
    const std::uint64_t count = rank > 0 ? from.shape[0] : 0;
    const std::uint64_t most = slot_.is_counted ? slot_.count : core_.size_;
    if (rank == 0 || rank > WAVETRAIN_RANK_MAX) {
        source_core::refusal(core_, slot_, source_parts::nowhere, WAVETRAIN_RANK)
            << "a column must have an axis of samples, and " << std::uint64_t(WAVETRAIN_RANK_MAX)
            << " axes at most (got " << std::uint64_t(rank) << ")";
        return *this;
    }
    if (count == 0 || count > most || count < slot_.count) {
        const std::uint64_t least = slot_.count > 1 ? slot_.count : 1;
        source_core::refusal(core_, slot_, source_parts::nowhere, WAVETRAIN_INVALID)
            << "a batch must have " << least << " to " << most << " samples, of each field (got "
            << count << ")";
        return *this;
    }
    slot_.count = static_cast<std::uint32_t>(count);
    slot_.is_counted = true;
    wavetrain_tensor row = from;
    const std::uint32_t axes = static_cast<std::uint32_t>(rank) - 1;
    for (std::uint32_t axis = 0; axis < axes; axis++) {
        row.shape[axis] = from.shape[axis + 1];
        row.strides[axis] = from.strides[axis + 1];
    }
    row.shape[axes] = 0;
    row.strides[axes] = 0;
    const bool is_dense = source_parts::is_row_major(from);
    const std::uint64_t row_bytes = source_parts::array_bytes(row, axes);
    for (std::uint32_t number = 0; number < count; number++) {
        slot_.rows[number].array(to, row, axes);
        if (from.data != nullptr)
            row.data = static_cast<const unsigned char *>(row.data) +
                       (is_dense ? static_cast<std::int64_t>(row_bytes) : from.strides[0]);
    }
    return *this;
}

/* ---- Opening and closing ------------------------------------------------------------------ */

inline status source_core::open(const config &of, const source_settings &settings, source_room room,
                                wavetrain::error *why) noexcept {
    close();
    settings_ = settings;
    const std::size_t named = table_of(of).size();
    if (const char *const wrong = wrong_setting(named != 0 ? named : 1))
        return ended(WAVETRAIN_INVALID, wrong, why);
    config changed = of;
    if (changed.n_fields == 0 && changed.max_boxes_per_sample == 0)
        changed.max_boxes_per_sample = 1;
    const source_parts::extents extents = extents_of(changed, settings);
    const std::uint64_t bytes = bytes_of(extents);
    wavetrain::error made;
    if (room.size() < bytes || room.data() == nullptr) {
        made.status = WAVETRAIN_BUDGET;
        words(made) << "room has " << std::uint64_t(room.size()) << " bytes, and a source of this "
                    << "config needs " << bytes;
        return ended(WAVETRAIN_BUDGET, why, made);
    }
    const wavetrain::status opened = wavetrain::loader::open(changed, loader_, &made);
    if (!opened)
        return ended(opened, why, made);
    note_fields(changed);
    room_ = std::move(room);
    carve(room_.data(), extents);
    size_ = changed.samples_per_batch;
    drops_last_ = changed.drop_last != 0;
    boxes_ = static_cast<std::uint32_t>(extents.boxes);
    copy_bytes_ = extents.copy_bytes;
    pop_timeout_ns_ = changed.pop_timeout_ns;
    last_ = WAVETRAIN_OK;
    error_ = wavetrain::error();
    place_ = {};
    {
        const guard locked(lock_);
        is_open_ = true;
        has_fed_end_ = false;
    }
    begin_epoch(place_);
    return WAVETRAIN_OK;
}

inline void source_core::close() noexcept {
    {
        const guard locked(lock_);
        if (!is_open_)
            return;
        is_open_ = false;
        drop_asked();
        pthread_cond_broadcast(&has_work_);
        pthread_cond_broadcast(&has_more_);
        while (users_ != 0 || jobs_ != 0 || is_handing_)
            pthread_cond_wait(&has_more_, &lock_);
    }
    current_ = batch();
    while (loader_.reset() == WAVETRAIN_AGAIN) { /* where batches are held the loader lives on, */
    }                                            /* and reads no memory */
    loader_ = wavetrain::loader();
    taken_count_ = 0;
    kept_ = nullptr;
    slots_ = nullptr;
    slot_count_ = 0;
    room_ = source_room();
}

/* ---- Calls -------------------------------------------------------------------------------- */

inline status source_core::work(std::uint64_t timeout_ns) noexcept {
    const guard locked(lock_);
    if (!is_open_)
        return WAVETRAIN_SHUTDOWN;
    if (caller_.is_fed || settings_.parallel == 0)
        return WAVETRAIN_INVALID;
    const source_parts::deadline until(timeout_ns);
    wavetrain::status result;
    call made;
    users_++;
    while (result && !take_call(made)) {
        if (until.left_ns() == 0)
            result = until.waits() ? WAVETRAIN_STARVED : WAVETRAIN_AGAIN;
        else
            until.wait(has_work_, lock_);
        if (!is_open_)
            result = WAVETRAIN_SHUTDOWN;
    }
    if (result)
        make_call(made);
    users_--;
    if (!is_open_)
        pthread_cond_broadcast(&has_more_);
    return result;
}

/* ---- The thread in next ------------------------------------------------------------------- */

inline status source_core::go_to(const source_place &place, wavetrain::error *why) noexcept {
    if (!is_open_)
        return ended(WAVETRAIN_SHUTDOWN, "the source is not open", why);
    if (caller_.is_fed || (caller_.is_ordered && caller_.rewind == nullptr))
        return ended(WAVETRAIN_INVALID,
                     "a source that is fed, or that gives what comes next and has no rewind(), has "
                     "no place to go to",
                     why);
    constexpr std::uint64_t most = INT64_MAX;
    if (place.epoch > most || place.iteration > most / size_ || place.samples > most)
        return ended(WAVETRAIN_INVALID, "no place of a source has such numbers", why);
    return restart(place);
}

inline status source_core::next(batch &out, std::uint64_t timeout_ns,
                                wavetrain::error *why) noexcept {
    out = batch();
    if (!is_open_)
        return ended(WAVETRAIN_SHUTDOWN, "the source is not open", why);
    const source_parts::deadline until(timeout_ns == WAVETRAIN_POP_TIMEOUT ? pop_timeout_ns_
                                                                          : timeout_ns);
    for (;;) {
        push_taken();
        while (taken_count_ < source_parts::ahead && make())
            if (taken_count_ == 0 && until.left_ns() == 0)
                break; /* what is dropped at the end of epochs need never end */
        if (taken_count_ > 0)
            return pop(out, until, why);
        if (failure_.status != WAVETRAIN_OK)
            return ended(failure_.status, why, failure_);
        if (is_over_) {
            if (settings_.cycle == cycle::raise)
                begin_epoch(place_ = { next_.epoch + 1, 0, 0 });
            return ended(WAVETRAIN_END, "the end of the epoch", why);
        }
        if (settings_.blocking && until.left_ns() != 0 && wait_for_more(until))
            continue;
        const bool was_waited_for = settings_.blocking && until.waits();
        return ended(was_waited_for ? WAVETRAIN_STARVED : WAVETRAIN_AGAIN,
                     caller_.is_fed ? "the next batch is not there yet: nothing was fed"
                                    : "the next batch is not there yet: calls are under way",
                     why);
    }
}

/* ---- Sources ------------------------------------------------------------------------------ */

/* Batches of what a callback gives, which is held by value; of source<fed>, of what is fed. It
 * cannot be moved: threads know it by its address. */
template <class Give> class source : public source_core {
    static constexpr bool by_sample =
        std::is_invocable_v<Give &, const sample_info &, given_sample &>;
    static constexpr bool by_batch = std::is_invocable_v<Give &, const batch_info &, given_batch &>;
    static constexpr bool next_sample = std::is_invocable_v<Give &, given_sample &>;
    static constexpr bool next_batch = std::is_invocable_v<Give &, given_batch &>;
    static_assert(by_sample + by_batch + next_sample + next_batch == 1,
                  "a callback takes (const sample_info &, given_sample &), (const batch_info &, "
                  "given_batch &), (given_sample &) or (given_batch &)");

public:
    explicit source(Give callback)
        : source_core({ &give_, &source::call, rewind_of<Give>(0), false, by_batch || next_batch,
                        next_sample || next_batch }),
          give_(std::move(callback)) {}
    ~source() { this->close(); }

private:
    static wavetrain::status result(bool more) noexcept {
        return more ? WAVETRAIN_OK : WAVETRAIN_END;
    }
    static wavetrain::status result(wavetrain::status given) noexcept { return given; }
    static wavetrain::status call(void *object, const sample_info &info, given_sample &row,
                                  given_batch &batch) noexcept {
        Give &callback = *static_cast<Give *>(object);
        static_cast<void>(info), static_cast<void>(row), static_cast<void>(batch);
        if constexpr (by_sample)
            return result(callback(info, row));
        else if constexpr (by_batch)
            return result(callback(batch_info{ info.iteration, info.epoch }, batch));
        else if constexpr (next_sample)
            return result(callback(row));
        else
            return result(callback(batch));
    }
    template <class T, class = decltype(std::declval<T &>().rewind())>
    static auto rewind_of(int) noexcept -> void (*)(void *) {
        return [](void *object) noexcept { static_cast<T *>(object)->rewind(); };
    }
    template <class T> static auto rewind_of(long) noexcept -> void (*)(void *) { return nullptr; }

    Give give_;
};

template <> class source<fed> : public source_core {
public:
    source() noexcept : source_core({ nullptr, nullptr, nullptr, true, true, true }) {}
    ~source() { close(); }

    /* Queues the batch that fill(given_batch &) fills in, on the calling thread; it returns a
     * status or nothing, and must not call the source. Batches are in the order in which fill
     * returns. A fault is returned here, and nothing is queued. Waits up to timeout_ns for room;
     * there is some for `prefetch` batches and those that the loader may have.
     * OK. AGAIN: there was none. INVALID: feed_end was called. SHUTDOWN: it is not open. */
    template <class Fill>
    wavetrain::status feed(Fill &&fill, std::uint64_t timeout_ns = WAVETRAIN_POP_TIMEOUT,
                           wavetrain::error *why = nullptr) noexcept {
        source_parts::slot *at = nullptr;
        const wavetrain::status begun = begin_feed(timeout_ns, at, why);
        if (!begun)
            return begun;
        given_batch batch(*this, *at);
        wavetrain::status filled;
        if constexpr (std::is_void_v<decltype(fill(batch))>)
            fill(batch);
        else
            filled = fill(batch);
        return queue_feed(*at, filled, why);
    }
    /* Declares that no more is fed: after the last batch follows END, until reset. */
    using source_core::feed_end;
};

source() -> source<fed>;

} // namespace wavetrain

#endif /* WAVETRAIN_SOURCE_HPP */
