#!/usr/bin/env python3
"""Writes samples of several boxes and what numpy makes of them, packed in one file.

    python3.12 -m venv VENV
    VENV/bin/pip install zarr==3.4.2 numcodecs==0.17.1 numpy==2.5.5 zstandard==0.25.0
    VENV/bin/python tests/data/make_samples.py             # writes tests/data/samples.tar.zst

The tar has stores of zarr-python and files of numpy (`stores/NAME`), the bytes of arrays that a
program feeds from its memory or gives when it is asked (`raw/NAME`), and cases.json: what it is
asked for, and configs with their fields, samples with their boxes, and of each
batch and field the CRC-32 of its bytes and how far boxes reach. A box is a slice of numpy, padded by
index arithmetic, transposed and laid into an array of pad_value: nothing here knows of chunks.
"""
import hashlib
import io
import itertools
import json
import pathlib
import shutil
import sys
import tarfile
import tempfile
import zlib

import numpy as np
import zarr
import zstandard
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, ZstdCodec

zarr.config.set({"async.concurrency": 1, "threading.max_workers": 1})
HERE = pathlib.Path(__file__).parent
ROOT = pathlib.Path(tempfile.mkdtemp(prefix="wavetrain-samples-"))
RNG = np.random.default_rng(17)
CASES = 480

# Name: type, shape, chunks, shards, codec, fill value.
STORES = {
    "scalar": ("<f8", (), (), None, None, 2.5),
    "line": ("<i8", (997,), (64,), None, ZstdCodec(level=3), -3),
    "plane": (">u2", (61, 67), (16, 24), (32, 48), ZstdCodec(level=3), 7),
    "raw": ("<f4", (3, 50, 60), (3, 8, 60), None, None, 0.5),
    "mask": ("|u1", (3, 50, 60), (1, 25, 16), None, BloscCodec(cname="lz4", shuffle="shuffle"), 9),
    "volume": ("<u2", (37, 41, 53), (8, 8, 16), (16, 16, 32), GzipCodec(level=5), 1),
    "film": ("<i2", (5, 2, 19, 23), (2, 1, 7, 11), None, BloscCodec(cname="zstd"), -1),
    "sparse": ("<u4", (90, 70), (13, 17), None, ZstdCodec(level=1), 11),
}
# What each type may become: the same, or what loses nothing, or f32 and the halves.
OUTPUTS = {
    "f8": ["f64", "f32"], "i8": ["i64", "f32"], "u2": ["u16", "f32", "i32", "i64"],
    "f4": ["f32", "f16"], "u1": ["u8", "f32", "i32", "i64"], "i2": ["i16", "f32", "i32"],
    "u4": ["u32", "i64", "f32"], "i4": ["i32", "i64", "f32"],
}
SHORT = {"f8": "f64", "i8": "i64", "u2": "u16", "f4": "f32", "u1": "u8", "i2": "i16", "u4": "u32",
         "i4": "i32"}
NUMPY = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "u8": "|u1", "i8": "|i1", "u16": "<u2",
         "i16": "<i2", "u32": "<u4", "i32": "<i4", "u64": "<u8", "i64": "<i8"}
IMAGES = {}
# Files as numpy writes them: type, shape, order, version of the format; None: raw behind 37 bytes.
FILES = {
    "plain.npy": ("<f4", (23, 31), "C", (1, 0)), "turned.npy": ("<u2", (9, 14, 27), "F", (2, 0)),
    "big.npy": (">i2", (70, 40), "C", (3, 0)), "line.npy": (">f8", (3000,), "C", None),
    "one.npy": ("<i8", (), "C", (1, 0)), "large.npy": ("|u1", (1700, 1300), "F", (1, 0)),
    "raw.bin": ("<u4", (33, 21, 5), "C", None), "raw?odd.bin": (">u2", (40, 60), "F", None),
}
# Folders of numbered files: type, rows of each file, shape of a row, name before the number, digits.
FOLDERS = {
    "frames": ("<u2", [1] * 13, (20, 24), "frame_", 1),
    "pieces": (">f4", [5, 0, 1, 17, 2, 30], (33,), "piece", 3),
    "runs": ("|u1", [900, 1, 2000, 40], (), "run-", 2),
    "turned": ("<i4", [3, 8, 2], (6, 5, 4), "t", 1),
}
# An image, whose levels are every second element of the one before: type, shape, levels.
LEVELS = {"image": ("<u2", (2, 40, 60), 3), "flat_image": (">i2", (90, 110), 2)}
# What a program gives when it is asked: type, shape, and the chunks that it is asked for.
ASKED = {
    "boxes": ("<u2", (30, 31, 32), (0, 0, 0)), "chunks": ("<f4", (40, 90), (7, 32)),
    "rows": ("<i8", (1200,), (100,)), "single": ("<f8", (), ()),
}
# What a program feeds from its memory: a type and a shape each.
MEMORY = {"bytes": ("|u1", (40, 50)), "words": ("<u2", (7, 30, 33)), "floats": ("<f4", (2000,)),
          "wide": ("<i8", (12, 90)), "large": ("<u4", (700, 600))}


