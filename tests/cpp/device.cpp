/* device.cpp FOLDER DRIVER: what the C++ headers say of batches in device memory, on the simulated
 * driver. FOLDER/cube is a sparse cube of tests/common/store.rs.
 */
#include "wavetrain_exceptions.hpp"

#include "cube.hpp"

#include <dlfcn.h>
#include <string>
#include <vector>

/* As dlpack.h 1.0 has them. */
struct DLTensor {
    void *data;
    struct {
        std::int32_t device_type, device_id;
    } device;
    std::int32_t ndim;
    struct {
        std::uint8_t code, bits;
        std::uint16_t lanes;
    } dtype;
    std::int64_t *shape, *strides;
    std::uint64_t byte_offset;
};
struct DLManagedTensorVersioned {
    std::uint32_t major, minor;
    void *context;
    void (*deleter)(DLManagedTensorVersioned *);
    std::uint64_t flags;
    DLTensor dl_tensor;
};

enum { CUDA_DEVICE_TYPE = 2, VULKAN_DEVICE_TYPE = 7, LAUNCH_FAILED = 719, RECORDS = 1 };

static const char *driver;
static std::string array;

/* An entry or a control function of the driver. */
template <class Entry> static Entry *entry(const char *name) {
    static void *library = dlopen(driver, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != nullptr);
    void *found = dlsym(library, name);
    CHECK(found != nullptr);
    Entry *entry;
    std::memcpy(&entry, &found, sizeof entry);
    return entry;
}

static wavetrain::config device_settings() {
    wavetrain::config config = cube_settings();
    config.backend = WAVETRAIN_BACKEND_CUDA;
    config.cuda_driver = driver;
    config.device = 0;
    config.max_host_memory_bytes = 0;
    return config;
}

static void push_batches(wavetrain::loader &loader, std::uint64_t count) {
    for (std::uint64_t number = 0; number < count * SAMPLES; number++)
        CHECK(loader.push(cube_sample(array.c_str(), number)).ok());
}

/* The batch in host memory, as batch_is_right wants it. */
static bool device_batch_is_right(const wavetrain::batch &batch) {
    auto *copy = entry<unsigned(void *, unsigned long long, std::size_t)>("cuMemcpyDtoH_v2");
    auto *current = entry<unsigned(void *)>("cuCtxSetCurrent");
    auto *retain = entry<unsigned(void **, int)>("cuDevicePrimaryCtxRetain");
    auto *release = entry<unsigned(int)>("cuDevicePrimaryCtxRelease_v2");
    std::vector<float> values(batch.as<float>().size());
    void *context = nullptr;
    CHECK(retain(&context, 0) == 0 && current(context) == 0);
    const auto source = reinterpret_cast<std::uintptr_t>(batch.data());
    CHECK(copy(values.data(), source, batch.bytes()) == 0);
    CHECK(current(nullptr) == 0 && release(0) == 0);
    wavetrain_batch_view view = batch.view();
    view.data = values.data();
    for (std::uint32_t row = 0; row < batch.sample_count(); row++) {
        const place at(batch.tags()[row]);
        if (!row_is_cube(&view, row, 0, at.z, at.y, at.x, BOX))
            return false;
    }
    return values.size() == batch.sample_count() * std::size_t(BOX * BOX * BOX);
}

/* ---- where a batch is ---- */

static void a_batch_says_where_it_is() {
    wavetrain::batch batch;
    CHECK(batch.backend() == 0 && !batch.is_device() && batch.device() == -1);
    CHECK(batch.ready_stream() == nullptr);

    wavetrain::loader host = open_cube(cube_settings());
    push_batches(host, 1);
    CHECK(host.pop(batch).ok());
    CHECK(batch.backend() == WAVETRAIN_BACKEND_HOST && !batch.is_device());
    CHECK(batch.device() == -1 && batch.ready_stream() == nullptr);
    batch.release().ignore();

    wavetrain::loader device = open_cube(device_settings());
    push_batches(device, 1);
    CHECK(device.pop(batch).ok());
    CHECK(batch.backend() == WAVETRAIN_BACKEND_CUDA && batch.is_device());
    CHECK(batch.device() == 0 && batch.ready_stream() != nullptr);
    CHECK(device_batch_is_right(batch));
}

