#include "models/families/diffusion.h"
#include "models/families/flux.h"

#include <assert.h>

// What is handed on, by place among a block's inputs and outputs; behind the blocks of two streams
// the text is part of the state.
enum { STATE, VECTOR, TEXT, EDGES };
enum { MODULATION_COUNT = 6 };

struct building {
    struct diffusion of;
    const struct flux *model;
    int edges[EDGES];
};

static struct building building_of(struct arena *arena, const char *name, enum block_role role,
                                   const struct flux *model)
{
    assert(model->num_attention_heads > 0 && model->attention_head_dim > 0);
    int64_t heads = model->num_attention_heads, width = model->attention_head_dim;
    return (struct building){.of = {.builder = builder_new(arena, name, role),
                                    .hidden = heads * width,
                                    .head_count = heads,
                                    .head_dim = width},
                             .model = model};
}

static int64_t places_of(const struct flux *model)
{
    assert(model->sample_size % 2 == 0);
    return model->sample_size / 2 * (model->sample_size / 2);
}

// One of the two streams, or what both are together.
static struct extent tokens_of(const struct flux *model, enum dim stream)
{
    assert(stream == DIM_TEXT || stream == DIM_SEQ || stream == DIM_JOINT);
    int64_t text = model->max_sequence_length, places = places_of(model);
    return (struct extent){stream, stream == DIM_TEXT  ? text
                                   : stream == DIM_SEQ ? places
                                                       : text + places};
}

static struct shape rows_by(const struct building *b, enum dim stream, struct extent last)
{
    return SHAPE({DIM_BATCH, 0}, tokens_of(b->model, stream), last);
}

static struct shape state_of(const struct building *b, enum dim stream)
{
    return rows_by(b, stream, diffusion_hidden(&b->of));
}

static struct shape headed(const struct building *b, enum dim stream)
{
    return SHAPE({DIM_BATCH, 0}, tokens_of(b->model, stream), {DIM_HEAD, b->of.head_count},
                 {DIM_HEAD_DIM, b->of.head_dim});
}

static void hand_on(struct building *b, int count)
{
    assert(count > 0 && count <= EDGES);
    struct block *block = b->of.builder.block;
    for (int i = 0; i < count; i++)
        block->outputs[block->output_count++] = b->edges[i];
}

static void take(struct building *b, int edge, const char *name, struct shape shape)
{
    assert(edge >= 0 && edge < EDGES);
    struct block *block = b->of.builder.block;
    b->edges[edge] = diffusion_activation(&b->of, name, shape);
    block->inputs[block->input_count++] = b->edges[edge];
}

static struct block embedding_block(struct arena *arena, const struct flux *model)
{
    struct building b = building_of(arena, "embedding", BLOCK_EMBEDDING, model);
    struct extent hidden = diffusion_hidden(&b.of), channel = {DIM_CHANNEL, model->in_channels};
    struct extent text = {DIM_CHANNEL, model->joint_attention_dim};
    struct extent pooled = {DIM_CHANNEL, model->pooled_projection_dim};
    struct diffusion_linear patches = {.name = "embedding.patch",
                                       .weight = SHAPE(channel, hidden),
                                       .bias = SHAPE(hidden),
                                       .output = state_of(&b, DIM_SEQ)};
    struct diffusion_linear states = {.name = "embedding.text",
                                      .weight = SHAPE(text, hidden),
                                      .bias = SHAPE(hidden),
                                      .output = state_of(&b, DIM_TEXT)};
    int latents = diffusion_data(&b.of, "noised_latents", rows_by(&b, DIM_SEQ, channel));
    b.edges[STATE] = diffusion_project(&b.of, latents, patches);
    int vector = diffusion_embed_waves(&b.of, "embedding.step", "timestep_waves");
    if (model->guidance_embeds) {
        int guidance = diffusion_embed_waves(&b.of, "embedding.guidance", "guidance_waves");
        vector = diffusion_add(&b.of, "embedding.guided", vector, guidance);
    }
    int given = diffusion_data(&b.of, "pooled_text", SHAPE({DIM_BATCH, 0}, pooled));
    given = diffusion_embed_vector(&b.of, "embedding.pooled", given);
    b.edges[VECTOR] = diffusion_add(&b.of, "embedding.conditioned", vector, given);
    given = diffusion_data(&b.of, "text_states", rows_by(&b, DIM_TEXT, text));
    b.edges[TEXT] = diffusion_project(&b.of, given, states);
    hand_on(&b, EDGES);
    return *b.of.builder.block;
}

