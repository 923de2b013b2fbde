#!/bin/bash
# mooncake.sh ENGINE REQUESTS MODEL: verifies the first requests of Mooncake's conversation trace, a 512-token block shrunk to 32 tokens.
engine=$1 requests=$2 model=$3
trace=${QUIRE_SHARED:-../shared}/data/traces/mooncake/conversation_trace.jsonl.gz
if [ ! -r "$trace" ]; then
  echo "skipped: no trace at $trace (set QUIRE_SHARED to the folder of the data files)"
  exit 77
fi
zcat "$trace" | head -n $((requests * 2)) | "$engine" --trace - --requests "$requests" --scale-tokens 32 --context 1536 --model "$model" \
  --layers 2 --kv-heads 1 --head-dim 32 --pages 200 --verify --rows 2000
