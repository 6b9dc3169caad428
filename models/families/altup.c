#include "models/families/layers.h"

#include <assert.h>
#include <math.h>

// Alternating updates (Baykal et al. 2023, arXiv 2301.13310), as gemma3n has them: a token has
// other states beside its own, its streams. A layer predicts all of them by a mixture of all that
// the own state chooses, computes its own anew, and corrects the others by what that is off.

// Norms divide by what is no less than this; transformers holds the squares' mean to 1e-5, which
// embeddings times the root of their width do not come near.
static const double EPSILON = 1e-30;

static struct extent streams_of(const struct layers *layers)
{
    assert(layers->decoder->altup.stream_count > 0);
    return (struct extent){DIM_STREAM, layers->decoder->altup.stream_count};
}

// (batch, seq), and what is there for each of the streams.
static struct shape tokens(struct extent of, struct extent to)
{
    return SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, of, to);
}

static int product(struct layers *layers, const char *name, int a, int b, struct shape shape)
{
    struct projection to = {.name = name, .output = shape};
    return layers_product(layers, a, b, to);
}

// The root of the mean of squares: what x sums up to with x divided by that.
static int magnitude(struct layers *layers, const char *name, int x)
{
    const char *normed = arena_print(layers->builder.arena, "%s.normed", name);
    int unit = layers_norm_plain(layers, normed, x, FUNCTION_RMS_NORM, EPSILON);
    int sum = product(layers, name, x, unit, SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}));
    struct block *block = layers->builder.block;
    block->ops[block->op_count - 1].scalar = 1 / (double)layers->decoder->hidden;
    return sum;
}

// A projection of its own of each stream, as large as x.
static int projected(struct layers *layers, const char *name, int input, int x)
{
    struct arena *arena = layers->builder.arena;
    struct extent hidden = {DIM_HIDDEN, layers->decoder->hidden}, stream = streams_of(layers);
    struct projection out = {.name = arena_print(arena, "%s.project", name),
                             .weight = SHAPE(stream, {DIM_RANK, hidden.size}, hidden),
                             .output = tokens(stream, hidden)};
    int made = layers_project(layers, input, out);
    made = layers_norm_plain(layers, arena_print(arena, "%s.normed", name), made, FUNCTION_RMS_NORM,
                             EPSILON);
    int size = magnitude(layers, arena_print(arena, "%s.size", name), x);
    return layers_gate(layers, name, size, made, FUNCTION_SCALE, 1);
}

int layers_streams(struct layers *layers, int x)
{
    struct shape renamed = layers_tokens(DIM_RANK, layers->decoder->hidden);
    int input = layers_rename(layers, "streams.renamed", x, renamed);
    return projected(layers, "streams", input, x);
}

int layers_join_streams(struct layers *layers, int x, int streams)
{
    const struct decoder *d = layers->decoder;
    struct extent stream = streams_of(layers);
    int input = layers_rename(layers, "head.streams.renamed", streams,
                              tokens(stream, (struct extent){DIM_RANK, d->hidden}));
    int made = projected(layers, "head.streams", input, x);
    int ones = layers_data(layers, "each_stream", ELEMENT_COMPUTE, SHAPE(stream));
    int sum = product(layers, "head.streams.sum", made, ones, layers_tokens(DIM_HIDDEN, d->hidden));
    sum = layers_add(layers, "head.joined", x, sum);
    return layers_function(layers, "head.mean", sum, FUNCTION_SCALE, 1 / (double)(1 + stream.size));
}

// What chooses between the states, by a norm and a matrix that a layer has once: of its own state
// as it was, and as it has become.
struct router {
    int norm, weight;
};

static int ask(struct layers *layers, const char *name, int x, const struct router *router)
{
    struct arena *arena = layers->builder.arena;
    double hidden = (double)layers->decoder->hidden;
    int normed = layers_norm_by(layers, arena_print(arena, "%s.normed", name), x, router->norm);
    struct extent states = {DIM_RANK, 1 + layers->decoder->altup.stream_count};
    struct projection out = {.name = name, .output = layers_tokens(states.dim, states.size)};
    int asked = layers_product(layers, normed, router->weight, out);
    asked = layers_function(layers, arena_print(arena, "%s.scaled", name), asked, FUNCTION_SCALE,
                            1 / hidden);
    return layers_function(layers, arena_print(arena, "%s.said", name), asked, FUNCTION_SOFTCAP, 1);
}

// Numbers that what was said makes, for each token and what `of` and `to` name.
static int coefficients(struct layers *layers, const char *name, int said, struct extent of,
                        struct extent to)
{
    struct extent states = {DIM_RANK, 1 + layers->decoder->altup.stream_count};
    struct projection out = {
        .name = name, .weight = SHAPE(states, of, to), .output = tokens(of, to)};
    return layers_project(layers, said, out);
}

struct states {
    int own, streams;
};

// Each state, and of all states as much as its coefficients say.
static struct states predict(struct layers *layers, struct states x, const struct router *router)
{
    const struct extent none = {DIM_NONE, 0}, stream = streams_of(layers);
    const struct extent to = {DIM_TO_STREAM, stream.size};
    const struct extent hidden = {DIM_HIDDEN, layers->decoder->hidden};
    int said = ask(layers, "predict.router", x.own, router);
    int own = coefficients(layers, "predict.own", said, none, none);
    int from = coefficients(layers, "predict.from_streams", said, stream, none);
    int each = coefficients(layers, "predict.to_streams", said, stream, none);
    int between = coefficients(layers, "predict.between", said, stream, to);
    int kept = layers_gate(layers, "predict.kept", own, x.own, FUNCTION_SCALE, 1);
    int told = product(layers, "predict.told", from, x.streams, tokens(hidden, none));
    int given = product(layers, "predict.given", each, x.own, tokens(stream, hidden));
    int mixed = product(layers, "predict.mixed", between, x.streams, tokens(to, hidden));
    mixed = layers_rename(layers, "predict.renamed", mixed, tokens(stream, hidden));
    struct states y;
    y.own = layers_add(layers, "predict.own_told", kept, told);
    y.own = layers_add(layers, "predict.state", x.own, y.own);
    y.streams = layers_add(layers, "predict.streams_told", given, mixed);
    y.streams = layers_add(layers, "predict.streams", x.streams, y.streams);
    return y;
}

