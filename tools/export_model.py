#!/usr/bin/env python3
"""Writes a model of PyTorch where PyTorch is, for `meshwright plan` where it is not.

    export_model.py CONFIG OUT.pt2 [--class NAME] [--seq-len N] [--batch N] [--layers N]

CONFIG is a Hugging Face config.json, or the folder it is in. Its class is what transformers makes of it for
training (`architectures`, else --class, else a causal language model); no weights are loaded: parameters are
of the meta device, and only their sizes are written. OUT.pt2 is a program of torch.export without weights, a
zip of one JSON, which Meshwright reads without Python:

    meshwright plan OUT.pt2 dgx-h100

Needs torch 2.5 or newer and transformers. A model that torch.export cannot trace ends in its words, exit 1.
"""
import argparse
import json
import os
import sys
import tempfile
import zipfile


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('config')
    parser.add_argument('out')
    parser.add_argument('--class', dest='kind', help='class of transformers, such as AutoModelForMaskedLM')
    parser.add_argument('--seq-len', type=int, default=128, help='tokens of each sequence (default 128)')
    parser.add_argument('--batch', type=int, default=1, help='samples of the example (default 1)')
    parser.add_argument('--layers', type=int, help='write so many layers in place of those of the config')
    return parser.parse_args()


def find_class(transformers, config, kind):
    names = [kind] if kind else (config.architectures or []) + ['AutoModelForCausalLM']
    for name in names:
        if hasattr(transformers, name):
            return getattr(transformers, name)
    sys.exit(f'export_model.py: transformers has no class {names[0]}')


def build(transformers, config, kind):
    found = find_class(transformers, config, kind)
    return found.from_config(config) if hasattr(found, 'from_config') else found(config)


def example(torch, model, config, options):
    """What the model reads, by the names of its main inputs."""
    name = getattr(model, 'main_input_name', 'input_ids')
    tokens = torch.zeros(options.batch, options.seq_len, dtype=torch.long, device='meta')
    if name == 'pixel_values':
        vision = getattr(config, 'vision_config', config)
        size = vision.image_size if isinstance(vision.image_size, (list, tuple)) else [vision.image_size] * 2
        return {name: torch.zeros(options.batch, getattr(vision, 'num_channels', 3), *size, device='meta')}
    if name == 'input_features':
        shape = (options.batch, config.num_mel_bins, 2 * config.max_source_positions)
        return {name: torch.zeros(*shape, device='meta'), 'decoder_input_ids': tokens}
    if getattr(config, 'is_encoder_decoder', False):
        return {name: tokens, 'decoder_input_ids': tokens}
    return {name: tokens}


def logits_of(torch, model, names):
    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *inputs):
            answer = self.model(**dict(zip(names, inputs)))
            return answer.logits if hasattr(answer, 'logits') else answer[0]
    return Logits()


def strip(torch, program, path):
    """The graph alone: of weights, examples and traces nothing is read."""
    with tempfile.TemporaryDirectory() as folder:
        whole = os.path.join(folder, 'whole.pt2')
        torch.export.save(program, whole)
        with zipfile.ZipFile(whole) as archive:
            names = [name for name in archive.namelist()
                     if name.endswith(('models/model.json', 'serialized_exported_program.json'))]
            graph = json.loads(archive.read(names[0]))
    for node in graph['graph_module']['graph']['nodes']:
        node['metadata'] = {}
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(zipfile.ZipInfo(names[0]), json.dumps(graph), zipfile.ZIP_DEFLATED)


def main():
    options = arguments()
    import torch
    import transformers
    config = transformers.AutoConfig.from_pretrained(options.config, local_files_only=True)
    config.use_cache = False
    if options.layers:
        for name in ('num_hidden_layers', 'num_layers', 'num_decoder_layers', 'n_layer', 'n_layers'):
            if hasattr(config, name):
                setattr(config, name, options.layers)
    with torch.device('meta'):
        model = build(transformers, config, options.kind).train()
    inputs = example(torch, model, config, options)
    try:
        program = torch.export.export(logits_of(torch, model, list(inputs)), tuple(inputs.values()))
    except Exception as fault:  # whatever of the model cannot be traced
        sys.exit(f'export_model.py: torch.export: {str(fault).splitlines()[0]}')
    strip(torch, program, options.out)
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f'{options.out}: {type(model).__name__}, {count:,} parameters')


main()
