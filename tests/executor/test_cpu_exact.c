#include "executor/backend.h"
#include "tests/support/test.h"

#include <math.h>

// Operators of the CPU at numbers that drawn ones do not come to, by hand.

struct world {
    const struct backend *backend;
    struct device *device;
};

static struct world open_world(void)
{
    struct err err = {0};
    struct world world = {.backend = backend_open("cpu-fp64", &err)};
    assert_string_equal(err.text, "");
    assert_null(world.backend->open(0, &world.device));
    return world;
}

static void run(const struct world *world, const struct kernel_call *call)
{
    assert_null(world->backend->can_run(call));
    assert_null(world->backend->run(world->device, STREAM_COMPUTE, call));
}

// A gate above 7 and an up beyond 7 on either side count as 7, and have no gradient: (up + more) g
// sigmoid(steep g).
struct clamped {
    enum function function;
    double scalar, steep, more;
};

static void check_clamped(const struct world *world, const struct clamped *of)
{
    enum { COUNT = 5 };
    static const double CLAMPED[COUNT][2] = {{7, 7}, {7, -7}, {-8, 0.5}, {1, -7}, {2, 3}};
    double gate[COUNT] = {9, 7.5, -8, 1, 2}, up[COUNT] = {9, -9, 0.5, -7.25, 3};
    double d[COUNT] = {1, 2, 3, 4, 5}, y[COUNT], d_gate[COUNT], d_up[COUNT];
    const struct kernel_array like = {
        .rank = 1, .dims = {DIM_HIDDEN}, .sizes = {COUNT}, .whole = {COUNT}};
    struct kernel_array all[] = {like, like, like, like, like, like};
    double *const memory[] = {gate, up, d, y, d_gate, d_up};
    for (int i = 0; i < 6; i++)
        all[i].data = memory[i];
    struct op op = {
        .kind = OP_ELEMENTWISE, .name = "gate", .function = of->function, .scalar = of->scalar};
    struct kernel_call forward = {.op = &op,
                                  .inputs = {all[0], all[1]},
                                  .outputs = {all[3]},
                                  .input_count = 2,
                                  .output_count = 1};
    run(world, &forward);
    op.phase = PHASE_BACKWARD;
    struct kernel_call backward = {.op = &op,
                                   .inputs = {all[2], all[0], all[1]},
                                   .outputs = {all[4], all[5]},
                                   .input_count = 3,
                                   .output_count = 2};
    run(world, &backward);
    for (int i = 0; i < COUNT; i++) {
        double g = CLAMPED[i][0], u = CLAMPED[i][1], p = 1 / (1 + exp(-of->steep * g));
        double slope = (u + of->more) * p * (1 + of->steep * g * (1 - p));
        assert_true(fabs(y[i] - (u + of->more) * g * p) < 1e-12 * (1 + fabs(y[i])));
        assert_true(fabs(d_gate[i] - (gate[i] < 7 ? d[i] * slope : 0)) < 1e-12);
        assert_true(fabs(d_up[i] - (fabs(up[i]) < 7 ? d[i] * g * p : 0)) < 1e-12);
    }
}

static void clamped_gates_are_worked_by_hand(void **state)
{
    // gpt-oss, and hy_v4 with a limit of 7.
    static const struct clamped OF[] = {{FUNCTION_CLAMPED_SWIGLU, 1.702, 1.702, 1},
                                        {FUNCTION_CLAMPED_SILU, 7, 1, 0}};
    struct world world = open_world();
    (void)state;
    for (int i = 0; i < 2; i++)
        check_clamped(&world, &OF[i]);
    world.backend->close(world.device);
}

// Two rows of three by two become two of six: the same numbers in the same order.
static void what_is_flattened_keeps_its_numbers(void **state)
{
    struct world world = open_world();
    (void)state;
    double from[12], to[12] = {0};
    const struct op op = {.kind = OP_FLATTEN, .name = "flatten"};
    for (int i = 0; i < 12; i++)
        from[i] = 1 + i;
    struct kernel_call call = {.op = &op, .input_count = 1, .output_count = 1};
    call.inputs[0] = (struct kernel_array){.data = from,
                                           .rank = 3,
                                           .dims = {DIM_BATCH, DIM_HEIGHT, DIM_WIDTH},
                                           .sizes = {2, 3, 2},
                                           .whole = {2, 3, 2}};
    call.outputs[0] = (struct kernel_array){
        .data = to, .rank = 2, .dims = {DIM_BATCH, DIM_HIDDEN}, .sizes = {2, 6}, .whole = {2, 6}};
    run(&world, &call);
    assert_memory_equal(to, from, sizeof to);
    call.outputs[0].sizes[1] = 5;
    assert_string_equal(world.backend->run(world.device, STREAM_COMPUTE, &call),
                        "what is flattened has another size");
    world.backend->close(world.device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clamped_gates_are_worked_by_hand),
        cmocka_unit_test(what_is_flattened_keeps_its_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
