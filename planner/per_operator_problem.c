#include "planner/per_operator_finding.h"

#include "core/json_write.h"
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

static void put_costs(const struct operator_problem *problem, struct json_writer *writer,
                      const double *values, int count)
{
    static const double UNIT = 1e-10, MOST = 1e14;  // of what is no choice, 10,000 steps
    double numbers[OPERATOR_CHOICES * OPERATOR_CHOICES], least = INFINITY;
    double unit = UNIT * fmax(1, problem->table.step_s);
    assert(count <= OPERATOR_CHOICES * OPERATOR_CHOICES);
    for (int i = 0; i < count; i++)
        least = fmin(least, values[i]);
    for (int i = 0; i < count; i++) {
        assert(isfinite(least) && "the table's own choice is allowed");
        double units = (values[i] - least) / unit;
        numbers[i] = units < MOST ? round(units) : STRATEGY_FORBIDDEN;
    }
    json_put_f64s(writer, NULL, numbers, count);
}

static void put_node_costs(struct operator_problem *problem, struct json_writer *writer, int n)
{
    double costs[OPERATOR_CHOICES] = {0};
    int count = problem->finding->nodes[problem->nodes[n]].count;
    for (int c = 0; c < count; c++)
        costs[c] = more_s(problem, single_of(problem, n, c));
    put_costs(problem, writer, costs, count);
}

// Bytes over the least of the node; that goes off the limit.
static void put_node_usages(struct operator_problem *problem, struct json_writer *writer, int n,
                            int64_t *left_bytes)
{
    int count = problem->finding->nodes[problem->nodes[n]].count;
    int64_t more[OPERATOR_CHOICES] = {0}, least = 0;
    for (int c = 0; c < count; c++) {
        const struct layout_value *value = single_of(problem, n, c);
        if (value->is_legal) more[c] = value->reserved_bytes - problem->table.reserved_bytes;
        if (more[c] < least) least = more[c];
    }
    for (int c = 0; c < count; c++)
        more[c] -= least;
    *left_bytes -= least;
    json_put_i64s(writer, NULL, more, count);
}

static void put_edge_costs(struct operator_problem *problem, struct json_writer *writer, int a,
                           int b)
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
    put_costs(problem, writer, costs, first->count * second->count);
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

static bool has_edge(const struct operator_problem *problem, int a, int b)
{
    const struct operator_node *nodes = problem->finding->nodes;
    return nodes[problem->nodes[a]].block == nodes[problem->nodes[b]].block;
}

static void put_nodes(struct operator_problem *problem, struct json_writer *writer,
                      int64_t *left_bytes)
{
    json_open(writer, "nodes", '{');
    json_open(writer, "intervals", '[');
    for (int n = 0; n < problem->count; n++)
        json_put_ints(writer, NULL, (const int[]){0, 1}, 2);
    json_close(writer, ']');
    json_open(writer, "costs", '[');
    for (int n = 0; n < problem->count; n++)
        put_node_costs(problem, writer, n);
    json_close(writer, ']');
    json_open(writer, "usages", '[');
    for (int n = 0; n < problem->count; n++)
        put_node_usages(problem, writer, n, left_bytes);
    json_close(writer, ']');
    json_close(writer, '}');
}

static void put_edges(struct operator_problem *problem, struct json_writer *writer)
{
    json_open(writer, "edges", '{');
    json_open(writer, "nodes", '[');
    for (int n = 0; n < problem->count; n++)
        for (int k = n + 1; k < problem->count; k++)
            if (has_edge(problem, n, k)) json_put_ints(writer, NULL, (const int[]){n, k}, 2);
    json_close(writer, ']');
    json_open(writer, "costs", '[');
    for (int n = 0; n < problem->count; n++)
        for (int k = n + 1; k < problem->count; k++)
            if (has_edge(problem, n, k)) put_edge_costs(problem, writer, n, k);
    json_close(writer, ']');
    json_close(writer, '}');
}

static const char *problem_text(struct operator_problem *problem)
{
    struct operator_finding *finding = problem->finding;
    struct json_writer writer = {.arena = finding->scratch};
    int64_t left_bytes = finding->limit_bytes - problem->table.reserved_bytes;
    ask_singles(problem);
    json_open(&writer, NULL, '{');
    json_open(&writer, "problem", '{');
    json_put_text(&writer, "name", "operators");
    put_nodes(problem, &writer, &left_bytes);
    put_edges(problem, &writer);
    json_put_i64(&writer, "usage_limit", left_bytes > 0 ? left_bytes : 0);
    json_close(&writer, '}');
    json_close(&writer, '}');
    return writer.text;
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
