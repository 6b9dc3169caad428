"""Weights that were exported load in `transformers` and give our loss and our scores, and what it
writes is read back to the bit and gives its scores: after 20 steps on one sequence, in fp64. Its
rotary angles are fp32."""
import json
import os
import subprocess
import sys
import tempfile

import numpy
import safetensors.numpy
import torch
import transformers

PROGRAM = os.path.abspath(os.environ['BUILD'] + '/meshwright')
STEPS, LENGTH, VOCAB = 20, 16, 200
LIKE_LLAMA = dict(hidden_size=16, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2,
                  intermediate_size=24, max_position_embeddings=32)
LATENT = dict(hidden_size=16, num_attention_heads=4, num_key_value_heads=4, num_hidden_layers=2,
              intermediate_size=24, max_position_embeddings=32, kv_lora_rank=8, qk_nope_head_dim=6,
              qk_rope_head_dim=4, v_head_dim=5, n_routed_experts=4, num_experts_per_tok=2,
              moe_intermediate_size=12, first_k_dense_replace=1)
CONFIGS = {
    'gpt2': dict(n_embd=16, n_head=2, n_layer=2, n_positions=32, attn_pdrop=0, resid_pdrop=0,
                 embd_pdrop=0),
    'llama': LIKE_LLAMA,
    'qwen2': LIKE_LLAMA,
    'qwen3': dict(LIKE_LLAMA, head_dim=4),
    'mixtral': dict(LIKE_LLAMA, num_local_experts=4, num_experts_per_tok=2),
    'deepseek_v2': dict(LATENT, q_lora_rank=None, n_shared_experts=2, norm_topk_prob=False,
                        routed_scaling_factor=1.0, topk_method='greedy'),
    'deepseek_v3': dict(LATENT, q_lora_rank=12, n_shared_experts=1, n_group=2, topk_group=1,
                        num_nextn_predict_layers=0),
}


def call(words, *more):
    done = subprocess.run([PROGRAM, *words.split(), *more], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def read(path):
    with open(path, 'rb') as file:
        return file.read()


def compare_codes():
    """Matrices in whole numbers, as compressed-tensors unpacks them, against what we read of them;
    behind compare('llama')."""
    apart = {}
    for bits in (8, 4):
        call(f'reshard ck --to huggingface --precision int{bits} -o int{bits}')
        call(f'reshard int{bits} --to plan.json -o from{bits}')
        ours = json.loads(call('run plan.json --spawn --backend cpu-fp64 --data data.npy --steps 1'
                               f' --checkpoint from{bits} --resume --json'))['loss'][0]
        with open('out/config.json') as file:
            config = json.load(file)
        with open(f'int{bits}/quantization.json') as file:
            config['quantization_config'] = json.load(file)
        with open(f'int{bits}/config.json', 'w') as file:
            json.dump(config, file)
        apart[bits] = abs(their_loss(f'int{bits}', torch.float32) - ours)
    print('llama in whole numbers: ' + ', '.join(f'int{b} {a:.1e} apart' for b, a in apart.items()))
    return max(apart.values()) < 1e-5


def their_logits(folder, dtype):
    ids = numpy.load('data.npy')
    model, loading = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, output_loading_info=True, attn_implementation='eager',
        experts_implementation='eager')
    if any(loading.values()):
        raise RuntimeError(f'{loading}')
    with torch.no_grad():
        logits = model.eval()(torch.tensor(ids[None, :LENGTH].astype('int64'))).logits[0]
    if dtype == torch.float64:
        model.save_pretrained('theirs')
    return logits


def their_loss(folder, dtype):
    labels = torch.tensor(numpy.load('data.npy')[1:LENGTH + 1].astype('int64'))
    logits = their_logits(folder, dtype)
    return torch.nn.functional.cross_entropy(logits.double(), labels).item()


def our_logits(path):
    return safetensors.numpy.load_file(path)['logits'][0]


def compare(family):
    ids = numpy.random.RandomState(1).randint(0, VOCAB, LENGTH + 2).astype('int32')
    numpy.save('data.npy', ids)
    config = dict(CONFIGS[family], model_type=family, vocab_size=VOCAB)
    with open('model.json', 'w') as file:
        json.dump(config, file)
    call(f'plan model.json dgx-a100-80g --gpus 1 --precision fp32 --seq-len {LENGTH} --global-batch'
         ' 1 --micro-batch 1 --stack meshwright -o plan.json')
    run = 'run plan.json --spawn --backend cpu-fp64 --data data.npy --learning-rate 0.02'
    call(f'{run} --steps {STEPS} --checkpoint ck --checkpoint-every {STEPS} --logits logits')
    call('reshard ck --to huggingface -o out')
    os.rename('model.json', 'out/config.json')
    ours = json.loads(call(f'{run} --steps {STEPS + 1} --checkpoint ck --resume --json'))['loss'][0]
    apart = abs(their_loss('out', torch.float64) - ours)
    theirs = their_logits('out', torch.float64).numpy()
    scores = abs(our_logits('logits') - theirs).max()
    call('reshard theirs --to plan.json -o in')
    call('reshard in --to huggingface -o back')
    # A rate of nothing: what was read is what gives the scores.
    call(f'{run.replace("0.02", "0")} --steps 1 --checkpoint in --resume --logits imported')
    imported = abs(our_logits('imported') - theirs).max()
    is_same = read('out/model.safetensors') == read('back/model.safetensors')
    print(f'{family}: loss {ours:.4f}, {apart:.1e} apart, scores {scores:.1e}, imported '
          f'{imported:.1e}, read back ' + ('to the bit' if is_same else 'with differences'))
    return is_same and apart < 1e-7 and max(scores, imported) < 1e-5


def main():
    # It is asked of CUDA's stand-ins too, which have no stream.
    torch.cuda.is_current_stream_capturing = lambda: False
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    right = 0
    for family in CONFIGS:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                right += compare(family) and (family != 'llama' or compare_codes())
            except (Exception, SystemExit) as fault:
                print(f'{family}: {" ".join(str(fault).split())[:500]}')
            os.chdir('/')
    print(f'transformers {transformers.__version__}: {right} of {len(CONFIGS)} accepted')
    sys.exit(right != len(CONFIGS))


main()
