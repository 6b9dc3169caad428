#include "core/json.h"
#include "core/json_write.h"
#include "cost_models/goodput.h"
#include "cost_models/renewal.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>

static const double HOUR_S = 3600;

static struct cluster *load(struct arena *arena, const char *name)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, name, &err);
    assert_string_equal(err.text, "");
    return cluster;
}

static void assert_near(double found, double wanted, double tolerance_ratio)
{
    if (fabs(found - wanted) <= tolerance_ratio * fabs(wanted)) return;
    fail_msg("found %.9g, wanted %.9g", found, wanted);
}

// 405 billion parameters: 16-bit weights, fp32 master weights and two moments.
static const int64_t LLAMA_BYTES = 405000000000 * 14;

// Storage of 2 TB/s: The Llama 3 herd of models, section 3.3.1; 54 days, 419 interruptions and more
// than 90 % of the time spent on training: 3.3.4.
static void llama_3_trained_more_than_nine_tenths_of_the_time(void **state)
{
    struct cluster *cluster = load(*state, "dgx-h100-x2048");
    cluster->failures.checkpoint_bytes_per_s = 2e12;
    const double days_s = 54 * 24 * HOUR_S;
    struct goodput_request request = {
        .cluster = cluster, .step_s = 4.0, .checkpoint_bytes = LLAMA_BYTES, .steps = 0};
    struct goodput goodput = goodput_of(&request);
    assert_true(goodput.is_known);
    assert_near(days_s / goodput.mtbf_s, 419, 1e-9);
    assert_true(goodput.goodput_ratio > 0.9 && goodput.goodput_ratio < 0.95);
    request.steps = days_s * goodput.goodput_ratio / request.step_s;
    goodput = goodput_of(&request);
    assert_near(goodput.expected_s, days_s, 1e-4);
    assert_near(goodput.interruptions, 419, 1e-4);
    assert_true(goodput.finish_s[0] < goodput.finish_s[1]);
    assert_true(goodput.finish_s[1] < goodput.finish_s[2]);
    assert_near(goodput.finish_s[1], days_s, 0.01);
}

static void causes_are_those_of_the_published_table(void **state)
{
    struct cluster *cluster = load(*state, "dgx-h100-x2048");
    static const double COUNTS[] = {268, 46, 7, 35, 63, 0};
    struct goodput goodput = goodput_of(&(struct goodput_request){
        .cluster = cluster, .step_s = 1, .checkpoint_bytes = 1, .steps = 0});
    for (int cause = 0; cause < FAILURE_CAUSE_COUNT; cause++)
        assert_near(goodput.cause_per_s[cause] * 54 * 24 * HOUR_S, COUNTS[cause], 1e-9);
}

static struct cluster *read(struct arena *arena, const char *failures, struct err *err)
{
    struct json_document document = {0};
    struct json_writer writer = {.arena = arena};
    struct cluster *cluster = load(arena, "dgx-h100-x2048");
    cluster_write(&writer, NULL, cluster);
    const char *at = strstr(writer.text, "\"failures\"");
    assert_non_null(at);
    char *text =
        arena_print(arena, "%.*s\"failures\": %s}", (int)(at - writer.text), writer.text, failures);
    if (!json_parse(arena, "cluster", text, strlen(text), &document, err)) return NULL;
    struct json root = json_root(&document);
    return cluster_read(arena, &root, err);
}

