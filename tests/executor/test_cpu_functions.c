#include "executor/backend.h"
#include "executor/random.h"
#include "tests/support/test.h"

#include <math.h>

// Every element-wise function of the CPU's against formulas of the C library that are written in
// another way, its slope against differences of these; as a gate of as many numbers, and as one
// that is repeated over the last dim.

enum { POINTS = 8, WIDTH = 3 };
static const double AT[POINTS] = {-9, -3, -1.5, -0.25, 0.375, 1.25, 2, 11};
static const double SCALAR = 1.75;

static double value_of(enum function function, double x)
{
    switch (function) {
    case FUNCTION_GELU:
        return x * erfc(-x / sqrt(2)) / 2;
    case FUNCTION_GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3))));
    case FUNCTION_SILU:
        return x / (1 + exp(-x));
    case FUNCTION_RELU:
        return fmax(x, 0);
    case FUNCTION_RELU_SQUARED:
        return x * fmax(x, 0);
    case FUNCTION_SCALE:
        return x * SCALAR;
    case FUNCTION_SOFTCAP:
        return SCALAR * (1 - 2 / (1 + exp(2 * x / SCALAR)));
    case FUNCTION_SIGMOID:
        return (1 + tanh(x / 2)) / 2;
    case FUNCTION_SIGMOID_ABOVE:
        return (1 + tanh(x / 2)) / 2 + SCALAR;
    case FUNCTION_SOFTPLUS:
        return fmax(log(1 + exp(x)), SCALAR);
    case FUNCTION_QUICK_GELU:
        return x / (1 + exp(-1.702 * x));
    case FUNCTION_EXP:
        return exp(x);
    case FUNCTION_RELU_ABOVE:
        return fmax(x - SCALAR, 0);
    case FUNCTION_EXP_BELOW:
        return x < 0 ? exp(x) - 1 - x : 0;
    default:
        fail();
        return 0;
    }
}

static const enum function FUNCTIONS[] = {
    FUNCTION_GELU,       FUNCTION_GELU_TANH,     FUNCTION_SILU,     FUNCTION_RELU,
    FUNCTION_SCALE,      FUNCTION_RELU_SQUARED,  FUNCTION_SOFTCAP,  FUNCTION_SIGMOID,
    FUNCTION_EXP,        FUNCTION_SIGMOID_ABOVE, FUNCTION_SOFTPLUS, FUNCTION_QUICK_GELU,
    FUNCTION_RELU_ABOVE, FUNCTION_EXP_BELOW};

static double slope_of(enum function function, double x)
{
    double h = 1e-5;
    return (8 * (value_of(function, x + h) - value_of(function, x - h)) -
            (value_of(function, x + 2 * h) - value_of(function, x - 2 * h))) /
           (12 * h);
}

static bool is_near(double is, double wanted, double tolerance)
{
    return fabs(is - wanted) <= tolerance * (1 + fabs(wanted));
}

static const struct backend *backend;
static struct device *device;

static int open_device(void **state)
{
    struct err err = {0};
    (void)state;
    backend = backend_open("cpu-fp64", &err);
    return backend && !backend->open(0, &device) ? 0 : -1;
}

static int close_device(void **state)
{
    (void)state;
    backend->close(device);
    return 0;
}

static void run(const struct kernel_call *call)
{
    assert_null(backend->can_run(call));
    assert_null(backend->run(device, STREAM_COMPUTE, call));
}

// So many rows, of `columns` (0: one number each).
static struct kernel_array array_of(const double *data, int rows, int columns)
{
    struct kernel_array array = {.data = (void *)(uintptr_t)data,
                                 .rank = columns ? 2 : 1,
                                 .dims = {DIM_SEQ, DIM_HIDDEN},
                                 .sizes = {rows, columns},
                                 .whole = {rows, columns}};
    return array;
}

static void functions_and_their_slopes_are_those_of_the_c_library(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof FUNCTIONS / sizeof *FUNCTIONS; f++) {
        double y[POINTS], d[POINTS], d_x[POINTS];
        struct op op = {
            .kind = OP_ELEMENTWISE, .name = "function", .function = FUNCTIONS[f], .scalar = SCALAR};
        struct kernel_call call = {.op = &op, .input_count = 1, .output_count = 1};
        call.inputs[0] = array_of(AT, POINTS, 0);
        call.outputs[0] = array_of(y, POINTS, 0);
        run(&call);
        for (int i = 0; i < POINTS; i++)
            d[i] = 0.5 + i;
        op.phase = PHASE_BACKWARD;
        call.input_count = 2;
        call.inputs[0] = array_of(d, POINTS, 0);
        call.inputs[1] = array_of(AT, POINTS, 0);
        call.outputs[0] = array_of(d_x, POINTS, 0);
        run(&call);
        for (int i = 0; i < POINTS; i++) {
            assert_true(is_near(y[i], value_of(FUNCTIONS[f], AT[i]), 1e-14));
            assert_true(is_near(d_x[i], d[i] * slope_of(FUNCTIONS[f], AT[i]), 1e-8));
        }
    }
}

