"""What the judges share: the files of a target, a count of what its parser says of them, and
stand-ins for packages that a parser imports and does not need."""
import glob
import importlib.abc
import importlib.machinery
import os
import re
import sys
import types


def files(target):
    """(path, GPUs) of every drawn export of the target."""
    for path in sorted(glob.glob(os.path.join(sys.argv[1], target + '-*'))):
        match = re.match(re.escape(target) + r'-\d+-(\d+)-', os.path.basename(path))
        if match:
            yield path, int(match.group(1))


def judge(target, program, accept):
    """Calls accept(path, world) for every file; prints what it raised, and the count."""
    right, wrong = 0, 0
    for path, world in files(target):
        try:
            accept(path, world)
            right += 1
        except (Exception, SystemExit) as fault:
            wrong += 1
            if wrong <= 10:
                text = ' '.join(str(fault).split())[:300]
                print(f'{os.path.basename(path)}: {type(fault).__name__}: {text}')
    print(f'{program}: {right} of {right + wrong} accepted')
    sys.exit(1 if wrong or not right else 0)


class Anything(type):
    """A class that is a base, a decorator and a constant, and has every attribute."""

    def __getattr__(cls, name):
        if name.startswith('__'):
            raise AttributeError(name)
        return Anything(name, (), {'__init__': lambda self, *given, **named: None,
                                   '__call__': lambda self, *given, **named: self})

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __getitem__(cls, key):
        return cls


class StandIn(types.ModuleType):
    __path__ = []
    __version__ = '2.10.0'

    def __getattr__(self, name):
        return getattr(Anything('Anything', (), {}), name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        known = [top for top in self.names if name == top or name.startswith(top + '.')]
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


def stand_in(*names):
    """The packages, which are not installed, can be imported and hold anything."""
    sys.meta_path.insert(0, Finder(names))


def torch_alone():
    """What of torch looks for these packages by itself, before stand-ins are there."""
    import torch._inductor.compile_fx  # noqa: F401


def bridge_stand_ins():
    torch_alone()
    stand_in('transformer_engine', 'mamba_ssm', 'modelopt', 'wandb', 'causal_conv1d', 'triton',
             'megatron.energon')


def colossalai_stand_ins():
    torch_alone()
    stand_in('triton', 'peft', 'diffusers', 'ray', 'bitsandbytes', 'tensornvme', 'apex', 'fabric',
             'flash_attn', 'galore_torch', 'contexttimer', 'plumbum', 'rpyc', 'sentencepiece',
             'uvicorn', 'google')


def mindformers_stand_ins():
    stand_in('transformers', 'tokenizers', 'datasets', 'jieba', 'rouge_chinese', 'nltk',
             'sentencepiece', 'tiktoken', 'pyarrow', 'setproctitle', 'rouge_score', 'ftfy', 'regex',
             'mindspore_gs', 'ms_custom_ops', 'requests', 'mindpet', 'urllib3', 'tensorboardX')


def fake_group(world):
    """A process group of so many ranks without the others."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group('fake', rank=0, world_size=world, store=FakeStore())
