#include "planner/per_operator.h"

#include "core/units.h"
#include "plan/layout/annotations.h"
#include "plan/layout/strategy.h"
#include "planner/ranking.h"
#include "planner/strategy/solve.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { CHOICE_MAX = 10, ROUND_MAX = 4 };

// An operator that may be laid out by itself, and its rules; the first is none: the table's.
struct node {
    int block, op;  // of the graph
    struct layout_rule rules[CHOICE_MAX];
    int count;
    bool has_matrix;
};

struct finding {
    struct arena *arena, *scratch;
    const struct evaluation_request *request;
    struct layout_prices *prices;
    const struct graph *graph;
    struct node nodes[LAYOUT_SITES_MAX];
    int node_count;
    int64_t limit_bytes;
    int priced_count;
};

static bool has_matrix(const struct op *op)
{
    return op->kind == OP_CONTRACT || op->kind == OP_GATHER || op->kind == OP_ATTENTION;
}

static enum dim table_dim(const struct finding *finding, const struct block *block,
                          const struct op *op)
{
    const struct parallel *parallel = &finding->request->parallel;
    struct mesh mesh = mesh_make(parallel, finding->graph->kv_head_count);
    struct strategy strategy = strategy_of(&mesh, parallel, block, op);
    for (int a = mesh.axis_count - 1; a >= 0; a--)
        if (mesh.axes[a].parent == AXIS_TP) return strategy.of[a];
    return DIM_NONE;
}

static void add_node(struct finding *finding, int b, int o)
{
    const struct block *block = &finding->graph->blocks[b];
    const struct op *op = &block->ops[o];
    struct node node = {.block = b, .op = o, .count = 1, .has_matrix = has_matrix(op)};
    const char *name = layout_rule_name(finding->arena, block, op);
    enum dim own = table_dim(finding, block, op);
    for (int d = DIM_NONE; d < DIM_COUNT && node.count < CHOICE_MAX; d++) {
        struct layout_rule rule = {.operator= name, .axis = AXIS_TP, .dim = (enum dim)d};
        bool is_other = rule.dim != own && rule.dim != DIM_HEAD_DIM;
        if (is_other && !layout_rule_fault(finding->scratch, block, op, &rule))
            node.rules[node.count++] = rule;
    }
    if (node.count > 1 && finding->node_count < LAYOUT_SITES_MAX)
        finding->nodes[finding->node_count++] = node;
}

static void add_nodes(struct finding *finding)
{
    for (int b = 0; b < finding->graph->block_count; b++) {
        for (int o = 0; o < finding->graph->blocks[b].op_count; o++)
            add_node(finding, b, o);
    }
}

// The plan with these choices: rules in the arena.
static struct parallel chosen_plan(const struct finding *finding, struct arena *arena,
                                   const int *choice)
{
    struct parallel parallel = finding->request->parallel;
    struct layout_rule *rules = ARENA_NEW(arena, struct layout_rule, finding->node_count);
    int count = 0;
    for (int n = 0; n < finding->node_count; n++)
        if (choice[n] > 0) rules[count++] = finding->nodes[n].rules[choice[n]];
    const struct annotations given = {rules, count};
    struct annotations filled = annotations_fill(arena, finding->graph, &given);
    parallel.layouts = filled.rules;
    parallel.layout_count = filled.count;
    return parallel;
}

static struct layout_value value_of(struct finding *finding, const int *choice, double below_s)
{
    struct layout_said said[LAYOUT_SITES_MAX];
    int count = 0;
    for (int n = 0; n < finding->node_count; n++) {
        const struct node *node = &finding->nodes[n];
        if (choice[n] > 0)
            said[count++] = (struct layout_said){node->block, node->op, node->rules[choice[n]]};
    }
    struct layout_value value = layout_prices_value(finding->prices, said, count, below_s);
    finding->priced_count += value.is_legal;
    return value;
}

// A problem as text, which its reader checks: numbers are tenths of a nanosecond (of steps past a
// second 1e-10 of the table's) and bytes above the least of their node or edge.
struct problem {
    struct finding *finding;
    struct layout_value table;
    struct layout_value *singles;  // [node * CHOICE_MAX + choice]
    int *nodes;                    // of the finding, those with a matrix
    int count;
};

static struct layout_value *single_of(struct problem *problem, int node, int choice)
{
    return &problem->singles[problem->nodes[node] * CHOICE_MAX + choice];
}

