/* wavetrain.hpp - the C++17 surface of wavetrain: move-only handles over wavetrain.h.
 *
 * SPDX-License-Identifier: MIT
 *
 * wavetrain.h is the manual of every call; this header describes only what C++ adds. Header-only,
 * no standard containers, no exceptions, no RTTI, no virtual functions, no allocation. Every
 * function is the call of the same name in wavetrain.h and is noexcept, unless it runs your code.
 * wavetrain_exceptions.hpp has the same with exceptions. This file is over 500 lines because one
 * header wraps all of wavetrain.h.
 *
 *     wavetrain::config config;                       // the defaults; every field can be assigned
 *     config.shape({ 32, 64, 64 }).samples_per_batch = 8;
 *     wavetrain::loader loader;
 *     wavetrain::error why;
 *     if (!wavetrain::loader::open(config, loader, &why))
 *         return fail(why.text);
 *     auto stream = loader.stream([&](wavetrain::sample& sample) {
 *         sample = { "/data/volume.zarr", { z, y, x }, { z + 32, y + 64, x + 64 }, tag };
 *         return next_place(&z, &y, &x);              // false: this sample does not count, the end
 *     });
 *     for (wavetrain::batch& batch : stream)          // given back when the next one is taken
 *         train(batch.as<float>(), batch.tags());
 *     if (!stream.status())
 *         return fail(stream.error().text);
 *
 * Lifetimes. A batch gives itself back when it is destroyed or assigned to. It should not outlive
 * its loader, and may: its memory stays, and the loader accepts nothing new. The last batch to be
 * destroyed then ends the loader for good, on the thread that destroys it. A batch on a device
 * waits close_timeout_ns at most for the work that is queued on its streams, so do not destroy it
 * while this thread captures one of them. A DLPack tensor may outlive both: the loader then ends in
 * the first open(), close_kept() or ~loader after its deletion. The log has a WARN of either. All
 * other CPU memory has been freed by then, and memory.free is the only hook that is still called.
 * But if ~loader found a read that hangs, all must live until the end. Moving a loader disturbs
 * neither its batches nor its streams, which know it by number.
 *
 * Threads. Calls on one loader may come from any thread, as in wavetrain.h; moving, closing and
 * destroying the object itself may not run at the same time. A batch or a stream belongs to one
 * thread at a time.
 *
 * Plugins. Shared objects that are loaded with dlopen may each have a copy of this header and of
 * the archive; a handle of one is SHUTDOWN in the other. With RTLD_GLOBAL the calls of those loaded
 * later go to the copy that was loaded first, as with every library. One that hides the archive's
 * functions (--exclude-libs) hides these as well: compile it with -fvisibility-inlines-hidden.
 */
#ifndef WAVETRAIN_HPP
#define WAVETRAIN_HPP

#include "wavetrain.h"
#include "wavetrain_node.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace wavetrain {

/* ---- Plain types -------------------------------------------------------------------------- */

/* The result of a call; dropping one is a warning. `if (call())` asks for OK. Compare it with the
 * constants of wavetrain.h: status == WAVETRAIN_AGAIN. */
class [[nodiscard]] status {
public:
    constexpr status(wavetrain_status value = WAVETRAIN_OK) noexcept : value_(value) {}
    constexpr bool ok() const noexcept { return value_ == WAVETRAIN_OK; }
    constexpr bool not_now() const noexcept { return value_ > 0; } /* AGAIN, STARVED, END, RESET */
    constexpr bool failed() const noexcept { return value_ < 0; }
    constexpr explicit operator bool() const noexcept { return ok(); }
    constexpr wavetrain_status value() const noexcept { return value_; }
    /* "NOT_FOUND". */
    const char *name() const noexcept { return wavetrain_status_str(value_); }
    /* Drops the status without a warning. */
    constexpr void ignore() const noexcept {}
    friend constexpr bool operator==(status a, status b) noexcept { return a.value_ == b.value_; }
    friend constexpr bool operator!=(status a, status b) noexcept { return a.value_ != b.value_; }

private:
    wavetrain_status value_;
};

/* A struct of wavetrain.h that starts as zeros with its struct_size set. */
template <class Struct> struct sized : Struct {
    sized() noexcept : Struct() { this->struct_size = sizeof(Struct); }
};
using error = sized<wavetrain_error>;
using memory = sized<wavetrain_memory>;
using batch_view = sized<wavetrain_batch_view>;
using stats_view = sized<wavetrain_stats_view>;
using array_view = sized<wavetrain_array_view>;
using metadata_part = sized<wavetrain_metadata_part>;

/* wavetrain_last_error: why the last call that failed on the loader did so, or that no such loader
 * exists. For calls that have no error argument. */
inline error last_error(wavetrain_loader on) noexcept {
    error why;
    wavetrain_last_error(on, &why);
    return why;
}

/* Appends words to an error's text. A control character becomes "\\n" or "\\u{1b}", as in texts of
 * the library, so that an error is one line; what does not fit is cut. */
inline void append_text(error &to, const char *words) noexcept {
    std::size_t used = std::strlen(to.text);
    const auto put = [&](char letter) noexcept {
        if (used + 1 < sizeof to.text)
            to.text[used++] = letter;
    };
    for (; words != nullptr && *words != '\0'; words++) {
        const unsigned char letter = static_cast<unsigned char>(*words);
        if (letter >= 0x20 && letter != 0x7f) {
            put(*words);
            continue;
        }
        const char *escape = letter == '\n' ? "\\n" : letter == '\r' ? "\\r" : "\\t";
        char code[] = "\\u{xx}", *digit = code + 3;
        if (letter != '\n' && letter != '\r' && letter != '\t') {
            if (letter >= 0x10)
                *digit++ = static_cast<char>('0' + letter / 16);
            *digit++ = "0123456789abcdef"[letter % 16];
            *digit++ = '}';
            *digit = '\0';
            escape = code;
        }
        while (*escape != '\0')
            put(*escape++);
    }
    to.text[used] = '\0';
}

/* An error of this status with a text. */
inline error error_of(status result, const char *text) noexcept {
    error made;
    made.status = result.value();
    append_text(made, text);
    return made;
}

/* A pointer and a count. Made from arrays and from everything with data() and size(); borrows. */
template <class T> class span {
public:
    constexpr span() noexcept = default;
    constexpr span(T *first, std::size_t count) noexcept : data_(first), size_(count) {}
    template <std::size_t N> constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
    template <class C, class E = std::remove_pointer_t<decltype(std::declval<C &>().data())>,
              class = std::enable_if_t<std::is_convertible_v<E (*)[], T (*)[]>>>
    constexpr span(C &&container) noexcept : data_(container.data()), size_(container.size()) {}
    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t index) const noexcept { return data_[index]; }
    /* std::span<float> all = batch.as<float>(): std::span takes what is named, and constants, by
     * itself; a result it would not. Only of a length that is known at run time. */
    template <class Std,
              class = std::enable_if_t<std::is_same_v<typename Std::element_type, T> &&
                                       !std::is_const_v<T> && Std::extent == SIZE_MAX>>
    constexpr operator Std() const && noexcept {
        return Std(data_, size_);
    }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/* Copies as many as fit. Returns the rank: WAVETRAIN_RANK_MAX + 1, which is refused, if not all
 * fit. */
template <class T>
std::uint32_t copy_axes(span<const T> from, T (&to)[WAVETRAIN_RANK_MAX]) noexcept {
    std::uint32_t axis = 0;
    for (; axis < from.size() && axis < WAVETRAIN_RANK_MAX; axis++)
        to[axis] = from[axis];
    return axis + (axis < from.size());
}

/* Room for config::fit and array_info: four MiB, so make it static. */
struct scratch {
    unsigned char bytes[WAVETRAIN_SCRATCH_BYTES];
    unsigned char *data() noexcept { return bytes; }
    static constexpr std::size_t size() noexcept { return WAVETRAIN_SCRATCH_BYTES; }
};

/* Elements in memory: tensor(labels, { 8 }), tensor(&label, {}). The dtype is that of T: of an
 * arithmetic type, or, with a code, of any. */
