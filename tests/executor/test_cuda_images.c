#include "tests/support/test.h"

#include "tests/support/image_case.h"

// Operators of imported graphs on images, whole ones and parts with what their windows reach: the
// CUDA back end, its kernels on the host, against the CPU's in double precision, which
// tests/judges/images.py holds against PyTorch.

enum { TRIALS = 20 };

// A window, some places of its narrow side, and what these reach of the wide side.
static void draw_window(struct draw *draw, bool is_pool, bool is_plain, struct window *window,
                        struct image_range *narrow, struct image_range *wide)
{
    int64_t whole = draw_int(draw, 6, 9);
    window->taps = draw_int(draw, 1, 3);
    window->stride = draw_int(draw, 1, 3);
    window->dilation = draw_int(draw, 1, 2);
    int64_t span = window->dilation * (window->taps - 1) + 1;
    window->pad = draw_int(draw, 0, (int)(is_pool ? span / 2 : span));
    if (is_plain) *window = (struct window){1, 1, 1, 0}, span = 1;
    *narrow = draw_range(draw, (whole + 2 * window->pad - span) / window->stride + 1);
    int64_t first = narrow->first * window->stride - window->pad;
    int64_t end = first + (narrow->count - 1) * window->stride + span;
    first = first < 0 ? 0 : first < whole ? first : whole;
    end = end < first ? first : end < whole ? end : whole;
    *wide = (struct image_range){first, end - first, whole};
}

struct sides {
    struct sizes wide, narrow;
    struct window windows[WINDOW_DIMS];
};

static struct sides draw_sides(struct draw *draw, bool is_pool)
{
    struct sides s = {.wide = {.batch = draw_int(draw, 1, 3), .channels = draw_int(draw, 1, 4)}};
    s.narrow = s.wide;
    // The wide side of a convolution is its matrix.
    bool is_plain = draw_int(draw, 0, 2) == 0 && !is_pool;
    if (draw_int(draw, 0, 3))
        draw_window(draw, is_pool, is_plain, &s.windows[0], &s.narrow.height, &s.wide.height);
    draw_window(draw, is_pool, is_plain, &s.windows[1], &s.narrow.width, &s.wide.width);
    return s;
}

static void check_convolution(struct image_pair *pair)
{
    struct draw *draw = &pair->draw;
    struct sides s = draw_sides(draw, false);
    bool is_turned = draw_int(draw, 0, 1);
    int64_t groups = draw_int(draw, 1, 3), most = draw_int(draw, 0, 2) ? 3 : 1;
    s.wide.channels = groups * draw_int(draw, 1, (int)most);
    s.narrow.channels = groups * draw_int(draw, 1, (int)most);
    (is_turned ? &s.wide : &s.narrow)->is_inward = draw_int(draw, 0, 3) == 0;
    struct kernel_array wide = image_array(&s.wide), narrow = image_array(&s.narrow);
    int64_t taps = (s.windows[0].taps ? s.windows[0].taps : 1) * s.windows[1].taps;
    struct kernel_array weight = image_vector(DIM_OUT_CHANNEL, s.narrow.channels, ELEMENT_COMPUTE);
    image_add_dim(&weight, DIM_CHANNEL,
                  (struct image_range){0, s.wide.channels / groups, s.wide.channels});
    image_add_dim(&weight, DIM_TAP, (struct image_range){0, taps, taps});
    static const enum phase PHASES[] = {PHASE_FORWARD, PHASE_BACKWARD, PHASE_WEIGHT};
    for (int i = 0; i < 3; i++) {
        struct image_call tried = image_call_new(pair, "convolution", OP_PRODUCT, PHASES[i],
                                                 is_turned ? IMPORTED_CONV_TURNED : IMPORTED_CONV);
        struct kernel_array x = is_turned ? narrow : wide, y = is_turned ? wide : narrow;
        memcpy(tried.op.work.windows, s.windows, sizeof s.windows);
        tried.op.work.groups = groups;
        image_call_input(&tried, PHASES[i] == PHASE_BACKWARD ? y : x);
        image_call_input(&tried, PHASES[i] == PHASE_WEIGHT ? y : weight);
        image_call_output(&tried, PHASES[i] == PHASE_FORWARD  ? y
                                  : PHASES[i] == PHASE_WEIGHT ? weight
                                                              : x);
        if (PHASES[i] == PHASE_WEIGHT) tried.call.outputs[0].element = ELEMENT_FP32;
        image_call_check(pair, &tried, NULL);
    }
}

