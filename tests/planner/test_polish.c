#include "planner/polish.h"
#include "tests/support/pair_search.h"
#include "tests/support/test.h"

#include "planner/question.h"
#include "simulator/closed_form.h"

#include <math.h>

// A plan that could be better is given, and its neighbours that the move at hand reaches are gone
// through one by one, each priced whole: what comes back is the best of them that has room.

enum { LAYERS = 12, STAGES_MOST = 4 };

struct asked {
    struct arena arena, scratch;
    struct search_request request;
    struct scan_request scan;
    struct cluster *cluster;
};

// gpt2 on so many GPUs in so many stages. Nothing but what a test gives back is searched.
static struct asked *ask(int gpus, int pp)
{
    struct asked *asked = test_calloc(1, sizeof *asked);
    struct err err = {0};
    struct search_request *request = &asked->request;
    *request = pair_search(&asked->arena);
    asked->cluster = cluster_load(&asked->arena, "dgx-a100-80g", &err);
    assert_true(asked->cluster && cluster_take_gpus(asked->cluster, gpus, &err));
    request->cluster = asked->cluster;
    request->pins.supposed = true;  // they describe no run, which would be left alone
    pins_set(&request->pins, CHOICE_PP, pp, pp);
    pins_set(&request->pins, CHOICE_TP, 1, 1);
    pins_set(&request->pins, CHOICE_CP, 1, 1);
    pins_set(&request->pins, CHOICE_VPP, 1, 1);
    pins_set(&request->pins, CHOICE_ZERO, 0, 0);
    pins_set(&request->pins, CHOICE_MICRO_BATCH, 1, 1);
    pins_set(&request->pins, CHOICE_SCHEDULE, SCHEDULE_1F1B, SCHEDULE_1F1B);
    pins_set(&request->pins, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
    pins_set(&request->pins, CHOICE_ATTENTION, ATTENTION_FLASH, ATTENTION_FLASH);
    return asked;
}

static void done(struct asked *asked)
{
    arena_free(&asked->scratch);
    arena_free(&asked->arena);
    test_free(asked);
}

// The space's own plan: its first.
static struct parallel start(struct asked *asked)
{
    struct scan_request *scan = &asked->scan;
    scan->search = &asked->request;
    scan->memo = memo_new(&asked->arena, &asked->scratch, &asked->request);
    scan->graphs = (struct space_graphs){memo_graph_of, scan->memo};
    scan->objective = asked->request.objective;
    scan->space = space_make(&asked->arena, &asked->request, &scan->graphs);
    assert_true(scan->space->group_count > 0);
    const struct space_group *group = &scan->space->groups[0];
    const struct space_tails *tails = space_tails(scan->space, &scan->graphs, group);
    assert_true(tails->count > 0);
    return space_first(scan->space, group, &tails->tails[0]);
}

// A plan priced whole, alone.
static struct candidate priced(struct asked *asked, const struct parallel *parallel)
{
    struct arena arena = {0};
    struct err err = {0};
    struct evaluation evaluation;
    const struct evaluation_request question = search_question(&asked->request, parallel);
    if (!evaluate(&arena, &asked->scratch, &question, &evaluation, &err)) fail_msg("%s", err.text);
    struct candidate plan = {.parallel = *parallel};
    plan.cost = closed_form(evaluation.price);
    plan.closed_form_s = plan.cost.step_s;
    plan.memory = evaluation.stage_memory[evaluation.worst_stage];
    arena_free(&arena);
    return plan;
}

static struct candidate polished(struct asked *asked, const struct parallel *parallel)
{
    struct ranking ranking = ranking_new(&asked->arena, asked->scan.objective, 2);
    struct candidate plan = priced(asked, parallel);
    assert_true(ranking_offer(&ranking, &plan));
    polish(&asked->arena, &asked->scratch, &asked->scan, &ranking);
    assert_int_equal(ranking.count, 1);
    struct candidate found = ranking.items[0], alone = priced(asked, &found.parallel);
    assert_true(fabs(found.closed_form_s / alone.closed_form_s - 1) < 1e-9);
    assert_true(found.memory.reserved_bytes == alone.memory.reserved_bytes);
    return found;
}

// The better of two that has room.
static void take(struct asked *asked, struct candidate *best, const struct parallel *parallel)
{
    struct candidate plan = priced(asked, parallel);
    bool has_room = plan.memory.reserved_bytes <= cluster_device_bytes(asked->request.cluster);
    bool is_less = step_ns(plan.closed_form_s) < step_ns(best->closed_form_s);
    if (has_room && (best->closed_form_s == 0 || is_less)) *best = plan;
}

static void same_time(const struct candidate *found, const struct candidate *best)
{
    assert_true(best->closed_form_s > 0);
    if (step_ns(found->closed_form_s) != step_ns(best->closed_form_s))
        fail_msg("%.9g s, the best neighbour takes %.9g s", found->closed_form_s,
                 best->closed_form_s);
}

// Room for so much of the difference between two plans above the smaller.
static void set_room(struct asked *asked, const struct candidate *most,
                     const struct candidate *least, double ratio)
{
    int64_t more = most->memory.reserved_bytes - least->memory.reserved_bytes;
    assert_true(more > 0);
    struct device *device = ARENA_NEW(&asked->arena, struct device, 1);
    *device = *asked->cluster->nodes[0].device;
    device->memory_bytes = least->memory.reserved_bytes + (int64_t)(ratio * (double)more);
    asked->cluster->nodes[0].device = device;
}

// The best of all splits in two, and the even one where it is that by no name of its own.
static void layers_move_until_no_split_is_faster(void **state)
{
    (void)state;
    for (int first = 1; first < LAYERS; first += 5) {
        struct asked *asked = ask(2, 2);
        struct parallel plan = start(asked), even = plan;
        struct candidate best = {0};
        int layers[] = {first, LAYERS - first}, split[2];
        plan.stage_layers_count = 2;
        take(asked, &best, &even);
        for (int i = 1; i < LAYERS; i++) {
            split[0] = i, split[1] = LAYERS - i;
            plan.stage_layers = split;
            take(asked, &best, &plan);
        }
        plan.stage_layers = layers;
        struct candidate found = polished(asked, &plan);
        same_time(&found, &best);
        assert_int_equal(found.parallel.stage_layers_count, best.parallel.stage_layers_count);
        done(asked);
    }
}

// One from each end.
static void two_plans_that_become_one_are_one(void **state)
{
    (void)state;
    struct asked *asked = ask(2, 2);
    struct parallel plan = start(asked);
    struct ranking ranking = ranking_new(&asked->arena, OBJECTIVE_TIME, 2);
    plan.stage_layers_count = 2;
    for (int i = 0; i < 2; i++) {
        int *layers = ARENA_NEW(&asked->arena, int, 2);
        layers[0] = i ? 11 : 1, layers[1] = LAYERS - layers[0];
        plan.stage_layers = layers;
        struct candidate one = priced(asked, &plan);
        assert_true(ranking_offer(&ranking, &one));
    }
    polish(&asked->arena, &asked->scratch, &asked->scan, &ranking);
    assert_int_equal(ranking.count, 1);
    done(asked);
}

static void pinned_stages_stay(void **state)
{
    static const int NINE[] = {9, 3};
    (void)state;
    struct asked *asked = ask(2, 2);
    asked->request.pins.stage_layers = NINE;
    asked->request.pins.stage_layers_count = 2;
    struct parallel plan = start(asked);
    struct candidate found = polished(asked, &plan);
    assert_int_equal(found.parallel.stage_layers_count, 2);
    assert_memory_equal(found.parallel.stage_layers, NINE, sizeof NINE);
    done(asked);
}

// Pins that describe a run leave it as it is.
static void a_run_that_is_described_stays(void **state)
{
    (void)state;
    struct asked *asked = ask(2, 2);
    struct parallel plan = start(asked);
    int layers[] = {9, 3};
    plan.stage_layers = layers;
    plan.stage_layers_count = 2;
    asked->request.pins.supposed = false;
    pins_set(&asked->request.pins, CHOICE_DP, 1, 1);
    struct candidate found = polished(asked, &plan);
    assert_ptr_equal(found.parallel.stage_layers, layers);
    done(asked);
}

// From all layers recomputed: as few as leave room, or as are pinned.
static void as_few_layers_are_recomputed_as_leave_room(void **state)
{
    static const double ROOMS[] = {2, 0.4, 0.01};
    static const int SIX[] = {6, 6};
    (void)state;
    for (size_t r = 0; r < sizeof ROOMS / sizeof *ROOMS; r++) {
        struct asked *asked = ask(2, 2);
        asked->request.pins.stage_layers = SIX;
        asked->request.pins.stage_layers_count = 2;
        pins_set(&asked->request.pins, CHOICE_RECOMPUTE, RECOMPUTE_FULL, RECOMPUTE_FULL);
        struct parallel plan = start(asked), all;
        plan.recompute = RECOMPUTE_NONE;
        plan.recompute_layers = -1;
        all = plan;
        all.recompute = RECOMPUTE_FULL;
        struct candidate most = priced(asked, &plan), least = priced(asked, &all), best = {0};
        set_room(asked, &most, &least, ROOMS[r]);
        take(asked, &best, &all);
        for (int layers = 1; layers < LAYERS / 2; layers++) {
            struct parallel some = all;
            some.recompute_layers = layers;
            take(asked, &best, &some);
        }
        struct candidate found = polished(asked, &all);
        same_time(&found, &best);
        pins_set(&asked->request.pins, CHOICE_RECOMPUTE_LAYERS, 5, 5);
        all.recompute_layers = 5;
        found = polished(asked, &all);
        assert_int_equal(found.parallel.recompute_layers, 5);
        done(asked);
    }
}

// Of every set of classes in every number of layers, from whole layers.
static void sets_of_classes_are_gone_through(void **state)
{
    static const double ROOMS[] = {0.4, 0.97};
    static const int SIX[] = {6, 6};
    (void)state;
    for (size_t r = 0; r < sizeof ROOMS / sizeof *ROOMS; r++) {
        struct asked *asked = ask(2, 2);
        asked->request.pins.stage_layers = SIX;
        asked->request.pins.stage_layers_count = 2;
        pins_clear(&asked->request.pins, CHOICE_RECOMPUTE);
        struct parallel all = start(asked), none;
        all.recompute = RECOMPUTE_FULL;
        none = all;
        none.recompute = RECOMPUTE_NONE;
        struct candidate most = priced(asked, &none), least = priced(asked, &all), best = {0};
        set_room(asked, &most, &least, ROOMS[r]);
        const struct graph *graph = memo_graph(asked->scan.memo, ATTENTION_FLASH, 1);
        unsigned known = space_classes(&asked->request, graph);
        for (unsigned set = known; set; set = (set - 1) & known)
            for (int layers = 1; layers <= LAYERS / 2; layers++) {
                struct parallel some = all;
                some.recompute = RECOMPUTE_SELECTIVE;
                some.recompute_classes = set == 1u << OP_CLASS_ATTENTION ? 0 : set;
                some.recompute_layers = layers < LAYERS / 2 ? layers : -1;
                take(asked, &best, &some);
            }
        struct candidate found = polished(asked, &all);
        same_time(&found, &best);
        done(asked);
    }
}

// Where memory is asked for, plans that keep everything recompute what leaves least.
static void least_memory_is_found_from_what_keeps_all(void **state)
{
    static const int SIX[] = {6, 6};
    (void)state;
    struct asked *asked = ask(2, 2);
    asked->request.pins.stage_layers = SIX;
    asked->request.pins.stage_layers_count = 2;
    asked->request.objective = OBJECTIVE_MEMORY;
    pins_clear(&asked->request.pins, CHOICE_RECOMPUTE);
    struct parallel none = start(asked);
    none.recompute = RECOMPUTE_NONE;
    struct candidate best = priced(asked, &none);
    const struct graph *graph = memo_graph(asked->scan.memo, ATTENTION_FLASH, 1);
    unsigned known = space_classes(&asked->request, graph);
    for (unsigned set = known; set; set = (set - 1) & known) {
        struct parallel some = none;
        some.recompute = RECOMPUTE_SELECTIVE;
        some.recompute_classes = set == 1u << OP_CLASS_ATTENTION ? 0 : set;
        struct candidate plan = priced(asked, &some);
        if (candidate_compare(OBJECTIVE_MEMORY, &plan, &best) < 0) best = plan;
    }
    struct candidate found = polished(asked, &none);
    assert_true(found.memory.reserved_bytes == best.memory.reserved_bytes);
    assert_true(step_ns(found.closed_form_s) == step_ns(best.closed_form_s));
    done(asked);
}

// Groups of every size that divides the ranks, where a stage of ZeRO has any: of two where there is
// room, else of as many as leave it; never of one, which would shard nothing of what was pinned to
// be sharded. Gradients are added up as the stack does it.
static void shards_lie_in_the_best_groups(void **state)
{
    static const struct {
        int zero, cp;
        double room;
    } CASES[] = {{2, 1, 2}, {3, 1, 2}, {3, 1, 0.2}, {3, 2, 0.6}};
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct asked *asked = ask(8, 1);
        pins_set(&asked->request.pins, CHOICE_ZERO, CASES[i].zero, CASES[i].zero);
        pins_set(&asked->request.pins, CHOICE_CP, CASES[i].cp, CASES[i].cp);
        struct parallel plan = start(asked), grouped;
        struct candidate best = {0};
        plan.zero_group = 0;
        grouped = plan;
        grouped.zero_group = 2;
        struct candidate least = priced(asked, &plan), most = least;
        if (CASES[i].zero == 3) most = priced(asked, &grouped);
        if (CASES[i].zero == 3) set_room(asked, &most, &least, CASES[i].room);
        take(asked, &best, &plan);
        for (int group = 2; group < 8 && CASES[i].zero == 3; group *= 2) {
            grouped.zero_group = group;
            take(asked, &best, &grouped);
        }
        struct candidate found = polished(asked, &plan);
        same_time(&found, &best);
        assert_int_equal(found.parallel.zero_group, best.parallel.zero_group);
        assert_true(found.parallel.accumulates == plan.accumulates);
        // A shorter group of the parameters leaves that of the states alone.
        plan.zero_parameters = 2;
        plan.zero_group = 4;
        if (i == 1) assert_int_equal(polished(asked, &plan).parallel.zero_group, 4);
        done(asked);
    }
}

