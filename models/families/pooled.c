#include "models/families/layers.h"

#include <assert.h>
#include <math.h>

// Attention of DeepSeek-V4, as transformers' deepseek_v4 has it: queries by way of a low rank, one
// head of keys that are values at once, a window, and behind it entries that tokens are pooled to
// (models/op_pool.h). Rope has turned values as well: what heads make is turned back. It is
// projected in groups of heads first, and what these make together.

static int turn(struct layers *layers, const char *name, int input, enum function function,
                int64_t rate)
{
    const struct decoder *d = layers->decoder;
    const struct tensor *tensor = &layers->builder.block->tensors[input];
    double theta = layers->pooling ? d->pooled.rope_theta : d->rope_theta;
    int64_t width = tensor->extents[tensor->rank - 1].size;
    assert(d->pooled.rope_dim > 0 && d->pooled.rope_dim <= width && theta > 0);
    int output = layers_function(layers, name, input, function, theta);
    struct block *block = layers->builder.block;
    struct op *op = &block->ops[block->op_count - 1];
    op->rotary_dims = d->pooled.rope_dim;
    op->rotary_first = width - d->pooled.rope_dim;
    op->rate = rate;
    return output;
}

static int project(struct layers *layers, int input, const char *name, struct extent from,
                   struct extent heads, struct extent width)
{
    struct projection out = {.name = name,
                             .weight = SHAPE(from, heads, width),
                             .output = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, heads, width)};
    return layers_project(layers, input, out);
}

static int lower(struct layers *layers, int input, const char *name, int64_t width)
{
    struct projection out = {.name = name,
                             .weight =
                                 SHAPE({DIM_HIDDEN, layers->decoder->hidden}, {DIM_RANK, width}),
                             .output = layers_tokens(DIM_RANK, width)};
    return layers_project(layers, input, out);
}

static const char *named(struct layers *layers, const char *name, const char *part)
{
    return arena_print(layers->builder.arena, "%s.%s", name, part);
}

// Entries of so many numbers each, normed, and turned as the first of their tokens.
static int pool(struct layers *layers, const char *name, int input, int64_t width)
{
    bool overlaps = layers->pooling == POOLING_CHOSEN;
    int64_t rate = layers->decoder->pooled.rates[layers->pooling];
    assert(rate > 0 && width > 0);
    int64_t channels = overlaps ? 2 * width : width;
    int x = lower(layers, input, named(layers, name, "x"), channels);
    int gate = lower(layers, input, named(layers, name, "gate"), channels);
    int bias =
        layers_parameter(layers, name, "bias", SHAPE({DIM_TAP, rate}, {DIM_RANK, channels}), NULL);
    struct op op = {.name = name,
                    .kind = OP_POOL,
                    .scalar = 1,
                    .rate = rate,
                    .input_count = 3,
                    .inputs = {x, gate, bias}};
    int entries = builder_result(&layers->builder, op,
                                 SHAPE({DIM_BATCH, 0}, {DIM_ENTRY, -rate}, {DIM_HEAD_DIM, width}));
    entries = layers_norm(layers, named(layers, name, "norm"), entries, FUNCTION_RMS_NORM);
    return turn(layers, named(layers, name, "rope"), entries, FUNCTION_ROPE, rate);
}

// Which entries each query attends to.
static int choose(struct layers *layers, int input, int low)
{
    const struct decoder *d = layers->decoder;
    struct extent head = {DIM_INDEX_HEAD, d->indexer.head_count};
    int first_op = layers->builder.block->op_count;
    int query = project(layers, low, "indexer.q", (struct extent){DIM_RANK, d->pooled.q_rank}, head,
                        (struct extent){DIM_HEAD_DIM, d->indexer.head_dim});
    query = turn(layers, "indexer.q_rope", query, FUNCTION_ROPE, 0);
    int key = pool(layers, "indexer.pool", input, d->indexer.head_dim);
    struct projection w = {.name = "indexer.w",
                           .weight = SHAPE({DIM_HIDDEN, d->hidden}, head),
                           .output = layers_tokens(head.dim, head.size)};
    int weights = layers_project(layers, input, w);
    return layers_chosen(layers, first_op, query, key, weights, d->pooled.rates[layers->pooling]);
}

