#pragma once
#include "exchange/target.h"

// What Python recipes of NeMo and Megatron-Bridge say in other names than their YAML.

// A class whose arguments stand in a section: {"MegatronStrategy.", "trainer.strategy."}. The last
// has no `class`.
struct recipe_section {
    const char *class, *section;
};

// Keys of the classes become those of their sections, what is None goes but where a row reads it,
// and the nodes' GPUs become "mesh.world"; "recompute.bare" is there where no modules are named.
void recipe_prepare(const struct recipe_section *sections, struct settings *settings);

// Names of recipes as those of shipped models: "llama31_405b", "recipe" or its file.
extern const struct exchange_form RECIPE_FORM;

// clang-format off
// Rows that read what recipes say, in the macros of bridge_rows.inc.
#define RECIPE_ROWS                                                                              \
    {"model.name", NULL, "recipe.function={}", NULL, &RECIPE_FORM},                              \
    {"model.name", NULL, "recipe={}", NULL, &RECIPE_FORM},                                       \
    {"model.name", NULL, "recipe.file={}", NULL, &RECIPE_FORM},                                  \
    {"model.name", NULL, "", NULL, &WRITTEN_FORM},                                               \
    {"world", NULL, "mesh.world={}", NULL, &READ_FORM},                                          \
    {"vpp", NULL, MODEL "virtual_pipeline_model_parallel_size={}", NULL, &READ_FORM},            \
    {"vpp", "1", MODEL "virtual_pipeline_model_parallel_size=None", NULL, &READ_FORM},           \
    {"zero", "1", OPTIMIZER "use_distributed_optimizer=true", NULL, &READ_FORM},                 \
    {"recompute", "none", CONFIG "recompute_granularity=None", NULL, &READ_FORM},                \
    {"recompute", NULL, CONFIG "recompute_granularity=selective;" CONFIG "recompute_modules={}", \
     NULL, &MODULES_FORM},                                                                       \
    {"recompute", "selective", "recompute.bare;" CONFIG "recompute_granularity=selective", NULL, \
     &READ_FORM},                                                                                \
    {"attention", "flash", CONFIG "attention_backend=None", NULL, &READ_FORM}
// clang-format on
extern const struct exchange_form MODULES_FORM;  // a Python list of modules as classes
