#!/usr/bin/env python3
"""remote.py [LATENCY_MS ..]: cold reads over http, next to tensorstore and zarr-python on obstore.

    WAVETRAIN_REMOTE_LIBRARY=.. PYTHONPATH=python:remote/python python benches/remote.py 5 50

A server of its own process waits so long before each answer. A row is one reader in a fresh
process: requests and bytes that the server saw, wall and CPU seconds of the reader. Readers take
turns, and the best of REPEATS counts; READERS of the environment chooses some. Cases: the first box
of a cold shard; 64 random boxes of 32^3 in shards; the same of chunks that are files; all of the
shards by boxes of 64^3 in order; 256 small arrays, one box each. wavetrain has 64 boxes in flight,
in 8 batches, and the others all. The reader fsspec is wavetrain by `wavetrain.fsspec`, whose bytes
go through Python.
"""

from __future__ import annotations

import http.server
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/python"))

REPEATS = 3
EDGE, SCAN_EDGE, SIZE, BOXES, ARRAYS = 32, 64, 256, 64, 256
CASES = ("first", "shards", "chunks", "scan", "arrays")
READERS = ("wavetrain", "tensorstore", "obstore", "fsspec")
READERS = tuple(os.environ.get("READERS", " ".join(READERS)).split())


def write(folder: Path) -> None:
    import numpy
    import zarr

    random = numpy.random.default_rng(7)
    data = random.integers(0, 4096, (SIZE,) * 3, dtype="u2")
    shapes = {"shards": {"shards": (128,) * 3}, "chunks": {}}
    for name, more in shapes.items():
        array = zarr.create_array(
            folder / name, shape=data.shape, chunks=(EDGE,) * 3, dtype="u2", **more
        )
        array[...] = data
    for number in range(ARRAYS):
        array = zarr.create_array(
            folder / f"arrays/{number}", shape=(16,) * 3, chunks=(16,) * 3, dtype="u2"
        )
        array[...] = data[:16, :16, number : number + 1]


def serve(folder: Path, latency_ms: float) -> None:
    """Prints the address, and ends with standard input. /figures has and resets the counts."""
    from far_servers import Handler

    figures = [0, 0]

    class Server(http.server.ThreadingHTTPServer):
        # With the five of the default, connections that are opened at once wait for seconds.
        request_queue_size = 1024

    class Late(Handler):
        disable_nagle_algorithm = True  # the body is not held back until the head is confirmed

        def reply(self, status, data, headers, is_head):
            figures[0] += 1
            figures[1] += 0 if is_head else len(data)
            super().reply(status, data, headers, is_head)

        def do_GET(self):
            if self.path == "/figures":
                text, figures[:] = json.dumps(figures).encode(), [0, 0]
                super().reply(200, text, {}, False)
                return
            time.sleep(latency_ms / 1000)
            self.answer(is_head=False)

        def do_HEAD(self):
            time.sleep(latency_ms / 1000)
            self.answer(is_head=True)

    from collections import Counter

    Late.folder, Late.requests = folder, Counter()
    server = Server(("127.0.0.1", 0), Late)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # readers end before the last answer
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


def boxes(case: str) -> list[tuple[str, tuple[slice, ...]]]:
    import numpy

    random = numpy.random.default_rng(11)
    if case == "arrays":
        return [(f"arrays/{number}", (slice(0, 16),) * 3) for number in range(ARRAYS)]
    if case == "scan":
        ends = range(0, SIZE, SCAN_EDGE)
        return [
            ("shards", tuple(slice(at, at + SCAN_EDGE) for at in each))
            for each in itertools.product(ends, ends, ends)
        ]
    corners = random.integers(0, SIZE - EDGE, (1 if case == "first" else BOXES, 3))
    name = "chunks" if case == "chunks" else "shards"
    return [(name, tuple(slice(int(at), int(at) + EDGE) for at in each)) for each in corners]


def by_fsspec(address: str, asked: list[tuple[str, tuple[slice, ...]]]) -> int:
    import fsspec

    import wavetrain

    return by_wavetrain(address, asked, wavetrain.fsspec(fsspec.filesystem("http")))


