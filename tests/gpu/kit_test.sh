#!/bin/bash
# The kit has the driver with its kernels, runs from a folder elsewhere, with libraries of its own, and writes one JSON: of the table where
# there is a GPU, of the reason where there is none.   kit_test.sh BUILD
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$here/kit.sh" "$build" cuda "$folder/kit"
python3 - "$folder/kit/lib/libquire_driver_cuda.so" <<'PY'
import sys
module = open(sys.argv[1], "rb").read()
assert bytes.fromhex("50ed55ba") in module, "the module has no code for a GPU"
assert b"quire unit " not in module, "the module has a test's stand-ins for kernels"
PY
code=0
"$folder/kit/run.sh" "$folder/out.json" --small || code=$?
python3 - "$folder/out.json" "$code" <<'PY'
import json, sys
told = json.load(open(sys.argv[1]))
if sys.argv[2] == "77":
    assert "no" in told["unavailable"], told
    print("without a GPU:", told["unavailable"])
else:
    assert sys.argv[2] == "0" and told["conformance"]["failures"] == 0 and len(told["benchmarks"]["rows"]) == 15, told
PY
