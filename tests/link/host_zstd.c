/* host_zstd.c ARRAY: a host that links the system's zstd, and prints which one it gets.
 *
 * Without an argument only the host's part runs.
 */
#include <stdio.h>
#include <string.h>

unsigned ZSTD_versionNumber(void);
unsigned ZSTD_isError(size_t code);
size_t ZSTD_compress(void *target, size_t room, const void *source, size_t bytes, int level);
size_t ZSTD_decompress(void *target, size_t room, const void *source, size_t bytes);
int cube_wavetrain(const char *array);

/* The version of the zstd that the host calls, which gives back what it was given. */
static unsigned host(void) {
    static char source[5000], frame[6000], again[5000];
    size_t i, bytes;
    for (i = 0; i < sizeof source; i++)
        source[i] = (char)(i * i % 251 / 7);
    bytes = ZSTD_compress(frame, sizeof frame, source, sizeof source, 3);
    if (ZSTD_isError(bytes) ||
        ZSTD_decompress(again, sizeof again, frame, bytes) != sizeof source ||
        memcmp(source, again, sizeof source) != 0)
        return 0;
    return ZSTD_versionNumber();
}

int main(int argc, char **argv) {
    const unsigned before = host();
#ifdef WITH_CUBE
    if (argc != 2 || cube_wavetrain(argv[1]) < 0)
        return 2;
#else
    (void)argc, (void)argv;
#endif
    printf("%u %u\n", before, host());
    return before == 0;
}
