#include "planner/keep_plan.h"
#include "tests/support/test.h"

#include <math.h>

// What an answer of the integer program names, and what is learned of it, on a plan that has two
// stages of six and four layers, two classes of activations and one way to recompute.

static const struct keep_class CLASSES[] = {{1000, 1}, {600, 3}};
static const struct keep_recompute RECOMPUTES[] = {
    {.saved_bytes = {[1] = 1000, [3] = 600}},
    {.recompute = RECOMPUTE_SELECTIVE,
     .classes = 5,
     .saved_bytes = {[1] = 100, [3] = 600},
     .transient_bytes = 40},
};

struct plan_case {
    struct keep_stage stages[2];
    int64_t limit_bytes[2];
    struct keep_plan plan;
};

static struct keep_plan *plan_of(struct plan_case *of)
{
    *of = (struct plan_case){
        .stages = {{.layer_count = 6, .in_flight = 2, .other_bytes = 500},
                   {.layer_count = 4, .in_flight = 1, .other_bytes = 900 + 2000}},
        .limit_bytes = {30000, 28000},
        .plan = {.problem = {.classes = CLASSES,
                             .class_count = 2,
                             .recomputes = RECOMPUTES,
                             .recompute_count = 2,
                             .stage_count = 2,
                             .micro_batch_count = 4,
                             .device_bytes = 30000,
                             .host_bytes_per_s = 1e9,
                             .host_bytes = 1 << 30},
                 .base = {.vpp = 3, .recompute_layers = -1},
                 .layers_most = 6}};
    of->plan.stages = of->stages;
    of->plan.problem.stages = of->stages;
    of->plan.limit_bytes = of->limit_bytes;
    return &of->plan;
}

static void an_answer_names_a_plan(void **state)
{
    struct plan_case of;
    struct keep_plan *plan = plan_of(&of);
    struct keep_result result = {0};
    (void)state;
    struct parallel chosen = keep_plan_chosen(plan, &result);
    assert_true(chosen.vpp == 3 && chosen.recompute == RECOMPUTE_NONE);
    assert_true(chosen.recompute_layers == -1 && offload_is_none(&chosen.offload));
    result.recompute = 1;
    chosen = keep_plan_chosen(plan, &result);  // of no layer
    assert_int_equal(chosen.recompute, RECOMPUTE_NONE);
    static const int WRITTEN[] = {[1] = 1, [5] = 5, [6] = -1, [7] = -1};
    for (int layers = 1; layers <= 7; layers += layers == 1 ? 4 : 1) {
        result.recompute_layers = layers;
        chosen = keep_plan_chosen(plan, &result);
        assert_int_equal(chosen.recompute, RECOMPUTE_SELECTIVE);
        assert_int_equal(chosen.recompute_classes, 5);
        assert_int_equal(chosen.recompute_layers, WRITTEN[layers]);
    }
}

static void moved_layers_are_said_by_class_or_as_whole_layers(void **state)
{
    struct plan_case of;
    struct keep_plan *plan = plan_of(&of);
    struct keep_result result = {0};
    (void)state;
    result.layers[TIER_HOST][1] = 2;
    result.layers[TIER_HOST][3] = 6;
    struct parallel chosen = keep_plan_chosen(plan, &result);
    assert_int_equal(chosen.offload.activations, TIER_HOST);
    for (int c = 0; c < OP_CLASS_COUNT; c++)
        assert_int_equal(chosen.offload.layers[c], c == 1 ? 2 : c == 3 ? -1 : 0);
    // As many of each class are whole layers.
    result.layers[TIER_HOST][3] = 2;
    chosen = keep_plan_chosen(plan, &result);
    for (int c = 0; c < OP_CLASS_COUNT; c++)
        assert_int_equal(chosen.offload.layers[c], 2);
    struct keep_result below = {0};
    below.layers[TIER_NVME][1] = below.layers[TIER_NVME][3] = 5;
    chosen = keep_plan_chosen(plan, &below);
    assert_int_equal(chosen.offload.activations, TIER_NVME);
    assert_int_equal(chosen.offload.layers[0], 5);
    // More layers than can be written are all of them.
    plan->layers_most = OFFLOAD_LAYERS_MAX + 9;
    below.layers[TIER_NVME][1] = OFFLOAD_LAYERS_MAX;
    below.layers[TIER_NVME][3] = OFFLOAD_LAYERS_MAX + 1;
    chosen = keep_plan_chosen(plan, &below);
    assert_int_equal(chosen.offload.layers[1], OFFLOAD_LAYERS_MAX);
    assert_int_equal(chosen.offload.layers[3], -1);
}

static void whole_stages_are_recomputed_where_the_software_has_nothing_else(void **state)
{
    (void)state;
    struct stack stack = {.recompute_whole = 1u << RECOMPUTE_FULL};
    struct parallel some = {.recompute = RECOMPUTE_FULL, .recompute_layers = 3};
    keep_plan_round(&stack, &some);
    assert_int_equal(some.recompute_layers, -1);
    some = (struct parallel){.recompute = RECOMPUTE_SELECTIVE, .recompute_layers = 3};
    keep_plan_round(&stack, &some);
    assert_int_equal(some.recompute_layers, 3);
    some = (struct parallel){.recompute = RECOMPUTE_FULL, .recompute_layers = 0};
    keep_plan_round(&stack, &some);
    assert_int_equal(some.recompute_layers, 0);
    struct plan_case of;
    struct parallel asked =
        keep_plan_recomputing(plan_of(&of), recompute_value(RECOMPUTE_SELECTIVE, 2), 4);
    assert_true(asked.recompute == RECOMPUTE_SELECTIVE && asked.recompute_classes == 2);
    assert_true(asked.recompute_layers == 4 && asked.vpp == 3);
}

// With all kept the first stage holds 500 + 2 * 6 * 1600 = 19,700 and the second
// 900 + 4 * 1600 = 7,300, as its limit is 2000 lower, which stands among its other bytes. Three
// layers recomputed spare 900 each and micro-batch, and take 40 once.
static void a_stage_counts_what_is_kept(void **state)
{
    struct plan_case of;
    struct keep_plan *plan = plan_of(&of);
    struct keep_result result = {0};
    (void)state;
    assert_true(keep_plan_bytes(plan, &result, 0) == 19700);
    assert_true(keep_plan_bytes(plan, &result, 1) == 7300);
    result.recompute = 1;
    result.recompute_layers = 3;
    assert_true(keep_plan_bytes(plan, &result, 0) == 19700 - 2 * 3 * 900 + 40);
    assert_true(keep_plan_bytes(plan, &result, 1) == 7300 - 3 * 900 + 40);
    // What is needed beyond is learned, and what is not needed too.
    const int64_t needed[] = {19700 - 5400 + 40 + 111, 7300 - 2700 + 40 - 7};
    keep_plan_learn(plan, &result, needed);
    assert_int_equal(of.stages[0].other_bytes, 611);
    assert_int_equal(of.stages[1].other_bytes, 2893);
    assert_true(keep_plan_bytes(plan, &result, 0) == (double)needed[0]);
    assert_true(keep_plan_bytes(plan, &result, 1) == (double)needed[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_names_a_plan),
        cmocka_unit_test(moved_layers_are_said_by_class_or_as_whole_layers),
        cmocka_unit_test(whole_stages_are_recomputed_where_the_software_has_nothing_else),
        cmocka_unit_test(a_stage_counts_what_is_kept),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
