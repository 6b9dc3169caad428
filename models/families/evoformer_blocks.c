#include "models/builder.h"
#include "models/families/evoformer.h"

#include <assert.h>
#include <math.h>

static const double NORM_FLOP = 6, ACTIVATION_FLOP = 8, SOFTMAX_FLOP = 5, LOSS_FLOP = 5;
static const double EPSILON = 1e-5;
// Features of a residue, of one in an aligned sequence, and of how far two are apart; classes of
// masked residues and of distances (Jumper et al., tables 1 and 9).
enum { RESIDUE_FEATURES = 22, MSA_FEATURES = 49, OFFSETS = 65, MSA_CLASSES = 23, BINS = 64 };

// What is being built; `axial` is what axial parallelism splits in the operators that come next.
struct building {
    struct builder builder;
    const struct evoformer *model;
    const char *prefix;
    enum dim axial;
};

static const char *named(const struct building *b, const char *name)
{
    return arena_print(b->builder.arena, "%s.%s", b->prefix, name);
}

static struct extent size(const struct building *b, enum dim dim)
{
    assert(b->model->msa_depth > 0 && b->model->residues > 0);
    return (struct extent){dim, dim == DIM_MSA ? b->model->msa_depth : b->model->residues};
}
// Rows of aligned sequences, and pairs.
static struct shape rows_by(const struct building *b, struct extent last)
{
    return SHAPE({DIM_BATCH, 0}, size(b, DIM_MSA), size(b, DIM_RES_I), last);
}
static struct shape pairs_by(const struct building *b, struct extent last)
{
    return SHAPE({DIM_BATCH, 0}, size(b, DIM_RES_I), size(b, DIM_RES_J), last);
}
static struct extent width_of(const struct building *b, int tensor)
{
    const struct tensor *t = &b->builder.block->tensors[tensor];
    assert(t->rank > 0);
    return t->extents[t->rank - 1];
}
static struct shape shape_of(const struct building *b, int tensor)
{
    return builder_shape(&b->builder, tensor);
}
static struct shape with_last(struct shape shape, struct extent last)
{
    int rank = 0;
    while (rank < TENSOR_RANK_MAX && shape.extents[rank].dim)
        rank++;
    assert(rank > 0);
    shape.extents[rank - 1] = last;
    return shape;
}

// A factor of 0 would be no product: what is left out means 1.
static int append(struct building *b, struct op op, struct shape shape)
{
    op.name = named(b, op.name);
    op.axial = b->axial;
    if (op.scalar == 0) op.scalar = 1;
    return builder_result(&b->builder, op, shape);
}

static int data(struct building *b, const char *name, enum element element, struct shape shape)
{
    return builder_tensor(&b->builder, name, TENSOR_IDS, element, shape);
}

static int parameter(struct building *b, const char *name, const char *suffix, struct shape shape)
{
    return builder_parameter(&b->builder, named(b, name), suffix, shape);
}

static int add(struct building *b, const char *name, int x, int y)
{
    struct op op = {.name = name, .kind = OP_ADD, .input_count = 2, .inputs = {x, y}};
    return append(b, op, shape_of(b, x));
}

static int norm(struct building *b, const char *name, int x)
{
    struct extent width = width_of(b, x);
    struct op op = {.name = name,
                    .kind = OP_NORM,
                    .function = FUNCTION_LAYER_NORM,
                    .scalar = EPSILON,
                    .flop_per_element = NORM_FLOP,
                    .class = OP_CLASS_NORM,
                    .input_count = 3,
                    .inputs = {x, parameter(b, name, "weight", SHAPE(width)),
                               parameter(b, name, "bias", SHAPE(width))}};
    return append(b, op, shape_of(b, x));
}

static int product(struct building *b, const char *name, int x, int y, struct shape shape,
                   double scalar, enum op_class class)
{
    struct op op = {.name = name,
                    .kind = OP_CONTRACT,
                    .scalar = scalar,
                    .class = class,
                    .input_count = 2,
                    .inputs = {x, y}};
    return append(b, op, shape);
}

// x times a new matrix, and its bias if it has one.
static int project(struct building *b, const char *name, int x, struct extent to, bool has_bias)
{
    int weight = parameter(b, name, "weight", SHAPE(width_of(b, x), to));
    int y = product(b, name, x, weight, with_last(shape_of(b, x), to), 1, OP_CLASS_NONE);
    if (!has_bias) return y;
    const char *biased = arena_print(b->builder.arena, "%s.biased", name);
    return add(b, biased, y, parameter(b, name, "bias", SHAPE(to)));
}

