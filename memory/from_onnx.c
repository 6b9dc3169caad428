#include "memory/from_onnx.h"

#include <assert.h>

static bool has_backward(const struct onnx_graph *onnx)
{
    for (int i = 0; i < onnx->node_count; i++) {
        if (onnx->nodes[i].pass != ONNX_FORWARD) return true;
    }
    return false;
}

// Without a backward pass outputs are the caller's and stay to the end.
struct memory_graph *memory_graph_from_onnx(struct arena *arena, const char *place,
                                            const struct onnx_graph *onnx, struct err *err)
{
    struct memory_graph *graph = ARENA_NEW(arena, struct memory_graph, 1);
    graph->name = onnx->name;
    graph->tensor_count = onnx->tensor_count;
    graph->operator_count = onnx->node_count;
    graph->tensors = ARENA_NEW(arena, struct memory_tensor, onnx->tensor_count);
    graph->operators = ARENA_NEW(arena, struct memory_operator, onnx->node_count);
    bool keeps_outputs = !has_backward(onnx);
    for (int i = 0; i < onnx->tensor_count; i++) {
        const struct onnx_tensor *tensor = &onnx->tensors[i];
        graph->tensors[i] = (struct memory_tensor){
            .name = tensor->name,
            .bytes = tensor->bytes,
            .shares = tensor->shares,
            .overwrites = tensor->overwrites,
            .persistent = tensor->role == ONNX_PARAMETER || tensor->role == ONNX_STATE,
            .kept = tensor->is_output && keeps_outputs,
        };
    }
    for (int i = 0; i < onnx->node_count; i++) {
        const struct onnx_node *node = &onnx->nodes[i];
        assert(node->input_count >= 0 && node->output_count >= 0);
        graph->operators[i] = (struct memory_operator){
            .name = node->name,
            .inputs = node->inputs,
            .outputs = node->outputs,
            .input_count = node->input_count,
            .output_count = node->output_count,
            .update = node->pass == ONNX_UPDATE,
        };
    }
    return memory_graph_finish(arena, graph, place, err) ? graph : NULL;
}
