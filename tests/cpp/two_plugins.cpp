/* two_plugins.cpp ONE TWO CUBE: loads two plugins with a copy of wavetrain each, beside each other
 * or with the names of the first in front of the second's, uses them in turn, and unloads them.
 *
 * It has libstdc++ of its own: one that came with a plugin would keep that plugin, whatever is in
 * it. */
#include "check.h"

#include <dlfcn.h>

struct plugin {
    const char *path;
    void *library;
    wavetrain_loader (*keep)(const char *cube);
    size_t (*give_back)(wavetrain_loader loader);
    size_t (*kept)(void);
    wavetrain_status (*ask)(wavetrain_loader loader);
    int (*throws)(void);
    wavetrain_loader loader;
};

template <class Function>
static void symbol(void *library, const char *name, Function *&target) {
    target = reinterpret_cast<Function *>(dlsym(library, name));
    CHECK(target != nullptr);
}

static plugin loaded(const char *path, int scope) {
    plugin p{};
    p.path = path;
    p.library = dlopen(path, RTLD_NOW | scope);
    if (p.library == nullptr)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(p.library != nullptr);
    symbol(p.library, "plugin_keep", p.keep);
    symbol(p.library, "plugin_give_back", p.give_back);
    symbol(p.library, "plugin_kept", p.kept);
    symbol(p.library, "plugin_ask", p.ask);
    symbol(p.library, "plugin_throws", p.throws);
    CHECK(p.throws() == 1);
    return p;
}

static void unload(plugin *p) {
    CHECK(dlclose(p->library) == 0);
    CHECK(dlopen(p->path, RTLD_NOW | RTLD_NOLOAD) == nullptr);
}

static void each_closes_its_own_and_goes(char **paths, const char *cube, int scope) {
    plugin one = loaded(paths[0], scope), two = loaded(paths[1], scope);
    one.loader = one.keep(cube);
    if (scope == RTLD_LOCAL) {
        CHECK(one.kept() == 1 && two.kept() == 0);
        CHECK_STATUS(two.ask(one.loader), WAVETRAIN_SHUTDOWN);
    }
    two.loader = two.keep(cube);
    CHECK(one.loader != two.loader);
    /* Of a copy that was unloaded, perhaps from the same addresses. */
    static wavetrain_loader before[2];
    CHECK_STATUS(one.ask(before[0]), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(two.ask(before[1]), WAVETRAIN_SHUTDOWN);
    before[0] = one.loader, before[1] = two.loader;
    CHECK_STATUS(one.ask(one.loader), WAVETRAIN_OK);
    CHECK_STATUS(two.ask(two.loader), WAVETRAIN_OK);
    if (scope == RTLD_LOCAL) {
        CHECK_STATUS(one.ask(two.loader), WAVETRAIN_SHUTDOWN);
        CHECK_STATUS(two.ask(one.loader), WAVETRAIN_SHUTDOWN);
        CHECK(one.give_back(one.loader) == 0);
    } else {
        one.give_back(one.loader);
    }
    CHECK_STATUS(one.ask(one.loader), WAVETRAIN_SHUTDOWN);
    CHECK_STATUS(two.ask(two.loader), WAVETRAIN_OK);
    CHECK(two.kept() == 1);
    CHECK(two.give_back(two.loader) == 0);
    CHECK_STATUS(two.ask(two.loader), WAVETRAIN_SHUTDOWN);
    unload(&two);
    unload(&one);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    for (int turn = 0; turn < 3; turn++) {
        each_closes_its_own_and_goes(argv + 1, argv[3], RTLD_LOCAL);
        each_closes_its_own_and_goes(argv + 1, argv[3], RTLD_GLOBAL);
    }
    return 0;
}
