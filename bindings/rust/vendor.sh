#!/bin/bash
# vendor.sh [FOLDER]: puts the source that the feature `vendored` builds into FOLDER, by default bindings/rust/quire-sys/vendor, where
# `cargo package` takes it from: the library, the drivers cpu and null, the connectors host and null.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
to=${1:-$top/bindings/rust/quire-sys/vendor}
rm -rf "$to"
mkdir -p "$to"
cd "$top"
for each in CMakeLists.txt LICENSE abi/CMakeLists.txt abi/include abi/quire.map bindings/CMakeLists.txt bindings/cpp cmake core \
  drivers/CMakeLists.txt drivers/common drivers/cpu drivers/null plugins/CMakeLists.txt plugins/common plugins/host plugins/null; do
  mkdir -p "$to/$(dirname "$each")"
  cp -R "$each" "$to/$each"
done
echo "$to: $(find "$to" -type f | wc -l) files, $(du -sk "$to" | cut -f1) KiB"
