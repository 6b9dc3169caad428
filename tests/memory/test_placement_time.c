#include "memory/placement/placement_plan.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

// What a step of a placement takes, and what no order of its copies goes below.

// A model of layers whose parameters, gradients and states lie on NVMe or on the host: forward and
// backward through all of them for each micro-batch, and updates.
enum { LAYERS_MOST = 12, PASSES_MOST = 3, LONG = LAYERS_MOST * (2 * PASSES_MOST + 1) };
struct long_one {
    struct placed_chunk chunks[3 * LAYERS_MOST];
    struct placed_access accesses[LONG][3];
    struct placed_moment moments[LONG];
    struct placement_problem problem;
};

static void add_long(struct long_one *of, double seconds, int count,
                     const struct placed_access *accesses)
{
    int t = of->problem.moment_count++;
    memcpy(of->accesses[t], accesses, (size_t)count * sizeof *accesses);
    of->moments[t] = (struct placed_moment){
        .accesses = of->accesses[t], .access_count = count, .work_bytes = 3, .seconds = seconds};
}

static void draw_long(struct draw *draw, struct long_one *of)
{
    int layers = draw_int(draw, 3, LAYERS_MOST), passes = draw_int(draw, 1, PASSES_MOST);
    double forward_s = draw_int(draw, 0, 6), backward_s = draw_int(draw, 0, 9);
    bool is_behind = draw_int(draw, 0, 1);
    of->problem = (struct placement_problem){
        .chunks = of->chunks,
        .chunk_count = 3 * layers,
        .moments = of->moments,
        .up_bytes_per_s = draw_int(draw, 1, 9),
        .down_bytes_per_s = draw_int(draw, 1, 9),
        .nvme_bytes_per_s = draw_int(draw, 1, 9),
        .nvme_duplex_ratio = draw_int(draw, 0, 4) / 2.0,
    };
    of->problem.nvme_duplex_ratio = fmin(fmax(of->problem.nvme_duplex_ratio, 1), 2);
    for (int c = 0; c < 3 * layers; c++)
        of->chunks[c] = (struct placed_chunk){.kind = (enum placed_kind)(c % 3),
                                              .bytes = draw_int(draw, 1, 4),
                                              .home = (enum tier)draw_int(draw, 1, 2)};
    for (int i = 0; i < 2 * passes * layers; i++) {
        int pass = i / layers, layer = pass % 2 ? layers - 1 - i % layers : i % layers;
        const struct placed_access of_layer[] = {{3 * layer, true, false},
                                                 {3 * layer + 1, pass > 1, true}};
        add_long(of, pass % 2 ? backward_s : forward_s, 1 + pass % 2, of_layer);
    }
    for (int layer = layers - 1; layer >= 0; layer--) {
        const struct placed_access of_layer[] = {
            {3 * layer, false, true}, {3 * layer + 1, true, false}, {3 * layer + 2, true, true}};
        add_long(of, draw_int(draw, 0, 3), 3, of_layer);
        struct placed_moment *update = &of->moments[of->problem.moment_count - 1];
        update->on_host = true;
        update->after_all = is_behind;
        update->work_bytes = 0;
    }
    of->problem.device_bytes = placement_least_bytes(&of->problem) + draw_int(draw, 0, 9);
}

// Lanes alone, whatever waits for what.
static double lanes_s(const struct placement_problem *problem, const struct placed_result *at)
{
    double host_s = 0;
    for (int t = 0; t < problem->moment_count; t++)
        host_s += problem->moments[t].on_host ? problem->moments[t].seconds : 0;
    double s = fmax(at->compute_s, (double)at->up_bytes / problem->up_bytes_per_s);
    s = fmax(s, (double)at->down_bytes / problem->down_bytes_per_s);
    double drive_bytes_per_s = problem->nvme_bytes_per_s * problem->nvme_duplex_ratio;
    return fmax(fmax(s, host_s), (double)at->nvme_bytes / drive_bytes_per_s);
}

