#!/bin/bash
# packages.sh CPACK BUILD: the Debian packages: which there are, what lies in them, what they depend on.
set -eu
cpack=$1 build=$2
command -v dpkg-deb >/dev/null || { echo "skipped: dpkg-deb is not installed, so no Debian package is built"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
(cd "$build" && "$cpack" -G DEB -B "$work") >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

# has PACKAGE FILE...: the package holds these files.
has() {
  local package=$1 deb
  shift
  deb=$(ls "$work"/"${package}"_*.deb)
  for file in "$@"; do
    dpkg-deb -c "$deb" | awk '{print $6}' | grep -qE "^\./usr/$file\$" || { echo "FAILED: $package has no $file"; dpkg-deb -c "$deb"; exit 1; }
  done
  echo "$package: $(dpkg-deb -f "$deb" Version), depends: $(dpkg-deb -f "$deb" Depends)"
}

has libquire0 'lib.*/libquire\.so\.0'
has libquire-dev 'lib.*/libquire\.so' 'include/quire/quire\.h' 'include/quire/sdk/note\.h' 'include/quire/sdk/dlpack\.h' 'include/quire\.hpp' 'include/quire_cpp/base\.hpp' 'lib.*/pkgconfig/quire\.pc' 'lib.*/cmake/quire/quireConfig\.cmake'
has libquire-driver-dev 'bin/quire_conformance' 'share/quire/driver-template/null_driver\.c' 'share/quire/driver-template/CMakeLists\.txt'
has quire-tools 'bin/quire'
has quire-driver-null 'lib.*/quire/0/libquire_driver_null\.so'
has quire-driver-cpu 'lib.*/quire/0/libquire_driver_cpu\.so'
has quire-connector-null 'lib.*/quire/0/libquire_connector_null\.so'
dpkg-deb -c "$(ls "$work"/libquire0_*.deb)" | grep -E 'libquire\.so$|\.h$|quire/0/' && { echo "FAILED: libquire0 holds what belongs to others"; exit 1; }
dpkg-deb -f "$(ls "$work"/quire-driver-cpu_*.deb)" Depends | grep -q 'quire-driver-abi-0.2' || { echo "FAILED: the driver does not ask for its ABI"; exit 1; }
dpkg-deb -f "$(ls "$work"/libquire0_*.deb)" Provides | grep -q 'quire-driver-abi-0.2' || { echo "FAILED: the library does not provide it"; exit 1; }
