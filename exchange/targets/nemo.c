#include "exchange/syntax.h"
#include "exchange/target.h"
#include "exchange/targets/forms.h"
#include "exchange/targets/recipes.h"

#include <string.h>

// NeMo 2.7.3, the last with nemo.collections.llm: values of MegatronStrategy and of the data
// module, given to the factory of a model (`nemo llm pretrain --factory NAME`).

#define MODEL "trainer.strategy."
#define CONFIG "model.config."
#define BATCH "data."
#define LENGTH "data."
#define COPIES "trainer.strategy.ddp."
#define OVERLAP "trainer.strategy.ddp."
#define TP_OVERLAP "model.config."
#define OPTIMIZER "optim.config."

static const struct recipe_section SECTIONS[] = {
    {"MegatronStrategy.", MODEL},
    {"DistributedDataParallelConfig.", COPIES},
    {"MockDataModule.", BATCH},
    {"PreTrainingDataModule.", BATCH},
    {"MegatronMixedPrecision.", "trainer.plugins."},
    {"OptimizerConfig.", OPTIMIZER},
    {"Trainer.", "trainer."},
    {"Partial.", ""},
    {"trainer().tensor_parallelism", MODEL "tensor_model_parallel_size"},
    {"trainer().pipeline_parallelism_type", MODEL "pipeline_dtype"},
    {"trainer().pipeline_parallelism", MODEL "pipeline_model_parallel_size"},
    {"trainer().virtual_pipeline_parallelism", MODEL "virtual_pipeline_model_parallel_size"},
    {"trainer().context_parallelism", MODEL "context_parallel_size"},
    {"trainer().sequence_parallelism", MODEL "sequence_parallel"},
    {"trainer().expert_parallelism", MODEL "expert_model_parallel_size"},
    {"trainer().expert_tensor_parallelism", MODEL "expert_tensor_parallel_size"},
    {"trainer().num_nodes", "trainer.num_nodes"},
    {"recipe().num_nodes", "trainer.num_nodes"},
    {"recipe().num_gpus_per_node", "trainer.devices"},
    {"trainer().num_gpus_per_node", "trainer.devices"},
    {"trainer().", "trainer."},
    {0},
};

static const struct exchange_row ROWS[] = {
#include "exchange/targets/bridge_rows.inc"
    {"precision", "bf16", "trainer.plugins.precision=bf16-mixed", "precision", NULL},
    {"precision", "fp16", "trainer.plugins.precision=16-mixed", "precision", NULL},
    {"build.bf16-gradients", "bf16-gradients", "trainer.plugins.grad_reduce_in_fp32=false",
     "gradients are kept and reduced in 16 bits", &WRITTEN_FORM},
    RECIPE_ROWS,
    {"zero", "1", "optim=distributed_fused_adam_with_cosine_annealing({}", NULL, &READ_FORM},
    {"optimizer", "adamw", "optim=distributed_fused_adam_with_cosine_annealing({}", NULL,
     &READ_FORM},
    {0},
};

static void prepare(struct settings *settings)
{
    recipe_prepare(SECTIONS, settings);
}

// What is never there is so of every recipe; what a plan has and cannot use is not told.
static bool matters(const struct facts *facts, const char *name)
{
    const char *overlap = facts_get(facts, "overlap.ep");
    if (strcmp(name, "overlap.ep") != 0 || (overlap && strcmp(overlap, "off") == 0)) return true;
    const char *recompute = facts_get(facts, "recompute");
    bool is_whole = recompute && strncmp(recompute, "full", 4) == 0;
    return !is_whole && (facts_is_neutral(facts, "pp") || !facts_is_neutral(facts, "vpp"));
}

const struct exchange_target NEMO_TARGET = {
    .name = "nemo",
    .program = "NeMo",
    .version = "2.7.3",
    .stack = "megatron-core",
    .file = "recipe.yaml",
    .syntax = &YAML_SYNTAX,
    .command = "\"${PRETRAIN_SCRIPT:-pretrain.py}\" ./recipe.yaml",
    .options = "nemo-2.7.3",
    .has_recipes = true,
    .rows = ROWS,
    .prepare = prepare,
    .matters = matters,
    .known_by = "trainer().tensor_parallelism MegatronStrategy.tensor_model_parallel_size "
                "MegatronStrategy.pipeline_model_parallel_size MockDataModule.micro_batch_size "
                "trainer.strategy.tensor_model_parallel_size data.micro_batch_size "
                "trainer.strategy.pipeline_model_parallel_size data.global_batch_size",
};
