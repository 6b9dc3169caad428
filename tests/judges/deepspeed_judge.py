"""DeepSpeed: its reader of ds_config.json, with as many copies as the plan has."""
import json

import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
import deepspeed.comm.comm as comm
from deepspeed.comm.torch import TorchBackend
from deepspeed.runtime.config import DeepSpeedConfig

import judge

comm.cdb = TorchBackend.__new__(TorchBackend)
comm.cdb.initialized = True


class Parallel:
    def __init__(self, model, data):
        self.model, self.data = model, data

    def get_model_parallel_world_size(self):
        return self.model

    def get_data_parallel_world_size(self):
        return self.data


def accept(path, world):
    given = json.load(open(path))
    data = (given['train_batch_size'] // given['train_micro_batch_size_per_gpu']
            // given['gradient_accumulation_steps'])
    assert world % data == 0, (world, data)
    sizes = [given[name] for name in ('data_parallel_size', 'sequence_parallel_size') if name in given]
    assert len(sizes) in (0, 2) and (not sizes or sizes[0] * sizes[1] == world), (sizes, world)
    dist.init_process_group('fake', rank=0, world_size=world, store=FakeStore())
    try:
        DeepSpeedConfig(path, mpu=Parallel(world // data, data))
    finally:
        dist.destroy_process_group()


judge.judge('deepspeed', 'DeepSpeed 0.19.8', accept)
