"""Objects that stand for something of this process, and end it with themselves."""

from __future__ import annotations

from typing import Any, ClassVar, SupportsIndex


class Owned:
    """Cannot be copied or pickled: a copy would end the same thing a second time, which is another
    one's by then, and in another process it would be dead."""

    instead: ClassVar[str] = "make another one where it is needed"

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled, as it stands for memory or "
            f"threads of this process: {self.instead}"
        )
