#include "planner/meshes.h"
#include "tests/support/test.h"

#include "planner/choice.h"
#include "planner/meshes_giving.h"
#include "planner/meshes_prices.h"
#include "planner/question.h"
#include "planner/uneven.h"
#include "topologies/cluster.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Numbers of ranks for each stage, searched: what a stage is priced at is what it is priced at in a
// whole plan, the answer is never worse than without the search nor than a pin of what it found,
// nor is a pin worse than the answer, and pins hold.

static struct search_request request_of(struct arena *arena, const char *model, const char *cluster,
                                        int64_t batch)
{
    struct err err = {0};
    struct search_request request = {.pins = pins_none(), .top = 3, .nothing = SEARCH_FITS_ONLY};
    request.cluster = cluster_load(arena, cluster, &err);
    request.model = model_load(arena, model, NULL, NULL, &err);
    request.stack = stack_load(arena, "meshwright", &err);
    request.fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    request.workload = (struct workload){.seq_len = 4096,
                                         .global_batch = batch,
                                         .precision = PRECISION_BF16,
                                         .optimizer = OPTIMIZER_ADAMW};
    pins_set(&request.pins, CHOICE_CP, 1, 1);
    pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
    return request;
}

static struct search_result search(struct arena *arena, const struct search_request *request,
                                   struct uneven_answer *answer)
{
    struct err err = {0};
    struct search_result result = {0};
    bool done = uneven_search(arena, request, &result, answer, &err);
    assert_string_equal(err.text, "");
    assert_true(done && result.best_count > 0);
    return result;
}

static const struct rank_option *option_at(const struct rank_places *places, int at, int ranks,
                                           int tp)
{
    for (int i = places->first_option[at]; i < places->first_option[at + 1]; i++)
        if (places->options[i].ranks == ranks && places->options[i].tp == tp)
            return &places->options[i];
    fail_msg("no stage of %d ranks and tp %d at %d", ranks, tp, at);
    return NULL;
}

// Five stages on three nodes of alike GPUs: seconds of each are those that the whole plan has for
// it, bytes are within a twenty-fifth.
static void a_stage_is_priced_as_in_a_whole_plan(void **state)
{
    static const int RANKS[] = {8, 2, 2, 4, 8}, TPS[] = {4, 2, 1, 2, 8},
                     LAYERS[] = {9, 2, 3, 7, 11};
    static const int FLYING[] = {5, 4, 3, 2, 1};
    static const struct {
        int zero;
        bool sp;
        enum recompute recompute;
    } WAYS[] = {{0, true, RECOMPUTE_NONE}, {1, false, RECOMPUTE_FULL}, {1, true, RECOMPUTE_NONE}};
    enum { SEQUENCES = 4 };
    for (int w = 0; w < 3; w++) {
        struct search_request request = request_of(*state, "llama-2-7b", "dgx-h100-x3", 64);
        struct err err = {0};
        struct arena scratch = {0};
        struct parallel way = {.micro_batch = 1, .vpp = 1, .recompute_layers = -1};
        for (int i = 0; i < AXIS_COUNT; i++)
            way.degree[i] = 1;
        parallel_default_order(&way);
        way.schedule = SCHEDULE_1F1B;
        way.attention = ATTENTION_FLASH;
        way.zero = WAYS[w].zero;
        way.sp = WAYS[w].sp;
        way.recompute = WAYS[w].recompute;
        struct pins any = pins_none();
        struct mesh_shapes *shapes = mesh_shapes_new(*state, &request, &any, &way);
        const struct rank_places *places = mesh_shapes_places(*state, shapes, SEQUENCES);
        const struct rank_question question = {
            .places = places, .stages = 5, .layers = 32, .micro_batches = 16};
        struct parallel whole = way;
        whole.degree[AXIS_PP] = 5;
        whole.degree[AXIS_TP] = 8;
        whole.micro_batch = SEQUENCES;
        whole.stage_ranks = RANKS;
        whole.stage_tp = TPS;
        whole.stage_layers = LAYERS;
        whole.stage_ranks_count = whole.stage_tp_count = whole.stage_layers_count = 5;
        const struct evaluation_request asked = search_question(&request, &whole);
        struct evaluation evaluation = {0};
        assert_true(evaluate(*state, &scratch, &asked, &evaluation, &err));
        assert_int_equal(mesh_shapes_layers(shapes), 32);
        assert_false(mesh_shapes_are_tied(shapes));
        for (int s = 0, at = 0; s < 5; at += RANKS[s++]) {
            const struct rank_option *option = option_at(places, at, RANKS[s], TPS[s]);
            const struct chunk_price *chunk =
                &evaluation.price->classes[evaluation.price->class_of[s]];
            double sum_s = 0;
            for (int i = 0; i < PHASE_COUNT * PART_COUNT; i++)
                sum_s += (&chunk->phase_s[0][0])[i];
            double option_s = rank_option_s(&question, option, s, LAYERS[s]);
            double bytes = option->base_bytes + (s == 0 ? option->first_bytes : 0) +
                           (s == 4 ? option->last_bytes : 0) +
                           LAYERS[s] * (option->layer_bytes + FLYING[s] * option->flight_bytes);
            double found_bytes = (double)evaluation.stage_memory[s].reserved_bytes;
            // The vocabulary is padded for the most tp of all stages.
            double near = s == 0 || s == 4 ? 1e-4 : 1e-9;
            if (fabs(option_s / sum_s - 1) > near || fabs(bytes / found_bytes - 1) > 0.04)
                fail_msg("way %d, stage %d: %.9g s for %.9g s, %.4g bytes for %.4g", w, s, option_s,
                         sum_s, bytes, found_bytes);
        }
        arena_free(&scratch);
    }
}

