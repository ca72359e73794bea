#!/usr/bin/env python3
"""bindings.py [--check]: writes python/wavetrain/_native.py from the headers of the archive.

In: those of HEADERS, whose constants, structs, function pointers and functions are all in one
style. Out: the same in ctypes, every constant, member and parameter. A line of a header
that is not understood ends the script with its text. --check writes nothing, and fails where the
file is not what would be written.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("wavetrain.h", "wavetrain_epoch.h", "wavetrain_recipes.h", "wavetrain_node.h")
HEADERS = [ROOT / "include" / name for name in NAMES]
TARGET = ROOT / "python/wavetrain/_native.py"

# What a C type is in ctypes, and what Python reads from a member of it.
NUMBERS = {
    "char": ("c_char", "bytes"),
    "double": ("c_double", "float"),
    "float": ("c_float", "float"),
    "int32_t": ("c_int32", "int"),
    "int64_t": ("c_int64", "int"),
    "size_t": ("c_size_t", "int"),
    "uint8_t": ("c_uint8", "int"),
    "uint32_t": ("c_uint32", "int"),
    "uint64_t": ("c_uint64", "int"),
    "wavetrain_batch": ("c_uint64", "int"),
    "wavetrain_loader": ("c_uint64", "int"),
    "wavetrain_status": ("c_int32", "int"),
    "void": ("None", "None"),
}

HEAD = '''\
"""The headers of the archive in ctypes. tools/bindings.py writes this file: change them.

This file is over 500 lines because it is all of them.
"""

from __future__ import annotations

from ctypes import (
    CDLL,
    CFUNCTYPE,
    Array,
    Structure,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any
'''

TAIL = '''

def declare(library: CDLL) -> None:
    """Gives ctypes the arguments and the result of each function of the library."""
    for name, result, parameters in FUNCTIONS:
        function = getattr(library, name)
        function.restype, function.argtypes = result, parameters
'''


def fail(text: str) -> None:
    sys.exit(f"bindings.py: not understood: {' '.join(text.split())}")


def class_name(name: str) -> str:
    """wavetrain_batch_view -> BatchView."""
    return "".join(word.capitalize() for word in name.removeprefix("wavetrain_").split("_"))


def split(declaration: str) -> tuple[str, str]:
    """The type and the name of "const char *name"."""
    match = re.fullmatch(r"(.*?)(\w+)", declaration.strip(), re.S)
    if not match:
        fail(declaration)
    return " ".join(match[1].replace("struct ", "").split()), match[2]


def in_ctypes(words: str, structs: set[str]) -> tuple[str, str]:
    """The ctypes and the Python type of a C type. NULL is None; all pointers but that to a text are
    addresses."""
    if words == "const char *":
        return "c_char_p", "bytes | None"
    if "*" in words:
        return "c_void_p", "int | None"
    if words in structs:
        return class_name(words), class_name(words)
    if words not in NUMBERS:
        fail(words)
    return NUMBERS[words]


def parameters(text: str, structs: set[str]) -> list[str]:
    if text.strip() == "void":
        return []
    # A parameter that is a function is an address like any other pointer.
    text = re.sub(r"void \(\*(\w+)\)\([^)]*\)", r"void *\1", text)
    text = re.sub(r"(\w+)\[\w+\]", r"*\1", text)  # so is one that is an array
    return [in_ctypes(split(parameter)[0], structs)[0] for parameter in text.split(",")]


def constants(text: str) -> list[str]:
    """What the header defines and enumerates, in its order."""
    lines = []
    pattern = r"^#define WAVETRAIN_(\w+)[ \t]+(\S.*?)\s*$|^\s+WAVETRAIN_(\w+) = (-?\w+),?\s*$"
    for match in re.finditer(pattern, text, re.M):
        name, number = match[1] or match[3], match[2] or match[4]
        if name.endswith("FORCE32"):
            continue
        number = re.sub(r"\bUINT64_C\((\w+)\)", r"\1", number)
        number = re.sub(r"\bUINT(\d+)_MAX\b", lambda bits: hex((1 << int(bits[1])) - 1), number)
        number = re.sub(r"^\((.*)\)$", r"\1", number.replace("WAVETRAIN_", ""))
        lines.append(f"{name} = {number}")
    return lines


def member(declaration: str, owner: str, structs: set[str]) -> tuple[str, str, str, str]:
    """(name, ctypes type, Python type, the line that makes the ctypes type) of a member."""
    function = re.fullmatch(r"(.*?)\(\*(\w+)\)\((.*)\)", declaration, re.S)
    if function:
        result, name, takes = function.groups()
        kind = f"{class_name(owner)}_{name}"
        words = [in_ctypes(" ".join(result.split()), structs)[0], *parameters(takes, structs)]
        made = f"{kind} = CFUNCTYPE({', '.join(words)})"
        return name, kind, "Any", made.replace("(", "(\n    ").replace(")", "\n)")
    lengths = re.findall(r"\[(.+?)\]", declaration)
    words, name = split(declaration.split("[")[0])
    kind, read = in_ctypes(words, structs)
    for length in reversed(lengths):  # the innermost one is the last
        inner = kind if length is lengths[-1] else read
        read = "bytes" if kind == "c_char" else f"Array[{inner}]"
        length = length.replace("WAVETRAIN_", "")
        kind = f"({kind})" if " " in kind else kind
        kind = f"{kind} * ({length})" if " " in length else f"{kind} * {length}"
    return name, kind, read, ""


def struct(name: str, body: str, structs: set[str]) -> list[str]:
    """The class of a struct, behind the types of its functions."""
    declarations = [text.strip() for text in body.split(";") if text.strip()]
    members = [member(declaration, name, structs) for declaration in declarations]
    hooks = [hook for *_, hook in members if hook]
    return [
        *hooks,
        *([""] if hooks else []),
        f"class {class_name(name)}(Structure):",
        *(f"    {field}: {read}" for field, _, read, _ in members),
        "",
        "    _fields_ = [",
        *(f'        ("{field}", {kind}),' for field, kind, *_ in members),
        "    ]",
        "",
        "",
    ]


def module(text: str) -> str:
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S).replace("\\\n", " ")
    bodies = re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text, re.S)
    structs = {name for name, _ in bodies}
    lines = [HEAD, *constants(text), "", ""]
    for name, body in bodies:
        lines += struct(name, body, structs)
    lines += ["# Name, result, parameters.", "FUNCTIONS: list[tuple[str, Any, list[Any]]] = ["]
    declared = r"^(\w[\w ]*?[ *]+)(wavetrain_\w+)\(([^;{]*)\);"
    for result, name, takes in re.findall(declared, text, re.S | re.M):
        kind = in_ctypes(" ".join(result.split()), structs)[0]
        lines.append(f'    ("{name}", {kind}, [{", ".join(parameters(takes, structs))}]),')
    return "\n".join([*lines, "]", ""]) + TAIL


def main() -> None:
    made = module("\n".join(header.read_text() for header in HEADERS))
    if sys.argv[1:] == ["--check"]:
        if made != TARGET.read_text():
            sys.exit(f"{TARGET.name} is not that of the headers: run tools/bindings.py")
    elif sys.argv[1:]:
        sys.exit("usage: tools/bindings.py [--check]")
    else:
        TARGET.write_text(made)


if __name__ == "__main__":
    main()
