/* epoch_oracle.h - the sampler once more, in C: what the library's functions are compared with.
 *
 * SPDX-License-Identifier: MIT
 *
 * This is include/wavetrain_epoch.h as it was when everything stood in it. The names are those of
 * that time: a free order is a chunk-aware shuffle, a visit a run, is_bound is_portable. It shares
 * no line with src/sampler, so a mistake in either shows as a number that differs. It is one header
 * of more than 500 lines, as it was, so that nobody changes it on the way.
 */
#ifndef WAVETRAIN_EPOCH_ORACLE_H
#define WAVETRAIN_EPOCH_ORACLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define WAVETRAIN_EPOCH_U32(number) static_cast<uint32_t>(number)
#define WAVETRAIN_EPOCH_U64(number) static_cast<uint64_t>(number)
#define WAVETRAIN_EPOCH_I64(number) static_cast<int64_t>(number)
extern "C" {
#else
#define WAVETRAIN_EPOCH_U32(number) ((uint32_t)(number))
#define WAVETRAIN_EPOCH_U64(number) ((uint64_t)(number))
#define WAVETRAIN_EPOCH_I64(number) ((int64_t)(number))
#endif

/* Samples of an epoch at most, 2^62. */
#define WAVETRAIN_EPOCH_MAX (UINT64_C(1) << 62)

/* No such sample. */
#define WAVETRAIN_EPOCH_NO_INDEX UINT64_MAX

/* ---- Randomness --------------------------------------------------------------------------------
 *
 * Nothing below has a state: a number is drawn for a key and a position, again and again the same.
 */

/* Mixes two numbers so that each bit of either changes about half of the result's bits. For one
 * position it is a bijection. It is also what a digest enters a sum with: the sum over samples of
 * wavetrain_mix(position, digest) does not depend on the order in which they are added. */
static inline uint64_t wavetrain_mix(uint64_t position, uint64_t digest) {
    uint64_t x = digest ^ (position * UINT64_C(0x9E3779B97F4A7C15));
    x ^= x >> 32;
    x *= UINT64_C(0xD6E8FEB86659FD93);
    x ^= x >> 32;
    x *= UINT64_C(0xD6E8FEB86659FD93);
    x ^= x >> 32;
    return x;
}

/* What wavetrain's own draws are for. Take numbers from WAVETRAIN_PURPOSE_YOURS on. */
enum {
    WAVETRAIN_PURPOSE_SHUFFLE = 1,
    WAVETRAIN_PURPOSE_SPLIT = 2,
    WAVETRAIN_PURPOSE_WEIGHTED = 3,
    WAVETRAIN_PURPOSE_MIXED = 4,
    WAVETRAIN_PURPOSE_BOX = 5,
    WAVETRAIN_PURPOSE_POINT = 6,
    WAVETRAIN_PURPOSE_VISITS = 7,
    WAVETRAIN_PURPOSE_WINDOW = 8,
    WAVETRAIN_PURPOSE_TAIL = 9,
    WAVETRAIN_PURPOSE_YOURS = 1024
};

/* A key: of its own for each seed, epoch and purpose. */
static inline uint64_t wavetrain_key(uint64_t seed, uint64_t epoch, uint64_t purpose) {
    return wavetrain_mix(purpose, wavetrain_mix(epoch, wavetrain_mix(1, seed)));
}

/* The upper 64 bits of a product of 128. */
#ifdef __SIZEOF_INT128__
static inline uint64_t wavetrain_mul_high(uint64_t a, uint64_t b) {
    __extension__ const unsigned __int128 wide = a;
    return WAVETRAIN_EPOCH_U64((wide * b) >> 64);
}
#else
static inline uint64_t wavetrain_mul_high(uint64_t a, uint64_t b) {
    const uint64_t low = UINT64_C(0xFFFFFFFF);
    const uint64_t crossed = (a >> 32) * (b & low) + ((a & low) * (b & low) >> 32);
    return (a >> 32) * (b >> 32) + (crossed >> 32) +
           (((crossed & low) + (a & low) * (b >> 32)) >> 32);
}
#endif

/* Philox 4x32-10: a counter and a key in, four numbers out. The key's lower half is its first word.
 * Source: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3 (2011). */
static inline void wavetrain_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]) {
    const uint64_t low = UINT64_C(0xFFFFFFFF);
    uint32_t key_0 = WAVETRAIN_EPOCH_U32(key & low);
    uint32_t key_1 = WAVETRAIN_EPOCH_U32(key >> 32);
    uint32_t x[4];
    int round;
    for (round = 0; round < 4; round++)
        x[round] = counter[round];
    for (round = 0; round < 10; round++) {
        const uint64_t a = UINT64_C(0xD2511F53) * x[0];
        const uint64_t b = UINT64_C(0xCD9E8D57) * x[2];
        x[0] = WAVETRAIN_EPOCH_U32(b >> 32) ^ x[1] ^ key_0;
        x[1] = WAVETRAIN_EPOCH_U32(b & low);
        x[2] = WAVETRAIN_EPOCH_U32(a >> 32) ^ x[3] ^ key_1;
        x[3] = WAVETRAIN_EPOCH_U32(a & low);
        key_0 = WAVETRAIN_EPOCH_U32((key_0 + UINT64_C(0x9E3779B9)) & low);
        key_1 = WAVETRAIN_EPOCH_U32((key_1 + UINT64_C(0xBB67AE85)) & low);
    }
    for (round = 0; round < 4; round++)
        out[round] = x[round];
}

/* A number below n, all equally likely, for a key, a position and a lane: which of several numbers
 * of that position. 0 for n = 0. */
static inline uint64_t wavetrain_below(uint64_t n, uint64_t key, uint64_t position, uint32_t lane) {
    uint32_t counter[4];
    uint32_t out[4];
    uint64_t high, low, product;
    counter[0] = WAVETRAIN_EPOCH_U32(position & UINT64_C(0xFFFFFFFF));
    counter[1] = WAVETRAIN_EPOCH_U32(position >> 32);
    counter[2] = lane;
    counter[3] = 0;
    wavetrain_philox(key, counter, out);
    high = WAVETRAIN_EPOCH_U64(out[1]) << 32 | out[0];
    low = WAVETRAIN_EPOCH_U64(out[3]) << 32 | out[2];
    /* The upper third of a product of 128 and 64 bits: of 2^128 draws, none of n is ahead by more
     * than one. */
    product = high * n;
    return wavetrain_mul_high(high, n) + (product > UINT64_MAX - wavetrain_mul_high(low, n));
}

/* ---- Permutations ------------------------------------------------------------------------------
 *
 * wavetrain_permute is a bijection of 0 .. n - 1 onto itself, another one for each key, computed
 * for one position at a time: no table of n numbers is made. */

/* The number at a position in a row of at most 64 that Fisher and Yates shuffle: from the row 0 on,
 * number `last` goes to the place `other` <= last, and what was there behind it. The way of one
 * place is gone back, so the row itself is not needed. */
