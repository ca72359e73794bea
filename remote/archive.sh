#!/bin/sh
# archive.sh OUT_DIR: makes OUT_DIR/libwavetrain_remote.a and libwavetrain_remote.so.0, and puts the
# headers beside them.
#
# The global definitions of both are the functions wavetrain_remote_* alone. Cargo's own static
# library shows all of std, TLS and the clients of the clouds, which then meet those of a program, or
# of libwavetrain.a; its shared library shows the C functions of a crate inside. So all objects are
# linked into one, what the functions do not reach is dropped, every other name is made local, and
# both libraries are made of that.
#
# REMOTE_FEATURES has the cargo features, `profiles` if it is not set; empty leaves AWS's crates out.
# CARGO, CC, LD, AR, OBJCOPY and READELF name other tools; CARGO_TARGET_DIR another build folder.
set -eu

fail() {
    echo "archive.sh: $*" >&2
    exit 1
}

test $# -eq 1 || fail "usage: remote/archive.sh OUT_DIR"
root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cargo=${CARGO:-cargo} cc=${CC:-cc} ld=${LD:-ld} ar=${AR:-ar}
objcopy=${OBJCOPY:-objcopy} readelf=${READELF:-readelf}
mkdir -p "$1"
out=$(CDPATH='' cd -- "$1" && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# File names of this machine are cut from panic texts.
home=${CARGO_HOME:-${HOME:-/}/.cargo}
separator=$(printf '\037')
CARGO_ENCODED_RUSTFLAGS="--remap-path-prefix=$home=cargo$separator--remap-path-prefix=$root=remote"
export CARGO_ENCODED_RUSTFLAGS
features=${REMOTE_FEATURES-profiles}
(cd "$root" && "$cargo" rustc --quiet --locked --release --lib --crate-type staticlib \
    --features "$features" --target-dir "$target") ||
    fail "cargo could not build the library"

raw=$target/release/libwavetrain_remote.a
"$readelf" -sW "$raw" 2>/dev/null |
    awk '$5 == "GLOBAL" && $7 != "UND" && $8 ~ /^wavetrain_remote_/ { print $8 }' |
    sort -u >"$work/keep"
test -s "$work/keep" || fail "$raw defines no wavetrain_remote_* function"
sed 's/^/-u /' "$work/keep" >"$work/options"
"$ld" -r --gc-sections --force-group-allocation "@$work/options" "$raw" -o "$work/all.o"
"$objcopy" --keep-global-symbols="$work/keep" --strip-debug -R .llvmbc -R .llvmcmd -R .comment \
    -R .note.gnu.property "$work/all.o" "$work/wavetrain_remote.o"
"$objcopy" --strip-unneeded "$work/wavetrain_remote.o"
(cd "$work" && "$ar" rcsD libwavetrain_remote.a wavetrain_remote.o)
cp "$work/libwavetrain_remote.a" "$out/"
"$cc" -shared -Wl,-soname,libwavetrain_remote.so.0 -Wl,-z,defs -Wl,-z,now -Wl,-z,relro \
    -o "$out/libwavetrain_remote.so.0" "$work/wavetrain_remote.o" -lm -lpthread -ldl -lgcc_s
cp "$root"/include/* "$out/"
cp "$root/../LICENSE" "$out/LICENSE"
bytes() {
    wc -c <"$1" | tr -d ' '
}
echo "$out/libwavetrain_remote.a: $(bytes "$out/libwavetrain_remote.a") bytes," \
    "libwavetrain_remote.so.0: $(bytes "$out/libwavetrain_remote.so.0") bytes," \
    "$(wc -l <"$work/keep" | tr -d ' ') functions"
