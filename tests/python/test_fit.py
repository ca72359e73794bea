"""What Pipeline's fit takes."""

import numpy
import pytest

import wavetrain

zarr = pytest.importorskip("zarr", reason="zarr-python writes the arrays")


@pytest.fixture
def array(tmp_path):
    """An array with chunks that are larger than the config allows."""
    return zarr.create_array(store=str(tmp_path / "array"), shape=(64,), chunks=(64,), dtype="u2")


@pytest.fixture
def config():
    return wavetrain.Config(
        samples_per_batch=1, sample_shape=(64,), max_chunk_uncompressed_bytes=64, backend="host"
    )


def test_one_path_is_not_taken_for_a_list_of_its_letters(array, config, tmp_path):
    for one in (str(tmp_path / "array"), tmp_path / "array"):
        with pytest.raises(TypeError, match="fit must be a list"):
            wavetrain.Pipeline(config, fit=one)


def test_it_takes_arrays_in_all_the_forms_that_samples_do(array, config, tmp_path):
    for form in (str(tmp_path / "array"), tmp_path / "array", array):
        with wavetrain.Pipeline(config, fit=[form]) as pipeline:
            pipeline.push([wavetrain.Sample(form, [(0, 64)])])
            with next(pipeline.batches()) as batch:
                assert batch.info.shape == (1, 64)


def test_it_makes_room_for_folders_of_numbered_files(config, tmp_path):
    rows = numpy.arange(300, dtype="u2")
    for folder, cuts in (("a", [10, 10, 150, 299]), ("b", range(1, 300))):
        (tmp_path / folder).mkdir()
        for number, part in enumerate(numpy.split(rows, cuts)):
            numpy.save(tmp_path / folder / f"part_{number:04}.npy", part)
    both = [tmp_path / "a", tmp_path / "b" / "part_*.npy"]
    for fit in ((), both):
        with wavetrain.Pipeline(config, fit=fit) as pipeline:
            pipeline.push(wavetrain.Sample(each, [(100, 164)]) for each in both)
            if fit:
                for _ in both:
                    with pipeline.pop() as batch:
                        assert batch.numpy()[0].tolist() == [*range(100, 164)]
            else:
                with pytest.raises(wavetrain.BudgetExceeded, match="max_npy_files"):
                    pipeline.pop()
