#include "models/families/layers.h"

#include <assert.h>

// Hyper-connections (Zhu et al. 2024, arXiv 2409.19606) as hy_v4 has them: a token has several
// states, its streams, in place of one. All of them together, normed, say how much of each a part
// reads, and how much of what it makes each of them gets; that much and no less than nothing, by
// sigmoids. In deepseek_v4 they say as well how much of each state each one gets: a matrix whose
// rows and columns sum up to one, so that nothing grows (Xie et al. 2026).

// Products of one part that share their input, behind the marks of attention, mlp and experts.
enum { MERGE_ATTENTION = 4, MERGE_MLP = 5 };

static struct extent streams_of(const struct layers *layers)
{
    assert(layers->decoder->hyper.count > 0);
    return (struct extent){DIM_STREAM, layers->decoder->hyper.count};
}

struct shape layers_stream_shape(const struct layers *layers)
{
    return SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, streams_of(layers),
                 {DIM_HIDDEN, layers->decoder->hidden});
}

static const char *named(struct layers *layers, const char *name, const char *part)
{
    return arena_print(layers->builder.arena, "%s.%s", name, part);
}

// A one for each stream; a block has them once.
static int ones(struct layers *layers, struct shape shape)
{
    static const char NAME[] = "each_stream";
    const struct block *block = layers->builder.block;
    for (int t = 0; t < block->tensor_count; t++)
        if (block->tensors[t].name == NAME) return t;
    return layers_data(layers, NAME, ELEMENT_COMPUTE, shape);
}

// What all streams say together, normed.
static int said(struct layers *layers, const char *name, int x)
{
    const struct decoder *d = layers->decoder;
    struct shape shape = layers_tokens(DIM_RANK, d->hyper.count * d->hidden);
    int output = layers_flatten(layers, named(layers, name, "flat"), x, shape);
    return layers_norm_plain(layers, named(layers, name, "said"), output, FUNCTION_RMS_NORM,
                             d->norm_epsilon);
}

// A projection, times a number that is trained, and a bias: a number for each stream, or, where
// there is a second one, for each pair of them.
static int say_of(struct layers *layers, const char *name, int input, int merge, struct extent to)
{
    const struct tensor *from = &layers->builder.block->tensors[input];
    assert(from->rank == 3);
    struct extent stream = streams_of(layers), one = {DIM_TABLE, 1};
    struct projection out = {.name = name,
                             .weight = SHAPE(from->extents[2], stream, to),
                             .output = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, stream, to),
                             .merge = merge};
    int logits = layers_project(layers, input, out);
    int scale = layers_parameter(layers, name, "scale", SHAPE(one), NULL);
    struct projection spread = {.name = named(layers, name, "scales"), .output = SHAPE(stream)};
    int scales = layers_product(layers, scale, ones(layers, SHAPE(one, stream)), spread);
    // A gate has the last dim of what it multiplies.
    if (to.dim) scales = layers_rename(layers, named(layers, name, "to_each"), scales, SHAPE(to));
    logits =
        layers_gate(layers, named(layers, name, "scaled"), scales, logits, FUNCTION_MODULATE, 0);
    int bias = layers_parameter(layers, name, "bias", SHAPE(stream, to), NULL);
    return layers_add(layers, named(layers, name, "biased"), logits, bias);
}

// The sigmoid of the same for each stream, and `above`.
static int numbers(struct layers *layers, const char *name, int input, int merge, double above)
{
    int logits = say_of(layers, name, input, merge, (struct extent){DIM_NONE, 0});
    return layers_function(layers, named(layers, name, "numbers"), logits, FUNCTION_SIGMOID_ABOVE,
                           above);
}

// Work a number and division, for an op that is bound by memory.
static const double SINKHORN_FLOP = 3;

