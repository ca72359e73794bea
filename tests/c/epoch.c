/* epoch.c: answers questions about epochs by epoch_oracle.h, a line each, for tests/ship/epoch; as
 * C and as C++.
 *
 * A question is a word and whole numbers, apart by a space each; its answer is whole numbers with a
 * space in front of each. Where a box begins may be negative, and so may be what says how a call
 * ended; all other numbers have 64 bits and no sign. No sample is 18446744073709551615. COUNT asks
 * for as many answers, at positions that follow each other. A number with .. is a list of them.
 *
 *     mix POSITION DIGEST                      the mixed number
 *     key SEED EPOCH PURPOSE                   the key
 *     high A B                                 wavetrain_mul_high
 *     philox KEY C0 C1 C2 C3                   four numbers
 *     below N KEY POSITION LANE COUNT          the number of each position
 *     permute N KEY POSITION COUNT             the number at each position
 *
 *     deal N SEED FLAGS RANK WORLD BATCH EPOCH POSITION COUNT
 *         begin's answer, order_hash, left. Then an epoch goes on at EPOCH and POSITION, and for
 *         each of COUNT calls: take's answer; where that is above 0 the place's epoch and position
 *         and the sample; then state.epoch, state.position, order_hash, left
 *     free N SEED FLAGS RANK WORLD VISIT WINDOW EPOCH POSITION COUNT
 *         the same in free order, each `left` followed by is_bound (0 or 1; 0 where the epoch is
 *         wrong); 0 alone where begin refuses. The order_hash is that of wavetrain_free_begin,
 *         where EPOCH and POSITION are
 *     at N SEED FLAGS VISIT WINDOW EPOCH POSITION COUNT
 *         the sample at each position, in free order; where VISIT is 0 by wavetrain_epoch_at
 *     depends N SEED FLAGS NUMBER..            order_hash that depends on the numbers
 *     resume N SEED FLAGS OTHER_N OTHER_SEED OTHER_FLAGS POSITION
 *         1 where the other's state of that position is taken, 0 where it is refused
 *
 *     parts N PARTS WEIGHT..                   where each part begins, and N
 *     group LABELS LABEL..                     1, ends and table; 0 where a label is too high
 *     stratify SEED PART PARTS WEIGHT.. LABELS LABEL..     the part's samples
 *     weighted SEED EPOCH POSITION COUNT WEIGHT..
 *         1 and the samples; 0 where the weights' sum is too large
 *     mixed SEED EPOCH POSITION COUNT N WEIGHT N WEIGHT ..
 *         of each position 1, source and sample; or 0
 *
 * A GRID is AXES FLAGS SHAPE.. BOX.. STEP.. MARGIN.. CHUNK.., as many of each as there are axes.
 *
 *     boxes SEED EPOCH NUMBER COUNT GRID       how many; of each 1 and its begins, or 0
 *     anywhere SEED EPOCH POSITION COUNT GRID          of each 1 and its begins, or 0
 *     around SEED EPOCH POSITION COUNT GRID POINT..    the same
 *     arrays INDEX ARRAYS GRID ..              0; or 1, boxes and chunks up to each array, the
 *                                              array of the sample, its box there (0: no array)
 *     cost SEED EPOCH VISIT WINDOW WORDS ARRAYS GRID ..
 *         wavetrain_epoch_cost's answer of an epoch with memory of so many words (65536 at
 *         most); where that is 1 distinct, windows, largest. Nothing where arrays have no sum
 */
#include "epoch_oracle.h"
#include "epoch_oracle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS_MAX 8192
#define LINE_BYTES (1 << 17)
#define WORDS_MAX 65536
#define ARRAYS_MAX 8

/* The numbers of a question, and behind them zeros. */
static uint64_t numbers[NUMBERS_MAX + 128];
static size_t number_count;

static uint64_t table[NUMBERS_MAX], ends[NUMBERS_MAX], words[WORDS_MAX];
static uint32_t labels[NUMBERS_MAX], weights[NUMBERS_MAX];

static void print(uint64_t number) { printf(" %" PRIu64, number); }

static void print_answer(int answer) { printf(" %d", answer); }

static uint32_t narrow(uint64_t number) { return (uint32_t)number; }

static void narrow_all(const uint64_t *from, uint64_t count, uint32_t *to) {
    uint64_t k;
    for (k = 0; k < count; k++)
        to[k] = narrow(from[k]);
}

