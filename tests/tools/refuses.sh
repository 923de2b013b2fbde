#!/usr/bin/env bash
# refuses.sh QUIRE MODELS: what the command line refuses. Rows of "arguments | words of the message"; every row ends with a message on
# stderr that has all its words (between semicolons), nothing on stdout and a code that no signal makes.
set -u
quire=$1 models=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0 rows=0

spec='"kind": "full", "num_kv_heads": 2, "head_size": 64, "dtype": "bf16"'
names='["l.0", 0], ["l.1", 0], ["l.2", 0], ["l.3", 0]'
file() { printf '{"specs": [{%s}], "layers": [%s], "options": {"max_model_len": 4096%s}%s}' "$1" "$names" "$2" "$3" > "$dir/$4"; }
file "$spec, \"block_size\": 16" '' '' plain.json
file "$spec, \"block_size\": 16" ', "num_gpu_blocks_override": 1000' '' override.json
file "$spec, \"block_size\": 16" '' ', "workers": [[0, 1, 2, 3], [0, 1, 2, 3]], "available_memory": [1000000000, 1000000000]' ranks.json
file "$spec, \"block_size\": 16" ', "prefix_caching": false' '' alone.json
file "$spec, \"block_size\": 24" '' '' odd.json
file "$spec" ', "connector": {"layers": true}' '' connector.json
file "$spec, \"block_size\": 16, \"window\": 0" '' '' window.json
printf '{"specs": [{%s, "block_size": 16}, {"kind": "mamba", "shapes": [[64]], "dtypes": ["fp32"], "block_size": 16, "mode": "align"}],
  "layers": [["l.0", 0], ["l.1", 1]], "options": {"max_model_len": 4096}}' "$spec" > "$dir/states.json"
printf '{"specs": [{"kind": "full", "block_size": 16, "num_kv_heads": 8, "head_size": 128, "dtype": "bf16"}, {"kind": "sliding_window",
  "block_size": 16, "num_kv_heads": 8, "head_size": 128, "dtype": "bf16", "window": 1024}, {"kind": "hidden_state", "block_size": 16,
  "num_kv_heads": 3, "head_size": 4096, "dtype": "bf16"}], "layers": [["l.0", 0], ["l.1", 1], ["hidden", 2]],
  "options": {"max_model_len": 8192}}' > "$dir/hidden.json"
sed 's/"hidden_size": 4096/"hidden_size": 4096, "hidden_size": 4096/' "$models/llama-3.1-8b.json" > "$dir/twice.json"
sed 's/"num_hidden_layers": [0-9]*/"num_hidden_layers": 0/' "$models/llama-3.1-8b.json" > "$dir/none.json"
sed '/max_position_embeddings/d; s/"torch_dtype": "bfloat16"/"torch_dtype": "bfloat16", "max_position_embeddings": -1/' \
  "$models/llama-3.1-8b.json" > "$dir/length.json"
{ cat "$models/llama-3.1-8b.json"; printf '\0junk'; } > "$dir/nul.json"
trace() { printf "$2" > "$dir/$1.jsonl"; }  # trace NAME LINE
trace negative '{"input_length": 5, "output_length": 1, "hash_ids": [-1]}'
trace fraction '{"input_length": 5, "output_length": 1, "hash_ids": [1.7]}'
trace large '{"input_length": 5, "output_length": 1, "hash_ids": [1e300]}'
trace huge '{"input_length": 1e400, "output_length": 1, "hash_ids": [1]}'
trace absent '{"input_length": 5, "output_length": 1}'
trace nul '{"input_length": 5, "output_length": 1, "hash_ids": [1]}\0'
trace list '[1, 2]'
trace object '{"input_length": 5, "output_length": 1, "hash_ids": {"a": 1}}'
{ printf '{"architectures": ["LlamaForCausalLM"], "x": '; head -c 300000 /dev/zero | tr '\0' '['; head -c 300000 /dev/zero | tr '\0' ']'; printf '}'; } \
  > "$dir/deep.json"
