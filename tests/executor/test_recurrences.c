#include "executor/backend.h"
#include "models/op_delta.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>

// Scans and delta rules of the CPU in double precision: results by the equations of
// models/op_scan.h and models/op_delta.h, token after token, and gradients by differences of these.
// A rank has heads 2 .. 5 of eight, whose groups are 1 and 2 of four, of sequences of seven tokens:
// backward keeps a state for every few of them.

enum kind { BY_HEAD, BY_STATE, STEADY, DELTA, DELTA_CHANNELS, KIND_COUNT };
enum { BATCH = 2, SEQ = 7, TOKENS = BATCH * SEQ, HEADS = 4, GROUPS = 2, WIDTH = 3, STATE = 5 };
enum { FIRST_HEAD = 2, FIRST_GROUP = 1, HEADS_EACH = 2, INPUTS = 6, MOST = 512 };

static const double EPSILON = 0.01;

struct world {
    enum kind kind;
    const struct backend *backend;
    struct device *device;
    struct op op;
    struct kernel_array arrays[INPUTS], result;
    double in[INPUTS][MOST], y[MOST], d_y[MOST], d_in[INPUTS][MOST];
    int input_count, counts[INPUTS], y_count, width;
};

static bool is_delta(enum kind kind)
{
    return kind == DELTA || kind == DELTA_CHANNELS;
}

// Of dims that are whole here but for heads and their groups.
static struct kernel_array array_of(int rank, const enum dim *dims)
{
    struct kernel_array array = {.rank = rank, .element = ELEMENT_COMPUTE};
    for (int i = 0; i < rank; i++) {
        bool is_head = dims[i] == DIM_HEAD, is_group = dims[i] == DIM_KV_HEAD;
        int size = dims[i] == DIM_BATCH   ? BATCH
                   : dims[i] == DIM_SEQ   ? SEQ
                   : is_head              ? HEADS
                   : is_group             ? GROUPS
                   : dims[i] == DIM_STATE ? STATE
                                          : WIDTH;
        array.dims[i] = dims[i];
        array.sizes[i] = array.whole[i] = size;
        if (is_head || is_group) array.whole[i] = 2 * size;
        array.first[i] = is_head ? FIRST_HEAD : is_group ? FIRST_GROUP : 0;
    }
    return array;
}

#define ARRAY(...) \
    array_of((int)(sizeof((enum dim[]){__VA_ARGS__}) / sizeof(enum dim)), (enum dim[]){__VA_ARGS__})

static void name_arrays(struct world *world)
{
    enum kind kind = world->kind;
    int at = 0;
    struct kernel_array rows = ARRAY(DIM_BATCH, DIM_SEQ, DIM_HEAD, DIM_HEAD_DIM);
    struct kernel_array of_head = ARRAY(DIM_BATCH, DIM_SEQ, DIM_HEAD);
    struct kernel_array of_group = ARRAY(DIM_BATCH, DIM_SEQ, DIM_KV_HEAD, DIM_STATE);
    if (kind == BY_STATE) rows = of_head, of_group = ARRAY(DIM_BATCH, DIM_SEQ, DIM_STATE);
    world->arrays[at++] = world->result = rows;
    if (kind == DELTA_CHANNELS)
        world->arrays[at++] = ARRAY(DIM_BATCH, DIM_SEQ, DIM_HEAD, DIM_STATE);
    else if (kind != STEADY)
        world->arrays[at++] = of_head;
    world->arrays[at++] = of_group;
    world->arrays[at++] = of_group;
    world->arrays[at++] = kind == BY_STATE ? ARRAY(DIM_HEAD, DIM_STATE) : ARRAY(DIM_HEAD);
    if (is_delta(kind)) world->arrays[at++] = of_head;
    if (kind == BY_HEAD || kind == BY_STATE) world->arrays[at++] = ARRAY(DIM_HEAD);
    world->input_count = at;
    world->width = kind == BY_STATE ? 1 : WIDTH;
    world->y_count = TOKENS * HEADS * world->width;
}

static void open_world(struct world *world, enum kind kind)
{
    struct err err = {0};
    struct draw draw = {(uint64_t)kind + 1};
    *world = (struct world){.kind = kind, .backend = backend_open("cpu-fp64", &err)};
    assert_string_equal(err.text, "");
    assert_null(world->backend->open(0, &world->device));
    name_arrays(world);
    for (int i = 0; i < world->input_count; i++) {
        world->arrays[i].data = world->in[i];
        world->counts[i] = 1;
        for (int d = 0; d < world->arrays[i].rank; d++)
            world->counts[i] *= (int)world->arrays[i].sizes[d];
        assert_in_range(world->counts[i], 1, MOST);
        for (int e = 0; e < world->counts[i]; e++)
            world->in[i][e] = draw_int(&draw, -100, 100) / 100.0;
    }
    // Steps, rates and betas are above 0.
    for (int i = 0; i < world->input_count; i++)
        for (int e = 0; e < world->counts[i]; e++)
            if (i == 1 || i == 5 || (kind == STEADY && i == 3))
                world->in[i][e] = 0.1 + fabs(world->in[i][e]) / 2;
    for (int e = 0; e < world->y_count; e++)
        world->d_y[e] = draw_int(&draw, -100, 100) / 100.0;
    world->result.data = world->y;
    world->op = (struct op){.kind = is_delta(kind) ? OP_DELTA : OP_SCAN,
                            .name = "mix",
                            .input_count = world->input_count,
                            .output_count = 1,
                            .scalar = EPSILON};
}

