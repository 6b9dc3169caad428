#include "memory/certify.h"

#include "memory/certify_bytes.h"
#include "memory/schedule.h"
#include "tests/support/memory_net.h"
#include "tests/support/random_problem.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>

static bool respects_edges(const struct memory_problem *problem, const int *order)
{
    int step[64] = {0};
    int seen[64] = {0};
    for (int t = 0; t < problem->operator_count; t++) {
        if (order[t] < 0 || order[t] >= problem->operator_count || seen[order[t]]++) return false;
        step[order[t]] = t;
    }
    for (int u = 0; u < problem->operator_count; u++) {
        for (int s = problem->first_successor[u]; s < problem->first_successor[u + 1]; s++)
            if (step[problem->successors[s]] <= step[u]) return false;
    }
    return true;
}

// Sizes of bytes and of odd hundreds of megabytes: the latter do not fit GLPK's integers.
static const int64_t GRANULES_BYTES[] = {1, 512, 104857601};

static void certified_orders_equal_dynamic_programming(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("certify_order", 5);
    for (int i = 0; i < 150; i++) {
        struct arena_mark mark = arena_mark(arena);
        int64_t granule_bytes = GRANULES_BYTES[i % 3];
        struct memory_problem *problem =
            random_problem(arena, &draw, draw_int(&draw, 1, 10), granule_bytes);
        int64_t least_bytes = least_peak_bytes(arena, problem);
        int order[64];
        struct milp_options options = {.no_presolve = i % 2};
        int64_t upper_bytes = i % 4 < 2 ? 0 : least_bytes;
        struct milp_result result = certify_order(arena, problem, upper_bytes, &options, order);
        assert_int_equal(result.status, MILP_OPTIMAL);
        assert_true(respects_edges(problem, order));
        assert_true((int64_t)result.objective == least_bytes);
        assert_true((int64_t)result.bound == least_bytes);
        if (least_bytes > 0) {
            result = certify_order(arena, problem, least_bytes - 1, &options, NULL);
            assert_int_equal(result.status, MILP_INFEASIBLE);
        }
        arena_reset(arena, mark);
    }
}

// Two buffers, one after the other, whose sizes have no unit in common of which few enough make
// them: the larger alone is the peak. A byte less is within the millionth that is left for
// rounding, three are not.
static void sizes_that_no_unit_divides_are_certified_to_a_millionth(void **state)
{
    enum { SMALL = 1000003, LARGE = 2000001 };
    struct net net = {.arena = *state};
    int small = net_tensor(&net, "small", SMALL), large = net_tensor(&net, "large", LARGE);
    net_operator(&net, "make", NULL, 0, &small, 1);
    net_operator(&net, "make", NULL, 0, &large, 1);
    net_operator(&net, "read", &small, 1, NULL, 0);
    net_operator(&net, "read", &large, 1, NULL, 0);
    const struct memory_problem *problem = memory_problem_make(*state, net_finish(&net, "g"), 1);
    struct milp_options options = {0};
    int order[4];
    struct milp_result result = certify_order(*state, problem, LARGE, &options, order);
    assert_int_equal(result.status, MILP_OPTIMAL);
    assert_true(respects_edges(problem, order));
    assert_true(result.objective == LARGE);
    assert_true(result.bound <= LARGE && result.bound >= LARGE * (1 - 1e-6));
    result = certify_order(*state, problem, LARGE - 3, &options, NULL);
    assert_int_equal(result.status, MILP_INFEASIBLE);
    result = certify_order(*state, problem, LARGE - 1, &options, NULL);
    assert_int_equal(result.status, MILP_OPTIMAL);
}

static void count_line(void *context, const char *line)
{
    *(int *)context += strstr(line, "too many") != NULL;
}

static void more_operators_than_can_be_certified_are_not_tried(void **state)
{
    struct arena *arena = *state;
    int *first = ARENA_NEW(arena, int, 202);
    struct memory_problem problem = {.operator_count = 200,
                                     .first_touched = first,
                                     .first_successor = first,
                                     .first_predecessor = first};
    int said = 0;
    struct milp_options options = {.log = count_line, .log_context = &said};
    struct milp_result result = certify_order(arena, &problem, 0, &options, NULL);
    assert_int_equal(result.status, MILP_UNKNOWN);
    assert_true(result.bound == 0);
    assert_int_equal(said, 1);
}

