#include "planner/strategy/reduce.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double REFUSED = REDUCED_FORBIDDEN / 2;

// What the node chooses follows from the choice of `by`: by -1 from nothing.
static void log_step(struct reduced *reduced, int node, int by, const int *follows)
{
    assert(node != by);
    const struct reduced_node *at = &reduced->nodes[node];
    ARENA_GROW(reduced->arena, reduced->steps, reduced->step_count, reduced->step_room);
    int count = by < 0 ? 1 : strategy_count(reduced->problem, by);
    int *choice = ARENA_NEW(reduced->arena, int, count);
    for (int i = 0; i < (by < 0 ? 1 : reduced->nodes[by].count); i++)
        choice[by < 0 ? 0 : reduced->nodes[by].labels[i]] = at->labels[follows[i]];
    reduced->steps[reduced->step_count++] = (struct reduced_step){node, by, choice};
}

static void drop_edge(struct reduced *reduced, int node, int at)
{
    assert(!reduced->edges[at].is_gone);
    struct reduced_node *end = &reduced->nodes[node];
    for (int i = 0; i < end->edge_count; i++) {
        if (end->edges[i] != at) continue;
        end->edges[i] = end->edges[--end->edge_count];
        break;
    }
    reduced->edges[at].is_gone = true;
}

// The only choice of `node` that each choice of `by` allows. False where there are many.
static bool is_decided(const struct reduced *reduced, const struct reduced_edge *edge, int node,
                       int by, int *follows)
{
    for (int x = 0; x < reduced->nodes[by].count; x++) {
        int allowed = 0;
        for (int y = 0; y < reduced->nodes[node].count && allowed < 2; y++) {
            if (reduced_cost(reduced, edge, by, x, y) >= REFUSED) continue;
            follows[x] = y;
            allowed++;
        }
        if (allowed != 1) return false;
    }
    return true;
}

static void join_parts(struct reduced *reduced, int node, int by, const int *follows)
{
    const struct reduced_node *from = &reduced->nodes[node];
    struct reduced_node *to = &reduced->nodes[by];
    for (int p = 0; p < from->part_count; p++) {
        const struct reduced_part *part = &from->parts[p];
        int known = 0;
        while (known < to->part_count &&
               (to->parts[known].birth != part->birth || to->parts[known].death != part->death))
            known++;
        if (known == to->part_count) {
            ARENA_GROW(reduced->arena, to->parts, to->part_count, to->part_room);
            to->parts[to->part_count++] = (struct reduced_part){
                part->birth, part->death, ARENA_NEW(reduced->arena, double, to->count)};
        }
        for (int x = 0; x < to->count; x++)
            to->parts[known].usage[x] += part->usage[follows[x]];
    }
}

// The rows of what leads on from `node`, one for each choice of `by`.
static void move_edge(struct reduced *reduced, int at, int node, int by, const int *follows)
{
    struct reduced_edge *edge = &reduced->edges[at];
    int other = reduced_other(edge, node), rows = reduced->nodes[by].count;
    int columns = reduced->nodes[other].count;
    double *cost = ARENA_NEW(reduced->arena, double, rows *columns);
    for (int x = 0; x < rows; x++) {
        for (int z = 0; z < columns; z++)
            cost[x * columns + z] = reduced_cost(reduced, edge, node, follows[x], z);
    }
    drop_edge(reduced, other, at);
    // An edge left: the one that has gone lends its place.
    reduced_connect(reduced, by, other, cost);
}

static void join(struct reduced *reduced, int at, int node, int by, const int *follows)
{
    struct reduced_node *from = &reduced->nodes[node], *to = &reduced->nodes[by];
    assert(!from->is_gone && !to->is_gone);
    log_step(reduced, node, by, follows);
    for (int x = 0; x < to->count; x++)
        to->cost[x] +=
            from->cost[follows[x]] + reduced_cost(reduced, &reduced->edges[at], by, x, follows[x]);
    join_parts(reduced, node, by, follows);
    drop_edge(reduced, by, at);
    for (int i = 0; i < from->edge_count; i++)
        if (from->edges[i] != at) move_edge(reduced, from->edges[i], node, by, follows);
    from->is_gone = true;
    reduced_settle_usage(reduced, by);
}

// What grows by joining: a node of few choices that leads on by many edges stays.
static bool is_worth(const struct reduced *reduced, int node, int by)
{
    enum { MOST_GROWTH = 64 };
    const struct reduced_node *from = &reduced->nodes[node];
    int64_t growth = 0, more = reduced->nodes[by].count - from->count;
    for (int i = 0; i < from->edge_count; i++) {
        const struct reduced_edge *edge = &reduced->edges[from->edges[i]];
        int other = reduced_other(edge, node);
        if (other != by) growth += more * reduced->nodes[other].count;
    }
    return growth <= MOST_GROWTH;
}

static bool join_node(struct reduced *reduced, int node)
{
    const struct reduced_node *from = &reduced->nodes[node];
    for (int i = 0; i < from->edge_count; i++) {
        int at = from->edges[i];
        const struct reduced_edge *edge = &reduced->edges[at];
        int by = reduced_other(edge, node);
        int *follows = ARENA_NEW(reduced->arena, int, reduced->nodes[by].count);
        if (!is_worth(reduced, node, by) || !is_decided(reduced, edge, node, by, follows)) continue;
        join(reduced, at, node, by, follows);
        return true;
    }
    return false;
}

bool reduced_join_nodes(struct reduced *reduced)
{
    bool any = false;
    for (int i = 0; i < reduced->problem->node_count; i++)
        if (!reduced->nodes[i].is_gone) any |= join_node(reduced, i);
    return any;
}

static int cheapest(const struct reduced *reduced, int node, const struct reduced_edge *edge,
                    int by, int x, double *least)
{
    const struct reduced_node *at = &reduced->nodes[node];
    int best = 0;
    *least = INFINITY;
    for (int y = 0; y < at->count; y++) {
        double cost = at->cost[y] + (edge ? reduced_cost(reduced, edge, by, x, y) : 0);
        if (cost < *least) *least = cost, best = y;
    }
    return best;
}

// Nodes that use no memory and have at most one neighbour left choose what is cheapest for it.
bool reduced_fold_leaves(struct reduced *reduced)
{
    bool any = false;
    for (int i = 0; i < reduced->problem->node_count; i++) {
        struct reduced_node *node = &reduced->nodes[i];
        if (node->is_gone || node->part_count > 0 || node->edge_count > 1) continue;
        const struct reduced_edge *edge =
            node->edge_count > 0 ? &reduced->edges[node->edges[0]] : NULL;
        int by = edge ? reduced_other(edge, i) : -1, rows = edge ? reduced->nodes[by].count : 1;
        int *follows = ARENA_NEW(reduced->arena, int, rows);
        for (int x = 0; x < rows; x++) {
            double least = 0;
            follows[x] = cheapest(reduced, i, edge, by, x, &least);
            if (edge)
                reduced->nodes[by].cost[x] =
                    fmin(reduced->nodes[by].cost[x] + least, REDUCED_FORBIDDEN);
            else
                reduced->fixed_cost += least;
        }
        log_step(reduced, i, by, follows);
        if (edge) drop_edge(reduced, by, node->edges[0]);
        node->is_gone = any = true;
    }
    return any;
}