static double length_of(const double *row)
{
    double squares = EPSILON;
    for (int n = 0; n < STATE; n++)
        squares += row[n] * row[n];
    return sqrt(squares);
}

// One token of one head: the state moves on, and gives the result of one channel after another.
static void step(const struct world *world, int token, int head, double (*s)[STATE], double *y)
{
    int group = (FIRST_HEAD + head) / HEADS_EACH - FIRST_GROUP, row = token * HEADS + head;
    const double(*in)[MOST] = world->in;
    const double *x = in[0] + row * world->width;
    int b_at = world->kind == STEADY ? 1 : 2;
    int group_row = world->kind == BY_STATE ? token : token * GROUPS + group;
    const double *b = in[b_at] + group_row * STATE, *c = in[b_at + 1] + group_row * STATE;
    double b_over = is_delta(world->kind) ? length_of(b) : 1,
           c_over = is_delta(world->kind) ? length_of(c) * sqrt(STATE) : 1;
    for (int p = 0; p < world->width; p++) {
        double recalled = 0, added = x[p];
        for (int n = 0; n < STATE; n++) {
            double dt = world->kind == STEADY           ? 1
                        : world->kind == DELTA_CHANNELS ? in[1][row * STATE + n]
                                                        : in[1][row];
            double rate = world->kind == STEADY     ? in[3][head]
                          : world->kind == BY_STATE ? exp(in[4][head * STATE + n])
                                                    : exp(in[4][head]);
            s[p][n] *= exp(-rate * dt);
            recalled += s[p][n] * b[n] / b_over;
        }
        if (is_delta(world->kind)) added = in[5][row] * (x[p] - recalled);
        if (world->kind == BY_HEAD || world->kind == BY_STATE) added = in[1][row] * x[p];
        y[p] = world->kind == BY_HEAD || world->kind == BY_STATE ? in[5][head] * x[p] : 0;
        for (int n = 0; n < STATE; n++) {
            s[p][n] += added * b[n] / b_over;
            y[p] += s[p][n] * c[n] / c_over;
        }
    }
}

static void forward_by_hand(const struct world *world, double *y)
{
    for (int i = 0; i < BATCH * HEADS; i++) {
        double s[WIDTH][STATE] = {{0}};
        for (int t = 0; t < SEQ; t++) {
            int token = i / HEADS * SEQ + t, head = i % HEADS;
            step(world, token, head, s, y + (token * HEADS + head) * world->width);
        }
    }
}

static double weighted(const struct world *world)
{
    double y[MOST], sum = 0;
    forward_by_hand(world, y);
    for (int e = 0; e < world->y_count; e++)
        sum += world->d_y[e] * y[e];
    return sum;
}

static void is_near(double found, double wanted, double tolerance)
{
    if (!(fabs(found - wanted) <= tolerance * (1 + fabs(wanted))))
        fail_msg("%.12g, by hand %.12g", found, wanted);
}

static struct kernel_call forward_call(const struct world *world)
{
    struct kernel_call call = {.op = &world->op,
                               .outputs = {world->result},
                               .input_count = world->input_count,
                               .output_count = 1};
    memcpy(call.inputs, world->arrays, sizeof world->arrays);
    return call;
}

static void results_are_those_of_the_equations(void **state)
{
    (void)state;
    for (enum kind kind = 0; kind < KIND_COUNT; kind++) {
        struct world world;
        double wanted[MOST];
        open_world(&world, kind);
        const struct kernel_call call = forward_call(&world);
        assert_null(world.backend->can_run(&call));
        assert_null(world.backend->run(world.device, STREAM_COMPUTE, &call));
        forward_by_hand(&world, wanted);
        for (int e = 0; e < world.y_count; e++)
            is_near(world.y[e], wanted[e], 1e-12);
        world.backend->close(world.device);
    }
}

// `adds`: 1 << output that has something already, of the sums over tokens or heads.
static struct kernel_call backward_call(struct world *world, unsigned adds)
{
    struct kernel_call call = {.op = &world->op,
                               .input_count = world->input_count + 1,
                               .output_count = world->kind == STEADY ? 3 : world->input_count,
                               .adds = adds};
    world->op.kind = is_delta(world->kind) ? OP_DELTA_BACKWARD : OP_SCAN_BACKWARD;
    world->op.phase = PHASE_BACKWARD;
    world->op.input_count = world->input_count + 1;
    call.inputs[0] = world->result;
    call.inputs[0].data = world->d_y;
    memcpy(call.inputs + 1, world->arrays, (size_t)world->input_count * sizeof *call.inputs);
    for (int i = 0; i < call.output_count; i++) {
        call.outputs[i] = world->arrays[i];
        call.outputs[i].data = world->d_in[i];
        for (int e = 0; e <= world->counts[i] && e < MOST; e++)
            world->d_in[i][e] = 3 + e % 5;
    }
    return call;
}

