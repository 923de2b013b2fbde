#!/bin/bash
# packages.sh CPACK BUILD: the Debian packages: which there are, what lies in them, what they depend on.
set -eu
cpack=$1 build=$2 source=$(cd "$(dirname "$0")/../.." && pwd)
command -v dpkg-deb >/dev/null || { echo "skipped: dpkg-deb is not installed, so no Debian package is built"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Many users have this one; nothing in a package may follow it.
umask 002
(cd "$build" && "$cpack" -G DEB -B "$work") >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

# has PACKAGE FILE...: the package holds these files.
has() {
  local package=$1 deb
  shift
  deb=$(ls "$work"/"${package}"_*.deb)
  dpkg-deb -c "$deb" | awk '{print $6}' >"$work/contents"
  for file in "$@"; do
    grep -qE "^\./usr/$file\$" "$work/contents" || { echo "FAILED: $package has no $file"; dpkg-deb -c "$deb"; exit 1; }
  done
  echo "$package: $(dpkg-deb -f "$deb" Version), depends: $(dpkg-deb -f "$deb" Depends)"
}

has libquire0 'lib.*/libquire\.so\.0' 'share/doc/libquire0/quire\.spdx\.json'
for deb in "$work"/*.deb; do
  package=$(dpkg-deb -f "$deb" Package)
  has "$package" "share/doc/$package/copyright" "share/doc/$package/changelog\.gz"
  dpkg-deb --fsys-tarfile "$deb" | tar -xO "./usr/share/doc/$package/changelog.gz" | gzip -dc >"$work/changelog"
  grep -q "^quire ($(dpkg-deb -f "$deb" Version))" "$work/changelog" || { echo "FAILED: the changes of $package do not begin with its version"; exit 1; }
done
# What the library exports is what the symbols file says, by name and version.
dpkg-deb -e "$(ls "$work"/libquire0_*.deb)" "$work/control"
dpkg-deb --fsys-tarfile "$(ls "$work"/libquire0_*.deb)" | tar -xC "$work" ./usr
nm -D --defined-only "$(find "$work/usr" -name 'libquire.so.0.*')" | awk '$3 ~ /@@?QUIRE/ { sub(/@@/, "@", $3); print $3 }' | sort >"$work/exported"
sed -nE 's/^ (quire_\S+@QUIRE\S+) .*/\1/p' "$work/control/symbols" | sort >"$work/listed"
[ "$(wc -l <"$work/exported")" -gt 100 ] || { echo "FAILED: the library exports next to nothing"; exit 1; }
diff "$work/listed" "$work/exported" || { echo "FAILED: cmake/debian/symbols (<) is not what the library exports (>)"; exit 1; }
# What is compiled into the library or linked with it is named, with its version. Names of types tell of headers.
named() {  # named TEXT SBOM: where the library holds TEXT, the list has the package SBOM
  local sbom=$work/usr/share/doc/libquire0/quire.spdx.json
  grep -qaE "$1" "$(find "$work/usr" -name 'libquire.so.0.*')" || return 0
  grep -qE "\"name\": \"$2\", \"versionInfo\": \"[0-9]+\.[0-9]" "$sbom" || { echo "FAILED: quire.spdx.json lacks $2 or its version"; exit 1; }
}
named 'nlohmann' nlohmann-json
named 'N6spdlog' spdlog
named 'N3fmt2v' fmt
named 'libffi' libffi
named 'sha256' openssl
diff <(echo "libquire 0 libquire0 (>= $(dpkg-deb -f "$(ls "$work"/libquire0_*.deb)" Version))") "$work/control/shlibs" ||
  { echo "FAILED: cmake/debian/shlibs (>) is not of this version (<)"; exit 1; }
# Programs and libraries are guarded: cmake/hardening.cmake.
mkdir "$work/all"
for deb in "$work"/*.deb; do dpkg-deb -c "$deb"; done >"$work/modes"
# Nobody but root writes into what was installed.
! grep -E '^[-d].{4}w|^[-d].{7}w' "$work/modes" || { echo "FAILED: others may write into it"; exit 1; }
for deb in "$work"/*.deb; do dpkg-deb -x "$deb" "$work/all"; done
guarded=0
lacks() { echo "FAILED: ${file#"$work/all"} $1"; exit 1; }
for file in $(find "$work/all" -type f); do
  [ "$(head -c 4 "$file" | tr -d '\0')" = "$(printf '\177ELF')" ] || continue
  readelf -hldW --dyn-syms "$file" >"$work/elf" 2>/dev/null
  grep -qE 'Type: +DYN' "$work/elf" || lacks "is not position independent"
  grep -q GNU_RELRO "$work/elf" || lacks "has writable relocations"
  grep -qE 'BIND_NOW|Flags:.* NOW' "$work/elf" || lacks "binds functions late"
  grep -E 'GNU_STACK' "$work/elf" | grep -q ' RW ' || lacks "has an executable stack"
  ! grep -q TEXTREL "$work/elf" || lacks "has text relocations"
  ! grep -E 'RPATH|RUNPATH' "$work/elf" | grep -vqF '[$ORIGIN/' || lacks "has a search path outside of its own tree"
  case $file in
    *libquire.so*|*/bin/*|*driver_cpu*) grep -q __stack_chk_fail "$work/elf" || lacks "has no stack protector" ;;
  esac
  guarded=$((guarded + 1))
done
[ "$guarded" -ge 5 ] || { echo "FAILED: $guarded programs and libraries were found"; exit 1; }
echo "guarded: $guarded programs and libraries"
# What Debian's own tool says (package devscripts), where it is installed. That jumps are guarded (IBT, SHSTK) is written into a file only if
# every object in it says so, and the C library's own crti.o may not.
if command -v hardening-check >/dev/null; then
  options=()
  crti=$(${CC:-cc} -print-file-name=crti.o)
  readelf -n "$crti" | grep -q 'IBT, SHSTK' || options+=(--nocfprotection)
  checked=0
  while IFS= read -r -d '' file; do
    [ "$(head -c 4 "$file" | tr -d '\0')" = "$(printf '\177ELF')" ] || continue
    hardening-check "${options[@]}" "$file" >"$work/log" 2>&1 || { cat "$work/log"; echo "FAILED: hardening-check"; exit 1; }
    checked=$((checked + 1))
  done < <(find "$work/all" -type f -print0)
  [ "$checked" -eq "$guarded" ] || { echo "FAILED: $checked of $guarded were checked"; exit 1; }
  echo "hardening-check ${options[*]}: $checked files, clean"
fi
has libquire-dev 'share/doc/quire/docs/in-your-engine\.md' 'share/doc/quire/samples/c/hello\.c' 'lib.*/libquire\.so' 'include/quire/quire\.h' 'include/quire/sdk/note\.h' 'include/quire/sdk/dlpack\.h' 'include/quire\.hpp' 'include/quire_cpp/base\.hpp' 'lib.*/pkgconfig/quire\.pc' 'lib.*/cmake/quire/quireConfig\.cmake'
has libquire-driver-dev 'bin/quire_conformance' 'share/man/man1/quire_conformance\.1\.gz' 'share/quire/driver-template/null_driver\.c' 'share/quire/driver-template/CMakeLists\.txt'
has quire-tools 'bin/quire' 'bin/quire_engine' 'share/man/man1/quire\.1\.gz' 'share/man/man1/quire-plan\.1\.gz' 'share/man/man1/quire_engine\.1\.gz' \
  'share/quire/schemas/plan-1\.json' 'share/bash-completion/completions/quire'
[ ! -x "$build/bin/quire_generate" ] || has quire-tools 'bin/quire_generate' 'share/man/man1/quire_generate\.1\.gz'
has quire-driver-null 'lib.*/quire/0/libquire_driver_null\.so'
has quire-driver-cpu 'lib.*/quire/0/libquire_driver_cpu\.so'
has quire-connector-null 'lib.*/quire/0/libquire_connector_null\.so'
has quire-connector-host 'lib.*/quire/0/libquire_connector_host\.so'
for name in file mooncake redis; do  # where what they need was found
  [ ! -e "$build/lib/quire/0/libquire_connector_$name.so" ] || has "quire-connector-$name" "lib.*/quire/0/libquire_connector_$name\.so"
done
for name in zmq exporter; do  # where what they need was found
  [ -e "$build/lib/libquire_$name.so.0" ] || continue
  node=QUIRE_${name^^}
  has "libquire-${name}0" "lib.*/libquire_$name\.so\.0"
  has "libquire-$name-dev" "include/quire/$name\.h" "lib.*/libquire_$name\.so" "lib.*/pkgconfig/quire-$name\.pc" "lib.*/cmake/quire/quire${name^}Targets\.cmake"
  dpkg-deb -e "$(ls "$work/libquire-${name}0_"*.deb)" "$work/${name}_control"
  nm -D --defined-only "$(find "$work/all" -name "libquire_$name.so.0.*")" | awk -v node="@@?$node" '$3 ~ node { sub(/@@/, "@", $3); print $3 }' | sort >"$work/exported"
  sed -nE "s/^ (quire_\S+@$node\S+) .*/\1/p" "$work/${name}_control/symbols" | sort | diff - "$work/exported" ||
    { echo "FAILED: cmake/debian/$name/symbols (<) is not what libquire_$name exports (>)"; exit 1; }
  diff <(echo "libquire_$name 0 libquire-${name}0 (>= $(dpkg-deb -f "$(ls "$work/libquire-${name}0_"*.deb)" Version))") "$work/${name}_control/shlibs" ||
    { echo "FAILED: cmake/debian/$name/shlibs (>) is not of this version (<)"; exit 1; }
done
dpkg-deb -c "$(ls "$work"/libquire0_*.deb)" | grep -E 'libquire\.so$|\.h$|quire/0/' && { echo "FAILED: libquire0 holds what belongs to others"; exit 1; }

# asks KIND MODULE: the module's package asks for the ABI that the header of its kind has, and the library provides that.
asks() {
  local number abi
  number=$((16#$(sed -nE "s/^#define QUIRE_${1^^}_ABI_VERSION 0x([0-9a-f]+)u.*/\1/p" "$source/abi/include/quire/$1.h")))
  abi=quire-$1-abi-$((number >> 16)).$((number & 65535))
  dpkg-deb -f "$(ls "$work/quire-$1-$2"_*.deb)" Depends | grep -q "$abi" || { echo "FAILED: quire-$1-$2 does not ask for $abi"; exit 1; }
  dpkg-deb -f "$(ls "$work"/libquire0_*.deb)" Provides | grep -q "$abi" || { echo "FAILED: the library does not provide $abi"; exit 1; }
}
asks driver cpu
asks connector null
