#!/bin/sh
# cuda_sim.sh OUT_DIR: builds the simulated CUDA driver, OUT_DIR/libcuda.so.1, which takes a processor
# for a GPU: slow, and with the bytes that a GPU gives. The tool streams on it anywhere:
#
#   wavetrain crop --backend cuda --device 0 --cuda-driver OUT_DIR/libcuda.so.1 ..
#
# In: tests/cuda_sim, kernels, and g++ or what CXX names. Exit status 77: there is no such compiler.
# Tests build their other programs by it too: cuda_sim.sh OUT_DIR SOURCE NAME [FLAG..].
set -eu

test $# -eq 1 || test $# -ge 3 || {
    sed -n '2,8p' "$0" >&2
    exit 2
}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
compiler=${CXX:-g++}
command -v "$compiler" > /dev/null || {
    echo "cuda_sim.sh: there is no $compiler here: install it, or name a C++ compiler by CXX" >&2
    exit 77
}
test $# -ge 3 ||
    set -- "$1" driver.cpp libcuda.so.1 -O2 -shared -fPIC -fvisibility=hidden
out=$1 source=$2 name=$3
shift 3
mkdir -p "$out"
# It appears whole or not at all: others may look for it meanwhile.
unfinished=$out/building-$name-$$
trap 'rm -f "$unfinished"' EXIT
# Records are read as words and as fields, so types may share memory. A GPU contracts no product and
# sum that a kernel has not asked it to.
"$compiler" -std=c++17 -g -Wall -Wextra -Werror -Wno-unknown-pragmas -fno-strict-aliasing \
    -ffp-contract=off -U_FORTIFY_SOURCE -pthread "$@" "$root/tests/cuda_sim/$source" -o "$unfinished"
mv "$unfinished" "$out/$name"