static wavetrain_place place_at(uint64_t epoch, uint64_t position) {
    wavetrain_place place;
    place.epoch = epoch;
    place.position = position;
    return place;
}

static void philox(void) {
    uint32_t counter[4], out[4];
    int k;
    narrow_all(numbers + 1, 4, counter);
    wavetrain_philox(numbers[0], counter, out);
    for (k = 0; k < 4; k++)
        print(out[k]);
}

static void below(void) {
    uint64_t k;
    for (k = 0; k < numbers[4]; k++)
        print(wavetrain_below(numbers[0], numbers[1], numbers[2] + k, narrow(numbers[3])));
}

static void permute(void) {
    uint64_t k;
    for (k = 0; k < numbers[3]; k++)
        print(wavetrain_permute(numbers[0], numbers[1], numbers[2] + k));
}

/* ---- Epochs ---- */

static void print_left(const wavetrain_epoch *epoch, const wavetrain_free *order) {
    if (order == NULL) {
        print(wavetrain_epoch_left(epoch));
        return;
    }
    print(wavetrain_free_left(epoch, order));
    print_answer(!wavetrain_free_is_wrong(epoch, order) && wavetrain_free_is_bound(epoch, order));
}

/* Goes on at an epoch and a position. */
static void run(wavetrain_epoch *epoch, const wavetrain_free *order, const uint64_t *from) {
    uint64_t k;
    epoch->state.epoch = from[0];
    if (order != NULL && wavetrain_free_window(epoch, order) > 0)
        wavetrain_free_move(epoch, wavetrain_free_window(epoch, order), from[1]);
    epoch->state.position = from[1];
    print(epoch->state.order_hash);
    print_left(epoch, order);
    for (k = 0; k < from[2]; k++) {
        wavetrain_place place = place_at(0, 0);
        const int given = order == NULL ? wavetrain_epoch_take(epoch, &place)
                                        : wavetrain_free_take(epoch, order, &place);
        print_answer(given);
        if (given > 0) {
            print(place.epoch);
            print(place.position);
            print(order == NULL ? wavetrain_epoch_at(epoch, place)
                                : wavetrain_free_at(epoch, order, place));
        }
        print(epoch->state.epoch);
        print(epoch->state.position);
        print(epoch->state.order_hash);
        print_left(epoch, order);
    }
}

static void deal(void) {
    wavetrain_epoch epoch;
    print_answer(wavetrain_epoch_begin(&epoch, numbers[0], numbers[1], narrow(numbers[2])));
    epoch.rank = narrow(numbers[3]);
    epoch.world = narrow(numbers[4]);
    epoch.batch = narrow(numbers[5]);
    run(&epoch, NULL, numbers + 6);
}

static void deal_free(void) {
    wavetrain_epoch epoch;
    wavetrain_free order;
    order.visit = numbers[5];
    order.window = numbers[6];
    if (!wavetrain_free_begin(&epoch, &order, numbers[0], numbers[1], narrow(numbers[2]))) {
        print_answer(0);
        return;
    }
    print_answer(1);
    epoch.rank = narrow(numbers[3]);
    epoch.world = narrow(numbers[4]);
    run(&epoch, &order, numbers + 7);
}

static void at(void) {
    wavetrain_epoch epoch;
    wavetrain_free order;
    uint64_t k;
    (void)wavetrain_epoch_begin(&epoch, numbers[0], numbers[1], narrow(numbers[2]));
    order.visit = numbers[3];
    order.window = numbers[4];
    for (k = 0; k < numbers[7]; k++) {
        const wavetrain_place place = place_at(numbers[5], numbers[6] + k);
        print(order.visit == 0 ? wavetrain_epoch_at(&epoch, place)
                               : wavetrain_free_at(&epoch, &order, place));
    }
}

static void depends(void) {
    wavetrain_epoch epoch;
    (void)wavetrain_epoch_begin(&epoch, numbers[0], numbers[1], narrow(numbers[2]));
    wavetrain_epoch_depends_on(&epoch, numbers + 3, number_count - 3);
    print(epoch.state.order_hash);
}

static void resume(void) {
    wavetrain_epoch epoch, other;
    (void)wavetrain_epoch_begin(&epoch, numbers[0], numbers[1], narrow(numbers[2]));
    (void)wavetrain_epoch_begin(&other, numbers[3], numbers[4], narrow(numbers[5]));
    other.state.position = numbers[6];
    print_answer(wavetrain_epoch_resume(&epoch, &other.state));
}

