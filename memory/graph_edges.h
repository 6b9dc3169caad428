#pragma once
#include "memory/graph.h"

// What memory_graph_finish, memory_problem_make and the readers of files share; nobody else
// includes this.

// Why a graph is none, and the operator or tensor where a reader of files points at.
struct graph_fault {
    bool is_tensor;
    int index;  // -1: the graph as a whole
    const char *text;
};

// As memory_graph_finish, but the fault is returned instead of printed: NULL when there is none.
const struct graph_fault *graph_finish(struct arena *arena, struct memory_graph *graph);

const struct graph_fault *graph_fault_at(struct arena *arena, bool is_tensor, int index,
                                         const char *format, ...) PRINTF_LIKE(4, 5);

// Program order: operators as given where that respects the edges, else of those that are ready
// always the first given. Renumbers operators; a fault names the operators of a cycle.
const struct graph_fault *graph_sort(struct arena *arena, struct memory_graph *graph);

// Who runs before whom. An edge may be there twice.
struct graph_edges {
    int *from, *to;
    int *why;  // tensor that `to` overwrites and `from` uses; -1: data or `after`
    int count;
};
struct graph_edges graph_edges_make(struct arena *arena, const struct memory_graph *graph);

// Sources of each operator, by counting sort: the edges into o are
// into[first[o]] .. into[first[o + 1] - 1], indices of edges, ascending.
struct graph_into {
    int *first, *into;
};
struct graph_into graph_edges_into(struct arena *arena, const struct graph_edges *edges,
                                   int operator_count);
