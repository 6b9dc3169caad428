"""Writes the options that a program takes, asked of its own parser: option_tables.py TARGET FILE.

A line an option, as exchange/options/ keeps them: names as the exported files have them."""
import argparse
import ast
import dataclasses
import enum
import inspect
import os
import re
import sys
import types
import typing

import judge

PLAIN = {int: 'int', float: 'float', bool: 'bool', str: 'str', list: 'list', tuple: 'list'}
ROWS = {}


def kind_of(annotation):
    """(type, choices) of an annotation; 'any' where it is neither one type nor several words."""
    if isinstance(annotation, str):
        annotation = {'int': int, 'float': float, 'bool': bool, 'str': str}.get(annotation)
    if annotation in PLAIN:
        return PLAIN[annotation], ''
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return 'str', '|'.join(str(part) for part in parts)
    if origin in (list, tuple):
        return 'list', ''
    if origin in (typing.Union, types.UnionType):
        parts = [part for part in parts if part is not type(None)]
        return kind_of(parts[0]) if len(parts) == 1 else ('any', '')
    return 'any', ''


def add(name, kind='Field', type_='any', choices='', default='', nargs=''):
    default = ' '.join(str(default).split())
    if len(default) > 60 or default.startswith('<') or ' at 0x' in default:
        default = ''
    dest = name.split(' ')[-1].split('.')[-1].strip('-').replace('-', '_')
    ROWS.setdefault(name, '\t'.join([name, dest, kind, type_, nargs, choices, default]))


def add_fields(prefix, made):
    for field in dataclasses.fields(made):
        type_, choices = kind_of(field.type)
        default = '' if field.default is dataclasses.MISSING else field.default
        add(prefix + field.name, 'Field', type_, choices, default)


def add_arguments(prefix, call):
    for name, value in inspect.signature(call).parameters.items():
        if value.kind in (value.VAR_KEYWORD, value.VAR_POSITIONAL) or name == 'self':
            continue
        type_, choices = kind_of(value.annotation)
        add(prefix + name, 'Argument', type_, choices,
            '' if value.default is value.empty else value.default)


def add_parser(prefix, parser, keep=lambda action: True, name=None):
    for action in parser._actions:
        if not action.option_strings or not keep(action):
            continue
        is_flag = action.nargs == 0
        convert = getattr(action.type, '__name__', 'str')
        type_ = 'flag' if is_flag and name is None else 'bool' if is_flag else (
            convert if convert in ('int', 'float', 'str') else 'any')
        choices = '|'.join(str(one) for one in action.choices or ())
        shown = name(action) if name else ' '.join(action.option_strings)
        add(prefix + shown, type(action).__name__.strip('_').replace('Action', ''), type_, choices,
            action.default, '0' if type_ == 'flag' else '')


def source_arguments(path, class_name, prefix):
    """Arguments of a constructor, read in its source: what cannot be imported without a GPU."""
    for node in ast.walk(ast.parse(open(path).read())):
        if not isinstance(node, ast.ClassDef) or node.name != class_name:
            continue
        for item in node.body:
            if isinstance(item, ast.FunctionDef) and item.name == '__init__':
                given = item.args.args[1:] + item.args.kwonlyargs
                for argument in given:
                    note = ast.unparse(argument.annotation) if argument.annotation else ''
                    note = re.sub(r'^Optional\[(.*)\]$', r'\1', note)
                    add(prefix + argument.arg, 'Argument', kind_of(note)[0])
            elif isinstance(item, ast.AnnAssign):
                note = re.sub(r'^Optional\[(.*)\]$', r'\1', ast.unparse(item.annotation))
                add(prefix + item.target.id, 'Field', kind_of(note)[0])


def accelerate():
    from accelerate.commands.config.config_args import ClusterConfig
    from accelerate.commands.launch import launch_command_parser
    add_fields('', ClusterConfig)
    parser = launch_command_parser()
    for section, prefix in (('fsdp_config.', 'fsdp_'), ('megatron_lm_config.', 'megatron_lm_'),
                            ('parallelism_config.', 'parallelism_config_')):
        add_parser(section, parser, lambda action: action.dest.startswith(prefix),
                   lambda action: action.dest)
    group, = [one for one in parser._action_groups if one.title.startswith('DeepSpeed')]
    add_parser('deepspeed_config.', parser, lambda action: action in group._group_actions,
               lambda action: action.dest)
    add_parser('', parser)


