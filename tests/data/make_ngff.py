#!/usr/bin/env python3
"""Writes the group fixtures: OME-NGFF images, labels and plates, and plain groups, made by other
people's software, packed in one file.

    python -m venv /tmp/venv
    /tmp/venv/bin/pip install ome-zarr==0.18.0 ngff-zarr==0.50.0 zarr==3.1.6 numcodecs==0.16.6 \
        tensorstore==0.1.86 zstandard==0.25.0 \
        dask-image
    /tmp/venv/bin/python tests/data/make_ngff.py                # writes tests/data/ngff.tar.zst

In: nothing. Out: a tar with

    manifest.json      the zarr v3 arrays in the groups, as make_fixtures.py writes it
    groups.json        one object per group: name, kind, version, and its levels as ngff-zarr reads
                       them (path, axes with units, scale, translation), wells, fields, or nodes
    raw/*              expected pixels
    stores/NAME/       the groups

Arrays are read back with tensorstore before they are packed. Attributes of NGFF 0.1 to 0.3, which
writers have given up, are made from the specifications.
"""
import hashlib
import io
import json
import pathlib
import shutil
import sys
import tarfile
import tempfile
import warnings

import ngff_zarr
import numpy as np
import ome_zarr.format
import ome_zarr.writer
import tensorstore as ts
import zarr
import zstandard

warnings.simplefilter("ignore")
zarr.config.set({"async.concurrency": 1, "threading.max_workers": 1})
ROOT = pathlib.Path(tempfile.mkdtemp(prefix="wavetrain-ngff-"))
STORES = ROOT / "stores"
GROUPS, MANIFEST, PIXELS = [], [], {}
FORMATS = {fmt.version: fmt for fmt in [
    ome_zarr.format.FormatV04(), ome_zarr.format.FormatV05()]}


def paint(shape, dtype, seed):
    """Elements that differ from their neighbours, a function of the shape and the seed alone."""
    place = np.arange(np.prod(shape), dtype=np.uint64).reshape(shape)
    return ((place + np.uint64(seed)) * np.uint64(2654435761) >> np.uint64(7)).astype(dtype)


def new_group(name, fmt):
    return zarr.open_group(str(STORES / name), mode="w", zarr_format=fmt.zarr_format)


def expect_image(name, **more):
    """What ngff-zarr reads from an image is what we must say of it."""
    images = ngff_zarr.from_ngff_zarr(str(STORES / name))
    levels = []
    for dataset, image in zip(images.metadata.datasets, images.images):
        units = image.axes_units or {}
        levels.append({
            "path": dataset.path,
            "axes": list(image.dims),
            "units": [units.get(axis) or "" for axis in image.dims],
            "scale": [float(image.scale.get(axis, 1.0)) for axis in image.dims],
            "translation": [float(image.translation.get(axis, 0.0)) for axis in image.dims],
        })
    GROUPS.append({"name": name, "kind": "image", "levels": levels, **more})


def ome_zarr_images():
    """TCZYX images with labels by ome-zarr."""
    image = paint((1, 2, 3, 14, 16), "u2", 1)
    for version, fmt in FORMATS.items():
        name = f"ome_zarr_{version}"
        group = new_group(name, fmt)
        ome_zarr.writer.write_image(
            image, group, scale_factors=(2,), name="cells", fmt=fmt, axes="tczyx",
            storage_options={"chunks": (1, 1, 2, 8, 8)},
            scale={"z": 0.5, "y": 0.25, "x": 0.125},
            axes_units={axis: "micrometer" for axis in "zyx"})
        ome_zarr.writer.write_labels(
            (image[0, 0] % 5).astype("i4"), group, name="nuclei", fmt=fmt, axes="zyx",
            scale_factors=(2,), storage_options={"chunks": (3, 14, 16)})
        expect_image(name, version=version)
        GROUPS.append({"name": f"{name}/labels", "kind": "group", "nodes": [["nuclei", "image"]]})
        expect_image(f"{name}/labels/nuclei")


def old_images():
    """Attributes of NGFF 0.1 to 0.3, which no writer makes any more: from the specifications."""
    for version in ["0.1", "0.2", "0.3"]:
        name = f"from_specification_{version}"
        new_group(name, FORMATS["0.4"]).create_array(
            "0", shape=(1, 1, 2, 3, 4), chunks=(1, 1, 2, 3, 4), dtype="u1")
        image = {"version": version, "name": "old", "datasets": [{"path": "0"}],
                 "type": "gaussian", "metadata": {"method": "none"}}
        if version == "0.3":
            image["axes"] = list("tczyx")
        (STORES / name / ".zattrs").write_text(json.dumps({"multiscales": [image]}))
        GROUPS.append({"name": name, "kind": "image", "version": version, "levels": [
            {"path": "0", "axes": list("tczyx"), "units": [""] * 5, "scale": [1.0] * 5,
             "translation": [0.0] * 5}]})


def ngff_zarr_images():
    """ZYX images by ngff-zarr, which consolidates the metadata; sharded in zarr v3."""
    for version in ["0.4", "0.5", "0.6"]:
        name = f"ngff_zarr_{version}"
        image = ngff_zarr.to_ngff_image(
            paint((8, 12, 16), "u2", 2), dims=("z", "y", "x"),
            scale={"z": 2.5, "y": 0.75, "x": 0.5}, translation={"z": 10.0, "y": -3.0, "x": 1e-3},
            axes_units={"z": "micrometer", "y": "nanometer", "x": "nanometer"}, name="fibres")
        pyramid = ngff_zarr.to_multiscales(
            image, scale_factors=[2], chunks={"z": 4, "y": 6, "x": 8},
            method=ngff_zarr.Methods.DASK_IMAGE_NEAREST)
        ngff_zarr.to_ngff_zarr(str(STORES / name), pyramid, version=version)
        expect_image(name, version=version)


