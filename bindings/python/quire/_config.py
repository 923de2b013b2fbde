"""Plans: groups, pages, blocks, capacity, and where bytes are."""
from __future__ import annotations

import json
import re
from typing import Any, Optional, Sequence, Union

import numpy as np

from ._core import Array, Kept, Owned, call, error_struct, fail, ffi, lib, set_fields, struct, struct_dtype, two_calls
from ._infos import Capacity, Compatibility, ConfigInfo, GroupInfo, KVField, KVView, LayerPlace, Lowering, RegionInfo, StateView
from ._model import Model
from ._numbers import KVScales, PlanFlag, StateMode, VllmFlag

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}


def _bytes_of(size: Union[int, str]) -> int:
    """80 << 30, "80GiB", "1.5TB"."""
    if not isinstance(size, str):
        return size
    parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", size.lower())
    if parts is None or parts[2] not in _UNITS:
        raise ValueError(f"memory_bytes {size!r}: known units are KiB, MiB, GiB, TiB, kB, MB, GB and TB")
    return int(float(parts[1]) * _UNITS[parts[2]])


class Config(Owned):
    """The plan of a model's cache: how layers form groups, and memory pages. Any thread; it does
    not change.

        config = Config(Model.from_json(text), memory_bytes="80GiB", tensor_parallel=2)
        config.info.num_pages, [group.block_tokens for group in config.groups]

    Size (one of both)
    - memory_bytes: bytes for the cache of every shard: a number, "80GiB", or a list with one of
      each shard
    - num_pages: exactly so many pages, the null page included
    Ranks
    - tensor_parallel, pipeline_parallel, context_parallel; stage_layers: layers of every pipeline
      stage
    Limits
    - max_model_len: tokens of the longest sequence; 0 = the model's
    - max_tokens_in_flight: tokens of one sequence between reserve and commit; 0 = 8192
    - encoder_tokens: maximum of one request, with cross attention; 0 = the model's
    Form
    - policy: "auto", "pack:N" or "vllm"; layout: order of letters, such as "BPJKTHD"
    - preferred_layouts: orders that your kernels like, best first
    - block_tokens, kernel_block_tokens: 0 = 16; page_alignment: bytes
    - kv_dtype, kv_scales, state_dtype: replace the model's
    - flags: `PlanFlag`
    - vllm_flags, vllm_state_mode, vllm_match_unit_tokens, vllm_retained_tokens: what only policy
      vllm reads

    Errors: INVALID_ARGUMENT, OUT_OF_RANGE, RESOURCE_EXHAUSTED (memory too small),
    NOT_REPRESENTABLE, UNIMPLEMENTED (policy).
    """

    def __init__(self, model: Model, *, memory_bytes: Union[int, str, Sequence[Union[int, str]], None] = None, num_pages: int = 0,
                 tensor_parallel: int = 0, pipeline_parallel: int = 0, context_parallel: int = 0,
                 stage_layers: Optional[Sequence[int]] = None, max_model_len: int = 0, max_tokens_in_flight: int = 0,
                 encoder_tokens: int = 0, policy: str = "", layout: str = "", preferred_layouts: Sequence[str] = (),
                 block_tokens: int = 0, kernel_block_tokens: int = 0, page_alignment: int = 0, kv_dtype: Any = None,
                 kv_scales: KVScales = KVScales.OUTSIDE, state_dtype: Any = None, flags: PlanFlag = PlanFlag(0),
                 vllm_flags: VllmFlag = VllmFlag(0), vllm_state_mode: StateMode = StateMode.DEFAULT, vllm_match_unit_tokens: int = 0,
                 vllm_retained_tokens: int = 0) -> None:
        self._handle = None
        kept = Kept()
        options = struct("quire_plan_options")
        set_fields(options, kept, dict(
            num_pages=num_pages, tensor_parallel=tensor_parallel, pipeline_parallel=pipeline_parallel, context_parallel=context_parallel,
            max_model_len=max_model_len, max_tokens_in_flight=max_tokens_in_flight, encoder_tokens=encoder_tokens, policy=policy,
            layout=layout, block_tokens=block_tokens, kernel_block_tokens=kernel_block_tokens, page_alignment=page_alignment,
            kv_dtype=kv_dtype, kv_scales=kv_scales, state_dtype=state_dtype, flags=flags))
        if memory_bytes is not None:
            sizes = [memory_bytes] if isinstance(memory_bytes, (int, str)) else list(memory_bytes)
            options.memory_bytes = kept.array("uint64_t[]", [_bytes_of(size) for size in sizes])
            options.num_memory_bytes = len(sizes)
        if stage_layers is not None:
            options.stage_layers = kept.array("uint32_t[]", list(stage_layers))
            options.num_stage_layers = len(stage_layers)
        if preferred_layouts:
            options.preferred_layouts = kept.array("quire_str[]", len(preferred_layouts))
            options.num_preferred_layouts = len(preferred_layouts)
            for i, order in enumerate(preferred_layouts):
                kept.bytes_at(options.preferred_layouts[i], order)
        set_fields(ffi.addressof(options, "vllm"), kept, dict(
            flags=vllm_flags, state_mode=vllm_state_mode, match_unit_tokens=vllm_match_unit_tokens, retained_tokens=vllm_retained_tokens))
        out = ffi.new("quire_config **")
        call(lib.quire_config_create, model._pointer, options, out)
        self._own(out[0], lib.quire_config_release)

    @property
    def info(self) -> ConfigInfo:
        """Facts of the whole plan."""
        info = struct("quire_config_info")
        call(lib.quire_config_get_info, self._pointer, info)
        return ConfigInfo(info)

    @property
    def groups(self) -> list[GroupInfo]:
        """Facts of every group. Group g is the g-th of a `Batch`, too."""
        found = []
        for number in range(self.info.num_groups):
            info = struct("quire_group_info")
            call(lib.quire_config_get_group, self._pointer, number, info)
            found.append(GroupInfo(info))
        return found

    def place(self, layer: int, sub: int = 0) -> LayerPlace:
        """In which group, and in which column of its tables, the cache of a layer lies. Errors:
        NOT_FOUND (no cache).
        """
        place = struct("quire_layer_place")
        call(lib.quire_config_get_place, self._pointer, layer, sub, place)
        return LayerPlace(place)

    def kv_view(self, layer: int, sub: int = 0, shard: int = 0) -> KVView:
        """Offsets and strides (bytes) of a token cache, for kernels of your own. Errors: NOT_FOUND,
        OUT_OF_RANGE.
        """
        view = struct("quire_kv_view")
        call(lib.quire_config_get_kv_view, self._pointer, shard, layer, sub, view)
        return KVView(view)

    def state_view(self, layer: int, sub: int = 0, tensor: int = 0, shard: int = 0) -> StateView:
        """Offsets and strides (bytes) of one tensor of a recurrent state. Errors: NOT_FOUND,
        OUT_OF_RANGE.
        """
        view = struct("quire_state_view")
        call(lib.quire_config_get_state_view, self._pointer, shard, layer, sub, tensor, view)
        return StateView(view)

    def fields(self, layer: int, sub: int = 0, shard: int = 0) -> list[KVField]:
        """Where the codec of a token cache stores elements, scales and tail. `item` of
        `Memory.tensor` counts them.
        """
        found: list[KVField] = two_calls(lib.quire_config_list_fields, "quire_kv_field", self._pointer, shard, layer, sub, make=KVField)
        return found

    def regions(self, shard: int = 0) -> list[RegionInfo]:
        """The allocations of a shard: bytes and alignment of each."""
        count = ffi.new("uint64_t *")
        error = error_struct()
        size = ffi.sizeof("quire_region_info")
        items = ffi.new("quire_region_info[16]")
        for item in items:
            item.struct_size = size
        code = lib.quire_config_list_regions(self._pointer, shard, items, size, 16, count, error)
        if code:
            fail(code, error)
        return [RegionInfo(items[i]) for i in range(count[0])]

    def lowering(self, group: int, shard: int = 0) -> Lowering:
        """How ids become lowered ids, which tables and slots have."""
        lowering = struct("quire_lowering")
        call(lib.quire_config_get_lowering, self._pointer, shard, group, lowering)
        return Lowering(lowering)

    def segments(self, ids: Any, group: int, column: int = 0, shard: int = 0, *, layer: Optional[int] = None, sub: int = 0,
                 head_shard: int = 0, num_head_shards: int = 0) -> Array:
        """The dense runs of bytes of ids (int32 [n]) of one column: an array with `region`,
        `layer`, `offset`, `bytes`.

        - layer, sub: only this cache
        - head_shard: one of num_head_shards equal slices of the heads
        """
        wanted = np.ascontiguousarray(ids, dtype=np.int32)
        query = struct("quire_segment_query")
        set_fields(query, Kept(), dict(shard=shard, group=group, column=column, layer=layer, sub=sub, head_shard=head_shard,
                                       num_head_shards=num_head_shards, flags=1 if layer is not None else 0))
        items = two_calls(lib.quire_config_list_segments, "quire_segment", self._pointer, query,
                          ffi.from_buffer("int32_t[]", wanted), len(wanted), make=lambda item: bytes(ffi.buffer(ffi.addressof(item))))
        return np.frombuffer(b"".join(items), struct_dtype("quire_segment"))

    def capacity(self, tokens: int = 0, concurrency: int = 0, **cache_options: Any) -> Capacity:
        """How many sequences of `tokens` tokens a cache with these options (those of `Cache`) can
        hold.

        - tokens: 0 = max_model_len; concurrency: 0 = 1
        """
        from ._cache import cache_options_struct  # it needs this module
        capacity = struct("quire_capacity")
        options, kept = cache_options_struct(**cache_options)
        call(lib.quire_config_get_capacity, self._pointer, options, tokens, concurrency, capacity)
        del kept
        return Capacity(capacity)

    def compare(self, other: Config) -> Compatibility:
        """What can be copied between two plans of one model, and how; `reason` says what prevents
        better.
        """
        answer = struct("quire_compatibility")
        call(lib.quire_config_compare, self._pointer, other._pointer, answer)
        return Compatibility(answer)

    def describe(self) -> dict[str, Any]:
        """The planner's explanation: every candidate, and why this one."""
        explained: dict[str, Any] = json.loads(bytes(two_calls(lib.quire_config_describe_json, "char", self._pointer)))
        return explained


__all__ = ["Config"]
