#include "models/families/layers.h"

#include <assert.h>
#include <math.h>

// Two towers, one of pictures and one of text, whose last words are compared: each picture of a
// step with each text (Radford et al. 2021, figure 3; Zhai et al. 2023, equation 1). The tower of
// pictures runs first; what it says of each passes the layers of text by.

static const double NORM_FLOP = 6, SUM_FLOP = 1;

static struct shape samples(enum dim dim, int64_t size)
{
    return SHAPE({DIM_BATCH, 0}, {dim, size});
}

static int project(struct layers *layers, const char *name, int input, bool bias)
{
    assert(layers->decoder->contrast.width > 0);
    int64_t width = layers->decoder->contrast.width;
    struct projection out = {.name = name,
                             .weight =
                                 SHAPE({DIM_HIDDEN, layers->decoder->hidden}, {DIM_RANK, width}),
                             .output = samples(DIM_RANK, width),
                             .bias = bias};
    return layers_project(layers, input, out);
}

// A number for each sample that a parameter of one element has for all of them: kernels repeat
// numbers over last dims alone.
static int for_each_sample(struct layers *layers, const char *name, int ones)
{
    struct projection out = {
        .name = name, .weight = SHAPE({DIM_TABLE, 1}), .output = SHAPE({DIM_BATCH, 0})};
    return layers_project(layers, ones, out);
}

static int ones_of_samples(struct layers *layers)
{
    return layers_data(layers, "each_sample", ELEMENT_COMPUTE, samples(DIM_TABLE, 1));
}

// One query that is trained attends to all places of a picture; then an mlp (Zhai et al. 2022,
// section 2.2).
static int pool_by_attention(struct layers *layers, int input)
{
    const struct decoder *d = layers->decoder;
    struct extent head = {DIM_HEAD, d->head_count}, width = {DIM_HEAD_DIM, d->head_dim};
    struct extent hidden = {DIM_HIDDEN, d->hidden}, one = {DIM_TABLE, 1};
    struct projection probe = {.name = "pool.probe",
                               .weight = SHAPE(one, hidden),
                               .output = SHAPE({DIM_BATCH, 0}, one, hidden)};
    struct projection q = {.name = "pool.q",
                           .weight = SHAPE(hidden, head, width),
                           .output = SHAPE({DIM_BATCH, 0}, one, head, width),
                           .bias = true};
    int ones = ones_of_samples(layers);
    int query = layers_project(layers, ones, probe);
    query = layers_project(layers, query, q);
    struct projection k = q;
    k.name = "pool.k";
    k.output = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, head, width);
    struct projection v = k;
    v.name = "pool.v";
    int key = layers_project(layers, input, k), value = layers_project(layers, input, v);
    int context = layers_activation(layers, "pool.context", q.output);
    int lse = builder_tensor(&layers->builder, "pool.lse", TENSOR_ACTIVATION, ELEMENT_FP32,
                             SHAPE({DIM_BATCH, 0}, one, head));
    struct op op = {.name = "pool.core",
                    .kind = OP_ATTENTION,
                    .scalar = 1 / sqrt((double)d->head_dim),
                    .class = OP_CLASS_ATTENTION,
                    .input_count = 3,
                    .output_count = 2,
                    .inputs = {query, key, value},
                    .outputs = {context, lse}};
    builder_op(&layers->builder, op);
    struct extent said = {DIM_RANK, d->hidden};
    struct projection out = {.name = "pool.out",
                             .weight = SHAPE(head, width, said),
                             .output = SHAPE({DIM_BATCH, 0}, one, said),
                             .bias = true};
    struct projection drop = {.name = "pool.said", .output = samples(DIM_RANK, d->hidden)};
    int x = layers_product(layers, layers_project(layers, context, out), ones, drop);
    int normed = layers_norm(layers, "pool.norm", x, d->norm);
    struct extent ffn = {DIM_FFN, d->ffn};
    struct projection up = {.name = "pool.up",
                            .weight = SHAPE(said, ffn),
                            .output = samples(DIM_FFN, d->ffn),
                            .bias = true};
    struct projection down = {.name = "pool.down",
                              .weight = SHAPE(ffn, said),
                              .output = samples(DIM_RANK, d->hidden),
                              .bias = true};
    int active = layers_activate(layers, "pool.activation", -1, layers_project(layers, normed, up));
    return layers_add(layers, "pool.residual", x, layers_project(layers, active, down));
}

int layers_picture_said(struct layers *layers, int input)
{
    const struct decoder *d = layers->decoder;
    if (d->picture.is_pooled)
        return pool_by_attention(layers, layers_norm(layers, "vision.norm", input, d->norm));
    int x = layers_norm(layers, "vision.norm", layers_pool(layers, input), d->norm);
    return project(layers, "vision.project", x, false);
}

