"""The page of `quire replay --report` is one file: it loads nothing, and data in it cannot end a script.

usage: report.py QUIRE MODEL FOLDER
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

QUIRE, MODEL, FOLDER = sys.argv[1:]
folder = pathlib.Path(FOLDER)
model = folder / "a<b>&c.json"  # a name that a page must not take for markup
shutil.copy(MODEL, model)
page = folder / "report.html"
out = subprocess.run([QUIRE, "replay", str(model), "agents:3", "--memory", "8GiB", "--tier", "20GiB", "--oracle", "infinite", "--follow", "1", "--engines", "2",
                      "--sweep-memory", "4GiB,8GiB", "--sweep-policy", "vllm,auto", "--report", str(page), "--json"],
                     check=True, capture_output=True, text=True).stdout
replay = json.loads(out)
assert len(replay["sweep"]) == 4 and {row["policy"] for row in replay["sweep"]} == {"vllm", "auto"}, replay["sweep"]
assert 1 < len(replay["series"]) <= 200 and replay["series"][-1]["hit_tokens"] == replay["hit_tokens"], len(replay["series"])
phases = [moment["phase"] for moment in replay["followed"]]
assert phases[0] == "found" and phases[-1] == "done" and "output" in phases, phases
text = page.read_text()
assert "a&lt;b&gt;&amp;c.json" in text and "a<b>" not in text
markup = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
assert not re.search(r"(src|href|url)\s*[=(]", markup), "the page loads something"
scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
charts = [re.fullmatch(r'chart\("(\w+)", (\[.*\]), (\{.*\})\);', s, re.S) for s in scripts[4:]]
assert all(charts), "a chart that is not one"
names = [c.group(1) for c in charts]
assert names == ["sweep", "fleet", "rates", "hits", "misses", "pool", "groups", "ages", "states", "moves", "followed"], names
for chart in charts:
    assert f'<div id="{chart.group(1)}">' in text
    values, spec = json.loads(chart.group(2)), json.loads(chart.group(3))
    fields = {channel["field"] for channel in spec["encoding"].values() if "field" in channel}
    assert values and all(fields <= set(row) for row in values), (chart.group(1), fields)
for sample in replay["series"]:
    for field, of_all in [("pages_used", "pages_used"), ("pages_cached", "pages_evictable")]:
        assert sum(group[field] for group in sample["groups"]) == sample[of_all], sample
assert len(replay["groups"]) > 1 and any(sum(group["idle_requests"]) for group in replay["groups"]), replay["groups"]
ages = json.loads(charts[names.index("ages")].group(2))
assert {row["group"] for row in ages} <= {"recurrent states", "all tokens"} and max(row["share"] for row in ages) == 1, ages
rows = json.loads(charts[names.index("misses")].group(2))
rates = json.loads(charts[names.index("rates")].group(2))
assert {row["place"] for row in rates} == {"links of engines", "store"} and all(row["rate"] > 0 for row in rates), rates
shares = sum(row["share"] for row in rows)
assert abs(shares - len({row["requests"] for row in rows})) < 1e-6, "reasons of a sample are all of its requests"
refused = subprocess.run([QUIRE, "replay", MODEL, "agents:1", "--memory", "8GiB", "--report", str(folder / "none" / "x.html")],
                         capture_output=True, text=True)
assert refused.returncode == 1 and "cannot write" in refused.stderr, refused
print(f"{len(names)} charts, {len(replay['series'])} samples, {page.stat().st_size} bytes")