struct tensor : sized<wavetrain_tensor> {
    tensor() noexcept { device = -1; }
    template <class T>
    tensor(const T *first, span<const std::uint64_t> extents,
           std::uint32_t type = code_of<T>()) noexcept {
        data = first;
        dtype = type;
        device = -1;
        copy_axes(extents, shape);
    }
    template <class T, std::size_t N>
    tensor(const T *first, const std::uint64_t (&extents)[N],
           std::uint32_t type = code_of<T>()) noexcept
        : tensor(first, span<const std::uint64_t>(extents), type) {}
    template <class T>
    explicit tensor(const T *one) noexcept : tensor(one, span<const std::uint64_t>()) {}
    /* A type that is deduced cannot be { 8 }, which is a shape. */
    template <class T, class Code, class = std::enable_if_t<std::is_integral_v<Code> ||
                                                            std::is_enum_v<Code>>>
    tensor(const T *one, Code type) noexcept
        : tensor(one, span<const std::uint64_t>(), static_cast<std::uint32_t>(type)) {}

    /* The same with memory of a CUDA device, which is complete once `behind`, a CUevent, has
     * happened; NULL: it is complete. */
    tensor &on(std::int32_t number, void *behind = nullptr) noexcept {
        device = number;
        event = behind;
        return *this;
    }

    /* Makes the tensor of a DLTensor of dlpack.h, with as many axes as its ndim:
     * tensor::from_dlpack(managed->dl_tensor, made). The DLTensor must live as long as its memory
     * is borrowed. For `behind` see on. Some are refused, and `made` is not changed.
     * WAVETRAIN_RANK: more than WAVETRAIN_RANK_MAX axes. WAVETRAIN_DTYPE: elements of a type that
     * wavetrain does not have. WAVETRAIN_INVALID: strides that no memory has.
     * WAVETRAIN_UNSUPPORTED: other devices than the CPU and CUDA, and strides that repeat one
     * element. */
    template <class DLTensor>
    static status from_dlpack(const DLTensor &given, tensor &made,
                              void *behind = nullptr) noexcept {
        enum { cpu = 1, cuda = 2, cuda_host = 3, rocm_host = 11, cuda_managed = 13 };
        const int where = static_cast<int>(given.device.device_type);
        const bool is_host = where == cpu || where == cuda_host || where == rocm_host;
        tensor taken;
        if (given.ndim < 0 || given.ndim > WAVETRAIN_RANK_MAX)
            return WAVETRAIN_RANK;
        taken.dtype = given.dtype.lanes == 1 ? code_of(given.dtype.code, given.dtype.bits) : 0;
        if (taken.dtype == 0)
            return WAVETRAIN_DTYPE;
        if (!is_host && where != cuda && where != cuda_managed)
            return WAVETRAIN_UNSUPPORTED;
        const std::int64_t bytes = given.dtype.bits / 8, most = INT64_MAX / bytes;
        bool has_step = given.strides == nullptr, has_many = false;
        for (int axis = 0; axis < given.ndim; axis++) {
            const std::int64_t elements = given.strides != nullptr ? given.strides[axis] : 0;
            if (elements < -most || elements > most)
                return WAVETRAIN_INVALID;
            taken.shape[axis] = static_cast<std::uint64_t>(given.shape[axis]);
            taken.strides[axis] = elements * bytes;
            has_many = has_many || given.shape[axis] > 1;
            has_step = has_step || elements != 0;
        }
        if (has_many && !has_step)
            return WAVETRAIN_UNSUPPORTED; /* strides of 0 alone stand for row-major ones */
        taken.data = static_cast<const char *>(given.data) + given.byte_offset;
        made = is_host ? taken : taken.on(given.device.device_id, behind);
        return WAVETRAIN_OK;
    }

private:
    /* The code of a DLDataType; 0: it has none. */
    static std::uint32_t code_of(unsigned kind, unsigned bits) noexcept {
        static constexpr std::uint32_t codes[7][5] = {
            { WAVETRAIN_I8, WAVETRAIN_I16, WAVETRAIN_I32, WAVETRAIN_I64, 0 },
            { WAVETRAIN_U8, WAVETRAIN_U16, WAVETRAIN_U32, WAVETRAIN_U64, 0 },
            { 0, WAVETRAIN_F16, WAVETRAIN_F32, WAVETRAIN_F64, 0 },
            { 0, 0, 0, 0, 0 }, /* handles */
            { 0, WAVETRAIN_BF16, 0, 0, 0 },
            { 0, 0, 0, WAVETRAIN_C64, WAVETRAIN_C128 },
            { WAVETRAIN_BOOL, 0, 0, 0, 0 },
        };
        for (unsigned size = 0; kind < 7 && size < 5; size++)
            if (bits == 8u << size)
                return codes[kind][size];
        return 0;
    }
    template <class T> static std::uint32_t code_of() noexcept {
        static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8, "say which dtype it is");
        const unsigned kind = std::is_same_v<T, bool>          ? 6
                              : std::is_floating_point_v<T> ? 2
                              : std::is_signed_v<T>         ? 0
                                                            : 1;
        return code_of(kind, 8 * sizeof(T));
    }
};

/* A box of a field that is overwritten: erase({ 0, 4, 4 }, { 3, 12, 12 }, values). There is one
 * value, or one for each channel, borrowed until push has taken the box that is augmented. */
struct erase : wavetrain_erase {
    template <std::size_t N>
    erase(const std::uint64_t (&first)[N], const std::uint64_t (&last)[N],
          span<const float> numbers) noexcept
        : wavetrain_erase() {
        static_assert(N <= WAVETRAIN_RANK_MAX, "a field has at most WAVETRAIN_RANK_MAX axes");
        copy_axes(span<const std::uint64_t>(first), begin);
        copy_axes(span<const std::uint64_t>(last), end);
        values = numbers.data();
        n_values = static_cast<std::uint32_t>(numbers.size());
    }
};

/* Arithmetic on the elements of a box: wavetrain_augment has its lines, in whose order all is done.
 * It, and what it is made of, is borrowed until push has taken the box: no temporaries. The config
 * needs augment = 1. */
struct augment : wavetrain_augment {
    augment() noexcept : wavetrain_augment() { struct_size = sizeof(wavetrain_augment); }

    /* x * factors[c] + terms[c], where c is the place along that axis of the field, or 0 of one
     * number. Either may be empty. Spans of different lengths are what push refuses. */
    augment &linear(span<const float> factors, span<const float> terms = {},
                    std::uint32_t axis = 0) noexcept {
        const std::size_t count = factors.empty() ? terms.size() : factors.size();
        const bool is_one_length = terms.empty() || terms.size() == count;
        scale = factors.empty() ? nullptr : factors.data();
        bias = terms.empty() ? nullptr : terms.data();
        n_channels = is_one_length ? static_cast<std::uint32_t>(count) : UINT32_MAX;
        channel_axis = axis;
        return *this;
    }
    augment &noise(float sigma, std::uint64_t key) noexcept {
        noise_sigma = sigma;
        noise_key = key;
        return *this;
    }
    augment &clamp(float low, float high) noexcept {
        clamp_low = low;
        clamp_high = high;
        has_clamp = 1;
        return *this;
    }
    augment &erasing(span<const wavetrain::erase> boxes) noexcept {
        wavetrain_augment::erase = boxes.empty() ? nullptr : boxes.data();
        n_erase = static_cast<std::uint32_t>(boxes.size());
        erase_bytes = boxes.empty() ? 0 : sizeof(wavetrain_erase);
        return *this;
    }
};
static_assert(sizeof(augment) == sizeof(wavetrain_augment) &&
                  sizeof(erase) == sizeof(wavetrain_erase),
              "they add nothing to the C structs");

/* A map from the places of a box to voxels: wavetrain_affine has the arithmetic.
 *
 *     affine turn({ 1, 2 }, { { 0.8, -0.6, 30 }, { 0.6, 0.8, 4 } });
 *
 * has a row for each of those axes of the array, and in it a factor for each of them and a term. It
 * is borrowed until push has taken the box: no temporaries. The config needs augment = 1. */
