#!/bin/bash
# The kit has the driver with its kernels, runs from a folder elsewhere, with libraries of its own, and writes one JSON: of all that it tried
# where there is a GPU, of the reason where there is none. Without one it is run again over a library that stands in for the vendor's, so that
# the whole command is known to end well.   kit_test.sh BUILD DRIVER [FAKE]
set -eu
build=$1 driver=$2 fake=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$here/kit.sh" "$build" "$driver" "$folder/kit"
python3 - "$folder/kit/lib/libquire_driver_$driver.so" "$driver" <<'PY'
import sys
module = open(sys.argv[1], "rb").read()
code = bytes.fromhex("50ed55ba") if sys.argv[2] == "cuda" else b"__CLANG_OFFLOAD_BUNDLE__"
assert code in module, "the module has no code for a GPU"
assert b"quire unit " not in module, "the module has a test's stand-ins for kernels"
PY
look() {  # look CODE: whether the JSON is what run.sh's code says
  python3 - "$folder/out.json" "$1" "$driver" <<'PY'
import json, sys
path, code, driver = sys.argv[1:]
told = json.load(open(path))
if code == "77":
    assert "no" in told["unavailable"], told
    print("without a GPU:", told["unavailable"])
    sys.exit()
assert code == "0", told
parts = [told] + told["compared"]
assert [part["flags"] for part in parts] == ([0, 2, 1] if driver == "cuda" else [0, 2]), parts
for part in parts:
    ran = part["conformance"]
    assert ran["tests"] > 0 and ran["failures"] == 0 and part["benchmarks"]["flags"] == part["flags"], ran
    graph = [t for s in ran["testsuites"] for t in s["testsuite"] if t["name"].startswith("ADecodeStepRecordedOnce")]
    assert len(graph) == 1 and graph[0]["result"] == "COMPLETED", "no graph was replayed"
assert len(parts[0]["benchmarks"]["rows"]) == 21, parts[0]["benchmarks"]
kernels = {}
for part in parts:
    for row in part["benchmarks"]["rows"]:
        if row["name"].startswith("attention/") and "median_us" in row:
            assert row["kernel"], row
            kernels.setdefault(row["name"], []).append(row["kernel"])
for name, used in kernels.items():
    print(name, *used)
    assert len(used) == len(parts), (name, used)
    assert used[-1] == "attend" if driver == "cuda" else used[0] == "attend", "dot products, where they are asked for or nothing else is"
assert told["peers"].get("rows") or told["peers"]["unavailable"], told["peers"]
print("peers:", told["peers"].get("unavailable", "measured"))
PY
}
code=0
"$folder/kit/run.sh" "$folder/out.json" --small || code=$?
look $code
[ $code -eq 77 ] && [ -n "$fake" ] || exit 0
code=0
LD_LIBRARY_PATH=$fake "$folder/kit/run.sh" "$folder/out.json" --small --tests='Engine.*:Attention.HeadShapes:Append.EveryByteOfThePool' || code=$?
look $code
