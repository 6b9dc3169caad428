#include "models/families/decoder.h"

#include "models/families/handed.h"
#include "models/families/layer_kinds.h"

#include <assert.h>
#include <string.h>

static struct layers start(struct arena *arena, const struct decoder *decoder,
                           const struct import_options *options, int64_t vocab_padded,
                           const char *name, enum block_role role)
{
    return (struct layers){builder_new(arena, name, role), decoder,         *options, vocab_padded,
                           .parts = LAYER_PARTS_COMMON,    .whole = decoder};
}

static int block_input(struct layers *layers, const char *name)
{
    assert(layers->builder.block->input_count < BLOCK_EDGES);
    const struct decoder *d = layers->decoder;
    struct block *block = layers->builder.block;
    struct shape shape =
        d->hyper.count > 0 ? layers_stream_shape(layers) : layers_tokens(DIM_HIDDEN, d->hidden);
    int input = builder_tensor(&layers->builder, name, TENSOR_ACTIVATION, ELEMENT_COMPUTE, shape);
    block->inputs[block->input_count++] = input;
    return input;
}

// What the encoder says, of as many places as it has.
static int memory_input(struct layers *layers, const char *name)
{
    int input = block_input(layers, name);
    struct tensor *tensor = &layers->builder.block->tensors[input];
    tensor->extents[tensor_find_dim(tensor, DIM_SEQ)].size =
        decoder_place_count(layers->decoder->encoder);
    return input;
}

static struct block finish(struct layers *layers, int output)
{
    assert(layers->builder.block->output_count < BLOCK_EDGES && output >= 0);
    struct block *block = layers->builder.block;
    layers_fix_places(layers);
    block->outputs[block->output_count++] = output;
    return *block;
}

static int ids(struct layers *layers, const char *name, struct shape shape)
{
    return layers_data(layers, name, ELEMENT_INT64, shape);
}

static struct extent table_width(const struct decoder *d)
{
    if (d->embedding_size) return (struct extent){DIM_RANK, d->embedding_size};
    return (struct extent){DIM_HIDDEN, d->hidden};
}

static struct extent head_width(const struct decoder *d)
{
    return d->head_size ? (struct extent){DIM_RANK, d->head_size} : table_width(d);
}

static const char TOKEN_TIE[] = "embedding.token.weight";

// The rows of the token table. Head and prediction module share it where the model says so.
static int embed_tokens(struct layers *layers, const char *ids_name)
{
    const struct decoder *d = layers->decoder;
    int tokens = ids(layers, ids_name, SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}));
    struct extent rows = {DIM_VOCAB, layers->vocab_padded}, hidden = {DIM_HIDDEN, d->hidden};
    bool has_pictures = d->encoder && decoder_place_count(d->encoder) > 0;
    bool is_shared = layers->stack && !has_pictures && d->contrast.width == 0;
    const char *tie = d->tied || d->mtp_count > 0 || is_shared ? TOKEN_TIE : NULL;
    int x = layers_gather(layers, "embedding.token", tokens, rows, table_width(d), tie);
    layers->embedded = x;
    if (d->embedding_size && !d->embedding_is_narrow) {
        struct projection in = {.name = "embedding.project",
                                .weight = SHAPE(table_width(d), hidden),
                                .output = layers_tokens(DIM_HIDDEN, d->hidden)};
        x = layers_project(layers, x, in);
    }
    if (d->embedding_scale > 0) {
        x = layers_function(layers, "embedding.scale", x, FUNCTION_SCALE, d->embedding_scale);
    }
    return x;
}