struct affine : wavetrain_affine {
    template <std::size_t N>
    affine(const std::uint32_t (&of)[N], const double (&rows)[N][N + 1],
           std::uint32_t how = WAVETRAIN_LINEAR) noexcept
        : wavetrain_affine() {
        static_assert(N <= 3, "a map has at most three axes");
        struct_size = sizeof(wavetrain_affine);
        rank = static_cast<std::uint32_t>(N);
        level = -1;
        filter = how;
        for (std::size_t row = 0; row < N; row++) {
            axes[row] = of[row];
            for (std::size_t column = 0; column < N; column++)
                matrix[row][column] = rows[row][column];
            matrix[row][3] = rows[row][N];
        }
    }
    /* The level of an OME-NGFF image that is read; else the coarsest that is fine enough. */
    affine &at_level(std::int32_t number) noexcept {
        level = number;
        return *this;
    }
    /* The matrix leads to physical units of the image, not to voxels of its level 0. */
    affine &in_units() noexcept {
        has_units = 1;
        return *this;
    }
};
static_assert(sizeof(affine) == sizeof(wavetrain_affine), "it adds nothing to the C struct");

/* An axis of a box that reads elements one by one. The indices are borrowed until push has taken
 * the box. */
struct index_list : wavetrain_index_list {
    index_list(std::uint32_t of_axis, span<const std::int64_t> elements) noexcept
        : wavetrain_index_list() {
        axis = of_axis;
        indices = elements.data();
        n_indices = elements.size();
    }
};
static_assert(sizeof(index_list) == sizeof(wavetrain_index_list), "it adds nothing to the struct");

/* A box of an array. The uri is borrowed until push has taken the box. */
struct box : wavetrain_box {
    box() noexcept : wavetrain_box() {}
    box(const wavetrain_box &from) noexcept : wavetrain_box(from) {}
    /* box("/data/a.zarr", { 0, 64, 64 }, { 32, 128, 128 }): first <= i < last on every axis. */
    template <std::size_t N>
    box(const char *name, const std::int64_t (&first)[N], const std::int64_t (&last)[N]) noexcept
        : box(name, name != nullptr ? std::strlen(name) : 0, first, last) {
        static_assert(N <= WAVETRAIN_RANK_MAX, "a box has at most WAVETRAIN_RANK_MAX axes");
    }
    /* For ranks known at run time, and a uri without a NUL. Spans of different lengths, or of more
     * than WAVETRAIN_RANK_MAX, make a box that push refuses. */
    box(const char *name, std::size_t name_bytes, span<const std::int64_t> first,
        span<const std::int64_t> last) noexcept
        : wavetrain_box() {
        uri = name;
        uri_bytes = name_bytes;
        rank = copy_axes(first, begin);
        if (copy_axes(last, end) != rank)
            rank = WAVETRAIN_RANK_MAX + 1;
    }

    /* All of a tensor: of memory that lives until the batch is popped, or, with
     * WAVETRAIN_BOX_VALUE, of at most 64 bytes that push copies. The struct is borrowed until push
     * has taken the box. */
    box(const wavetrain_tensor &from, std::size_t axis_count,
        std::uint32_t its_kind = WAVETRAIN_BOX_MEMORY) noexcept
        : wavetrain_box() {
        rank = static_cast<std::uint32_t>(axis_count);
        kind = its_kind;
        wavetrain_box::tensor = &from;
        for (std::size_t axis = 0; axis < axis_count && axis < WAVETRAIN_RANK_MAX; axis++)
            end[axis] = static_cast<std::int64_t>(from.shape[axis]);
    }

    /* The field that gets the elements, and the index of the first one in it, axis by axis. */
    box &into(std::uint32_t number, span<const std::uint64_t> first = {}) noexcept {
        field = number;
        copy(first, at);
        return *this;
    }
    template <std::size_t N>
    box &into(std::uint32_t number, const std::uint64_t (&first)[N]) noexcept {
        return into(number, span<const std::uint64_t>(first));
    }
    /* By axis of the box: elements from one place to the next, backwards below 0. */
    template <std::size_t N> box &steps(const std::int64_t (&elements)[N]) noexcept {
        copy(span<const std::int64_t>(elements), step);
        return *this;
    }
    /* By axis of the box: 1 + the axis of the field that it becomes, 0 for one that is dropped. */
    template <std::size_t N> box &along(const std::uint8_t (&field_axes)[N]) noexcept {
        copy(span<const std::uint8_t>(field_axes), axes);
        return *this;
    }
    /* Arithmetic on the elements. */
    box &with(const wavetrain_augment &what) noexcept {
        wavetrain_box::augment = &what;
        return *this;
    }
    box &with(const wavetrain_augment &&) = delete;
    /* The map from its places to voxels. */
    box &with(const wavetrain_affine &map) noexcept {
        wavetrain_box::affine = &map;
        return *this;
    }
    box &with(const wavetrain_affine &&) = delete;
    /* Axes that are lists of indices: sets their begin and end as well. */
    box &with(span<const index_list> of_axes) noexcept {
        lists = of_axes.data();
        n_lists = static_cast<std::uint32_t>(of_axes.size());
        list_bytes = n_lists != 0 ? sizeof(wavetrain_index_list) : 0;
        for (const index_list &list : of_axes) {
            if (list.axis >= WAVETRAIN_RANK_MAX)
                continue; /* push refuses it */
            begin[list.axis] = 0;
            end[list.axis] = static_cast<std::int64_t>(list.n_indices);
        }
        return *this;
    }
    template <std::size_t N> box &with(const index_list (&of_axes)[N]) noexcept {
        return with(span<const index_list>(of_axes));
    }

private:
    template <class T> void copy(span<const T> from, T (&to)[WAVETRAIN_RANK_MAX]) noexcept {
        if (copy_axes(from, to) > WAVETRAIN_RANK_MAX)
            rank = WAVETRAIN_RANK_MAX + 1; /* push refuses it */
    }
};

/* A box, and the tag that its row of the batch has. */
struct sample : box {
    std::uint64_t tag = 0;

    sample() noexcept = default;
    sample(const wavetrain_box &from, std::uint64_t its_tag = 0) noexcept
        : box(from), tag(its_tag) {}
    template <std::size_t N>
    sample(const char *name, const std::int64_t (&first)[N], const std::int64_t (&last)[N],
           std::uint64_t its_tag = 0) noexcept
        : box(name, first, last), tag(its_tag) {}
    /* The struct for wavetrain_push; it points to this sample. */
    wavetrain_sample raw() const noexcept { return { this, 1, sizeof(wavetrain_box), tag }; }
};
static_assert(sizeof(box) == sizeof(wavetrain_box), "a box adds nothing to the C struct");

/* Several boxes, which are borrowed until push has taken them, and the tag of the sample that they
 * are: its image, its mask, its label. */
struct boxes {
    span<const box> parts;
    std::uint64_t tag = 0;

    wavetrain_sample raw() const noexcept {
        return { parts.data(), static_cast<std::uint32_t>(parts.size()), sizeof(wavetrain_box),
                 tag };
    }
};

/* A box of each row of a table. Arrays have the numbers of each row, one row after the other; push
 * borrows them, so they are named: no temporaries. */
struct column : wavetrain_column {
    /* For arrays. All rows have the extents `places`, whose length is the rank. `numbers`: which of
     * the uris each row is of; none: the first. */
    column(span<const char *const> names, span<const std::int64_t> begins,
           span<const std::uint64_t> places, span<const std::uint32_t> numbers = {}) noexcept
        : column() {
        uris = names.data();
        n_uris = static_cast<std::uint32_t>(names.size());
        rank = static_cast<std::uint32_t>(places.size()); /* push refuses 17 */
        which = numbers.data();
        begin = begins.data();
        shape = places.data();
        flags = WAVETRAIN_SHAPE_IS_ONE;
    }
    /* For values, one for each row. */
    template <class T> explicit column(span<const T> labels) noexcept : column() {
        kind = WAVETRAIN_BOX_VALUE;
        values = labels.data();
        value_dtype = tensor(labels.data()).dtype;
        value_bytes = sizeof(T);
    }

