#include "tests/support/test.h"

#include "models/op_image.h"
#include "tests/support/emulated.h"
#include "tests/support/image_case.h"

// Operators of imported graphs that go with loops over the numbers of a sample, norms of their rows
// and samples that are dropped: the CUDA back end, its kernels on the host, against the CPU's in
// double precision, which tests/judges/moves.py holds against PyTorch.

enum { TRIALS = 20 };

// Loops over an operand in any order: of which some are repeated, skip numbers, go backwards or
// leave out the first. How many numbers a sample of it has.
static int64_t draw_steps(struct draw *draw, struct strided *s, int i)
{
    int order[LOOPS_MOST] = {0};
    int64_t step = 1;
    for (int l = 0; l < s->count; l++) {
        int at = draw_int(draw, 0, l);
        order[l] = order[at];
        order[at] = l;
    }
    for (int k = 0; k < s->count; k++) {
        int l = order[k];
        int64_t size = s->sizes[l], skip = draw_int(draw, 0, 3) ? 1 : 2;
        int64_t before = draw_int(draw, 0, 3) ? 0 : 1;
        if (draw_int(draw, 0, 4) == 0) continue;
        bool turns = draw_int(draw, 0, 4) == 0;
        s->steps[i][l] = turns ? -step * skip : step * skip;
        s->first[i] += step * (before + (turns ? (size - 1) * skip : 0));
        step *= before + size * skip;
    }
    return step;
}

static struct kernel_array numbers_array(int64_t samples, int64_t each)
{
    struct kernel_array array = image_vector(DIM_BATCH, samples, ELEMENT_COMPUTE);
    if (samples == 0) array.rank = 0;
    image_add_dim(&array, DIM_CHANNEL, (struct image_range){0, each, each});
    return array;
}

static void check_strided(struct image_pair *pair, enum imported_kind type)
{
    struct draw *draw = &pair->draw;
    struct strided s = {.count = draw_int(draw, 0, 5)};
    struct kernel_array sides[2];
    int64_t samples = draw_int(draw, 1, 3), left = 3000;
    int parts = type == IMPORTED_MOVE ? 1 : 2;
    for (int l = 0; l < s.count; l++) {
        s.sizes[l] = draw_int(draw, 1, left > 40 && draw_int(draw, 0, 1) ? 40 : 4);
        left /= s.sizes[l];
    }
    for (int i = 0; i < parts; i++) {
        bool is_weight = type != IMPORTED_MOVE && draw_int(draw, 0, 2) == 0;
        sides[i] = numbers_array(is_weight ? 0 : samples, draw_steps(draw, &s, i));
    }
    struct kernel_array made = numbers_array(samples, strided_elements(&s));
    for (int i = 0; i < 2; i++) {
        struct image_call tried =
            image_call_new(pair, "loops", i ? OP_OPERATOR_BACKWARD : OP_OPERATOR,
                           i ? PHASE_BACKWARD : PHASE_FORWARD, type);
        tried.op.work.strided = &s;
        if (i) image_call_input(&tried, made);
        for (int k = 0; k < parts && (!i || type == IMPORTED_MULTIPLY); k++)
            image_call_input(&tried, sides[k]);
        for (int k = 0; k < (i ? parts : 1); k++) {
            struct kernel_array *to = image_call_output(&tried, i ? sides[k] : made);
            if (i && sides[k].rank == 1) to->element = ELEMENT_FP32;
        }
        image_call_check(pair, &tried, NULL);
    }
}

// A number for each of four channels, of whose 300 turns pieces end within a loop.
static void check_factor(struct image_pair *pair)
{
    const struct strided s = {.count = 2, .sizes = {4, 100}, .steps = {{100, 1}, {1, 0}}};
    struct kernel_array x = numbers_array(3, 400), factor = numbers_array(0, 4);
    struct image_call tried =
        image_call_new(pair, "factor", OP_OPERATOR_BACKWARD, PHASE_BACKWARD, IMPORTED_MULTIPLY);
    tried.op.work.strided = &s;
    image_call_input(&tried, x);
    image_call_input(&tried, x);
    image_call_input(&tried, factor);
    image_call_output(&tried, x);
    image_call_output(&tried, factor)->element = ELEMENT_FP32;
    image_call_check(pair, &tried, NULL);
}

// A matrix whose rows and columns change places, over several tiles of which the last are not full.
static void check_transpose(struct image_pair *pair)
{
    const struct strided s = {.count = 2, .sizes = {33, 70}, .steps = {{1, 33}}};
    struct kernel_array x = numbers_array(2, 33 * 70);
    for (int i = 0; i < 2; i++) {
        struct image_call tried =
            image_call_new(pair, "transpose", i ? OP_OPERATOR_BACKWARD : OP_OPERATOR,
                           i ? PHASE_BACKWARD : PHASE_FORWARD, IMPORTED_MOVE);
        tried.op.work.strided = &s;
        image_call_input(&tried, x);
        image_call_output(&tried, x);
        image_call_check(pair, &tried, NULL);
    }
}