// One cause given: the others are those of the table, which the cluster is like.
static void a_file_may_tell_causes_apart(void **state)
{
    struct err err = {0};
    struct cluster *cluster = read(*state, "{\"host_mtbf_h\": 10000}", &err);
    assert_string_equal(err.text, "");
    struct goodput goodput = goodput_of(&(struct goodput_request){
        .cluster = cluster, .step_s = 1, .checkpoint_bytes = 1, .steps = 0});
    double hours = 54 * 24;
    double wanted = 419 - 46 + 2048 * hours / 10000;
    assert_near(hours * HOUR_S / goodput.mtbf_s, wanted, 1e-9);

    cluster = read(*state, "{\"preemption_mtbf_h\": 5000}", &err);
    goodput = goodput_of(&(struct goodput_request){
        .cluster = cluster, .step_s = 1, .checkpoint_bytes = 1, .steps = 0});
    assert_near(hours * HOUR_S / goodput.mtbf_s, 419 + 2048 * hours / 5000, 1e-9);

    cluster = read(*state, "{\"gpu_mtbf_h\": 0}", &err);
    goodput = goodput_of(&(struct goodput_request){
        .cluster = cluster, .step_s = 1, .checkpoint_bytes = 1, .steps = 100});
    assert_string_equal(err.text, "");
    assert_false(goodput.is_known);
    assert_true(goodput.expected_s == 0 && goodput.goodput_ratio == 0);
}

static void a_sum_and_its_parts_are_one_too_many(void **state)
{
    struct err err = {0};
    assert_null(read(*state, "{\"gpu_mtbf_h\": 5e4, \"nic_mtbf_h\": 1e6}", &err));
    assert_int_equal(err.kind, ERR_INPUT);
    assert_non_null(strstr(err.text, "$.failures.gpu_mtbf_h: is of a GPU with its share of the "
                                     "rest: expected it or nic_mtbf_h, found both"));
    err = (struct err){0};
    assert_null(read(*state, "{\"spare_nodes\": -1}", &err));
    assert_non_null(strstr(err.text, "$.failures.spare_nodes"));
}

static void what_is_written_is_read_back(void **state)
{
    static const char *const TEXTS[] = {
        "{}",
        "{\"gpu_mtbf_h\": 0}",
        "{\"gpu_mtbf_h\": 7, \"preemption_mtbf_h\": 100}",
        "{\"device_mtbf_h\": 0, \"network_mtbf_h\": 3e5, \"restart_s\": 5, \"repair_s\": 7200, "
        "\"spare_nodes\": 3, \"checkpoint_bytes_per_s\": 1e9, \"async_checkpoints\": true, "
        "\"host_checkpoint_bytes_per_s\": 1e8, \"checkpoint_interval_s\": 900}",
        "{\"communicator_s\": 2.5, \"communicator_rank_s\": 0.01}",
    };
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        struct err err = {0};
        struct cluster *first = read(*state, TEXTS[i], &err);
        assert_string_equal(err.text, "");
        struct json_writer writer = {.arena = *state};
        failures_write(&writer, &first->failures);
        struct cluster *second = read(*state, strchr(writer.text, '{'), &err);
        assert_string_equal(err.text, "");
        assert_memory_equal(&first->failures, &second->failures, sizeof first->failures);
    }
}

// Golden section over the exact mean time for a unit of work.
static double best_interval_s(double checkpoint_s, double mtbf_s)
{
    double low = 1e-6 * mtbf_s, high = 3 * mtbf_s, golden = (sqrt(5) - 1) / 2;
    for (int i = 0; i < 200; i++) {
        double a = high - golden * (high - low), b = low + golden * (high - low);
        double a_s = expm1((a + checkpoint_s) / mtbf_s) / a;
        double b_s = expm1((b + checkpoint_s) / mtbf_s) / b;
        if (a_s < b_s) high = b;
        if (a_s >= b_s) low = a;
    }
    return (low + high) / 2;
}

