#!/bin/bash
# reference.sh SOURCE OUTPUT: the reference pages of the public headers; a warning is an error.
set -eu
command -v doxygen >/dev/null || { echo "skipped: doxygen is not installed, so no reference pages are made"; exit 77; }
mkdir -p "$2"
cd "$1"
doxygen - < <(cat docs/Doxyfile; echo "OUTPUT_DIRECTORY = $2")
for name in quire_reserve quire_op_invoke quire_memory_bind_dlpack; do
  grep -rlq "$name" "$2/html" || { echo "FAILED: no page names $name"; exit 1; }
done
echo "$(find "$2/html" -name '*.html' | wc -l) pages"
