/* wavetrain_epoch.h - the order in which an epoch's samples come, and what is random about them.
 *
 * SPDX-License-Identifier: MIT
 *
 * C99 or any C++. The functions are in the archive, next to those of wavetrain.h. They compute with
 * whole numbers alone, allocate nothing, and keep no state but your structs; wavetrain::sampler
 * (Rust) and wavetrain.epoch (Python) are the same code. Each thread has structs of its own.
 *
 *     wavetrain_epoch epoch;
 *     wavetrain_epoch_begin(&epoch, NULL, sample_count, seed, WAVETRAIN_EPOCH_SHUFFLE);
 *     epoch.rank = my_rank, epoch.world = ranks, epoch.batch = samples_per_batch;
 *     if (there_is_a_checkpoint && !wavetrain_epoch_resume(&epoch, NULL, &checkpoint))
 *         fail("the checkpoint is of another order, or rank, world and batch do not fit");
 *     for (;; wavetrain_epoch_turn(&epoch, NULL))
 *         while ((count = wavetrain_epoch_take_many(&epoch, NULL, 1024, NULL, index, NULL)) > 0)
 *             push(index, count);
 *
 * A checkpoint is epoch.state between two batches. If samples are pushed before earlier batches are
 * popped, it is that of a second wavetrain_epoch, from which as many samples are taken as were
 * popped (wavetrain::epochs below does so).
 * An epoch is a row of positions 0 .. n - 1. The sample at a position depends on the seed and on
 * the number of the epoch, never on ranks, threads or batches: those only deal positions.
 * A pointer that is NULL and must not be, or is not aligned, is refused as numbers are that do not
 * fit together; nothing is written then. A call named _many serves thousands of samples; the call
 * of the same name without _many, at the end of this header, serves one.
 */
#ifndef WAVETRAIN_EPOCH_H
#define WAVETRAIN_EPOCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WAVETRAIN_EPOCH_MAX UINT64_C(0x4000000000000000) /* samples of an epoch at most, 2^62 */
#define WAVETRAIN_EPOCH_NO_INDEX UINT64_MAX             /* no such sample */

/* ---- The epoch, and how it is dealt ---- */

enum {
    WAVETRAIN_EPOCH_SHUFFLE = 1,  /* a new permutation in each epoch; without it 0, 1, 2 .. */
    WAVETRAIN_EPOCH_BY_BATCH = 2, /* see below */
    /* At the end less than a batch for each rank may be left. DROP: no rank gets it. PAD: the
     * missing samples are taken from the front again. REPEAT: the next epoch follows in the same
     * batch. Else ranks get shorter batches. If several are set, the last of the three applies. */
    WAVETRAIN_EPOCH_DROP = 4,
    WAVETRAIN_EPOCH_PAD = 8,
    WAVETRAIN_EPOCH_REPEAT = 16
};
/* A checkpoint, 32 bytes. order_hash depends on all that decides the order: n, the seed, whether it
 * is shuffled, tables; it would change if the library should ever give another order. */
typedef struct wavetrain_epoch_state {
    uint64_t seed;
    uint64_t epoch;    /* its number, from 0 */
    uint64_t position; /* all before it were dealt, to whatever rank. It moves when a batch is
                        * complete, and is then the same on all ranks that gave as many batches */
    uint64_t order_hash;
} wavetrain_epoch_state;

/* 64 bytes. Positions are dealt in rounds of world batches. In a round, the rank's samples stand at
 *
 *     position + rank + i * world        i < batch, or with WAVETRAIN_EPOCH_BY_BATCH
 *     position + rank * batch + i
 *
 * So there is one global order, whatever world and batch are, and they may change between rounds.
 * A round has WAVETRAIN_EPOCH_MAX samples at most. */
typedef struct wavetrain_epoch {
    wavetrain_epoch_state state;
    uint64_t n;           /* samples of an epoch */
    uint32_t rank;        /* below world */
    uint32_t world;
    uint32_t batch;       /* samples of a batch of one rank, at least 1 */
    uint32_t flags;       /* WAVETRAIN_EPOCH_ */
    uint64_t reserved;    /* of wavetrain_epoch_take_many: samples of the batch that it gave */
} wavetrain_epoch;

