#include "cost_models/host.h"
#include "cost_models/parameters.h"
#include "tests/support/priced.h"
#include "tests/support/test.h"

#include <math.h>

// Software that runs a program operator by operator: what a slow host adds, the loss and the sums
// of gradients as kernels of their own, and what it holds beside.

static void assert_close(double found, double wanted)
{
    if (fabs(found - wanted) <= 1e-9 * fabs(wanted)) return;
    print_error("found %.12g, expected %.12g\n", found, wanted);
    fail();
}

static struct priced start(struct arena *arena, const char *model, const char *cluster,
                           struct stack *stack)
{
    struct priced of = priced_start(arena, model, cluster, "nanotron");
    *stack = *of.stack;
    of.stack = stack;
    return of;
}

// Of equal seconds both together take 2^(1/n) times as long: 2^(1/3) - 1 = 0.2599 and
// 2^(1/7) - 1 = 0.1041 of them are waited for.
static void host_and_device_combine_by_the_norm_of_the_stack(void **state)
{
    (void)state;
    struct stack stack = {0};
    assert_close(host_wait_s(&stack, 3, 3), 3 * (cbrt(2) - 1));
    assert_close(host_wait_s(&stack, 1, 2), cbrt(9) - 1);
    stack.host_norm = 7;
    assert_close(host_wait_s(&stack, 3, 3), 3 * (pow(2, 1.0 / 7) - 1));
    assert_close(host_wait_s(&stack, 2, 1), pow(129, 1.0 / 7) - 2);
    stack.host_norm = 1;
    assert_close(host_wait_s(&stack, 2, 1), 1);
    assert_true(host_wait_s(&stack, 2, 0) == 0);
    assert_close(host_wait_s(&stack, 0, 2), 2);
}

static const struct instr *find(const struct block_program *program, enum op_kind kind)
{
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (instr->collective == COLLECTIVE_NONE && instr->kind == kind) return instr;
    }
    return NULL;
}

// GPT-2 at 2,048 tokens, its 50,257 words padded to a multiple of 128: 2048 * 50304 logits.
static void a_loss_moves_the_bytes_that_the_stack_says(void **state)
{
    struct stack stack;
    struct priced of = start(*state, "gpt2", "dgx-h100", &stack);
    priced_finish(&of);
    const struct block_program *head = priced_block(&of, BLOCK_HEAD);
    const struct instr *loss = find(head, OP_LOSS), *backward = find(head, OP_LOSS_BACKWARD);
    const struct compute_context *context = &of.context.compute;
    double logits = (double)head->buffers[loss->inputs[0]].bytes / 2;
    assert_true(logits == 2048.0 * 50304 || logits == 2048.0 * 50257);
    double gap_s = context->device->launch_latency_s * stack.element_wise_scale;
    stack.loss_forward_bytes = 38;
    stack.loss_backward_bytes = 14;
    assert_close(compute_price(context, head, loss).s, stream_s(context, 38 * logits) + gap_s);
    assert_close(compute_price(context, head, backward).s, stream_s(context, 14 * logits) + gap_s);
    stack.loss_forward_bytes = stack.loss_backward_bytes = 0;
    double read = (double)(loss->read_bytes + loss->write_bytes) * stack.element_wise_scale;
    assert_close(compute_price(context, head, loss).s, stream_s(context, read) + gap_s);
}

// Each micro-batch adds every parameter's gradient to the kept one.
static void sums_of_gradients_are_work_of_the_last_phase(void **state)
{
    struct stack stack;
    struct priced of = start(*state, "gpt2", "dgx-h100", &stack);
    stack.accumulate_bytes = 0;
    stack.host_op_s = 0;
    priced_finish(&of);
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    struct block_price before = block_price(&of.context, &of.program->mesh, layer, 0);
    stack.accumulate_bytes = 10;
    struct block_price after = block_price(&of.context, &of.program->mesh, layer, 0);
    double added_s = stream_s(&of.context.compute, 10 * (double)layer->parameter_elements);
    assert_close(after.phase_s[PHASE_WEIGHT][PART_COMPUTE],
                 before.phase_s[PHASE_WEIGHT][PART_COMPUTE] + added_s);
    assert_true(after.phase_s[PHASE_BACKWARD][PART_COMPUTE] ==
                before.phase_s[PHASE_BACKWARD][PART_COMPUTE]);
}

