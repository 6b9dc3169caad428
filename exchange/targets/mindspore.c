#include "exchange/syntax.h"
#include "exchange/target.h"
#include "exchange/targets/forms.h"

#include <stdlib.h>
#include <string.h>

// MindSpore 2.10 as mindformers 2.1.0 takes it: one YAML. The model is that of config.json; layers
// are told beside it since stages are told as deviations from the even split. Expert exchanges,
// sharded parameters and layers of a V-shaped schedule have no key there.

static const char *number(struct arena *arena, int64_t value)
{
    return arena_print(arena, "%lld", (long long)value);
}

static int64_t steps_of(const struct facts *facts)
{
    int64_t each = facts_number(facts, "micro_batch", 0) * facts_number(facts, "dp", 0);
    int64_t batch = facts_number(facts, "global_batch", 0);
    return each > 0 && batch % each == 0 ? batch / each : 0;
}

static const char *batch_of(struct arena *arena, const struct facts *facts, int64_t steps)
{
    int64_t each = facts_number(facts, "micro_batch", 0) * facts_number(facts, "dp", 0);
    return each > 0 && steps > 0 ? number(arena, each * steps) : NULL;
}

// A pipeline wants at least as many micro-batches as stages.
static const char *micro_batches(struct arena *arena, const struct facts *facts, const char *value)
{
    int64_t steps = steps_of(facts), stages = facts_number(facts, "pp", 1);
    (void)value;
    return stages > 1 && steps >= stages ? number(arena, steps) : NULL;
}
static const char *of_micro_batches(struct arena *arena, const struct facts *facts,
                                    const char *text)
{
    return facts_is_neutral(facts, "pp") ? NULL : batch_of(arena, facts, atoi(text));
}
static const struct exchange_form MICRO_BATCHES_FORM = {micro_batches, of_micro_batches};

static const char *accumulated(struct arena *arena, const struct facts *facts, const char *value)
{
    int64_t steps = steps_of(facts);
    (void)value;
    return facts_is_neutral(facts, "pp") && steps > 0 ? number(arena, steps) : NULL;
}
static const char *of_accumulated(struct arena *arena, const struct facts *facts, const char *text)
{
    return facts_is_neutral(facts, "pp") ? batch_of(arena, facts, atoi(text)) : NULL;
}
static const struct exchange_form ACCUMULATED_FORM = {accumulated, of_accumulated};

static const char *one_step(struct arena *arena, const struct facts *facts, const char *text)
{
    (void)text;
    return batch_of(arena, facts, 1);
}
static const struct exchange_form ONE_STEP_FORM = {form_never, one_step};

// Layers that stages share, without the modules behind the last of them.
static int64_t shared_layers(const struct facts *facts)
{
    return facts_number(facts, "model.layers", 0);
}

// Deviations from the even split: "[0, 1, 0, -1]", or such a list a chunk.
static const char *offsets(struct arena *arena, const struct facts *facts, const char *pieces)
{
    int64_t stages = facts_number(facts, "pp", 1), chunks = facts_number(facts, "vpp", 1);
    int64_t each = shared_layers(facts) / (stages * chunks), index = 0;
    const char *text = chunks > 1 ? "[[" : "[";
    bool is_even = true;
    for (const char *at = pieces; at; at = strchr(at, ','), index++) {
        at += *at == ',';
        int64_t modules = strchr(at, ',') ? 0 : facts_number(facts, "model.mtp", 0);
        int64_t offset = atoi(at) - modules - each;
        const char *between = index == 0 ? "" : index % stages == 0 ? "], [" : ", ";
        text = arena_print(arena, "%s%s%lld", text, between, (long long)offset);
        is_even = is_even && offset == 0;
    }
    if (is_even) return "0";
    // The list of a chunk is that of its stages, whose order a V turns round.
    if (facts_is(facts, "schedule", "zb-v")) return NULL;
    return arena_print(arena, "%s%s", text, chunks > 1 ? "]]" : "]");
}

