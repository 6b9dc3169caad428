#include "tests/support/draw.h"
#include "tests/support/memory_graphs.h"
#include "tests/support/test.h"

#include "memory/pack/occupancy.h"
#include "memory/pack/pack_order.h"

// Random lifetimes of `shape`: 0 short and long mixed, 1 nested as those of training, 2 sparse.
static struct pack_problem random_problem(struct arena *arena, struct draw *draw, int count,
                                          int shape)
{
    struct pack_buffer *buffers = ARENA_NEW(arena, struct pack_buffer, count);
    int span = shape == 2 ? 20 * count : count + 3;
    for (int b = 0; b < count; b++) {
        int start = draw_int(draw, 0, span - 1);
        int life = draw_int(draw, 0, 9) ? draw_int(draw, 0, 6) : draw_int(draw, 0, span);
        if (shape == 1 && draw_int(draw, 0, 1)) {
            start = start / 2;
            life = span - 2 * start;
        }
        int end = start + life < span ? start + life : span;
        buffers[b] = (struct pack_buffer){.lower = 10 * start,
                                          .upper = 10 * end,
                                          .size = draw_int(draw, 1, draw_int(draw, 0, 3) ? 9 : 60),
                                          .alignment = 1,
                                          .fixed_offset = -1};
    }
    return (struct pack_problem){.buffers = buffers, .count = count};
}

static bool both_live(const struct pack_buffer *a, const struct pack_buffer *b)
{
    int64_t lower = a->lower > b->lower ? a->lower : b->lower;
    int64_t upper = a->upper < b->upper ? a->upper : b->upper;
    return lower < upper;
}

static struct pack_problem program_lifetimes(struct arena *arena, const struct memory_graph *graph)
{
    struct memory_problem *problem = memory_problem_make(arena, graph, 512);
    int *order = ARENA_NEW(arena, int, problem->operator_count);
    for (int o = 0; o < problem->operator_count; o++)
        order[o] = o;
    int *birth = ARENA_NEW(arena, int, problem->buffer_count);
    int *death = ARENA_NEW(arena, int, problem->buffer_count);
    memory_lifetimes(arena, problem, order, birth, death);
    struct pack_buffer *buffers = ARENA_NEW(arena, struct pack_buffer, problem->buffer_count);
    for (int b = 0; b < problem->buffer_count; b++) {
        buffers[b] = (struct pack_buffer){.lower = birth[b],
                                          .upper = death[b],
                                          .size = problem->buffers[b].bytes,
                                          .alignment = 512,
                                          .fixed_offset = -1};
    }
    return (struct pack_problem){.buffers = buffers, .count = problem->buffer_count};
}

// Pair by pair, for small problems.
static void assert_apart(const struct pack_problem *problem, const int64_t *offsets, int64_t height)
{
    int64_t top = 0;
    for (int b = 0; b < problem->count; b++) {
        const struct pack_buffer *buffer = &problem->buffers[b];
        if (buffer->lower >= buffer->upper) continue;
        assert_true(offsets[b] >= 0 && offsets[b] + buffer->size <= height);
        if (offsets[b] + buffer->size > top) top = offsets[b] + buffer->size;
        if (buffer->fixed_offset >= 0) {
            assert_true(offsets[b] == buffer->fixed_offset);
        } else {
            assert_true(offsets[b] % buffer->alignment == 0);
        }
        for (int other = 0; other < b; other++) {
            if (!both_live(buffer, &problem->buffers[other])) continue;
            assert_true(offsets[b] + buffer->size <= offsets[other] ||
                        offsets[other] + problem->buffers[other].size <= offsets[b]);
        }
    }
    assert_true(top == height);
}

struct event {
    int64_t instant, from;
    int buffer;
    bool starts;
};

static int compare_events(const void *left, const void *right)
{
    const struct event *a = left, *b = right;
    if (a->instant != b->instant) return a->instant < b->instant ? -1 : 1;
    return a->starts - b->starts;
}

