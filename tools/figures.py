#!/usr/bin/env python3
"""figures.py [--check]: draws the figures of the documents, docs/figures/NAME.svg.

throughput.svg next to them is drawn by tools/plot.py. Each function below draws one figure. The
background is transparent and the greys are in the middle, so that a figure is readable on a white
page and on a dark one. --check writes nothing, and fails if a file is not what would be written.
"""

import sys
from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs/figures"

INK, FAINT = "#77818c", "#9aa4af"
BLUE, ORANGE, GREEN, RED = "#2f7fe6", "#dd8a2e", "#3f9d5f", "#c9504c"
SIZE = 13


class Drawing:
    """A list of shapes, in the order in which they lie on each other."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title, self.parts = width, height, title, []

    def box(self, x, y, width, height, colour=INK, fill="none", opacity=0.18, dash="") -> None:
        style = f' fill="{fill}" fill-opacity="{opacity}"' if fill != "none" else ' fill="none"'
        style += f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="3" '
            f'stroke="{colour}"{style}/>'
        )

    def text(self, x, y, words, colour=INK, anchor="middle", weight="normal", size=SIZE) -> None:
        for number, line in enumerate(words.split("\n")):
            self.parts.append(
                f'<text x="{x}" y="{y + number * (size + 3)}" fill="{colour}" font-size="{size}" '
                f'text-anchor="{anchor}" font-weight="{weight}">{escape(line)}</text>'
            )

    def line(self, points, colour=INK, is_arrow=True, dash="") -> None:
        path = " ".join(f"{x},{y}" for x, y in points)
        style = ' marker-end="url(#arrow)"' if is_arrow else ""
        style += f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}"{style}/>')

    def labelled(self, x, y, width, height, words, colour=INK, fill="none") -> None:
        """A box with its words in the middle."""
        self.box(x, y, width, height, colour, fill)
        lines = words.count("\n") + 1
        top = y + height / 2 - (lines - 1) * (SIZE + 3) / 2 + SIZE * 0.35
        self.text(x + width / 2, round(top, 1), words)

    def svg(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" font-family="sans-serif" role="img">\n'
            f"<title>{escape(self.title)}</title>\n"
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" '
            f'fill="{INK}"/></marker></defs>\n'
        )
        return head + "\n".join(self.parts) + "\n</svg>\n"


def store_to_batch() -> Drawing:
    drawing = Drawing(760, 250, "From a box of an array to a row of a batch")
    drawing.text(115, 22, "array in a store", weight="bold")
    for row in range(5):
        for column in range(5):
            needed = row in (1, 2) and column in (1, 2, 3)
            colour = BLUE if needed else "none"
            drawing.box(15 + column * 40, 35 + row * 40, 38, 38, FAINT, colour, 0.25)
    drawing.box(72, 92, 90, 56, ORANGE, ORANGE, 0.3)
    drawing.text(117, 125, "box", ORANGE)
    drawing.line([(225, 130), (268, 130)])
    drawing.labelled(
        272,
        62,
        118,
        136,
        "read and decode\neach chunk once,\nonly the part\nthat is needed",
        BLUE,
        BLUE,
    )
    drawing.line([(392, 130), (428, 130)])
    drawing.labelled(432, 84, 100, 92, "cast and\ncopy into\nits row", ORANGE, ORANGE)
    drawing.line([(534, 130), (570, 130)])
    drawing.text(660, 22, "batch (a slot)", weight="bold")
    for row, words in enumerate(("sample 0", "sample 1", "sample 2", "sample 3")):
        is_ours = row == 1
        colour = ORANGE if is_ours else FAINT
        drawing.box(575, 52 + row * 40, 170, 36, colour, colour, 0.3 if is_ours else 0.08)
        drawing.text(660, 75 + row * 40, words, ORANGE if is_ours else INK)
    drawing.text(750, 232, "fixed shape, one type, in CPU or GPU memory", anchor="end", size=11)
    return drawing


def life_of_a_sample() -> Drawing:
    drawing = Drawing(760, 290, "The states of a sample, and the calls that move it")
    names = ["QUEUED", "PLANNED", "LOADING", "READY", "HELD", "FREE"]
    under = [
        "the loader has\ncopied uri and box",
        "its batch has a slot;\nmetadata is loaded",
        "chunks are read,\ndecoded and cast",
        "the whole batch\nis complete",
        "your code\nuses the batch",
        "the slot takes\nanother batch",
    ]
    for number, (name, words) in enumerate(zip(names, under)):
        x = 10 + number * 126
        colour = GREEN if name in ("HELD",) else BLUE
        drawing.labelled(x, 90, 100, 40, name, colour, colour)
        drawing.text(x + 50, 150, words, size=11)
        if number < 5:
            drawing.line([(x + 101, 110), (x + 125, 110)])
    drawing.line([(60, 45), (60, 86)], GREEN)
    drawing.text(60, 36, "push", GREEN, weight="bold")
    drawing.line([(501, 45), (501, 104)], GREEN)
    drawing.text(501, 36, "pop", GREEN, weight="bold")
    drawing.line([(627, 45), (627, 104)], GREEN)
    drawing.text(627, 36, "release", GREEN, weight="bold")
    drawing.labelled(514, 215, 100, 40, "EXPORTED", ORANGE, ORANGE)
    drawing.line([(540, 184), (560, 212)])
    drawing.line([(590, 212), (660, 184)])
    drawing.text(
        630, 240, "released, but tensors\nof the batch still live", anchor="start", size=11
    )
    drawing.labelled(262, 215, 100, 40, "FAILED", RED, RED)
    drawing.line([(312, 184), (312, 212)])
    drawing.text(370, 240, "the store is wrong:\npop reports it", anchor="start", size=11)
    drawing.labelled(10, 215, 100, 40, "DROPPED", RED, RED)
    drawing.text(118, 240, "reset or close\nwas first", anchor="start", size=11)
    return drawing


def batch_slots() -> Drawing:
    drawing = Drawing(760, 230, "Three slots over time: filled, ready, held, and a wait")
    drawing.text(10, 20, "n_batch_slots = 3", anchor="start", weight="bold")
    rows = [
        [
            (0, 120, "fill 0", BLUE),
            (120, 110, "held 0", GREEN),
            (230, 120, "fill 3", BLUE),
            (350, 100, "ready", FAINT),
            (450, 110, "held 3", GREEN),
        ],
        [
            (40, 120, "fill 1", BLUE),
            (160, 70, "ready", FAINT),
            (230, 110, "held 1", GREEN),
            (340, 120, "fill 4", BLUE),
            (460, 100, "ready", FAINT),
        ],
        [
            (80, 120, "fill 2", BLUE),
            (200, 140, "ready", FAINT),
            (340, 110, "held 2", GREEN),
            (450, 110, "fill 5", BLUE),
        ],
    ]
    for number, row in enumerate(rows):
        y = 36 + number * 42
        drawing.text(10, y + 22, f"slot {number}", anchor="start")
        for x, width, words, colour in row:
            drawing.box(70 + x, y, width - 2, 34, colour, colour, 0.25)
            drawing.text(70 + x + width / 2, y + 22, words, size=11)
    drawing.text(10, 184, "your loop", anchor="start")
    for number in range(4):
        drawing.box(190 + number * 110, 164, 108, 32, ORANGE, ORANGE, 0.25)
        drawing.text(244 + number * 110, 184, f"step {number}", size=11)
    drawing.line([(70, 210), (740, 210)])
    drawing.text(740, 226, "time", anchor="end", size=11)
    return drawing


def box_to_field() -> Drawing:
    drawing = Drawing(760, 260, "A box goes to a place in a field; padding fills the rest")

    def grid(x, y, columns, rows, filled, title):
        drawing.text(x + columns * 11, y - 10, title, weight="bold")
        for row in range(rows):
            for column in range(columns):
                colour = filled(row, column)
                drawing.box(x + column * 22, y + row * 22, 20, 20, FAINT, colour, 0.35)

    def inside(top, left, rows, columns, colour):
        return lambda row, column: (
            colour if top <= row < top + rows and left <= column < left + columns else "none"
        )

    grid(15, 50, 6, 6, inside(1, 1, 3, 4, ORANGE), "array")
    drawing.text(81, 205, "box [1, 4) x [1, 5)", size=11)
    drawing.line([(155, 115), (190, 115)])
    grid(200, 50, 6, 6, inside(2, 1, 3, 4, ORANGE), "at = (2, 1)")
    drawing.text(266, 205, "the field: other places\nhold pad_value", size=11)

    def padded(row, column):
        return ORANGE if row < 4 and column < 4 else BLUE

    grid(385, 50, 6, 6, padded, "outside the array")
    drawing.text(451, 205, "orange: elements of the array\nblue: pad_mode fills them", size=11)

    def stepped(row, column):
        return ORANGE if row % 2 == 0 and column % 2 == 0 else "none"

    grid(575, 50, 6, 6, stepped, "step = (2, 2)")
    drawing.text(641, 205, "every second element;\n-1 reads backwards", size=11)
    return drawing


def ranks() -> Drawing:
    drawing = Drawing(
        760, 240, "How the samples of an epoch go to two ranks, and how the end is handled"
    )
    drawing.text(10, 24, "shuffled order of an epoch, 10 samples", anchor="start", weight="bold")
    order = [7, 2, 9, 0, 4, 8, 1, 6, 3, 5]
    for place, number in enumerate(order):
        colour = BLUE if place % 2 == 0 else GREEN
        drawing.box(10 + place * 42, 36, 38, 30, colour, colour, 0.25)
        drawing.text(29 + place * 42, 56, str(number))
    drawing.text(440, 56, "blue: rank 0, green: rank 1", anchor="start", size=11)
    tails = [
        (
            "pad",
            "both ranks get 3 batches of 2; repeats fill the last ones",
            ["7 9", "4 1", "3 7"],
            ["2 0", "8 6", "5 2"],
        ),
        ("drop", "the incomplete round is left out", ["7 9", "4 1"], ["2 0", "8 6"]),
        (
            "short",
            "ranks may get a smaller batch, or one batch less",
            ["7 9", "4 1", "3"],
            ["2 0", "8 6", "5"],
        ),
    ]
    for number, (name, words, first, second) in enumerate(tails):
        y = 92 + number * 50
        drawing.text(10, y + 18, f'tail="{name}"', anchor="start", weight="bold")
        for index, (one, two) in enumerate(zip(first, second)):
            drawing.box(120 + index * 56, y, 52, 18, BLUE, BLUE, 0.25)
            drawing.text(146 + index * 56, y + 13, one, size=11)
            drawing.box(120 + index * 56, y + 20, 52, 18, GREEN, GREEN, 0.25)
            drawing.text(146 + index * 56, y + 33, two, size=11)
        drawing.text(310, y + 24, words, anchor="start", size=11)
    return drawing


def pipeline() -> Drawing:
    drawing = Drawing(760, 330, "The stages of the library, their threads and their memory")
    drawing.text(10, 22, "your thread", GREEN, "start", "bold")
    for x, words in ((10, "push"), (560, "pop"), (660, "release")):
        drawing.labelled(x, 34, 88, 36, words, GREEN, GREEN)
    stages = [
        (10, "queue\nlookahead_samples", 132),
        (168, "plan\nchunks of all boxes,\neach one once", 140),
        (334, "read\nn_io_threads, or the\ndecoder (page cache)", 150),
        (510, "decode\nn_decode_threads", 118),
        (654, "assemble\ncast, copy", 92),
    ]
    for number, (x, words, width) in enumerate(stages):
        drawing.labelled(x, 130, width, 70, words, BLUE, BLUE)
        if number:
            before_x, _, before_width = stages[number - 1]
            drawing.line([(before_x + before_width + 1, 165), (x - 3, 165)])
    drawing.line([(54, 71), (54, 127)])
    drawing.line([(700, 127), (640, 73)])
    drawing.line([(649, 52), (657, 52)])
    drawing.labelled(10, 250, 132, 56, "cached metadata\nof arrays", ORANGE, ORANGE)
    drawing.labelled(168, 250, 140, 56, "shard indexes,\nlayouts of files", ORANGE, ORANGE)
    drawing.labelled(334, 250, 150, 56, "staging buffers\nhost_buffer_waves", ORANGE, ORANGE)
    drawing.labelled(510, 250, 118, 56, "chunk cache\n(optional)", ORANGE, ORANGE)
    drawing.labelled(654, 250, 92, 56, "slots\nof batches", ORANGE, ORANGE)
    for x in (76, 238, 409, 569, 700):
        drawing.line([(x, 247), (x, 203)], dash="4 3")
    drawing.text(
        10, 326, "blue: stages; orange: memory, all of it taken at open", anchor="start", size=11
    )
    return drawing


def which_entry() -> Drawing:
    drawing = Drawing(760, 300, "Which entry point of the Python package to use")
    questions = [
        (40, "Do you know the boxes,\nor have a data set with len and [i]?"),
        (130, "Does your code make the arrays,\nand no store holds them?"),
        (220, "Do you read single boxes\nnow and then?"),
    ]
    answers = [
        "list of boxes: Pipeline, or torch.Batches in torch\n"
        "data set with epochs and ranks: DataLoader",
        "source.Source: callback, iterator or feed\nnext to boxes of a store: Box(array)",
        "Reader, or wavetrain.reader()",
    ]
    for number, ((y, words), answer) in enumerate(zip(questions, answers)):
        drawing.labelled(20, y, 270, 54, words, BLUE, BLUE)
        drawing.line([(291, y + 27), (356, y + 27)])
        drawing.text(323, y + 20, "yes", size=11)
        drawing.labelled(360, y, 380, 54, answer, ORANGE, ORANGE)
        if number < 2:
            drawing.line([(155, y + 55), (155, y + 87)])
            drawing.text(172, y + 76, "no", size=11)
    return drawing


def chunk_shuffle() -> Drawing:
    drawing = Drawing(760, 250, "A full shuffle and the chunk-aware shuffle, chunk by chunk")
    drawing.text(10, 20, "chunk that each of 24 samples is in", anchor="start", weight="bold")
    full = [2, 5, 0, 3, 1, 4, 0, 2, 5, 3, 1, 0, 4, 2, 3, 5, 1, 4, 0, 5, 2, 4, 1, 3]
    window = [2, 5, 5, 2, 2, 5, 2, 5, 0, 3, 0, 3, 3, 0, 3, 0, 4, 1, 1, 4, 1, 4, 4, 1]
    colours = [BLUE, ORANGE, GREEN, RED, "#8a63c7", "#3aa7a3"]
    for words, order, y in (("full shuffle", full, 34), ("chunk-aware,\nwindows of 2", window, 88)):
        drawing.text(10, y + (22 if "\n" not in words else 14), words, anchor="start", size=11)
        kept: list[int] = []
        for place, chunk in enumerate(order):
            is_kept = chunk in kept
            kept = [*(each for each in kept if each != chunk), chunk][-2:]
            x = 110 + place * 27
            drawing.box(x, y, 24, 26, colours[chunk], colours[chunk], 0.3)
            drawing.text(x + 12, y + 17, str(chunk), size=11)
            if not is_kept:
                drawing.line([(x + 12, y + 44), (x + 12, y + 29)], colours[chunk])
    drawing.text(10, 146, "arrow: the chunk is decoded; a cache keeps 2", anchor="start", size=11)
    drawing.text(10, 178, "what a larger window mixes, of zstd_a", anchor="start", weight="bold")
    sizes = ["4", "16", "64", "256", "512", "1,024", "2,048", "full"]
    apart = [0.25, 0.26, 0.27, 0.35, 0.44, 0.63, 0.99, 1.0]
    decoded = [2048, 2048, 2048, 2048, 2048, 2048, 2984, 2991]
    for place, (size, mixed, chunks) in enumerate(zip(sizes, apart, decoded)):
        x = 110 + place * 81
        drawing.box(x, 190, round(70 * mixed, 1), 12, BLUE, BLUE, 0.4)
        drawing.box(x, 206, round(70 * chunks / 2991, 1), 12, ORANGE, ORANGE, 0.4)
        drawing.text(x, 236, size, anchor="start", size=11)
    drawing.text(10, 200, "come apart", BLUE, anchor="start", size=11)
    drawing.text(10, 217, "decoded", ORANGE, anchor="start", size=11)
    drawing.text(10, 236, "window, runs", anchor="start", size=11)
    return drawing


def memory_budget() -> Drawing:
    drawing = Drawing(760, 176, "The budget of one config, as a bar of its lines")
    bars = [
        (
            "float32",
            [(96.0, BLUE), (32.0, ORANGE), (16.3, GREEN), (16.7, FAINT)],
        ),
        ("bfloat16", [(48.0, BLUE), (32.0, ORANGE), (16.3, GREEN), (16.7, FAINT)]),
    ]
    for number, (name, parts) in enumerate(bars):
        x, y = 90.0, 16 + number * 50
        drawing.text(10, y + 24, name, anchor="start")
        for mib, colour in parts:
            width = round(mib * 3.7, 1)
            drawing.box(round(x, 1), y, width - 2, 36, colour, colour, 0.3)
            drawing.text(round(x + width / 2, 1), y + 23, f"{mib:.0f}", size=11)
            x += width
        whole = sum(mib for mib, _ in parts)
        drawing.text(round(x + 6, 1), y + 23, f"{whole:.0f} MiB", anchor="start", size=11)
    names = ["batch slots", "common scratch: large chunks", "staging slabs", "the rest"]
    for name, colour, x in zip(names, [BLUE, ORANGE, GREEN, FAINT], [90, 200, 420, 540]):
        drawing.box(x, 126, 14, 14, colour, colour, 0.3)
        drawing.text(x + 20, 138, name, anchor="start", size=11)
    drawing.text(
        90,
        164,
        "8 samples of 64 x 128 x 128, 3 slots, 2 CPUs; MiB as wavetrain budget prints them",
        anchor="start",
        size=11,
    )
    return drawing


def release_event() -> Drawing:
    drawing = Drawing(760, 214, "A release behind an event: the slot is filled while the step runs")
    rows = [
        ("your thread", ORANGE, [(90, 60, "launch"), (330, 60, "launch"), (570, 60, "launch")]),
        ("your stream", GREEN, [(120, 200, "step n"), (360, 200, "step n + 1")]),
        ("slot of n", BLUE, [(322, 150, "copy in n + 3"), (474, 100, "ready")]),
        (
            "CPU threads",
            FAINT,
            [(120, 190, "read, decode n + 3"), (360, 190, "read, decode n + 4")],
        ),
    ]
    for number, (name, colour, parts) in enumerate(rows):
        y = 30 + number * 40
        drawing.text(10, y + 19, name, anchor="start")
        for x, width, words in parts:
            drawing.box(x, y, width, 28, colour, colour, 0.25)
            drawing.text(x + width / 2, y + 19, words, size=11)
    drawing.line([(150, 22), (150, 18), (320, 18), (320, 108)], BLUE, dash="4 3")
    drawing.text(
        158,
        12,
        "release(event): returns at once, and the slot waits for the event",
        BLUE,
        anchor="start",
        size=11,
    )
    drawing.line([(90, 196), (740, 196)])
    drawing.text(740, 211, "time", anchor="end", size=11)
    return drawing


def lifetimes() -> Drawing:
    drawing = Drawing(760, 206, "Which objects may outlive which")
    rows = [
        ("process", FAINT, 90, 650, ""),
        ("loader", BLUE, 120, 330, "open .. close that returns OK"),
        ("batch in C", ORANGE, 190, 200, "pop .. release"),
        ("batch in C++", ORANGE, 190, 400, "the last one closes a loader that is gone"),
        ("tensor (DLPack)", GREEN, 250, 430, "keeps the memory of its slot until it is deleted"),
    ]
    for number, (name, colour, x, width, words) in enumerate(rows):
        y = 14 + number * 34
        drawing.text(10, y + 18, name, anchor="start", size=11)
        drawing.box(x + 20, y, width - 20, 26, colour, colour, 0.25)
        drawing.text(x + 30, y + 17, words, anchor="start", size=11)
    drawing.line([(450, 48), (450, 186)], RED, is_arrow=False, dash="4 3")
    drawing.text(
        230,
        198,
        "close: AGAIN while a batch or a tensor lives, and its slot is kept",
        RED,
        anchor="start",
        size=11,
    )
    return drawing


FIGURES = [
    chunk_shuffle,
    lifetimes,
    memory_budget,
    release_event,
    store_to_batch,
    life_of_a_sample,
    batch_slots,
    box_to_field,
    ranks,
    pipeline,
    which_entry,
]


def main() -> None:
    is_check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not is_check:
        sys.exit(__doc__)
    stale = []
    for draw in FIGURES:
        path, made = FOLDER / f"{draw.__name__}.svg", draw().svg()
        if path.is_file() and path.read_text() == made:
            continue
        stale.append(path.name)
        if not is_check:
            path.write_text(made)
    if is_check and stale:
        sys.exit(f"figures.py: not as drawn: {', '.join(stale)}: run tools/figures.py")


main()
