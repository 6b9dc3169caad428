#include "models/adapters.h"

#include "models/builder.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const unsigned ADAPTERS_ALL = (1u << ADAPTER_TARGET_COUNT) - 1;

static const char *const TARGET_NAMES[ADAPTER_TARGET_COUNT] = {
    [ADAPTER_Q] = "q",       [ADAPTER_K] = "k",   [ADAPTER_V] = "v",       [ADAPTER_O] = "o",
    [ADAPTER_GATE] = "gate", [ADAPTER_UP] = "up", [ADAPTER_DOWN] = "down",
};

// Work an element of the factor s: it only has to be of the right size.
static const double SCALE_FLOP = 1;

static const unsigned OF_ATTENTION =
    1u << ADAPTER_Q | 1u << ADAPTER_K | 1u << ADAPTER_V | 1u << ADAPTER_O;

static unsigned target_named(const char *word, size_t length)
{
    static_assert(ADAPTER_TARGET_COUNT <= 31, "targets are bits");
    static const char SUFFIX[] = "_proj";
    const size_t more = sizeof SUFFIX - 1;
    if (length == 9 && strncmp(word, "attention", length) == 0) return OF_ATTENTION;
    if (length == 3 && strncmp(word, "mlp", length) == 0) return ADAPTERS_ALL & ~OF_ATTENTION;
    if (length > more && strncmp(word + length - more, SUFFIX, more) == 0) length -= more;
    for (int i = 0; i < ADAPTER_TARGET_COUNT; i++) {
        const char *name = TARGET_NAMES[i];
        if (strlen(name) == length && strncmp(name, word, length) == 0) return 1u << i;
    }
    return 0;
}

unsigned adapters_target(const char *word)
{
    return target_named(word, strlen(word));
}

static bool parse_targets(const char *text, unsigned *targets)
{
    *targets = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        unsigned named = target_named(at, length);
        if (!named) return false;
        *targets |= named;
        at += length;
        if (!*at) return true;
    }
}

bool adapters_parse(const char *text, struct adapters *adapters)
{
    *adapters = (struct adapters){0};
    if (strcmp(text, "none") == 0) return true;
    if (*text < '1' || *text > '9') return false;
    char *end;
    long rank = strtol(text, &end, 10);
    if (rank > ADAPTER_RANK_MAX) return false;
    *adapters = (struct adapters){(int)rank, ADAPTERS_ALL};
    return !*end || (*end == ':' && parse_targets(end + 1, &adapters->targets));
}

const char *adapters_words(struct arena *arena, struct adapters adapters)
{
    if (adapters.rank == 0) return "none";
    const char *text = arena_print(arena, "%d", adapters.rank);
    if (adapters.targets == ADAPTERS_ALL) return text;
    char between = ':';
    for (int i = 0; i < ADAPTER_TARGET_COUNT; i++) {
        if (!(adapters.targets >> i & 1)) continue;
        text = arena_print(arena, "%s%c%s", text, between, TARGET_NAMES[i]);
        between = ',';
    }
    return text;
}

int64_t adapters_value(struct adapters adapters)
{
    if (adapters.rank == 0) return 0;
    assert(adapters.targets > 0 && adapters.targets <= ADAPTERS_ALL);
    return (int64_t)(adapters.rank - 1) * ADAPTERS_ALL + adapters.targets;
}

struct adapters adapters_of_value(int64_t value)
{
    assert(value >= 0);
    if (value == 0) return (struct adapters){0};
    int64_t before = value - 1;
    return (struct adapters){(int)(before / ADAPTERS_ALL) + 1,
                             (unsigned)(before % ADAPTERS_ALL) + 1};
}

// The projections by the last part of their names, and of attention what stands in front of it as
// well: "up" of an mlp is not latent attention's.
static unsigned targets_of(const struct op *op)
{
    static const struct {
        const char *name;
        unsigned targets;
    } PROJECTIONS[] = {
        {"attention.q", 1u << ADAPTER_Q},
        {"attention.q_a", 1u << ADAPTER_Q},
        {"attention.q_b", 1u << ADAPTER_Q},
        {"attention.k", 1u << ADAPTER_K},
        {"attention.v", 1u << ADAPTER_V},
        {"attention.kv_a", 1u << ADAPTER_K | 1u << ADAPTER_V},
        {"attention.k_shared", 1u << ADAPTER_K | 1u << ADAPTER_V},
        {"attention.k_b", 1u << ADAPTER_K | 1u << ADAPTER_V},
        {"attention.v_b", 1u << ADAPTER_K | 1u << ADAPTER_V},
        {"attention.out", 1u << ADAPTER_O},
        {"mlp.gate", 1u << ADAPTER_GATE},
        {"mlp.up", 1u << ADAPTER_UP},
        {"mlp.down", 1u << ADAPTER_DOWN},
        {"shared.gate", 1u << ADAPTER_GATE},
        {"shared.up", 1u << ADAPTER_UP},
        {"shared.down", 1u << ADAPTER_DOWN},
        {"experts.gate", 1u << ADAPTER_GATE},
        {"experts.up", 1u << ADAPTER_UP},
        {"experts.down", 1u << ADAPTER_DOWN},
    };
    if (op->kind != OP_CONTRACT) return 0;
    for (size_t i = 0; i < sizeof PROJECTIONS / sizeof *PROJECTIONS; i++) {
        if (strcmp(PROJECTIONS[i].name, op->name) == 0) return PROJECTIONS[i].targets;
    }
    return 0;
}