static void some_zero_stages_reduce_behind_backward(void **state)
{
    for (int zero = 0; zero < 2; zero++) {
        struct stack stack;
        struct priced of = start(*state, "gpt2", "dgx-h100", &stack);
        of.parallel.zero = zero;
        priced_finish(&of);
        assert_true(of.parallel.overlap & OVERLAP_GRAD_REDUCE);
        assert_true(of.price->reduce_overlapped == (zero == 0));
        stack.exposed_zero_stages = 0;
        priced_finish(&of);
        assert_true(of.price->reduce_overlapped);
    }
}

// Two gathers a layer, of 2048 tokens of 4,096 numbers in bf16, on each of two ranks.
static void what_tensor_parallelism_gathers_may_stay(void **state)
{
    int64_t held[2];
    for (int keeps = 0; keeps < 2; keeps++) {
        struct stack stack;
        struct priced of = start(*state, "llama-2-7b", "dgx-h100", &stack);
        stack.keeps_gathers = keeps;
        of.parallel.degree[AXIS_TP] = 2;
        of.parallel.sp = true;
        priced_finish(&of);
        assert_int_equal(priced_block(&of, BLOCK_LAYER)->gathered_bytes, 2 * 2048 * 4096 * 2);
        held[keeps] = memory_of_stage(of.program, &stack, 0).activations_bytes;
    }
    assert_int_equal(held[1] - held[0], (int64_t)32 * 2 * 2048 * 4096 * 2);
    struct stack stack;
    struct priced of = start(*state, "llama-2-7b", "dgx-h100", &stack);
    of.parallel.degree[AXIS_TP] = 2;
    of.parallel.sp = true;
    of.parallel.recompute = RECOMPUTE_FULL;
    priced_finish(&of);
    // Layers that are recomputed gather again, one after the other, when the logits are gone.
    stack.logits_bytes_per_element = 2;
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    assert_int_equal(layer->gathered_bytes, 0);
    assert_int_equal(layer->regathered_bytes, 2 * 2048 * 4096 * 2);
    for (int keeps = 0; keeps < 2; keeps++) {
        stack.keeps_gathers = keeps;
        struct memory_parts parts = memory_of_stage(of.program, &stack, 0);
        held[keeps] = parts.activations_bytes + parts.transient_bytes + parts.logits_bytes;
    }
    assert_int_equal(held[1] - held[0], 2 * 2048 * 4096 * 2);
}

// Two bytes of each of GPT-2's gradients where ranks reduce, and 3 of each logit that the
// micro-batch before left.
static void buffers_of_reduction_and_left_logits_are_held(void **state)
{
    struct stack stack;
    struct priced of = start(*state, "gpt2", "dgx-h100", &stack);
    of.workload.global_batch = 8 * 2;
    priced_finish(&of);
    struct memory_parts all = memory_of_stage(of.program, &stack, 0);
    double width = stack.reduce_buffer_bytes, left = stack.left_logits_bytes;
    assert_true(width == 2 && left == 3);
    const struct block_program *head = priced_block(&of, BLOCK_HEAD);
    double logits = (double)head->buffers[find(head, OP_LOSS)->inputs[0]].bytes / 2;
    double gradients = (double)all.gradients_bytes / stack.gradient_bytes;
    stack.reduce_buffer_bytes = stack.left_logits_bytes = 0;
    struct memory_parts bare = memory_of_stage(of.program, &stack, 0);
    assert_close((double)(all.buffers_bytes - bare.buffers_bytes), width * gradients);
    assert_close((double)(all.logits_bytes - bare.logits_bytes), left * logits);
    of.workload.global_batch = 8;  // one micro-batch: none before it
    priced_finish(&of);
    bare = memory_of_stage(of.program, &stack, 0);
    stack.left_logits_bytes = left;
    all = memory_of_stage(of.program, &stack, 0);
    assert_int_equal(all.logits_bytes, bare.logits_bytes);
}

static int64_t activation_bytes(struct arena *arena, int tp, int pp, bool regathers)
{
    struct stack stack;
    struct priced of = start(arena, "llama-2-7b", "dgx-h100-x4", &stack);
    stack.regathers_between_nodes = regathers;
    of.parallel.degree[AXIS_TP] = tp;
    of.parallel.degree[AXIS_PP] = pp;
    of.parallel.sp = true;
    priced_finish(&of);
    return memory_of_stage(of.program, &stack, 0).activations_bytes;
}

