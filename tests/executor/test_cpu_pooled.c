#include "tests/support/test.h"

#include "executor/backend.h"

#include <math.h>
#include <string.h>

// Operators that deepseek_v4 has beside others, on numbers that are worked by hand.

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
    const char *fault = world->backend->can_run(call);
    if (!fault) fault = world->backend->run(world->device, STREAM_COMPUTE, call);
    if (fault) fail_msg("%s", fault);
}

static struct kernel_array array_of(double *data, int rank, const enum dim dims[],
                                    const int64_t sizes[])
{
    struct kernel_array array = {.data = data, .rank = rank};
    for (int i = 0; i < rank; i++) {
        array.dims[i] = dims[i];
        array.sizes[i] = array.whole[i] = sizes[i];
    }
    return array;
}

#define ARRAY(data, dims, ...) \
    array_of(data, (int)(sizeof(dims) / sizeof *(dims)), dims, (const int64_t[]){__VA_ARGS__})

static const enum dim MATRICES[] = {DIM_BATCH, DIM_SEQ, DIM_STREAM, DIM_TO_STREAM};
static const enum dim CHANNELS[] = {DIM_BATCH, DIM_SEQ, DIM_RANK}, TAPS[] = {DIM_TAP, DIM_RANK};
static const enum dim ENTRIES[] = {DIM_BATCH, DIM_ENTRY, DIM_HEAD_DIM};
static const enum dim HEADS[] = {DIM_BATCH, DIM_SEQ, DIM_HEAD, DIM_HEAD_DIM};
static const enum dim KEYS[] = {DIM_BATCH, DIM_SEQ, DIM_KV_HEAD, DIM_HEAD_DIM};
static const enum dim SINKS[] = {DIM_HEAD}, ROWS[] = {DIM_BATCH, DIM_SEQ, DIM_HEAD};
static const enum dim CHOSEN[] = {DIM_BATCH, DIM_SEQ, DIM_CHOSEN};
static const enum dim GATES[] = {DIM_BATCH, DIM_SEQ, DIM_GATE}, BIASES[] = {DIM_GATE};

static void assert_close(const double *found, const double *expected, int count)
{
    for (int i = 0; i < count; i++)
        if (!(fabs(found[i] - expected[i]) < 1e-14))
            fail_msg("%d: %.17g, expected %.17g", i, found[i], expected[i]);
}

// The softmax of each row is 1/4 3/4 and 1/2 1/2. Columns sum up to 3/4 and 5/4; then rows to 14/15
// and 16/15, and columns again to 55/56 and 57/56. With a quarter added to each number and each
// sum, columns are divided by 3/2 and 2.
static void rows_and_columns_are_divided_in_turn(void **state)
{
    (void)state;
    struct world world = open_world();
    double x[4] = {0, log(3), 2, 2}, y[4];
    struct op op = {.name = "matrix", .kind = OP_SINKHORN, .rounds = 1};
    struct kernel_call call = {.op = &op, .input_count = 1, .output_count = 1};
    call.inputs[0] = ARRAY(x, MATRICES, 1, 1, 2, 2);
    call.outputs[0] = ARRAY(y, MATRICES, 1, 1, 2, 2);
    run(&world, &call);
    assert_close(y, (const double[]){1 / 3.0, 3 / 5.0, 2 / 3.0, 2 / 5.0}, 4);
    op.rounds = 2;
    run(&world, &call);
    assert_close(y, (const double[]){4 / 11.0, 12 / 19.0, 7 / 11.0, 7 / 19.0}, 4);
    op.rounds = 1;
    op.scalar = 0.25;
    run(&world, &call);
    assert_close(y, (const double[]){1 / 3.0, 1 / 2.0, 1 / 2.0, 3 / 8.0}, 4);
    world.backend->close(world.device);
}

// y = a / (a + b) with a = 1/4, b = 1/2: its slopes are 8/9 and -4/9, those of a by its row 3/16
// and -3/16, those of b 1/4 and -1/4. With a quarter more in each number and in the sum a is 1/2, b
// 3/4 and their slopes 4/9 and -2/9.
static void a_matrix_has_the_gradient_of_its_divisions(void **state)
{
    (void)state;
    struct world world = open_world();
    double x[4] = {0, log(3), 2, 2}, d[4] = {1, 0, 0, 0}, d_x[4];
    struct op op = {.name = "matrix", .kind = OP_SINKHORN_BACKWARD, .rounds = 1};
    struct kernel_call call = {.op = &op, .input_count = 2, .output_count = 1};
    call.inputs[0] = ARRAY(d, MATRICES, 1, 1, 2, 2);
    call.inputs[1] = ARRAY(x, MATRICES, 1, 1, 2, 2);
    call.outputs[0] = ARRAY(d_x, MATRICES, 1, 1, 2, 2);
    run(&world, &call);
    assert_close(d_x, (const double[]){1 / 6.0, -1 / 6.0, -1 / 9.0, 1 / 9.0}, 4);
    op.scalar = 0.25;
    run(&world, &call);
    assert_close(d_x, (const double[]){1 / 12.0, -1 / 12.0, -1 / 18.0, 1 / 18.0}, 4);
    world.backend->close(world.device);
}

