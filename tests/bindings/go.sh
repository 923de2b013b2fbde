#!/bin/bash
# go.sh CMAKE BUILD SOURCE: the Go binding against a scratch installation, without network: gofmt, go vet, tests under the race detector and
# cgo's pointer checks, and the five stories of samples/go on two drivers. The oldest Go at hand is taken: Debian's own.
set -eu
cmake=$1 build=$2 source=$3
work=$build/bindings/go
mkdir -p "$work"
umask 022
go=$(command -v /usr/bin/go || command -v go) || { echo "skipped: go is not installed, so the Go binding is not tested"; exit 77; }

rm -rf "$work/prefix"
for component in library dev static driver_cpu driver_null connector_null connector_host connector_file; do
  "$cmake" --install "$build" --prefix "$work/prefix" --component $component >"$work/log" || { cat "$work/log"; exit 1; }
done
lib=$(dirname "$(find "$work/prefix" -name libquire.so)")
export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib GOPROXY=off GOFLAGS=-mod=readonly GOTOOLCHAIN=local GODEBUG=cgocheck=2 CGO_ENABLED=1
unset QUIRE_DRIVER QUIRE_DRIVER_PATH QUIRE_CONNECTOR_PATH
export GOCACHE=$work/cache GOPATH=$work/path

mkdir -p "$work/own" # a module outside of the tree, whose op is called
gcc -shared -fPIC -I"$work/prefix/include" "$source/samples/own_driver/own_driver.c" -o "$work/own/libquire_driver_own.so"
export QUIRE_OWN_DRIVER=$work/own

"$go" version
unformatted=$("$(dirname "$(readlink -f "$go")")/gofmt" -l "$source/bindings/go" "$source/samples/go")
[ -z "$unformatted" ] || { echo "FAILED: gofmt would change $unformatted"; exit 1; }
cd "$source/bindings/go"
"$go" vet ./...
"$go" test -race -count=1 ./...

# The Go code of docs/in-your-engine.md, all blocks one behind the other, run by engine_guide_test.go.
mkdir -p "$work/guide"
awk '/^```/ { inside = $0 == "```go"; if (inside && n++) print ""; next } inside' "$source/docs/in-your-engine.md" |
  unexpand --first-only -t 4 >"$work/guide/engine.go"
cp "$source/tests/bindings/engine_guide_test.go" "$work/guide/"
module=$(sed -n 's/^module //p' "$source/bindings/go/go.mod")
version=$(sed -nE 's/^project\(quire VERSION ([0-9.]+).*/\1/p' "$source/CMakeLists.txt")
printf 'module engine\n\ngo 1.19\n\nrequire %s v%s\n\nreplace %s => %s\n' "$module" "$version" "$module" "$source/bindings/go" >"$work/guide/go.mod"
unformatted=$("$(dirname "$(readlink -f "$go")")/gofmt" -l "$work/guide")
[ -z "$unformatted" ] || { echo "FAILED: gofmt would change the Go code of docs/in-your-engine.md"; exit 1; }
(cd "$work/guide" && "$go" vet ./... && QUIRE_DRIVER=null "$go" test -race -count=1 ./...)

cd "$source/samples/go"
"$go" vet ./...
"$go" build -o "$work/bin/" ./...
for story in hello hybrid driver_swap dlpack step_loop engine; do
  for driver in cpu null "?"; do
    "$source/samples/expected/compare.sh" "$work/bin/$story" $story "$driver"
  done
done
"$source/samples/expected/compare.sh" "$work/bin/driver_swap" driver_swap none
if QUIRE_DRIVER=cpu "$work/bin/engine" fault >"$work/log"; then
  echo "FAILED: samples/go/engine does not notice prefixes of other tenants"
  exit 1
fi
echo "samples/go: five stories and an engine on two drivers; what is no name of a driver is refused"

# The archive inside of a program: no shared library of quire is needed, and modules next to the program are found.
mkdir -p "$work/static/quire"
rm -rf "$work/static/quire/0"
cp -R "$lib/quire/0" "$work/static/quire/0"
unset LD_LIBRARY_PATH
"$go" build -tags quire_static -o "$work/static/" ./step_loop
! readelf -d "$work/static/step_loop" | grep NEEDED | grep -i quire || { echo "FAILED: -tags quire_static needs a shared library of quire"; exit 1; }
"$source/samples/expected/compare.sh" "$work/static/step_loop" step_loop cpu
echo "samples/go/step_loop with -tags quire_static: runs without a shared library of quire"
