/* See odr_one.cpp. */
#include "wavetrain.hpp"
#include "wavetrain_exceptions.hpp"

const void *address_in_two();
wavetrain::status open_in_two(wavetrain::loader &out);

const void *address_in_two() {
    return &wavetrain::close_timeout_ns;
}

wavetrain::status open_in_two(wavetrain::loader &out) {
    return wavetrain::loader::open(wavetrain::config(), out);
}
