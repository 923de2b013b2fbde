#!/bin/bash
# twice.sh SOURCE: two copies of the tree, in folders of different depth, built at different times:
# every installed file and every Debian package must be equal byte for byte.
set -eu
source=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1
SOURCE_DATE_EPOCH=$(git -C "$source" log -1 --format=%ct)
export SOURCE_DATE_EPOCH
umask 022

build() {  # build FOLDER BUILD OUT
  mkdir -p "$1" "$3"
  git -C "$source" ls-files -z | (cd "$source" && xargs -0 cp --parents -t "$1")
  cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DQUIRE_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/usr
  cmake --build "$2" -j "$(nproc)"
  DESTDIR=$3/tree cmake --install "$2"
  (cd "$2" && cpack -G DEB -B "$3/packages")
  rm -rf "$3/packages/_CPack_Packages"
}

for n in 1 2; do
  folder=$work/$n
  [ $n = 1 ] || folder=$work/another/name/of/the/tree
  build "$folder" "$folder/build" "$work/out$n" >"$work/log$n" 2>&1 || { tail -n 40 "$work/log$n"; exit 1; }
done
if ! diff -rq "$work/out1" "$work/out2"; then
  trap - EXIT
  rm -rf "$work/1" "$work/another"
  echo "FAILED: two builds of one tree differ: $work/out1 and out2"
  exit 1
fi
files=$(find "$work/out1/tree" -type f | wc -l) packages=$(find "$work/out1/packages" -name '*.deb' | wc -l)
[ "$files" -gt 50 ] && [ "$packages" -gt 5 ] || { echo "FAILED: $files files and $packages packages are too few"; exit 1; }
echo "equal byte for byte: $files files, $packages packages"
