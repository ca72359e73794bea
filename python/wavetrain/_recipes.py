"""Recipes of augmentation: a class that all share, and how a list of them becomes passes.

In: recipes, the shape of a sample, places of an epoch. Out: an `AugmentSpec` for each place, which
wavetrain_recipes.h defines: the library computes it, and a pipeline can take it as it is.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import secrets
from collections.abc import Callable, Iterable, Sequence
from ctypes import Structure, addressof, byref, sizeof
from typing import Any

from wavetrain import _border, _native
from wavetrain._border import U64_MAX, short, word
from wavetrain._library import library
from wavetrain._orders import Place, Places, place_of
from wavetrain._pixels import Array, fill, numpy_

FilterFn = Callable[[Any, Any], "tuple[Any, Any]"]
Values = float | Iterable[float]

PAD_MODES = {
    "none": _native.PAD_NONE,
    "constant": _native.PAD_CONSTANT,
    "edge": _native.PAD_EDGE,
    "reflect": _native.PAD_REFLECT,
}
EXTENT_MAX = 1 << 30


@dataclasses.dataclass(frozen=True)
class Erased:
    """A box that is overwritten, by axis of a sample: places begin <= place < end."""

    begin: tuple[int, ...]
    end: tuple[int, ...]
    values: tuple[float, ...]  # one, or one for each channel


@dataclasses.dataclass(frozen=True)
class AffineSpec:
    """voxel[i] = sum of matrix[i][j] * place[j], and matrix[i][3], for axes i and j of `axes`."""

    axes: tuple[int, ...]  # of the sample, two or three
    matrix: tuple[tuple[float, ...], ...]  # rows of four, as many as axes
    is_linear: bool


@dataclasses.dataclass(frozen=True)
class AugmentSpec:
    """The result of recipes for one sample: a box, and the arithmetic of wavetrain_augment.

    begin, end, step: by axis of the sample, the elements that are read, counted from its first one.
    They may lie outside, where pad_mode has its elements. With `affine` they are its output.
    """

    begin: tuple[int, ...]
    end: tuple[int, ...]
    step: tuple[int, ...]
    shape: tuple[int, ...]  # of what is made: places by axis
    pad_mode: str  # "none", "constant", "edge" or "reflect", as numpy.pad has them
    pad_value: float  # of "constant"
    channel_axis: int  # of the lists below that have a number for each channel
    scale: tuple[float, ...] | None
    bias: tuple[float, ...] | None
    noise_sigma: float
    noise_key: int
    clamp: tuple[float, float] | None
    erases: tuple[Erased, ...]
    pad_goes_through: bool  # padding is data: arithmetic and erases reach it
    affine: AffineSpec | None


class Refused(ValueError):
    """A recipe that the library refused: `answer` is its WAVETRAIN_RECIPE_."""

    def __init__(self, what: Any, answer: int) -> None:
        text: bytes = library().wavetrain_recipe_text(answer)
        super().__init__(f"{what!r}: {text.decode()}")
        self.answer = answer


def repeated(one: Structure, count: int, head: int | None = None) -> Any:
    """An array of copies of a struct. head: of its first bytes alone; the others hold anything."""
    size = sizeof(one)
    made = numpy_().empty((count, size), "u1")
    made[:, :head] = numpy_().frombuffer(one, "u1", size if head is None else head)
    return (type(one) * count).from_buffer(made)


def words_of(places: Sequence[Place]) -> Array:
    if isinstance(places, Places):
        return numpy_().frombuffer(places.words, "u8")
    return numpy_().fromiter(itertools.chain.from_iterable(places), "u8", 2 * len(places))


class Boxes:
    """The library's structs of one box for each place, at least one, and the calls of recipes on
    them."""

    def __init__(
        self,
        shape: Sequence[int],
        made: Sequence[int],
        pad_mode: str,
        places: Sequence[Place],
    ) -> None:
        count = len(places)
        self.count, self.rank, self.spatial = count, len(shape), spatial_of(shape)
        field = _native.RecipeField(
            rank=self.rank,
            channel_axis=channel_axis_of(shape, _native.RECIPE_NO_CHANNELS),
            n_spatial=len(self.spatial),
            pad_mode=PAD_MODES[pad_mode],
        )
        field.spatial[: len(self.spatial)] = field.box_spatial[: len(self.spatial)] = self.spatial
        field.shape[: self.rank] = made
        target = _native.Box(rank=self.rank)
        target.end[: self.rank] = shape
        record = _native.Augmented(struct_size=sizeof(_native.Augmented), field=field)
        # wavetrain_recipe_begin empties the room, which is nearly all of a record.
        self.records = repeated(record, count, _native.Augmented.room.offset)
        self.targets = repeated(target, count)
        self.augments = repeated(_native.Augment(struct_size=sizeof(_native.Augment)), count)
        self.affines = repeated(_native.Affine(struct_size=sizeof(_native.Affine)), count)
        for name in ("target", "augment", "affine"):
            of = getattr(self, f"{name}s")
            numbers = numpy_().arange(count, dtype="u8")
            self.words(name)[:, 0] = numbers * (sizeof(of) // count) + addressof(of)
        self.words("place")[...] = words_of(places).reshape(count, 2)
        self.seed = 0
        answer = self.ask("begin")
        if answer != _native.RECIPE_DONE:
            raise Refused(tuple(shape), answer)

    def words(self, name: str) -> Array:
        """A member of all records, as words of 64 bits [count, words]."""
        member, size = getattr(_native.Augmented, name), sizeof(_native.Augmented)
        shape = self.count, member.size // 8
        return numpy_().ndarray(shape, "u8", self.records, member.offset, (size, 8))

    def ask(self, what: str, *arguments: Any) -> int:
        """Calls wavetrain_recipe_`what` for all boxes; its answer."""
        return getattr(library(), f"wavetrain_recipe_{what}")(
            byref(self.records), self.count, *arguments
        )

    def put(self, recipe: Recipe, seed: int) -> None:
        """Lets a recipe work on all boxes."""
        if seed != self.seed:
            self.seed = seed
            self.words("seed")[...] = seed
        answer = recipe.put(self)
        if answer != _native.RECIPE_DONE:
            raise Refused(recipe, answer)

    def spec(self, number: int, pad_mode: str, pad_value: float) -> AugmentSpec:
        target, augment = self.targets[number], self.augments[number]
        affine, rank, room = self.affines[number], self.rank, self.records[number].room
        channels = augment.n_channels
        axes = tuple(affine.axes[: affine.rank])
        step = tuple(each or 1 for each in target.step[:rank])
        begin, end = tuple(target.begin[:rank]), tuple(target.end[:rank])
        reach = zip(begin, end, step)
        return AugmentSpec(
            begin,
            end,
            step,
            shape=tuple(-((first - limit) // abs(by)) for first, limit, by in reach),
            pad_mode=pad_mode,
            pad_value=pad_value,
            channel_axis=augment.channel_axis,
            scale=tuple(room.scale[:channels]) if augment.scale else None,
            bias=tuple(room.bias[:channels]) if augment.bias else None,
            noise_sigma=augment.noise_sigma,
            noise_key=augment.noise_key,
            clamp=(augment.clamp_low, augment.clamp_high) if augment.has_clamp else None,
            erases=tuple(
                Erased(
                    tuple(each.begin[:rank]),
                    tuple(each.end[:rank]),
                    tuple(room.values[k][: each.n_values]),
                )
                for k, each in enumerate(room.erase[: augment.n_erase])
            ),
            pad_goes_through=bool(augment.pad_goes_through),
            affine=AffineSpec(
                axes,
                tuple(tuple(row) for row in affine.matrix[: len(axes)]),
                affine.filter == _native.LINEAR,
            )
            if axes
            else None,
        )


def spatial_of(shape: Sequence[int]) -> tuple[int, ...]:
    """The axes of space of a sample [H, W], [C, H, W] or [C, D, H, W]."""
    if not 2 <= len(shape) <= 4:
        raise ValueError(
            "pictures must be arrays [N, H, W], [N, C, H, W] or [N, C, D, H, W] (got a sample of "
            f"{len(shape)} axes): reshape them, e.g. x.reshape(len(x), 1, *x.shape[1:])"
        )
    return tuple(range(len(shape) > 2, len(shape)))


def channel_axis_of(shape: Sequence[int], none: int) -> int:
    return 0 if len(shape) > 2 else none


class Recipe:
    """One recipe. Called on a batch, it returns an augmented one of its own:

        xb, yb = recipe(xb, yb)

    xb is an array [N, C, H, W] of numpy, and is never written to ([N, H, W] and [N, C, D, H, W] are
    taken too). yb is returned as it is. Arithmetic makes float32 of every type; recipes that move
    or erase elements keep the type.

    name: draws depend on it. Two recipes of one name draw the same; without a name, the second of a
        kind in a list is called "random_erase 2".
    seed: draws depend on it; None: the seed of the call or, without one, one that is drawn once.
    """

    makes_floats = False  # of integers, too
    draws = True
    moves = False  # begin, end, step and map of a box, and does no arithmetic
    maps = False  # places to voxels
    pad_mode: str | None = None  # that the recipe needs of the field
    pad_value = 0.0
    kind = ""

    def __init__(self, name: str | None, seed: int | None) -> None:
        is_given = name is not None
        self.name = _border.label("name", name, 63) if is_given else self.kind
        self.is_named = is_given
        self.seed = None if seed is None else word("seed", seed)
        self._own_seed: int | None = None
        self._next = 0  # place of the next sample, where the caller has no places

    def numbers(self) -> dict[str, Any]:
        """The arguments that it was made with, for repr."""
        raise NotImplementedError

    def put(self, boxes: Boxes) -> int:
        """Asks the library; its answer."""
        raise NotImplementedError

    @property
    def padding(self) -> tuple[str, float]:
        return self.pad_mode or "none", self.pad_value

    def does_something(self, dtype: Any) -> bool:
        """Whether it changes elements of this type."""
        return True

    def erases(self) -> int:
        """Boxes that it erases at most."""
        return 0

    def shape_of(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of a sample that it makes of one of `shape`."""
        return tuple(shape)

    def check(self, shape: Sequence[int], dtype: Any) -> None:
        """Refuses pictures that it cannot work on, in words of Python."""

    def __repr__(self) -> str:
        told = [f"{name}={value!r}" for name, value in self.numbers().items()]
        told += [f"name={self.name!r}"] if self.name != self.kind else []
        told += [f"seed={self.seed}"] if self.seed is not None else []
        return f"{self.kind}({', '.join(told)})"

    def __call__(
        self, xb: Any, yb: Any, places: Iterable[Place] | None = None, seed: int | None = None
    ) -> tuple[Any, Any]:
        """The batch that the recipe makes. places: (epoch, position) of each sample, on which draws
        depend; without them samples are counted, from 0 on. seed: of draws, if the recipe has
        none."""
        return run_of([self], xb, places, seed), yb

    def augment(
        self, epoch: int, position: int, shape: Sequence[int], dtype: Any = "f4"
    ) -> AugmentSpec:
        """The box and the arithmetic of the sample at a place. `shape` [C, H, W] and `dtype` are
        those of the sample."""
        place = place_of((epoch, position))
        return specs_of([self], shape, [place], dtype)[0]

    def seed_of(self, seed: int | None) -> int:
        if self.seed is not None or seed is not None:
            return word("seed", self.seed if seed is None or self.seed is not None else seed)
        if self._own_seed is None:
            self._own_seed = secrets.randbits(64)
        return self._own_seed