def by_wavetrain(
    address: str, asked: list[tuple[str, tuple[slice, ...]]], files: object = None
) -> int:
    import numpy

    import wavetrain

    edge = asked[0][1][0].stop - asked[0][1][0].start
    config = wavetrain.Config(
        samples_per_batch=min(len(asked), 8), sample_shape=(edge,) * 3, n_io_threads=64,
        n_batch_slots=8, dtype="u16", backend="host", lookahead_samples=64,
    )  # fmt: skip
    total = 0
    with wavetrain.Pipeline(config, files=files) as pipeline:
        pipeline.push(wavetrain.Sample(f"{address}/{name}", box) for name, box in asked)
        for batch in pipeline.batches():
            with batch:
                total += int(numpy.from_dlpack(batch).sum())
    return total


def by_tensorstore(address: str, asked: list[tuple[str, tuple[slice, ...]]]) -> int:
    import tensorstore

    context = tensorstore.Context({"http_request_concurrency": {"limit": 256}})
    opened = {
        name: tensorstore.open(
            {"driver": "zarr3", "kvstore": {"driver": "http", "base_url": f"{address}/{name}/"}},
            context=context,
        )
        for name in dict.fromkeys(name for name, _ in asked)
    }
    arrays = {name: future.result() for name, future in opened.items()}
    reads = [arrays[name][box].read() for name, box in asked]
    return sum(int(read.result().sum()) for read in reads)


def by_obstore(address: str, asked: list[tuple[str, tuple[slice, ...]]]) -> int:
    import asyncio

    import obstore
    import zarr

    options = {"allow_http": True}

    async def read_all():
        store = zarr.storage.ObjectStore(
            obstore.store.HTTPStore.from_url(address, client_options=options), read_only=True
        )
        names = [*dict.fromkeys(name for name, _ in asked)]
        opened = await asyncio.gather(
            *(zarr.api.asynchronous.open_array(store=store, path=name, mode="r") for name in names)
        )
        arrays = dict(zip(names, opened))
        reads = await asyncio.gather(*(arrays[name].getitem(box) for name, box in asked))
        return sum(int(read.sum()) for read in reads)

    return asyncio.run(read_all())


def measure(reader: str, case: str, address: str) -> None:
    asked = boxes(case)
    call, module = {
        "wavetrain": (by_wavetrain, "wavetrain"),
        "tensorstore": (by_tensorstore, "tensorstore"),
        "obstore": (by_obstore, "zarr"),
        "fsspec": (by_fsspec, "wavetrain"),
    }[reader]
    __import__(module)
    begun, cpu = time.perf_counter(), time.process_time()
    total = call(address, asked)
    print(json.dumps([time.perf_counter() - begun, time.process_time() - cpu, total]))


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        serve(Path(sys.argv[2]), float(sys.argv[3]))
        return
    if sys.argv[1:2] == ["read"]:
        measure(*sys.argv[2:5])
        return
    latencies = [float(word) for word in sys.argv[1:]] or [5.0, 50.0]
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        for latency in latencies:
            command = [sys.executable, __file__, "serve", folder, str(latency)]
            server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            try:
                compare(server.stdout.readline().strip(), latency)
            finally:
                server.kill()


def compare(address: str, latency: float) -> None:
    print(
        f"{'ms':>4} {'case':8} {'reader':12} {'requests':>8} {'MB':>7} {'wall s':>8} {'CPU s':>7}"
    )
    for case in CASES:
        rows, sums = {}, set()
        for _ in range(REPEATS):
            for reader in READERS:
                urllib.request.urlopen(f"{address}/figures").read()
                command = [sys.executable, __file__, "read", reader, case, address]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300)
                if done.returncode != 0:
                    print(f"{case}: {reader} fails", flush=True)
                    continue
                wall, cpu, total = json.loads(done.stdout.splitlines()[-1])
                requests, size = json.load(urllib.request.urlopen(f"{address}/figures"))
                sums.add(total)
                row = (wall, cpu, requests, size / 1e6)
                rows[reader] = min(rows.get(reader, row), row)
        assert len(sums) == 1, f"{case}: readers read different elements"
        for reader, (wall, cpu, requests, size) in rows.items():
            name = f"{latency:4.0f} {case:8} {reader:12}"
            print(f"{name} {requests:8} {size:7.2f} {wall:8.3f} {cpu:7.3f}", flush=True)


if __name__ == "__main__":
    main()
