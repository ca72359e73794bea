#!/usr/bin/env python3
"""Streams a request list through tensorstore, the fastest way that its Python interface has.

    tensorstore_peer.py REQUESTS.jsonl --batch N [--sample-shape 64,128,128] [--threads 2]
                        [--dtype f32|bf16|i64|u64] [--mapped] [--cache-bytes 0] [--depth 2] [--io THREADS]
                        [--count-open] [--verify]

Arrays of zarr v2 and v3; a box may have axes of extent 1 that the sample shape does not have.

Each box is one asynchronous write of the array, cast lazily, into its place in a batch buffer; all
work is done by tensorstore's C++ threads. `--depth` batches are in flight, in a ring of four buffers
whose pages are there before the clock starts. Prints one line of JSON with the names of
`wavetrain bench --json`. Needs tensorstore and numpy (and ml_dtypes for bf16).
"""

import argparse
import json
import resource
import time
import zlib
from pathlib import Path

import numpy as np
import tensorstore as ts

RING = 4
DTYPES = ["f32", "bf16", "i64", "u64"]


def peak_rss_bytes():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def open_arrays(uris, options):
    context = ts.Context(
        {
            "cache_pool": {"total_bytes_limit": options.cache_bytes},
            "data_copy_concurrency": {"limit": options.threads},
            "file_io_concurrency": {"limit": options.io or options.threads},
            "file_io_mode": {"mode": "memmap" if options.mapped else "default"},
        }
    )
    target = (ts.float32, ts.bfloat16, ts.int64, ts.uint64)[DTYPES.index(options.dtype)]
    opened = {}
    for uri in uris:
        store = {"driver": "file", "path": uri.rstrip("/") + "/"}
        driver = "zarr" if (Path(uri) / ".zarray").is_file() else "zarr3"
        spec = {"driver": driver, "kvstore": store}
        opened[uri] = ts.open(spec, context=context, read=True, open=True)
    arrays = {uri: ts.cast(array.result(), target) for uri, array in opened.items()}
    return context, target, arrays


def slices_of(box, shape):
    """The box as tensorstore takes it: a plain index drops its axis."""
    spare = len(box) - len(shape)
    found = []
    for first, limit in box:
        is_dropped = spare > 0 and limit - first == 1
        spare -= is_dropped
        found.append(first if is_dropped else slice(first, limit))
    return tuple(found)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("requests", type=Path)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--sample-shape", help="default: that of the first box")
    parser.add_argument("--mapped", action="store_true")
    parser.add_argument("--cache-bytes", type=int, default=0)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--io", type=int, help="reads at a time; default: as many as threads")
    parser.add_argument("--count-open", action="store_true", help="the clock starts before open")
    parser.add_argument("--verify", action="store_true")
    options = parser.parse_args()

    requests = [json.loads(line) for line in options.requests.read_text().splitlines()]
    batches = [requests[at : at + options.batch] for at in range(0, len(requests), options.batch)]
    shape = [end - begin for begin, end in requests[0]["box"]]
    if options.sample_shape:
        shape = [int(extent) for extent in options.sample_shape.split(",")]

    begun, begin = cpu_seconds(), time.perf_counter()
    context, target, arrays = open_arrays({request["uri"] for request in requests}, options)
    open_seconds = time.perf_counter() - begin
    ring = [np.full((options.batch, *shape), 1, target.numpy_dtype) for _ in range(RING)]
    windows = [ts.array(buffer, dtype=target, copy=False, context=context) for buffer in ring]

    def submit(number):
        window = windows[number % RING]
        writes = []
        for place, request in enumerate(batches[number]):
            part = slices_of(request["box"], shape)
            source = arrays[request["uri"]][part][ts.d[:].translate_to[0]]
            writes.append(window[place, ...].write(source).commit)
        return writes

    crcs, in_flight, first_batch_seconds = [], [], None
    cpu = begun if options.count_open else cpu_seconds()
    begin = begin if options.count_open else time.perf_counter()
    for number, batch in enumerate(batches):
        while len(in_flight) < options.depth and number + len(in_flight) < len(batches):
            in_flight.append(submit(number + len(in_flight)))
        for write in in_flight.pop(0):
            write.result()
        if first_batch_seconds is None:
            first_batch_seconds = time.perf_counter() - begin
        if options.verify:
            crcs.append(zlib.crc32(ring[number % RING][: len(batch)].tobytes()))
    seconds = time.perf_counter() - begin
    line = {
        "name": "tensorstore",
        "samples": len(requests),
        "seconds": seconds,
        "samples_per_s": len(requests) / seconds,
        "cpu_seconds": cpu_seconds() - cpu,
        "open_seconds": open_seconds,
        "first_batch_seconds": first_batch_seconds,
        "peak_rss_bytes": peak_rss_bytes(),
    }
    if options.verify:
        line["crcs"] = crcs
    print(json.dumps(line))


if __name__ == "__main__":
    main()
