#!/bin/bash
# Sets the machine up, builds quire and runs the main job. First the memory of a large hybrid model: an engine without weights serves
# conversations in its geometry; three faults on purpose have to be noticed, then every sampled row of attention and state is equal to
# one that is computed from scratch. Then a small hybrid model with weights, samples/lm/box/model: chats in text, two policies on equal
# bytes, and its logits against those that transformers computed.
# Needs nothing but a Debian 12; no GPU. Ends with "N logits equal to recorded reference, 0 differ".
set -eu
cd "$(dirname "$0")/.."

engine=build/release/bin/quire_engine
generate=build/release/bin/quire_generate
parity=build/release/tests/lm_parity
export QUIRE_DRIVER=cpu
# Qwen3-Next-80B's geometry, two periods of its layers, narrower heads, and a pool that is too small for the batch. The same bytes under
# both policies: vllm's plan is for comparison.
workload=(--model samples/models/qwen3-next-80b.json --layers 8 --head-dim 128 --state-heads 16 --state-dim 32 --pool 34M)

scripts/setup.sh
cmake --preset release
cmake --build --preset release -j "$(nproc)" --target quire_engine quire_driver_cpu quire_command quire_generate lm_parity

# A fault is caught when the verification counts mismatches and says so; then, and only then, the run succeeds.
must_be_caught() {
  local fault=$1 out
  out=$("$engine" "${workload[@]}" --conversations 8 --verify --rows 2000 --fault "$fault") || { tail -n 5 <<<"$out"; echo "demo: the fault '$fault' was not noticed" >&2; exit 1; }
  grep -qE '^verified [0-9]+ rows, [1-9][0-9]* mismatches$' <<<"$out" || { echo "demo: no mismatch was counted for '$fault'" >&2; exit 1; }
  printf '%-28s %s\n' "$(tail -n 2 <<<"$out" | head -n 1)" "$(tail -n 1 <<<"$out")"
}

echo
echo "== $engine ${workload[*]:0:4} \\"
echo "     ${workload[*]:4}"
echo "== ... --conversations 8 --verify --rows 2000 --fault NAME"
must_be_caught swap-block
must_be_caught stale-state
must_be_caught other-prefix

echo "== ... --policy vllm"
compared=$("$engine" "${workload[@]}" --policy vllm)
grep -E '^plan|hit tokens  |preemptions' <<<"$compared" | sed 's/ *$//'

echo "== ... --verify --rows 8000"
printed=$("$engine" "${workload[@]}" --verify --rows 8000) || { echo "$printed"; exit 1; }
grep -E '^(model|plan|verified) |^  (served|hit tokens|hand-overs|preemptions|after|across) ' <<<"$printed" | sed 's/ *$//'

echo
echo "== samples/lm/box/serve.py $generate"
samples/lm/box/serve.py "$generate"

echo
echo "== $parity samples/lm/box model"
printed=$("$parity" samples/lm/box model) || { echo "$printed"; exit 1; }
grep -E '^model +fp32 +(decode|batches|prefix hits|fork|preempt|speculative|small pool|wrong block)' <<<"$printed" | sed 's/^model *//'
tail -n 1 <<<"$printed"
