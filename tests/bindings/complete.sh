#!/bin/bash
# complete.sh MAP FOLDER: every function of the ABI is called by the binding in FOLDER, but for those that engines do not need:
# modules inside the process, and tensors of DLPack 0.x.
set -u
map=$1 folder=$2
missing=0
for name in $(grep -oE 'quire_[a-z0-9_]+;' "$map" | tr -d ';'); do
  case $name in
    quire_register_*|*_legacy|quire_abi_version) continue ;;
  esac
  grep -rqw "$name" "$folder" || { echo "FAILED: $folder does not call $name"; missing=1; }
done
exit $missing
