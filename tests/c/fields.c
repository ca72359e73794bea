/* fields.c STORES BATCHES [seccomp]: eight fields of every source, of which nothing allocates after
 * open, and every element is right.
 *
 * STORES has the volumes as zarr arrays. They are written beside those as levels of an image, as a
 * .npy file, which raw: reads as well, and as numbered ones; and a hook knows them.
 *
 * Without "seccomp" the malloc family is counted from open to close; with it the kernel kills the
 * process at the first mmap, munmap, mremap, brk or clone after open.
 */
#define _GNU_SOURCE
#include "check.h"
#include "count_alloc.h"
#include "digest.h"
#include "forbid.h"

enum { SAMPLES = 3, BOX = 8, MEMORY = 40, BOXES = 9 };
enum { CUBE, TURNED, STRIDED, HALVES, FED, LABEL, WEIGHTS, NOTHING, FIELDS };

enum { ARRAY, LEVEL, NPY, RAW, NUMBERED, HOOK, SOURCES };
enum { PARTS = 11, HEADER_BYTES = 128 };

static char uris[SOURCES][VOLUMES][512];
static int32_t memory[MEMORY][MEMORY];

/* What sample `number` asks for. */
struct asked {
    unsigned seed, other;
    unsigned source, other_source;
    int64_t at[3];
};

static struct asked asked_of(uint64_t number) {
    uint64_t state = number * 2654435761u + 999;
    struct asked asked;
    random_below(&state, 7);
    asked.seed = random_below(&state, VOLUMES);
    asked.other = random_below(&state, VOLUMES);
    asked.source = random_below(&state, SOURCES);
    asked.other_source = random_below(&state, SOURCES);
    for (int axis = 0; axis < 3; axis++)
        asked.at[axis] = random_below(&state, EDGE - BOX + 1);
    return asked;
}

/* Slices [first, limit) of a volume, as a .npy file. */
static void write_npy(const char *path, unsigned seed, int first, int limit) {
    static uint16_t slice[EDGE][EDGE];
    char header[HEADER_BYTES + 1] = "\x93NUMPY\x01";
    header[8] = HEADER_BYTES - 10;
    const int bytes =
        snprintf(header + 10, HEADER_BYTES - 10,
                 "{'descr': '<u2', 'fortran_order': False, 'shape': (%d, %d, %d), }", limit - first,
                 EDGE, EDGE);
    CHECK(bytes > 0 && bytes < HEADER_BYTES - 11);
    memset(header + 10 + bytes, ' ', (size_t)(HEADER_BYTES - 11 - bytes));
    header[HEADER_BYTES - 1] = '\n';
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(header, HEADER_BYTES, 1, file) == 1);
    for (int z = first; z < limit; z++) {
        for (int y = 0; y < EDGE; y++)
            for (int x = 0; x < EDGE; x++)
                slice[y][x] = sparse_at(seed, z, y, x);
        CHECK(fwrite(slice, sizeof slice, 1, file) == 1);
    }
    CHECK(fclose(file) == 0);
}

/* The volumes again, by all sources, and their uris. */
static void write_sources(const char *stores) {
    char path[1024];
    snprintf(path, sizeof path, "%s/zarr.json", stores);
    FILE *group = fopen(path, "wb");
    CHECK(group);
    fputs("{\"zarr_format\": 3, \"node_type\": \"group\", \"attributes\": {\"ome\": {\"version\": "
          "\"0.5\", \"multiscales\": [{\"axes\": [",
          group);
    for (int axis = 0; axis < 3; axis++)
        fprintf(group, "%s{\"name\": \"%c\", \"type\": \"space\"}", axis ? ", " : "", "zyx"[axis]);
    fputs("], \"datasets\": [", group);
    for (int volume = 0; volume < VOLUMES; volume++)
        fprintf(group,
                "%s{\"path\": \"volume%d\", \"coordinateTransformations\": "
                "[{\"type\": \"scale\", \"scale\": [1, 1, 1]}]}",
                volume ? ", " : "", volume);
    fputs("]}]}}}", group);
    CHECK(fclose(group) == 0);
    for (unsigned volume = 0; volume < VOLUMES; volume++) {
        const size_t bytes = sizeof uris[0][0];
        snprintf(uris[ARRAY][volume], bytes, "%s/volume%u", stores, volume);
        snprintf(uris[LEVEL][volume], bytes, "%s#level=%u", stores, volume);
        snprintf(uris[HOOK][volume], bytes, "hook:%u", volume);
        snprintf(uris[NPY][volume], bytes, "%s/flat%u.npy", stores, volume);
        write_npy(uris[NPY][volume], volume, 0, EDGE);
        snprintf(uris[RAW][volume], bytes,
                 "raw:%s/flat%u.npy?dtype=u16&shape=%d,%d,%d&offset=%d", stores, volume, EDGE, EDGE,
                 EDGE, HEADER_BYTES);
        /* Files of 1, 2, 3 .. slices. */
        int first = 0;
        for (int part = 0; part < PARTS; part++) {
            const int limit = part == PARTS - 1 ? EDGE : first + part + 1;
            snprintf(path, sizeof path, "%s/parts%u_%02d.npy", stores, volume, part);
            write_npy(path, volume, first, limit);
            first = limit;
        }
        snprintf(uris[NUMBERED][volume], bytes, "%s/parts%u_*.npy", stores, volume);
    }
}

