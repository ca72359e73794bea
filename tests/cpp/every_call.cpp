/* every_call.cpp: names every function of the C++ headers once, so that every template is made and
 * every warning is seen. It is compiled, never run.
 */
#include "wavetrain.hpp"
#include "wavetrain.hpp"
#include "wavetrain_source.hpp"
#include "wavetrain_source.hpp"
#include "wavetrain_epoch.h"
#include "wavetrain_epoch.h"
#include "wavetrain_node.h"
#include "wavetrain_node.h"
#include "wavetrain_recipes.h"
#include "wavetrain_recipes.h"
#include "wavetrain_tiles.h"

namespace {

struct host {
    void *alloc(std::uint64_t, std::uint64_t) { return nullptr; }
    void free(void *, std::uint64_t, std::uint64_t) {}
    std::int64_t size(const char *) const { return WAVETRAIN_FILE_ABSENT; }
    std::int64_t read(const char *, std::uint64_t, void *, std::uint64_t) const { return 0; }
    std::int64_t read_async(wavetrain_loader loader, std::uint64_t ticket, const char *,
                            std::uint64_t, void *, std::uint64_t) const {
        wavetrain::read_done(loader, ticket, 0).ignore();
        return 0;
    }
    void begin(const char *) {}
    void end() {}
};

struct arrays {
    std::int64_t describe(const char *, wavetrain_source_info &) const {
        return WAVETRAIN_FILE_ABSENT;
    }
    std::int64_t read(const char *, const std::uint64_t *, const std::uint64_t *, void *,
                      std::uint64_t) const {
        return WAVETRAIN_FILE_FAILED;
    }
};

struct sources {
    const wavetrain::sample *data() const { return nullptr; }
    std::size_t size() const { return 0; }
};

} // namespace

/* As dlpack.h has it. */
struct DLTensor {
    void *data;
    struct { int device_type; std::int32_t device_id; } device;
    std::int32_t ndim;
    struct { std::uint8_t code, bits; std::uint16_t lanes; } dtype;
    std::int64_t *shape, *strides;
    std::uint64_t byte_offset;
};

std::uint64_t rows_of(const wavetrain_split &split, wavetrain::span<const std::uint64_t> files);
std::uint64_t rows_of(const wavetrain_split &split, wavetrain::span<const std::uint64_t> files) {
    std::uint64_t rows = 0;
    for (wavetrain_rows tile : wavetrain::tiles(split, 0)) {
        wavetrain::cut pieces(tile, files.data(), files.size());
        for (const wavetrain_piece &piece : pieces)
            rows += wavetrain_rows_count(piece.rows);
        rows += pieces.left();
    }
    return rows;
}

wavetrain::status configure(wavetrain::config &config, wavetrain::scratch &room);
wavetrain::status configure(wavetrain::config &config, wavetrain::scratch &room) {
    static host ours;
    static const arrays theirs; /* as of every hook, the object may be constant */
    static auto log = [](std::uint32_t, std::uint64_t, const char *, std::uint64_t) {};
    static auto fatal = [](const char *, std::uint32_t, const char *) {};
    static auto run = [](void (*job)(void *), void *argument) { job(argument); };
    config.shape({ 1, 2, 3 }).use_block(nullptr, 0).use_memory(ours).use_files(ours).use_log(log);
    config.use_fatal(fatal).use_workers(run).use_profiler(ours).use_source(theirs);
    wavetrain::error why;
    wavetrain::memory need;
    wavetrain::array_view array;
    const char *const uris[] = { "a", "b" };
    if (!config.fit(uris, room, &why) || !config.fit("c", room))
        return why.status;
    if (const wavetrain::status failed = config.memory_need(need, &why); !failed)
        return failed;
    for (const wavetrain_memory_line &line : wavetrain::lines(need))
        if (line.bytes > wavetrain::version())
            return WAVETRAIN_BUDGET;
    for (const wavetrain_group_entry &entry : wavetrain::entries(array))
        if (entry.kind == WAVETRAIN_NODE_ARRAY)
            return WAVETRAIN_OK;
    return wavetrain::array_info("a", array, room, &why, &config.files);
}

