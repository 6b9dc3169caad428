#include "planner/balance.h"
#include "planner/index.h"
#include "planner/moments.h"
#include "planner/pick.h"
#include "planner/placement.h"
#include "planner/scan_queue.h"
#include "planner/scan_tail.h"
#include "planner/spared.h"

#include "cost_models/memory.h"
#include "planner/choice.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>

// The small parts that the scan of a space is made of, each against its own words.

// Whether a mixture of two other points spares no less at no more seconds. Whole numbers, so that
// products are exact.
static bool is_mixed(const struct spared *points, int count, const struct spared *of)
{
    for (int a = 0; a < count; a++) {
        const struct spared *one = &points[a];
        if (one->bytes == of->bytes && one->seconds == of->seconds) continue;
        if (one->bytes >= of->bytes && one->seconds <= of->seconds) return true;
        for (int b = 0; b < count; b++) {
            const struct spared *two = &points[b];
            // One that spares less beside one that spares more, mixed to the same bytes.
            if (one->bytes >= of->bytes || two->bytes <= of->bytes) continue;
            double mixed =
                one->seconds * (two->bytes - of->bytes) + two->seconds * (of->bytes - one->bytes);
            if (mixed <= of->seconds * (two->bytes - one->bytes)) return true;
        }
    }
    return false;
}

static void a_hull_has_what_no_mixture_beats(void **state)
{
    struct draw draw = {20261130};
    struct spared_hull hull;
    int kept = 0;
    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct spared points[12], given[12];
        int count = draw_int(&draw, 1, 12), at = 0;
        for (int i = 0; i < count; i++)
            points[i] = given[i] = (struct spared){draw_int(&draw, 0, 14), draw_int(&draw, -3, 20)};
        spared_hull_make(&hull, points, count);
        assert_in_range(hull.count, 1, count);
        for (int bytes = 0; bytes <= 14; bytes++) {
            const struct spared *found = NULL;
            for (int i = 0; i < count; i++)
                if (given[i].bytes == bytes && !is_mixed(given, count, &given[i]))
                    found = &given[i];
            if (!found) continue;
            assert_true(at < hull.count && hull.points[at].bytes == bytes);
            assert_true(hull.points[at++].seconds == found->seconds);
        }
        assert_int_equal(at, hull.count);
        kept += hull.count > 2;
    }
    assert_in_range(kept, 200, 800);
}

static void a_queue_gives_the_lowest_bound_first(void **state)
{
    struct scan_entry entries[32], held[32];
    struct scan_queue queue = {entries, 0};
    struct draw draw = {77};
    int count = 0;
    (void)state;
    for (int step = 0; step < 4000; step++) {
        bool adds = count < 31 && (count == 0 || draw_int(&draw, 0, 1));
        if (adds) {
            held[count] = (struct scan_entry){
                .bound_s = draw_int(&draw, 0, 5), .group = step, .level = LEVEL_PROBE};
            scan_queue_push(&queue, held[count++]);
            continue;
        }
        int first = 0;
        for (int i = 1; i < count; i++) {
            if (held[i].bound_s < held[first].bound_s ||
                (held[i].bound_s == held[first].bound_s && held[i].group < held[first].group))
                first = i;
        }
        struct scan_entry popped = scan_queue_pop(&queue);
        assert_true(popped.bound_s == held[first].bound_s);
        assert_int_equal(popped.group, held[first].group);
        assert_int_equal(popped.level, LEVEL_PROBE);
        held[first] = held[--count];
        assert_int_equal(queue.count, count);
    }
}

// Which of two is picked, whichever comes first: 1 the second, 0 the first.
static void check_pick(enum objective objective, const struct candidate *one,
                       const struct candidate *two, int better)
{
    for (int turn = 0; turn < 2; turn++) {
        struct pick pick = {.found = false};
        pick_better(objective, &pick, turn ? two : one);
        assert_true(pick.found);
        pick_better(objective, &pick, turn ? one : two);
        const struct candidate *wanted = better ? two : one;
        assert_true(pick.found && pick.plan.cost.step_s == wanted->cost.step_s);
        assert_int_equal(pick.plan.memory.reserved_bytes, wanted->memory.reserved_bytes);
        assert_memory_equal(&pick.plan.parallel.offload, &wanted->parallel.offload,
                            sizeof wanted->parallel.offload);
    }
}