def plates():
    """2 x 3 wells, of which 3 are there, with one or two fields, by ome-zarr."""
    for version in ["0.4", "0.5"]:
        fmt, name = FORMATS[version], f"plate_{version}"
        group = new_group(name, fmt)
        wells = ["A/1", "A/3", "B/2"]
        ome_zarr.writer.write_plate_metadata(
            group, ["A", "B"], ["1", "2", "3"], wells, fmt=fmt, name="screen", field_count=2,
            acquisitions=[{"id": 7}])
        GROUPS.append({"name": name, "kind": "plate", "version": version, "rows": 2, "columns": 3,
                       "fields": 2, "wells": [["A/1", 0, 0], ["A/3", 0, 2], ["B/2", 1, 1]]})
        for number, well in enumerate(wells):
            fields = ["0", "1"][:1 + number % 2]
            place = group.require_group(well)
            ome_zarr.writer.write_well_metadata(
                place, [{"path": field, "acquisition": 7} for field in fields], fmt=fmt)
            GROUPS.append({"name": f"{name}/{well}", "kind": "well", "fields": fields,
                           "acquisition": 7})
            for field in fields:
                ome_zarr.writer.write_image(
                    paint((1, 6, 8), "u1", number), place.require_group(field), scale_factors=(),
                    fmt=fmt, axes="cyx", storage_options={"chunks": (1, 6, 8)})


def plain_groups():
    """Groups without OME-NGFF by zarr-python: listed by their folder, and consolidated."""
    for zarr_format in [2, 3]:
        for is_consolidated in [False, True]:
            name = f"plain_{zarr_format}" + ("_consolidated" if is_consolidated else "")
            group = zarr.open_group(str(STORES / name), mode="w", zarr_format=zarr_format)
            for path in ["b", "a", "deep/c", "deep/d"]:
                array = group.create_array(path, shape=(4, 5), chunks=(2, 5), dtype="u1")
                array[...] = paint((4, 5), "u1", len(path))
            nodes = [["a", "array"], ["b", "array"], ["deep", "group"]]
            if is_consolidated:
                zarr.consolidate_metadata(str(STORES / name), zarr_format=zarr_format)
                nodes += [["deep/c", "array"], ["deep/d", "array"]]
            GROUPS.append({"name": name, "kind": "group", "nodes": nodes})
    empty = zarr.open_group(str(STORES / "empty"), mode="w", zarr_format=3)
    empty.attrs["labels"] = ["cat", "dog"]
    GROUPS.append({"name": "empty", "kind": "group", "nodes": []})


def add_arrays():
    """The zarr v3 arrays of all groups, for the tests that read every array."""
    names = {"uint8": "u8", "uint16": "u16", "int32": "i32"}
    for path in sorted(STORES.rglob("zarr.json")):
        document = json.loads(path.read_text())
        if document["node_type"] != "array":
            continue
        folder = path.parent
        pixels = zarr.open_array(str(folder), mode="r")[...]
        store = ts.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": str(folder)}})
        read = store.result().read().result()
        assert pixels.dtype == read.dtype and (pixels == read).all(), folder
        data = np.ascontiguousarray(pixels).astype(pixels.dtype.newbyteorder("<")).tobytes()
        raw = hashlib.sha256(data).hexdigest()[:16]
        PIXELS[raw] = data
        chunk, shard = document["chunk_grid"]["configuration"]["chunk_shape"], None
        codecs = document["codecs"]
        if codecs[0]["name"] == "sharding_indexed":
            shard, chunk = chunk, codecs[0]["configuration"]["chunk_shape"]
            codecs = codecs[0]["configuration"]["codecs"]
        assert document["fill_value"] == 0
        MANIFEST.append({
            "name": str(folder.relative_to(STORES)), "family": "ngff", "writer": "ome-zarr",
            "dtype": names[document["data_type"]], "shape": document["shape"], "chunk": chunk,
            "shard": shard, "codecs": [codec["name"] for codec in codecs[1:]],
            "fill": "00" * pixels.dtype.itemsize, "raw": raw})


def pack(target):
    """One tar of everything, in name order and without times, compressed."""
    (ROOT / "raw").mkdir()
    for name, data in PIXELS.items():
        (ROOT / "raw" / name).write_bytes(data)
    for name, entries in [("manifest", MANIFEST), ("groups", GROUPS)]:
        lines = ",\n".join(json.dumps(entry) for entry in entries)
        (ROOT / f"{name}.json").write_text(f"[\n{lines}\n]\n")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(p for p in ROOT.rglob("*") if p.is_file()):
            data = path.read_bytes()
            entry = tarfile.TarInfo(str(path.relative_to(ROOT)))
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    options = zstandard.ZstdCompressionParameters.from_level(
        19, window_log=22, enable_ldm=True, write_checksum=True)
    packed = zstandard.ZstdCompressor(compression_params=options).compress(buffer.getvalue())
    pathlib.Path(target).write_bytes(packed)
    print(len(GROUPS), "groups,", len(MANIFEST), "arrays,", buffer.tell(), "bytes,", len(packed),
          "packed, sha256", hashlib.sha256(packed).hexdigest()[:16])
    assert len(packed) <= 64 << 10


def main():
    target = pathlib.Path(__file__).parent / "ngff.tar.zst"
    target = sys.argv[1] if len(sys.argv) > 1 else target
    try:
        for family in [ome_zarr_images, old_images, ngff_zarr_images, plates, plain_groups,
                       add_arrays]:
            family()
        pack(target)
    finally:
        shutil.rmtree(ROOT)


if __name__ == "__main__":
    main()
