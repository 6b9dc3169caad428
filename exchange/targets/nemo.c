#include "exchange/syntax.h"
#include "exchange/target.h"
#include "exchange/targets/forms.h"

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

static const struct exchange_row ROWS[] = {
#include "exchange/targets/bridge_rows.inc"
    {"precision", "bf16", "trainer.plugins.precision=bf16-mixed", "precision", NULL},
    {"precision", "fp16", "trainer.plugins.precision=16-mixed", "precision", NULL},
    {0},
};

static bool matters(const struct facts *facts, const char *name)
{
    if (strcmp(name, "overlap.ep") != 0) return true;
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
    .rows = ROWS,
    .matters = matters,
    .known_by = "trainer.strategy.tensor_model_parallel_size data.micro_batch_size "
                "trainer.strategy.pipeline_model_parallel_size data.global_batch_size",
};
