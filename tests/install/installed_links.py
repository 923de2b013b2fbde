#!/usr/bin/env python3
"""installed_links.py PREFIX: every relative link of the Markdown files under PREFIX/share/doc leads to what is installed, and every
fragment to a heading of that page. Prints what is broken."""
import os
import re
import sys
from pathlib import Path

LINK = re.compile(r"^```.*?^```|`[^`\n]*`|\]\((?P<to>[^)\s]+)\)|^\[[^\]]+\]:\s*(?P<below>\S+)", re.DOTALL | re.MULTILINE)


def headings(text):
    """Fragments of a page, as GitHub makes them."""
    found, counts = set(), {}
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        counts[slug] = counts.get(slug, -1) + 1
        found.add(f"{slug}-{counts[slug]}" if counts[slug] else slug)
    return found


def main():
    prefix = Path(sys.argv[1]).resolve()
    pages = {path: path.read_text(encoding="utf-8") for path in sorted((prefix / "share/doc").rglob("*.md"))}
    links, broken = 0, []
    for path, text in pages.items():
        for match in LINK.finditer(text):
            link = match.group("to") or match.group("below")
            if link is None or re.match(r"[a-z]+:", link):
                continue
            links += 1
            to, _, fragment = link.partition("#")
            target = Path(os.path.normpath(path.parent / to)) if to else path
            where = f"{path.relative_to(prefix)}:{text.count(chr(10), 0, match.start()) + 1}: {link}"
            if not target.exists() or prefix not in target.parents:
                broken.append(f"{where}: that is not installed")
            elif fragment and target in pages and fragment not in headings(pages[target]):
                broken.append(f"{where}: that page has no such heading")
    for line in broken:
        print(f"BROKEN: {line}")
    print(f"{len(pages)} installed pages, {links} links, {len(broken)} broken")
    sys.exit(bool(broken) or not pages)


if __name__ == "__main__":
    main()
