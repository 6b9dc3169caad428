#include "memory/placement/placement.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

enum { CHUNKS = 4, MOMENTS = 9, STATES = 81 };
enum { ABSENT, CLEAN, DIRTY };

struct drawn {
    struct placed_chunk chunks[CHUNKS];
    struct placed_access accesses[MOMENTS][CHUNKS];
    struct placed_moment moments[MOMENTS];
    struct placement_problem problem;
};

// The oracle: what each chunk is at each moment, absent, clean or dirty, goes round the circle by
// the cheapest way from every state back to itself.
static const struct placed_access *access_of(const struct placed_moment *moment, int chunk)
{
    for (int i = 0; i < moment->access_count; i++) {
        if (moment->accesses[i].chunk == chunk) return &moment->accesses[i];
    }
    return NULL;
}

static bool is_wanted(const struct placement_problem *problem, int chunk, int after)
{
    for (int k = 0; k < problem->moment_count; k++) {
        const struct placed_moment *moment = &problem->moments[(after + k) % problem->moment_count];
        const struct placed_access *access = access_of(moment, chunk);
        if (access) return access->reads;
    }
    return false;
}

static int state_of(int states, int chunk)
{
    for (; chunk > 0; chunk--)
        states /= 3;
    return states % 3;
}

// One chunk into a moment and out of it: what it costs to be `to` behind it; infinite: it cannot.
static double chunk_cost(const struct placement_problem *problem, int t, int chunk, int from,
                         int to)
{
    const struct placed_moment *moment = &problem->moments[t];
    const struct placed_access *access = access_of(moment, chunk);
    double bytes = (double)problem->chunks[chunk].bytes, cost = 0;
    if (!access) {
        if (to == from) return 0;
        if (to != ABSENT) return INFINITY;
        return from == DIRTY && is_wanted(problem, chunk, t) ? bytes : 0;
    }
    if (moment->on_host) {
        if (from == DIRTY && access->reads) cost += bytes;
        return to == ABSENT ? cost : INFINITY;
    }
    if (from == ABSENT && access->reads) cost += bytes;
    if (from == ABSENT) from = CLEAN;
    return to == (access->writes ? DIRTY : from) ? cost : INFINITY;
}

static bool fits(const struct placement_problem *problem, int t, int states)
{
    int64_t bytes = problem->moments[t].work_bytes;
    for (int c = 0; c < problem->chunk_count; c++)
        bytes += state_of(states, c) == ABSENT ? 0 : problem->chunks[c].bytes;
    return bytes <= problem->device_bytes;
}

static double least_moved(const struct placement_problem *problem)
{
    int count = 1;
    double least = INFINITY;
    for (int c = 0; c < problem->chunk_count; c++)
        count *= 3;
    for (int start = 0; start < count; start++) {
        double cost[STATES], next[STATES];
        for (int s = 0; s < count; s++)
            cost[s] = s == start ? 0 : INFINITY;
        for (int t = 0; t < problem->moment_count; t++) {
            for (int to = 0; to < count; to++) {
                next[to] = INFINITY;
                bool has_room = fits(problem, t, to);
                for (int from = 0; from < count && has_room; from++) {
                    double sum = cost[from];
                    for (int c = 0; c < problem->chunk_count && sum < next[to]; c++)
                        sum += chunk_cost(problem, t, c, state_of(from, c), state_of(to, c));
                    next[to] = fmin(next[to], sum);
                }
            }
            memcpy(cost, next, sizeof cost);
        }
        least = fmin(least, cost[start]);
    }
    return least;
}

static void draw_problem(struct draw *draw, struct drawn *drawn)
{
    struct placement_problem *problem = &drawn->problem;
    *problem = (struct placement_problem){
        .chunks = drawn->chunks,
        .chunk_count = draw_int(draw, 2, CHUNKS),
        .moments = drawn->moments,
        .moment_count = draw_int(draw, 4, MOMENTS),
        .up_bytes_per_s = draw_int(draw, 1, 9),
        .down_bytes_per_s = draw_int(draw, 1, 9),
        .nvme_bytes_per_s = draw_int(draw, 1, 9),
        .start_s = 0.1 * draw_int(draw, 0, 2),
        .piece_bytes = draw_int(draw, 1, 4),
    };
    for (int c = 0; c < problem->chunk_count; c++) {
        drawn->chunks[c] = (struct placed_chunk){.kind = (enum placed_kind)draw_int(draw, 0, 3),
                                                 .bytes = draw_int(draw, 1, 9),
                                                 .home = (enum tier)draw_int(draw, 1, 2)};
    }
    for (int t = 0; t < problem->moment_count; t++) {
        struct placed_moment *moment = &drawn->moments[t];
        *moment = (struct placed_moment){.accesses = drawn->accesses[t],
                                         .work_bytes = draw_int(draw, 0, 2),
                                         .seconds = draw_int(draw, 0, 5),
                                         .on_host = draw_int(draw, 0, 7) == 0};
        if (moment->on_host) moment->work_bytes = 0;
        moment->after_all = moment->on_host && draw_int(draw, 0, 1);
        for (int c = 0; c < problem->chunk_count; c++) {
            if (draw_int(draw, 0, 4) > 1) continue;
            bool reads = draw_int(draw, 0, 3) > 0;
            drawn->accesses[t][moment->access_count++] =
                (struct placed_access){c, reads, !reads || draw_int(draw, 0, 1)};
        }
    }
    problem->device_bytes = placement_least_bytes(problem) + draw_int(draw, 0, 9);
}

