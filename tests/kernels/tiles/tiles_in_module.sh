#!/bin/sh
# tiles_in_module.sh MODULE: the CPU driver that is shipped has tile instructions, and none of the unit in software.
set -eu
command -v objdump >/dev/null || { echo "skipped: no objdump"; exit 77; }
objdump -d --no-show-raw-insn "$1" | awk -F'\t' '
  { split($2, words, " "); ++seen[words[1]] }
  END {
    n = split("ldtilecfg tilerelease tilezero tileloadd tilestored tdpbf16ps", names, " ")
    for (i = 1; i <= n; ++i) {
      printf "%-12s %d\n", names[i], seen[names[i]]
      if (!seen[names[i]]) missing = 1
    }
    exit missing
  }' || { echo "tile instructions are missing in $1"; exit 1; }
if grep -q amx_in_software "$1"; then
  echo "$1 holds the unit in software"
  exit 1
fi
