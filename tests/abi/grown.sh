#!/bin/bash
# grown.sh SOURCE BUILD CLIENT DRIVERS: an engine binary built before runs unchanged on a library with an added function, a field added to a
# descriptor and one added to an info struct. Only the two units that read those structs are compiled again; the rest is this build's.
set -eu
source=$1 build=$2 client=$3 drivers=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree" "$work/lib"
cp -r "$source/abi" "$source/core" "$work/tree/"
cd "$work/tree"

# after LINE-PATTERN FILE TEXT: puts a line behind the first match, or in front of it with "before".
after() { grep -qE "$1" "$2" || { echo "FAILED: $2 has no '$1'"; exit 1; }; sed -i -E "0,/$1/s//&\n$3/" "$2"; }
before() { grep -qE "$1" "$2" || { echo "FAILED: $2 has no '$1'"; exit 1; }; sed -i -E "0,/$1/s//$3\n&/" "$2"; }
before '^\} quire_runtime_options;' abi/include/quire/base.h '  uint64_t grown;'
before '^\} quire_model_info;' abi/include/quire/model.h '  uint64_t grown;'
before '^\/\* Creates a runtime:' abi/include/quire/base.h 'QUIRE_API uint64_t quire_grown(const quire_runtime_options *options);'
after '^    quire_code_name;' abi/quire.map '    quire_grown;'
echo 'uint64_t quire_grown(const quire_runtime_options* options) { return options->struct_size; }' >>core/c_api/base_api.cc
before '^    c_api::write_info\(info, own\);' core/c_api/model_api.cc '    own.grown = 77;'

# Compiled as the build compiles them, with the grown headers.
for unit in base_api model_api; do
  command=$(grep -oE '"command": ".*core/c_api/'$unit'\.cc"' "$build/compile_commands.json" | head -1 | sed -E 's/^"command": "//; s/"$//; s/\\"/"/g; s/\\\\"/\\"/g')
  command=${command//$source\/abi/$work/tree/abi}
  command=${command//-I$source /-I$work/tree }
  command=$(sed -E "s# -o [^ ]+ # -o $work/$unit.o #; s# -c [^ ]+\$# -c $work/tree/core/c_api/$unit.cc#" <<<"$command")
  (cd "$build" && eval "$command")
done
objects=$(grep -E '^build [^:]*libquire\.so[^:]*: CXX_SHARED' "$build/build.ninja" | head -1 |
  grep -oE 'core/c_api/CMakeFiles/quire\.dir/[^ ]+\.o' | grep -vE '/(base|model)_api\.cc\.o$')
link=$(grep -oE 'LINK_LIBRARIES = .*libquire_core\.a.*' "$build/build.ninja" | head -1 | sed 's/^LINK_LIBRARIES = //')
# shellcheck disable=SC2086
(cd "$build" && c++ -shared -o "$work/lib/libquire.so.0" -Wl,-soname,libquire.so.0 -Wl,--version-script="$work/tree/abi/quire.map" -Wl,-z,nodelete \
  "$work/base_api.o" "$work/model_api.o" $objects $link)
nm -D --defined-only "$work/lib/libquire.so.0" | grep -q 'quire_grown' || { echo "FAILED: the grown library does not export the added function"; exit 1; }

# The old binary, unchanged, on the grown library.
LD_LIBRARY_PATH=$work/lib ldd "$client" | grep -q "$work/lib/libquire.so.0" ||
  { LD_PRELOAD=$work/lib/libquire.so.0 "$client" "$drivers" frozen >"$work/log"; preload=1; }
if [ -z "${preload:-}" ]; then LD_LIBRARY_PATH=$work/lib "$client" "$drivers" frozen >"$work/log"; fi
cat "$work/log"
grep -q 'served with driver frozen' "$work/log"

# A new client: on the grown library its new fields work; on the old one a new field that is set is refused by name of the byte.
cat >"$work/new.c" <<'END'
#include <quire/quire.h>
#include <stdio.h>
#include <string.h>
int main(void) {
  quire_error err = {.struct_size = sizeof err};
  quire_runtime_options options = {.struct_size = sizeof options, .header_abi = QUIRE_ABI_VERSION, .flags = QUIRE_RUNTIME_NO_ENV};
  quire_runtime *runtime = 0;
  if (quire_runtime_create(&options, &runtime, &err) != QUIRE_OK) return printf("zero: %s\n", err.message), 1;
  quire_runtime_release(runtime);
  runtime = 0;
  options.grown = 5;
  quire_code code = quire_runtime_create(&options, &runtime, &err);
  printf("set: %s %s\n", quire_code_name(code).data, err.message);
  quire_runtime_release(runtime);
  return 0;
}
END
gcc -std=c11 -I"$work/tree/abi/include" "$work/new.c" -o "$work/new" "$build/lib/libquire.so.0"
LD_PRELOAD=$work/lib/libquire.so.0 "$work/new" | grep -q '^set: OK' || { echo "FAILED: the grown library refuses its own field"; exit 1; }
LD_LIBRARY_PATH=$build/lib "$work/new" | tee "$work/log"
grep -q '^set: UNIMPLEMENTED options: byte 1[0-9][0-9] is set and this library knows' "$work/log" || { echo "FAILED: the old library takes a field it does not know"; exit 1; }
echo "an old client on a grown library, and a new client on an old one"
