"""A Reader writes boxes to arrays of the caller: of any kind, with any strides, from any thread."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time

import ml_dtypes
import numpy
import pytest
import zarr
from cubes import ROOT, SIZE, Cube, run_program, write_cube
from test_files import Folder, is_chunk

import wavetrain
from wavetrain import Reader, _reader


@pytest.fixture
def reader():
    opened = []

    def make(*arguments, **settings):
        opened.append(Reader(*arguments, **settings))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def boxes(seed: int, count: int) -> list[tuple[slice, ...]]:
    dice, made = random.Random(seed), []
    for _ in range(count):
        begins = [dice.randrange(SIZE) for _ in range(3)]
        made.append(tuple(slice(at, dice.randrange(at + 1, SIZE + 1)) for at in begins))
    return made


def test_a_box_is_what_zarr_reads(reader, cube):
    opened, stored = reader(), zarr.open_array(cube, mode="r")
    numpy.testing.assert_array_equal(opened.read(cube), Cube.data)
    for box in boxes(1, 30):
        made = opened.read(stored, box)
        assert made.dtype == "u2" and made.flags.c_contiguous
        numpy.testing.assert_array_equal(made, stored[box])
    numpy.testing.assert_array_equal(
        opened.read(cube, numpy.s_[3:4, 60:2:-7, ::2]), Cube.data[3:4, 60:2:-7, ::2]
    )
    assert opened.stats().bytes_copied_out == 0


def part_of(block, order, steps, extents):
    """The places of a box in the middle of a block, whose axes are in another order."""
    inner = block[1:-1, 1:-1, 1:-1][tuple(slice(None, None, steps[axis]) for axis in order)]
    turned = inner.transpose([order.index(axis) for axis in range(3)])
    return turned[: extents[0], : extents[1], : extents[2]]


def test_out_may_have_any_strides(reader, cube):
    opened = reader()
    for number, box in enumerate(boxes(2, 40)):
        dice = random.Random(number)
        extents = [part.stop - part.start for part in box]
        order, steps = dice.sample(range(3), 3), [dice.choice((1, 2, -1, -3)) for _ in range(3)]
        block = numpy.full([extents[axis] * abs(steps[axis]) + 2 for axis in order], 7, "u2")
        expected = block.copy()
        view, shadow = (part_of(each, order, steps, extents) for each in (block, expected))
        shadow[...] = Cube.data[box]
        assert opened.read(cube, box, view) is view
        numpy.testing.assert_array_equal(block, expected)


def test_axes_of_one_element_may_be_left_out(reader, cube):
    opened, box = reader(), numpy.s_[5:6, 0:16, 9:10]
    for shape in ((1, 16, 1), (16, 1), (1, 16), (16,)):
        made = opened.read(cube, box, numpy.zeros(shape, "u2"))
        numpy.testing.assert_array_equal(made, Cube.data[box].reshape(shape))
    one = numpy.zeros((), "u2")
    assert opened.read(cube, numpy.s_[5:6, 6:7, 7:8], one)[()] == Cube.data[5, 6, 7]
    for shape in ((15,), (16, 16), (16, 1, 1, 1), (1,), ()):
        with pytest.raises(ValueError, match="out must have the shape of the box"):
            opened.read(cube, box, numpy.zeros(shape, "u2"))


class Interface:
    """Speaks __array_interface__ alone."""

    def __init__(self, array):
        self.__array_interface__ = array.__array_interface__
        self.array = array


class Dlpack:
    """Speaks DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **named):
        return self.array.__dlpack__(**named)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("kind", [Interface, Dlpack, memoryview], ids=lambda kind: kind.__name__)
def test_out_speaks_any_protocol(reader, cube, kind):
    array, box = numpy.zeros((16, 16, 16), "u2"), numpy.s_[8:24, 0:16, 30:46]
    given = kind(array)
    assert reader().read(cube, box, given) is given
    numpy.testing.assert_array_equal(array, Cube.data[box])
    array.setflags(write=False)
    with pytest.raises((ValueError, TypeError, BufferError), match=r"may be written|read-?only"):
        reader().read(cube, box, kind(array))


