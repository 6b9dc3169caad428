#include "planner/per_operator_finding.h"

#include "plan/layout/annotations.h"
#include "planner/ranking.h"

#include <assert.h>
#include <string.h>

enum { ROUNDS_MOST = 3 };

// The problem of what one stage has, with what all else does as it is.
static void solve_stage(struct operator_finding *finding, int *row, struct layout_value *best,
                        struct per_operator *found)
{
    size_t bytes = (size_t)finding->node_count * sizeof *row;
    int *choice = ARENA_NEW(finding->arena, int, finding->node_count);
    memcpy(choice, row, bytes);
    for (int n = 0; n < finding->node_count; n++)
        if (finding_is_open(finding, n)) choice[n] = 0;
    struct layout_value table = finding_value(finding, choice, 0);
    if (!table.is_legal) return;
    table = finding_value(finding, choice, table.step_s * 2);
    finding_solve(finding, &table, choice, found);
    struct layout_value solved = finding_value(finding, choice, best->step_s);
    if (!finding_is_better(finding, &solved, best)) return;
    *best = solved;
    memcpy(row, choice, bytes);
}

bool finding_refine(struct operator_finding *finding, const int *choice, struct layout_value *best,
                    struct per_operator *found)
{
    const struct parallel *parallel = &finding->request->parallel;
    const struct layout_value start = *best;
    int stages = parallel->stage_ranks_count, nodes = finding->node_count;
    if (stages < 2) return false;
    finding->staged = ARENA_NEW(finding->arena, int, (size_t)stages *(size_t)nodes);
    for (int s = 0; s < stages; s++)
        memcpy(finding->staged + s * nodes, choice, (size_t)nodes * sizeof *choice);
    bool is_moved = true;
    for (int round = 0; round < ROUNDS_MOST && is_moved; round++) {
        double before_s = best->step_s;
        for (int s = 0; s < stages; s++) {
            if (parallel_stage_tp(parallel, s) == 1) continue;
            finding->stage = s;
            if (round == 0) solve_stage(finding, finding->staged + s * nodes, best, found);
            finding_descend(finding, finding->staged + s * nodes, best);
        }
        is_moved = step_ns(best->step_s) < step_ns(before_s);
    }
    if (step_ns(best->step_s) < step_ns(start.step_s)) return true;
    finding->stage = -1;
    *best = start;
    return false;
}

static int block_of(const struct graph *graph, const struct layout_rule *rule)
{
    for (int b = 0; b < graph->block_count; b++) {
        size_t length = strlen(graph->blocks[b].name);
        bool is_it = strncmp(rule->operator, graph->blocks[b].name, length) == 0;
        if (is_it && rule->operator[length] == '.') return b;
    }
    return 0;
}

// Appends what is said of a stage and what follows from it; of what is tied, for all stages (-1).
static int add_rules(const struct operator_finding *finding, int stage, struct layout_rule *rules)
{
    struct arena *arena = finding->arena;
    struct layout_rule *given = ARENA_NEW(arena, struct layout_rule, finding->node_count);
    const int *choice = finding->staged + (stage < 0 ? 0 : stage) * finding->node_count;
    int given_count = 0, count = 0;
    for (int n = 0; n < finding->node_count; n++)
        if (choice[n] > 0) given[given_count++] = finding->nodes[n].rules[choice[n]];
    const struct annotations annotations = {given, given_count};
    struct annotations filled = annotations_fill(arena, finding->graph, &annotations);
    for (int i = 0; i < filled.count; i++) {
        int block = block_of(finding->graph, &filled.rules[i]);
        bool is_tied = layout_prices_is_tied(finding->prices, block);
        bool is_here =
            stage < 0 ? is_tied : !is_tied && layout_prices_is_on(finding->prices, stage, block);
        if (!is_here) continue;
        rules[count] = filled.rules[i];
        rules[count].is_of_stage = stage >= 0;
        rules[count++].stage = stage < 0 ? 0 : stage;
    }
    return count;
}

struct parallel finding_staged_plan(const struct operator_finding *finding)
{
    assert(finding->staged && finding->request->parallel.stage_ranks_count >= 2);
    struct parallel parallel = finding->request->parallel;
    int stages = parallel.stage_ranks_count, ops = 0, count = 0;
    for (int b = 0; b < finding->graph->block_count; b++)
        ops += finding->graph->blocks[b].op_count;
    struct layout_rule *rules =
        ARENA_NEW(finding->arena, struct layout_rule, (size_t)(stages + 1) * (size_t)ops);
    for (int s = -1; s < stages; s++)
        count += add_rules(finding, s, rules + count);
    parallel.layouts = rules;
    parallel.layout_count = count;
    return parallel;
}