static inline uint64_t wavetrain_permute_small(uint64_t n, uint64_t key, uint64_t position) {
    uint64_t last = n;
    while (last-- > 1) {
        const uint64_t other = wavetrain_mul_high(wavetrain_mix(last + 1, key), last + 1);
        if (other == position)
            return last;
        if (last == position)
            position = other;
    }
    return 0;
}

/* The number at a position in a shuffled row of n. WAVETRAIN_EPOCH_NO_INDEX for a position that is
 * not below n, and for n above WAVETRAIN_EPOCH_MAX.
 *
 * From 64 on it is a Feistel network on pairs (left, right), left below a power of two near the
 * root of n, right below n over it: at most an eighth more pairs than numbers (a 32nd from 2^11 on,
 * and so on). What leaves 0 .. n - 1 goes through it again, which ends, as it is a permutation. */
static inline uint64_t wavetrain_permute(uint64_t n, uint64_t key, uint64_t position) {
    uint64_t lefts, rights, keyed;
    uint32_t bits = 3;
    if (position >= n || n > WAVETRAIN_EPOCH_MAX)
        return WAVETRAIN_EPOCH_NO_INDEX;
    keyed = wavetrain_mix(n, key);
    if (n < 64)
        return wavetrain_permute_small(n, keyed, position);
    while ((n - 1) >> (2 * bits + 1) != 0)
        bits++;
    lefts = UINT64_C(1) << bits;
    rights = ((n - 1) >> bits) + 1;
    do {
        uint64_t left = position & (lefts - 1);
        uint64_t right = position >> bits;
        uint64_t round;
        for (round = 1; round <= 4; round++) {
            left = (left + wavetrain_mix(2 * round, keyed + right)) & (lefts - 1);
            right += wavetrain_mul_high(wavetrain_mix(2 * round + 1, keyed + left), rights);
            right -= right < rights ? 0 : rights;
        }
        position = right << bits | left;
    } while (position >= n);
    return position;
}

/* ---- The epoch, and how it is dealt ------------------------------------------------------------
 */

enum {
    WAVETRAIN_EPOCH_SHUFFLE = 1,  /* a new permutation in each epoch; without it 0, 1, 2 .. */
    WAVETRAIN_EPOCH_BY_BATCH = 2, /* see below */
    /* At the end, where there is less than a batch for each rank: nobody gets it (DROP), what is
     * missing is taken from the front again (PAD), the next epoch follows in the same batch and
     * there is no end (REPEAT), or, without any of them, ranks get what there is, some less. Of
     * several, the last of these three counts. */
    WAVETRAIN_EPOCH_DROP = 4,
    WAVETRAIN_EPOCH_PAD = 8,
    WAVETRAIN_EPOCH_REPEAT = 16
};

/* What a checkpoint holds, 32 bytes. */
typedef struct wavetrain_epoch_state {
    uint64_t seed;
    uint64_t epoch;    /* its number, from 0 */
    uint64_t position; /* all before it were dealt, to whatever rank. It moves when a batch is
                        * complete, and is then the same on all ranks that gave as many batches. Of
                        * the free order, see there */
    /* Of what decides the order: n, the seed, whether it is shuffled, tables. */
    uint64_t order_hash;
} wavetrain_epoch_state;

/* 64 bytes. Positions are dealt in rounds of world batches. In a round, the rank's samples stand at
 *     position + rank + i * world        i < batch, or with WAVETRAIN_EPOCH_BY_BATCH
 *     position + rank * batch + i
 * so one global order follows whatever world and batch are, and they may change between rounds.
 * A round has WAVETRAIN_EPOCH_MAX samples at most. */
typedef struct wavetrain_epoch {
    wavetrain_epoch_state state;
    uint64_t n;           /* samples of an epoch */
    uint32_t rank, world; /* rank < world */
    uint32_t batch;       /* samples of a batch of one rank, at least 1 */
    uint32_t flags;       /* WAVETRAIN_EPOCH_ */
    uint64_t reserved; /* of wavetrain_epoch_next: samples of the batch that it gave. 0 at first */
} wavetrain_epoch;

/* Where a sample stands. */
typedef struct wavetrain_place {
    uint64_t epoch, position;
} wavetrain_place;

/* Makes an epoch ready: number 0, rank 0 of 1, batches of 1. 0 where n is above
 * WAVETRAIN_EPOCH_MAX. order_hash begins with a number that changes if this header should ever give
 * another order. */
static inline int wavetrain_epoch_begin(wavetrain_epoch *epoch, uint64_t n, uint64_t seed,
                                        uint32_t flags) {
    epoch->state.seed = seed;
    epoch->state.epoch = 0;
    epoch->state.position = 0;
    epoch->state.order_hash =
        wavetrain_mix(n, wavetrain_key(1, seed, flags & WAVETRAIN_EPOCH_SHUFFLE));
    epoch->n = n;
    epoch->rank = 0;
    epoch->world = 1;
    epoch->batch = 1;
    epoch->flags = flags;
    epoch->reserved = 0;
    return n <= WAVETRAIN_EPOCH_MAX;
}

/* Takes numbers that decide the order too (a table of weights, a subset) into order_hash, so that a
 * checkpoint of another table is refused. Between begin and resume. */
static inline void wavetrain_epoch_depends_on(wavetrain_epoch *epoch, const uint64_t *numbers,
                                              uint64_t count) {
    uint64_t hash = wavetrain_mix(count, epoch->state.order_hash);
    uint64_t place;
    for (place = 0; place < count; place++)
        hash = wavetrain_mix(place + 1, hash) + wavetrain_mix(hash, numbers[place]);
    epoch->state.order_hash = hash;
}

/* Goes on where a checkpoint was taken, at any rank, world and batch. 0, and nothing changes, where
 * it is of another order: another seed, n, shuffle or table. */
static inline int wavetrain_epoch_resume(wavetrain_epoch *epoch,
                                         const wavetrain_epoch_state *state) {
    if (state->order_hash != epoch->state.order_hash || state->seed != epoch->state.seed ||
        state->position > epoch->n)
        return 0;
    epoch->state = *state;
    epoch->reserved = 0;
    return 1;
}

/* Begins the next epoch, wherever this one is. */
static inline void wavetrain_epoch_turn(wavetrain_epoch *epoch) {
    epoch->state.epoch++;
    epoch->state.position = 0;
    epoch->reserved = 0;
}

/* Which sample stands at a place. WAVETRAIN_EPOCH_NO_INDEX where there is no such place. */
static inline uint64_t wavetrain_epoch_at(const wavetrain_epoch *epoch, wavetrain_place place) {
    if ((epoch->flags & WAVETRAIN_EPOCH_SHUFFLE) != 0)
        return wavetrain_permute(
            epoch->n, wavetrain_key(epoch->state.seed, place.epoch, WAVETRAIN_PURPOSE_SHUFFLE),
            place.position);
    return place.position < epoch->n ? place.position : WAVETRAIN_EPOCH_NO_INDEX;
}

