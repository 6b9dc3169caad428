#include "tests/random_graph.h"

#include "core/arena.h"
#include "models/builder.h"

#include <assert.h>
#include <string.h>

// A pool of activations (batch, seq, inner dims) grows by random operators over what is in it.

enum { POOL_MAX = 40, INNER_MAX = 3, READERS_MAX = 3, PIECES_MIN = 2, PIECES_MAX = 6 };

struct growth {
    struct arena *arena;
    struct draw *draw;
    const struct random_sizes *sizes;
    struct builder builder;
    int pool[POOL_MAX], readers[POOL_MAX], pool_count;
    int name_count;
};

static const char *fresh(struct growth *g, const char *stem)
{
    return arena_print(g->arena, "%s%d", stem, g->name_count++);
}

static const struct tensor *tensor_at(const struct growth *g, int tensor)
{
    return &g->builder.block->tensors[tensor];
}

static int parameter(struct growth *g, struct shape shape)
{
    return builder_tensor(&g->builder, fresh(g, "w"), TENSOR_PARAMETER, ELEMENT_COMPUTE, shape);
}

static int activation(struct growth *g, struct shape shape)
{
    return builder_tensor(&g->builder, fresh(g, "x"), TENSOR_ACTIVATION, ELEMENT_COMPUTE, shape);
}

static int ids(struct growth *g, struct shape shape)
{
    return builder_tensor(&g->builder, fresh(g, "ids"), TENSOR_IDS, ELEMENT_INT64, shape);
}

static struct op op_named(struct growth *g, enum op_kind kind)
{
    return (struct op){.name = fresh(g, "op"),
                       .kind = kind,
                       .scalar = 1,
                       .flop_per_element = 1,
                       .output_count = 1};
}

static int apply(struct growth *g, struct op op, int a, int b, struct shape shape)
{
    op.inputs[op.input_count++] = a;
    if (b >= 0) op.inputs[op.input_count++] = b;
    op.outputs[0] = activation(g, shape);
    builder_op(&g->builder, op);
    return op.outputs[0];
}

static void keep(struct growth *g, int tensor)
{
    assert(g->pool_count < POOL_MAX);
    g->pool[g->pool_count] = tensor;
    g->readers[g->pool_count++] = 0;
}

// A member of the pool that one more op may read; the newest are the likeliest. -1: none is left.
static int take(struct growth *g)
{
    for (int tries = 0; tries < 8; tries++) {
        int back = draw_int(g->draw, 0, g->pool_count - 1);
        int at = g->pool_count - 1 - draw_int(g->draw, 0, back);
        if (g->readers[at] >= READERS_MAX) continue;
        g->readers[at]++;
        return g->pool[at];
    }
    return -1;
}

// Reads more, or fewer, than the one that `take` counted.
static void recount(struct growth *g, int tensor, int more)
{
    for (int i = 0; i < g->pool_count; i++) {
        if (g->pool[i] == tensor) g->readers[i] += more;
    }
}

static int64_t size_of(const struct growth *g, enum dim dim)
{
    const struct random_sizes *s = g->sizes;
    switch ((int)dim) {
    case DIM_HEAD:
        return s->kv_heads * s->heads_per_kv_head;
    case DIM_KV_HEAD:
        return s->kv_heads;
    case DIM_HEAD_DIM:
        return s->head_dim;
    case DIM_HIDDEN:
        return s->hidden;
    case DIM_FFN:
        return s->ffn;
    case DIM_VOCAB:
        return s->vocab;
    default:
        return 2;
    }
}

static void append(struct shape *shape, struct extent extent)
{
    int at = 0;
    while (shape->extents[at].dim)
        at++;
    assert(at < TENSOR_RANK_MAX);
    shape->extents[at] = extent;
}

static struct shape tokens(void)
{
    return SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0});
}

static struct shape hidden_shape(const struct growth *g)
{
    return SHAPE({DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_HIDDEN, g->sizes->hidden});
}

static bool is_head(enum dim dim)
{
    return dim == DIM_HEAD || dim == DIM_KV_HEAD;
}

static bool has_dim(const struct tensor *tensor, enum dim dim)
{
    return tensor_find_dim(tensor, dim) >= 0;
}

