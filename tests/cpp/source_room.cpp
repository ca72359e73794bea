/* source_room.cpp: what a source borrows and what it holds, and in which order it ends.
 *
 * A room is unmapped as it is freed, so whatever still reads it ends the program. It runs under
 * AddressSanitizer, too, for what the header itself reads.
 */
#include "given.hpp"

#include <sys/mman.h>

#include <array>
#include <vector>

using wavetrain::source_room;
using bytes = std::vector<unsigned char>;

/* A container that has a name could be declared after its source, so it is not a room. A container
 * that is moved in is one. */
template <class T> constexpr bool is_room = std::is_convertible_v<T, source_room>;
static_assert(!is_room<bytes &> && !is_room<const bytes &> && is_room<bytes>);
static_assert(!is_room<unsigned char (&)[8]> && !is_room<std::array<unsigned char, 8> &>);
static_assert(is_room<span<unsigned char>> && is_room<span<unsigned char> &>);
static_assert(is_room<source_room> && !is_room<source_room &> && !is_room<std::vector<char>>);
static_assert(!std::is_copy_constructible_v<source_room>);
static_assert(std::is_nothrow_move_constructible_v<source_room>);
static_assert(std::is_nothrow_move_assignable_v<source_room>);
/* Threads know a source by its address. */
static_assert(!std::is_move_constructible_v<source<fed>>);
static_assert(!std::is_move_assignable_v<source<fed>>);

/* Mapped memory that is unmapped with its owner, and how many owners there are. */
static int rooms_alive;
struct mapped {
    void *held;
    std::size_t bytes;
    explicit mapped(std::uint64_t size)
        : held(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
          bytes(size) {
        CHECK(held != MAP_FAILED);
        rooms_alive++;
    }
    mapped(mapped &&other) noexcept : held(std::exchange(other.held, nullptr)), bytes(other.bytes) {
        rooms_alive++;
    }
    mapped &operator=(mapped &&) = delete;
    ~mapped() {
        rooms_alive--;
        if (held != nullptr)
            munmap(held, bytes);
    }
    unsigned char *data() { return static_cast<unsigned char *>(held); }
    std::size_t size() const { return bytes; }
};

/* Batches of so large images that the library's threads read a copy of one for a while. */
enum { SIDE = 1024 };
static config large() {
    static const wavetrain::field fields[] = {
        wavetrain::field("image", WAVETRAIN_F32, { SIDE, SIDE }),
    };
    config made = table();
    made.use_fields(fields);
    made.thread_mode = WAVETRAIN_THREADS_OWN;
    made.max_host_memory_bytes = 256 << 20;
    return made;
}

static bool give_large(const sample_info &, given_sample &out) {
    static const unsigned char pixels[SIDE * SIDE] = { 7 };
    out.array("image", pixels, { SIDE, SIDE });
    return true;
}

/* The order of a program that knows nothing: a source, its room, and a return from its loop. */
static bool leaves_early(std::uint32_t parallel) {
    const config of = large();
    source_settings settings;
    settings.copy = true;
    settings.expect(0, WAVETRAIN_U8).parallel = parallel;
    source made(&give_large);
    mapped memory(made.need(of, settings));
    error why;
    CHECK_OK(made.open(of, settings, std::move(memory), &why).value(), why);
    for (const batch &each : made)
        return each.as<const float>()[0] > 6;
    return false;
}

/* The library's own threads. */
static config threaded() {
    config made = table();
    made.thread_mode = WAVETRAIN_THREADS_OWN;
    made.max_host_memory_bytes = 32 << 20; /* stacks are larger under a sanitizer */
    return made;
}

static void a_room_that_was_moved_in_outlives_what_reads_it() {
    for (int again = 0; again < 20; again++)
        CHECK(leaves_early(again % 2 == 0 ? 0 : 2));
}

static void a_room_ends_with_its_loader() {
    CHECK(rooms_alive == 0);
    {
        source made(&by_sample);
        const config of = threaded();
        source_settings settings;
        const std::uint64_t need = made.need(of, settings);
        CHECK(made.open(of, settings, mapped(need - 1)) == WAVETRAIN_BUDGET);
        CHECK(rooms_alive == 0);
        CHECK(made.open(of, settings, mapped(need)).ok());
        CHECK(rooms_alive == 1);
        check_next(made, 0);
        CHECK(made.open(of, settings, mapped(need)).ok());
        CHECK(rooms_alive == 1);
        check_next(made, 0);
        made.close();
        CHECK(rooms_alive == 0);
        CHECK(made.open(of, settings, { room, sizeof room }).ok());
        check_epoch(made);
        CHECK(made.open(of, settings, mapped(need)).ok());
        CHECK(rooms_alive == 1);
    }
    CHECK(rooms_alive == 0);
}

static void a_room_moves() {
    source_room first = mapped(3), other;
    unsigned char *const data = first.data();
    CHECK(first.size() == 3 && other.size() == 0 && other.data() == nullptr);
    other = std::move(first);
    CHECK(other.data() == data && other.size() == 3 && rooms_alive == 1);
    source_room &same = other;
    other = std::move(same);
    CHECK(other.data() == data && other.size() == 3 && rooms_alive == 1);
    other = source_room(room, 5);
    CHECK(other.data() == room && other.size() == 5 && rooms_alive == 0);
    const source_room last = std::move(other);
    CHECK(last.data() == room && last.size() == 5);
    /* Memory that lies in the container itself moves with it. */
    source_room inside = std::array<unsigned char, 16>{ { 7 } };
    const source_room moved = std::move(inside);
    CHECK(moved.size() == 16 && moved.data()[0] == 7);
    const unsigned char *const begin = static_cast<const unsigned char *>(
        static_cast<const void *>(&moved));
    CHECK(begin <= moved.data() && moved.data() < begin + sizeof moved);
}

/* A layout is copied as it is set. */
static void letters_of_a_layout_may_go() {
    source made(&by_sample);
    source_settings settings;
    {
        char letters[] = "HWC";
        settings.layout(0, letters);
        letters[2] = 0;
    }
    open(made, settings);
    check_fails(made, WAVETRAIN_RANK, "must have 3 axes, as layout HWC (got 2)");
    error why;
    settings.layout(0, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    CHECK(made.open(table(), settings, { room, sizeof room }, &why) == WAVETRAIN_INVALID);
    CHECK(strstr(why.text, "layout must have as many letters") != nullptr);
    settings.layout(0, nullptr);
    open(made, settings);
    check_epoch(made);
}

int main() {
    make_images();
    a_room_that_was_moved_in_outlives_what_reads_it();
    a_room_ends_with_its_loader();
    a_room_moves();
    letters_of_a_layout_may_go();
    return 0;
}
