#include "memory/keep/max_flow.h"
#include "memory/order/order_cut.h"
#include "memory/order/order_search.h"
#include "tests/support/memory_graphs.h"
#include "tests/support/random_problem.h"
#include "tests/support/test.h"

// Seeds of each kind; more by hand with MESHWRIGHT_ORDER_SEEDS.
static int seed_count(void)
{
    const char *given = getenv("MESHWRIGHT_ORDER_SEEDS");
    return given ? atoi(given) : 400;
}

enum { NODES_MAX = 9, ARCS_MAX = 24 };

static void flows_are_as_large_as_the_smallest_cut(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("flows", 41);
    struct max_flow flow = max_flow_make(arena, NODES_MAX, ARCS_MAX);
    for (int i = 0; i < 4 * seed_count(); i++) {
        int nodes = draw_int(&draw, 2, NODES_MAX), arcs = draw_int(&draw, 0, ARCS_MAX);
        int from[ARCS_MAX], to[ARCS_MAX], capacity[ARCS_MAX];
        max_flow_clear(&flow, nodes);
        for (int a = 0; a < arcs; a++) {
            from[a] = draw_int(&draw, 0, nodes - 1), to[a] = draw_int(&draw, 0, nodes - 1);
            capacity[a] = draw_int(&draw, 0, 9);
            max_flow_add(&flow, from[a], to[a], capacity[a]);
        }
        int64_t least = INT64_MAX;
        for (unsigned side = 0; side < 1u << nodes; side++) {
            if (!(side >> MAX_FLOW_SOURCE & 1) || side >> MAX_FLOW_SINK & 1) continue;
            int64_t cut = 0;
            for (int a = 0; a < arcs; a++)
                cut += side >> from[a] & 1 && !(side >> to[a] & 1) ? capacity[a] : 0;
            if (cut < least) least = cut;
        }
        assert_int_equal(max_flow_run(&flow, INT64_MAX), least);
    }
}

// The whole problem as one part.
static const struct order_local *make_local(struct arena *arena, struct arena *scratch,
                                            const struct memory_problem *problem)
{
    struct order_division *division = order_divide(arena, scratch, problem, NULL, true, true);
    int *units = ARENA_NEW(arena, int, division->unit_count);
    for (int unit = 0; unit < division->unit_count; unit++)
        units[unit] = unit;
    int64_t *bytes = ARENA_NEW(arena, int64_t, problem->buffer_count);
    for (int b = 0; b < problem->buffer_count; b++)
        bytes[b] = problem->buffers[b].bytes;
    struct order_builder builder = order_builder_make(arena, division, bytes);
    return order_local_make(arena, &builder, 0, units, division->unit_count, division->unit_count,
                            division->base_bytes[0]);
}

static int64_t cut_bound(struct arena *arena, const struct order_local *local, int64_t scan_count)
{
    struct arena scratch = {0};
    int *units = ARENA_NEW(arena, int, local->unit_count);
    for (int i = 0; i < local->unit_count; i++)
        units[i] = i;
    int64_t bound_bytes = order_cut_bound(&scratch, local, units, 0, &scan_count);
    arena_free(&scratch);
    return bound_bytes;
}

// Bytes alive while `op` runs after the operators of `done`, by the rules of graph.h.
static int64_t alive_bytes(const struct memory_problem *problem, unsigned done, int op)
{
    int64_t sum_bytes = 0;
    for (int b = 0; b < problem->buffer_count; b++) {
        const struct memory_buffer *buffer = &problem->buffers[b];
        bool is_there =
            buffer->producer < 0 || buffer->producer == op || done >> buffer->producer & 1;
        bool is_needed = buffer->kept || buffer->producer == op;
        for (int i = 0; i < buffer->user_count; i++)
            is_needed = is_needed || !(done >> problem->users[buffer->first_user + i] & 1);
        if (is_there && is_needed) sum_bytes += buffer->bytes;
    }
    return sum_bytes;
}