/* ---- how it is given back ---- */

static void a_batch_is_released_behind_an_event() {
    wavetrain::loader loader = open_cube(device_settings());
    push_batches(loader, 1);
    wavetrain::batch batch;
    CHECK(loader.pop(batch).ok());
    auto *make = entry<unsigned(void **, unsigned)>("cuEventCreate");
    auto *record = entry<unsigned(void *, void *)>("cuEventRecord");
    auto *current = entry<unsigned(void *)>("cuCtxSetCurrent");
    auto *retain = entry<unsigned(void **, int)>("cuDevicePrimaryCtxRetain");
    void *event = nullptr, *context = nullptr;
    CHECK(retain(&context, 0) == 0 && current(context) == 0);
    CHECK(make(&event, 2) == 0 && record(event, batch.ready_stream()) == 0);
    CHECK(batch.release(event).ok() && !batch);
    CHECK(entry<unsigned(void *)>("cuEventDestroy_v2")(event) == 0);
    CHECK(current(nullptr) == 0 && entry<unsigned(int)>("cuDevicePrimaryCtxRelease_v2")(0) == 0);
}

/* The device is done with a batch some time after its release: in mode lazy when it is asked. */
static void the_batch_that_goes_last_ends_its_loader_once_the_device_is_done() {
    auto *set_mode = entry<void(unsigned, std::uint64_t)>("simcuda_set_mode");
    auto *live = entry<std::uint64_t(char *, std::size_t)>("simcuda_live");
    const std::uint64_t before = live(nullptr, 0);
    {
        wavetrain::batch batch;
        {
            wavetrain::loader loader = open_cube(device_settings());
            push_batches(loader, 1);
            CHECK(loader.pop(batch).ok());
        }
        set_mode(2, 1);
    }
    CHECK(live(nullptr, 0) == before);
    set_mode(0, 1);
}

static void a_tensor_is_on_the_device_and_keeps_the_slot() {
    wavetrain::loader loader = open_cube(device_settings());
    push_batches(loader, 1);
    wavetrain::batch batch;
    CHECK(loader.pop(batch).ok());
    DLManagedTensorVersioned *tensor = nullptr;
    CHECK(batch.dlpack(&tensor, batch.ready_stream()).ok());
    const DLTensor &made = tensor->dl_tensor;
    CHECK(made.device.device_type == CUDA_DEVICE_TYPE && made.device.device_id == batch.device());
    CHECK(made.data == batch.data());
    CHECK(batch.release().ok() && held_by(loader) == 1);
    tensor->deleter(tensor);
    CHECK(held_by(loader) == 0);
}

/* A batch whose release meets a failing driver is gone: a second release is no call. */
static void a_release_that_fails_on_the_device_gives_the_batch_back() {
    auto *fail = entry<void(const char *, std::uint64_t, unsigned, std::uint64_t)>("simcuda_fail");
    wavetrain::loader loader = open_cube(device_settings());
    push_batches(loader, 1);
    wavetrain::batch batch;
    CHECK(loader.pop(batch).ok());
    fail("cuEventRecord", 0, LAUNCH_FAILED, RECORDS);
    CHECK(batch.release() == WAVETRAIN_CUDA);
    CHECK(!batch && held_by(loader) == 0);
    wavetrain::error why;
    CHECK(loader.pop(batch, LONG_NS, &why) == WAVETRAIN_CUDA);
    CHECK(std::strstr(why.text, "cuEventRecord") != nullptr);
    CHECK(loader.close(LONG_NS).ok());
}

/* ---- what is fed ---- */

