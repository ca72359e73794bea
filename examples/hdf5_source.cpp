/* hdf5_source.cpp FILE DATASET SHAPE COUNT [OUT]: random boxes of a dataset of an HDF5 file.
 *
 *     tools/archive.sh out
 *     c++ -std=c++17 -Iout examples/hdf5_source.cpp out/libwavetrain.a \
 *         $(pkg-config --cflags --libs hdf5-serial) -lpthread -ldl -o boxes
 *     ./boxes cells.h5 image/raw 16x64x64 100
 *
 * wavetrain reads no HDF5; the system's libhdf5 does, whatever filters it has, behind
 * wavetrain_source_hook: "hook:image/raw" is the dataset /image/raw. Whole chunks of the file are
 * asked for, each once for all boxes that need it, so nothing is decompressed twice; of a dataset
 * without chunks just the boxes. Prints the first place of each box, and writes its elements to OUT
 * as they are.
 */
#include "wavetrain.hpp"

#include <hdf5.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

/* ---- Handles and errors of HDF5 ----------------------------------------------------------- */

/* An identifier, closed at the end; below 0 there is none. */
class handle {
public:
    using closer = herr_t (*)(hid_t);
    handle() = default;
    handle(hid_t id, closer close) : id_(id), close_(close) {}
    handle(handle &&other) noexcept
        : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
    handle &operator=(handle &&other) noexcept {
        std::swap(id_, other.id_);
        std::swap(close_, other.close_);
        return *this;
    }
    ~handle() {
        if (id_ >= 0)
            close_(id_);
    }
    operator hid_t() const { return id_; }

private:
    hid_t id_ = H5I_INVALID_HID;
    closer close_ = nullptr;
};

/* What went wrong, innermost: "inflate() failed". */
std::string innermost_error() {
    std::string text = "for no reason that it tells";
    const auto keep = [](unsigned, const H5E_error2_t *error, void *to) -> herr_t {
        *static_cast<std::string *>(to) = error->desc ? error->desc : "";
        return 1; /* the first is enough */
    };
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep, &text);
    return text;
}

/* ---- Elements ------------------------------------------------------------------------------ */

/* The type of a dataset's elements in memory, where wavetrain is little-endian; RAW, which no batch
 * here has, stands for none. */
struct element {
    std::uint32_t dtype = WAVETRAIN_RAW;
    handle type;
};

handle half() {
    handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
    H5Tset_fields(type, 15, 10, 5, 0, 10);
    H5Tset_size(type, 2);
    H5Tset_ebias(type, 15);
    return type;
}

/* A float of IEEE: others of the same size, such as bfloat16, would lose what they are. */
element float_of(hid_t stored) {
    const struct {
        std::uint32_t dtype;
        handle type;
    } kinds[] = {
        { WAVETRAIN_F16, half() },
        { WAVETRAIN_F32, handle(H5Tcopy(H5T_IEEE_F32LE), H5Tclose) },
        { WAVETRAIN_F64, handle(H5Tcopy(H5T_IEEE_F64LE), H5Tclose) },
    };
    const handle in_order(H5Tcopy(stored), H5Tclose);
    H5Tset_order(in_order, H5T_ORDER_LE);
    for (const auto &[dtype, type] : kinds)
        if (H5Tequal(in_order, type) > 0)
            return { dtype, handle(H5Tcopy(type), H5Tclose) };
    return {};
}

element integer_of(hid_t stored) {
    const hid_t kinds[][2] = { { H5T_NATIVE_UINT8, H5T_NATIVE_INT8 },
                               { H5T_NATIVE_UINT16, H5T_NATIVE_INT16 },
                               { H5T_NATIVE_UINT32, H5T_NATIVE_INT32 },
                               { H5T_NATIVE_UINT64, H5T_NATIVE_INT64 } };
    const std::uint32_t dtypes[][2] = { { WAVETRAIN_U8, WAVETRAIN_I8 },
                                        { WAVETRAIN_U16, WAVETRAIN_I16 },
                                        { WAVETRAIN_U32, WAVETRAIN_I32 },
                                        { WAVETRAIN_U64, WAVETRAIN_I64 } };
    const bool is_signed = H5Tget_sign(stored) == H5T_SGN_2;
    for (std::size_t size = 0; size < 4; size++)
        if (H5Tget_size(stored) == std::size_t(1) << size)
            return { dtypes[size][is_signed], handle(H5Tcopy(kinds[size][is_signed]), H5Tclose) };
    return {};
}

