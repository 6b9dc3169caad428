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

// One head of four or eight numbers of two tokens, rotated as the op says from token `first` on.
struct rope_case {
    double theta;
    int dims, offset, columns, still;
    int64_t first, whole;
};

enum { ROPE_WIDTH = 10, ROPE_TOKENS = 2 };

static void rotate_by_hand(const struct rope_case *of, double sign, const double *x, double *y)
{
    for (int t = 0; t < ROPE_TOKENS; t++) {
        const double *from = x + t * ROPE_WIDTH;
        double *to = y + t * ROPE_WIDTH;
        memcpy(to, from, ROPE_WIDTH * sizeof *to);
        int64_t token = of->first + t, place = token - of->still;
        int half = of->dims / 2, pairs = of->columns ? of->dims / 4 : half;
        for (int i = 0; i < half; i++) {
            // The first pairs go by the row, those behind them by the column; what stands still in
            // front of the picture is not turned.
            double at = (double)token;
            if (of->columns) at = (double)(i < pairs ? place / of->columns : place % of->columns);
            if (of->columns && place < 0) at = 0;
            double angle = sign * at * pow(of->theta, -(i % pairs) / (double)pairs);
            double a = from[of->offset + i], b = from[of->offset + half + i];
            to[of->offset + i] = a * cos(angle) - b * sin(angle);
            to[of->offset + half + i] = b * cos(angle) + a * sin(angle);
        }
    }
}

static struct kernel_array rope_array(const struct rope_case *of, double *data)
{
    return (struct kernel_array){.data = data,
                                 .rank = 3,
                                 .dims = {DIM_SEQ, DIM_HEAD, DIM_HEAD_DIM},
                                 .sizes = {ROPE_TOKENS, 1, ROPE_WIDTH},
                                 .first = {of->first, 0, 0},
                                 .whole = {of->whole, 1, ROPE_WIDTH}};
}

static void check_rope(const struct world *world, const struct rope_case *of, bool backward)
{
    double x[ROPE_TOKENS * ROPE_WIDTH], y[ROPE_TOKENS * ROPE_WIDTH],
        wanted[ROPE_TOKENS * ROPE_WIDTH];
    for (int i = 0; i < ROPE_TOKENS * ROPE_WIDTH; i++)
        x[i] = 1 + 0.37 * i * (i % 3 ? 1 : -1);
    struct op op = {.kind = OP_ELEMENTWISE,
                    .name = "rope",
                    .function = FUNCTION_ROPE,
                    .phase = backward ? PHASE_BACKWARD : PHASE_FORWARD,
                    .scalar = of->theta,
                    .rotary_dims = of->dims,
                    .rotary_first = of->offset,
                    .rotary_columns = of->columns,
                    .rotary_still = of->still};
    struct kernel_call call = {.op = &op, .input_count = 1, .output_count = 1};
    call.inputs[0] = rope_array(of, x);
    call.outputs[0] = rope_array(of, y);
    run(world, &call);
    rotate_by_hand(of, backward ? -1 : 1, x, wanted);
    for (int i = 0; i < ROPE_TOKENS * ROPE_WIDTH; i++)
        assert_true(fabs(y[i] - wanted[i]) < 1e-13);
    call.outputs[0] = call.inputs[0];  // in place
    run(world, &call);
    for (int i = 0; i < ROPE_TOKENS * ROPE_WIDTH; i++)
        assert_true(fabs(x[i] - wanted[i]) < 1e-13);
}

