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
    def routed(self):
        """Experts are chosen."""
        return any('experts' in field for field in self.fields)

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
    (r'A_log$', around(-2.5, 0.7)),          # states decay so slowly that token 0 still counts
    (r'dt_bias$|dt_proj\.bias$', around(-1.0, 0.4)),
    (r'(^|\.)D$', around(1.0, 0.3)),
    (r'conv1?d?\.weight$', gain(1.4)),
    (r'sinks$', around(0.5, 1.0)),
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


def only_last_tap(tensor):
    """A convolution that sees its own token only."""
    out = torch.zeros_like(tensor)
    out[..., -1] = tensor[..., -1]
    return out


def half_zero(tensor):
    """The second half of each head's outputs is its gate: sigmoid(0) for all."""
    out = tensor.clone().unflatten(0, (ATTENTION['num_attention_heads'], 2, -1))
    out[:, 1] = 0
    return out.flatten(0, 2)


LAST_TAP = {'weights': (('conv1d.weight', only_last_tap),)}
DELTA = {'linear_num_key_heads': 2, 'linear_num_value_heads': 4, 'linear_key_head_dim': 16, 'linear_value_head_dim': 16,
         'linear_conv_kernel_dim': 4}
MAMBA2 = {'mamba_n_heads': 4, 'mamba_d_head': 16, 'mamba_n_groups': 2, 'mamba_d_state': 16, 'mamba_d_conv': 4, 'mamba_expand': 2,
          'mamba_chunk_size': 16}
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
    Family('gpt_oss', 'GptOssForCausalLM', 'GptOssConfig',
           'windows and full attention in turn with sinks as logits, biases, MoE with clamped gates, YaRN',
           {'num_hidden_layers': 2, 'intermediate_size': 32, 'num_local_experts': 4, 'num_experts_per_tok': 2, 'sliding_window': 20,
            'swiglu_limit': 1.5, 'layer_types': ['sliding_attention', 'full_attention'],
            'rope_parameters': {'rope_type': 'yarn', 'rope_theta': 150000.0, 'factor': 8.0, 'beta_fast': 32.0, 'beta_slow': 1.0,
                                'truncate': False, 'original_max_position_embeddings': 32}},
           {'sinks': {'weights': (('sinks', -1e4),)}, 'window': {'config': {'sliding_window': 256}},
            'bias of attention': {'weights': (('proj.bias', 0.0),)}, 'bias of the router': {'weights': (('router.bias', 0.0),)},
            'bias of experts': {'weights': (('_proj_bias', 0.0),)}, 'limit of gates': {'config': {'swiglu_limit': 7.0}},
            'rope scaling': {'config': {'rope_parameters': {'rope_type': 'default', 'rope_theta': 150000.0}}}}),
    Family('qwen3_next', 'Qwen3NextForCausalLM', 'Qwen3NextConfig',
           'gated delta nets, attention with a gate and rope of a quarter, MoE with a gated shared expert',
           {'num_hidden_layers': 3, 'layer_types': ['linear_attention', 'full_attention', 'linear_attention'], **DELTA,
            'num_experts': 4, 'num_experts_per_tok': 2, 'moe_intermediate_size': 16, 'shared_expert_intermediate_size': 16,
            'rope_parameters': {'rope_type': 'default', 'rope_theta': 10000.0, 'partial_rotary_factor': 0.25}},
           {'convolution': LAST_TAP, 'decay': {'weights': (('A_log', -30.0),)},
            'partial rope': {'config': {'rope_parameters': {'rope_type': 'default', 'rope_theta': 1e4, 'partial_rotary_factor': 1.0}}},
            'gate of attention': {'weights': (('q_proj', half_zero),)},
            'shared expert': {'weights': (('shared_expert.down', 0.0),)}, 'gate of the shared expert': {'weights': (('shared_expert_gate', 0.0),)}},
           ((r'linear_attn\.norm', around(1.0, 0.2)), *ZERO_CENTRED)),
    Family('bamba', 'BambaForCausalLM', 'BambaConfig',
           'Mamba-2 with groups and bounds of the time step, attention with rope of a half',
           {'num_hidden_layers': 3, 'attn_layer_indices': [1], 'intermediate_size': 64, **MAMBA2, 'time_step_limit': (0.05, 0.6),
            'rope_parameters': {'rope_type': 'default', 'rope_theta': 10000.0, 'partial_rotary_factor': 0.5}},
           {'convolution': LAST_TAP, 'bias of the convolution': {'weights': (('conv1d.bias', 0.0),)}, 'decay': {'weights': (('A_log', -30.0),)},
            'skip': {'weights': (('mamba.D', 0.0),)}, 'bounds of the time step': {'config': {'time_step_limit': (0.0, 100.0)}},
            'bias of the time step': {'weights': (('dt_bias', 0.0),)}}),
    Family('deepseek_v3', 'DeepseekV3ForCausalLM', 'DeepseekV3Config',
           'MLA with low-rank queries and interleaved rope under YaRN; one dense layer, then experts in groups, sigmoid scores and a bias',
           {'num_hidden_layers': 3, 'intermediate_size': 32, 'moe_intermediate_size': 16, 'n_routed_experts': 8, 'n_shared_experts': 1,
            'n_group': 4, 'topk_group': 2, 'num_experts_per_tok': 3, 'first_k_dense_replace': 1, 'routed_scaling_factor': 2.5,
            'kv_lora_rank': 32, 'q_lora_rank': 24, 'qk_rope_head_dim': 16, 'qk_nope_head_dim': 16, 'v_head_dim': 16,
            'num_key_value_heads': 4, 'num_mtp_layers': 0,
            'rope_parameters': {'rope_type': 'yarn', 'rope_theta': 10000.0, 'factor': 8.0, 'beta_fast': 32.0, 'beta_slow': 1.0,
                                'mscale': 1.0, 'mscale_all_dim': 1.0, 'original_max_position_embeddings': 32}},
           {'rope scaling': {'config': {'rope_parameters': {'rope_type': 'default', 'rope_theta': 10000.0}}},
            'order of rope': {'config': {'rope_interleave': False}}, 'bias of the router': {'weights': (('e_score_correction_bias', 0.0),)},
            'groups of experts': {'config': {'n_group': 1, 'topk_group': 1}}, 'scale of experts': {'config': {'routed_scaling_factor': 1.0}},
            'norm of latent rows': {'weights': (('kv_a_layernorm', 1.0),)}},
           ((r'(q_b|kv_a)', gain(1.6)),), common=dict(COMMON, num_attention_heads=4, max_position_embeddings=256)),
    Family('jamba', 'JambaForCausalLM', 'JambaConfig',
           'Mamba-1 with norms of its projections, attention without positions, experts in every other layer',
           {'num_hidden_layers': 4, 'attn_layer_period': 3, 'attn_layer_offset': 1, 'expert_layer_period': 2, 'expert_layer_offset': 1,
            'num_experts': 4, 'num_experts_per_tok': 2, 'intermediate_size': 24, 'mamba_d_state': 8, 'mamba_d_conv': 4, 'mamba_expand': 2,
            'mamba_dt_rank': 4, 'use_mamba_kernels': False},
           {'convolution': LAST_TAP, 'bias of the convolution': {'weights': (('conv1d.bias', 0.0),)}, 'decay': {'weights': (('A_log', -30.0),)},
            'skip': {'weights': (('mamba.D', 0.0),)}, 'bias of the time step': {'weights': (('dt_proj.bias', 0.0),)},
            'norm of b': {'weights': (('b_layernorm', 1.0),)}},
           common=dict(COMMON, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256)),
    Family('qwen3_moe', 'Qwen3MoeForCausalLM', 'Qwen3MoeConfig',
           'experts in all layers but those that mlp_only_layers names',
           {'num_hidden_layers': 3, 'intermediate_size': 48, 'mlp_only_layers': [1], 'decoder_sparse_step': 1, 'num_experts': 6,
            'num_experts_per_tok': 2, 'moe_intermediate_size': 16, 'norm_topk_prob': True,
            'rope_parameters': {'rope_type': 'default', 'rope_theta': 10000.0}},
           {'norm of keys': {'weights': (('k_norm', 1.0),)}, 'weights of experts': {'config': {'norm_topk_prob': False}}},
           ((r'(q|k)_norm', around(1.4, 0.4)),)),
    Family('qwen3_5', 'Qwen3_5ForCausalLM', 'Qwen3_5TextConfig',
           'gated delta nets with projections of their own and a dense MLP, attention with a gate and rope of a quarter',
           {'num_hidden_layers': 3, 'layer_types': ['linear_attention', 'full_attention', 'linear_attention'], **DELTA, 'intermediate_size': 48,
            'rope_parameters': {'rope_type': 'default', 'rope_theta': 10000.0, 'partial_rotary_factor': 0.25,
                                'mrope_section': [1, 1, 0], 'mrope_interleaved': True}},
           {'convolution': LAST_TAP, 'decay': {'weights': (('A_log', -30.0),)}, 'gate of attention': {'weights': (('q_proj', half_zero),)},
            'strength of updates': {'weights': (('in_proj_b', 0.0),)}},
           ((r'linear_attn\.norm', around(1.0, 0.2)), *ZERO_CENTRED)),
    Family('granite_hybrid', 'GraniteMoeHybridForCausalLM', 'GraniteMoeHybridConfig',
           'Mamba-2, attention without positions, experts and a shared MLP, four multipliers',
           {'num_hidden_layers': 3, 'layer_types': ['linear_attention', 'full_attention', 'linear_attention'], **MAMBA2, 'intermediate_size': 16,
            'num_local_experts': 4, 'num_experts_per_tok': 2, 'shared_intermediate_size': 24, 'embedding_multiplier': 3.0,
            'residual_multiplier': 0.6, 'attention_multiplier': 0.15, 'logits_scaling': 2.0, 'position_embedding_type': None,
            'time_step_limit': (0.0, 100.0)},
           {'convolution': LAST_TAP, 'decay': {'weights': (('A_log', -30.0),)}, 'skip': {'weights': (('mamba.D', 0.0),)},
            'multiplier of embeddings': {'config': {'embedding_multiplier': 1.0}}, 'of residuals': {'config': {'residual_multiplier': 1.0}},
            'of attention': {'config': {'attention_multiplier': 0.25}}, 'of logits': {'config': {'logits_scaling': 1.0}},
            'shared MLP': {'weights': (('shared_mlp.output', 0.0),)}},
           common=dict(COMMON, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=256)),
    Family('nemotron_h', 'NemotronHForCausalLM', 'NemotronHConfig',
           'one mixer in each layer: Mamba-2 with grouped norms, attention without positions, MLP and experts with squared ReLU',
           {'layers_block_type': ['linear_attention', 'moe', 'full_attention', 'mlp', 'linear_attention'], 'intermediate_size': 48,
            'ssm_state_size': 16, 'mamba_num_heads': 4, 'mamba_head_dim': 16, 'n_groups': 2, 'conv_kernel': 4, 'chunk_size': 16,
            'n_routed_experts': 6, 'num_experts_per_tok': 2, 'n_shared_experts': 1, 'moe_intermediate_size': 16,
            'moe_shared_expert_intermediate_size': 24, 'routed_scaling_factor': 2.0, 'n_group': 1, 'topk_group': 1,
            'use_mamba_kernels': False, 'rescale_prenorm_residual': False, 'time_step_limit': (0.0, 100.0)},
           {'convolution': LAST_TAP, 'decay': {'weights': (('A_log', -30.0),)}, 'skip': {'weights': (('mixer.D', 0.0),)},
            'bias of the router': {'weights': (('e_score_correction_bias', 0.0),)}, 'scale of experts': {'config': {'routed_scaling_factor': 1.0}},
            'shared expert': {'weights': (('shared_experts.down', 0.0),)}}),
    Family('falcon_h1', 'FalconH1ForCausalLM', 'FalconH1Config',
           'Mamba-2 and attention side by side in every layer, gate without norm, a dozen multipliers',
           {'num_hidden_layers': 3, 'intermediate_size': 48, **MAMBA2, 'mamba_d_ssm': 64, 'mamba_rms_norm': False,
            'mamba_norm_before_gate': False, 'embedding_multiplier': 1.5, 'lm_head_multiplier': 0.5, 'key_multiplier': 0.7,
            'attention_in_multiplier': 0.8, 'attention_out_multiplier': 1.3, 'ssm_in_multiplier': 1.2, 'ssm_out_multiplier': 0.7,
            'ssm_multipliers': [0.8, 1.3, 0.7, 1.2, 0.6], 'mlp_multipliers': [1.4, 0.6], 'time_step_limit': (0.0, 100.0),
            'rope_parameters': {'rope_type': 'default', 'rope_theta': 10000.0}},
           {'convolution': LAST_TAP, 'decay': {'weights': (('A_log', -30.0),)}, 'skip': {'weights': (('mamba.D', 0.0),)},
            'Mamba': {'config': {'ssm_out_multiplier': 0.0}}, 'attention': {'config': {'attention_out_multiplier': 0.0}},
            **{field: {'config': {field: 1.0}} for field in (
                'embedding_multiplier', 'lm_head_multiplier', 'key_multiplier', 'attention_in_multiplier', 'attention_out_multiplier',
                'ssm_in_multiplier', 'ssm_out_multiplier')},
            **{f'ssm_multipliers[{i}]': {'config': {'ssm_multipliers': [1.0 if i == at else value for at, value in enumerate(
                [0.8, 1.3, 0.7, 1.2, 0.6])]}} for i in range(5)},
            'mlp_multipliers[0]': {'config': {'mlp_multipliers': [1.0, 0.6]}}, 'mlp_multipliers[1]': {'config': {'mlp_multipliers': [1.4, 1.0]}}}),
    Family('llama4', 'Llama4ForCausalLM', 'Llama4TextConfig',
           'chunked attention with interleaved rope and norms of queries and keys; full layers without positions whose queries grow with '
           'the position; one expert by sigmoid and a shared one, or a dense MLP',
           {'num_hidden_layers': 3, 'intermediate_size': 16, 'intermediate_size_mlp': 32, 'num_local_experts': 4, 'num_experts_per_tok': 1,
            'moe_layers': [0, 2], 'no_rope_layers': [1, 0, 1], 'attention_chunk_size': 24, 'use_qk_norm': True,
            'attn_temperature_tuning': True, 'floor_scale': 16, 'attn_scale': 0.5,
            'rope_parameters': {'rope_type': 'llama3', 'rope_theta': 10000.0, 'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0,
                                'original_max_position_embeddings': 64}},
           {'chunks': {'config': {'attention_chunk_size': 256}}, 'temperature': {'config': {'attn_temperature_tuning': False}},
            'norm of queries and keys': {'config': {'use_qk_norm': False}},
            'rope scaling': {'config': {'rope_parameters': {'rope_type': 'default', 'rope_theta': 10000.0}}},
            'shared expert': {'weights': (('shared_expert.down', 0.0),)}}),
    Family('lfm2', 'Lfm2ForCausalLM', 'Lfm2Config',
           'short convolutions between two gates; attention with norms of queries and keys',
           {'num_hidden_layers': 4, 'layer_types': ['conv', 'full_attention', 'conv', 'conv'], 'conv_L_cache': 3, 'intermediate_size': 72,
            'block_multiple_of': 16, 'block_auto_adjust_ff_dim': True, 'rope_parameters': {'rope_type': 'default', 'rope_theta': 10000.0}},
           {'convolution': {'weights': (('conv.conv.weight', only_last_tap),)}, 'norm of keys': {'weights': (('k_layernorm', 1.0),)}},
           ((r'(q|k)_layernorm', around(1.3, 0.4)), (r'conv\.weight', gain(1.3)), (r'embed_tokens', around(0.0, 0.5))),
           common=dict(COMMON, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=256)),
    Family('lara_mini', 'LaraMiniForCausalLM', 'LaraMiniConfig',
           'the class of the model in the box: gated delta nets, windows with rope, full attention without positions, experts and a shared one',
           {'num_hidden_layers': 3, 'layer_types': ['linear_attention', 'sliding_attention', 'full_attention'], **DELTA, 'sliding_window': 20,
            'num_experts': 4, 'num_experts_per_tok': 2, 'moe_intermediate_size': 16, 'shared_expert_intermediate_size': 16,
            'tie_word_embeddings': True, 'rope_parameters': {'rope_type': 'default', 'rope_theta': 10000.0}},
           {'convolution': LAST_TAP, 'decay': {'weights': (('A_log', -30.0),)}, 'window': {'config': {'sliding_window': 256}},
            'shared expert': {'weights': (('shared_expert.down', 0.0),)},
            'rope of windows': {'config': {'rope_parameters': {'rope_type': 'default', 'rope_theta': 100.0}}}},
           ((r'(q|k)_norm', around(1.4, 0.4)), (r'embed', around(0.0, 0.35)))),
    Family('whisper', 'WhisperForConditionalGeneration', 'WhisperConfig',
           'encoder over features, decoder with learned positions and cross attention',
           {'vocab_size': VOCABULARY, 'num_mel_bins': 16, 'd_model': 32, 'encoder_layers': 2, 'decoder_layers': 2, 'encoder_attention_heads': 2,
            'decoder_attention_heads': 2, 'encoder_ffn_dim': 48, 'decoder_ffn_dim': 48, 'max_source_positions': 32,
            'max_target_positions': 96, 'pad_token_id': 0, 'bos_token_id': 1, 'eos_token_id': 2, 'decoder_start_token_id': 1,
            'suppress_tokens': None, 'begin_suppress_tokens': None},
           {'cross attention': {'weights': (('encoder_attn.out_proj', 0.0),)}, 'positions of the encoder': {'weights': (('encoder.embed_pos', 0.0),)},
            'positions of the decoder': {'weights': (('decoder.embed_pos', 0.0),)}},
           ((r'embed_positions', around(0.0, 0.4)), (r'embed_tokens|proj_out', around(0.0, 0.35))), common={}),
)
TABLE = {family.name: family for family in ROWS}
# The trained model of samples/lm/box: what it is asked is recorded, too. The first two share their first turn.
BOX = Family('box', 'LaraMiniForCausalLM', 'LaraMiniConfig', 'trained by samples/lm/box/train.py', {'num_experts': 4})
ASKED = (('What is padding?', 'And what is a miss?'), ('What is padding?', 'Thank you'), ('What is the licence of quire?',))



def encoder_inputs(family, random_of):
    """Features [frames, mel] of each sequence, or nothing."""
    if family.name != 'whisper':
        return [None, None, None]
    shape = 2 * family.fields['max_source_positions'], family.fields['num_mel_bins']
    return [torch.from_numpy(random_of(family.name, f'encoder.{i}').standard_normal(shape)).to(torch.float32) for i in range(3)]


def forward_inputs(family, tokens, encoder, dtype):
    if encoder is None:
        return {'input_ids': tokens}
    return {'input_features': encoder.to(dtype).T[None], 'decoder_input_ids': tokens}
