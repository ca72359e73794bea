#!/bin/sh
# ptx.sh [--check | --asm]: makes kernels/*.ptx.z from kernels/*.cu: PTX in zlib's format. The texts are
# the same everywhere, byte for byte, and left in TARGET/ptx/*.ptx for whoever reads them.
#
#   (nothing)  writes kernels/*.ptx.z where its text is another
#   --check    writes nothing there; exit status 1 where a committed text is stale
#   --asm      like --check, and leaves the machine code of each GPU in TARGET/ptx/*.sm_NN.sass
#
# In: the kernels; NVRTC 12.0.140 and ptxas 12.9.86, which it fetches from PyPI by their hashes into
# TARGET/ptx-venv (64 MB, once). No CUDA installation and no GPU is needed. Out: PTX for compute_80
# in ISA 8.0, which any driver from R525 takes; each is assembled for sm_80 to sm_120. A line for each
# says what it takes. More than 32 bytes of spilled registers are an error (find_row, which is rare,
# spills as many on sm_120; zstd may 64, where a block's tables are made; the others none). Exit status 77: no compiler to be had.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
target=${CARGO_TARGET_DIR:-$root/target}
mode=${1:-write}
case $mode in write | --check | --asm) ;; *) sed -n '2,8p' "$0" >&2; exit 2 ;; esac

venv=$target/ptx-venv
out=$target/ptx
mkdir -p "$out"
cat > "$out/requirements.txt" << 'END'
nvidia-cuda-nvrtc-cu12==12.0.140 --hash=sha256:8e94e991d85c422de4da87bdc7472fdc1364367bd4aace7000b559cd33122071
nvidia-cuda-nvcc-cu12==12.9.86 --hash=sha256:5d6a0d32fdc7ea39917c20065614ae93add6f577d840233237ff08e9a38f58f0
zopfli==0.4.3 --hash=sha256:769875152d0625c46707bcca57d4b2233fe653482067acd55fbf6ec525cb9bdc
END
if ! cmp -s "$out/requirements.txt" "$venv/complete"; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --no-deps --require-hashes -r "$out/requirements.txt" || {
    echo "skipped: the compilers cannot be fetched here" >&2
    exit 77
  }
  cp "$out/requirements.txt" "$venv/complete"
fi
packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/nvidia
ptxas=$packages/cuda_nvcc/bin/ptxas
# Only --asm needs it, and it is not pinned: it changes nothing that is committed.
if test "$mode" = --asm && ! test -f "$venv/cuobjdump"; then
  "$venv/bin/pip" install --quiet --no-deps nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm
  find "$venv" -name cuobjdump -type f -perm -u+x > "$venv/cuobjdump"
fi

# An eighth smaller than zlib packs at its best.
pack() {
  "$venv/bin/python" -c 'import sys, zopfli.zlib as packer
sys.stdout.buffer.write(packer.compress(open(sys.argv[1], "rb").read(), numiterations=50))' "$1"
}
unpack() {
  test ! -f "$1" ||
    python3 -c 'import sys, zlib; sys.stdout.buffer.write(zlib.decompress(open(sys.argv[1], "rb").read()))' "$1"
}

stale=0
for source in kernels/*.cu; do
  name=$(basename "$source" .cu)
  "$venv/bin/python" tools/nvrtc.py "$packages/cuda_nvrtc/lib/libnvrtc.so.12" "$source" "$out/$name.ptx"
  for arch in 80 86 89 90 100 120; do
    "$ptxas" --verbose -arch=sm_$arch "$out/$name.ptx" -o "$out/$name.sm_$arch.cubin" \
      2> "$out/$name.sm_$arch.log" || { cat "$out/$name.sm_$arch.log" >&2; exit 1; }
    # A kernel that calls functions keeps registers of its own on a stack meanwhile.
    most=32
    test "$name" != zstd || most=64
    if awk -v most=$most '/bytes stack frame/ && ($1 > most || $5 > most) { print; found = 1 }
      END { exit !found }' "$out/$name.sm_$arch.log" >&2; then
      echo "$source: registers spill, or a stack is used, on sm_$arch" >&2
      exit 1
    fi
    printf '%-10s sm_%-4s%s\n' "$name" "$arch" \
      "$(sed -n 's/^ptxas info *: Used/ /p' "$out/$name.sm_$arch.log" | tr '\n' ';')"
    if test "$mode" = --asm; then
      "$(head -1 "$venv/cuobjdump")" -sass "$out/$name.sm_$arch.cubin" > "$out/$name.sm_$arch.sass"
    fi
  done
  # Texts are compared, because every version of zlib packs in its own way.
  if unpack "kernels/$name.ptx.z" | cmp -s - "$out/$name.ptx"; then
    continue
  elif test "$mode" = write; then
    pack "$out/$name.ptx" > "kernels/$name.ptx.z"
  else
    echo "kernels/$name.ptx.z is stale: run tools/ptx.sh" >&2
    stale=1
  fi
done
exit $stale
