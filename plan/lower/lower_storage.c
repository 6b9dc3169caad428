#include "plan/lower/lowering.h"
#include "plan/passes.h"

#include <assert.h>

// Parameters that are stored otherwise than they are computed with: in shards (ZeRO), or on the
// host.

unsigned lowering_shard_axes(const struct lowering *low, enum parameter_kind kind,
                             enum stored stored)
{
    return mesh_shard_axes(low->mesh, low->request->parallel, kind, stored);
}

static enum stored stored_at(int zero)
{
    assert(zero == 2 || zero == 3);
    return zero == 3 ? STORED_WEIGHTS : STORED_GRADIENTS;
}

// The block's parameters of a kind or their gradients as one flat buffer, whole on every rank,
// partial, or split over the axes that ZeRO shards.
static struct layout flat_layout(const struct lowering *low, unsigned axes, int8_t of)
{
    struct layout layout = {.of = {0}};
    for (int i = 0; i < low->mesh->axis_count; i++) {
        if (axes >> i & 1) layout.of[i] = of;
    }
    return layout;
}

static int64_t flat_bytes(const struct lowering *low, enum parameter_kind kind)
{
    int64_t elements = 0;
    for (int i = 0; i < low->program->parameter_count; i++) {
        const struct parameter *parameter = &low->program->parameters[i];
        if (parameter->kind == kind) elements += parameter->elements;
    }
    return elements * lowering_element_bytes(low, ELEMENT_COMPUTE);
}

// Whether micro-batches find the weights (ZeRO 3) or leave their gradients (2 and 3) in shards.
bool lowering_is_sharded(const struct lowering *low, int zero, enum parameter_kind kind)
{
    const struct parallel *parallel = low->request->parallel;
    if (zero == 2 && parallel->accumulates) return false;
    if (zero < 3 && !parameter_kind_is_trained(kind)) return false;
    return parallel->zero >= zero && lowering_shard_axes(low, kind, stored_at(zero)) != 0;
}

// Without the combine pass each parameter is a collective of its own.
static void change_each(struct lowering *low, enum parameter_kind kind, const struct layout *before,
                        const struct layout *after)
{
    for (int i = 0; i < low->program->parameter_count; i++) {
        const struct parameter *parameter = &low->program->parameters[i];
        if (parameter->kind != kind) continue;
        int64_t bytes = parameter->elements * lowering_element_bytes(low, ELEMENT_COMPUTE);
        lowering_flat_change(low, bytes, before, after);
    }
}

static void change_flat(struct lowering *low, int zero, int8_t from, int8_t to)
{
    assert(from != to);
    for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++) {
        enum parameter_kind of = (enum parameter_kind)kind;
        int64_t bytes = flat_bytes(low, of);
        if (bytes == 0 || !lowering_is_sharded(low, zero, of)) continue;
        unsigned axes = lowering_shard_axes(low, of, stored_at(zero));
        struct layout before = flat_layout(low, axes, from), after = flat_layout(low, axes, to);
        if (pass_is_on(low->request->parallel, PASS_COMBINE)) {
            lowering_flat_change(low, bytes, &before, &after);
        } else {
            change_each(low, of, &before, &after);
        }
    }
}

// In one copy, or without the combine pass in one of each.
static void fetch_parameters(struct lowering *low)
{
    for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++) {
        int64_t bytes = flat_bytes(low, (enum parameter_kind)kind);
        bool is_combined = pass_is_on(low->request->parallel, PASS_COMBINE);
        if (is_combined && bytes > 0) lowering_fetch(low, bytes);
        for (int i = 0; i < low->program->parameter_count && !is_combined; i++) {
            const struct parameter *parameter = &low->program->parameters[i];
            if ((int)parameter->kind != kind) continue;
            lowering_fetch(low, parameter->elements * lowering_element_bytes(low, ELEMENT_COMPUTE));
        }
    }
}

// Stored split, computed with whole; or stored elsewhere.
void lowering_gather_parameters(struct lowering *low)
{
    if (offload_moves_parameters(&low->request->parallel->offload)) return fetch_parameters(low);
    change_flat(low, 3, DIM_FLAT, LAYOUT_WHOLE);
}

// Made partial, stored split.
void lowering_scatter_gradients(struct lowering *low)
{
    change_flat(low, 2, LAYOUT_SUM, DIM_FLAT);
}
