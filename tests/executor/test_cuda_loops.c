#include "tests/support/test.h"

#include "plan/attend_loops.h"
#include "tests/support/emulated.h"
#include "tests/support/image_case.h"

// Operators of imported graphs over rows, places and matrices of a sample, differences and
// quotients: the CUDA back end, its kernels on the host, against the CPU's in double precision,
// which tests/judges/moves.py holds against PyTorch.

enum { TRIALS = 12 };

static struct kernel_array numbers(int64_t samples, int64_t each)
{
    struct kernel_array array = image_vector(DIM_BATCH, samples, ELEMENT_COMPUTE);
    if (samples == 0) array.rank = 0;
    image_add_dim(&array, DIM_CHANNEL, (struct image_range){0, each, each});
    return array;
}

static struct image_call call_of(struct image_pair *pair, enum imported_kind type,
                                 const struct strided *loops, bool is_backward)
{
    static const char *const NAMES[] = {"forward", "backward"};
    struct image_call tried =
        image_call_new(pair, NAMES[is_backward], is_backward ? OP_OPERATOR_BACKWARD : OP_OPERATOR,
                       is_backward ? PHASE_BACKWARD : PHASE_FORWARD, type);
    tried.op.work.strided = loops;
    return tried;
}

// Far enough from 0 to divide by.
static const double *divisors(struct image_pair *pair, const struct kernel_array *array)
{
    double *values = ARENA_NEW(pair->arena, double, array_elements(array) + 1);
    for (int64_t i = 0; i < array_elements(array); i++)
        values[i] = (draw_int(&pair->draw, 0, 1) ? 1 : -1) * draw_int(&pair->draw, 32, 96) / 64.0;
    return values;
}

// a (rows, columns) beside b, which a row, a column or a weight of either repeats: many rows, so
// that gradients are added up in pieces.
static void check_pair(struct image_pair *pair, enum imported_kind type)
{
    struct draw *draw = &pair->draw;
    int64_t rows = draw_int(draw, 1, 300), columns = draw_int(draw, 1, 6);
    int way = draw_int(draw, 0, 2), samples = draw_int(draw, 1, 3);
    bool is_weight = draw_int(draw, 0, 1);
    struct strided s = {.count = 2, .sizes = {rows, columns}, .steps = {{columns, 1}}};
    s.steps[1][0] = way == 0 ? columns : way == 1 ? 1 : 0;
    s.steps[1][1] = way == 1 ? 0 : 1;
    int64_t each = way == 0 ? rows * columns : way == 1 ? rows : columns;
    struct kernel_array a = numbers(samples, rows * columns);
    struct kernel_array b = numbers(is_weight ? 0 : samples, each);
    bool divides = type == IMPORTED_DIVIDE;
    const double *by = divisors(pair, &b);
    struct image_call there = call_of(pair, type, &s, false), back = call_of(pair, type, &s, true);
    image_call_input(&there, a);
    image_call_input(&there, b);
    image_call_output(&there, a);
    there.inputs[1] = by;
    image_call_check(pair, &there, NULL);
    image_call_input(&back, a);
    if (divides) image_call_input(&back, b);
    if (divides) image_call_input(&back, a);
    if (divides) back.inputs[1] = by;
    image_call_output(&back, a);
    struct kernel_array *made = image_call_output(&back, b);
    if (is_weight) made->element = ELEMENT_FP32;
    image_call_check(pair, &back, NULL);
}

static void check_number(struct image_pair *pair, enum imported_kind type)
{
    struct kernel_array x = numbers(draw_int(&pair->draw, 1, 3), draw_int(&pair->draw, 1, 40));
    for (int i = 0; i < 2; i++) {
        struct image_call tried = call_of(pair, type, NULL, i);
        tried.op.work.scalar = -0.75;
        image_call_input(&tried, x);
        image_call_output(&tried, x);
        image_call_check(pair, &tried, NULL);
    }
}

// Of three dimensions one is summed over, and the others change places.
static void check_sums(struct image_pair *pair, enum imported_kind type)
{
    struct draw *draw = &pair->draw;
    int64_t a = draw_int(draw, 1, 5), b = draw_int(draw, 1, 200), c = draw_int(draw, 1, 5);
    int64_t samples = draw_int(draw, 1, 3);
    struct strided s = {.count = 3, .sizes = {a, b, c}, .steps = {{b * c, c, 1}, {1, 0, a}}};
    for (int i = 0; i < 2; i++) {
        struct image_call tried = call_of(pair, type, &s, i);
        struct kernel_array x = numbers(samples, a * b * c), y = numbers(samples, a * c);
        image_call_input(&tried, i ? y : x);
        image_call_output(&tried, i ? x : y);
        image_call_check(pair, &tried, NULL);
    }
}

