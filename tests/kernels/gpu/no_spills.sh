#!/bin/bash
# ptxas reports no spilled registers in the kernels of attention, on any architecture, but for at most 100 bytes, once a tile or block of
# keys, where V is up to 256 wide and products are of warpgroups; that it sets no such products one behind the other; and that their kernels
# are launched with the registers that their warpgroups exchange.
#   no_spills.sh FOLDER TARGET...
set -u
folder=$1
shift
[ $# -gt 0 ] || { echo "no targets"; exit 1; }
for unit in attend:2 attend_flow:8 attend_mma:12; do  # and how many kernels for each architecture
  report=$folder/${unit%:*}.ptxas
  for target in "$@"; do
    [ "${unit%:*}:$target" = attend_flow:90 ] && target=90a
    kernels=$(grep -c "Compiling entry function 'quire_kernel_.*' for 'sm_$target'" "$report")
    [ "$kernels" -eq "${unit#*:}" ] || { echo "$report: $kernels kernels for sm_$target, ${unit#*:} are expected"; exit 1; }
  done
  kernels=$(grep -c 'Function properties for quire_kernel_' "$report")
  [ "$kernels" -ge $((${unit#*:} * $#)) ] || { echo "$report: properties of $kernels kernels"; exit 1; }
  spills=$(grep -A1 'Function properties for quire_kernel_' "$report" | grep -v 'Compiling\|^--' | paste - - |
    grep -v ' 0 bytes spill stores, 0 bytes spill loads' | grep -vE 'flow_(bf|fp)16_256.*[ \t](100|[0-9]{1,2}) bytes spill stores')
  [ -z "$spills" ] || { echo "$report: $spills"; exit 1; }
  slow=$(grep 'serialized' "$report")
  [ -z "$slow" ] || { echo "$report: $slow"; exit 1; }
done
grep -qw 90 <<<"$*" || exit 0
# Warpgroups exchange registers: the sum in attend_flow.cu holds of this count, and only if ptxas takes the instruction.
report=$folder/attend_flow.ptxas
ignored=$(grep -i 'setmaxnreg' "$report")
[ -z "$ignored" ] || { echo "$report: $ignored"; exit 1; }
used=$(grep -A4 "Compiling entry function 'quire_kernel_flow_.*' for 'sm_90a'" "$report" | grep -c 'Used 168 registers,')
[ "$used" -eq 8 ] || { echo "$report: $used of 8 kernels use 168 registers"; exit 1; }
