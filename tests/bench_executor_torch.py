"""A training step of GPT-2 in PyTorch, one thread, fp32, AdamW: a baseline of bench_executor.

Arguments: layers heads width vocab positions batch seq. Says "ready VERSION, KERNELS", then for
each line that comes in does one step and says "WALL_SECONDS CPU_SECONDS LOSS".
"""
import ctypes
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional

LAYERS, HEADS, WIDTH, VOCAB, POSITIONS, BATCH, SEQ = (int(word) for word in sys.argv[1:8])


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def attend(self, x):
        q, k, v = (part.view(BATCH, SEQ, HEADS, WIDTH // HEADS).transpose(1, 2)
                   for part in self.qkv(x).split(WIDTH, dim=2))
        if hasattr(functional, "scaled_dot_product_attention"):
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)
            later = torch.ones(SEQ, SEQ, dtype=torch.bool).triu(1)
            mixed = torch.softmax(scores.masked_fill(later, float("-inf")), dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(BATCH, SEQ, WIDTH))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.positions(torch.arange(SEQ))
        for layer in self.layers:
            x = layer(x)
        logits = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(logits.view(-1, VOCAB), labels.view(-1))


def kernels():
    """What OpenBLAS chose, where that is what PyTorch stands on."""
    for line in open("/proc/self/maps", encoding="ascii"):
        if "openblas" in line or "libblas" in line:
            library = ctypes.CDLL(line.split()[-1])
            if hasattr(library, "openblas_get_corename"):
                library.openblas_get_corename.restype = ctypes.c_char_p
                return "OpenBLAS, kernels of " + library.openblas_get_corename().decode()
    return "its own BLAS"


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)
    rows = torch.randint(0, VOCAB, (BATCH, SEQ + 1))
    tokens, labels = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
    print(f"ready PyTorch {torch.__version__}, {kernels()}", flush=True)
    for _ in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        loss = model(tokens, labels)
        loss.backward()
        optimizer.step()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(f"{wall:.6f} {cpu:.6f} {loss.item():.4f}", flush=True)


main()
