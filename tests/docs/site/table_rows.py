#!/usr/bin/env python3
"""table_rows.py SOURCE: docs/errors.md has one row for each status code, docs/environment.md one for each variable that code, tests and
scripts read and one for each option of CMake; neither has a row too many. Prints how many of each."""
import re
import sys
from pathlib import Path

ROOT = Path(sys.argv[1])
CODE = {".c", ".cc", ".h", ".hpp", ".cu", ".go", ".rs", ".py"}
problems = []


def text_of(path):
    return path.read_text(encoding="utf-8", errors="replace")


def files():
    """Files of the tree, but for what is built or recorded."""
    skipped = {"build", "target", "third_party", "corpus", "frozen", "__pycache__"}
    names = ("abi", "bindings", "cmake", "core", "docs", "drivers", "plugins", "samples", "scripts", "tests", "tools")
    folders = [ROOT / name for name in names]
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if not skipped & set(path.relative_to(ROOT).parts) and path.is_file():
                yield path
    yield ROOT / "CMakeLists.txt"
    yield ROOT / ".ci/run"


def rows(page, sections=None):
    """First cells of the tables under some headings, e.g. QUIRE_OK; with what stands after them."""
    heading, found = "", []
    for line in text_of(ROOT / "docs" / page).splitlines():
        heading = line[3:] if line.startswith("## ") else heading
        cell = re.match(r"\| `(QUIRE_\w+)`[^|]*\|(.*)\|$", line)
        if cell and (sections is None or heading in sections):
            found.append(cell.group(1))
            if sum(bool(part.strip()) for part in cell.group(2).split("|")) < 2:
                problems.append(f"docs/{page}: the row {cell.group(1)} is empty")
    return found


def compare(page, what, listed, there):
    """there: name -> where it was found."""
    for name in sorted(set(there) - set(listed)):
        problems.append(f"docs/{page} has no row {name}: {what} ({there[name]})")
    for name in sorted(set(listed) - set(there)):
        problems.append(f"docs/{page} has the row {name}, which is no {what} any more")
    for name in sorted({name for name in listed if listed.count(name) > 1}):
        problems.append(f"docs/{page} has {listed.count(name)} rows {name}")
    print(f"docs/{page}: {len(listed)} rows, {len(there)} times {what}")


def codes():
    body = re.search(r"enum quire_code_e \{(.*?)\};", text_of(ROOT / "abi/include/quire/base.h"), re.DOTALL).group(1)
    numbers = dict(re.findall(r"(QUIRE_\w+) = (\d+)", body))
    for name, number in numbers.items():
        if f"| `{name}` ({number}) |" not in text_of(ROOT / "docs/errors.md"):
            problems.append(f"docs/errors.md: no row begins with {name} ({number})")
    return {name: "base.h" for name in numbers}


def constants():
    """Names that headers declare: text in calls that is no variable."""
    folders = ("abi/include", "plugins/zmq/include", "plugins/exporter/include")
    headers = [path for folder in folders for path in (ROOT / folder).rglob("*.h")]
    return {name for path in headers for name in re.findall(r"\bQUIRE_[A-Z0-9_]+\b(?=\s*(?:=|,|\}|\n|0x|\d))", re.sub(
        r"/\*.*?\*/", "", text_of(path), flags=re.DOTALL))}


def variables():
    """What is read: the first argument of a call or an index of a map in code, an expansion in a script that does not set it itself."""
    found, declared = {}, constants()
    for path in files():
        text, place = text_of(path), str(path.relative_to(ROOT))
        names = []
        if path.suffix in CODE:
            names = re.findall(r"[\w!]\s*[(\[]\s*\"(QUIRE_[A-Z0-9_]+)\"", text)
        elif path.suffix in (".sh", "") and path.name != "LICENSE" or place == ".ci/run":
            set_here = set(re.findall(r"(?:^|[\s;&(])(QUIRE_[A-Z0-9_]+)=", text, re.MULTILINE))
            names = re.findall(r"\$\{(QUIRE_[A-Z0-9_]+)(?=:?[-+?=])", text)
            names += [name for name in re.findall(r"\$\{?(QUIRE_[A-Z0-9_]+)", text) if name not in set_here]
        elif path.suffix == ".cmake" or path.name == "CMakeLists.txt":
            names = re.findall(r"ENV\{(QUIRE_[A-Z0-9_]+)\}", text)
        for name in names:
            if name not in declared:
                found.setdefault(name, place)
    return found


def options():
    found = {}
    for path in files():
        if path.suffix == ".cmake" or path.name == "CMakeLists.txt":
            for name in re.findall(r"option\((QUIRE_\w+)|set\((QUIRE_\w+)[^)\n]* CACHE (?!INTERNAL)", text_of(path)):
                found[name[0] or name[1]] = str(path.relative_to(ROOT))
    return found


compare("errors.md", "status code", rows("errors.md"), codes())
compare("environment.md", "option of CMake", rows("environment.md", {"Options of CMake"}), options())
headings = set(re.findall(r"^## (.*)$", text_of(ROOT / "docs/environment.md"), re.MULTILINE)) - {"Options of CMake"}
compare("environment.md", "variable that is read", rows("environment.md", headings), variables())
for problem in problems:
    print(f"FAILED: {problem}")
sys.exit(bool(problems))
