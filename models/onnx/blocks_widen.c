#include "models/onnx/blocks_graph.h"

#include <string.h>

// Joins of more tensors than an operator has gradients for, as a join of the first few, another of
// that and the next ones, and so on.

enum { JOINED_MOST = 6 };  // each of them has a gradient: as many as an operator writes

static bool is_wide(const struct onnx_node *node)
{
    return node->pass == ONNX_FORWARD && strcmp(node->type, "Concat") == 0 &&
           node->input_count > JOINED_MOST;
}

// The dimension along which the inputs stand side by side.
static int joined_dim(const struct onnx_graph *graph, const struct onnx_node *node)
{
    const struct onnx_tensor *whole = &graph->tensors[node->outputs[0]];
    for (int d = 0; d < whole->rank; d++) {
        int64_t sum = 0;
        for (int i = 0; i < node->input_count; i++)
            sum += graph->tensors[node->inputs[i]].dims[d];
        if (sum == whole->dims[d] && graph->tensors[node->inputs[0]].dims[d] != sum) return d;
    }
    return 0;
}

static int add_part(struct arena *arena, struct onnx_graph *wide, const struct onnx_node *node,
                    const int *inputs, int dim)
{
    const struct onnx_tensor *whole = &wide->tensors[node->outputs[0]];
    struct onnx_tensor part = *whole;
    int64_t *dims = ARENA_COPY(arena, int64_t, whole->dims, part.rank);
    dims[dim] = 0;
    for (int i = 0; i < JOINED_MOST; i++)
        dims[dim] += wide->tensors[inputs[i]].dims[dim];
    part.dims = dims;
    part.bytes = whole->bytes / whole->dims[dim] * dims[dim];
    part.is_output = part.overwrites = false;
    part.shares = -1;
    part.name = arena_print(arena, "%s.part%d", whole->name, wide->tensor_count);
    wide->tensors[wide->tensor_count] = part;
    return wide->tensor_count++;
}

static void split_node(struct arena *arena, struct onnx_graph *wide, const struct onnx_node *node)
{
    int dim = joined_dim(wide, node), before = -1, at = 0;
    while (at < node->input_count) {
        int *inputs = ARENA_NEW(arena, int, JOINED_MOST), count = 0;
        if (before >= 0) inputs[count++] = before;
        while (count < JOINED_MOST && at < node->input_count)
            inputs[count++] = node->inputs[at++];
        struct onnx_node part = *node;
        part.inputs = inputs;
        part.input_count = count;
        if (at < node->input_count) {
            int *output = ARENA_NEW(arena, int, 1);
            *output = before = add_part(arena, wide, node, inputs, dim);
            part.name = arena_print(arena, "%s.part%d", node->name, at);
            part.outputs = output;
        }
        wide->nodes[wide->node_count++] = part;
    }
}

const struct onnx_graph *blocks_widen(struct arena *arena, const struct onnx_graph *graph)
{
    int extra = 0;
    for (int n = 0; n < graph->node_count; n++)
        if (is_wide(&graph->nodes[n])) extra += graph->nodes[n].input_count;
    if (extra == 0) return graph;
    struct onnx_graph *wide = ARENA_NEW(arena, struct onnx_graph, 1);
    *wide = *graph;
    wide->tensors = ARENA_NEW(arena, struct onnx_tensor, graph->tensor_count + extra);
    wide->nodes = ARENA_NEW(arena, struct onnx_node, graph->node_count + extra);
    memcpy(wide->tensors, graph->tensors, (size_t)graph->tensor_count * sizeof *wide->tensors);
    wide->node_count = 0;
    for (int n = 0; n < graph->node_count; n++) {
        if (is_wide(&graph->nodes[n]))
            split_node(arena, wide, &graph->nodes[n]);
        else
            wide->nodes[wide->node_count++] = graph->nodes[n];
    }
    return wide;
}
