#include "tests/support/random_search.h"
#include "tests/support/test.h"

#include "planner/bound.h"
#include "planner/choice.h"
#include "planner/compose.h"
#include "planner/saturated.h"
#include "planner/scan_walk.h"

#include <math.h>

// What the search says of a group before it is lowered, and after one layer of it is.
struct bounds {
    double graph_s, saturated_s, probe_s;
    bool has_room;
};

static double room_s(const struct saturated_question *question, struct bound_work work,
                     double layer_s, int micro_batches)
{
    struct saturated_room room = saturated_room(question, layer_s);
    work.all_s += room.recompute_s, work.chain_s += room.recompute_s;
    double step_s = bound_pipeline_s(work, question->mesh->degree[AXIS_PP], micro_batches,
                                     question->tails->kinds);
    return fmax(step_s, micro_batches * room.stage_s);
}

static struct bounds bounds_of(struct memo *memo, struct composer *composer,
                               const struct space *space, const struct space_group *group,
                               const struct space_tails *tails)
{
    const struct search_request *request = space->request;
    const struct space_mesh *mesh = &space->meshes[group->mesh];
    const struct graph *graph = memo_graph(memo, group->attention, mesh->degree[AXIS_TP]);
    struct bound_facts facts = bound_facts(graph, request->workload.seq_len);
    struct saturated saturated = saturated_make(memo, space, &facts, group->attention);
    int64_t limit_bytes = cluster_device_bytes(request->cluster);
    const struct saturated_question question = {request, &facts, &saturated,  mesh,
                                                group,   tails,  limit_bytes, NULL};
    struct parallel parallel = space_first(space, group, &tails->tails[0]);
    int count = (int)parallel_micro_batch_count(&parallel, request->workload.global_batch);
    struct bound_work rest = bound_rest(request, &facts, mesh, group->micro_batch, 0);
    struct bound_work whole = saturated_work(&facts, &saturated, mesh, group->micro_batch);
    double layer_s = whole.all_s / facts.probe_count;
    whole.all_s += rest.all_s, whole.chain_s += rest.chain_s;
    composer_group(composer, &parallel);
    struct bound_work layer = composer_probe(composer, &parallel, facts.probe_kind).work;
    struct bound_work probed =
        bound_rest(request, &facts, mesh, group->micro_batch, facts.other_count);
    probed.all_s += facts.probe_count * layer.all_s;
    probed.chain_s += facts.probe_count * layer.chain_s;
    for (int i = 0; i < facts.other_count; i++) {
        const struct bound_layers *layers = &facts.others[i];
        struct bound_work other = composer_probe(composer, &parallel, layers->kind).work;
        probed.all_s += layers->count * other.all_s;
        probed.chain_s += layers->count * other.chain_s;
    }
    return (struct bounds){
        .graph_s = bound_step_s(request, &facts, mesh, group->micro_batch, tails),
        .saturated_s = room_s(&question, whole, layer_s, count),
        .probe_s = room_s(&question, probed, layer.all_s, count),
        .has_room = bound_has_room(request, &facts, mesh, group, tails, limit_bytes),
    };
}

// No plan that fits is below a bound of its group, and none fits where a bound says that there is
// no room. Returns how many fit.
static int check_tail(const struct space *space, struct composer *composer,
                      const struct space_group *group, const struct space_tail *tail,
                      const struct bounds *bounds)
{
    int64_t limit_bytes = cluster_device_bytes(space->request->cluster);
    int fitting = 0;
    for (int r = 0; r < tail->recompute_count; r++) {
        const struct space_recompute *recompute = &tail->recomputes[r];
        struct parallel parallel =
            space_parallel(space, group, tail, recompute, recompute->layers_low);
        int stage;
        int64_t bytes = composer_memory(composer, &parallel, &stage).reserved_bytes;
        assert_true(composer_floor_bytes(composer, &parallel) <= bytes);
        double step_s = composer_cost(composer, &parallel).step_s * (1 + 1e-12);
        assert_true(bounds->graph_s <= step_s && composer_bound(composer, &parallel) <= step_s);
        if (bytes > limit_bytes) continue;
        fitting++;
        assert_true(bounds->has_room);
        assert_true(bounds->saturated_s <= step_s && bounds->probe_s <= step_s);
    }
    return fitting;
}

