#include "planner/choice.h"
#include "planner/ranking.h"
#include "planner/search.h"
#include "planner/space.h"
#include "tests/support/random_search.h"
#include "tests/support/test.h"

#include <string.h>

// Families of what is moved off the device are left out without a look at each of their plans. The
// plans that are found are those of a search that asks for every one.

// Few small devices, with hosts that often have too little memory for all that could be moved to
// them, and slow or fast drives behind them.
static void draw_hosts(struct arena *arena, struct draw *draw, struct search_request *request)
{
    struct cluster *cluster = ARENA_NEW(arena, struct cluster, 1);
    *cluster = *request->cluster;
    cluster->nodes = ARENA_NEW(arena, struct node_group, cluster->node_group_count);
    memcpy(cluster->nodes, request->cluster->nodes,
           (size_t)cluster->node_group_count * sizeof *cluster->nodes);
    struct err err = {0};
    int most = draw_int(draw, 0, 1) ? 1 : cluster->rank_count < 4 ? cluster->rank_count : 4;
    assert_true(cluster_take_gpus(cluster, draw_int(draw, 1, most), &err));
    for (int i = 0; i < cluster->node_group_count; i++) {
        struct host *host = &cluster->nodes[i].host;
        if (draw_int(draw, 0, 2)) host->memory_bytes = (int64_t)draw_int(draw, 16, 600) << 20;
        host->nvme_bytes = (int64_t)draw_int(draw, 0, 40) << 30;
        host->nvme_bytes_per_s = draw_int(draw, 1, 40) * 1e9;
    }
    struct device *device = ARENA_NEW(arena, struct device, 1);
    *device = *cluster->nodes[0].device;
    device->memory_bytes = (int64_t)draw_int(draw, 800, 3000) << 20;
    cluster->nodes[0].device = device;
    request->cluster = cluster;
}

// What was moved where in plans that came out first, so that no place is left out unseen.
struct moved_to {
    int optimizer[TIER_COUNT], activations[TIER_COUNT], nothing_fits;
};

static void compare_searches(struct search_request *request, struct moved_to *places)
{
    struct arena arena = {0};
    struct search_result pruned = {0}, whole = {0};
    struct err err_pruned = {0}, err_whole = {0};
    bool ok = search_plans(&arena, request, &pruned, &err_pruned);
    request->exhaustive = true;
    assert_int_equal(ok, search_plans(&arena, request, &whole, &err_whole));
    assert_string_equal(err_pruned.text, err_whole.text);
    assert_int_equal(pruned.status, whole.status);
    assert_int_equal(pruned.best_count, whole.best_count);
    assert_true(pruned.considered_count == whole.considered_count);
    assert_int_equal(step_ns(pruned.layers_s), step_ns(whole.layers_s));
    places->nothing_fits += pruned.best_count == 0;
    for (int k = 0; k < pruned.best_count; k++) {
        const struct candidate *a = &pruned.best[k], *b = &whole.best[k];
        assert_int_equal(candidate_compare(OBJECTIVE_TIME, a, b), 0);
        assert_int_equal(step_ns(a->closed_form_s), step_ns(b->closed_form_s));
        assert_true(a->memory.reserved_bytes == b->memory.reserved_bytes);
        places->optimizer[a->parallel.offload.optimizer]++;
        places->activations[a->parallel.offload.activations]++;
    }
    arena_free(&arena);
}

static void what_is_left_out_is_never_better(void **state)
{
    (void)state;
    const char *wanted = getenv("MESHWRIGHT_CASES");
    int cases = wanted ? atoi(wanted) : 60;
    struct draw draw = draw_start("moves", 24);
    struct moved_to places = {0};
    for (int i = 0; i < cases; i++) {
        struct arena arena = {0};
        struct search_request request = random_search(&arena, &draw);
        draw_hosts(&arena, &draw, &request);
        request.pins.search_offload = true;
        // Who recomputes nothing has to move more.
        if (draw_int(&draw, 0, 2)) pins_set(&request.pins, CHOICE_RECOMPUTE, 0, 0);
        request.nothing = SEARCH_FITS_ONLY;
        request.top = 4;
        if (request.stack->copy_ratio > 0) compare_searches(&request, &places);
        arena_free(&arena);
    }
    for (enum tier tier = TIER_HOST; tier < TIER_COUNT && cases >= 60; tier++)
        assert_true(places.optimizer[tier] + places.activations[tier] > 0);
}

