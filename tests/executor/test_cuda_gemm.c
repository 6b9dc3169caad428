#include "tests/support/test.h"

#include "executor/plugin.h"
#include "tests/support/emulated.h"
#include "tests/support/kernel_case.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Which algorithm a GEMM of the CUDA back end runs by, against an emulated cuBLASLt
// (tests/gpu/emulate_cublaslt.c) whose algorithms are six: 0 and 4 sum in one sequence, 2 and 5
// split sums and add them up in fp32 in a step behind, 1 and 3 in other ways.

enum { ROWS = 24, COLUMNS = 40, INNER = 96, ALGORITHMS = 6 };

struct world {
    const struct backend *backend;
    struct device *device;
    struct kernel_array arrays[3];
};

static uint64_t runs_of(int algorithm)
{
    bool is_there;
    uint64_t (*runs)(int algorithm);
    void *library = plugin_open("exec_cuda_emulated.so", RTLD_NOW | RTLD_LOCAL, &is_there);
    void *symbol = dlsym(library, "emulated_algorithm_runs");
    assert_non_null(symbol);
    memcpy(&runs, &symbol, sizeof runs);
    return runs(algorithm);
}

static void forget_runs(void)
{
    for (int i = 0; i < ALGORITHMS; i++)
        runs_of(i);
}

static struct kernel_array matrix(const struct world *world, enum dim rows, int64_t row_count,
                                  enum dim columns, int64_t column_count)
{
    struct kernel_array array = {.rank = 2,
                                 .dims = {rows, columns},
                                 .sizes = {row_count, column_count},
                                 .whole = {row_count, column_count}};
    float *host = malloc((size_t)(row_count * column_count) * sizeof *host);
    assert_non_null(host);
    for (int64_t i = 0; i < row_count * column_count; i++)
        host[i] = (float)((i * 7919 + 13) % 1009) / 1009 - 0.5f;
    size_t bytes = (size_t)(row_count * column_count) * sizeof *host;
    assert_null(world->backend->allocate(world->device, (int64_t)bytes, &array.data));
    assert_null(world->backend->copy(world->device, STREAM_COMPUTE, COPY_FROM_HOST, array.data,
                                     host, (int64_t)bytes));
    free(host);
    return array;
}

static struct world open_world(void)
{
    struct world world = {.backend = emulated_backend(PRECISION_FP32)};
    assert_null(world.backend->open(0, &world.device));
    world.arrays[0] = matrix(&world, DIM_SEQ, ROWS, DIM_HIDDEN, INNER);
    world.arrays[1] = matrix(&world, DIM_HIDDEN, INNER, DIM_FFN, COLUMNS);
    world.arrays[2] = matrix(&world, DIM_SEQ, ROWS, DIM_FFN, COLUMNS);
    return world;
}

static void multiply(struct world *world, float *result)
{
    const struct op op = {.kind = OP_CONTRACT, .name = "product", .scalar = 1};
    struct kernel_call call = {.op = &op,
                               .inputs = {world->arrays[0], world->arrays[1]},
                               .outputs = {world->arrays[2]},
                               .input_count = 2,
                               .output_count = 1};
    const struct backend *b = world->backend;
    assert_null(b->run(world->device, STREAM_COMPUTE, &call));
    assert_null(b->copy(world->device, STREAM_COMPUTE, COPY_TO_HOST, result, call.outputs[0].data,
                        ROWS * COLUMNS * (int64_t)sizeof *result));
}

static void close_world(struct world *world)
{
    for (int i = 0; i < 3; i++)
        world->backend->release(world->device, world->arrays[i].data);
    world->backend->close(world->device);
}

static float results[3][ROWS * COLUMNS];

static void a_run_takes_the_first_that_the_library_names_and_measures_nothing(void **state)
{
    (void)state;
    const struct kernel_choice *choices;
    struct world world = open_world();
    forget_runs();
    setenv("MESHWRIGHT_EMULATED_FAST", "2", 1);
    for (int i = 0; i < 2; i++)
        multiply(&world, results[i]);
    assert_int_equal(runs_of(0), 2);
    assert_memory_equal(results[0], results[1], sizeof results[0]);
    assert_int_equal(world.backend->choices(world.device, &choices), 0);
    unsetenv("MESHWRIGHT_EMULATED_FAST");
    close_world(&world);
}

// Measures with `fast` as the fastest, and returns the one choice.
static const struct kernel_choice *tune(struct world *world, const char *fast)
{
    const struct kernel_choice *choices;
    setenv("MESHWRIGHT_EMULATED_FAST", fast, 1);
    world->backend->tune(world->device);
    multiply(world, results[0]);
    unsetenv("MESHWRIGHT_EMULATED_FAST");
    assert_int_equal(world->backend->choices(world->device, &choices), 1);
    assert_true(choices->s > 0);
    return choices;
}

static void a_calibration_measures_once_a_shape_and_takes_the_fastest(void **state)
{
    (void)state;
    struct world world = open_world();
    forget_runs();
    tune(&world, "2");
    // One warm, three that count, and the call itself.
    assert_int_equal(runs_of(2), 5);
    assert_int_equal(runs_of(0), 4);
    assert_int_equal(runs_of(5), 4);
    multiply(&world, results[1]);
    assert_int_equal(runs_of(2), 1);
    assert_int_equal(runs_of(0) + runs_of(5), 0);
    close_world(&world);
}