static void check_pad(struct image_pair *pair)
{
    struct draw *draw = &pair->draw;
    int64_t rows = draw_int(draw, 1, 6), columns = draw_int(draw, 1, 6);
    int64_t above = draw_int(draw, 0, 2), left = draw_int(draw, 0, 2), right = draw_int(draw, 0, 2);
    int64_t width = left + columns + right, samples = draw_int(draw, 1, 3);
    struct strided s = {.count = 2,
                        .sizes = {rows, columns},
                        .first = {0, above * width + left},
                        .steps = {{columns, 1}, {width, 1}}};
    for (int i = 0; i < 2; i++) {
        struct image_call tried = call_of(pair, IMPORTED_PAD, &s, i);
        struct kernel_array x = numbers(samples, rows * columns);
        struct kernel_array y = numbers(samples, (above + rows + 1) * width);
        image_call_input(&tried, i ? y : x);
        image_call_output(&tried, i ? x : y);
        image_call_check(pair, &tried, NULL);
    }
}

// Rows side by side; the first of them may be a weight's, which every sample has.
static void check_join(struct image_pair *pair)
{
    struct draw *draw = &pair->draw;
    int64_t samples = draw_int(draw, 1, 3), rows = draw_int(draw, 1, 5), width = 0;
    if (draw_int(draw, 0, 3) == 0) samples = 130;
    struct image_call there = call_of(pair, IMPORTED_JOIN, NULL, false);
    struct image_call back = call_of(pair, IMPORTED_JOIN, NULL, true);
    int count = draw_int(draw, 1, 3);
    bool is_weight = draw_int(draw, 0, 1);
    for (int i = 0; i < count; i++) {
        int64_t own = draw_int(draw, 1, 9);
        bool is_each = i == 0 && is_weight;
        width += own;
        image_call_input(&there, numbers(is_each ? 0 : samples, rows * own));
        struct kernel_array *made =
            image_call_output(&back, numbers(is_each ? 0 : samples, rows * own));
        if (is_each) made->element = ELEMENT_FP32;
    }
    struct strided s = {.count = 1, .sizes = {rows}, .steps = {{width}}};
    there.op.work.strided = back.op.work.strided = &s;
    image_call_output(&there, numbers(samples, rows * width));
    image_call_input(&back, numbers(samples, rows * width));
    image_call_check(pair, &there, NULL);
    image_call_check(pair, &back, NULL);
}

static void check_softmax(struct image_pair *pair)
{
    struct draw *draw = &pair->draw;
    int64_t rows = draw_int(draw, 1, 5), width = draw_int(draw, 1, 300);
    struct kernel_array x = numbers(draw_int(draw, 1, 3), rows * width);
    struct strided s = {.count = 1, .sizes = {rows}, .steps = {{width}}};
    for (int i = 0; i < 2; i++) {
        struct image_call tried = call_of(pair, IMPORTED_SOFTMAX, &s, i);
        for (int k = 0; k <= i; k++)
            image_call_input(&tried, x);
        image_call_output(&tried, x);
        image_call_check(pair, &tried, NULL);
    }
}

// A product and the gradients of both factors, which stand behind them in the block.
static void check_products(struct image_pair *pair)
{
    struct draw *draw = &pair->draw;
    int64_t rows = draw_int(draw, 1, 9), depth = draw_int(draw, 1, 9),
            columns = draw_int(draw, 1, 9);
    int64_t samples = draw_int(draw, 1, 3), groups = draw_int(draw, 1, 4);
    struct kernel_array a = numbers(samples, groups * rows * depth);
    struct kernel_array b = numbers(samples, groups * depth * columns);
    struct kernel_array y = numbers(samples, groups * rows * columns);
    for (int way = 0; way < 3; way++) {
        struct image_call tried = image_call_new(
            pair, "products", OP_PRODUCT, way ? PHASE_BACKWARD : PHASE_FORWARD, IMPORTED_PRODUCTS);
        tried.op.work.rows = rows, tried.op.work.columns = columns, tried.op.work.depth = depth;
        tried.op.inputs[0] = way == 1 ? 2 : 0;
        tried.op.inputs[1] = way == 2 ? 2 : 1;
        image_call_input(&tried, way == 1 ? y : a);
        image_call_input(&tried, way == 2 ? y : b);
        image_call_output(&tried, way == 0 ? y : way == 1 ? a : b);
        image_call_check(pair, &tried, NULL);
    }
}

