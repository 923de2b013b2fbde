#!/bin/bash
# cpp.sh CMAKE BUILD SOURCE: the tests of quire.hpp against a scratch installation alone, found by pkg-config.
set -eu
cmake=$1 build=$2 source=$3
work=$build/bindings/cpp-installed
mkdir -p "$work"
umask 022
rm -rf "$work/prefix"
for component in library dev driver_cpu driver_null connector_null; do
  "$cmake" --install "$build" --prefix "$work/prefix" --component $component >"$work/log" || { cat "$work/log"; exit 1; }
done
lib=$(dirname "$(find "$work/prefix" -name libquire.so)")
export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib
unset QUIRE_DRIVER QUIRE_DRIVER_PATH

# The rig's header is the test's own; nothing else of the tree may be found.
mkdir -p "$work/include/tests/bindings"
cp "$source/tests/bindings/cpp_rig.h" "$work/include/tests/bindings/"
objects=()
for unit in cpp_test cpp_throwing_test cpp_steps_test count_new; do
  # shellcheck disable=SC2046
  "${CXX:-g++}" -std=c++20 -O1 -Wall -Wextra -Werror -DQUIRE_MODULES="\"$lib/quire/0\"" -I"$work/include" $(pkg-config --cflags quire) \
    -c "$source/tests/bindings/$unit.cc" -o "$work/$unit.o"
  objects+=("$work/$unit.o")
done
# shellcheck disable=SC2046
"${CXX:-g++}" "${objects[@]}" -o "$work/cpp_test" $(pkg-config --libs quire) -lgtest -lgtest_main -lpthread
"$work/cpp_test" --gtest_brief=1
