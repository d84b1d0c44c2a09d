#!/bin/sh
# Runs a command to which the machine's apt is read only. Run with -e, in a mount namespace of its own.
# Arguments: the command.

for folder in /var/lib/apt /var/cache/apt; do
    [ -d "$folder" ] || continue
    mount --bind "$folder" "$folder"
    mount -o remount,bind,ro "$folder"
done
exec "$@"
