#!/usr/bin/env python3
"""Compares wavetrain, tensorstore and the physical limit on the scenarios of benches/data.py.

    python3 -m venv .venv && .venv/bin/pip install zarr numpy tensorstore ml_dtypes matplotlib
    .venv/bin/python benches/data.py DATA
    .venv/bin/python benches/compare.py DATA --verify
    .venv/bin/python benches/compare.py DATA --repeats 5 --out results.jsonl
    .venv/bin/python tools/plot.py results.jsonl -o throughput.svg

Goes out: one line of JSON per run in the results file, appended, and a markdown table of medians on
standard output. `--table results.jsonl` only makes the table again.

In every repeat each program runs once, in an order shuffled from a seed, so that what changes on the
machine meets all alike. Before a run this waits until other processes leave the CPUs alone (at most
--quiet-wait seconds), and after it notes what they took meanwhile (`foreign_cores`). Medians of rates
are over the runs with less than 0.10 foreign cores; where there is none, over the three least
disturbed, and the table marks it (*). The page cache is warm, unless --cold: then the files are
dropped from it before every run (posix_fadvise, which needs no privilege).

Programs: wavetrain, wavetrain-cache (chunk_cache_bytes 512 MiB, lookahead 512), tensorstore and
tensorstore-mapped, both also with a cache of 512 MiB (-cache), and limit-MODE (benches/limit).
A program that cannot run says why once and is left out of the table.
"""

import argparse
import fnmatch
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE_BYTES = 512 << 20
QUIET_CORES = 0.10
LEAST_DISTURBED = 3
PROGRAMS = [
    "wavetrain",
    "wavetrain-cache",
    "tensorstore",
    "tensorstore-mapped",
    "tensorstore-cache",
    "tensorstore-mapped-cache",
    "limit-prefix",
    "limit-shared",
    "limit-mapped",
]


def chosen(scenarios, patterns, families):
    """The scenarios whose family is named, and whose name is or matches one of the patterns."""
    found = set()
    for pattern in patterns.split(","):
        names = [s["name"] for s in scenarios if fnmatch.fnmatchcase(s["name"], pattern)]
        if not names:
            sys.exit(f"--scenarios: nothing is called {pattern}")
        found.update(names)
    return [s for s in scenarios if s["name"] in found and s["family"] in families.split(",")]


def build(arguments):
    """The executable that cargo builds."""
    command = ["cargo", *arguments, "--message-format=json-render-diagnostics"]
    built = subprocess.run(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True, check=True)
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    return [message["executable"] for message in messages if message.get("executable")][-1]


def command_of(program, scenario, data, options, executables):
    requests = str(data / scenario["requests"])
    threads = str(options.threads)
    shared = ["--batch", str(scenario["batch"]), "--threads", threads]
    shared += ["--verify"] if options.verify else []
    family, _, variant = program.partition("-")
    if family == "limit":
        return [executables["limit"], requests, *shared, "--mode", variant]
    shared += ["--dtype", options.dtype]
    has_cache = variant.endswith("cache")
    if family == "wavetrain":
        cache = ["--chunk-cache-bytes", str(CACHE_BYTES), "--lookahead-samples", "512"]
        start = [executables["wavetrain"], "bench", "--json", "--requests", requests]
        return [*start, *shared, "--backend", "host", *(cache if has_cache else [])]
    flags = ["--mapped"] if variant.startswith("mapped") else []
    flags += ["--cache-bytes", str(CACHE_BYTES)] if has_cache else []
    return [sys.executable, str(HERE / "tensorstore_peer.py"), requests, *shared, *flags]


