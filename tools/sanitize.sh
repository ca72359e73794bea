#!/bin/sh
# sanitize.sh [asan|ubsan|tsan|valgrind ...]: runs the tests under sanitizers, all kinds without
# arguments.
#
#   asan      AddressSanitizer and LeakSanitizer over the Rust tests, zstd compiled with it too
#   ubsan     UBSan in zstd's C, over the tests that decode; a finding is a trap, which ends the test
#   tsan      ThreadSanitizer over the Rust tests and over the C programs, library included
#   valgrind  memcheck over the C programs, linked with the archive as it ships
#
# The C programs are those of tests/c, and tests/cpp/source*.cpp, which have threads of their own.
#
# In: the source tree. Out: a line per step and a summary; what the steps print is in
# TARGET/sanitize/*.log. A step whose tool is missing says so and is no failure; any other step that
# is not clean makes the exit status 1. What is suppressed stands with its reason in `asan` and
# `tsan`.
#
# std as it comes is not instrumented. So ASan misses what only std touches, and TSan takes std's
# own locks, channels and threads for races: the Rust tests that share such things between threads
# are left out there, and libtest runs in one thread. The library has no std: its locks are
# pthread's, which TSan knows, and its atomics are compiled with it.
#
# NIGHTLY names another toolchain (nightly), CC another compiler (gcc), CARGO_TARGET_DIR another
# build folder, FAULTS=all adds the fault sweep to asan.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
target=${CARGO_TARGET_DIR:-$root/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
logs=$target/sanitize
nightly=${NIGHTLY:-nightly} cc=${CC:-gcc}
triple=x86_64-unknown-linux-gnu
# No toolchain or component is fetched behind the caller's back.
export RUSTUP_DIST_SERVER=${RUSTUP_DIST_SERVER:-http://127.0.0.1:9}
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CFLAGS ZSTD_SYS_USE_PKG_CONFIG
mkdir -p "$logs"
failed='' ran='' skipped=''
# Test programs that build with a toolchain of their own, or run nothing of the library.
not_ours='house ship tool'
# The fault sweep takes long: it is named where it is left out.
sweep='--skip sweep::'

# step NAME COMMAND...: runs it, keeps its output, notes how it ended.
step() {
    name=$1
    shift
    if "$@" >"$logs/$name.log" 2>&1; then
        ran="$ran $name"
        counts=$(grep -ah '^test result' "$logs/$name.log" | awk '{ n += $4 } END { print n + 0 }')
        test "$counts" = 0 && counts='' || counts=" ($counts tests)"
        echo "$name: clean$counts"
    else
        failed="$failed $name"
        echo "$name: NOT CLEAN, see $logs/$name.log:"
        grep -ahE 'SUMMARY|ERROR: |WARNING: Thread|^error|panicked at|FAILED|signal|definitely lost' \
            "$logs/$name.log" | head -20 | sed 's/^/    /'
    fi
}

skip() {
    skipped="$skipped $1"
    echo "$1: skipped: $2"
}

have() {
    command -v "$1" >/dev/null 2>&1
}

have_nightly() {
    cargo "+$nightly" --version >/dev/null 2>&1
}

# All test programs but those named, as arguments of cargo.
tests_but() {
    for file in tests/*.rs tests/*/main.rs; do
        test=$(basename "${file%/main.rs}" .rs)
        case " $* " in *" $test "*) ;; *) printf ' --test %s' "$test" ;; esac
    done
}

# Whether the compiler can make what TSan or ASan (the argument) needs.
links() {
    printf 'int main(void) { return 0; }\n' >"$logs/try.c"
    "$cc" "-fsanitize=$1" "$logs/try.c" -o "$logs/try" >/dev/null 2>&1 && "$logs/try"
}