// For large problems: what lives is kept sorted by offset, and whoever comes is compared with its
// two neighbours.
static void assert_apart_by_sweep(struct arena *arena, const struct pack_problem *problem,
                                  const int64_t *offsets)
{
    struct event *events = ARENA_NEW(arena, struct event, 2 * (size_t)problem->count);
    int event_count = 0, live_count = 0;
    for (int b = 0; b < problem->count; b++) {
        const struct pack_buffer *buffer = &problem->buffers[b];
        if (buffer->lower >= buffer->upper) continue;
        events[event_count++] = (struct event){buffer->lower, offsets[b], b, true};
        events[event_count++] = (struct event){buffer->upper, offsets[b], b, false};
    }
    qsort(events, (size_t)event_count, sizeof *events, compare_events);
    int *live = ARENA_NEW(arena, int, problem->count);
    for (int i = 0; i < event_count; i++) {
        int b = events[i].buffer, low = 0, high = live_count;
        while (low < high) {
            int middle = (low + high) / 2;
            if (offsets[live[middle]] < offsets[b]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        int *here = &live[low];
        if (!events[i].starts) {
            assert_int_equal(*here, b);
            memmove(here, here + 1, (size_t)(--live_count - low) * sizeof *here);
            continue;
        }
        const struct pack_buffer *below = low ? &problem->buffers[live[low - 1]] : NULL;
        if (below) assert_true(offsets[live[low - 1]] + below->size <= offsets[b]);
        if (low < live_count) {
            assert_true(offsets[b] + problem->buffers[b].size <= offsets[*here]);
        }
        memmove(here + 1, here, (size_t)(live_count++ - low) * sizeof *here);
        *here = b;
    }
}

static int compare_ranges(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

enum { BUFFERS_MOST = 600 };

// First and best fit by looking at every buffer that was placed.
static int64_t plain_fit(const struct pack_problem *problem, const int64_t *offsets,
                         const bool *placed, int b, enum pack_fit fit)
{
    const struct pack_buffer *buffer = &problem->buffers[b];
    int64_t ranges[BUFFERS_MOST][2];
    int count = 0;
    for (int other = 0; other < problem->count; other++) {
        if (!placed[other] || !both_live(buffer, &problem->buffers[other])) continue;
        ranges[count][0] = offsets[other];
        ranges[count++][1] = offsets[other] + problem->buffers[other].size;
    }
    qsort(ranges, (size_t)count, sizeof *ranges, compare_ranges);
    int64_t floor = 0, best = -1, best_gap = INT64_MAX;
    for (int i = 0; i <= count; i++) {
        int64_t ceiling = i < count ? ranges[i][0] : INT64_MAX;
        int64_t start = (floor + buffer->alignment - 1) / buffer->alignment * buffer->alignment;
        bool fits = ceiling == INT64_MAX || start + buffer->size <= ceiling;
        if (fits && (fit == FIT_FIRST || (ceiling == INT64_MAX && best < 0))) return start;
        if (ceiling == INT64_MAX) break;
        if (fits && ceiling - floor < best_gap) {
            best = start;
            best_gap = ceiling - floor;
        }
        if (floor < ranges[i][1]) floor = ranges[i][1];
    }
    return best;
}

static void align_some(struct draw *draw, const struct pack_problem *problem)
{
    static const int ALIGNMENTS[] = {1, 1, 2, 4, 7, 16};
    struct pack_buffer *buffers = (struct pack_buffer *)problem->buffers;
    for (int b = 0; b < problem->count; b++)
        buffers[b].alignment = DRAW_ONE(draw, ALIGNMENTS);
}

static void placing_in_order_is_what_looking_at_every_buffer_gives(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("placing in order", 11);
    for (int i = 0; i < 3000; i++) {
        struct arena_mark mark = arena_mark(arena);
        // Some of many sections, so that a life covers nodes of several levels.
        int most = i % 100 == 99 ? BUFFERS_MOST : 60;
        struct pack_problem problem =
            random_problem(arena, &draw, draw_int(&draw, 1, most), draw_int(&draw, 0, 2));
        align_some(&draw, &problem);
        struct pack_buffer *first = (struct pack_buffer *)problem.buffers;
        if (i % 3 == 0 && first->lower < first->upper) first->fixed_offset = i % 50;
        struct pack_sections *sections = pack_sections_make(arena, &problem);
        enum pack_fit fit = i % 2 ? FIT_FIRST : FIT_BEST;
        int *order = pack_sorted(arena, &problem, sections, (enum pack_key)(i % PACK_KEY_COUNT));
        int64_t offsets[BUFFERS_MOST] = {0}, expected[BUFFERS_MOST] = {0};
        int64_t height =
            pack_in_order(arena, &problem, sections, order, problem.count, fit, INT64_MAX, offsets);
        assert_apart(&problem, offsets, height);
        bool placed[BUFFERS_MOST] = {0};
        placed[0] = first->fixed_offset >= 0;
        expected[0] = placed[0] ? first->fixed_offset : 0;
        for (int k = 0; k < problem.count; k++) {
            int b = order[k];
            if (placed[b] || problem.buffers[b].lower >= problem.buffers[b].upper) continue;
            expected[b] = plain_fit(&problem, expected, placed, b, fit);
            placed[b] = true;
            assert_true(offsets[b] == expected[b]);
        }
        int64_t again[BUFFERS_MOST];
        assert_true(pack_in_order(arena, &problem, sections, order, problem.count, fit, height,
                                  again) == height);
        if (height > 0) {
            assert_true(pack_in_order(arena, &problem, sections, order, problem.count, fit,
                                      height - 1, again) == INT64_MAX);
        }
        arena_reset(arena, mark);
    }
}

// Of an optimal packing, buffers in order of offset and each as low as it gets are one as well; so
// the best of all orders is the optimum.
static int64_t optimum(struct arena *arena, const struct pack_problem *problem,
                       const struct pack_sections *sections, int *order, int from, int64_t best)
{
    int64_t offsets[8];
    if (from == problem->count) {
        int64_t height = pack_in_order(arena, problem, sections, order, problem->count, FIT_FIRST,
                                       INT64_MAX, offsets);
        return height < best ? height : best;
    }
    for (int i = from; i < problem->count; i++) {
        int chosen = order[i];
        order[i] = order[from];
        order[from] = chosen;
        best = optimum(arena, problem, sections, order, from + 1, best);
        order[from] = order[i];
        order[i] = chosen;
    }
    return best;
}

static void no_rule_is_under_the_bound_or_the_optimum(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("greedy rules", 5);
    int optimal_count = 0;
    enum { PROBLEMS = 120 };
    for (int i = 0; i < PROBLEMS; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct pack_problem problem =
            random_problem(arena, &draw, draw_int(&draw, 1, 6), draw_int(&draw, 0, 1));
        if (i % 3 == 0) align_some(&draw, &problem);
        struct pack_sections *sections = pack_sections_make(arena, &problem);
        int order[8] = {0, 1, 2, 3, 4, 5, 6, 7};
        int64_t best = optimum(arena, &problem, sections, order, 0, INT64_MAX);
        int64_t offsets[8], again[8];
        int64_t height = pack_greedy(arena, &problem, offsets);
        assert_apart(&problem, offsets, height);
        assert_true(sections->load_most <= best && best <= height);
        optimal_count += best == height;
        assert_true(pack_greedy(arena, &problem, again) == height);
        assert_memory_equal(offsets, again, (size_t)problem.count * sizeof *offsets);
        int64_t long_lived = pack_long_lived_best_fit(arena, &problem, offsets);
        assert_apart(&problem, offsets, long_lived);
        assert_true(height <= long_lived);
        arena_reset(arena, mark);
    }
    assert_true(optimal_count > PROBLEMS * 9 / 10);
}

static void every_rule_packs_sixty_thousand_buffers(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("large", 17);
    struct memory_graph *graph = graph_layered(arena, &draw, 60000, 20);
    struct pack_problem problem = program_lifetimes(arena, graph);
    assert_int_equal(problem.count, 60000);
    struct pack_sections *sections = pack_sections_make(arena, &problem);
    int64_t *offsets = ARENA_NEW(arena, int64_t, problem.count);
    for (int rule = 0; rule < PACK_RULE_COUNT; rule += 3) {
        struct arena_mark mark = arena_mark(arena);
        int64_t height = pack_by_rule(arena, &problem, sections, rule, INT64_MAX, offsets);
        assert_true(height >= sections->load_most);
        assert_apart_by_sweep(arena, &problem, offsets);
        arena_reset(arena, mark);
    }
}

static int64_t large(struct arena *arena, const struct pack_problem *problem, int64_t *offsets)
{
    struct pack_options options = {0};
    struct pack_result counts = {0};
    return pack_large(arena, problem, &options, offsets, &counts);
}

// Chains against brute force: no target under the optimum is ever reached, what is reached is a
// packing, and what is not leaves the offsets alone.
static void repairs_reach_no_target_under_the_optimum(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("repairs", 29);
    int reached_count = 0, below_greedy_count = 0;
    for (int i = 0; i < 120; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct pack_problem problem =
            random_problem(arena, &draw, draw_int(&draw, 2, 6), draw_int(&draw, 0, 1));
        if (i % 2 == 0) align_some(&draw, &problem);
        struct pack_sections *sections = pack_sections_make(arena, &problem);
        int order[8] = {0, 1, 2, 3, 4, 5, 6, 7};
        int64_t best = optimum(arena, &problem, sections, order, 0, INT64_MAX);
        int64_t offsets[8] = {0}, before[8], moves = 0;
        int64_t height =
            pack_by_rule(arena, &problem, sections, PACK_KEY_COUNT + KEY_START, INT64_MAX, offsets);
        memcpy(before, offsets, sizeof offsets);
        assert_false(pack_repair(arena, &problem, sections, best - 1, 2000, 0, offsets, &moves));
        assert_memory_equal(before, offsets, sizeof offsets);
        if (height == best) continue;
        below_greedy_count++;
        if (!pack_repair(arena, &problem, sections, best, 2000, 0, offsets, &moves)) continue;
        reached_count++;
        assert_apart(&problem, offsets, best);
        arena_reset(arena, mark);
    }
    assert_true(below_greedy_count > 20 && 4 * reached_count > 3 * below_greedy_count);
}

static void large_packings_are_packings_and_no_worse_than_greedy(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("large and small", 31);
    for (int i = 0; i < 12; i++) {
        struct arena_mark mark = arena_mark(arena);
        // Some of many sections, so that a life covers nodes of several levels.
        int most = i % 100 == 99 ? BUFFERS_MOST : 60;
        struct pack_problem problem =
            random_problem(arena, &draw, draw_int(&draw, 1, most), draw_int(&draw, 0, 2));
        align_some(&draw, &problem);
        struct pack_buffer *first = (struct pack_buffer *)problem.buffers;
        if (first->lower < first->upper && i % 2) first->fixed_offset = 32;
        struct pack_sections *sections = pack_sections_make(arena, &problem);
        int64_t offsets[64], again[64];
        int64_t greedy = pack_greedy(arena, &problem, again);
        // With a capacity, it is enough to be under that.
        problem.capacity = (sections->load_most + 3 * greedy) / 4;
        int64_t height = large(arena, &problem, offsets);
        assert_apart(&problem, offsets, height);
        assert_true(sections->load_most <= height && height <= greedy);
        assert_true(large(arena, &problem, again) == height);
        assert_memory_equal(offsets, again, (size_t)problem.count * sizeof *offsets);
        arena_reset(arena, mark);
    }
}

static void a_capacity_that_is_met_ends_the_repairs(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("capacity", 43);
    struct pack_problem problem = random_problem(arena, &draw, 300, 0);
    struct pack_options options = {0};
    struct pack_result counts = {0}, capped_counts = {0};
    int64_t *offsets = ARENA_NEW(arena, int64_t, problem.count);
    int64_t bound = pack_sections_make(arena, &problem)->load_most;
    pack_large(arena, &problem, &options, offsets, &counts);
    problem.capacity = 2 * bound;
    int64_t height = pack_large(arena, &problem, &options, offsets, &capped_counts);
    assert_apart(&problem, offsets, height);
    assert_true(height <= problem.capacity);
    assert_true(counts.restart_count > 0 && counts.mode == PACK_REPAIR);
    assert_true(capped_counts.restart_count == 0 && capped_counts.mode == PACK_GREEDY);
}

// Rules and short chains go on below what is enough, long chains do not; and none does for longer
// than asked without a better packing.
static void packings_take_no_more_work_than_asked(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("work", 47);
    struct pack_problem problem = random_problem(arena, &draw, 100, 0);
    align_some(&draw, &problem);
    struct pack_sections *sections = pack_sections_make(arena, &problem);
    int64_t *offsets = ARENA_NEW(arena, int64_t, problem.count);
    struct pack_options options = {.patience = 3e7};
    struct pack_result all = {0}, one = {0}, less = {0}, enough = {0};
    int64_t height = pack_large(arena, &problem, &options, offsets, &all);
    assert_true(height > sections->load_most && all.work > 3e7);
    options.enough = 2 * height;
    int64_t quick = pack_large(arena, &problem, &options, offsets, &enough);
    assert_apart(&problem, offsets, quick);
    assert_true(quick < 2 * height && enough.restart_count == PACK_RULE_COUNT);
    assert_true(enough.work < all.work / 10);
    options = (struct pack_options){.patience = 1};
    int64_t first = pack_by_rule(arena, &problem, sections, 0, INT64_MAX, offsets);
    // A chain follows the first rule at once, no other does.
    assert_true(pack_large(arena, &problem, &options, offsets, &one) <= first);
    assert_int_equal(one.restart_count, 1);
    options.patience = 1e6;
    int64_t midway = pack_large(arena, &problem, &options, offsets, &less);
    assert_true(height <= midway && midway <= quick);
    assert_true(less.work > 1e6 && less.work < all.work / 2);
}

static void training_graphs_come_within_a_hundredth_of_a_percent(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("training", 37);
    struct memory_graph *graphs[] = {graph_gpt(arena, 180, 1, 768), graph_resnet(arena, 300, 8),
                                     graph_inception(arena, 100, 32),
                                     graph_layered(arena, &draw, 20000, 40)};
    for (int g = 0; g < 4; g++) {
        struct arena_mark mark = arena_mark(arena);
        struct pack_problem problem = program_lifetimes(arena, graphs[g]);
        int64_t *offsets = ARENA_NEW(arena, int64_t, problem.count);
        int64_t bound = pack_sections_make(arena, &problem)->load_most;
        int64_t height = large(arena, &problem, offsets);
        assert_true(bound <= height && height - bound <= bound / 10000);
        assert_apart_by_sweep(arena, &problem, offsets);
        arena_reset(arena, mark);
    }
}

static void a_deadline_that_has_passed_leaves_a_packing(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("deadline", 41);
    struct pack_problem problem = random_problem(arena, &draw, 500, 0);
    struct pack_options options = {.deadline_s = 1e-9};
    struct pack_result counts = {0};
    int64_t *offsets = ARENA_NEW(arena, int64_t, problem.count);
    int64_t height = pack_large(arena, &problem, &options, offsets, &counts);
    assert_apart(&problem, offsets, height);
    assert_int_equal(counts.node_count, 0);
    // Few enough to be searched, which greedy rules leave something to.
    struct arena scratch = {0};
    struct pack_result result = pack_solve(arena, &scratch, &problem, &options);
    assert_apart(&problem, result.offsets, result.height);
    assert_true(result.height > result.bound);
    assert_int_equal(result.node_count, 0);
    assert_int_equal(result.restart_count, 0);
    arena_free(&scratch);
}

// Chains bring packings down, but not below what may not move.
static void a_fixed_buffer_stays_where_it_is(void **state)
{
    struct pack_buffer buffers[] = {
        {.lower = 0, .upper = 9, .size = 10, .alignment = 1, .fixed_offset = 100},
        {.lower = 0, .upper = 5, .size = 7, .alignment = 1, .fixed_offset = -1},
        {.lower = 4, .upper = 9, .size = 6, .alignment = 1, .fixed_offset = -1},
    };
    struct pack_problem problem = {.buffers = buffers, .count = 3};
    int64_t offsets[3];
    assert_int_equal(large(*state, &problem, offsets), 110);
    assert_int_equal(offsets[0], 100);
    assert_apart(&problem, offsets, 110);
}

static void what_never_lives_takes_no_place(void **state)
{
    struct pack_buffer buffers[] = {
        {.lower = 4, .upper = 4, .size = 100, .alignment = 1, .fixed_offset = -1},
        {.lower = 4, .upper = 5, .size = 3, .alignment = 8, .fixed_offset = -1},
        {.lower = 0, .upper = 9, .size = 5, .alignment = 1, .fixed_offset = 16},
    };
    struct pack_problem problem = {.buffers = buffers, .count = 3};
    int64_t offsets[3];
    assert_int_equal(pack_greedy(*state, &problem, offsets), 21);
    assert_int_equal(offsets[1], 0);
    assert_int_equal(offsets[2], 16);
    problem.count = 1;
    assert_int_equal(pack_greedy(*state, &problem, offsets), 0);
    problem.count = 0;
    assert_int_equal(pack_greedy(*state, &problem, offsets), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placing_in_order_is_what_looking_at_every_buffer_gives),
        cmocka_unit_test(no_rule_is_under_the_bound_or_the_optimum),
        cmocka_unit_test(every_rule_packs_sixty_thousand_buffers),
        cmocka_unit_test(repairs_reach_no_target_under_the_optimum),
        cmocka_unit_test(large_packings_are_packings_and_no_worse_than_greedy),
        cmocka_unit_test(a_capacity_that_is_met_ends_the_repairs),
        cmocka_unit_test(packings_take_no_more_work_than_asked),
        cmocka_unit_test(training_graphs_come_within_a_hundredth_of_a_percent),
        cmocka_unit_test(a_deadline_that_has_passed_leaves_a_packing),
        cmocka_unit_test(a_fixed_buffer_stays_where_it_is),
        cmocka_unit_test(what_never_lives_takes_no_place),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
