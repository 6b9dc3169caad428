#include "models/families/unet_parts.h"

#include <assert.h>

static const double RESIZE_FLOP = 7;

static struct shape state_of(const struct unet_building *b)
{
    return unet_image(b->model, b->at->level, b->at->channels);
}

static int64_t vector_width(const struct unet *model)
{
    return 4 * model->channels[0];
}

static void take(struct unet_building *b, int edge, const char *name, struct shape shape)
{
    assert(b->of.builder.block->input_count < BLOCK_EDGES && edge < BLOCK_EDGES);
    struct block *block = b->of.builder.block;
    b->edges[edge] = diffusion_activation(&b->of, name, shape);
    block->inputs[block->input_count++] = b->edges[edge];
}

// A block that reads all that is handed on.
static struct unet_building building_of(struct arena *arena, const char *name, enum block_role role,
                                        const struct unet *model, struct unet_place *at)
{
    struct unet_building b = {
        .of = {.builder = builder_new(arena, name, role), .hidden = vector_width(model)},
        .model = model,
        .at = at,
        .active = -1};
    if (role == BLOCK_EMBEDDING) return b;
    take(&b, UNET_STATE, "given.state", state_of(&b));
    if (role == BLOCK_HEAD) return b;
    take(&b, UNET_VECTOR, "given.vector", SHAPE({DIM_BATCH, 0}, diffusion_hidden(&b.of)));
    for (int i = 0; i < at->kept_count; i++)
        take(&b, UNET_KEPT + i, arena_print(arena, "given.kept%d", i),
             unet_image(model, at->kept_level[i], at->kept[i]));
    return b;
}

// Behind the last that joins, the head wants the state alone.
static struct block handed_on(struct unet_building *b, bool is_last)
{
    struct block *block = b->of.builder.block;
    for (int i = 0; i < (is_last ? UNET_VECTOR : UNET_KEPT + b->at->kept_count); i++)
        block->outputs[block->output_count++] = b->edges[i];
    return *block;
}

// What came in is kept for the way up.
static void keep_input(struct unet_building *b, int input, int64_t channels, int level)
{
    assert(b->at->kept_count < BLOCK_EDGES - UNET_KEPT);
    struct unet_place *at = b->at;
    b->edges[UNET_KEPT + at->kept_count] = input;
    at->kept[at->kept_count] = channels;
    at->kept_level[at->kept_count++] = level;
}

static int text_states(struct unet_building *b)
{
    return diffusion_data(&b->of, "text_states",
                          SHAPE({DIM_BATCH, 0}, {DIM_TEXT, b->model->max_sequence_length},
                                {DIM_CHANNEL, b->model->cross_attention_dim}));
}

static struct block embedding_block(struct arena *arena, const struct unet *model,
                                    struct unet_place *at)
{
    struct unet_building b = building_of(arena, "embedding", BLOCK_EMBEDDING, model, at);
    int x = diffusion_data(&b.of, "noised_latents", unet_image(model, 0, model->in_channels));
    b.edges[UNET_STATE] =
        unet_convolve(&b, "embedding.conv", x, model->in_channels, model->channels[0], 3, 1);
    int waves = diffusion_data(&b.of, "timestep_waves",
                               SHAPE({DIM_BATCH, 0}, {DIM_CHANNEL, model->channels[0]}));
    b.edges[UNET_VECTOR] = diffusion_embed_vector(&b.of, "embedding.step", waves);
    if (model->adds_text) {
        struct extent width = {DIM_CHANNEL, model->projection_class_embeddings_input_dim};
        int added = diffusion_data(&b.of, "pooled_text", SHAPE({DIM_BATCH, 0}, width));
        added = diffusion_embed_vector(&b.of, "embedding.added", added);
        b.edges[UNET_VECTOR] = diffusion_add(&b.of, "embedding.both", b.edges[UNET_VECTOR], added);
    }
    at->channels = model->channels[0];
    return handed_on(&b, false);
}

static struct block down_block(struct arena *arena, const struct unet *model, struct unet_place *at,
                               const char *name)
{
    struct unet_building b = building_of(arena, name, BLOCK_LAYER, model, at);
    int64_t channels = at->channels, out = model->channels[at->level];
    int input = b.edges[UNET_STATE], x = unet_residual(&b, "residual", input, channels, out);
    if (model->attends_down[at->level])
        x = unet_transform(&b, "transformer", x, at->level, text_states(&b));
    keep_input(&b, input, channels, at->level);
    at->channels = out;
    b.edges[UNET_STATE] = x;
    return handed_on(&b, false);
}

static struct block halving_block(struct arena *arena, const struct unet *model,
                                  struct unet_place *at, const char *name)
{
    struct unet_building b = building_of(arena, name, BLOCK_LAYER, model, at);
    int input = b.edges[UNET_STATE];
    b.edges[UNET_STATE] = unet_convolve(&b, "halved", input, at->channels, at->channels, 3, 2);
    keep_input(&b, input, at->channels, at->level++);
    return handed_on(&b, false);
}

static struct block middle_block(struct arena *arena, const struct unet *model,
                                 struct unet_place *at)
{
    struct unet_building b = building_of(arena, "middle", BLOCK_LAYER, model, at);
    int64_t channels = at->channels;
    int input = b.edges[UNET_STATE], x = unet_residual(&b, "residual", input, channels, channels);
    x = unet_transform(&b, "transformer", x, at->level, text_states(&b));
    b.edges[UNET_STATE] = unet_residual(&b, "residual2", x, channels, channels);
    keep_input(&b, input, channels, at->level);
    return handed_on(&b, false);
}

