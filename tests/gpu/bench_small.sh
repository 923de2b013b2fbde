#!/bin/bash
# The benchmark table in small: it ends, every row is there with a time, and the JSON is one.   bench_small.sh PROGRAM DRIVER MODULES
set -u
out=$("$1" --driver="$2" --modules="$3" --small) || exit 1
python3 - "$out" <<'PY'
import json, sys
table = json.loads(sys.argv[1])
rows = table["rows"]
assert len(rows) == 14, len(rows)
assert len({row["name"] for row in rows}) == 14
for row in rows:
    assert row.get("median_us", row.get("ratio")) > 0, row
assert table["copy_GBps"] > 0
print(len(rows), "rows")
PY
