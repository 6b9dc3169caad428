#include "tests/support/test.h"

#include "executor/half.h"
#include "tests/support/draw.h"
#include "tests/support/emulated.h"
#include "tests/support/run_case.h"

#include <math.h>

// Products of the CUDA back end beyond the plain one: with what follows done before the result is
// written, and in 8 bits. The products themselves are the emulation's, which refuses what cuBLASLt
// does; what is around them runs as on a device.

static const char GPT2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 37, \"n_embd\": 16, \"n_layer\": 2, \"n_head\": 4, "
    "\"n_positions\": 16, \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1}";
static const char LLAMA[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 37, \"hidden_size\": 32, \"intermediate_size\": "
    "64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 8, \"tie_word_embeddings\": false}";

static struct run_case case_of(const char *model, enum precision precision)
{
    struct run_case of = run_case_new(model, 8, 4);
    of.backend = "cuda";
    of.precision = precision;
    of.poison = false;
    of.dropout = true;
    of.steps = 2;
    return of;
}

// Sums are rounded once less: a difference of rounding, which is none to speak of in fp32.
static void biases_and_activations_end_their_product(void **state)
{
    static const struct {
        int tp, micro_batch, joined;  // a layer and micro-batch
        enum precision precision;
        double tolerance;
    } CASES[] = {{1, 4, 24, PRECISION_FP32, 1e-5},
                 {2, 4, 22, PRECISION_FP32, 1e-5},
                 {1, 1, 24, PRECISION_FP32, 1e-5},
                 {1, 2, 24, PRECISION_BF16, 3e-2}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct run_case of = case_of(GPT2, CASES[i].precision);
        of.parallel.degree[AXIS_TP] = CASES[i].tp;
        of.parallel.micro_batch = CASES[i].micro_batch;
        const struct run_outcome *found = run_case_done(*state, &of);
        of.operators_apart = true;
        const struct run_outcome *expected = run_case_done(*state, &of);
        assert_int_equal(expected->joined_count, 0);
        // q, k and v are one GEMM with their biases (5 run with the first), backward with the sum
        // of their input gradients (3), and their weight gradients with those of the biases (5). A
        // layer has the bias of up, and where rows are not split those of the two others; GELU
        // behind up, and its derivative. Of the other biases the gradient is summed beside that of
        // the weight. One norm reads a sum of the layer, and behind both norms' backward gradients
        // are added up.
        assert_int_equal(found->joined_count, 2 * 4 / CASES[i].micro_batch * CASES[i].joined);
        for (int s = 0; s < of.steps; s++) {
            assert_true(fabs(found->loss[s] - expected->loss[s]) <
                        CASES[i].tolerance * expected->loss[s]);
            assert_true(fabs(found->norm[s] - expected->norm[s]) <
                        CASES[i].tolerance * expected->norm[s]);
        }
    }
}

// Nothing but norms and sums is joined in a layer without biases: three times. And GEMMs that share
// their input: 2 and 1 forward, 3 and 2 with their sums, 2 and 1 of weights. And the rotations of
// queries and keys, each way; and the last residual with the product before it.
static void norms_are_one_kernel_with_their_sums(void **state)
{
    static const enum precision PRECISIONS[] = {PRECISION_FP32, PRECISION_BF16, PRECISION_FP16};
    for (size_t i = 0; i < sizeof PRECISIONS / sizeof *PRECISIONS; i++) {
        struct run_case of = case_of(LLAMA, PRECISIONS[i]);
        of.parallel.micro_batch = 2;
        const struct run_outcome *found = run_case_done(*state, &of);
        of.operators_apart = true;
        const struct run_outcome *expected = run_case_done(*state, &of);
        double tolerance = PRECISIONS[i] == PRECISION_FP32 ? 1e-5 : 3e-2;
        assert_int_equal(expected->joined_count, 0);
        assert_int_equal(found->joined_count, 2 * 2 * (3 + 11 + 2 + 1));
        for (int s = 0; s < of.steps; s++) {
            assert_true(fabs(found->loss[s] - expected->loss[s]) < tolerance * expected->loss[s]);
            assert_true(fabs(found->norm[s] - expected->norm[s]) < tolerance * expected->norm[s]);
        }
    }
}

// The numbers of 8 bits, by their definition: sign, exponent, mantissa.
static double byte_value(int bits, bool is_wide_range)
{
    int width = is_wide_range ? 2 : 3, bias = is_wide_range ? 15 : 7;
    int exponent = bits >> width & ((1 << (7 - width)) - 1), mantissa = bits & ((1 << width) - 1);
    double part = ldexp(mantissa, -width);
    double size = exponent ? ldexp(1 + part, exponent - bias) : ldexp(part, 1 - bias);
    bool is_none = is_wide_range ? exponent == 31 : (bits & 127) == 127;
    return is_none ? NAN : bits >> 7 ? -size : size;
}

// The nearest of them all, of two the one with an even mantissa.
static double to_byte(double x, bool is_wide_range)
{
    double best = NAN;
    int best_bits = 0;
    for (int bits = 0; bits < 256; bits++) {
        double value = byte_value(bits, is_wide_range), off = fabs(value - x);
        if (isnan(value)) continue;
        bool is_even = off == fabs(best - x) && bits % 2 == 0 && best_bits % 2 == 1;
        if (isnan(best) || off < fabs(best - x) || is_even) best = value, best_bits = bits;
    }
    return best;
}

// rows x columns in 8 bits, times their factor again.
static void quantise(double *values, int count, bool is_wide_range)
{
    double most = 0;
    for (int i = 0; i < count; i++)
        most = fmax(most, fabs(values[i]));
    double factor = most > 0 ? (double)(float)(most / (is_wide_range ? 57344 : 448)) : 1;
    for (int i = 0; i < count; i++)
        values[i] = to_byte(values[i] / factor, is_wide_range) * factor;
}

enum { MOST = 48 * 64 };

// One product out[rows][columns] = sum of a[row][inner] b[inner][column], in whichever orders the
// operands lie.
struct product_shape {
    int rows, columns, inner;
    bool is_a_turned, is_b_turned, adds;
    unsigned gradients;
};

static struct kernel_array array_of(void *data, enum element element, const enum dim dims[2],
                                    const int sizes[2], bool is_turned)
{
    struct kernel_array array = {.data = data, .rank = 2, .element = element};
    for (int i = 0; i < 2; i++) {
        array.dims[i] = dims[is_turned ? 1 - i : i];
        array.sizes[i] = array.whole[i] = sizes[is_turned ? 1 - i : i];
    }
    return array;
}

struct world {
    const struct backend *backend;
    struct device *device;
};

static void *to_device(const struct world *world, const void *host, int64_t bytes)
{
    void *memory;
    assert_null(world->backend->allocate(world->device, bytes, &memory));
    assert_null(
        world->backend->copy(world->device, STREAM_COMPUTE, COPY_FROM_HOST, memory, host, bytes));
    return memory;
}

// As bf16 in the order of the array; `values` become what these hold, row by row.
static void *draw_operand(struct draw *draw, const struct world *world, double *values, int rows,
                          int columns, bool is_turned)
{
    static uint16_t bits[MOST];
    double scale = ldexp(1, draw_int(draw, -12, 8));
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < columns; c++) {
            double x = scale * draw_int(draw, -1000, 1000) / 1000;
            uint16_t rounded = bf16_round((float)x);
            bits[is_turned ? c * rows + r : r * columns + c] = rounded;
            values[r * columns + c] = (double)bf16_widen(rounded);
        }
    }
    return to_device(world, bits, (int64_t)rows * columns * 2);
}

