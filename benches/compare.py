#!/usr/bin/env python3
"""Compares wavetrain with tensorstore, zarrs, numpy and the physical limit on lists of benches/data.py.

    python3 -m venv .venv && .venv/bin/pip install zarr numpy tensorstore ml_dtypes matplotlib
    .venv/bin/python benches/data.py DATA
    cargo build --release --manifest-path benches/zarrs_peer/Cargo.toml
    .venv/bin/python benches/compare.py DATA --verify
    .venv/bin/python benches/compare.py DATA --repeats 5 --out results.jsonl
    .venv/bin/python tools/plot.py results.jsonl -o docs/figures/throughput.svg

Goes out: one line of JSON per run in the results file, and on standard output a markdown table of
medians, with the worst ratios under it: these are what may be claimed. Then come the rows of
benches/bars.json: what wavetrain has to be of a peer on each list, warm or cold. The exit status is 1
if a row is below its bar. A results file that is there is gone on with: what it holds is not run
again, unless wavetrain was built anew, which is refused. `--table results.jsonl` only makes the tables
again.

In every repeat each program runs once, in an order shuffled from a seed, so that what changes on the
machine meets all alike. Before a run this waits until other processes leave the CPUs alone (at most
--quiet-wait seconds), and after it notes what they took meanwhile (`foreign_cores`). Medians of rates
are over the runs with less than 0.10 foreign cores; where there is none, over the three least
disturbed, and the table marks it (*). The page cache is warm, unless --cold: then the files are
dropped from it before every run (posix_fadvise, which needs no privilege).

Programs: wavetrain, wavetrain-cache (chunk_cache_bytes 512 MiB, lookahead 512), tensorstore and
tensorstore-mapped, both also with a cache of 512 MiB (-cache), zarrs and zarrs-cache
(benches/zarrs_peer, where it is built), and limit-MODE (benches/limit). On lists of .npy files:
wavetrain, wavetrain-mapped (map_uncompressed), and numpy with one thread and with --threads
(benches/numpy_peer.py). A program that cannot run a list says why once and is left out of that row.
The lists of the family `ways` have flags of their own for wavetrain, and the other programs run them
as they are: benches/paired.py compares two builds there. The lists of the family `far` lie where every
read takes 50 ms (benches/slow_files.py); those of `loops` are loops of Python (benches/loops.py),
which need the package (PYTHONPATH=python and WAVETRAIN_LIBRARY, or the wheel).
"""

import argparse
import contextlib
import fnmatch
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE_BYTES = 512 << 20
QUIET_CORES = 0.10
LEAST_DISTURBED = 3
READ_MS = 50
ZARR = [
    "wavetrain",
    "wavetrain-cache",
    "tensorstore",
    "tensorstore-mapped",
    "tensorstore-cache",
    "tensorstore-mapped-cache",
    "zarrs",
    "zarrs-cache",
    "limit-prefix",
    "limit-shared",
    "limit-mapped",
]
ROWS = ["wavetrain", "wavetrain-mapped", "numpy-loop", "numpy-threads"]
# Who runs the lists of a family.
PROGRAMS = {
    "volumes": ZARR,
    "kinds": ZARR,
    "ways": ZARR,
    "rows": ROWS,
    "large": ROWS,
    "far": ["wavetrain", "tensorstore"],
    "loops": ["wavetrain", "numpy-loop"],
    "costs": ["wavetrain"],
}
# Those that the tables of rates are about.
USUAL = ("volumes", "kinds", "ways")
BARS = json.loads((HERE / "bars.json").read_text())


def programs_of(scenario, options):
    return [name for name in PROGRAMS[scenario["family"]] if name in options.programs]


