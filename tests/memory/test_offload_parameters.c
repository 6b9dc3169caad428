#include "tests/support/priced.h"
#include "tests/support/test.h"

#include "cost_models/offload.h"
#include "plan/offload.h"
#include "plan/passes.h"
#include "planner/plan_stays.h"
#include "simulator/closed_form.h"

#include <math.h>
#include <stdlib.h>

static struct priced priced_with(struct arena *arena, const char *words, int pp, unsigned overlap)
{
    struct priced of = priced_start(arena, "llama-2-7b", "dgx-a100-80g", "meshwright");
    of.parallel.degree[AXIS_PP] = pp;
    of.parallel.micro_batch = 2;
    of.parallel.overlap = overlap;
    assert_true(offload_parse(words, &of.parallel.offload));
    priced_finish(&of);
    return of;
}

// Weights on the host: none on the device but those of the blocks under way, which are the widest
// twice where they are fetched ahead; what of their copies takes longer than the compute of a block
// is waited for, and all of it where nothing is fetched ahead.
static void parameters_on_the_host_leave_the_blocks_under_way(void **state)
{
    for (int ahead = 0; ahead < 2; ahead++) {
        struct priced of[2];
        for (int i = 0; i < 2; i++)
            of[i] = priced_with(*state, i ? "optimizer,parameters" : "optimizer", 1,
                                ahead ? OVERLAP_PARAM_GATHER : 0);
        struct memory_parts kept = memory_of_stage(of[0].program, of[0].stack, 0);
        struct memory_parts away = memory_of_stage(of[1].program, of[1].stack, 0);
        const struct block_program *layer = priced_block(&of[1], BLOCK_LAYER);
        const struct block_program *head = priced_block(&of[1], BLOCK_HEAD);
        // Two bytes each; the table and the norm of the head are fewer than a layer.
        int64_t layer_bytes = 2 * layer->parameter_elements;
        int64_t head_bytes = 2 * head->parameter_elements;
        assert_true(head_bytes < layer_bytes);
        assert_true(away.weights_bytes == 0 && kept.weights_bytes > 32 * layer_bytes);
        assert_true(away.host_bytes == kept.host_bytes + kept.weights_bytes);
        // A bucket of weights on their way up is no more: they are written where they are.
        double bucket = memory_bucket_bytes(of[0].program, of[0].stack);
        double up = bucket / stack_gradient_bytes(of[0].stack, PRECISION_BF16) * 2;
        int64_t more = away.buffers_bytes - kept.buffers_bytes;
        assert_true(llabs(more - ((1 + ahead) * layer_bytes - (int64_t)up)) <= 1);
        double copy_s = (double)layer_bytes / offload_bytes_per_s(&of[1].context, TIER_HOST);
        struct block_price price[2];
        for (int i = 0; i < 2; i++)
            price[i] = block_price(&of[i].context, &of[i].program->mesh,
                                   priced_block(&of[i], BLOCK_LAYER), of[i].parallel.overlap);
        struct copy_window window = copy_window(&of[0].context, TIER_HOST, &price[0]);
        double hidden_s[2] = {ahead ? fmin(copy_s, window.forward_s) : 0,
                              ahead ? fmin(copy_s, window.backward_s) : 0};
        for (int phase = PHASE_FORWARD; phase <= PHASE_BACKWARD; phase++) {
            double found_s = price[1].phase_s[phase][PART_OFFLOAD];
            assert_true(fabs(found_s - (copy_s - hidden_s[phase])) < 0.02 * copy_s);
        }
        assert_true(price[0].phase_s[PHASE_FORWARD][PART_OFFLOAD] == 0);
    }
}

