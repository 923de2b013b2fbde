"""What a cache keeps elsewhere: connectors, tiers, sessions; and metrics."""
from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, BinaryIO, Mapping, Optional, Sequence

import numpy as np

from ._cache import Cache
from ._core import (
    NULL,
    Array,
    CData,
    Error,
    Kept,
    Owned,
    call,
    closed,
    count_of,
    error_struct,
    fail,
    ffi,
    lib,
    set_fields,
    struct,
    symbols_of,
)
from ._device import Runtime, Stream
from ._infos import ConnectorHealth, ConnectorInfo, ConnectorStats, FetchResult, Offer, OfferInfo, OfferRefusal, SessionInfo, TiersStats, TierStats
from ._memory import Memory
from ._numbers import Code, Unit


class Connector(Owned):
    """A place where objects are kept, for a `Tier`: a module and its settings.

        Connector("host", {"bytes": 4 << 30})      # docs/connectors.md says which settings each has

    - name: of the module ("host", "file", ...), or an absolute path
    - settings: what becomes its JSON text
    - runtime: says where modules are; None = a new one

    Any thread. Errors: NOT_FOUND (name), INVALID_ARGUMENT (settings), INCOMPATIBLE_ABI, and the
    connector's.
    """

    def __init__(self, name: str, settings: Optional[Mapping[str, Any]] = None, *, runtime: Optional[Runtime] = None) -> None:
        self._handle = None
        kept = Kept()
        out = ffi.new("quire_connector **")
        text = json.dumps(settings) if settings is not None else ""
        call(lib.quire_connector_open, (runtime or Runtime())._pointer, kept.text(name), kept.text(text), out)
        self._own(out[0], lib.quire_connector_release)

    @property
    def info(self) -> ConnectorInfo:
        """What it can do."""
        info = struct("quire_connector_info")
        call(lib.quire_connector_get_info, self._pointer, info)
        return ConnectorInfo(info)

    def stats(self) -> ConnectorStats:
        """Tickets, bytes and latencies."""
        stats = struct("quire_connector_stats")
        call(lib.quire_connector_get_stats, self._pointer, stats)
        return ConnectorStats(stats)

    def health(self) -> ConnectorHealth:
        """Asks the connector how it is."""
        health = struct("quire_connector_health")
        call(lib.quire_connector_get_health, self._pointer, health)
        return ConnectorHealth(health)


@dataclass(frozen=True)
class Tier:
    """One tier of `Tiers`.

    - connector: used by these tiers alone
    - reasons: which units are written, for example Unit.COMMITTED; 0 = the tier is only read
    - name: for statistics; "" = the connector's
    - max_store_bytes: stores in flight; of peers, all offers; 0 = chosen
    - peers: the connector leads to other processes: `Tiers.offer` and `Tiers.fetch_from` use the
      tier, and nothing else does; reasons is 0
    """

    connector: Connector
    reasons: Unit = Unit(0)
    name: str = ""
    max_store_bytes: int = 0
    peers: bool = False


@dataclass(frozen=True)
class Peer:
    """Where `Tiers.fetch_from` finds what another process offers. A router passes it on.

    - address: of the other process, as the connector wants it, 1 to 255 bytes
    - handle, end_token: those of its `Offer`
    - tier: index of a `Tier` with peers
    - grows: the offer may grow still; what is missing is waited for, until end_token is reached, the
      offer ends, or the deadline passes
    - encoder_tokens: cross attention: those of the sequence that is offered
    """

    address: str
    handle: bytes
    end_token: int
    tier: int = 0
    grows: bool = False
    encoder_tokens: int = 0