def colossalai():
    judge.colossalai_stand_ins()
    from colossalai.booster.plugin import HybridParallelPlugin, MoeHybridParallelPlugin
    for plugin in HybridParallelPlugin, MoeHybridParallelPlugin:
        add_arguments(plugin.__name__ + '.', plugin.__init__)
    # No option of theirs: what is handed to the script beside the plugin.
    for name, type_ in (('num_layers', 'int'), ('micro_batch_size', 'int'), ('seq_length', 'int'),
                        ('global_batch_size', 'int'), ('gradient_checkpointing', 'bool'),
                        ('optimizer', 'str')):
        add('training.' + name, 'Ours', type_)


def torchtitan():
    judge.torch_alone()
    judge.stand_in('triton')
    from torchtitan.config import JobConfig

    def walk(prefix, made):
        for field in dataclasses.fields(made):
            kind = field.type
            if dataclasses.is_dataclass(kind):
                walk(prefix + field.name + '.', kind)
            else:
                type_, choices = kind_of(kind)
                add(prefix + field.name, 'Field', type_, choices,
                    '' if field.default is dataclasses.MISSING else field.default)
    walk('', JobConfig)


def deepspeed():
    from deepspeed import initialize
    from deepspeed.runtime import config, constants
    from deepspeed.runtime.activation_checkpointing import config as checkpointing
    from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
    from deepspeed.runtime.tensor_parallel.config import TPTrainingConfig
    from deepspeed.runtime.zero import config as zero
    from deepspeed.runtime.zero import offload_config as offload

    def walk(prefix, model):
        for name, field in model.model_fields.items():
            type_, choices = kind_of(field.annotation)
            if inspect.isclass(field.annotation) and issubclass(field.annotation, enum.Enum):
                choices = '|'.join(str(one.value) for one in field.annotation)
            add(prefix + (field.alias or name), 'Field', type_, choices)
    walk('zero_optimization.', zero.DeepSpeedZeroConfig)
    walk('zero_optimization.offload_optimizer.', offload.DeepSpeedZeroOffloadOptimizerConfig)
    walk('zero_optimization.offload_param.', offload.DeepSpeedZeroOffloadParamConfig)
    walk('tensor_parallel.', TPTrainingConfig)
    walk('bf16.', DeepSpeedBF16Config)
    walk('fp16.', DeepSpeedFP16Config)
    for name, value in vars(checkpointing).items():
        if name.startswith('ACT_CHKPT_') and isinstance(value, str) and '\n' not in value:
            add('activation_checkpointing.' + value, 'Key')
    # Keys of the top level are constants there, and asked for by these names.
    asked = set(re.findall(r'\b[A-Z][A-Z0-9_]+\b', inspect.getsource(config)))
    for name in sorted(asked):
        value = getattr(constants, name, None)
        if isinstance(value, str) and re.fullmatch(r'[a-z][a-z0-9_]*', value):
            add(value, 'Key')
    for name in ('data_parallel_size', 'sequence_parallel_size'):
        assert name in inspect.getsource(initialize), name
        add(name, 'Key', 'int')
    import torch
    add('optimizer.type', 'Key', 'str')
    add_arguments('optimizer.params.', torch.optim.AdamW.__init__)


def megatron_bridge():
    judge.bridge_stand_ins()
    from megatron.bridge.models import GPTModelProvider
    from megatron.bridge.training import config
    from megatron.bridge.training.comm_overlap import CommOverlapConfig
    from megatron.bridge.training.mixed_precision import MIXED_PRECISION_RECIPES
    hints = typing.get_type_hints(config.ConfigContainer)
    for name, made in hints.items():
        made = GPTModelProvider if name == 'model' else made
        made = CommOverlapConfig if name == 'comm_overlap' else made
        made = config.GPTDatasetConfig if name == 'dataset' else made
        if dataclasses.is_dataclass(made):
            add_fields(name + '.', made)
    add('dataset.seq_length', 'Property', 'int')
    add('comm_overlap._target_', 'Key', 'str')
    add('mixed_precision', 'Field', 'str', '|'.join(sorted(MIXED_PRECISION_RECIPES)))


