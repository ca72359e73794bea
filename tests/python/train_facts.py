"""train_facts.py TRAIN_PY LIBRARY CUBE FACT: checks one fact about examples/train.py.

TRAIN_PY is imported as a module; CUBE is the sparse array that tests/common/store.rs writes, whose
values are known here too. $SIMULATED_DRIVER is the library of tests/cuda_sim. Exit status 77 with a line that says why: this machine cannot.
"""
import ctypes, dataclasses, importlib.util, itertools, os, sys

EDGE = 8


def main():
    global train, cube
    spec = importlib.util.spec_from_file_location("train", sys.argv[1])
    train = importlib.util.module_from_spec(spec)
    sys.modules["train"] = train
    spec.loader.exec_module(train)
    train.load(sys.argv[2])
    cube = sys.argv[3]
    globals()[sys.argv[4]]()


def module(name):
    """An optional module; without it the fact is skipped."""
    if importlib.util.find_spec(name) is None:
        print(f"skipped: there is no {name} here")
        sys.exit(77)
    return importlib.import_module(name)


def value(z, y, x):
    """The element of the cube: see tests/common/store.rs."""
    shard, chunk = z // 16 + y // 16 + x // 16, z // 8 * 4 + y // 8 * 2 + x // 8
    return 42 if shard % 7 == 3 or chunk % 11 == 5 else (z * 2309 + y * 151 + x * 7) % 65536


def corner(number):
    return [(number * step) % (64 - EDGE + 1) for step in (5, 11, 17)]


def sample(number, uri=None):
    return train.Sample(uri or cube, [(at, at + EDGE) for at in corner(number)], tag=number)


def voxels(number):
    """What sample(number) holds, row-major."""
    axes = [range(at, at + EDGE) for at in corner(number)]
    return [float(value(*at)) for at in itertools.product(*axes)]


def pipeline(**changes):
    config = dict(samples_per_batch=4, sample_shape=(EDGE,) * 3, pop_timeout_s=30.0, backend="host")
    return train.Pipeline(train.Config(**{**config, **changes}))


def values(batch):
    return memoryview(batch.buffer()).cast("B").cast("f").tolist()


def raises(kind, call):
    """The exception of exactly this class that the call raises."""
    try:
        call()
    except train.WavetrainError as error:
        assert type(error) is kind, f"{type(error).__name__}: {error}"
        return error
    raise AssertionError(f"no {kind.__name__}")


def starves(loader):
    loader.config = dataclasses.replace(loader.config, pop_timeout_s=0.05)
    raises(train.PoolStarved, loader.pop)
    loader.config = dataclasses.replace(loader.config, pop_timeout_s=30.0)


# ---- The stream ---------------------------------------------------------------------------------

def every_voxel_arrives_in_push_order():
    with pipeline() as loader:
        loader.push(sample(number) for number in range(24))
        for first, batch in zip(range(0, 24, 4), loader.batches(6)):
            with batch:
                assert batch.info.tags == list(range(first, first + 4)), batch.info
                assert batch.info.shape == (4, EDGE, EDGE, EDGE)
                assert batch.info.statuses == [0] * 4 and batch.info.batch_id == first // 4
                assert values(batch) == sum(map(voxels, range(first, first + 4)), [])


def an_endless_generator_is_pulled_lazily():
    pulled = itertools.count()
    count = 0

    def endless():
        nonlocal count
        for number in pulled:
            count += 1
            yield sample(number)

    with pipeline(lookahead_samples=8, n_batch_slots=1) as loader:
        loader.push(endless())
        assert loader.pending
        for batch in loader.batches(50):
            with batch:
                assert values(batch)[:EDGE ** 3] == voxels(batch.info.tags[0])
        # 200 were popped; ahead of them: the lookahead, a batch, and what one pull takes.
        assert 200 <= count <= 200 + 8 + 4 + 64, count


def pushed_iterables_follow_each_other_and_a_failing_one_is_dropped():
    def failing():
        yield sample(2)
        raise KeyError("the dataset")

    with pipeline(samples_per_batch=1) as loader:
        loader.push([sample(0), sample(1)])
        try:
            loader.push(failing())
            raise AssertionError("no KeyError")
        except KeyError:
            pass
        assert [batch.info.tags for batch in loader.batches(3)] == [[0], [1], [2]]
        assert not loader.pending
        loader.push([sample(3)])
        assert [batch.info.tags for batch in loader.batches()] == [[3]]


