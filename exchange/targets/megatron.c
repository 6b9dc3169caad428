#include "exchange/syntax.h"
#include "exchange/target.h"
#include "exchange/targets/forms.h"

#include <string.h>

// Megatron-LM core_v0.16.1 (megatron/training/arguments.py); the table of its 651 options is
// exchange/options/megatron-0.16.1.tsv. What its parser lets through and does not do is refused
// here: sharded parameters with tp or cp on one connection (validate_args wants
// CUDA_DEVICE_MAX_CONNECTIONS=1 for those and forbids it with FSDP).

static const struct exchange_row ROWS[] = {
#include "exchange/targets/megatron_rows.inc"
    {"+model.experts", NULL, "--moe-token-dispatcher-type=alltoall",
     "the default gathers all tokens; a plan is priced with all-to-alls", NULL},
    {"+model.experts", NULL, "--moe-grouped-gemm", "one GEMM for the experts of a rank", NULL},
    {"tp", NULL, "--tensor-model-parallel-size={}", "split as planned; dp is what is left", NULL},
    {"cp", NULL, "--context-parallel-size={}", NULL, NULL},
    {"cp_kind", "ring", "--cp-comm-type=p2p", "keys and values go round", NULL},
    {"cp_kind", "allgather", "--cp-comm-type=all_gather|allgather", "keys and values are gathered",
     NULL},
    {"cp_kind", "ulysses", "--cp-comm-type=a2a", "heads for tokens, and back", NULL},
    {"pp", NULL, "--pipeline-model-parallel-size={}", NULL, NULL},
    {"dp", NULL, "", NULL, &WORLD_FORM},
    {"ep", NULL, "--expert-model-parallel-size={}", "experts spread over so many ranks", NULL},
    {"etp", NULL, "--expert-tensor-parallel-size={}", "without it experts are split as tp", NULL},
    {"etp", NULL, "", NULL, &ETP_FORM},
    {"sp", "on", "--sequence-parallel", "norms and dropout on a part of the sequence", NULL},
    {"vpp", NULL, "--num-layers-per-virtual-pipeline-stage={}", "layers of a model chunk",
     &EVEN_VPP_FORM},
    {"vpp", NULL, "--num-virtual-stages-per-pipeline-rank={}", NULL, &READ_FORM},
    {"vpp", NULL, "--pipeline-model-parallel-layout={}", "a piece a chunk: embedding, layers, loss",
     &LAYOUT_VPP_FORM},
    {"pieces", NULL, "--pipeline-model-parallel-layout={}",
     "a piece a stage: embedding, layers, loss", &LAYOUT_FORM},
    {"pieces", NULL, "--decoder-first-pipeline-num-layers={}", NULL, &UNREAD_FORM},
    {"pieces", NULL, "--decoder-last-pipeline-num-layers={}", NULL, &UNREAD_FORM},
    {"pieces", NULL, "--account-for-embedding-in-pipeline-split", NULL, &UNREAD_FORM},
    {"pieces", NULL, "--account-for-loss-in-pipeline-split", NULL, &UNREAD_FORM},
    {"pieces", NULL, "", NULL, &EVEN_FORM},
    {"schedule", "1f1b", "", NULL, &ONE_CHUNK_FORM},
    {"schedule", "interleaved", "", NULL, &MORE_CHUNKS_FORM},
    {"micro_batch", NULL, "--micro-batch-size={}", "the batch", NULL},
    {"global_batch", NULL, "--global-batch-size={}", NULL, NULL},
    {"seq_len", NULL, "--seq-length={}", NULL, NULL},
    {"zero", "3",
     "--use-megatron-fsdp;--data-parallel-sharding-strategy=optim_grads_params;"
     "--ckpt-format=fsdp_dtensor;--use-distributed-optimizer",
     "parameters, gradients and optimizer states are sharded", &WHOLE_FORM},
    {"zero", "2",
     "--use-megatron-fsdp;--data-parallel-sharding-strategy=optim_grads;"
     "--ckpt-format=fsdp_dtensor;--use-distributed-optimizer",
     "gradients and optimizer states are sharded", &WHOLE_FORM},
    {"zero", NULL, "--use-torch-fsdp2", NULL, &UNREAD_FORM},
    {"zero", NULL, "--use-megatron-fsdp", NULL, &UNREAD_FORM},
    {"zero", "1", "--use-distributed-optimizer", "optimizer states are sharded", NULL},
    {"zero_group", NULL, "--num-distributed-optimizer-instances={}", "groups that shard",
     &GROUPS_FORM},
    {"recompute", "full",
     "--recompute-granularity=full;--recompute-method=uniform;--recompute-num-layers=1",
     "forward runs again in backward, to save memory", NULL},
    {"recompute", "full:{}",
     "--recompute-granularity=full;--recompute-method=block;--recompute-num-layers={}",
     "the first layers run again in backward, to save memory", &ONE_CHUNK_FORM},
    {"recompute", "selective", "--recompute-granularity=selective;--recompute-modules=core_attn",
     "attention runs again in backward, to save memory", NULL},
    {"recompute", NULL, "--recompute-granularity=selective;--recompute-modules={}",
     "these run again in backward, to save memory", &CLASSES_FORM},
    {"recompute", "selective", "--recompute-activations", NULL, &READ_FORM},
    {"recompute", NULL, "--recompute-granularity={}", NULL, &SELECTIVE_FORM},
    {"attention", "flash", "--attention-backend=flash|fused|auto", "as planned", NULL},
    {"attention", "flash", "--use-flash-attn", NULL, &READ_FORM},
    {"attention", "unfused", "--attention-backend=unfused|local", "as planned", NULL},
    {"offload.optimizer", "host",
     "--optimizer-cpu-offload;--use-precision-aware-optimizer;--use-distributed-optimizer",
     "optimizer states on the host", &SHARDED_FORM},
    {"offload.activations", "activations:{}", "--cpu-offloading-num-layers={}",
     "activations of so many layers on the host", &ALONE_FORM},
    {"offload.activations", NULL, "--fine-grained-activation-offloading", NULL, &UNREAD_FORM},
    BY_ITSELF("tp=1 cp=1 cp_kind=ring pp=1 ep=1 sp=off vpp=1 zero=0 zero_group=0 recompute=none "
              "attention=flash offload.optimizer=none offload.activations=none "
              "offload.parameters=none offload.gradients=none"),
    {"overlap.grad-reduce", "on", "--overlap-grad-reduce", "gradients are reduced beside backward",
     NULL},
    {"overlap.param-gather", "on", "--overlap-param-gather;--overlap-grad-reduce",
     "parameters are gathered beside forward", &REDUCED_FORM},
    {"overlap.tp", "on", "--tp-comm-overlap", "gathers and scatters of tp beside GEMMs", NULL},
    {"overlap.pp", "off", "--no-overlap-p2p-communication", "sends are waited for",
     &NEIGHBOURS_FORM},
    BY_ITSELF("overlap.grad-reduce=off overlap.param-gather=off overlap.tp=off overlap.pp=on "
              "overlap.cp=on"),
    {"overlap.ep", "on", "--overlap-moe-expert-parallel-comm",
     "exchanges of experts beside compute", NULL},
    {"build.bf16-gradients", "bf16-gradients", "--grad-reduce-in-bf16",
     "gradients are kept and reduced in 16 bits", &WRITTEN_FORM},
    {"bucket_bytes", NULL, "--ddp-bucket-size={}", "elements of 4 bytes", &BUCKET_FORM},
    {"precision", "fp8",
     "--fp8-format=hybrid;--fp8-recipe=tensorwise|delayed|mxfp8|blockwise;--bf16",
     "GEMMs in fp8, the rest in bf16", NULL},
    {"precision", "fp8", "--fp8-format=hybrid|e4m3;--bf16", NULL, &READ_FORM},
    {"precision", "fp4", "--fp4-format=e2m1;--fp4-recipe=nvfp4;--bf16",
     "GEMMs in fp4, the rest in bf16", NULL},
    {"precision", "bf16", "--bf16", "precision", NULL},
    {"precision", "fp16", "--fp16", "precision", NULL},
    {"optimizer", "adamw", "--optimizer=adam", "with decoupled weight decay", NULL},
    {"optimizer", "sgd", "--optimizer=sgd", NULL, NULL},
    {"optimizer", NULL, "--optimizer={}", NULL, &UNREAD_FORM},
    {"capacity", "0", "", NULL, &WRITTEN_FORM},
    {"capacity", NULL, "--moe-expert-capacity-factor={}", "later tokens are dropped", NULL},
    {"order", "tp,cp,pp,dp", "--use-tp-pp-dp-mapping", "stages nearer than copies", NULL},
    BY_ITSELF("overlap.ep=off bucket_bytes=0 precision=fp32 optimizer=adamw capacity=0 "
              "order=tp,cp,dp,pp"),
    {"+", NULL, "--tokenizer-type=NullTokenizer", "what a plan does not say: yours to change",
     NULL},
    {"+", NULL, "--mock-data;--train-iters=100;--lr=3e-4;--lr-decay-style=constant", NULL, NULL},
    {"+", NULL, "--clip-grad=1.0;--log-interval=1;--log-throughput;--eval-iters=0", NULL, NULL},
    {0},
};

