#!/bin/sh
# panics.sh [-v]: the panicking calls that are left in the archive's object, by module.
#
# In: the source tree. Out: lines "COUNT MODULE KIND", sorted; with -v lines "FILE:LINE KIND
# FUNCTION", one for each call. A call is counted where the library wrote it: code of core that was
# inlined counts for the line of ours that it was inlined into. KIND:
#
#   assert  an assertion, unreachable! or another panic with a text of ours
#   index   an index that is checked against a length
#   slice   a range that is checked against a length, or two lengths that must agree
#   number  a division by zero, a shift or an overflow
#   other   everything else of core
#
# A panic ends the process of the host (src/os/panic.rs), so each has to be out of reach of data.
# tests/data/panics.txt says for each module what keeps it so, and tests/ship/panics.rs compares.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# With the texts of panics: without, calls of one function become one call. And optimised for speed,
# because what cannot happen is then best seen.
PANIC_TEXTS=1 CARGO_PROFILE_ARCHIVE_OPT_LEVEL=2 UNSTRIPPED=$work/all.o \
    "$root/tools/archive.sh" "$work/archive" >&2
# Linked at addresses of its own, every call has a target and every address a line.
"${LD:-ld}" -shared -Bsymbolic --no-gc-sections "$work/all.o" -o "$work/all.so"

# Every call of, or jump to, a function that does nothing but panic: "ADDRESS SYMBOL".
"${OBJDUMP:-objdump}" -d --no-show-raw-insn "$work/all.so" |
    awk '$2 ~ /^(callq?|jmpq?|bl|b)$/ && $4 ~ /^</ {
        symbol = $4
        gsub(/[<>]/, "", symbol)
        sub(/@plt$/, "", symbol)
        if (symbol ~ /4core/ &&
            symbol ~ /panick|_fail|failed|panic_|expect_|already_(mutably_)?borrowed/) {
            sub(/:$/, "", $1)
            print $1, symbol
        }
    }' >"$work/calls"
test -s "$work/calls" || { echo "panics.sh: no call found: do panics have other names now?" >&2; exit 1; }

# "0xADDRESS", then a function and its file:line for each frame, inlined ones first.
cut -d' ' -f1 "$work/calls" |
    "${ADDR2LINE:-addr2line}" -a -f -i -C -e "$work/all.so" >"$work/lines"

awk -v verbose="${1:-}" '
    function kind_of(symbol) {
        if (symbol ~ /panic_bounds_check/) return "index"
        if (symbol ~ /slice|len_mismatch|split_at/) return "slice"
        if (symbol ~ /panic_const|overflow|div|rem/) return "number"
        if (symbol ~ /panick/ && symbol ~ /panic_fmt|5panic|panic_display|assert_failed/)
            return "assert"
        return "other"
    }
    function put() {
        if (address == "") return
        kind = kind_of(symbols[address])
        at = place == "" ? outside : place
        module = at
        sub(/:[0-9?]+.*$/, "", module)
        sub(/^.*wavetrain\/src\//, "", module)
        sub(/^.*registry\/src\/[^\/]*\//, "", module)
        sub(/-[0-9.]+\/src\/.*$/, "", module)
        if (module ~ /library\/core\//) module = "core"
        sub(/\/mod\.rs$/, "", module)
        sub(/\.rs$/, "", module)
        gsub(/\//, "::", module)
        if (verbose == "-v") {
            sub(/^.*wavetrain\/src\//, "src/", at)
            print at, kind, caller
        } else
            print module, kind
    }
    FILENAME == ARGV[1] { symbols[$1] = $2; next }
    /^0x/ {
        put()
        address = $1
        sub(/^0x0*/, "", address)
        place = outside = caller = ""
        expects_name = 1
        next
    }
    expects_name { name = $0; expects_name = 0; next }
    {
        expects_name = 1
        sub(/ \(discriminator.*$/, "")
        if (place == "" && $0 ~ /wavetrain\/src\//) { place = $0; caller = name }
        if ($0 !~ /library\/core/ || outside == "") outside = $0
    }
    END { put() }' "$work/calls" "$work/lines" |
    if test "${1:-}" = -v; then sort; else sort | uniq -c | awk '{ print $1, $2, $3 }'; fi
