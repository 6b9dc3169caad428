"""accelerate: its reader of configurations, the parser of its launch command, the mesh and FSDP."""
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.parallelism_config import ParallelismConfig
from accelerate.utils import FullyShardedDataParallelPlugin

import judge

ACTIONS = {action.dest: action for action in launch_command_parser()._actions}


def check(section, prefix):
    """Keys of a section are options of the launch command, which reads over others."""
    for key, value in section.items():
        action = ACTIONS[key]
        assert key.startswith(prefix), key
        assert not action.choices or value in action.choices or str(value) in action.choices, value


def accept(path, world):
    given = yaml.safe_load(open(path))
    load_config_from_file(path)
    args = launch_command_parser().parse_args(['--config_file', path, 'train.py'])
    _validate_launch_command(args)
    mesh = given.get('parallelism_config', {})
    check(mesh, 'parallelism_config_')
    sizes = {key[len('parallelism_config_'):]: value for key, value in mesh.items()}
    strategy = sizes.pop('cp_comm_strategy', None)
    assert strategy in (None, 'allgather', 'alltoall'), strategy
    made = ParallelismConfig(**sizes)
    assert made.total_size == world == given['num_processes'], (made.total_size, world)
    if 'fsdp_config' in given:
        check(given['fsdp_config'], 'fsdp_')
        FullyShardedDataParallelPlugin(
            fsdp_version=given['fsdp_config']['fsdp_version'],
            reshard_after_forward=given['fsdp_config']['fsdp_reshard_after_forward'],
            state_dict_type=given['fsdp_config']['fsdp_state_dict_type'],
            auto_wrap_policy=given['fsdp_config']['fsdp_auto_wrap_policy'].lower())


judge.judge('accelerate', 'accelerate 1.15.0', accept)
