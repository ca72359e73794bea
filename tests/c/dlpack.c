/* dlpack.c ARRAY: batches as DLPack tensors, with nothing but the header and the public layout.
 *
 * Exports every batch in both forms, up to eight times, reads it through shape and strides on other
 * threads than the one that pops, writes to it, releases before and after, and deletes. The malloc
 * family is counted from open to close. The structs are this file's own copy of the layout; where
 * dlpack.h is installed the compiler compares them.
 */
#include "check.h"
#ifdef __SANITIZE_THREAD__ /* which replaces malloc itself: nothing is counted */
#include <stdatomic.h>
static _Atomic uint64_t alloc_calls;
#else
#include "count_alloc.h"
#endif

#include <pthread.h>

enum { BOX = 8, SAMPLES = 2, BATCHES = 300, THREADS = 3, ROOM = 64 };

struct device {
    int32_t type, id;
};
struct data_type {
    uint8_t code, bits;
    uint16_t lanes;
};
struct tensor {
    void *data;
    struct device device;
    int32_t ndim;
    struct data_type dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};
struct managed_versioned {
    uint32_t major, minor;
    void *manager_ctx;
    void (*deleter)(struct managed_versioned *);
    uint64_t flags;
    struct tensor tensor;
};
struct managed {
    struct tensor tensor;
    void *manager_ctx;
    void (*deleter)(struct managed *);
};

