#!/bin/bash
# driver_template.sh CMAKE BUILD SOURCE: docs/write-a-driver.md from top to bottom, as a reader without a source tree follows it: against a
# scratch installation alone, which is moved. Then drivers with faults: the conformance kit must name the entry.
set -eu
cmake=$1 build=$2 source=$3
unset QUIRE_DRIVER QUIRE_DRIVER_PATH LD_LIBRARY_PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
umask 022

fail() {  # fail MESSAGE [FILE]
  echo "FAILED: $1"
  [ $# -lt 2 ] || tail -n 60 "$2"
  exit 1
}

"$cmake" --install "$build" --prefix "$work/first" >"$work/log" || fail "cmake --install" "$work/log"
mv "$work/first" "$work/moved"
if [ ! -x "$work/moved/bin/quire_conformance" ]; then
  echo "skipped: quire_conformance is not installed, since GoogleTest is a shared library here"
  exit 77
fi
for file in bin/quire_conformance share/quire/driver-template/null_driver.c; do
  if grep -qaF "$source/" "$work/moved/$file"; then fail "$file names the source tree"; fi
done
lib=$(dirname "$(find "$work/moved" -name libquire.so)")
export PATH=$work/moved/bin:$PATH PKG_CONFIG_PATH=$lib/pkgconfig CMAKE_PREFIX_PATH=$work/moved CMAKE_GENERATOR=Ninja
export CFLAGS="-Wall -Wextra -Werror"

# Wrong arguments are refused, the right ones are explained.
refuses() {  # refuses STATUS TEXT ARGUMENT...
  local status=$1 text=$2 code=0
  shift 2
  quire_conformance "$@" >"$work/said" 2>&1 || code=$?
  [ $code -eq "$status" ] || fail "quire_conformance $* ends with $code instead of $status" "$work/said"
  grep -qF -- "$text" "$work/said" || fail "quire_conformance $* does not say '$text'" "$work/said"
}
refuses 0 "usage: quire_conformance --driver=NAME" --help
refuses 2 "--driver=NAME is missing"
refuses 2 "unknown argument '--drivers=null'" --drivers=null
refuses 2 "unknown argument 'null'" --driver=null null
refuses 2 "unknown argument '--gtest_filters=*'" --driver=null '--gtest_filters=*'
refuses 2 "'1x' is no number" --driver=null --flags=1x
refuses 2 "no entry is named 'copi'" --driver=null --require=copy,copi
refuses 2 "no libquire_driver_absent.so in the folders" --driver=absent
refuses 2 "no test was chosen" --driver=null '--gtest_filter=Absent.*'
refuses 0 "MergeOfEmptyParts" --driver=null --gtest_list_tests
refuses 1 "attention: the driver has no such entry, and it is required" --driver=null --require=attention
echo "quire_conformance: wrong arguments are refused"

# The guide: its commands are run, its C files are saved, its changes are made; what it shows is what is printed.
guide=$(find "$work/moved/share/doc" -name write-a-driver.md)
awk '
  /Save this as `/ { match($0, /Save this as `[^`]+`/); name = substr($0, RSTART + 14, RLENGTH - 15) }
  /^```sh$/ { inside = 1; next }
  /^```c$/ { inside = 2; print "cat >" name " <<\"END OF FILE\""; next }
  /^```diff$/ { inside = 2; print "patch -p0 <<\"END OF FILE\""; next }
  /^```/ { if (inside == 2) print "END OF FILE"; inside = 0; next }
  inside' "$guide" >"$work/guide.sh"
mkdir "$work/reader"
(cd "$work/reader" && bash -eu "$work/guide.sh") >"$work/said" 2>&1 || fail "the guide's commands" "$work/said"
awk '/^```text$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$guide" >"$work/shown"
[ -s "$work/shown" ] || fail "the guide shows nothing"
while IFS= read -r line; do
  grep -qxF -- "$line" "$work/said" || fail "the guide shows '$line', which is not printed" "$work/said"