std::string member(hid_t type, unsigned index) {
    char *name = H5Tget_member_name(type, index);
    const std::string copy = name ? name : "";
    H5free_memory(name);
    return copy;
}

bool has_members(hid_t type, const char *first, const char *second) {
    return H5Tget_nmembers(type) == 2 && member(type, 0) == first && member(type, 1) == second;
}

/* A pair of floats, as h5py writes complex numbers. */
element complex_of(hid_t stored) {
    if (!has_members(stored, "r", "i"))
        return {};
    const handle parts[] = { handle(H5Tget_member_type(stored, 0), H5Tclose),
                             handle(H5Tget_member_type(stored, 1), H5Tclose) };
    const element part = float_of(parts[0]);
    if (part.dtype == WAVETRAIN_RAW || part.dtype == WAVETRAIN_F16 ||
        float_of(parts[1]).dtype != part.dtype)
        return {};
    const std::size_t bytes = H5Tget_size(part.type);
    handle both(H5Tcreate(H5T_COMPOUND, 2 * bytes), H5Tclose);
    H5Tinsert(both, "r", 0, part.type);
    H5Tinsert(both, "i", bytes, part.type);
    return { std::uint32_t(bytes == 4 ? WAVETRAIN_C64 : WAVETRAIN_C128), std::move(both) };
}

element element_of(hid_t stored) {
    switch (H5Tget_class(stored)) {
    case H5T_INTEGER:
        return integer_of(stored);
    case H5T_FLOAT:
        return float_of(stored);
    case H5T_COMPOUND:
        return complex_of(stored);
    case H5T_ENUM: /* as h5py writes booleans */
        if (H5Tget_size(stored) == 1 && has_members(stored, "FALSE", "TRUE"))
            return { WAVETRAIN_BOOL, handle(H5Tcopy(stored), H5Tclose) };
        return {};
    default:
        return {};
    }
}

/* Of those that made a dataset, the first that nobody here can undo; "" where there is none. */
std::string missing_filter(hid_t made_by) {
    for (int number = 0; number < H5Pget_nfilters(made_by); number++) {
        char name[64] = "";
        unsigned flags = 0;
        std::size_t values = 0; /* none are asked for */
        const H5Z_filter_t filter = H5Pget_filter2(made_by, unsigned(number), &flags, &values,
                                                   nullptr, sizeof name, name, nullptr);
        if (filter < 0 || H5Zfilter_avail(filter) <= 0)
            return std::to_string(filter) + " (" + name + ")";
    }
    return "";
}

/* ---- The source ----------------------------------------------------------------------------- */

/* Datasets of a file. wavetrain calls from several threads at once, and libhdf5 may not be called
 * so: a lock is around all of it. That makes reads follow each other; what wavetrain does with the
 * elements goes on beside them. */
