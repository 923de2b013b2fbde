#!/bin/bash
# pd.sh WHAT BIN MODELS: runs of the sample on loopback.
#   equal:   prompts come, nothing is recomputed, every row is right;
#   unequal: the same with other blocks, orders and policies at both ends, other kinds of layers;
#   full:    a decode worker whose pool is too small for its concurrent requests;
#   fault:   a damaged row at the reader's end is found, and the run fails;
#   alone:   without a worker that computes prompts requests are answered, but nothing moves, so the run fails;
#   refuses: bad options, another unit.
set -u
what=$1 bin=$2 models=$3
work=$(mktemp -d -p "$PWD")
router='' pids=()
trap 'for pid in "$router" "${pids[@]}"; do [ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null; done; rm -rf "$work"' EXIT
fail() { cat "$work"/*.log 2>/dev/null; echo "FAILED: $*"; exit 1; }
number() { sed -nE "s/(.*[^0-9])?([0-9]+) $1.*/\2/p" "$work/router.log" | tail -1; }

model=()
start_router() { # WORKERS
  pids=()
  rm -f "$work"/*.log
  : >"$work/router.log"
  "$bin/quire_pd_router" 127.0.0.1:0 "$1" 20000 100 -- --conversations 12 --turns 3 ${model[@]+"${model[@]}"} >"$work/router.log" 2>&1 &
  router=$!
  for _ in {1..200}; do grep -q ^port "$work/router.log" && break; sleep 0.05; done
  port=$(sed -nE 's/^port ([0-9]+)$/\1/p' "$work/router.log")
  [ -n "$port" ] || fail "the router did not start"
}
start_worker() { # ROLE, its options, --, those of the engine
  local role=$1
  shift
  "$bin/quire_pd_worker" "$role" --router "127.0.0.1:$port" "$@" ${model[@]+"${model[@]}"} >"$work/worker${#pids[@]}.log" 2>&1 &
  pids+=($!)
}
expect_end() { # CODE: of the router; workers end well
  wait "$router"
  local code=$?
  router=
  [ $code -eq "$1" ] || fail "the router ended with $code, not $1"
  for pid in "${pids[@]}"; do wait "$pid" || fail "a worker ended with $?"; done
  pids=()
  grep ^verified "$work/router.log"
}
pair() { # UNIT PREFILL-OPTIONS DECODE-OPTIONS
  start_router 2
  # shellcheck disable=SC2086
  start_worker prefill --unit "$1" -- --pool 32M $2
  # shellcheck disable=SC2086
  start_worker decode --unit "$1" --deadline 10000 -- --pool 32M $3
  expect_end 0
  local came recomputed
  came=$(number 'tokens from peers') recomputed=$(number recomputed)
  [ "$(number mismatches)" -eq 0 ] && [ "$(number 'sent again')" -eq 0 ] || fail "requests were sent again"
  [ "$recomputed" -eq 0 ] || fail "not everything came: $recomputed tokens were recomputed, $came came"
  [ "$came" -gt 1000 ] && [ "$(number rows)" -gt 20000 ] || fail "little moved"
}

case $what in
  equal)
    pair 64 "" ""
    pair 80 "--policy vllm" "--policy vllm" ;;
  unequal)
    pair 64 "--block 32 --budget 100" "--block 16"
    model=(--model "$models/llama-3.1-8b.json" --layers 3 --head-dim 32 --kv-heads 2)
    pair 32 "--policy vllm" "--policy auto --block 32"
    model=(--model "$models/gemma-3-4b.json" --layers 6 --head-dim 32 --kv-heads 2)
    pair 32 "--block 16" "--block 32" ;;
  full)
    for pool in 1500K 900K; do  # the smaller one computes all prompts itself, and all begin at once
      [ $pool = 1500K ] && start_router 2 || start_router 1
      [ $pool = 1500K ] && start_worker prefill -- --pool 32M
      start_worker decode --slots 16 --deadline 10000 -- --pool $pool
      [ $pool = 1500K ] && expect_end 0 || expect_end 3
      [ "$(number mismatches)" -eq 0 ] && [ "$(number lost)" -eq 0 ] || fail "not every answer is right"
      grep -h "starts again: the pool is full" "$work"/worker*.log >>"$work/restarts"
    done
    [ -s "$work/restarts" ] || fail "no pool was ever full"
    echo "$(wc -l <"$work/restarts") times a request started again" ;;
  fault)
    head -c 32 /dev/urandom >"$work/secret"
    start_router 2
    start_worker prefill --secret "$work/secret" --
    start_worker decode --secret "$work/secret" --deadline 10000 --fault wrong-row -- --pool 32M
    expect_end 1
    [ "$(number mismatches)" -gt 0 ] || fail "no mismatch was counted" ;;
  alone)
    start_router 1
    start_worker decode -- --pool 32M
    expect_end 3
    grep -q "nothing moved between processes" "$work/router.log" || fail "the router does not say why"
    [ "$(number recomputed)" -gt 1000 ] && [ "$(number lost)" -eq 0 ] || fail "not everything was recomputed" ;;
  refuses)
    for wrong in "" "nobody --router 127.0.0.1:1" "prefill" "decode --router 127.0.0.1:1 --slots 0" "prefill --router 127.0.0.1:1 --nonsense 1" \
      "decode --router 127.0.0.1:1 --fault nonsense" "decode --router 127.0.0.1:1 -- --nonsense"; do
      # shellcheck disable=SC2086
      "$bin/quire_pd_worker" $wrong >"$work/wrong.log" 2>&1
      [ $? -eq 2 ] || fail "'$wrong' is not refused"
    done
    "$bin/quire_pd_worker" decode --router 127.0.0.1:1 >"$work/wrong.log" 2>&1
    [ $? -eq 3 ] && grep -q "127.0.0.1:1: Connection refused" "$work/wrong.log" || fail "a router that is not there"
    "$bin/quire_pd_worker" decode --router nowhere >"$work/wrong.log" 2>&1
    [ $? -eq 3 ] && grep -q "nowhere is not an address" "$work/wrong.log" || fail "an address that is none"
    "$bin/quire_pd_worker" decode --router 127.0.0.1:1 --unit 17 >"$work/wrong.log" 2>&1
    [ $? -eq 2 ] && grep -q "unit_tokens: 17" "$work/wrong.log" || fail "a unit of 17 tokens"
    "$bin/quire_pd_router" 127.0.0.1:0 >"$work/wrong.log" 2>&1
    [ $? -eq 2 ] || fail "a router without arguments"
    start_router 2
    start_worker prefill --unit 64 --
    start_worker decode --unit 128 --
    expect_end 3
    grep -q "all workers need the same --unit" "$work/router.log" || fail "another unit is not refused" ;;
  *) fail "what is $what?" ;;
esac
