#!/usr/bin/env python3
"""settings.py [--check]: writes what the table of settings says into the header and into Python.

In: config_table in src/setup/config.rs, a row for each setting: its sentences, name, type, default
and limits. Out: the members of wavetrain_config between two marks of include/wavetrain.h, and
python/wavetrain/_settings.py. A row that is not understood ends the script with its text. --check
writes nothing, and fails where a file is not what would be written. tools/bindings.py runs next.
"""

import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src/setup/config.rs"
LIMITS = ROOT / "src/base/limits.rs"
HEADER = ROOT / "include/wavetrain.h"
PYTHON = ROOT / "python/wavetrain/_settings.py"

BEGIN = "    /* tools/settings.py writes the members from here: change src/setup/config.rs. */\n"
END = "    /* To here. */\n"

# The C types of the table's types; hooks follow from their names.
TYPES = {
    "u32": "uint32_t",
    "i32": "int32_t",
    "u64": "uint64_t",
    "f64": "double",
    "*mut c_void": "void *",
    "*const c_char": "const char *",
    "DriverPath": "const char *",
    "ShareName": "const char *",
    "MetadataLatency": "wavetrain_metadata_latency",
}

ROW = re.compile(
    r"(?P<name>\w+): (?P<type>\[.*?\]|[^=]+?) = (?P<default>.+?)"
    r"(?:, \[(?P<least>[^,\]]+), (?P<most>[^\]]+)\])?(?P<hook>, Hook)?"
    r"(?:\s+=> (?P<flag>\w+) .*)?",
    re.S,
)

HEAD = '''\
"""The default of each setting that is a number, and its least and its largest value.

tools/settings.py writes this file: change src/setup/config.rs.
"""

LIMITS = {
'''


def fail(text: str) -> None:
    sys.exit(f"settings.py: not understood: {' '.join(text.split())}")


def whole(text: str, constants: dict[str, str], kind: str) -> int:
    """The value of a whole number as Rust has it."""
    text = constants.get(text, text)
    largest = {"u32::MAX": (1 << 32) - 1, "u64::MAX": (1 << 64) - 1, f"{kind}::MAX": 0}
    if text in largest:
        return largest[text]
    if not re.fullmatch(r"-?[\d_]+( << \d+)?", text):
        fail(text)
    base, _, shift = text.partition(" << ")
    return int(base.replace("_", "")) << int(shift or 0)


def shown(number: int, flag: str) -> str:
    """A number for readers."""
    if flag == "Time" and number:
        return f"{number // 10**9} s"
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if flag == "Bytes" and number and number % (1 << shift) == 0:
            return f"{number >> shift} {unit}"
    return f"{number:,}"


def read_rows() -> list[dict]:
    """The rows of the table, and the titles between them."""
    text = TABLE.read_text()
    body = re.search(r"\(\$make:ident\) => \{ \$make! \{\n(.*?)\n    \} \};", text, re.S)
    constants = dict(re.findall(r"pub const (\w+): \w+ = (.+?);", LIMITS.read_text()))
    constants |= dict(re.findall(r"pub const (\w+): u32 = (\d+);", text))
    rows, title, sentences, row = [], [], [], ""
    for line in (body[1] if body else fail("the table") or "").splitlines():
        line = line.strip()
        if line.startswith("/// "):
            sentences.append(line.removeprefix("/// "))
        elif line.startswith("// "):
            title.append(line.removeprefix("// "))
        else:
            row = f"{row}\n{line}".strip()
        if not line.endswith(";") or line.startswith("/"):
            continue
        match = ROW.fullmatch(row.removesuffix(";"))
        made = match.groupdict() if match else fail(row)
        rows.append(made | {"title": " ".join(title), "words": " ".join(sentences)})
        title, sentences, row = [], [], ""
    for row in rows:
        number = constants.get(row["default"], row["default"])
        row["number"] = None
        if row["type"] in ("u32", "u64", "i32") and re.fullmatch(r"-?[\d_]+( << \d+)?", number):
            row["number"] = whole(number, constants, row["type"])
        for limit in ("least", "most"):
            row[limit] = row[limit] and whole(row[limit], constants, row["type"])
    return rows