// Steps are no shorter than what is said that no order goes below, which is no less than any lane;
// often it is more, and often the step is near it.
static void no_order_is_faster_than_its_windows_and_what_follows_them(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("placement long", 11);
    int more = 0, near = 0, all = 0, faster = 0;
    for (int i = 0; i < 100; i++) {
        struct long_one of;
        draw_long(&draw, &of);
        struct arena_mark mark = arena_mark(arena);
        struct placement_solution solution;
        const struct placement_options options = {.ahead_most = i % 3, .column_most = 1};
        assert_true(placement_solve(arena, &of.problem, &options, &solution));
        for (int p = 0; p < PLACEMENT_POLICY_COUNT; p++) {
            const struct placed_result *at = &solution.policies[p];
            double alone_s = lanes_s(&of.problem, at);
            assert_true(at->step_s >= at->link_s * (1 - 1e-9));
            assert_true(at->link_s >= alone_s * (1 - 1e-9));
            more += at->link_s > 1.02 * alone_s;
            near += at->step_s <= 1.15 * at->link_s;
            all++;
        }
        // What is static is one of the placements that are tried.
        const struct placed_result *fixed = &solution.policies[PLACEMENT_STATIC];
        const struct placed_result *planned = &solution.policies[PLACEMENT_PLANNED];
        assert_true(i % 3 == 0 || planned->step_s <= fixed->step_s * (1 + 1e-3));
        faster += fixed->step_s < planned->step_s;
        arena_reset(arena, mark);
    }
    printf(
        "# %d: %d above every lane, %d steps near it, %d static ones faster than those of fewest "
        "bytes\n",
        all, more, near, faster);
    assert_true(4 * more > all && 3 * near > all);
}

static const struct placed_result *solved(struct arena *arena,
                                          const struct placement_problem *problem)
{
    struct placement_solution *solution = ARENA_NEW(arena, struct placement_solution, 1);
    const struct placement_options options = {.ahead_most = 0};
    assert_true(placement_solve(arena, problem, &options, solution));
    return &solution->policies[PLACEMENT_PLANNED];
}

// Layer 1 is fetched from NVMe, 1 s, and written there by the update of layer 0's gradient, which
// is written there and read again: 4 s of NVMe beside 4 s of compute. The fetch is there before the
// gradient has been made, and does not wait for its writing.
static void a_drive_does_what_is_ready_while_it_is_idle(void **state)
{
    static const struct placed_chunk chunks[] = {{PLACED_PARAMETERS, 4, TIER_NVME},
                                                 {PLACED_GRADIENTS, 4, TIER_NVME}};
    static const struct placed_access gradient[] = {{1, false, true}}, layer[] = {{0, true, false}};
    static const struct placed_access update[] = {{0, false, true}, {1, true, false}};
    static const struct placed_moment moments[] = {{gradient, 1, 0, 2.0, false, false},
                                                   {layer, 1, 0, 2.0, false, false},
                                                   {update, 2, 0, 0.0, true, false}};
    const struct placement_problem problem = {
        .chunks = chunks,
        .chunk_count = 2,
        .moments = moments,
        .moment_count = 3,
        .device_bytes = 100,
        .up_bytes_per_s = 400,
        .down_bytes_per_s = 400,
        .nvme_bytes_per_s = 4,
    };
    const struct placed_result *planned = solved(*state, &problem);
    assert_int_equal(planned->nvme_bytes, 16);
    assert_true(fabs(planned->step_s - 4) < 1e-9 && fabs(planned->link_s - 4) < 1e-9);
}

// A gradient is on its drive 1 s behind the 2 s that it is made in, read there in one more, and
// then the next step's layer comes up in 1 s.
static void what_is_read_has_been_written(void **state)
{
    static const struct placed_chunk chunks[] = {{PLACED_PARAMETERS, 4, TIER_HOST},
                                                 {PLACED_GRADIENTS, 4, TIER_NVME}};
    static const struct placed_access work[] = {{0, true, false}, {1, false, true}};
    static const struct placed_access update[] = {{0, false, true}, {1, true, false}};
    static const struct placed_moment moments[] = {{work, 2, 0, 2.0, false, false},
                                                   {update, 2, 0, 0.0, true, true}};
    const struct placement_problem problem = {
        .chunks = chunks,
        .chunk_count = 2,
        .moments = moments,
        .moment_count = 2,
        .device_bytes = 10,
        .up_bytes_per_s = 4,
        .down_bytes_per_s = 4,
        .nvme_bytes_per_s = 4,
    };
    assert_true(fabs(solved(*state, &problem)->step_s - 5) < 1e-9);
}