// Gates and biases make weights of 1/4 and 3/4 in the first entry and 1/2 each in the second; the
// fifth token is in none.
static void entries_are_means_by_gates(void **state)
{
    (void)state;
    struct world world = open_world();
    double x[5] = {1, 3, 5, 7, 100}, gate[5] = {0, log(2), log(1.5), 0, 9}, bias[2] = {0, log(1.5)};
    double y[2], d[2] = {4, 2}, d_x[5], d_gate[5], d_bias[2];
    struct op op = {.name = "pool", .kind = OP_POOL, .rate = 2};
    struct kernel_call call = {.op = &op, .input_count = 3, .output_count = 1};
    struct kernel_array of_x = ARRAY(x, CHANNELS, 1, 5, 1),
                        of_gate = ARRAY(gate, CHANNELS, 1, 5, 1);
    struct kernel_array of_bias = ARRAY(bias, TAPS, 2, 1);
    memcpy(call.inputs, (const struct kernel_array[]){of_x, of_gate, of_bias}, 3 * sizeof of_x);
    call.outputs[0] = ARRAY(y, ENTRIES, 1, 2, 1);
    run(&world, &call);
    assert_close(y, (const double[]){2.5, 6}, 2);
    op.kind = OP_POOL_BACKWARD;
    call.input_count = 4;
    call.output_count = 3;
    memcpy(call.inputs + 1, (const struct kernel_array[]){of_x, of_gate, of_bias}, 3 * sizeof of_x);
    call.inputs[0] = ARRAY(d, ENTRIES, 1, 2, 1);
    call.outputs[0] = ARRAY(d_x, CHANNELS, 1, 5, 1);
    call.outputs[1] = ARRAY(d_gate, CHANNELS, 1, 5, 1);
    call.outputs[2] = ARRAY(d_bias, TAPS, 2, 1);
    run(&world, &call);
    assert_close(d_x, (const double[]){1, 3, 1, 1, 0}, 5);
    assert_close(d_gate, (const double[]){-1.5, 1.5, -1, 1, 0}, 5);
    assert_close(d_bias, (const double[]){-2.5, 2.5}, 2);
    world.backend->close(world.device);
}

// Of its own tokens an entry reads the second channel, of those of the entry before the first.
static void entries_overlap_where_channels_are_two_series(void **state)
{
    (void)state;
    struct world world = open_world();
    double x[8] = {10, 1, 20, 3, 30, 5, 40, 7}, gate[8] = {0}, bias[4] = {0}, y[2];
    struct op op = {.name = "pool", .kind = OP_POOL, .rate = 2};
    struct kernel_call call = {.op = &op, .input_count = 3, .output_count = 1};
    call.inputs[0] = ARRAY(x, CHANNELS, 1, 4, 2);
    call.inputs[1] = ARRAY(gate, CHANNELS, 1, 4, 2);
    call.inputs[2] = ARRAY(bias, TAPS, 2, 2);
    call.outputs[0] = ARRAY(y, ENTRIES, 1, 2, 1);
    run(&world, &call);
    assert_close(y, (const double[]){2, 10.5}, 2);
    // Of the first channel, whose gate is of tokens in front, and of the second.
    bias[0] = log(3), bias[3] = log(2);
    run(&world, &call);
    assert_close(y, (const double[]){7 / 3.0, (30 + 20 + 5 + 14) / 7.0}, 2);
    call.inputs[0].sizes[1] = call.inputs[1].sizes[1] = 2;
    assert_non_null(world.backend->run(world.device, STREAM_COMPUTE, &call));
    world.backend->close(world.device);
}

