/* source.cpp: what sources give comes out in its order, to its end, and from any place on again.
 *
 * Built without exceptions and RTTI. The program's own malloc counts: a whole life in the caller's
 * blocks, from open to close without threads of the program, calls it never.
 */
#include "given.hpp"

extern "C" std::uint64_t alloc_call_count(void);

/* Runs `test(source)` for every kind of callback, without and with threads. */
template <class Test> static void of_every_kind(const source_settings &given, Test test) {
    for (std::uint32_t threads = 0; threads <= 4; threads += 4) {
        source_settings settings = given;
        settings.parallel = threads;
        const auto run = [&](auto give) {
            source made(give);
            open(made, settings);
            const workers ours(made, threads);
            test(made);
            made.close();
        };
        run(&by_sample);
        run(&by_batch);
        run(next_samples());
        run(next_batches());
    }
}

static void what_is_given_comes_out_in_its_order() {
    source_settings settings;
    settings.prefetch = 2;
    of_every_kind(settings, [](source_core &made) {
        check_epoch(made);
        check_end(made);
        CHECK(made.reset().ok());
        check_epoch(made);
    });
}

static void cycles_begin_again_and_say_so_or_not() {
    source_settings settings;
    settings.cycle = cycle::raise;
    of_every_kind(settings, [](source_core &made) {
        for (int epoch = 0; epoch < 3; epoch++)
            check_epoch(made);
    });
    settings.cycle = cycle::quiet;
    of_every_kind(settings, [](source_core &made) {
        for (std::uint64_t number = 0; number < 3 * EPOCH + 1; number++)
            check_next(made, number % EPOCH);
        CHECK(made.place().epoch == 3 && made.place().iteration == 1);
    });
}

static void loops_over_batches_end_with_the_epoch() {
    source_settings settings;
    settings.cycle = cycle::raise;
    source made(&by_sample);
    open(made, settings);
    for (int epoch = 0; epoch < 2; epoch++) {
        std::uint64_t count = 0;
        for (batch &each : made) {
            check_batch(each, count, each.sample_count());
            count += each.sample_count();
        }
        CHECK(count == COUNT && made.status().ok() && made.error().status == WAVETRAIN_END);
    }
    for (batch &each : made) { /* a batch may be moved out */
        const batch kept = std::move(each);
        check_batch(kept, 0, SIZE);
        break;
    }
}

static void a_callback_is_told_the_epoch() {
    std::uint64_t epochs[12] = {}, asked = 0;
    source made([&](const sample_info &info, given_sample &out) {
        if (info.idx_in_epoch < 6 && asked < 12)
            epochs[asked++] = info.epoch;
        return info.idx_in_epoch < 6 && by_sample(info, out);
    });
    source_settings settings;
    settings.cycle = cycle::quiet;
    open(made, settings);
    batch found;
    for (int number = 0; number < 4; number++)
        CHECK(made.next(found).ok());
    for (std::uint64_t number = 0; number < 12; number++)
        CHECK(epochs[number] == number / 6);
}

static void a_cycle_of_nothing_ends() {
    for (const cycle each : { cycle::no, cycle::quiet, cycle::raise }) {
        source_settings settings;
        settings.cycle = each;
        source nothing([](const sample_info &, given_sample &) { return false; });
        open(nothing, settings);
        check_end(nothing);
        check_end(nothing);
        /* Two samples, of which no batch is made. */
        source two([](const sample_info &info, given_sample &out) {
            return info.idx_in_epoch < 2 && by_sample(info, out);
        });
        config dropping = table();
        dropping.drop_last = 1;
        open(two, settings, dropping);
        check_end(two);
        check_end(two);
    }
}

static void a_last_batch_that_is_not_full_may_be_dropped() {
    config dropping = table();
    dropping.drop_last = 1;
    source_settings settings;
    settings.cycle = cycle::quiet;
    source made(&by_batch);
    open(made, settings, dropping);
    for (std::uint64_t number = 0; number < 6; number++)
        check_next(made, number % 2);
    settings.cycle = cycle::no;
    open(made, settings, dropping);
    check_next(made, 0);
    check_next(made, 1);
    check_end(made);
}

/* An endless callback whose every batch is dropped. */
static void a_wait_ends_where_all_is_dropped() {
    config dropping = table();
    dropping.drop_last = 1;
    source made([](const batch_info &, given_batch &out) {
        give_sample(out.sample(0), 1);
        return true;
    });
    open(made, {}, dropping);
    batch found;
    CHECK(made.try_next(found) == WAVETRAIN_AGAIN);
    CHECK(made.next(found, SECOND_NS / 100) == WAVETRAIN_STARVED);
}

