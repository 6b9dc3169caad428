#include "models/families/layers.h"

#include <assert.h>

// Products with matrices of blocks along the diagonal, as convolutions over one place with groups
// are (squeezebert): each group of neighbouring inputs makes a group of neighbouring outputs.

// Numbers of a token.
static int64_t width_of(struct shape shape)
{
    int64_t width = 1;
    assert(shape.extents[0].dim == DIM_BATCH && shape.extents[1].dim == DIM_SEQ);
    for (int i = 2; i < TENSOR_RANK_MAX && shape.extents[i].dim; i++)
        width *= shape.extents[i].size;
    return width;
}

static struct shape grouped(struct shape of, struct extent group, struct extent each)
{
    return SHAPE(of.extents[0], of.extents[1], group, each);
}

int layers_project_groups(struct layers *layers, int input, struct projection projection)
{
    struct arena *arena = layers->builder.arena;
    const char *name = projection.name;
    struct shape from = builder_shape(&layers->builder, input), to = projection.output;
    struct extent group = {DIM_TABLE, projection.groups};
    struct extent in = {DIM_CHANNEL, width_of(from) / group.size};
    struct extent out = {DIM_OUT_CHANNEL, width_of(to) / group.size};
    assert(in.size * group.size == width_of(from) && out.size * group.size == width_of(to));
    int x = layers_flatten(layers, arena_print(arena, "%s.groups", name), input,
                           grouped(from, group, in));
    struct projection product = {.name = name,
                                 .weight = SHAPE(group, in, out),
                                 .output = grouped(to, group, out),
                                 .class = projection.class};
    x = layers_project(layers, x, product);
    x = layers_flatten(layers, arena_print(arena, "%s.joined", name), x, to);
    return layers_add_bias(layers, x, &projection);
}
