#include "core/progress.h"
#include "plan/layout/annotations.h"
#include "planner/choice.h"
#include "planner/compose.h"
#include "planner/layout_prices.h"
#include "planner/scan.h"
#include "simulator/closed_form.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// Speed of the search. Prints one line a fact; nothing here is a test.

// Calculon on the same kind of core: 20,000 of its 7,126,368 executions of GPT3-175B on 4096 A100
// took 84.8 CPU-seconds (costmodel study, section 1, measured with its own Python API).
static const double CALCULON_PLANS_PER_S = 236;

struct bench_case {
    const char *model, *cluster, *stack;
    int64_t nodes, seq_len, global_batch;
    enum precision precision;
};

static struct search_request request_of(struct arena *arena, const struct bench_case *bench)
{
    struct err err = {0};
    struct search_request request = {.pins = pins_none(), .top = 5};
    request.model = model_load(arena, bench->model, NULL, NULL, &err);
    struct cluster *cluster = cluster_load(arena, bench->cluster, &err);
    if (cluster && !cluster_set_nodes(cluster, bench->nodes, &err)) cluster = NULL;
    request.cluster = cluster;
    request.stack = stack_load(arena, bench->stack, &err);
    request.fabrics = fabrics_load(arena, &err);
    if (err.kind) {
        fprintf(stderr, "bench_search: %s\n", err.text);
        exit(1);
    }
    request.workload = (struct workload){.seq_len = bench->seq_len,
                                         .global_batch = bench->global_batch,
                                         .precision = bench->precision,
                                         .optimizer = OPTIMIZER_ADAMW};
    return request;
}

// Every tail of GROUPS_MOST groups that lie evenly over the space; returns how many a second.
enum { GROUPS_MOST = 400 };
static double price_all(struct space *space, const struct space_graphs *graphs,
                        struct composer *composer, double *sum_s)
{
    double plans = 0, pricing_s = 0;
    int count = space->group_count < GROUPS_MOST ? space->group_count : GROUPS_MOST;
    for (int n = 0; n < count; n++) {
        int64_t g = (int64_t)n * space->group_count / count;
        const struct space_group *group = &space->groups[g];
        const struct space_tails *tails = space_tails(space, graphs, group);
        double start_s = clock_s();
        for (int i = 0; i < tails->count; i++) {
            struct parallel parallel = space_first(space, group, &tails->tails[i]);
            if (i == 0) composer_group(composer, &parallel);
            *sum_s += composer_cost(composer, &parallel).step_s;
        }
        pricing_s += clock_s() - start_s;
        plans += tails->count;
    }
    return plans / pricing_s;
}

// Closed forms a second over a space, first with an empty memo, then with a full one: the
// best of a few rounds, since one takes no longer than a neighbour may hold the core.
static void bench_closed_form(const struct bench_case *bench, enum schedule_kind schedule)
{
    struct arena arena = {0}, scratch = {0};
    struct search_request request = request_of(&arena, bench);
    pins_set(&request.pins, CHOICE_SCHEDULE, schedule, schedule);
    pins_set(&request.pins, CHOICE_PP, 2, STAGE_MAX);
    struct memo *memo = memo_new(&arena, &scratch, &request);
    struct space_graphs graphs = {memo_graph_of, memo};
    struct space *space = space_make(&arena, &request, &graphs);
    struct composer *composer = composer_new(&arena, &scratch, memo);
    enum { ROUNDS = 20 };
    double sum_s = 0;
    double cold = price_all(space, &graphs, composer, &sum_s);
    double warm = 0;
    for (int i = 0; i < ROUNDS; i++)
        warm = fmax(warm, price_all(space, &graphs, composer, &sum_s));
    struct memo_counts counts = memo_counts(memo);
    printf("closed form of %s, %s on %d GPUs: %.3g plans/s, %.3g while the memo fills (%d graphs, "
           "%d blocks lowered, %d priced; sum %.6g s)\n",
           schedule_name(schedule), bench->model, request.cluster->rank_count, warm, cold,
           counts.graph_count, counts.lowered_count, counts.priced_count, sum_s);
    printf("  %.3g x Calculon's %.0f plans/s\n", warm / CALCULON_PLANS_PER_S, CALCULON_PLANS_PER_S);
    arena_free(&scratch);
    arena_free(&arena);
}

