#include "tests/support/test.h"

#include "models/op_linear_loss.h"
#include "tests/support/draw.h"
#include "tests/support/emulated.h"
#include "tests/support/kernel_case.h"
#include "tests/support/tiny_models.h"

#include <math.h>

// Every operator of every tiny model, forward and backward, on random slices, against the plain
// interpreter: in double to 1e-11, in single precision to 1e-4 of the largest number, in 16 bits to
// 2e-2. The CUDA back end runs with its kernels on the host, or on a GPU where there is one.

enum { BATCH = 2, SEQ = 6 };

static const struct tried {
    const char *name;
    enum precision precision;
    double tolerance;
} BACKENDS[] = {
    {"cpu-fp64", PRECISION_FP32, 1e-11}, {"cpu", PRECISION_FP32, 1e-4},
    {"cuda", PRECISION_FP32, 1e-4},      {"cuda", PRECISION_BF16, 2e-2},
    {"cuda", PRECISION_FP16, 4e-3},
};
enum { CPU_BACKENDS = 2, ALL_BACKENDS = sizeof BACKENDS / sizeof *BACKENDS };

struct world {
    const struct backend *backend;
    struct device *device;
    const struct tried *tried;
};

static struct world open_world(const struct tried *tried)
{
    struct err err = {0};
    struct world world = {.tried = tried};
    bool is_cuda = strcmp(tried->name, "cuda") == 0;
    world.backend = is_cuda ? emulated_backend(tried->precision) : backend_open(tried->name, &err);
    assert_string_equal(err.text, "");
    assert_null(world.backend->open(0, &world.device));
    return world;
}

static void close_world(struct world world)
{
    world.backend->close(world.device);
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
                            .tolerance = world->tried->tolerance,
                            .is_half = world->tried->precision == PRECISION_FP16};
    for (int o = 0; o < whole->block->op_count; o++) {
        const struct op *route = &whole->block->ops[o];
        if (route->kind == OP_ROUTE) c.weights = route->outputs[0];
    }
    return c;
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
    // The emulation takes ten times as long.
    int trials = c.backend->is_host ? 4 : 2;
    for (int trial = 0; trial < trials; trial++) {
        if (trial > 0) c.slices = slices_draw(draw, c.whole, c.op);
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
    if (options->dropout) match_loss_graph(arena, graph, 3);  // of some models
    for (int b = 0; b < graph->block_count; b++) {
        struct interpreter *whole = kernel_whole(arena, &graph->blocks[b], BATCH, SEQ);
        for (int o = 0; o < whole->block->op_count; o++)
            check_op(case_of(arena, world, whole, o), draw);
    }
    arena_reset(arena, mark);
}

static void check_operators(struct arena *arena, int first, int end)
{
    struct draw draw = draw_start("slices", 61);
    for (int b = first; b < end; b++) {
        struct world world = open_world(&BACKENDS[b]);
        for (int m = 0; TINY_MODELS[m]; m++) {
            check_model(arena, &world, TINY_MODELS[m], &(struct import_options){.flash = true},
                        &draw);
            // In 16 bits every other model: the indices are those of fp32.
            if (world.backend->compute_bytes == 2 && m % 2 == b % 2) continue;
            check_model(arena, &world, TINY_MODELS[m], &(struct import_options){.dropout = true},
                        &draw);
        }
        close_world(world);
    }
}

static void every_operator_equals_the_interpreter(void **state)
{
    check_operators(*state, 0, CPU_BACKENDS);
}

static void every_operator_of_cuda_equals_the_interpreter(void **state)
{
    check_operators(*state, CPU_BACKENDS, ALL_BACKENDS);
}

// Attention whose heads are as wide as fused kernels want them: grouped heads, sliding windows,
// caps, slopes, sinks, chunks, and both ways.
#define HEADS                                                                                   \
    "\"vocab_size\": 11, \"hidden_size\": 8, \"intermediate_size\": 6, \"num_hidden_layers\": " \
    "2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8"
