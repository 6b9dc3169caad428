#include "planner/strategy/reduce.h"

#include <assert.h>
#include <math.h>
#include <string.h>

int reduced_other(const struct reduced_edge *edge, int node)
{
    return edge->ends[edge->ends[0] == node];
}

double reduced_cost(const struct reduced *reduced, const struct reduced_edge *edge, int node,
                    int own, int others)
{
    int width = reduced->nodes[edge->ends[1]].count;
    return edge->ends[0] == node ? edge->cost[own * width + others]
                                 : edge->cost[others * width + own];
}

// The edge between two nodes. -1: there is none.
static int find_edge(const struct reduced *reduced, int a, int b)
{
    const struct reduced_node *node = &reduced->nodes[b];
    assert(node->edge_count == 0 || reduced->edges);
    for (int i = 0; i < node->edge_count; i++) {
        const struct reduced_edge *edge = &reduced->edges[node->edges[i]];
        assert(!edge->is_gone);
        if (reduced_other(edge, b) == a) return node->edges[i];
    }
    return -1;
}

static void list_edge(struct reduced *reduced, int at, int edge)
{
    struct reduced_node *node = &reduced->nodes[at];
    ARENA_GROW(reduced->arena, node->edges, node->edge_count, node->edge_room);
    node->edges[node->edge_count++] = edge;
}

static double add_costs(double a, double b)
{
    return fmin(a + b, REDUCED_FORBIDDEN);
}

void reduced_connect(struct reduced *reduced, int a, int b, double *cost)
{
    int rows = reduced->nodes[a].count, columns = reduced->nodes[b].count;
    if (a == b) {
        for (int i = 0; i < rows; i++)
            reduced->nodes[a].cost[i] = add_costs(reduced->nodes[a].cost[i], cost[i * rows + i]);
        return;
    }
    int known = find_edge(reduced, a, b);
    if (known < 0) {
        ARENA_GROW(reduced->arena, reduced->edges, reduced->edge_count, reduced->edge_room);
        reduced->edges[reduced->edge_count] = (struct reduced_edge){.ends = {a, b}, .cost = cost};
        list_edge(reduced, a, reduced->edge_count);
        list_edge(reduced, b, reduced->edge_count++);
        return;
    }
    const struct reduced_edge *edge = &reduced->edges[known];
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) {
            double *at = &edge->cost[edge->ends[0] == a ? i * columns + j : j * rows + i];
            *at = add_costs(*at, cost[i * columns + j]);
        }
    }
}

void reduced_settle_usage(struct reduced *reduced, int node)
{
    assert(reduced->nodes[node].count > 0);
    struct reduced_node *at = &reduced->nodes[node];
    int kept = 0;
    for (int p = 0; p < at->part_count; p++) {
        struct reduced_part *part = &at->parts[p];
        double least = INFINITY, most = 0;
        for (int i = 0; i < at->count; i++)
            least = fmin(least, part->usage[i]), most = fmax(most, part->usage[i]);
        for (int i = 0; i < at->count; i++)
            part->usage[i] -= least;
        reduced->base[part->birth] += least;
        reduced->base[part->death] -= least;
        if (most > least) at->parts[kept++] = *part;
    }
    at->part_count = kept;
}

// Moves what is kept of `count` rows of `width` to the front.
static int keep_rows(void *rows, int count, size_t row_bytes, const bool *keep)
{
    char *bytes = rows;
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (!keep[i]) continue;
        memmove(bytes + (size_t)kept * row_bytes, bytes + (size_t)i * row_bytes, row_bytes);
        kept++;
    }
    return kept;
}