/* The rows of the tensor as samples of a loader, backwards. */
static wavetrain::status push_rows(wavetrain::loader &to, const DLTensor &given,
                                   const wavetrain::batch &batch, void *event) {
    wavetrain::tensor lent;
    CHECK(wavetrain::tensor::from_dlpack(given, lent, event).ok());
    for (std::uint32_t row = batch.sample_count(); row-- > 0;) {
        wavetrain::box one(lent, static_cast<std::size_t>(given.ndim));
        one.begin[0] = row;
        one.end[0] = row + 1;
        const wavetrain::box parts[] = { one };
        if (const auto pushed = to.push(wavetrain::boxes{ parts, batch.tags()[row] }); !pushed)
            return pushed;
    }
    return WAVETRAIN_OK;
}

static void a_tensor_of_the_device_is_fed_behind_an_event() {
    wavetrain::config settings = device_settings();
    settings.max_boxes_per_sample = 1;
    wavetrain::loader from = open_cube(device_settings()), to = open_cube(settings);
    push_batches(from, 1);
    wavetrain::batch batch, fed;
    CHECK(from.pop(batch).ok());
    auto *make = entry<unsigned(void **, unsigned)>("cuEventCreate");
    auto *record = entry<unsigned(void *, void *)>("cuEventRecord");
    auto *current = entry<unsigned(void *)>("cuCtxSetCurrent");
    auto *retain = entry<unsigned(void **, int)>("cuDevicePrimaryCtxRetain");
    void *event = nullptr, *context = nullptr;
    CHECK(retain(&context, 0) == 0 && current(context) == 0 && make(&event, 2) == 0);
    DLManagedTensorVersioned *tensor = nullptr;
    CHECK(batch.dlpack(&tensor, batch.ready_stream()).ok());
    CHECK(record(event, batch.ready_stream()) == 0 && current(nullptr) == 0);
    CHECK(push_rows(to, tensor->dl_tensor, batch, event).ok());
    CHECK(to.pop(fed).ok() && fed.is_device() && fed.tags()[0] == batch.tags()[SAMPLES - 1]);
    CHECK(device_batch_is_right(fed) && device_batch_is_right(batch));

    wavetrain::config on_host = cube_settings();
    on_host.max_boxes_per_sample = 1;
    wavetrain::loader host = open_cube(on_host);
    CHECK(push_rows(host, tensor->dl_tensor, batch, event) == WAVETRAIN_UNSUPPORTED);
    const char *const says = "tensor.device = 0, but batches are made in host memory";
    CHECK(std::strstr(wavetrain::last_error(host.handle()).text, says) != nullptr);
    tensor->deleter(tensor);
    CHECK(current(context) == 0 && entry<unsigned(void *)>("cuEventDestroy_v2")(event) == 0);
    CHECK(current(nullptr) == 0 && entry<unsigned(int)>("cuDevicePrimaryCtxRelease_v2")(0) == 0);
}

/* Whether the tensor is refused so, and what was there is left. */
static bool is_refused(const DLTensor &given, wavetrain::status why) {
    wavetrain::tensor made;
    made.dtype = WAVETRAIN_U16;
    return wavetrain::tensor::from_dlpack(given, made) == why && made.dtype == WAVETRAIN_U16 &&
        made.data == nullptr && made.device == -1;
}