/* The chunk-aware shuffle. A plain shuffle meets a chunk again long after the cache dropped it, and
 * decodes it again for almost each sample. In this one, samples are numbered chunk by chunk
 * (wavetrain_boxes_at does so) and cut into runs; the runs are shuffled, and samples are shuffled
 * within shuffle windows of several runs. The chunks of a window stay cached while it lasts, and a
 * chunk is decoded once for each run. Larger windows and smaller runs mix better, larger runs
 * decode less. Samples that are part of no whole run come last, others in each epoch. The chunks of
 * a window should fit into half of config.chunk_cache_bytes, because the next one begins while it
 * ends; e.g. `window` 4 if eight chunks fit and boxes lie inside of them.
 * Windows, not positions, are dealt to ranks, so that ranks do not decode each other's chunks: in a
 * round, window by window, of world windows. The samples after the last whole round are shared out
 * in pieces. With DROP and PAD ranks get the same number, and without them the first ones get one
 * more. A checkpoint is then to be that of rank 0, as other ranks may be at the end before it.
 * Inside of a round, state.position is its begin plus the samples that each rank has had of it. A
 * checkpoint is then for the same world (order_hash depends on it); for another world take it when
 * wavetrain_epoch_is_portable. DROP and PAD are the only flags that it takes. NULL in its place is
 * an order without one. */
typedef struct wavetrain_chunk_shuffle {
    uint64_t run;    /* samples, at least 1: those of a chunk, or a part of them */
    uint64_t window; /* runs of a shuffle window, at least 1 */
} wavetrain_chunk_shuffle;
/* The place of a sample. */
typedef struct wavetrain_place {
    uint64_t epoch;
    uint64_t position;
} wavetrain_place;

/* The answer of wavetrain_epoch_look. */
typedef struct wavetrain_epoch_view {
    uint64_t left;           /* samples that the rank still gets in this epoch; UINT64_MAX with
                              * WAVETRAIN_EPOCH_REPEAT. Divided by the batch: a DataLoader's len */
    uint64_t window_samples; /* of a shuffle window; 0 without a chunk-aware shuffle */
    uint32_t is_wrong;       /* 1: its numbers do not fit together, so every call refuses it */
    uint32_t is_portable;    /* 1: a checkpoint is good for any world, see above */
} wavetrain_epoch_view;

/* Makes an epoch ready: number 0, rank 0 of 1, batches of 1. 0 if the numbers do not fit together:
 * n is above WAVETRAIN_EPOCH_MAX, or the shuffle and the flags exclude each other. */
int32_t wavetrain_epoch_begin(wavetrain_epoch *epoch, const wavetrain_chunk_shuffle *shuffle,
                              uint64_t n, uint64_t seed, uint32_t flags);

/* Adds numbers that decide the order too (a table of weights, a subset) to order_hash, so that a
 * checkpoint of another table is refused. Between begin and resume. */
int32_t wavetrain_epoch_depends_on(wavetrain_epoch *epoch, const uint64_t *numbers, uint64_t count);

/* Reports how an epoch stands; 0 if it is wrong. `view` is written in both cases. */
int32_t wavetrain_epoch_look(const wavetrain_epoch *epoch, const wavetrain_chunk_shuffle *shuffle,
                             wavetrain_epoch_view *view);

/* Continues from a checkpoint, at any rank, world and batch; set those before. 0, and nothing
 * changes, if it is of another order: another seed, n, shuffle or table; or, inside of a round of
 * shuffle windows, of another world. */
int32_t wavetrain_epoch_resume(wavetrain_epoch *epoch, const wavetrain_chunk_shuffle *shuffle,
                               const wavetrain_epoch_state *state);

/* Begins the next epoch, wherever this one is. */
int32_t wavetrain_epoch_turn(wavetrain_epoch *epoch, const wavetrain_chunk_shuffle *shuffle);

