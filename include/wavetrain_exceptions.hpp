/* wavetrain_exceptions.hpp - wavetrain.hpp with exceptions, under the reference loader's names.
 *
 * SPDX-License-Identifier: MIT
 *
 *     wavetrain::Pipeline pipeline(wavetrain::Config(8, { 32, 64, 64 }));
 *     pipeline.push(std::move(samples));        // any range, or a generator; taken lazily
 *     pipeline.flush();                         // the last batch may have fewer samples
 *     for (wavetrain::Batch& batch : pipeline.batches())
 *         train(batch.as<float>(), batch.tags());
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

/* what() is "pop: NOT_FOUND: /data/a.zarr/zarr.json: no such file ..". */
class Error : public std::runtime_error {
public:
    /* `stage` names the call that failed; it must live as long as the program. */
    Error(const char *stage, const wavetrain::error &why)
        : std::runtime_error(std::string(stage) + ": " + wavetrain_status_str(why.status) +
                             (why.text[0] == 0 ? "" : ": ") + why.text),
          stage_(stage), why_(why) {}
    const char *stage() const noexcept { return stage_; }
    wavetrain::status status() const noexcept { return why_.status; }
    std::uint64_t tag() const noexcept { return why_.tag; }
    std::uint64_t batch_id() const noexcept { return why_.batch_id; }
    std::uint32_t sample() const noexcept { return why_.sample; }
    span<const std::uint64_t> chunk() const noexcept { return { why_.chunk, why_.chunk_rank }; }

private:
    const char *stage_;
    wavetrain::error why_;
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
class PoolStarved : public Error { using Error::Error; }; /* AGAIN, STARVED, END */

/* Throws the class of why.status: the first one's is END, and each next one is less by 1. */
template <class... Classes>
[[noreturn]] void throw_of(const char *stage, const wavetrain::error &why) {
    wavetrain_status status = WAVETRAIN_END;
    ((why.status == status-- ? throw Classes(stage, why) : void()), ...);
    throw InternalError(stage, why);
}
[[noreturn]] inline void throw_error(const char *stage, const wavetrain::error &why) {
    throw_of<PoolStarved, PoolStarved, PoolStarved, InternalError, InvalidArgument, NotFound,
             DtypeMismatch, RankMismatch, StorageError, DecodeError, Unsupported, NativeCudaError,
             OutOfMemory, BudgetExceeded, ShutdownError>(stage, why);
}
[[noreturn]] inline void refuse(const char *stage, status result, const char *text) {
    throw_error(stage, error_of(result, text));
}
inline void throw_unless_ok(const char *stage, status result, wavetrain::error why = {}) {
    why.status = result.value();
    if (!result)
        throw_error(stage, why);
}
/* Where the call leaves its text in last_error. */
inline void throw_unless_ok(const char *stage, status result, wavetrain_loader on) {
    const wavetrain::error why = last_error(on);
    if (!result && result != why.status)
        refuse(stage, result, "a call that failed on another thread took the place of the text");
    throw_unless_ok(stage, result, why);
}

enum class Dtype : std::uint32_t {
    F32 = WAVETRAIN_F32, BF16 = WAVETRAIN_BF16, F16 = WAVETRAIN_F16, F64 = WAVETRAIN_F64,
    I8 = WAVETRAIN_I8, I16 = WAVETRAIN_I16, I32 = WAVETRAIN_I32, I64 = WAVETRAIN_I64,
    U8 = WAVETRAIN_U8, U16 = WAVETRAIN_U16, U32 = WAVETRAIN_U32, U64 = WAVETRAIN_U64,
    BOOL = WAVETRAIN_BOOL, C64 = WAVETRAIN_C64, C128 = WAVETRAIN_C128, RAW = WAVETRAIN_RAW
};
/* "f32", "float32", "bf16", "bfloat16", "f16", "float16", in any case. */
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
    /* Throws where open would. */
    void validate() const {
        wavetrain::error why;
        wavetrain::memory need;
        throw_unless_ok("config", memory_need(need, &why), why);
    }
    Dtype output() const noexcept { return static_cast<Dtype>(dtype); }
};