class hdf5_source {
public:
    explicit hdf5_source(const char *path) {
        const guard locked(lock_);
        file_ = handle(H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
        if (file_ < 0)
            fail(path, "cannot be opened: " + innermost_error());
    }
    ~hdf5_source() {
        const guard locked(lock_); /* handles end in any order, and before the library does */
        open_.clear();
        file_ = handle();
    }
    bool is_open() const { return file_ >= 0; }

    std::int64_t describe(const char *name, wavetrain_source_info &info) {
        const guard locked(lock_);
        if (!exists(name))
            return WAVETRAIN_FILE_ABSENT;
        const dataset *found = find(name);
        if (found == nullptr)
            return WAVETRAIN_FILE_FAILED;
        const handle space(H5Dget_space(found->id), H5Sclose);
        const handle made_by(H5Dget_create_plist(found->id), H5Pclose);
        const int rank = H5Sget_simple_extent_ndims(space);
        if (H5Sget_simple_extent_type(space) == H5S_NULL || rank > int(WAVETRAIN_RANK_MAX))
            return fail(name, "has no elements, or more than 16 axes");
        info.rank = std::uint32_t(rank);
        info.dtype = found->elements.dtype;
        hsize_t extents[H5S_MAX_RANK] = {};
        H5Sget_simple_extent_dims(space, extents, nullptr);
        std::copy_n(extents, rank, info.shape);
        if (H5Pget_layout(made_by) == H5D_CHUNKED) {
            H5Pget_chunk(made_by, rank, extents);
            std::copy_n(extents, rank, info.chunk_shape);
        } else if (H5Pget_layout(made_by) == H5D_VIRTUAL) {
            return fail(name, "is virtual: a part whose file is gone would read as fill values");
        }
        if (const std::string filter = missing_filter(made_by); !filter.empty())
            return fail(name, "needs the filter " + filter + ", which this libhdf5 has not");
        H5D_fill_value_t has_fill = H5D_FILL_VALUE_UNDEFINED;
        if (H5Pfill_value_defined(made_by, &has_fill) >= 0 && has_fill != H5D_FILL_VALUE_UNDEFINED)
            H5Pget_fill_value(made_by, found->elements.type, info.fill);
        return 0;
    }

    std::int64_t read(const char *name, const std::uint64_t *begin, const std::uint64_t *end,
                      void *target, std::uint64_t bytes) {
        const guard locked(lock_);
        const dataset *found = find(name);
        if (found == nullptr)
            return WAVETRAIN_FILE_FAILED;
        const handle space(H5Dget_space(found->id), H5Sclose);
        const int rank = H5Sget_simple_extent_ndims(space);
        hsize_t first[H5S_MAX_RANK], count[H5S_MAX_RANK];
        hsize_t wanted = H5Tget_size(found->elements.type);
        for (int axis = 0; axis < rank; axis++) {
            first[axis] = begin[axis];
            count[axis] = end[axis] - begin[axis];
            wanted *= count[axis];
        }
        if (wanted != bytes)
            return fail(name, "is another array than it was");
        const handle part(H5Screate_simple(rank, count, nullptr), H5Sclose);
        if (rank > 0)
            H5Sselect_hyperslab(space, H5S_SELECT_SET, first, nullptr, count, nullptr);
        const hid_t type = found->elements.type;
        if (H5Dread(found->id, type, part, space, H5P_DEFAULT, target) < 0)
            return fail(name, "cannot be read: " + innermost_error());
        const auto *places = static_cast<const unsigned char *>(target);
        const auto is_odd = [](unsigned char byte) { return byte > 1; };
        if (found->elements.dtype == WAVETRAIN_BOOL && std::any_of(places, places + bytes, is_odd))
            return fail(name, "has a boolean that is neither true nor false");
        return 0;
    }

private:
    struct dataset {
        handle id;
        element elements;
    };
    struct guard {
        explicit guard(std::mutex &lock) : locked(lock) {
            H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); /* of this thread: it tells on its own */
        }
        std::lock_guard<std::mutex> locked;
    };

    /* wavetrain's error says which array and which elements; why is told here. */
    static std::int64_t fail(const char *name, const std::string &why) {
        std::fprintf(stderr, "hdf5: %s %s\n", name, why.c_str());
        return WAVETRAIN_FILE_FAILED;
    }

    /* H5Lexists is an error where a group on the way is not there. */
    bool exists(const std::string &name) const {
        for (std::size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
            const std::string part = name.substr(0, end);
            if (part.empty() || H5Lexists(file_, part.c_str(), H5P_DEFAULT) <= 0)
                return false;
            if (end == std::string::npos)
                return H5Oexists_by_name(file_, name.c_str(), H5P_DEFAULT) > 0;
        }
    }

