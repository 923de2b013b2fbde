#!/usr/bin/env python3
"""Writes what follows from the public headers: the version map, the Debian symbols file and the declarations of the Rust, Go and
Python bindings.

    abi/generate.py            writes the files
    abi/generate.py --check    writes nothing; fails and shows the difference where a file is stale

The headers are parsed by pycparser (Debian: python3-pycparser) after the C preprocessor (CC, default cc). Exits with 77 where
pycparser is not installed. Where cffi (Debian: python3-cffi) is not installed, its declarations are left as they are, and that is said.
"""
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    from pycparser import c_ast, c_parser
except ImportError:
    print("skipped: pycparser is not installed, so the generated declarations are not compared with the headers")
    sys.exit(77)

import python_declarations as python

TOP = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = TOP / "abi" / "include"
HEADERS = ["quire/connector.h", "quire/driver.h", "quire/metrics.h", "quire/quire.h", "quire/session.h", "quire/tier.h"]  # and what they include
BY_MODULES = {"quire_driver_query", "quire_connector_query"}  # every module defines them; the library exports neither
INTEGERS = {f"{u}int{n}_t": f"{'u' if u else 'i'}{n}" for u in ("", "u") for n in (8, 16, 32, 64)}
NOTE = "Made by abi/generate.py from abi/include/quire: change the headers, not this file."


class Headers:
    """Constants, enumerations, structs, types and functions of the public headers, in the order of their declaration."""

    def __init__(self):
        self.constants = {}  # name -> value
        self.enums = {}      # name -> {enumerator: value}
        self.typedefs = {}   # name -> declared type, of everything that is no struct
        self.structs = {}    # name -> [(field, type)]; None = opaque
        self.order = []      # names of enums, typedefs and structs
        self.functions = {}  # name -> (return type, [(parameter, type)])

    def read(self):
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            (work / "stdint.h").write_text("".join(f"typedef int {name};\n" for name in INTEGERS))
            source = work / "all.c"
            source.write_text("".join(f"#include <{header}>\n" for header in HEADERS))
            command = [os.environ.get("CC", "cc"), "-E", "-U__GNUC__", "-nostdinc", f"-I{work}", f"-I{INCLUDE}", str(source)]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        files = list(dict.fromkeys(re.findall(r'^# \d+ "(.*?/quire/[^"]*)"', text, re.M)))
        self._constants(pathlib.Path(name).read_text() for name in files)
        for node in c_parser.CParser().parse(text).ext:
            self._declaration(node)
        return self

    def _constants(self, texts):
        for text in texts:
            for name, value in re.findall(r"^#define (QUIRE_\w+)(?!\()[ \t]+(\S[^\n]*?)[ \t]*(?:/\*.*)?$", text, re.M):
                number = re.fullmatch(r"(-?(?:0x)?[0-9a-fA-F]+)[uUlL]*", value)
                if number:
                    self.constants[name] = int(number.group(1), 0)
                elif name != "QUIRE_API":
                    sys.exit(f"{name} = {value}: a constant must be a plain number")

    def _declaration(self, node):
        kind = node.type if isinstance(node, (c_ast.Decl, c_ast.Typedef)) else None
        if isinstance(kind, c_ast.Enum):
            self.enums[kind.name] = {item.name: constant(item.value) for item in kind.values.enumerators}
            self.order.append(kind.name)
        elif isinstance(node, c_ast.Typedef):
            if not node.name.startswith("quire_"):
                return
            inner = kind.type if isinstance(kind, c_ast.TypeDecl) else None
            if isinstance(inner, c_ast.Struct):
                fields = [(field.name, field.type) for field in inner.decls] if inner.decls else None
                self.structs[node.name] = fields
            else:
                self.typedefs[node.name] = kind
            self.order.append(node.name)
        elif isinstance(kind, c_ast.FuncDecl):
            parameters = [(p.name, p.type) for p in parameters_of(kind, node.name)]
            self.functions[node.name] = (kind.type, parameters)