// Two stages of 16 layers hold two micro-batches in front, of each layer two gathers of 2048 tokens
// of 4,096 numbers.
static void gathers_go_where_tensor_groups_of_a_pipeline_span_nodes(void **state)
{
    int64_t kept = activation_bytes(*state, 16, 2, false);
    int64_t dropped = activation_bytes(*state, 16, 2, true);
    assert_int_equal(kept - dropped, (int64_t)2 * 16 * 2 * 2048 * 4096 * 2);
    assert_int_equal(activation_bytes(*state, 8, 2, true), activation_bytes(*state, 8, 2, false));
    assert_int_equal(activation_bytes(*state, 16, 1, true), activation_bytes(*state, 16, 1, false));
}

static void the_allocator_has_more_slack_in_a_pipeline(void **state)
{
    for (int pp = 1; pp <= 2; pp++) {
        struct stack stack;
        struct priced of = start(*state, "llama-2-7b", "dgx-h100", &stack);
        stack.reserve_ratio = 0.25;
        stack.pipeline_reserve_ratio = 0.5;
        of.parallel.degree[AXIS_PP] = pp;
        priced_finish(&of);
        struct memory_parts parts = memory_of_stage(of.program, &stack, 0);
        int64_t live = parts.activations_bytes + parts.transient_bytes + parts.logits_bytes;
        assert_int_equal(parts.reserve_bytes - stack.reserve_bytes, live * pp / 4);
        stack.pipeline_reserve_ratio = 0;
        parts = memory_of_stage(of.program, &stack, 0);
        assert_int_equal(parts.reserve_bytes - stack.reserve_bytes, live / 4);
    }
}