/* 0 where its numbers fit together. */
static inline int wavetrain_epoch_is_wrong(const wavetrain_epoch *epoch) {
    return epoch->n > WAVETRAIN_EPOCH_MAX || epoch->batch == 0 || epoch->rank >= epoch->world ||
           WAVETRAIN_EPOCH_U64(epoch->world) * epoch->batch > WAVETRAIN_EPOCH_MAX ||
           epoch->reserved >= epoch->batch || epoch->state.position > epoch->n;
}

/* The round's i-th sample of the rank, counted from state.position. */
static inline uint64_t wavetrain_epoch_ahead(const wavetrain_epoch *epoch, uint64_t i) {
    const uint64_t rank = epoch->rank;
    return (epoch->flags & WAVETRAIN_EPOCH_BY_BATCH) != 0 ? rank * epoch->batch + i
                                                          : rank + i * epoch->world;
}

/* Samples that the rank still gets in this epoch; UINT64_MAX with WAVETRAIN_EPOCH_REPEAT. Divided
 * by the batch it is what is left of a DataLoader's len. */
static inline uint64_t wavetrain_epoch_left(const wavetrain_epoch *epoch) {
    const uint64_t round = WAVETRAIN_EPOCH_U64(epoch->world) * epoch->batch;
    uint64_t first, count, tail;
    if (wavetrain_epoch_is_wrong(epoch) || epoch->n == 0)
        return 0;
    if ((epoch->flags & WAVETRAIN_EPOCH_REPEAT) != 0)
        return UINT64_MAX;
    first = wavetrain_epoch_ahead(epoch, 0);
    count = (epoch->n - epoch->state.position) / round * epoch->batch;
    tail = (epoch->n - epoch->state.position) % round;
    if (tail > 0 && (epoch->flags & WAVETRAIN_EPOCH_PAD) != 0) {
        count += epoch->batch;
    } else if (tail > first && (epoch->flags & WAVETRAIN_EPOCH_DROP) == 0) {
        const uint64_t mine = tail - first;
        if ((epoch->flags & WAVETRAIN_EPOCH_BY_BATCH) != 0)
            count += mine < epoch->batch ? mine : epoch->batch;
        else
            count += (mine - 1) / epoch->world + 1;
    }
    return count > epoch->reserved ? count - epoch->reserved : 0;
}

/* The place of the rank's next sample. 1; 2 where it is there to pad; 0 behind the last one; -1
 * where rank, world, batch or position do not fit together. */
static inline int wavetrain_epoch_take(wavetrain_epoch *epoch, wavetrain_place *place) {
    const uint64_t round = WAVETRAIN_EPOCH_U64(epoch->world) * epoch->batch;
    const int repeats = (epoch->flags & WAVETRAIN_EPOCH_REPEAT) != 0;
    uint64_t position;
    int given = 1;
    if (wavetrain_epoch_is_wrong(epoch))
        return -1;
    if (wavetrain_epoch_left(epoch) == 0) {
        epoch->state.position = epoch->n;
        epoch->reserved = 0;
        return 0;
    }
    position = epoch->state.position + wavetrain_epoch_ahead(epoch, epoch->reserved);
    place->epoch = epoch->state.epoch + (repeats ? position / epoch->n : 0);
    place->position = position % epoch->n;
    if (position >= epoch->n && !repeats)
        given = 2;
    epoch->reserved++;
    if (epoch->reserved == epoch->batch) {
        epoch->reserved = 0;
        epoch->state.position += round;
        if (repeats) {
            epoch->state.epoch += epoch->state.position / epoch->n;
            epoch->state.position %= epoch->n;
        }
    }
    /* A last batch that is short or padded is the end of the epoch. */
    if (epoch->state.position > epoch->n ||
        (epoch->reserved > 0 && wavetrain_epoch_left(epoch) == 0)) {
        epoch->state.position = epoch->n;
        epoch->reserved = 0;
    }
    return given;
}

/* wavetrain_epoch_take, and the sample that stands there. */
static inline int wavetrain_epoch_next(wavetrain_epoch *epoch, uint64_t *index) {
    wavetrain_place place;
    const int given = wavetrain_epoch_take(epoch, &place);
    if (given > 0)
        *index = wavetrain_epoch_at(epoch, place);
    return given;
}

/* ---- Splits, subsets, weights, mixtures --------------------------------------------------------
 *
 * A subset is a table of indices of yours: an epoch of as many samples, and table[index]. */

/* Where a part of n samples begins, in a row split as the weights are to each other: {8, 1, 1} are
 * train, validation and test. Part k has the positions part_begin(k) .. part_begin(k + 1) - 1 of
 * one permutation that never changes: wavetrain_permute(n, wavetrain_key(seed, 0,
 * WAVETRAIN_PURPOSE_SPLIT), position) so parts share no sample, and a part's epoch is one of
 * part_begin(k + 1) - part_begin(k) samples. The sum of the weights is to be below 2^32; 0 where it
 * is 0. */
static inline uint64_t wavetrain_part_begin(uint64_t n, const uint32_t *weights, uint32_t parts,
                                            uint32_t part) {
    uint64_t total = 0, before = 0;
    uint32_t k;
    for (k = 0; k < parts; k++) {
        before += k < part ? weights[k] : 0;
        total += weights[k];
    }
    return total == 0 ? 0 : n / total * before + n % total * before / total;
}

/* Groups samples by label, in order: those of label c are
 *     table[ends[c - 1]] .. table[ends[c] - 1], from 0 for c = 0.
 * ends: labels of them; table: n. 0 where a label is not below `labels`. */
static inline int wavetrain_group(const uint32_t *label_of, uint64_t n, uint32_t labels,
                                  uint64_t *ends, uint64_t *table) {
    uint64_t sample, before = 0;
    uint32_t label;
    for (label = 0; label < labels; label++)
        ends[label] = 0;
    for (sample = 0; sample < n; sample++) {
        if (label_of[sample] >= labels)
            return 0;
        ends[label_of[sample]]++;
    }
    for (label = 0; label < labels; label++) {
        const uint64_t count = ends[label];
        ends[label] = before;
        before += count;
    }
    for (sample = 0; sample < n; sample++)
        table[ends[label_of[sample]]++] = sample;
    return 1;
}

/* Splits what wavetrain_group has grouped, so that each part has its share of each label: labels
 * are shuffled, and their samples go to the part that is furthest behind. Writes the samples of one
 * part to `subset`, apart from `table`, and returns how many there are. At most 64 parts, whose
 * weights add up to less than 2^32; of more, and where all weights are 0, there are none. */
