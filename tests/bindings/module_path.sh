#!/bin/bash
# module_path.sh SOURCE: everything that names the address of the repository names the same one, which is CMakeLists.txt's: crates, the Python
# package, pkg-config files, and the module path of Go with all of its imports and what its README says to write into go.mod.
set -u
source=$1
failed=0
says() { # WHAT FOUND WANTED
  [ "$2" = "$3" ] && return
  echo "FAILED: $1 says '$2', not '$3'"
  failed=1
}
home=$("$source/scripts/home.sh") || exit 1
path=${home#https://}
module=$path/bindings/go
host=${path%%/*}
[[ $host == *.* ]] || { echo "FAILED: go get takes no module of the host '$host', which has no dot"; failed=1; }

says bindings/go/go.mod "$(sed -n 's/^module //p' "$source/bindings/go/go.mod")" "$module"
version=$(sed -nE 's/^project\(quire VERSION ([0-9.]+).*/\1/p' "$source/CMakeLists.txt")
says samples/go/go.mod "$(sed -n 's/^require //p' "$source/samples/go/go.mod")" "$module v$version"
says "samples/go/go.mod: replace" "$(sed -n 's/^replace //p' "$source/samples/go/go.mod")" "$module => ../../bindings/go"
imports=0
while read -r import; do
  imports=$((imports + 1))
  case $import in
    "$module"/quire | "$module"/quire/internal/*) [ -d "$source/bindings/go/${import#"$module/"}" ] && continue ;;
  esac
  echo "FAILED: no package of $module is '$import', which is imported"
  failed=1
done < <(find "$source/bindings/go" "$source/samples/go" "$source/tests/bindings" -name '*.go' -exec sed -nE \
  's/^(import |[[:space:]])([a-z]+ )?"([^"]*\/[^"]*quire[^"]*|quire[^"]*)"$/\3/p' {} +)
[ $imports -ge 12 ] || { echo "FAILED: only $imports imports of the module were found"; failed=1; }
for guide in bindings/go/quire/README.md docs/in-your-engine.md; do
  grep -qE "^ +require $module v$version( |$)" "$source/$guide" || { echo "FAILED: $guide does not say: require $module v$version"; failed=1; }
  grep -qF "replace $module => <quire>/bindings/go" "$source/$guide" || { echo "FAILED: $guide does not say: replace $module"; failed=1; }
done
grep -qF "\"$module/quire\"" "$source/bindings/go/quire/README.md" || { echo "FAILED: the README of Go does not import $module/quire"; failed=1; }
grep -qF "bindings/go/v$version" "$source/bindings/go/quire/README.md" || { echo "FAILED: the README of Go does not name the tag bindings/go/v$version"; failed=1; }

for crate in quire quire-sys; do
  for key in homepage repository; do
    says "bindings/rust/$crate/Cargo.toml: $key" "$(sed -nE "s/^$key = \"(.*)\"/\1/p" "$source/bindings/rust/$crate/Cargo.toml")" "$home"
  done
done
for key in Homepage Repository; do
  says "pyproject.toml: $key" "$(sed -nE "s/^$key = \"(.*)\"/\1/p" "$source/pyproject.toml")" "$home"
done
for file in "$source"/cmake/*.pc.in; do
  says "cmake/$(basename "$file")" "$(sed -n 's/^URL: //p' "$file")" "@PROJECT_HOMEPAGE_URL@"
done
[ $failed -eq 0 ] && echo "crates, the Python package, the module of Go and its $imports imports name $home"
exit $failed
