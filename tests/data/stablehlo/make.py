#!/usr/bin/env python3
"""Prints the programs of this folder: models in plain JAX and in Flax as StableHLO, with the names
of their arguments; locations, which are places in this file, are left out.

Made with jax 0.10.2 and flax 0.12.8. Run it in this folder.
"""
import re

import flax.linen as flax
import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax, nn

ids = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.int32)
f32 = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
bf16 = lambda tree: jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, jnp.bfloat16), tree)


def write(name, function, *arguments):
    weights = jax.tree.leaves(getattr(arguments[0], "get", lambda key, other: other)(
        "params", arguments[0]))
    with open("parameters.tsv", "a") as file:
        file.write(f"{name}\t{sum(weight.size for weight in weights)}\n")
    text = jax.jit(function).lower(*arguments).as_text(debug_info=True)
    named = dict(re.findall(r'^(#loc\d+) = loc\(("[^"]*")\)$', text, re.M))
    text = re.sub(r"^#loc.*\n", "", text, flags=re.M)
    text = re.sub(r'(%arg\d+: tensor<[^>]*>) loc\(("[^"]*")\)', r"\1 @\2@", text)
    text = re.sub(r' loc\((?:[^()]|\([^()]*\))*\)', "", text)
    text = re.sub(r'@("[^"]*")@', r"loc(\1)", text)
    with open(name + ".mlir", "w") as file:
        file.write(text)


def norm(x, p):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * p["g"] + p["b"]


def dense(x, p):
    return x @ p["w"] + p["b"]


@jax.jit
def layer(p, x):
    """GPT-2's: attention and mlp behind norms (Radford et al. 2019)."""
    batch, length, hidden = x.shape
    heads, depth = hidden // 64, 64
    if hidden < 64:
        heads, depth = 4, hidden // 4
    q, k, v = jnp.split(dense(norm(x, p["ln1"]), p["qkv"]), 3, -1)
    q, k, v = (t.reshape(batch, length, heads, depth) for t in (q, k, v))
    scores = jnp.einsum("bqnd,bknd->bnqk", q, k) / jnp.sqrt(depth)
    mask = jnp.tril(jnp.ones((length, length), bool))
    shares = nn.softmax(jnp.where(mask, scores, -1e9), -1)
    mixed = jnp.einsum("bnqk,bknd->bqnd", shares, v).reshape(batch, length, hidden)
    x = x + dense(mixed, p["out"])
    return x + dense(nn.gelu(dense(norm(x, p["ln2"]), p["up"])), p["down"])


def gpt(params, tokens):
    x = params["wte"][tokens] + params["wpe"][:tokens.shape[1]]
    for p in params["layers"]:
        x = layer(p, x)
    return norm(x, params["ln"]) @ params["wte"].T


def gpt_params(layers, hidden, vocab, positions):
    pair = lambda n: dict(g=f32(n), b=f32(n))
    linear = lambda n, m: dict(w=f32(n, m), b=f32(m))
    return dict(wte=f32(vocab, hidden), wpe=f32(positions, hidden), ln=pair(hidden), layers=[
        dict(ln1=pair(hidden), qkv=linear(hidden, 3 * hidden), out=linear(hidden, hidden),
             ln2=pair(hidden), up=linear(hidden, 4 * hidden), down=linear(4 * hidden, hidden))
        for _ in range(layers)])


def apart(params, tokens):
    """The same without functions, with projections that are three and have places for heads, and
    with products whose factors stand the other way round."""
    x = params["wte"][tokens] + params["wpe"][None, :tokens.shape[1]]
    for p in params["layers"]:
        h = norm(x, p["ln1"])
        q, k, v = (jnp.einsum("bsh,hnd->bsnd", h, p[n]["w"]) + p[n]["b"] for n in "qkv")
        scores = jnp.einsum("bkhd,bqhd->bhqk", k, q) * (q.shape[-1] ** -0.5)
        row = lax.broadcasted_iota(jnp.int32, scores.shape[2:], 0)
        column = lax.broadcasted_iota(jnp.int32, scores.shape[2:], 1)
        scores = jnp.where(row >= column, scores, jnp.finfo(scores.dtype).min)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
        x = x + jnp.einsum("ndh,bsnd->bsh", p["out"]["w"], mixed) + p["out"]["b"]
        up = nn.gelu(dense(norm(x, p["ln2"]), p["up"]), approximate=True)
        x = x + dense(up, p["down"])
    return jnp.einsum("bsh,vh->bsv", norm(x, params["ln"]), params["wte"])