def pop_starves_after_its_timeout_and_then_gives_the_same_batch():
    with pipeline() as loader:
        loader.push(map(sample, range(3)))
        loader.config = dataclasses.replace(loader.config, pop_timeout_s=0.05)
        error = raises(train.PoolStarved, loader.pop)
        assert error.status is train.Status.STARVED and error.what == "pop"
        loader.config = dataclasses.replace(loader.config, pop_timeout_s=None)
        loader.push([sample(3)])
        with loader.pop() as batch:
            assert batch.info.tags == [0, 1, 2, 3]


def batches_end_with_the_samples_and_the_last_may_be_smaller():
    with pipeline() as loader:
        loader.push(map(sample, range(10)))
        shapes = [batch.info.shape[0] for batch in loader.batches()]
        assert shapes == [4, 4, 2], shapes
        raises(train.EndOfStream, loader.pop)
        loader.push(map(sample, range(4)))
        assert loader.pop().info.tags == [0, 1, 2, 3]


def stats_count_what_happened():
    with pipeline() as loader:
        loader.push(map(sample, range(8)))
        for batch in loader.batches(2):
            batch.release()
        stats = loader.stats()
        assert (stats.samples_pushed, stats.batches_emitted, stats.samples_failed) == (8, 2, 0)
        assert stats.io.count > 0 and stats.io.input_bytes > 0 and stats.decode.output_bytes > 0
        assert isinstance(stats, train.Stats) and isinstance(stats.decode, train.Metric)
        assert stats.decode.ms == stats.decode.ns / 1e6
        assert 0 < stats.decode.best_ms <= stats.decode.ms / stats.decode.count
        loader.stats_reset()
        assert loader.stats().decode.count == 0 and loader.stats().decode.best_ms == 1e30


# ---- Errors -------------------------------------------------------------------------------------

def errors_of_the_store_come_behind_the_batches_before_them():
    with pipeline(samples_per_batch=1) as loader:
        loader.push([sample(0), sample(1, cube + "-missing"), *map(sample, range(2, 40))])
        with loader.pop() as batch:
            assert batch.info.tags == [0]
        error = raises(train.NotFound, loader.pop)
        assert error.status is train.Status.NOT_FOUND and error.tag == 1 and error.batch_id == 1
        assert "cube-missing" in str(error), error
        raises(train.NotFound, loader.pop)
        raises(train.NotFound, lambda: loader.push([sample(3)]))


def a_refused_sample_drops_its_iterable_and_nothing_else():
    short = train.Sample(cube, [(0, EDGE), (0, EDGE), (0, EDGE - 1)], tag=9)
    with pipeline(samples_per_batch=1) as loader:
        error = raises(train.InvalidArgument, lambda: loader.push([sample(0), short, sample(1)]))
        assert error.tag == 9 and "sample_shape" in str(error), error
        raises(train.RankMismatch, lambda: loader.push([train.Sample(cube, [(0, EDGE)])]))
        loader.push([sample(2)])
        assert [batch.info.tags for batch in loader.batches()] == [[0], [2]]


def a_refused_sample_far_ahead_raises_where_it_is_pulled():
    short = train.Sample(cube, [(0, EDGE), (0, EDGE), (0, EDGE - 1)])
    with pipeline(samples_per_batch=1, lookahead_samples=1) as loader:
        loader.push([*map(sample, range(100)), short, sample(0)])
        tags, refused = [], 0
        while len(tags) < 100:
            try:
                with loader.pop() as batch:
                    tags += batch.info.tags
            except train.InvalidArgument:
                refused += 1
        assert tags == list(range(100)) and refused == 1, (tags, refused)
        loader.flush()
        raises(train.EndOfStream, loader.pop)