static void the_fewest_bytes_equal_those_of_every_way_round(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("placement", 7);
    int moved = 0, saved = 0;
    for (int i = 0; i < 120 || (i < 1200 && saved <= 5); i++) {
        struct drawn drawn;
        draw_problem(&draw, &drawn);
        struct arena_mark mark = arena_mark(arena);
        struct placement_solution solution;
        const struct placement_options options = {.node_cap = 2000};
        assert_true(placement_solve(arena, &drawn.problem, &options, &solution));
        double least = least_moved(&drawn.problem);
        const struct placed_result *planned = &solution.policies[PLACEMENT_PLANNED];
        assert_true((double)(planned->up_bytes + planned->down_bytes) == least);
        assert_true(solution.bound_bytes <= least);
        for (int p = 0; p < PLACEMENT_POLICY_COUNT; p++) {
            const struct placed_result *at = &solution.policies[p];
            assert_true((double)(at->up_bytes + at->down_bytes) >= least);
            assert_true(at->peak_bytes <= drawn.problem.device_bytes);
            assert_true(at->step_s >= solution.bound_s * (1 - 1e-9));
            assert_true(at->step_s >= at->compute_s * (1 - 1e-9));
            assert_true(at->step_s >= at->link_s * (1 - 1e-9));
        }
        const struct placed_result *lru = &solution.policies[PLACEMENT_LRU];
        moved += least > 0;
        saved += (double)(lru->up_bytes + lru->down_bytes) > least;
        arena_reset(arena, mark);
    }
    printf("# %d move, of %d LRU moves more\n", moved, saved);
    assert_true(moved > 40 && saved > 5);
}

static void room_for_fetching_ahead_only_takes_room(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("placement ahead", 8);
    for (int i = 0; i < 120; i++) {
        struct drawn drawn;
        draw_problem(&draw, &drawn);
        struct arena_mark mark = arena_mark(arena);
        struct placement_solution near, far;
        const struct placement_options here = {.node_cap = 500};
        const struct placement_options there = {.ahead_most = 2, .node_cap = 500};
        assert_true(placement_solve(arena, &drawn.problem, &here, &near));
        assert_true(placement_solve(arena, &drawn.problem, &there, &far));
        const struct placed_result *a = &near.policies[PLACEMENT_PLANNED];
        const struct placed_result *b = &far.policies[PLACEMENT_PLANNED];
        assert_true(b->step_s <= a->step_s * (1 + 1e-3));
        assert_true(near.is_optimal);
        assert_true(b->up_bytes + b->down_bytes >= a->up_bytes + a->down_bytes);
        assert_true(b->peak_bytes <= drawn.problem.device_bytes);
        arena_reset(arena, mark);
    }
}

// Two layers of 4 bytes read forward and backward, a device of 6 that works in 1: of 16 bytes read
// a step layer 1 stays at the turn, and the other way round layer 0 at the end. By hand: with
// either kept all the time 2 fetches are left, no fewer: 8 bytes.
static const struct placed_access LAYERS[2] = {{0, true, false}, {1, true, false}};
static const struct placed_moment THERE_AND_BACK[4] = {
    {&LAYERS[0], 1, 1, 1.0, false, false},
    {&LAYERS[1], 1, 1, 1.0, false, false},
    {&LAYERS[1], 1, 1, 2.0, false, false},
    {&LAYERS[0], 1, 1, 2.0, false, false},
};
static const struct placed_chunk TWO[2] = {{PLACED_PARAMETERS, 4, TIER_HOST},
                                           {PLACED_PARAMETERS, 4, TIER_HOST}};
static struct placement_problem there_and_back(int64_t device_bytes)
{
    return (struct placement_problem){
        .chunks = TWO,
        .chunk_count = 2,
        .moments = THERE_AND_BACK,
        .moment_count = 4,
        .device_bytes = device_bytes,
        .up_bytes_per_s = 4,
        .down_bytes_per_s = 4,
    };
}

