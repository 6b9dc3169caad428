#include "executor/half.h"
#include "tests/support/kernel_case.h"
#include "tests/support/test.h"

#include "executor/backend.h"

// The CPU's 16-bit storage against the same in floats: widened before, rounded once behind.

enum { COUNT = 333, ROOM = 6 * 6 * 6 * 6, TRIALS = 60 };
static const enum precision PRECISIONS[] = {PRECISION_BF16, PRECISION_FP16};

struct world {
    const struct backend *backend;
    struct device *device;
    enum precision precision;
};

static struct world open_world(const char *name, enum precision precision)
{
    struct err err = {0};
    struct world world = {.backend = backend_open(name, &err), .precision = precision};
    assert_string_equal(err.text, "");
    world.backend = backend_at(world.backend, precision);
    assert_null(world.backend->open(0, &world.device));
    return world;
}

static uint16_t rounded(const struct world *world, float value)
{
    return world->precision == PRECISION_FP16 ? fp16_round(value) : bf16_round(value);
}

static float widened(const struct world *world, uint16_t bits)
{
    return world->precision == PRECISION_FP16 ? fp16_widen(bits) : bf16_widen(bits);
}

// Numbers in 16 bits, and the same as floats.
static void draw_numbers(struct draw *draw, const struct world *world, uint16_t *bits,
                         float *numbers, int count)
{
    for (int i = 0; i < count; i++) {
        bits[i] = rounded(world, (float)draw_int(draw, -100000, 100000) / 777);
        numbers[i] = widened(world, bits[i]);
    }
}

static void assert_rounded(const struct world *world, const uint16_t *found, const float *expected,
                           int count)
{
    for (int i = 0; i < count; i++) {
        if (found[i] == rounded(world, expected[i])) continue;
        fail_msg("number %d is %g, expected %g", i, (double)widened(world, found[i]),
                 (double)expected[i]);
    }
}

static void boxes_are_combined_in_floats_and_rounded(void **state)
{
    (void)state;
    static uint16_t from[ROOM], to[ROOM];
    static float wide_from[ROOM], wide_to[ROOM];
    struct draw draw = draw_start("boxes in 16 bits", 3);
    struct world wide = open_world("cpu", PRECISION_FP32);
    for (int trial = 0; trial < TRIALS; trial++) {
        struct world half = open_world("cpu-half", PRECISIONS[trial % 2]);
        struct box_copy copy = draw_box(&draw, ELEMENT_COMPUTE), there = copy;
        draw_numbers(&draw, &half, from, wide_from, ROOM);
        draw_numbers(&draw, &half, to, wide_to, ROOM);
        copy.from = from, copy.to = to;
        there.from = wide_from, there.to = wide_to;
        assert_null(half.backend->box(half.device, STREAM_DP, &copy));
        assert_null(wide.backend->box(wide.device, STREAM_DP, &there));
        assert_rounded(&half, to, wide_to, ROOM);
        half.backend->close(half.device);
    }
    wide.backend->close(wide.device);
}

static struct kernel_array array_of(void *data, enum element element)
{
    return (struct kernel_array){.data = data,
                                 .rank = 1,
                                 .element = element,
                                 .dims = {DIM_HIDDEN},
                                 .sizes = {COUNT},
                                 .whole = {COUNT}};
}

