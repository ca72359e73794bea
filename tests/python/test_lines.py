"""Texts that somebody else chose forge no line of a log or an error."""

import logging

import pytest

import wavetrain
from wavetrain import _log

EVIL = "a\nwavetrain ERROR forged\r\t\x1b[2J\x7f\x85\u2028\u202eb"
SHOWN = "a\\nwavetrain ERROR forged\\r\\t\\u{1b}[2J\\u{7f}\\u{85}\\u{2028}\\u{202e}b"


def test_a_line_is_escaped_as_the_library_escapes_it():
    assert _log.line(EVIL) == SHOWN
    assert _log.line(SHOWN) == SHOWN
    assert _log.line("čš \\ \u2026") == "čš \\ \u2026"


def failing(uri, files=None):
    config = wavetrain.Config(samples_per_batch=1, sample_shape=(4,))
    with wavetrain.Pipeline(config, files=files) as pipeline:
        pipeline.push([wavetrain.Sample(uri, [(0, 4)])])
        with pytest.raises(wavetrain.WavetrainError) as caught:
            pipeline.pop()
    return caught.value


def test_names_are_one_line_of_the_log_and_of_errors(tmp_path, caplog):
    with caplog.at_level(logging.DEBUG, "wavetrain"):
        error = failing(f"{tmp_path}/{EVIL}")
    assert SHOWN in str(error)
    assert any(SHOWN in record.getMessage() for record in caplog.records)
    assert all(len(record.getMessage().splitlines()) == 1 for record in caplog.records)


class Failing:
    """Files that fail with a text of somebody else's."""

    def size(self, name) -> int:
        raise OSError(f"{name} is not what it was")

    def read(self, name, offset, target):
        raise OSError(name)


def test_a_cause_is_found_by_its_name_and_told_as_one_line(caplog):
    with caplog.at_level(logging.DEBUG, "wavetrain"):
        error = failing(EVIL, Failing())
    assert isinstance(error.__cause__, OSError)
    assert EVIL in str(error.__cause__)
    assert len(str(error).splitlines()) == 1
    assert all(len(record.getMessage().splitlines()) == 1 for record in caplog.records)


@pytest.mark.parametrize("is_heard", [True, False])
def test_lines_of_reads_come_to_python_if_somebody_hears_them_as_a_pipeline_opens(
    cube, pipeline, caplog, monkeypatch, is_heard
):
    levels = []
    monkeypatch.setattr(_log.LOGGER, "log", lambda level, *_, **__: levels.append(level))
    with caplog.at_level(_log.TRACE if is_heard else logging.DEBUG, "wavetrain"):
        stream = pipeline()
        stream.push(cube.samples(4))
        stream.pop().release()
        stream.close()
    assert (_log.TRACE in levels) == is_heard and logging.INFO in levels
