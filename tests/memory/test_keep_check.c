#include "memory/check.h"

#include "tests/support/keep_problems.h"
#include "tests/support/test.h"

#include <math.h>

struct case_of {
    struct keep_class class;
    struct keep_recompute recomputes[2];
    struct keep_stage stage;
    struct keep_problem problem;
    struct keep_result result;
};

// Two of six layers are moved, because four fit.
static struct case_of *solved(struct arena *arena)
{
    struct case_of *of = ARENA_NEW(arena, struct case_of, 1);
    struct milp_options options = {0};
    of->problem = keep_one_class(&of->class, of->recomputes, &of->stage);
    of->result = keep_solve(arena, &of->problem, &options);
    assert_int_equal(of->result.layers[TIER_HOST][1], 2);
    return of;
}

static void expect(const struct case_of *of, const char *wanted)
{
    const char *why = "nothing is wrong";
    assert_false(check_keep(&of->problem, &of->result, &why));
    assert_string_equal(why, wanted);
}

static void what_is_solved_holds(void **state)
{
    const char *why = NULL;
    struct case_of *of = solved(*state);
    assert_true(check_keep(&of->problem, &of->result, &why));
}

static void counts_that_cannot_be_are_found(void **state)
{
    struct case_of *of = solved(*state);
    of->result.layers[TIER_HOST][1] = 7;
    expect(of, "layers are moved that are not there");
    of = solved(*state);
    of->result.layers[TIER_HOST][2] = 1;
    expect(of, "layers are moved that are not there");
    of = solved(*state);
    of->result.layers[TIER_NVME][1] = 1;
    expect(of, "activations are moved to two tiers");
    of = solved(*state);
    of->problem.tiers = 1 << TIER_DEVICE;
    expect(of, "activations are moved to a tier that may not be used");
    of = solved(*state);
    of->result.recompute = 2;
    expect(of, "layers are recomputed that are not there, or in no known way");
    of = solved(*state);
    of->result.recompute_layers = 1;
    expect(of, "layers are recomputed that are not there, or in no known way");
}

static void memory_that_is_not_there_is_found(void **state)
{
    struct case_of *of = solved(*state);
    of->problem.device_bytes = 104 * KEEP_MEGABYTE;
    expect(of, "the device has no room for what is kept");
    of = solved(*state);
    of->result.layers[TIER_HOST][1] = 1;
    of->result.moved_bytes = 10 * KEEP_MEGABYTE;
    expect(of, "the device has no room for what is kept");
    of = solved(*state);
    of->problem.host_bytes = 39 * KEEP_MEGABYTE;
    expect(of, "the host has no room for what is moved");
    of = solved(*state);
    of->problem.tiers |= 1 << TIER_NVME;
    of->problem.nvme_bytes_per_s = 1e9;
    of->problem.nvme_bytes = 39 * KEEP_MEGABYTE;
    of->result.layers[TIER_NVME][1] = 2;
    of->result.layers[TIER_HOST][1] = 0;
    expect(of, "NVMe has no room for what is moved");
}

// A copy takes 10 ms; with 8 ms of forward beside it 2 ms are waited for each layer.
static void time_that_is_not_there_is_found(void **state)
{
    struct case_of *of = solved(*state);
    of->stage.forward_s = 0.008;
    expect(of, "more is copied out than the link carries by then");
    of->result.added_s = 0.005;
    expect(of, "the added seconds are not those stated");
    of->stage.forward_s = 0.01;
    of->stage.backward_s = 0.001;
    expect(of, "more is copied back than the link carries by then");
    of = solved(*state);
    of->result.added_s = 1e-3;
    expect(of, "the added seconds are not those stated");
}

static void what_is_stated_wrongly_is_found(void **state)
{
    struct case_of *of = solved(*state);
    of->result.moved_bytes += 2;
    expect(of, "the bytes moved are not those stated");
    of = solved(*state);
    of->result.bound_s = 1e-3;
    expect(of, "the bound is above what was found");
    of = solved(*state);
    struct milp_options options = {0};
    of->problem.device_bytes = 4 * KEEP_MEGABYTE;
    of->result = keep_solve(*state, &of->problem, &options);
    assert_int_equal(of->result.status, MILP_INFEASIBLE);
    of->result.shortfall_bytes += 2;
    expect(of, "what is lacking is not what is stated");
}

// The checker takes a choice with what was asked of it stated, where it fits, and no other.
static void any_choice_is_judged_as_it_is(void **state)
{
    struct draw draw = draw_start("keep check", 4);
    int seen[2] = {0};
    (void)state;
    for (int i = 0; i < 3000; i++) {
        struct keep_drawn drawn;
        keep_draw(&draw, &drawn);
        struct keep_problem *problem = &drawn.problem;
        enum tier tier = draw_int(&draw, 0, 1) ? TIER_NVME : TIER_HOST;
        struct keep_result result = {.status = MILP_FEASIBLE};
        problem->tiers |= 1u << tier;
        if (keep_rate(problem, tier) <= 0) continue;
        int most = 0, any = 0;
        for (int s = 0; s < problem->stage_count; s++)
            if (drawn.stages[s].layer_count > most) most = drawn.stages[s].layer_count;
        for (int c = 0; c < problem->class_count; c++) {
            int count = draw_int(&draw, 0, most);
            result.layers[tier][drawn.classes[c].op_class] = count;
            any |= count;
        }
        if (!any) continue;
        result.recompute = draw_int(&draw, 0, problem->recompute_count - 1);
        result.recompute_layers = result.recompute ? draw_int(&draw, 1, most) : 0;
        struct keep_asked asked = keep_ask(problem, &result, tier);
        result.added_s = asked.added_s;
        result.moved_bytes = (int64_t)asked.moved_bytes;
        const char *why = NULL;
        bool fits = asked.fits_tiers && asked.lack_bytes <= 0;
        assert_int_equal(check_keep(problem, &result, &why), fits);
        seen[fits]++;
    }
    assert_true(seen[0] > 300 && seen[1] > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_solved_holds),
        cmocka_unit_test(counts_that_cannot_be_are_found),
        cmocka_unit_test(memory_that_is_not_there_is_found),
        cmocka_unit_test(time_that_is_not_there_is_found),
        cmocka_unit_test(what_is_stated_wrongly_is_found),
        cmocka_unit_test(any_choice_is_judged_as_it_is),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
