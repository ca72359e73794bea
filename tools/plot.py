#!/usr/bin/env python3
"""Draws the results of benches/compare.py: one panel per scenario, one bar per program.

    python3 -m venv .venv && .venv/bin/pip install matplotlib
    .venv/bin/python tools/plot.py results.jsonl -o throughput.svg [--scenarios big_zstd,...]

Columns are codecs, rows are kinds of requests. Every panel has its own scale, from zero: rates of
different scenarios differ by a factor of a hundred, and only the bars of one panel compare. Numbers
are samples per second, medians as compare.py takes them: the fastest mode of the limit, the faster of
tensorstore's plain and mapped reads. Bars with a cache of 512 MiB are drawn where wavetrain has one.

The background is transparent and the greys are in the middle, so that the figure reads on a white page
and on a dark one.
"""

import argparse
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benches"))
from compare import best_of, medians

INK = "#77818c"
# Name, colour, program family, with a cache.
BARS = [
    ("limit without a cache", "#9aa4af66", "limit", False),
    ("wavetrain", "#2f7fe6", "wavetrain", False),
    ("wavetrain, 512 MiB cache", "#8dbbf5", "wavetrain", True),
    ("tensorstore", "#dd8a2e", "tensorstore", False),
    ("tensorstore, 512 MiB cache", "#efc08b", "tensorstore", True),
]
KINDS = {
    "big": "random boxes\n64×128×128",
    "small": "random boxes\n16×64×64",
    "scan": "all tiles\n64×128×128",
    "hot": "overlapping boxes\n64×128×128",
}
CODECS = {
    "zstd": "zstd",
    "blosc": "blosc (zstd, shuffle)",
    "bitshuffle": "blosc (zstd, bitshuffle)",
    "raw": "uncompressed",
}


def ordered(names, known):
    """Known names in their order, then the others."""
    return sorted(set(names), key=lambda name: (list(known).index(name) if name in known else 99, name))


def draw_panel(axes, found, bars):
    rates, colours = [], []
    for _, colour, family, is_cached in bars:
        best = best_of(found, family, is_cached)
        rates.append(best[1]["samples_per_s"] if best else 0)
        colours.append(colour)
    places = range(len(bars))
    axes.barh(places, rates, color=colours, height=0.8)
    axes.invert_yaxis()
    axes.set_xlim(0, max(rates) * 1.32)
    for place, rate, bar in zip(places, rates, bars):
        if rate > 0:
            weight = "bold" if bar[0] == "wavetrain" else "normal"
            text = f" {rate:,.0f}".replace(",", " ")
            axes.text(rate, place, text, va="center", color=INK, fontsize=8, fontweight=weight)
    axes.spines["left"].set_color(INK)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True, help="a .svg or .png file")
    parser.add_argument("--scenarios", help="comma-separated names; default: all in the results")
    parser.add_argument("--background", default="none", help="a colour, to look at it on")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.results.read_text().splitlines()]
    chosen = options.scenarios.split(",") if options.scenarios else None
    panels = {}
    for name in dict.fromkeys(row["scenario"] for row in rows):
        if chosen is None or name in chosen:
            kind, _, codec = name.partition("_")
            panels[kind, codec] = medians([row for row in rows if row["scenario"] == name])
    has_cache = any(best_of(found, "wavetrain", True) for found in panels.values())
    bars = [bar for bar in BARS if has_cache or not bar[3]]
    kinds = ordered([kind for kind, _ in panels], KINDS)
    codecs = ordered([codec for _, codec in panels], CODECS)

    # The same results give the same file.
    plt.rcParams["svg.hashsalt"] = "wavetrain"
    height = 0.75 + len(kinds) * (0.25 + 0.19 * len(bars))
    figure, grid = plt.subplots(
        len(kinds), len(codecs), squeeze=False, figsize=(1.2 + 2.1 * len(codecs), height)
    )
    for row, kind in enumerate(kinds):
        for column, codec in enumerate(codecs):
            axes = grid[row][column]
            axes.set_facecolor("none")
            axes.set_xticks([])
            axes.set_yticks([])
            for side in ("left", "right", "top", "bottom"):
                axes.spines[side].set_visible(side == "left" and (kind, codec) in panels)
            if row == 0:
                title = CODECS.get(codec, codec)
                axes.set_title(title, color=INK, fontsize=9.5, fontweight="bold", loc="left")
            if column == 0:
                label = KINDS.get(kind, kind)
                axes.set_ylabel(
                    label, color=INK, fontsize=8.5, rotation=0, ha="right", va="center", labelpad=8
                )
            if (kind, codec) in panels:
                draw_panel(axes, panels[kind, codec], bars)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for _, colour, _, _ in bars]
    figure.legend(
        handles,
        [name for name, _, _, _ in bars],
        loc="upper left",
        bbox_to_anchor=(0.01, 1.0),
        ncols=len(bars),
        frameon=False,
        labelcolor=INK,
        fontsize=9,
        handlelength=1,
        columnspacing=1.6,
    )
    figure.text(0.99, 0.012, "samples per second", color=INK, fontsize=8, ha="right")
    figure.tight_layout(rect=(0, 0.02, 1, 1 - 0.36 / height), w_pad=0.6, h_pad=0.9)
    metadata = {"Date": None} if options.out.suffix == ".svg" else None
    figure.savefig(options.out, facecolor=options.background, dpi=160, metadata=metadata)


if __name__ == "__main__":
    main()
