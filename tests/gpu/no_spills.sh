#!/bin/bash
# ptxas reports no spilled registers in the kernels of attention, on any architecture.
#   no_spills.sh FOLDER
set -u
for unit in attend:4 attend_mma:24; do  # and how many kernels over all architectures
  report=$1/${unit%:*}.ptxas
  kernels=$(grep -c 'Function properties for quire_kernel_' "$report")
  [ "$kernels" -ge "${unit#*:}" ] || { echo "$report: $kernels kernels, at least ${unit#*:} are expected"; exit 1; }
  spills=$(grep -A1 'Function properties for quire_kernel_' "$report" | grep 'spill' | grep -v ' 0 bytes spill stores, 0 bytes spill loads')
  [ -z "$spills" ] || { echo "$report: $spills"; exit 1; }
done