static bool has_any_head(const struct tensor *tensor)
{
    return has_dim(tensor, DIM_HEAD) || has_dim(tensor, DIM_KV_HEAD);
}

// Contraction with a parameter: some inner dims are summed over, some kept, of the kept some have
// weights of their own (a product for each head), and new ones appear. `to` asks for one new dim
// alone and everything else summed.
static int contract(struct growth *g, int input, enum dim to)
{
    // No kv heads: no model sums over them in forward, so nothing there need reduce over one part
    // of tp and cut over the other.
    static const enum dim NEW[] = {DIM_HEAD, DIM_FFN,     DIM_FFN,         DIM_HIDDEN,
                                   DIM_RANK, DIM_CHANNEL, DIM_OUT_CHANNEL, DIM_HEAD_DIM};
    const struct tensor from = *tensor_at(g, input);
    struct shape weight = {0}, output = tokens();
    int summed = 0, kept = 0;
    for (int e = 2; e < from.rank; e++) {
        bool is_last_chance = e == from.rank - 1 && summed == 0;
        bool sums = to || is_last_chance || draw_int(g->draw, 0, 1);
        bool has_own = sums || draw_int(g->draw, 0, 2) == 0;
        if (has_own) append(&weight, from.extents[e]);
        if (!sums) append(&output, from.extents[e]);
        summed += sums, kept += !sums;
    }
    int wanted = to ? 1 : draw_int(g->draw, kept ? 0 : 1, INNER_MAX - kept);
    for (int i = 0; i < wanted; i++) {
        enum dim dim = to ? to : DRAW_ONE(g->draw, NEW);
        struct tensor so_far = {.rank = TENSOR_RANK_MAX};
        memcpy(so_far.extents, output.extents, sizeof so_far.extents);
        bool clashes = has_dim(&from, dim) || has_dim(&so_far, dim) ||
                       (is_head(dim) && (has_any_head(&from) || has_any_head(&so_far)));
        if (clashes && !to) continue;
        append(&weight, (struct extent){dim, size_of(g, dim)});
        append(&output, (struct extent){dim, size_of(g, dim)});
    }
    bool shrinks = output.extents[2].dim == DIM_NONE;
    if (shrinks) {
        append(&weight, (struct extent){DIM_TABLE, 2});
        append(&output, (struct extent){DIM_TABLE, 2});
    }
    return apply(g, op_named(g, OP_CONTRACT), input, parameter(g, weight), output);
}

// A shape in which (batch, seq) is followed by hidden alone.
static int to_hidden(struct growth *g, int input)
{
    const struct tensor *from = tensor_at(g, input);
    bool is_hidden = from->rank == 3 && from->extents[2].dim == DIM_HIDDEN;
    if (is_hidden) return input;
    if (!has_dim(from, DIM_HIDDEN)) return contract(g, input, DIM_HIDDEN);
    static const enum dim BETWEEN[] = {DIM_CHANNEL, DIM_RANK, DIM_OUT_CHANNEL, DIM_TABLE};
    int way = 0;
    while (has_dim(from, BETWEEN[way]))
        way++;
    return contract(g, contract(g, input, BETWEEN[way]), DIM_HIDDEN);
}

static bool is_same_shape(const struct tensor *a, const struct tensor *b)
{
    if (a->rank != b->rank) return false;
    return memcmp(a->extents, b->extents, (size_t)a->rank * sizeof *a->extents) == 0;
}

// Another member of the pool that looks the same; -1: none.
static int take_like(struct growth *g, int like)
{
    for (int tries = 0; tries < 4; tries++) {
        int at = draw_int(g->draw, 0, g->pool_count - 1);
        bool fits = g->pool[at] != like && g->readers[at] < READERS_MAX &&
                    is_same_shape(tensor_at(g, like), tensor_at(g, g->pool[at]));
        if (!fits) continue;
        g->readers[at]++;
        return g->pool[at];
    }
    return -1;
}