def parameters_of(function, name):
    """Its parameters; (void) has none. Every other parameter must have a name: the bindings need one."""
    parameters = [] if function.args is None else function.args.params
    if len(parameters) == 1 and isinstance(parameters[0].type, c_ast.TypeDecl) and name_of(parameters[0].type) == "void":
        return []
    if any(parameter.name is None for parameter in parameters):
        sys.exit(f"{name}: a parameter has no name")
    return parameters


def constant(node):
    if isinstance(node, c_ast.UnaryOp) and node.op == "-":
        return -constant(node.expr)
    return int(node.value.rstrip("uUlL"), 0)


def name_of(node):
    """The name of a type that is neither pointer, array nor function."""
    inner = node.type
    return inner.name if isinstance(inner, c_ast.Struct) else inner.names[-1]


# ---- the version map

def version_map(headers, text):
    node = re.search(r"^(QUIRE_[\d.]+) \{", text, re.M).group(1)
    names = "".join(f"    {name};\n" for name in sorted(headers.functions) if name not in BY_MODULES)
    return f"""/* {NOTE}
 * Every function of the headers, by name. New names go into a new node; nothing is ever removed from one that was
 * released. */
{node} {{
  global:
{names}  local:
    *;
}};
"""


def debian_symbols(text):
    """The version map as dpkg-gensymbols reads it: every function, and the version of the library that brought it."""
    rows = ["libquire.so.0 libquire0 #MINVER#"]
    for node, body in re.findall(r"^(QUIRE_[\d.]+) \{(.*?)^\}", text, re.M | re.S):
        version = node.removeprefix("QUIRE_") + ".0"
        rows.append(f" {node}@{node} {version}")
        rows += [f" {name}@{node} {version}" for name in re.findall(r"^    (quire_\w+);", body, re.M)]
    return "\n".join(rows) + "\n"


# ---- Rust

RUST_WORDS = {"type", "self", "match", "ref", "move", "use", "in", "fn", "mod", "box", "final", "priv"}


def rust_name(name):
    return name + "_" if name in RUST_WORDS else name


def rust_type(node, parameter=False):
    if isinstance(node, c_ast.PtrDecl):
        if isinstance(node.type, c_ast.FuncDecl):
            return f'::std::option::Option<unsafe extern "C" fn{rust_signature(node.type)}>'
        target = node.type
        mutable = "const" if "const" in (getattr(target, "quals", None) or []) else "mut"
        return f"*{mutable} {rust_type(target)}"
    if isinstance(node, c_ast.ArrayDecl):
        element = rust_type(node.type)
        if parameter:
            return f"*{'const' if 'const' in (node.type.quals or []) else 'mut'} {element}"
        return f"[{element}; {constant(node.dim)}usize]"
    name = name_of(node)
    return INTEGERS.get(name) or {"void": "::std::os::raw::c_void", "char": "::std::os::raw::c_char", "float": "f32", "double": "f64"}.get(
        name, name)


def rust_signature(function):
    listed = ", ".join(f"{rust_name(p.name)}: {rust_type(p.type, True)}" for p in parameters_of(function, "a function type"))
    return f"({listed})" + rust_result(function.type)


def rust_result(node):
    if isinstance(node, c_ast.TypeDecl) and name_of(node) == "void":
        return ""
    return f" -> {rust_type(node)}"


def rust_struct(name, fields):
    if fields is None:
        return f"#[repr(C)]\n#[derive(Debug, Copy, Clone)]\npub struct {name} {{\n    _unused: [u8; 0],\n}}\n"
    body = "".join(f"    pub {rust_name(field)}: {rust_type(kind)},\n" for field, kind in fields)
    return f"""#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct {name} {{
{body}}}
zeroed!({name});
"""


