"""A distributed checkpoint that two processes of PyTorch write, of rows and of columns, is read to
the bit."""
import json
import os
import subprocess
import sys
import tempfile

import torch
import torch.distributed
import torch.distributed.checkpoint
import torch.multiprocessing
from safetensors.torch import load_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

PROGRAM = os.path.abspath(os.environ['BUILD'] + '/meshwright')
MODEL = dict(model_type='llama', hidden_size=16, num_attention_heads=4, num_key_value_heads=2,
             num_hidden_layers=2, intermediate_size=24, vocab_size=200, max_position_embeddings=32)


def save(rank, folder, meeting):
    os.chdir(folder)
    torch.distributed.init_process_group('gloo', init_method=f'file://{meeting}', rank=rank,
                                         world_size=2)
    mesh = init_device_mesh('cpu', (2,))
    weights = {}
    for name, tensor in sorted(load_file('out/model.safetensors').items()):
        dim = 1 if name.endswith(('o_proj.weight', 'down_proj.weight')) else 0
        weights[name] = distribute_tensor(tensor, mesh, [Shard(dim)])
    torch.distributed.checkpoint.save({'state': {'model': weights}, 'step': torch.tensor(3)},
                                      checkpoint_id='dcp')
    torch.distributed.destroy_process_group()


def call(words):
    done = subprocess.run([PROGRAM, *words.split()], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)


def read(path):
    with open(path, 'rb') as file:
        return file.read()


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open('model.json', 'w') as file:
            json.dump(MODEL, file)
        call('plan model.json dgx-a100-80g --gpus 1 --precision fp32 --seq-len 16 --global-batch 1 '
             '--micro-batch 1 --stack meshwright -o plan.json')
        call('run plan.json --spawn --backend cpu --steps 1 --checkpoint ck --checkpoint-every 1')
        call('reshard ck --to huggingface -o out')
        torch.multiprocessing.spawn(save, (folder, folder + '/meeting'), nprocs=2)
        call('reshard dcp --to plan.json -o in')
        call('reshard in --to huggingface -o back')
        is_same = read('out/model.safetensors') == read('back/model.safetensors')
        os.chdir('/')
    print(f'torch.distributed.checkpoint {torch.__version__}: '
          + ('read to the bit' if is_same else 'read with differences'))
    sys.exit(not is_same)


if __name__ == '__main__':
    main()