static void gates_multiply_as_many_or_whole_rows(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof FUNCTIONS / sizeof *FUNCTIONS; f++) {
        for (int width = 1; width <= WIDTH; width += WIDTH - 1) {
            double up[POINTS * WIDTH], y[POINTS * WIDTH], d[POINTS * WIDTH], d_up[POINTS * WIDTH];
            double d_gate[POINTS];
            int columns = width > 1 ? width : 0;
            for (int i = 0; i < POINTS * width; i++) {
                up[i] = 1 - 0.25 * i;
                d[i] = 2 + 0.5 * i * (i % 2 ? 1 : -1);
            }
            struct op op = {
                .kind = OP_ELEMENTWISE, .name = "gate", .function = FUNCTIONS[f], .scalar = SCALAR};
            struct kernel_call call = {.op = &op, .input_count = 2, .output_count = 1};
            call.inputs[0] = array_of(AT, POINTS, 0);
            call.inputs[1] = array_of(up, POINTS, columns);
            call.outputs[0] = array_of(y, POINTS, columns);
            run(&call);
            op.phase = PHASE_BACKWARD;
            call.input_count = 3;
            call.output_count = 2;
            call.inputs[0] = array_of(d, POINTS, columns);
            call.inputs[1] = array_of(AT, POINTS, 0);
            call.inputs[2] = array_of(up, POINTS, columns);
            call.outputs[0] = array_of(d_gate, POINTS, 0);
            call.outputs[1] = array_of(d_up, POINTS, columns);
            run(&call);
            for (int i = 0; i < POINTS; i++) {
                double gate = value_of(FUNCTIONS[f], AT[i]), sum = 0;
                for (int k = i * width; k < (i + 1) * width; k++) {
                    assert_true(is_near(y[k], gate * up[k], 1e-14));
                    assert_true(is_near(d_up[k], gate * d[k], 1e-14));
                    sum += d[k] * up[k];
                }
                assert_true(is_near(d_gate[i], sum * slope_of(FUNCTIONS[f], AT[i]), 1e-8));
            }
        }
    }
}

// A softmax takes out the largest of its own row, not of the next one, whose numbers are far
// larger; and of the last row nothing behind it.
static void rows_of_a_softmax_have_their_own_largest(void **state)
{
    (void)state;
    double x[6] = {0, 0, 1000, 1000, 3000, 3000}, y[4];
    struct op op = {.name = "matrix", .kind = OP_SINKHORN, .rounds = 1};
    struct kernel_call call = {.op = &op, .input_count = 1, .output_count = 1};
    call.inputs[0] = (struct kernel_array){.data = x,
                                           .rank = 4,
                                           .dims = {DIM_BATCH, DIM_SEQ, DIM_STREAM, DIM_TO_STREAM},
                                           .sizes = {1, 1, 2, 2},
                                           .whole = {1, 1, 2, 2}};
    call.outputs[0] = call.inputs[0];
    call.outputs[0].data = y;
    run(&call);
    for (int i = 0; i < 4; i++)
        assert_true(y[i] == 0.5);
}

// Elements far into the whole, where counters have more than 32 bits, and rows of nine, which begin
// anywhere in the four words of a counter: each is kept as its index says.
static void elements_are_dropped_by_their_index_however_large(void **state)
{
    (void)state;
    enum { COLUMNS = 9, ROWS = 5 };
    static const int64_t FIRST[] = {0, 1, (int64_t)1 << 31, (int64_t)1 << 33,
                                    ((int64_t)1 << 35) + 1};
    for (size_t f = 0; f < sizeof FIRST / sizeof *FIRST; f++) {
        double x[ROWS * COLUMNS], y[ROWS * COLUMNS];
        unsigned char mask[ROWS * COLUMNS];
        struct op op = {.kind = OP_DROPOUT, .name = "dropout", .dropout_ratio = 0.25};
        struct kernel_call call = {.op = &op, .input_count = 1, .output_count = 2, .key = 12345};
        call.inputs[0] = (struct kernel_array){.data = x,
                                               .rank = 2,
                                               .dims = {DIM_BATCH, DIM_HIDDEN},
                                               .sizes = {ROWS, COLUMNS},
                                               .first = {FIRST[f], 0},
                                               .whole = {ROWS, COLUMNS}};
        call.outputs[0] = call.outputs[1] = call.inputs[0];
        call.outputs[0].data = y;
        call.outputs[1].data = mask;
        call.outputs[1].element = ELEMENT_BYTE;
        for (int i = 0; i < ROWS * COLUMNS; i++)
            x[i] = 3 + i;
        run(&call);
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            int is_kept = random_keeps(12345, (uint64_t)(FIRST[f] * COLUMNS + i), 0.25);
            assert_int_equal(mask[i], is_kept);
            assert_true(fabs(y[i] - is_kept * (3 + i) / 0.75) < 1e-14 * (3 + i));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_and_their_slopes_are_those_of_the_c_library),
        cmocka_unit_test(gates_multiply_as_many_or_whole_rows),
        cmocka_unit_test(rows_of_a_softmax_have_their_own_largest),
        cmocka_unit_test(elements_are_dropped_by_their_index_however_large),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