    /* The field that gets the elements, and the index of the first of each row in it. */
    column &into(std::uint32_t number, const std::uint64_t *firsts = nullptr) noexcept {
        field = number;
        at = firsts;
        return *this;
    }
    /* Elements from one place to the next, by axis of the box. */
    column &steps(const std::int64_t *elements) noexcept {
        step = elements;
        return *this;
    }
    /* Arithmetic on the elements: one for each row, or one for all. */
    column &with(const wavetrain::augment *each) noexcept {
        wavetrain_column::augment = each;
        augment_bytes = each != nullptr ? sizeof(wavetrain_augment) : 0;
        flags &= ~std::uint32_t(WAVETRAIN_AUGMENT_IS_ONE);
        return *this;
    }
    column &with_one(const wavetrain::augment &all) noexcept {
        with(&all).flags |= WAVETRAIN_AUGMENT_IS_ONE;
        return *this;
    }
    /* The map from places to voxels, with begins of 0 along its axes: likewise. */
    column &with(const wavetrain::affine *each) noexcept {
        wavetrain_column::affine = each;
        affine_bytes = each != nullptr ? sizeof(wavetrain_affine) : 0;
        flags &= ~std::uint32_t(WAVETRAIN_AFFINE_IS_ONE);
        return *this;
    }
    column &with_one(const wavetrain::affine &all) noexcept {
        with(&all).flags |= WAVETRAIN_AFFINE_IS_ONE;
        return *this;
    }

private:
    column() noexcept : wavetrain_column() { struct_size = sizeof(wavetrain_column); }
};
static_assert(sizeof(column) == sizeof(wavetrain_column), "a column adds nothing to the C struct");

/* A tensor of batches. A name that is too long makes a field that open refuses. */
struct field : wavetrain_field {
    /* field("label", WAVETRAIN_I64): one element for each sample. */
    explicit field(const char *its_name, std::uint32_t type = WAVETRAIN_F32) noexcept
        : field(its_name, type, span<const std::uint64_t>()) {}
    /* field("mask", WAVETRAIN_U8, { 64, 64 }). */
    template <std::size_t N>
    field(const char *its_name, std::uint32_t type, const std::uint64_t (&extents)[N]) noexcept
        : field(its_name, type, span<const std::uint64_t>(extents)) {}
    field(const char *its_name, std::uint32_t type, span<const std::uint64_t> extents) noexcept
        : wavetrain_field() {
        const std::size_t bytes = its_name != nullptr ? std::strlen(its_name) : 0;
        if (bytes != 0) /* else open refuses it */
            std::memcpy(name, its_name, bytes < sizeof name ? bytes : sizeof name);
        dtype = type;
        copy_axes(extents, sample_shape);
        sample_rank = static_cast<std::uint32_t>(extents.size()); /* open refuses 17 */
    }
    /* Sets the PAD_ mode of the field; a value is used instead of the arrays' fill values. */
    field &padding(std::uint32_t mode) noexcept {
        pad_mode = mode;
        return *this;
    }
    field &padding(std::uint32_t mode, double value) noexcept {
        pad_mode = mode;
        pad_value = value;
        pad_value_set = 1;
        return *this;
    }
    /* Arrays are decoded by the CF conventions, as if their uris ended with #cf=1. */
    field &decode_cf(bool on = true) noexcept {
        cf = on ? 1 : 0;
        return *this;
    }
};
static_assert(sizeof(field) == sizeof(wavetrain_field), "a field adds nothing to the C struct");

/* Whether C is not a view: views are a pointer and a count. */
template <class C>
[[gnu::visibility("hidden")]] inline constexpr bool is_container =
    std::is_class_v<C> && !(std::is_trivially_copyable_v<C> && sizeof(C) <= 2 * sizeof(void *));

/* ---- Configuration ------------------------------------------------------------------------ */

/* wavetrain_config, filled with the defaults. The use_ functions install hooks that call members of
 * your object, or your lambda. They keep its ADDRESS, so it must live until the loader has ended:
 * declare it before the loader, and before batches and tensors that may outlive that.
 * Hooks are called from many threads (wavetrain.h, section 10) and must not throw. */
struct config : wavetrain_config {
    config() noexcept : wavetrain_config() {
        wavetrain_config_default(this, sizeof(wavetrain_config));
    }

    /* Sets sample_rank and sample_shape. */
    template <std::size_t N> config &shape(const std::uint64_t (&extents)[N]) noexcept {
        static_assert(N <= WAVETRAIN_RANK_MAX, "a sample has at most WAVETRAIN_RANK_MAX axes");
        return shape(span<const std::uint64_t>(extents));
    }
    config &shape(span<const std::uint64_t> extents) noexcept {
        sample_rank = copy_axes(extents, sample_shape);
        return *this;
    }

    /* The tensors of a batch, in the place of shape() and dtype. They are borrowed until the loader
     * is open, so a container must have a name: one that is a result would be gone by then. */
    config &use_fields(span<const field> table) noexcept {
        fields = table.data();
        n_fields = static_cast<std::uint32_t>(table.size());
        field_bytes = sizeof(wavetrain_field);
        return *this;
    }
    template <class C, class = std::enable_if_t<!std::is_reference_v<C> && is_container<C>>>
    config &use_fields(C &&) = delete;

    /* The CPUs of wavetrain's threads, a bit for each; borrowed as the tensors are. */
    config &use_cpus(span<const std::uint64_t> words) noexcept {
        cpus = words.data();
        cpu_words = static_cast<std::uint32_t>(words.size());
        return *this;
    }
    template <class C, class = std::enable_if_t<!std::is_reference_v<C> && is_container<C>>>
    config &use_cpus(C &&) = delete;

    /* Metadata that wavetrain_metadata wrote. It is borrowed until close. */
    config &use_metadata(span<const unsigned char> parts) noexcept {
        metadata = parts.data();
        metadata_bytes = parts.size();
        return *this;
    }
    template <class C, class = std::enable_if_t<!std::is_reference_v<C> && is_container<C>>>
    config &use_metadata(C &&) = delete;

    /* wavetrain_config_fit: raises caps to what these arrays need. */
    status fit(span<const char *const> uris, span<unsigned char> room,
               error *why = nullptr) noexcept {
        const std::uint32_t count = static_cast<std::uint32_t>(uris.size());
        return wavetrain_config_fit(this, uris.data(), count, room.data(), room.size(), why);
    }
    status fit(const char *array, span<unsigned char> room, error *why = nullptr) noexcept {
        return fit(span<const char *const>(&array, 1), room, why);
    }
    /* wavetrain_memory_need: the memory budget. On BUDGET too, then of the smallest geometry. */
    status memory_need(wavetrain::memory &need, error *why = nullptr) const noexcept {
        return wavetrain_memory_need(this, &need, why);
    }