// A drive that writes a gradient behind 10 s of work, reads it for an update, and has what that
// writes there before the work of the next step ends: both layers come before that, one behind the
// other, so that a step is its compute, 11 s.
static void what_a_drive_leaves_idle_is_used_twice(void **state)
{
    static const struct placed_chunk chunks[] = {{PLACED_GRADIENTS, 4, TIER_NVME},
                                                 {PLACED_PARAMETERS, 4, TIER_NVME},
                                                 {PLACED_PARAMETERS, 4, TIER_NVME}};
    static const struct placed_access gradient[] = {{0, false, true}};
    static const struct placed_access layers[] = {{1, true, false}, {2, true, false}};
    static const struct placed_access update[] = {
        {0, true, false}, {1, false, true}, {2, false, true}};
    static const struct placed_moment moments[] = {{gradient, 1, 0, 10.0, false, false},
                                                   {&layers[0], 1, 0, 0.5, false, false},
                                                   {&layers[1], 1, 0, 0.5, false, false},
                                                   {update, 3, 0, 0.0, true, false}};
    const struct placement_problem problem = {
        .chunks = chunks,
        .chunk_count = 3,
        .moments = moments,
        .moment_count = 4,
        .device_bytes = 100,
        .up_bytes_per_s = 400,
        .down_bytes_per_s = 400,
        .nvme_bytes_per_s = 4,
    };
    const struct placed_result *planned = solved(*state, &problem);
    assert_int_equal(planned->nvme_bytes, 24);
    assert_true(fabs(planned->step_s - 11) < 1e-9 && fabs(planned->link_s - 11) < 1e-9);
}

// Two updates that each read 8 bytes of a drive, work 0.5 s and write 8. In turn 32 bytes take 8 s;
// where both ways together get half as much again as one alone, 5.33 s; where each gets as much as
// alone, 16 bytes each way take 4 s, but what was written is read again: 2 s, 0.5 s and 2 s.
static void reads_and_writes_pass_at_once_where_the_drive_does_both(void **state)
{
    static const struct placed_chunk chunks[] = {{PLACED_PARAMETERS, 1, TIER_HOST},
                                                 {PLACED_OPTIMIZER, 8, TIER_NVME},
                                                 {PLACED_OPTIMIZER, 8, TIER_NVME}};
    static const struct placed_access work[] = {{0, true, false}};
    static const struct placed_access updates[] = {{1, true, true}, {2, true, true}};
    static const struct placed_moment moments[] = {{work, 1, 0, 0.0, false, false},
                                                   {&updates[0], 1, 0, 0.5, true, false},
                                                   {&updates[1], 1, 0, 0.5, true, false}};
    struct placement_problem problem = {
        .chunks = chunks,
        .chunk_count = 3,
        .moments = moments,
        .moment_count = 3,
        .device_bytes = 10,
        .up_bytes_per_s = 1,
        .down_bytes_per_s = 1,
        .nvme_bytes_per_s = 4,
    };
    static const struct {
        double ratio, busiest_s, step_s;
    } CASES[] = {{0, 8, 8}, {1, 8, 8}, {1.5, 16.0 / 3, 16.0 / 3}, {2, 4, 4.5}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        problem.nvme_duplex_ratio = CASES[i].ratio;
        const struct placed_result *planned = solved(*state, &problem);
        assert_int_equal(planned->nvme_bytes, 32);
        assert_true(fabs(planned->link_s - CASES[i].busiest_s) < 1e-9);
        assert_true(fabs(planned->step_s - CASES[i].step_s) < 1e-9);
    }
}

