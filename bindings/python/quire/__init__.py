"""quire: the KV cache of hybrid language models.

Plan, and try traces
    plan("config.json", memory="80GiB")     groups, pages, padding and capacity of a model: a `Plan`
    replay("config.json", "trace.jsonl")    hits and evictions of a request trace: a `Replay`

Run a cache
    Model       what each layer caches: `Model.from_json`, or a list of `Layer`
    Config      the plan: groups of layers, pages, layout
    Cache       the bookkeeping: sequences, prefixes, steps. No bytes, no device
    entries     an array of what sequences ask of a step
    Step        from `Cache.reserve`: run its kernels, then commit or abort. A context manager

See and move bytes
    Device      of the driver that QUIRE_DRIVER names, or of a `Runtime`
    Memory      the pages of a plan on a device, or in tensors of yours (`Memory.bind`)
    Tensor      a view of a layer: `numpy()`, `torch()`, `__dlpack__`; never a copy
    Batch       the arrays of a step that kernels read: tables, slots, positions, states
    Stream      a queue with the driver's ops: kv_append, attention, gated_delta, ...

Keep more than fits
    Connector   where objects are kept: host memory, files, servers
    Tiers       offload a cache through connectors, and fetch prefixes from there
    save_session, restore_session     one sequence as a stream of bytes
    metrics     what caches, tiers and memories count, as text for Prometheus

One step of an engine:

    with cache.reserve(want, symbols) as step:
        groups = batch.fill(step)
        memory.prepare(step, stream)
        ...                                 # your kernels
        step.commit(next_symbols)

Every failure of the library is an `Error` with a `code`; wrong types are a TypeError. Objects are
closed by `close()`, `with` or the garbage collector, in any order; later calls raise. "Serialized"
objects (Cache, Stream, Tiers) take one call at a time: one that overlaps another raises, and does
nothing. "Any thread" means any, at any time.
"""
from ._cache import Cache
from ._config import Config
from ._core import DType, Error, dtype_of, library_path
from ._core import lib as _lib
from ._core import str_of as _str_of
from ._device import Device, Runtime, Stream
from ._infos import (
    CacheStats,
    Capacity,
    CodecParams,
    Compatibility,
    ConfigInfo,
    ConnectorHealth,
    ConnectorInfo,
    ConnectorStats,
    DeviceInfo,
    FetchResult,
    GroupInfo,
    GroupStats,
    KVField,
    KVView,
    LayerPlace,
    Lowering,
    ModelInfo,
    Offer,
    OfferInfo,
    OfferRefusal,
    PinInfo,
    ProbeInfo,
    ProbeResult,
    RegionInfo,
    SequenceInfo,
    SessionInfo,
    StateView,
    StepInfo,
    TiersStats,
    TierStats,
)
from ._memory import Batch, GroupBatch, Memory, PagedKV, PagedState, Tensor
from ._model import Layer, Model, StateTensor
from ._numbers import (
    CacheFlag,
    Code,
    Codec,
    CompatLevel,
    ConnectorFlag,
    ConnectorState,
    DeviceType,
    Entry,
    FetchOutcome,
    FieldRole,
    FillKind,
    Keep,
    KVScales,
    LayerFlag,
    LayerKind,
    LogLevel,
    Miss,
    OfferField,
    PlanFlag,
    Refusal,
    Result,
    RuntimeFlag,
    SequenceFlag,
    StateKind,
    StateMode,
    Unit,
    VllmFlag,
)
from ._step import Step, entries, outcomes, refusal_text
from ._tiers import Connector, Peer, Source, Tier, Tiers, metrics, restore_session, save_session
from ._tools import Plan, PlanCapacity, PlanGroup, PlanRegion, Replay, plan, replay

__version__ = _str_of(_lib.quire_version())
__all__ = [
    "Batch", "Cache", "CacheFlag", "CacheStats", "Capacity", "Code", "Codec", "CodecParams", "CompatLevel", "Compatibility", "Config",
    "ConfigInfo", "Connector", "ConnectorFlag", "ConnectorHealth", "ConnectorInfo", "ConnectorState", "ConnectorStats", "DType", "Device",
    "DeviceInfo", "DeviceType", "Entry", "Error", "FetchOutcome", "FetchResult", "FieldRole", "FillKind", "GroupBatch", "GroupInfo",
    "GroupStats", "KVField", "KVScales", "KVView", "Keep", "Layer", "LayerFlag", "LayerKind", "LayerPlace", "LogLevel", "Lowering",
    "Memory", "Miss", "Model", "ModelInfo", "Offer", "OfferField", "OfferInfo", "OfferRefusal", "PagedKV", "PagedState", "Peer", "PinInfo",
    "Plan", "PlanCapacity", "PlanFlag", "PlanGroup", "PlanRegion", "ProbeInfo", "ProbeResult", "Refusal", "RegionInfo", "Replay", "Result",
    "Runtime", "RuntimeFlag", "SequenceFlag", "SequenceInfo", "SessionInfo", "Source", "StateKind", "StateMode", "StateTensor", "StateView",
    "Step", "StepInfo", "Stream", "Tensor", "Tier", "TierStats", "Tiers", "TiersStats", "Unit", "VllmFlag", "dtype_of", "entries",
    "library_path", "metrics", "outcomes", "plan", "refusal_text", "replay", "restore_session", "save_session",
]
for _name in __all__:  # help() and messages name what users import
    if getattr(globals()[_name], "__module__", "").startswith("quire._"):
        globals()[_name].__module__ = "quire"
