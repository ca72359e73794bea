"""A file that is absent is data, the fill value. Everything else that keeps a file from being read
is an error, also where a file system calls it FileNotFoundError.

This file is over 500 lines because each kind of failure is tried with each kind of file system.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import threading
import time
import zipfile

import numpy
import pytest
from cubes import FILL, write_cube
from test_files import Folder, Ranges, serve

import wavetrain

fsspec = pytest.importorskip("fsspec", reason="there is no fsspec here")

ABSENT = [404, 410]
FAILED = [400, 401, 403, 408, 425, 429, 451, 500, 502, 503, 504]
SHAPE = (2, 8, 8)
CHUNK = "c/1/0/0"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """An array of two chunks, uncompressed: the second is the one that servers do not give."""
    folder = tmp_path_factory.mktemp("absence")
    data = numpy.arange(128, dtype="u1").reshape(SHAPE)
    plain = {"chunks": (1, 8, 8), "shards": None, "compressors": None, "fill_value": FILL}
    write_cube(folder / "a.zarr", data, **plain)
    return folder


def answering(answers):
    """A handler that answers (method or None, end of the path) with a status of `answers`, "drop",
    which ends the connection, or a body."""

    class Answers(Ranges):
        def answer(self):
            for (method, end), answer in answers.items():
                if method in (None, self.command) and self.path.endswith(end):
                    return answer
            return None

        def give(self, otherwise):
            answer = self.answer()
            if answer is None:
                return otherwise()
            if answer == "drop":
                return self.connection.close()
            status, body = (answer, b"no") if isinstance(answer, int) else (200, answer)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            return None if self.command == "HEAD" else self.wfile.write(body)

        def do_GET(self):
            return self.give(super().do_GET)

        def do_HEAD(self):
            return self.give(super().do_HEAD)

        def handle(self):
            with contextlib.suppress(OSError, ValueError):  # of a connection that was dropped
                super().handle()

    return Answers


@contextlib.contextmanager
def wrapped(kind, url, tmp_path):
    """A file system in front of the server, and the name of the array there."""
    pytest.importorskip("aiohttp", reason="fsspec needs aiohttp for http")
    fs = fsspec.filesystem("http", skip_instance_cache=True)
    if kind == "http":
        yield fs, f"{url}/a.zarr"
    elif kind == "dir":
        yield fsspec.filesystem("dir", fs=fs, path=url), "a.zarr"
    else:
        cache = str(tmp_path / "cache")
        yield fsspec.filesystem(kind, fs=fs, cache_storage=cache), f"{url}/a.zarr"


# fsspec leaves files of a blockcache open.
BLOCKS = pytest.param("blockcache", marks=pytest.mark.filterwarnings("ignore::Warning"))
KINDS = ["http", "dir", "simplecache", "filecache", BLOCKS]


@contextlib.contextmanager
def stream_of(pipeline, store, tmp_path, answers, kind="http"):
    with (
        serve(answering(answers), store) as url,
        wrapped(kind, url, tmp_path) as (fs, name),
    ):
        stream = pipeline(sample_shape=SHAPE, samples_per_batch=1, files=wavetrain.fsspec(fs))
        stream.push([wavetrain.Sample(name, numpy.s_[0:2, 0:8, 0:8])])
        try:
            yield stream
        finally:
            stream.close()


def check_error(stream, match, kind=wavetrain.StorageError):
    with pytest.raises(kind, match=match):
        stream.pop()


def check_fill(stream):
    with stream.pop() as batch:
        found = batch.numpy()[0]
    numpy.testing.assert_array_equal(found[0], numpy.arange(64).reshape(8, 8))
    assert (found[1] == FILL).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", ABSENT)
def test_a_chunk_is_absent_where_the_server_says_so(pipeline, store, tmp_path, status, kind):
    with stream_of(pipeline, store, tmp_path, {(None, CHUNK): status}, kind) as stream:
        check_fill(stream)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [*FAILED, "drop"])
def test_a_chunk_that_a_server_does_not_give_is_an_error(pipeline, store, tmp_path, status, kind):
    with stream_of(pipeline, store, tmp_path, {(None, CHUNK): status}, kind) as stream:
        with pytest.raises(wavetrain.StorageError) as caught:
            stream.pop()
        assert CHUNK in str(caught.value)
        if status != "drop":
            assert str(status) in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["zarr.json", ".zarray"])
def test_metadata_that_a_server_does_not_give_is_an_error(pipeline, store, tmp_path, end, kind):
    answers = {(None, "zarr.json"): 404, (None, end): 503}
    with stream_of(pipeline, store, tmp_path, answers, kind) as stream:
        check_error(stream, "503")


@pytest.mark.parametrize(
    ("head", "get", "is_absent"),
    [(404, 404, True), (503, 404, True), (405, 410, True), (404, 503, False), (403, 403, False)],
)
def test_what_get_says_counts_and_not_what_head_says(
    pipeline, store, tmp_path, head, get, is_absent
):
    answers = {("HEAD", CHUNK): head, ("GET", CHUNK): get}
    with stream_of(pipeline, store, tmp_path, answers) as stream:
        if is_absent:
            check_fill(stream)
        else:
            check_error(stream, str(get))


def test_a_server_that_refuses_head_is_read(pipeline, store, tmp_path):
    with stream_of(pipeline, store, tmp_path, {("HEAD", ""): 405}) as stream:
        found = stream.pop().numpy()
        numpy.testing.assert_array_equal(found.ravel(), numpy.arange(128))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [404, 410, 403, 503])
def test_a_file_that_has_a_size_and_is_not_given_is_no_absent_one(
    pipeline, store, tmp_path, status, kind
):
    with stream_of(pipeline, store, tmp_path, {("GET", CHUNK): status}, kind) as stream:
        check_error(stream, CHUNK)


@pytest.mark.parametrize(
    ("kind", "is_lonely"), [("http", False), pytest.param(*BLOCKS.values, True, marks=BLOCKS.marks)]
)
def test_a_blockcache_is_used_by_one_thread_at_a_time(pipeline, store, tmp_path, kind, is_lonely):
    """Another thread would bring back the blocks of a read that failed: the next gave zeros."""
    inside, most = set(), []

    class Slow(Ranges):
        def do_GET(self):
            inside.add(self)
            most.append(len(inside))
            time.sleep(0.2 if "/c/" in self.path else 0)
            super().do_GET()
            inside.remove(self)

    with serve(Slow, store) as url, wrapped(kind, url, tmp_path) as (fs, name):
        stream = pipeline(sample_shape=SHAPE, samples_per_batch=1, files=wavetrain.fsspec(fs))
        stream.push([wavetrain.Sample(name, numpy.s_[0:2, 0:8, 0:8])])
        found = stream.pop().numpy()
        numpy.testing.assert_array_equal(found.ravel(), numpy.arange(128))
        stream.close()
    assert (max(most) == 1) == is_lonely


@pytest.mark.parametrize("body", [b"", b"short", bytes(63), bytes(65)])
def test_a_body_of_another_size_is_an_error(pipeline, store, tmp_path, body):
    with stream_of(pipeline, store, tmp_path, {(None, CHUNK): body}) as stream:
        check_error(stream, CHUNK, wavetrain.WavetrainError)


@pytest.mark.parametrize("status", [404, 403, 503])
def test_what_s3_says_is_told_apart(pipeline, store, status):
    s3fs = pytest.importorskip("s3fs", reason="there is no s3fs here")

    class Bucket(answering({(None, CHUNK): status})):
        def do_GET(self):
            if "list-type=2" not in self.path:
                return super().do_GET()
            body = (
                b'<?xml version="1.0"?><ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>'
            )
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            return self.wfile.write(body)

    with serve(Bucket, store.parent) as url:
        fs = s3fs.S3FileSystem(
            anon=True,
            endpoint_url=url,
            config_kwargs={"retries": {"max_attempts": 0}},
            skip_instance_cache=True,
        )
        fs.retries = 1
        stream = pipeline(sample_shape=SHAPE, samples_per_batch=1, files=wavetrain.fsspec(fs))
        name = f"s3://{store.name}/a.zarr"
        stream.push([wavetrain.Sample(name, numpy.s_[0:2, 0:8, 0:8])])
        if status == 404:
            check_fill(stream)
        else:
            check_error(stream, CHUNK)
        stream.close()


@pytest.mark.parametrize("answer", [None, 404, 503])
def test_a_reference_to_what_is_gone_is_an_error(pipeline, store, tmp_path, answer):
    """And a key that has none is absent."""
    pytest.importorskip("aiohttp", reason="fsspec needs aiohttp for http")
    with serve(answering({(None, CHUNK): answer} if answer else {}), store) as url:
        references = {
            "zarr.json": (store / "a.zarr" / "zarr.json").read_text(),
            "c/0/0/0": [f"{url}/a.zarr/c/0/0/0"],
            CHUNK: [f"{url}/a.zarr/{CHUNK}"],
        }
        if answer is None:
            del references[CHUNK]
        named = {f"a.zarr/{key}": value for key, value in references.items()}
        fs = fsspec.filesystem("reference", fo=named, remote_protocol="http", remote_options={})
        stream = pipeline(sample_shape=SHAPE, samples_per_batch=1, files=wavetrain.fsspec(fs))
        stream.push([wavetrain.Sample("a.zarr", numpy.s_[0:2, 0:8, 0:8])])
        if answer is None:
            check_fill(stream)
        else:
            check_error(stream, CHUNK)
        stream.close()


class Elsewhere(fsspec.spec.AbstractFileSystem):
    """A file system that nobody looked at: `info` and `cat_file` raise what they are told to, for
    the second chunk, and others are those of a folder."""

    cachable = False

    def __init__(self, info, read):
        super().__init__()
        self.raised = {"info": info, "read": read}
        self.local = fsspec.filesystem("file")

    def fail(self, name, what):
        error = self.raised[what]
        if name.endswith(CHUNK) and error is not None:
            raise error() if isinstance(error, type) else error

    def info(self, path, **_):  # which `size` asks
        self.fail(path, "info")
        return self.local.info(path)

    def cat_file(self, path, start=None, end=None, **_):
        self.fail(path, "read")
        return self.local.cat_file(path, start, end)


class Reply(Exception):
    """As requests, urllib, botocore and azure have a status."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def caused(by, *arguments, error=FileNotFoundError):
    made = error(*arguments)
    made.__cause__ = by
    return made


