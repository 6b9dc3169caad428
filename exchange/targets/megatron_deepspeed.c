#include "exchange/syntax.h"
#include "exchange/target.h"
#include "exchange/targets/forms.h"

#include <string.h>

// Megatron-DeepSpeed 4efb479 (megatron/arguments.py) with DeepSpeed 0.19.8: options of a command
// line beside ds_config.json, whose keys begin with "ds." here. Sizes that both say are written to
// both and read from either. What the JSON has by itself counts only where it was read: that is the
// setting "config.known".

// The pipeline engine shards optimizer states at most, and experts know no sharded parameters.
static const char *stage(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    bool is_split = strcmp(value, "2") == 0 || strcmp(value, "3") == 0;
    if (is_split && !facts_is_neutral(facts, "pp")) return NULL;
    bool has_experts = facts_get(facts, "model.experts") != NULL;
    return has_experts && strcmp(value, "3") == 0 ? NULL : value;
}
static const struct exchange_form STAGE_FORM = {stage, form_itself};

static const char *dense(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_get(facts, "model.experts") ? NULL : value;
}
static const struct exchange_form DENSE_ONLY_FORM = {dense, form_itself};

static const char *several(struct arena *arena, const struct facts *facts, const char *text)
{
    (void)arena, (void)facts;
    return strcmp(text, "1") == 0 ? NULL : text;
}
static const struct exchange_form SEVERAL_FORM = {form_itself, several};

// Experts are split over all of tp or over none of it.
static const char *split_alike(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    bool is_alike = !facts_is_neutral(facts, "tp") && facts_is(facts, "tp", value);
    return is_alike ? value : NULL;
}
static const char *split_as_tp(struct arena *arena, const struct facts *facts, const char *text)
{
    (void)arena, (void)text;
    return facts_get(facts, "tp");
}
static const struct exchange_form ETP_AS_TP_FORM = {split_alike, split_as_tp};

static const char *redone(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    const char *recompute = facts_get(facts, "recompute");
    return recompute && strncmp(recompute, "full", 4) == 0 ? value : NULL;
}
static const struct exchange_form REDONE_FORM = {redone, form_itself};

