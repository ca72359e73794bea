"""The parts of a batch: boxes of arrays."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import os
import sys
from collections.abc import Iterable
from typing import Any, NoReturn, cast, overload

from wavetrain import _border, _native
from wavetrain._affine import Affine
from wavetrain._affine import check as check_affine
from wavetrain._augmented import Augment, check
from wavetrain._border import I64_MAX, I64_MIN, U64_MAX, short
from wavetrain._fed import Fed, Number, feed
from wavetrain._remote import far_of
from wavetrain._words import BOX, SAMPLE, refusal

CF_MARK = "#cf=1"  # at the end of a uri: elements are decoded by the CF conventions

EMPTY: tuple[int, ...] = ()
ARRAYS = ", an array in memory (give numpy.asarray(..) of what is none) or a number"
BOXES_MAX = 255  # of a sample, see max_boxes_per_sample in wavetrain.h


@dataclasses.dataclass(frozen=True, init=False)
class Box:
    """A box of an array, and its place in a field of its sample.

    `uri` and `aabb` are as a Sample has them. In the place of a uri stands an array in memory, or a
    number:

        an array: of numpy, torch, cupy, jax, or what has __array_interface__, DLPack,
            __cuda_array_interface__ or a buffer, with any strides. Without aabb all of it; open
            ends of slices are its own. One of up to 64 bytes is copied here. A larger one is not,
            and must not be written to until its batch is popped or the pipeline reset or closed:
            until then the pipeline keeps it. One on a CUDA device goes to a pipeline whose batches
            are there, and is read in place, behind what was queued for it when the box was made;
            nothing waits for that but its batch, and arrays that DLPack gives after it.
        a number: of Python or numpy, for one place of a field, a label. It takes the type of the
            field, as it is or not at all; but a float is rounded where the field has floats.

    Neighbours in the array are neighbours in the field:

        field: its name, or its number as Config.fields has them.
        at: by axis of the field: where the first element goes; () is the first place of all.
        step: by axis of the array: elements from one that is read to the next. Below 0 an axis is
            read backwards, from the last element of the box on.
        axes: by axis of the array: the axis of the field that it becomes, counted from 0, or None
            for one that is dropped, which has one element. None for all: they come in order, axes
            of one element are dropped as needed, and a box that is a part of the field has its last
            axes.
        augment: an `Augment`, what is done to the elements; None: they are cast alone.
        affine: an `Affine`, where the places lie in the array, that of a file or one of the host;
            None: aabb and step have them.
        units, shape: in the place of aabb, the bounds of a multiscale image in physical units, and
            how many voxels they are to have: see `Image.box`. The store is looked at, each time;
            `wavetrain.image(uri)` makes any number of boxes from one look.

    An axis that is a 1-d array of integers, of numpy or torch, is read index by index, in their
    order, repeats kept. Several such axes are their product, as numpy.ix_ has it. They need
    Config.max_indices_per_sample. `lists` has these axes, and aabb how many indices they have.

    An axis that is a slice with a step is read as numpy reads it, and open ends are those of a
    zarr.Array. Numbers below 0 are outside of the array, as everywhere here, not near its end.

    >>> Box("a", [slice(7, 2, -2)]) == Box("a", [(3, 8)], step=[-2])
    True
    >>> flipped = Box("a", [(0, 64), slice(63, None, -1)], "mask", at=(0, 64))
    >>> flipped.aabb, flipped.step
    (((0, 64), (0, 64)), (1, -1))
    >>> Box("a", [slice(None, 64, -1)])
    Traceback (most recent call last):
        ...
    ValueError: aabb axis 0: slice start is required (got slice(None, 64, -1))
    """

    uri: str
    aabb: tuple[tuple[int, int], ...]
    field: str | int = 0
    at: tuple[int, ...] = ()
    step: tuple[int, ...] = ()  # () where all are 1
    axes: tuple[int | None, ...] | None = None
    array: Fed | Number | None = None  # in the place of the uri, which is "" then
    augment: Augment | None = None
    affine: Affine | None = None
    lists: tuple[tuple[int, tuple[int, ...]], ...] = ()  # of the axes that are indices

    def __init__(
        self,
        uri: Any = None,
        aabb: Iterable[slice[Any, Any, Any] | tuple[int, int] | Any] | None = None,
        field: str | int = 0,
        *more: NoReturn,
        at: Iterable[int] = EMPTY,
        step: Iterable[int] = EMPTY,
        axes: Iterable[int | None] | None = None,
        array: Any = None,
        augment: Augment | None = None,
        affine: Affine | None = None,
        units: Any = None,
        shape: Any = None,
        lists: Iterable[tuple[int, Iterable[int]]] = EMPTY,
        **others: NoReturn,
    ) -> None:
        if more or others:
            raise refusal("Box", Box.__init__, BOX, (uri, aabb, field, *more), others)
        if units is not None or shape is not None:
            uri, aabb = in_units(uri, aabb, array, units, shape)
        keep = object.__setattr__
        # The ends of a zarr.Array are known; those of a uri are not.
        ends: Any = ()
        if array is None and isinstance(uri, (str, os.PathLike)):
            keep(self, "uri", uri_of(uri))
        else:
            made = None if is_stored(uri) else feed(self.only(uri, array))
            if made is None and array is not None:
                raise TypeError(
                    "array must be an array or a number: give numpy.asarray(..) of the values (got "
                    f"{short(array)})"
                )
            keep(self, "uri", uri_of(uri, ARRAYS) if made is None else "")
            keep(self, "array", made)
            ends = getattr(uri, "shape", ()) if made is None else made.shape
            if made is not None:
                aabb = region(aabb, made.shape)

        found: dict[int, tuple[int, ...]] = {}

        def walk(axis: int, given: Any) -> tuple[int, int, int]:
            if is_indices(given):
                found[axis] = indices_of(f"aabb axis {axis}", given)
                return 0, len(found[axis]), 1
            return walk_of(axis, given, ends[axis] if axis < len(ends) else None)

        walks = _border.axes("aabb", aabb, 0, walk)
        keep(self, "aabb", tuple([(begin, end) for begin, end, _ in walks]))
        if not isinstance(field, str):
            field = _border.whole("field", field, 0, _native.FIELDS_MAX - 1)
        keep(self, "field", field)
        # Most boxes have none of these, and looking at nothing costs as much.
        if at is not EMPTY:
            keep(self, "at", _border.axes("at", at, 0, place))
        sliced = [step for _, _, step in walks]
        if step is not EMPTY or set(sliced) != {1}:
            keep(self, "step", steps(sliced, step))
        if axes is not None:
            keep(self, "axes", field_axes(axes, self))
        if augment is not None:
            keep(self, "augment", check(augment))
        if affine is not None:
            keep(self, "affine", check_affine(affine))
        if found or lists is not EMPTY:
            keep(self, "lists", lists_of(found, lists, self.aabb))

    @staticmethod
    def only(uri: Any, array: Any) -> Any:
        # As dataclasses.replace gives them, no uri is an empty one.
        if array is not None and uri is not None and not (isinstance(uri, str) and not uri):
            raise TypeError("uri and array are both given: a box has the one or the other")
        return uri if array is None else array

    def places(self, axis: int) -> int:
        """How many elements are read along an axis; below 1 where the box is empty."""
        begin, end = self.aabb[axis]
        return -(-(end - begin) // abs(self.step[axis])) if self.step else end - begin


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Sample:
    """A box of an array, in voxels and in the array's own order of axes; or several boxes.

    `uri` is a path, a file:// uri, with a files hook whatever that serves, or a zarr.Array. A
    relative path is of the folder that was current when the pipeline opened, not of os.chdir. Each
    axis of `aabb` is a slice or a pair (start, stop), as numpy.s_[..] makes them; the stored form
    is always pairs. The batch and errors have `tag`, too. `boxes`, in the place of uri and aabb,
    are `Box`es, each for a field and place of its own. Places that none of them covers hold the
    pad_value of their field. An axis that is an array of integers makes it a sample of one Box.

    >>> a = Sample(uri="cell.zarr", aabb=[(0, 64), (0, 256), (0, 256)])
    >>> b = Sample(uri="cell.zarr", aabb=[slice(0, 64), slice(0, 256), slice(None, 256)])
    >>> a == b, hash(a) == hash(b)
    (True, True)
    >>> a.aabb
    ((0, 64), (0, 256), (0, 256))
    >>> Sample(uri="cell.zarr", aabb=[64, 256, 256])
    Traceback (most recent call last):
        ...
    TypeError: aabb axis 0: expected slice or (start, stop) tuple; got int
    >>> Sample(uri="cell.zarr", aabb=[slice(0, 64, 2), slice(0, 256), slice(0, 256)])
    Traceback (most recent call last):
        ...
    ValueError: aabb axis 0: slice step must be 1 or omitted (got step=2)
    >>> Sample(uri="cell.zarr", aabb=[slice(0, None), slice(0, 256), slice(0, 256)])
    Traceback (most recent call last):
        ...
    ValueError: aabb axis 0: slice stop is required (got slice(0, None, None))
    >>> c = Sample(boxes=[Box("cell.zarr", [(0, 64)], "image"), Box("k.zarr", [(3, 4)], "label")])
    >>> [box.field for box in c.boxes]
    ['image', 'label']
    """

    uri: str
    aabb: tuple[tuple[int, int], ...]
    tag: int = 0
    boxes: tuple[Box, ...] = ()  # () where uri and aabb are the only one

    @overload
    def __init__(
        self, uri: Any, aabb: Iterable[slice[Any, Any, Any] | tuple[int, int]], tag: int = 0
    ) -> None: ...
    @overload
    def __init__(self, *, boxes: Iterable[Box], tag: int = 0) -> None: ...
    def __init__(
        self,
        uri: Any = None,
        aabb: Any = None,
        tag: int = 0,
        *more: NoReturn,
        boxes: Any = None,
        **others: NoReturn,
    ) -> None:
        if more or others:
            raise refusal("Sample", Sample.__init__, SAMPLE, (uri, aabb, tag, *more), others)
        keep = object.__setattr__
        # As dataclasses.replace gives them, none of a kind is an empty tuple.
        if boxes is not None and boxes != ():
            keep(self, "boxes", boxes_of(boxes, (uri, aabb)))
            keep(self, "uri", "")
            keep(self, "aabb", ())
        else:
            keep(self, "uri", uri_of(uri))
            if is_stored(uri):
                aabb = ended(aabb, getattr(uri, "shape", ()))  # of a group: the library reports it
            try:
                keep(self, "aabb", _border.axes("aabb", aabb, 0, interval))
            except HasIndices:
                if not isinstance(aabb, (tuple, list)):
                    raise
                keep(self, "boxes", (Box(uri, cast("list[Any]", aabb)),))
                keep(self, "uri", "")
                keep(self, "aabb", ())
        keep(self, "tag", _border.whole("tag", tag, 0, U64_MAX))

    def __repr__(self) -> str:
        made = f"boxes={self.boxes!r}" if self.boxes else f"uri={self.uri!r}, aabb={self.aabb!r}"
        return f"Sample({made}, tag={self.tag!r})"


def in_units(uri: Any, aabb: Any, array: Any, units: Any, shape: Any) -> tuple[str, Any]:
    """The level and the voxels of a box in physical units."""
    from wavetrain._image import image

    if units is None or aabb is not None or array is not None:
        raise TypeError("units go with a uri and shape, in the place of aabb: Box(uri, units=..)")
    made = image(uri).box(units, shape)
    return made.uri, made.aabb


def whole_box(array: Fed, field: str | int) -> Box:
    """Box(array=array, field=field) of checked arguments, in a tenth of the time."""
    made = object.__new__(Box)
    keep = object.__setattr__
    keep(made, "uri", "")
    keep(made, "aabb", tuple([(0, extent) for extent in array.shape]))
    keep(made, "field", field)
    keep(made, "array", array)
    return made


def ended(given: Any, shape: Any) -> Any:
    """The axes of a box of a zarr.Array, which has the ends that slices leave open."""
    if not isinstance(given, Iterable):
        return given
    axes = [*itertools.islice(cast("Iterable[Any]", given), _native.RANK_MAX + 1)]
    for axis, (each, extent) in enumerate(zip(axes, shape)):
        if isinstance(each, slice) and cast("Any", each).stop is None:
            axes[axis] = slice(cast("Any", each).start, extent, cast("Any", each).step)
    return axes


def boxes_of(given: Any, others: tuple[Any, Any]) -> tuple[Box, ...]:
    """The boxes of a sample that has no uri and aabb."""
    for name, other in zip(("uri", "aabb"), others):
        if other is not None and not (isinstance(other, (str, tuple)) and not other):
            raise TypeError(f"{name} and boxes are both given: a sample has the one or the other")
    if not isinstance(given, Iterable):
        raise TypeError(f"boxes must be a sequence of wavetrain.Box (got {short(given)})")
    # Not more are looked at than there may be.
    boxes = tuple(itertools.islice(cast("Iterable[Any]", given), BOXES_MAX + 1))
    for number, box in enumerate(boxes):
        if not isinstance(box, Box):
            raise TypeError(f"boxes[{number}] must be a wavetrain.Box (got {short(box)})")
    _border.whole("the number of boxes", len(boxes), 1, BOXES_MAX)
    return boxes


def place(axis: int, given: Any) -> int:
    return _border.whole(f"at[{axis}]", given, 0, U64_MAX)


def step_of(name: str, given: Any) -> int:
    step = _border.whole(name, given, I64_MIN, I64_MAX)
    if step == 0:
        raise ValueError(f"{name} must not be 0")
    return step


def steps(sliced: list[int], given: Any) -> tuple[int, ...]:
    """By axis of the array; () where all are 1."""

    def of(axis: int, one: Any) -> int:
        step = step_of(f"step[{axis}]", one)
        if axis < len(sliced) and sliced[axis] != 1:
            raise ValueError(f"step[{axis}] is given, and also the step of a slice: give one")
        return step

    made = _border.axes("step", given, 0, of)
    if made and len(made) != len(sliced):
        raise ValueError(f"step must have an item per axis of aabb, {len(sliced)} (got {made})")
    made = made or tuple(sliced)
    return made if any(step != 1 for step in made) else ()


def field_axes(given: Any, box: Box) -> tuple[int | None, ...]:
    """By axis of the array, the one of the field, each once."""
    rank, taken = len(box.aabb), dict[int, int]()

    def of(axis: int, to: Any) -> int | None:
        name = f"axes[{axis}]"
        if to is None:
            count = box.places(axis) if axis < rank else 1
            if count != 1:
                raise ValueError(
                    f"{name} is None, but an axis that is dropped has 1 element, "
                    f"and this one {count}"
                )
            return None
        to = _border.whole(name, to, 0, _native.RANK_MAX - 1)
        if taken.setdefault(to, axis) != axis:
            raise ValueError(f"{name} must not be {to}, as axes[{taken[to]}] is")
        return to

    made = _border.axes("axes", given, 0, of)
    if len(made) != rank:
        raise ValueError(f"axes must have an item per axis of aabb, {rank} (got {made})")
    return made


def walk_of(axis: int, given: Any, extent: int | None) -> tuple[int, int, int]:
    """(begin, end, step) of one axis, of an array of that extent."""
    pair: Any = given
    if not isinstance(given, slice):
        return (*interval(axis, given), 1)
    name = f"aabb axis {axis}"
    step = 1 if pair.step is None else step_of(f"{name}: slice step", pair.step)
    start, stop = pair.start, pair.stop
    if extent is None and (stop if step > 0 else start) is None:
        end = "stop" if step > 0 else "start"
        raise ValueError(f"{name}: slice {end} is required (got {short(given)})")
    if step > 0:
        return (*interval(axis, slice(start, extent if stop is None else stop)), step)
    if start is None and extent is not None:
        start = extent - 1
    # From start down to the place after stop: a box from there to start, read backwards.
    begin = 0 if stop is None else _border.whole(f"{name} stop", stop, I64_MIN, I64_MAX - 1) + 1
    end = _border.whole(f"{name} start", start, I64_MIN, I64_MAX - 1) + 1
    if begin >= end:
        raise ValueError(f"{name}: {given} counts down, and stop is not below start: it is empty")
    return begin, end, step


def region(given: Any, shape: tuple[int, ...]) -> Any:
    """The aabb of a box of an array whose ends are known."""
    if given is None:
        return [(0, extent) for extent in shape]
    if isinstance(given, Iterable):
        items = cast("Iterable[Any]", given)
        given = tuple(itertools.islice(items, _native.RANK_MAX + 1))
        if len(given) != len(shape):
            raise ValueError(
                f"aabb must have an item per axis of the array, {len(shape)} (got {len(given)})"
            )
    return given


def interval(axis: int, given: Any) -> tuple[int, int]:
    """(start, stop) of one axis."""
    start: Any
    stop: Any
    pair: Any = given
    if isinstance(given, slice):
        start, stop, step = pair.start, pair.stop, pair.step
        # An array has an index and a length, and compares to an array.
        is_one = hasattr(step, "__index__") and not hasattr(step, "__len__") and step == 1
        if step is not None and not is_one:
            raise ValueError(
                f"aabb axis {axis}: slice step must be 1 or omitted (got step={short(step)})"
            )
        if stop is None:
            raise ValueError(f"aabb axis {axis}: slice stop is required (got {short(given)})")
        start = 0 if start is None else start
    elif isinstance(given, (tuple, list)) and len(pair) == 2:
        start, stop = pair
    else:
        kind = type(pair).__name__
        text = f"aabb axis {axis}: expected slice or (start, stop) tuple; got {kind}"
        raise HasIndices(text) if is_indices(pair) else TypeError(text)
    # Most are plain: the words for the others cost more than all else here.
    if type(start) is type(stop) is int and I64_MIN <= start <= I64_MAX >= stop >= I64_MIN:
        return start, stop
    return (
        _border.whole(f"aabb axis {axis} start", start, I64_MIN, I64_MAX),
        _border.whole(f"aabb axis {axis} stop", stop, I64_MIN, I64_MAX),
    )


class HasIndices(TypeError):
    """An axis is an array of integers, which a Box takes alone."""


def is_indices(given: Any) -> bool:
    """Whether it is an array with an axis, of numpy, torch or the like."""
    return getattr(given, "ndim", 0) > 0 and hasattr(given, "dtype") and hasattr(given, "tolist")


def indices_of(name: str, given: Any) -> tuple[int, ...]:
    """The elements that a list of them names."""
    if getattr(given, "ndim", 1) != 1:
        raise ValueError(f"{name}: an array of indices has one axis (got {short(given)})")
    found: list[Any] = given.tolist() if is_indices(given) else [*given]
    if bool in {type(index) for index in found}:
        raise TypeError(f"{name}: a mask is not a list of indices: give numpy.flatnonzero(mask)")
    if not found:
        raise ValueError(f"{name}: an array of indices has one at least")
    return tuple([_border.whole(f"{name}, an index", each, I64_MIN, I64_MAX) for each in found])


def lists_of(
    found: dict[int, tuple[int, ...]], given: Any, aabb: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """The lists of a box: of its arrays, or as they were given."""
    lists = dict(found)
    for axis, indices in given:
        number = _border.whole("lists: an axis", axis, 0, len(aabb) - 1)
        made = indices_of(f"lists, axis {number}", indices)
        if lists.setdefault(number, made) != made or aabb[number] != (0, len(made)):
            raise ValueError(f"lists: axis {number} has {len(made)} indices, aabb {aabb[number]}")
    return tuple(sorted(lists.items()))


class Served(str):
    """The uri of an array in a store of zarr-python that is not a folder. It holds the store, in
    this process: it is sent to others as the text alone."""

    store: Any
    way: Any = None  # the Remote that reads it without zarr-python

    def __reduce__(self) -> Any:
        return str, (str(self),)


def is_stored(given: Any) -> bool:
    """Whether it is a zarr.Array."""
    return hasattr(given, "store") and hasattr(given, "path")


def is_store(given: Any) -> bool:
    """Whether it is a Store of zarr-python 3, which is imported then."""
    module = sys.modules.get("zarr.abc.store")
    return module is not None and isinstance(given, module.Store)


def named(uri: str, is_cf: bool) -> str:
    """The uri of an array as boxes of a field name it, with the field's cf."""
    return f"{uri}{CF_MARK}" if is_cf and not uri.endswith(CF_MARK) else uri


