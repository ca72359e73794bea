/* wavetrain_exceptions.hpp - wavetrain for programs that like exceptions, under the names of the
 * reference loader: Config, Sample, Pipeline, Batch, BatchInfo, Stats, Metric, Dtype.
 *
 * SPDX-License-Identifier: MIT
 *
 * A layer over wavetrain.hpp for trainers, not for engines: it allocates, holds std::string and
 * throws. One class per status, all of them wavetrain::Error, which is a std::runtime_error. This
 * file is over 500 lines because users include one header for the whole layer.
 *
 *     wavetrain::Config config(8, { 32, 64, 64 });
 *     wavetrain::Pipeline pipeline(config);
 *     pipeline.push(std::move(samples));               // any range, or a generator; taken lazily
 *     pipeline.flush();                                // the last batch may have less samples
 *     for (wavetrain::Batch& batch : pipeline.batches())
 *         train(batch.as<float>(), batch.tags());
 *
 * Where it differs from the reference: a failed pipeline goes on after reset(); flush() exists; a
 * batch that is not full is kept back until then. A Pipeline belongs to one thread at a time.
 */
#ifndef WAVETRAIN_EXCEPTIONS_HPP
#define WAVETRAIN_EXCEPTIONS_HPP

#ifndef __cpp_exceptions
#error "wavetrain_exceptions.hpp throws: with -fno-exceptions include wavetrain.hpp"
#endif

#include "wavetrain.hpp"

#include <deque>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace wavetrain {

/* ---- Exceptions --------------------------------------------------------------------------- */

/* what() is "pop: NOT_FOUND: /data/a.zarr/zarr.json: no such file ..". */
class Error : public std::runtime_error {
public:
    /* `stage` names the call that failed; it must live as long as the program. */
    Error(const char *stage, const wavetrain::error &why)
        : std::runtime_error(message(stage, why)), stage_(stage), status_(why.status),
          tag_(why.tag), batch_id_(why.batch_id), sample_(why.sample), chunk_rank_(why.chunk_rank) {
        for (std::uint32_t axis = 0; axis < chunk_rank_ && axis < WAVETRAIN_RANK_MAX; axis++)
            chunk_[axis] = why.chunk[axis];
    }
    wavetrain::status status() const noexcept { return status_; }
    const char *stage() const noexcept { return stage_; }
    /* As in wavetrain_error: what is to blame, 0 and empty where nothing is. */
    std::uint64_t tag() const noexcept { return tag_; }
    std::uint64_t batch_id() const noexcept { return batch_id_; }
    std::uint32_t sample() const noexcept { return sample_; }
    span<const std::uint64_t> chunk() const noexcept { return { chunk_, chunk_rank_ }; }

private:
    static std::string message(const char *stage, const wavetrain::error &why) {
        std::string text = std::string(stage) + ": " + wavetrain_status_str(why.status);
        return why.text[0] == 0 ? text : text + ": " + why.text;
    }

    const char *stage_;
    wavetrain::status status_;
    std::uint64_t tag_, batch_id_;
    std::uint32_t sample_, chunk_rank_;
    std::uint64_t chunk_[WAVETRAIN_RANK_MAX] = {};
};

class InvalidArgument : public Error { using Error::Error; };
class NotFound : public Error { using Error::Error; };
class DtypeMismatch : public Error { using Error::Error; };
class RankMismatch : public Error { using Error::Error; };
class StorageError : public Error { using Error::Error; };
class DecodeError : public Error { using Error::Error; };
class Unsupported : public Error { using Error::Error; };
class NativeCudaError : public Error { using Error::Error; };
class OutOfMemory : public Error { using Error::Error; };
class BudgetExceeded : public Error { using Error::Error; };
class ShutdownError : public Error { using Error::Error; };
class InternalError : public Error { using Error::Error; };
/* No batch in time; or none at all, because the pipeline was flushed and every batch popped (its
 * status is then END). */
class PoolStarved : public Error { using Error::Error; };

