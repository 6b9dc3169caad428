#include "core/names.h"
#include "exchange/syntax.h"
#include "exchange/target.h"
#include "exchange/targets/forms.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// accelerate 1.15 (commands/config/config_args.py): the YAML that `accelerate launch` starts a
// script with. It shards with FSDP2 over a mesh of copies, shards, cp and tp; batch and sequence
// are the script's, and stand in its environment. What is read besides: FSDP1, DeepSpeed and
// Megatron-LM under accelerate.

static const char *number(struct arena *arena, int64_t value)
{
    return arena_print(arena, "%lld", (long long)value);
}

// Checkpoints of activations are FSDP's; without it they are the script's.
static const char *whole_copies(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_is_neutral(facts, "zero") ? value : NULL;
}

static const struct exchange_form COPIES_FORM = {whole_copies, form_itself};

static const char *mixed(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena, (void)facts;
    static const char *const THEIRS[] = {"bf16", "fp16", "fp8"};
    if (NAME_INDEX(THEIRS, value) >= 0) return value;
    return strcmp(value, "fp32") == 0 ? "no" : NULL;
}

static const char *unmixed(struct arena *arena, const struct facts *facts, const char *text)
{
    return strcmp(text, "no") == 0 ? "fp32" : mixed(arena, facts, text);
}
static const struct exchange_form PRECISION_FORM = {mixed, unmixed};

#define MESH "parallelism_config.parallelism_config_"
#define FSDP "fsdp_config.fsdp_"
#define MEGATRON "megatron_lm_config.megatron_lm_"

static const struct exchange_row ROWS[] = {
    {"+", NULL, "compute_environment=LOCAL_MACHINE;debug=false;use_cpu=false", NULL, NULL},
    {"world", NULL, "num_processes={}", "all GPUs", NULL},
    {"zero", "3", "distributed_type=FSDP;" FSDP "version=2;" FSDP "reshard_after_forward=true",
     "parameters are sharded and given back after forward", &SPLIT_FORM},
    {"zero", "2", "distributed_type=FSDP;" FSDP "version=2;" FSDP "reshard_after_forward=false",
     "parameters are sharded and kept until the step ends", &SPLIT_FORM},
    {"zero", "0", "distributed_type=MULTI_GPU", "every GPU has a whole copy", &WHOLE_FORM},
    {"zero", "3", FSDP "sharding_strategy=FULL_SHARD|1", NULL, &READ_FORM},
    {"zero", "2", FSDP "sharding_strategy=SHARD_GRAD_OP|2", NULL, &READ_FORM},
    {"zero", NULL, FSDP "sharding_strategy={}", NULL, &UNREAD_FORM},
    {"zero", NULL, "deepspeed_config.zero_stage={}", NULL, &READ_FORM},
    {"zero", "1", MEGATRON "use_distributed_optimizer=true", NULL, &READ_FORM},
    {"zero", "3", "distributed_type=FSDP", NULL, &READ_FORM},
    {"zero", "0", "distributed_type=NO|MEGATRON_LM", NULL, &READ_FORM},
    {"+zero", NULL,
     FSDP "auto_wrap_policy=TRANSFORMER_BASED_WRAP;" FSDP "state_dict_type=SHARDED_STATE_DICT",
     "a unit is a layer", NULL},
    {"dp", NULL, "mesh.copies={}", NULL, &READ_FORM},
    {"dp", NULL, "", NULL, &WRITTEN_FORM},
    {"zero_group", NULL, "mesh.group={}", NULL, &READ_FORM},
    {"zero_group", NULL, "", NULL, &WRITTEN_FORM},
    {"+dp", NULL, MESH "dp_replicate_size={}", "whole copies; those that shard follow",
     &REPLICAS_FORM},
    {"+dp", NULL, MESH "dp_shard_size={}", NULL, &SHARDS_FORM},
    {"cp", NULL, MESH "cp_size={}", NULL, NULL},
    {"cp", NULL, MESH "sp_size={}", NULL, &READ_FORM},
    {"cp_kind", "allgather", MESH "cp_comm_strategy=allgather", "keys and values are gathered",
     NULL},
    {"cp_kind", "ring", MESH "cp_comm_strategy=alltoall", "keys and values go round", NULL},
    {"cp_kind", "ulysses", MESH "sp_size", NULL, &READ_FORM},
    {"tp", NULL, MESH "tp_size={}", "split as planned", NULL},
    {"tp", NULL, MEGATRON "tp_degree={}", NULL, &READ_FORM},
    {"pp", NULL, MEGATRON "pp_degree={}", NULL, &READ_FORM},
    BY_ITSELF("cp=1 cp_kind=allgather tp=1 pp=1 ep=1 etp=1"),
    {"sp", "on", MEGATRON "sequence_parallelism=true", NULL, &READ_FORM},
    {"micro_batch", NULL, "", NULL, &WRITTEN_FORM},
    {"global_batch", NULL, "", NULL, &WRITTEN_FORM},
    {"seq_len", NULL, "", NULL, &WRITTEN_FORM},
    {"recompute", "full", FSDP "activation_checkpointing=true",
     "forward runs again in backward, to save memory", &SHARDED_FORM},
    {"recompute", "none", FSDP "activation_checkpointing=false", "memory suffices", &SHARDED_FORM},
    {"recompute", "selective", MEGATRON "recompute_activations=true", NULL, &READ_FORM},
    {"recompute", "none", "", NULL, &COPIES_FORM},
    BY_ITSELF("sp=off attention=flash"),
    {"offload.optimizer", "host", FSDP "offload_params=true",
     "optimizer states, and with them parameters and gradients, on the host", &SHARDED_FORM},
    {"offload.optimizer", "none", FSDP "offload_params=false", NULL, &READ_FORM},
    {"offload.optimizer", "host", "deepspeed_config.offload_optimizer_device=cpu", NULL,
     &READ_FORM},
    {"offload.optimizer", "nvme", "deepspeed_config.offload_optimizer_device=nvme", NULL,
     &READ_FORM},
    {"offload.optimizer", "none", "deepspeed_config.offload_optimizer_device=none", NULL,
     &READ_FORM},
    BY_ITSELF("offload.optimizer=none offload.activations=none offload.parameters=none "
              "offload.gradients=none overlap.grad-reduce=on overlap.param-gather=on "
              "overlap.tp=off overlap.cp=on overlap.ep=off"),
    {"precision", NULL, "mixed_precision={}", "precision", &PRECISION_FORM},
    {"optimizer", "adamw", "", NULL, &WRITTEN_FORM},
    BY_ITSELF("order=tp,cp,dp,pp capacity=0"),
    {"+", NULL, "rdzv_backend=static;same_network=true;main_training_function=main",
     "what a plan does not say: yours to change", NULL},
    {0},
};