/* All batches behind any of the first eight. */
static void sources_go_on_where_others_were() {
    for (const cycle each : { cycle::raise, cycle::quiet }) {
        source_settings settings;
        settings.cycle = each;
        const auto run = [&](source_core &made, std::uint64_t first, std::uint64_t limit) {
            for (std::uint64_t number = first; number < limit; number++) {
                if (each == cycle::raise && number % EPOCH == 0 && number != 0)
                    check_end(made);
                check_next(made, number % EPOCH);
            }
        };
        for (std::uint64_t count = 0; count < 8; count++)
            of_every_kind(settings, [&](source_core &made) {
                run(made, 0, count);
                const source_place place = made.place();
                static_assert(std::is_trivially_copyable_v<source_place>);
                CHECK(made.reset().ok());
                check_next(made, 0);
                error why;
                CHECK_OK(made.go_to(place, &why).value(), why);
                CHECK(made.place().epoch == place.epoch && made.place().samples == place.samples);
                CHECK(made.place().iteration == place.iteration);
                run(made, count, 8);
            });
    }
}

static void what_has_no_place_says_so() {
    source once([at = 0](given_sample &out) mutable {
        give_sample(out, static_cast<std::uint64_t>(at));
        return at++ < 5;
    });
    source<fed> pushed;
    source any(&by_sample);
    open(any);
    error why;
    CHECK(any.go_to({ 0, UINT64_MAX, 0 }, &why) == WAVETRAIN_INVALID);
    CHECK(strstr(why.text, "no place of a source has such numbers") != nullptr);
    CHECK(any.go_to({ 7, 1, 4 }).ok());
    check_next(any, 1);
    CHECK(any.place().epoch == 7 && any.place().samples == 2 * SIZE);
    any.close();
    open(once);
    CHECK(once.go_to(once.place(), &why) == WAVETRAIN_INVALID);
    CHECK(strstr(why.text, "has no place to go to") != nullptr);
    once.close();
    open(pushed);
    CHECK(pushed.go_to(pushed.place()) == WAVETRAIN_INVALID);
}

static status feed_batch(source<fed> &to, std::uint64_t iteration, std::uint64_t timeout_ns,
                         error *why = nullptr) {
    return to.feed([&](given_batch &out) { return by_batch({ iteration, 0 }, out); }, timeout_ns,
                   why);
}

static void what_is_fed_comes_out() {
    source made;
    source_settings settings;
    settings.blocking = false;
    settings.prefetch = 3;
    open(made, settings);
    check_fails(made, WAVETRAIN_AGAIN, "not there yet: nothing was fed");
    for (std::uint64_t iteration = 0; iteration < EPOCH; iteration++)
        CHECK(feed_batch(made, iteration, 0).ok());
    CHECK(made.feed_end().ok());
    error why;
    CHECK(feed_batch(made, 0, 0, &why) == WAVETRAIN_INVALID);
    CHECK(strstr(why.text, "behind feed_end") != nullptr);
    check_epoch(made);
    check_end(made);
    CHECK(made.reset().ok() && feed_batch(made, 1, 0).ok());
    batch found;
    CHECK(made.next(found).ok());
    check_batch(found, SIZE, SIZE, 0); /* numbers begin again */
    CHECK(made.next(found) == WAVETRAIN_AGAIN);
}

static void a_feed_waits_for_room_and_next_for_what_is_fed() {
    source made;
    config of = table();
    of.pop_timeout_ns = SECOND_NS / 100;
    open(made, {}, of);
    check_fails(made, WAVETRAIN_STARVED, "nothing was fed");
    std::uint64_t count = 0;
    error why;
    while (feed_batch(made, 0, 0, &why).ok())
        count++;
    CHECK(count == 3 && strstr(why.text, "there is no room") != nullptr);
    CHECK(feed_batch(made, 0, WAVETRAIN_POP_TIMEOUT) == WAVETRAIN_AGAIN);
    batch found;
    CHECK(made.next(found, LONG_NS).ok() && feed_batch(made, 1, 0).ok());
    const std::uint64_t fed_numbers[] = { 0, 0, 0, SIZE };
    for (std::uint64_t number = 1; number < 4; number++) {
        CHECK(made.next(found, LONG_NS).ok());
        check_batch(found, fed_numbers[number], SIZE, number * SIZE);
    }
}

/* Feeds all batches of an epoch, from a thread of its own. */
static void *feed_an_epoch(void *to) {
    source<fed> &made = *static_cast<source<fed> *>(to);
    for (std::uint64_t iteration = 0; iteration < EPOCH; iteration++)
        CHECK(feed_batch(made, iteration, LONG_NS).ok());
    CHECK(made.feed_end().ok());
    return nullptr;
}

