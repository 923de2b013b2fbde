"""Steps: reserve, run, commit or abort."""
from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, Type, Union

import numpy as np

from ._core import (
    NULL,
    Array,
    CData,
    Error,
    call,
    count_of,
    error_struct,
    fail,
    ffi,
    lib,
    overlapping,
    str_of,
    struct,
    struct_dtype,
    symbols_of,
)
from ._infos import StepInfo
from ._numbers import Code, FillKind, Refusal

if TYPE_CHECKING:
    from ._cache import Cache

ENTRY = struct_dtype("quire_reserve_entry")
RESULT = struct_dtype("quire_reserve_result")
OUTCOME = struct_dtype("quire_commit_entry")
COPY = struct_dtype("quire_copy")
ZERO = struct_dtype("quire_zero")
_OUTCOMES = ffi.typeof("quire_commit_entry[]")
_from_buffer = ffi.from_buffer
_commit = lib.quire_commit


def entries(count: int) -> Array:
    """A zeroed array for `Cache.reserve`: one entry per sequence that takes part in a step.
    Allocate it once and set what changes.

    - sequence: from `Cache.create_sequence`
    - symbols_position: position of the first symbol that is given: the first that the cache does
      not know. Ignored if num_symbols is 0
    - symbols_offset, num_symbols: where its symbols are in the array of symbols. 0 and 0: none, an
      earlier commit gave them
    - num_tokens: maximum number of tokens to compute in this step
    - num_look_ahead: slots after them that must have memory as well
    - flags: `Entry`
    - full_tokens: 0, or the final length of the sequence: admitted only if all of it fits now
    - encoder_tokens: cross attention, in a sequence's first entry
    """
    return np.zeros(count, ENTRY)


def outcomes(count: int) -> Array:
    """A zeroed array for `Step.commit_rows`: sequence, symbols_position, symbols_offset,
    num_symbols, num_accepted of each row.
    """
    return np.zeros(count, OUTCOME)


def refusal_text(reason: int) -> str:
    """One sentence for logs about the `reason` of a refused entry."""
    return str_of(lib.quire_refusal_text(reason))


