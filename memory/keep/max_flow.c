#include "memory/keep/max_flow.h"

#include <assert.h>
#include <string.h>

struct max_flow max_flow_make(struct arena *arena, int node_max, int arc_max)
{
    int directed_max = 2 * arc_max;
    return (struct max_flow){.first = ARENA_NEW(arena, int, node_max),
                             .next = ARENA_NEW(arena, int, directed_max),
                             .head = ARENA_NEW(arena, int, directed_max),
                             .left = ARENA_NEW(arena, int64_t, directed_max),
                             .layer = ARENA_NEW(arena, int, node_max),
                             .current = ARENA_NEW(arena, int, node_max),
                             .queue = ARENA_NEW(arena, int, node_max),
                             .path = ARENA_NEW(arena, int, node_max)};
}

void max_flow_clear(struct max_flow *flow, int node_count)
{
    flow->node_count = node_count, flow->arc_count = 0;
    assert(node_count >= MAX_FLOW_FIRST);
    memset(flow->first, 0, (size_t)node_count * sizeof *flow->first);
}

static void add_directed(struct max_flow *flow, int from, int to, int64_t capacity)
{
    int arc = flow->arc_count++;
    flow->head[arc] = to, flow->left[arc] = capacity;
    flow->next[arc] = flow->first[from];
    flow->first[from] = arc + 1;
}

void max_flow_add(struct max_flow *flow, int from, int to, int64_t capacity)
{
    assert(from >= 0 && from < flow->node_count && to >= 0 && to < flow->node_count);
    assert(capacity >= 0 && flow->arc_count % 2 == 0);  // arc i ^ 1 leads back
    add_directed(flow, from, to, capacity);
    add_directed(flow, to, from, 0);
}

// Layers from the source on, as far as the sink.
static bool find_layers(struct max_flow *flow)
{
    int count = 0;
    memset(flow->layer, 0, (size_t)flow->node_count * sizeof *flow->layer);
    flow->layer[MAX_FLOW_SOURCE] = 1;
    flow->queue[count++] = MAX_FLOW_SOURCE;
    for (int i = 0; i < count; i++) {
        int node = flow->queue[i];
        for (int a = flow->first[node]; a; a = flow->next[a - 1]) {
            int to = flow->head[a - 1];
            flow->scan_count++;
            if (flow->left[a - 1] == 0 || flow->layer[to]) continue;
            flow->layer[to] = flow->layer[node] + 1;
            // Nodes of the sink's own layer lead no flow to it, so the rest need no number.
            if (to == MAX_FLOW_SINK) return true;
            flow->queue[count++] = to;
        }
    }
    return false;
}

// The next arc of `node` that leads a layer on, + 1; 0: none is left.
static int advance(struct max_flow *flow, int node)
{
    int *at = &flow->current[node];
    for (; *at; *at = flow->next[*at - 1]) {
        flow->scan_count++;
        int to = flow->head[*at - 1];
        if (flow->left[*at - 1] > 0 && flow->layer[to] == flow->layer[node] + 1) break;
    }
    return *at;
}

// Sends what the path's narrowest arc takes; returns how much of the path stands before that arc.
static int augment(struct max_flow *flow, int length, int64_t *sum)
{
    int64_t least = flow->left[flow->path[0]];
    int narrow = 0;
    for (int i = 1; i < length; i++) {
        // The first of equals: what stands before it still has something left, and is kept.
        if (flow->left[flow->path[i]] < least) least = flow->left[flow->path[i]], narrow = i;
    }
    for (int i = 0; i < length; i++) {
        flow->left[flow->path[i]] -= least;
        flow->left[flow->path[i] ^ 1] += least;
    }
    assert(least > 0);  // `advance` only walks arcs with something left
    *sum += least;
    return narrow;
}

static int64_t block(struct max_flow *flow, int64_t scan_limit)
{
    int64_t sum = 0;
    int node = MAX_FLOW_SOURCE, length = 0;
    memcpy(flow->current, flow->first, (size_t)flow->node_count * sizeof *flow->first);
    while (flow->scan_count < scan_limit) {
        if (node == MAX_FLOW_SINK) {
            length = augment(flow, length, &sum);
            node = flow->head[flow->path[length] ^ 1];
            continue;
        }
        int arc = advance(flow, node);
        if (arc) {
            flow->path[length++] = arc - 1;
            node = flow->head[arc - 1];
        } else {
            if (length == 0) break;
            flow->layer[node] = 0;  // leads nowhere
            node = flow->head[flow->path[--length] ^ 1];
        }
    }
    return sum;
}

int64_t max_flow_run(struct max_flow *flow, int64_t scan_limit)
{
    int64_t sum = 0;
    while (flow->scan_count < scan_limit && find_layers(flow))
        sum += block(flow, scan_limit);
    return sum;
}