static void check_matrix(struct image_pair *pair)
{
    struct draw *draw = &pair->draw;
    int64_t rows = draw_int(draw, 1, 6), depth = draw_int(draw, 1, 5),
            columns = draw_int(draw, 1, 5);
    bool is_turned = draw_int(draw, 0, 1);
    struct kernel_array x = image_vector(DIM_BATCH, rows, ELEMENT_COMPUTE), y = x;
    struct kernel_array weight =
        image_vector(DIM_OUT_CHANNEL, is_turned ? columns : depth, ELEMENT_COMPUTE);
    struct image_range wide = {0, depth, depth}, narrow = {0, columns, columns};
    image_add_dim(&x, DIM_CHANNEL, wide);
    image_add_dim(&y, DIM_VOCAB, narrow);
    image_add_dim(&weight, DIM_CHANNEL, is_turned ? wide : narrow);
    for (int i = 0; i < 3; i++) {
        static const enum phase PHASES[] = {PHASE_FORWARD, PHASE_BACKWARD, PHASE_WEIGHT};
        struct image_call tried =
            image_call_new(pair, "matrix", OP_PRODUCT, PHASES[i],
                           is_turned ? IMPORTED_MATRIX_TURNED : IMPORTED_MATRIX);
        tried.op.work.depth = depth, tried.op.work.columns = columns, tried.op.work.groups = 1;
        image_call_input(&tried, i == 1 ? y : x);
        image_call_input(&tried, i == 2 ? y : weight);
        image_call_output(&tried, i == 0 ? y : i == 1 ? x : weight);
        if (i == 2) tried.call.outputs[0].element = ELEMENT_FP32;
        image_call_check(pair, &tried, NULL);
    }
}

static void check_pool(struct image_pair *pair)
{
    struct sides s = draw_sides(&pair->draw, true);
    bool is_max = draw_int(&pair->draw, 0, 1);
    enum imported_kind type = is_max ? IMPORTED_MAX_POOL : IMPORTED_AVERAGE_POOL;
    double *made[OP_OUTPUT_MAX];
    struct kernel_array kept = image_array(&s.narrow);
    kept.element = ELEMENT_INT64;
    double scalar = draw_int(&pair->draw, 0, 1);
    for (int i = 0; i < 2; i++) {
        struct image_call tried =
            image_call_new(pair, "pool", i ? OP_OPERATOR_BACKWARD : OP_OPERATOR,
                           i ? PHASE_BACKWARD : PHASE_FORWARD, type);
        memcpy(tried.op.work.windows, s.windows, sizeof s.windows);
        tried.op.work.scalar = scalar;
        image_call_input(&tried, image_array(i ? &s.narrow : &s.wide));
        image_call_output(&tried, image_array(i ? &s.wide : &s.narrow));
        if (is_max && i) image_call_input(&tried, kept), tried.inputs[1] = made[1];
        if (is_max && !i) image_call_output(&tried, kept);
        image_call_check(pair, &tried, made);
    }
}

static struct sizes draw_sizes(struct draw *draw)
{
    return (struct sizes){.batch = draw_int(draw, 1, 3),
                          .channels = draw_int(draw, 1, 5),
                          .height = draw_range(draw, draw_int(draw, 1, 5)),
                          .width = draw_range(draw, draw_int(draw, 1, 5)),
                          .is_inward = draw_int(draw, 0, 4) == 0};
}