// Where states are in a plan that fits device and hosts, the bound says that they may be. Returns
// how many places it leaves out.
static int check_places(const struct space *space, struct composer *composer,
                        const struct space_group *group, const struct space_tail *tail,
                        unsigned tiers, int *fitting)
{
    int64_t limit_bytes = cluster_device_bytes(space->request->cluster);
    int left_out = 0;
    for (int m = 0; m < tail->move_count; m++) {
        unsigned place = 1u << tail->moves[m].offload.optimizer;
        if (!space_has_move(tail, m)) continue;
        left_out += !(tiers & place);
        for (int r = 0; r < tail->recompute_count; r++) {
            const struct space_recompute *recompute = &tail->recomputes[r];
            if (!(recompute->moves >> m & 1)) continue;
            struct parallel parallel =
                space_parallel(space, group, tail, recompute, recompute->layers_high);
            parallel.offload = space_moved(&tail->moves[m], tail->moves[m].layers_low);
            bool fits = composer_meets(composer, &parallel, limit_bytes) &&
                        composer_host_shortfall(composer, &parallel) == 0;
            assert_true(!fits || (tiers & place));
            *fitting += fits && place != 1u << TIER_DEVICE;
        }
    }
    return left_out;
}

// Hosts that have less and less.
static void shrink_hosts(struct arena *arena, struct draw *draw, struct search_request *request)
{
    struct cluster *cluster = ARENA_NEW(arena, struct cluster, 1);
    *cluster = *request->cluster;
    cluster->nodes = ARENA_NEW(arena, struct node_group, cluster->node_group_count);
    for (int i = 0; i < cluster->node_group_count; i++) {
        struct host *host = &cluster->nodes[i].host;
        cluster->nodes[i] = request->cluster->nodes[i];
        host->memory_bytes /= 1 << draw_int(draw, 6, 16);
        host->nvme_bytes /= 1 << draw_int(draw, 6, 18);
    }
    request->cluster = cluster;
    request->pins.search_offload = true;
}

static void states_fit_nowhere_else(void **state)
{
    (void)state;
    struct draw draw = draw_start("places", 29);
    int left_out = 0, fitting = 0;
    for (int i = 0; i < 30 || (i < 300 && (left_out <= 50 || fitting <= 50)); i++) {
        struct arena arena = {0}, scratch = {0};
        struct search_request request = random_search(&arena, &draw);
        shrink_hosts(&arena, &draw, &request);
        struct memo *memo = memo_new(&arena, &scratch, &request);
        struct space_graphs graphs = {memo_graph_of, memo};
        struct space *space = space_make(&arena, &request, &graphs);
        struct composer *composer = composer_new(&arena, &scratch, memo);
        for (int g = 0; g < space->group_count; g += 17) {
            const struct space_group *group = &space->groups[g];
            const struct space_mesh *mesh = &space->meshes[group->mesh];
            const struct space_tails *tails = space_tails(space, &graphs, group);
            if (tails->count == 0) continue;
            const struct graph *graph = memo_graph(memo, group->attention, mesh->degree[AXIS_TP]);
            struct bound_facts facts = bound_facts(graph, request.workload.seq_len);
            unsigned tiers = bound_state_tiers(&request, &facts, mesh, tails);
            struct parallel parallel = space_first(space, group, &tails->tails[0]);
            composer_group(composer, &parallel);
            const struct space_tail *tail = &tails->tails[tails->count - 1];
            left_out += check_places(space, composer, group, tail, tiers, &fitting);
        }
        arena_free(&scratch);
        arena_free(&arena);
    }
    print_message("# %d plans fit, %d places left out\n", fitting, left_out);
    assert_true(left_out > 50 && fitting > 50);
}

