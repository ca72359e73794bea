/* odr_one.cpp, odr_two.cpp: both headers in two translation units of one program. */
#include "wavetrain_exceptions.hpp"

#include <cstdio>

const void *address_in_two();
wavetrain::status open_in_two(wavetrain::loader &out);

int main() {
    wavetrain::loader loader;
    const void *here = &wavetrain::close_timeout_ns;
    if (here != address_in_two() || open_in_two(loader) != WAVETRAIN_INVALID || loader)
        return 1;
    std::puts("one program");
    return 0;
}
