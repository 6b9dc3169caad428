#include "tests/support/test.h"

#include "executor/backend.h"
#include "tests/support/draw.h"

#include <math.h>

// The back end beside its operators: products of any order of dims, boxes, optimizers, norms,
// memory and events, and how it is found. In double precision against plain loops.

enum { TRIALS = 300 };

struct world {
    const struct backend *backend;
    struct device *device;
    struct arena *arena;
    struct draw draw;
};

static struct world open_world(struct arena *arena, const char *what)
{
    struct err err = {0};
    struct world world = {.backend = backend_open("cpu-fp64", &err), .arena = arena};
    assert_string_equal(err.text, "");
    assert_null(world.backend->open(0, &world.device));
    world.draw = draw_start(what, 17);
    return world;
}

static double *draw_reals(struct world *world, int64_t count)
{
    double *reals = ARENA_NEW(world->arena, double, count + 1);
    for (int64_t i = 0; i < count; i++)
        reals[i] = (double)draw_int(&world->draw, -1000, 1000) / 1000;
    return reals;
}

static void assert_close(const char *what, const double *found, const double *expected,
                         int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (fabs(found[i] - expected[i]) <= 1e-11 * (1 + fabs(expected[i]))) continue;
        fail_msg("%s, element %lld: %.15g, expected %.15g", what, (long long)i, found[i],
                 expected[i]);
    }
}

// Five dims, some of them of size 1 or 0, each in at least one array, in any order.
enum { DIMS = 5 };

static struct kernel_array draw_array(struct world *world, unsigned dims, const int64_t *sizes)
{
    struct kernel_array array = {0};
    int order[DIMS], count = 0;
    for (int d = 0; d < DIMS; d++) {
        if (!(dims >> d & 1)) continue;
        int at = draw_int(&world->draw, 0, count);
        memmove(order + at + 1, order + at, (size_t)(count++ - at) * sizeof *order);
        order[at] = d;
    }
    int64_t elements = 1;
    for (int i = 0; i < count; i++) {
        array.dims[array.rank] = (enum dim)(order[i] + 1);
        array.sizes[array.rank] = array.whole[array.rank] = sizes[order[i]];
        elements *= array.sizes[array.rank++];
    }
    array.data = draw_reals(world, elements);
    return array;
}

static int64_t place(const struct kernel_array *array, const int64_t *index)
{
    int64_t at = 0;
    for (int i = 0; i < array->rank; i++)
        at = at * array->sizes[i] + index[array->dims[i] - 1];
    return at;
}

static bool next_index(int64_t *index, const int64_t *sizes)
{
    for (int d = DIMS - 1; d >= 0; d--) {
        if (++index[d] < sizes[d]) return true;
        index[d] = 0;
    }
    return false;
}

static void products_of_any_dims_equal_plain_loops(void **state)
{
    struct world world = open_world(*state, "products");
    for (int trial = 0; trial < TRIALS; trial++) {
        struct arena_mark mark = arena_mark(world.arena);
        int64_t sizes[DIMS], index[DIMS] = {0}, elements = 1;
        unsigned in[3] = {0};
        bool is_empty = false;
        for (int d = 0; d < DIMS; d++) {
            sizes[d] = draw_int(&world.draw, trial % 10 ? 1 : 0, 6);
            is_empty = is_empty || sizes[d] == 0;
            unsigned where = (unsigned)draw_int(&world.draw, 1, 7);
            if (where == 4) where = 5;  // the result alone: not an einsum
            for (int i = 0; i < 3; i++)
                in[i] |= (where >> i & 1) << d;
        }
        struct op op = {.name = "product", .kind = OP_CONTRACT, .scalar = 0.5};
        struct kernel_call call = {.op = &op, .input_count = 2, .output_count = 1};
        call.adds = (unsigned)draw_int(&world.draw, 0, 1);
        call.inputs[0] = draw_array(&world, in[0], sizes);
        call.inputs[1] = draw_array(&world, in[1], sizes);
        struct kernel_array *c = &call.outputs[0];
        *c = draw_array(&world, in[2], sizes);
        for (int i = 0; i < c->rank; i++)
            elements *= c->sizes[i];
        double *expected = ARENA_NEW(world.arena, double, elements + 1);
        if (call.adds) memcpy(expected, c->data, (size_t)elements * sizeof(double));
        const double *a = call.inputs[0].data, *b = call.inputs[1].data;
        do {
            if (is_empty) break;
            expected[place(c, index)] +=
                op.scalar * a[place(&call.inputs[0], index)] * b[place(&call.inputs[1], index)];
        } while (next_index(index, sizes));
        assert_null(world.backend->can_run(&call));
        assert_null(world.backend->run(world.device, STREAM_COMPUTE, &call));
        assert_close("product", c->data, expected, elements);
        arena_reset(world.arena, mark);
    }
    world.backend->close(world.device);
}

