#!/bin/sh
# archive.sh OUT_DIR: makes OUT_DIR/libwavetrain.a, and puts beside it the headers, the licences of all
# that is inside, and a bill of materials (tools/parts.sh).
#
# In: the source tree. Out: an archive of one object whose only global definitions are the
# functions wavetrain_*. Cargo's own static library will not do: it shows some 3,000 names, zstd's
# among them, and a program that links another zstd then silently shares one of the two. So all
# objects are linked into one, what the functions do not reach is dropped, and every other name is
# made local. The bytes depend on the sources and the compilers, not on the folder they lie in.
#
# Names are read with readelf: GNU nm needs a plugin for Rust's bitcode and shows nothing without it.
#
# PREFIX=foo names everything foo_* instead: libfoo.a, foo.h and foo.hpp (FOO_OK, namespace foo). Two
#   libraries that carry wavetrain, each its own version, can then be linked into one program.
# UNWIND=1 keeps the unwind tables, a seventh more bytes. Without them a debugger or profiler that has no
#   other way to walk a stack (frame pointers, -g) stops at the first frame of ours. Nothing else is
#   lost: nothing of ours unwinds, and a C++ exception must not leave a hook.
# CARGO_PROFILE_ARCHIVE_OPT_LEVEL=s makes it a tenth smaller, and slower: small samples, metadata,
#   and most of all casts on CPUs without AVX2, where the compiler vectorises what has no vector
#   kernel of ours.
# UNSTRIPPED names a file that the object is copied to with its names and lines. It says where a
#   defect was met that the archive of the same sources and tools reports as "at +0x12ab +0x34cd":
#   addr2line -afiC -j .text -e FILE 0x12ab 0x34cd.
# HOST_ONLY=1 leaves the CUDA backend and its kernels out, a seventh of the bytes. backend = cuda is then
#   WAVETRAIN_UNSUPPORTED, and auto the host.
# PANIC_TEXTS=1 keeps the texts and lines of assertions, a sixth more bytes (tools/panics.sh).
# CARGO, CC, LD, AR, OBJCOPY and READELF name other tools; HOSTCC a compiler for this machine where CC
# is for another; CARGO_TARGET_DIR another build folder.
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
prefix=${PREFIX:-wavetrain}
case $prefix in
*[!a-z0-9_]* | [0-9]*) fail "PREFIX=$prefix: take a-z, 0-9 and _, no digit first" ;;
esac
test "$(uname -s)" = Linux || fail "wavetrain is for Linux; this is $(uname -s)"