static inline uint64_t wavetrain_stratify(const uint64_t *ends, uint32_t labels,
                                          const uint64_t *table, const uint32_t *weights,
                                          uint32_t parts, uint32_t part, uint64_t seed,
                                          uint64_t *subset) {
    int64_t behind[64];
    uint64_t total = 0, count = 0, begin = 0;
    uint32_t label, k;
    if (parts > 64)
        return 0;
    for (k = 0; k < parts; k++) {
        behind[k] = 0;
        total += weights[k];
    }
    for (label = 0; label < labels && total > 0; label++) {
        const uint64_t key = wavetrain_key(seed, label, WAVETRAIN_PURPOSE_SPLIT);
        uint64_t place;
        for (place = begin; place < ends[label]; place++) {
            uint32_t most = 0;
            for (k = 0; k < parts; k++) {
                behind[k] += WAVETRAIN_EPOCH_I64(weights[k]);
                most = behind[k] > behind[most] ? k : most;
            }
            behind[most] -= WAVETRAIN_EPOCH_I64(total);
            if (most == part)
                subset[count++] =
                    table[begin + wavetrain_permute(ends[label] - begin, key, place - begin)];
        }
        begin = ends[label];
    }
    return count;
}

/* Adds up weights in place, for wavetrain_weighted. 0 where the sum is above UINT64_MAX. */
static inline int wavetrain_accumulate(uint64_t *weights, uint64_t n) {
    uint64_t k;
    for (k = 1; k < n; k++) {
        if (weights[k] > UINT64_MAX - weights[k - 1])
            return 0;
        weights[k] += weights[k - 1];
    }
    return 1;
}

/* Draws one of n samples, as often as its weight says, with replacement: an epoch without SHUFFLE
 * of as many samples as you like, and this of its places. `sums` is what wavetrain_accumulate made.
 * WAVETRAIN_EPOCH_NO_INDEX where all weights are 0. */
static inline uint64_t wavetrain_weighted(const uint64_t *sums, uint64_t n, uint64_t seed,
                                          wavetrain_place place) {
    const uint64_t total = n == 0 ? 0 : sums[n - 1];
    uint64_t low = 0, high = n, drawn;
    if (total == 0)
        return WAVETRAIN_EPOCH_NO_INDEX;
    drawn = wavetrain_below(total, wavetrain_key(seed, place.epoch, WAVETRAIN_PURPOSE_WEIGHTED),
                            place.position, 0);
    while (high - low > 1) { /* the first whose sum is above what was drawn is in low .. high - 1 */
        const uint64_t middle = low + (high - low) / 2;
        if (sums[middle - 1] > drawn)
            high = middle;
        else
            low = middle;
    }
    return low;
}

/* One of several sources that are mixed. */
typedef struct wavetrain_share {
    uint64_t n;      /* its samples */
    uint32_t weight; /* samples that it gives to each block; 0: it gives none */
    uint32_t reserved;
} wavetrain_share;

/* Which source a place of a mixture is for, and which of its samples it gets. A mixture goes on in
 * blocks of as many positions as the weights' sum, below 2^32. In a block, each source comes as
 * often as its weight says, shuffled; a source gives all its samples, shuffled, before it gives one
 * again. Classes of one data set as sources of weight 1 are sampling balanced by class: the sample
 * is then table[(source == 0 ? 0 : ends[source - 1]) + index], see wavetrain_group. 0 where there
 * is nothing to take: no weight, or one of a source without samples. */
static inline int wavetrain_mixed(const wavetrain_share *shares, uint32_t count, uint64_t seed,
                                  wavetrain_place place, uint32_t *source, uint64_t *index) {
    const uint64_t key = wavetrain_key(seed, place.epoch, WAVETRAIN_PURPOSE_MIXED);
    uint64_t total = 0, turn, drawn, pass;
    uint32_t k;
    for (k = 0; k < count; k++) {
        if (shares[k].weight > 0 && (shares[k].n == 0 || shares[k].n > WAVETRAIN_EPOCH_MAX))
            return 0;
        total += shares[k].weight;
    }
    if (total == 0 || total > UINT64_C(0xFFFFFFFF))
        return 0;
    turn = wavetrain_permute(total, wavetrain_mix(place.position / total, key),
                             place.position % total);
    for (k = 0; turn >= shares[k].weight; k++)
        turn -= shares[k].weight;
    drawn = place.position / total * shares[k].weight + turn;
    pass = wavetrain_key(key, k, drawn / shares[k].n);
    *source = k;
    *index = wavetrain_permute(shares[k].n, pass, drawn % shares[k].n);
    return 1;
}

/* ---- Boxes -------------------------------------------------------------------------------------
 *
 * Boxes of one shape in an array: on a grid, or anywhere. A margin lets them stick out of the array
 * (what does is padded). Where an array is smaller than the box and its margins, there is one box
 * along that axis, the array in its middle. */

#define WAVETRAIN_BOXES_AXES 16

enum {
    WAVETRAIN_BOXES_JITTER = 1 /* a box of the grid begins anywhere in its cell, elsewhere in each
                                * epoch: up to where the next box begins, or its chunk ends */
};

/* Numbers are at most 2^60. */
typedef struct wavetrain_boxes {
    uint32_t rank;                         /* axes, at most WAVETRAIN_BOXES_AXES */
    uint32_t flags;                        /* WAVETRAIN_BOXES_ */
    uint64_t shape[WAVETRAIN_BOXES_AXES];  /* of the array */
    uint64_t box[WAVETRAIN_BOXES_AXES];    /* extents of a box, at least 1 */
    uint64_t step[WAVETRAIN_BOXES_AXES];   /* from box to box of the grid; 0: side by side */
    uint64_t margin[WAVETRAIN_BOXES_AXES]; /* how far a box may stick out, at both ends: less than
                                              it is long */
    uint64_t chunk[WAVETRAIN_BOXES_AXES];  /* what is decoded at a time; 0: the whole axis */
} wavetrain_boxes;

/* An axis of the grid, counted from where the first box begins. */
typedef struct wavetrain_boxes_axis {
    uint64_t before; /* places of the first box in front of the array */
    uint64_t room;   /* where the last box may begin */
    uint64_t step, chunk, shape;
    uint64_t count; /* boxes; 0 where the array is empty, or a number too large */
} wavetrain_boxes_axis;

static inline wavetrain_boxes_axis wavetrain_boxes_along(const wavetrain_boxes *boxes,
                                                         uint32_t axis) {
    const uint64_t most = UINT64_C(1) << 60;
    const uint64_t box = boxes->box[axis], margin = boxes->margin[axis];
    wavetrain_boxes_axis of;
    of.shape = boxes->shape[axis];
    of.step = boxes->step[axis] == 0 ? box : boxes->step[axis];
    of.chunk = boxes->chunk[axis] == 0 ? of.shape : boxes->chunk[axis];
    of.before = margin;
    of.room = 0;
    of.count = 0;
    if (of.shape == 0 || box == 0 || of.shape > most || box > most || of.step > most ||
        margin >= box || of.chunk > most)
        return of;
    if (box > of.shape + 2 * margin)
        of.before = (box - of.shape) / 2;
    else
        of.room = of.shape + 2 * margin - box;
    of.count = of.room / of.step + 1;
    return of;
}

