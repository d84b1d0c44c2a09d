#!/bin/sh
# Sends a signal to all processes of a node. Run with -e. $1: signal, $2: a number; then names, of which it chooses one.

signal=$1 number=$2; shift 2
shift $((number % $#))
echo "nodes $1"
ip netns pids "$1" | xargs -r kill "-$signal"
