#!/bin/bash
# Sets the machine up, builds quire and runs the main job: a hybrid model's KV cache in an engine loop, every sampled row of attention and
# state recomputed from scratch. First it breaks the cache on purpose in three ways, each of which the verification has to notice.
# Needs nothing but a Debian 12; no GPU. Ends with "verified N rows, 0 mismatches".
set -eu
cd "$(dirname "$0")/.."

model=samples/models/qwen3-next-80b.json
engine=build/release/bin/quire_engine

scripts/setup.sh
cmake --preset release
cmake --build --preset release -j "$(nproc)"

# A fault is caught when the run reports mismatches and fails for that reason alone.
must_be_caught() {
  local fault=$1 out code=0
  echo
  echo "== $engine --model $model --verify --fault $fault"
  out=$("$engine" --model "$model" --verify --fault "$fault") || code=$?
  tail -n 1 <<<"$out"
  if [ $code -eq 0 ] || ! tail -n 1 <<<"$out" | grep -qE '^verified [0-9]+ rows, [1-9][0-9]* mismatches$'; then
    echo "demo: the fault '$fault' was not noticed (exit $code)" >&2
    exit 1
  fi
  echo "caught: $fault"
}

must_be_caught swap-block
must_be_caught stale-state
must_be_caught other-prefix

echo
echo "== $engine --model $model --verify"
"$engine" --model "$model" --verify
