#include "models/families/layers.h"

#include <assert.h>

// The mixer of Mamba-1 (Gu and Dao 2023, arXiv 2312.00752, section 3.4; transformers' MambaMixer,
// FalconMambaMixer and JambaMambaMixer): projections to the gate z and to x, which passes through a
// convolution; from that, B, C and by way of a low rank the steps of each channel, all of which may
// be normed first; the scan, the gate and the projection out. A head is a channel, without a dim
// for its width, and A has a number for each of its state.

enum { MERGE_SCAN = 4, MERGE_LOW = 8 };

static int lower(struct layers *layers, int x, const char *name, struct extent width)
{
    const struct scan_sizes *scan = &layers->decoder->scan;
    struct projection projection = {.name = name,
                                    .weight = SHAPE({DIM_HEAD, scan->head_count}, width),
                                    .output = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, width),
                                    .merge = MERGE_LOW};
    int low = layers_project(layers, x, projection);
    if (scan->low_epsilon <= 0) return low;
    struct arena *arena = layers->builder.arena;
    struct shape last = {0};
    if (!scan->low_is_plain) last.extents[0] = width;
    low = layers_norm_over(layers, arena_print(arena, "%s_norm", name), low, last);
    struct block *block = layers->builder.block;
    block->ops[block->op_count - 1].scalar = scan->low_epsilon;
    return low;
}

int layers_selective(struct layers *layers, int input)
{
    assert(layers->decoder->scan.step_rank > 0 && layers->decoder->scan.state > 0);
    const struct scan_sizes *scan = &layers->decoder->scan;
    struct extent head = {DIM_HEAD, scan->head_count};
    struct extent rank = {DIM_RANK, scan->step_rank}, state = {DIM_STATE, scan->state};
    struct shape channels = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, head);
    int z = layers_scan_project(layers, input, "scan.z", channels);
    int x = layers_scan_project(layers, input, "scan.x", channels);
    x = layers_scan_convolve(layers, "scan.x_conv", x);
    int low = lower(layers, x, "scan.dt_a", rank);
    int b = lower(layers, x, "scan.b", state), c = lower(layers, x, "scan.c", state);
    struct projection up = {.name = "scan.dt", .weight = SHAPE(rank, head), .output = channels};
    int steps = layers_scan_steps(layers, layers_project(layers, low, up));
    int y = layers_scan_core(layers, x, steps, b, c, SHAPE(head, state));
    y = layers_gate(layers, "scan.gate", z, y, FUNCTION_SILU, 1);
    return layers_scan_out(layers, y);
}
