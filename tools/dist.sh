#!/bin/sh
# dist.sh [OUT_DIR]: makes the packages of a release in OUT_DIR (dist by default).
#
#   wavetrain-VERSION-MACHINE-linux.tar.gz   include/, lib/ with the archive, a shared library, CMake
#                                            and pkg-config files, share/ with licences, names,
#                                            pages, examples, and the tool's manual page and
#                                            completions;
#                                            lib/unwind/ with the archive that has unwind tables,
#                                            lib/debug/ with the object that has names and lines
#   wavetrain-VERSION-src.tar.gz             the sources and everything they are built from, for
#                                            tools/archive.sh or CMake without network
#   wavetrain-VERSION-py3-none-manylinux_X_Y_MACHINE.whl
#                                            for pip: the Python package, the shared library, the
#                                            headers, the command-line tool with its manual page
#                                            and completions, and the examples in Python
#
# In: the source tree; the crates in cargo's cache or to be fetched, and zig, with which the shared
# library and the tool are linked for glibc 2.26 (tools/glibc.sh; CARGO_NET_OFFLINE=true forbids to
# fetch). Where there is no zig they need the glibc of this machine, and the wheel's name says which.
# Out: the same bytes for the same tree and compilers, wherever it lies: files in order, owned
# by nobody, dated by the last commit, or by Cargo.toml where there is no git (SOURCE_DATE_EPOCH says
# otherwise).
#
# Both archives may be moved after they were unpacked. That of the sources has no tests, benches, tool or
# fuzz targets: the crates that those need are thirty times those of the library.
# PROJECT_URL is the address of the repository, for the wheel's metadata, if Cargo.toml has none.
# ONLY=binary, ONLY=source or ONLY=wheel makes one of the three. archive.sh says which tools may be named.
set -eu

fail() {
    echo "dist.sh: $*" >&2
    exit 1
}

test $# -le 1 || fail "usage: tools/dist.sh [OUT_DIR]"
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
mkdir -p "${1:-dist}"
out=$(CDPATH='' cd -- "${1:-dist}" && pwd)
cargo=${CARGO:-cargo} cc=${CC:-cc} ar=${AR:-ar} readelf=${READELF:-readelf}
objcopy=${OBJCOPY:-objcopy}
only=${ONLY:-binary source wheel}
target=${CARGO_TARGET_DIR:-$root/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
umask 022

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)
case $version in *.*.*) ;; *) fail "Cargo.toml tells no version" ;; esac
major=${version%%.*}
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/Cargo.toml")}
export SOURCE_DATE_EPOCH="$epoch"

# pack NAME: the folder NAME in the work folder as OUT_DIR/NAME.tar.gz.
pack() {
    tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --format=gnu \
        --mtime="@$epoch" --mode=u=rwX,go=rX -cf "$work/packed.tar" "$1"
    gzip -n -9 <"$work/packed.tar" >"$out/$1.tar.gz"
    echo "$out/$1.tar.gz: $(wc -c <"$out/$1.tar.gz" | tr -d ' ') bytes"
}

# The archive in the work folder, its object, and the shared library of that, once for all packages.
archive() {
    test ! -d "$work/archive" || return 0
    UNSTRIPPED=$work/all.o "$root/tools/archive.sh" "$work/archive"
    (cd "$work" && "$ar" x archive/libwavetrain.a wavetrain.o)
    # Names of an old glibc come with no code but what is always static. That, and where there is
    # none the C library's objects at the ends, keep to shadow stacks, but do not say so.
    set -- -lpthread -ldl
    glibc
    test -z "$zig" || set -- -nostdlib "$glibc/lib/libpthread.so.0" "$glibc/lib/libdl.so.2" \
        "$glibc/lib/libc.so.6" "$glibc/lib/libc_nonshared.a"
    test "$(uname -m)" != x86_64 || set -- -Wl,-z,shstk "$@"
    "$cc" -shared "$work/wavetrain.o" -o "$work/libwavetrain.so.$major" \
        -Wl,-soname,"libwavetrain.so.$major" -Wl,-z,defs -Wl,-z,now -Wl,-z,noexecstack \
        -Wl,--build-id=sha1 -Wl,--as-needed "$@" -s
}

