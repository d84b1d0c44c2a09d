#!/bin/sh
# shellcheck disable=SC2154 # whoever runs it exports seed
# Makes two sets of nodes deaf to each other, or lets them hear each other again. Run with -e.
# $1: cut or mend; then pairs of sets, of which the number $seed chooses one: NAME=ADDRESS,...:NAME=ADDRESS,...
# What a node sends to one of the other side goes to an address that no card has. So it is lost without a word, as in a
# cut cable, while each still reaches all others.

what=$1; shift
shift $((seed % $#))
echo "nodes $1"
IFS=,
for one in ${1%:*}; do
    for other in ${1#*:}; do
        for way in "${one%=*} ${other#*=}" "${other%=*} ${one#*=}"; do
            if [ "$what" = cut ]; then
                ip -n "${way% *}" neigh replace "${way#* }" lladdr 02:00:00:00:ff:ff dev eth0 nud permanent
            else
                ip -n "${way% *}" neigh del "${way#* }" dev eth0
            fi
        done
    done
done
