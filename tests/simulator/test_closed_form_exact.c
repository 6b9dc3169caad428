#include "simulator/closed_form.h"
#include "simulator/engine.h"
#include "tests/support/random_plan.h"
#include "tests/support/test.h"

#include <math.h>

// Steps worked by hand, task by task; seconds are units. The event engine, which plays the same
// tasks one by one, must say the same.

enum { STAGES = 2, CHUNKS = 4 };

struct exact_plan {
    struct step_price *price;
    struct chunk_price *class;  // of each stage its own: a run of equal ones is taken for its first
};

// Forward 1, backward 2 (weights 1 of their own where the schedule parts them), hop 0.1 that
// blocks.
static struct exact_plan plan_of(struct arena *arena, enum schedule_kind schedule, int stage_count,
                                 int micro_batch_count)
{
    struct schedule_shape shape = {stage_count, schedule == SCHEDULE_ZB_V ? 2 : 1,
                                   micro_batch_count, 0, NULL};
    struct exact_plan plan = {even_plan(arena, schedule, shape, 1, 2), NULL};
    static const int CLASS_OF[] = {0, 1}, ONE[CHUNKS] = {0};
    bool is_apart = shape.chunk_count == 1;
    plan.class = ARENA_NEW(arena, struct chunk_price, STAGES);
    plan.class[0] = plan.class[1] = plan.price->classes[0];
    plan.price->classes = plan.class;
    plan.price->class_count = is_apart ? stage_count : 1;
    plan.price->class_of = is_apart ? CLASS_OF : ONE;
    plan.price->runs = NULL;
    plan.price->hop_s = 0.1;
    plan.price->hop_overlapped = false;
    plan.price->overlap_ratio = 1;
    return plan;
}

static void is_near(const char *what, double found, double wanted)
{
    if (fabs(found - wanted) > 1e-9) {
        print_error("%s: found %.12g, by hand %.12g\n", what, found, wanted);
        fail();
    }
}

// The formula's answer, when it is the events' one as well. Both stages are as the first.
static struct cost cost_of(const struct exact_plan *plan)
{
    struct arena arena = {0}, scratch = {0};
    struct engine_options options = {0};
    const struct step_price *price = plan->price;
    plan->class[1] = plan->class[0];
    struct cost cost = closed_form(price);
    is_near("events", simulate_step(&arena, &scratch, price, &options)->cost.step_s, cost.step_s);
    arena_free(&arena);
    arena_free(&scratch);
    return cost;
}

// The same without events, of what they have no exact answer for.
static struct cost formula_of(const struct exact_plan *plan)
{
    plan->class[1] = plan->class[0];
    return closed_form(plan->price);
}

// Stage 0: F 0-1, sends till 1.1, F till 2.1. Stage 1: F 1.1-2.1, B till 4.1, sends till 4.2, F
// till 5.2, B till 7.2, sends till 7.3. Stage 0: B 4.2-6.2, B 7.3-9.3.
static void two_stages_with_blocking_hops(void **state)
{
    struct exact_plan plan = plan_of(*state, SCHEDULE_1F1B, 2, 2);
    plan.price->norm_s = 0.3;
    plan.price->overhead_s = 0.05;
    plan.class->gradient_reduce_s = 0.5;
    plan.class->update_s = 0.2;
    struct cost cost = cost_of(&plan);
    // Stage 0 reduces till 9.8; stage 1 from 7.2 on, 0.1 of it beside what it sends.
    is_near("step", cost.step_s, 9.8 + 0.3 + 0.2 + 0.05);
    is_near("compute", cost.compute_s, 6);
    is_near("data parallel", cost.exposed_s[PART_DP], (0.5 + 0.4) / 2 + 0.3);
    // Of a stage's 2 micro-batches each has a send and a receive; the last stage keeps one.
    is_near("pipeline", cost.exposed_pp_s, 0.2);
    is_near("update", cost.update_s, 0.2);
    is_near("bubble", cost.bubble_s, 10.35 - 6 - 0.75 - 0.2 - 0.2 - 0.05);
    is_near("imbalance", cost.imbalance_s, 0);
}

// The same with a reduction of 0.05: on stage 1 all of it beside the send. A small one of 0.4 is
// beside nothing.
static void a_reduction_shorter_than_the_send_is_hidden_but_on_the_first_stage(void **state)
{
    struct exact_plan plan = plan_of(*state, SCHEDULE_1F1B, 2, 2);
    plan.class->gradient_reduce_s = 0.05;
    struct cost cost = cost_of(&plan);
    is_near("step", cost.step_s, 9.35);
    is_near("data parallel", cost.exposed_s[PART_DP], 0.025);
    plan.class->small_reduce_s = 0.4;
    cost = cost_of(&plan);
    is_near("step", cost.step_s, 9.75);
    is_near("tensor parallel", cost.exposed_s[PART_TP], 0.4);
}

