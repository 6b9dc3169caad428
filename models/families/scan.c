#include "models/families/layers.h"

#include <assert.h>

// The mixer of Mamba-2 (Dao and Gu 2024, arXiv 2405.21060, section 7; transformers' Mamba2Mixer):
// projections to the gate z, to x, B and C, which pass through a convolution, and to the steps dt;
// the scan; a norm of what the gate leaves, by groups; the projection out. The one matrix that
// published models have for all projections in, and the one convolution, are written as their
// parts, so that what tensor parallel ranks split is a dim of its own.

enum { MERGE_SCAN = 4 };

static struct shape by_head(const struct scan_sizes *scan)
{
    assert(scan->head_count > 0);
    struct shape shape = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_HEAD, scan->head_count});
    if (scan->head_dim > 0) shape.extents[3] = (struct extent){DIM_HEAD_DIM, scan->head_dim};
    return shape;
}

static struct shape by_group(const struct scan_sizes *scan)
{
    assert(scan->group_count > 0 && scan->state > 0);
    return SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_KV_HEAD, scan->group_count},
                 {DIM_STATE, scan->state});
}

// The channels of heads and one dim more; heads may have no width.
static struct shape before(struct extent head, struct extent width, struct extent last)
{
    return width.dim ? SHAPE(head, width, last) : SHAPE(head, last);
}

int layers_scan_project(struct layers *layers, int input, const char *name, struct shape output)
{
    assert(output.extents[1].dim == DIM_SEQ && output.extents[2].dim != DIM_NONE);
    const struct decoder *d = layers->decoder;
    struct shape weight = SHAPE({DIM_HIDDEN, d->hidden}, output.extents[2], output.extents[3]);
    struct projection projection = {.name = name,
                                    .weight = weight,
                                    .output = output,
                                    .merge = MERGE_SCAN,
                                    .bias = d->scan.bias};
    return layers_project(layers, input, projection);
}

int layers_scan_convolve(struct layers *layers, const char *name, int input)
{
    assert(layers->decoder->scan.taps > 0);
    const struct scan_sizes *scan = &layers->decoder->scan;
    struct shape shape = builder_shape(&layers->builder, input);
    struct extent first = shape.extents[2], last = shape.extents[3];
    struct op op = {.name = name,
                    .kind = OP_CONV,
                    .function = scan->activation,
                    .scalar = 1,
                    .input_count = 2,
                    .output_count = 1,
                    .inputs = {input}};
    op.inputs[1] = layers_parameter(
        layers, name, "weight", before(first, last, (struct extent){DIM_TAP, scan->taps}), NULL);
    if (scan->conv_bias) {
        op.inputs[op.input_count++] =
            layers_parameter(layers, name, "bias", SHAPE(first, last), NULL);
    }
    op.outputs[0] = layers_activation(layers, name, shape);
    builder_op(&layers->builder, op);
    return op.outputs[0];
}

int layers_scan_steps(struct layers *layers, int projected)
{
    const struct scan_sizes *scan = &layers->decoder->scan;
    struct shape shape = builder_shape(&layers->builder, projected);
    int bias = layers_parameter(layers, "scan.step", "bias",
                                SHAPE(shape.extents[2], shape.extents[3]), NULL);
    int shifted = layers_add(layers, "scan.shifted", projected, bias);
    double least = scan->step_min > 0 ? scan->step_min : -1;
    return layers_function(layers, "scan.steps", shifted, FUNCTION_SOFTPLUS, least);
}

int layers_scan_core(struct layers *layers, int x, int dt, int b, int c, struct shape rates)
{
    const struct scan_sizes *scan = &layers->decoder->scan;
    int a_log = layers_parameter(layers, "scan", "a_log", rates, NULL);
    int d = layers_parameter(layers, "scan", "d", SHAPE({DIM_HEAD, scan->head_count}), NULL);
    int y = layers_activation(layers, "scan.core", by_head(scan));
    struct op op = {.name = "scan.core",
                    .kind = OP_SCAN,
                    .scalar = 1,
                    .chunk = scan->chunk,
                    .input_count = 6,
                    .output_count = 1,
                    .inputs = {x, dt, b, c, a_log, d},
                    .outputs = {y}};
    builder_op(&layers->builder, op);
    return y;
}

static int group_norm(struct layers *layers, int input)
{
    assert(layers->decoder->scan.head_count % layers->decoder->scan.norm_groups == 0);
    const struct scan_sizes *scan = &layers->decoder->scan;
    struct shape shape = by_head(scan), last = SHAPE(shape.extents[2], shape.extents[3]);
    int output = layers_norm_over(layers, "scan.gate_norm", input, last);
    struct block *block = layers->builder.block;
    block->ops[block->op_count - 1].groups = scan->norm_groups;
    return output;
}

int layers_scan_out(struct layers *layers, int y)
{
    const struct decoder *d = layers->decoder;
    struct shape heads = by_head(&d->scan);
    struct projection out = {
        .name = "scan.out",
        .weight =
            before(heads.extents[2], heads.extents[3], (struct extent){DIM_HIDDEN, d->hidden}),
        .output = layers_tokens(DIM_HIDDEN, d->hidden),
        .bias = d->scan.bias,
    };
    return layers_project(layers, y, out);
}

int layers_scan(struct layers *layers, int input)
{
    const struct scan_sizes *scan = &layers->decoder->scan;
    if (scan->rule == SCAN_MAMBA1) return layers_selective(layers, input);
    assert(scan->head_count % scan->group_count == 0);
    if (scan->rule == SCAN_CONV) return layers_short_conv(layers, input);
    if (scan->rule == SCAN_STEADY) return layers_lightning(layers, input);
    if (scan->rule != SCAN_MAMBA2) return layers_delta(layers, input);
    int z = layers_scan_project(layers, input, "scan.z", by_head(scan));
    int x = layers_scan_project(layers, input, "scan.x", by_head(scan));
    int b = layers_scan_project(layers, input, "scan.b", by_group(scan));
    int c = layers_scan_project(layers, input, "scan.c", by_group(scan));
    struct shape by_token = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_HEAD, scan->head_count});
    int dt = layers_scan_steps(layers, layers_scan_project(layers, input, "scan.dt", by_token));
    x = layers_scan_convolve(layers, "scan.x_conv", x);
    b = layers_scan_convolve(layers, "scan.b_conv", b);
    c = layers_scan_convolve(layers, "scan.c_conv", c);
    int y = layers_scan_core(layers, x, dt, b, c, SHAPE({DIM_HEAD, scan->head_count}));
    y = layers_gate(layers, "scan.gate", z, y, FUNCTION_SILU, 1);
    if (scan->norm_groups > 0) y = group_norm(layers, y);
    return layers_scan_out(layers, y);
}
