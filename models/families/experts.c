#include "models/families/layers.h"

#include <assert.h>
#include <math.h>

// A mixture of experts: the router scores all experts for each token, the token goes to the top_k
// of them, and their results are added up by weight. Inside, every tensor has the dim `expert` and
// exists for the chosen only; the router's own dim is `gate`, which nothing splits.

// Work a score: exponential, sum and comparisons, bound by memory, so only of the right size.
static const double ROUTE_FLOP = 8;

// Marks of the products that share an input; attention and the dense mlp have the others.
enum { MERGE_EXPERTS = 2, MERGE_SHARED = 3 };

static struct shape rows_of(const struct experts *experts, enum dim dim, int64_t size)
{
    assert(experts->count > 0 && size > 0);
    return SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_EXPERT, experts->count}, {dim, size});
}

static int route(struct layers *layers, int input)
{
    const struct decoder *d = layers->decoder;
    const struct experts *experts = &d->experts;
    struct shape scores = layers_tokens(DIM_GATE, experts->count);
    struct projection router = {
        .name = "router",
        .weight = SHAPE({DIM_HIDDEN, d->hidden}, {DIM_GATE, experts->count}),
        .output = scores,
        .bias = experts->route_bias,
    };
    int logits = layers_project(layers, input, router);
    int weights =
        builder_tensor(&layers->builder, "router.weights", TENSOR_ACTIVATION, ELEMENT_FP32, scores);
    struct op op = {.name = "router.choice",
                    .kind = OP_ROUTE,
                    .function = experts->route,
                    .scalar = experts->route_scale > 0 ? experts->route_scale : 1,
                    .flop_per_element = ROUTE_FLOP,
                    .top_k = (int)experts->top_k,
                    .sum_epsilon = experts->route_epsilon,
                    .group_count = (int)experts->group_count,
                    .open_groups = (int)experts->open_groups,
                    .input_count = 1,
                    .output_count = 1,
                    .inputs = {logits},
                    .outputs = {weights}};
    if (layers->is_hashed) {
        op.inputs[op.input_count++] = layers_data(layers, "token_experts", ELEMENT_INT64,
                                                  layers_tokens(DIM_CHOSEN, experts->top_k));
    } else if (experts->choice_bias) {
        op.inputs[op.input_count++] = layers_parameter(layers, "router.choice", "bias",
                                                       SHAPE({DIM_GATE, experts->count}), NULL);
    }
    builder_op(&layers->builder, op);
    return weights;
}

// One op between tokens and rows, in either direction.
static int move(struct layers *layers, const char *name, enum op_kind kind, int input, int weights,
                struct shape shape)
{
    int output = layers_activation(layers, name, shape);
    struct op op = {.name = name,
                    .kind = kind,
                    .scalar = 1,
                    .input_count = 2,
                    .output_count = 1,
                    .inputs = {input, weights},
                    .outputs = {output}};
    builder_op(&layers->builder, op);
    return output;
}

static int experts_mlp(struct layers *layers, int rows)
{
    const struct decoder *d = layers->decoder;
    const struct experts *experts = &d->experts;
    struct extent expert = {DIM_EXPERT, experts->count}, hidden = {DIM_HIDDEN, d->hidden},
                  ffn = {DIM_FFN, experts->ffn};
    struct projection up = {.name = "experts.up",
                            .weight = SHAPE(expert, hidden, ffn),
                            .output = rows_of(experts, DIM_FFN, experts->ffn),
                            .merge = d->gated ? MERGE_EXPERTS : 0,
                            .bias = experts->expert_bias,
                            .class = OP_CLASS_EXPERTS};
    struct projection gate = up;
    gate.name = "experts.gate";
    struct projection down = {.name = "experts.down",
                              .weight = SHAPE(expert, ffn, hidden),
                              .output = rows_of(experts, DIM_HIDDEN, d->hidden),
                              .bias = experts->expert_bias};
    int gated = d->gated ? layers_project(layers, rows, gate) : -1;
    int raised = layers_project(layers, rows, up);
    layers->clamp = experts->clamp;
    int active = layers_activate(layers, "experts.activation", gated, raised);
    layers->clamp = 0;
    return layers_project(layers, active, down);
}

// What every token passes through, beside its chosen experts.
static int shared(struct layers *layers, int input)
{
    assert(layers->decoder->experts.shared_ffn > 0);
    const struct decoder *d = layers->decoder;
    layers->clamp = d->experts.shared_is_clamped ? d->experts.clamp : 0;
    int output = layers_named_mlp(layers, "shared", input, d->experts.shared_ffn, MERGE_SHARED);
    layers->clamp = 0;
    if (!d->experts.shared_gate) return output;
    struct projection gate = {.name = "shared.weight",
                              .weight = SHAPE({DIM_HIDDEN, d->hidden}),
                              .output = SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0})};
    int weight = layers_project(layers, input, gate);
    return layers_gate(layers, "shared.weighted", weight, output, FUNCTION_SIGMOID, 1);
}

// Results of the chosen experts of `input`, added up by the weights.
static int chosen(struct layers *layers, int input, int weights)
{
    const struct decoder *d = layers->decoder;
    const struct experts *experts = &d->experts;
    assert(experts->top_k > 0 && experts->top_k <= experts->count);
    int rows = move(layers, "experts.dispatch", OP_DISPATCH, input, weights,
                    rows_of(experts, DIM_HIDDEN, d->hidden));
    rows = experts_mlp(layers, rows);
    if (experts->is_beside_mlp) {
        struct projection scaled = {.name = "experts.scaled",
                                    .weight = SHAPE({DIM_EXPERT, experts->count}),
                                    .output = rows_of(experts, DIM_HIDDEN, d->hidden)};
        rows = layers_project(layers, rows, scaled);
    }
    return move(layers, "experts.combine", OP_COMBINE, rows, weights,
                layers_tokens(DIM_HIDDEN, d->hidden));
}

int layers_experts(struct layers *layers, int input)
{
    int output = chosen(layers, input, route(layers, input));
    if (layers->decoder->experts.shared_ffn == 0) return output;
    output = layers_add(layers, "experts.sum", output, shared(layers, input));
    if (!layers->decoder->experts.shared_is_averaged) return output;
    return layers_function(layers, "experts.mean", output, FUNCTION_SCALE, 0.5);
}

// What the router reads is normed with a weight, and divided by the root of its width.
int layers_mlp_and_experts(struct layers *layers, int input, int x)
{
    const struct decoder *d = layers->decoder;
    int mlp = layers_named_mlp(layers, "mlp", input, d->ffn, MERGE_SHARED);
    mlp = layers_norm(layers, "mlp.own_norm", mlp, d->norm);
    int asked = layers_norm(layers, "router.norm", x, d->norm);
    asked = layers_function(layers, "router.scaled", asked, FUNCTION_SCALE,
                            1 / sqrt((double)d->hidden));
    int weights = route(layers, asked);
    int normed = layers_norm(layers, "experts.norm", x, d->norm);
    int output = chosen(layers, normed, weights);
    output = layers_norm(layers, "experts.post_norm", output, d->norm);
    return layers_add(layers, "experts.sum", mlp, output);
}
