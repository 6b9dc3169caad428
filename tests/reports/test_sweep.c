#include "tests/support/test.h"

#include "planner/choice.h"
#include "reports/whatif/sweep.h"

static void check_list(struct arena *arena, enum sweep_axis axis, const char *text,
                       const double *wanted, int count)
{
    struct err err = {0};
    struct sweep_list list;
    assert_true(sweep_parse(arena, axis, text, &list, &err));
    assert_string_equal(err.text, "");
    assert_int_equal(list.count, count);
    for (int i = 0; i < count; i++) {
        assert_true(list.values[i] == wanted[i]);
    }
}

static void lists_and_ranges_are_read(void **state)
{
    struct arena *arena = *state;
    check_list(arena, SWEEP_GPUS, "8", (double[]){8}, 1);
    check_list(arena, SWEEP_GPUS, "8,24,16", (double[]){8, 24, 16}, 3);
    check_list(arena, SWEEP_GPUS, "8..64", (double[]){8, 16, 32, 64}, 4);
    check_list(arena, SWEEP_GPUS, "8..50", (double[]){8, 16, 32, 50}, 4);
    check_list(arena, SWEEP_GPUS, "8..8", (double[]){8}, 1);
    check_list(arena, SWEEP_NODES, "1..7:2", (double[]){1, 3, 5, 7}, 4);
    check_list(arena, SWEEP_NODES, "1..8:3,20", (double[]){1, 4, 7, 20}, 4);
    check_list(arena, SWEEP_SEQ_LEN, "4k,8192", (double[]){4000, 8192}, 2);
    check_list(arena, SWEEP_PRICE_FACTOR, "0.5..2", (double[]){0.5, 1, 2}, 3);
    check_list(arena, SWEEP_BANDWIDTH_FACTOR, "0.5..1:0.25", (double[]){0.5, 0.75, 1}, 3);
    check_list(arena, SWEEP_PRECISION, "fp8,bf16", (double[]){PRECISION_FP8, PRECISION_BF16}, 2);
}

static void wrong_lists_are_one_line(void **state)
{
    struct arena *arena = *state;
    static const struct {
        enum sweep_axis axis;
        const char *text, *error;
    } CASES[] = {
        {SWEEP_GPUS, "", "--gpus: expected a number such as 4096, 1e12 or 2T, found \"\""},
        {SWEEP_GPUS, "8,,16", "--gpus: expected a number such as 4096, 1e12 or 2T, found \"\""},
        {SWEEP_GPUS, "8..", "--gpus: expected a number such as 4096, 1e12 or 2T, found \"\""},
        {SWEEP_GPUS, "16..8", "--gpus: the range 16..8 is empty"},
        {SWEEP_GPUS, "0..8", "--gpus: must be between 1 and 1073741824, found 0"},
        {SWEEP_GPUS, "8,1.5", "--gpus: expected a whole number, found \"1.5\""},
        {SWEEP_NODES, "1..8:0", "--nodes: must be between 1 and 1000000, found 0"},
        {SWEEP_GPUS, "1..8,4", "--gpus: 4 is given twice"},
        {SWEEP_NODES, "1..9999:1", "--nodes: at most 4096 values are allowed"},
        {SWEEP_MEMORY_FACTOR, "-1", "--memory-factor: must be between 1e-06 and 1e+06, found -1"},
        {SWEEP_PRECISION, "bf15", "--precision: \"bf15\" is not one of fp32|fp16|bf16|fp8|fp4"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct err err = {0};
        struct sweep_list list;
        assert_false(sweep_parse(arena, CASES[i].axis, CASES[i].text, &list, &err));
        assert_string_equal(err.text, CASES[i].error);
        assert_int_equal(err.kind, ERR_USAGE);
    }
}

static const struct cluster *load(struct arena *arena, const char *name)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, name, &err);
    assert_string_equal(err.text, "");
    cluster->price = (struct price){.per_gpu_hour = 2, .currency = "USD"};
    return cluster;
}

static void put_list(struct arena *arena, struct sweep *sweep, enum sweep_axis axis,
                     const char *text)
{
    struct err err = {0};
    assert_true(sweep_parse(arena, axis, text, &sweep->axes[axis], &err));
}