// Every cap of a schedule that has one.
static void caps_are_gone_through(void **state)
{
    static const int THREE[] = {3, 3, 3, 3};
    (void)state;
    struct asked *asked = ask(4, 4);
    asked->request.pins.stage_layers = THREE;
    asked->request.pins.stage_layers_count = 4;
    pins_set(&asked->request.pins, CHOICE_SCHEDULE, SCHEDULE_ZB_AUTO, SCHEDULE_ZB_AUTO);
    struct parallel plan = start(asked);
    struct candidate best = {0};
    for (int cap = 1; cap < 8; cap++) {
        plan.in_flight = cap;
        take(asked, &best, &plan);
    }
    plan.in_flight = 1;
    struct candidate found = polished(asked, &plan);
    same_time(&found, &best);
    assert_int_equal(found.parallel.in_flight, best.parallel.in_flight);
    done(asked);
}

static bool is_legal(struct asked *asked, const struct parallel *plan)
{
    const struct search_request *request = &asked->request;
    struct err err = {0};
    return stack_can_run(request->stack, plan, NULL, NULL) &&
           program_check(memo_graph(asked->scan.memo, ATTENTION_FLASH, 1), request->cluster,
                         &request->workload, plan, &err);
}

// A plan whose stages have numbers of layers of their own: every schedule, number of chunks and
// stage of ZeRO; the fastest of all, and of these alone the one whose caps are searched.
static void schedules_and_shards_of_uneven_stages_are_asked(void **state)
{
    static const int UNEVEN[] = {5, 7};
    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        struct asked *asked = ask(4, 2);
        struct pins *pins = &asked->request.pins;
        pins->stage_layers = UNEVEN;
        pins->stage_layers_count = 2;
        pins_clear(pins, CHOICE_VPP);
        pins_clear(pins, CHOICE_ZERO);
        pins_clear(pins, CHOICE_SCHEDULE);
        for (int i = SCHEDULE_GPIPE + 1; i < SCHEDULE_KIND_COUNT && alone; i++) {
            if (i == SCHEDULE_ZB_AUTO) continue;
            pins->forbidden[pins->forbidden_count].key = "schedule";
            pins->forbidden[pins->forbidden_count++].value = i;
        }
        struct parallel plan = start(asked);
        struct candidate best = {0};
        int legal = 0;
        plan.schedule = SCHEDULE_GPIPE;
        plan.vpp = 1;
        plan.zero = plan.in_flight = 0;
        for (int i = 0; i < SCHEDULE_KIND_COUNT * 7 * 2 * 3; i++) {
            struct parallel other = plan;
            other.schedule = (enum schedule_kind)(i / 42);
            other.vpp = 1 + i % 7;
            other.zero = i / 7 % 2;
            other.in_flight = other.schedule == SCHEDULE_ZB_AUTO ? 1 + i / 14 % 3 : 0;
            if (other.schedule != SCHEDULE_ZB_AUTO && i / 14 % 3 > 0) continue;
            if (!pins_allow(pins, CHOICE_SCHEDULE, other.schedule) || !is_legal(asked, &other))
                continue;
            take(asked, &best, &other);
            legal++;
        }
        assert_true(legal > (alone ? 4 : 10));
        struct candidate found = polished(asked, &plan);
        same_time(&found, &best);
        done(asked);
    }
}

