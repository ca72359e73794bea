"""Objects that describe work are sent to other processes; those that stand for threads of one name
what to send in their place. All names of the package are looked at."""

from __future__ import annotations

import pickle
from importlib import import_module

import numpy
import pytest
from cubes import config

import wavetrain

try:
    import cloudpickle
except ImportError:  # without it pickle alone is tried
    cloudpickle = None

WAYS = [pickle] if cloudpickle is None else [pickle, cloudpickle]
if cloudpickle is None:
    print("skipped: there is no cloudpickle here")


class Rows:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return wavetrain.Sample(boxes=[wavetrain.Box(array=numpy.full(3, index, "u2"))], tag=index)


class Names:
    """A source, and files."""

    def describe(self, name):
        return wavetrain.SourceInfo((4,), "u16")

    def read(self, name, start, shape=None):
        raise FileNotFoundError(name)

    def size(self, name):
        raise FileNotFoundError(name)


def rows():
    fields = [wavetrain.Field("x", (3,), "u16")]
    return config(samples_per_batch=2, fields=fields, sample_shape=())


TURNED = ((0.0, 1.0, 0.0), (-1.0, 0.0, 8.0))
# One of each class, made of the uri of a cube.
WORK = {
    "Affine": lambda _: wavetrain.Affine(TURNED),
    "Affines": lambda _: wavetrain.Affines([TURNED]),
    "ArrayInfo": wavetrain.array_info,
    "Arrays": lambda _: Names(),
    "Augment": lambda _: wavetrain.Augment(),
    "Axis": lambda _: wavetrain.Axis("z", "space", "micrometer"),
    "BatchInfo": None,  # of a batch, below
    "Box": lambda cube: wavetrain.Box(cube, numpy.s_[0:8, 0:8, 0:8]),
    "Column": lambda cube: wavetrain.Column([cube], numpy.zeros((1, 3), "i8"), (8, 8, 8)),
    "Config": lambda _: config(source=Names()),
    "DataLoader": lambda _: wavetrain.DataLoader(Rows(), 2, config=rows(), shuffle=True),
    "Entry": lambda _: wavetrain.Entry("0", wavetrain.NodeKind.ARRAY, 0, (1.0,)),
    "Erase": lambda _: wavetrain.Erase((0, 0), (1, 1)),
    "Field": lambda _: wavetrain.Field("x", (3,), "u16"),
    "Files": lambda _: Names(),
    "FsspecFiles": lambda _: wavetrain.FsspecFiles(import_module("fsspec").filesystem("file")),
    "Image": lambda cube: wavetrain.Image(cube, (), (wavetrain.Level(cube, (8,), (1.0,), (0.0,)),)),
    "LatencyModel": lambda _: wavetrain.LatencyModel(baseline_ns=5),
    "Level": lambda cube: wavetrain.Level(cube, (8,), (1.0,), (0.0,)),
    "Metric": lambda _: wavetrain.Metric("io", 1.0, 1.0, 2.0, 3.0, 1),
    "Sample": lambda cube: wavetrain.Sample(cube, numpy.s_[0:8, 0:8, 0:8], tag=3),
    "SourceInfo": lambda _: wavetrain.SourceInfo((4,), "u16"),
    "Statistics": wavetrain.statistics,
    "Stats": None,  # of a pipeline
    "StoreFiles": lambda cube: wavetrain.store(stored(cube)),
}
OF_A_PROCESS = {"Batch", "BatchField", "Consumer", "Owner", "Pipeline", "Reader"}


def stored(cube):
    import zarr

    return zarr.open_array(cube, mode="r")


def classes():
    found = {name: getattr(wavetrain, name) for name in wavetrain.__all__}
    return {name: each for name, each in found.items() if isinstance(each, type)}


def test_each_name_of_the_package_is_looked_at():
    plain = {
        name
        for name, each in classes().items()
        if issubclass(each, Exception) or hasattr(each, "__members__")
    }
    assert {*classes()} - plain == {*WORK} | OF_A_PROCESS


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_functions_errors_and_choices_are_sent(way):
    for name in wavetrain.__all__:
        each = getattr(wavetrain, name)
        assert way.loads(way.dumps(each)) is each or each == way.loads(way.dumps(each))
        for member in getattr(each, "__members__", {}).values():
            assert way.loads(way.dumps(member)) is member
        if isinstance(each, type) and issubclass(each, wavetrain.WavetrainError):
            error = way.loads(way.dumps(each("read: no room")))
            assert type(error) is each and str(error) == "read: no room"


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", [name for name in WORK if WORK[name]])
def test_what_describes_work_is_sent(way, name, cube):
    if name == "FsspecFiles":
        pytest.importorskip("fsspec", reason="there is no fsspec here")
    one = WORK[name](str(cube))
    again = way.loads(way.dumps(one))
    assert isinstance(again, type(one)) or way is cloudpickle
    if hasattr(type(one), "__dataclass_fields__") and name not in ("Config", "Column"):
        assert repr(again) == repr(one)
    if name == "DataLoader":
        assert again.state_dict() == one.state_dict()
        with again:
            assert sorted(
                tag for batch in again for tag in (batch.info.tags, batch.release())[0]
            ) == [*range(8)]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_is_of_a_process_names_what_to_send(way, cube):
    with wavetrain.Reader() as reader, wavetrain.Pipeline(rows()) as pipeline:
        pipeline.push([Rows()[0], Rows()[1]])
        with pipeline.pop() as batch:
            info, stats = (way.loads(way.dumps(each)) for each in (batch.info, pipeline.stats()))
            assert info == batch.info and stats.batches_emitted == 1
            for one in (reader, pipeline, batch, batch["x"]):
                assert type(one).__name__ in OF_A_PROCESS
                with pytest.raises(TypeError, match=r"cannot be copied or pickled, .*: \w+"):
                    way.dumps(one)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_shares_a_pipeline_names_what_to_send(way):
    with wavetrain.serve(rows(), "engines-pickles", 1) as owner:
        for one in (owner, wavetrain.attach("engines-pickles", 0)):
            assert type(one).__name__ in OF_A_PROCESS
            with pytest.raises(TypeError, match=r"cannot be copied or pickled, .*: \w+"):
                way.dumps(one)
        one.close()
