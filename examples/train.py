#!/usr/bin/env python3
"""train.py [STORE]: trains on random crops of an array, through libwavetrain.so and ctypes alone.

    tools/archive.sh out
    gcc -shared -o out/libwavetrain.so -Wl,--whole-archive out/libwavetrain.a -Wl,--no-whole-archive
    python3 examples/train.py --library out/libwavetrain.so [STORE]

A binding to copy (Config, Sample, Pipeline, Batch over the C functions) and a trainer that learns
to guess the middle of a crop from the voxels around it, in torch, else in numpy; where neither is,
it only streams. Without a STORE it makes one. Needs Python 3.9.
"""
import argparse, array, collections, contextlib, ctypes, dataclasses, enum, importlib, itertools
import json, math, operator, os, random, re, tempfile, threading, time
from ctypes import byref, c_char, c_char_p, c_int32, c_size_t, c_uint64, c_void_p, sizeof

# The structs of wavetrain.h; some end early, as struct_size says. Hooks are words that stay.
DECLARATIONS = """
wavetrain_error { size struct_size; i32 status; u32 chunk_rank; u64 tag batch_id; u32 sample
    reserved; u64 chunk[16]; char text[512] }
wavetrain_box { string uri; u64 uri_bytes; u32 rank reserved; i64 begin[16] end[16] }
wavetrain_sample { pointer boxes; u32 n_fields box_bytes; u64 tag }
wavetrain_batch_view { size struct_size; pointer data; u64 bytes; u32 rank dtype dtype_bytes
    backend; i32 device; u32 sample_count; u64 shape[17]; pointer ready_stream; u64 batch_id;
    pointer tags statuses; u32 failed_samples reserved }
wavetrain_metric { u64 ns ns_best input_bytes output_bytes count histogram[32] }
wavetrain_stats_view { size struct_size; wavetrain_metric plan meta io input_transfer decode
    post_decode decode_gap assemble bind_wait pop_wait; u64 array_meta_hits array_meta_misses
    shard_index_hits shard_index_misses chunk_layout_hits chunk_layout_misses samples_pushed
    samples_failed batches_emitted waves_emitted chunks_planned chunks_to_load chunks_dispatched
    chunks_missing chunk_uses reads_issued files_opened worker_steps host_bytes_committed
    pinned_bytes_committed gpu_bytes_committed }
wavetrain_array_view { size struct_size; u32 rank dtype dtype_bytes byte_order; u64 shape[16] }
wavetrain_config { size struct_size; u32 samples_per_batch sample_rank; u64 sample_shape[16]; u32
    dtype dtype_bytes; u64 max_gpu_memory_bytes max_host_memory_bytes; u32 lookahead_samples
    n_batch_slots; u64 max_chunk_uncompressed_bytes max_read_op_bytes; u32 host_buffer_waves
    max_chunks_per_wave max_substreams_per_chunk n_io_threads n_decode_threads
    metadata_io_concurrency n_array_meta_cache n_shard_index_cache n_chunk_layout_cache
    max_shards_per_sample; u64 chunk_cache_bytes; u32 backend; i32 device; u32 thread_mode
    drop_last on_error missing_chunks pad_mode pad_value_set; f64 pad_value; u64 pop_timeout_ns;
    u32 enable_gds numa_strategy; i32 numa_node; u32 log_level log_quiet reserved; pointer
    consumer_stream; u64 metadata_latency[5]; pointer memory[6] files[5] log[3] fatal[3] workers[3]
    profiler[4]; u32 reader reserved2; string cuda_driver }
"""
KINDS = dict(size=c_size_t, i32=c_int32, u32=ctypes.c_uint32, i64=ctypes.c_int64, u64=c_uint64,
             f64=ctypes.c_double, pointer=c_void_p, char=c_char, string=c_char_p)
for _name, _body in re.findall(r"(\w+) {([^}]*)}", DECLARATIONS):
    _fields = []
    for _kind, *_words in map(str.split, _body.split(";")):
        for _word, _, _count in (word.partition("[") for word in _words):
            _fields.append((_word, KINDS[_kind] * int(_count[:-1]) if _count else KINDS[_kind]))
    globals()[_name] = KINDS[_name] = type(_name, (ctypes.Structure,), {"_fields_": _fields})