// One after another, and once more: each has the table of its own, though but one thing differs.
static void positions_are_rotated_as_each_op_says(void **state)
{
    static const struct rope_case CASES[] = {
        {10000, 8, 0, 0, 0, 0, 4}, {500, 8, 0, 0, 0, 0, 4},   {10000, 4, 0, 0, 0, 0, 4},
        {10000, 8, 2, 0, 0, 0, 4}, {10000, 8, 0, 0, 0, 2, 4}, {10000, 8, 0, 0, 0, 5, 7},
        {10000, 8, 0, 0, 0, 9, 4}, {10000, 8, 0, 3, 0, 4, 9}, {10000, 8, 0, 2, 0, 4, 9},
        {10000, 8, 0, 2, 1, 4, 9}, {10000, 8, 0, 2, 5, 4, 9}, {10000, 8, 0, 2, 7, 4, 9}};
    struct world world = open_world();
    (void)state;
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
            for (int backward = 0; backward < 2; backward++)
                check_rope(&world, &CASES[i], backward);
    double x[ROPE_TOKENS * ROPE_WIDTH] = {0};
    struct op op = {.kind = OP_ELEMENTWISE,
                    .name = "rope",
                    .function = FUNCTION_ROPE,
                    .scalar = 10000,
                    .rotary_dims = 8,
                    .rotary_first = 3};
    struct kernel_call call = {.op = &op, .input_count = 1, .output_count = 1};
    call.inputs[0] = call.outputs[0] = rope_array(&CASES[0], x);
    assert_string_equal(world.backend->run(world.device, STREAM_COMPUTE, &call),
                        "rope is wider than a head");
    op.rotary_first = 0;
    call.inputs[0].dims[0] = DIM_HIDDEN;
    assert_string_equal(world.backend->run(world.device, STREAM_COMPUTE, &call),
                        "rope needs the dim seq");
    world.backend->close(world.device);
}

// Of two places in two frames, the fourth and the fifth of six, each is turned by its frame.
static void frames_turn_by_their_number(void **state)
{
    double x[16], y[16];
    struct world world = open_world();
    (void)state;
    struct op op = {.kind = OP_ELEMENTWISE,
                    .name = "rope",
                    .function = FUNCTION_ROPE,
                    .scalar = 100,
                    .rotary_dims = 4};
    struct kernel_call call = {.op = &op, .input_count = 1, .output_count = 1};
    call.inputs[0] =
        (struct kernel_array){.data = x,
                              .rank = 5,
                              .dims = {DIM_BATCH, DIM_SEQ, DIM_TIME, DIM_HEAD, DIM_HEAD_DIM},
                              .sizes = {1, 2, 2, 1, 4},
                              .first = {0, 1, 3, 0, 0},
                              .whole = {1, 9, 6, 1, 4}};
    call.outputs[0] = call.inputs[0];
    call.outputs[0].data = y;
    for (int i = 0; i < 16; i++)
        x[i] = 1 + i;
    run(&world, &call);
    for (int row = 0; row < 4; row++) {
        const double *from = x + 4 * row, *to = y + 4 * row;
        for (int i = 0; i < 2; i++) {
            double angle = (3 + row % 2) * (i ? 0.1 : 1);  // 100^(-1/2)
            assert_true(fabs(to[i] - from[i] * cos(angle) + from[2 + i] * sin(angle)) < 1e-13);
            assert_true(fabs(to[2 + i] - from[2 + i] * cos(angle) - from[i] * sin(angle)) < 1e-13);
        }
    }
    world.backend->close(world.device);
}

