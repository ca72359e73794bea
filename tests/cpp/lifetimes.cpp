/* lifetimes.cpp: what owns something is not copied, and what borrows is not made of a result that
 * is gone at the end of its line. It is compiled and not run: all facts are of types. */
#include "wavetrain_epoch.h"
#include "wavetrain_exceptions.hpp"
#include "wavetrain_source.hpp"
#include "wavetrain_tiles.h"

#include <array>
#include <vector>

namespace {

using wavetrain::field;
using wavetrain::span;

template <class T>
constexpr bool is_copied = std::is_copy_constructible_v<T> || std::is_copy_assignable_v<T>;
template <class T>
constexpr bool moves_quietly =
    std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>;

static_assert(!is_copied<wavetrain::batch> && moves_quietly<wavetrain::batch>);
static_assert(!is_copied<wavetrain::Batch> && moves_quietly<wavetrain::Batch>);
static_assert(!is_copied<wavetrain::loader> && moves_quietly<wavetrain::loader>);
static_assert(!is_copied<wavetrain::Pipeline>);
static_assert(moves_quietly<wavetrain::Pipeline>);
static_assert(!is_copied<wavetrain::source<wavetrain::fed>>);
static_assert(!is_copied<wavetrain::given_sample> && !is_copied<wavetrain::source_room>);
struct give {
    bool operator()(wavetrain::sample &) noexcept { return false; }
};
using stream = wavetrain::stream<give>;
static_assert(!is_copied<stream> && std::is_nothrow_move_constructible_v<stream>);
static_assert(!std::is_move_assignable_v<stream>);
/* A view is copied with what it shows. */
static_assert(is_copied<wavetrain::field_view> && is_copied<span<float>>);
static_assert(is_copied<wavetrain::config> && is_copied<wavetrain::sample>);

template <class Table, class = void> constexpr bool are_fields = false;
template <class Table>
constexpr bool are_fields<Table, std::void_t<decltype(std::declval<wavetrain::config &>()
                                                          .use_fields(std::declval<Table>()))>> =
    true;
static_assert(are_fields<std::vector<field> &> && are_fields<const std::array<field, 2> &>);
static_assert(are_fields<field (&)[3]> && are_fields<span<const field>> && are_fields<span<field>>);
static_assert(!are_fields<std::vector<field>> && !are_fields<const std::vector<field>>);
static_assert(!are_fields<std::array<field, 2>>);

template <class Words, class = void> constexpr bool are_cpus = false;
template <class Words>
constexpr bool are_cpus<Words, std::void_t<decltype(std::declval<wavetrain::config &>()
                                                        .use_cpus(std::declval<Words>()))>> = true;
static_assert(are_cpus<std::vector<std::uint64_t> &> && are_cpus<const std::uint64_t (&)[2]>);
static_assert(!are_cpus<std::vector<std::uint64_t>>);

template <class Steps, class = void> constexpr bool augments = false;
template <class Steps>
constexpr bool augments<Steps, std::void_t<decltype(std::declval<wavetrain::box &>().with(
                                   std::declval<Steps>()))>> = true;
static_assert(augments<wavetrain::augment &> && augments<const wavetrain_augment &>);
static_assert(!augments<wavetrain::augment> && !augments<wavetrain_augment>);

template <class Pipeline, class = void> constexpr bool gives_batches = false;
template <class Pipeline>
constexpr bool
    gives_batches<Pipeline, std::void_t<decltype(std::declval<Pipeline>().batches())>> = true;
static_assert(gives_batches<wavetrain::Pipeline &> && !gives_batches<wavetrain::Pipeline>);

struct fill {
    void operator()(std::uint64_t, wavetrain_place, wavetrain::sample &) noexcept {}
};
template <class Epochs, class = void> constexpr bool gives_samples = false;
template <class Epochs>
constexpr bool gives_samples<Epochs, std::void_t<decltype(std::declval<Epochs>().samples())>> =
    true;
static_assert(gives_samples<wavetrain::epochs<fill> &> && !gives_samples<wavetrain::epochs<fill>>);

} // namespace