// Parts of nodes, whole nodes, and of a node that is not whole what is left of it.
static void stages_have_parts_of_nodes_or_whole_ones(void **state)
{
    struct err err = {0};
    struct search_request request = request_of(*state, "llama-2-7b", "dgx-h100-x3", 64);
    struct cluster *cluster = cluster_load(*state, "dgx-h100-x3", &err);
    assert_true(cluster && cluster_take_gpus(cluster, 22, &err));
    request.cluster = cluster;
    struct parallel way = {.micro_batch = 1, .vpp = 1, .recompute_layers = -1};
    for (int i = 0; i < AXIS_COUNT; i++)
        way.degree[i] = 1;
    parallel_default_order(&way);
    way.schedule = SCHEDULE_1F1B;
    struct pins pins = pins_none();
    pins_set(&pins, CHOICE_TP, 1, 1);
    struct mesh_shapes *shapes = mesh_shapes_new(*state, &request, &pins, &way);
    // A batch that every number of ranks divides.
    const struct rank_places *places = mesh_shapes_places(*state, shapes, 5040 * 11 * 2);
    static const struct {
        int at;
        const char *ranks;
    } WANTED[] = {
        {0, " 1 2 4 6 7 8 16 22"}, {3, " 1 2 3 4 5"}, {7, " 1"}, {16, " 1 2 4 5 6"}, {20, " 1 2"}};
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++) {
        char text[100] = "";
        int end = places->first_option[WANTED[i].at + 1];
        for (int k = places->first_option[WANTED[i].at]; k < end; k++)
            snprintf(text + strlen(text), sizeof text - strlen(text), " %d",
                     places->options[k].ranks);
        assert_string_equal(text, WANTED[i].ranks);
    }
}