/* Takes the rank's next samples: how many it took, fewer than `count` at the end of the epoch; -1
 * if the epoch is wrong. The lists are NULL or have room for `count`: the place of each, its
 * sample, and 1 if it only pads. */
int64_t wavetrain_epoch_take_many(wavetrain_epoch *epoch, const wavetrain_chunk_shuffle *shuffle,
                                  uint64_t count, wavetrain_place *places, uint64_t *indices,
                                  uint8_t *padding);

/* Finds the samples at places; WAVETRAIN_EPOCH_NO_INDEX if no such place exists. */
int32_t wavetrain_epoch_at_many(const wavetrain_epoch *epoch,
                                const wavetrain_chunk_shuffle *shuffle,
                                const wavetrain_place *places, uint64_t count, uint64_t *indices);

/* ---- Randomness. These functions have no state: a key and a position always give the same number.
 * `positions` and `out` may be the same memory. ---- */

/* Mixes two numbers so that each bit of either changes about half of the result's bits. For one
 * position it is a bijection. A digest is added to a sum by it: the sum over samples of
 * wavetrain_mix(position, digest) does not depend on the order in which they are added. */
static inline uint64_t wavetrain_mix(uint64_t position, uint64_t digest) {
    uint64_t x = digest ^ (position * UINT64_C(0x9E3779B97F4A7C15));
    x = (x ^ (x >> 32)) * UINT64_C(0xD6E8FEB86659FD93);
    x = (x ^ (x >> 32)) * UINT64_C(0xD6E8FEB86659FD93);
    return x ^ (x >> 32);
}

/* The purposes of wavetrain's own draws. Your own purposes are WAVETRAIN_PURPOSE_YOURS and
 * above. */
enum {
    WAVETRAIN_PURPOSE_SHUFFLE = 1,
    WAVETRAIN_PURPOSE_SPLIT = 2,
    WAVETRAIN_PURPOSE_WEIGHTED = 3,
    WAVETRAIN_PURPOSE_MIXED = 4,
    WAVETRAIN_PURPOSE_BOX = 5,
    WAVETRAIN_PURPOSE_POINT = 6,
    WAVETRAIN_PURPOSE_RUNS = 7,
    WAVETRAIN_PURPOSE_WINDOW = 8,
    WAVETRAIN_PURPOSE_TAIL = 9,
    WAVETRAIN_PURPOSE_YOURS = 1024
};

/* A key: of its own for each seed, epoch and purpose. */
static inline uint64_t wavetrain_key(uint64_t seed, uint64_t epoch, uint64_t purpose) {
    return wavetrain_mix(purpose, wavetrain_mix(epoch, wavetrain_mix(1, seed)));
}

/* Philox 4x32-10: a counter and a key in, four numbers out. The key's lower half is its first word.
 * Source: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3 (2011). */
int32_t wavetrain_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]);

/* Numbers below n, all equally likely, for a key, positions and a lane: which of several numbers of
 * a position. 0 for n = 0. */
int32_t wavetrain_below_many(uint64_t n, uint64_t key, uint32_t lane, const uint64_t *positions,
                             uint64_t count, uint64_t *out);

/* The numbers at positions in a shuffled row of n: a bijection of 0 .. n - 1 onto itself, another
 * one for each key; no table of n numbers is made. WAVETRAIN_EPOCH_NO_INDEX for a position that is
 * not below n, and for n above WAVETRAIN_EPOCH_MAX. */
int32_t wavetrain_permute_many(uint64_t n, uint64_t key, const uint64_t *positions, uint64_t count,
                               uint64_t *out);

/* ---- Splits, weights, mixtures. A subset is your table of indices: begin an epoch of as many
 * samples as it has, and take table[index]. ---- */

/* The begin of a part of n samples, in a row split in proportion to the weights: {8, 1, 1} are
 * train, validation and test. Part k has the positions part_begin(k) .. part_begin(k + 1) - 1 of
 * one permutation that never changes: wavetrain_permute(n, wavetrain_key(seed, 0,
 * WAVETRAIN_PURPOSE_SPLIT), position). The weights' sum is to be below 2^32; 0 if it is 0. */
