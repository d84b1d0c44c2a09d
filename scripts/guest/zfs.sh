#!/bin/sh
# Compile OpenZFS for the kernel whose headers are there; leave the modules in out. Run in /build of a root of the lock's
# packages (scripts/reprofs/guest/inside.py). It does what dkms would do with the package zfs-dkms, but without debugging
# information: that takes time and changes no code.
set -eu
rm -f /usr/src/linux-headers-*/vmlinux # type information for modules is made from debugging information
headers=$(echo /lib/modules/*/build)
cd /usr/src/zfs-[0-9]*
export KCFLAGS=-g0
./configure --disable-dependency-tracking --with-config=kernel \
    --with-linux="${headers%build}source" --with-linux-obj="$headers"
make -j"$(nproc)" -C module
strip --strip-debug -o /build/out/spl.ko module/spl.ko
strip --strip-debug -o /build/out/zfs.ko module/zfs.ko
