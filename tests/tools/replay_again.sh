#!/bin/bash
# replay_again.sh QUIRE MODEL: runs with the same seed give the same figures, times apart; with another seed the same hits.
set -u
quire=$1 model=$2
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
# Enough requests that evictions happen and are remembered: the trace's second half comes back to the first.
python3 - "$folder/trace.jsonl" <<'PY'
import json, random, sys
random.seed(7)
with open(sys.argv[1], "w") as out:
    chats = [[i * 1000] for i in range(60)]
    for n in range(600):
        chat = random.choice(chats)
        chat.append(10**6 + n)
        if len(chat) > 12:
            del chat[6:]
        out.write(json.dumps({"input_length": 512 * len(chat), "output_length": 5, "hash_ids": chat}) + "\n")
PY
figures() { "$quire" replay "$model" "$folder/trace.jsonl" --memory 2GiB --json "$@" | grep -vE '"(seconds|us_per_request|max_us)"'; }
figures > "$folder/a" || exit 1
for run in 1 2; do
  figures > "$folder/b"
  diff "$folder/a" "$folder/b" || { echo "FAILED: run $run differs"; exit 1; }
done
figures --seed 99 > "$folder/b"
diff <(grep -vE 'unknown_prefix|"evicted"' "$folder/a") <(grep -vE 'unknown_prefix|"evicted"' "$folder/b") || { echo "FAILED: hits depend on the seed"; exit 1; }
grep -qE '"evicted": [1-9]' "$folder/a" || { echo "FAILED: nothing was evicted"; cat "$folder/a"; exit 1; }
