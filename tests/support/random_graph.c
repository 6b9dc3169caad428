#include "tests/support/random_graph.h"

#include "tests/support/random_growth.h"

#include <assert.h>
#include <string.h>

// A pool of activations grows by random operators over what is in it.

enum { INNER_MAX = 3, PIECES_MIN = 2, PIECES_MAX = 6 };

static bool is_head(enum dim dim)
{
    return dim == DIM_HEAD || dim == DIM_KV_HEAD;
}

static bool has_any_head(const struct tensor *tensor)
{
    return growth_has_dim(tensor, DIM_HEAD) || growth_has_dim(tensor, DIM_KV_HEAD);
}

// Contraction with a parameter: some inner dims are summed over, some kept, of the kept some have
// weights of their own (a product for each head), and new ones appear. `to` asks for one new dim
// alone and everything else summed.
int growth_contract(struct growth *g, int input, enum dim to)
{
    // No kv heads: no model sums over them in forward, so nothing there need reduce over one part
    // of tp and cut over the other.
    static const enum dim NEW[] = {DIM_HEAD, DIM_FFN,     DIM_FFN,         DIM_HIDDEN,
                                   DIM_RANK, DIM_CHANNEL, DIM_OUT_CHANNEL, DIM_HEAD_DIM};
    const struct tensor from = *growth_tensor_at(g, input);
    struct shape weight = {0}, output = growth_tokens();
    int summed = 0, kept = 0;
    for (int e = 2; e < from.rank; e++) {
        bool is_last_chance = e == from.rank - 1 && summed == 0;
        bool sums = to || is_last_chance || draw_int(g->draw, 0, 1);
        bool has_own = sums || draw_int(g->draw, 0, 2) == 0;
        if (has_own) growth_append(&weight, from.extents[e]);
        if (!sums) growth_append(&output, from.extents[e]);
        summed += sums, kept += !sums;
    }
    int wanted = to ? 1 : draw_int(g->draw, kept ? 0 : 1, INNER_MAX - kept);
    for (int i = 0; i < wanted; i++) {
        enum dim dim = to ? to : DRAW_ONE(g->draw, NEW);
        struct tensor so_far = {.rank = TENSOR_RANK_MAX};
        memcpy(so_far.extents, output.extents, sizeof so_far.extents);
        bool clashes = growth_has_dim(&from, dim) || growth_has_dim(&so_far, dim) ||
                       (is_head(dim) && (has_any_head(&from) || has_any_head(&so_far)));
        if (clashes && !to) continue;
        growth_append(&weight, (struct extent){dim, growth_size_of(g, dim)});
        growth_append(&output, (struct extent){dim, growth_size_of(g, dim)});
    }
    bool shrinks = output.extents[2].dim == DIM_NONE;
    if (shrinks) {
        growth_append(&weight, (struct extent){DIM_TABLE, 2});
        growth_append(&output, (struct extent){DIM_TABLE, 2});
    }
    return growth_apply(g, growth_op_named(g, OP_CONTRACT), input, growth_parameter(g, weight),
                        output);
}

// A shape in which (batch, seq) is followed by hidden alone.
int growth_to_hidden(struct growth *g, int input)
{
    const struct tensor *from = growth_tensor_at(g, input);
    bool is_hidden = from->rank == 3 && from->extents[2].dim == DIM_HIDDEN;
    if (is_hidden) return input;
    if (!growth_has_dim(from, DIM_HIDDEN)) return growth_contract(g, input, DIM_HIDDEN);
    static const enum dim BETWEEN[] = {DIM_CHANNEL, DIM_RANK, DIM_OUT_CHANNEL, DIM_TABLE};
    int way = 0;
    while (growth_has_dim(from, BETWEEN[way]))
        way++;
    return growth_contract(g, growth_contract(g, input, BETWEEN[way]), DIM_HIDDEN);
}