static void the_interval_is_the_best_one(void **state)
{
    (void)state;
    const double mtbf_s = 1e4;
    for (double checkpoint_s = 1e-2; checkpoint_s < mtbf_s; checkpoint_s *= 1.7) {
        double found_s = goodput_interval_s(checkpoint_s, mtbf_s);
        double best_s = best_interval_s(checkpoint_s, mtbf_s);
        assert_near(found_s, best_s, checkpoint_s < mtbf_s / 10 ? 1e-3 : 0.02);
        double cost = expm1((found_s + checkpoint_s) / mtbf_s) / found_s;
        double least = expm1((best_s + checkpoint_s) / mtbf_s) / best_s;
        assert_true(cost >= least * (1 - 1e-12) && cost < least * 1.0005);
    }
    // Young's first order where checkpoints are short.
    assert_near(goodput_interval_s(1e-4, mtbf_s), sqrt(2 * 1e-4 * mtbf_s), 1e-3);
    assert_true(goodput_interval_s(3e4, mtbf_s) == mtbf_s);
}

// Cases that differ in what decides: checkpoints, restarts, storing, waiting for nodes.
static const struct renewal CASES[] = {
    {.mtbf_s = 1000, .interval_s = 200, .checkpoint_s = 20, .restart_s = 60},
    {.mtbf_s = 1000, .interval_s = 50, .checkpoint_s = 30, .restart_s = 500},
    {.mtbf_s = 500, .interval_s = 300, .checkpoint_s = 1, .storing_s = 250, .restart_s = 10},
    {.mtbf_s = 300, .interval_s = 300, .checkpoint_s = 0, .storing_s = 0, .restart_s = 0},
    {.mtbf_s = 2000,
     .interval_s = 200,
     .checkpoint_s = 5,
     .restart_s = 100,
     .node_loss_ratio = 0.8,
     .repair_s = 3000},
    {.mtbf_s = 2000,
     .interval_s = 200,
     .checkpoint_s = 5,
     .restart_s = 100,
     .node_loss_ratio = 1,
     .repair_s = 10000,
     .spare_nodes = 4},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES, RUNS = 4000 };

struct run_moments {
    double mean, deviation;
};

static struct run_moments moments_of(const double *values, int count)
{
    double sum = 0, square = 0;
    for (int i = 0; i < count; i++)
        sum += values[i];
    for (int i = 0; i < count; i++)
        square += (values[i] - sum / count) * (values[i] - sum / count);
    return (struct run_moments){sum / count, sqrt(square / (count - 1))};
}

// The seed is fixed, so that this passes always or never.
static void formulas_agree_with_the_process_played(void **state)
{
    double *wall_s = ARENA_NEW(*state, double, RUNS);
    for (int i = 0; i < CASE_COUNT; i++) {
        const double work_s = 200 * CASES[i].interval_s;
        renewal_draw(&CASES[i], work_s, 7, wall_s, RUNS);
        struct run_moments found = moments_of(wall_s, RUNS);
        double mean_s = renewal_mean_s(&CASES[i], work_s);
        double error_s = found.deviation / sqrt(RUNS);
        // Nothing is on its way to storage before the first checkpoint.
        double slack_ratio = CASES[i].repair_s > 0 || CASES[i].storing_s > 0 ? 0.01 : 0;
        if (fabs(found.mean - mean_s) > 3.5 * error_s + slack_ratio * mean_s)
            fail_msg("case %d: played %.6g s, formula %.6g s", i, found.mean, mean_s);
        double deviation_s = renewal_deviation_s(&CASES[i], work_s);
        // That a job short of nodes runs on is in the mean of its waits alone.
        if (fabs(found.deviation / deviation_s - 1) > (CASES[i].spare_nodes > 0 ? 0.08 : 0.04))
            fail_msg("case %d: spread played %.6g s, formula %.6g s", i, found.deviation,
                     deviation_s);
    }
}

// Long enough that quantiles come from the normal distribution.
static void quantiles_agree_with_the_process_played(void **state)
{
    static const double RATIOS[] = {0.1, 0.5, 0.9};
    double *wall_s = ARENA_NEW(*state, double, RUNS);
    for (int i = 0; i < CASE_COUNT; i++) {
        const double work_s = 300 * CASES[i].mtbf_s;
        double found_s[3];
        renewal_quantiles(&CASES[i], work_s, RATIOS, found_s, 3);
        renewal_draw(&CASES[i], work_s, 11, wall_s, RUNS);
        for (int k = 0; k < 3; k++)
            assert_near(found_s[k], wall_s[(int)(RATIOS[k] * RUNS)], 0.015);
    }
}