def said(row: dict) -> str:
    """The comment of a member: its sentences, its limits, its default."""
    words = re.sub(r"`(\w+)`", r"WAVETRAIN_\1", row["words"])
    flag, default = row["flag"] or "", row["default"]
    choices = re.match(r"`(\w+_)`: ", row["words"])
    if not flag and row["name"].endswith(("_ns", "_bytes_max")):
        flag = "Time" if row["name"].endswith("_ns") else "Bytes"
    if (row["most"] or 0) > 1 and flag in ("Count", "Bytes"):
        least = shown(row["least"], flag) if row["least"] else ""
        most = shown(row["most"], flag)
        words += f" {least} to {most}." if least else f" Up to {most}."
    if "::" in default or default.startswith("["):
        bracket = {"Dtype::F32 as u32": "F32"}.get(default, "none")
    elif choices:
        bracket = default.removeprefix(choices[1])
    elif default.startswith("ptr::"):
        bracket = "NULL"
    elif row["number"] is None:
        bracket = default.removesuffix(".0")
    else:
        bracket = shown(row["number"], flag)
    return words if row["words"] == "Always 0." else f"{words} [{bracket}]"


def members(row: dict) -> list[tuple[str, str]]:
    """The declarations that a row stands for, and what is said of each."""
    name, kind, words = row["name"], row["type"], said(row)
    if kind == "FieldTable":
        return [
            (f"const wavetrain_field *{name};", words),
            (f"uint32_t n_{name};", "Their number, up to WAVETRAIN_FIELDS_MAX. [0]"),
            ("uint32_t field_bytes;", "sizeof(wavetrain_field), if there are fields. [0]"),
        ]
    if kind == "CpuTable":
        return [
            (f"const uint64_t *{name};", words),
            ("uint32_t cpu_words;", "Their words: CPU n is bit n % 64 of word n / 64. [0]"),
            ("uint32_t reserved5;", "Always 0."),
        ]
    if kind == "MetadataTable":
        return [
            (f"const void *{name};", words),
            ("uint64_t metadata_bytes;", "Their number. [0]"),
        ]
    array = re.fullmatch(r"\[(\w+); (\w+)\]", kind)
    if array:
        return [(f"{TYPES[array[1]]} {name}[WAVETRAIN_{array[2]}];", words)]
    if kind.endswith("Hook"):
        return [(f"wavetrain_{kind.removesuffix('Hook').lower()}_hook {name};", words)]
    if kind not in TYPES:
        fail(f"{name}: {kind}")
    made = TYPES[kind]
    return [(f"{made}{'' if made.endswith('*') else ' '}{name};", words)]


def in_c(rows: list[dict]) -> str:
    """The members of wavetrain_config."""
    lines = []
    for row in rows:
        if row["title"]:
            lines += ["", *comment(row["title"])]
        for declaration, words in members(row):
            line = f"    {declaration} /* {words} */"
            # Beside its member if there is room, else above it.
            if len(line) <= 100:
                lines.append(line)
            else:
                lines += [*comment(words), f"    {declaration}"]
    return "\n".join(lines).removeprefix("\n") + "\n"


def comment(words: str) -> list[str]:
    lines = textwrap.wrap(f"/* {words}", 93, subsequent_indent=" * ", break_on_hyphens=False)
    return [f"    {line}" for line in [*lines[:-1], f"{lines[-1]} */"]]


def in_python(rows: list[dict]) -> str:
    """The limits of all numbers."""
    made = HEAD
    for row in rows:
        bits = {"u32": 32, "u64": 64}.get(row["type"])
        if row["number"] is None or bits is None or row["words"] == "Always 0.":
            continue
        least = row["least"] or 0
        most = row["most"] or (1 << bits) - 1
        made += f'    "{row["name"]}": ({row["number"]}, {least}, {most}),\n'
    return made + "}\n"


def main() -> None:
    rows = read_rows()
    header = HEADER.read_text()
    before, _, rest = header.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        fail(f"{HEADER.name} without its two marks")
    made = {HEADER: before + BEGIN + in_c(rows) + END + after, PYTHON: in_python(rows)}
    if sys.argv[1:] == ["--check"]:
        for path, text in made.items():
            if not path.exists() or path.read_text() != text:
                sys.exit(f"{path.name} is not that of the table: run tools/settings.py")
    elif sys.argv[1:]:
        sys.exit("usage: tools/settings.py [--check]")
    else:
        for path, text in made.items():
            path.write_text(text)


if __name__ == "__main__":
    main()
