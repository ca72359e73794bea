#!/bin/sh
# run.sh of a folder that tools/gpu.sh packed: see there.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
driver=${DRIVER:-libcuda.so.1}
data=${DATA:-$here/data}
all="device identity decode units rates overlap stream train consumer capture faults queue mps sanitizer"
parts=${PARTS:-$all}
small=
test -z "${SMALL:-}" || small=--small
mps_control=nvidia-cuda-mps-control
work=$(mktemp -d)
# Kernels are compiled once for all programs, not once for each.
export CUDA_CACHE_PATH="${CUDA_CACHE_PATH:-$work/cache}"
trap 'stop_mps; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
status=0

# Rows say where they were made, if that is special.
where=
fact() { printf '%-46s %s\n' "$where$1" "$2"; }

# limited SECONDS COMMAND..: a driver that waits for itself must not keep the rest.
limited() {
    if command -v timeout > /dev/null; then
        timeout "$@"
    else
        shift
        "$@"
    fi
}

# part NAME COMMAND..: its rows; skipped, or wrong, with its last words. Functions of a shell share
# their variables, so each has names of its own.
part() {
    part_name=$1
    shift
    "$@" > "$work/out" 2> "$work/err"
    part_code=$?
    if test $part_code -eq 77; then
        fact "$part_name" "$(tail -n 1 "$work/out")"
        return
    fi
    cat "$work/out"
    if test $part_code -ne 0; then
        fact "$part_name" "FAILED, status $part_code: $(tail -n 3 "$work/err" | tr '\n' ' ')"
        status=1
    fi
}

gpu() { "$here/bin/gpu" "$@" --driver "$driver" --dir "$data" $small; }

# tested WHAT PROGRAM NAME..: a row for each NAME: how many tests that have it in theirs passed on the
# driver, and how many of these could show nothing there.
tested() {
    what=$1
    program=$2
    shift 2
    export WAVETRAIN_TEST_DRIVER="$driver" WAVETRAIN_TEST_FOLDER="$work"
    for name in "$@"; do
        # Tests of metadata documents read them from the source tree, and concern no device.
        limited 1200 "$here/bin/$program" --show-output --skip documents_ "$name" \
            > "$work/test" 2>&1
        code=$?
        # A test that runs in a process of its own shows the result of that before.
        result=$(sed -n 's/^test result: //p' "$work/test" | tail -n 1)
        if test $code -ne 0; then
            case $result in FAILED*) ;; *) result="status $code" ;; esac
            fact "$what ${name%::}" "$result"
            sed -n '/^failures:$/,$p' "$work/test" | grep -A3 '^---- ' | head -n 20 >&2
            return 1
        fi
        simulated=$(grep -c '^skipped: .* only the simulated driver' "$work/test")
        holding=$(grep -c '^skipped: it holds a stream' "$work/test")
        test "$simulated" -eq 0 || result="$result; $simulated of them need the simulated driver"
        test "$holding" -eq 0 || result="$result; $holding need a queue for each stream"
        fact "$what ${name%::}" "$result"
    done
}

identity() {
    # shellcheck disable=SC2086 # words
    tested "identity with the host:" test-formats \
        ${FILTER:-identity:: padding:: partial:: forms:: sparse:: zarr2:: extremes::}
}

# Every codec, with a device that decodes nothing, what gains, and all that it can.
decode() {
    tested "tests of" test-cuda codecs::blosc_chunks codecs::chunks_of codecs::a_broken crops::boxes
}

# Tests that hold a stream need a queue to the device for each stream: 32 is the most there are.
consumer() (
    export CUDA_DEVICE_MAX_CONNECTIONS=32
    tested "tests of" test-cuda consumer::
)

capture() (
    export CUDA_DEVICE_MAX_CONNECTIONS=32
    tested "tests of" test-cuda streams::
)

faults() {
    if test -z "$small"; then
        tested "tests of" test-faults stress:: sweep::files_of_a_hook sweep::threads
    else
        export WAVETRAIN_STRESS_CASES=20
        tested "tests of" test-faults stress:: sweep::absent
    fi
}

# The scenarios, end to end, on stores that are made first.
stream() {
    gpu data && gpu stream
}

# The training loop, on the array of a scenario.
train() {
    array=$data/default-0
    if ! test -f "$array/zarr.json"; then
        echo "skipped: no $array"
        return 77
    fi
    sizes="batches=200 batch=16 edge=128 rounds=40"
    test -z "$small" || sizes="batches=4 batch=2 edge=8 rounds=1 blocks=2"
    for release in event export; do
        # shellcheck disable=SC2086 # words
        "$here/bin/train_cuda" "$array" $sizes verify=1 "release=$release" "driver=$driver" \
            > "$work/train" || {
            code=$?
            cat "$work/train"
            return $code
        }
        while read -r line; do
            fact "train_cuda, release=$release" "$line"
        done < "$work/train"
    done
}

# What a trainer does with batches, where it shares the device or its queue.
sharing() {
    tested "tests of" test-cuda consumer:: streams:: && faults || return 1
    test ! -f "$data/default-0/zarr.json" || train
}

# All of a process's streams in one queue to the device.
queue() (
    export CUDA_DEVICE_MAX_CONNECTIONS=1
    where="one queue: "
    sharing
)