// Heads 2 and 3 of 4, keys 5 .. 7: a slope of 2^(-8 (head + 1) / 4) a key.
static void slopes_of_alibi_are_powers_of_two(void **state)
{
    double x[6] = {1, 2, 3, 4, 5, 6}, y[6];
    struct world world = open_world();
    (void)state;
    struct op op = {
        .kind = OP_ELEMENTWISE, .name = "alibi", .function = FUNCTION_ALIBI, .scalar = 3};
    struct kernel_call call = {.op = &op, .input_count = 1, .output_count = 1, .head_count = 4};
    call.inputs[0] = (struct kernel_array){.data = x,
                                           .rank = 3,
                                           .dims = {DIM_HEAD, DIM_SEQ, DIM_KV_SEQ},
                                           .sizes = {2, 1, 3},
                                           .first = {2, 0, 5},
                                           .whole = {4, 1, 9}};
    call.outputs[0] = call.inputs[0];
    call.outputs[0].data = y;
    run(&world, &call);
    for (int i = 0; i < 6; i++) {
        double slope = 3. / (i < 3 ? 64 : 256);
        assert_true(y[i] == x[i] + slope * (5 + i % 3));
    }
    call.head_count = 0;
    assert_string_equal(world.backend->run(world.device, STREAM_COMPUTE, &call),
                        "alibi needs the number of heads");
    call.head_count = 4;
    call.inputs[0].dims[2] = DIM_HIDDEN;
    assert_string_equal(world.backend->run(world.device, STREAM_COMPUTE, &call),
                        "alibi needs head and kv_seq");
    world.backend->close(world.device);
}

// Two experts have two rows and one, and a matrix each; products are added to what is there.
static void rows_of_experts_meet_their_own_matrix(void **state)
{
    double x[6] = {1, 2, 3, 5, 7, 11}, w[4] = {2, 3, 5, 7}, y[3];
    (void)state;
    struct world world = open_world();
    int64_t rows_of[] = {0, 2, 3};
    struct kernel_routing routing = {.expert_count = 2, .rows_of = rows_of};
    const struct op op = {.kind = OP_CONTRACT, .name = "down", .scalar = 3};
    struct kernel_call call = {.op = &op, .input_count = 2, .output_count = 1, .routing = &routing};
    // Rows (batch, seq, expert, hidden), of which three exist; weights (expert, hidden).
    call.inputs[0] = (struct kernel_array){.data = x,
                                           .rank = 4,
                                           .dims = {DIM_BATCH, DIM_SEQ, DIM_EXPERT, DIM_HIDDEN},
                                           .sizes = {1, 3, 2, 2},
                                           .whole = {1, 3, 2, 2}};
    call.inputs[1] = (struct kernel_array){
        .data = w, .rank = 2, .dims = {DIM_EXPERT, DIM_HIDDEN}, .sizes = {2, 2}, .whole = {2, 2}};
    call.outputs[0] = (struct kernel_array){.data = y,
                                            .rank = 3,
                                            .dims = {DIM_BATCH, DIM_SEQ, DIM_EXPERT},
                                            .sizes = {1, 3, 2},
                                            .whole = {1, 3, 2}};
    run(&world, &call);
    // Rows 1 and 2 of the first expert: 1 2 + 2 3, 3 2 + 5 3; the third of the second: 7 5 + 11 7;
    // times 3.
    assert_true(y[0] == 24 && y[1] == 63 && y[2] == 336);
    call.adds = 1;
    run(&world, &call);
    assert_true(y[0] == 48 && y[1] == 126 && y[2] == 672);
    // What all experts write into has the sum over all rows: 1 2 + 3 3 + 7 5 and 2 2 + 5 3 + 11 5.
    double d[3] = {2, 3, 5}, sum[2] = {1000, 1000};
    call.adds = 0;
    call.inputs[1] = call.outputs[0];
    call.inputs[1].data = d;
    call.outputs[0] = (struct kernel_array){
        .data = sum, .rank = 1, .dims = {DIM_HIDDEN}, .sizes = {2}, .whole = {2}};
    run(&world, &call);
    assert_true(sum[0] == 138 && sum[1] == 222);
    call.adds = 1;
    run(&world, &call);
    assert_true(sum[0] == 276 && sum[1] == 444);
    world.backend->close(world.device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clamped_gates_are_worked_by_hand),
        cmocka_unit_test(positions_are_rotated_as_each_op_says),
        cmocka_unit_test(frames_turn_by_their_number),
        cmocka_unit_test(slopes_of_alibi_are_powers_of_two),
        cmocka_unit_test(rows_of_experts_meet_their_own_matrix),
        cmocka_unit_test(what_is_flattened_keeps_its_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