static void boxes_are_copied_added_and_compared(void **state)
{
    struct world world = open_world(*state, "boxes");
    for (int trial = 0; trial < TRIALS; trial++) {
        struct arena_mark mark = arena_mark(world.arena);
        struct box_copy copy = {.rank = draw_int(&world.draw, 1, 4)};
        copy.combine = DRAW_ONE(&world.draw, ((enum box_combine[]){BOX_SET, BOX_ADD, BOX_MAX}));
        int64_t from_whole = 1, to_whole = 1, elements = 1;
        for (int i = copy.rank - 1; i >= 0; i--) {
            copy.sizes[i] = draw_int(&world.draw, trial % 10 ? 1 : 0, 4);
            copy.from_strides[i] = from_whole;
            copy.to_strides[i] = to_whole;
            from_whole *= copy.sizes[i] + draw_int(&world.draw, 0, 1);
            to_whole *= copy.sizes[i] + draw_int(&world.draw, 0, 2);
            elements *= copy.sizes[i];
        }
        double *from = draw_reals(&world, from_whole), *to = draw_reals(&world, to_whole);
        double *expected = ARENA_NEW(world.arena, double, to_whole + 1);
        memcpy(expected, to, (size_t)to_whole * sizeof *to);
        for (int64_t e = 0; e < elements; e++) {
            int64_t rest = e, source = 0, target = 0;
            for (int i = copy.rank - 1; i >= 0; i--) {
                source += rest % copy.sizes[i] * copy.from_strides[i];
                target += rest % copy.sizes[i] * copy.to_strides[i];
                rest /= copy.sizes[i];
            }
            double x = from[source], *y = &expected[target];
            *y = copy.combine == BOX_SET ? x : copy.combine == BOX_ADD ? *y + x : fmax(x, *y);
        }
        copy.from = from;
        copy.to = to;
        assert_null(world.backend->box(world.device, STREAM_COMPUTE, &copy));
        assert_close("box", to, expected, to_whole);
        arena_reset(world.arena, mark);
    }
    world.backend->close(world.device);
}

enum { COUNT = 37 };
static const double RATE = 0.01, BETA1 = 0.9, BETA2 = 0.99, EPSILON = 1e-8, DECAY = 0.1,
                    MOMENTUM = 0.8, CLIP = 0.5, TRUST = 0.7;

// Three steps of one optimizer as its paper writes it.
static void plain_step(enum optimizer optimizer, int64_t step, double g, double *w, double *m,
                       double *v)
{
    g *= CLIP;
    if (optimizer == OPTIMIZER_SGD || optimizer == OPTIMIZER_LARS) {
        bool scales = optimizer == OPTIMIZER_LARS;
        *m = MOMENTUM * *m + (scales ? RATE * TRUST : 1) * (g + DECAY * *w);
        *w -= (scales ? 1 : RATE) * *m;
        return;
    }
    if (optimizer == OPTIMIZER_ADAM) g += DECAY * *w;
    *m = BETA1 * *m + (1 - BETA1) * g;
    *v = BETA2 * *v + (1 - BETA2) * g * g;
    double mean = *m / (1 - pow(BETA1, (double)step));
    double move = mean / (sqrt(*v / (1 - pow(BETA2, (double)step))) + EPSILON);
    if (optimizer != OPTIMIZER_ADAM) move += DECAY * *w;
    *w -= RATE * (optimizer == OPTIMIZER_LAMB ? TRUST : 1) * move;
}

