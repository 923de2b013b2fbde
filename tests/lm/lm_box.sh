#!/bin/bash
# lm_box.sh GENERATE SOURCE: the model in the box answers in text. The second turn of a long chat resumes from what the first one left;
# what comes out does not depend on batches, pools, budgets, policies and drafts. Bad requests are refused.
set -eu
generate=$1 source=$2
model=$source/samples/lm/box/model
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $1"; exit 1; }
if [ ! -f "$model/model.safetensors" ]; then
  echo "skipped: there is no model in samples/lm/box/model"
  exit 77
fi
export QUIRE_DRIVER=cpu

# A question that it was taught, as a stream.
"$generate" --model "$model" --chat --prompt "What is a page?" --max-tokens 80 >"$work/chat"
grep -q '^> What is a page?$' "$work/chat" || fail "the question is not shown"
grep -qiE 'page .*(memory|pool)' "$work/chat" || fail "it does not answer: $(cat "$work/chat")"

# A conversation of about 3,000 tokens, its next turn, branches, and other requests meanwhile.
python3 - "$source" >"$work/requests" <<'END'
import json, pathlib, sys
text = ' '.join((pathlib.Path(sys.argv[1]) / 'docs/glossary.md').read_text(encoding='utf-8').split())[:9000]
rows = [{'id': 'long', 'user': text + ' What is a page?'}, {'id': 'next', 'after': 'long', 'user': 'What is a lane?'},
        {'id': 'branch', 'after': 'long', 'user': 'What is a step?'}, {'id': 'deep', 'after': 'next', 'user': 'What is a block?'}]
rows += [{'id': f'other{i}', 'user': f'What is a {word}?', 'temperature': i % 2 * 0.7, 'seed': i, 'samples': 1 + i % 2}
         for i, word in enumerate(('checkpoint', 'group', 'pin', 'pool'))]
print('\n'.join(json.dumps(row) for row in rows))
END
cat >"$work/texts.py" <<'END'
import json, sys
print('\n'.join(sorted(f"{row['id']}.{row['sample']} {row['text']}" for row in map(json.loads, open(sys.argv[1])) if 'id' in row)))
END
run() {  # run NAME OPTION...
  local name=$1
  shift
  "$generate" --model "$model" --requests "$work/requests" --max-tokens 40 --json "$@" >"$work/$name.json" || fail "$name ends with $?"
  python3 "$work/texts.py" "$work/$name.json" >"$work/$name"
}
run plain
[ "$(wc -l <"$work/plain")" -eq 10 ] || fail "not ten texts: $(cat "$work/plain")"
python3 - "$work/plain.json" <<'END' || fail "the next turn does not resume"
import json, sys
rows = {(r['id'], r['sample']): r for r in map(json.loads, open(sys.argv[1])) if 'id' in r}
long, following = rows['long', 0], rows['next', 0]
print(f"first turn {long['first_token_s']:.3f} s; next turn {following['first_token_s']:.3f} s, {following['hit_tokens']} tokens hit")
sys.exit(not (following['hit_tokens'] > 2500 and rows['branch', 0]['hit_tokens'] > 2500))
END
same() {  # same NAME OPTION...: other ways of serving, the same texts
  run "$@"
  cmp -s "$work/plain" "$work/$1" || fail "$*: other texts:
$(diff "$work/plain" "$work/$1")"
}
same no_reuse --no-reuse
same one_by_one --batch 1
same small_chunks --budget 37
same small_pool --pool 3MiB --context 4096 --budget 256
same vllm --policy vllm --pool 64MiB --context 4096
same drafts --draft "$model" --draft-tokens 3
echo "the same texts in seven ways of serving"

refused() {  # refused LINE MESSAGE: a request with a field that is out of its limits
  echo "$1" >"$work/bad"
  ! "$generate" --model "$model" --requests "$work/bad" --max-tokens 4 >"$work/log" 2>&1 || fail "$1 is served"
  grep -qF "$2" "$work/log" || fail "$1: the message is $(cat "$work/log")"
}
refused '{"prompt": "a", "samples": -1}' 'line 1: samples is -1, must be a whole number from 1 to 1024'
refused '{"prompt": "a", "samples": 1.5}' 'samples is 1.5, must be a whole number'
refused '{"prompt": "a", "max_tokens": 0}' 'max_tokens is 0, must be a whole number from 1 to 1048576'
refused '{"prompt": "a", "temperature": 1e99}' 'temperature is 1e+99, must be a number from 0 to 100'
refused '{"prompt": "a", "top_p": 1.5}' 'top_p is 1.5, must be a number from 0 to 1'
refused '{"prompt": "a", "top_k": -5}' 'top_k is -5'
echo "six requests refused"