// Three updates behind 10 s of work, at once but for what they write to NVMe, 2 s each: the third,
// which the next step waits for, has room when the first is written. One more in front of it, of
// what is at home in the host's memory, takes none of that room.
static void hosts_hold_what_two_updates_write(void **state)
{
    static const struct placed_chunk chunks[] = {{PLACED_PARAMETERS, 1, TIER_HOST},
                                                 {PLACED_OPTIMIZER, 8, TIER_NVME},
                                                 {PLACED_OPTIMIZER, 8, TIER_NVME},
                                                 {PLACED_OPTIMIZER, 8, TIER_NVME},
                                                 {PLACED_OPTIMIZER, 8, TIER_HOST}};
    static const struct placed_access work[] = {{0, true, false}};
    static const struct placed_access first[] = {{1, false, true}}, second[] = {{2, false, true}};
    static const struct placed_access third[] = {{3, false, true}, {0, false, true}};
    static const struct placed_access at_home[] = {{4, false, true}};
    for (int more = 0; more < 2; more++) {
        struct placed_moment moments[5] = {{work, 1, 0, 10.0, false, false},
                                           {first, 1, 0, 0.0, true, true},
                                           {second, 1, 0, 0.0, true, true},
                                           {at_home, 1, 0, 0.0, true, true}};
        moments[3 + more] = (struct placed_moment){third, 2, 0, 0.0, true, true};
        const struct placement_problem problem = {
            .chunks = chunks,
            .chunk_count = 4 + more,
            .moments = moments,
            .moment_count = 4 + more,
            .device_bytes = 10,
            .up_bytes_per_s = 1,
            .down_bytes_per_s = 1,
            .nvme_bytes_per_s = 4,
        };
        const struct placed_result *planned = solved(*state, &problem);
        // 2 s until the first is written, and 1 s up.
        assert_true(fabs(planned->step_s - 13) < 1e-9 && fabs(planned->link_s - 12) < 1e-9);
    }
}

// The host has room for 20 of 32 bytes of states in chunks of 8, 4, 8, 4 and 8: 5 bytes of each 8.
// Of the first nothing fits into its 5; of the second 4 into 7.5; of the third 12 into 12.5; of the
// fourth 16 into 15 does not, of the fifth 20 into 20 does. Parameters come first: 10 of 30.
static void what_has_no_room_on_the_host_is_spread_over_the_drive(void **state)
{
    struct placed_chunk chunks[] = {
        {PLACED_OPTIMIZER, 8, TIER_DEVICE},   {PLACED_OPTIMIZER, 4, TIER_DEVICE},
        {PLACED_PARAMETERS, 10, TIER_DEVICE}, {PLACED_OPTIMIZER, 8, TIER_DEVICE},
        {PLACED_OPTIMIZER, 4, TIER_DEVICE},   {PLACED_OPTIMIZER, 8, TIER_DEVICE}};
    static const enum tier HOMES[] = {TIER_NVME, TIER_HOST, TIER_HOST,
                                      TIER_HOST, TIER_NVME, TIER_HOST};
    struct err err = {0};
    struct node_group group = {.gpus_per_host = 2, .host = {.memory_bytes = 60, .nvme_bytes = 24}};
    const struct cluster cluster = {.nodes = &group, .node_group_count = 1, .rank_count = 2};
    struct placed_plan plan = {.kind_bytes = {[PLACED_PARAMETERS] = 10, [PLACED_OPTIMIZER] = 32}};
    assert_true(placed_homes(*state, &cluster, chunks, 6, &plan, &err));
    for (int c = 0; c < 6; c++)
        assert_int_equal(chunks[c].home, HOMES[c]);
    assert_int_equal(plan.home_bytes[TIER_HOST], 30);
    assert_int_equal(plan.home_bytes[TIER_NVME], 12);
    group.host.nvme_bytes = 22;
    plan = (struct placed_plan){.kind_bytes = {[PLACED_PARAMETERS] = 10, [PLACED_OPTIMIZER] = 32}};
    assert_false(placed_homes(*state, &cluster, chunks, 6, &plan, &err));
    assert_non_null(strstr(err.text, "lie on neither"));
}

static const struct placed_access LAYERS[2] = {{0, true, false}, {1, true, false}};