static const char *const FUSED[] = {
    "{\"model_type\": \"llama\", " HEADS "}",
    "{\"model_type\": \"mistral\", " HEADS ", \"sliding_window\": 3}",
    "{\"model_type\": \"gemma2\", " HEADS ", \"sliding_window\": 2, \"query_pre_attn_scalar\": 3, "
    "\"attn_logit_softcapping\": 1.5, \"final_logit_softcapping\": 2}",
    "{\"model_type\": \"bloom\", \"vocab_size\": 11, \"hidden_size\": 32, \"n_layer\": 1, "
    "\"n_head\": 4}",
    "{\"model_type\": \"gpt_oss\", " HEADS
    ", \"num_local_experts\": 2, \"num_experts_per_tok\": 1, "
    "\"sliding_window\": 2}",
    "{\"model_type\": \"llama4_text\", " HEADS
    ", \"num_local_experts\": 2, \"num_experts_per_tok\": 1, \"intermediate_size_mlp\": 5, "
    "\"interleave_moe_layer_step\": 2, \"attention_chunk_size\": 2, \"no_rope_layer_interval\": 2}",
    "{\"model_type\": \"modernbert\", \"vocab_size\": 11, \"hidden_size\": 16, "
    "\"intermediate_size\": 6, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
    "\"local_attention\": 4, \"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
};

static void check_fused(struct arena *arena, const struct world *world, const char *text,
                        struct draw *draw)
{
    enum { TRIALS = 6 };
    struct graph *graph = tiny_graph(arena, text, &(struct import_options){.flash = true});
    for (int b = 0; b < graph->block_count; b++) {
        struct interpreter *whole = kernel_whole(arena, &graph->blocks[b], BATCH, SEQ);
        for (int o = 0; o < whole->block->op_count; o++) {
            enum op_kind kind = whole->block->ops[o].kind;
            if (kind != OP_ATTENTION && kind != OP_ATTENTION_BACKWARD) continue;
            for (int trial = 0; trial < TRIALS; trial++)
                check_op(case_of(arena, world, whole, o), draw);
        }
    }
}

// What goes the other way sees no key, or is of a chunk that is not all here.
static void assert_fused(const struct world *world, int least)
{
    struct attention_path paths[ATTENTION_PATH_MAX];
    int count = world->backend->attention_paths(world->device, paths), fused[2] = {0};
    for (int i = 0; i < count; i++) {
        bool is_fused = strcmp(paths[i].path, "cudnn") == 0;
        fused[paths[i].is_backward] += is_fused;
        assert_int_equal(paths[i].is_refused, 0);
        if (!is_fused && strncmp(paths[i].reason, "some of its queries", 19) != 0)
            assert_string_equal(paths[i].reason, "a chunk of it is cut");
    }
    assert_true(fused[0] >= least && fused[1] >= least);
}

static void fused_attention_of_cuda_equals_the_interpreter(void **state)
{
    struct draw draw = draw_start("fused", 64);
    for (int b = CPU_BACKENDS + 1; b < ALL_BACKENDS; b++) {
        setenv("MESHWRIGHT_EMULATED_SDPA", b % 2 ? "runs" : "91900", 1);
        for (size_t m = 0; m < sizeof FUSED / sizeof *FUSED; m++) {
            struct arena_mark mark = arena_mark(*state);
            struct world world = open_world(&BACKENDS[b]);
            check_fused(*state, &world, FUSED[m], &draw);
            assert_fused(&world, 4);
            close_world(world);
            arena_reset(*state, mark);
        }
    }
    unsetenv("MESHWRIGHT_EMULATED_SDPA");
}

// Slices that are empty along one dim leave sums over nothing.
static void check_empty(struct kernel_case c)
{
    const struct block *block = c.whole->block;
    const struct op *op = &block->ops[c.op];
    struct slices whole = c.slices;
    for (enum dim dim = 1; dim < DIM_COUNT; dim++) {
        enum split split = op_rule(op->kind)->split(block, op, dim);
        if (whole.count[dim] == 0 || (split != SPLIT_FREE && split != SPLIT_PARTIAL)) continue;
        struct arena_mark mark = arena_mark(c.arena);
        double *before[OP_OUTPUT_MAX];
        c.slices = whole;
        c.slices.count[dim] = 0;
        c.is_ragged = has_rows(block, op) && !c.is_ragged;
        struct kernel_call call = kernel_case_call(&c, before);
        kernel_case_run(&c, &call);
        for (int i = 0; i < op->output_count; i++) {
            int64_t count = 1;
            for (int e = 0; e < call.outputs[i].rank; e++)
                count *= call.outputs[i].sizes[e];
            double *zeros = ARENA_NEW(c.arena, double, count + 1);
            bool is_rows = c.is_ragged && block->tensors[op->outputs[i]].density > 0;
            if (is_rows) continue;
            kernel_case_compare(&c, op->name, kernel_case_read(&c, &call.outputs[i]), zeros, count);
        }
        arena_reset(c.arena, mark);
    }
}

