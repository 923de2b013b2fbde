#!/bin/bash
# install.sh CMAKE BUILD SOURCE: installs into a scratch prefix, moves it, and builds against it alone, by pkg-config and by CMake.
set -eu
cmake=$1 build=$2 source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
umask 022

"$cmake" --install "$build" --prefix "$work/first" >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/moved"
lib=$(dirname "$(find "$work/moved" -name libquire.so)")

# pkg-config, plain C99.
export PKG_CONFIG_PATH=$lib/pkgconfig
cat >"$work/engine.c" <<'END'
#include <quire/quire.h>
#include <stdio.h>
#include <string.h>
int main(void) {
  quire_runtime_options options;
  quire_runtime *runtime = 0;
  quire_probe_info items[32];
  uint64_t count = 0, i;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.header_abi = QUIRE_ABI_VERSION;
  options.flags = QUIRE_RUNTIME_NO_ENV | QUIRE_RUNTIME_TRUST_PATHS;
  if (quire_runtime_create(&options, &runtime, 0) != QUIRE_OK) return 1;
  if (quire_runtime_probe(runtime, items, sizeof items[0], 32, &count, 0) != QUIRE_OK) return 2;
  for (i = 0; i < count; ++i) {
    if (items[i].kind == 1 && strcmp(items[i].name, "null") == 0) puts(items[i].path);
  }
  quire_runtime_release(runtime);
  return 0;
}
END
# shellcheck disable=SC2046
gcc -std=c99 -Wall -Wextra -pedantic-errors -Werror $(pkg-config --cflags quire) "$work/engine.c" -o "$work/engine" $(pkg-config --libs quire)
plugins=$(realpath "$(pkg-config --variable=plugindir quire)")
found=$(LD_LIBRARY_PATH=$lib "$work/engine")
[ "$found" = "$plugins/libquire_driver_null.so" ] || { echo "FAILED: plugindir is $plugins, the library found '$found'"; exit 1; }
echo "pkg-config: plugindir is where the library looks"
# The archive, where it was built: the same program, with the library inside.
if pkg-config --exists quire-static; then
  # shellcheck disable=SC2046
  gcc -std=c99 $(pkg-config --cflags quire-static) "$work/engine.c" -o "$work/engine_static" $(pkg-config --static --libs quire-static)
  ! readelf -d "$work/engine_static" | grep NEEDED | grep -q libquire || { echo "FAILED: libquire.a needs libquire.so"; exit 1; }
  echo "pkg-config --static quire-static: a program with the library inside"
fi

# The command finds its library beside it.
[ -x "$work/moved/bin/quire" ] || { echo "FAILED: no quire in bin"; exit 1; }
env -u LD_LIBRARY_PATH "$work/moved/bin/quire" --version

# So does the engine, and the guides are there with links that hold.
env -u LD_LIBRARY_PATH "$work/moved/bin/quire_engine" --help >/dev/null || { echo "FAILED: quire_engine does not find its library"; exit 1; }
if [ -e "$work/moved/bin/quire_generate" ]; then  # where what it needs was found
  env -u LD_LIBRARY_PATH QUIRE_DRIVER=cpu "$work/moved/bin/quire_generate" --model "$source/samples/lm/box/model" --chat --prompt "What is a step?" \
    >"$work/log" || { cat "$work/log"; echo "FAILED: quire_generate does not answer"; exit 1; }
  grep -q 'step is' "$work/log" || { cat "$work/log"; echo "FAILED: quire_generate gives another answer"; exit 1; }
fi
guide=$(find "$work/moved/share/doc" -name in-your-engine.md)
[ -f "$(dirname "$guide")/../samples/README.md" ] || { echo "FAILED: the guide's samples are not installed"; exit 1; }

# CMake: a driver and an engine outside of the tree.
cp -r "$(find "$work/moved/share/doc" -type d -name own_driver)" "$work/own"
"$cmake" -S "$work/own" -B "$work/own/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_C_FLAGS="-Wall -Wextra -Werror" >"$work/log" 2>&1 &&
  "$cmake" --build "$work/own/build" >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep -rl "$source" "$work/own/build" --include=build.ninja && { echo "FAILED: the build looks into the source tree"; exit 1; }
"$work/own/build/own_engine" "$work/own/build" | diff - "$work/own/expected.txt"
nm -D --defined-only "$work/own/build/libquire_driver_own.so" | awk '{print $3}' | diff - <(echo quire_driver_query)
echo "CMake: samples/own_driver builds and runs against the installed package"