    /* Open takes its memory from this block. */
    config &use_block(void *block, std::uint64_t bytes) noexcept {
        memory.host_block = block;
        memory.host_block_bytes = bytes;
        return *this;
    }
    /* host.alloc(bytes, align) gives a void *, host.free(block, bytes, align) takes it back. */
    template <class T> config &use_memory(T &host) noexcept {
        memory.user = address(host);
        memory.alloc = [](void *user, std::uint64_t bytes, std::uint64_t align) noexcept -> void * {
            return at<T>(user).alloc(bytes, align);
        };
        memory.free = [](void *user, void *block, std::uint64_t bytes,
                         std::uint64_t align) noexcept {
            (at<T>(user).free)(block, bytes, align); /* free may be a macro with one argument */
        };
        return *this;
    }
    /* host.size(name) and host.read(name, offset, target, bytes), with the results of
     * wavetrain_files_hook; and, if the class has it, host.read_async(loader, ticket, name, offset,
     * target, bytes), to be completed by wavetrain::read_done. */
    template <class T> config &use_files(T &host) noexcept {
        files.user = address(host);
        files.size = [](void *user, const char *name) noexcept -> std::int64_t {
            return at<T>(user).size(name);
        };
        files.read = [](void *user, const char *name, std::uint64_t offset, void *target,
                        std::uint64_t bytes) noexcept -> std::int64_t {
            return at<T>(user).read(name, offset, target, bytes);
        };
        set_read_async<T>(0);
        return *this;
    }
    /* host.describe(name, info) and host.read(name, begin, end, target, bytes), with the results of
     * wavetrain_source_hook: hook:NAME. */
    template <class T> config &use_source(T &host) noexcept {
        source.user = address(host);
        source.describe = [](void *user, const char *name,
                             wavetrain_source_info *info) noexcept -> std::int64_t {
            return at<T>(user).describe(name, *info);
        };
        source.read = [](void *user, const char *name, const std::uint64_t *begin,
                         const std::uint64_t *end, void *target,
                         std::uint64_t bytes) noexcept -> std::int64_t {
            return at<T>(user).read(name, begin, end, target, bytes);
        };
        return *this;
    }
    /* sink(level, tag, text, text_bytes). */
    template <class T> config &use_log(T &sink) noexcept {
        log.user = address(sink);
        log.log = [](void *user, std::uint32_t level, std::uint64_t tag, const char *text,
                     std::uint64_t bytes) noexcept {
            at<T>(user)(level, tag, text, bytes);
        };
        return *this;
    }
    /* last_words(file, line, text) must not return. */
    template <class T> config &use_fatal(T &last_words) noexcept {
        fatal.user = address(last_words);
        fatal.fatal = [](void *user, const char *file, std::uint32_t line,
                         const char *text) noexcept {
            at<T>(user)(file, line, text);
        };
        return *this;
    }
    /* run(job, argument) calls job(argument) on some thread, or at once. Sets thread_mode. */
    template <class T> config &use_workers(T &run) noexcept {
        thread_mode = WAVETRAIN_THREADS_HOOK;
        workers.user = address(run);
        workers.run = [](void *user, void (*job)(void *), void *argument) noexcept {
            at<T>(user)(job, argument);
        };
        return *this;
    }
    /* ranges.begin(name), ranges.end(). */
    template <class T> config &use_profiler(T &ranges) noexcept {
        profiler.user = address(ranges);
        profiler.begin = [](void *user, const char *name) noexcept { at<T>(user).begin(name); };
        profiler.end = [](void *user) noexcept { at<T>(user).end(); };
        return *this;
    }

private:
    template <class T, class = decltype(&T::read_async)> void set_read_async(int) noexcept {
        files.read_async = [](void *user, wavetrain_loader loader, std::uint64_t ticket,
                              const char *name, std::uint64_t offset, void *target,
                              std::uint64_t bytes) noexcept -> std::int64_t {
            return at<T>(user).read_async(loader, ticket, name, offset, target, bytes);
        };
    }
    template <class T> void set_read_async(long) noexcept { files.read_async = nullptr; }
    template <class T> static T &at(void *user) noexcept { return *static_cast<T *>(user); }
    template <class T> static void *address(T &object) noexcept {
        return const_cast<void *>(static_cast<const void *>(&object));
    }
};

/* ---- Batches ------------------------------------------------------------------------------ */

/* How long ~loader waits for reads in flight, and with the last batch for work on a device. */
[[gnu::visibility("hidden")]] inline constexpr std::uint64_t close_timeout_ns = 30000000000u;

/* One tensor of a batch, or none. Its memory is the batch's: nothing of it is to be used after
 * that is released. */
class field_view {
public:
    field_view() noexcept = default;

    /* Whether this is a tensor. If not, all members below are empty, zero or NULL. */
    explicit operator bool() const noexcept { return view_.rank != 0; }
    const batch_view &view() const noexcept { return view_; }
    /* The name in the config; "" if the config has no table of fields. */
    const char *name() const noexcept { return view_.name != nullptr ? view_.name : ""; }
    void *data() const noexcept { return view_.data; }
    std::uint64_t bytes() const noexcept { return view_.bytes; }
    std::uint32_t sample_count() const noexcept { return view_.sample_count; }
    /* WAVETRAIN_BACKEND_HOST or _CUDA; 0 without a batch. */
    std::uint32_t backend() const noexcept { return view_.backend; }
    /* Whether data() is an address of device memory, which only the device reads. */
    bool is_device() const noexcept { return view_.backend == WAVETRAIN_BACKEND_CUDA; }
    /* The CUDA device; -1 on the host. */
    std::int32_t device() const noexcept { return is_device() ? view_.device : -1; }
    /* sample_count, then the sample shape. */
    span<const std::uint64_t> shape() const noexcept { return { view_.shape, view_.rank }; }
    /* How far the boxes of a sample reach along each axis, of a scalar 1; 0: it has none in
     * this field. Empty if no such sample exists. */
    span<const std::uint64_t> filled_shape(std::uint32_t index) const noexcept {
        if (index >= view_.sample_count)
            return {};
        const std::size_t extents = view_.rank > 1 ? view_.rank - 1 : 1;
        return { view_.filled_shape + index * extents, extents };
    }
    /* A digest of each sample, and the sum over them of mix(position, digest), as wavetrain.h
     * describes it; empty and 0 if the config asks for none. */
    span<const std::uint64_t> digests() const noexcept {
        return { view_.digests, view_.digests ? view_.sample_count : 0u };
    }
    std::uint64_t digest() const noexcept { return view_.digest; }
    /* All elements; EMPTY if they are of another type than T. An arithmetic T must be of the
     * dtype's kind and size (for BF16 and F16: uint16_t, their bits). A class such as std::complex
     * or your half must have its size. unsigned char and std::byte are always the bytes. If
     * is_device(), the span is of device memory: pass it to a kernel or a copy, do not read it. */
    template <class T> span<T> as() const noexcept {
        return holds<T>() ? span<T>(static_cast<T *>(view_.data), view_.bytes / sizeof(T))
                          : span<T>();
    }
    /* The elements of one sample; empty also if no such sample exists. */
    template <class T> span<T> row(std::uint32_t index) const noexcept {
        const span<T> all = as<T>();
        if (index >= view_.sample_count || all.empty())
            return {};
        const std::size_t count = all.size() / view_.sample_count;
        return { all.data() + index * count, count };
    }

private:
    friend class batch;
    template <class T> bool holds() const noexcept {
        static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>, "a plain type");
        using plain = std::remove_cv_t<T>;
        if (std::is_same_v<plain, unsigned char> || std::is_same_v<plain, std::byte>)
            return true;
        if (sizeof(T) != view_.dtype_bytes || !std::is_arithmetic_v<T>)
            return sizeof(T) == view_.dtype_bytes;
        const char kind = std::is_floating_point_v<T>    ? 'f'
                          : std::is_same_v<plain, bool> ? 'b'
                          : std::is_signed_v<T>         ? 'i'
                                                        : 'u';
        /* From WAVETRAIN_F32 on; 'c' and 'r' are those of no arithmetic type. */
        return view_.dtype <= WAVETRAIN_RAW && "-fuuiiuiuiuufbccr"[view_.dtype] == kind;
    }

    batch_view view_;
};

/* A popped batch, or none. Its members about samples are those of its first field. Gives itself
 * back when it is destroyed or assigned to. */
class [[nodiscard]] batch : public field_view {
public:
    batch() noexcept = default;
    batch(batch &&other) noexcept { swap(other); }
    batch &operator=(batch &&other) noexcept {
        batch taken(std::move(other)); /* first, so that b = std::move(b) keeps b */
        swap(taken);
        return *this;
    }
    batch(const batch &) = delete;
    batch &operator=(const batch &) = delete;
    ~batch() { release().ignore(); }