static int add(struct growth *g, int input)
{
    struct op op = op_named(g, OP_ADD);
    struct shape shape = builder_shape(&g->builder, input), bias = {0};
    const struct tensor from = *tensor_at(g, input);
    op.inputs[op.input_count++] = input;
    for (int i = 0; i < 3; i++) {
        int other = take_like(g, input);
        if (other >= 0) op.inputs[op.input_count++] = other;
    }
    for (int e = 0; e < from.rank; e++) {
        bool has = e == from.rank - 1 || (e >= 2 && draw_int(g->draw, 0, 1));
        if (has) append(&bias, from.extents[e]);
    }
    bool has_bias = op.input_count == 1 || draw_int(g->draw, 0, 1);
    if (has_bias) op.inputs[op.input_count++] = parameter(g, bias);
    op.outputs[0] = activation(g, shape);
    builder_op(&g->builder, op);
    return op.outputs[0];
}

static int function(struct growth *g, int input)
{
    static const enum function FUNCTIONS[] = {FUNCTION_GELU, FUNCTION_SILU, FUNCTION_SCALE,
                                              FUNCTION_ROPE};
    struct op op = op_named(g, OP_ELEMENTWISE);
    op.function = DRAW_ONE(g->draw, FUNCTIONS);
    op.class = draw_int(g->draw, 0, 1) ? OP_CLASS_ACTIVATION : OP_CLASS_NONE;
    op.rotary_dims = g->sizes->head_dim;
    if (op.function == FUNCTION_ROPE && !has_dim(tensor_at(g, input), DIM_HEAD_DIM)) {
        op.function = FUNCTION_SOFTCAP;
    }
    bool is_gated = op.function == FUNCTION_GELU || op.function == FUNCTION_SILU;
    int other = is_gated ? take_like(g, input) : -1;
    return apply(g, op, input, other, builder_shape(&g->builder, input));
}

static int normalise(struct growth *g, int input)
{
    struct op op = op_named(g, OP_NORM);
    const struct tensor from = *tensor_at(g, input);
    struct shape last = {{from.extents[from.rank - 1]}};
    int extras = draw_int(g->draw, 0, 2);
    op.function = extras == 2 ? FUNCTION_LAYER_NORM : FUNCTION_RMS_NORM;
    op.class = draw_int(g->draw, 0, 1) ? OP_CLASS_NORM : OP_CLASS_NONE;
    op.inputs[op.input_count++] = input;
    for (int i = 0; i < extras; i++)
        op.inputs[op.input_count++] = parameter(g, last);
    op.outputs[0] = activation(g, builder_shape(&g->builder, input));
    builder_op(&g->builder, op);
    return op.outputs[0];
}

static int drop(struct growth *g, int input)
{
    struct op op = op_named(g, OP_DROPOUT);
    struct shape shape = builder_shape(&g->builder, input);
    op.dropout_ratio = 0.1;
    op.inputs[op.input_count++] = input;
    op.outputs[0] = activation(g, shape);
    op.outputs[op.output_count++] =
        builder_tensor(&g->builder, fresh(g, "mask"), TENSOR_ACTIVATION, ELEMENT_BYTE, shape);
    builder_op(&g->builder, op);
    return op.outputs[0];
}

// Two activations multiplied: what both have is summed over or kept, the rest is kept.
static int multiply(struct growth *g, int a)
{
    int b = take(g);
    if (b == a) recount(g, a, -1);
    if (b < 0 || b == a) return drop(g, a);
    const struct tensor x = *tensor_at(g, a), y = *tensor_at(g, b);
    struct shape output = tokens();
    int64_t elements = 1;
    int rank = 2;
    for (int side = 0; side < 2; side++) {
        const struct tensor *from = side ? &y : &x, *other = side ? &x : &y;
        for (int e = 2; e < from->rank; e++) {
            bool shared = has_dim(other, from->extents[e].dim);
            bool keeps = !shared || (side == 0 && draw_int(g->draw, 0, 2) == 0);
            if (!keeps) continue;
            bool mixes = is_head(from->extents[e].dim) && has_any_head(other) && !shared;
            if (mixes || rank == 5) return recount(g, b, -1), add(g, a);
            append(&output, from->extents[e]);
            elements *= from->extents[e].size;
            rank++;
        }
    }
    if (rank == 2 || elements > 32) return recount(g, b, -1), add(g, a);
    return apply(g, op_named(g, OP_CONTRACT), a, b, output);
}

static struct shape heads_shape(const struct growth *g, enum dim seq, enum dim head)
{
    return SHAPE({DIM_BATCH, 0}, {seq, 0}, {head, size_of(g, head)},
                 {DIM_HEAD_DIM, g->sizes->head_dim});
}

