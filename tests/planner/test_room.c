#include "tests/support/random_search.h"
#include "tests/support/test.h"

#include "planner/compose.h"
#include "planner/scan_walk.h"

#include <math.h>

// What a group is bounded by once its blocks are known: with what making room takes, and what
// stages of a pipeline wait for each other. No oracle but all plans of the group.

struct asked {
    struct arena arena, scratch;
    struct search_request request;
    struct scan_request scan_request;
    struct scan_walk walk;
};

static struct asked *ask(struct draw *draw)
{
    struct asked *asked = test_calloc(1, sizeof *asked);
    struct arena *arena = &asked->arena;
    asked->request = random_search(arena, draw);
    struct memo *memo = memo_new(arena, &asked->scratch, &asked->request);
    struct scan_request *request = &asked->scan_request;
    *request = (struct scan_request){
        .search = &asked->request, .graphs = {memo_graph_of, memo}, .memo = memo, .keep = 1};
    request->space = space_make(arena, &asked->request, &request->graphs);
    struct scan *scan = &asked->walk.scan;
    scan->arena = arena, scan->scratch = &asked->scratch;
    scan->request = request, scan->space = request->space;
    scan->composer = composer_new(arena, &asked->scratch, memo);
    scan->result.ranking = ranking_new(arena, OBJECTIVE_TIME, 1);
    return asked;
}

static void done(struct asked *asked)
{
    arena_free(&asked->scratch);
    arena_free(&asked->arena);
    test_free(asked);
}

// The fastest of all plans of the group that have room, with even or balanced stages.
static double fastest_s(struct scan *scan, const struct scan_group *group, int *fitting)
{
    double least_s = INFINITY;
    for (int t = 0; t < group->tails->count; t++) {
        const struct space_tail *tail = &group->tails->tails[t];
        for (int i = 0; i < 2 * tail->recompute_count; i++) {
            const struct space_recompute *recompute = &tail->recomputes[i / 2];
            for (int layers = recompute->layers_low; layers <= recompute->layers_high; layers++) {
                struct parallel plan =
                    space_parallel(scan->space, group->group, tail, recompute, layers);
                bool has_chunks = i % 2 == 0 || group->balance;
                for (int stage = 0; i % 2 && has_chunks && stage < plan.degree[AXIS_PP]; stage++)
                    has_chunks = group->balance[stage] >= plan.vpp;
                if (!has_chunks) continue;
                if (i % 2) plan.stage_layers = group->balance;
                if (i % 2) plan.stage_layers_count = plan.degree[AXIS_PP];
                if (!composer_meets(scan->composer, &plan, scan->limit_bytes)) continue;
                ++*fitting;
                least_s = fmin(least_s, composer_cost(scan->composer, &plan).step_s);
            }
        }
    }
    return least_s;
}

// Between what the leanest plan of the group needs and what it needs with everything kept.
static int64_t drawn_limit(struct scan *scan, const struct scan_group *group, struct draw *draw)
{
    const struct space_tail *tail =
        &group->tails->tails[draw_int(draw, 0, group->tails->count - 1)];
    struct parallel kept = space_first(scan->space, group->group, tail);
    int stage;
    int64_t most = composer_memory(scan->composer, &kept, &stage).reserved_bytes;
    int64_t least = composer_floor_bytes(scan->composer, &kept);
    return least + (most - least) * draw_int(draw, 1, 10) / 10;
}

struct room_counts {
    int fitting, raised, lowered;
};

static void check_group(struct scan_walk *walk, struct scan_group *group, struct draw *draw,
                        struct room_counts *counts)
{
    struct scan *scan = &walk->scan;
    scan->limit_bytes = INT64_MAX;
    group_enter(scan, group);
    scan->saturated = scan_saturated(walk, group->group);
    scan->probe_kind = scan_facts(walk, group->group)->probe_kind;
    double kept_s = group_bound(scan, group);
    scan->limit_bytes = drawn_limit(scan, group, draw);
    group_enter(scan, group);
    double guessed_s = group_room_bound(scan, group, false);
    double lowered_s = group_room_bound(scan, group, true);
    double least_s = fastest_s(scan, group, &counts->fitting) * (1 + 1e-12);
    assert_true(kept_s <= least_s);
    assert_true(guessed_s <= lowered_s * (1 + 1e-9) && lowered_s <= least_s);
    counts->raised += guessed_s > kept_s * (1 + 1e-6) && !isinf(guessed_s);
    counts->lowered += lowered_s > guessed_s * (1 + 1e-6) && !isinf(lowered_s);
}

