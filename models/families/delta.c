#include "models/families/layers.h"

#include <assert.h>

// The gated delta rule as a mixer (transformers' Qwen3NextGatedDeltaNet): projections to q, k and
// v, which pass through a convolution, to the gate z, to the steps and to beta; the recurrence
// (models/op_delta.h); a norm of each head's result, and what the gate leaves of it; the projection
// out. The matrices that published models have for several of them are written as their
// parts, as those of models/families/scan.c. Kimi Linear (KimiLinearDeltaAttention) has steps for
// each channel, and projects to them and to its gate, a sigmoid, by way of a low rank.

static struct shape by_head(const struct scan_sizes *scan)
{
    assert(scan->head_count > 0 && scan->head_dim > 0);
    return SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_HEAD, scan->head_count},
                 {DIM_HEAD_DIM, scan->head_dim});
}

static int mixed(struct layers *layers, int input, const char *part, struct shape shape)
{
    struct arena *arena = layers->builder.arena;
    const char *name = arena_print(arena, "scan.%s", part);
    const char *convolved = arena_print(arena, "scan.%s_conv", part);
    return layers_scan_convolve(layers, convolved, layers_scan_project(layers, input, name, shape));
}

// To the heads by way of as many numbers as a head has.
static int by_low_rank(struct layers *layers, int input, const char *name, struct shape output)
{
    const struct decoder *d = layers->decoder;
    struct extent rank = {DIM_RANK, d->scan.head_dim};
    const char *low_name = arena_print(layers->builder.arena, "%s_a", name);
    struct shape low_shape = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, rank);
    int low = layers_scan_project(layers, input, low_name, low_shape);
    struct projection up = {.name = name,
                            .weight = SHAPE(rank, output.extents[2], output.extents[3]),
                            .output = output};
    return layers_project(layers, low, up);
}

// What the kernels of FLA and transformers add to the square of a key's length.
static const double LENGTH_EPSILON = 1e-6;

static int recur(struct layers *layers, int v, int steps, int k, int q, int beta)
{
    assert(layers->decoder->scan.head_count % layers->decoder->scan.group_count == 0);
    const struct scan_sizes *scan = &layers->decoder->scan;
    int a_log =
        layers_parameter(layers, "scan", "a_log", SHAPE({DIM_HEAD, scan->head_count}), NULL);
    int y = layers_activation(layers, "scan.core", by_head(scan));
    struct op op = {.name = "scan.core",
                    .kind = OP_DELTA,
                    .scalar = LENGTH_EPSILON,
                    .chunk = scan->chunk,
                    .input_count = 6,
                    .output_count = 1,
                    .inputs = {v, steps, k, q, a_log, beta},
                    .outputs = {y}};
    builder_op(&layers->builder, op);
    return y;
}

int layers_delta(struct layers *layers, int input)
{
    assert(layers->decoder->scan.rule == SCAN_DELTA ||
           layers->decoder->scan.rule == SCAN_DELTA_CHANNELS);
    const struct decoder *d = layers->decoder;
    const struct scan_sizes *scan = &d->scan;
    struct shape keys = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_KV_HEAD, scan->group_count},
                              {DIM_STATE, scan->state});
    struct shape by_token = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_HEAD, scan->head_count});
    struct shape by_channel =
        SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_HEAD, scan->head_count}, {DIM_STATE, scan->state});
    bool is_low = scan->rule == SCAN_DELTA_CHANNELS;
    int q = mixed(layers, input, "q", keys);
    int k = mixed(layers, input, "k", keys);
    int v = mixed(layers, input, "v", by_head(scan));
    int z = is_low ? by_low_rank(layers, input, "scan.z", by_head(scan))
                   : layers_scan_project(layers, input, "scan.z", by_head(scan));
    int dt = is_low ? by_low_rank(layers, input, "scan.dt", by_channel)
                    : layers_scan_project(layers, input, "scan.dt", by_token);
    int steps = layers_scan_steps(layers, dt);
    int beta = layers_scan_project(layers, input, "scan.b", by_token);
    beta = layers_function(layers, "scan.beta", beta, FUNCTION_SIGMOID, 1);
    if (scan->beta_is_doubled)
        beta = layers_function(layers, "scan.beta_doubled", beta, FUNCTION_SCALE, 2);
    int y = recur(layers, v, steps, k, q, beta);
    y = layers_norm_over(layers, "scan.out_norm", y, SHAPE({DIM_HEAD_DIM, scan->head_dim}));
    struct block *block = layers->builder.block;
    if (scan->out_epsilon > 0) block->ops[block->op_count - 1].scalar = scan->out_epsilon;
    y = layers_gate(layers, "scan.gate", z, y, is_low ? FUNCTION_SIGMOID : FUNCTION_SILU, 1);
    return layers_scan_out(layers, y);
}