static void a_tensor_that_is_not_taken_says_why() {
    static float elements[4];
    std::int64_t shape[2] = { 2, 2 }, strides[2] = { 1, -2 };
    const DLTensor good = { elements, { 1, 0 }, 2, { 2, 32, 1 }, shape, strides, 8 };
    wavetrain::tensor made;
    CHECK(wavetrain::tensor::from_dlpack(good, made).ok() && made.dtype == WAVETRAIN_F32);
    CHECK(made.data == &elements[2] && made.strides[0] == 4 && made.strides[1] == -8);
    CHECK(made.device == -1 && made.event == nullptr && made.shape[1] == 2);
    DLTensor wrong = good;
    wrong.device.device_type = VULKAN_DEVICE_TYPE;
    CHECK(is_refused(wrong, WAVETRAIN_UNSUPPORTED));
    for (const int kind : { 2, 3, 7, 255 }) {
        wrong = good;
        wrong.dtype = { static_cast<std::uint8_t>(kind), 8, 1 };
        CHECK(is_refused(wrong, WAVETRAIN_DTYPE));
    }
    wrong = good;
    wrong.dtype.lanes = 2;
    CHECK(is_refused(wrong, WAVETRAIN_DTYPE));
    for (const std::int32_t rank : { -1, WAVETRAIN_RANK_MAX + 1 }) {
        wrong = good;
        wrong.ndim = rank;
        CHECK(is_refused(wrong, WAVETRAIN_RANK));
    }
    strides[0] = INT64_MAX / 2;
    CHECK(is_refused(good, WAVETRAIN_INVALID));
    strides[0] = strides[1] = 0; /* which would stand for row-major ones */
    CHECK(is_refused(good, WAVETRAIN_UNSUPPORTED));
    shape[0] = shape[1] = 1;
    CHECK(wavetrain::tensor::from_dlpack(good, made).ok());
    const std::uint8_t kinds[][3] = { { 0, 64, WAVETRAIN_I64 }, { 1, 8, WAVETRAIN_U8 },
                                      { 2, 16, WAVETRAIN_F16 }, { 4, 16, WAVETRAIN_BF16 },
                                      { 5, 128, WAVETRAIN_C128 }, { 6, 8, WAVETRAIN_BOOL } };
    for (const auto &kind : kinds) {
        DLTensor other = good;
        other.dtype = { kind[0], kind[1], 1 };
        other.strides = nullptr;
        CHECK(wavetrain::tensor::from_dlpack(other, made).ok() && made.dtype == kind[2]);
    }
}

/* ---- with exceptions ---- */

static void the_throwing_batch_says_and_throws_the_same() {
    wavetrain::config config = cube_settings();
    config.backend = WAVETRAIN_BACKEND_CUDA;
    config.device = 0;
    config.cuda_driver = driver;
    config.max_host_memory_bytes = 0;
    wavetrain::Pipeline pipeline(config);
    /* One batch alone: nothing else records an event when the driver begins to fail. */
    for (std::uint64_t number = 0; number < SAMPLES; number++)
        pipeline.push(cube_sample(array.c_str(), number));
    wavetrain::Batch batch = pipeline.pop();
    CHECK(batch.device() == 0 && batch.ready_stream() != nullptr);
    CHECK(device_batch_is_right(batch));
    auto *fail = entry<void(const char *, std::uint64_t, unsigned, std::uint64_t)>("simcuda_fail");
    fail("cuEventRecord", 0, LAUNCH_FAILED, RECORDS);
    bool is_thrown = false;
    try {
        batch.release();
    } catch (const wavetrain::NativeCudaError &error) {
        is_thrown = error.status() == WAVETRAIN_CUDA;
    }
    CHECK(is_thrown && !batch);
}

static void nothing_was_found_wrong_and_all_was_given_back() {
    auto *findings = entry<std::uint64_t(char *, std::size_t)>("simcuda_findings");
    auto *live = entry<std::uint64_t(char *, std::size_t)>("simcuda_live");
    char text[1024];
    if (findings(text, sizeof text) != 0 || live(text, sizeof text) != 0) {
        fprintf(stderr, "%s\n", text);
        CHECK(!"the simulated driver has something to say");
    }
}

int main(int count, char **words) {
    CHECK(count == 3);
    array = std::string(words[1]) + "/cube";
    driver = words[2];
    a_batch_says_where_it_is();
    a_batch_is_released_behind_an_event();
    the_batch_that_goes_last_ends_its_loader_once_the_device_is_done();
    a_tensor_is_on_the_device_and_keeps_the_slot();
    a_release_that_fails_on_the_device_gives_the_batch_back();
    a_tensor_of_the_device_is_fed_behind_an_event();
    a_tensor_that_is_not_taken_says_why();
    the_throwing_batch_says_and_throws_the_same();
    nothing_was_found_wrong_and_all_was_given_back();
    return 0;
}
