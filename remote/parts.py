#!/usr/bin/env python3
"""parts.py OUT_DIR LIBRARY: says what is inside libwavetrain_remote, for those who ship it.

  OUT_DIR/LICENSES.txt               the licence of each part, in full
  OUT_DIR/wavetrain-remote.spdx.json the bill of materials, SPDX 2.3

In: Cargo.lock and the sources that cargo took, by `cargo metadata`; the library, whose checksum is
in the bill; SOURCE_DATE_EPOCH. Out: the same bytes for the same of these. Of several licences to
choose from the first of CHOSEN is taken. A crate without a licence or its text is an error. Crates
that run while others are compiled (procedural macros, build scripts) are not inside.
CARGO and RUSTC name other tools; REMOTE_FEATURES is as archive.sh has it.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
# In this order, where a crate gives the choice.
CHOSEN = ["MIT", "MIT-0", "ISC", "BSD-3-Clause", "BSD-2-Clause", "Zlib", "0BSD", "Apache-2.0"]
KNOWN = {*CHOSEN, "Unicode-3.0", "CDLA-Permissive-2.0", "OpenSSL", "CC0-1.0", "Unlicense"}
# Crates that come without a text, and a crate of the same author that has it for the same licence.
SAME_AUTHOR = {"base64-simd": "outref", "vsimd": "outref"}
TEXTS = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|UNLICENSE)([-_.].*)?", re.IGNORECASE)


def run(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def metadata():
    rustc = run(os.environ.get("RUSTC", "rustc"), "-vV")
    host = re.search(r"^host: (.*)$", rustc, re.MULTILINE)[1]
    cargo = os.environ.get("CARGO", "cargo")
    manifest = str(ROOT / "Cargo.toml")
    features = os.environ.get("REMOTE_FEATURES", "profiles")
    words = ["--locked", "--format-version", "1", "--filter-platform", host]
    words += ["--features", features]
    text = run(cargo, "metadata", *words, "--manifest-path", manifest)
    release = re.search(r"^release: (.*)$", rustc, re.MULTILINE)[1]
    return json.loads(text), release


def is_macro(package):
    return any("proc-macro" in target["kind"] for target in package["targets"])


def crates(found):
    """The packages that are inside, by name and version; the library itself first."""
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    root, inside = found["resolve"]["root"], {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        if name in inside or is_macro(packages[name]):
            continue
        inside[name] = packages[name]
        for other in nodes[name]["deps"]:
            if any(kind["kind"] is None for kind in other["dep_kinds"]):
                waiting.append(other["pkg"])
    own = inside.pop(root)
    return own, sorted(inside.values(), key=lambda each: (each["name"], each["version"]))


def taken(name, declared):
    """The licence that is taken of an expression: a choice in each part that must hold."""
    if not declared:
        raise SystemExit(f"parts.py: {name} declares no licence")
    expression = declared.replace("/", " OR ")
    parts = []
    for part in re.split(r"\s+AND\s+(?![^(]*\))", expression):
        choices = [each.strip("() ") for each in re.split(r"\s+OR\s+|\s+AND\s+", part)]
        is_choice = " OR " in part
        known = [each for each in choices if each.split(" WITH ")[0] in KNOWN]
        if not known or (not is_choice and len(known) < len(choices)):
            raise SystemExit(f"parts.py: {name}: the licence {declared} is not known: see CHOSEN")
        order = {each: at for at, each in enumerate(CHOSEN)}
        best = sorted(known, key=lambda each: order.get(each, len(CHOSEN)))
        parts += best[:1] if is_choice else best
    return " AND ".join(dict.fromkeys(parts))


def texts(package, licence):
    """The files with the text of a licence that was taken."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(
        path for path in folder.iterdir() if path.is_file() and TEXTS.fullmatch(path.name)
    )
    own = [path for path in files if licence.lower() in path.name.lower().replace("_", "-")]
    return own or files


def identity(name, met):
    name = re.sub(r"[^A-Za-z0-9.-]", "-", name)
    met[name] = met.get(name, 0) + 1
    return f"SPDXRef-{name}" + (f"-{met[name]}" if met[name] > 1 else "")


def checksums():
    """By name and version, of the packages of crates.io."""
    lock = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    pattern = r'name = "(.*?)"\nversion = "(.*?)"\nsource = .*\nchecksum = "(.*?)"'
    return {(name, version): sum for name, version, sum in re.findall(pattern, lock)}


