#include "models/builder.h"
#include "models/families/stdit.h"

#include <assert.h>
#include <math.h>

// Work an element, for ops that are bound by memory: it only has to be of the right size.
static const double ROPE_FLOP = 6, NORM_FLOP = 6, ACTIVATION_FLOP = 8, MODULATE_FLOP = 2,
                    LOSS_FLOP = 3;
static const double EPSILON = 1e-6, THETA = 10000;
enum { WAVES = 256 };  // sines and cosines of a step or a frame rate

// What is handed on besides the hidden states, by place among a block's inputs and outputs.
enum { STATE, STEP, TEXT, MODULATIONS };
enum { MODULATION_COUNT = 6 };
_Static_assert(MODULATIONS + MODULATION_COUNT == BLOCK_EDGES, "every edge is used");
static const char *const MODULATION_NAMES[MODULATION_COUNT] = {
    "attention.shift", "attention.scale", "attention.gate", "mlp.shift", "mlp.scale", "mlp.gate"};

struct building {
    struct builder builder;
    const struct stdit *model;
    int edges[BLOCK_EDGES];
};

static struct extent hidden_of(const struct building *b)
{
    return (struct extent){DIM_HIDDEN, b->model->hidden_size};
}
static struct extent frames_of(const struct building *b)
{
    return (struct extent){DIM_TIME, b->model->frames};
}
static struct extent places_of(const struct building *b)
{
    return (struct extent){DIM_SEQ, b->model->places};
}
static struct shape tokens_by(const struct building *b, struct extent last)
{
    return SHAPE({DIM_BATCH, 0}, frames_of(b), places_of(b), last);
}
static struct shape text_by(const struct building *b, struct extent last)
{
    return SHAPE({DIM_BATCH, 0}, {DIM_TEXT, b->model->model_max_length}, last);
}

static int activation(struct building *b, const char *name, struct shape shape)
{
    return builder_tensor(&b->builder, name, TENSOR_ACTIVATION, ELEMENT_COMPUTE, shape);
}

static int data(struct building *b, const char *name, struct shape shape)
{
    return builder_tensor(&b->builder, name, TENSOR_IDS, ELEMENT_COMPUTE, shape);
}

static int parameter(struct building *b, const char *name, const char *suffix, struct shape shape)
{
    const char *full = arena_print(b->builder.arena, "%s.%s", name, suffix);
    return builder_tensor(&b->builder, full, TENSOR_PARAMETER, ELEMENT_COMPUTE, shape);
}

static int append(struct building *b, struct op op, struct shape shape)
{
    op.output_count = op.output_count ? op.output_count : 1;
    if (op.scalar == 0 && op.function != FUNCTION_MODULATE) op.scalar = 1;
    op.outputs[0] = activation(b, op.name, shape);
    builder_op(&b->builder, op);
    return op.outputs[0];
}

static int add(struct building *b, const char *name, int x, int y)
{
    struct op op = {.name = name, .kind = OP_ADD, .input_count = 2, .inputs = {x, y}};
    return append(b, op, builder_shape(&b->builder, x));
}

// A product with a new matrix, and a bias.
struct linear {
    const char *name;
    struct shape weight, bias, output;
    enum op_class class;
};

static int project(struct building *b, int x, struct linear linear)
{
    int weight = parameter(b, linear.name, "weight", linear.weight);
    int bias = parameter(b, linear.name, "bias", linear.bias);
    struct op op = {.name = linear.name,
                    .kind = OP_CONTRACT,
                    .class = linear.class,
                    .input_count = 2,
                    .inputs = {x, weight}};
    int product = append(b, op, linear.output);
    const char *name = arena_print(b->builder.arena, "%s.biased", linear.name);
    int sum = add(b, name, product, bias);
    b->builder.block->ops[b->builder.block->op_count - 1].class = linear.class;
    return sum;
}

static int apply(struct building *b, const char *name, int x, enum function function)
{
    struct op op = {.name = name,
                    .kind = OP_ELEMENTWISE,
                    .function = function,
                    .flop_per_element = ACTIVATION_FLOP,
                    .input_count = 1,
                    .inputs = {x}};
    return append(b, op, builder_shape(&b->builder, x));
}

// (scalar + gate) * x
static int modulate(struct building *b, const char *name, int gate, int x, double scalar)
{
    struct op op = {.name = name,
                    .kind = OP_ELEMENTWISE,
                    .function = FUNCTION_MODULATE,
                    .scalar = scalar,
                    .flop_per_element = MODULATE_FLOP,
                    .input_count = 2,
                    .inputs = {gate, x}};
    return append(b, op, builder_shape(&b->builder, x));
}