    /* Whether this is a batch. If not, all members below are empty, zero or NULL. */
    explicit operator bool() const noexcept { return batch_ != 0; }
    /* A field by its place in the config's table, or by its name; none if no such field exists. */
    template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
    field_view field(T number) const noexcept { /* of any type, so that field(0) is not a pointer */
        field_view found;
        const bool is_one = number >= T() && static_cast<std::uint64_t>(number) <= UINT32_MAX;
        const std::uint32_t place = static_cast<std::uint32_t>(number);
        if (!is_one || !status(wavetrain_batch_info(loader_, batch_, place, &found.view_)))
            found.view_ = batch_view();
        return found;
    }
    field_view field(const char *name) const noexcept {
        for (std::uint32_t number = 0; name && number < WAVETRAIN_FIELDS_MAX; number++) {
            const field_view found = field(number);
            if (!found || std::strcmp(found.name(), name) == 0)
                return found;
        }
        return {};
    }
    std::uint64_t batch_id() const noexcept { return view_.batch_id; }
    /* CUstream of the slot, for your work on the batch: release waits for it. NULL on the host. */
    void *ready_stream() const noexcept { return view_.ready_stream; }
    span<const std::uint64_t> tags() const noexcept { return { view_.tags, view_.sample_count }; }
    /* Not 0: the sample holds pad_value, or NaN in places (on_error = SKIP, NAN). */
    span<const wavetrain_status> statuses() const noexcept {
        return { view_.statuses, view_.sample_count };
    }

    /* Gives the batch back, after `event` (a CUevent) if it is not NULL, and after ready_stream()
     * and the streams that it was exported to. OK also without a batch. After UNSUPPORTED the batch
     * is still held; after CUDA it was given back, and the stream of the loader has ended. */
    status release(void *event = nullptr) noexcept {
        if (batch_ == 0)
            return WAVETRAIN_OK;
        const status released = wavetrain_release(loader_, batch_, event);
        if (released == WAVETRAIN_UNSUPPORTED)
            return released;
        const wavetrain_loader from = loader_;
        const std::uint64_t patience_ns = is_device() ? close_timeout_ns : 0;
        detach();
        if (released || released == WAVETRAIN_CUDA)
            end_if_closing(from, patience_ns);
        return released;
    }
    /* The loader of the batch; 0 without a batch. */
    wavetrain_loader owner() const noexcept { return loader_; }
    /* Gives up the number: the caller releases it through wavetrain.h. */
    wavetrain_batch detach() noexcept {
        const wavetrain_batch number = batch_;
        loader_ = batch_ = 0;
        view_ = batch_view();
        return number;
    }
    /* Exports the tensor of a field, which shares the memory; the slot is free when the batch is
     * released and the tensor's deleter was called. `stream`: what the consumer will work on; NULL
     * on the host. The structs are those of dlpack.h, which need not be included. */
    status dlpack(DLManagedTensorVersioned **tensor, void *stream = nullptr,
                  std::uint32_t field = 0) const noexcept {
        return wavetrain_dlpack(loader_, batch_, field, stream, tensor);
    }
    status dlpack(DLManagedTensor **tensor, void *stream = nullptr,
                  std::uint32_t field = 0) const noexcept {
        return wavetrain_dlpack_legacy(loader_, batch_, field, stream, tensor);
    }

    /* The next batch of a loader; what loader::pop does. */
    static status pop(wavetrain_loader from, batch &out, std::uint64_t timeout_ns,
                      error *why) noexcept {
        out = batch(); /* before the wait, so that its slot can be filled meanwhile */
        status popped = wavetrain_pop(from, timeout_ns, &out.batch_, why);
        if (!popped)
            return popped;
        out.loader_ = from;
        popped = wavetrain_batch_info(from, out.batch_, 0, &out.view_);
        if (!popped && why != nullptr)
            *why = last_error(from);
        if (!popped) /* closed meanwhile */
            out = batch();
        return popped;
    }

private:
    void swap(batch &other) noexcept {
        std::swap(loader_, other.loader_);
        std::swap(batch_, other.batch_);
        std::swap(view_, other.view_);
    }
    /* A loader that was closed while batches were held ends with the last of them. A push of no
     * samples asks whether it was closed: SHUTDOWN, without any other effect. Once nothing is held,
     * this waits for the work that is queued on a device. */
    static void end_if_closing(wavetrain_loader from, std::uint64_t patience_ns) noexcept {
        std::size_t taken = 0;
        const status pushed =
            wavetrain_push(from, nullptr, 0, sizeof(wavetrain_sample), 0, &taken);
        if (pushed != WAVETRAIN_SHUTDOWN)
            return;
        std::uint32_t held = 0;
        if (wavetrain_close(from, 0, &held) == WAVETRAIN_AGAIN && held == 0 && patience_ns != 0)
            wavetrain_close(from, patience_ns, nullptr);
    }
    wavetrain_loader loader_ = 0;
    wavetrain_batch batch_ = 0;
};

/* The iteration over a class with next(batch &), which returns whether it gave one more. */
template <class From, class Batch = batch> class batch_range {
    static constexpr bool is_noexcept() noexcept {
        return noexcept(std::declval<From &>().next(std::declval<Batch &>()));
    }

public:
    class iterator {
    public:
        using value_type = Batch;
        using difference_type = std::ptrdiff_t;
        iterator() noexcept = default; /* the end */
        explicit iterator(batch_range &range) noexcept : range_(&range) {}
        Batch &operator*() const noexcept { return range_->current_; }
        Batch *operator->() const noexcept { return &range_->current_; }
        iterator &operator++() noexcept(is_noexcept()) {
            range_->has_current_ = false;
            range_->has_current_ = bool(static_cast<From *>(range_)->next(range_->current_));
            return *this;
        }
        void operator++(int) noexcept(is_noexcept()) { ++*this; }
        bool at_end() const noexcept { return range_ == nullptr || !range_->has_current_; }
        friend bool operator==(const iterator &a, const iterator &b) noexcept {
            return a.at_end() == b.at_end();
        }
        friend bool operator!=(const iterator &a, const iterator &b) noexcept { return !(a == b); }

    private:
        batch_range *range_ = nullptr;
    };
    using sentinel = iterator;
    /* for (batch& b : range): b is given back when the loop continues; move it out to keep it. */
    iterator begin() noexcept(is_noexcept()) { return ++iterator(*this); }
    sentinel end() const noexcept { return {}; }

protected:
    batch_range() noexcept = default;
    batch_range(batch_range &&other) noexcept
        : current_(std::move(other.current_)),
          has_current_(std::exchange(other.has_current_, false)) {}
    batch_range &operator=(batch_range &&) = default;
    ~batch_range() = default;

    Batch current_;

private:
    bool has_current_ = false;
};

/* ---- The loader --------------------------------------------------------------------------- */

template <class Source> class stream;
template <class Iterator, class Sentinel> class range_source;

/* An open loader, or none. Ends it when it is destroyed or assigned to: waits close_timeout_ns at
 * most for reads in flight, and never for batches or tensors (see "Lifetimes" above). After that,
 * whatever still holds the loader, such as a read that hangs, keeps its memory; close() reports it
 * beforehand. */
class [[nodiscard]] loader {
    template <class T> using if_float = std::enable_if_t<std::is_floating_point_v<T>, status>;

public:
    loader() noexcept = default;
    loader(loader &&other) noexcept : handle_(other.detach()) {}
    loader &operator=(loader &&other) noexcept {
        const wavetrain_loader taken = other.detach(); /* first: l = std::move(l) keeps l */
        end();
        handle_ = taken;
        return *this;
    }
    loader(const loader &) = delete;
    loader &operator=(const loader &) = delete;
    ~loader() { end(); }

    /* wavetrain_open. On success what `out` was before is closed, on failure it is untouched. */
    static status open(const config &settings, loader &out, error *why = nullptr) noexcept {
        wavetrain_loader opened = 0;
        close_kept();
        const status result = wavetrain_open(&settings, &opened, why);
        if (result)
            out = adopt(opened);
        return result;
    }
    /* wavetrain_attach: takes the batches of the loader that shares this name. */
    static status attach(const char *share_name, std::uint32_t consumer, std::uint64_t timeout_ns,
                         loader &out, error *why = nullptr) noexcept {
        wavetrain_loader attached = 0;
        close_kept();
        const status result = wavetrain_attach(share_name, consumer, timeout_ns, &attached, why);
        if (result)
            out = adopt(attached);
        return result;
    }
    /* Takes over a handle from wavetrain.h. */
    static loader adopt(wavetrain_loader handle) noexcept {
        loader adopted;
        adopted.handle_ = handle;
        return adopted;
    }
    /* Gives it up: the caller closes it. */
    wavetrain_loader detach() noexcept { return std::exchange(handle_, 0u); }
    wavetrain_loader handle() const noexcept { return handle_; }
    explicit operator bool() const noexcept { return handle_ != 0; }