/* Throws the class of why.status, which is not OK. */
[[noreturn]] inline void throw_error(const char *stage, const wavetrain::error &why) {
    switch (why.status) {
    case WAVETRAIN_AGAIN:
    case WAVETRAIN_STARVED:
    case WAVETRAIN_END:
        throw PoolStarved(stage, why);
    case WAVETRAIN_INVALID:
        throw InvalidArgument(stage, why);
    case WAVETRAIN_NOT_FOUND:
        throw NotFound(stage, why);
    case WAVETRAIN_DTYPE:
        throw DtypeMismatch(stage, why);
    case WAVETRAIN_RANK:
        throw RankMismatch(stage, why);
    case WAVETRAIN_IO:
        throw StorageError(stage, why);
    case WAVETRAIN_DECODE:
        throw DecodeError(stage, why);
    case WAVETRAIN_UNSUPPORTED:
        throw Unsupported(stage, why);
    case WAVETRAIN_CUDA:
        throw NativeCudaError(stage, why);
    case WAVETRAIN_OUT_OF_MEMORY:
        throw OutOfMemory(stage, why);
    case WAVETRAIN_BUDGET:
        throw BudgetExceeded(stage, why);
    case WAVETRAIN_SHUTDOWN:
        throw ShutdownError(stage, why);
    default:
        throw InternalError(stage, why);
    }
}

/* An Error of our own. */
[[noreturn]] inline void refuse(const char *stage, status result, const char *text) {
    wavetrain::error why;
    append_text(why, text);
    why.status = result.value();
    throw_error(stage, why);
}

/* Throws unless `result` is OK. `why` is what the call told, if it did. */
inline void throw_unless_ok(const char *stage, status result, wavetrain::error why = {}) {
    if (result)
        return;
    why.status = result.value();
    throw_error(stage, why);
}

/* The same of a call on a loader that leaves its text in last_error. */
inline void throw_unless_ok(const char *stage, status result, wavetrain_loader on) {
    if (result)
        return;
    const wavetrain::error why = last_error(on);
    if (result != why.status)
        refuse(stage, result, "a call that failed on another thread took the place of the text");
    throw_error(stage, why);
}

/* ---- Value types -------------------------------------------------------------------------- */

enum class Dtype : std::uint32_t {
    F32 = WAVETRAIN_F32,
    BF16 = WAVETRAIN_BF16,
    F16 = WAVETRAIN_F16,
    I32 = WAVETRAIN_I32,
    I64 = WAVETRAIN_I64,
    U8 = WAVETRAIN_U8,
    I8 = WAVETRAIN_I8,
    U16 = WAVETRAIN_U16,
    I16 = WAVETRAIN_I16,
    U32 = WAVETRAIN_U32,
    U64 = WAVETRAIN_U64,
    F64 = WAVETRAIN_F64,
    BOOL = WAVETRAIN_BOOL,
    C64 = WAVETRAIN_C64,
    C128 = WAVETRAIN_C128,
    RAW = WAVETRAIN_RAW
};

/* "f32", "float32", "bf16", "bfloat16", "f16", "float16", in any case. Throws InvalidArgument. */
inline Dtype dtype_from_name(const std::string &name) {
    std::string lower;
    for (const char c : name)
        lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (lower == "f32" || lower == "float32")
        return Dtype::F32;
    if (lower == "bf16" || lower == "bfloat16")
        return Dtype::BF16;
    if (lower == "f16" || lower == "float16")
        return Dtype::F16;
    refuse("dtype", WAVETRAIN_INVALID, ("unknown dtype: '" + name + "'").c_str());
}

/* wavetrain_config with what must be set; everything else can be assigned as a field. */
struct Config : config {
    Config(std::int64_t samples, std::initializer_list<std::uint64_t> extents,
           Dtype output = Dtype::F32) {
        samples_per_batch = static_cast<std::uint32_t>(samples);
        if (samples_per_batch != samples)
            refuse("config", WAVETRAIN_INVALID, "samples_per_batch: must be 1 to 1048576");
        dtype = static_cast<std::uint32_t>(output);
        shape(span<const std::uint64_t>(extents.begin(), extents.size()));
        validate();
    }
    /* Throws InvalidArgument, Unsupported or BudgetExceeded where open would. */
    void validate() const {
        wavetrain::error why;
        wavetrain::memory need;
        throw_unless_ok("config", memory_need(need, &why), why);
    }
    Dtype output() const noexcept { return static_cast<Dtype>(dtype); }
};