static int add(struct growth *g, int input)
{
    struct op op = growth_op_named(g, OP_ADD);
    struct shape shape = builder_shape(&g->builder, input), bias = {0};
    const struct tensor from = *growth_tensor_at(g, input);
    op.inputs[op.input_count++] = input;
    for (int i = 0; i < 3; i++) {
        int other = growth_take_like(g, input);
        if (other >= 0) op.inputs[op.input_count++] = other;
    }
    for (int e = 0; e < from.rank; e++) {
        bool has = e == from.rank - 1 || (e >= 2 && draw_int(g->draw, 0, 1));
        if (has) growth_append(&bias, from.extents[e]);
    }
    bool has_bias = op.input_count == 1 || draw_int(g->draw, 0, 1);
    if (has_bias) op.inputs[op.input_count++] = growth_parameter(g, bias);
    op.outputs[0] = growth_activation(g, shape);
    builder_op(&g->builder, op);
    return op.outputs[0];
}

static int function(struct growth *g, int input)
{
    static const enum function FUNCTIONS[] = {FUNCTION_GELU, FUNCTION_SILU, FUNCTION_SCALE,
                                              FUNCTION_ROPE};
    struct op op = growth_op_named(g, OP_ELEMENTWISE);
    op.function = DRAW_ONE(g->draw, FUNCTIONS);
    op.class = draw_int(g->draw, 0, 1) ? OP_CLASS_ACTIVATION : OP_CLASS_NONE;
    op.rotary_dims = g->sizes->head_dim;
    if (op.function == FUNCTION_ROPE && !growth_has_dim(growth_tensor_at(g, input), DIM_HEAD_DIM)) {
        op.function = FUNCTION_SOFTCAP;
    }
    bool is_gated = op.function == FUNCTION_GELU || op.function == FUNCTION_SILU;
    int other = is_gated ? growth_take_like(g, input) : -1;
    return growth_apply(g, op, input, other, builder_shape(&g->builder, input));
}

int growth_normalise(struct growth *g, int input)
{
    struct op op = growth_op_named(g, OP_NORM);
    const struct tensor from = *growth_tensor_at(g, input);
    struct shape last = {{from.extents[from.rank - 1]}};
    int extras = draw_int(g->draw, 0, 2);
    op.function = extras == 2 ? FUNCTION_LAYER_NORM : FUNCTION_RMS_NORM;
    op.class = draw_int(g->draw, 0, 1) ? OP_CLASS_NORM : OP_CLASS_NONE;
    op.inputs[op.input_count++] = input;
    for (int i = 0; i < extras; i++)
        op.inputs[op.input_count++] = growth_parameter(g, last);
    op.outputs[0] = growth_activation(g, builder_shape(&g->builder, input));
    builder_op(&g->builder, op);
    return op.outputs[0];
}

static int drop(struct growth *g, int input)
{
    struct op op = growth_op_named(g, OP_DROPOUT);
    struct shape shape = builder_shape(&g->builder, input);
    op.dropout_ratio = 0.1;
    op.inputs[op.input_count++] = input;
    op.outputs[0] = growth_activation(g, shape);
    op.outputs[op.output_count++] = builder_tensor(&g->builder, growth_fresh(g, "mask"),
                                                   TENSOR_ACTIVATION, ELEMENT_BYTE, shape);
    builder_op(&g->builder, op);
    return op.outputs[0];
}

// Two activations multiplied: what both have is summed over or kept, the rest is kept.
static int multiply(struct growth *g, int a)
{
    int b = growth_take(g);
    if (b == a) growth_recount(g, a, -1);
    if (b < 0 || b == a) return drop(g, a);
    const struct tensor x = *growth_tensor_at(g, a), y = *growth_tensor_at(g, b);
    struct shape output = growth_tokens();
    int64_t elements = 1;
    int rank = 2;
    for (int side = 0; side < 2; side++) {
        const struct tensor *from = side ? &y : &x, *other = side ? &x : &y;
        for (int e = 2; e < from->rank; e++) {
            bool shared = growth_has_dim(other, from->extents[e].dim);
            bool keeps = !shared || (side == 0 && draw_int(g->draw, 0, 2) == 0);
            if (!keeps) continue;
            bool mixes = is_head(from->extents[e].dim) && has_any_head(other) && !shared;
            if (mixes || rank == 5) return growth_recount(g, b, -1), add(g, a);
            growth_append(&output, from->extents[e]);
            elements *= from->extents[e].size;
            rank++;
        }
    }
    if (rank == 2 || elements > 32) return growth_recount(g, b, -1), add(g, a);
    return growth_apply(g, growth_op_named(g, OP_CONTRACT), a, b, output);
}

