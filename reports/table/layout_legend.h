#pragma once
#include "cost_models/stack.h"

// What the words of a layout ("tp2 sp pp8 dp4 mb1 z1 v5") mean, for below the first table that
// shows layouts. Only the words that were met are explained. A zeroed one has met none.
struct layout_legend {
    bool seen[AXIS_COUNT];
    bool sp, zero_group, zero_parts, vpp, schedule, recompute, per_op, recompute_layers, offload,
        unfused, lora, loss, passes, relay, overlap, bucket, uneven, batches, meshes, branches,
        laid_out, order;
    bool any;
};

// What a plan computes otherwise than its stack does by itself; without a stack it is not known.
bool parallel_is_unfused(const struct parallel *parallel, const struct stack *stack);
bool parallel_has_other_passes(const struct parallel *parallel, const struct stack *stack);

void layout_legend_meet(struct layout_legend *legend, const struct parallel *parallel,
                        const struct stack *stack);
// One line, with its end; "" where no layout was met.
const char *layout_legend_text(struct arena *arena, const struct layout_legend *legend);
