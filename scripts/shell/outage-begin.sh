#!/bin/sh
# A shell of its own session carries out a script beside the next step, and says in the end how it went.
# $1: the script.
# shellcheck disable=SC2016 # the inner shell expands this

setsid sh -c 'sh -ec "$1"; echo "exit $?"' sh "$1" > /run/outage 2>&1 &
