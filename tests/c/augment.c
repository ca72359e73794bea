/* augment.c STORES BATCHES [seccomp]: what wavetrain_augment makes of elements, and that nothing
 * allocates for it after open.
 *
 * First every type that can become floats goes through every step into a field of each type of
 * floats. Then boxes of STORES, some of them damaged or missing, and of memory stream with all
 * steps at once, with on_error = skip and digests, to the middle of a batch, and once more from the
 * start after a reset. Each element is compared with what the lines of wavetrain.h make of it.
 *
 * Without "seccomp" the malloc family is counted from open to close; with it the kernel kills the
 * process at the first mmap, munmap, mremap, brk or clone after open.
 */
#define _GNU_SOURCE
#include "check.h"
#include "count_alloc.h"
#include "digest.h"
#include "forbid.h"

#include <float.h>
#include <math.h>

enum { SAMPLES = 3, BOX = 8, LOOKAHEAD = 7, ENTRIES = 2048 };
enum { PLANES = 3, ROWS = 5, COLUMNS = 7, PLACES = PLANES * ROWS * COLUMNS };
enum { PLAIN, SCALED, BIASED, NOISY, CLAMPED, ERASED, ALL, STEPS };

static float table[ENTRIES];

/* exp(t) - 1 for t >= 0, and the same of a series that is exact enough below 13. */
static double exponential(double t) {
    double sum = 1, term = 1;
    for (int n = 1; n < 120; n++)
        sum += term *= t / n;
    return sum;
}

/* How much of the normal distribution lies between 0 and x: phi(x) (x + x^3 / 3 + x^5 / 15 ..). */
static double normal_below(double x) {
    double sum = 0, term = x;
    for (int n = 1; n < 300; n += 2) {
        sum += term;
        term *= x * x / (n + 2);
    }
    return sum / exponential(x * x / 2) * 0.39894228040143267794;
}

/* The table of the header: the quantile of each entry, by bisection. */
static void make_table(void) {
    for (int i = ENTRIES / 2; i < ENTRIES; i++) {
        double low = 0, high = 5;
        for (int turn = 0; turn < 64; turn++) {
            const double middle = (low + high) / 2;
            if (normal_below(middle) < (i + 0.5) / ENTRIES - 0.5)
                low = middle;
            else
                high = middle;
        }
        table[i] = (float)(low * 0.7073325951129718);
        table[ENTRIES - 1 - i] = -table[i];
    }
}

