"""Distributed checkpoints of Megatron-Core (torch_dist) that two of its processes write are read:
our loss is that which its GPTModel has of them, with tensor parallelism and with expert
parallelism; and what it writes again from two pipeline stages is read to the same bits. FAMILIES
chooses some. With SMALL=1 KEEP=DIR it made what tests/dcp.t reads."""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

os.environ['CUDA_DEVICE_MAX_CONNECTIONS'] = '1'
import numpy
import torch
import torch.multiprocessing

PROGRAM = os.path.abspath(os.environ['BUILD'] + '/meshwright')
IS_SMALL = bool(os.environ.get('SMALL'))
LENGTH, HEADS, GROUPS, LAYERS = 16, 4, 2, 2
VOCAB, PADDED, HIDDEN, WIDE = (12, 16, 8, 6) if IS_SMALL else (200, 256, 16, 24)
LLAMA = dict(hidden_size=HIDDEN, num_attention_heads=HEADS, num_key_value_heads=GROUPS,
             num_hidden_layers=LAYERS, intermediate_size=WIDE, max_position_embeddings=32)
CONFIGS = {
    'gpt2': dict(n_embd=HIDDEN, n_head=HEADS, n_layer=LAYERS, n_positions=32, attn_pdrop=0,
                 resid_pdrop=0, embd_pdrop=0),
    'llama': LLAMA,
    'qwen2': LLAMA,
    'qwen3': dict(LLAMA, head_dim=HIDDEN // HEADS),
    'mixtral': dict(LLAMA, num_local_experts=4, num_experts_per_tok=2, rope_theta=10000),
}


def chosen():
    return os.environ.get('FAMILIES', ' '.join(CONFIGS)).split()


def transformer_config(family, tp, pp, ep):
    from megatron.core.transformer import TransformerConfig
    words = dict(num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS,
                 use_cpu_initialization=True, pipeline_dtype=torch.float32, hidden_dropout=0,
                 attention_dropout=0, bias_dropout_fusion=False, apply_rope_fusion=False,
                 gradient_accumulation_fusion=False, masked_softmax_fusion=False,
                 persist_layer_norm=False, tensor_model_parallel_size=tp,
                 pipeline_model_parallel_size=pp, expert_model_parallel_size=ep,
                 init_method_std=0.3, layernorm_epsilon=1e-5)
    if family == 'gpt2':
        gelu = lambda x: torch.nn.functional.gelu(x, approximate='tanh')
        return TransformerConfig(**words, ffn_hidden_size=4 * HIDDEN, activation_func=gelu)
    words.update(num_query_groups=GROUPS, ffn_hidden_size=WIDE, add_bias_linear=False,
                 gated_linear_unit=True, activation_func=torch.nn.functional.silu,
                 normalization='RMSNorm', add_qkv_bias=family == 'qwen2')
    if family in ('qwen2', 'qwen3'):
        words.update(layernorm_epsilon=1e-6)
    if family == 'mixtral':
        words.update(num_moe_experts=4, moe_router_topk=2, moe_aux_loss_coeff=0,
                     moe_router_load_balancing_type='none',
                     moe_token_dispatcher_type='allgather')
    return TransformerConfig(**words)


def make_model(family, tp, pp, ep):
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    config = transformer_config(family, tp, pp, ep)
    spec = get_gpt_layer_local_spec(num_experts=4 if family == 'mixtral' else None,
                                    qk_layernorm=family == 'qwen3',
                                    normalization=config.normalization)
    torch.manual_seed(7)
    return GPTModel(config=config, transformer_layer_spec=spec, vocab_size=PADDED,
                    max_sequence_length=32, share_embeddings_and_output_weights=family == 'gpt2',
                    pre_process=parallel_state.is_pipeline_first_stage(),
                    post_process=parallel_state.is_pipeline_last_stage(),
                    position_embedding_type='learned_absolute' if family == 'gpt2' else 'rope')


def loss_of(model):
    """Logits of what pads the vocabulary are no part of ours."""
    from megatron.core.tensor_parallel import gather_from_tensor_model_parallel_region
    ids = torch.tensor(numpy.load('data.npy').astype('int64'))
    places = torch.arange(LENGTH)[None]
    after = torch.ones(LENGTH, LENGTH).triu(1).bool()[None, None]
    model.eval()
    with torch.no_grad():
        logits = model(ids[None, :LENGTH], places, after)
        if logits.shape[-1] != PADDED:
            logits = gather_from_tensor_model_parallel_region(logits)
    logits = logits.reshape(LENGTH, PADDED)[:, :VOCAB].double()
    return torch.nn.functional.cross_entropy(logits, ids[1:LENGTH + 1]).item()


def variants(family):
    """As it is trained; where experts were apart also on ranks that have them all, which are those
    that have a loss; and in two stages."""
    if family == 'mixtral':
        return [('first', (1, 1, 2)), ('whole', (1, 1, 1)), ('stages', (1, 2, 1))]
    return [('first', (2, 1, 1)), ('stages', (1, 2, 1))]


def add_noise(model, rank):
    for at, (name, weight) in enumerate(sorted(model.named_parameters())):
        own = getattr(weight, 'tensor_model_parallel', False) or '.local_experts.' in name
        noise = torch.Generator().manual_seed(1000 * rank * own + at)
        if weight.dim() > 1 or 'bias' in name:
            weight.data += 0.1 * torch.randn(weight.shape, generator=noise)


def write(family, rank):
    from megatron.core import dist_checkpointing, parallel_state
    for name, sizes in variants(family):
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=sizes[0], pipeline_model_parallel_size=sizes[1],
            expert_model_parallel_size=sizes[2])
        model = make_model(family, *sizes)
        if name == 'first':
            add_noise(model, rank)
        else:
            state = {'model': model.sharded_state_dict(prefix=''), 'iteration': 7}
            model.load_state_dict(dist_checkpointing.load(state, f'{family}/first')['model'])
        os.makedirs(f'{family}/{name}', exist_ok=True)
        torch.distributed.barrier()
        dist_checkpointing.save({'model': model.sharded_state_dict(prefix=''), 'iteration': 7},
                                f'{family}/{name}')
        loss = None if sizes[1] > 1 else loss_of(model)
        if rank == 0 and loss:
            with open(f'{family}/loss.json', 'w') as file:
                json.dump(loss, file)
        torch.distributed.barrier()
        parallel_state.destroy_model_parallel()


