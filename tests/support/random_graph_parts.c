#include "tests/support/random_growth.h"

#include <string.h>

// Attention of three forms, experts, the loss.

static struct shape heads_shape(const struct growth *g, enum dim seq, enum dim head)
{
    return SHAPE({DIM_BATCH, 0}, {seq, 0}, {head, growth_size_of(g, head)},
                 {DIM_HEAD_DIM, g->sizes->head_dim});
}

static int project(struct growth *g, int input, struct shape output)
{
    const struct tensor from = *growth_tensor_at(g, input);
    struct shape weight = {0};
    for (int e = 2; e < from.rank; e++)
        growth_append(&weight, from.extents[e]);
    for (int e = 2; e < TENSOR_RANK_MAX && output.extents[e].dim; e++)
        growth_append(&weight, output.extents[e]);
    return growth_apply(g, growth_op_named(g, OP_CONTRACT), input, growth_parameter(g, weight),
                        output);
}

static int sink(struct growth *g)
{
    return growth_parameter(g, SHAPE({DIM_HEAD, growth_size_of(g, DIM_HEAD)}));
}

static int attend_unfused(struct growth *g, struct op core, const int heads[3])
{
    struct shape keys = heads_shape(g, DIM_KV_SEQ, DIM_HEAD);
    struct shape square = SHAPE({DIM_BATCH, 0}, {DIM_HEAD, growth_size_of(g, DIM_HEAD)},
                                {DIM_SEQ, 0}, {DIM_KV_SEQ, 0});
    struct op op = core;
    op.kind = OP_EXPAND, op.name = growth_fresh(g, "expand");
    int key = growth_apply(g, op, heads[1], -1, keys);
    op.name = growth_fresh(g, "expand");
    int value = growth_apply(g, op, heads[2], -1, keys);
    op.kind = OP_CONTRACT, op.name = growth_fresh(g, "scores");
    int scores = growth_apply(g, op, heads[0], key, square);
    op.kind = OP_SOFTMAX, op.name = growth_fresh(g, "softmax");
    int shares = growth_apply(g, op, scores, draw_int(g->draw, 0, 1) ? sink(g) : -1, square);
    op.kind = OP_CONTRACT, op.name = growth_fresh(g, "context");
    return growth_apply(g, op, shares, value, heads_shape(g, DIM_SEQ, DIM_HEAD));
}

int growth_attend(struct growth *g, int input)
{
    struct op core = growth_op_named(g, OP_ATTENTION);
    int source = draw_int(g->draw, 0, 2) ? input : growth_take_like(g, input), heads[3];
    if (source < 0) source = input;
    growth_recount(g, source, 1);
    if (source == input) growth_recount(g, input, 1);
    heads[0] = project(g, input, heads_shape(g, DIM_SEQ, DIM_HEAD));
    if (draw_int(g->draw, 0, 1)) heads[0] = growth_normalise(g, heads[0]);
    for (int i = 1; i < 3; i++) {
        heads[i] = project(g, source, heads_shape(g, DIM_SEQ, DIM_KV_HEAD));
        if (draw_int(g->draw, 0, 2) == 0) heads[i] = growth_normalise(g, heads[i]);
    }
    core.class = OP_CLASS_ATTENTION;
    core.causal = draw_int(g->draw, 0, 1);
    // A window of one key would need nothing of other ranks.
    core.window = draw_int(g->draw, 0, 1) ? draw_int(g->draw, 2, 4) : 0;
    if (!g->sizes->flash) return attend_unfused(g, core, heads);
    memcpy(core.inputs, heads, sizeof heads);
    core.input_count = 3;
    if (draw_int(g->draw, 0, 2) == 0) core.inputs[core.input_count++] = sink(g);
    struct shape rows = growth_tokens();
    growth_append(&rows, (struct extent){DIM_HEAD, growth_size_of(g, DIM_HEAD)});
    core.outputs[0] = growth_activation(g, heads_shape(g, DIM_SEQ, DIM_HEAD));
    core.outputs[core.output_count++] = growth_activation(g, rows);
    builder_op(&g->builder, core);
    return core.outputs[0];
}