asan() {
    have_nightly || { skip asan "no toolchain '$nightly'"; return; }
    but=$sweep
    test "${FAULTS:-}" != all || but=''
    flags='-Zsanitizer=address --cfg wavetrain_sanitizer'
    # gcc's and LLVM's ASan agree on their interface. But gcc takes the local constant tables of
    # zstd for dead once their function has ended, although it made them static.
    cflags='-fsanitize=address -fno-omit-frame-pointer -fno-sanitize-address-use-after-scope'
    # The bodies of fuzz targets keep blocks as long as their thread lives. Tests leak tables of
    # fields and columns, which are to live as long as the process, and whose address only loaders
    # have.
    printf 'leak:%s\n' '^fuzz_replay::' 'abi::FieldSpec' 'flow::tables::a_wrong_row' \
        >"$logs/lsan-suppressions"
    # A test of mapped files handles SIGBUS itself.
    export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:handle_sigbus=0
    # Unit tests leak the blocks of arenas, which live for ever; the library allocates nothing.
    asan_test asan-unit ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" --lib
    # shellcheck disable=SC2046 # a list of words
    asan_test asan LSAN_OPTIONS="suppressions=$logs/lsan-suppressions" $(tests_but $not_ours) \
        -- $but
}

# asan_test NAME VARIABLE TESTS...: those tests as one step of `asan`.
asan_test() {
    name=$1 variable=$2
    shift 2
    step "$name" env RUSTFLAGS="$flags" CFLAGS_x86_64_unknown_linux_gnu="$cflags" "$variable" \
        cargo "+$nightly" test --locked --no-fail-fast --target "$triple" \
        --target-dir "$logs/asan" "$@"
}

ubsan() {
    have "$cc" || { skip ubsan "no $cc"; return; }
    flags='-fsanitize=undefined,float-divide-by-zero,float-cast-overflow
        -fsanitize-undefined-trap-on-error -fno-sanitize-recover=all'
    # zstd alone: the C libraries that tests ask as oracles have findings of their own, c-blosc's
    # copies among them. Trapping needs no runtime to link.
    printf '#!/bin/sh\ncase "$*" in *zstd/lib*) set -- %s "$@" ;; esac\nexec %s "$@"\n' \
        "$(echo $flags)" "$cc" >"$logs/ubsan-cc"
    chmod +x "$logs/ubsan-cc"
    ubsan_test ubsan --lib --test formats --test fuzz_replay
    ubsan_test ubsan-reads --test flow -- reads::
}

# ubsan_test NAME TESTS...: those tests as one step of `ubsan`.
ubsan_test() {
    name=$1
    shift
    step "$name" env CC="$logs/ubsan-cc" \
        cargo test --locked --no-fail-fast --target-dir "$logs/ubsan" "$@"
}

# The stores that the C programs read; sets $cube, $many and $uris, the arguments of uris.c.
stores() {
    test -z "${cube:-}" || return 0
    CARGO_TARGET_DIR="$target" cargo test --quiet --locked --test ship -- --ignored \
        --nocapture stores_for_programs >"$logs/stores.log" 2>&1 || return 1
    line=$(grep -o 'stores: .*' "$logs/stores.log" | head -1)
    cube=$(echo "$line" | cut -d' ' -f2) many=$(echo "$line" | cut -d' ' -f3)
    uris=$(echo "$line" | cut -d' ' -f4-)
    test -d "$cube" && test -d "$many"
}

# How a C program is run, the arguments of a run per line; $program is where it was built.
runs() {
    case $1 in
    hooks) echo ;;
    no_alloc) echo "$many 200 1" ;;
    fields) echo "$many 40" ;;
    # The other ways to end are those of a process that aborts.
    fatal) echo ends ;;
    workers)
        for mode in own pump inline deferred reverse pool; do
            printf '%s\n' "$cube $mode" "$cube $mode async"
        done
        ;;
    plugin) echo "$program.so $cube" ;;
    uris) echo "$uris" ;;
    source) echo ;;
    source_limits) dirname "$cube" ;;
    *) echo "$cube" ;;
    esac
}

