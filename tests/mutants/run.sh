#!/bin/bash
# Applies bugs that are kept as patches, one at a time, and says which test catches each.
#   tests/mutants/run.sh BUILD (--all | --rotate N | NAME...)      tests/mutants/run.sh --check
# BUILD is a build folder with the tests built. A mutant costs the compilation of the units that it changes and one linking for each test, of
# the library, or of a module: nothing else is built, and neither the tree nor BUILD's objects change.
# --rotate N takes N mutants, other ones for every commit; the canaries always run: one must be caught, and one must not be.
# --check says only whether every patch still applies, and that there are 40 at least.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
all() { find "$here" -name '*.patch' ! -name 'canary-*' -printf '%f\n' | sed 's/\.patch$//' | sort; }

apply() {  # apply NAME FOLDER: the files that the mutant changes, changed
  local file
  for file in $(sed -nE 's|^\+\+\+ b/||p' "$here/$1.patch"); do
    mkdir -p "$2/$(dirname "$file")"
    cp "$root/$file" "$2/$file" || return 2
  done
  patch -d "$2" -p1 -s -f -N -F 3 --no-backup-if-mismatch <"$here/$1.patch"
}

if [ "${1:-}" = --check ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  bad=0
  for name in $(all) canary-caught canary-harmless; do
    apply "$name" "$folder/$name" >"$folder/log" 2>&1 && continue
    bad=$((bad + 1))
    echo "tests/mutants/$name.patch does not apply any more: make the same mistake in today's code"
    sed 's/^/  /' "$folder/log"
  done
  echo "$(all | wc -l) mutants, $bad do not apply"
  [ $bad -eq 0 ] && [ "$(all | wc -l)" -ge 40 ]
  exit
fi
[ $# -ge 2 ] || { sed -n 2,8p "$0"; exit 2; }
build=$(cd "$1" && pwd) || exit 2
shift

# The tests that a bug in a file must be caught by, quickest first. Those of core have its archive in them: the mutant's objects stand before
# it. unit_c_api and the tests of tiers get a library of their own, the conformance kit a module.
tests_of() {  # tests_of FILE
  case $1 in
    core/model/* | core/plan/* | core/layout/*) echo unit_layout unit_plan unit_model model_tables ;;
    core/c_api/*) echo unit_c_api ;;
    core/connector/*) echo unit_connector ;;
    drivers/cpu/threads.cc) echo unit_cpu_threads ;;
    drivers/cpu/container.cc) echo unit_cpu_container ;;
    drivers/common/* | drivers/cpu/*) echo conformance_cpu ;;
    plugins/host/* | plugins/common/*) echo host_store host_repair host_rules connector_host ;;
    plugins/file/*) echo file_store ;;
    plugins/mooncake/*) echo mooncake_answers mooncake_late mooncake_settings ;;
    plugins/ucx/ucx_offers.* | plugins/ucx/ucx_seal.* | plugins/ucx/ucx_wire.* | plugins/ucx/ucx_key.*) echo ucx_parts ;;
    plugins/ucx/ucx_near* | plugins/ucx/ucx_ring.*) echo ucx_near ;;
    plugins/ucx/*) echo ucx_late ucx_hostile ucx_kills ;;
    plugins/redis/listing.cc) echo redis_faults ;;
    samples/fleet/*) echo fleet_parts ;;
    plugins/zmq/*) echo zmq_wire zmq_index zmq_create zmq_failures zmq_slow ;;
    core/records/*) echo unit_records tier_records tier_families ;;
    core/tier/device_staging.cc | core/tier/offer_copies.cc | core/tier/offer_memory.cc) echo tier_device ;;
    core/tier/offers.cc | core/tier/awaiting.cc) echo tier_offers ;;
    core/tier/* | core/session/*) echo tier_offers metrics_text tier_fetch tier_families tier_records tier_memory ;;
    core/metrics/*) echo metrics_text ;;
    core/events/block_hash.cc) echo unit_events unit_step model_allocations ;;
    core/events/event_recorder.cc) echo unit_step model_scenarios model_simulate tier_fetch ;;
    *) echo unit_pool unit_prefix unit_step model_scenarios model_simulate model_exhaustive ;;
  esac
}
targets() {  # targets TESTS: what of them must be built
  local test
  for test in "$@"; do
    case $test in
      unit_c_api | tier_* | metrics_text) echo "$test" quire ;;
      conformance_cpu) echo quire_conformance quire_driver_cpu ;;
      host_rules | connector_host) echo "$test" quire_connector_host ;;
      mooncake_*) echo "$test" quire_connector_mooncake ;;
      ucx_late | ucx_hostile | ucx_kills | ucx_near) echo "$test" ucx_peer quire_connector_ucx ;;
      *) echo "$test" ;;
    esac
  done
}
work=$build/mutants
mkdir -p "$work"
export GTEST_FAIL_FAST=1  # the first test that fails has caught it

rotating() {  # N of all, beginning where the number of the commit says; printed with the rest
  local number=${QUIRE_MUTANTS_FROM:-$(git -C "$root" rev-list --count HEAD 2>/dev/null || date +%j)} names total i
  mapfile -t names < <(all)
  total=${#names[@]}
  for ((i = 0; i < $1; i++)); do echo "${names[$(((number * $1 + i) % total))]}"; done
}

# The unit that compiles a source: itself, or the one that includes it (QUIRE_UNITY).
unit_of() {  # unit_of SOURCE
  if grep -qF -- " -c $root/$1\"" "$build/compile_commands.json"; then echo "$root/$1"; return; fi
  grep -rlxF "#include \"$root/$1\"" "$build" --include='unity_*_cxx.cxx' | head -n 1
}

# The units that include a header, as ninja noted them: of a mutant that changes headers alone.
units_with() {  # units_with HEADER
  local object
  ninja -C "$build" -t deps 2>/dev/null | awk -v end="/$1" '
    /#deps/ { object = $1; sub(/:$/, "", object) }
    substr($0, length($0) - length(end) + 1) == end { print object }' | while read -r object; do
    grep -F -- " -o $object " "$build/compile_commands.json" | sed -nE 's|.* -c ([^"]+)",?$|\1|p'
  done
}

# The command that compiled a unit, with the mutant's sources. Its object lies in OVERLAY/objects where the build's lies in the build.
compile() {  # compile UNIT OVERLAY: prints the object
  local command object source file
  command=$(sed -nE 's/^ *"command": "(.*)",?$/\1/p' "$build/compile_commands.json" | grep -F -- " -c $1" | head -n 1 | sed -E 's/\\(["\\])/\1/g')
  [ -n "$command" ] || { echo "no command compiles $1" >&2; return 1; }
  object=$2/objects/$(sed -E 's|.* -o ([^ ]+) .*|\1|' <<<"$command")
  mkdir -p "$(dirname "$object")"
  source=$2/${1#"$root/"}
  [ -e "$source" ] || source=$1
  if [[ $1 == *unity_*_cxx.cxx ]]; then
    source=$object.cxx
    cp "$1" "$source"
    for file in $(cd "$2" && find . -name '*.cc' | sed 's|^\./||'); do sed -i "s|\"$root/$file\"|\"$2/$file\"|" "$source"; done
  fi
  command=$(sed -E "s| -o [^ ]+| -o $object|; s| -c [^ ]+| -w -c $source|" <<<"$command")
  (cd "$build" && eval "${command/ -I/ -I$2 -I}") >&2 && echo "$object"
}

# A link command with the mutant's objects in place of the build's, or of a test's own objects of the same sources.
with_objects() {  # with_objects COMMAND OBJECTS...
  local command="$1 " object
  shift
  for object in "$@"; do
    command=$(sed -E "s| ${object#*/objects/} | $object |" <<<"$command")
    [[ $object == *unity_* ]] || command=$(sed -E "s| tests/[^ ]*/$(basename "$object") | $object |" <<<"$command")
  done
  echo "$command"
}

link() {  # link TEST EXECUTABLE OBJECTS...
  local test=$1 executable=$2 command object of_archives=()
  shift 2
  for object in "$@"; do [[ ${object#*/objects/} == tests/* ]] || of_archives+=("$object"); done  # a test's own take its objects' places
  command=$(ninja -C "$build" -t commands "$test" | tail -n 1 | sed -E 's/^: && //; s/ && :$//')
  command=$(sed -E "s| -o [^ ]+| -o $executable|; s| lib/libquire_(core\|host_store\|file_store\|redis_store\|ucx_store\|zmq_publisher\|fleet_parts).a| ${of_archives[*]} &|" <<<"$command")
  (cd "$build" && eval "$(with_objects "$command" "$@")")
}

# The library or a module with the mutant's objects in place of its own.
relink() {  # relink TARGET FILE OBJECTS...
  local target=$1 out=$2 command archive=${archive:-host_store}
  shift 2
  command=$(ninja -C "$build" -t commands "$target" | grep -E -- ' -shared ' | tail -n 1 | sed -E 's/^: && //; s/ && :$//')
  command=$(sed -E "s| -o [^ ]+| -o $out|; s| lib/libquire_($archive).a| $* &|" <<<"$command")
  (cd "$build" && eval "$(with_objects "$command" "$@")")
}

# Runs a test with the mutant in it; its status.
run_with() {  # run_with TEST OVERLAY OBJECTS...
  local test=$1 overlay=$2
  shift 2
  ln -sfn "$build/lib/quire" "$overlay/quire"  # a library looks for modules beside itself
  case $test in
    unit_c_api)
      relink quire "$overlay/libquire.so.0" "$@" >&2 || return 200
      LD_PRELOAD=$overlay/libquire.so.0 timeout 150 "$build/tests/unit_c_api" >"$overlay/$test.log" 2>&1 ;;
    tier_device)
      archive=core relink quire "$overlay/libquire.so.0" "$@" >&2 || return 200
      local fake=$build/tests/kernels/fake_gpu
      QUIRE_TIER_DRIVER=cuda QUIRE_TIER_DRIVER_PATH=$fake/modules LD_LIBRARY_PATH=$fake/cuda LD_PRELOAD=$overlay/libquire.so.0 \
        timeout 150 "$build/tests/tier_device" >"$overlay/$test.log" 2>&1 ;;
    tier_* | metrics_text)
      archive=core relink quire "$overlay/libquire.so.0" "$@" >&2 || return 200
      LD_PRELOAD=$overlay/libquire.so.0 timeout 150 "$build/tests/$test" >"$overlay/$test.log" 2>&1 ;;
    conformance_cpu)
      relink quire_driver_cpu "$overlay/libquire_driver_cpu.so" "$@" >&2 || return 200
      timeout 150 "$build/bin/quire_conformance" --driver=cpu --modules="$overlay" >"$overlay/$test.log" 2>&1 ;;
    host_rules | connector_host)
      relink quire_connector_host "$overlay/libquire_connector_host.so" "$@" >&2 || return 200
      QUIRE_KIT_MODULES=$overlay timeout 150 "$build/tests/$test" >"$overlay/$test.log" 2>&1 ;;
    mooncake_*)
      archive=mooncake_store relink quire_connector_mooncake "$overlay/libquire_connector_mooncake.so" "$@" >&2 || return 200
      QUIRE_KIT_MODULES=$overlay timeout 150 "$build/tests/$test" >"$overlay/$test.log" 2>&1 ;;
    ucx_late | ucx_hostile | ucx_kills | ucx_near)
      archive=ucx_store relink quire_connector_ucx "$overlay/libquire_connector_ucx.so" "$@" >&2 || return 200
      QUIRE_KIT_MODULES=$overlay QUIRE_KILLS=6 QUIRE_ROUNDS=400 timeout 150 "$build/tests/$test" >"$overlay/$test.log" 2>&1 ;;
    file_store)
      link "$test" "$overlay/$test" "$@" >&2 || return 200
      GTEST_FILTER="-*.Killed*:*.StartsWith*:*.CloseSays*" timeout 150 "$overlay/$test" >"$overlay/$test.log" 2>&1 ;;
    zmq_* | fleet_parts | redis_faults | ucx_parts)  # next to the library, which they do not find from here
      link "$test" "$overlay/$test" "$@" >&2 || return 200
      LD_LIBRARY_PATH=$build/lib timeout 150 "$overlay/$test" >"$overlay/$test.log" 2>&1 ;;
    *)
      link "$test" "$overlay/$test" "$@" >&2 || return 200
      QUIRE_STEPS=${QUIRE_MUTANT_STEPS:-150000} timeout 150 "$overlay/$test" >"$overlay/$test.log" 2>&1 ;;
  esac
}

