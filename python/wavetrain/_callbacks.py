"""Functions of Python that C calls: nothing that they raise gets there.

An exception that leaves a callback of ctypes is printed, and the result is whatever its memory
held: a size of 0, a success, an absence. So there is one way to make a callback, which is this.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import Any

Call = Callable[..., Any]


def shielded(call: Call, failed: int | None = None) -> Call:
    """The same call, which returns `failed` instead of raising. A result must be an int, or, where
    there is no `failed`, is dropped."""

    def shield(*arguments: Any) -> int | None:
        try:
            result = call(*arguments)
            return None if failed is None else operator.index(result)
        except BaseException as error:
            with contextlib.suppress(BaseException):
                Report(error)
            return failed

    return shield


def callback(kind: Any, call: Call, failed: int | None = None) -> Any:
    """A function of that type of ctypes. The one who hands it to C keeps it."""
    return kind(shielded(call, failed))


class Report:
    """Ends at once, so that Python reports an exception that nobody can raise: to
    sys.unraisablehook, which takes it from Python alone."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __del__(self) -> None:
        raise self.error