Stats, Metric, SCRATCH, _library = wavetrain_stats_view, wavetrain_metric, 4259840, None
sized = lambda kind: kind(struct_size=sizeof(kind))
Metric.ms = property(lambda self: self.ns / 1e6)
Metric.best_ms = property(lambda self: self.ns_best / 1e6 if self.count else 1e30)

class WavetrainError(RuntimeError):
    """Base of all: .status, .what (the call); .tag, .sample and .batch_id of what is to blame."""

STATUSES = """INTERNAL InternalError SHUTDOWN ShutdownError BUDGET BudgetExceeded OUT_OF_MEMORY
    OutOfMemory CUDA NativeCudaError UNSUPPORTED Unsupported DECODE DecodeError IO StorageError
    RANK RankMismatch DTYPE DtypeMismatch NOT_FOUND NotFound INVALID InvalidArgument OK -
    AGAIN TryAgain STARVED PoolStarved END EndOfStream""".split()
Status, ERRORS = enum.IntEnum("Status", zip(STATUSES[::2], range(-12, 4))), {}
for _status, _name in zip(Status, STATUSES[1::2]):
    globals()[_name] = ERRORS[_status] = type(_name, (WavetrainError,), {})

def load(path=None):
    """The library, opened once: `path`, else $WAVETRAIN_LIBRARY, else the one beside this file."""
    global _library
    if _library is None:
        beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libwavetrain.so")
        _library = ctypes.CDLL(path or os.environ.get("WAVETRAIN_LIBRARY") or beside)
        if _library.wavetrain_version() >> 16 != 0:
            raise ImportError("this file is for wavetrain 0.x; the library has another version")
    return _library

def call(what, *arguments, error=None):
    """Calls wavetrain_`what`, with `error` as its last argument if it takes one; raises the class
    of a status other than OK. Numbers go as 64 bits: a register, whatever the parameter's width."""
    arguments = [c_uint64(a) if isinstance(a, int) else a for a in arguments]
    function, last = getattr(load(), "wavetrain_" + what), [byref(error)] if error else []
    status = Status(function(*arguments, *last))
    if status != Status.OK:
        if error is None:  # of other calls than open the first argument is the loader
            error = sized(wavetrain_error)
            load().wavetrain_last_error(arguments[0], byref(error))
            if error.status != status:
                error.text = b"a call that failed on another thread took the place of the text"
        made = ERRORS[status](f"{what}: {status.name} {error.text.decode('utf-8', 'replace')}")
        made.status, made.what = status, what
        made.tag, made.sample, made.batch_id = error.tag, error.sample, error.batch_id
        raise made

def raw(value):
    """The driver's number of a stream or an event of torch or cupy; else what was given."""
    names = [name for name in ("cuda_event", "cuda_stream", "ptr") if hasattr(value, name)]
    return getattr(value, names[0]) if names else value

def whole(name, value, low, high):
    """`value` as an int of low to high: ctypes would cut the bits that do not fit."""
    if type(value).__name__ in ("bool_", "bool"):  # numpy's has no __index__
        value = bool(value)
    if not hasattr(value, "__index__"):
        raise TypeError(f"{name} = {value!r}: must be a whole number")
    if not low <= operator.index(value) <= high:
        raise ValueError(f"{name} = {value}: must be {low} to {high}")
    return operator.index(value)

