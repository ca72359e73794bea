"""Exceptions of Python code that the library called. They are kept until an error of the library
reports the failure: C has a status for it, and no exception."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Generator

from wavetrain import _log
from wavetrain._errors import NotFound, StorageError, WavetrainError

KEPT = 64  # at a time


class Causes:
    """The last exception of each thing that was asked for, a few of them."""

    def __init__(self, logger: logging.Logger) -> None:
        self.logger = logger
        self.lock = threading.Lock()
        # By the part of it in the library's text: the name, and if it is there the place in it.
        self.raised: dict[tuple[str, str], BaseException] = {}
        self.absent: dict[tuple[str, str], BaseException] = {}

    def failed(self, name: str, error: BaseException, place: str = "") -> None:
        self.keep(self.raised, (name, place), error)
        line = _log.line(name)
        self.logger.info("%s: %s", line, told(error))  # which may raise: a filter of somebody's

    def missed(self, name: str, error: BaseException, place: str = "") -> None:
        """The same of what is not there, which need not be an error."""
        self.keep(self.absent, (name, place), error)

    def keep(
        self, kept: dict[tuple[str, str], BaseException], key: tuple[str, str], error: BaseException
    ) -> None:
        with self.lock:
            key = (_log.line(key[0]), key[1])  # as texts of the library have it
            kept.pop(key, None)  # it may fail twice: the library asks once more
            if len(kept) >= KEPT:
                kept.clear()
            kept[key] = error  # the last one

    def of(self, failure: WavetrainError) -> BaseException | None:
        """The exception that was raised for the thing that the failure names."""
        if not isinstance(failure, (StorageError, NotFound)):
            return None
        kept = self.absent if isinstance(failure, NotFound) else self.raised
        text = str(failure)
        with self.lock:
            # "c/1" is in "c/11" too. Among those of one name the one of the place, else the last.
            found = [key for key in reversed(kept) if key[0] in text]
            best = max(found, key=lambda key: (len(key[0]), key[1] in text, key[1]), default=None)
            return None if best is None else kept[best]

    def explain(self, failure: WavetrainError) -> WavetrainError:
        """The same failure with its cause, and the text of that."""
        cause = self.of(failure)
        if cause is not None:
            failure.__cause__ = cause
            failure.args = (f"{failure} ({told(cause)})",)
        return failure


def told(error: BaseException) -> str:
    kind = type(error).__name__
    try:
        text = str(error).partition("\n")[0]  # of a worker's the rest is its traceback
        return _log.line(f"{kind}: {text}") if text else kind
    except Exception:  # of a class of somebody else's
        return kind


@contextlib.contextmanager
def explained(*kinds: Causes) -> Generator[None, None, None]:
    """Around calls whose hooks run on the caller's own thread: errors get their causes, and an
    interrupt is the caller's."""
    try:
        yield
    except (StorageError, NotFound) as error:
        for causes in kinds:
            cause = causes.of(error)
            if cause is not None and not isinstance(cause, Exception):
                raise cause from None
            causes.explain(error)
        raise
