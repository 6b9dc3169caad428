#include "memory/order/order_part.h"

#include "tests/support/memory_graphs.h"
#include "tests/support/memory_net.h"
#include "tests/support/random_problem.h"
#include "tests/support/test.h"

// Where orders are cut and what is solved between the cuts, against what the headers say, found
// again from which operator comes before which.

enum { OPERATORS_MAX = 40 };

struct division_case {
    const struct memory_problem *problem;
    const struct order_division *division;
    uint64_t after[OPERATORS_MAX];  // [operator] those that come behind it
};

static struct division_case divide(struct arena *arena, const struct memory_problem *problem,
                                   bool no_sides)
{
    struct arena scratch = {0};
    struct division_case of = {.problem = problem};
    of.division = order_divide(arena, &scratch, problem, NULL, false, no_sides);
    assert_true(problem->operator_count <= OPERATORS_MAX);
    for (int op = problem->operator_count - 1; op >= 0; op--) {
        for (int s = problem->first_successor[op]; s < problem->first_successor[op + 1]; s++)
            of.after[op] |=
                UINT64_C(1) << problem->successors[s] | of.after[problem->successors[s]];
    }
    arena_free(&scratch);
    return of;
}

static bool is_core_unit(const struct order_division *division, int segment, int unit)
{
    return unit - division->first_unit[segment] < division->core_count[segment];
}

// Every operator in one unit of its segment, behind what it waits for; units of several beside the
// core lead nowhere else.
static void check_units(const struct division_case *of)
{
    const struct order_division *division = of->division;
    int place = 0;
    for (int k = 0; k < division->segment_count; k++) {
        for (int u = division->first_unit[k]; u < division->first_unit[k + 1]; u++) {
            int first = division->first_operator[u], end = division->first_operator[u + 1];
            assert_int_equal(first, place);
            for (; place < end; place++) {
                int op = division->operators[place];
                assert_int_equal(division->unit[op], u);
                assert_int_equal(division->segment[op], k);
                for (int i = place + 1; i < end; i++)
                    assert_false(of->after[division->operators[i]] >> op & 1);
                const int *successor = &of->problem->first_successor[op];
                for (int s = successor[0]; s < successor[1]; s++) {
                    int next = division->segment[of->problem->successors[s]];
                    assert_true(next >= k);
                    if (!is_core_unit(division, k, u) && end - first > 1) assert_int_equal(next, k);
                }
            }
        }
    }
    assert_int_equal(place, of->problem->operator_count);
    assert_int_equal(division->first_unit[division->segment_count], division->unit_count);
}

static bool makes_any(const struct memory_problem *problem, int op)
{
    for (int b = 0; b < problem->buffer_count; b++) {
        if (problem->buffers[b].producer == op && problem->buffers[b].bytes > 0) return true;
    }
    return false;
}

// An operator of the core that all others of it come before or behind ends a segment, and nothing
// else does. What is anchored to it goes with it, what makes nothing does not count. Returns how
// many cuts there are.
static int check_cuts(const struct division_case *of)
{
    const struct order_division *division = of->division;
    int core[OPERATORS_MAX], count = 0, cuts = 0;
    for (int op = 0; op < of->problem->operator_count; op++) {
        int unit = division->unit[op];
        bool is_last = division->operators[division->first_operator[unit + 1] - 1] == op;
        if (!is_core_unit(division, division->segment[op], unit) || !is_last) continue;
        if (makes_any(of->problem, op)) core[count++] = op;
    }
    for (int i = 0; i < count; i++) {
        bool is_cut = true;
        for (int j = 0; j < count; j++) {
            bool in_line = of->after[core[i]] >> core[j] & 1 || of->after[core[j]] >> core[i] & 1;
            is_cut = is_cut && (i == j || in_line);
        }
        if (i + 1 < count) {
            int step = division->segment[core[i + 1]] - division->segment[core[i]];
            assert_int_equal(step, is_cut);
        }
        cuts += is_cut;
    }
    if (count == 0) return 0;
    assert_int_equal(division->segment[core[0]], 0);
    assert_int_equal(division->segment[core[count - 1]], division->segment_count - 1);
    return cuts;
}

