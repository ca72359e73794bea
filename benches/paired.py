#!/usr/bin/env python3
"""Two builds of the tool in turn on lists of benches/data.py: is the second one slower?

    cargo build --release --features cli     # in two trees: OLD, NEW are target/release/wavetrain
    python benches/paired.py OLD NEW DATA [--scenarios 'big_*',hook,..] [--families volumes,kinds,ways]
                             [--runs 5] [--threads 2] [--flags='--n-io-threads 64'] [--out FILE]

Each run is a pair, and which build goes first changes from run to run, so that what changes on the
machine meets both alike. Goes out: for each list the CPU seconds and the wall seconds of NEW by those
of OLD, the best of all runs, and the median of the ratios within pairs; then geometric means. Above 1
NEW is slower. A list is marked (*) if other processes took a tenth of a core or more in one of its
runs. --flags are for both builds. FILE gets one line of JSON for each run, and what it holds is not
run again.
"""

import argparse
import json
import math
import shlex
import statistics
import sys
from pathlib import Path

from compare import QUIET_CORES, chosen, command_of, read_rows, run, say, warm

BUILDS = ("old", "new")


def measure(scenario, options, keep, done):
    """The missing runs of a list."""
    flags = shlex.split(options.flags)
    for number in range(options.runs):
        for build in BUILDS[:: 1 - 2 * (number % 2)]:
            if (scenario["name"], build, number) in done:
                continue
            tools = {"wavetrain": getattr(options, build)}
            command = command_of("wavetrain", scenario, options.data, options, tools)
            figures, words = run([*command, *flags], options.quiet_wait)
            if figures is None:
                sys.exit(f"{scenario['name']}: {build}: {words}")
            names = ("seconds", "cpu_seconds", "foreign_cores", "samples", "bytes_read")
            row = {name: figures[name] for name in names}
            keep({"scenario": scenario["name"], "build": build, "run": number, **row})


def compared(rows, name):
    """The ratio of the best runs by one figure, and the median of the ratios within pairs."""
    runs = [
        {row["run"]: max(row[name], 1e-9) for row in rows if row["build"] == build}
        for build in BUILDS
    ]
    paired = [runs[1][number] / runs[0][number] for number in runs[0]]
    return min(runs[1].values()) / min(runs[0].values()), statistics.median(paired)


def mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))


def table(rows):
    head = ("list", "CPU best", "CPU pairs", "wall best", "wall pairs", "old CPU s", "old s")
    lines, columns = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)], []
    for name in dict.fromkeys(row["scenario"] for row in rows):
        runs = [row for row in rows if row["scenario"] == name]
        ratios = [*compared(runs, "cpu_seconds"), *compared(runs, "seconds")]
        old = [row for row in runs if row["build"] == "old"]
        least = [min(row[figure] for row in old) for figure in ("cpu_seconds", "seconds")]
        mark = "*" if any(row["foreign_cores"] >= QUIET_CORES for row in runs) else ""
        cells = [f"{number:.3f}" for number in (*ratios, *least)]
        lines.append("| " + " | ".join([name + mark, *cells]) + " |")
        columns.append(ratios)
    means = [f"{mean(column):.3f}" for column in zip(*columns)]
    lines.append("| " + " | ".join([f"geometric mean of {len(columns)}", *means, "", ""]) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", help="the tool that was built before")
    parser.add_argument("new", help="the tool that is to be as fast")
    parser.add_argument("data", type=Path)
    parser.add_argument("--scenarios", default="*", help="comma-separated names or globs")
    parser.add_argument("--families", default="volumes,kinds,ways")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--flags", default="", help="more flags of `wavetrain bench`")
    parser.add_argument("--quiet-wait", type=float, default=0, help="seconds at most, before runs")
    parser.add_argument("--out", type=Path, default=Path("paired.jsonl"))
    options = parser.parse_args()
    options.verify = False
    scenarios = json.loads((options.data / "scenarios.json").read_text())
    scenarios = chosen(scenarios, options.scenarios, options.families)
    rows = read_rows(options.out)
    done = {(row["scenario"], row["build"], row["run"]) for row in rows}
    with options.out.open("a") as results:

        def keep(row):
            rows.append(row)
            results.write(json.dumps(row) + "\n")
            results.flush()

        for number, scenario in enumerate(scenarios):
            say(f"{number + 1} of {len(scenarios)}: {scenario['name']}")
            warm(scenario)
            measure(scenario, options, keep, done)
    names = {scenario["name"] for scenario in scenarios}
    print(table([row for row in rows if row["scenario"] in names and row["run"] < options.runs]))


if __name__ == "__main__":
    main()