// What a block's vector says of one stream: "PREFIX.shift" and so on.
static void modulations(struct building *b, const char *const *names, int count, int active,
                        int *made)
{
    struct extent hidden = diffusion_hidden(&b->of);
    for (int i = 0; i < count; i++) {
        struct diffusion_linear of = {.name = names[i],
                                      .weight = SHAPE({DIM_RANK, b->of.hidden}, hidden),
                                      .bias = SHAPE(hidden),
                                      .output = SHAPE({DIM_BATCH, 0}, hidden)};
        made[i] = diffusion_project(&b->of, active, of);
    }
}

static int activate(struct building *b)
{
    int active = diffusion_apply(&b->of, "vector.active", b->edges[VECTOR], FUNCTION_SILU);
    return diffusion_rename_hidden(&b->of, "vector.renamed", active);
}

// Queries, keys and values of one stream.
struct flux_heads {
    int query, key, value;
};

static struct flux_heads project_heads(struct building *b, const char *prefix, int x,
                                       enum dim stream)
{
    struct arena *arena = b->of.builder.arena;
    struct shape shape = headed(b, stream);
    const char *q = arena_print(arena, "%s.q", prefix), *k = arena_print(arena, "%s.k", prefix);
    struct flux_heads made = {
        .query = diffusion_head_norm(&b->of, q, diffusion_to_heads(&b->of, q, x, shape)),
        .key = diffusion_head_norm(&b->of, k, diffusion_to_heads(&b->of, k, x, shape)),
        .value = diffusion_to_heads(&b->of, arena_print(arena, "%s.v", prefix), x, shape)};
    return made;
}

static int join(struct building *b, const char *name, int text, int places, struct shape shape)
{
    struct op op = {.name = name, .kind = OP_CONCAT, .input_count = 2, .inputs = {text, places}};
    return diffusion_append(&b->of, op, shape);
}

// Of the joint sequence: places of a picture are rotated by row and column, tokens of a text stay.
static int attend(struct building *b, struct flux_heads heads)
{
    assert(b->model->rotary_dims > 0 && b->model->rotary_dims <= b->model->attention_head_dim);
    const struct flux *model = b->model;
    struct op rotation = {.rotary_dims = model->rotary_dims,
                          .rotary_first = model->attention_head_dim - model->rotary_dims,
                          .rotary_columns = model->sample_size / 2,
                          .rotary_still = model->max_sequence_length};
    int query = diffusion_rotate(&b->of, "attention.q", heads.query, rotation);
    int key = diffusion_rotate(&b->of, "attention.k", heads.key, rotation);
    return diffusion_attend(&b->of, "attention", query, key, heads.value);
}

// Both streams ask both of them.
static void attend_together(struct building *b, int text, int places, int *of_text, int *of_places)
{
    struct flux_heads t = project_heads(b, "text.attention", text, DIM_TEXT);
    struct flux_heads p = project_heads(b, "attention", places, DIM_SEQ);
    struct shape joint = headed(b, DIM_JOINT);
    struct flux_heads all = {.query = join(b, "attention.q.joint", t.query, p.query, joint),
                             .key = join(b, "attention.k.joint", t.key, p.key, joint),
                             .value = join(b, "attention.v.joint", t.value, p.value, joint)};
    int context = attend(b, all);
    struct op part = {.name = "attention.text_part",
                      .kind = OP_PART,
                      .input_count = 1,
                      .inputs = {context},
                      .output_count = 2};
    part.outputs[1] = diffusion_activation(&b->of, "attention.part", headed(b, DIM_SEQ));
    text = diffusion_append(&b->of, part, headed(b, DIM_TEXT));
    *of_text = diffusion_from_heads(&b->of, "text.attention.out", text, state_of(b, DIM_TEXT));
    *of_places =
        diffusion_from_heads(&b->of, "attention.out", part.outputs[1], state_of(b, DIM_SEQ));
}

// x + gate * branch
static int add_gated(struct building *b, const char *prefix, int x, int gate, int branch)
{
    struct arena *arena = b->of.builder.arena;
    branch = diffusion_modulate(&b->of, arena_print(arena, "%s.gated", prefix), gate, branch, 0);
    return diffusion_add(&b->of, arena_print(arena, "%s.residual", prefix), x, branch);
}