# CMake: the five stories, as they stand in the tree, on two drivers.
# The samples that were installed are those that are built.
cp -r "$(dirname "$(find "$work/moved/share/doc" -path '*/samples/README.md')")" "$work/samples"
for language in c cpp; do
  "$cmake" -S "$work/samples/$language" -B "$work/$language" -G Ninja -DCMAKE_PREFIX_PATH="$work/moved" >"$work/log" 2>&1 &&
    "$cmake" --build "$work/$language" >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  grep -l "$source" "$work/$language/build.ninja" && { echo "FAILED: the build looks into the source tree"; exit 1; }
  for story in hello hybrid driver_swap dlpack step_loop; do
    for driver in cpu null "?"; do
      "$work/samples/expected/compare.sh" "$work/$language/$story" $story "$driver"
    done
  done
  echo "CMake: samples/$language builds and runs against the installed package"
done

# The engine in C: verified on the CPU; the driver without kernels ends it with an error.
# shellcheck disable=SC2046
gcc -std=c11 -D_POSIX_C_SOURCE=200809L -O1 -Wall -Wextra -Werror $(pkg-config --cflags quire) $(find "$work/samples/engine" -name '*.c' ! -name parts_test.c) \
  -o "$work/engine_c" $(pkg-config --libs quire) -lm -lpthread
small=(--conversations 4 --turns 2 --layers 4 --pages 82 --rows 200 --verify)
LD_LIBRARY_PATH=$lib QUIRE_DRIVER=cpu "$work/engine_c" "${small[@]}" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep -qE '^verified [0-9]+ rows, 0 mismatches$' "$work/log" || { cat "$work/log"; exit 1; }
code=0
LD_LIBRARY_PATH=$lib QUIRE_DRIVER=null "$work/engine_c" "${small[@]}" >"$work/log" 2>&1 || code=$?
[ $code -eq 3 ] && grep -q "this driver has no entry" "$work/log" || { echo "FAILED: the engine on the driver null ends with $code"; cat "$work/log"; exit 1; }
echo "samples/engine builds against the installed package, verifies on cpu and ends in UNIMPLEMENTED on null"

# The code and the build lines of docs/in-your-engine.md, as they stand there. docs/write-a-driver.md: driver_template.sh.
blocks() { awk -v open='```'"$2" '$0 == open { inside = 1; next } /^```/ { inside = 0 } inside' "$source/docs/$1.md"; }
mkdir "$work/guides"
{ blocks in-your-engine c; echo 'int main(void) { return 0; }'; } >"$work/guides/engine.c"
{ printf 'cmake_minimum_required(VERSION 3.25)\nproject(guides LANGUAGES C)\n'; blocks in-your-engine cmake; } \
  >"$work/guides/CMakeLists.txt"
"$cmake" -S "$work/guides" -B "$work/guides/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_C_FLAGS="-Wall -Wextra -Werror" >"$work/log" 2>&1 &&
  "$cmake" --build "$work/guides/build" >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
echo "CMake: the guide's engine builds against the installed package"

# Programs of libraries of their own, by pkg-config and by CMake, where these were built.
links() {  # links NAME SOURCE
  if ! pkg-config --exists "quire-$1"; then
    echo "skipped: libquire_$1 was not built, so nothing is built against it"
    return
  fi
  mkdir "$work/$1"
  printf '%s\n' "$2" >"$work/$1/program.c"
  # shellcheck disable=SC2046
  gcc -std=c11 -Wall -Wextra -Werror $(pkg-config --cflags "quire-$1") "$work/$1/program.c" -o "$work/$1/by_pkg_config" $(pkg-config --libs "quire-$1")
  LD_LIBRARY_PATH=$lib "$work/$1/by_pkg_config" || { echo "FAILED: a program of libquire_$1"; exit 1; }
  { printf 'cmake_minimum_required(VERSION 3.25)\nproject(program LANGUAGES C)\nfind_package(quire REQUIRED)\n'
    printf 'add_executable(by_cmake program.c)\ntarget_link_libraries(by_cmake PRIVATE quire::%s)\n' "$1"; } >"$work/$1/CMakeLists.txt"
  "$cmake" -S "$work/$1" -B "$work/$1/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/moved" >"$work/log" 2>&1 &&
    "$cmake" --build "$work/$1/build" >>"$work/log" 2>&1 && "$work/$1/build/by_cmake" || { cat "$work/log"; exit 1; }
  echo "quire-$1: a program builds by pkg-config and by CMake"
}
links zmq "$(blocks events c)
int main(void) { return open_publisher(0, 0) == QUIRE_INVALID_ARGUMENT ? 0 : 1; }"
links exporter "#include <quire/exporter.h>
int main(void) { return quire_abi_version() != 0 && quire_exporter_create(0, 0, 0) == QUIRE_INVALID_ARGUMENT ? 0 : 1; }"

# Another major or minor version is refused.
for version in 2 0.1; do
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES NONE)\nfind_package(quire %s REQUIRED)\n' $version >"$work/CMakeLists.txt"
  if "$cmake" -S "$work" -B "$work/refused$version" -DCMAKE_PREFIX_PATH="$work/moved" >"$work/log" 2>&1; then
    echo "FAILED: find_package(quire $version) was accepted"
    exit 1
  fi
done
echo "CMake: find_package(quire 2) and (quire 0.1) are refused"
