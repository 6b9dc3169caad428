"""What the program draws of images and trains a step on one CPU rank, for judges that carry out the
same step with other software: images by their definition (executor/engine/images.c), weights and
gradients of its checkpoint."""
import json
import os
import subprocess

import numpy

MASK = (1 << 64) - 1
RATE = 1e-2
PARTS = 4  # of an image beside one another that have a class each (executor/engine/images.c)


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
    part = numpy.zeros(shape[2:], int)
    if has_places:
        rows = numpy.arange(shape[2]) * PARTS // shape[2]
        columns = numpy.arange(shape[3]) * PARTS // shape[3]
        part = rows[:, None] * PARTS + columns[None, :]
    for i in range(count):
        sample = first + i
        of = random_word(random_key(random_key(seed, 8), sample), part) % numpy.uint64(classes)
        noise = random_word(random_key(random_key(seed, 9), sample), numpy.arange(places)).reshape(shape[1:])
        pattern = numpy.zeros(shape[1:])
        for kind in range(classes):
            own = random_word(random_key(random_key(seed, 10), kind), numpy.arange(places)).reshape(shape[1:])
            pattern = numpy.where(of == kind, own, pattern)
        images[i] = (noise + pattern) / 2.0**32 - 1
        labels.append(of if has_places else of.flat[0])
    return images, numpy.array(labels).astype(numpy.int64)


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


def train(program, path, scratch, batch, seed):
    name = os.path.basename(path)
    plan, run, folder = f'{scratch}/{name}.json', f'{scratch}/{name}.run.json', f'{scratch}/{name}.steps'
    subprocess.run([program, 'plan', path, 'local', '--ranks', '1', '--global-batch', str(batch), '--micro-batch',
                    str(batch), '--optimizer', 'sgd', '--precision', 'fp32', '-o', plan], check=True,
                   capture_output=True)
    subprocess.run([program, 'run', plan, '--spawn', '--backend', 'cpu-fp64', '--steps', '1', '--learning-rate',
                    str(RATE), '--learning-rate-decay', 'constant', '--warmup', '0', '--weight-decay', '0', '--clip',
                    '0', '--seed', str(seed), '--checkpoint', folder, '--checkpoint-every', '1', '-o', run],
                   check=True, capture_output=True)
    return json.load(open(run))['loss'][0], read_step(folder)
