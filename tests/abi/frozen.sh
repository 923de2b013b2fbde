#!/bin/bash
# frozen.sh SOURCE CLIENT DRIVERS MODULES: the frozen headers are untouched, and what was compiled against them works.
set -eu
source=$1 client=$2 drivers=$3 modules=$4
(cd "$source/tests/abi/frozen" && sha256sum --quiet -c sums) || { echo "FAILED: tests/abi/frozen was edited; see tests/abi/freeze.sh"; exit 1; }
"$client" "$drivers" frozen
"$client" "$modules" null
