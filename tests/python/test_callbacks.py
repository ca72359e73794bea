"""No exception leaves a function that C calls: its result would be undefined, and could read as
success, as a size of 0 or as absence."""

from __future__ import annotations

import ctypes
import logging
import re
import sys
from pathlib import Path

import numpy
import pytest
from cubes import ROOT
from test_files import Folder, is_chunk

import wavetrain
from wavetrain import _batch, _callbacks, _log, _native

KINDS = [ValueError, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit, RecursionError]


@pytest.fixture
def unraisable(monkeypatch):
    """Exceptions that were reported because nobody could raise them."""
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: seen.append(args.exc_value))
    return seen


class Raises(logging.Filter):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def filter(self, record):
        raise self.kind("of a filter")


@pytest.fixture
def failing_log(request, unraisable):
    """Loggers of the package whose filter raises."""
    wrong, added = Raises(request.param), []
    for name in ("wavetrain", "wavetrain.files", "wavetrain.arrays"):
        logger = logging.getLogger(name)
        added.append((logger, logger.level))
        logger.setLevel(logging.DEBUG)
        logger.addFilter(wrong)
    yield request.param
    for logger, level in added:
        logger.removeFilter(wrong)
        logger.setLevel(level)


def test_all_functions_that_c_calls_are_made_by_the_one_wrapper():
    direct = re.compile(r"Hook_\w+\(|FUNCTYPE\([^)]*\)\(|DELETER\(")
    for path in (ROOT / "python" / "wavetrain").glob("*.py"):
        for line in path.read_text().splitlines():
            assert not direct.search(line), f"{path.name}: {line}"
    assert Path(_callbacks.__file__).exists()


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_call_raises_is_its_failure_and_is_reported(unraisable, kind):
    def fail(*_):
        raise kind("inside")

    size = _callbacks.callback(_native.FilesHook_size, fail, _native.FILE_FAILED)
    read = _callbacks.callback(_native.FilesHook_read, fail, _native.FILE_FAILED)
    log = _callbacks.callback(_native.LogHook_log, fail)
    for _ in range(3):  # memory of a result that was not written would differ
        assert size(None, b"a") == _native.FILE_FAILED
        assert read(None, b"a", 0, None, 0) == _native.FILE_FAILED
        assert log(None, 0, 0, b"", 0) is None
    assert [type(each) for each in unraisable] == [kind] * 9


@pytest.mark.parametrize("result", [None, "0", 1.5, object()])
def test_what_is_no_number_is_a_failure(unraisable, result):
    size = _callbacks.callback(_native.FilesHook_size, lambda *_: result, _native.FILE_FAILED)
    assert size(None, b"a") == _native.FILE_FAILED
    assert len(unraisable) == 1


def test_a_report_that_fails_changes_nothing(monkeypatch):
    def fail(*_):
        raise SystemExit("again")

    monkeypatch.setattr(sys, "unraisablehook", fail)
    size = _callbacks.callback(_native.FilesHook_size, fail, _native.FILE_FAILED)
    assert size(None, b"a") == _native.FILE_FAILED


def test_a_name_that_is_no_text_is_a_failure(cube, pipeline, unraisable):
    hook = pipeline(files=Folder())._open.hook
    size, read, _ = hook.calls
    assert size(None, b"\xff\xfe") == _native.FILE_FAILED
    target = ctypes.create_string_buffer(8)
    assert read(None, b"\xff\xfe", 0, ctypes.addressof(target), 8) == _native.FILE_FAILED
    assert len(unraisable) == 2


@pytest.mark.parametrize("failing_log", KINDS, indirect=True)
@pytest.mark.parametrize("place", ["chunks", "metadata"])
def test_files_that_fail_and_whose_log_fails_are_an_error(cube, pipeline, failing_log, place):
    def fail(name):
        if is_chunk(name) == (place == "chunks"):
            raise OSError("the bucket")

    stream = pipeline(files=Folder(fail))
    stream.push(cube.samples(4))
    with pytest.raises(wavetrain.StorageError, match="the bucket"):
        stream.pop()


