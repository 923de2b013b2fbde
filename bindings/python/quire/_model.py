"""Models: what each layer caches."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Sequence, Union

from ._core import CData, DType, Kept, Owned, call, ffi, get_dtype, lib, set_dtype, set_fields, str_of, struct, two_calls
from ._infos import ModelInfo
from ._numbers import Codec, LayerFlag, LayerKind, StateKind


@dataclass(frozen=True)
class StateTensor:
    """One tensor of a recurrent state, per sequence: its dtype, and its shape in elements (at most
    4 dimensions).

    - shard: 0 = every rank has all of it, else 1 + the dimension that tensor parallelism splits
    """

    dtype: Any
    shape: tuple[int, ...]
    shard: int = 0


@dataclass(frozen=True)
class Layer:
    """One cache of one layer. A layer with several caches (attention and state) appears several
    times, with sub = 0, 1, ...

        Layer(LayerKind.FULL, num_kv_heads=8, num_q_heads=32, head_dim_k=128, head_dim_v=128,
              dtype="bf16")
        Layer(LayerKind.STATE, layer=1, state=(StateTensor("fp32", (32, 128, 128)),))

    - kind: which tokens are live, and which are stored
    - layer: index in the model; sub: which of its caches
    - num_kv_heads, num_q_heads: of the whole model, before tensor parallelism. MLA, indexer: 1
    - head_dim_k: elements of a row; MLA: latent + rope. head_dim_v: 0 for MLA and indexer
    - dtype: of the cached elements ("bf16", a dtype of NumPy or torch, ...)
    - window: tokens, of windows and chunks; sink_tokens: first tokens that stay, with a window
    - shares_with: 0, or 1 + the index of the earlier layer whose cache this layer reads
    - block_tokens: the block that is wanted; 0 = the planner's
    - state, state_kind, state_parts: of recurrent layers
    - the others: as in quire_layer of quire/model.h
    """

    kind: LayerKind
    layer: int = 0
    sub: int = 0
    num_kv_heads: int = 0
    num_q_heads: int = 0
    head_dim_k: int = 0
    head_dim_v: int = 0
    dtype: Any = None
    flags: int = 0
    codec: Codec = Codec.STRIDED
    sink_tokens: int = 0
    window: int = 0
    name: str = ""
    shares_with: int = 0
    compress_ratio: int = 0
    block_tokens: int = 0
    look_ahead: int = 0
    encoder_tokens: int = 0
    state_kind: StateKind = StateKind.GENERIC
    state: tuple[StateTensor, ...] = ()
    state_parts: tuple[int, ...] = ()
    softcap: float = 0.0
    codec_params: Optional[dict[str, Any]] = None
    rope_dim: int = 0

    _PLAIN = ("kind", "layer", "sub", "num_kv_heads", "num_q_heads", "head_dim_k", "head_dim_v", "flags", "codec", "sink_tokens", "window",
              "shares_with", "compress_ratio", "block_tokens", "look_ahead", "encoder_tokens", "state_kind", "softcap", "rope_dim")

    def _write(self, to: CData, kept: Kept) -> None:
        set_fields(to, kept, {name: getattr(self, name) for name in self._PLAIN})
        set_dtype(to.dtype, self.dtype)
        if self.name:
            kept.bytes_at(to.name, self.name)
        to.num_state_tensors = len(self.state)
        for i, tensor in enumerate(self.state):
            set_dtype(to.state[i].dtype, tensor.dtype)
            to.state[i].ndim = len(tensor.shape)
            for k, extent in enumerate(tensor.shape):
                to.state[i].shape[k] = extent
            to.state_shard[i] = tensor.shard
        for i, part in enumerate(self.state_parts):
            to.state_parts[i] = part
        for name, value in (self.codec_params or {}).items():
            if name.endswith("_dtype"):
                set_dtype(getattr(to.codec_params, name), value)
            elif name in ("data_bytes", "scale_bytes", "tail_bytes"):
                for side, count in enumerate(value):
                    getattr(to.codec_params, name)[side] = count
            else:
                setattr(to.codec_params, name, value)

    @classmethod
    def _read(cls, of: CData) -> Layer:
        state = tuple(StateTensor(get_dtype(of.state[i].dtype), tuple(of.state[i].shape[0:of.state[i].ndim]), of.state_shard[i])
                      for i in range(of.num_state_tensors))
        fields = {name: getattr(of, name) for name in cls._PLAIN}
        fields.update(kind=LayerKind(of.kind), codec=Codec(of.codec), state_kind=StateKind(of.state_kind), flags=LayerFlag(of.flags))
        params: dict[str, Any] = {}
        for name, field in ffi.typeof("quire_codec_params").fields:
            value = getattr(of.codec_params, name)
            if field.type.kind == "struct":
                params[name] = get_dtype(value)
            else:
                params[name] = tuple(value) if field.type.kind == "array" else value
        has_params = any(params[name] for name in ("scale_elements", "tile", "block_alignment")) or any(params["data_bytes"])
        return cls(dtype=_dtype_or_none(get_dtype(of.dtype)), name=str_of(of.name), state=state, state_parts=tuple(of.state_parts),
                   codec_params=params if has_params else None, **fields)


def _dtype_or_none(dtype: DType) -> Optional[DType]:
    return dtype if dtype.bits else None


class Model(Owned):
    """What the layers of a model cache. Any thread.

    `Model.from_json` reads a published config.json; `Model(layers, max_model_len)` takes a list of
    `Layer`. Errors: INVALID_ARGUMENT names layer, field, value and limit.
    """

    def __init__(self, layers: Sequence[Layer], max_model_len: int) -> None:
        self._handle = None
        kept = Kept()
        array = ffi.new("quire_layer[]", max(len(layers), 1))
        for i, layer in enumerate(layers):
            if not isinstance(layer, Layer):
                raise TypeError(f"layers[{i}] must be a quire.Layer, not {type(layer).__name__}")
            array[i].struct_size = ffi.sizeof("quire_layer")
            layer._write(array + i, kept)
        out = ffi.new("quire_model **")
        call(lib.quire_model_create, array, ffi.sizeof("quire_layer"), len(layers), max_model_len, out)
        self._own(out[0], lib.quire_model_release)

    @classmethod
    def _from_text(cls, function: Any, json: Union[str, bytes]) -> Model:
        if not isinstance(json, (str, bytes)):
            raise TypeError(f"json must be the text of a file, not {type(json).__name__}")
        kept = Kept()
        out = ffi.new("quire_model **")
        call(function, kept.text(json), out)
        model = cls.__new__(cls)
        model._own(out[0], lib.quire_model_release)
        return model

    @classmethod
    def from_json(cls, json: Union[str, bytes]) -> Model:
        """Reads the text of a Hugging Face config.json.

        Errors: INVALID_ARGUMENT names the field, UNIMPLEMENTED an unknown architecture.
        """
        return cls._from_text(lib.quire_model_from_json, json)

    @classmethod
    def from_layers(cls, json: Union[str, bytes]) -> Model:
        """Reads the text of a layer file (docs/layer-files.md). Errors: INVALID_ARGUMENT,
        UNIMPLEMENTED; they name the field.
        """
        return cls._from_text(lib.quire_model_from_layers, json)

    @property
    def info(self) -> ModelInfo:
        """Facts: numbers of layers and caches, length, architecture."""
        info = struct("quire_model_info")
        call(lib.quire_model_get_info, self._pointer, info)
        return ModelInfo(info)

    def layers(self) -> list[Layer]:
        """All caches, in the order of (layer, sub)."""
        return [Layer._read(self._layer(i)) for i in range(self.info.num_caches)]

    def _layer(self, index: int) -> CData:
        layer = struct("quire_layer")
        call(lib.quire_model_get_layer, self._pointer, index, layer)
        return layer

    def describe(self) -> str:
        """The model as a table of text, one row per kind of cache."""
        return bytes(two_calls(lib.quire_model_describe, "char", self._pointer)).decode()


__all__ = ["Layer", "Model", "StateTensor"]
