"""Stores far away, read without Python in the path: `wavetrain.remote`, and stores of zarr-python.

In: uris with the scheme of such a store, or a Store of zarr-python whose options are understood.
Out: Remote, which stands where Files do, and fills the hooks of a loader by the library of the
package wavetrain-remote. Without that package nothing here finds a store, and errors name it.
"""

from __future__ import annotations

import atexit
import collections
import ctypes
import functools
import importlib
import itertools
import logging
import os
import re
import threading
from collections.abc import Mapping
from typing import Any, cast

from wavetrain import _border, _native
from wavetrain._border import short
from wavetrain._causes import Causes
from wavetrain._errors import NotFound, StorageError, WavetrainError
from wavetrain._library import library

LOGGER = logging.getLogger("wavetrain.remote")
SCHEME = re.compile(r"(raw:)?(zip:|(s3a?|gs|az|abfss?|https?)://)")
# A path that leads into an archive on disk, or is one.
ARCHIVE = re.compile(r"(?:file://)?(.*?\.zip)(?:/|$)")
# Words of the library for a failure of a hook.
HOOKED = ("the files hook reports a failure", "another version")
# Words of the client for an object that a status other than 404 makes absent.
DENIED = ": the server answered "
CLIENTS_KEPT = 8  # that no loader uses
lock = threading.Lock()
CLIENTS: collections.OrderedDict[Any, Any] = collections.OrderedDict()
NS = 1_000_000_000


def begin_forked() -> None:
    """A forked process has clients of its own; its parent may have been in the lock."""
    global lock
    lock = threading.Lock()


os.register_at_fork(after_in_child=begin_forked)
# It runs after the function of _pipeline that closes loaders, which is registered later.
atexit.register(CLIENTS.clear)


def is_far(uri: str) -> bool:
    """Whether a uri is read by the package wavetrain-remote alone."""
    if SCHEME.match(uri):
        return True
    archive = ARCHIVE.match(uri.removeprefix("raw:"))
    return archive is not None and os.path.isfile(archive[1])


@functools.cache
def package() -> Any:
    """The module wavetrain_remote; None if it is not installed."""
    try:
        return importlib.import_module("wavetrain_remote")
    except ModuleNotFoundError as error:
        if error.name != "wavetrain_remote":
            raise
        return None


class RemoteFailure(OSError):
    """The reason that the client of a store far away gives of a failure."""


class RemoteCauses(Causes):
    """The last failure of a client, for the errors of the library."""

    def __init__(self, client: Any) -> None:
        super().__init__(LOGGER)
        self.client = client

    def of(self, failure: WavetrainError) -> BaseException | None:
        text = self.client.last_error()
        if isinstance(failure, NotFound):
            # A document that was denied, and that `absent` makes one that is not there.
            name, denied, _ = text.partition(DENIED)
            folders = itertools.accumulate(name.split("/"), "{}/{}".format)
            is_own = bool(denied) and any(f"{each}/zarr.json: " in str(failure) for each in folders)
        else:
            is_own = isinstance(failure, StorageError)
            is_own = is_own and any(each in str(failure) for each in HOOKED)
        return RemoteFailure(text) if is_own and text else None


class RemoteHook:
    """The hooks of one loader. They have no code of Python."""

    def __init__(self, remote: Remote) -> None:
        self.client = remote.client()
        self.causes = RemoteCauses(self.client)

    def fill(self, native: _native.Config) -> None:
        self.client.fill(native.files, native.store)

    def close(self) -> None:
        """The client stays open, for the next loader."""


