#include "planner/memory/certify.h"

#include "planner/memory/certify_bytes.h"
#include "tests/random_problem.h"
#include "tests/test.h"

#include <math.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(certified_orders_equal_dynamic_programming),
        cmocka_unit_test(more_operators_than_can_be_certified_are_not_tried),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
