"""Megatron-Bridge: overrides merged over a recipe of a model that the plan is for, and validated."""
import os
import re

import torch
import judge

judge.bridge_stand_ins()
import yaml  # noqa: E402
from megatron.bridge.models import GPTModelProvider  # noqa: E402
from megatron.bridge.recipes.common import _pretrain_common  # noqa: E402
from megatron.bridge.training.comm_overlap import CommOverlapConfig  # noqa: E402
from megatron.bridge.training.mixed_precision import get_mixed_precision_config  # noqa: E402
from megatron.bridge.training.utils.omegaconf_utils import (  # noqa: E402
    apply_overrides, create_omegaconf_dict_config)
from omegaconf import OmegaConf  # noqa: E402

torch.cuda.get_device_properties = lambda *given: type('H100', (), {'major': 9, 'minor': 0})()


def layers(model):
    """As many as the layout has, or as all stages share."""
    layout = model.get('pipeline_model_parallel_layout')
    if not layout:
        return 2 * model.get('pipeline_model_parallel_size', 1)
    return sum(int(count or 1) for count in re.findall(r't(?:\*(\d+))?', layout))


def recipe(given):
    """What a recipe of theirs would be for a model that can be split as the plan says."""
    made, model = _pretrain_common(), given['model']
    experts = model.get('expert_model_parallel_size', 1)
    heads = 96 * model.get('tensor_model_parallel_size', 1)
    made.model = GPTModelProvider(
        num_layers=layers(model), hidden_size=heads * 128, num_attention_heads=heads, seq_length=4096,
        num_moe_experts=None if experts == 1 else 2 * experts, moe_router_topk=2,
        mtp_num_layers=(model.get('pipeline_model_parallel_layout') or '').count('m') or None)
    made.comm_overlap = None  # as most recipes have it
    return made


def accept(path, world):
    os.environ.update(WORLD_SIZE=str(world), RANK='0')
    given = yaml.safe_load(open(path))
    made = recipe(given)
    precision = given.get('mixed_precision')
    if precision:
        get_mixed_precision_config(precision)
    options, left_out = create_omegaconf_dict_config(made)
    options.dataset.seq_length = None  # a property of theirs, not a field
    OmegaConf.set_struct(options, True)  # a key that it does not have is dropped otherwise
    merged = OmegaConf.merge(options, OmegaConf.load(path))
    apply_overrides(made, OmegaConf.to_container(merged), left_out)
    assert isinstance(made.comm_overlap, CommOverlapConfig), made.comm_overlap
    made.validate()
    model = made.model
    splits = (model.tensor_model_parallel_size * model.pipeline_model_parallel_size
              * model.context_parallel_size)
    assert world % splits == 0, (world, splits)
    copies = world // splits
    assert made.train.global_batch_size % (made.train.micro_batch_size * copies) == 0


judge.judge('megatron-bridge', 'Megatron-Bridge 0.3.1', accept)
