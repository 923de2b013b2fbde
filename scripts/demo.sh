#!/bin/bash
# Sets the machine up, builds quire and runs the main job: a hybrid model's KV cache in an engine loop, every sampled row of attention and
# state recomputed from scratch. First it breaks the cache on purpose in three ways, each of which the verification has to notice.
# Needs nothing but a Debian 12; no GPU. Ends with "verified N rows, 0 mismatches".
set -eu
cd "$(dirname "$0")/.."

engine=build/release/bin/quire_engine
# Qwen3-Next-80B's geometry, two periods of its layers, narrower heads, and a pool that is too small for the batch. The same bytes under
# both policies: vllm's plan is for comparison.
workload=(--model samples/models/qwen3-next-80b.json --layers 8 --head-dim 128 --state-heads 16 --state-dim 32 --pool 34M)

scripts/setup.sh
cmake --preset release
cmake --build --preset release -j "$(nproc)" --target quire_engine quire_driver_cpu quire_command

# A fault is caught when the verification counts mismatches and says so; then, and only then, the run succeeds.
must_be_caught() {
  local fault=$1 out
  echo
  echo "== $engine ${workload[*]} --conversations 14 --verify --fault $fault"
  out=$("$engine" "${workload[@]}" --conversations 14 --verify --fault "$fault") || { tail -n 5 <<<"$out"; echo "demo: the fault '$fault' was not noticed" >&2; exit 1; }
  tail -n 2 <<<"$out"
  grep -qE '^verified [0-9]+ rows, [1-9][0-9]* mismatches$' <<<"$out" || { echo "demo: no mismatch was counted for '$fault'" >&2; exit 1; }
}

must_be_caught swap-block
must_be_caught stale-state
must_be_caught other-prefix

echo
echo "== $engine ${workload[*]} --policy vllm"
compared=$("$engine" "${workload[@]}" --policy vllm)
grep -E '^plan|hit tokens  |preemptions' <<<"$compared"

echo
echo "== $engine ${workload[*]} --verify"
printed=$("$engine" "${workload[@]}" --verify) || { echo "$printed"; exit 1; }
echo "$printed" | head -n -1
share() { sed -n 's/^  hit tokens  .* \([0-9.]* %\) of prompt tokens.*/\1/p' <<<"$1"; }
echo "prompt tokens hit in the same memory: $(share "$compared") with policy vllm, $(share "$printed") with policy auto"
tail -n 1 <<<"$printed"
