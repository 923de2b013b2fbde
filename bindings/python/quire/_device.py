"""Runtimes, devices and streams with their ops."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence

import numpy as np

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
    set_dtype,
    set_fields,
    str_of,
    struct,
)
from ._infos import DeviceInfo, ProbeInfo
from ._model import Layer
from ._numbers import ABI_VERSION, Code, LogLevel, RuntimeFlag

if TYPE_CHECKING:
    from ._memory import GroupBatch, PagedKV, PagedState, Tensor

_receivers: dict[int, Callable[[LogLevel, str, str], None]] = {}


@ffi.callback("quire_log_fn")
def _log(user: CData, level: int, component: CData, message: CData) -> None:
    _receivers[int(ffi.cast("uintptr_t", user))](LogLevel(level), str_of(component), str_of(message))


class Runtime(Owned):
    """How modules (drivers and connectors) are found and loaded. Any thread.

    - driver: a name ("cpu", "cuda"), names in order ("cuda,cpu"), "auto", "none", "^name", a path;
      "" = QUIRE_DRIVER, then "auto"
    - driver_path, connector_path: absolute folders, separated by colons, that are searched first;
      "" = QUIRE_DRIVER_PATH, ...
    - num_threads, cpus ("0-3,8"): of the CPU driver
    - log(level, component, message): receives every line of log_level and above, from any thread;
      it must not call quire. It is kept as long as the process. None = no output, unless QUIRE_LOG
      asks for it
    - flags: `RuntimeFlag`

    Errors: INVALID_ARGUMENT, for example QUIRE_DRIVER is no name.
    """

    def __init__(self, *, driver: str = "", driver_path: str = "", connector_path: str = "", num_threads: int = 0, cpus: str = "",
                 log: Optional[Callable[[LogLevel, str, str], None]] = None, log_level: LogLevel = LogLevel.INFO,
                 flags: RuntimeFlag = RuntimeFlag(0)) -> None:
        self._handle = None
        options, kept = struct("quire_runtime_options"), Kept()
        set_fields(options, kept, dict(driver=driver, driver_path=driver_path, connector_path=connector_path, num_threads=num_threads,
                                       cpus=cpus, flags=flags))
        options.header_abi = ABI_VERSION
        if log is not None:
            _receivers[id(log)] = log
            options.log = _log
            options.log_user = ffi.cast("void *", id(log))
            options.log_level = log_level
        out = ffi.new("quire_runtime **")
        call(lib.quire_runtime_create, options, out)
        self._own(out[0], lib.quire_runtime_release)

    def probe(self) -> list[ProbeInfo]:
        """Tries every module that can be found: which are usable, and why others are not. Blocks
        while they are loaded.
        """
        count, size = ffi.new("uint64_t *"), ffi.sizeof("quire_probe_info")
        items = ffi.new("quire_probe_info[]", 64)
        for item in items:
            item.struct_size = size
        error = error_struct()
        code = lib.quire_runtime_probe(self._pointer, items, size, 64, count, error)
        if code:
            fail(code, error)
        return [ProbeInfo(items[i]) for i in range(count[0])]


class Device(Owned):
    """A device of the driver that a runtime selects. Any thread; opening it loads the driver.

        device = Device()                       # the driver that QUIRE_DRIVER names, or "auto"
        device = Device(Runtime(driver="cpu"))

    Errors: UNAVAILABLE (no driver: the message lists why), NOT_FOUND (unknown name), OUT_OF_RANGE
    (ordinal).
    """

    def __init__(self, runtime: Optional[Runtime] = None, ordinal: int = 0) -> None:
        self._handle = None
        out = ffi.new("quire_device **")
        call(lib.quire_device_open, (runtime or Runtime())._pointer, count_of("ordinal", ordinal, 32), out)
        self._own(out[0], lib.quire_device_release)

    @property
    def info(self) -> DeviceInfo:
        """Name, driver and memory."""
        info = struct("quire_device_info")
        call(lib.quire_device_get_info, self._pointer, info)
        return DeviceInfo(info)

    def empty(self, shape: Sequence[int], dtype: Any) -> Tensor:
        """A dense tensor in memory of the device."""
        from ._memory import Tensor
        tensor = ffi.new("quire_tensor *")
        set_dtype(tensor.dtype, dtype)
        _set_shape(tensor, shape)
        out = ffi.new("quire_buffer **")
        call(lib.quire_buffer_create, self._pointer, tensor, out)
        return Tensor(ffi.gc(out[0], lib.quire_buffer_release), tensor, None, False)

    def take(self, tensor: Any, *, read_only: bool = False, any_dtype: bool = False) -> Tensor:
        """Your tensor (with __dlpack__: NumPy, torch, ...) as one for ops, without a copy. It is
        kept as long as the result.

        - read_only: ops only read it; then tensors that are read-only or broadcast are accepted,
          too
        - any_dtype: types that quire has no name for are taken as elements of their size

        Errors: PERMISSION_DENIED (read-only), INVALID_ARGUMENT (another device, negative strides,
        dtype), OUT_OF_RANGE (dimensions).
        """
        from ._dlpack import Taker
        from ._memory import Tensor
        given = Taker([tensor])
        made, out = ffi.new("quire_tensor *"), ffi.new("quire_buffer **")
        try:
            call(lib.quire_buffer_import, self._pointer, given.structs, (1 if read_only else 0) | (2 if any_dtype else 0), made, out)
        except BaseException:
            given.refused()
            raise
        given.took()
        return Tensor(ffi.gc(out[0], lib.quire_buffer_release), made, None, read_only)


def _set_shape(tensor: CData, shape: Sequence[int]) -> None:
    if len(shape) > 5:
        raise Error(Code.OUT_OF_RANGE, f"a tensor has at most 5 dimensions, not {len(shape)}")
    tensor.ndim = len(shape)
    for i, extent in enumerate(shape):
        tensor.shape[i] = extent


def _put(to: CData, name: str, tensor: Any, keep: list[Any], written: bool = False) -> None:
    """Describes a tensor of the caller's as quire_tensor. Ops check shapes and types."""
    from ._dlpack import foreign
    from ._memory import Tensor
    if tensor is None:
        return
    if isinstance(tensor, Tensor):
        if written and tensor.read_only:
            raise Error(Code.PERMISSION_DENIED, f"{name} is read-only")
        ffi.memmove(to, tensor._struct, ffi.sizeof("quire_tensor"))
        keep.append(tensor._owner)
    elif isinstance(tensor, np.ndarray):
        interface = tensor.__array_interface__
        if written and interface["data"][1]:
            raise Error(Code.PERMISSION_DENIED, f"{name} is read-only")
        set_dtype(to.dtype, tensor.dtype)
        _set_shape(to, tensor.shape)
        for i, stride in enumerate(tensor.strides):
            to.stride[i] = stride
        to.data = ffi.cast("void *", interface["data"][0])
        keep.append(tensor)
    elif hasattr(tensor, "__dlpack__"):
        capsule, managed, versioned = foreign(tensor)
        if written and versioned and managed.flags & 1:
            raise Error(Code.PERMISSION_DENIED, f"{name} is read-only")
        view = managed.dl_tensor
        to.dtype = view.dtype
        _set_shape(to, [view.shape[i] for i in range(view.ndim)])
        size, step = max(view.dtype.bits // 8, 1), 1
        for i in reversed(range(view.ndim)):
            to.stride[i] = (step if view.strides == NULL else view.strides[i]) * size
            step *= view.shape[i]
        to.device_type, to.device_id = view.device_type, view.device_id
        to.data = ffi.cast("char *", view.data) + view.byte_offset
        keep.append((tensor, capsule))
    else:
        raise TypeError(f"{name} must be an array of NumPy, a quire.Tensor or have __dlpack__, not {type(tensor).__name__}")


def _floats(name: str, values: Any, keep: list[Any], dtype: Any = np.float32) -> CData:
    """A pointer to dense numbers of host memory."""
    if values is None:
        return NULL
    if not isinstance(values, np.ndarray) or values.dtype != dtype or not values.flags.c_contiguous:
        raise TypeError(f"{name} must be a contiguous array of {np.dtype(dtype)}")
    kept = ffi.from_buffer({"f": "float[]", "u": "uint8_t[]", "i": "int64_t[]"}[np.dtype(dtype).kind], values)
    keep.append(kept)
    return kept


class Stream(Owned):
    """An in-order queue of a device, and the ops of its driver. One call at a time.

        stream = Stream(device)
        stream.kv_append(memory.paged_kv(layer), group, key, value)
        stream.attention(memory.paged_kv(layer), group, query, out, layer=model.layers()[layer])
        stream.synchronize()

    - native: an existing queue (CUstream, hipStream_t) as a number, which is not owned; 0 = a new
      one

    Tensors of ops are arrays of NumPy, tensors of quire, or have __dlpack__ (torch). They are kept
    until `synchronize`; until then leave their bytes alone. Argument errors are raised at once,
    before any byte is written: INVALID_ARGUMENT, OUT_OF_RANGE, and UNIMPLEMENTED where the driver
    lacks a combination, which is named.
    """

    def __init__(self, device: Device, native: int = 0) -> None:
        self._handle = None
        out = ffi.new("quire_stream **")
        call(lib.quire_stream_create, device._pointer, count_of("native", native), out)
        queued: list[Any] = []
        self._queued = queued

        def release(stream: CData) -> None:
            lib.quire_stream_release(stream)  # waits for what is queued
            queued.clear()

        self._own(out[0], release)
        self._serial = Serial("stream")

    def _keep(self, *objects: Any) -> None:
        self._queued.extend(objects)

    def close(self) -> None:
        """Waits for queued work and gives the stream up."""
        with self._serial:
            self._handle = None

    def synchronize(self, timeout_ns: int = -1) -> None:
        """Waits until all queued work is done; -1 = forever, 0 = only asks.

        Errors: DEADLINE_EXCEEDED, NOT_READY (0), and the first failure of queued work.
        """
        with self._serial:
            call(lib.quire_stream_synchronize, self._pointer, timeout_ns)
            self._queued.clear()

    def _run(self, function: Any, op: CData, keep: list[Any]) -> None:
        with self._serial:
            call(function, self._pointer, op)
            self._queued.extend(keep)

    def kv_append(self, kv: PagedKV, group: GroupBatch, key: Any, value: Any = None, *, rope_cos: Optional[Array] = None,
                  rope_sin: Optional[Array] = None, rope_dim: int = 0, rope_interleaved: bool = False, scale_k: float = 0.0,
                  scale_v: float = 0.0) -> None:
        """Writes new K and V rows into the slots of a batch.

        - key: [slots, kv heads, head_dim_k]; value: [slots, kv heads, head_dim_v]; None with one
          side (MLA)
        - rope_cos, rope_sin: float32 [positions, rope_dim / 2]: rotates the keys
        - scale_k, scale_v: quantised caches store value / scale; 0 = 1
        """
        op, keep = struct("quire_kv_append"), [group._batch._memory, kv._owner]
        op.kv, op.batch = kv._struct[0], group._struct
        _put(ffi.addressof(op, "key"), "key", key, keep)
        _put(ffi.addressof(op, "value"), "value", value, keep)
        op.rope_cos, op.rope_sin = _floats("rope_cos", rope_cos, keep), _floats("rope_sin", rope_sin, keep)
        op.rope_dim, op.rope_interleaved, op.scale_k, op.scale_v = rope_dim, rope_interleaved, scale_k, scale_v
        self._run(lib.quire_op_kv_append, op, keep)

    def attention(self, kv: PagedKV, group: GroupBatch, query: Any, out: Any, *, layer: Optional[Layer] = None, lse: Any = None,
                  causal: Optional[bool] = None, batch_invariant: bool = False, scale: float = 0.0, softcap: Optional[float] = None,
                  window: Optional[int] = None, chunk: Optional[int] = None, sink_tokens: Optional[int] = None,
                  head_dim_v: Optional[int] = None, sink_logits: Optional[Array] = None, alibi_slopes: Optional[Array] = None,
                  mask_bits: Optional[Array] = None, mask_indptr: Optional[Array] = None, scale_k: float = 0.0,
                  scale_v: float = 0.0) -> None:
        """Attention of variable length over a paged cache: prefill, chunks, decode, drafts, cross
        attention.

        - query: [tokens, query heads, head_dim_k]; out: [tokens, query heads, head_dim_v], written
        - lse: float32 [tokens, query heads], written; None = not wanted
        - layer: sets causal, window, chunk, sink_tokens, softcap and head_dim_v, as the model says;
          what is given here wins
        - causal: query i sees keys at positions <= its own; without a layer True
        - scale: of the logits; 0 = 1 / sqrt(head_dim_k)
        - sink_logits, alibi_slopes: float32 [query heads]
        - mask_bits (uint8), mask_indptr (int64 [rows + 1]): a tree mask; a set bit = seen
        - batch_invariant: results do not depend on the other rows
        """
        op, keep = struct("quire_attention"), [group._batch._memory, kv._owner]
        if layer is not None:
            described, held = struct("quire_layer"), Kept()
            layer._write(described, held)
            call(lib.quire_attention_from_layer, described, op)
        elif causal is None:
            op.flags |= 1
        if causal is not None:
            op.flags = (op.flags & ~1) | int(causal)
        op.flags |= 2 if batch_invariant else 0
        op.kv, op.batch = kv._struct[0], group._struct
        _put(ffi.addressof(op, "query"), "query", query, keep)
        _put(ffi.addressof(op, "out"), "out", out, keep, written=True)
        _put(ffi.addressof(op, "lse"), "lse", lse, keep, written=True)
        for name, value in (("softcap", softcap), ("window", window), ("chunk", chunk), ("sink_tokens", sink_tokens),
                            ("head_dim_v", head_dim_v)):
            if value is not None:
                setattr(op, name, value)
        op.scale, op.scale_k, op.scale_v = scale, scale_k, scale_v
        op.sink_logits, op.alibi_slopes = _floats("sink_logits", sink_logits, keep), _floats("alibi_slopes", alibi_slopes, keep)
        op.mask_bits = _floats("mask_bits", mask_bits, keep, np.uint8)
        op.mask_indptr = _floats("mask_indptr", mask_indptr, keep, np.int64)
        self._run(lib.quire_op_attention, op, keep)

    def attention_merge(self, parts: Sequence[Any], lses: Sequence[Any], out: Any, lse: Any = None) -> None:
        """Merges partial results over disjoint keys: parts [tokens, query heads, head_dim_v], lses
        float32 [tokens, query heads].
        """
        if len(parts) != len(lses):
            raise Error(Code.INVALID_ARGUMENT, f"{len(parts)} parts have {len(lses)} lses")
        op = struct("quire_attention_merge")
        keep: list[Any] = []
        op.num_parts = len(parts)
        op.partial_out, op.partial_lse = outs, weights = ffi.new("quire_tensor[]", len(parts)), ffi.new("quire_tensor[]", len(parts))
        for i in range(len(parts)):
            _put(outs + i, f"parts[{i}]", parts[i], keep)
            _put(weights + i, f"lses[{i}]", lses[i], keep)
        _put(ffi.addressof(op, "out"), "out", out, keep, written=True)
        _put(ffi.addressof(op, "lse"), "lse", lse, keep, written=True)
        self._run(lib.quire_op_attention_merge, op, [*keep, outs, weights])

    def gated_delta(self, state: PagedState, group: GroupBatch, query: Any, key: Any, value: Any, gate: Any, beta: Any, out: Any, *,
                    scale: float = 0.0, v_major: bool = True, l2norm: bool = False) -> None:
        """The gated delta rule, token by token: S <- exp(g) S; S <- S + beta k (v - S^T k)^T; o =
        scale S^T q.

        - query, key: [tokens, heads_k, dim_k]; value, out: [tokens, heads_v, dim_v]
        - gate, beta: float32 [tokens, heads_v]; gate of KDA: [tokens, heads_v, dim_k]
        - v_major: the state is [heads_v, dim_v, dim_k], as in layers that come from a config.json
          (tensor 1)
        """
        op = struct("quire_gated_delta")
        op.flags = (1 if v_major else 0) | (2 if l2norm else 0)
        op.scale = scale
        self._state_op(lib.quire_op_gated_delta, op, state, group, dict(query=query, key=key, value=value, gate=gate, beta=beta), out)

    def conv1d(self, state: PagedState, group: GroupBatch, input: Any, weight: Any, out: Any, *, bias: Any = None,
               silu: bool = False) -> None:
        """A short causal convolution. input, out: [tokens, channels]; weight: [channels, width];
        bias: [channels].
        """
        op = struct("quire_conv1d")
        op.flags = 1 if silu else 0
        self._state_op(lib.quire_op_conv1d, op, state, group, dict(input=input, weight=weight, bias=bias), out)

    def selective_scan(self, state: PagedState, group: GroupBatch, x: Any, dt: Any, a: Any, b: Any, c: Any, out: Any, *, skip: Any = None,
                       dt_bias: Any = None, z: Any = None, dt_min: float = 0.0, dt_max: float = 0.0, softplus: bool = False) -> None:
        """Selective state spaces, token by token.

        - x, z, out: [tokens, heads, head_dim]; dt: [tokens, heads]; a: float32 [heads] or [heads,
          state_dim]
        - b, c: [tokens, groups, state_dim]; skip: [heads] or [heads, head_dim]; dt_bias: [heads]
        """
        op = struct("quire_selective_scan")
        op.flags = 1 if softplus else 0
        op.dt_min, op.dt_max = dt_min, dt_max
        self._state_op(lib.quire_op_selective_scan, op, state, group, dict(x=x, dt=dt, a=a, b=b, c=c, skip=skip, dt_bias=dt_bias, z=z), out)

    def _state_op(self, function: Any, op: CData, state: PagedState, group: GroupBatch, read: dict[str, Any], out: Any) -> None:
        keep: list[Any] = [group._batch._memory, state._owner]
        op.state, op.batch = state._struct[0], group._struct
        for name, tensor in read.items():
            _put(ffi.addressof(op, name), name, tensor, keep)
        _put(ffi.addressof(op, "out"), "out", out, keep, written=True)
        self._run(function, op, keep)

    def copy(self, source: Any, destination: Any) -> None:
        """Queues a copy of the bytes of one dense tensor to another of the same size."""
        keep: list[Any] = []
        run, sizes = ffi.new("quire_copy_run *"), []
        for name, tensor, field in (("source", source, "source"), ("destination", destination, "destination")):
            described = ffi.new("quire_tensor *")
            _put(described, name, tensor, keep, written=name == "destination")
            sizes.append(_dense_bytes(name, described))
            setattr(run, field, int(ffi.cast("uintptr_t", described.data)))
        if sizes[0] != sizes[1]:
            raise Error(Code.INVALID_ARGUMENT, f"source has {sizes[0]} bytes, destination {sizes[1]}")
        run.bytes = sizes[0]
        with self._serial:
            call(lib.quire_op_copy, self._pointer, run, 1)
            self._queued.extend([*keep, run])

    def fill(self, tensor: Any, value: int) -> None:
        """Queues a fill: every byte of a dense tensor becomes `value`."""
        keep: list[Any] = []
        described = ffi.new("quire_tensor *")
        _put(described, "tensor", tensor, keep, written=True)
        size = _dense_bytes("tensor", described)
        with self._serial:
            call(lib.quire_op_fill, self._pointer, described.data, count_of("value", value, 8), size)
            self._queued.extend(keep)


def _dense_bytes(name: str, tensor: CData) -> int:
    """Bytes of a dense row-major tensor."""
    size = tensor.dtype.bits // 8 * max(tensor.dtype.lanes, 1)
    for i in reversed(range(tensor.ndim)):
        if tensor.shape[i] > 1 and tensor.stride[i] != size:
            raise Error(Code.INVALID_ARGUMENT, f"{name} is not dense: stride {tensor.stride[i]} of dimension {i} is not {size}")
        size *= tensor.shape[i]
    return int(size)



__all__ = ["Device", "Runtime", "Stream"]
