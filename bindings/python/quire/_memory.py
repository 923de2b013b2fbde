"""The bytes of a plan: memories, tensors, and the arrays that kernels read."""
from __future__ import annotations

from typing import Any, Iterator, Optional, Sequence

import numpy as np

from ._config import Config
from ._core import Array, CData, DType, Error, Owned, call, count_of, error_struct, fail, ffi, get_dtype, lib, overlapping, struct
from ._device import Device, Stream
from ._dlpack import Taker, capsule_of, lend
from ._numbers import Code, DeviceType
from ._step import Step

_AS_BYTES, _READ_ONLY, _LEGACY = 2, 1, 4
_KINDS = {"layer": 0, "id": 1, "page": 2, "lowered": 3}


class _Span:
    """What NumPy asks for a view: it keeps the owner of the bytes."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Any, address: int, dtype: Any, shape: Sequence[int], strides: Sequence[int], read_only: bool) -> None:
        self.owner = owner
        self.__array_interface__ = {"data": (address, read_only), "typestr": dtype.str, "shape": tuple(shape), "strides": tuple(strides),
                                    "version": 3}


class Tensor:
    """A strided view of bytes of the library. It keeps them: it is valid after their `Memory` was
    closed.

        keys = memory.tensor(0)                        # layer 0, on all pages
        keys.numpy()[page, block, token, head] = ...   # the same bytes, not a copy
        torch.from_dlpack(keys)                        # or keys.torch()

    - shape: elements; strides: bytes; dtype: `DType`; address: of element [0, 0, ...]
    - device: (`DeviceType`, number)
    """

    __slots__ = ("__weakref__", "_export", "_owner", "_read_only", "_struct")

    def __init__(self, owner: CData, tensor: CData, export: Optional[CData], read_only: bool) -> None:
        self._owner = owner  # a handle of the library
        self._struct = tensor
        self._export = export
        self._read_only = bool(read_only)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._struct.shape[0:self._struct.ndim])

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(self._struct.stride[0:self._struct.ndim])

    @property
    def dtype(self) -> DType:
        return get_dtype(self._struct.dtype)

    @property
    def address(self) -> int:
        return int(ffi.cast("uintptr_t", self._struct.data))

    @property
    def device(self) -> tuple[DeviceType, int]:
        return DeviceType(self._struct.device_type or 1), int(self._struct.device_id)

    @property
    def read_only(self) -> bool:
        """Whether consumers must not write."""
        return self._read_only

    def __repr__(self) -> str:
        return f"<quire.Tensor {list(self.shape)} {self.dtype} on {self.device[0].name.lower()} {self.device[1]}>"

    def numpy(self) -> Array:
        """The same bytes as an array of NumPy, which keeps them.

        Errors: a TypeError for types that NumPy lacks (bf16, fp8: use `torch()`, or a tensor
        `as_bytes`) and for memory of a GPU.
        """
        dtype = self.dtype
        if dtype.numpy is None:
            raise TypeError(f"NumPy has no {dtype}: use torch(), or a tensor of kind='lowered' with as_bytes=True")
        if self.device[0] not in (DeviceType.CPU, DeviceType.CUDA_HOST, DeviceType.ROCM_HOST):
            raise TypeError(f"NumPy does not reach memory on {self.device[0].name}: use torch()")
        return np.asarray(_Span(self._owner, self.address, dtype.numpy, self.shape, self.strides, self._read_only))

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Array:
        made = self.numpy()
        if dtype is not None and np.dtype(dtype) != made.dtype:
            if copy is False:
                raise ValueError(f"a tensor of {made.dtype} becomes {np.dtype(dtype)} by a copy only")
            return made.astype(dtype)
        return made.copy() if copy else made

    def torch(self) -> Any:
        """The same bytes as a tensor of PyTorch, which keeps them; bf16 and fp8 included. Needs
        torch.
        """
        import torch

        dtype = self.dtype
        if dtype.code in (10, 12, 14):  # DLPack before 1.1 has no such types: bytes, looked at as such
            kind = getattr(torch, str(dtype), None)
            if kind is None:
                raise TypeError(f"torch {torch.__version__} has no {dtype}")
            as_bytes = ffi.new("quire_tensor *", self._struct[0])
            as_bytes.dtype.code, as_bytes.dtype.bits = 1, 8
            return Tensor(self._owner, as_bytes, None, self._read_only).torch().view(kind)
        if self._export is None and self.device[0] == DeviceType.CPU and dtype.numpy is not None:
            return torch.from_numpy(self.numpy())  # versions that know DLPack 0.x only can do this
        return torch.from_dlpack(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self.device
        return int(kind), number

    def __dlpack__(self, *, stream: Any = None, max_version: Optional[tuple[int, int]] = None, dl_device: Optional[tuple[int, int]] = None,
                   copy: Optional[bool] = None) -> Any:
        """A capsule of DLPack, of 1.x if max_version says that the consumer knows it. Never a copy.

        Work that is queued on a quire `Stream` must be done, or ordered before that of the
        consumer's `stream`.
        """
        if copy:
            raise BufferError("a quire tensor is a view: copy it in the consumer")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the tensor is on device {self.__dlpack_device__()}, not {tuple(dl_device)}")
        versioned = max_version is not None and max_version[0] >= 1
        if self._export is None:
            if not versioned:
                raise BufferError("this tensor needs a consumer of DLPack 1.0")
            size = self.dtype.itemsize
            kind, number = self.device
            return capsule_of(lend(self._owner, self.address, self.dtype, self.shape, [s // size for s in self.strides], kind, number,
                                   self._read_only), True)
        what = ffi.new("quire_export *", self._export[0])
        what.flags |= (0 if versioned else _LEGACY) | (_READ_ONLY if self._read_only else 0)
        out = ffi.new("quire_dlpack *")
        try:
            call(lib.quire_memory_export, self._owner, what, out)
        except Error as error:
            raise BufferError(str(error)) from error
        return capsule_of(out.versioned if versioned else out.legacy, versioned)


def _described(owner: CData, what: CData) -> CData:
    """The tensor of an export; its read-only flag is not the library's to ask for here."""
    asked = ffi.new("quire_export *", what[0])
    asked.flags &= _AS_BYTES
    tensor = ffi.new("quire_tensor *")
    call(lib.quire_memory_get_tensor, owner, asked, tensor)
    return tensor


