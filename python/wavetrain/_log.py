"""Log lines of the library: to the logger "wavetrain", and to stderr for who asks for that."""

from __future__ import annotations

import logging
import re
import sys
from typing import Any, cast

from wavetrain import _border, _native
from wavetrain._callbacks import callback

# Levels of the library.
LOG_TRACE = _native.LOG_TRACE
LOG_DEBUG = _native.LOG_DEBUG
LOG_INFO = _native.LOG_INFO
LOG_WARN = _native.LOG_WARN
LOG_ERROR = _native.LOG_ERROR
LOG_FATAL = _native.LOG_FATAL

LOGGER = logging.getLogger("wavetrain")
# Else Python prints warnings of whoever has not set up logging.
LOGGER.addHandler(logging.NullHandler())
TRACE = 5
logging.addLevelName(TRACE, "TRACE")
# By the library's number of a level.
LEVELS = (TRACE, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
NAMES = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")


# Ends of lines, what moves a terminal's cursor, and what turns the order of characters.
ESCAPED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def line(text: str) -> str:
    """A text that somebody else chose, as one line of a log: escaped like the library's own."""
    return ESCAPED.sub(lambda found: SHORT.get(found[0], f"\\u{{{ord(found[0]):x}}}"), text)


class Sink:
    """The part of the log that is written to stderr."""

    level = LOG_WARN
    is_quiet = True


def set_log_level(level: int) -> None:
    """The least severe line that is written to stderr, if set_log_quiet(False) sends any there:
    LOG_TRACE to LOG_FATAL, of every pipeline, at once [LOG_WARN]. The logger "wavetrain" has a
    level of its own, as loggers have. LOG_TRACE is for pipelines that are opened afterwards, and so
    is TRACE, 5, as the level of the logger."""
    if isinstance(cast("Any", level), str):
        raise TypeError(f"level must be a number, such as wavetrain.LOG_DEBUG (got {level!r})")
    Sink.level = _border.whole("level", level, LOG_TRACE, LOG_FATAL)


def set_log_quiet(quiet: bool) -> None:
    """False: lines go to stderr too; True, the default: to the logger "wavetrain" alone."""
    Sink.is_quiet = _border.flag("quiet", quiet)


def least() -> int:
    """The least severe line that the library passes to Python. There is a TRACE line for each
    read, and each is a call of Python on a thread of the library: unheard, they stay there."""
    is_shown = not Sink.is_quiet and Sink.level == LOG_TRACE
    return LOG_TRACE if is_shown or LOGGER.isEnabledFor(TRACE) else LOG_DEBUG


def write(_user: Any, level: int, tag: int, text: bytes, _size: int) -> None:
    """A log hook. Called on threads of the library too."""
    words = text.decode(errors="replace")
    try:
        # print takes stdout where there is no stderr.
        if not Sink.is_quiet and level >= Sink.level and sys.stderr is not None:
            print(f"wavetrain {NAMES[level]} {words}", file=sys.stderr)
    finally:
        LOGGER.log(LEVELS[level], "%s", words, extra={"tag": tag})


# Lives as long as the process: a thread of the library may be in it at any time.
HOOK = callback(_native.LogHook_log, write)