// A query of zeros sees all alike, and a sink of zero as one more: token t sees the last two tokens
// and (t + 1) / 2 entries. The queries here are those of tokens 2 and 3.
static void queries_see_near_tokens_and_entries_that_are_whole(void **state)
{
    (void)state;
    struct world world = open_world();
    double q[2] = {0, 0}, x[4] = {1, 2, 4, 8}, sink[1] = {0}, entries[2] = {16, 32};
    double out[2], lse[2], chosen[2] = {-1, 1};
    struct op op = {
        .name = "core", .kind = OP_POOLED, .scalar = 1, .causal = true, .window = 2, .rate = 2};
    struct kernel_call call = {.op = &op, .input_count = 4, .output_count = 2};
    call.inputs[0] = ARRAY(q, HEADS, 1, 2, 1, 1);
    call.inputs[0].first[1] = 2;
    call.inputs[0].whole[1] = 4;
    call.inputs[1] = ARRAY(x, KEYS, 1, 4, 1, 1);
    call.inputs[2] = ARRAY(sink, SINKS, 1);
    call.inputs[3] = ARRAY(entries, ENTRIES, 1, 2, 1);
    call.inputs[4] = ARRAY(chosen, CHOSEN, 1, 2, 1);
    call.outputs[0] = ARRAY(out, HEADS, 1, 2, 1, 1);
    call.outputs[1] = ARRAY(lse, ROWS, 1, 2, 1);
    run(&world, &call);
    assert_close(out, (const double[]){22 / 4.0, 60 / 5.0}, 2);
    assert_close(lse, (const double[]){log(4), log(5)}, 2);
    op.top_k = 1;
    call.input_count = 5;
    run(&world, &call);
    assert_close(out, (const double[]){6 / 3.0, 44 / 4.0}, 2);
    world.backend->close(world.device);
}

// One query that sees a token of 1 and an entry of 3, with the score 0 of both and a sink of 0: out
// is 4/3, and d_score of each p (value - out); its own gradient is the sum of d_score times value.
static void attention_to_entries_has_the_gradient_of_keys_and_of_values(void **state)
{
    (void)state;
    struct world world = open_world();
    double d[1] = {9}, q[1] = {0}, x[1] = {1}, sink[1] = {0}, entries[1] = {3}, out[1] = {4 / 3.0};
    double lse[1] = {log(3)}, d_q[1], d_x[1], d_sink[1], d_entries[1];
    struct op op = {.name = "core",
                    .kind = OP_POOLED_BACKWARD,
                    .scalar = 1,
                    .causal = true,
                    .window = 1,
                    .rate = 1};
    struct kernel_call call = {.op = &op, .input_count = 7, .output_count = 4};
    call.inputs[0] = ARRAY(d, HEADS, 1, 1, 1, 1);
    call.inputs[1] = ARRAY(q, HEADS, 1, 1, 1, 1);
    call.inputs[2] = ARRAY(x, KEYS, 1, 1, 1, 1);
    call.inputs[3] = ARRAY(sink, SINKS, 1);
    call.inputs[4] = ARRAY(entries, ENTRIES, 1, 1, 1);
    call.inputs[5] = ARRAY(out, HEADS, 1, 1, 1, 1);
    call.inputs[6] = ARRAY(lse, ROWS, 1, 1, 1);
    call.outputs[0] = ARRAY(d_q, HEADS, 1, 1, 1, 1);
    call.outputs[1] = ARRAY(d_x, KEYS, 1, 1, 1, 1);
    call.outputs[2] = ARRAY(d_sink, SINKS, 1);
    call.outputs[3] = ARRAY(d_entries, ENTRIES, 1, 1, 1);
    run(&world, &call);
    assert_close(d_q, (const double[]){3 * (1 - 4 / 3.0) + 3 * (3 - 4 / 3.0) * 3}, 1);
    assert_close(d_x, (const double[]){3}, 1);
    assert_close(d_entries, (const double[]){3}, 1);
    assert_close(d_sink, (const double[]){-4}, 1);
    world.backend->close(world.device);
}

// Scores are roots of softplus: 2, 1 and 3. The bias lets the second be chosen in place of the
// first; a table says the first and the second, whatever their scores are.
static void experts_have_roots_as_scores_and_may_be_told(void **state)
{
    (void)state;
    struct world world = open_world();
    double x[3] = {log(expm1(4)), log(expm1(1)), log(expm1(9))}, bias[3] = {0, 1.5, 0}, w[3];
    int64_t told[2] = {1, 0};
    struct op op = {.name = "route",
                    .kind = OP_ROUTE,
                    .function = FUNCTION_ROUTE_ROOT,
                    .scalar = 2,
                    .top_k = 2};
    struct kernel_call call = {.op = &op, .input_count = 2, .output_count = 1};
    call.inputs[0] = ARRAY(x, GATES, 1, 1, 3);
    call.inputs[1] = ARRAY(bias, BIASES, 3);
    call.outputs[0] = ARRAY(w, GATES, 1, 1, 3);
    run(&world, &call);
    assert_close(w, (const double[]){0, 2 / 4.0, 2 * 3 / 4.0}, 3);
    call.inputs[1] = ARRAY(NULL, CHOSEN, 1, 1, 2);
    call.inputs[1].data = told;
    call.inputs[1].element = ELEMENT_INT64;
    run(&world, &call);
    assert_close(w, (const double[]){2 * 2 / 3.0, 2 / 3.0, 0}, 3);
    // d_logit = slope / 3 (2 d - sum of d w), slope = sigmoid / (2 score) of what was chosen.
    double d[3] = {3, 0, 7}, d_x[3];
    op.kind = OP_ROUTE_BACKWARD;
    call.input_count = 3;
    call.inputs[1] = call.inputs[0];
    call.inputs[0] = ARRAY(d, GATES, 1, 1, 3);
    call.inputs[2] = ARRAY(w, GATES, 1, 1, 3);
    call.outputs[0] = ARRAY(d_x, GATES, 1, 1, 3);
    run(&world, &call);
    double first = (1 - exp(-4)) / 4 / 3 * (6 - 4), second = (1 - exp(-1)) / 2 / 3 * (0 - 4);
    assert_close(d_x, (const double[]){first, second, 0}, 3);
    world.backend->close(world.device);
}

