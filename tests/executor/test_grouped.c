#include "tests/support/test.h"

#include "executor/array.h"
#include "executor/half.h"
#include "tests/support/draw.h"
#include "tests/support/emulated.h"
#include "tests/support/run_case.h"

#include <math.h>

// Products of all experts of a rank at once (executor/cuda/grouped.c) against those of each expert
// by itself, in the CUDA back end with its kernels on the host: equal to the bit there, whatever
// rows the experts have. How often groups have run says that they did. On a GPU the two are
// different kernels, equal but for rounding.

enum { EXPERT_MOST = 200, ROW_MOST = 5, WIDTH_MOST = 24, CANARY = 8 };
enum { ELEMENT_MOST = EXPERT_MOST * WIDTH_MOST * WIDTH_MOST };

enum form { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, FORM_COUNT };

struct world {
    const struct backend *backend;
    struct device *device;
};

// What is the same of all arrays of a case.
struct grouped_shape {
    enum form form;
    int experts, hidden, ffn;
    bool adds;
    int64_t rows_of[EXPERT_MOST + 1];
};

static struct kernel_array rows_of_experts(const struct grouped_shape *of, enum dim dim, int width)
{
    struct kernel_array array = {
        .rank = 4, .element = ELEMENT_COMPUTE, .dims = {DIM_BATCH, DIM_SEQ, DIM_EXPERT, dim}};
    const int64_t sizes[4] = {1, EXPERT_MOST * ROW_MOST, of->experts, width};
    memcpy(array.sizes, sizes, sizeof sizes);
    memcpy(array.whole, sizes, sizeof sizes);
    return array;
}

static struct kernel_array parameters(const struct grouped_shape *of, enum element element)
{
    struct kernel_array array = {
        .rank = 3, .element = element, .dims = {DIM_EXPERT, DIM_HIDDEN, DIM_FFN}};
    const int64_t sizes[3] = {of->experts, of->hidden, of->ffn};
    memcpy(array.sizes, sizes, sizeof sizes);
    memcpy(array.whole, sizes, sizeof sizes);
    return array;
}

static int64_t elements_of(const struct grouped_shape *of, const struct kernel_array *array)
{
    if (!array_is_ragged(array)) return array_elements(array);
    return of->rows_of[of->experts] * array_last(array);
}

static int bytes_of(const struct world *world, const struct kernel_array *array)
{
    return array->element == ELEMENT_FP32 ? 4 : world->backend->compute_bytes;
}

// On the device, with a few more behind that must stay as they are. `data` is the host's.
static void *to_device(const struct world *world, const struct grouped_shape *of,
                       const struct kernel_array *array, const void *data)
{
    void *memory;
    int64_t bytes = (elements_of(of, array) + CANARY) * bytes_of(world, array);
    assert_null(world->backend->allocate(world->device, bytes, &memory));
    assert_null(
        world->backend->copy(world->device, STREAM_COMPUTE, COPY_FROM_HOST, memory, data, bytes));
    return memory;
}

static void *draw_numbers(struct draw *draw, const struct world *world,
                          const struct kernel_array *array, void *numbers)
{
    for (int i = 0; i < ELEMENT_MOST + CANARY; i++) {
        float x = (float)draw_int(draw, -1000, 1000) / 1000;
        if (bytes_of(world, array) == 4) {
            ((float *)numbers)[i] = x;
        } else {
            ((uint16_t *)numbers)[i] = bf16_round(x);
        }
    }
    return numbers;
}

// One expert's call, cut by hand.
static void cut(const struct world *world, const struct grouped_shape *of, int expert,
                struct kernel_array *array)
{
    int64_t first = array_is_ragged(array) ? of->rows_of[expert] * array_last(array)
                                           : expert * array_stride(array, 0);
    array->data = (char *)array->data + first * bytes_of(world, array);
    array->sizes[array_find(array, DIM_EXPERT)] = 1;
    if (array_is_ragged(array)) array->sizes[1] = of->rows_of[expert + 1] - of->rows_of[expert];
}

static void run_each(const struct world *world, const struct grouped_shape *of,
                     const struct kernel_call *call)
{
    for (int e = 0; e < of->experts; e++) {
        struct kernel_call one = *call;
        one.routing = NULL;
        cut(world, of, e, &one.inputs[0]);
        cut(world, of, e, &one.inputs[1]);
        cut(world, of, e, &one.outputs[0]);
        assert_null(world->backend->run(world->device, STREAM_COMPUTE, &one));
    }
}

