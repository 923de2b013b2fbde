#!/bin/bash
# Applies bugs that are kept as patches, one at a time, and says which test catches each.
#   tests/mutants/run.sh BUILD (--all | --rotate N | NAME...)      tests/mutants/run.sh --check
# BUILD is a build folder with the tests built. A mutant costs the compilation of the files that it changes and the linking of the tests: its
# objects stand before the core's archive, so nothing else is built, and neither the tree nor BUILD's objects change.
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
tests=(unit_pool unit_prefix unit_step model_scenarios model_simulate model_exhaustive)
work=$build/mutants
mkdir -p "$work"

rotating() {  # N of all, beginning where the number of the commit says; printed with the rest
  local number=${QUIRE_MUTANTS_FROM:-$(git -C "$root" rev-list --count HEAD 2>/dev/null || date +%j)} names total i
  mapfile -t names < <(all)
  total=${#names[@]}
  for ((i = 0; i < $1; i++)); do echo "${names[$(((number * $1 + i) % total))]}"; done
}

# The command that compiled a source, with this source and this object instead.
compile() {  # compile SOURCE OVERLAY OBJECT
  local command
  command=$(sed -nE 's/^ *"command": "(.*)",?$/\1/p' "$build/compile_commands.json" | grep -F -- " -c $root/$1" | head -n 1 | sed 's/\\"/"/g')
  [ -n "$command" ] || { echo "no command compiles $1" >&2; return 1; }
  command=$(sed -E "s| -o [^ ]+| -o $3|; s| -c [^ ]+| -w -c $2/$1|" <<<"$command")
  (cd "$build" && eval "${command/ -I/ -I$2 -I}")
}

link() {  # link TEST EXECUTABLE OBJECTS...
  local test=$1 executable=$2 command
  shift 2
  command=$(ninja -C "$build" -t commands "$test" | tail -n 1 | sed -E 's/^: && //; s/ && :$//')
  command=$(sed -E "s| -o [^ ]+| -o $executable|; s| lib/libquire_core.a| $* lib/libquire_core.a|" <<<"$command")
  (cd "$build" && eval "$command")
}

built() { ninja -C "$build" -t targets all 2>/dev/null | grep -q "^$1: phony"; }

# Prints the test that caught it, or nothing. 2: the mutant could not be made.
catch() {  # catch NAME
  local overlay=$work/$1 file objects=() object test code
  rm -rf "$overlay"
  apply "$1" "$overlay" >&2 || return 2
  for file in $(cd "$overlay" && find . -name '*.cc' | sed 's|^\./||'); do
    object=$overlay/$(basename "$file").o
    compile "$file" "$overlay" "$object" >&2 || return 2
    objects+=("$object")
  done
  [ ${#objects[@]} -gt 0 ] || return 2
  for test in "${tests[@]}"; do
    built "$test" || continue
    link "$test" "$overlay/$test" "${objects[@]}" >&2 || return 2
    QUIRE_STEPS=${QUIRE_MUTANT_STEPS:-150000} timeout 300 "$overlay/$test" >"$overlay/$test.log" 2>&1
    code=$?
    if [ $code -eq 124 ]; then
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
ninja -C "$build" $(for test in "${tests[@]}"; do built "$test" && echo "$test"; done) >"$work/build.log" 2>&1 ||
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