def named(recipes: Iterable[Any]) -> list[Any]:
    """The same list, where each recipe without a name that follows another of its kind is a copy
    that has one of its own."""
    made: list[Any] = []
    kinds: dict[str, int] = {}
    for each in recipes:
        if isinstance(each, Recipe) and each.draws and not each.is_named:
            number = kinds[each.kind] = kinds.get(each.kind, 0) + 1
            if number > 1:
                each.seed_of(None)  # which both have
                each = copy.copy(each)
                each.name, each.is_named = f"{each.kind} {number}", True
        made.append(each)
    return made


def pad_of(recipes: Iterable[Recipe]) -> tuple[str, float]:
    """The padding of the first recipe that needs one; recipes of one pass agree."""
    return next((each.padding for each in recipes if each.pad_mode is not None), ("none", 0.0))


def specs_of(
    recipes: Sequence[Recipe],
    shape: Sequence[int],
    places: Sequence[Place],
    dtype: Any = "f4",
    seed: int | None = None,
) -> list[AugmentSpec]:
    """The one pass that recipes are, for the sample of each place: `shape` [C, H, W] and `dtype`
    are those of a sample. ValueError if they are no one pass: `split` makes a list that is."""
    shape = shape_from(shape)
    pad_mode, pad_value = pad_of(recipes)
    kinds: list[Any] = []  # of elements as each recipe meets them
    made, kind = shape, numpy_().dtype(dtype)
    for recipe in recipes:
        recipe.check(made, kind)
        made = recipe.shape_of(made)
        kinds.append(kind)
        kind = numpy_().dtype("f4") if recipe.makes_floats else kind
    if not places:
        return []
    boxes = Boxes(shape, made, pad_mode, places)
    for recipe, kind in zip(recipes, kinds):
        if recipe.pad_mode is not None and recipe.padding != (pad_mode, pad_value):
            raise Refused(recipe, _native.RECIPE_ORDER)
        if recipe.does_something(kind):
            boxes.put(recipe, recipe.seed_of(seed))
    return [boxes.spec(number, pad_mode, pad_value) for number in range(len(places))]


