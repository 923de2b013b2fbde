#!/usr/bin/env bash
# read_as.sh QUIRE MODELS: --as reads a config like one of another architecture and says so; a folder is a model, and what only its
# hf_quant_config.json says of the cache counts.
set -eu
quire=$1 models=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
wants() { # wants WORDS FILE
  tr -s ' \n' ' ' < "$2" | grep -qF -- "$(tr -s ' ' <<< "$1")" || { echo "'$1' is not in:"; cat "$2"; exit 1; }
}

sed 's/LlamaForCausalLM/WheelsForCausalLM/' "$models/llama-3.1-8b.json" > "$dir/wheels.json"
if "$quire" plan "$dir/wheels.json" --memory 80GiB > "$dir/out" 2> "$dir/err"; then echo 'read without --as'; exit 1; fi
wants '"WheelsForCausalLM" is not known' "$dir/err"
wants '--as ARCHITECTURE' "$dir/err"
wants 'layer file' "$dir/err"
"$quire" plan "$dir/wheels.json" --memory 80GiB --as LlamaForCausalLM > "$dir/as"
wants 'note: the config is read as one of LlamaForCausalLM, as --as asks' "$dir/as"
"$quire" plan "$models/llama-3.1-8b.json" --memory 80GiB | diff - <(grep -v 'note: the config' "$dir/as")

# Around a text model, whatever the field is named: the inner object is read, not the outer one.
for field in text_config llm_config language_config; do
  python3 - "$models/llama-3.1-8b.json" "$field" > "$dir/around.json" << 'END'
import json, sys
inner = json.load(open(sys.argv[1]))
print(json.dumps({"architectures": ["WheelsForConditionalGeneration"], "num_attention_heads": 1, sys.argv[2]: inner,
                  "vision_config": {"num_hidden_layers": 3}}))
END
  "$quire" plan "$dir/around.json" --memory 80GiB --as LlamaForCausalLM | diff - "$dir/as" || { echo "$field: not the inner object"; exit 1; }
done

mkdir "$dir/model"
cp "$models/llama-3.1-8b.json" "$dir/model/config.json"
"$quire" plan "$dir/model" --memory 80GiB | diff - <("$quire" plan "$models/llama-3.1-8b.json" --memory 80GiB)
printf '{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}' \
  > "$dir/model/hf_quant_config.json"
"$quire" plan "$dir/model" --memory 80GiB > "$dir/fp8"
wants 'fp8' "$dir/fp8"
"$quire" plan "$dir/model/config.json" --memory 80GiB | diff - "$dir/fp8"
with() { # with QUANTIZATION_CONFIG: the model's config.json with it
  sed "0,/{/s//{ \"quantization_config\": $1,/" "$models/llama-3.1-8b.json" > "$dir/model/config.json"
}
with '{"quant_method": "modelopt", "quant_algo": "NVFP4"}'
"$quire" plan "$dir/model/config.json" --memory 80GiB | diff - "$dir/fp8"
with '{"quant_method": "modelopt", "kv_cache_scheme": "auto"}'
"$quire" plan "$dir/model" --memory 80GiB | diff - <("$quire" plan "$models/llama-3.1-8b.json" --memory 80GiB)
cp "$models/llama-3.1-8b.json" "$dir/model/config.json"
printf '[' > "$dir/model/hf_quant_config.json"
if "$quire" plan "$dir/model" --memory 80GiB > "$dir/out" 2> "$dir/err"; then echo 'half a file was read'; exit 1; fi
wants 'hf_quant_config.json' "$dir/err"
if "$quire" plan "$models/inkling.json" --memory 80GiB --as LlamaForCausalLM > "$dir/out" 2> "$dir/err"; then exit 1; fi
wants 'is a layer file' "$dir/err"

sed 's/"max_position_embeddings": [0-9]*/"x": 0/' "$models/llama-3.1-8b.json" > "$dir/endless.json"
if "$quire" plan "$dir/endless.json" --memory 80GiB > "$dir/out" 2> "$dir/err"; then echo 'planned without a length'; exit 1; fi
wants '--max-len' "$dir/err"
"$quire" plan "$dir/endless.json" --memory 80GiB --max-len 4096 > "$dir/out"
printf '{"architectures": ["LlavaForConditionalGeneration"], "text_config": {"model_type": "llama"}}' > "$dir/llava.json"
"$quire" plan "$dir/llava.json" --memory 80GiB > "$dir/out"
wants 'note: assumed, as transformers does where a nested config of llama leaves it out:' "$dir/out"
"$quire" plan "$dir/llava.json" --memory 80GiB --explain > "$dir/out"
wants 'num_attention_heads = 32' "$dir/out"
"$quire" info --model "$dir/wheels.json" --as LlamaForCausalLM | diff - <("$quire" info --model "$models/llama-3.1-8b.json")
"$quire" plan "$models/llama-3.1-8b.json" --memory 80GiB --kv-dtype fp8 > "$dir/out"
wants 'LlamaForCausalLM: 32 layers, 32 caches, at most 131072 tokens' "$dir/out"
# Only what vLLM computes is what vLLM prints.
wants "this plan's KV cache size, by the formula of vLLM's log:" "$dir/out"
"$quire" plan "$models/llama-3.1-8b.json" --memory 80GiB --policy vllm > "$dir/out"
wants 'vLLM would print a KV cache size of' "$dir/out"
# Types that vLLM takes by itself are taken or said. DeepSeek-V4 in blocks of 64 rows of 584 bytes, which pages of a multiple of 576 hold:
# 30 layers whose rows are of 4 tokens, each with an indexer of 64 keys of 132 bytes, and 31 layers with rows of 128 tokens.
"$quire" plan "$models/deepseek-v4-pro.json" --memory 800GiB --policy vllm > "$dir/out"
wants 'note: the rows of DeepSeek-V4 are in 8 bits (fp8_ds_mla), as vLLM keeps them by itself' "$dir/out"
"$quire" plan "$models/deepseek-v4-pro.json" --memory 800GiB --policy vllm --kv-dtype fp8 > "$dir/fp8"
diff <(grep -v 'note: the rows of D\|type of the config' "$dir/out") "$dir/fp8"
up() { echo $((($1 + 575) / 576 * 576)); }
bytes=$((30 * ($(up $((64 * 584))) + $(up $((64 * 132)))) + 31 * $(up $((2 * 584)))))
plan_bytes() { "$quire" plan "$models/deepseek-v4-pro.json" --memory 800GiB --json "$@" |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["page_bytes"])'; }
[ "$(plan_bytes --policy vllm)" = "$bytes" ] || { echo "$(plan_bytes --policy vllm) bytes, not $bytes"; exit 1; }
[ "$(plan_bytes --policy vllm --kv-dtype bf16)" -gt "$bytes" ] || { echo 'bf16 is not wider'; exit 1; }
"$quire" plan "$models/deepseek-v4-pro.json" --memory 800GiB > "$dir/out"
if grep -q fp8_ds_mla "$dir/out"; then echo 'policy auto takes a type that was not asked for'; exit 1; fi
sed 's/"bfloat16"/"float32"/' "$models/llama-3.1-8b.json" > "$dir/wide.json"
"$quire" plan "$dir/wide.json" --memory 80GiB --policy vllm > "$dir/out"
wants 'note: vLLM computes checkpoints of 32 bits in bfloat16' "$dir/out"