static int add_forward(struct building *b, const char *prefix, int x, const int *m)
{
    int adapted = diffusion_adapt(&b->of, prefix, x, m[3], m[4]);
    int branch = diffusion_feed_forward(&b->of, prefix, adapted, 4 * b->of.hidden);
    return add_gated(b, prefix, x, m[5], branch);
}

static struct block double_block(struct arena *arena, const struct flux *model)
{
    static const char *const PLACES[MODULATION_COUNT] = {"attention.shift", "attention.scale",
                                                         "attention.gate",  "mlp.shift",
                                                         "mlp.scale",       "mlp.gate"};
    static const char *const WORDS[MODULATION_COUNT] = {
        "text.attention.shift", "text.attention.scale", "text.attention.gate",
        "text.mlp.shift",       "text.mlp.scale",       "text.mlp.gate"};
    struct building b = building_of(arena, "layer.double", BLOCK_LAYER, model);
    take(&b, STATE, "layer.given.input", state_of(&b, DIM_SEQ));
    take(&b, VECTOR, "layer.given.vector", SHAPE({DIM_BATCH, 0}, diffusion_hidden(&b.of)));
    take(&b, TEXT, "layer.given.text", state_of(&b, DIM_TEXT));
    int active = activate(&b), m[MODULATION_COUNT], w[MODULATION_COUNT], of_text, of_places;
    modulations(&b, PLACES, MODULATION_COUNT, active, m);
    modulations(&b, WORDS, MODULATION_COUNT, active, w);
    int places = diffusion_adapt(&b.of, "attention", b.edges[STATE], m[0], m[1]);
    int text = diffusion_adapt(&b.of, "text.attention", b.edges[TEXT], w[0], w[1]);
    attend_together(&b, text, places, &of_text, &of_places);
    places = add_gated(&b, "attention", b.edges[STATE], m[2], of_places);
    text = add_gated(&b, "text.attention", b.edges[TEXT], w[2], of_text);
    b.edges[STATE] = add_forward(&b, "mlp", places, m);
    b.edges[TEXT] = add_forward(&b, "text.mlp", text, w);
    hand_on(&b, EDGES);
    return *b.of.builder.block;
}

// The product of what heads and the feed-forward layer made, side by side, with one matrix is the
// sum of two.
static int project_both(struct building *b, int context, int inner)
{
    struct extent heads = {DIM_HEAD, b->of.head_count}, width = {DIM_HEAD_DIM, b->of.head_dim};
    struct extent ffn = {DIM_FFN, 4 * b->of.hidden}, hidden = diffusion_hidden(&b->of);
    int weight =
        builder_parameter(&b->of.builder, "out.attention", "weight", SHAPE(heads, width, hidden));
    int other = builder_parameter(&b->of.builder, "out.mlp", "weight", SHAPE(ffn, hidden));
    int bias = builder_parameter(&b->of.builder, "out", "bias", SHAPE(hidden));
    struct op of_heads = {.name = "out.attention",
                          .kind = OP_CONTRACT,
                          .input_count = 2,
                          .inputs = {context, weight}};
    struct op of_inner = {
        .name = "out.mlp", .kind = OP_CONTRACT, .input_count = 2, .inputs = {inner, other}};
    struct shape shape = state_of(b, DIM_JOINT);
    int x = diffusion_append(&b->of, of_heads, shape);
    x = diffusion_add(&b->of, "out.both", x, diffusion_append(&b->of, of_inner, shape));
    return diffusion_add(&b->of, "out.biased", x, bias);
}

