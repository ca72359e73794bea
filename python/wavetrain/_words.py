"""Names that are typed first and mean something else here, or nothing: each error gives the name
that has the meaning.

In: the names that a call has, and those that others have. Out: a TypeError, or an AttributeError,
with the fix.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

Class = TypeVar("Class")
Call = TypeVar("Call", bound=Callable[..., Any])

BLOCKS = "worker processes write into shared memory in any case: leave it out"
STAY = "worker processes stay for all epochs: leave it out"
SEEDED = "random, numpy and torch are seeded before each sample: leave it out"

# By what has no such name: the name, and the fix.
RENAMED = {
    "batch_size": "give samples_per_batch",
    "shape": "give sample_shape",
    "num_workers": "give n_decode_threads, which are threads",
    "num_threads": "give n_decode_threads",
    "n_threads": "give n_decode_threads, or n_io_threads",
    "prefetch": "give n_batch_slots",
    "prefetch_factor": "give n_batch_slots",
    "prefetch_queue_depth": "give n_batch_slots",
    "cache_bytes": "give chunk_cache_bytes",
    "timeout": "give pop_timeout_s",
    "pin_memory": 'give backend="cuda" for batches on a GPU, or lend pinned memory: Pipeline.lend',
    "num_outputs": "give fields, a Field for each output",
}
EPOCHS = dict.fromkeys(("shuffle", "seed", "drop_last"), "give it to wavetrain.DataLoader")
PIPELINE = {**{name: f"{fix}, in its Config" for name, fix in RENAMED.items()}, **EPOCHS}
CONFIG = {
    **RENAMED,
    **EPOCHS,
    "files": "give it to Pipeline(config, files=..)",
    "fit": "give it to Pipeline(config, fit=[..])",
}
LOADER = {
    "use_shared_mem": BLOCKS,
    "persistent_workers": STAY,
    "worker_init_fn": SEEDED,
    "multiprocessing_context": "give worker_start: 'forkserver', 'spawn' or 'fork'",
    "prefetch_factor": "give prefetch, the number of batches that are loaded in advance",
    "collate_fn": "samples of a batch are stacked already: give transforms, which take the batch",
    "pin_memory": CONFIG["pin_memory"],
    "pin_memory_device": CONFIG["pin_memory"],
    "timeout": "give worker_timeout_s, or config=Config(pop_timeout_s=..)",
    "generator": "give seed",
    "num_replicas": "give world",
    "in_order": "batches come in the order of the samples: leave it out",
}
SOURCE = {
    "num_outputs": "Config.fields has a Field for each output",
    "name": "Config.fields has the name of each output",
    "device": 'give Config(backend="cuda", device=..)',
    "cuda_stream": "what an array's own library has queued for it is waited for: leave it out",
    "use_copy_kernel": "wavetrain chooses how it copies: leave it out",
    "bytes_per_sample_hint": "shared memory grows as samples need it: leave it out",
    "num_threads": "give parallel, the number of threads that call the source",
    "py_num_workers": "give workers, the number of processes that call the source",
    "py_start_method": "give worker_start: 'forkserver', 'spawn' or 'fork'",
    "batch_size": "give Config(samples_per_batch=..)",
    "function": "give source",
}
UNITS = {
    **dict.fromkeys(("url", "path", "file", "filename", "name", "store", "source"), "give uri"),
    **dict.fromkeys(
        ("box", "bbox", "bounds", "region", "roi", "slices", "slice", "index", "selection"),
        "give aabb",
    ),
    **dict.fromkeys(
        ("begin", "begins", "start", "end", "stop", "shape", "size", "offset", "origin"),
        "give aabb, a slice or (start, stop) for each axis",
    ),
    "dtype": "give Config(dtype=..)",
}
SAMPLE = {
    **UNITS,
    **dict.fromkeys(("id", "label", "key", "tags"), "give tag, a whole number"),
    **{
        name: f"give boxes=[Box(uri, aabb, {name}=..)]"
        for name in ("field", "at", "step", "axes", "augment", "affine")
    },
    **dict.fromkeys(("array", "data"), "give boxes=[Box(array=..)]"),
    "box": "give aabb, or boxes=[Box(uri, aabb)] of several",
}
BOX = {
    **UNITS,
    "tag": "give it to Sample",
    "boxes": "give them to Sample",
    **dict.fromkeys(("data", "value", "label", "tensor"), "give array"),
    "steps": "give step",
    "to": "give at",
}
READ = {
    **{name: fix.replace("aabb", "box") for name, fix in UNITS.items()},
    "aabb": "give box",
    "array": "give uri",
    "dtype": "give Reader(dtype=..)",
    "files": "give Reader(files=..)",
    "timeout": "give Reader(pop_timeout_s=..)",
}
ORDER = {
    "n": "give samples",
    "batch_size": "give batch",
    "drop_last": 'give tail="drop"',
    "num_replicas": "give world",
    "sampler": "give samples",
}
BATCH = {
    "tags": "give batch.info.tags",
    "tag": "give batch.info.tags",
    **dict.fromkeys(("data", "tensor", "array"), "give batch.torch() or batch.numpy()"),
    "statuses": "give batch.info.statuses",
    "device": "give batch.info.device",
    **dict.fromkeys(("to", "cuda", "cpu", "float"), "give batch.torch(), which has it"),
    **dict.fromkeys(("mean", "sum", "astype", "copy"), "give batch.numpy(), which has it"),
}
DALI = {
    "build": "it is open as it is made: leave it out",
    **dict.fromkeys(("schedule_run", "prefetch"), "batches are made in advance: leave it out"),
    "release_outputs": "give batch.release()",
}
PIPELINE_HAS = {
    **DALI,
    **dict.fromkeys(("run", "outputs", "share_outputs"), "give pop()"),
    **dict.fromkeys(("next", "get", "get_batch", "get_next", "pull", "fetch"), "give pop()"),
    **dict.fromkeys(("put", "add", "submit", "append", "enqueue", "feed"), "give push(samples)"),
    **dict.fromkeys(("stop", "shutdown", "terminate", "join", "end"), "give close()"),
    "read": "wavetrain.reader().read(uri, box) reads one box",
}
NODE_HAS = {
    **PIPELINE_HAS,
    **dict.fromkeys(("join", "drain", "finish", "run"), "give wait()"),
    "detach": "give close()",
}
SERVE = {
    **dict.fromkeys(("n", "count", "n_consumers", "world", "num_workers"), "give consumers"),
    "share_name": "give name",
    **dict.fromkeys(("rank", "consumer"), "wavetrain.attach(name, consumer) takes batches"),
}
SOURCE_HAS = {
    **DALI,
    **dict.fromkeys(("run", "outputs", "share_outputs", "pop", "next"), "give next(source)"),
    **dict.fromkeys(("push", "put"), "give feed(data)"),
}
PACKAGE = {
    **dict.fromkeys(
        ("open", "open_array", "load", "imread", "read"),
        "wavetrain.reader().read(uri, box) reads one box, Pipeline and DataLoader batches",
    ),
    "Dataset": "DataLoader takes any object with len(dataset) and dataset[index], a Sample",
    "random_split": "wavetrain.epoch.split(len(dataset), fractions) gives parts of a data set as "
    "samplers, and stratify parts with the same share of each label",
    **{
        name: f"wavetrain.augment.{name} is it"
        for name in (
            *("random_crop", "random_erase", "random_affine", "random_flip", "horizontal_flip"),
            *("normalize", "to_float", "color_jitter", "cutout", "gaussian_noise", "clamp"),
            *("apply_filters", "default_cifar10_filters", "basic_cifar10_filters"),
        )
    },
    **{
        name: f"import wavetrain.{name} first"
        for name in ("torch", "source", "tiles", "launchers", "epoch", "engines")
    },
}


def fix_of(name: str, known: Iterable[str], others: Mapping[str, str], whole: str) -> str:
    """The text with the name to write instead."""
    if name in others:
        return others[name]
    near = difflib.get_close_matches(name, known, 1)
    return f"the nearest name is {near[0]}" if near else f"help({whole}) lists the names"


def refusal(
    of: str, call: Any, others: Mapping[str, str], given: tuple[Any, ...], named: Iterable[str]
) -> TypeError:
    """The error of a call that was given too many values, or a name that it does not have. given:
    of a method the values without self."""
    code = call.__code__
    has_self = code.co_varnames[:1] == ("self",)
    known = code.co_varnames[has_self : code.co_argcount + code.co_kwonlyargcount]
    wrong = next((name for name in named if name not in known), None)
    if wrong is not None:
        return TypeError(f"{of} has no {wrong}: {fix_of(wrong, known, others, of)}")
    most = code.co_argcount - has_self
    taken = f"{most} values without a name" if most else "names alone"
    more = f": give {known[most]}=.." if most < len(known) else f" (got {len(given)})"
    return TypeError(f"{of} takes {taken}{more}")


def checked(made: Call, of: str, others: Mapping[str, str]) -> Call:
    """A call that refuses names of keywords that it does not have with the fix."""
    code = made.__code__
    names = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    has_self = code.co_varnames[:1] == ("self",)

    @functools.wraps(made)
    def call(*given: Any, **named: Any) -> Any:
        if len(given) > code.co_argcount or not names.issuperset(named):
            raise refusal(of, made, others, given[has_self:], named)
        return made(*given, **named)

    return cast("Call", call)


def knows(others: Mapping[str, str]) -> Callable[[type[Class]], type[Class]]:
    """A class whose call refuses names of keywords that it does not have with the fix."""

    def decorate(of: type[Class]) -> type[Class]:
        of.__init__ = checked(of.__init__, of.__name__, others)
        return of

    return decorate


def told(others: Mapping[str, str]) -> Callable[[Call], Call]:
    """A function that does so."""
    return lambda made: checked(made, made.__name__, others)
