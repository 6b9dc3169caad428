#include "models/families/layers.h"

#include <assert.h>
#include <string.h>

// Lightning attention (Qin et al. 2024, arXiv 2401.04658; transformers' MiniMaxLightningAttention):
// projections to q, k and v, each through the activation; the sum of what all tokens before said,
// which decays by a rate that is the head's and the layer's (models/op_scan.h, a steady scan); a
// norm of what all heads make of a token; what a sigmoid gate leaves of it; the projection out. The
// one matrix that published models have for q, k and v of each head is written as its parts.

static int activated(struct layers *layers, int input, const char *part, struct shape shape)
{
    struct arena *arena = layers->builder.arena;
    int made = layers_scan_project(layers, input, arena_print(arena, "scan.%s", part), shape);
    return layers_function(layers, arena_print(arena, "scan.%s_active", part), made,
                           layers->decoder->scan.activation, 1);
}

static int decayed_sum(struct layers *layers, int v, int k, int q)
{
    const struct scan_sizes *scan = &layers->decoder->scan;
    struct shape heads = SHAPE({DIM_HEAD, scan->head_count});
    int rates = layers_parameter(layers, "scan", "rates", heads, NULL);
    layers->builder.block->tensors[rates].is_fixed = true;
    int y = layers_activation(layers, "scan.core", builder_shape(&layers->builder, v));
    struct op op = {.name = "scan.core",
                    .kind = OP_SCAN,
                    .scalar = 1,
                    .chunk = scan->chunk,
                    .input_count = 4,
                    .output_count = 1,
                    .inputs = {v, k, q, rates},
                    .outputs = {y}};
    builder_op(&layers->builder, op);
    return y;
}

int layers_lightning(struct layers *layers, int input)
{
    assert(layers->decoder->scan.rule == SCAN_STEADY);
    const struct scan_sizes *scan = &layers->decoder->scan;
    struct shape heads = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_HEAD, scan->head_count},
                               {DIM_HEAD_DIM, scan->head_dim});
    struct shape keys = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_KV_HEAD, scan->group_count},
                              {DIM_STATE, scan->state});
    int q = activated(layers, input, "q", keys);
    int k = activated(layers, input, "k", keys);
    int v = activated(layers, input, "v", heads);
    int y = decayed_sum(layers, v, k, q);
    y = layers_context_norm(layers, "scan.out_norm", y);
    struct block *block = layers->builder.block;
    block->ops[block->op_count - 1].scalar = scan->out_epsilon;
    int gate = layers_scan_project(layers, input, "scan.gate", heads);
    y = layers_gate(layers, "scan.gated", gate, y, FUNCTION_SIGMOID, 1);
    return layers_scan_out(layers, y);
}
