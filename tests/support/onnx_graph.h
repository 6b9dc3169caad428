#pragma once
#include "tests/support/test.h"

#include "models/onnx.h"

// Graphs of imported files, for tests that count their operators.

static inline struct onnx_graph *graph_of(struct arena *arena, const char *path, bool training)
{
    struct err err = {0};
    const struct onnx_options options = {.training = training, .moment_count = 2};
    struct onnx_graph *graph = onnx_load(arena, path, &options, &err);
    assert_string_equal(err.text, "");
    return graph;
}

// Forward operators of a type.
static inline int count_of(const struct onnx_graph *graph, const char *type)
{
    int count = 0;
    for (int n = 0; n < graph->node_count; n++)
        count += graph->nodes[n].pass == ONNX_FORWARD && strcmp(graph->nodes[n].type, type) == 0;
    return count;
}