static const char *of_offsets(struct arena *arena, const struct facts *facts, const char *text)
{
    int64_t count = facts_number(facts, "pp", 1) * facts_number(facts, "vpp", 1);
    int64_t layers = shared_layers(facts), found = 0;
    const char *pieces = "", *at = text;
    if (layers == 0) return NULL;
    for (; found < count; found++) {
        char *end = NULL;
        at += strspn(at, "[], ");
        int64_t offset = *text == '[' ? strtoll(at, &end, 10) : atoi(text);
        if (*text == '[' && end == at) return NULL;
        int64_t modules = found + 1 == count ? facts_number(facts, "model.mtp", 0) : 0;
        int64_t piece = layers / count + offset + modules;
        pieces = arena_print(arena, "%s%s%lld", pieces, found ? "," : "", (long long)piece);
        if (end) at = end;
    }
    return at[strspn(at, "[], 0")] && *text == '[' ? NULL : pieces;
}
static const struct exchange_form OFFSET_FORM = {offsets, of_offsets};

// The same count on every stage.
static const char *a_stage(struct arena *arena, const struct facts *facts, const char *value)
{
    const char *text = "[";
    if (facts_number(facts, "vpp", 1) != 1) return NULL;
    for (int64_t i = facts_number(facts, "pp", 1); i > 0; i--)
        text = arena_print(arena, "%s%s%s", text, value, i > 1 ? ", " : "]");
    return text;
}
static const char *of_a_stage(struct arena *arena, const struct facts *facts, const char *text)
{
    if (*text != '[') return NULL;
    const char *value = number(arena, atoi(text + 1));
    const char *again = a_stage(arena, facts, value);
    return again && strcmp(again, text) == 0 ? value : NULL;
}
static const struct exchange_form STAGE_LAYERS_FORM = {a_stage, of_a_stage};

// A group at least as large as all copies is no group.
static const char *smaller_group(struct arena *arena, const struct facts *facts, const char *text)
{
    (void)arena;
    int64_t copies = facts_number(facts, "dp", 1) * facts_number(facts, "cp", 1);
    return atoi(text) >= copies ? "0" : text;
}
static const struct exchange_form GROUP_FORM = {form_never, smaller_group};

// Of its optimizers those of decoupled weight decay can be moved.
static const char *decoupled(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_is(facts, "optimizer", "adamw") ? value : NULL;
}
static const struct exchange_form SWAP_FORM = {decoupled, form_itself};

static const struct exchange_form READ_ONE_CHUNK_FORM = {form_never, form_one_chunk};

#define MODEL "model.model_config."
#define PARALLEL "parallel_config."
#define PIPELINE "parallel.pipeline_config."
#define SHARDS "parallel.parallel_optimizer_config."
#define LENGTH "train_dataset.data_loader.config.seq_length={}"

