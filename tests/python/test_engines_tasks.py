"""Tasks of an engine: one pipeline for those that follow each other in a process."""

from __future__ import annotations

import numpy
import pytest
from engine_data import Rows, settings, write

import wavetrain
from wavetrain.engines import _tasks


@pytest.fixture
def opens(monkeypatch):
    """The pipelines that were opened."""
    made, whole = [], _tasks.open_for

    def noted(*given):
        made.append(whole(*given))
        return made[-1]

    monkeypatch.setattr(_tasks, "open_for", noted)
    return made


def rows_of(dataset, config, part):
    found = [*_tasks.batches_of(dataset, config, part)]
    assert [tag for each in found for tag in each["tag"]] == [*part]
    return numpy.concatenate([each["x"] for each in found])[:, 0]


def test_tasks_that_follow_each_other_open_once(tmp_path, opens):
    data = write(tmp_path / "rows.npy")
    rows, config = Rows(tmp_path / "rows.npy"), settings()
    for part in _tasks.parts_of(rows, 13):
        numpy.testing.assert_array_equal(rows_of(rows, config, part), data[part.start : part.stop])
    assert len(opens) == 1
    # Another config or array is another pipeline, and no more than some are kept.
    others = [settings(samples_per_batch=number) for number in (1, 2, 3)]
    for other in [*others, config]:
        numpy.testing.assert_array_equal(rows_of(rows, other, range(9)), data[:9])
    assert len(opens) == 5 and len(_tasks.kept) == _tasks.KEPT_MAX


def test_a_task_sees_files_that_were_written_anew(tmp_path, opens):
    for _ in range(3):
        data = write(tmp_path / "rows.npy", 20) + len(opens)
        numpy.save(tmp_path / "rows.npy", data)
        rows = Rows(tmp_path / "rows.npy")
        numpy.testing.assert_array_equal(rows_of(rows, settings(), range(20)), data)


@pytest.mark.parametrize("way", ["fails", "is stopped"])
def test_a_task_that_does_not_end_leaves_nothing_to_the_next(tmp_path, opens, way):
    data = write(tmp_path / "rows.npy")
    rows = Rows(tmp_path / "rows.npy")
    if way == "fails":
        whole = (tmp_path / "rows.npy").read_bytes()
        begun = _tasks.batches_of(rows, settings(), range(60))
        (tmp_path / "rows.npy").write_bytes(whole[:900])
        with pytest.raises(wavetrain.WavetrainError):
            list(begun)
        (tmp_path / "rows.npy").write_bytes(whole)
    else:
        begun = _tasks.batches_of(rows, settings(), range(60))
        next(begun)
        begun.close()
    assert not _tasks.kept
    numpy.testing.assert_array_equal(rows_of(rows, settings(), range(5, 25)), data[5:25])


def test_a_config_that_is_not_sent_is_not_kept(tmp_path, opens):
    class OfScript:
        def describe(self, name):
            return wavetrain.SourceInfo((60, 5), "i64")

        def read(self, name, start, shape):
            rows = numpy.arange(start[0], start[0] + shape[0])
            return numpy.repeat(rows[:, None], shape[1], axis=1)

    class Numbers:
        def __len__(self):
            return 8

        def __getitem__(self, number):
            return wavetrain.Sample("hook:a", [(number, number + 1), (0, 5)], tag=number)

    config = settings(source=OfScript())
    for _ in range(2):
        made = rows_of(Numbers(), config, range(8))
        numpy.testing.assert_array_equal(made[:, 0], range(8))
    assert len(opens) == 2 and not _tasks.kept