def is_called(name, patterns):
    """Whether one of the comma-separated names or globs is this name's."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns.split(","))


def chosen(scenarios, patterns, families):
    """The scenarios of these families whose name is or matches one of the patterns."""
    for pattern in patterns.split(","):
        if not any(is_called(scenario["name"], pattern) for scenario in scenarios):
            sys.exit(f"--scenarios: nothing is called {pattern}")
    families = families.split(",")
    return [s for s in scenarios if is_called(s["name"], patterns) and s["family"] in families]


def build(arguments):
    """The executable that cargo builds."""
    command = ["cargo", *arguments, "--message-format=json-render-diagnostics"]
    built = subprocess.run(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True, check=True)
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    return [message["executable"] for message in messages if message.get("executable")][-1]


def command_of(program, scenario, data, options, executables):
    requests = str(data / scenario["requests"])
    dtype = options.dtype if scenario["dtype"] == "f32" else scenario["dtype"]
    shape = ["--sample-shape", ",".join(str(extent) for extent in scenario["sample_shape"])]
    shared = ["--batch", str(scenario["batch"]), "--threads", str(options.threads)]
    shared += ["--verify"] if options.verify else []
    family, _, variant = program.partition("-")
    if scenario["family"] == "loops":
        return [sys.executable, str(HERE / "loops.py"), family, requests, *shared]
    cache = ["--cache-bytes", str(CACHE_BYTES)] if variant.endswith("cache") else []
    if family == "limit":
        return [executables["limit"], requests, *shared, "--dtype", dtype, "--mode", variant]
    if family == "zarrs":
        return [executables["zarrs"], requests, *shared, "--dtype", dtype, *cache]
    if family == "wavetrain":
        cache = ["--chunk-cache-bytes", str(CACHE_BYTES), "--lookahead-samples", "512"]
        start = [executables["wavetrain"], "bench", "--json", "--requests", requests]
        # An unsigned word has no cast of its own: its bits are copied.
        kind = ["--dtype", "raw", "--dtype-bytes", "8"] if dtype == "u64" else ["--dtype", dtype]
        start += [*shared, *shape, *kind, "--backend", "host"]
        flags = {"cache": cache, "mapped": ["--map-uncompressed"]}
        return [*start, *flags.get(variant, scenario.get("flags", []))]
    if family == "numpy":
        shared[3] = shared[3] if variant == "threads" else "1"
        peer = [sys.executable, str(HERE / "numpy_peer.py"), requests]
        return [*peer, *shared, *shape, "--dtype", dtype]
    flags = ["--mapped"] if variant.startswith("mapped") else []
    flags += scenario.get("peer_flags", [])
    peer = [sys.executable, str(HERE / "tensorstore_peer.py"), requests]
    return [*peer, *shared, *shape, "--dtype", dtype, *flags, *cache]


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
        files = [Path(array)] if array.endswith(".npy") else Path(array).rglob("*")
        yield from (path for path in files if path.is_file())


def warm(scenario):
    for path in files_of(scenario):
        with path.open("rb") as file:
            while file.read(16 << 20):
                pass


def drop(scenario, share=0.0):
    """Drops its files from the page cache, all but the first part of each."""
    for path in files_of(scenario):
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        rest = int(os.fstat(descriptor).st_size * share)
        while rest > 0:
            rest -= len(os.read(descriptor, min(rest, 16 << 20)))
        os.close(descriptor)


@contextlib.contextmanager
def far_away(scenarios, data):
    """The lists of far stores find their files while this holds."""
    if not any(scenario["family"] == "far" for scenario in scenarios):
        yield
        return
    folder, mount = data / "far", data / "slow"
    mount.mkdir(exist_ok=True)
    command = [sys.executable, HERE / "slow_files.py", folder, mount, str(READ_MS)]
    child = subprocess.Popen(command)
    try:
        while not os.path.ismount(mount):
            if child.poll() is not None:
                sys.exit("far needs FUSE (Debian: fuse3, libfuse2) and mfusepy, or --families")
            time.sleep(0.1)
        yield
    finally:
        subprocess.run(["fusermount3", "-u", mount], check=False)
        child.wait()


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
    names = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    cpu = names[0].partition(":")[2].strip() if names else platform.machine()
    return f"{len(os.sched_getaffinity(0))} cores of {cpu}"


def verify(scenario, data, options, executables):
    """Whether every program that can read the list gives every batch with the same CRC-32."""
    crcs, has_failed = {}, False
    for program in programs_of(scenario, options):
        figures, words = run(command_of(program, scenario, data, options, executables), 0)
        if figures is None:
            say(f"{scenario['name']}: {program} left out: {words}")
            # The limit may decline a list, by a word of its own; whoever else does has failed.
            has_failed |= not words.startswith("limit: ")
        else:
            crcs[program] = tuple(figures["crcs"])
    is_same = len(set(crcs.values())) == 1 and len(crcs) > 1 and not has_failed
    count = len(next(iter(crcs.values()), ()))
    print(
        f"{scenario['name']:22} {count} batches, {len(crcs)} of {len(programs_of(scenario, options))} programs: "
        f"{'IDENTICAL' if is_same else 'DIFFERENT'}",
        flush=True,
    )
    if not is_same:
        for program, found in crcs.items():
            print(f"    {program}: {[f'{crc:08x}' for crc in found[:4]]} ...")
    return is_same


def conditions_of(options, executables):
    """What rows must have in common to stand in one table."""
    build = zlib.crc32(Path(executables["wavetrain"]).read_bytes())
    return {
        "dtype": options.dtype,
        "threads": options.threads,
        "cold": options.cold,
        "machine": machine(),
        "build": f"{build:08x}",
    }


def read_rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def measure(scenarios, options, executables):
    """Runs what the results file does not have yet of --repeats runs on each list; the rows."""
    conditions = conditions_of(options, executables)
    rows = read_rows(options.out)
    for row in rows:
        for name, value in conditions.items():
            if row[name] != value:
                sys.exit(f"{options.out} is of {name} {row[name]}, not {value}: name another --out")
    done = {(row["scenario"], row["program"], row["repeat"]) for row in rows}
    broken = {(row["scenario"], row["program"]) for row in rows if "left_out" in row}
    with options.out.open("a") as results:

        def keep(row):
            rows.append(row)
            results.write(json.dumps(row) + "\n")
            results.flush()

        for number, scenario in enumerate(scenarios):
            name, is_far = scenario["name"], scenario["family"] == "far"
            is_half = scenario["family"] == "large"
            is_warm = options.cold or is_half or is_far
            say(f"{number + 1} of {len(scenarios)}: {name}")
            dice = random.Random(f"{options.seed} {name}")
            for repeat in range(options.repeats):
                order = programs_of(scenario, options)
                dice.shuffle(order)
                for program in order:
                    if (name, program) in broken or (name, program, repeat) in done:
                        continue
                    if not is_warm:
                        warm(scenario)
                        is_warm = True
                    if options.cold or is_far or is_half:
                        drop(scenario, 0.5 if is_half else 0.0)
                    command = command_of(program, scenario, options.data, options, executables)
                    figures, words = run(command, options.quiet_wait)
                    row = {"scenario": name, "program": program, "repeat": repeat, **conditions}
                    row["family"] = scenario["family"]
                    row["time"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                    if figures is None:
                        say(f"  {program} left out: {words}")
                        broken.add((name, program))
                        keep({**row, "left_out": words})
                        continue
                    keep({**figures, **row})
                    say(
                        f"  {repeat + 1} of {options.repeats}: {program:24} "
                        f"{figures['seconds']:6.2f} s, {figures['cpu_seconds']:6.2f} CPU s, "
                        f"{figures['samples_per_s']:.0f} samples/s"
                    )
    names = {scenario["name"] for scenario in scenarios}
    return [row for row in rows if row["scenario"] in names]


def medians(rows):
    """Program to the medians of its runs."""
    found = {}
    rows = [row for row in rows if "left_out" not in row]
    for program in dict.fromkeys(row["program"] for row in rows):
        runs = [row for row in rows if row["program"] == program]
        quiet = [row for row in runs if row["foreign_cores"] < QUIET_CORES]
        if not quiet:
            quiet = sorted(runs, key=lambda row: row["foreign_cores"])[:LEAST_DISTURBED]
        found[program] = {
            name: statistics.median(row[name] for row in quiet if name in row)
            for name in ("samples_per_s", "seconds", "cpu_seconds", "peak_rss_bytes", "bill_bytes")
            if any(name in row for row in quiet)
        }
        found[program]["is_noisy"] = any(row["foreign_cores"] >= QUIET_CORES for row in quiet)
    return found


def best_of(found, family, is_cached=False):
    """Of a family's programs the fastest: its name, its medians, and the least CPU that one took."""
    names = [
        program
        for program in found
        if program.partition("-")[0] == family and program.endswith("-cache") == is_cached
    ]
    if not names:
        return None
    fastest = max(names, key=lambda name: found[name]["samples_per_s"])
    least = min(found[name]["cpu_seconds"] for name in names)
    return {**found[fastest], "program": fastest, "least_cpu_seconds": least}


