"""A drawing is XML whatever a layer file calls its model, and no two labels overprint. usage: plan_svg.py QUIRE MODEL FOLDER"""

import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as tree

quire, model, folder = sys.argv[1], json.load(open(sys.argv[2])), pathlib.Path(sys.argv[3])
NAME = "a<b> & \"c\" " + "\u00e9" * 40
model["origin"] = NAME
source = folder / "named.json"
source.write_text(json.dumps(model))
checked = 0
for arguments in [[], ["--policy", "auto"], ["--policy", "auto", "--contiguous"], ["--policy", "pack:2", "--layout", "BJLPKTHD"]]:
    target = folder / "named.svg"
    subprocess.run([quire, "plan", source, "--memory", "64GiB", "--svg", target, *arguments], check=True, stdout=subprocess.DEVNULL)
    texts = tree.parse(target).getroot().findall("{http://www.w3.org/2000/svg}text")
    assert texts[0].text.startswith(NAME[:20]), texts[0].text
    rows = {}
    for text in texts:
        if text.get("text-anchor") != "middle":
            continue
        half = 3.2 * len(text.text)  # letters are no narrower than about 6.4 of 12
        rows.setdefault(text.get("y"), []).append((float(text.get("x")) - half, float(text.get("x")) + half, text.text))
    for row in rows.values():
        row.sort()
        for left, right in zip(row, row[1:]):
            checked += 1
            assert left[1] <= right[0], (arguments, left, right)
print("labels apart:", checked)
assert checked > 0
