#include "cost_models/money.h"
#include "tests/support/test.h"

#include <math.h>

static const double DAY_S = 86400;

static struct cluster *load(struct arena *arena, const char *name)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, name, &err);
    assert_string_equal(err.text, "");
    cluster->price.per_gpu_hour = 2;
    cluster->price.currency = "EUR";
    return cluster;
}

// 16 GPUs at 1 million tokens a second: 3.6 billion an hour, for 32 EUR.
static struct money_request ask(const struct cluster *cluster, double tokens)
{
    return (struct money_request){
        .cluster = cluster, .step_s = 4, .step_tokens = 4e6, .tokens = tokens};
}

static bool is_near(double found, double wanted)
{
    return fabs(found - wanted) <= 1e-12 * fabs(wanted);
}

static void money_is_gpu_hours_times_their_price(void **state)
{
    struct money_request request = ask(load(*state, "dgx-h100-x2"), 3.6e12);
    struct money money = money_of(&request).money;
    assert_true(is_near(money.train_s, 3.6e6) && money.train_s == money.uninterrupted_s);
    assert_true(is_near(money.gpu_hours, 16000) && is_near(money.total, 32000));
    assert_true(is_near(money.per_billion_tokens, 32 / 3.6));
    assert_true(is_near(money.billion_s, 1000) && money.gpu_count == 16);
    assert_string_equal(money.currency, "EUR");
}

static void a_run_is_whole_steps(void **state)
{
    struct money_request request = ask(load(*state, "dgx-h100-x2"), 4e6 * 10 + 1);
    assert_true(money_of(&request).money.train_s == 11 * 4);
}

static void without_tokens_there_is_no_total(void **state)
{
    struct money_request request = ask(load(*state, "dgx-h100"), 0);
    struct money money = money_of(&request).money;
    assert_true(money.train_s == 0 && money.gpu_hours == 0 && money.total == 0);
    assert_true(money.per_billion_tokens > 0 && is_near(money.billion_s, 1000));
}

static void without_a_price_there_is_no_money(void **state)
{
    struct cluster *cluster = load(*state, "dgx-h100");
    cluster->price = (struct price){0};
    struct money_request request = ask(cluster, 1e12);
    struct money money = money_of(&request).money;
    assert_true(money.total == 0 && money.per_billion_tokens == 0);
    assert_true(money.train_s > 0 && money.gpu_hours > 0);
    assert_null(money.currency);
}

// With interruptions: the wall clock of the goodput, and the spares are paid for too.
static void what_is_paid_is_the_wall_clock_of_all_gpus(void **state)
{
    struct cluster *cluster = load(*state, "dgx-h100-x128");
    cluster->failures.spare_nodes = 2;
    struct money_request request = ask(cluster, 4e12);
    request.checkpoint_bytes = 2000000000000;
    struct money_band all = money_of(&request);
    const struct goodput_request asked = {.cluster = cluster,
                                          .step_s = 4,
                                          .checkpoint_bytes = request.checkpoint_bytes,
                                          .steps = 1e6};
    struct goodput goodput = goodput_of(&asked);
    assert_memory_equal(&all.goodput, &goodput, sizeof goodput);
    assert_true(all.money.train_s == goodput.expected_s && all.money.uninterrupted_s == 4e6);
    assert_true(all.money.train_s > 4e6 && all.money.gpu_count == 1024 + 16);
    assert_true(is_near(all.money.gpu_hours, goodput.expected_s * (1024 + 16) / 3600));
    assert_true(is_near(all.money.total, 2 * all.money.gpu_hours));
    assert_true(is_near(all.money.per_billion_tokens, all.money.total / 4e3));
    struct money mean = money_mean_of(&request);
    assert_memory_equal(&mean, &all.money, sizeof mean);
}

// The ends of the band are runs of steps that take so long, interruptions and all.
static void a_band_is_two_more_runs(void **state)
{
    struct cluster *cluster = load(*state, "dgx-h100-x128");
    const struct band band = {.low_ratio = 0.8, .high_ratio = 1.3};
    struct money_request request = ask(cluster, 4e12);
    request.checkpoint_bytes = 2000000000000;
    request.band = &band;
    struct money_band all = money_of(&request);
    const double ratios[] = {0.8, 1.3};
    const struct money *ends[] = {&all.low, &all.high};
    for (int i = 0; i < 2; i++) {
        struct money_request end = ask(cluster, 4e12);
        end.step_s = 4 * ratios[i];
        end.checkpoint_bytes = request.checkpoint_bytes;
        struct money wanted = money_of(&end).money;
        assert_memory_equal(&wanted, ends[i], sizeof wanted);
    }
    request.band = NULL;
    assert_true(money_of(&request).low.train_s == 0);
}

static void a_run_that_never_ends_costs_without_end(void **state)
{
    struct cluster *cluster = load(*state, "dgx-h100-x128");
    cluster->failures.gpu_mtbf_h = 1;
    cluster->failures.restart_s = 1e5;
    struct money_request request = ask(cluster, 4e12);
    request.checkpoint_bytes = 2000000000000;
    struct money money = money_of(&request).money;
    assert_true(isinf(money.train_s) && isinf(money.gpu_hours) && isinf(money.total));
    request.tokens = 0;
    money = money_of(&request).money;
    assert_true(money.train_s == 0 && isinf(money.billion_s) && isinf(money.per_billion_tokens));
}

// Brute force around what bisection finds.
static void the_most_tokens_are_the_last_that_can_be_paid_in_time(void **state)
{
    struct cluster *cluster = load(*state, "dgx-h100-x16");
    cluster->failures.repair_s = DAY_S;
    for (int spares = 0; spares < 3; spares++) {
        cluster->failures.spare_nodes = spares;
        struct money_request request = ask(cluster, 0);
        request.checkpoint_bytes = 1000000000000;
        for (double days = 0.01; days < 400; days *= 4) {
            double total = days * 24 * 128 * 2 * (spares == 1 ? 0.7 : 2);
            double tokens = money_most_tokens(&request, days * DAY_S, total);
            double steps = tokens / request.step_tokens;
            assert_true(steps >= 1 && steps == floor(steps));
            for (int more = 0; more < 2; more++) {
                request.tokens = tokens + more * request.step_tokens;
                struct money money = money_of(&request).money;
                bool is_within = money.train_s <= days * DAY_S && money.total <= total;
                assert_true(is_within == !more);
            }
        }
        assert_true(money_most_tokens(&request, 3.9, INFINITY) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(money_is_gpu_hours_times_their_price),
        cmocka_unit_test(a_run_is_whole_steps),
        cmocka_unit_test(without_tokens_there_is_no_total),
        cmocka_unit_test(without_a_price_there_is_no_money),
        cmocka_unit_test(what_is_paid_is_the_wall_clock_of_all_gpus),
        cmocka_unit_test(a_band_is_two_more_runs),
        cmocka_unit_test(a_run_that_never_ends_costs_without_end),
        cmocka_unit_test(the_most_tokens_are_the_last_that_can_be_paid_in_time),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
