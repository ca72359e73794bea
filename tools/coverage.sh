#!/usr/bin/env bash
# Line coverage of the parsers by replay of the fuzz seeds, their mutants and the regressions.
#
# Prints a table of files: lines, those that ran, percent, and the numbers of those that did not.
# Exit code 1 where a file has less than 95 %. Not counted: tests, and what only runs in the compiler.
#
# Needs llvm-profdata and llvm-cov, version 19 or later: of $LLVM_BIN, of the PATH, or Debian's
# packages, which are unpacked into the target folder and not installed.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTUP_DIST_SERVER=http://127.0.0.1:9
unset ZSTD_SYS_USE_PKG_CONFIG
target=${CARGO_TARGET_DIR:-$PWD/target}/coverage
LEAST=95

# What is measured.
PARSERS='^src/(source/(json|zarr)/[a-z0-9_]+|read/shard_index|decode/[a-z0-9_]+)\.rs$'
# Tests in files of their own are not.
TESTS='tests\.rs$'
# Functions that only make constants: they run in the compiler.
COMPILED='src/loops/crc_tables.rs:tables'

llvm() {
  local name
  for name in "${LLVM_BIN:-/nowhere}/$1" "$1-22" "$1-21" "$1-20" "$1-19" "$target/llvm/usr/lib/llvm-19/bin/$1"; do
    command -v "$name" && return
  done
  return 1
}

if ! llvm llvm-cov > /dev/null; then
  command -v apt-get > /dev/null || { echo "no llvm-cov of version 19 or later" >&2; exit 2; }
  mkdir -p "$target/llvm"
  (cd "$target/llvm" && apt-get download -qq llvm-19 libllvm19 2> /dev/null &&
    for package in ./*.deb; do dpkg -x "$package" . && rm "$package"; done)
fi
export LD_LIBRARY_PATH=$target/llvm/usr/lib/x86_64-linux-gnu:$target/llvm/usr/lib/llvm-19/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

rm -f "$target"/*.profraw
RUSTFLAGS="-Cinstrument-coverage" CARGO_TARGET_DIR=$target LLVM_PROFILE_FILE=/dev/null \
  cargo test --quiet --test fuzz_replay --no-run
program=$(find "$target/debug/deps" -name 'fuzz_replay-*' -executable -type f -printf '%T@ %p\n' |
  sort -rn | head -1 | cut -d' ' -f2)
LLVM_PROFILE_FILE=$target/replay-%p.profraw "$program" --quiet > "$target/replay.log" 2>&1 ||
  { tail -20 "$target/replay.log" >&2; exit 1; }
"$(llvm llvm-profdata)" merge -sparse "$target"/replay-*.profraw -o "$target/replay.profdata"
"$(llvm llvm-cov)" export --format=lcov "$program" -instr-profile="$target/replay.profdata" \
  2> /dev/null > "$target/replay.lcov"

# A file's own tests, behind #[cfg(test)], are not compiled into the replay. A line counts once,
# however many times it was instantiated.
awk -F'[:,]' -v root="$PWD/" -v parsers="$PARSERS" -v tests="$TESTS" -v compiled="$COMPILED" -v least="$LEAST" '
  # Marks the lines of functions that run in the compiler, from the signature to the brace below it.
  function look_for_const(file,    line, number, indent, name) {
    if (file in looked) return
    looked[file] = 1
    while ((getline line < file) > 0) {
      number++
      name = line
      sub(/^ *(pub(\([a-z]+\))? )?const fn /, "", name)
      sub(/[(<].*/, "", name)
      if (name != line && index(" " compiled " ", " " file ":" name " ")) {
        match(line, /^ */)
        indent = substr(line, 1, RLENGTH) "}"
      }
      if (indent != "") is_const[file, number] = 1
      if (line == indent) indent = ""
    }
    close(file)
  }
  /^SF:/ {
    file = substr($0, 4)
    sub(root, "", file)
    is_on = file ~ parsers && file !~ tests
    if (is_on) look_for_const(file)
  }
  /^DA:/ && is_on && !((file, $2) in is_const) { runs[file, $2] += $3 }
  END {
    for (key in runs) {
      split(key, part, SUBSEP)
      lines[part[1]]++
      if (runs[key] > 0) covered[part[1]]++
      else missed[part[1]] = missed[part[1]] " " part[2]
    }
    printf "%-28s %6s %8s %7s  %s\n", "file", "lines", "covered", "%", "not covered"
    sorted = "sort"
    for (file in lines) {
      percent = 100 * covered[file] / lines[file]
      count = split(missed[file], numbers, " ")
      list = ""
      cmd = "printf \"%s\\n\" " missed[file] " | sort -n | head -40 | tr \"\\n\" \" \""
      if (count > 0) { cmd | getline list; close(cmd) }
      printf "%-28s %6d %8d %6.1f%%  %s\n", file, lines[file], covered[file], percent, list | sorted
      if (percent < least) low = low " " file
    }
    close(sorted)
    if (low != "") { print "below " least " %:" low; exit 1 }
  }
' "$target/replay.lcov"