static void threads_feed_what_another_takes() {
    source made;
    open(made);
    for (int epoch = 0; epoch < 20; epoch++) {
        pthread_t feeder;
        CHECK(pthread_create(&feeder, nullptr, &feed_an_epoch, &made) == 0);
        check_epoch(made);
        pthread_join(feeder, nullptr);
        CHECK(made.reset().ok());
    }
    /* Each of several feeds its batch once. */
    struct one {
        source<fed> *to;
        std::uint64_t iteration;
    };
    one given[EPOCH];
    pthread_t feeders[EPOCH];
    for (std::uint64_t number = 0; number < EPOCH; number++) {
        given[number] = { &made, number };
        const auto feed = [](void *mine) -> void * {
            const one &what = *static_cast<one *>(mine);
            CHECK(feed_batch(*what.to, what.iteration, LONG_NS).ok());
            return nullptr;
        };
        CHECK(pthread_create(&feeders[number], nullptr, feed, &given[number]) == 0);
    }
    std::uint64_t seen = 0;
    batch found;
    while (seen != 7) {
        CHECK(made.next(found).ok());
        const std::int64_t first = found.field("label").as<const std::int64_t>()[0];
        CHECK(first % SIZE == 0 && (seen >> (first / SIZE)) % 2 == 0);
        seen |= std::uint64_t(1) << (first / SIZE);
    }
    for (const pthread_t feeder : feeders)
        pthread_join(feeder, nullptr);
}

static void the_last_batch_may_be_repeated() {
    config of = table();
    of.pop_timeout_ns = SECOND_NS / 100;
    for (const bool blocking : { true, false }) {
        source made;
        source_settings settings;
        settings.repeat_last = true;
        settings.blocking = blocking;
        open(made, settings, of);
        check_fails(made, blocking ? WAVETRAIN_STARVED : WAVETRAIN_AGAIN, "nothing was fed");
        std::uint64_t tag = 0;
        batch found;
        for (int round = 0; round < 3; round++) {
            for (const std::uint64_t iteration : { 0, 1 }) {
                CHECK(feed_batch(made, iteration, 0).ok());
                for (std::uint64_t times = 0; times < 2 + iteration; times++, tag += SIZE) {
                    CHECK(made.next(found, LONG_NS).ok());
                    check_batch(found, iteration * SIZE, SIZE, tag);
                }
            }
        }
        CHECK(made.feed_end().ok());
        check_end(made);
        CHECK(made.reset().ok() && made.try_next(found) == WAVETRAIN_AGAIN);
    }
}

/* A short batch that is dropped is not what is repeated. */
static void what_is_dropped_is_not_repeated() {
    config of = table();
    of.drop_last = 1;
    source made;
    source_settings settings;
    settings.repeat_last = true;
    open(made, settings, of);
    batch found;
    CHECK(feed_batch(made, EPOCH - 1, 0).ok() && made.try_next(found) == WAVETRAIN_AGAIN);
    CHECK(feed_batch(made, 1, 0).ok() && made.try_next(found).value() != WAVETRAIN_END);
    while (!found)
        CHECK(made.next(found).ok());
    check_batch(found, SIZE, SIZE, 0);
    CHECK(feed_batch(made, EPOCH - 1, 0).ok() && made.next(found).ok());
    check_batch(found, SIZE, SIZE, SIZE);
}

/* Open, all that works without threads of the program, and close. */
template <class Source, class Run>
static void lives_without_allocation(Source &made, const source_settings &settings, Run run) {
    alignas(4096) static unsigned char block[15 << 20];
    const std::uint64_t before = alloc_call_count();
    config of = table();
    of.use_block(block, sizeof block);
    open(made, settings, of);
    run();
    made.close();
    CHECK(alloc_call_count() == before);
}

static void a_whole_life_takes_no_allocation() {
    source_settings settings;
    settings.cycle = cycle::raise;
    settings.copy = true;
    for (std::uint32_t threads = 0; threads < 2; threads++) {
        settings.parallel = threads;
        source made(&by_sample);
        lives_without_allocation(made, settings, [&] {
            for (int epoch = 0; epoch < 3; epoch++)
                check_epoch(made);
            const source_place place = made.place();
            CHECK(made.reset().ok() && made.go_to(place).ok());
            check_epoch(made);
        });
    }
    source_settings repeats;
    repeats.repeat_last = true;
    source pushed;
    lives_without_allocation(pushed, repeats, [&] {
        batch found;
        for (std::uint64_t number = 0; number < 20; number++) {
            CHECK(feed_batch(pushed, number % 2, LONG_NS).ok());
            CHECK(pushed.next(found).ok() && pushed.next(found).ok());
        }
    });
}

int main() {
    make_images();
    what_is_given_comes_out_in_its_order();
    cycles_begin_again_and_say_so_or_not();
    loops_over_batches_end_with_the_epoch();
    a_callback_is_told_the_epoch();
    a_cycle_of_nothing_ends();
    a_last_batch_that_is_not_full_may_be_dropped();
    a_wait_ends_where_all_is_dropped();
    sources_go_on_where_others_were();
    what_has_no_place_says_so();
    what_is_fed_comes_out();
    a_feed_waits_for_room_and_next_for_what_is_fed();
    threads_feed_what_another_takes();
    the_last_batch_may_be_repeated();
    what_is_dropped_is_not_repeated();
    a_whole_life_takes_no_allocation();
    return 0;
}