class Remote:
    """A way to stores far away, in the place of Files. It may be sent to other processes, each of
    which opens a client of its own, as a forked one does."""

    def __init__(self, settings: Mapping[str, Any], options: Mapping[str, str]) -> None:
        self.settings, self.options = dict(settings), dict(options)

    def __reduce__(self) -> Any:
        return type(self), (self.settings, self.options)

    def __repr__(self) -> str:
        given = {name: value for name, value in self.settings.items() if name != "proxy_url"}
        hidden = [f"{name}=.." for name in self.settings if name == "proxy_url"]
        if self.options:  # whose values may be secrets
            hidden.append(f"options of {', '.join(sorted(self.options))}")
        parts = [*(f"{name}={value!r}" for name, value in sorted(given.items())), *hidden]
        return f"wavetrain.remote({', '.join(parts)})"

    def key(self) -> Any:
        """Clients of the same key are one."""
        pairs = (tuple(sorted(each.items())) for each in (self.settings, self.options))
        return (os.getpid(), *pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remote) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def client(self) -> Any:
        """The client of this process with these options."""
        found = package()
        if found is None:
            raise ImportError("wavetrain.remote needs its library: pip install wavetrain-remote")
        with lock:
            key = self.key()
            client = CLIENTS.pop(key, None)
            if client is None:
                done = ctypes.cast(library().wavetrain_read_done, ctypes.c_void_p).value
                client = found.Client(self.settings, self.options, done)
            CLIENTS[key] = client
            while len(CLIENTS) > CLIENTS_KEPT:
                CLIENTS.popitem(last=False)  # it is closed with the last loader that uses it
            return client

    def stats(self) -> dict[str, int]:
        """Figures of the client since it was opened: requests, retries, bytes_received .."""
        return self.client().stats()


def remote(
    *,
    region: str | None = None,
    endpoint: str | None = None,
    anonymous: bool = False,
    path_style: bool | None = None,
    allow_http: bool | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    proxy: str | None = None,
    absent: str | None = None,
    whole_files: bool = False,
    threads: int | None = None,
    reads_max: int | None = None,
    cache_bytes: int | None = None,
    max_entry_bytes: int | None = None,
    retries_max: int | None = None,
    timeout_s: float | None = None,
    options: Mapping[str, str] | None = None,
) -> Remote:
    """A way to s3://, gs://, az://, http(s):// and zip archives for `Pipeline(files=..)`, of the
    package wavetrain-remote. Without `files`, a uri of such a scheme is read with the defaults:

    files = wavetrain.remote(region="us-east-1", anonymous=True)
    with wavetrain.Pipeline(config, files=files) as pipeline:
        pipeline.push([wavetrain.Sample("s3://bucket/cells.zarr/0", numpy.s_[0:64, 0:128, 0:128])])

    region, endpoint, path_style: of s3; else those of the environment.
    anonymous: requests are not signed. Else credentials are those of the environment, or of the
        machine's role.
    allow_http: an endpoint may be http://; one that is given here may.
    ca_file: certificates (PEM) that are trusted too. proxy: of all requests, else that of the
        environment.
    absent: statuses that mean absent, "404"; "404,403" where keys of s3 cannot be listed. Then a
        chunk that is denied holds the fill value, and `stats()["denied"]` has their number.
    whole_files: files of web servers without ranges are read whole.
    threads, reads_max, cache_bytes, max_entry_bytes, retries_max: as wavetrain_remote.h has them.
    timeout_s: for all tries of one read.
    options: texts by the keys of the crate object_store, {"azure_storage_account_name": ..}."""
    is_plain = endpoint is not None and endpoint.startswith("http://")
    http = is_plain if allow_http is None else _border.flag("allow_http", allow_http)
    given: dict[str, Any] = {
        "region": region,
        "endpoint": endpoint,
        "proxy_url": proxy,
        "absent": absent,
        "ca_file": None if ca_file is None else _border.path("ca_file", ca_file),
        "anonymous": int(_border.flag("anonymous", anonymous)) or None,
        "allow_http": int(http) or None,
        "whole_files": int(_border.flag("whole_files", whole_files)) or None,
        "path_style": None if path_style is None else 1 if _border.flag("p", path_style) else 2,
    }
    for name in ("region", "endpoint", "proxy_url", "absent"):
        if given[name] is not None and (not isinstance(given[name], str) or "\0" in given[name]):
            raise TypeError(f"{name.removesuffix('_url')} must be a str without NUL")
    counts = {"n_threads": threads, "reads_max": reads_max, "retries_max": retries_max}
    sizes = {"cache_bytes": cache_bytes, "max_entry_bytes": max_entry_bytes}
    for numbers, most in ((counts, _border.U32_MAX), (sizes, _border.U64_MAX)):
        for name, number in numbers.items():
            if number is not None:
                given[name] = _border.whole(name.removeprefix("n_"), number, 0, most)
    if timeout_s is not None:
        given["total_timeout_ns"] = int(_border.finite("timeout_s", timeout_s) * NS)
    texts = {} if options is None else dict(options)
    if any(not isinstance(text, str) for pair in texts.items() for text in cast("Any", pair)):
        raise TypeError("options must have a str for each key")  # which may be secret
    return Remote({name: value for name, value in given.items() if value is not None}, texts)