static double more_s(const struct problem *problem, const struct layout_value *value)
{
    return value->is_legal ? value->step_s - problem->table.step_s : INFINITY;
}

static const char *numbers(const struct problem *problem, const double *values, int count)
{
    static const double UNIT = 1e-10, MOST = 1e14;  // of what is no choice, 10,000 steps
    struct arena *arena = problem->finding->scratch;
    double least = INFINITY, unit = UNIT * fmax(1, problem->table.step_s);
    const char *text = "[";
    for (int i = 0; i < count; i++)
        least = fmin(least, values[i]);
    for (int i = 0; i < count; i++) {
        double units = (values[i] - least) / unit;
        long long number = units < MOST ? llround(units) : STRATEGY_FORBIDDEN;
        text = arena_print(arena, "%s%s%lld", text, i ? "," : "", number);
    }
    return arena_print(arena, "%s]", text);
}

static const char *node_costs(struct problem *problem, int n)
{
    double costs[CHOICE_MAX] = {0};
    int count = problem->finding->nodes[problem->nodes[n]].count;
    for (int c = 0; c < count; c++)
        costs[c] = more_s(problem, single_of(problem, n, c));
    return numbers(problem, costs, count);
}

// Bytes over the least of the node; that goes off the limit.
static const char *node_usages(struct problem *problem, int n, int64_t *left_bytes)
{
    struct arena *arena = problem->finding->scratch;
    int count = problem->finding->nodes[problem->nodes[n]].count;
    int64_t least = 0;
    const char *text = "";
    for (int c = 0; c < count; c++) {
        const struct layout_value *value = single_of(problem, n, c);
        int64_t more = value->reserved_bytes - problem->table.reserved_bytes;
        if (value->is_legal && more < least) least = more;
    }
    for (int c = 0; c < count; c++) {
        const struct layout_value *value = single_of(problem, n, c);
        int64_t more = value->is_legal ? value->reserved_bytes - problem->table.reserved_bytes : 0;
        text = arena_print(arena, "%s%s%lld", text, c ? "," : "", (long long)(more - least));
    }
    *left_bytes -= least;
    return arena_print(arena, "[%s]", text);
}

static const char *edge_costs(struct problem *problem, int a, int b)
{
    struct finding *finding = problem->finding;
    const struct node *first = &finding->nodes[problem->nodes[a]];
    const struct node *second = &finding->nodes[problem->nodes[b]];
    double costs[CHOICE_MAX * CHOICE_MAX] = {0};
    int *choice = ARENA_NEW(finding->scratch, int, finding->node_count);
    for (int i = 0; i < first->count; i++) {
        for (int k = 0; k < second->count; k++) {
            double *cost = &costs[i * second->count + k];
            double apart = more_s(problem, single_of(problem, a, i)) +
                           more_s(problem, single_of(problem, b, k));
            *cost = 0;
            if (i == 0 || k == 0 || isinf(apart)) continue;
            choice[problem->nodes[a]] = i;
            choice[problem->nodes[b]] = k;
            struct layout_value both = value_of(finding, choice, 0);
            *cost = both.is_legal ? more_s(problem, &both) - apart : INFINITY;
        }
    }
    return numbers(problem, costs, first->count * second->count);
}

static void ask_singles(struct problem *problem)
{
    struct finding *finding = problem->finding;
    int *choice = ARENA_NEW(finding->scratch, int, finding->node_count);
    problem->singles =
        ARENA_NEW(finding->scratch, struct layout_value, finding->node_count * CHOICE_MAX);
    for (int n = 0; n < problem->count; n++) {
        for (int c = 0; c < finding->nodes[problem->nodes[n]].count; c++) {
            choice[problem->nodes[n]] = c;
            *single_of(problem, n, c) =
                c == 0 ? problem->table : value_of(finding, choice, INFINITY);
        }
        choice[problem->nodes[n]] = 0;
    }
}