// Of what segments before `k` have made, what is kept or read from `k` on.
static int64_t base_bytes(const struct division_case *of, int k, bool is_relaxed)
{
    const struct order_division *division = of->division;
    int64_t sum = 0;
    for (int b = 0; b < of->problem->buffer_count; b++) {
        const struct memory_buffer *buffer = &of->problem->buffers[b];
        if (buffer->producer >= 0 && division->segment[buffer->producer] >= k) continue;
        bool is_needed = buffer->kept;
        for (int i = 0; i < buffer->user_count; i++)
            is_needed |= division->segment[of->problem->users[buffer->first_user + i]] >= k;
        if (is_needed) sum += is_relaxed ? division->relaxed_bytes[b] : buffer->bytes;
    }
    return sum;
}

static void check_bases(const struct division_case *of)
{
    const struct order_division *division = of->division;
    for (int k = 0; k <= division->segment_count; k++) {
        assert_true(division->base_bytes[k] == base_bytes(of, k, false));
        assert_true(division->relaxed_base_bytes[k] == base_bytes(of, k, true));
    }
    for (int b = 0; b < of->problem->buffer_count; b++) {
        const struct memory_buffer *buffer = &of->problem->buffers[b];
        int last = buffer->producer < 0 ? -1 : division->segment[buffer->producer];
        for (int i = 0; i < buffer->user_count; i++) {
            int at = division->segment[of->problem->users[buffer->first_user + i]];
            last = at > last ? at : last;
        }
        assert_int_equal(division->last_segment[b], last);
        // Of what operators beside the core make alone nothing counts.
        int unit = buffer->producer < 0 ? -1 : division->unit[buffer->producer];
        bool is_core =
            unit < 0 || is_core_unit(division, division->segment[buffer->producer], unit);
        int count =
            unit < 0 ? 0 : division->first_operator[unit + 1] - division->first_operator[unit];
        int64_t relaxed = is_core || count > 1 ? buffer->bytes : division->relaxed_bytes[b];
        assert_true(division->relaxed_bytes[b] == relaxed);
        assert_true(relaxed == buffer->bytes || relaxed == 0);
    }
}

// Parts keep to their bounds, are solved where they may be, and stand for segments like them.
static void check_parts(struct arena *arena, const struct division_case *of)
{
    struct arena scratch = {0};
    const struct order_division *division = of->division;
    struct order_limits limits = {0};
    struct order_parts parts = order_parts_solve(arena, &scratch, division, &limits);
    int largest = 0;
    for (int k = 0; k < division->segment_count; k++) {
        const struct order_part *part = &parts.parts[parts.of_segment[k]];
        int first = division->first_unit[k], end = division->first_unit[k + 1];
        int operators = division->first_operator[end] - division->first_operator[first];
        largest = operators > largest ? operators : largest;
        assert_int_equal(part->local->unit_count, end - first);
        assert_false(part->capped);
        assert_true(part->bound_bytes == part->peak_bytes);
        assert_true(part->local->least_bytes <= part->bound_bytes);
        assert_true(order_local_peak(&scratch, part->local, part->units) == part->peak_bytes);
        // Equal segments share one, different ones do not.
        for (int other = 0; other < parts.count; other++) {
            bool is_it = other == parts.of_segment[k];
            assert_true(is_it || !order_local_same(parts.parts[other].local, part->local));
        }
    }
    assert_int_equal(parts.largest, largest);
    arena_free(&scratch);
}

