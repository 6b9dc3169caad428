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
from transformers import (BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, LlamaConfig,
                          LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, ResNetConfig,
                          ResNetForImageClassification)

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
        return self.model(x, **self.options).logits


class Masked(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(input_ids=input_ids, attention_mask=attention_mask,
                          token_type_ids=token_type_ids).logits


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
export("resnet50", ResNetForImageClassification(ResNetConfig(num_labels=1000)),
       torch.zeros(1, 3, 224, 224))
export("resnet50_core", ResNetForImageClassification(ResNetConfig(num_labels=1000)),
       torch.zeros(1, 3, 224, 224), core=True)