static void some_software_wants_a_micro_batch_for_every_stage_behind_the_first(void **state)
{
    struct stack stack;
    start(*state, "gpt2", "dgx-h100", &stack);
    struct err err = {0};
    assert_true(stack_check_rounds(&stack, SCHEDULE_1F1B, 4, 3, &err));
    assert_true(stack_check_rounds(&stack, SCHEDULE_1F1B, 1, 1, &err));
    assert_false(stack_check_rounds(&stack, SCHEDULE_1F1B, 4, 2, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, "--pp 4: stack nanotron takes no fewer micro-batches a step than "
                                  "stages behind the first; this plan has 2");
    struct err none = {0};
    stack.fills_pipeline = false;
    assert_true(stack_check_rounds(&stack, SCHEDULE_1F1B, 4, 2, &none));
}

static double forward_s(const struct priced *of, unsigned overlap, double phase_s[PART_COUNT])
{
    struct block_price price =
        block_price(&of->context, &of->program->mesh, priced_block(of, BLOCK_LAYER), overlap);
    double sum_s = 0;
    for (int part = 0; part < PART_COUNT; part++)
        sum_s += phase_s[part] = price.phase_s[PHASE_FORWARD][part];
    return sum_s;
}

// Seconds that both take together, by the norm of a stack that states none.
static double both_s(double device_s, double host_s)
{
    return cbrt(pow(device_s, 3) + pow(host_s, 3));
}

// A layer gathers parameters beside a host that launches for four times as long as it computes. Of
// the gathers that room, or half of it, hides as much, which the host is waited for as well; what
// contention adds to compute goes on beside what is hidden.
static void what_is_hidden_in_a_wait_leaves_it_no_room(void **state)
{
    struct stack stack;
    struct priced of = start(*state, "gpt2", "dgx-h100-x4", &stack);
    of.parallel.zero = 3;
    stack.host_norm = stack.host_op_s = 0;
    priced_finish(&of);
    double phase_s[PART_COUNT];
    forward_s(&of, 0, phase_s);
    double work_s = phase_s[PART_COMPUTE], host_s = 4 * work_s;
    stack.host_op_s = 1;
    double kernel_count = forward_s(&of, 0, phase_s);
    stack.host_op_s = host_s / kernel_count;
    stack.network_scale /= 32;
    for (int fast = 0; fast < 2; fast++) {
        forward_s(&of, 0, phase_s);
        double gather_s = phase_s[PART_DP];
        assert_true((gather_s > both_s(work_s, host_s)) == !fast);
        static const double RATIOS[][2] = {{1, 0}, {1, 0.25}, {0.5, 0}, {0.5, 0.25}};
        for (int i = 0; i < 4; i++) {
            stack.overlap_ratio = RATIOS[i][0];
            stack.contention_ratio = RATIOS[i][1];
            double hidden_s = fmin(gather_s, both_s(work_s, host_s) * RATIOS[i][0]);
            double slowed_s = RATIOS[i][1] * hidden_s;
            double whole_s = forward_s(&of, OVERLAP_PARAM_GATHER, phase_s);
            assert_close(phase_s[PART_DP] + work_s, gather_s - hidden_s + work_s);
            double device_s = work_s + slowed_s + gather_s - hidden_s;
            assert_close(whole_s, fmax(both_s(device_s, host_s), gather_s));
        }
        stack.network_scale *= 32;
    }
}

// Forward of a layer exchanges four times. Of tensor groups of 8 on four nodes the host takes 8
// times the stack's seconds for each where stages are on unlike nodes, else nothing; of groups on
// two and on four nodes 2 and 6 times as many for the nodes behind the first.
static void exchanges_hold_the_host_up_in_a_pipeline_over_nodes(void **state)
{
    static const struct {
        const char *cluster;
        int tp, pp, ranks;
    } CASES[] = {{"dgx-h100-x4", 8, 4, 8},  {"dgx-h100-x4", 8, 1, 0},   {"dgx-h100", 4, 2, 0},
                 {"dgx-h100-x4", 16, 1, 2}, {"dgx-h100-x4", 16, 2, 18}, {"dgx-h100-x4", 32, 1, 6}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct stack stack;
        struct priced of = start(*state, "llama-2-7b", CASES[i].cluster, &stack);
        of.parallel.degree[AXIS_TP] = CASES[i].tp;
        of.parallel.degree[AXIS_PP] = CASES[i].pp;
        of.parallel.sp = true;
        stack.host_op_s = stack.host_norm = stack.pipeline_sync_s = stack.node_sync_s = 0;
        priced_finish(&of);
        double phase_s[PART_COUNT];
        double device_s = forward_s(&of, 0, phase_s);
        stack.pipeline_sync_s = 1e-3;
        stack.node_sync_s = 2e-3;
        double host_s = 4e-3 * CASES[i].ranks;
        assert_close(forward_s(&of, 0, phase_s), both_s(device_s, host_s));
    }
}

// Compute of 3 and 1 beside a host of 1 and 3: with the 2-norm a host that starts anew with each
// phase is waited for 2 (root 10) - 4, one that runs ahead root 32 - 4, in the shares of before:
// root 10 - 3 and root 10 - 1.
static void a_host_that_runs_ahead_is_waited_for_once(void **state)
{
    (void)state;
    struct stack stack = {0};
    const double device_s[PHASE_COUNT] = {3, 1, 0}, host_s[PHASE_COUNT] = {1, 3, 0};
    double wait_s[PHASE_COUNT];
    host_waits(&stack, device_s, host_s, wait_s);
    assert_close(wait_s[0], cbrt(28) - 3);
    assert_close(wait_s[1], cbrt(28) - 1);
    stack.host_norm = 2;
    host_waits(&stack, device_s, host_s, wait_s);
    double alone_s = 2 * sqrt(10) - 4, all_s = sqrt(32) - 4;
    assert_close(wait_s[0], (sqrt(10) - 3) * all_s / alone_s);
    assert_close(wait_s[1], (sqrt(10) - 1) * all_s / alone_s);
    assert_true(wait_s[2] == 0);
    const double none_s[PHASE_COUNT] = {0};
    host_waits(&stack, device_s, none_s, wait_s);
    assert_true(wait_s[0] == 0 && wait_s[1] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_and_device_combine_by_the_norm_of_the_stack),
        cmocka_unit_test(a_loss_moves_the_bytes_that_the_stack_says),
        cmocka_unit_test(exchanges_hold_the_host_up_in_a_pipeline_over_nodes),
        cmocka_unit_test(a_host_that_runs_ahead_is_waited_for_once),
        cmocka_unit_test(what_is_hidden_in_a_wait_leaves_it_no_room),
        cmocka_unit_test(sums_of_gradients_are_work_of_the_last_phase),
        cmocka_unit_test(some_zero_stages_reduce_behind_backward),
        cmocka_unit_test(what_tensor_parallelism_gathers_may_stay),
        cmocka_unit_test(buffers_of_reduction_and_left_logits_are_held),
        cmocka_unit_test(gathers_go_where_tensor_groups_of_a_pipeline_span_nodes),
        cmocka_unit_test(the_allocator_has_more_slack_in_a_pipeline),
        cmocka_unit_test(some_software_wants_a_micro_batch_for_every_stage_behind_the_first),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
