#!/usr/bin/env python3
"""site_links.py FOLDER: every link of every page in a folder leads somewhere: files that are there, and fragments that their pages have.
Links to other hosts are counted and not followed. Prints what is broken."""
import os
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src", "data", "poster", "action") and value is not None and tag != "base":
                self.links.append((value, self.getpos()[0]))

    handle_startendtag = handle_starttag


def main():
    folder = Path(sys.argv[1]).resolve()
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    broken, local, elsewhere, reached = [], 0, 0, {folder / "index.html"}
    for path, page in pages.items():
        for link, line in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                elsewhere += 1
                continue
            local += 1
            to = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            if not to.is_file() or folder not in to.parents:
                broken.append(f"{path.relative_to(folder)}:{line}: {link}: no such file")
            elif parts.fragment and to in pages and unquote(parts.fragment) not in pages[to].anchors:
                broken.append(f"{path.relative_to(folder)}:{line}: {link}: that page has no such place")
            elif to != path:
                reached.add(to)
    special = {"genindex.html", "search.html", "py-modindex.html"}
    broken += [f"{path.relative_to(folder)}: no page links to it" for path in pages if path not in reached and path.name not in special]
    for line in broken:
        print(f"BROKEN: {line}")
    print(f"{len(pages)} pages, {local} links, {len(broken)} broken; {elsewhere} links to other hosts were not followed")
    sys.exit(bool(broken) or not pages)


if __name__ == "__main__":
    main()
