"""`quire replay --engines`: one engine behind a router is the replay itself, and a router that looks for prefixes finds them.

usage: fleet.py QUIRE MODEL
"""
import json
import subprocess
import sys

QUIRE, MODEL = sys.argv[1:]


def replay(*options):
    command = [QUIRE, "replay", MODEL, "agents:10", "--json", "--verify", *options]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


one = replay("--memory", "40GiB", "--engines", "1")
assert one["preemptions"] == 0, "choose a larger memory"
assert [row["router"] for row in one["fleet"]] == ["prefix", "random", "least-loaded"], one["fleet"]
for row in one["fleet"]:
    for field in ["hit_tokens", "computed_tokens", "steps"]:
        assert row[field] == one[field], (row["router"], field, row[field], one[field])
    assert row["busy_share"] == 1 and row["least_requests"] == row["most_requests"] == one["requests"], row

rows = {row["router"]: row for row in replay("--memory", "10GiB", "--concurrency", "8", "--engines", "3")["fleet"]}
assert set(rows) == {"prefix", "random", "least-loaded"}, rows
assert rows["prefix"]["hit_share"] > 1.1 * max(rows["random"]["hit_share"], rows["least-loaded"]["hit_share"]), rows
assert rows["prefix"]["computed_tokens"] < rows["random"]["computed_tokens"], rows
(alone,) = replay("--requests", "20", "--memory", "40GiB", "--engines", "1", "--router", "random")["fleet"]
assert alone["router"] == "random", alone
refused = subprocess.run([QUIRE, "replay", MODEL, "agents:1", "--memory", "8GiB", "--engines", "2", "--router", "nearest"],
                         capture_output=True, text=True)
assert refused.returncode == 2 and "must be some of prefix, random, least-loaded" in refused.stderr, refused
print({name: round(row["hit_share"], 3) for name, row in rows.items()})
