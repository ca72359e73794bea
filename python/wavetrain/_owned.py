"""Objects that stand for something of this process, and end it with themselves."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex

if not TYPE_CHECKING:
    from wavetrain._words import fix_of


class Owned:
    """Cannot be copied or pickled: a copy would end the same thing a second time, which is another
    one's by then, and in another process it would be dead."""

    instead: ClassVar[str] = "make another one where it is needed"
    others: ClassVar[Mapping[str, str]] = {}  # names that it has not, and the fix

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            kind, known = type(self).__name__, [each for each in dir(self) if each[0] != "_"]
            fix = "" if name[0] == "_" else f": {fix_of(name, known, self.others, kind)}"
            raise AttributeError(f"a {kind} has no {name}{fix}", name=name, obj=self)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled, as it stands for memory or "
            f"threads of this process: {self.instead}"
        )


class Opened(Owned):
    """One that its user closes; at its end it warns and closes itself if it is still open."""

    _loader = 0  # not open

    def close(self) -> None:
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._loader:
            try:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=1, source=self)
            finally:  # if warnings are errors, too
                self.close()
