#include "cost_models/stack.h"
#include "plan/passes.h"
#include "tests/support/test.h"

// What a stack that can do one thing of each kind refuses: every refusal's words, and that what
// lies beside each is let through.

static struct stack *stack_of_least(struct arena *arena)
{
    struct stack *stack = ARENA_NEW(arena, struct stack, 1);
    stack->name = "least";
    stack->flags_of = "least";
    stack->axes = 1u << AXIS_DP;
    stack->zero_stages = stack->zero_stages_with_pipeline = 1u << 1;
    stack->schedules = 1u << SCHEDULE_1F1B;
    stack->recompute = 1u << RECOMPUTE_NONE;
    stack->attention = 1u << ATTENTION_FLASH;
    stack->tp_kinds = 1u << TP_1D;
    stack->passes = 1u << PASS_FUSION;
    return stack;
}

static struct parallel *parallel_of_least(struct arena *arena)
{
    struct parallel *parallel = ARENA_NEW(arena, struct parallel, 1);
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel->degree[axis] = 1;
    parallel->degree[AXIS_DP] = 4;
    parallel->zero = 1;
    parallel->schedule = SCHEDULE_1F1B;
    parallel->attention = ATTENTION_FLASH;
    parallel->recompute_layers = -1;
    parallel->passes = 1u << PASS_FUSION;
    return parallel;
}

// `wanted` NULL: it can run.
static void check(struct arena *arena, const struct stack *stack, const struct parallel *parallel,
                  const char *wanted)
{
    const char *why = NULL;
    assert_int_equal(stack_can_run(stack, parallel, arena, &why), wanted == NULL);
    assert_int_equal(stack_can_run(stack, parallel, arena, NULL), wanted == NULL);
    if (wanted) assert_string_equal(why, wanted);
    if (!wanted) assert_null(why);
}

// Sets a number of the plan that is refused, and then the stack's that lets it through.
#define REFUSED(member, value, text)            \
    do {                                        \
        parallel->member = value;               \
        check(*state, stack, parallel, (text)); \
    } while (0)
#define TAKEN(member, value)                  \
    do {                                      \
        stack->member = value;                \
        check(*state, stack, parallel, NULL); \
    } while (0)

static void axes_schedules_and_zero_stages_are_asked_of(void **state)
{
    struct stack *stack = stack_of_least(*state);
    struct parallel *parallel = parallel_of_least(*state);
    check(*state, stack, parallel, NULL);
    REFUSED(degree[AXIS_TP], 2, "stack least cannot split over tp");
    TAKEN(axes, 1u << AXIS_DP | 1u << AXIS_TP);
    REFUSED(degree[AXIS_CP], 2, "stack least cannot split over cp");
    stack->axes |= 1u << AXIS_CP;
    REFUSED(cp_kind, CP_RING, "stack least has no ring context parallelism");
    TAKEN(cp_kinds, 1u << CP_RING);
    REFUSED(cp_kind, CP_ULYSSES, "stack least has no ulysses context parallelism");
    parallel->degree[AXIS_CP] = 1;
    check(*state, stack, parallel, NULL);
    REFUSED(tp_kind, TP_2D, "stack least has no 2d tensor parallelism");
    TAKEN(tp_kinds, 1u << TP_2D);
    // Without a pipeline no schedule is asked of, nor what goes together with one.
    parallel->schedule = SCHEDULE_GPIPE;
    stack->zero_stages_with_pipeline = 0;
    check(*state, stack, parallel, NULL);
    stack->axes |= 1u << AXIS_PP;
    REFUSED(degree[AXIS_PP], 2, "stack least has no schedule gpipe");
    stack->schedules = 1u << SCHEDULE_GPIPE;
    check(*state, stack, parallel, "stack least has no zero stage 1 together with a pipeline");
    TAKEN(zero_stages_with_pipeline, 1u << 1);
    REFUSED(zero, 2, "stack least has no zero stage 2");
    parallel->zero = 1;
    REFUSED(zero_gradients, 2,
            "stack least shards parameters, gradients and states over one group; meshwright runs "
            "groups of their own (--zero-gradients, --zero-parameters)");
}

