#include "exchange/syntax.h"
#include "exchange/target.h"
#include "exchange/targets/forms.h"
#include "exchange/targets/recipes.h"

#include <string.h>

// Megatron-Bridge 0.3.1: a YAML of overrides that is merged over the recipe of a model. A key that
// it does not know is dropped there without a word.

#define MODEL "model."
#define CONFIG "model."
#define BATCH "train."
#define LENGTH "model."
#define COPIES "ddp."
#define OVERLAP "comm_overlap."
#define TP_OVERLAP "comm_overlap."
#define OPTIMIZER "optimizer."

// Recipes leave `comm_overlap` out, or have one of their own: what is made of it has to be said.
static const char *no_overlap(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_is(facts, "overlap.tp", "on") ? NULL : value;
}

static const struct exchange_form NO_OVERLAP_FORM = {no_overlap, form_itself};

static const struct recipe_section SECTIONS[] = {
    {"GPTModelProvider.", MODEL},    {"DistributedDataParallelConfig.", COPIES},
    {"TrainingConfig.", BATCH},      {"OptimizerConfig.", OPTIMIZER},
    {"CommOverlapConfig.", OVERLAP}, {0},
};

static const struct exchange_row ROWS[] = {
    {"+", NULL, OVERLAP "_target_=megatron.bridge.training.comm_overlap.CommOverlapConfig",
     "made anew where the recipe has none", NULL},
    {"overlap.ep", "on", TP_OVERLAP "overlap_moe_expert_parallel_comm=true",
     "exchanges of experts beside the other half of a micro-batch", NULL},
#include "exchange/targets/bridge_rows.inc"
    {"+seq_len", NULL, "dataset.seq_length={}", NULL, NULL},
    {"+", NULL, TP_OVERLAP "tp_comm_overlap=false", NULL, &NO_OVERLAP_FORM},
    {"precision", "bf16", "mixed_precision=bf16_mixed", "precision", NULL},
    {"precision", "fp16", "mixed_precision=fp16_mixed", "precision", NULL},
    RECIPE_ROWS,
    {"overlap.grad-reduce", "on", COPIES "overlap_grad_reduce=true", NULL, &READ_FORM},
    {"overlap.grad-reduce", "off", COPIES "overlap_grad_reduce=false", NULL, &READ_FORM},
    {"overlap.param-gather", "on", COPIES "overlap_param_gather=true", NULL, &READ_FORM},
    {"overlap.param-gather", "off", COPIES "overlap_param_gather=false", NULL, &READ_FORM},
    {0},
};

static void prepare(struct settings *settings)
{
    recipe_prepare(SECTIONS, settings);
}

const struct exchange_target MEGATRON_BRIDGE_TARGET = {
    .name = "megatron-bridge",
    .program = "Megatron-Bridge",
    .version = "0.3.1",
    .stack = "megatron-core",
    .file = "overrides.yaml",
    .syntax = &YAML_SYNTAX,
    .command = "\"${PRETRAIN_SCRIPT:-pretrain.py}\" --config-file ./overrides.yaml",
    .options = "megatron-bridge-0.3.1",
    .has_recipes = true,
    .rows = ROWS,
    .prepare = prepare,
    .matters = form_matters_to_megatron,
    .known_by = "model.tensor_model_parallel_size model.pipeline_model_parallel_size "
                "train.micro_batch_size ddp.use_distributed_optimizer mixed_precision",
};