// Of a run as short as those whose quantiles are just not drawn any more.
static void few_interruptions_are_nearly_normal(void **state)
{
    static const double RATIOS[] = {0.1, 0.5, 0.9};
    const struct renewal *renewal = &CASES[0];
    double *wall_s = ARENA_NEW(*state, double, RUNS);
    const double work_s = 20 * renewal->mtbf_s;
    double deviation_s = renewal_deviation_s(renewal, work_s), found_s[3];
    assert_true(renewal_mean_s(renewal, work_s) > 20 * renewal->mtbf_s);
    renewal_quantiles(renewal, work_s, RATIOS, found_s, 3);
    renewal_draw(renewal, work_s, 13, wall_s, RUNS);
    for (int k = 0; k < 3; k++)
        assert_true(fabs(found_s[k] - wall_s[(int)(RATIOS[k] * RUNS)]) < 0.12 * deviation_s);
    // And one whose quantiles are.
    const double short_s = 5 * renewal->mtbf_s;
    renewal_quantiles(renewal, short_s, RATIOS, found_s, 3);
    renewal_draw(renewal, short_s, 13, wall_s, RUNS);
    deviation_s = renewal_deviation_s(renewal, short_s);
    for (int k = 0; k < 3; k++)
        assert_true(fabs(found_s[k] - wall_s[(int)(RATIOS[k] * RUNS)]) < 0.2 * deviation_s);
}

// Interruptions come faster than the job restarts.
static void a_job_may_never_end(void **state)
{
    struct cluster *cluster = load(*state, "dgx-h100-x128");
    cluster->failures.gpu_mtbf_h = 1;
    cluster->failures.restart_s = 1e5;
    struct goodput goodput = goodput_of(&(struct goodput_request){
        .cluster = cluster, .step_s = 3, .checkpoint_bytes = 2000000000000, .steps = 1e6});
    assert_true(goodput.is_known && goodput.goodput_ratio == 0);
    assert_true(goodput.expected_s > 1e300);
    assert_true(!isfinite(goodput.finish_s[1]));
    assert_true(goodput.restart_ratio > 0.999);
    // Progress of one in more than a million is none, though a number; a little more is some.
    cluster->failures.restart_s = 1e3;
    bool has_ended = false, has_not = false;
    for (cluster->failures.gpu_mtbf_h = 10; !has_ended; cluster->failures.gpu_mtbf_h *= 1.3) {
        goodput = goodput_of(&(struct goodput_request){
            .cluster = cluster, .step_s = 3, .checkpoint_bytes = 2000000000000, .steps = 1e6});
        bool ends = goodput.goodput_ratio >= GOODPUT_LEAST_RATIO;
        assert_true(goodput.goodput_ratio > 0);
        assert_true(isfinite(goodput.expected_s) == ends);
        assert_true(isfinite(goodput.finish_s[0]) == ends);
        has_ended = ends;
        has_not = has_not || !ends;
    }
    assert_true(has_not);
}

static void a_job_waits_as_long_as_erlang_says(void **state)
{
    (void)state;
    struct renewal renewal = {.mtbf_s = 100, .node_loss_ratio = 0.5, .repair_s = 400};
    assert_near(renewal_wait_ratio(&renewal), 2.0 / 3, 1e-12);
    double sum = 0, term = 1;
    for (int n = 0; n <= 6; n++) {
        sum += term;
        if (n == 6)
            assert_near(term / sum, (renewal.spare_nodes = 5, renewal_wait_ratio(&renewal)), 1e-12);
        term *= 2.0 / (n + 1);
    }
}

