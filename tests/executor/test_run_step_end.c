#include "simulator/engine.h"
#include "tests/support/run_case.h"
#include "tests/support/test.h"
#include "tests/support/tiny_models.h"

#include <math.h>

// The end of a step as it runs: whatever the buckets, and with updates as gradients come, training
// is the same, and what is held and moved is what was planned.

static void check(struct arena *arena, const struct run_case *of,
                  const struct run_outcome *expected, const struct run_outcome *found)
{
    for (int i = 0; i < found->step_count; i++) {
        double difference = fabs(found->loss[i] - expected->loss[i]);
        if (difference <= 1e-12 * fabs(expected->loss[i])) continue;
        fail_msg("%s: loss %.17g at step %d, not %.17g", run_case_text(arena, of), found->loss[i],
                 i + 1, expected->loss[i]);
    }
    const char *moved = run_outcome_traffic(arena, found);
    if (moved) fail_msg("%s: %s", run_case_text(arena, of), moved);
    int64_t planned = run_outcome_planned_bytes(found);
    // Shards are rounded up to whole elements.
    int64_t slack = 64 + 16 * (int64_t)found->scripts[0]->unit_count * found->real_bytes;
    if (llabs(found->peak_bytes - planned) > slack)
        fail_msg("%s: %lld bytes held, %lld planned", run_case_text(arena, of),
                 (long long)found->peak_bytes, (long long)planned);
}

static int reductions(const struct run_outcome *found)
{
    for (int k = 0; k < found->kind_count; k++) {
        const struct run_kind *kind = &found->kinds[k];
        if (kind->group == RUN_TASK && kind->index == TASK_GRADIENT_REDUCE) return (int)kind->count;
    }
    return 0;
}

static struct run_case case_new(int zero, int micro_batches)
{
    struct run_case of = run_case_new(TINY_LLAMA, 16, 4 * (int64_t)micro_batches);
    of.backend = "cpu-fp64";
    of.steps = 3;
    of.clip_norm = 1e9;
    of.parallel.degree[AXIS_DP] = 2;
    of.parallel.zero = zero;
    return of;
}

static void buckets_of_any_size_train_alike(void **state)
{
    for (int zero = 0; zero < 4; zero++) {
        struct run_case of = case_new(zero, 2);
        const struct run_outcome *expected = run_case_done(*state, &of);
        check(*state, &of, expected, expected);
        of.parallel.bucket_bytes = 64;
        const struct run_outcome *small = run_case_done(*state, &of);
        check(*state, &of, expected, small);
        of.parallel.bucket_bytes = 1 << 14;
        const struct run_outcome *large = run_case_done(*state, &of);
        check(*state, &of, expected, large);
        if (zero < 2) assert_true(reductions(small) > 2 * reductions(large));
    }
}

static void updates_as_gradients_come_train_alike_in_less_memory(void **state)
{
    for (int zero = 0; zero < 4; zero++) {
        for (int micro_batches = 1; micro_batches <= 2; micro_batches++) {
            struct run_case of = case_new(zero, micro_batches);
            of.parallel.bucket_bytes = 1 << 10;
            const struct run_outcome *expected = run_case_done(*state, &of);
            of.unclipped = true;
            const struct run_outcome *found = run_case_done(*state, &of);
            check(*state, &of, expected, found);
            int64_t saved = expected->peak_bytes - found->peak_bytes;
            bool has_room = micro_batches == 1 && zero < 2;
            assert_true(has_room ? saved > 0 : saved == 0);
        }
    }
}

// Beside tensor parallelism with its small gradients, and in a pipeline.
static void updates_as_gradients_come_under_other_splits(void **state)
{
    for (int split = 0; split < 3; split++) {
        struct run_case of = case_new(split == 1, 1);
        of.parallel.degree[split < 2 ? AXIS_TP : AXIS_PP] = 2;
        of.parallel.sp = split == 0;
        of.parallel.bucket_bytes = 1 << 10;
        const struct run_outcome *expected = run_case_done(*state, &of);
        of.unclipped = true;
        check(*state, &of, expected, run_case_done(*state, &of));
        of.poison = true;
        check(*state, &of, expected, run_case_done(*state, &of));
    }
}

// LAMB and LARS exchange the norms of all parameters at once.
static void trust_is_found_in_one_exchange(void **state)
{
    for (int lars = 0; lars < 2; lars++) {
        struct run_case of = case_new(0, 1);
        of.optimizer = lars ? OPTIMIZER_LARS : OPTIMIZER_LAMB;
        of.parallel.degree[AXIS_DP] = 1;
        of.parallel.micro_batch = 4;
        const struct run_outcome *alone = run_case_done(*state, &of);
        for (int zero = 0; zero < 4; zero++) {
            struct run_case split = case_new(zero, 1);
            split.optimizer = of.optimizer;
            split.unclipped = zero == 1;
            split.parallel.degree[AXIS_TP] = 2;
            const struct run_outcome *found = run_case_done(*state, &split);
            for (int i = 0; i < found->step_count; i++)
                assert_true(fabs(found->loss[i] / alone->loss[i] - 1) < 1e-12);
            const char *moved = run_outcome_traffic(*state, found);
            if (moved) fail_msg("%s: %s", run_case_text(*state, &split), moved);
            int trusts = 0;
            for (int t = 0; t < found->scripts[0]->task_count; t++)
                trusts += found->scripts[0]->tasks[t].kind == TASK_TRUST;
            assert_int_equal(trusts, 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_of_any_size_train_alike),
        cmocka_unit_test(updates_as_gradients_come_train_alike_in_less_memory),
        cmocka_unit_test(updates_as_gradients_come_under_other_splits),
        cmocka_unit_test(trust_is_found_in_one_exchange),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
