#include "models/families/diffusion.h"
#include "models/families/stdit.h"

#include <assert.h>

// What is handed on besides the hidden states, by place among a block's inputs and outputs.
enum { STATE, STEP, TEXT, MODULATIONS };
enum { MODULATION_COUNT = 6 };
enum { EDGES = MODULATIONS + MODULATION_COUNT };
static const char *const MODULATION_NAMES[MODULATION_COUNT] = {
    "attention.shift", "attention.scale", "attention.gate", "mlp.shift", "mlp.scale", "mlp.gate"};

struct building {
    struct diffusion of;
    const struct stdit *model;
    int edges[EDGES];
};

static struct extent hidden_of(const struct building *b)
{
    return diffusion_hidden(&b->of);
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

static struct building building_of(struct arena *arena, const char *name, enum block_role role,
                                   const struct stdit *model)
{
    assert(model->hidden_size % model->num_heads == 0);
    return (struct building){.of = {.builder = builder_new(arena, name, role),
                                    .hidden = model->hidden_size,
                                    .head_count = model->num_heads,
                                    .head_dim = model->hidden_size / model->num_heads},
                             .model = model};
}

static void hand_on(struct building *b, int count)
{
    assert(count > 0 && count <= EDGES);
    struct block *block = b->of.builder.block;
    for (int i = 0; i < count; i++)
        block->outputs[block->output_count++] = b->edges[i];
}

static struct block embedding_block(struct arena *arena, const struct stdit *model)
{
    struct building b = building_of(arena, "embedding", BLOCK_EMBEDDING, model);
    struct extent hidden = hidden_of(&b),
                  channel = {DIM_CHANNEL, model->in_channels * model->patch};
    struct shape vector = SHAPE({DIM_BATCH, 0}, hidden);
    int latents = diffusion_data(&b.of, "noised_latents", tokens_by(&b, channel));
    struct diffusion_linear patches = {.name = "embedding.patch",
                                       .weight = SHAPE(channel, hidden),
                                       .bias = SHAPE(hidden),
                                       .output = tokens_by(&b, hidden)};
    int x = diffusion_project(&b.of, latents, patches);
    int places = diffusion_data(&b.of, "place_embedding", SHAPE(places_of(&b), hidden));
    b.edges[STATE] = diffusion_add(&b.of, "embedding.placed", x, places);
    b.edges[STEP] = diffusion_embed_waves(&b.of, "embedding.step", "timestep_waves");
    if (model->kind == STDIT_3) {
        int rate = diffusion_embed_waves(&b.of, "embedding.rate", "frame_rate_waves");
        b.edges[STEP] = diffusion_add(&b.of, "embedding.conditioned", b.edges[STEP], rate);
    }
    int active = diffusion_apply(&b.of, "embedding.active", b.edges[STEP], FUNCTION_SILU);
    active = diffusion_rename_hidden(&b.of, "embedding.renamed", active);
    for (int i = 0; i < MODULATION_COUNT; i++) {
        struct diffusion_linear of = {.name =
                                          arena_print(arena, "embedding.%s", MODULATION_NAMES[i]),
                                      .weight = SHAPE({DIM_RANK, model->hidden_size}, hidden),
                                      .bias = SHAPE(hidden),
                                      .output = vector};
        b.edges[MODULATIONS + i] = diffusion_project(&b.of, active, of);
    }
    int text = diffusion_data(&b.of, "text_states",
                              text_by(&b, (struct extent){DIM_CHANNEL, model->caption_channels}));
    struct shape inner = text_by(&b, (struct extent){DIM_RANK, model->hidden_size});
    b.edges[TEXT] = diffusion_embed(&b.of, "embedding.text", text, inner, text_by(&b, hidden),
                                    FUNCTION_GELU_TANH);
    hand_on(&b, EDGES);
    return *b.of.builder.block;
}

// Of queries, keys or values: rows (batch, outer, inner) or those of the text.
static struct shape headed(const struct building *b, struct extent outer, struct extent inner)
{
    struct extent heads = {DIM_HEAD, b->model->num_heads};
    struct extent width = {DIM_HEAD_DIM, b->model->hidden_size / b->model->num_heads};
    if (!outer.dim) return SHAPE({DIM_BATCH, 0}, inner, heads, width);
    return SHAPE({DIM_BATCH, 0}, outer, inner, heads, width);
}

// Queries or keys: each head's norm and, over frames, its rotation.
static int prepare(struct building *b, const char *name, int x, bool is_rotated)
{
    if (b->model->qk_norm) x = diffusion_head_norm(&b->of, name, x);
    struct op rotation = {.rotary_dims = b->of.head_dim};
    return is_rotated ? diffusion_rotate(&b->of, name, x, rotation) : x;
}

// From queries, keys and values to what is added to the hidden states.
static int attend(struct building *b, const char *prefix, int query, int key, int value)
{
    int context = diffusion_attend(&b->of, prefix, query, key, value);
    const char *name = arena_print(b->of.builder.arena, "%s.out", prefix);
    return diffusion_from_heads(&b->of, name, context, tokens_by(b, hidden_of(b)));
}

// Over the places of a frame, or over the frames of a place: the dim that is attended over stands
// behind the other.
static int attend_along(struct building *b, const char *prefix, int x, bool is_over_frames)
{
    struct arena *arena = b->of.builder.arena;
    struct shape shape = is_over_frames ? headed(b, places_of(b), frames_of(b))
                                        : headed(b, frames_of(b), places_of(b));
    bool is_rotated = is_over_frames && b->model->kind == STDIT_3;
    const char *q = arena_print(arena, "%s.q", prefix), *k = arena_print(arena, "%s.k", prefix);
    int query = prepare(b, q, diffusion_to_heads(&b->of, q, x, shape), is_rotated);
    int key = prepare(b, k, diffusion_to_heads(&b->of, k, x, shape), is_rotated);
    int value = diffusion_to_heads(&b->of, arena_print(arena, "%s.v", prefix), x, shape);
    return attend(b, prefix, query, key, value);
}

static int attend_text(struct building *b, int x)
{
    struct extent none = {DIM_NONE, 0}, text = {DIM_TEXT, b->model->model_max_length};
    int query = diffusion_to_heads(&b->of, "cross.q", x, headed(b, frames_of(b), places_of(b)));
    int key = diffusion_to_heads(&b->of, "cross.k", b->edges[TEXT], headed(b, none, text));
    int value = diffusion_to_heads(&b->of, "cross.v", b->edges[TEXT], headed(b, none, text));
    return attend(b, "cross", query, key, value);
}

static int64_t ffn_of(const struct stdit *model)
{
    return (int64_t)(model->mlp_ratio * (double)model->hidden_size);
}

struct layer {
    bool over_places, over_frames, adds_frames, is_last;
};

static void take_edges(struct building *b, const char *name, int count)
{
    assert(count > 0 && count <= EDGES);
    static const char *const NAMES[MODULATIONS] = {"input", "step", "text"};
    struct arena *arena = b->of.builder.arena;
    struct block *block = b->of.builder.block;
    struct extent hidden = hidden_of(b);
    for (int i = 0; i < count; i++) {
        struct shape shape = i == STATE  ? tokens_by(b, hidden)
                             : i == TEXT ? text_by(b, hidden)
                                         : SHAPE({DIM_BATCH, 0}, hidden);
        const char *edge = i < MODULATIONS ? NAMES[i] : MODULATION_NAMES[i - MODULATIONS];
        b->edges[i] =
            diffusion_activation(&b->of, arena_print(arena, "%s.given.%s", name, edge), shape);
        block->inputs[block->input_count++] = b->edges[i];
    }
}

static struct block layer_block(struct arena *arena, const struct stdit *model, const char *name,
                                struct layer layer)
{
    struct building b = building_of(arena, name, BLOCK_LAYER, model);
    take_edges(&b, "layer", EDGES);
    int m[MODULATION_COUNT], x = b.edges[STATE];
    for (int i = 0; i < MODULATION_COUNT; i++) {
        int table =
            builder_parameter(&b.of.builder, MODULATION_NAMES[i], "table", SHAPE(hidden_of(&b)));
        m[i] = diffusion_add(&b.of, MODULATION_NAMES[i], b.edges[MODULATIONS + i], table);
    }
    bool has_both = layer.over_places && layer.over_frames;
    int branch = attend_along(&b, "attention", diffusion_adapt(&b.of, "attention", x, m[0], m[1]),
                              !layer.over_places);
    x = diffusion_add(&b.of, "attention.residual", x,
                      diffusion_modulate(&b.of, "attention.gated", m[2], branch, 0));
    if (has_both) {
        int frames = x;
        if (layer.adds_frames) {
            int places =
                diffusion_data(&b.of, "frame_embedding", SHAPE(frames_of(&b), hidden_of(&b)));
            frames = diffusion_add(&b.of, "temporal.placed", x, places);
        }
        branch = attend_along(&b, "temporal", frames, true);
        x = diffusion_add(&b.of, "temporal.residual", x,
                          diffusion_modulate(&b.of, "temporal.gated", m[2], branch, 0));
    }
    x = diffusion_add(&b.of, "cross.residual", x, attend_text(&b, x));
    branch = diffusion_feed_forward(&b.of, "mlp", diffusion_adapt(&b.of, "mlp", x, m[3], m[4]),
                                    ffn_of(model));
    b.edges[STATE] = diffusion_add(&b.of, "mlp.residual", x,
                                   diffusion_modulate(&b.of, "mlp.gated", m[5], branch, 0));
    hand_on(&b, layer.is_last ? TEXT : EDGES);
    return *b.of.builder.block;
}

// Each place's numbers of noise and, with pred_sigma, as many of its variance: the mean square of
// what they are off.
static struct block head_block(struct arena *arena, const struct stdit *model)
{
    struct building b = building_of(arena, "head", BLOCK_HEAD, model);
    take_edges(&b, "head", TEXT);
    int64_t channels = model->in_channels * (model->pred_sigma ? 2 : 1) * model->patch;
    struct extent out = {DIM_OUT_CHANNEL, channels};
    int shift = builder_parameter(&b.of.builder, "head.shift", "table", SHAPE(hidden_of(&b)));
    int scale = builder_parameter(&b.of.builder, "head.scale", "table", SHAPE(hidden_of(&b)));
    shift = diffusion_add(&b.of, "head.shift", b.edges[STEP], shift);
    scale = diffusion_add(&b.of, "head.scale", b.edges[STEP], scale);
    struct diffusion_linear linear = {.name = "head.patch",
                                      .weight = SHAPE(hidden_of(&b), out),
                                      .bias = SHAPE(out),
                                      .output = tokens_by(&b, out)};
    int x = diffusion_project(&b.of, diffusion_adapt(&b.of, "head", b.edges[STATE], shift, scale),
                              linear);
    int target = diffusion_data(&b.of, "target", builder_shape(&b.of.builder, x));
    diffusion_end(&b.of, x, target, SHAPE({DIM_BATCH, 0}, frames_of(&b), places_of(&b)));
    return *b.of.builder.block;
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
    assert(graph->sequence_count == graph->layer_count + 2);
    graph->parameter_count = graph_parameter_count(graph);
    graph->active_parameter_count = graph_active_parameter_count(graph);
    return graph;
}