// A host that fails every 100 hours and eight ranks whose software does every 400 interrupt the job
// every 33 1/3 hours, a third of it for a node that is away for 10: one server to whom 0.1 are
// offered, busy for 1/11 of the time. 60 GB go to storage in 60 s, and come back from there, before
// the job is there again after 120 s and 4 s for communicators.
static void every_share_of_the_time_by_hand(void **state)
{
    struct cluster *cluster = load(*state, "dgx-h100");
    cluster->failures = (struct failures){
        .mtbf_h = {[FAILURE_HOST] = 100, [FAILURE_SOFTWARE] = 400},
        .repair_s = 36000,
        .restart_s = 120,
        .communicator_s = 1.5,
        .communicator_rank_s = 0.2,
        .checkpoint_bytes_per_s = 1e9,
        .checkpoint_interval_s = 1199,
    };
    struct goodput_request request = {.cluster = cluster,
                                      .step_s = 3,
                                      .checkpoint_bytes = 60000000000,
                                      .communicators = {.count = 2, .rank_sum = 5}};
    struct goodput found = goodput_mean_of(&request);
    double mtbf_s = 120000, back_s = 120 + 4 + 60, running = 10 / 11.0;
    double busy_s = mtbf_s * exp(back_s / mtbf_s) * expm1(1260 / mtbf_s);
    double restarting = 1 / 11.0 + running * -expm1(-back_s / mtbf_s);
    assert_near(found.mtbf_s, mtbf_s, 1e-12);
    assert_near(found.interval_s, 1200, 1e-12);
    assert_near(found.communicators_s, 4, 1e-12);
    assert_near(found.goodput_ratio, running * 1200 / busy_s, 1e-12);
    assert_near(found.checkpoint_ratio, running * 60 / busy_s, 1e-12);
    assert_near(found.restart_ratio, restarting, 1e-12);
    assert_near(found.lost_ratio, 1 - running * 1260 / busy_s - restarting, 1e-9);
    assert_near(found.wait_s, 12000, 1e-12);
    assert_near(found.restart_s, 12000 + back_s, 1e-12);
    assert_false(found.restart_is_assumed || found.storage_is_assumed || found.interval_is_best);
    // The mean alone has no quantiles; they are asked for where there is an end.
    request.steps = 1000;
    assert_true(goodput_mean_of(&request).finish_s[1] == 0);
    assert_true(goodput_mean_of(&request).expected_s == goodput_of(&request).expected_s);
    assert_true(goodput_of(&request).finish_s[1] > 3000);
}

static void the_parts_of_the_time_are_all_of_it(void **state)
{
    struct cluster *cluster = load(*state, "dgx-h100-x128");
    cluster->failures.repair_s = 24 * HOUR_S;
    cluster->failures.spare_nodes = 1;
    struct goodput goodput = goodput_of(&(struct goodput_request){
        .cluster = cluster, .step_s = 3, .checkpoint_bytes = 2000000000000, .steps = 0});
    assert_near(goodput.goodput_ratio + goodput.checkpoint_ratio + goodput.lost_ratio +
                    goodput.restart_ratio,
                1, 1e-12);
    assert_true(goodput.lost_ratio > 0 && goodput.checkpoint_ratio > 0 && goodput.wait_s > 0);
    assert_true(goodput.restart_is_assumed && goodput.storage_is_assumed);
    assert_near(goodput.storage_bytes_per_s, 128 * 20e9 / 32, 1e-12);
    double steps = goodput.interval_s / 3;
    assert_near(steps, round(steps), 1e-12);
}

