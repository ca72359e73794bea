#!/bin/sh
# glibc.sh: makes TARGET/glibc, with which a program or a shared library is linked for glibc 2.26 and
# all later ones, whatever glibc this machine has:
#
#   lib/               what glibc 2.26 has of names, and nothing behind them: libc.so.6,
#                      libpthread.so.0, libdl.so.2; libc_nonshared.a, which every user has inside
#   zig-VERSION-cc     a compiler and linker that knows no other glibc; its unwinder is static
#   zig                what all of it comes from, 0.17.1 unless ZIG names another
#
# In: zig, which is fetched from PyPI by its hash (101 MB, once), unless ZIG names it. Exit status
# 77: no zig to be had; CARGO_NET_OFFLINE=true forbids to fetch it, ZIG=none to use it.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
out=$target/glibc
glibc=2.26
machine=$(uname -m)

skip() {
    echo "skipped: $*" >&2
    exit 77
}

test "${ZIG:-}" != none || skip "ZIG=none: nothing is linked for an old glibc"
venv=$target/zig-venv
mkdir -p "$target"
cat >"$target/zig.txt" <<'END'
ziglang==0.17.1 \
    --hash=sha256:ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54 \
    --hash=sha256:b7c5f02fccd40f89b999ee16a1f5ddced56e6182370f8affe494bcf8a28cf07e
END
if test -z "${ZIG:-}" && ! cmp -s "$target/zig.txt" "$venv/complete"; then
    test "${CARGO_NET_OFFLINE:-}" != true || skip "zig is not here and must not be fetched"
    command -v python3 >/dev/null 2>&1 || skip "zig cannot be fetched without python3"
    python3 -m venv --clear "$venv" 2>/dev/null || skip "python3 has no venv to fetch zig with"
    "$venv/bin/pip" install --quiet --no-deps --retries 1 --require-hashes -r "$target/zig.txt" ||
        skip "zig cannot be fetched here"
    cp "$target/zig.txt" "$venv/complete"
fi
zig=${ZIG:-$(find "$venv/lib" -path '*/ziglang/zig')}
test -x "$zig" || skip "$zig is no program"

# What zig makes of its sources stays: another zig makes it anew, and its linker has another name, so
# that cargo links again. Without -O2 zig makes what helps to debug, for 15 s.
if test "$(cat "$out/complete" 2>/dev/null)" != "$zig"; then
    rm -rf "$out"
    mkdir -p "$out/lib"
    ln -s "$zig" "$out/zig"
    linker=$out/zig-$("$zig" version)-cc
    cat >"$linker" <<END
#!/bin/sh
export ZIG_GLOBAL_CACHE_DIR="$out/cache" ZIG_LOCAL_CACHE_DIR="$out/cache"
exec "$zig" cc -target $machine-linux-gnu.$glibc -O2 -fno-sanitize=all "\$@"
END
    chmod +x "$linker"
    echo 'int nothing;' >"$out/nothing.c"
    "$linker" -shared "$out/nothing.c" -o "$out/nothing.so"
    for name in libc.so.6 libpthread.so.0 libdl.so.2 libc_nonshared.a; do
        cp "$(find "$out/cache" -name "$name")" "$out/lib/"
    done
    echo "$zig" >"$out/complete"
fi
