"""Caches: sequences, prefix reuse, statistics. No bytes and no device."""
from __future__ import annotations

import threading
from typing import Any, Optional, Union

import numpy as np

from ._config import Config
from ._core import (
    NULL,
    Array,
    CData,
    Error,
    Kept,
    Owned,
    Serial,
    call,
    count_of,
    error_struct,
    fail,
    ffi,
    lib,
    overlapping,
    set_fields,
    struct,
    symbols_of,
)
from ._device import Runtime
from ._infos import CacheStats, GroupStats, PinInfo, ProbeResult, SequenceInfo
from ._numbers import CacheFlag, Code, Keep, SequenceFlag
from ._step import ENTRY, RESULT, Step

_ENTRIES = ffi.typeof("quire_reserve_entry[]")
_RESULTS = ffi.typeof("quire_reserve_result[]")
_STEP = ffi.typeof("quire_step *")
_from_buffer = ffi.from_buffer
_reserve = lib.quire_reserve
_new = ffi.new
_empty = np.empty


def cache_options_struct(**options: Any) -> tuple[CData, Kept]:
    """quire_cache_options of keyword arguments."""
    made, kept = struct("quire_cache_options"), Kept()
    known = {name for name, _ in ffi.typeof("quire_cache_options").fields if not name.startswith(("reserved", "struct_size"))}
    for name in options:
        if name not in known:
            raise TypeError(f"a cache has no option {name!r} (known: {', '.join(sorted(known))})")
    set_fields(made, kept, options)
    return made, kept


def identity_struct(salt: Union[str, bytes], adapter: Union[str, bytes], epoch: int, flags: int = 0,
                    adapter_number: int = 0) -> tuple[CData, Kept]:
    made, kept = struct("quire_identity"), Kept()
    set_fields(made, kept, dict(salt=salt or None, adapter=adapter or None, epoch=epoch, flags=flags, adapter_number=adapter_number))
    return made, kept