// Two layers that hosts write come up in 1 s each. There is room for both beside what the device
// works in, which one moment leaves to the next: either comes while the other is worked on.
static void moments_work_in_the_same_room(void **state)
{
    static const struct placed_access write[] = {{0, false, true}, {1, false, true}};
    static const struct placed_moment moments[] = {{&LAYERS[0], 1, 5, 2.0, false, false},
                                                   {&LAYERS[1], 1, 5, 2.0, false, false},
                                                   {write, 2, 0, 0.0, true, false}};
    static const struct placed_chunk chunks[] = {{PLACED_PARAMETERS, 4, TIER_HOST},
                                                 {PLACED_PARAMETERS, 4, TIER_HOST}};
    struct placement_problem problem = {
        .chunks = chunks,
        .chunk_count = 2,
        .moments = moments,
        .moment_count = 3,
        .device_bytes = 13,
        .up_bytes_per_s = 4,
        .down_bytes_per_s = 4,
    };
    const struct placed_result *planned = solved(*state, &problem);
    assert_int_equal(planned->up_bytes, 8);
    assert_true(fabs(planned->step_s - 4) < 1e-9);
    // Without room for both one half of each comes early, and the other waits for room, and 0.5 s.
    problem.device_bytes = 12;
    assert_true(fabs(solved(*state, &problem)->step_s - 5) < 1e-9);
    // The second moment has none where it works in all that the first leaves.
    static const struct placed_moment more[] = {{&LAYERS[0], 1, 5, 2.0, false, false},
                                                {&LAYERS[1], 1, 9, 2.0, false, false},
                                                {write, 2, 0, 0.0, true, false}};
    problem.device_bytes = 13;
    problem.moments = more;
    assert_true(fabs(solved(*state, &problem)->step_s - 6) < 1e-9);
}

// 10 s of work in all of the device, then 40 bytes come up in 10 s, of which none can be there
// before, and 1 s of work on them: no lane has more than 11 s to do, but 20 s are what it takes,
// and one more as it is done. An update of 3 s behind that, whose writing the first moment reads,
// adds 3.
static void what_has_no_room_before_is_bounded_behind(void **state)
{
    static const struct placed_chunk chunks[] = {{PLACED_PARAMETERS, 40, TIER_HOST},
                                                 {PLACED_PARAMETERS, 4, TIER_HOST}};
    static const struct placed_access first[] = {{1, true, false}}, layer[] = {{0, true, false}};
    static const struct placed_access update[] = {{0, false, true}, {1, false, true}};
    struct placed_moment moments[] = {{NULL, 0, 44, 10.0, false, false},
                                      {layer, 1, 0, 1.0, false, false},
                                      {update, 1, 0, 3.0, true, false}};
    const struct placement_problem problem = {
        .chunks = chunks,
        .chunk_count = 2,
        .moments = moments,
        .moment_count = 3,
        .device_bytes = 44,
        .up_bytes_per_s = 4,
        .down_bytes_per_s = 4,
    };
    const struct placed_result *planned = solved(*state, &problem);
    assert_true(fabs(planned->link_s - 20) < 1e-9 && fabs(planned->step_s - 21) < 1e-9);
    moments[0].accesses = first, moments[0].access_count = 1, moments[0].work_bytes = 40;
    moments[2].access_count = 2, moments[2].after_all = true;
    planned = solved(*state, &problem);
    // And 1 s for what the first moment reads, which may be there early.
    assert_true(fabs(planned->link_s - 23) < 1e-9 && fabs(planned->step_s - 25) < 1e-9);
    // Room for 12 of the 40 bytes beside the first moment saves 3 s of the bound.
    const struct placement_problem roomy = {
        .chunks = chunks,
        .chunk_count = 2,
        .moments = moments,
        .moment_count = 3,
        .device_bytes = 56,
        .up_bytes_per_s = 4,
        .down_bytes_per_s = 4,
    };
    assert_true(fabs(solved(*state, &roomy)->link_s - 20) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_order_is_faster_than_its_windows_and_what_follows_them),
        cmocka_unit_test(a_drive_does_what_is_ready_while_it_is_idle),
        cmocka_unit_test(what_is_read_has_been_written),
        cmocka_unit_test(what_a_drive_leaves_idle_is_used_twice),
        cmocka_unit_test(reads_and_writes_pass_at_once_where_the_drive_does_both),
        cmocka_unit_test(hosts_hold_what_two_updates_write),
        cmocka_unit_test(what_has_no_room_on_the_host_is_spread_over_the_drive),
        cmocka_unit_test(moments_work_in_the_same_room),
        cmocka_unit_test(what_has_no_room_before_is_bounded_behind),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
