"""transformers' own modeling files whose attention, convolutions and state functions are quire's, through the Python package.

Nothing else of a model is changed, with two exceptions: Llama-4 counts positions of a cache to scale queries, and DeepSeek's attention
expands its latent rows, which quire keeps as they are; both happen in `attend`.
"""
import contextlib
import json
import os
import sys

import numpy
import torch
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import quire

NAMES = ('causal_conv1d_fn', 'torch_chunk_gated_delta_rule', 'mamba2_chunk_scan', 'mamba_selective_scan')
STATE, CROSS, LATENT = quire.LayerKind.STATE, quire.LayerKind.CROSS, quire.LayerKind.MLA


class Engine:
    """One model over one pool. `run` computes a step and returns the logits of its tokens, row by row."""

    def __init__(self, family, model, folder, dtype, pages=160, **limits):
        text = json.load(open(os.path.join(folder, 'config.json'), encoding='utf-8'))
        text['dtype'] = str(dtype).split('.')[-1]
        self.family, self.model, self.encoder, self.fault = family, model, None, False
        described = quire.Model.from_json(json.dumps(text))
        self.kinds = {}  # (layer, what it is) -> its cache
        for cache in described.layers():
            self.kinds[cache.layer, 'state' if cache.kind == STATE else 'cross' if cache.kind == CROSS else 'tokens'] = cache
        wanted = {'state_dtype': 'fp32'} if dtype == torch.float32 else {}
        self.config = quire.Config(described, num_pages=pages, **wanted) if pages else self.smallest(described, wanted)
        self.encoder_tokens = max(cache.encoder_tokens for cache in self.kinds.values())
        runtime = quire.Runtime()
        self.cache = quire.Cache(self.config, runtime=runtime, checkpoint_interval=16, **limits)
        device = quire.Device(runtime)
        self.stream, self.memory, self.batch = quire.Stream(device), quire.Memory(device, self.config), quire.Batch(self.config)
        self.memory.poison(self.stream)  # what nobody wrote is NaN
        self.layer = None
        for module in model.modules():
            if hasattr(module, 'layer_idx'):
                module.register_forward_pre_hook(lambda at, _: setattr(self, 'layer', at.layer_idx))

    @staticmethod
    def smallest(described, wanted):
        """The plan with the fewest pages that has room for one sequence of 96 tokens."""
        for pages in range(2, 256):
            try:
                return quire.Config(described, num_pages=pages, max_model_len=96, **wanted)
            except quire.Error as error:
                if error.code != quire.Code.RESOURCE_EXHAUSTED:
                    raise
        raise AssertionError('no plan has room')

    def place(self, layer, what):
        cache = self.kinds[layer, what]
        return cache, self.batch[self.config.place(layer, cache.sub).group]

    def run(self, step, tokens):
        """tokens: those of the step, row after row. Returns float64 [tokens, vocabulary]."""
        groups = self.batch.fill(step)
        self.memory.prepare(step, self.stream)
        self.stream.synchronize()
        if self.fault:  # every row begins with a block, or a state, that is not its own
            for group in groups:
                if group.table is not None and group.table.shape[2] > 1:
                    group.table[:, :, 0] = group.table[:, :, 1]
                if group.state_read is not None:
                    group.state_read[:] = -1
        positions = torch.from_numpy(groups[0].positions).long()[None]
        inputs = {'input_ids': torch.from_numpy(tokens.astype(numpy.int64))[None], 'position_ids': positions}
        if self.encoder is not None:
            inputs = {'input_features': self.encoder.T[None], 'decoder_input_ids': inputs['input_ids'], 'decoder_position_ids': positions}
        with torch.no_grad(), self:
            return self.model(**inputs, use_cache=False).logits[0].double()

    # ---- what replaces functions of transformers

    def __enter__(self):
        self.kept = {}
        modeling = sys.modules[type(self.model).__module__]
        for name in NAMES:
            if hasattr(modeling, name):
                self.kept[modeling, name] = getattr(modeling, name)
                setattr(modeling, name, getattr(self, name))
        if hasattr(modeling, 'DeepseekV3Attention'):
            owner = modeling.DeepseekV3Attention
            self.kept[owner, 'expand_kv'] = owner.expand_kv
            owner.expand_kv = lambda module, latent, turned: (torch.cat((latent, turned), dim=-1), latent)
        ALL_ATTENTION_FUNCTIONS.register('quire', self.attend)
        return self

    def __exit__(self, *_):
        for (owner, name), value in self.kept.items():
            setattr(owner, name, value)

    def attend(self, module, query, key, value, attention_mask, scaling=None, softcap=None, s_aux=None, **_):
        """query [1, heads, tokens, dim]; returns [1, tokens, heads, dim]."""
        if getattr(module, 'layer_idx', None) is None or 'encoder.layers' in self.names[id(module)]:  # of an encoder: nothing is kept
            weights = torch.softmax((query @ key.transpose(2, 3)) * scaling, dim=-1)
            return (weights @ value).transpose(1, 2), None
        cross = 'encoder_attn' in self.names[id(module)]
        cache, group = self.place(module.layer_idx, 'cross' if cross else 'tokens')
        paged = self.memory.paged_kv(cache.layer, cache.sub)
        query = query[0].transpose(0, 1)
        if getattr(module, 'scales_queries', False):
            at = torch.from_numpy(self.batch[0].positions).float()
            query = query * (torch.log1p(torch.floor((at + 1.0) / module.floor_scale)) * module.attn_scale + 1.0)[:, None, None]
        options = {'layer': cache, 'scale': scaling, 'softcap': softcap or 0.0,
                   'sink_logits': None if s_aux is None else s_aux.detach().float().numpy()}
        key, value = key[0].transpose(0, 1).contiguous(), value[0].transpose(0, 1).contiguous()
        if cache.kind == LATENT:
            return self.attend_latent(module, query, key, paged, group, options)
        if group.slots.shape[1] > 0:
            self.stream.kv_append(paged, group, key[:group.slots.shape[1]], value[:group.slots.shape[1]])
        out = torch.empty(query.shape[0], query.shape[1], value.shape[2])
        self.stream.attention(paged, group, query.contiguous(), out, **options)
        self.stream.synchronize()
        return out[None], None

    def attend_latent(self, module, query, latent, paged, group, options):
        """Absorbed: queries become as wide as latent rows, and the sum of latent rows becomes values."""
        heads, width = query.shape[1], module.qk_nope_head_dim
        up = module.kv_b_proj.weight.view(heads, width + module.v_head_dim, module.kv_lora_rank)
        absorbed = torch.einsum('thd,hdl->thl', query[..., :width], up[:, :width])
        query = torch.cat((absorbed, query[..., width:]), dim=-1).contiguous()
        self.stream.kv_append(paged, group, latent)
        out = torch.empty(len(query), heads, module.kv_lora_rank)
        self.stream.attention(paged, group, query, out, head_dim_v=module.kv_lora_rank, **options)
        self.stream.synchronize()
        return torch.einsum('thl,hvl->thv', out, up[:, width:])[None], None

    def state(self, tensor):
        cache, group = self.place(self.layer, 'state')
        return self.memory.paged_state(cache.layer, cache.sub, tensor), group

    def causal_conv1d_fn(self, hidden_states, weight, bias=None, activation=None, **_):
        """[1, channels, tokens]"""
        state, group = self.state(0)
        rows = hidden_states[0].T.contiguous()
        out = torch.empty_like(rows)
        assert activation in (None, 'silu'), activation
        self.stream.conv1d(state, group, rows, weight.detach().contiguous(), out, bias=None if bias is None else bias.detach(),
                           silu=activation == 'silu')
        self.stream.synchronize()
        return out.T[None]

    def torch_chunk_gated_delta_rule(self, query, key, value, g, beta, use_qk_l2norm_in_kernel=False, **_):
        state, group = self.state(1)
        out = torch.empty_like(value[0])
        self.stream.gated_delta(state, group, query[0].contiguous(), key[0].contiguous(), value[0].contiguous(), g[0].float().contiguous(),
                                beta[0].float().contiguous(), out, l2norm=use_qk_l2norm_in_kernel)
        self.stream.synchronize()
        return out[None], None

    def mamba2_chunk_scan(self, x, dt, a, b, c, chunk_size=None, D=None, z=None, dt_bias=None, dt_softplus=False, dt_limit=None, **_):
        state, group = self.state(1)
        assert z is None
        out = torch.empty_like(x[0])
        low, high = dt_limit or (0.0, 0.0)
        self.stream.selective_scan(state, group, x[0].contiguous(), dt[0].contiguous(), a.float(), b[0].contiguous(), c[0].contiguous(), out,
                                   skip=D.detach(), dt_bias=dt_bias.detach(), softplus=dt_softplus, dt_min=low,
                                   dt_max=0.0 if high == float('inf') else high)
        self.stream.synchronize()
        return out[None]

    def mamba_selective_scan(self, x, dt, a, b, c, D=None, z=None, delta_bias=None, delta_softplus=False, **_):
        """[1, channels, tokens]"""
        state, group = self.state(1)
        rows, gate = x[0].T[:, :, None].contiguous(), z[0].T[:, :, None].contiguous()
        out = torch.empty_like(rows)
        self.stream.selective_scan(state, group, rows, dt[0].T.contiguous(), a.float().contiguous(), b[0].T[:, None].contiguous(),
                                   c[0].T[:, None].contiguous(), out, skip=D.detach(), dt_bias=delta_bias.detach(), z=gate,
                                   softplus=delta_softplus)
        self.stream.synchronize()
        return out[:, :, 0].T[None]

    @property
    def names(self):
        if not hasattr(self, '_names'):
            self._names = {id(module): name for name, module in self.model.named_modules()}
        return self._names


def prepared(model):
    """The model with attention by name, and no masks: quire knows who sees whom."""
    ALL_MASK_ATTENTION_FUNCTIONS.register('quire', lambda *_, **__: None)
    for module in model.modules():
        if getattr(module, 'attn_temperature_tuning', False):  # by the positions of a cache that it does not have
            module.attn_temperature_tuning, module.scales_queries = False, not module.use_rope
        if hasattr(module, 'config'):
            module.config._attn_implementation = 'quire'
    return model


@contextlib.contextmanager
def closing(engine):
    try:
        yield engine
    finally:
        engine.stream.close()
        engine.cache.close()