def field(name, value, kind):
    """`value` as a member of a struct: a path, a number that the float holds, or what fits."""
    if kind is c_char_p:
        if b"\0" in os.fsencode(value):
            raise ValueError(f"{name} = {value!r}: must have no NUL")
        return os.fsencode(value)
    if kind is ctypes.c_double:
        if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
            raise TypeError(f"{name} = {value!r}: must be a number")
        if hasattr(value, "__index__") and abs(operator.index(value)) > 2**53:
            raise ValueError(f"{name} = {value}: as an int it must be {-2**53} to {2**53}")
        return float(value)
    high = 1 << 8 * sizeof(kind)
    is_signed = kind in (c_int32, ctypes.c_int64)
    return whole(name, raw(value), -high // 2 if is_signed else 0, high // (1 + is_signed) - 1)

class Dtype(enum.IntEnum):
    F32, BF16, F16, I32, I64, U8, I8, U16, I16, U32, U64, F64, BOOL, C64, C128 = range(1, 16)

    @classmethod
    def coerce(cls, value):
        """A Dtype from itself, its number, "f32", "float32", or a dtype of numpy or torch."""
        word = getattr(value, "__name__", str(value)).upper().split(".")[-1]
        for name in ("COMPLEX", "FLOAT", "UINT", "INT"):
            word = word.replace(name, name[0])
        if word in cls.__members__:
            return cls[word]
        return cls(value if isinstance(value, str) else whole("dtype", value, 1, 15))

NUMPY = dict(zip(Dtype, "f4 u2 f2 i4 i8 u1 i1 u2 i2 u4 u8 f8 ? c8 c16".split()))  # bf16: bits

OPTIONS = [name for name, kind in wavetrain_config._fields_[4:] if name not in (
    "dtype_bytes", "thread_mode", "pad_value_set", "pop_timeout_ns", "enable_gds", "reserved",
    "reserved2") and not hasattr(kind, "_length_")]
BACKENDS = ("auto", "host", "cuda")

@dataclasses.dataclass(frozen=True)
class Config(dataclasses.make_dataclass("Fields", [
        "samples_per_batch", "sample_shape", ("pop_timeout_s", float, 30.0),
        ("enable_gds", bool, None), *[(name, object, None) for name in OPTIONS]], frozen=True)):
    """Fixed at open; wavetrain.h explains. None: the default, of pop_timeout_s: no timeout."""
    def __post_init__(self):
        dtype = Dtype.coerce(Dtype.F32 if self.dtype is None else self.dtype)
        shape = tuple(whole(f"sample_shape[{axis}]", extent, 1, 2**64 - 1)
                      for axis, extent in enumerate(self.sample_shape))
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "sample_shape", shape)
        whole("the number of axes of sample_shape", len(shape), 1, 16)
        whole("samples_per_batch", self.samples_per_batch, 1, 2**32 - 1)
        limit = math.inf if self.pop_timeout_s is None else self.pop_timeout_s
        if not field("pop_timeout_s", limit, ctypes.c_double) > 0:  # NaN is not
            raise ValueError(f"pop_timeout_s = {limit}: must be > 0; None or inf: no timeout")
        if self.enable_gds not in (None, False, True):
            raise ValueError(f"enable_gds = {self.enable_gds!r}: must be None, False or True")
        self._members()

    def _members(self):
        """What is not None, as members of the struct."""
        given = {name: getattr(self, name) for name in ("samples_per_batch", *OPTIONS)}
        if given["backend"] in BACKENDS:
            given["backend"] = BACKENDS.index(given["backend"])
        return {name: field(name, given[name], kind) for name, kind in wavetrain_config._fields_
                if given.get(name) is not None}

    def native(self):
        config = wavetrain_config()
        call("config_default", byref(config), sizeof(config))
        for name, value in self._members().items():
            setattr(config, name, value)
        if self.enable_gds is not None:
            config.enable_gds = 2 if self.enable_gds else 1
        config.pad_value_set = self.pad_value is not None
        config.sample_rank = len(self.sample_shape)
        config.sample_shape[:len(self.sample_shape)] = self.sample_shape
        return config

@dataclasses.dataclass(frozen=True)
class Sample:
    """A box of the array at `uri`: a slice or (start, stop) per axis. The tag comes back."""
    uri: str
    aabb: tuple
    tag: int = 0

    def __post_init__(self):
        box = []
        whole("the number of axes of aabb", len(self.aabb), 1, 16)
        object.__setattr__(self, "tag", whole("tag", self.tag, 0, 2**64 - 1))
        for axis, given in enumerate(self.aabb):
            if isinstance(given, slice):
                if given.step not in (None, 1) or given.stop is None:
                    raise ValueError(f"aabb axis {axis}: needs a stop and no step, got {given}")
                given = 0 if given.start is None else given.start, given.stop
            if not isinstance(given, (tuple, list)) or len(given) != 2:
                raise TypeError(f"aabb axis {axis}: expected slice or (start, stop), got {given!r}")
            box.append(tuple(whole(f"aabb axis {axis} {name}", at, -2**63, 2**63 - 1)
                             for name, at in zip(("start", "stop"), given)))
        object.__setattr__(self, "aabb", tuple(box))