static struct candidate plan_of(double step_s, int64_t bytes, enum tier activations,
                                enum tier optimizer, int layers)
{
    struct candidate plan = {.cost.step_s = step_s, .memory.reserved_bytes = bytes};
    plan.parallel.offload.activations = activations;
    plan.parallel.offload.optimizer = optimizer;
    plan.parallel.offload.layers[0] = (int16_t)layers;
    return plan;
}

static void of_equally_long_ones_that_which_moves_less_is_picked(void **state)
{
    (void)state;
    // Each moves less than the next, and needs more memory.
    const struct candidate equal[] = {
        plan_of(1, 19, TIER_DEVICE, TIER_DEVICE, 0), plan_of(1, 17, TIER_DEVICE, TIER_HOST, 0),
        plan_of(1, 13, TIER_DEVICE, TIER_NVME, 0),   plan_of(1, 11, TIER_HOST, TIER_DEVICE, 3),
        plan_of(1, 7, TIER_HOST, TIER_DEVICE, 5),    plan_of(1, 5, TIER_HOST, TIER_DEVICE, -1),
        plan_of(1, 3, TIER_HOST, TIER_HOST, 2),      plan_of(1, 2, TIER_NVME, TIER_DEVICE, 1)};
    enum { COUNT = sizeof equal / sizeof *equal };
    for (int i = 0; i < COUNT; i++) {
        for (int k = i + 1; k < COUNT; k++) {
            check_pick(OBJECTIVE_TIME, &equal[i], &equal[k], 0);
            check_pick(OBJECTIVE_MEMORY, &equal[i], &equal[k], 1);
        }
        // A tenth of a nanosecond is nothing, ten of them are more than what moves.
        struct candidate other = equal[i];
        other.parallel.offload.activations = TIER_COUNT;
        other.cost.step_s = 1 - 1e-10;
        check_pick(OBJECTIVE_TIME, &equal[i], &other, 0);
        other.cost.step_s = 1 - 1e-8;
        check_pick(OBJECTIVE_TIME, &equal[i], &other, 1);
    }
    // What moves alike goes by memory.
    struct candidate smaller = equal[3];
    smaller.memory.reserved_bytes--;
    check_pick(OBJECTIVE_TIME, &equal[3], &smaller, 1);
}

static void a_split_is_kept_once_and_only_where_it_gains(void **state)
{
    struct arena *arena = *state, scratch = {0};
    struct balances *balances = ARENA_NEW(arena, struct balances, 1);
    balances->arena = arena;
    // 1 + 1 beside 1 + 5 is slower than three beside one.
    const double late[] = {1, 1, 1, 5}, early[] = {5, 1, 1, 1}, alike[] = {1, 1, 1, 1};
    struct partition_request request = {.layer_count = 4, .stage_count = 2, .layer_s = late};
    const int *found = balance_find(balances, &scratch, &request, (int[]){2, 2});
    assert_true(found[0] == 3 && found[1] == 1);
    request.layer_s = early;
    const int *other = balance_find(balances, &scratch, &request, (int[]){2, 2});
    assert_true(other[0] == 1 && other[1] == 3);
    request.layer_s = late;
    assert_ptr_equal(balance_find(balances, &scratch, &request, (int[]){2, 2}), found);
    assert_int_equal(balances->count, 2);
    request.layer_s = alike;
    assert_null(balance_find(balances, &scratch, &request, (int[]){2, 2}));
    // The same numbers of a pipeline of more stages are another split: 3, 1, 1, of five layers.
    const double longer[] = {1, 1, 1, 5, 5};
    request = (struct partition_request){.layer_count = 5, .stage_count = 3, .layer_s = longer};
    const int *three = balance_find(balances, &scratch, &request, (int[]){2, 2, 1});
    assert_true(three[0] == 3 && three[1] == 1 && three[2] == 1);
    assert_ptr_not_equal(three, found);
    // A gain in the last bits is none, one of a millionth is.
    const double close[] = {1, 1, 1e-10, 1};
    request = (struct partition_request){.layer_count = 4, .stage_count = 2, .layer_s = close};
    assert_null(balance_find(balances, &scratch, &request, (int[]){3, 1}));
    const double clear[] = {1, 1, 1e-6, 1};
    request.layer_s = clear;
    other = balance_find(balances, &scratch, &request, (int[]){3, 1});
    assert_true(other && other[0] == 2 && other[1] == 2);
    // Where no more are kept the even one stays.
    static const int NOTHING[1];
    for (int i = balances->count; i < BALANCE_MAX; i++)
        balances->known[i] = NOTHING;
    balances->count = BALANCE_MAX;
    const double five[] = {5, 1, 1, 1, 1, 1};
    request = (struct partition_request){.layer_count = 6, .stage_count = 2, .layer_s = five};
    assert_null(balance_find(balances, &scratch, &request, (int[]){3, 3}));
    arena_free(&scratch);
}