struct pressed_counts {
    int fitting, raised, guessed, updates, outdone, early;
};

// With all layers recomputed nothing is faster than what is guessed before they are lowered.
static void check_guesses(struct composer *composer, const struct space_tail *tail,
                          const struct candidate *kept, const struct saturated **saturated,
                          struct pressed_counts *counts)
{
    for (int i = 0; i < tail->recompute_count; i++) {
        struct parallel parallel = kept->parallel;
        parallel.recompute = tail->recomputes[i].recompute;
        parallel.recompute_classes = tail->recomputes[i].classes;
        parallel.recompute_layers = tail->recomputes[i].layers_high;
        if (parallel.recompute == RECOMPUTE_NONE || composer_knows(composer, &parallel)) continue;
        double guessed_s = composer_guessed(composer, &parallel, saturated);
        assert_false(composer_knows(composer, &parallel));
        counts->outdone += guessed_s > kept->cost.step_s;
        assert_true(guessed_s <= composer_cost(composer, &parallel).step_s);
    }
}

// No plan with room for `limit_bytes` that recomputes and moves layers, states where `kept` has
// them, is faster than the bound, nor that than what lowers nothing for it.
static void check_pressed(struct composer *composer, const struct space_tail *tail,
                          const struct candidate *kept, const struct saturated **saturated,
                          int64_t limit_bytes, struct pressed_counts *counts)
{
    int values[2 * SPACE_VALUE_MAX];
    struct composer_ways ways = {values, space_recompute_values(tail, values), tail->move_count > 1,
                                 NULL, 0};
    double least_s = composer_pressed(composer, kept, &ways, limit_bytes);
    // Past what is enough it is any number up to the answer.
    for (ways.enough_s = 0.9 * least_s; ways.enough_s > 0; ways.enough_s = 0) {
        double found_s = composer_pressed(composer, kept, &ways, limit_bytes);
        assert_true(found_s >= ways.enough_s && found_s <= least_s);
        counts->early += found_s < least_s;
    }
    counts->raised += least_s > kept->cost.step_s;
    ways.saturated = saturated;
    double guessed_s = composer_pressed(composer, kept, &ways, limit_bytes);
    counts->guessed += guessed_s > kept->cost.step_s;
    assert_true(guessed_s <= least_s * (1 + 1e-9));
    for (int i = 0; i < 9 * tail->recompute_count * tail->move_count; i++) {
        const struct space_recompute *recompute = &tail->recomputes[i / 9 % tail->recompute_count];
        const struct space_move *move = &tail->moves[i / 9 / tail->recompute_count];
        if (move->offload.optimizer != kept->parallel.offload.optimizer) continue;
        int layers[] = {move->layers_low, (move->layers_low + move->layers_high) / 2,
                        move->layers_high};
        int again[] = {recompute->layers_low, (recompute->layers_low + recompute->layers_high) / 2,
                       recompute->layers_high};
        struct parallel parallel = kept->parallel;
        parallel.offload = space_moved(move, layers[i % 3]);
        parallel.recompute = recompute->recompute;
        parallel.recompute_classes = recompute->classes;
        parallel.recompute_layers = again[i % 9 / 3];
        if (!composer_meets(composer, &parallel, limit_bytes)) continue;
        counts->fitting++;
        assert_true(composer_cost(composer, &parallel).step_s >= least_s);
    }
}