/* Boxes of every second volume, chunks of the others. */
static int64_t describe(void *user, const char *name, wavetrain_source_info *info) {
    (void)user;
    CHECK(name[0] >= '0' && name[0] < '0' + VOLUMES && name[1] == 0);
    info->rank = 3;
    info->dtype = WAVETRAIN_U16;
    for (int axis = 0; axis < 3; axis++) {
        info->shape[axis] = EDGE;
        info->chunk_shape[axis] = name[0] % 2 ? 12 + 4 * (uint64_t)axis : 0;
    }
    return 0;
}

static int64_t read_elements(void *user, const char *name, const uint64_t *begin,
                             const uint64_t *end, void *target, uint64_t bytes) {
    uint16_t *at = target;
    (void)user;
    for (uint64_t z = begin[0]; z < end[0]; z++)
        for (uint64_t y = begin[1]; y < end[1]; y++)
            for (uint64_t x = begin[2]; x < end[2]; x++)
                *at++ = sparse_at((unsigned)(name[0] - '0'), (int64_t)z, (int64_t)y, (int64_t)x);
    CHECK((uint64_t)((char *)at - (char *)target) == bytes);
    return 0;
}

static wavetrain_field field(const char *name, uint32_t dtype, double pad, uint32_t rank,
                             uint64_t a, uint64_t b, uint64_t c) {
    wavetrain_field field;
    memset(&field, 0, sizeof field);
    snprintf(field.name, sizeof field.name, "%s", name);
    field.dtype = dtype;
    field.pad_value = pad;
    field.sample_rank = rank;
    field.sample_shape[0] = a, field.sample_shape[1] = b, field.sample_shape[2] = c;
    return field;
}

/* The boxes of a sample; `tensors` and `values` are what they are fed from. */
static uint32_t boxes_of(uint64_t number, wavetrain_box *boxes, wavetrain_tensor *tensors,
                         int64_t *label, float *weights) {
    const struct asked asked = asked_of(number);
    const int64_t z = asked.at[0], y = asked.at[1], x = asked.at[2];
    const char *uri = uris[asked.source][asked.seed];
    uint32_t count = 0;
    boxes[count++] = cube_box(uri, z, y, x, BOX);
    /* A plane, its axes turned, one of them backwards. */
    wavetrain_box *box = &boxes[count++];
    *box = cube_box(uri, z, y, x, BOX);
    box->field = TURNED;
    box->end[0] = z + 1;
    box->axes[1] = 2, box->axes[2] = 1;
    box->step[2] = -1;
    box = &boxes[count++];
    *box = cube_box(uri, z, y, x, BOX);
    box->field = STRIDED;
    box->step[0] = box->step[1] = 2, box->step[2] = -2;
    /* Two volumes with a gap between them. */
    box = &boxes[count++];
    *box = cube_box(uri, z, y, x, BOX);
    box->field = HALVES;
    box->end[0] = z + 3;
    box = &boxes[count++];
    *box = cube_box(uris[asked.other_source][asked.other], z, y, x, BOX);
    box->field = HALVES;
    box->end[0] = z + 2;
    box->at[0] = 6;

    memset(tensors, 0, 3 * sizeof *tensors);
    for (int i = 0; i < 3; i++) {
        tensors[i].struct_size = sizeof tensors[i];
        tensors[i].device = -1;
    }
    /* Rows from the last one up, every second element backwards: [20][20] of it. */
    tensors[0].data = &memory[MEMORY - 1][MEMORY - 1];
    tensors[0].dtype = WAVETRAIN_I32;
    tensors[0].shape[0] = tensors[0].shape[1] = MEMORY / 2;
    tensors[0].strides[0] = -(int64_t)sizeof memory[0];
    tensors[0].strides[1] = -2 * (int64_t)sizeof memory[0][0];
    box = &boxes[count++];
    memset(box, 0, sizeof *box);
    box->kind = WAVETRAIN_BOX_MEMORY;
    box->tensor = &tensors[0];
    box->rank = 2;
    box->field = FED;
    box->begin[0] = (int64_t)(number % 10), box->end[0] = box->begin[0] + 5;
    box->begin[1] = (int64_t)(number % 7), box->end[1] = box->begin[1] + 7;

    *label = (int64_t)number * -3;
    tensors[1].data = label;
    tensors[1].dtype = WAVETRAIN_I64;
    box = &boxes[count++];
    memset(box, 0, sizeof *box);
    box->kind = WAVETRAIN_BOX_VALUE;
    box->tensor = &tensors[1];
    box->field = LABEL;

    for (int i = 0; i < 3; i++)
        weights[2 - i] = (float)number + (float)i;
    tensors[2].data = &weights[2];
    tensors[2].dtype = WAVETRAIN_F32;
    tensors[2].shape[0] = 3;
    tensors[2].strides[0] = -(int64_t)sizeof weights[0];
    box = &boxes[count++];
    memset(box, 0, sizeof *box);
    box->kind = WAVETRAIN_BOX_VALUE;
    box->tensor = &tensors[2];
    box->rank = 1;
    box->end[0] = 3;
    box->field = WEIGHTS;
    CHECK(count <= BOXES);
    return count;
}