// What the first layer of a stack reads.
static int embed(struct layers *layers, const char *ids_name)
{
    const struct decoder *d = layers->decoder;
    struct shape tokens = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0});
    struct extent hidden = {DIM_HIDDEN, d->hidden};
    if (d->embedding_is_narrow) hidden = table_width(d);
    int x = d->picture.patch_count > 0 ? layers_picture(layers)
            : d->sound.place_count > 0 ? layers_sound(layers)
                                       : embed_tokens(layers, ids_name);
    if (d->embedding_norm && d->embedding_norm_first)
        x = layers_norm(layers, "embedding.norm", x, d->norm);
    if (d->position_count) {
        struct extent positions = {DIM_POSITION, d->position_count};
        int position_ids = ids(layers, "position_ids", SHAPE({DIM_SEQ, 0}));
        int rotary =
            layers_gather(layers, "embedding.position", position_ids, positions, hidden, NULL);
        x = layers_add(layers, "embedding.positioned", x, rotary);
    }
    if (d->sinusoids) x = layers_add_sinusoids(layers, x);
    if (d->type_count) {
        struct extent types = {DIM_TABLE, d->type_count};
        int type_ids = ids(layers, "token_type_ids", tokens);
        int type = layers_gather(layers, "embedding.type", type_ids, types, hidden, NULL);
        x = layers_add(layers, "embedding.typed", x, type);
    }
    if (d->embedding_norm && !d->embedding_norm_first)
        x = layers_norm(layers, "embedding.norm", x, d->norm);
    x = layers_dropout(layers, "embedding.dropout", x, d->embedding_dropout);
    if (!d->embedding_is_narrow) return x;
    struct projection wide = {.name = "embedding.project",
                              .weight = SHAPE(hidden, {DIM_HIDDEN, d->hidden}),
                              .output = layers_tokens(DIM_HIDDEN, d->hidden),
                              .bias = true};
    return layers_project(layers, x, wide);
}

static struct block embedding_block(struct layers layers)
{
    int x = embed(&layers, "token_ids");
    if (layers.decoder->hyper.count > 0) x = layers_spread(&layers, x);
    finish(&layers, x);
    if (layers.decoder->altup.stream_count > 0) layers.streams = layers_streams(&layers, x);
    layers_give(&layers, handed_on(layers.whole, -1));
    return *layers.builder.block;
}

// What the tower of pictures says of each, which only the head asks for.
static int picture_input(struct layers *layers, const char *name)
{
    assert(layers->decoder->contrast.width > 0);
    struct block *block = layers->builder.block;
    struct shape shape = SHAPE({DIM_BATCH, 0}, {DIM_RANK, layers->decoder->contrast.width});
    int input = builder_tensor(&layers->builder, name, TENSOR_ACTIVATION, ELEMENT_COMPUTE, shape);
    block->inputs[block->input_count++] = input;
    return input;
}

// Between the towers: what the one says goes past what the other begins with.
static struct block between_towers(struct layers layers)
{
    int picture = picture_input(&layers, "vision.output");
    finish(&layers, embed(&layers, "token_ids"));
    return finish(&layers, picture);
}

// Between a tower and the text that its pictures stand in, at places where no token is.
static struct block picture_in_text(struct layers layers)
{
    const struct decoder *text = layers.decoder;
    layers.decoder = text->encoder;
    int x = block_input(&layers, "vision.output");
    x = layers_picture_tokens(&layers, x, text->hidden);
    layers_fix_places(&layers);
    layers.decoder = text;
    int placed = layers_picture_placed(&layers, x);
    x = layers_add(&layers, "embedding.joined", embed(&layers, "token_ids"), placed);
    return finish(&layers, x);
}

// Between encoder and decoder: what the one says goes on beside what the other begins with.
static struct block joining_block(struct layers layers)
{
    const struct decoder *d = layers.decoder, *encoder = d->encoder;
    int memory = memory_input(&layers, "encoder.output");
    if (!encoder->no_final_norm) memory = layers_norm(&layers, "encoder.norm", memory, d->norm);
    memory = layers_dropout(&layers, "encoder.dropout", memory, encoder->final_dropout);
    finish(&layers, embed(&layers, "decoder_token_ids"));
    return finish(&layers, memory);
}

static int scaled(struct layers *layers, const char *name, int input, double factor)
{
    if (factor == 0) return input;
    return layers_function(layers, name, input, FUNCTION_SCALE, factor);
}

