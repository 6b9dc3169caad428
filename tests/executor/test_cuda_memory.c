#include "tests/support/test.h"

#include "executor/plugin.h"
#include "tests/support/emulated.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What the CUDA back end holds of a device beside its kernels: memory that grows while it is in
// use, tables, streams, and the error that CUDA remembers. On the emulation, whose cudaFree waits
// for nobody and whose streams run late.

struct world {
    const struct backend *backend;
    struct device *device;
};

static struct world open_world(enum precision precision)
{
    struct world world = {.backend = emulated_backend(precision)};
    assert_null(world.backend->open(0, &world.device));
    return world;
}

static float value_of(int64_t i)
{
    return (float)(i % 17 - 8) / 8;
}

static struct kernel_array matrix(const struct world *world, enum dim rows, int64_t row_count,
                                  enum dim columns, int64_t column_count)
{
    int64_t count = row_count * column_count, bytes = count * (int64_t)sizeof(float);
    struct kernel_array array = {.rank = 2,
                                 .element = ELEMENT_FP32,
                                 .dims = {rows, columns},
                                 .sizes = {row_count, column_count},
                                 .whole = {row_count, column_count}};
    float *host = malloc((size_t)bytes);
    assert_non_null(host);
    for (int64_t i = 0; i < count; i++)
        host[i] = value_of(i);
    assert_null(world->backend->allocate(world->device, bytes, &array.data));
    assert_null(world->backend->copy(world->device, STREAM_COMPUTE, COPY_FROM_HOST, array.data,
                                     host, bytes));
    free(host);
    return array;
}

static void memory_that_lacks_is_no_fault_of_the_next_kernel(void **state)
{
    (void)state;
    struct world world = open_world(PRECISION_FP32);
    void *memory = NULL;
    const char *fault = world.backend->allocate(world.device, INT64_C(1) << 40, &memory);
    assert_non_null(fault);
    assert_non_null(strstr(fault, "memory"));
    struct kernel_array x = matrix(&world, DIM_SEQ, 4, DIM_HIDDEN, 8);
    const struct op op = {.kind = OP_ADD, .name = "sum"};
    struct kernel_call call = {
        .op = &op, .inputs = {x, x}, .outputs = {x}, .input_count = 2, .output_count = 1};
    assert_null(world.backend->run(world.device, STREAM_COMPUTE, &call));
    assert_null(world.backend->synchronize(world.device, STREAM_COMPUTE));
    world.backend->release(world.device, x.data);
    world.backend->close(world.device);
}

static void communication_comes_before_what_computes(void **state)
{
    (void)state;
    bool is_there;
    struct world world = open_world(PRECISION_BF16);
    void *library = plugin_open("exec_cuda_emulated.so", RTLD_NOW | RTLD_LOCAL, &is_there);
    int (*priority)(void *stream);
    void *symbol = dlsym(library, "emulated_stream_priority");
    assert_non_null(symbol);
    memcpy(&priority, &symbol, sizeof priority);
    int compute = priority(world.backend->native_stream(world.device, STREAM_COMPUTE));
    for (enum stream s = STREAM_COMPUTE + 1; s < STREAM_COUNT; s++)
        assert_true(priority(world.backend->native_stream(world.device, s)) < compute);
    world.backend->close(world.device);
}

static const char *turn(const struct world *world, struct kernel_array x, double theta)
{
    const struct op op = {.kind = OP_ELEMENTWISE,
                          .function = FUNCTION_ROPE,
                          .name = "rope",
                          .scalar = theta,
                          .rotary_dims = 8};
    struct kernel_call call = {
        .op = &op, .inputs = {x}, .outputs = {x}, .input_count = 1, .output_count = 1};
    return world->backend->run(world->device, STREAM_COMPUTE, &call);
}

// What is recorded holds the address of its table: all others are made behind it.
static void no_rope_drives_out_the_table_of_another(void **state)
{
    (void)state;
    enum { ROPES = 9 };
    struct world world = open_world(PRECISION_FP32);
    const struct backend *b = world.backend;
    struct kernel_array x = matrix(&world, DIM_SEQ, 4, DIM_HIDDEN, 8);
    struct capture *capture;
    bool is_stale = true;
    assert_null(turn(&world, x, 10000));
    assert_null(b->capture_begin(world.device, STREAM_COMPUTE));
    assert_null(turn(&world, x, 10000));
    assert_null(b->capture_end(world.device, STREAM_COMPUTE, &capture));
    for (int i = 1; i < ROPES; i++)
        assert_null(turn(&world, x, 10000 + i));
    assert_null(b->replay(world.device, STREAM_COMPUTE, capture, &is_stale));
    assert_false(is_stale);
    int64_t bytes = b->own_bytes(world.device);
    for (int i = 0; i < ROPES; i++)
        assert_null(turn(&world, x, 10000 + i));
    assert_int_equal(b->own_bytes(world.device), bytes);
    b->capture_free(world.device, capture);
    b->release(world.device, x.data);
    b->close(world.device);
}

