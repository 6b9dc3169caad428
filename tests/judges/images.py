"""Trains tests/data/onnx/parts.onnx and unet_small.onnx for a step on one CPU rank, and holds loss
and gradients against PyTorch's: images.py MESHWRIGHT.

The graph is carried out here node by node by torch.nn.functional, from the ONNX file itself; of the
program come weights before and after a step of SGD, and the data by their definition
(executor/engine/images.c). Needs torch, numpy and onnx."""
import json
import os
import subprocess
import sys
import tempfile

import numpy
import onnx
import torch
from torch.nn import functional

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MASK = (1 << 64) - 1
RATE, BATCH, SEED, CLASSES = 1e-2, 4, 3, 5
PARTS = 4  # of an image beside one another that have a class each (executor/engine/images.c)
torch.set_default_dtype(torch.float64)


def random_word(key, index):
    """Word 0 of Philox 4x32-10 (executor/random.h), of arrays of indices."""
    index = numpy.asarray(index, numpy.uint64)
    c = [index & 0xffffffff, index >> numpy.uint64(32), index * 0, index * 0]
    k = [key & 0xffffffff, key >> 32]
    for _ in range(10):
        p, q = c[0] * numpy.uint64(0xD2511F53), c[2] * numpy.uint64(0xCD9E8D57)
        high, low = numpy.uint64(32), numpy.uint64(0xffffffff)
        c = [(q >> high) ^ c[1] ^ numpy.uint64(k[0]), q & low, (p >> high) ^ c[3] ^ numpy.uint64(k[1]), p & low]
        k = [(k[0] + 0x9E3779B9) & 0xffffffff, (k[1] + 0xBB67AE85) & 0xffffffff]
    return c[0]


def random_key(key, part):
    z = (key + 0x9E3779B97F4A7C15 * (part + 1)) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


def draw(seed, first, shape, classes, has_places):
    """Images and labels of the samples from `first` on."""
    count, places = shape[0], int(numpy.prod(shape[1:]))
    images, labels = numpy.zeros(shape), []
    rows = numpy.arange(shape[2]) * PARTS // shape[2]
    columns = numpy.arange(shape[3]) * PARTS // shape[3]
    part = rows[:, None] * PARTS + columns[None, :] if has_places else numpy.zeros(shape[2:], int)
    for i in range(count):
        sample = first + i
        of = random_word(random_key(random_key(seed, 8), sample), part) % numpy.uint64(classes)
        noise = random_word(random_key(random_key(seed, 9), sample), numpy.arange(places)).reshape(shape[1:])
        pattern = numpy.zeros(shape[1:])
        for kind in range(classes):
            own = random_word(random_key(random_key(seed, 10), kind), numpy.arange(places)).reshape(shape[1:])
            pattern = numpy.where(of == kind, own, pattern)
        images[i] = (noise + pattern) / 2.0**32 - 1
        labels.append(of if has_places else of[0, 0])
    return torch.tensor(images), torch.tensor(numpy.array(labels).astype(numpy.int64))


def pads(values):
    half = len(values) // 2
    assert list(values[:half]) == list(values[half:]), 'padding is alike on both sides'
    return list(values[:half])


def node(kind, x, a):
    """One operator of the two files."""
    window = dict(stride=a.get('strides', 1), padding=pads(a.get('pads', [0, 0, 0, 0])))
    if kind == 'Conv':
        return functional.conv2d(*x, dilation=a.get('dilations', 1), groups=a.get('group', 1), **window)
    if kind == 'ConvTranspose':
        return functional.conv_transpose2d(*x, groups=a.get('group', 1), **window)
    if kind == 'MaxPool':
        return functional.max_pool2d(x[0], a['kernel_shape'], **window)
    if kind == 'AveragePool':
        return functional.avg_pool2d(x[0], a['kernel_shape'], count_include_pad=False, **window)
    if kind == 'BatchNormalization':
        return functional.batch_norm(x[0], None, None, x[1], x[2], training=True, eps=a.get('epsilon', 1e-5))
    if kind == 'InstanceNormalization':
        return functional.instance_norm(x[0], weight=x[1], bias=x[2], eps=a.get('epsilon', 1e-5))
    if kind == 'Gemm':
        return functional.linear(x[0], x[1], x[2])
    simple = {
        'Relu': torch.relu, 'HardSwish': functional.hardswish, 'Softplus': functional.softplus,
        'Sigmoid': torch.sigmoid, 'Tanh': torch.tanh, 'Mish': functional.mish, 'Add': torch.add,
        'Mul': torch.mul, 'MatMul': torch.matmul, 'Flatten': lambda y: y.flatten(1),
        'GlobalAveragePool': lambda y: y.mean((2, 3), keepdim=True),
        'Concat': lambda *y: torch.cat(y, 1),
        'HardSigmoid': lambda y: (a['alpha'] * y + 0.5).clamp(0, 1),
        'LeakyRelu': lambda y: functional.leaky_relu(y, a['alpha']),
        'Elu': lambda y: functional.elu(y, a['alpha']),
        'Gelu': lambda y: functional.gelu(y, approximate='tanh'),
    }
    return simple[kind](*x)


