"""Plans and replays by the command line `quire`, as objects, tables and figures."""
from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Union

from ._core import Error, library_path
from ._numbers import Code

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

PathLike = Union[str, "os.PathLike[str]"]


def command_path() -> str:
    """The program `quire`: that of the library, else the one in PATH. Errors: NOT_FOUND."""
    import shutil

    real = os.path.realpath(library_path) if os.path.sep in library_path else ""
    own = os.path.join(os.path.dirname(os.path.dirname(real)), "bin", "quire")
    found = own if real and os.access(own, os.X_OK) else shutil.which("quire")
    if found is None:
        raise Error(Code.NOT_FOUND, "the command quire is neither next to the library nor in PATH")
    return found


def _run(*arguments: str) -> dict[str, Any]:
    import json
    import subprocess

    done = subprocess.run([command_path(), *arguments, "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        said = " ".join(line.strip() for line in lines).removeprefix("quire: ") if lines else f"the command ended with status {done.returncode}"
        name, _, rest = said.partition(": ")
        code = Code.__members__.get(name)
        raise Error(code or Code.INVALID_ARGUMENT, rest if code else said, "command")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _options(given: Mapping[str, Any]) -> list[str]:
    """Options of the command line: names with dashes; True is a flag; lists are joined with commas;
    None and False are left out.
    """
    made = []
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            made.append(option)
        elif value is not None and value is not False:
            made.append(f"{option}={','.join(map(str, value)) if isinstance(value, (list, tuple)) else value}")
    return made


def _make(kind: Any, answer: Mapping[str, Any]) -> Any:
    known = {f.name for f in fields(kind)}
    return kind(**{name: value for name, value in answer.items() if name in known})


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("tables need pandas: pip install pandas") from None
    return pandas


def _figure(**options: Any) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("figures need matplotlib: pip install matplotlib") from None
    return Figure(**options)


@dataclass(frozen=True)
class PlanGroup:
    """A group of layers with one table.

    - keeps: "everything", "range" (a window or a chunk), "state" or "encoder"
    - caches: of layers; lanes: that lie one after the other in a block
    - block_tokens; kernel_block_tokens: that one lowered id covers; parts_per_page: blocks of one
      page
    - payload_bytes_per_block, page_bytes_per_block, padding_share: 1 - payload / page bytes
    """

    group: int
    state: bool
    caches: int
    lanes: int
    block_tokens: int
    kernel_block_tokens: int
    parts_per_page: int
    ids_per_block: int
    sink_tokens: int
    window: int
    chunk: int
    payload_bytes_per_block: int
    page_bytes_per_block: int
    padding_share: float
    keeps: str


@dataclass(frozen=True)
class PlanRegion:
    """Memory that a shard allocates: bytes, alignment, and bytes of one page in each of its planes.
    """

    shard: int
    region: int
    bytes: int
    alignment: int
    page_bytes: int
    planes: int


@dataclass(frozen=True)
class PlanCapacity:
    """How many sequences of `tokens` tokens fit: guaranteed in any order, decoding together,
    resident one after the other.

    - concurrency, longest, pages_needed, bytes_needed_per_shard: of so many sequences at once;
      fits: whether they are guaranteed
    - kv_cache_tokens: the pool in tokens, as vLLM prints it
    """

    tokens: int
    guaranteed: int
    decoding: int
    resident: int
    kv_cache_tokens: int
    concurrency: int
    longest: int
    pages_needed: int
    bytes_needed_per_shard: int
    fits: bool


@dataclass(frozen=True)
class Plan:
    """What `plan` answers. `json` has all of it, as docs/schemas/plan-1.json describes.

    - num_pages: the null page included; page_bytes, pool_bytes: of shard 0
    - token_bytes: of one more token; state_bytes: of one state of all layers; both with padding
    - groups, regions, capacity: `PlanGroup`, `PlanRegion`, `PlanCapacity`
    - notes: what is worth knowing
    """

    architecture: str
    layers: int
    caches: int
    policy: str
    layout: str
    shards: int
    match_unit_tokens: int
    hit_alignment_tokens: int
    checkpoint_tokens: int
    num_pages: int
    padding_share: float
    max_model_len: int
    capacity_tokens: int
    page_bytes: int
    pool_bytes: int
    token_bytes: int
    state_bytes: int
    pipeline_parallel: int
    groups: tuple[PlanGroup, ...]
    regions: tuple[PlanRegion, ...]
    capacity: PlanCapacity
    notes: tuple[str, ...]
    json: dict[str, Any] = field(repr=False, compare=False)

    def table(self) -> pandas.DataFrame:
        """The groups as a table. Needs pandas."""
        return _pandas().DataFrame([vars(group) for group in self.groups]).set_index("group")

    def figure(self) -> Figure:
        """Bytes of a block of each group, with padding. Needs matplotlib."""
        made: Figure = _figure(figsize=(7, 1 + 0.5 * len(self.groups)), layout="tight")
        axes = made.subplots()
        names = [f"{group.group}: {group.keeps}" for group in self.groups]
        payload = [group.payload_bytes_per_block for group in self.groups]
        axes.barh(names, payload, label="payload")
        axes.barh(names, [group.page_bytes_per_block - used for group, used in zip(self.groups, payload)], left=payload, label="padding")
        axes.set_xlabel("bytes of a block")
        axes.invert_yaxis()
        axes.legend()
        return made


def plan(config: PathLike, *, memory: Union[str, int, Sequence[Union[str, int]], None] = None, pages: Optional[int] = None,
         tp: Optional[int] = None, pp: Optional[int] = None, cp: Optional[int] = None, max_len: Optional[int] = None,
         kv_dtype: Optional[str] = None, policy: Optional[str] = None, block: Optional[int] = None, concurrency: Optional[int] = None,
         speculative: Union[str, bool, None] = None, fit: Optional[str] = None, **options: Any) -> Plan:
    """Plans the cache of a model: groups, pages, padding and capacity in given memory.

        quire.plan("Qwen3-Next-80B-A3B/config.json", memory="80GiB", tp=2).capacity.guaranteed

    - config: config.json of the model, its folder, or a layer file
    - memory: bytes for the cache, without weights, per shard ("80GiB"); or pages: exactly so many
    - tp, pp, cp: ranks; max_len: tokens of the longest sequence; kv_dtype: "fp8", "int8", ...
    - policy: "auto", "pack:N" or "vllm"; concurrency: sequences at once, for `capacity`
    - fit: what gives way where not all fits: "length", "memory" or "none"; speculative: True, or
      the config of a draft model
    - options: every other option of `quire plan`, with underscores

    It runs the command `quire plan`. Errors: those of the command.
    """
    given = dict(memory=memory, pages=pages, tp=tp, pp=pp, cp=cp, max_len=max_len, kv_dtype=kv_dtype, policy=policy, block=block,
                 concurrency=concurrency, speculative=speculative, fit=fit, **options)
    answer = _run("plan", os.fspath(config), *_options(given))
    parts = dict(answer, groups=tuple(_make(PlanGroup, group) for group in answer["groups"]),
                 regions=tuple(_make(PlanRegion, region) for region in answer["regions"]),
                 capacity=_make(PlanCapacity, answer["capacity"]), notes=tuple(answer["notes"]), json=answer)
    made: Plan = _make(Plan, parts)
    return made


@dataclass(frozen=True)
class Replay:
    """What `replay` answers. `json` has all of it, as docs/schemas/replay-1.json describes.

    - hit_share: of all tokens of prompts, those found in the cache; compute_saved: of their compute
    - misses: first matches by what ended them
    - series: samples of the run; sweep, oracles, fleet, tier: what options asked for, as dicts
    - seconds, us_per_request, max_us: inside the library
    """

    requests: int
    prompt_tokens: int
    hit_tokens: int
    hit_share: float
    compute_saved: float
    computed_tokens: int
    misses: dict[str, int]
    steps: int
    preemptions: int
    pages: int
    pool_bytes: int
    evicted_pages: int
    hand_overs: int
    checkpoints: int
    seconds: float
    us_per_request: float
    max_us: float
    oracles: list[dict[str, Any]]
    series: list[dict[str, Any]]
    sweep: list[dict[str, Any]]
    fleet: list[dict[str, Any]]
    tier: Optional[dict[str, Any]] = None
    json: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def table(self) -> pandas.DataFrame:
        """The samples of the run as a table, one row per sample. Needs pandas, and `series` in the
        call of `replay`.
        """
        rows = [{**sample, **{f"miss_{why}": n for why, n in sample["misses"].items()}} for sample in self.series]
        return _pandas().DataFrame(rows).drop(columns=["misses", "groups"], errors="ignore")

    def figure(self) -> Figure:
        """Pages and hits over the run. Needs matplotlib, and `series` in the call of `replay`."""
        made: Figure = _figure(figsize=(8, 5), layout="tight")
        pages, hits = made.subplots(2, 1, sharex=True)
        requests = [sample["requests"] for sample in self.series]
        pages.stackplot(requests, *[[sample[name] for sample in self.series] for name in ("pages_used", "pages_evictable", "pages_free")],
                        labels=["used", "cached", "free"])
        pages.set_ylabel("pages")
        pages.legend(loc="upper left")
        hits.plot(requests, [sample["hit_tokens"] / max(sample["prompt_tokens"], 1) for sample in self.series])
        hits.set_ylabel("share of prompt tokens hit")
        hits.set_xlabel("requests that have ended")
        hits.set_ylim(0, 1)
        return made


def replay(config: PathLike, trace: PathLike, *, memory: Union[str, int, None] = None, pages: Optional[int] = None,
           policy: Optional[str] = None, requests: Optional[int] = None, concurrency: Optional[int] = None, series: Optional[int] = None,
           oracle: Union[str, Sequence[str], None] = None, sweep_memory: Optional[Sequence[str]] = None,
           sweep_policy: Optional[Sequence[str]] = None, tier: Optional[str] = None, engines: Optional[int] = None,
           seed: Optional[int] = None, **options: Any) -> Replay:
    """Replays a trace of requests through the bookkeeping: hits, misses, evictions, time per
    request.

        quire.replay("config.json", "trace.jsonl.gz", memory="40GiB",
        series=100).figure().savefig("run.svg")

    - trace: a file (Mooncake's, Azure's, BurstGPT's, ShareGPT's or vLLM's form), or a made one:
      "agents:N", "documents:N", "conversations:N"
    - memory, pages, policy: as for `plan`; requests: only so many; concurrency: running at once
    - series: so many samples of the run; oracle: other caches to simulate: "infinite", "lru",
      "clairvoyant", "marconi"
    - sweep_memory, sweep_policy: also replay with each of these; tier: size of a tier below the
      cache; engines: of a fleet
    - options: every other option of `quire replay`, with underscores

    It runs the command `quire replay`. Errors: those of the command.
    """
    given = dict(memory=memory, pages=pages, policy=policy, requests=requests, concurrency=concurrency, series=series, oracle=oracle,
                 sweep_memory=sweep_memory, sweep_policy=sweep_policy, tier=tier, engines=engines, seed=seed, **options)
    answer = _run("replay", os.fspath(config), os.fspath(trace), *_options(given))
    made: Replay = _make(Replay, dict(answer, json=answer))
    return made


__all__ = ["Plan", "PlanCapacity", "PlanGroup", "PlanRegion", "Replay", "plan", "replay"]