def within(by):
    """Raised where another was handled."""
    made = FileNotFoundError("c")
    made.__context__ = by
    return made


class Response:
    def __init__(self, status):
        self.status_code = status


BOTO = {"ResponseMetadata": {"HTTPStatusCode": 404}, "Error": {"Code": "404"}}
BOTO_503 = {"ResponseMetadata": {"HTTPStatusCode": 503}, "Error": {"Code": "SlowDown"}}
NO_BUCKET = {"ResponseMetadata": {"HTTPStatusCode": 404}, "Error": {"Code": "NoSuchBucket"}}
SURE = [
    FileNotFoundError("c"),
    FileNotFoundError(errno.ENOENT, "no", "c"),
    caused(KeyError("c")),
    within(KeyError("c")),
    caused(caused(KeyError("c"))),
    caused(Reply(status=404), "c"),
    caused(Reply(status_code=410), "c"),
    caused(Reply(code=404), "c"),
    caused(Reply(code="404", response=Response(404)), "c"),
    caused(Reply(response=BOTO), "c"),
    caused(Reply(), errno.ENOENT, "no", "c"),  # which says so itself: of sshfs, webdav4
    caused(OSError("path does not exist"), errno.ENOENT, "no", "c"),  # of arrow
]
UNSURE = [
    caused(Reply(status=500), "c"),
    caused(Reply(status=403), "c"),
    caused(Reply(status=500), errno.ENOENT, "no", "c"),
    within(Reply(status=503)),
    caused(caused(Reply(status=503))),
    caused(Reply(code=401), "c"),
    caused(Reply(response=Response(403)), "c"),
    caused(Reply(response=BOTO_503), "c"),
    caused(Reply(response=NO_BUCKET), "c"),
    caused(Reply(), "c"),
    caused(StopIteration(), "c"),  # of a listing of FTP that may have failed
    caused(PermissionError("c"), "c"),
    caused(PermissionError("c"), errno.ENOENT, "no", "c"),
    caused(ConnectionResetError("c"), "c"),
    caused(TimeoutError("c"), "c"),
    caused(ValueError("no number"), "c"),
]