"$quire" plan "$models/llama-3.1-8b.json" --json > "$dir/plan.json"
head -c 17000000 /dev/zero | tr '\0' 1 > "$dir/long.jsonl"

while IFS='|' read -r arguments words; do
  [[ -z ${arguments// } || $arguments == '#'* ]] && continue
  rows=$((rows + 1))
  arguments=${arguments//MODELS/$models}
  arguments=${arguments//DIR/$dir}
  eval "set -- $arguments"
  "$quire" "$@" > "$dir/out" 2> "$dir/err"
  code=$?
  message=$(tr -s " \n" " " < "$dir/err")
  message=${message% }
  # 2 says how to learn more: the command line is to blame. 1 is any other error.
  expected=1
  [[ $message == *" --help')" ]] && expected=2
  if ((code != expected)); then
    echo "$arguments: code $code, must be $expected: $message"
    failed=$((failed + 1))
  fi
  if ((code == 0 || code > 127)) || [[ -s $dir/out ]]; then
    echo "$arguments: code $code, stdout $(wc -c < "$dir/out") bytes: $message"
    failed=$((failed + 1))
    continue
  fi
  IFS=';' read -r -a wanted <<< "$words"
  for word in "${wanted[@]}"; do
    word=${word# } word=${word% }
    [[ $message == *"$word"* ]] && continue
    echo "$arguments: '$message' lacks '$word'"
    failed=$((failed + 1))
  done
done <<'ROWS'
# Traces, and text with a NUL
plan DIR/nul.json --memory 80GiB | config: not JSON at byte
replay MODELS/llama-3.1-8b.json DIR/negative.jsonl --memory 80GiB | line 1: hash_ids has -1; must be whole numbers from 0 on
replay MODELS/llama-3.1-8b.json DIR/fraction.jsonl --memory 80GiB | line 1: hash_ids has 1.7
replay MODELS/llama-3.1-8b.json DIR/large.jsonl --memory 80GiB | line 1: hash_ids has 1e+300
replay MODELS/llama-3.1-8b.json DIR/huge.jsonl --memory 80GiB | line 1: not a JSON object, or a number that is too large
replay MODELS/llama-3.1-8b.json DIR/absent.jsonl --memory 80GiB | line 1: hash_ids is missing
replay MODELS/llama-3.1-8b.json DIR/nul.jsonl --memory 80GiB | line 1: not a JSON object
replay MODELS/llama-3.1-8b.json DIR/list.jsonl --memory 80GiB | line 1: not a JSON object
replay MODELS/llama-3.1-8b.json DIR/object.jsonl --memory 80GiB | line 1: hash_ids is no list
replay MODELS/llama-3.1-8b.json DIR/long.jsonl --memory 80GiB | line 1: a line is longer than 16777216 bytes
# Numbers
plan MODELS/llama-3.1-8b.json --memory -1 | --memory: '-1' ; must be 1..9223372036854775807, a number with or without a unit
plan MODELS/llama-3.1-8b.json --memory 0 | --memory: '0' ; must be 1..9223372036854775807
plan MODELS/llama-3.1-8b.json --memory 16EiB | --memory: '16EiB' ; must be 1..9223372036854775807
plan MODELS/llama-3.1-8b.json --memory 99999999999999999999 | --memory: '99999999999999999999' ; must be 1..9223372036854775807
plan MODELS/llama-3.1-8b.json --memory 1.5.0GiB | --memory: '1.5.0GiB' ; a number with or without a unit
plan MODELS/llama-3.1-8b.json --memory .5GiB | --memory: '.5GiB' ; such as 80GiB or 1.5G
plan MODELS/llama-3.1-8b.json --memory 5.GiB | --memory: '5.GiB' ; such as 80GiB
plan MODELS/llama-3.1-8b.json --memory 0.4B | --memory: '0.4B' ; must be 1..9223372036854775807
plan MODELS/llama-3.1-8b.json --memory 80QiB | --memory: '80QiB' ; such as 80GiB
plan MODELS/llama-3.1-8b.json --memory 1.0000000000000000000GiB | --memory: '1.0000000000000000000GiB' ; such as 80GiB
sweep MODELS/llama-3.1-8b.json --memory 80GiB..40GiB:3 | --memory: '80GiB..40GiB:3' ; must not be below the first
sweep MODELS/llama-3.1-8b.json --memory 40GiB..80GiB | --memory: '40GiB..80GiB' ; FIRST..LAST:COUNT with a count of 2..1000
sweep MODELS/llama-3.1-8b.json --memory 40GiB..80GiB:1 | FIRST..LAST:COUNT with a count of 2..1000
sweep MODELS/llama-3.1-8b.json --memory 1GiB..2GiB:1000,3GiB | --memory: more than 1000 values
tier | A subcommand is required
tier inspect | directory is required
tier inspect absent | NOT_FOUND: directory absent
tier inspect MODELS/llama-3.1-8b.json | Not a directory
tier show | A subcommand is required
sweep MODELS/llama-3.1-8b.json --tp 2048 | --tp: '2048'; must be 1..1024
sweep MODELS/llama-3.1-8b.json --max-len '' | --max-len: '' ; none empty
sweep MODELS/llama-3.1-8b.json --svg DIR/absent/sweep.svg | cannot write
plan MODELS/llama-3.1-8b.json --memory 80GiBs | --memory: '80GiBs' ; such as 80GiB
plan MODELS/llama-3.1-8b.json --memory 80GiB, | --memory: '80GiB,' ; none empty
plan MODELS/llama-3.1-8b.json --memory '' | --memory: '' ; none empty
plan MODELS/llama-3.1-8b.json --memory 80GiB,80GiB | num_memory_bytes = 2; must be 1 or the number of shards, 1
plan MODELS/llama-3.1-8b.json --memory 1KiB | memory_bytes of shard 0 is 1024
plan MODELS/llama-3.1-8b.json --pages 0 | --pages: '0' ; must be a whole number 1..2147483647
plan MODELS/llama-3.1-8b.json --pages 1 | num_pages = 1 ; at least 2
plan MODELS/llama-3.1-8b.json --pages -3 | --pages: '-3' ; must be a whole number 1..2147483647
plan MODELS/llama-3.1-8b.json --pages 2147483648 | --pages: '2147483648' ; must be a whole number 1..2147483647
plan MODELS/llama-3.1-8b.json --pages 1000 --memory 1GiB | num_pages = 1000 ; memory_bytes of shard 0 is 1073741824
plan MODELS/llama-3.1-8b.json --policy vllm --block 64 --pages 2147483647 | num_pages = 2147483647 ; lowered ids each for layer 0; at most 2147483647
plan MODELS/llama-3.1-8b.json --tp 0 | --tp: '0' ; must be a whole number 1..1024
plan MODELS/llama-3.1-8b.json --tp 4294967297 | --tp: '4294967297' ; must be a whole number 1..1024
plan MODELS/llama-3.1-8b.json --tp 3 | tensor_parallel = 3 ; num_kv_heads = 8 of layer 0
plan MODELS/llama-3.1-8b.json --pp 0 | --pp: '0' ; must be a whole number 1..65536
plan MODELS/llama-3.1-8b.json --pp 33 | pipeline_parallel = 33; must be 1..32
plan MODELS/llama-3.1-8b.json --cp 0 | --cp: '0' ; must be a whole number 1..1024
plan MODELS/llama-3.1-8b.json --block 24 | block_tokens = 24; must be a multiple of kernel_block_tokens = 16
plan MODELS/llama-3.1-8b.json --block 99999999 | --block: '99999999' ; must be a whole number 1..16777216
plan MODELS/llama-3.1-8b.json --kernel-block 0 | --kernel-block: '0' ; must be a whole number 1..16777216
plan MODELS/llama-3.1-8b.json --max-len 0 | --max-len: '0' ; must be a whole number 1..2147483647
plan MODELS/llama-3.1-8b.json --max-len 2147483648 | --max-len: '2147483648' ; must be a whole number 1..2147483647
plan MODELS/llama-3.1-8b.json --max-len 1e3 | --max-len: '1e3' ; must be a whole number 1..2147483647
plan MODELS/llama-3.1-8b.json --in-flight 0 | --in-flight: '0' ; must be a whole number 1..2147483647
plan MODELS/llama-3.1-8b.json --concurrency 0 | --concurrency: '0' ; must be a whole number 1..16777216
# Control characters of arguments, in UTF-8 and as single bytes
plan $'DIR/\x1b[31m\x7f' | cannot read ; \x1b[31m\x7f': No such file
plan $'DIR/\xc2\x9b31m' | cannot read ; /\x9b31m': No such file
plan $'DIR/\x9b31m' | cannot read ; /\x9b31m': No such file
plan MODELS/llama-3.1-8b.json --memory $'\xe2\x82\xac\xc2\x85' | --memory: '€\x85'
$'\x9b31m' | '\x9b31m' is not a command
# Commands and options
plna MODELS/llama-3.1-8b.json | 'plna' is not a command; did you mean 'plan'? ; call, compare, info, plan, replay, sweep
frobnicate | 'frobnicate' is not a command; commands are call, compare
plan MODELS/llama-3.1-8b.json --memroy 80GiB | not expected ; --memroy
plan | config is required
compare MODELS/llama-3.1-8b.json | one model and no --with
compare MODELS/llama-3.1-8b.json --with '--policy' | --with '--policy' ; --policy: 1 required TEXT missing
compare MODELS/llama-3.1-8b.json --with 'other.json' | --with 'other.json' ; not expected: other.json
compare MODELS/llama-3.1-8b.json --with '--policy best' | policy = "best"
compare MODELS/llama-3.1-8b.json DIR/absent.json | cannot read ; absent.json
compare DIR/plan.json --with '--policy vllm' | --with: the second plan is a written one
plan MODELS/llama-3.1-8b.json --draft-tokens 3 | --draft-tokens: without --speculative
compare DIR MODELS/llama-3.1-8b.json | cannot read ; it is a folder
plan MODELS/llama-3.1-8b.json --fit both | --fit: both not in {length,memory,none}
plan MODELS/llama-3.1-8b.json --fit none --memory 10GiB | one sequence of max_model_len = 131072 ; 81904 tokens would fit
plan MODELS/llama-3.1-8b.json --max-len 131072 --memory 10GiB | --fit length lowers the length, --fit memory takes the memory it needs
plan MODELS/llama-3.1-8b.json --fit memory --pages 1000 | --fit memory ; --pages
plan MODELS/qwen3-next-80b.json --fit length --concurrency 2000 --memory 20GiB | no length fits
# Names
plan MODELS/llama-3.1-8b.json --policy best | policy = "best"; must be "vllm", "auto" or "pack:N"
plan MODELS/llama-3.1-8b.json --policy pack:0 | policy = "pack:0" ; 1..1024
plan MODELS/llama-3.1-8b.json --policy '' | --policy: '' ; at least one character
plan MODELS/llama-3.1-8b.json --kv-dtype int3 | kv dtype 'int3' is unknown ; bf16, fp16
plan MODELS/llama-3.1-8b.json --kv-dtype '' | --kv-dtype: '' ; at least one character
plan MODELS/llama-3.1-8b.json --layout '' | --layout: '' ; at least one character
plan MODELS/llama-3.1-8b.json --layout BLPJKTH | layout = "BLPJKTH"; letter D is missing
plan MODELS/llama-3.1-8b.json --layout BBLPJKTHD | layout "BBLPJKTHD": letter B occurs twice
plan MODELS/llama-3.1-8b.json --layout JBLPKTHD | layout "JBLPKTHD": J stands left of B ; only L, P and K may
plan MODELS/llama-3.1-8b.json --layout BLPJKTHDx | layout "BLPJKTHDx": letter 'x' is none of LPBJKTHD
plan MODELS/llama-3.1-8b.json --prefer-layout BLPJKTHD,BB | preferred_layouts[1] ; letter B occurs twice
plan MODELS/llama-3.1-8b.json --prefer-layout BLPJKTHD, | --prefer-layout: 'BLPJKTHD,' ; none empty
plan MODELS/llama-3.1-8b.json --state-mode some | --state-mode: some not in {none,align,all}
plan MODELS/llama-3.1-8b.json --svg '' | --svg: '' ; at least one character
# Options that contradict each other
plan MODELS/llama-3.1-8b.json --pp 3 --stage-layers 16,16 | --pp 3 ; --stage-layers names 2 stages ; must be equal
plan MODELS/llama-3.1-8b.json --stage-layers 16,15 | stage_layers: 31 layers in all ; the model has 32
plan MODELS/llama-3.1-8b.json --stage-layers 0,32 | --stage-layers: '0' ; must be a whole number 1..65536
plan MODELS/llama-3.1-8b.json --stage-layers 16,,16 | --stage-layers: '16,,16' ; none empty
plan MODELS/llama-3.1-8b.json --layout BLPJKTHD --prefer-layout BPJKTHD | --layout excludes --prefer-layout
plan MODELS/llama-3.1-8b.json --contiguous --layout LBPJKTHD | layout = "LBPJKTHD" ; no letter may stand left of B
plan MODELS/llama-3.1-8b.json --policy auto --layout BLPJKTHD | layout = "BLPJKTHD" ; policy auto ; letter L must not occur
plan MODELS/llama-3.1-8b.json --policy auto --compat upstream | QUIRE_VLLM_UPSTREAM ; of policy vllm; policy is auto
plan MODELS/llama-3.1-8b.json --policy auto --state-mode all | --state-mode all ; policy auto ; must be none or align
plan MODELS/qwen3-next-80b.json --no-prefix-reuse --state-mode align | --state-mode align ; --no-prefix-reuse ; must be none
plan MODELS/llama-3.1-8b.json --memory 1.5 | --memory: '1.5' ; a fraction needs one
plan MODELS/llama-3.1-8b.json --memory 1.5B | --memory: '1.5B' ; a fraction needs one
info --as LlamaForCausalLM | --as: without --model no config is read
# Files, and devices that never end
plan /dev/zero | cannot read '/dev/zero': it has more than 16777216 bytes
plan MODELS/llama-3.1-8b.json --speculative /dev/zero | cannot read '/dev/zero': it has more than 16777216 bytes
compare MODELS/llama-3.1-8b.json /dev/zero | cannot read '/dev/zero': it has more than 16777216 bytes
replay MODELS/llama-3.1-8b.json /dev/zero --memory 80GiB | line 1: a line is longer than 16777216 bytes
plan DIR/deep.json | brackets nested deeper than 64
plan DIR/deep.json --as LlamaForCausalLM | brackets nested deeper than 64
plan DIR/deep.json --speculative | brackets nested deeper than 64
plan MODELS/llama-3.1-8b.json --speculative DIR/deep.json | brackets nested deeper than 64
compare MODELS/llama-3.1-8b.json DIR/deep.json | brackets nested deeper than 64
replay MODELS/llama-3.1-8b.json DIR/deep.json --memory 80GiB | line 1: brackets nested deeper than 64
plan DIR/odd.json | specs[0]: block_size = 24; must be a multiple of 16 tokens
plan DIR/window.json | specs[0]: window = 0; must be a whole number 1..2147483647
plan DIR/connector.json | options.connector.layers = true is not known
plan DIR/twice.json | config: key "hidden_size" stands twice in one object; at most once
plan DIR/none.json | config: num_hidden_layers = 0; must be a whole number 1..4096
plan DIR/length.json | config: max_position_embeddings = -1; must be a whole number 1..2147483647
plan DIR/ranks.json --tp 4 | --tp 4 ; 2 ranks ; must be equal
plan DIR/ranks.json --pp 2 | available_memory ; 2 shards ; 4
plan DIR/plain.json --policy vllm --block 32 | --block 32 ; specs[0].block_size = 16 ; must be equal
plan DIR/plain.json --kernel-block 32 --block 16 | block_tokens = 16; must be a multiple of kernel_block_tokens = 32
plan DIR/plain.json --policy vllm --kernel-block 32 | layer 0: block_size = 16; must be a multiple of kernel_block_tokens = 32
plan DIR/states.json --policy vllm --state-mode none | --state-mode none ; specs[1].mode = align ; must be equal
plan DIR/alone.json --policy vllm --state-mode all | --state-mode all ; options.prefix_caching = false ; must be none
plan DIR/override.json --memory 1MiB | num_pages = 1000 ; memory_bytes of shard 0 is 1048576
plan DIR | cannot read ; it is a folder
plan DIR/absent.json | cannot read ; absent.json
# Replay
replay MODELS/llama-3.1-8b.json DIR/absent --tokens-per-step 0 | --tokens-per-step: '0' ; must be a whole number 1..4294967295
# A stage without a layer of a group, and blocks below the kernel block
plan DIR/hidden.json --policy vllm | layer 2 ; block of 2 tokens ; kernel block of 16
plan DIR/hidden.json --policy vllm --pp 2 | layer 2 ; block of 2 tokens ; kernel block of 16
replay MODELS/llama-3.1-8b.json agents:0 | trace 'agents:0' ; must be agents:1..10000
replay MODELS/llama-3.1-8b.json agents:1 --keep every,all | --keep: 'all' ; must be some of every, chunk-end
replay MODELS/llama-3.1-8b.json agents:1 --checkpoint-bytes 1GiB,2GiB | --checkpoint-bytes: '1GiB,2GiB' ; must be one size
replay MODELS/llama-3.1-8b.json agents:1 --checkpoint-bytes -1 | --checkpoint-bytes: '-1' ; with or without a unit
replay MODELS/llama-3.1-8b.json agents:1 --checkpoint-interval 0 | --checkpoint-interval: '0' ; must be a whole number 1..4294967295
replay MODELS/llama-3.1-8b.json agents:1 --oracle lru,belady | --oracle: 'belady' ; must be some of infinite, lru
replay MODELS/llama-3.1-8b.json agents:1 --tier 0GiB | --tier: '0GiB'; must be 1
replay MODELS/llama-3.1-8b.json agents:1 --tier 1GiB,2GiB | --tier: one size is wanted
replay MODELS/llama-3.1-8b.json agents:1 --active-params -1 | --active-params
replay MODELS/llama-3.1-8b.json DIR/absent --concurrency 0 | --concurrency: '0' ; must be a whole number 1..4294967295
ROWS

# Paths of modules are printed on standard output, whatever folders are called.
odd=$dir/$'\x1b[31m\xc2\x9b\x9b'
mkdir "$odd"
chmod 755 "$dir" "$odd"
echo junk >"$odd/libquire_driver_junk.so"
QUIRE_DRIVER_PATH=$odd "$quire" info --driver none >"$dir/out" 2>&1
rows=$((rows + 1))
if ! grep -qF '/\x1b[31m\x9b\x9b/libquire_driver_junk.so' "$dir/out" || LC_ALL=C grep -q $'[\x01-\x08\x0b-\x1f\x7f-\x9f]' "$dir/out"; then
  echo "info prints the path of a module as it stands: $(cat -v "$dir/out")"
  failed=$((failed + 1))
fi

# A number of pages that the file asks for holds beside --memory, and other policies say what they leave out.
"$quire" plan "$dir/override.json" --memory 8GiB --json | grep -q '"num_pages": 1000' ||
  { echo "--memory cancels num_gpu_blocks_override"; failed=$((failed + 1)); }
file "$spec, \"block_size\": 16" ', "connector": {}, "prefix_match_unit": 16' '' left.json
"$quire" plan "$dir/left.json" --policy auto | grep -q 'policy auto does not know: connector, prefix_match_unit' ||
  { echo "options that policy auto leaves out are not told"; failed=$((failed + 1)); }
# Lines for people have 100 columns at most, unless one word is longer; errors, too.
printf '{"architectures": ["Wheels"], "model_type": "qwen2"}' > "$dir/wheels.json"
for model in "$models"/deepseek-v4-pro.json "$models"/inkling.json "$models"/qwen3.5-397b-a17b.json "$dir/wheels.json"; do
  for more in '--kv-dtype fp8' '--policy vllm' '--tp 2' '--pp 3'; do
    "$quire" plan "$model" $more > "$dir/said" 2>&1
    awk 'length > 100 { print; found = 1 } END { exit !found }' "$dir/said" &&
      { echo "longer than 100 columns: plan $model $more"; failed=$((failed + 1)); }
  done
done
# A name or a text from outside does not reach the terminal as it is.
escape=$(printf 'no\033[2J\nsuch')
printf '{"architectures": ["Llama\\u001b[2J"]}' > "$dir/escape.json"
for argument in "$dir/$escape.json" "$dir/escape.json"; do
  "$quire" plan "$argument" > "$dir/said" 2>&1
  ! tail -n +2 "$dir/said" | grep -qv '^  ' && grep -qF '\x1b[2J' "$dir/said" && ! grep -q "$(printf '\033')" "$dir/said" ||
    { echo "control characters are not escaped: $(cat -v "$dir/said")"; failed=$((failed + 1)); }
done
"$quire" sweep "$models/llama-3.1-8b.json" --tp 3,5 > /dev/null 2> "$dir/said" && { echo "a sweep without any plan is no error"; failed=$((failed + 1)); }
# Draft tokens take state slots, so fewer sequences are guaranteed.
sed 's/"num_hidden_layers"/"mtp_num_hidden_layers": 1, "num_hidden_layers"/' "$models/qwen3.5-397b-a17b.json" > "$dir/drafts.json"
guaranteed() { "$quire" plan "$dir/drafts.json" --tp 2 --max-len 1024 --json "$@" | sed -nE 's/.*"guaranteed": ([0-9]+).*/\1/p'; }
[ "$(guaranteed --speculative --draft-tokens 8)" -lt "$(($(guaranteed --speculative --draft-tokens 1) / 2))" ] ||
  { echo "draft tokens take no state slots"; failed=$((failed + 1)); }
# What tables and drawings say.
says() { grep -q -- "$1" "$dir/said" || { echo "$2"; failed=$((failed + 1)); }; }
"$quire" plan "$models/whisper-large-v3.json" > "$dir/said"
says '^1 *encoder' "what cross attention keeps is not marked"
"$quire" plan "$models/whisper-large-v3.json" --json > "$dir/said"
says '"keeps": "encoder"' "what cross attention keeps is not marked in JSON"
"$quire" plan "$models/jamba-1.5-mini.json" --pp 2 > "$dir/said"
says 'padding [0-9.]* % over all stages' "of which shards the padding is, is not told"
says 'those of the stage that pads most' "of which shard a row is, is not told"
"$quire" plan "$models/qwen3.5-397b-a17b.json" --tp 2 --svg "$dir/said" > /dev/null
says 'state tensor 0' "a thin state is not in the legend"
"$quire" plan "$models/deepseek-v4-pro.json" --policy auto --svg "$dir/said" > /dev/null
says 'the others repeat its layers' "why only the first kernel block has labels is not told"
echo "$rows rows, $failed failed"
((rows > 70 && failed == 0))