def licences(own, rows, release, library):
    """The text of LICENSES.txt: one text for all parts that have it."""
    bodies, taken_of = {}, {package["name"]: (package, licence) for package, licence in rows}
    for package, licence in rows:
        files = texts(package, licence)
        other = taken_of.get(SAME_AUTHOR.get(package["name"], ""))
        if not files and other is not None and other[1] == licence:
            files = texts(*other)
        if not files:
            raise SystemExit(f"parts.py: {package['name']} comes without the text of its licence")
        body = "\n\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files)
        bodies.setdefault(body, []).append(f"{package['name']} {package['version']}: {licence}")
    root = ROOT.parent
    first, last = f"{own['name']} {own['version']}: MIT", f"std {release}: MIT"
    mine = (root / "LICENSE").read_text(encoding="utf-8")
    rust = (root / "tools/package/LICENSE-std.txt").read_text(encoding="utf-8")
    whole = {mine: [first], **bodies}
    whole.setdefault(rust, []).append(last)
    lines = [f"What is inside {library.name} stands under these licences."]
    names = [f"{package['name']} {package['version']}: {licence}" for package, licence in rows]
    lines += [f"  {name}" for name in [first, *names, last]]
    for body, titles in whole.items():
        lines += ["", "=" * 64, *titles, "=" * 64, "", body]
    return "\n".join(lines) + "\n"


def part(name, version, met, **more):
    """A package of the bill of materials."""
    plain = {
        "SPDXID": identity(name, met),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "licenseDeclared": "MIT",
        "licenseConcluded": "MIT",
        "copyrightText": "NOASSERTION",
        "filesAnalyzed": False,
    }
    return {**plain, **more}


def crate_part(package, licence, sum, met):
    name, version = package["name"], package["version"]
    locator = f"pkg:cargo/{name}@{version.replace('+', '%2B')}"
    reference = {
        "referenceCategory": "PACKAGE-MANAGER",
        "referenceType": "purl",
        "referenceLocator": locator,
    }
    return part(
        name,
        version,
        met,
        packageFileName=f"{name}-{version}.crate",
        checksums=[{"algorithm": "SHA256", "checksumValue": sum}],
        externalRefs=[reference],
        downloadLocation=f"https://crates.io/api/v1/crates/{name}/{version}/download",
        licenseDeclared=package["license"].replace("/", " OR "),
        licenseConcluded=licence,
    )


def bill(own, rows, release, library):
    """The bill of materials, SPDX 2.3."""
    sums, met = checksums(), {}
    each = [word for _, licence in rows for word in licence.split(" AND ")]
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    whole = part(
        own["name"],
        own["version"],
        met,
        packageFileName=library.name,
        checksums=[{"algorithm": "SHA256", "checksumValue": digest}],
        licenseConcluded=" AND ".join(dict.fromkeys(["MIT", *each])),
    )
    packages = [whole]
    for package, licence in rows:
        sum = sums[package["name"], package["version"]]
        packages.append(crate_part(package, licence, sum, met))
    packages.append(part("std", release, met, licenseDeclared="NOASSERTION"))
    date = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "0")))
    name = f"{own['name']}-{own['version']}"
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{digest}",
        "creationInfo": {
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", date),
            "creators": ["Organization: The wavetrain authors", f"Tool: parts.py-{own['version']}"],
        },
        "packages": packages,
        "relationships": [
            {
                "spdxElementId": "SPDXRef-DOCUMENT" if each is whole else whole["SPDXID"],
                "relationshipType": "DESCRIBES" if each is whole else "CONTAINS",
                "relatedSpdxElement": each["SPDXID"],
            }
            for each in packages
        ],
    }


def main():
    out, library = Path(sys.argv[1]), Path(sys.argv[2])
    found, release = metadata()
    own, inside = crates(found)
    rows = [(package, taken(package["name"], package["license"])) for package in inside]
    text = licences(own, rows, release, library)
    (out / "LICENSES.txt").write_text(text, encoding="utf-8")
    made = json.dumps(bill(own, rows, release, library), indent=2) + "\n"
    (out / "wavetrain-remote.spdx.json").write_text(made, encoding="utf-8")
    print(f"{out}: {len(rows)} crates")


if __name__ == "__main__":
    main()
