#!/bin/sh
# Runs the job of a client on its machine. Exit codes: 9 if it does not see the folder that all clients share, 8 if a
# command is missing. $1: PATH, $2: that folder, $3: number of the client, $4: the same, or nothing for a single one; then
# commands that the job needs.

PATH=$1
cd "$2" || exit 9
own=$(mktemp -d) || exit 9
trap 'rm -rf "$own"' EXIT
cp -r engine programs "job.$3" "$own" || exit 9
number=$3 client=$4
shift 4
for tool; do command -v "$tool" > /dev/null || { echo "$tool" >&2; exit 8; }; done
umask 022
env -i PATH="$PATH" HOME="$own" LANG=C.UTF-8 ${client:+"REPROFS_CLIENT=$client"} \
    "$own/engine" run "$own/job.$number" 8>&1 9<&0
