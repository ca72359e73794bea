"""What is wrong is an exception that says so, at its place in the stream."""

from __future__ import annotations

import pickle
import re
import shutil

import numpy
import pytest
from cubes import EDGE, config, run_program, write_cube

import wavetrain


def tags(batch):
    with batch:
        return list(batch.info.tags)


def raises(kind, call, match=None):
    """The exception, of exactly this class."""
    with pytest.raises(kind, match=match) as caught:
        call()
    assert type(caught.value) in (kind if isinstance(kind, tuple) else (kind,))
    return caught.value


def test_errors_of_the_store_come_behind_the_batches_before_them(cube, pipeline):
    stream = pipeline(samples_per_batch=1)
    missing = wavetrain.Sample(cube + "-missing", [(0, EDGE)] * 3, tag=1)
    stream.push([cube.sample(0), missing, *cube.samples(2, 40)])
    assert tags(stream.pop()) == [0]
    error = raises(wavetrain.NotFound, stream.pop)
    assert error.status is wavetrain.Status.NOT_FOUND and error.what == "pop"
    assert (error.tag, error.batch_id, error.sample) == (1, 1, 0)
    assert "cube.zarr-missing" in str(error)
    for call in (stream.pop, stream.flush, lambda: stream.push([cube.sample(3)])):
        raises(wavetrain.NotFound, call, "cube.zarr-missing")
    stream.reset()
    stream.push([cube.sample(4)])
    assert tags(stream.pop()) == [4]


def test_a_refused_sample_ends_its_iterable_and_nothing_else(cube, pipeline):
    short = wavetrain.Sample(cube, [(0, EDGE), (0, EDGE), (0, EDGE - 1)], tag=9)
    stream = pipeline(samples_per_batch=1)
    error = raises(
        wavetrain.InvalidArgument,
        lambda: stream.push([cube.sample(0), short, cube.sample(1)]),
        "sample_shape",
    )
    assert error.tag == 9 and error.what == "push"
    raises(wavetrain.RankMismatch, lambda: stream.push([wavetrain.Sample(cube, [(0, EDGE)])]))
    stream.push([cube.sample(2)])
    assert [tags(batch) for batch in stream.batches()] == [[0], [2]]


def test_what_is_no_sample_ends_its_iterable_and_nothing_else(cube, pipeline):
    stream = pipeline(samples_per_batch=1)
    for wrong in ("cell.zarr", None, (cube, [(0, EDGE)] * 3), object()):
        raises(
            TypeError,
            lambda wrong=wrong: stream.push([cube.sample(0), wrong, cube.sample(1)]),
            r"samples must be wavetrain\.Sample, made by Sample\(uri, aabb\)",
        )
        assert [tags(batch) for batch in stream.batches()] == [[0]]
    for wrong in (5, None):
        raises(TypeError, lambda wrong=wrong: stream.push(wrong), "must be an iterable")
    assert not stream.pending


def test_a_refused_sample_far_ahead_raises_where_it_is_pulled(cube, pipeline):
    short = wavetrain.Sample(cube, [(0, EDGE), (0, EDGE), (0, EDGE - 1)])
    stream = pipeline(samples_per_batch=1, lookahead_samples=1)
    stream.push([*cube.samples(100), short, cube.sample(0)])
    seen, refused = [], 0
    while len(seen) < 100:
        try:
            seen += tags(stream.pop())
        except wavetrain.InvalidArgument:
            refused += 1
    assert seen == list(range(100)) and refused == 1
    stream.flush()
    raises(wavetrain.EndOfStream, stream.pop)


def test_each_status_has_its_exception():
    kinds = [
        kind
        for kind in vars(wavetrain).values()
        if isinstance(kind, type)
        and issubclass(kind, wavetrain.WavetrainError)
        and kind is not wavetrain.WavetrainError
    ]
    assert {kind.status for kind in kinds} == set(wavetrain.Status) - {wavetrain.Status.OK}
    assert len(kinds) == len(wavetrain.Status) - 1
    assert all(kind.__doc__ and kind.__name__ in wavetrain.__all__ for kind in kinds)


def test_errors_travel_to_other_processes(cube, pipeline):
    stream = pipeline(samples_per_batch=1)
    stream.push([wavetrain.Sample(cube + "-missing", [(0, EDGE)] * 3, tag=7)])
    error = raises(wavetrain.NotFound, stream.pop)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)
    assert (again.tag, again.what, again.status) == (7, "pop", wavetrain.Status.NOT_FOUND)


