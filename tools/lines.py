#!/usr/bin/env python3
"""lines.py [ROOT]: the library's code by room, of this tree or of another one.

A line of code is one that is neither blank nor only a comment. Unit tests, the command-line tool and
the harnesses do not count. Beside the lines: functions, those over 60 lines, unsafe blocks, and
assertions that run (assert, assert_eq, assert_ne, debug_assert, unreachable).
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOMS = ("surface/c", "jobs/plan", "jobs/read", "source/zarr", "source/json")
FUNCTION = re.compile(r'^( *)(pub(\([a-z]+\))? )?(const )?(unsafe )?(extern "C" )?fn \w')
ASSERTION = re.compile(r"\b(debug_)?assert(_eq|_ne)?!|\bunreachable!")


def library_code(path):
    """The lines of code of a file as (number, text), its unit tests left out."""
    lines = path.read_text().split("\n")
    number, code = 0, []
    while number < len(lines):
        line = lines[number]
        if line.strip().startswith("#[cfg(test)]"):
            number += 1
            while lines[number].strip().startswith("#["):
                number += 1
            indent = re.match(" *", lines[number]).group()
            if lines[number].rstrip().endswith("{"):
                while lines[number].rstrip() != indent + "}":
                    number += 1
            number += 1
            continue
        text = line.strip()
        if text and not text.startswith("//"):
            code.append((number, line))
        number += 1
    return code


def functions(code):
    """The length in lines, from the first to the last, of each function."""
    for at, (number, line) in enumerate(code):
        match = FUNCTION.match(line)
        if not match:
            continue
        for last, text in code[at:]:
            is_end = text.rstrip() == match.group(1) + "}"
            if is_end or last == number and text.rstrip().endswith(("}", ";")):
                yield last - number + 1
                break


def room_of(path):
    name = path.as_posix()
    for room in ROOMS:
        if name.startswith(room + "/"):
            return room
    return path.parts[0] if len(path.parts) > 1 else path.name


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent) / "src"
    totals = defaultdict(lambda: [0] * 5)
    for path in sorted(root.rglob("*.rs")):
        name = path.relative_to(root)
        if name.parts[0] == "bin" or path.stem.endswith("tests"):
            continue
        code = library_code(path)
        lengths = list(functions(code))
        text = [line.split("//")[0] for _, line in code]
        counts = (
            len(code),
            len(lengths),
            sum(length > 60 for length in lengths),
            sum(len(re.findall(r"\bunsafe \{", line)) for line in text),
            sum(len(ASSERTION.findall(line)) for line in text),
        )
        for row in (room_of(name), "in all"):
            totals[row] = [a + b for a, b in zip(totals[row], counts)]
    print(f"{'room':14} {'lines':>7} {'functions':>10} {'over 60':>8} {'unsafe':>7} {'assertions':>11}")
    for row in sorted(totals, key=lambda row: (row == "in all", row)):
        print("{:14} {:7} {:10} {:8} {:7} {:11}".format(row, *totals[row]))


if __name__ == "__main__":
    main()
