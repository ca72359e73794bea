#!/usr/bin/env python3
"""reference.py [--check]: writes the pages of docs/reference from the tables that the code has.

In: the table of settings (src/setup/config.rs, as tools/settings.py reads it), that of stats
(src/base/stats.rs), the statuses (src/base/status.rs), the settings and exceptions of the Python
package and of C++, and the C headers. Out: docs/reference/settings.md, stats.md, statuses.md and
c.md. --check writes nothing, and fails if a page is not what would be written.
"""

import re
import sys

import settings

ROOT = settings.ROOT
FOLDER = ROOT / "docs/reference"
NOTE = "<!-- tools/reference.py writes this page. -->\n"

SETTINGS = """# Settings

{note}
You need this to look up a setting. C has them in `wavetrain_config`, Rust in `Config`, Python in
`wavetrain.Config`, and the tool as flags. The default is in brackets. `WAVETRAIN_` is left out of
names of constants here. Names that end with `_` stand for the constants that begin so: `PAD_` for
`PAD_NONE`, `PAD_CONSTANT` and so on.

In Python, times are in seconds, choices are words ("edge"), the default of `backend` and of
`numa_strategy` is "auto", and `sample_rank` follows from `sample_shape`. "-" marks a setting that
a surface sets in another way, or not at all. [Tuning](../tuning.md) has the order in which to try
them, [memory](../memory.md) their cost.
"""

STATS = """# Stats

{note}
You need this to look up a counter or a timer. C has them in `wavetrain_stats_view`, Python in
`pipeline.stats()`. They count since open, or since `stats_reset`. [Tuning](../tuning.md) explains
what to look at first.

A timer is a `wavetrain_metric`: the sum of nanoseconds over all threads, the shortest
observation, bytes in, bytes out, the number of observations, and a histogram by powers of two. In
Python it is a `Metric`, with milliseconds.

| name | kind | meaning |
|---|---|---|
"""

STATUSES = """# Statuses

{note}
You need this to look up a number or a class. Each name links to its causes and fixes. "skip": a
sample with this status is skipped with `on_error = skip`, and the stream continues.

| status | number | meaning | Python | C++ with exceptions | skip |
|---|---|---|---|---|---|
"""

C = """# C functions and structs

{note}
You need this to look up a function or a struct of C. The text is that of the headers, which are
the contract. Rules that hold for all calls are in the first comment of `wavetrain.h`: lifetimes,
threads, forks, unloading, versions. [Settings](settings.md) has the members of `wavetrain_config`,
[stats](stats.md) those of `wavetrain_stats_view`, [statuses](statuses.md) the results.
"""

FENCE, MARK = "```\n", "<!-- test: no -->\n"
LISTED = ("wavetrain_config", "wavetrain_stats_view")  # in pages of their own
HEADERS = {
    "wavetrain.h": "Loaders, samples, batches, tensors.",
    "wavetrain_epoch.h": "Orders of samples: epochs, ranks, resume, weights.",
    "wavetrain_recipes.h": "Numbers of augmentations.",
    "wavetrain_node.h": "One loader for the processes of a node.",
}

# Python raises these for statuses that are no errors; it has no class for OK.
CLASSES = {
    "Again": "TryAgain",
    "Starved": "PoolStarved",
    "End": "EndOfStream",
    "Reset": "StreamReset",
    "Invalid": "InvalidArgument",
    "NotFound": "NotFound",
    "Dtype": "DtypeMismatch",
    "Rank": "RankMismatch",
    "Io": "StorageError",
    "Decode": "DecodeError",
    "Unsupported": "Unsupported",
    "Cuda": "NativeCudaError",
    "OutOfMemory": "OutOfMemory",
    "Budget": "BudgetExceeded",
    "Shutdown": "ShutdownError",
    "Internal": "InternalError",
}


def cell(text: str) -> str:
    """Words as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def settings_page() -> str:
    source = (ROOT / "python/wavetrain/_config.py").read_text()
    body = source.split("\nclass Config:\n")[1].split("\n    def ")[0]
    python = set(re.findall(r"^    (\w+): ", body.rpartition('"""')[2], re.M))
    made = SETTINGS.format(note=NOTE)
    for row in settings.read_rows():
        if row["words"] == "Always 0.":
            continue
        if row["title"] or "| setting" not in made:
            title = row["title"].split(". ")[0].rstrip(".") or "Settings"
            made += f"\n## {title}\n\n| setting | Python | tool | meaning |\n|---|---|---|---|\n"
        name = row["name"]
        in_python = name if name in python else re.sub("_ns$", "_s", name)
        in_python = f"`{in_python}`" if in_python in python else "-"
        if in_python == f"`{name}`":
            in_python = "same"
        flag = f"`--{name.replace('_', '-')}`" if row["flag"] else "-"
        words = cell(settings.said(row)).replace("WAVETRAIN_", "")
        made += f"| `{name}` | {in_python} | {flag} | {words} |\n"
    return made


