"""Measures how much PyTorch keeps of a step, and holds `meshwright memory` against it: peaks.py MESHWRIGHT [FOLDER].

Each model does forward, cross entropy and backward on the CPU under a mode that sees every operator and adds up the
storages that it makes, those of parameters and data apart, until they are freed. The same model is written by
torch.export, decomposed as its exporter to ONNX does, attention, GELU and norms among the rest, and with what PyTorch
has as one kernel. What is printed is the row of tests/data/peaks.tsv; with FOLDER the programs are left there.
Needs torch (made with 2.15)."""
import json
import os
import subprocess
import sys
import tempfile
import weakref
import zipfile

import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Live(TorchDispatchMode):
    """Bytes of storages that operators made and nothing has freed."""
    def __init__(self, given):
        super().__init__()
        self.known = {tensor.untyped_storage()._cdata for tensor in given}
        self.now = self.peak = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        for tensor in tree_leaves(result):
            if not isinstance(tensor, torch.Tensor):
                continue
            storage = tensor.untyped_storage()
            if storage._cdata in self.known or storage.nbytes() == 0:
                continue
            self.known.add(storage._cdata)
            self.now += storage.nbytes()
            weakref.finalize(storage, self.free, storage._cdata, storage.nbytes())
        self.peak = max(self.peak, self.now)
        return result

    def free(self, key, size):
        self.known.discard(key)
        self.now -= size


class Block(torch.nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.one, self.two = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.heads, self.causal = heads, causal

    def forward(self, x):
        batch, places, width = x.shape
        q, k, v = (part.view(batch, places, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.one(x)).split(width, 2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(batch, places, width))
        return x + self.down(functional.gelu(self.up(self.two(x)), approximate='tanh' if self.causal else 'none'))


class Pictures(torch.nn.Module):
    """A vision transformer."""
    def __init__(self, width=64, heads=4, layers=4):
        super().__init__()
        self.patches = torch.nn.Conv2d(3, width, 8, 8)
        self.layers = torch.nn.Sequential(*(Block(width, heads, False) for _ in range(layers)))
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.layers(x)).mean(1))


class Words(torch.nn.Module):
    """A model of tokens with a causal mask."""
    def __init__(self, width=64, heads=4, layers=4, words=128):
        super().__init__()
        self.table = torch.nn.Embedding(words, width)
        self.layers = torch.nn.Sequential(*(Block(width, heads, True) for _ in range(layers)))
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, words, bias=False)

    def forward(self, x):
        return self.head(self.norm(self.layers(self.table(x))))


class Tied(Words):
    """One table at both ends, larger than all else: its two gradients and their sum are the peak."""
    def __init__(self):
        super().__init__(width=32, layers=2, words=8192)
        self.head.weight = self.table.weight


class Shifts(torch.nn.Module):
    """Convolutions with batch norm and swish."""
    def __init__(self, width=16):
        super().__init__()
        layers, wide = [], 3
        for step in (1, 2, 1, 2):
            layers += [torch.nn.Conv2d(wide, width, 3, step, 1, bias=False), torch.nn.BatchNorm2d(width), torch.nn.SiLU()]
            wide = width
        self.layers, self.head = torch.nn.Sequential(*layers), torch.nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.layers(x).mean((2, 3)))


MODELS = {
    'pictures': (Pictures, lambda: torch.randn(4, 3, 128, 128)),
    'words': (Words, lambda: torch.randint(0, 128, (4, 256))),
    'tied': (Tied, lambda: torch.randint(0, 8192, (2, 16))),
    'shifts': (Shifts, lambda: torch.randn(4, 3, 64, 64)),
}


def measure(model, x):
    with torch.no_grad():
        labels = model(x).argmax(-1).flatten()
    given = [x, labels, *model.parameters(), *model.buffers()]
    with Live(given) as live:
        logits = model(x)
        loss = functional.cross_entropy(logits.flatten(0, -2), labels)
        del logits
        loss.backward()
    return live.peak


def strip(program, path):
    """Only the graph: weights and traces are not read."""
    with tempfile.NamedTemporaryFile(suffix='.pt2') as whole:
        torch.export.save(program, whole.name)
        with zipfile.ZipFile(whole.name) as archive, zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as packed:
            name, = (name for name in archive.namelist() if name.endswith('models/model.json'))
            graph = json.loads(archive.read(name))
            for node in graph['graph_module']['graph']['nodes']:
                node['metadata'] = {}
            packed.writestr(zipfile.ZipInfo(name), json.dumps(graph), zipfile.ZIP_DEFLATED)


def main():
    meshwright, folder = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp()
    for name, (kind, data) in MODELS.items():
        torch.manual_seed(1)
        model, x = kind().train(), data()
        peak = measure(model, x)
        program = torch.export.export(model, (x,))
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            core = torch.export.export(model, (x,)).run_decompositions()
        ways = {'whole': program, 'core': core}
        table = torch.export.default_decompositions()
        table.update(torch._decomp.get_decompositions([torch.ops.aten.gelu, torch.ops.aten.native_layer_norm]))
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            ways['apart'] = torch.export.export(model, (x,)).run_decompositions(table)
        for way, program in ways.items():
            path = f'{folder}/{name}_{way}.pt2'
            strip(program, path)
            text = subprocess.run([meshwright, 'memory', path, '--training', '--method', 'program', '--alignment', '1',
                                   '--json'], capture_output=True, text=True, check=True).stdout
            live = json.loads(text)['methods'][0]['live_bytes']
            print(f'{name}_{way}\t{peak}\t{live}\t{live / peak:.3f}', flush=True)


if __name__ == '__main__':
    main()
