#!/usr/bin/env python3
"""Makes the programs of this folder: models of transformers as torch.export.save writes them, less
what a planner does not read: weights (the archive keeps none), the sample inputs, and the metadata
of each node (stack traces). Members are deflated, so that the files are small.

Made with torch 2.15 and transformers 5.23 but for those named *_2_5, which are of torch 2.5.1 and
transformers 4.46.3, whose archives are laid out otherwise. Run it in this folder with either.
"""
import io
import json
import sys
import zipfile

import torch
import transformers
from transformers import (BertConfig, BertForMaskedLM, DeiTConfig, DeiTForImageClassification,
                          GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM,
                          MixtralConfig, MixtralForCausalLM, Qwen2Config, Qwen2ForCausalLM, ResNetConfig, ResNetForImageClassification, T5Config,
                          T5ForConditionalGeneration, ViTConfig, ViTForImageClassification)

TINY = dict(num_hidden_layers=3, hidden_size=32, num_attention_heads=4, num_key_value_heads=2,
            intermediate_size=48, vocab_size=100)
TINY_BERT = dict(num_hidden_layers=2, hidden_size=32, num_attention_heads=4, intermediate_size=64,
                 vocab_size=100, max_position_embeddings=40)
GRAPHS = ("serialized_exported_program.json", "model.json")


class Logits(torch.nn.Module):
    def __init__(self, model, **options):
        super().__init__()
        self.model, self.options = model, options

    def forward(self, x):
        if isinstance(self.model, T5ForConditionalGeneration):
            return self.model(input_ids=x, decoder_input_ids=x, **self.options).logits
        return self.model(x, **self.options).logits


class Masked(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(input_ids=input_ids, attention_mask=attention_mask,
                          token_type_ids=token_type_ids).logits


class Loss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, labels):
        return self.model(input_ids=input_ids, labels=labels, use_cache=False).loss


def strip(program):
    archive = io.BytesIO()
    torch.export.save(program, archive)
    kept = {}
    with zipfile.ZipFile(archive) as whole:
        for name in whole.namelist():
            if not name.endswith(GRAPHS):
                continue
            graph = json.loads(whole.read(name))
            inner = [graph["graph_module"]["graph"]]
            while inner:
                for node in inner.pop()["nodes"]:
                    node["metadata"] = {}
                    for given in node["inputs"]:
                        if "as_graph" in given["arg"]:
                            inner.append(given["arg"]["as_graph"]["graph"])
            kept[name] = json.dumps(graph)
    return kept


def export(name, model, *examples, core=False, **options):
    if len(examples) != 2:
        model = Logits(model, **options) if len(examples) == 1 else Masked(model)
    program = torch.export.export(model.eval(), examples)
    if core:
        program = program.run_decompositions()
    with zipfile.ZipFile(name + ".pt2", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for member, text in strip(program).items():
            entry = zipfile.ZipInfo(member.split("/", 1)[0].replace("archive", name) + "/" +
                                    member.split("/", 1)[1] if "/" in member else member)
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, text)


def tokens(length):
    return torch.zeros(1, length, dtype=torch.long)


class Plain(torch.nn.Module):
    """What has its logits as its result, for the wrapper."""
    def forward(self, x, **options):
        class Answer:
            logits = self.answer(x)
        return Answer


class Recurrent(Plain):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(50, 8)
        self.lstm = torch.nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True)
        self.gru = torch.nn.GRU(12, 10, bias=False)
        self.rnn = torch.nn.RNN(10, 4, bidirectional=True)
        self.head = torch.nn.Linear(8 + 12, 5)

    def answer(self, x):
        y, (last, _) = self.lstm(self.table(x))
        z, _ = self.rnn(self.gru(y.transpose(0, 1))[0])
        return self.head(torch.cat([z[-1], last[-1], last[0]], 1))


class Bags(Plain):
    """Nine tables and the products of their sums, as DLRM has them."""
    def __init__(self):
        super().__init__()
        self.tables = torch.nn.ModuleList(torch.nn.EmbeddingBag(20, 8, mode="sum") for _ in range(9))
        self.top = torch.nn.Sequential(torch.nn.Linear(36, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8),
                                       torch.nn.ReLU(), torch.nn.Linear(8, 2))
        rows, columns = torch.tril_indices(9, 9, -1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)

    def answer(self, x):
        sums = torch.stack([table(x[:, i]) for i, table in enumerate(self.tables)], 1)
        products = torch.bmm(sums, sums.transpose(1, 2))
        return self.top(products[:, self.rows, self.columns])