// Devices with room for a share of what is not stored. Updates on hosts are behind all work.
static void press(struct draw *draw, struct composer *composer, const struct space_tail *tail,
                  const struct parallel *first, const struct saturated **saturated,
                  double host_update_s, struct pressed_counts *counts)
{
    for (int m = 0; m < tail->move_count; m++) {
        const struct offload *offload = &tail->moves[m].offload;
        if (offload_moves_activations(offload) || !space_has_move(tail, m)) continue;
        struct candidate kept = {.parallel = *first};
        int stage;
        kept.parallel.offload = *offload;
        kept.parallel.recompute = RECOMPUTE_NONE;
        kept.parallel.recompute_classes = 0;
        kept.parallel.recompute_layers = -1;
        int64_t most = composer_memory(composer, &kept.parallel, &stage).reserved_bytes;
        int64_t least = composer_floor_bytes(composer, &kept.parallel);
        kept.cost = composer_cost(composer, &kept.parallel);
        double update_s = offload->optimizer == TIER_DEVICE ? 0 : host_update_s;
        counts->updates += update_s > 0;
        assert_true((composer_bound(composer, &kept.parallel) + update_s) * (1 - 1e-12) <=
                    kept.cost.step_s);
        check_guesses(composer, tail, &kept, saturated, counts);
        check_pressed(composer, tail, &kept, saturated,
                      least + (most - least) * draw_int(draw, 1, 10) / 10, counts);
    }
}

// A walk over the space that has looked at nothing yet.
struct walked {
    struct arena arena, scratch;
    struct search_request request;
    struct scan_request scan_request;
    struct scan_walk walk;
};

static void walk_start(struct walked *walked, struct search_request asked)
{
    struct arena *arena = &walked->arena;
    walked->request = asked;
    walked->request.pins.search_offload = true;
    struct memo *memo = memo_new(arena, &walked->scratch, &walked->request);
    walked->scan_request = (struct scan_request){
        .search = &walked->request, .graphs = {memo_graph_of, memo}, .memo = memo};
    struct scan_request *request = &walked->scan_request;
    request->space = space_make(arena, &walked->request, &request->graphs);
    struct scan *scan = &walked->walk.scan;
    scan->arena = arena, scan->scratch = &walked->scratch;
    scan->request = request, scan->space = request->space;
    scan->composer = composer_new(arena, &walked->scratch, memo);
    scan->limit_bytes = cluster_device_bytes(walked->request.cluster);
    walked->walk.groups = ARENA_NEW(arena, struct scan_group, request->space->group_count);
    for (int g = 0; g < request->space->group_count; g++) {
        struct scan_group *group = &walked->walk.groups[g];
        group->group = &request->space->groups[g];
        group->tails = space_tails(request->space, &request->graphs, group->group);
    }
}

static void walk_end(struct walked *walked)
{
    arena_free(&walked->scratch);
    arena_free(&walked->arena);
    test_free(walked);
}

static bool has_enough(const struct pressed_counts *of)
{
    return of->fitting > 500 && of->raised > 50 && of->guessed > 50 && of->updates > 50 &&
           of->outdone > 50 && of->early > 0;
}

static void room_is_made_no_faster_than_bounded(void **state)
{
    (void)state;
    struct draw draw = draw_start("pressed", 31);
    struct pressed_counts counts = {0};
    for (int i = 0; i < 40 || (i < 400 && !has_enough(&counts)); i++) {
        struct walked *walked = test_calloc(1, sizeof *walked);
        walk_start(walked, random_search(&walked->arena, &draw));
        struct scan_walk *walk = &walked->walk;
        struct space *space = walk->scan.space;
        for (int g = 0; g < space->group_count; g += 1 + space->group_count / 12) {
            const struct space_group *group = &space->groups[g];
            const struct space_tails *tails = walk->groups[g].tails;
            for (int t = 0; t < tails->count; t += 1 + tails->count / 4) {
                const struct space_tail *tail = &tails->tails[t];
                struct parallel parallel = space_first(space, group, tail);
                double update_s = bound_host_update_s(memo_context(walked->scan_request.memo),
                                                      &walked->request, scan_facts(walk, group),
                                                      &space->meshes[group->mesh], tail->zero > 0);
                composer_group(walk->scan.composer, &parallel);
                press(&draw, walk->scan.composer, tail, &parallel, scan_saturated(walk, group),
                      update_s, &counts);
            }
        }
        walk_end(walked);
    }
    print_message("# %d plans fit, %d bounds above everything kept, %d as guessed, %d early, %d "
                  "updates on hosts, %d ways guessed above everything kept\n",
                  counts.fitting, counts.raised, counts.guessed, counts.early, counts.updates,
                  counts.outdone);
    assert_true(has_enough(&counts));
}

