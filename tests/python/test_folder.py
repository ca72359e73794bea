"""A relative uri is of the folder at open."""

import pytest

import wavetrain


def test_a_relative_uri_is_of_the_folder_at_open(tmp_path, monkeypatch):
    numpy = pytest.importorskip("numpy")
    for number, name in enumerate(["one", "two"]):
        (tmp_path / name).mkdir()
        numpy.save(tmp_path / name / "x.npy", numpy.full(4, number + 1, "f4"))
    monkeypatch.chdir(tmp_path / "one")
    config = wavetrain.Config(samples_per_batch=1, sample_shape=(4,))
    with wavetrain.Pipeline(config) as pipeline:
        monkeypatch.chdir(tmp_path / "two")
        pipeline.push([wavetrain.Sample("x.npy", [(0, 4)])])
        assert pipeline.pop().numpy().tolist() == [[1, 1, 1, 1]]