static struct kernel_call call_of(const struct grouped_shape *of, const struct op *op,
                                  enum element result)
{
    struct kernel_array hidden = rows_of_experts(of, DIM_HIDDEN, of->hidden);
    struct kernel_array ffn = rows_of_experts(of, DIM_FFN, of->ffn);
    struct kernel_call call = {.op = op, .input_count = 2, .output_count = 1, .is_linear = true};
    call.adds = of->adds;
    switch (of->form) {
    case FORWARD:
        call.inputs[0] = hidden, call.inputs[1] = parameters(of, ELEMENT_COMPUTE);
        call.outputs[0] = ffn;
        break;
    case INPUT_GRADIENT:
        call.inputs[0] = ffn, call.inputs[1] = parameters(of, ELEMENT_COMPUTE);
        call.outputs[0] = hidden;
        break;
    default:
        call.inputs[0] = hidden, call.inputs[1] = ffn;
        call.outputs[0] = parameters(of, result);
    }
    return call;
}

static void compare(const struct world *world, const struct kernel_array *array, const void *found,
                    const void *expected, int64_t bytes)
{
    if (emulated_groups() >= 0) {
        assert_memory_equal(found, expected, (size_t)bytes);
        return;
    }
    bool is_wide = bytes_of(world, array) == 4;
    for (int64_t i = 0; i < bytes / bytes_of(world, array); i++) {
        float a = is_wide ? ((const float *)found)[i] : bf16_widen(((const uint16_t *)found)[i]);
        float b =
            is_wide ? ((const float *)expected)[i] : bf16_widen(((const uint16_t *)expected)[i]);
        if (fabsf(a - b) > (is_wide ? 1e-5F : 1e-2F) * (1 + fabsf(b)))
            fail_msg("element %d: %g, expected %g", (int)i, (double)a, (double)b);
    }
}

// How many groups it took; on a GPU nobody counts.
static int64_t check(struct draw *draw, const struct world *world, const struct grouped_shape *of,
                     enum element result)
{
    static float numbers[ELEMENT_MOST + CANARY];
    static char found[sizeof numbers], expected[sizeof numbers];
    const struct op op = {.kind = OP_CONTRACT, .scalar = 1};
    struct grouped_shape shape = *of;
    struct kernel_routing routing = {.expert_count = of->experts, .rows_of = shape.rows_of};
    struct kernel_call call = call_of(of, &op, result), other;
    struct kernel_array *out = &call.outputs[0];
    for (int i = 0; i < 2; i++) {
        draw_numbers(draw, world, &call.inputs[i], numbers);
        call.inputs[i].data = to_device(world, of, &call.inputs[i], numbers);
    }
    draw_numbers(draw, world, out, numbers);
    out->data = to_device(world, of, out, numbers);
    other = call;
    other.outputs[0].data = to_device(world, of, out, numbers);
    call.routing = &routing;
    int64_t before = emulated_groups();
    assert_null(world->backend->run(world->device, STREAM_COMPUTE, &call));
    int64_t groups = emulated_groups() - before;
    run_each(world, of, &other);
    int64_t bytes = (elements_of(of, out) + CANARY) * bytes_of(world, out);
    assert_null(
        world->backend->copy(world->device, STREAM_COMPUTE, COPY_TO_HOST, found, out->data, bytes));
    assert_null(world->backend->copy(world->device, STREAM_COMPUTE, COPY_TO_HOST, expected,
                                     other.outputs[0].data, bytes));
    compare(world, out, found, expected, bytes);
    void *arrays[4] = {call.inputs[0].data, call.inputs[1].data, out->data, other.outputs[0].data};
    for (int i = 0; i < 4; i++)
        world->backend->release(world->device, arrays[i]);
    return groups;
}

// Some experts without rows, or all of them.
static void draw_rows(struct draw *draw, struct grouped_shape *of)
{
    int kind = draw_int(draw, 0, 5);
    for (int e = 0; e < of->experts; e++) {
        bool is_empty = kind == 0 || (kind > 2 && draw_int(draw, 0, 2) == 0);
        of->rows_of[e + 1] = of->rows_of[e] + (is_empty ? 0 : draw_int(draw, 1, ROW_MOST));
    }
}

static int busy_experts(const struct grouped_shape *of)
{
    int count = 0;
    for (int e = 0; e < of->experts; e++)
        count += of->rows_of[e + 1] > of->rows_of[e];
    return count;
}

static void expect_groups(int64_t found, int64_t expected)
{
    if (emulated_groups() >= 0) assert_int_equal(found, expected);
}

static struct world open_world(enum precision precision)
{
    struct world world = {.backend = emulated_backend(precision)};
    assert_non_null(world.backend);
    assert_null(world.backend->open(0, &world.device));
    return world;
}

