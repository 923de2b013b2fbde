#!/bin/bash
# Every kernel unit of drivers/gpu is compiled by this build with waves of 32 and of 64 lanes; where the GPU drivers are built too, from the
# same files and no others.
#   same_units.sh SOURCE BUILD
set -u
units=$(cd "$1/drivers/gpu" && ls -- *.cu)
commands=$2/compile_commands.json
failed=0
for unit in $units; do
  for wave in 32 64; do
    grep -qE "QUIRE_WAVE=$wave .*drivers/gpu/$unit" "$commands" || { echo "$unit is not compiled with waves of $wave"; failed=1; }
  done
  for driver in cuda rocm; do
    [ -d "$2/drivers/$driver" ] || continue
    grep -qE "drivers/gpu/$unit" "$2/build.ninja" || { echo "$unit is not compiled for $driver"; failed=1; }
  done
done
for driver in cuda rocm; do
  others=$(ls "$1/drivers/$driver"/*.cu "$1/drivers/$driver"/*.hip 2>/dev/null)
  [ -z "$others" ] || { echo "kernels that the emulation does not compile: $others"; failed=1; }
done
[ -n "$units" ] || { echo "drivers/gpu has no kernel units"; failed=1; }
exit $failed
