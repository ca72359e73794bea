"""wavetrain streams boxes of chunked arrays (zarr v2 and v3) into batches, on a GPU or the host.

    import numpy, torch, wavetrain

    config = wavetrain.Config(samples_per_batch=8, sample_shape=(64, 128, 128))
    with wavetrain.Pipeline(config) as pipeline:
        pipeline.push(wavetrain.Sample("cells.zarr/0", numpy.s_[z : z + 64, 0:128, 0:128])
                      for z in range(0, 640, 64))
        for batch in pipeline.batches():
            with batch:
                x = torch.from_dlpack(batch)

`DataLoader` makes epochs of a data set, which can be resumed; `wavetrain.epoch` has their orders,
`wavetrain.augment` recipes of augmentation.
`wavetrain.torch` has a dataset for torch's DataLoader, `wavetrain.source` makes batches of what
callbacks and iterables give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavetrain import augment as augment
from wavetrain._affine import Affine, Affines
from wavetrain._arrays import Arrays, SourceInfo
from wavetrain._augmented import Augment, Erase
from wavetrain._batch import Batch, BatchField, BatchInfo
from wavetrain._config import (
    Backend,
    Config,
    DeviceDecode,
    Dtype,
    Field,
    LatencyModel,
    MissingChunks,
    NumaStrategy,
    OnConsumerLost,
    OnError,
    PadMode,
    ShareOrder,
)
from wavetrain._dataloader import DataLoader
from wavetrain._errors import (
    BudgetExceeded,
    DamacyError,
    DecodeError,
    DtypeMismatch,
    EndOfStream,
    InternalError,
    InvalidArgument,
    NativeCudaError,
    NotFound,
    OutOfMemory,
    PoolStarved,
    RankMismatch,
    ShutdownError,
    Status,
    StorageError,
    StreamReset,
    TryAgain,
    Unsupported,
    WavetrainError,
)
from wavetrain._files import Files, FsspecFiles
from wavetrain._files import fsspec as fsspec
from wavetrain._image import Image, Level
from wavetrain._image import image as image
from wavetrain._info import ArrayInfo, Axis, Entry, NodeKind, Packing, array_info
from wavetrain._library import version
from wavetrain._log import (
    LOG_DEBUG,
    LOG_ERROR,
    LOG_FATAL,
    LOG_INFO,
    LOG_TRACE,
    LOG_WARN,
    set_log_level,
    set_log_quiet,
)
from wavetrain._metadata import metadata
from wavetrain._node import Consumer, Owner
from wavetrain._node import attach as attach
from wavetrain._node import serve as serve
from wavetrain._pipeline import Pipeline
from wavetrain._reader import Reader, reader
from wavetrain._remote import remote
from wavetrain._sample import Box, Sample
from wavetrain._statistics import Statistics
from wavetrain._statistics import statistics as statistics
from wavetrain._stats import Metric, Stats
from wavetrain._stores import StoreFiles, store
from wavetrain._table import Column
from wavetrain._words import PACKAGE, fix_of

__version__ = version()

# Without the module `augment`, and without `fsspec`, which would hide the module of that name.
__all__ = [
    "LOG_DEBUG",
    "LOG_ERROR",
    "LOG_FATAL",
    "LOG_INFO",
    "LOG_TRACE",
    "LOG_WARN",
    "Affine",
    "Affines",
    "ArrayInfo",
    "Arrays",
    "Augment",
    "Axis",
    "Backend",
    "Batch",
    "BatchField",
    "BatchInfo",
    "Box",
    "BudgetExceeded",
    "Column",
    "Config",
    "Consumer",
    "DamacyError",
    "DataLoader",
    "DecodeError",
    "DeviceDecode",
    "Dtype",
    "DtypeMismatch",
    "EndOfStream",
    "Entry",
    "Erase",
    "Field",
    "Files",
    "FsspecFiles",
    "Image",
    "InternalError",
    "InvalidArgument",
    "LatencyModel",
    "Level",
    "Metric",
    "MissingChunks",
    "NativeCudaError",
    "NodeKind",
    "NotFound",
    "NumaStrategy",
    "OnConsumerLost",
    "OnError",
    "OutOfMemory",
    "Owner",
    "Packing",
    "PadMode",
    "Pipeline",
    "PoolStarved",
    "RankMismatch",
    "Reader",
    "Sample",
    "ShareOrder",
    "ShutdownError",
    "SourceInfo",
    "Statistics",
    "Stats",
    "Status",
    "StorageError",
    "StoreFiles",
    "StreamReset",
    "TryAgain",
    "Unsupported",
    "WavetrainError",
    "array_info",
    "attach",
    "image",
    "metadata",
    "reader",
    "remote",
    "serve",
    "set_log_level",
    "set_log_quiet",
    "store",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        raise AttributeError(f"wavetrain has no {name}: {fix_of(name, __all__, PACKAGE, __name__)}")
