#!/bin/sh
# What the queues at both ends of the cables counted. Run with -e. Arguments: names of hosts.

for name; do
    echo "$name, its end:"; tc -n "$name" -s qdisc show dev eth0
    echo "$name, end of the switch:"; tc -s qdisc show dev "v$name"
done