/* The chunk that a box of the grid belongs to: where it begins, or the nearest to that. */
static inline uint64_t wavetrain_boxes_block(const wavetrain_boxes_axis *of, uint64_t box) {
    const uint64_t begin = box * of->step;
    const uint64_t place = begin < of->before ? 0 : begin - of->before;
    return (place < of->shape ? place : of->shape - 1) / of->chunk;
}

/* Places that a jittering box may begin at, from where the box of the grid does. */
static inline uint64_t wavetrain_boxes_cell(const wavetrain_boxes_axis *of, uint64_t box) {
    const uint64_t at = box * of->step, block = wavetrain_boxes_block(of, box);
    uint64_t cell = of->room + 1 - at;
    cell = cell < of->step ? cell : of->step;
    /* It ends with its chunk, so that boxes do not leave the chunk that they belong to. */
    if (block < (of->shape - 1) / of->chunk && (block + 1) * of->chunk + of->before - at < cell)
        cell = (block + 1) * of->chunk + of->before - at;
    return cell;
}

/* The first box of the grid that belongs to a chunk or to one behind it. */
static inline uint64_t wavetrain_boxes_first(const wavetrain_boxes_axis *of, uint64_t block) {
    uint64_t first;
    if (block == 0)
        return 0;
    if (block > (of->shape - 1) / of->chunk)
        return of->count;
    first = (block * of->chunk + of->before - 1) / of->step + 1;
    return first < of->count ? first : of->count;
}

/* The axes of the grid, WAVETRAIN_BOXES_AXES of memory for them, and how many boxes it has: 0, as
 * wavetrain_boxes_count. */
static inline uint64_t wavetrain_boxes_axes(const wavetrain_boxes *boxes,
                                            wavetrain_boxes_axis *axes) {
    uint64_t count = 1;
    uint32_t axis;
    if (boxes->rank > WAVETRAIN_BOXES_AXES)
        return 0;
    for (axis = 0; axis < boxes->rank; axis++) {
        axes[axis] = wavetrain_boxes_along(boxes, axis);
        if (wavetrain_mul_high(count, axes[axis].count) != 0)
            return 0;
        count *= axes[axis].count;
        if (count == 0 || count > WAVETRAIN_EPOCH_MAX)
            return 0;
    }
    return count;
}

/* How many boxes the grid has; 0 where none or more than WAVETRAIN_EPOCH_MAX, or where a number of
 * the struct is not allowed. */
static inline uint64_t wavetrain_boxes_count(const wavetrain_boxes *boxes) {
    wavetrain_boxes_axis axes[WAVETRAIN_BOXES_AXES];
    return wavetrain_boxes_axes(boxes, axes);
}

/* Where a box of the grid begins, by its number. Boxes are numbered chunk by chunk, in row-major
 * order of the chunks that they belong to, and in row-major order within a chunk. A box ends at
 * begin[axis] + box[axis]. Seed and epoch matter with WAVETRAIN_BOXES_JITTER alone.
 * 0, and nothing is written, where there is no such box. */
static inline int wavetrain_boxes_at(const wavetrain_boxes *boxes, uint64_t number, uint64_t seed,
                                     uint64_t epoch, int64_t *begin) {
    const uint64_t key = wavetrain_key(seed, epoch, WAVETRAIN_PURPOSE_BOX);
    wavetrain_boxes_axis axes[WAVETRAIN_BOXES_AXES];
    uint64_t first[WAVETRAIN_BOXES_AXES], count[WAVETRAIN_BOXES_AXES];
    uint64_t after = wavetrain_boxes_axes(boxes, axes), within = 1, rest = number;
    uint32_t axis;
    if (number >= after)
        return 0;
    for (axis = 0; axis < boxes->rank; axis++) {
        const wavetrain_boxes_axis *const of = &axes[axis];
        uint64_t block;
        after /= of->count;
        /* Boxes in chunks before this one along the axis come first, each with all those of the
         * axes behind, and `within` of them side by side along the axes in front. */
        block = wavetrain_boxes_block(of, rest / (within * after));
        first[axis] = wavetrain_boxes_first(of, block);
        count[axis] = wavetrain_boxes_first(of, block + 1) - first[axis];
        rest -= first[axis] * (within * after);
        within *= count[axis];
    }
    for (axis = boxes->rank; axis-- > 0;) {
        const wavetrain_boxes_axis *const of = &axes[axis];
        const uint64_t box = first[axis] + rest % count[axis];
        uint64_t at = box * of->step;
        rest /= count[axis];
        if ((boxes->flags & WAVETRAIN_BOXES_JITTER) != 0)
            at += wavetrain_below(wavetrain_boxes_cell(of, box), key, number, axis);
        begin[axis] = WAVETRAIN_EPOCH_I64(at) - WAVETRAIN_EPOCH_I64(of->before);
    }
    return 1;
}

/* Where a box begins that may lie anywhere, all places equally likely, between those of the grid
 * too. 0, and nothing is written, where wavetrain_boxes_count is 0. */
static inline int wavetrain_boxes_anywhere(const wavetrain_boxes *boxes, uint64_t seed,
                                           wavetrain_place place, int64_t *begin) {
    const uint64_t key = wavetrain_key(seed, place.epoch, WAVETRAIN_PURPOSE_BOX);
    wavetrain_boxes_axis axes[WAVETRAIN_BOXES_AXES];
    uint32_t axis;
    if (wavetrain_boxes_axes(boxes, axes) == 0)
        return 0;
    for (axis = 0; axis < boxes->rank; axis++) {
        const uint64_t places = axes[axis].room + 1;
        begin[axis] = WAVETRAIN_EPOCH_I64(wavetrain_below(places, key, place.position, axis)) -
                      WAVETRAIN_EPOCH_I64(axes[axis].before);
    }
    return 1;
}

/* Where a box begins that holds a point of the array, all such places equally likely: boxes inside
 * a mask's foreground, from a table of its points, or around what belongs to a class. Draw the
 * point with wavetrain_weighted or wavetrain_mixed. 0, and nothing is written, where the point lies
 * outside, or there is no box. */
static inline int wavetrain_boxes_around(const wavetrain_boxes *boxes, const uint64_t *point,
                                         uint64_t seed, wavetrain_place place, int64_t *begin) {
    const uint64_t key = wavetrain_key(seed, place.epoch, WAVETRAIN_PURPOSE_POINT);
    wavetrain_boxes_axis axes[WAVETRAIN_BOXES_AXES];
    uint32_t axis;
    if (wavetrain_boxes_axes(boxes, axes) == 0)
        return 0;
    for (axis = 0; axis < boxes->rank; axis++) {
        if (point[axis] >= boxes->shape[axis])
            return 0;
    }
    for (axis = 0; axis < boxes->rank; axis++) {
        const uint64_t before = axes[axis].before, room = axes[axis].room;
        const uint64_t at = point[axis] + before, reach = boxes->box[axis] - 1;
        const uint64_t low = at > reach ? at - reach : 0, high = at < room ? at : room;
        begin[axis] =
            WAVETRAIN_EPOCH_I64(low + wavetrain_below(high - low + 1, key, place.position, axis)) -
            WAVETRAIN_EPOCH_I64(before);
    }
    return 1;
}