def test_what_does_not_open_says_why():
    for changes, kind, text in (
        ({"max_host_memory_bytes": 1}, wavetrain.BudgetExceeded, "max_host_memory_bytes"),
        ({"enable_gds": True}, wavetrain.Unsupported, "enable_gds"),
        ({"device": 0}, wavetrain.InvalidArgument, "device"),
        ({"max_gpu_memory_bytes": 1}, wavetrain.InvalidArgument, "max_gpu_memory_bytes"),
        ({"chunk_cache_bytes": 1}, wavetrain.InvalidArgument, "chunk_cache_bytes"),
        ({"dtype": "raw"}, wavetrain.InvalidArgument, "dtype_bytes"),
        ({"dtype": "u8", "pad_value": 0.5}, wavetrain.InvalidArgument, "pad_value"),
    ):
        error = raises(kind, lambda changes=changes: wavetrain.Pipeline(config(**changes)), text)
        assert error.what == "open"


def test_a_type_without_a_cast_is_dtype_mismatch(cube, pipeline):
    stream = pipeline(dtype="i8")
    stream.push(cube.samples(4))
    raises(wavetrain.DtypeMismatch, stream.pop, "no cast from u16 .* to i8")


def test_a_box_outside_is_invalid_where_nothing_pads(cube, pipeline):
    stream = pipeline(samples_per_batch=1)
    stream.push([wavetrain.Sample(cube, [(60, 68), (0, 8), (0, 8)])])
    raises(wavetrain.InvalidArgument, stream.pop, "pad_mode")


def test_another_rank_than_the_array_has_is_rank_mismatch(cube, pipeline):
    stream = pipeline(samples_per_batch=1)
    stream.push([wavetrain.Sample(cube, [(0, 1), *[(0, 8)] * 3])])
    raises(wavetrain.RankMismatch, stream.pop)


def test_damage_is_decode_error_and_names_the_chunk(cube, pipeline, tmp_path):
    damaged = tmp_path / "damaged.zarr"
    write_cube(damaged, cube.data[:8, :8, :8], chunks=(8, 8, 8), shards=None)
    chunk = damaged / "c" / "0" / "0" / "0"
    chunk.write_bytes(bytes(reversed(chunk.read_bytes())))
    stream = pipeline(samples_per_batch=1)
    stream.push([wavetrain.Sample(damaged, [(0, 8)] * 3, tag=3)])
    error = raises(wavetrain.DecodeError, stream.pop, "damaged.zarr")
    assert error.chunk == (0, 0, 0) and error.tag == 3


def test_a_shard_that_is_cut_off_is_an_error_and_one_that_is_missing_is_fill(
    cube, pipeline, tmp_path
):
    copy = tmp_path / "copy.zarr"
    shutil.copytree(cube, copy)
    (copy / "c" / "0" / "0" / "0").unlink()
    cut = copy / "c" / "1" / "0" / "0"
    cut.write_bytes(cut.read_bytes()[:-7])
    stream = pipeline(samples_per_batch=1)
    stream.push([wavetrain.Sample(copy, [(0, 8)] * 3)])
    with stream.pop() as batch:
        assert (batch.numpy() == 42).all()
    stream.push([wavetrain.Sample(copy, numpy.s_[16:24, 0:8, 0:8])])
    raises(wavetrain.DecodeError, stream.pop, "copy.zarr")
    strict = pipeline(samples_per_batch=1, missing_chunks="error")
    strict.push([wavetrain.Sample(copy, [(0, 8)] * 3)])
    raises(wavetrain.NotFound, strict.pop, "copy.zarr")


def test_a_chunk_that_is_too_large_is_budget_and_fit_raises_the_cap(cube, pipeline):
    stream = pipeline(samples_per_batch=1, max_chunk_uncompressed_bytes=64)
    stream.push([cube.sample(0)])
    raises(wavetrain.BudgetExceeded, stream.pop, "max_chunk_uncompressed_bytes")
    fitted = pipeline(samples_per_batch=1, max_chunk_uncompressed_bytes=64, fit=[cube])
    fitted.push([cube.sample(0)])
    assert tags(fitted.pop()) == [0]
    raises(wavetrain.NotFound, lambda: pipeline(fit=[cube + "-missing"]), "cube.zarr-missing")


