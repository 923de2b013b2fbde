#!/bin/bash
# freeze.sh [SOURCE]: takes today's public headers as the ones that must keep working: copies them to tests/abi/frozen/include and writes the
# first sizes of all growing structs to core/c_api/first_sizes.h. Done with a release. Before 1.0 a deliberate break edits by hand what it breaks, in
# that folder, in its sums and in first_sizes.h, and nothing else: structs that only grew are still tested with their first sizes.
# From 1.0 on a frozen folder is never edited: the next one is made beside it.
set -eu
source=${1:-$(cd "$(dirname "$0")/../.." && pwd)}
frozen=$source/tests/abi/frozen
rm -rf "$frozen/include"
mkdir -p "$frozen/include"
cp -r "$source/abi/include/quire" "$frozen/include/quire"
(cd "$frozen" && sha256sum include/quire/*.h >sums)

# Growing structs: their first field is struct_size, and they are no frozen ones.
{
  sed -n '1,/^\/\/ list/p' "$source/core/c_api/first_sizes.h"
  awk '/^struct / { name = $2; size = $3; first = 1; next } first { if ($3 == "struct_size") print "QUIRE_FIRST(" name ", " size ");"; first = 0 }' \
    "$source/abi/abi.golden" | grep -vE 'quire_(error|memory_binding|query|manifest|host_api|driver_api|connector_api|extension_table|extension_entry|driver_options|connector_options)\b'
  printf '#undef QUIRE_FIRST\n\n}  // namespace quire::c_api\n'
} >"$source/core/c_api/first_sizes.h.new"
mv "$source/core/c_api/first_sizes.h.new" "$source/core/c_api/first_sizes.h"
