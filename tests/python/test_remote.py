"""Stores far away by the package wavetrain-remote: moto's S3, a web server, archives.

Skipped where its library is not built: remote/archive.sh DIR makes it,
WAVETRAIN_REMOTE_LIBRARY=DIR/libwavetrain_remote.so.0 and remote/python on the path name it.
"""

from __future__ import annotations

import os
import pickle
import shutil
import warnings

import numpy
import pytest
from cubes import FILL, ROOT, config, run_program, voxels, write_cube
from far_servers import KEYS, Bucket, Web

import wavetrain
from wavetrain import _remote

zarr = pytest.importorskip("zarr", minversion="3", reason="there is no zarr-python 3 here")
DATA = voxels(24)
BOX = numpy.s_[3:11, 5:13, 7:15]


@pytest.fixture(scope="module")
def installed():
    found = _remote.package()
    if found is None:
        pytest.skip("there is no wavetrain_remote here: put remote/python on the path")
    if not found.library_path().is_file():
        pytest.skip(f"{found.library_path()} is not built: remote/archive.sh makes it")
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Arrays, a group that lists them, numbered files, an archive."""
    folder = tmp_path_factory.mktemp("far")
    write_cube(folder / "cube.zarr", DATA)
    group = zarr.open_group(folder / "group.zarr", mode="w")
    for name in ("a", "b"):
        group.create_array(name, shape=(4,), chunks=(2,), dtype="u2")[...] = [1, 2, 3, 4]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zarr-python: v3 has no words for it
        zarr.consolidate_metadata(folder / "group.zarr")
    zarr.open_group(folder / "plain.zarr", mode="w").create_array("c", shape=(4,), dtype="u1")
    (folder / "rows").mkdir()
    for number in range(12):
        rows = numpy.arange(8, dtype="u2").reshape(2, 4) + 8 * number
        numpy.save(folder / "rows" / f"part_{number:03}.npy", rows)
    shutil.make_archive(str(folder / "packed"), "zip", folder, "cube.zarr")
    return folder


@pytest.fixture(scope="module")
def web(installed, folder):
    served = Web(folder)
    yield served
    served.close()


@pytest.fixture(scope="module")
def bucket(installed, folder):
    pytest.importorskip("moto.server", reason="there is no moto here")
    made = Bucket(folder)
    yield made
    made.close()


@pytest.fixture
def s3(bucket):
    """The way to the bucket, with keys."""
    keys = {name: value for name, value in KEYS.items() if name != "region_name"}
    return wavetrain.remote(region=KEYS["region_name"], endpoint=bucket.endpoint, options=keys)


async def refused(*_, **__):
    raise AssertionError("zarr-python was asked")


def streamed(uri, files=None):
    with wavetrain.Pipeline(config(samples_per_batch=1), files=files) as pipeline:
        pipeline.push([wavetrain.Sample(uri, BOX)])
        with pipeline.pop() as batch:
            return numpy.from_dlpack(batch).copy()[0]


def check(uri, files=None):
    """A box of the cube, by all ways to it."""
    assert (streamed(uri, files) == DATA[BOX]).all()
    with wavetrain.Reader(files=files) as reader:
        assert (reader.read(uri, BOX) == DATA[BOX]).all()
    assert wavetrain.array_info(uri, files=files).shape == DATA.shape


def test_a_box_of_a_bucket(s3):
    check("s3://bucket/cube.zarr", s3)
    assert s3.stats()["requests"] > 0


def test_a_box_of_a_web_server_without_files(web):
    check(f"{web.address}/cube.zarr")


def test_a_box_of_an_archive(s3, web, folder):
    check("s3://bucket/packed.zip/cube.zarr", s3)
    check(f"zip:{web.address}/packed.zip/cube.zarr")
    check(f"{folder}/packed.zip/cube.zarr")


def test_missing_chunks_are_the_fill_value_and_missing_arrays_not_found(web, folder):
    write_cube(folder / "holed.zarr", DATA, shards=None)
    for chunk in (folder / "holed.zarr/c/0").glob("*/*"):
        chunk.unlink()
    assert (streamed(f"{web.address}/holed.zarr")[:5] == FILL).all()
    with pytest.raises(wavetrain.NotFound):
        streamed(f"{web.address}/none.zarr")


def test_a_refusal_is_an_error_that_names_object_and_reason(web):
    web.handler.status = 403
    try:
        with pytest.raises(wavetrain.StorageError, match=r"cube\.zarr.*403"):
            streamed(f"{web.address}/cube.zarr")
    finally:
        web.handler.status = 0
    check(f"{web.address}/cube.zarr")


def test_chunks_that_are_denied_are_missing_only_if_absent_says_so(web, folder):
    """S3 answers 403 for absent keys where the caller may not list."""
    write_cube(folder / "denied.zarr", DATA, shards=None)
    for chunk in (folder / "denied.zarr/c/0").glob("*/*"):
        chunk.unlink()
    uri, files = f"{web.address}/denied.zarr", wavetrain.remote(absent="404,403", threads=1)
    web.handler.missing = 403
    try:
        with pytest.raises(wavetrain.StorageError, match=r"c/0.*403.*absent = \"404,403\""):
            streamed(uri)
        assert (streamed(uri, files)[:5] == FILL).all()
        assert files.stats()["denied"] > 0
        with pytest.raises(wavetrain.NotFound, match=r"none\.zarr.*403"):
            streamed(f"{web.address}/none.zarr", files)
    finally:
        web.handler.missing = 404


def test_groups_and_numbered_files_are_listed(s3):
    info = wavetrain.array_info("s3://bucket/plain.zarr", files=s3)
    assert [entry.path for entry in info.entries] == ["c"]
    for uri in ("s3://bucket/rows", "s3://bucket/rows/part_*.npy"):
        assert wavetrain.array_info(uri, files=s3).shape == (24, 4)


def test_a_web_server_has_the_groups_that_metadata_lists_and_asks_for_numbered_files(web):
    info = wavetrain.array_info(f"{web.address}/group.zarr")
    assert [entry.path for entry in info.entries] == ["a", "b"]
    uri = f"{web.address}/rows/part_*.npy"
    assert wavetrain.array_info(uri).shape == (24, 4)
    with wavetrain.Reader(max_npy_files=64) as reader:
        got = reader.read(uri, numpy.s_[5:9, 0:4])
    assert (got == numpy.arange(20, 36).reshape(4, 4)).all()


def test_data_loaders_read_far_arrays(web):
    class Boxes:
        def __len__(self):
            return 8

        def sample(self, index):
            return wavetrain.Sample(f"{web.address}/cube.zarr", [(index, index + 8)] * 3)

        __getitem__ = sample

    settings = config(samples_per_batch=1)
    loader = wavetrain.DataLoader(Boxes(), batch_size=4, shuffle=False, config=settings)
    with loader:
        got = numpy.concatenate([numpy.from_dlpack(batch).copy() for batch in loader])
    want = [DATA[at : at + 8, at : at + 8, at : at + 8] for at in range(8)]
    assert (got == numpy.stack(want)).all()


def test_an_array_of_obstore_is_read_without_zarr(bucket, monkeypatch):
    obstore = pytest.importorskip("obstore.store", reason="there is no obstore here")
    names = {name.removeprefix("aws_"): value for name, value in KEYS.items()}
    names["region"] = names.pop("region_name")
    inner = obstore.S3Store(
        "bucket", endpoint=bucket.endpoint, client_options={"allow_http": True}, **names
    )
    array = zarr.open_array(zarr.storage.ObjectStore(inner, read_only=True), path="cube.zarr")
    monkeypatch.setattr(zarr.storage.ObjectStore, "get", refused)
    assert (streamed(array) == DATA[BOX]).all()
    with wavetrain.Reader() as reader:
        assert (reader.read(array, BOX) == DATA[BOX]).all()
    assert wavetrain.array_info(array).uri == "s3://bucket/cube.zarr"
    # A store of its own stays one.
    monkeypatch.undo()
    assert (streamed(array, wavetrain.store(array)) == DATA[BOX]).all()


def test_an_array_of_fsspec_is_read_without_zarr(web, monkeypatch):
    pytest.importorskip("aiohttp", reason="there is no aiohttp here")
    store = zarr.storage.FsspecStore.from_url(f"{web.address}/cube.zarr", read_only=True)
    array = zarr.open_array(store)
    monkeypatch.setattr(zarr.storage.FsspecStore, "get", refused)
    monkeypatch.setattr(type(store.fs), "_cat_file", refused)
    assert (streamed(array) == DATA[BOX]).all()


def test_a_store_with_an_option_that_is_not_known_stays_with_zarr(installed):
    class S3FileSystem:
        def __init__(self, **given):
            self.storage_options = given

        def unstrip_protocol(self, path):
            return f"s3://{path}"

    class FsspecStore:
        path = "bucket/a"

        def __init__(self, **given):
            self.fs = S3FileSystem(**given)

    root, way = _remote.far_of(FsspecStore(anon=True, client_kwargs={"region_name": "x"}))
    assert (root, way) == ("s3://bucket/a", wavetrain.remote(region="x", anonymous=True))
    assert _remote.far_of(FsspecStore(anon=True, requester_pays=True)) is None
    assert _remote.far_of(FsspecStore(profile="me")) is None


def test_ways_are_sent_to_other_processes_and_show_no_secret(installed):
    way = wavetrain.remote(options={"aws_secret_access_key": "swordfish"}, region="x", threads=3)
    assert pickle.loads(pickle.dumps(way)) == way
    assert way != wavetrain.remote(region="x")
    assert "swordfish" not in repr(way) and "aws_secret_access_key" in repr(way)
    assert "swordfish" not in repr(wavetrain.remote(proxy="http://me:swordfish@proxy"))


def test_loaders_of_the_same_options_share_a_client(web):
    one, other = wavetrain.remote(threads=1), wavetrain.remote(threads=1)
    check(f"{web.address}/cube.zarr", one)
    assert one.client() is other.client()


def test_options_that_are_wrong_are_refused_by_name(installed):
    with pytest.raises(TypeError, match="anonymous"):
        wavetrain.remote(anonymous="yes")
    with pytest.raises(ValueError, match="colour"):
        wavetrain.remote(options={"colour": "red"}).client()
    with pytest.raises(ValueError, match="n_threads"):
        wavetrain.remote(threads=0).client()


def test_a_forked_child_is_refused_what_is_open_and_opens_its_own(web):
    if not hasattr(os, "fork"):
        pytest.skip("there is no fork here")
    program = f"""
        import os, sys, warnings
        sys.path.insert(0, "{ROOT}/remote/python")
        warnings.simplefilter("ignore")  # of fork, next to threads
        import numpy, wavetrain
        uri, box = "{web.address}/cube.zarr", numpy.s_[3:11, 5:13, 7:15]
        files = wavetrain.remote()
        reader = wavetrain.Reader(files=files)
        want = reader.read(uri, box)
        client = files.client()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                try:
                    reader.read(uri, box)
                except wavetrain.ShutdownError:
                    assert "fork" in client.last_error()
                    with wavetrain.Reader(files=files) as own:
                        assert (own.read(uri, box) == want).all()
                    status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        reader.close()
    """
    run_program(program)


def test_without_the_package_the_error_names_it(monkeypatch):
    monkeypatch.setattr(_remote, "package", lambda: None)
    with pytest.raises(wavetrain.Unsupported, match="pip install wavetrain-remote"):
        streamed("s3://bucket/cube.zarr")
    with pytest.raises(wavetrain.Unsupported, match="pip install wavetrain-remote"):
        wavetrain.array_info("https://host/cube.zarr")
    missing = pytest.raises(wavetrain.Unsupported, match="pip install wavetrain-remote")
    with wavetrain.Reader() as reader, missing:
        reader.read("s3://bucket/cube.zarr", BOX)
    with pytest.raises(ImportError, match="pip install wavetrain-remote"):
        wavetrain.remote().client()


def test_uris_of_stores_far_away_are_known_by_their_scheme(tmp_path):
    for uri in (
        "s3://b/a",
        "gs://b/a",
        "az://b/a",
        "https://h/a",
        "zip:/x.zip/a",
        "raw:s3://b/a?x",
    ):
        assert _remote.is_far(uri), uri
    for uri in ("/data/a", "file:///data/a", "memory://a", "hook:a", "a.zip/b", "s3/a"):
        assert not _remote.is_far(uri), uri
    (tmp_path / "a.zip").write_bytes(b"")
    assert _remote.is_far(f"{tmp_path}/a.zip/b") and _remote.is_far(f"{tmp_path}/a.zip")