static void check_product(struct draw *draw, const struct world *world,
                          const struct product_shape *of)
{
    static double a[MOST], b[MOST];
    static float found[MOST];
    const struct op op = {.kind = OP_CONTRACT, .scalar = 1};
    static const enum dim A[2] = {DIM_SEQ, DIM_HIDDEN}, B[2] = {DIM_HIDDEN, DIM_FFN};
    static const enum dim C[2] = {DIM_SEQ, DIM_FFN};
    const int a_sizes[2] = {of->rows, of->inner}, b_sizes[2] = {of->inner, of->columns};
    const int c_sizes[2] = {of->rows, of->columns};
    struct kernel_call call = {.op = &op, .input_count = 2, .output_count = 1, .is_linear = true};
    int count = of->rows * of->columns;
    for (int i = 0; i < count; i++)
        found[i] = 1;
    void *a_there = draw_operand(draw, world, a, of->rows, of->inner, of->is_a_turned);
    void *b_there = draw_operand(draw, world, b, of->inner, of->columns, of->is_b_turned);
    void *c_there = to_device(world, found, count * 4);
    call.inputs[0] = array_of(a_there, ELEMENT_COMPUTE, A, a_sizes, of->is_a_turned);
    call.inputs[1] = array_of(b_there, ELEMENT_COMPUTE, B, b_sizes, of->is_b_turned);
    call.outputs[0] = array_of(c_there, ELEMENT_FP32, C, c_sizes, false);
    call.adds = of->adds;
    call.gradients = of->gradients;
    assert_null(world->backend->run(world->device, STREAM_COMPUTE, &call));
    assert_null(world->backend->copy(world->device, STREAM_COMPUTE, COPY_TO_HOST, found, c_there,
                                     count * 4));
    bool is_low_precision = of->inner % 16 == 0 && of->columns % 16 == 0;
    if (is_low_precision) {
        quantise(a, of->rows * of->inner, of->gradients & 1);
        quantise(b, of->inner * of->columns, of->gradients >> 1 & 1);
    }
    for (int i = 0; i < count; i++) {
        double sum = of->adds ? 1 : 0, size = sum;
        for (int k = 0; k < of->inner; k++) {
            double term = a[i / of->columns * of->inner + k] * b[k * of->columns + i % of->columns];
            sum += term, size += fabs(term);
        }
        if (fabs((double)found[i] - sum) <= 1e-5 * size) continue;
        fail_msg("%d x %d x %d, element %d: %g, expected %g", of->rows, of->columns, of->inner, i,
                 (double)found[i], sum);
    }
    world->backend->release(world->device, a_there);
    world->backend->release(world->device, b_there);
    world->backend->release(world->device, c_there);
}

