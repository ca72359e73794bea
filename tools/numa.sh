#!/bin/sh
# numa.sh: opens loaders on an emulated machine with NUMA nodes, and looks at where their memory and
# threads are (tools/numa.c). Exit status 0: each is where it was asked for; 1: not; 77: no tool for it.
#
# In: qemu-system-x86_64, musl-gcc and cpio (Debian: qemu-system-x86 musl-tools cpio), tools/archive.sh,
# and a kernel with NUMA: KERNEL names it, or the newest vmlinuz-*-cloud-amd64 in /boot is taken. One
# that is not installed will do, and boots nothing here:
#
#   apt-get download linux-image-6.1.0-NN-cloud-amd64
#   dpkg -x linux-image-*.deb kernel
#   KERNEL=$(ls kernel/boot/vmlinuz-*) tools/numa.sh
#
# ARCHIVE names a folder with an archive that was made before; ACCEL=kvm is faster, where it works. Takes
# 2 GiB of memory, and a minute or more.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
skip() {
    echo "skipped: $*" >&2
    exit 77
}
kernel=${KERNEL:-$(ls /boot/vmlinuz-*-cloud-amd64 2>/dev/null | sort -V | tail -n 1)}
test -r "$kernel" || skip "there is no kernel: set KERNEL to a vmlinuz"
for tool in qemu-system-x86_64 musl-gcc cpio; do
    command -v "$tool" >/dev/null 2>&1 || skip "there is no $tool here"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archive=${ARCHIVE:-$work/archive}
test -n "${ARCHIVE:-}" || "$root/tools/archive.sh" "$archive"
mkdir "$work/root"
musl-gcc -std=c11 -O1 -Wall -Wextra -Werror -static -I "$archive" "$root/tools/numa.c" \
    "$archive/libwavetrain.a" -lpthread -ldl -o "$work/root/init"
(cd "$work/root" && echo init | cpio --quiet -o -H newc | gzip -1) >"$work/initramfs"

memory=
for node in 0 1 2; do
    cpus=
    if test $node -lt 2; then cpus=,cpus=$((2 * node))-$((2 * node + 1)); fi
    memory="$memory -object memory-backend-ram,id=m$node,size=640M"
    memory="$memory -numa node,nodeid=$node,memdev=m$node$cpus"
done
# shellcheck disable=SC2086 # several words
timeout 900 qemu-system-x86_64 -accel "${ACCEL:-tcg}" -cpu max -smp 4 -m 1920M $memory \
    -kernel "$kernel" -initrd "$work/initramfs" -append "console=ttyS0 quiet panic=-1" \
    -nographic -no-reboot -nodefaults -serial stdio </dev/null | tr -d '\r' >"$work/output" || true
sed -n '/^numa: begins/,$p' "$work/output"
grep -qx 'numa: passed' "$work/output" && exit 0
grep -q '^numa: begins' "$work/output" || cat "$work/output"
exit 1
