#pragma once
// One plan from names to prices, for the tests of the cost models. Dense data parallel bf16 unless
// the test changes `parallel` or `workload`.
#include "cost_models/memory.h"
#include "cost_models/step.h"
#include "models/import.h"

#include <assert.h>

struct priced {
    struct arena *arena;
    struct cluster *cluster;
    struct graph *graph;
    const struct stack *stack;
    const struct fabrics *fabrics;
    struct workload workload;
    struct parallel parallel;
    struct price_context context;
    struct program *program;
    struct step_price *price;
};

// Everything but the parallel degrees chosen.
static inline struct priced priced_start(struct arena *arena, const char *model,
                                         const char *cluster, const char *stack)
{
    struct err err = {0};
    struct priced of = {.arena = arena};
    of.cluster = cluster_load(arena, cluster, &err);
    of.stack = stack_load(arena, stack, &err);
    of.fabrics = fabrics_load(arena, &err);
    struct model_config *config = model_load(arena, model, NULL, NULL, &err);
    assert(!err.kind);
    struct import_options options = {
        .flash = of.stack->attention >> ATTENTION_FLASH & 1,
        .dropout = of.stack->dropout,
    };
    of.graph = model_graph(arena, config, &options);
    of.workload = (struct workload){.seq_len = 2048, .precision = PRECISION_BF16};
    of.parallel = (struct parallel){.vpp = 1,
                                    .micro_batch = 1,
                                    .overlap = of.stack->overlap_default,
                                    .passes = of.stack->passes};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        of.parallel.degree[axis] = 1;
    parallel_default_order(&of.parallel);
    of.parallel.schedule = SCHEDULE_1F1B;
    of.parallel.recompute_layers = -1;
    of.parallel.attention = options.flash ? ATTENTION_FLASH : ATTENTION_UNFUSED;
    return of;
}

// Lowers and prices what the caller has chosen; dp takes the ranks that are left.
static inline void priced_finish(struct priced *of)
{
    struct err err = {0};
    of->parallel.degree[AXIS_DP] = 1;
    of->parallel.degree[AXIS_DP] =
        of->cluster->rank_count / (int)parallel_rank_count(&of->parallel);
    if (of->workload.global_batch == 0) {
        of->workload.global_batch =
            (int64_t)16 * of->parallel.micro_batch * of->parallel.degree[AXIS_DP];
    }
    bool is_legal = program_check(of->graph, of->cluster, &of->workload, &of->parallel, &err);
    assert(is_legal && !err.kind);
    of->context = (struct price_context){
        .compute = {.device = of->cluster->nodes[0].device,
                    .stack = of->stack,
                    .precision = of->workload.precision},
        .fabrics = of->fabrics,
        .cluster = of->cluster,
    };
    of->program = program_lower(of->arena, of->graph, of->cluster, &of->workload, &of->parallel,
                                stack_joins(of->stack));
    of->price = step_price(of->arena, &of->context, of->program);
}

// A program block of this role; NULL if there is none.
static inline const struct block_program *priced_block(const struct priced *of,
                                                       enum block_role role)
{
    for (int i = 0; i < of->program->block_count; i++) {
        if (of->program->blocks[i]->block->role == role) return of->program->blocks[i];
    }
    return NULL;
}