static bool is_adapted(const struct block *block, const struct op *op, struct adapters adapters)
{
    if (adapters.rank == 0 || !(targets_of(op) & adapters.targets)) return false;
    assert(block->tensors[op->inputs[1]].role == TENSOR_PARAMETER);
    return true;
}

bool adapters_reach(const struct graph *graph, struct adapters adapters)
{
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int o = 0; o < block->op_count; o++) {
            if (is_adapted(block, &block->ops[o], adapters)) return true;
        }
    }
    return false;
}

// Backward of an element-wise operator tells its results by their places, the first one first. What
// is of no sample is a parameter, or made of some.
static bool begins_with_parameter(const struct block *block, const struct op *op)
{
    return op->kind == OP_ELEMENTWISE && op->input_count > 1 &&
           tensor_find_dim(&block->tensors[op->inputs[0]], DIM_BATCH) < 0;
}

const char *adapters_misfit(const struct graph *graph)
{
    if (graph->contrasts) return "two towers that are compared";
    for (int b = 0; b < graph->block_count; b++) {
        for (int o = 0; o < graph->blocks[b].op_count; o++) {
            const struct op *op = &graph->blocks[b].ops[o];
            if (op->kind == OP_SCAN || op->kind == OP_DELTA)
                return "scans (state-space layers, the delta rule)";
            if (begins_with_parameter(&graph->blocks[b], op))
                return "vectors of parameters that scale the states of a layer";
        }
    }
    return NULL;
}

struct adapting {
    struct builder builder;
    const struct block *from;
    struct adapters adapters;
    int *now;  // by tensor of the old block: what stands for it
};

static struct tensor *tensor_at(struct adapting *adapting, int tensor)
{
    return &adapting->builder.block->tensors[tensor];
}

static bool has_dim(struct adapting *adapting, int tensor, enum dim dim)
{
    return tensor_find_dim(tensor_at(adapting, tensor), dim) >= 0;
}

// The dims that weight and `side` (input or output) share, those of experts in front, with the
// rank behind them or in front of all but experts.
static struct shape factor_shape(struct adapting *adapting, int weight, int side, bool rank_last)
{
    struct shape shape = {0};
    struct extent rank = {DIM_ADAPTER, adapting->adapters.rank};
    int count = 0;
    const struct tensor *of = tensor_at(adapting, weight), *at = tensor_at(adapting, side);
    int expert = tensor_find_dim(of, DIM_EXPERT);
    if (expert >= 0) shape.extents[count++] = of->extents[expert];
    if (!rank_last) shape.extents[count++] = rank;
    for (int i = 0; i < at->rank; i++) {
        enum dim dim = at->extents[i].dim;
        if (dim != DIM_EXPERT && has_dim(adapting, weight, dim))
            shape.extents[count++] = at->extents[i];
    }
    if (rank_last) shape.extents[count++] = rank;
    assert(count <= TENSOR_RANK_MAX);
    return shape;
}

static int activation(struct adapting *adapting, const char *name, struct shape shape, int like)
{
    struct tensor of = *tensor_at(adapting, like);
    int made = builder_tensor(&adapting->builder, name, TENSOR_ACTIVATION, of.element, shape);
    tensor_at(adapting, made)->density = of.density;
    return made;
}

// A parameter of its own role: the one that this pass does not freeze.
static int parameter(struct adapting *adapting, const char *name, struct shape shape)
{
    return builder_parameter(&adapting->builder, name, "weight", shape);
}

static void append(struct adapting *adapting, struct op op, int a, int b, int output)
{
    assert(op.input_count == 0 && a >= 0 && output >= 0);
    op.output_count = 1;
    op.outputs[0] = output;
    op.inputs[op.input_count++] = a;
    if (b >= 0) op.inputs[op.input_count++] = b;
    builder_op(&adapting->builder, op);
}

