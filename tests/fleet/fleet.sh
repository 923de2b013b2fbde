#!/bin/bash
# fleet.sh WHAT FLEET: runs of the sample. Every request is answered exactly once, every verified row is right, and afterwards there is
# no process and no folder of it.
#   runs:    the store adds hits, and the router moves them into the engines' pools
#   kills:   engines are killed and started again while requests run
#   store:   the store is killed and comes back empty, and engines are killed as well
#   hangs:   engines are stopped; whoever is silent for too long is killed, and its requests are sent again
#   faults:  engines that compute wrong rows, that answer twice, that die
#   options: bad options, programs that are not there
#   signals: Ctrl-C, SIGTERM and SIGKILL end everything
# Exit code 77: redis-server is not installed.
set -u
what=$1 fleet=$2
command -v redis-server >/dev/null || { echo "skipped: redis-server (Debian: redis-server) is not installed"; exit 77; }
work=$(mktemp -d "$PWD/fleet.XXXXXX")
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null; rm -rf "$work"' EXIT
small=(--conversations 12 --open 12 --turns 3 --pool 3M)
engine=$(dirname "$fleet")/quire_engine

fail() { echo "FAILED: $*"; cat "$work/log" 2>/dev/null; exit 1; }
# field NAME RUN: a number of a run from the JSON file.
field() { sed -n "/\"name\": \"$2\"/,/}/p" "$work/table.json" | grep -oE "\"$1\": [0-9]+" | grep -oE '[0-9]+$'; }
children() { # PID...: all processes below them
  local p
  for p in "$@"; do
    local below
    below=$(awk -v parent="$p" '{ sub(/^.*\) /, ""); if ($2 == parent) print FILENAME }' /proc/[0-9]*/stat 2>/dev/null |
      cut -d/ -f3)
    # shellcheck disable=SC2086
    [ -z "$below" ] || { echo $below; children $below; }
  done
}
nothing_is_left() {
  [ -z "$(ls "$TMPDIR")" ] || fail "left in the folder of temporary files: $(ls "$TMPDIR")"
  ! grep -slF "$TMPDIR" /proc/[0-9]*/cmdline || fail "processes are left"
}
# run OPTIONS...: ends well and leaves nothing.
run() {
  "$fleet" --json "$work/table.json" "$@" -- "${small[@]}" >"$work/log" 2>&1
  local code=$?
  [ $code -eq 0 ] || fail "exit code $code"
  tail -1 "$work/log" | grep -qE '^verified: [1-9][0-9]* rows, 0 mismatches$' || fail "the last line is: $(tail -1 "$work/log")"
  local requests
  requests=$(sed -nE 's/^[0-9]+ engines, ([0-9]+) requests.*/\1/p' "$work/log")
  for name in alone 'with store' 'store and router'; do
    [ "$(field requests "$name")" = "$requests" ] || fail "$name: $(field requests "$name") of $requests requests"
    [ "$(field verified_rows "$name")" -ge "$requests" ] || fail "$name: few rows were verified"
  done
  nothing_is_left
}
hits() { echo $(($(field local_hit_tokens "$1") + $(field store_hit_tokens "$1"))); }
seed=${QUIRE_SEED:-1}
echo "QUIRE_SEED=$seed"

case $what in
runs)
  small=(--conversations 18 --open 12 --turns 4 --pool 3M)
  run --seed "$seed"
  cat "$work/log"
  alone=$(hits alone) store=$(hits 'with store') router=$(hits 'store and router') all=$(field prompt_tokens alone)
  [ "$(field store_hit_tokens alone)" -eq 0 ] && [ "$(field store_bytes_written alone)" -eq 0 ] || fail "alone there is no store"
  [ $((100 * (store - alone))) -ge $((8 * all)) ] || fail "the store adds less than 8 % of the prompt tokens: $alone, $store"
  [ $((100 * (router - alone))) -ge $((8 * all)) ] || fail "store and router add less than 8 % of the prompt tokens: $alone, $router"
  moved=$(($(field local_hit_tokens 'store and router') - $(field local_hit_tokens 'with store')))
  [ $((100 * moved)) -ge $((5 * all)) ] || fail "the router adds less than 5 % of the prompt tokens to what is hit in pools: $moved"
  [ "$(field store_bytes_read 'store and router')" -lt "$(field store_bytes_read 'with store')" ] || fail "with the router more is read"
  [ "$(field event_batches 'store and router')" -gt 20 ] || fail "few events"
  [ "$(field engines_started alone)" -eq 3 ] || fail "engines were started again"
  ;;
kills)
  run --seed "$seed" --kill 6
  for name in alone 'with store' 'store and router'; do
    [ "$(field engines_killed "$name")" -ge 5 ] || fail "$name: few were killed"
    [ "$(field engines_started "$name")" -eq $((3 + $(field engines_killed "$name"))) ] || fail "$name: not all were started again"
    [ "$(field requests_sent_again "$name")" -ge 1 ] || fail "$name: nothing was sent again"
  done
  run --seed "$seed" --engines 1 --kill 15
  ;;