static const struct exchange_row ROWS[] = {
    {"world", NULL, "nnodes*nproc={}", NULL, &READ_FORM},
    {"world", NULL, "", NULL, NULL},
    {"+", NULL, "--deepspeed;--deepspeed_config=./ds_config.json",
     "what DeepSpeed itself is told stands in its own file", NULL},
    {"+", NULL, "--deepspeed", NULL, &READ_FORM},
    {"model.layers", NULL, "--num-layers={}", "the model, as its config says", NULL},
    {"model.hidden", NULL, "--hidden-size={}", NULL, NULL},
    {"model.ffn", NULL, "--ffn-hidden-size={}", NULL, NULL},
    {"model.ffn", NULL, "", NULL, &FOUR_HIDDEN_FORM},
    {"model.heads", NULL, "--num-attention-heads={}", NULL, NULL},
    BY_ITSELF("model.latent=off"),
    {"model.kv_heads", NULL, "--num-key-value-heads={}", NULL, &QUERIES_FORM},
    {"model.kv_heads", NULL, "", NULL, &ALL_QUERIES_FORM},
    {"model.head_dim", NULL, "--kv-channels={}", NULL, NULL},
    {"model.vocab", NULL, "--vocab-size={}", NULL, NULL},
    {"model.positions", NULL, "--max-position-embeddings={}", NULL, NULL},
    {"model.norm", "rms", "--normalization=rmsnorm", NULL, NULL},
    {"model.norm", "layer", "--normalization=layernorm", NULL, NULL},
    {"model.norm_eps", NULL, "--layernorm-epsilon={}", NULL, NULL},
    {"model.act", "swiglu", "--swiglu", NULL, NULL},
    {"model.act", NULL, "--squared-relu", NULL, &UNREAD_FORM},
    {"model.position", "rope", "--use-rotary-position-embeddings", NULL, NULL},
    {"model.rope_base", NULL, "--rotary-position-embeddings-theta={}", NULL, NULL},
    {"model.bias", "off", "--disable-bias-linear", NULL, NULL},
    BY_ITSELF("model.norm=layer model.act=gelu model.position=learned model.bias=on "
              "model.qkv_bias=off model.qk_norm=off"),
    {"model.tied", "off", "--untie-embeddings-and-output-weights", NULL, NULL},
    {"model.dropout", NULL, "--attention-dropout={};--hidden-dropout={}", NULL, NULL},
    {"model.experts", NULL, "--num-experts={};--expert-interval=1", "experts in every layer",
     &SEVERAL_FORM},
    {"model.experts", NULL, "--num-experts={}", NULL, &UNREAD_FORM},
    {"model.has_experts", "on", "", NULL, &EXPERTS_FORM},
    {"model.has_experts", "on", "experts.some", NULL, &READ_FORM},
    {"model.topk", NULL, "--topk={}", NULL, NULL},
    {"+model.experts", NULL, "--create-moe-param-group", "experts are sharded by themselves", NULL},
    {"model.family", NULL, "", NULL, NULL},
    {"model.name", NULL, "", NULL, NULL},
    {"tp", NULL, "--tensor-model-parallel-size={}", "split as planned; dp is what is left", NULL},
    {"cp", NULL, "--ds-sequence-parallel-size={}", "heads for tokens, and back", &ULYSSES_FORM},
    BY_ITSELF("model.tied=on model.dropout=0.1 model.has_experts=off tp=1 cp=1 cp_kind=ulysses"),
    {"pp", "1", "--pipeline-model-parallel-size=1;--no-pipeline-parallel",
     "the engine without stages", NULL},
    {"pp", NULL, "--pipeline-model-parallel-size={}", NULL, &DENSE_ONLY_FORM},
    {"+", NULL, "--no-pipeline-parallel", NULL, &READ_FORM},
    {"dp", NULL, "", NULL, &WORLD_FORM},
    {"ep", NULL, "--moe-expert-parallel-size={}", "experts spread over so many ranks", NULL},
    {"etp", NULL, "--enable-expert-tensor-parallelism", "experts are split as all else is",
     &ETP_AS_TP_FORM},
    {"sp", "on", "--sequence-parallel", "norms and dropout on a part of the sequence", NULL},
    BY_ITSELF("pp=1 ep=1 etp=1 sp=off vpp=1"),
    {"pieces", NULL, "", NULL, &EVEN_FORM},
    {"schedule", NULL, "--enable-zbh1-pipeline", NULL, &UNREAD_FORM},
    {"schedule", "1f1b", "", NULL, &ONE_CHUNK_FORM},
    {"micro_batch", NULL, "--micro-batch-size={};ds.train_micro_batch_size_per_gpu={}", "the batch",
     NULL},
    {"micro_batch", NULL, "--micro-batch-size={}", NULL, &READ_FORM},
    {"global_batch", NULL, "--global-batch-size={};ds.train_batch_size={}", NULL, NULL},
    {"global_batch", NULL, "--global-batch-size={}", NULL, &READ_FORM},
    {"seq_len", NULL, "--seq-length={}", NULL, NULL},
    {"zero", NULL, "--zero-stage={};ds.zero_optimization.stage={}",
     "0: nothing is sharded, 1: optimizer states, 2: gradients as well, 3: parameters as well",
     &STAGE_FORM},
    {"zero", NULL, "ds.zero_optimization.stage={}", NULL, &READ_FORM},
    {"zero", NULL, "--zero-stage={}", NULL, &READ_FORM},
    {"zero", "0", "config.known", NULL, &READ_FORM},
    BY_ITSELF("zero_group=0"),
    {"recompute", "full", "--checkpoint-activations;--deepspeed-activation-checkpointing",
     "forward runs again in backward, to save memory", NULL},
    {"recompute", "full", "--checkpoint-activations", NULL, &READ_FORM},
    {"recompute", "full:{}",
     "--recompute-granularity=full;--recompute-method=block;--recompute-num-layers={}",
     "the first layers run again in backward, to save memory", NULL},
    {"recompute", "full", "--recompute-granularity=full;--recompute-method=uniform", NULL,
     &READ_FORM},
    {"recompute", "selective", "--recompute-granularity=selective",
     "attention runs again in backward, to save memory", NULL},
    {"recompute", "selective", "--recompute-activations", NULL, &READ_FORM},
    {"attention", "flash", "--use-flash-attn-v2", "as planned", NULL},
    {"attention", "flash", "--use-flash-attn", NULL, &READ_FORM},
    {"attention", "flash", "--use-flash-attn-v1", NULL, &READ_FORM},
    {"attention", "flash", "--use-flash-attn-triton", NULL, &READ_FORM},
    {"offload.optimizer", "host",
     "--cpu-optimizer;ds.zero_optimization.offload_optimizer.device=cpu",
     "optimizer states on the host", &SHARDED_FORM},
    {"offload.optimizer", "nvme",
     "ds.zero_optimization.offload_optimizer.device=nvme;"
     "ds.zero_optimization.offload_optimizer.nvme_path=/nvme",
     NULL, &SHARDED_FORM},
    {"offload.optimizer", "host", "ds.zero_optimization.offload_optimizer.device=cpu", NULL,
     &READ_FORM},
    {"offload.optimizer", "host", "--cpu-optimizer", NULL, &READ_FORM},
    {"offload.gradients", "host", "", NULL, &WRITTEN_FORM},
    {"offload.activations", "checkpoints", "--checkpoint-in-cpu",
     "what full recompute keeps, on the host", &REDONE_FORM},
    BY_ITSELF("recompute=none attention=unfused offload.optimizer=none offload.activations=none "
              "offload.parameters=none offload.gradients=none"),
    {"overlap.grad-reduce", "on", "ds.zero_optimization.overlap_comm=true", NULL, &SHARDED_FORM},
    {"overlap.grad-reduce", "off", "ds.zero_optimization.overlap_comm=false", NULL, NULL},
    {"overlap.grad-reduce", "on", "config.known", NULL, &STAGE_3_FORM},
    {"overlap.grad-reduce", "off", "config.known", NULL, &READ_FORM},
    {"overlap.param-gather", NULL, "", NULL, &SAME_FORM},
    BY_ITSELF("overlap.tp=off overlap.cp=off overlap.ep=off"),
    {"precision", "bf16", "--bf16;ds.bf16.enabled=true", "precision", NULL},
    {"precision", "bf16", "--bf16", NULL, &READ_FORM},
    {"precision", "fp16", "--fp16;ds.fp16.enabled=true", "precision", NULL},
    {"precision", "fp16", "--fp16", NULL, &READ_FORM},
    {"optimizer", "adamw", "--optimizer=adam", "with decoupled weight decay", NULL},
    {"optimizer", "sgd", "--optimizer=sgd", NULL, NULL},
    {"capacity", "0", "--disable-moe-token-dropping", "no token is dropped", NULL},
    {"capacity", NULL, "--moe-train-capacity-factor={}", "later tokens are dropped", NULL},
    {"capacity", "1", "", NULL, &READ_FORM},
    BY_ITSELF("precision=fp32 optimizer=adamw order=tp,cp,dp,pp"),
    {"+", NULL, "--tokenizer-type=NullTokenizer", "what a plan does not say: yours to change",
     NULL},
    {"+", NULL, "--train-iters=100;--lr=3e-4;--lr-decay-style=constant", NULL, NULL},
    {"+", NULL, "--clip-grad=1.0;--log-interval=1;--eval-iters=0", NULL, NULL},
    {"+", NULL, "ds.gradient_clipping=1;ds.steps_per_print=1", NULL, NULL},
    {0},
};

