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
for unit in cpp_test cpp_throwing_test cpp_holds_test cpp_steps_test count_new; do
  # shellcheck disable=SC2046
  "${CXX:-g++}" -std=c++20 -O1 -Wall -Wextra -Werror -DQUIRE_MODULES="\"$lib/quire/0\"" -I"$work/include" $(pkg-config --cflags quire) \
    -c "$source/tests/bindings/$unit.cc" -o "$work/$unit.o"
  objects+=("$work/$unit.o")
done
# shellcheck disable=SC2046
"${CXX:-g++}" "${objects[@]}" -o "$work/cpp_test" $(pkg-config --libs quire) -lgtest -lgtest_main -lpthread
"$work/cpp_test" --gtest_brief=1

# Units with and without exceptions, and with errors thrown or returned, make one program: who has exceptions throws, in every order of
# linking, from value() and out of nobody's deleter.
cat >"$work/modes.cc" <<'END'
#include <quire.hpp>
bool FUNCTION() {
  const int64_t shape[1] = {1};
  const auto done = [] {
#if defined(__cpp_exceptions)
    throw 1;
#endif
  };
  {
    quire::Result<quire::DlTensor> tensor(quire::DlTensor::over(nullptr, {QUIRE_DTYPE_UINT, 8, 1}, shape, {}, done));
  }
#if defined(__cpp_exceptions)
  try {
    quire::Result<int>(quire::Error(QUIRE_NOT_FOUND, "nothing")).value();
    return false;
  } catch (const quire::Exception& failure) {
    return failure.code() == QUIRE_NOT_FOUND;
  }
#else
  const auto value = &quire::Result<int>::operator bool;  // and the others of the class
  (void)value;
  const quire::Result<void> fine;
  fine.value();
  return (quire::Result<int>(7)).value() == 7;
#endif
}
END
flags="-std=c++20 -O0 -Wall -Wextra -Werror $(pkg-config --cflags quire)"
# shellcheck disable=SC2086
for mode in returned:-fexceptions returned_without:-fno-exceptions thrown:-DQUIRE_EXCEPTIONS; do
  "${CXX:-g++}" $flags "${mode#*:}" "-DFUNCTION=${mode%%:*}" -c "$work/modes.cc" -o "$work/${mode%%:*}.o"
done
echo 'bool returned(), returned_without(), thrown();
int main() { return returned() && returned_without() && thrown() ? 0 : 1; }' >"$work/modes_main.cc"
for order in "returned returned_without thrown" "returned_without thrown returned" "thrown returned returned_without"; do
  units=()
  for unit in $order; do units+=("$work/$unit.o"); done
  # shellcheck disable=SC2046
  "${CXX:-g++}" -std=c++20 "$work/modes_main.cc" "${units[@]}" -o "$work/modes" $(pkg-config --libs quire)
  "$work/modes" || { echo "FAILED: units linked in the order $order"; exit 1; }
done
