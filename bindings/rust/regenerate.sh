#!/bin/bash
# regenerate.sh [--check]: writes quire-sys/src/{types,functions}.rs and the list of quire-sys/tests/layout.rs from the headers and abi.golden.
# --check: writes nothing and fails where the committed files differ; exits with 77 and a sentence where bindgen is absent.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
bindgen=${BINDGEN:-bindgen}
command -v "$bindgen" >/dev/null || { echo "skipped: bindgen is not installed, so the Rust declarations are not compared with the headers"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#include <quire/connector.h>\n#include <quire/driver.h>\n#include <quire/quire.h>\n' >"$work/all.h"

# One declaration or field a line, whatever formatter is installed.
lines() {
  tail -n +2 "$1" | awk '
    { text = text $0 " " }
    END {
      depth = 0; out = ""
      gsub(/ +/, " ", text)
      for (i = 1; i <= length(text); ++i) {
        c = substr(text, i, 1)
        if (out == "" && c == " ") continue
        out = out c
        if (c == "(" || c == "[" || c == "<") ++depth
        if (c == ")" || c == "]" || (c == ">" && substr(text, i - 1, 1) != "-")) --depth
        if (depth == 0 && (c == ";" || c == "{" || c == "}" || c == "," || (c == "]" && substr(out, 1, 1) == "#"))) { print out; out = "" }
      }
      if (out != "") print out
    }' | sed -E 's/ :: /::/g; s/:: /::/g; s/ +$//; s/ ([;,:)>])/\1/g; s/\( /(/g; s/ \(/(/g; s/\* (const|mut)/*\1/g; s/# \[/#[/; s/ < /</g; s/< Self>/<Self>/g; s/(mut|const|=|&|:)::std/\1 ::std/g; s/,\(/, (/g; s/->\(/-> (/g; s/ \. /./g' |
    awk '{ if ($0 ~ /^}/) --depth; else if ($0 ~ /}$/) close_after = 1; for (i = 0; i < depth; ++i) printf "    "; print
           if (close_after) { --depth; close_after = 0 } if ($0 ~ /{$/) ++depth }'
}

options=(--allowlist-function 'quire_.*' --allowlist-type 'quire_.*' --allowlist-var 'QUIRE_.*' --no-prepend-enum-name --no-doc-comments
  --no-layout-tests --with-derive-default --no-rustfmt-bindings)
"$bindgen" "$work/all.h" "${options[@]}" --generate types,vars -- -std=c11 -I"$top/abi/include" >"$work/types"
"$bindgen" "$work/all.h" "${options[@]}" --generate functions -- -std=c11 -I"$top/abi/include" >"$work/functions"

note="// Made by regenerate.sh with bindgen from abi/include/quire: change the headers, not this file."
{ echo "$note"; lines "$work/types"; } >"$work/types.rs"
{
  echo "$note"
  echo "functions! {"
  lines "$work/functions" | grep ' pub fn ' | grep -v ' fn quire_driver_query\| fn quire_connector_query'
  echo "}"
} >"$work/functions.rs"
{
  sed '/^layout! {$/q' "$here/quire-sys/tests/layout.rs"
  awk '/^[a-z]/ { if (open) print "    }"; open = 0 } /^struct / { print "    " $2 " {"; open = 1 }
    /^  [0-9]+ [0-9]+ / && open { print "        " ($3 == "type" ? "type_" : $3) "," } END { if (open) print "    }" }' "$top/abi/abi.golden"
  echo "}"
} >"$work/layout.rs"

if [ "${1-}" = --check ]; then
  diff -u "$here/quire-sys/src/types.rs" "$work/types.rs" && diff -u "$here/quire-sys/src/functions.rs" "$work/functions.rs" &&
    diff -u "$here/quire-sys/tests/layout.rs" "$work/layout.rs" ||
    { echo "FAILED: quire-sys differs from the headers; run bindings/rust/regenerate.sh"; exit 1; }
  echo "quire-sys: $(grep -c 'pub fn ' "$work/functions.rs") functions and $(grep -c '^pub struct ' "$work/types.rs") structs are those of the headers"
else
  cp "$work/types.rs" "$work/functions.rs" "$here/quire-sys/src/"
  cp "$work/layout.rs" "$here/quire-sys/tests/"
fi
