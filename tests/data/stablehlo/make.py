#!/usr/bin/env python3
"""Prints the programs of this folder: models in plain JAX and in Flax as StableHLO, with the names
of their arguments; locations, which are places in this file, are left out.

Made with jax 0.10.2 and flax 0.12.8. Run it in this folder.
"""
import re
import sys

import jax
import jax.numpy as jnp
from jax import lax, nn

ids = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.int32)
f32 = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)


def write(name, function, *arguments):
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


if __name__ == "__main__":
    write("gpt2", gpt, gpt_params(12, 768, 50257, 1024), ids(1, 1024))
    write("gpt_apart", apart, apart_params(3, 32, 4, 100, 64), ids(2, 64))
