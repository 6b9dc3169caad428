"""Trains programs of tests/data/stablehlo for a step on one CPU rank, and holds loss and gradients
against what JAX computes with the functions that they were printed of: programs.py MESHWRIGHT.
Writes what JAX says into tests/data/stablehlo/steps.tsv, for tests/executor/test_run_images.c:
the loss of the first step and the norm of its gradients, of 8 samples with seed 7.

Of the program come weights before and after a step of SGD, and the data by their definition
(executor/engine/images.c). Needs jax, flax and numpy."""
import os
import re
import sys
import tempfile

import jax
import numpy

jax.config.update('jax_enable_x64', True)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = f'{ROOT}/tests/data/stablehlo'
sys.path.insert(0, FOLDER)

import make  # noqa: E402
from drawn import RATE, draw, train  # noqa: E402

BATCH, SEED, CLASSES = 8, 7, 10
# Of a weight where the program has dimension i of the function's, as ONNX has kernels.
TURNED, UPWARD = (3, 2, 0, 1), (2, 3, 0, 1)


def plain(function):
    return 'params', function


def module(model):
    return 'variables', model.apply


PROGRAMS = {
    'mlp': (*plain(make.mlp), (784,), 10),
    'convolutions': (*plain(make.convolutions), (32, 32, 3), 10),
    'resnet_groups': (*module(make.ResNet((1, 1), lambda: make.flax.GroupNorm(8), 10, 32)), (64, 64, 3), 10),
    'mirror': (*module(make.Mirror()), (8, 8, 3), 5),
}


def find(found, name):
    """The parameter of the program that a leaf is: blocks that are alike have the names of the
    first of them, and the place in the sequence behind these."""
    for steps in range(16):
        first = re.sub(r'\d+', lambda number: str(int(number[0]) - steps), name, count=1)
        keys = sorted((key for key in found if key.rsplit('.', 1)[0] == first),
                      key=lambda key: int(key.rsplit('.', 1)[1]))
        if len(keys) > steps:
            return found[keys[steps]]
        if not re.search(r'\d+', name) or first.startswith('-'):
            break
    raise SystemExit(f'no parameter is {name}')


def turn_back(name, values, shape):
    """A weight as the function has it, of one as ONNX has it."""
    if len(shape) < 4:
        return values.reshape(shape)
    order = UPWARD if 'ConvTranspose' in name else TURNED
    if name.startswith("variables['params']['ConvTranspose_2"):
        order = TURNED  # whose stride is 1
    turned = values.reshape([shape[i] for i in order])
    back = turned.transpose(numpy.argsort(order))
    return back[::-1, ::-1] if order == UPWARD else back


def compare(program, name, root, function, shape, classes, scratch):
    loss_of_run, found = train(program, f'{FOLDER}/{name}.mlir', scratch, BATCH, SEED)
    text = open(f'{FOLDER}/{name}.mlir').read()
    arguments = re.findall(r'tensor<([0-9x]+)xf32> loc\("(' + root + r'[^"]*)"\)', text)
    sizes = {key: [int(size) for size in dims.split('x')] for dims, key in arguments}
    make_leaf = lambda path, leaf: take(root + jax.tree_util.keystr(path))
    gradients = {}

    def take(key):
        of = find(found, key)
        gradients[key] = turn_back(key, of['first_moment'], sizes[key])
        return turn_back(key, of['weight'], sizes[key]) + RATE * gradients[key]

    order = [shape[-1], *shape[:-1]] if len(shape) > 1 else list(shape)
    images, labels = draw(SEED, 0, [BATCH, *order], classes, False)
    if len(shape) > 1:
        images = images.transpose(0, 2, 3, 1)
    tree = jax.tree_util.tree_map_with_path(make_leaf, trees(name, root, function, shape))

    def loss_of(weights):
        scores = jax.nn.log_softmax(function(weights, images))
        return -scores[numpy.arange(BATCH), labels].mean()

    loss, expected = jax.value_and_grad(loss_of)(tree)
    worst = squares = 0
    for path, gradient in jax.tree_util.tree_flatten_with_path(expected)[0]:
        gradient = numpy.asarray(gradient)
        squares += (gradient ** 2).sum()
        difference = numpy.abs(gradients[root + jax.tree_util.keystr(path)] - gradient).max()
        worst = max(worst, difference / max(1e-3, numpy.abs(gradient).max()))
    error = abs(float(loss) - loss_of_run) / float(loss)
    print(f'{name}: loss {loss:.6f}, off by {error:.1e}; {len(gradients)} gradients, off by {worst:.1e} at most')
    assert len(gradients) == len(sizes) and error < 1e-12 and worst < 1e-9
    return f'{name}\t{float(loss):.17g}\t{squares ** 0.5:.17g}\n'


def trees(name, root, function, shape):
    """The function's weights as a tree of shapes."""
    if root == 'params':
        linear = lambda n, m: dict(w=make.f32(n, m), b=make.f32(m))
        return ([linear(784, 256), linear(256, 256), linear(256, 10)] if name == 'mlp'
                else make.convolution_params(16, 10))
    variables = jax.eval_shape(function.__self__.init, jax.random.key(0), make.f32(2, *shape))
    return {'params': variables['params']}


def main():
    with tempfile.TemporaryDirectory() as scratch:
        rows = [compare(sys.argv[1], name, *of, scratch) for name, of in PROGRAMS.items()]
    with open(f'{FOLDER}/steps.tsv', 'w') as file:
        file.writelines(rows)


if __name__ == '__main__':
    main()