// States and activations in three places each; of two where a host has no drive, or one that no
// speed is known of, be it the last of several.
static void drives_are_for_clusters_that_have_them_everywhere(void **state)
{
    static const struct {
        int64_t nvme_bytes[2];
        double nvme_bytes_per_s[2];
        int move_count;
    } CASES[] = {
        {{1, 1}, {1, 1}, 9}, {{0, 1}, {1, 1}, 4}, {{1, 0}, {1, 1}, 4},
        {{1, 1}, {0, 1}, 4}, {{1, 1}, {1, 0}, 4}, {{0, 0}, {0, 0}, 4},
    };
    struct err err = {0};
    struct stack *stack = ARENA_NEW(*state, struct stack, 1);
    *stack = *stack_load(*state, "megatron-core", &err);
    assert_string_equal(err.text, "");
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct node_group nodes[2] = {0};
        struct cluster cluster = {.nodes = nodes, .node_group_count = 2};
        for (int n = 0; n < 2; n++) {
            nodes[n].host.nvme_bytes = CASES[i].nvme_bytes[n];
            nodes[n].host.nvme_bytes_per_s = CASES[i].nvme_bytes_per_s[n];
        }
        struct search_request request = {.cluster = &cluster, .stack = stack, .pins = pins_none()};
        struct space_move moves[SPACE_MOVE_MAX];
        request.pins.search_offload = true;
        stack->copy_ratio = 1;
        assert_int_equal(space_moves(&request, 0, 4, moves), CASES[i].move_count);
        stack->copy_ratio = 0;  // who copies nothing moves nothing
        assert_int_equal(space_moves(&request, 0, 4, moves), 1);
    }
}

// Of our own stack what no back end runs is left out: LAMB takes norms where the device has them.
// Where there are no layers none are moved, and what is forbidden is not among the moves.
static void what_cannot_run_or_is_forbidden_is_not_moved(void **state)
{
    struct err err = {0};
    struct node_group nodes[1] = {{.host = {.nvme_bytes = 1, .nvme_bytes_per_s = 1}}};
    struct cluster cluster = {.nodes = nodes, .node_group_count = 1};
    struct search_request request = {
        .cluster = &cluster, .stack = stack_load(*state, "meshwright", &err), .pins = pins_none()};
    struct space_move moves[SPACE_MOVE_MAX];
    assert_string_equal(err.text, "");
    request.pins.search_offload = true;
    request.workload.optimizer = OPTIMIZER_ADAMW;
    assert_int_equal(space_moves(&request, 0, 4, moves), 9);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(moves[i].offload.activations, i / 3);
        assert_int_equal(moves[i].offload.optimizer, i % 3);
        assert_int_equal(moves[i].layers_low, i / 3 ? 1 : 0);
        assert_int_equal(moves[i].layers_high, i / 3 ? 4 : 0);
    }
    request.workload.optimizer = OPTIMIZER_LAMB;
    assert_int_equal(space_moves(&request, 0, 4, moves), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(moves[i].offload.optimizer, TIER_DEVICE);
    request.workload.optimizer = OPTIMIZER_ADAMW;
    assert_int_equal(space_moves(&request, 0, 0, moves), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(moves[i].offload.activations, TIER_DEVICE);
    // Parameters go with their states.
    request.pins.search_parameters = TIER_HOST;
    assert_int_equal(space_moves(&request, 0, 4, moves), 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(moves[i].offload.parameters, TIER_HOST);
        assert_int_equal(moves[i].offload.optimizer, TIER_HOST + i % 2);
    }
    request.pins.search_parameters = TIER_DEVICE;
    request.pins.search_gradients = true;
    assert_int_equal(space_moves(&request, 0, 4, moves), 6);
    assert_true(moves[0].offload.gradients);
    // More layers than can be counted are all of them.
    assert_int_equal(space_moves(&request, 0, OFFLOAD_LAYERS_MAX + 7, moves), 6);
    assert_int_equal(moves[2].layers_high, OFFLOAD_LAYERS_MAX + 1);
    assert_int_equal(space_moved(&moves[2], 3).layers[1], 3);
    assert_int_equal(space_moved(&moves[2], OFFLOAD_LAYERS_MAX + 1).layers[1], -1);
    assert_int_equal(space_moved(&moves[2], 0).layers[1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_out_is_never_better),
        cmocka_unit_test(drives_are_for_clusters_that_have_them_everywhere),
        cmocka_unit_test(what_cannot_run_or_is_forbidden_is_not_moved),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