// Of the first two layers of each of four stages: the device has theirs no more but for the room of
// one, or two where they are fetched ahead; their copies are waited for as those of all layers are,
// two of eight; and each stage's host writes them where they are.
static void check_some(struct arena *arena, bool ahead)
{
    static const enum phase PHASES[] = {PHASE_FORWARD, PHASE_BACKWARD};
    unsigned overlap = ahead ? OVERLAP_PARAM_GATHER : 0;
    struct priced kept = priced_with(arena, "optimizer", 4, overlap);
    struct priced some = priced_with(arena, "optimizer,parameters:2", 4, overlap);
    struct priced all = priced_with(arena, "optimizer,parameters", 4, overlap);
    const struct block_program *layer = priced_block(&kept, BLOCK_LAYER);
    int64_t bytes = 2 * layer->parameter_elements;
    for (int stage = 0; stage < 4; stage++) {
        struct memory_parts before = memory_of_stage(kept.program, kept.stack, stage);
        struct memory_parts after = memory_of_stage(some.program, some.stack, stage);
        assert_true(before.weights_bytes - after.weights_bytes == 2 * bytes);
        assert_true(after.host_bytes - before.host_bytes == 2 * bytes);
        assert_true(after.buffers_bytes - before.buffers_bytes == (1 + ahead) * bytes);
        assert_true(after.optimizer_bytes == 0 && after.gradients_bytes == before.gradients_bytes);
    }
    for (int stage = 0; stage < 4; stage++) {
        int class = some.program->class_of[stage], other = all.program->class_of[stage];
        const struct chunk_price *found = &some.price->classes[class];
        const struct chunk_price *none = &kept.price->classes[kept.program->class_of[stage]];
        double up_s = none->update_copy_s[1] - found->update_copy_s[1];
        double copy_s = (double)bytes / offload_bytes_per_s(&some.context, TIER_HOST);
        assert_true(fabs(up_s - 2 * copy_s) < 1e-9 * copy_s);
        // A stage in the middle is eight layers and nothing else.
        for (int p = 0; p < 2 && stage > 0 && stage < 3; p++) {
            double each_s = all.price->classes[other].phase_s[PHASES[p]][PART_OFFLOAD] / 8;
            double found_s = found->phase_s[PHASES[p]][PART_OFFLOAD];
            assert_true(each_s > 0 && fabs(found_s - 2 * each_s) < 1e-9 * each_s);
            assert_true(none->phase_s[PHASES[p]][PART_OFFLOAD] == 0);
        }
    }
    double some_s = closed_form(some.price).step_s;
    assert_true(some_s < closed_form(all.price).step_s && some_s > closed_form(kept.price).step_s);
}

static void parameters_of_some_layers_leave_the_rest(void **state)
{
    check_some(*state, false);
    check_some(*state, true);
}

// One stage, in which nothing hides copies.
static struct priced priced_whole(struct arena *arena, const char *words)
{
    struct priced of = priced_start(arena, "llama-2-7b", "dgx-a100-80g", "meshwright");
    of.parallel.overlap = 0;
    assert_true(offload_parse(words, &of.parallel.offload));
    priced_finish(&of);
    return of;
}

// Layers of 202,383,360 parameters of two bytes, a head of 131,076,096, a table that forward alone
// reads, 16 micro-batches: what is fetched less, counted by hand, is all that a step is shorter by
// where nothing hides copies; and working memory is as it was, but for the weights that are there.
static void what_stays_is_fetched_less(void **state)
{
    static const struct {
        const char *words;
        int64_t layers, heads, held_layers, held_heads;  // times that one is not fetched; at once
    } CASES[] = {
        {"turn:1", 0, 16, 0, 1},
        {"turn:3", 2 * 16, 16, 2, 1},
        {"between:1", 15, 0, 0, 0},
        {"between:4", 4 * 15, 0, 0, 0},
        {"turn:2,between:1", 16 + 15, 16, 1, 1},
        {"turn,between", 32 * 31, 16, 32, 1},
    };
    const int64_t layer_bytes = 2 * 202383360, head_bytes = 2 * 131076096;
    struct priced all = priced_whole(*state, "optimizer,parameters");
    double all_s = closed_form(all.price).step_s;
    struct memory_parts before = memory_of_stage(all.program, all.stack, 0);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *words = arena_print(*state, "optimizer,parameters,%s", CASES[i].words);
        struct priced of = priced_whole(*state, words);
        int64_t less = CASES[i].layers * layer_bytes + CASES[i].heads * head_bytes;
        assert_true(plan_stays_fetched_bytes(all.program) - plan_stays_fetched_bytes(of.program) ==
                    less);
        double times = (double)(CASES[i].layers + CASES[i].heads);
        double less_s = (double)less / offload_bytes_per_s(&of.context, TIER_HOST) +
                        times * of.context.compute.device->launch_latency_s;
        double found_s = all_s - closed_form(of.price).step_s;
        if (fabs(found_s - less_s) > 1e-8 * all_s)
            fail_msg("%s: %.9g s less, not %.9g", words, found_s, less_s);
        struct memory_parts parts = memory_of_stage(of.program, of.stack, 0);
        int64_t held = CASES[i].held_layers * layer_bytes + CASES[i].held_heads * head_bytes;
        // The block under way is counted anyway: that of the last that works, or of the widest.
        int64_t more = parts.peak_bytes - before.peak_bytes;
        assert_true(more <= held && more >= held - layer_bytes);
        assert_int_equal(parts.host_bytes, before.host_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_on_the_host_leave_the_blocks_under_way),
        cmocka_unit_test(parameters_of_some_layers_leave_the_rest),
        cmocka_unit_test(what_stays_is_fetched_less),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