def shape_from(given: Sequence[int]) -> tuple[int, ...]:
    shape = tuple(_border.whole("shape", extent, 1, EXTENT_MAX) for extent in given)
    spatial_of(shape)
    return shape


def passes(recipes: Sequence[Recipe], shape: Sequence[int], dtype: Any) -> list[list[Recipe]]:
    """A list of recipes as passes: each has as many as can be one."""
    numpy: Any = numpy_()
    made: list[list[Recipe]] = []
    kind = numpy.dtype(dtype)
    start, before = tuple(shape), kind
    for recipe in recipes:
        if made and can_follow(made[-1], recipe, start, before):
            made[-1].append(recipe)
        else:
            if made:
                for each in made[-1]:
                    start = each.shape_of(start)
                before = kind
            specs_of([recipe], start, [Place(0, 0)], before, 0)
            made.append([recipe])
        kind = numpy.dtype("f4") if recipe.makes_floats else kind
    return made


def can_follow(recipes: list[Recipe], recipe: Recipe, shape: Sequence[int], dtype: Any) -> bool:
    """Whether a recipe is one pass with others, whatever is drawn."""
    if sum(each.erases() for each in [*recipes, recipe]) > _native.RECIPE_ERASES:
        return False
    try:
        specs_of([*recipes, recipe], shape, [Place(0, 0)], dtype, 0)
    except Refused as refused:
        if refused.answer in (_native.RECIPE_ORDER, _native.RECIPE_FIELD):
            return False
        raise
    return True