// The highest over all operators of the least alive while it runs, over all sets before.
static int64_t best_moment(const struct memory_problem *problem)
{
    int count = problem->operator_count;
    int64_t least[16], most_bytes = 0;
    unsigned needs[16] = {0};
    for (int op = 0; op < count; op++) {
        least[op] = INT64_MAX;
        for (int p = problem->first_predecessor[op]; p < problem->first_predecessor[op + 1]; p++)
            needs[op] |= 1u << problem->predecessors[p];
    }
    for (unsigned done = 0; done < 1u << count; done++) {
        bool is_closed = true;
        for (int op = 0; op < count; op++)
            is_closed = is_closed && (!(done >> op & 1) || !(needs[op] & ~done));
        for (int op = 0; is_closed && op < count; op++) {
            if (done >> op & 1 || needs[op] & ~done) continue;
            int64_t bytes = alive_bytes(problem, done, op);
            if (bytes < least[op]) least[op] = bytes;
        }
    }
    for (int op = 0; op < count; op++)
        most_bytes = least[op] > most_bytes ? least[op] : most_bytes;
    return most_bytes;
}

// Still an order, no worse than it was and not below the bound; whether it is better.
static bool check_improved(struct arena *arena, const struct order_local *local,
                           int64_t bound_bytes)
{
    int count = local->unit_count, *units = ARENA_NEW(arena, int, count);
    int *waits = ARENA_NEW(arena, int, count);
    for (int u = 0; u < count; u++)
        units[u] = u, waits[u] = local->indegree[u];
    int64_t before_bytes = order_local_peak(arena, local, units), scan_count = 100000;
    order_cut_improve(arena, local, units, &scan_count);
    for (int i = 0; i < count; i++) {
        int u = units[i];
        assert_int_equal(waits[u]--, 0);
        for (int s = local->first_successor[u]; s < local->first_successor[u + 1]; s++)
            waits[local->successors[s]]--;
    }
    int64_t after_bytes = order_local_peak(arena, local, units);
    assert_true(after_bytes <= before_bytes && after_bytes >= bound_bytes);
    return after_bytes < before_bytes;
}

struct counts {
    int exact, improved;
};

static void check_problem(const struct memory_problem *problem, struct counts *counts)
{
    struct arena arena = {0}, scratch = {0};
    const struct order_local *local = make_local(&arena, &scratch, problem);
    int64_t bound_bytes = cut_bound(&arena, local, INT64_MAX);
    assert_true(bound_bytes <= least_peak_bytes(&scratch, problem));
    assert_true(cut_bound(&arena, local, 20) <= bound_bytes);
    counts->improved += check_improved(&arena, local, bound_bytes);
    if (local->unit_count == problem->operator_count) {
        assert_int_equal(bound_bytes, best_moment(problem));
        counts->exact++;
    }
    arena_free(&scratch);
    arena_free(&arena);
}

static void cuts_find_the_least_that_is_alive_when_a_unit_runs(void **state)
{
    (void)state;
    struct draw draw = draw_start("cuts", 42);
    struct counts counts = {0};
    for (int i = 0; i < seed_count(); i++) {
        struct arena arena = {0};
        int size = draw_int(&draw, 1, 10);
        check_problem(random_problem(&arena, &draw, size, 1), &counts);
        const struct memory_graph *graphs[] = {
            graph_random(&arena, &draw, size), graph_random_plain(&arena, &draw, size),
            graph_layered(&arena, &draw, size, draw_int(&draw, 1, 4))};
        for (int k = 0; k < 3; k++)
            check_problem(memory_problem_make(&arena, graphs[k], 1), &counts);
        arena_free(&arena);
    }
    assert_true(counts.exact > seed_count());
    assert_true(counts.improved > seed_count());
}

// Twenty operators abreast: the search ends at its cap at a small part of what is needed.
static void wide_graphs_are_bounded_within_a_third(void **state)
{
    struct arena *arena = *state, scratch = {0};
    struct draw draw = {7};
    const struct memory_problem *problem =
        memory_problem_make(arena, graph_layered(arena, &draw, 300, 20), 1);
    struct order_options options = {.state_cap = 2000};
    struct order_result result = order_solve(arena, &scratch, problem, &options);
    assert_true(result.capped_count == 1);
    assert_true((double)result.peak_bytes < 4.0 / 3 * (double)result.bound_bytes);
    assert_true(2 * order_simple_bound(problem) < result.bound_bytes);
    arena_free(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flows_are_as_large_as_the_smallest_cut),
        cmocka_unit_test(cuts_find_the_least_that_is_alive_when_a_unit_runs),
        cmocka_unit_test(wide_graphs_are_bounded_within_a_third),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
