"""Writers that rewrite a store while it is streamed, a second each: tools/live_writers.py has the
promise, the writers and the judge, and runs all of them for longer."""

from __future__ import annotations

import sys

import pytest
from cubes import ROOT

sys.path.insert(0, str(ROOT / "tools"))
live_writers = pytest.importorskip("live_writers", reason="there is no numpy here")


@pytest.mark.parametrize(
    "cases",
    [
        "shard_zstd:rename:auto:*",
        "shard_zstd:inplace:auto:*",
        "v3:truncate:auto:*",
        "v3:resize:auto:*",
        "npy:rename:auto:*",
        "parts:append:auto:plain",
    ],
)
def test_a_sample_is_one_version_of_each_file_or_an_error(cases):
    for module in ("numcodecs", "google_crc32c"):
        pytest.importorskip(module, reason=f"there is no {module} here")
    for row in live_writers.run([cases], seconds=1):
        assert not row["is_wrong"], f"{row['case']}: {row['first']}"
        assert row["one"] and row["versions"] > 1, row