static const struct exchange_row ENVIRONMENT[] = {
    {"zero", "0", "CUDA_DEVICE_MAX_CONNECTIONS=1",
     "one queue, so that communication starts in the order it was asked for", NULL},
    {"zero", "1", "CUDA_DEVICE_MAX_CONNECTIONS=1",
     "one queue, so that communication starts in the order it was asked for", NULL},
    {"+", NULL, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
     "less memory is reserved that nobody uses", NULL},
    {"+", NULL, "TORCH_NCCL_AVOID_RECORD_STREAMS=1",
     "buffers of collectives are freed when they end", NULL},
    {0},
};

// Exchanges of experts hide in a pipeline only where a stage has several chunks, and never behind
// layers that are computed again as a whole.
bool form_matters_to_megatron(const struct facts *facts, const char *name)
{
    if (strcmp(name, "overlap.ep") != 0) return true;
    const char *recompute = facts_get(facts, "recompute");
    bool is_whole = recompute && strncmp(recompute, "full", 4) == 0;
    return !is_whole && (facts_is_neutral(facts, "pp") || !facts_is_neutral(facts, "vpp"));
}

const struct exchange_target MEGATRON_TARGET = {
    .name = "megatron",
    .program = "Megatron-LM",
    .version = "core_v0.16.1",
    .stack = "megatron-core",
    .file = "arguments.sh",
    .syntax = &ARGUMENTS_SYNTAX,
    .command = "\"${MEGATRON_PATH:-.}/pretrain_gpt.py\" \"${ARGUMENTS[@]}\"",
    .options = "megatron-0.16.1",
    .has_model = true,
    .rows = ROWS,
    .environment = ENVIRONMENT,
    .matters = form_matters_to_megatron,
    .known_by = "--num-layers --hidden-size --tensor-model-parallel-size "
                "--pipeline-model-parallel-size --micro-batch-size",
};