enum { INNER = 16, COLUMNS = 8 };

// bf16 beside fp32 is widened in scratch memory. The values have no more bits than bf16 keeps.
static void narrow(const struct world *world, struct kernel_array *array)
{
    int64_t count = array->sizes[0] * array->sizes[1];
    assert_true(count > 0);
    uint16_t *host = malloc((size_t)count * sizeof *host);
    assert_non_null(host);
    for (int64_t i = 0; i < count; i++) {
        float value = value_of(i);
        memcpy(&host[i], (char *)&value + 2, sizeof *host);
    }
    array->element = ELEMENT_COMPUTE;
    assert_null(world->backend->copy(world->device, STREAM_COMPUTE, COPY_FROM_HOST, array->data,
                                     host, count * (int64_t)sizeof *host));
    free(host);
}

static struct kernel_call product_of(const struct world *world, const struct op *op, int64_t rows)
{
    return (struct kernel_call){.op = op,
                                .inputs = {matrix(world, DIM_SEQ, rows, DIM_HIDDEN, INNER),
                                           matrix(world, DIM_HIDDEN, INNER, DIM_FFN, COLUMNS)},
                                .outputs = {matrix(world, DIM_SEQ, rows, DIM_FFN, COLUMNS)},
                                .input_count = 2,
                                .output_count = 1};
}

static void check_product(const struct world *world, const struct kernel_call *call)
{
    int64_t rows = call->outputs[0].sizes[0], count = rows * COLUMNS;
    float *found = malloc((size_t)count * sizeof *found);
    assert_non_null(found);
    assert_null(world->backend->copy(world->device, STREAM_COMPUTE, COPY_TO_HOST, found,
                                     call->outputs[0].data, count * (int64_t)sizeof *found));
    for (int64_t i = 0; i < count; i++) {
        float expected = 0;
        for (int64_t k = 0; k < INNER; k++)
            expected += value_of(i / COLUMNS * INNER + k) * value_of(k * COLUMNS + i % COLUMNS);
        if (!(fabsf(found[i] - expected) < 1e-3f))
            fail_msg("element %lld: %g, expected %g", (long long)i, (double)found[i],
                     (double)expected);
    }
    free(found);
}

static void scratch_memory_grows_behind_who_uses_it(void **state)
{
    (void)state;
    const struct op op = {.kind = OP_CONTRACT, .name = "product", .scalar = 1};
    for (int order = 1; order <= 8; order++) {
        char text[8];
        snprintf(text, sizeof text, "%d", order);
        setenv("MESHWRIGHT_EMULATED_ORDER", text, 1);
        struct world world = open_world(PRECISION_BF16);
        // Of 2 and of 20,000 rows: more than a grain of scratch memory.
        struct kernel_call small = product_of(&world, &op, 2),
                           large = product_of(&world, &op, 20000);
        narrow(&world, &small.inputs[0]);
        narrow(&world, &large.inputs[0]);
        assert_null(world.backend->run(world.device, STREAM_COMPUTE, &small));
        assert_null(world.backend->run(world.device, STREAM_COMPUTE, &large));
        check_product(&world, &small);
        check_product(&world, &large);
        for (int i = 0; i < 2; i++) {
            world.backend->release(world.device, small.inputs[i].data);
            world.backend->release(world.device, large.inputs[i].data);
        }
        world.backend->release(world.device, small.outputs[0].data);
        world.backend->release(world.device, large.outputs[0].data);
        world.backend->close(world.device);
        unsetenv("MESHWRIGHT_EMULATED_ORDER");
    }
}

int main(void)
{
    if (getenv("MESHWRIGHT_TEST_GPU")) {
        puts("1..0 # SKIP of the emulation");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_lacks_is_no_fault_of_the_next_kernel),
        cmocka_unit_test(communication_comes_before_what_computes),
        cmocka_unit_test(no_rope_drives_out_the_table_of_another),
        cmocka_unit_test(scratch_memory_grows_behind_who_uses_it),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