@pytest.mark.parametrize("failing_log", KINDS, indirect=True)
@pytest.mark.parametrize("place", ["describe", "read"])
def test_sources_that_fail_and_whose_log_fails_are_an_error(pipeline, failing_log, place):
    class Arrays:
        def describe(self, name):
            if place == "describe":
                raise OSError("the table")
            return wavetrain.SourceInfo((8,), "u8", fill=1)

        def read(self, name, start, shape):
            raise OSError("the table")

    stream = pipeline(sample_shape=(8,), samples_per_batch=1, source=Arrays())
    stream.push([wavetrain.Sample("hook:a", [(0, 8)])])
    with pytest.raises(wavetrain.StorageError, match="the table"):
        stream.pop()


@pytest.mark.parametrize("failing_log", KINDS, indirect=True)
def test_a_log_that_fails_stops_no_stream(cube, pipeline, failing_log, unraisable):
    stream = pipeline()
    stream.push(cube.samples(4))
    with stream.pop() as batch:
        numpy.testing.assert_array_equal(batch.numpy(), cube.holds(*range(4)))
    stream.close()
    _log.HOOK(None, wavetrain.LOG_WARN, 0, b"a line", 6)
    assert failing_log in {type(each) for each in unraisable}


def test_a_line_goes_to_the_logger_where_stderr_is_closed(unraisable, caplog, monkeypatch):
    class Closed:
        def write(self, text):
            raise ValueError("I/O operation on closed file")

    monkeypatch.setattr(sys, "stderr", Closed())
    monkeypatch.setattr(_log.Sink, "is_quiet", False)
    with caplog.at_level(logging.WARNING, "wavetrain"):
        _log.HOOK(None, wavetrain.LOG_WARN, 0, b"a line", 6)
    assert "a line" in caplog.text and len(unraisable) == 1


def test_a_line_is_not_printed_to_stdout_where_there_is_no_stderr(monkeypatch, capsys):
    monkeypatch.setattr(_log.Sink, "is_quiet", False)
    monkeypatch.setattr(sys, "stderr", None)
    _log.HOOK(None, wavetrain.LOG_WARN, 0, b"a line", 6)
    assert capsys.readouterr().out == ""


def test_the_end_of_a_capsule_raises_nothing(unraisable, monkeypatch):
    def fail(*_):
        raise SystemExit

    monkeypatch.setattr(_batch, "delete", fail)
    made = _batch.python.PyCapsule_New(8, b"dltensor", _batch._END_OF_CAPSULE_AT)
    del made
    assert len(unraisable) == 1


class Pool:
    """A pool that queues a call and then cannot start a thread for it; `runs` it before that."""

    def __init__(self, runs):
        self.runs, self.calls = runs, []

    def submit(self, call):
        self.calls.append(call)
        if self.runs:
            call()
        raise RuntimeError("can't start new thread")

    def shutdown(self):
        for call in self.calls:
            call()


@pytest.mark.parametrize("runs", [False, True])
def test_a_read_that_no_thread_could_be_started_for_is_made_once(cube, pipeline, runs):
    """The library asks again for what failed: the call in the queue would write to memory that is
    another read's by then, and complete what was not begun."""
    reads, completed = [], []

    class Counted(Folder):
        def read(self, name, offset, target):
            reads.append((name, offset, len(target)))
            super().read(name, offset, target)

    stream = pipeline(files=Counted(), samples_per_batch=16)
    hook, pool = stream._open.hook, Pool(runs)
    hook.pool.shutdown()
    hook.pool, complete = pool, hook.complete
    hook.complete = lambda *each: (completed.append(each), complete(*each))
    stream.push(cube.samples(16))
    with stream.pop() as batch:
        numpy.testing.assert_array_equal(batch.numpy(), cube.holds(*range(16)))
    stream.close()
    assert pool.calls and len(completed) == (len(pool.calls) if runs else 0)
    assert len(set(reads)) == len(reads)
