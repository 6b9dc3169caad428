#pragma once
#include "core/arena.h"

#include <stdint.h>

// Largest flow from a source to a sink, by blocking flows in layered networks (Dinic 1970).

struct max_flow {
    int node_count, arc_count;
    int *first;          // [node] newest arc out of it + 1; 0: none
    int *next;           // [arc] older arc of the same node + 1
    int *head;           // [arc] where it leads; arc i ^ 1 leads back
    int64_t *left;       // [arc] capacity not used
    int *layer;          // [node] + 1; 0: not reached
    int *current;        // [node] first arc not yet used up, + 1
    int *queue, *path;   // nodes, arcs
    int64_t scan_count;  // arcs looked at since it was made
};

enum { MAX_FLOW_SOURCE, MAX_FLOW_SINK, MAX_FLOW_FIRST };

// More than any sum of capacities.
static const int64_t MAX_FLOW_ENDLESS = INT64_MAX / 4;

// Room for as many nodes and arcs, which it lives with in `arena`.
struct max_flow max_flow_make(struct arena *arena, int node_max, int arc_max);
// No arcs; nodes 0 .. node_count - 1, source and sink among them.
void max_flow_clear(struct max_flow *flow, int node_count);
void max_flow_add(struct max_flow *flow, int from, int to, int64_t capacity);
// Stops when `scan_limit` arcs have been looked at: what is returned is then a flow, not the
// largest.
int64_t max_flow_run(struct max_flow *flow, int64_t scan_limit);
