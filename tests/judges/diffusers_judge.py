"""Trains a small FLUX for a step on one CPU rank, and holds loss and gradients against those of
diffusers' FluxTransformer2DModel: diffusers_judge.py MESHWRIGHT.

Of the program come weights before and after a step of SGD; data are drawn by their definition
(executor/engine/reals.c). Needs torch, numpy and diffusers."""
import json
import math
import sys
import tempfile

import numpy
import torch
from diffusers import FluxTransformer2DModel

from drawn import RATE, random_key, random_word, train

BATCH, SEED, WAVES = 3, 5, 256
CONFIG = dict(attention_head_dim=12, axes_dims_rope=[4, 4, 4], guidance_embeds=True, in_channels=6,
              joint_attention_dim=5, num_attention_heads=2, num_layers=2, num_single_layers=3,
              pooled_projection_dim=7)
SIDE, TEXT = 6, 3  # places beside one another, tokens of a text
torch.set_default_dtype(torch.float64)


def draw(key, at):
    return (random_word(key, numpy.asarray(at)).astype(float) + 0.5) / 2.0**32


def noise(key, at):
    return math.sqrt(12) * (draw(key, at) - 0.5)


def wave(place):
    angles = place * 10000.0 ** -(numpy.arange(WAVES // 2) / (WAVES // 2))
    return numpy.concatenate([numpy.cos(angles), numpy.sin(angles)])


def sample(index):
    """Latents with noise, what is to be said of them, text, its pooled vector, step, guidance."""
    key = random_key(random_key(SEED, 4), index)
    places, channels = SIDE * SIDE, CONFIG['in_channels']
    step = float(draw(random_key(key, 2), [0])[0])
    phase = 2 * math.pi * draw(key, numpy.arange(channels))
    clean = numpy.sin(phase[None, :] + 0.3 * numpy.arange(places)[:, None])
    noised = noise(random_key(key, 1), numpy.arange(places * channels)).reshape(places, channels)
    width = CONFIG['joint_attention_dim']
    text = noise(random_key(key, 4), numpy.arange(TEXT * width)).reshape(TEXT, width)
    pooled = noise(random_key(key, 9), numpy.arange(CONFIG['pooled_projection_dim']))
    guidance = [1, 2, 3.5][int(3 * draw(random_key(key, 8), [0])[0])]
    return (1 - step) * clean + step * noised, clean - noised, text, pooled, step, guidance


def modulations(prefix, name, parts):
    return [(f'{prefix}.{part}', f'{name}.linear', (i, len(parts))) for i, part in enumerate(parts)]


def layer(index):
    """(own name, that of diffusers, which rows of it) of each product of a layer."""
    if index < CONFIG['num_layers']:
        at, rows = f'transformer_blocks.{index}', []
        for prefix, norm, of in ('', 'norm1', 'to_{}'), ('text.', 'norm1_context', 'add_{}_proj'):
            rows += modulations(f'{prefix}attention', f'{at}.{norm}', ['shift', 'scale', 'gate'])
            rows += modulations(f'{prefix}mlp', f'{at}.{norm}', ['shift', 'scale', 'gate'])
            rows = rows[:-6] + [(own, his, (i, 6)) for i, (own, his, _) in enumerate(rows[-6:])]
            rows += [(f'{prefix}attention.{p}', f'{at}.attn.' + of.format(p), None) for p in 'qkv']
            forward = 'ff_context' if prefix else 'ff'
            rows += [(f'{prefix}mlp.up', f'{at}.{forward}.net.0.proj', None),
                     (f'{prefix}mlp.down', f'{at}.{forward}.net.2', None),
                     (f'{prefix}attention.out', f'{at}.attn.' + ('to_add_out' if prefix else 'to_out.0'), None)]
            added = 'added_' if prefix else ''
            rows += [(f'{prefix}attention.{p}.norm', f'{at}.attn.norm_{added}{p}', None) for p in 'qk']
        return rows
    at = f'single_transformer_blocks.{index - CONFIG["num_layers"]}'
    rows = [(part, f'{at}.norm.linear', (i, 3)) for i, part in enumerate(['shift', 'scale', 'gate'])]
    rows += [(f'attention.{p}', f'{at}.attn.to_{p}', None) for p in 'qkv']
    rows += [(f'attention.{p}.norm', f'{at}.attn.norm_{p}', None) for p in 'qk']
    return rows + [('mlp.up', f'{at}.proj_mlp', None), ('out', f'{at}.proj_out', None)]


def all_rows():
    ends = [('embedding.patch', 'x_embedder'), ('embedding.text', 'context_embedder')]
    for own, his in ('step', 'timestep_embedder'), ('guidance', 'guidance_embedder'), ('pooled', 'text_embedder'):
        ends += [(f'embedding.{own}.in', f'time_text_embed.{his}.linear_1'),
                 (f'embedding.{own}.out', f'time_text_embed.{his}.linear_2')]
    layers = CONFIG['num_layers'] + CONFIG['num_single_layers']
    rows = [(0, own, his, None) for own, his in ends]
    for i in range(layers):
        rows += [(1 + i, *row) for row in layer(i)]
    rows += [(1 + layers, f'head.{part}', 'norm_out.linear', (i, 2)) for i, part in enumerate(['scale', 'shift'])]
    return rows + [(1 + layers, 'head.patch', 'proj_out', None)]


def turned():
    """Which dim of a head here is each of diffusers', which turns pairs of neighbours."""
    still, each = CONFIG['axes_dims_rope'][0], sum(CONFIG['axes_dims_rope'][1:]) // 2
    return list(range(still)) + [still + part * each + i for i in range(each) for part in (0, 1)]


def as_theirs(own, values, like):
    """A parameter of ours in the shape and order of one of diffusers'."""
    rows = like.shape[0]
    if own.endswith('.weight') and like.dim() == 2:
        values = values.reshape(like.shape[1], rows).T
    if own.rsplit('.', 1)[0] in {f'{p}attention.{q}{n}' for p in ('', 'text.') for q in 'qk' for n in ('', '.norm')}:
        heads = values.reshape(-1, CONFIG['attention_head_dim'], *values.shape[1:])
        values = heads[:, turned()].reshape(values.shape)
    return torch.tensor(values.reshape(like.shape))


def pairs(model, found):
    """(our key, slices of diffusers' parameter) of all parameters."""
    parameters = dict(model.named_parameters())
    for place, own, his, part in all_rows():
        for kind in 'weight', 'bias':
            whole = parameters.get(f'{his}.{kind}')
            if whole is None:
                continue
            names, cuts = [f'{own}.{kind}'], [slice(None)]
            if own == 'out' and kind == 'weight':  # attention and feed-forward beside one another
                hidden = CONFIG['num_attention_heads'] * CONFIG['attention_head_dim']
                names, cuts = ['out.attention.weight', 'out.mlp.weight'], [slice(0, hidden), slice(hidden, None)]
            for name, cut in zip(names, cuts):
                rows = slice(None)
                if part:
                    each = whole.shape[0] // part[1]
                    rows = slice(part[0] * each, (part[0] + 1) * each)
                key = f'{name}.{place}'
                assert key in found, (key, sorted(found))
                yield key, name, whole, (rows, cut) if whole.dim() == 2 else (rows,)


def waves(steps):
    """Of a step what the class makes in fp32."""
    return torch.tensor(numpy.stack([wave(float(step)) for step in steps]))


def main():
    with tempfile.TemporaryDirectory() as scratch:
        path = f'{scratch}/flux.json'
        sizes = dict(_class_name='FluxTransformer2DModel', sample_size=2 * SIDE, max_sequence_length=TEXT, patch_size=1)
        json.dump(dict(CONFIG, **sizes), open(path, 'w'))
        loss_of_run, found = train(sys.argv[1], path, scratch, BATCH, SEED)
    model, used = FluxTransformer2DModel(**CONFIG), set()
    with torch.no_grad():
        for key, name, whole, cut in pairs(model, found):
            before = found[key]['weight'] + RATE * found[key]['first_moment']
            whole[cut] = as_theirs(name, before, whole[cut])
            used.add(key)
    latents, target, text, pooled, step, guidance = (
        torch.tensor(numpy.array(each)) for each in zip(*(sample(i) for i in range(BATCH))))
    places = torch.zeros(SIDE * SIDE, 3)
    places[:, 1], places[:, 2] = torch.arange(SIDE * SIDE) // SIDE, torch.arange(SIDE * SIDE) % SIDE
    # Waves and rotations, which diffusers makes in fp32 whatever the model has, in double.
    model.time_text_embed.time_proj.forward = waves
    torch.Tensor.float = torch.Tensor.double
    said = model(latents, text, pooled, step, places, torch.zeros(TEXT, 3), guidance, return_dict=False)[0]
    loss = ((said - target) ** 2).mean()
    loss.backward()
    error, worst = abs(loss.item() - loss_of_run) / loss.item(), 0
    for key, name, whole, cut in pairs(model, found):
        expected = whole.grad[cut]
        gradient = as_theirs(name, found[key]['first_moment'], expected)
        worst = max(worst, float((gradient - expected).abs().max() / max(1e-3, float(expected.abs().max()))))
    count = sum(parameter.numel() for parameter in model.parameters())
    own = sum(len(each['weight']) for each in found.values())
    print(f'flux: {count} parameters, loss {loss.item():.6f}, off by {error:.1e}; {len(used)} gradients, off by {worst:.1e} at most')
    assert used == set(found) and count == own and error < 1e-12 and worst < 1e-9


if __name__ == '__main__':
    main()