// Plans of a tail, with any number of layers recomputed and moved, that have room are no faster
// than their group is said to be. Returns how many there are.
static int check_whole(struct scan_walk *walk, const struct scan_group *group,
                       const struct space_tail *tail)
{
    struct composer *composer = walk->scan.composer;
    int fitting = 0;
    for (int i = 0; i < 9 * tail->recompute_count * tail->move_count; i++) {
        const struct space_recompute *recompute = &tail->recomputes[i / 9 % tail->recompute_count];
        int m = i / 9 / tail->recompute_count;
        const struct space_move *move = &tail->moves[m];
        if (!(recompute->moves >> m & 1)) continue;
        int moved[] = {move->layers_low, (move->layers_low + move->layers_high) / 2,
                       move->layers_high};
        int again[] = {recompute->layers_low, (recompute->layers_low + recompute->layers_high) / 2,
                       recompute->layers_high};
        struct parallel parallel =
            space_parallel(walk->scan.space, group->group, tail, recompute, again[i % 9 / 3]);
        parallel.offload = space_moved(move, moved[i % 3]);
        if (!composer_meets(composer, &parallel, walk->scan.limit_bytes)) continue;
        fitting++;
        assert_true(group->whole_s <= composer_cost(composer, &parallel).step_s);
    }
    return fitting;
}

// Room for a share of what a plan of the group needs beside what is stored.
static int64_t drawn_limit(struct scan_walk *walk, const struct scan_group *group,
                           struct draw *draw)
{
    const struct space_tail *tail =
        &group->tails->tails[draw_int(draw, 0, group->tails->count - 1)];
    struct parallel parallel = space_first(walk->scan.space, group->group, tail);
    struct composer *composer = walk->scan.composer;
    int stage;
    parallel.offload = space_moved(&tail->moves[draw_int(draw, 0, tail->move_count - 1)], 1);
    parallel.offload.activations = TIER_DEVICE;
    composer_group(composer, &parallel);
    int64_t most = composer_memory(composer, &parallel, &stage).reserved_bytes;
    int64_t least = composer_floor_bytes(composer, &parallel);
    return least + (most - least) * draw_int(draw, 1, 10) / 10;
}

static void no_plan_that_has_room_is_below_its_group_with_room_made(void **state)
{
    (void)state;
    struct draw draw = draw_start("whole", 37);
    int fitting = 0, raised = 0;
    for (int i = 0; i < 40 || (i < 400 && raised <= 20); i++) {
        struct walked *walked = test_calloc(1, sizeof *walked);
        walk_start(walked, random_search(&walked->arena, &draw));
        struct scan_walk *walk = &walked->walk;
        int group_count = walk->scan.space->group_count;
        for (int g = 0; g < group_count; g += 1 + group_count / 16) {
            struct scan_group *group = &walk->groups[g];
            if (group->tails->count == 0) continue;
            walk->scan.limit_bytes = drawn_limit(walk, group, &draw);
            struct probe found = scan_probe(walk, group, group->group->micro_batch, 0, 1);
            double kept_s = fmax(scan_saturated_bound(walk, g),
                                 scan_work_bound(walk, group, found.work, found.layer_s));
            scan_raise_saturated(walk, g);
            scan_raise_whole(walk, group, &found);
            raised += group->whole_s > kept_s && !isinf(group->whole_s);
            for (int t = 0; t < group->tails->count; t += 1 + group->tails->count / 4)
                fitting += check_whole(walk, group, &group->tails->tails[t]);
        }
        walk_end(walked);
    }
    print_message("# %d plans fit, %d groups raised\n", fitting, raised);
    assert_true(fitting > 500 && raised > 20);
}

