#!/bin/bash
# Conformance, comparison with the oracle and the benchmark table on this machine's GPU; one JSON.
#   run.sh [OUT.json [--small] [--tests=FILTER]]
# First with the kernels that the driver holds to be best, then attention with the others, so that they are compared in one run: on CUDA
# products of warpgroups (flags 0), mma.sync (2), dot products (1); on ROCm dot products (0) and matrix instructions (2). At the end the same
# shapes by others (peers.py), where Python has torch. --small: a table that says nothing of speed. --tests: a filter of GoogleTest's.
# No part may take longer than half an hour. Ends with 0 when every test passed, with 77 and a JSON that says why where there is no GPU.
# Where a part or the whole is ended before its end, OUT.json.parts has what was done: each file is whole JSON after every row.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=quire_gpu.json
small=
tests=
for argument in "$@"; do
  case $argument in
    --small) small=--small ;;
    --tests=*) tests=${argument#--tests=} ;;
    -*) echo "run: unknown argument '$argument'" >&2; exit 2 ;;
    *) out=$argument ;;
  esac
done
driver=$(cat "$here/driver")
others="2 1"
[ "$driver" = cuda ] || others=2
work=$out.parts
rm -rf "$work"
mkdir -p "$work"
bad=0

ours() { LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout 1800 "$@"; }  # Python has libraries of its own

part() {  # part FLAGS FILTER ROWS: its JSON on stdout, in words on stderr; 77 where there is no GPU
  local code bench
  ours "$here/quire_conformance" --driver="$driver" --modules="$here/lib" --require=all --flags="$1" --gtest_filter="$2" \
    --gtest_output=json:"$work/conformance$1.json" >"$work/said" 2>&1
  code=$?
  echo "== flags $1" >&2
  tail -n 30 "$work/said" >&2
  [ $code -ne 77 ] || return 77
  [ -s "$work/conformance$1.json" ] || printf '{"ended_with": %d}' "$code" >"$work/conformance$1.json"
  ours "$here/quire_gpu_bench" --driver="$driver" --modules="$here/lib" --flags="$1" --rows="$3" $small >"$work/bench$1.json" 2>"$work/bench_said"
  bench=$?
  cat "$work/bench_said" >&2
  if [ $bench -ne 0 ]; then
    mv "$work/bench$1.json" "$work/bench$1.done.json"
    printf '{"ended_with": %d}' "$bench" >"$work/bench$1.json"
  fi
  printf '"flags": %d, "conformance": ' "$1"
  cat "$work/conformance$1.json"
  printf ', "benchmarks": '
  cat "$work/bench$1.json"
  [ $code -eq 0 ] && [ $bench -eq 0 ]
}

part 0 "${tests:-*}" "" >"$work/first"
code=$?
if [ $code -eq 77 ]; then
  printf '{"driver": "%s", "unavailable": "%s"}\n' "$driver" "$(grep '^skipped:' "$work/said" | tail -n 1 | tr -d '"\\')" >"$out"
  rm -rf "$work"
  exit 77
fi
[ $code -eq 0 ] || bad=1
: >"$work/others"
for flags in $others; do
  [ ! -s "$work/others" ] || printf ', ' >>"$work/others"
  part "$flags" "${tests:-Attention.*:Properties.*:Engine.*}" attention/ >"$work/part" || bad=1
  { printf '{'; cat "$work/part"; printf '}'; } >>"$work/others"
done
if command -v python3 >/dev/null; then
  timeout 1800 python3 "$here/peers.py" $small >"$work/peers.json" 2>"$work/peers_said"
  code=$?
  cat "$work/peers_said" >&2
  [ $code -eq 0 ] || printf '{"ended_with": %d}' "$code" >"$work/peers.json"
else
  printf '{"unavailable": "there is no python3"}' >"$work/peers.json"
fi
{
  printf '{"driver": "%s", ' "$driver"
  cat "$work/first"
  printf ', "compared": ['
  cat "$work/others"
  printf '], "peers": '
  cat "$work/peers.json"
  printf '}\n'
} >"$out"
[ $bad -ne 0 ] || rm -rf "$work"
echo "$out"
exit $bad
