#include "planner/tables/assign.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>

static struct place_request request_of(struct arena *arena, const char *model, const char *cluster)
{
    struct err err = {0};
    struct place_request request = {
        .model = recommender_load(arena, model, &err),
        .cluster = cluster_load(arena, cluster, &err),
        .fabrics = fabrics_load(arena, &err),
        .stack = table_stack_load(arena, "hugectr", &err),
        .workload = {55296, PRECISION_FP16, TABLE_ADAGRAD, CACHE_STATIC},
    };
    assert_string_equal(err.text, "");
    return request;
}

static struct place_result placed(struct arena *arena, const struct place_request *request)
{
    struct err err = {0};
    struct place_result result;
    assert_true(place_tables(arena, request, &result, &err));
    assert_string_equal(err.text, "");
    return result;
}

// MLPerf's published logs, with constants of which none was fitted to them.
static void published_logs_are_within_a_fifth(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct json_document document = {0};
    assert_true(json_load(arena, "tests/data/dlrm_runs.json", &document, &err));
    struct json root = json_root(&document), runs = json_get(&root, "runs", &err);
    int count = json_count(&runs, &err);
    assert_int_equal(count, 5);
    struct place_result result = {0};
    const char *last_cluster = "";
    int64_t last_batch = 0;
    for (int i = 0; i < count; i++) {
        struct json run = json_item(&runs, i), name = json_get(&run, "cluster", &err);
        struct json nodes = json_get(&run, "nodes", &err);
        struct json batch = json_get(&run, "global_batch", &err);
        struct json step = json_get(&run, "step_s", &err);
        const char *cluster = arena_print(arena, "%s-x%d", json_text(&name, &err),
                                          (int)json_i64(&nodes, 1, 100, &err));
        struct place_request request = request_of(arena, "dlrm-dcnv2-mlperf", cluster);
        request.workload.global_batch = json_i64(&batch, 1, 1e9, &err);
        double logged_s = json_f64(&step, 0, 1, &err);
        assert_string_equal(err.text, "");
        // Two of the logs are of the same question.
        bool is_again = i > 0 && request.workload.global_batch == last_batch &&
                        strcmp(cluster, last_cluster) == 0;
        if (!is_again) result = placed(arena, &request);
        last_batch = request.workload.global_batch;
        last_cluster = cluster;
        double off = result.prediction.step_s / logged_s - 1;
        printf("# %-14s predicted %.3f ms, logged %.3f ms: %+.1f %%\n", cluster,
               1e3 * result.prediction.step_s, 1e3 * logged_s, 100 * off);
        assert_true(fabs(off) <= 0.2);
        assert_true(result.prediction.fits && result.gap_ratio >= -1e-9);
    }
}

static void what_runs_beside_what_adds_up_to_the_step(void **state)
{
    struct place_request request = request_of(*state, "dlrm-dcnv2-mlperf", "dgx-h100-x1");
    struct place_result result = placed(*state, &request);
    double sum_s = 0, end_s = 0;
    for (int task = 0; task < TABLE_TASK_COUNT; task++) {
        const struct table_span *span = &result.prediction.spans[task];
        sum_s += span->s;
        end_s = fmax(end_s, span->start_s + span->s);
    }
    assert_true(fabs(end_s - result.prediction.step_s) < 1e-12);
    assert_true(result.prediction.step_s < sum_s);
    struct table_stack plain = *request.stack;
    plain.overlaps = plain.prefetches_ids = false;
    request.stack = &plain;
    const struct table_request priced = place_priced(&request, result.placement);
    assert_true(fabs(table_price(&priced).step_s / sum_s - 1) < 1e-9);
}

// Every way to give few items to few ranks, beside what the search finds.
static double brute_force(const struct assign_request *request, int item, double *load,
                          double *bytes)
{
    int ranks = request->limits->rank_count;
    if (item == request->item_count) {
        double most = 0;
        for (int r = 0; r < ranks; r++)
            most = fmax(most, load[r]);
        return most;
    }
    double best = INFINITY;
    for (int r = 0; r < ranks; r++) {
        double more = request->items[item].bytes[TIER_DEVICE];
        if (bytes[r] + more > request->limits->device) continue;
        bytes[r] += more;
        load[r] += request->items[item].s;
        best = fmin(best, brute_force(request, item + 1, load, bytes));
        bytes[r] -= more;
        load[r] -= request->items[item].s;
    }
    return best;
}