static int residual(struct layers *layers, const char *name, int x, int branch)
{
    const struct decoder *d = layers->decoder;
    struct arena *arena = layers->builder.arena;
    struct skip_factors by = strcmp(name, "scan") == 0  ? d->on_scan
                             : strcmp(name, "mlp") == 0 ? d->on_mlp
                                                        : d->on_attention;
    bool is_attention = strcmp(name, "mlp") != 0;
    const char *dropout = arena_print(arena, "%s.dropout", name);
    if (!(is_attention && d->attention_adds_all))
        branch = layers_dropout(layers, dropout, branch, d->hidden_dropout);
    double factor = d->residual_scale > 0 ? d->residual_scale : by.branch;
    branch = scaled(layers, arena_print(arena, "%s.scaled", name), branch, factor);
    x = scaled(layers, arena_print(arena, "%s.kept", name), x, by.residual);
    if (d->branch_factors) {
        const char *factored = arena_print(arena, "%s.factors", name);
        struct shape hidden = SHAPE({DIM_HIDDEN, d->hidden});
        int factors = layers_parameter(layers, factored, "weight", hidden, NULL);
        branch = layers_gate(layers, factored, factors, branch, FUNCTION_MODULATE, 0);
    }
    return layers_add(layers, arena_print(arena, "%s.residual", name), x, branch);
}

static int mlp_or_experts(struct layers *layers, int input)
{
    return layers->is_mixture ? layers_experts(layers, input) : layers_mlp(layers, input);
}

// Both branches read the same input, and one sum joins them with it.
static int parallel_layer(struct layers *layers, int x, int64_t window)
{
    const struct decoder *d = layers->decoder;
    int normed = layers_norm(layers, "attention.norm", x, d->norm);
    int mlp_input =
        d->norm_place == NORM_SHARED ? normed : layers_norm(layers, "mlp.norm", x, d->norm);
    int attention = layers_attention(layers, normed, window);
    attention = layers_dropout(layers, "attention.dropped", attention, d->hidden_dropout);
    int mlp = mlp_or_experts(layers, mlp_input);
    mlp = layers_dropout(layers, "mlp.dropped", mlp, d->hidden_dropout);
    return layers_add(layers, "residual", x, layers_add(layers, "branches", attention, mlp));
}

// Between a layer's attention to itself and its mlp.
static int cross_layer(struct layers *layers, int x, int memory)
{
    const struct decoder *d = layers->decoder;
    bool after = d->norm_place == NORM_AFTER;
    assert(after || d->norm_place == NORM_BEFORE);
    int normed = after ? x : layers_norm(layers, "cross.norm", x, d->norm);
    x = residual(layers, "cross", x, layers_cross_attention(layers, normed, memory));
    return after ? layers_norm(layers, "cross.norm", x, d->norm) : x;
}

// `memory` is what the encoder says; negative: there is none.
static int sequential_layer(struct layers *layers, int x, int memory, int64_t window)
{
    const struct decoder *d = layers->decoder;
    bool after = d->norm_place == NORM_AFTER;
    bool before = d->norm_place == NORM_BEFORE || d->norm_place == NORM_BOTH;
    bool behind = d->norm_place == NORM_RESULT || d->norm_place == NORM_BOTH;

    bool is_normed = before && !layers->is_unnormed;
    int normed = is_normed ? layers_norm(layers, "attention.norm", x, d->norm) : x;
    int branch = layers_attention(layers, normed, window);
    if (behind) branch = layers_norm(layers, "attention.post_norm", branch, d->norm);
    x = residual(layers, "attention", d->residual_after_norm ? normed : x, branch);
    if (after) x = layers_norm(layers, "attention.norm", x, d->norm);
    if (memory >= 0) x = cross_layer(layers, x, memory);

    normed = before ? layers_norm(layers, "mlp.norm", x, d->norm) : x;
    branch = d->experts.is_beside_mlp ? layers_mlp_and_experts(layers, normed, x)
                                      : mlp_or_experts(layers, normed);
    if (behind || (layers->is_mixture && d->experts.result_norm))
        branch = layers_norm(layers, "mlp.post_norm", branch, d->norm);
    x = residual(layers, "mlp", d->residual_after_norm ? normed : x, branch);
    if (after) x = layers_norm(layers, "mlp.norm", x, d->norm);
    return d->per_layer_width > 0 ? layers_per_layer(layers, x) : x;
}

