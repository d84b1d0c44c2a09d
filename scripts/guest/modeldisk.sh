#!/bin/sh
# Compile modeldisk.c for the kernel whose headers are there; leave the module in out. Run in /build of a root of the lock's
# packages (scripts/reprofs/guest/inside.py).
set -eu
rm -f /usr/src/linux-headers-*/vmlinux # type information for modules is made from debugging information
mkdir /module
mv modeldisk*.[ch] /module
echo 'obj-m := modeldisk.o' > /module/Makefile
make -s -C /lib/modules/*/build M=/module KCFLAGS="-g0 -Wno-declaration-after-statement" modules
strip --strip-debug -o out/modeldisk.ko /module/modeldisk.ko
