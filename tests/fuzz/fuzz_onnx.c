// libFuzzer: whatever the bytes, reading a model ends with a graph whose indices hold or one line.
#include "core/arena.h"
#include "models/onnx.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_graph(const struct onnx_graph *graph)
{
    for (int i = 0; i < graph->tensor_count; i++) {
        assert(graph->tensors[i].bytes >= 0);
        assert(graph->tensors[i].shares < graph->tensor_count && graph->tensors[i].shares != i);
    }
    for (int i = 0; i < graph->node_count; i++) {
        const struct onnx_node *node = &graph->nodes[i];
        for (int j = 0; j < node->input_count; j++)
            assert(node->inputs[j] >= 0 && node->inputs[j] < graph->tensor_count);
        for (int j = 0; j < node->output_count; j++)
            assert(node->outputs[j] >= 0 && node->outputs[j] < graph->tensor_count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1 << 15) return 0;
    for (int i = 0; i < 2; i++) {
        struct arena arena = {0};
        struct err err = {0};
        struct onnx_options options = {.batch = i ? 4 : 0, .training = i == 1, .moment_count = 2};
        const struct onnx_graph *graph = onnx_read(&arena, "fuzz.onnx", data, size, &options, &err);
        assert((graph != NULL) == (err.kind == ERR_NONE));
        assert(!strchr(err.text, '\n'));
        if (graph) check_graph(graph);
        arena_free(&arena);
    }
    return 0;
}
