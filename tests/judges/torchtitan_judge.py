"""torchtitan: its parser of TOML, its mesh of the degrees, its pipeline schedules."""
import judge

judge.torch_alone()
judge.stand_in('triton')
from torch.distributed.pipelining.schedules import get_schedule_class  # noqa: E402
from torchtitan.config.manager import ConfigManager  # noqa: E402
from torchtitan.distributed.parallel_dims import ParallelDims  # noqa: E402


def accept(path, world):
    config = ConfigManager().parse_args(['--job.config_file', path])
    p = config.parallelism
    ParallelDims(dp_shard=p.data_parallel_shard_degree, dp_replicate=p.data_parallel_replicate_degree,
                 cp=p.context_parallel_degree, tp=p.tensor_parallel_degree,
                 pp=p.pipeline_parallel_degree, ep=p.expert_parallel_degree,
                 etp=p.expert_tensor_parallel_degree, world_size=world)
    get_schedule_class(p.pipeline_parallel_schedule)
    kept = config.activation_checkpoint
    assert kept.mode in ('none', 'full') or kept.selective_ac_option == 'op', kept
    copies = world // (p.context_parallel_degree * p.tensor_parallel_degree
                       * p.pipeline_parallel_degree)
    batch, local = config.training.global_batch_size, config.training.local_batch_size
    assert batch % (local * copies) == 0, (batch, local, copies)


judge.judge('torchtitan', 'torchtitan 0.2.2', accept)
