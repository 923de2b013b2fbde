#!/bin/bash
# ptxas reports no spilled registers in the kernels of attention, on any architecture, but for at most 100 bytes, once a tile or block of
# keys, where V is up to 256 wide and products are of warpgroups; and that it sets no such products one behind the other.
#   no_spills.sh FOLDER
set -u
for unit in attend:4 attend_flow:16 attend_mma:24; do  # and how many kernels over all architectures
  report=$1/${unit%:*}.ptxas
  kernels=$(grep -c 'Function properties for quire_kernel_' "$report")
  [ "$kernels" -ge "${unit#*:}" ] || { echo "$report: $kernels kernels, at least ${unit#*:} are expected"; exit 1; }
  spills=$(grep -A1 'Function properties for quire_kernel_' "$report" | grep -v 'Compiling\|^--' | paste - - |
    grep -v ' 0 bytes spill stores, 0 bytes spill loads' | grep -vE 'flow_(bf|fp)16_256.*[ \t](100|[0-9]{1,2}) bytes spill stores')
  [ -z "$spills" ] || { echo "$report: $spills"; exit 1; }
  slow=$(grep 'serialized' "$report")
  [ -z "$slow" ] || { echo "$report: $slow"; exit 1; }
done
