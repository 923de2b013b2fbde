#!/bin/bash
# versions.sh SOURCE: scripts/release.sh finds one version in all places of the tree; in copies of it in which one place states another
# version, or none, it finds exactly that place.
set -eu
source=$(cd "$1" && pwd)
release=$source/scripts/release.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $1"; [ ! -f "$work/said" ] || cat "$work/said"; exit 1; }

"$release" --check-versions
"$release" --list-versions >"$work/files"
[ "$(wc -l <"$work/files")" -ge 25 ] || fail "$(wc -l <"$work/files") files are too few"
mkdir "$work/tree"
(cd "$source" && xargs -a "$work/files" cp --parents -t "$work/tree")
"$release" --check-versions "$work/tree" >"$work/said" 2>&1 || fail "a copy of the tree has not one version"
version=$(sed -nE 's/^project\(quire VERSION ([0-9.]+).*/\1/p' "$source/CMakeLists.txt")

other() { echo "s/${version//./\\.}/$1/; s/(quire |abi_version=)${version%.*}([^0-9.]|\$)/\\1${1%.*}\\2/"; }
# differs CHANGE FILE...: with this change of these files, the check ends with 1 and names every one of them.
differs() {
  local change=$1 code=0 file
  shift
  cp -r "$work/tree" "$work/changed"
  for file in "$@"; do
    sed -i -E "$change" "$work/changed/$file"
    ! cmp -s "$work/tree/$file" "$work/changed/$file" || fail "the change of $file changes nothing: $change"
  done
  "$release" --check-versions "$work/changed" >"$work/said" 2>&1 || code=$?
  [ $code -eq 1 ] || fail "with another version in $* the check ends with $code"
  for file in "$@"; do
    grep -qF -- "$file: " "$work/said" || fail "another version in $file is not named"
  done
  rm -r "$work/changed"
}
mapfile -t others < <(grep -vx CMakeLists.txt "$work/files")
differs "$(other 9.9.9)" "${others[@]}"
differs "$(other none)" "${others[@]}"
# One place alone, too.
for file in pyproject.toml bindings/rust/Cargo.lock drivers/null/null_driver.c docs/man/quire-plan.1; do differs "$(other 9.9.9)" "$file"; done
differs 's/^(date-released:).*/\1 2001-02-03/' CITATION.cff
rm "$work/tree/CITATION.cff"
! "$release" --check-versions "$work/tree" >"$work/said" 2>&1 || fail "a file that is not there is not missed"
grep -q '^CITATION.cff: is not there' "$work/said" || fail "a file that is not there is not named"

# Arguments are refused, and so is a folder in which something lies.
refuses() {  # refuses CODE TEXT ARGUMENT...
  local wanted=$1 text=$2 code=0
  shift 2
  "$release" "$@" >"$work/said" 2>&1 || code=$?
  [ $code -eq "$wanted" ] || fail "release.sh $* ends with $code instead of $wanted"
  grep -qF -- "$text" "$work/said" || fail "release.sh $* does not say '$text'"
}
refuses 2 "the folder OUT is missing"
refuses 2 "unknown argument '--everything'" --everything
refuses 2 "two folders" first second
echo "other versions in ${#others[@]} files were found, and each file was named"
