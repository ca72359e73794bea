"""Arrays of zarr-python that bring the store that they are in, without `files=`."""

from __future__ import annotations

import pickle
import threading

import numpy
import pytest
from cubes import EDGE, Cube, config, run_program, write_cube
from test_stores import STORES, icechunk_store, object_store, written

import wavetrain

zarr = pytest.importorskip("zarr", minversion="3", reason="there is no zarr-python 3 here")


@pytest.fixture(params=STORES, ids=lambda make: make.__name__)
def store(request, tmp_path):
    return request.param(tmp_path)


CORNER, PLACE = [(0, EDGE)] * 3, [[0, 0, 0]]


class Columns:
    """A data set of one sample, that answers for many."""

    def __init__(self, array):
        self.array = array

    def __len__(self):
        return 1

    def boxes(self, indices):
        return wavetrain.Column(self.array, PLACE, (EDGE,) * 3)


def loaded(dataset, **config):
    with wavetrain.DataLoader(dataset, 1, **config) as loader:
        (batch,) = [batch.numpy().copy() for batch in loader]
    return batch


def pushed(call):
    with wavetrain.Pipeline(config(samples_per_batch=1)) as stream:
        call(stream)
        with stream.pop() as batch:
            return batch.numpy().copy()


def read_by(reader, array):
    with reader:
        return reader.read(array, CORNER)


ONE = config(samples_per_batch=1)
FACES = {
    "sample": lambda array: pushed(lambda to: to.push([wavetrain.Sample(array, CORNER)])),
    "box": lambda array: pushed(
        lambda to: to.push([wavetrain.Sample(boxes=[wavetrain.Box(array, CORNER)])])
    ),
    "table": lambda array: pushed(lambda to: to.push_boxes(array, PLACE, (EDGE,) * 3)),
    "loader": lambda array: loaded([wavetrain.Sample(array, CORNER)]),
    "loader with a config": lambda array: loaded([wavetrain.Sample(array, CORNER)], config=ONE),
    "loader of columns": lambda array: loaded(Columns(array), config=ONE),
    "Reader": lambda array: read_by(wavetrain.Reader(), array),
    "reader": lambda array: read_by(wavetrain.reader(fit=[array]), array),
}


@pytest.mark.parametrize("face", FACES)
def test_an_array_brings_its_store(store, face):
    array = written(store, data=Cube.data[: 2 * EDGE, : 2 * EDGE, : 2 * EDGE])
    found = FACES[face](array)
    numpy.testing.assert_array_equal(found.reshape((EDGE,) * 3), array[:EDGE, :EDGE, :EDGE])


def test_statistics_are_of_the_array_in_its_store():
    array = written(zarr.storage.MemoryStore(), data=numpy.arange(64), chunks=(8,), shards=None)
    assert wavetrain.statistics(array).max == 63


def test_a_reader_reads_arrays_of_several_stores_and_files(tmp_path):
    arrays = [zarr.storage.MemoryStore(), zarr.storage.MemoryStore(), tmp_path / "a"]
    for number, place in enumerate(arrays):
        write_cube(place, numpy.arange(number, number + 8), chunks=(4,), shards=None)
    arrays = [zarr.open_array(place, mode="r") for place in arrays]
    with wavetrain.Reader() as reader:
        for number, array in enumerate(arrays * 2):
            assert reader.read(array)[0] == number % 3
        reader.refit(arrays[1])
        assert reader.read(arrays[1])[0] == 1
    with pytest.raises(wavetrain.ShutdownError):
        reader.read(arrays[0])


def test_a_reader_forgets_an_array_of_a_store():
    store = zarr.storage.MemoryStore()
    array = zarr.create_array(store, shape=4, chunks=(4,), dtype="i8", compressors=None)
    array[:] = 1
    with wavetrain.Reader(chunk_cache_bytes=1 << 24) as reader:
        assert reader.read(array).tolist() == [1] * 4
        array[:] = 2
        reader.forget(array)
        assert reader.read(array).tolist() == [2] * 4


OTHER = r"is not in memory://\d+, the store of the first zarr\.Array: open another one for it"


@pytest.fixture
def twins(tmp_path, monkeypatch):
    """An array of ones in a store, and a path on disk of twos that is a key of the store, too."""
    monkeypatch.chdir(tmp_path)
    store, data = zarr.storage.MemoryStore(), numpy.ones((EDGE,) * 3, "u2")
    write_cube(store, data, name="a", shards=None)
    write_cube(store, data * 3, name="b", shards=None)
    write_cube("b", data * 2, shards=None)
    return zarr.open_array(store, path="a", mode="r")


@pytest.mark.parametrize("other", ["b", "./b", "folder", "store"])
def test_a_path_after_a_store_is_never_a_key_of_it(twins, pipeline, other):
    """Nor is an array on disk, or in another store."""
    if other == "folder":
        other = zarr.open_array("b", mode="r")
    elif other == "store":
        other = written(zarr.storage.MemoryStore(), chunks=(16,) * 3)
    first, second = (wavetrain.Sample(array, CORNER) for array in (twins, other))
    for samples in ([first, second], [second, first]):
        with pytest.raises(ValueError, match=OTHER):
            pipeline(samples_per_batch=1).push(samples)
    with pytest.raises(ValueError, match=OTHER):
        pipeline(fit=[twins, other])
    for stream in (pipeline(samples_per_batch=1), pipeline(samples_per_batch=1, fit=[twins])):
        stream.push([first])
        stream.pop().release()
        stream.push([second])
        with pytest.raises(wavetrain.StorageError, match=OTHER):
            stream.pop()