// Entry 1 of three tokens stands where token 3 does; what is turned back is what it was.
static void entries_turn_as_their_first_tokens(void **state)
{
    (void)state;
    struct world world = open_world();
    double x[6] = {1, 2, 3, 4, 5, 6}, tokens[12] = {0}, of_entries[6], of_tokens[12], back[6];
    memcpy(tokens + 9, x + 3, 3 * sizeof *x);
    struct op op = {.name = "rope",
                    .kind = OP_ELEMENTWISE,
                    .function = FUNCTION_ROPE,
                    .scalar = 10,
                    .rotary_dims = 2,
                    .rotary_first = 1,
                    .rate = 3};
    struct kernel_call call = {.op = &op, .input_count = 1, .output_count = 1};
    call.inputs[0] = ARRAY(x, ENTRIES, 1, 2, 3);
    call.outputs[0] = ARRAY(of_entries, ENTRIES, 1, 2, 3);
    run(&world, &call);
    struct kernel_call other = call;
    struct op by_token = op;
    static const enum dim PLACES[] = {DIM_BATCH, DIM_SEQ, DIM_HEAD_DIM};
    by_token.rate = 0;
    other.op = &by_token;
    other.inputs[0] = ARRAY(tokens, PLACES, 1, 4, 3);
    other.outputs[0] = ARRAY(of_tokens, PLACES, 1, 4, 3);
    run(&world, &other);
    assert_close(of_entries + 3, of_tokens + 9, 3);
    assert_close(of_entries + 3,
                 (const double[]){4, 5 * cos(3) - 6 * sin(3), 6 * cos(3) + 5 * sin(3)}, 3);
    op.function = FUNCTION_ROPE_BACK;
    call.inputs[0] = call.outputs[0];
    call.outputs[0] = ARRAY(back, ENTRIES, 1, 2, 3);
    run(&world, &call);
    for (int i = 0; i < 6; i++)
        assert_true(fabs(back[i] - x[i]) < 1e-14 * 8);
    world.backend->close(world.device);
}

// Token 3 may choose among two entries of two tokens, token 2 has one.
static void entries_are_chosen_once_they_are_whole(void **state)
{
    (void)state;
    struct world world = open_world();
    double q[2] = {1, 1}, k[2] = {1, 2}, w[2] = {1, 1}, chosen[2];
    struct op op = {.name = "choose", .kind = OP_CHOOSE, .scalar = 1, .causal = true, .top_k = 1};
    static const enum dim ASKED[] = {DIM_BATCH, DIM_SEQ, DIM_INDEX_HEAD, DIM_HEAD_DIM};
    static const enum dim SAID[] = {DIM_BATCH, DIM_SEQ, DIM_INDEX_HEAD};
    struct kernel_call call = {.op = &op, .input_count = 3, .output_count = 1};
    op.rate = 2;
    call.inputs[0] = ARRAY(q, ASKED, 1, 2, 1, 1);
    call.inputs[0].first[1] = 2;
    call.inputs[0].whole[1] = 4;
    call.inputs[1] = ARRAY(k, ENTRIES, 1, 2, 1);
    call.inputs[2] = ARRAY(w, SAID, 1, 2, 1);
    call.outputs[0] = ARRAY(chosen, CHOSEN, 1, 2, 1);
    run(&world, &call);
    assert_close(chosen, (const double[]){0, 1}, 2);
    world.backend->close(world.device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_columns_are_divided_in_turn),
        cmocka_unit_test(a_matrix_has_the_gradient_of_its_divisions),
        cmocka_unit_test(entries_are_means_by_gates),
        cmocka_unit_test(entries_overlap_where_channels_are_two_series),
        cmocka_unit_test(queries_see_near_tokens_and_entries_that_are_whole),
        cmocka_unit_test(attention_to_entries_has_the_gradient_of_keys_and_of_values),
        cmocka_unit_test(experts_have_roots_as_scores_and_may_be_told),
        cmocka_unit_test(entries_turn_as_their_first_tokens),
        cmocka_unit_test(entries_are_chosen_once_they_are_whole),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