/* A sample that owns its uri. */
class Sample {
    using range = std::pair<std::int64_t, std::int64_t>;

public:
    Sample() = default;
    /* Sample("a.zarr", { { 0, 64 }, { 0, 256 } }): a half-open range for every axis. */
    Sample(std::string uri, std::initializer_list<range> aabb, std::uint64_t tag = 0)
        : Sample(std::move(uri), aabb.begin(), aabb.end(), tag) {}
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
    range axis(std::uint32_t number) const {
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
        return a.uri_ == b.uri_ && a.rank() == b.rank() && a.tag() == b.tag() &&
               std::memcmp(a.box_.begin, b.box_.begin, sizeof a.box_.begin) == 0 &&
               std::memcmp(a.box_.end, b.box_.end, sizeof a.box_.end) == 0;
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
    double ms, best_ms; /* summed over threads; 1e30 before the first observation */
    double input_bytes, output_bytes;
    std::uint64_t count;

    Metric(const char *stage, const wavetrain_metric &from) noexcept
        : name(stage), ms(double(from.ns) / 1e6),
          best_ms(from.count == 0 ? 1e30 : double(from.ns_best) / 1e6),
          input_bytes(double(from.input_bytes)), output_bytes(double(from.output_bytes)),
          count(from.count) {}
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

/* A batch whose calls throw. */
class Batch : public batch {
public:
    Batch() noexcept = default;
    explicit Batch(batch &&from) noexcept : batch(std::move(from)) {}
    BatchInfo info() const {
        if (!*this)
            refuse("info", WAVETRAIN_INVALID, "the batch was given back");
        return { data(), shape(), static_cast<Dtype>(view().dtype), ready_stream(), batch_id(),
                 device() };
    }
    template <class T> span<T> as() const {
        const span<T> elements = batch::as<T>();
        if (elements.empty() && bytes() != 0)
            refuse("batch", WAVETRAIN_DTYPE, "the elements are of another type");
        return elements;
    }
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

/* It belongs to one thread at a time, and goes on after an error and reset(). */
class Pipeline {
public:
    explicit Pipeline(const Config &with) : config_(with) {
        wavetrain::error why;
        throw_unless_ok("open", loader::open(config_, loader_, &why), why);
    }
    /* Queues a range of Sample, or a callable bool(Sample&), which it holds by value and pulls as
     * far as the lookahead has room, and on by every pop. A sample that is wrong by itself throws,
     * here or there, and its range is dropped. */
    template <class Source> void push(Source samples) {
        if constexpr (std::is_invocable_r_v<bool, Source &, Sample &>) {
            queue(std::move(samples));
        } else {
            auto all = std::make_shared<Source>(std::move(samples));
            auto at = std::begin(*all);
            queue([all, at = std::move(at), last = std::end(*all),
                   is_inside = false](Sample &out) mutable {
                if (is_inside)
                    ++at;
                is_inside = at != last;
                if (is_inside)
                    out = *at;
                return is_inside;
            });
        }
    }
    void push(std::initializer_list<Sample> samples) { push(std::vector<Sample>(samples)); }
    /* What was pushed is all, for now: a batch that is not full comes out, too. */
    void flush() {
        sources_.emplace_back();
        feed();
    }
    /* Throws PoolStarved after config.pop_timeout_ns, and where no batch will come before a push;
     * else the error of the stream. */
    Batch pop() {
        Batch out;
        pop_into(out, WAVETRAIN_POP_TIMEOUT, false);
        return out;
    }
    bool try_pop(Batch &out) { return pop_into(out, 0, true); }

    class Batches : public batch_range<Batches, Batch> {
    public:
        Batches(Pipeline &from, std::uint64_t count, bool may_end) noexcept
            : from_(&from), left_(count), may_end_(may_end) {}
        bool next(Batch &out) {
            out.release();
            const bool is_one = left_ != 0 && from_->pop_into(out, WAVETRAIN_POP_TIMEOUT, may_end_);
            left_ -= is_one;
            return is_one;
        }

    private:
        Pipeline *from_;
        std::uint64_t left_;
        bool may_end_;
    };
    /* A range of n batches, where pop may throw; or of all until END, so flush. */
    Batches batches(std::uint64_t n) & { return { *this, n, false }; }
    Batches batches() & { return { *this, UINT64_MAX, true }; }
    Batches batches(std::uint64_t n) && = delete; /* it would be gone before the loop */
    Batches batches() && = delete;

    /* Whether the lookahead has not taken all samples that push accepted. */
    bool pending() const noexcept { return !sources_.empty(); }
    const Config &config() const noexcept { return config_; }
    int device() const noexcept { return config_.device; }
    Stats stats() const {
        stats_view view;
        throw_unless_ok("stats", loader_.stats(view), loader_.handle());
        return Stats(view);
    }
    void stats_reset() { throw_unless_ok("stats_reset", loader_.stats_reset(), loader_.handle()); }
    void reset() {
        drop_sources();
        throw_unless_ok("reset", loader_.reset(), loader_.handle());
    }
    void close() noexcept {
        drop_sources();
        loader_ = loader();
    }

private:
    struct source {
        std::shared_ptr<void> held;
        bool (*give)(void *held, sample &out) = nullptr; /* NULL: a flush */
        bool operator()(sample &out) const { return give(held.get(), out); }
    };
    template <class Give> void queue(Give give) {
        using both = std::pair<Give, Sample>;
        auto held = std::make_shared<both>(std::move(give), Sample());
        sources_.push_back({ held, [](void *of, sample &out) {
            both &from = *static_cast<both *>(of);
            const bool is_one = from.first(from.second);
            out = from.second.borrowed();
            return is_one;
        } });
        feed();
    }
    /* Pushes until the lookahead is full. Whatever throws drops the source that it came from. */
    void feed() {
        while (pending()) {
            if (sources_.front().give == nullptr)
                throw_unless_ok("flush", loader_.flush(), loader_.handle());
            source front = std::move(sources_.front());
            sources_.pop_front();
            status pushed;
            if (front.give != nullptr)
                pushed = pending_.push(loader_.handle(), front);
            if (pushed.not_now())
                return sources_.push_front(std::move(front));
            throw_unless_ok("push", pushed, loader_.handle());
        }
    }
    void drop_sources() noexcept {
        sources_.clear();
        pending_.is_there = false;
    }
    /* Whether there was one; throws where none is an error. */
    bool pop_into(Batch &out, std::uint64_t timeout_ns, bool may_end) {
        out.release(); /* first, so that its slot can be filled meanwhile */
        feed();
        wavetrain::error why;
        const status popped = loader_.pop(out, timeout_ns, &why);
        if (popped == WAVETRAIN_END && !may_end)
            refuse("pop", popped, "flushed, and every batch was popped: push more");
        if (popped != WAVETRAIN_END && (popped != WAVETRAIN_AGAIN || timeout_ns != 0))
            throw_unless_ok("pop", popped, why);
        return popped.ok();
    }

    Config config_;
    loader loader_;
    std::deque<source> sources_;
    pending_sample pending_;
};

} // namespace wavetrain

#endif /* WAVETRAIN_EXCEPTIONS_HPP */
