/* plugin.c PLUGIN ARRAY: a program that loads wavetrain as a plugin and unloads it too early.
 *
 * With keep_loaded = 1 threads run on, a tensor is deleted and the loader closed after dlclose.
 * With 0 the plugin is gone once the program has closed its loader and unloads it.
 */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>

/* As dlpack.h has it before 1.0. */
struct DLManagedTensor {
    struct {
        void *data;
        int32_t device[2], rank;
        uint8_t dtype[4];
        int64_t *shape, *strides;
        uint64_t byte_offset;
    } dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *);
};

#define OF(plugin, name) __typeof__(&name) name##_of = (__typeof__(&name))dlsym(plugin, #name)

int main(int argc, char **argv) {
    enum { BOX = 20 };
    CHECK(argc == 3);
    for (uint32_t keeps = 0; keeps < 2; keeps++) {
        void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        CHECK(plugin != NULL);
        OF(plugin, wavetrain_config_default);
        OF(plugin, wavetrain_open);
        OF(plugin, wavetrain_push);
        OF(plugin, wavetrain_pop);
        OF(plugin, wavetrain_release);
        OF(plugin, wavetrain_dlpack_legacy);
        OF(plugin, wavetrain_close);
        wavetrain_config config;
        CHECK_STATUS(wavetrain_config_default_of(&config, sizeof config), WAVETRAIN_OK);
        CHECK(config.keep_loaded == 1);
        config.keep_loaded = keeps;
        config.sample_rank = 3;
        for (int axis = 0; axis < 3; axis++)
            config.sample_shape[axis] = BOX;
        config.n_io_threads = config.n_decode_threads = 2;
        wavetrain_error error = { .struct_size = sizeof error };
        wavetrain_loader loader;
        wavetrain_batch batch;
        struct DLManagedTensor *tensor;
        CHECK_OK(wavetrain_open_of(&config, &loader, &error), error);
        const wavetrain_box box = {
            .uri = argv[2], .uri_bytes = strlen(argv[2]), .rank = 3, .end = { BOX, BOX, BOX }
        };
        wavetrain_sample sample = { &box, 1, sizeof box, 1 };
        size_t taken;
        CHECK_STATUS(wavetrain_push_of(loader, &sample, 1, sizeof sample, 0, &taken), WAVETRAIN_OK);
        CHECK_OK(wavetrain_pop_of(loader, LONG_NS, &batch, &error), error);
        CHECK_STATUS(wavetrain_dlpack_legacy_of(loader, batch, 0, NULL, &tensor), WAVETRAIN_OK);
        CHECK_STATUS(wavetrain_release_of(loader, batch, NULL), WAVETRAIN_OK);
        if (keeps == 1) {
            CHECK(dlclose(plugin) == 0);
            void *still = dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD);
            CHECK(still != NULL && dlclose(still) == 0);
        }
        tensor->deleter(tensor);
        CHECK_STATUS(wavetrain_close_of(loader, LONG_NS, NULL), WAVETRAIN_OK);
        if (keeps == 0) {
            CHECK(dlclose(plugin) == 0);
            CHECK(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL);
        }
    }
    return 0;
}