# run_all EXPECTED PROGRAM WRAPPER...: each line of input as the arguments of a run, until one does
# not end with EXPECTED. 77 means that a machine cannot run it.
run_all() {
    expected=$1 program=$2
    shift 2
    while read -r arguments; do
        status=0
        # shellcheck disable=SC2086 # a list of words
        "$@" "$program" $arguments </dev/null || status=$?
        test "$status" = "$expected" || test "$status" = 77 ||
            { echo "ended with $status, not $expected: $arguments"; return 1; }
    done
}

# build_and_run SOURCE ARCHIVE FLAGS EXPECTED PROGRAM WRAPPER...: a step of `programs`.
build_and_run() {
    source=$1 archive=$2 flags=$3 expected=$4 program=$5
    shift 5
    language=-std=c11
    case $source in *.cpp)
        language='-fno-exceptions -Itests/c -DKEEP_MALLOC tests/cpp/count_alloc.c -lstdc++' ;;
    esac
    # shellcheck disable=SC2086 # lists of words
    case $source in */plugin.c)
        "$cc" -shared -fPIC $flags -Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
            -lpthread -ldl -o "$program.so" || return ;;
    esac
    # shellcheck disable=SC2086 # lists of words
    "$cc" -g -O1 $flags -Iinclude "$source" "$archive" $language -lpthread -ldl -o "$program" &&
        runs "$(basename "${source%.*}")" | run_all "$expected" "$program" "$@"
}