static int apply(struct building *b, const char *name, int x, enum function function)
{
    struct op op = {.name = name,
                    .kind = OP_ELEMENTWISE,
                    .function = function,
                    .flop_per_element = ACTIVATION_FLOP,
                    .class = OP_CLASS_ACTIVATION,
                    .input_count = 1,
                    .inputs = {x}};
    return append(b, op, shape_of(b, x));
}

// sigmoid(gate) * x
static int gate(struct building *b, const char *name, int by, int x)
{
    struct op op = {.name = name,
                    .kind = OP_ELEMENTWISE,
                    .function = FUNCTION_SIGMOID,
                    .flop_per_element = ACTIVATION_FLOP,
                    .input_count = 2,
                    .inputs = {by, x}};
    return append(b, op, shape_of(b, x));
}

// The same numbers, the dims behind the batch under other names.
static int rename_dims(struct building *b, const char *name, int x, enum dim first, enum dim second)
{
    struct shape shape = shape_of(b, x);
    shape.extents[1] = size(b, first);
    shape.extents[2] = size(b, second);
    if (first == DIM_KV_SEQ) shape.extents[1].size = b->model->msa_depth;
    struct op op = {.name = name, .kind = OP_EXPAND, .input_count = 1, .inputs = {x}};
    return append(b, op, shape);
}

static int rename_last(struct building *b, const char *name, int x, struct extent last)
{
    struct op op = {.name = name, .kind = OP_EXPAND, .input_count = 1, .inputs = {x}};
    return append(b, op, with_last(shape_of(b, x), last));
}

// Gated attention without biases in q, k and v (algorithm 7, lines 2, 3 and 5). Keys are x with its
// dims renamed; `scores` has queries and keys last.
struct attention {
    struct extent heads, width;
    enum dim key_first, key_second;
    struct shape scores;
    int bias;  // added to the scores; -1: none
};

static int to_heads(struct building *b, const char *name, int x, const struct attention *a)
{
    struct shape shape = shape_of(b, x);
    shape.extents[3] = a->heads;
    shape.extents[4] = a->width;
    int weight = parameter(b, name, "weight", SHAPE(width_of(b, x), a->heads, a->width));
    return product(b, name, x, weight, shape, 1, OP_CLASS_NONE);
}

static int attend(struct building *b, int x, const struct attention *a)
{
    assert(a->heads.size > 0 && a->width.size > 0);
    int query = to_heads(b, "q", x, a), key = to_heads(b, "k", x, a),
        value = to_heads(b, "v", x, a);
    struct shape queries = shape_of(b, query);
    key = rename_dims(b, "keys", key, a->key_first, a->key_second);
    value = rename_dims(b, "values", value, a->key_first, a->key_second);
    double factor = 1 / sqrt((double)a->width.size);
    int scores = product(b, "scores", query, key, a->scores, factor, OP_CLASS_ATTENTION);
    if (a->bias >= 0) scores = add(b, "biased", scores, a->bias);
    b->builder.block->ops[b->builder.block->op_count - 1].class = OP_CLASS_ATTENTION;
    struct op softmax = {.name = "softmax",
                         .kind = OP_SOFTMAX,
                         .flop_per_element = SOFTMAX_FLOP,
                         .class = OP_CLASS_ATTENTION,
                         .input_count = 1,
                         .inputs = {scores}};
    int weights = append(b, softmax, a->scores);
    int context = product(b, "context", weights, value, queries, 1, OP_CLASS_ATTENTION);
    int by = add(b, "gate.biased", to_heads(b, "gate", x, a),
                 parameter(b, "gate", "bias", SHAPE(a->heads, a->width)));
    int out = gate(b, "gated", by, context);
    struct extent last = width_of(b, x);
    int weight = parameter(b, "out", "weight", SHAPE(a->heads, a->width, last));
    int y = product(b, "out", out, weight, shape_of(b, x), 1, OP_CLASS_NONE);
    return add(b, "out.biased", y, parameter(b, "out", "bias", SHAPE(last)));
}

static struct attention attention_of(const struct building *b, bool of_pairs)
{
    const struct evoformer *m = b->model;
    return (struct attention){
        .heads = {DIM_HEAD, of_pairs ? m->no_heads_pair : m->no_heads_msa},
        .width = {DIM_HEAD_DIM, of_pairs ? m->c_hidden_pair_att : m->c_hidden_msa_att},
        .bias = -1,
    };
}