class Many(Plain):
    """Every operator that has a row and no other model here."""
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv3d(2, 8, 3, padding=1)
        self.turned = torch.nn.ConvTranspose3d(8, 4, 2, stride=2)
        self.prelu = torch.nn.PReLU(4)
        self.norm = torch.nn.InstanceNorm2d(4, affine=True)
        self.head = torch.nn.Linear(48, 3)

    def answer(self, x):
        F = torch.nn.functional
        y = F.glu(self.turned(F.celu(self.conv(x))), 2)
        y = F.max_pool3d(F.interpolate(y, scale_factor=2, mode="trilinear"), 2)
        y = self.prelu(y).roll((1, -1), (3, 4)).flip(2)
        a, b = F.pad(y.mean(2), (1, 1, 0, 2)).square().unbind(0)[0], y.std(2)[0]
        b = F.pixel_unshuffle(F.pixel_shuffle(self.norm(b[None]).repeat(1, 4, 1, 1), 2), 4)[0]
        c = torch.einsum("chw,dij->hi", a, b).tril(1).cumsum(0).topk(3, 1)[0]
        d = F.adaptive_max_pool2d(F.interpolate(a[None], size=8, mode="bicubic"), 4)[0]
        d = 1 - torch.scatter(d, 2, d.argmax(2, keepdim=True), 0).clamp_min(0.1)
        d = d[:, torch.arange(3)] % 2.5 + c.logsumexp(0).amax() * F.softsign(d[:, :3]).norm(dim=(1, 2))[0]
        return self.head(d.flatten()[None])


class Positions(Plain):
    """Places and types are read of tables by numbers that are the same for all samples."""
    def __init__(self):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(50, 8), torch.nn.Embedding(30, 8)
        self.types = torch.nn.Embedding(2, 8)
        self.register_buffer("type_of", torch.zeros(1, 30, dtype=torch.long))
        self.layers = torch.nn.ModuleList(torch.nn.TransformerEncoderLayer(8, 2, 12, 0., batch_first=True)
                                          for _ in range(3))
        self.gate, self.head = torch.nn.Parameter(torch.ones(8)), torch.nn.Linear(8, 5)

    def answer(self, x):
        y = self.words(x) + self.types(self.type_of[:, :x.shape[1]].expand(*x.shape))
        y = y + self.places(torch.arange(x.shape[1]))
        for layer in self.layers:
            y = layer(y)
        return self.head(y[:, 0] * self.gate.softmax(0))


class Windows(Plain):
    """Attention inside windows of images, with biases by how far apart two places are."""
    def __init__(self):
        super().__init__()
        self.cut = torch.nn.Conv2d(3, 8, 2, 2)
        self.qkv = torch.nn.ModuleList(torch.nn.Linear(8, 24) for _ in range(3))
        self.out = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))
        self.biases = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(9, 2)) for _ in range(3))
        place = torch.stack(torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij")).flatten(1)
        apart = place[:, :, None] - place[:, None] + 1
        self.register_buffer("apart", (3 * apart[0] + apart[1]).flatten())
        self.head = torch.nn.Linear(8, 5)

    def attend(self, y, qkv, out, bias):
        n = y.shape[0]
        x = y.view(n, 4, 2, 4, 2, 8).permute(0, 1, 3, 2, 4, 5).reshape(n * 16, 4, 8)
        q, k, v = qkv(x).view(n * 16, 4, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(2, 3) + bias[self.apart].view(4, 4, 2).permute(2, 0, 1)[None]
        x = out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n * 16, 4, 8))
        return y + x.view(n, 4, 4, 2, 2, 8).permute(0, 1, 3, 2, 4, 5).reshape(n, 8, 8, 8)

    def answer(self, x):
        y = self.cut(x).permute(0, 2, 3, 1)
        for parts in zip(self.qkv, self.out, self.biases):
            y = self.attend(y, *parts)
        return self.head(y.mean((1, 2)))


