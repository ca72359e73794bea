#!/usr/bin/env python3
"""Shuffled epochs of one data set by wavetrain, and by loaders with shuffles of their own.

    python3 -m venv .venv && .venv/bin/pip install zarr litdata mosaicml-streaming
    .venv/bin/pip install insitubatch                        # needs Python 3.12 or later
    PYTHONPATH=python .venv/bin/python benches/loaders.py DATA [--sets stack,tiles] [--cold]

Writes 512 MiB of u16 (`tissue` of benches/paint.py) under DATA once, by zarr-python. wavetrain,
insitubatch and zarr-python read that; litdata and mosaicml-streaming each need a copy of every set
in their own format, which is also written once. A set is a way to cut the voxels into samples:

    stack         rows of 1024 x 64^3, 8 in a chunk of 4 MiB; each chunk is a file
    tiles         64^3 of 256x1024x1024, each of them one chunk; four shards
    small         32^3 of the same volume, 8 in each chunk
    straddling    64^3 that begin anywhere in their chunk and reach into up to 7 others

--codecs: zstd (level 3) or raw, for the arrays and for the copies. Loaders:

    wavetrain     DataLoader with a ChunkShuffle; a window takes half of a cache of --cache MiB
    insitubatch   blocks of 16 chunks, which is its default; `stack` only, because its samples are
                  rows of an axis
    litdata       optimize() in chunks of 64 MB; StreamingDataset(shuffle=True), --workers processes
    mosaicml      MDSWriter in shards of 64 MiB; StreamingDataset(shuffle=True), --workers
                  processes. It decompresses zstd into raw shards, in a new folder for each run
    zarr-python   a box for each sample in a full shuffle; DataLoader of torch, --workers processes

Each loader gives torch tensors of u16 in batches of --batch. A run is a process of its own with
--epochs epochs, and the first of them starts the workers. The loaders run interleaved, in an order
that is shuffled from a seed. An epoch of each loader is checked before that: every sample is there
once, and has the CRC-32 of the bytes that were painted.

The table has medians of --repeats runs:

    samples/s     of all epochs together; best epoch: of the fastest one
    ratio         samples/s by those of wavetrain, the median within repeats
    read          MB that the process and its workers read by system calls in an epoch (rchar);
                  memory maps are not in it
    from disk     MB in an epoch (read_bytes); memory maps are in it
    CPU s         of an epoch
    stored        MB of the files
    converted in  seconds for the copy, from an array that fits into memory
    N epochs      samples/s of --counted epochs and that conversion

--cold drops the files from the page cache before each run. Nothing reads the tensors.
"""

import argparse
import contextlib
import functools
import importlib
import importlib.util
import itertools
import json
import math
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np

ROWS, TILE, VOLUME, SHARD = 1024, (64, 64, 64), (256, 1024, 1024), (256, 512, 512)
CHUNK_BYTES = {"stack": 8 * 2 * 64**3}  # of the volume: 2 * 64^3
SETS = {"stack": TILE, "tiles": TILE, "small": (32, 32, 32), "straddling": TILE}
CODECS = ["zstd", "raw"]
MODULES = {
    "wavetrain": "wavetrain",
    "insitubatch": "insitubatch",
    "litdata": "litdata",
    "mosaicml": "streaming",
    "zarr-python": "torch",
}
CONVERTED = ["litdata", "mosaicml"]


class Job:
    """A set of samples and how they are read."""

    def __init__(self, data, name, codec, options):
        self.data, self.name, self.codec = Path(data).resolve(), name, codec
        self.batch, self.workers, self.cache = options.batch, options.workers, options.cache
        self.shape = SETS[name]
        self.group = self.data / f"{codec}.zarr"
        self.array = self.group / ("stack" if name == "stack" else "volume")

    def converted(self, loader):
        return self.data / f"{loader}_{self.name}_{self.codec}"

    @functools.cached_property
    def grid(self):
        from wavetrain import epoch

        return epoch.Boxes(VOLUME, self.shape, chunk=TILE, jitter=self.name == "straddling")

    def __len__(self):
        return ROWS if self.name == "stack" else len(self.grid)

    def box(self, index):
        if self.name == "stack":
            return [(index, index + 1), *((0, extent) for extent in TILE)]
        return self.grid.at(index, seed=1)

    def slices(self, index):
        box = tuple(slice(*pair) for pair in self.box(index))
        return (index, *box[1:]) if self.name == "stack" else box

    def files(self, loader):
        """The folder that the loader reads."""
        return self.converted(loader) if loader in CONVERTED else self.array


