"""The families that record.py records: a row for each class, with the config fields that matter and why."""
import dataclasses
import re

import torch
import transformers

VOCABULARY = 64
# The same in every config. Special tokens are out of the way: sequences hold ids from 3 on.
COMMON = {'vocab_size': VOCABULARY, 'hidden_size': 32, 'pad_token_id': 0, 'bos_token_id': 1, 'eos_token_id': 2, 'use_cache': False}
ATTENTION = {'num_attention_heads': 4, 'num_key_value_heads': 2, 'head_dim': 16, 'max_position_embeddings': 256}


@dataclasses.dataclass
class Family:
    name: str
    model: str                    # class in transformers
    configuration: str            # its config class
    why: str                      # what it has that others have not
    fields: dict                  # of the config
    parts: dict = dataclasses.field(default_factory=dict)  # name -> what neutralises the part: config fields, weights or code
    rules: tuple = ()             # (pattern, function of the draw): before the common rules
    vocabulary: int = VOCABULARY
    common: dict = dataclasses.field(default_factory=lambda: {**COMMON, **ATTENTION})

    @property
    def model_class(self):
        return getattr(transformers, self.model)

    @property
    def config_class(self):
        return getattr(transformers, self.configuration)

    def config(self):
        return self.config_class(**{**self.common, **self.fields})


def gain(factor):
    """A matrix whose outputs are `factor` times as large as its inputs: the last axis is summed over."""
    return lambda draw: draw * factor / draw.shape[-1] ** 0.5


def around(centre, spread):
    return lambda draw: centre + spread * draw


# The first pattern that is in a name decides. Queries and keys are large, so that attention is far from a mean and early tokens matter.
RULES = (
    (r'norm.*weight$', around(1.0, 0.2)),
    (r'(q|k)_proj\.weight$', gain(2.0)),
    (r'embed', around(0.0, 1.0)),
    (r'bias$', around(0.0, 0.3)),
    (r'lm_head', gain(2.0)),
    (r'', gain(1.2)),
)


def weight(family, name, draw):
    for pattern, rule in (*family.rules, *RULES):
        if re.search(pattern, name):
            return rule(draw)
    raise AssertionError(name)


ZERO_CENTRED = ((r'norm.*weight$', around(0.0, 0.2)),)  # norms that multiply by 1 + weight


def scaled(factor):
    return lambda tensor: tensor * factor


ROWS = (
    Family('llama', 'LlamaForCausalLM', 'LlamaConfig',
           'full attention with grouped queries; rope scaled as in Llama 3.1; head of its own',
           {'num_hidden_layers': 3, 'intermediate_size': 64, 'rms_norm_eps': 1e-5,
            'rope_parameters': {'rope_type': 'llama3', 'rope_theta': 10000.0, 'factor': 8.0, 'low_freq_factor': 1.0,
                                'high_freq_factor': 4.0, 'original_max_position_embeddings': 64}},
           {'rope scaling': {'config': {'rope_parameters': {'rope_type': 'default', 'rope_theta': 10000.0}}}}),
    Family('qwen3', 'Qwen3ForCausalLM', 'Qwen3Config',
           'norms of queries and keys; head tied to the embedding',
           {'num_hidden_layers': 3, 'intermediate_size': 64, 'tie_word_embeddings': True,
            'rope_parameters': {'rope_type': 'default', 'rope_theta': 10000.0}},
           {'norm of queries': {'weights': (('q_norm', 1.0),)}, 'norm of keys': {'weights': (('k_norm', 1.0),)}},
           ((r'(q|k)_norm', around(1.6, 0.5)), (r'embed', around(0.0, 0.35)))),
    Family('gemma2', 'Gemma2ForCausalLM', 'Gemma2Config',
           'windows and full attention in turn, soft caps of scores and logits, scale of its own, norms before and after, scaled embedding',
           {'num_hidden_layers': 4, 'intermediate_size': 64, 'sliding_window': 20, 'query_pre_attn_scalar': 24,
            'attn_logit_softcapping': 4.0, 'final_logit_softcapping': 6.0},
           {'soft cap': {'config': {'attn_logit_softcapping': None}}, 'soft cap of logits': {'config': {'final_logit_softcapping': None}},
            'window': {'config': {'sliding_window': 256}}, 'scale': {'config': {'query_pre_attn_scalar': 16}}},
           (*ZERO_CENTRED, (r'embed', around(0.0, 0.35)))),
    Family('gemma3', 'Gemma3ForCausalLM', 'Gemma3TextConfig',
           'five windows to one full layer in the real ones, here two to one; rope of its own per kind of layer, scaled in full layers',
           {'num_hidden_layers': 4, 'intermediate_size': 64, 'sliding_window': 20, 'query_pre_attn_scalar': 24,
            'layer_types': ['sliding_attention', 'sliding_attention', 'full_attention', 'sliding_attention'],
            'rope_parameters': {'full_attention': {'rope_type': 'linear', 'factor': 8.0, 'rope_theta': 100000.0},
                                'sliding_attention': {'rope_type': 'default', 'rope_theta': 10000.0}}},
           {'window': {'config': {'sliding_window': 256}},
            'rope scaling': {'config': {'rope_parameters': {'full_attention': {'rope_type': 'default', 'rope_theta': 100000.0},
                                                            'sliding_attention': {'rope_type': 'default', 'rope_theta': 10000.0}}}},
            'rope of windows': {'config': {'rope_parameters': {'full_attention': {'rope_type': 'linear', 'factor': 8.0, 'rope_theta': 1e5},
                                                               'sliding_attention': {'rope_type': 'default', 'rope_theta': 1e5}}}},
            'norm of keys': {'weights': (('k_norm', 0.0),)}},
           ((r'(q|k)_norm', around(0.6, 0.4)), *ZERO_CENTRED, (r'embed', around(0.0, 0.35)))),
)
TABLE = {family.name: family for family in ROWS}


def encoder_inputs(family, random_of):
    return [None, None, None]


def forward_inputs(family, tokens, encoder, dtype):
    return {'input_ids': tokens}
