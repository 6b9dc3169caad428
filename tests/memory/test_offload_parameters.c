#include "tests/support/priced.h"
#include "tests/support/test.h"

#include "cost_models/offload.h"
#include "plan/offload.h"
#include "plan/passes.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_on_the_host_leave_the_blocks_under_way),
        cmocka_unit_test(parameters_of_some_layers_leave_the_rest),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
