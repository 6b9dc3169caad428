#include "exchange/syntax.h"
#include "exchange/target.h"
#include "exchange/targets/forms.h"

#include <stdlib.h>
#include <string.h>

// DeepSpeed 0.19.8 (deepspeed/runtime/config.py): ds_config.json beside a script that builds the
// model. No key of it sets pipeline stages or experts; JSON has no comments, so that the reasons
// are those of docs/exchange.md.

static const char *number(struct arena *arena, int64_t value)
{
    return arena_print(arena, "%lld", (long long)value);
}

// AutoTP knows no sharded parameters.
static const char *automatic(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_is(facts, "zero", "3") ? NULL : value;
}
static const struct exchange_form AUTOMATIC_FORM = {automatic, form_itself};

// The groups of a sequence are made where both sizes are there, and are all GPUs: no place for tp.
static const char *alone(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    bool is_ulysses = facts_is(facts, "cp_kind", "ulysses");
    return is_ulysses && facts_is_neutral(facts, "tp") ? value : NULL;
}
static const struct exchange_form SEQUENCE_FORM = {alone, form_itself};

static const char *copies(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_is_neutral(facts, "cp") ? NULL : value;
}
static const struct exchange_form COPIES_FORM = {copies, form_itself};

static const struct exchange_row ROWS[] = {
    {"world", NULL, "", NULL, &WRITTEN_FORM},
    {"tp", "1", "", NULL, &WRITTEN_FORM},
    {"tp", NULL, "tensor_parallel.autotp_size={}", NULL, &AUTOMATIC_FORM},
    {"cp", NULL, "sequence_parallel_size={}", NULL, &SEQUENCE_FORM},
    BY_ITSELF("tp=1 cp=1 cp_kind=ulysses pp=1 ep=1 etp=1 sp=off"),
    {"dp", NULL, "data_parallel_size={}", NULL, &COPIES_FORM},
    {"dp", NULL, "", NULL, &WRITTEN_FORM},
    {"dp", NULL, "mesh.copies={}", NULL, &READ_FORM},
    {"micro_batch", NULL, "train_micro_batch_size_per_gpu={}", NULL, NULL},
    {"global_batch", NULL, "train_batch_size={}", NULL, NULL},
    {"+micro_batch", NULL, "gradient_accumulation_steps={}", NULL, &STEPS_FORM},
    {"zero", NULL, "zero_optimization.stage={}", NULL, NULL},
    BY_ITSELF("zero=0 zero_group=0"),
    {"recompute", "full", "activation_checkpointing.partition_activations=false", NULL, NULL},
    BY_ITSELF("recompute=none attention=flash"),
    {"offload.optimizer", "host", "zero_optimization.offload_optimizer.device=cpu", NULL,
     &SHARDED_FORM},
    {"offload.optimizer", "nvme",
     "zero_optimization.offload_optimizer.device=nvme;"
     "zero_optimization.offload_optimizer.nvme_path=/nvme",
     NULL, &SHARDED_FORM},
    {"offload.optimizer", "host", "zero_optimization.cpu_offload=true", NULL, &READ_FORM},
    {"offload.gradients", "host", "", NULL, &WRITTEN_FORM},
    BY_ITSELF("offload.optimizer=none offload.activations=none offload.parameters=none "
              "offload.gradients=none"),
    {"overlap.grad-reduce", "on", "zero_optimization.overlap_comm=true", NULL, &SHARDED_FORM},
    {"overlap.grad-reduce", "off", "zero_optimization.overlap_comm=false", NULL, NULL},
    {"overlap.grad-reduce", "on", "", NULL, &STAGE_3_FORM},
    {"overlap.grad-reduce", "off", "", NULL, &READ_FORM},
    {"overlap.param-gather", NULL, "", NULL, &SAME_FORM},
    {"overlap.tp", "on", "tensor_parallel.tp_overlap_comm=true", NULL, NULL},
    BY_ITSELF("overlap.tp=off overlap.cp=off"),
    {"precision", "bf16", "bf16.enabled=true", NULL, NULL},
    {"precision", "fp16", "fp16.enabled=true", NULL, NULL},
    {"optimizer", "adamw", "optimizer.type=AdamW|adamw;optimizer.params.lr=0.0003", NULL, NULL},
    {"optimizer", "adam", "optimizer.type=Adam|adam;optimizer.params.lr=0.0003", NULL, NULL},
    {"optimizer", "lamb", "optimizer.type=Lamb|lamb;optimizer.params.lr=0.0003", NULL, NULL},
    {"optimizer", "adamw", "optimizer.type=AdamW|adamw", NULL, &READ_FORM},
    {"optimizer", "adam", "optimizer.type=Adam|adam", NULL, &READ_FORM},
    {"optimizer", "lamb", "optimizer.type=Lamb|lamb", NULL, &READ_FORM},
    BY_ITSELF("precision=fp32 order=tp,cp,dp,pp"),
    {"seq_len", NULL, "", NULL, &WRITTEN_FORM},
    BY_ITSELF("capacity=0"),
    {"+", NULL, "gradient_clipping=1;steps_per_print=1", NULL, NULL},
    {0},
};

// Copies: the batch over what each of them takes a step.
static void prepare(struct settings *settings)
{
    static const char *const KEYS[] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                       "gradient_accumulation_steps"};
    int64_t values[3];
    for (int i = 0; i < 3; i++) {
        struct setting *setting = settings_find(settings, KEYS[i]);
        values[i] = setting ? strtoll(setting->value, NULL, 10) : i == 2;
        if (setting && i == 2) setting->is_used = true;
    }
    int64_t each = values[1] * values[2];
    if (each <= 0 || values[0] <= 0 || values[0] % each) return;
    settings_read(settings, "mesh.copies", number(settings->arena, values[0] / each), 0);
    settings_find(settings, "mesh.copies")->is_used = true;
}

const struct exchange_target DEEPSPEED_TARGET = {
    .name = "deepspeed",
    .program = "DeepSpeed",
    .version = "0.19.8",
    .stack = "megatron-deepspeed",
    .file = "ds_config.json",
    .syntax = &JSON_SYNTAX,
    .command = "\"${TRAIN_SCRIPT:-train.py}\" --deepspeed_config ./ds_config.json",
    .options = "deepspeed-0.19.8",
    .rows = ROWS,
    .prepare = prepare,
    .known_by = "train_micro_batch_size_per_gpu train_batch_size zero_optimization.stage "
                "gradient_accumulation_steps fp16.enabled bf16.enabled",
};