# What links for an old glibc, in the folder glibc; zig is empty where there is none.
glibc() {
    glibc=$target/glibc zig=$target/glibc/zig status=0
    CARGO_TARGET_DIR=$target "$root/tools/glibc.sh" || status=$?
    case $status in
    0) ;;
    77) zig= && echo "dist.sh: the shared library and the tool need the glibc of this machine" >&2 ;;
    *) fail "tools/glibc.sh failed" ;;
    esac
}

binary() {
    name=wavetrain-$version-$(uname -m)-linux
    tree=$work/$name
    mkdir -p "$tree/include" "$tree/lib/cmake/wavetrain" "$tree/lib/pkgconfig" \
        "$tree/lib/debug" "$tree/lib/unwind" "$tree/share/doc/wavetrain" \
        "$tree/share/licenses/wavetrain"
    archive
    cp "$work/archive"/*.h "$work/archive"/*.hpp "$tree/include/"
    cp "$work/archive/libwavetrain.a" "$tree/lib/"
    # One object is behind all: places in the code are the same.
    "$objcopy" -R .llvmbc -R .llvmcmd "$work/all.o" "$tree/lib/debug/wavetrain.o"
    UNWIND=1 "$root/tools/archive.sh" "$work/unwind" >/dev/null
    cp "$work/unwind/libwavetrain.a" "$tree/lib/unwind/"

    # The same object as a shared library. There is no libwavetrain.so beside it, so that
    # -lwavetrain takes the archive; who wants this one names it, or wavetrain::shared.
    cp "$work/libwavetrain.so.$major" "$tree/lib/"

    for file in wavetrain-config.cmake wavetrain-config-version.cmake wavetrain.pc; do
        case $file in *.pc) folder=pkgconfig ;; *) folder=cmake/wavetrain ;; esac
        sed "s/@VERSION@/$version/; s/@MAJOR@/$major/; s/@MACHINE@/$(uname -m)/" \
            "$root/tools/package/$file.in" >"$tree/lib/$folder/$file"
    done

    cp "$work/archive/LICENSE" "$work/archive/LICENSES.txt" "$tree/share/licenses/wavetrain/"
    doc=$tree/share/doc/wavetrain
    cp "$root/README.md" "$root/CHANGELOG.md" "$root/CONTRIBUTING.md" "$root/SECURITY.md" \
        "$work/archive/wavetrain.spdx.json" "$doc/"
    cp -R "$root/docs" "$doc/docs"
    cp -R "$root/examples" "$doc/examples"
    shell_files "$tree/share"
    # What the archive defines and what it wants, a name a line.
    "$readelf" -sW "$work/wavetrain.o" |
        awk '$5 != "LOCAL" && $8 != "" && $1 ~ /:$/ && $1 != "Num:" {
            print ($7 == "UND" ? "needs" : "defines"), $8 }' | sort >"$doc/symbols.txt"
    (cd "$tree" && find . -type f ! -name SHA256SUMS | sed 's,^\./,,' | sort |
        xargs sha256sum >"$work/sums" && mv "$work/sums" "$doc/SHA256SUMS")
    pack "$name"
}

# What shells and man have of the tool, below a folder "share". tests/tool/shell.rs keeps the files.
shell_files() {
    mkdir -p "$1/man/man1" "$1/bash-completion/completions" "$1/zsh/site-functions" \
        "$1/fish/vendor_completions.d"
    cp "$root/tools/package/wavetrain.1" "$1/man/man1/"
    cp "$root/tools/package/wavetrain.bash" "$1/bash-completion/completions/wavetrain"
    cp "$root/tools/package/_wavetrain" "$1/zsh/site-functions/"
    cp "$root/tools/package/wavetrain.fish" "$1/fish/vendor_completions.d/"
}

source_archive() {
    name=wavetrain-$version-src
    tree=$work/$name
    test ! -d "$root/vendor" || fail "this is a source archive already: take ONLY=binary"
    mkdir -p "$tree/src"
    (cd "$root" && tar -cf - --exclude=src/bin --exclude='*_tests.rs' --exclude=tests.rs \
        CHANGELOG.md CONTRIBUTING.md LICENSE README.md SECURITY.md CMakeLists.txt Cargo.toml \
        Cargo.lock docs examples include kernels src tools/archive.sh tools/dist.sh tools/fold.c \
        tools/fold.ld tools/glibc.sh tools/package tools/panics.sh tools/parts.sh \
        tools/parts.txt) |
        tar -xf - -C "$tree"
    # The manifest without what only the tool, the tests and the benches need.
    awk '/^\[/ { keep = $0 !~ /^\[(dev-dependencies|features|\[bin\]|\[bench\])/ }
        keep && $0 !~ /optional = true/' "$root/Cargo.toml" |
        sed 's/^readme = .*/&\nautobins = false/' >"$tree/Cargo.toml"
    # cargo leaves the crates that nobody needs any more out of the lock; versions stay.
    (cd "$tree" && "$cargo" tree --quiet >/dev/null &&
        "$cargo" vendor --quiet --locked vendor) || fail "cargo could not vendor"
    mkdir "$tree/.cargo"
    cat >"$tree/.cargo/config.toml" <<'END'
# cargo takes the crates of vendor/ and asks no server.
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"
END
    test "$(grep -c '^name' "$tree/Cargo.lock")" -lt 20 || fail "the lock has too many crates"
    pack "$name"
}