/* ---- The free order ----------------------------------------------------------------------------
 *
 * A random order meets a chunk again long after it was dropped, and decodes it again for almost
 * each sample. In the free order, samples are numbered chunk by chunk (wavetrain_boxes_at does),
 * cut into visits of `visit` samples, the visits shuffled, and samples shuffled within windows of
 * `window` visits. What a window needs is kept while it lasts, and a chunk is decoded once for each
 * visit. Larger windows and smaller visits mix better, larger visits decode less. Samples that are
 * no whole visit come last, others in each epoch.
 *
 * The chunks of a window are to fit into half of config.chunk_cache_bytes, because while one window
 * ends, the next one begins; e.g. `window` 4 where there is room for eight chunks and boxes lie
 * inside of them.
 *
 * Windows, not positions, are dealt to ranks, so that ranks do not decode each other's chunks: in a
 * round, window by window, of world windows. What is left behind the last whole round is shared out
 * in pieces: ranks get the same number with DROP and PAD, and without them the first ones get one
 * more; a checkpoint is then to be that of rank 0, as other ranks may be at the end before it.
 * Inside of a round state.position is where the round begins plus what each rank has had of it, and
 * a checkpoint is for the same world (order_hash says so); for another one take it where
 * wavetrain_free_is_bound. */

typedef struct wavetrain_free {
    uint64_t visit;  /* samples, at least 1: those of a chunk, or a part of them */
    uint64_t window; /* visits, at least 1 */
} wavetrain_free;

/* Samples of a window. 0 where visit or window is 0. */
static inline uint64_t wavetrain_free_window(const wavetrain_epoch *epoch,
                                             const wavetrain_free *order) {
    if (order->visit == 0 || order->window == 0)
        return 0;
    if (order->window > epoch->n / order->visit)
        return epoch->n == 0 ? 1 : epoch->n;
    return order->visit * order->window;
}

/* 0 where order and epoch fit together. A free order shuffles by itself, deals windows, and does
 * not repeat: WAVETRAIN_EPOCH_DROP and PAD alone go with one. */
static inline int wavetrain_free_is_wrong(const wavetrain_epoch *epoch,
                                          const wavetrain_free *order) {
    const uint32_t tails = WAVETRAIN_EPOCH_DROP | WAVETRAIN_EPOCH_PAD;
    return wavetrain_epoch_is_wrong(epoch) || wavetrain_free_window(epoch, order) == 0 ||
           (epoch->flags & ~tails) != 0;
}

/* wavetrain_epoch_begin for a free order. 0 where the two do not fit together. */
static inline int wavetrain_free_begin(wavetrain_epoch *epoch, const wavetrain_free *order,
                                       uint64_t n, uint64_t seed, uint32_t flags) {
    uint64_t numbers[2];
    const int is_right = wavetrain_epoch_begin(epoch, n, seed, flags);
    numbers[0] = order->visit;
    numbers[1] = order->window;
    wavetrain_epoch_depends_on(epoch, numbers, 2);
    return is_right && !wavetrain_free_is_wrong(epoch, order);
}

/* Whether a position is between two rounds of windows, where a window is not 0. */
static inline int wavetrain_free_is_between(const wavetrain_epoch *epoch, uint64_t window,
                                            uint64_t position) {
    return position == epoch->n || position % window == 0;
}

/* Whether ranks stand between two rounds of windows: where a checkpoint is good for any world. */
static inline int wavetrain_free_is_bound(const wavetrain_epoch *epoch,
                                          const wavetrain_free *order) {
    const uint64_t window = wavetrain_free_window(epoch, order);
    return window > 0 && wavetrain_free_is_between(epoch, window, epoch->state.position);
}

/* A state's order_hash with what it has inside of a round, so that only the same world goes on with
 * it; or without that, where it has it. Between two rounds it is the same. */
static inline uint64_t wavetrain_free_hash(const wavetrain_epoch *epoch, uint64_t window,
                                           const wavetrain_epoch_state *state) {
    return wavetrain_free_is_between(epoch, window, state->position)
               ? state->order_hash
               : state->order_hash ^ wavetrain_mix(epoch->world, WAVETRAIN_PURPOSE_WINDOW);
}

/* Moves to a position, and keeps order_hash what it is to be there. Here and below, `window` is
 * what wavetrain_free_window gives, and not 0. */
static inline void wavetrain_free_move(wavetrain_epoch *epoch, uint64_t window, uint64_t position) {
    epoch->state.order_hash = wavetrain_free_hash(epoch, window, &epoch->state);
    epoch->state.position = position;
    epoch->state.order_hash = wavetrain_free_hash(epoch, window, &epoch->state);
}

/* As wavetrain_epoch_resume, for a free order; set rank and world before. 0, and nothing changes,
 * also for a checkpoint inside of a round of another world. */
static inline int wavetrain_free_resume(wavetrain_epoch *epoch, const wavetrain_free *order,
                                        const wavetrain_epoch_state *state) {
    const uint64_t window = wavetrain_free_window(epoch, order);
    if (window == 0 || state->seed != epoch->state.seed || state->position > epoch->n ||
        wavetrain_free_hash(epoch, window, state) !=
            wavetrain_free_hash(epoch, window, &epoch->state))
        return 0;
    epoch->state = *state;
    epoch->reserved = 0;
    return 1;
}

/* As wavetrain_epoch_turn, for a free order. */
static inline void wavetrain_free_turn(wavetrain_epoch *epoch, const wavetrain_free *order) {
    const uint64_t window = wavetrain_free_window(epoch, order);
    if (window > 0)
        wavetrain_free_move(epoch, window, epoch->n);
    wavetrain_epoch_turn(epoch);
}

/* Which sample stands at a place. WAVETRAIN_EPOCH_NO_INDEX where there is no such place. */
static inline uint64_t wavetrain_free_at(const wavetrain_epoch *epoch, const wavetrain_free *order,
                                         wavetrain_place place) {
    const uint64_t window = wavetrain_free_window(epoch, order);
    const uint64_t seed = epoch->state.seed, n = epoch->n, position = place.position;
    uint64_t visits, rest, tail_at, number, first, here, drawn, visit;
    if (window == 0 || position >= n || n > WAVETRAIN_EPOCH_MAX)
        return WAVETRAIN_EPOCH_NO_INDEX;
    visits = n / order->visit;
    rest = n % order->visit;
    /* The samples that are no whole visit lie between two visits, elsewhere in each epoch. */
    tail_at =
        order->visit *
        wavetrain_mul_high(wavetrain_key(seed, place.epoch, WAVETRAIN_PURPOSE_TAIL), visits + 1);
    number = position / window;
    first = number * window;
    here = n - first < window ? n - first : window;
    drawn =
        first +
        wavetrain_permute(
            here, wavetrain_mix(number, wavetrain_key(seed, place.epoch, WAVETRAIN_PURPOSE_WINDOW)),
            position - first);
    if (drawn >= visits * order->visit)
        return tail_at + (drawn - visits * order->visit);
    visit = wavetrain_permute(visits, wavetrain_key(seed, place.epoch, WAVETRAIN_PURPOSE_VISITS),
                              drawn / order->visit);
    drawn = visit * order->visit + drawn % order->visit;
    return drawn < tail_at ? drawn : drawn + rest;
}

