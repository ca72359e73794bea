"""Spark: a data source of boxes, and loaders of the tasks of a barrier stage."""

from __future__ import annotations

import json
import shutil

import numpy
import pytest
from cubes import FILL, Cube, run_engine
from engine_data import write

pytest.importorskip("pyspark", reason="there is no pyspark here: tools/engines.sh")
if not shutil.which("java"):
    pytest.skip("there is no java here: tools/engines.sh", allow_module_level=True)

PROGRAM = """
import json, os, pathlib, signal, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
from pyspark.sql import SparkSession
import numpy
import wavetrain.engines as engines
from engine_data import Rows, settings, sums

cube, path, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
spark = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
spark = spark.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
engines.spark.register(spark)
frame = spark.read.format("wavetrain").option("box", "16,24,64").option("rows", "3").load(cube)


def sent(batches):
    for batch in batches:
        for number in batch.column("number").to_pylist():
            if number == 5:
                try:
                    (folder / "killed").touch(exist_ok=False)
                    os.kill(os.getpid(), signal.SIGKILL)
                except FileExistsError:
                    pass
        yield batch


rows = frame.mapInArrow(sent, frame.schema).collect()
boxes = {row.number: bytes(row.data) for row in rows}
assert len(boxes) == len(rows)
numpy.savez(folder / "boxes.npz", *[numpy.frombuffer(boxes[n], "u2") for n in range(len(boxes))])
try:
    spark.read.format("wavetrain").load(cube).count()
except Exception as error:
    print("option('box', ..)" in str(error))


def train(_):
    given = {"config": settings(), "shuffle": True, "seed": 3}
    with engines.spark.barrier_loader(Rows(path), 4, **given) as loader:
        if state:
            loader.load_state_dict(state)
        seen = []
        for number, batch in enumerate(loader):
            seen += sums(batch)
            if not state and number == 2:
                break
        yield seen, dict(loader.state_dict()), len(loader)


seen, state = [], None
for world in (1, 2):
    ranks = spark.sparkContext.parallelize(range(world), world).barrier()
    found = ranks.mapPartitions(train).collect()
    seen += [each for part, _, _ in found for each in part]
    assert len({count for _, _, count in found}) == 1
    state = found[0][1]
(folder / "seen.json").write_text(json.dumps(sorted(seen)))
spark.stop()
"""


def test_boxes_and_loaders_of_tasks_read_each_sample_once(cube, tmp_path):

    data = write(tmp_path / "a.npy")
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run_engine(tmp_path / "program.py", cube, tmp_path / "a.npy", tmp_path, timeout=280)
    assert (tmp_path / "killed").exists() and done.stdout == "True\n"
    boxes = numpy.load(tmp_path / "boxes.npz")
    padded = numpy.pad(Cube.data, ((0, 0), (0, 8), (0, 0)), constant_values=FILL)
    wanted = [padded[z : z + 16, y : y + 24] for z in range(0, 64, 16) for y in range(0, 72, 24)]
    for number, box in enumerate(wanted):
        numpy.testing.assert_array_equal(boxes[f"arr_{number}"].reshape(box.shape), box)
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen == [[number, int(row.sum())] for number, row in enumerate(data)]
