#!/bin/bash
# tarball.sh CPACK BUILD [TARBALL]: the archive of `cpack -G TGZ`, or one that is there, unpacked into a scratch folder: the command plans a
# model, a story in C is compiled by pkg-config and prints what it should, and no file asks for more than docs/install.md says.
set -eu
cpack=$1 build=$2 source=$(cd "$(dirname "$0")/../.." && pwd)
unset QUIRE_DRIVER QUIRE_DRIVER_PATH LD_LIBRARY_PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $1"; exit 1; }

version=$(sed -nE 's/^project\(quire VERSION ([0-9.]+).*/\1/p' "$source/CMakeLists.txt")
name=quire-$version-linux-$(uname -m)
tarball=${3:-}
if [ -z "$tarball" ]; then
  umask 002  # nothing in an archive may follow it
  (cd "$build" && "$cpack" -G TGZ -B "$work/packed") >"$work/log" 2>&1 || { cat "$work/log"; fail "cpack -G TGZ"; }
  tarball=$work/packed/$name.tar.gz
fi
[ -f "$tarball" ] && [ "$(basename "$tarball")" = "$name.tar.gz" ] || fail "there is no $name.tar.gz, but: $(ls "$(dirname "$tarball")")"
tar -tvzf "$tarball" >"$work/contents"
! awk '{ print $6 }' "$work/contents" | grep -v "^$name/" || fail "these lie outside of the folder $name"
! grep -E '^[-d].{4}w|^[-d].{7}w' "$work/contents" || fail "others may write into these"

mkdir "$work/anywhere"
tar -xzf "$tarball" -C "$work/anywhere"
top=$work/anywhere/$name
"$top/bin/quire" --version | grep -qF "$version" || fail "bin/quire is not of version $version"
"$top/bin/quire" plan "$top/share/doc/quire/samples/models/qwen3-next-80b.json" --memory 80GiB >"$work/plan" || fail "quire plan"
grep -q 'attention' "$work/plan" || { cat "$work/plan"; fail "quire plan names no group"; }
"$top/bin/quire_engine" --help >/dev/null || fail "quire_engine does not start"
[ ! -e "$top/bin/quire_generate" ] || "$top/bin/quire_generate" --help >/dev/null || fail "quire_generate does not start"
echo "quire plan: $(wc -l <"$work/plan") lines"

export PKG_CONFIG_PATH=$top/lib/pkgconfig
# shellcheck disable=SC2046
"${CC:-cc}" -std=c11 -Wall -Wextra -Werror $(pkg-config --cflags quire) "$top/share/doc/quire/samples/c/step_loop.c" -o "$work/step_loop" \
  $(pkg-config --libs quire) -Wl,-rpath,"$top/lib" -lm
ldd "$work/step_loop" | grep -q "libquire.so.0 => $top/lib/" || fail "the sample does not load the library of the archive"
for driver in cpu null; do "$source/samples/expected/compare.sh" "$work/step_loop" step_loop $driver; done
echo "samples/c/step_loop.c: compiled by pkg-config, runs on cpu and null"

# What it needs of the system.
says=$top/share/doc/quire/docs/install.md
files=()
while IFS= read -r -d '' file; do
  [ "$(head -c 4 "$file" | tr -d '\0')" != "$(printf '\177ELF')" ] || files+=("$file")
done < <(find "$top" -type f -print0)
[ ${#files[@]} -ge 5 ] || fail "${#files[@]} programs and libraries were found"
stated() { sed -nE "s/.*\`$1_([0-9.]+)\`.*/\1/p" "$says" | head -n 1; }
needed() { readelf -VW "${files[@]}" | grep -oE "Name: $1_[0-9.]+" | sed 's/.*_//' | sort -V | tail -n 1; }
for symbols in GLIBC GLIBCXX; do
  needs=$(needed $symbols) limit=$(stated $symbols)
  [ -n "$needs" ] && [ -n "$limit" ] || fail "needs ${symbols}_$needs, docs/install.md says '$limit'"
  if [ "$(printf '%s\n' "$needs" "$limit" | sort -V | tail -n 1)" != "$limit" ]; then
    # shellcheck disable=SC1091
    if [ "$(. /etc/os-release && echo "$ID $VERSION_ID")" = "debian 12" ]; then fail "needs ${symbols}_$needs, docs/install.md says $limit"; fi
    echo "this system is not Debian 12: its archive needs ${symbols}_$needs"
  fi
  echo "needs ${symbols}_$needs; ${symbols}_$limit is promised"
done
readelf -dW "${files[@]}" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' | sort -u >"$work/libraries"
while read -r library; do
  case $library in libquire*.so.0|libc.so.6|libm.so.6|libstdc++.so.6|libgcc_s.so.1|ld-linux*) continue ;; esac
  grep -qF "\`$library\`" "$says" || fail "$library is needed, and docs/install.md does not say so"
done <"$work/libraries"
echo "libraries: $(paste -sd ' ' "$work/libraries")"
