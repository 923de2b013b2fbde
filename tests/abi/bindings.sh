#!/bin/bash
# bindings.sh SOURCE: bindgen (Rust) and cgo (Go) read the public headers: every function, struct and number arrives. What is not installed is
# said; neither is needed to build quire.
set -u
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tried=0
printf '#include <quire/connector.h>\n#include <quire/driver.h>\n#include <quire/metrics.h>\n#include <quire/quire.h>\n#include <quire/session.h>\n#include <quire/tier.h>\n' >"$work/all.h"
functions=$(awk '/^function / { match($0, /quire_[a-z_0-9]+\(/); print substr($0, RSTART, RLENGTH - 1) }' "$source/abi/abi.golden" | sort -u)
structs=$(awk '/^struct / { print $2 }' "$source/abi/abi.golden")
macros=$(awk '/^macro / { print $2 }' "$source/abi/abi.golden")

if command -v bindgen >/dev/null; then
  bindgen "$work/all.h" --allowlist-function 'quire_.*' --allowlist-type 'quire_.*' --allowlist-var 'QUIRE_.*' --no-prepend-enum-name \
    -- -std=c11 -I"$source/abi/include" >"$work/all.rs" 2>"$work/log" || { echo "FAILED: bindgen:"; cat "$work/log"; exit 1; }
  for name in $functions; do grep -q "pub fn $name(" "$work/all.rs" || { echo "FAILED: bindgen lost function $name"; exit 1; }; done
  for name in $structs; do grep -q "pub struct $name " "$work/all.rs" || { echo "FAILED: bindgen lost struct $name"; exit 1; }; done
  for name in $macros; do grep -q "pub const $name:" "$work/all.rs" || { echo "FAILED: bindgen lost macro $name"; exit 1; }; done
  grep -nE 'union |__BindgenBitfieldUnit|__bindgen_anon' "$work/all.rs" && { echo "FAILED: the headers have what bindings cannot name"; exit 1; }
  echo "bindgen: $(wc -w <<<"$functions") functions, $(wc -w <<<"$structs") structs, $(wc -w <<<"$macros") macros"
  tried=1
else
  echo "skipped: bindgen is not installed, so no Rust declarations are made"
fi

if command -v go >/dev/null; then
  mkdir "$work/parse" "$work/parse/objects"
  {
    echo 'package main'
    echo '/*'
    cat "$work/all.h"
    echo '*/'
    echo 'import "C"'
    echo 'import "unsafe"'
    echo 'func main() {'
    for name in $structs; do echo "  _ = unsafe.Sizeof(C.$name{})"; done
    for name in $macros; do echo "  _ = uint64(C.$name)"; done
    echo '}'
  } >"$work/parse/main.go"
  printf 'module parse\n\ngo 1.19\n' >"$work/parse/go.mod"
  (cd "$work/parse" && GOFLAGS=-mod=mod GOPROXY=off GOCACHE="$work/cache" CGO_ENABLED=1 go tool cgo -objdir objects -- -I"$source/abi/include" main.go) >"$work/log" 2>&1 ||
    { echo "FAILED: cgo:"; head -20 "$work/log"; exit 1; }
  echo "cgo: $(wc -w <<<"$structs") structs, $(wc -w <<<"$macros") macros"
  tried=1
else
  echo "skipped: go is not installed, so cgo does not read the headers"
fi
[ $tried = 1 ] || exit 77