static const void *row_of(const wavetrain_batch_view *view, uint32_t row) {
    return (const char *)view->data + row * (view->bytes / view->sample_count);
}

static void check_fed(const wavetrain_batch_view *views, uint32_t row, uint64_t number) {
    const int32_t *fed = row_of(&views[FED], row);
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 7; j++) {
            const int down = MEMORY - 1 - (int)(number % 10) - i;
            CHECK(*fed++ == memory[down][MEMORY - 1 - 2 * ((int)(number % 7) + j)]);
        }
    const float *weights = row_of(&views[WEIGHTS], row);
    for (int i = 0; i < 3; i++)
        CHECK(weights[i] == (float)number + (float)i);
    CHECK(*(const int64_t *)row_of(&views[LABEL], row) == (int64_t)number * -3);
    for (int i = 0; i < 9; i++)
        CHECK(((const uint8_t *)row_of(&views[NOTHING], row))[i] == 200);
}

static void check_row(const wavetrain_batch_view *views, uint32_t row, uint64_t number) {
    const struct asked asked = asked_of(number);
    const int64_t z = asked.at[0], y = asked.at[1], x = asked.at[2];
    CHECK(row_is_cube(&views[CUBE], row, asked.seed, z, y, x, BOX));
    const float *turned = row_of(&views[TURNED], row);
    const uint16_t *strided = row_of(&views[STRIDED], row);
    const uint16_t *halves = row_of(&views[HALVES], row);
    for (int i = 0; i < BOX; i++)
        for (int j = 0; j < BOX; j++)
            CHECK(*turned++ == (float)sparse_at(asked.seed, z, y + j, x + BOX - 1 - i));
    for (int i = 0; i < BOX; i += 2)
        for (int j = 0; j < BOX; j += 2)
            for (int k = 0; k < BOX; k += 2)
                CHECK(*strided++ == sparse_at(asked.seed, z + i, y + j, x + BOX - 1 - k));
    for (int i = 0; i < BOX; i++)
        for (int j = 0; j < BOX; j++)
            for (int k = 0; k < BOX; k++) {
                const uint16_t wanted = i < 3    ? sparse_at(asked.seed, z + i, y + j, x + k)
                                        : i >= 6 ? sparse_at(asked.other, z + i - 6, y + j, x + k)
                                                 : 5;
                CHECK(*halves++ == wanted);
            }
    check_fed(views, row, number);
    const uint64_t *filled_shape = views[HALVES].filled_shape + 3 * row;
    CHECK(filled_shape[0] == BOX && filled_shape[1] == BOX && filled_shape[2] == BOX);
    CHECK(views[NOTHING].filled_shape[row] == 0 && views[LABEL].filled_shape[row] == 1);
}

/* Pushes the samples from *next on as long as they are taken. */
static void push_some(wavetrain_loader loader, uint64_t *next, uint64_t limit) {
    wavetrain_box boxes[BOXES];
    wavetrain_tensor tensors[3];
    int64_t label;
    float weights[3];
    for (size_t taken = 1; taken == 1 && *next < limit; *next += taken) {
        wavetrain_sample sample = sample_of(boxes, *next);
        sample.n_boxes = boxes_of(*next, boxes, tensors, &label, weights);
        const wavetrain_status status =
            wavetrain_push(loader, &sample, 1, sizeof sample, 0, &taken);
        CHECK(status == (taken == 1 ? WAVETRAIN_OK : WAVETRAIN_AGAIN));
    }
    /* What push copied is its own. */
    memset(boxes, 0xA5, sizeof boxes);
    memset(tensors, 0xA5, sizeof tensors);
}