def busy_seconds():
    """CPU seconds of all processes so far, time stolen by other guests included."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    user, nice, system, _idle, _iowait, interrupt, soft, steal = ticks
    return (user + nice + system + interrupt + soft + steal) / os.sysconf("SC_CLK_TCK")


def wait_until_quiet(limit_seconds):
    """Waits until a third of a second passes without much work; the last busy share seen."""
    deadline = time.monotonic() + limit_seconds
    while True:
        busy, begin = busy_seconds(), time.monotonic()
        time.sleep(0.35)
        cores = (busy_seconds() - busy) / (time.monotonic() - begin)
        if cores < QUIET_CORES or time.monotonic() > deadline:
            return cores


def files_of(scenario):
    for array in scenario["arrays"]:
        yield from (path for path in Path(array).rglob("*") if path.is_file())


def warm(scenario):
    for path in files_of(scenario):
        with path.open("rb") as file:
            while file.read(16 << 20):
                pass


def drop(scenario):
    for path in files_of(scenario):
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def run(command, quiet_wait):
    """The program's own figures and what the machine did meanwhile, or None and its last words."""
    before = wait_until_quiet(quiet_wait) if quiet_wait > 0 else 0.0
    busy, begin = busy_seconds(), time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, words = child.communicate()
    wall = time.monotonic() - begin
    own = sum(os.times()[2:4]) - run.children
    run.children += own
    if child.returncode != 0:
        return None, words.strip().splitlines()[-1] if words.strip() else "failed without a word"
    figures = json.loads(out.strip().splitlines()[-1])
    figures["foreign_cores"] = max(0.0, busy_seconds() - busy - own) / wall
    figures["busy_before"] = before
    return figures, ""


run.children = 0.0


def machine():
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    cpu = names[0].partition(":")[2].strip() if names else platform.machine()
    return f"{len(os.sched_getaffinity(0))} cores of {cpu}"


def verify(scenario, data, options, executables):
    """Whether every program runs and gives every batch with the same CRC-32."""
    crcs = {}
    for program in options.programs:
        if program.startswith("limit") and options.dtype != "f32":
            continue
        command = command_of(program, scenario, data, options, executables)
        figures, words = run(command, 0)
        if figures is None:
            print(f"{scenario['name']}: {program} did not run: {words}", file=sys.stderr)
            crcs[program] = None
            continue
        crcs[program] = figures["crcs"]
    known = {program: tuple(found) for program, found in crcs.items() if found}
    is_same = len(set(known.values())) == 1 and len(known) > 1
    count = len(next(iter(known.values()), ()))
    verdict = "IDENTICAL" if is_same else "DIFFERENT"
    print(
        f"{scenario['name']:18} {count} batches, {len(known)} of {len(crcs)} programs: {verdict}",
        flush=True,
    )
    if not is_same:
        for program, found in known.items():
            print(f"    {program}: {[f'{crc:08x}' for crc in found[:4]]} ...")
    return is_same and len(known) == len(crcs)


def measure(scenario, data, options, executables, results):
    """Runs all programs --repeats times; the rows."""
    if not options.cold:
        warm(scenario)
    dice = random.Random(options.seed)
    rows, broken = [], set()
    for repeat in range(options.repeats):
        order = [program for program in options.programs if program not in broken]
        dice.shuffle(order)
        for program in order:
            if options.cold:
                drop(scenario)
            command = command_of(program, scenario, data, options, executables)
            figures, words = run(command, options.quiet_wait)
            if figures is None:
                print(f"{scenario['name']}: {program} left out: {words}", file=sys.stderr)
                broken.add(program)
                continue
            figures.update(
                program=program,
                scenario=scenario["name"],
                repeat=repeat,
                dtype=options.dtype,
                threads=options.threads,
                cold=options.cold,
                machine=machine(),
                time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            )
            rows.append(figures)
            results.write(json.dumps(figures) + "\n")
            results.flush()
    return rows


def medians(rows):
    """Program to the medians of its runs."""
    found = {}
    for program in dict.fromkeys(row["program"] for row in rows):
        runs = [row for row in rows if row["program"] == program]
        quiet = [row for row in runs if row["foreign_cores"] < QUIET_CORES]
        if not quiet:
            quiet = sorted(runs, key=lambda row: row["foreign_cores"])[:LEAST_DISTURBED]
        found[program] = {
            name: statistics.median(row[name] for row in quiet if name in row)
            for name in ("samples_per_s", "cpu_seconds", "peak_rss_bytes", "bill_bytes")
            if any(name in row for row in quiet)
        }
        found[program]["is_noisy"] = any(row["foreign_cores"] >= QUIET_CORES for row in quiet)
    return found


def best_of(found, family, is_cached=False):
    """The fastest program of a family: its name and its medians."""
    names = [
        program
        for program in found
        if program.startswith(family) and program.endswith("-cache") == is_cached
    ]
    return max(((n, found[n]) for n in names), key=lambda item: item[1]["samples_per_s"], default=None)