static bool holds_no_more(const struct schedule_in_flight *a, const struct schedule_in_flight *b,
                          int chunks)
{
    bool no_more = true;
    for (int c = 0; c < chunks; c++)
        no_more &= a[c].alive <= b[c].alive && a[c].waiting <= b[c].waiting;
    return no_more;
}

// Every moment of the schedule is held by one that is kept, and of those none by another.
static void check_moments(struct moments *moments, const struct program *program, int *dropped)
{
    int chunks = program->shape.chunk_count;
    struct schedule_in_flight all[SCHEDULE_IN_FLIGHT_MAX * 2];
    assert_in_range(chunks, 1, 2);
    for (int stage = 0; stage < program->shape.stage_count; stage++) {
        const struct stage_in_flight *of = moments_get(moments, program, stage);
        assert_ptr_equal(moments_get(moments, program, stage), of);
        int count = memory_moments(program, stage, all), kept = of[stage].count;
        const struct schedule_in_flight *held = of[stage].moments;
        assert_in_range(kept, 1, count);
        *dropped += count - kept;
        for (int i = 0; i < count; i++) {
            bool is_held = false;
            for (int k = 0; k < kept; k++)
                is_held |= holds_no_more(&all[i * chunks], &held[k * chunks], chunks);
            assert_true(is_held);
        }
        for (int i = 0; i < kept; i++) {
            bool is_one = false;
            for (int k = 0; k < count; k++)
                is_one |=
                    !memcmp(&held[i * chunks], &all[k * chunks], (size_t)chunks * sizeof *all);
            assert_true(is_one);
            for (int k = 0; k < kept; k++)
                assert_true(k == i || !holds_no_more(&held[i * chunks], &held[k * chunks], chunks));
        }
    }
}

static void moments_are_those_that_may_be_highest(void **state)
{
    struct moments moments = {.arena = *state};
    int dropped = 0, asked = 0;
    for (int kind = 0; kind < SCHEDULE_KIND_COUNT; kind++) {
        const struct schedule_row *row = schedule_row((enum schedule_kind)kind);
        for (int stages = 1; stages <= 4; stages++) {
            for (int chunks = 1; chunks <= 2; chunks++) {
                for (int micro = 4; micro <= 12; micro += 4) {
                    struct program program = {.shape = {.stage_count = stages,
                                                        .chunk_count = chunks,
                                                        .micro_batch_count = micro}};
                    const char *why = NULL;
                    program.parallel.schedule = (enum schedule_kind)kind;
                    if (!row->legal(&program.shape, &why)) continue;
                    check_moments(&moments, &program, &dropped);
                    asked++;
                    assert_int_equal(moments.index.count, asked);
                }
            }
        }
    }
    assert_true(asked > 40 && dropped > 20);
    // A cap is another shape.
    struct program capped = {
        .shape = {.stage_count = 4, .chunk_count = 1, .micro_batch_count = 12, .in_flight = 2}};
    capped.parallel.schedule = SCHEDULE_ZB_AUTO;
    check_moments(&moments, &capped, &dropped);
    assert_int_equal(moments.index.count, asked + 1);
}