class Made(Plain):
    """Matrices that are made of weights: over their norms, of places apart that are normed and
    projected as the keys are, and of queries that every sample is given."""
    def __init__(self):
        super().__init__()
        normed = torch.nn.utils.parametrizations.weight_norm
        self.table, self.apart = torch.nn.Embedding(50, 8), torch.nn.Embedding(14, 8)
        self.norm, self.keys = torch.nn.LayerNorm(8), torch.nn.Linear(8, 8)
        self.up = torch.nn.ModuleList(normed(torch.nn.Linear(8, 8)) for _ in range(3))
        self.taps = normed(torch.nn.Conv1d(8, 8, 3, padding=1), dim=2)
        self.queries, self.head = torch.nn.Embedding(4, 8), torch.nn.Linear(8, 5)

    def answer(self, x):
        F = torch.nn.functional
        y = self.table(x)
        for layer in self.up:
            y = y + torch.where(y.ne(0), F.gelu(layer(y)), y)
        y = y + self.taps(y.transpose(1, 2)).transpose(1, 2)
        scores = self.keys(y) @ y.transpose(1, 2) + (y @ self.keys(self.norm(self.apart.weight)).T)[..., :7]
        y = y + scores.softmax(-1).repeat_interleave(2, 2)[..., ::2] @ y
        asked = self.queries.weight[None].repeat(x.shape[0], 1, 1)
        y = F.gelu((asked @ y.transpose(1, 2)).softmax(-1) @ y)
        places = torch.arange(4).flip(0)
        return self.head(torch.zeros_like(y).index_put((torch.arange(x.shape[0])[:, None], places), y).mean(1))


torch.manual_seed(1)
if torch.__version__.startswith("2.5"):
    export("gpt2_2_5", GPT2LMHeadModel(GPT2Config(n_layer=3, n_embd=32, n_head=4, vocab_size=100,
                                                  n_positions=64)), tokens(16), use_cache=False)
    export("bert_2_5", BertForMaskedLM(BertConfig(**TINY_BERT)), tokens(16))
    sys.exit(0)
assert transformers.__version__.startswith("5.")
for way in ("eager", "sdpa"):
    way_of = dict(attn_implementation=way)
    export("llama_" + way, LlamaForCausalLM(LlamaConfig(**TINY, **way_of)), tokens(16),
           use_cache=False)
    export("bert_" + way, BertForMaskedLM(BertConfig(**TINY_BERT, **way_of)), tokens(16))
export("gpt2", GPT2LMHeadModel(GPT2Config(attn_implementation="sdpa")), tokens(1024),
       use_cache=False)
export("gpt2_core", GPT2LMHeadModel(GPT2Config(attn_implementation="eager")), tokens(1024),
       core=True, use_cache=False)
export("llama_core", LlamaForCausalLM(LlamaConfig(**TINY, attn_implementation="sdpa")), tokens(16),
       core=True, use_cache=False)
export("qwen2", Qwen2ForCausalLM(Qwen2Config(**TINY, attn_implementation="sdpa")), tokens(16),
       use_cache=False)
export("bert_masked", BertForMaskedLM(BertConfig(**TINY_BERT, attn_implementation="sdpa")),
       tokens(16), tokens(16) + 1, tokens(16))
export("bert_core", BertForMaskedLM(BertConfig(**TINY_BERT, attn_implementation="eager")),
       tokens(16), core=True)
export("loss", Loss(GPT2LMHeadModel(GPT2Config(n_layer=3, n_embd=32, n_head=4, vocab_size=100, n_positions=64))),
       tokens(16), tokens(16))
export("recurrent", Recurrent(), torch.zeros(2, 7, dtype=torch.long))
export("bags", Bags(), torch.zeros(4, 9, 3, dtype=torch.long))
export("many", Many(), torch.zeros(1, 2, 4, 6, 6))
export("positions", Positions(), torch.zeros(3, 7, dtype=torch.long))
export("made", Made(), torch.zeros(3, 7, dtype=torch.long))
export("mixtral", MixtralForCausalLM(MixtralConfig(**TINY, num_local_experts=4, num_experts_per_tok=2)),
       torch.zeros(2, 16, dtype=torch.long), use_cache=False)
export("vit", ViTForImageClassification(ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                                  intermediate_size=64, image_size=32, patch_size=8,
                                                  num_labels=10)), torch.zeros(2, 3, 32, 32))
export("deit", DeiTForImageClassification(DeiTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                                     intermediate_size=64, image_size=32, patch_size=8,
                                                     num_labels=10)), torch.zeros(2, 3, 32, 32))
export("windows", Windows(), torch.zeros(5, 3, 16, 16))
export("t5", T5ForConditionalGeneration(T5Config(vocab_size=64, d_model=16, d_kv=4, d_ff=32, num_layers=2, num_heads=4,
                                                 decoder_start_token_id=0)), tokens(12), use_cache=False)
export("resnet50", ResNetForImageClassification(ResNetConfig(num_labels=1000)),
       torch.zeros(1, 3, 224, 224))
export("resnet50_core", ResNetForImageClassification(ResNetConfig(num_labels=1000)),
       torch.zeros(1, 3, 224, 224), core=True)
