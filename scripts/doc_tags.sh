#!/bin/sh
# doc_tags.sh [INCLUDE_DIR...]: every exported function of the public headers says Thread, Blocking, Errors where it can fail and who owns
# what it hands out; every struct says its class. Prints one sentence per gap; fails when there is one.
set -eu
top=$(dirname "$0")/..
[ $# -gt 0 ] || set -- "$top/abi/include" "$top/plugins/zmq/include" "$top/plugins/exporter/include"
headers=$(for include in "$@"; do ls "$include"/quire/*.h; done)

# shellcheck disable=SC2086
awk '
function gap(what) { printf "%s:%d: %s: the comment above does not say %s\n", FILENAME, FNR, name, what; gaps++ }
function needs(tag, what) { if (index(comment, tag) == 0) gap(what) }
FNR == 1 { comment = "" }
/^\/\*/ { comment = ""; inside = 1 }
inside { comment = comment " " $0; if (index($0, "*/")) inside = 0; next }
/^QUIRE_API / {
  declaration = $0
  while (index(declaration, ";") == 0 && (getline more) > 0) declaration = declaration " " more
  name = declaration; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
  functions++
  needs("Thread: ", "Thread: any thread | serialized on X"); needs("Blocking: ", "Blocking: no | yes, why");
  if (declaration ~ /quire_error \*err\)/) {
    needs("Errors: ", "Errors: which codes and when")
    if (declaration ~ /\*\*out/ && comment !~ /owned|deleter|as above|The same/) gap("who owns *out")
  }
  comment = ""
}
/^typedef struct [a-z_]+ \{/ {
  name = $3; structs++
  if (comment !~ /Descriptor|Info|Frozen|Table|The table/) gap("its class: Descriptor, Info, Frozen or Table")
  comment = ""
}
/^$/ { comment = "" }
END {
  printf "%d functions and %d structs, %d gaps\n", functions, structs, gaps + 0
  exit gaps > 0 || functions < 50
}' $headers