BatchInfo = collections.namedtuple(
    "BatchInfo", "device_ptr shape dtype ready_stream batch_id device bytes tags statuses")

class Pipeline(contextlib.AbstractContextManager):
    """Push iterables of samples, pop batches in the order of the pushes, from any thread. `fit`
    names arrays: caps that are too small for them are raised."""
    _loader, _END = c_uint64(), iter(())  # no samples, then a flush
    _closing = []  # loaders that a batch or tensor outlived: the next close looks at them again
    pending = property(lambda self: bool(self._pending), doc="samples that are not in the loader")

    def __init__(self, config, fit=()):
        self.config, self._lock, self._loader = config, threading.RLock(), c_uint64()
        self._pending, self._buffer = collections.deque(), []
        native, error, scratch = config.native(), sized(wavetrain_error), (c_char * SCRATCH)()
        if fit:
            uris = (c_char_p * len(fit))(*(field("fit", uri, c_char_p) for uri in fit))
            call("config_fit", byref(native), uris, len(fit), scratch, SCRATCH, error=error)
        call("open", byref(native), byref(self._loader), error=error)

    def push(self, samples):
        """Queues an iterable, finite or not; what does not fit now is pulled as pops make room."""
        with self._lock:
            self._pending.append(iter(samples))
            self._drain()

    def flush(self):
        """Says that these were all, for now: the rest is a smaller batch, then comes the end."""
        self.push(self._END)

    def _drain(self):
        """Gives the loader what it takes. An iterable that fails is dropped, the others stay."""
        while self._pending:
            try:
                for sample in itertools.islice(self._pending[0], 0 if self._buffer else 64):
                    self._buffer.append(sample)
            except BaseException:
                self._pending[0] = iter(())  # what it gave before it failed is still pushed
                raise
            try:
                if self._buffer:
                    self._push()
                    continue
                if self._pending[0] is self._END:
                    call("flush", self._loader)
                self._pending.popleft()
            except TryAgain:
                return
            except WavetrainError:
                self._buffer.clear()
                self._pending.popleft()
                raise

    def _push(self):
        count, taken = len(self._buffer), c_size_t()
        boxes, samples = (wavetrain_box * count)(), (wavetrain_sample * count)()
        for box, target, sample in zip(boxes, samples, self._buffer):
            box.uri, box.rank = os.fsencode(sample.uri), len(sample.aabb)
            box.uri_bytes = len(box.uri)
            box.begin[:box.rank], box.end[:box.rank] = zip(*sample.aabb)
            target.boxes, target.n_fields, target.tag = ctypes.addressof(box), 1, sample.tag
            target.box_bytes = sizeof(box)
        try:
            call("push", self._loader, samples, count, sizeof(wavetrain_sample), 0, byref(taken))
        finally:
            del self._buffer[:taken.value]

    def pop(self):
        """The next batch. PoolStarved after config.pop_timeout_s: a later pop gets the same batch.
        EndOfStream behind a flush. An error of the store comes after all batches before it."""
        limit, handle = self.config.pop_timeout_s, c_uint64()
        deadline = math.inf if limit is None else time.monotonic() + limit
        while True:
            with self._lock:
                self._drain()
            left = deadline - time.monotonic()
            try:  # short waits: the lookahead is filled up meanwhile, and Ctrl-C is heard
                call("pop", self._loader, int(max(1e3, min(left, 0.1) * 1e9)), byref(handle),
                     error=sized(wavetrain_error))
                return Batch(self._loader, handle.value)
            except PoolStarved:
                if left <= 0.1:
                    raise

    def batches(self, n=None):
        """The next n batches; without n all that were pushed, flushed at their end."""
        if n is None:
            self.flush()
        with contextlib.suppress(*[EndOfStream] if n is None else []):
            for _ in itertools.count() if n is None else range(n):
                yield self.pop()

    def stats(self):
        """Since open or stats_reset: .batches_emitted .., a Metric per stage: .decode.ms .."""
        stats = sized(Stats)
        call("stats", self._loader, byref(stats))
        return stats
    stats_reset = lambda self: call("stats_reset", self._loader)

    def close(self):
        """Ends the loader; idempotent. While a batch or a tensor lives its memory stays, and goes
        back when a Pipeline is closed after its end."""
        loaders = Pipeline._closing + [self._loader.value]
        self._loader = c_uint64()  # from now on every call is ShutdownError
        Pipeline._closing[:] = [loader for loader in loaders if load().wavetrain_close(
            c_uint64(loader), c_uint64(10**10), None) == Status.AGAIN]

    __exit__ = __del__ = lambda self, *_: self.close()
