#!/bin/bash
# Packs what a machine with a GPU needs to check and measure a driver: programs, library, module, their shared libraries but for the C
# library's, and run.sh.   kit.sh BUILD DRIVER FOLDER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1 driver=$2 kit=$3
rm -rf "$kit"
mkdir -p "$kit/lib"
cp "$build/bin/quire_conformance" "$build/bin/quire_gpu_bench" "$kit/"
module=$build/lib/quire/0/libquire_driver_$driver.so  # and no other: tests have modules of that name too
cp "$module" "$kit/lib/"
for program in "$kit/quire_conformance" "$kit/quire_gpu_bench" "$module"; do
  ldd "$program" | sed -nE 's/.* => (\/[^ ]+) .*/\1/p'
done | sort -u | grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' | while read -r library; do cp -L "$library" "$kit/lib/"; done
strip "$kit/quire_conformance" "$kit/quire_gpu_bench" "$kit"/lib/*
cp "$here/run.sh" "$kit/"
echo "$driver" >"$kit/driver"
bytes=$(du -sb "$kit" | cut -f 1)
echo "$kit: $bytes bytes"
[ "$bytes" -lt 60000000 ] || { echo "above 60 MB"; exit 1; }