def test_an_own_type_is_that_of_each_array(reader, tmp_path):
    opened = reader()
    types = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")
    for name in types:
        data = numpy.arange(24).reshape(4, 6).astype(name)
        numpy.save(tmp_path / "a.npy", data)
        made = opened.read(tmp_path / "a.npy")
        assert made.dtype == data.dtype
        numpy.testing.assert_array_equal(made, data)
    with pytest.raises(TypeError, match="out must be an array of c128 of 16 bytes"):
        opened.read(tmp_path / "a.npy", out=numpy.zeros((4, 6), "f4"))


def test_an_array_that_is_written_anew_with_another_type_is_read_as_it_is(reader, tmp_path):
    path, opened = tmp_path / "a.npy", reader()
    for name in ("u2", "i2", "f4", "u4", "u1"):
        data = (numpy.arange(24).reshape(4, 6) + 230).astype(name)
        numpy.save(path.with_suffix(".new.npy"), data)
        path.with_suffix(".new.npy").rename(path)
        made = opened.read(path, numpy.s_[0:4, 0:6])
        assert made.dtype == data.dtype
        numpy.testing.assert_array_equal(made, data)


def test_a_config_says_the_type_and_what_lies_outside(reader, cube):
    config = wavetrain.Config(samples_per_batch=1, sample_shape=(1,), dtype="f32", backend="host")
    box = numpy.s_[0:8, 8:16, 0:8]
    made = reader(config).read(cube, box)
    assert made.dtype == "f4"
    numpy.testing.assert_array_equal(made, Cube.data[box].astype("f4"))
    half = reader(dtype="bf16").read(cube, box)
    numpy.testing.assert_array_equal(half, Cube.data[box].astype(ml_dtypes.bfloat16))
    padded = reader(pad_mode="reflect").read(cube, numpy.s_[-3:5, 60:70, 0:8])
    numpy.testing.assert_array_equal(
        padded, numpy.pad(Cube.data, ((3, 0), (0, 6), (0, 0)), "reflect")[0:8, 60:70, 0:8]
    )
    fields = (wavetrain.Field("x", (), "f32"), wavetrain.Field("y", (), "i64"))
    several = reader(fields=fields)
    assert several.read(cube, box, field="y").dtype == "i8"
    with pytest.raises(wavetrain.DtypeMismatch):
        reader(dtype="u8").read(cube, box)


