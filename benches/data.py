#!/usr/bin/env python3
"""Writes the arrays and request lists that benches/compare.py measures with.

    python3 -m venv .venv && .venv/bin/pip install zarr numpy
    .venv/bin/python benches/data.py OUT [--scenarios 'big_*',gzip,...] [--families volumes,kinds,ways,rows,..]
                                         [--shape 256,1024,1024] [--seed 1]

Goes out, under OUT (5 GB and about five minutes at the default shape; the family large, 8 GB more, is written
where it is asked for):

    CODEC_a/, CODEC_b/       two uint16 volumes of that shape, the same voxels for every codec:
                             a, bright and noisy, in chunks of 32x64x64; b, dark with few cells, in
                             chunks of 64x64x64; both in shards of up to 256x512x512
    NAME/, NAME.npy, far/    the arrays of the other kinds: see benches/kinds.py
    requests/NAME.jsonl      the request lists, as `wavetrain bench --requests` takes them
    scenarios.json           per list: name, family, file, arrays, samples per batch, sample shape,
                             dtype of the samples, flags that `wavetrain bench` takes besides

Codecs: zstd (level 3), blosc (zstd, byte shuffle), bitshuffle (blosc, zstd, bit shuffle), raw.
The lists of the volumes, NAME = KIND_CODEC, boxes of both volumes:

    big     512 boxes of 64x128x128 at random places, 16 in a batch
    small   2048 boxes of 16x64x64 at random places, 64 in a batch
    scan    every tile of 64x128x128, in order, 16 in a batch
    hot     64 random places with 8 boxes of 64x128x128 around each, 16 in a batch

An array that is there is kept, so a run that was stopped goes on; lists are always written anew, with
absolute paths.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
import zarr
from compare import chosen
from kinds import ROWS, write_kinds
from paint import tissue
from zarr.codecs import BloscCodec, BytesCodec, ShardingCodec, ZstdCodec

CHUNKS = {"a": (32, 64, 64), "b": (64, 64, 64)}
SHARD = (256, 512, 512)
COMPRESSORS = {
    "zstd": [ZstdCodec(level=3)],
    "blosc": [BloscCodec(cname="zstd", clevel=5, shuffle="shuffle", typesize=2)],
    "bitshuffle": [BloscCodec(cname="zstd", clevel=5, shuffle="bitshuffle", typesize=2)],
    "raw": [],
}
# Kind of list: (sample shape, samples per batch).
KINDS = {
    "big": ((64, 128, 128), 16),
    "small": ((16, 64, 64), 64),
    "scan": ((64, 128, 128), 16),
    "hot": ((64, 128, 128), 16),
}


def write_array(path, voxels, chunk, codec):
    shard = tuple(
        min(whole, -(-extent // edge) * edge)
        for whole, extent, edge in zip(SHARD, voxels.shape, chunk)
    )
    partial = path.with_name(path.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    array = zarr.create_array(
        store=partial,
        shape=voxels.shape,
        dtype=voxels.dtype,
        chunks=shard,
        serializer=ShardingCodec(
            chunk_shape=chunk, codecs=[BytesCodec(endian="little"), *COMPRESSORS[codec]]
        ),
        compressors=None,
        fill_value=0,
    )
    for corner in np.ndindex(*(-(-e // s) for e, s in zip(voxels.shape, shard))):
        part = tuple(slice(c * s, min((c + 1) * s, e)) for c, s, e in zip(corner, shard, voxels.shape))
        array[part] = voxels[part]
    partial.rename(path)


def corners(kind, shape, box, seed):
    """(volume, first element) of every request; the same for every codec."""
    dice = np.random.default_rng([seed, *kind.encode()])
    limits = [extent - edge + 1 for extent, edge in zip(shape, box)]
    if kind == "scan":
        counts = [extent // edge for extent, edge in zip(shape, box)]
        tiles = [[t * e for t, e in zip(tile, box)] for tile in np.ndindex(*counts)]
        return [(volume, tile) for volume in "ab" for tile in tiles]

    def place():
        return "ab"[dice.integers(2)], [int(dice.integers(limit)) for limit in limits]

    if kind != "hot":
        return [place() for _ in range(512 if kind == "big" else 2048)]
    found = []
    for volume, centre in (place() for _ in range(64)):
        for _ in range(8):
            steps = [int(dice.integers(-reach, reach + 1)) for reach in (16, 48, 48)]
            near = [min(max(c + s, 0), li - 1) for c, s, li in zip(centre, steps, limits)]
            found.append((volume, near))
    return found


def write_volumes(out, names, shape, seed):
    """Writes the arrays and lists of these names; their entries for scenarios.json."""
    codecs = list(dict.fromkeys(name.partition("_")[2] for name in names))
    for volume, chunk in CHUNKS.items():
        missing = [c for c in codecs if not (out / f"{c}_{volume}").exists()]
        voxels = tissue(volume, shape, seed) if missing else None
        for codec in missing:
            path = out / f"{codec}_{volume}"
            write_array(path, voxels, chunk, codec)
            stored = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            print(f"{path}: {voxels.nbytes / 2**20:.0f} MiB in {stored / 2**20:.0f} MiB", flush=True)
    scenarios = []
    for name in names:
        kind, _, codec = name.partition("_")
        arrays = {volume: str((out / f"{codec}_{volume}").resolve()) for volume in CHUNKS}
        box, batch = KINDS[kind]
        box = [min(edge, extent) for edge, extent in zip(box, shape)]
        lines = [
            json.dumps({"uri": arrays[volume], "box": [[c, c + e] for c, e in zip(first, box)]})
            for volume, first in corners(kind, shape, box, seed)
        ]
        (out / "requests" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        scenarios.append(
            {
                "name": name,
                "family": "volumes",
                "requests": f"requests/{name}.jsonl",
                "arrays": list(arrays.values()),
                "batch": batch,
                "sample_shape": box,
                "dtype": "f32",
            }
        )
    return scenarios


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--scenarios", default="*", help="comma-separated names or globs")
    parser.add_argument("--families", default="volumes,kinds,ways,rows,far,loops")
    parser.add_argument("--shape", default="256,1024,1024", help="of the volumes")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    shape = tuple(int(extent) for extent in options.shape.split(","))
    (options.out / "requests").mkdir(parents=True, exist_ok=True)
    volumes = [f"{kind}_{codec}" for codec in COMPRESSORS for kind in KINDS]
    known = [{"name": name, "family": "volumes"} for name in volumes]
    known += [{"name": name, "family": row.family} for name, row in ROWS.items()]
    names = [scenario["name"] for scenario in chosen(known, options.scenarios, options.families)]
    scenarios = write_volumes(options.out, [n for n in names if n in volumes], shape, options.seed)
    scenarios += write_kinds(options.out, [n for n in names if n in ROWS], options.seed)
    (options.out / "scenarios.json").write_text(json.dumps(scenarios, indent=1) + "\n")


if __name__ == "__main__":
    main()