static int norm(struct building *b, const char *name, int x)
{
    struct op op = {.name = name,
                    .kind = OP_NORM,
                    .function = FUNCTION_LAYER_NORM,
                    .scalar = EPSILON,
                    .flop_per_element = NORM_FLOP,
                    .class = OP_CLASS_NORM,
                    .input_count = 1,
                    .inputs = {x}};
    return append(b, op, builder_shape(&b->builder, x));
}

// The same under another name: an einsum cannot name what it reads and what it makes alike.
static int rename_hidden(struct building *b, const char *name, int x)
{
    struct op op = {.name = name, .kind = OP_EXPAND, .input_count = 1, .inputs = {x}};
    return append(b, op, SHAPE({DIM_BATCH, 0}, {DIM_RANK, b->model->hidden_size}));
}

// norm(x) (1 + scale) + shift
static int adapt(struct building *b, const char *prefix, int x, int shift, int scale)
{
    struct arena *arena = b->builder.arena;
    int normed = norm(b, arena_print(arena, "%s.norm", prefix), x);
    int scaled = modulate(b, arena_print(arena, "%s.scaled", prefix), scale, normed, 1);
    return add(b, arena_print(arena, "%s.shifted", prefix), scaled, shift);
}

// Two products with a function between, as steps and texts are embedded.
static int embed(struct building *b, const char *name, int x, struct shape inner,
                 struct shape outer, enum function function)
{
    struct arena *arena = b->builder.arena;
    const struct tensor *read = &b->builder.block->tensors[x];
    struct extent from = read->extents[read->rank - 1], hidden = hidden_of(b);
    struct extent rank = {DIM_RANK, b->model->hidden_size};
    struct linear first = {.name = arena_print(arena, "%s.in", name),
                           .weight = SHAPE(from, rank),
                           .bias = SHAPE(rank),
                           .output = inner};
    struct linear second = {.name = arena_print(arena, "%s.out", name),
                            .weight = SHAPE(rank, hidden),
                            .bias = SHAPE(hidden),
                            .output = outer};
    x = project(b, x, first);
    x = apply(b, arena_print(arena, "%s.activation", name), x, function);
    return project(b, x, second);
}

static int embed_waves(struct building *b, const char *name, const char *waves)
{
    int x = data(b, waves, SHAPE({DIM_BATCH, 0}, {DIM_CHANNEL, WAVES}));
    return embed(b, name, x, SHAPE({DIM_BATCH, 0}, {DIM_RANK, b->model->hidden_size}),
                 SHAPE({DIM_BATCH, 0}, hidden_of(b)), FUNCTION_SILU);
}

static void hand_on(struct building *b, int count)
{
    struct block *block = b->builder.block;
    for (int i = 0; i < count; i++)
        block->outputs[block->output_count++] = b->edges[i];
}

static struct block embedding_block(struct arena *arena, const struct stdit *model)
{
    struct building b = {builder_new(arena, "embedding", BLOCK_EMBEDDING), model, {0}};
    struct extent hidden = hidden_of(&b),
                  channel = {DIM_CHANNEL, model->in_channels * model->patch};
    struct shape vector = SHAPE({DIM_BATCH, 0}, hidden);
    int latents = data(&b, "noised_latents", tokens_by(&b, channel));
    struct linear patches = {.name = "embedding.patch",
                             .weight = SHAPE(channel, hidden),
                             .bias = SHAPE(hidden),
                             .output = tokens_by(&b, hidden)};
    int x = project(&b, latents, patches);
    int places = data(&b, "place_embedding", SHAPE(places_of(&b), hidden));
    b.edges[STATE] = add(&b, "embedding.placed", x, places);
    b.edges[STEP] = embed_waves(&b, "embedding.step", "timestep_waves");
    if (model->kind == STDIT_3) {
        int rate = embed_waves(&b, "embedding.rate", "frame_rate_waves");
        b.edges[STEP] = add(&b, "embedding.conditioned", b.edges[STEP], rate);
    }
    int active = apply(&b, "embedding.active", b.edges[STEP], FUNCTION_SILU);
    active = rename_hidden(&b, "embedding.renamed", active);
    for (int i = 0; i < MODULATION_COUNT; i++) {
        struct linear of = {.name = arena_print(arena, "embedding.%s", MODULATION_NAMES[i]),
                            .weight = SHAPE({DIM_RANK, model->hidden_size}, hidden),
                            .bias = SHAPE(hidden),
                            .output = vector};
        b.edges[MODULATIONS + i] = project(&b, active, of);
    }
    int text =
        data(&b, "text_states", text_by(&b, (struct extent){DIM_CHANNEL, model->caption_channels}));
    struct shape inner = text_by(&b, (struct extent){DIM_RANK, model->hidden_size});
    b.edges[TEXT] =
        embed(&b, "embedding.text", text, inner, text_by(&b, hidden), FUNCTION_GELU_TANH);
    hand_on(&b, BLOCK_EDGES);
    return *b.builder.block;
}