def each_status_has_its_exception():
    assert set(train.ERRORS) == set(train.Status)
    raises(train.BudgetExceeded, lambda: pipeline(max_host_memory_bytes=1))
    raises(train.Unsupported, lambda: pipeline(enable_gds=True))
    raises(train.InvalidArgument, lambda: pipeline(n_batch_slots=65))
    with pipeline(dtype="i8") as loader:
        loader.push(map(sample, range(4)))
        raises(train.DtypeMismatch, loader.pop)


def every_exception_says_why():
    with pipeline() as loader:
        loader.push(map(sample, range(8)))
        batch, other = loader.pop(), loader.pop()
        assert "event" in str(raises(train.Unsupported, lambda: batch.release(event=4096)))
        capsules = [batch.__dlpack__() for _ in range(7)]
        other.release()
        assert "is not held" in str(raises(train.InvalidArgument, lambda: other.info))
        other._handle = 7
        assert "is not held" in str(raises(train.InvalidArgument, other.release))
        other._handle = 0
        del capsules
        error = raises(train.InvalidArgument, lambda: train.call("pump", loader._loader, 0))
        assert "thread_mode" in str(error), error
        loader.push([sample(0, cube + "-missing")])
        loader.flush()
        raises(train.NotFound, loader.pop)
        for call in (loader.pop, loader.flush, lambda: loader.push([sample(3)])):
            assert "cube-missing" in str(raises(train.NotFound, call))
        raises(train.InvalidArgument, lambda: other.info)
        batch.release()
    for call in (loader.pop, loader.stats, loader.stats_reset, lambda: loader.push([sample(0)]),
                 loader.flush, lambda: batch.info):
        error = raises(train.ShutdownError, call)
        assert "the loader is closed" in str(error) and "open another" in str(error), error
    loader.close()


def a_sample_takes_slices_and_pairs_and_refuses_the_rest():
    pairs = train.Sample("a", [(0, 64), (2, 8)])
    assert pairs == train.Sample("a", (slice(None, 64), slice(2, 8, 1)))
    assert hash(pairs) == hash(train.Sample("a", [[0, 64], slice(2, 8)]))
    assert pairs.aabb == ((0, 64), (2, 8))
    for wrong, kind in ((64, TypeError), ((1, 2, 3), TypeError), ("ab", TypeError),
                        (slice(0, 64, 2), ValueError), (slice(3, None), ValueError)):
        try:
            train.Sample("a", [wrong])
            raise AssertionError(f"{wrong!r} was taken")
        except kind:
            pass


def a_config_takes_names_of_types_and_refuses_nonsense():
    base = train.Config(samples_per_batch=8, sample_shape=[4, 4], dtype="BFloat16")
    assert base.dtype is train.Dtype.BF16 and base.sample_shape == (4, 4)
    assert dataclasses.replace(base, samples_per_batch=64).samples_per_batch == 64
    for name, dtype in dict(f32="F32", float32="F32", uint16="U16", i64="I64", int8="I8",
                            complex64="C64", bool="BOOL").items():
        assert train.Dtype.coerce(name) is train.Dtype[dtype]
    assert train.Dtype.coerce(1) is train.Dtype.F32
    for wrong in (dict(samples_per_batch=0), dict(sample_shape=(4, 0)), dict(pop_timeout_s=0),
                  dict(dtype="nope")):
        try:
            train.Config(**{**dict(samples_per_batch=1, sample_shape=(4,)), **wrong})
            raise AssertionError(f"{wrong} was taken")
        except ValueError:
            pass


def refused(kind, name, call):
    """The call raises exactly this class, and the text begins with the name."""
    try:
        call()
    except Exception as error:
        assert type(error) is kind and str(error).startswith(name), f"{type(error)}: {error}"
        return
    raise AssertionError(f"{name} was taken")