def far_of(store: Any) -> tuple[str, Remote] | None:
    """The uri of a store of zarr-python that the package reads, and the way to it. None: it is not
    installed, or an option of the store is not one of it."""
    kind = type(store).__name__
    if kind not in ("ObjectStore", "FsspecStore") or package() is None:
        return None
    return of_obstore(store.store) if kind == "ObjectStore" else of_fsspec(store)


# Stores of obstore: the scheme of their uris, the key of the bucket, the prefix of options.
OBSTORES = {
    "S3Store": ("s3", "bucket", "aws"),
    "GCSStore": ("gs", "bucket", "google"),
    "AzureStore": ("az", "container_name", "azure"),
}


def of_obstore(inner: Any) -> tuple[str, Remote] | None:
    """Its options are those of the same crate, which both are written with."""
    known = OBSTORES.get(type(inner).__name__)
    has_provider = getattr(inner, "credential_provider", None) is not None
    if (known is None and type(inner).__name__ != "HTTPStore") or has_provider:
        return None
    given: dict[Any, Any] = dict(inner.client_options or {})
    options = {str(key): str(value) for key, value in given.items()}
    if known is None:
        return str(inner.url).rstrip("/"), Remote({}, options)
    scheme, bucket_key, prefix = known
    config = dict(inner.config)
    bucket = config.pop(bucket_key, None)
    if bucket is None:
        return None
    options.update({f"{prefix}_{key}": str(value) for key, value in config.items()})
    root = f"{scheme}://{bucket}/{inner.prefix or ''}".rstrip("/")
    return root, Remote({}, options)


# Options of fsspec's file systems that change nothing of what is read.
HARMLESS = {
    "asynchronous",
    "batch_size",
    "cache_regions",
    "default_block_size",
    "default_cache_type",
    "default_fill_cache",
    "loop",
    "max_concurrency",
    "skip_instance_cache",
    "use_listings_cache",
}
# Variables with credentials of s3 that both read; profiles are read by fsspec alone.
AWS = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")


def of_fsspec(store: Any) -> tuple[str, Remote] | None:
    fs = store.fs
    storage = cast("dict[str, Any]", getattr(fs, "storage_options", None) or {})
    given = {
        key: value
        for key, value in storage.items()
        if key not in HARMLESS and value is not None and value != {}
    }
    root = str(fs.unstrip_protocol(store.path)).rstrip("/")
    kind = type(fs).__name__
    if kind == "HTTPFileSystem":
        return (root, Remote({}, {})) if not given else None
    if kind == "S3FileSystem":
        return of_s3fs(root, given)
    if kind == "GCSFileSystem" and given in ({"token": "anon"}, {"token": "anon", "project": ""}):
        return "gs://" + root.partition("://")[2], remote(anonymous=True)
    return None


def of_s3fs(root: str, given: dict[str, Any]) -> tuple[str, Remote] | None:
    client = dict(given.pop("client_kwargs", None) or {})
    endpoint = given.pop("endpoint_url", None) or client.pop("endpoint_url", None)
    region, anonymous = client.pop("region_name", None), bool(given.pop("anon", False))
    names = {"key": "access_key_id", "secret": "secret_access_key", "token": "session_token"}
    keys = {f"aws_{names[name]}": str(given.pop(name)) for name in list(given) if name in names}
    has_way = anonymous or keys or any(os.environ.get(name) for name in AWS)
    if given or client or not has_way:
        return None
    uri = "s3://" + root.partition("://")[2]
    return uri, remote(region=region, endpoint=endpoint, anonymous=anonymous, options=keys)


def way_to(remotes: list[Remote]) -> Remote | None:
    """The one way of these, or that of the defaults. None: the package is not installed."""
    if package() is None:
        return None
    others = [each for each in remotes if each != remotes[0]]
    if others:
        raise ValueError(
            f"arrays are in stores of different options, {remotes[0]!r} and {short(others[0])}: "
            "open another pipeline for the second"
        )
    return remotes[0] if remotes else Remote({}, {})
