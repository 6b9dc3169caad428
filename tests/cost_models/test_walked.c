#include "tests/support/test.h"

#include "cost_models/walked.h"
#include "plan/walked.h"
#include "tests/support/priced.h"

#include <math.h>

static struct priced start(struct arena *arena, const char *model, const char *stack)
{
    struct priced of = priced_start(arena, model, "dgx-h100", stack);
    of.workload.seq_len = 4096;
    of.parallel.micro_batch = 2;
    priced_finish(&of);
    return of;
}

// Of the kinds that a block has both of, in whichever block stands first.
static const struct block_program *with(const struct priced *of, enum op_kind kind,
                                        const struct instr **found)
{
    for (int b = 0; b < of->program->block_count; b++) {
        const struct block_program *block = of->program->blocks[b];
        for (int i = 0; i < block->instr_count; i++) {
            *found = &block->instrs[i];
            if ((*found)->collective == COLLECTIVE_NONE && (*found)->kind == kind) return block;
        }
    }
    fail_msg("no such operator");
    return NULL;
}

static bool is_near(double found, double expected)
{
    return fabs(found - expected) <= 1e-12 * expected;
}

// 500 cycles, of which 132 multiprocessors make 3.86e12 / 16.
static const double TURN_S = 500 / (3.86e12 / 16 / 132);

// Mamba-2 2.7B, two sequences of 4,096: 80 heads of 64 channels with a state of 128. Forward 10,240
// rows are 1,280 blocks of 8, of which 396 run at a time. Backward a warp has 8 of 64 channels and
// 4 of 128 numbers: 8 x (3 x 4 + 1) turns, and half of 64 for the one column that a thread has.
static void turns_of_a_scan_are_counted_by_hand(void **state)
{
    struct priced of = start(*state, "mamba2-2.7b", "meshwright");
    const struct compute_context *compute = &of.context.compute;
    const struct instr *instr;
    double launch_s = compute->device->launch_latency_s;
    assert_int_equal(compute->device->multiprocessor_count, 132);
    const struct block_program *block = with(&of, OP_SCAN, &instr);
    struct compute_cost cost = compute_price(compute, block, instr);
    assert_true(is_near(cost.s, 4 * 4096 * TURN_S + launch_s) && cost.kernel_count == 1);
    block = with(&of, OP_SCAN_BACKWARD, &instr);
    cost = compute_price(compute, block, instr);
    // A pair needs 130 states of 8,192 numbers, its decays, and two rows of 128 a token: 63 fit.
    int64_t pair = 130 * 8192 + 4096 + 2 * 4096 * 128, launches = (160 + 62) / 63;
    assert_int_equal((512 << 20) / (4 * pair), 63);
    double turns = 8 * (3 * 4 + 1) + 32;
    assert_true(cost.kernel_count == 2.0 * (double)launches + 1);
    assert_true(
        is_near(cost.s, (double)launches * 4096 * turns * TURN_S + cost.kernel_count * launch_s));
    int64_t sums = (int64_t)2 * 4096 * 128;
    assert_true(walked_bytes(of.stack, block) == 4.0 * (double)(63 * pair + 2 * sums + 2 * 160));
}

// The delta rule of Qwen3-Next: two turns a token forward, five passes backward, and sums of its
// own for keys and queries. Of few tokens all pairs run at once.
static void the_delta_rule_takes_more(void **state)
{
    struct priced of = start(*state, "qwen3.5-9b", "meshwright");
    const struct instr *instr;
    const struct block_program *block = with(&of, OP_DELTA, &instr);
    struct compute_cost cost = compute_price(&of.context.compute, block, instr);
    double launch_s = of.context.compute.device->launch_latency_s;
    int64_t rows = instr->batch * instr->heads * instr->head_dim;
    double rounds = ceil((double)rows / 8 / 396);
    assert_true(is_near(cost.s, rounds * 4096 * 2 * TURN_S + launch_s));
    const struct token_walk few = {1, 16, 4, 2, 8, 32, true};
    assert_int_equal(walk_stretches(&few), 4);
    // 4 + 4 + 2 states of 256, lengths of 16 tokens, sums of one; 2 x 16 rows of 32.
    assert_int_equal(walk_room(&few), 10 * 256 + 32 + 16 + 96);
    assert_int_equal(walk_pair(&few), walk_room(&few) + 1024);
    assert_int_equal(walk_pairs(&few), 4);
}

// Other software runs chunks as GEMMs, and keeps nothing for a walk.
static void others_do_not_walk(void **state)
{
    struct priced of = start(*state, "mamba2-2.7b", "megatron-core");
    const struct instr *instr;
    const struct block_program *block = with(&of, OP_SCAN_BACKWARD, &instr);
    assert_false(scan_walks(of.stack, block->block, instr));
    assert_true(walked_bytes(of.stack, block) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_of_a_scan_are_counted_by_hand),
        cmocka_unit_test(the_delta_rule_takes_more),
        cmocka_unit_test(others_do_not_walk),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
