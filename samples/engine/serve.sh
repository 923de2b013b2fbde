#!/bin/bash
# serve.sh ENGINE [events]: requests as lines, as they arrive: each is answered once, and verified. What a line or an endpoint can be
# wrong in is refused. With `events`: libquire_zmq was built.
set -u
engine=$1 events=${2:-}
work=$(mktemp -d "$PWD/serve.XXXXXX")
pid=
trap '[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null; rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; cat "$work"/*.err 2>/dev/null; exit 1; }
serve() { "$engine" --serve --verify --threads 1 "$@" 2>"$work/serve.err"; }
"$engine" --list-requests --conversations 5 --turns 3 --open 4 >"$work/requests" 2>"$work/list.err" || fail "--list-requests"
number=$(wc -l <"$work/requests")
[ "$number" -ge 12 ] || fail "only $number requests"

# Every one is answered once, with the numbers that a client needs; the pool does not change an answer.
sorted() { grep '^{"id"' "$1" | sed -E 's/^\{"id": ([0-9]+),.*"answer": (.*)\}$/\1 \2/' | sort -n; }
for pool in 860K 8M; do
  serve --pool $pool <"$work/requests" >"$work/$pool" || fail "exit code $? with a pool of $pool"
  head -1 "$work/$pool" | grep -q '^{"ready": true, .*"match_unit_tokens": [1-9]' || fail "no greeting"
  tail -1 "$work/$pool" | grep -qE '^\{"ended": true, "verified_rows": [1-9][0-9]+, "mismatches": 0\}$' ||
    fail "no end: $(tail -1 "$work/$pool")"
  sorted "$work/$pool" >"$work/$pool.answers"
  [ "$(cut -d' ' -f1 "$work/$pool.answers" | uniq | wc -l)" -eq "$number" ] || fail "not every request was answered once"
  [ "$(grep -c '"verified_rows": 0,' "$work/$pool")" -eq 0 ] || fail "an answer without a verified row"
done
cmp "$work/860K.answers" "$work/8M.answers" || fail "answers depend on the pool"
grep '^{"id"' "$work/8M" | grep -qE '"hit_tokens": [1-9]' || fail "no hit"

# They are served as they arrive: the answer is there while the input is still open.
mkfifo "$work/input" "$work/output"
serve <"$work/input" >"$work/output" &
pid=$!
exec 3>"$work/input" 4<"$work/output"
read -r -t 60 line <&4 || fail "no greeting while the input is open"
for i in 1 2 3; do
  sed -n ${i}p "$work/requests" >&3
  read -r -t 60 line <&4 || fail "no answer while the input is open"
  [ "${line:0:$((7 + ${#i}))}" = "{\"id\": $((i - 1))" ] || fail "not the answer to request $i: $line"
done
# A line without its end counts when the input ends.
printf '%s' "$(sed -n 4p "$work/requests")" >&3
exec 3>&-
read -r -t 60 line <&4 && [ "${line:0:8}" = '{"id": 3' ] || fail "no answer to the last line: $line"
read -r -t 60 line <&4 && [ "${line:0:8}" = '{"ended"' ] || fail "no end: $line"
exec 4<&-
wait "$pid" || fail "exit code $? at the end of the input"
pid=

# A fault is noticed in the answers.
serve --fault swap-block <"$work/requests" >"$work/fault"
[ $? -eq 1 ] && tail -1 "$work/fault" | grep -qE '"mismatches": [1-9]' || fail "a fault was not noticed"

refuses() { # TEXT LINE
  printf '%s\n' "$2" | serve >"$work/refused"
  [ $? -eq 2 ] && grep -qF -- "standard input, line 1: $1" "$work/serve.err" || fail "'$2' was not refused with '$1'"
}
refuses "id is missing" '{"output_length": 1, "prompt": [1]}'
refuses "id is missing" '{"id": 99999999999999999999, "output_length": 1, "prompt": [1]}'
refuses "output_length is missing" '{"id": 1, "output_length": 0, "prompt": [1]}'
refuses "tenant is not 0 or 1" '{"id": 1, "tenant": 2, "output_length": 1, "prompt": [1]}'
refuses "samples is not 1 or 2" '{"id": 1, "samples": 3, "output_length": 1, "prompt": [1]}'
refuses "prompt is missing" '{"id": 1, "output_length": 1}'
refuses "prompt is empty" '{"id": 1, "output_length": 1, "prompt": []}'
refuses "prompt is empty, or does not fit" "{\"id\": 1, \"output_length\": 2048, \"prompt\": [1]}"
refuses "prompt is not an array" '{"id": 1, "output_length": 1, "prompt": [1, 4294967296]}'
refuses "prompt is not an array" '{"id": 1, "output_length": 1, "prompt": [1, "2"]}'

[ "$events" = events ] || exit 0
# Two engines do not share an endpoint. Batches are counted in the answers.
serve --events "ipc://$work/events" --event-replays "ipc://$work/replays" <"$work/requests" >"$work/published" ||
  fail "exit code $? with events"
tail -2 "$work/published" | head -1 | grep -qE '"event_batches": [1-9]' || fail "no batch of events"
mkfifo "$work/other"
serve --events "ipc://$work/events" <"$work/other" >"$work/first" &
pid=$!
exec 3>"$work/other"
for ((i = 0; i < 600; ++i)); do
  grep -q ready "$work/first" && break
  sleep 0.05
done
"$engine" --serve --events "ipc://$work/events" </dev/null >"$work/second" 2>"$work/second.err"
[ $? -eq 3 ] && grep -qF "ALREADY_EXISTS" "$work/second.err" || fail "two engines at one endpoint"
exec 3>&-
wait "$pid" || fail "exit code $? of the first engine"
pid=