// What heads make of near tokens and of entries.
static int attend(struct layers *layers, int query, int near, int entries, const int *chosen,
                  int64_t window)
{
    assert(window > 0 && near >= 0 && entries >= 0);
    const struct decoder *d = layers->decoder;
    struct builder *builder = &layers->builder;
    struct extent head = {DIM_HEAD, d->head_count};
    int out = builder_tensor(builder, "attention.context", TENSOR_ACTIVATION, ELEMENT_COMPUTE,
                             builder_shape(builder, query));
    int lse = builder_tensor(builder, "attention.lse", TENSOR_ACTIVATION, ELEMENT_FP32,
                             SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, head));
    struct op op = {.name = "attention.core",
                    .kind = OP_POOLED,
                    .scalar = 1 / sqrt((double)d->head_dim),
                    .causal = true,
                    .window = window,
                    .rate = d->pooled.rates[layers->pooling],
                    .class = OP_CLASS_ATTENTION,
                    .input_count = 4,
                    .output_count = 2,
                    .inputs = {query, near, layers_sink(layers, window), entries},
                    .outputs = {out, lse}};
    if (chosen) {
        op.inputs[op.input_count++] = *chosen;
        op.top_k = (int)d->indexer.top_k;
    }
    builder_op(builder, op);
    return out;
}

// Groups of neighbouring heads have the name of heads: ranks that share these share the groups.
static int project_out(struct layers *layers, int context)
{
    assert(layers->decoder->head_count % layers->decoder->pooled.out_groups == 0);
    const struct decoder *d = layers->decoder;
    const struct pooled_attention *pooled = &d->pooled;
    struct extent group = {DIM_HEAD, pooled->out_groups}, low = {DIM_RANK, pooled->out_rank};
    struct extent each = {DIM_CHANNEL, d->head_count / group.size * d->head_dim};
    struct extent hidden = {DIM_HIDDEN, d->hidden};
    int x = layers_flatten(layers, "attention.groups", context,
                           SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, group, each));
    struct projection down = {.name = "attention.out_a",
                              .weight = SHAPE(group, each, low),
                              .output = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, group, low)};
    struct projection out = {.name = "attention.out",
                             .weight = SHAPE(group, low, hidden),
                             .output = layers_tokens(DIM_HIDDEN, d->hidden)};
    return layers_project(layers, layers_project(layers, x, down), out);
}

int layers_pooled_attention(struct layers *layers, int input, int64_t window)
{
    const struct decoder *d = layers->decoder;
    struct extent width = {DIM_HEAD_DIM, d->head_dim}, hidden = {DIM_HIDDEN, d->hidden};
    int low = lower(layers, input, "attention.q_a", d->pooled.q_rank);
    low = layers_norm(layers, "attention.q_a_norm", low, FUNCTION_RMS_NORM);
    int query = project(layers, low, "attention.q_b", (struct extent){DIM_RANK, d->pooled.q_rank},
                        (struct extent){DIM_HEAD, d->head_count}, width);
    query =
        layers_norm_plain(layers, "attention.q_norm", query, FUNCTION_RMS_NORM, d->norm_epsilon);
    query = turn(layers, "attention.q_rope", query, FUNCTION_ROPE, 0);
    int near =
        project(layers, input, "attention.kv", hidden, (struct extent){DIM_KV_HEAD, 1}, width);
    near = layers_norm(layers, "attention.kv_norm", near, FUNCTION_RMS_NORM);
    near = turn(layers, "attention.k_rope", near, FUNCTION_ROPE, 0);
    int context;
    if (layers->pooling) {
        bool chooses = layers->pooling == POOLING_CHOSEN;
        int entries = pool(layers, "attention.pool", input, d->head_dim);
        int chosen = chooses ? choose(layers, input, low) : -1;
        context = attend(layers, query, near, entries, chooses ? &chosen : NULL, window);
    } else {
        // Under a name of their own, so that a ring passes each with its gradient.
        int value =
            layers_rename(layers, "attention.v", near, builder_shape(&layers->builder, near));
        struct heads heads = {.query = query, .key = near, .value = value};
        context = layers_attend_core(layers, heads, window);
    }
    context = turn(layers, "attention.back", context, FUNCTION_ROPE_BACK, 0);
    return project_out(layers, context);
}