// Batch, sequence and experts of the input, and the rank.
static struct shape low_shape(struct adapting *adapting, int input, int weight)
{
    struct shape shape = {0};
    const struct tensor *of = tensor_at(adapting, input);
    int count = 0;
    for (int i = 0; i < of->rank; i++) {
        enum dim dim = of->extents[i].dim;
        if (dim == DIM_EXPERT || !has_dim(adapting, weight, dim))
            shape.extents[count++] = of->extents[i];
    }
    assert(count < TENSOR_RANK_MAX);
    shape.extents[count] = (struct extent){DIM_ADAPTER, adapting->adapters.rank};
    return shape;
}

// Behind `base`, which has just been appended. All of it is recomputed where that is.
static void adapt(struct adapting *adapting, const struct op *base, int was)
{
    struct arena *arena = adapting->builder.arena;
    int x = base->inputs[0], weight = base->inputs[1], y = base->outputs[0];
    const char *down = arena_print(arena, "%s.adapter_a", base->name);
    const char *up = arena_print(arena, "%s.adapter_b", base->name);
    const char *scaled = arena_print(arena, "%s.adapter_scaled", base->name);
    const char *sum = arena_print(arena, "%s.adapted", base->name);
    int a = parameter(adapting, down, factor_shape(adapting, weight, x, true));
    int b = parameter(adapting, up, factor_shape(adapting, weight, y, false));
    int low = activation(adapting, down, low_shape(adapting, x, weight), x);
    struct shape shape = builder_shape(&adapting->builder, y);
    int high = activation(adapting, up, shape, y);
    int added = activation(adapting, scaled, shape, y);
    int whole = activation(adapting, sum, shape, y);
    struct op op = {.name = down, .kind = OP_CONTRACT, .scalar = 1, .class = base->class};
    append(adapting, op, x, a, low);
    op.name = up;
    append(adapting, op, low, b, high);
    op.name = scaled;
    op.kind = OP_ELEMENTWISE;
    op.function = FUNCTION_SCALE;
    op.flop_per_element = SCALE_FLOP;
    append(adapting, op, high, -1, added);
    op.name = sum;
    op.kind = OP_ADD;
    op.function = FUNCTION_NONE;
    op.flop_per_element = 0;
    append(adapting, op, y, added, whole);
    adapting->now[was] = whole;
}

// What is made from frozen operands and ids alone has no gradient, and so on down the block.
static void freeze(struct adapting *adapting, const struct op *op)
{
    bool is_frozen = true;
    for (int i = 0; i < op->input_count; i++) {
        const struct tensor *tensor = tensor_at(adapting, op->inputs[i]);
        is_frozen = is_frozen && (tensor->frozen || tensor->role == TENSOR_IDS);
    }
    for (int i = 0; i < op->output_count; i++)
        tensor_at(adapting, op->outputs[i])->frozen = is_frozen;
}

static void adapt_block(struct arena *arena, struct block *block, struct adapters adapters)
{
    struct adapting adapting = {builder_copy(arena, block), block, adapters,
                                ARENA_NEW(arena, int, block->tensor_count)};
    struct block *made = adapting.builder.block;
    made->op_count = 0;
    for (int t = 0; t < block->tensor_count; t++) {
        adapting.now[t] = t;
        made->tensors[t].producer = -1;
        made->tensors[t].frozen = made->tensors[t].role == TENSOR_PARAMETER;
    }
    for (int o = 0; o < block->op_count; o++) {
        struct op op = block->ops[o];
        for (int i = 0; i < op.input_count; i++)
            op.inputs[i] = adapting.now[op.inputs[i]];
        builder_op(&adapting.builder, op);
        freeze(&adapting, &op);
        if (is_adapted(block, &block->ops[o], adapters))
            adapt(&adapting, &op, block->ops[o].outputs[0]);
    }
    for (int i = 0; i < block->output_count; i++)
        made->outputs[i] = adapting.now[block->outputs[i]];
    *block = *made;
}

void adapters_add(struct arena *arena, struct graph *graph, struct adapters adapters)
{
    if (adapters.rank == 0) return;
    assert(adapters.rank > 0 && adapters.rank <= ADAPTER_RANK_MAX);
    assert(adapters.targets > 0 && adapters.targets <= ADAPTERS_ALL);
    graph->frozen_parameter_count = graph->parameter_count + graph->mtp_parameter_count;
    for (int b = 0; b < graph->block_count; b++)
        adapt_block(arena, &graph->blocks[b], adapters);
    graph->mtp_parameter_count = graph_mtp_parameter_count(graph);
    graph->parameter_count = graph_parameter_count(graph);
    graph->active_parameter_count = graph_active_parameter_count(graph);
    assert(graph->frozen_parameter_count <= graph->parameter_count + graph->mtp_parameter_count);
}
