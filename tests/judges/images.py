"""Trains tests/data/onnx/parts.onnx, unet_small.onnx and resized.onnx for a step on one CPU rank, and
holds loss and gradients against PyTorch's: images.py MESHWRIGHT. Writes what PyTorch says into
tests/data/onnx/steps.tsv, for tests/executor/test_run_images.c: loss and norm of the gradients.

The graph is carried out here node by node by torch.nn.functional, from the ONNX file itself; of the
program come weights before and after a step of SGD, and the data by their definition
(executor/engine/images.c). Needs torch, numpy and onnx."""
import os
import sys
import tempfile

import numpy
import onnx
import torch
from torch.nn import functional

from drawn import RATE, draw, train

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BATCH, SEED, CLASSES = 4, 7, 5
torch.set_default_dtype(torch.float64)


def pads(values):
    half = len(values) // 2
    assert list(values[:half]) == list(values[half:]), 'padding is alike on both sides'
    return list(values[:half])


def resize(x, sizes, a):
    way = a.get('coordinate_transformation_mode', b'half_pixel').decode()
    if a.get('mode', b'nearest') == b'nearest':
        return functional.interpolate(x, size=sizes)
    return functional.interpolate(x, size=sizes, mode='bilinear', align_corners=way == 'align_corners')


def node(kind, x, a):
    """One operator of the files."""
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
    if kind == 'Resize':
        scales = x[2] if len(x) == 3 else x[3] / torch.tensor(x[0].shape)
        return resize(x[0], [round(k * float(f)) for k, f in zip(x[0].shape[2:], scales[2:])], a)
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
        values[each.output[0]] = node(each.op_type, [values[i] if i else None for i in each.input], attributes)
    return values[graph.output[0].name]


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


def compare(file, program, scratch):
    path = f'{ROOT}/tests/data/onnx/{file}.onnx'
    loss_of_run, found = train(program, path, scratch, BATCH, SEED)
    graph = onnx.load(path).graph
    shape = [BATCH] + [d.dim_value for d in graph.input[0].type.tensor_type.shape.dim][1:]
    images, labels = map(torch.tensor, draw(SEED, 0, shape, CLASSES, file != 'parts'))
    values, gradients, worst, squares = {graph.input[0].name: images}, {}, 0, 0
    for weight in graph.initializer:
        shape, key = list(weight.dims), name_of(weight.name, found)
        constant = weight.name in ('five', 'half', 'twice')
        values[weight.name] = torch.tensor(onnx.numpy_helper.to_array(weight).copy()) if constant else torch.zeros(shape)
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
        squares += (expected ** 2).sum()
        worst = max(worst, numpy.abs(gradient - expected).max() / max(1e-3, numpy.abs(expected).max()))
    print(f'{file}: loss {loss.item():.6f}, off by {error:.1e}; {len(gradients)} gradients, off by {worst:.1e} at most')
    assert len(gradients) == len(found) and error < 1e-12 and worst < 1e-9
    return f'{file}\t{loss.item():.17g}\t{squares ** 0.5:.17g}\n'


def main():
    with tempfile.TemporaryDirectory() as scratch:
        rows = [compare(file, sys.argv[1], scratch) for file in ('parts', 'unet_small', 'resized')]
    with open(f'{ROOT}/tests/data/onnx/steps.tsv') as file:
        rows += [row for row in file if row.startswith('behind')]  # of moves.py
    with open(f'{ROOT}/tests/data/onnx/steps.tsv', 'w') as file:
        file.writelines(rows)


if __name__ == '__main__':
    main()