static const struct exchange_row ENVIRONMENT[] = {
    {"+", NULL, "CUDA_DEVICE_MAX_CONNECTIONS=1",
     "one queue, so that communication starts in the order it was asked for", NULL},
    {0},
};

// A setting of ours, which no file has.
static void put(struct settings *settings, const char *key)
{
    settings_read(settings, key, "", 0);
    settings_find(settings, key)->is_used = true;
}

// Without DeepSpeed, or with its file read, what is not said has its default.
static void prepare(struct settings *settings)
{
    // Experts in some layers are a model that no family here is; one expert is none.
    struct setting *experts = settings_find(settings, "--num-experts");
    if (experts && strcmp(experts->value, "1") != 0) put(settings, "experts.some");
    if (experts && strcmp(experts->value, "1") == 0) experts->is_used = true;
    bool is_known = !settings_find(settings, "--deepspeed_config");
    for (int i = 0; i < settings->count && !is_known; i++)
        is_known = strncmp(settings->items[i].key, "ds.", 3) == 0;
    if (!is_known) return;
    put(settings, "config.known");
    if (settings_find(settings, "--deepspeed_config"))
        settings_find(settings, "--deepspeed_config")->is_used = true;
}

const struct exchange_target MEGATRON_DEEPSPEED_TARGET = {
    .name = "megatron-deepspeed",
    .program = "Megatron-DeepSpeed",
    .version = "4efb479",
    .stack = "megatron-deepspeed",
    .file = "arguments.sh",
    .syntax = &ARGUMENTS_SYNTAX,
    .beside = {.file = "ds_config.json",
               .syntax = &JSON_SYNTAX,
               .option = "--deepspeed_config",
               .prefix = "ds.",
               .options = "deepspeed-0.19.8"},
    .command = "\"${MEGATRON_PATH:-.}/pretrain_gpt.py\" \"${ARGUMENTS[@]}\" \\\n"
               "    --data-path \"${DATA_PATH:?the data set, without .bin}\"",
    .options = "megatron-deepspeed-207b2d5",
    .has_model = true,
    .rows = ROWS,
    .environment = ENVIRONMENT,
    .prepare = prepare,
    .known_by = "--num-layers --hidden-size --tensor-model-parallel-size "
                "--pipeline-model-parallel-size --micro-batch-size --deepspeed --deepspeed_config "
                "--zero-stage --no-pipeline-parallel --deepspeed-activation-checkpointing "
                "--ds-sequence-parallel-size --moe-expert-parallel-size",
};