store)
  run --seed "$seed" --kill-store
  [ "$(field store_killed alone)" -eq 0 ] || fail "alone there is no store"
  [ "$(field store_killed 'store and router')" -eq 1 ] || fail "the store was not killed"
  run --seed "$seed" --engines 1 --kill-store --kill 2
  [ "$(field store_killed 'with store')" -eq 1 ] || fail "the store of one engine was not killed"
  run --seed "$seed" --kill-store --kill 5 --in-flight 6
  [ "$(field store_killed 'with store')" -eq 1 ] || fail "the store was not killed"
  ;;
hangs)
  run --seed "$seed" --stop 20 --deadline 3
  for name in alone 'with store' 'store and router'; do
    [ "$(field engines_hung "$name")" -ge 1 ] || fail "$name: nothing hung"
    [ "$(field requests_sent_again "$name")" -ge 1 ] || fail "$name: nothing was sent again"
  done
  ;;
faults)
  "$fleet" -- "${small[@]}" --fault swap-block >"$work/log" 2>&1
  [ $? -eq 1 ] && grep -qE '^verified: [0-9]+ rows, [1-9][0-9]* mismatches$' "$work/log" || fail "wrong rows were not noticed"
  # breaks TEXT SCRIPT: an engine whose answers go through a script makes the fleet say TEXT.
  breaks() {
    printf '#!/bin/bash\ncase "$*" in *--serve*) %s ;; *) exec %q "$@" ;; esac\n' "$2" "$engine" >"$work/engine"
    chmod +x "$work/engine"
    "$fleet" --engine "$work/engine" -- "${small[@]}" >"$work/log" 2>&1
    [ $? -eq 3 ] && grep -qF -- "$1" "$work/log" || fail "no '$1'"
    nothing_is_left
  }
  breaks ' ended: exit code 7' 'echo broken at start >&2; exit 7'
  grep -qx 'broken at start' "$work/log" || fail "its standard error is not shown"
  breaks 'which it does not have' "$engine \"\$@\" | sed -u 'p'"
  breaks 'ended: exit code 0' "$engine \"\$@\" | sed -u 5q"
  breaks 'parse error' "$engine \"\$@\" | sed -u 's/\"id\"/id/'"
  ;;
options)
  refuses() { # CODE TEXT OPTIONS...
    local code=$1 text=$2
    shift 2
    "$fleet" "$@" >"$work/log" 2>&1
    [ $? -eq "$code" ] && grep -qF -- "$text" "$work/log" || fail "quire_fleet $* was not refused with $code and '$text'"
    nothing_is_left
  }
  refuses 2 '--engines' --engines 0
  refuses 2 '--kill' --kill 0
  refuses 2 '--deadline' --deadline soon
  refuses 2 '--nonsense' --nonsense
  refuses 2 'no program nosuch-server (Debian: redis-server)' --store nosuch-server
  refuses 3 'cannot start /nonexistent/engine' --engine /nonexistent/engine
  refuses 2 'unknown option --nonsense' -- --nonsense
  refuses 2 'RESOURCE_EXHAUSTED' -- --pages 4
  refuses 3 'the store false ended: exit code 1' --store false -- --conversations 1 --turns 1
  refuses 3 'cannot write /nonexistent/table' --json /nonexistent/table -- --conversations 1 --turns 1
  long=$work/$(printf '%0120d' 0)
  mkdir "$long"
  TMPDIR=$long refuses 2 "would be too long" -- --conversations 1 --turns 1
  "$fleet" --help >"$work/log" || fail "--help"
  grep -q -- --kill-store "$work/log" || fail "--help lacks options"
  ;;
signals)
  # ends SIGNAL CODE: in the middle of a run.
  ends() {
    "$fleet" -- --conversations 400 --open 12 --pool 3M >"$work/log" 2>&1 &
    pid=$!
    for ((i = 0; i < 1200; ++i)); do
      below=$(children "$pid")
      # shellcheck disable=SC2086
      [ "$(grep -slE -- '--serve' $(printf '/proc/%s/cmdline ' $below) | wc -l)" -eq 3 ] && break
      sleep 0.05
    done
    [ "$i" -lt 1200 ] || fail "engines do not start"
    sleep 0.3
    kill "-$1" "$pid"
    wait "$pid"
    local code=$?
    pid=
    [ $code -eq "$2" ] || fail "exit code $code after SIG$1"
    for ((i = 0; i < 200; ++i)); do
      grep -slF "$TMPDIR" /proc/[0-9]*/cmdline >/dev/null || break
      sleep 0.05
    done
    [ "$1" != KILL ] || rm -rf "$TMPDIR"/quire-fleet-*
    nothing_is_left
  }
  ends INT 130
  grep -qF 'interrupted' "$work/log" || fail "Ctrl-C says nothing"
  ends TERM 143
  ends KILL 137
  ;;
*) fail "what is $what?" ;;
esac