// Over both kinds of devices it is as slow as on the slower one and has the room of the smaller
// one, whichever comes first.
static void a_stage_over_two_kinds_is_the_worse_of_both(void **state)
{
    static const int RANKS[] = {12, 4};
    struct search_request request = request_of(*state, "llama-2-7b", "h100-a100-mixed", 48);
    struct parallel way = {.micro_batch = 1, .vpp = 1, .recompute_layers = -1};
    struct pins pins = pins_none();
    for (int i = 0; i < AXIS_COUNT; i++)
        way.degree[i] = 1;
    parallel_default_order(&way);
    way.schedule = SCHEDULE_1F1B;
    pins_set(&pins, CHOICE_TP, 4, 4);
    pins.stage_ranks = RANKS;
    pins.stage_ranks_count = 2;
    double layer_s[2] = {0};
    const struct cluster *mixed = request.cluster;
    for (int swapped = 0; swapped < 2; swapped++) {
        struct cluster *cluster = cluster_copy_nodes(*state, mixed);
        struct device *small = ARENA_NEW(*state, struct device, 1);
        *small = *cluster->nodes[swapped].device;
        small->memory_bytes /= 2;
        cluster->nodes[swapped].device = small;
        request.cluster = cluster;
        struct mesh_shapes *shapes = mesh_shapes_new(*state, &request, &pins, &way);
        const struct rank_places *places = mesh_shapes_places(*state, shapes, 12);
        const struct rank_option *option = option_at(places, 0, 12, 4);
        assert_true(option->room_bytes == (double)small->memory_bytes);
        layer_s[swapped] = option->layer_s;
    }
    assert_true(layer_s[0] == layer_s[1]);
    request.cluster = cluster_load(*state, "dgx-h100-x2", &(struct err){0});
    struct mesh_shapes *shapes = mesh_shapes_new(*state, &request, &pins, &way);
    const struct rank_places *fast = mesh_shapes_places(*state, shapes, 12);
    assert_true(option_at(fast, 0, 12, 4)->layer_s < 0.6 * layer_s[0]);
}

// Eight H100 and eight A100: 4 + 4 of the one and all of the other, with tp where it costs least.
static void unlike_devices_get_stages_of_unlike_numbers(void **state)
{
    struct search_request request = request_of(*state, "llama-2-13b", "h100-a100-mixed", 96);
    struct search_request alike = request, pinned = request;
    struct uneven_answer answer, other;
    request.pins.search_stage_ranks = true;
    struct search_result found = search(*state, &request, &answer);
    struct search_result without = search(*state, &alike, &other);
    const struct parallel *best = &found.best[0].parallel;
    double step_s = found.best[0].cost.step_s;
    assert_true(answer.meshes.is_asked && answer.meshes.has_alike);
    assert_int_equal(found.status, SEARCH_FEASIBLE);
    assert_true(found.bounds_work && found.bound_bytes == 0 && found.cut_count == 0);
    assert_true(best->stage_ranks_count == best->degree[AXIS_PP] && best->stage_tp_count > 1);
    assert_true(parallel_rank_count(best) == 16);
    assert_true(fabs(answer.meshes.alike_s / without.best[0].cost.step_s - 1) < 1e-9);
    assert_true(step_s < 0.97 * without.best[0].cost.step_s);
    assert_true(found.best_count < 2 || step_s <= found.best[1].cost.step_s);
    // A pin of these numbers finds nothing better.
    pinned.pins.stage_ranks = best->stage_ranks;
    pinned.pins.stage_tp = best->stage_tp;
    pinned.pins.stage_ranks_count = pinned.pins.stage_tp_count = best->stage_ranks_count;
    struct search_result same = search(*state, &pinned, &other);
    assert_true(same.best[0].cost.step_s >= step_s * (1 - 1e-9));
}

// A mixture whose experts want all eight ranks of a stage: seeds of as many stages leave them on
// fewer. With and without tp pinned beside the ranks.
static void a_pin_does_not_lose_to_the_search(void **state)
{
    static const int RANKS[] = {8, 8}, TPS[] = {1, 1};
    struct search_request request = request_of(*state, "deepseek-v2-lite", "h100-a100-mixed", 64);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 1, 1);
    pins_set(&request.pins, CHOICE_ZERO, 1, 1);
    pins_set(&request.pins, CHOICE_PP, 2, 2);
    struct search_request pinned = request;
    struct uneven_answer answer;
    request.pins.search_stage_ranks = true;
    struct search_result found = search(*state, &request, &answer);
    const struct candidate *best = &found.best[0];
    // Numbers that come out alike are one mesh. Else the case shows nothing.
    assert_int_equal(best->parallel.stage_ranks_count, 0);
    assert_int_equal(best->parallel.degree[AXIS_PP], 2);
    assert_int_equal(best->parallel.degree[AXIS_EP], 8);
    pinned.pins.stage_ranks = RANKS;
    pinned.pins.stage_ranks_count = 2;
    for (int with_tp = 0; with_tp < 2; with_tp++) {
        pinned.pins.stage_tp = with_tp ? TPS : NULL;
        pinned.pins.stage_tp_count = with_tp ? 2 : 0;
        struct search_result same = search(*state, &pinned, &answer);
        assert_true(same.best[0].cost.step_s <= best->cost.step_s * (1 + 1e-9));
    }
}

