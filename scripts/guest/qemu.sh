#!/bin/sh
# Build QEMU with several exact processors in an unpacked tree ($1); leave it, its firmware and its licence in the tree's /qemu.
# mmdebstrap runs this as its extract hook, as root or as the root of a user namespace. WINDOWS, HEADER and PATCH are the
# texts of the files of scripts/guest/qemu. What is built is a static program: it needs no library of any machine.
# --enable-tpm: Debian's QEMU has it, and without it the firmware sees a file less: the guest starts some nanoseconds later.
# The devices are those that the lab's guest has; each further one would only be compiled.
set -eu
cd "$1"
mkdir qemu source
(cd source && APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get source --download-only qemu >&2)
for deb in var/cache/apt/archives/*.deb; do
    # shellcheck disable=SC2016 # dpkg-deb expands this, not the shell
    dpkg-deb --show --showformat='${Package}=${Version}\n' "$deb"
done | LC_ALL=C sort > qemu/packages.lock
sed -n 's/^Version: /qemu=/p' source/*.dsc >> qemu/packages.lock
sed -n '/^Checksums-Sha256/,/^[A-Z]/s/^ //p' source/*.dsc > qemu/source.sha256
cd source
sed 's/ [0-9]* /  /' ../qemu/source.sha256 | sha256sum --check --quiet >&2
tar --extract --strip-components=1 --file="$(echo qemu_*.orig.tar.*)"
tar --extract --file="$(echo qemu_*.debian.tar.*)"
cd ..
printf '%s' "$WINDOWS" > source/accel/tcg/tcg-accel-ops-windows.c
printf '%s' "$HEADER" > source/accel/tcg/tcg-accel-ops-windows.h
printf '%s' "$PATCH" > source/windows.patch
for device in I440FX NVDIMM PVPANIC_ISA HPET VMPORT VMMOUSE; do
    echo "CONFIG_$device=y"
done > source/configs/devices/x86_64-softmmu/reprofs.mak
ln -s gawk usr/bin/awk
chroot . ldconfig
# shellcheck disable=SC2016 # the shell in the tree expands this
chroot . sh -euc '
    exec >&2 # standard output is the archive
    export LC_ALL=C.UTF-8 HOME=/tmp
    cd /source
    grep -v "^#" debian/patches/series | while read -r name; do patch --strip=1 --silent < "debian/patches/$name"; done
    patch --strip=1 < windows.patch
    mkdir build
    cd build
    echo "I: running configure"
    ../configure --target-list=x86_64-softmmu --without-default-features --enable-tcg --enable-tpm --static --disable-pie \
        --without-default-devices --with-devices-x86_64=reprofs --disable-docs --disable-install-blobs --disable-werror --cc=gcc --host-cc=gcc
    echo "I: running the compiler"
    ninja -j"$(nproc)" qemu-system-x86_64
    strip -o /qemu/qemu-system-x86_64 qemu-system-x86_64
    cp ../COPYING /qemu
    cp /usr/share/seabios/bios-256k.bin /usr/share/qemu/kvmvapic.bin /usr/share/qemu/linuxboot_dma.bin /qemu
'
rm -rf source