// Layers of other parts than attention and mlp have their norms in front, wherever those have them.
static int mixed_layer(struct layers *layers, int x, int64_t window)
{
    const struct decoder *d = layers->decoder;
    bool attends = layers->parts & LAYER_ATTENTION, scans = layers->parts & LAYER_SCAN;
    assert(d->norm_place == NORM_BEFORE || !attends);
    if (attends || scans) {
        int normed = layers_norm(layers, scans ? "scan.norm" : "attention.norm", x, d->norm);
        int branch = scans ? layers_scan(layers, normed) : -1;
        int attention = attends ? layers_attention(layers, normed, window) : -1;
        if (attends && scans) branch = layers_add(layers, "mixer", branch, attention);
        x = residual(layers, scans ? "scan" : "attention", d->residual_after_norm ? normed : x,
                     attends && !scans ? attention : branch);
    }
    if (!(layers->parts & LAYER_MLP)) return x;
    int normed = layers_norm(layers, "mlp.norm", x, d->norm);
    x = d->residual_after_norm ? normed : x;
    return residual(layers, "mlp", x, mlp_or_experts(layers, normed));
}

static int any_layer(struct layers *layers, int x, int memory, int64_t window)
{
    if (layers->parts != LAYER_PARTS_COMMON) return mixed_layer(layers, x, window);
    if (layers->decoder->altup.stream_count > 0) return layers_alternating(layers, x, window);
    if (layers->decoder->hyper.count > 0) return layers_streamed(layers, x, window);
    enum norm_place place = layers->decoder->norm_place;
    bool is_parallel = place == NORM_PARALLEL || place == NORM_SHARED;
    if (!is_parallel) return sequential_layer(layers, x, memory, window);
    assert(memory < 0);
    return parallel_layer(layers, x, window);
}

// What the encoder says passes through untouched, but for the last layer: nobody asks behind it.
static struct block layer_block(struct layers layers, const struct layer_kind *kind)
{
    const struct decoder *d = layers.decoder;
    int x = block_input(&layers, "layer.input");
    int64_t window = kind->is_local ? d->window : 0;
    bool is_tower = d->picture.patch_count > 0;
    if (d->contrast.width > 0 && !is_tower) {
        int picture = picture_input(&layers, "layer.picture");
        finish(&layers, any_layer(&layers, x, -1, window));
        return finish(&layers, picture);
    }
    int memory = decoder_asks_encoder(d) ? memory_input(&layers, "layer.memory") : -1;
    layers_take(&layers, kind->takes);
    x = any_layer(&layers, x, kind->is_apart ? -1 : memory, window);
    if (kind->is_last && d->norm_in_last) x = layers_norm(&layers, "final_norm", x, d->norm);
    if (kind->is_last && d->contrast.width > 0) x = layers_picture_said(&layers, x);
    finish(&layers, x);
    layers_give(&layers, kind->gives);
    if (memory >= 0 && !kind->is_last) finish(&layers, memory);
    return *layers.builder.block;
}

