#include "exchange/syntax.h"
#include "exchange/target.h"
#include "exchange/targets/forms.h"

#include <stdlib.h>
#include <string.h>

// torchtitan 0.2.2 (torchtitan/config/job_config.py): TOML. Copies are two degrees, those that
// shard and those that do not; what both say together is the setting "mesh.copies", the ranks that
// a shard group spans "mesh.group".

static const char *number(struct arena *arena, int64_t value)
{
    return arena_print(arena, "%lld", (long long)value);
}

static bool has_stages(const struct facts *facts)
{
    return !facts_is_neutral(facts, "pp");
}

// No copy is whole where there is a cp, since FSDP shards over cp as well.
static const char *copied(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_is_neutral(facts, "cp") ? value : NULL;
}
static const struct exchange_form COPIED_FORM = {copied, form_never};

// Tokens go once to each rank, or, as that program does untold, once for each of their experts.
static const char *by_deepep(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_is_neutral(facts, "build.standard-ep") ? value : NULL;
}
static const struct exchange_form DEEPEP_FORM = {by_deepep, form_itself};

static const char *compiled(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_is_neutral(facts, "build.eager") ? value : NULL;
}
// Exchanges beside products are made by its compiler.
static const struct exchange_form COMPILED_FORM = {compiled, form_itself};

static const char *all_compiled(struct arena *arena, const struct facts *facts, const char *value)
{
    return facts_is_neutral(facts, "build.eager-loss") ? compiled(arena, facts, value) : NULL;
}
static const struct exchange_form ALL_COMPILED_FORM = {all_compiled, form_never};
static const struct exchange_form AS_BUILT_FORM = {form_itself, form_never};

static const char *by_stages(struct arena *arena, const struct facts *facts, const char *text)
{
    (void)arena;
    return has_stages(facts) ? text : NULL;
}
static const char *without_stages(struct arena *arena, const struct facts *facts, const char *text)
{
    (void)arena;
    return has_stages(facts) ? NULL : text;
}
static const struct exchange_form NO_STAGES_FORM = {without_stages, without_stages};
static const struct exchange_form READ_STAGES_FORM = {form_never, by_stages};
static const struct exchange_form READ_NO_STAGES_FORM = {form_never, without_stages};

// With stages a rank's batch is all micro-batches of its copy: one flush of the pipeline a step.
static const char *local_batch(struct arena *arena, const struct facts *facts, const char *value)
{
    int64_t copies = facts_number(facts, "dp", 1);
    (void)value;
    if (!has_stages(facts)) return NULL;
    return number(arena, facts_number(facts, "global_batch", 0) / copies);
}
static const struct exchange_form LOCAL_BATCH_FORM = {local_batch, form_never};

// [["tok_embeddings", "layers.0"], ["layers.1", "norm", "output"]]
static const char *modules(struct arena *arena, const struct facts *facts, const char *pieces)
{
    const char *text = "[[\"tok_embeddings\"";
    int layer = 0;
    bool is_empty = false;
    if (facts_number(facts, "model.mtp", 0)) return NULL;
    for (const char *at = pieces; at; at = strchr(at, ',')) {
        at += *at == ',';
        for (int i = atoi(at); i > 0; i--, is_empty = false)
            text = arena_print(arena, "%s%s\"layers.%d\"", text, is_empty ? "" : ", ", layer++);
        bool is_last = !strchr(at, ',');
        text = arena_print(arena, "%s%s", text,
                           !is_last   ? "], ["
                           : is_empty ? "\"norm\", \"output\"]]"
                                      : ", \"norm\", \"output\"]]");
        is_empty = true;
    }
    return text;
}

static const char *pieces_of(struct arena *arena, const struct facts *facts, const char *text)
{
    const char *pieces = "";
    int layers = 0;
    (void)facts;
    if (strncmp(text, "[[", 2) != 0) return NULL;
    for (const char *at = text + 1; *at; at++) {
        if (strncmp(at, "\"layers.", 8) == 0 || strncmp(at, "'layers.", 8) == 0) layers++;
        if (*at != ']' || at[1] == '\0') continue;
        pieces = arena_print(arena, "%s%s%d", pieces, *pieces ? "," : "", layers);
        layers = 0;
    }
    return pieces;
}
static const struct exchange_form MODULES_FORM = {modules, pieces_of};

static const char *modules_of_chunks(struct arena *arena, const struct facts *facts,
                                     const char *value)
{
    const char *pieces = facts_get(facts, "pieces");
    (void)value;
    return pieces ? modules(arena, facts, pieces) : NULL;
}

static const char *chunks_of_modules(struct arena *arena, const struct facts *facts,
                                     const char *text)
{
    const char *pieces = pieces_of(arena, facts, text);
    int64_t count = 1, stages = facts_number(facts, "pp", 1);
    for (const char *at = pieces; at && *at; at++)
        count += *at == ',';
    return pieces && count % stages == 0 ? number(arena, count / stages) : NULL;
}
static const struct exchange_form CHUNKS_FORM = {modules_of_chunks, chunks_of_modules};

