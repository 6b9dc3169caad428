#include "core/progress.h"
#include "tests/support/priced.h"

#include <stdio.h>

// How long it takes to lower and to price one layer, and to lower and price one plan: what the
// search pays for each choice that its memo does not hold.

static const struct {
    const char *title, *model, *cluster, *stack;
    int tp, pp, ep, zero;
    enum recompute recompute;
} CASES[] = {
    {"llama-3-8b, zero 1", "llama-3-8b", "dgx-h100-x4", "megatron-core", 1, 1, 1, 1,
     RECOMPUTE_NONE},
    {"llama-2-70b, tp 8", "llama-2-70b", "dgx-h100-x16", "megatron-core", 8, 4, 1, 1,
     RECOMPUTE_FULL},
    {"llama-2-7b, zero 3", "llama-2-7b", "dgx-a100-80g-x16", "fsdp", 1, 1, 1, 3, RECOMPUTE_NONE},
    {"megatron-175b, unfused", "megatron-175b", "dgx-a100-80g-x16", "megatron-2021", 8, 8, 1, 0,
     RECOMPUTE_SELECTIVE},
    {"deepseek-v3, ep 64", "deepseek-v3", "dgx-h100-x16", "megatron-core", 2, 1, 64, 1,
     RECOMPUTE_NONE},
};

static double lower_s(const struct priced *of)
{
    enum { REPEAT = 2000 };
    struct arena scratch = {0};
    const struct graph *graph = of->graph;
    int kind = graph->sequence[graph->sequence_count / 2];
    struct lower_request request = {
        .block = &graph->blocks[kind],
        .mesh = &of->program->mesh,
        .parallel = &of->parallel,
        .recompute = of->parallel.recompute,
        .seq_len = of->workload.seq_len,
        .precision = of->workload.precision,
        .differentiated = &of->program->gradients->blocks[kind],
    };
    double start_s = clock_s();
    for (int i = 0; i < REPEAT; i++) {
        struct arena_mark mark = arena_mark(&scratch);
        struct block_program *layer = lower_block(&scratch, &request);
        assert(layer->instr_count > 0);
        arena_reset(&scratch, mark);
    }
    arena_free(&scratch);
    return (clock_s() - start_s) / REPEAT;
}

static double layer_s(const struct priced *of, int *instr_count)
{
    enum { REPEAT = 2000 };
    const struct block_program *layer = priced_block(of, BLOCK_LAYER);
    *instr_count = layer->instr_count;
    double start_s = clock_s(), sum_s = 0;
    for (int i = 0; i < REPEAT; i++) {
        struct block_price price =
            block_price(&of->context, &of->program->mesh, layer, of->parallel.overlap);
        sum_s += price.phase_s[PHASE_FORWARD][PART_COMPUTE];
    }
    assert(sum_s > 0);
    return (clock_s() - start_s) / REPEAT;
}

static double plan_s(struct priced *of)
{
    enum { REPEAT = 200 };
    struct arena scratch = {0};
    double start_s = clock_s();
    for (int i = 0; i < REPEAT; i++) {
        struct arena_mark mark = arena_mark(&scratch);
        struct program *program = program_lower(&scratch, of->graph, of->cluster, &of->workload,
                                                &of->parallel, stack_joins(of->stack));
        struct step_price *price = step_price(&scratch, &of->context, program);
        assert(price->class_count > 0);
        arena_reset(&scratch, mark);
    }
    arena_free(&scratch);
    return (clock_s() - start_s) / REPEAT;
}

int main(void)
{
    struct arena arena = {0};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct priced of = priced_start(&arena, CASES[i].model, CASES[i].cluster, CASES[i].stack);
        of.parallel.degree[AXIS_TP] = CASES[i].tp;
        of.parallel.degree[AXIS_PP] = CASES[i].pp;
        of.parallel.degree[AXIS_EP] = CASES[i].ep;
        of.parallel.sp = CASES[i].tp > 1;
        of.parallel.zero = CASES[i].zero;
        of.parallel.recompute = CASES[i].recompute;
        priced_finish(&of);
        int instr_count;
        double layer = layer_s(&of, &instr_count);
        printf(
            "%-24s layer of %3d instructions lowered %5.1f us, priced %6.2f us; plan lowered and "
            "priced %7.1f us\n",
            CASES[i].title, instr_count, lower_s(&of) * 1e6, layer * 1e6, plan_s(&of) * 1e6);
    }
    arena_free(&arena);
    return 0;
}
