#include "cost_models/goodput.h"
#include "executor/launcher/restart.h"
#include "tests/support/fake_job.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Jobs in worlds made of seeds (tests/support/fake_job.h). A failure prints its seed:
// `build/tests/test_restarts_simulated SEED` runs that one again, FIRST COUNT so many.

static int run_seeds(uint64_t first, uint64_t count, enum planted planted, bool says)
{
    int wrong_count = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct arena arena = {0};
        const char *wrong = fake_job_live(&arena, seed, planted);
        if (wrong && says) fprintf(stderr, "# seed %llu: %s\n", (unsigned long long)seed, wrong);
        wrong_count += wrong != NULL;
        arena_free(&arena);
    }
    return wrong_count;
}

static void whatever_befalls_it_goes_on(void **state)
{
    (void)state;
    assert_int_equal(run_seeds(1, 1000, SOUND, true), 0);
}

static void planted_faults_are_found(void **state)
{
    enum { SEEDS_MOST = 5000 };
    (void)state;
    for (enum planted planted = SOUND + 1; planted < PLANTED_COUNT; planted++) {
        uint64_t seed = 1;
        while (seed <= SEEDS_MOST && run_seeds(seed, 1, planted, false) == 0)
            seed++;
        if (seed > SEEDS_MOST) fail_msg("fault %d is not found", (int)planted);
        printf("# fault %d is found by seed %llu\n", (int)planted, (unsigned long long)seed);
    }
}

// Steps that last over the time they took, of runs that are killed and go on, by seeds.
static double played_goodput(const struct fake_pace *pace, int64_t every)
{
    enum { RUNS = 12, STEPS = 1500 };
    double took_s = 0;
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        struct arena arena = {0};
        double run_s;
        const char *wrong = fake_job_paced(&arena, seed, pace, STEPS, every, &run_s);
        if (wrong) fail_msg("seed %d: %s", (int)seed, wrong);
        took_s += run_s;
        arena_free(&arena);
    }
    return RUNS * STEPS * FAKE_TICK_S * pace->step_ticks / took_s;
}

// The goodput of runs with kills is that which is predicted of a cluster that fails as often.
static void goodput_is_as_predicted(void **state)
{
    static const double MTBF_S[] = {2000, 400, 150};
    static const double STEP_S = 1, WRITE_S = 4, RESTART_S = 15, ASKED_S = 20;
    (void)state;
    for (size_t i = 0; i < sizeof MTBF_S / sizeof *MTBF_S; i++) {
        struct arena arena = {0};
        struct err err = {0};
        struct cluster *cluster = cluster_load(&arena, "dgx-a100-80g", &err);
        assert_true(cluster && cluster_take_gpus(cluster, 2, &err));
        struct goodput_request request = {
            .cluster = cluster, .step_s = STEP_S, .checkpoint_bytes = 4000, .steps = 0};
        struct failures *failures = &cluster->failures;
        *failures = (struct failures){.async_checkpoints = true,
                                      .restart_s = RESTART_S,
                                      .checkpoint_bytes_per_s = 4000 / WRITE_S,
                                      .checkpoint_interval_s = ASKED_S,
                                      .gpu_mtbf_h = 1};
        double one_s = goodput_of(&request).mtbf_s;
        failures->gpu_mtbf_h = MTBF_S[i] / one_s;
        struct goodput predicted = goodput_of(&request);
        assert_true(fabs(predicted.mtbf_s - MTBF_S[i]) < 1e-6 * MTBF_S[i]);
        const struct fake_pace pace = {MTBF_S[i], (int)(STEP_S / FAKE_TICK_S + 0.5),
                                       (int)(WRITE_S / FAKE_TICK_S),
                                       (int)((RESTART_S + WRITE_S) / FAKE_TICK_S)};
        double played = played_goodput(&pace, (int64_t)(ASKED_S / STEP_S));
        printf("# a kill every %g s: predicted %.3f, played %.3f\n", MTBF_S[i],
               predicted.goodput_ratio, played);
        assert_true(fabs(played - predicted.goodput_ratio) < 0.1 * predicted.goodput_ratio);
        arena_free(&arena);
    }
}
// How a job of two ranks ends.
static enum restart_next after(struct restart_rule *rule, int rank, bool has_begun, int64_t last)
{
    const struct restart_end end = {true, rank, 2, has_begun, false, last};
    return restart_next(rule, &end);
}

static void a_rank_is_gone_that_dies_at_once_or_three_times(void **state)
{
    (void)state;
    struct restart_rule rule = {100, -1, 0, 0};
    // Twice between two checkpoints, but it worked: by chance.
    assert_int_equal(after(&rule, 1, true, 20), RESTART_AGAIN);
    assert_int_equal(after(&rule, 1, true, 20), RESTART_AGAIN);
    assert_int_equal(after(&rule, 1, true, 40), RESTART_AGAIN);
    assert_int_equal(after(&rule, 0, true, 40), RESTART_AGAIN);
    assert_int_equal(after(&rule, 1, true, 40), RESTART_AGAIN);
    assert_int_equal(after(&rule, 1, true, 40), RESTART_AGAIN);
    assert_int_equal(after(&rule, 1, true, 40), RESTART_WITHOUT);
    // The one that is left has the number 0, and is another than the one before.
    assert_int_equal(after(&rule, 0, false, 40), RESTART_AGAIN);
    assert_int_equal(after(&rule, 0, false, 40), RESTART_WITHOUT);
    // Once before a step, with a checkpoint since: another fault.
    assert_int_equal(after(&rule, 0, true, 60), RESTART_AGAIN);
    assert_int_equal(after(&rule, 0, false, 80), RESTART_AGAIN);
    assert_int_equal(rule.left, 89);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_is_gone_that_dies_at_once_or_three_times),
        cmocka_unit_test(whatever_befalls_it_goes_on),
        cmocka_unit_test(planted_faults_are_found),
        cmocka_unit_test(goodput_is_as_predicted),
    };
    if (argc < 2) return cmocka_run_group_tests(tests, NULL, NULL);
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    return run_seeds(strtoull(argv[1], NULL, 10), count, SOUND, true) != 0;
}