def test_array_info_tells_how_elements_are_packed(cube, tmp_path):
    assert wavetrain.array_info(cube).packing == wavetrain.Packing(0)
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(
        tmp_path / "packed", shape=(4,), chunks=(4,), dtype="i2", zarr_format=2
    )
    array.attrs.update({"scale_factor": 0.5, "_FillValue": -9999})
    packing = wavetrain.array_info(tmp_path / "packed").packing
    assert packing == wavetrain.Packing.SCALE | wavetrain.Packing.FILL


def test_array_info_describes_arrays_and_groups(cube, tmp_path):
    info = wavetrain.array_info(cube)
    assert info.kind is wavetrain.NodeKind.ARRAY and info.shape == (64, 64, 64)
    assert info.dtype is wavetrain.Dtype.U16 and info.dtype_name == "uint16"
    assert info.chunk_shape == (8, 8, 8) and info.file_shape == (16, 16, 16)
    assert info.chunk_bytes == 8**3 * 2 and "zstd" in info.codecs and info.uri == cube
    zarr = pytest.importorskip("zarr")
    group = zarr.create_group(tmp_path / "group.zarr")
    group.create_array("b", shape=(4,), dtype="f4")
    group.create_group("a")
    found = wavetrain.array_info(tmp_path / "group.zarr")
    assert found.kind is wavetrain.NodeKind.GROUP and found.entry_total == 2
    assert [(entry.path, entry.kind) for entry in found.entries] == [
        ("a", wavetrain.NodeKind.GROUP),
        ("b", wavetrain.NodeKind.ARRAY),
    ]
    assert found.dtype is None and found.shape == ()
    raises(wavetrain.NotFound, lambda: wavetrain.array_info(tmp_path / "nothing"), "nothing")
    raises(TypeError, lambda: wavetrain.array_info(5), "^uri must")
    raises(TypeError, lambda: wavetrain.array_info(cube, files=5), "^files must")


def test_an_image_of_ome_ngff_lists_its_levels(tmp_path):
    zarr = pytest.importorskip("zarr")
    levels = [
        {
            "path": str(level),
            "coordinateTransformations": [{"type": "scale", "scale": [2.0**level] * 2}],
        }
        for level in range(2)
    ]
    axes = [{"name": name, "type": "space"} for name in "yx"]
    ome = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": levels}]}
    group = zarr.create_group(tmp_path / "image.zarr", attributes={"ome": ome})
    for level in range(2):
        group.create_array(str(level), shape=(16 >> level,) * 2, dtype="u1")
    found = wavetrain.array_info(tmp_path / "image.zarr")
    assert found.kind is wavetrain.NodeKind.IMAGE
    assert [(each.path, each.level, each.scale) for each in found.entries] == [
        ("0", 0, (1.0, 1.0)),
        ("1", 1, (2.0, 2.0)),
    ]


def test_a_library_that_is_not_there_is_an_import_error_that_says_so():
    program = """
    import os
    os.environ["WAVETRAIN_LIBRARY"] = "/nowhere/libwavetrain.so.0"
    import wavetrain  # which opens nothing
    try:
        wavetrain.Pipeline(wavetrain.Config(samples_per_batch=1, sample_shape=(1,)))
    except ImportError as error:
        assert "/nowhere/libwavetrain.so.0" in str(error) and "$WAVETRAIN_LIBRARY" in str(error)
        print("said")
    """
    done = run_program(program)
    assert (done.stdout, done.stderr) == ("said\n", "")


# ---- Mistakes of new users: each text has the name, a short value, and the fix ------------------

BIG = numpy.zeros((100, 1000))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (BIG, "an array of 100 x 1000 float64"),
        (
            [BIG, {"a": BIG}],
            "[an array of 100 x 1000 float64, {'a': an array of 100 x 1000 float64}]",
        ),
        (BIG.tolist(), r"[[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, ...], "),
        (1 << 5000, "an int of 5001 bits"),
        (numpy.float32(1.5), "1.5"),
    ],
)
def test_a_value_that_is_refused_is_shown_in_short(given, found):
    text = str(raises((TypeError, ValueError), lambda: config(samples_per_batch=given)))
    assert found in text and len(text) < 400


