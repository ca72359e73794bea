"""Ctrl-C while the main thread is in the library.

Python raises KeyboardInterrupt between two steps of Python code. So it also does in a hook that the
library calls on that thread: ctypes prints it there, and the program never gets it. Here it is kept
until the call has returned, but for the parts of hooks that can stand it.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Generator
from typing import Any


class Kept(contextlib.AbstractContextManager[None]):
    """Keeps a Ctrl-C until the end of a `with`. Other threads never get one."""

    innermost: Kept | None = None

    def __init__(self) -> None:
        self.handler: Any = None
        self.seen: tuple[int, Any] | None = None
        self.is_open = False  # a hook is where it can stand an exception
        self.raised: BaseException | None = None  # it ended a hook, and so is to end the call

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self.handler, self.outer, Kept.innermost = handler, Kept.innermost, self
                signal.signal(signal.SIGINT, self.note)

    def note(self, number: int, frame: Any) -> None:
        if self.is_open:
            self.handler(number, frame)
        else:
            self.seen = number, frame

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.handler is not None:
            signal.signal(signal.SIGINT, self.handler)
            Kept.innermost = self.outer
            if self.seen is not None:
                self.handler(*self.seen)
            if self.raised is not None and kind is None:
                raise self.raised


@contextlib.contextmanager
def heard() -> Generator[None, None, None]:
    """Around the part of a hook in which a Ctrl-C may end what the hook does."""
    kept = Kept.innermost
    if kept is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    if kept.raised is not None:  # the library asks once more for what it did not get
        raise kept.raised
    kept.is_open = True
    try:
        if kept.seen is not None:  # it came before
            number_and_frame, kept.seen = kept.seen, None
            kept.handler(*number_and_frame)
        yield
    except BaseException as error:
        if not isinstance(error, Exception):
            kept.raised = error
        raise
    finally:
        kept.is_open = False
