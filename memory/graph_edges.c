#include "memory/graph_edges.h"

#include <assert.h>

// Every chain of `shares` is walked once: a tensor whose answer is known ends the walk, and what
// lies between gets it on the way back. `follow` says whether the chain goes on behind a tensor.
static void fill_chains(struct arena *arena, const struct memory_graph *graph, int *answer,
                        bool (*follow)(const struct memory_tensor *tensor),
                        int (*at_end)(const struct memory_graph *graph, int tensor))
{
    int *path = ARENA_NEW(arena, int, graph->tensor_count);
    for (int tensor = 0; tensor < graph->tensor_count; tensor++) {
        int length = 0, at = tensor;
        while (answer[at] == -2 && follow(&graph->tensors[at])) {
            path[length++] = at;
            at = graph->tensors[at].shares;
        }
        if (answer[at] == -2) answer[at] = at_end(graph, at);
        while (length > 0) {
            answer[path[--length]] = answer[at];
        }
    }
}

static int *unknown(struct arena *arena, int count)
{
    int *answer = ARENA_NEW(arena, int, count);
    for (int i = 0; i < count; i++) {
        answer[i] = -2;
    }
    return answer;
}

static bool is_made_elsewhere(const struct memory_tensor *tensor)
{
    return tensor->producer < 0 && tensor->shares >= 0;
}

static int producer_of(const struct memory_graph *graph, int tensor)
{
    return graph->tensors[tensor].producer;
}

// Operator that makes a tensor: its producer, else that of what it is a view of; -1: nobody.
static int *graph_makers(struct arena *arena, const struct memory_graph *graph)
{
    int *makers = unknown(arena, graph->tensor_count);
    fill_chains(arena, graph, makers, is_made_elsewhere, producer_of);
    return makers;
}

static bool is_view(const struct memory_tensor *tensor)
{
    return tensor->shares >= 0 && !tensor->overwrites;
}

static int itself(const struct memory_graph *graph, int tensor)
{
    (void)graph;
    return tensor;
}

static void add(struct graph_edges *edges, int from, int to, int why)
{
    if (edges->from) {
        edges->from[edges->count] = from;
        edges->to[edges->count] = to;
        edges->why[edges->count] = why;
    }
    edges->count++;
}

// A value is a tensor with all views of it: what overwrites one of them spoils all. So whoever
// makes or reads any of them runs before the operator that overwrites the value.
struct values {
    int *value;        // of a tensor: the first of those that are the same value
    int *overwritten;  // of a value: the tensor that takes its place, -1: none
};

// A chain of views is one value, which at most one tensor overwrites.
static struct values values_of(struct arena *arena, const struct memory_graph *graph)
{
    struct values values = {unknown(arena, graph->tensor_count),
                            ARENA_NEW(arena, int, graph->tensor_count)};
    fill_chains(arena, graph, values.value, is_view, itself);
    for (int i = 0; i < graph->tensor_count; i++) {
        values.overwritten[i] = -1;
    }
    for (int i = 0; i < graph->tensor_count; i++) {
        const struct memory_tensor *tensor = &graph->tensors[i];
        if (tensor->overwrites) values.overwritten[values.value[tensor->shares]] = i;
    }
    return values;
}

static void add_user(struct graph_edges *edges, const struct memory_graph *graph,
                     const struct values *values, int tensor, int user)
{
    int by = values->overwritten[values->value[tensor]];
    if (by < 0 || user < 0 || graph->tensors[by].producer == user) return;
    add(edges, user, graph->tensors[by].producer, tensor);
}

static void add_all(struct graph_edges *edges, const struct memory_graph *graph, const int *makers,
                    const struct values *values)
{
    for (int i = 0; i < graph->operator_count; i++) {
        const struct memory_operator *op = &graph->operators[i];
        for (int j = 0; j < op->input_count; j++) {
            int maker = makers[op->inputs[j]];
            if (maker >= 0) add(edges, maker, i, -1);
            add_user(edges, graph, values, op->inputs[j], i);
        }
        for (int j = 0; j < op->after_count; j++) {
            add(edges, op->after[j], i, -1);
        }
    }
    for (int i = 0; i < graph->tensor_count; i++) {
        const struct memory_tensor *tensor = &graph->tensors[i];
        add_user(edges, graph, values, i, tensor->producer);
        if (tensor->shares < 0 || tensor->producer < 0 || makers[tensor->shares] < 0) continue;
        if (makers[tensor->shares] == tensor->producer) continue;
        add(edges, makers[tensor->shares], tensor->producer, -1);
    }
}

struct graph_edges graph_edges_make(struct arena *arena, const struct memory_graph *graph)
{
    int *makers = graph_makers(arena, graph);
    struct values values = values_of(arena, graph);
    struct graph_edges edges = {0};
    add_all(&edges, graph, makers, &values);
    size_t count = (size_t)edges.count;
    edges = (struct graph_edges){ARENA_NEW(arena, int, count), ARENA_NEW(arena, int, count),
                                 ARENA_NEW(arena, int, count), 0};
    add_all(&edges, graph, makers, &values);
    assert((size_t)edges.count == count && "both walks add the same");
    return edges;
}

// Counted two places ahead, so that filling leaves each list's begin in its place.
struct graph_into graph_edges_into(struct arena *arena, const struct graph_edges *edges,
                                   int operator_count)
{
    struct graph_into into = {ARENA_NEW(arena, int, operator_count + 2),
                              ARENA_NEW(arena, int, edges->count)};
    for (int i = 0; i < edges->count; i++) {
        assert(edges->to[i] >= 0 && edges->to[i] < operator_count);
        into.first[edges->to[i] + 2]++;
    }
    for (int i = 0; i < operator_count; i++) {
        into.first[i + 2] += into.first[i + 1];
    }
    for (int i = 0; i < edges->count; i++) {
        assert(edges->to[i] >= 0 && edges->to[i] < operator_count);
        into.into[into.first[edges->to[i] + 1]++] = i;
    }
    assert(into.first[operator_count] == edges->count);
    return into;
}
