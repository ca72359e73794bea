#!/usr/bin/env python3
"""Writes the arrays and request lists that benches/compare.py measures with.

    python3 -m venv .venv && .venv/bin/pip install zarr numpy
    .venv/bin/python benches/data.py OUT [--shape 256,1024,1024] [--codecs zstd,blosc,...] [--seed 1]

Goes out, under OUT (3 GB and about two minutes at the default shape):

    CODEC_a/, CODEC_b/       two uint16 volumes of that shape, the same voxels for every codec:
                             a, bright and noisy, in chunks of 32x64x64; b, dark with few cells, in
                             chunks of 64x64x64; both in shards of up to 256x512x512
    requests/NAME.jsonl      the request lists, as `wavetrain bench --requests` takes them
    scenarios.json           per list: name, file, arrays, samples per batch, sample shape

Codecs: zstd (level 3), blosc (zstd, byte shuffle), bitshuffle (blosc, zstd, bit shuffle), raw.
Scenarios, NAME = SCENARIO_CODEC, boxes of both volumes:

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
from zarr.codecs import BloscCodec, BytesCodec, ShardingCodec, ZstdCodec

CHUNKS = {"a": (32, 64, 64), "b": (64, 64, 64)}
SHARD = (256, 512, 512)
COMPRESSORS = {
    "zstd": [ZstdCodec(level=3)],
    "blosc": [BloscCodec(cname="zstd", clevel=5, shuffle="shuffle", typesize=2)],
    "bitshuffle": [BloscCodec(cname="zstd", clevel=5, shuffle="bitshuffle", typesize=2)],
    "raw": [],
}
# Scenario: (sample shape, samples per batch).
SCENARIOS = {
    "big": ((64, 128, 128), 16),
    "small": ((16, 64, 64), 64),
    "scan": ((64, 128, 128), 16),
    "hot": ((64, 128, 128), 16),
}


def hat_weights(extent, knots):
    """[extent, knots]: row i interpolates linearly between the two knots around place i."""
    places = np.linspace(0, knots - 1, extent)[:, None]
    return np.maximum(0, 1 - np.abs(places - np.arange(knots))).astype(np.float32)


def paint(volume, shape, seed):
    """A volume as a camera sees tissue: a smooth signal, shot noise, and a dark level."""
    dice = np.random.default_rng([seed, ord(volume)])
    knots = [max(2, extent // step) for extent, step in zip(shape, (10, 20, 20))]
    field = dice.random(knots, dtype=np.float32)
    if volume == "a":
        field, gain = 110 + 800 * field**3, 0.55
    else:
        field, gain = 4 + 480 * np.maximum(0, field - 0.86) / 0.14, 0.45
    z_weights, y_weights, x_weights = (hat_weights(e, k) for e, k in zip(shape, knots))
    voxels = np.empty(shape, np.uint16)
    for z in range(shape[0]):
        signal = y_weights @ np.tensordot(z_weights[z], field, 1) @ x_weights.T
        noise = dice.standard_normal(signal.shape, dtype=np.float32)
        voxels[z] = np.rint(100 + signal + gain * np.sqrt(signal) * noise).clip(0, 65535)
    return voxels


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


def corners(scenario, shape, box, seed):
    """(volume, first element) of every request; the same for every codec."""
    dice = np.random.default_rng([seed, *scenario.encode()])
    limits = [extent - edge + 1 for extent, edge in zip(shape, box)]
    if scenario == "scan":
        counts = [extent // edge for extent, edge in zip(shape, box)]
        tiles = [[t * e for t, e in zip(tile, box)] for tile in np.ndindex(*counts)]
        return [(volume, tile) for volume in "ab" for tile in tiles]

    def place():
        return "ab"[dice.integers(2)], [int(dice.integers(limit)) for limit in limits]

    if scenario != "hot":
        return [place() for _ in range(512 if scenario == "big" else 2048)]
    found = []
    for volume, centre in (place() for _ in range(64)):
        for _ in range(8):
            steps = [int(dice.integers(-reach, reach + 1)) for reach in (16, 48, 48)]
            near = [min(max(c + s, 0), li - 1) for c, s, li in zip(centre, steps, limits)]
            found.append((volume, near))
    return found


def write_requests(out, shape, codecs, seed):
    (out / "requests").mkdir(exist_ok=True)
    scenarios = []
    for codec in codecs:
        arrays = {volume: str((out / f"{codec}_{volume}").resolve()) for volume in CHUNKS}
        for scenario, (box, batch) in SCENARIOS.items():
            box = [min(edge, extent) for edge, extent in zip(box, shape)]
            lines = [
                json.dumps({"uri": arrays[volume], "box": [[c, c + e] for c, e in zip(first, box)]})
                for volume, first in corners(scenario, shape, box, seed)
            ]
            name = f"{scenario}_{codec}"
            (out / "requests" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
            scenarios.append(
                {
                    "name": name,
                    "requests": f"requests/{name}.jsonl",
                    "arrays": list(arrays.values()),
                    "batch": batch,
                    "sample_shape": box,
                }
            )
    (out / "scenarios.json").write_text(json.dumps(scenarios, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--shape", default="256,1024,1024")
    parser.add_argument("--codecs", default=",".join(COMPRESSORS))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    shape = tuple(int(extent) for extent in options.shape.split(","))
    codecs = options.codecs.split(",")
    options.out.mkdir(parents=True, exist_ok=True)
    for volume, chunk in CHUNKS.items():
        missing = [c for c in codecs if not (options.out / f"{c}_{volume}").exists()]
        voxels = paint(volume, shape, options.seed) if missing else None
        for codec in missing:
            path = options.out / f"{codec}_{volume}"
            write_array(path, voxels, chunk, codec)
            stored = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            print(f"{path}: {voxels.nbytes / 2**20:.0f} MiB in {stored / 2**20:.0f} MiB", flush=True)
    write_requests(options.out, shape, codecs, options.seed)


if __name__ == "__main__":
    main()
