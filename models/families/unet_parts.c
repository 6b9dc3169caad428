#include "models/families/unet_parts.h"

#include <assert.h>

static const double GROUP_NORM_FLOP = 8, NORM_FLOP = 6, GATE_FLOP = 9;
static const double TRANSFORMER_EPSILON = 1e-6, LAYER_EPSILON = 1e-5;

int64_t unet_side(const struct unet *model, int level)
{
    assert(level >= 0 && level < model->level_count);
    return model->sample_size >> level;
}

struct shape unet_image(const struct unet *model, int level, int64_t channels)
{
    int64_t side = unet_side(model, level);
    return SHAPE({DIM_BATCH, 0}, {DIM_CHANNEL, channels}, {DIM_HEIGHT, side}, {DIM_WIDTH, side});
}

int unet_convolve(struct unet_building *b, const char *name, int x, int64_t channels, int64_t out,
                  int64_t taps, int64_t stride)
{
    assert(taps % 2 == 1 && stride > 0);
    struct shape shape = builder_shape(&b->of.builder, x);
    for (int i = 2; i < 4; i++)
        shape.extents[i].size /= stride;
    shape.extents[1].size = out;
    int weight = builder_parameter(
        &b->of.builder, name, "weight",
        SHAPE({DIM_OUT_CHANNEL, out}, {DIM_CHANNEL, channels}, {DIM_TAP, taps * taps}));
    int bias = builder_parameter(&b->of.builder, name, "bias", SHAPE({DIM_CHANNEL, out}));
    struct window window = {.taps = taps, .stride = stride, .dilation = 1, .pad = taps / 2};
    struct op op = {.name = name,
                    .kind = OP_PRODUCT,
                    .input_count = 2,
                    .inputs = {x, weight},
                    .work = {.groups = 1,
                             .rows = shape.extents[2].size * shape.extents[3].size,
                             .columns = out,
                             .depth = channels * taps * taps,
                             .places = PLACES_WINDOW,
                             .windows = {window, window},
                             .type = IMPORTED_CONV}};
    int made = diffusion_append(&b->of, op, shape);
    return diffusion_add(&b->of, arena_print(b->of.builder.arena, "%s.biased", name), made, bias);
}

double unet_elements(struct shape shape)
{
    return (double)shape.extents[1].size * (double)shape.extents[2].size *
           (double)shape.extents[3].size;
}

int unet_operate(struct unet_building *b, struct op op, enum imported_kind type, struct shape shape)
{
    op.kind = OP_OPERATOR;
    op.work.type = type;
    op.work.groups = op.work.rows = op.work.columns = op.work.depth = 1;
    if (op.work.places == PLACES_WHOLE) op.work.places = PLACES_EACH;
    return diffusion_append(&b->of, op, shape);
}

static int group_norm(struct unet_building *b, const char *name, int x, double epsilon)
{
    enum { KEPT_OF_NORM = 3 | 6 << 8 };  // x and scale, mean and deviation (models/op.h)
    struct arena *arena = b->of.builder.arena;
    struct shape shape = builder_shape(&b->of.builder, x);
    struct extent channel = shape.extents[1];
    assert(channel.size % b->model->norm_num_groups == 0);
    struct shape sets = SHAPE({DIM_BATCH, 0}, {DIM_CHANNEL, b->model->norm_num_groups});
    int scale = builder_parameter(&b->of.builder, name, "weight", SHAPE(channel));
    int bias = builder_parameter(&b->of.builder, name, "bias", SHAPE(channel));
    int mean = builder_tensor(&b->of.builder, arena_print(arena, "%s.mean", name),
                              TENSOR_ACTIVATION, ELEMENT_FP32, sets);
    int inverse = builder_tensor(&b->of.builder, arena_print(arena, "%s.inverse", name),
                                 TENSOR_ACTIVATION, ELEMENT_FP32, sets);
    struct op op = {.name = name,
                    .class = OP_CLASS_NORM,
                    .input_count = 3,
                    .inputs = {x, scale, bias},
                    .output_count = 3,
                    .outputs = {-1, mean, inverse},
                    .work = {.flop = GROUP_NORM_FLOP * unet_elements(shape),
                             .backward_flop = 2 * GROUP_NORM_FLOP * unet_elements(shape),
                             .kept = KEPT_OF_NORM,
                             .places = PLACES_STATISTICS,
                             .scalar = epsilon}};
    return unet_operate(b, op, IMPORTED_GROUP_NORM, shape);
}