static const struct exchange_row ROWS[] = {
    {"+", NULL, "use_legacy=false;use_parallel=true;run_mode=train;pretrained_model_dir=./",
     "the model is that of config.json here", NULL},
    {"world", NULL, "", NULL, &WRITTEN_FORM},
    {"model.layers", NULL, MODEL "num_hidden_layers={}", NULL, NULL},
    {"model.mtp", NULL, MODEL "num_nextn_predict_layers={}", NULL, NULL},
    {"model.mtp", "0", "", NULL, &WRITTEN_FORM},
    {"model.hidden", NULL, MODEL "hidden_size={}", NULL, &READ_FORM},
    {"model.hidden", NULL, "", NULL, &WRITTEN_FORM},
    {"model.ffn", NULL, MODEL "intermediate_size={}", NULL, &READ_FORM},
    {"model.ffn", NULL, "", NULL, &WRITTEN_FORM},
    {"model.vocab", NULL, MODEL "vocab_size={}", NULL, &READ_FORM},
    {"model.vocab", NULL, "", NULL, &WRITTEN_FORM},
    {"model.expert_ffn", NULL, MODEL "moe_intermediate_size={}", NULL, &READ_FORM},
    {"model.expert_ffn", NULL, "", NULL, &WRITTEN_FORM},
    {"model.groups", NULL, MODEL "n_group={}", NULL, &READ_FORM},
    {"model.groups", NULL, "", NULL, &WRITTEN_FORM},
    {"model.group_topk", NULL, MODEL "topk_group={}", NULL, &READ_FORM},
    {"model.group_topk", NULL, "", NULL, &WRITTEN_FORM},
    {"model.latent", "on", MODEL "multi_latent_attention=true", NULL, &READ_FORM},
    {"model.latent", NULL, "", NULL, &WRITTEN_FORM},
    {"dp", NULL, PARALLEL "data_parallel={}", "split as planned", NULL},
    {"tp", NULL, PARALLEL "model_parallel={}", NULL, NULL},
    {"cp", NULL, PARALLEL "context_parallel={}", NULL, NULL},
    {"cp_kind", "ring", PARALLEL "context_parallel_algo=colossalai_cp", "keys and values go round",
     NULL},
    {"cp_kind", "ulysses", PARALLEL "context_parallel_algo=ulysses_cp",
     "heads for tokens, and back", NULL},
    {"cp_kind", NULL, PARALLEL "context_parallel_algo={}", NULL, &UNREAD_FORM},
    {"cp_kind", "ring", "", NULL, &READ_FORM},
    {"pp", NULL, PARALLEL "pipeline_stage={}", NULL, NULL},
    {"ep", NULL, PARALLEL "expert_parallel={}", "experts spread over so many ranks", NULL},
    BY_ITSELF("tp=1 cp=1 pp=1 ep=1 etp=1"),
    {"sp", "on", PARALLEL "use_seq_parallel=true", "norms and dropout on a part of the sequence",
     NULL},
    {"sp", "off", PARALLEL "use_seq_parallel=false", NULL, NULL},
    {"vpp", NULL, MODEL "pp_interleave_num={}", "model chunks of a stage", NULL},
    {"pieces", NULL, MODEL "offset={}", "layers of a piece more or less than the even split",
     &OFFSET_FORM},
    {"schedule", "interleaved",
     PIPELINE "pipeline_interleave=true;" PIPELINE "pipeline_scheduler=1f1b", "as planned",
     &MORE_CHUNKS_FORM},
    {"schedule", "zb-v",
     PIPELINE "pipeline_interleave=true;" PIPELINE "pipeline_scheduler=zero_bubble_v", "as planned",
     NULL},
    {"schedule", "1f1b", PIPELINE "pipeline_interleave=false;" PIPELINE "pipeline_scheduler=1f1b",
     "as planned", &ONE_CHUNK_FORM},
    {"schedule", "gpipe", PIPELINE "pipeline_interleave=true;" PIPELINE "pipeline_scheduler=gpipe",
     "as planned", &ONE_CHUNK_FORM},
    {"schedule", "1f1b", PIPELINE "pipeline_scheduler=1f1b", NULL, &READ_ONE_CHUNK_FORM},
    {"schedule", NULL, PIPELINE "pipeline_scheduler={}", NULL, &UNREAD_FORM},
    {"schedule", "1f1b", "", NULL, &ONE_CHUNK_FORM},
    {"micro_batch", NULL, "runner_config.batch_size={}", "sequences of a micro-batch", NULL},
    {"global_batch", NULL, PARALLEL "micro_batch_num={}", "micro-batches of a step",
     &MICRO_BATCHES_FORM},
    {"global_batch", NULL, "runner_config.gradient_accumulation_steps={}",
     "micro-batches of a step", &ACCUMULATED_FORM},
    {"global_batch", NULL, "", NULL, &ONE_STEP_FORM},
    {"+", NULL, PARALLEL "micro_batch_num=1", NULL, &READ_FORM},
    {"seq_len", NULL, LENGTH ";" MODEL "seq_length={}", "tokens of a sequence", NULL},
    {"seq_len", NULL, LENGTH, NULL, &READ_FORM},
    {"seq_len", NULL, MODEL "seq_length={}", NULL, &READ_FORM},
    {"zero", "1",
     "parallel.enable_parallel_optimizer=true;" SHARDS "gradient_accumulation_shard=false",
     "optimizer states are sharded", NULL},
    {"zero", "2",
     "parallel.enable_parallel_optimizer=true;" SHARDS "gradient_accumulation_shard=true",
     "gradients and optimizer states are sharded", NULL},
    {"zero", "1", "parallel.enable_parallel_optimizer=true", NULL, &READ_FORM},
    {"zero", "0", "parallel.enable_parallel_optimizer=false", "nothing is sharded", NULL},
    {"zero_group", NULL, SHARDS "optimizer_weight_shard_size={}", NULL, &GROUP_FORM},
    {"recompute", "full", "recompute_config.recompute=true",
     "forward runs again in backward, to save memory", NULL},
    {"recompute", "selective",
     "recompute_config.recompute=false;recompute_config.select_recompute"
     "=true",
     "attention runs again in backward, to save memory", NULL},
    {"recompute", "full:{}", "recompute_config.recompute={}",
     "the first layers of each stage run again in backward", &STAGE_LAYERS_FORM},
    {"recompute", "none", "recompute_config.recompute=false", "memory suffices", NULL},
    {"+", NULL, "recompute_config.select_recompute=false", NULL, &READ_FORM},
    {"attention", "flash", MODEL "use_flash_attention=true", "as planned", NULL},
    {"attention", "unfused", MODEL "use_flash_attention=false", "as planned", NULL},
    {"offload.optimizer", "host", "optimizer.swap=true", "optimizer states on the host",
     &SWAP_FORM},
    {"offload.optimizer", "none", "optimizer.swap=false", NULL, &READ_FORM},
    BY_ITSELF("sp=off vpp=1 zero=0 zero_group=0 recompute=none offload.optimizer=none "
              "offload.activations=none offload.parameters=none offload.gradients=none "
              "overlap.grad-reduce=on overlap.param-gather=off overlap.tp=off overlap.pp=off "
              "overlap.cp=off overlap.ep=off"),
    {"precision", "bf16", MODEL "compute_dtype=bfloat16", "precision", NULL},
    {"precision", "fp16", MODEL "compute_dtype=float16", "precision", NULL},
    {"precision", "fp32", MODEL "compute_dtype=float32", "precision", NULL},
    {"optimizer", "adamw", "optimizer.type=AdamW", "with decoupled weight decay", NULL},
    {"optimizer", "adam", "optimizer.type=Adam", NULL, NULL},
    BY_ITSELF("order=tp,cp,dp,pp capacity=0"),
    {"+", NULL, "parallel.parallel_mode=1;context.mode=0;context.device_target=Ascend",
     "a compiled graph, split as told", NULL},
    {"+", NULL,
     "trainer.type=CausalLanguageModelingTrainer;trainer.model_name=llm;runner_config.epochs=1",
     "what a plan does not say: yours to change", NULL},
    {"+", NULL, "lr_schedule.type=ConstantWarmUpLR;lr_schedule.learning_rate=3e-4", NULL, NULL},
    {"+", NULL, "train_dataset.data_loader.type=BlendedMegatronDatasetDataLoader", NULL, NULL},
    {0},
};

const struct exchange_target MINDSPORE_TARGET = {
    .name = "mindspore",
    .program = "MindSpore",
    .version = "2.10 with mindformers 2.1.0",
    .stack = "mindspore",
    .file = "train.yaml",
    .syntax = &YAML_SYNTAX,
    .starter = "msrun --worker_num \"$((NNODES * GPUS_PER_NODE))\" \\\n"
               "    --local_worker_num \"$GPUS_PER_NODE\" --node_rank \"${NODE_RANK:-0}\" \\\n"
               "    --master_addr \"${MASTER_ADDR:-localhost}\" \\\n"
               "    --master_port \"${MASTER_PORT:-29500}\" --join True",
    .command = "\"${MINDFORMERS_PATH:-.}/run_mindformer.py\" --config ./train.yaml",
    .options = "mindspore-2.10.0",
    .rows = ROWS,
    .known_by = "parallel_config.data_parallel parallel_config.model_parallel "
                "parallel_config.pipeline_stage recompute_config.recompute "
                "parallel.enable_parallel_optimizer runner_config.batch_size",
};
