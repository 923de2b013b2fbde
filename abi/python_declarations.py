"""What abi/generate.py writes for the Python binding: the declarations of cffi, enumerations, and a
class for each info struct.
"""
import pathlib
import re
import subprocess
import tempfile

# Sets of numbers: class, prefix of the names, what they are. Those of a set of flags can be combined.
ENUMS = {
    "quire_code": ("Code", "QUIRE_", "The result of a call: `Error.code`."),
    "quire_device_type": ("DeviceType", "QUIRE_DEVICE_", "Kinds of devices: DLPack's numbers."),
    "quire_log_level": ("LogLevel", "QUIRE_LOG_", "Log levels."),
    "quire_layer_kind": ("LayerKind", "QUIRE_LAYER_", "Kind of one layer cache: which tokens are live, and which are stored."),
    "quire_codec": ("Codec", "QUIRE_CODEC_", "How the rows of a token cache are encoded."),
    "quire_state_kind": ("StateKind", "QUIRE_STATE_", "The recurrence of a state layer."),
    "quire_state_mode": ("StateMode", "QUIRE_STATE_MODE_", "How states take part in prefix reuse (policy vllm)."),
    "quire_kv_scales": ("KVScales", "QUIRE_KV_SCALES_", "Where the scales of kv_dtype are."),
    "quire_field_role": ("FieldRole", "QUIRE_FIELD_", "The content of a field of a codec."),
    "quire_compat_level": ("CompatLevel", "QUIRE_COMPAT_", "How the bytes of one config relate to those of another one."),
    "quire_miss": ("Miss", "QUIRE_MISS_", "Why a prefix was not found, or not completely."),
    "quire_refusal": ("Refusal", "QUIRE_REFUSAL_", "Why an entry was refused: `reason` of `Step.results`."),
    "quire_fill_kind": ("FillKind", "QUIRE_FILL_", "The arrays that `Step.fill` writes."),
    "quire_connector_state": ("ConnectorState", "QUIRE_CONNECTOR_", "Whether a connector works now."),
    "quire_fetch_outcome": ("FetchOutcome", "QUIRE_FETCH_", "How a fetch ended."),
    "quire_offer_field": ("OfferField", "QUIRE_OFFER_", "What an offer says of itself, in the order in which its reader compares it."),
    "quire_hash_algorithm": ("HashAlgorithm", "QUIRE_HASH_", "Hash function and encoding of the names of blocks."),
    "quire_unit_reason": ("Unit", "QUIRE_UNIT_", "Which units a `Tier` writes: `reasons`. They can be combined."),
    "quire_event_type": ("EventType", "QUIRE_EVENT_", "What happened to blocks."),
}
FLAGS = {
    "RuntimeFlag": ("QUIRE_RUNTIME_", "Flags of `Runtime`."),
    "LayerFlag": ("QUIRE_LAYER_", "Flags of `Layer`."),
    "PlanFlag": ("QUIRE_PLAN_", "Flags of `Config`."),
    "VllmFlag": ("QUIRE_VLLM_", "Flags of `Config` that only policy vllm reads."),
    "CacheFlag": ("QUIRE_CACHE_", "Flags of `Cache`."),
    "Keep": ("QUIRE_KEEP_", "Which states become checkpoints: `keep_states` of `Cache`."),
    "SequenceFlag": ("QUIRE_SEQUENCE_", "Flags of `Cache.create_sequence`."),
    "Entry": ("QUIRE_ENTRY_", "`flags` of the entries of `Cache.reserve`."),
    "Result": ("QUIRE_RESULT_", "`flags` of `Step.results`."),
    "ConnectorFlag": ("QUIRE_CONNECTOR_", "`flags` of `ConnectorInfo`: what a connector can do."),
}
NO_FLAGS = {"QUIRE_CONNECTOR_ABI_VERSION"}
INFOS = {
    "quire_model_info": "ModelInfo", "quire_config_info": "ConfigInfo", "quire_group_info": "GroupInfo", "quire_layer_place": "LayerPlace",
    "quire_codec_params": "CodecParams", "quire_kv_view": "KVView", "quire_kv_field": "KVField", "quire_state_view": "StateView",
    "quire_region_info": "RegionInfo", "quire_lowering": "Lowering", "quire_compatibility": "Compatibility", "quire_capacity": "Capacity",
    "quire_sequence_info": "SequenceInfo", "quire_probe_result": "ProbeResult", "quire_cache_stats": "CacheStats",
    "quire_group_stats": "GroupStats",
    "quire_step_info": "StepInfo", "quire_device_info": "DeviceInfo", "quire_probe_info": "ProbeInfo", "quire_pin_info": "PinInfo",
    "quire_connector_info": "ConnectorInfo", "quire_connector_health": "ConnectorHealth", "quire_connector_stats": "ConnectorStats",
    "quire_tier_stats": "TierStats", "quire_tiers_stats": "TiersStats", "quire_fetch_result": "FetchResult",
    "quire_offer": "Offer", "quire_offer_info": "OfferInfo", "quire_offer_refusal": "OfferRefusal", "quire_session_info": "SessionInfo", "quire_event_batch": "EventBatch",
}


def enumerators(headers, kind, prefix):
    """(name without prefix, value); quire_code and others share a prefix with names that are none
    of theirs.
    """
    for name, value in headers.enums[kind + "_e"].items():
        if not name.endswith("_FORCE32"):
            word = name.removeprefix(prefix)
            yield (prefix.split("_")[-2] + "_" + word if word[0].isdigit() else word), value