wavetrain::status call_batch(wavetrain::batch &batch);
wavetrain::status call_batch(wavetrain::batch &batch) {
    DLManagedTensorVersioned *tensor = nullptr;
    DLManagedTensor *legacy = nullptr;
    if (!batch || batch.data() == nullptr || batch.bytes() == 0 || batch.sample_count() == 0)
        return WAVETRAIN_END;
    if (batch.shape()[0] != batch.tags().size() || batch.statuses()[0] != WAVETRAIN_OK)
        return WAVETRAIN_AGAIN;
    if (!batch.as<float>().empty() && !batch.row<const double>(0).empty() && batch.batch_id() == 1)
        return batch.view().failed_samples == 0 ? WAVETRAIN_OK : WAVETRAIN_IO;
    if (batch.is_device() && batch.backend() == WAVETRAIN_BACKEND_CUDA && batch.device() == 0)
        batch.dlpack(&tensor, batch.ready_stream()).ignore();
    batch.dlpack(&tensor).ignore();
    batch.dlpack(&legacy, nullptr, 0).ignore();
    batch.release().ignore();
    return batch.detach() == 0 ? wavetrain::status() : batch.release(nullptr);
}

wavetrain::status call_feed(wavetrain::loader &loader, const DLTensor &given, void *event);
wavetrain::status call_feed(wavetrain::loader &loader, const DLTensor &given, void *event) {
    static const double weights[2][2] = { { 1, 2 }, { 3, 4 } };
    wavetrain::tensor label(&weights[1][1]), weight(&weights[0][0], { 2, 2 }), lent, block;
    if (!wavetrain::tensor::from_dlpack(given, lent) || lent.device >= 0)
        wavetrain::tensor::from_dlpack(given, lent, event).ignore();
    block = weight;
    const float numbers[] = { 2 };
    const wavetrain::erase erases[] = { wavetrain::erase({ 0 }, { 1 }, numbers) };
    wavetrain::augment steps;
    steps.linear(numbers, numbers).noise(1, 2).clamp(0, 1).erasing(erases);
    const wavetrain::affine map({ 0 }, { { 2, 1 } });
    const wavetrain::box parts[] = {
        wavetrain::box(label.on(0), 0).into(2),
        wavetrain::box(block.on(0, event), 2).into(1, { 0, 1 }).steps({ 1, -1 }).along({ 1, 2 }),
        wavetrain::box(lent, static_cast<std::size_t>(given.ndim)),
        wavetrain::box(weight, 2, WAVETRAIN_BOX_VALUE).into(3).with(steps).with(map),
    };
    return loader.push(wavetrain::boxes{ parts, 7 });
}

wavetrain::status call_loader(const wavetrain::config &config);
wavetrain::status call_loader(const wavetrain::config &config) {
    wavetrain::loader loader, other = wavetrain::loader::adopt(0);
    wavetrain::error why;
    wavetrain::batch batch;
    wavetrain::stats_view stats;
    std::size_t taken = 0;
    std::uint32_t held = 0;
    const wavetrain_sample raw = wavetrain::sample().raw();
    if (!wavetrain::loader::open(config, loader, &why) || !loader || loader.handle() == 0)
        return why.status;
    if (!wavetrain::loader::attach("name", 1, WAVETRAIN_FOREVER, other, &why) ||
        wavetrain::loader::attach("name", 2, 0, other).value() == WAVETRAIN_RESET)
        return why.status;
    loader = std::move(other);
    loader.push({ "a", { 0 }, { 1 }, 2 }).ignore();
    loader.push(sources(), 0, taken).ignore();
    float memory[4];
    const std::int64_t strides[] = { 8 };
    const wavetrain_target targets[] = { { memory, sizeof memory } };
    const wavetrain::box part("a", { 0 }, { 2 });
    loader.read_into(part, memory, sizeof memory).ignore();
    loader.read_into(part, memory, sizeof memory, strides, 0, &why).ignore();
    loader.lend(targets).ignore();
    loader.lend(targets, 7, nullptr).ignore();
    loader.push({ &raw, 1 }, 0, taken).ignore();
    static const char *const uris[] = { "a" };
    static const std::int64_t begins[] = { 0, 1 }, labels[] = { 2, 3 };
    static const std::uint64_t places[] = { 1 }, tags[] = { 4, 5 };
    static const std::uint32_t numbers[] = { 0, 0 };
    wavetrain::augment steps[2];
    const wavetrain::affine map({ 0 }, { { 2, 1 } });
    const wavetrain::column columns[] = {
        wavetrain::column(uris, begins, places, numbers).steps(begins).with(steps),
        wavetrain::column(uris, begins, places).with_one(steps[0]).with(&map),
        wavetrain::column(uris, begins, places).with_one(map),
        wavetrain::column(wavetrain::span<const std::int64_t>(labels)).into(1, tags),
    };
    loader.push(columns, tags, 0, taken).ignore();
    loader.flush().ignore();
    if (!loader.pop(batch) || !loader.pop(batch, 1, &why) || !loader.try_pop(batch, &why))
        loader.reset().ignore();
    if (loader.stats(stats) != loader.stats_reset() || loader.last_error(why) == WAVETRAIN_INVALID)
        loader.pump(1).ignore();
    std::uint64_t left = 9;
    auto stream = loader.stream([&left](wavetrain::sample &) noexcept { return left-- > 0; });
    for (wavetrain::batch &each : stream)
        call_batch(each).ignore();
    const wavetrain::sample samples[2];
    auto pair = loader.stream(samples, samples + 2);
    auto moved = std::move(pair);
    while (moved.next(batch) || moved.try_pop(batch).not_now() || moved.pop(batch, 5).ok())
        if (moved.done() || moved.error().status != 0)
            return moved.status();
    wavetrain::read_done(loader.handle(), 1, 0).ignore();
    loader.close(0, &held).ignore();
    return loader.detach() == 0 ? stream.status() : WAVETRAIN_OK;
}