int unet_normed(struct unet_building *b, const char *name, int x)
{
    x = group_norm(b, name, x, b->model->norm_eps);
    x = diffusion_apply(&b->of, arena_print(b->of.builder.arena, "%s.active", name), x,
                        FUNCTION_SILU);
    b->of.builder.block->ops[b->of.builder.block->op_count - 1].class = OP_CLASS_ACTIVATION;
    return x;
}

// One number for each channel, of the step.
static int shift_of(struct unet_building *b, const char *name, int64_t channels)
{
    if (b->active < 0) {
        int active = diffusion_apply(&b->of, "vector.active", b->edges[UNET_VECTOR], FUNCTION_SILU);
        b->active = diffusion_rename_hidden(&b->of, "vector.renamed", active);
    }
    struct diffusion_linear linear = {.name = name,
                                      .weight =
                                          SHAPE({DIM_RANK, b->of.hidden}, {DIM_CHANNEL, channels}),
                                      .bias = SHAPE({DIM_CHANNEL, channels}),
                                      .output = SHAPE({DIM_BATCH, 0}, {DIM_CHANNEL, channels})};
    return diffusion_project(&b->of, b->active, linear);
}

int unet_residual(struct unet_building *b, const char *prefix, int x, int64_t channels, int64_t out)
{
    struct arena *arena = b->of.builder.arena;
    int y = unet_normed(b, arena_print(arena, "%s.norm1", prefix), x);
    y = unet_convolve(b, arena_print(arena, "%s.conv1", prefix), y, channels, out, 3, 1);
    int shift = shift_of(b, arena_print(arena, "%s.step", prefix), out);
    y = diffusion_add(&b->of, arena_print(arena, "%s.shifted", prefix), y, shift);
    y = unet_normed(b, arena_print(arena, "%s.norm2", prefix), y);
    y = unet_convolve(b, arena_print(arena, "%s.conv2", prefix), y, out, out, 3, 1);
    if (channels != out)
        x = unet_convolve(b, arena_print(arena, "%s.shortcut", prefix), x, channels, out, 1, 1);
    return diffusion_add(&b->of, arena_print(arena, "%s.sum", prefix), x, y);
}

int unet_flatten(struct unet_building *b, const char *name, int x, struct shape shape)
{
    struct op op = {.name = name, .kind = OP_FLATTEN, .input_count = 1, .inputs = {x}};
    return diffusion_append(&b->of, op, shape);
}

// A transformer over the places of a level: `of` has its width and heads.
struct unet_tokens {
    struct diffusion *of;
    struct shape state, headed;
    int text;
};

static int layer_norm(const struct unet_tokens *t, const char *name, int x)
{
    struct shape width = SHAPE(diffusion_hidden(t->of));
    int weight = builder_parameter(&t->of->builder, name, "weight", width);
    int bias = builder_parameter(&t->of->builder, name, "bias", width);
    struct op op = {.name = name,
                    .kind = OP_NORM,
                    .function = FUNCTION_LAYER_NORM,
                    .scalar = LAYER_EPSILON,
                    .flop_per_element = NORM_FLOP,
                    .class = OP_CLASS_NORM,
                    .input_count = 3,
                    .inputs = {x, weight, bias}};
    return diffusion_append(t->of, op, t->state);
}

// To heads, without a bias.
static int heads_of(const struct unet_tokens *t, const char *name, int x, struct shape shape)
{
    assert(t->of->head_count * t->of->head_dim == t->of->hidden);
    const struct tensor *read = &t->of->builder.block->tensors[x];
    struct extent from = read->extents[read->rank - 1];
    int weight = builder_parameter(
        &t->of->builder, name, "weight",
        SHAPE(from, {DIM_HEAD, t->of->head_count}, {DIM_HEAD_DIM, t->of->head_dim}));
    struct op op = {.name = name, .kind = OP_CONTRACT, .input_count = 2, .inputs = {x, weight}};
    return diffusion_append(t->of, op, shape);
}

static int attend(const struct unet_tokens *t, const char *prefix, int x, bool is_text)
{
    struct arena *arena = t->of->builder.arena;
    struct shape keys = t->headed;
    if (is_text) keys.extents[1] = t->of->builder.block->tensors[t->text].extents[1];
    int y = layer_norm(t, arena_print(arena, "%s.norm", prefix), x);
    int from = is_text ? t->text : y;
    int query = heads_of(t, arena_print(arena, "%s.q", prefix), y, t->headed);
    int key = heads_of(t, arena_print(arena, "%s.k", prefix), from, keys);
    int value = heads_of(t, arena_print(arena, "%s.v", prefix), from, keys);
    y = diffusion_attend(t->of, prefix, query, key, value);
    y = diffusion_from_heads(t->of, arena_print(arena, "%s.out", prefix), y, t->state);
    return diffusion_add(t->of, arena_print(arena, "%s.sum", prefix), x, y);
}