static void check_all_empty(struct arena *arena, const struct tried *tried)
{
    struct world world = open_world(tried);
    for (int m = 0; TINY_MODELS[m]; m++) {
        struct arena_mark mark = arena_mark(arena);
        struct graph *graph = tiny_graph(arena, TINY_MODELS[m], &(struct import_options){0});
        for (int b = 0; b < graph->block_count; b++) {
            struct interpreter *whole = kernel_whole(arena, &graph->blocks[b], BATCH, SEQ);
            for (int o = 0; o < whole->block->op_count; o++)
                check_empty(case_of(arena, &world, whole, o));
        }
        arena_reset(arena, mark);
    }
    close_world(world);
}

static void empty_slices_leave_sums_over_nothing(void **state)
{
    check_all_empty(*state, &BACKENDS[0]);
    check_all_empty(*state, &BACKENDS[CPU_BACKENDS]);
}

// Runs one op and keeps its results as the block's.
static void run_kept(struct kernel_case *c, struct interpreter *values, int op)
{
    double *before[OP_OUTPUT_MAX];
    c->op = op;
    c->slices = slices_whole(values, op);
    struct kernel_call call = kernel_case_call(c, before);
    kernel_case_run(c, &call);
    for (int i = 0; i < call.output_count; i++)
        values->values[call.op->outputs[i]] = kernel_case_read(c, &call.outputs[i]);
}

static double weighted(struct kernel_case *c, struct interpreter *values, int op,
                       const double *weights)
{
    double sum = 0;
    int output = values->block->ops[op].outputs[0];
    run_kept(c, values, op);
    for (int64_t i = 0; i < interpreter_elements(values, output); i++)
        sum += weights[i] * values->values[output][i];
    return sum;
}

static void probe(struct kernel_case *c, struct interpreter *values, int forward, int gradient,
                  const double *weights, struct draw *draw)
{
    const struct block *block = values->block;
    const double step = 1e-5, *found = values->values[gradient];
    double *x = values->values[block->tensors[gradient].gradient_of];
    int64_t at = draw_int(draw, 0, (int)interpreter_elements(values, gradient) - 1);
    double before = x[at];
    // The weight of an expert that was not chosen has no gradient: there is no row.
    if (before == 0) return;
    x[at] = before + step;
    double above = weighted(c, values, forward, weights);
    x[at] = before - step;
    double below = weighted(c, values, forward, weights), slope = (above - below) / (2 * step);
    x[at] = before;
    if (fabs(found[at] - slope) <= 1e-6 * (1 + fabs(slope))) return;
    fail_msg("gradient of %s by %s: %.12g, difference %.12g", block->ops[forward].name,
             block->tensors[gradient].name, found[at], slope);
}

// The one gradient that a backward op reads.
static int gradient_read(const struct block *block, const struct op *op)
{
    for (int i = 0; i < op->input_count; i++) {
        enum tensor_role role = block->tensors[op->inputs[i]].role;
        if (role == TENSOR_GRADIENT || role == TENSOR_PARAMETER_GRADIENT) return op->inputs[i];
    }
    return -1;
}

static void check_differences(struct kernel_case *c, const struct interpreter *whole, int backward,
                              struct draw *draw)
{
    const struct block *block = whole->block;
    const struct op *op = &block->ops[backward];
    int forward = op->forward_op, gradient = gradient_read(block, op);
    bool is_sum = op->kind == OP_ADD;
    if (op->phase == PHASE_FORWARD || is_sum || gradient < 0) return;
    struct arena_mark mark = arena_mark(c->arena);
    struct interpreter values = *whole;
    values.values = ARENA_NEW(c->arena, double *, block->tensor_count);
    memcpy(values.values, whole->values, (size_t)block->tensor_count * sizeof(double *));
    const double *weights = values.values[gradient];
    c->whole = &values;
    run_kept(c, &values, forward);
    run_kept(c, &values, backward);
    for (int i = 0; i < op->output_count; i++) {
        // The bias that experts are chosen by has a gradient of another kind.
        if (op->kind == OP_ROUTE_BACKWARD && i == 1) continue;
        probe(c, &values, forward, op->outputs[i], weights, draw);
    }
    c->whole = whole;
    arena_reset(c->arena, mark);
}

