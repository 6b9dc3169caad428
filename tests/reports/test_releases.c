#include "tests/support/test.h"

#include "planner/choice.h"
#include "reports/whatif/releases.h"

#include <math.h>
#include <string.h>

// A stack of three releases of which one number tells two apart: 3 has twice the gemm_scale of 2,
// and 1 is as 2.

static const struct stack_change SLOWER = {.key = "gemm_scale", .value = 0.4};
static const struct stack_change NARROW = {.key = "gradient_bytes", .value = 2};

static struct stack told_apart(struct arena *arena)
{
    struct err err = {0};
    struct stack stack = *stack_load(arena, "megatron-core", &err);
    assert_string_equal(err.text, "");
    struct stack_release *releases = ARENA_NEW(arena, struct stack_release, 2);
    struct stack_change *changes = ARENA_NEW(arena, struct stack_change, 2);
    changes[0] = SLOWER;
    changes[1] = NARROW;
    releases[0] = (struct stack_release){.name = "2", .changes = changes, .change_count = 1};
    releases[1] = (struct stack_release){.name = "1"};
    stack.gemm_scale = 0.8;
    stack.release = "3";
    stack.releases = releases;
    stack.release_count = 2;
    stack.builds = ARENA_NEW(arena, struct stack_build, 1);
    stack.builds[0] =
        (struct stack_build){.name = "narrow", .changes = changes + 1, .change_count = 1};
    stack.build_count = 1;
    return stack;
}

static bool find(struct arena *arena, const struct stack *stack, struct releases *found,
                 struct err *err)
{
    const struct scenario_request request = {.model = model_load(arena, "gpt2", NULL, NULL, err),
                                             .stack = stack,
                                             .fabrics = fabrics_load(arena, err),
                                             .bands = bands_load(arena, err),
                                             .objective = OBJECTIVE_TIME,
                                             .workers = 1};
    struct cluster *cluster = cluster_load(arena, "dgx-h100", err);
    struct scenario scenario = {.label = "one node",
                                .cluster = cluster,
                                .workload = {.seq_len = 1024,
                                             .global_batch = 64,
                                             .precision = PRECISION_BF16,
                                             .optimizer = OPTIMIZER_ADAMW},
                                .pins = pins_none()};
    assert_true(cluster_take_gpus(cluster, 2, err));
    pins_set(&scenario.pins, CHOICE_DP, 2, 2);
    pins_set(&scenario.pins, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
    return releases_find(arena, &request, &scenario, found, err);
}

// Rows are releases that differ; the asked one is marked, and its plan is what all rows run.
static void releases_without_a_change_are_one_row(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct releases found;
    struct stack newest = told_apart(arena);
    assert_true(find(arena, &newest, &found, &err));
    assert_int_equal(found.count, 2);
    assert_int_equal(found.asked, 0);
    assert_string_equal(found.rows[0].newest, "3");
    assert_string_equal(found.rows[0].oldest, "3");
    assert_string_equal(found.rows[1].newest, "2");
    assert_string_equal(found.rows[1].oldest, "1");
    assert_string_equal(found.rows[0].older->changes[0].key, "gemm_scale");
    assert_null(found.rows[1].older);
    const struct release_row *fast = &found.rows[0], *slow = &found.rows[1];
    assert_true(fast->same_plan_s == fast->outcome.prediction.step_s);
    assert_true(slow->same_plan_s > 1.15 * fast->same_plan_s);
    assert_true(slow->outcome.prediction.step_s <= slow->same_plan_s);
    found = (struct releases){0};
    assert_true(find(arena, stack_at_release(arena, &newest, "1"), &found, &err));
    assert_int_equal(found.asked, 1);
    assert_true(found.rows[1].same_plan_s == found.rows[1].outcome.prediction.step_s);
    assert_true(found.rows[0].same_plan_s >= found.rows[0].outcome.prediction.step_s);
}

// A build goes with every release, whether it stands behind one or alone.
static void builds_go_with_every_release(void **state)
{
    static const char *const NAMES[] = {"narrow", "3+narrow", "1+narrow"};
    struct arena *arena = *state;
    struct err err = {0};
    struct stack newest = told_apart(arena);
    for (int i = 0; i < 3; i++) {
        struct releases found;
        const struct stack *asked = stack_at_release(arena, &newest, NAMES[i]);
        assert_true(find(arena, asked, &found, &err));
        assert_int_equal(found.asked, i == 2);
        for (int k = 0; k < found.count; k++) {
            assert_true(found.rows[k].stack->gradient_bytes == 2);
            assert_true(fabs(found.rows[k].stack->gemm_scale - (k ? 0.4 : 0.8)) < 1e-12);
        }
    }
}

static void a_stack_whose_releases_are_not_told_apart_is_refused(void **state)
{
    struct err err = {0};
    struct releases found;
    const struct stack *stack = stack_load(*state, "fsdp2", &err);
    assert_false(find(*state, stack, &found, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, "--releases: those of --stack fsdp2 are not told apart");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(releases_without_a_change_are_one_row),
        cmocka_unit_test(builds_go_with_every_release),
        cmocka_unit_test(a_stack_whose_releases_are_not_told_apart_is_refused),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