static const char *problem_text(struct problem *problem)
{
    struct finding *finding = problem->finding;
    struct arena *arena = finding->scratch;
    const char *intervals = "", *costs = "", *usages = "", *ends = "", *edges = "";
    int64_t left_bytes = finding->limit_bytes - problem->table.reserved_bytes;
    ask_singles(problem);
    for (int n = 0; n < problem->count; n++) {
        const char *comma = n ? "," : "";
        intervals = arena_print(arena, "%s%s[0,1]", intervals, comma);
        costs = arena_print(arena, "%s%s%s", costs, comma, node_costs(problem, n));
        usages = arena_print(arena, "%s%s%s", usages, comma, node_usages(problem, n, &left_bytes));
        for (int k = n + 1; k < problem->count; k++) {
            bool is_near =
                finding->nodes[problem->nodes[n]].block == finding->nodes[problem->nodes[k]].block;
            if (!is_near) continue;
            comma = *ends ? "," : "";
            ends = arena_print(arena, "%s%s[%d,%d]", ends, comma, n, k);
            edges = arena_print(arena, "%s%s%s", edges, comma, edge_costs(problem, n, k));
        }
    }
    return arena_print(arena,
                       "{\"problem\": {\"name\": \"operators\", \"nodes\": {\"intervals\": [%s], "
                       "\"costs\": [%s], \"usages\": [%s]}, \"edges\": {\"nodes\": [%s], "
                       "\"costs\": [%s]}, \"usage_limit\": %lld}}",
                       intervals, costs, usages, ends, edges,
                       (long long)(left_bytes > 0 ? left_bytes : 0));
}

// Of the work that a problem may take (planner/strategy/solve.h). Its answer is where to start
// from: ten times as much led to the same layouts and gaps for t5-v1_1-xxl, t5-base,
// whisper-large-v3, stdit3-xl-2-720p, deepseek-v2-lite, llama-3-70b and llama-2-7b (2026-11-29).
static const double START_S = 0.1;

// Where to start from: the answer of the problem; all zeros where it has none.
static void solve(struct finding *finding, const struct layout_value *table, int *choice,
                  struct per_operator *found)
{
    struct arena *arena = finding->scratch;
    struct problem problem = {.finding = finding, .table = *table};
    problem.nodes = ARENA_NEW(arena, int, finding->node_count);
    for (int n = 0; n < finding->node_count; n++) {
        if (!finding->nodes[n].has_matrix) continue;
        problem.nodes[problem.count++] = n;
        found->choice_count += finding->nodes[n].count;
    }
    found->operator_count = problem.count;
    const char *text = problem_text(&problem);
    struct strategy_problem read;
    struct err err = {0};
    bool is_read = strategy_problem_parse(arena, "operators", text, strlen(text), &read, &err);
    assert(is_read && "the problem is written as its format says");
    (void)is_read;
    const struct strategy_options options = {.time_limit_s = START_S, .seed = 1};
    struct strategy_answer answer = strategy_solve(arena, &read, &options);
    if (!answer.choice || !answer.value.is_valid) return;
    found->gap_ratio = strategy_gap(&answer);
    for (int n = 0; n < problem.count; n++)
        choice[problem.nodes[n]] = answer.choice[n];
}

static bool is_better(const struct finding *finding, const struct layout_value *value,
                      const struct layout_value *than)
{
    int64_t limit = finding->limit_bytes;
    bool fits = value->is_legal &&
                (value->reserved_bytes <= limit || value->reserved_bytes <= than->reserved_bytes);
    return fits && step_ns(value->step_s) < step_ns(than->step_s);
}

// Every choice of every operator by itself, followers among them, until none is better.
static struct layout_value descend(struct finding *finding, int *choice, struct layout_value best)
{
    bool is_moved = true;
    for (int round = 0; round < ROUND_MAX && is_moved; round++) {
        is_moved = false;
        for (int n = 0; n < finding->node_count; n++) {
            int kept = choice[n];
            for (int c = 0; c < finding->nodes[n].count; c++) {
                if (c == kept) continue;
                choice[n] = c;
                struct layout_value value = value_of(finding, choice, best.step_s);
                if (!is_better(finding, &value, &best)) continue;
                best = value;
                kept = c;
                is_moved = true;
            }
            choice[n] = kept;
        }
    }
    return best;
}

// What gains nothing goes back to the table.
static void simplify(struct finding *finding, int *choice, struct layout_value *best)
{
    for (int n = 0; n < finding->node_count; n++) {
        int kept = choice[n];
        if (kept == 0) continue;
        choice[n] = 0;
        struct layout_value without = value_of(finding, choice, INFINITY);
        bool is_as_good = without.is_legal && step_ns(without.step_s) <= step_ns(best->step_s) &&
                          without.reserved_bytes <= best->reserved_bytes;
        if (is_as_good) *best = without;
        if (!is_as_good) choice[n] = kept;
    }
}