static const char *one_chunk(struct arena *arena, const struct facts *facts, const char *text)
{
    (void)arena;
    bool is_one = facts_is(facts, "schedule", "1f1b") || facts_is(facts, "schedule", "gpipe");
    return is_one || !has_stages(facts) ? text : NULL;
}
static const struct exchange_form PLAIN_FORM = {form_never, one_chunk};

#define FLAVOR(ours, name, flavor)                                                        \
    {                                                                                     \
        "model.name", ours, "model.name=" name ";model.flavor=" flavor, "the model", NULL \
    }

static const struct exchange_row ROWS[] = {
    {"world", NULL, "", NULL, &WRITTEN_FORM},
    {"+", NULL, "job.description=planned by meshwright", NULL, NULL},
    FLAVOR("llama-3-8b", "llama3", "8B"),
    FLAVOR("llama-3-70b", "llama3", "70B"),
    FLAVOR("llama-3.1-405b", "llama3", "405B"),
    FLAVOR("deepseek-v3", "deepseek_v3", "671B"),
    FLAVOR("qwen3-8b", "qwen3", "8B"),
    FLAVOR("qwen3-14b", "qwen3", "14B"),
    FLAVOR("qwen3-32b", "qwen3", "32B"),
    {"model.name", NULL, "model.name=own;model.flavor={}",
     "torchtitan has no such flavor: register a train spec with the sizes of config.json", NULL},
    {"tp", NULL, "parallelism.tensor_parallel_degree={}", "split as planned", NULL},
    {"cp", NULL, "parallelism.context_parallel_degree={}", NULL, NULL},
    {"cp_kind", "allgather", "parallelism.context_parallel_rotate_method=allgather",
     "keys and values are gathered", NULL},
    {"cp_kind", "ring", "parallelism.context_parallel_rotate_method=alltoall",
     "keys and values go round", NULL},
    {"pp", NULL, "parallelism.pipeline_parallel_degree={}", NULL, NULL},
    {"dp", NULL, "parallelism.data_parallel_replicate_degree={}",
     "whole copies; those that shard follow", &REPLICAS_FORM},
    {"dp", NULL, "mesh.copies={}", NULL, &READ_FORM},
    {"zero_group", NULL, "mesh.group={}", NULL, &READ_FORM},
    {"zero_group", NULL, "", NULL, &WRITTEN_FORM},
    {"zero", "0", "mesh.whole", NULL, &READ_FORM},
    {"zero", "3", "parallelism.fsdp_reshard_after_forward=always",
     "parameters are sharded and given back after forward", &SPLIT_FORM},
    {"zero", "2", "parallelism.fsdp_reshard_after_forward=never",
     "parameters are sharded and kept until the step ends", &SPLIT_FORM},
    {"zero", "3", "parallelism.fsdp_reshard_after_forward=default", NULL, &READ_NO_STAGES_FORM},
    {"zero", "2", "parallelism.fsdp_reshard_after_forward=default", NULL, &READ_STAGES_FORM},
    {"zero", "0", "", NULL, &COPIED_FORM},
    {"zero", "3", "", NULL, &READ_NO_STAGES_FORM},
    {"zero", "2", "", NULL, &READ_STAGES_FORM},
    {"+dp", NULL, "parallelism.data_parallel_shard_degree={}", NULL, &SHARDS_FORM},
    {"ep", NULL,
     "parallelism.expert_parallel_degree={};parallelism.expert_parallel_comm_backend=deepep",
     "experts spread over so many ranks, a token sent once to each", &DEEPEP_FORM},
    {"ep", NULL,
     "parallelism.expert_parallel_degree={};parallelism.expert_parallel_comm_backend=standard",
     "experts spread over so many ranks, a token sent once for each of its experts",
     &AS_BUILT_FORM},
    {"build.standard-ep", "standard-ep", "", NULL, &WRITTEN_FORM},
    {"ep", NULL, "parallelism.expert_parallel_degree={}", NULL, &READ_FORM},
    {"etp", "1", "parallelism.expert_tensor_parallel_degree=1", NULL, NULL},
    BY_ITSELF("tp=1 cp=1 cp_kind=allgather pp=1 ep=1 etp=1 sp=on"),
    {"schedule", "1f1b", "parallelism.pipeline_parallel_schedule=1F1B", "as planned", NULL},
    {"schedule", "gpipe", "parallelism.pipeline_parallel_schedule=GPipe", "as planned", NULL},
    {"schedule", "interleaved", "parallelism.pipeline_parallel_schedule=Interleaved1F1B",
     "as planned", NULL},
    {"schedule", "zb-v", "parallelism.pipeline_parallel_schedule=ZBVZeroBubble", "as planned",
     NULL},
    {"vpp", NULL, "parallelism.module_fqns_per_model_part={}", "what each chunk holds",
     &CHUNKS_FORM},
    {"vpp", "1", "", NULL, &PLAIN_FORM},
    {"pieces", NULL, "parallelism.module_fqns_per_model_part={}", "what each stage holds",
     &MODULES_FORM},
    {"micro_batch", NULL, "parallelism.pipeline_parallel_microbatch_size={}",
     "sequences of a micro-batch", &STAGES_FORM},
    {"micro_batch", NULL, "training.local_batch_size={}", "sequences of a micro-batch",
     &NO_STAGES_FORM},
    {"global_batch", NULL, "training.global_batch_size={}", NULL, NULL},
    {"+micro_batch", NULL, "training.local_batch_size={}", "all micro-batches of a copy",
     &LOCAL_BATCH_FORM},
    {"seq_len", NULL, "training.seq_len={}", NULL, NULL},
    {"recompute", "full", "activation_checkpoint.mode=full",
     "forward runs again in backward, to save memory", NULL},
    {"recompute", "per-op",
     "activation_checkpoint.mode=selective;activation_checkpoint.selective_ac_option=op",
     "all but attention and every second product of a layer runs again in backward", NULL},
    {"recompute", "none", "activation_checkpoint.mode=none", "memory suffices", NULL},
    {"recompute", NULL, "activation_checkpoint.mode={}", NULL, &UNREAD_FORM},
    BY_ITSELF("schedule=1f1b attention=flash"),
    {"offload.optimizer", "host", "training.enable_cpu_offload=true",
     "optimizer states, and with them parameters and gradients, on the host", &SHARDED_FORM},
    {"offload.optimizer", "none", "training.enable_cpu_offload=false", NULL, &READ_FORM},
    BY_ITSELF("offload.optimizer=none offload.activations=none offload.parameters=none "
              "offload.gradients=none overlap.grad-reduce=on overlap.param-gather=on"),
    {"overlap.tp", "on", "parallelism.enable_async_tensor_parallel=true",
     "gathers and scatters of tp beside GEMMs", &COMPILED_FORM},
    {"overlap.tp", "off", "parallelism.enable_async_tensor_parallel=false", NULL, NULL},
    BY_ITSELF("overlap.tp=off overlap.cp=on overlap.ep=off overlap.pp=off"),
    {"build.eager", "eager", "compile.enable=false", "operators one by one", &AS_BUILT_FORM},
    {"build.eager-loss", "eager-loss", "compile.enable=true;compile.components=[\"model\"]",
     "layers are compiled, the loss is not", &AS_BUILT_FORM},
    {"+", NULL, "compile.enable=true", "layers and loss are compiled", &ALL_COMPILED_FORM},
    {"precision", "fp8", "model.converters=[\"float8\"];training.mixed_precision_param=bfloat16",
     "GEMMs in fp8, the rest in bf16", NULL},
    {"precision", "fp8", "model.converters=[\"float8\"]", NULL, &READ_FORM},
    {"precision", "bf16", "training.mixed_precision_param=bfloat16", "precision", NULL},
    {"precision", "fp32", "training.mixed_precision_param=float32", "precision", NULL},
    {"optimizer", "adamw", "optimizer.name=AdamW", NULL, NULL},
    {"optimizer", "adam", "optimizer.name=Adam", NULL, NULL},
    BY_ITSELF("precision=bf16 optimizer=adamw order=tp,cp,dp,pp"),
    {"+", NULL, "training.steps=100;checkpoint.enable=false",
     "what a plan does not say: yours to change", NULL},
    {0},
};

