#!/usr/bin/env python3
"""nvrtc.py LIBNVRTC SOURCE.cu OUT.ptx: compiles one kernel file to PTX, for tools/ptx.sh.

The headers beside the source are handed over by name, so that no path can get into the result. The
first line of the result says which bytes it was made from; tests/house/ptx.rs compares.
"""
import ctypes
import pathlib
import re
import sys
import zlib

OPTIONS = [b"--gpu-architecture=compute_80", b"--std=c++17", b"--fmad=false"]


def headers_of(source, found):
    """The files that `source` includes, theirs too, in the order in which they are met."""
    for name in re.findall(r'^#include "([^"]+)"', source.read_text(), re.MULTILINE):
        header = source.parent / name
        if header not in found:
            found.append(header)
            headers_of(header, found)
    return found


def main():
    library, source, out = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    nvrtc = ctypes.CDLL(library)
    headers = headers_of(source, [])

    def strings(values):
        return (ctypes.c_char_p * len(values))(*values)

    def check(code, what):
        if code:
            raise SystemExit(f"{source}: nvrtc{what}: error {code}")

    program = ctypes.c_void_p()
    check(
        nvrtc.nvrtcCreateProgram(
            ctypes.byref(program),
            source.read_bytes(),
            source.name.encode(),
            len(headers),
            strings([header.read_bytes() for header in headers]),
            strings([header.name.encode() for header in headers]),
        ),
        "CreateProgram",
    )
    compiled = nvrtc.nvrtcCompileProgram(program, len(OPTIONS), strings(OPTIONS))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if log.value.strip():
        print(log.value.decode(), file=sys.stderr)
    check(compiled, "CompileProgram")
    check(nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)), "GetPTXSize")
    text = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetPTX(program, text), "GetPTX")
    named = [f"{file.name} {zlib.crc32(file.read_bytes()):08x}" for file in [source, *headers]]
    # The archive carries the text: comments, what lines are indented by and constants of a header
    # that no kernel reads are a sixth of it.
    lines = [re.sub("[ \t]+", " ", line).strip().replace(", ", ",") for line in text.value.decode().split("\n")]
    is_kept = lambda line: line and not line.startswith("//") and "nv6target6detail" not in line
    lines = filter(is_kept, lines)
    head = f"// tools/ptx.sh made this from {', '.join(named)}"
    out.write_text("\n".join([head, *lines]) + "\n")


main()