uint64_t wavetrain_part_begin(uint64_t n, const uint32_t *weights, uint32_t parts, uint32_t part);

/* Groups samples by label, in order: those of label c are
 *     table[ends[c - 1]] .. table[ends[c] - 1], from 0 for c = 0.
 * ends: `labels` of them; table: n. 0 if a label is not below `labels`. */
int32_t wavetrain_group(const uint32_t *label_of, uint64_t n, uint32_t labels, uint64_t *ends,
                        uint64_t *table);

/* Splits the samples that wavetrain_group has grouped, so that each part has its share of each
 * label: labels are shuffled, and their samples go to the part that lacks most. Writes the samples
 * of one part to `subset`, apart from `table`, and returns their number. At most 64 parts, whose
 * weights add up to less than 2^32; otherwise, and if all weights are 0, it is 0. */
uint64_t wavetrain_stratify(const uint64_t *ends, uint32_t labels, const uint64_t *table,
                            const uint32_t *weights, uint32_t parts, uint32_t part, uint64_t seed,
                            uint64_t *subset);

/* Adds up weights in place, for wavetrain_weighted. 0 if the sum is above UINT64_MAX. */
int32_t wavetrain_accumulate(uint64_t *weights, uint64_t n);

/* Draws one of n samples for each place, as often as its weight demands, with replacement. Take an
 * epoch without SHUFFLE of as many samples as you like, and call this with its places. `sums` is
 * the result of wavetrain_accumulate. WAVETRAIN_EPOCH_NO_INDEX if all weights are 0. */
int32_t wavetrain_weighted_many(const uint64_t *sums, uint64_t n, uint64_t seed,
                                const wavetrain_place *places, uint64_t count, uint64_t *indices);

/* One of several sources that are mixed. */
typedef struct wavetrain_share {
    uint64_t n;      /* its samples */
    uint32_t weight; /* samples that it gives to each block; 0: it gives none */
    uint32_t reserved;
} wavetrain_share;

/* Which source each place of a mixture is for, and which of its samples it gets. A mixture is a
 * sequence of blocks of as many positions as the weights' sum, below 2^32. In a block, each source
 * occurs as often as its weight, shuffled; a source gives all its samples, shuffled, before it
 * gives one again. Classes as sources of weight 1 are sampling balanced by class: the sample is
 * then table[(source == 0 ? 0 : ends[source - 1]) + index], see wavetrain_group. 0 if nothing can
 * be taken: no weight, or one of a source without samples. */
int32_t wavetrain_mixed_many(const wavetrain_share *shares, uint32_t share_count, uint64_t seed,
                             const wavetrain_place *places, uint64_t count, uint32_t *sources,
                             uint64_t *indices);

/* ---- Boxes of one shape in an array: on a grid, anywhere, or around points. A margin lets them
 * stick out of the array; that part is padded. If an array is smaller than the box and its
 * margins, it has one box along that axis, with the array in the middle. ---- */

#define WAVETRAIN_BOXES_AXES 16

/* A box of the grid begins anywhere in its cell, elsewhere in each epoch: before the next box
 * begins and its chunk ends. */
enum {
    WAVETRAIN_BOXES_JITTER = 1
};

/* Numbers are at most 2^60. */
typedef struct wavetrain_boxes {
    uint32_t rank;                         /* axes, at most WAVETRAIN_BOXES_AXES */
    uint32_t flags;                        /* WAVETRAIN_BOXES_ */
    uint64_t shape[WAVETRAIN_BOXES_AXES];  /* of the array */
    uint64_t box[WAVETRAIN_BOXES_AXES];    /* extents of a box, at least 1 */
    uint64_t step[WAVETRAIN_BOXES_AXES];   /* from box to box of the grid; 0: side by side */
    uint64_t margin[WAVETRAIN_BOXES_AXES]; /* how far it may stick out at both ends: < its extent */
    uint64_t chunk[WAVETRAIN_BOXES_AXES];  /* what is decoded at a time; 0: the whole axis */
} wavetrain_boxes;