// Multi-token prediction (DeepSeek-V3, section 2.2, equations 21 to 23): what the last layer says
// of a token and the embedding of the next one, each normed, joined and projected, pass through one
// more layer. Its result goes to the head beside the model's own, which passes through untouched.
// The norm before the shared head is the module's own.
static struct block prediction_block(struct layers layers)
{
    const struct decoder *d = layers.decoder;
    int hidden = block_input(&layers, "mtp.input");
    int next = embed_tokens(&layers, "next_token_ids");
    next = layers_norm(&layers, "mtp.embedding_norm", next, d->norm);
    int normed = layers_norm(&layers, "mtp.hidden_norm", hidden, d->norm);
    int joined =
        layers_concat(&layers, "mtp.joined", normed, next, layers_tokens(DIM_RANK, 2 * d->hidden));
    struct projection in = {
        .name = "mtp.project",
        .weight = SHAPE({DIM_RANK, 2 * d->hidden}, {DIM_HIDDEN, d->hidden}),
        .output = layers_tokens(DIM_HIDDEN, d->hidden),
    };
    int x = any_layer(&layers, layers_project(&layers, joined, in), -1, 0);
    finish(&layers, hidden);
    layers.builder.block->mtp = true;
    return finish(&layers, layers_norm(&layers, "mtp.norm", x, d->norm));
}

static struct block head_block(struct layers layers)
{
    const struct decoder *d = layers.decoder;
    int x = block_input(&layers, "head.input");
    int predicted = d->mtp_count > 0 ? block_input(&layers, "mtp.output") : -1;
    int picture = d->contrast.width > 0 ? picture_input(&layers, "head.vision") : -1;
    layers_take(&layers, handed_on(d, d->layer_count - 1));
    if (d->altup.stream_count > 0) x = layers_join_streams(&layers, x, layers.streams);
    if (d->hyper.count > 0) x = layers_gather_streams(&layers, x);
    if (!d->no_final_norm) x = layers_norm(&layers, "head.norm", x, d->norm);
    if (picture >= 0) return finish(&layers, layers_contrast(&layers, x, picture));
    x = layers_dropout(&layers, "head.dropout", x, d->final_dropout);
    if (d->embedding_size && !d->embedding_is_narrow) {
        struct projection out = {.name = "head.project",
                                 .weight = SHAPE({DIM_HIDDEN, d->hidden}, table_width(d)),
                                 .output = layers_tokens(DIM_RANK, d->embedding_size)};
        x = layers_project(&layers, x, out);
    }
    if (d->masked_head) x = layers_masked_transform(&layers, x);
    if (d->picture.patch_count > 0) x = layers_pool(&layers, x);
    // The table's own order of dims, also where it is not tied: one kernel serves both.
    struct extent rows = {DIM_VOCAB, layers.vocab_padded};
    struct shape table = SHAPE(rows, head_width(d));
    if (d->picture.reads_mean) table = SHAPE(rows, {DIM_TABLE, 2}, table_width(d));
    int weight = layers_parameter(&layers, "head.lm", "weight", table, d->tied ? TOKEN_TIE : NULL);
    struct block block = finish(&layers, layers_score(&layers, "", x, weight));
    if (predicted < 0) return block;
    return finish(&layers, layers_score(&layers, "mtp.", predicted, weight));
}

// Layers that differ in parts, window, rope or mlp are kinds of their own, and so is the last one
// beside an encoder; a kind that no layer has is not stored.
static void build_layers(struct graph *graph, struct layers start_layers)
{
    const struct decoder *d = start_layers.decoder;
    struct arena *arena = start_layers.builder.arena;
    struct layer_kind kinds[LAYER_KINDS_MAX];
    int count = 0;
    for (int64_t layer = 0; layer < d->layer_count; layer++) {
        struct layer_kind kind = layer_kind_at(d, layer);
        int k = 0;
        while (k < count && !layer_kind_is_same(&kinds[k], &kind))
            k++;
        if (k == count) {
            struct layers layers = start_layers;
            assert(count < LAYER_KINDS_MAX);
            layers.builder = builder_new(arena, layer_kind_name(&start_layers, &kind), BLOCK_LAYER);
            layers.is_mixture = kind.is_mixture;
            layers.is_unrotated = kind.is_unrotated;
            layers.is_unnormed = kind.is_first;
            layers.is_sparse = kind.is_sparse;
            layers.is_hashed = kind.is_hashed;
            layers.pooling = kind.pooling;
            layers.out_bias = kind.is_last && d->last_out_bias;
            layers.parts = kind.parts;
            layers.takes_keys = kind.takes_keys;
            layers.decoder = handed_make(arena, d, kind.is_local, kind.takes_keys);
            kinds[count] = kind;
            kinds[count++].block = graph->block_count;
            graph->blocks[graph->block_count++] = layer_block(layers, &kind);
        }
        graph->sequence[graph->sequence_count++] = kinds[k].block;
    }
}

