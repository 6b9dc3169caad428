#include "models/onnx/blocks_graph.h"

#include <string.h>

// What is made of weights alone: tables of positions, biases by distance, weights over their norms.

static void add_source(struct blocks_graph *b, int tensor, int weight)
{
    for (const struct blocks_source *at = b->sources[tensor]; at; at = at->next)
        if (at->weight == weight) return;
    struct blocks_source *source = ARENA_NEW(b->arena, struct blocks_source, 1);
    *source = (struct blocks_source){.next = b->sources[tensor], .weight = weight};
    b->sources[tensor] = source;
}

// Rows that every sample is given, as the queries of a detector: from there on each has its own.
// One row, as the token of a class, is joined to those of a sample by what reads it.
static bool is_given_out(const struct blocks_graph *b, const struct onnx_node *node)
{
    if (strcmp(node->type, "Expand") != 0 && strcmp(node->type, "Tile") != 0) return false;
    const struct onnx_tensor *from = &b->graph->tensors[node->inputs[0]];
    const struct onnx_tensor *to = &b->graph->tensors[node->outputs[0]];
    bool is_batch = b->batch > 1 && to->rank > 1 && to->dims[0] == b->batch;
    return is_batch && to->bytes == b->batch * from->bytes &&
           from->bytes > from->dims[from->rank - 1] * from->element_bytes;
}

bool blocks_derive(struct blocks_graph *b, const struct onnx_node *node)
{
    int largest = -1;
    if (is_given_out(b, node)) return false;
    for (int i = 0; i < node->input_count; i++) {
        int root = b->root[node->inputs[i]];
        if (blocks_is_constant(b, root)) continue;
        if (!b->is_trained[root]) return false;
        bool is_larger = largest < 0 || blocks_elements(b, root) > blocks_elements(b, largest);
        if (is_larger) largest = root;
    }
    if (largest < 0) return false;
    if (node->output_count == 1 && b->root[node->inputs[0]] == largest)
        b->view[node->outputs[0]] = node;
    for (int o = 0; o < node->output_count; o++) {
        int made = node->outputs[o];
        b->root[made] = largest;
        b->is_derived[made] = true;
        if (o == 0) b->derived_flop[made] = node->flop;
        for (int i = 0; i < node->input_count; i++) {
            int tensor = node->inputs[i];
            if (blocks_is_constant(b, b->root[tensor])) continue;
            if (!b->is_derived[tensor]) add_source(b, made, b->root[tensor]);
            for (const struct blocks_source *at = b->sources[tensor]; at; at = at->next)
                add_source(b, made, at->weight);
            if (o == 0) b->derived_flop[made] += b->derived_flop[tensor];
        }
    }
    return true;
}

bool blocks_take_derived(struct blocks_graph *b, struct blocks_operator *op, int i)
{
    int tensor = op->node->inputs[i];
    double flop = b->derived_flop[tensor] / (double)b->batch;
    op->is_derived = true;
    if (blocks_is_product(op->node)) {
        op->flop += flop;
        op->backward_flop += 2 * flop;  // of both factors, as of any product
    }
    for (const struct blocks_source *at = b->sources[tensor]; at; at = at->next) {
        bool is_there = false;
        for (int k = 0; k < op->input_count; k++)
            is_there = is_there || op->inputs[k] == at->weight;
        if (is_there) continue;
        if (op->input_count == INPUTS_MOST) return blocks_fail(b, op->node, "more than 8 inputs");
        op->inputs[op->input_count++] = at->weight;
    }
    return true;
}