static void the_whole_graph_as_one_program_equals_dynamic_programming(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("global_order", 6);
    int below_program = 0;
    for (int i = 0; i < 60; i++) {
        struct arena_mark mark = arena_mark(arena);
        int64_t granule_bytes = GRANULES_BYTES[i % 3];
        struct memory_problem *problem =
            random_problem(arena, &draw, draw_int(&draw, 1, 7), granule_bytes);
        int64_t least_bytes = least_peak_bytes(arena, problem);
        int order[64];
        struct milp_options options = {0};
        struct milp_result result = global_order(arena, problem, &options, order);
        assert_int_equal(result.status, MILP_OPTIMAL);
        assert_true(respects_edges(problem, order));
        assert_true((int64_t)result.objective == least_bytes);
        assert_true((int64_t)result.bound == least_bytes);
        for (int t = 0; t < problem->operator_count; t++)
            order[t] = t;
        below_program += certify_peak_bytes(arena, problem, order) > least_bytes;
        arena_reset(arena, mark);
    }
    assert_true(below_program > 5);
}

static void copy_line(void *context, const char *line)
{
    snprintf(context, 200, "%s", line);
}

// 501 pairs of a maker and a reader: each of the 1,002 operators may run in all steps but one, and
// each buffer may be preserved in all steps but the first; and the peak.
static void a_graph_of_too_many_columns_is_not_tried(void **state)
{
    enum { PAIRS = 501 };
    struct net net = {.arena = *state};
    char line[200] = "";
    // All are made before the first is read, which is what could be better.
    for (int i = 0; i < PAIRS; i++) {
        int made = net_tensor(&net, "x", 8);
        net_operator(&net, "make", NULL, 0, &made, 1);
    }
    for (int made = 0; made < PAIRS; made++)
        net_operator(&net, "read", &made, 1, NULL, 0);
    const struct memory_problem *problem = memory_problem_make(*state, net_finish(&net, "g"), 1);
    int *order = ARENA_NEW(*state, int, 2 * PAIRS);
    struct milp_options options = {.log = copy_line, .log_context = line};
    struct milp_result result = global_order(*state, problem, &options, order);
    char expected[200];
    snprintf(expected, sizeof expected,
             "global order: %d columns, of at most 1000000 that are tried; program order stands",
             1 + (2 * PAIRS + PAIRS) * (2 * PAIRS - 1));
    assert_string_equal(line, expected);
    assert_int_equal(result.status, MILP_FEASIBLE);
    for (int t = 0; t < 2 * PAIRS; t++)
        assert_int_equal(order[t], t);
}

static void a_whole_graph_that_is_cut_short_is_never_worse_than_program_order(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("global_order cut short", 7);
    for (int i = 0; i < 4; i++) {
        struct memory_problem *problem = random_problem(arena, &draw, 14, 512);
        int order[64], program[64];
        for (int t = 0; t < 14; t++)
            program[t] = t;
        struct milp_options options = {.node_cap = 1};
        struct milp_result result = global_order(arena, problem, &options, order);
        assert_true(respects_edges(problem, order));
        assert_true(result.objective == (double)certify_peak_bytes(arena, problem, order));
        assert_true(result.objective <= (double)certify_peak_bytes(arena, problem, program));
        assert_true(result.bound <= (double)least_peak_bytes(arena, problem));
        assert_true(result.bound >= (double)certify_least_bytes(problem));
    }
}

enum { PACKED = 6 };

static bool clashes(const struct pack_buffer *a, int64_t at, const struct pack_buffer *b,
                    int64_t other)
{
    return a->lower < b->upper && b->lower < a->upper && a->lower < a->upper &&
           b->lower < b->upper && at < other + b->size && other < at + a->size;
}

static bool is_free(const struct pack_problem *problem, const int64_t *offsets, unsigned placed,
                    int buffer, int64_t at)
{
    for (int i = 0; i < problem->count; i++)
        if (placed >> i & 1 &&
            clashes(&problem->buffers[buffer], at, &problem->buffers[i], offsets[i]))
            return false;
    return true;
}

// Every order of placing each buffer as low as it goes: one of them is by offset in the best
// packing, and that is as high as the best.
static int64_t least_height(const struct pack_problem *problem, int64_t *offsets, unsigned placed,
                            int64_t height)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < problem->count; i++) {
        const struct pack_buffer *buffer = &problem->buffers[i];
        if (placed >> i & 1) continue;
        offsets[i] = 0;
        while (!is_free(problem, offsets, placed, i, offsets[i]))
            offsets[i] += buffer->alignment;
        int64_t end = buffer->lower < buffer->upper ? offsets[i] + buffer->size : 0;
        int64_t found =
            least_height(problem, offsets, placed | 1u << i, end > height ? end : height);
        if (found < least) least = found;
    }
    return least == INT64_MAX ? height : least;
}