static void append_block(struct graph *graph, struct block block)
{
    assert(graph->block_count < 2 * (LAYER_KINDS_MAX + 3));
    graph->sequence[graph->sequence_count++] = graph->block_count;
    graph->blocks[graph->block_count++] = block;
}

// The stack in front of the decoder, and what joins them.
static void build_encoder(struct graph *graph, struct layers layers)
{
    const struct decoder *d = layers.decoder;
    struct arena *arena = layers.builder.arena;
    struct decoder *encoder = ARENA_COPY(arena, struct decoder, d->encoder, 1);
    encoder->contrast = d->contrast;  // what it says of a picture its last layer ends with
    layers.decoder = encoder;
    bool asks = decoder_asks_encoder(d);
    layers.stack = asks ? "encoder" : "vision";
    append_block(graph, embedding_block(layers));
    build_layers(graph, layers);
    layers.decoder = d;
    layers.stack = asks ? "decoder" : "text";
    const char *name = arena_print(arena, "%s.embedding", layers.stack);
    layers.builder = builder_new(arena, name, BLOCK_LAYER);
    append_block(graph, asks            ? joining_block(layers)
                        : d->prefix > 0 ? picture_in_text(layers)
                                        : between_towers(layers));
}

bool decoder_asks_encoder(const struct decoder *d)
{
    return d->encoder && d->contrast.width == 0 && d->prefix == 0;
}

struct graph *decoder_graph(struct arena *arena, const void *decoder,
                            const struct import_options *options)
{
    const struct decoder *d = decoder;
    assert(d->layer_count > 0);
    assert(!layer_kind_any(d, LAYER_ATTENTION) || d->head_count % d->kv_head_count == 0);
    assert(d->mtp_count <= MTP_MAX && !(d->encoder && d->mtp_count > 0));
    struct graph *graph = decoder_describe(arena, d, options);
    // Embedding, kinds of layer, prediction module, head; of an encoder the same, and what joins
    // it.
    graph->blocks = ARENA_NEW(arena, struct block, 2 * (LAYER_KINDS_MAX + 3));
    int64_t layer_count = d->layer_count + (d->encoder ? d->encoder->layer_count + 1 : 0);
    graph->sequence = ARENA_NEW(arena, int, layer_count + 3);

    struct layers layers =
        start(arena, d, options, graph->vocab_padded, "embedding", BLOCK_EMBEDDING);
    if (d->encoder) {
        build_encoder(graph, layers);
        layers.stack = decoder_asks_encoder(d) ? "decoder" : "text";
    } else {
        append_block(graph, embedding_block(layers));
    }
    build_layers(graph, layers);
    if (d->mtp_count > 0) {
        layers = start(arena, d, options, graph->vocab_padded, "mtp", BLOCK_LAYER);
        layers.is_mixture = d->experts.count > 0;
        append_block(graph, prediction_block(layers));
    }
    layers = start(arena, d, options, graph->vocab_padded, "head", BLOCK_HEAD);
    append_block(graph, head_block(layers));
    assert(graph->sequence_count <= layer_count + 3);
    if (d->apart_count > 0 || d->contrast.width > 0) graph_add_alone(arena, graph);
    graph->mtp_parameter_count = graph_mtp_parameter_count(graph);
    graph->parameter_count = graph_parameter_count(graph);
    graph->active_parameter_count = graph_active_parameter_count(graph);
    return graph;
}
