"""transformers' own modeling files whose attention, convolutions and state functions are quire's, through the Python package.

Nothing else of a model is changed, with two exceptions: Llama-4 counts positions of a cache to scale queries, and DeepSeek's attention
expands its latent rows, which quire keeps as they are; both happen in `attend`. The file runs once for all ranks of a plan: what it hands
to attention and states is cut by heads or channels, each rank (ranks.py) computes its part over its own shard, and the parts are summed.
"""
import contextlib
import json
import os
import sys

import numpy
import torch
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import quire
import ranks

NAMES = ('causal_conv1d_fn', 'torch_chunk_gated_delta_rule', 'mamba2_chunk_scan', 'mamba_selective_scan')
STATE, CROSS, LATENT = quire.LayerKind.STATE, quire.LayerKind.CROSS, quire.LayerKind.MLA


class Engine:
    """One model over the pools of one plan. `run` computes a step and returns the logits of its tokens, row by row.

    - kept_as: the CacheType; pages=0: the fewest with room for one sequence of 96 tokens
    - tensor_parallel: ranks; rank: their class
    - limits: options of the cache
    """

    def __init__(self, family, model, folder, kept_as, pages=160, tensor_parallel=1, rank=ranks.Rank, **limits):
        self.family, self.model, self.fault, self.layer = family, model, False, None
        self.folder, self.kept_as, self.pages, self.tensor_parallel = folder, kept_as, pages, tensor_parallel
        branches = 3 if pages else 0  # a state after each of four draft tokens
        self.limits = {'checkpoint_interval': 16, 'num_state_branches': branches, **limits}
        self.runtime, self.config = quire.Runtime(), self.plan()
        self.cache = quire.Cache(self.config, runtime=self.runtime, **self.limits)
        self.kinds = {}  # (layer, what it is) -> its cache
        for cache in described(self.folder, self.kept_as).layers():
            self.kinds[cache.layer, 'state' if cache.kind == STATE else 'cross' if cache.kind == CROSS else 'tokens'] = cache
        self.encoder_tokens = max(cache.encoder_tokens for cache in self.kinds.values())
        self.ranks = [rank(self, shard) for shard in range(tensor_parallel)]
        self.modeling = sys.modules[type(model).__module__]
        self.names = {id(module): name for name, module in model.named_modules()}
        self.hooks = [module.register_forward_pre_hook(lambda at, _: setattr(self, 'layer', at.layer_idx))
                      for module in model.modules() if hasattr(module, 'layer_idx')]

    def plan(self):
        """The plan, made anew: a rank in another process has one of its own."""
        wanted = {'tensor_parallel': self.tensor_parallel, **self.kept_as.plan}
        if self.pages:
            return quire.Config(described(self.folder, self.kept_as), num_pages=self.pages, **wanted)
        for pages in range(2, 256):
            try:
                return quire.Config(described(self.folder, self.kept_as), num_pages=pages, max_model_len=96, **wanted)
            except quire.Error as error:
                if error.code != quire.Code.RESOURCE_EXHAUSTED:
                    raise
        raise AssertionError('no plan has room')

    def run(self, step, tokens, encoders=()):
        """tokens: those of the step, row after row. encoders: features of the rows that begin. Returns float64 [tokens, vocabulary]."""
        for rank in self.ranks:
            rank.fill(step)
        if self.fault:  # of one rank
            self.ranks[-1].spoil()
        self.positions = torch.from_numpy(self.ranks[0].batch[0].positions)
        ids = torch.from_numpy(tokens.astype(numpy.int64))[None]
        inputs = {'input_ids': ids, 'position_ids': self.positions.long()[None]}
        with torch.no_grad(), self:
            if self.encoder_tokens:  # the keys of the encoders of all rows that begin, row after row
                encoded = [self.model.get_encoder()(features.T[None])[0] for features in encoders]
                states = torch.cat(encoded, dim=1) if encoded else torch.zeros(1, 1, self.model.config.d_model)
                inputs = {'encoder_outputs': BaseModelOutput(states), 'decoder_input_ids': ids,
                          'decoder_position_ids': inputs['position_ids']}
            return self.model(**inputs, use_cache=False).logits[0].double()

    def close(self):
        for hook in self.hooks:
            hook.remove()
        for rank in self.ranks:
            rank.stream.close()
        self.cache.close()

    # ---- what replaces functions of transformers

    def __enter__(self):
        self.kept = {}
        for name in NAMES:
            if hasattr(self.modeling, name):
                self.kept[self.modeling, name] = getattr(self.modeling, name)
                setattr(self.modeling, name, getattr(self, name))
        if hasattr(self.modeling, 'DeepseekV3Attention'):
            owner = self.modeling.DeepseekV3Attention
            self.kept[owner, 'expand_kv'] = owner.expand_kv
            owner.expand_kv = lambda module, latent, turned: (torch.cat((latent, turned), dim=-1), latent)
        ALL_ATTENTION_FUNCTIONS.register('quire', self.attend)
        return self

    def __exit__(self, *_):
        for (owner, name), value in self.kept.items():
            setattr(owner, name, value)

    def attend(self, module, query, key, value, attention_mask, scaling=None, softcap=None, s_aux=None, **_):
        """query [1, heads, tokens, dim]; returns [1, tokens, heads, dim]."""
        if is_of_encoder(module, self.names[id(module)]):  # nothing is kept
            weights = torch.softmax((query @ key.transpose(2, 3)) * scaling, dim=-1)
            return (weights @ value).transpose(1, 2), None
        cache = self.kinds[module.layer_idx, 'cross' if 'encoder_attn' in self.names[id(module)] else 'tokens']
        query = query[0].transpose(0, 1)
        if getattr(module, 'scales_queries', False):
            at = self.positions.float()
            query = query * (torch.log1p(torch.floor((at + 1.0) / module.floor_scale)) * module.attn_scale + 1.0)[:, None, None]
        sinks = None if s_aux is None else s_aux.detach().float().numpy()
        options = {'layer': cache, 'scale': scaling, 'softcap': softcap or 0.0}
        key, value = key[0].transpose(0, 1), value[0].transpose(0, 1)
        if cache.kind == LATENT:
            return self.attend_latent(module, cache, query, key, options)
        whole = ranks.Whole(query.shape[0], query.shape[1], value.shape[2])
        for rank in self.ranks:
            mine, kept = rank.share(query.shape[1]), rank.heads(cache)
            count = rank.group(cache).slots.shape[1]
            if count > 0:
                rank.append(cache, key[:count, kept].contiguous(), value[:count, kept].contiguous())
            options['sink_logits'] = None if sinks is None else sinks[mine].copy()
            whole.add(mine, rank.attention(cache, query[:, mine].contiguous(), value.shape[2], options))
        return whole.sum[None], None

    def attend_latent(self, module, cache, query, latent, options):
        """Absorbed: queries become as wide as latent rows, and the sum of latent rows becomes values. Every rank has all latent rows."""
        heads, width, wide = query.shape[1], module.qk_nope_head_dim, module.kv_lora_rank
        up = module.kv_b_proj.weight.view(heads, width + module.v_head_dim, wide)
        absorbed = torch.einsum('thd,hdl->thl', query[..., :width], up[:, :width])
        query = torch.cat((absorbed, query[..., width:]), dim=-1)
        whole = ranks.Whole(len(query), heads, module.v_head_dim)
        for rank in self.ranks:
            mine = rank.share(heads)
            rank.append(cache, latent.contiguous(), None)
            out = rank.attention(cache, query[:, mine].contiguous(), wide, {**options, 'head_dim_v': wide})
            whole.add(mine, torch.einsum('thl,hvl->thv', out, up[mine, width:]))
        return whole.sum[None], None

    def causal_conv1d_fn(self, hidden_states, weight, bias=None, activation=None, **_):
        """[1, channels, tokens]"""
        assert activation in (None, 'silu'), activation
        cache, rows = self.kinds[self.layer, 'state'], hidden_states[0].T
        whole = ranks.Whole(*rows.shape)
        for rank in self.ranks:
            mine = rank.channels(cache)
            own = None if bias is None else bias.detach()[mine].contiguous()
            whole.add(mine, rank.conv1d(cache, rows[:, mine].contiguous(), weight.detach()[mine].contiguous(), own, activation))
        return whole.sum.T[None]

    def torch_chunk_gated_delta_rule(self, query, key, value, g, beta, use_qk_l2norm_in_kernel=False, **_):
        cache = self.kinds[self.layer, 'state']
        whole = ranks.Whole(*value.shape[1:])
        for rank in self.ranks:
            few, mine = rank.share(query.shape[2]), rank.share(value.shape[2])
            whole.add(mine, rank.gated_delta(
                cache, query[0][:, few].contiguous(), key[0][:, few].contiguous(), value[0][:, mine].contiguous(),
                g[0][:, mine].float().contiguous(), beta[0][:, mine].float().contiguous(), use_qk_l2norm_in_kernel))
        return whole.sum[None], None

    def mamba2_chunk_scan(self, x, dt, a, b, c, chunk_size=None, D=None, z=None, dt_bias=None, dt_softplus=False, dt_limit=None, **_):
        assert z is None
        cache = self.kinds[self.layer, 'state']
        whole = ranks.Whole(*x.shape[1:])
        for rank in self.ranks:
            few, mine = rank.share(b.shape[2]), rank.share(x.shape[2])
            whole.add(mine, rank.scan_heads(
                cache, x[0][:, mine].contiguous(), dt[0][:, mine].contiguous(), a[mine].float(), b[0][:, few].contiguous(),
                c[0][:, few].contiguous(), D.detach()[mine], dt_bias.detach()[mine], dt_softplus, dt_limit or (0.0, float('inf'))))
        return whole.sum[None]

    def mamba_selective_scan(self, x, dt, a, b, c, D=None, z=None, delta_bias=None, delta_softplus=False, **_):
        """[1, channels, tokens]"""
        cache, whole = self.kinds[self.layer, 'state'], ranks.Whole(x.shape[2], x.shape[1])
        for rank in self.ranks:
            mine = rank.share(x.shape[1])
            whole.add(mine, rank.scan_channels(
                cache, x[0].T[:, mine].contiguous(), dt[0].T[:, mine].contiguous(), a[mine].float().contiguous(), b[0].T.contiguous(),
                c[0].T.contiguous(), D.detach()[mine], delta_bias.detach()[mine], z[0].T[:, mine].contiguous(), delta_softplus))
        return whole.sum.T[None]


def described(folder, kept_as):
    text = json.load(open(os.path.join(folder, 'config.json'), encoding='utf-8'))
    text['dtype'] = kept_as.dtype
    return quire.Model.from_json(json.dumps(text))


def is_of_encoder(module, name):
    return getattr(module, 'layer_idx', None) is None or 'encoder.layers' in name


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
def opened(*arguments, **options):
    engine = Engine(*arguments, **options)
    try:
        yield engine
    finally:
        engine.close()
