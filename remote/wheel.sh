#!/bin/sh
# wheel.sh OUT_DIR: makes the wheel wavetrain-remote in OUT_DIR, for pip. `import wavetrain` finds it.
#
#   wavetrain_remote/           the package, and lib/ with the shared library of archive.sh
#   wavetrain_remote-VERSION.dist-info/   licences of all crates inside, and the bill of materials
#
# In: the source tree, and what archive.sh needs. REMOTE_ARCHIVE names a folder that archive.sh has
# filled, so that nothing is built. Out: the same bytes for the same library; its tag has the glibc
# of the machine that it was linked on.
set -eu

fail() {
    echo "wheel.sh: $*" >&2
    exit 1
}

test $# -eq 1 || fail "usage: remote/wheel.sh OUT_DIR"
root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$1"
out=$(CDPATH='' cd -- "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)
grep -q "^__version__ = \"$version\"$" "$root/python/wavetrain_remote/__init__.py" ||
    fail "python/wavetrain_remote has another version than Cargo.toml, $version"
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/Cargo.toml")}
export SOURCE_DATE_EPOCH="$epoch"

archive=${REMOTE_ARCHIVE:-}
if test -z "$archive"; then
    archive=$work/archive
    "$root/archive.sh" "$archive"
fi
library=libwavetrain_remote.so.0
test -f "$archive/$library" || fail "$archive has no $library"
tree=$work/wheel
package=$tree/wavetrain_remote info=$tree/wavetrain_remote-$version.dist-info
mkdir -p "$package/lib" "$package/include" "$info/licenses" "$info/sboms" "$work/parts"
cp "$root/python/wavetrain_remote/__init__.py" "$root/python/wavetrain_remote/py.typed" "$package/"
cp "$archive/$library" "$package/lib/"
cp "$root"/include/* "$package/include/"
"$root/parts.py" "$work/parts" "$archive/$library"
cp "$root/../LICENSE" "$work/parts/LICENSES.txt" "$info/licenses/"
cp "$work/parts/wavetrain-remote.spdx.json" "$info/sboms/"
python3 "$root/../tools/wheel.py" "$tree" "$out" "$root"
