#!/bin/sh
# The ends of logs, those that are not empty. Arguments: files.

for file; do
    if [ -s "$file" ]; then echo "$file:"; tail -n 12 "$file"; fi
done
