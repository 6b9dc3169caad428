"""Colossal-AI: the constructor of HybridParallelPlugin, or for experts of MoeHybridParallelPlugin,
on as many ranks as the plan has."""
import functools

import judge

judge.colossalai_stand_ins()
from colossalai.booster.plugin import HybridParallelPlugin, MoeHybridParallelPlugin  # noqa: E402

PLUGINS = {plugin.__name__: plugin for plugin in (HybridParallelPlugin, MoeHybridParallelPlugin)}


def accept(path, world):
    found = {}
    exec(open(path).read().replace('from colossalai', '# from colossalai'),
         {name: functools.partial(lambda name, **given: (name, given), name) for name in PLUGINS},
         found)
    judge.fake_group(world)
    name, given = found['plugin']
    plugin = PLUGINS[name](**given)
    # What it sets otherwise than it was told it only warns of.
    assert plugin.zero_stage == given['zero_stage']
    assert plugin.zero_config['overlap_communication'] == given['overlap_communication']
    training = found['training']
    # Its dp_size counts the ranks of a sequence as well.
    copies = world // (plugin.tp_size * plugin.pp_size * plugin.sp_size)
    assert training['global_batch_size'] % (training['micro_batch_size'] * copies) == 0
    if given.get('num_layers_per_stage'):
        assert sum(given['num_layers_per_stage']) == training['num_layers']


judge.judge('colossalai', 'Colossal-AI 0.5.0', accept)
