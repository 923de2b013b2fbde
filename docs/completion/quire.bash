# bash completion for quire(1). Generated from `quire --help`.
_quire() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} options
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "call compare info plan replay sweep tier --help --version" -- "$word"))
    return
  fi
  if ((COMP_CWORD == 2)) && [[ ${COMP_WORDS[1]} == tier ]]; then
    COMPREPLY=($(compgen -W "inspect --help" -- "$word"))
    return
  fi
  case $before in
    --compat) COMPREPLY=($(compgen -W "upstream" -- "$word")); return ;;
    --driver) COMPREPLY=($(compgen -W "cpu cuda rocm auto none" -- "$word")); return ;;
    --fit) COMPREPLY=($(compgen -W "length memory none" -- "$word")); return ;;
    --format) COMPREPLY=($(compgen -W "auto mooncake csv sharegpt vllm" -- "$word")); return ;;
    --keep) COMPREPLY=($(compgen -W "every chunk-end prompt-end junction asked" -- "$word")); return ;;
    --kv-dtype) COMPREPLY=($(compgen -W "bf16 fp16 fp32 fp8 fp8_e5m2 int8 fp4 fp8_per_token_head int8_per_token_head int4_per_token_head" -- "$word")); return ;;
    --oracle) COMPREPLY=($(compgen -W "infinite lru clairvoyant marconi" -- "$word")); return ;;
    --policy) COMPREPLY=($(compgen -W "auto vllm" -- "$word")); return ;;
    --state-mode) COMPREPLY=($(compgen -W "none align all" -- "$word")); return ;;
    --model|--report|--svg) COMPREPLY=($(compgen -f -- "$word")); return ;;
    --active-params|--as|--block|--checkpoint-bytes|--checkpoint-interval|--concurrency|--connector|--cp|--draft-tokens|--engines|--follow|--in-flight|--kernel-block|--layout|--max-len|--max-output|--memory|--pages|--pp|--prefer-layout|--requests|--router|--seed|--series|--speculative|--stage-layers|--step-time|--sweep-memory|--sweep-policy|--think-time|--tier|--token-time|--tokens-per-step|--tp|--trace-block|--with) return ;;
  esac
  case ${COMP_WORDS[1]} in
    call) options="--help --driver --connector --list --native --json" ;;
    compare) options="--help --as --speculative --draft-tokens --memory --pages --tp --max-len --pp --stage-layers --cp --contiguous --kv-dtype --policy --compat --layout --prefer-layout --block --kernel-block --state-mode --no-prefix-reuse --in-flight --with --concurrency --json" ;;
    info) options="--help --driver --probe --model --as --json" ;;
    plan) options="--help --as --speculative --draft-tokens --memory --pages --tp --max-len --pp --stage-layers --cp --contiguous --kv-dtype --policy --compat --layout --prefer-layout --block --kernel-block --state-mode --no-prefix-reuse --in-flight --concurrency --fit --json --explain --svg" ;;
    replay) options="--help --as --speculative --draft-tokens --memory --pages --tp --max-len --pp --stage-layers --cp --contiguous --kv-dtype --policy --compat --layout --prefer-layout --block --kernel-block --state-mode --no-prefix-reuse --in-flight --format --trace-block --seed --requests --concurrency --tokens-per-step --max-output --keep --checkpoint-interval --checkpoint-bytes --two-states --strict-lru --first-chunks --link-tails --oracle --tier --active-params --sweep-memory --sweep-policy --engines --router --arrivals --think-time --step-time --token-time --series --follow --report --verify --json" ;;
    sweep) options="--help --as --speculative --draft-tokens --pp --stage-layers --cp --contiguous --kv-dtype --policy --compat --layout --prefer-layout --block --kernel-block --state-mode --no-prefix-reuse --in-flight --memory --tp --max-len --svg --json" ;;
    tier) options="--help --list --no-verify --json" ;;
    *) return ;;
  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}
complete -o filenames -F _quire quire