def numbers_that_the_struct_would_cut_are_refused_by_name():
    base = dict(samples_per_batch=1, sample_shape=(4,))
    for name, wrong in dict(
            samples_per_batch=2**32 + 2, n_batch_slots=2**32 + 3, max_chunk_uncompressed_bytes=2**64,
            n_io_threads=-1, device=2**31, numa_node=-2**31 - 1, pop_timeout_s=-1.0,
            consumer_stream=2**64 + 1, pad_value=2**53 + 1, drop_last=-1, dtype=0).items():
        refused(ValueError, name, lambda: train.Config(**{**base, name: wrong}))
    for name, wrong in dict(
            samples_per_batch=2.0, n_batch_slots="3", lookahead_samples=8.5, pad_value="0",
            n_decode_threads=float("nan"), max_host_memory_bytes=1e9, dtype=1.0).items():
        refused(TypeError, name, lambda: train.Config(**{**base, name: wrong}))
    refused(ValueError, "pop_timeout_s = nan", lambda: train.Config(
        **base, pop_timeout_s=float("nan")))
    refused(ValueError, "cuda_driver", lambda: train.Config(**base, cuda_driver="a\0b"))
    refused(ValueError, "enable_gds", lambda: train.Config(**base, enable_gds=2))
    for shape, kind, name in (((2**64,), ValueError, "sample_shape[0]"), ((4, 4.5), TypeError,
                              "sample_shape[1]"), ((1,) * 17, ValueError, "the number of axes"),
                              ((), ValueError, "the number of axes")):
        refused(kind, name, lambda: train.Config(samples_per_batch=1, sample_shape=shape))
    refused(ValueError, "aabb axis 1 stop", lambda: train.Sample("a", [(0, 4), (0, 2**64 + 16)]))
    refused(ValueError, "aabb axis 0 start", lambda: train.Sample("a", [slice(-2**63 - 1, 4)]))
    refused(TypeError, "aabb axis 0 start", lambda: train.Sample("a", [(0.5, 4)]))
    refused(TypeError, "aabb axis 0 stop", lambda: train.Sample("a", [(0, 4.0)]))
    refused(ValueError, "the number of axes", lambda: train.Sample("a", [(0, 1)] * 17))
    refused(ValueError, "the number of axes", lambda: train.Sample("a", []))
    for tag, kind in ((2**64, ValueError), (-1, ValueError), (1.5, TypeError)):
        refused(kind, "tag", lambda: train.Sample("a", [(0, 4)], tag=tag))


def numbers_at_their_limits_and_those_of_numpy_are_taken():
    limits = train.Config(
        samples_per_batch=2**32 - 1, sample_shape=[2**64 - 1], max_read_op_bytes=2**64 - 1,
        device=-2**31, numa_node=2**31 - 1, pad_value=2**53, drop_last=True,
        pop_timeout_s=float("inf")).native()
    assert limits.samples_per_batch == 2**32 - 1 and limits.sample_shape[0] == 2**64 - 1
    assert limits.device == -2**31 and limits.numa_node == 2**31 - 1 and limits.drop_last == 1
    assert limits.pad_value == 2**53 and limits.max_read_op_bytes == 2**64 - 1
    ends = train.Sample("a", [(-2**63, 2**63 - 1)], tag=2**64 - 1)
    assert ends.aabb == ((-2**63, 2**63 - 1),) and ends.tag == 2**64 - 1
    numpy = module("numpy")
    config = train.Config(
        samples_per_batch=numpy.uint8(3), sample_shape=numpy.array([4, 5]), dtype=numpy.dtype("<u2"),
        n_io_threads=numpy.int64(2), pad_value=numpy.float32(0.5), drop_last=numpy.bool_(True),
        enable_gds=numpy.bool_(False), pop_timeout_s=numpy.float64(2)).native()
    assert (config.samples_per_batch, config.sample_shape[:3]) == (3, [4, 5, 0])
    assert (config.n_io_threads, config.pad_value, config.drop_last) == (2, 0.5, 1)
    assert (config.dtype, config.enable_gds) == (train.Dtype.U16, 1)
    assert train.Sample("a", [numpy.array([2, 8])[0:2].tolist()]).aabb == ((2, 8),)
    assert train.Sample("a", [(numpy.int16(2), numpy.uint64(8))], tag=numpy.uint64(7)).tag == 7


# ---- Tensors ------------------------------------------------------------------------------------