@pytest.mark.parametrize("wrong", ["sample", "text", None, 5, {"uri": 1}])
def test_push_wants_an_iterable_of_samples(cube, pipeline, wrong):
    stream = pipeline(samples_per_batch=1)
    given = cube.sample(0) if wrong == "sample" else wrong
    text = r"samples must be an iterable of wavetrain\.Sample: push\(\[sample\]\) for one"
    raises(TypeError, lambda: stream.push(given), text)
    stream.push([cube.sample(2)])
    assert tags(stream.pop()) == [2]


def test_a_sequence_without_iter_is_pushed(cube, pipeline):
    class Two:
        def __getitem__(self, index):
            return [cube.sample(3), cube.sample(4)][index]

    stream = pipeline(samples_per_batch=2)
    stream.push(Two())
    assert tags(stream.pop()) == [3, 4]


@pytest.mark.parametrize(
    "use",
    [
        lambda batch: batch.info,
        lambda batch: batch.shape,
        lambda batch: batch.filled_shape,
        lambda batch: batch.numpy(),
        lambda batch: batch.field(0).dtype,
        len,
        numpy.asarray,
        numpy.from_dlpack,
    ],
)
def test_a_batch_that_was_released_says_what_to_keep(cube, pipeline, use):
    stream = pipeline(samples_per_batch=1)
    stream.push([cube.sample(0)])
    batch = stream.pop()
    batch.release()
    error = raises(wavetrain.InvalidArgument, lambda: use(batch), r"released.*batch\.numpy\(\)")
    assert "0x" not in str(error)


def test_a_tensor_of_a_batch_whose_pipeline_is_closed_is_refused_in_words_of_python(cube, pipeline):
    stream = pipeline(samples_per_batch=1)
    stream.push([cube.sample(0)])
    batch = stream.pop()
    stream.close()
    assert batch.shape == (1, EDGE, EDGE, EDGE)
    text = r"the pipeline of this batch is closed.*take batch\.numpy\(\)"
    raises(wavetrain.ShutdownError, batch.numpy, text)


@pytest.mark.parametrize(
    ("use", "kind", "text"),
    [
        (lambda stream, batch: iter(stream), TypeError, "iterate over pipeline.batches()"),
        (lambda stream, batch: batch[0], TypeError, "batch.numpy()[0] is its first sample"),
        (lambda stream, batch: batch.tags, AttributeError, "a batch has no tags: give batch.info."),
        (lambda stream, batch: batch.cuda(), AttributeError, "give batch.torch(), which has it"),
        (lambda stream, batch: batch.nunpy(), AttributeError, "the nearest name is numpy"),
    ],
)
def test_what_a_pipeline_or_a_batch_has_not_is_named(cube, pipeline, use, kind, text):
    stream = pipeline(samples_per_batch=1)
    stream.push([cube.sample(0)])
    with stream.pop() as batch:
        raises(kind, lambda: use(stream, batch), re.escape(text))


@pytest.mark.parametrize(
    ("uri", "kind", "text"),
    [
        (
            "s3://bucket/a.zarr",
            wavetrain.Unsupported,
            "give files=wavetrain.store(..) or wavetrain.fsspec(..)",
        ),
        ("hook:x", wavetrain.InvalidArgument, "only Config(source=..) has such arrays"),
    ],
)
def test_arrays_of_hooks_are_refused_in_words_of_python(pipeline, uri, kind, text):
    stream = pipeline(samples_per_batch=1)

    def stream_it():
        stream.push([wavetrain.Sample(uri, [(0, EDGE)] * 3)])
        stream.pop()

    raises(kind, stream_it, re.escape(text))


@pytest.mark.parametrize("wrong", [[BIG], 5, "a.zarr", [5]])
def test_fit_is_named_with_its_place(wrong):
    name = r"fit\[0\] must be a str" if isinstance(wrong, list) else "fit must be a list of arrays"
    raises(TypeError, lambda: wavetrain.Pipeline(config(), fit=wrong), name)


def test_an_array_of_fit_that_is_not_there_is_named_without_a_function_of_c(tmp_path):
    error = raises(
        wavetrain.NotFound, lambda: wavetrain.Pipeline(config(), fit=[tmp_path / "none.zarr"])
    )
    assert str(error).startswith("fit: ") and "none.zarr" in str(error)
