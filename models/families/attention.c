#include "models/families/layers.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Attention: projections, head norms, rope, then either the fused kernel or the chain that
// materialises the scores. Fused, k and v keep the name seq; in the chain they are renamed (and
// repeated to the query heads) by OP_EXPAND, so that scores have seq and kv_seq.

static const double SOFTMAX_FLOP = 5;

static int64_t places_of(const struct layers *layers, int input)
{
    const struct tensor *tensor = &layers->builder.block->tensors[input];
    assert(tensor_find_dim(tensor, DIM_SEQ) >= 0);
    return tensor->extents[tensor_find_dim(tensor, DIM_SEQ)].size;
}

static int64_t groups_of(const struct product_groups *groups, char part)
{
    return part == 'q' ? groups->query : part == 'k' ? groups->key : groups->value;
}

// `width`: of each head.
static int project_wide(struct layers *layers, int input, const char *name, struct extent heads,
                        struct extent width, int merge)
{
    assert(heads.size > 0 && width.size > 0);
    const struct decoder *d = layers->decoder;
    struct projection projection = {
        .name = name,
        .weight = SHAPE({DIM_HIDDEN, d->hidden}, heads, width),
        .output = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, places_of(layers, input)}, heads, width),
        .merge = merge,
        .bias = d->qkv_bias && !(d->key_is_unbiased && name[strlen(name) - 1] == 'k'),
        .groups = groups_of(&d->groups, name[strlen(name) - 1]),
    };
    return layers_project(layers, input, projection);
}

static int project_heads(struct layers *layers, int input, const char *name, enum dim dim,
                         int64_t count, int merge)
{
    struct extent heads = {dim, count}, width = {DIM_HEAD_DIM, layers->decoder->head_dim};
    return project_wide(layers, input, name, heads, width, merge);
}

static int project_values(struct layers *layers, int input)
{
    const struct decoder *d = layers->decoder;
    struct extent heads = {DIM_KV_HEAD, d->kv_head_count}, width = {DIM_HEAD_DIM, d->head_dim};
    if (d->value_dim > 0) width = (struct extent){DIM_VALUE_DIM, d->value_dim};
    int values = project_wide(layers, input, "attention.v", heads, width, 1);
    if (d->value_factor <= 0) return values;
    return layers_function(layers, "attention.v_scaled", values, FUNCTION_SCALE, d->value_factor);
}

static int rotate(struct layers *layers, const char *name, int input, int64_t window)
{
    const struct decoder *d = layers->decoder;
    double theta = window > 0 && d->rope_theta_local > 0 ? d->rope_theta_local : d->rope_theta;
    if (d->rope_theta <= 0 || d->rotary_dims == 0) return input;
    if (layers->is_unrotated) return input;
    assert(d->rotary_dims <= d->head_dim);
    int output = layers_function(layers, name, input, FUNCTION_ROPE, theta);
    struct block *block = layers->builder.block;
    block->ops[block->op_count - 1].rotary_dims = d->rotary_dims;
    return output;
}

static void norm_heads(struct layers *layers, struct heads *heads)
{
    const struct decoder *d = layers->decoder;
    if (!d->head_norms || (d->head_norms_with_rope && layers->is_unrotated)) return;
    // Nothing reads their results in backward, so that recomputing them would save nothing.
    heads->query = layers_head_norm(layers, "attention.q_norm", heads->query);
    layers_set_class(layers, OP_CLASS_NONE);
    if (layers->takes_keys) return;
    heads->key = layers_head_norm(layers, "attention.k_norm", heads->key);
    layers_set_class(layers, OP_CLASS_NONE);
    if (!d->value_norms) return;
    heads->value = layers_norm_over(layers, "attention.v_norm", heads->value, (struct shape){0});
    layers_set_class(layers, OP_CLASS_NONE);
}

static void project_keys(struct layers *layers, int input, struct heads *heads)
{
    const struct decoder *d = layers->decoder;
    heads->key = project_heads(layers, input, "attention.k", DIM_KV_HEAD, d->kv_head_count, 1);
    heads->value = d->key_is_value ? heads->key : project_values(layers, input);
}