static void no_plan_of_a_group_that_has_room_is_below_its_bound(void **state)
{
    (void)state;
    struct draw draw = draw_start("group room", 41);
    struct room_counts counts = {0};
    for (int i = 0; i < 200; i++) {
        struct asked *asked = ask(&draw);
        struct scan_walk *walk = &asked->walk;
        struct space *space = walk->scan.space;
        for (int g = 0; g < space->group_count; g += 1 + space->group_count / 6) {
            struct scan_group group = {.group = &space->groups[g]};
            group.tails = space_tails(space, &asked->scan_request.graphs, group.group);
            if (group.tails->count > 0) check_group(walk, &group, &draw, &counts);
        }
        done(asked);
    }
    print_message("# %d plans fit, %d groups raised, %d more once lowered\n", counts.fitting,
                  counts.raised, counts.lowered);
    assert_true(counts.fitting > 500 && counts.raised > 20 && counts.lowered > 10);
}

// Of stages that all have room and recompute nothing the bound on what has none is no more than
// the busiest of them. Returns whether it is hardly less: some are not asked, nor hosts waited for.
static bool is_near(struct scan *scan, const struct parallel *plan, double busy_s)
{
    int none = recompute_value(RECOMPUTE_NONE, 0);
    const struct composer_ways ways = {&none, 1, false, NULL, 0};
    struct candidate kept = {.parallel = *plan};
    double pressed_s = composer_pressed(scan->composer, &kept, &ways, INT64_MAX / 2);
    assert_true(pressed_s <= busy_s);
    return pressed_s >= 0.95 * (busy_s - scan->request->search->stack->step_overhead_s);
}

// A pipeline's closed form is its busiest stage and what that waits for, but for hops: of even
// stages of one chunk or several the sum is no more than the form and hardly less.
static void the_busiest_stage_waits_for_those_before_it(void **state)
{
    (void)state;
    struct draw draw = draw_start("busiest", 43);
    int asked_count = 0, near_count = 0, kept_count = 0, pressed_count = 0;
    for (int i = 0; i < 200; i++) {
        struct asked *asked = ask(&draw);
        struct scan *scan = &asked->walk.scan;
        for (int g = 0; g < scan->space->group_count; g += 1 + scan->space->group_count / 12) {
            const struct space_group *group = &scan->space->groups[g];
            const struct space_tails *tails =
                space_tails(scan->space, &asked->scan_request.graphs, group);
            for (int t = 0; t < tails->count; t += 3) {
                struct parallel plan = space_first(scan->space, group, &tails->tails[t]);
                if (plan.degree[AXIS_PP] == 1) continue;
                composer_group(scan->composer, &plan);
                double busy_s = composer_busiest(scan->composer, &plan);
                double bound_s = composer_bound(scan->composer, &plan);
                assert_true(busy_s <= composer_cost(scan->composer, &plan).step_s);
                bool keeps_all = plan.recompute == RECOMPUTE_NONE;
                kept_count += keeps_all;
                pressed_count += keeps_all && is_near(scan, &plan, busy_s);
                if (!schedule_row(plan.schedule)->backward_fused) continue;
                assert_true(busy_s <= bound_s + asked->request.stack->step_overhead_s);
                asked_count++;
                near_count += busy_s > 0.97 * bound_s;
            }
        }
        done(asked);
    }
    print_message("# %d pipelines, %d of them within 3 %%; of %d in blocks %d\n", asked_count,
                  near_count, kept_count, pressed_count);
    assert_true(asked_count > 300 && near_count > asked_count / 2);
    assert_true(pressed_count > kept_count / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_plan_of_a_group_that_has_room_is_below_its_bound),
        cmocka_unit_test(the_busiest_stage_waits_for_those_before_it),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