static void every_optimizer_steps_as_its_paper_says(void **state)
{
    struct world world = open_world(*state, "optimizers");
    for (enum optimizer o = 0; o < OPTIMIZER_COUNT; o++) {
        double *w = draw_reals(&world, COUNT), *expected = ARENA_NEW(world.arena, double, COUNT);
        double moments[4][COUNT] = {{0}}, direction[COUNT];
        memcpy(expected, w, COUNT * sizeof *w);
        for (int64_t step = 1; step <= 3; step++) {
            double *g = draw_reals(&world, COUNT);
            bool in_parts = o == OPTIMIZER_LAMB || o == OPTIMIZER_LARS;
            struct update_call call = {.optimizer = o,
                                       .count = COUNT,
                                       .weights = w,
                                       .gradients = g,
                                       .first_moments = moments[0],
                                       .second_moments = moments[1],
                                       .direction = direction,
                                       .gradient_scale = CLIP,
                                       .learning_rate = RATE,
                                       .beta1 = BETA1,
                                       .beta2 = BETA2,
                                       .epsilon = EPSILON,
                                       .weight_decay = DECAY,
                                       .momentum = MOMENTUM,
                                       .trust_ratio = TRUST,
                                       .step = step};
            call.part = in_parts ? UPDATE_DIRECTION : UPDATE_ALL;
            assert_null(world.backend->update(world.device, STREAM_COMPUTE, &call));
            call.part = UPDATE_APPLY;
            if (in_parts) assert_null(world.backend->update(world.device, STREAM_COMPUTE, &call));
            for (int i = 0; i < COUNT; i++)
                plain_step(o, step, g[i], &expected[i], &moments[2][i], &moments[3][i]);
        }
        assert_close(optimizer_name(o), w, expected, COUNT);
    }
    struct update_call whole = {.optimizer = OPTIMIZER_LARS, .direction = &whole, .step = 1};
    assert_string_equal(world.backend->update(world.device, STREAM_COMPUTE, &whole),
                        "LAMB and LARS update in two parts");
    struct update_call bare = {.optimizer = OPTIMIZER_ADAM, .step = 1};
    assert_string_equal(world.backend->update(world.device, STREAM_COMPUTE, &bare),
                        "Adam needs two moments");
    world.backend->close(world.device);
}

static void squares_are_summed_and_reals_scaled(void **state)
{
    struct world world = open_world(*state, "sums");
    for (int64_t count = 0; count < 5000; count = 2 * count + 1) {
        double *reals = draw_reals(&world, count), sum = 3, expected = 3;
        for (int64_t i = 0; i < count; i++)
            expected += reals[i] * reals[i];
        assert_null(world.backend->sum_squares(world.device, STREAM_COMPUTE, reals, count, &sum));
        assert_close("sum", &sum, &expected, 1);
        double *scaled = ARENA_NEW(world.arena, double, count + 1);
        for (int64_t i = 0; i < count; i++)
            scaled[i] = reals[i] * 0.25;
        assert_null(world.backend->scale(world.device, STREAM_COMPUTE, reals, count, 0.25));
        assert_close("scaled", reals, scaled, count);
    }
    world.backend->close(world.device);
}

static void memory_is_given_filled_copied_and_taken_back(void **state)
{
    struct world world = open_world(*state, "memory");
    const struct backend *b = world.backend;
    char *from, *to;
    assert_null(b->allocate(world.device, 1000, (void **)&from));
    assert_null(b->allocate(world.device, 1000, (void **)&to));
    assert_null(b->fill(world.device, STREAM_COMPUTE, from, 7, 1000));
    assert_null(b->copy(world.device, STREAM_COMPUTE, COPY_DEVICE, to, from, 1000));
    assert_int_equal(to[999], 7);
    struct event *before = b->event_new(world.device), *after = b->event_new(world.device);
    assert_null(b->event_record(world.device, STREAM_COMPUTE, before));
    assert_null(b->event_record(world.device, STREAM_COMPUTE, after));
    assert_null(b->event_wait(world.device, STREAM_DP, after));
    assert_true(b->event_seconds(world.device, before, after) >= 0);
    assert_null(b->synchronize(world.device, STREAM_COMPUTE));
    b->event_free(world.device, before);
    b->event_free(world.device, after);
    b->release(world.device, from);
    b->release(world.device, to);
    b->close(world.device);
}