static void check_functions(struct image_pair *pair)
{
    static const enum imported_kind KINDS[] = {
        IMPORTED_RELU,         IMPORTED_LEAKY_RELU, IMPORTED_ELU,      IMPORTED_CLIP,
        IMPORTED_SIGMOID,      IMPORTED_TANH,       IMPORTED_GELU,     IMPORTED_SWISH,
        IMPORTED_HARD_SIGMOID, IMPORTED_HARD_SWISH, IMPORTED_SOFTPLUS, IMPORTED_MISH};
    for (size_t k = 0; k < sizeof KINDS / sizeof *KINDS; k++) {
        struct sizes sizes = draw_sizes(&pair->draw), other = sizes;
        other.is_inward = false;
        for (int i = 0; i < 2; i++) {
            struct image_call tried =
                image_call_new(pair, "function", i ? OP_OPERATOR_BACKWARD : OP_OPERATOR,
                               i ? PHASE_BACKWARD : PHASE_FORWARD, KINDS[k]);
            tried.op.work.scalar = draw_int(&pair->draw, 0, 1) * 0.3125;
            image_call_input(&tried, image_array(&sizes));
            if (i) image_call_input(&tried, image_array(&other));
            image_call_output(&tried, image_array(&other));
            image_call_check(pair, &tried, NULL);
        }
    }
}

static void check_joined(struct image_pair *pair)
{
    struct sizes whole = draw_sizes(&pair->draw), part = whole;
    struct image_call join =
        image_call_new(pair, "join", OP_OPERATOR, PHASE_FORWARD, IMPORTED_CONCAT);
    struct image_call cut =
        image_call_new(pair, "join", OP_OPERATOR_BACKWARD, PHASE_BACKWARD, IMPORTED_CONCAT);
    int count = draw_int(&pair->draw, 1, 4);
    whole.channels = 0;
    for (int i = 0; i < count; i++) {
        part.channels = draw_int(&pair->draw, 1, 3);
        whole.channels += part.channels;
        image_call_input(&join, image_array(&part));
        image_call_output(&cut, image_array(&part));
    }
    image_call_output(&join, image_array(&whole));
    image_call_input(&cut, image_array(&whole));
    image_call_check(pair, &join, NULL);
    image_call_check(pair, &cut, NULL);
}

// Some rows of the large side, and those of the small side that they are made from.
static struct image_range repeated(struct image_range large, int64_t times)
{
    int64_t first = large.first / times, last = (large.first + large.count - 1) / times;
    return (struct image_range){first, last - first + 1, large.whole / times};
}

static void check_resize(struct image_pair *pair)
{
    struct draw *draw = &pair->draw;
    int64_t rows = draw_int(draw, 1, 3), columns = draw_int(draw, 1, 3);
    struct sizes large = draw_sizes(draw), small;
    large.height = draw_range(draw, rows * draw_int(draw, 1, 3));
    large.width = draw_range(draw, columns * draw_int(draw, 1, 3));
    small = large;
    small.height = repeated(large.height, rows);
    small.width = repeated(large.width, columns);
    for (int i = 0; i < 2; i++) {
        struct image_call tried =
            image_call_new(pair, "resize", i ? OP_OPERATOR_BACKWARD : OP_OPERATOR,
                           i ? PHASE_BACKWARD : PHASE_FORWARD, IMPORTED_RESIZE);
        image_call_input(&tried, image_array(i ? &large : &small));
        image_call_output(&tried, image_array(i ? &small : &large));
        image_call_check(pair, &tried, NULL);
    }
}

// Of whole images, to more places or to fewer.
static void check_linear_resize(struct image_pair *pair)
{
    struct draw *draw = &pair->draw;
    struct sizes sizes[2];
    double way = draw_int(draw, 1, 2);
    for (int i = 0; i < 2; i++) {
        int64_t height = draw_int(draw, 1, 9), width = draw_int(draw, 1, 9);
        sizes[i] = (struct sizes){2, 2, {0, height, height}, {0, width, width}, false};
    }
    for (int i = 0; i < 2; i++) {
        struct image_call tried =
            image_call_new(pair, "resize", i ? OP_OPERATOR_BACKWARD : OP_OPERATOR,
                           i ? PHASE_BACKWARD : PHASE_FORWARD, IMPORTED_RESIZE);
        tried.op.work.scalar = way;
        image_call_input(&tried, image_array(&sizes[i]));
        image_call_output(&tried, image_array(&sizes[1 - i]));
        image_call_check(pair, &tried, NULL);
    }
}

