#include "tests/test.h"

#include "models/op.h"
#include "tests/draw.h"
#include "tests/kernel_case.h"
#include "tests/tiny_models.h"

#include <math.h>

// Every operator of every tiny model, forward and backward, on random slices, against the plain
// interpreter: in double to 1e-11, in single precision to 1e-4 of the largest number.

enum { BATCH = 2, SEQ = 6 };

static const char *const BACKENDS[] = {"cpu-fp64", "cpu"};

struct world {
    const struct backend *backend;
    struct device *device;
};

static struct world open_world(const char *name)
{
    struct err err = {0};
    struct world world = {.backend = backend_open(name, &err)};
    assert_string_equal(err.text, "");
    assert_null(world.backend->open(0, &world.device));
    return world;
}

static void close_world(struct world world)
{
    world.backend->close(world.device);
}

static double tolerance_of(const struct world *world)
{
    return world->backend->real_bytes == 8 ? 1e-11 : 1e-4;
}

static struct kernel_case case_of(struct arena *arena, const struct world *world,
                                  const struct interpreter *whole, int op)
{
    struct kernel_case c = {.backend = world->backend,
                            .device = world->device,
                            .arena = arena,
                            .whole = whole,
                            .batch = BATCH,
                            .seq = SEQ,
                            .op = op,
                            .slices = slices_whole(whole, op),
                            .weights = -1,
                            .key = 5,
                            .tolerance = tolerance_of(world)};
    for (int o = 0; o < whole->block->op_count; o++) {
        const struct op *route = &whole->block->ops[o];
        if (route->kind == OP_ROUTE) c.weights = route->outputs[0];
    }
    return c;
}

static void draw_range(struct draw *draw, struct slices *slices, enum dim dim, int64_t unit)
{
    int units = (int)(slices->count[dim] / unit);
    int first = draw_int(draw, 0, units - 1), count = draw_int(draw, 1, units - first);
    slices->first[dim] = first * unit;
    slices->count[dim] = count * unit;
}

// Queries in the middle see keys from the first on; without a mask keys are any.
static void draw_keys(struct draw *draw, const struct op *op, struct slices *slices)
{
    int seq = (int)slices->count[DIM_SEQ];
    draw_range(draw, slices, DIM_SEQ, 1);
    if (!op->causal) return draw_range(draw, slices, DIM_KV_SEQ, 1);
    int least = (int)(slices->first[DIM_SEQ] + slices->count[DIM_SEQ]);
    slices->count[DIM_KV_SEQ] = draw_int(draw, least, seq);
}

static struct slices draw_slices(struct draw *draw, const struct interpreter *whole, int index)
{
    const struct block *block = whole->block;
    const struct op *op = &block->ops[index];
    struct slices slices = slices_whole(whole, index);
    int64_t heads = slices.count[DIM_HEAD], kv_heads = slices.count[DIM_KV_HEAD];
    for (enum dim dim = 1; dim < DIM_COUNT; dim++) {
        bool follows = dim == DIM_KV_HEAD && heads > 0 && kv_heads > 0;
        if (slices.count[dim] == 0 || dim == DIM_KV_SEQ || follows) continue;
        enum split split = op_rule(op->kind)->split(block, op, dim);
        if (split != SPLIT_FREE && split != SPLIT_PARTIAL) continue;
        bool leads = dim == DIM_HEAD && kv_heads > 0;
        draw_range(draw, &slices, dim, leads ? heads / kv_heads : 1);
        if (!leads) continue;
        slices.first[DIM_KV_HEAD] = slices.first[dim] * kv_heads / heads;
        slices.count[DIM_KV_HEAD] = slices.count[dim] * kv_heads / heads;
    }
    bool attends = op->kind == OP_ATTENTION || op->kind == OP_ATTENTION_BACKWARD;
    if (attends) draw_keys(draw, op, &slices);
    return slices;
}

static bool has_rows(const struct block *block, const struct op *op)
{
    for (int i = 0; i < op->input_count + op->output_count; i++) {
        int tensor = i < op->input_count ? op->inputs[i] : op->outputs[i - op->input_count];
        if (block->tensors[tensor].density > 0) return true;
    }
    return false;
}

// Masks of bytes are not added to; the mask of dropout is another test's.
static unsigned draw_adds(struct draw *draw, const struct block *block, const struct op *op)
{
    unsigned adds = 0;
    for (int i = 0; i < op->output_count; i++) {
        bool is_mask = block->tensors[op->outputs[i]].element == ELEMENT_BYTE;
        if (!is_mask && draw_int(draw, 0, 1)) adds |= 1u << i;
    }
    return adds;
}

static void check_op(struct kernel_case c, struct draw *draw)
{
    const struct block *block = c.whole->block;
    const struct op *op = &block->ops[c.op];
    if (op->kind == OP_DROPOUT && op->phase == PHASE_FORWARD) return;
    struct arena_mark mark = arena_mark(c.arena);
    for (int trial = 0; trial < 4; trial++) {
        if (trial > 0) c.slices = draw_slices(draw, c.whole, c.op);
        c.adds = trial % 2 == 0 ? 0 : draw_adds(draw, block, op);
        c.is_ragged = false;
        kernel_case_check(&c);
        c.is_ragged = has_rows(block, op);
        if (c.is_ragged) kernel_case_check(&c);
        arena_reset(c.arena, mark);
    }
}

static void check_model(struct arena *arena, const struct world *world, const char *text,
                        const struct import_options *options, struct draw *draw)
{
    struct arena_mark mark = arena_mark(arena);
    struct graph *graph = tiny_graph(arena, text, options);
    for (int b = 0; b < graph->block_count; b++) {
        struct interpreter *whole = kernel_whole(arena, &graph->blocks[b], BATCH, SEQ);
        for (int o = 0; o < whole->block->op_count; o++)
            check_op(case_of(arena, world, whole, o), draw);
    }
    arena_reset(arena, mark);
}

static void every_operator_equals_the_interpreter(void **state)
{
    struct draw draw = draw_start("slices", 61);
    for (int b = 0; b < 2; b++) {
        struct world world = open_world(BACKENDS[b]);
        for (int m = 0; TINY_MODELS[m]; m++) {
            check_model(*state, &world, TINY_MODELS[m], &(struct import_options){.flash = true},
                        &draw);
            check_model(*state, &world, TINY_MODELS[m], &(struct import_options){.dropout = true},
                        &draw);
        }
        close_world(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_equals_the_interpreter),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
