"""What Pipeline's fit takes."""

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