def write_stores():
    for name, (dtype, shape, chunks, shards, codec, fill) in STORES.items():
        image = RNG.integers(0, 100, shape).astype(dtype)
        if dtype[1] == "f":
            image = (image + RNG.random(shape)).astype(dtype)
        if name == "sparse":
            image[26:60] = fill
        array = zarr.create_array(
            str(ROOT / "stores" / name), shape=shape, chunks=chunks, shards=shards,
            dtype=np.dtype(dtype).newbyteorder("="), fill_value=fill, zarr_format=3,
            serializer=BytesCodec(endian="big" if dtype[0] == ">" else "little"),
            compressors=[codec] if codec else None, config={"write_empty_chunks": False})
        array[...] = image
        assert np.array_equal(np.asarray(array[...]), image), name
        keep(name, image)


def write_files():
    for name, (dtype, shape, order, version) in FILES.items():
        count = np.arange(int(np.prod(shape))).reshape(shape)
        image = np.asarray((count * 5 + count // 977) % 103).astype(dtype, order=order)
        path = ROOT / "stores" / name
        if name.endswith(".npy"):
            with open(path, "wb") as file:
                np.lib.format.write_array(file, image, version)
            assert np.array_equal(np.load(path), image), name
        else:
            path.write_bytes(b"x" * 37 + image.tobytes(order))
        keep(name, image)


def count_up(shape, dtype):
    """Elements that are small when they are packed."""
    count = np.arange(int(np.prod(shape))).reshape(shape)
    return ((count * 7 + count // 1013) % 101).astype(dtype)


def keep(name, image):
    IMAGES[name] = np.array(image, image.dtype.newbyteorder("<"), order="C")


def write_folders():
    for name, (dtype, rows, row, prefix, digits) in FOLDERS.items():
        image = count_up((sum(rows), *row), dtype)
        keep(name, image)
        (ROOT / "stores" / name).mkdir()
        for number, part in enumerate(np.split(image, np.cumsum(rows)[:-1])):
            order = "F" if name == "turned" else "C"
            path = ROOT / "stores" / name / f"{prefix}{number:0{digits}}.npy"
            np.save(path, np.asarray(part, order=order))


def write_levels():
    for name, (dtype, shape, levels) in LEVELS.items():
        axes = [{"name": axis, "type": "space"} for axis in "zyx"[-len(shape):]]
        image, datasets = count_up(shape, dtype), []
        group = zarr.create_group(str(ROOT / "stores" / name), zarr_format=3)
        for level in range(levels):
            array = group.create_array(
                f"s{level}", shape=image.shape, chunks=(16,) * image.ndim, compressors=[ZstdCodec()],
                dtype=np.dtype(dtype).newbyteorder("="), fill_value=0,
                serializer=BytesCodec(endian="big" if dtype[0] == ">" else "little"))
            array[...] = image
            keep(f"{name}#level={level}", image)
            scale = [{"type": "scale", "scale": [2.0 ** level] * image.ndim}]
            datasets.append({"path": f"s{level}", "coordinateTransformations": scale})
            image = image[(slice(None, None, 2),) * image.ndim]
        keep(f"{name}#scale={','.join(['2.5'] * len(shape))}", np.asarray(group["s1"][...]))
        group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}


def write_asked():
    for name, (dtype, shape, _) in ASKED.items():
        keep(f"hook:{name}", count_up(shape, dtype))
        (ROOT / "raw" / name).write_bytes(IMAGES[f"hook:{name}"].tobytes())


def uri_of(name):
    """What stands behind the folder of stores, and before it."""
    if name.startswith("hook:"):
        return "hook:", name[5:]
    if name in FOLDERS:
        return "", pick([name, f"{name}/{FOLDERS[name][3]}*.npy"])
    if name not in FILES or name.endswith(".npy"):
        return "", name
    dtype, shape, order, _ = FILES[name]
    extents = ",".join(map(str, shape))
    return "raw:", f"{name}?dtype={dtype}&shape={extents}&offset=37&order={order}"


def write_memory():
    (ROOT / "raw").mkdir()
    for name, (dtype, shape) in MEMORY.items():
        IMAGES[name] = count_up(shape, dtype)
        (ROOT / "raw" / name).write_bytes(IMAGES[name].tobytes())


def pick(values):
    return values[int(RNG.integers(len(values)))]


def below(limit):
    return int(RNG.integers(limit))


def sources(begin, end, step, extent, mode):
    """The element that each place of an axis reads, -1 where it is what padding puts there."""
    at = range(begin, end, step) if step > 0 else range(end - 1, begin - 1, step)
    at = np.array(list(at))
    if mode == "edge":
        return at.clip(0, extent - 1)
    if mode == "reflect" and extent == 1:
        return at * 0
    if mode == "reflect":
        period = 2 * (extent - 1)
        phase = np.abs(at) % period
        return np.minimum(phase, period - phase)
    return np.where((at < 0) | (at >= extent), -1, at)


def read(image, fill, box, field):
    """What a box reads, place by place, in the field's type."""
    axes = [sources(b, e, s or 1, n, field["pad_mode"])
            for b, e, s, n in zip(box["begin"], box["end"], box["step"], image.shape)]
    outside = np.zeros([len(axis) for axis in axes], bool)
    for number, axis in enumerate(axes):
        shape = [1] * len(axes)
        shape[number] = len(axis)
        outside |= (axis < 0).reshape(shape)
    places = image[np.ix_(*[axis.clip(0) for axis in axes])] if axes else image.copy()
    places = places.astype(NUMPY[field["dtype"]])
    padding = field["pad_value"] if field["pad_value_set"] else np.array(fill, image.dtype)
    return np.where(outside, np.asarray(padding).astype(places.dtype), places)


def lay(target, covered, places, box):
    """Puts the places of a box into a sample's part of a field."""
    rank = target.ndim
    kept = [axis for axis in box["to"] if axis is not None]
    places = places.reshape([n for n, axis in zip(places.shape, box["to"]) if axis is not None])
    order = np.argsort(kept) if kept else []
    places = places.transpose(order) if kept else places.reshape(())
    extents = [1] * rank
    for axis, extent in zip(sorted(kept), places.shape):
        extents[axis] = extent
    where = tuple(slice(at, at + extent) for at, extent in zip(box["at"], extents))
    target[where] = places.reshape(extents)
    reach = [at + extent for at, extent in zip(box["at"], extents)] or [1]
    covered[:] = np.maximum(covered, reach)


def outputs_of(dtype):
    return OUTPUTS[np.dtype(dtype).str[1:]]


def view_of(image):
    """A part of memory as numpy sees it: transposed, with gaps, or the same again and again."""
    view = image.transpose(RNG.permutation(image.ndim)) if below(2) else image
    view = view[tuple(slice(below(3), None, 1 + below(3)) for _ in view.shape)]
    if below(4) == 0:
        view = np.broadcast_to(view, (1 + below(5), *view.shape))
    return view


def make_source(dtype, is_strict):
    """What a box reads: how the case spells it, its elements, and its fill value."""
    kind = "store" if is_strict else pick(["store", "store", "memory", "value"])
    if kind == "store":
        known = [name for name in IMAGES if name not in MEMORY]
        name = pick([name for name in known if dtype in outputs_of(IMAGES[name].dtype)])
        before, behind = uri_of(name)
        fill = STORES[name][5] if name in STORES else 0
        return {"before": before, "array": behind}, IMAGES[name], fill
    if kind == "memory":
        names = [name for name in MEMORY if dtype in outputs_of(MEMORY[name][0])]
        if names:
            name = pick(names)
            view = view_of(IMAGES[name])
            start = view.__array_interface__["data"][0]
            offset = start - IMAGES[name].__array_interface__["data"][0]
            return {"memory": name, "type": SHORT[view.dtype.str[1:]], "shape": list(view.shape),
                    "strides": list(view.strides), "offset": offset}, view, 0
    kinds = [kind for kind in SHORT if dtype in OUTPUTS.get(kind, [])]
    kind = np.dtype("<" + pick(kinds))
    shape = [1 + below(3) for _ in range(below(3))]
    while np.prod(shape) * kind.itemsize > 64:
        shape.pop()
    value = np.asarray(RNG.integers(0, 100, shape).astype(kind))
    return {"value": value.tobytes().hex(), "type": SHORT[kind.str[1:]], "shape": shape}, value, 0


def make_field(number, dtype):
    rank = pick([0, 1, 1, 2, 2, 2, 3, 3, 4])
    shape = [1 + below(pick([3, 9, 30]) if rank < 4 else 8) for _ in range(rank)]
    return {"name": f"field{number}", "dtype": dtype, "shape": shape,
            "pad_mode": pick(["none", "none", "constant", "edge", "reflect"]),
            "pad_value_set": below(2), "pad_value": pick([0, 1, 5])}


def make_cells(shape, count):
    """Cuts a shape into cells: ranges along each axis."""
    cells = [[(0, extent) for extent in shape]]
    while len(cells) < count and shape:
        cell = cells.pop(below(len(cells)))
        axis = below(len(shape))
        low, high = cell[axis]
        if high - low < 2:
            cells.append(cell)
            break
        cut = low + 1 + below(high - low - 1)
        for part in [(low, cut), (cut, high)]:
            cells.append([part if a == axis else r for a, r in enumerate(cell)])
    return cells


def make_axis(places, extent, mode):
    """Begin, end and step of an axis of an array that has so many places."""
    longest = 1 if places == 1 else max((extent - 1) // (places - 1), 1)
    step = pick([1, 1, 1, -1, longest, -longest, 1 + below(longest), -1 - below(longest)])
    length = (places - 1) * abs(step) + 1
    # What lies behind the last place is not read.
    length += below(abs(step)) if abs(step) > 1 else 0
    if abs(step) > 1:
        length = min(length, extent)
        begin = below(extent - length + 1)
    elif mode == "none":
        if length > extent:
            return None
        begin = below(extent - length + 1)
    else:
        begin = below(extent + 2 * 7) - 7 - length // 2
        if mode == "reflect":
            begin = min(max(begin, 1 - length), extent - 1)
    return begin, begin + length, pick([0, 1]) if step == 1 else step


def make_box(source, field, number, cell):
    """A box of a source that fills a cell of a field; None where none fits."""
    spelt, image, fill = source
    shape = image.shape
    rank, wanted = len(shape), len(cell)
    if rank < sum(high - low > 1 for low, high in cell):
        return None
    # Which axis of the field each axis of the box becomes.
    axes = list(range(wanted))
    if rank < wanted:
        axes = [axis for axis, (low, high) in enumerate(cell) if high - low > 1]
        axes += [axis for axis in range(wanted) if axis not in axes][:rank - len(axes)]
        axes.sort()
    to = [None] * (rank - len(axes)) + axes
    turned = below(3) == 0
    if turned:
        RNG.shuffle(to)
        to = [None if axis is None else int(axis) for axis in to]
    begin, end, step = [], [], []
    for axis, extent in zip(to, shape):
        places = 1 if axis is None else cell[axis][1] - cell[axis][0]
        made = make_axis(places, extent, field["pad_mode"])
        if made is None:
            return None
        begin.append(made[0])
        end.append(made[1])
        step.append(made[2])
    is_plain = to == [None] * (rank - wanted) + list(range(wanted))
    box = {**spelt, "field": number, "begin": begin, "end": end, "step": step, "to": to,
           "at": [low for low, _ in cell], "image": image, "fill": fill}
    # All 0 would be in order, and of nothing else than dropped axes it is.
    box["axes"] = None if is_plain and (rank >= wanted) and below(2) else [
        0 if axis is None else axis + 1 for axis in to]
    return box


def make_sample(fields, most, is_strict):
    boxes, left = [], most
    for number in RNG.permutation(len(fields)):
        field, dtype = fields[number], fields[number]["dtype"]
        cells = make_cells(field["shape"], 1 if is_strict else 1 + below(4))
        for cell in cells:
            if left == 0 or (not is_strict and below(5) == 0):
                continue
            if not is_strict and below(3) == 0:
                # A part of the cell.
                cell = [(low, low + 1 + below(high - low)) for low, high in cell]
            tries = [make_box(make_source(dtype, is_strict), field, int(number), cell)
                     for _ in range(8)]
            found = next((box for box in tries if box), None)
            if found:
                boxes.append(found)
                left -= 1
    return boxes


def make_case(number):
    is_strict = number % 5 == 0
    count = 1 if is_strict else 1 + below(pick([2, 4, 8]))
    outputs = sorted(set(itertools.chain(*OUTPUTS.values())))
    fields = [make_field(field, pick(outputs)) for field in range(count)]
    if is_strict and not fields[0]["shape"]:
        fields[0]["shape"] = [1]
    most = 1 if is_strict else count + below(5)
    samples = [make_sample(fields, most, is_strict) for _ in range(1 + below(9))]
    samples = [boxes for boxes in samples if boxes]
    if not samples:
        return None
    per_batch = 1 + below(4)
    batches = []
    for first in range(0, len(samples), per_batch):
        batch = []
        for at, field in enumerate(fields):
            data, reach = [], []
            for boxes in samples[first:first + per_batch]:
                target = np.full(field["shape"], field["pad_value"], NUMPY[field["dtype"]])
                covered = np.zeros(max(1, target.ndim), np.int64)
                for box in (box for box in boxes if box["field"] == at):
                    lay(target, covered, read(box["image"], box["fill"], box, field), box)
                data.append(target.tobytes())
                reach += covered.tolist()
            batch.append({"crc": zlib.crc32(b"".join(data)), "covered": reach})
        batches.append(batch)
    for boxes in samples:
        for box in boxes:
            del box["to"], box["image"], box["fill"]
    return {"has_table": not is_strict, "samples_per_batch": per_batch, "max_boxes": most,
            "fields": fields, "samples": samples, "batches": batches}


def pack(target, cases):
    """One tar of everything, in name order and without times, compressed."""
    asked = {name: {"type": SHORT[np.dtype(dtype).str[1:]], "shape": shape, "chunk_shape": chunk}
             for name, (dtype, shape, chunk) in ASKED.items()}
    lines = ",\n".join(json.dumps(case) for case in cases)
    text = f'{{"asked": {json.dumps(asked)},\n"cases": [\n{lines}\n]}}\n'
    (ROOT / "cases.json").write_text(text)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(p for p in ROOT.rglob("*") if p.is_file()):
            data = path.read_bytes()
            entry = tarfile.TarInfo(str(path.relative_to(ROOT)))
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    packed = zstandard.ZstdCompressor(level=19, write_checksum=True).compress(buffer.getvalue())
    pathlib.Path(target).write_bytes(packed)
    boxes = sum(len(boxes) for case in cases for boxes in case["samples"])
    print(len(cases), "cases,", boxes, "boxes,", buffer.tell(), "bytes,", len(packed),
          "packed, sha256", hashlib.sha256(packed).hexdigest()[:16])


def main():
    try:
        write_stores()
        write_files()
        write_memory()
        write_folders()
        write_levels()
        write_asked()
        cases = [case for number in range(CASES) if (case := make_case(number))]
        pack(sys.argv[1] if len(sys.argv) > 1 else HERE / "samples.tar.zst", cases)
    finally:
        shutil.rmtree(ROOT)


if __name__ == "__main__":
    main()
