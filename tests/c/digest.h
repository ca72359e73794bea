/* digest.h: digests by the words of wavetrain.h. */
#ifndef DIGEST_H
#define DIGEST_H

#include "check.h"

static inline uint64_t digest_mix(uint64_t position, uint64_t digest) {
    uint64_t x = digest ^ (position * 0x9E3779B97F4A7C15u);
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
}

static inline uint64_t digest_of(const unsigned char *bytes, uint64_t count) {
    uint64_t sum = 0;
    for (uint64_t first = 0; first < count; first += 8) {
        uint64_t word = 0;
        for (uint64_t byte = 0; byte < 8 && first + byte < count; byte++)
            word |= (uint64_t)bytes[first + byte] << (8 * byte);
        sum += digest_mix(first / 8 + 1, word);
    }
    return digest_mix(count, sum);
}

/* Checks the digests of a batch whose memory can be read, and whose first sample was pushed as
 * number `position`. */
static inline void check_digests(const wavetrain_batch_view *view, uint64_t position) {
    const uint64_t bytes = view->bytes / view->sample_count;
    const unsigned char *const data = (const unsigned char *)view->data;
    uint64_t sum = 0;
    CHECK(view->digests != NULL);
    for (uint32_t row = 0; row < view->sample_count; row++) {
        CHECK(view->digests[row] == digest_of(data + row * bytes, bytes));
        sum += digest_mix(position + row, view->digests[row]);
    }
    CHECK(view->digest == sum);
}

#endif
