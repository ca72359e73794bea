#!/bin/sh
# engines.sh [FOLDER]: installs engines into an environment of its own, and runs the tests of
# wavetrain.engines there on each of them. Exit status 0: all pass; 77: there is no way to install.
#
# In: python3 of 3.10 or later with venv, a network for pip, tools/archive.sh and cc, or
# WAVETRAIN_LIBRARY, a library that was made before. mpirun and java are used if they are there
# (Debian: openmpi-bin libopenmpi-dev default-jre-headless). FOLDER keeps the environment, of some
# 3 GB, for the next time; without it a new one is made, and removed.
#
# ENGINES names the packages, so that ENGINES="dask[array,distributed]" tries one alone. Legate is
# another 3 GB: ENGINES="legate nvidia-cupynumeric nvidia-cuda-runtime" runs legate_real.py on it, on
# CPUs. Its wheel links the driver of CUDA, so a machine without one gets no_cuda.c in its place.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
engines=${ENGINES:-dask[array,distributed] mpi4py ray[data,train] pyspark torch}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=${1:-$work/venv}

if ! test -x "$folder/bin/python"; then
    python3 -m venv "$folder" || { echo "skipped: python3 has no venv" >&2; exit 77; }
fi
# Words of the list are packages, each of its own.
set -f
# shellcheck disable=SC2086
"$folder/bin/pip" install --quiet cloudpickle hypothesis 'numpy>=2.1' prometheus-client pyarrow \
    pytest zarr $engines || { echo "skipped: pip gave no packages" >&2; exit 77; }
set +f

if test -z "${WAVETRAIN_LIBRARY:-}"; then
    "$root/tools/archive.sh" "$work/archive"
    WAVETRAIN_LIBRARY=$work/archive/libwavetrain.so.0
    cc -shared -Wl,--whole-archive "$work/archive/libwavetrain.a" -Wl,--no-whole-archive \
        -o "$WAVETRAIN_LIBRARY" -Wl,-soname,libwavetrain.so.0 -Wl,-z,defs -Wl,-z,now \
        -lm -lpthread -ldl
fi
cd "$work"
export WAVETRAIN_LIBRARY PYTHONPATH="$root/python" PATH="$folder/bin:$PATH"

has_legate=false
case " $engines " in *" legate "*) has_legate=true ;; esac
if $has_legate; then
    packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    path=$packages/nvidia/cu13/lib
    "$folder/bin/python" -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>/dev/null || {
        # The runtime of CUDA alone: Legate opens libcufile, which torch installs, if it finds it,
        # and without a driver that call does not return.
        path=$work/no_cuda
        mkdir "$path"
        ln -s "$packages"/nvidia/cu13/lib/libcudart.so* "$path"
        cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$path/libcuda.so.1" "$root/tools/no_cuda.c"
    }
    path=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH="$path" LEGATE_CONFIG='--cpus 2 --gpus 0 --sysmem 1000'
fi

"$folder/bin/python" -X dev -m pytest -q -rs -p no:cacheprovider "$root"/tests/python/test_engines*.py
if $has_legate; then
    mkdir "$work/arrays"
    "$folder/bin/python" "$root/tests/python/legate_real.py" "$work/arrays"
fi