std::uint64_t call_epochs(wavetrain::loader &loader, const wavetrain_epoch &epoch);
std::uint64_t call_epochs(wavetrain::loader &loader, const wavetrain_epoch &epoch) {
    const auto fill = [](std::uint64_t index, wavetrain_place, wavetrain::sample &out) {
        out.tag = index;
    };
    const wavetrain_chunk_shuffle shuffle = { 8, 4 };
    std::uint64_t sum = 0;
    for (auto run : { wavetrain::make_epochs(epoch, nullptr, fill),
                      wavetrain::make_epochs(epoch, &shuffle, fill) })
        for (; run.number() < 2; run.turn())
            for (wavetrain::batch &each : loader.stream(run.samples())) {
                run.popped(each.sample_count(), [&](std::uint64_t i, wavetrain_place place) {
                    sum += wavetrain_mix(place.position, each.digests()[i]);
                });
                run.popped(run.left());
                sum += run.state().position;
            }
    return sum;
}

wavetrain::tensor tensors(const std::uint16_t *halves);
wavetrain::tensor tensors(const std::uint16_t *halves) {
    static std::int64_t labels[8];
    const std::uint64_t shape[] = { 2, 4 };
    const wavetrain::tensor of_all[] = {
        wavetrain::tensor(labels, { 8 }), /* a shape of one axis, not a type */
        wavetrain::tensor(labels, { 2, 4 }),
        wavetrain::tensor(labels, shape),
        wavetrain::tensor(labels, wavetrain::span<const std::uint64_t>(shape)),
        wavetrain::tensor(labels),
        wavetrain::tensor(halves, WAVETRAIN_F16),
        wavetrain::tensor(halves, { 8 }, WAVETRAIN_BF16),
    };
    return of_all[0];
}

wavetrain::status call_given(const wavetrain::sample_info &info, wavetrain::given_sample &out);
wavetrain::status call_given(const wavetrain::sample_info &info, wavetrain::given_sample &out) {
    static const float pixels[4] = {};
    static const std::uint16_t halves[4] = {};
    out.array("image", pixels, { 2, 2 }).array(0, halves, { 4 }, WAVETRAIN_BF16);
    out.array(1u, wavetrain::tensor(pixels), 0).value("label", 5).value("score", 0.5f);
    out.add(wavetrain::box("a", { 0 }, { 1 }));
    return info.epoch == 0 ? wavetrain::status() : out.fail(WAVETRAIN_IO, "why");
}

template <class Source> wavetrain::status run_source(Source &from);
template <class Source> wavetrain::status run_source(Source &from) {
    static unsigned char room[64];
    static auto run = [](void (*job)(void *), void *argument) { job(argument); };
    wavetrain::config config;
    wavetrain::source_settings settings;
    settings.expect(0, WAVETRAIN_F32, 2).layout(1, "HW").use_workers(run, 2).cycle =
        wavetrain::cycle::quiet;
    wavetrain::error why;
    wavetrain::batch out;
    if (from.need(config, settings) > sizeof room ||
        !from.open(config, settings, { room, sizeof room }, &why))
        return why.status;
    if (!from.next(out) || !from.next(out, 5, &why) || !from.try_next(out, &why))
        return from.work(1);
    const wavetrain::source_place place = from.place();
    if (!from.go_to(place, &why) || !from.reset() || !from.work())
        return from.loader().reset();
    for (wavetrain::batch &each : from)
        call_batch(each).ignore();
    from.close();
    return from.error().status == 0 ? from.status() : wavetrain::status(from.error().status);
}