built() { ninja -C "$build" -t targets all 2>/dev/null | grep -q "^$1: phony"; }

# Prints the test that caught it, or nothing. 2: the mutant could not be made.
catch() {  # catch NAME
  local overlay=$work/$1 file units=() unit objects=() object test tests=() code
  rm -rf "$overlay"
  apply "$1" "$overlay" >&2 || return 2
  for file in $(cd "$overlay" && find . -name '*.cc' | sed 's|^\./||'); do
    units+=("$(unit_of "$file")")
    read -ra tests <<<"$(tests_of "$file")"  # of a mutant of several files, those of the last
  done
  if [ ${#units[@]} -eq 0 ]; then
    for file in $(cd "$overlay" && find . -name '*.h' | sed 's|^\./||'); do
      mapfile -t units < <(units_with "$file")
      read -ra tests <<<"$(tests_of "$file")"
    done
  fi
  for unit in $(printf '%s\n' "${units[@]}" | sort -u); do
    object=$(compile "$unit" "$overlay") || return 2
    objects+=("$object")
  done
  [ ${#objects[@]} -gt 0 ] || return 2
  [ "$1" != canary-harmless ] || tests=(unit_pool unit_prefix unit_step)  # the others would take a minute to find nothing
  for test in "${tests[@]}"; do
    for file in $(targets "$test"); do built "$file" || continue 2; done
    run_with "$test" "$overlay" "${objects[@]}"
    code=$?
    if [ $code -eq 200 ] || [ $code -eq 127 ]; then  # 127: it did not even start
      return 2
    elif [ $code -eq 124 ]; then
      echo "$test: does not end"
      return 0
    elif [ $code -ne 0 ]; then
      echo "$test: $(grep -m1 -oE '^\[  FAILED  \] [A-Za-z0-9_/]+\.[A-Za-z0-9_/]+' "$overlay/$test.log" | sed 's/.*\] //' || true)"
      return 0
    fi
    rm -f "$overlay/$test"
  done
}

case "$1" in
  --all) mapfile -t names < <(all) ;;
  --rotate) mapfile -t names < <(rotating "$2") ;;
  *) names=("$@") ;;
esac
names+=(canary-caught canary-harmless)
mapfile -t names < <(printf '%s\n' "${names[@]}" | awk '!seen[$0]++')
mapfile -t needed < <(for name in "${names[@]}"; do
  for file in $(sed -nE 's|^\+\+\+ b/||p' "$here/$name.patch"); do targets $(tests_of "$file"); done
done | tr ' ' '\n' | sort -u)
ninja -C "$build" $(for target in "${needed[@]}"; do built "$target" && echo "$target"; done) >"$work/build.log" 2>&1 ||
  { tail -n 20 "$work/build.log"; exit 1; }
bad=0 caught=0
for name in "${names[@]}"; do
  start=$EPOCHREALTIME
  by=$(catch "$name" 2>"$work/$name.log")
  code=$?
  [ $code -eq 2 ] && { tail -n 5 "$work/$name.log"; by=""; }
  took=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
  right=no
  if [ "$name" = canary-harmless ]; then
    [ -z "$by" ] && [ $code -ne 2 ] && right=yes
  elif [ -n "$by" ]; then
    right=yes
  fi
  [ "$right" = yes ] || bad=$((bad + 1))
  [ -n "$by" ] && caught=$((caught + 1))
  printf '%-42s %6s s  %s%s\n' "$name" "$took" "$([ $code -eq 2 ] && echo 'could not be made' || echo "${by:-not caught}")" \
    "$([ "$right" = yes ] || echo '  <-- WRONG')"
done
echo "$caught of ${#names[@]} caught (canary-harmless must not be), $bad wrong"
[ $bad -eq 0 ]