static int project(struct growth *g, int input, struct shape output)
{
    const struct tensor from = *tensor_at(g, input);
    struct shape weight = {0};
    for (int e = 2; e < from.rank; e++)
        append(&weight, from.extents[e]);
    for (int e = 2; e < TENSOR_RANK_MAX && output.extents[e].dim; e++)
        append(&weight, output.extents[e]);
    return apply(g, op_named(g, OP_CONTRACT), input, parameter(g, weight), output);
}

static int attend_unfused(struct growth *g, struct op core, const int heads[3])
{
    struct shape keys = heads_shape(g, DIM_KV_SEQ, DIM_HEAD);
    struct shape square =
        SHAPE({DIM_BATCH, 0}, {DIM_HEAD, size_of(g, DIM_HEAD)}, {DIM_SEQ, 0}, {DIM_KV_SEQ, 0});
    struct op op = core;
    op.kind = OP_EXPAND, op.name = fresh(g, "expand");
    int key = apply(g, op, heads[1], -1, keys);
    op.name = fresh(g, "expand");
    int value = apply(g, op, heads[2], -1, keys);
    op.kind = OP_CONTRACT, op.name = fresh(g, "scores");
    int scores = apply(g, op, heads[0], key, square);
    op.kind = OP_SOFTMAX, op.name = fresh(g, "softmax");
    int shares = apply(g, op, scores, -1, square);
    op.kind = OP_CONTRACT, op.name = fresh(g, "context");
    return apply(g, op, shares, value, heads_shape(g, DIM_SEQ, DIM_HEAD));
}

static int attend(struct growth *g, int input)
{
    struct op core = op_named(g, OP_ATTENTION);
    int source = draw_int(g->draw, 0, 2) ? input : take_like(g, input), heads[3];
    if (source < 0) source = input;
    recount(g, source, 1);
    if (source == input) recount(g, input, 1);
    heads[0] = project(g, input, heads_shape(g, DIM_SEQ, DIM_HEAD));
    if (draw_int(g->draw, 0, 1)) heads[0] = normalise(g, heads[0]);
    for (int i = 1; i < 3; i++) {
        heads[i] = project(g, source, heads_shape(g, DIM_SEQ, DIM_KV_HEAD));
        if (draw_int(g->draw, 0, 2) == 0) heads[i] = normalise(g, heads[i]);
    }
    core.class = OP_CLASS_ATTENTION;
    core.causal = draw_int(g->draw, 0, 1);
    // A window of one key would need nothing of other ranks.
    core.window = core.causal && draw_int(g->draw, 0, 1) ? draw_int(g->draw, 2, 4) : 0;
    if (!g->sizes->flash) return attend_unfused(g, core, heads);
    memcpy(core.inputs, heads, sizeof heads);
    core.input_count = 3;
    struct shape rows = tokens();
    append(&rows, (struct extent){DIM_HEAD, size_of(g, DIM_HEAD)});
    core.outputs[0] = activation(g, heads_shape(g, DIM_SEQ, DIM_HEAD));
    core.outputs[core.output_count++] = activation(g, rows);
    builder_op(&g->builder, core);
    return core.outputs[0];
}

static int ragged(struct growth *g, struct op op, int a, int b, enum dim dim)
{
    struct shape shape = tokens();
    append(&shape, (struct extent){DIM_EXPERT, g->sizes->experts});
    append(&shape, (struct extent){dim, size_of(g, dim)});
    int rows = apply(g, op, a, b, shape);
    g->builder.block->tensors[rows].density = 1.0 / (double)g->sizes->experts;
    return rows;
}