// Query, key and value as parts of one tensor's rows, as heads lie behind a projection, or heads
// behind one another; keys that heads share; samples and heads that GEMMs take together or not.
static void check_attention(struct image_pair *pair, bool is_causal)
{
    struct draw *draw = &pair->draw;
    int64_t samples = draw_int(draw, 1, 3), outer = draw_int(draw, 1, 3),
            inner = draw_int(draw, 1, 3);
    int64_t queries = draw_int(draw, 1, 12), depth = draw_int(draw, 1, 6),
            width = draw_int(draw, 1, 6);
    bool is_split = draw_int(draw, 0, 1), is_shared = draw_int(draw, 0, 1);
    int64_t keys = draw_int(draw, 0, 1) ? queries : draw_int(draw, 1, 40);
    if (draw_int(draw, 0, 3) == 0) queries = keys = 40;
    int64_t heads = outer * inner, of_keys = is_shared ? outer : heads;
    struct strided s = {.count = 6, .sizes = {outer, inner, queries, keys, depth, width}};
    const int64_t rows[] = {queries, keys, keys, queries}, sizes[] = {depth, depth, width, width};
    struct kernel_array sides[4];
    for (int i = 0; i < 4; i++) {
        bool is_of_keys = i == 1 || i == 2;
        int64_t count = is_of_keys ? of_keys : heads, shared = count / outer;
        int64_t head = is_split ? sizes[i] : rows[i] * sizes[i];
        s.steps[i][0] = head * shared;
        s.steps[i][1] = is_of_keys && is_shared ? 0 : head;
        s.steps[i][is_of_keys ? 3 : 2] = is_split ? count * sizes[i] : sizes[i];
        s.steps[i][i < 2 ? 4 : 5] = 1;
        sides[i] = numbers(samples, count * rows[i] * sizes[i]);
    }
    struct kernel_array sums = numbers(samples, heads * queries);
    sums.element = ELEMENT_FP32;
    for (int i = 0; i < 2; i++) {
        struct image_call tried =
            call_of(pair, is_causal ? IMPORTED_CAUSAL_ATTENTION : IMPORTED_ATTENTION, &s, i);
        tried.op.work.scalar = 0.75;
        if (i) image_call_input(&tried, sides[3]);
        for (int k = 0; k < 3; k++)
            image_call_input(&tried, sides[k]);
        for (int k = 0; k < (i ? 3 : 1); k++)
            image_call_output(&tried, sides[i ? k : 3]);
        if (!i) image_call_output(&tried, sums);
        image_call_check(pair, &tried, NULL);
    }
}

// Of 3 samples with 2 heads of keys, which 8 heads of queries share each: no GEMM of a batch adds
// to one gradient twice. Where nothing is shared, heads behind one another are one batch with the
// samples, in parts where scores are many.
static void heads_that_share_keys_are_no_batch(void **state)
{
    (void)state;
    struct strided s = {.count = 6, .sizes = {2, 8, 4, 5, 6, 6}};
    const int64_t shared[][2] = {{8 * 24, 24}, {30, 0}, {30, 0}, {8 * 24, 24}};
    for (int i = 0; i < 4; i++)
        s.steps[i][0] = shared[i][0], s.steps[i][1] = shared[i][1];
    struct attend_rounds r = attend_rounds(&s, 3, (const int64_t[]){384, 60, 60, 384}, 1 << 20);
    assert_int_equal(r.batch.count, 6);
    assert_int_equal(r.batch.steps[1], 30);
    assert_int_equal(r.rounds, 8);
    for (int i = 1; i < 3; i++)
        s.steps[i][0] = 8 * 30, s.steps[i][1] = 30;
    r = attend_rounds(&s, 3, (const int64_t[]){384, 480, 480, 384}, 1 << 20);
    assert_true(r.batch.count == 48 && r.rounds == 1 && r.heads == 48);
    r = attend_rounds(&s, 3, (const int64_t[]){384, 480, 480, 384}, 20 * 10 + 19);
    assert_true(r.heads == 10 && r.rounds == 5);
}

static void check_all(struct arena *arena, enum precision precision, double tolerance)
{
    struct image_pair pair = image_pair_open(arena, precision, tolerance);
    for (int i = 0; i < TRIALS; i++) {
        struct arena_mark mark = arena_mark(arena);
        check_pair(&pair, IMPORTED_SUBTRACT);
        check_pair(&pair, IMPORTED_DIVIDE);
        check_number(&pair, IMPORTED_SCALE);
        check_number(&pair, IMPORTED_SHIFT);
        check_sums(&pair, IMPORTED_ROW_SUM);
        check_sums(&pair, IMPORTED_ROW_MEAN);
        check_pad(&pair);
        check_join(&pair);
        check_softmax(&pair);
        check_products(&pair);
        check_attention(&pair, false);
        check_attention(&pair, true);
        arena_reset(arena, mark);
    }
    image_pair_close(&pair);
}

static void rows_and_places_equal_those_of_the_cpu(void **state)
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
        cmocka_unit_test(rows_and_places_equal_those_of_the_cpu),
        cmocka_unit_test(heads_that_share_keys_are_no_batch),
        cmocka_unit_test(in_bf16_they_are_as_right_as_its_numbers),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
