#!/bin/bash
# Conformance, comparison with the oracle and the benchmark table on this machine's GPU; one JSON.   run.sh [OUT.json [--small]]
# Neither may take longer than half an hour. Ends with 0 when every test passed, with 77 and a JSON that says why where there is no GPU.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-quire_gpu.json}
[ $# -eq 0 ] || shift  # the rest goes to the benchmark table: --small
driver=$(cat "$here/driver")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
timeout 1800 "$here/quire_conformance" --driver="$driver" --modules="$here/lib" --gtest_output=json:"$work/conformance.json" >"$work/said" 2>&1
code=$?
tail -n 30 "$work/said"
if [ $code -eq 77 ]; then
  printf '{"driver": "%s", "unavailable": "%s"}\n' "$driver" "$(grep '^skipped:' "$work/said" | tail -n 1 | tr -d '"\\')" >"$out"
  exit 77
fi
[ -s "$work/conformance.json" ] || printf '{"ended_with": %d}' "$code" >"$work/conformance.json"
timeout 1800 "$here/quire_gpu_bench" --driver="$driver" --modules="$here/lib" "$@" >"$work/bench.json" 2>"$work/bench_said"
bench=$?
cat "$work/bench_said"
[ $bench -eq 0 ] || printf '{"ended_with": %d}' "$bench" >"$work/bench.json"
{
  printf '{"driver": "%s", "conformance": ' "$driver"
  cat "$work/conformance.json"
  printf ', "benchmarks": '
  cat "$work/bench.json"
  printf '}\n'
} >"$out"
echo "$out"
[ $code -eq 0 ] && [ $bench -eq 0 ]
