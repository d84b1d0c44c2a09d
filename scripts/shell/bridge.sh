#!/bin/sh
# The switch between hosts, and their names. Run with -e. $1: MTU; then address and name of every host.
# No IPv6: its neighbour discovery would send packets now and then.

mtu=$1; shift
mkdir -p /run/hosts /run/netns
mount --make-rshared /
mount --bind /run/hosts /run/hosts
mount --make-private /run/hosts
echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6
ip link add br0 address 02:00:00:00:00:00 mtu "$mtu" type bridge stp_state 0 mcast_snooping 0
ip link set br0 up
echo 'hosts: files' > /etc/nsswitch.conf
echo '127.0.0.1 localhost' > /etc/hosts
printf '%s %s\n' "$@" >> /etc/hosts
# What daemons send to syslog. Only in guests, which have this busybox: the /dev/log of a machine is its own.
[ ! -x /run/busybox ] || /run/busybox syslogd -S -s 0 -O /run/syslog
