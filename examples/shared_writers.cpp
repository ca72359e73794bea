/* shared_writers.cpp: processes write samples into shared memory, and batches are made of it.
 *
 *     tools/archive.sh out
 *     c++ -std=c++17 -Iout examples/shared_writers.cpp out/libwavetrain.a -lpthread -ldl -o writers
 *     ./writers [NUMBER]       the writer of that sample is killed, to show what the loop gets then
 *
 * Each writer is forked before the loader is opened, so it has none of its threads. The samples lie
 * in a memfd, which has no name: nothing is left, whoever dies. A slot holds one sample. It is
 * written again only after the batch of its last sample was popped, because the loader reads it
 * until then. No sample is copied on its way, but from its slot into the batch.
 */
#include "wavetrain_source.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>
#include <vector>

constexpr std::uint32_t writer_count = 2, batch_size = 8;
constexpr std::uint64_t edge = 64, sample_bytes = edge * edge, sample_count = 200;
/* Batches in slots: two that the loader has, one that is popped, one that is written. */
constexpr std::uint64_t slot_count = 4 * batch_size;

/* Stands for a simulator, or a decoder that knows no threads. */
static unsigned char pixel(std::uint64_t number, std::uint64_t place) {
    return static_cast<unsigned char>(number * 31 + place * 7);
}

/* The life of a writer: numbers of samples come in, and go back when they are written. */
[[noreturn]] static void write_samples(int sock, unsigned char *slots, std::uint64_t dies_at,
                                       pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* it never outlives the program */
    if (getppid() != parent)
        _exit(1);
    std::uint64_t number;
    while (recv(sock, &number, sizeof number, 0) == sizeof number) {
        if (number == dies_at)
            raise(SIGKILL);
        unsigned char *slot = slots + number % slot_count * sample_bytes;
        for (std::uint64_t place = 0; place < sample_bytes; place++)
            slot[place] = pixel(number, place);
        if (send(sock, &number, sizeof number, MSG_NOSIGNAL) != sizeof number)
            break;
    }
    _exit(0);
}

/* The memory of all slots, which has its pages now and keeps them. */
static unsigned char *shared_slots() {
    const std::size_t size = slot_count * sample_bytes;
    const int fd = memfd_create("samples", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || posix_fallocate(fd, 0, static_cast<off_t>(size)) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        return nullptr;
    void *at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd); /* the mapping stays, here and in each fork */
    return at == MAP_FAILED ? nullptr : static_cast<unsigned char *>(at);
}

struct writers {
    unsigned char *slots;
    int socks[writer_count];

    bool start(std::uint64_t dies_at) {
        const pid_t parent = getpid();
        for (std::uint32_t each = 0; each < writer_count; each++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
                return false;
            const pid_t child = fork();
            if (child == 0) {
                for (std::uint32_t other = 0; other < each; other++)
                    close(socks[other]);
                close(pair[0]);
                write_samples(pair[1], slots, dies_at, parent);
            }
            close(pair[1]);
            socks[each] = pair[0];
            if (child < 0)
                return false;
        }
        return true;
    }
    /* Has a batch written, whose slots are free. */
    void ask(std::uint64_t batch) {
        const std::uint64_t first = batch * batch_size;
        for (std::uint64_t n = first; n < first + batch_size && n < sample_count; n++)
            if (send(socks[n % writer_count], &n, sizeof n, MSG_NOSIGNAL) != sizeof n)
                return; /* it has died: whoever waits for it hears of that */
    }
    /* A call of the source: waits for the writer of the sample. */
    wavetrain::status give(std::uint64_t number, wavetrain::given_sample &out) {
        if (number >= sample_count)
            return WAVETRAIN_END;
        std::uint64_t written;
        const int sock = socks[number % writer_count];
        ssize_t got;
        do /* a writer that dies with unread requests resets: what it sent before is read next */
            got = recv(sock, &written, sizeof written, 0);
        while (got < 0 && (errno == ECONNRESET || errno == EINTR));
        if (got != sizeof written || written != number)
            return out.fail(WAVETRAIN_IO, "the writer of this sample has died");
        const unsigned char *slot = slots + number % slot_count * sample_bytes;
        out.array("image", slot, { edge, edge }).value("label", number);
        return WAVETRAIN_OK;
    }
};

static bool is_whole(const wavetrain::batch &batch, std::uint64_t first) {
    const auto pixels = batch.as<const unsigned char>();
    const auto labels = batch.field("label").as<const std::int64_t>();
    for (std::uint64_t at = 0; at < pixels.size(); at++)
        if (pixels[at] != pixel(first + at / sample_bytes, at % sample_bytes))
            return false;
    for (std::uint32_t row = 0; row < batch.sample_count(); row++)
        if (labels[row] != static_cast<std::int64_t>(first + row))
            return false;
    return true;
}

int main(int argc, char **argv) {
    writers all = { shared_slots(), {} };
    const std::uint64_t dies_at = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : sample_count;
    if (all.slots == nullptr || !all.start(dies_at)) /* before the loader has threads */
        return std::perror("writers"), 1;
    const wavetrain::field fields[] = { wavetrain::field("image", WAVETRAIN_U8, { edge, edge }),
                                        wavetrain::field("label", WAVETRAIN_I64) };
    wavetrain::config config;
    config.use_fields(fields).samples_per_batch = batch_size;
    wavetrain::source_settings settings; /* copy = false: slots are borrowed */
    std::uint64_t batches = 0, samples = 0;
    {
        wavetrain::source stream(
            [&](const wavetrain::sample_info &info, wavetrain::given_sample &out) {
                return all.give(info.idx_in_epoch, out);
            });
        std::vector<unsigned char> room(stream.need(config, settings));
        stream.open(config, settings, std::move(room)).ignore(); /* see status() */
        for (std::uint64_t batch = 0; batch < slot_count / batch_size; batch++)
            all.ask(batch);
        for (const wavetrain::batch &batch : stream) {
            if (!is_whole(batch, samples))
                return std::fputs("a batch has other bytes than were written\n", stderr), 1;
            samples += batch.sample_count();
            all.ask(slot_count / batch_size + batches++); /* into the slots of this batch */
        }
        if (!stream.status())
            std::printf("after %llu samples: %s\n", static_cast<unsigned long long>(samples),
                        stream.error().text);
    }
    for (const int sock : all.socks)
        close(sock); /* which ends the writers */
    while (wait(nullptr) > 0)
        continue;
    std::printf("%llu samples by %u processes\n", static_cast<unsigned long long>(samples),
                writer_count);
    return dies_at >= sample_count && samples != sample_count;
}