def numpy_sees_the_slot_itself_and_may_write_to_it():
    numpy = module("numpy")
    if tuple(map(int, numpy.__version__.split(".")[:2])) < (2, 1):
        print(f"skipped: numpy {numpy.__version__} makes DLPack tensors read-only")
        sys.exit(77)
    with pipeline() as loader:
        loader.push(map(sample, range(4)))
        with loader.pop() as batch:
            tensor = numpy.from_dlpack(batch)
            assert tensor.ctypes.data == batch.info.device_ptr
            assert tensor.shape == (4, EDGE, EDGE, EDGE) and tensor.dtype == numpy.float32
            assert tensor.ravel().tolist() == sum(map(voxels, range(4)), [])
            tensor[3, 7, 7, 7] = -5
            assert values(batch)[-1] == -5


def numpy_views_a_batch_without_dlpack_and_keeps_it():
    numpy = module("numpy")
    with pipeline(n_batch_slots=1, samples_per_batch=1) as loader:
        loader.push(map(sample, range(2)))
        view = loader.pop().numpy()
        assert view.flags.writeable and view.ravel().tolist() == voxels(0)
        starves(loader)
        del view
        assert loader.pop().info.tags == [1]
    for dtype, name in dict(f16="float16", u16="uint16", i64="int64", bf16="uint16").items():
        with pipeline(dtype=dtype, samples_per_batch=1) as loader:
            loader.push([sample(1)])
            with loader.pop() as batch:
                assert batch.numpy().dtype == numpy.dtype(name)
                if dtype == "i64":
                    assert batch.numpy().ravel().tolist() == voxels(1)


def torch_sees_the_slot_itself_and_may_write_to_it():
    torch = module("torch")
    with pipeline() as loader:
        loader.push(map(sample, range(4)))
        with loader.pop() as batch:
            tensor = torch.from_dlpack(batch)
            assert tensor.data_ptr() == batch.info.device_ptr
            assert tensor.flatten().tolist() == sum(map(voxels, range(4)), [])
            tensor[0, 0, 0, 0] = -5
            assert values(batch)[0] == -5
    with pipeline(dtype="bf16") as loader:
        loader.push(map(sample, range(4)))
        with loader.pop() as batch:
            assert torch.from_dlpack(batch).dtype is torch.bfloat16


def a_tensor_keeps_its_slot_when_the_batch_is_released():
    numpy = module("numpy")
    with pipeline(n_batch_slots=1, samples_per_batch=1) as loader:
        loader.push(map(sample, range(3)))
        with loader.pop() as batch:
            tensor = numpy.from_dlpack(batch)
        starves(loader)
        assert tensor.ravel().tolist() == voxels(0)
        del tensor
        with loader.pop() as batch:
            assert batch.info.tags == [1]


def a_tensor_keeps_its_memory_when_the_pipeline_is_closed():
    numpy = module("numpy")
    with pipeline() as loader:
        loader.push(map(sample, range(4)))
        with loader.pop() as batch:
            tensor = numpy.from_dlpack(batch)
    assert tensor.ravel().tolist() == sum(map(voxels, range(4)), [])
    assert len(train.Pipeline._closing) == 1
    del tensor
    loader.close()
    assert train.Pipeline._closing == []


def a_capsule_that_nobody_took_gives_its_tensor_back():
    for version, name in ((None, b"dltensor"), ((1, 0), b"dltensor_versioned")):
        with pipeline(n_batch_slots=1, samples_per_batch=1) as loader:
            loader.push(map(sample, range(2)))
            with loader.pop() as batch:
                capsule = batch.__dlpack__(max_version=version)
            assert ctypes.pythonapi.PyCapsule_IsValid(ctypes.py_object(capsule), name)
            starves(loader)
            del capsule
            assert loader.pop().info.tags == [1]


def a_capsule_that_was_taken_leaves_its_tensor_to_the_consumer():
    for version, name in ((None, b"dltensor"), ((1, 0), b"dltensor_versioned")):
        with pipeline(n_batch_slots=1, samples_per_batch=1) as loader:
            loader.push(map(sample, range(2)))
            with loader.pop() as batch:
                capsule = ctypes.py_object(batch.__dlpack__(max_version=version))
            take = ctypes.pythonapi.PyCapsule_GetPointer
            take.restype, take.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            tensor = take(capsule, name)
            used = b"used_" + name
            ctypes.pythonapi.PyCapsule_SetName(capsule, used)
            del capsule
            starves(loader)  # the tensor lives
            deleter = ctypes.c_void_p.from_address(tensor + train.DELETER_AT[name]).value
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(tensor)
            assert loader.pop().info.tags == [1]