static struct heads make_heads(struct layers *layers, int input, int64_t window)
{
    const struct decoder *d = layers->decoder;
    bool is_local = window > 0, takes = layers->takes_keys;
    struct heads heads = {.query = project_heads(layers, input, "attention.q", DIM_HEAD,
                                                 d->head_count, takes ? 0 : 1)};
    if (!takes) project_keys(layers, input, &heads);
    if (!d->head_norms_rotated) norm_heads(layers, &heads);
    heads.query = rotate(layers, "attention.q_rope", heads.query, window);
    if (!takes) heads.key = rotate(layers, "attention.k_rope", heads.key, window);
    if (d->head_norms_rotated) norm_heads(layers, &heads);
    if (takes) {
        heads.key = layers->keys[is_local];
        heads.value = layers->values[is_local];
    }
    layers->keys[is_local] = heads.key;
    layers->values[is_local] = heads.value;
    return heads;
}

// "attention.q", "cross.q".
static const char *named(struct layers *layers, struct heads heads, const char *part)
{
    return arena_print(layers->builder.arena, "%s.%s", heads.name ? heads.name : "attention", part);
}

// What attends to another sequence looks at all of it.
static bool is_causal(const struct layers *layers, struct heads heads)
{
    return !layers->decoder->bidirectional && !heads.name;
}

static struct op core_op(struct layers *layers, struct heads heads, const char *part,
                         enum op_kind kind, int64_t window)
{
    return (struct op){.name = named(layers, heads, part),
                       .kind = kind,
                       .scalar = 1,
                       .causal = is_causal(layers, heads),
                       .window = window,
                       .prefix = heads.name ? 0 : layers->decoder->prefix,
                       .chunked = window > 0 && layers->decoder->chunked,
                       .class = OP_CLASS_ATTENTION,
                       .output_count = 1};
}

static double score_factor(const struct decoder *d)
{
    assert(d->head_dim > 0);
    return d->score_factor > 0 ? d->score_factor : 1 / sqrt((double)d->head_dim);
}

static struct extent last_extent(const struct layers *layers, int tensor)
{
    const struct tensor *t = &layers->builder.block->tensors[tensor];
    return t->extents[t->rank - 1];
}

// A value for each query head; values may be of another width than keys.
static struct shape context_shape(const struct layers *layers, struct heads heads)
{
    return SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_HEAD, layers->decoder->head_count},
                 last_extent(layers, heads.value));
}

// Keys or values by query head, under the name that they have as keys.
static int repeat_heads(struct layers *layers, const char *name, int input)
{
    struct shape shape = SHAPE({DIM_BATCH, 0}, {DIM_KV_SEQ, places_of(layers, input)},
                               {DIM_HEAD, layers->decoder->head_count}, last_extent(layers, input));
    return layers_rename(layers, name, input, shape);
}

// One number for each head; where a layer has none, -1 leaves the op without that input.
int layers_sink(struct layers *layers, int64_t window)
{
    const struct decoder *d = layers->decoder;
    if (!d->attention_sink || (d->sink_is_local && window == 0)) return -1;
    return layers_parameter(layers, "attention", "sink",
                            SHAPE({DIM_HEAD, layers->decoder->head_count}), NULL);
}