// Axes of one rank do not count, wherever they stand.
static void an_order_is_asked_of(void **state)
{
    struct stack *stack = stack_of_least(*state);
    struct parallel *parallel = parallel_of_least(*state);
    const enum axis order[] = {AXIS_PP, AXIS_DP, AXIS_TP, AXIS_CP};
    stack->axes |= 1u << AXIS_TP | 1u << AXIS_PP;
    parallel->order_count = 4;
    memcpy(parallel->order, order, sizeof order);
    TAKEN(order_fixed, true);
    REFUSED(degree[AXIS_TP], 2, "stack least numbers its ranks over tp before dp");
    TAKEN(order_fixed, false);
    stack->order_fixed = true;
    parallel->degree[AXIS_TP] = 1;
    REFUSED(degree[AXIS_PP], 2, "stack least numbers its ranks over dp before pp");
    parallel->order_count = 0;
    check(*state, stack, parallel, NULL);
}

static void recompute_is_asked_of(void **state)
{
    struct stack *stack = stack_of_least(*state);
    struct parallel *parallel = parallel_of_least(*state);
    // Of none no layers are counted.
    stack->recompute_whole = 1u << RECOMPUTE_NONE;
    parallel->recompute_layers = 2;
    check(*state, stack, parallel, NULL);
    REFUSED(recompute, RECOMPUTE_FULL, "stack least has no full recompute");
    TAKEN(recompute, 1u << RECOMPUTE_FULL | 1u << RECOMPUTE_SELECTIVE);
    stack->recompute_whole = 1u << RECOMPUTE_FULL;
    check(*state, stack, parallel, "stack least has full recompute of all layers alone");
    REFUSED(recompute_layers, 0, "stack least has full recompute of all layers alone");
    REFUSED(recompute_layers, -1, NULL);
    REFUSED(recompute, RECOMPUTE_SELECTIVE, "stack least has no selective recompute of attention");
    TAKEN(recompute_classes, 1u << OP_CLASS_ATTENTION);
    REFUSED(recompute_classes, 1u << OP_CLASS_ATTENTION | 1u << OP_CLASS_MLP,
            "stack least has no selective recompute of mlp");
}

static void an_optimizer_leaves_where_it_may(void **state)
{
    struct stack *stack = stack_of_least(*state);
    struct parallel *parallel = parallel_of_least(*state);
    REFUSED(offload.optimizer, TIER_HOST, "stack least cannot offload the optimizer");
    TAKEN(offload, 1u << OFFLOADS_OPTIMIZER);
    REFUSED(offload.optimizer, TIER_NVME, "stack least cannot offload the optimizer to NVMe");
    TAKEN(offload, 1u << OFFLOADS_OPTIMIZER_NVME);
    stack->nvme_zero_stages = 1u << 3;
    check(*state, stack, parallel,
          "stack least cannot offload the optimizer to NVMe at zero stage 1");
    TAKEN(nvme_zero_stages, 1u << 1);
    stack->offload_zero_stages = 1u << 2;
    check(*state, stack, parallel,
          "stack least cannot offload the optimizer to NVMe at zero stage 1");
    TAKEN(offload_zero_stages, 1u << 1 | 1u << 2);
    REFUSED(offload.optimizer_layers, 1,
            "stack least offloads the optimizer of all layers or of none");
}

static void parameters_and_gradients_leave_where_they_may(void **state)
{
    struct stack *stack = stack_of_least(*state);
    struct parallel *parallel = parallel_of_least(*state);
    REFUSED(offload.parameters, TIER_HOST, "stack least cannot offload parameters");
    TAKEN(offload, 1u << OFFLOADS_PARAMETERS);
    stack->parameter_zero_stages = 1u << 3;
    check(*state, stack, parallel, "stack least cannot offload parameters at zero stage 1");
    // What ZeRO 3 shards no stack moves, whatever its file says.
    unsigned zero_stages = stack->zero_stages;
    stack->zero_stages = 1u << 3;
    parallel->zero = 3;
    check(*state, stack, parallel, "stack least cannot offload parameters at zero stage 3");
    stack->zero_stages = zero_stages;
    parallel->zero = 1;
    TAKEN(parameter_zero_stages, 1u << 1);
    REFUSED(offload.parameter_layers, 1,
            "stack least offloads parameters of all layers or of none");
    parallel->offload.parameter_layers = 0;
    REFUSED(offload.parameters, TIER_NVME, "stack least cannot offload parameters to NVMe");
    TAKEN(offload, 1u << OFFLOADS_PARAMETERS_NVME);
    REFUSED(offload.gradients, true, "stack least cannot offload gradients");
}

