#!/bin/bash
# complete.sh MAP FOLDER [NAME...]: every function of the ABI is called by the binding in FOLDER, but for those that engines do not need
# (modules inside the process) and for NAMEs, which the binding leaves out on purpose.
set -u
map=$1 folder=$2
shift 2
missing=0
for name in $(grep -oE 'quire_[a-z0-9_]+;' "$map" | tr -d ';'); do
  case " quire_abi_version $* " in *" $name "*) continue ;; esac
  case $name in quire_register_*) continue ;; esac
  grep -rqw "$name" "$folder" || { echo "FAILED: $folder does not call $name"; missing=1; }
done
for name in "$@"; do
  ! grep -rqw "$name" "$folder" || { echo "FAILED: $folder calls $name: leave it out of the list"; missing=1; }
done
exit $missing
