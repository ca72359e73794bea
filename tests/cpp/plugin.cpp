/* plugin.cpp - a shared object with a copy of wavetrain in it, made twice and loaded side by side
 * by two_plugins.cpp. Compiled as most are: without -fvisibility=hidden.
 */
#include "check.h"
#include "wavetrain.hpp"
#include "wavetrain_exceptions.hpp"

#include <algorithm>

static wavetrain_batch kept;

/* A loader whose object goes while a batch is held; its handle. */
extern "C" wavetrain_loader plugin_keep(const char *cube) {
    wavetrain::config config;
    config.shape({ CHUNK, CHUNK, CHUNK });
    config.n_io_threads = config.n_decode_threads = 1;
    config.keep_loaded = 0; /* this plugin closes all its loaders before it goes */
    wavetrain::loader loader;
    wavetrain::error why;
    CHECK_OK(wavetrain::loader::open(config, loader, &why).value(), why);
    CHECK(loader.push({ cube, { 0, 0, 0 }, { CHUNK, CHUNK, CHUNK } }).ok());
    wavetrain::batch batch;
    CHECK_OK(loader.pop(batch, WAVETRAIN_FOREVER, &why).value(), why);
    CHECK(std::max(wavetrain::close_timeout_ns, std::uint64_t(1)) > 1); /* by reference */
    kept = batch.detach();
    return loader.handle();
}

/* Gives the batch back; how many loaders are kept then. */
extern "C" size_t plugin_give_back(wavetrain_loader loader) {
    CHECK_STATUS(wavetrain_release(loader, kept, NULL), WAVETRAIN_OK);
    return wavetrain::loader::close_kept();
}

extern "C" size_t plugin_kept(void) { return wavetrain::loader::close_kept(); }

/* What a call on a loader says here. */
extern "C" wavetrain_status plugin_ask(wavetrain_loader loader) {
    wavetrain::stats_view stats;
    return wavetrain_stats(loader, &stats);
}

/* So that the throwing header's code is in it, too. */
extern "C" int plugin_throws(void) {
    try {
        wavetrain::Pipeline pipeline{ wavetrain::config() };
    } catch (const wavetrain::InvalidArgument &) {
        return 1;
    }
    return 0;
}