static void tie_ends(struct exact_plan *plan)
{
    static const int ENDS[] = {0, 1};
    static struct tied_price pair = {ENDS, 2, 1};
    plan->price->ties = &pair;
    plan->price->tie_count = 1;
}

// Tied gradients of 1 are exchanged when both ends have reduced, at 9.8; both stages wait for them.
static void tied_parameters_wait_for_both_ends(void **state)
{
    struct exact_plan plan = plan_of(*state, SCHEDULE_1F1B, 2, 2);
    tie_ends(&plan);
    plan.class->gradient_reduce_s = 0.5;
    struct cost cost = cost_of(&plan);
    is_near("step", cost.step_s, 10.8);
    is_near("pipeline", cost.exposed_pp_s, 0.2 + 1);
}

// Steps like tiles: the first stage is the longest, from 0 to the end of its update; no norm.
static void a_validated_step_is_its_longest_stage(void **state)
{
    struct exact_plan plan = plan_of(*state, SCHEDULE_1F1B, 2, 2);
    plan.price->post_validated = true;
    plan.price->norm_s = 0.3;
    plan.price->overhead_s = 0.05;
    plan.class->gradient_reduce_s = 0.5;
    plan.class->update_s = 0.2;
    is_near("step", formula_of(&plan).step_s, 9.8 + 0.2 + 0.05);
    tie_ends(&plan);
    is_near("step", formula_of(&plan).step_s, 10.8 + 0.2 + 0.05);
}

// One stage, one micro-batch: F 0-1, B 1-3. Four pieces of gradients are ready at 1.5, 2, 2.5, 3.
static void a_reduction_in_pieces_ends_after_the_last_backward(void **state)
{
    struct exact_plan plan = plan_of(*state, SCHEDULE_1F1B, 1, 1);
    plan.price->reduce_overlapped = true;
    plan.class->gradient_reduce_s = 1;
    plan.class->bucket_count = 4;
    is_near("the last piece", cost_of(&plan).step_s, 3.25);
    // Pieces of 1 from 1.5 on; at half the speed 0.75 of it are done by 3.
    plan.class->gradient_reduce_s = 4;
    is_near("one after the other", cost_of(&plan).step_s, 5.5);
    plan.price->overlap_ratio = 0.5;
    is_near("at half the speed", cost_of(&plan).step_s, 3 + 3.25);
    // In one piece there is nothing to overlap.
    plan.class->bucket_count = 1;
    is_near("in one piece", cost_of(&plan).step_s, 7);
    plan.class->bucket_count = 0;
    is_near("pieces that nobody counted", cost_of(&plan).step_s, 7);
}

// Four pieces of parameters are gathered from 0 on: the first must be there at 0, the last at 0.75.
static void parameters_are_gathered_beside_the_first_forward(void **state)
{
    struct exact_plan plan = plan_of(*state, SCHEDULE_1F1B, 1, 1);
    plan.price->gather_overlapped = true;
    plan.class->parameter_gather_s = 1;
    plan.class->bucket_count = 4;
    struct cost cost = formula_of(&plan);
    is_near("the first piece", cost.step_s, 3.25);
    is_near("data parallel", cost.exposed_s[PART_DP], 0.25);
    plan.class->parameter_gather_s = 3;
    is_near("what is left of it", formula_of(&plan).step_s, 5.25);
    // Behind the update where it is not overlapped.
    plan.price->gather_overlapped = false;
    plan.class->update_s = 0.2;
    cost = cost_of(&plan);
    is_near("apart", cost.step_s, 6.2);
    is_near("data parallel", cost.exposed_s[PART_DP], 3);
    is_near("update", cost.update_s, 0.2);
}

// On 2 stages the second has till 1.1 for them: of 3 in four pieces 2.25 are left on the first.
static void later_stages_have_longer_to_gather(void **state)
{
    struct exact_plan plan = plan_of(*state, SCHEDULE_1F1B, 2, 2);
    plan.price->gather_overlapped = true;
    plan.class->parameter_gather_s = 3;
    plan.class->bucket_count = 4;
    is_near("step", formula_of(&plan).step_s, 9.3 + 2.25);
    // The second waits for the first and not for parameters.
    is_near("data parallel", formula_of(&plan).exposed_s[PART_DP], 2.25 / 2);
}

