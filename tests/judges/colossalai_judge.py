"""Colossal-AI: the constructor of HybridParallelPlugin, on as many ranks as the plan has."""
import judge

judge.colossalai_stand_ins()
from colossalai.booster.plugin import HybridParallelPlugin  # noqa: E402


def accept(path, world):
    found = {}
    exec(open(path).read().replace('from colossalai', '# from colossalai'),
         {'HybridParallelPlugin': lambda **given: given}, found)
    judge.fake_group(world)
    plugin = HybridParallelPlugin(**found['plugin'])
    training = found['training']
    # Its dp_size counts the ranks of a sequence as well.
    copies = world // (plugin.tp_size * plugin.pp_size * plugin.sp_size)
    assert training['global_batch_size'] % (training['micro_batch_size'] * copies) == 0
    if found['plugin'].get('num_layers_per_stage'):
        assert sum(found['plugin']['num_layers_per_stage']) == training['num_layers']


judge.judge('colossalai', 'Colossal-AI 0.5.0', accept)