void reduced_restrict(struct reduced *reduced, int node, const bool *keep)
{
    assert(!reduced->nodes[node].is_gone);
    struct reduced_node *at = &reduced->nodes[node];
    for (int i = 0; i < at->edge_count; i++) {
        struct reduced_edge *edge = &reduced->edges[at->edges[i]];
        int width = reduced->nodes[edge->ends[1]].count;
        if (edge->ends[0] == node) {
            keep_rows(edge->cost, at->count, (size_t)width * sizeof(double), keep);
            continue;
        }
        int others = reduced->nodes[edge->ends[0]].count, kept = 0;
        for (int cell = 0; cell < others * width; cell++)
            if (keep[cell % width]) edge->cost[kept++] = edge->cost[cell];
    }
    for (int p = 0; p < at->part_count; p++)
        keep_rows(at->parts[p].usage, at->count, sizeof(double), keep);
    keep_rows(at->labels, at->count, sizeof(int), keep);
    at->count = keep_rows(at->cost, at->count, sizeof(double), keep);
    if (at->count == 0) reduced->is_impossible = true;
    if (at->count > 0) reduced_settle_usage(reduced, node);
}

static void make_node(struct reduced *reduced, int i)
{
    const struct strategy_problem *problem = reduced->problem;
    struct reduced_node *node = &reduced->nodes[i];
    const int64_t *interval = problem->intervals.values + problem->intervals.starts[i];
    node->count = strategy_count(problem, i);
    node->labels = ARENA_NEW(reduced->arena, int, node->count);
    node->cost = ARENA_NEW(reduced->arena, double, node->count);
    struct reduced_part part = {.birth = (int)interval[0],
                                .death = (int)interval[1],
                                .usage = ARENA_NEW(reduced->arena, double, node->count)};
    for (int k = 0; k < node->count; k++) {
        int64_t at = problem->costs.starts[i] + k;
        node->labels[k] = k;
        node->cost[k] = fmin((double)problem->costs.values[at], REDUCED_FORBIDDEN);
        part.usage[k] = (double)problem->usages.values[problem->usages.starts[i] + k];
    }
    if (!problem->has_limit || part.birth == part.death) return;
    ARENA_GROW(reduced->arena, node->parts, node->part_count, node->part_room);
    node->parts[node->part_count++] = part;
    reduced_settle_usage(reduced, i);
}

static void make_edge(struct reduced *reduced, int e)
{
    const struct strategy_problem *problem = reduced->problem;
    const int64_t *ends = problem->ends.values + problem->ends.starts[e];
    int64_t start = problem->edge_costs.starts[e],
            count = problem->edge_costs.starts[e + 1] - start;
    double *cost = ARENA_NEW(reduced->arena, double, count);
    for (int64_t i = 0; i < count; i++)
        cost[i] = fmin((double)problem->edge_costs.values[start + i], REDUCED_FORBIDDEN);
    reduced_connect(reduced, (int)ends[0], (int)ends[1], cost);
}

struct reduced *reduced_make(struct arena *arena, const struct strategy_problem *problem)
{
    enum { ROUNDS = 8 };
    struct reduced *reduced = ARENA_NEW(arena, struct reduced, 1);
    *reduced = (struct reduced){
        .arena = arena,
        .problem = problem,
        .nodes = ARENA_NEW(arena, struct reduced_node, problem->node_count),
        .base = ARENA_NEW(arena, double, problem->time_count + 1),
    };
    for (int i = 0; i < problem->node_count; i++)
        make_node(reduced, i);
    for (int e = 0; e < problem->edge_count; e++)
        make_edge(reduced, e);
    bool changed = true;
    for (int round = 0; round < ROUNDS && changed && !reduced->is_impossible; round++) {
        changed = reduced_drop_unsupported(reduced);
        if (reduced->is_impossible) break;
        changed |= reduced_split_edges(reduced);
        changed |= reduced_drop_dominated(reduced);
        changed |= reduced_join_nodes(reduced);
        changed |= reduced_fold_leaves(reduced);
    }
    reduced_flatten(reduced);
    return reduced;
}

void reduced_expand(const struct reduced *reduced, int *choice)
{
    for (int i = reduced->step_count - 1; i >= 0; i--) {
        const struct reduced_step *step = &reduced->steps[i];
        choice[step->node] = step->choice[step->by < 0 ? 0 : choice[step->by]];
    }
}