def uri_of(given: Any, others: str = "", name: str = "uri") -> str:
    """The uri of an array: a path as it is, of a zarr.Array where its store keeps it. others: what
    else is taken, in words. name: of what was given."""
    if isinstance(given, (str, bytes, os.PathLike)):
        return _border.path(name, given)
    store: Any = getattr(given, "store", None)
    if store is None or not is_stored(given):
        raise TypeError(
            f"{name} must be a str, a path or a zarr.Array{others} (got {short(given)})"
        )
    root = root_of(store)
    root = root if root.endswith("/") else f"{root}/"
    text = _border.path(name, f"{root}{given.path}" if given.path else root.removesuffix("/"))
    if not is_store(store) or "://" not in root:
        return text
    far = far_of(store)
    if far is not None:
        text = _border.path(name, f"{far[0]}/{given.path}" if given.path else far[0])
    made = Served(text)
    made.store, made.way = store, None if far is None else far[1]
    return made


def root_of(store: Any) -> str:
    """The start of the uris of arrays in a store of zarr: a path, a uri, or a name that no other
    store of this process has. Read-only copies of a store have the same."""
    fs: Any = getattr(store, "fs", None)
    if fs is not None and hasattr(fs, "unstrip_protocol"):  # zarr's FsspecStore
        root = str(fs.unstrip_protocol(store.path))
        return store.path if root.startswith("file://") else root  # which is on disk, unescaped
    if hasattr(store, "root"):  # zarr 3's LocalStore
        return str(store.root)
    kind = type(store).__name__
    if kind in ("DirectoryStore", "NestedDirectoryStore"):  # of zarr 2
        return str(store.path)
    if not inspect.iscoroutinefunction(getattr(store, "get", None)):
        raise TypeError(
            f"uri: a zarr.Array in a {kind} is not read: put it in a folder, or open it with "
            "zarr-python 3 and give files=wavetrain.store(array)"
        )
    if kind in ("MemoryStore", "ZipStore"):
        return str(store)  # memory://NUMBER of its dict, zip://PATH
    # with_read_only gives another object, with the same store of obstore or icechunk in it.
    inner = getattr(store, "store", None) or getattr(store, "_store", None) or store
    return f"{kind.lower()}://{id(inner)}"