    /* Queues one sample. AGAIN: the lookahead was full until timeout_ns ran out. */
    status push(const sample &one, std::uint64_t timeout_ns = WAVETRAIN_FOREVER) noexcept {
        const wavetrain_sample raw = one.raw();
        std::size_t taken = 0;
        return push({ &raw, 1 }, timeout_ns, taken);
    }
    /* The same of several boxes. */
    status push(const boxes &one, std::uint64_t timeout_ns = WAVETRAIN_FOREVER) noexcept {
        const wavetrain_sample raw = one.raw();
        std::size_t taken = 0;
        return push({ &raw, 1 }, timeout_ns, taken);
    }
    /* Queues samples in order; waits up to timeout_ns for room for each of them. `taken`: how many
     * were taken, also on failure; sample number `taken` is the one that was not. */
    status push(span<const sample> samples, std::uint64_t timeout_ns, std::size_t &taken) noexcept {
        status result;
        if (samples.data() == nullptr) /* refused, if the count is not 0 */
            return push(span<const wavetrain_sample>(nullptr, samples.size()), timeout_ns, taken);
        for (taken = 0; taken < samples.size() && result; taken += result.ok())
            result = push(samples[taken], timeout_ns);
        return result;
    }
    /* wavetrain_push. */
    status push(span<const wavetrain_sample> samples, std::uint64_t timeout_ns,
                std::size_t &taken) noexcept {
        return wavetrain_push(handle_, samples.data(), samples.size(), sizeof(wavetrain_sample),
                              timeout_ns, &taken);
    }
    /* wavetrain_push_table: as many rows as there are tags. */
    status push(span<const column> columns, span<const std::uint64_t> tags,
                std::uint64_t timeout_ns, std::size_t &taken) noexcept {
        return wavetrain_push_table(handle_, columns.data(),
                                    static_cast<std::uint32_t>(columns.size()), sizeof(column),
                                    tags.size(), tags.data(), timeout_ns, &taken);
    }
    /* wavetrain_read_into: row-major, and the same with bytes from place to place. */
    status read_into(const wavetrain_box &from, void *target, std::uint64_t target_bytes,
                     std::uint64_t timeout_ns = WAVETRAIN_POP_TIMEOUT,
                     error *why = nullptr) noexcept {
        return read_into(from, target, target_bytes, {}, timeout_ns, why);
    }
    /* INVALID where the strides are not one for each axis of the box. */
    status read_into(const wavetrain_box &from, void *target, std::uint64_t target_bytes,
                     span<const std::int64_t> strides,
                     std::uint64_t timeout_ns = WAVETRAIN_POP_TIMEOUT,
                     error *why = nullptr) noexcept {
        if (strides.size() != 0 && strides.size() != from.rank)
            return WAVETRAIN_INVALID;
        const std::int64_t *steps = strides.size() == 0 ? nullptr : strides.data();
        return wavetrain_read_into(handle_, &from, sizeof from, target, target_bytes, steps,
                                   timeout_ns, why);
    }
    /* wavetrain_lend: memory for one batch, a target for each field. */
    status lend(span<const wavetrain_target> targets, std::uint64_t tag = 0,
                void *event = nullptr) noexcept {
        return wavetrain_lend(handle_, targets.data(), static_cast<std::uint32_t>(targets.size()),
                              sizeof(wavetrain_target), event, tag);
    }
    status flush() noexcept { return wavetrain_flush(handle_); }

    /* Takes the next batch. The batch that `out` held is given back first. Waits up to
     * config.pop_timeout_ns, unless you give a timeout. */
    status pop(batch &out, std::uint64_t timeout_ns = WAVETRAIN_POP_TIMEOUT,
               error *why = nullptr) noexcept {
        return batch::pop(handle_, out, timeout_ns, why);
    }
    /* The same without waiting: AGAIN if none is ready. */
    status try_pop(batch &out, error *why = nullptr) noexcept { return pop(out, 0, why); }

    /* A stream of batches over the samples that `source(wavetrain::sample&) -> bool` fills in. */
    template <class Source> wavetrain::stream<std::decay_t<Source>> stream(Source &&source) {
        return { handle_, std::forward<Source>(source) };
    }
    /* The same over first <= .. < last: any input iterator and sentinel whose elements convert to
     * sample. The memory that their uris point to must live until the iterator is advanced. */
    template <class Iterator, class Sentinel>
    wavetrain::stream<range_source<Iterator, Sentinel>> stream(Iterator first, Sentinel last) {
        return { handle_, range_source<Iterator, Sentinel>(std::move(first), std::move(last)) };
    }

    status reset() noexcept { return wavetrain_reset(handle_); }
    /* wavetrain_forget; nullptr: all arrays. */
    status forget(const char *uri) noexcept { return wavetrain_forget(handle_, uri); }
    status pump(std::uint64_t budget_ns) noexcept { return wavetrain_pump(handle_, budget_ns); }
    status stats(stats_view &out) const noexcept { return wavetrain_stats(handle_, &out); }
    status stats_reset() noexcept { return wavetrain_stats_reset(handle_); }
    /* wavetrain_trace: the last events of stages to `out`, which has room for `count`. */
    status trace(wavetrain_event *out, std::size_t count, std::size_t &written) const noexcept {
        return wavetrain_trace(handle_, out, count, sizeof(wavetrain_event), &written);
    }
    status last_error(error &out) const noexcept { return wavetrain_last_error(handle_, &out); }
    status bad_chunk(std::uint32_t number, error &out) const noexcept {
        return wavetrain_bad_chunk(handle_, number, &out);
    }
    /* wavetrain_close. After OK this object has no loader; after SHUTDOWN neither: its last batch
     * has ended it already. AGAIN: batches or tensors are held, or reads still in flight. */
    status close(std::uint64_t timeout_ns, std::uint32_t *held = nullptr) noexcept {
        const status closed = wavetrain_close(handle_, timeout_ns, held);
        if (closed != WAVETRAIN_AGAIN)
            handle_ = 0;
        return closed;
    }
    /* Timeouts are whole nanoseconds: 0.5 would be 0, and a NaN anything. */
    template <class T> if_float<T> push(const sample &, T) = delete;
    template <class T> if_float<T> push(const boxes &, T) = delete;
    template <class T> if_float<T> pop(batch &, T, error * = nullptr) = delete;
    template <class T> if_float<T> pump(T) = delete;
    template <class T> if_float<T> close(T, std::uint32_t * = nullptr) = delete;
    /* Ends the loaders whose objects were destroyed while something held them, and which nothing
     * holds any more. Returns how many are still held. */
    static std::size_t close_kept() noexcept {
        std::size_t count = 0;
        for (std::atomic<wavetrain_loader> &place : kept_) {
            wavetrain_loader number = place;
            if (number != 0 && wavetrain_close(number, 0, nullptr) == WAVETRAIN_AGAIN)
                count++;
            else if (number != 0)
                place.compare_exchange_strong(number, 0);
        }
        return count;
    }

private:
    void end() noexcept {
        if (handle_ == 0)
            return;
        close_kept();
        if (close(close_timeout_ns) != WAVETRAIN_AGAIN)
            return;
        for (std::atomic<wavetrain_loader> &place : kept_) {
            wavetrain_loader none = 0;
            if (place.compare_exchange_strong(none, handle_))
                break;
        }
        handle_ = 0;
    }

    wavetrain_loader handle_ = 0;
    /* As many may be open. Hidden, so that each program and plugin has its own, as it has its own
     * copy of the archive. Else it would be one object of the process, which no dlclose could
     * unload. */
    [[gnu::visibility("hidden")]] static inline std::atomic<wavetrain_loader> kept_[64] = {};
};
static_assert(sizeof(loader) == sizeof(wavetrain_loader), "a loader is its handle");

