#!/bin/sh
# Waits until the clients on all machines are here. Run with -e; descriptors 8 and 9 lead to who opens the barrier.
# Arguments: the host of each client, for whoever reads the job.
# shellcheck disable=SC2034 # what is read only says that it goes on

echo waiting >&8
read -r go <&9
echo "began $(date +%s%N)" >&8