// The first reads the two streams and makes one of them.
static struct block single_block(struct arena *arena, const struct flux *model, bool is_first)
{
    static const char *const NAMES[] = {"shift", "scale", "gate"};
    struct building b =
        building_of(arena, is_first ? "layer.first" : "layer.single", BLOCK_LAYER, model);
    struct extent ffn = {DIM_FFN, 4 * b.of.hidden}, hidden = diffusion_hidden(&b.of);
    take(&b, STATE, "layer.given.input", state_of(&b, is_first ? DIM_SEQ : DIM_JOINT));
    take(&b, VECTOR, "layer.given.vector", SHAPE({DIM_BATCH, 0}, hidden));
    int x = b.edges[STATE], m[3];
    if (is_first) {
        take(&b, TEXT, "layer.given.text", state_of(&b, DIM_TEXT));
        x = join(&b, "layer.joint", b.edges[TEXT], x, state_of(&b, DIM_JOINT));
    }
    modulations(&b, NAMES, 3, activate(&b), m);
    int adapted = diffusion_adapt(&b.of, "adapted", x, m[0], m[1]);
    struct diffusion_linear up = {.name = "mlp.up",
                                  .weight = SHAPE(hidden, ffn),
                                  .bias = SHAPE(ffn),
                                  .output = rows_by(&b, DIM_JOINT, ffn),
                                  .class = OP_CLASS_MLP};
    int inner = diffusion_project(&b.of, adapted, up);
    inner = diffusion_apply(&b.of, "mlp.activation", inner, FUNCTION_GELU_TANH);
    b.of.builder.block->ops[b.of.builder.block->op_count - 1].class = OP_CLASS_ACTIVATION;
    int context = attend(&b, project_heads(&b, "attention", adapted, DIM_JOINT));
    b.edges[STATE] = add_gated(&b, "out", x, m[2], project_both(&b, context, inner));
    hand_on(&b, TEXT);
    return *b.of.builder.block;
}

// Of places alone: what the model says of each.
static struct block head_block(struct arena *arena, const struct flux *model)
{
    static const char *const NAMES[] = {"head.scale", "head.shift"};
    struct building b = building_of(arena, "head", BLOCK_HEAD, model);
    struct extent out = {DIM_OUT_CHANNEL, model->out_channels};
    take(&b, STATE, "head.given.input", state_of(&b, DIM_JOINT));
    take(&b, VECTOR, "head.given.vector", SHAPE({DIM_BATCH, 0}, diffusion_hidden(&b.of)));
    struct op part = {
        .name = "head.part", .kind = OP_PART, .input_count = 1, .inputs = {b.edges[STATE]}};
    int x = diffusion_append(&b.of, part, state_of(&b, DIM_SEQ)), m[2];
    modulations(&b, NAMES, 2, activate(&b), m);
    struct diffusion_linear linear = {.name = "head.patch",
                                      .weight = SHAPE(diffusion_hidden(&b.of), out),
                                      .bias = SHAPE(out),
                                      .output = rows_by(&b, DIM_SEQ, out)};
    x = diffusion_project(&b.of, diffusion_adapt(&b.of, "head", x, m[1], m[0]), linear);
    int target = diffusion_data(&b.of, "target", builder_shape(&b.of.builder, x));
    diffusion_end(&b.of, x, target, SHAPE({DIM_BATCH, 0}, tokens_of(model, DIM_SEQ)));
    return *b.of.builder.block;
}

// Adds a kind of block, which the sequence has so often.
static void append(struct graph *graph, struct block block, int64_t count)
{
    if (count == 0) return;
    graph->blocks[graph->block_count] = block;
    for (int64_t i = 0; i < count; i++)
        graph->sequence[graph->sequence_count++] = graph->block_count;
    graph->block_count++;
}

struct graph *flux_graph(struct arena *arena, const void *flux,
                         const struct import_options *options)
{
    enum { KINDS = 5 };
    const struct flux *model = flux;
    (void)options;
    struct graph *graph = ARENA_NEW(arena, struct graph, 1);
    graph->model_type = "FluxTransformer2DModel";
    graph->layer_count = (int)(model->num_layers + model->num_single_layers);
    graph->hidden = model->num_attention_heads * model->attention_head_dim;
    graph->head_count = graph->kv_head_count = model->num_attention_heads;
    graph->head_dim = model->attention_head_dim;
    graph->ffn = 4 * graph->hidden;
    graph->frames = 1;
    graph->places = graph->seq_len_max = places_of(model);
    graph->has_conditions = graph->joins_text = true;
    graph->channels = model->in_channels;
    graph->blocks = ARENA_NEW(arena, struct block, KINDS);
    graph->sequence = ARENA_NEW(arena, int, graph->layer_count + 2);
    append(graph, embedding_block(arena, model), 1);
    append(graph, double_block(arena, model), model->num_layers);
    append(graph, single_block(arena, model, true), 1);
    append(graph, single_block(arena, model, false), model->num_single_layers - 1);
    append(graph, head_block(arena, model), 1);
    assert(graph->block_count <= KINDS);
    assert(graph->sequence_count == graph->layer_count + 2);
    graph->parameter_count = graph_parameter_count(graph);
    graph->active_parameter_count = graph_active_parameter_count(graph);
    return graph;
}