static const struct exchange_row ENVIRONMENT[] = {
    {"micro_batch", NULL, "MICRO_BATCH={}", "for your script: sequences of a micro-batch", NULL},
    {"global_batch", NULL, "GLOBAL_BATCH={}", "sequences of a step", NULL},
    {"seq_len", NULL, "SEQ_LEN={}", "tokens of a sequence", NULL},
    {"+micro_batch", NULL, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS={}",
     "micro-batches of a step, which Accelerator() reads", &STEPS_FORM},
    {0},
};

static int64_t size(const struct settings *settings, const char *key, int64_t absent)
{
    const struct setting *setting = settings_find(settings, key);
    return setting ? strtoll(setting->value, NULL, 10) : absent;
}

static void put(struct settings *settings, const char *key, int64_t value)
{
    assert(value >= 0);
    settings_read(settings, key, number(settings->arena, value), 0);
    settings_find(settings, key)->is_used = true;
}

// Copies are the two sizes of a mesh, or all processes over what else splits them.
static void prepare(struct settings *settings)
{
    static const char SHARD[] = MESH "dp_shard_size", COPY[] = MESH "dp_replicate_size";
    int64_t shard = size(settings, SHARD, 1), whole = size(settings, COPY, 1);
    int64_t context = size(settings, MESH "cp_size", 1) * size(settings, MESH "sp_size", 1);
    int64_t others = context * size(settings, MESH "tp_size", 1) *
                     size(settings, MEGATRON "tp_degree", 1) *
                     size(settings, MEGATRON "pp_degree", 1);
    int64_t world = size(settings, "num_processes", 0);
    bool has_mesh = settings_find(settings, SHARD) || settings_find(settings, COPY);
    if (settings_find(settings, SHARD)) settings_find(settings, SHARD)->is_used = true;
    if (settings_find(settings, COPY)) settings_find(settings, COPY)->is_used = true;
    if (!has_mesh && (world <= 0 || others <= 0 || world % others)) return;
    put(settings, "mesh.copies", has_mesh ? shard * whole : world / others);
    put(settings, "mesh.group", whole > 1 && shard * context > 1 ? shard * context : 0);
}

// The script pipelines and routes, if anything does.
static bool matters(const struct facts *facts, const char *name)
{
    if (strcmp(name, "overlap.param-gather") != 0) return true;
    return facts_is(facts, name, "on") || !facts_is_neutral(facts, "zero");
}

const struct exchange_target ACCELERATE_TARGET = {
    .name = "accelerate",
    .program = "accelerate",
    .version = "1.15.0",
    .stack = "fsdp2",
    .file = "accelerate.yaml",
    .syntax = &YAML_SYNTAX,
    .starter = "accelerate launch --config_file ./accelerate.yaml \\\n"
               "    --num_machines \"$NNODES\" --num_processes \"$((NNODES * GPUS_PER_NODE))\" \\\n"
               "    --machine_rank \"${NODE_RANK:-0}\" \\\n"
               "    --main_process_ip \"${MASTER_ADDR:-localhost}\" \\\n"
               "    --main_process_port \"${MASTER_PORT:-29500}\"",
    .command = "\"${TRAIN_SCRIPT:-train.py}\"",
    .options = "accelerate-1.15.0",
    .rows = ROWS,
    .environment = ENVIRONMENT,
    .prepare = prepare,
    .matters = matters,
    .known_by = "compute_environment distributed_type num_processes mixed_precision "
                "main_training_function fsdp_config.fsdp_version deepspeed_config.zero_stage",
};