def stand_in():
    """What Megatron asks of CUDA where there is none."""
    from megatron.core.tensor_parallel import random
    from megatron.core.transformer.moe import moe_utils
    torch.cuda.synchronize = lambda *_: None
    torch.cuda.current_device = lambda: 'cpu'
    torch.Tensor.cuda = lambda tensor, *_, **__: tensor
    moe_utils.te_general_gemm = None
    random.CudaRNGStatesTracker.fork = lambda *_, **__: contextlib.nullcontext()


def work(rank, folder):
    os.chdir(folder)
    os.environ.update(RANK=str(rank), WORLD_SIZE='2', LOCAL_RANK=str(rank))
    torch.distributed.init_process_group('gloo', init_method=f'file://{folder}/meeting', rank=rank,
                                         world_size=2)
    stand_in()
    for family in chosen():
        write(family, rank)
    torch.distributed.destroy_process_group()


def call(words):
    done = subprocess.run([PROGRAM, *words.split()], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def read(path):
    with open(path, 'rb') as file:
        return file.read()


def compare(family):
    with open('model.json', 'w') as file:
        json.dump(dict(CONFIGS[family], model_type=family, vocab_size=VOCAB,
                       rms_norm_eps=1e-6 if 'qwen' in family else 1e-5), file)
    call(f'plan model.json dgx-a100-80g --gpus 1 --precision fp32 --seq-len {LENGTH} --global-batch'
         f' 1 --micro-batch 1 --stack meshwright -o {family}/plan.json')
    exported = []
    for name, _ in variants(family):
        call(f'reshard {family}/{name} --to {family}/plan.json -o {family}/in-{name}')
        call(f'reshard {family}/in-{name} --to huggingface -o {family}/out-{name}')
        exported.append(read(f'{family}/out-{name}/model.safetensors'))
    run = (f'run {family}/plan.json --spawn --backend cpu-fp64 --data data.npy --steps 1 --json'
           f' --checkpoint {family}/in-first --resume')
    ours = json.loads(call(run))['loss'][0]
    with open(f'{family}/loss.json') as file:
        apart = abs(json.load(file) - ours)
    is_same = len(set(exported)) == 1
    print(f'{family}: loss {ours:.4f}, {apart:.1e} apart, read from stages '
          + ('to the same bits' if is_same else 'with differences'))
    return is_same and apart < 2e-6


def main():
    right = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        ids = numpy.random.RandomState(1).randint(0, VOCAB, LENGTH + 2).astype('int32')
        numpy.save('data.npy', ids)
        torch.multiprocessing.spawn(work, (folder,), nprocs=2)
        for family in chosen():
            try:
                right += compare(family)
            except Exception as fault:
                print(f'{family}: {" ".join(str(fault).split())[:500]}')
        if os.environ.get('KEEP'):
            shutil.copytree(folder, os.environ['KEEP'], dirs_exist_ok=True)
        os.chdir('/')
    import megatron.core
    print(f'megatron-core {megatron.core.__version__}: {right} of {len(chosen())} accepted')
    sys.exit(right != len(chosen()))


if __name__ == '__main__':
    main()
