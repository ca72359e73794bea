"""Whether a file is surely absent, which for a chunk is data, or only was not read.

In: a FileNotFoundError, and the exceptions that it was raised from. Out: whether those agree.
File systems raise it for more than absence: that of http, for one, for any failure of `info`.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Mapping
from typing import Any, cast

from wavetrain._causes import told

ABSENT = (404, 410)  # statuses of HTTP
DENIED = (401, 403, 407, 451)
STATUSES = range(100, 600)
DEPTH = 32  # exceptions of a chain that are looked at
if sys.version_info >= (3, 11):
    LATE = (TimeoutError,)
else:  # those of its own are no TimeoutError, and no OSError
    import asyncio
    import concurrent.futures

    LATE = (TimeoutError, asyncio.TimeoutError, concurrent.futures.TimeoutError)


def handled() -> BaseException | None:
    """The exception that a hook's caller handles; those that the hook raises have it as context."""
    return sys.exc_info()[1]


def status_of(error: BaseException) -> int | None:
    """The status of HTTP that an exception has: of aiohttp, requests, httpx, urllib, botocore,
    azure, google."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, Mapping):  # of botocore
        answer = cast("Mapping[str, Any]", response)
        if answer.get("Error", {}).get("Code") == "NoSuchBucket":
            return None
        return number_of(answer.get("ResponseMetadata", {}).get("HTTPStatusCode"))
    for holder in (error, response):
        for name in ("status", "status_code", "code"):
            status = number_of(getattr(holder, name, None))
            if status is not None:
                return status
    return None


def number_of(given: Any) -> int | None:
    if isinstance(given, str) and given.isdigit():
        given = int(given)
    return int(given) if isinstance(given, int) and given in STATUSES else None


def sign_of(error: BaseException) -> bool | None:
    """True: it reports that something is absent. False: something else failed. None: who knows."""
    status = status_of(error)
    if status is not None:
        return status in ABSENT
    if isinstance(error, (FileNotFoundError, KeyError)):
        return True
    is_failure = isinstance(error, LATE) or (
        isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None)
    )
    return False if is_failure else None


def chain_of(error: BaseException, within: BaseException | None) -> list[BaseException]:
    """An exception and those that it was raised from, without what the caller handles."""
    chain = [error]
    while len(chain) < DEPTH:
        last = chain[-1]
        cause = last.__cause__
        if cause is None and not last.__suppress_context__:
            cause = last.__context__
        if cause is None or cause is within or any(cause is each for each in chain):
            break
        chain.append(cause)
    return chain


def doubt_of(
    error: BaseException, within: BaseException | None, is_strict: bool = False
) -> BaseException | None:
    """The exception of the chain by which the file need not be absent. Strict: the one that began
    the chain must say absent, unless a file system has set ENOENT."""
    chain = chain_of(error, within)
    signs = [sign_of(each) for each in chain]
    if False in signs:
        return chain[signs.index(False)]
    says_so = any(isinstance(each, OSError) and each.errno == errno.ENOENT for each in chain)
    return chain[-1] if is_strict and signs[-1] is None and not says_so else None


def not_read(name: str, error: BaseException, doubt: BaseException) -> OSError:
    """The error that takes the place of one that reports absence."""
    status, fix = status_of(doubt), ""
    if status in DENIED:
        fix = ": give credentials that may read and list it"
    elif status is not None:
        fix = ": reset once the server answers, and set n_io_threads lower if it is asked too often"
    made = OSError(f"{name} was not read, and need not be absent ({told(doubt)}){fix}")
    made.__cause__ = error
    return made