def test_a_store_of_fsspec_on_disk_is_files(tmp_path, pipeline):
    """Also where its path has what a uri would escape."""
    pytest.importorskip("fsspec", reason="there is no fsspec here")
    folder = tmp_path / "a b%20c"
    write_cube(folder, name="deep/a")
    store = zarr.storage.FsspecStore.from_url(f"file://{folder}")
    array = zarr.open_array(store, path="deep/a", mode="r")
    sample = wavetrain.Sample(array, CORNER)
    assert sample.uri == str(folder / "deep/a") and type(sample.uri) is str
    for files in (None, wavetrain.store(array)):
        stream = pipeline(samples_per_batch=2, files=files)
        stream.push([sample, wavetrain.Sample(sample.uri, CORNER)])
        with stream.pop() as batch:
            for found in batch.numpy():
                numpy.testing.assert_array_equal(found, array[:EDGE, :EDGE, :EDGE])


def test_a_reader_that_was_fitted_to_a_store_reads_paths_on_disk(twins):
    readers = [wavetrain.Reader(fit=[twins]), wavetrain.Reader(fit=["b", twins])]
    for reader in [*readers, wavetrain.reader(fit=["b", twins], n_io_threads=3)]:
        assert [reader.read(uri, CORNER).max() for uri in (twins, "b")] == [1, 2]
    for reader in readers:
        reader.close()


def test_a_path_is_a_key_of_files_that_were_given(twins):
    with wavetrain.Reader(files=wavetrain.store(twins)) as reader:
        assert reader.read("b", CORNER).max() == 3


def test_a_store_that_comes_later_than_files_is_refused_with_the_way_out(cube, pipeline):
    stream = pipeline(samples_per_batch=1)
    stream.push([cube.sample(0)])
    array = written(zarr.storage.MemoryStore())
    text = "is in a store, and this pipeline has begun without it: open another one for the store"
    for call in (
        lambda: stream.push([wavetrain.Sample(array, CORNER)]),
        lambda: stream.push_boxes(array, PLACE, (EDGE,) * 3),
    ):
        with pytest.raises(wavetrain.Unsupported, match=text):
            call()
    with pytest.raises(wavetrain.Unsupported, match=r"give files=wavetrain\.store\(\.\.\)"):
        stream.forget(array)


def test_a_thread_that_waits_gets_the_batch_of_a_store_that_is_found():
    array, found = written(zarr.storage.MemoryStore()), []
    with wavetrain.Pipeline(config(samples_per_batch=1, pop_timeout_s=60)) as stream:
        handle = stream._loader

        def pop():
            with stream.pop() as batch:
                found.append(batch.numpy().copy())

        thread = threading.Thread(target=pop)
        thread.start()
        stream.push([wavetrain.Sample(array, CORNER)])
        thread.join()
        assert stream._loader != handle
    numpy.testing.assert_array_equal(found[0][0], array[:EDGE, :EDGE, :EDGE])


def test_a_sample_of_a_store_is_sent_as_text():
    sample = wavetrain.Sample(written(zarr.storage.MemoryStore()), CORNER)
    again = pickle.loads(pickle.dumps(sample))
    assert again == sample and type(again.uri) is str


@pytest.mark.parametrize("given", [{}, {"files": True}], ids=["found", "files"])
@pytest.mark.parametrize("kind", [list, Columns])
def test_a_loader_of_a_store_in_memory_is_sent_with_it(given, kind):
    """The name of its copy is another one, and that of samples is the one they were made with."""
    array = written(zarr.storage.MemoryStore())
    dataset = Columns(array) if kind is Columns else [wavetrain.Sample(array, CORNER)]
    files = wavetrain.store(array) if given else None
    loader = wavetrain.DataLoader(dataset, 1, config=ONE, files=files, fit=[array])
    with pickle.loads(pickle.dumps(loader)) as sent:
        (batch,) = [batch.numpy().copy() for batch in sent]
    numpy.testing.assert_array_equal(batch[0], Cube.data[:EDGE, :EDGE, :EDGE])


@pytest.mark.parametrize("make", [object_store, icechunk_store], ids=["obstore", "icechunk"])
def test_a_store_without_threads_in_a_forked_process_is_refused_soon(make):
    """Its package waits for ever there, also for what is opened in that process."""
    program = """
    import os, sys, warnings
    import numpy, pytest, wavetrain
    import test_stores
    from wavetrain import _stores
    warnings.simplefilter("ignore", DeprecationWarning)  # of fork, where there are threads
    try:
        array = test_stores.written(getattr(test_stores, sys.argv[1])(None))
    except pytest.skip.Exception:
        sys.exit(print("skipped"))
    _stores.ANSWER_S = 0.5

    def refused(call):
        try:
            call()
        except RuntimeError as error:
            return str(error)

    from_child, to_parent = os.pipe()
    if os.fork() == 0:
        calls = [
            lambda: wavetrain.store(array),
            lambda: wavetrain.array_info(array),
            lambda: wavetrain.Reader(fit=[array]),
            lambda: wavetrain.reader().read(array),
        ]
        os.write(to_parent, " ".join(map(str, map(refused, calls))).encode())
        os._exit(0)
    os.wait()
    print(os.read(from_child, 4096).decode())
    """
    said = run_program(program, make.__name__).stdout
    if said == "skipped\n":
        pytest.skip("there is no such package here")
    assert said.count("does not answer within 0.5 s in a process that was forked") == 4
    assert said.count("start processes with spawn") == 4