# ---- Data ---------------------------------------------------------------------------------------


def write(data):
    """The arrays of all sets."""
    import zarr
    from paint import tissue
    from zarr.codecs import ZstdCodec

    if (data / "written").exists():
        return
    voxels = tissue("a", VOLUME, 1)
    counts = [extent // edge for extent, edge in zip(VOLUME, TILE)]
    cut = voxels.reshape([n for pair in zip(counts, TILE) for n in pair])
    rows = cut.transpose(0, 2, 4, 1, 3, 5).reshape(ROWS, *TILE)
    for codec in CODECS:
        group = zarr.open_group(data / f"{codec}.zarr", mode="w")
        shared = {"dtype": "u2", "compressors": [ZstdCodec(level=3)] if codec == "zstd" else None}
        stack = group.create_array("stack", shape=rows.shape, chunks=(8, *TILE), **shared)
        stack[:] = rows
        shards = {"chunks": TILE, "shards": SHARD}
        group.create_array("volume", shape=VOLUME, **shards, **shared)[:] = voxels
    (data / "written").touch()


@functools.cache
def whole(path):
    """An array in memory: what a conversion cuts its samples out of."""
    import zarr

    return zarr.open_array(path, mode="r")[:]


def checksums(job):
    path = job.data / f"checksums_{job.name}.json"
    if not path.exists():
        voxels = whole(str(job.data / "raw.zarr" / job.array.name))
        samples = (np.ascontiguousarray(voxels[job.slices(i)]) for i in range(len(job)))
        path.write_text(json.dumps([zlib.crc32(sample) for sample in samples]))
    return json.loads(path.read_text())


def sample_of(job, index):
    return {"index": index, "x": np.ascontiguousarray(whole(str(job.array))[job.slices(index)])}


def to_litdata(job, out):
    import litdata

    litdata.optimize(
        fn=functools.partial(sample_of, job),
        inputs=list(range(len(job))),
        output_dir=str(out),
        chunk_bytes="64MB",
        compression="zstd:3" if job.codec == "zstd" else None,
        num_workers=job.workers,
        verbose=False,
    )


def to_mosaicml(job, out):
    from streaming import MDSWriter

    columns = {"index": "int", "x": "ndarray:uint16:" + ",".join(map(str, job.shape))}
    compression = "zstd:3" if job.codec == "zstd" else None
    with MDSWriter(columns=columns, out=str(out), compression=compression) as writer:
        for index in range(len(job)):
            writer.write(sample_of(job, index))


def convert(job, loader):
    out = job.converted(loader)
    shutil.rmtree(out, ignore_errors=True)
    begun = time.perf_counter()
    {"litdata": to_litdata, "mosaicml": to_mosaicml}[loader](job, out)
    (out / "seconds.json").write_text(json.dumps(time.perf_counter() - begun))


# ---- Loaders: each yields a function of the epoch's number, which gives (indices, tensor) -------


class Requests:
    """For wavetrain."""

    def __init__(self, job):
        self.job, self.uri = job, str(job.array)

    def __len__(self):
        return len(self.job)

    def __getitem__(self, index):
        import wavetrain

        return wavetrain.Sample(self.uri, self.job.box(index), tag=index)


@contextlib.contextmanager
def by_wavetrain(job):
    import wavetrain

    chunk_bytes, kept = CHUNK_BYTES.get(job.name, 2 * math.prod(TILE)), job.cache << 20
    touched = 8 if job.name == "straddling" else 1
    run = {"stack": 8, "small": 8}.get(job.name, 1)
    window = max(1, kept // chunk_bytes // 2 // touched)
    config = wavetrain.Config(
        samples_per_batch=job.batch,
        sample_shape=job.shape,
        dtype="u16",
        backend="host",
        n_decode_threads=job.workers,
        chunk_cache_bytes=int(kept * 1.05),  # granules and tables take some
    )
    order = wavetrain.epoch.ChunkShuffle(run, window)
    requests = Requests(job)
    loader = wavetrain.DataLoader(
        requests, sampler=order, seed=1, config=config, fit=[requests.uri]
    )
    with loader:

        def epoch(number):
            for batch in loader:
                with batch:
                    yield batch.info.tags, batch.torch()

        yield epoch


@contextlib.contextmanager
def by_insitubatch(job):
    import insitubatch
    import torch

    store = insitubatch.obstore_store(job.group.as_uri())
    geometries = insitubatch.open_geometries(store, variables=["stack"])
    manifest = insitubatch.split_by_chunk(geometries["stack"], fractions=(1.0, 0.0, 0.0))
    dataset = insitubatch.InSituDataset(store, manifest, geometries, batch_size=job.batch)

    def epoch(number):
        dataset.set_epoch(number)
        for batch in dataset.train:
            yield batch.sample_indices.tolist(), torch.from_dlpack(batch.arrays["stack"])

    yield epoch


@contextlib.contextmanager
def by_litdata(job):
    import litdata

    dataset = litdata.StreamingDataset(str(job.converted("litdata")), shuffle=True, seed=1)
    loader = litdata.StreamingDataLoader(dataset, batch_size=job.batch, num_workers=job.workers)

    def epoch(number):
        for batch in loader:
            yield batch["index"].tolist(), batch["x"]

    yield epoch


@contextlib.contextmanager
def by_mosaicml(job):
    from streaming import StreamingDataLoader, StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()
    with tempfile.TemporaryDirectory(dir=job.data) as cache:
        source = str(job.converted("mosaicml"))
        # Raw shards are read where they lie; others need a folder to be decompressed into.
        where = {"local": source} if job.codec == "raw" else {"remote": source, "local": cache}
        dataset = StreamingDataset(**where, shuffle=True, shuffle_seed=1, batch_size=job.batch)
        loader = StreamingDataLoader(dataset, batch_size=job.batch, num_workers=job.workers)

        def epoch(number):
            for batch in loader:
                yield batch["index"].tolist(), batch["x"]

        yield epoch


class Cut:
    """For zarr-python; torch's workers each open the array."""

    def __init__(self, job):
        self.job, self.array = job, None

    def __len__(self):
        return len(self.job)

    def __getitem__(self, index):
        import zarr

        if self.array is None:
            self.array = zarr.open_array(str(self.job.array), mode="r")
        return index, self.array[self.job.slices(index)]


@contextlib.contextmanager
def by_zarr_python(job):
    from torch.utils.data import DataLoader

    loader = DataLoader(Cut(job), job.batch, shuffle=True, num_workers=job.workers)

    def epoch(number):
        for indices, tensor in loader:
            yield indices.tolist(), tensor

    yield epoch


LOADERS = {
    "wavetrain": by_wavetrain,
    "insitubatch": by_insitubatch,
    "litdata": by_litdata,
    "mosaicml": by_mosaicml,
    "zarr-python": by_zarr_python,
}


# ---- One run, in a process of its own -----------------------------------------------------------


def used():
    """rchar, read_bytes and CPU seconds of this process and of the children that have ended."""
    lines = (line.split() for line in Path("/proc/self/io").read_text().splitlines())
    io = {name: int(number) for name, number in lines}
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    cpu = sum(sum(resource.getrusage(kind)[:2]) for kind in kinds)
    return io["rchar:"], io["read_bytes:"], cpu


def check(job, seen, crcs):
    if sorted(seen) != list(range(len(job))):
        sys.exit(f"{len(seen)} samples, {len(set(seen))} of them different, of {len(job)}")
    if crcs is not None and crcs != checksums(job):
        wrong = [i for i, (a, b) in enumerate(zip(crcs, checksums(job))) if a != b]
        sys.exit(f"{len(wrong)} samples have other bytes, {wrong[0]} among them")


def one(job, loader, epochs, is_checked):
    """Runs epochs, and what they took."""
    import torch  # of which most loaders import parts: not on the clock

    importlib.import_module(MODULES[loader])
    crcs = [0] * len(job) if is_checked else None
    before, begun, took = used(), time.perf_counter(), []
    with LOADERS[loader](job) as epoch:
        for number in range(epochs):
            seen, started = [], time.perf_counter()
            for indices, tensor in epoch(number):
                if tensor.dtype != torch.uint16 or tuple(tensor.shape[1:]) != job.shape:
                    sys.exit(f"{tensor.dtype} {tuple(tensor.shape)} came")
                seen += indices
                if is_checked:
                    for index, sample in zip(indices, tensor.numpy()):
                        crcs[index] = zlib.crc32(np.ascontiguousarray(sample))
            took.append(time.perf_counter() - started)
            check(job, seen, crcs)
    seconds = time.perf_counter() - begun
    rchar, disk, cpu = (b - a for a, b in zip(before, used()))
    figures = {"rate": epochs * len(job) / seconds, "best": len(job) / min(took)}
    figures |= {"rchar": rchar / epochs, "disk": disk / epochs, "cpu": cpu / epochs}
    print(json.dumps(figures))


# ---- All of them --------------------------------------------------------------------------------


def drop(folder):
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def run(job, loader, options, *flags):
    """A process of its own: its figures, or why there are none."""
    command = [sys.executable, __file__, str(job.data), "--one", loader, *flags]
    command += ["--sets", job.name, "--codecs", job.codec, "--epochs", str(options.epochs)]
    command += ["--batch", str(job.batch), "--workers", str(job.workers)]
    command += ["--cache", str(job.cache)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    lines = done.stdout.splitlines()
    if done.returncode or (not lines and "--convert" not in flags):
        return None, (done.stderr.strip().splitlines() or ["no word"])[-1]
    return (json.loads(lines[-1]) if "--convert" not in flags else {}), ""


def ready(job, loader, options):
    """Whether the loader can read the set, after its conversion and its check."""
    if loader == "insitubatch" and job.name != "stack":
        reason = "a sample is a row of axis 0"
    elif importlib.util.find_spec(MODULES[loader]) is None:
        reason = f"no module {MODULES[loader]}"
    else:
        reason = ""
        if loader in CONVERTED and not (job.converted(loader) / "seconds.json").exists():
            reason = run(job, loader, options, "--convert")[1]
        reason = reason or run(job, loader, options, "--check")[1]
    if reason:
        print(f"{job.name} {job.codec}: without {loader}: {reason}", file=sys.stderr, flush=True)
    return not reason


def stored(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def report(job, runs, options):
    size = 2 * math.prod(job.shape)
    heat = "cold" if options.cold else "warm"
    print(f"\n{job.name}, {job.codec}, {heat}: {len(job)} samples of {size >> 10} KiB,")
    print(f"{options.epochs} epochs a run, {options.repeats} runs\n")
    head = ["loader", "samples/s", "best epoch", "ratio", "read, MB", "from disk, MB", "CPU s"]
    head += ["stored, MB", "converted in, s", f"{options.counted} epochs"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for loader, of in runs.items():
        middle = {name: statistics.median(figures[name] for figures in of) for name in of[0]}
        pairs = zip(of, runs.get("wavetrain", of))
        ratio = statistics.median(mine["rate"] / its["rate"] for mine, its in pairs)
        took = job.converted(loader) / "seconds.json"
        seconds = json.loads(took.read_text()) if loader in CONVERTED else 0
        counted = len(job) * options.counted
        counted /= counted / middle["rate"] + seconds
        print(
            f"| {loader} | {middle['rate']:.0f} | {middle['best']:.0f} |"
            f" {ratio:.2f} | {middle['rchar'] / 1e6:.0f} |"
            f" {middle['disk'] / 1e6:.0f} | {middle['cpu']:.2f} |"
            f" {stored(job.files(loader)) / 1e6:.0f} | {seconds:.1f} | {counted:.0f} |",
            flush=True,
        )


def measure(job, options):
    runs = {loader: [] for loader in options.loaders if ready(job, loader, options)}
    dice = random.Random(options.repeats)
    for _ in range(options.repeats):
        for loader in dice.sample(list(runs), len(runs)):
            if options.cold:
                drop(job.files(loader))
            figures, reason = run(job, loader, options)
            if figures is None:
                sys.exit(f"{loader}: {reason}")
            runs[loader].append(figures)
    report(job, runs, options)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="a folder for arrays and converted data, 5 GB")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--codecs", default=",".join(CODECS))
    parser.add_argument("--loaders", default=",".join(LOADERS))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2, help="processes, or threads that decode")
    parser.add_argument("--cache", type=int, default=128, help="MiB of chunks that wavetrain keeps")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--counted", type=int, default=10, help="epochs of one conversion")
    parser.add_argument("--cold", action="store_true", help="files leave the page cache first")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    for name in ("--convert", "--check"):
        parser.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.loaders = options.loaders.split(",")
    names = itertools.product(options.sets.split(","), options.codecs.split(","))
    jobs = [Job(options.data, name, codec, options) for name, codec in names]
    if options.one:
        if options.convert:
            convert(jobs[0], options.one)
        else:
            one(jobs[0], options.one, 1 if options.check else options.epochs, options.check)
        return
    options.data.mkdir(parents=True, exist_ok=True)
    write(options.data)
    for job in jobs:
        checksums(job)
        measure(job, options)


if __name__ == "__main__":
    main()
