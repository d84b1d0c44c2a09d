#!/bin/sh
# What is still there of hosts: their processes, then their names. Run with -e. Arguments: names of hosts.
# shellcheck disable=SC2086 # names are plain words

for name; do
    ip netns pids "$name" | while read -r process; do kill -9 "$process"; done
    if [ -e /run/hosts/$name.mnt ]; then umount /run/hosts/$name.mnt; fi
    ip link del "v$name"
    rm /run/netns/$name
    umount /run/hosts/$name.net /run/hosts/$name.uts
done
ip link del br0
umount /run/hosts
rm -r /run/hosts
