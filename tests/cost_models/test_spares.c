#include "core/random.h"
#include "cost_models/goodput.h"
#include "cost_models/renewal.h"
#include "cost_models/spares.h"
#include "tests/support/test.h"

#include <math.h>

// A job that begins with all spares free. The oracle plays the nodes one event after the other; it
// shares nothing with the transforms but the numbers it is asked with.

struct played {
    double mean, variance;
};

// The waits in `busy_s` seconds of running, of one job.
static double play(const struct spares *spares, double busy_s, uint64_t *state)
{
    double left_s = busy_s, wait_s = 0;
    int away = 0;
    for (;;) {
        double back_per_s = away / spares->repair_s, all_per_s = spares->loss_per_s + back_per_s;
        double next_s = random_exponential(state, 1 / all_per_s);
        if (next_s >= left_s) return wait_s;
        left_s -= next_s;
        bool is_loss = random_uniform(state) * all_per_s < spares->loss_per_s;
        away += is_loss ? 1 : -1;
        if (away <= spares->count) continue;
        wait_s += random_exponential(state, spares->repair_s / away);
        away--;
    }
}

static struct played play_many(const struct spares *spares, double busy_s, int runs)
{
    uint64_t state = 5;
    double sum = 0, square = 0;
    for (int i = 0; i < runs; i++) {
        double wait_s = play(spares, busy_s, &state);
        sum += wait_s;
        square += wait_s * wait_s;
    }
    return (struct played){sum / runs, square / runs - sum / runs * (sum / runs)};
}

// From runs that end before a node is back to such that are as good as endless; from jobs that
// never wait to such that wait most of the time.
static void waits_are_those_of_the_process_played(void **state)
{
    (void)state;
    enum { RUNS = 10000 };
    for (int i = 0; i < 60; i++) {
        static const double BUSY[] = {0.1, 0.5, 2, 8, 40}, OFFERED[] = {0.2, 1, 4};
        static const int COUNTS[] = {0, 1, 3, 8};
        const struct spares spares = {
            .loss_per_s = OFFERED[i / 5 % 3] / 100, .repair_s = 100, .count = COUNTS[i / 15]};
        double busy_s = 100 * BUSY[i % 5];
        struct spares_wait wait = spares_wait(&spares, busy_s, 0);
        struct played played = play_many(&spares, busy_s, RUNS);
        double error = sqrt(fmax(wait.variance, 1e-12) / RUNS);
        if (fabs(wait.mean_s - played.mean) > 4 * error + 1e-5)
            fail_msg("case %d: mean %.6g, played %.6g", i, wait.mean_s, played.mean);
        if (played.mean < 5) continue;  // too few waits to know their spread
        double ratio = wait.variance / played.variance;
        if (fabs(ratio - 1) > 0.12)
            fail_msg("case %d: variance %.6g, played %.6g", i, wait.variance, played.variance);
    }
}

static void a_long_run_waits_as_erlang_says(void **state)
{
    (void)state;
    for (int count = 0; count < 200; count = 2 * count + 1) {
        for (double offered = 0.3; offered < 300; offered *= 3) {
            const struct spares spares = {offered / 50, 50, count};
            double busy_s = 1e6, ratio = spares_wait_ratio(&spares);
            double wanted_s = busy_s * ratio / (1 - ratio);
            double wait_s = spares_wait(&spares, busy_s, 0).mean_s;
            // It starts with all spares, so that it waits for less by what they bring once.
            assert_true(wait_s <= wanted_s * (1 + 1e-6) + 1e-3);
            assert_true(wait_s >= wanted_s - 50.0 * (count + 1) * (1 + offered) - 1e-3);
        }
    }
}

static void waits_grow_with_the_run_and_shrink_with_spares(void **state)
{
    (void)state;
    for (double busy_s = 1; busy_s < 1e7; busy_s *= 2) {
        double before_s = INFINITY;
        for (int count = 0; count < 12; count++) {
            const struct spares spares = {1e-2, 300, count};
            double wait_s = spares_wait(&spares, busy_s, 0).mean_s;
            assert_true(wait_s >= 0 && wait_s <= before_s + 1e-7 * busy_s);
            assert_true(spares_wait(&spares, 2 * busy_s, 0).mean_s >= wait_s - 1e-7 * busy_s);
            before_s = wait_s;
        }
    }
}

static void nothing_fails_and_nobody_waits(void **state)
{
    (void)state;
    const struct spares at_once = {1e-3, 0, 2}, sound = {0, 100, 2}, some = {1e-3, 100, 2};
    assert_true(spares_wait(&at_once, 1e6, 0).mean_s == 0);
    assert_true(spares_wait(&sound, 1e6, 0).mean_s == 0);
    assert_true(spares_wait(&some, 0, 0).mean_s == 0);
    assert_true(isinf(spares_wait(&some, INFINITY, 0).mean_s));
}

struct drawn_moments {
    double mean, low, high;
};

