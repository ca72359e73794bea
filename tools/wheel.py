#!/usr/bin/env python3
"""wheel.py TREE OUT_DIR [ROOT]: packs a folder as a wheel, for tools/dist.sh and remote/wheel.sh.

In: TREE with what pip is to install, laid out as in the wheel (wavetrain/, wavetrain-VERSION.data/,
and of wavetrain-VERSION.dist-info/ the folders licenses/ and sboms/); Cargo.toml and
python/README.md in ROOT, which is the folder above this script's where it is not given;
SOURCE_DATE_EPOCH; READELF may name another readelf, and PROJECT_URL the
repository.
Out: OUT_DIR/wavetrain-VERSION-py3-none-manylinux_X_Y_MACHINE.whl. X.Y is the newest version of
glibc that a file of TREE asks for, as its ELF tables tell; a file that needs more than glibc is an
error. The bytes depend on those of TREE, the date and the zlib that packs.
"""
import base64
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

# What glibc has in files of its own. libgcc_s, which manylinux allows too, is where a tool that was
# linked with cc has its unwinder from.
LIBRARIES = re.compile(r"(libc|libpthread|libdl|libm|librt|libgcc_s|ld-linux.*)\.so\.[0-9]+")

METADATA = """\
Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: {summary}
Keywords: {keywords}
License-Expression: {licences}
{license_files}
Classifier: Development Status :: 4 - Beta
Classifier: Intended Audience :: Developers
Classifier: Intended Audience :: Science/Research
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Programming Language :: Python :: 3 :: Only
Classifier: Programming Language :: Rust
Classifier: Topic :: Scientific/Engineering
Classifier: Typing :: Typed
Requires-Python: >=3.10
"""

# Project-URL fields, and the paths of a repository that they name.
URLS = {
    "Repository": "",
    "Documentation": "/tree/main/docs",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Issues": "/issues",
    "Security": "/blob/main/SECURITY.md",
}

WHEEL = """\
Wheel-Version: 1.0
Generator: wavetrain-wheel.py {version}
Root-Is-Purelib: false
Tag: {tag}
"""


def glibc_of(file):
    """The version of glibc that an ELF file asks for, as two numbers."""
    readelf = os.environ.get("READELF", "readelf")
    tables = subprocess.run(
        [readelf, "--wide", "--dynamic", "--version-info", file],
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "LC_ALL": "C"},
    ).stdout
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", tables):
        if not LIBRARIES.fullmatch(library):
            raise SystemExit(f"wheel.py: {file.name} needs {library}, which not every Linux has")
    newest = (2, 0)
    needs = tables.partition("Version needs section")[2]
    for name in re.findall(r" Name: (\S+)", needs):
        number = re.fullmatch(r"GLIBC_([0-9]+)\.([0-9]+)(\.[0-9]+)?", name)
        if number:
            newest = max(newest, (int(number[1]), int(number[2])))
        elif not name.startswith("GCC_"):
            raise SystemExit(f"wheel.py: {file.name} needs {name}, which is no version of glibc")
    return newest


def metadata(root, info):
    """The text of METADATA, of what Cargo.toml and the bill of materials tell."""
    manifest = (root / "Cargo.toml").read_text(encoding="utf-8")
    bill = json.loads(next((info / "sboms").glob("*.json")).read_text(encoding="utf-8"))
    own = re.search('^name = "(.*)"$', manifest, re.MULTILINE)[1]
    ours = next(package for package in bill["packages"] if package["name"] == own)
    files = sorted(file.name for file in (info / "licenses").iterdir())
    keywords = re.search("^keywords = (.*)$", manifest, re.MULTILINE)[1]
    text = METADATA.format(
        name=own,
        version=ours["versionInfo"],
        summary=re.search('^description = "(.*)"$', manifest, re.MULTILINE)[1],
        keywords=",".join(re.findall('"(.*?)"', keywords)),
        licences=ours["licenseConcluded"],
        license_files="\n".join(f"License-File: {file}" for file in files),
    )
    known = re.search('^repository = "(.*)"$', manifest, re.MULTILINE)
    home = os.environ.get("PROJECT_URL") or (known[1] if known else "")
    if home:
        home = home.rstrip("/")
        text += "".join(f"Project-URL: {name}, {home}{path}\n" for name, path in URLS.items())
    readme = root / "python" / "README.md"
    if readme.is_file():
        text += "Description-Content-Type: text/markdown; charset=UTF-8\n\n"
        text += readme.read_text(encoding="utf-8")
    return text


def main():
    tree, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    root = pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else __file__).resolve()
    root = root if len(sys.argv) > 3 else root.parent.parent
    info = next(tree.glob("*.dist-info"))
    distribution = info.name[: -len(".dist-info")]

    files = [file for file in tree.rglob("*") if file.is_file()]
    contents = {file.relative_to(tree).as_posix(): file.read_bytes() for file in files}
    programs = {name for name, data in contents.items() if data.startswith(b"\x7fELF")}
    glibc = max(glibc_of(tree / name) for name in programs)
    tag = f"py3-none-manylinux_{glibc[0]}_{glibc[1]}_{os.uname().machine}"

    contents[f"{info.name}/METADATA"] = metadata(root, info).encode()
    version = distribution.partition("-")[2]
    contents[f"{info.name}/WHEEL"] = WHEEL.format(version=version, tag=tag).encode()
    # What describes the wheel stands at its end, RECORD behind all that it records.
    names = sorted(contents, key=lambda name: (name.startswith(info.name), name))
    record = ""
    for name in names:
        digest = base64.urlsafe_b64encode(hashlib.sha256(contents[name]).digest())
        record += f"{name},sha256={digest.decode().rstrip('=')},{len(contents[name])}\n"
    names.append(f"{info.name}/RECORD")
    contents[names[-1]] = f"{record}{names[-1]},,\n".encode()

    wheel = out / f"{distribution}-{tag}.whl"
    # A zip knows no day before 1980.
    date = max(time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6], (1980, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name in names:
            entry = zipfile.ZipInfo(name, date)
            entry.create_system = 3  # the one that has permissions
            entry.external_attr = (0o100755 if name in programs else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, contents[name])
    print(f"{wheel}: {wheel.stat().st_size} bytes, for glibc {glibc[0]}.{glibc[1]} or later")


main()
