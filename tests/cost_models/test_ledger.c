#include "cost_models/ledger.h"
#include "plan/offload.h"
#include "tests/support/priced.h"
#include "tests/support/test.h"

#include <math.h>

// What is written down of a plan is its price: the lines of a block, phase by phase, and those of
// what a chunk does once a step.

static const struct {
    const char *model, *cluster, *stack;
    int tp, ep, zero;
    bool sp;
    const char *offload;
} PLANS[] = {
    {"llama-2-70b", "dgx-h100", "megatron-core", 8, 1, 0, true, "none"},
    {"llama-2-7b", "dgx-a100-80g-x16", "fsdp", 1, 1, 3, false, "none"},
    {"mixtral-8x7b", "dgx-h100", "megatron-core", 2, 4, 1, true, "none"},
    {"gpt2", "dgx-a100-80g", "megatron-deepspeed", 2, 1, 1, false, "none"},
    {"llama-2-7b", "dgx-a100-80g", "meshwright", 1, 1, 2, false, "optimizer"},
    {"llama-2-7b", "dgx-a100-80g", "meshwright", 1, 1, 2, false, "optimizer@nvme"},
    {"llama-2-7b", "dgx-a100-80g", "meshwright", 1, 1, 3, false, "optimizer,parameters"},
};
enum { PLAN_COUNT = sizeof PLANS / sizeof *PLANS };

static struct priced priced_plan(struct arena *arena, int plan, struct ledger *ledger)
{
    struct priced of =
        priced_start(arena, PLANS[plan].model, PLANS[plan].cluster, PLANS[plan].stack);
    of.parallel.degree[AXIS_TP] = PLANS[plan].tp;
    of.parallel.degree[AXIS_EP] = PLANS[plan].ep;
    of.parallel.zero = PLANS[plan].zero;
    of.parallel.sp = PLANS[plan].sp;
    assert_true(offload_parse(PLANS[plan].offload, &of.parallel.offload));
    priced_finish(&of);
    *ledger = ledger_new(arena);
    of.context.ledger = ledger;
    of.price = step_price(arena, &of.context, of.program);
    of.context.ledger = NULL;
    return of;
}

static void check_near(double found_s, double wanted_s, const char *what, int plan)
{
    if (fabs(found_s - wanted_s) <= 1e-9 * wanted_s) return;
    print_error("plan %d, %s: %.12g s written down, %.12g s priced\n", plan, what, found_s,
                wanted_s);
    fail();
}

static void the_lines_of_a_block_are_its_price(void **state)
{
    double contention_s = 0, host_s = 0, hidden_s = 0;
    for (int plan = 0; plan < PLAN_COUNT; plan++) {
        struct ledger ledger;
        struct priced of = priced_plan(*state, plan, &ledger);
        unsigned overlap = step_overlap(of.stack, &of.parallel);
        for (int b = 0; b < of.program->block_count; b++) {
            struct block_price price =
                block_price(&of.context, &of.program->mesh, of.program->blocks[b], overlap);
            for (int phase = 0; phase < PHASE_COUNT; phase++) {
                double sum_s = 0, price_s = 0;
                for (int part = 0; part < PART_COUNT; part++)
                    price_s += price.phase_s[phase][part];
                for (int i = 0; i < ledger.count; i++) {
                    const struct ledger_line *line = &ledger.lines[i];
                    if (line->block != b || (int)line->phase != phase) continue;
                    sum_s += line->exposed_s;
                    contention_s += line->entry == ENTRY_CONTENTION ? line->s : 0;
                    host_s += line->entry == ENTRY_HOST ? line->s : 0;
                    hidden_s += line->s - line->exposed_s;
                }
                check_near(sum_s, price_s, of.program->blocks[b]->block->name, plan);
            }
        }
    }
    assert_true(contention_s > 0 && host_s > 0 && hidden_s > 0);
}

static double sum_of(const struct ledger *ledger, int chunk, unsigned entries, const char *what)
{
    double sum_s = 0;
    for (int i = 0; i < ledger->count; i++) {
        const struct ledger_line *line = &ledger->lines[i];
        if (line->chunk != chunk || !(entries >> line->entry & 1)) continue;
        if (!what) sum_s += line->exposed_s;
        if (what && strcmp(line->what, what) == 0) sum_s += line->s;
    }
    return sum_s;
}

static void the_lines_of_a_chunk_are_its_price(void **state)
{
    double copied_s = 0, drives_s = 0;
    for (int plan = 0; plan < PLAN_COUNT; plan++) {
        struct ledger ledger;
        struct priced of = priced_plan(*state, plan, &ledger);
        const unsigned updates = 1u << ENTRY_UPDATE;
        for (int c = 0; c < of.price->class_count; c++) {
            const struct chunk_price *chunk = &of.price->classes[c];
            check_near(sum_of(&ledger, c, updates | 1u << ENTRY_SQUARES, NULL), chunk->update_s,
                       "update", plan);
            check_near(sum_of(&ledger, c, 1u << ENTRY_REDUCE, NULL), chunk->gradient_reduce_s,
                       "reduce", plan);
            check_near(sum_of(&ledger, c, 1u << ENTRY_GATHER, NULL), chunk->parameter_gather_s,
                       "gather", plan);
            check_near(sum_of(&ledger, c, 1u << ENTRY_SMALL, NULL), chunk->small_reduce_s, "small",
                       plan);
            check_near(sum_of(&ledger, c, updates, "grads to host"), chunk->update_copy_s[0],
                       "gradients to the host", plan);
            check_near(sum_of(&ledger, c, updates, "params to GPU"), chunk->update_copy_s[1],
                       "parameters from there", plan);
            copied_s += chunk->update_copy_s[1];
            drives_s += sum_of(&ledger, c, updates, "NVMe states");
        }
    }
    assert_true(copied_s > 0 && drives_s > 0);
}

// Of all ranks, once a step.
static void the_norm_is_one_number(void **state)
{
    int norms = 0;
    for (int plan = 0; plan < PLAN_COUNT; plan++) {
        struct ledger ledger;
        struct priced of = priced_plan(*state, plan, &ledger);
        for (int i = 0; i < ledger.count; i++) {
            const struct ledger_line *line = &ledger.lines[i];
            if (line->entry != ENTRY_NORM) continue;
            assert_true(line->collective == COLLECTIVE_ALL_REDUCE && line->count == 1);
            assert_true(line->bytes == sizeof(float) && line->s == line->cost.s);
            assert_true(line->rank_count == of.cluster->rank_count && line->chunk == -1);
            check_near(line->s, of.price->norm_s, "norm", plan);
            norms++;
        }
    }
    assert_int_equal(norms, PLAN_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lines_of_a_block_are_its_price),
        cmocka_unit_test(the_lines_of_a_chunk_are_its_price),
        cmocka_unit_test(the_norm_is_one_number),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