def a_consumer_that_fails_loses_neither_its_exception_nor_the_slot():
    numpy = module("numpy")
    # numpy takes no bfloat16, and drops the capsule while its exception is under way.
    with pipeline(n_batch_slots=1, samples_per_batch=1, dtype="bf16") as loader:
        loader.push(map(sample, range(2)))
        batch = loader.pop()
        for _ in range(20):  # more than the tensors that a batch can have
            try:
                numpy.from_dlpack(batch)
                raise AssertionError("numpy took bfloat16")
            except (RuntimeError, BufferError) as error:
                assert not isinstance(error, train.WavetrainError) and str(error), repr(error)
        batch.release()
        assert loader.pop().info.tags == [1]


def a_ninth_tensor_of_a_batch_is_try_again():
    numpy = module("numpy")
    with pipeline() as loader:
        loader.push(map(sample, range(4)))
        with loader.pop() as batch:
            tensors = [numpy.from_dlpack(batch) for _ in range(8)]
            raises(train.TryAgain, lambda: batch.__dlpack__())
            tensors.pop()
            tensors.append(numpy.from_dlpack(batch))
        del tensors


def a_batch_is_neither_copied_nor_moved_nor_described_after_its_release():
    with pipeline() as loader:
        loader.push(map(sample, range(4)))
        batch = loader.pop()
        assert batch.__dlpack_device__() == (1, 0)
        for arguments in (dict(copy=True), dict(dl_device=(2, 0))):
            try:
                batch.__dlpack__(**arguments)
                raise AssertionError(f"{arguments} was taken")
            except BufferError:
                pass
        batch.__dlpack__(dl_device=(1, 0), copy=False, stream=None)
        batch.release()
        batch.release()
        raises(train.InvalidArgument, lambda: batch.info)
        raises(train.InvalidArgument, lambda: batch.__dlpack__())


def an_event_on_the_host_is_refused_and_the_batch_stays():
    class Event:
        cuda_event = 4096

    class Stream:
        def wait_event(self, event): ...
        def record_event(self): return Event()

    with pipeline(n_batch_slots=1) as loader:
        loader.push(map(sample, range(8)))
        batch = loader.pop()
        for event in (4096, Event(), Stream()):
            raises(train.Unsupported, lambda: batch.release(event=event))
            assert values(batch)[:EDGE ** 3] == voxels(0)
        batch.release(event=None)
        assert loader.pop().info.tags == [4, 5, 6, 7]


# ---- On a device --------------------------------------------------------------------------------

