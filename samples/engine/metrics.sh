#!/bin/bash
# metrics.sh ENGINE: while it serves, the engine answers /metrics with what it has done. An address that is taken or wrong is refused.
set -u
engine=$1
work=$(mktemp -d)
pid=
fail() {
  echo "FAILED: $1"
  cat "$work"/*.err 2>/dev/null
  exit 1
}
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null; rm -rf "$work"' EXIT

get() {  # get PORT: the body of /metrics
  exec 4<>"/dev/tcp/127.0.0.1/$1" || return 1
  printf 'GET /metrics HTTP/1.0\r\n\r\n' >&4
  sed '1,/^\r$/d' <&4
  exec 4>&-
}

mkfifo "$work/requests"
for ((try = 0; try < 20; ++try)); do  # until a port is free
  port=$((20000 + RANDOM % 20000))
  "$engine" --serve --verify --tier host:64MiB --metrics "127.0.0.1:$port" <"$work/requests" >"$work/answers" 2>"$work/engine.err" &
  pid=$!
  exec 3>"$work/requests"
  for ((i = 0; i < 600; ++i)); do
    grep -q ready "$work/answers" && break 2
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
  done
  exec 3>&-
  wait "$pid"
  pid=
  grep -q ALREADY_EXISTS "$work/engine.err" || fail "the engine did not start"
done
[ -n "$pid" ] || fail "no port was free"
"$engine" --list-requests --conversations 3 --turns 3 >"$work/lines" || fail "no requests"
asked=$(grep -c '"prompt"' "$work/lines")
grep '"prompt"' "$work/lines" >&3
for ((i = 0; i < 1200; ++i)); do
  [ "$(grep -c '"verified_rows"' "$work/answers")" -lt "$asked" ] || break
  sleep 0.05
done
get "$port" >"$work/metrics" || fail "no answer at port $port"
value() { sed -n "s/^$1 \([0-9.e+]*\)\$/\1/p" "$work/metrics"; }
for sample in quire_steps_total quire_prefix_cache_queries_total quire_prefix_cache_hits_total 'quire_kv_offload_store_bytes_total{tier="0:host"}' \
  'quire_ops_total{driver="cpu",device="0",op="attention",result="queued"}'; do
  [ "$(value "$sample")" != "" ] && [ "$(value "$sample")" != 0 ] || fail "$sample is $(value "$sample")"
done
"$engine" --metrics "127.0.0.1:$port" --requests 1 >"$work/second" 2>"$work/second.err"
[ $? -eq 3 ] && grep -qF ALREADY_EXISTS "$work/second.err" || fail "two engines at one port"
exec 3>&-
wait "$pid" || fail "exit code $? of the engine"
pid=
grep -q '"ended": true' "$work/answers" || fail "the engine did not end"
echo "$asked requests, $(value quire_steps_total) steps in the metrics"
