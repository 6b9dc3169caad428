#include "models/onnx/sequence.h"

#include <string.h>

enum { PARTS_MOST = 1 << 10 };

static bool is(const Onnx__NodeProto *node, const char *type)
{
    return node->op_type && strcmp(node->op_type, type) == 0;
}

static bool has_one(const Onnx__TensorProto *tensor)
{
    return tensor && tensor->data_type == 7 && tensor->n_dims == 0;
}

// The whole number that a constant is; -1: it is none, or one below 0.
static int64_t number_of(const Onnx__GraphProto *graph, const char *name)
{
    const Onnx__TensorProto *found = NULL;
    int64_t number = -1;
    for (size_t i = 0; i < graph->n_initializer && !found; i++) {
        const char *own = graph->initializer[i]->name;
        if (own && strcmp(own, name) == 0) found = graph->initializer[i];
    }
    for (size_t i = 0; i < graph->n_node && !found; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        bool is_it = is(node, "Constant") && node->n_output == 1 && node->n_attribute == 1 &&
                     strcmp(node->output[0], name) == 0;
        if (is_it && node->attribute[0]->has_i) return node->attribute[0]->i;
        if (is_it) found = node->attribute[0]->t;
    }
    if (!has_one(found)) return -1;
    if (found->n_int64_data == 1) return found->int64_data[0];
    if (found->has_raw_data && found->raw_data.len == sizeof number)
        memcpy(&number, found->raw_data.data, sizeof number);
    return number;
}

// The outputs in the place of a sequence, by its parts; NULL: not all readers ask for one of them.
static char **parts_of(struct arena *arena, const Onnx__GraphProto *graph, const char *sequence,
                       size_t *count)
{
    char **parts = ARENA_NEW(arena, char *, PARTS_MOST);
    *count = 0;
    for (size_t i = 0; i < graph->n_node; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        for (size_t j = 0; j < node->n_input; j++) {
            if (strcmp(node->input[j], sequence) != 0) continue;
            bool asks = is(node, "SequenceAt") && j == 0 && node->n_input == 2;
            int64_t at = asks ? number_of(graph, node->input[1]) : -1;
            if (at < 0 || at >= PARTS_MOST || parts[at] || node->n_output != 1) return NULL;
            parts[at] = node->output[0];
            if (*count <= (size_t)at) *count = (size_t)at + 1;
        }
    }
    for (size_t i = 0; i < *count; i++)
        if (!parts[i]) parts[i] = arena_print(arena, "%s.%zu", sequence, i);
    return *count ? parts : NULL;
}

const Onnx__GraphProto *sequences_split(struct arena *arena, const Onnx__GraphProto *graph)
{
    Onnx__GraphProto *made = ARENA_COPY(arena, Onnx__GraphProto, graph, 1);
    made->node = ARENA_NEW(arena, Onnx__NodeProto *, graph->n_node);
    made->n_node = 0;
    bool has_any = false, is_all = true;
    for (size_t i = 0; i < graph->n_node; i++) {
        Onnx__NodeProto *node = graph->node[i];
        if (is(node, "SequenceAt")) continue;
        made->node[made->n_node++] = node;
        if (!is(node, "SplitToSequence")) continue;
        has_any = true;
        Onnx__NodeProto *split = ARENA_COPY(arena, Onnx__NodeProto, node, 1);
        bool is_sized = node->n_output == 1 && node->n_input == 2;
        char **parts = is_sized ? parts_of(arena, graph, node->output[0], &split->n_output) : NULL;
        is_all = is_all && parts;
        split->op_type = "Split";
        split->output = parts;
        made->node[made->n_node - 1] = split;
    }
    return has_any && is_all ? made : graph;
}