// Of queries, keys or values: rows (batch, outer, inner) or those of the text.
static struct shape headed(const struct building *b, struct extent outer, struct extent inner)
{
    struct extent heads = {DIM_HEAD, b->model->num_heads};
    struct extent width = {DIM_HEAD_DIM, b->model->hidden_size / b->model->num_heads};
    if (!outer.dim) return SHAPE({DIM_BATCH, 0}, inner, heads, width);
    return SHAPE({DIM_BATCH, 0}, outer, inner, heads, width);
}

static int to_heads(struct building *b, const char *name, int x, struct shape output)
{
    struct extent heads = {DIM_HEAD, b->model->num_heads};
    struct extent width = {DIM_HEAD_DIM, b->model->hidden_size / b->model->num_heads};
    struct linear linear = {.name = name,
                            .weight = SHAPE(hidden_of(b), heads, width),
                            .bias = SHAPE(heads, width),
                            .output = output};
    return project(b, x, linear);
}

// Queries or keys: each head's norm and, over frames, its rotation.
static int prepare(struct building *b, const char *name, int x, bool is_normed, bool is_rotated)
{
    struct arena *arena = b->builder.arena;
    struct shape shape = builder_shape(&b->builder, x);
    struct extent width = {DIM_HEAD_DIM, b->model->hidden_size / b->model->num_heads};
    if (is_normed) {
        const char *normed = arena_print(arena, "%s.norm", name);
        struct op op = {.name = normed,
                        .kind = OP_NORM,
                        .function = FUNCTION_RMS_NORM,
                        .scalar = EPSILON,
                        .flop_per_element = NORM_FLOP,
                        .class = OP_CLASS_NORM,
                        .input_count = 2,
                        .inputs = {x, parameter(b, normed, "weight", SHAPE(width))}};
        x = append(b, op, shape);
    }
    if (!is_rotated) return x;
    struct op op = {.name = arena_print(arena, "%s.rope", name),
                    .kind = OP_ELEMENTWISE,
                    .function = FUNCTION_ROPE,
                    .scalar = THETA,
                    .rotary_dims = width.size,
                    .flop_per_element = ROPE_FLOP,
                    .input_count = 1,
                    .inputs = {x}};
    return append(b, op, shape);
}

// From queries, keys and values to what is added to the hidden states. The log-sum-exp has what
// queries have but for the width of a head.
static int attend(struct building *b, const char *prefix, int query, int key, int value)
{
    struct arena *arena = b->builder.arena;
    struct shape shape = builder_shape(&b->builder, query), rows = shape;
    int rank = b->builder.block->tensors[query].rank;
    rows.extents[rank - 1] = (struct extent){DIM_NONE, 0};
    int lse = builder_tensor(&b->builder, arena_print(arena, "%s.lse", prefix), TENSOR_ACTIVATION,
                             ELEMENT_FP32, rows);
    struct op op = {.name = arena_print(arena, "%s.core", prefix),
                    .kind = OP_ATTENTION,
                    .class = OP_CLASS_ATTENTION,
                    .scalar = 1 / sqrt((double)shape.extents[rank - 1].size),
                    .input_count = 3,
                    .inputs = {query, key, value},
                    .output_count = 2,
                    .outputs = {-1, lse}};
    int context = append(b, op, shape);
    struct linear out = {.name = arena_print(arena, "%s.out", prefix),
                         .weight =
                             SHAPE(shape.extents[rank - 2], shape.extents[rank - 1], hidden_of(b)),
                         .bias = SHAPE(hidden_of(b)),
                         .output = tokens_by(b, hidden_of(b))};
    return project(b, context, out);
}

// Over the places of a frame, or over the frames of a place: the dim that is attended over stands
// behind the other.
static int attend_along(struct building *b, const char *prefix, int x, bool is_over_frames)
{
    struct arena *arena = b->builder.arena;
    struct shape shape = is_over_frames ? headed(b, places_of(b), frames_of(b))
                                        : headed(b, frames_of(b), places_of(b));
    bool is_rotated = is_over_frames && b->model->kind == STDIT_3;
    const char *q = arena_print(arena, "%s.q", prefix), *k = arena_print(arena, "%s.k", prefix);
    int query = prepare(b, q, to_heads(b, q, x, shape), b->model->qk_norm, is_rotated);
    int key = prepare(b, k, to_heads(b, k, x, shape), b->model->qk_norm, is_rotated);
    int value = to_heads(b, arena_print(arena, "%s.v", prefix), x, shape);
    return attend(b, prefix, query, key, value);
}

