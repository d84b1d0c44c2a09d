#!/bin/sh
# shellcheck disable=SC2154 # whoever runs it exports seed
# Sends a signal to all processes of a node. Run with -e. $1: signal; then names, of which the number $seed chooses one.

signal=$1; shift
shift $((seed % $#))
echo "nodes $1"
ip netns pids "$1" | xargs -r kill "-$signal"