def stream_elsewhere(pipeline, store, info, read):
    files = wavetrain.fsspec(Elsewhere(info, read))
    stream = pipeline(sample_shape=SHAPE, samples_per_batch=1, files=files)
    stream.push([wavetrain.Sample(store / "a.zarr", numpy.s_[0:2, 0:8, 0:8])])
    return stream


@pytest.mark.parametrize("error", SURE, ids=repr)
def test_a_sure_sign_of_absence(pipeline, store, error):
    check_fill(stream_elsewhere(pipeline, store, error, error))


@pytest.mark.parametrize("error", UNSURE, ids=repr)
def test_no_sign_of_absence(pipeline, store, error):
    with pytest.raises(wavetrain.StorageError, match=CHUNK):
        stream_elsewhere(pipeline, store, error, error).pop()


@pytest.mark.parametrize(
    ("info", "read"),
    [
        (FileNotFoundError, PermissionError),  # of ossfs, whose info drops both refusals
        (FileNotFoundError, ConnectionError),
        (FileNotFoundError, None),
        (None, FileNotFoundError),  # of caches, whose open asks `exists`, which drops any
    ],
)
def test_info_and_read_that_disagree_are_an_error(pipeline, store, info, read):
    with pytest.raises(wavetrain.StorageError, match=CHUNK):
        stream_elsewhere(pipeline, store, info, read).pop()


