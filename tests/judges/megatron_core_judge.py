"""Megatron-Core: TransformerConfig, process groups and micro-batches of drawn argument lists."""
import dataclasses
import re
import shlex

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from megatron.core import num_microbatches_calculator as batches
from megatron.core import parallel_state
from megatron.core.transformer import MLATransformerConfig, TransformerConfig

import judge

# Options whose field of the config has another name, or which say it by being there.
NAMED = {
    'swiglu': {'gated_linear_unit': True, 'activation_func': torch.nn.functional.silu},
    'num_experts': 'num_moe_experts',
    'norm_epsilon': 'layernorm_epsilon',
    'disable_bias_linear': {'add_bias_linear': False},
    'ffn_hidden_size': 'ffn_hidden_size',
    'bf16': {'bf16': True, 'params_dtype': torch.bfloat16, 'pipeline_dtype': torch.bfloat16},
    'fp16': {'fp16': True, 'params_dtype': torch.float16, 'pipeline_dtype': torch.float16},
    'fp8_format': 'fp8',
    'moe_layer_freq': 'moe_layer_freq',
    'expert_tensor_parallel_size': 'expert_tensor_parallel_size',
}
# What Transformer Engine has to be there for, or a field of another class.
LEFT_OUT = {'fp8_format', 'fp8_recipe', 'fp4_format', 'fp4_recipe', 'position_embedding_type',
            'tp_comm_overlap', 'attention_backend', 'rotary_base'}


def options(path):
    """The array ARGUMENTS of the script: name to list of values."""
    text = re.search(r'ARGUMENTS=\(\n(.*)\n\)', open(path).read(), re.S).group(1)
    found, name = {}, None
    for word in shlex.split(text, comments=True):
        if word.startswith('--'):
            name = word[2:].replace('-', '_')
            found[name] = []
        else:
            found[name].append(word)
    return found


def value(words, current):
    if not words:
        return True
    if len(words) > 1 or isinstance(current, list):
        return words
    for kind in (int, float):
        try:
            return kind(words[0])
        except ValueError:
            pass
    return words[0]


def config(found):
    kind = MLATransformerConfig if 'multi_latent_attention' in found else TransformerConfig
    fields = {field.name: field for field in dataclasses.fields(kind)}
    given = {'pipeline_dtype': torch.float32}
    for name, words in found.items():
        if name in LEFT_OUT:
            continue
        as_named = NAMED.get(name, name)
        if isinstance(as_named, dict):
            given.update(as_named)
        elif as_named in fields:
            given[as_named] = value(words, None)
    if 'recompute_modules' in given and not isinstance(given['recompute_modules'], list):
        given['recompute_modules'] = [given['recompute_modules']]
    if 'moe_layer_freq' in given:
        given['moe_layer_freq'] = eval(found['moe_layer_freq'][0], {'__builtins__': {}})
    given['variable_seq_lengths'] = False
    return kind(**given)


def accept(path, world):
    found = options(path)
    number = lambda name, absent=1: int(found.get(name, [absent])[0])
    made = config(found)
    dist.init_process_group('fake', rank=0, world_size=world, store=FakeStore())
    try:
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=number('tensor_model_parallel_size'),
            pipeline_model_parallel_size=number('pipeline_model_parallel_size'),
            virtual_pipeline_model_parallel_size=made.virtual_pipeline_model_parallel_size,
            context_parallel_size=number('context_parallel_size'),
            expert_model_parallel_size=number('expert_model_parallel_size'),
            expert_tensor_parallel_size=number('expert_tensor_parallel_size'),
            num_distributed_optimizer_instances=number('num_distributed_optimizer_instances'),
            order='tp-cp-ep-pp-dp' if 'use_tp_pp_dp_mapping' in found else 'tp-cp-ep-dp-pp',
            create_gloo_process_groups=False)
        batches.unset_num_microbatches_calculator()
        batches.init_num_microbatches_calculator(
            0, None, number('global_batch_size'), number('micro_batch_size'),
            parallel_state.get_data_parallel_world_size())
    finally:
        parallel_state.destroy_model_parallel()
        dist.destroy_process_group()


judge.judge('megatron', 'Megatron-Core 0.16.1', accept)
