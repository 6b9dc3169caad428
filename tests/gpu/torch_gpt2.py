"""PyTorch's training step of GPT-2, compiled, with its flash attention: what the run is compared
with. Prints one line of JSON. Arguments: sequence length, sequences of a step, fp32 or bf16."""
import json
import sys
import time

import torch

length, batch, precision = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
WIDTH, LAYERS, HEADS, VOCAB = 768, 12, 12, 50304


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.view(*part.shape[:2], HEADS, -1).transpose(1, 2)
                   for part in self.qkv(self.norms[0](x)).split(WIDTH, 2))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        hidden = torch.nn.functional.gelu(self.up(self.norms[1](x)), approximate="tanh")
        return x + self.down(hidden)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCAB, WIDTH)
        self.positions = torch.nn.Embedding(length, WIDTH)
        self.layers = torch.nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.norm = torch.nn.LayerNorm(WIDTH)

    def forward(self, ids, labels):
        x = self.layers(self.tokens(ids) + self.positions.weight)
        logits = torch.nn.functional.linear(self.norm(x), self.tokens.weight)
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())


torch.backends.cuda.matmul.allow_tf32 = False
model = torch.compile(Model().cuda())
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
ids = torch.randint(0, VOCAB, (batch, length), device="cuda")


def step():
    with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
        loss = model(ids, ids)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


best = float("inf")
for _ in range(15):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    step()
    torch.cuda.synchronize()
    best = min(best, time.perf_counter() - begin)
print(json.dumps({"torch": torch.__version__, "precision": precision, "step_s": best,
                  "tokens_per_s": batch * length / best}))