/* The rank's samples of the round that begins at `start`: how many there are, and the position of
 * the first. */
static inline uint64_t wavetrain_free_share(const wavetrain_epoch *epoch, uint64_t window,
                                            uint64_t start, uint64_t *first) {
    const uint64_t world = epoch->world, rank = epoch->rank, rest = epoch->n - start;
    uint64_t each = rest / world, more = rest % world;
    if (rest / window >= world) {
        *first = start + rank * window;
        return window;
    }
    if ((epoch->flags & WAVETRAIN_EPOCH_PAD) != 0)
        each += more > 0;
    if ((epoch->flags & (WAVETRAIN_EPOCH_DROP | WAVETRAIN_EPOCH_PAD)) != 0)
        more = 0;
    *first = start + rank * each + (rank < more ? rank : more);
    return each + (rank < more);
}

/* Samples that the rank still gets in this epoch. */
static inline uint64_t wavetrain_free_left(const wavetrain_epoch *epoch,
                                           const wavetrain_free *order) {
    const uint64_t window = wavetrain_free_window(epoch, order);
    uint64_t done, start, rounds, count, first;
    if (wavetrain_free_is_wrong(epoch, order) || epoch->state.position == epoch->n)
        return 0;
    done = epoch->state.position % window;
    start = epoch->state.position - done;
    rounds = (epoch->n - start) / window / epoch->world;
    start += rounds * epoch->world * window;
    count = rounds * window;
    if (start < epoch->n)
        count += wavetrain_free_share(epoch, window, start, &first);
    return count > done ? count - done : 0;
}

/* As wavetrain_epoch_take. */
static inline int wavetrain_free_take(wavetrain_epoch *epoch, const wavetrain_free *order,
                                      wavetrain_place *place) {
    uint64_t share, first, done, window, start, position;
    int given = 1;
    if (wavetrain_free_is_wrong(epoch, order))
        return -1;
    if (epoch->state.position == epoch->n)
        return 0;
    window = wavetrain_free_window(epoch, order);
    done = epoch->state.position % window;
    start = epoch->state.position - done;
    share = wavetrain_free_share(epoch, window, start, &first);
    if (done >= share) { /* in the last round, of which the rank gets nothing */
        wavetrain_free_move(epoch, window, epoch->n);
        return 0;
    }
    position = first + done;
    if (position >= epoch->n) { /* padded: the front of what was shared out again */
        position = start + (position - start) % (epoch->n - start);
        given = 2;
    }
    place->epoch = epoch->state.epoch;
    place->position = position;
    if (done + 1 < share)
        wavetrain_free_move(epoch, window, epoch->state.position + 1);
    else if ((epoch->n - start) / window >= epoch->world)
        wavetrain_free_move(epoch, window, start + epoch->world * window);
    else
        wavetrain_free_move(epoch, window, epoch->n);
    return given;
}

/* As wavetrain_epoch_next. */
static inline int wavetrain_free_next(wavetrain_epoch *epoch, const wavetrain_free *order,
                                      uint64_t *index) {
    wavetrain_place place;
    const int given = wavetrain_free_take(epoch, order, &place);
    if (given > 0)
        *index = wavetrain_free_at(epoch, order, place);
    return given;
}

/* ---- What an epoch costs -----------------------------------------------------------------------
 *
 * Chunks that an epoch in free order decodes, whatever it is dealt to: at least `distinct`, each
 * chunk that any box touches, once; at most `windows`, the distinct chunks of each window, added
 * up, if those of two windows fit into the cache. Between them lies what a cache keeps from one
 * window to the next. Of ranks that share a window, behind the last whole round, each decodes what
 * it needs. With WAVETRAIN_BOXES_JITTER `distinct` counts the chunks that boxes belong to. */
typedef struct wavetrain_cost {
    uint64_t distinct, windows;
    uint64_t largest; /* distinct chunks of the window that has most: half a cache */
} wavetrain_cost;

/* The chunks that a box touches along an axis: *first, and how many. */
static inline uint64_t wavetrain_boxes_touch(const wavetrain_boxes *boxes, uint32_t axis,
                                             int64_t begin, uint64_t *first) {
    const wavetrain_boxes_axis of = wavetrain_boxes_along(boxes, axis);
    const int64_t last = begin + WAVETRAIN_EPOCH_I64(boxes->box[axis]) - 1;
    const uint64_t from = begin < 0 ? 0 : WAVETRAIN_EPOCH_U64(begin);
    uint64_t to;
    *first = from / of.chunk;
    if (last < 0 || from >= of.shape)
        return 0;
    to = WAVETRAIN_EPOCH_U64(last) < of.shape ? WAVETRAIN_EPOCH_U64(last) : of.shape - 1;
    return to / of.chunk - *first + 1;
}

/* Distinct chunks along an axis that boxes of the grid touch, or, with WAVETRAIN_BOXES_JITTER, that
 * boxes belong to. */
static inline uint64_t wavetrain_cost_along(const wavetrain_boxes *boxes, uint32_t axis) {
    const wavetrain_boxes_axis of = wavetrain_boxes_along(boxes, axis);
    uint64_t count = 0, next = 0, box;
    for (box = 0; box < of.count; box++) {
        uint64_t first = wavetrain_boxes_block(&of, box), touched = 1;
        if ((boxes->flags & WAVETRAIN_BOXES_JITTER) == 0)
            touched = wavetrain_boxes_touch(
                boxes, axis, WAVETRAIN_EPOCH_I64(box * of.step) - WAVETRAIN_EPOCH_I64(of.before),
                &first);
        if (first + touched > next) {
            count += first + touched - (first > next ? first : next);
            next = first + touched;
        }
    }
    return count;
}

/* The chunks that a window has met: a hash table in the caller's words, and behind it a list of the
 * slots that are taken, half as long, so that a slot is always free. */
typedef struct wavetrain_cost_table {
    uint64_t *words; /* slots and half as many */
    uint64_t slot_count; /* a power of two */
    uint64_t count;
} wavetrain_cost_table;