_api = ctypes.PyDLL(None)  # not ctypes.pythonapi, whose prototypes all modules share
_api.PyCapsule_New.restype, _api.PyCapsule_GetPointer.restype = ctypes.py_object, c_void_p
DELETER_AT = {b"dltensor": 56, b"dltensor_versioned": 16}  # bytes into dlpack.h's two structs

@ctypes.PYFUNCTYPE(None, c_void_p)
def _end_of_capsule(capsule):
    """Deletes the tensor of a capsule that nobody took: who takes one renames it to "used_.."."""
    for name, at in DELETER_AT.items():
        if _api.PyCapsule_IsValid(c_void_p(capsule), name):
            tensor = _api.PyCapsule_GetPointer(c_void_p(capsule), name)
            ctypes.CFUNCTYPE(None, c_void_p)(c_void_p.from_address(tensor + at).value)(tensor)

_api.Py_IncRef(ctypes.py_object(_end_of_capsule))  # a capsule may outlive this module

class Batch(contextlib.AbstractContextManager):
    """A popped batch: from_dlpack takes it, `with` releases it. Tensors keep the memory of a batch
    that is released; what buffer() and numpy() gave is dead then."""
    _handle, _capsules = 0, []

    def __init__(self, loader, handle):
        self._loader, self._handle, self._capsules = loader, handle, []

    @property
    def info(self):
        view = sized(wavetrain_batch_view)
        call("batch_info", self._loader, self._handle, 0, byref(view))
        return BatchInfo(
            view.data, tuple(view.shape[:view.rank]), Dtype(view.dtype), view.ready_stream or 0,
            view.batch_id, view.device, view.bytes,
            (c_uint64 * view.sample_count).from_address(view.tags)[:],
            (c_int32 * view.sample_count).from_address(view.statuses)[:])

    def release(self, *, event=None):
        """Gives the slot back; idempotent. `event`: None, a CUevent as a number, or an event or a
        stream of torch or cupy, behind whose work the slot is reused."""
        if hasattr(event, "wait_event"):
            event = (getattr(event, "record_event", None) or event.record)()
        if self._handle:
            number = None if event is None else field("event", event, c_void_p)
            call("release", self._loader, self._handle, c_void_p(number))  # the event lives on
        self._handle = 0
        self._capsules.clear()

    __exit__ = __del__ = lambda self, *_: self.release()

    def __dlpack_device__(self):
        return (1, 0) if self.info.device < 0 else (2, self.info.device)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("a batch is not copied or moved: do that with its tensor")
        # -1: the consumer waits by itself. None: CUDA's legacy default stream, whose number is 1.
        stream = self.info.ready_stream if stream == -1 else field("stream", stream or 1, c_void_p)
        what, name, tensor = "dlpack_legacy", b"dltensor", c_void_p()
        if max_version and max_version[0] >= 1:
            what, name = "dlpack", b"dltensor_versioned"
        if len(self._capsules) == 8:  # as many tensors may live: those that nobody took end here
            self._capsules.clear()
        call(what, self._loader, self._handle, 0,
             c_void_p(None if self.info.device < 0 else stream), byref(tensor))
        # Kept until release, so that one whose consumer fails does not end while an exception is
        # under way, which a destructor in Python would lose.
        self._capsules.append(_api.PyCapsule_New(tensor, name, _end_of_capsule))
        return self._capsules[-1]

    def buffer(self):
        """The bytes, in host memory: memoryview(batch.buffer()).cast("B").cast("f")."""
        if self.info.device >= 0:
            raise BufferError("the batch is in device memory: take it with torch.from_dlpack")
        data = (c_char * self.info.bytes).from_address(self.info.device_ptr)
        data.batch = self
        return data

    def numpy(self):
        """The same as a numpy array, for numpy before 2.1, which makes DLPack tensors read-only."""
        import numpy
        return numpy.frombuffer(self.buffer(), NUMPY[self.info.dtype]).reshape(self.info.shape)