// Stages within nodes and replicas between them, or the other way round.
static void ranks_are_laid_out_in_every_order(void **state)
{
    (void)state;
    struct asked *asked = ask(8, 4);
    struct err err = {0};
    static const int THREE[] = {3, 3, 3, 3};
    asked->request.pins.stage_layers = THREE;
    asked->request.pins.stage_layers_count = 4;
    asked->request.cluster = cluster_load(&asked->arena, "dgx-a100-80g-x2", &err);
    assert_string_equal(err.text, "");
    struct parallel near = start(asked), far;
    parallel_default_order(&near);
    far = near;
    for (int i = 0; i < near.order_count; i++) {
        if (near.order[i] == AXIS_DP) far.order[i] = AXIS_PP;
        if (near.order[i] == AXIS_PP) far.order[i] = AXIS_DP;
    }
    struct candidate one = priced(asked, &near), other = priced(asked, &far), best = {0};
    take(asked, &best, &near);
    take(asked, &best, &far);
    assert_true(step_ns(one.closed_form_s) != step_ns(other.closed_form_s));
    bool is_near = one.closed_form_s < other.closed_form_s;
    struct candidate found = polished(asked, is_near ? &far : &near);
    same_time(&found, &best);
    done(asked);
}

// States that were moved come back where there is room, unless they are pinned.
static void what_was_moved_comes_back(void **state)
{
    (void)state;
    for (int pinned = 0; pinned < 2; pinned++) {
        struct asked *asked = ask(2, 1);
        asked->request.pins.search_offload = true;
        struct parallel kept = start(asked), moved = kept;
        struct offload offload = {.optimizer = TIER_HOST};
        memset(&kept.offload, 0, sizeof kept.offload);
        moved.offload = offload;
        if (pinned)
            pins_set(&asked->request.pins, CHOICE_OFFLOAD, offload_value(&offload),
                     offload_value(&offload));
        struct candidate before = priced(asked, &kept), after = priced(asked, &moved);
        assert_true(before.closed_form_s < after.closed_form_s);
        struct candidate found = polished(asked, &moved);
        same_time(&found, pinned ? &after : &before);
        done(asked);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_move_until_no_split_is_faster),
        cmocka_unit_test(two_plans_that_become_one_are_one),
        cmocka_unit_test(pinned_stages_stay),
        cmocka_unit_test(a_run_that_is_described_stays),
        cmocka_unit_test(as_few_layers_are_recomputed_as_leave_room),
        cmocka_unit_test(sets_of_classes_are_gone_through),
        cmocka_unit_test(least_memory_is_found_from_what_keeps_all),
        cmocka_unit_test(shards_lie_in_the_best_groups),
        cmocka_unit_test(caps_are_gone_through),
        cmocka_unit_test(schedules_and_shards_of_uneven_stages_are_asked),
        cmocka_unit_test(ranks_are_laid_out_in_every_order),
        cmocka_unit_test(what_was_moved_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
