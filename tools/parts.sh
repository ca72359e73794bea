#!/bin/sh
# parts.sh OUT_DIR ARCHIVE [tool]: says what is inside an archive, for those who ship it.
#
#   OUT_DIR/LICENSES.txt      the licence of each part, in full
#   OUT_DIR/NAME.spdx.json    the bill of materials, SPDX 2.3: each part with its version, licence and
#                             checksum; NAME is that of libNAME.a
#
# With `tool` ARCHIVE may be a shared library, and what is inside the command-line tool is told too, by
# tools/parts-tool.txt; ZIG names the zig that linked it, where one did.
#
# In: tools/parts.txt, Cargo.lock, the sources that cargo took, the compiler, and the archive, whose
# checksum the bill tells. Out: the same bytes for the same of these and the same SOURCE_DATE_EPOCH
# (the last commit's, where there is none; that of Cargo.toml, where there is no git). A crate of
# `cargo tree` without a line in the table is an error. CARGO and RUSTC name other tools.
set -eu

fail() {
    echo "parts.sh: $*" >&2
    exit 1
}

test $# -eq 2 || test "${3:-}" = tool || fail "usage: tools/parts.sh OUT_DIR ARCHIVE [tool]"
out=$1 archive=$2 tool=${3:-}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cargo=${CARGO:-cargo}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/Cargo.toml")}
sha256() {
    sha256sum <"$1" | cut -d' ' -f1
}

# The compiler that cargo runs.
rustc=${RUSTC:-rustc}
command -v "$rustc" >/dev/null 2>&1 || rustc=$(dirname "$cargo")/rustc
rust=$(cd "$root" && "$rustc" -vV) || fail "$rustc is not there: say RUSTC"
rust_host=$(echo "$rust" | sed -n 's/^host: //p')
rust_library=$(cd "$root" && "$rustc" --print sysroot)/lib/rustlib/$rust_host/lib

# The crates of the library, "NAME VERSION" a line.
(cd "$root" && "$cargo" tree --quiet --locked ${tool:+--features cli} --edges normal --prefix none \
    --format '{p}') | sed 's/ (.*//; s/ v/ /' | sort -u >"$work/crates"
test -s "$work/crates" || fail "cargo names no crates"
versions_of() {
    awk -v name="$1" '$1 == name { print $2 }' "$work/crates"
}

# Where cargo has the sources of a crate of a version.
folder_of() {
    for folder in "$root/vendor/$1" \
        "${CARGO_HOME:-${HOME:-/}/.cargo}"/registry/src/*/"$1-$2"; do
        test -d "$folder" || continue
        echo "$folder"
        return
    done
    fail "the sources of $1 are not in cargo's cache"
}
# The lock may have two versions of one crate.
lock_checksum() {
    awk -v name="name = \"$1\"" -v number="version = \"$2\"" '
        $0 == name { has_name = 1 } $0 == number { is_it = has_name } /^$/ { has_name = is_it = 0 }
        is_it && /^checksum/ { gsub(/"/, ""); print $3 }' "$root/Cargo.lock"
}
# What a crate says of its licence, as SPDX writes it today.
declared_by() {
    sed -n 's/^license = "\(.*\)"$/\1/p' "$1/Cargo.toml" | sed 's, */ *, OR ,g'
}

# One part, of the line that read split and a crate's version, as a line of the file parts: name,
# version, licence taken, licence declared, file that the checksum is of, checksum, where that comes
# from, its names for those who look for known holes, texts.
part() {
    folder=$root number=${1:-} file='' checksum='' declared=NOASSERTION download=NOASSERTION reference=''
    case $from in
    wavetrain)
        number=$version declared=$(declared_by "$root")
        file=$(basename "$archive") checksum=$(sha256 "$archive")
        ;;
    rust)
        number=$(echo "$rust" | sed -n 's/^release: //p')
        commit=$(echo "$rust" | sed -n 's/^commit-hash: //p')
        download=git+https://github.com/rust-lang/rust@$commit
        for library in "$rust_library/lib$name"-*.rlib; do
            test -f "$library" || fail "$library is not there"
            file=$(basename "$library") checksum=$(sha256 "$library")
        done
        ;;
    zig)
        test -n "${ZIG:-}" || return 0
        number=$("$ZIG" version) folder=$(dirname "$(readlink -f "$ZIG")")
        file=zig checksum=$(sha256 "$ZIG")
        ;;
    *)
        folder=$(folder_of "$crate" "$number")
        file=$crate-$number.crate checksum=$(lock_checksum "$crate" "$number")
        download=https://crates.io/api/v1/crates/$crate/$number/download
        if test "$from" = crates.io; then
            declared=$(declared_by "$folder")
            reference=pkg:cargo/$name@$(echo "$number" | sed 's/+/%2B/')
        else
            # zstd of zstd-sys 2.1.2+zstd.1.5.7; other crates do not say it, so the table does.
            case $name in
            *=*) number=${name#*=} name=${name%%=*} ;;
            *) number=${number##*"+$name."} ;;
            esac
            test "$number" != "$1" ||
                fail "tools/parts.txt: $crate does not tell the version of $name: say $name=VERSION"
            reference=pkg:generic/$name@$number
        fi
        ;;
    esac
    paths=
    for text in $texts; do
        test -f "$folder/$text" || fail "$name has no $text in $folder"
        paths="$paths $folder/$text"
    done
    line=$name
    for field in "$number" "$licence" "$declared" "$file" "$checksum" "$download" "$reference" \
        "$paths"; do
        line=$line$tab$field
    done
    echo "$line" >>"$work/parts"
}