// One GPU whose link is slow, which recomputes nothing and keeps its states.
static struct search_request copying(struct arena *arena, double pcie_bytes_per_s)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, "a100-pcie8", &err);
    assert_true(cluster_take_gpus(cluster, 1, &err));
    cluster->nodes[0].host.pcie_bytes_per_s = pcie_bytes_per_s;
    struct search_request request = {
        .model = model_load(arena, "gpt2-xl", NULL, NULL, &err),
        .cluster = cluster,
        .stack = stack_load(arena, "meshwright", &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = 1024, .global_batch = 16, .precision = PRECISION_BF16},
        .pins = pins_none()};
    assert_string_equal(err.text, "");
    pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 8, 8);
    return request;
}

// Where all layers have to move activations the group takes hardly less than the plan that does:
// what the bound leaves out is the head, whose logits take room.
static void what_all_layers_wait_for_copies_is_in_the_bound(void **state)
{
    (void)state;
    for (int faster = 1; faster <= 16; faster *= 4) {
        struct walked *walked = test_calloc(1, sizeof *walked);
        walk_start(walked, copying(&walked->arena, 2e9 * faster));
        struct scan_walk *walk = &walked->walk;
        struct scan_group *group = walk->groups;
        struct space_tails tails = *group->tails;
        tails.state_tiers = 1u << TIER_DEVICE;
        group->tails = &tails;
        const struct space_move *move = &tails.tails[0].moves[0];
        while (move->offload.activations != TIER_HOST || move->offload.optimizer != TIER_DEVICE)
            move++;
        struct parallel parallel = space_first(walk->scan.space, group->group, &tails.tails[0]);
        parallel.offload = space_moved(move, move->layers_high);
        struct composer *composer = walk->scan.composer;
        struct probe found = scan_probe(walk, group, 8, 0, 1);
        walk->scan.limit_bytes = composer_memory(composer, &parallel, &(int){0}).reserved_bytes;
        double step_s = composer_cost(composer, &parallel).step_s;
        scan_raise_whole(walk, group, &found);
        assert_true(group->whole_s <= step_s && group->whole_s >= 0.75 * step_s);
        walk_end(walked);
    }
}

static int check_bounds(struct arena *arena, const struct search_request *request, int step)
{
    struct arena scratch = {0};
    struct memo *memo = memo_new(arena, &scratch, request);
    struct space_graphs graphs = {memo_graph_of, memo};
    struct space *space = space_make(arena, request, &graphs);
    struct composer *composer = composer_new(arena, &scratch, memo);
    int fitting = 0;
    for (int g = 0; g < space->group_count; g += step) {
        const struct space_group *group = &space->groups[g];
        const struct space_tails *tails = space_tails(space, &graphs, group);
        if (tails->count == 0) continue;
        struct bounds bounds = bounds_of(memo, composer, space, group, tails);
        for (int i = 0; i < tails->count; i++)
            fitting += check_tail(space, composer, group, &tails->tails[i], &bounds);
    }
    arena_free(&scratch);
    return fitting;
}

static void bounds_of_the_graph_are_below_every_plan(void **state)
{
    (void)state;
    struct draw draw = draw_start("bounds", 17);
    int fitting = 0;
    for (int i = 0; i < 40 || (i < 400 && fitting <= 1000); i++) {
        struct arena arena = {0};
        struct search_request request = random_search(&arena, &draw);
        request.workload.unclipped = i % 4 == 3;
        fitting += check_bounds(&arena, &request, 23);
        arena_free(&arena);
    }
    assert_true(fitting > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_fit_nowhere_else),
        cmocka_unit_test(room_is_made_no_faster_than_bounded),
        cmocka_unit_test(no_plan_that_has_room_is_below_its_group_with_room_made),
        cmocka_unit_test(what_all_layers_wait_for_copies_is_in_the_bound),
        cmocka_unit_test(bounds_of_the_graph_are_below_every_plan),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
