#!/bin/sh
# Compile modeldisk.c, which is in $SOURCE, in an unpacked tree ($1) for the kernel whose headers are in it; leave the module in the
# tree's /modules. mmdebstrap runs this as its extract hook, as root or as the root of a user namespace.
set -eu
cd "$1"
mkdir modules module
for deb in var/cache/apt/archives/*.deb; do
    # shellcheck disable=SC2016 # dpkg-deb expands this, not the shell
    dpkg-deb --show --showformat='${Package}=${Version}\n' "$deb"
done | LC_ALL=C sort > modules/packages.lock
ln -s mawk usr/bin/awk
chroot . ldconfig
rm usr/src/linux-headers-*/vmlinux # type information for modules is made from debugging information
printf '%s' "$SOURCE" > module/modeldisk.c
echo 'obj-m := modeldisk.o' > module/Makefile
# shellcheck disable=SC2016 # the shell in the tree expands this
chroot . sh -euc '
    exec >&2 # standard output is the archive
    echo "I: running the compiler"
    make -s -C /lib/modules/*/build M=/module KCFLAGS="-g0 -Wno-declaration-after-statement" modules
    strip --strip-debug -o /modules/modeldisk.ko /module/modeldisk.ko
'
# Of all this only the module is kept: the less is packed, the better.
rm -rf usr/src module