static void grow(struct growth *g)
{
    int input = growth_take(g);
    if (input < 0) return;
    int what = draw_int(g->draw, 0, g->sizes->experts ? 11 : 9);
    bool is_plain = growth_tensor_at(g, input)->rank <= 4;
    int made = what <= 2               ? growth_contract(g, input, DIM_NONE)
               : what <= 3 && is_plain ? growth_attend(g, growth_to_hidden(g, input))
               : what <= 4 && is_plain ? growth_attend_latent(g, growth_to_hidden(g, input))
               : what == 5             ? growth_normalise(g, input)
               : what == 6             ? function(g, input)
               : what == 7             ? drop(g, input)
               : what == 8             ? multiply(g, input)
               : what >= 10            ? growth_mix(g, input)
                                       : add(g, input);
    growth_keep(g, made);
}

// Adds up all that nothing reads.
static int gather_ends(struct growth *g)
{
    int sum = -1;
    struct op op = {.input_count = 0};
    for (int i = 0; i < g->pool_count; i++) {
        if (g->readers[i] > 0) continue;
        int end = growth_to_hidden(g, g->pool[i]);
        if (op.input_count == 0) op = growth_op_named(g, OP_ADD);
        op.inputs[op.input_count++] = end;
        bool is_full = op.input_count == OP_INPUT_MAX;
        if (!is_full) continue;
        op.outputs[0] = sum = growth_activation(g, growth_hidden_shape(g));
        builder_op(&g->builder, op);
        op.inputs[0] = sum, op.input_count = 1;
    }
    assert(op.input_count > 0);
    if (op.input_count == 1) return op.inputs[0];
    op.name = growth_fresh(g, "op");
    op.outputs[0] = growth_activation(g, growth_hidden_shape(g));
    builder_op(&g->builder, op);
    return op.outputs[0];
}

static void start(struct growth *g, enum block_role role)
{
    struct block *block = g->builder.block;
    if (role != BLOCK_EMBEDDING) {
        block->inputs[block->input_count++] = growth_activation(g, growth_hidden_shape(g));
        growth_keep(g, block->inputs[0]);
        return;
    }
    for (int i = 0; i < 2; i++) {
        struct extent rows =
            i ? (struct extent){DIM_POSITION, 5} : (struct extent){DIM_VOCAB, g->sizes->vocab};
        int table = growth_parameter(g, SHAPE(rows, {DIM_HIDDEN, g->sizes->hidden}));
        growth_keep(g, growth_apply(g, growth_op_named(g, OP_GATHER),
                                    growth_ids(g, growth_tokens()), table, growth_hidden_shape(g)));
    }
}

struct block *random_block(struct arena *arena, struct draw *draw, const struct random_sizes *sizes,
                           enum block_role role)
{
    struct growth g = {.arena = arena,
                       .draw = draw,
                       .sizes = sizes,
                       .builder = builder_new(arena, "random", role)};
    start(&g, role);
    int pieces = draw_int(draw, PIECES_MIN, PIECES_MAX);
    for (int i = 0; i < pieces; i++)
        grow(&g);
    int end = gather_ends(&g);
    struct block *block = g.builder.block;
    if (role == BLOCK_HEAD) end = growth_lose(&g, end);
    block->outputs[block->output_count++] = end;
    return block;
}
