"""Trains a small FLUX and a small unet of Stable Diffusion for a step on one CPU rank, and holds loss
and gradients against those of diffusers' classes: diffusers_judge.py MESHWRIGHT.

Of the program come weights before and after a step of SGD; data are drawn by their definition
(executor/engine/reals.c). Needs torch, numpy and diffusers."""
import json
import math
import sys
import tempfile

import numpy
import torch
from diffusers import FluxTransformer2DModel, UNet2DConditionModel

from drawn import RATE, random_key, random_word, train

BATCH, SEED, TEXT = 4, 7, 3  # tokens of a text
FLUX = dict(attention_head_dim=8, axes_dims_rope=[4, 2, 2], guidance_embeds=True, in_channels=6,
            joint_attention_dim=5, num_attention_heads=4, num_layers=2, num_single_layers=2, pooled_projection_dim=7)
FLUX_SIDE = 4
UNET = dict(attention_head_dim=[2, 4], block_out_channels=[8, 16], cross_attention_dim=5, in_channels=3,
            out_channels=3, down_block_types=['CrossAttnDownBlock2D', 'DownBlock2D'],
            up_block_types=['UpBlock2D', 'CrossAttnUpBlock2D'], layers_per_block=2, norm_num_groups=4, sample_size=8,
            transformer_layers_per_block=[1, 2], addition_embed_type='text_time', addition_time_embed_dim=2,
            projection_class_embeddings_input_dim=17)
torch.set_default_dtype(torch.float64)


def draw(key, at):
    return (random_word(key, numpy.asarray(at)).astype(float) + 0.5) / 2.0**32


def noise(key, at):
    return math.sqrt(12) * (draw(key, at) - 0.5)


