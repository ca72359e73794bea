#!/usr/bin/env python3
"""Streams a request list of .npy files through numpy: boxes are copied, and cast, out of a memmap.

    numpy_peer.py REQUESTS.jsonl --batch N [--threads 1] [--dtype f32|u16] [--sample-shape 64,256]
                  [--verify]

One thread is the loop that everybody writes, `slot[place] = stored[box]`; several each take a part of
every batch. Batches lie in a ring of three, whose pages are there before the clock starts. Prints one
line of JSON with the names of `wavetrain bench --json`. Needs numpy.
"""

import argparse
import json
import resource
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

RING = 3
DTYPES = {"f32": np.float32, "u16": np.uint16}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("requests", type=Path)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--sample-shape", help="default: that of the first box")
    parser.add_argument("--verify", action="store_true")
    options = parser.parse_args()

    requests = [json.loads(line) for line in options.requests.read_text().splitlines()]
    if not all(request["uri"].endswith(".npy") for request in requests):
        sys.exit("numpy: not all arrays are .npy files")
    shape = [end - begin for begin, end in requests[0]["box"]]
    if options.sample_shape:
        shape = [int(extent) for extent in options.sample_shape.split(",")]
    begin = time.perf_counter()
    arrays = {uri: np.load(uri, mmap_mode="r") for uri in {request["uri"] for request in requests}}
    open_seconds = time.perf_counter() - begin
    boxes = [
        (arrays[request["uri"]], tuple(slice(*interval) for interval in request["box"]))
        for request in requests
    ]
    ring = [np.full((options.batch, *shape), 1, DTYPES[options.dtype]) for _ in range(RING)]

    def fill(slot, first, limit):
        for place, (stored, box) in enumerate(boxes[first:limit], first % options.batch):
            slot[place] = stored[box].reshape(shape)

    crcs, first_batch_seconds = [], None
    usage, begin = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    with ThreadPoolExecutor(options.threads) as pool:
        for number, first in enumerate(range(0, len(boxes), options.batch)):
            slot, limit = ring[number % RING], min(first + options.batch, len(boxes))
            if options.threads == 1:
                fill(slot, first, limit)
            else:
                cuts = np.linspace(first, limit, options.threads + 1).astype(int).tolist()
                list(pool.map(fill, [slot] * options.threads, cuts[:-1], cuts[1:]))
            first_batch_seconds = first_batch_seconds or time.perf_counter() - begin
            if options.verify:
                crcs.append(zlib.crc32(slot[: limit - first].tobytes()))
    seconds, now = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF)
    line = {
        "name": "numpy",
        "samples": len(boxes),
        "seconds": seconds,
        "samples_per_s": len(boxes) / seconds,
        "cpu_seconds": now.ru_utime + now.ru_stime - usage.ru_utime - usage.ru_stime,
        "open_seconds": open_seconds,
        "first_batch_seconds": first_batch_seconds,
        "peak_rss_bytes": now.ru_maxrss * 1024,
    }
    print(json.dumps(line | ({"crcs": crcs} if options.verify else {})))


if __name__ == "__main__":
    main()