static struct block up_block(struct arena *arena, const struct unet *model, struct unet_place *at,
                             const char *name)
{
    assert(at->kept_count > 0);
    struct unet_building b = building_of(arena, name, BLOCK_LAYER, model, at);
    int64_t out = model->channels[at->level], joined = at->channels + at->kept[--at->kept_count];
    struct shape shape = unet_image(model, at->level, joined);
    struct op join = {.name = "joined",
                      .input_count = 2,
                      .inputs = {b.edges[UNET_STATE], b.edges[UNET_KEPT + at->kept_count]},
                      .work = {.backward_flop = unet_elements(shape)}};
    int x = unet_operate(&b, join, IMPORTED_CONCAT, shape);
    x = unet_residual(&b, "residual", x, joined, out);
    if (model->attends_up[at->level])
        x = unet_transform(&b, "transformer", x, at->level, text_states(&b));
    at->channels = out;
    b.edges[UNET_STATE] = x;
    return handed_on(&b, at->kept_count == 0);
}

static struct block doubling_block(struct arena *arena, const struct unet *model,
                                   struct unet_place *at, const char *name)
{
    assert(at->level > 0);
    struct unet_building b = building_of(arena, name, BLOCK_LAYER, model, at);
    struct shape shape = unet_image(model, --at->level, at->channels);
    struct op resize = {.name = "resized",
                        .input_count = 1,
                        .inputs = {b.edges[UNET_STATE]},
                        .work = {.flop = RESIZE_FLOP * unet_elements(shape),
                                 .backward_flop = unet_elements(shape)}};
    int x = unet_operate(&b, resize, IMPORTED_RESIZE, shape);
    b.edges[UNET_STATE] = unet_convolve(&b, "doubled", x, at->channels, at->channels, 3, 1);
    return handed_on(&b, false);
}

// The mean square of what is said of all numbers of a sample.
static struct block head_block(struct arena *arena, const struct unet *model, struct unet_place *at)
{
    struct unet_building b = building_of(arena, "head", BLOCK_HEAD, model, at);
    int64_t side = unet_side(model, 0), out = model->out_channels;
    int x = unet_normed(&b, "head.norm", b.edges[UNET_STATE]);
    x = unet_convolve(&b, "head.conv", x, at->channels, out, 3, 1);
    struct shape flat = SHAPE({DIM_BATCH, 0}, {DIM_OUT_CHANNEL, out * side * side});
    int target = diffusion_data(&b.of, "target", unet_image(model, 0, out));
    x = unet_flatten(&b, "head.flat", x, flat);
    target = unet_flatten(&b, "target.flat", target, flat);
    b.of.builder.block->tensors[target].frozen = true;
    diffusion_end(&b.of, x, target, SHAPE({DIM_BATCH, 0}));
    return *b.of.builder.block;
}

static void append(struct graph *graph, struct block block)
{
    graph->sequence[graph->sequence_count++] = graph->block_count;
    graph->blocks[graph->block_count++] = block;
}

// Each block has its own set of what is kept, so that none is there twice.
static void append_layers(struct arena *arena, const struct unet *model, struct graph *graph,
                          struct unet_place *at)
{
    int last = model->level_count - 1;
    for (int level = 0; level <= last; level++) {
        for (int i = 0; i < model->layers_per_block; i++)
            append(graph, down_block(arena, model, at, arena_print(arena, "down%d.%d", level, i)));
        if (level < last)
            append(graph, halving_block(arena, model, at, arena_print(arena, "down%d.end", level)));
    }
    append(graph, middle_block(arena, model, at));
    for (int level = last; level >= 0; level--) {
        for (int i = 0; i <= model->layers_per_block; i++)
            append(graph, up_block(arena, model, at, arena_print(arena, "up%d.%d", level, i)));
        if (level > 0)
            append(graph, doubling_block(arena, model, at, arena_print(arena, "up%d.end", level)));
    }
    assert(at->kept_count == 0 && at->level == 0);
}

// What divides the heads of all levels.
static int64_t common_heads(const struct unet *model)
{
    int64_t common = model->heads[0];
    for (int i = 1; i < model->level_count; i++) {
        for (int64_t other = model->heads[i]; other;) {
            int64_t rest = common % other;
            common = other;
            other = rest;
        }
    }
    return common;
}

struct graph *unet_graph(struct arena *arena, const void *unet,
                         const struct import_options *options)
{
    const struct unet *model = unet;
    (void)options;
    struct graph *graph = ARENA_NEW(arena, struct graph, 1);
    struct unet_place at = {0};
    int levels = model->level_count, each = (int)model->layers_per_block;
    graph->model_type = "UNet2DConditionModel";
    graph->layer_count = levels * (2 * each + 1) + 2 * (levels - 1) + 1;
    graph->hidden = model->channels[0];
    graph->head_count = graph->kv_head_count = common_heads(model);
    graph->head_dim = model->channels[0] / model->heads[0];
    graph->ffn = 4 * model->channels[0];
    graph->seq_len_max = 1;
    graph->channels = model->in_channels;
    graph->blocks = ARENA_NEW(arena, struct block, graph->layer_count + 2);
    graph->sequence = ARENA_NEW(arena, int, graph->layer_count + 2);
    append(graph, embedding_block(arena, model, &at));
    append_layers(arena, model, graph, &at);
    append(graph, head_block(arena, model, &at));
    assert(graph->block_count == graph->layer_count + 2);
    graph->parameter_count = graph_parameter_count(graph);
    graph->active_parameter_count = graph_active_parameter_count(graph);
    return graph;
}
