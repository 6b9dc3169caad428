"""PyTorch's training step of a GPT-2 or a Llama, compiled, bf16, with its flash attention: what
runs are compared with. Prints one line of JSON. Arguments: config.json as Hugging Face writes it,
layers, sequence length, sequences of a step, sequences of a micro-batch."""
import json
import sys
import time

import torch
from torch.nn import functional

path, layers, length, batch, micro_batch = sys.argv[1], *map(int, sys.argv[2:6])
config = json.load(open(path))
IS_LLAMA = config["model_type"] == "llama"
WIDTH = config["hidden_size" if IS_LLAMA else "n_embd"]
HEADS = config["num_attention_heads" if IS_LLAMA else "n_head"]
KV_HEADS = config.get("num_key_value_heads", HEADS)
FFN = config.get("intermediate_size", 4 * WIDTH)
VOCAB = (config["vocab_size"] + 127) // 128 * 128  # padded, as ours is
HEAD = WIDTH // HEADS


def norm():
    return torch.nn.RMSNorm(WIDTH) if IS_LLAMA else torch.nn.LayerNorm(WIDTH)


def linear(rows, columns):
    return torch.nn.Linear(rows, columns, bias=not IS_LLAMA)


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList(norm() for _ in range(2))
        self.qkv = linear(WIDTH, (HEADS + 2 * KV_HEADS) * HEAD)
        self.out = linear(WIDTH, WIDTH)
        self.up = linear(WIDTH, FFN * (2 if IS_LLAMA else 1))
        self.down = linear(FFN, WIDTH)

    def forward(self, x, cos, sin):
        q, k, v = self.qkv(self.norms[0](x)).split(
            [HEADS * HEAD, KV_HEADS * HEAD, KV_HEADS * HEAD], 2)
        q, k, v = (y.view(*y.shape[:2], -1, HEAD).transpose(1, 2) for y in (q, k, v))
        if IS_LLAMA:
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                    enable_gqa=KV_HEADS != HEADS)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        hidden = self.up(self.norms[1](x))
        if IS_LLAMA:
            gate, up = hidden.chunk(2, -1)
            return x + self.down(functional.silu(gate) * up)
        return x + self.down(functional.gelu(hidden, approximate="tanh"))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCAB, WIDTH)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(layers))
        self.norm = norm()
        self.head = torch.nn.Linear(WIDTH, VOCAB, bias=False)
        if IS_LLAMA:
            powers = torch.arange(0, HEAD, 2) / HEAD
            angles = torch.outer(torch.arange(length), config["rope_theta"] ** -powers)
            angles = torch.cat((angles, angles), -1)
            self.register_buffer("cos", angles.cos().bfloat16())
            self.register_buffer("sin", angles.sin().bfloat16())
        else:
            self.positions = torch.nn.Embedding(length, WIDTH)
            self.head.weight = self.tokens.weight
            self.cos = self.sin = None

    def forward(self, ids, labels):
        x = self.tokens(ids).bfloat16()  # what layers hand on is of 16 bits, as ours is
        if not IS_LLAMA:
            x = x + self.positions.weight.bfloat16()
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())


torch.manual_seed(1)
with torch.device("cuda"):
    model = Model()
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
ids = torch.randint(0, config["vocab_size"], (batch, length), device="cuda")


def step():
    total = 0
    for part in ids.split(micro_batch):
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(part, part) / (batch // micro_batch)
        loss.backward()
        total += loss.detach()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total


times = []
for _ in range(8):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    step()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - begin)
times = sorted(times[2:])
middle = (times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2
print(json.dumps({"torch": torch.__version__, "layers": layers, "step_s": middle,
                  "tokens_per_s": batch * length / middle,
                  "peak_bytes": torch.cuda.max_memory_allocated()}))
