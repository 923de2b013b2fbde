#!/bin/bash
# lm_decode.sh LM_DECODE DATA: lm_decode generates what it is asked for, and refuses what it cannot do. DATA is tests/golden/data/lm.
set -eu
decode=$1 data=$2
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

answers() {  # answers DEPTH WORD...: two numbers come back after "ready DEPTH"
  printf '3\n5\n' | "$decode" "$data/qwen3" "$1" 2 "${@:2}" >"$made/out"
  [ "$(head -1 "$made/out")" = "ready $1" ] || { echo "no 'ready $1':"; cat "$made/out"; exit 1; }
  [ "$(grep -cE '^[0-9]+\.[0-9]{9}$' "$made/out")" = 2 ] || { echo "expected two times:"; cat "$made/out"; exit 1; }
}
answers 40
answers 40 fill
answers 700 fill --weights fp32

refuses() {  # refuses PATTERN ARGUMENT...
  local pattern=$1
  shift
  if "$decode" "$@" </dev/null >"$made/out" 2>&1; then echo "accepted: $*"; exit 1; fi
  grep -qE -e "$pattern" "$made/out" || { echo "expected '$pattern':"; cat "$made/out"; exit 1; }
}
refuses 'usage:' "$data/qwen3" 40
refuses '--weights is bf17, must be' "$data/qwen3" 40 1 --weights bf17
refuses "'filled' is not known" "$data/qwen3" 40 1 filled
refuses 'DEPTH' "$data/qwen3" far 1
refuses 'neither model.safetensors' "$made" 40 1
refuses 'states' "$data/qwen3_next" 40 1 fill
