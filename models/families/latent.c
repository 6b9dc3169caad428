#include "models/families/layers.h"

#include <assert.h>

// Multi-head latent attention (DeepSeek-V2, section 2.1) as it is trained: queries, keys and values
// are raised from low-rank vectors of each token, and one rotated part of the key is shared by all
// heads. Nothing is absorbed into neighbouring products: that pays in decoding only.

// Contractions that share an input. Past the marks of mlp and experts.
enum { MERGE_DOWN = 1, MERGE_UP = 16 };

static int lower(struct layers *layers, int input, const char *name, enum dim dim, int64_t width)
{
    assert(width > 0);
    const struct decoder *d = layers->decoder;
    struct projection down = {
        .name = name,
        .weight = SHAPE({DIM_HIDDEN, d->hidden}, {dim, width}),
        .output = layers_tokens(dim, width),
        .merge = MERGE_DOWN,
        .bias = d->qkv_bias,
    };
    return layers_project(layers, input, down);
}

// Their norms have the epsilon of their class, whatever rms_norm_eps says.
static const double EPSILON = 1e-6;

static int norm_low(struct layers *layers, const char *name, enum function function, int input,
                    double epsilon)
{
    int output = layers_norm(layers, name, input, function);
    struct block *block = layers->builder.block;
    block->ops[block->op_count - 1].scalar = epsilon;
    return output;
}

// To the heads, from whatever the last dim of `input` is.
static int raise(struct layers *layers, int input, const char *name, struct extent width, int merge)
{
    const struct tensor *from = &layers->builder.block->tensors[input];
    struct extent head = {DIM_HEAD, layers->decoder->head_count};
    struct projection up = {
        .name = name,
        .weight = SHAPE(from->extents[from->rank - 1], head, width),
        .output = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, head, width),
        .merge = merge,
    };
    return layers_project(layers, input, up);
}

// The rope_dim from `first` on of the last dim.
static int rotate(struct layers *layers, const char *name, int input, int64_t first)
{
    const struct decoder *d = layers->decoder;
    if (d->rope_theta <= 0) return input;
    int output = layers_function(layers, name, input, FUNCTION_ROPE, d->rope_theta);
    struct block *block = layers->builder.block;
    assert(first >= 0 && d->latent.rope_dim > 0 && d->latent.rope_dim % 2 == 0);
    struct op *op = &block->ops[block->op_count - 1];
    op->rotary_first = first;
    op->rotary_dims = d->latent.rope_dim;
    return output;
}

// Recomputed together, so that only the low-rank vectors are kept.
static void mark_up(struct layers *layers, int first_op)
{
    struct block *block = layers->builder.block;
    for (int o = first_op; o < block->op_count; o++) {
        block->ops[o].class = OP_CLASS_UP;
    }
}

// `low`: their low-rank vectors, which there are none of where queries are projected directly.
static int make_queries(struct layers *layers, int input, int *low)
{
    const struct latent *latent = &layers->decoder->latent;
    struct extent width = {DIM_HEAD_DIM, latent->nope_dim + latent->rope_dim};
    if (latent->q_rank == 0) {
        int query = raise(layers, input, "attention.q", width, 0);
        return rotate(layers, "attention.q_rope", query, latent->nope_dim);
    }
    *low = lower(layers, input, "attention.q_a", DIM_RANK, latent->q_rank);
    *low = norm_low(layers, "attention.q_a_norm", FUNCTION_RMS_NORM, *low, EPSILON);
    int first_op = layers->builder.block->op_count;
    int query = raise(layers, *low, "attention.q_b", width, 0);
    query = rotate(layers, "attention.q_rope", query, latent->nope_dim);
    mark_up(layers, first_op);
    return query;
}