static int fused(struct layers *layers, struct heads heads, int64_t window)
{
    const struct decoder *d = layers->decoder;
    struct builder *builder = &layers->builder;
    int sinks = layers_sink(layers, window);
    int out = builder_tensor(builder, named(layers, heads, "context"), TENSOR_ACTIVATION,
                             ELEMENT_COMPUTE, context_shape(layers, heads));
    struct shape rows = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_HEAD, d->head_count});
    int lse =
        builder_tensor(builder, named(layers, heads, "lse"), TENSOR_ACTIVATION, ELEMENT_FP32, rows);
    struct op op = core_op(layers, heads, "core", OP_ATTENTION, window);
    op.scalar = score_factor(d);
    op.softcap = d->score_softcap;
    op.alibi = heads.name ? 0 : d->alibi;
    op.dropout_ratio = layers->options.dropout ? d->attention_dropout : 0;
    op.input_count = 3;
    op.inputs[0] = heads.query;
    op.inputs[1] = heads.key;
    op.inputs[2] = heads.value;
    if (sinks >= 0) op.inputs[op.input_count++] = sinks;
    if (heads.chosen) {
        op.inputs[op.input_count++] = *heads.chosen;
        assert(d->indexer.top_k > 0);
        op.top_k = (int)d->indexer.top_k;
    }
    op.output_count = 2;
    op.outputs[0] = out;
    op.outputs[1] = lse;
    builder_op(builder, op);
    return out;
}

// An op of the chain: what it makes has one producer and, but for the context, one reader.
static int append_core(struct layers *layers, struct op op, int a, int b, struct shape shape)
{
    op.inputs[op.input_count++] = a;
    if (b >= 0) op.inputs[op.input_count++] = b;
    op.outputs[0] =
        builder_tensor(&layers->builder, op.name, TENSOR_ACTIVATION, ELEMENT_COMPUTE, shape);
    builder_op(&layers->builder, op);
    return op.outputs[0];
}

// Pieces of layers.h used inside the core: their ops are dropped and recomputed with it.
static void mark_core(struct layers *layers, struct heads heads, int first_op, int64_t window)
{
    assert(first_op <= layers->builder.block->op_count);
    struct block *block = layers->builder.block;
    for (int o = first_op; o < block->op_count; o++) {
        block->ops[o].class = OP_CLASS_ATTENTION;
        block->ops[o].causal = is_causal(layers, heads);
        block->ops[o].window = window;
        block->ops[o].prefix = heads.name ? 0 : layers->decoder->prefix;
        block->ops[o].chunked = window > 0 && layers->decoder->chunked;
    }
}

// The numbers that the scores of a head get by distance, for each query and key. The table is one
// for all layers of the stack.
static int add_buckets(struct layers *layers, int scores)
{
    const struct decoder *d = layers->decoder;
    const char *tie = arena_print(layers->builder.arena, "%s.attention.distances.weight",
                                  layers->stack ? layers->stack : "layers");
    if (d->relative.is_of_layer) tie = NULL;
    struct shape pairs = SHAPE({DIM_SEQ, 0}, {DIM_KV_SEQ, 0});
    int buckets = layers_data(layers, "relative_buckets", ELEMENT_INT64, pairs);
    struct extent rows = {DIM_TABLE, d->relative.bucket_count}, heads = {DIM_HEAD, d->head_count};
    int added = layers_gather(layers, "attention.distances", buckets, rows, heads, tie);
    struct block *block = layers->builder.block;
    block->ops[block->op_count - 1].scalar = (double)d->relative.distance;
    return layers_add(layers, "attention.distanced", scores, added);
}

static int score(struct layers *layers, struct heads heads, struct distances apart, int key,
                 int64_t window)
{
    const struct decoder *d = layers->decoder;
    struct shape square = SHAPE({DIM_BATCH, 0}, {DIM_HEAD, d->head_count}, {DIM_SEQ, 0},
                                {DIM_KV_SEQ, places_of(layers, heads.key)});
    struct op product = core_op(layers, heads, "scores", OP_CONTRACT, window);
    product.scalar = score_factor(d);
    int scores = append_core(layers, product, heads.query, key, square);
    if (d->score_softcap > 0) {
        scores = layers_function(layers, named(layers, heads, "softcap"), scores, FUNCTION_SOFTCAP,
                                 d->score_softcap);
    }
    if (d->alibi > 0 && !heads.name)
        scores = layers_function(layers, "attention.alibi", scores, FUNCTION_ALIBI, d->alibi);
    if (d->relative.bucket_count > 0 && !heads.name) scores = add_buckets(layers, scores);
    scores = layers_add_distances(layers, scores, apart, heads.query, key);
    struct op softmax = core_op(layers, heads, "softmax", OP_SOFTMAX, window);
    softmax.flop_per_element = SOFTMAX_FLOP;
    return append_core(layers, softmax, scores, layers_sink(layers, window), square);
}