def table(rows):
    """The markdown table: rates in samples/s, memory in MiB."""

    def rate(best):
        mark = "*" if best and best[1]["is_noisy"] else ""
        return f"{best[1]['samples_per_s']:.0f}{mark}" if best else "-"

    def value(best, name, scale, digits):
        return f"{best[1][name] / scale:.{digits}f}" if best and name in best[1] else "-"

    def ratio(one, other):
        known = one and other
        return f"{one[1]['samples_per_s'] / other[1]['samples_per_s']:.2f}" if known else "-"

    head = [
        "scenario", "limit", "wavetrain", "CPU s", "peak RSS", "bill", "tensorstore", "CPU s",
        "peak RSS", "**ratio to tensorstore**", "ratio to limit", "CPU ratio to limit",
        "wavetrain cached", "tensorstore cached", "ratio",
    ]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for scenario in dict.fromkeys(row["scenario"] for row in rows):
        found = medians([row for row in rows if row["scenario"] == scenario])
        limit, peer = best_of(found, "limit"), best_of(found, "tensorstore")
        ours = best_of(found, "wavetrain")
        cached, peer_cached = best_of(found, "wavetrain", True), best_of(found, "tensorstore", True)
        cpu = "-"
        if ours and limit:
            least = min(f["cpu_seconds"] for p, f in found.items() if p.startswith("limit"))
            cpu = f"{ours[1]['cpu_seconds'] / least:.2f}"
        cells = [
            scenario,
            f"{rate(limit)} ({limit[0].removeprefix('limit-')})" if limit else "-",
            rate(ours),
            value(ours, "cpu_seconds", 1, 2),
            value(ours, "peak_rss_bytes", 2**20, 0),
            value(ours, "bill_bytes", 2**20, 0),
            rate(peer),
            value(peer, "cpu_seconds", 1, 2),
            value(peer, "peak_rss_bytes", 2**20, 0),
            f"**{ratio(ours, peer)}**",
            ratio(ours, limit),
            cpu,
            rate(cached),
            rate(peer_cached),
            ratio(cached, peer_cached),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    first = rows[0]
    conditions = (
        f"{first['machine']}; {first['threads']} threads, {first['dtype']}, page cache "
        f"{'dropped before each run' if first['cold'] else 'warm'}; medians of up to "
        f"{max(row['repeat'] for row in rows) + 1} runs. Rates in samples/s, memory in MiB; limit: the "
        "fastest mode; CPU ratio: to the thriftiest; tensorstore: the faster of plain and mapped reads."
    )
    return "\n".join([conditions, "", *lines])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--scenarios", help="comma-separated names; default: all")
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--verify", action="store_true", help="compare contents, measure nothing")
    parser.add_argument("--quiet-wait", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results.jsonl"))
    parser.add_argument("--wavetrain", help="the tool, else cargo builds it")
    parser.add_argument("--limit", help="the limit program, else cargo builds it")
    parser.add_argument("--table", type=Path, help="make the table of these results, run nothing")
    options = parser.parse_args()
    if options.table:
        rows = [json.loads(line) for line in options.table.read_text().splitlines()]
        return print(table(rows))
    if options.data is None:
        parser.error("DATA is missing")
    options.programs = options.programs.split(",")
    scenarios = json.loads((options.data / "scenarios.json").read_text())
    if options.scenarios:
        by_name = {scenario["name"]: scenario for scenario in scenarios}
        scenarios = [by_name[name] for name in options.scenarios.split(",")]
    executables = {
        "wavetrain": options.wavetrain
        or build(["build", "--release", "--features", "cli", "--bin", "wavetrain"]),
        "limit": options.limit or build(["bench", "--no-run", "--bench", "limit"]),
    }
    run.children = sum(os.times()[2:4])
    if options.verify:
        verdicts = [verify(scenario, options.data, options, executables) for scenario in scenarios]
        sys.exit(0 if all(verdicts) else 1)
    if options.dtype != "f32":
        options.programs = [name for name in options.programs if not name.startswith("limit")]
    rows = []
    with options.out.open("a") as results:
        for scenario in scenarios:
            rows += measure(scenario, options.data, options, executables, results)
    print(table(rows))


if __name__ == "__main__":
    main()