tab=$(printf '\t')
sed "/^#/d; /^\$/d; s/   */$tab/g" "$root/tools/parts.txt" \
    ${tool:+"$root/tools/parts-tool.txt"} >"$work/table"
while read -r crate _; do
    grep -Eq "^$crate$tab(crates.io|wavetrain)" "$work/table" ||
        fail "$crate is in the archive: say in tools/parts.txt which licence is taken"
done <"$work/crates"
while IFS=$tab read -r name from licence texts; do
    test -n "$texts" || fail "tools/parts.txt: $name has no text"
    case $from in
    wavetrain | rust | zig)
        part
        continue
        ;;
    crates.io) crate=$name ;;
    *) crate=$from ;;
    esac
    # None of another machine's, or where it is taken no more; two where the lock has two.
    for crate_version in $(versions_of "$crate"); do
        part "$crate_version"
    done
done <"$work/table"

{
    echo "What is inside $(basename "$archive")${tool:+ and the tool} stands under these licences."
    awk -F "$tab" '{ print "  " $1 " " $2 ": " $3 }' "$work/parts"
    # One text for all parts that have it.
    cut -f 9 "$work/parts" | awk '!seen[$0]++' | while read -r paths; do
        printf '\n%s\n' '================================================================'
        awk -F "$tab" -v "paths= $paths" '$9 == paths { print $1 " " $2 ": " $3 }' "$work/parts"
        printf '%s\n\n' '================================================================'
        # Words in paths are file names without blanks.
        cat $paths
    done
} >"$out/LICENSES.txt"

library=$(basename "$archive")
library=${library#lib} library=${library%%.*}
created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
awk -F "$tab" -v version="$version" -v created="$created" -v sum="$(sha256 "$archive")" '
    # An id has letters, digits, "." and "-".
    function id(name) { gsub(/_/, "-", name); return "SPDXRef-" name }
    # Two parts may have one name: two versions of a crate, or a crate and the C in another.
    function new_id(name, before) {
        before = met[name]++
        return id(name) (before ? "-" before + 1 : "")
    }
    function field(name, value) { return "      \"" name "\": \"" value "\",\n" }
    {
        names[NR] = $1
        ids[NR] = new_id($1)
        # The archive stands under all licences of what is in it.
        count = split($3, licences, " AND ")
        for (at = 1; at <= count; at++)
            if (!(licences[at] in seen)) {
                seen[licences[at]] = 1
                whole = whole (whole == "" ? "" : " AND ") licences[at]
            }
        text = field("SPDXID", ids[NR]) field("name", $1) field("versionInfo", $2)
        if ($5 != "") text = text field("packageFileName", $5)
        if ($6 != "")
            text = text "      \"checksums\": [{ \"algorithm\": \"SHA256\"," \
                " \"checksumValue\": \"" $6 "\" }],\n"
        if ($8 != "")
            text = text "      \"externalRefs\": [{ \"referenceCategory\": \"PACKAGE-MANAGER\"," \
                " \"referenceType\": \"purl\", \"referenceLocator\": \"" $8 "\" }],\n"
        texts[NR] = text field("downloadLocation", $7) field("licenseDeclared", $4)
        taken[NR] = $3
    }
    END {
        print "{"
        print "  \"spdxVersion\": \"SPDX-2.3\","
        print "  \"dataLicense\": \"CC0-1.0\","
        print "  \"SPDXID\": \"SPDXRef-DOCUMENT\","
        print "  \"name\": \"wavetrain-" version "\","
        print "  \"documentNamespace\": \"https://spdx.org/spdxdocs/wavetrain-" version "-" sum "\","
        print "  \"creationInfo\": {"
        print "    \"created\": \"" created "\","
        print "    \"creators\": [\"Organization: The wavetrain authors\"," \
            " \"Tool: wavetrain-parts.sh-" version "\"]"
        print "  },"
        print "  \"packages\": ["
        for (at = 1; at <= NR; at++) {
            printf "    {\n%s", texts[at]
            printf "%s", field("licenseConcluded", names[at] == "wavetrain" ? whole : taken[at])
            printf "%s", field("copyrightText", "NOASSERTION")
            print "      \"filesAnalyzed\": false"
            print "    }" (at < NR ? "," : "")
        }
        print "  ],"
        print "  \"relationships\": ["
        for (at = 1; at <= NR; at++) {
            is_whole = names[at] == "wavetrain"
            print "    { \"spdxElementId\": \"" \
                (is_whole ? "SPDXRef-DOCUMENT" : "SPDXRef-wavetrain") \
                "\", \"relationshipType\": \"" (is_whole ? "DESCRIBES" : "CONTAINS") \
                "\", \"relatedSpdxElement\": \"" ids[at] "\" }" (at < NR ? "," : "")
        }
        print "  ]"
        print "}"
    }' "$work/parts" >"$out/$library.spdx.json"
