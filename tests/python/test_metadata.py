"""Metadata that one process looks up for others: what they read then, and what they refuse."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys

import numpy
import pytest
from cubes import FILL, ROOT, config, run_program, voxels, write_cube

import wavetrain
from wavetrain.engines import mpi

zarr = pytest.importorskip("zarr", minversion="3", reason="there is no zarr-python 3 here")
DATA = voxels()


class Folder:
    """Files of a folder, and the reads that were made of them."""

    def __init__(self):
        self.reads = []

    def size(self, name):
        return os.stat(name).st_size

    def read(self, name, offset, target):
        self.reads.append((name, offset, offset + len(target)))
        with open(name, "rb") as file:
            file.seek(offset)
            target[:] = file.read(len(target))


def reads_of(uri, whole, box, found, **changes):
    """The number of documents and indexes that were read for a box, whose elements are right."""
    changes = {"samples_per_batch": 1, "sample_shape": whole[box].shape, **changes}
    given = config(max_npy_files=4, metadata=found, **changes)
    with wavetrain.Pipeline(given) as pipeline:
        pipeline.push([wavetrain.Sample(uri, box)])
        pipeline.flush()
        with pipeline.pop() as batch:
            numpy.testing.assert_array_equal(batch.numpy()[0], whole[box])
        return pipeline.stats().metadata_backend_read_jobs


def shards(tmp_path):
    path = tmp_path / "shards"
    write_cube(path)
    return path, DATA


def no_shards(tmp_path):
    write_cube(tmp_path / "chunks", shards=None)
    return tmp_path / "chunks", DATA


def sharded(path, codec, edge):
    """The cube in shards of this edge."""
    given = {"shape": DATA.shape, "dtype": "u2", "chunks": (edge,) * 3}
    made = zarr.create_array(path, serializer=codec, compressors=None, **given)
    made[...] = DATA
    return DATA


def index_first(tmp_path):
    codec = zarr.codecs.ShardingCodec(chunk_shape=(8, 8, 8), index_location="start")
    return tmp_path / "first", sharded(tmp_path / "first", codec, 16)


def shards_in_shards(tmp_path):
    inner = zarr.codecs.ShardingCodec(chunk_shape=(4, 4, 4))
    outer = zarr.codecs.ShardingCodec(chunk_shape=(8, 8, 8), codecs=[inner])
    return tmp_path / "nested", sharded(tmp_path / "nested", outer, 32)


def second_version(tmp_path):
    write_cube(tmp_path / "v2", shards=None, zarr_format=2)
    return tmp_path / "v2", DATA


def npy(tmp_path):
    numpy.save(tmp_path / "a.npy", DATA)
    return tmp_path / "a.npy", DATA


def numbered(tmp_path):
    folder = tmp_path / "numbered"
    folder.mkdir()
    for number in range(4):
        numpy.save(folder / f"part-{number}.npy", DATA[number * 16 : number * 16 + 16])
    return folder, DATA


def image(tmp_path):
    group = zarr.create_group(tmp_path / "image", attributes=MULTISCALES)
    for name, step in (("0", 1), ("1", 2)):
        part = DATA[::step, ::step, ::step]
        made = group.create_array(name, shape=part.shape, dtype="u2", chunks=(8,) * 3)
        made[...] = part
    return f"{tmp_path / 'image'}#level=1", DATA[::2, ::2, ::2]


AXES = [{"name": name, "type": "space"} for name in "zyx"]
LEVELS = [
    {"path": str(at), "coordinateTransformations": [{"type": "scale", "scale": [2.0**at] * 3}]}
    for at in range(2)
]
MULTISCALES = {"ome": {"version": "0.5", "multiscales": [{"axes": AXES, "datasets": LEVELS}]}}
KINDS = [
    shards,
    no_shards,
    index_first,
    shards_in_shards,
    second_version,
    npy,
    numbered,
    image,
]


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("files", [False, True], ids=["", "files"])
def test_nothing_is_read_again(tmp_path, make, files):
    uri, whole = make(tmp_path)
    if files and make is numbered:
        pytest.skip("Files without a list have no numbered files")
    served = Folder() if files else None
    found = wavetrain.metadata(uri, files=served)
    inside = tuple(slice(3, 21) for _ in whole.shape)
    if not files:
        assert reads_of(uri, whole, inside, None) > 0
        assert reads_of(uri, whole, inside, found) == 0
        return
    given = config(samples_per_batch=1, sample_shape=(18,) * 3, metadata=found)
    served.reads.clear()
    with wavetrain.Pipeline(given, files=served) as pipeline:
        pipeline.push([wavetrain.Sample(uri, inside)])
        pipeline.flush()
        with pipeline.pop() as batch:
            numpy.testing.assert_array_equal(batch.numpy()[0], whole[inside])
        assert pipeline.stats().metadata_backend_read_jobs == 0
    assert served.reads  # chunks
    assert not [name for name, *_ in served.reads if name.endswith("json")]


def test_parts_of_arrays_follow_each_other_and_other_arrays_are_read(tmp_path):
    one, whole = shards(tmp_path)
    other, _ = no_shards(tmp_path)
    found = wavetrain.metadata(one) + wavetrain.metadata([other, other])
    assert found == wavetrain.metadata([one, other])
    inside = (slice(3, 21),) * 3
    third, _ = npy(tmp_path)
    for uri, is_known in ((one, True), (other, True), (third, False)):
        assert (reads_of(uri, whole, inside, found) == 0) is is_known


def test_more_shards_than_a_part_has_and_shards_that_are_absent(tmp_path):
    made = zarr.create_array(
        tmp_path / "a", shape=(3000, 4), dtype="u2", chunks=(5, 4), shards=(10, 4), fill_value=FILL
    )
    whole = numpy.full((3000, 4), FILL, "u2")
    for begin in range(0, 3000, 50):  # one of five shards
        whole[begin : begin + 10] = made[begin : begin + 10] = begin
    for threads in (1, 7):
        found = wavetrain.metadata(tmp_path / "a", threads=threads)
        assert reads_of(tmp_path / "a", whole, (slice(0, 3000), slice(0, 4)), found) == 0
    assert found.count(b"/c/") == 60


@pytest.mark.parametrize("what", ["zarr.json", "c/0/0/0"])
def test_a_file_that_has_changed_is_refused(tmp_path, what):
    uri, whole = shards(tmp_path)
    found = wavetrain.metadata(uri)
    file = uri / what
    stat = file.stat()
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    with pytest.raises(wavetrain.StorageError, match="has changed since wavetrain"):
        reads_of(uri, whole, (slice(0, 8),) * 3, found)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert reads_of(uri, whole, (slice(0, 8),) * 3, found) == 0
    with open(file, "ab") as longer:
        longer.write(b" ")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(wavetrain.StorageError, match=what.rpartition("/")[2]):
        reads_of(uri, whole, (slice(0, 8),) * 3, found)


def test_a_copy_with_its_times_is_the_same_file(tmp_path):
    uri, whole = shards(tmp_path)
    found = wavetrain.metadata(uri)
    shutil.copytree(uri, tmp_path / "copy")  # as on another machine, with other inodes
    shutil.rmtree(uri)
    shutil.move(tmp_path / "copy", uri)
    assert reads_of(uri, whole, (slice(0, 8),) * 3, found) == 0


def test_a_file_that_goes_is_absent_as_ever(tmp_path):
    uri, whole = shards(tmp_path)
    found = wavetrain.metadata(uri)
    (uri / "c/0/0/0").unlink()
    whole = whole.copy()
    whole[:16, :16, :16] = FILL
    assert reads_of(uri, whole, (slice(0, 20),) * 3, found) == 0
    (uri / "zarr.json").unlink()
    with pytest.raises(wavetrain.NotFound):
        reads_of(uri, whole, (slice(0, 8),) * 3, found)


def test_a_reader_asks_for_nothing(tmp_path):
    uri, whole = shards(tmp_path)
    files = Folder()
    found = wavetrain.metadata(uri, files=files)
    files.reads.clear()
    with wavetrain.Reader(files=files, fit=[uri], metadata=found) as reader:
        numpy.testing.assert_array_equal(reader.read(uri), whole)
    assert not [name for name, *_ in files.reads if name.endswith("json")]
    ends = {name: os.stat(name).st_size for name, *_ in files.reads}
    assert all(end < ends[name] for name, _, end in files.reads)  # where the indexes are


def test_attributes_of_cf_are_looked_up_for_fields_that_need_them(tmp_path):
    made = zarr.create_array(
        tmp_path / "packed", shape=(8, 8), dtype="i2", chunks=(4, 4), zarr_format=2
    )
    made[...] = stored = numpy.arange(64, dtype="i2").reshape(8, 8)
    made.attrs.update({"scale_factor": 0.5, "add_offset": 3.0})
    given = {"dtype": "f32", "cf": True, "sample_shape": (8, 8), "samples_per_batch": 1}
    found = wavetrain.metadata(tmp_path / "packed", config=config(**given))
    whole = (slice(0, 8),) * 2
    changes = {"dtype": "f32", "cf": True}
    expected = (stored * 0.5 + 3).astype("f4")
    assert reads_of(tmp_path / "packed", expected, whole, found, **changes) == 0
    os.utime(tmp_path / "packed/.zattrs", (1, 1))
    with pytest.raises(wavetrain.StorageError, match=r"\.zattrs"):
        reads_of(tmp_path / "packed", expected, whole, found, **changes)


def test_it_travels_with_its_config_and_is_not_shown(tmp_path):
    uri, _ = shards(tmp_path)
    given = config(samples_per_batch=1, metadata=wavetrain.metadata(uri))
    assert "metadata=" not in repr(given)
    assert pickle.loads(pickle.dumps(given)) == given
    (tmp_path / "config").write_bytes(pickle.dumps(given))
    run_program(
        """
        import pickle, sys
        from cubes import Cube, box
        import wavetrain
        given = pickle.loads(open(sys.argv[1], "rb").read())
        with wavetrain.Pipeline(given) as pipeline:
            pipeline.push([wavetrain.Sample(sys.argv[2], box(5))])
            with pipeline.pop() as batch:
                assert (batch.numpy() == Cube("").holds(5)).all()
            assert pipeline.stats().metadata_backend_read_jobs == 0
        """,
        tmp_path / "config",
        uri,
    )


def test_a_relative_path_is_that_of_the_folder_where_it_is_looked_up(tmp_path, monkeypatch):
    uri, whole = shards(tmp_path)
    monkeypatch.chdir(tmp_path)
    found = wavetrain.metadata("shards")
    assert found == wavetrain.metadata(uri)
    monkeypatch.chdir("/")
    assert reads_of(uri, whole, (slice(0, 8),) * 3, found) == 0


def test_what_is_written_just_now_is_looked_up_once_its_time_is_over(tmp_path):
    for number in range(5):
        write_cube(tmp_path / f"a{number}", shards=None)
        found = wavetrain.metadata(tmp_path / f"a{number}")
        assert found.count(b"zarr.json") == 1


@pytest.mark.parametrize("files", [False, True])
def test_arrays_that_cannot_be_read_are_errors(tmp_path, files):
    served = Folder() if files else None
    with pytest.raises(wavetrain.NotFound, match=r"metadata: .*nothing"):
        wavetrain.metadata(tmp_path / "nothing", files=served)
    (tmp_path / "zarr.json").write_text("{")
    with pytest.raises(wavetrain.WavetrainError, match="metadata: "):
        wavetrain.metadata([tmp_path], files=served)


def test_bytes_of_something_else_are_refused(tmp_path):
    uri, whole = shards(tmp_path)
    found = wavetrain.metadata(uri)
    inside = (slice(0, 8),) * 3
    for bad in (b"x", found[:-8], found[8:], b"\0" * 64, json.dumps({}).encode()):
        with pytest.raises(wavetrain.InvalidArgument, match="does not begin a record"):
            reads_of(uri, whole, inside, bad)
    with pytest.raises(TypeError, match="metadata must be bytes"):
        config(metadata="words")
    assert config(metadata=bytearray(found)).metadata == found
    assert reads_of(uri, whole, inside, b"") > 0


def test_arguments_of_other_types_are_refused(tmp_path):
    with pytest.raises(TypeError, match="uris must be an array, or a list"):
        wavetrain.metadata(3)
    with pytest.raises(TypeError, match=r"uris\[1\]"):
        wavetrain.metadata(["a", 3])
    with pytest.raises(TypeError, match="config must be a"):
        wavetrain.metadata("a", config={})
    with pytest.raises(ValueError, match="threads"):
        wavetrain.metadata("a", threads=0)
    assert wavetrain.metadata([]) == b""


class Rank:
    """A communicator of one rank, of two that were told the same."""

    def __init__(self, rank, told=None):
        self.rank, self.told = rank, told

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return 2

    def bcast(self, given):
        self.told = self.told or given
        return self.told


def test_ranks_of_mpi_get_what_rank_0_finds(tmp_path):
    uri, _ = shards(tmp_path)
    first = Rank(0)
    found = mpi.bcast_metadata([uri], first)
    assert found == wavetrain.metadata(uri)
    assert mpi.bcast_metadata([uri], Rank(1, first.told)) == found
    first = Rank(0)
    with pytest.raises(wavetrain.NotFound):
        mpi.bcast_metadata(tmp_path / "nothing", first)
    with pytest.raises(wavetrain.NotFound):
        mpi.bcast_metadata(tmp_path / "nothing", Rank(1, pickle.loads(pickle.dumps(first.told))))


PROGRAM = """\
import sys, wavetrain
from cubes import box, config
given = config(samples_per_batch=8, metadata=open(sys.argv[1], "rb").read())
with wavetrain.Pipeline(given) as pipeline:
    pipeline.push([wavetrain.Sample(sys.argv[2], box(number)) for number in range(8)])
    pipeline.pop().release()
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")
def test_documents_are_looked_at_once_and_never_opened(tmp_path):
    uri, _ = shards(tmp_path)
    (tmp_path / "found").write_bytes(wavetrain.metadata(uri))
    (tmp_path / "program.py").write_text(PROGRAM)
    log = tmp_path / "log"
    path = os.pathsep.join([str(ROOT / "python"), str(ROOT / "tests/python")])
    subprocess.run(
        ["strace", "-f", "-o", log, "-e", "trace=file", sys.executable]
        + [str(word) for word in (tmp_path / "program.py", tmp_path / "found", uri)],
        env={**os.environ, "PYTHONPATH": path},
        check=True,
        timeout=100,
    )
    calls = [line for line in log.read_text().splitlines() if "zarr.json" in line]
    assert len(calls) == 1, calls
    assert "stat" in calls[0] and "open" not in calls[0]
