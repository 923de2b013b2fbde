#!/bin/bash
# ptxas reports no spilled registers in the kernels of attention, on any architecture, but for at most 100 bytes, once a tile or block of
# keys, where V is up to 256 wide and products are of warpgroups; that it sets no such products one behind the other; and that their kernels
# are launched with the registers that their warpgroups exchange.
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
# Warpgroups exchange registers: the sum in attend_flow.cu holds of this count, and only if ptxas takes the instruction.
report=$1/attend_flow.ptxas
ignored=$(grep -i 'setmaxnreg' "$report")
[ -z "$ignored" ] || { echo "$report: $ignored"; exit 1; }
flow=$(grep -c "Compiling entry function 'quire_kernel_flow_.*' for 'sm_90a'" "$report")
used=$(grep -A4 "Compiling entry function 'quire_kernel_flow_.*' for 'sm_90a'" "$report" | grep -c 'Used 168 registers,')
[ "$flow" -ge 8 ] && [ "$used" -eq "$flow" ] || { echo "$report: $used of $flow kernels use 168 registers, all of at least 8 are to"; exit 1; }