static void check_gradients(struct world *world, unsigned adds)
{
    const struct kernel_call call = backward_call(world, adds);
    int outputs = call.output_count;
    assert_null(world->backend->can_run(&call));
    assert_null(world->backend->run(world->device, STREAM_COMPUTE, &call));
    for (int i = 0; i < outputs; i++) {
        for (int e = 0; e < world->counts[i]; e++) {
            static const double STEP = 1e-5;
            double was = world->in[i][e], before = adds >> i & 1 ? 3 + e % 5 : 0;
            world->in[i][e] = was + STEP;
            double more = weighted(world);
            world->in[i][e] = was - STEP;
            double less = weighted(world);
            world->in[i][e] = was;
            is_near(world->d_in[i][e] - before, (more - less) / (2 * STEP), 1e-7);
        }
        if (world->counts[i] < MOST)
            assert_true(world->d_in[i][world->counts[i]] == 3 + world->counts[i] % 5);
    }
}

static void gradients_are_those_of_differences(void **state)
{
    static const unsigned SUMS[KIND_COUNT] = {0x3C, 0x3C, 0x6, 0x1C, 0x1C};
    (void)state;
    for (enum kind kind = 0; kind < KIND_COUNT; kind++) {
        for (int adds = 0; adds < 2; adds++) {
            struct world world;
            open_world(&world, kind);
            check_gradients(&world, adds ? SUMS[kind] : 0);
            world.backend->close(world.device);
        }
    }
}

static void half_a_sequence(struct kernel_call *call)
{
    call->inputs[0].whole[1] *= 2;
}
static void rows_apart(struct kernel_call *call)
{
    call->inputs[2].row_stride = 100;
}
static void groups_that_do_not_divide(struct kernel_call *call)
{
    call->inputs[2].whole[2] = 3;
}
static void heads_of_no_width(struct kernel_call *call)
{
    call->inputs[0].dims[2] = DIM_FFN;
}
static void steps_of_groups(struct kernel_call *call)
{
    call->inputs[1].dims[2] = DIM_KV_HEAD;
}
static void steps_of_other_channels(struct kernel_call *call)
{
    call->inputs[1].sizes[3]--;
}
static void beta_of_groups(struct kernel_call *call)
{
    call->inputs[5].dims[2] = DIM_KV_HEAD;
}

static void what_does_not_fit_is_refused(void **state)
{
    static const char WHOLE[] = "a scan wants its sequence whole",
                      APART[] = "a scan wants rows that follow one another",
                      GROUP[] = "heads of a scan are no multiple of its groups",
                      HEAD[] = "a scan wants (batch, seq, head, width) and a step for each head",
                      DT[] = "a delta rule wants a step for each head, or for each channel of its "
                             "keys",
                      BETA[] = "a delta rule wants a beta for each head";
    static const struct {
        enum kind kind;
        void (*breaks)(struct kernel_call *call);
        const char *fault;
    } CASES[] = {{BY_HEAD, half_a_sequence, WHOLE},
                 {BY_STATE, half_a_sequence, WHOLE},
                 {DELTA, half_a_sequence, WHOLE},
                 {BY_HEAD, rows_apart, APART},
                 {DELTA, rows_apart, APART},
                 {BY_HEAD, groups_that_do_not_divide, GROUP},
                 {DELTA, groups_that_do_not_divide, GROUP},
                 {BY_HEAD, heads_of_no_width, HEAD},
                 {STEADY, heads_of_no_width, HEAD},
                 {BY_STATE, heads_of_no_width, HEAD},
                 {BY_HEAD, steps_of_groups, HEAD},
                 {DELTA, steps_of_groups, DT},
                 {DELTA_CHANNELS, steps_of_other_channels, DT},
                 {DELTA, beta_of_groups, BETA}};
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct world world;
        open_world(&world, CASES[i].kind);
        struct kernel_call call = forward_call(&world);
        CASES[i].breaks(&call);
        const char *fault = world.backend->run(world.device, STREAM_COMPUTE, &call);
        if (!fault) fail_msg("case %zu runs", i);
        assert_string_equal(fault, CASES[i].fault);
        struct kernel_array broken[INPUTS];
        memcpy(broken, call.inputs, sizeof broken);
        call = backward_call(&world, 0);
        memcpy(call.inputs + 1, broken, sizeof broken);
        assert_string_equal(world.backend->run(world.device, STREAM_COMPUTE, &call),
                            CASES[i].fault);
        world.backend->close(world.device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_the_equations),
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