enum kind { PRUNED, EXHAUSTIVE, OFFLOADED };

static void bench_search(const struct bench_case *bench, enum kind kind)
{
    static const char *const KINDS[] = {"pruned", "exhaustive", "pruned, offload searched"};
    struct arena arena = {0};
    struct err err = {0};
    struct search_request request = request_of(&arena, bench);
    struct search_result result = {0};
    request.exhaustive = kind == EXHAUSTIVE;
    request.pins.search_offload = kind == OFFLOADED;
    double start_s = clock_s();
    bool ok = search_plans(&arena, &request, &result, &err);
    double wall_s = clock_s() - start_s;
    if (!ok) {
        fprintf(stderr, "bench_search: %s\n", err.text);
        exit(1);
    }
    const struct candidate *best = result.best_count ? &result.best[0] : &result.closest;
    printf("%s on %d %s, batch %lld, %s: %.3f s, %.0f plans, %.0f priced (%.3g %%), "
           "best %.4f s: tp %d cp %d ep %d pp %d dp %d vpp %d mb %d zero %d recompute %s %s\n",
           bench->model, request.cluster->rank_count, bench->cluster,
           (long long)bench->global_batch, KINDS[kind], wall_s, result.considered_count,
           result.priced_count, 100 * result.priced_count / result.considered_count,
           best->cost.step_s, best->parallel.degree[AXIS_TP], best->parallel.degree[AXIS_CP],
           best->parallel.degree[AXIS_EP], best->parallel.degree[AXIS_PP],
           best->parallel.degree[AXIS_DP], best->parallel.vpp, best->parallel.micro_batch,
           best->parallel.zero, recompute_name(best->parallel.recompute),
           schedule_name(best->parallel.schedule));
    printf("  searched at %.3g plans/s, %.3g x Calculon's pricing of every plan\n",
           result.considered_count / wall_s,
           result.considered_count / wall_s / CALCULON_PLANS_PER_S);
    arena_free(&arena);
}

