#!/bin/bash
# policies.sh ENGINE: the same conversations under three plans, with and without prefix reuse: every run is verified, and all six give the
# same outputs: the rows that symbols are sampled from, layer by layer, as --outputs writes them. With reuse prefixes were hit.
set -u
engine=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
options=(--conversations 8 --turns 3 --open 5 --batch 5 --layers 4 --context 512 --pool 4M --rows 1000 --verify)
hits() { sed -nE 's/.*"hit_tokens": ([0-9]+),.*/\1/p' "$1"; }

for policy in auto vllm pack:4; do
  for reuse in with without; do
    name=$work/$policy.$reuse
    more=()
    [ $reuse = without ] && more=(--no-reuse)
    if ! "$engine" "${options[@]}" --policy $policy ${more[@]+"${more[@]}"} --outputs "$name.rows" --json "$name.json" >"$name.log" 2>&1; then
      cat "$name.log"
      echo "FAILED: --policy $policy $reuse reuse"
      exit 1
    fi
    grep -qE '^verified [1-9][0-9]* rows, 0 mismatches$' "$name.log" || { echo "FAILED: $name.log has no verdict"; cat "$name.log"; exit 1; }
    if [ $reuse = with ] && [ "$(hits "$name.json")" -eq 0 ]; then echo "FAILED: --policy $policy hit nothing"; exit 1; fi
    if [ $reuse = without ] && [ "$(hits "$name.json")" -ne 0 ]; then echo "FAILED: --policy $policy --no-reuse hit something"; exit 1; fi
    # Keys and symbols are equal; numbers to the rounding of sums of another order. Of rows that were computed twice all are compared.
    awk -v first="$work/auto.with.rows" -v name="policy $policy, $reuse reuse" -v hit="$(hits "$name.json")" '
      function far(a, b, length_of) { return a - b > 1e-4 * length_of || b - a > 1e-4 * length_of }
      FILENAME == first && !done { symbols[$1] = $2; norm[$1] = $3; sum[$1] = $4 }
      FILENAME != first || done {
        if (!($1 in symbols)) { print "FAILED: row " $1 " is in one run only"; bad = 1; exit }
        # a sum of n numbers of either sign is as uncertain as their length, times sqrt(n)
        if (symbols[$1] != $2 || far(norm[$1], $3, norm[$1]) || far(sum[$1], $4, 30 * norm[$1])) {
          print "FAILED: row " $1 ": " symbols[$1] " " norm[$1] " " sum[$1] " and " $2 " " $3 " " $4; bad = 1; exit
        }
        if (!($1 in seen)) { seen[$1] = 1; ++n }
      }
      END {
        for (key in symbols) ++all
        if (!bad && n != all) { print "FAILED: " n " rows of " all; bad = 1 }
        if (!bad && all < 1000) { print "FAILED: only " all " rows"; bad = 1 }
        if (!bad) print name ": " n " rows, " hit " tokens hit"
        exit bad
      }' "$work/auto.with.rows" done=1 "$name.rows" || { echo "FAILED: --policy $policy $reuse reuse"; exit 1; }
  done
done