# programs KIND ARCHIVE WRAPPER FLAGS...: builds each C program with the flags and runs it.
programs() {
    kind=$1 archive=$2 wrapper=$3
    shift 3
    for source in examples/hello.c tests/c/*.c tests/cpp/source*.cpp; do
        name=$(basename "${source%.*}")
        flags=$* expected=0
        case $kind-$name in
        tsan-no_alloc) skip "$kind-$name" "it is about the calls of malloc alone"; continue ;;
        tsan-clash) skip "$kind-$name" "it is about the packed archive"; continue ;;
        tsan-names) skip "$kind-$name" "it counts the threads, and TSan has one"; continue ;;
        *-macros) skip "$kind-$name" "it is compiled and not run"; continue ;;
        *-stacks) skip "$kind-$name" "it is about the stack of the packed archive"; continue ;;
        *-cuda_pump) skip "$kind-$name" "it needs a simulated driver"; continue ;;
        *-host_only) skip "$kind-$name" "it is about an archive without CUDA"; continue ;;
        valgrind-fatal) skip "$kind-$name" "the last words look through the raw stack"; continue ;;
        tsan-fatal) skip "$kind-$name" "it breaks a function that TSan calls"; continue ;;
        # It counts malloc by taking its place, which TSan does as well.
        tsan-fields | tsan-pump | tsan-workers) flags="$flags -DKEEP_MALLOC" ;;
        *-thread_locals) flags="$flags -DTLS_BYTES=300000" ;;
        *-fatal) expected=7 ;;
        esac
        under=$wrapper
        # In the forked child the parent's threads are gone, and what libc allocated for them is
        # reached from nowhere: only what is lost for certain counts there.
        case $kind-$name in
        valgrind-fork) under="$wrapper --show-leak-kinds=definite
            --errors-for-leak-kinds=definite" ;;
        esac
        # shellcheck disable=SC2086 # a list of words
        step "$kind-$name" build_and_run "$source" "$archive" "$flags" "$expected" \
            "$logs/$kind-$name" $under
    done
}

tsan() {
    have_nightly || { skip tsan "no toolchain '$nightly'"; return; }
    flags='-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg wavetrain_sanitizer'
    # libtest hands a test to its thread in an Arc and the result back through a channel. A thread
    # shares Arcs with whoever started it, and the last of them frees. std keeps a table of the
    # stacks of threads, and its channels know who waits. All of these are std's, which is not
    # compiled with TSan, and so look like races.
    printf 'race:%s\n' 'MaybeUninit<test::event::CompletedTest>' \
        'Mutex<core::option::Option<test::run_test::' 'Arc<std::thread::' \
        'std::thread::lifecycle::Packet<' 'std::sys::pal::unix::stack_overflow::' \
        'std::sync::mpmc::' >"$logs/tsan-suppressions"
    TSAN_OPTIONS="exitcode=66:second_deadlock_stack=1:handle_sigbus=0"
    export TSAN_OPTIONS="$TSAN_OPTIONS:suppressions=$logs/tsan-suppressions"
    # The tests whose own threads meet in std: see the head.
    but=$sweep
    for module in dlpack early extremes host host_hooks idle life metadata_files os_seam reads \
        stress waits wakeups; do
        but="$but --skip $module::"
    done
    # Single ones of other modules; those that build programs which no sanitizer is linked to; and one
    # whose cap on memory has no room for the larger stacks that threads have under a sanitizer.
    for test in in_global_mode in_thread_local_mode side_by_side jobs_of_the_host \
        a_host_that_only_looks a_close_ other_threads_enter a_box_whose_event boxes_of_every_grid \
        named:: a_run_that_is_killed memory_that_is_not_there a_look_that_saw; do
        but="$but --skip $test"
    done
    # shellcheck disable=SC2046,SC2086 # lists of words
    step tsan env RUSTFLAGS="$flags" cargo "+$nightly" test --locked --no-fail-fast \
        --target "$triple" --target-dir "$logs/tsan" \
        $(tests_but $not_ours fuzz_replay) -- --test-threads=1 $but
    links thread || { skip tsan-programs "$cc has no -fsanitize=thread"; return; }
    stores || { skip tsan-programs "no stores, see $logs/stores.log"; return; }
    # zstd is not compiled with it: its contexts belong to one worker each.
    step tsan-library env RUSTFLAGS="$flags" cargo "+$nightly" rustc --locked --package wavetrain --lib \
        --crate-type staticlib --profile archive --target "$triple" --target-dir "$logs/tsan" \
        -- --cfg wavetrain_archive --cfg wavetrain_panic_texts
    case $ran in *tsan-library*) ;; *) return ;; esac
    # LLVM calls the interceptors of memcpy and its like by names that gcc's runtime lacks.
    cat >"$logs/tsan-names.c" <<'END'
#include <string.h>
__attribute__((weak)) void *__tsan_memcpy(void *target, const void *source, size_t bytes) {
    return memcpy(target, source, bytes);
}
__attribute__((weak)) void *__tsan_memmove(void *target, const void *source, size_t bytes) {
    return memmove(target, source, bytes);
}
__attribute__((weak)) void *__tsan_memset(void *target, int byte, size_t bytes) {
    return memset(target, byte, bytes);
}
END
    programs tsan "$logs/tsan/$triple/archive/libwavetrain.a" '' -fsanitize=thread -fno-builtin \
        "$logs/tsan-names.c"
}

valgrind_programs() {
    have valgrind || { skip valgrind "no valgrind"; return; }
    have "$cc" || { skip valgrind "no $cc"; return; }
    stores || { skip valgrind "no stores, see $logs/stores.log"; return; }
    step valgrind-archive tools/archive.sh "$logs/archive"
    case $ran in *valgrind-archive*) ;; *) return ;; esac
    memcheck='valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite'
    memcheck="$memcheck,possible --errors-for-leak-kinds=definite,possible --trace-children=yes"
    programs valgrind "$logs/archive/libwavetrain.a" "$memcheck"
}

test $# -gt 0 || set -- asan ubsan tsan valgrind
for kind in "$@"; do
    case $kind in
    asan | ubsan | tsan) "$kind" ;;
    valgrind) valgrind_programs ;;
    *)
        echo "usage: tools/sanitize.sh [asan|ubsan|tsan|valgrind ...]" >&2
        exit 2
        ;;
    esac
done
echo "clean:${ran:- none}; skipped:${skipped:- none}; not clean:${failed:- none}"
test -z "$failed"
