"""Files that Python serves, and what goes wrong in them."""

from __future__ import annotations

import contextlib
import functools
import http.server
import logging
import os
import pathlib
import threading
import zipfile

import numpy
import pytest
from cubes import Cube, box, run_program, write_cube

import wavetrain


class Folder:
    """Files of a folder, served by name; what `change` says comes first."""

    def __init__(self, change=None):
        self.change = change or (lambda name: None)

    def size(self, name):
        return os.stat(name).st_size

    def read(self, name, offset, target):
        self.change(name)
        with open(name, "rb") as file:
            file.seek(offset)
            target[:] = file.read(len(target))


def is_chunk(name):
    return not name.endswith("zarr.json")


def check(stream, uri, *numbers):
    """Boxes of the cube at the uri arrive."""
    stream.push(wavetrain.Sample(uri, box(number), number) for number in numbers)
    for batch in stream.batches():
        with batch:
            numpy.testing.assert_array_equal(batch.numpy(), Cube("").holds(*batch.info.tags))


@pytest.fixture
def fsspec():
    return pytest.importorskip("fsspec", reason="there is no fsspec here")


def test_a_local_file_system_of_fsspec(fsspec, cube, pipeline):
    files = wavetrain.fsspec(fsspec.filesystem("file"))
    assert repr(files) == "wavetrain.fsspec(LocalFileSystem)"
    check(pipeline(files=files), cube, *range(12))
    assert wavetrain.array_info(cube, files=files).shape == (64, 64, 64)


def test_memory_of_fsspec(fsspec, cube, pipeline):
    fs = fsspec.filesystem("memory")
    fs.put(cube, "/in-memory.zarr", recursive=True)
    check(pipeline(files=wavetrain.fsspec(fs)), "memory://in-memory.zarr", *range(12))
    check(pipeline(files=wavetrain.fsspec(fs)), "/in-memory.zarr", *range(12))
    info = wavetrain.array_info("memory://in-memory.zarr", files=wavetrain.fsspec(fs))
    assert info.shape == (64, 64, 64)


def test_a_zip_of_fsspec(fsspec, cube, pipeline, tmp_path):
    with zipfile.ZipFile(tmp_path / "cube.zip", "w") as archive:
        for path in pathlib.Path(cube).rglob("*"):
            archive.write(path, path.relative_to(cube.rpartition("/")[0]))
    fs = fsspec.filesystem("zip", fo=str(tmp_path / "cube.zip"))
    with contextlib.closing(fs):
        check(pipeline(files=wavetrain.fsspec(fs), fit=["cube.zarr"]), "cube.zarr", *range(12))