def ratios(found, family, is_cached=False):
    """How many times as fast as the family's best wavetrain is, and how many times as thrifty."""
    ours, theirs = best_of(found, "wavetrain", is_cached), best_of(found, family, is_cached)
    if not ours or not theirs:
        return None
    rate = ours["samples_per_s"] / theirs["samples_per_s"]
    return rate, theirs["least_cpu_seconds"] / ours["cpu_seconds"]


def by_scenario(rows):
    names = dict.fromkeys(row["scenario"] for row in rows)
    return {name: medians([row for row in rows if row["scenario"] == name]) for name in names}


def lines_of(head, rows):
    return ["| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows]]


def table(rows):
    """The markdown tables: rates in samples/s, memory in MiB."""

    def rate(best):
        return f"{best['samples_per_s']:.0f}{'*' if best['is_noisy'] else ''}" if best else "-"

    def value(best, name, scale=1, digits=2):
        return f"{best[name] / scale:.{digits}f}" if best and name in best else "-"

    def pair(found, family, is_cached=False, mark=""):
        both = ratios(found, family, is_cached)
        return [f"{mark}{both[0]:.2f}{mark}", f"{both[1]:.2f}"] if both else ["-", "-"]

    all_found = by_scenario(rows)
    plain, cached = [], []
    usual = {row["scenario"] for row in rows if row.get("family", "kinds") in USUAL}
    for name in (name for name in all_found if name in usual):
        found = all_found[name]
        ours, peer, other, limit = (
            best_of(found, family) for family in ("wavetrain", "tensorstore", "zarrs", "limit")
        )
        cells = [name, rate(ours), value(ours, "cpu_seconds")]
        cells += [value(ours, "peak_rss_bytes", 2**20, 0), value(ours, "bill_bytes", 2**20, 0)]
        cells += [rate(peer), value(peer, "least_cpu_seconds")]
        cells += [value(peer, "peak_rss_bytes", 2**20, 0)]
        cells += [rate(other), value(other, "least_cpu_seconds")]
        cells += [f"{rate(limit)} ({limit['program'].removeprefix('limit-')})" if limit else "-"]
        cells += pair(found, "tensorstore", mark="**")
        plain.append(cells + pair(found, "zarrs") + pair(found, "limit"))
        families = ("wavetrain", "tensorstore", "zarrs")
        cells = [name, *(rate(best_of(found, family, True)) for family in families)]
        cached.append(cells + pair(found, "tensorstore", True, "**") + pair(found, "zarrs", True))
    head = ["scenario", "wavetrain", "CPU s", "peak RSS", "bill", "tensorstore", "CPU s"]
    head += [
        "peak RSS",
        "zarrs",
        "CPU s",
        "limit",
        "**to tensorstore**",
        "CPU",
        "to zarrs",
        "CPU",
        "to limit",
        "CPU",
    ]
    first = rows[0]
    conditions = (
        f"{first['machine']}; {first['threads']} threads, {first['dtype']} (labels: integers), page "
        f"cache {'dropped before each run' if first['cold'] else 'warm'}; medians of up to "
        f"{max(row['repeat'] for row in rows) + 1} runs. Rates in samples/s, memory in MiB; of "
        "tensorstore and of the limit the fastest mode. Ratios above 1: wavetrain is faster, or, "
        "under CPU, takes fewer CPU seconds than the thriftiest mode."
    )
    found = [conditions, *(["", *lines_of(head, plain)] if plain else [])]
    if plain and any(best_of(medians, "wavetrain", True) for medians in all_found.values()):
        head = ["512 MiB of kept chunks", "wavetrain", "tensorstore", "zarrs"]
        head += ["**to tensorstore**", "CPU", "to zarrs", "CPU"]
        found += ["", *lines_of(head, cached)]
    claimed = claims({name: all_found[name] for name in all_found if name in usual})
    bars = lines_of(["list", *BAR_HEAD], [cells for cells, _ in judged(rows)])
    return "\n".join([*found, "", *claimed, *left_out(rows), "", *bars])


BAR_HEAD = ["samples/s", "CPU s", "peer", "samples/s", "CPU s", "ratio", "bar"]


def judged(rows):
    """The bars of lists that were run: cells of a table, and whether the row is below its bar."""
    is_cold = rows[0]["cold"]
    for name, found in by_scenario(rows).items():
        for bar in BARS:
            ours, peer = found.get(bar["program"]), bar["peer"]
            theirs = found.get(peer) if "-" in peer else best_of(found, peer)
            if not (is_called(name, bar["lists"]) and ours and theirs and bar["cold"] == is_cold):
                continue
            ratio = ours["samples_per_s"] / theirs["samples_per_s"]
            is_below = ratio < bar["ratio"]
            mark = "**" if is_below else ""
            cells = [f"{name}, {bar['program']}"] + [
                text
                for label, one in (("", ours), (peer, theirs))
                for text in (label, f"{one['samples_per_s']:.0f}", f"{one['cpu_seconds']:.2f}")
            ][1:]
            yield [*cells, f"{mark}{ratio:.2f}{mark}", f"{bar['ratio']:.2f}"], is_below


def claims(all_found):
    """The worst ratio of each kind, and where it was seen."""
    for is_cached in (False, True):
        for family in ("tensorstore", "zarrs", "limit"):
            known = {name: ratios(found, family, is_cached) for name, found in all_found.items()}
            known = {name: pair for name, pair in known.items() if pair}
            if not known:
                continue
            worst = [min(known, key=lambda name: known[name][at]) for at in (0, 1)]
            yield (
                f"Claim: on every row{' with kept chunks' if is_cached else ''} at least "
                f"{known[worst[0]][0]:.2f} of {family} by the clock ({worst[0]}) and "
                f"{known[worst[1]][1]:.2f} by CPU seconds ({worst[1]}); {len(known)} rows."
            )


def left_out(rows):
    """Who could not run what, by reason."""
    reasons = {}
    for row in rows:
        if "left_out" in row:
            family = row["program"].partition("-")[0]
            reason = f"{family}: {row['left_out'].removeprefix(f'{family}: ')}"
            reasons.setdefault(reason, {})[row["scenario"]] = None
    for reason, names in reasons.items():
        yield f"Left out of {', '.join(names)}: {reason}"


def show(rows):
    """Prints the tables; 1 if a row is below its bar."""
    print(table(rows))
    below = [cells for cells, is_below in judged(rows) if is_below]
    for cells in below:
        print(f"Below its bar: {cells[0]}: {cells[-2]} of {cells[3]}, and {cells[-1]} is asked for")
    return int(bool(below))


def zarrs_peer():
    """The peer on the zarrs crate, if it is built."""
    path = HERE / "zarrs_peer" / "target" / "release" / "zarrs-peer"
    if path.exists():
        return str(path)
    manifest = path.parents[2].relative_to(HERE.parent) / "Cargo.toml"
    say(f"zarrs is left out: cargo build --release --manifest-path {manifest}")
    return None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--scenarios", default="*", help="comma-separated names or globs")
    parser.add_argument("--families", default="volumes,kinds,rows,far,loops")
    every = dict.fromkeys(name for names in PROGRAMS.values() for name in names)
    parser.add_argument("--programs", default=",".join(every))
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
    parser.add_argument("--zarrs", default=None, help="the zarrs peer, else benches/zarrs_peer's")
    parser.add_argument("--table", type=Path, help="make the table of these results, run nothing")
    options = parser.parse_args()
    if options.table:
        sys.exit(show(read_rows(options.table)))
    if options.data is None:
        parser.error("DATA is missing")
    scenarios = json.loads((options.data / "scenarios.json").read_text())
    scenarios = chosen(scenarios, options.scenarios, options.families)
    executables = {
        "wavetrain": options.wavetrain
        or build(["build", "--release", "--features", "cli", "--bin", "wavetrain"]),
        "limit": options.limit or build(["bench", "--no-run", "--bench", "limit"]),
        "zarrs": options.zarrs or zarrs_peer(),
    }
    options.programs = [
        name
        for name in options.programs.split(",")
        if executables.get(name.partition("-")[0], "") is not None
        # What is not f32 only wavetrain and tensorstore make of zarr.
        and (options.dtype == "f32" or name.startswith(("wavetrain", "tensorstore")))
    ]
    run.children = sum(os.times()[2:4])
    if options.verify:
        with far_away(scenarios, options.data):
            verdicts = [verify(one, options.data, options, executables) for one in scenarios]
        sys.exit(0 if all(verdicts) else 1)
    with far_away(scenarios, options.data):
        rows = measure(scenarios, options, executables)
    sys.exit(show(rows))


if __name__ == "__main__":
    main()