// Where gradients leave by themselves a plan that says otherwise is refused, at any stage of ZeRO.
static void gradients_leave_along_where_they_do(void **state)
{
    struct stack *stack = stack_of_least(*state);
    struct parallel *parallel = parallel_of_least(*state);
    stack->offload = 1u << OFFLOADS_OPTIMIZER | 1u << OFFLOADS_GRADIENTS;
    stack->gradients_leave_zero_stages = 1u << 2;
    stack->zero_stages = 1u << 1 | 1u << 2;
    // A bucket is copied as one.
    stack->passes |= 1u << PASS_COMBINE;
    parallel->passes |= 1u << PASS_COMBINE;
    check(*state, stack, parallel, NULL);
    parallel->offload.optimizer = TIER_HOST;
    check(*state, stack, parallel, NULL);
    REFUSED(offload.gradients, true, "stack least cannot offload gradients at zero stage 1");
    parallel->zero = 2;
    check(*state, stack, parallel, NULL);
    REFUSED(offload.gradient_layers, 3, "stack least offloads gradients of all layers or of none");
    parallel->offload.gradient_layers = 0;
    REFUSED(offload.gradients, false,
            "stack least moves gradients beside the optimizer at zero stage 2: --offload "
            "optimizer,gradients would run");
    struct offload moved = {.optimizer = TIER_NVME};
    stack_moves_along(stack, 1, &moved);
    assert_false(moved.gradients);
    stack_moves_along(stack, 2, &moved);
    assert_true(moved.gradients);
    moved = (struct offload){.activations = TIER_HOST};
    stack_moves_along(stack, 2, &moved);
    assert_false(moved.gradients);
}

static void activations_leave_where_they_may(void **state)
{
    struct stack *stack = stack_of_least(*state);
    struct parallel *parallel = parallel_of_least(*state);
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        parallel->offload.layers[class] = 2;
    REFUSED(offload.activations, TIER_HOST, "stack least cannot offload activations");
    TAKEN(offload, 1u << OFFLOADS_ACTIVATIONS);
    REFUSED(offload.layers[OP_CLASS_COUNT - 1], 1,
            "stack least offloads activations of whole layers only");
    TAKEN(offload, 1u << OFFLOADS_ACTIVATIONS | 1u << OFFLOADS_CLASSES);
    REFUSED(offload.activations, TIER_NVME, "stack least cannot offload activations to NVMe");
    TAKEN(offload, 1u << OFFLOADS_ACTIVATIONS_NVME | 1u << OFFLOADS_CLASSES);
    // What full recompute of all layers leaves is less.
    parallel->offload.activations = TIER_HOST;
    stack->offload = 1u << OFFLOADS_CHECKPOINTS | 1u << OFFLOADS_CLASSES;
    check(*state, stack, parallel, "stack least cannot offload activations without full recompute");
    parallel->recompute = RECOMPUTE_FULL;
    TAKEN(recompute, 1u << RECOMPUTE_FULL);
    REFUSED(recompute_layers, 3, "stack least cannot offload activations without full recompute");
    parallel->recompute_layers = -1;
    REFUSED(offload.activations, TIER_NVME,
            "stack least cannot offload activations to NVMe without full recompute");
    TAKEN(offload, 1u << OFFLOADS_CHECKPOINTS_NVME | 1u << OFFLOADS_CLASSES);
}

