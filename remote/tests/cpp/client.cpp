// client.cpp: opens a client, reads itself through the hooks, moves and closes. Exit 0: all held.
#include "wavetrain_remote.hpp"

#include <cstdio>
#include <cstring>

// Stands in for the library, which this program does not link.
extern "C" wavetrain_status wavetrain_read_done(wavetrain_loader, uint64_t, int64_t) {
    return WAVETRAIN_OK;
}

static int failed(const char *what) {
    std::fprintf(stderr, "%s\n", what);
    return 1;
}

int main(int, char **argv) {
    wavetrain::remote::config settings;
    wavetrain::remote::client none, client;
    char why[200];
    settings.n_threads = 0;
    if (wavetrain::remote::client::open(settings, client, why) || !std::strstr(why, "n_threads"))
        return failed("a wrong config is refused with a text");
    settings.n_threads = 1;
    if (!wavetrain::remote::client::open(settings, client, why))
        return failed(why);
    wavetrain::remote::client moved = std::move(client);
    if (client || !moved || none)
        return failed("a move leaves nothing");
    wavetrain_config config{};
    if (!moved.attach(config) || none.attach(config) || !config.files.read_async)
        return failed("hooks are filled");
    unsigned char magic[4];
    if (config.files.size(config.files.user, argv[0]) < 4 ||
        config.files.read(config.files.user, argv[0], 0, magic, 4) != 0 ||
        std::memcmp(magic, "\x7f" "ELF", 4) != 0)
        return failed("this program is read");
    if (config.files.size(config.files.user, "/no/such/file") != WAVETRAIN_FILE_ABSENT)
        return failed("absent is absent");
    if (config.files.size(config.files.user, "odd://a") != WAVETRAIN_FILE_FAILED ||
        moved.last_error(why) == 0 || !std::strstr(why, "odd"))
        return failed("a failure has a text");
    if (moved.stats().sizes != 3 || none.stats().sizes != 0)
        return failed("figures count");
    moved.cancel();
    moved.close();
    return moved ? failed("closed") : 0;
}