def nemo():
    judge.bridge_stand_ins()
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig
    from megatron.core.transformer import TransformerConfig
    root = os.environ['NEMO_PATH'] + '/nemo/'
    source_arguments(root + 'lightning/pytorch/strategies/megatron_strategy.py', 'MegatronStrategy',
                     'trainer.strategy.')
    source_arguments(root + 'lightning/pytorch/plugins/mixed_precision.py',
                     'MegatronMixedPrecision', 'trainer.plugins.')
    source_arguments(root + 'collections/llm/gpt/data/mock.py', 'MockDataModule', 'data.')
    source_arguments(root + 'collections/llm/gpt/data/pre_training.py', 'PreTrainingDataModule',
                     'data.')
    add_fields('trainer.strategy.ddp.', DistributedDataParallelConfig)
    add_fields('model.config.', TransformerConfig)
    source_arguments(root + 'collections/llm/gpt/model/base.py', 'GPTConfig', 'model.config.')
    add_fields('optim.config.', OptimizerConfig)
    for section in ('trainer', 'model', 'data', 'optim', 'log', 'resume'):
        add(section, 'Section')  # of classes that were not read


def mindspore():
    judge.mindformers_stand_ins()
    from mindformers.parallel_core.transformer_config import MLATransformerConfig
    from mindformers.tools.register import MindFormerModuleType, MindFormerRegister
    from mindformers.tools.register.template import CONFIG_NAME_TO_CLASS
    from mindspore.parallel import _auto_parallel_context as graph
    from mindspore.parallel.cluster import run
    for section, known in CONFIG_NAME_TO_CLASS.items():
        if not known._raise_error_for_unexpected_key and section != 'parallel':
            add(section, 'Section')  # anything may stand in it
        if known._name in ('callbacks', 'eval_callbacks'):
            continue
        prefix = '' if section == 'general_config' else section + '.'
        for key in known.keys():
            default = getattr(known, key)
            type_ = PLAIN.get(type(default), 'any')
            # These take a list a stage as well.
            type_ = 'any' if section == 'recompute_config' else type_
            add(prefix + key, 'Key', type_, '', default)
    for key in graph._set_auto_parallel_context_func_map:
        add('parallel.' + key, 'Key')
    for made, section in ((graph._PipelineConfig, 'pipeline_config'),
                          (graph._ParallelOptimizerConfig, 'parallel_optimizer_config')):
        for value in vars(made).values():
            if isinstance(value, str) and re.fullmatch('[a-z][a-z_]+', value):
                add(f'parallel.{section}.{value}', 'Key')
    add_fields('model.model_config.', MLATransformerConfig)
    from mindformers.parallel_core.transformer_config_utils import COMMON_CONFIG_MAPPING
    for names in COMMON_CONFIG_MAPPING:
        for name in (names,) if isinstance(names, str) else names:
            add('model.model_config.' + name, 'Key')
    for section, kind, name in (('optimizer', MindFormerModuleType.OPTIMIZER, 'AdamW'),
                                ('lr_schedule', MindFormerModuleType.LR, 'ConstantWarmUpLR')):
        add_arguments(section + '.', MindFormerRegister.get_cls(kind, name))
        add(section + '.type', 'Key', 'str')
    from mindformers.dataset.dataloader import blended_megatron_dataloader
    for name in re.findall(r'config\.get\(["\'](\w+)', inspect.getsource(blended_megatron_dataloader)):
        add('train_dataset.data_loader.config.' + name, 'Key')
    for key in ('train_dataset.data_loader.type', 'trainer.type', 'trainer.model_name'):
        add(key, 'Key', 'str')
    taken = []
    argparse.ArgumentParser.parse_args = lambda self, *given: taken.append(self)
    run.get_args()
    add_parser('', taken[0])


globals()[sys.argv[1].replace('-', '_')]()
with open(sys.argv[2], 'w') as table:
    table.write('option\tdest\tkind\ttype\tnargs\tchoices\tdefault\n')
    for row in sorted(ROWS):
        table.write(ROWS[row] + '\n')