/* Boxes and chunks of arrays up to one, itself included. */
typedef struct wavetrain_boxes_end {
    uint64_t boxes;
    uint64_t chunks;
} wavetrain_boxes_end;

/* How many boxes the grids of arrays have, those of the first array first. 0 if an array has none,
 * they are more than WAVETRAIN_EPOCH_MAX, or a number of a struct is not allowed. `ends` is NULL or
 * has a place for each array; with it, chunks are WAVETRAIN_EPOCH_MAX at most, too. */
uint64_t wavetrain_boxes_count(const wavetrain_boxes *boxes, uint64_t arrays,
                               wavetrain_boxes_end *ends);

/* Finds the array that a sample lies in, `arrays` if none has it, and the number of its box. */
uint64_t wavetrain_boxes_find(const wavetrain_boxes_end *ends, uint64_t arrays, uint64_t index,
                              uint64_t *number);

enum {
    /* place.position is the number of a box. They are numbered chunk by chunk, in row-major order
     * of the chunks that they belong to, and in row-major order within a chunk. Seed and
     * place.epoch matter with WAVETRAIN_BOXES_JITTER alone. */
    WAVETRAIN_BOXES_GRID = 0,
    WAVETRAIN_BOXES_ANYWHERE = 1, /* all places of the array are equally likely */
    /* Boxes hold a point of the array, all such equally likely: inside a mask's foreground, or
     * around the voxels of a class. Draw it with wavetrain_weighted or wavetrain_mixed. */
    WAVETRAIN_BOXES_AROUND = 2
};

/* The begins of boxes, `rank` numbers for each place; returns how many were written. The first
 * place without a box ends it: no such number, a point outside of the array. A box ends at
 * begin[axis] + box[axis]. `points`, `rank` for each place, is for WAVETRAIN_BOXES_AROUND alone. */
uint64_t wavetrain_boxes_many(const wavetrain_boxes *boxes, uint32_t from, uint64_t seed,
                              const wavetrain_place *places, const uint64_t *points, uint64_t count,
                              int64_t *begins);

/* ---- Chunks that an epoch in a chunk-aware shuffle decodes, whatever it is dealt to. Ranks that
 * share a window, after the last whole round, each decode what they need. ---- */
typedef struct wavetrain_cost {
    uint64_t distinct; /* at least: each chunk that any box touches, once; with
                        * WAVETRAIN_BOXES_JITTER those that boxes belong to */
    uint64_t windows;  /* at most, if the chunks of two windows fit into the cache: the distinct
                        * chunks of each window, added up */
    uint64_t largest;  /* distinct chunks of the window that has most: half a cache */
} wavetrain_cost;

/* The cost of epoch number state.epoch as a whole; `ends` is the result of wavetrain_boxes_count,
 * and its last one has as many boxes as the epoch has samples. `words`: memory for the chunks of a
 * window, six words for each of them do. 1; 0 if that is too little: try again with twice as much;
 * -1 if the numbers do not fit together. It looks at every box once. */
int32_t wavetrain_epoch_cost(const wavetrain_epoch *epoch, const wavetrain_chunk_shuffle *shuffle,
                             const wavetrain_boxes *boxes, const wavetrain_boxes_end *ends,
                             uint64_t arrays, uint64_t *words, uint64_t word_count,
                             wavetrain_cost *cost);

/* ---- One at a time ---- */

static inline int32_t wavetrain_epoch_is_wrong(const wavetrain_epoch *epoch,
                                               const wavetrain_chunk_shuffle *shuffle) {
    wavetrain_epoch_view view;
    return !wavetrain_epoch_look(epoch, shuffle, &view);
}
static inline int32_t wavetrain_epoch_is_portable(const wavetrain_epoch *epoch,
                                                  const wavetrain_chunk_shuffle *shuffle) {
    wavetrain_epoch_view view;
    return wavetrain_epoch_look(epoch, shuffle, &view) && view.is_portable;
}
/* Samples that the rank still gets, see wavetrain_epoch_view; 0 if the epoch is wrong. */
static inline uint64_t wavetrain_epoch_left(const wavetrain_epoch *epoch,
                                            const wavetrain_chunk_shuffle *shuffle) {
    wavetrain_epoch_view view;
    return wavetrain_epoch_look(epoch, shuffle, &view) ? view.left : 0;
}
/* The place of the rank's next sample, and the sample. 1; 2 if it only pads; 0 after the last one;
 * -1 if the epoch is wrong. place or index may be NULL. */
