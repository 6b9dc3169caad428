"""Megatron-LM: its own command line, its checks and its model config of drawn argument lists.

Packages of Megatron-Core carry megatron.training from 0.17.0 on, and not for the 0.16.1 that
exports are written for: the next release judges, which takes all options that are exported."""
import os
import re
import shlex
import sys
import types

import torch

import judge

judge.torch_alone()
judge.stand_in('transformer_engine', 'triton')
from megatron.training import arguments

# What is asked of the GPU before fp8 and grouped products are allowed: an H100's answers.
torch.cuda.get_device_capability = lambda *of: (9, 0)
torch.cuda.get_device_properties = lambda *of: types.SimpleNamespace(major=9, minor=0)


def accept(path, world):
    text = re.search(r'ARGUMENTS=\(\n(.*)\n\)', open(path).read(), re.S).group(1)
    words = shlex.split(text, comments=True)
    os.environ.update(WORLD_SIZE=str(world), RANK='0', LOCAL_RANK='0')
    # As environment.sh says it.
    os.environ.pop('CUDA_DEVICE_MAX_CONNECTIONS', None)
    if '--use-megatron-fsdp' not in words:
        os.environ['CUDA_DEVICE_MAX_CONNECTIONS'] = '1'
    sys.argv = ['pretrain_gpt.py', *words]
    parsed = arguments.parse_args()
    arguments.validate_args(parsed)
    arguments.core_transformer_config_from_args(parsed)


judge.judge('megatron', 'Megatron-LM 0.17.1', accept)