def numbers(headers, note):
    out = [f'"""The numbers of quire\'s headers. {note}"""\nfrom enum import IntEnum, IntFlag\n\n']
    out.append(f'ABI_VERSION = {headers.constants["QUIRE_ABI_VERSION"]:#x}\n')
    for kind, (name, prefix, what) in ENUMS.items():
        rows = "".join(f"    {word} = {value}\n" for word, value in enumerators(headers, kind, prefix))
        base = "IntFlag" if "combined" in what else "IntEnum"
        out.append(f'\n\nclass {name}({base}):\n    """{what}"""\n\n{rows}')
    for name, (prefix, what) in FLAGS.items():
        words = [c for c in headers.constants if c.startswith(prefix) and c not in NO_FLAGS]
        rows = "".join(f"    {c.removeprefix(prefix)} = {headers.constants[c]:#x}\n" for c in words)
        out.append(f'\n\nclass {name}(IntFlag):\n    """{what}"""\n\n{rows}')
    return "".join(out)


# ---- info structs, with the comments of the headers

def comments(include, name):
    """The comment of a struct, and {field: its comment}. Comments stand before a field or at its
    end.
    """
    for path in sorted(include.glob("quire/*.h")):
        text = path.read_text()
        found = re.search(r"(/\*(?:[^*]|\*(?!/))*\*/)\s*typedef struct " + name + r" \{(.*?)\n\} " + name + ";", text, re.S)
        if found:
            break
    else:
        return "", {}
    fields, before, last = {}, "", None
    for piece in re.finditer(r"/\*(.*?)\*/|([^;/]+);", found.group(2), re.S):
        if piece.group(2):
            last = re.search(r"(\w+)(?:\[\w+\])*$", piece.group(2)).group(1)
            fields[last], before = before, ""
        elif "\n" in found.group(2)[found.group(2).rfind(";", 0, piece.start()) + 1:piece.start()] or last is None:
            before = flat(piece.group(1))
        else:
            fields[last] = flat(piece.group(1))
    return flat(found.group(1)[2:-2]), fields


def flat(comment):
    return re.sub(r"\s+", " ", re.sub(r"\n\s*\* ?", " ", comment)).strip()


def wrapped(text, width, indent):
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return f"\n{indent}".join([*lines, line])


def python_type(kind, name_of, is_array, element):
    """The annotation of a field, and the class of its number if it has one."""
    name = name_of(element)
    if is_array:
        return {"char": "str", "uint8_t": "bytes"}.get(name, "Tuple[int, ...]"), None
    if name in ENUMS:
        return ENUMS[name][0], ENUMS[name][0]
    if name in INFOS:
        return INFOS[name], None
    return {"float": "float", "double": "float", "quire_dtype": "DType", "quire_str": "Optional[str]"}.get(name, "int"), None


def infos(headers, note, include, name_of, array_type):
    used = sorted({ENUMS[name_of(kind)][0] for struct in INFOS for _, kind in headers.structs[struct]
                   if not isinstance(kind, array_type) and hasattr(kind, "type") and hasattr(kind.type, "names")
                   and name_of(kind) in ENUMS})
    out = [f'"""What quire\'s calls answer, as objects. {note}"""\nfrom typing import Optional, Tuple\n\n'
           "from ._core import DType, Info\nfrom ._numbers import " + ", ".join(used) + "\n"]
    for struct, name in INFOS.items():
        what, said = comments(include, struct)
        what = re.sub(r" ?(Info|Frozen, \d+ bytes)\.( |$)", " ", what).strip()
        rows, docs, enums = [], [], []
        for field, kind in headers.structs[struct]:
            if field == "struct_size" or field.startswith("reserved"):
                continue
            array = isinstance(kind, array_type)
            text, enum = python_type(kind, name_of, array, kind.type if array else kind)
            rows.append(f"    {field}: {text}\n")
            if enum:
                enums.append(f'"{field}": {enum}')
            comment = said.get(field, "")
            docs.append(f"    - {field}" + (f": {wrapped(comment, 92 - len(field), '      ')}" if comment else ""))
        doc = f"{wrapped(what, 92, '    ')}\n\n" + "\n".join(docs)
        out.append(f'\n\nclass {name}(Info):\n    """{doc}\n    """\n\n    _struct = "{struct}"\n')
        if enums:
            out.append(f"    _enums = {{{', '.join(enums)}}}\n")
        out.append("".join(rows))
    return "".join(out)


# ---- the declarations of cffi

def declarations(headers, include, names, integers, by_modules, compiler, note):
    """cffi's own form of the headers (its out-of-line ABI mode), or None where cffi is not
    installed.
    """
    try:
        import cffi
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "stdint.h").write_text("".join(f"typedef int {name};\n" for name in integers))
        source = work / "all.c"
        source.write_text("".join(f"#include <{header}>\n" for header in [*names, "quire/sdk/dlpack.h"]))
        command = [compiler, "-E", "-P", "-U__GNUC__", "-nostdinc", f"-I{work}", f"-I{include}", str(source)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        text = re.sub(r"^typedef int u?int\d+_t;\n", "", text, flags=re.M)
        for function in by_modules:
            text = re.sub(rf"[^;{{}}]*\b{function}\([^;]*;", "", text)
        text += DLPACK_0
        ffi = cffi.FFI()
        ffi.cdef(text)
        ffi.set_source("_abi", None)
        made = work / "_abi.py"
        with open(work / "log", "w") as log:
            import contextlib
            with contextlib.redirect_stdout(log):
                ffi.emit_python_code(str(made))
        said = f"# {note}\n# cffi made it from their text; it is no source to read.\n"
        code = made.read_text().replace("# auto-generated file\n", said, 1)
    return code


# DLPack before 1.0, which quire's headers name only.
DLPACK_0 = """
struct DLManagedTensor {
  quire_dl_view dl_tensor;
  void *owner;
  void (*deleter)(struct DLManagedTensor *self);
};
"""
