#include "tests/support/script_case.h"

#include "cost_models/parameters.h"
#include "memory/pack/pack.h"
#include "memory/plan_script.h"
#include "tests/support/priced.h"

#include <assert.h>

void script_case_keep(const struct priced *priced, struct script_case *of)
{
    of->stack = priced->stack;
    of->context = (struct price_context){
        .compute = {.device = priced->cluster->nodes[0].device,
                    .stack = priced->stack,
                    .precision = of->program->workload.precision},
        .fabrics = priced->fabrics,
        .cluster = of->program->cluster,
    };
}

// Lowered on as many ranks as it asks for.
static void lower_case(struct priced *priced, struct script_case *of)
{
    struct cluster *cluster = ARENA_NEW(of->arena, struct cluster, 1);
    *cluster = *priced->cluster;
    cluster->rank_count = (int)parallel_rank_count(&priced->parallel);
    struct err err = {0};
    bool is_legal =
        program_check(priced->graph, cluster, &priced->workload, &priced->parallel, &err);
    assert(is_legal && !err.kind);
    of->program = program_lower(of->arena, priced->graph, cluster, &priced->workload,
                                &priced->parallel, stack_joins(priced->stack));
    script_case_keep(priced, of);
}

void script_case_gpt2(struct arena *arena, int stages, int micro_batches, struct script_case *of)
{
    *of = (struct script_case){.arena = arena, .model = -1};
    struct priced priced = priced_start(arena, "gpt2", "dgx-a100-80g-x16", "meshwright");
    priced.parallel.degree[AXIS_PP] = stages;
    priced.parallel.degree[AXIS_DP] = 2;
    priced.parallel.zero = 1;
    priced.workload = (struct workload){
        .seq_len = 256, .precision = PRECISION_FP32, .global_batch = (int64_t)2 * micro_batches};
    lower_case(&priced, of);
}

void script_case_tensor(struct arena *arena, const char *model, int ranks, struct script_case *of)
{
    *of = (struct script_case){.arena = arena, .model = -1};
    struct priced priced = priced_start(arena, model, "dgx-a100-80g-x16", "meshwright");
    priced.parallel.degree[AXIS_TP] = ranks;
    priced.parallel.sp = true;
    priced.workload =
        (struct workload){.seq_len = 32, .precision = PRECISION_FP32, .global_batch = 4};
    lower_case(&priced, of);
    script_case_write(of);
}

// Where a micro-batch repeats itself one is enough.
static int stage_micro_batches(const struct script_case *of, int stage, struct stage_unroll *unroll)
{
    const struct program *program = of->program;
    bool is_cut = of->is_cut || program->shape.stage_count == 1;
    int all = program->shape.micro_batch_count;
    int count = is_cut ? stage_slots_cut(of->arena, program, stage) : all;
    struct stage_slots cut = stage_slots_of(of->arena, program, stage, count);
    if (stage_unroll(of->arena, program, stage, &cut, unroll)) return count;
    cut = stage_slots_of(of->arena, program, stage, all);
    bool is_unrolled = stage_unroll(of->arena, program, stage, &cut, unroll);
    assert(is_unrolled);
    return all;
}

static struct script *write_stage(const struct script_case *of, int stage)
{
    enum { ALIGNMENT = 64 };
    struct arena *arena = of->arena;
    struct err err = {0};
    struct stage_unroll unroll;
    int micro_batches = stage_micro_batches(of, stage, &unroll);
    const struct stage_graph *graph =
        stage_graph_of(arena, of->program, of->stack, stage, micro_batches, &err);
    assert(graph && !err.kind);
    const struct memory_problem *problem = memory_problem_make(arena, graph->graph, ALIGNMENT);
    int *order = ARENA_NEW(arena, int, problem->operator_count);
    int *birth = ARENA_NEW(arena, int, problem->buffer_count);
    int *death = ARENA_NEW(arena, int, problem->buffer_count);
    for (int o = 0; o < problem->operator_count; o++)
        order[o] = o;
    memory_lifetimes(arena, problem, order, birth, death);
    struct pack_buffer *buffers = ARENA_NEW(arena, struct pack_buffer, problem->buffer_count);
    for (int b = 0; b < problem->buffer_count; b++)
        buffers[b] = (struct pack_buffer){birth[b], death[b], problem->buffers[b].bytes, 1, -1};
    struct pack_problem packing = {buffers, problem->buffer_count, 0};
    int64_t *offsets = ARENA_NEW(arena, int64_t, problem->buffer_count);
    int64_t height = pack_long_lived_best_fit(arena, &packing, offsets);
    int64_t *places = ARENA_NEW(arena, int64_t, graph->graph->tensor_count);
    for (int t = 0; t < graph->graph->tensor_count; t++)
        places[t] = -1;
    for (int b = 0; b < problem->buffer_count; b++)
        places[problem->buffers[b].tensor] = offsets[b];
    for (int t = 0; t < graph->graph->tensor_count; t++)
        places[t] = places[graph->graph->tensors[t].storage];
    const struct step_rules rules = step_rules_of(of->stack, of->program);
    const struct stage_schedule schedule = {
        .order = order,
        .offsets = places,
        .arena_bytes = height,
    };
    return plan_script_stage(arena, of->program, graph, stage, &unroll, &schedule, ALIGNMENT,
                             &rules);
}

void script_case_write(struct script_case *of)
{
    int count = of->program->shape.stage_count;
    of->scripts = ARENA_NEW(of->arena, struct script *, count);
    for (int stage = 0; stage < count; stage++)
        of->scripts[stage] = write_stage(of, stage);
}