int layers_chosen(struct layers *layers, int first_op, int query, int key, int weights,
                  int64_t rate)
{
    assert(first_op <= layers->builder.block->op_count && rate >= 0);
    assert(layers->decoder->indexer.top_k > 0);
    struct block *block = layers->builder.block;
    int chosen =
        builder_tensor(&layers->builder, "attention.chosen", TENSOR_ACTIVATION, ELEMENT_FP32,
                       layers_tokens(DIM_CHOSEN, layers->decoder->indexer.top_k));
    builder_op(&layers->builder, (struct op){.name = "attention.choose",
                                             .kind = OP_CHOOSE,
                                             .scalar = 1,
                                             .causal = true,
                                             .rate = rate,
                                             .top_k = (int)layers->decoder->indexer.top_k,
                                             .input_count = 3,
                                             .output_count = 1,
                                             .inputs = {query, key, weights},
                                             .outputs = {chosen}});
    for (int o = first_op; o < block->op_count; o++) {
        block->ops[o].chooses = true;
        block->ops[o].class = OP_CLASS_NONE;
    }
    return chosen;
}

// Which keys each query attends to (models/op_choose.h): by heads of queries that are raised from
// the same low rank, one head of keys, and a weight of each head. They are rotated in front, where
// those of attention are behind, but for hy_v4's.
static int choose(struct layers *layers, int input, int low)
{
    assert(low >= 0 && "an indexer reads the low rank of queries");
    const struct indexer *indexer = &layers->decoder->indexer;
    struct extent head = {DIM_INDEX_HEAD, indexer->head_count};
    struct extent width = {DIM_HEAD_DIM, indexer->head_dim};
    int first_op = layers->builder.block->op_count;
    struct projection q = {.name = "indexer.q",
                           .weight = SHAPE({DIM_RANK, layers->decoder->latent.q_rank}, head, width),
                           .output = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, head, width)};
    struct projection k = {.name = "indexer.k",
                           .weight = SHAPE({DIM_HIDDEN, layers->decoder->hidden}, width),
                           .output = layers_tokens(DIM_HEAD_DIM, indexer->head_dim)};
    struct projection w = {.name = "indexer.w",
                           .weight = SHAPE({DIM_HIDDEN, layers->decoder->hidden}, head),
                           .output = layers_tokens(DIM_INDEX_HEAD, indexer->head_count)};
    int64_t first =
        indexer->is_rotated_behind ? indexer->head_dim - layers->decoder->latent.rope_dim : 0;
    double epsilon = indexer->norm_epsilon > 0 ? indexer->norm_epsilon : EPSILON;
    int query = rotate(layers, "indexer.q_rope", layers_project(layers, low, q), first);
    int key = layers_project(layers, input, k);
    key = norm_low(layers, "indexer.k_norm", FUNCTION_LAYER_NORM, key, epsilon);
    key = rotate(layers, "indexer.k_rope", key, first);
    int weights = layers_project(layers, input, w);
    return layers_chosen(layers, first_op, query, key, weights, 0);
}

int layers_latent_attention(struct layers *layers, int input, int64_t window)
{
    const struct latent *latent = &layers->decoder->latent;
    struct extent head = {DIM_HEAD, layers->decoder->head_count};
    struct extent nope = {DIM_HEAD_DIM, latent->nope_dim};
    struct extent value = {DIM_VALUE_DIM, latent->value_dim};
    struct shape keys = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, head,
                              {DIM_HEAD_DIM, latent->nope_dim + latent->rope_dim});

    int queries = -1;
    struct heads heads = {.query = make_queries(layers, input, &queries)};
    int low = lower(layers, input, "attention.kv_a", DIM_RANK, latent->kv_rank);
    int shared = lower(layers, input, "attention.k_shared", DIM_HEAD_DIM, latent->rope_dim);
    low = norm_low(layers, "attention.kv_a_norm", FUNCTION_RMS_NORM, low, EPSILON);
    int first_op = layers->builder.block->op_count;
    int key = raise(layers, low, "attention.k_b", nope, MERGE_UP);
    heads.value = raise(layers, low, "attention.v_b", value, MERGE_UP);
    shared = rotate(layers, "attention.k_rope", shared, 0);
    heads.key = layers_concat(layers, "attention.k", key, shared, keys);
    mark_up(layers, first_op);
    if (layers->decoder->indexer.top_k > 0) {
        if (!layers->takes_chosen) layers->chosen = choose(layers, input, queries);
        heads.chosen = &layers->chosen;
    }
    if (!layers->decoder->attention_gate) return layers_attend(layers, heads, window);
    int gate = raise(layers, input, "attention.gate", value, 0);
    heads.gate = &gate;
    return layers_attend(layers, heads, window);
}
