/* node.cpp ARRAY [CONSUMERS]: one loader for the processes of a node.
 *
 *     tools/archive.sh out
 *     c++ -std=c++17 -Iout examples/node.cpp out/libwavetrain.a -lpthread -ldl -o node
 *     ./node ARRAY 4
 *
 * This process is the owner: it opens the loader and pushes. It starts itself once for each
 * consumer, as `node NAME K N`, which attaches by that name. Each prints how many samples it took
 * and the sum of their tags; the owner adds these up, so that a sample that is lost or comes twice
 * is an error. An owner that fails ends at once, and its consumers with it, which would wait for it
 * otherwise.
 */
#include "wavetrain.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

const std::uint64_t minute = 60'000'000'000, samples = 100;

int fail(const char *why) { return std::fprintf(stderr, "%s\n", why), 1; }

/* Takes batches until END. */
int consume(const char *name, std::uint32_t number) {
    wavetrain::loader loader;
    wavetrain::error why;
    if (!wavetrain::loader::attach(name, number, minute, loader, &why))
        return fail(why.text);
    unsigned long count = 0, sum = 0;
    wavetrain::batch batch;
    wavetrain::status got;
    while ((got = loader.pop(batch, minute, &why))) {
        for (std::uint64_t tag : batch.tags())
            count += 1, sum += tag;
        batch.release().ignore(); /* its slot is the owner's again */
    }
    if (got.value() != WAVETRAIN_END)
        return fail(why.text);
    std::printf("%lu %lu\n", count, sum);
    return 0;
}

/* Starts this program as a consumer, which ends with this process; its output can be read. */
std::FILE *start(const char *program, const std::string &name, std::uint32_t number,
                 std::uint32_t world) {
    const std::string words[] = { std::to_string(number), std::to_string(world) };
    int ends[2];
    if (pipe(ends) != 0)
        return nullptr;
    const pid_t owner = getpid(), child = fork(); /* nothing is open: no thread is lost */
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != owner)
            _exit(127); /* the owner ended before that */
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]), close(ends[1]);
        execl(program, program, name.c_str(), words[0].c_str(), words[1].c_str(), nullptr);
        _exit(127);
    }
    close(ends[1]);
    return child < 0 ? nullptr : fdopen(ends[0], "r");
}

/* Pushes all, and waits until all was taken. */
int own(const char *uri, const char *name, std::uint32_t world) {
    static wavetrain::scratch room;
    wavetrain::array_view array;
    wavetrain::error why;
    if (!wavetrain::array_info(uri, array, room, &why))
        return fail(why.text);
    std::uint64_t extents[WAVETRAIN_RANK_MAX];
    std::int64_t begin[WAVETRAIN_RANK_MAX] = {}, end[WAVETRAIN_RANK_MAX];
    for (std::uint32_t axis = 0; axis < array.rank; axis++) {
        extents[axis] = array.shape[axis] / 2;
        end[axis] = std::int64_t(extents[axis]);
    }
    wavetrain::config config;
    config.shape({ extents, array.rank });
    config.samples_per_batch = 4, config.drop_last = 0;
    config.share_name = name, config.share_consumers = world;
    wavetrain::loader loader;
    if (!config.fit(uri, room, &why) || !wavetrain::loader::open(config, loader, &why))
        return fail(why.text);
    for (std::uint64_t tag = 0; tag < samples; tag++) {
        wavetrain::sample sample = wavetrain::box(uri, std::strlen(uri), { begin, array.rank },
                                                  { end, array.rank });
        sample.tag = tag;
        if (!loader.push(sample, minute))
            return fail("a sample was not taken");
    }
    if (!loader.flush())
        return fail("no flush");
    wavetrain::batch none;
    return loader.pop(none, minute, &why).value() == WAVETRAIN_END ? 0 : fail(why.text);
}

int main(int argc, char **argv) {
    if (argc == 4)
        return consume(argv[1], std::uint32_t(std::atoi(argv[2])));
    const std::uint32_t world = argc > 2 ? std::uint32_t(std::atoi(argv[2])) : 4;
    if (argc < 2 || world == 0)
        return fail("usage: node ARRAY [CONSUMERS]");
    const std::string name = "node." + std::to_string(getpid());
    std::vector<std::FILE *> consumers;
    for (std::uint32_t number = 0; number < world; number++)
        consumers.push_back(start(argv[0], name, number, world));
    int result = own(argv[1], name.c_str(), world);
    if (result != 0)
        return result;
    unsigned long count = 0, sum = 0;
    for (std::uint32_t number = 0; number < world; number++) {
        unsigned long more = 0, tags = 0;
        if (!consumers[number] || std::fscanf(consumers[number], "%lu %lu", &more, &tags) != 2)
            result = fail("a consumer ended before the end");
        std::printf("consumer %u: %lu samples\n", number, more);
        count += more, sum += tags;
    }
    for (int ended; wait(&ended) > 0;)
        result |= ended != 0;
    if (count != samples || sum != samples * (samples - 1) / 2)
        return fail("samples are lost, or came twice");
    std::printf("%lu samples, each once\n", count);
    return result;
}
