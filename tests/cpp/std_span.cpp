/* std_span.cpp: spans of wavetrain are std::span's, wherever they stand. C++20; it is compiled and
 * not run: all facts are of types. */
#include "wavetrain_exceptions.hpp"
#include "wavetrain_source.hpp"

#include <array>
#include <ranges>
#include <span>

template <class From, class To> constexpr bool becomes = std::is_convertible_v<From, To>;

using floats = wavetrain::span<float>;
using constants = wavetrain::span<const float>;
static_assert(becomes<floats, std::span<float>> && becomes<const floats, std::span<float>>);
static_assert(becomes<floats &, std::span<float>> && becomes<const floats &, std::span<float>>);
static_assert(becomes<floats, std::span<const float>>);
static_assert(becomes<floats &, std::span<const float>>);
static_assert(becomes<constants, std::span<const float>>);
static_assert(becomes<const constants &, std::span<const float>>);
/* Never of another type, nor of a length that nobody has checked. */
static_assert(!becomes<constants, std::span<float>> && !becomes<constants &, std::span<float>>);
static_assert(!becomes<floats, std::span<int>> && !becomes<floats, std::span<double>>);
static_assert(!becomes<floats, std::span<float, 4>>);
/* And back. */
static_assert(becomes<std::span<float>, floats> && becomes<std::span<float, 4>, constants>);
static_assert(!becomes<std::span<const float>, floats>);
static_assert(std::ranges::contiguous_range<floats> && std::ranges::sized_range<constants>);

void take(std::span<float> some);
void look(std::span<const float> some);
std::size_t use(wavetrain::batch &batch, const wavetrain::Batch &throwing);
std::size_t use(wavetrain::batch &batch, const wavetrain::Batch &throwing) {
    std::span<float> all = batch.as<float>();
    const std::span<const float> constant = batch.as<const float>();
    const std::span<const float> seen = batch.as<float>();
    const std::span<float> direct(batch.as<float>()), braced{ batch.as<float>() };
    const std::span deduced = batch.as<float>();
    static_assert(std::is_same_v<decltype(deduced), const std::span<float>>);
    all = batch.row<float>(0);
    all = throwing.as<float>();
    take(batch.as<float>());
    look(batch.as<float>());
    look(batch.as<const float>());
    const wavetrain::span<float> ours = batch.field(0).as<float>();
    take(ours);
    look(ours);
    const std::span<const std::uint64_t> tags = batch.tags(), shape = batch.shape();
    const std::span<const wavetrain_status> statuses = batch.statuses();
    return all.size() + constant.size() + seen.size() + direct.size() + braced.size() +
           deduced.size() + tags.size() + shape.size() + statuses.size();
}

/* The same elements. */
inline float numbers[3] = { 1, 2, 3 };
constexpr bool is_all_of_it(std::span<float> some) {
    return some.data() == numbers && some.size() == 3;
}
static_assert(is_all_of_it(floats(numbers)) && is_all_of_it(floats(std::span<float>(numbers))));