static void ranks_are_as_busy_as_brute_force_finds(void **state)
{
    (void)state;
    struct draw draw = draw_start("assign", 21);
    int found = 0;
    for (int trial = 0; trial < 30; trial++) {
        struct assign_item items[7] = {0};
        struct table_limits limits = {
            .device = draw_int(&draw, 14, 30), .rank_count = 3, .node_ranks = 3};
        struct assign_request request = {
            .items = items, .item_count = draw_int(&draw, 3, 7), .limits = &limits};
        double total = 0;
        for (int i = 0; i < request.item_count; i++) {
            items[i] = (struct assign_item){.s = draw_int(&draw, 1, 20), .span = 1};
            items[i].bytes[TIER_DEVICE] = draw_int(&draw, 1, 12);
            total += items[i].s;
        }
        request.bound_s = total / 3;
        double load[3] = {0}, bytes[3] = {0}, best = brute_force(&request, 0, load, bytes);
        struct assign_result result;
        struct err err = {0};
        struct arena arena = {0};
        assert_true(assign_items(&arena, &request, &result, &err));
        // Greedy filling may miss a packing that only just fits; what it finds is right.
        if (result.fits) {
            found++;
            assert_true(result.busiest_s >= best * (1 - 1e-9));
            assert_true(result.busiest_s <= best * 1.0021 + 1e-9);
            assert_true(result.bound_s <= best * (1 + 1e-6));
        } else {
            assert_true(best == INFINITY || limits.device < 30);
        }
        arena_free(&arena);
    }
    assert_true(found >= 20);
}

// Of 20 GPUs in nodes of 8 four are of a third node that is not whole: parts that fill nodes find
// no place there, and what a piece costs its node falls on no rank behind the last.
static void a_node_that_is_not_whole_holds_no_whole_span(void **state)
{
    struct assign_item items[] = {{.s = 20, .node_s = 1, .span = 1},
                                  {.s = 20, .node_s = 1, .span = 1},
                                  {.s = 20, .node_s = 1, .span = 1},
                                  {.s = 10, .span = 8}};
    struct table_limits limits = {.device = 1, .rank_count = 20, .node_ranks = 8};
    struct assign_request request = {.items = items, .item_count = 4, .limits = &limits};
    struct assign_result result;
    struct err err = {0};
    assert_true(assign_items(*state, &request, &result, &err));
    assert_true(result.fits);
    for (int i = 0; i < request.item_count; i++)
        assert_in_range(items[i].rank, 0, limits.rank_count - items[i].span);
    assert_int_equal(items[3].rank % 8, 0);
    struct place_request asked = request_of(*state, "dlrm-dcnv2-mlperf", "dgx-h100-x4");
    struct cluster part = *asked.cluster;
    assert_true(cluster_take_gpus(&part, 20, &err));
    asked.cluster = &part;
    asked.workload.global_batch = 55200;
    struct place_result found = placed(*state, &asked);
    for (int i = 0; i < found.placement->piece_count; i++)
        assert_true(found.placement->pieces[i].rank < 20);
}

static void what_cannot_be_is_told(void **state)
{
    struct err err = {0};
    struct place_request request = request_of(*state, "dlrm-10tb", "dgx-h100-x1");
    struct place_result result;
    assert_true(place_tables(*state, &request, &result, &err));
    assert_null(result.placement);
    assert_string_equal(result.lacks, "18.3 TiB of tables and their state; for them there are "
                                      "550 GiB on devices");
    request.workload.global_batch = 55297;
    assert_false(place_tables(*state, &request, &result, &err));
    assert_string_equal(err.text,
                        "--global-batch: 8 ranks do not divide 55297 samples; 55304 would do");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_logs_are_within_a_fifth),
        cmocka_unit_test(what_runs_beside_what_adds_up_to_the_step),
        cmocka_unit_test(ranks_are_as_busy_as_brute_force_finds),
        cmocka_unit_test(a_node_that_is_not_whole_holds_no_whole_span),
        cmocka_unit_test(what_cannot_be_is_told),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
