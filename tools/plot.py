#!/usr/bin/env python3
"""Draws the results of benches/compare.py: one line per list of boxes.

    python3 -m venv .venv && .venv/bin/pip install matplotlib
    .venv/bin/python tools/plot.py results.jsonl -o docs/figures/throughput.svg [--scenarios 'big_*',gzip,...]

A bar is wavetrain's rate as a multiple of that of tensorstore's faster mode, on a logarithmic scale;
the thin one under it is the same where both keep 512 MiB of decoded chunks. Marks are the zarrs crate
and the physical limit on the same scale. The numbers are wavetrain's samples per second and its
multiple; medians as compare.py takes them. The line under the title is the worst row.

The background is transparent and the greys are in the middle, so that the figure reads on a white page
and on a dark one.
"""

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benches"))
from compare import best_of, by_scenario, is_called, ratios, read_rows

INK = "#77818c"
COLOURS = {
    "wavetrain": "#2f7fe6",
    "kept": "#8dbbf5",
    "tensorstore": "#dd8a2e",
    "zarrs": "#3f9d5f",
    "limit": "#9aa4af",
}
# Lists of the volumes are called KIND_CODEC.
KINDS = {
    "big": "random 64×128×128",
    "small": "random 16×64×64",
    "scan": "all tiles, 64×128×128",
    "hot": "overlapping 64×128×128",
}
CODECS = {
    "zstd": "zstd",
    "blosc": "blosc (zstd, shuffle)",
    "bitshuffle": "blosc (zstd, bitshuffle)",
    "raw": "uncompressed",
}
# Heading: lists and what they are.
OTHERS = {
    "Images, u8 1024×1024×3, crops of 224×224": {
        "images_zstd": "zstd",
        "images_lz4": "blosc (lz4)",
    },
    "Microscope, u16 TCZYX, 24×112×112": {
        "tczyx_blosc": "blosc (zstd), a file per chunk",
        "tczyx_zstd": "zstd, sharded",
    },
    "Audio, windows": {
        "audio_zstd": "clips, i16, zstd",
        "audio_raw": "one recording, f32, uncompressed",
        "audio_v2": "one recording, i16, zarr v2's default",
    },
    "Weather, f32 [t, lat, lon], blosc (lz4)": {
        "weather_smooth_blocks": "smooth, chunks 24×91×180",
        "weather_smooth_steps": "smooth, a step per chunk",
        "weather_round_blocks": "rounded, chunks 24×91×180",
        "weather_round_steps": "rounded, a step per chunk",
    },
    "Labels, zstd, 48×96×96": {
        "labels_u32": "u32 to i64, a file per chunk",
        "labels_u64": "u64, sharded",
    },
    "Tiny chunks of 8×8×8, u16, 32×32×32": {
        "tiny_raw": "uncompressed, a file per chunk",
        "tiny_zstd": "zstd, a file per chunk",
        "tiny_sharded": "zstd, sharded",
    },
    "Other chunks and codecs, u16": {
        "giant_zstd": "chunks of 256×256×256, zstd, 40×40×40",
        "gzip": "gzip, 24×80×80",
        "zlib_v2": "zarr v2, zlib, 24×80×80",
        "lz4_v2": "zarr v2's default, 40×112×112",
    },
}


def sections(names):
    """(heading, [(name, label)]) of the lists that there are, in their order; unknown ones last."""
    groups = {
        f"Volumes, u16, sharded, {codec}": {f"{kind}_{key}": label for kind, label in KINDS.items()}
        for key, codec in CODECS.items()
    }
    groups |= OTHERS
    known = {name for group in groups.values() for name in group}
    groups["Others"] = {name: name for name in names if name not in known}
    for heading, group in groups.items():
        found = [(name, label) for name, label in group.items() if name in names]
        if found:
            yield heading, found


def draw_row(axes, place, found):
    """The bars and marks of one list; the multiple, or None where one of the two did not run."""
    plain, kept = ratios(found, "tensorstore"), ratios(found, "tensorstore", True)
    ours, peer = best_of(found, "wavetrain"), best_of(found, "tensorstore")
    if not plain:
        return None
    bar = {"left": 1, "zorder": 2}
    thick = 0.46 if kept else 0.6
    offset = 0.12 if kept else 0
    axes.barh(place - offset, plain[0] - 1, thick, color=COLOURS["wavetrain"], **bar)
    if kept:
        axes.barh(place + 0.24, kept[0] - 1, 0.2, color=COLOURS["kept"], **bar)
    for family, mark in (("zarrs", "D"), ("limit", "|")):
        other = best_of(found, family)
        if other:
            axes.plot(
                other["samples_per_s"] / peer["samples_per_s"],
                place - offset,
                mark,
                color=COLOURS[family],
                markersize=4 if mark == "D" else 9,
                markeredgewidth=0.6 if mark == "D" else 2,
                markeredgecolor="white" if mark == "D" else COLOURS[family],
                zorder=3,
            )
    rate = f"{ours['samples_per_s']:,.0f}".replace(",", " ")
    right = axes.get_yaxis_transform()
    text = {"va": "center", "ha": "right", "fontsize": 8, "transform": right, "color": INK}
    axes.text(1.1, place, rate, **text)
    axes.text(1.18, place, f"{plain[0]:.2f}", fontweight="bold", **text)
    return plain[0]


