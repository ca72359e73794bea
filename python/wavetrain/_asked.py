"""How a source is asked: what kind of thing it is, calls and their answers, and what is wanted."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, cast

from wavetrain._border import short, whole
from wavetrain._config import Dtype
from wavetrain._fed import Fed, feed
from wavetrain._native import RANK_MAX

END = object()  # what a call gives that raised StopIteration


class SampleInfo(NamedTuple):
    """Which sample a callback is asked for."""

    idx_in_epoch: int
    idx_in_batch: int
    iteration: int  # the batch, from 0 in each epoch
    epoch_idx: int


class BatchInfo(NamedTuple):
    """Which batch a callback is asked for."""

    iteration: int  # from 0 in each epoch
    epoch_idx: int


class Answer(Protocol):
    """The result of a call, as concurrent.futures has it."""

    def result(self) -> Any: ...
    def done(self) -> bool: ...
    def cancel(self) -> bool: ...


class Now:
    """A call that is made on this thread when it is asked for its result, and then not again: an
    interrupt may have it asked twice."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call, self.answer = call, list[Any]()

    def result(self) -> Any:
        if not self.answer:
            self.answer.append(self.call())
        return self.answer[0]

    def done(self) -> bool:
        return True

    def cancel(self) -> bool:
        return True


WORDS = {
    "fed": "None",
    "stateful": "a callable without an argument",
    "iterator": "an iterator",
    "iterable": "an iterable",
    "generator": "a generator function",
    "indexed": "a callable with an argument",
}


def kind_of(source: Any) -> str:
    """A key of WORDS."""
    if source is None:
        return "fed"
    if not callable(source):
        if not isinstance(source, Iterable):
            raise TypeError(f"source must be a callable, an iterable or None (got {short(source)})")
        return "iterator" if isinstance(source, Iterator) else "iterable"
    call: Any = getattr(source, "__call__", source)  # noqa: B004 (of an object, its method)
    if inspect.isgeneratorfunction(source) or inspect.isgeneratorfunction(call):
        return "generator"
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = 1
    with contextlib.suppress(ValueError):  # of one that is not Python's nobody knows
        parameters = inspect.signature(source).parameters.values()
        count = sum(each.kind in kinds for each in parameters)
        count = count or int(any(each.kind is each.VAR_POSITIONAL for each in parameters))
    if count > 1:
        raise TypeError(f"source must take one argument, or none (it takes {count})")
    return "indexed" if count else "stateful"


def wanted_of(dtype: Any, ndim: Any, layout: Any, count: int) -> list[tuple[Dtype | None, Any]]:
    """The arrays that each field takes."""

    def each(name: str, given: Any) -> list[Any]:
        items = [given] * count
        if isinstance(given, (list, tuple)):
            items = [*cast("Iterable[Any]", given)]
        if len(items) > count:
            raise ValueError(
                f"{name} must have an item for each field, {count} (got {short(given)})"
            )
        return [*items, *[None] * (count - len(items))]

    wanted = list[tuple[Dtype | None, Any]]()
    for kind, axes, letters in zip(
        each("dtype", dtype), each("ndim", ndim), each("layout", layout)
    ):
        rank = None if axes is None else whole("ndim", axes, 0, RANK_MAX)
        if letters is not None:
            if not isinstance(letters, str) or len(set(letters)) != len(letters):
                raise ValueError(
                    f"layout must be a str of different letters (got {short(letters)})"
                )
            if rank not in (None, len(letters)):
                raise ValueError(f"ndim must be {len(letters)}, as layout {letters!r} (got {rank})")
            rank = len(letters)
        wanted.append((None if kind is None else Dtype.coerce(kind), rank))
    return wanted


def until_end(call: Callable[[], Any], is_copied: bool) -> Any:
    """The value of a call, copied at its return if `is_copied`: its giver may write to it again
    before it is asked for. Arrays of few bytes are copied in any case."""
    try:
        value = call()
    except StopIteration:
        return END
    return held(value, is_copied, 2)


def held(value: Any, is_copied: bool, depth: int) -> Any:
    """`depth` containers deep: by fields, and in a batch by samples."""
    if depth and isinstance(value, Mapping):
        named = cast("Mapping[Any, Any]", value)
        return {name: held(each, is_copied, depth - 1) for name, each in named.items()}
    if isinstance(value, (tuple, list)):
        items = cast("Iterable[Any]", value)
        made = [held(each, is_copied, depth - 1) for each in items] if depth else [*items]
        return tuple(made) if isinstance(value, tuple) else made
    made = feed(value)
    if isinstance(made, Fed) and made.is_borrowed and is_copied:
        return made.copied()
    return value if made is None else made


def is_no_end(value: Any) -> bool:
    return value is not END