// A number for each pair and head: what attention adds to its scores.
static int pair_bias(struct building *b, int normed, struct extent heads)
{
    int weight = parameter(b, "bias", "weight", SHAPE(width_of(b, normed), heads));
    return product(b, "bias", normed, weight, with_last(shape_of(b, normed), heads), 1,
                   OP_CLASS_NONE);
}

// Algorithm 7: over the residues of each sequence.
static int attend_rows(struct building *b, int m, int z)
{
    struct attention a = attention_of(b, false);
    b->prefix = "row";
    b->axial = DIM_RES_I;
    a.bias = pair_bias(b, norm(b, "pair_norm", z), a.heads);
    b->axial = DIM_MSA;
    a.key_first = DIM_MSA;
    a.key_second = DIM_RES_J;
    a.scores =
        SHAPE({DIM_BATCH, 0}, size(b, DIM_MSA), a.heads, size(b, DIM_RES_I), size(b, DIM_RES_J));
    return add(b, "residual", m, attend(b, norm(b, "norm", m), &a));
}

// Algorithm 8: over the sequences at each residue.
static int attend_columns(struct building *b, int m)
{
    struct attention a = attention_of(b, false);
    b->prefix = "column";
    b->axial = DIM_RES_I;
    a.key_first = DIM_KV_SEQ;
    a.key_second = DIM_RES_I;
    a.scores = SHAPE({DIM_BATCH, 0}, size(b, DIM_RES_I), a.heads, size(b, DIM_MSA),
                     {DIM_KV_SEQ, b->model->msa_depth});
    return add(b, "residual", m, attend(b, norm(b, "norm", m), &a));
}

// Algorithms 9 and 15.
static int transition(struct building *b, const char *prefix, int x)
{
    struct extent width = width_of(b, x), ffn = {DIM_FFN, b->model->transition_n * width.size};
    b->prefix = prefix;
    int inner = project(b, "up", norm(b, "norm", x), ffn, true);
    inner = apply(b, "activation", inner, FUNCTION_RELU);
    return add(b, "residual", x, project(b, "down", inner, width, true));
}

// Algorithm 10: for each pair the mean over sequences of the products of two vectors. The second is
// gathered under its other name.
static int outer_product(struct building *b, int m, int z)
{
    int64_t width = b->model->c_hidden_opm;
    struct extent left = {DIM_RANK, width}, right = {DIM_OUT_CHANNEL, width}, to = width_of(b, z);
    b->prefix = "outer";
    int normed = norm(b, "norm", m);
    int first = project(b, "left", normed, left, true);
    int second = project(b, "right", normed, right, true);
    second = rename_dims(b, "other", second, DIM_MSA, DIM_RES_J);
    struct shape shape = SHAPE({DIM_BATCH, 0}, size(b, DIM_RES_I), size(b, DIM_RES_J), left, right);
    int mean =
        product(b, "product", first, second, shape, 1 / (double)b->model->msa_depth, OP_CLASS_NONE);
    int weight = parameter(b, "out", "weight", SHAPE(left, right, to));
    int y = product(b, "out", mean, weight, shape_of(b, z), 1, OP_CLASS_NONE);
    return add(b, "residual", z, add(b, "out.biased", y, parameter(b, "out", "bias", SHAPE(to))));
}

// Algorithms 11 and 12: a third residue k joins i and j, by edges that leave them (i k, j k) or
// come in (k i, k j).
static int triangle(struct building *b, const char *prefix, bool is_outgoing, int z)
{
    struct extent inner = {DIM_RANK, b->model->c_hidden_mul}, width = width_of(b, z);
    struct extent other = {DIM_OUT_CHANNEL, width.size};
    b->prefix = prefix;
    b->axial = is_outgoing ? DIM_RES_I : DIM_RES_J;
    int normed = norm(b, "norm", z);
    int left = gate(b, "left.gated", project(b, "left.gate", normed, inner, true),
                    project(b, "left", normed, inner, true));
    int right = gate(b, "right.gated", project(b, "right.gate", normed, inner, true),
                     project(b, "right", normed, inner, true));
    left = is_outgoing ? rename_dims(b, "left.edges", left, DIM_RES_I, DIM_RES_K)
                       : rename_dims(b, "left.edges", left, DIM_RES_K, DIM_RES_I);
    right = is_outgoing ? rename_dims(b, "right.edges", right, DIM_RES_J, DIM_RES_K)
                        : rename_dims(b, "right.edges", right, DIM_RES_K, DIM_RES_J);
    int x = product(b, "product", left, right, pairs_by(b, inner), 1, OP_CLASS_NONE);
    x = project(b, "out", norm(b, "out.norm", x), other, true);
    x = gate(b, "out.gated", project(b, "out.gate", normed, other, true), x);
    return add(b, "residual", z, rename_last(b, "renamed", x, width));
}

