#!/bin/bash
# rows.sh ROWS_WRITER INCLUDE_DIR ROWS_DIR: a function without a row, and a row without a function, are refused with a sentence.
set -u
writer=$1 include=$2 rows=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$include" "$work/include"
cp -r "$rows" "$work/rows"

# refused PATTERN: the writer fails and its sentence matches.
refused() {
  if "$writer" "$work/include" "$work/rows" "$work/out.cc" 2>"$work/log"; then
    echo "FAILED: not refused: $1"
    exit 1
  fi
  grep -qE "$1" "$work/log" || { echo "FAILED: does not say '$1':"; cat "$work/log"; exit 1; }
}

"$writer" "$work/include" "$work/rows" "$work/out.cc" || { echo "FAILED: the tree itself is refused"; exit 1; }
sed -i '0,/^QUIRE_API/s//QUIRE_API quire_code quire_model_rename(quire_model *model, quire_str name, quire_error *err);\n&/' "$work/include/quire/model.h"
refused 'quire_model_rename .quire/model.h. has no row .*rows/model_rows.cc  ROW.quire_model_rename. .* call.model, name, err.'
cp "$include/quire/model.h" "$work/include/quire/model.h"
printf '\nROW(quire_model_rename) {}\n' >>"$work/rows/model_rows.cc"
refused 'rows/model_rows.cc has a row for quire_model_rename, which no header declares'
echo "both are refused"
