#!/bin/bash
# ptxas reports no spilled registers in the kernels of attention, on any architecture.
#   no_spills.sh FOLDER
set -u
report=$1/attend.ptxas
kernels=$(grep -c 'Function properties for quire_kernel_' "$report")
[ "$kernels" -ge 4 ] || { echo "$report: $kernels kernels, at least 4 are expected"; exit 1; }
spills=$(grep -A1 'Function properties for quire_kernel_' "$report" | grep 'spill' | grep -v ' 0 bytes spill stores, 0 bytes spill loads')
[ -z "$spills" ] || { echo "$spills"; exit 1; }
