#!/bin/sh
# Runs a job in the host lab's own view of the machine: the disks by number, and what the stack's commands need.
# $1: the trial's folder, $2: the engine; then the disks.

mount -t tmpfs -o mode=755 reprofs /run/reprofs || exit 1
place=$1 engine=$2
shift 2
i=0
for disk; do
    ln -s "$disk" /run/reprofs/disk$i
    i=$((i + 1))
done
"$engine" run "$place/job"
code=$?
echo "engine ended: $code" >&2
exit $code
