"""Stores of zarr-python as files, next to what zarr-python reads from them."""

from __future__ import annotations

import base64
import pickle
import threading

import numpy
import pytest
from cubes import EDGE, FILL, Cube, run_program, write_cube
from test_files import check

import wavetrain

zarr = pytest.importorskip("zarr", minversion="3", reason="there is no zarr-python 3 here")
HOLED = {"chunks": (4,), "shards": None, "fill_value": FILL}


def memory_store(_):
    return zarr.storage.MemoryStore()


def zip_store(folder):
    return zarr.storage.ZipStore(folder / "store.zip", mode="a")


def packed_zip_store(folder):
    return zarr.storage.ZipStore(folder / "packed.zip", mode="a", compression=8)


def local_store(folder):
    return zarr.storage.LocalStore(folder / "local")


def fsspec_store(folder):
    pytest.importorskip("fsspec", reason="there is no fsspec here")
    return zarr.storage.FsspecStore.from_url(f"memory://stores{folder}")


def object_store(_):
    obstore = pytest.importorskip("obstore", reason="there is no obstore here")
    return zarr.storage.ObjectStore(obstore.store.MemoryStore())


def icechunk_store(_):
    icechunk = pytest.importorskip("icechunk", reason="there is no icechunk here")
    storage = icechunk.in_memory_storage()
    return icechunk.Repository.create(storage).writable_session("main").store


def wrapped_store(_):
    return zarr.storage.WrapperStore(zarr.storage.MemoryStore())


STORES = [memory_store, zip_store, packed_zip_store, local_store, fsspec_store, object_store]
STORES += [icechunk_store, wrapped_store]


@pytest.fixture(params=STORES, ids=lambda make: make.__name__)
def store(request, tmp_path):
    return request.param(tmp_path)


def opened(store, path=""):
    """The array there, opened for reading, as a zip archive is once it is closed."""
    if isinstance(store, zarr.storage.ZipStore):
        store.close()
        store = zarr.storage.ZipStore(store.path)
    return zarr.open_array(store, path=path, mode="r")


def written(store, path="deep/a", data=None, **changes):
    """An array in the store, opened for reading."""
    write_cube(store, data, name=path, **changes)
    return opened(store, path)


def holed(store):
    """An array whose second chunk is absent."""
    array = zarr.create_array(store, name="holed", shape=12, dtype="u1", **HOLED)
    array[:4], array[8:] = numpy.arange(1, 5), numpy.arange(9, 13)
    return opened(store, "holed")


@pytest.mark.parametrize("shards", [None, (2 * EDGE,) * 3], ids=["chunks", "shards"])
def test_arrays_of_a_store_are_read_as_zarr_reads_them(store, pipeline, shards):
    array = written(store, shards=shards)
    numpy.testing.assert_array_equal(array[...], Cube.data)
    files = wavetrain.store(array)
    check(pipeline(files=files), array, *range(12))
    check(pipeline(files=files), "deep/a", *range(12))
    assert wavetrain.array_info("deep/a", files=files).shape == array.shape


def test_an_array_at_the_root_of_a_store(store):
    if "icechunk" in type(store).__module__:
        pytest.skip("icechunk begins with a group")
    data = numpy.arange(24, dtype="u2")
    write_cube(store, data, chunks=(4,), shards=(8,))
    array = opened(store)
    for uri in (array, "/"):
        with wavetrain.Reader(files=wavetrain.store(array)) as reader:
            numpy.testing.assert_array_equal(reader.read(uri), data)


def test_the_store_of_an_array_is_found(store, pipeline):
    array = written(store)
    check(pipeline(fit=[array]), array, *range(4))
    assert wavetrain.array_info(array).shape == array.shape
    with wavetrain.Reader(fit=[array]) as reader:
        numpy.testing.assert_array_equal(reader.read(array), array[...])


def test_a_key_that_a_store_does_not_have_is_the_fill_value(store):
    array = holed(store)
    expected = [1, 2, 3, 4, *[FILL] * 4, 9, 10, 11, 12]
    assert array[:].tolist() == expected
    with wavetrain.Reader(files=wavetrain.store(array)) as reader:
        assert reader.read(array).tolist() == expected
        assert reader.read("holed", [(4, 8)]).tolist() == [FILL] * 4


def test_an_array_that_a_store_does_not_have_is_not_found():
    with pytest.raises(wavetrain.NotFound, match="nowhere"):
        wavetrain.array_info("nowhere", files=wavetrain.store(zarr.storage.MemoryStore()))


def test_threads_read_from_a_store_at_once(store):
    array = written(store)
    files, found = wavetrain.store(array), []

    def read():
        with wavetrain.Reader(files=files) as reader:
            found.append(numpy.array_equal(reader.read(array), Cube.data))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


class Broken(zarr.storage.WrapperStore):
    """Does what `change` says with the chunks of a store: it raises, or has another value."""

    def __init__(self, store, get=None, size=None):
        super().__init__(store)
        self.changes = {"get": get, "size": size}

    async def changed(self, what, key, otherwise):
        change = self.changes[what]
        value = await otherwise
        return change(value) if change and "/c/" in key else value

    async def get(self, key, prototype, byte_range=None):
        return await self.changed("get", key, super().get(key, prototype, byte_range))

    async def getsize(self, key):
        return await self.changed("size", key, self._store.getsize(key))