mkdir -p "$out"
out=$(CDPATH='' cd -- "$out" && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# 1. The static library, compiled for speed. File names of this machine are cut from panic texts and
# __FILE__. zstd's trace hooks are weak names that a host could fill by accident, so they are compiled
# out, and so is its second decoder of sequences, which is for frames with windows above 16 MiB.
home=${CARGO_HOME:-${HOME:-/}/.cargo}
separator=$(printf '\037')
rust="--remap-path-prefix=$home=cargo${separator}--remap-path-prefix=$root=wavetrain"
c="-DZSTD_TRACE=0 -DZSTD_FORCE_DECOMPRESS_SEQUENCES_SHORT=1 -O2 -ffile-prefix-map=$home=cargo"
test ! -d "$root/vendor" || c="$c -ffile-prefix-map=$root=wavetrain"
unset RUSTFLAGS ZSTD_SYS_USE_PKG_CONFIG ZSTD_SYS_NO_HIDE_SYMBOLS
CARGO_ENCODED_RUSTFLAGS=$rust CFLAGS=$c
export CARGO_ENCODED_RUSTFLAGS CFLAGS
# Inlining stops at a sixth of the threshold that the compiler has: with that the archive is a fifth larger.
set -- --cfg wavetrain_archive -C llvm-args=-inline-threshold=35
test -z "${PANIC_TEXTS:-}" || set -- "$@" --cfg wavetrain_panic_texts
test -z "${HOST_ONLY:-}" || set -- "$@" --cfg wavetrain_host_only
# Two that run at a time write one file: each has it to itself until it has linked.
mkdir -p "$target"
if command -v flock >/dev/null; then
    exec 9>"$target/archive.lock"
    flock 9
fi
(cd "$root" && CC=$cc "$cargo" rustc --quiet --locked --package wavetrain --lib \
    --crate-type staticlib --profile archive --target-dir "$target" -- "$@") ||
    fail "cargo could not build the library"
raw=$target/archive/libwavetrain.a

# 2. One object of few sections: everything that the public functions reach.
"$readelf" -sW "$raw" 2>/dev/null |
    awk '$5 == "GLOBAL" && $7 != "UND" && $8 ~ /^wavetrain_/ { print $8 }' | sort -u >"$work/keep"
test -s "$work/keep" || fail "$raw defines no wavetrain_* function"
sed 's/^/-u /' "$work/keep" >"$work/options"
"$ld" -r -T "$root/tools/fold.ld" --gc-sections --force-group-allocation "@$work/options" \
    --whole-archive "$raw" --no-whole-archive -o "$work/all.o"
raw_bytes=$(wc -c <"$raw" | tr -d ' ')
exec 9>&-

test -z "${UNSTRIPPED:-}" || cp "$work/all.o" "$UNSTRIPPED"

# 3. Every other name becomes local; bitcode, comments and debug sections go. Then what the object
# knows of itself is resolved, and the names that this took go, too. A linker gives a
# program a shadow stack only where every object says that it returns to where it was called from.
# This object does, but rustc's say nothing, so it is said here. They have no endbr64 (IBT): stable
# rustc writes none.
set -- -R .llvmbc -R .llvmcmd -R .comment -R .note.gnu.property
test -n "${UNWIND:-}" || set -- "$@" -R .eh_frame -R '.gcc_except_table*'
"$objcopy" --keep-global-symbols="$work/keep" --strip-debug "$@" "$work/all.o" "$work/$prefix.o"
if "$readelf" -hW "$work/$prefix.o" | grep -q 'Machine:.*X86-64'; then
    # GNU_PROPERTY_X86_FEATURE_1_AND (0xc0000002), 4 bytes: SHSTK.
    printf '\4\0\0\0\20\0\0\0\5\0\0\0GNU\0\2\0\0\300\4\0\0\0\2\0\0\0\0\0\0\0' >"$work/note"
    "$objcopy" --add-section .note.gnu.property="$work/note" \
        --set-section-flags .note.gnu.property=alloc,readonly \
        --set-section-alignment .note.gnu.property=8 "$work/$prefix.o"
fi
"${HOSTCC:-$cc}" -O1 -o "$work/fold" "$root/tools/fold.c" || fail "tools/fold.c does not compile"
"$work/fold" "$work/$prefix.o" >/dev/null
"$objcopy" --strip-unneeded "$work/$prefix.o"
if test "$prefix" != wavetrain; then
    sed "s/^wavetrain\(.*\)/& $prefix\1/" "$work/keep" >"$work/renamed"
    "$objcopy" --redefine-syms="$work/renamed" "$work/$prefix.o"
fi
(cd "$work" && "$ar" rcsD "lib$prefix.a" "$prefix.o")

# 4. Beside it, what a program needs to use it and to ship it.
cp "$work/lib$prefix.a" "$out/lib$prefix.a"
capitals=$(echo "$prefix" | tr a-z A-Z)
for header in "$root"/include/*; do
    name=$(basename "$header" | sed "s/wavetrain/$prefix/")
    sed "s/wavetrain/$prefix/g; s/WAVETRAIN/$capitals/g" "$header" >"$out/$name"
done
cp "$root/LICENSE" "$out/LICENSE"
CARGO=$cargo "$root/tools/parts.sh" "$out" "$out/lib$prefix.a"

bytes() {
    wc -c <"$1" | tr -d ' '
}
echo "$out/lib$prefix.a: $(bytes "$out/lib$prefix.a") bytes," \
    "$(wc -l <"$work/keep" | tr -d ' ') functions (cargo's: $raw_bytes bytes)"