struct numbered {
    int32_t key[3];
    int number;
};

// Keys of a word and a half that differ in any of their three numbers; more than the table has at
// first.
static void what_is_put_is_found_and_nothing_else(void **state)
{
    enum { SIDE = 12 };
    struct index index = {.key_bytes = 3 * sizeof(int32_t)};
    (void)state;
    assert_null(index_find(&index, (int32_t[]){0, 0, 0}));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < SIDE * SIDE * SIDE; i++) {
            int32_t key[3] = {i % SIDE, i / SIDE % SIDE, i / SIDE / SIDE};
            const struct numbered *found = index_find(&index, key);
            if (round == 1) {
                assert_int_equal(found->number, i);
                continue;
            }
            assert_null(found);
            struct numbered *entry = ARENA_NEW((struct arena *)*state, struct numbered, 1);
            *entry = (struct numbered){{key[0], key[1], key[2]}, i};
            index_put(*state, &index, entry);
            assert_int_equal(index.count, i + 1);
            // Half of the slots at most, so that a search meets an empty one soon.
            assert_true(2 * index.count <= index.slot_count + 2);
        }
    }
    assert_int_equal(index.slot_count, 4096);
    assert_null(index_find(&index, (int32_t[]){SIDE, 0, 0}));
    assert_null(index_find(&index, (int32_t[]){0, 0, SIDE}));
}

static bool is_same_group(const struct group_shape *a, const struct group_shape *b)
{
    return a->rank_count == b->rank_count && a->node_count == b->node_count &&
           a->ranks_per_node == b->ranks_per_node && a->intra == b->intra;
}

// Two ranks of tp innermost, four of dp, two stages, on two nodes of eight.
static void placements_are_the_links_of_all_groups(void **state)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(*state, "dgx-a100-80g-x2", &err);
    struct parallel parallel = {.vpp = 1, .micro_batch = 1, .zero = 1};
    assert_string_equal(err.text, "");
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel.degree[axis] = 1;
    parallel.degree[AXIS_TP] = 2;
    parallel.degree[AXIS_DP] = 4;
    parallel.degree[AXIS_PP] = 2;
    parallel_default_order(&parallel);
    struct mesh mesh = mesh_make(&parallel, 8);
    const struct placement placement = placement_of(&mesh, &parallel, cluster);
    static const struct {
        int shape, ranks, nodes;
    } WANTED[] = {{AXIS_TP, 2, 1}, {AXIS_DP, 4, 1},    {AXIS_PP, 2, 2},
                  {AXIS_CP, 1, 1}, {AXIS_COUNT, 4, 1}, {AXIS_COUNT + 1 + STORED_STATES, 4, 1}};
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++) {
        assert_int_equal(placement.shapes[WANTED[i].shape].rank_count, WANTED[i].ranks);
        assert_int_equal(placement.shapes[WANTED[i].shape].node_count, WANTED[i].nodes);
    }
    for (int kind = 0; kind < 2; kind++) {
        for (int i = 0; i < STORED_COUNT; i++) {
            unsigned axes = mesh_shard_axes(
                &mesh, &parallel, kind ? PARAMETER_EXPERT : PARAMETER_DENSE, (enum stored)i);
            struct group_shape shape = mesh_group(&mesh, cluster, axes);
            assert_true(
                is_same_group(&shape, &placement.shapes[AXIS_COUNT + 1 + kind * STORED_COUNT + i]));
        }
    }
    // Whatever differs in any of them makes another one.
    assert_true(placement_equal(&placement, &placement));
    for (int i = 0; i < PLACEMENT_SHAPES; i++) {
        for (int field = 0; field < 16; field++) {
            static const struct intra_fabric fabric;
            static const struct network network;
            struct placement other = placement;
            struct group_shape *of = &other.shapes[i];
            if (field == 0) of->rank_count++;
            if (field == 1) of->node_count++;
            if (field == 2) of->ranks_per_node++;
            if (field == 3) of->ranks_per_node_least++;
            if (field == 4) of->intra = &fabric;
            if (field == 5) of->network = &network;
            if (field == 6) of->network_bytes_per_s_per_rank++;
            if (field == 7) of->crossing_bytes_per_s++;
            if (field == 8) of->crossing_ratio++;
            if (field == 9) of->load.ring++;
            if (field == 10) of->load.all_to_all++;
            if (field == 11) of->load.send++;
            if (field == 12) of->torus.links++;
            if (field == 13) of->torus.share++;
            if (field == 14) of->torus.load++;
            if (field == 15) of->torus.steps++;
            assert_false(placement_equal(&placement, &other));
        }
    }
}