/* ---- Splits, weights, mixtures ---- */

static void parts(void) {
    uint32_t part;
    narrow_all(numbers + 2, numbers[1], weights);
    for (part = 0; part <= numbers[1]; part++)
        print(wavetrain_part_begin(numbers[0], weights, narrow(numbers[1]), part));
}

/* Groups what stands from `from` on: how many labels there are, and the label of each sample. */
static uint64_t group_from(size_t from) {
    const uint64_t n = number_count - from - 1;
    narrow_all(numbers + from + 1, n, labels);
    return wavetrain_group(labels, n, narrow(numbers[from]), ends, table) ? n : UINT64_MAX;
}

static void group(void) {
    const uint64_t n = group_from(0);
    uint64_t k;
    print_answer(n != UINT64_MAX);
    for (k = 0; n != UINT64_MAX && k < numbers[0]; k++)
        print(ends[k]);
    for (k = 0; n != UINT64_MAX && k < n; k++)
        print(table[k]);
}

static void stratify(void) {
    const size_t from = 3 + (size_t)numbers[2];
    uint64_t subset[NUMBERS_MAX];
    uint64_t k, count;
    narrow_all(numbers + 3, numbers[2], weights);
    if (group_from(from) == UINT64_MAX)
        return;
    count = wavetrain_stratify(ends, narrow(numbers[from]), table, weights, narrow(numbers[2]),
                               narrow(numbers[1]), numbers[0], subset);
    for (k = 0; k < count; k++)
        print(subset[k]);
}

static void weighted(void) {
    const uint64_t n = number_count - 4;
    uint64_t k;
    for (k = 0; k < n; k++)
        table[k] = numbers[4 + k];
    if (!wavetrain_accumulate(table, n)) {
        print_answer(0);
        return;
    }
    print_answer(1);
    for (k = 0; k < numbers[3]; k++)
        print(wavetrain_weighted(table, n, numbers[0], place_at(numbers[1], numbers[2] + k)));
}

static void mixed(void) {
    static wavetrain_share shares[NUMBERS_MAX / 2];
    const uint32_t count = narrow((number_count - 4) / 2);
    uint64_t k;
    for (k = 0; k < count; k++) {
        shares[k].n = numbers[4 + 2 * k];
        shares[k].weight = narrow(numbers[5 + 2 * k]);
        shares[k].reserved = 0;
    }
    for (k = 0; k < numbers[3]; k++) {
        uint32_t source = 0;
        uint64_t index = 0;
        const int given = wavetrain_mixed(shares, count, numbers[0],
                                          place_at(numbers[1], numbers[2] + k), &source, &index);
        print_answer(given);
        if (given) {
            print(source);
            print(index);
        }
    }
}

/* ---- Boxes ---- */

/* The grid that stands at a number; what follows it. */
static const uint64_t *grid_from(const uint64_t *from, wavetrain_boxes *boxes) {
    uint64_t *lists[5];
    uint32_t list, axis;
    memset(boxes, 0, sizeof *boxes);
    boxes->rank = narrow(from[0]);
    boxes->flags = narrow(from[1]);
    lists[0] = boxes->shape;
    lists[1] = boxes->box;
    lists[2] = boxes->step;
    lists[3] = boxes->margin;
    lists[4] = boxes->chunk;
    from += 2;
    for (list = 0; list < 5 && boxes->rank <= WAVETRAIN_BOXES_AXES; list++)
        for (axis = 0; axis < boxes->rank; axis++)
            lists[list][axis] = *from++;
    return from;
}

static void print_begins(int given, const wavetrain_boxes *boxes, const int64_t *begin) {
    uint32_t axis;
    print_answer(given);
    for (axis = 0; given && axis < boxes->rank; axis++)
        printf(" %" PRId64, begin[axis]);
}

static void boxes_at(void) {
    wavetrain_boxes boxes;
    int64_t begin[WAVETRAIN_BOXES_AXES];
    uint64_t k;
    (void)grid_from(numbers + 4, &boxes);
    print(wavetrain_boxes_count(&boxes));
    for (k = 0; k < numbers[3]; k++)
        print_begins(wavetrain_boxes_at(&boxes, numbers[2] + k, numbers[0], numbers[1], begin),
                     &boxes, begin);
}