static float normal(uint64_t key, uint64_t n) {
    uint64_t h = key + (n + 1) * 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9u;
    h = (h ^ h >> 27) * 0x94D049BB133111EBu;
    h = h ^ h >> 31;
    return table[h >> 53] + table[h >> 42 & 2047];
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint16_t bf16_of(float x) {
    const uint32_t bits = bits_of(x);
    return x != x ? 0x7FC0 : (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static uint16_t f16_of(float x) {
    const uint32_t sign = bits_of(x) >> 16 & 0x8000, bits = bits_of(x) & 0x7FFFFFFF;
    if (x != x)
        return 0x7E00;
    if (bits >= bits_of(65520))
        return (uint16_t)(sign | 0x7C00);
    if (bits >= bits_of(0x1p-14f))
        return (uint16_t)(sign | (((bits + 0xFFF + (bits >> 13 & 1)) >> 13) - (112 << 10)));
    /* A multiple of 2^-24, which is exact where it is scaled. */
    const float scaled = float_of(bits) * 0x1p24f;
    uint32_t whole = (uint32_t)scaled;
    const float rest = scaled - (float)whole;
    whole += rest > 0.5f || (rest == 0.5f && whole % 2 == 1);
    return (uint16_t)(sign | whole);
}

static float float_of_f16(uint16_t half) {
    const uint32_t exponent = half >> 10 & 31, digits = half & 1023;
    const float sign = half >> 15 ? -1.0f : 1.0f;
    if (exponent == 31)
        return digits ? float_of(0x7FC00000) : sign * INFINITY;
    if (exponent == 0)
        return sign * (float)digits * 0x1p-24f;
    return sign * float_of((exponent + 112) << 23 | digits << 13);
}

/* (float)element. */
static float element_as_float(const void *at, uint32_t dtype) {
#define AS(type)                                                                                   \
    do {                                                                                           \
        type element;                                                                              \
        memcpy(&element, at, sizeof element);                                                      \
        return (float)element;                                                                     \
    } while (0)
    uint16_t bits;
    switch (dtype) {
    case WAVETRAIN_U8: AS(uint8_t);
    case WAVETRAIN_BOOL: AS(uint8_t);
    case WAVETRAIN_I8: AS(int8_t);
    case WAVETRAIN_U16: AS(uint16_t);
    case WAVETRAIN_I16: AS(int16_t);
    case WAVETRAIN_U32: AS(uint32_t);
    case WAVETRAIN_I32: AS(int32_t);
    case WAVETRAIN_U64: AS(uint64_t);
    case WAVETRAIN_I64: AS(int64_t);
    case WAVETRAIN_F32: AS(float);
    case WAVETRAIN_F64: AS(double);
    case WAVETRAIN_F16: memcpy(&bits, at, sizeof bits); return float_of_f16(bits);
    default:
        CHECK(dtype == WAVETRAIN_BF16);
        memcpy(&bits, at, sizeof bits);
        return float_of((uint32_t)bits << 16);
    }
#undef AS
}

static int lies_in(const wavetrain_erase *erase, const uint64_t *place) {
    for (int axis = 0; axis < 3; axis++)
        if (place[axis] < erase->begin[axis] || place[axis] >= erase->end[axis])
            return 0;
    return 1;
}

/* What the steps make of x at place `place` of a sample; volatile, so that each line rounds. */
static float augmented(const wavetrain_augment *augment, float x, const uint64_t *shape,
                       const uint64_t *place) {
    const uint64_t c = augment->n_channels > 1 ? place[augment->channel_axis] : 0;
    volatile float step = x;
    if (augment->scale)
        step = step * augment->scale[c];
    if (augment->bias)
        step = step + augment->bias[c];
    if (augment->noise_sigma != 0) {
        const uint64_t n = (place[0] * shape[1] + place[1]) * shape[2] + place[2];
        const volatile float z = normal(augment->noise_key, n);
        const volatile float noise = augment->noise_sigma * z;
        step = step + noise;
    }
    if (augment->has_clamp && step < augment->clamp_low)
        step = augment->clamp_low;
    if (augment->has_clamp && step > augment->clamp_high)
        step = augment->clamp_high;
    for (uint32_t number = 0; number < augment->n_erase; number++)
        if (lies_in(&augment->erase[number], place))
            step = augment->erase[number].values[augment->erase[number].n_values > 1 ? c : 0];
    return step == step ? step : float_of(0x7FC00000);
}

/* Whether an element of a batch is a float. */
static int is_element(const wavetrain_batch_view *view, uint64_t number, float x) {
    if (view->dtype == WAVETRAIN_F32)
        return ((const uint32_t *)view->data)[number] == bits_of(x);
    const uint16_t element = ((const uint16_t *)view->data)[number];
    return element == (view->dtype == WAVETRAIN_BF16 ? bf16_of(x) : f16_of(x));
}

/* The steps by number, for samples of three axes, of which axis 2 has COLUMNS channels. */
static wavetrain_augment steps_of(int steps, wavetrain_erase *erase) {
    static const float scale[COLUMNS] = { 0.3f, -1, 2, 1.0f / 255, 0, 1e-30f, 7 };
    static const float bias[COLUMNS] = { 1, 0.1f, -3, 1000, -0.0f, 1e-40f, 0 };
    static const float values[COLUMNS] = { 1, 2, 3, 4, 5, 6, NAN };
    wavetrain_augment augment;
    memset(&augment, 0, sizeof augment);
    augment.struct_size = sizeof augment;
    augment.n_channels = COLUMNS, augment.channel_axis = 2;
    if (steps == SCALED || steps == ALL)
        augment.scale = scale;
    if (steps == BIASED || steps == ALL)
        augment.bias = bias;
    if (steps == NOISY || steps == ALL)
        augment.noise_sigma = 2.5f, augment.noise_key = 0x123456789ABCDEF;
    if (steps == CLAMPED || steps == ALL)
        augment.has_clamp = 1, augment.clamp_low = -50, augment.clamp_high = 900;
    if (steps == ERASED || steps == ALL) {
        augment.erase = erase;
        augment.n_erase = 2, augment.erase_bytes = sizeof *erase;
        memset(erase, 0, 2 * sizeof *erase);
        erase[0].begin[1] = 1, erase[0].begin[2] = 2;
        erase[0].end[0] = 2, erase[0].end[1] = 4, erase[0].end[2] = COLUMNS;
        erase[0].values = values, erase[0].n_values = COLUMNS;
        erase[1].end[0] = 3, erase[1].end[1] = 2, erase[1].end[2] = 4;
        erase[1].values = bias, erase[1].n_values = 1;
    }
    return augment;
}

/* Bytes of an element of each type, by code. */
static uint64_t bytes_of(uint32_t dtype) {
    switch (dtype) {
    case WAVETRAIN_U8: case WAVETRAIN_I8: case WAVETRAIN_BOOL: return 1;
    case WAVETRAIN_U16: case WAVETRAIN_I16: case WAVETRAIN_F16: case WAVETRAIN_BF16: return 2;
    case WAVETRAIN_U32: case WAVETRAIN_I32: case WAVETRAIN_F32: return 4;
    default: return 8;
    }
}

static void one_type_into_another(uint32_t from, uint32_t to) {
    static unsigned char memory[STEPS][PLACES * 8];
    static const uint64_t shape[3] = { PLANES, ROWS, COLUMNS };
    wavetrain_config config = cube_config(0);
    memcpy(config.sample_shape, shape, sizeof shape);
    config.dtype = to;
    config.samples_per_batch = STEPS;
    config.max_boxes_per_sample = 1;
    config.augment = 1;
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_loader loader;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    uint64_t state = from * 1000 + to;
    for (int steps = 0; steps < STEPS; steps++) {
        for (unsigned at = 0; at < sizeof memory[0]; at++)
            memory[steps][at] =
                (unsigned char)random_below(&state, from == WAVETRAIN_BOOL ? 2 : 256);
        wavetrain_tensor tensor;
        memset(&tensor, 0, sizeof tensor);
        tensor.struct_size = sizeof tensor;
        tensor.data = memory[steps], tensor.dtype = from, tensor.device = -1;
        memcpy(tensor.shape, shape, sizeof shape);
        wavetrain_erase erase[2];
        wavetrain_augment augment = steps_of(steps, erase);
        wavetrain_box box;
        memset(&box, 0, sizeof box);
        box.kind = WAVETRAIN_BOX_MEMORY, box.tensor = &tensor, box.rank = 3;
        for (int axis = 0; axis < 3; axis++)
            box.end[axis] = (int64_t)shape[axis];
        box.augment = &augment;
        const wavetrain_sample sample = sample_of(&box, (uint64_t)steps);
        size_t taken = 0;
        CHECK_STATUS(wavetrain_push(loader, &sample, 1, sizeof sample, LONG_NS, &taken),
                     WAVETRAIN_OK);
        /* What push copied is its own. */
        memset(&augment, 0xA5, sizeof augment);
        memset(erase, 0xA5, sizeof erase);
    }
    wavetrain_batch batch;
    CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
    const wavetrain_batch_view view = view_of(loader, batch);
    CHECK(view.dtype == to && view.sample_count == STEPS);
    for (uint64_t number = 0; number < STEPS * PLACES; number++) {
        const uint64_t n = number % PLACES;
        const uint64_t place[3] = { n / (ROWS * COLUMNS), n / COLUMNS % ROWS, n % COLUMNS };
        wavetrain_erase erase[2];
        const wavetrain_augment augment = steps_of((int)(number / PLACES), erase);
        const float x = element_as_float(memory[number / PLACES] + n * bytes_of(from), from);
        CHECK(is_element(&view, number, augmented(&augment, x, shape, place)));
    }
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
}

static char uris[VOLUMES + 2][512];
enum { DAMAGED = VOLUMES, ABSENT };

/* Volume 0 in memory, its planes and columns from the last to the first. */
static uint16_t turned[EDGE][EDGE][EDGE];

static void make_turned(void) {
    for (int z = 0; z < EDGE; z++)
        for (int y = 0; y < EDGE; y++)
            for (int x = 0; x < EDGE; x++)
                turned[EDGE - 1 - z][y][EDGE - 1 - x] = sparse_at(0, z, y, x);
}

static wavetrain_tensor turned_tensor(void) {
    wavetrain_tensor tensor;
    memset(&tensor, 0, sizeof tensor);
    tensor.struct_size = sizeof tensor;
    tensor.data = &turned[EDGE - 1][0][EDGE - 1];
    tensor.dtype = WAVETRAIN_U16;
    tensor.device = -1;
    for (int axis = 0; axis < 3; axis++)
        tensor.shape[axis] = EDGE;
    tensor.strides[0] = -(int64_t)sizeof turned[0];
    tensor.strides[1] = sizeof turned[0][0];
    tensor.strides[2] = -(int64_t)sizeof turned[0][0][0];
    return tensor;
}

/* What sample `number` of the stream reads, and from where. */
static unsigned asked_of(uint64_t number, int64_t *at) {
    uint64_t state = number * 2654435761u + 77;
    random_below(&state, 7);
    for (int axis = 0; axis < 3; axis++)
        at[axis] = random_below(&state, EDGE - BOX + 1);
    const unsigned dice = random_below(&state, 100);
    return dice < 10 ? DAMAGED : dice < 15 ? ABSENT : dice % VOLUMES;
}

/* All steps, for cubes; other ones for each sample. */
static wavetrain_augment stream_steps(uint64_t number, wavetrain_erase *erase, float *numbers) {
    wavetrain_augment augment;
    memset(&augment, 0, sizeof augment);
    memset(erase, 0, sizeof *erase);
    augment.struct_size = sizeof augment;
    augment.scale = numbers, augment.bias = numbers + BOX;
    augment.n_channels = BOX, augment.channel_axis = (uint32_t)(number % 3);
    for (int i = 0; i < 2 * BOX; i++)
        numbers[i] = (float)(number % 50 + (uint64_t)i) / 16;
    augment.has_clamp = number % 2, augment.clamp_low = 100, augment.clamp_high = 9000;
    augment.noise_sigma = (float)(number % 4), augment.noise_key = number;
    augment.erase = erase, augment.n_erase = 1, augment.erase_bytes = sizeof *erase;
    for (int axis = 0; axis < 3; axis++) {
        erase->begin[axis] = number % (BOX - 1);
        erase->end[axis] = erase->begin[axis] + 2;
    }
    erase->values = numbers + 3, erase->n_values = 1;
    return augment;
}

static void push_some(wavetrain_loader loader, uint64_t *next, uint64_t limit) {
    for (size_t taken = 1; taken == 1 && *next < limit; *next += taken) {
        int64_t at[3];
        float numbers[2 * BOX];
        wavetrain_erase erase;
        const unsigned volume = asked_of(*next, at);
        wavetrain_box box = cube_box(uris[volume], at[0], at[1], at[2], BOX);
        wavetrain_augment augment = stream_steps(*next, &erase, numbers);
        box.augment = &augment;
        /* Two in three have a map that leads to the same voxels, or a quarter of one further, where
         * those are still the nearest. */
        wavetrain_affine affine = { .struct_size = sizeof affine, .rank = 3, .level = -1 };
        for (unsigned axis = 0; *next % 3 > 0 && axis < 3; axis++) {
            affine.axes[axis] = axis;
            affine.matrix[axis][axis] = 1;
            affine.matrix[axis][3] = (double)at[axis] + (*next % 3 == 1 ? 0 : 0.25);
            box.begin[axis] = 0, box.end[axis] = BOX;
            box.affine = &affine;
        }
        const wavetrain_tensor tensor = turned_tensor();
        if (volume == 0) {
            box.kind = WAVETRAIN_BOX_MEMORY, box.tensor = &tensor;
            box.uri = NULL, box.uri_bytes = 0;
        }
        const wavetrain_sample sample = sample_of(&box, *next);
        const wavetrain_status status =
            wavetrain_push(loader, &sample, 1, sizeof sample, 0, &taken);
        CHECK(status == (taken == 1 ? WAVETRAIN_OK : WAVETRAIN_AGAIN));
        memset(numbers, 0xA5, sizeof numbers);
        memset(&erase, 0xA5, sizeof erase);
        memset(&affine, 0xA5, sizeof affine);
    }
}

/* Counts the rows that were skipped in skipped[0], the others in skipped[1]. */
static void check_row(const wavetrain_batch_view *view, uint32_t row, uint64_t *counts) {
    static const uint64_t shape[3] = { BOX, BOX, BOX };
    int64_t at[3];
    float numbers[2 * BOX];
    wavetrain_erase erase;
    const unsigned volume = asked_of(view->tags[row], at);
    const wavetrain_augment augment = stream_steps(view->tags[row], &erase, numbers);
    const int is_whole = view->statuses[row] == WAVETRAIN_OK;
    CHECK(volume >= DAMAGED || is_whole);
    CHECK(volume != ABSENT || view->statuses[row] == WAVETRAIN_NOT_FOUND);
    counts[is_whole] += 1;
    for (uint64_t n = 0; n < BOX * BOX * BOX; n++) {
        const uint64_t place[3] = { n / (BOX * BOX), n / BOX % BOX, n % BOX };
        const float x = (float)sparse_at(volume, at[0] + (int64_t)place[0],
                                         at[1] + (int64_t)place[1], at[2] + (int64_t)place[2]);
        const float wanted = is_whole ? augmented(&augment, x, shape, place) : -7.5f;
        CHECK(is_element(view, row * (BOX * BOX * BOX) + n, wanted));
    }
}

static void stream(wavetrain_loader loader, uint64_t batches, uint64_t limit, uint64_t *counts) {
    wavetrain_error error = { .struct_size = sizeof error };
    uint64_t next = 0;
    for (uint64_t number = 0; number < batches; number++) {
        push_some(loader, &next, limit);
        wavetrain_batch batch;
        CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
        const wavetrain_batch_view view = view_of(loader, batch);
        check_digests(&view, number * SAMPLES);
        for (uint32_t row = 0; row < SAMPLES; row++) {
            CHECK(view.tags[row] == number * SAMPLES + row);
            check_row(&view, row, counts);
        }
        CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    }
}

int main(int argc, char **argv) {
    static char output[4096];
    static const uint32_t types[] = {
        WAVETRAIN_U8,  WAVETRAIN_I8,  WAVETRAIN_U16, WAVETRAIN_I16, WAVETRAIN_U32,
        WAVETRAIN_I32, WAVETRAIN_U64, WAVETRAIN_I64, WAVETRAIN_F32, WAVETRAIN_F64,
        WAVETRAIN_F16, WAVETRAIN_BF16, WAVETRAIN_BOOL,
    };
    CHECK(argc >= 3);
    const uint64_t batches = strtoull(argv[2], NULL, 10);
    const int filtered = argc > 3;
    setvbuf(stdout, output, _IOFBF, sizeof output);
    make_table();
    make_turned();
    for (unsigned at = 0; at < sizeof types / sizeof types[0]; at++) {
        one_type_into_another(types[at], WAVETRAIN_F32);
        one_type_into_another(types[at], WAVETRAIN_BF16);
        one_type_into_another(types[at], WAVETRAIN_F16);
    }
    for (int volume = 0; volume < VOLUMES; volume++)
        snprintf(uris[volume], sizeof uris[volume], "%s/volume%d", argv[1], volume);
    snprintf(uris[DAMAGED], sizeof uris[0], "%s/damaged", argv[1]);
    snprintf(uris[ABSENT], sizeof uris[0], "%s/absent", argv[1]);

    wavetrain_config config = cube_config(BOX);
    config.samples_per_batch = SAMPLES;
    config.lookahead_samples = LOOKAHEAD;
    config.on_error = WAVETRAIN_ON_ERROR_SKIP;
    config.pad_value = -7.5;
    config.augment = 1;
    config.max_boxes_per_sample = 1;
    config.digest = 1;
    config.n_array_meta_cache = 2;
    config.n_shard_index_cache = 8;
    config.n_chunk_layout_cache = 8;
    config.max_chunk_uncompressed_bytes = 1 << 16;
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_loader loader;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    if (filtered)
        forbid_memory();
    const uint64_t calls_before = atomic_load(&alloc_calls);
    uint64_t counts[2] = { 0, 0 };
    /* The last push of the first stream is more than its batches take: reset drops it. */
    stream(loader, batches / 2, UINT64_MAX, counts);
    CHECK_STATUS(wavetrain_reset(loader), WAVETRAIN_OK);
    stream(loader, batches - batches / 2, batches * SAMPLES, counts);
    CHECK(counts[0] > 0 && counts[1] > counts[0]);
    CHECK(atomic_load(&alloc_calls) == calls_before);
    printf("%llu batches, %llu samples skipped, 0 allocations\n", (unsigned long long)batches,
           (unsigned long long)counts[0]);
    fflush(stdout);
    if (filtered)
        _exit(0);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
    return 0;
}
