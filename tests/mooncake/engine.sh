#!/bin/bash
# engine.sh ENGINE LIBRARY: the engine sample with a mooncake tier over the library that stands in for Mooncake's. What a small pool loses
# comes back from the store, also in a second process, every row verified; damaged values are seen; a missing library is refused.
set -u
engine=$1 library=$2
work=$(mktemp -d "$PWD/mooncake.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/store"
fail() { echo "FAILED: $*"; exit 1; }
field() { sed -n '/"name": "mooncake"/,/}/p' "$2" | grep -oE "\"$1\": [0-9]+" | head -1 | grep -oE '[0-9]+$'; }
tier="mooncake:{\"library\": \"$library\", \"master\": \"$work/store\", \"threads\": 2, \"object_bytes\": \"8MiB\"}"
run() {
  "$engine" --conversations 24 --open 24 --turns 5 --batch 5 --rows 3000 --pool 4M --tier "$tier" --verify --json "$work/$1.json" \
    >"$work/$1.log" 2>&1 || { cat "$work/$1.log"; fail "$1"; }
  grep -qE '^verified [1-9][0-9]* rows, 0 mismatches$' "$work/$1.log" || { cat "$work/$1.log"; fail "$1: not verified"; }
}
run first
fetched=$(field tokens_fetched "$work/first.json")
run second
again=$(field tokens_fetched "$work/second.json")
echo "$(find "$work/store" -type f | wc -l) values; $fetched tokens were fetched, $again by a second process"
[ "$fetched" -gt 1000 ] || fail "few tokens came back"
[ "$again" -gt "$fetched" ] || fail "the second process finds no more than the first one"
# A bit of every third value.
n=0
for value in "$work"/store/*; do
  n=$((n + 1))
  [ $((n % 3)) -eq 0 ] || continue
  printf '\x55' | dd of="$value" bs=1 seek=5000 conv=notrunc status=none
done
run damaged
damaged=$(field records_damaged "$work/damaged.json")
echo "$damaged records were damaged"
[ "$damaged" -gt 0 ] || fail "damage was not seen"
"$engine" --tier 'mooncake:{"master": "a:1", "library": "libno_such_mooncake.so"}' >"$work/missing.log" 2>&1 && fail "no library, and no error"
grep -q 'libno_such_mooncake.so' "$work/missing.log" || { cat "$work/missing.log"; fail "the error does not name the library"; }
