#!/bin/bash
# file_of_fio.sh BENCH [FOLDER [ROUNDS]]: what the connector `file` reaches of what fio reaches with io_uring, O_DIRECT, the same sizes and
# 32 in flight, in the same folder. They take turns. BENCH is quire_bench. fio writes in two ways: one file, synced at its end, which is the
# ceiling of the disk; and one file for each object, each synced, which is the same work. Prints rates and ratios, then medians.
set -eu
bench=$1 folder=${2:-$(mktemp -d)} rounds=${3:-5}
command -v fio >/dev/null || { echo "skipped: fio is not installed (Debian: fio)"; exit 77; }
made=""
[ $# -ge 2 ] || made=$folder
work=$folder/of-fio-$$
mkdir -p "$work/files"
trap 'rm -rf "$work" ${made:+"$made"}' EXIT

run_fio() {  # run_fio FIELD SIZE TOTAL OPTION...: MB/s
  local field=$1 size=$2 total=$3
  shift 3
  fio --name=objects --ioengine=io_uring --direct=1 --iodepth=32 --bs="$size" --size="$total" --output-format=terse "$@" |
    awk -F';' -v field="$field" '{ printf "%.0f", $field * 1.024 / 1000 }'
}
run_quire() {  # run_quire KIND OBJECT TOTAL: MB/s of the mean call
  QUIRE_BENCH_FOLDER=$work "$bench" --benchmark_filter="^transfer/file/$1/object:$2/piece:$2/" --benchmark_format=csv 2>/dev/null |
    awk -F, -v total="$3" '/^"transfer/ { printf "%.0f", total / $3 / 1000 }'
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

for shape in "2097152 64" "32768 1000"; do
  read -r object count <<<"$shape"
  total=$((object * count))
  for ((round = 1; round <= rounds; ++round)); do
    one_write=$(run_fio 48 "$object" "$total" --rw=write --end_fsync=1 --filename="$work/one")
    one_read=$(run_fio 7 "$object" "$total" --rw=read --filename="$work/one")
    many_write=$(run_fio 48 "$object" "$total" --rw=write --directory="$work/files" --nrfiles="$count" --filesize="$object" --openfiles=32 \
      --file_service_type=sequential --create_on_open=1 --fsync_on_close=1)
    many_read=$(run_fio 7 "$object" "$total" --rw=read --directory="$work/files" --nrfiles="$count" --filesize="$object" --openfiles=32 \
      --file_service_type=sequential)
    store=$(run_quire store "$object" "$total")
    load=$(run_quire load "$object" "$total")
    echo "$object $count store $store $one_write $many_write"
    echo "$object $count load $load $one_read $many_read"
    rm -rf "$work/files"/*
  done
done | awk '
  BEGIN { printf "%8s %6s %6s %12s %12s %12s %8s %8s\n", "object", "count", "", "file MB/s", "fio one", "fio many", "of one", "of many" }
  { printf "%8d %6d %6s %12d %12d %12d %8.2f %8.2f\n", $1, $2, $3, $4, $5, $6, $4 / $5, $4 / $6
    print $3 " of " $2 " x " $1 ": " "one " $4 / $5 > "/dev/stderr" }' 2>"$work/ratios"
echo "medians of file to fio's one file:"
for kind in $(cut -d: -f1 "$work/ratios" | tr ' ' '_' | sort -u); do
  name=$(echo "$kind" | tr '_' ' ')
  echo "  $name: $(grep -F "$name: " "$work/ratios" | awk '{ print $NF }' | median)"
done