# As clients of an MPS server, by a daemon of our own.
mps() (
    command -v "$mps_control" > /dev/null || {
        echo "skipped: there is no $mps_control"
        exit 77
    }
    export CUDA_MPS_PIPE_DIRECTORY="$work/mps" CUDA_MPS_LOG_DIRECTORY="$work/mps-log"
    mkdir "$work/mps" "$work/mps-log"
    unset CUDA_DEVICE_MAX_CONNECTIONS
    if ! limited 60 "$mps_control" -d > "$work/mps-said" 2>&1; then
        echo "skipped: $mps_control does not start: $(tail -n 1 "$work/mps-said")"
        exit 77
    fi
    # The first client makes the daemon start a server.
    limited 60 "$here/bin/gpu" device --driver "$driver" > "$work/mps-said" 2>&1
    code=$?
    servers=$(echo get_server_list | limited 60 "$mps_control" 2> /dev/null)
    reason=
    test -n "$servers" || reason="its daemon started no server"
    test $code -eq 0 || reason=$(tail -n 1 "$work/mps-said")
    if test -n "$reason"; then
        echo "skipped: MPS serves nobody here: $reason"
        exit 77
    fi
    where="under MPS: "
    sharing
)

# Ends the daemon that mps started, if it did; by force where a client keeps it.
stop_mps() {
    test -d "$work/mps" || return 0
    (
        export CUDA_MPS_PIPE_DIRECTORY="$work/mps"
        echo quit | limited 30 "$mps_control"
        test ! -s "$work/mps/$mps_control.pid" || kill "$(cat "$work/mps/$mps_control.pid")"
    ) > /dev/null 2>&1
    rm -rf "$work/mps" "$work/mps-log"
}

# A program under NVIDIA's checker. The packed one has to be told where its libraries are.
checked() {
    if test "$checker" = "$here/sanitizer/bin/compute-sanitizer"; then
        "$checker" --injection-path "$here/sanitizer/lib" "$@"
    else
        "$checker" "$@"
    fi
}

# NVIDIA's checks of memory and of races, on random work and on one test program. What counts is what
# the checker and the program say: the packed checker does not know how the program ended.
sanitizer() {
    # That of the machine fits its driver better.
    set -- "$(command -v compute-sanitizer)" /usr/local/cuda/bin/compute-sanitizer \
        "$here/sanitizer/bin/compute-sanitizer"
    test -z "${CHECKER:-}" || set -- "$CHECKER"
    found=
    reason="there is no compute-sanitizer"
    for checker in "$@"; do
        test -x "$checker" || continue
        checked /bin/echo started > "$work/check" 2>&1
        if grep -q '^started$' "$work/check"; then
            found=1
            break
        fi
        reason="$checker starts no program here: $(tail -n 1 "$work/check")"
    done
    if test -z "$found"; then
        echo "skipped: $reason"
        return 77
    fi
    export WAVETRAIN_TEST_DRIVER="$driver" WAVETRAIN_TEST_FOLDER="$work"
    failures=0
    for check in "memcheck ERROR SUMMARY: 0 errors" "racecheck RACECHECK SUMMARY: 0 hazards"; do
        for program in "gpu units --small --driver $driver" "test-formats padding:: --test-threads=1"; do
            check_name="compute-sanitizer ${check%% *}, ${program%% *}"
            passed='^test result: ok'
            test "${program%% *}" != gpu || passed="^units: random cases, the host's bytes"
            # shellcheck disable=SC2086 # words
            checked --tool "${check%% *}" --error-exitcode 99 "$here"/bin/$program \
                > "$work/check" 2>&1
            if grep -q "= ${check#* }" "$work/check" && grep -q "$passed" "$work/check"; then
                fact "$check_name" "$(sed -n 's/^=* \(.*SUMMARY.*\)/\1/p' "$work/check" | tail -n 1)"
            elif grep -q 'Device not supported' "$work/check"; then
                fact "$check_name" "skipped: it does not support the device"
            elif test -n "${DRIVER:-}" && grep -q 'before first instrumented' "$work/check" &&
                grep -q "$passed" "$work/check"; then
                fact "$check_name" "skipped: it sees no call of $driver"
            else
                fact "$check_name" \
                    "FAILED: $(grep -v '^test .* ok$' "$work/check" | tail -n 4 | tr '\n' ' ')"
                failures=$((failures + 1))
            fi
        done
    done
    test $failures -eq 0 || echo "$failures of 4 checks are not clean" >&2
    return $((failures != 0))
}

fact "wavetrain" "$(cat "$here/version.txt")"
for name in $parts; do
    case $name in
    device | units | rates | overlap) part "$name" gpu "$name" ;;
    identity | decode | stream | train | consumer | capture | faults | queue | mps | sanitizer)
        # Without a device these would say so many times.
        "$here/bin/gpu" device --driver "$driver" > "$work/device" 2>&1
        if test $? -eq 77; then
            fact "$name" "$(tail -n 1 "$work/device")"
        else
            part "$name" "$name"
            stop_mps
        fi
        ;;
    *) fact "$name" "skipped: there is no such part" ;;
    esac
done
exit $status