// The first two may be fixed where they do not clash.
static struct pack_problem draw_packing(struct arena *arena, struct draw *draw)
{
    static const int64_t ALIGNMENTS[] = {1, 1, 1, 2, 4};
    int count = draw_int(draw, 1, PACKED);
    struct pack_buffer *buffers = ARENA_NEW(arena, struct pack_buffer, count);
    for (int i = 0; i < count; i++) {
        int lower = draw_int(draw, 0, 6);
        buffers[i] = (struct pack_buffer){.lower = lower,
                                          .upper = lower + draw_int(draw, 0, 5),
                                          .size = draw_int(draw, 1, 9),
                                          .alignment = DRAW_ONE(draw, ALIGNMENTS),
                                          .fixed_offset = -1};
        if (i == 0 && draw_int(draw, 0, 3) == 0)
            buffers[i].fixed_offset = buffers[i].alignment * draw_int(draw, 0, 4);
    }
    return (struct pack_problem){.buffers = buffers, .count = count};
}

static void certified_layouts_equal_every_way_to_place(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("certify_pack", 8);
    for (int i = 0; i < 200; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct pack_problem problem = draw_packing(arena, &draw);
        int64_t offsets[PACKED] = {0}, found[PACKED];
        bool is_fixed = problem.buffers[0].fixed_offset >= 0;
        int64_t floor = 0;
        if (is_fixed) {
            offsets[0] = problem.buffers[0].fixed_offset;
            floor = offsets[0] + problem.buffers[0].size;
            if (problem.buffers[0].lower == problem.buffers[0].upper) floor = 0;
        }
        int64_t least = least_height(&problem, offsets, is_fixed, floor);
        struct milp_options options = {.no_presolve = i % 2};
        struct milp_result result = certify_pack(arena, &problem, &options, found);
        assert_int_equal(result.status, MILP_OPTIMAL);
        assert_true((int64_t)result.objective == least && result.bound == result.objective);
        for (int b = 0; b < problem.count; b++) {
            assert_true(found[b] % problem.buffers[b].alignment == 0);
            assert_true(is_free(&problem, found, (1u << b) - 1, b, found[b]));
        }
        if (is_fixed) assert_true(found[0] == problem.buffers[0].fixed_offset);
        problem.capacity = least;
        assert_int_equal(certify_pack(arena, &problem, &options, found).status, MILP_OPTIMAL);
        problem.capacity = least - 1;
        if (least > 1)
            assert_int_equal(certify_pack(arena, &problem, &options, found).status,
                             MILP_INFEASIBLE);
        arena_reset(arena, mark);
    }
}

struct asked {
    int lines;
    bool has_none;  // that is feasible
};

static void take_line(void *context, const char *line)
{
    struct asked *asked = context;
    asked->lines++;
    asked->has_none |= strstr(line, "NO ") != NULL;
}

// GLPK is asked about 1 to 12 buffers, where that is wanted and the layout is proven: all of them
// are alive at once. Whether there is room for them is no question to it.
static void small_layouts_are_asked_of_glpk_as_well(void **state)
{
    static const struct {
        int count;
        bool certify, is_asked;
        int64_t capacity;
    } CASES[] = {{0, true, false, 0},   {1, true, true, 0},   {12, true, true, 0},
                 {12, true, true, 100}, {13, true, false, 0}, {5, false, false, 0}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct pack_buffer buffers[13];
        struct arena scratch = {0};
        struct err err = {0};
        struct asked asked = {0};
        for (int b = 0; b < 13; b++)
            buffers[b] = (struct pack_buffer){0, 3, 64, 1, -1};
        const struct pack_problem problem = {buffers, CASES[i].count, CASES[i].capacity};
        const struct memory_options options = {.method = MEMORY_ROAM,
                                               .alignment = 1,
                                               .capacity = CASES[i].capacity,
                                               .certify = CASES[i].certify,
                                               .log = take_line,
                                               .log_context = &asked};
        struct memory_schedule schedule;
        assert_true(memory_schedule_packing(*state, &scratch, &problem, &options, &schedule, &err));
        assert_int_equal(schedule.arena_bytes, 64 * CASES[i].count);
        assert_int_equal(asked.lines > 0, CASES[i].is_asked);
        assert_false(asked.has_none);
        arena_free(&scratch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(certified_orders_equal_dynamic_programming),
        cmocka_unit_test(sizes_that_no_unit_divides_are_certified_to_a_millionth),
        cmocka_unit_test(more_operators_than_can_be_certified_are_not_tried),
        cmocka_unit_test(the_whole_graph_as_one_program_equals_dynamic_programming),
        cmocka_unit_test(a_graph_of_too_many_columns_is_not_tried),
        cmocka_unit_test(a_whole_graph_that_is_cut_short_is_never_worse_than_program_order),
        cmocka_unit_test(certified_layouts_equal_every_way_to_place),
        cmocka_unit_test(small_layouts_are_asked_of_glpk_as_well),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