static void a_back_end_is_found_by_name_or_said_to_be_missing(void **state)
{
    struct err err = {0};
    const char *note = NULL;
    assert_null(backend_open("gpu", &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text,
                        "no back end \"gpu\": there are cpu, cpu-fp64, cpu-half and cuda");
    err = (struct err){0};
    const struct backend *backend = backend_choose(*state, "cpu", &note, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(backend->name, "cpu");
    assert_int_equal(backend->real_bytes, 4);
    assert_int_equal(strncmp(note, "cpu on ", 7), 0);
    assert_non_null(strstr(note, "OpenBLAS"));
    assert_non_null(backend_choose(*state, "auto", &note, &err));
    assert_string_equal(err.text, "");
}

static void what_cannot_run_says_why(void **state)
{
    struct world world = open_world(*state, "refusals");
    struct op op = {.name = "product", .kind = OP_CONTRACT, .scalar = 1};
    struct kernel_call call = {.op = &op, .input_count = 2, .output_count = 1};
    call.inputs[0] = (struct kernel_array){.rank = 1, .dims = {DIM_HIDDEN}, .sizes = {3}};
    call.inputs[1] = (struct kernel_array){.rank = 1, .dims = {DIM_HIDDEN}, .sizes = {4}};
    assert_string_equal(world.backend->can_run(&call), "a dim of a GEMM has two sizes");
    op.kind = OP_ATTENTION;
    assert_string_equal(world.backend->can_run(&call),
                        "attention wants (batch, ..., keys, head, width)");
    op.kind = OP_KIND_COUNT;
    assert_string_equal(world.backend->can_run(&call), "no kernel for this operator");
    op.kind = OP_ELEMENTWISE;
    op.function = FUNCTION_LAYER_NORM;
    assert_string_equal(world.backend->run(world.device, STREAM_COMPUTE, &call),
                        "no kernel for this element-wise function");
    world.backend->close(world.device);
}

static void data_that_is_wrong_is_refused(void **state)
{
    struct world world = open_world(*state, "data");
    int64_t ids[2] = {1, 3};
    double table[6] = {0}, rows[4];
    struct op op = {.name = "lookup", .kind = OP_GATHER};
    struct kernel_call call = {.op = &op, .input_count = 2, .output_count = 1};
    call.inputs[0] = (struct kernel_array){.data = ids,
                                           .rank = 1,
                                           .element = ELEMENT_INT64,
                                           .dims = {DIM_SEQ},
                                           .sizes = {2},
                                           .whole = {2}};
    call.inputs[1] = (struct kernel_array){.data = table,
                                           .rank = 2,
                                           .dims = {DIM_VOCAB, DIM_HIDDEN},
                                           .sizes = {3, 2},
                                           .whole = {3, 2}};
    call.outputs[0] = (struct kernel_array){
        .data = rows, .rank = 2, .dims = {DIM_SEQ, DIM_HIDDEN}, .sizes = {2, 2}, .whole = {2, 2}};
    assert_string_equal(world.backend->run(world.device, STREAM_COMPUTE, &call),
                        "an id that its table does not have");
    world.backend->close(world.device);
}

enum { EXPERTS = 8, GROUPS = 4, OPEN = 2, TOP_K = 3, TOKENS = 9 };

// Whether an expert is chosen: its group is among the open ones by the sum of its two best ranks
// (by its best without a bias), and it is among the best of the open groups.
static bool is_chosen(const double *ranked, bool has_bias, int expert)
{
    double worth[GROUPS], own = ranked[expert];
    int better_groups = 0, better = 0, size = EXPERTS / GROUPS;
    for (int g = 0; g < GROUPS; g++) {
        const double *x = ranked + g * size;
        worth[g] = has_bias ? x[0] + x[1] : fmax(x[0], x[1]);
    }
    for (int g = 0; g < GROUPS; g++)
        better_groups += worth[g] > worth[expert / size];
    for (int e = 0; e < EXPERTS; e++) {
        int above = 0;
        for (int g = 0; g < GROUPS; g++)
            above += worth[g] > worth[e / size];
        better += above < OPEN && ranked[e] > own;
    }
    return better_groups < OPEN && better < TOP_K;
}

// Of 2, 1.2, 0.9 and -1 with a margin of a half: 1.2 is 0.4 of 2 away from it and counts beside it,
// 0.9 is 0.55 away; beside 1.2, which is chosen next, 0.9 counts. Backward, with 3 and 5 behind the
// weights, as the two softmaxes have it.
static void what_is_near_the_best_has_a_share_of_its_choice(void **state)
{
    struct world world = open_world(*state, "near");
    struct op op = {
        .name = "route", .function = FUNCTION_ROUTE_NEAR_BEST, .kind = OP_ROUTE, .scalar = 0.5};
    op.top_k = 2;
    double logits[4] = {0.9, 2, -1, 1.2}, weights[4], d[4] = {7, 3, 9, 5}, slopes[4];
    double first = 1 / (1 + exp(-0.8)), second = 1 / (1 + exp(-0.3));
    double of_first = 3 * first * (1 - first), of_second = 5 * second * (1 - second);
    double expected[4] = {0, first, 0, second};
    double backward[4] = {-of_second, of_first, 0, of_second - of_first};
    struct kernel_array row = {
        .rank = 3, .dims = {DIM_BATCH, DIM_SEQ, DIM_GATE}, .sizes = {1, 1, 4}, .whole = {1, 1, 4}};
    struct kernel_call call = {.op = &op, .input_count = 1, .output_count = 1};
    call.inputs[0] = call.inputs[1] = call.inputs[2] = call.outputs[0] = row;
    call.inputs[0].data = logits;
    call.outputs[0].data = weights;
    assert_null(world.backend->run(world.device, STREAM_COMPUTE, &call));
    op.kind = OP_ROUTE_BACKWARD;
    call.input_count = 3;
    call.inputs[0].data = d;
    call.inputs[1].data = logits;
    call.inputs[2].data = weights;
    call.outputs[0].data = slopes;
    assert_null(world.backend->run(world.device, STREAM_COMPUTE, &call));
    for (int i = 0; i < 4; i++) {
        assert_true(fabs(weights[i] - expected[i]) < 1e-14);
        assert_true(fabs(slopes[i] - backward[i]) < 1e-14);
    }
    world.backend->close(world.device);
}

static void experts_are_chosen_from_open_groups_alone(void **state)
{
    struct world world = open_world(*state, "groups");
    struct op op = {.name = "route",
                    .kind = OP_ROUTE,
                    .scalar = 1,
                    .top_k = TOP_K,
                    .group_count = GROUPS,
                    .open_groups = OPEN};
    for (int trial = 0; trial < TRIALS / 10; trial++) {
        struct arena_mark mark = arena_mark(world.arena);
        bool has_bias = trial % 2;
        op.function = has_bias ? FUNCTION_ROUTE_SIGMOID_TOP_K : FUNCTION_ROUTE_SOFTMAX;
        struct kernel_array x = {.rank = 3,
                                 .dims = {DIM_BATCH, DIM_SEQ, DIM_GATE},
                                 .sizes = {1, TOKENS, EXPERTS},
                                 .whole = {1, TOKENS, EXPERTS}};
        double *logits = draw_reals(&world, TOKENS * EXPERTS);
        double *weights = draw_reals(&world, TOKENS * EXPERTS), *bias = draw_reals(&world, EXPERTS);
        for (int i = 0; i < TOKENS * EXPERTS; i++)
            logits[i] += 1e-6 * i;  // no two alike
        x.data = logits;
        double ranked[EXPERTS];
        struct kernel_call call = {
            .op = &op, .input_count = 1 + has_bias, .output_count = 1, .inputs = {x}};
        call.inputs[1] =
            (struct kernel_array){.rank = 1, .dims = {DIM_GATE}, .sizes = {EXPERTS}, .data = bias};
        call.outputs[0] = x;
        call.outputs[0].data = weights;
        assert_null(world.backend->run(world.device, STREAM_COMPUTE, &call));
        for (int i = 0; i < TOKENS * EXPERTS; i++) {
            const double *row = logits + i / EXPERTS * EXPERTS;
            for (int e = 0; e < EXPERTS; e++)
                ranked[e] = has_bias ? 1 / (1 + exp(-row[e])) + bias[e] : row[e];
            assert_int_equal(weights[i] > 0, is_chosen(ranked, has_bias, i % EXPERTS));
        }
        arena_reset(world.arena, mark);
    }
    world.backend->close(world.device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_any_dims_equal_plain_loops),
        cmocka_unit_test(boxes_are_copied_added_and_compared),
        cmocka_unit_test(every_optimizer_steps_as_its_paper_says),
        cmocka_unit_test(squares_are_summed_and_reals_scaled),
        cmocka_unit_test(memory_is_given_filled_copied_and_taken_back),
        cmocka_unit_test(a_back_end_is_found_by_name_or_said_to_be_missing),
        cmocka_unit_test(what_cannot_run_says_why),
        cmocka_unit_test(data_that_is_wrong_is_refused),
        cmocka_unit_test(experts_are_chosen_from_open_groups_alone),
        cmocka_unit_test(what_is_near_the_best_has_a_share_of_its_choice),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