/* Notes a chunk; 0 where there is no room. */
static inline int wavetrain_cost_note(wavetrain_cost_table *table, uint64_t chunk) {
    const uint64_t mask = table->slot_count - 1;
    uint64_t slot = wavetrain_mix(1, chunk) & mask;
    for (; table->words[slot] != 0; slot = (slot + 1) & mask) {
        if (table->words[slot] == chunk + 1)
            return 1;
    }
    if (table->count >= table->slot_count / 2)
        return 0;
    table->words[slot] = chunk + 1;
    table->words[table->slot_count + table->count++] = slot;
    return 1;
}

/* Notes the chunks that a box touches. */
static inline int wavetrain_cost_box(wavetrain_cost_table *table, const wavetrain_boxes *boxes,
                                     uint64_t chunks_before, const int64_t *begin) {
    uint64_t first[WAVETRAIN_BOXES_AXES], touched[WAVETRAIN_BOXES_AXES],
        along[WAVETRAIN_BOXES_AXES];
    uint64_t at[WAVETRAIN_BOXES_AXES];
    uint32_t axis;
    for (axis = 0; axis < boxes->rank; axis++) {
        const wavetrain_boxes_axis of = wavetrain_boxes_along(boxes, axis);
        touched[axis] = wavetrain_boxes_touch(boxes, axis, begin[axis], &first[axis]);
        along[axis] = (of.shape - 1) / of.chunk + 1;
        at[axis] = 0;
        if (touched[axis] == 0)
            return 1;
    }
    for (;;) {
        uint64_t chunk = 0;
        for (axis = 0; axis < boxes->rank; axis++)
            chunk = chunk * along[axis] + first[axis] + at[axis];
        if (!wavetrain_cost_note(table, chunks_before + chunk))
            return 0;
        for (axis = boxes->rank; axis > 0; axis--) {
            at[axis - 1]++;
            if (at[axis - 1] < touched[axis - 1])
                break;
            at[axis - 1] = 0;
        }
        if (axis == 0)
            return 1;
    }
}

/* Boxes and chunks of arrays up to one, itself included. */
typedef struct wavetrain_boxes_end {
    uint64_t boxes, chunks;
} wavetrain_boxes_end;

/* Adds up the grids of several arrays, whose boxes are then numbered one after another: an epoch of
 * ends[arrays - 1].boxes samples. 0 where an array has no boxes, or they are too many. */
static inline int wavetrain_boxes_ends(const wavetrain_boxes *boxes, uint64_t arrays,
                                       wavetrain_boxes_end *ends) {
    uint64_t array;
    for (array = 0; array < arrays; array++) {
        const uint64_t count = wavetrain_boxes_count(&boxes[array]);
        uint64_t chunks = 1;
        uint32_t axis;
        if (count == 0)
            return 0;
        for (axis = 0; axis < boxes[array].rank; axis++) {
            const wavetrain_boxes_axis of = wavetrain_boxes_along(&boxes[array], axis);
            const uint64_t along = (of.shape - 1) / of.chunk + 1;
            if (chunks > WAVETRAIN_EPOCH_MAX / along)
                return 0;
            chunks *= along;
        }
        ends[array].boxes = (array == 0 ? 0 : ends[array - 1].boxes) + count;
        ends[array].chunks = (array == 0 ? 0 : ends[array - 1].chunks) + chunks;
        if (ends[array].boxes > WAVETRAIN_EPOCH_MAX || ends[array].chunks > WAVETRAIN_EPOCH_MAX)
            return 0;
    }
    return 1;
}

/* The array that a sample lies in, `arrays` where there is none; *number: of its box there. */
static inline uint64_t wavetrain_boxes_find(const wavetrain_boxes_end *ends, uint64_t arrays,
                                            uint64_t index, uint64_t *number) {
    uint64_t low = 0, high = arrays;
    while (low < high) { /* the first array whose end is above the index is in low .. high */
        const uint64_t middle = low + (high - low) / 2;
        if (ends[middle].boxes > index)
            high = middle;
        else
            low = middle + 1;
    }
    if (low < arrays)
        *number = index - (low == 0 ? 0 : ends[low - 1].boxes);
    return low;
}

/* What epoch number state.epoch costs as a whole; `ends` is what wavetrain_boxes_ends made, and its
 * last one has as many boxes as the epoch has samples. `words`: memory for the chunks of a window,
 * six words for each of them do. 1; 0 where that is too little: try again with twice as much; -1
 * where the numbers do not fit together. It looks at every box once. */
static inline int wavetrain_epoch_cost(const wavetrain_epoch *epoch, const wavetrain_free *order,
                                       const wavetrain_boxes *boxes,
                                       const wavetrain_boxes_end *ends, uint64_t arrays,
                                       uint64_t *words, uint64_t word_count, wavetrain_cost *cost) {
    const uint64_t window = wavetrain_free_window(epoch, order);
    wavetrain_cost_table table;
    wavetrain_place place;
    uint64_t array, word;
    table.words = words;
    table.slot_count = 1;
    table.count = 0;
    cost->distinct = cost->windows = cost->largest = 0;
    if (window == 0 || arrays == 0 || epoch->n > WAVETRAIN_EPOCH_MAX ||
        ends[arrays - 1].boxes != epoch->n)
        return -1;
    while (table.slot_count <= word_count / 3)
        table.slot_count *= 2;
    if (table.slot_count + table.slot_count / 2 > word_count)
        return 0;
    for (word = 0; word < table.slot_count; word++)
        words[word] = 0;
    for (array = 0; array < arrays; array++) {
        const uint64_t before = array == 0 ? 0 : ends[array - 1].boxes;
        uint64_t distinct = 1;
        uint32_t axis;
        if (wavetrain_boxes_count(&boxes[array]) != ends[array].boxes - before)
            return -1;
        for (axis = 0; axis < boxes[array].rank; axis++)
            distinct *= wavetrain_cost_along(&boxes[array], axis);
        cost->distinct += distinct;
    }
    place.epoch = epoch->state.epoch;
    for (place.position = 0; place.position < epoch->n; place.position++) {
        const uint64_t index = wavetrain_free_at(epoch, order, place);
        int64_t begin[WAVETRAIN_BOXES_AXES];
        uint64_t number = 0;
        array = wavetrain_boxes_find(ends, arrays, index, &number);
        if (!wavetrain_boxes_at(&boxes[array], number, epoch->state.seed, place.epoch, begin))
            return -1;
        if (!wavetrain_cost_box(&table, &boxes[array], array == 0 ? 0 : ends[array - 1].chunks,
                                begin))
            return 0;
        if ((place.position + 1) % window == 0 || place.position + 1 == epoch->n) {
            cost->windows += table.count;
            cost->largest = table.count > cost->largest ? table.count : cost->largest;
            while (table.count > 0)
                words[words[table.slot_count + --table.count]] = 0;
        }
    }
    return 1;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#undef WAVETRAIN_EPOCH_U32
#undef WAVETRAIN_EPOCH_U64
#undef WAVETRAIN_EPOCH_I64
#endif /* WAVETRAIN_EPOCH_ORACLE_H */