done <"$work/shown"
if grep -rqF "$source/" "$work/reader/mine/build/build.ninja"; then fail "the build looks into the source tree"; fi
for module in build plain; do
  nm -D --defined-only "$work/reader/mine/$module/libquire_driver_mine.so" | awk '{ print $3 }' | diff - <(echo quire_driver_query)
done
QUIRE_DRIVER_PATH=$work/reader/mine/plain quire_conformance --driver=mine >"$work/said" ||
  fail "the module built without CMake" "$work/said"
echo "docs/write-a-driver.md: its commands work, and print what it shows"

# The stories run on the guide's driver.
for story in driver_swap dlpack step_loop; do
  # shellcheck disable=SC2046
  gcc -std=c11 $(pkg-config --cflags quire) "$source/samples/c/$story.c" -o "$work/$story" $(pkg-config --libs quire) -lm
done
story() { LD_LIBRARY_PATH=$lib QUIRE_DRIVER=mine QUIRE_DRIVER_PATH=$work/reader/mine/build "$work/$1"; }
story driver_swap | diff - <(sed 's/^driver cpu/driver mine/' "$source/samples/expected/driver_swap.txt")
story dlpack | diff - "$source/samples/expected/dlpack.txt"
{ story step_loop || [ $? -eq 1 ]; } | diff - "$source/samples/expected/step_loop.null.txt"
echo "samples/c: the stories run on the guide's driver"

# Faults in the template: the kit names the entry, with the message that the guide lists.
breaks() {  # breaks ENTRY MESSAGE SED: the entry's line says FAILED, and so it does without the rest of the tests
  local folder=$work/broken entry=$1 message=$2 code=0
  rm -rf "$folder"
  mkdir "$folder"
  sed -E "$3" "$work/reader/mine/mine_driver.c" >"$folder/mine_driver.c"
  if cmp -s "$folder/mine_driver.c" "$work/reader/mine/mine_driver.c"; then fail "the fault of $entry changes nothing"; fi
  # shellcheck disable=SC2046
  (cd "$work/reader/mine" && gcc -shared -fPIC -fvisibility=hidden $(pkg-config --cflags quire) -I. "$folder/mine_driver.c" echo.c \
    attention_merge.c -lm -o "$folder/libquire_driver_mine.so")
  quire_conformance --driver=mine --modules="$folder" >"$work/said" 2>&1 || code=$?
  [ $code -eq 1 ] || fail "a fault of $entry ends with $code" "$work/said"
  grep -qE "^  $entry +FAILED   in " "$work/said" || fail "a fault of $entry is not named" "$work/said"
  grep -qF -- "$message" "$work/said" || fail "a fault of $entry does not say '$message'" "$work/said"
  grep -qF -- "$message" "$guide" || fail "the guide does not list '$message'"
  ! grep -qE '^/' "$work/said" || fail "a failure names an absolute path" "$work/said"
}
breaks device_info 'written beyond struct_size' 's/memcpy\(info, &own, bytes\)/memcpy(info, \&own, sizeof own)/'
breaks device_info 'Which is: "null"' 's/strcpy\(own.driver, "mine"\)/strcpy(own.driver, "null")/'
breaks mem_alloc 'p) % (alignment > 1 ? alignment : 1)' 's/aligned_alloc\(\(size_t\)align, /aligned_alloc(16, /'
breaks mem_alloc 'QUIRE_INVALID_ARGUMENT' \
  's/return mine_fail\(err, QUIRE_INVALID_ARGUMENT, "alignment is not a power of two"\)/align = 1024/'
breaks copy 'target == want' 's/\(size_t\)runs\[i\]\.bytes\)/(size_t)runs[i].bytes \& ~(size_t)1)/'
breaks fill 'FAILED' 's/memset\(destination, value, /memset(destination, 0, /'
breaks stream_create 'FAILED' \
  's/^  stream->device = device;/  free(stream); static struct quire_driver_stream one; stream = \&one;/; s/free\(stream\); \}/(void)stream; }/'
echo "quire_conformance: faults in the template are found, and their entry is named"
