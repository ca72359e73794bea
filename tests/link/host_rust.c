/* host_rust.c ARRAY: a host with another Rust static library. */
#include <stdint.h>
#include <stdio.h>

uint64_t host_rust_sum(uint64_t count);
int cube_wavetrain(const char *array);

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    if (host_rust_sum(1000) != 499500 || cube_wavetrain(argv[1]) < 0)
        return 1;
    return host_rust_sum(10) != 45;
}