static void check_product(struct image_pair *pair)
{
    struct sizes whole = draw_sizes(&pair->draw), part[2] = {whole, whole};
    static const struct image_range ONE = {0, 1, 1};
    int small = draw_int(&pair->draw, 0, 1), kind = draw_int(&pair->draw, 0, 3);
    if (kind & 1) part[small].height = part[small].width = ONE;
    if (kind & 2) part[small].channels = 1;
    for (int i = 0; i < 2; i++) {
        struct image_call tried =
            image_call_new(pair, "product", i ? OP_OPERATOR_BACKWARD : OP_OPERATOR,
                           i ? PHASE_BACKWARD : PHASE_FORWARD, IMPORTED_MULTIPLY);
        if (i) image_call_input(&tried, image_array(&whole));
        image_call_input(&tried, image_array(&part[0]));
        image_call_input(&tried, image_array(&part[1]));
        image_call_output(&tried, image_array(i ? &part[0] : &whole));
        if (i) image_call_output(&tried, image_array(&part[1]));
        image_call_check(pair, &tried, NULL);
    }
}

static void check_mean(struct image_pair *pair)
{
    struct sizes whole = draw_sizes(&pair->draw), mean = whole;
    mean.height = mean.width = (struct image_range){0, 1, 1};
    mean.is_inward = false;
    for (int i = 0; i < 2; i++) {
        struct image_call tried =
            image_call_new(pair, "mean", i ? OP_OPERATOR_BACKWARD : OP_OPERATOR,
                           i ? PHASE_BACKWARD : PHASE_FORWARD, IMPORTED_GLOBAL_AVERAGE_POOL);
        image_call_input(&tried, image_array(i ? &mean : &whole));
        image_call_output(&tried, image_array(i ? &whole : &mean));
        image_call_check(pair, &tried, NULL);
    }
}

static void check_dropout(struct image_pair *pair)
{
    struct sizes sizes = draw_sizes(&pair->draw);
    struct kernel_array mask = image_array(&sizes);
    mask.element = ELEMENT_BYTE;
    for (int i = 0; i < 2; i++) {
        struct image_call tried =
            image_call_new(pair, "dropout", i ? OP_OPERATOR_BACKWARD : OP_OPERATOR,
                           i ? PHASE_BACKWARD : PHASE_FORWARD, IMPORTED_DROPOUT);
        tried.op.work.scalar = 0.25;
        tried.call.key = 7;
        image_call_input(&tried, image_array(&sizes));
        if (i) image_call_input(&tried, mask);
        image_call_output(&tried, image_array(&sizes));
        if (!i) image_call_output(&tried, mask);
        image_call_check(pair, &tried, NULL);
    }
}

// Statistics are of sets: channels of all samples, of each, or groups of channels of each.
static struct image_call norm_call(struct image_pair *pair, const struct sizes *sizes,
                                   enum imported_kind type, int64_t groups, int phase)
{
    struct image_call tried =
        image_call_new(pair, "norm", phase ? OP_OPERATOR_BACKWARD : OP_OPERATOR,
                       phase ? PHASE_BACKWARD : PHASE_FORWARD, type);
    struct kernel_array x = image_array(sizes), stats = {.element = ELEMENT_FP32};
    struct kernel_array factor = image_vector(DIM_CHANNEL, sizes->channels, ELEMENT_COMPUTE);
    struct image_range batch = {0, sizes->batch, sizes->batch};
    tried.op.work.scalar = 0.25;
    if (type != IMPORTED_BATCH_NORM) image_add_dim(&stats, DIM_BATCH, batch);
    image_add_dim(&stats, DIM_CHANNEL, (struct image_range){0, groups, groups});
    image_call_input(&tried, x);
    if (phase) image_call_input(&tried, x);
    image_call_input(&tried, factor);
    image_call_input(&tried, phase ? stats : factor);
    if (phase) image_call_input(&tried, stats);
    bool is_wanted = !phase || draw_int(&pair->draw, 0, 3);
    if (is_wanted) image_call_output(&tried, x);
    if (phase) stats = factor, stats.element = ELEMENT_FP32;
    image_call_output(&tried, stats);
    image_call_output(&tried, stats);
    return tried;
}

