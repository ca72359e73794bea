#!/bin/sh
# gpu.sh pack DIR: makes a folder that shows, on a machine with a GPU and nothing else, that the CUDA
# backend gives the host's bytes, and how fast it is.
#
# In: this tree and its toolchain (cargo, gcc, g++; python3 with pip for compute-sanitizer). Out: DIR
# with programs that need libc alone, of this machine's version or later, and run.sh. Carry DIR there:
#
#   DIR/run.sh              prints one table, a line for each figure; what cannot be done there is
#                           skipped with a reason. Exit status 1: some bytes were wrong.
#
# Its parts: device (what is there), identity (streams of every format), decode (chunks of every codec,
# decoded there and by workers), units (the kernel by itself), rates, overlap, stream (scenarios end to
# end), train (an example's loop), consumer (batches that are worked on while they are given back),
# capture (a trainer that captures graphs or works on default streams), faults (reads and threads that
# fail, and streams that chance decides, with batches on the device), queue (these three and train with
# CUDA_DEVICE_MAX_CONNECTIONS=1, so that all streams share one queue), mps (the same as clients of an
# MPS server, which run.sh starts and stops), sanitizer.
# A row of tests says how many need the simulated driver: they make it fail, or look into it. Tests
# that hold a stream while others go on need a queue for each, and are left out of queue and mps.
#
# run.sh takes from its environment:
#
#   DRIVER=libcuda.so.1     the driver; with the library of tests/cuda_sim it is a dry run
#   SMALL=                  1 shrinks everything, for such a dry run; its rates mean nothing
#   DATA=DIR/data           where stores are written: 14 GB
#   PARTS="device identity .."  some parts, instead of all
#   FILTER=                 words of test names: the tests of identity, instead of all, a row each
#   CHECKER=                a compute-sanitizer instead of the machine's own or, else, the packed one
#
# pack takes PROFILE=release (dev builds faster), SANITIZER=1 (0 leaves compute-sanitizer out: 26 MB).
set -eu

fail() {
    echo "gpu.sh: $*" >&2
    exit 1
}

test $# -eq 2 && test "$1" = pack || {
    sed -n '2,30p' "$0" >&2
    exit 2
}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
mkdir -p "$2"
out=$(CDPATH='' cd -- "$2" && pwd)
cargo=${CARGO:-cargo}
profile=${PROFILE:-release}
cd "$root"
target=${CARGO_TARGET_DIR:-$root/target}

# executable NAME: what cargo says on stderr that it made of it.
executable() {
    sed -n "s|.*Executable .*$1.*(\(.*\))$|\1|p" "$out/build.log" | tail -n 1
}

# The tests that stream on the driver of WAVETRAIN_TEST_DRIVER, by tests/common/drive.rs and platform.rs.
"$cargo" test --profile "$profile" --no-run --test formats --test cuda --test faults \
    2> "$out/build.log" || fail "$(cat "$out/build.log")"
mkdir -p "$out/bin"
for name in formats cuda faults; do
    program=$(executable "tests/$name/main.rs")
    test -n "$program" || fail "cargo does not say where it put the tests"
    cp "$program" "$out/bin/test-$name"
done
"$cargo" bench --profile "$profile" --no-run --bench gpu 2> "$out/build.log" || fail "$(cat "$out/build.log")"
cp "$(executable benches/gpu)" "$out/bin/gpu"
tools/archive.sh "$out/archive" > "$out/build.log"
"${CXX:-c++}" -std=c++17 -O2 -static-libstdc++ -static-libgcc -I"$out/archive" \
    examples/train_cuda.cpp "$out/archive/libwavetrain.a" -lpthread -ldl -o "$out/bin/train_cuda"
rm -r "$out/archive" "$out/build.log"
strip "$out"/bin/* 2> /dev/null || true

# NVIDIA's own checker, as its PyPI package carries it.
if test "${SANITIZER:-1}" = 1; then
    rm -rf "$out/sanitizer" "$target/sanitizer"
    mkdir -p "$target/sanitizer"
    if python3 -m pip download --quiet --no-deps --only-binary=:all: \
        --dest "$target/sanitizer" nvidia-cuda-sanitizer-api-cu12 2> "$out/sanitizer.txt"; then
        python3 -m zipfile -e "$target"/sanitizer/*.whl "$target/sanitizer/wheel"
        mkdir "$out/sanitizer"
        cp -r "$target/sanitizer/wheel/nvidia/cuda_sanitizer_api/bin" \
            "$target/sanitizer/wheel/nvidia/cuda_sanitizer_api/lib" "$out/sanitizer"
        chmod +x "$out/sanitizer/bin/compute-sanitizer"
        # A helper by which it starts programs, and which the package does not have.
        helper=$out/sanitizer/lib/TreeLauncherSubreaper
        test -e "$helper" || "${CC:-cc}" -O2 -static tools/subreaper.c -o "$helper"
        rm "$out/sanitizer.txt"
    else
        echo "compute-sanitizer is left out: $(tail -n 1 "$out/sanitizer.txt")"
    fi
fi
git describe --always --dirty > "$out/version.txt" 2> /dev/null || echo unknown > "$out/version.txt"
cp tools/gpu_run.sh "$out/run.sh"
chmod +x "$out/run.sh"
echo "$out: $(du -sm "$out" | cut -f1) MB"
