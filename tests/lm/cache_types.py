"""The types of caches that parity.py uses, and what it demands of each: the yardstick and the limit of the relative L2 error of logits.

fp32  The yardstick is the class in float64, as recorded. Limit: three times the error of the class itself in float32, at least 1e-6.
bf16  The same yardstick. Limit: 2e-2, as in lm_parity.
fp8   Rows of 8 bits are so coarse (an element is rounded by up to 1/16 in e4m3, 1/8 in e5m2) that logits move by 1e-2 to 3e-1: a limit
      above that would show little. The yardstick is therefore the class in float64 whose keys and values (latent rows) are rounded by
      torch's own float8 types, with a scale for each row where the cache has one. What is left is the arithmetic of float32, and elements
      on the edge between two numbers of the type, which an error of 1e-7 moves to the other one. The same class in float32 with the same
      rounding has both, but in other places. Limit: three times its error, at least an eighth of what the type changes. One element is
      less: a sequence has n >= 1696 rounded elements, each off by 0.29 steps (rms), and together they change logits by sqrt(n) times what
      one does. An element that moves to the next number is off by a whole step, so it changes 1 / (0.29 * sqrt(n)) of that: 1/12.
"""
import contextlib
import dataclasses
import os
import sys
import typing

import torch
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import quire
import record
import replaced

SINGLE = torch.float32  # record.widened gives the name to another type


def rounded(kind, largest=None):
    """Elements become numbers of `kind`; largest: each row of a head is first divided by its largest magnitude / largest."""
    def rounding(rows):
        single, scale = rows.to(SINGLE), 1.0
        if largest is not None:
            scale = (single.abs().amax(dim=-1, keepdim=True) / largest).clamp(min=1e-6)
        return ((single / scale).to(kind).to(SINGLE) * scale).to(rows.dtype)
    return rounding


@dataclasses.dataclass
class CacheType:
    name: str
    dtype: str = 'float32'         # of the model
    plan: dict = dataclasses.field(default_factory=lambda: {'state_dtype': 'fp32'})
    rounding: typing.Any = None    # what the cache does to keys and values, if the yardstick has it, too
    brief: bool = False            # not over all kinds of engines

    def yardstick(self, family, folder, kept):
        """(logits of each sequence, limit, error of the type)"""
        exact = [kept[f'logits.{i}'].double() for i in range(len(record.LENGTHS))]
        own = float(record.metadata_of(os.path.join(folder, 'expected.safetensors'))['fp32_error'])
        if self.rounding is None:
            return exact, max(3 * own, 1e-6) if self.dtype == 'float32' else 2e-2, 0.0
        want, single = (self.coarse(family, folder, kept, dtype) for dtype in (torch.float64, torch.float32))
        error = max(map(record.relative, want, exact))
        return want, max(3 * max(map(record.relative, single, want)), error / 8), error

    def coarse(self, family, folder, kept, dtype):
        model = record.opened(family, folder, dtype)
        with rounding_keys(model, self.rounding):
            return [record.logits(family, model, kept[f'tokens.{i}'], kept.get(f'encoder.{i}'), dtype) for i in range(len(record.LENGTHS))]


@contextlib.contextmanager
def rounding_keys(model, rounding):
    """Eager attention over rounded keys and values. Attention of encoders keeps nothing; that of DeepSeek keeps latent rows."""
    modeling, names = sys.modules[type(model).__module__], {id(module): name for name, module in model.named_modules()}
    latent = getattr(modeling, 'DeepseekV3Attention', None)

    def attend(module, query, key, value, *arguments, **options):
        if latent is None and not replaced.is_of_encoder(module, names[id(module)]):
            key, value = rounding(key), rounding(value)
        return modeling.eager_attention_forward(module, query, key, value, *arguments, **options)

    def expand(module, rows, turned, original=latent and latent.expand_kv):
        both = rounding(torch.cat((rows, turned), dim=-1))
        return original(module, both[..., :rows.shape[-1]], both[..., rows.shape[-1]:])

    ALL_ATTENTION_FUNCTIONS.register('rounded', attend)
    ALL_MASK_ATTENTION_FUNCTIONS.register('rounded', eager_mask)
    for module in model.modules():
        if hasattr(module, 'config'):
            module.config._attn_implementation = 'rounded'
    kept = latent and latent.expand_kv
    try:
        if latent:
            latent.expand_kv = expand
        yield
    finally:
        if latent:
            latent.expand_kv = kept


def in_8_bits(name, kind, largest=None, brief=True):
    plan = {'state_dtype': 'fp32', 'kv_dtype': str(kind).rsplit('.', maxsplit=1)[-1]}
    if largest is not None:
        plan['kv_scales'] = quire.KVScales.ROW
    return CacheType(name, plan=plan, rounding=rounded(kind, largest), brief=brief)


TABLE = {kind.name: kind for kind in (
    CacheType('fp32'), CacheType('bf16', 'bfloat16', {}),
    in_8_bits('fp8_e4m3', torch.float8_e4m3fn, brief=False), in_8_bits('fp8_e5m2', torch.float8_e5m2),
    in_8_bits('fp8_e4m3 rows', torch.float8_e4m3fn, 448.0), in_8_bits('fp8_e5m2 rows', torch.float8_e5m2, 57344.0))}