class Tiers:
    """Offloads a cache: blocks are stored through connectors, and prefixes are fetched from there.

        tiers = Tiers(cache, "org/model@revision", [memory], [stream],
                      [Tier(connector, Unit.COMMITTED)])
        every iteration:    ... step.commit(...); tiers.run()
        a new request:      fetch = tiers.fetch(sequence, prompt)
                            leave the sequence alone until tiers.run() reports the fetch

    Prefill here, decode in another process, each with a Tier(connector, peers=True):

        here:   offer = tiers.offer(sequence, prompt)
                when tiers.offer_info(offer.handle).is_ready: send handle and end_token
        there:  fetch = tiers.fetch_from(Peer(address, handle, end_token), sequence, prompt)

    - weights: name of the weights; anything else that changes cached values needs another name, too
    - memories, streams: one per shard of the config; the streams on which steps are prepared and
      run
    - tiers: `Tier`, the nearest first, at most 8
    - unit_tokens: 0 = chosen; max_fetches: at the same time, 0 = max_loads of the cache
    - ns_per_token: prefill time; fetches that seem slower than computing are not begun. 0 = unknown
    - tensor_parallel: other sizes whose records are read, too

    One call at a time on tiers, cache, memories and streams. The cache keeps its tiers until
    `close()`, or its own. Errors: INVALID_ARGUMENT, FAILED_PRECONDITION (a tier writes without prefix
    reuse; tiers already), NOT_REPRESENTABLE, UNIMPLEMENTED (cross attention, unless all are peers).
    """

    def __init__(self, cache: Cache, weights: str, memories: Sequence[Memory], streams: Sequence[Stream], tiers: Sequence[Tier], *,
                 unit_tokens: int = 0, ns_per_token: float = 0.0, max_fetches: int = 0, tensor_parallel: Sequence[int] = ()) -> None:
        self._cache = cache
        self._streams = list(streams)
        options, kept = struct("quire_tiers_options"), Kept()
        set_fields(options, kept, dict(weights=weights, unit_tokens=unit_tokens, ns_per_token=ns_per_token, max_fetches=max_fetches))
        _set_shards(options, kept, cache, memories, streams)
        array = kept.array("quire_tier[]", max(len(tiers), 1))
        for i, tier in enumerate(tiers):
            array[i].connector = tier.connector._pointer
            set_fields(array + i, kept, dict(name=tier.name or None, reasons=tier.reasons, max_store_bytes=tier.max_store_bytes,
                                             flags=_PEERS if tier.peers else 0))
        options.tiers, options.num_tiers = array, len(tiers)
        if tensor_parallel:
            options.tensor_parallel = kept.array("uint32_t[]", list(tensor_parallel))
            options.num_tensor_parallel = len(tensor_parallel)
        out = ffi.new("quire_tiers **")
        with cache._serial, cache._tiers_lock:
            call(lib.quire_tiers_create, cache._pointer, options, out)
            cache._tiers = ffi.gc(out[0], lib.quire_tiers_release)
        self._mark = int(ffi.cast("uintptr_t", out[0]))

    @property
    def _pointer(self) -> CData:
        handle = self._cache._tiers
        if handle is None or int(ffi.cast("uintptr_t", handle)) != self._mark:
            raise closed("Tiers")
        return handle

    def close(self) -> None:
        """Cancels all fetches, and waits until no connector touches memory of the tiers."""
        with self._cache._serial, self._cache._tiers_lock:
            handle = self._cache._tiers
            if handle is not None and int(ffi.cast("uintptr_t", handle)) == self._mark:
                self._cache._tiers = None
                del handle
            self._mark = 0

    def __enter__(self) -> Tiers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fetch(self, sequence: int, symbols: Any, deadline_ns: int = 0) -> int:
        """Asks the tiers for a prefix of symbols, beyond what the cache has; returns the fetch,
        which `run` reports when it has ended.

        - sequence: empty; do not use it until then. To drop it, `cancel` first
        - deadline_ns: from now; 0 = derived from ns_per_token

        Errors: NOT_FOUND (stale sequence), FAILED_PRECONDITION (it is not empty),
        RESOURCE_EXHAUSTED (max_fetches).
        """
        data, count = symbols_of(symbols)
        out = ffi.new("uint64_t *")
        with self._cache._serial:
            call(lib.quire_fetch_begin, self._pointer, count_of("sequence", sequence), data, count, deadline_ns, out)
        return int(out[0])

    def fetch_from(self, peer: Peer, sequence: int, symbols: Any, deadline_ns: int = 0) -> int:
        """As `fetch`, and asks a peer for what it offers: only what cache and tiers lack. When the
        fetch ends, the peer learns that the offer is not needed any more.

        Errors: those of `fetch`, OUT_OF_RANGE (tier, encoder_tokens), FAILED_PRECONDITION (a tier without peers).
        """
        data, count = symbols_of(symbols)
        where, kept, out = struct("quire_peer"), Kept(), ffi.new("uint64_t *")
        set_fields(where, kept, dict(tier=peer.tier, address=peer.address, end_token=peer.end_token, flags=int(peer.grows),
                                     encoder_tokens=peer.encoder_tokens))
        where.handle = _handle(peer.handle)
        with self._cache._serial:
            call(lib.quire_fetch_begin_peer, self._pointer, count_of("sequence", sequence), data, count, deadline_ns, where, out)
        return int(out[0])

    def offer(self, sequence: int, symbols: Any, tier: int = 0, end_token: int = 0) -> Offer:
        """Offers the first tokens of a sequence to one reader, through a tier with peers. `run`
        prepares the offer; pass its handle and end_token on when `offer_info` says is_ready.

        - symbols: of the sequence, at least those up to the end
        - end_token: where all groups can resume; with recurrent layers commit up to exactly there.
          0 = the last such place that is committed

        The offer holds its blocks until it was read, its lease is over (a setting of the
        connector), or `end_offer`. One of more than what is committed grows: call `run` after
        every commit, and keep the sequence, and compute nothing beyond end_token, until num_tokens
        of `offer_info` is end_token. Otherwise the sequence may go on, or finish, at once. Errors:
        INVALID_ARGUMENT (end_token), NOT_FOUND (stale sequence), OUT_OF_RANGE (tier, too few
        symbols, end_token beyond the longest sequence), FAILED_PRECONDITION (a tier without peers; nothing is
        committed that far; no state there), RESOURCE_EXHAUSTED, UNIMPLEMENTED (device memory).
        """
        data, count = symbols_of(symbols)
        out = ffi.new("quire_offer *")
        with self._cache._serial:
            call(lib.quire_offer_begin, self._pointer, count_of("sequence", sequence), data, count, count_of("end_token", end_token),
                 count_of("tier", tier, 32), out)
        return Offer(out[0])

    def offer_info(self, handle: bytes) -> OfferInfo:
        """How an offer stands. Errors: NOT_FOUND (unknown, or it has ended)."""
        info = struct("quire_offer_info")
        with self._cache._serial:
            call(lib.quire_offer_get_info, self._pointer, _handle(handle), info)
        return OfferInfo(info)

    def end_offer(self, handle: bytes) -> None:
        """Withdraws an offer. Its blocks stay held until the connector reads them no more. Errors:
        NOT_FOUND (unknown, or it has ended).
        """
        with self._cache._serial:
            call(lib.quire_offer_end, self._pointer, _handle(handle))

    def refusal(self, fetch: int) -> OfferRefusal:
        """Why nothing came of an offer, or not all of it: the first field in which it differs from
        what this process could read. The latest 64 fetches that were refused so are remembered.
        Any thread. Errors: NOT_FOUND (no offer was refused in it, as far as is known).
        """
        refusal = struct("quire_offer_refusal")
        with self._cache._tiers_lock:
            call(lib.quire_fetch_get_refusal, self._pointer, count_of("fetch", fetch), refusal)
        return OfferRefusal(refusal)

    def cancel(self, fetch: int) -> None:
        """Ends a fetch early; `run` reports it. Errors: NOT_FOUND (unknown, or it has ended)."""
        with self._cache._serial:
            call(lib.quire_fetch_cancel, self._pointer, count_of("fetch", fetch))

    def run(self, timeout_ns: int = 0) -> list[FetchResult]:
        """Does what there is to do, and returns the fetches that have ended. Nothing moves on
        without this call.

        Before, prepare every reserved step and queue the kernels of committed ones. timeout_ns:
        waits for transfers in flight.
        """
        count, results = ffi.new("uint64_t *"), ffi.new("quire_fetch_result[]", 64)
        with ExitStack() as stack:
            for guard in [self._cache._serial, *(stream._serial for stream in self._streams)]:
                stack.enter_context(guard)
            call(lib.quire_tiers_run, self._pointer, timeout_ns, results, 64, count)
        return [FetchResult(results[i]) for i in range(count[0])]

    def stats(self) -> TiersStats:
        """What happened in all tiers. Any thread."""
        stats = struct("quire_tiers_stats")
        with self._cache._tiers_lock:
            call(lib.quire_tiers_get_stats, self._pointer, stats)
        return TiersStats(stats)

    def tier_stats(self, tier: int) -> TierStats:
        """What happened in one tier. Any thread."""
        stats = struct("quire_tier_stats")
        with self._cache._tiers_lock:
            call(lib.quire_tiers_get_tier_stats, self._pointer, count_of("tier", tier, 32), stats)
        return TierStats(stats)