static struct grouped_shape draw_shape(struct draw *draw, int grain)
{
    struct grouped_shape of = {.form = (enum form)draw_int(draw, 0, FORM_COUNT - 1),
                               .experts = draw_int(draw, 2, 9),
                               .hidden = grain * draw_int(draw, 1, WIDTH_MOST / grain),
                               .ffn = grain * draw_int(draw, 1, WIDTH_MOST / grain),
                               .adds = draw_int(draw, 0, 1)};
    draw_rows(draw, &of);
    return of;
}

static void a_group_is_its_products_one_by_one(void **state)
{
    (void)state;
    static const enum precision PRECISIONS[] = {PRECISION_FP32, PRECISION_BF16};
    struct draw draw = draw_start("groups", 5);
    for (int p = 0; p < 2; p++) {
        struct world world = open_world(PRECISIONS[p]);
        for (int trial = 0; trial < 60; trial++) {
            struct grouped_shape of = draw_shape(&draw, p == 0 ? 1 : 8);
            int64_t groups = check(&draw, &world, &of, ELEMENT_COMPUTE);
            expect_groups(groups, busy_experts(&of) > 1);
        }
        world.backend->close(world.device);
    }
}

// More addresses than go with one launch.
static void many_experts_are_one_group(void **state)
{
    (void)state;
    struct draw draw = draw_start("many experts", 6);
    struct world world = open_world(PRECISION_BF16);
    for (int trial = 0; trial < 3; trial++) {
        struct grouped_shape of = {
            .form = (enum form)trial, .experts = EXPERT_MOST, .hidden = 8, .ffn = 8};
        draw_rows(&draw, &of);
        of.rows_of[of.experts] += 1;
        expect_groups(check(&draw, &world, &of, ELEMENT_COMPUTE), busy_experts(&of) > 1);
    }
    world.backend->close(world.device);
}

// cuBLAS has no groups with 16 bits in and fp32 out, nor of addresses that are no multiples of 16.
static void what_the_library_refuses_runs_one_by_one(void **state)
{
    (void)state;
    struct draw draw = draw_start("refused groups", 7);
    struct world world = open_world(PRECISION_BF16);
    for (int trial = 0; trial < 20; trial++) {
        struct grouped_shape of = draw_shape(&draw, 8);
        of.form = WEIGHT_GRADIENT;
        expect_groups(check(&draw, &world, &of, ELEMENT_FP32), 0);
        // Nor does a refusal hold for others.
        of.form = FORWARD;
        expect_groups(check(&draw, &world, &of, ELEMENT_COMPUTE), busy_experts(&of) > 1);
        of = draw_shape(&draw, 8);
        of.hidden = 7, of.ffn = 9;
        for (int e = 0; e <= of.experts; e++)
            of.rows_of[e] = e;  // 14 and 18 bytes each
        expect_groups(check(&draw, &world, &of, ELEMENT_COMPUTE), 0);
    }
    world.backend->close(world.device);
}

// Three products of experts in each of two layers, forward and for both gradients, of as many
// micro-batches and steps. Those into fp32 are refused where the others are of 16 bits.
static void runs_with_experts_run_their_groups(void **state)
{
    static const char MIXTRAL[] =
        "{\"model_type\": \"mixtral\", \"vocab_size\": 40, \"hidden_size\": 8, "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
        "\"head_dim\": 4, \"intermediate_size\": 8, \"num_local_experts\": 8, "
        "\"num_experts_per_tok\": 2}";
    static const struct {
        enum precision precision;
        int groups;  // a layer, micro-batch and step
        double tolerance;
    } CASES[] = {{PRECISION_FP32, 9, 1e-5}, {PRECISION_BF16, 6, 2e-2}};
    struct err err = {0};
    // A device is of the process that opened it, and ranks would be its children.
    if (emulated_groups() < 0) return;
    struct run_case of = run_case_new(MIXTRAL, 8, 4);
    of.parallel.micro_batch = 2;
    const struct run_outcome *expected = run_case_run(*state, &of, &err);
    assert_string_equal(err.text, "");
    for (int i = 0; i < 2; i++) {
        of.backend = "cuda";
        of.precision = CASES[i].precision;
        int64_t before = emulated_groups();
        const struct run_outcome *found = run_case_run(*state, &of, &err);
        assert_string_equal(err.text, "");
        assert_true(found->done);
        assert_int_equal(emulated_groups() - before, of.steps * 2 * 2 * CASES[i].groups);
        for (int s = 0; s < of.steps; s++) {
            assert_true(fabs(found->loss[s] - expected->loss[s]) <
                        CASES[i].tolerance * expected->loss[s]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_is_its_products_one_by_one),
        cmocka_unit_test(many_experts_are_one_group),
        cmocka_unit_test(what_the_library_refuses_runs_one_by_one),
        cmocka_unit_test(runs_with_experts_run_their_groups),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