/* ---- Streams ------------------------------------------------------------------------------ */

/* The sample of a source that waits for room in the lookahead. */
struct pending_sample {
    sample one;
    bool is_there = false;
    bool has_pushed = false; /* a reset would drop something */

    /* Pushes the samples of the source. OK: all of them. AGAIN: until the lookahead is full, which
     * bounds the loop. Else the fault of one sample, which is dropped. */
    template <class Source>
    status push(wavetrain_loader to, Source &from) noexcept(noexcept(bool(from(one)))) {
        while (is_there || static_cast<bool>(from(one))) {
            is_there = true;
            const wavetrain_sample raw = one.raw();
            std::size_t taken = 0;
            const status pushed = wavetrain_push(to, &raw, 1, sizeof raw, 0, &taken);
            if (taken == 0 && pushed.not_now())
                return pushed;
            is_there = false;
            if (taken == 0)
                return pushed;
            has_pushed = true;
        }
        return WAVETRAIN_OK;
    }
};

/* Batches over a source of samples, which it holds by value: nothing is allocated or erased.
 *
 * Every pop first pushes samples until the lookahead is full; a sample that found no room is stored
 * and pushed first the next time. At the end of the source it flushes. The source is a callable
 * `bool(sample&)`. The sample that it gets is the one it filled last, or an empty one at first. Its
 * uri must live until the source is called again. The source may be move-only and never end.
 *
 * A stream has its loader to itself. One that is destroyed before its end resets the loader, so
 * that its samples do not turn up in the next stream. One that ended with an error leaves it, and
 * the loader, as they are: loader.reset() is for you to call. */
template <class Source> class [[nodiscard]] stream : public batch_range<stream<Source>> {
    static constexpr bool is_noexcept =
        noexcept(static_cast<bool>(std::declval<Source &>()(std::declval<sample &>())));

public:
    stream(wavetrain_loader from, Source source) : handle_(from), source_(std::move(source)) {}
    stream(stream &&other) noexcept(std::is_nothrow_move_constructible_v<Source>)
        : batch_range<stream>(std::move(other)), handle_(other.handle_),
          source_(std::move(other.source_)), pending_(other.pending_),
          state_(std::exchange(other.state_, over)), refused_(other.refused_),
          refusal_(other.refusal_), status_(other.status_), error_(other.error_) {}
    stream &operator=(stream &&) = delete;
    ~stream() {
        const bool is_left = pending_.has_pushed && state_ != over;
        while (is_left && wavetrain_reset(handle_) == WAVETRAIN_AGAIN) {
        } /* AGAIN: what runs may read what the source has */
    }

    /* The next batch; the one that `out` held is given back first. false: no batch, `out` is empty,
     * and status() is OK if that is the end. */
    bool next(batch &out) noexcept(is_noexcept) { return pop(out, WAVETRAIN_POP_TIMEOUT).ok(); }

    /* The same with a timeout. OK; AGAIN, STARVED: a later call continues; END; an error: no batch
     * follows. A sample that push refuses ends the source; the batches of the samples before it
     * still come out, a last one perhaps with fewer samples, then its error. */
    wavetrain::status pop(batch &out, std::uint64_t timeout_ns) noexcept(is_noexcept) {
        out = batch();
        if (state_ == over)
            return status_ ? wavetrain::status(WAVETRAIN_END) : status_;
        feed();
        wavetrain::error why;
        const wavetrain::status popped = batch::pop(handle_, out, timeout_ns, &why);
        if (popped == WAVETRAIN_AGAIN)
            return popped;
        status_ = popped;
        if (popped == WAVETRAIN_END) {
            state_ = over;
            if (refused_) {
                status_ = WAVETRAIN_OK;
                return popped;
            }
            error_ = refusal_;
            return status_ = refused_;
        }
        if (!popped)
            error_ = why;
        if (popped.failed())
            state_ = over;
        return popped;
    }
    wavetrain::status try_pop(batch &out) noexcept(is_noexcept) { return pop(out, 0); }
    /* As loader's. */
    template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>>
    wavetrain::status pop(batch &, T) = delete;

    /* Check it after the loop. OK: every batch was popped, or you left early; STARVED: a wait ran
     * out, and next continues; else the error that ended the stream. */
    wavetrain::status status() const noexcept { return status_; }
    /* The error that status() is about. */
    [[nodiscard]] const wavetrain::error &error() const noexcept { return error_; }
    /* Whether the source has ended and every batch came out. */
    [[nodiscard]] bool done() const noexcept { return state_ == over && status_.ok(); }

private:
    enum state : unsigned char { feeding, fed, over };

    void feed() noexcept(is_noexcept) {
        if (state_ != feeding)
            return;
        const wavetrain::status pushed = pending_.push(handle_, source_);
        if (pushed.not_now())
            return;
        state_ = fed;
        refused_ = pushed;
        if (!pushed)
            refusal_ = last_error(handle_);
        wavetrain_flush(handle_); /* a flush that fails makes pop fail, too */
    }

    wavetrain_loader handle_;
    Source source_;
    pending_sample pending_;
    state state_ = feeding;
    wavetrain::status refused_;
    wavetrain::error refusal_; /* why */
    wavetrain::status status_;
    wavetrain::error error_;
};

/* A source over an iterator and a sentinel. It advances only when the next sample is wanted. */
template <class Iterator, class Sentinel> class range_source {
public:
    range_source(Iterator first, Sentinel last) : at_(std::move(first)), last_(std::move(last)) {}
    bool operator()(sample &out) noexcept(noexcept(++std::declval<Iterator &>()) &&
                                          noexcept(sample(*std::declval<Iterator &>()))) {
        if (is_inside_)
            ++at_;
        is_inside_ = at_ != last_;
        if (is_inside_)
            out = static_cast<sample>(*at_);
        return is_inside_;
    }

private:
    Iterator at_;
    Sentinel last_;
    bool is_inside_ = false;
};

/* ---- Calls without a loader --------------------------------------------------------------- */

/* The version of the archive, as WAVETRAIN_VERSION packs it. */
inline std::uint32_t version() noexcept { return wavetrain_version(); }

/* wavetrain_array_info: what is at `uri`. The entries of a group lie in `room`. */
inline status array_info(const char *uri, array_view &out, span<unsigned char> room,
                         error *why = nullptr,
                         const wavetrain_files_hook *files = nullptr) noexcept {
    return wavetrain_array_info(uri, files, room.data(), room.size(), &out, why);
}
/* wavetrain_node_info: the same, through the hooks of a config. */
inline status node_info(const char *uri, const wavetrain_config &hooks, array_view &out,
                        span<unsigned char> room, error *why = nullptr) noexcept {
    return wavetrain_node_info(uri, &hooks, room.data(), room.size(), &out, why);
}
/* wavetrain_metadata: a part of what loaders elsewhere take by use_metadata, written to `out`. */
inline status look_up(const char *uri, const wavetrain_config &hooks, metadata_part &part,
                      span<unsigned char> out, span<unsigned char> room,
                      error *why = nullptr) noexcept {
    part.out = out.data();
    part.out_bytes = out.size();
    return wavetrain_metadata(uri, &hooks, room.data(), room.size(), &part, why);
}
inline span<const wavetrain_group_entry> entries(const array_view &of) noexcept {
    return { of.entries, of.entry_count };
}
/* The ends of the numbered .npy files of an array along axis 0; none of other arrays. */
inline span<const std::uint64_t> file_ends(const array_view &of) noexcept {
    return { of.file_ends, of.file_ends ? static_cast<std::size_t>(of.file_counts[0]) : 0 };
}
/* The lines of a memory budget. */
inline span<const wavetrain_memory_line> lines(const memory &need) noexcept {
    return { need.lines, need.line_count };
}
/* wavetrain_read_done: completes a read that files.read_async accepted. */
inline status read_done(wavetrain_loader on, std::uint64_t ticket, std::int64_t result) noexcept {
    return wavetrain_read_done(on, ticket, result);
}

} // namespace wavetrain

#endif /* WAVETRAIN_HPP */
