#!/usr/bin/env bash
# Runs fuzz targets and prints a table of what they did.
#
#   fuzz/run.sh TARGET|all [SECONDS]   each target for SECONDS of CPU (60)
#   fuzz/run.sh smoke                  a few seconds each, and the canary must be found: for .ci/run
#   fuzz/run.sh seeds TARGET|all       adds at most SEEDS_MAX of what was found to fuzz/seeds
#
# Those of remote/fuzz, a workspace of its own, have remote_ before their names. All and smoke leave them
# out, because they build 130 crates: name them, or `remote` for all of them.
#
# Options before the words: -s none (no AddressSanitizer: faster, for long runs), -jobs N (N
# processes per target), -nice (idle priority). Environment: CORPUS, where inputs are kept
# (fuzz/corpus, which git ignores); CARGO_TARGET_DIR.
#
# Needs a nightly compiler and cargo-fuzz: cargo install cargo-fuzz@0.13.2 --locked. Where they are
# missing, smoke says so and is content.
set -euo pipefail
cd "$(dirname "$0")/.."
# No tool may fetch a component of the toolchain by itself.
export RUSTUP_DIST_SERVER=http://127.0.0.1:9
export CARGO_TERM_COLOR=never
unset ZSTD_SYS_USE_PKG_CONFIG

sanitizer=address jobs=1 priority=()
while [[ ${1:-} == -* ]]; do
  case $1 in
    -s) sanitizer=$2; shift 2 ;;
    -jobs) jobs=$2; shift 2 ;;
    -nice) priority=(chrt -i 0); shift ;;
    *) echo "no such option: $1" >&2; exit 2 ;;
  esac
done
word=${1:?a target, all, smoke or seeds}

CORPUS=${CORPUS:-fuzz/corpus}
mkdir -p "$CORPUS"
SEEDS_MAX=60
# Seconds of a smoke run, per target; every target builds in one folder.
SMOKE_SECONDS=2
triple=$(rustc -vV | sed -n 's/^host: //p')
folder=${CARGO_TARGET_DIR:-$PWD/fuzz/target}/fuzz-$sanitizer
logs=$folder/logs

remote_targets() { sed -n 's/^name = "\(.*\)"$/remote_\1/p' remote/fuzz/Cargo.toml | grep -vx remote_wavetrain-remote-fuzz; }

# Those that bodies/mod.rs lists. They are one program, which FUZZ_BODY names a body.
all_targets() { sed -n 's/^    ("\(.*\)", .*::run),$/\1/p' fuzz/bodies/mod.rs; }
program_of() {
  case $1 in
    remote_*) echo "${1#remote_}" ;;
    canary) echo canary ;;
    *) echo body ;;
  esac
}

missing() {
  rustup toolchain list 2> /dev/null | grep -q '^nightly' || { echo "no nightly toolchain"; return; }
  cargo fuzz --version > /dev/null 2>&1 || echo "no cargo-fuzz"
}

# A sanitizer takes a large part of each stack.
[[ $sanitizer == none ]] || export RUSTFLAGS="${RUSTFLAGS:-} --cfg wavetrain_sanitizer"

# Without cfg(fuzzing), which any crate may look at: what is fuzzed is what ships.
build() {
  local more=(--no-cfg-fuzzing) program
  program=$(program_of "$1")
  # The companion's crate shows what is fuzzed under that cfg alone.
  [[ $1 == remote_* ]] && more=(--fuzz-dir remote/fuzz)
  cargo +nightly fuzz build "${more[@]}" -s "$sanitizer" --target-dir "$folder" "$program" \
    > "$logs/$program.build" 2>&1 ||
    { cat "$logs/$program.build" >&2; exit 1; }
}

# Longest input: enough for the structure that each reads, short enough to be fast.
length_max() {
  case $1 in
    api_sequence) echo 900 ;;
    augment) echo 1200 ;;
    affine | casts | described | filters | plan) echo 400 ;;
    boxes | chunk | unshuffle) echo 600 ;;
    *) echo 8192 ;;
  esac
}

# One round of libFuzzer: target, wall seconds, then more arguments.
round() {
  local target=$1 seconds=$2
  shift 2
  local seeds=("fuzz/seeds/$target")
  case $target in
    json | zarr_metadata) seeds+=(tests/data/metadata) ;;
    zarr2_metadata) seeds+=(tests/data/metadata_v2) ;;
  esac
  [[ -d fuzz/regressions/$target ]] && seeds+=("fuzz/regressions/$target")
  local existing=()
  for seed in "${seeds[@]}"; do [[ -d $seed ]] && existing+=("$seed"); done
  case $target in group | json | ngff | selection | zarr*_metadata) existing+=(-dict=fuzz/json.dict) ;; esac
  FUZZ_BODY=$target "${priority[@]}" "$folder/$triple/release/$(program_of "$target")" "$CORPUS/$target" "${existing[@]}" \
    -max_total_time="$seconds" -max_len="$(length_max "$target")" -len_control=0 -timeout=20 \
    -rss_limit_mb=3072 -artifact_prefix="fuzz/artifacts/$target/" -print_final_stats=1 "$@"
}

