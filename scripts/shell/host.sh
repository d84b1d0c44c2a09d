#!/bin/sh
# A host and its cable. Run with -e.
# $1: name, $2: address, $3: number, $4: MTU, $5: tc's words or nothing, $6: folders of a server's own, - for a client.
# No segments larger than a frame: they would pass the switch as one.
# shellcheck disable=SC2016 # the inner shells expand this
# shellcheck disable=SC1007 # empty is meant
# shellcheck disable=SC2086 # names are plain words, tc's words and folders are several

name=$1 address=$2 mac=$(printf '02:00:00:00:%02x' "$3") mtu=$4 qdisc=$5 own=$6
touch /run/hosts/$name.net /run/hosts/$name.uts
if [ "$own" = - ]; then
    unshare --net=/run/hosts/$name.net --uts=/run/hosts/$name.uts sh -c 'echo "$1" > /proc/sys/kernel/hostname' sh "$name"
else
    [ -z "$own" ] || mkdir -p $own
    touch /run/hosts/$name.mnt
    # Linux 6.18 keeps a mount namespace only if its number is above that of the one it is kept in, and every processor
    # counts for itself: where that fails, another processor is tried.
    on= cpu=0
    until $on unshare --net=/run/hosts/$name.net --mount=/run/hosts/$name.mnt --uts=/run/hosts/$name.uts --propagation slave \
        sh -ec 'echo "$1" > /proc/sys/kernel/hostname; shift
            for folder; do mount -t tmpfs own "$folder"; done' sh "$name" $own
    do
        umount -q /run/hosts/$name.net /run/hosts/$name.uts || true
        [ -e /sys/devices/system/cpu/cpu$cpu ] || exit 1
        on="taskset -c $cpu" cpu=$((cpu + 1))
    done
fi
ln -s /run/hosts/$name.net /run/netns/$name
ip link add "v$name" address "$mac:01" mtu "$mtu" gso_max_segs 1 type veth \
    peer name eth0 address "$mac:02" mtu "$mtu" gso_max_segs 1 netns "$name"
ip link set "v$name" master br0 up
ip -n "$name" addr add "$address/24" dev eth0
ip -n "$name" link set lo up
ip -n "$name" link set eth0 up
if [ "$qdisc" ]; then
    tc -n "$name" qdisc add dev eth0 root $qdisc
    tc qdisc add dev "v$name" root $qdisc
fi
