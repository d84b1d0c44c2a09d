#!/bin/sh
# Finish the unpacked guest tree ($1): mmdebstrap runs this as its extract hook, as root or as the root of a user namespace.
# It stands in for the few install scripts whose work the guest needs, and drops what no trial can use.
set -eu
root=$1

# The lock: exactly what was unpacked, one package=version a line.
# shellcheck disable=SC2016 # dpkg-deb expands this, not the shell
for deb in "$root"/var/cache/apt/archives/*.deb; do
    dpkg-deb --show --showformat='${Package}=${Version}\n' "$deb"
done | LC_ALL=C sort > "$root/packages.lock"

cd "$root"
rm -rf usr/share/doc usr/share/man usr/share/info usr/share/locale usr/share/lintian usr/share/bash-completion usr/share/zsh \
    usr/share/initramfs-tools usr/share/gitweb var/lib/systemd

# Hardware that the guest does not have.
cd usr/lib/modules/*
release=${PWD##*/}
(
    cd kernel
    rm -rf sound net/bluetooth net/mac80211 net/wireless
    cd drivers
    rm -rf bluetooth gpu hid hwmon iio infiniband input isdn leds media mfd mmc mtd platform power staging thunderbolt usb video
    cd net
    rm -rf can ethernet phy usb wireless wwan
)
cd "$root"

# Unpacking a module in the guest, or checking its signature there, would cost more instructions than the module itself.
find "usr/lib/modules/$release" -name '*.ko.xz' -exec chroot . xz -d {} +
# A signature is at the end of a file: data, 12 bytes whose last four are the size of the data, a line of text
# (scripts/sign-file.c of Linux).
# shellcheck disable=SC2016 # perl expands this, not the shell
find "usr/lib/modules/$release" -name '*.ko' -exec perl -e '
    for my $file (@ARGV) {
        open(my $module, "+<", $file) or die "$file: $!";
        seek($module, -32, 2);
        read($module, my $end, 32) == 32 or die "$file is cut";
        next if substr($end, 4) ne "~Module signature appended~\n";
        truncate($module, (-s $module) - 40 - unpack("N", $end)) or die "$file: $!";
    }' {} +
chroot . depmod "$release"
chroot . ldconfig

mkdir -p media mnt opt srv
cp usr/share/base-passwd/passwd.master etc/passwd
cp usr/share/base-passwd/group.master etc/group
ln -sf mawk usr/bin/awk
ln -sf /proc/self/mounts etc/mtab
echo reprofs > etc/hostname
printf '127.0.0.1 localhost reprofs\n' > etc/hosts
: > etc/fstab
rm -f etc/resolv.conf

# Without udev nobody else makes device nodes or answers lvm's questions about them.
cat > etc/lvm/lvmlocal.conf << 'END'
activation { udev_sync=0 udev_rules=0 verify_udev_operations=0 }
backup { backup=0 archive=0 }
devices { use_devicesfile=0 obtain_device_list_from_udev=0 external_device_info_source="none" types=["nullb", 16, "modeldisk", 16] }
global { event_activation=0 use_lvmpolld=0 }
END
# What the NFS server's install script would have made, and the user that rpcbind becomes.
mkdir -p var/lib/nfs/rpc_pipefs var/lib/nfs/v4recovery var/lib/nfs/sm var/lib/nfs/sm.bak
touch var/lib/nfs/etab var/lib/nfs/rmtab var/lib/nfs/state
echo '_rpc:x:100:65534::/run/rpcbind:/usr/sbin/nologin' >> etc/passwd
