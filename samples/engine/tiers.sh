#!/bin/bash
# tiers.sh share|kill|wrong ENGINE: conversations that need four times the pool, over host memory and a directory.
#   share: at least 85 % of the hits of a pool in which everything fits, from both tiers. What is stored before its page is used again, and
#          what is worth fetching, depends on time: a quiet machine reaches 97 to 99 %, a busy one 93. QUIRE_FULL=1 asks for 95 %;
#   kill:  killed in the middle; a new process finds what the first one left in the directory;
#   wrong: a process with a fault leaves wrong states in the directory; the verification of the next one sees them.
# All other runs are verified: no mismatch. Exit code 77: the kernel does not let this process use io_uring.
set -u
what=$1 engine=$2
work=$(mktemp -d "$PWD/tiers.XXXXXX")
pid=
trap '[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null; rm -rf "$work"' EXIT
workload=(--conversations 24 --open 24 --turns 5 --batch 5 --rows 6000)
small=(--pool 4M)
host=(--tier host:12MiB)
file=(--tier "file:$work/objects:1GiB")

fail() { echo "FAILED: $*"; exit 1; }
# field NAME FILE [TIER]: a number from the report, of a tier if one is named.
field() {
  if [ $# -eq 3 ]; then sed -n "/\"name\": \"$3\"/,/}/p" "$2"; else cat "$2"; fi | grep -oE "\"$1\": [0-9]+" | head -1 | grep -oE '[0-9]+$'
}
# run NAME OPTIONS...: verified, without a mismatch.
run() {
  local name=$1
  shift
  "$engine" "${workload[@]}" "$@" --verify --json "$work/$name.json" >"$work/$name.log" 2>&1
  local code=$?
  grep -qE '^verified [1-9][0-9]* rows, 0 mismatches$' "$work/$name.log" && [ $code -eq 0 ] && return
  if grep -q 'UNAVAILABLE.*io_uring' "$work/$name.log"; then cat "$work/$name.log"; exit 77; fi
  cat "$work/$name.log"
  fail "$name: exit code $code"
}
enough() { # PART WHOLE PERCENT
  [ $((100 * $1)) -ge $(($3 * $2)) ]
}

share() {
  # Without fdatasync: how fast the disk is shall not decide.
  file=(--tier "file:{\"directory\": \"$work/objects\", \"bytes\": \"1GiB\", \"sync\": false}")
  run whole --pool 64M
  run without "${small[@]}"
  local all hits need pool bound=85
  [ "${QUIRE_FULL:-0}" != 1 ] || bound=95
  all=$(field hit_tokens "$work/whole.json") need=$(($(field pages_cached "$work/whole.json") * $(field pool_bytes "$work/whole.json") / $(field pages "$work/whole.json") >> 10))
  [ "$(field evicted_pages "$work/whole.json")" -eq 0 ] || fail "the large pool evicts"
  run tiers "${small[@]}" "${host[@]}" "${file[@]}"
  hits=$(field hit_tokens "$work/tiers.json") pool=$(($(field pool_bytes "$work/tiers.json") >> 10))
  echo "hit tokens: $all in a pool for everything, $(field hit_tokens "$work/without.json") in one of $pool KiB, $hits with tiers;" \
    "everything needs $need KiB"
  enough "$hits" "$all" $bound || fail "less than $bound %"
  enough "$need" "$pool" 390 || fail "the workload needs less than 3.9 times the pool"
  for tier in host file; do
    echo "$tier: $(field tokens_fetched "$work/tiers.json" $tier) tokens, $(field records_loaded "$work/tiers.json" $tier) records"
    [ "$(field records_loaded "$work/tiers.json" $tier)" -gt 0 ] || fail "nothing came from $tier"
  done
  [ "$(field rows_after_fetch "$work/tiers.json")" -gt 500 ] || fail "few rows after a fetch were verified"
}

objects() { find "$work/objects" -mindepth 2 -type f 2>/dev/null | wc -l; }

kill_and_restart() {
  run first "${small[@]}" "${host[@]}" "${file[@]}" --requests 2  # what it needs is there
  "$engine" "${workload[@]}" "${small[@]}" "${host[@]}" "${file[@]}" --conversations 1200 >"$work/killed.log" 2>&1 &
  pid=$!
  for ((i = 0; i < 600; ++i)); do
    [ "$(objects)" -ge 100 ] && break
    sleep 0.05
  done
  kill -9 "$pid"
  wait "$pid" 2>/dev/null
  [ $? -eq 137 ] || { cat "$work/killed.log"; fail "the process ended before it was killed"; }
  pid=
  local left
  left=$(objects)
  [ "$left" -ge 100 ] || fail "only $left objects in the directory"
  run second "${small[@]}" "${host[@]}" "${file[@]}"
  local fetched
  fetched=$(field tokens_fetched "$work/second.json" file)
  echo "$left objects were left; $fetched tokens came from the directory," \
    "$(field records_damaged "$work/second.json" file) records were damaged"
  [ "$fetched" -gt 1000 ] || fail "few hits from the directory"
  [ "$(field records_damaged "$work/second.json" file)" -eq 0 ] || fail "damaged records"
  # The first request of the same model finds records, that of another model none.
  run same "${small[@]}" "${file[@]}" --requests 1
  run other "${small[@]}" "${file[@]}" --seed 2 --requests 1
  [ "$(field records_found "$work/same.json" file)" -gt 0 ] || fail "the same model finds nothing"
  [ "$(field records_found "$work/other.json" file)" -eq 0 ] || fail "records of another seed"
}

wrong() {
  run first "${small[@]}" "${file[@]}" --requests 2
  # It reads states that are others', perhaps while a load writes them: ThreadSanitizer would be right, and is not asked.
  TSAN_OPTIONS="${TSAN_OPTIONS:-} report_bugs=0" "$engine" "${workload[@]}" "${small[@]}" "${file[@]}" --fault stale-state \
    >"$work/fault.log" 2>&1 || { cat "$work/fault.log"; fail fault; }
  "$engine" "${workload[@]}" "${small[@]}" "${file[@]}" --verify --json "$work/next.json" >"$work/next.log" 2>&1
  local code=$?
  tail -1 "$work/next.log"
  [ $code -eq 1 ] || fail "exit code $code"
  [ "$(field mismatches "$work/next.json")" -gt 0 ] || fail "no mismatch"
}

case $what in
  share) share ;;
  kill) kill_and_restart ;;
  wrong) wrong ;;
  *) fail "what is $what?" ;;
esac