// Of five moves the third is in the place of the first where each way to recompute that has it has
// the first one too.
static void twins_are_moves_that_every_way_has(void **state)
{
    struct space_move moves[5] = {
        {.offload = {.activations = TIER_HOST, .optimizer = TIER_HOST}},
        {.offload = {.activations = TIER_DEVICE, .optimizer = TIER_HOST}},
        {.offload = {.activations = TIER_NVME, .optimizer = TIER_HOST}},
        {.offload = {.activations = TIER_HOST, .optimizer = TIER_HOST}},
        {.offload = {.activations = TIER_HOST, .optimizer = TIER_DEVICE}}};
    struct space_recompute ways[2] = {{.layers_low = -1, .layers_high = -1, .moves = 1 | 2 | 4},
                                      {.layers_low = 3, .layers_high = 7, .moves = 1 | 8}};
    const struct space_tail tail = {
        .recomputes = ways, .recompute_count = 2, .moves = moves, .move_count = 5};
    struct search_request search = {.pins = pins_none()};
    const struct scan_request request = {.search = &search};
    const struct scan scan = {.request = &request};
    (void)state;
    assert_int_equal(tail_twin(&scan, &tail, 2, TIER_HOST, TIER_HOST), 0);
    assert_int_equal(tail_twin(&scan, &tail, 2, TIER_DEVICE, TIER_HOST), 1);
    assert_int_equal(tail_twin(&scan, &tail, 2, TIER_DEVICE, TIER_DEVICE), -1);
    // Those that stand behind it are none.
    assert_int_equal(tail_twin(&scan, &tail, 2, TIER_HOST, TIER_DEVICE), -1);
    assert_int_equal(tail_twin(&scan, &tail, 1, TIER_DEVICE, TIER_HOST), -1);
    ways[1].moves = 4 | 8;
    assert_int_equal(tail_twin(&scan, &tail, 2, TIER_HOST, TIER_HOST), -1);
    ways[1].moves = 1 | 8;
    search.pins.forbidden_count = 1;
    assert_int_equal(tail_twin(&scan, &tail, 2, TIER_HOST, TIER_HOST), -1);
    // Plans of a move: of ways that have it, each number of layers.
    assert_true(tail_recompute_count(&tail, 0) == 1 + 5);
    assert_true(tail_recompute_count(&tail, 2) == 1);
    assert_true(tail_recompute_count(&tail, 3) == 5);
    assert_true(tail_recompute_count(&tail, 4) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hull_has_what_no_mixture_beats),
        cmocka_unit_test(a_queue_gives_the_lowest_bound_first),
        cmocka_unit_test(of_equally_long_ones_that_which_moves_less_is_picked),
        cmocka_unit_test(a_split_is_kept_once_and_only_where_it_gains),
        cmocka_unit_test(what_is_put_is_found_and_nothing_else),
        cmocka_unit_test(placements_are_the_links_of_all_groups),
        cmocka_unit_test(twins_are_moves_that_every_way_has),
        cmocka_unit_test(moments_are_those_that_may_be_highest),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