# Runs a target until its processes have used that many seconds of CPU, and prints its row.
row() {
  local target=$1 budget=$2 log=$logs/$1.log used=0 left wall before code=0
  : > "$log"
  mkdir -p "fuzz/artifacts/$target" "$CORPUS/$target"
  before=$(ls -A "fuzz/artifacts/$target" | wc -l)
  # Ends: every round uses CPU, or fails.
  while left=$((budget - used)); ((left > 0 && code == 0)); do
    wall=$(((left + jobs - 1) / jobs))
    # A round starts with its whole corpus, which takes a while where that is large.
    ((wall > 120)) && wall=120
    local more=()
    ((jobs > 1)) && more=(-fork="$jobs" -ignore_crashes=0)
    { TIMEFORMAT='cpu %U %S'; time round "$target" "$wall" "${more[@]}"; } >> "$log" 2>&1 || code=$?
    used=$(awk '/^cpu [0-9.]+ [0-9.]+$/ { sum += $2 + $3 } END { printf "%d", sum + 0.999 }' "$log")
  done
  local crashes=$(($(ls -A "fuzz/artifacts/$target" | wc -l) - before))
  ((code != 0 && crashes == 0)) && crashes=1
  awk -v target="$target" -v used="$used" -v crashes="$crashes" \
    -v corpus="$(ls -A "$CORPUS/$target" | wc -l)" '
    /^stat::number_of_executed_units/ { runs += $2 }
    # With -jobs the parent counts, line by line.
    /^#[0-9]+: cov: / { counted = substr($1, 2) + 0 }
    /^cpu / { runs += counted; counted = 0 }
    / cov: [0-9]+ / {
      for (i = 1; i < NF; i++) {
        if ($i == "cov:") cov = $(i + 1)
        if ($i == "ft:") features = $(i + 1)
      }
    }
    END { printf "%-16s %12d %8d %8d %8d %8d %8d\n", target, runs, used, cov, features, corpus, crashes }
  ' "$log"
  if ((code != 0)); then
    grep -E -A 12 'panicked at|ERROR: |SUMMARY' "$log" | cut -c1-200 | head -40 >&2 || true
    echo "log: $log; the input: fuzz/artifacts/$target" >&2
    return 1
  fi
}

header() {
  printf '%-16s %12s %8s %8s %8s %8s %8s\n' target runs cpu_s cov ft corpus crashes
}

# The planted defect, which must be found: by AddressSanitizer where that is on.
canary() {
  local log=$logs/canary.log empty mark="the canary"
  [[ $sanitizer == address ]] && mark=heap-buffer-overflow
  empty=$(mktemp -d)
  if "$folder/$triple/release/canary" "$empty" -max_total_time=30 -seed=1 \
    -artifact_prefix="$empty/" > "$log" 2>&1; then
    echo "canary: not found in 30 s: the fuzzer does not work" >&2
    return 1
  fi
  rm -rf "$empty"
  grep -q "$mark" "$log" || { echo "canary: ended, but without '$mark': $log" >&2; return 1; }
  echo "canary: found"
}

why=$(missing)
if [[ -n $why ]]; then
  [[ $word == smoke ]] && { echo "skipped: fuzzing: $why"; exit 0; }
  echo "$why: see the head of fuzz/run.sh" >&2
  exit 1
fi
mkdir -p "$logs"

case $word in
  smoke)
    targets=$(all_targets)
    build body
    build canary
    canary
    header
    status=0
    for target in $targets; do row "$target" "$SMOKE_SECONDS" || status=1; done
    exit $status
    ;;
  seeds)
    target=${2:?a target or all}
    [[ $target == all ]] && targets=$(all_targets) || targets=$target
    for target in $targets; do
      build "$target"
      small=$(mktemp -d) found=$(mktemp -d)
      mkdir -p "fuzz/seeds/$target" "$CORPUS/$target"
      # A fuzzer that runs meanwhile takes files away, so a copy is looked at.
      cp "$CORPUS/$target"/* "$found/" 2> /dev/null || true
      # Inputs that cover every edge that was found; where they are too many, the longest of them.
      FUZZ_BODY=$target "$folder/$triple/release/$(program_of "$target")" -set_cover_merge=1 -use_counters=0 -use_value_profile=0 \
        -max_len="$(length_max "$target")" "$small" "fuzz/seeds/$target" "$found" > "$logs/$target.merge" 2>&1
      count=$(ls -A "fuzz/seeds/$target" | wc -l)
      for name in $(ls -S "$small"); do
        ((count >= SEEDS_MAX)) && break
        known=$(find "fuzz/seeds/$target" -type f -exec cmp -s "$small/$name" {} \; -print)
        if [[ -z $known ]]; then
          cp "$small/$name" "fuzz/seeds/$target/found_${name:0:10}"
          count=$((count + 1))
        fi
      done
      echo "$target: $(ls -A "$small" | wc -l) inputs cover all, $count seeds are kept"
      rm -rf "$small" "$found"
    done
    ;;
  canary)
    build canary
    canary
    ;;
  *)
    case $word in
      all) targets=$(all_targets) ;;
      remote) targets=$(remote_targets) ;;
      *) targets=$word ;;
    esac
    known=$(all_targets; remote_targets)
    for target in $targets; do
      grep -qx "$target" <<< "$known" || { echo "no such target: $target, but $(echo $known)" >&2; exit 2; }
    done
    for program in $(for target in $targets; do program_of "$target"; done | sort -u); do
      case $program in
        body) build body ;;
        *) build "remote_$program" ;;
      esac
    done
    header
    status=0
    for target in $targets; do row "$target" "${2:-60}" || status=1; done
    exit $status
    ;;
esac
