#!/bin/bash
# fit.sh QUIRE MODELS: what gives way where a model does not fit, that it is told, and that what was chosen is the best: a token more, or
# a MiB less, does not do.
set -u
quire=$1 models=$2
failed=0
fail() { echo "FAILED: $*"; failed=1; }
field() { sed -nE "s/.*\"$1\": \"?([^\",]*)\"?,?$/\1/p" <<<"$json" | tail -1; }  # the last field of that name
plan() {
  json=$("$quire" plan "$@" --json 2>&1) || fail "plan $*: $json"
}
fits() { "$quire" plan "$@" --fit none --json 2>/dev/null | grep -q '"fits": true'; }

llama=$models/llama-3.1-8b.json
# All fits: nothing gives way.
plan "$llama"
[ "$(field chose)" = nothing ] || fail "something gave way in 80 GiB: $(field chose)"
# Nobody asked for a length: it is lowered.
plan "$llama" --memory 10GiB
length=$(field taken)
[ "$(field chose)" = length ] && [ "$length" -lt 131072 ] || fail "the length was not lowered: $(field chose) $length"
fits "$llama" --memory 10GiB --max-len "$length" || fail "the fitted length $length does not fit"
fits "$llama" --memory 10GiB --max-len $((length + 16)) && fail "16 tokens more than $length fit, too"
# The length was asked for, the memory was not: it is raised.
plan "$llama" --max-len 1000000
bytes=$(field taken)
[ "$(field chose)" = memory ] && [ "$bytes" -gt $((80 << 30)) ] || fail "the memory was not raised: $(field chose) $bytes"
fits "$llama" --max-len 1000000 --memory "$bytes" || fail "the fitted memory $bytes does not hold it"
fits "$llama" --max-len 1000000 --memory $((bytes - (1 << 20))) && fail "a MiB less than $bytes would do"
# Asked for: several sequences, over models of all kinds, both ways.
for model in llama-3.1-8b qwen3-next-80b gemma-3-27b nemotron-3-super-120b gpt-oss-20b; do
  plan "$models/$model.json" --max-len 30000 --concurrency 7 --fit memory
  bytes=$(field taken)
  fits "$models/$model.json" --max-len 30000 --concurrency 7 --memory "$bytes" || fail "$model: $bytes bytes do not hold 7 sequences"
  fits "$models/$model.json" --max-len 30000 --concurrency 7 --memory $((bytes - (1 << 20))) && fail "$model: a MiB less than $bytes would do"
  plan "$models/$model.json" --memory "$bytes" --concurrency 8 --fit length
  length=$(field taken)
  [ "$(field chose)" = length ] && fits "$models/$model.json" --memory "$bytes" --concurrency 8 --max-len "$length" ||
    fail "$model: 8 sequences of $length tokens do not fit"
done
# People are told, too; and --fit none refuses.
"$quire" plan "$llama" --memory 10GiB | grep -q '^fit: the length was fitted: [0-9,]* tokens instead of 131,072' || fail "the text does not tell"
"$quire" plan "$llama" --memory 10GiB --fit none 2>/dev/null && fail "--fit none plans"
exit $failed