def test_a_folder_in_the_place_of_a_chunk_is_an_error(pipeline):
    fs = fsspec.filesystem("memory")
    data = numpy.arange(128, dtype="u1").reshape(SHAPE)
    plain = {"chunks": (1, 8, 8), "shards": None, "compressors": None, "fill_value": FILL}
    zarr = pytest.importorskip("zarr", reason="there is no zarr-python here")
    write_cube(zarr.storage.FsspecStore.from_url("memory://folders.zarr"), data, **plain)
    fs.rm(f"/folders.zarr/{CHUNK}")
    fs.pipe(f"/folders.zarr/{CHUNK}/0", b"")
    stream = pipeline(sample_shape=SHAPE, samples_per_batch=1, files=wavetrain.fsspec(fs))
    stream.push([wavetrain.Sample("memory://folders.zarr", numpy.s_[0:2, 0:8, 0:8])])
    with pytest.raises(wavetrain.WavetrainError, match=CHUNK) as caught:
        stream.pop()
    assert isinstance(caught.value, (wavetrain.StorageError, wavetrain.DecodeError))


@pytest.mark.parametrize("kind", ["zip", "dir"])
def test_threads_that_open_an_archive_at_once_find_all_of_it(pipeline, store, tmp_path, kind):
    """zip makes its table while others look into it."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for path in (store / "a.zarr").rglob("*"):
            archive.write(path, path.relative_to(store))
    for _ in range(3):
        found, threads = [], []
        fs = fsspec.filesystem("zip", fo=str(tmp_path / "a.zip"), skip_instance_cache=True)
        inner = fs.zip.infolist

        class Slow(list):
            def __iter__(self):
                for each in super().__iter__():
                    time.sleep(0.02)
                    yield each

        fs.zip.infolist = lambda inner=inner, Slow=Slow: Slow(inner())
        name = f"a.zarr/{CHUNK}" if kind == "zip" else CHUNK
        outer = fs if kind == "zip" else fsspec.filesystem("dir", fs=fs, path="a.zarr")
        files = wavetrain.fsspec(outer)
        for _ in range(8):
            ask = functools.partial(lambda files, name, to: to.append(files.size(name)), files)
            threads.append(threading.Thread(target=ask, args=(name, found)))
            threads[-1].start()
            time.sleep(0.005)
        for thread in threads:
            thread.join()
        assert found == [64] * 8
        fs.zip.close()


@pytest.mark.parametrize("kind", KINDS)
def test_threads_that_read_a_file_at_once_get_all_of_it(tmp_path, kind):
    """A cache of fsspec is filled by the first one while the others find it there."""
    body = bytes(range(1, 251)) * 40

    class Slow(Ranges):
        def do_GET(self):
            first, last = 0, len(body) - 1
            if asked := self.headers.get("Range"):
                first, last = map(int, asked.removeprefix("bytes=").split("-"))
            part = body[first : last + 1]
            self.send_response(206 if asked else 200)
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(part[: len(part) // 2])
                self.wfile.flush()
                time.sleep(0.1)
                self.wfile.write(part[len(part) // 2 :])

        do_HEAD = do_GET

    found, threads = [], []
    with serve(Slow, tmp_path) as url, wrapped(kind, url, tmp_path) as (fs, name):
        files = wavetrain.fsspec(fs)

        def read(begin):
            target = bytearray(5000)
            files.read(f"{name}/c", begin, memoryview(target))
            found.append((begin, bytes(target)))

        for number in range(6):
            threads.append(threading.Thread(target=read, args=(number % 2 * 5000,)))
            threads[-1].start()
            time.sleep(0.03)
        for thread in threads:
            thread.join()
    assert len(found) == 6
    assert all(data == body[begin : begin + 5000] for begin, data in found)


# ---- Files of the program's own ---------------------------------------------------------------


def own(pipeline, store, error):
    def fail(name):
        if name.endswith(CHUNK):
            raise error

    files = Folder(fail)
    files.size = lambda name: fail(name) or os.stat(name).st_size
    stream = pipeline(sample_shape=SHAPE, samples_per_batch=1, files=files)
    stream.push([wavetrain.Sample(store / "a.zarr", numpy.s_[0:2, 0:8, 0:8])])
    return stream


@pytest.mark.parametrize("error", [*SURE, caused(Reply(), "c"), caused(StopIteration())], ids=repr)
def test_files_that_say_absent_are_believed(pipeline, store, error):
    check_fill(own(pipeline, store, error))


@pytest.mark.parametrize(
    "error",
    [
        caused(PermissionError("no right"), "c"),
        within(PermissionError("no right")),
        caused(ConnectionError("reset"), "c"),
        caused(TimeoutError("late"), "c"),
        caused(OSError(errno.EIO, "disk"), "c"),
        caused(Reply(status=403), "c"),
        caused(Reply(response=Response(503)), "c"),
    ],
    ids=repr,
)
def test_files_whose_absence_was_another_failure_are_not(pipeline, store, error):
    with pytest.raises(wavetrain.StorageError, match=CHUNK) as caught:
        own(pipeline, store, error).pop()
    assert caught.value.__cause__.__cause__ is error
    assert "need not be absent" in str(caught.value)


def test_what_the_caller_handles_is_no_cause_of_absence(store):
    class Files(Folder):
        def size(self, name):
            raise FileNotFoundError(name)

    for files in (Files(), wavetrain.fsspec(fsspec.filesystem("file"))):
        try:
            raise PermissionError("of the caller")
        except PermissionError:
            with pytest.raises(wavetrain.NotFound):
                wavetrain.array_info("/nowhere/a.zarr", files=files)


@pytest.mark.parametrize("error", [caused(PermissionError("no")), caused(Reply(status=503))])
def test_elements_whose_absence_was_another_failure_are_an_error(pipeline, error):
    class Arrays:
        def describe(self, name):
            if name == "none":
                raise error
            return wavetrain.SourceInfo((8,), "u8", fill=FILL)

        def read(self, name, start, shape):
            raise error

    stream = pipeline(sample_shape=(8,), samples_per_batch=1, source=Arrays())
    for name in ("none", "a"):
        stream.push([wavetrain.Sample(f"hook:{name}", [(0, 8)])])
        with pytest.raises(wavetrain.StorageError) as caught:
            stream.pop()
        assert caught.value.__cause__.__cause__ is error
        stream.reset()