// Routing, dispatch, two products with something between them, and the weighted sum.
static int mix(struct growth *g, int input)
{
    int x = to_hidden(g, input);
    recount(g, x, 1);
    struct extent expert = {DIM_EXPERT, g->sizes->experts}, hidden = {DIM_HIDDEN, g->sizes->hidden},
                  ffn = {DIM_FFN, g->sizes->ffn};
    struct shape gate = tokens();
    append(&gate, (struct extent){DIM_GATE, g->sizes->experts});
    int logits = project(g, x, gate);
    struct op choice = op_named(g, OP_ROUTE);
    choice.function = FUNCTION_ROUTE_SOFTMAX_TOP_K, choice.top_k = 1;
    int weights = apply(g, choice, logits, -1, gate);
    int rows = ragged(g, op_named(g, OP_DISPATCH), x, weights, DIM_HIDDEN);
    int up = parameter(g, SHAPE(expert, hidden, ffn)),
        down = parameter(g, SHAPE(expert, ffn, hidden));
    int raised = ragged(g, op_named(g, OP_CONTRACT), rows, up, DIM_FFN);
    struct op active = op_named(g, OP_ELEMENTWISE);
    active.function = FUNCTION_SILU;
    int second = -1;
    if (draw_int(g->draw, 0, 1)) {
        int other = parameter(g, SHAPE(expert, hidden, ffn));
        second = ragged(g, op_named(g, OP_CONTRACT), rows, other, DIM_FFN);
    }
    raised = ragged(g, active, raised, second, DIM_FFN);
    if (draw_int(g->draw, 0, 1)) {
        raised = ragged(g, op_named(g, OP_ADD), raised, parameter(g, SHAPE(expert, ffn)), DIM_FFN);
    }
    int out = ragged(g, op_named(g, OP_CONTRACT), raised, down, DIM_HIDDEN);
    return apply(g, op_named(g, OP_COMBINE), out, weights, hidden_shape(g));
}

static void grow(struct growth *g)
{
    int input = take(g);
    if (input < 0) return;
    int what = draw_int(g->draw, 0, g->sizes->experts ? 11 : 9);
    bool is_plain = tensor_at(g, input)->rank <= 4;
    int made = what <= 2               ? contract(g, input, DIM_NONE)
               : what <= 4 && is_plain ? attend(g, to_hidden(g, input))
               : what == 5             ? normalise(g, input)
               : what == 6             ? function(g, input)
               : what == 7             ? drop(g, input)
               : what == 8             ? multiply(g, input)
               : what >= 10            ? mix(g, input)
                                       : add(g, input);
    keep(g, made);
}

// Adds up all that nothing reads.
static int gather_ends(struct growth *g)
{
    int sum = -1;
    struct op op = {.input_count = 0};
    for (int i = 0; i < g->pool_count; i++) {
        if (g->readers[i] > 0) continue;
        int end = to_hidden(g, g->pool[i]);
        if (op.input_count == 0) op = op_named(g, OP_ADD);
        op.inputs[op.input_count++] = end;
        bool is_full = op.input_count == OP_INPUT_MAX;
        if (!is_full) continue;
        op.outputs[0] = sum = activation(g, hidden_shape(g));
        builder_op(&g->builder, op);
        op.inputs[0] = sum, op.input_count = 1;
    }
    assert(op.input_count > 0);
    if (op.input_count == 1) return op.inputs[0];
    op.name = fresh(g, "op");
    op.outputs[0] = activation(g, hidden_shape(g));
    builder_op(&g->builder, op);
    return op.outputs[0];
}

static void start(struct growth *g, enum block_role role)
{
    struct block *block = g->builder.block;
    if (role != BLOCK_EMBEDDING) {
        block->inputs[block->input_count++] = activation(g, hidden_shape(g));
        keep(g, block->inputs[0]);
        return;
    }
    for (int i = 0; i < 2; i++) {
        struct extent rows =
            i ? (struct extent){DIM_POSITION, 5} : (struct extent){DIM_VOCAB, g->sizes->vocab};
        int table = parameter(g, SHAPE(rows, {DIM_HIDDEN, g->sizes->hidden}));
        keep(g, apply(g, op_named(g, OP_GATHER), ids(g, tokens()), table, hidden_shape(g)));
    }
}

static int lose(struct growth *g, int input)
{
    struct shape logits = tokens();
    append(&logits, (struct extent){DIM_VOCAB, g->sizes->vocab});
    struct op op = op_named(g, OP_LOSS);
    op.inputs[op.input_count++] = project(g, input, logits);
    op.inputs[op.input_count++] = ids(g, tokens());
    op.outputs[0] = activation(g, tokens());
    op.outputs[op.output_count++] = activation(g, tokens());
    builder_op(&g->builder, op);
    return op.outputs[0];
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
    if (role == BLOCK_HEAD) end = lose(&g, end);
    block->outputs[block->output_count++] = end;
    return block;
}