static int unfused(struct layers *layers, struct heads heads, int64_t window)
{
    assert(!heads.chosen && "no chain chooses keys");
    const struct decoder *d = layers->decoder;
    struct distances apart = layers_distances(layers);
    int first_op = layers->builder.block->op_count;
    int key = repeat_heads(layers, named(layers, heads, "k_heads"), heads.key);
    int value = repeat_heads(layers, named(layers, heads, "v_heads"), heads.value);
    int probabilities = score(layers, heads, apart, key, window);
    probabilities = layers_dropout(layers, named(layers, heads, "softmax_dropout"), probabilities,
                                   d->attention_dropout);
    struct op context = core_op(layers, heads, "context", OP_CONTRACT, window);
    int out = append_core(layers, context, probabilities, value, context_shape(layers, heads));
    mark_core(layers, heads, first_op, window);
    return out;
}

// No fused kernel adds numbers by distance to its scores, and no chain chooses keys.
int layers_attend_core(struct layers *layers, struct heads heads, int64_t window)
{
    const struct decoder *d = layers->decoder;
    bool has_distances = d->disentangled.span > 0 || (d->relative.bucket_count > 0 && !heads.name);
    bool is_fused = heads.chosen || (layers->options.flash && !has_distances);
    return is_fused ? fused(layers, heads, window) : unfused(layers, heads, window);
}

int layers_attend(struct layers *layers, struct heads heads, int64_t window)
{
    const struct decoder *d = layers->decoder;
    int context = layers_attend_core(layers, heads, window);
    if (heads.gate)
        context = layers_gate(layers, "attention.gated", *heads.gate, context, FUNCTION_SIGMOID, 1);
    if (d->inner_norms)
        context = layers_context_norm(layers, named(layers, heads, "inner_norm"), context);
    struct extent width = last_extent(layers, context);
    struct projection out = {
        .name = named(layers, heads, "out"),
        .weight = SHAPE({DIM_HEAD, d->head_count}, width, {DIM_HIDDEN, d->hidden}),
        .output = layers_tokens(DIM_HIDDEN, d->hidden),
        .bias = d->out_bias || layers->out_bias,
        .groups = d->groups.out,
    };
    return layers_project(layers, context, out);
}

int layers_attention(struct layers *layers, int input, int64_t window)
{
    const struct decoder *d = layers->decoder;
    if (d->latent.kv_rank > 0) return layers_latent_attention(layers, input, window);
    if (d->pooled.q_rank > 0) return layers_pooled_attention(layers, input, window);
    struct heads heads = make_heads(layers, input, window);
    if (!d->attention_gate) return layers_attend(layers, heads, window);
    int gate = project_heads(layers, input, "attention.gate", DIM_HEAD, d->head_count, 1);
    heads.gate = &gate;
    return layers_attend(layers, heads, window);
}

// Keys and values share their input, queries share theirs with nothing.
int layers_cross_attention(struct layers *layers, int input, int memory)
{
    assert(memory >= 0);
    enum { MERGE_MEMORY = 3 };
    const struct decoder *d = layers->decoder;
    int64_t heads = d->head_count, kv_heads = d->kv_head_count;
    struct heads made = {
        .query = project_heads(layers, input, "cross.q", DIM_HEAD, heads, 0),
        .key = project_heads(layers, memory, "cross.k", DIM_KV_HEAD, kv_heads, MERGE_MEMORY),
        .value = project_heads(layers, memory, "cross.v", DIM_KV_HEAD, kv_heads, MERGE_MEMORY),
        .name = "cross",
    };
    return layers_attend(layers, made, 0);
}