def raising(error):
    def change(_):
        raise error

    return change


def read_broken(**changes):
    """The elements that wavetrain reads of an array in a store that does that."""
    store = zarr.storage.MemoryStore()
    write_cube(store, numpy.arange(8, dtype="u1"), name="a", compressors=None, **HOLED)
    with wavetrain.Reader(files=wavetrain.store(Broken(store, **changes))) as reader:
        return reader.read("a").tolist()


def test_a_store_that_is_sound_is_read():
    assert read_broken() == [*range(8)]


@pytest.mark.parametrize("place", ["get", "size"])
@pytest.mark.parametrize("kind", [OSError, ValueError, PermissionError, TimeoutError, MemoryError])
def test_what_a_store_raises_is_the_cause_of_a_storage_error(kind, place):
    with pytest.raises(wavetrain.StorageError, match="the bucket") as caught:
        read_broken(**{place: raising(kind("the bucket"))})
    assert type(caught.value.__cause__) is kind


def none(_):
    return None


@pytest.mark.parametrize("get", [none, raising(PermissionError("no"))])
def test_an_absence_that_get_does_not_confirm_is_an_error(get):
    refused = FileNotFoundError("c")
    refused.__cause__ = PermissionError("c")
    assert read_broken(get=none, size=raising(FileNotFoundError("c"))) == [FILL] * 8
    assert read_broken(get=none, size=raising(KeyError("c"))) == [FILL] * 8
    for changes in (
        {"get": get},  # of a value that has a size
        {"size": raising(FileNotFoundError("c"))},  # and yet is read
        {"size": raising(refused), "get": get},
    ):
        with pytest.raises(wavetrain.StorageError, match="c/0"):
            read_broken(**changes)


@pytest.mark.parametrize("by", [-1, 1, -4, 2**40])
def test_a_size_of_a_store_that_lies_is_an_error(by):
    with pytest.raises((wavetrain.StorageError, wavetrain.DecodeError), match="c/0"):
        read_broken(size=lambda size: size + by)


def test_a_value_of_another_length_than_the_range_is_an_error():
    with pytest.raises(wavetrain.StorageError, match="3 bytes came where 4 from 0 on were asked"):
        read_broken(get=lambda value: value[:3])


def test_two_stores_are_told_apart(pipeline):
    first, second = [written(zarr.storage.MemoryStore(), chunks=(16,) * 3) for _ in range(2)]
    with pytest.raises(wavetrain.StorageError, match=r"is not of this store, memory://") as caught:
        wavetrain.array_info(first, files=wavetrain.store(second))
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(ValueError, match=r"is not in memory:.* the store of the first"):
        pipeline(fit=[first, second])
    assert pipeline(fit=[first, zarr.open_array(first.store, path="deep/a")])


def test_what_is_no_store_is_refused(tmp_path):
    for wrong in (None, "memory://", {}, tmp_path, object()):
        with pytest.raises(TypeError, match=r"^store must be a Store of zarr-python 3"):
            wavetrain.store(wrong)

    class Old:
        store, path = {}, "a"

    with pytest.raises(TypeError, match=r"a dict is not read.*files=wavetrain\.store"):
        wavetrain.Sample(Old(), [])


def test_a_store_is_sent_to_other_processes(tmp_path):
    write_cube(tmp_path / "a", numpy.arange(8), chunks=(4,), shards=None)
    files = wavetrain.store(zarr.storage.LocalStore(tmp_path))
    assert repr(files).startswith("wavetrain.store(LocalStore(")
    with wavetrain.Reader(files=pickle.loads(pickle.dumps(files))) as reader:
        assert reader.read("a").tolist() == [*range(8)]


def test_a_forked_process_reads_anew_or_is_refused(tmp_path):
    program = """
    import os, sys, warnings
    import numpy, pytest, wavetrain, zarr
    import test_stores
    from pathlib import Path
    warnings.simplefilter("ignore", DeprecationWarning)  # of fork, where there are threads
    make, folder = getattr(test_stores, sys.argv[1]), Path(sys.argv[2])
    try:
        array = test_stores.written(make(folder), data=numpy.arange(64), chunks=(4,), shards=None)
    except pytest.skip.Exception:
        sys.exit(print("skipped"))
    files = wavetrain.store(array)

    def read():
        try:
            with wavetrain.Reader(files=files) as reader:
                return str(numpy.array_equal(reader.read(array), numpy.arange(64)))
        except wavetrain.StorageError as error:
            return type(error.__cause__).__name__ + str(error)

    before = read()
    from_child, to_parent = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(to_parent, read().encode())
        os._exit(0)
    os.waitpid(child, 0)
    print(before, os.read(from_child, 4096).decode(), read())
    """
    for make in (memory_store, zip_store, fsspec_store):
        assert run_program(program, make.__name__, tmp_path).stdout == "True True True\n"
    for make in (object_store, icechunk_store, wrapped_store):
        said = run_program(program, make.__name__, tmp_path).stdout
        is_refused = "RuntimeError" in said and "cannot be used in a forked process" in said
        assert is_refused or said == "skipped\n", said