def rust_types(headers):
    out = [f"// {NOTE}\n",
           "macro_rules! zeroed {\n    ($name:ident) => {\n        impl Default for $name {\n            fn default() -> Self {\n"
           "                // All fields are integers, floats, nullable pointers or arrays and structs of these.\n"
           "                unsafe { ::std::mem::zeroed() }\n            }\n        }\n    };\n}\n"]
    for name, value in headers.constants.items():
        kind = "i32" if value < 0 else "u32" if value < 1 << 32 else "u64"
        out.append(f"pub const {name}: {kind} = {value};\n")
    for name in headers.order:
        if name in headers.enums:
            out += [f"pub const {item}: {name} = {value};\n" for item, value in headers.enums[name].items()]
            signed = min(headers.enums[name].values()) < 0
            out.append(f"pub type {name} = ::std::os::raw::{'c_int' if signed else 'c_uint'};\n")
        elif name in headers.structs:
            out.append(rust_struct(name, headers.structs[name]))
        else:
            kind = headers.typedefs[name]
            if isinstance(kind, c_ast.FuncDecl):
                out.append(f'pub type {name} = ::std::option::Option<unsafe extern "C" fn{rust_signature(kind)}>;\n')
            else:
                out.append(f"pub type {name} = {rust_type(kind)};\n")
    return "".join(out)


def rust_functions(headers):
    lines = []
    for name, (result, parameters) in headers.functions.items():
        if name in BY_MODULES:
            continue
        listed = ", ".join(f"{rust_name(p)}: {rust_type(kind, True)}" for p, kind in parameters)
        lines.append(f"    pub fn {name}({listed}){rust_result(result)};\n")
    return f"// {NOTE}\nfunctions! {{\n{''.join(lines)}}}\n"


def rust_layout(headers, text):
    """The list of structs and fields at the end of the layout test, in the order of abi.golden."""
    golden = (TOP / "abi" / "abi.golden").read_text()
    entries = []
    for name in re.findall(r"^struct (\w+)", golden, re.M):
        fields = "".join(f"        {rust_name(field)},\n" for field, _ in headers.structs.get(name, []))
        entries.append(f"    {name} {{\n{fields}    }}\n")
    head = text[: text.index("\nlayout! {\n") + len("\nlayout! {\n")]
    return f"{head}{''.join(entries)}}}\n"


# ---- Go

GO_WORDS = {w.upper(): w for w in ("CPU", "CUDA", "ROCM", "KV", "AMX", "MLA", "ID", "LRU", "GDN", "KDA", "CBOR", "SHA256", "DType")}
GO_WORDS["XXHASH"] = "XXHash"
GO_TYPES = {  # enumerations with a type of their own
    "quire_layer_kind": ("LayerKind", "says the kind of one layer cache"),
    "quire_miss": ("Miss", "says why a prefix was not (completely) found"),
    "quire_fill_kind": ("FillKind", "says which array of a step"),
    "quire_refusal": ("Refusal", "says why an entry was refused"),
    "quire_hash_algorithm": ("HashAlgorithm", "says what is hashed with what"),
    "quire_event_type": ("EventType", "says what happened to blocks"),
    "quire_unit_reason": ("UnitReason", "says why a unit is reported"),
    "quire_fetch_outcome": ("FetchOutcome", "says how a fetch ended"),
    "quire_offer_field": ("OfferField", "says what an offer differs in"),
    "quire_connector_state": ("ConnectorState", "says whether a connector works now"),
}
GO_PLAIN = ["quire_device_type", "quire_log_level", "quire_codec", "quire_state_kind", "quire_state_mode", "quire_kv_scales",
            "quire_field_role", "quire_compat_level", "quire_export_kind", "quire_ticket_kind"]  # enumerations without one
GO_GROUPS = ["RUNTIME", "LAYER", "PLAN", "VLLM", "SELECT", "CACHE", "KEEP", "SEQUENCE", "ENTRY", "RESULT", "ABORT", "MAX",
             "HASH", "EVENTS", "EXPORT", "IMPORT", "ATTENTION", "GATED", "CONV1D", "EXTENSION", "CONNECTOR", "COMPLETION"]
GO_OTHERWISE = {"QUIRE_CONNECTOR_ABI_VERSION"}  # in the sources, or of no use to an engine


