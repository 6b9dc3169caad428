#include "tests/support/random_growth.h"

#include "core/arena.h"

#include <assert.h>
#include <string.h>

const char *growth_fresh(struct growth *g, const char *stem)
{
    return arena_print(g->arena, "%s%d", stem, g->name_count++);
}

const struct tensor *growth_tensor_at(const struct growth *g, int tensor)
{
    return &g->builder.block->tensors[tensor];
}

int growth_parameter(struct growth *g, struct shape shape)
{
    return builder_tensor(&g->builder, growth_fresh(g, "w"), TENSOR_PARAMETER, ELEMENT_COMPUTE,
                          shape);
}

int growth_activation(struct growth *g, struct shape shape)
{
    return builder_tensor(&g->builder, growth_fresh(g, "x"), TENSOR_ACTIVATION, ELEMENT_COMPUTE,
                          shape);
}

int growth_ids(struct growth *g, struct shape shape)
{
    return builder_tensor(&g->builder, growth_fresh(g, "ids"), TENSOR_IDS, ELEMENT_INT64, shape);
}

struct op growth_op_named(struct growth *g, enum op_kind kind)
{
    return (struct op){.name = growth_fresh(g, "op"),
                       .kind = kind,
                       .scalar = 1,
                       .flop_per_element = 1,
                       .output_count = 1};
}

int growth_apply(struct growth *g, struct op op, int a, int b, struct shape shape)
{
    op.inputs[op.input_count++] = a;
    if (b >= 0) op.inputs[op.input_count++] = b;
    op.outputs[0] = growth_activation(g, shape);
    builder_op(&g->builder, op);
    return op.outputs[0];
}

void growth_keep(struct growth *g, int tensor)
{
    assert(g->pool_count < POOL_MAX);
    g->pool[g->pool_count] = tensor;
    g->readers[g->pool_count++] = 0;
}

// A member of the pool that one more op may read; the newest are the likeliest. -1: none is left.
int growth_take(struct growth *g)
{
    for (int tries = 0; tries < 8; tries++) {
        int back = draw_int(g->draw, 0, g->pool_count - 1);
        int at = g->pool_count - 1 - draw_int(g->draw, 0, back);
        if (g->readers[at] >= READERS_MAX) continue;
        g->readers[at]++;
        return g->pool[at];
    }
    return -1;
}

// Reads more, or fewer, than the one that `take` counted.
void growth_recount(struct growth *g, int tensor, int more)
{
    for (int i = 0; i < g->pool_count; i++) {
        if (g->pool[i] == tensor) g->readers[i] += more;
    }
}

int64_t growth_size_of(const struct growth *g, enum dim dim)
{
    const struct random_sizes *s = g->sizes;
    switch ((int)dim) {
    case DIM_HEAD:
        return s->kv_heads * s->heads_per_kv_head;
    case DIM_KV_HEAD:
        return s->kv_heads;
    case DIM_HEAD_DIM:
        return s->head_dim;
    case DIM_HIDDEN:
        return s->hidden;
    case DIM_FFN:
        return s->ffn;
    case DIM_VOCAB:
        return s->vocab;
    default:
        return 2;
    }
}

void growth_append(struct shape *shape, struct extent extent)
{
    int at = 0;
    while (shape->extents[at].dim)
        at++;
    assert(at < TENSOR_RANK_MAX);
    shape->extents[at] = extent;
}

struct shape growth_tokens(void)
{
    return SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0});
}

struct shape growth_hidden_shape(const struct growth *g)
{
    return SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_HIDDEN, g->sizes->hidden});
}

bool growth_has_dim(const struct tensor *tensor, enum dim dim)
{
    return tensor_find_dim(tensor, dim) >= 0;
}

static bool is_same_shape(const struct tensor *a, const struct tensor *b)
{
    if (a->rank != b->rank) return false;
    return memcmp(a->extents, b->extents, (size_t)a->rank * sizeof *a->extents) == 0;
}

// Another member of the pool that looks the same; -1: none.
int growth_take_like(struct growth *g, int like)
{
    for (int tries = 0; tries < 4; tries++) {
        int at = draw_int(g->draw, 0, g->pool_count - 1);
        bool fits = g->pool[at] != like && g->readers[at] < READERS_MAX &&
                    is_same_shape(growth_tensor_at(g, like), growth_tensor_at(g, g->pool[at]));
        if (!fits) continue;
        g->readers[at]++;
        return g->pool[at];
    }
    return -1;
}
