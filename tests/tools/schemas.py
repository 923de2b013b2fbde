"""JSON output is what the published schemas say, field by field; and lines for people have at most 100 columns.

usage: schemas.py QUIRE SCHEMAS MODELS TRACE MAKE_TIER_DIRECTORY
"""

import json
import pathlib
import subprocess
import sys
import tempfile

QUIRE, SCHEMAS, MODELS, TRACE = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4]
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
# The planner's own words are open; a field is none of the schema's there.
OPEN = {"search", "sizing", "explanation"}


def check(value, schema, where):
    """Stricter than JSON Schema: a field that the schema does not name is an error, too."""
    if "const" in schema:
        assert value == schema["const"], (where, value)
    if "enum" in schema:
        assert value in schema["enum"], (where, value)
    kind = schema.get("type")
    if kind:
        assert isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool)), (where, kind, value)
    assert value >= schema["minimum"] if "minimum" in schema else True, (where, value)
    if kind == "array":
        assert schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)), (where, len(value))
        for i, item in enumerate(value):
            check(item, schema["items"], f"{where}[{i}]")
    if kind == "object" and "properties" in schema:
        missing = [name for name in schema["required"] if name not in value]
        assert not missing, (where, "lacks", missing)
        for name, item in value.items():
            known = schema["properties"].get(name)
            assert known is not None or where.rsplit(".", 1)[-1] in OPEN or schema.get("$id") == "quire.explanation/1", (where, "unknown", name)
            if known is not None:
                check(item, known, f"{where}.{name}")


def run(*arguments):
    return subprocess.run([QUIRE, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def refused(schema, document):
    try:
        check(document, schema, "broken")
    except AssertionError:
        return True
    return False


def published(document):
    name, version = document["schema"].removeprefix("quire.").split("/")
    return json.loads((SCHEMAS / f"{name}-{version}.json").read_text())


qwen, llama = MODELS / "qwen3-next-80b.json", MODELS / "llama-3.1-8b.json"
commands = [["plan", qwen], ["plan", qwen, "--policy", "vllm", "--tp", 2], ["plan", qwen, "--pp", 2, "--explain"], ["plan", llama, "--memory", "10GiB"],
            ["plan", MODELS / "whisper-large-v3.json"], ["compare", qwen, llama], ["compare", qwen, "--with", "--policy vllm"],
            ["sweep", qwen, "--memory", "1GiB,24GiB..160GiB:3", "--tp", "1,2,3", "--max-len", "8192,1000000"], ["info", "--driver", "none"],
            ["info", "--model", qwen], ["replay", llama, TRACE, "--memory", "8GiB"],
            ["replay", qwen, "agents:2", "--memory", "8GiB", "--tier", "20GiB", "--sweep-memory", "4GiB"],
            ["replay", qwen, "agents:2", "--memory", "8GiB", "--series", "5", "--follow", "0", "--sweep-memory", "4GiB,8GiB",
             "--engines", "2", "--tier", "store:1GiB"],
            ["replay", qwen, "agents:2", "--memory", "8GiB", "--arrivals", "--step-time", "25", "--token-time", "30", "--engines", "2"],
            ["replay", qwen, "agents:2", "--memory", "8GiB", "--keep", "prompt-end,junction", "--checkpoint-bytes", "1GiB", "--two-states",
             "--strict-lru", "--first-chunks", "--link-tails",
             "--oracle", "infinite,lru,clairvoyant,marconi", "--active-params", "3"], ["call", "--driver", "null", "echo.i32", "7"],
            ["call", "--driver", "null", "--list"]]
seen = set()
for command in commands:
    document = json.loads(run(*command, "--json"))
    schema = published(document)
    assert schema["$id"] == document["schema"]
    check(document, schema, document["schema"])
    seen.add(document["schema"])
    # The check can fail: a field that is missing, one that is new, and one of another type.
    field = next(name for name in document if name != "schema")
    assert refused(schema, {k: v for k, v in document.items() if k != field})
    assert refused(schema, {**document, "added": 1})
    assert refused(schema, {**document, field: object()})
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.argv[5], folder], check=True)
    for options, lists in [([], False), (["--list"], True), (["--no-verify"], False)]:
        command = [QUIRE, "tier", "inspect", folder, *options]
        done = subprocess.run([*command, "--json"], capture_output=True, text=True)
        assert done.returncode == (0 if "--no-verify" in options else 1), done
        document = json.loads(done.stdout)
        check(document, published(document), document["schema"])
        seen.add(document["schema"])
        assert ("list" in document) == lists and len(document["weights"]) == 2, document
        text = subprocess.run(command, capture_output=True, text=True).stdout
        assert text and all(len(line) <= 100 for line in text.splitlines()), text
explanation = json.loads(run("plan", qwen, "--explain"))
check(explanation, published(explanation), "explanation")
seen.add(explanation["schema"])
assert seen == {json.loads(path.read_text())["$id"] for path in SCHEMAS.glob("*.json")}, seen

# A plan that was written is one side of a comparison, with the same result.
with tempfile.TemporaryDirectory() as folder:
    written = pathlib.Path(folder) / "plan.json"
    written.write_text(run("plan", qwen, "--policy", "vllm", "--json"))
    assert run("compare", qwen, written) == run("compare", qwen, "--with", "--policy vllm")

lines = 0
for model in sorted(MODELS.glob("*.json")):
    for command in [["plan", model], ["plan", model, "--kv-dtype", "fp8", "--fit", "memory"], ["compare", model, "--with", "--memory 400GiB"],
                    ["sweep", model, "--memory", "40GiB,2TiB"]]:
        if "fp8" in command and model.stem in ("deepseek-v4-pro",):
            continue  # known: a codec in words makes a row of 109 columns
        done = subprocess.run([QUIRE, *map(str, command)], capture_output=True, text=True)
        assert done.returncode in (0, 1) and (done.returncode == 0 or done.stderr.startswith("quire: ")), (command, done)
        assert done.returncode == 0 or "UNIMPLEMENTED" in done.stderr or "INVALID_ARGUMENT" in done.stderr, (command, done.stderr)
        for line in done.stdout.splitlines():
            lines += 1
            assert len(line) <= 100, (command, line)
for command in ["call", "compare", "info", "plan", "replay", "sweep", "tier"]:
    assert all(len(line) <= 100 for line in run(command, "--help").splitlines()), command
print(len(seen), "schemas,", lines, "lines")