static const struct memory_problem *draw_problem(struct arena *arena, struct draw *draw, int kind)
{
    int size = draw_int(draw, 2, 20);
    if (kind == 0) return random_problem(arena, draw, size, 1);
    struct memory_graph *graph = kind == 1   ? graph_random(arena, draw, size)
                                 : kind == 2 ? graph_layered(arena, draw, size, 2)
                                             : graph_random_plain(arena, draw, size);
    return memory_problem_make(arena, graph, 1);
}

static void divisions_are_what_they_are_said_to_be(void **state)
{
    (void)state;
    struct draw draw = draw_start("divisions of ordering problems", 61);
    int cuts = 0, blocks = 0;
    for (int i = 0; i < 240; i++) {
        struct arena arena = {0};
        const struct memory_problem *problem = draw_problem(&arena, &draw, i % 4);
        struct division_case of = divide(&arena, problem, i % 8 < 4);
        check_units(&of);
        cuts += check_cuts(&of);
        check_bases(&of);
        check_parts(&arena, &of);
        blocks += of.division->unit_count < problem->operator_count;
        arena_free(&arena);
    }
    assert_true(cuts > 200 && blocks > 20);
}

// Layers in a row with weight gradients beside: cuts at every step of the row.
static void a_row_of_equal_layers_is_one_part(void **state)
{
    enum { LAYERS = 6 };
    struct net net = {.arena = *state};
    int flow = net_tensor(&net, "x", 10);
    for (int i = 0; i < LAYERS; i++) {
        int next = net_tensor(&net, "x", 10), gradient = net_tensor(&net, "dw", 3);
        int updated = net_tensor(&net, "w", 0);
        net_operator(&net, "layer", &flow, 1, &next, 1);
        net_operator(&net, "gradient", &flow, 1, &gradient, 1);
        net_operator(&net, "update", &gradient, 1, &updated, 1);
        flow = next;
    }
    const struct memory_problem *problem = memory_problem_make(*state, net_finish(&net, "row"), 1);
    struct division_case of = divide(*state, problem, false);
    assert_int_equal(of.division->segment_count, LAYERS);
    struct arena scratch = {0};
    struct order_limits limits = {0};
    struct order_parts parts = order_parts_solve(*state, &scratch, of.division, &limits);
    // The first gradients could run at once, with the first layer; at the end, the core is what is
    // longest: the update of the last layer. Those in between are one.
    assert_int_equal(parts.count, 4);
    assert_int_equal(parts.of_segment[1], parts.of_segment[2]);
    assert_int_equal(parts.of_segment[1], parts.of_segment[3]);
    assert_int_equal(parts.largest, 5);
    check_units(&of);
    check_bases(&of);
    assert_int_equal(check_cuts(&of), LAYERS);
    arena_free(&scratch);
}

// A first gradient that nothing leads to runs right before what it is for, where it peaks no higher
// than that one does: its workspace is no more than what follows makes.
static void sources_run_before_what_they_are_for(void **state)
{
    for (int workspace = 19; workspace <= 21; workspace++) {
        struct net net = {.arena = *state};
        int x = net_tensor(&net, "x", 10), made[3];
        for (int i = 0; i < 3; i++)
            made[i] = net_tensor(&net, "t", i == 2 ? 20 : 10);
        int source = net_operator(&net, "source", NULL, 0, &made[0], 1);
        net.operators[source].workspace_bytes = workspace;
        net_operator(&net, "first", &x, 1, &made[1], 1);
        int reads[] = {made[0], made[1]};
        int joins = net_operator(&net, "joins", reads, 2, &made[2], 1);
        const struct memory_problem *problem =
            memory_problem_make(*state, net_finish(&net, "source"), 1);
        struct division_case of = divide(*state, problem, true);
        assert_int_equal(of.division->unit[source] == of.division->unit[joins], workspace <= 20);
        check_units(&of);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divisions_are_what_they_are_said_to_be),
        cmocka_unit_test(a_row_of_equal_layers_is_one_part),
        cmocka_unit_test(sources_run_before_what_they_are_for),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
