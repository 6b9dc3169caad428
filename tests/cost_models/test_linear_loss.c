#include "tests/support/test.h"

#include "cost_models/linear_loss.h"
#include "models/op_linear_loss.h"
#include "tests/support/priced.h"

#include <math.h>

// Llama 3 8B, 2,048 tokens, tp 4: rows of 4,096 numbers by a fourth of 128,256 columns.
// columns.
enum { ROWS = 2048, DEPTH = 4096, COLUMNS = 128256 / 4, PARTS = 5 };

static struct priced chunked(struct arena *arena, enum precision precision)
{
    struct priced of = priced_start(arena, "llama-3-8b", "dgx-h100", "meshwright");
    of.parallel.degree[AXIS_TP] = 4;
    of.parallel.loss_chunks = PARTS;
    of.workload.precision = precision;
    assert_true(match_loss_graph(arena, of.graph, PARTS));
    priced_finish(&of);
    return of;
}

static const struct instr *find(const struct block_program *head, enum op_kind kind)
{
    for (int i = 0; i < head->instr_count; i++) {
        const struct instr *instr = &head->instrs[i];
        if (instr->collective == COLLECTIVE_NONE && instr->kind == kind) return instr;
    }
    fail_msg("the head has no such operator");
    return NULL;
}

static double one_gemm_s(const struct priced *of, int64_t m, int64_t n, int64_t k, unsigned traits)
{
    enum bound bound;
    return gemm_s(&of->context.compute, &(struct gemm){1, m, n, k}, traits, &bound);
}

static bool is_near(double found, double expected)
{
    return fabs(found - expected) <= 1e-12 * expected;
}

// Four parts of 6,413 columns and one of 6,412: their GEMMs, and a walk over what each made; in
// backward the same GEMM again, a walk that reads and writes, and both products with the gradient.
// Then the losses, or what rows hand back in 16 bits.
static void it_costs_what_its_parts_do(void **state)
{
    struct priced of = chunked(*state, PRECISION_BF16);
    const struct compute_context *compute = &of.context.compute;
    const struct block_program *head = priced_block(&of, BLOCK_HEAD);
    const struct instr *forward = find(head, OP_LINEAR_LOSS);
    const struct instr *backward = find(head, OP_LINEAR_LOSS_BACKWARD);
    double forward_s = 0, backward_s = 0, launch_s = compute->device->launch_latency_s;
    for (int part = 0; part < PARTS; part++) {
        int64_t columns = part < 4 ? 6413 : 6412;
        double walk_s = stream_s(compute, (double)ROWS * (double)columns * 2);
        double made_s = one_gemm_s(&of, ROWS, columns, DEPTH, 0);
        forward_s += made_s + walk_s + launch_s;
        backward_s += made_s + 2 * walk_s + launch_s +
                      one_gemm_s(&of, ROWS, DEPTH, columns, GEMM_ACCUMULATES) +
                      one_gemm_s(&of, DEPTH, columns, ROWS, GEMM_ACCUMULATES);
    }
    forward_s += launch_s;
    backward_s += launch_s + stream_s(compute, (double)ROWS * DEPTH * (4 + 2));
    struct compute_cost cost = compute_price(compute, head, forward);
    assert_true(is_near(cost.s, forward_s) && cost.kernel_count == 2 * PARTS + 1);
    cost = compute_price(compute, head, backward);
    assert_true(is_near(cost.s, backward_s) && cost.kernel_count == 4 * PARTS + 1);
    double product = 2.0 * ROWS * DEPTH * COLUMNS, walk = 5.0 * ROWS * COLUMNS;
    assert_true(is_near(forward->flop, product + walk));
    assert_true(is_near(backward->flop, 3 * product + walk));
}

// One part of the scores in 16 bits, and the sum of what rows hand back in 32; in 32 bits that sum
// is the result itself.
static void it_works_in_one_part_of_the_scores(void **state)
{
    struct priced half = chunked(*state, PRECISION_BF16), full = chunked(*state, PRECISION_FP32);
    const struct block_program *head = priced_block(&half, BLOCK_HEAD);
    assert_true(linear_loss_bytes(PRECISION_BF16, head) ==
                (double)ROWS * 6413 * 2 + (double)ROWS * DEPTH * 4);
    head = priced_block(&full, BLOCK_HEAD);
    assert_true(linear_loss_bytes(PRECISION_FP32, head) == (double)ROWS * 6413 * 4);
    assert_true(linear_loss_bytes(PRECISION_FP32, priced_block(&full, BLOCK_LAYER)) == 0);
    struct priced whole = priced_start(*state, "llama-3-8b", "dgx-h100", "meshwright");
    priced_finish(&whole);
    assert_true(linear_loss_bytes(PRECISION_BF16, priced_block(&whole, BLOCK_HEAD)) == 0);
    assert_true(memory_logits_of(priced_block(&half, BLOCK_HEAD)).bytes == 0);
    assert_true(memory_logits_of(priced_block(&whole, BLOCK_HEAD)).bytes > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_costs_what_its_parts_do),
        cmocka_unit_test(it_works_in_one_part_of_the_scores),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
