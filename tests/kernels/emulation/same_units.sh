#!/bin/bash
# Every kernel unit of drivers/gpu is compiled by this build with waves of 32 and of 64 lanes; where the GPU drivers are built too, from the
# very same files and no others. The check itself is tried on what it must refuse.
#   same_units.sh SOURCE BUILD
set -u
source=$(cd "$1" && pwd) build=$2

check() {  # check COMMANDS NINJA
  local failed=0 unit wave tool driver compiled units
  units=$(cd "$source/drivers/gpu" && ls -- *.cu)
  [ -n "$units" ] || { echo "drivers/gpu has no kernel units"; failed=1; }
  for unit in $units; do
    for wave in 32 64; do
      grep -v QUIRE_GPU_RDNA "$1" | grep -qE "QUIRE_WAVE=$wave .* -c $source/drivers/gpu/$unit\"" ||
        { echo "$unit is not compiled with waves of $wave"; failed=1; }
    done
  done
  for tool in nvcc:cuda hipcc:rocm; do
    driver=${tool#*:} tool=${tool%:*}
    grep -qE "^build .*lib/quire/0/libquire_driver_$driver\.so" "$2" || continue  # not built here
    compiled=$(grep -E "^ *COMMAND = .*/compile\.sh .*/$tool " "$2" | grep -oE '[^ ]+\.(cu|hip)( |$)' | tr -d ' ' | sort)
    [ "$compiled" = "$(for unit in $units; do echo "$source/drivers/gpu/$unit"; done | sort)" ] ||
      { echo "$driver compiles other units than the emulation: $compiled"; failed=1; }
    echo "$driver: $(wc -l <<<"$compiled") units"
  done
  return $failed
}

check "$build/compile_commands.json" "$build/build.ninja" || exit 1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
refused() {  # refused WHAT: of the doctored files
  check "$folder/commands" "$folder/ninja" >/dev/null && { echo "the check passes $1"; exit 1; }
}
cp "$build/build.ninja" "$folder/ninja"
sed -E '/QUIRE_WAVE=64 .*plan\.cu/d' "$build/compile_commands.json" >"$folder/commands"
refused "a build without a unit in waves of 64"
sed -E '/[^A] -DQUIRE_WAVE=32 .*attend_mma\.cu/d' "$build/compile_commands.json" >"$folder/commands"
refused "a build that has a unit in waves of 32 for RDNA alone"
sed -E 's,(QUIRE_WAVE=32 .* -c [^ ]*)/drivers/gpu/scan\.cu,\1/elsewhere/scan.cu,' "$build/compile_commands.json" >"$folder/commands"
refused "a unit that is another file"
cp "$build/compile_commands.json" "$folder/commands"
for tool in nvcc hipcc; do
  grep -qE "/compile\.sh .*/$tool " "$build/build.ninja" || continue
  sed -E "/$tool /s,/drivers/gpu/plan\.cu,/elsewhere/plan.cu," "$build/build.ninja" >"$folder/ninja"
  refused "a driver with a unit of its own, by $tool"
  sed -E "/$tool .*tokens\.cu/d" "$build/build.ninja" >"$folder/ninja"
  refused "a driver without a unit, by $tool"
done
exit 0
