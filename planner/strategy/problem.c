#include "planner/strategy/problem.h"
#include "core/file.h"
#include "core/gzip.h"
#include "planner/strategy/problem_scan.h"

#include <assert.h>
#include <string.h>

enum { FILE_BYTES_MOST = 1 << 30 };

// The list at fault, after all has been read.
static bool fail_list(struct strategy_scan *scan, const char *key,
                      const struct strategy_lists *lists, int at, const char *what, int64_t found,
                      int64_t wanted)
{
    scan->at = (size_t)lists->places[at];
    return strategy_scan_fail(scan, "$.problem.%s[%d]: %s: found %lld, wanted %lld", key, at, what,
                              (long long)found, (long long)wanted);
}

static int64_t length(const struct strategy_lists *lists, int at)
{
    return lists->starts[at + 1] - lists->starts[at];
}

static bool check_nodes(struct strategy_scan *scan, struct strategy_problem *problem)
{
    const struct strategy_lists *intervals = &problem->intervals;
    for (int i = 0; i < problem->node_count; i++) {
        int64_t count = length(&problem->costs, i);
        if (count < 1) {
            return fail_list(scan, "nodes.costs", &problem->costs, i, "strategies", count, 1);
        }
        if (count > STRATEGY_CHOICES_MOST) {
            return fail_list(scan, "nodes.costs", &problem->costs, i, "more strategies than taken",
                             count, STRATEGY_CHOICES_MOST);
        }
        if (length(&problem->usages, i) != count) {
            return fail_list(scan, "nodes.usages", &problem->usages, i, "one for each strategy",
                             length(&problem->usages, i), count);
        }
        if (length(intervals, i) != 2) {
            return fail_list(scan, "nodes.intervals", intervals, i, "birth and death",
                             length(intervals, i), 2);
        }
        const int64_t *at = intervals->values + intervals->starts[i];
        if (at[1] < at[0] || at[1] > STRATEGY_TIME_MOST) {
            return fail_list(scan, "nodes.intervals", intervals, i,
                             at[1] < at[0] ? "death before birth" : "a late death", at[1],
                             at[1] < at[0] ? at[0] : STRATEGY_TIME_MOST);
        }
        if (at[1] > problem->time_count) problem->time_count = (int)at[1];
    }
    return true;
}

static bool check_edges(struct strategy_scan *scan, const struct strategy_problem *problem)
{
    const struct strategy_lists *ends = &problem->ends, *costs = &problem->edge_costs;
    for (int e = 0; e < problem->edge_count; e++) {
        if (length(ends, e) != 2) {
            return fail_list(scan, "edges.nodes", ends, e, "nodes", length(ends, e), 2);
        }
        const int64_t *at = ends->values + ends->starts[e];
        for (int side = 0; side < 2; side++) {
            if (at[side] < problem->node_count) continue;
            return fail_list(scan, "edges.nodes", ends, e, "past the last node", at[side],
                             problem->node_count - 1);
        }
        int64_t wanted =
            (int64_t)strategy_count(problem, (int)at[0]) * strategy_count(problem, (int)at[1]);
        if (length(costs, e) != wanted) {
            return fail_list(scan, "edges.costs", costs, e, "one for each pair of strategies",
                             length(costs, e), wanted);
        }
    }
    return true;
}

bool strategy_problem_parse(struct arena *arena, const char *path, const char *text, size_t bytes,
                            struct strategy_problem *problem, struct err *err)
{
    assert(text[bytes] == '\0' && "the reader of numbers stops there");
    struct strategy_scan scan = {
        .arena = arena, .path = path, .text = text, .bytes = bytes, .err = err};
    *problem = (struct strategy_problem){.name = ""};
    if (!strategy_scan_problem(&scan, problem)) return false;
    problem->node_count = problem->costs.count;
    problem->edge_count = problem->ends.count;
    const struct strategy_lists *beside[] = {&problem->intervals, &problem->usages,
                                             &problem->edge_costs};
    static const char *const KEYS[] = {"nodes.intervals", "nodes.usages", "edges.costs"};
    for (int i = 0; i < 3; i++) {
        int wanted = i < 2 ? problem->node_count : problem->edge_count;
        if (beside[i]->count == wanted) continue;
        return strategy_scan_fail(&scan, "$.problem.%s: found %d lists, wanted %d as in %s",
                                  KEYS[i], beside[i]->count, wanted,
                                  i < 2 ? "nodes.costs" : "edges.nodes");
    }
    return check_nodes(&scan, problem) && check_edges(&scan, problem);
}

bool strategy_problem_load(struct arena *arena, const char *path, struct strategy_problem *problem,
                           struct err *err)
{
    size_t bytes = 0;
    char *text = file_read(arena, path, FILE_BYTES_MOST, &bytes, err);
    if (text && gzip_is_packed(text, bytes)) {
        text = gzip_unpack(arena, path, text, bytes, FILE_BYTES_MOST, &bytes, err);
    }
    return text && strategy_problem_parse(arena, path, text, bytes, problem, err);
}

static void add_cost(struct strategy_value *value, int64_t cost)
{
    if (cost >= STRATEGY_FORBIDDEN)
        value->forbidden++;
    else
        value->cost += cost;
}

struct strategy_value strategy_problem_value(struct arena *scratch,
                                             const struct strategy_problem *problem,
                                             const int *choice)
{
    struct strategy_value value = {0};
    struct arena_mark mark = arena_mark(scratch);
    int64_t *change = ARENA_NEW(scratch, int64_t, problem->time_count + 1);
    for (int i = 0; i < problem->node_count; i++) {
        add_cost(&value, problem->costs.values[problem->costs.starts[i] + choice[i]]);
        const int64_t *at = problem->intervals.values + problem->intervals.starts[i];
        int64_t usage = problem->usages.values[problem->usages.starts[i] + choice[i]];
        change[at[0]] += usage;
        change[at[1]] -= usage;
    }
    for (int e = 0; e < problem->edge_count; e++) {
        const int64_t *at = problem->ends.values + problem->ends.starts[e];
        int64_t row = choice[at[0]], width = strategy_count(problem, (int)at[1]);
        add_cost(&value, problem->edge_costs
                             .values[problem->edge_costs.starts[e] + row * width + choice[at[1]]]);
    }
    int64_t usage = 0;
    for (int t = 0; t <= problem->time_count; t++) {
        usage += change[t];
        if (usage > value.peak) value.peak = usage;
    }
    value.is_valid =
        value.forbidden == 0 && (!problem->has_limit || value.peak <= problem->usage_limit);
    arena_reset(scratch, mark);
    return value;
}