def wave(place, width):
    angles = place * 10000.0 ** -(numpy.arange(width // 2) / (width // 2))
    return numpy.concatenate([numpy.cos(angles), numpy.sin(angles)])


def sample(index, places, channels, text_width, pooled_width):
    """Latents with noise, what is to be said of them, text, its pooled vector, step, guidance."""
    key = random_key(random_key(SEED, 4), index)
    step = float(draw(random_key(key, 2), [0])[0])
    phase = 2 * math.pi * draw(key, numpy.arange(channels))
    clean = numpy.sin(phase[None, :] + 0.3 * numpy.arange(places)[:, None])
    noised = noise(random_key(key, 1), numpy.arange(places * channels)).reshape(places, channels)
    text = noise(random_key(key, 4), numpy.arange(TEXT * text_width)).reshape(TEXT, text_width)
    pooled = noise(random_key(key, 9), numpy.arange(pooled_width))
    guidance = [1, 2, 3.5][int(3 * draw(random_key(key, 8), [0])[0])]
    return (1 - step) * clean + step * noised, clean - noised, text, pooled, step, guidance


def batch(*sizes):
    return [torch.tensor(numpy.array(each)) for each in zip(*(sample(i, *sizes) for i in range(BATCH)))]


def waves(width):
    """What diffusers makes of a step in fp32, in double."""
    return lambda steps: torch.tensor(numpy.stack([wave(float(step), width) for step in steps]))


def modulations(prefix, name, parts):
    return [(f'{prefix}.{part}', f'{name}.linear', (i, len(parts))) for i, part in enumerate(parts)]


def flux_layer(index):
    """(own name, that of diffusers, which rows of it) of each product of a layer."""
    if index < FLUX['num_layers']:
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
    at = f'single_transformer_blocks.{index - FLUX["num_layers"]}'
    rows = [(part, f'{at}.norm.linear', (i, 3)) for i, part in enumerate(['shift', 'scale', 'gate'])]
    rows += [(f'attention.{p}', f'{at}.attn.to_{p}', None) for p in 'qkv']
    rows += [(f'attention.{p}.norm', f'{at}.attn.norm_{p}', None) for p in 'qk']
    return rows + [('mlp.up', f'{at}.proj_mlp', None), ('out', f'{at}.proj_out', None)]


def flux_rows():
    ends = [('embedding.patch', 'x_embedder'), ('embedding.text', 'context_embedder')]
    for own, his in ('step', 'timestep_embedder'), ('guidance', 'guidance_embedder'), ('pooled', 'text_embedder'):
        ends += [(f'embedding.{own}.in', f'time_text_embed.{his}.linear_1'),
                 (f'embedding.{own}.out', f'time_text_embed.{his}.linear_2')]
    layers = FLUX['num_layers'] + FLUX['num_single_layers']
    rows = [(0, own, his, None) for own, his in ends]
    for i in range(layers):
        rows += [(1 + i, *row) for row in flux_layer(i)]
    rows += [(1 + layers, f'head.{part}', 'norm_out.linear', (i, 2)) for i, part in enumerate(['scale', 'shift'])]
    return rows + [(1 + layers, 'head.patch', 'proj_out', None)]


def turned():
    """Which dim of a head here is each of diffusers', which turns pairs of neighbours."""
    still, each = FLUX['axes_dims_rope'][0], sum(FLUX['axes_dims_rope'][1:]) // 2
    return list(range(still)) + [still + part * each + i for i in range(each) for part in (0, 1)]


def unet_residual(own, his):
    return [(f'{own}.{part}', f'{his}.{name}', None) for part, name in
            (('norm1', 'norm1'), ('conv1', 'conv1'), ('step', 'time_emb_proj'), ('norm2', 'norm2'), ('conv2', 'conv2'),
             ('shortcut', 'conv_shortcut'))]


def unet_transformer(his, depth):
    rows = [(f'transformer.{own}', f'{his}.{name}', None) for own, name in
            (('norm', 'norm'), ('in', 'proj_in'), ('out', 'proj_out'))]
    for k in range(depth):
        at, own = f'{his}.transformer_blocks.{k}', f'transformer.{k}'
        for i, part in enumerate(['attention', 'cross', 'mlp']):
            rows.append((f'{own}.{part}.norm', f'{at}.norm{i + 1}', None))
        for part, name in ('attention', 'attn1'), ('cross', 'attn2'):
            rows += [(f'{own}.{part}.{p}', f'{at}.{name}.to_{p}', None) for p in 'qkv']
            rows.append((f'{own}.{part}.out', f'{at}.{name}.to_out.0', None))
        rows += [(f'{own}.mlp.up', f'{at}.ff.net.0.proj', (0, 2)), (f'{own}.mlp.gate', f'{at}.ff.net.0.proj', (1, 2)),
                 (f'{own}.mlp.down', f'{at}.ff.net.2', None)]
    return rows


def unet_rows():
    levels, each = len(UNET['block_out_channels']), UNET['layers_per_block']
    blocks = [[('embedding.conv', 'conv_in', None)] + [
        (f'embedding.{own}.{part}', f'{his}.linear_{i + 1}', None) for own, his in
        (('step', 'time_embedding'), ('added', 'add_embedding')) for i, part in enumerate(['in', 'out'])]]

    def level(his, at, attends, count):
        for i in range(count):
            rows = unet_residual('residual', f'{his}.resnets.{i}')
            if attends:
                rows += unet_transformer(f'{his}.attentions.{i}', UNET['transformer_layers_per_block'][at])
            blocks.append(rows)

    for at in range(levels):
        level(f'down_blocks.{at}', at, 'Cross' in UNET['down_block_types'][at], each)
        if at < levels - 1:
            blocks.append([('halved', f'down_blocks.{at}.downsamplers.0.conv', None)])
    blocks.append(unet_residual('residual', 'mid_block.resnets.0') + unet_residual('residual2', 'mid_block.resnets.1') +
                  unet_transformer('mid_block.attentions.0', UNET['transformer_layers_per_block'][-1]))
    for i in range(levels):
        level(f'up_blocks.{i}', levels - 1 - i, 'Cross' in UNET['up_block_types'][i], each + 1)
        if i < levels - 1:
            blocks.append([('doubled', f'up_blocks.{i}.upsamplers.0.conv', None)])
    blocks.append([('head.norm', 'conv_norm_out', None), ('head.conv', 'conv_out', None)])
    return [(place, *row) for place, rows in enumerate(blocks) for row in rows]


def as_theirs(own, values, like):
    """A parameter of ours in the shape and order of one of diffusers'."""
    rows = like.shape[0]
    is_kernel = like.dim() == 4 and own.rsplit('.', 2)[1] not in ('in', 'out')
    if own.endswith('.weight') and like.dim() > 1 and not is_kernel:
        values = values.reshape(like.shape[1], rows).T
    if own.rsplit('.', 1)[0] in {f'{p}attention.{q}{n}' for p in ('', 'text.') for q in 'qk' for n in ('', '.norm')}:
        heads = values.reshape(-1, FLUX['attention_head_dim'], *values.shape[1:])
        values = heads[:, turned()].reshape(values.shape)
    return torch.tensor(values.reshape(like.shape))


def pairs(model, rows, found):
    """(our key, slices of diffusers' parameter) of all parameters."""
    parameters = dict(model.named_parameters())
    for place, own, his, part in rows:
        for kind in 'weight', 'bias':
            whole = parameters.get(f'{his}.{kind}')
            if whole is None:
                continue
            names, cuts = [f'{own}.{kind}'], [slice(None)]
            if own == 'out' and kind == 'weight':  # attention and feed-forward beside one another
                hidden = FLUX['num_attention_heads'] * FLUX['attention_head_dim']
                names, cuts = ['out.attention.weight', 'out.mlp.weight'], [slice(0, hidden), slice(hidden, None)]
            for name, cut in zip(names, cuts):
                rows_of = slice(None)
                if part:
                    each = whole.shape[0] // part[1]
                    rows_of = slice(part[0] * each, (part[0] + 1) * each)
                key = f'{name}.{place}'
                assert key in found, (key, sorted(found))
                yield key, name, whole, (rows_of, cut) if whole.dim() > 1 else (rows_of,)


def compare(name, sizes, model, rows, loss_of_batch):
    """Trains a model of these sizes for a step and says how far it is from diffusers'."""
    with tempfile.TemporaryDirectory() as scratch:
        path = f'{scratch}/{name}.json'
        json.dump(dict(sizes, _class_name=type(model).__name__, max_sequence_length=TEXT), open(path, 'w'))
        loss_of_run, found = train(sys.argv[1], path, scratch, BATCH, SEED)
    used = set()
    with torch.no_grad():
        for key, own, whole, cut in pairs(model, rows, found):
            before = found[key]['weight'] + RATE * found[key]['first_moment']
            whole[cut] = as_theirs(own, before, whole[cut])
            used.add(key)
    loss = loss_of_batch(model)
    loss.backward()
    error, worst = abs(loss.item() - loss_of_run) / loss.item(), 0
    for key, own, whole, cut in pairs(model, rows, found):
        expected = whole.grad[cut]
        gradient = as_theirs(own, found[key]['first_moment'], expected)
        worst = max(worst, float((gradient - expected).abs().max() / max(1e-3, float(expected.abs().max()))))
    count = sum(parameter.numel() for parameter in model.parameters())
    mine = sum(len(each['weight']) for each in found.values())
    norm = math.sqrt(sum(float((parameter.grad ** 2).sum()) for parameter in model.parameters()))
    # tests/executor/test_run_video.c has loss and norm.
    print(f'{name}: {count} parameters, loss {loss.item():.15g}, norm {norm:.15g}, off by {error:.1e}; '
          f'{len(used)} gradients, off by {worst:.1e} at most')
    assert used == set(found) and count == mine and error < 1e-12 and worst < 1e-9


def flux_loss(model):
    side = FLUX_SIDE
    latents, target, text, pooled, step, guidance = batch(
        side * side, FLUX['in_channels'], FLUX['joint_attention_dim'], FLUX['pooled_projection_dim'])
    places = torch.zeros(side * side, 3)
    places[:, 1], places[:, 2] = torch.arange(side * side) // side, torch.arange(side * side) % side
    model.time_text_embed.time_proj.forward = waves(256)
    said = model(latents, text, pooled, step, places, torch.zeros(TEXT, 3), guidance, return_dict=False)[0]
    return ((said - target) ** 2).mean()


def unet_loss(model):
    side = UNET['sample_size']
    latents, target, text, pooled, step, _ = batch(side * side, UNET['in_channels'], UNET['cross_attention_dim'],
                                                   UNET['projection_class_embeddings_input_dim'])
    latents, target = (each.transpose(1, 2).reshape(BATCH, -1, side, side) for each in (latents, target))
    model.time_proj.forward = waves(UNET['block_out_channels'][0])
    model.get_aug_embed = lambda **given: model.add_embedding(pooled)
    said = model(latents, 1000 * step, text, return_dict=False)[0]
    return ((said - target) ** 2).mean()


def main():
    torch.Tensor.float = torch.Tensor.double  # rotations and waves, which diffusers makes in fp32
    compare('flux', dict(FLUX, sample_size=2 * FLUX_SIDE), FluxTransformer2DModel(**FLUX), flux_rows(), flux_loss)
    compare('unet', UNET, UNet2DConditionModel(**UNET), unet_rows(), unet_loss)


if __name__ == '__main__':
    main()