def test_the_package_is_imported_without_zarr():
    program = "import sys, wavetrain; print('zarr' in sys.modules, callable(wavetrain.store))"
    assert run_program(program).stdout == "False True\n"


# References of kerchunk: files whose parts stand for chunks, or whose bytes stand in them.

REFERENCES = ["fsspec", "simplecache", "store"]
PLAIN = numpy.arange(32, 96, dtype="u1").reshape(4, 16)
SIGNED = numpy.arange(-64, 0, dtype="i1").reshape(4, 16)  # bytes that UTF-8 has only in pairs


def references(folder, data, values):
    """The values of `values` in the place of the chunks of an array."""
    write_cube(folder / "a", data, chunks=(1, 16), shards=None, compressors=None)
    made = {"a/zarr.json": (folder / "a" / "zarr.json").read_text()}
    for number, value in enumerate(values):
        path = folder / "a" / "c" / str(number) / "0"
        if value is not None:
            made[f"a/c/{number}/0"] = value(path, path.read_bytes())
    return made


def in_base64(_, data):
    return f"base64:{base64.b64encode(data).decode()}"


def as_text(_, data):
    return data.decode()


def as_bytes(_, data):
    return data


def elsewhere(path, _):
    return [str(path)]


def part(path, data):
    return [str(path), 0, len(data)]


def reference_files(made, kind):
    """The references as files: of fsspec, of a cache of those, or of a store of zarr."""
    fsspec = pytest.importorskip("fsspec", reason="there is no fsspec here")
    if kind != "store":
        fs = fsspec.filesystem("reference", fo=made)
        return wavetrain.fsspec(fs if kind == "fsspec" else fsspec.filesystem(kind, fs=fs)), "a"
    fs = fsspec.filesystem("reference", fo=made, asynchronous=True)
    store = zarr.storage.FsspecStore(fs, path="")
    return wavetrain.store(store), zarr.open_array(store, path="a", mode="r")


@pytest.mark.parametrize("kind", REFERENCES)
@pytest.mark.parametrize("version", [0, 1])
def test_references_hold_their_chunks_or_refer_to_them(tmp_path, kind, version):
    made = references(tmp_path, PLAIN, [in_base64, as_text, elsewhere, part])
    made = {"version": 1, "refs": made} if version else made
    files, uri = reference_files(made, kind)
    with wavetrain.Reader(files=files) as reader:
        for name in (uri, "reference://a"):
            numpy.testing.assert_array_equal(reader.read(name), PLAIN)


@pytest.mark.parametrize("kind", REFERENCES)
def test_references_to_nothing_are_the_fill_value(tmp_path, kind):
    made = references(tmp_path, SIGNED, [as_bytes, None, in_base64, None])
    files, uri = reference_files(made, kind)
    with wavetrain.Reader(files=files) as reader:
        found = reader.read(uri)
    numpy.testing.assert_array_equal(found[::2], SIGNED[::2])
    assert (found[1::2] == FILL).all()


@pytest.mark.parametrize("kind", REFERENCES)
def test_text_of_references_has_its_bytes_and_not_its_characters(tmp_path, kind):
    """A chunk of 16 bytes that is a text of 8 characters."""
    text = "äöüßéèêë"
    data = numpy.frombuffer(text.encode() * 4, "u1").reshape(4, 16)
    files, uri = reference_files(references(tmp_path, data, [as_text] * 4), kind)
    with wavetrain.Reader(files=files) as reader:
        numpy.testing.assert_array_equal(reader.read(uri), data)


@pytest.mark.parametrize("kind", REFERENCES)
@pytest.mark.parametrize(("offset", "size"), [(0, 15), (0, 17), (1, 16), (8, 8), (16, 16), (99, 0)])
def test_a_reference_whose_size_lies_is_an_error(tmp_path, kind, offset, size):
    def lie(path, _):
        return [str(path), offset, size]

    files, uri = reference_files(references(tmp_path, PLAIN, [lie, part, part, part]), kind)
    with wavetrain.Reader(files=files) as reader:
        with pytest.raises((wavetrain.StorageError, wavetrain.DecodeError), match="c/0/0"):
            reader.read(uri)
        numpy.testing.assert_array_equal(reader.read(uri, [(1, 4), (0, 16)]), PLAIN[1:])


@pytest.mark.parametrize("kind", REFERENCES)
def test_a_reference_to_a_file_that_is_gone_is_an_error(tmp_path, kind):
    def gone(path, _):
        return [f"{path}-gone", 0, 16]

    files, uri = reference_files(references(tmp_path, PLAIN, [gone, part, part, part]), kind)
    with (
        wavetrain.Reader(files=files) as reader,
        pytest.raises(wavetrain.StorageError, match="c/0/0"),
    ):
        reader.read(uri)
