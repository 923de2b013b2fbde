#!/bin/bash
# reference.sh SOURCE OUTPUT: the reference pages of the public headers; a warning is an error. Fields, entries of tables, handles, numbered
# constants and the enumerations that only hold them may go without words of their own: their name, or the struct or type beside them, says
# it. Functions, structs, function types and files may not: some whose comment was taken away must be refused.
set -eu
command -v doxygen >/dev/null || { echo "skipped: doxygen is not installed, so no reference pages are made"; exit 77; }
output=$2
cd "$1"
silent='.* \(variable\)|[^ ]+ \(macro definition\)|quire_[a-z_]+ \(typedef\)|quire_[a-z_]+_e \(enumeration\)'
silent="warning: Member ($silent) of [^ ]+ [^ ]+ is not documented"

# pages OUTPUT: makes them in the current folder, prints what must not be there, fails when there is any.
pages() {
  local header
  for header in abi/include/quire/*.h plugins/{zmq,exporter}/include/quire/*.h; do # Doxygen is silent about all that a file without words holds
    head -1 "$header" | grep -q "^/\* quire/$(basename "$header"): " || { echo "$header: does not begin with what it is"; return 1; }
  done
  mkdir -p "$1"
  doxygen - < <(cat docs/Doxyfile; echo "OUTPUT_DIRECTORY = $1") 2>"$1/log" || { cat "$1/log"; return 1; }
  ! grep -vE "$silent" "$1/log"
}

pages "$output" || { echo "FAILED: Doxygen warns (above)"; exit 1; }
for name in quire_reserve quire_event_publisher_follow quire_extension_call quire_memory_bind_dlpack quire_segment_query QUIRE_RUNTIME_NO_ENV; do
  grep -rlq "$name" "$output/html" || { echo "FAILED: no page names $name"; exit 1; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
refused() { # refused NAME HEADER SED
  rm -rf "$work/tree"
  mkdir "$work/tree"
  cp -r --parents abi docs plugins/zmq/include plugins/exporter/include "$work/tree/"
  sed -i "$3" "$work/tree/abi/include/quire/$2"
  cmp -s "$work/tree/abi/include/quire/$2" "abi/include/quire/$2" && { echo "FAILED: the seeded break '$1' changed nothing"; exit 1; }
  if (cd "$work/tree" && pages "$work/pages") >"$work/log"; then echo "FAILED: nobody noticed: $1"; exit 1; fi
}
refused "a function without words" base.h 's,^QUIRE_API uint32_t quire_abi_version,QUIRE_API uint32_t quire_wordless(void);\n\n&,'
refused "a struct without words" config.h '/^\/\* A dense run of payload bytes/d'
refused "a function type without words" base.h '/^\/\* Monotonic time in nanoseconds/d'
refused "a header without words" load.h '1,/\*\//d'
echo "$(find "$output/html" -name '*.html' | wc -l) pages; four seeded gaps, all refused"