def run_of(
    recipes: list[Recipe], xb: Any, places: Iterable[Place] | None, seed: int | None
) -> Array:
    """A batch through recipes, as few passes as there can be."""
    numpy: Any = numpy_()
    x = numpy.asarray(xb)
    if x.dtype.kind not in "iufb":
        raise TypeError(f"pictures must be numbers (got {short(xb)}): give x.astype('f4')")
    spatial_of(x.shape[1:])
    at = places_of(recipes, places, len(x))
    for each in passes(recipes, x.shape[1:], x.dtype):
        specs = specs_of(each, x.shape[1:], at, x.dtype, seed)
        makes_floats = any(recipe.makes_floats for recipe in each)
        extents = x.shape[1:]
        for recipe in each:
            extents = recipe.shape_of(extents)
        made = numpy.empty((len(x), *extents), "f4" if makes_floats else x.dtype)
        fill(made, x, specs)
        x = made
    return x


def places_of(recipes: list[Recipe], given: Iterable[Place] | None, count: int) -> Sequence[Place]:
    """The place of each sample: as given, or counted on."""
    if given is not None:
        places = [place_of(tuple(each)) for each in given]
        if len(places) != count:
            raise ValueError(
                f"places must have one for each of {count} samples (got {len(places)})"
            )
        return places
    first = max(recipe._next for recipe in recipes)  # pyright: ignore[reportPrivateUsage]
    for recipe in recipes:
        recipe._next = first + count  # pyright: ignore[reportPrivateUsage]
    return [Place(0, position & U64_MAX) for position in range(first, first + count)]
