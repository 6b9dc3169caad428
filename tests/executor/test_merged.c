#include "executor/backend.h"
#include "tests/support/test.h"

#include <math.h>

// GEMMs that run as one, on the CPU in double precision, against sums by plain loops: three members
// of 2, 3 and 1 columns, named in another order than they lie in, with results in rows of 6.

enum { MEMBERS = 3, BATCH = 2, SEQ = 2, ROWS = BATCH * SEQ, HIDDEN = 3, WIDTH = 6, TERMS = 5 };

// In the order in which they are named: where each begins in a row, and how wide it is.
static const int FIRST[MEMBERS] = {5, 0, 2}, COLUMNS[MEMBERS] = {1, 2, 3};

struct world {
    const struct backend *backend;
    struct device *device;
    double x[ROWS * HIDDEN], weight[WIDTH * HIDDEN], bias[WIDTH];
    double y[ROWS * WIDTH], sum[ROWS * WIDTH];  // what GEMMs make, and with biases
    double d_x[MEMBERS][ROWS * HIDDEN], d_other[ROWS * HIDDEN], d_sum[ROWS * HIDDEN];
    double d_weight[WIDTH * HIDDEN], d_bias[WIDTH];
    struct op gemm, other;
    struct kernel_call calls[2 * MEMBERS];
    int count;
};

static void fill(double *numbers, int count, double first, double step)
{
    for (int i = 0; i < count; i++)
        numbers[i] = first + step * ((i * 7) % 11);
}

static void open_world(struct world *world)
{
    struct err err = {0};
    *world = (struct world){.backend = backend_open("cpu-fp64", &err)};
    assert_string_equal(err.text, "");
    assert_null(world->backend->open(0, &world->device));
    fill(world->x, ROWS * HIDDEN, -2, 0.5);
    fill(world->weight, WIDTH * HIDDEN, 1, 0.25);
    fill(world->bias, WIDTH, 3, 2);
    fill(world->y, ROWS * WIDTH, -1, 0.75);
    fill(world->sum, ROWS * WIDTH, 5, 1);
    fill(world->d_other, ROWS * HIDDEN, 4, 1.5);
    fill(world->d_weight, WIDTH * HIDDEN, 7, 1);
    fill(world->d_bias, WIDTH, 9, 1);
    fill(world->d_sum, ROWS * HIDDEN, 50, 1);
    for (int m = 0; m < MEMBERS; m++)
        fill(world->d_x[m], ROWS * HIDDEN, 100, 1);
}

static void close_world(struct world *world)
{
    world->backend->close(world->device);
}

static struct kernel_array rows_of(double *data, enum dim dim, int columns, int stride)
{
    return (struct kernel_array){.data = data,
                                 .rank = 3,
                                 .element = ELEMENT_COMPUTE,
                                 .dims = {DIM_BATCH, DIM_SEQ, dim},
                                 .sizes = {BATCH, SEQ, columns},
                                 .whole = {BATCH, SEQ, columns},
                                 .row_stride = stride};
}

static struct kernel_array member_rows(double *data, int member)
{
    return rows_of(data + FIRST[member], DIM_FFN, COLUMNS[member], WIDTH);
}

static struct kernel_array member_weight(double *data, int member)
{
    int columns = COLUMNS[member];
    return (struct kernel_array){.data = data + FIRST[member] * HIDDEN,
                                 .rank = 2,
                                 .element = ELEMENT_COMPUTE,
                                 .dims = {DIM_FFN, DIM_HIDDEN},
                                 .sizes = {columns, HIDDEN},
                                 .whole = {columns, HIDDEN}};
}

static struct kernel_array member_bias(double *data, int member)
{
    return (struct kernel_array){.data = data + FIRST[member],
                                 .rank = 1,
                                 .element = ELEMENT_COMPUTE,
                                 .dims = {DIM_FFN},
                                 .sizes = {COLUMNS[member]},
                                 .whole = {COLUMNS[member]}};
}

static struct kernel_call *add_call(struct world *world, const struct op *op, int input_count)
{
    struct kernel_call *call = &world->calls[world->count++];
    *call = (struct kernel_call){
        .op = op, .input_count = input_count, .output_count = 1, .merged = true};
    return call;
}

static void make_forward(struct world *world, bool has_bias)
{
    world->gemm = (struct op){.kind = OP_CONTRACT, .scalar = 1, .name = "gemm"};
    world->other = (struct op){.kind = OP_ADD, .name = "add"};
    for (int m = 0; m < MEMBERS; m++) {
        struct kernel_call *call = add_call(world, &world->gemm, 2);
        call->inputs[0] = rows_of(world->x, DIM_HIDDEN, HIDDEN, 0);
        call->inputs[1] = member_weight(world->weight, m);
        call->outputs[0] = member_rows(world->y, m);
    }
    for (int m = 0; m < MEMBERS && has_bias; m++) {
        struct kernel_call *call = add_call(world, &world->other, 2);
        call->inputs[0] = member_rows(world->y, m);
        call->inputs[1] = member_bias(world->bias, m);
        call->outputs[0] = member_rows(world->sum, m);
    }
}