static inline int32_t wavetrain_epoch_next(wavetrain_epoch *epoch,
                                           const wavetrain_chunk_shuffle *shuffle,
                                           wavetrain_place *place, uint64_t *index) {
    uint8_t padding = 0;
    const int64_t count = wavetrain_epoch_take_many(epoch, shuffle, 1, place, index, &padding);
    return count < 0 ? -1 : count == 0 ? 0 : padding ? 2 : 1;
}
static inline uint64_t wavetrain_epoch_at(const wavetrain_epoch *epoch,
                                          const wavetrain_chunk_shuffle *shuffle,
                                          wavetrain_place place) {
    uint64_t index = WAVETRAIN_EPOCH_NO_INDEX;
    (void)wavetrain_epoch_at_many(epoch, shuffle, &place, 1, &index);
    return index;
}
static inline uint64_t wavetrain_below(uint64_t n, uint64_t key, uint64_t position, uint32_t lane) {
    (void)wavetrain_below_many(n, key, lane, &position, 1, &position);
    return position;
}
static inline uint64_t wavetrain_permute(uint64_t n, uint64_t key, uint64_t position) {
    (void)wavetrain_permute_many(n, key, &position, 1, &position);
    return position;
}
static inline uint64_t wavetrain_weighted(const uint64_t *sums, uint64_t n, uint64_t seed,
                                          wavetrain_place place) {
    uint64_t index = WAVETRAIN_EPOCH_NO_INDEX;
    (void)wavetrain_weighted_many(sums, n, seed, &place, 1, &index);
    return index;
}
static inline int32_t wavetrain_mixed(const wavetrain_share *shares, uint32_t count, uint64_t seed,
                                      wavetrain_place place, uint32_t *source, uint64_t *index) {
    return wavetrain_mixed_many(shares, count, seed, &place, 1, source, index);
}
/* 0, and nothing is written, if no such box exists. The next two functions do the same. */
static inline int32_t wavetrain_boxes_at(const wavetrain_boxes *boxes, uint64_t number,
                                         uint64_t seed, uint64_t epoch, int64_t *begin) {
    wavetrain_place place;
    place.epoch = epoch;
    place.position = number;
    return wavetrain_boxes_many(boxes, WAVETRAIN_BOXES_GRID, seed, &place, &number, 1, begin) == 1;
}
static inline int32_t wavetrain_boxes_anywhere(const wavetrain_boxes *boxes, uint64_t seed,
                                               wavetrain_place place, int64_t *begin) {
    return wavetrain_boxes_many(boxes, WAVETRAIN_BOXES_ANYWHERE, seed, &place, &seed, 1, begin) ==
           1;
}
static inline int32_t wavetrain_boxes_around(const wavetrain_boxes *boxes, const uint64_t *point,
                                             uint64_t seed, wavetrain_place place, int64_t *begin) {
    return wavetrain_boxes_many(boxes, WAVETRAIN_BOXES_AROUND, seed, &place, point, 1, begin) == 1;
}

#ifdef __cplusplus
} /* extern "C" */

