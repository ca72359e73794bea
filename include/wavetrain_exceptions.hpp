/* wavetrain_exceptions.hpp - wavetrain.hpp with exceptions: a call that fails throws its status.
 *
 * SPDX-License-Identifier: MIT
 *
 * Pipeline, Batches and Batch are loader, stream and batch of wavetrain.hpp, which is the manual of
 * every call. This header declares the calls whose failure throws; the rest is inherited. The call
 * that returns a status is still available: pipeline.loader::push(sample, 0).
 *
 *     wavetrain::config config;
 *     config.shape({ 32, 64, 64 }).samples_per_batch = 8;
 *     wavetrain::Pipeline pipeline(config);
 *     for (wavetrain::Batch& batch : pipeline.batches(first, last)) // iterators, or a callable
 *         train(batch.as<float>(), batch.tags());
 *
 *     wavetrain::error why; // of a call that needs no Pipeline
 *     wavetrain::throw_unless_ok("fit", config.fit("a.zarr", scratch, &why), why);
 */
#ifndef WAVETRAIN_EXCEPTIONS_HPP
#define WAVETRAIN_EXCEPTIONS_HPP

#ifndef __cpp_exceptions
#error "wavetrain_exceptions.hpp throws: with -fno-exceptions include wavetrain.hpp"
#endif

#include "wavetrain.hpp"

#include <stdexcept>
#include <string>

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

/* Throws the class of why.status: the first class is that of END, each next one of 1 less. */
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
/* Throws unless the result is OK. `why` is the error argument of the call. */
inline void throw_unless_ok(const char *stage, status result, const wavetrain::error &why = {}) {
    const char *no_text = "without a text, which another call may have replaced";
    if (!result)
        throw_error(stage, result == why.status ? why : error_of(result, no_text));
}
/* The same for a call without an error argument: its text is in last_error. */
inline void throw_unless_ok(const char *stage, status result, wavetrain_loader on) {
    if (!result)
        throw_unless_ok(stage, result, last_error(on));
}

/* A batch whose calls throw. */
class Batch : public batch {
public:
    Batch() noexcept = default;
    explicit Batch(batch &&from) noexcept : batch(std::move(from)) {}
    template <class T> span<T> as() const {
        const span<T> elements = batch::as<T>();
        if (elements.empty() && bytes() != 0)
            throw_error("as", error_of(WAVETRAIN_DTYPE, "the elements are of another type"));
        return elements;
    }
    void release(void *event = nullptr) {
        const wavetrain_loader from = owner();
        throw_unless_ok("release", batch::release(event), from);
    }
    /* Tensor is DLManagedTensorVersioned or DLManagedTensor. The caller calls its deleter. */
    template <class Tensor>
    Tensor *to_dlpack(void *stream = nullptr, std::uint32_t field = 0) const {
        Tensor *tensor = nullptr;
        throw_unless_ok("dlpack", dlpack(&tensor, stream, field), owner());
        return tensor;
    }
};

/* The batches of a stream. The error that ends the stream is thrown. */
template <class Source> class [[nodiscard]] Batches : public batch_range<Batches<Source>, Batch> {
public:
    explicit Batches(stream<Source> from) : stream_(std::move(from)) {}
    /* The next batch; false: every batch came out. */
    bool next(Batch &out) {
        const status popped = stream_.pop(out, WAVETRAIN_POP_TIMEOUT);
        if (popped != WAVETRAIN_END)
            throw_unless_ok("pop", popped, stream_.error());
        return popped.ok();
    }

private:
    stream<Source> stream_;
};
template <class Source> Batches(stream<Source>) -> Batches<Source>;

/* An open loader whose calls throw. After an error, reset() makes it usable again. */
class Pipeline : public loader {
    template <class T> using if_float = std::enable_if_t<std::is_floating_point_v<T>>;

public:
    explicit Pipeline(const config &settings) {
        wavetrain::error why;
        throw_unless_ok("open", open(settings, *this, &why), why);
    }
    /* Throws PoolStarved if the lookahead was full until timeout_ns ran out. */
    void push(const sample &one, std::uint64_t timeout_ns = WAVETRAIN_FOREVER) {
        must_be_ok("push", loader::push(one, timeout_ns));
    }
    void push(const boxes &one, std::uint64_t timeout_ns = WAVETRAIN_FOREVER) {
        must_be_ok("push", loader::push(one, timeout_ns));
    }
    void push(span<const sample> samples, std::uint64_t timeout_ns, std::size_t &taken) {
        must_be_ok("push", loader::push(samples, timeout_ns, taken));
    }
    void flush() { must_be_ok("flush", loader::flush()); }
    /* Throws PoolStarved after timeout_ns, and if no batch will come before the next push. */
    Batch pop(std::uint64_t timeout_ns = WAVETRAIN_POP_TIMEOUT) {
        Batch out;
        wavetrain::error why;
        const status popped = loader::pop(out, timeout_ns, &why);
        if (popped == WAVETRAIN_END)
            why = error_of(popped, "flushed, and every batch was popped: push more");
        throw_unless_ok("pop", popped, why);
        return out;
    }
    /* Does not wait. false: no batch is ready, or none will come before the next push. */
    bool try_pop(Batch &out) {
        wavetrain::error why;
        const status popped = loader::try_pop(out, &why);
        if (popped != WAVETRAIN_AGAIN && popped != WAVETRAIN_END)
            throw_unless_ok("pop", popped, why);
        return popped.ok();
    }
    template <class T> if_float<T> push(const sample &, T) = delete; /* as those of loader */
    template <class T> if_float<T> push(const boxes &, T) = delete;
    template <class T, class = if_float<T>> Batch pop(T) = delete;

    /* The batches of loader::stream(source...). Without a source: flushes what was pushed. */
    template <class... Source> auto batches(Source &&...source) & {
        return Batches(stream(std::forward<Source>(source)...));
    }
    auto batches() & { return batches([](sample &) noexcept { return false; }); }

    void reset() { must_be_ok("reset", loader::reset()); }
    void forget(const char *uri) { must_be_ok("forget", loader::forget(uri)); }
    void pump(std::uint64_t budget_ns) { must_be_ok("pump", loader::pump(budget_ns)); }
    stats_view stats() const {
        stats_view out;
        must_be_ok("stats", loader::stats(out));
        return out;
    }
    void stats_reset() { must_be_ok("stats_reset", loader::stats_reset()); }
    /* Ends the loader as its destructor does. */
    void close() noexcept { loader::operator=(loader()); }

private:
    void must_be_ok(const char *stage, status result) const {
        throw_unless_ok(stage, result, handle());
    }
};

} // namespace wavetrain

#endif /* WAVETRAIN_EXCEPTIONS_HPP */