static double processor_s(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

// The last rule that an operator can have, or false.
static bool last_rule(struct arena *arena, const struct graph *graph, struct layout_said *said)
{
    const struct block *block = &graph->blocks[said->block];
    const struct op *op = &block->ops[said->op];
    said->rule = (struct layout_rule){.operator= layout_rule_name(arena, block, op)};
    said->rule.axis = AXIS_TP;
    for (int d = DIM_COUNT - 1; d > DIM_NONE; d--) {
        said->rule.dim = (enum dim)d;
        if (!layout_rule_fault(arena, block, op, &said->rule)) return true;
    }
    return false;
}

// The plan with these rules lowered and priced as a whole, as each was before blocks were kept.
static double whole_step_s(const struct evaluation_request *asked,
                           const struct price_context *context, const struct graph *graph,
                           const struct layout_said said[2])
{
    struct arena work = {0};
    struct err err = {.kind = ERR_USAGE};
    struct parallel parallel = asked->parallel;
    const struct layout_rule rules[] = {said[0].rule, said[1].rule};
    const struct annotations given = {rules, 2};
    struct annotations filled = annotations_fill(&work, graph, &given);
    parallel.layouts = filled.rules;
    parallel.layout_count = filled.count;
    double step_s = 0;
    if (layout_rules_check(graph, &asked->workload, &parallel, &err)) {
        const struct program *program = program_lower(
            &work, graph, asked->cluster, &asked->workload, &parallel, stack_joins(asked->stack));
        step_s = closed_form(step_price(&work, context, program)).step_s;
    }
    arena_free(&work);
    return step_s;
}

// Pairs of operators of a block, each with a layout of its own, by the blocks that are kept and as
// whole plans: processor time.
static void bench_layouts(const struct bench_case *bench, int tp)
{
    struct arena arena = {0}, scratch = {0};
    struct search_request request = request_of(&arena, bench);
    struct search_result result = {0};
    struct err err = {0};
    request.pins.degree[AXIS_TP] = (struct int_range){tp, tp, true};
    if (!search_plans(&arena, &request, &result, &err)) exit(1);
    struct evaluation_request asked = {.model = request.model,
                                       .cluster = request.cluster,
                                       .stack = request.stack,
                                       .fabrics = request.fabrics,
                                       .workload = request.workload,
                                       .parallel = result.best[0].parallel};
    struct layout_memo *memo = layout_memo_new(&arena, &scratch, &request);
    struct layout_prices *prices = layout_prices_new(memo, &asked);
    const struct graph *graph = layout_prices_graph(prices);
    struct price_context context = evaluation_context(&asked);
    context.compute.gemms = gemm_memo_new(&arena);
    double kept_s = 0, whole_s = 0, apart_s = 0;
    int count = 0;
    for (int b = 0; b < graph->block_count; b++) {
        for (int i = 0; i < graph->blocks[b].op_count; i++) {
            for (int k = i + 1; k < graph->blocks[b].op_count; k++) {
                struct layout_said said[2] = {{.block = b, .op = i}, {.block = b, .op = k}};
                if (!last_rule(&arena, graph, &said[0]) || !last_rule(&arena, graph, &said[1]))
                    continue;
                double start_s = processor_s();
                struct layout_value value = layout_prices_value(prices, said, 2, 0);
                double middle_s = processor_s();
                if (!value.is_legal) continue;
                apart_s =
                    fmax(apart_s, fabs(value.step_s - whole_step_s(&asked, &context, graph, said)));
                kept_s += middle_s - start_s;
                whole_s += processor_s() - middle_s;
                count++;
            }
        }
    }
    printf("layouts of pairs of operators of %s on %d %s, tp %d: %.3g ms each, %.3g x as fast as "
           "whole plans (%d pairs, steps at most %.1g s apart)\n",
           bench->model, request.cluster->rank_count, bench->cluster, tp, 1e3 * kept_s / count,
           whole_s / kept_s, count, apart_s);
    arena_free(&scratch);
    arena_free(&arena);
}

int main(void)
{
    const struct bench_case large = {"megatron-1t", "dgx-a100-80g", "megatron-core", 2048,
                                     2048,          3072,           PRECISION_BF16};
    const struct bench_case middle = {"gpt3-175b", "dgx-a100-80g", "megatron-core", 128,
                                      2048,        1536,           PRECISION_BF16};
    const struct bench_case small = {"llama-2-7b", "dgx-h100", "meshwright",  2,
                                     4096,         128,        PRECISION_BF16};
    const struct bench_case mixture = {"deepseek-v3", "dgx-h100", "meshwright", 256,
                                       4096,          15360,      PRECISION_FP8};
    const struct bench_case sharded = {"deepseek-v3", "dgx-h100", "fsdp2",      256,
                                       4096,          15360,      PRECISION_FP8};
    const struct bench_case context = {"llama-3.1-405b", "dgx-h100", "meshwright",  2048,
                                       131072,           128,        PRECISION_BF16};
    const struct bench_case moved = {"deepseek-v3", "dgx-h100", "megatron-core", 16,
                                     4096,          1024,       PRECISION_BF16};
    // Fits neither with all on the device nor with some of it moved.
    const struct bench_case outgrown = {"grok-1", "dgx-b200", "megatron-core", 2,
                                        4096,     1024,       PRECISION_FP4};
    bench_closed_form(&large, SCHEDULE_1F1B);
    bench_closed_form(&large, SCHEDULE_INTERLEAVED);
    bench_closed_form(&middle, SCHEDULE_1F1B);
    bench_closed_form(&middle, SCHEDULE_INTERLEAVED);
    bench_search(&large, PRUNED);
    bench_search(&middle, PRUNED);
    bench_search(&mixture, PRUNED);
    bench_search(&sharded, PRUNED);
    bench_search(&context, PRUNED);
    bench_search(&small, PRUNED);
    bench_search(&small, EXHAUSTIVE);
    bench_search(&moved, OFFLOADED);
    bench_search(&outgrown, PRUNED);
    bench_search(&outgrown, OFFLOADED);
    const struct bench_case dense = {"llama-3-70b", "dgx-h100", "meshwright",  8,
                                     4096,          256,        PRECISION_BF16};
    const struct bench_case pair = {"t5-v1_1-xxl", "dgx-a100-80g", "meshwright", 4, 512,
                                    128,           PRECISION_BF16};
    bench_layouts(&dense, 8);
    bench_layouts(&pair, 4);
    return 0;
}