// A rank has the upper rows and the other those below.
static void check_norm_of_parts(struct image_pair *pair, struct sizes sizes,
                                enum imported_kind type, int64_t groups, int phase)
{
    struct image_call ranks[2];
    int64_t upper = sizes.height.whole - 1, sets = groups;
    if (type != IMPORTED_BATCH_NORM) sets *= sizes.batch;
    uint64_t state = pair->draw.state;
    for (int r = 0; r < 2; r++) {
        pair->draw.state = state;
        sizes.height.first = r ? upper : 0;
        sizes.height.count = r ? 1 : upper;
        ranks[r] = norm_call(pair, &sizes, type, groups, phase);
    }
    image_calls_check(pair, ranks, 2 * sets);
}

static void check_norm(struct image_pair *pair)
{
    static const enum imported_kind KINDS[] = {IMPORTED_BATCH_NORM, IMPORTED_INSTANCE_NORM,
                                               IMPORTED_GROUP_NORM};
    struct draw *draw = &pair->draw;
    struct sizes sizes = {.batch = draw_int(draw, 1, 3), .is_inward = draw_int(draw, 0, 4) == 0};
    for (int k = 0; k < 3; k++) {
        int64_t groups = draw_int(draw, 1, 3), each = k == 2 ? draw_int(draw, 1, 3) : 1;
        // More places than a warp takes, now and then.
        int64_t height = draw_int(draw, 2, 6), width = draw_int(draw, 0, 3) ? 3 : 400;
        sizes.channels = groups * each;
        sizes.height = (struct image_range){0, height, height};
        sizes.width = (struct image_range){0, width, width};
        for (int phase = 0; phase < 2; phase++) {
            struct image_call whole = norm_call(pair, &sizes, KINDS[k], groups, phase);
            image_call_check(pair, &whole, NULL);
            check_norm_of_parts(pair, sizes, KINDS[k], groups, phase);
        }
    }
}

// The deviation of numbers far from 0 is as right as that of others.
static void deviations_of_numbers_far_from_zero_are_right(void **state)
{
    struct image_pair pair = image_pair_open(*state, PRECISION_FP32, 1e-3);
    struct sizes sizes = {.batch = 2, .channels = 2, .height = {0, 4, 4}, .width = {0, 5, 5}};
    struct image_call norm = norm_call(&pair, &sizes, IMPORTED_BATCH_NORM, 2, 0);
    double values[80];
    for (int i = 0; i < 80; i++)
        values[i] = 4000 + draw_int(&pair.draw, -63, 63) / 64.0;
    norm.inputs[0] = values;
    image_call_check(&pair, &norm, NULL);
    image_pair_close(&pair);
}

static void check_all(struct arena *arena, enum precision precision, double tolerance)
{
    struct image_pair pair = image_pair_open(arena, precision, tolerance);
    for (int i = 0; i < TRIALS; i++) {
        struct arena_mark mark = arena_mark(arena);
        for (int k = 0; k < 3; k++)
            check_convolution(&pair);
        check_matrix(&pair);
        check_pool(&pair);
        check_functions(&pair);
        check_joined(&pair);
        check_resize(&pair);
        check_linear_resize(&pair);
        check_product(&pair);
        check_mean(&pair);
        check_dropout(&pair);
        check_norm(&pair);
        arena_reset(arena, mark);
    }
    image_pair_close(&pair);
}

static void operators_on_images_equal_those_of_the_cpu(void **state)
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
        cmocka_unit_test(operators_on_images_equal_those_of_the_cpu),
        cmocka_unit_test(in_bf16_they_are_as_right_as_its_numbers),
        cmocka_unit_test(deviations_of_numbers_far_from_zero_are_right),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