class PagedKV:
    """The token cache of a layer, for ops of a `Stream`. It keeps its memory."""

    __slots__ = ("_owner", "_struct")

    def __init__(self, paged: CData, owner: CData) -> None:
        self._struct = paged
        self._owner = owner


class PagedState:
    """A state tensor of a layer, for ops of a `Stream`. It keeps its memory."""

    __slots__ = ("_owner", "_struct")

    def __init__(self, paged: CData, owner: CData) -> None:
        self._struct = paged
        self._owner = owner


class Memory(Owned):
    """The pages of one shard of a plan on one device.

        memory = Memory(device, config)
        memory = Memory.bind(device, config, [tensor])     # bytes of yours, of NumPy or torch

    Any thread, except for `prepare` and `poison`. Errors: OUT_OF_RANGE (shard), RESOURCE_EXHAUSTED
    (names requested and free bytes).
    """

    def __init__(self, device: Device, config: Config, shard: int = 0) -> None:
        self._handle = None
        out = ffi.new("quire_memory **")
        call(lib.quire_memory_create, device._pointer, config._pointer, count_of("shard", shard, 32), out)
        self._own(out[0], lib.quire_memory_release)

    @classmethod
    def bind(cls, device: Device, config: Config, tensors: Sequence[Any], shard: int = 0) -> Memory:
        """Uses your own bytes: one dense tensor with __dlpack__ (NumPy, torch, ...) per region of
        `Config.regions`, in their order.

        The memory keeps the tensors. Errors: INVALID_ARGUMENT (too small, misaligned, not dense,
        read-only, another device).
        """
        given = Taker(tensors)
        out = ffi.new("quire_memory **")
        try:
            call(lib.quire_memory_bind_dlpack, device._pointer, config._pointer, shard, given.structs, len(tensors), out)
        except BaseException:
            given.refused()
            raise
        given.took()
        memory = cls.__new__(cls)
        memory._own(out[0], lib.quire_memory_release)
        return memory

    def region(self, region: int = 0) -> tuple[int, int]:
        """Address and bytes of a region."""
        address, size = ffi.new("void **"), ffi.new("uint64_t *")
        call(lib.quire_memory_get_region, self._pointer, count_of("region", region, 32), address, size)
        return int(ffi.cast("uintptr_t", address[0])), int(size[0])

    def tensor(self, layer: int = 0, sub: int = 0, *, kind: str = "layer", item: int = 0, id: int = 0, page: int = 0, region: int = 0,
               as_bytes: bool = False, read_only: bool = False) -> Tensor:
        """A view of a layer's bytes, or of a page. Nothing is copied.

        - kind "layer": a field on all pages: [pages, blocks per page, tokens, heads, items]; of a
          state: [pages, parts, its shape]
        - kind "lowered": by lowered id, as tables and slots have them: [lowered ids, tokens, heads,
          items]; of a state: [ids, its shape]
        - kind "id": of one id; kind "page": the bytes of page `page` in `region`, uint8 [planes,
          bytes]
        - item: index in `Config.fields`: 0 = keys, 1 = values of a plain cache. States: index of
          the tensor
        - as_bytes: items become a last axis of uint8, which makes one dimension more; read_only:
          consumers must not write

        Errors: NOT_FOUND (layer), OUT_OF_RANGE (item, id, page, region), NOT_REPRESENTABLE (more
        than 5 dimensions).
        """
        if kind not in _KINDS:
            raise Error(Code.INVALID_ARGUMENT, f"kind {kind!r} is none of {', '.join(_KINDS)}")
        what = struct("quire_export")
        what.kind = _KINDS[kind]
        what.flags = _AS_BYTES if as_bytes else 0
        what.id = id
        for name, value in (("layer", layer), ("sub", sub), ("item", item), ("page", page), ("region", region)):
            setattr(what, name, count_of(name, value, 64 if name == "page" else 32))
        owner = self._pointer
        return Tensor(owner, _described(owner, what), what, read_only)

    def prepare(self, step: Step, stream: Stream) -> None:
        """Queues the copies and zeroes of a step: after the reserve, before its kernels. Serialized
        on step and stream.
        """
        owner = self._pointer
        with step._cache._serial, stream._serial:
            call(lib.quire_memory_prepare_step, owner, step._in_flight(), stream._pointer)
            stream._keep(owner)

    def poison(self, stream: Stream, byte: int = 0xff) -> None:
        """Sets every byte of all pages, for tests."""
        owner = self._pointer
        with stream._serial:
            call(lib.quire_memory_poison, owner, stream._pointer, count_of("byte", byte, 8))
            stream._keep(owner)

    def paged_kv(self, layer: int = 0, sub: int = 0) -> PagedKV:
        """The token cache of a layer for `Stream.kv_append` and `Stream.attention`."""
        made = ffi.new("quire_paged_kv *")
        owner = self._pointer
        call(lib.quire_memory_get_paged_kv, owner, count_of("layer", layer, 32), count_of("sub", sub, 32), made)
        return PagedKV(made, owner)

    def paged_state(self, layer: int = 0, sub: int = 0, tensor: int = 0) -> PagedState:
        """A state tensor of a layer for `Stream.gated_delta`, `conv1d` and `selective_scan`."""
        made = ffi.new("quire_paged_state *")
        owner = self._pointer
        numbers = [count_of(name, value, 32) for name, value in (("layer", layer), ("sub", sub), ("tensor", tensor))]
        call(lib.quire_memory_get_paged_state, owner, *numbers, made)
        return PagedState(made, owner)