    /* Opened once. */
    const dataset *find(const char *name) {
        const auto known = open_.find(name);
        if (known != open_.end())
            return &known->second;
        /* Each chunk is asked for once, so libhdf5 need not keep any. */
        const handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
        H5Pset_chunk_cache(access, 0, 0, 1.0);
        dataset made;
        made.id = handle(H5Dopen2(file_, name, access), H5Dclose);
        if (made.id < 0)
            return fail(name, "is no dataset: " + innermost_error()), nullptr;
        const handle stored(H5Dget_type(made.id), H5Tclose);
        made.elements = element_of(stored);
        if (made.elements.dtype == WAVETRAIN_RAW)
            return fail(name, "has elements of a type that batches have not"), nullptr;
        return &open_.emplace(name, std::move(made)).first->second;
    }

    std::mutex lock_;
    handle file_;
    std::map<std::string, dataset> open_;
};

/* ---- Boxes ---------------------------------------------------------------------------------- */

/* "16x64x64". */
std::vector<std::uint64_t> extents_of(const char *text) {
    std::vector<std::uint64_t> extents;
    for (char *rest = nullptr; *text != 0; text = *rest == 'x' ? rest + 1 : rest) {
        extents.push_back(std::strtoull(text, &rest, 10));
        if (rest == text)
            return {};
    }
    return extents;
}

int failed(const wavetrain::error &why) {
    std::fprintf(stderr, "%s: %s\n", wavetrain::status(why.status).name(), why.text);
    return 1;
}

int run(hdf5_source &source, const char *name, const std::vector<std::uint64_t> &shape,
        std::uint32_t count, std::FILE *out) {
    static wavetrain::scratch room;
    const std::string uri = std::string("hook:") + name;
    wavetrain::sized<wavetrain_source_info> info;
    wavetrain::error why;
    wavetrain::config config;
    config.use_source(source).shape(wavetrain::span<const std::uint64_t>(shape));
    config.samples_per_batch = 16;
    config.backend = WAVETRAIN_BACKEND_HOST; /* OUT is written by the host */
    if (!config.fit(uri.c_str(), room, &why)) /* room for a chunk of the file */
        return failed(why);
    source.describe(name, info);
    if (info.rank != shape.size() && info.rank + shape[0] != 1)
        return std::fprintf(stderr, "%s has %u axes\n", name, info.rank), 2;
    config.dtype = info.dtype;

    wavetrain::loader loader;
    if (!wavetrain::loader::open(config, loader, &why))
        return failed(why);
    std::mt19937_64 dice(count);
    auto boxes = loader.stream([&, left = count](wavetrain::sample &to) mutable {
        to = wavetrain::sample();
        to.uri = uri.data();
        to.uri_bytes = uri.size();
        to.rank = info.rank;
        for (std::uint32_t axis = 0; axis < info.rank; axis++) {
            const std::uint64_t places = std::max(info.shape[axis], shape[axis]) - shape[axis] + 1;
            to.begin[axis] = std::int64_t(dice() % places);
            to.end[axis] = to.begin[axis] + std::int64_t(shape[axis]);
            if (left > 0)
                std::printf("%ld ", to.begin[axis]);
        }
        std::fputs(left > 0 ? "\n" : "", stdout);
        return left-- > 0;
    });
    for (const wavetrain::batch &batch : boxes)
        if (out != nullptr)
            std::fwrite(batch.data(), batch.bytes() / batch.shape()[0], batch.sample_count(), out);
    return boxes.status() ? 0 : failed(boxes.error());
}

} // namespace

int main(int argc, char **argv) {
    const std::vector<std::uint64_t> shape = extents_of(argc > 3 ? argv[3] : "");
    if (argc < 5 || argc > 6 || shape.empty()) {
        std::fputs("usage: hdf5_source FILE DATASET SHAPE COUNT [OUT]; SHAPE: 16x64x64\n", stderr);
        return 2;
    }
    hdf5_source source(argv[1]);
    std::FILE *out = argc > 5 ? std::fopen(argv[5], "wb") : nullptr;
    if (!source.is_open() || (argc > 5 && out == nullptr))
        return 1;
    const auto count = std::uint32_t(std::strtoul(argv[4], nullptr, 10));
    const int result = run(source, argv[2], shape, count, out);
    return out != nullptr && std::fclose(out) != 0 ? 1 : result;
}