def test_members_of_a_zip_in_a_cache_are_read_by_one_thread_at_a_time(fsspec, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a", b"bytes")
    inner = fsspec.filesystem("zip", fo=str(tmp_path / "a.zip"))
    cache = fsspec.filesystem("simplecache", fs=inner, cache_storage=str(tmp_path / "cache"))
    with contextlib.closing(inner):
        assert wavetrain.fsspec(inner).is_lonely and wavetrain.fsspec(cache).is_lonely


class Ranges(http.server.SimpleHTTPRequestHandler):
    """Answers with the part of the file that is asked for."""

    is_whole = False

    def log_message(self, *_): ...

    def do_GET(self):
        asked = self.headers.get("Range")
        path = self.translate_path(self.path)
        if self.is_whole or not asked or not os.path.isfile(path):
            return super().do_GET()
        first, last = asked.removeprefix("bytes=").split("-")
        data = pathlib.Path(path).read_bytes()[int(first) : int(last) + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        return self.wfile.write(data)


class Whole(Ranges):
    is_whole = True


@contextlib.contextmanager
def serve(handler, folder):
    made = functools.partial(handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), made) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def http_files(fsspec):
    pytest.importorskip("aiohttp", reason="fsspec needs aiohttp for http")
    return wavetrain.fsspec(fsspec.filesystem("http", skip_instance_cache=True))


def test_an_http_server_with_ranges(http_files, cube, pipeline):
    folder, _, name = cube.rpartition("/")
    with serve(Ranges, folder) as url:
        check(pipeline(files=http_files), f"{url}/{name}", *range(8))


def test_an_http_server_without_ranges_is_right_and_a_warning_says_so(
    http_files, cube, pipeline, caplog
):
    folder, _, name = cube.rpartition("/")
    with serve(Whole, folder) as url, caplog.at_level(logging.WARNING, "wavetrain"):
        check(pipeline(files=http_files), f"{url}/{name}", *range(8))
    assert "the server ignores ranges" in caplog.text


def test_an_array_of_zarr_is_a_uri(fsspec, cube, pipeline):
    zarr = pytest.importorskip("zarr", reason="there is no zarr-python here")
    array = zarr.open_array(cube, mode="r")
    assert wavetrain.Sample(array, []).uri == cube
    check(pipeline(), array, *range(4))
    fs = fsspec.filesystem("memory", asynchronous=False)
    fs.put(cube, "/zarr-store/deep.zarr", recursive=True)
    store = zarr.storage.FsspecStore.from_url("memory://zarr-store", read_only=True)
    array = zarr.open_array(store, path="deep.zarr", mode="r")
    assert wavetrain.Sample(array, []).uri == "memory:///zarr-store/deep.zarr"
    check(pipeline(files=wavetrain.fsspec(fs)), array, *range(4))


def test_any_object_with_size_and_read(cube, pipeline):
    files = Folder()
    assert isinstance(files, wavetrain.Files)
    check(pipeline(files=files), cube, *range(12))
    for wrong in (5, object(), "s3://bucket"):
        with pytest.raises(TypeError, match=r"^files must have size\(name\)"):
            pipeline(files=wrong)
    with pytest.raises(TypeError, match=r"^fs must be a file system of fsspec"):
        wavetrain.fsspec(object())


def test_files_of_a_scheme_of_their_own(cube, pipeline):
    class Scheme(Folder):
        def path(self, name):
            assert name.startswith("own://"), name
            return cube.rpartition("/")[0] + "/" + name.removeprefix("own://")

        def size(self, name):
            return super().size(self.path(name))

        def read(self, name, offset, target):
            return super().read(self.path(name), offset, target)

    check(pipeline(files=Scheme()), "own://cube.zarr", *range(8))


def test_a_chunk_that_is_not_found_is_the_fill_value(cube, pipeline):
    def no_chunks(name):
        if is_chunk(name):
            raise FileNotFoundError(name)

    files = Folder(no_chunks)
    files.size = lambda name: no_chunks(name) or os.stat(name).st_size
    stream = pipeline(files=files)
    stream.push(cube.samples(4))
    assert (stream.pop().numpy() == 42).all()
    with pytest.raises(wavetrain.NotFound):
        wavetrain.array_info("nowhere", files=files)


class Odd(Exception):
    def __str__(self):
        raise ValueError("it has no text")


KINDS = [OSError, ValueError, MemoryError, KeyboardInterrupt, SystemExit, StopIteration, Odd]
KINDS += [GeneratorExit, RecursionError, TimeoutError, PermissionError, AssertionError]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["chunks", "metadata"])
def test_what_a_file_raises_is_the_cause_of_a_storage_error(cube, pipeline, kind, place):
    def fail(name):
        if is_chunk(name) == (place == "chunks"):
            raise kind("the bucket")

    stream = pipeline(files=Folder(fail))
    stream.push(cube.samples(4))
    with pytest.raises(wavetrain.StorageError, match="cube") as caught:
        stream.pop()
    assert type(caught.value.__cause__) is kind
    said = kind.__name__ if kind is Odd else f"{kind.__name__}: the bucket"
    assert str(caught.value).endswith(f"({said})"), caught.value
    for call in (stream.flush, lambda: stream.push(cube.samples(1))):
        with pytest.raises(wavetrain.StorageError) as caught:
            call()
        assert type(caught.value.__cause__) is kind


@pytest.mark.parametrize("kind", [OSError, ValueError, MemoryError])
def test_what_a_file_raises_is_the_cause_where_no_stream_is(cube, pipeline, kind):
    def fail(name):
        raise kind("the bucket")

    files = Folder(fail)
    for call in (
        lambda: wavetrain.array_info(cube, files=files),
        lambda: pipeline(files=files, fit=[cube]),
    ):
        with pytest.raises(wavetrain.StorageError) as caught:
            call()
        assert type(caught.value.__cause__) is kind


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_on_the_callers_own_thread_is_the_callers(cube, pipeline, kind):
    def fail(name):
        raise kind

    files = Folder(fail)
    with pytest.raises(kind):
        wavetrain.array_info(cube, files=files)
    with pytest.raises(kind):
        pipeline(files=files, fit=[cube])


def test_the_cause_is_that_of_the_file_that_is_named(cube, pipeline, tmp_path):
    write_cube(tmp_path / "a", numpy.ones(24, "u1"), chunks=(1,), shards=None)
    stream = pipeline(
        sample_shape=(1,),
        samples_per_batch=1,
        files=Folder(lambda name: is_chunk(name) and int("x" + name.rpartition("/")[2])),
        on_error="fail",
    )
    for number in (1, 11, 2, 21):
        stream.push([wavetrain.Sample(tmp_path / "a", [(number, number + 1)])])
        with pytest.raises(wavetrain.StorageError) as caught:
            stream.pop()
        assert f"'x{number}'" in str(caught.value.__cause__)
        stream.reset()


@pytest.mark.parametrize("size", [-1, 2**63, 2**64, 1.5, None, "9", True, object()])
def test_a_size_that_is_none_is_a_storage_error(cube, pipeline, size):
    files = Folder()
    files.size = lambda name: size
    stream = pipeline(files=files)
    stream.push(cube.samples(4))
    with pytest.raises(wavetrain.StorageError) as caught:
        stream.pop()
    assert isinstance(caught.value.__cause__, (TypeError, ValueError))
    assert "size of" in str(caught.value.__cause__)