static void two_layers_in_room_for_one_by_hand(void **state)
{
    struct placement_solution solution;
    const struct placement_options options = {.ahead_most = 2};
    struct placement_problem problem = there_and_back(6);
    assert_true(placement_solve(*state, &problem, &options, &solution));
    const struct placed_result *planned = &solution.policies[PLACEMENT_PLANNED];
    assert_int_equal(planned->up_bytes, 8);
    assert_int_equal(planned->down_bytes, 0);
    // Cut, a quarter of either fits beside the other and saves its fetch.
    assert_true(fabs(solution.bound_bytes - 6) < 1e-6 && solution.is_optimal);
    // Compute 6 s; each of the two fetches, 1 s, waits for the room of the other layer.
    assert_true(fabs(planned->compute_s - 6) < 1e-9 && fabs(planned->step_s - 8) < 1e-9);
    assert_true(fabs(solution.bound_s - 6) < 1e-9);
    // Static: no chunk may stay for good, since the other needs its room: each is fetched for each
    // access.
    const struct placed_result *fixed = &solution.policies[PLACEMENT_STATIC];
    assert_int_equal(fixed->up_bytes, 16);
    assert_true(fabs(fixed->step_s - 10) < 1e-9);
    // Room for both: nothing moves. For less than one: there is no answer.
    problem = there_and_back(9);
    assert_true(placement_solve(*state, &problem, &options, &solution));
    for (int p = 0; p < PLACEMENT_POLICY_COUNT; p++)
        assert_int_equal(solution.policies[p].up_bytes, 0);
    problem = there_and_back(4);
    assert_false(placement_solve(*state, &problem, &options, &solution));
}

// A layer whose gradient the host reads and whose parameters it writes: down and up once a step,
// whatever the room; on NVMe the host also reads and writes the states there.
static void what_the_host_updates_goes_down_and_comes_up(void **state)
{
    static const struct placed_chunk chunks[] = {{PLACED_PARAMETERS, 2, TIER_HOST},
                                                 {PLACED_GRADIENTS, 4, TIER_HOST},
                                                 {PLACED_OPTIMIZER, 12, TIER_NVME}};
    static const struct placed_access forward[] = {{0, true, false}};
    static const struct placed_access backward[] = {{0, true, false}, {1, false, true}};
    static const struct placed_access update[] = {
        {0, false, true}, {1, true, false}, {2, true, true}};
    static const struct placed_moment moments[] = {{forward, 1, 0, 1.0, false, false},
                                                   {backward, 2, 0, 2.0, false, false},
                                                   {update, 3, 0, 3.0, true, false}};
    const struct placement_problem problem = {
        .chunks = chunks,
        .chunk_count = 3,
        .moments = moments,
        .moment_count = 3,
        .device_bytes = 100,
        .up_bytes_per_s = 2,
        .down_bytes_per_s = 2,
        .nvme_bytes_per_s = 24,
        .start_s = 0.5,
        .piece_bytes = 2,
    };
    struct placement_solution solution;
    const struct placement_options options = {.ahead_most = 1};
    assert_true(placement_solve(*state, &problem, &options, &solution));
    for (int p = 0; p < PLACEMENT_POLICY_COUNT; p++) {
        const struct placed_result *at = &solution.policies[p];
        assert_int_equal(at->up_bytes, 2);
        assert_int_equal(at->down_bytes, 4);
        assert_int_equal(at->nvme_bytes, 24);
        // Up 1 + 0.5, forward 1, backward 2, down 2 + 2 * 0.5, update 3, in turn: 10.5.
        assert_true(fabs(at->step_s - 10.5) < 1e-9);
    }
    assert_true(fabs(solution.bound_bytes - 6) < 1e-6);
}

// Three chunks in turn in room for two: what was used longest ago is what comes next, so that all
// three are fetched; with one kept for good it is two.
static void a_scan_is_the_worst_for_least_recently_used(void **state)
{
    static const struct placed_chunk chunks[] = {{PLACED_PARAMETERS, 1, TIER_HOST},
                                                 {PLACED_PARAMETERS, 1, TIER_HOST},
                                                 {PLACED_PARAMETERS, 1, TIER_HOST}};
    static const struct placed_access accesses[] = {
        {0, true, false}, {1, true, false}, {2, true, false}};
    static const struct placed_moment moments[] = {{&accesses[0], 1, 0, 1, false, false},
                                                   {&accesses[1], 1, 0, 1, false, false},
                                                   {&accesses[2], 1, 0, 1, false, false}};
    const struct placement_problem problem = {
        .chunks = chunks,
        .chunk_count = 3,
        .moments = moments,
        .moment_count = 3,
        .device_bytes = 2,
        .up_bytes_per_s = 1,
        .down_bytes_per_s = 1,
    };
    struct placement_solution solution;
    const struct placement_options options = {.ahead_most = 0};
    assert_true(placement_solve(*state, &problem, &options, &solution));
    assert_int_equal(solution.policies[PLACEMENT_LRU].up_bytes, 3);
    assert_int_equal(solution.policies[PLACEMENT_STATIC].up_bytes, 2);
    assert_int_equal(solution.policies[PLACEMENT_PLANNED].up_bytes, 2);
    // Fetched on demand nothing hides.
    assert_true(fabs(solution.policies[PLACEMENT_LRU].step_s - 6) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fewest_bytes_equal_those_of_every_way_round),
        cmocka_unit_test(room_for_fetching_ahead_only_takes_room),
        cmocka_unit_test(two_layers_in_room_for_one_by_hand),
        cmocka_unit_test(a_scan_is_the_worst_for_least_recently_used),
        cmocka_unit_test(what_the_host_updates_goes_down_and_comes_up),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