static int attend_text(struct building *b, int x)
{
    struct extent none = {DIM_NONE, 0}, text = {DIM_TEXT, b->model->model_max_length};
    int query = to_heads(b, "cross.q", x, headed(b, frames_of(b), places_of(b)));
    int key = to_heads(b, "cross.k", b->edges[TEXT], headed(b, none, text));
    int value = to_heads(b, "cross.v", b->edges[TEXT], headed(b, none, text));
    return attend(b, "cross", query, key, value);
}

static int64_t ffn_of(const struct stdit *model)
{
    return (int64_t)(model->mlp_ratio * (double)model->hidden_size);
}

static int feed_forward(struct building *b, int x)
{
    struct extent ffn = {DIM_FFN, ffn_of(b->model)}, hidden = hidden_of(b);
    struct linear up = {.name = "mlp.up",
                        .weight = SHAPE(hidden, ffn),
                        .bias = SHAPE(ffn),
                        .output = tokens_by(b, ffn),
                        .class = OP_CLASS_MLP};
    struct linear down = {.name = "mlp.down",
                          .weight = SHAPE(ffn, hidden),
                          .bias = SHAPE(hidden),
                          .output = tokens_by(b, hidden)};
    x = apply(b, "mlp.activation", project(b, x, up), FUNCTION_GELU_TANH);
    b->builder.block->ops[b->builder.block->op_count - 1].class = OP_CLASS_ACTIVATION;
    return project(b, x, down);
}

struct layer {
    bool over_places, over_frames, adds_frames, is_last;
};

static void take_edges(struct building *b, const char *name, int count)
{
    static const char *const EDGES[MODULATIONS] = {"input", "step", "text"};
    struct arena *arena = b->builder.arena;
    struct block *block = b->builder.block;
    struct extent hidden = hidden_of(b);
    for (int i = 0; i < count; i++) {
        struct shape shape = i == STATE  ? tokens_by(b, hidden)
                             : i == TEXT ? text_by(b, hidden)
                                         : SHAPE({DIM_BATCH, 0}, hidden);
        const char *edge = i < MODULATIONS ? EDGES[i] : MODULATION_NAMES[i - MODULATIONS];
        b->edges[i] = activation(b, arena_print(arena, "%s.given.%s", name, edge), shape);
        block->inputs[block->input_count++] = b->edges[i];
    }
}

static struct block layer_block(struct arena *arena, const struct stdit *model, const char *name,
                                struct layer layer)
{
    struct building b = {builder_new(arena, name, BLOCK_LAYER), model, {0}};
    take_edges(&b, "layer", BLOCK_EDGES);
    int m[MODULATION_COUNT], x = b.edges[STATE];
    for (int i = 0; i < MODULATION_COUNT; i++) {
        int table = parameter(&b, MODULATION_NAMES[i], "table", SHAPE(hidden_of(&b)));
        m[i] = add(&b, MODULATION_NAMES[i], b.edges[MODULATIONS + i], table);
    }
    bool has_both = layer.over_places && layer.over_frames;
    int branch =
        attend_along(&b, "attention", adapt(&b, "attention", x, m[0], m[1]), !layer.over_places);
    x = add(&b, "attention.residual", x, modulate(&b, "attention.gated", m[2], branch, 0));
    if (has_both) {
        int frames = x;
        if (layer.adds_frames) {
            int places = data(&b, "frame_embedding", SHAPE(frames_of(&b), hidden_of(&b)));
            frames = add(&b, "temporal.placed", x, places);
        }
        branch = attend_along(&b, "temporal", frames, true);
        x = add(&b, "temporal.residual", x, modulate(&b, "temporal.gated", m[2], branch, 0));
    }
    x = add(&b, "cross.residual", x, attend_text(&b, x));
    branch = feed_forward(&b, adapt(&b, "mlp", x, m[3], m[4]));
    b.edges[STATE] = add(&b, "mlp.residual", x, modulate(&b, "mlp.gated", m[5], branch, 0));
    hand_on(&b, layer.is_last ? TEXT : BLOCK_EDGES);
    return *b.builder.block;
}