static int64_t degree(const struct settings *settings, const char *key, int64_t absent)
{
    struct setting *setting = settings_find(settings, key);
    return setting ? strtoll(setting->value, NULL, 10) : absent;
}

// Without a degree that shards, or with -1, all ranks that are left shard.
static void prepare(struct settings *settings)
{
    static const char SHARD[] = "parallelism.data_parallel_shard_degree";
    static const char COPY[] = "parallelism.data_parallel_replicate_degree";
    int64_t shard = degree(settings, SHARD, -1), whole = degree(settings, COPY, 1);
    int64_t context = degree(settings, "parallelism.context_parallel_degree", 1);
    struct setting *said = settings_find(settings, COPY);
    if (said) said->is_used = true;
    said = settings_find(settings, SHARD);
    if (said && shard < 0) said->is_used = true;
    if (shard == 1 && context == 1) settings_read(settings, "mesh.whole", "", 0);
    if (shard <= 0) return;
    settings_read(settings, "mesh.copies", number(settings->arena, shard * whole), 0);
    const char *group =
        whole > 1 && shard * context > 1 ? number(settings->arena, shard * context) : "0";
    settings_read(settings, "mesh.group", group, 0);
}

// Without cp there is nothing that a rank alone shards.
static bool matters(const struct facts *facts, const char *name)
{
    if (strcmp(name, "overlap.pp") == 0) return facts_is(facts, name, "off");
    return true;
}

const struct exchange_target TORCHTITAN_TARGET = {
    .name = "torchtitan",
    .program = "torchtitan",
    .version = "0.2.2",
    .stack = "fsdp2",
    .file = "train.toml",
    .syntax = &TOML_SYNTAX,
    .command = "-m torchtitan.train --job.config_file ./train.toml",
    .options = "torchtitan-0.2.2",
    .rows = ROWS,
    .prepare = prepare,
    .matters = matters,
    .known_by = "parallelism.data_parallel_shard_degree parallelism.tensor_parallel_degree "
                "training.local_batch_size activation_checkpoint.mode model.flavor",
};
