#!/usr/bin/env bash
# speculative.sh QUIRE MODELS: --speculative counts draft layers with the model's own, in the groups where policies vllm and auto put them,
# says what it counted, and refuses what has no layers.
set -eu
quire=$1 models=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
wants() { # wants WORDS FILE
  tr -s ' \n' ' ' < "$2" | grep -qF -- "$(tr -s ' ' <<< "$1")" || { echo "'$1' is not in:"; cat "$2"; exit 1; }
}
refused() { # refused WORDS ARGUMENTS...
  local words=$1
  shift
  if "$quire" plan "$@" --memory 80GiB > "$dir/out" 2> "$dir/err"; then echo "$* was not refused"; exit 1; fi
  wants "$words" "$dir/err"
}
groups() { "$quire" plan "$@" --memory 80GiB --json | python3 -c 'import json, sys
print(" ".join(str(group["caches"]) for group in json.load(sys.stdin)["groups"]))'; }
same() { [ "$1" = "$2" ] || { echo "$3: $1, not $2"; exit 1; }; }

# A draft layer with the model's own heads joins its group under vllm and stands alone under auto.
sed 's/"architectures"/"num_nextn_predict_layers": 1, "architectures"/' "$models/qwen3-next-80b.json" > "$dir/next.json"
for policy in vllm auto; do
  "$quire" plan "$dir/next.json" --memory 80GiB --policy "$policy" --speculative --draft-tokens 2 > "$dir/$policy"
  wants '1  full attention, draft' "$dir/$policy"
  wants 'note: drafts: layer 48 with 1 cache, behind the model'"'"'s own; they write 2 tokens ahead' "$dir/$policy"
done
same "$(groups "$dir/next.json" --policy vllm --speculative mtp)" '12 12 12 13' 'groups under vllm'
same "$(groups "$dir/next.json" --policy auto --speculative mtp)" '36 12 1' 'groups under auto'

# Pipeline stages share the model evenly; what drafts is in the last one.
same "$("$quire" plan "$dir/next.json" --memory 80GiB --speculative --pp 2 | sed -n 1p)" \
  'Qwen3NextForCausalLM: 49 layers, 49 caches, at most 262144 tokens' 'stages'
"$quire" plan "$dir/next.json" --memory 80GiB --policy vllm --speculative --pp 2 --json > "$dir/even"
"$quire" plan "$dir/next.json" --memory 80GiB --policy vllm --speculative --stage-layers 24,25 --json > "$dir/told"
diff "$dir/even" "$dir/told"

# Under vllm every draft token takes a slot of each state.
tokens() { "$quire" plan "$dir/next.json" --memory 8GiB --policy vllm --max-len 8192 --json --speculative --draft-tokens "$1" |
  python3 -c 'import json, sys
print(json.load(sys.stdin)["capacity"]["kv_cache_tokens"])'; }
(($(tokens 8) < $(tokens 1))) || { echo "states: $(tokens 8) tokens with 8 drafts, $(tokens 1) with one"; exit 1; }

# A draft with a file of its own, or a folder.
mkdir "$dir/eagle"
printf '{"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "num_attention_heads": 32, "num_key_value_heads": 8,
  "hidden_size": 4096, "max_position_embeddings": 2048}' > "$dir/eagle/config.json"
same "$(groups "$models/llama-3.1-8b.json" --policy vllm --speculative "$dir/eagle")" '33' 'groups with a draft'
same "$(groups "$models/llama-3.1-8b.json" --policy auto --speculative "$dir/eagle/config.json")" '32 1' 'groups with a draft under auto'
# The published example: gpt-oss-20b has 12 windows and 12 full layers, and its draft makes the full ones 13, not three groups.
sed 's/: 32/: 64/; s/4096/2880/; s/"num_hidden_layers"/"head_dim": 64, "num_hidden_layers"/' "$dir/eagle/config.json" > "$dir/oss.json"
same "$(groups "$models/gpt-oss-20b.json" --policy vllm --speculative "$dir/oss.json")" '12 13' 'groups of gpt-oss-20b with a draft'
printf '{"architectures": ["Gemma4AssistantForCausalLM"]}' > "$dir/shares.json"
"$quire" plan "$models/llama-3.1-8b.json" --memory 80GiB --speculative "$dir/shares.json" > "$dir/out"
wants 'note: drafts: the draft keeps no cache of its own' "$dir/out"

# What Python writes as a number does not hide the draft, nor what --as asks.
sed 's/"architectures"/"time_step_limit": [0.0, Infinity], "architectures"/' "$dir/next.json" > "$dir/infinite.json"
same "$(groups "$dir/infinite.json" --policy auto --speculative)" '36 12 1' 'groups of a file with Infinity'
refused 'num_nextn_predict_layers' "$models/qwen3-next-80b.json" --speculative
refused '"Wheels" is not known' "$dir/infinite.json" --as Wheels
refused 'draft layers of LlamaForCausalLM are not known' "$models/llama-3.1-8b.json" --speculative
refused '--speculative ngram: it keeps no cache' "$models/llama-3.1-8b.json" --speculative ngram
refused '--speculative eagle3: its layers are in a config of their own' "$models/llama-3.1-8b.json" --speculative eagle3
refused 'is a layer file' "$models/inkling.json" --speculative
refused '--draft-tokens: without --speculative' "$models/llama-3.1-8b.json" --draft-tokens 2
refused 'must be a whole number 1..1023' "$dir/next.json" --speculative --draft-tokens 0
refused 'cannot read' "$models/llama-3.1-8b.json" --speculative "$dir/absent.json"