// gelu of one half of a product times the other half.
static int gated_forward(const struct unet_tokens *t, const char *prefix, int x)
{
    struct arena *arena = t->of->builder.arena;
    struct extent hidden = diffusion_hidden(t->of), ffn = {DIM_FFN, 4 * t->of->hidden};
    struct shape wide = t->state;
    wide.extents[2] = ffn;
    int y = layer_norm(t, arena_print(arena, "%s.norm", prefix), x), half[2];
    for (int i = 0; i < 2; i++) {
        struct diffusion_linear linear = {
            .name = arena_print(arena, "%s.%s", prefix, i ? "up" : "gate"),
            .weight = SHAPE(hidden, ffn),
            .bias = SHAPE(ffn),
            .output = wide,
            .class = OP_CLASS_MLP};
        half[i] = diffusion_project(t->of, y, linear);
    }
    struct op gate = {.name = arena_print(arena, "%s.gated", prefix),
                      .kind = OP_ELEMENTWISE,
                      .function = FUNCTION_GELU,
                      .class = OP_CLASS_ACTIVATION,
                      .flop_per_element = GATE_FLOP,
                      .input_count = 2,
                      .inputs = {half[0], half[1]}};
    struct diffusion_linear down = {.name = arena_print(arena, "%s.down", prefix),
                                    .weight = SHAPE(ffn, hidden),
                                    .bias = SHAPE(hidden),
                                    .output = t->state};
    y = diffusion_project(t->of, diffusion_append(t->of, gate, wide), down);
    return diffusion_add(t->of, arena_print(arena, "%s.sum", prefix), x, y);
}

int unet_transform(struct unet_building *b, const char *prefix, int x, int level, int text)
{
    struct arena *arena = b->of.builder.arena;
    int64_t channels = b->model->channels[level], side = unet_side(b->model, b->at->level);
    struct extent channel = {DIM_CHANNEL, channels}, places = {DIM_SEQ, side * side};
    struct diffusion of = {b->of.builder, channels, b->model->heads[level],
                           channels / b->model->heads[level]};
    struct extent hidden = diffusion_hidden(&of);
    struct shape flat = SHAPE({DIM_BATCH, 0}, channel, places);
    int y = group_norm(b, arena_print(arena, "%s.norm", prefix), x, TRANSFORMER_EPSILON);
    y = unet_flatten(b, arena_print(arena, "%s.flat", prefix), y, flat);
    of.builder = b->of.builder;
    struct unet_tokens t = {.of = &of,
                            .state = SHAPE({DIM_BATCH, 0}, places, hidden),
                            .headed = SHAPE({DIM_BATCH, 0}, places, {DIM_HEAD, of.head_count},
                                            {DIM_HEAD_DIM, of.head_dim}),
                            .text = text};
    struct diffusion_linear in = {.name = arena_print(arena, "%s.in", prefix),
                                  .weight = SHAPE(channel, hidden),
                                  .bias = SHAPE(hidden),
                                  .output = t.state};
    struct diffusion_linear out = {.name = arena_print(arena, "%s.out", prefix),
                                   .weight = SHAPE(hidden, channel),
                                   .bias = SHAPE(channel),
                                   .output = flat};
    y = diffusion_project(&of, y, in);
    for (int64_t i = 0; i < b->model->depth[level]; i++) {
        const char *layer = arena_print(arena, "%s.%d", prefix, (int)i);
        y = attend(&t, arena_print(arena, "%s.attention", layer), y, false);
        y = attend(&t, arena_print(arena, "%s.cross", layer), y, true);
        y = gated_forward(&t, arena_print(arena, "%s.mlp", layer), y);
    }
    // The bias is one number a channel, in front of the places.
    y = diffusion_project(&of, y, out);
    b->of.builder = of.builder;
    y = unet_flatten(b, arena_print(arena, "%s.back", prefix), y,
                     unet_image(b->model, b->at->level, channels));
    return diffusion_add(&b->of, arena_print(arena, "%s.sum", prefix), x, y);
}