wavetrain::status call_sources();
wavetrain::status call_sources() {
    struct {
        void rewind() {}
        bool operator()(wavetrain::given_batch &out) {
            static const float pixels[4] = {};
            out.column("image", pixels, { 2, 2 }).column(0, pixels, { 4 }, WAVETRAIN_F32);
            out.column(1, wavetrain::tensor(pixels), 0).sample(out.capacity() - 1).value(0, true);
            return out.fail(WAVETRAIN_IO, "why").ok();
        }
    } next_batches;
    wavetrain::source by_sample(&call_given);
    wavetrain::source in_order(next_batches);
    wavetrain::source by_batch([](const wavetrain::batch_info &of, wavetrain::given_batch &) {
        return of.iteration < of.epoch ? WAVETRAIN_OK : WAVETRAIN_END;
    });
    wavetrain::source next_samples([](wavetrain::given_sample &) { return false; });
    wavetrain::source fed;
    fed.feed([](wavetrain::given_batch &) {}).ignore();
    fed.feed([](wavetrain::given_batch &) { return WAVETRAIN_OK; }, 5, nullptr).ignore();
    fed.feed_end().ignore();
    for (const wavetrain::status each : { run_source(by_sample), run_source(in_order),
                                          run_source(by_batch), run_source(next_samples) })
        if (!each)
            return each;
    return run_source(fed);
}

#if defined(__cpp_lib_ranges)
#include <iterator>
static_assert(std::input_iterator<wavetrain::source_core::iterator>);
static_assert(std::sentinel_for<wavetrain::source_core::sentinel,
                                wavetrain::source_core::iterator>);
using any_stream = decltype(std::declval<wavetrain::loader &>().stream(
    std::declval<bool (*)(wavetrain::sample &)>()));
static_assert(std::input_iterator<any_stream::iterator>);
static_assert(std::sentinel_for<any_stream::sentinel, any_stream::iterator>);
#endif

#ifdef __cpp_exceptions
#include "wavetrain_exceptions.hpp"
#include "wavetrain_exceptions.hpp"

std::uint64_t call_pipeline();
std::uint64_t call_pipeline() {
    wavetrain::config config;
    config.shape({ 4, 4 }).samples_per_batch = 2;
    wavetrain::Pipeline pipeline(config);
    std::uint64_t sum = 0;
    std::size_t taken = 0;
    const wavetrain::sample one("a", { 0, 0 }, { 4, 4 }, 3);
    pipeline.push({ "a", { 0, 0 }, { 4, 4 }, 3 });
    pipeline.push(one, WAVETRAIN_FOREVER);
    pipeline.push(wavetrain::boxes{ { &one, 1 }, 4 });
    pipeline.push({ &one, 1 }, 0, taken);
    pipeline.flush();
    try {
        wavetrain::Batch batch = pipeline.pop();
        sum += batch.shape()[0] + batch.as<std::uint16_t>().size();
        batch.to_dlpack<DLManagedTensor>();
        batch.to_dlpack<DLManagedTensorVersioned>(nullptr, 0);
        batch.release();
        sum += pipeline.try_pop(batch) ? 1u : 0u;
        batch = pipeline.pop(5);
        for (wavetrain::Batch &each : pipeline.batches())
            sum += each.batch_id();
        for (wavetrain::Batch &each : pipeline.batches(&one, &one + 1))
            sum += each.batch_id();
        for (wavetrain::Batch &each : pipeline.batches([](wavetrain::sample &) { return false; }))
            sum += each.batch_id();
    } catch (const wavetrain::PoolStarved &starved) {
        sum += starved.status().ok() ? 1u : starved.tag() + starved.batch_id() + starved.sample();
        sum += starved.chunk().size() + static_cast<unsigned char>(*starved.stage());
    }
    sum += pipeline.stats().reads_issued;
    pipeline.stats_reset();
    pipeline.forget(nullptr);
    pipeline.pump(0);
    pipeline.reset();
    pipeline.close();
    return sum;
}
#endif
