#!/bin/sh
# dist.sh [OUT_DIR]: makes the packages of a release in OUT_DIR (dist by default).
#
#   wavetrain-VERSION-MACHINE-linux.tar.gz   include/, lib/ with the archive, a shared library, CMake
#                                            and pkg-config files, share/ with licences and names;
#                                            lib/unwind/ with the archive that has unwind tables,
#                                            lib/debug/ with the object that has names and lines
#   wavetrain-VERSION-src.tar.gz             the sources and everything they are built from, for
#                                            tools/archive.sh or CMake without network
#
# In: the source tree; the crates in cargo's cache or to be fetched (CARGO_NET_OFFLINE=true forbids
# that). Out: the same bytes for the same tree and compilers, wherever it lies: files in order, owned
# by nobody, dated by the last commit, or by Cargo.toml where there is no git (SOURCE_DATE_EPOCH says
# otherwise).
#
# Both trees may be moved after they were unpacked. The source archive has no tests, benches, tool or
# fuzz targets: the crates that those need are thirty times those of the library.
# ONLY=binary or ONLY=source makes one of the two. archive.sh says which tools may be named.
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
only=${ONLY:-binary source}
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

binary() {
    name=wavetrain-$version-$(uname -m)-linux
    tree=$work/$name
    mkdir -p "$tree/include" "$tree/lib/cmake/wavetrain" "$tree/lib/pkgconfig" \
        "$tree/lib/debug" "$tree/lib/unwind" "$tree/share/doc/wavetrain" \
        "$tree/share/licenses/wavetrain"
    UNSTRIPPED=$work/all.o "$root/tools/archive.sh" "$work/archive"
    cp "$work/archive"/*.h "$work/archive"/*.hpp "$tree/include/"
    cp "$work/archive/libwavetrain.a" "$tree/lib/"
    # One object is behind all: places in the code are the same.
    "$objcopy" -R .llvmbc -R .llvmcmd "$work/all.o" "$tree/lib/debug/wavetrain.o"
    UNWIND=1 "$root/tools/archive.sh" "$work/unwind" >/dev/null
    cp "$work/unwind/libwavetrain.a" "$tree/lib/unwind/"

    # The same object as a shared library. There is no libwavetrain.so beside it, so that
    # -lwavetrain takes the archive; who wants this one names it, or wavetrain::shared. The C
    # library's objects at its ends keep to shadow stacks, but not all say so.
    (cd "$work" && "$ar" x "$tree/lib/libwavetrain.a" wavetrain.o)
    shadow=
    test "$(uname -m)" != x86_64 || shadow=-Wl,-z,shstk
    "$cc" -shared "$work/wavetrain.o" -o "$tree/lib/libwavetrain.so.$major" \
        -Wl,-soname,"libwavetrain.so.$major" -Wl,-z,defs -Wl,-z,now -Wl,-z,noexecstack \
        -Wl,--build-id=sha1 $shadow -Wl,--as-needed -lpthread -ldl -s

    for file in wavetrain-config.cmake wavetrain-config-version.cmake wavetrain.pc; do
        case $file in *.pc) folder=pkgconfig ;; *) folder=cmake/wavetrain ;; esac
        sed "s/@VERSION@/$version/; s/@MAJOR@/$major/; s/@MACHINE@/$(uname -m)/" \
            "$root/tools/package/$file.in" >"$tree/lib/$folder/$file"
    done

    cp "$work/archive/LICENSE" "$work/archive/LICENSES.txt" "$tree/share/licenses/wavetrain/"
    doc=$tree/share/doc/wavetrain
    cp "$root/README.md" "$root/CHANGELOG.md" "$root/SECURITY.md" \
        "$work/archive/wavetrain.spdx.json" "$doc/"
    # What the archive defines and what it wants, a name a line.
    "$readelf" -sW "$work/wavetrain.o" |
        awk '$5 != "LOCAL" && $8 != "" && $1 ~ /:$/ && $1 != "Num:" {
            print ($7 == "UND" ? "needs" : "defines"), $8 }' | sort >"$doc/symbols.txt"
    (cd "$tree" && find . -type f ! -name SHA256SUMS | sed 's,^\./,,' | sort |
        xargs sha256sum >"$work/sums" && mv "$work/sums" "$doc/SHA256SUMS")
    pack "$name"
}

source_archive() {
    name=wavetrain-$version-src
    tree=$work/$name
    test ! -d "$root/vendor" || fail "this is a source archive already: take ONLY=binary"
    mkdir -p "$tree/src"
    (cd "$root" && tar -cf - --exclude=src/bin --exclude='*_tests.rs' --exclude=tests.rs \
        CHANGELOG.md LICENSE README.md SECURITY.md CMakeLists.txt Cargo.toml Cargo.lock include \
        kernels src tools/archive.sh tools/dist.sh tools/fold.c tools/fold.ld tools/package \
        tools/panics.sh tools/parts.sh tools/parts.txt) |
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

for kind in $only; do
    case $kind in
    binary) binary ;;
    source) source_archive ;;
    *) fail "ONLY=$kind: binary or source" ;;
    esac
done