// Eight GPUs that one mesh suits.
static void it_is_never_worse_than_one_mesh(void **state)
{
    struct search_request request = request_of(*state, "llama-2-7b", "dgx-h100", 64);
    struct search_request alike = request;
    struct uneven_answer answer;
    request.pins.search_stage_ranks = true;
    struct search_result found = search(*state, &request, &answer);
    struct search_result without = search(*state, &alike, &answer);
    assert_true(found.best[0].cost.step_s <= without.best[0].cost.step_s * (1 + 1e-9));
}

// A machine of its own has no network: its file says none, and a plan is the same whatever it says.
static void a_single_node_needs_no_network(void **state)
{
    struct search_request request = request_of(*state, "llama-2-7b", "dgx-h100", 64);
    struct cluster *cluster = cluster_copy_nodes(*state, request.cluster);
    struct uneven_answer answer;
    request.pins.search_stage_ranks = true;
    pins_set(&request.pins, CHOICE_PP, 3, 3);
    struct search_result found = search(*state, &request, &answer);
    cluster->network = (struct network){.kind = "none", .oversubscription_ratio = 1};
    cluster->nodes[0].nics.count = 0;
    request.cluster = cluster;
    struct search_result alone = search(*state, &request, &answer);
    assert_true(found.best[0].parallel.stage_ranks_count == 3);
    assert_true(alone.best[0].cost.step_s == found.best[0].cost.step_s);
}

// Which plans are changed further hangs on how many stand there: eight, or as many as are wanted,
// each as it is found without the search.
static void as_many_plans_stand_beside_it_as_are_wanted(void **state)
{
    static const struct {
        int top, count;
    } CASES[] = {{1, 8}, {11, 11}};
    for (int i = 0; i < 2; i++) {
        struct search_request request = request_of(*state, "llama-2-7b", "dgx-h100", 64);
        request.top = CASES[i].top;
        struct pins asked = request.pins;
        asked.search_stage_ranks = true;
        struct meshes_answer answer = {0};
        struct giving giving = {.arena = *state,
                                .split = {.arena = *state, .request = &request},
                                .asked = &asked,
                                .ranking = ranking_new(*state, OBJECTIVE_TIME, 20),
                                .answer = &answer};
        struct search_result found = {0};
        struct err err = {0};
        assert_true(giving_seek_alike(&giving, &found, &err));
        assert_int_equal(found.best_count, CASES[i].count);
        assert_int_equal(giving.ranking.count, CASES[i].count);
        for (int k = 0; k < giving.ranking.count; k++)
            assert_true(giving.ranking.items[k].cost.step_s == found.best[k].cost.step_s);
        assert_true(answer.has_alike && answer.alike_s == found.best[0].cost.step_s);
    }
}

// 6, 1 and 8 GPUs that are free: plans that stand beside it do not take the places of those that
// become better ones.
static void free_gpus_are_shared_out(void **state)
{
    struct search_request request =
        request_of(*state, "llama-3-8b", "tests/data/cluster_free.json", 96);
    request.top = 5;
    struct search_request alike = request;
    struct uneven_answer answer;
    request.pins.search_stage_ranks = true;
    struct search_result found = search(*state, &request, &answer);
    struct search_result without = search(*state, &alike, &answer);
    assert_true(found.best[0].parallel.stage_ranks_count > 0);
    assert_true(found.best[0].cost.step_s < without.best[0].cost.step_s);
}

