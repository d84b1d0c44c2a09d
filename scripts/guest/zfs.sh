#!/bin/sh
# Compile OpenZFS in an unpacked tree ($1) for the kernel whose headers are in it; leave the modules in the tree's /modules.
# mmdebstrap runs this as its extract hook, as root or as the root of a user namespace. It does what dkms would do with the
# package zfs-dkms, but without debugging information: that takes time and changes no code.
set -eu
cd "$1"
mkdir modules
for deb in var/cache/apt/archives/*.deb; do
    # shellcheck disable=SC2016 # dpkg-deb expands this, not the shell
    dpkg-deb --show --showformat='${Package}=${Version}\n' "$deb"
done | LC_ALL=C sort > modules/packages.lock
ln -s mawk usr/bin/awk
chroot . ldconfig
rm usr/src/linux-headers-*/vmlinux # type information for modules is made from debugging information
# shellcheck disable=SC2016 # the shell in the tree expands this
chroot . sh -euc '
    exec >&2 # standard output is the archive
    headers=$(echo /lib/modules/*/build)
    cd /usr/src/zfs-[0-9]*
    export KCFLAGS=-g0
    echo "I: running configure, which compiles questions to the kernel"
    ./configure --disable-dependency-tracking --with-config=kernel \
        --with-linux="${headers%build}source" --with-linux-obj="$headers"
    echo "I: running the compiler"
    make -j"$(nproc)" -C module
    strip --strip-debug -o /modules/spl.ko module/spl.ko
    strip --strip-debug -o /modules/zfs.ko module/zfs.ko
'
# Of all this only the modules are kept: the less is packed, the better. What is in tmp is mmdebstrap's, which needs it.
rm -rf usr/src