static void the_rest_is_asked_of(void **state)
{
    struct stack *stack = stack_of_least(*state);
    struct parallel *parallel = parallel_of_least(*state);
    REFUSED(attention, ATTENTION_UNFUSED, "stack least has no unfused attention");
    TAKEN(attention, 1u << ATTENTION_UNFUSED);
    REFUSED(sp, true, "stack least has no sequence parallelism");
    TAKEN(sequence_parallel, true);
    REFUSED(lora.rank, 1, "stack least trains no adapters (--lora)");
    TAKEN(adapters, true);
    REFUSED(replica_count, 1,
            "stack least gives all replicas as many micro-batches; meshwright runs unlike numbers");
    parallel->replica_count = 0;
    REFUSED(layout_count, 1, "stack least lays no operator out by itself");
    parallel->layout_count = 0;
    REFUSED(overlap, OVERLAP_EP, "stack least cannot overlap ep");
    TAKEN(overlap, OVERLAP_EP);
    stack->passes = 0;
    check(*state, stack, parallel, "stack least has no pass fusion");
}

static void rounds_and_experts_are_asked_of(void **state)
{
    struct stack *stack = stack_of_least(*state);
    struct err none = {0}, few = {0}, split = {0};
    assert_true(stack_check_rounds(stack, SCHEDULE_1F1B, 8, 1, &none));
    assert_true(stack_check_experts(stack, 8, 4, 1, &none));
    stack->fills_pipeline = stack->splits_experts_as_tp = true;
    assert_true(stack_check_rounds(stack, SCHEDULE_1F1B, 8, 7, &none));
    assert_false(stack_check_rounds(stack, SCHEDULE_GPIPE, 8, 6, &few));
    assert_string_equal(few.text, "--pp 8: stack least takes no fewer micro-batches a step than "
                                  "stages behind the first; this plan has 6");
    assert_true(stack_check_experts(stack, 8, 4, 4, &none));
    assert_true(stack_check_experts(stack, 0, 4, 1, &none));
    assert_false(stack_check_experts(stack, 1, 4, 1, &split));
    assert_string_equal(split.text, "--etp 1: stack least splits experts as all else, by tp 4");
    assert_string_equal(none.text, "");
}

static void one_forward_one_backward_may_want_a_micro_batch_for_every_stage(void **state)
{
    struct stack *stack = stack_of_least(*state);
    struct err none = {0}, few = {0};
    stack->fills_1f1b = true;
    assert_true(stack_check_rounds(stack, SCHEDULE_1F1B, 8, 8, &none));
    assert_true(stack_check_rounds(stack, SCHEDULE_1F1B, 1, 1, &none));
    assert_true(stack_check_rounds(stack, SCHEDULE_GPIPE, 8, 7, &none));
    assert_true(stack_check_rounds(stack, SCHEDULE_INTERLEAVED, 8, 7, &none));
    assert_false(stack_check_rounds(stack, SCHEDULE_1F1B, 8, 7, &few));
    assert_string_equal(few.text, "--pp 8: stack least takes no fewer micro-batches a step of 1f1b "
                                  "than stages; this plan has 7");
    assert_string_equal(none.text, "");
}

static void rules_of_one_software_may_stand_beside_the_constants_of_another(void **state)
{
    struct stack *stack = stack_of_least(*state), of = *stack;
    of.stages_by_flop = of.fills_pipeline = of.fills_1f1b = of.splits_experts_as_tp = true;
    of.host_op_s = stack->host_op_s + 1;
    const struct stack *ruled = stack_with_rules(*state, stack, &of);
    assert_true(ruled->stages_by_flop && ruled->fills_pipeline && ruled->fills_1f1b);
    assert_true(ruled->splits_experts_as_tp && !stack->fills_pipeline);
    assert_true(ruled->host_op_s == stack->host_op_s);
    assert_string_equal(ruled->name, stack->name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_schedules_and_zero_stages_are_asked_of),
        cmocka_unit_test(an_order_is_asked_of),
        cmocka_unit_test(recompute_is_asked_of),
        cmocka_unit_test(an_optimizer_leaves_where_it_may),
        cmocka_unit_test(parameters_and_gradients_leave_where_they_may),
        cmocka_unit_test(gradients_leave_along_where_they_do),
        cmocka_unit_test(activations_leave_where_they_may),
        cmocka_unit_test(the_rest_is_asked_of),
        cmocka_unit_test(rounds_and_experts_are_asked_of),
        cmocka_unit_test(one_forward_one_backward_may_want_a_micro_batch_for_every_stage),
        cmocka_unit_test(rules_of_one_software_may_stand_beside_the_constants_of_another),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