def forward(graph, values):
    for each in graph.node:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in each.attribute}
        values[each.output[0]] = node(each.op_type, [values[i] for i in each.input], attributes)
    return values[graph.output[0].name]


def read_step(folder):
    """Of the checkpoint of one rank behind the first step: weights and momentum by their names."""
    place = f'{folder}/step-00000001'
    index, found = json.load(open(f'{place}/checkpoint.json')), {}
    file, = index['files']
    data = open(f'{place}/{file["name"]}', 'rb').read()[file['header_bytes']:]
    for entry in index['entries']:
        assert entry['dtype'] == 'F64'
        values = numpy.frombuffer(data[entry['at_bytes']:][:entry['bytes']], numpy.float64)
        found.setdefault(entry['name'], {})[entry['kind']] = values
    return found


def name_of(name, found):
    """What the program calls a parameter of the file: blocks that are alike have the names of the
    first of them, and the place in the sequence behind these."""
    alike = {'block2': 'block1', 'e1': 'a1'}
    for own in alike:
        if name.startswith(own):
            name, at = alike[own] + name[len(own):], 1
            break
    else:
        at = 0
    keys = sorted((key for key in found if key.rsplit('.', 1)[0] == name), key=lambda key: int(key.rsplit('.', 1)[1]))
    return keys[at] if keys else None


def train(program, path, scratch):
    name = os.path.basename(path)
    plan, run, folder = f'{scratch}/{name}.json', f'{scratch}/{name}.run.json', f'{scratch}/{name}.steps'
    subprocess.run([program, 'plan', path, 'local', '--ranks', '1', '--global-batch', str(BATCH), '--micro-batch',
                    str(BATCH), '--optimizer', 'sgd', '--precision', 'fp32', '-o', plan], check=True,
                   capture_output=True)
    subprocess.run([program, 'run', plan, '--spawn', '--backend', 'cpu-fp64', '--steps', '1', '--learning-rate',
                    str(RATE), '--learning-rate-decay', 'constant', '--warmup', '0', '--weight-decay', '0', '--clip',
                    '0', '--seed', str(SEED), '--checkpoint', folder, '--checkpoint-every', '1', '-o', run],
                   check=True, capture_output=True)
    return json.load(open(run))['loss'][0], read_step(folder)


def compare(file, program, scratch):
    path = f'{ROOT}/tests/data/onnx/{file}.onnx'
    loss_of_run, found = train(program, path, scratch)
    graph = onnx.load(path).graph
    shape = [BATCH] + [d.dim_value for d in graph.input[0].type.tensor_type.shape.dim][1:]
    images, labels = draw(SEED, 0, shape, CLASSES, file == 'unet_small')
    values, gradients, worst = {graph.input[0].name: images}, {}, 0
    for weight in graph.initializer:
        shape, key = list(weight.dims), name_of(weight.name, found)
        values[weight.name] = torch.zeros(shape)
        if key is None:
            continue
        gradients[weight.name] = found[key]['first_moment'].reshape(shape)
        before = found[key]['weight'].reshape(shape) + RATE * gradients[weight.name]
        values[weight.name] = torch.tensor(before, requires_grad=True)
    loss = functional.cross_entropy(forward(graph, values), labels)
    loss.backward()
    error = abs(loss.item() - loss_of_run) / loss.item()
    for name, gradient in gradients.items():
        expected = values[name].grad.numpy()
        worst = max(worst, numpy.abs(gradient - expected).max() / max(1e-3, numpy.abs(expected).max()))
    print(f'{file}: loss {loss.item():.6f}, off by {error:.1e}; {len(gradients)} gradients, off by {worst:.1e} at most')
    assert len(gradients) == len(found) and error < 1e-12 and worst < 1e-9


def main():
    with tempfile.TemporaryDirectory() as scratch:
        for file in 'parts', 'unet_small':
            compare(file, sys.argv[1], scratch)


if __name__ == '__main__':
    main()
