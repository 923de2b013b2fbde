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
# Types that vLLM takes by itself are said.
"$quire" plan "$models/deepseek-v4-pro.json" --memory 800GiB --policy vllm > "$dir/out"
wants 'note: vLLM keeps the rows of DeepSeek-V4 in 8 bits (fp8_ds_mla) unless asked otherwise; --kv-dtype fp8 plans that' "$dir/out"
"$quire" plan "$models/deepseek-v4-pro.json" --memory 800GiB --policy vllm --kv-dtype fp8 > "$dir/out"
if tr '\n' ' ' < "$dir/out" | grep -q 'unless asked'; then echo 'a note that does not hold'; exit 1; fi
sed 's/"bfloat16"/"float32"/' "$models/llama-3.1-8b.json" > "$dir/wide.json"
"$quire" plan "$dir/wide.json" --memory 80GiB --policy vllm > "$dir/out"
wants 'note: vLLM computes checkpoints of 32 bits in bfloat16' "$dir/out"