def test_threads_fill_parts_of_one_array(reader, cube):
    opened, parts = reader(n_readers=3), boxes(3, 400)
    results: list[object] = [None] * len(parts)

    def work(first: int) -> None:
        for number in range(first, len(parts), 8):
            results[number] = opened.read(cube, parts[number])

    threads = [threading.Thread(target=work, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for box, result in zip(parts, results):
        numpy.testing.assert_array_equal(result, Cube.data[box])


def test_a_reader_is_opened_once_for_the_arrays_that_it_is_given(reader, tmp_path, monkeypatch):
    numpy.save(tmp_path / "a.npy", numpy.arange(4))
    opens = []
    whole = _reader.Loader
    monkeypatch.setattr(
        _reader, "Loader", lambda *given, **named: opens.append(whole(*given, **named)) or opens[-1]
    )
    opened = reader(fit=[tmp_path / "a.npy"])
    assert len(opens) == 1 and opened.fit == (str(tmp_path / "a.npy"),)
    opened.refit(tmp_path / "a.npy")  # it may have been written anew
    assert len(opens) == 2 and opened.fit == (str(tmp_path / "a.npy"),)


def test_an_array_that_is_gone_hinders_no_later_refit(reader, tmp_path):
    for name in "abc":
        numpy.save(tmp_path / f"{name}.npy", numpy.arange(4))
    opened = reader(fit=[tmp_path / "a.npy", tmp_path / "b.npy"])
    (tmp_path / "a.npy").unlink()
    opened.refit(tmp_path / "c.npy")
    assert opened.fit == (str(tmp_path / "b.npy"), str(tmp_path / "c.npy"))
    numpy.testing.assert_array_equal(opened.read(tmp_path / "c.npy"), numpy.arange(4))
    with pytest.raises(wavetrain.NotFound, match="none"):
        opened.refit(tmp_path / "none.npy")
    numpy.testing.assert_array_equal(opened.read(tmp_path / "b.npy"), numpy.arange(4))


def test_what_is_wrong_is_raised(reader, cube, tmp_path):
    opened = reader()
    with pytest.raises(wavetrain.NotFound):
        opened.read(tmp_path / "none.zarr", [(0, 1)])
    with pytest.raises(wavetrain.RankMismatch):
        opened.read(cube, numpy.s_[0:1, 0:1])
    with pytest.raises(wavetrain.InvalidArgument, match="exceeds the array"):
        opened.read(cube, numpy.s_[0:1, 0:1, 60:65])
    with pytest.raises(TypeError, match=r"uri must be a str, a path or a zarr\.Array"):
        opened.read(numpy.zeros(3), numpy.s_[0:1])
    with pytest.raises(TypeError, match="out must be one that may be written"):
        opened.read(cube, numpy.s_[0:1, 0:1, 0:1], b"ab")
    with pytest.raises(TypeError, match="config is given, and also dtype"):
        Reader(opened.config, dtype="f32")
    opened.close()
    opened.close()
    assert repr(opened) == "<Reader, closed>"
    with pytest.raises(wavetrain.ShutdownError):
        opened.read(cube)


def test_a_read_that_is_late_has_left_its_target(reader, cube):
    gate = threading.Event()
    slow = Folder(lambda name: is_chunk(name) and gate.wait(20))
    opened = reader(files=slow, pop_timeout_s=0.2)
    out = numpy.full((8, 8, 8), 9, "u2")
    begun = time.monotonic()
    with pytest.raises(wavetrain.PoolStarved):
        opened.read(cube, numpy.s_[0:8, 0:8, 0:8], out)
    assert time.monotonic() - begun < 10
    gate.set()
    time.sleep(0.2)
    assert (out == 9).all()
    numpy.testing.assert_array_equal(
        opened.read(cube, numpy.s_[0:8, 0:8, 0:8], out), Cube.data[:8, :8, :8]
    )


def test_a_read_of_hooks_raises_what_they_raised(reader, cube):
    def fail(name: str) -> None:
        if is_chunk(name):
            raise OSError("the tape is torn")

    with pytest.raises(wavetrain.StorageError) as caught:
        reader(files=Folder(fail)).read(cube)
    assert "the tape is torn" in str(caught.value.__cause__)


def test_a_reader_that_is_too_small_says_so_and_is_refitted(reader, tmp_path):
    data = numpy.arange(1 << 20, dtype="u2").reshape(1024, 1024)
    write_cube(tmp_path / "large.zarr", data, chunks=(1024, 1024), shards=None)
    opened = reader(max_chunk_uncompressed_bytes=1 << 16, max_host_memory_bytes=0)
    with pytest.raises(wavetrain.BudgetExceeded, match=r"reader\.refit\('.*large\.zarr'\)"):
        opened.read(tmp_path / "large.zarr")
    opened.refit(tmp_path / "large.zarr")
    numpy.testing.assert_array_equal(opened.read(tmp_path / "large.zarr"), data)


def of_child(cube, queue):
    one = wavetrain.reader()
    queue.put((os.getpid(), bool((one.read(cube) == Cube.data).all()), one is wavetrain.reader()))


@pytest.mark.parametrize("name", ["a.zarr", "a.npy"])
def test_an_array_that_is_written_anew_is_read_as_it_is_now(reader, tmp_path, name):
    def write(shape, dtype):
        data = numpy.random.default_rng(7).integers(1, 100, shape).astype(dtype)
        if name.endswith(".npy"):
            numpy.save(tmp_path / name, data)
        else:
            zarr.create_array(tmp_path / name, data=data, overwrite=True)
        return data

    own, typed = reader(), reader(dtype="f32")
    for shape, dtype in [((4, 6), "u1"), ((4, 6), "u2"), ((9, 6), "f4"), ((2, 3), "u1")]:
        wanted = write(shape, dtype)
        out = numpy.zeros(shape, dtype)
        own.read(tmp_path / name, None, out)
        numpy.testing.assert_array_equal(out, wanted)
        floats = numpy.zeros(shape, "f4")
        typed.read(tmp_path / name, None, floats)
        numpy.testing.assert_array_equal(floats, wanted)
        made = typed.read(tmp_path / name)
        numpy.testing.assert_array_equal(made, wanted)
        with pytest.raises(TypeError, match="out must be an array of"):
            own.read(tmp_path / name, None, numpy.zeros(shape, "c8"))
        with pytest.raises(ValueError, match="out must have the shape of the box"):
            own.read(tmp_path / name, None, numpy.zeros((5, *shape), dtype))


def test_there_is_one_of_each_process(cube):
    one = wavetrain.reader()
    assert one is wavetrain.reader() and one is not wavetrain.reader(n_readers=2)
    assert (one.read(cube) == Cube.data).all()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=of_child, args=(cube, queue))
    child.start()
    assert queue.get(timeout=60) == (child.pid, True, True)
    child.join()
    assert child.exitcode == 0
    assert (one.read(cube) == Cube.data).all()
    assert wavetrain.reader(fit=[cube]) is one and one.fit == (cube,)


def test_interrupts_end_a_read_and_no_other():
    program = """
        import os, signal, sys, threading, time
        import numpy, wavetrain
        from cubes import Cube
        from test_files import Folder, is_chunk
        cube, gate = sys.argv[1], threading.Event()
        slow = Folder(lambda name: is_chunk(name) and gate.wait(20))
        with wavetrain.Reader(files=slow, pop_timeout_s=None) as reader:
            threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                reader.read(cube)
            except KeyboardInterrupt:
                gate.set()
            assert gate.is_set()
            assert (reader.read(cube) == Cube.data).all()
    """
    import tempfile
    import textwrap

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/cube.zarr"
        write_cube(path)
        done = run_program(textwrap.dedent(program), path, timeout=40)
        assert not done.stderr, done.stderr


def test_guards_beside_a_target_stay(reader, cube):
    """The target ends where its page does."""
    size = os.sysconf("SC_PAGE_SIZE")
    block = numpy.zeros(4 * size, "u1")
    start = -block.ctypes.data % size
    libc = ctypes.CDLL(None)
    guard = block.ctypes.data + start + size
    assert libc.mprotect(ctypes.c_void_p(guard), size, 0) == 0
    try:
        out = block[start + size - 2 * 8**3 : start + size].view("u2").reshape(8, 8, 8)
        reader().read(cube, numpy.s_[0:8, 8:16, 16:24], out)
        numpy.testing.assert_array_equal(out, Cube.data[0:8, 8:16, 16:24])
    finally:
        assert libc.mprotect(ctypes.c_void_p(guard), size, 3) == 0


def test_the_example_of_tasks_fills_memory_of_a_runtime(tmp_path):
    rows = [numpy.full((count, 7), count, "i2") for count in (3, 17, 5, 40)]
    for number, part in enumerate(rows):
        numpy.save(tmp_path / f"shard_{number:04d}.npy", part)
    program = str(ROOT / "examples" / "legate_fill.py")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    command = [sys.executable, program, str(tmp_path), "--tiles", "3"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    expected = sum(part.sum() for part in rows)
    assert done.stdout.startswith(f"65x7, sum {expected}, "), done.stdout