// Of each stream as much to each as a matrix of the token says.
static int turned(struct layers *layers, const char *of, int input, int merge, int x)
{
    assert(layers->decoder->hyper.rounds > 0);
    const struct hyper *hyper = &layers->decoder->hyper;
    struct extent to = {DIM_TO_STREAM, hyper->count};
    const char *name = named(layers, of, "turn");
    int logits = say_of(layers, name, input, merge, to);
    struct op op = {.name = named(layers, name, "matrix"),
                    .kind = OP_SINKHORN,
                    .scalar = hyper->epsilon,
                    .rounds = hyper->rounds,
                    .flop_per_element = SINKHORN_FLOP * 2 * hyper->rounds,
                    .input_count = 1,
                    .inputs = {logits}};
    struct shape shape = builder_shape(&layers->builder, logits);
    int matrix = builder_result(&layers->builder, op, shape);
    struct projection out = {
        .name = named(layers, name, "mixed"),
        .output = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, to, {DIM_HIDDEN, layers->decoder->hidden})};
    int mixed = layers_product(layers, matrix, x, out);
    return layers_rename(layers, named(layers, name, "kept"), mixed, layers_stream_shape(layers));
}

// Of each stream as much as its number says.
static int mixed(struct layers *layers, const char *name, int x, int by)
{
    struct projection out = {.name = name,
                             .output = layers_tokens(DIM_HIDDEN, layers->decoder->hidden)};
    return layers_product(layers, by, x, out);
}

// To each stream as much of what the part made.
static int given(struct layers *layers, const char *name, int x, int made, int by)
{
    struct projection out = {.name = named(layers, name, "given"),
                             .output = layers_stream_shape(layers)};
    int gift = layers_product(layers, by, made, out);
    struct block *block = layers->builder.block;
    block->ops[block->op_count - 1].scalar = layers->decoder->hyper.magnitude;
    return layers_add(layers, named(layers, name, "residual"), x, gift);
}

int layers_spread(struct layers *layers, int x)
{
    struct projection out = {.name = "embedding.streams", .output = layers_stream_shape(layers)};
    return layers_product(layers, x, ones(layers, SHAPE(streams_of(layers))), out);
}

int layers_gather_streams(struct layers *layers, int x)
{
    int input = said(layers, "head.streams", x);
    double above = layers->decoder->hyper.epsilon;
    int by = numbers(layers, "head.streams.read", input, 0, above);
    return mixed(layers, "head.mixed", x, by);
}

struct mixture {
    int read, give;  // the state that it reads; the numbers by which it gives
    int keep;        // what it is added to
};

static struct mixture begin(struct layers *layers, const char *name, int x, int merge)
{
    assert(layers->decoder->hyper.magnitude > 0);
    const struct hyper *hyper = &layers->decoder->hyper;
    const char *of = named(layers, name, "streams");
    int input = said(layers, of, x);
    int by = numbers(layers, named(layers, of, "read"), input, merge, hyper->epsilon);
    double above = hyper->rounds > 0 ? 0 : hyper->epsilon / hyper->magnitude;
    int give = numbers(layers, named(layers, of, "give"), input, merge, above);
    int read = mixed(layers, named(layers, name, "mixed"), x, by);
    int keep = hyper->rounds > 0 ? turned(layers, of, input, merge, x) : x;
    return (struct mixture){read, give, keep};
}

int layers_streamed(struct layers *layers, int x, int64_t window)
{
    enum function norm = layers->decoder->norm;
    struct mixture part = begin(layers, "attention", x, MERGE_ATTENTION);
    int made = layers_norm(layers, "attention.norm", part.read, norm);
    made = layers_attention(layers, made, window);
    x = given(layers, "attention", part.keep, made, part.give);
    part = begin(layers, "mlp", x, MERGE_MLP);
    made = layers_norm(layers, "mlp.norm", part.read, norm);
    made = layers->is_mixture ? layers_experts(layers, made) : layers_mlp(layers, made);
    return given(layers, "mlp", part.keep, made, part.give);
}