def legend(figure, has_kept):
    def line(name, **look):
        return plt.Line2D([], [], label=name, **look)

    def box(name, colour):
        return line(name, color=colour, linewidth=7)

    handles = [box("wavetrain", COLOURS["wavetrain"])]
    if has_kept:
        handles.append(box("both keep 512 MiB", COLOURS["kept"]))
    none = {"linestyle": "none"}
    handles += [
        line("tensorstore", color=COLOURS["tensorstore"], linewidth=2),
        line("zarrs crate", color=COLOURS["zarrs"], marker="D", markersize=4, **none),
        line("limit", color=COLOURS["limit"], marker="|", markersize=9, markeredgewidth=2, **none),
    ]
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.01, 1.0),
        ncols=len(handles),
        frameon=False,
        labelcolor=INK,
        fontsize=9,
        handlelength=1.2,
        columnspacing=1.6,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True, help="a .svg or .png file")
    parser.add_argument("--scenarios", default="*", help="comma-separated names or globs")
    parser.add_argument("--background", default="none", help="a colour, to look at it on")
    options = parser.parse_args()
    all_found = by_scenario(read_rows(options.results))
    names = [name for name in all_found if is_called(name, options.scenarios)]
    has_kept = any(ratios(all_found[name], "tensorstore", True) for name in names)

    # The same results give the same file.
    plt.rcParams["svg.hashsalt"] = "wavetrain"
    places, labels, headings, place = [], [], [], 0.0
    for heading, group in sections(names):
        headings.append((place, heading))
        place += 0.9
        for name, label in group:
            places.append((place, name))
            labels.append(label)
            place += 1
        place += 0.25
    height = 0.9 + 0.235 * place
    figure, axes = plt.subplots(figsize=(9.2, height))
    axes.set_facecolor("none")
    axes.set_xscale("log")
    multiples = {name: draw_row(axes, at, all_found[name]) for at, name in places}
    known = {name: multiple for name, multiple in multiples.items() if multiple}
    axes.axvline(1, color=COLOURS["tensorstore"], linewidth=2, zorder=1)
    for at, heading in headings:
        axes.text(
            -0.46, at, heading, transform=axes.get_yaxis_transform(), color=INK, va="center",
            fontsize=8.5, fontweight="bold",
        )  # fmt: skip
    axes.set_yticks([at for at, _ in places], labels, color=INK, fontsize=8)
    axes.set_ylim(place, -0.8)
    left, right = axes.get_xlim()
    ticks = [tick for tick in (0.06, 0.12, 0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16) if left <= tick <= right]
    axes.set_xticks(ticks, [f"{tick:g}×" for tick in ticks], color=INK, fontsize=8)
    axes.minorticks_off()
    axes.xaxis.set_ticks_position("both")
    axes.tick_params(labeltop=True, length=0)
    axes.grid(axis="x", color=INK, alpha=0.25, linewidth=0.6, zorder=0)
    for side in axes.spines.values():
        side.set_visible(False)
    text = {"ha": "right", "color": INK, "fontsize": 8, "transform": axes.get_yaxis_transform()}
    axes.text(1.1, -0.6, "samples/s", **text)
    axes.text(1.18, -0.6, "×", **text)
    if known:
        worst = min(known, key=known.get)
        words = f"the worst of {len(known)} rows: {known[worst]:.2f} × tensorstore ({worst})"
        figure.text(0.985, 1 - 0.14 / height, words, color=INK, fontsize=8.5, ha="right", va="top")
    legend(figure, has_kept)
    figure.subplots_adjust(left=0.3, right=0.85, top=1 - 0.55 / height, bottom=0.3 / height)
    metadata = {"Date": None} if options.out.suffix == ".svg" else None
    figure.savefig(options.out, facecolor=options.background, dpi=160, metadata=metadata)


if __name__ == "__main__":
    main()