// The whole run, as renewal_draw does not: work, checkpoints, failures, restarts and nodes, second
// by second of its events.
static double play_run(const struct renewal *renewal, double work_s, uint64_t *state)
{
    double wall_s = 0, done_s = 0, kept_s = 0, restart_s = 0;
    double back_s[64];
    int away = 0;
    for (;;) {
        double fails_s = random_exponential(state, renewal->mtbf_s);
        while (fails_s > 0) {
            double part_s = restart_s > 0 ? restart_s : kept_s + renewal->interval_s - done_s;
            bool is_last = restart_s <= 0 && work_s - done_s <= part_s + 1e-9;
            if (is_last) part_s = work_s - done_s;
            double whole_s = restart_s > 0 || is_last ? part_s : part_s + renewal->checkpoint_s;
            if (whole_s > fails_s) break;
            wall_s += whole_s;
            fails_s -= whole_s;
            if (is_last) return wall_s;
            if (restart_s > 0) {
                restart_s = 0;
            } else {
                done_s = kept_s = kept_s + renewal->interval_s;
            }
        }
        wall_s += fails_s;
        done_s = kept_s;
        restart_s = renewal->restart_s;
        if (random_uniform(state) >= renewal->node_loss_ratio || renewal->repair_s <= 0) continue;
        int kept = 0;
        for (int i = 0; i < away; i++)
            if (back_s[i] > wall_s) back_s[kept++] = back_s[i];
        back_s[kept++] = wall_s + random_exponential(state, renewal->repair_s);
        away = kept;
        if (away <= renewal->spare_nodes) continue;
        int first = 0;
        for (int i = 1; i < away; i++)
            if (back_s[i] < back_s[first]) first = i;
        wall_s = back_s[first];
        back_s[first] = back_s[--away];
    }
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static struct drawn_moments play_runs(struct arena *arena, const struct renewal *renewal,
                                      double work_s)
{
    enum { RUNS = 3000 };
    double *wall_s = ARENA_NEW(arena, double, RUNS), sum = 0;
    uint64_t state = 17;
    for (int i = 0; i < RUNS; i++)
        sum += wall_s[i] = play_run(renewal, work_s, &state);
    qsort(wall_s, RUNS, sizeof *wall_s, compare);
    return (struct drawn_moments){sum / RUNS, wall_s[RUNS / 10], wall_s[9 * RUNS / 10]};
}

// Runs of minutes to weeks of a job that loses a node every hour or so and has spares: what they
// take in the mean, and where four of five end, is what playing them says. A run that is given the
// waits of one without an end is up to half longer.
static void short_runs_with_spares_take_what_playing_them_says(void **state)
{
    static const double RATIOS[] = {0.1, 0.9};
    for (int i = 0; i < 20; i++) {
        const struct renewal renewal = {.mtbf_s = 3000,
                                        .interval_s = 600,
                                        .checkpoint_s = 20,
                                        .restart_s = 120,
                                        .node_loss_ratio = i % 2 ? 1 : 0.8,
                                        .repair_s = i % 4 < 2 ? 7200 : 20000,
                                        .spare_nodes = 1 + i / 4 % 3};
        static const double WORK[] = {3000, 8000, 20000, 60000, 300000};
        double work_s = WORK[i / 4], found_s[2];
        double mean_s = renewal_mean_s(&renewal, work_s);
        struct drawn_moments played = play_runs(*state, &renewal, work_s);
        double deviation_s = renewal_deviation_s(&renewal, work_s);
        // Losses and the length of the run hang together a little, which the formula leaves out.
        double slack_s = 4 * deviation_s / sqrt(3000) + 0.01 * (mean_s - work_s);
        if (fabs(mean_s - played.mean) > slack_s)
            fail_msg("run %d: %.6g s, played %.6g s", i, mean_s, played.mean);
        renewal_quantiles(&renewal, work_s, RATIOS, found_s, 2);
        double width_s = played.high - played.low + 0.01 * work_s;
        if (fabs(found_s[0] - played.low) > 0.2 * width_s ||
            fabs(found_s[1] - played.high) > 0.2 * width_s)
            fail_msg("run %d: %.6g to %.6g s, played %.6g to %.6g s", i, found_s[0], found_s[1],
                     played.low, played.high);
        assert_true(found_s[0] <= mean_s && mean_s <= found_s[1]);
    }
}

// Asked of a whole cluster: the shares of the run are those of its own waits, and the longer it is
// the nearer they are to those of a run without an end.
static void the_shares_are_those_of_the_run(void **state)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(*state, "dgx-h100-x128", &err);
    assert_string_equal(err.text, "");
    cluster->failures.repair_s = 2 * 86400;
    cluster->failures.spare_nodes = 2;
    cluster->failures.gpu_mtbf_h = 10000;
    struct goodput_request request = {
        .cluster = cluster, .step_s = 3, .checkpoint_bytes = 2000000000000, .steps = 0};
    struct goodput endless = goodput_of(&request);
    double before = 0;
    for (request.steps = 1e3; request.steps < 1e9; request.steps *= 10) {
        struct goodput goodput = goodput_of(&request);
        double share = goodput.restart_ratio;
        assert_true(share >= before && share <= endless.restart_ratio * (1 + 1e-6));
        double work_ratio = request.steps * request.step_s / goodput.expected_s;
        if (request.steps > 1e4) assert_true(fabs(work_ratio / goodput.goodput_ratio - 1) < 0.02);
        assert_true(goodput.finish_s[0] <= goodput.expected_s);
        // Of fewer interruptions than one in ten runs, one may cost more than all runs together.
        if (goodput.interruptions > 1) assert_true(goodput.finish_s[2] >= goodput.expected_s);
        before = share;
    }
    assert_true(before > 0.99 * endless.restart_ratio);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_are_those_of_the_process_played),
        cmocka_unit_test(a_long_run_waits_as_erlang_says),
        cmocka_unit_test(waits_grow_with_the_run_and_shrink_with_spares),
        cmocka_unit_test(nothing_fails_and_nobody_waits),
        cmocka_unit_test(short_runs_with_spares_take_what_playing_them_says),
        cmocka_unit_test(the_shares_are_those_of_the_run),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