// Algorithms 13 and 14: around the node that edges start at (over j for each i) or end at (over i
// for each j). The bias is that of the third edge.
static int attend_around(struct building *b, const char *prefix, bool is_start, int z)
{
    struct attention a = attention_of(b, true);
    b->prefix = prefix;
    b->axial = is_start ? DIM_RES_I : DIM_RES_J;
    int normed = norm(b, "norm", z);
    int bias = pair_bias(b, normed, a.heads);
    enum dim of = is_start ? DIM_RES_I : DIM_RES_J, queries = is_start ? DIM_RES_J : DIM_RES_I;
    a.bias = is_start ? rename_dims(b, "third", bias, DIM_RES_J, DIM_RES_K)
                      : rename_dims(b, "third", bias, DIM_RES_K, DIM_RES_I);
    a.key_first = is_start ? DIM_RES_I : DIM_RES_K;
    a.key_second = is_start ? DIM_RES_K : DIM_RES_J;
    a.scores = SHAPE({DIM_BATCH, 0}, size(b, of), a.heads, size(b, queries), size(b, DIM_RES_K));
    return add(b, "residual", z, attend(b, normed, &a));
}

static void take_inputs(struct building *b, int *m, int *z)
{
    struct block *block = b->builder.block;
    *m = builder_tensor(&b->builder, named(b, "msa"), TENSOR_ACTIVATION, ELEMENT_COMPUTE,
                        rows_by(b, (struct extent){DIM_HIDDEN, b->model->c_m}));
    *z = builder_tensor(&b->builder, named(b, "pair"), TENSOR_ACTIVATION, ELEMENT_COMPUTE,
                        pairs_by(b, (struct extent){DIM_CHANNEL, b->model->c_z}));
    block->inputs[block->input_count++] = *m;
    block->inputs[block->input_count++] = *z;
}

static struct block finish(struct building *b, int m, int z)
{
    assert(m >= 0 && z >= 0);
    struct block *block = b->builder.block;
    block->outputs[block->output_count++] = m;
    block->outputs[block->output_count++] = z;
    return *block;
}

// Algorithm 3 and line 5 of algorithm 2.
static struct block embedding_block(struct arena *arena, const struct evoformer *model)
{
    struct building b = {builder_new(arena, "embedding", BLOCK_EMBEDDING), model, "embedding",
                         DIM_RES_I};
    struct extent features = {DIM_TABLE, RESIDUE_FEATURES}, width = {DIM_HIDDEN, model->c_m};
    struct extent pair = {DIM_CHANNEL, model->c_z};
    int left = data(&b, "target_features", ELEMENT_COMPUTE,
                    SHAPE({DIM_BATCH, 0}, size(&b, DIM_RES_I), features));
    int right = data(&b, "target_features_j", ELEMENT_COMPUTE,
                     SHAPE({DIM_BATCH, 0}, size(&b, DIM_RES_J), features));
    int offsets = data(&b, "relative_positions", ELEMENT_COMPUTE,
                       SHAPE(size(&b, DIM_RES_I), size(&b, DIM_RES_J), {DIM_TABLE, OFFSETS}));
    int msa = data(&b, "msa_features", ELEMENT_COMPUTE,
                   rows_by(&b, (struct extent){DIM_TABLE, MSA_FEATURES}));
    struct op sum = {.name = "pairs",
                     .kind = OP_ADD,
                     .input_count = 3,
                     .inputs = {project(&b, "left", left, pair, true),
                                project(&b, "right", right, pair, true),
                                project(&b, "offset", offsets, pair, true)}};
    int z = append(&b, sum, pairs_by(&b, pair));
    int target = project(&b, "target", left, width, true);
    b.axial = DIM_MSA;
    int m = add(&b, "rows", project(&b, "msa", msa, width, true), target);
    return finish(&b, m, z);
}

// Algorithm 6.
static struct block layer_block(struct arena *arena, const struct evoformer *model)
{
    struct building b = {builder_new(arena, "layer", BLOCK_LAYER), model, "layer", DIM_NONE};
    int m, z;
    take_inputs(&b, &m, &z);
    m = attend_rows(&b, m, z);
    m = attend_columns(&b, m);
    m = transition(&b, "msa_transition", m);
    z = outer_product(&b, m, z);
    z = triangle(&b, "outgoing", true, z);
    z = triangle(&b, "incoming", false, z);
    z = attend_around(&b, "start", true, z);
    z = attend_around(&b, "end", false, z);
    z = transition(&b, "pair_transition", z);
    return finish(&b, m, z);
}

