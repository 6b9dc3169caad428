#!/usr/bin/env python3
"""Makes the ONNX files of this folder: models of transformers as torch.onnx.export writes them, with
biases that are not zero (the exporter leaves those out) but for one that was never trained, short names, and no weights: their bytes
are said to lie in another file that is not there.

Made with torch 2.15, transformers 5.23, onnx 1.23.2 and onnxscript; run it in this folder.
"""
import onnx
import torch
from transformers import (BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, ViTConfig, ViTForImageClassification)

TINY = dict(num_hidden_layers=3, hidden_size=32, num_attention_heads=4, num_key_value_heads=2,
            intermediate_size=48, vocab_size=100, attn_implementation="eager")


TINY_BERT = dict(num_hidden_layers=2, hidden_size=32, num_attention_heads=4, intermediate_size=64,
                 vocab_size=100, max_position_embeddings=40, attn_implementation="eager")


class Masked(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(input_ids=input_ids, attention_mask=attention_mask,
                          token_type_ids=token_type_ids).logits


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids=input_ids, use_cache=False).logits


def strip(model):
    names = {n: n for n in ("", "input_ids", "attention_mask", "token_type_ids", "labels", "pixels", "loss",
                               "logits")}
    graph = model.graph
    for of in (model, graph, *graph.node, *graph.initializer):
        of.doc_string = ""
        del of.metadata_props[:]
    del graph.value_info[:]
    for node in graph.node:
        node.name = ""
        node.input[:] = [names.setdefault(n, f"v{len(names)}") for n in node.input]
        node.output[:] = [names.setdefault(n, f"v{len(names)}") for n in node.output]
    for tensor in graph.initializer:
        tensor.name = names.setdefault(tensor.name, f"v{len(names)}")
        elements = 1
        for dim in tensor.dims:
            elements *= dim
        if tensor.data_type != onnx.TensorProto.FLOAT or elements <= 16:
            continue
        tensor.ClearField("raw_data")
        del tensor.external_data[:]
        tensor.data_location = onnx.TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", "none"


class Loss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, labels):
        return self.model(input_ids=input_ids, labels=labels, use_cache=False).loss


# Never trained, with a loss, and sequences of any length.
def export_open(name, model):
    tokens = torch.zeros(2, 16, dtype=torch.long)
    length = {1: torch.export.Dim("length")}
    torch.onnx.export(Loss(model).eval(), (tokens, tokens), "/tmp/stack.onnx", dynamo=True, external_data=True,
                      input_names=["input_ids", "labels"], output_names=["loss"], dynamic_shapes=(length, length))
    stripped = onnx.load("/tmp/stack.onnx", load_external_data=False)
    strip(stripped)
    onnx.save(stripped, name + ".onnx")


# Never trained, and two pictures: each has a copy of the token of the class.
def export_pictures(name, model):
    class Scores(torch.nn.Module):
        def forward(self, pixels):
            return model(pixels).logits

    wrapped = Scores()
    wrapped.model = model
    torch.onnx.export(wrapped.eval(), (torch.zeros(2, 3, 32, 32),), "/tmp/stack.onnx", dynamo=True,
                      input_names=["pixels"], output_names=["logits"], external_data=True)
    stripped = onnx.load("/tmp/stack.onnx", load_external_data=False)
    strip(stripped)
    onnx.save(stripped, name + ".onnx")


def export(name, model, length):
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    zeros, names = torch.zeros(1, length, dtype=torch.long), ["input_ids"]
    inputs, wrapped = (zeros,), Logits(model)
    if isinstance(model, BertForMaskedLM):
        names += ["attention_mask", "token_type_ids"]
        inputs, wrapped = (zeros, zeros + 1, zeros), Masked(model)
    torch.onnx.export(wrapped.eval(), inputs, "/tmp/stack.onnx", dynamo=True, input_names=names,
                      output_names=["logits"], external_data=True)
    stripped = onnx.load("/tmp/stack.onnx", load_external_data=False)
    strip(stripped)
    onnx.save(stripped, name + ".onnx")


export("gpt2", GPT2LMHeadModel(GPT2Config(attn_implementation="eager")), 1024)
export("llama", LlamaForCausalLM(LlamaConfig(**TINY)), 16)
export("qwen2", Qwen2ForCausalLM(Qwen2Config(**TINY)), 16)
export("bert", BertForMaskedLM(BertConfig(**TINY_BERT)), 16)
export_pictures("vit", ViTForImageClassification(ViTConfig(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8,
    num_labels=10)))
export_open("untrained", GPT2LMHeadModel(GPT2Config(n_layer=3, n_embd=32, n_head=4, vocab_size=100, n_positions=64)))
