"""The programs of docs/engines.md, run as its lines say. Engines that are not here are skipped."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys

import numpy
import pytest
from cubes import ROOT, run_engine

PAGE = (ROOT / "docs" / "engines.md").read_text()
PROGRAMS = dict(re.findall(r"```python\n# (\w+\.py)(?:: [^\n]*)?\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = dict(re.findall(r"```python\n# (\w+\.py): (.*)\n", PAGE))
NEEDS = {
    "torch_ranks.py": "torch",
    "mpi_ranks.py": "mpi4py",
    "dask_sum.py": "distributed",
    "ray_train.py": "ray torch",
    "spark_boxes.py": "pyspark",
    "legate_sum.py": "legate",
}
DATA = numpy.random.default_rng(11).integers(0, 1000, (60, 5)).astype("f4")
SUM = f"sum {float(DATA.sum())}\n"
PRINTS = {
    "torch_ranks.py": ["rank 0 of 2 ends\n", "rank 1 of 2 ends\n"],
    "mpi_ranks.py": [SUM],
    "dask_sum.py": [SUM],
    "ray_train.py": ["{'position': 60"],
    "spark_boxes.py": ["boxes 6\n", "samples 64\n"],
    "legate_sum.py": [SUM],
    "driver.py": [SUM.strip(), "reads of metadata 0\n"],
    "parts.py": ["range(0, 20) 400 bytes in 1 file of plan "],
    "figures.py": ["batches 15.0\n"],
    "any.py": ["World(rank=0, world=1, local_rank=0, local_world=1, node=0, told_by='nobody')"],
}


def test_each_engine_has_a_short_program():
    assert {*COMMANDS} == {*PRINTS} == {*PROGRAMS} - {"rows.py"}
    for name, text in PROGRAMS.items():
        assert len(text.splitlines()) < 25, name


@pytest.mark.parametrize("name", PRINTS)
def test_a_program_of_the_page_runs(name, tmp_path, monkeypatch):
    for needs in NEEDS.get(name, "").split():
        if importlib.util.find_spec(needs) is None:
            pytest.skip(f"there is no {needs} here: tools/engines.sh")
    words = COMMANDS[name].split()
    if name == "spark_boxes.py" and not shutil.which("java"):
        pytest.skip("there is no java here: tools/engines.sh")
    for each in ("rows.py", name):
        (tmp_path / each).write_text(PROGRAMS[each].replace("/tmp/", f"{tmp_path}/"))
    numpy.save(tmp_path / "rows.npy", DATA)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    if words[0] == "torchrun":
        words[:1] = [sys.executable, "-m", "torch.distributed.run"]
    if words[0] == "mpirun":
        words[1:1] = ["--oversubscribe"]
    if words[0] in ("mpirun", "legate") and not shutil.which(words[0]):
        pytest.skip(f"there is no {words[0]} here: tools/engines.sh")
    words = [sys.executable if word == "python" else word for word in words]
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = run_engine(*words, timeout=200)
    for text in PRINTS[name]:
        assert text in done.stdout, done.stdout + done.stderr
    if name == "figures.py":
        assert (tmp_path / "wavetrain.prom").exists()