// By what the own state has become other than it was predicted. What the table of the layer adds
// goes to the streams alone.
static struct states correct(struct layers *layers, struct states x, int made,
                             const struct router *router)
{
    assert(made >= 0 && x.own >= 0 && x.streams >= 0);
    const struct extent none = {DIM_NONE, 0}, stream = streams_of(layers);
    const struct extent hidden = {DIM_HIDDEN, layers->decoder->hidden};
    int said = ask(layers, "correct.router", made, router);
    int less = layers_function(layers, "correct.less", x.own, FUNCTION_SCALE, -1);
    int off = layers_add(layers, "correct.off", made, less);
    int own = coefficients(layers, "correct.own", said, none, none);
    int each = coefficients(layers, "correct.to_streams", said, stream, none);
    struct states y;
    y.own = layers_gate(layers, "correct.own_off", own, off, FUNCTION_SCALE, 1);
    y.own = layers_add(layers, "correct.state", made, y.own);
    y.streams = product(layers, "correct.given", each, off, tokens(stream, hidden));
    y.streams = layers_add(layers, "correct.streams", x.streams, y.streams);
    int factors = layers_parameter(layers, "correct.factors", "weight", SHAPE(hidden), NULL);
    int scaled = layers_gate(layers, "correct.scaled", factors, y.own, FUNCTION_MODULATE, 0);
    int branch = layers_per_layer_branch(layers, scaled);
    int all = layers_add(layers, "correct.all", off, branch);
    y.streams = layers_add(layers, "correct.streams_all", y.streams, all);
    return y;
}

// A low-rank branch beside attention (Menghani et al. 2024, LAuReL, arXiv 2411.07501, section 2).
static int learned_residual(struct layers *layers, int normed)
{
    assert(layers->decoder->altup.residual_rank > 0);
    const struct decoder *d = layers->decoder;
    struct extent rank = {DIM_RANK, d->altup.residual_rank}, hidden = {DIM_HIDDEN, d->hidden};
    struct projection left = {.name = "laurel.left",
                              .weight = SHAPE(hidden, rank),
                              .output = layers_tokens(rank.dim, rank.size)};
    struct projection right = {.name = "laurel.right",
                               .weight = SHAPE(rank, hidden),
                               .output = layers_tokens(hidden.dim, hidden.size)};
    int x = layers_project(layers, layers_project(layers, normed, left), right);
    x = layers_norm(layers, "laurel.norm", x, d->norm);
    return layers_add(layers, "laurel.residual", normed, x);
}

int layers_alternating(struct layers *layers, int x, int64_t window)
{
    const struct decoder *d = layers->decoder;
    struct extent hidden = {DIM_HIDDEN, d->hidden};
    struct extent states = {DIM_RANK, 1 + d->altup.stream_count};
    struct router router = {
        .norm = layers_parameter(layers, "altup.norm", "weight", SHAPE(hidden), NULL),
        .weight = layers_parameter(layers, "altup.router", "weight", SHAPE(hidden, states), NULL),
    };
    struct states predicted = predict(layers, (struct states){x, layers->streams}, &router);
    int normed = layers_norm(layers, "attention.norm", predicted.own, d->norm);
    int beside = learned_residual(layers, normed);
    int branch = layers_attention(layers, normed, window);
    branch = layers_norm(layers, "attention.post_norm", branch, d->norm);
    branch = layers_add(layers, "attention.residual", predicted.own, branch);
    branch = layers_add(layers, "attention.both", branch, beside);
    int between = layers_function(layers, "attention.scaled", branch, FUNCTION_SCALE, sqrt(0.5));
    branch = layers_mlp(layers, layers_norm(layers, "mlp.norm", between, d->norm));
    branch = layers_norm(layers, "mlp.post_norm", branch, d->norm);
    int made = layers_add(layers, "mlp.residual", between, branch);
    struct states corrected = correct(layers, predicted, made, &router);
    layers->streams = corrected.streams;
    return corrected.own;
}

// Of the gate of an mlp what is above mean and some deviations over ffn, as if it were normal
// (gemma3n): the deviation times what its normed form has above that many.
int layers_most_active(struct layers *layers, int gate)
{
    assert(gate >= 0 && "an mlp without a gate has nothing that is sparse");
    const struct decoder *d = layers->decoder;
    int unit = layers_norm_plain(layers, "mlp.gate.unit", gate, FUNCTION_LAYER_NORM, EPSILON);
    int above = layers_function(layers, "mlp.gate.above", unit, FUNCTION_RELU_ABOVE,
                                d->altup.sparse_deviations);
    int deviation =
        product(layers, "mlp.gate.deviation", gate, unit, SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}));
    struct block *block = layers->builder.block;
    block->ops[block->op_count - 1].scalar = 1 / (double)d->ffn;
    return layers_gate(layers, "mlp.gate.sparse", deviation, above, FUNCTION_SCALE, 1);
}