# The tool, at $tool. What names folders of this machine is cut. The linker is found by its name, which
# is the same everywhere: cargo makes the names of symbols of it.
tool() {
    home=${CARGO_HOME:-${HOME:-/}/.cargo}
    set -- -C link-arg=-Wl,--build-id=sha1
    test -z "$zig" || set -- "$@" -C linker="$(basename "$glibc"/zig-*-cc)" \
        -C link-self-contained=-linker -C linker-features=-lld
    (unset ZSTD_SYS_USE_PKG_CONFIG && cd "$root" &&
        PATH=$glibc:$PATH CARGO_ENCODED_RUSTFLAGS=--remap-path-prefix=$home=cargo \
            "$cargo" rustc --quiet --locked --package wavetrain --bin wavetrain --features cli \
            --release --target-dir "$target" -- "$@") || fail "cargo could not build the tool"
    tool=$target/release/wavetrain
}

wheel() {
    test ! -d "$root/vendor" || fail "a source archive has no tool: take ONLY=binary"
    test -f "$root/python/wavetrain/__init__.py" || fail "there is no python/wavetrain"
    tree=$work/wheel
    package=$tree/wavetrain info=$tree/wavetrain-$version.dist-info
    scripts=$tree/wavetrain-$version.data/scripts share=$tree/wavetrain-$version.data/data/share
    mkdir -p "$package/lib" "$package/include" "$scripts" "$info/licenses" "$info/sboms"
    archive
    tool
    (cd "$root/python/wavetrain" && find . -name '*.py' -o -name '*.pyi' -o -name py.typed) |
        tar -C "$root/python/wavetrain" -cf - -T - | tar -xf - -C "$package"
    cp "$work/archive"/*.h "$work/archive"/*.hpp "$package/include/"
    cp "$work/libwavetrain.so.$major" "$package/lib/"
    shell_files "$share"
    mkdir -p "$share/doc/wavetrain/examples"
    cp "$root"/examples/*.py "$share/doc/wavetrain/examples/"
    "$objcopy" --strip-all -R .comment "$tool" "$scripts/wavetrain"
    mkdir "$work/parts"
    ZIG=$zig "$root/tools/parts.sh" "$work/parts" "$work/libwavetrain.so.$major" tool
    cp "$root/LICENSE" "$work/parts/LICENSES.txt" "$info/licenses/"
    cp "$work/parts/wavetrain.spdx.json" "$info/sboms/"
    python3 "$root/tools/wheel.py" "$tree" "$out"
}

for kind in $only; do
    case $kind in
    binary) binary ;;
    source) source_archive ;;
    wheel) wheel ;;
    *) fail "ONLY=$kind: binary, source or wheel" ;;
    esac
done