static int cross_entropy(struct building *b, const char *name, int logits, int labels)
{
    struct shape rows = with_last(shape_of(b, logits), (struct extent){DIM_NONE, 0});
    int value = builder_tensor(&b->builder, name, TENSOR_ACTIVATION, ELEMENT_FP32, rows);
    int lse = builder_tensor(&b->builder, arena_print(b->builder.arena, "%s.lse", name),
                             TENSOR_ACTIVATION, ELEMENT_FP32, rows);
    struct op op = {.name = name,
                    .kind = OP_LOSS,
                    .scalar = 1,
                    .axial = b->axial,
                    .flop_per_element = LOSS_FLOP,
                    .input_count = 2,
                    .output_count = 2,
                    .inputs = {logits, labels},
                    .outputs = {value, lse}};
    builder_op(&b->builder, op);
    return value;
}

// Sections 1.9.8 and 1.9.9: residues that were masked, and distances, which do not change when i
// and j do. The second loss counts 0.3 of the first, both as sums over pairs or rows by the tokens.
static struct block head_block(struct arena *arena, const struct evoformer *model)
{
    struct building b = {builder_new(arena, "head", BLOCK_HEAD), model, "head", DIM_MSA};
    struct extent classes = {DIM_OUT_CHANNEL, MSA_CLASSES}, bins = {DIM_OUT_CHANNEL, BINS};
    int m, z;
    take_inputs(&b, &m, &z);
    int logits = project(&b, "masked", m, classes, true);
    int labels = data(&b, "msa_labels", ELEMENT_INT64,
                      SHAPE({DIM_BATCH, 0}, size(&b, DIM_MSA), size(&b, DIM_RES_I)));
    int masked = cross_entropy(&b, "loss", logits, labels);
    b.axial = DIM_RES_I;
    int weight = parameter(&b, "distance", "weight", SHAPE(width_of(&b, z), bins));
    int bias = parameter(&b, "distance", "bias", SHAPE(bins));
    int turned = rename_dims(&b, "turned", z, DIM_RES_J, DIM_RES_I);
    struct op sum = {
        .name = "distance.both",
        .kind = OP_ADD,
        .input_count = 4,
        .inputs = {product(&b, "distance", z, weight, pairs_by(&b, bins), 1, 0),
                   product(&b, "distance.turned", turned, weight, pairs_by(&b, bins), 1, 0), bias,
                   bias}};
    labels = data(&b, "distance_labels", ELEMENT_INT64,
                  SHAPE({DIM_BATCH, 0}, size(&b, DIM_RES_I), size(&b, DIM_RES_J)));
    int distance = cross_entropy(&b, "distance.loss", append(&b, sum, pairs_by(&b, bins)), labels);
    return finish(&b, masked, distance);
}

struct graph *evoformer_graph(struct arena *arena, const void *evoformer,
                              const struct import_options *options)
{
    enum { KINDS = 3 };
    const struct evoformer *model = evoformer;
    (void)options;
    struct graph *graph = ARENA_NEW(arena, struct graph, 1);
    graph->model_type = "evoformer";
    graph->layer_count = (int)model->no_blocks;
    graph->hidden = model->c_m;
    // What tensor parallelism splits everywhere is the fewer heads.
    graph->head_count =
        model->no_heads_pair < model->no_heads_msa ? model->no_heads_pair : model->no_heads_msa;
    graph->kv_head_count = graph->head_count;
    graph->head_dim = model->c_hidden_msa_att;
    graph->ffn = model->transition_n * model->c_m;
    graph->frames = model->msa_depth;
    graph->places = model->residues;
    graph->is_protein = true;
    graph->seq_len_max = model->msa_depth * model->residues;
    graph->blocks = ARENA_NEW(arena, struct block, KINDS);
    graph->sequence = ARENA_NEW(arena, int, graph->layer_count + 2);
    graph->blocks[0] = embedding_block(arena, model);
    graph->blocks[1] = layer_block(arena, model);
    graph->blocks[2] = head_block(arena, model);
    graph->block_count = KINDS;
    for (int i = 0; i < graph->layer_count + 2; i++)
        graph->sequence[graph->sequence_count++] = i == 0 ? 0 : i <= graph->layer_count ? 1 : 2;
    assert(graph->sequence_count == graph->layer_count + 2);
    graph->parameter_count = graph_parameter_count(graph);
    graph->active_parameter_count = graph_active_parameter_count(graph);
    return graph;
}