/* A box that owns its uri. */
class Sample {
public:
    Sample() = default;
    /* Sample("a.zarr", { { 0, 64 }, { 0, 256 } }): a half-open range for every axis. */
    Sample(std::string uri, std::initializer_list<std::pair<std::int64_t, std::int64_t>> aabb,
           std::uint64_t tag = 0)
        : Sample(std::move(uri), aabb.begin(), aabb.end(), tag) {}
    /* The same from iterators over pairs. */
    template <class Iterator>
    Sample(std::string uri, Iterator first, Iterator last, std::uint64_t tag = 0)
        : uri_(std::move(uri)) {
        box_.tag = tag;
        for (; first != last; ++first, ++box_.rank) {
            if (box_.rank == WAVETRAIN_RANK_MAX)
                refuse("sample", WAVETRAIN_INVALID, "a box has at most 16 axes");
            box_.begin[box_.rank] = first->first;
            box_.end[box_.rank] = first->second;
        }
    }
    const std::string &uri() const noexcept { return uri_; }
    std::uint64_t tag() const noexcept { return box_.tag; }
    std::uint32_t rank() const noexcept { return box_.rank; }
    std::pair<std::int64_t, std::int64_t> axis(std::uint32_t number) const {
        if (number >= box_.rank)
            refuse("sample", WAVETRAIN_INVALID, "there is no such axis");
        return { box_.begin[number], box_.end[number] };
    }
    /* What push takes; points into this. */
    sample borrowed() const noexcept {
        sample out = box_;
        out.uri = uri_.data();
        out.uri_bytes = uri_.size();
        return out;
    }
    friend bool operator==(const Sample &a, const Sample &b) noexcept {
        bool same = a.uri_ == b.uri_ && a.box_.rank == b.box_.rank && a.box_.tag == b.box_.tag;
        for (std::uint32_t axis = 0; same && axis < a.box_.rank; axis++)
            same = a.box_.begin[axis] == b.box_.begin[axis] && a.box_.end[axis] == b.box_.end[axis];
        return same;
    }
    friend bool operator!=(const Sample &a, const Sample &b) noexcept { return !(a == b); }

private:
    std::string uri_;
    sample box_;
};

/* The geometry of a batch; the pointers are dead when it is given back. */
struct BatchInfo {
    void *device_ptr; /* in host memory on the host backend */
    span<const std::uint64_t> shape;
    Dtype dtype;
    void *ready_stream; /* CUstream; NULL on the host backend */
    std::uint64_t batch_id;
    std::int32_t device; /* -1 on the host backend */
};

/* What one stage has done. */
struct Metric {
    const char *name;
    double ms;      /* summed over threads */
    double best_ms; /* 1e30 before the first observation */
    double input_bytes, output_bytes;
    std::uint64_t count;

    Metric(const char *stage, const wavetrain_metric &from) noexcept
        : name(stage), ms(static_cast<double>(from.ns) / 1e6),
          best_ms(from.count == 0 ? 1e30 : static_cast<double>(from.ns_best) / 1e6),
          input_bytes(static_cast<double>(from.input_bytes)),
          output_bytes(static_cast<double>(from.output_bytes)), count(from.count) {}
};

/* Figures since open or stats_reset. `raw` has the counters: stats.raw.batches_emitted. */
struct Stats {
    stats_view raw;
    Metric plan{ "plan", raw.plan }, meta{ "meta", raw.meta }, io{ "io", raw.io };
    Metric input_transfer{ "input_transfer", raw.input_transfer };
    Metric decode{ "decode", raw.decode }, post_decode{ "post_decode", raw.post_decode };
    Metric decode_gap{ "decode_gap", raw.decode_gap }, assemble{ "assemble", raw.assemble };
    Metric bind_wait{ "bind_wait", raw.bind_wait }, pop_wait{ "pop_wait", raw.pop_wait };
    Metric digest{ "digest", raw.digest };

    explicit Stats(const stats_view &from) noexcept : raw(from) {}
};

/* ---- Batch and Pipeline ------------------------------------------------------------------- */

