#!/bin/sh
# Repeats a command until its output matches. Run with -e. $1: expression, $2: seconds; then the command.

expect=$1 limit=$2; shift 2
read -r start rest < /proc/uptime
until said=$("$@" 2>&1) && printf '%s\n' "$said" | grep -Eq -e "$expect"; do
    read -r now rest < /proc/uptime
    if [ $((${now%.*} - ${start%.*})) -gt "$limit" ]; then
        printf '%s\n' "$said"
        echo "it did not say '$expect' within $limit s; the ends of the logs are in the record, stage logs"
        exit 1
    fi
    sleep 0.1
done
printf '%s\n' "$said"
