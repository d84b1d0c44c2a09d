#!/bin/sh
# With hosts, before lab-host.sh: a network of its own, and folders into which daemons may write. What they write stays in
# memory, over what this machine has there, mounted there included. Sources: overlayfs.rst of Linux, namespaces(7).

mount -t tmpfs -o mode=755 reprofs /run || exit 1
mkdir /run/reprofs /run/machine /run/own
mount --rbind / /run/machine || exit 1
mounted=$(awk '$5 ~ "^/(etc|root|usr|var)/" && !index($5, "\\") {print $5}' /proc/self/mountinfo)
for folder in /etc /root /usr /var $mounted; do
    own=$(mktemp -d -p /run/own)
    mkdir "$own/upper" "$own/work"
    [ ! -d "$folder" ] || mount -t overlay \
        -o "lowerdir=/run/machine$folder,upperdir=$own/upper,workdir=$own/work" own "$folder" || exit 1
done
if [ -L /var/run ]; then rm /var/run && mkdir /var/run; fi
mount --bind /sys/kernel/mm /sys/kernel/mm && mount -o remount,bind,ro /sys/kernel/mm || exit 1
ip link set lo up
