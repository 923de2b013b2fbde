#!/bin/bash
# A GPU driver's module links no vendor library, loads where there is none, and says why it cannot be used; so does the library where the
# environment names it.   module.sh NAME MODULE PROGRAMS
set -u
needed=$(readelf -d "$2" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p')
[ -n "$needed" ] || { echo "$2: readelf lists nothing"; exit 1; }
if grep -E 'cuda|amdhip|hsa' <<<"$needed"; then
  echo "$2 is linked with a vendor's library"
  exit 1
fi
said=$("$3/quire_conformance" --driver="$1" --modules="$(dirname "$2")" --gtest_filter=None.* 2>&1)
code=$?
echo "$said"
if [ $code -eq 77 ]; then
  reason='no (NVIDIA driver|CUDA device|AMD driver|HIP device)'
  grep -qE "$reason" <<<"$said" || { echo "the reason is not said"; exit 1; }
  said=$(QUIRE_DRIVER=$1 QUIRE_DRIVER_PATH=$(dirname "$2") "$3/quire" info)
  echo "$said"
  grep -qE "^device: none \(UNAVAILABLE: QUIRE_DRIVER=$1: driver $1: $reason" <<<"$said" || { echo "the library does not say it"; exit 1; }
elif [ $code -ne 0 ]; then
  exit 1
fi
