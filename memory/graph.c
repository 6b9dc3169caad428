#include "memory/graph.h"
#include "memory/graph_edges.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// All sizes together stay below this, so that sums of rounded sizes do not overflow.
static const int64_t TOTAL_BYTES_MAX = INT64_MAX / 4;

const struct graph_fault *graph_fault_at(struct arena *arena, bool is_tensor, int index,
                                         const char *format, ...)
{
    assert(index >= 0);
    struct graph_fault *fault = ARENA_NEW(arena, struct graph_fault, 1);
    va_list args;
    va_start(args, format);
    *fault = (struct graph_fault){is_tensor, index, arena_vprint(arena, format, args)};
    va_end(args);
    return fault;
}

static const char *operator_name(const struct memory_graph *graph, int index)
{
    return graph->operators[index].name;
}

static const char *tensor_name(const struct memory_graph *graph, int index)
{
    return graph->tensors[index].name;
}

// Tensors of one list are in range and stand there once; `seen` remembers the operator that looked
// last.
static const struct graph_fault *check_list(struct arena *arena, const struct memory_graph *graph,
                                            int index, const int *list, int count, int *seen)
{
    for (int i = 0; i < count; i++) {
        if (list[i] < 0 || list[i] >= graph->tensor_count) {
            return graph_fault_at(arena, false, index,
                                  "operator \"%.99s\" uses tensor %d, there are %d",
                                  operator_name(graph, index), list[i], graph->tensor_count);
        }
        if (seen[list[i]] == index + 1) {
            return graph_fault_at(arena, false, index, "operator \"%.99s\" has \"%.99s\" twice",
                                  operator_name(graph, index), tensor_name(graph, list[i]));
        }
        seen[list[i]] = index + 1;
    }
    return NULL;
}

// One operator makes a tensor, so that its lifetime has one beginning.
static const struct graph_fault *set_producers(struct arena *arena, struct memory_graph *graph,
                                               int index)
{
    assert(index >= 0 && index < graph->operator_count);
    const struct memory_operator *op = &graph->operators[index];
    for (int i = 0; i < op->output_count; i++) {
        struct memory_tensor *tensor = &graph->tensors[op->outputs[i]];
        if (tensor->producer >= 0) {
            return graph_fault_at(arena, false, index,
                                  "tensor \"%.99s\" has two producers, \"%.99s\" and \"%.99s\"",
                                  tensor->name, operator_name(graph, tensor->producer), op->name);
        }
        tensor->producer = index;
    }
    return NULL;
}

static const struct graph_fault *check_operator(struct arena *arena, struct memory_graph *graph,
                                                int index, int *seen_input, int *seen_output)
{
    const struct memory_operator *op = &graph->operators[index];
    const struct graph_fault *fault =
        check_list(arena, graph, index, op->inputs, op->input_count, seen_input);
    if (!fault) {
        fault = check_list(arena, graph, index, op->outputs, op->output_count, seen_output);
    }
    if (!fault) fault = set_producers(arena, graph, index);
    if (fault) return fault;
    for (int i = 0; i < op->after_count; i++) {
        if (op->after[i] >= 0 && op->after[i] < graph->operator_count) continue;
        return graph_fault_at(arena, false, index,
                              "operator \"%.99s\" is after operator %d, there are %d", op->name,
                              op->after[i], graph->operator_count);
    }
    if (op->workspace_bytes < 0) {
        return graph_fault_at(arena, false, index,
                              "operator \"%.99s\" has a workspace of %lld bytes", op->name,
                              (long long)op->workspace_bytes);
    }
    if (!(op->seconds >= 0) || isinf(op->seconds)) {
        return graph_fault_at(arena, false, index, "operator \"%.99s\" takes %g seconds", op->name,
                              op->seconds);
    }
    return NULL;
}

// Storage belongs to the first of a chain, which has to be the largest.
static const struct graph_fault *check_sharing(struct arena *arena,
                                               const struct memory_graph *graph, int index)
{
    const struct memory_tensor *tensor = &graph->tensors[index];
    if (tensor->shares < 0) {
        if (!tensor->overwrites) return NULL;
        return graph_fault_at(arena, true, index, "tensor \"%.99s\" overwrites nothing",
                              tensor->name);
    }
    if (tensor->shares >= graph->tensor_count) {
        return graph_fault_at(arena, true, index, "tensor \"%.99s\" shares tensor %d, there are %d",
                              tensor->name, tensor->shares, graph->tensor_count);
    }
    const struct memory_tensor *other = &graph->tensors[tensor->shares];
    if (tensor->persistent != other->persistent) {
        return graph_fault_at(arena, true, index,
                              "tensor \"%.99s\" shares the memory of \"%.99s\", but only one of "
                              "them is persistent",
                              tensor->name, other->name);
    }
    if (tensor->bytes > other->bytes) {
        return graph_fault_at(
            arena, true, index,
            "tensor \"%.99s\" of %lld bytes shares the memory of \"%.99s\", which "
            "has %lld",
            tensor->name, (long long)tensor->bytes, other->name, (long long)other->bytes);
    }
    return NULL;
}