// One term in 16 bits, one real; to a result of either, which is added to what is there or not.
static void an_operator_rounds_its_result_once(void **state)
{
    (void)state;
    uint16_t a[COUNT], sum[COUNT];
    float wide_a[COUNT], b[COUNT], expected[COUNT], real_sum[COUNT];
    struct draw draw = draw_start("operators in 16 bits", 4);
    struct op op = {.name = "sum", .kind = OP_ADD};
    for (int trial = 0; trial < 8; trial++) {
        struct world half = open_world("cpu-half", PRECISIONS[trial % 2]);
        bool is_real = trial & 2, adds = trial & 4;
        draw_numbers(&draw, &half, a, wide_a, COUNT);
        draw_numbers(&draw, &half, sum, expected, COUNT);
        for (int i = 0; i < COUNT; i++) {
            b[i] = (float)draw_int(&draw, -100000, 100000) / 333;
            real_sum[i] = expected[i];
            expected[i] = (adds ? expected[i] + wide_a[i] : wide_a[i]) + b[i];
        }
        struct kernel_call call = {.op = &op, .input_count = 2, .output_count = 1, .adds = adds};
        call.inputs[0] = array_of(a, ELEMENT_COMPUTE);
        call.inputs[1] = array_of(b, ELEMENT_FP32);
        call.outputs[0] =
            is_real ? array_of(real_sum, ELEMENT_FP32) : array_of(sum, ELEMENT_COMPUTE);
        assert_null(half.backend->can_run(&call));
        assert_null(half.backend->run(half.device, STREAM_COMPUTE, &call));
        for (int i = 0; i < COUNT; i++) {
            float found = is_real ? real_sum[i] : widened(&half, sum[i]);
            float step =
                is_real ? 0 : expected[i] / (half.precision == PRECISION_FP16 ? 1024 : 128);
            float slack = (expected[i] < 0 ? -expected[i] : expected[i]) * 1e-6f + 1e-4f;
            float most = (step < 0 ? -step : step) / 2 + slack, off = found - expected[i];
            if ((off < 0 ? -off : off) > most)
                fail_msg("element %d: %g of %g", i, (double)found, (double)expected[i]);
        }
        half.backend->close(half.device);
    }
}

enum { WIDTH = 2 };

// Rows of (batch, seq) or, with `columns`, a matrix.
static struct kernel_array rows_of(uint16_t *data, int columns)
{
    return (struct kernel_array){.data = data,
                                 .rank = 3,
                                 .element = ELEMENT_COMPUTE,
                                 .dims = {DIM_BATCH, DIM_SEQ, DIM_HIDDEN},
                                 .sizes = {1, 3, columns},
                                 .whole = {1, 3, columns}};
}

static void fill_with(const struct world *world, uint16_t *bits, float value)
{
    for (int i = 0; i < 3 * WIDTH; i++)
        bits[i] = rounded(world, value);
}

// (1 + 3/512) - 1: the sum in the middle has more digits than bf16 and less than a float. Where the
// two run as one it is written nowhere.
static void sums_that_run_as_one_are_rounded_once(void **state)
{
    (void)state;
    struct world half = open_world("cpu-half", PRECISION_BF16);
    struct op op = {.name = "sum", .kind = OP_ADD};
    uint16_t terms[4][3 * WIDTH], out[3 * WIDTH];
    const float values[] = {1, 3.f / 512, 99, -1};
    for (int i = 0; i < 4; i++)
        fill_with(&half, terms[i], values[i]);
    struct kernel_call calls[2];
    for (int i = 0; i < 2; i++) {
        calls[i] = (struct kernel_call){.op = &op, .input_count = 2, .output_count = 1};
        calls[i].inputs[0] = rows_of(terms[2 * i], WIDTH);
        calls[i].inputs[1] = rows_of(terms[2 * i + 1], WIDTH);
        calls[i].outputs[0] = rows_of(i ? out : terms[2], WIDTH);
    }
    calls[0].passing = 1;
    assert_null(half.backend->run_joined(half.device, STREAM_COMPUTE, calls, 2));
    for (int i = 0; i < 3 * WIDTH; i++) {
        assert_true(widened(&half, out[i]) == 3.f / 512);
        assert_true(widened(&half, terms[2][i]) == 99);
    }
    for (int i = 0; i < 2; i++)
        assert_null(half.backend->run(half.device, STREAM_COMPUTE, &calls[i]));
    assert_true(widened(&half, out[0]) == 4.f / 512);
    half.backend->close(half.device);
}

