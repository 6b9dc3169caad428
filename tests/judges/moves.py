"""Exports a network that permutes, cuts, shuffles and drops as tests/data/pt2/moved.pt2 and dropped.pt2, and one that
attends as attends.pt2, one whose samples stand behind its places as tests/data/onnx/behind.onnx, and what drops as
bernoulli.onnx there; trains what draws nothing for a step on one CPU rank, and holds loss and gradients against
PyTorch's: moves.py MESHWRIGHT. Writes what PyTorch says into steps.tsv of these folders, for
tests/executor/test_run_images.c.

Of the program come weights before and after a step of SGD, and the data by their definition
(executor/engine/images.c). Needs torch (made with 2.15), onnx, onnxscript and numpy."""
import os
import sys
import tempfile

import numpy
import onnx
import torch
from torch.nn import functional

from drawn import RATE, draw, train
from peaks import strip

FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + '/tests/data'
BATCH, SEED, LAYERS, SHARE = 4, 7, 3, 0.75


class Layer(torch.nn.Module):
    """Rows that are normed where channels stand last, places of windows, channels that are cut, joined and shuffled."""
    def __init__(self, width, drops):
        super().__init__()
        self.norm, self.inner = (torch.nn.LayerNorm(width, eps=2.0**-10) for _ in range(2))
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)
        self.scale = torch.nn.Parameter(torch.ones(width, 1, 1))
        self.shift = torch.nn.Parameter(torch.zeros(1, 3, 1, width))
        self.drops = drops

    def forward(self, x):
        n, c, h, w = x.shape
        y = self.norm(x.permute(0, 2, 3, 1) + self.shift[:, 1:2])
        y = y.view(n, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(n * h * w // 4, 4, c)
        y = y + self.down(functional.gelu(self.up(self.inner(y))))
        y = y.view(n, h // 2, w // 2, 2, 2, c).permute(0, 5, 1, 3, 2, 4).reshape(n, c, h, w)
        if self.drops:
            y = y * torch.empty(n, 1, 1, 1).bernoulli_(SHARE).div_(SHARE)
            y = y.div(SHARE) * (SHARE + torch.rand(n, 1, 1, 1)).floor()
        x = torch.addcmul(x, self.scale, y).view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        a, b = x.chunk(2, 1)
        return torch.cat((b, functional.relu(a)), 1)


class Moved(torch.nn.Module):
    def __init__(self, drops, width=8):
        super().__init__()
        self.stem, self.head = torch.nn.Conv2d(3, width, 3, 2, 1), torch.nn.Linear(width, 5)
        self.layers = torch.nn.Sequential(*(Layer(width, drops) for _ in range(LAYERS)))

    def forward(self, x):
        return self.head(self.layers(self.stem(x)).mean((2, 3)))


class Attention(torch.nn.Module):
    """Two heads that attend to fewer places, heads with a token in front that attend to those before them, and channels
    to channels."""
    def __init__(self, width, heads=2):
        super().__init__()
        self.norm, self.last = (torch.nn.LayerNorm(width, eps=2.0**-10) for _ in range(2))
        self.q, self.kv = torch.nn.Linear(width, width), torch.nn.Linear(width, 2 * width)
        self.out, self.fewer, self.heads = torch.nn.Linear(width, width), torch.nn.Conv2d(width, width, 2, 2), heads
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.token, self.places = torch.nn.Parameter(torch.ones(1, 1, width)), torch.nn.Parameter(torch.ones(1, 70, width))

    def attend(self, x, of):
        q, (k, v) = self.q(x), self.kv(of).chunk(2, -1)
        q, k, v = (part.reshape(len(x), part.shape[1], self.heads, -1).transpose(1, 2) for part in (q, k, v))
        return functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)

    def look_back(self, x):
        n, rows, width = x.shape
        x = torch.cat((self.token.expand(n, -1, -1), x[:, 1:]), 1) + self.places[:, 3:3 + rows]
        q, k, v = self.qkv(x).reshape(n, rows, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(x.shape)

    def forward(self, x):
        n, c, h, w = x.shape
        t = self.norm(x.flatten(2).transpose(1, 2))
        few = self.fewer(t.transpose(1, 2).reshape(n, c, h, w)).flatten(2).transpose(1, 2)
        y = self.out(self.attend(t, few)) - self.look_back(t)
        scores = t.transpose(1, 2) @ t / 8
        z = t @ scores.softmax(-1).transpose(1, 2) - t.mean(1, keepdim=True)
        z = z / (1.5 + functional.softplus(t)) + functional.pad(y[:, 1:], (0, 0, 0, 1))
        z = self.last(torch.cat((z[:, 2:], z[:, :2]), 1)) + scores.sum((1, 2), keepdim=True) * 0.01
        return x + z.transpose(1, 2).reshape(n, c, h, w)


class Attends(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem, self.head = torch.nn.Conv2d(3, width, 3, 2, 1), torch.nn.Linear(width, 5)
        self.layers = torch.nn.Sequential(*(Attention(width) for _ in range(LAYERS)))

    def forward(self, x):
        return self.head(self.layers(self.stem(x)).flatten(2).mean(2))


class Behind(torch.nn.Module):
    """PyTorch's own layers, (places, batch, width), with two more tokens behind the places, which have positions."""
    def __init__(self, width=8, more=2):
        super().__init__()
        self.stem, self.head = torch.nn.Conv2d(3, width, 3, 2, 1), torch.nn.Linear(width, 5)
        self.more = torch.nn.Conv2d(3, more * width, 16)
        self.places = torch.nn.Parameter(torch.ones(1, 64, width))
        self.layers = torch.nn.Sequential(*(
            torch.nn.TransformerEncoderLayer(width, 2, 2 * width, 0.0, 'gelu', layer_norm_eps=2.0**-10) for _ in range(LAYERS)))

    def forward(self, x):
        places = self.places.reshape(1, 8, 8, -1).permute(0, 3, 1, 2)
        rows = self.stem(x) + functional.interpolate(places, size=(8, 8), mode='bilinear')
        rows = rows.flatten(2).permute(2, 0, 1)
        more = self.more(x).view(len(x), -1, rows.shape[2]).transpose(0, 1)
        rows = self.layers(torch.cat((rows, more)).relu())
        return self.head(rows[3::2].mean(0) - rows[-1])


def parameter(name, found):
    """Layers have the names of the first of them, and their place in the sequence behind these."""
    parts = name.split('.')
    at = int(parts[1]) if parts[0] == 'layers' else 0
    base = ['layers', '0', *parts[2:]] if parts[0] == 'layers' else parts
    names = ['_'.join(['p', *base]), '.'.join(base)]
    keys = sorted((key for key in found if key.rsplit('.', 1)[0] in names), key=lambda key: int(key.rsplit('.', 1)[1]))
    return found[keys[at]]


def write_onnx(model, path):
    """Without what PyTorch says of its lines."""
    with tempfile.TemporaryDirectory() as scratch:
        torch.onnx.export(model, (torch.zeros(BATCH, 3, 16, 16),), f'{scratch}/whole.onnx', dynamo=True, optimize=False,
                          external_data=True, verbose=False)
        file = onnx.load(f'{scratch}/whole.onnx', load_external_data=False)
    for part in (file, file.graph, *file.graph.node, *file.graph.initializer, *file.graph.input, *file.graph.output):
        del part.metadata_props[:]
    del file.graph.value_info[:]
    onnx.save(file, path)


def compare(path, model, program):
    gradients = {}
    with tempfile.TemporaryDirectory() as scratch:
        loss_of_run, found = train(program, f'{FOLDER}/{path}', scratch, BATCH, SEED)
    for key, weight in model.named_parameters():
        of = parameter(key, found)
        gradients[key] = of['first_moment'].reshape(weight.shape)
        with torch.no_grad():
            weight.copy_(torch.tensor(of['weight'].reshape(weight.shape) + RATE * gradients[key]))
    images, labels = map(torch.tensor, draw(SEED, 0, [BATCH, 3, 16, 16], 5, False))
    loss = functional.cross_entropy(model(images), labels)
    loss.backward()
    worst = squares = 0
    for key, weight in model.named_parameters():
        expected = weight.grad.numpy()
        squares += (expected ** 2).sum()
        worst = max(worst, numpy.abs(gradients[key] - expected).max() / max(1e-3, numpy.abs(expected).max()))
    name = os.path.basename(path).split('.')[0]
    error = abs(loss.item() - loss_of_run) / loss.item()
    print(f'{name}: loss {loss.item():.6f}, off by {error:.1e}; {len(gradients)} gradients, off by {worst:.1e} at most')
    assert len(gradients) == len(found) and error < 1e-12 and worst < 1e-9
    return f'{name}\t{loss.item():.17g}\t{squares ** 0.5:.17g}\n'


def main():
    for name, model in (('moved', Moved(False)), ('dropped', Moved(True)), ('attends', Attends())):
        torch.manual_seed(1)
        strip(torch.export.export(model.train(), (torch.zeros(BATCH, 3, 16, 16),)), f'{FOLDER}/pt2/{name}.pt2')
    for name, model in (('behind', Behind()), ('bernoulli', Moved(True))):
        write_onnx(model.train(), f'{FOLDER}/onnx/{name}.onnx')
    rows = {'pt2': [compare('pt2/moved.pt2', Moved(False).double(), sys.argv[1]),
                    compare('pt2/attends.pt2', Attends().double(), sys.argv[1])],
            'onnx': [compare('onnx/behind.onnx', Behind().double(), sys.argv[1])]}
    with open(f'{FOLDER}/onnx/steps.tsv') as file:
        rows['onnx'] = [row for row in file if not row.startswith('behind')] + rows['onnx']
    for folder, of in rows.items():
        with open(f'{FOLDER}/{folder}/steps.tsv', 'w') as file:
            file.writelines(of)


if __name__ == '__main__':
    main()