static void anywhere(int is_around) {
    wavetrain_boxes boxes;
    int64_t begin[WAVETRAIN_BOXES_AXES];
    const uint64_t *point = grid_from(numbers + 4, &boxes);
    uint64_t k;
    for (k = 0; k < numbers[3]; k++) {
        const wavetrain_place place = place_at(numbers[1], numbers[2] + k);
        const int given =
            is_around ? wavetrain_boxes_around(&boxes, point, numbers[0], place, begin)
                      : wavetrain_boxes_anywhere(&boxes, numbers[0], place, begin);
        print_begins(given, &boxes, begin);
    }
}

static wavetrain_boxes arrays[ARRAYS_MAX];
static wavetrain_boxes_end arrays_end[ARRAYS_MAX];

/* The grids that stand at a number, added up. */
static int grids_from(const uint64_t *from, uint64_t count) {
    uint64_t k;
    for (k = 0; k < count && k < ARRAYS_MAX; k++)
        from = grid_from(from, &arrays[k]);
    return count <= ARRAYS_MAX && wavetrain_boxes_ends(arrays, count, arrays_end);
}

static void find(void) {
    uint64_t number = 0, k;
    const int is_right = grids_from(numbers + 2, numbers[1]);
    print_answer(is_right);
    if (!is_right)
        return;
    for (k = 0; k < numbers[1]; k++) {
        print(arrays_end[k].boxes);
        print(arrays_end[k].chunks);
    }
    print(wavetrain_boxes_find(arrays_end, numbers[1], numbers[0], &number));
    print(number);
}

static void cost(void) {
    const uint64_t count = numbers[5];
    wavetrain_epoch epoch;
    wavetrain_free order;
    wavetrain_cost cost;
    int answer;
    if (!grids_from(numbers + 6, count))
        return;
    order.visit = numbers[2];
    order.window = numbers[3];
    (void)wavetrain_free_begin(&epoch, &order, count == 0 ? 0 : arrays_end[count - 1].boxes,
                               numbers[0], 0);
    epoch.state.epoch = numbers[1];
    answer = wavetrain_epoch_cost(&epoch, &order, arrays, arrays_end, count, words,
                                  numbers[4] < WORDS_MAX ? numbers[4] : WORDS_MAX, &cost);
    print_answer(answer);
    if (answer == 1) {
        print(cost.distinct);
        print(cost.windows);
        print(cost.largest);
    }
}

static int answer(const char *word) {
    if (strcmp(word, "mix") == 0)
        print(wavetrain_mix(numbers[0], numbers[1]));
    else if (strcmp(word, "key") == 0)
        print(wavetrain_key(numbers[0], numbers[1], numbers[2]));
    else if (strcmp(word, "high") == 0)
        print(wavetrain_mul_high(numbers[0], numbers[1]));
    else if (strcmp(word, "philox") == 0)
        philox();
    else if (strcmp(word, "below") == 0)
        below();
    else if (strcmp(word, "permute") == 0)
        permute();
    else if (strcmp(word, "deal") == 0)
        deal();
    else if (strcmp(word, "free") == 0)
        deal_free();
    else if (strcmp(word, "at") == 0)
        at();
    else if (strcmp(word, "depends") == 0)
        depends();
    else if (strcmp(word, "resume") == 0)
        resume();
    else if (strcmp(word, "parts") == 0)
        parts();
    else if (strcmp(word, "group") == 0)
        group();
    else if (strcmp(word, "stratify") == 0)
        stratify();
    else if (strcmp(word, "weighted") == 0)
        weighted();
    else if (strcmp(word, "mixed") == 0)
        mixed();
    else if (strcmp(word, "boxes") == 0)
        boxes_at();
    else if (strcmp(word, "anywhere") == 0 || strcmp(word, "around") == 0)
        anywhere(strcmp(word, "around") == 0);
    else if (strcmp(word, "arrays") == 0)
        find();
    else if (strcmp(word, "cost") == 0)
        cost();
    else
        return 0;
    return 1;
}

int main(void) {
    static char line[LINE_BYTES];
    while (fgets(line, sizeof line, stdin) != NULL) {
        const size_t word_bytes = strcspn(line, " \n");
        char *next = line + word_bytes;
        memset(numbers, 0, sizeof numbers);
        for (number_count = 0; number_count < NUMBERS_MAX && *next == ' '; number_count++)
            numbers[number_count] = strtoull(next, &next, 10);
        line[word_bytes] = '\0';
        if (*next != '\n' || !answer(line))
            return 1;
        printf("\n");
    }
    return 0;
}
