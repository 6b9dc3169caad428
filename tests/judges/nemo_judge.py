"""NeMo: MegatronStrategy, the model's config as the strategy sets it, process groups, precision,
data and optimizer of what a recipe is given. What needs a GPU to be imported is stood in for."""
import importlib.metadata
import inspect
import os
import re
import types

import judge

judge.bridge_stand_ins()
judge.stand_in('nv_one_logger', 'nemo.lightning.one_logger_callback', 'nemo_run', 'lhotse',
               'sentencepiece', 'braceexpand', 'webdataset', 'nvidia_resiliency_ext', 'jiwer',
               'librosa', 'soundfile', 'ruamel', 'editdistance', 'onnx', 'pandas', 'sklearn',
               'matplotlib', 'zarr', 'tensorstore', 'bitsandbytes', 'cloudpickle', 'sacrebleu',
               'peft', 'nltk', 'rouge_score', 'ftfy', 'tiktoken', 'h5py', 'wget', 'torchvision',
               'multi_storage_client', 'opencc', 'numba')
installed = importlib.metadata.version
importlib.metadata.version = lambda name: '2.10.0' if name == 'transformer-engine' else installed(name)
import torch  # noqa: E402
import yaml  # noqa: E402
from megatron.core import num_microbatches_calculator as batches  # noqa: E402
from megatron.core import parallel_state  # noqa: E402
from megatron.core.distributed import DistributedDataParallelConfig  # noqa: E402
from megatron.core.optimizer import OptimizerConfig  # noqa: E402
from nemo.collections.llm.gpt.data.mock import MockDataModule  # noqa: E402
from nemo.collections.llm.gpt.model.base import GPTConfig  # noqa: E402
from nemo.lightning import _strategy_lib  # noqa: E402
from nemo.lightning.pytorch.plugins.mixed_precision import MegatronMixedPrecision  # noqa: E402
from nemo.lightning.pytorch.strategies.megatron_strategy import MegatronStrategy  # noqa: E402


def layers(strategy):
    """As many as the layout has, or as all stages share."""
    layout = strategy.get('pipeline_model_parallel_layout')
    if not layout:
        return 2 * strategy.get('pipeline_model_parallel_size', 1)
    return sum(int(count or 1) for count in re.findall(r't(?:\*(\d+))?', layout))


def model(strategy, given):
    """What a recipe of theirs would be for a model that can be split as the plan says."""
    experts = strategy.get('expert_model_parallel_size', 1)
    heads = 96 * strategy.get('tensor_model_parallel_size', 1)
    return GPTConfig(
        num_layers=layers(strategy), hidden_size=heads * 128, num_attention_heads=heads,
        num_moe_experts=None if experts == 1 else 2 * experts, moe_router_topk=2,
        add_bias_linear=experts == 1,
        mtp_num_layers=(strategy.get('pipeline_model_parallel_layout') or '').count('m') or None,
        **given)


def groups(strategy, world):
    judge.fake_group(world)
    _strategy_lib.init_parallel_ranks(world, 0, 0, strategy.parallelism)
    _strategy_lib.init_model_parallel()
    return parallel_state.get_data_parallel_world_size()


def accept(path, world):
    os.environ.update(WORLD_SIZE=str(world), RANK='0')
    given = yaml.safe_load(open(path))
    split = given['trainer']['strategy']
    ddp = DistributedDataParallelConfig(**split.pop('ddp', {}))
    precision = given['trainer'].get('plugins', {})
    dtype = torch.float32
    if precision:
        dtype = MegatronMixedPrecision(**precision).dtype_config.pipeline_dtype
    made = model(split, given['model']['config'])
    # What it does not know it hands on to whatever takes it.
    assert set(split) <= set(inspect.signature(MegatronStrategy).parameters), split
    strategy = MegatronStrategy(ddp=ddp, pipeline_dtype=dtype, use_gloo_process_groups=False,
                                **split)
    strategy._precision_plugin = None
    owner = types.SimpleNamespace(config=made, configure_model=None)
    _strategy_lib.set_model_parallel_attributes(owner, strategy.parallelism)
    OptimizerConfig(**given['optim']['config'])
    # Without one it asks for one that it would have to download.
    MockDataModule(tokenizer=object(), num_train_samples=1, num_val_samples=1, num_test_samples=1,
                   **given['data'])
    copies = groups(strategy, world)
    batches.unset_num_microbatches_calculator()
    batches.init_num_microbatches_calculator(0, None, given['data']['global_batch_size'],
                                             given['data']['micro_batch_size'], copies)
    parallel_state.destroy_model_parallel()


judge.judge('nemo', 'NeMo 2.7.3', accept)