// Divided by its length times the root of its width, which the factor of the scores makes up for.
static int to_length(struct layers *layers, const char *name, int input)
{
    int output = layers_activation(layers, name, builder_shape(&layers->builder, input));
    struct op op = {.name = name,
                    .kind = OP_NORM,
                    .function = FUNCTION_RMS_NORM,
                    .flop_per_element = NORM_FLOP,
                    .class = OP_CLASS_NORM,
                    .input_count = 1,
                    .output_count = 1,
                    .inputs = {input},
                    .outputs = {output}};
    builder_op(&layers->builder, op);
    return output;
}

static int compare(struct layers *layers, const char *name, int of, int with)
{
    assert(of >= 0 && with >= 0);
    int64_t width = layers->decoder->contrast.width;
    const char *others = arena_print(layers->builder.arena, "%s.others", name);
    with = layers_rename(layers, others, with, SHAPE({DIM_OTHER, 0}, {DIM_RANK, width}));
    int scores = layers_activation(layers, name, samples(DIM_OTHER, 0));
    struct op op = {.name = name,
                    .kind = OP_CONTRACT,
                    .scalar = 1 / (double)width,
                    .input_count = 2,
                    .output_count = 1,
                    .inputs = {of, with},
                    .outputs = {scores}};
    builder_op(&layers->builder, op);
    return scores;
}

// Half of the sum of both losses, in the precision of losses.
static int mean_of(struct layers *layers, int a, int b)
{
    struct builder *builder = &layers->builder;
    struct shape shape = SHAPE({DIM_BATCH, 0});
    int sum = builder_tensor(builder, "losses", TENSOR_ACTIVATION, ELEMENT_FP32, shape);
    int half = builder_tensor(builder, "loss", TENSOR_ACTIVATION, ELEMENT_FP32, shape);
    struct op add = {.name = "losses",
                     .kind = OP_ADD,
                     .scalar = 1,
                     .input_count = 2,
                     .output_count = 1,
                     .inputs = {a, b},
                     .outputs = {sum}};
    struct op scale = {.name = "loss",
                       .kind = OP_ELEMENTWISE,
                       .function = FUNCTION_SCALE,
                       .scalar = 0.5,
                       .flop_per_element = SUM_FLOP,
                       .input_count = 1,
                       .output_count = 1,
                       .inputs = {sum},
                       .outputs = {half}};
    builder_op(builder, add);
    builder_op(builder, scale);
    return half;
}

struct graph *towers_graph(struct arena *arena, const void *decoder,
                           const struct import_options *options)
{
    return decoder_graph(arena, decoder, options);
}

int layers_contrast(struct layers *layers, int input, int picture)
{
    assert(picture >= 0 && "what the tower of pictures says passes the text's layers by");
    const struct decoder *d = layers->decoder;
    int last = layers_data(layers, "last_place", ELEMENT_COMPUTE, SHAPE({DIM_SEQ, 0}));
    struct projection pool = {.name = "head.pool", .output = samples(DIM_HIDDEN, d->hidden)};
    int text = layers_product(layers, input, last, pool);
    text = to_length(layers, "head.text", project(layers, "head.project", text, d->head_bias));
    picture = to_length(layers, "head.picture", picture);
    int labels = layers_data(layers, "pair_ids", ELEMENT_INT64, SHAPE({DIM_BATCH, 0}));
    int ones = ones_of_samples(layers), scale = for_each_sample(layers, "head.scale", ones);
    int of_text = compare(layers, "head.texts", text, picture);
    of_text = layers_gate(layers, "head.texts.scaled", scale, of_text, FUNCTION_EXP, 1);
    if (d->contrast.is_pairwise) {
        int others = layers_data(layers, "each_other", ELEMENT_COMPUTE, SHAPE({DIM_OTHER, 0}));
        struct projection bias = {.name = "head.biases", .output = samples(DIM_OTHER, 0)};
        int each = for_each_sample(layers, "head.bias", ones);
        each = layers_product(layers, each, others, bias);
        of_text = layers_add(layers, "head.texts.biased", of_text, each);
        return layers_loss(layers, "loss", of_text, labels, FUNCTION_SIGMOID);
    }
    int of_picture = compare(layers, "head.pictures", picture, text);
    of_picture = layers_gate(layers, "head.pictures.scaled", scale, of_picture, FUNCTION_EXP, 1);
    return mean_of(layers, layers_loss(layers, "loss.texts", of_text, labels, FUNCTION_NONE),
                   layers_loss(layers, "loss.pictures", of_picture, labels, FUNCTION_NONE));
}