static void list_changes(struct finding *finding, int *choice, const struct layout_value *best,
                         struct per_operator *found)
{
    found->changes = ARENA_NEW(finding->arena, struct operator_change, finding->node_count);
    for (int n = 0; n < finding->node_count; n++) {
        const struct node *node = &finding->nodes[n];
        if (choice[n] == 0) continue;
        const struct block *block = &finding->graph->blocks[node->block];
        struct layout_rule was = {.dim = table_dim(finding, block, &block->ops[node->op])};
        const struct layout_rule *now = &node->rules[choice[n]];
        int kept = choice[n];
        choice[n] = 0;
        struct layout_value without = value_of(finding, choice, 0);
        choice[n] = kept;
        found->changes[found->change_count++] = (struct operator_change){
            .operator= now->operator,
            .was = layout_rule_word(&was),
            .now = layout_rule_word(now),
            .gain_s = without.is_legal ? without.step_s - best->step_s : NAN,
        };
    }
}

// "all-gather 4 of 134 MB, reduce-scatter ..." of tp, in a layer's forward and backward.
static const char *collectives_text(const struct finding *finding, const struct parallel *parallel)
{
    const struct evaluation_request *request = finding->request;
    struct arena_mark mark = arena_mark(finding->scratch);
    const struct program *program =
        program_lower(finding->scratch, finding->graph, request->cluster, &request->workload,
                      parallel, stack_joins(request->stack));
    int64_t bytes[COLLECTIVE_COUNT] = {0};
    int counts[COLLECTIVE_COUNT] = {0};
    for (int b = 0; b < program->block_count; b++) {
        const struct block_program *block = program->blocks[b];
        for (int i = 0; i < block->instr_count; i++) {
            const struct instr *instr = &block->instrs[i];
            if (!instr->collective || instr->collective == COLLECTIVE_SLICE) continue;
            if (instr->parent != AXIS_TP) continue;
            bytes[instr->collective] += instr->bytes;
            counts[instr->collective]++;
        }
    }
    const char *text = "";
    for (int c = 0; c < COLLECTIVE_COUNT; c++) {
        if (counts[c] == 0) continue;
        text = arena_print(finding->arena, "%s%s%d %s of %s", text, *text ? ", " : "", counts[c],
                           collective_name((enum collective)c),
                           units_bytes(finding->arena, (double)bytes[c]));
    }
    arena_reset(finding->scratch, mark);
    return *text ? text : "none";
}

struct per_operator per_operator_find(struct arena *arena, struct arena *scratch,
                                      struct layout_memo *memo,
                                      const struct evaluation_request *request)
{
    struct per_operator found = {.parallel = request->parallel};
    struct arena_mark mark = arena_mark(scratch);
    struct finding *finding = ARENA_NEW(arena, struct finding, 1);
    *finding = (struct finding){
        .arena = arena,
        .scratch = scratch,
        .request = request,
        .prices = layout_prices_new(memo, request),
        .limit_bytes = cluster_device_bytes(request->cluster),
    };
    finding->graph = layout_prices_graph(finding->prices);
    assert(request->parallel.layout_count == 0);
    if (request->parallel.degree[AXIS_TP] > 1) add_nodes(finding);
    int *choice = ARENA_NEW(arena, int, finding->node_count + 1);
    struct layout_value table = value_of(finding, choice, INFINITY), best = table;
    assert(table.is_legal);
    found.table_s = found.found_s = table.step_s;
    if (finding->node_count > 0) {
        solve(finding, &table, choice, &found);
        struct layout_value solved = value_of(finding, choice, table.step_s);
        if (is_better(finding, &solved, &table))
            best = solved;
        else
            memset(choice, 0, (size_t)finding->node_count * sizeof *choice);
        best = descend(finding, choice, best);
        simplify(finding, choice, &best);
        list_changes(finding, choice, &best, &found);
    }
    found.found_s = best.step_s;
    if (found.change_count > 0) {
        found.before = collectives_text(finding, &request->parallel);
        found.parallel = chosen_plan(finding, arena, choice);
        found.after = collectives_text(finding, &found.parallel);
    }
    found.priced_count = finding->priced_count;
    arena_reset(scratch, mark);
    return found;
}
