#include "cost_models/money.h"
#include "tests/test.h"

#include <math.h>

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
static void money_is_gpu_hours_times_their_price(void **state)
{
    struct cluster *cluster = load(*state, "dgx-h100-x2");
    struct money money = money_of(cluster, 1e6, 3.6e12);
    assert_true(fabs(money.train_s / 3.6e6 - 1) < 1e-12);
    assert_true(fabs(money.gpu_hours / 16000 - 1) < 1e-12);
    assert_true(fabs(money.total / 32000 - 1) < 1e-12);
    assert_true(fabs(money.per_billion_tokens / (32 / 3.6) - 1) < 1e-12);
    assert_string_equal(money.currency, "EUR");
}

static void without_tokens_there_is_no_total(void **state)
{
    struct money money = money_of(load(*state, "dgx-h100"), 1e6, 0);
    assert_true(money.train_s == 0 && money.gpu_hours == 0 && money.total == 0);
    assert_true(money.per_billion_tokens > 0);
}

static void without_a_price_there_is_no_money(void **state)
{
    struct cluster *cluster = load(*state, "dgx-h100");
    cluster->price = (struct price){0};
    struct money money = money_of(cluster, 1e6, 1e12);
    assert_true(money.total == 0 && money.per_billion_tokens == 0);
    assert_true(money.train_s > 0 && money.gpu_hours > 0);
    assert_null(money.currency);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(money_is_gpu_hours_times_their_price),
        cmocka_unit_test(without_tokens_there_is_no_total),
        cmocka_unit_test(without_a_price_there_is_no_money),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