class Cache(Owned):
    """The bookkeeping of a plan: which pages hold the tokens of which sequence, and what can be
    reused.

        cache = Cache(config, max_sequences=256)
        want = quire.entries(1)
        want["sequence"] = sequence = cache.create_sequence(salt="tenant 1")
        want["num_symbols"] = want["num_tokens"] = len(prompt)
        want["flags"] = quire.Entry.MATCH
        with cache.reserve(want, prompt) as step: ...
        cache.finish(sequence)

    One call at a time, except for `probe` and `stats` (any thread): a call that overlaps another
    one raises `FAILED_PRECONDITION` and does nothing. All memory is allocated here.

    Limits
    - max_sequences: live at the same time; 0 = 256
    - max_entries_per_step: 0 = max_sequences; max_tokens_per_step: 0 = 8192; step_depth: steps in
      flight, 0 = 2, at most 8
    - max_roots: distinct (salt, adapter, epoch); 0 = 1024. max_media: 0 = 4096
    - max_pins: 0 = 64; pin_quota_tokens: tokens of all pins of one salt; 0 = no limit
    - max_loads: of tiers and sessions; 0 = 16. max_load_tokens: tokens of one load; 0 =
      max_tokens_per_step
    - max_index_units: match units in the prefix index; 0 = derived from the pool
    Policy
    - flags: `CacheFlag`
    - watermark_pages: pages that a new sequence leaves free while others use memory
    - num_state_branches: draft tokens in a row for which a state is written after each
    - keep_states: `Keep`, the boundaries at which a sequence can be resumed; 0 = all but CHUNK_END
    - checkpoint_interval: tokens between the boundaries of `Keep.EVERY`; 0 = the library chooses
    - checkpoint_bytes: bytes of states at most; 0 = a share of the pool that is learned
    - hash_seed: 0 = random; neither hits nor evictions depend on it

    runtime: its clock and log; None = defaults. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED (host
    memory).
    """

    def __init__(self, config: Config, *, runtime: Optional[Runtime] = None, flags: CacheFlag = CacheFlag(0), max_sequences: int = 0,
                 max_entries_per_step: int = 0, max_tokens_per_step: int = 0, step_depth: int = 0, max_roots: int = 0,
                 watermark_pages: int = 0, num_state_branches: int = 0, keep_states: Keep = Keep(0), max_pins: int = 0,
                 max_index_units: int = 0, max_media: int = 0, hash_seed: int = 0, checkpoint_interval: int = 0,
                 pin_quota_tokens: int = 0, checkpoint_bytes: int = 0, max_loads: int = 0,
                 max_load_tokens: int = 0) -> None:
        self._handle = None
        options, kept = cache_options_struct(
            flags=flags, max_sequences=max_sequences, max_entries_per_step=max_entries_per_step, max_tokens_per_step=max_tokens_per_step,
            step_depth=step_depth, max_roots=max_roots, watermark_pages=watermark_pages, num_state_branches=num_state_branches,
            keep_states=keep_states, max_pins=max_pins, max_index_units=max_index_units, max_media=max_media, hash_seed=hash_seed,
            checkpoint_interval=checkpoint_interval, pin_quota_tokens=pin_quota_tokens,
            checkpoint_bytes=checkpoint_bytes, max_loads=max_loads, max_load_tokens=max_load_tokens)
        out = ffi.new("quire_cache **")
        call(lib.quire_cache_create, NULL if runtime is None else runtime._pointer, config._pointer, options, out)
        del kept
        self._own(out[0], lib.quire_cache_release)
        self._serial = Serial("cache")
        self._tiers: Optional[CData] = None  # the handle of its tiers: it must not be released during another call of the cache
        self._tiers_lock = threading.Lock()  # held where that handle is used or dropped
        self.config = config

    def close(self) -> None:
        """Gives the cache up, with its sequences and steps. Raises `FAILED_PRECONDITION` during
        another call.
        """
        with self._serial, self._tiers_lock:
            self._tiers = None
            self._handle = None

    # ---- sequences

    def create_sequence(self, *, salt: Union[str, bytes] = "", adapter: Union[str, bytes] = "", epoch: int = 0,
                        flags: SequenceFlag = SequenceFlag(0), adapter_number: int = 0) -> int:
        """Opens an empty sequence and returns its id, which is never 0.

        Sequences share prefixes only if salt, adapter and epoch are equal. adapter_number appears
        in events. Errors: RESOURCE_EXHAUSTED (max_sequences, max_roots).
        """
        identity, kept = identity_struct(salt, adapter, epoch, flags, adapter_number)
        out = ffi.new("uint64_t *")
        with self._serial:
            call(lib.quire_sequence_create, self._pointer, identity, out)
        del kept
        return int(out[0])

    def _on_sequence(self, function: Any, sequence: int, *arguments: Any) -> None:
        number = count_of("sequence", sequence)
        with self._serial:
            call(function, self._pointer, number, *arguments)

    def finish(self, sequence: int) -> None:
        """Ends a sequence. What it published can still be found. Errors: NOT_FOUND (stale id)."""
        self._on_sequence(lib.quire_sequence_finish, sequence)

    def preempt(self, sequence: int) -> None:
        """Releases all blocks of a sequence and empties it; the id stays valid. Pass its symbols
        again.
        """
        self._on_sequence(lib.quire_sequence_preempt, sequence)

    def truncate(self, sequence: int, tokens: int) -> None:
        """Shortens a sequence to `tokens` committed tokens; with recurrent layers 0 and the current
        length only.
        """
        self._on_sequence(lib.quire_sequence_truncate, sequence, count_of("tokens", tokens))

    def fork(self, sequence: int) -> int:
        """A new sequence with the same committed tokens. Blocks are shared, and copied when one of
        both writes.
        """
        out = ffi.new("uint64_t *")
        self._on_sequence(lib.quire_sequence_fork, sequence, out)
        return int(out[0])

    def sequence(self, sequence: int) -> SequenceInfo:
        """State of a sequence: committed, reserved and known tokens. Errors: NOT_FOUND."""
        info = struct("quire_sequence_info")
        self._on_sequence(lib.quire_sequence_get_info, sequence, info)
        return SequenceInfo(info)

    def add_media(self, digest: bytes, length: int) -> int:
        """The first of `length` symbols that stand for an image or another medium with this digest
        (32 bytes).
        """
        if len(digest) != 32:
            raise Error(Code.INVALID_ARGUMENT, f"digest has {len(digest)} bytes, it must have 32")
        out = ffi.new("uint32_t *")
        with self._serial:
            call(lib.quire_cache_add_media, self._pointer, ffi.from_buffer("uint8_t[]", digest), count_of("length", length, 32), out)
        return int(out[0])

    # ---- steps

    def reserve(self, entries: Array, symbols: Union[Array, Any, None] = None) -> Step:
        """Takes memory for one step over all entries, in order. A refused entry changes nothing,
        and the others proceed.

        - entries: an array of `quire.entries(n)`, which says what its fields are
        - symbols: uint32, what the entries refer to; None if no entry gives symbols

        Look at `results` of the step for what to compute. Errors: OUT_OF_RANGE (offsets outside
        symbols), FAILED_PRECONDITION (step_depth steps are in flight), RESOURCE_EXHAUSTED (limit
        named).
        """
        if not isinstance(entries, np.ndarray) or (entries.dtype is not ENTRY and entries.dtype != ENTRY):
            raise TypeError("entries must be an array of quire.entries(n)")
        data, num_symbols = (NULL, 0) if symbols is None else symbols_of(symbols)
        count = len(entries)
        results = _empty(count, RESULT)
        step = _new(_STEP)
        lock = self._serial.lock
        if not lock.acquire(False):
            raise overlapping("cache")
        try:
            error = error_struct()
            code = _reserve(self._pointer, _from_buffer(_ENTRIES, entries), count, data, num_symbols,
                            _from_buffer(_RESULTS, results), step, error)
        finally:
            lock.release()
        if code:
            fail(code, error)
        return Step(self, step, results)

    # ---- prefixes

    def probe(self, symbols: Any, *, salt: Union[str, bytes] = "", adapter: Union[str, bytes] = "", epoch: int = 0) -> ProbeResult:
        """What a prompt would hit now. Any thread; steps do not wait for it."""
        identity, kept = identity_struct(salt, adapter, epoch)
        data, count = symbols_of(symbols)
        result = struct("quire_probe_result")
        call(lib.quire_probe, self._pointer, identity, data, count, result)
        del kept
        return ProbeResult(result)

    def pin(self, symbols: Any, *, salt: Union[str, bytes] = "", adapter: Union[str, bytes] = "", epoch: int = 0, priority: int = 0,
            duration_ns: int = 0) -> tuple[int, int]:
        """Keeps the longest cached prefix of symbols from eviction: (pin, its tokens).

        - priority: 0 (given up first) to 254, or 255: never given up
        - duration_ns: 0 = until `unpin`

        Errors: NOT_FOUND (nothing of it is cached), RESOURCE_EXHAUSTED (max_pins,
        pin_quota_tokens).
        """
        identity, kept = identity_struct(salt, adapter, epoch)
        data, count = symbols_of(symbols)
        options = struct("quire_pin_options")
        set_fields(options, kept, dict(priority=priority, duration_ns=duration_ns))
        tokens, out = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        with self._serial:
            call(lib.quire_pin, self._pointer, identity, data, count, options, tokens, out)
        return int(out[0]), int(tokens[0])

    def unpin(self, pin: int) -> None:
        """Ends a pin. Errors: NOT_FOUND (never existed, was given up, or expired)."""
        self._on_sequence(lib.quire_unpin, pin)

    def pin_info(self, pin: int) -> PinInfo:
        """Tokens, parts and deadline of a pin."""
        info = struct("quire_pin_info")
        self._on_sequence(lib.quire_pin_get_info, pin, info)
        return PinInfo(info)

    def stats(self) -> CacheStats:
        """Counters since creation, and the current state. Any thread."""
        stats = struct("quire_cache_stats")
        call(lib.quire_cache_get_stats, self._pointer, stats)
        return CacheStats(stats)

    def group_stats(self, group: int) -> GroupStats:
        """The pages of one group. Any thread. OUT_OF_RANGE: there is no such group."""
        stats = struct("quire_group_stats")
        call(lib.quire_cache_get_group_stats, self._pointer, group, stats)
        return GroupStats(stats)

    def reset(self) -> None:
        """Forgets all published content that no sequence references. Not legal while steps are in
        flight.
        """
        with self._serial:
            call(lib.quire_cache_reset, self._pointer)

    def forget_blocks(self, group: int, ids: Any) -> int:
        """Forgets published blocks by id (int32 [n]), for example if their bytes are bad. Returns
        how many were forgotten.
        """
        wanted = np.ascontiguousarray(ids, dtype=np.int32)
        out = ffi.new("uint64_t *")
        with self._serial:
            call(lib.quire_cache_forget_blocks, self._pointer, group, ffi.from_buffer("int32_t[]", wanted), len(wanted), out)
        return int(out[0])

    def verify(self) -> None:
        """Checks every invariant by deriving it again, for tests: O(pool). Errors: INTERNAL names
        the broken one.
        """
        with self._serial:
            call(lib.quire_cache_verify, self._pointer)


__all__ = ["Cache"]