static void products_of_8_bits_are_those_of_the_numbers_they_are_cast_to(void **state)
{
    (void)state;
    struct draw draw = draw_start("products of 8 bits", 31);
    struct world world = {.backend = emulated_backend(PRECISION_FP8)};
    assert_non_null(world.backend);
    assert_true(world.backend->is_low_precision);
    assert_null(world.backend->open(0, &world.device));
    for (int trial = 0; trial < 40; trial++) {
        struct product_shape of = {.rows = draw_int(&draw, 2, 48),
                                   .columns = 16 * draw_int(&draw, 1, 3),
                                   .inner = 16 * draw_int(&draw, 1, 4),
                                   .is_a_turned = draw_int(&draw, 0, 1),
                                   .is_b_turned = draw_int(&draw, 0, 1),
                                   .adds = draw_int(&draw, 0, 1),
                                   .gradients = (unsigned)draw_int(&draw, 0, 2)};
        // Sizes that cuBLASLt has no such product for stay in 16 bits.
        if (trial % 8 == 0) of.inner -= draw_int(&draw, 1, 15);
        check_product(&draw, &world, &of);
    }
    world.backend->close(world.device);
}

static void runs_in_8_bits_learn_as_in_16(void **state)
{
    struct run_case of = case_of(LLAMA, PRECISION_BF16);
    of.steps = 3;
    const struct run_outcome *expected = run_case_done(*state, &of);
    of.precision = PRECISION_FP8;
    const struct run_outcome *found = run_case_done(*state, &of);
    bool differs = false;
    for (int s = 0; s < of.steps; s++) {
        assert_true(fabs(found->loss[s] - expected->loss[s]) < 0.02 * expected->loss[s]);
        assert_true(fabs(found->norm[s] - expected->norm[s]) < 0.2 * expected->norm[s]);
        differs = differs || found->loss[s] != expected->loss[s];
    }
    assert_true(differs);
    // What is cast once is in the plan's memory, where each cast has a head; and the weights of two
    // layers, as they lie and turned.
    int64_t weights = 2 * (32 * (4 + 2 + 2) * 8 + 4 * 8 * 32 + 3 * 32 * 64);
    assert_true(found->peak_bytes <= expected->peak_bytes + 16 * CAST_HEAD_BYTES + 2 * weights);
    assert_true(found->peak_bytes > expected->peak_bytes + weights);
    assert_int_equal(found->peak_bytes, run_outcome_planned_bytes(found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_8_bits_are_those_of_the_numbers_they_are_cast_to),
        cmocka_unit_test(runs_in_8_bits_learn_as_in_16),
        cmocka_unit_test(biases_and_activations_end_their_product),
        cmocka_unit_test(norms_are_one_kernel_with_their_sums),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
