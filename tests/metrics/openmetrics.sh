#!/bin/sh
# The text of metrics, read by parsers that others wrote: prometheus_client's strict one for
# OpenMetrics, its other one, and promtool where it is installed.
# usage: openmetrics.sh PROGRAM
set -eu
python=
for p in python3 /usr/bin/python3; do
  if [ -z "$python" ] && "$p" -c 'import prometheus_client' 2>/dev/null; then python=$p; fi
done
if [ -z "$python" ]; then
  echo "skipped: python3-prometheus-client is not installed"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
QUIRE_METRICS_FOLDER=$folder "$1" --gtest_filter=MetricsText.IsWrittenToFiles > "$folder/log" || { cat "$folder/log"; exit 1; }
"$python" - "$folder" <<'PYTHON'
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read_plain

folder = sys.argv[1]
def samples(read, name):
    found = {}
    for family in read(open(f"{folder}/{name}.txt", encoding="utf-8").read()):
        assert family.documentation, family.name
        for s in family.samples:
            key = (s.name, tuple(sorted(s.labels.items())))
            assert key not in found, key
            found[key] = s.value
    return found

one, other = samples(read_open, "open"), samples(read_plain, "plain")
assert len(one) > 400, len(one)
assert one == other, set(one) ^ set(other)
assert ("quire_sequences", (("engine", "0"), ("model_name", 'a "b" \\ \n é'))) in one
print(f"{len(one)} samples, the same in both forms")
PYTHON
if command -v promtool > /dev/null; then
  promtool check metrics < "$folder/plain.txt"
  echo "promtool finds nothing"
else
  echo "promtool is not installed"
fi
