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
ours='/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so'  # what every machine has, and must be its own
for program in "$build/bin/quire_conformance" "$build/bin/quire_gpu_bench" "$module"; do  # where they find their libraries
  ldd "$program" | sed -nE 's/.* => (\/[^ ]+) .*/\1/p'
done | sort -u | grep -vE "$ours" | while read -r library; do cp -L "$library" "$kit/lib/"; done
strip "$kit/quire_conformance" "$kit/quire_gpu_bench" "$kit"/lib/*
cp "$here/run.sh" "$here/peers.py" "$kit/"
echo "$driver" >"$kit/driver"
# Nothing is taken from the machine but its C library, of this version or a newer one.
for file in "$kit/quire_conformance" "$kit/quire_gpu_bench" "$kit"/lib/*; do
  LD_LIBRARY_PATH=$kit/lib ldd "$file" | grep '=>' | grep -vE "=> $kit/lib/|$ours" && { echo "$file needs more than the kit has"; exit 1; }
done
glibc=$(objdump -T "$kit/quire_conformance" "$kit/quire_gpu_bench" "$kit"/lib/* | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)
bytes=$(du -sb "$kit" | cut -f 1)
echo "$kit: $bytes bytes, needs $glibc"
[ "$bytes" -lt 60000000 ] || { echo "above 60 MB"; exit 1; }