// Each place's numbers of noise and, with pred_sigma, as many of its variance: the mean square of
// what they are off.
static struct block head_block(struct arena *arena, const struct stdit *model)
{
    struct building b = {builder_new(arena, "head", BLOCK_HEAD), model, {0}};
    take_edges(&b, "head", TEXT);
    int64_t channels = model->in_channels * (model->pred_sigma ? 2 : 1) * model->patch;
    struct extent out = {DIM_OUT_CHANNEL, channels};
    int shift = parameter(&b, "head.shift", "table", SHAPE(hidden_of(&b)));
    int scale = parameter(&b, "head.scale", "table", SHAPE(hidden_of(&b)));
    shift = add(&b, "head.shift", b.edges[STEP], shift);
    scale = add(&b, "head.scale", b.edges[STEP], scale);
    struct linear linear = {.name = "head.patch",
                            .weight = SHAPE(hidden_of(&b), out),
                            .bias = SHAPE(out),
                            .output = tokens_by(&b, out)};
    int x = project(&b, adapt(&b, "head", b.edges[STATE], shift, scale), linear);
    int target = data(&b, "target", tokens_by(&b, out));
    struct op op = {.name = "loss",
                    .kind = OP_LOSS,
                    .function = FUNCTION_SQUARED_ERROR,
                    .scalar = 1,
                    .flop_per_element = LOSS_FLOP,
                    .input_count = 2,
                    .inputs = {x, target},
                    .output_count = 1};
    struct shape rows = SHAPE({DIM_BATCH, 0}, frames_of(&b), places_of(&b));
    op.outputs[0] = builder_tensor(&b.builder, "loss", TENSOR_ACTIVATION, ELEMENT_FP32, rows);
    builder_op(&b.builder, op);
    b.builder.block->outputs[b.builder.block->output_count++] = op.outputs[0];
    return *b.builder.block;
}

static void append_block(struct graph *graph, struct block block)
{
    graph->sequence[graph->sequence_count++] = graph->block_count;
    graph->blocks[graph->block_count++] = block;
}

// Layers that are alike are one kind; the last hands on less, and one that adds where frames stand
// is the first of its model.
static void build_layers(struct arena *arena, const struct stdit *model, struct graph *graph)
{
    int kind_of[2][2] = {{-1, -1}, {-1, -1}};
    for (int i = 0; i < graph->layer_count; i++) {
        bool is_3 = model->kind == STDIT_3, is_1 = model->kind == STDIT;
        bool is_odd = is_3 ? i % 2 == 1 : is_1 && i == 0;
        struct layer layer = {.over_places = !is_3 || !is_odd,
                              .over_frames = is_1 || is_odd,
                              .adds_frames = is_1 && is_odd,
                              .is_last = i + 1 == graph->layer_count};
        int *kind = &kind_of[is_odd][layer.is_last];
        const char *name = is_3     ? is_odd ? "layer.time" : "layer.space"
                           : is_odd ? "layer.first"
                                    : "layer";
        if (*kind < 0) {
            *kind = graph->block_count;
            const char *end = layer.is_last ? ".last" : "";
            graph->blocks[graph->block_count++] =
                layer_block(arena, model, arena_print(arena, "%s%s", name, end), layer);
        }
        graph->sequence[graph->sequence_count++] = *kind;
    }
}

struct graph *stdit_graph(struct arena *arena, const void *stdit,
                          const struct import_options *options)
{
    enum { KINDS = 6 };
    const struct stdit *model = stdit;
    (void)options;
    struct graph *graph = ARENA_NEW(arena, struct graph, 1);
    static const char *const TYPES[] = {"STDiT", "STDiT3", "PixArtTransformer2DModel"};
    graph->model_type = TYPES[model->kind];
    graph->layer_count = (int)(model->kind == STDIT_3 ? 2 * model->depth : model->depth);
    graph->hidden = model->hidden_size;
    graph->head_count = graph->kv_head_count = model->num_heads;
    graph->head_dim = model->hidden_size / model->num_heads;
    graph->ffn = ffn_of(model);
    graph->frames = model->frames;
    graph->places = model->places;
    graph->has_conditions = true;
    graph->channels = model->in_channels * model->patch;
    graph->seq_len_max = model->frames * model->places;
    graph->blocks = ARENA_NEW(arena, struct block, KINDS);
    graph->sequence = ARENA_NEW(arena, int, graph->layer_count + 2);
    append_block(graph, embedding_block(arena, model));
    build_layers(arena, model, graph);
    append_block(graph, head_block(arena, model));
    assert(graph->block_count <= KINDS);
    graph->parameter_count = graph_parameter_count(graph);
    graph->active_parameter_count = graph_active_parameter_count(graph);
    return graph;
}