def table_of(path: str, begin: str) -> list[tuple[str, str, str]]:
    """Names, types and sentences of the rows of a macro's table."""
    body = (ROOT / path).read_text().split(f"\n{begin}! {{\n")[1].split("\n}\n")[0]
    rows, words = [], []
    for line in map(str.strip, body.splitlines()):
        if line.startswith("/// "):
            words.append(line.removeprefix("/// "))
        elif match := re.match(r"(\w+)(?:: (.+?))? = (.+)[,;]$|(\w+): ([^=]+?),$", line):
            name = match[1] or match[4]
            rows.append((name, match[2] or match[5] or match[3], " ".join(words)))
            words = []
        else:
            sys.exit(f"reference.py: not understood: {line}")
    return rows


def stats_page() -> str:
    kinds = {"Metric": "timer", "u64": "count", "u32": "count"}
    made = STATS.format(note=NOTE)
    for name, kind, words in table_of("src/base/stats.rs", "stats"):
        if name.startswith("reserved"):
            continue
        shown = kinds.get(kind) or ("text" if "c_char" in kind else "counts")
        made += f"| `{name}` | {shown} | {cell(words)} |\n"
    return made


def statuses_page() -> str:
    source = (ROOT / "src/base/status.rs").read_text()
    skippable = re.findall(r"Status::(\w+)", source.split("fn is_skippable")[1].split("fn fmt")[0])
    of_python = (ROOT / "python/wavetrain/_errors.py").read_text()
    of_cpp = (ROOT / "include/wavetrain_exceptions.hpp").read_text()
    made = STATUSES.format(note=NOTE)
    for name, rest, words in table_of("src/base/status.rs", "statuses"):
        number, shown = re.fullmatch(r'(-?\d+), "(\w+)"', rest).groups()
        raised = CLASSES.get(name, "-")
        if raised != "-" and f"class {raised}(" not in of_python:
            sys.exit(f"reference.py: Python has no class {raised}")
        thrown = f"`{raised}`" if f"class {raised} :" in of_cpp else "-"
        thrown = "`PoolStarved`" if name in ("Again", "End") else thrown
        anchor = shown.lower()
        linked = f"[{shown}](../troubleshooting.md#{anchor})" if name != "Ok" else shown
        raised = f"`{raised}`" if raised != "-" else "-"
        skips = "yes" if name in skippable else "no"
        made += f"| {linked} | {number} | {cell(words)} | {raised} | {thrown} | {skips} |\n"
    return made


DECLARED = re.compile(
    r"(?P<comment>/\*(?:(?!\*/).)*\*/\n)?"
    r"(?P<code>typedef struct (?P<struct>\w+) \{.*?\} (?P=struct);"
    r"|\w[\w ]*?[ *]+(?P<function>wavetrain_\w+)\([^;{]*\);)",
    re.S,
)


def c_page() -> str:
    made = C.format(note=NOTE)
    for header, words in HEADERS.items():
        made += f"\n## {header}\n\n{words}\n"
        text, end = (ROOT / "include" / header).read_text(), -1
        for found in DECLARED.finditer(text):
            if text[found.start() - 1] != "\n" or found["struct"] in LISTED:
                continue
            code = text[found.start() : found.end()]
            if found["comment"] is None and found.start() == end + 1:
                # It shares the comment of the one before it.
                made = f"{made.removesuffix(FENCE)}\n{code}\n{FENCE}"
            else:
                made += (
                    f"\n### {found['struct'] or found['function']}\n\n{MARK}```c\n{code}\n{FENCE}"
                )
            end = found.end()
    return made


def main() -> None:
    is_check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not is_check:
        sys.exit("usage: tools/reference.py [--check]")
    pages = {
        "settings.md": settings_page(),
        "stats.md": stats_page(),
        "statuses.md": statuses_page(),
        "c.md": c_page(),
    }
    for name, text in pages.items():
        path = FOLDER / name
        if is_check and (not path.is_file() or path.read_text() != text):
            sys.exit(f"docs/reference/{name} is not that of the tables: run tools/reference.py")
        if not is_check:
            path.write_text(text)


if __name__ == "__main__":
    main()
