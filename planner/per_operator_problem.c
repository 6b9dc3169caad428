#include "planner/per_operator_finding.h"

#include "planner/strategy/solve.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// A problem as text, which its reader checks: numbers are tenths of a nanosecond (of steps past a
// second 1e-10 of the table's) and bytes above the least of their node or edge.
struct operator_problem {
    struct operator_finding *finding;
    struct layout_value table;
    const int *base;                                      // choices of the table's value
    struct layout_value *singles;                         // [node * OPERATOR_CHOICES + choice]
    const uint32_t *const *base_traces, *const **traces;  // as singles; NULL: not known
    int *nodes;                                           // of the finding, those with a matrix
    int count;
};

static struct layout_value *single_of(struct operator_problem *problem, int node, int choice)
{
    assert(node < problem->count && choice < OPERATOR_CHOICES);
    return &problem->singles[problem->nodes[node] * OPERATOR_CHOICES + choice];
}

// Two choices that do not meet cost together what each does.
static bool may_meet(const struct operator_problem *problem, int a, int i, int b, int k)
{
    const uint32_t *const *first = problem->traces[problem->nodes[a] * OPERATOR_CHOICES + i];
    const uint32_t *const *second = problem->traces[problem->nodes[b] * OPERATOR_CHOICES + k];
    return !problem->base_traces || !first || !second ||
           layout_traces_meet(problem->finding->prices, problem->base_traces, first, second);
}

// In the scratch arena.
static int *base_of(const struct operator_problem *problem)
{
    int count = problem->finding->node_count;
    int *choice = ARENA_NEW(problem->finding->scratch, int, count);
    return memcpy(choice, problem->base, (size_t)count * sizeof *choice);
}

static double more_s(const struct operator_problem *problem, const struct layout_value *value)
{
    return value->is_legal ? value->step_s - problem->table.step_s : INFINITY;
}

static const char *numbers(const struct operator_problem *problem, const double *values, int count)
{
    static const double UNIT = 1e-10, MOST = 1e14;  // of what is no choice, 10,000 steps
    struct arena *arena = problem->finding->scratch;
    double least = INFINITY, unit = UNIT * fmax(1, problem->table.step_s);
    const char *text = "[";
    for (int i = 0; i < count; i++)
        least = fmin(least, values[i]);
    for (int i = 0; i < count; i++) {
        assert(isfinite(least) && "the table's own choice is allowed");
        double units = (values[i] - least) / unit;
        long long number = units < MOST ? llround(units) : STRATEGY_FORBIDDEN;
        text = arena_print(arena, "%s%s%lld", text, i ? "," : "", number);
    }
    return arena_print(arena, "%s]", text);
}

static const char *node_costs(struct operator_problem *problem, int n)
{
    double costs[OPERATOR_CHOICES] = {0};
    int count = problem->finding->nodes[problem->nodes[n]].count;
    for (int c = 0; c < count; c++)
        costs[c] = more_s(problem, single_of(problem, n, c));
    return numbers(problem, costs, count);
}

// Bytes over the least of the node; that goes off the limit.
static const char *node_usages(struct operator_problem *problem, int n, int64_t *left_bytes)
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

static const char *edge_costs(struct operator_problem *problem, int a, int b)
{
    struct operator_finding *finding = problem->finding;
    const struct operator_node *first = &finding->nodes[problem->nodes[a]];
    const struct operator_node *second = &finding->nodes[problem->nodes[b]];
    double costs[OPERATOR_CHOICES * OPERATOR_CHOICES] = {0};
    int *choice = base_of(problem);
    for (int i = 0; i < first->count; i++) {
        for (int k = 0; k < second->count; k++) {
            double *cost = &costs[i * second->count + k];
            double apart = more_s(problem, single_of(problem, a, i)) +
                           more_s(problem, single_of(problem, b, k));
            *cost = 0;
            if (i == 0 || k == 0 || isinf(apart) || !may_meet(problem, a, i, b, k)) continue;
            choice[problem->nodes[a]] = i;
            choice[problem->nodes[b]] = k;
            struct layout_value both = finding_value(finding, choice, 0);
            *cost = both.is_legal ? more_s(problem, &both) - apart : INFINITY;
        }
    }
    return numbers(problem, costs, first->count * second->count);
}

static void ask_singles(struct operator_problem *problem)
{
    struct operator_finding *finding = problem->finding;
    int *choice = base_of(problem);
    problem->singles =
        ARENA_NEW(finding->scratch, struct layout_value, finding->node_count * OPERATOR_CHOICES);
    problem->traces =
        ARENA_NEW(finding->scratch, const uint32_t *const *, finding->node_count *OPERATOR_CHOICES);
    problem->base_traces = finding_traces(finding, choice);
    for (int n = 0; n < problem->count; n++) {
        for (int c = 1; c < finding->nodes[problem->nodes[n]].count; c++) {
            int at = problem->nodes[n] * OPERATOR_CHOICES + c;
            choice[problem->nodes[n]] = c;
            *single_of(problem, n, c) = finding_value(finding, choice, INFINITY);
            problem->traces[at] = finding_traces(finding, choice);
        }
        *single_of(problem, n, 0) = problem->table;
        choice[problem->nodes[n]] = 0;
    }
}

static const char *problem_text(struct operator_problem *problem)
{
    struct operator_finding *finding = problem->finding;
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

void finding_solve(struct operator_finding *finding, const struct layout_value *table, int *choice,
                   struct per_operator *found)
{
    struct arena *arena = finding->scratch;
    struct operator_problem problem = {.finding = finding, .table = *table};
    int *base = ARENA_NEW(arena, int, finding->node_count);
    memcpy(base, choice, (size_t)finding->node_count * sizeof *base);
    problem.base = base;
    problem.nodes = ARENA_NEW(arena, int, finding->node_count);
    for (int n = 0; n < finding->node_count; n++) {
        if (!finding->nodes[n].has_matrix || !finding_is_open(finding, n)) continue;
        problem.nodes[problem.count++] = n;
        found->choice_count += finding->nodes[n].count;
    }
    found->operator_count += problem.count;
    if (problem.count == 0) return;
    const char *text = problem_text(&problem);
    struct strategy_problem read;
    struct err err = {0};
    bool is_read = strategy_problem_parse(arena, "operators", text, strlen(text), &read, &err);
    assert(is_read && "the problem is written as its format says");
    (void)is_read;
    const struct strategy_options options = {.time_limit_s = START_S, .seed = 1};
    struct strategy_answer answer = strategy_solve(arena, &read, &options);
    if (!answer.choice || !answer.value.is_valid) return;
    found->gap_ratio = fmax(found->gap_ratio, strategy_gap(&answer));
    for (int n = 0; n < problem.count; n++)
        choice[problem.nodes[n]] = answer.choice[n];
}