class Step:
    """A step in flight, from `Cache.reserve`. It is committed or aborted once.

        with cache.reserve(want, symbols) as step:
            groups = batch.fill(step)       # what kernels read
            memory.prepare(step, stream)    # copies and zeroes that they need
            ...                             # your kernels
            step.commit(next_symbols)       # one symbol for every row

    `with` aborts the step if the block raises. If the block ends without `commit` or `abort`, all
    tokens are accepted and no symbols are given: right for chunks of a prompt.

    - results: array [number of entries]. Fields: sequence; code (0 = admitted), reason (`Refusal`),
      missing_pages; position and num_tokens: what to compute in this step; hit_tokens,
      full_hit_tokens, miss (`Miss`): of a match; row: in tables; flags (`Result`); group: the one
      that lacks pages
    - `bool(step)`: False if no entry was admitted. There is no step then, and nothing to commit.

    Serialized on its cache. After the end of a step its methods raise `NOT_FOUND`.
    """

    __slots__ = ("__weakref__", "_all", "_cache", "_open", "_value", "results")

    def __init__(self, cache: Cache, value: CData, results: Array) -> None:
        self._cache = cache
        self._value = value
        self.results = results
        self._open = value.id != 0
        count = len(results)
        self._all = count == 0 or results["row"].item(-1) == count - 1  # rows count the admitted entries

    @property
    def id(self) -> int:
        """Counts up from 1 in each cache; 0 = there is no step."""
        return int(self._value.id)

    def __bool__(self) -> bool:
        return bool(self._value.id)

    def __repr__(self) -> str:
        state = "in flight" if self._open else "ended" if self._value.id else "nothing admitted"
        return f"<quire.Step {self._value.id}: {state}>"

    @property
    def rows(self) -> Array:
        """The results of the admitted entries: those of row 0, 1, ..."""
        results = self.results
        if self._all:
            return results
        admitted: Array = results[results["code"] == 0]
        return admitted

    @property
    def refused(self) -> Array:
        """The results of the entries that were not admitted."""
        refused: Array = self.results[self.results["code"] != 0]
        return refused

    def check(self) -> Step:
        """Raises an Error for the first refused entry, with its code; returns the step if there is
        none.
        """
        if not self._all:
            first = self.refused[0]
            reason = Refusal(int(first["reason"]))
            missing = f"; {first['missing_pages']} pages are missing in group {first['group']}" if first["missing_pages"] else ""
            said = f"sequence {int(first['sequence']):#x} was refused ({reason.name}): {refusal_text(reason)}{missing}"
            raise Error(int(first["code"]), said)
        return self

    def _in_flight(self) -> CData:
        if self._cache._handle is None:
            raise Error(Code.FAILED_PRECONDITION, "the cache of this step is closed")
        if not self._open:
            raise Error(Code.NOT_FOUND, "this step has ended" if self._value.id else "there is no step: no entry was admitted")
        return self._value[0]

    @property
    def info(self) -> StepInfo:
        """Numbers of rows, tokens, copies and zeroes."""
        info = struct("quire_step_info")
        with self._cache._serial:
            call(lib.quire_step_get_info, self._in_flight(), info)
        return StepInfo(info)

    def commit(self, symbols: Union[Array, Any, None] = None, *, accepted: Optional[Array] = None,
               counts: Optional[Array] = None) -> None:
        """Accepts the results of all rows: complete blocks can be found by others from now on.
        Steps commit in order.

        - symbols: uint32, what follows the accepted tokens: one of each row, in the order of the
          rows; None = none is known
        - counts: [rows], how many of `symbols` each row has, consecutively, instead of one
        - accepted: [rows], tokens of each row that are accepted, the rest is rolled back; None =
          all

        The first symbol of a row stands after its accepted tokens. `commit_rows` is for engines
        that give others. After an error the step is still in flight. Errors: INVALID_ARGUMENT,
        NOT_FOUND, FAILED_PRECONDITION (not the oldest step).
        """
        got = self.rows
        rows: Array = np.empty(len(got), OUTCOME)
        rows["sequence"] = got["sequence"]
        rows["num_accepted"] = got["num_tokens"] if accepted is None else accepted
        position = rows["symbols_position"]
        position[:] = rows["num_accepted"]  # in two moves: no types are mixed, which takes NumPy twice as long
        position += got["position"]
        if counts is not None:
            rows["num_symbols"] = counts
            rows["symbols_offset"] = np.cumsum(rows["num_symbols"]) - rows["num_symbols"]
        elif symbols is None:
            rows["num_symbols"] = 0
            rows["symbols_offset"] = 0
        else:
            if len(symbols) != len(rows):
                raise Error(Code.INVALID_ARGUMENT, f"symbols: {len(symbols)} given for {len(rows)} rows; `counts` says how many each has")
            rows["num_symbols"] = 1
            rows["symbols_offset"] = _numbers(len(rows))
        self.commit_rows(rows, symbols)

    def commit_rows(self, rows: Array, symbols: Union[Array, Any, None] = None) -> None:
        """`commit` with everything said: an array of `outcomes`, one per admitted row in row order,
        and the symbols that they refer to.
        """
        if not isinstance(rows, np.ndarray) or rows.dtype != OUTCOME:
            raise TypeError("rows must be an array of quire.outcomes(n)")
        data, count = (NULL, 0) if symbols is None else symbols_of(symbols)
        lock = self._cache._serial.lock
        if not lock.acquire(False):
            raise overlapping("cache")
        try:
            error = error_struct()
            code = _commit(self._in_flight(), _from_buffer(_OUTCOMES, rows), len(rows), data, count, error)
            if code:
                fail(code, error)
            self._open = False
        finally:
            lock.release()

    def abort(self, *, launched: bool = True) -> None:
        """Undoes the step and all later ones; what they reserved is free again.

        - launched=False: none of its kernels has run or will run; states that are written in place
          are then undone exactly

        Kernels that were launched must be done, or be ordered before all later work on the same
        stream.
        """
        with self._cache._serial:
            call(lib.quire_abort, self._in_flight(), 0 if launched else 1)
            self._open = False

    def __enter__(self) -> Step:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if not self._open:
            return
        if kind is None:
            try:
                self.commit()
            except BaseException:
                self._abort_quietly()
                raise
        else:
            self._abort_quietly()

    def _abort_quietly(self) -> None:  # what was raised before says more
        try:
            self.abort()
        except Error:
            pass

    def fill(self, kind: FillKind, out: Array, *, group: int = 0, shard: int = 0, first_column: int = 0, num_columns: int = 0,
             pitch: int = 0, column_pitch: int = 0, fill_value: int = 0, num_rows: int = 0, num_tokens: int = 0) -> int:
        """Writes one array of the step into `out`, for engines whose kernels want others than
        `Batch` has. Returns elements needed.

        - out: int32, or int64 for SLOTS; C-contiguous
        - pitch, column_pitch: elements from row to row and from column to column
        - fill_value: tables: value after the end of a row
        - num_rows, num_tokens: a fixed shape, as captured graphs need it; 0 = the step's

        Errors: OUT_OF_RANGE (out is too small; nothing is written).
        """
        wanted = np.int64 if kind == FillKind.SLOTS else np.int32
        if not isinstance(out, np.ndarray) or out.dtype != wanted:
            raise TypeError(f"out must be an array of {np.dtype(wanted)} for {FillKind(kind).name}")
        what = struct("quire_fill")
        what.kind = kind
        what.destination = memory = _from_buffer(out, require_writable=True)
        what.capacity = out.size
        what.fill_value = fill_value
        for name, value in (("group", group), ("shard", shard), ("first_column", first_column), ("num_columns", num_columns),
                            ("pitch", pitch), ("column_pitch", column_pitch), ("num_rows", num_rows), ("num_tokens", num_tokens)):
            setattr(what, name, count_of(name, value, 64 if "pitch" in name else 32))
        written = ffi.new("uint64_t *")
        with self._cache._serial:
            call(lib.quire_step_fill, self._in_flight(), what, ffi.sizeof("quire_fill"), 1, written)
        del memory
        return int(written[0])

    def _list(self, function: Any, kind: str, dtype: Any) -> Array:
        count = ffi.new("uint64_t *")
        with self._cache._serial:
            step = self._in_flight()
            function(step, NULL, 0, count, NULL)
            found: Array = np.zeros(count[0], dtype)
            call(function, step, _from_buffer(kind + "[]", found), len(found), count)
        return found

    def copies(self) -> Array:
        """Copies from id to id that the step's kernels need; `Memory.prepare` does them. Fields:
        group, column, source, destination, ...
        """
        return self._list(lib.quire_step_list_copies, "quire_copy", COPY)

    def zeroes(self) -> Array:
        """Pages and ids that are to be zero; `Memory.prepare` does it. Fields: group (2^32 - 1: id
        is a page), column, id.
        """
        return self._list(lib.quire_step_list_zeroes, "quire_zero", ZERO)

    def export(self) -> bytes:
        """The step as bytes for a follower in another process. This package has no
        followers: import the bytes with `quire_follower_import` of the C API.
        """
        size = ffi.new("uint64_t *")
        with self._cache._serial:
            step = self._in_flight()
            lib.quire_step_export(step, NULL, 0, size, NULL)
            made = ffi.new("uint8_t[]", size[0])
            call(lib.quire_step_export, step, made, size[0], size)
        return bytes(ffi.buffer(made))


_counted: Array = np.arange(256, dtype=np.uint64)


def _numbers(count: int) -> Array:
    """0, 1, ..., made once."""
    global _counted
    if count > len(_counted):
        _counted = np.arange(2 * count, dtype=np.uint64)
    return _counted[:count]


__all__ = ["Step", "entries", "outcomes", "refusal_text"]