static void make_backward(struct world *world)
{
    world->gemm =
        (struct op){.kind = OP_CONTRACT, .scalar = 1, .phase = PHASE_BACKWARD, .name = "gemm"};
    world->other = (struct op){.kind = OP_ADD, .phase = PHASE_BACKWARD, .name = "add"};
    for (int m = 0; m < MEMBERS; m++) {
        struct kernel_call *call = add_call(world, &world->gemm, 2);
        call->inputs[0] = member_rows(world->y, m);
        call->inputs[1] = member_weight(world->weight, m);
        call->outputs[0] = rows_of(world->d_x[m], DIM_HIDDEN, HIDDEN, 0);
    }
    struct kernel_call *sum = add_call(world, &world->other, MEMBERS + 1);
    for (int m = 0; m < MEMBERS; m++)
        sum->inputs[m + (m > 0)] = rows_of(world->d_x[m], DIM_HIDDEN, HIDDEN, 0);
    sum->inputs[1] = rows_of(world->d_other, DIM_HIDDEN, HIDDEN, 0);
    sum->outputs[0] = rows_of(world->d_sum, DIM_HIDDEN, HIDDEN, 0);
}

static void make_weights(struct world *world, bool has_bias, bool swapped, unsigned adds)
{
    world->gemm =
        (struct op){.kind = OP_CONTRACT, .scalar = 1, .phase = PHASE_WEIGHT, .name = "gemm"};
    world->other = (struct op){.kind = OP_REDUCE, .phase = PHASE_WEIGHT, .name = "reduce"};
    for (int m = 0; m < MEMBERS; m++) {
        struct kernel_call *call = add_call(world, &world->gemm, 2);
        call->inputs[swapped] = member_rows(world->y, m);
        call->inputs[!swapped] = rows_of(world->x, DIM_HIDDEN, HIDDEN, 0);
        call->outputs[0] = member_weight(world->d_weight, m);
        call->adds = adds;
    }
    for (int m = 0; m < MEMBERS && has_bias; m++) {
        struct kernel_call *call = add_call(world, &world->other, 1);
        call->inputs[0] = member_rows(world->y, m);
        call->outputs[0] = member_bias(world->d_bias, m);
        call->adds = adds;
    }
}

static const char *run(struct world *world)
{
    return world->backend->run_joined(world->device, STREAM_COMPUTE, world->calls, world->count);
}

static void is_near(double found, double wanted)
{
    if (fabs(found - wanted) > 1e-12 * (1 + fabs(wanted)))
        fail_msg("%.17g, by hand %.17g", found, wanted);
}

static void forward_makes_all_results_and_sums(void **state)
{
    (void)state;
    for (int has_bias = 0; has_bias < 2; has_bias++) {
        struct world world;
        open_world(&world);
        make_forward(&world, has_bias);
        assert_null(run(&world));
        for (int r = 0; r < ROWS; r++) {
            for (int c = 0; c < WIDTH; c++) {
                double y = 0;
                for (int h = 0; h < HIDDEN; h++)
                    y += world.x[r * HIDDEN + h] * world.weight[c * HIDDEN + h];
                if (!has_bias) is_near(world.y[r * WIDTH + c], y);
                if (has_bias) is_near(world.sum[r * WIDTH + c], y + world.bias[c]);
            }
        }
        close_world(&world);
    }
}

static void backward_makes_the_sum_of_all(void **state)
{
    struct world world;
    (void)state;
    open_world(&world);
    make_backward(&world);
    assert_null(run(&world));
    for (int r = 0; r < ROWS; r++) {
        for (int h = 0; h < HIDDEN; h++) {
            double sum = world.d_other[r * HIDDEN + h];
            for (int c = 0; c < WIDTH; c++)
                sum += world.y[r * WIDTH + c] * world.weight[c * HIDDEN + h];
            is_near(world.d_sum[r * HIDDEN + h], sum);
        }
    }
    close_world(&world);
}

static void gradients_of_weights_and_biases_lie_side_by_side(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        struct world world;
        double was[WIDTH * HIDDEN], was_bias[WIDTH];
        bool has_bias = i & 1, adds = i & 4;
        open_world(&world);
        memcpy(was, world.d_weight, sizeof was);
        memcpy(was_bias, world.d_bias, sizeof was_bias);
        make_weights(&world, has_bias, i & 2, adds);
        assert_null(run(&world));
        for (int c = 0; c < WIDTH; c++) {
            double bias = 0;
            for (int r = 0; r < ROWS; r++)
                bias += world.y[r * WIDTH + c];
            is_near(world.d_bias[c], !has_bias ? was_bias[c] : bias + adds * was_bias[c]);
            for (int h = 0; h < HIDDEN; h++) {
                double sum = adds * was[c * HIDDEN + h];
                for (int r = 0; r < ROWS; r++)
                    sum += world.y[r * WIDTH + c] * world.x[r * HIDDEN + h];
                is_near(world.d_weight[c * HIDDEN + h], sum);
            }
        }
        close_world(&world);
    }
}