// In the order in which blocks come, or in 16 bits.
static void sums_are_split_only_where_the_parts_are_added_in_fp32_and_in_order(void **state)
{
    (void)state;
    struct world world = open_world();
    forget_runs();
    tune(&world, "1");
    assert_int_equal(runs_of(1) + runs_of(3), 0);
    assert_true(runs_of(2) > 0 && runs_of(5) > 0);
    close_world(&world);
}

static void what_was_measured_is_used_by_later_runs_with_the_same_bits(void **state)
{
    (void)state;
    struct world before = open_world(), after = open_world(), other = open_world();
    const struct kernel_choice *choice = tune(&before, "2");
    multiply(&before, results[0]);
    assert_null(after.backend->choose(after.device, choice, 1));
    forget_runs();
    multiply(&after, results[1]);
    assert_int_equal(runs_of(2), 1);
    assert_memory_equal(results[0], results[1], sizeof results[0]);
    // The default has other bits: else this test would see nothing.
    multiply(&other, results[2]);
    assert_memory_not_equal(results[0], results[2], sizeof results[0]);
    close_world(&before);
    close_world(&after);
    close_world(&other);
}

static void what_the_library_does_not_know_is_left_alone(void **state)
{
    (void)state;
    struct world before = open_world(), after = open_world();
    struct kernel_choice choice = *tune(&before, "2");
    static const char *const WRONG[] = {"", "0011", "zz"};
    char twisted[512];
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        snprintf(twisted, sizeof twisted, "%s%s", WRONG[i], i == 2 ? choice.algorithm + 2 : "");
        struct kernel_choice wrong = {choice.shape, twisted, 1};
        struct world world = open_world();
        assert_null(world.backend->choose(world.device, &wrong, 1));
        forget_runs();
        multiply(&world, results[0]);
        assert_int_equal(runs_of(0), 1);
        close_world(&world);
    }
    // As written by another version.
    snprintf(twisted, sizeof twisted, "%s", choice.algorithm);
    memset(twisted + 16, '0', 16);
    choice.algorithm = twisted;
    assert_null(after.backend->choose(after.device, &choice, 1));
    forget_runs();
    multiply(&after, results[0]);
    assert_int_equal(runs_of(0), 1);
    close_world(&before);
    close_world(&after);
}

static void read_matrix(const struct world *world, const struct kernel_array *array, float *values)
{
    assert_null(world->backend->copy(world->device, STREAM_COMPUTE, COPY_TO_HOST, values,
                                     array->data, ROWS * COLUMNS * (int64_t)sizeof *values));
}

// In one GEMM: what the product alone would have written is as it was.
static void a_residual_is_added_as_its_product_is_written(void **state)
{
    (void)state;
    struct world world = open_world();
    struct kernel_array residual = matrix(&world, DIM_SEQ, ROWS, DIM_FFN, COLUMNS);
    struct kernel_array to = matrix(&world, DIM_SEQ, ROWS, DIM_FFN, COLUMNS);
    struct kernel_array product = matrix(&world, DIM_SEQ, ROWS, DIM_FFN, COLUMNS);
    const struct op op = {.kind = OP_CONTRACT, .name = "product", .scalar = 1};
    const struct op add = {.kind = OP_ADD, .name = "sum", .scalar = 1};
    static float before[ROWS * COLUMNS], untouched[ROWS * COLUMNS], sums[ROWS * COLUMNS];
    multiply(&world, results[0]);
    read_matrix(&world, &residual, before);
    for (int turn = 0; turn < 2; turn++) {
        const struct kernel_call calls[2] = {
            {.op = &op,
             .inputs = {world.arrays[0], world.arrays[1]},
             .outputs = {product},
             .input_count = 2,
             .output_count = 1},
            {.op = &add,
             .inputs = {turn ? product : residual, turn ? residual : product},
             .outputs = {to},
             .input_count = 2,
             .output_count = 1}};
        assert_null(world.backend->run_joined(world.device, STREAM_COMPUTE, calls, 2));
        read_matrix(&world, &to, sums);
        read_matrix(&world, &product, untouched);
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            float expected = results[0][i] + before[i];
            assert_true(fabsf(sums[i] - expected) <= 1e-5F * (1 + fabsf(expected)));
            assert_true(untouched[i] == before[i]);  // matrices are made alike
        }
    }
    read_matrix(&world, &residual, sums);
    assert_memory_equal(sums, before, sizeof sums);
    world.backend->release(world.device, residual.data);
    world.backend->release(world.device, to.data);
    world.backend->release(world.device, product.data);
    close_world(&world);
}

int main(void)
{
    if (getenv("MESHWRIGHT_TEST_GPU")) {
        puts("1..0 # SKIP of the emulation");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_takes_the_first_that_the_library_names_and_measures_nothing),
        cmocka_unit_test(a_calibration_measures_once_a_shape_and_takes_the_fastest),
        cmocka_unit_test(sums_are_split_only_where_the_parts_are_added_in_fp32_and_in_order),
        cmocka_unit_test(what_was_measured_is_used_by_later_runs_with_the_same_bits),
        cmocka_unit_test(what_the_library_does_not_know_is_left_alone),
        cmocka_unit_test(a_residual_is_added_as_its_product_is_written),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