_PEERS = 1  # QUIRE_TIER_PEERS


def _handle(handle: bytes) -> bytes:
    """The handle of an offer, checked."""
    handle = bytes(handle)
    if len(handle) != 16:
        raise Error(Code.INVALID_ARGUMENT, f"handle: {len(handle)} bytes; that of an offer has 16")
    return handle


def _set_shards(options: CData, kept: Kept, cache: Cache, memories: Sequence[Memory], streams: Sequence[Stream]) -> None:
    shards = cache.config.info.num_shards
    if len(memories) != shards or len(streams) != shards:
        raise Error(Code.INVALID_ARGUMENT, f"{len(memories)} memories and {len(streams)} streams for {shards} shards")
    options.memories = kept.array("quire_memory *[]", [memory._pointer for memory in memories])
    options.streams = kept.array("quire_stream *[]", [stream._pointer for stream in streams])
    kept.items += [[memory._pointer for memory in memories], [stream._pointer for stream in streams]]


class _Transfer:
    """A file that a session goes to or comes from, and what it raised."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.raised: Optional[BaseException] = None

    def stopped(self, error: BaseException, report: CData) -> int:
        self.raised = error
        if report != NULL:
            report.code = int(Code.ABORTED)
        return int(Code.ABORTED)


@ffi.callback("quire_session_write_fn", error=int(Code.ABORTED))
def _write(user: CData, data: CData, size: int, report: CData) -> int:
    transfer = ffi.from_handle(user)
    try:
        left = memoryview(bytes(ffi.buffer(ffi.cast("char *", data), size)))
        while left:
            left = left[transfer.file.write(left) or len(left):]
        return 0
    except BaseException as error:
        return int(transfer.stopped(error, report))


@ffi.callback("quire_session_read_fn", error=int(Code.ABORTED))
def _read(user: CData, data: CData, size: int, report: CData) -> int:
    transfer = ffi.from_handle(user)
    try:
        view = ffi.buffer(ffi.cast("char *", data), size)
        at = 0
        while at < size:
            piece = transfer.file.read(size - at)
            if not piece:
                raise EOFError(f"the session ends {size - at} bytes too early")
            view[at:at + len(piece)] = piece
            at += len(piece)
        return 0
    except BaseException as error:
        return int(transfer.stopped(error, report))


def _session(function: Any, cache: Cache, sequence: int, weights: str, memories: Sequence[Memory], streams: Sequence[Stream], file: Any,
             callback: CData, data: CData, count: int) -> SessionInfo:
    options, kept, info = struct("quire_session_options"), Kept(), struct("quire_session_info")
    set_fields(options, kept, dict(weights=weights))
    _set_shards(options, kept, cache, memories, streams)
    transfer = _Transfer(file)
    user = ffi.new_handle(transfer)
    error = error_struct()
    with ExitStack() as stack:
        for guard in [cache._serial, *(stream._serial for stream in streams)]:
            stack.enter_context(guard)
        arguments = (data, count, callback, user) if function is lib.quire_session_save else (callback, user, data, count)
        code = function(cache._pointer, count_of("sequence", sequence), options, *arguments, info, error)
    if transfer.raised is not None:
        raise transfer.raised
    if code:
        fail(code, error)
    return SessionInfo(info)


def save_session(cache: Cache, sequence: int, file: BinaryIO, symbols: Any, *, weights: str, memories: Sequence[Memory],
                 streams: Sequence[Stream]) -> SessionInfo:
    """Writes a sequence as a stream of bytes: its symbols, blocks and states. Another process can
    go on from there, under another plan.

    - file: anything with write(bytes); what it raises ends the save and is raised here
    - symbols: those of the committed tokens at least

    The sequence must have no step in flight, and can go on afterwards. Errors: FAILED_PRECONDITION,
    NOT_REPRESENTABLE, UNIMPLEMENTED.
    """
    data, count = symbols_of(symbols)
    return _session(lib.quire_session_save, cache, sequence, weights, memories, streams, file, _write, data, count)


def restore_session(cache: Cache, sequence: int, file: BinaryIO, *, weights: str, memories: Sequence[Memory],
                    streams: Sequence[Stream]) -> tuple[SessionInfo, Array]:
    """Reads a session into an empty sequence of the same identity: (facts, its symbols uint32).

    - file: anything with read(n); what it raises ends the restore and is raised here

    The sequence has `committed` tokens then; reserve the rest, with symbols from `known` of
    `Cache.sequence` on. Errors: DATA_LOSS, FAILED_PRECONDITION (another model, weights or
    identity), RESOURCE_EXHAUSTED, OUT_OF_RANGE.
    """
    symbols: Array = np.zeros(cache.config.info.max_model_len, np.uint32)
    data, count = symbols_of(symbols)
    info = _session(lib.quire_session_restore, cache, sequence, weights, memories, streams, file, _read, data, count)
    return info, symbols[:info.num_tokens].copy()


@dataclass(frozen=True)
class Source:
    """What is counted in a text of `metrics`, and the labels of its samples:
    'engine="0",model_name="m"'.
    """

    cache: Optional[Cache] = None
    tiers: Optional[Tiers] = None
    memory: Optional[Memory] = None
    labels: str = ""


def metrics(*sources: Source, openmetrics: bool = False) -> str:
    """What caches, tiers and memories count, as text for Prometheus (docs/metrics.md). Any thread;
    two sources need different labels.
    """
    kept, array = Kept(), ffi.new("quire_metrics_source[]", max(len(sources), 1))
    with ExitStack() as stack:
        for to, source in zip(array, sources):
            handles = [of._pointer for of in (source.cache, source.memory) if of is not None]  # another thread may close them meanwhile
            kept.items += handles
            if source.cache is not None:
                to.cache = handles[0]
            if source.tiers is not None:
                stack.enter_context(source.tiers._cache._tiers_lock)
                to.tiers = source.tiers._pointer
            if source.memory is not None:
                to.memory = handles[-1]
            kept.bytes_at(to.labels, source.labels)
        count, error, capacity = ffi.new("uint64_t *"), error_struct(), 1 << 16
        while True:  # the text may be longer at the next call
            text = ffi.new("char[]", capacity)
            code = lib.quire_metrics_write(array, len(sources), 1 if openmetrics else 2, text, capacity, count, error)
            if not code:
                return bytes(ffi.buffer(text, count[0])).decode()
            if code != Code.OUT_OF_RANGE or count[0] <= capacity:
                fail(code, error)
            capacity = 2 * count[0]



__all__ = ["Connector", "Peer", "Source", "Tier", "Tiers", "metrics", "restore_session", "save_session"]