static void check_split(struct image_pair *pair)
{
    struct draw *draw = &pair->draw;
    int64_t samples = draw_int(draw, 1, 3), rows = draw_int(draw, 1, 5), width = 0;
    struct image_call cut =
        image_call_new(pair, "split", OP_OPERATOR, PHASE_FORWARD, IMPORTED_SPLIT);
    struct image_call join =
        image_call_new(pair, "split", OP_OPERATOR_BACKWARD, PHASE_BACKWARD, IMPORTED_SPLIT);
    int count = draw_int(draw, 1, 4);
    for (int i = 0; i < count; i++) {
        int64_t own = draw_int(draw, 1, 20);
        width += own;
        image_call_output(&cut, numbers_array(samples, rows * own));
        image_call_input(&join, numbers_array(samples, rows * own));
    }
    struct strided s = {.count = 1, .sizes = {rows}, .steps = {{width}}};
    cut.op.work.strided = join.op.work.strided = &s;
    image_call_input(&cut, numbers_array(samples, rows * width));
    image_call_output(&join, numbers_array(samples, rows * width));
    image_call_check(pair, &cut, NULL);
    image_call_check(pair, &join, NULL);
}

static void check_row_norm(struct image_pair *pair)
{
    struct draw *draw = &pair->draw;
    int64_t samples = draw_int(draw, 1, 3), rows = draw_int(draw, 1, 5),
            width = draw_int(draw, 2, 40);
    struct kernel_array x = numbers_array(samples, rows * width);
    struct kernel_array factor = image_vector(DIM_CHANNEL, width, ELEMENT_COMPUTE);
    struct kernel_array kept = numbers_array(samples, rows);
    kept.element = ELEMENT_FP32;
    for (int i = 0; i < 2; i++) {
        struct image_call tried =
            image_call_new(pair, "row norm", i ? OP_OPERATOR_BACKWARD : OP_OPERATOR,
                           i ? PHASE_BACKWARD : PHASE_FORWARD, IMPORTED_LAYER_NORM);
        tried.op.work.scalar = 0.25;
        if (i) image_call_input(&tried, x);
        image_call_input(&tried, x);
        image_call_input(&tried, factor);
        if (!i) image_call_input(&tried, factor);
        image_call_output(&tried, x);
        for (int k = 0; k < 2; k++)
            image_call_output(&tried, i ? factor : kept)->element = ELEMENT_FP32;
        image_call_check(pair, &tried, NULL);
    }
}

static void check_drop_path(struct image_pair *pair)
{
    struct draw *draw = &pair->draw;
    int64_t samples = draw_int(draw, 1, 9);
    struct kernel_array x = numbers_array(samples, draw_int(draw, 1, 30));
    struct kernel_array mask = image_vector(DIM_BATCH, samples, ELEMENT_BYTE);
    x.first[0] = mask.first[0] = draw_int(draw, 0, 5);
    x.whole[0] = mask.whole[0] = samples + 5;
    for (int i = 0; i < 2; i++) {
        struct image_call tried =
            image_call_new(pair, "drop path", i ? OP_OPERATOR_BACKWARD : OP_OPERATOR,
                           i ? PHASE_BACKWARD : PHASE_FORWARD, IMPORTED_DROP_PATH);
        tried.op.work.scalar = 0.25;
        tried.call.key = 7;
        image_call_input(&tried, x);
        if (i) image_call_input(&tried, mask);
        image_call_output(&tried, x);
        if (!i) image_call_output(&tried, mask);
        image_call_check(pair, &tried, NULL);
    }
}

// Two turns of which read one number: gradients would be sums over parts of loops.
static void loops_that_overlap_are_of_cpus(void **state)
{
    (void)state;
    static const struct strided CASES[] = {
        {.count = 2, .sizes = {4, 3}, .steps = {{1, 1}}},
        {.count = 2, .sizes = {2, 4}, .steps = {{3, 1}}},
        {.count = 2, .sizes = {2, 4}, .steps = {{4, 1}}},
        {.count = 2, .sizes = {4, 2}, .steps = {{-1, 4}, {0, 1}}},
        {.count = 2, .sizes = {2, 3}, .steps = {{3, 1}, {2, -2}}},
    };
    static const bool IS_OF_CPUS[] = {true, true, false, false, true};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct op op = {.kind = OP_OPERATOR, .work = {.type = IMPORTED_ADD, .strided = &CASES[i]}};
        struct kernel_call call = {.op = &op};
        assert_int_equal(imported_is_of_cpus(&op.work), IS_OF_CPUS[i]);
        assert_int_equal(emulated_backend(PRECISION_FP32)->can_run(&call) != NULL, IS_OF_CPUS[i]);
    }
}

static void check_all(struct arena *arena, enum precision precision, double tolerance)
{
    struct image_pair pair = image_pair_open(arena, precision, tolerance);
    for (int i = 0; i < TRIALS; i++) {
        struct arena_mark mark = arena_mark(arena);
        for (int k = 0; k < 3; k++) {
            static const enum imported_kind KINDS[] = {IMPORTED_MOVE, IMPORTED_ADD,
                                                       IMPORTED_MULTIPLY};
            check_strided(&pair, KINDS[k]);
        }
        check_factor(&pair);
        check_transpose(&pair);
        check_split(&pair);
        check_row_norm(&pair);
        check_drop_path(&pair);
        arena_reset(arena, mark);
    }
    image_pair_close(&pair);
}

static void moves_and_sums_that_repeat_equal_those_of_the_cpu(void **state)
{
    check_all(*state, PRECISION_FP32, 2e-5);
}
static void in_bf16_they_are_as_right_as_its_numbers(void **state)
{
    check_all(*state, PRECISION_BF16, 2e-2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_and_sums_that_repeat_equal_those_of_the_cpu),
        cmocka_unit_test(in_bf16_they_are_as_right_as_its_numbers),
        cmocka_unit_test(loops_that_overlap_are_of_cpus),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
