#!/bin/sh
# Compile crashdisk.c for the kernel whose headers are there; leave the module in out. Run in /build of a root of the lock's
# packages (scripts/reprofs/guest/inside.py). The compiler is ours, whichever the kernel was compiled by.
set -eu
rm -f /usr/src/linux-headers-*/vmlinux # type information for modules is made from debugging information
rm -f /usr/src/linux-headers-*/.kernelvariables # Debian's choice of a compiler
mkdir -p /module /proc/self
echo '7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 [stack]' > /proc/self/maps # objtool asks for it, and there is no /proc
mv crashdisk*.[ch] /module
echo 'obj-m := crashdisk.o' > /module/Makefile
make -s -C /lib/modules/*/build M=/module KCFLAGS="-g0 -std=gnu11 -Wno-declaration-after-statement" modules
strip --strip-debug -o out/crashdisk.ko /module/crashdisk.ko