#if __cplusplus >= 201103L
namespace wavetrain {

/* The samples of epochs, for loader.stream of wavetrain.hpp, and the state for a checkpoint, which
 * follows what was popped, as samples are pushed before earlier batches are popped.
 *
 *     const auto fill = [&](uint64_t index, wavetrain_place, wavetrain::sample &out) {
 *         out = sample_of(index);
 *     };
 *     auto run = wavetrain::make_epochs(epoch, nullptr, fill);
 *     for (; run.number() < 10; run.turn())
 *         for (wavetrain::batch &batch : loader.stream(run.samples())) {
 *             train(batch);
 *             run.popped(batch.sample_count());
 *             checkpoint = run.state();
 *         }
 *
 * A stream is one epoch, the rest of one at first; after one that is left early the next stream
 * continues after the samples that were popped. epoch.batch is to be the loader's
 * samples_per_batch, and its drop_last 1 if a chunk-aware shuffle has WAVETRAIN_EPOCH_DROP, else 0.
 * An epoch that is wrong has no samples. The object must not move while a stream uses it. */
template <class Fill> class epochs {
public:
    /* An epoch that was begun, and perhaps resumed; `shuffle` is nullptr or was that of both. */
    epochs(const wavetrain_epoch &at, const wavetrain_chunk_shuffle *shuffle, Fill fill)
        : popped_(at), pushed_(at), shuffle_(), has_shuffle_(shuffle != nullptr), next_(0),
          count_(0), fill_(static_cast<Fill &&>(fill)) {
        if (shuffle != nullptr)
            shuffle_ = *shuffle;
    }

    /* The source for loader.stream. */
    class source {
    public:
        explicit source(epochs &of) noexcept : of_(&of) {}
        template <class Sample> bool operator()(Sample &out) { return of_->give(out); }
    private:
        epochs *of_;
    };
    source samples() & noexcept {
        pushed_ = popped_;
        next_ = count_ = 0;
        return source(*this);
    }
    source samples() && = delete; /* it would be gone before the stream */

    /* A batch was popped. `each` is called with the number in the batch and the wavetrain_place of
     * each sample. For a digest of the epoch, the same for any ranks if none drops or pads:
     *     sum += wavetrain_mix(place.position, batch.digests()[i]); */
    void popped(uint64_t samples) {
        (void)wavetrain_epoch_take_many(&popped_, shuffle(), samples, nullptr, nullptr, nullptr);
    }
    template <class Each> void popped(uint64_t samples, Each each) {
        wavetrain_place place = {};
        for (uint64_t i = 0; i < samples; i++) {
            if (wavetrain_epoch_next(&popped_, shuffle(), &place, nullptr) <= 0)
                return;
            each(i, place);
        }
    }

    /* The checkpoint after the batches that were popped. */
    const wavetrain_epoch_state &state() const noexcept { return popped_.state; }
    /* The epoch's number, from 0. */
    uint64_t number() const noexcept { return popped_.state.epoch; }
    /* Batches that the rank still gets in this epoch: a DataLoader's len, at first. */
    uint64_t left() const noexcept {
        const uint64_t samples = wavetrain_epoch_left(&popped_, shuffle()), batch = popped_.batch;
        const bool drops = (popped_.flags & WAVETRAIN_EPOCH_DROP) != 0;
        return batch == 0 ? 0 : samples / batch + (!drops && samples % batch != 0);
    }
    void turn() noexcept { (void)wavetrain_epoch_turn(&popped_, shuffle()); }

private:
    static constexpr uint64_t ahead = 64; /* samples that are dealt by one call */
    const wavetrain_chunk_shuffle *shuffle() const noexcept {
        return has_shuffle_ ? &shuffle_ : nullptr;
    }
    template <class Sample> bool give(Sample &out) {
        if (next_ == count_) {
            next_ = 0;
            count_ = wavetrain_epoch_take_many(&pushed_, shuffle(), ahead, place_, index_, nullptr);
            if (count_ <= 0)
                return false;
        }
        fill_(index_[next_], place_[next_], out);
        next_++;
        return true;
    }

    wavetrain_epoch popped_, pushed_;
    wavetrain_chunk_shuffle shuffle_;
    bool has_shuffle_;
    int64_t next_, count_; /* of those that were dealt and not given */
    wavetrain_place place_[ahead];
    uint64_t index_[ahead];
    Fill fill_;
};

template <class Fill>
epochs<Fill> make_epochs(const wavetrain_epoch &at, const wavetrain_chunk_shuffle *shuffle,
                         Fill fill) {
    return epochs<Fill>(at, shuffle, static_cast<Fill &&>(fill));
}

} /* namespace wavetrain */
#endif
#endif
#endif /* WAVETRAIN_EPOCH_H */
