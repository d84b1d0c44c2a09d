#!/bin/sh
# Build QEMU with our patches; leave it, its firmware and its licence in out. Run in /build of a root of the lock's
# packages (scripts/reprofs/guest/inside.py), beside the files of Debian's source package (.orig., .debian.) and of
# scripts/guest/qemu. What is built is a static program: it needs no library of any machine.
# --enable-tpm: Debian's QEMU has it, and without it the firmware sees a file less: the guest starts some nanoseconds later.
# The devices are those that the lab's guest has; each further one would only be compiled.
set -eu
mkdir /source
cd /source
tar --extract --strip-components=1 --file="$(echo /build/*.orig.tar.*)"
tar --extract --file="$(echo /build/*.debian.tar.*)"
cp /build/windows.c accel/tcg/tcg-accel-ops-windows.c
cp /build/tcg-accel-ops-windows.h accel/tcg
for device in I440FX NVDIMM PVPANIC_ISA HPET VMPORT VMMOUSE; do
    echo "CONFIG_$device=y"
done > configs/devices/x86_64-softmmu/reprofs.mak
grep -v '^#' debian/patches/series | while read -r name; do patch --strip=1 --silent < "debian/patches/$name"; done
while read -r name || [ -n "$name" ]; do patch --strip=1 < "/build/$name.patch"; done < /build/patches
mkdir build
cd build
../configure --target-list=x86_64-softmmu --without-default-features --enable-tcg --enable-tpm --static --disable-pie \
    --without-default-devices --with-devices-x86_64=reprofs --disable-docs --disable-install-blobs --disable-werror \
    --disable-qom-cast-debug --cc=gcc --host-cc=gcc
ninja -j"$(nproc)" qemu-system-x86_64
strip -o /build/out/qemu-system-x86_64 qemu-system-x86_64
cp ../COPYING /usr/share/seabios/bios-256k.bin /usr/share/qemu/kvmvapic.bin /usr/share/qemu/linuxboot_dma.bin /build/out