// (1 + 3/128) squared - 1, of a product of one factor.
static void a_gemm_and_its_sum_are_rounded_once(void **state)
{
    (void)state;
    struct world half = open_world("cpu-half", PRECISION_BF16);
    struct op gemm = {.name = "gemm", .kind = OP_CONTRACT, .scalar = 1},
              sum = {.name = "sum", .kind = OP_ADD};
    uint16_t x[3 * WIDTH], weight[WIDTH], product[3 * WIDTH], term[3 * WIDTH], out[3 * WIDTH];
    fill_with(&half, x, 1 + 3.f / 128);
    fill_with(&half, product, 99);
    fill_with(&half, term, -1);
    for (int i = 0; i < WIDTH; i++)
        weight[i] = rounded(&half, 1 + 3.f / 128);
    struct kernel_call calls[2] = {{.op = &gemm, .input_count = 2, .output_count = 1, .passing = 1},
                                   {.op = &sum, .input_count = 2, .output_count = 1}};
    calls[0].inputs[0] = rows_of(x, 1);
    calls[0].inputs[0].dims[2] = DIM_FFN;
    calls[0].inputs[1] = (struct kernel_array){.data = weight,
                                               .rank = 2,
                                               .element = ELEMENT_COMPUTE,
                                               .dims = {DIM_FFN, DIM_HIDDEN},
                                               .sizes = {1, WIDTH},
                                               .whole = {1, WIDTH}};
    calls[0].outputs[0] = calls[1].inputs[0] = rows_of(product, WIDTH);
    calls[1].inputs[1] = rows_of(term, WIDTH);
    calls[1].outputs[0] = rows_of(out, WIDTH);
    assert_null(half.backend->run_joined(half.device, STREAM_COMPUTE, calls, 2));
    float exact = (1 + 3.f / 128) * (1 + 3.f / 128) - 1;
    for (int i = 0; i < 3 * WIDTH; i++) {
        assert_int_equal(out[i], rounded(&half, exact));
        assert_true(widened(&half, product[i]) == 99);
    }
    for (int i = 0; i < 2; i++)
        assert_null(half.backend->run(half.device, STREAM_COMPUTE, &calls[i]));
    assert_int_not_equal(out[0], rounded(&half, exact));
    half.backend->close(half.device);
}

static void numbers_are_rounded_and_widened(void **state)
{
    (void)state;
    struct draw draw = draw_start("rounding in 16 bits", 5);
    for (int p = 0; p < 2; p++) {
        struct world half = open_world("cpu-half", PRECISIONS[p]);
        float reals[COUNT], back[COUNT];
        uint16_t bits[COUNT];
        for (int i = 0; i < COUNT; i++)
            reals[i] = (float)draw_int(&draw, -1000000, 1000000) / 3e7f;
        assert_null(half.backend->round(half.device, STREAM_COMPUTE, bits, reals, COUNT));
        assert_rounded(&half, bits, reals, COUNT);
        assert_null(half.backend->widen(half.device, STREAM_COMPUTE, back, bits, COUNT));
        for (int i = 0; i < COUNT; i++)
            assert_true(back[i] == widened(&half, bits[i]));
        half.backend->close(half.device);
    }
}

static void a_plan_gets_the_table_of_its_precision(void **state)
{
    (void)state;
    struct err err = {0};
    const struct backend *half = backend_open("cpu-half", &err), *wide = backend_open("cpu", &err);
    assert_string_equal(err.text, "");
    assert_ptr_equal(backend_at(wide, PRECISION_BF16), wide);
    assert_int_equal(backend_at(half, PRECISION_FP16)->compute, PRECISION_FP16);
    assert_int_equal(backend_at(half, PRECISION_BF16)->compute_bytes, 2);
    assert_int_equal(backend_at(half, PRECISION_FP32)->compute_bytes, 4);
    // What runs no GEMMs in fp8: such plans are refused.
    assert_int_equal(backend_at(half, PRECISION_FP8)->compute, PRECISION_BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_are_combined_in_floats_and_rounded),
        cmocka_unit_test(an_operator_rounds_its_result_once),
        cmocka_unit_test(sums_that_run_as_one_are_rounded_once),
        cmocka_unit_test(a_gemm_and_its_sum_are_rounded_once),
        cmocka_unit_test(numbers_are_rounded_and_widened),
        cmocka_unit_test(a_plan_gets_the_table_of_its_precision),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