def go_name(name):
    words = name.removeprefix("QUIRE_").split("_")
    return "".join(GO_WORDS.get(word, word[0] + word[1:].lower()) for word in words)


def go_block(comment, rows):
    """rows: (name, type, value), aligned as gofmt does."""
    wide = max(len(row[0]) for row in rows)
    typed = max(len(row[1]) for row in rows)
    lines = "".join(f"\t{name:<{wide}}{' ' + kind.ljust(typed) if typed else ''} = {value}\n" for name, kind, value in rows)
    return f"{comment}\nconst (\n{lines})\n\n"


def go_constants(headers):
    out = [f"// {NOTE}\n\npackage quire\n\n// #include <quire/quire.h>\n// #include <quire/connector.h>\n// #include <quire/session.h>\n// #include <quire/tier.h>\nimport \"C\"\n\n"
           "// The constants of the headers, without QUIRE_.\n\n"]
    for group in GO_GROUPS:
        names = [n for n in headers.constants if n.startswith(f"QUIRE_{group}_") and n not in GO_OTHERWISE]
        out.append(go_block(f"// QUIRE_{group}: see the headers.", [(go_name(n), "", f"C.{n}") for n in names]))
    for kind in GO_PLAIN:
        items = [n for n in headers.enums[kind + "_e"] if not n.endswith("_FORCE32")]
        out.append(go_block(f"// {kind}: see the headers.", [(go_name(n), "", f"C.{n}") for n in items]))
    for kind, (name, what) in GO_TYPES.items():
        items = [n for n in headers.enums[kind + "_e"] if not n.endswith("_FORCE32")]
        out.append(f"// {name} {what}.\ntype {name} int32\n\n")
        out.append(go_block(f"// {name}: see the headers.", [(go_name(n), name, f"C.{n}") for n in items]))
    out.append("// PinHard is the priority of pins that are never given up.\nconst PinHard = C.QUIRE_PIN_HARD\n\n")
    out.append("// UnitHasState in Unit.Flags: the unit ends where a state is kept, which the hold has.\nconst UnitHasState = C.QUIRE_UNIT_HAS_STATE\n")
    return "".join(out)


# ---- the files

def files(headers):
    rust = TOP / "bindings" / "rust" / "quire-sys"
    layout = rust / "tests" / "layout.rs"
    version = TOP / "abi" / "quire.map"
    mapped = version_map(headers, version.read_text())
    package = TOP / "bindings" / "python" / "quire"
    by_cffi = python.declarations(headers, INCLUDE, HEADERS, INTEGERS, BY_MODULES, os.environ.get("CC", "cc"), NOTE)
    if by_cffi is None:
        print("skipped: cffi is not installed, so its declarations are not compared with the headers")
    return {
        package / "_numbers.py": python.numbers(headers, NOTE),
        package / "_infos.py": python.infos(headers, NOTE, INCLUDE, name_of, c_ast.ArrayDecl),
        **({} if by_cffi is None else {package / "_abi.py": by_cffi}),
        version: mapped,
        TOP / "cmake" / "debian" / "symbols": debian_symbols(mapped),
        rust / "src" / "types.rs": rust_types(headers),
        rust / "src" / "functions.rs": rust_functions(headers),
        layout: rust_layout(headers, layout.read_text()),
        TOP / "bindings" / "go" / "quire" / "consts.go": go_constants(headers),
    }


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    headers = Headers().read()
    stale = 0
    for path, text in files(headers).items():
        old = path.read_text() if path.exists() else ""
        if old == text:
            continue
        if sys.argv[1:]:
            stale += 1
            name = str(path.relative_to(TOP))
            if path.name == "_abi.py":  # nobody reads it
                print(f"{name}: cffi makes other bytes of the headers")
                continue
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), name, "from the headers"))
        else:
            path.write_text(text)
    if stale:
        print(f"FAILED: {stale} files are not those of the headers; run abi/generate.py")
        return 1
    print(f"{len(headers.functions)} functions, {len(headers.structs)} structs, {len(headers.constants)} constants")
    return 0


if __name__ == "__main__":
    sys.exit(main())