def write_store(folder):
    """A smooth uint16 volume as raw zarr v3: a document, and a file for every 8 planes."""
    with open(os.path.join(folder, "zarr.json"), "w") as file:
        json.dump({"zarr_format": 3, "node_type": "array", "shape": [48] * 3, "fill_value": 0,
                   "data_type": "uint16", "chunk_key_encoding": {"name": "v2"},
                   "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 48, 48]}},
                   "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}, file)
    for z in range(0, 48, 8):
        with open(os.path.join(folder, f"{z // 8}.0.0"), "wb") as file:
            array.array("H", (
                int(2000 + 900 * math.sin(i / 4) + 700 * math.cos(j / 5) * math.sin(k / 3))
                for i in range(z, z + 8) for j in range(48) for k in range(48))).tofile(file)
    return folder

def teach(xp):
    """step(batch): a linear guess, learnt by gradient descent, in torch or numpy alike."""
    weights = 0
    def step(batch):
        nonlocal weights
        crops = xp.from_dlpack(batch)  # the slot itself, on its device
        if not getattr(getattr(crops, "flags", None), "writeable", True):
            crops = batch.numpy()
        crops = crops.reshape(len(crops), -1)
        crops -= crops.mean()  # in place
        crops /= crops.std()
        middle = crops.shape[1] // 2
        wanted = crops[:, middle] * 1
        crops[:, middle] = 0
        errors = crops @ (weights + crops[0] * 0) - wanted
        weights = weights - crops.T @ errors / (crops * crops).sum()
        return float((errors * errors).mean())
    return step

def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", nargs="?", help="a zarr array; without it one is made")
    parser.add_argument("--library", help="libwavetrain.so, else $WAVETRAIN_LIBRARY")
    options = parser.parse_args()
    load(options.library)
    xp = None
    for name in ("numpy", "torch"):  # the last of them that is there
        with contextlib.suppress(ImportError):
            xp = importlib.import_module(name)
    step = teach(xp) if xp else lambda batch: memoryview(batch.buffer()).cast("B").cast("f")[0]
    with tempfile.TemporaryDirectory() as folder:
        uri = options.store or write_store(folder)
        view, scratch = sized(wavetrain_array_view), (c_char * SCRATCH)()
        call("array_info", os.fsencode(uri), None, scratch, SCRATCH, byref(view),
             error=sized(wavetrain_error))
        shape = view.shape[:view.rank]
        crop = [1 if axis < len(shape) - 3 else min(n, 7) for axis, n in enumerate(shape)]
        def crops():
            for tag in itertools.count():
                begin = [random.randrange(n - edge + 1) for n, edge in zip(shape, crop)]
                yield Sample(uri, [(at, at + edge) for at, edge in zip(begin, crop)], tag)
        is_on_gpu = hasattr(xp, "cuda") and xp.cuda.is_available()
        config = Config(16, crop, backend="auto" if is_on_gpu else "host")
        with Pipeline(config, fit=[uri]) as pipeline:
            pipeline.push(crops())
            for number, batch in enumerate(pipeline.batches(201)):
                with batch:
                    loss = step(batch)
                if number % 20 == 0:
                    print(f"step {number} {'loss' if xp else 'first voxel'} {loss:.4f}")
            stats = pipeline.stats()
    print(f"{xp.__name__ if xp else 'python'}: {stats.samples_pushed} samples, {stats.io.count} "
          f"reads, {stats.io.input_bytes} bytes, {stats.pop_wait.ms:.1f} ms waited")

if __name__ == "__main__":
    main()
