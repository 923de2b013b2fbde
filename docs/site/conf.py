"""The documentation site: which page stands where (NAVIGATION, INSIDE, API), and Sphinx's settings. scripts/site.sh builds it."""
import gc
import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

# Sections of the first page's navigation: (heading, pages). A page is a Markdown file of the tree, or api/index or commands/index, which
# stage.py makes. Every Markdown file of the tree is here or in INSIDE.
NAVIGATION = [
    ("Understand", ["ARCHITECTURE.md", "docs/glossary.md", "docs/scenarios.md", "docs/differences-from-vllm.md",
                    "docs/decisions/README.md"]),
    ("Use", ["docs/install.md", "docs/in-your-engine.md", "docs/tiers.md", "docs/connectors.md", "docs/events.md", "docs/metrics.md",
             "samples/README.md"]),
    ("Models and plans", ["docs/models.md", "docs/layer-files.md", "docs/plans.md", "docs/capacity.md", "docs/performance.md"]),
    ("Look up", ["api/index", "commands/index", "docs/errors.md", "docs/environment.md", "docs/abi-promises.md"]),
    ("Other languages", ["bindings/python/README.md", "bindings/rust/quire/README.md", "bindings/go/quire/README.md"]),
    ("Extend and change", ["docs/write-a-driver.md", "abi/README.md", "CONTRIBUTING.md", "tests/README.md", "SECURITY.md", "CHANGELOG.md"]),
]

# Pages that are reached from one page: page -> patterns of the pages under it.
INSIDE = {
    "docs/decisions/README.md": ["docs/decisions/0*.md"],
    "samples/README.md": ["samples/*/README.md"],
    "tests/README.md": ["tests/golden/*/README.md"],
    "CONTRIBUTING.md": ["third_party/*/README.md"],
    "bindings/rust/quire/README.md": ["bindings/rust/quire-sys/README.md"],
}

# Pages that the navigation names otherwise than by their heading.
TITLES = {"bindings/rust/quire/README.md": "quire for Rust", "abi/README.md": "The contract of the ABI"}

# The public headers in groups: (heading, folder, headers). Every header of a folder is in one of them.
API = [
    ("Basis", "abi/include/quire", ["quire.h", "base.h", "model.h", "config.h"]),
    ("Bookkeeping", "abi/include/quire", ["cache.h", "step.h", "load.h", "pin.h", "hold.h", "events.h"]),
    ("Memory and kernels", "abi/include/quire", ["memory.h", "ops.h", "extension.h"]),
    ("Tiers and sessions", "abi/include/quire", ["tier.h", "session.h"]),
    ("Metrics", "abi/include/quire", ["metrics.h"]),
    ("Drivers and connectors", "abi/include/quire", ["driver.h", "connector.h"]),
    ("Libraries of their own", "plugins/zmq/include/quire", ["zmq.h"]),
    ("", "plugins/exporter/include/quire", ["exporter.h"]),
    ("C++", "bindings/cpp/quire_cpp", ["base.hpp", "device.hpp", "cache.hpp", "step.hpp", "tiers.hpp", "sessions.hpp", "metrics.hpp"]),
]

project = "quire"
author = "the authors of quire"
html_title = "quire"
extensions = ["myst_parser", "breathe"]
root_doc = "index"
source_suffix = {".md": "markdown"}
exclude_patterns = []
html_theme = "furo"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["site.css"]
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]  # code with pieces left out
myst_heading_anchors = 4
breathe_default_project = "c"
breathe_domain_by_extension = {"h": "c", "hpp": "cpp"}
breathe_show_include = False
breathe_show_enumvalue_initializer = True
breathe_show_define_initializer = True
c_id_attributes = ["QUIRE_API"]

ROOT = Path(__file__).resolve().parents[2]
_NAME = re.compile(r"\b(?:quire_[a-z0-9_]+|[A-Z][A-Z0-9_]+)\b")


def _names(app):
    """Name of the C API -> (page, anchor). So for variables; codes without prefix lead to what to do."""
    if not hasattr(app.env, "quire_names"):
        found = {}
        for name, _, kind, page, anchor, _ in app.env.get_domain("c").get_objects():
            if kind == "enumerator":
                name = name.split(".")[-1]
            if "." not in name:
                found[name] = (page, anchor)
        for page in ("docs/errors", "docs/environment"):
            for name in re.findall(r"^\| `QUIRE_(\w+)`", (ROOT / (page + ".md")).read_text(encoding="utf-8"), re.MULTILINE):
                found[name if page == "docs/errors" else "QUIRE_" + name] = (page, name.lower())
        del found["OK"]
        app.env.quire_names = found
    return app.env.quire_names


def _may_link(text):
    """Not in links, headings, listings, and not what is being declared."""
    node = text.parent
    while node is not None:
        if isinstance(node, (nodes.reference, nodes.title, nodes.literal_block, nodes.raw, addnodes.desc_name)):
            return False
        node = node.parent
    return True


def _link_names(app, doctree, page):
    """Names of the C API in texts become links to their descriptions."""
    names = _names(app)
    for text in list(doctree.findall(nodes.Text)):
        if not _NAME.search(text) or not _may_link(text):
            continue
        parts, end = [], 0
        for match in _NAME.finditer(text):
            target = names.get(match.group())
            if target is None or (target[0] == "docs/errors" and not page.startswith("api/")) or target[0] == page == "docs/environment":
                continue
            uri = app.builder.get_relative_uri(page, target[0]) + "#" + target[1]
            parts += [nodes.Text(text[end:match.start()]), nodes.reference("", match.group(), refuri=uri, internal=True)]
            end = match.end()
        if parts:
            text.parent.replace(text, [part for part in parts + [nodes.Text(text[end:])] if part.astext()])


def _contents(app, page, template, context, doctree):
    """The contents of a header's page: its declarations. Sphinx lists sections alone."""
    if not page.startswith("api/") or page == "api/index":
        return
    items = []
    for declared in doctree.findall(addnodes.desc):
        above = declared.parent
        while above is not None and not isinstance(above, addnodes.desc):
            above = above.parent
        signature = next(declared.findall(addnodes.desc_signature))
        if above is None and signature["ids"]:
            names = [name for name in signature.findall(addnodes.desc_name) if not isinstance(name.parent, addnodes.desc_parameter)]
            name = names[-1].astext()  # the parameters of a template stand before it
            items.append(f'<li><a class="reference internal" href="#{signature["ids"][-1]}">{name}</a></li>')
    context["toc"] = f'<ul><li><a class="reference internal" href="#">{context["title"]}</a><ul>{"".join(items)}</ul></li></ul>'
    context["furo_hide_toc"] = not items


def setup(app):
    gc.disable()  # a third of the time; the site has few pages
    app.connect("html-page-context", _contents, priority=900)  # after the theme's
    app.connect("doctree-resolved", _link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
