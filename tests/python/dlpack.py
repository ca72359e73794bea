"""dlpack.py LIBRARY ARRAY: numpy takes batches over DLPack, without a copy.

Prints what was checked. Exit code 77 with a reason: this machine has no numpy that reads DLPack.
The array is the cube of tests/common/store.rs, seed 0, sparse.
"""

import ctypes
import gc
import sys

try:
    import numpy
except ImportError:
    print("skipped: this python has no numpy")
    sys.exit(77)
if not hasattr(numpy, "from_dlpack"):
    print(f"skipped: numpy {numpy.__version__} has no from_dlpack")
    sys.exit(77)

EDGE, SHARD, CHUNK, FILL, BOX = 64, 16, 8, 42, 8
RANK_MAX, LONG_NS = 16, 60 * 10**9
# Of the DLPack types, those that numpy has: WAVETRAIN_ numbers. The array is of uint16.
TYPES = {1: "f4", 3: "f2", 4: "i4", 5: "i8", 8: "u2"}
RAW = 16


class Box(ctypes.Structure):
    _fields_ = [
        ("uri", ctypes.c_char_p),
        ("uri_bytes", ctypes.c_uint64),
        ("rank", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("begin", ctypes.c_int64 * RANK_MAX),
        ("end", ctypes.c_int64 * RANK_MAX),
    ]


class Sample(ctypes.Structure):
    _fields_ = [
        ("boxes", ctypes.POINTER(Box)),
        ("n_fields", ctypes.c_uint32),
        ("box_bytes", ctypes.c_uint32),
        ("tag", ctypes.c_uint64),
    ]


class ConfigHead(ctypes.Structure):
    """The first fields of wavetrain_config; struct_size says that there are no more."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("samples_per_batch", ctypes.c_uint32),
        ("sample_rank", ctypes.c_uint32),
        ("sample_shape", ctypes.c_uint64 * RANK_MAX),
        ("dtype", ctypes.c_uint32),
        ("dtype_bytes", ctypes.c_uint32),
    ]


class ViewHead(ctypes.Structure):
    """The first fields of wavetrain_batch_view."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("data", ctypes.c_void_p)]


class Capsule:
    """What numpy.from_dlpack asks: a capsule around a tensor, and the device."""

    def __init__(self, pointer, name):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.name = name  # a capsule borrows its name
        self.capsule = make(pointer, name, None)

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


def check(status, what):
    assert status == 0, f"{what} returned {status}"


def cube(z, y, x):
    """A box of the sparse array."""
    z, y, x = numpy.ogrid[z : z + BOX, y : y + BOX, x : x + BOX]
    values = (z * 2309 + y * 151 + x * 7).astype("u2")
    shards = z // SHARD + y // SHARD + x // SHARD
    chunks = z // CHUNK * 4 + y // CHUNK * 2 + x // CHUNK
    return numpy.where((shards % 7 == 3) | (chunks % 11 == 5), numpy.uint16(FILL), values)


class Loader:
    def __init__(self, library, dtype, dtype_bytes):
        self.library = library
        config = ConfigHead(ctypes.sizeof(ConfigHead), 2, 3, dtype=dtype, dtype_bytes=dtype_bytes)
        config.sample_shape[:3] = [BOX] * 3
        self.handle = ctypes.c_uint64()
        check(library.wavetrain_open(ctypes.byref(config), ctypes.byref(self.handle), None), "open")

    def push(self, uri, at):
        box = Box(uri, len(uri), 3)
        box.begin[:3] = at
        box.end[:3] = [begin + BOX for begin in at]
        sample = Sample(ctypes.pointer(box), 1, ctypes.sizeof(Box), 0)
        taken = ctypes.c_size_t()
        size, wait = ctypes.c_size_t(ctypes.sizeof(Sample)), ctypes.c_uint64(LONG_NS)
        arguments = (ctypes.byref(sample), ctypes.c_size_t(1), size, wait, ctypes.byref(taken))
        check(self.library.wavetrain_push(self.handle, *arguments), "push")

    def pop(self):
        batch = ctypes.c_uint64()
        wait = ctypes.c_uint64(LONG_NS)
        check(self.library.wavetrain_pop(self.handle, wait, ctypes.byref(batch), None), "pop")
        return batch

    def data(self, batch):
        view = ViewHead(ctypes.sizeof(ViewHead))
        check(self.library.wavetrain_batch_info(self.handle, batch, 0, ctypes.byref(view)), "info")
        return view.data

    def array(self, batch, function, name):
        tensor = ctypes.c_void_p()
        export = getattr(self.library, function)
        check(export(self.handle, batch, 0, None, ctypes.byref(tensor)), function)
        return numpy.from_dlpack(Capsule(tensor, name))

    def close(self):
        """The status of close, and how many slots are kept."""
        held = ctypes.c_uint32()
        wait = ctypes.c_uint64(LONG_NS)
        return self.library.wavetrain_close(self.handle, wait, ctypes.byref(held)), held.value


def check_type(library, uri, dtype, numpy_type):
    loader = Loader(library, dtype, 2 if dtype == RAW else 0)
    places = [[3, 5, 7], [40, 9, 22]]
    for place in places:
        loader.push(uri, place)
    batch = loader.pop()
    address = loader.data(batch)
    expected = numpy.stack([cube(*place) for place in places])
    if dtype == RAW:
        expected = expected[..., None].view("u1")
    expected = expected.astype(numpy_type)

    versioned = loader.array(batch, "wavetrain_dlpack", b"dltensor_versioned")
    legacy = loader.array(batch, "wavetrain_dlpack_legacy", b"dltensor")
    for array in (versioned, legacy):
        assert array.dtype == numpy.dtype(numpy_type), array.dtype
        assert array.ctypes.data == address, "a copy"
        assert array.flags.c_contiguous
        numpy.testing.assert_array_equal(array, expected)
    # Only the versioned form says that it may be written.
    assert versioned.flags.writeable
    versioned[0, 1, 2, 3] = 77
    assert (legacy[0, 1, 2, 3] == 77).all()

    # The arrays keep the memory, whatever was released; views of them too.
    check(library.wavetrain_release(loader.handle, batch, None), "release")
    view = versioned[1]
    del array, versioned
    gc.collect()
    assert loader.close() == (1, 1)
    numpy.testing.assert_array_equal(view, expected[1])
    del legacy
    gc.collect()
    assert loader.close() == (1, 1)
    del view
    gc.collect()
    assert loader.close() == (0, 0)


def main():
    library = ctypes.CDLL(sys.argv[1])
    uri = sys.argv[2].encode()
    for dtype, numpy_type in [*TYPES.items(), (RAW, "u1")]:
        check_type(library, uri, dtype, numpy_type)
    print(f"numpy {numpy.__version__} read {len(TYPES) + 1} element types in place")


try:
    main()
except BufferError as error:
    # A numpy before 2.1 knows the legacy form only.
    print(f"skipped: numpy {numpy.__version__}: {error}")
    sys.exit(77)