// The last axis changes fastest, and every axis changes what it is named after, in a copy.
static void a_sweep_is_the_product_of_its_lists(void **state)
{
    struct arena *arena = *state;
    const struct cluster *clusters[] = {load(arena, "dgx-a100-80g"), load(arena, "dgx-h100")};
    struct sweep sweep = {.clusters = clusters,
                          .cluster_count = 2,
                          .workload = {.seq_len = 2048, .global_batch = 64},
                          .pins = pins_none()};
    put_list(arena, &sweep, SWEEP_GPUS, "8,12,32");
    put_list(arena, &sweep, SWEEP_MEMORY_FACTOR, "1,2");
    put_list(arena, &sweep, SWEEP_PRICE_FACTOR, "1,0.5");
    struct err err = {0};
    struct sweep_points points;
    assert_true(sweep_points(arena, &sweep, &points, &err));
    assert_int_equal(points.count, 2 * 3 * 2 * 2);
    for (int i = 0; i < points.count; i++) {
        const struct sweep_point *point = &points.items[i];
        const struct cluster *cluster = point->scenario.cluster;
        static const int GPUS[] = {8, 12, 32}, NODES[] = {1, 2, 4};
        int chosen = i / 4 % 3;
        assert_int_equal(point->cluster, i / 12);
        assert_int_equal(cluster->rank_count, GPUS[chosen]);
        assert_int_equal(cluster->node_count, NODES[chosen]);
        int64_t bytes = clusters[i / 12]->nodes[0].device->memory_bytes;
        assert_int_equal(cluster->nodes[0].device->memory_bytes, bytes * (i / 2 % 2 + 1));
        assert_true(cluster->price.per_gpu_hour == (i % 2 ? 1 : 2));
    }
    assert_int_equal(clusters[0]->rank_count, 8);
    assert_true(clusters[0]->price.per_gpu_hour == 2);
}

static void factors_scale_links_and_rates(void **state)
{
    struct arena *arena = *state;
    const struct cluster *base = load(arena, "dgx-h100");
    struct sweep sweep = {.clusters = &base, .cluster_count = 1, .pins = pins_none()};
    sweep.workload = (struct workload){.seq_len = 4096, .global_batch = 64};
    put_list(arena, &sweep, SWEEP_BANDWIDTH_FACTOR, "0.5");
    put_list(arena, &sweep, SWEEP_INTRA_BANDWIDTH_FACTOR, "3");
    put_list(arena, &sweep, SWEEP_FLOPS_FACTOR, "2");
    struct err err = {0};
    struct sweep_points points;
    assert_true(sweep_points(arena, &sweep, &points, &err));
    const struct node_group *was = &base->nodes[0],
                            *is = &points.items[0].scenario.cluster->nodes[0];
    assert_true(is->nics.bandwidth_bytes_per_s == 0.5 * was->nics.bandwidth_bytes_per_s);
    assert_true(is->intra.bandwidth_bytes_per_s == 3 * was->intra.bandwidth_bytes_per_s);
    assert_true(is->device->peak_flop_per_s[PRECISION_BF16] ==
                2 * was->device->peak_flop_per_s[PRECISION_BF16]);
}

static void the_batch_may_follow_the_gpus_or_the_tokens(void **state)
{
    struct arena *arena = *state;
    const struct cluster *base = load(arena, "dgx-h100");
    struct sweep sweep = {.clusters = &base, .cluster_count = 1, .pins = pins_none()};
    sweep.workload = (struct workload){.seq_len = 4096, .global_batch = 64};
    sweep.sequences_per_gpu = 3;
    put_list(arena, &sweep, SWEEP_GPUS, "8,16");
    struct err err = {0};
    struct sweep_points points;
    assert_true(sweep_points(arena, &sweep, &points, &err));
    assert_int_equal(points.items[0].scenario.workload.global_batch, 24);
    assert_int_equal(points.items[1].scenario.workload.global_batch, 48);
    sweep.sequences_per_gpu = 0;
    sweep.batch_tokens = 4 << 20;
    put_list(arena, &sweep, SWEEP_SEQ_LEN, "4096,5000");
    assert_true(sweep_points(arena, &sweep, &points, &err));
    assert_int_equal(points.items[0].scenario.workload.global_batch, 1024);
    assert_int_equal(points.items[1].scenario.workload.global_batch, 512);
}

static void what_a_cluster_cannot_be_is_said(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    const struct cluster *mixed = cluster_load(arena, "tests/data/cluster_mixed.json", &err);
    assert_string_equal(err.text, "");
    assert_null(sweep_cluster(arena, mixed, 100000, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    const struct cluster *base = load(arena, "dgx-h100");
    struct sweep sweep = {.clusters = &base, .cluster_count = 1, .pins = pins_none()};
    sweep.workload = (struct workload){.seq_len = 4096, .global_batch = 64};
    put_list(arena, &sweep, SWEEP_NODES, "1..1000:1");
    put_list(arena, &sweep, SWEEP_SEQ_LEN, "1..101:1");
    struct sweep_points points;
    err = (struct err){0};
    assert_false(sweep_points(arena, &sweep, &points, &err));
    assert_string_equal(err.text, "these lists make 101000 scenarios, at most 100000 are allowed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_and_ranges_are_read),
        cmocka_unit_test(wrong_lists_are_one_line),
        cmocka_unit_test(a_sweep_is_the_product_of_its_lists),
        cmocka_unit_test(factors_scale_links_and_rates),
        cmocka_unit_test(the_batch_may_follow_the_gpus_or_the_tokens),
        cmocka_unit_test(what_a_cluster_cannot_be_is_said),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