static void spares_and_copies_on_hosts_help(void **state)
{
    struct cluster *cluster = load(*state, "dgx-h100-x128");
    struct goodput_request request = {
        .cluster = cluster, .step_s = 3, .checkpoint_bytes = 2000000000000, .steps = 1e5};
    cluster->failures.repair_s = 24 * HOUR_S;
    double none_s = goodput_of(&request).expected_s;
    cluster->failures.spare_nodes = 4;
    struct goodput spares = goodput_of(&request);
    assert_true(spares.expected_s < none_s);
    cluster->failures.async_checkpoints = true;
    struct goodput copied = goodput_of(&request);
    assert_true(copied.expected_s < spares.expected_s && copied.write_s == spares.write_s);
    assert_near(copied.checkpoint_s, 2e12 / 1024 / cluster->nodes[0].host.pcie_bytes_per_s, 1e-12);
    cluster->nodes[0].host.memory_bytes = 1000;
    assert_true(goodput_of(&request).checkpoint_s == spares.checkpoint_s);
}

static void an_interval_that_is_asked_for_is_kept(void **state)
{
    struct cluster *cluster = load(*state, "dgx-h100-x128");
    struct goodput_request request = {
        .cluster = cluster, .step_s = 3, .checkpoint_bytes = 2000000000000, .steps = 0};
    struct goodput best = goodput_of(&request);
    assert_true(best.interval_is_best);
    for (int i = 1; i <= 40; i++) {
        cluster->failures.checkpoint_interval_s = 300.0 * i;
        struct goodput asked = goodput_of(&request);
        assert_true(!asked.interval_is_best && asked.interval_s == 300.0 * i);
        assert_true(asked.goodput_ratio <= best.goodput_ratio * (1 + 1e-5));
    }
}

static void equal_requests_give_equal_bytes(void **state)
{
    struct cluster *cluster = load(*state, "dgx-h100-x16");
    struct goodput_request request = {
        .cluster = cluster, .step_s = 3, .checkpoint_bytes = 1000000000000, .steps = 1e6};
    struct goodput first = goodput_of(&request), second = goodput_of(&request);
    assert_memory_equal(&first, &second, sizeof first);
}

static void whatever_is_given_of_failures_is_told(void **state)
{
    (void)state;
    const struct failures none = {.gpu_mtbf_h = CLUSTER_GPU_MTBF_H};
    assert_false(goodput_is_told(&none));
    struct failures told[8 + FAILURE_CAUSE_COUNT];
    for (int i = 0; i < 8 + FAILURE_CAUSE_COUNT; i++) {
        told[i] = none;
        if (i >= 8) told[i].mtbf_h[i - 8] = 1e-3;
    }
    told[0].gpu_mtbf_h = 0;
    told[1].restart_s = 1e-3;
    told[2].repair_s = 1e-3;
    told[3].spare_nodes = 1;
    told[4].checkpoint_bytes_per_s = 1e-3;
    told[5].host_checkpoint_bytes_per_s = 1e-3;
    told[6].checkpoint_interval_s = 1e-3;
    told[7].async_checkpoints = true;
    for (int i = 0; i < 8 + FAILURE_CAUSE_COUNT; i++)
        assert_true(goodput_is_told(&told[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_given_of_failures_is_told),
        cmocka_unit_test(llama_3_trained_more_than_nine_tenths_of_the_time),
        cmocka_unit_test(causes_are_those_of_the_published_table),
        cmocka_unit_test(a_file_may_tell_causes_apart),
        cmocka_unit_test(a_sum_and_its_parts_are_one_too_many),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(the_interval_is_the_best_one),
        cmocka_unit_test(formulas_agree_with_the_process_played),
        cmocka_unit_test(quantiles_agree_with_the_process_played),
        cmocka_unit_test(few_interruptions_are_nearly_normal),
        cmocka_unit_test(a_job_may_never_end),
        cmocka_unit_test(a_job_waits_as_long_as_erlang_says),
        cmocka_unit_test(every_share_of_the_time_by_hand),
        cmocka_unit_test(the_parts_of_the_time_are_all_of_it),
        cmocka_unit_test(spares_and_copies_on_hosts_help),
        cmocka_unit_test(an_interval_that_is_asked_for_is_kept),
        cmocka_unit_test(equal_requests_give_equal_bytes),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
