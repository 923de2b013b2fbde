"""`quire replay --engines`: one engine behind a router is the replay itself, and a router that looks for prefixes finds them.

usage: fleet.py QUIRE MODEL
"""
import json
import subprocess
import sys

QUIRE, MODEL = sys.argv[1:]


def replay(*options, trace="agents:10"):
    command = [QUIRE, "replay", MODEL, trace, "--json", "--verify", *options]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


one = replay("--memory", "40GiB", "--engines", "1")
assert one["preemptions"] == 0, "choose a larger memory"
assert [row["router"] for row in one["fleet"]] == ["prefix", "random", "least-loaded"], one["fleet"]
for row in one["fleet"]:
    for field in ["hit_tokens", "computed_tokens", "steps"]:
        assert row[field] == one[field], (row["router"], field, row[field], one[field])
    assert row["busy_share"] == 1 and row["least_requests"] == row["most_requests"] == one["requests"], row

fleet = replay("--memory", "8GiB", "--concurrency", "8", "--engines", "3", trace="agents:20")["fleet"]
rows = {row["router"]: row for row in fleet}
assert set(rows) == {"prefix", "random", "least-loaded"}, rows
assert rows["prefix"]["hit_share"] > 1.1 * max(rows["random"]["hit_share"], rows["least-loaded"]["hit_share"]), rows
assert rows["prefix"]["computed_tokens"] < rows["random"]["computed_tokens"], rows
(alone,) = replay("--requests", "20", "--memory", "40GiB", "--engines", "1", "--router", "random")["fleet"]
assert alone["router"] == "random", alone
refused = subprocess.run([QUIRE, "replay", MODEL, "agents:1", "--memory", "8GiB", "--engines", "2", "--router", "nearest"],
                         capture_output=True, text=True)
assert refused.returncode == 2 and "must be some of prefix, random, least-loaded" in refused.stderr, refused

# A tier of each engine, and one for all. What one engine stored is found by the others.
def with_tier(tier, router="random"):
    (row,) = replay("--memory", "10GiB", "--concurrency", "8", "--engines", "3", "--router", router, "--tier", tier)["fleet"]
    return row


own, shared = with_tier("1TiB"), with_tier("store:1TiB")
assert not own["tier"]["shared"] and shared["tier"]["shared"], (own, shared)
assert own["tier"]["hit_share"] > own["hit_share"] + 0.01, own
assert shared["tier"]["hit_share"] > own["tier"]["hit_share"] + 0.05, (own["tier"], shared["tier"])
assert shared["tier"]["stored_bytes"] < own["tier"]["stored_bytes"], "a unit is stored once for all"
assert shared["tier"]["bytes"] <= shared["tier"]["stored_bytes"] and shared["tier"]["evicted_units"] == 0, shared["tier"]
for row, stores in [(own, 3), (shared, 1)]:
    tier = row["tier"]
    assert abs(tier["link_bytes_per_second"] * 3 / stores / tier["store_bytes_per_second"] - 1) < 1e-9, tier
    assert tier["link_bytes_per_second"] <= tier["busiest_link_bytes_per_second"] <= 3 * tier["link_bytes_per_second"], tier
small = with_tier("store:1GiB")
assert small["tier"]["evicted_units"] > 0 and small["tier"]["bytes"] <= 1 << 30, small["tier"]
assert small["tier"]["hit_share"] < shared["tier"]["hit_share"], small["tier"]
routed = with_tier("store:1TiB", "prefix")
assert routed["tier"]["loaded_bytes"] < shared["tier"]["loaded_bytes"], (routed["tier"], shared["tier"])
for tier in ["store:", "store:x", "shop:1GiB", "1GiB,2GiB"]:
    refused = subprocess.run([QUIRE, "replay", MODEL, "agents:1", "--memory", "8GiB", "--tier", tier], capture_output=True, text=True)
    assert refused.returncode == 2 and "--tier" in refused.stderr, (tier, refused)
print({name: round(row["hit_share"], 3) for name, row in rows.items()})
