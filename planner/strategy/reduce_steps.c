#include "planner/strategy/reduce.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double REFUSED = REDUCED_FORBIDDEN / 2;

// A choice of a node that some edge supports with no choice of its other end, or that its own cost
// forbids, can be left out.
static bool is_supported(const struct reduced *reduced, int node, int choice)
{
    const struct reduced_node *at = &reduced->nodes[node];
    if (at->cost[choice] >= REFUSED) return false;
    for (int i = 0; i < at->edge_count; i++) {
        const struct reduced_edge *edge = &reduced->edges[at->edges[i]];
        int count = reduced->nodes[reduced_other(edge, node)].count, y = 0;
        while (y < count && reduced_cost(reduced, edge, node, choice, y) >= REFUSED)
            y++;
        if (y == count) return false;
    }
    return true;
}

static bool drop_of_node(struct reduced *reduced, int node)
{
    struct reduced_node *at = &reduced->nodes[node];
    struct arena_mark mark = arena_mark(reduced->arena);
    bool *keep = ARENA_NEW(reduced->arena, bool, at->count), drops = false;
    for (int i = 0; i < at->count; i++) {
        keep[i] = is_supported(reduced, node, i);
        drops |= !keep[i];
    }
    if (drops) reduced_restrict(reduced, node, keep);
    arena_reset(reduced->arena, mark);
    return drops;
}

bool reduced_drop_unsupported(struct reduced *reduced)
{
    int count = reduced->problem->node_count;
    bool *waits = ARENA_NEW(reduced->arena, bool, count), any = false, again = true;
    memset(waits, true, (size_t)count);
    while (again && !reduced->is_impossible) {
        again = false;
        for (int i = 0; i < count && !reduced->is_impossible; i++) {
            const struct reduced_node *node = &reduced->nodes[i];
            if (!waits[i] || node->is_gone) continue;
            waits[i] = false;
            if (!drop_of_node(reduced, i)) continue;
            any = again = true;
            for (int k = 0; k < node->edge_count; k++)
                waits[reduced_other(&reduced->edges[node->edges[k]], i)] = true;
        }
    }
    return any;
}

// By how much the better choice is dearer along an edge, at most, whatever the other end chooses.
static double most_over(const struct reduced *reduced, const struct reduced_edge *edge, int node,
                        int better, int worse)
{
    bool is_first = edge->ends[0] == node;
    int width = reduced->nodes[edge->ends[1]].count, step = is_first ? 1 : width;
    int count = reduced->nodes[reduced_other(edge, node)].count;
    const double *low = edge->cost + (is_first ? better * width : better);
    const double *high = edge->cost + (is_first ? worse * width : worse);
    double most = -INFINITY;
    for (int y = 0; y < count; y++) {
        double over = low[y * step] - high[y * step];
        if (high[y * step] < REFUSED && over > most) most = over;
    }
    return most;
}

// Whether a choice is never cheaper than another and never uses less. Early out, as most pairs fail
// at once.
static bool dominates(const struct reduced *reduced, int node, int better, int worse)
{
    const struct reduced_node *at = &reduced->nodes[node];
    double ahead = at->cost[worse] - at->cost[better];
    for (int p = 0; p < at->part_count; p++)
        if (at->parts[p].usage[better] > at->parts[p].usage[worse]) return false;
    for (int i = 0; i < at->edge_count; i++) {
        double most = most_over(reduced, &reduced->edges[at->edges[i]], node, better, worse);
        if (most >= REFUSED) return false;
        ahead -= most;
    }
    return ahead >= 0;
}

// Nodes of many choices are looked at in samples: all pairs would take their square.
static bool is_dominated(const struct reduced *reduced, int node, int choice, const bool *keep)
{
    enum { ALL_PAIRS = 64 };
    int count = reduced->nodes[node].count;
    int step = count > ALL_PAIRS ? count / ALL_PAIRS + 1 : 1;
    for (int i = choice % step; i < count; i += step)
        if (i != choice && keep[i] && dominates(reduced, node, i, choice)) return true;
    return false;
}

bool reduced_drop_dominated(struct reduced *reduced)
{
    bool any = false;
    for (int i = 0; i < reduced->problem->node_count; i++) {
        struct reduced_node *node = &reduced->nodes[i];
        if (node->is_gone || node->count < 2) continue;
        struct arena_mark mark = arena_mark(reduced->arena);
        bool *keep = ARENA_NEW(reduced->arena, bool, node->count), drops = false;
        memset(keep, true, (size_t)node->count);
        for (int k = 0; k < node->count; k++) {
            keep[k] = !is_dominated(reduced, i, k, keep);
            drops |= !keep[k];
        }
        if (drops) reduced_restrict(reduced, i, keep);
        assert(node->count > 0 && "what dominates others last stays itself");
        any |= drops;
        arena_reset(reduced->arena, mark);
    }
    return any;
}

// An edge whose cost is a(x) + b(y) is no edge.
static bool split_edge(struct reduced *reduced, struct reduced_edge *edge)
{
    struct reduced_node *a = &reduced->nodes[edge->ends[0]], *b = &reduced->nodes[edge->ends[1]];
    const double *cost = edge->cost;
    for (int x = 0; x < a->count; x++) {
        for (int y = 0; y < b->count; y++) {
            double at = cost[x * b->count + y];
            if (at >= REFUSED || at - cost[y] != cost[x * b->count] - cost[0]) return false;
        }
    }
    for (int x = 0; x < a->count; x++)
        a->cost[x] += cost[x * b->count];
    for (int y = 0; y < b->count; y++)
        b->cost[y] += cost[y] - cost[0];
    return edge->is_gone = true;
}

bool reduced_split_edges(struct reduced *reduced)
{
    bool any = false;
    for (int e = 0; e < reduced->edge_count; e++)
        if (!reduced->edges[e].is_gone) any |= split_edge(reduced, &reduced->edges[e]);
    for (int i = 0; i < reduced->problem->node_count; i++) {
        struct reduced_node *node = &reduced->nodes[i];
        int kept = 0;
        for (int k = 0; k < node->edge_count; k++)
            if (!reduced->edges[node->edges[k]].is_gone) node->edges[kept++] = node->edges[k];
        node->edge_count = kept;
    }
    return any;
}