static const struct graph_fault *check_sizes(struct arena *arena, const struct memory_graph *graph)
{
    assert(graph->tensor_count >= 0 && graph->operator_count >= 0);
    int64_t left_bytes = TOTAL_BYTES_MAX;
    for (int i = 0; i < graph->tensor_count; i++) {
        int64_t bytes = graph->tensors[i].bytes;
        if (bytes < 0) {
            return graph_fault_at(arena, true, i, "tensor \"%.99s\" has %lld bytes",
                                  tensor_name(graph, i), (long long)bytes);
        }
        if (bytes > left_bytes) {
            return graph_fault_at(arena, true, i,
                                  "the sizes up to \"%.99s\" add up to more than %lld",
                                  tensor_name(graph, i), (long long)TOTAL_BYTES_MAX);
        }
        left_bytes -= bytes;
    }
    for (int i = 0; i < graph->operator_count; i++) {
        int64_t bytes = graph->operators[i].workspace_bytes;
        if (bytes > left_bytes) {
            return graph_fault_at(arena, false, i,
                                  "the sizes up to the workspace of \"%.99s\" add up to more than "
                                  "%lld",
                                  operator_name(graph, i), (long long)TOTAL_BYTES_MAX);
        }
        left_bytes -= bytes;
    }
    return NULL;
}

// Follows `shares` to the end. A walk that comes to a tensor of its own path goes in a circle.
static const struct graph_fault *set_storages(struct arena *arena, struct memory_graph *graph)
{
    int *walk = ARENA_NEW(arena, int, graph->tensor_count);
    int *path = ARENA_NEW(arena, int, graph->tensor_count);
    for (int i = 0; i < graph->tensor_count; i++) {
        int length = 0, at = i;
        while (!walk[at] && graph->tensors[at].shares >= 0) {
            walk[at] = i + 1;
            path[length++] = at;
            at = graph->tensors[at].shares;
        }
        if (walk[at] == i + 1) {
            return graph_fault_at(arena, true, at,
                                  "the sharing of tensor \"%.99s\" goes in a circle",
                                  tensor_name(graph, at));
        }
        if (graph->tensors[at].shares < 0) {
            walk[at] = i + 1;
            graph->tensors[at].storage = at;
        }
        assert(graph->tensors[at].storage >= 0 && graph->tensors[at].storage < graph->tensor_count);
        int storage = graph->tensors[at].storage;
        assert(storage >= 0 && storage < graph->tensor_count && graph->tensors[storage].shares < 0);
        while (length > 0) {
            graph->tensors[path[--length]].storage = storage;
        }
    }
    return NULL;
}

// One value can be overwritten once, and by an operator.
static const struct graph_fault *check_overwriting(struct arena *arena,
                                                   const struct memory_graph *graph)
{
    int *by = ARENA_NEW(arena, int, graph->tensor_count);
    for (int i = 0; i < graph->tensor_count; i++) {
        const struct memory_tensor *tensor = &graph->tensors[i];
        if (!tensor->overwrites) continue;
        if (tensor->producer < 0) {
            return graph_fault_at(arena, true, i,
                                  "tensor \"%.99s\" overwrites \"%.99s\", but no operator makes it",
                                  tensor->name, tensor_name(graph, tensor->shares));
        }
        int value = tensor->shares;
        while (graph->tensors[value].shares >= 0 && !graph->tensors[value].overwrites) {
            value = graph->tensors[value].shares;
        }
        assert(value >= 0 && value < graph->tensor_count);
        if (by[value]) {
            return graph_fault_at(arena, true, i,
                                  "tensors \"%.99s\" and \"%.99s\" overwrite the same",
                                  tensor_name(graph, by[value] - 1), tensor->name);
        }
        by[value] = i + 1;
    }
    return NULL;
}

// In this order: each round relies on what the ones before have found to be right.
static const struct graph_fault *check(struct arena *arena, struct memory_graph *graph)
{
    int *seen_input = ARENA_NEW(arena, int, graph->tensor_count);
    int *seen_output = ARENA_NEW(arena, int, graph->tensor_count);
    const struct graph_fault *fault = NULL;
    for (int i = 0; i < graph->tensor_count; i++) {
        graph->tensors[i].producer = -1;
    }
    for (int i = 0; i < graph->operator_count && !fault; i++) {
        fault = check_operator(arena, graph, i, seen_input, seen_output);
    }
    if (!fault) fault = check_sizes(arena, graph);
    for (int i = 0; i < graph->tensor_count && !fault; i++) {
        fault = check_sharing(arena, graph, i);
    }
    if (!fault) fault = set_storages(arena, graph);
    if (!fault) fault = check_overwriting(arena, graph);
    return fault;
}

// Files come in any order: faults are told of the graph as it was given, then it is sorted.
const struct graph_fault *graph_finish(struct arena *arena, struct memory_graph *graph)
{
    const struct graph_fault *fault = check(arena, graph);
    return fault ? fault : graph_sort(arena, graph);
}

bool memory_graph_finish(struct arena *arena, struct memory_graph *graph, const char *place,
                         struct err *err)
{
    const struct graph_fault *fault = graph_finish(arena, graph);
    return !fault || err_set(err, ERR_INPUT, "%s: %s", place, fault->text);
}