/* A batch whose calls throw. */
class Batch : public batch {
public:
    Batch() noexcept = default;
    explicit Batch(batch &&from) noexcept : batch(std::move(from)) {}
    /* Throws InvalidArgument where there is no batch. */
    BatchInfo info() const {
        if (!*this)
            refuse("info", WAVETRAIN_INVALID, "the batch was given back");
        const batch_view &of = view();
        return { of.data, shape(), static_cast<Dtype>(of.dtype), of.ready_stream, of.batch_id,
                 device() };
    }
    /* Throws DtypeMismatch where T is not what the elements are. */
    template <class T> span<T> as() const {
        const span<T> elements = batch::as<T>();
        if (elements.empty() && bytes() != 0)
            refuse("batch", WAVETRAIN_DTYPE, "the elements are of another type");
        return elements;
    }
    /* Gives the batch back; does nothing where there is none. */
    void release(void *event = nullptr) {
        const wavetrain_loader from = owner();
        throw_unless_ok("release", batch::release(event), from);
    }
    /* Tensor is DLManagedTensorVersioned or DLManagedTensor. The caller calls its deleter. */
    template <class Tensor> Tensor *to_dlpack(void *stream = nullptr) const {
        Tensor *tensor = nullptr;
        throw_unless_ok("dlpack", dlpack(&tensor, stream), owner());
        return tensor;
    }
};

class Pipeline {
public:
    explicit Pipeline(const Config &with) : config_(with) {
        wavetrain::error why;
        throw_unless_ok("open", loader::open(config_, loader_, &why), why);
    }

    /* Queues samples. `samples` is a range of Sample, or a callable bool(Sample&), and is held by
     * value: move it in. It is pulled as far as the lookahead has room, and on by every pop. A
     * sample that is wrong by itself throws, here or there, and its range is dropped; what depends
     * on the store throws in pop. */
    template <class Source> void push(Source samples) {
        sources_.push_back(source::of(std::move(samples)));
        feed();
    }
    void push(std::initializer_list<Sample> samples) { push(std::vector<Sample>(samples)); }

    /* Says that what was pushed so far is all, for now: behind it, a batch that is not full comes
     * out with less samples. */
    void flush() {
        sources_.emplace_back();
        feed();
    }

    /* The next batch. Throws PoolStarved after config.pop_timeout_ns, or at once where the pipeline
     * was flushed and every batch popped; else the error of the stream, until reset. */
    Batch pop() {
        Batch out;
        const status popped = pop_into(out, WAVETRAIN_POP_TIMEOUT);
        if (popped == WAVETRAIN_END)
            refuse("pop", popped, "flushed, and every batch was popped: push more");
        return out;
    }
    /* False where no batch is ready, or there will be none. */
    bool try_pop(Batch &out) {
        const status popped = pop_into(out, 0);
        return popped.ok();
    }

    /* n batches, or all until the end: a range of Batch&, each given back when the next is taken.
     * batches(n) throws as pop does where there are less; batches() ends at END, so flush. */
    class Batches;
    Batches batches(std::uint64_t n) &;
    Batches batches() &;
    Batches batches(std::uint64_t n) && = delete; /* it would be gone before the loop */
    Batches batches() && = delete;

    /* Whether there are samples that push accepted and the lookahead has not taken. */
    bool pending() const noexcept { return has_pending_ || !sources_.empty(); }
    const Config &config() const noexcept { return config_; }
    int device() const noexcept { return config_.device; }
    Stats stats() const {
        stats_view view;
        throw_unless_ok("stats", loader_.stats(view), loader_.handle());
        return Stats(view);
    }
    void stats_reset() { throw_unless_ok("stats_reset", loader_.stats_reset(), loader_.handle()); }
    /* Drops all samples that are not popped and forgets the error. */
    void reset() {
        drop_sources();
        throw_unless_ok("reset", loader_.reset(), loader_.handle());
    }
    /* Ends the pipeline, as ~loader does; every later call throws ShutdownError. */
    void close() noexcept {
        drop_sources();
        loader_ = loader();
    }

private:
    /* A range or generator whose type is forgotten; empty: a flush. */
    struct source {
        std::unique_ptr<void, void (*)(void *)> object{ nullptr, [](void *) {} };
        bool (*next)(void *, Sample &) = nullptr;