@pytest.mark.parametrize("by", [-5, 5, 2**40, 2**62])
def test_a_size_that_lies_is_an_error_and_never_wrong_data(cube, pipeline, by):
    files = Folder()
    files.size = lambda name: max(0, os.stat(name).st_size + (by if is_chunk(name) else 0))
    stream = pipeline(files=files)
    stream.push(cube.samples(4))
    try:
        with stream.pop() as batch:
            numpy.testing.assert_array_equal(batch.numpy(), cube.holds(*batch.info.tags))
    except (wavetrain.StorageError, wavetrain.DecodeError) as error:
        assert "cube" in str(error)


def test_a_read_of_another_size_is_an_error(cube, pipeline):
    class Short(Folder):
        def read(self, name, offset, target):
            target[:] = b"short"

    stream = pipeline(files=Short())
    stream.push(cube.samples(4))
    with pytest.raises(wavetrain.StorageError) as caught:
        stream.pop()
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("got", [0, 1, -1, 2**40])
def test_a_read_that_says_how_little_it_got_is_an_error(cube, pipeline, got):
    """As readinto does: the rest of the target is what was there before."""

    class Short(Folder):
        def read(self, name, offset, target):
            return got

    stream = pipeline(files=Short())
    stream.push(cube.samples(4))
    with pytest.raises(wavetrain.StorageError, match=f"gave {got} bytes"):
        stream.pop()


def test_what_readinto_returns_may_be_returned(cube, pipeline):
    class Whole(Folder):
        def read(self, name, offset, target):
            with open(name, "rb") as file:
                file.seek(offset)
                return file.readinto(target)

    check(pipeline(files=Whole()), cube, *range(12))


def test_reads_overlap(cube, pipeline):
    four, lock, inside = threading.Event(), threading.Lock(), []

    def meet(name):
        if is_chunk(name):
            with lock:
                inside.append(name)
            if len(inside) >= 4:  # nobody left before
                four.set()
            assert four.wait(20), "no four reads were in flight at a time"

    stream = pipeline(files=Folder(meet), n_io_threads=4, samples_per_batch=16)
    stream.push(cube.samples(16))
    with stream.pop() as batch:
        numpy.testing.assert_array_equal(batch.numpy(), cube.holds(*range(16)))
    assert stream.stats().reads_issued >= 4


def reading(cube, pipeline):
    """A stream whose reads are in flight, and the event of their end, 0.3 s from now."""
    begun, go_on = threading.Event(), threading.Event()

    def wait(name):
        if is_chunk(name):
            begun.set()
            go_on.wait(20)

    stream = pipeline(files=Folder(wait))
    stream.push(cube.samples(16))
    begun.wait()
    threading.Timer(0.3, go_on.set).start()
    return stream, go_on


def test_a_pipeline_closes_with_reads_in_flight(cube, pipeline):
    stream, go_on = reading(cube, pipeline)
    stream.close()
    assert go_on.is_set() and stream._open.handle == 0
    assert not [each for each in threading.enumerate() if each.name.startswith("wavetrain-files")]


def test_reset_with_reads_in_flight_goes_on(cube, pipeline):
    stream, _ = reading(cube, pipeline)
    stream.reset()
    check(stream, cube, *range(20, 32))


def test_the_interpreter_ends_cleanly_with_files_in_flight(cube):
    program = """
    import sys, time, wavetrain
    from cubes import Cube, config
    from test_files import Folder
    import fsspec
    cube, kind = Cube(sys.argv[1]), sys.argv[2]
    files = Folder(lambda name: time.sleep(0.3))
    if kind == "fsspec":
        files = wavetrain.fsspec(fsspec.filesystem("file"))
        inner = files.fs.cat_file
        files.fs.cat_file = lambda *a, **k: (time.sleep(0.3), inner(*a, **k))[1]
    stream = wavetrain.Pipeline(config(), files=files)
    stream.push(cube.samples(16))
    time.sleep(0.5)
    sys.modules["kept"] = stream
    print("end")
    """
    pytest.importorskip("fsspec", reason="there is no fsspec here")
    for kind in ("own", "fsspec"):
        done = run_program(program, cube, kind)
        assert done.stdout == "end\n"
        lines = [line for line in done.stderr.splitlines() if not line.startswith("close: reads")]
        assert not lines or lines[-1].startswith("ResourceWarning: unclosed <Pipeline"), lines
        assert len(lines) <= 4, lines


@pytest.mark.parametrize("retries_itself", [False, True])
def test_files_that_make_requests_again_themselves_are_asked_once(cube, pipeline, retries_itself):
    asked = []

    def fail_once(name):
        asked.append(name)
        if not is_chunk(name) and asked.count(name) == 1:
            raise OSError("busy")

    files = Folder(fail_once)
    files.retries_itself = retries_itself
    stream = pipeline(files=files, samples_per_batch=1)
    stream.push([cube.sample(0)])
    if retries_itself:
        with pytest.raises(wavetrain.StorageError, match="busy"):
            stream.pop()
    else:
        stream.pop().release()
    assert asked.count(f"{cube}/zarr.json") == 2 - retries_itself


def test_whether_files_make_requests_again_is_true_or_false(pipeline):
    files = Folder()
    files.retries_itself = "yes"
    with pytest.raises(TypeError, match=r"files\.retries_itself must be True or False"):
        pipeline(files=files)