#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#define SAME(ours, field, theirs, name)                                                            \
    _Static_assert(offsetof(ours, field) == offsetof(theirs, name), #theirs "." #name)
_Static_assert(sizeof(struct tensor) == sizeof(DLTensor), "DLTensor");
SAME(struct tensor, data, DLTensor, data);
SAME(struct tensor, device, DLTensor, device);
SAME(struct tensor, ndim, DLTensor, ndim);
SAME(struct tensor, dtype, DLTensor, dtype);
SAME(struct tensor, shape, DLTensor, shape);
SAME(struct tensor, strides, DLTensor, strides);
SAME(struct tensor, byte_offset, DLTensor, byte_offset);
SAME(struct device, type, DLDevice, device_type);
SAME(struct device, id, DLDevice, device_id);
SAME(struct data_type, code, DLDataType, code);
SAME(struct data_type, bits, DLDataType, bits);
SAME(struct data_type, lanes, DLDataType, lanes);
_Static_assert(sizeof(struct managed) == sizeof(DLManagedTensor), "DLManagedTensor");
SAME(struct managed, tensor, DLManagedTensor, dl_tensor);
SAME(struct managed, manager_ctx, DLManagedTensor, manager_ctx);
SAME(struct managed, deleter, DLManagedTensor, deleter);
#ifdef DLPACK_MAJOR_VERSION
_Static_assert(sizeof(struct managed_versioned) == sizeof(DLManagedTensorVersioned),
               "DLManagedTensorVersioned");
SAME(struct managed_versioned, major, DLManagedTensorVersioned, version.major);
SAME(struct managed_versioned, minor, DLManagedTensorVersioned, version.minor);
SAME(struct managed_versioned, manager_ctx, DLManagedTensorVersioned, manager_ctx);
SAME(struct managed_versioned, deleter, DLManagedTensorVersioned, deleter);
SAME(struct managed_versioned, flags, DLManagedTensorVersioned, flags);
SAME(struct managed_versioned, tensor, DLManagedTensorVersioned, dl_tensor);
#endif
#endif

/* A tensor on its way to a thread that deletes it. */
struct letter {
    struct managed_versioned *versioned; /* or NULL */
    struct managed *legacy;              /* or NULL */
    uint64_t tags[SAMPLES];
};

static struct letter letters[ROOM];
static unsigned first, count;
static int is_over;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void send_letter(struct letter letter) {
    pthread_mutex_lock(&lock);
    while (count == ROOM)
        pthread_cond_wait(&changed, &lock);
    letters[(first + count++) % ROOM] = letter;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* The next letter; 0 where there will be none. */
static int take_letter(struct letter *letter) {
    pthread_mutex_lock(&lock);
    while (count == 0 && !is_over)
        pthread_cond_wait(&changed, &lock);
    const int found = count > 0;
    if (found) {
        *letter = letters[first];
        first = (first + 1) % ROOM;
        count -= 1;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return found;
}

static int64_t corner(uint64_t tag, int axis) {
    return (int64_t)(tag * (axis == 0 ? 5 : axis == 1 ? 11 : 3) % (EDGE - BOX + 1));
}

/* The tensor is the batch with these tags. */
static void check_tensor(const struct tensor *tensor, const uint64_t *tags) {
    CHECK(tensor->ndim == 4 && tensor->byte_offset == 0 && (uintptr_t)tensor->data % 256 == 0);
    CHECK(tensor->device.type == 1 && tensor->device.id == 0);
    CHECK(tensor->dtype.code == 2 && tensor->dtype.bits == 32 && tensor->dtype.lanes == 1);
    CHECK(tensor->shape[0] == SAMPLES && tensor->strides[3] == 1);
    for (int axis = 1; axis < 4; axis++)
        CHECK(tensor->shape[axis] == BOX &&
              tensor->strides[axis - 1] == tensor->strides[axis] * tensor->shape[axis]);
    const float *data = tensor->data;
    for (int row = 0; row < SAMPLES; row++)
        for (int64_t z = 0; z < BOX; z++)
            for (int64_t y = 0; y < BOX; y++)
                for (int64_t x = 0; x < BOX; x++)
                    CHECK(data[row * tensor->strides[0] + z * tensor->strides[1] +
                               y * tensor->strides[2] + x] ==
                          (float)sparse_at(0, corner(tags[row], 0) + z, corner(tags[row], 1) + y,
                                           corner(tags[row], 2) + x));
}

static void *delete_tensors(void *unused) {
    struct letter letter;
    (void)unused;
    while (take_letter(&letter)) {
        if (letter.versioned != NULL) {
            CHECK(letter.versioned->major == 1 && letter.versioned->flags == 0);
            check_tensor(&letter.versioned->tensor, letter.tags);
            letter.versioned->deleter(letter.versioned);
        } else {
            check_tensor(&letter.legacy->tensor, letter.tags);
            letter.legacy->deleter(letter.legacy);
        }
    }
    return NULL;
}

static struct letter letter_of(wavetrain_loader loader, wavetrain_batch batch, int is_legacy,
                               const uint64_t *tags) {
    struct letter letter;
    memset(&letter, 0, sizeof letter);
    memcpy(letter.tags, tags, sizeof letter.tags);
    struct DLManagedTensorVersioned *versioned = NULL;
    struct DLManagedTensor *legacy = NULL;
    if (is_legacy)
        CHECK_STATUS(wavetrain_dlpack_legacy(loader, batch, 0, NULL, &legacy), WAVETRAIN_OK);
    else
        CHECK_STATUS(wavetrain_dlpack(loader, batch, 0, NULL, &versioned), WAVETRAIN_OK);
    letter.versioned = (struct managed_versioned *)versioned;
    letter.legacy = (struct managed *)legacy;
    return letter;
}

static void push_tag(wavetrain_loader loader, const char *uri, uint64_t tag) {
    push_cube(loader, uri, corner(tag, 0), corner(tag, 1), corner(tag, 2), BOX, tag);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    static char output[4096];
    setvbuf(stdout, output, _IOFBF, sizeof output);
    wavetrain_config config = cube_config(BOX);
    config.samples_per_batch = SAMPLES;
    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_loader loader;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, delete_tensors, NULL) == 0);
    CHECK_OK(wavetrain_open(&config, &loader, &error), error);

    const uint64_t calls_before = atomic_load(&alloc_calls);
    unsigned tensors = 0;
    uint64_t next = 0;
    for (; next < SAMPLES; next++)
        push_tag(loader, argv[1], next);
    for (uint64_t number = 0; number < BATCHES; number++) {
        wavetrain_batch batch;
        for (const uint64_t limit = next + SAMPLES; next < limit; next++)
            push_tag(loader, argv[1], next);
        CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
        const wavetrain_batch_view view = view_of(loader, batch);
        uint64_t tags[SAMPLES];
        struct letter sent[WAVETRAIN_TENSORS_PER_SLOT];
        memcpy(tags, view.tags, sizeof tags);
        const unsigned times = 1 + (unsigned)(number % WAVETRAIN_TENSORS_PER_SLOT);
        for (unsigned i = 0; i < times; i++)
            sent[i] = letter_of(loader, batch, (number + i) % 3 == 0, tags);
        struct DLManagedTensor *ninth = NULL;
        if (times == WAVETRAIN_TENSORS_PER_SLOT)
            CHECK_STATUS(wavetrain_dlpack_legacy(loader, batch, 0, NULL, &ninth), WAVETRAIN_AGAIN);
        CHECK(ninth == NULL);
        if (number % 2 == 0)
            CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
        for (unsigned i = 0; i < times; i++)
            send_letter(sent[i]);
        if (number % 2 == 1)
            CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
        tensors += times;
    }

    /* Writable, and the same memory in every form. */
    wavetrain_batch batch;
    CHECK_OK(wavetrain_pop(loader, LONG_NS, &batch, &error), error);
    const wavetrain_batch_view view = view_of(loader, batch);
    const struct letter one = letter_of(loader, batch, 0, view.tags);
    const struct letter two = letter_of(loader, batch, 1, view.tags);
    ((float *)one.versioned->tensor.data)[7] = -3;
    CHECK(((float *)two.legacy->tensor.data)[7] == -3 && ((float *)view.data)[7] == -3);
    one.versioned->deleter(one.versioned);
    CHECK_STATUS(wavetrain_release(loader, batch, NULL), WAVETRAIN_OK);
    two.legacy->deleter(two.legacy);
    two.legacy->deleter(two.legacy);
    const uint64_t calls_after = atomic_load(&alloc_calls);

    pthread_mutex_lock(&lock);
    is_over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    uint32_t held = 99;
    while (wavetrain_close(loader, LONG_NS, &held) == WAVETRAIN_AGAIN)
        CHECK(held > 0);
    CHECK(held == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(calls_after == calls_before);
    printf("%d batches, %u tensors, 0 allocations\n", (int)BATCHES, tensors);
    return 0;
}
