#!/bin/bash
# The benchmark table in small: it ends, every row is there with a time, and the JSON is one. The row of replayed graphs is where devices have
# graphs.   bench_small.sh PROGRAM DRIVER MODULES
set -u
out=$("$1" --driver="$2" --modules="$3" --small) || exit 1
python3 - "$out" "$2" <<'PY'
import json, sys
table = json.loads(sys.argv[1])
rows = table["rows"]
want = 21 if sys.argv[2] in ("cuda", "rocm") else 20
assert len(rows) == want, len(rows)
assert len({row["name"] for row in rows}) == want
for row in rows:
    assert row.get("median_us", row.get("ratio")) > 0, row
    told = sys.argv[2] != "cpu" and row["name"].startswith("attention/") and "ratio" not in row
    assert ("kernel" in row) == told, row
assert table["copy_GBps"] > 0
print(len(rows), "rows")
PY
