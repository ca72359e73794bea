/* odr_one.cpp, odr_two.cpp: the headers in two translation units of one program. */
#include "wavetrain_exceptions.hpp"
#include "wavetrain_source.hpp"

#include <cstdio>

const void *address_in_two();
wavetrain::status open_in_two(wavetrain::loader &out);
wavetrain::status open_in_two(wavetrain::source_core &out);

int main() {
    wavetrain::loader loader;
    wavetrain::source pushed;
    if (open_in_two(pushed) != WAVETRAIN_BUDGET || pushed.feed_end() != WAVETRAIN_SHUTDOWN)
        return 2;
    const void *here = &wavetrain::close_timeout_ns;
    if (here != address_in_two() || open_in_two(loader) != WAVETRAIN_INVALID || loader)
        return 1;
    std::puts("one program");
    return 0;
}