class Gpu:
    """The simulated driver, with device 0's primary context current."""
    def __init__(self):
        self.path = os.environ.get("SIMULATED_DRIVER")
        if not self.path:
            print("skipped: there is no simulated driver here")
            sys.exit(77)
        self.library, context = ctypes.CDLL(self.path), ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self("cuCtxSetCurrent", context)

    def __call__(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        assert code == 0, f"{name}: {code}"

    def made(self, name, *arguments):
        """A handle that the entry makes."""
        handle = ctypes.c_void_p()
        self(name, ctypes.byref(handle), *arguments)
        return handle.value

    def pipeline(self, **changes):
        return pipeline(**{**dict(backend="cuda", device=0, cuda_driver=self.path), **changes})

    def values(self, batch):
        floats = (ctypes.c_float * (batch.info.bytes // 4))()
        source = ctypes.c_uint64(batch.info.device_ptr)
        self("cuMemcpyDtoH_v2", floats, source, ctypes.c_size_t(batch.info.bytes))
        return list(floats)

    def found_nothing(self):
        text = ctypes.create_string_buffer(4096)
        findings = self.library.simcuda_findings
        findings.restype = ctypes.c_uint64
        assert findings(text, ctypes.c_size_t(4096)) == 0, text.value


class Event:
    """As torch's: the driver's event goes with the object."""
    def __init__(self, gpu, stream):
        self.gpu, self.cuda_event = gpu, gpu.made("cuEventCreate", 2)
        gpu("cuEventRecord", ctypes.c_void_p(self.cuda_event), ctypes.c_void_p(stream))

    def __del__(self):
        self.gpu("cuEventDestroy_v2", ctypes.c_void_p(self.cuda_event))


class Stream:
    def __init__(self, gpu):
        self.gpu, self.cuda_stream = gpu, gpu.made("cuStreamCreate", 1)

    def wait_event(self, event): ...
    def record_event(self): return Event(self.gpu, self.cuda_stream)


def device_tensor(capsule):
    """(data, device, shape, dtype) of a capsule that nobody took."""
    take = ctypes.pythonapi.PyCapsule_GetPointer
    take.restype, take.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    at = take(capsule, b"dltensor_versioned") + 32  # behind version, context, deleter and flags
    data = ctypes.c_uint64.from_address(at).value
    device = tuple((ctypes.c_int32 * 2).from_address(at + 8))
    rank = ctypes.c_int32.from_address(at + 16).value
    dtype = tuple((ctypes.c_uint8 * 4).from_address(at + 20))  # code, bits, lanes in two bytes
    shape = ctypes.c_void_p.from_address(at + 24).value
    return data, device, (ctypes.c_int64 * rank).from_address(shape)[:], dtype


def a_batch_on_a_device_says_so_and_its_tensor_too():
    gpu = Gpu()
    with gpu.pipeline() as loader:
        loader.push(map(sample, range(8)))
        with loader.pop() as batch:
            info = batch.info
            assert info.device == 0 and info.ready_stream != 0 and info.tags == [0, 1, 2, 3]
            assert gpu.values(batch) == sum(map(voxels, range(4)), [])
            assert batch.__dlpack_device__() == (2, 0)
            for stream in (None, 1, -1, info.ready_stream, Stream(gpu).cuda_stream):
                capsule = batch.__dlpack__(stream=stream, max_version=(1, 0))
                assert device_tensor(capsule) == (
                    info.device_ptr, (2, 0), [4, EDGE, EDGE, EDGE], (2, 32, 1, 0)), stream
                del capsule
        with loader.pop() as batch:
            assert gpu.values(batch) == sum(map(voxels, range(4, 8)), [])
    gpu.found_nothing()


def what_means_host_memory_is_refused_on_a_device():
    with Gpu().pipeline() as loader:
        loader.push(map(sample, range(4)))
        with loader.pop() as batch:
            for wrong in (batch.buffer, batch.numpy, lambda: batch.__dlpack__(dl_device=(1, 0))):
                try:
                    wrong()
                    raise AssertionError("it was taken")
                except (BufferError, ImportError):
                    pass


def a_device_batch_is_released_behind_events_and_streams():
    gpu = Gpu()
    stream = Stream(gpu)
    with gpu.pipeline(n_batch_slots=1, consumer_stream=stream) as loader:
        loader.push(map(sample, range(16)))
        event = Event(gpu, stream.cuda_stream)
        for first, event in zip(range(0, 16, 4), (None, event, event.cuda_event, stream)):
            batch = loader.pop()
            assert batch.info.tags[0] == first
            batch.release(event=event)
    gpu.found_nothing()


def a_driver_that_is_not_there_is_named():
    error = raises(train.NativeCudaError, lambda: pipeline(
        backend="cuda", cuda_driver="/nowhere/libcuda.so.1"))
    assert "/nowhere/libcuda.so.1" in str(error) and "backend = host" in str(error), error


# ---- The structs --------------------------------------------------------------------------------

def structs():
    """No fact: prints "struct.field offset size" and "sizeof struct size" for tests/ship/examples.rs."""
    for name, kind in vars(train).items():
        # Stats and Metric are other names of what is in the list as it is called in the header.
        if name.startswith("wavetrain_") and issubclass(kind, ctypes.Structure):
            for field, _ in kind._fields_:
                print(f"{name}.{field}", getattr(kind, field).offset, getattr(kind, field).size)
            print("sizeof", name, ctypes.sizeof(kind))
    for name, at in train.DELETER_AT.items():
        print("deleter", name.decode(), at)
    print("scratch", train.SCRATCH)
    for status in train.Status:
        print("status", status.name, status.value)
    for dtype in train.Dtype:
        print("dtype", dtype.name, dtype.value)


if __name__ == "__main__":
    main()
