#!/usr/bin/env python3
"""What Python costs: the package beside the tool on the same requests, alone, and behind fsspec.

    python.py TOOL REQUESTS.jsonl.. [--batch 8] [--rounds 5] [--threads 2]

Needs the package (PYTHONPATH=python, or the wheel), numpy, and fsspec with zarr for the last part.
Three tables: streams of each list, tool and Python in turn, the best seconds of each, their ratio
and the median ratio of neighbours; CPU of the thread that pops, per batch, with that of the same
native calls in a bare loop taken off; GB/s of uncompressed chunks through wavetrain.fsspec of a
memory file system.
"""

import argparse
import ctypes
import itertools
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import wavetrain
from wavetrain import _batch, _library
from wavetrain._window import SAMPLE_BYTES, Window

COST_BATCHES = 5000


def by_tool(tool, requests, options):
    command = [tool, "bench", "--requests", requests, "--batch", str(options.batch), "--json"]
    command += ["--threads", str(options.threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["seconds"]


def by_python(samples, options):
    shape = [end - begin for begin, end in samples[0].aabb]
    config = wavetrain.Config(
        samples_per_batch=options.batch,
        sample_shape=shape,
        n_decode_threads=options.threads,
        backend="host",
    )
    with wavetrain.Pipeline(config, fit={sample.uri for sample in samples}) as pipeline:
        begun = time.perf_counter()
        pipeline.push(samples)
        for batch in pipeline.batches():
            with batch:
                np.from_dlpack(batch)
        return time.perf_counter() - begun


def compare(options):
    print(f"{'list':28} {'tool s':>9} {'python s':>9} {'rate':>6} {'paired':>6}")
    for requests in options.requests:
        lines = [json.loads(line) for line in Path(requests).read_text().splitlines()]
        samples = [
            wavetrain.Sample(str(Path(requests).parent / line["uri"]), line["box"])
            for line in lines
        ]
        tools, pythons = [], []
        for number in range(options.rounds):
            for is_tool in (number % 2 == 0, number % 2 == 1):
                if is_tool:
                    tools.append(by_tool(options.tool, requests, options))
                else:
                    pythons.append(by_python(samples, options))
        paired = statistics.median(tool / python for tool, python in zip(tools, pythons))
        tool, python = min(tools), min(pythons)
        name = Path(requests).stem
        print(f"{name:28} {tool:9.3f} {python:9.3f} {tool / python:6.3f} {paired:6.3f}")


def write_array(folder):
    import zarr

    shape = (64, 64, 64)
    array = zarr.create_array(
        f"{folder}/a", shape=shape, dtype="f4", chunks=shape, compressors=None
    )
    array[:] = 1
    return f"{folder}/a"


def native_us(pipeline, window, per_batch):
    """Push, pop, export, delete and release of a batch without Python around them."""
    library, loader = _library.library(), pipeline._loader
    handle, taken, tensor = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_void_p()
    first = ctypes.byref(window.samples)

    def push():
        library.wavetrain_push(loader, first, per_batch, SAMPLE_BYTES, 0, ctypes.byref(taken))

    for _ in range(8):
        push()
    begun = time.thread_time()
    for _ in range(COST_BATCHES):
        push()
        library.wavetrain_pop(loader, 10**10, ctypes.byref(handle), None)
        library.wavetrain_dlpack_legacy(loader, handle, 0, None, ctypes.byref(tensor))
        _batch.delete(tensor.value, b"dltensor")
        library.wavetrain_release(loader, handle, None)
    return (time.thread_time() - begun) / COST_BATCHES * 1e6


def cost(folder):
    uri = write_array(folder)
    print(f"\n{'samples per batch':28} {'python us':>9} {'native us':>9} {'difference':>10}")
    for per_batch in (1, 8):
        samples = [wavetrain.Sample(uri, [(i, i + 4)] * 3, tag=i) for i in range(60)]
        config = wavetrain.Config(
            samples_per_batch=per_batch,
            sample_shape=(4, 4, 4),
            n_batch_slots=8,
            lookahead_samples=8 * per_batch,
            backend="host",
        )
        window = Window()
        window.fill(iter(samples))
        with wavetrain.Pipeline(config) as pipeline:
            native = native_us(pipeline, window, per_batch)
        with wavetrain.Pipeline(config) as pipeline:
            pipeline.push(itertools.islice(itertools.cycle(samples), COST_BATCHES * per_batch))
            begun = time.thread_time()
            for batch in pipeline.batches(COST_BATCHES):
                with batch:
                    np.from_dlpack(batch)
            python = (time.thread_time() - begun) / COST_BATCHES * 1e6
        print(f"{per_batch:<28} {python:9.1f} {native:9.1f} {python - native:10.1f}")


def through_fsspec(options):
    import fsspec
    import zarr

    fs = fsspec.filesystem("memory")
    shape, chunk = (64, 512, 512), (16, 128, 128)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/a"
        array = zarr.create_array(path, shape=shape, dtype="u2", chunks=chunk, compressors=None)
        array[:] = np.arange(np.prod(shape)).reshape(shape) % 60000
        fs.put(path, "/a", recursive=True)
    boxes = [
        [(z, z + 16), (y, y + 128), (x, x + 128)]
        for z in range(0, 64, 16)
        for y in range(0, 512, 128)
        for x in range(0, 512, 128)
    ]
    samples = [wavetrain.Sample("memory://a", box) for box in boxes] * 20
    config = wavetrain.Config(
        samples_per_batch=8,
        sample_shape=chunk,
        dtype="u16",
        n_io_threads=2,
        n_decode_threads=options.threads,
        backend="host",
    )
    rates = []
    for _ in range(options.rounds):
        with wavetrain.Pipeline(config, files=wavetrain.fsspec(fs)) as pipeline:
            begun = time.perf_counter()
            pipeline.push(samples)
            for batch in pipeline.batches():
                batch.release()
            seconds = time.perf_counter() - begun
            rates.append(pipeline.stats().io.input_bytes / seconds / 1e9)
    print(f"\nfsspec memory, chunks of 512 KiB: {max(rates):.2f} GB/s read")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool")
    parser.add_argument("requests", nargs="+")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    compare(options)
    with tempfile.TemporaryDirectory() as folder:
        cost(folder)
    through_fsspec(options)


if __name__ == "__main__":
    main()