// Keys joined of a part for each head and a part that all heads share; values of another width.
int growth_attend_latent(struct growth *g, int input)
{
    struct op core = growth_op_named(g, OP_ATTENTION), join = growth_op_named(g, OP_CONCAT);
    struct extent head = {DIM_HEAD, growth_size_of(g, DIM_HEAD)}, value = {DIM_VALUE_DIM, 3};
    struct shape part = heads_shape(g, DIM_SEQ, DIM_HEAD), whole = growth_tokens(),
                 values = growth_tokens();
    struct shape shared = growth_tokens(), rows = growth_tokens();
    growth_append(&shared, (struct extent){DIM_HEAD_DIM, 1});
    growth_append(&whole, head),
        growth_append(&whole, (struct extent){DIM_HEAD_DIM, g->sizes->head_dim + 1});
    growth_append(&values, head), growth_append(&values, value);
    growth_append(&rows, head);
    growth_recount(g, input, 2);
    int low = growth_normalise(g, growth_contract(g, input, DIM_RANK));
    core.inputs[0] = project(g, input, whole);
    int own = project(g, low, part);
    core.inputs[1] = growth_apply(g, join, own, project(g, input, shared), whole);
    core.inputs[2] = project(g, low, values);
    core.input_count = 3;
    core.class = OP_CLASS_ATTENTION;
    core.causal = draw_int(g->draw, 0, 1);
    core.outputs[0] = growth_activation(g, values);
    core.outputs[core.output_count++] = growth_activation(g, rows);
    builder_op(&g->builder, core);
    return core.outputs[0];
}

static int ragged(struct growth *g, struct op op, int a, int b, enum dim dim)
{
    struct shape shape = growth_tokens();
    growth_append(&shape, (struct extent){DIM_EXPERT, g->sizes->experts});
    growth_append(&shape, (struct extent){dim, growth_size_of(g, dim)});
    int rows = growth_apply(g, op, a, b, shape);
    g->builder.block->tensors[rows].density = 1.0 / (double)g->sizes->experts;
    return rows;
}

// Routing, dispatch, two products with something between them, and the weighted sum.
int growth_mix(struct growth *g, int input)
{
    int x = growth_to_hidden(g, input);
    growth_recount(g, x, 1);
    struct extent expert = {DIM_EXPERT, g->sizes->experts}, hidden = {DIM_HIDDEN, g->sizes->hidden},
                  ffn = {DIM_FFN, g->sizes->ffn};
    struct shape gate = growth_tokens();
    growth_append(&gate, (struct extent){DIM_GATE, g->sizes->experts});
    int logits = project(g, x, gate);
    struct op choice = growth_op_named(g, OP_ROUTE);
    choice.function = FUNCTION_ROUTE_SOFTMAX_TOP_K, choice.top_k = 1;
    int weights = growth_apply(g, choice, logits, -1, gate);
    int rows = ragged(g, growth_op_named(g, OP_DISPATCH), x, weights, DIM_HIDDEN);
    int up = growth_parameter(g, SHAPE(expert, hidden, ffn)),
        down = growth_parameter(g, SHAPE(expert, ffn, hidden));
    int raised = ragged(g, growth_op_named(g, OP_CONTRACT), rows, up, DIM_FFN);
    struct op active = growth_op_named(g, OP_ELEMENTWISE);
    active.function = FUNCTION_SILU;
    int second = -1;
    if (draw_int(g->draw, 0, 1)) {
        int other = growth_parameter(g, SHAPE(expert, hidden, ffn));
        second = ragged(g, growth_op_named(g, OP_CONTRACT), rows, other, DIM_FFN);
    }
    raised = ragged(g, active, raised, second, DIM_FFN);
    if (draw_int(g->draw, 0, 1)) {
        raised = ragged(g, growth_op_named(g, OP_ADD), raised,
                        growth_parameter(g, SHAPE(expert, ffn)), DIM_FFN);
    }
    int out = ragged(g, growth_op_named(g, OP_CONTRACT), raised, down, DIM_HIDDEN);
    return growth_apply(g, growth_op_named(g, OP_COMBINE), out, weights, growth_hidden_shape(g));
}

int growth_lose(struct growth *g, int input)
{
    struct shape logits = growth_tokens();
    growth_append(&logits, (struct extent){DIM_VOCAB, g->sizes->vocab});
    struct op op = growth_op_named(g, OP_LOSS);
    op.inputs[op.input_count++] = project(g, input, logits);
    op.inputs[op.input_count++] = growth_ids(g, growth_tokens());
    op.outputs[0] = growth_activation(g, growth_tokens());
    op.outputs[op.output_count++] = growth_activation(g, growth_tokens());
    builder_op(&g->builder, op);
    return op.outputs[0];
}
