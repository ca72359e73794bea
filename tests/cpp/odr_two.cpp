/* See odr_one.cpp. */
#include "wavetrain.hpp"
#include "wavetrain_exceptions.hpp"
#include "wavetrain_source.hpp"

const void *address_in_two();
wavetrain::status open_in_two(wavetrain::loader &out);

const void *address_in_two() {
    return &wavetrain::close_timeout_ns;
}

wavetrain::status open_in_two(wavetrain::loader &out) {
    return wavetrain::loader::open(wavetrain::config(), out);
}

wavetrain::status open_in_two(wavetrain::source_core &out);
wavetrain::status open_in_two(wavetrain::source_core &out) {
    return out.open(wavetrain::config(), {}, {});
}
