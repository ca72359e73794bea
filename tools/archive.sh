#!/bin/sh
# archive.sh OUT_DIR: makes OUT_DIR/libwavetrain.a and puts the headers and the licence beside it.
#
# In: the source tree. Out: an archive of one object whose only global definitions are the
# functions wavetrain_*. Cargo's own static library will not do: it shows some 3,000 names, zstd's
# among them, and a program that links another zstd then silently shares one of the two. So all
# objects are linked into one, what the functions do not reach is dropped, and every other name is
# made local. The bytes depend on the sources and the compilers, not on the folder they lie in.
#
# Names are read with readelf: GNU nm needs a plugin for Rust's bitcode and shows nothing without it.
# UNSTRIPPED names a file that the object is copied to with its names and lines (tools/panics.sh).
# CARGO, CC, LD, AR, OBJCOPY and READELF name other tools; CARGO_TARGET_DIR another build folder.
set -eu

fail() {
    echo "archive.sh: $*" >&2
    exit 1
}

test $# -eq 1 || fail "usage: tools/archive.sh OUT_DIR"
out=$1
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

cargo=${CARGO:-cargo} cc=${CC:-cc} ld=${LD:-ld} ar=${AR:-ar}
objcopy=${OBJCOPY:-objcopy} readelf=${READELF:-readelf}
need() {
    command -v "$1" >/dev/null 2>&1 || fail "$1 is not there: install $2"
}
need "$cargo" "Rust (https://rustup.rs)"
need "$cc" "a C compiler, such as gcc; zstd is built from source"
need "$ld" binutils
need "$ar" binutils
need "$objcopy" binutils
need "$readelf" binutils
test "$(uname -s)" = Linux || fail "wavetrain is for Linux; this is $(uname -s)"

mkdir -p "$out"
out=$(CDPATH='' cd -- "$out" && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# 1. The static library. File names of this machine are cut from panic texts and __FILE__. zstd's
# trace hooks are weak names that a host could fill by accident, so they are compiled out.
home=${CARGO_HOME:-${HOME:-/}/.cargo}
separator=$(printf '\037')
CARGO_ENCODED_RUSTFLAGS="--remap-path-prefix=$home=cargo${separator}--remap-path-prefix=$root=wavetrain"
CFLAGS="-DZSTD_TRACE=0 -ffile-prefix-map=$home=cargo"
unset RUSTFLAGS ZSTD_SYS_USE_PKG_CONFIG ZSTD_SYS_NO_HIDE_SYMBOLS
export CARGO_ENCODED_RUSTFLAGS CFLAGS
(cd "$root" && "$cargo" rustc --quiet --locked --lib --crate-type staticlib --profile archive \
    --target-dir "$target" -- --cfg wavetrain_archive) || fail "cargo could not build the library"
raw=$target/archive/libwavetrain.a

# 2. One object: everything that the public functions reach.
"$readelf" -sW "$raw" 2>/dev/null |
    awk '$5 == "GLOBAL" && $7 != "UND" && $8 ~ /^wavetrain_/ { print $8 }' |
    sort -u >"$work/keep"
test -s "$work/keep" || fail "$raw defines no wavetrain_* function"
sed 's/^/-u /' "$work/keep" >"$work/roots"
"$ld" -r --gc-sections --force-group-allocation "@$work/roots" \
    --whole-archive "$raw" --no-whole-archive -o "$work/all.o"

test -z "${UNSTRIPPED:-}" || cp "$work/all.o" "$UNSTRIPPED"

# 3. Every other name becomes local; bitcode, comments and debug sections go.
"$objcopy" --keep-global-symbols="$work/keep" --strip-debug --strip-unneeded \
    -R .llvmbc -R .llvmcmd -R .comment -R .note.gnu.property "$work/all.o" "$work/wavetrain.o"
(cd "$work" && "$ar" rcsD libwavetrain.a wavetrain.o)

# 4. Beside it, what a program needs to use it and to ship it.
cp "$work/libwavetrain.a" "$out/libwavetrain.a"
for header in "$root"/include/*; do
    cp "$header" "$out/"
done
cp "$root/LICENSE" "$out/LICENSE"

bytes() {
    wc -c <"$1" | tr -d ' '
}
echo "$out/libwavetrain.a: $(bytes "$out/libwavetrain.a") bytes," \
    "$(wc -l <"$work/keep" | tr -d ' ') functions (cargo's: $(bytes "$raw") bytes)"