        template <class T> static source hold(T *held) {
            source made;
            made.object = { held, [](void *it) { delete static_cast<T *>(it); } };
            made.next = [](void *it, Sample &out) { return (*static_cast<T *>(it))(out); };
            return made;
        }
        template <class T> static source of(T &&samples) {
            if constexpr (std::is_invocable_r_v<bool, T &, Sample &>)
                return hold(new T(std::move(samples)));
            else
                return hold(new walk<T>(std::move(samples)));
        }
    };
    /* A range and where we are in it. Not moved, for its iterators point into it. */
    template <class Range> struct walk {
        Range range;
        decltype(std::begin(std::declval<Range &>())) at = std::begin(range);
        decltype(std::end(std::declval<Range &>())) last = std::end(range);
        bool is_inside = false;

        explicit walk(Range &&from) : range(std::move(from)) {}
        walk(const walk &) = delete;
        bool operator()(Sample &out) {
            if (is_inside)
                ++at;
            is_inside = at != last;
            if (is_inside)
                out = *at;
            return is_inside;
        }
    };

    /* Pushes until the lookahead is full. Whatever throws drops the source that it came from. */
    void feed() {
        while (pending()) {
            if (!has_pending_) {
                source &front = sources_.front();
                if (front.next == nullptr) {
                    throw_unless_ok("flush", loader_.flush(), loader_.handle());
                    sources_.pop_front();
                    continue;
                }
                dropping drop{ *this };
                if (!front.next(front.object.get(), pending_))
                    continue;
                drop.is_armed = false;
                has_pending_ = true;
            }
            const status pushed = loader_.push(pending_.borrowed(), 0);
            if (pushed.not_now())
                return;
            has_pending_ = false;
            if (!pushed) {
                dropping drop{ *this };
                throw_unless_ok("push", pushed, loader_.handle());
            }
        }
    }
    /* Takes the first source away when it goes out of scope, also by an exception. */
    struct dropping {
        Pipeline &from;
        bool is_armed = true;
        ~dropping() {
            if (is_armed)
                from.sources_.pop_front();
        }
    };
    void drop_sources() noexcept {
        sources_.clear();
        has_pending_ = false;
    }
    /* OK, END, or AGAIN with timeout 0; throws the rest. */
    status pop_into(Batch &out, std::uint64_t timeout_ns) {
        out.release(); /* first, so that its slot can be filled meanwhile */
        feed();
        wavetrain::error why;
        const status popped = loader_.pop(out, timeout_ns, &why);
        if (!popped && popped != WAVETRAIN_END && !(popped == WAVETRAIN_AGAIN && timeout_ns == 0))
            throw_unless_ok("pop", popped, why);
        return popped;
    }

    Config config_;
    loader loader_;
    std::deque<source> sources_;
    Sample pending_;
    bool has_pending_ = false;
};

class Pipeline::Batches {
public:
    class iterator {
    public:
        explicit iterator(Batches &of) noexcept : of_(&of) {}
        Batch &operator*() const noexcept { return of_->current_; }
        iterator &operator++() {
            of_->advance();
            return *this;
        }
        /* Every iterator but the end compares as "there is a batch". */
        bool operator!=(const iterator &) const noexcept { return of_->has_current_; }

    private:
        Batches *of_;
    };
    iterator begin() {
        advance();
        return iterator(*this);
    }
    iterator end() noexcept { return iterator(*this); }

private:
    friend class Pipeline;
    Batches(Pipeline &from, std::uint64_t count, bool to_end) noexcept
        : from_(&from), left_(count), is_to_end_(to_end) {}
    void advance() {
        has_current_ = false;
        if (is_to_end_) {
            has_current_ = from_->pop_into(current_, WAVETRAIN_POP_TIMEOUT).ok();
        } else if (left_ > 0) {
            current_.release();
            current_ = from_->pop();
            left_--;
            has_current_ = true;
        } else {
            current_.release();
        }
    }

    Pipeline *from_;
    std::uint64_t left_;
    bool is_to_end_;
    bool has_current_ = false;
    Batch current_;
};

inline Pipeline::Batches Pipeline::batches(std::uint64_t n) & { return { *this, n, false }; }
inline Pipeline::Batches Pipeline::batches() & { return { *this, 0, true }; }

} // namespace wavetrain

#endif /* WAVETRAIN_EXCEPTIONS_HPP */
