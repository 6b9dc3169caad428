"""Exports of three models to every target: shown.py MESHWRIGHT FOLDER.

Keeps the options in FOLDER for the judges, holds what is imported of them against the plan, the
time and the memory of what was imported against the plan's, and checks what launchers are given:
bash, shellcheck where it is installed, and the schema of Kubernetes."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

MESHWRIGHT, FOLDER = os.path.abspath(sys.argv[1]), sys.argv[2]
MODELS = ('llama-3-70b', 'mixtral-8x7b', 'deepseek-v3')
# Where nothing fits the first the next is taken, with whatever can be moved off its devices.
CLUSTERS = {'mindspore': [('ascend-910b-x32', 'none')]}
ANY_CLUSTER = [('dgx-h100-x32', 'none'), ('dgx-h200-x32', 'auto')]
FILES = {'megatron': 'arguments.sh', 'megatron-deepspeed': 'arguments.sh',
         'megatron-bridge': 'overrides.yaml', 'nemo': 'recipe.yaml', 'torchtitan': '*.toml',
         'deepspeed': 'ds_config.json', 'accelerate': 'accelerate.yaml',
         'colossalai': 'plugin.py', 'mindspore': 'train.yaml'}
LAUNCHERS = ('torchrun', 'slurm', 'kubernetes', 'mpirun')
# Arrays and names that the file which sources them uses, and quotes that another shell expands.
SHELLCHECK = ['shellcheck', '-x', '-s', 'bash', '-e', 'SC2034,SC2016']


def call(*command, **named):
    return subprocess.run(command, capture_output=True, text=True, **named)


# What is not told where it is so; kinds and schedules mean nothing where there is one rank.
UNTOLD = {'tp': [1], 'cp': [1], 'ep': [1], 'etp': [1], 'pp': [1], 'tp_kind': ['1d'], 'sp': [False],
          'vpp': [1], 'zero_group': [0], 'in_flight': [0], 'bucket_bytes': [0],
          'recompute_layers': [-1]}
IDLE = {'cp_kind': 'cp', 'schedule': 'pp'}
# What the launcher's GPUs or the script say, and no option of the program's.
ELSEWHERE = {'megatron-bridge': 'dp', 'nemo': 'dp', 'colossalai': 'dp', 'accelerate': 'micro_batch'}
REFUSED = [('deepseek-v3', 'megatron-deepspeed')]  # it has no latent attention


def is_told(parallel, key, target):
    if key == ELSEWHERE.get(target):
        return False
    if key in IDLE:
        return parallel[IDLE[key]] > 1
    # Passes are those of the software.
    return key != 'passes' and parallel[key] not in UNTOLD.get(key, [])


def differences(plan, read, target):
    """What the import says otherwise than the plan, or does not say."""
    for key in plan['parallel']:
        if key not in read['parallel'] and is_told(plan['parallel'], key, target):
            yield f'{key}: {plan["parallel"][key]} was not imported'
    for key, value in read['parallel'].items():
        if key in plan['parallel'] and plan['parallel'][key] != value:
            yield f'{key}: {plan["parallel"][key]} was imported as {value}'
    for key, value in read['workload'].items():
        if plan['workload'].get(key, value) != value:
            yield f'{key}: {plan["workload"][key]} was imported as {value}'


def priced(plan, path, cluster):
    """Whether what is imported is priced as the plan is."""
    model = ['--seq-len', str(plan['workload']['seq_len'])]
    text = call(MESHWRIGHT, 'plan', '--from', path, cluster, '--top', '1', *model, '-o',
                os.path.join(FOLDER, 'priced.json'), '--force').stdout
    found = re.search(r': (\S+) s a step, (\S+) GiB', text)
    wanted = plan['prediction']['step_s'], plan['memory']['peak_bytes'] / 2**30
    if not found or any(abs(float(text) / number - 1) > 1e-3
                        for text, number in zip(found.groups(), wanted)):
        yield 'priced as %s, not %.4g s and %.1f GiB' % (found and found[0], *wanted)


def launched(plan, target):
    """How many of the files that the launchers are given are right, and what is wrong."""
    for launcher in LAUNCHERS:
        folder = os.path.join(FOLDER, 'launched', target, launcher)
        done = call(MESHWRIGHT, 'export', plan, '--to', target, '--launcher', launcher, '-o', folder)
        if done.returncode:
            yield done.stderr
        for path in glob.glob(folder + '/*.sh') + glob.glob(folder + '/*.sbatch'):
            yield call('bash', '-n', path).stderr
            if shutil.which('shellcheck'):
                yield call(*SHELLCHECK, os.path.basename(path), cwd=folder).stdout
        for path in glob.glob(folder + '/launch.yaml'):
            program = os.path.join(os.path.dirname(sys.executable), 'kubernetes-validate')
            done = call(program, '--strict', '--quiet', path)
            yield done.stdout + done.stderr if done.returncode else ''


def show(model, target, number):
    """One line of what came of it; False where it is wrong."""
    plan = os.path.join(FOLDER, f'{model}-{target}.json')
    for cluster, offload in CLUSTERS.get(target, ANY_CLUSTER):
        done = call(MESHWRIGHT, 'plan', model, cluster, '--for', target, '--seq-len', '4096',
                    '--global-batch', '1024', '--offload', offload, '-o', plan)
        if done.returncode != 1:
            break
    if done.returncode in (1, 2) and not os.path.exists(plan):
        return (model, target) in REFUSED, 'no plan: ' + done.stderr.strip().splitlines()[-1][:160]
    folder = os.path.join(FOLDER, 'shown', target, model)
    done = call(MESHWRIGHT, 'export', plan, '--to', target, '-o', folder)
    if done.returncode:
        return False, done.stderr.strip()
    path, = glob.glob(os.path.join(folder, FILES[target]))
    read = json.loads(call(MESHWRIGHT, 'import', path, '--json').stdout)
    made = json.load(open(plan))
    wrong = list(differences(made, read, target)) + list(priced(made, path, cluster))
    world = sum(1 for _ in open(os.path.join(folder, 'rank-map.csv'))) - 1
    shutil.copy(path, os.path.join(FOLDER, f'{target}-{number}-{world}-{os.path.basename(path)}'))
    if model == MODELS[0]:
        wrong += [text.strip() for text in launched(plan, target) if text.strip()]
    said = f'on {cluster}, {len(read["parallel"])} choices came back, {len(read["unknown"])} options unknown'
    return not wrong, '; '.join([said] + wrong)


is_right = True
for number, model in enumerate(MODELS):
    for target in FILES:
        right, text = show(model, target, 900 + number)
        is_right = is_right and right
        print(f'{model} to {target}: {text}')
print('bash -n, ' + ('shellcheck, ' if shutil.which('shellcheck') else '')
      + 'kubernetes-validate: what the launchers are given')
sys.exit(0 if is_right else 1)