def apart_params(layers, hidden, heads, vocab, positions):
    params = gpt_params(layers, hidden, vocab, positions)
    depth = hidden // heads
    for p in params["layers"]:
        del p["qkv"]
        p["out"]["w"] = f32(heads, depth, hidden)
        for n in "qkv":
            p[n] = dict(w=f32(hidden, heads, depth), b=f32(heads, depth))
    return params


def root_mean_square(x, weight):
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt((wide ** 2).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype) * weight


def angles(length, depth, dtype):
    at = jnp.arange(length)[:, None] / 10000 ** (jnp.arange(depth // 2) * 2 / depth)
    return [f(at)[None, :, None, :].astype(dtype) for f in (jnp.cos, jnp.sin)]


def rotate(x):
    """Rotation of halves (Su et al. 2021), as sums of products."""
    cos, sin = angles(x.shape[1], x.shape[3], x.dtype)
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def rotate_whole(x):
    """The same with a half that is turned round."""
    cos, sin = (jnp.concatenate([f, f], -1) for f in angles(x.shape[1], x.shape[3], x.dtype))
    a, b = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate([-b, a], -1) * sin


def grouped(q, k, v, mask):
    """Several heads of queries meet one of keys, which is not repeated (Ainslie et al. 2023)."""
    batch, length, heads, depth = q.shape
    q = q.reshape(batch, length, k.shape[2], -1, depth)
    scores = jnp.einsum("btkgh,bskh->bkgts", q, k).astype(jnp.float32) * depth ** -0.5
    shares = nn.softmax(jnp.where(mask, scores, -1e30), -1).astype(q.dtype)
    return jnp.einsum("bkgts,bskh->btkgh", shares, v).reshape(batch, length, heads, depth)


def repeated(q, k, v, mask):
    k, v = (jnp.repeat(t, q.shape[2] // k.shape[2], 2) for t in (k, v))
    scores = jnp.einsum("btnh,bsnh->bnts", q, k) / jnp.sqrt(q.shape[3]).astype(q.dtype)
    return jnp.einsum("bnts,bsnh->btnh", nn.softmax(jnp.where(mask, scores, -jnp.inf), -1), v)


def llama_layer(x, p, turn, attend):
    h = root_mean_square(x, p["attention_norm"])
    q, k, v = (jnp.einsum("btd,dnh->btnh", h, p[n]) for n in "qkv")
    mask = jnp.tril(jnp.ones((x.shape[1],) * 2, bool))
    x = x + jnp.einsum("btnh,nhd->btd", attend(turn(q), turn(k), v, mask), p["out"])
    h = root_mean_square(x, p["mlp_norm"])
    return x + (nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]


def llama(params, tokens):
    """Llama (Touvron et al. 2023), one layer behind the other."""
    x = params["embedding"][tokens]
    for p in params["layers"]:
        x = llama_layer(x, p, rotate_whole, repeated)
    return root_mean_square(x, params["norm"]) @ params["head"]


def llama_scan(params, tokens):
    """The same as a scan over weights that are stacks of those of layers, recomputed in backward."""
    layer = jax.checkpoint(lambda x, p: (llama_layer(x, p, rotate, grouped), None))
    x, _ = lax.scan(layer, params["embedding"][tokens], params["layers"])
    return root_mean_square(x, params["norm"]) @ params["head"]


def llama_params(layers, hidden, heads, kv_heads, ffn, vocab, stacked):
    depth = hidden // heads
    each = lambda *to: dict(
        attention_norm=f32(*to, hidden), mlp_norm=f32(*to, hidden), q=f32(*to, hidden, heads, depth),
        k=f32(*to, hidden, kv_heads, depth), v=f32(*to, hidden, kv_heads, depth),
        out=f32(*to, heads, depth, hidden), gate=f32(*to, hidden, ffn), up=f32(*to, hidden, ffn),
        down=f32(*to, ffn, hidden))
    return dict(embedding=f32(vocab, hidden), norm=f32(hidden), head=f32(hidden, vocab),
                layers=each(layers) if stacked else [each() for _ in range(layers)])


class Mixed(flax.Module):
    """GPT-2's layers in Flax, which computes in bf16 with weights in fp32."""
    layers: int
    heads: int
    vocab: int

    @flax.compact
    def __call__(self, tokens):
        dtype, hidden = jnp.bfloat16, 32
        embed = flax.Embed(self.vocab, hidden, dtype=dtype)
        x = embed(tokens) + self.param("positions", nn.initializers.normal(),
                                       (tokens.shape[1], hidden)).astype(dtype)
        mask = flax.make_causal_mask(tokens)
        for _ in range(self.layers):
            h = flax.LayerNorm(dtype=dtype)(x)
            x = x + flax.MultiHeadDotProductAttention(num_heads=self.heads, dtype=dtype)(h, mask=mask)
            h = flax.Dense(4 * hidden, dtype=dtype)(flax.LayerNorm(dtype=dtype)(x))
            x = x + flax.Dense(hidden, dtype=dtype)(nn.gelu(h))
        return embed.attend(flax.LayerNorm(dtype=dtype)(x))


class Block(nnx.Module):
    def __init__(self, hidden, heads, rngs):
        self.first, self.second = (nnx.LayerNorm(hidden, rngs=rngs) for _ in range(2))
        self.attention = nnx.MultiHeadAttention(heads, hidden, decode=False, rngs=rngs)
        self.up = nnx.Linear(hidden, 4 * hidden, rngs=rngs)
        self.down = nnx.Linear(4 * hidden, hidden, rngs=rngs)

    def __call__(self, x, mask):
        x = x + self.attention(self.first(x), mask=mask)
        return x + self.down(nnx.gelu(self.up(self.second(x))))


class Modular(nnx.Module):
    """GPT-2 in nnx, whose attention has groups of one head."""
    def __init__(self, layers, hidden, heads, vocab, positions, rngs):
        self.words = nnx.Embed(vocab, hidden, rngs=rngs)
        self.places = nnx.Param(jnp.zeros((positions, hidden)))
        self.layers = nnx.List([Block(hidden, heads, rngs) for _ in range(layers)])
        self.norm = nnx.LayerNorm(hidden, rngs=rngs)

    def __call__(self, tokens):
        x = self.words(tokens) + self.places[:tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, nnx.make_causal_mask(tokens))
        return self.words.attend(self.norm(x))


def write_modular(name, model, tokens):
    """The state is handed back, as nnx.jit does."""
    graph, state = nnx.split(model)
    write(name, lambda state, tokens: (nnx.merge(graph, state)(tokens), state), state, tokens)


def picks(params, x, places, key):
    """What is read and written by indices, sorted and summed on the way, a loop over places that
    hands out what it made, and dropout: (batch, places, classes)."""
    h = x @ params["in"]
    kept = jax.random.bernoulli(key, 0.9, h.shape)
    h = jnp.where(kept, h / 0.9, 0.)
    state = jnp.zeros((h.shape[0], h.shape[2]))
    step = lambda state, row: ((jnp.tanh(state @ params["loop"] + row),) * 2)
    h = lax.scan(step, state, h.swapaxes(0, 1))[1].swapaxes(0, 1)
    best, which = lax.top_k(h, 2)
    rows = jnp.take_along_axis(h, jnp.argsort(h, -1), -1) + nn.one_hot(jnp.argmax(h, -1), h.shape[2])
    rows = jnp.cumsum(rows, 1) + jnp.sort(h, 1)[:, ::-1] + h[places, places][:, None]
    rows = rows.at[places].add(best.sum(-1, keepdims=True)).at[:, 0].set(1. * which[:, 0, :1])
    table = jnp.zeros((8, h.shape[2])).at[places].set(h.reshape(-1, h.shape[2])[:places.size])
    wide = lax.dynamic_update_slice(jnp.concatenate([h, h], 1), rows, (0, 1, 0))
    return wide @ params["out"] + table @ params["out"]


def mlp(params, x):
    for p in params[:-1]:
        x = nn.relu(dense(x, p))
    return dense(x, params[-1])


def convolutions(params, x):
    """With a bias, without norms: every operator has a kernel of our own."""
    def conv(x, p, stride=1, groups=1):
        y = lax.conv_general_dilated(x, p["w"], (stride, stride), "SAME", feature_group_count=groups,
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return y + p["b"]
    x = nn.relu(conv(x, params["stem"], 2))
    x = flax.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))
    for p in params["blocks"]:
        y = nn.silu(conv(x, p["first"]))
        y = nn.gelu(conv(y, p["second"], groups=4))
        x = nn.relu(x + y)
    x = flax.avg_pool(x, (2, 2), (2, 2))
    return dense(x.mean((1, 2)), params["head"])


def convolution_params(width, classes):
    conv = lambda size, n, m: dict(w=f32(size, size, n, m), b=f32(m))
    return dict(stem=conv(7, 3, width), head=dict(w=f32(width, classes), b=f32(classes)), blocks=[
        dict(first=conv(3, width, width), second=conv(3, width // 4, width)) for _ in range(3)])


class Bottleneck(flax.Module):
    width: int
    stride: int
    norm: type

    @flax.compact
    def __call__(self, x):
        y = nn.relu(self.norm()(flax.Conv(self.width, (1, 1), use_bias=False)(x)))
        y = flax.Conv(self.width, (3, 3), (self.stride,) * 2, use_bias=False)(y)
        y = nn.relu(self.norm()(y))
        y = self.norm()(flax.Conv(4 * self.width, (1, 1), use_bias=False)(y))
        if x.shape != y.shape:
            x = flax.Conv(4 * self.width, (1, 1), (self.stride,) * 2, use_bias=False)(x)
            x = self.norm()(x)
        return nn.relu(x + y)


class ResNet(flax.Module):
    """He et al. 2015, table 1."""
    depths: tuple
    norm: type
    classes: int = 1000
    width: int = 64

    @flax.compact
    def __call__(self, x):
        x = flax.Conv(self.width, (7, 7), (2, 2), padding=3, use_bias=False)(x)
        x = flax.max_pool(nn.relu(self.norm()(x)), (3, 3), (2, 2), ((1, 1), (1, 1)))
        for stage, depth in enumerate(self.depths):
            for i in range(depth):
                stride = 2 if stage and not i else 1
                x = Bottleneck(self.width << stage, stride, self.norm)(x)
        return flax.Dense(self.classes)(x.mean((1, 2)))


class Encoder(flax.Module):
    dtype: type = jnp.float32

    @flax.compact
    def __call__(self, x):
        of = dict(dtype=self.dtype)
        x = x + flax.MultiHeadDotProductAttention(num_heads=4, **of)(flax.LayerNorm(**of)(x))
        y = flax.Dense(4 * x.shape[-1], **of)(flax.LayerNorm(**of)(x))
        return x + flax.Dense(x.shape[-1], **of)(nn.gelu(y, approximate=False))


class ViT(flax.Module):
    """Dosovitskiy et al. 2020, with the mean of all patches in place of a token."""
    @flax.compact
    def __call__(self, x):
        x = flax.Conv(64, (8, 8), (8, 8), padding="VALID")(x)
        x = x.reshape(x.shape[0], -1, x.shape[-1])
        x = x + self.param("positions", nn.initializers.normal(), (1,) + x.shape[1:])
        for _ in range(3):
            x = Encoder()(x)
        return flax.Dense(10)(flax.LayerNorm()(x).mean(1))


class ClassViT(flax.Module):
    """The same with a token of the class, as in the paper, in bf16 with weights in fp32."""
    @flax.compact
    def __call__(self, x):
        of, hidden = dict(dtype=jnp.bfloat16), 64
        x = flax.Conv(hidden, (8, 8), (8, 8), padding="VALID", **of)(x)
        x = x.reshape(x.shape[0], -1, hidden)
        token = self.param("class", nn.initializers.zeros, (1, 1, hidden)).astype(x.dtype)
        x = jnp.concatenate([jnp.tile(token, (x.shape[0], 1, 1)), x], 1)
        x = x + self.param("positions", nn.initializers.normal(), (1,) + x.shape[1:]).astype(x.dtype)
        for _ in range(3):
            x = Encoder(**of)(x)
        return flax.Dense(10, **of)(flax.LayerNorm(**of)(x)[:, 0])


class Mirror(flax.Module):
    """Down and up again, by transposed convolutions of three kinds."""
    @flax.compact
    def __call__(self, x):
        x = nn.relu(flax.Conv(8, (3, 3), (2, 2))(x))
        x = nn.relu(flax.ConvTranspose(6, (2, 2), (2, 2))(x))
        x = nn.relu(flax.ConvTranspose(6, (4, 4), (2, 2), padding="VALID")(x))
        return flax.Dense(5)(flax.ConvTranspose(4, (3, 3))(x).mean((1, 2)))


def module(name, model, x):
    variables = jax.eval_shape(model.init, jax.random.key(0), x)
    mutable = [key for key in variables if key != "params"]
    write(name, lambda variables, x: (model.apply(variables, x, mutable=mutable)[0] if mutable
                                      else model.apply(variables, x)), variables, x)


if __name__ == "__main__":
    open("parameters.tsv", "w").close()
    write("gpt2", gpt, gpt_params(12, 768, 50257, 1024), ids(1, 1024))
    write("gpt_apart", apart, apart_params(3, 32, 4, 100, 64), ids(2, 64))
    write("gpt_bf16", gpt, bf16(gpt_params(3, 32, 100, 64)), ids(2, 64))
    module("gpt_mixed", Mixed(3, 4, 100), ids(2, 64))
    write_modular("gpt_nnx", Modular(3, 32, 4, 100, 64, nnx.Rngs(0)), ids(2, 64))
    write("llama", llama, llama_params(3, 32, 4, 2, 48, 100, False), ids(2, 16))
    write("llama_scan", llama_scan, bf16(llama_params(3, 32, 8, 2, 48, 100, True)), ids(2, 16))
    linear = lambda n, m: dict(w=f32(n, m), b=f32(m))
    write("mlp", mlp, [linear(784, 256), linear(256, 256), linear(256, 10)], f32(32, 784))
    write("convolutions", convolutions, convolution_params(16, 10), f32(2, 32, 32, 3))
    batch = lambda: flax.BatchNorm(use_running_average=False)
    module("resnet50", ResNet((3, 4, 6, 3), batch), f32(2, 224, 224, 3))
    module("resnet_groups", ResNet((1, 1), lambda: flax.GroupNorm(8), 10, 32), f32(2, 64, 64, 3))
    matrices = dict(loop=f32(8, 8), out=f32(8, 5)) | {"in": f32(8, 8)}
    write("picks", picks, matrices, f32(2, 4, 8), ids(2), jax.eval_shape(lambda: jax.random.PRNGKey(0)))
    module("mirror", Mirror(), f32(2, 8, 8, 3))
    module("vit", ViT(), f32(2, 32, 32, 3))
    module("vit_class", ClassViT(), f32(2, 32, 32, 3))
