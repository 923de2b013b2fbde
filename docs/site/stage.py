#!/usr/bin/env python3
"""stage.py PAGES: copies the Markdown files of the tree to a folder of pages for Sphinx, with links between pages, and makes the pages of
headers, commands and linked files. Fails where a Markdown file has no place in the navigation, or a link leads nowhere."""
import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).parent))
from conf import API, INSIDE, NAVIGATION, TITLES  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = {".h": "c", ".c": "c", ".cc": "cpp", ".hpp": "cpp", ".py": "python", ".json": "json", ".ipynb": "json", ".sh": "sh",
             ".go": "go", ".rs": "rust"}
LINK = re.compile(r"^```.*?^```|^~~~.*?^~~~|`[^`\n]*`|\]\((?P<to>[^)\s]+)\)", re.DOTALL | re.MULTILINE)


def fail(message):
    sys.exit(f"site: {message}")


def markdown_files():
    """Markdown files of the tree, but for what is built or hidden."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in ("build", "target", "__pycache__"))
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in sorted(files) if name.endswith(".md")]
    return found


def inside(files):
    """Page -> the pages under it, in order."""
    return {parent: [file for file in files if any(fnmatch.fnmatch(file, pattern) for pattern in patterns)]
            for parent, patterns in INSIDE.items()}


def check_places(files):
    """Every file has one place, and every place has a file."""
    placed = ["README.md"] + [page for _, pages in NAVIGATION for page in pages if page.endswith(".md")]
    placed += [page for pages in inside(files).values() for page in pages]
    for file in files:
        if placed.count(file) != 1:
            fail(f"{file} is in NAVIGATION and INSIDE of docs/site/conf.py {placed.count(file)} times, not once")
    for page in placed:
        if page not in files:
            fail(f"NAVIGATION or INSIDE of docs/site/conf.py names {page}, which is not there")
    for folder in dict.fromkeys(folder for _, folder, _ in API):
        listed = sorted(header for _, where, headers in API if where == folder for header in headers)
        there = sorted(path.name for path in (ROOT / folder).glob("*.h*"))
        if listed != there:
            fail(f"API of docs/site/conf.py lists {listed} of {folder}, where there are {there}")


def api_page(folder, header):
    return f"api/{'cpp-' if header.endswith('.hpp') else ''}{header.replace('.', '_')}"


class Stage:
    """The folder of pages."""

    def __init__(self, out, files):
        self.out = Path(out)
        self.files = files
        self.under = inside(files)
        self.below = {page for pages in self.under.values() for page in pages}
        self.sources = {}  # file or folder that a page links to -> its page
        self.headers = {f"{folder}/{header}": api_page(folder, header) for _, folder, headers in API for header in headers}

    def write(self, page, text):
        path = self.out / (page + ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    @staticmethod
    def page_of(file):
        return "index" if file == "README.md" else file[:-3]

    def target(self, file, link):
        """The page that a link of a file leads to, and its fragment."""
        to, _, fragment = link.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(file), to)) if to else file
        if path.startswith("..") or not (ROOT / path).exists():
            fail(f"{file} links to {link}, which is not there")
        if (ROOT / path).is_dir() and f"{path}/README.md" in self.files:
            path += "/README.md"
        if path in self.files:
            return self.page_of(path), fragment
        if path in self.headers:
            return self.headers[path], ""
        if path == "abi/include/quire":
            return "api/index", ""
        self.sources[path] = f"files/{path}"
        return self.sources[path], ""

    def link(self, file, match):
        to = match.group("to")
        if to is None or re.match(r"[a-z]+:", to):
            return match.group()
        page, fragment = self.target(file, to)
        way = os.path.relpath(page + ".md", os.path.dirname(self.page_of(file)) or ".")
        return f"]({way}{'#' + fragment if fragment else ''})"

    def copy(self, file):
        text = (ROOT / file).read_text(encoding="utf-8")
        text = LINK.sub(lambda match: self.link(file, match), text)
        if not text.lstrip().startswith("# "):
            text = f"# {os.path.dirname(file)}\n\n{text}"
        if file in ("docs/errors.md", "docs/environment.md"):  # a row is a place to link to
            text = re.sub(r"^\| `QUIRE_(\w+)`", lambda row: f'| <span id="{row.group(1).lower()}"></span>{row.group()[2:]}', text,
                          flags=re.MULTILINE)
        if file in self.below:
            text = f"---\norphan: true\n---\n\n{text}"
        if file == "README.md":
            for heading, pages in NAVIGATION:
                text += "\n" + toctree([self.page_of(page) if page.endswith(".md") else page for page in pages], heading)
        self.write(self.page_of(file), text)

    def source(self, path, page):
        """A file as a listing, a folder as a list."""
        if (ROOT / path).is_dir():
            names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in (ROOT / path).iterdir() if entry.name[0] != ".")
            body = "\n".join(f"- `{name}`" for name in names if name != "__pycache__/")
        else:
            (self.out / page).parent.mkdir(parents=True, exist_ok=True)
            (self.out / page).write_bytes((ROOT / path).read_bytes())
            body = f"```{{literalinclude}} /{page}\n:language: {LANGUAGES.get(Path(path).suffix, 'text')}\n```"
            if path.endswith(".svg"):
                body = f"![{path}](/{page})"
        self.write(page, f"---\norphan: true\n---\n\n# {path}\n\n{body}\n")

    def api(self):
        text = "# API\n\nThe headers, in groups. Names of the API link to their descriptions wherever they stand.\n"
        for heading, folder, headers in API:
            text += f"\n## {heading}\n" if heading else ""
            text += "\n" + toctree([api_page(folder, header) for header in headers])
            if heading == "C++":  # what a program includes; no more than a comment and the headers below
                page, _ = self.target("README.md", "bindings/cpp/quire.hpp")
                text += f"- [quire.hpp](/{page}.md): {summary(ROOT / 'bindings/cpp/quire.hpp')} Include this one.\n"
            for header in headers:
                text += f"- [{Path(folder).name}/{header}](/{api_page(folder, header)}.md): {summary(ROOT / folder / header)}\n"
                page = classes(self.out, header) if header.endswith(".hpp") else f"{directive('doxygenfile', 'quire/' + header, 'c')}"
                self.write(api_page(folder, header), f"# {Path(folder).name}/{header}\n\n{page}")
        self.write("api/index", text)

    def commands(self):
        pages = sorted(path.name[:-2] for path in (ROOT / "docs/man").glob("*.1"))
        text = "# Commands\n\nThe manual pages.\n\n" + toctree([f"commands/{name}" for name in pages])
        for name in pages:
            page = manual(name, pages)
            says = re.search(r"## Name.*?>[\w-]+ - (.*?)</p>", page, re.DOTALL).group(1)
            text += f"- [{name}](/commands/{name}.md): {' '.join(says.split())}.\n"
            self.write(f"commands/{name}", page)
        self.write("commands/index", text)


def summary(header):
    """The first sentence of a header."""
    head = re.match(r"(?:/\*|//) \S+: (.*?)(?:\*/|\n *\n|\n#)", header.read_text(encoding="utf-8"), re.DOTALL).group(1)
    return re.split(r"(?<=\.) ", " ".join(re.sub(r"\n(?: \*|//) ?", " ", head).split()))[0]


def directive(name, argument, project, *options):
    return "".join([f"```{{{name}}} {argument}\n:project: {project}\n", *[f":{option}:\n" for option in options], "```\n\n"])


def classes(pages, header):
    """The classes of a C++ header in their order; with the first header, the functions of the namespace."""
    found = []
    for path in (pages.parent / "xml-cpp").glob("*quire_1_1*.xml"):
        compound = ElementTree.parse(path).find("compounddef")
        name, place = compound.findtext("compoundname"), compound.find("location")
        if compound.get("kind") in ("class", "struct") and name.count("::") == 1 and place.get("file").endswith("/" + header):
            found.append((int(place.get("line")), compound.get("kind"), name))
    namespace = pages.parent / "xml-cpp" / "namespacequire.xml"  # its classes stand on the pages of their headers
    namespace.write_text(re.sub(r"<innerclass .*?</innerclass>", "", namespace.read_text(encoding="utf-8")), encoding="utf-8")
    text = "".join(directive("doxygen" + kind, name, "cpp", "members", "undoc-members") for _, kind, name in sorted(found))
    says = summary(ROOT / "bindings/cpp/quire_cpp" / header)
    text = f"{says[0].upper()}{says[1:]}\n\n{text}"
    return text if header != "base.hpp" else text + "## Functions\n\n" + directive("doxygennamespace", "quire", "cpp", "content-only")


def toctree(pages, caption=""):
    options = (f":caption: {caption}\n" if caption else "") + ":hidden:\n:maxdepth: 1\n"
    entries = [f"{TITLES[page + '.md']} </{page}>" if page + ".md" in TITLES else f"/{page}" for page in pages]
    return "```{toctree}\n" + options + "\n" + "\n".join(entries) + "\n```\n"


def manual(name, pages):
    """A manual page: its sections as sections, what is in them as mandoc writes it, with links to the other manual pages."""
    html = subprocess.run(["mandoc", "-T", "html", "-O", "fragment", "-W", "error", str(ROOT / f"docs/man/{name}.1")], check=True,
                          capture_output=True, text=True).stdout
    html = re.sub(r"<b>([a-z_-]+)</b>\s*\(1\)",
                  lambda match: f'<a href="{match.group(1)}.html">{match.group()}</a>' if match.group(1) in pages else match.group(), html)
    text = f"# {name}\n"
    for heading, body in re.findall(r'<h1 class="Sh"[^>]*><a[^>]*>(.*?)</a></h1>(.*?)</section>', html, re.DOTALL):
        body = re.sub(r"\n\s*\n", "\n", body.strip())
        text += f"\n## {' '.join(heading.split()).capitalize()}\n\n```{{raw}} html\n<div class=\"manual\">{body}</div>\n```\n"
    return text


def main():
    files = markdown_files()
    check_places(files)
    stage = Stage(sys.argv[1], files)
    for file in files:
        stage.copy(file)
    stage.api()
    stage.commands()
    for path, page in stage.sources.items():
        stage.source(path, page)


if __name__ == "__main__":
    main()