static void every_gradient_is_a_finite_difference(void **state)
{
    struct world world = open_world(&BACKENDS[0]);
    struct draw draw = draw_start("probes", 62);
    for (int m = 0; TINY_MODELS[m]; m++) {
        // Dropout without fusion: the interpreter's fused attention has none.
        struct import_options options = {.flash = m % 2, .dropout = m % 2 == 0};
        struct arena_mark mark = arena_mark(*state);
        struct graph *graph = tiny_graph(*state, TINY_MODELS[m], &options);
        for (int b = 0; b < graph->block_count; b++) {
            struct interpreter *whole = kernel_whole(*state, &graph->blocks[b], BATCH, SEQ);
            struct kernel_case c = case_of(*state, &world, whole, 0);
            for (int o = 0; o < whole->block->op_count; o++)
                check_differences(&c, whole, o, &draw);
        }
        arena_reset(*state, mark);
    }
    close_world(world);
}

// Wide enough for vector code and its ends, long enough for several blocks of attention.
static const char WIDE[] =
    "{\"model_type\": \"gemma2\", \"vocab_size\": 131, \"hidden_size\": 72, "
    "\"intermediate_size\": 101, \"num_hidden_layers\": 1, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"head_dim\": 18, \"sliding_window\": 100}";
enum { WIDE_SEQ = 150 };

static int64_t bytes_of(const struct kernel_case *c, const struct kernel_array *array)
{
    int64_t bytes = kernel_case_element_bytes(c, array->element);
    for (int i = 0; i < array->rank; i++)
        bytes *= array->sizes[i];
    return bytes;
}

// The same array `shift` bytes past a page's beginning.
static void move(const struct kernel_case *c, struct kernel_array *array, int64_t shift)
{
    enum { PAGE = 4096 };
    int64_t bytes = bytes_of(c, array);
    char *memory = arena_alloc(c->arena, (size_t)bytes + 3 * PAGE, 1);
    char *page = memory + PAGE - (uintptr_t)memory % PAGE;
    memcpy(page + shift, array->data, (size_t)bytes);
    array->data = page + shift;
}

static void check_addresses(const struct kernel_case *c, struct draw *draw)
{
    double *before[OP_OUTPUT_MAX];
    struct kernel_call first = kernel_case_call(c, before), second = first;
    for (int i = 0; i < first.input_count; i++) {
        move(c, &first.inputs[i], 0);
        move(c, &second.inputs[i], 8 * draw_int(draw, 0, 200));
    }
    for (int i = 0; i < first.output_count; i++) {
        move(c, &first.outputs[i], 0);
        move(c, &second.outputs[i], 8 * draw_int(draw, 0, 200));
    }
    kernel_case_run(c, &first);
    kernel_case_run(c, &second);
    for (int i = 0; i < first.output_count; i++) {
        assert_memory_equal(first.outputs[i].data, second.outputs[i].data,
                            (size_t)bytes_of(c, &first.outputs[i]));
    }
}

static void check_all_addresses(struct arena *arena, int first, int end)
{
    struct draw draw = draw_start("addresses", 63);
    for (int b = first; b < end; b++) {
        struct world world = open_world(&BACKENDS[b]);
        struct import_options options = {.flash = true};
        struct arena_mark mark = arena_mark(arena);
        struct graph *graph = tiny_graph(arena, WIDE, &options);
        for (int k = 0; k < graph->block_count; k++) {
            struct interpreter *whole = kernel_whole(arena, &graph->blocks[k], 1, WIDE_SEQ);
            for (int o = 0; o < whole->block->op_count; o++) {
                struct kernel_case c = case_of(arena, &world, whole, o);
                c.batch = 1;
                c.seq = WIDE_SEQ;
                check_addresses(&c, &draw);
                kernel_case_check(&c);
            }
        }
        arena_reset(arena, mark);
        close_world(world);
    }
}

static void results_do_not_depend_on_addresses(void **state)
{
    check_all_addresses(*state, 0, CPU_BACKENDS);
}

// Nor on the order in which threads come to run: the emulation changes it.
static void results_of_cuda_do_not_depend_on_addresses(void **state)
{
    check_all_addresses(*state, CPU_BACKENDS, CPU_BACKENDS + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_equals_the_interpreter),
        cmocka_unit_test(every_operator_of_cuda_equals_the_interpreter),
        cmocka_unit_test(fused_attention_of_cuda_equals_the_interpreter),
        cmocka_unit_test(empty_slices_leave_sums_over_nothing),
        cmocka_unit_test(every_gradient_is_a_finite_difference),
        cmocka_unit_test(results_do_not_depend_on_addresses),
        cmocka_unit_test(results_of_cuda_do_not_depend_on_addresses),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
