#include "tests/support/run_case.h"
#include "tests/support/run_draw.h"
#include "tests/support/test.h"
#include "tests/support/tiny_models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Parameters, gradients and states over shard groups of their own: one rank's training to 1e-12,
// with as many tasks and bytes as the plan has, and the memory that it has planned.

enum { OTHERWISE_CASES = 6 };
static const double TOLERANCE = 1e-12;

static int divisor(struct draw *draw, int of, int unit)
{
    int less = draw_int(draw, 1, of / unit);
    while (of % (less * unit) != 0)
        less--;
    return less * unit;
}

// As drawn, but for degrees that leave ranks to shard over and the groups.
static void add_shards(struct draw *draw, bool has_experts, struct parallel *parallel)
{
    static const int DEGREES[][4] = {{8, 1, 1, 1}, {4, 2, 1, 1}, {4, 1, 2, 1}, {4, 1, 1, 2},
                                     {4, 1, 1, 1}, {2, 2, 2, 1}, {8, 1, 1, 1}};
    const int *degrees = DEGREES[draw_int(draw, 0, 6)];
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel->degree[axis] = 1;
    parallel->degree[AXIS_DP] = degrees[0];
    parallel->degree[AXIS_CP] = degrees[1];
    parallel->degree[AXIS_TP] = degrees[2];
    parallel->degree[AXIS_PP] = degrees[3];
    if (has_experts) parallel->degree[AXIS_EP] = 1 << draw_int(draw, 0, 2);
    parallel->stage_layers_count = 0;
    parallel->stage_layers = NULL;
    parallel->offload = (struct offload){0};
    parallel->micro_batch = 1;
    parallel->zero = draw_int(draw, 2, 3);
    parallel->accumulates = draw_int(draw, 0, 3) == 0;
    int cp = degrees[1], all = degrees[0] * cp;
    parallel->zero_group = draw_int(draw, 0, 1) ? 0 : divisor(draw, all, cp);
    int states = parallel->zero_group > 0 ? parallel->zero_group : all;
    parallel->zero_gradients = divisor(draw, states, cp);
    parallel->zero_parameters =
        parallel->zero == 3 ? divisor(draw, parallel->zero_gradients, cp) : 0;
}

static const char *groups_text(struct arena *arena, const struct parallel *parallel)
{
    return arena_print(arena, "states %d gradients %d parameters %d", parallel->zero_group,
                       parallel->zero_gradients, parallel->zero_parameters);
}

static const char *difference_of(struct arena *arena, const struct run_outcome *expected,
                                 const struct run_outcome *found)
{
    if (!found->done) return found->error;
    const char *difference = run_outcome_difference(arena, expected, found, TOLERANCE);
    if (!difference) difference = run_outcome_traffic(arena, found);
    double planned = (double)run_outcome_planned_bytes(found);
    if (difference || fabs((double)found->peak_bytes - planned) <= 0.01 * planned)
        return difference;
    return arena_print(arena, "%lld bytes held, %.0f planned", (long long)found->peak_bytes,
                       planned);
}

static void unlike_groups_compute_what_one_rank_does(void **state)
{
    struct draw draw = draw_start("runs with shard groups", 2026);
    struct run_outcome *known[DRAWN_MODEL_COUNT][2] = {0};
    struct arena scratch = {0};
    const char *more = getenv("MESHWRIGHT_CASES");
    int wanted = more ? atoi(more) : OTHERWISE_CASES, ran = 0, failed = 0, refused = 0;
    while (ran < wanted) {
        int model;
        struct draw seed = draw;
        struct run_case of = run_draw(&draw, &scratch, &model);
        bool has_experts = strstr(run_draw_config(model), "experts") != NULL;
        add_shards(&draw, has_experts, &of.parallel);
        struct err why = {0};
        struct run_outcome *found = run_case_run(&scratch, &of, &why);
        if (!found) {
            if (more) print_message("# refused: %s\n", why.text);
            if (why.kind != ERR_USAGE) fail_msg("%s", why.text);
            arena_free(&scratch);
            assert_in_range(++refused, 0, 100 * wanted + 100);
            continue;
        }
        struct run_outcome **expected = &known[model][of.dropout];
        struct run_case one = run_case_new(run_draw_config(model), DRAWN_SEQ, DRAWN_BATCH);
        one.dropout = of.dropout;
        if (!*expected) *expected = run_case_done(*state, &one);
        ran++;
        const char *difference = difference_of(&scratch, *expected, found);
        if (difference) {
            failed++;
            print_error("# MESHWRIGHT_SEED=%llu, model %d, %s: %s: %s\n",
                        (unsigned long long)seed.state, model, groups_text(&scratch, &of.parallel),
                        run_case_text(&scratch, &of), difference);
        }
        arena_free(&scratch);
    }
    print_message("# %d plans ran, %d drawn were refused\n", ran, refused);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unlike_groups_compute_what_one_rank_does),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