// Each of these keeps the group from being one GEMM.
enum phase_made { FORWARD, BACKWARD, WEIGHTS };

static void shift(struct kernel_array *array)
{
    array->data = (double *)array->data + 1;
}
static void weight_apart(struct kernel_call *calls)
{
    shift(&calls[2].inputs[1]);
}
static void weight_of_other_elements(struct kernel_call *calls)
{
    calls[2].inputs[1].element = ELEMENT_FP32;
}
static void result_apart(struct kernel_call *calls)
{
    shift(&calls[0].outputs[0]);
}
static void result_of_another_stride(struct kernel_call *calls)
{
    calls[0].outputs[0].row_stride = WIDTH + 1;
}
static void rows_too_long(struct kernel_call *calls)
{
    for (int m = 0; m < MEMBERS; m++)
        calls[m].outputs[0].row_stride = WIDTH + 1;
}
static void bias_apart(struct kernel_call *calls)
{
    shift(&calls[MEMBERS].inputs[1]);
}
static void bias_of_one_lacks(struct kernel_call *calls)
{
    calls[MEMBERS + 2] = calls[MEMBERS + 1];
}
static void sum_apart(struct kernel_call *calls)
{
    shift(&calls[MEMBERS].outputs[0]);
}
static void term_apart(struct kernel_call *calls)
{
    shift(&calls[MEMBERS].inputs[0]);
}
static void terms_of_something_else(struct kernel_call *calls)
{
    for (int m = 0; m < MEMBERS; m++)
        calls[MEMBERS + m].inputs[0].data = (double *)calls[MEMBERS + m].inputs[0].data + WIDTH;
}
static void one_gradient_apart(struct kernel_call *calls)
{
    shift(&calls[0].inputs[0]);
}
static void one_adds(struct kernel_call *calls)
{
    calls[1].adds = 1;
}
static void one_bias_adds(struct kernel_call *calls)
{
    calls[MEMBERS + 1].adds = 1;
}
static void weight_gradient_apart(struct kernel_call *calls)
{
    shift(&calls[0].outputs[0]);
}

struct broken {
    enum phase_made phase;
    void (*breaks)(struct kernel_call *calls);
    int calls;  // fewer than there are; 0: all
};

static const struct broken BROKEN[] = {
    {FORWARD, weight_apart, 0},
    {FORWARD, weight_of_other_elements, 0},
    {FORWARD, result_apart, 0},
    {FORWARD, result_of_another_stride, 0},
    {FORWARD, rows_too_long, 0},
    {FORWARD, bias_apart, 0},
    {FORWARD, bias_of_one_lacks, 0},
    {FORWARD, sum_apart, 0},
    {FORWARD, term_apart, 0},
    {FORWARD, terms_of_something_else, 0},
    {FORWARD, NULL, 1},
    {FORWARD, NULL, 2 * MEMBERS - 1},
    {BACKWARD, one_gradient_apart, 0},
    {BACKWARD, weight_apart, 0},
    {BACKWARD, NULL, MEMBERS},
    {WEIGHTS, one_gradient_apart, 0},
    {WEIGHTS, one_adds, 0},
    {WEIGHTS, one_bias_adds, 0},
    {WEIGHTS, weight_gradient_apart, 0},
    {WEIGHTS, sum_apart, 0},
    {WEIGHTS, term_apart, 0},
    {WEIGHTS, NULL, 2 * MEMBERS - 1},
};

static void what_lies_apart_is_no_gemm(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof BROKEN / sizeof *BROKEN; i++) {
        const struct broken *broken = &BROKEN[i];
        struct world world;
        open_world(&world);
        if (broken->phase == FORWARD) make_forward(&world, true);
        if (broken->phase == BACKWARD) make_backward(&world);
        if (broken->phase == WEIGHTS) make_weights(&world, true, false, 0);
        if (broken->breaks) broken->breaks(world.calls);
        if (broken->calls) world.count = broken->calls;
        const char *fault = run(&world);
        if (!fault) fail_msg("case %zu runs", i);
        assert_string_equal(fault, "operands of one GEMM for several lie apart");
        close_world(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_makes_all_results_and_sums),
        cmocka_unit_test(backward_makes_the_sum_of_all),
        cmocka_unit_test(gradients_of_weights_and_biases_lie_side_by_side),
        cmocka_unit_test(what_lies_apart_is_no_gemm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