static void pins_hold_of_every_stage(void **state)
{
    static const int TPS[] = {2, 1};
    struct search_request request = request_of(*state, "llama-2-13b", "h100-a100-mixed", 96);
    struct uneven_answer answer;
    request.pins.search_stage_ranks = true;
    request.pins.stage_tp = TPS;
    request.pins.stage_tp_count = 2;
    struct search_result found = search(*state, &request, &answer);
    for (int i = 0; i < found.best_count; i++) {
        const struct parallel *plan = &found.best[i].parallel;
        if (plan->stage_ranks_count == 0) continue;
        assert_int_equal(plan->stage_ranks_count, 2);
        assert_memory_equal(plan->stage_tp, TPS, sizeof TPS);
    }
    request.pins.stage_tp_count = 0;
    pins_set(&request.pins, CHOICE_TP, 2, 2);
    pins_set(&request.pins, CHOICE_PP, 3, 3);
    found = search(*state, &request, &answer);
    int unlike_count = 0;
    for (int i = 0; i < found.best_count; i++) {
        const struct parallel *plan = &found.best[i].parallel;
        unlike_count += plan->stage_ranks_count > 0;
        assert_int_equal(plan->degree[AXIS_PP], 3);
        for (int s = 0; s < 3; s++)
            assert_int_equal(parallel_stage_tp(plan, s), 2);
    }
    assert_true(unlike_count > 0);
}

// Pinned numbers of ranks, and tp of each searched: one stage has tp as the links ask for it.
static void tp_is_searched_beside_pinned_ranks(void **state)
{
    static const int RANKS[] = {4, 4, 8};
    struct search_request request = request_of(*state, "llama-2-13b", "h100-a100-mixed", 96);
    pins_set(&request.pins, CHOICE_ZERO, 1, 1);
    struct search_request same = request;
    struct uneven_answer answer;
    request.pins.stage_ranks = same.pins.stage_ranks = RANKS;
    request.pins.stage_ranks_count = same.pins.stage_ranks_count = 3;
    request.pins.search_stage_tp = true;
    struct search_result found = search(*state, &request, &answer);
    struct search_result without = search(*state, &same, &answer);
    for (int i = 0; i < found.best_count; i++)
        assert_memory_equal(found.best[i].parallel.stage_ranks, RANKS, sizeof RANKS);
    assert_true(found.best[0].cost.step_s <= without.best[0].cost.step_s * (1 + 1e-9));
    assert_true(found.best[0].parallel.stage_tp[2] == 2);
}

// The first and the last stage have one layout of what they share.
static void tied_tables_keep_the_ends_alike(void **state)
{
    struct search_request request = request_of(*state, "gemma-2-9b", "h100-a100-mixed", 96);
    struct uneven_answer answer;
    request.pins.search_stage_ranks = true;
    request.top = 8;
    pins_set(&request.pins, CHOICE_PP, 6, 6);
    struct search_result found = search(*state, &request, &answer);
    int unlike_count = 0;
    for (int i = 0; i < found.best_count; i++) {
        const struct parallel *plan = &found.best[i].parallel;
        if (plan->stage_ranks_count == 0) continue;
        unlike_count++;
        assert_int_equal(plan->stage_ranks[0], plan->stage_ranks[5]);
        assert_int_equal(plan->stage_tp[0], plan->stage_tp[5]);
    }
    assert_true(unlike_count > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_is_priced_as_in_a_whole_plan),
        cmocka_unit_test(stages_have_parts_of_nodes_or_whole_ones),
        cmocka_unit_test(a_stage_over_two_kinds_is_the_worse_of_both),
        cmocka_unit_test(unlike_devices_get_stages_of_unlike_numbers),
        cmocka_unit_test(a_pin_does_not_lose_to_the_search),
        cmocka_unit_test(it_is_never_worse_than_one_mesh),
        cmocka_unit_test(a_single_node_needs_no_network),
        cmocka_unit_test(as_many_plans_stand_beside_it_as_are_wanted),
        cmocka_unit_test(free_gpus_are_shared_out),
        cmocka_unit_test(pins_hold_of_every_stage),
        cmocka_unit_test(tp_is_searched_beside_pinned_ranks),
        cmocka_unit_test(tied_tables_keep_the_ends_alike),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