class GroupBatch:
    """What kernels read of a step for one group of the plan: views of the memory of a `Batch`,
    valid until its next `fill`.

    Positions and lengths are tokens; ids are lowered. An array that the group lacks is None.
    """

    __slots__ = ("_batch", "_struct")

    def __init__(self, batch: Batch, group: CData) -> None:
        self._batch = batch
        self._struct = group

    def _view(self, pointer: CData, shape: tuple[int, ...], dtype: Any, strides: Optional[tuple[int, ...]] = None) -> Array:
        if not pointer:
            raise Error(Code.FAILED_PRECONDITION, "this batch was not filled yet")
        batch = self._batch
        return _array(shape, dtype, batch._memory, int(_cast(_ADDRESS, pointer)) - batch._base, strides)

    @property
    def group(self) -> int:
        """Number of the group."""
        return int(self._struct.group)

    @property
    def num_rows(self) -> int:
        """Sequences of the step, or of the fixed shape."""
        return int(self._struct.num_rows)

    @property
    def num_tokens(self) -> int:
        """Query tokens of all rows."""
        return int(self._struct.num_tokens)

    @property
    def num_columns(self) -> int:
        """Ids that one block has; `Config.place` says which column a layer reads."""
        return int(self._struct.num_columns)

    @property
    def query_indptr(self) -> Array:
        """int32 [rows + 1]: offsets of the rows' query tokens."""
        return self._view(self._struct.query_indptr, (self._struct.num_rows + 1,), _INT32)

    @property
    def kv_len(self) -> Array:
        """int32 [rows]: tokens of the sequence after the step."""
        return self._view(self._struct.kv_len, (self._struct.num_rows,), _INT32)

    @property
    def positions(self) -> Array:
        """int32 [tokens]: position of each query token in its sequence."""
        return self._view(self._struct.positions, (self._struct.num_tokens,), _INT32)

    @property
    def table(self) -> Optional[Array]:
        """int32 [columns, rows, pitch]: lowered ids of the blocks of each row. None for states."""
        of = self._struct
        if not of.table:
            return None
        shape = (of.num_columns, of.num_rows, of.table_pitch)
        return self._view(of.table, shape, _INT32, (4 * of.table_column_pitch, 4 * of.table_pitch, 4))

    @property
    def slots(self) -> Optional[Array]:
        """int64 [columns, slots]: lowered id * kernel_block_tokens + token in it, of each token to
        be written; negative = skip.
        """
        of = self._struct
        if not of.slots:
            return None
        return self._view(of.slots, (of.num_columns, of.num_slots), _INT64, (8 * of.slots_column_pitch, 8))

    @property
    def state_read(self) -> Optional[Array]:
        """int32 [columns, rows]: lowered ids of the states to read; negative = zero. None for
        tokens.
        """
        of = self._struct
        if not of.state_read:
            return None
        return self._view(of.state_read, (of.num_columns, of.num_rows), _INT32, (4 * of.state_read_column_pitch, 4))

    @property
    def state_write(self) -> Optional[Array]:
        """int32 [columns, writes]: lowered ids of the states to write; negative = not kept. One per
        row, or see state_write_indptr.
        """
        of = self._struct
        if not of.state_write:
            return None
        count = of.num_rows if not of.state_write_indptr else of.state_write_indptr[of.num_rows]
        return self._view(of.state_write, (of.num_columns, count), _INT32, (4 * of.state_write_column_pitch, 4))

    @property
    def state_write_indptr(self) -> Optional[Array]:
        """int32 [rows + 1]: which of state_write belong to which row. None = one per row."""
        of = self._struct
        return None if not of.state_write_indptr else self._view(of.state_write_indptr, (of.num_rows + 1,), _INT32)

    @property
    def state_write_ends(self) -> Optional[Array]:
        """int32 [writes]: tokens of the sequence after which each state is taken. None = at the end
        of the row.
        """
        of = self._struct
        if not of.state_write_ends:
            return None
        return self._view(of.state_write_ends, (of.state_write_indptr[of.num_rows],), _INT32)