// Where W is a task of its own a hop stands behind each F and B that sends and before each that
// receives: of 3 tasks a micro-batch and chunk on 2 stages, 3 do not, in a V 5.
static void parted_backwards_block_thrice(void **state)
{
    struct exact_plan plan = plan_of(*state, SCHEDULE_ZB_H1, 2, 2);
    is_near("zb-h1", formula_of(&plan).exposed_pp_s, 2 * 0.1 * (3 * 2 - 3) / 2);
    plan = plan_of(*state, SCHEDULE_ZB_V, 2, 4);
    is_near("zb-v", formula_of(&plan).exposed_pp_s, 4 * 0.1 * (3 * 2 * 2 - 5) / 2);
}

// Stage 1 works twice as long: F 1-3, B 3-7, F 7-9, B 9-13, then stage 0 till 15. Stage 0 works 6,
// stage 1 12, in the mean 9: 3 of the other 6 are the longer stage's.
static void a_longer_stage_makes_the_others_wait(void **state)
{
    struct exact_plan plan = plan_of(*state, SCHEDULE_1F1B, 2, 2);
    plan.class[1].phase_s[TASK_FORWARD][PART_COMPUTE] = 2;
    plan.class[1].phase_s[TASK_BACKWARD][PART_COMPUTE] = 4;
    plan.price->hop_s = 0;
    struct cost cost = closed_form(plan.price);
    is_near("step", cost.step_s, 15);
    is_near("compute", cost.compute_s, 9);
    is_near("imbalance", cost.imbalance_s, 3);
    is_near("bubble", cost.bubble_s, 3);
}

// Of what a task consists goes to where it belongs, per stage: 2 micro-batches of each.
static void parts_of_tasks_are_told_apart(void **state)
{
    struct exact_plan plan = plan_of(*state, SCHEDULE_1F1B, 2, 2);
    plan.price->hop_s = 0;
    plan.class->phase_s[TASK_BACKWARD][PART_RECOMPUTE] = 0.5;
    plan.class->phase_s[TASK_FORWARD][PART_TP] = 0.25;
    plan.class->phase_s[TASK_FORWARD][PART_OFFLOAD] = 0.125;
    struct cost cost = cost_of(&plan);
    is_near("step", cost.step_s, 3 * (1.375 + 2.5));
    is_near("compute", cost.compute_s, 6);
    is_near("recompute", cost.recompute_s, 1);
    is_near("tensor parallel", cost.exposed_s[PART_TP], 0.5);
    is_near("offload", cost.exposed_s[PART_OFFLOAD], 0.25);
    is_near("communication", cost.exposed_comm_s, 0.75);
    is_near("bubble", cost.bubble_s, 1.375 + 2.5);
}

// One micro-batch through 40 stages, each a class of its own, which are more than the formula has
// room for beside: 39 of 1 and 2, and the last twice as long. Asked again it says the same.
static void stages_may_all_differ(void **state)
{
    enum { MANY = CLOSED_FORM_CLASSES + 8 };
    struct schedule_shape shape = {MANY, 1, 1, 0, NULL};
    struct step_price *price = even_plan(*state, SCHEDULE_1F1B, shape, 1, 2);
    struct chunk_price *classes = ARENA_NEW(*state, struct chunk_price, MANY);
    int *class_of = ARENA_NEW(*state, int, MANY);
    for (int stage = 0; stage < MANY; stage++) {
        classes[stage] = price->classes[0];
        class_of[stage] = stage;
    }
    classes[MANY - 1].phase_s[TASK_FORWARD][PART_COMPUTE] = 2;
    classes[MANY - 1].phase_s[TASK_BACKWARD][PART_COMPUTE] = 4;
    price->classes = classes;
    price->class_of = class_of;
    price->class_count = MANY;
    price->runs = NULL;
    price->hop_s = 0;
    struct closed_form_paths paths = {0};
    for (int time = 0; time < 2; time++)
        is_near("step", closed_form_after(&paths, price).step_s, 3 * (MANY - 1) + 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_stages_with_blocking_hops),
        cmocka_unit_test(a_reduction_shorter_than_the_send_is_hidden_but_on_the_first_stage),
        cmocka_unit_test(tied_parameters_wait_for_both_ends),
        cmocka_unit_test(a_validated_step_is_its_longest_stage),
        cmocka_unit_test(a_reduction_in_pieces_ends_after_the_last_backward),
        cmocka_unit_test(parameters_are_gathered_beside_the_first_forward),
        cmocka_unit_test(later_stages_have_longer_to_gather),
        cmocka_unit_test(parted_backwards_block_thrice),
        cmocka_unit_test(a_longer_stage_makes_the_others_wait),
        cmocka_unit_test(parts_of_tasks_are_told_apart),
        cmocka_unit_test(stages_may_all_differ),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
