"""Log lines of the library: to the logger "wavetrain", and to stderr for who asks for that."""

from __future__ import annotations

import logging
import sys
from typing import Any

from wavetrain import _border, _native

LOGGER = logging.getLogger("wavetrain")
TRACE = 5
logging.addLevelName(TRACE, "TRACE")
# By the library's number of a level.
LEVELS = (TRACE, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
NAMES = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")


class Sink:
    """What of the log goes to stderr."""

    level = _native.LOG_WARN
    is_quiet = True


def set_log_level(level: int) -> None:
    """The least severe line that goes to stderr, where set_log_quiet(False) sends any there: 0
    TRACE, 1 DEBUG, 2 INFO, 3 WARN (the default), 4 ERROR, 5 FATAL, 6 none. Of every pipeline, at
    once. The logger "wavetrain" has a level of its own, as loggers have."""
    Sink.level = _border.whole("level", level, _native.LOG_TRACE, _native.LOG_OFF)


def set_log_quiet(quiet: bool) -> None:
    """False: lines go to stderr too; True, the default: to the logger "wavetrain" alone."""
    Sink.is_quiet = _border.flag("quiet", quiet)


def write(_user: Any, level: int, tag: int, text: bytes, _size: int) -> None:
    """A log hook. Called on threads of the library too."""
    words = text.decode(errors="replace")
    if not Sink.is_quiet and level >= Sink.level:
        print(f"wavetrain {NAMES[level]} {words}", file=sys.stderr)
    LOGGER.log(LEVELS[level], "%s", words, extra={"tag": tag})


# Lives as long as the process: a thread of the library may be in it at any time.
HOOK = _native.LogHook_log(write)