class Batch:
    """The arrays of one step that kernels read, of all groups, in one block of host memory. Make
    one and fill it for every step.

        batch = quire.Batch(config)
        for group in batch.fill(step): group.table, group.slots, ...

    - shard: whose lowered ids
    - num_rows, num_tokens: a fixed shape, padded; with max_pitch every step has its arrays at the
      same places, as captured graphs need

    The memory grows until the largest step fits. Fill it again only when the kernels of its last
    step are done, or use one for each step in flight.
    """

    def __init__(self, config: Config, shard: int = 0, *, num_rows: int = 0, num_tokens: int = 0, max_pitch: bool = False) -> None:
        self._groups = ffi.new("quire_batch[]", config.info.num_groups)
        self._count = len(self._groups)
        for group in self._groups:
            group.struct_size = ffi.sizeof("quire_batch")
        self._options = struct("quire_batch_options")
        self._options.shard = count_of("shard", shard, 32)
        self._options.num_rows = count_of("num_rows", num_rows, 32)
        self._options.num_tokens = count_of("num_tokens", num_tokens, 32)
        self._options.flags = 1 if max_pitch else 0
        self._needed = ffi.new("uint64_t *")
        self._allocate(4096)

    def _allocate(self, size: int) -> None:
        whole: Array = np.zeros(size + 15, np.uint8)
        start = -whole.__array_interface__["data"][0] % 16
        self._memory = whole[start:start + size]
        self._pointer = ffi.from_buffer(self._memory)  # arrays of earlier steps keep their own memory
        self._base = int(ffi.cast("uintptr_t", self._pointer))
        self._options.memory = self._pointer
        self._options.bytes = size

    def fill(self, step: Step) -> list[GroupBatch]:
        """Writes the arrays of a step in flight. Returns the groups, in the order of the plan."""
        lock = step._cache._serial.lock
        if not lock.acquire(False):
            raise overlapping("cache")
        try:
            error = error_struct()
            value = step._in_flight()
            code = _get_batch(value, self._options, self._groups, _BATCH_BYTES, self._count, self._needed, error)
            if code and self._needed[0] > self._options.bytes:
                self._allocate((2 * self._needed[0] + 15) // 16 * 16)
                code = _get_batch(value, self._options, self._groups, _BATCH_BYTES, self._count, self._needed, error)
            if code:
                fail(code, error)
        finally:
            lock.release()
        return self.groups

    @property
    def groups(self) -> list[GroupBatch]:
        """What the last `fill` wrote, in the order of the plan's groups."""
        return [GroupBatch(self, self._groups + i) for i in range(self._count)]

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, group: int) -> GroupBatch:
        return self.groups[group]

    def __iter__(self) -> Iterator[GroupBatch]:
        return iter(self.groups)

    @property
    def memory(self) -> Array:
        """The block of bytes that all arrays are in, uint8: what is copied to a device."""
        return self._memory[:self._needed[0]]


_get_batch = lib.quire_step_get_batch
_array = np.ndarray
_cast = ffi.cast
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)
_ADDRESS = ffi.typeof("uintptr_t")
_BATCH_BYTES = ffi.sizeof("quire_batch")

__all__ = ["Batch", "GroupBatch", "Memory", "PagedKV", "PagedState", "Tensor"]
