#!/bin/bash
# headers.sh INCLUDE_DIR [FURTHER_DIR...]: every public header, alone and twice, beside dlpack.h, in every dialect of C and C++ that a compiler here knows.
set -u
include=$1
includes=("$@")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
cells=0

# check COMPILER SOURCE FLAGS...
check() {
  local compiler=$1 source=$2
  shift 2
  cells=$((cells + 1))
  if ! "$compiler" "${includes[@]/#/-I}" "$@" -fsyntax-only "$source" 2>"$work/log"; then
    echo "FAILED: $compiler $* $(basename "$source")"
    head -5 "$work/log"
    failed=$((failed + 1))
  fi
}

strict_c="-pedantic-errors -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -Wshadow -Wundef -Wpadded -Werror"
strict_cxx="-pedantic-errors -Wall -Wextra -Wshadow -Wundef -Wpadded -Werror"
public=()
for folder in "${includes[@]}"; do public+=("$folder"/quire/*.h); done
for path in "${public[@]}" "$include"/quire/sdk/*.h; do
  inside=quire/${path##*/quire/}
  name=$(basename "$path" .h)
  printf '#include <%s>\n#include <%s>\nextern int quire_headers_unit;\n' "$inside" "$inside" >"$work/$name.c"
  cp "$work/$name.c" "$work/$name.cc"
  for standard in c89 c99 c11 c17 c2x; do check gcc "$work/$name.c" -std=$standard $strict_c; done
  for standard in c++98 c++11 c++14 c++17 c++20; do check g++ "$work/$name.cc" -std=$standard $strict_cxx; done
  if command -v clang >/dev/null; then
    for standard in c89 c11 c2x; do
      check clang "$work/$name.c" -std=$standard -Weverything -Wno-unused-macros -Wno-missing-variable-declarations -Werror
    done
    for standard in c++98 c++20; do check clang++ "$work/$name.cc" -std=$standard -Wall -Wextra -pedantic-errors -Werror; done
  fi
done
if command -v clang >/dev/null; then echo "with clang"; else echo "clang is not installed: its cells are left out"; fi

# Beside the distribution's DLPack header, in both orders.
printf '#include <quire/quire.h>\n#include <quire/sdk/dlpack.h>\n#include <dlpack/dlpack.h>\nextern int quire_headers_unit;\n' >"$work/after.c"
printf '#include <dlpack/dlpack.h>\n#include <quire/quire.h>\n#include <quire/sdk/dlpack.h>\nextern int quire_headers_unit;\n' >"$work/before.c"
if echo '#include <dlpack/dlpack.h>' | gcc -fsyntax-only -xc - 2>/dev/null; then
  for order in after before; do
    cp "$work/$order.c" "$work/$order.cc"
    check gcc "$work/$order.c" -std=c11 -Wall -Wextra -Werror
    check g++ "$work/$order.cc" -std=c++20 -Wall -Wextra -Werror
  done
else
  echo "dlpack/dlpack.h is not installed: its cells are left out"
fi

# What a header of this library never says.
if sed 's|/\*.*||; s|^ *\*.*||; /define QUIRE_INIT/d' "${public[@]}" | grep -nE '\.\.\.|\b(bool|long|size_t|wchar_t|va_list|FILE|union|inline)\b|\(\)'; then
  echo "FAILED: a word that no public header may use stands above"
  failed=$((failed + 1))
fi
echo "$cells cells, $failed failed"
[ "$failed" -eq 0 ]