int main(int argc, char **argv) {
    static char output[4096];
    CHECK(argc >= 3);
    const uint64_t batches = strtoull(argv[2], NULL, 10);
    const int filtered = argc > 3;
    setvbuf(stdout, output, _IOFBF, sizeof output);
    write_sources(argv[1]);
    for (int i = 0; i < MEMORY * MEMORY; i++)
        memory[i / MEMORY][i % MEMORY] = i * 7919;
    const wavetrain_field fields[FIELDS] = {
        [CUBE] = field("cube", WAVETRAIN_F32, 0, 3, BOX, BOX, BOX),
        [TURNED] = field("turned", WAVETRAIN_F32, 0, 2, BOX, BOX, 0),
        [STRIDED] = field("strided", WAVETRAIN_U16, 0, 3, BOX / 2, BOX / 2, BOX / 2),
        [HALVES] = field("halves", WAVETRAIN_U16, 5, 3, BOX, BOX, BOX),
        [FED] = field("fed", WAVETRAIN_I32, 0, 2, 5, 7, 0),
        [LABEL] = field("label", WAVETRAIN_I64, 0, 0, 0, 0, 0),
        [WEIGHTS] = field("weights", WAVETRAIN_F32, 0, 1, 3, 0, 0),
        [NOTHING] = field("nothing", WAVETRAIN_U8, 200, 1, 9, 0, 0),
    };
    wavetrain_config config = cube_config(0);
    config.sample_rank = 0;
    config.fields = fields;
    config.n_fields = FIELDS;
    config.field_bytes = sizeof fields[0];
    config.max_boxes_per_sample = BOXES;
    config.samples_per_batch = SAMPLES;
    config.n_array_meta_cache = 2;
    config.n_shard_index_cache = 8;
    config.n_chunk_layout_cache = 8;
    config.max_chunk_uncompressed_bytes = 1 << 16;
    config.digest = 1;
    config.source.describe = describe;
    config.source.read = read_elements;
    wavetrain_error error = { .struct_size = sizeof error };
    static unsigned char scratch[WAVETRAIN_SCRATCH_BYTES];
    const char *const both[] = { uris[NUMBERED][0], uris[HOOK][1] };
    CHECK_OK(wavetrain_config_fit(&config, both, 2, scratch, sizeof scratch, &error), error);
    CHECK(config.max_npy_files == PARTS);
    /* A sample may have boxes of two of them. */
    config.max_npy_files *= 2;
    wavetrain_loader loader;
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);
    if (filtered)
        forbid_memory();
    const uint64_t calls_before = atomic_load(&alloc_calls);
    uint64_t next = 0;
    for (uint64_t number = 0; number < batches; number++) {
        push_some(loader, &next, batches * SAMPLES);
        wavetrain_batch batch;
        CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
        wavetrain_batch_view views[FIELDS];
        for (uint32_t at = 0; at < FIELDS; at++) {
            views[at].struct_size = sizeof views[at];
            CHECK_STATUS(wavetrain_batch_info(loader, batch, at, &views[at]), WAVETRAIN_OK);
            CHECK(strcmp(views[at].name, fields[at].name) == 0);
            CHECK(views[at].rank == 1 + fields[at].sample_rank);
            CHECK((uintptr_t)views[at].data % 256 == 0);
            check_digests(&views[at], number * SAMPLES);
        }
        for (uint32_t row = 0; row < SAMPLES; row++) {
            CHECK(views[0].tags[row] == number * SAMPLES + row && views[0].statuses[row] == 0);
            check_row(views, row, number * SAMPLES + row);
        }
        wavetrain_batch_view none = { .struct_size = sizeof none };
        CHECK_STATUS(wavetrain_batch_info(loader, batch, FIELDS, &none), WAVETRAIN_INVALID);
        CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    }
    CHECK(atomic_load(&alloc_calls) == calls_before);
    printf("%llu batches of %d fields, 0 allocations\n", (unsigned long long)batches, FIELDS);
    fflush(stdout);
    if (filtered)
        _exit(0);
    CHECK_STATUS(wavetrain_close(loader, LONG_NS, NULL), WAVETRAIN_OK);
    return 0;
}
