#include "planner/strategy/reduce.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>

// The steps that make a strategy problem smaller, each against its own words by plain loops over
// drawn problems, and cases worked by hand. What a step leaves is told by the labels of choices.

enum { NODES = 5, MOST = 3, EDGES = NODES * (NODES - 1) / 2, TIMES = 4, WIDE = 130 };

// The same problem twice: as the product has it, and as it was drawn.
struct drawn {
    struct strategy_problem problem;
    struct reduced reduced;
    struct reduced_node nodes[NODES];
    struct reduced_edge edges[EDGES];
    struct reduced_part parts[NODES];
    int lists[NODES][NODES], labels[NODES][MOST], counts[NODES];
    double costs[NODES][MOST], usages[NODES][MOST], pairs[EDGES][MOST * MOST], base[TIMES + 1];
    // [node][label], [a][b][label of a][label of b] and the other way round; whether there is one.
    double cost[NODES][MOST], usage[NODES][MOST], pair[NODES][NODES][MOST][MOST];
    bool has_pair[NODES][NODES];
};

static double draw_cost(struct draw *draw, int forbidden_percent, int most)
{
    bool is_forbidden = draw_int(draw, 1, 100) <= forbidden_percent;
    return is_forbidden ? REDUCED_FORBIDDEN : draw_int(draw, 0, most);
}

static void draw_edge(struct draw *draw, struct drawn *of, int a, int b, int forbidden)
{
    int e = of->reduced.edge_count++, kind = draw_int(draw, 0, 2);
    int first = draw_int(draw, 0, 1) ? a : b, second = a + b - first;
    int rows = of->counts[first], columns = of->counts[second];
    int slope = draw_int(draw, 0, 3), rise = draw_int(draw, 0, 3);
    of->edges[e] = (struct reduced_edge){{first, second}, of->pairs[e], false};
    for (int x = 0; x < rows; x++) {
        for (int y = 0; y < columns; y++) {
            double cost = kind == 0 ? 7 + slope * x + rise * y : draw_cost(draw, forbidden, 9);
            of->pairs[e][x * columns + y] = cost;
            of->pair[first][second][x][y] = of->pair[second][first][y][x] = cost;
        }
    }
    of->has_pair[a][b] = of->has_pair[b][a] = true;
    of->lists[a][of->nodes[a].edge_count++] = e;
    of->lists[b][of->nodes[b].edge_count++] = e;
}

static void draw_problem(struct draw *draw, struct arena *arena, struct drawn *of, int forbidden)
{
    *of = (struct drawn){.problem = {.node_count = NODES, .time_count = TIMES}};
    of->reduced = (struct reduced){.arena = arena,
                                   .problem = &of->problem,
                                   .nodes = of->nodes,
                                   .edges = of->edges,
                                   .base = of->base};
    for (int i = 0; i < NODES; i++) {
        int count = of->counts[i] = draw_int(draw, 1, MOST);
        bool uses = draw_int(draw, 0, 1);
        of->parts[i] = (struct reduced_part){1, 3, of->usages[i]};
        of->nodes[i] = (struct reduced_node){.count = count,
                                             .labels = of->labels[i],
                                             .cost = of->costs[i],
                                             .parts = &of->parts[i],
                                             .part_count = uses,
                                             .edges = of->lists[i]};
        for (int x = 0; x < count; x++) {
            of->labels[i][x] = x;
            of->cost[i][x] = of->costs[i][x] = draw_cost(draw, forbidden, 9);
            of->usage[i][x] = of->usages[i][x] = uses ? draw_int(draw, 0, 2) : 0;
        }
    }
    for (int a = 0; a < NODES; a++)
        for (int b = a + 1; b < NODES; b++)
            if (draw_int(draw, 0, 1)) draw_edge(draw, of, a, b, forbidden);
}

struct alive {
    bool is[NODES][MOST];
};

static struct alive alive_of(const struct drawn *of)
{
    struct alive alive = {{{false}}};
    for (int i = 0; i < NODES; i++)
        for (int k = 0; k < of->nodes[i].count; k++)
            alive.is[i][of->labels[i][k]] = true;
    return alive;
}

// Costs, usages and pairs of what is left are still those of their labels.
static void check_left(const struct drawn *of, const struct alive *wanted)
{
    struct alive alive = alive_of(of);
    assert_memory_equal(&alive, wanted, sizeof alive);
    for (int i = 0; i < NODES; i++) {
        // Usage is told above the least of it, or of what was the least.
        double least = of->usage[i][of->labels[i][0]] - of->usages[i][0];
        for (int k = 0; k < of->nodes[i].count; k++) {
            assert_true(of->costs[i][k] == of->cost[i][of->labels[i][k]]);
            if (of->nodes[i].part_count > 0)
                assert_true(of->usages[i][k] == of->usage[i][of->labels[i][k]] - least);
        }
    }
    for (int e = 0; e < of->reduced.edge_count; e++) {
        int a = of->edges[e].ends[0], b = of->edges[e].ends[1], columns = of->nodes[b].count;
        for (int cell = 0; cell < of->nodes[a].count * columns; cell++)
            assert_true(
                of->pairs[e][cell] ==
                of->pair[a][b][of->labels[a][cell / columns]][of->labels[b][cell % columns]]);
    }
}

static bool has_support(const struct drawn *of, const struct alive *alive, int node, int x)
{
    if (of->cost[node][x] == REDUCED_FORBIDDEN) return false;
    for (int other = 0; other < NODES; other++) {
        bool any = false;
        for (int y = 0; y < of->counts[other]; y++)
            any |= alive->is[other][y] && of->pair[node][other][x][y] < REDUCED_FORBIDDEN;
        if (of->has_pair[node][other] && !any) return false;
    }
    return true;
}

static bool is_empty(const struct alive *alive)
{
    for (int i = 0; i < NODES; i++) {
        bool any = false;
        for (int x = 0; x < MOST; x++)
            any |= alive->is[i][x];
        if (!any) return true;
    }
    return false;
}

static void what_nothing_supports_is_dropped(void **state)
{
    struct draw draw = draw_start("unsupported", 17);
    int dropped = 0, impossible = 0;
    (void)state;
    for (int round = 0; round < 400; round++) {
        struct arena arena = {0};
        struct drawn of;
        draw_problem(&draw, &arena, &of, 10 + round % 40);
        // One that is gone is asked nothing more.
        bool has_gone = of.nodes[NODES - 1].edge_count == 0;
        of.nodes[NODES - 1].is_gone = has_gone;
        struct alive alive = alive_of(&of), before = alive;
        for (bool again = true; again;) {
            again = false;
            for (int i = 0; i < NODES; i++)
                for (int x = 0; x < MOST && (i < NODES - 1 || !has_gone); x++)
                    if (alive.is[i][x] && !has_support(&of, &alive, i, x))
                        alive.is[i][x] = false, again = true;
        }
        bool any = reduced_drop_unsupported(&of.reduced);
        assert_int_equal(any, memcmp(&alive, &before, sizeof alive) != 0);
        assert_int_equal(of.reduced.is_impossible, is_empty(&alive));
        if (!of.reduced.is_impossible) check_left(&of, &alive);
        dropped += any && !of.reduced.is_impossible, impossible += of.reduced.is_impossible;
        arena_free(&arena);
    }
    assert_true(dropped > 80 && impossible > 20);
}

// Whether one choice is never dearer than another beside anything its neighbours may choose that
// allows the other: over all edges that is the sum of what is lost most at each.
static bool wins(const struct drawn *of, const struct alive *alive, int node, int better, int worse)
{
    double lost = of->cost[node][better] - of->cost[node][worse];
    if (of->usage[node][better] > of->usage[node][worse]) return false;
    for (int other = 0; other < NODES; other++) {
        double most = -INFINITY;
        for (int y = 0; y < of->counts[other]; y++) {
            double high = of->pair[node][other][worse][y], low = of->pair[node][other][better][y];
            if (!alive->is[other][y] || high == REDUCED_FORBIDDEN) continue;
            if (low == REDUCED_FORBIDDEN) return false;
            most = fmax(most, low - high);
        }
        if (of->has_pair[node][other]) lost += most;
    }
    return lost <= 0;
}

static void what_another_dominates_is_dropped(void **state)
{
    struct draw draw = draw_start("dominated", 18);
    int dropped = 0, kept = 0;
    (void)state;
    for (int round = 0; round < 600; round++) {
        struct arena arena = {0};
        struct drawn of;
        draw_problem(&draw, &arena, &of, round % 30);
        (void)reduced_drop_unsupported(&of.reduced);
        struct alive alive = alive_of(&of), before = alive;
        // One after the other: of two that are equal the later one stays.
        for (int i = 0; i < NODES; i++)
            for (int x = 0; x < MOST; x++)
                for (int other = 0; other < MOST && alive.is[i][x]; other++)
                    if (other != x && alive.is[i][other] && wins(&of, &alive, i, other, x))
                        alive.is[i][x] = false;
        if (!of.reduced.is_impossible) {
            bool any = reduced_drop_dominated(&of.reduced);
            bool changes = memcmp(&alive, &before, sizeof alive) != 0;
            assert_int_equal(any, changes);
            check_left(&of, &alive);
            dropped += changes, kept += !changes;
        }
        arena_free(&arena);
    }
    assert_true(dropped > 200 && kept > 20);
}

// Choices that are all alike, of a node that has so many: all pairs up to 64 leave the last one.
// Beyond, steps of 2 (65), 3 (130) leave the last of those that are a step apart.
static void many_choices_are_looked_at_in_samples(void **state)
{
    static const struct {
        int count, left[3], left_count;
    } CASES[] = {{2, {1}, 1},
                 {64, {63}, 1},
                 {65, {63, 64}, 2},
                 {127, {125, 126}, 2},
                 {128, {125, 126, 127}, 3},
                 {130, {127, 128, 129}, 3}};
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++) {
        double cost[WIDE] = {0};
        int labels[WIDE];
        for (int i = 0; i < WIDE; i++)
            labels[i] = i;
        struct reduced_node nodes[] = {
            {.count = CASES[c].count, .labels = labels, .cost = cost},
            {.count = CASES[c].count, .labels = labels, .cost = cost, .is_gone = true}};
        struct strategy_problem problem = {.node_count = 2};
        struct reduced reduced = {.arena = *state, .problem = &problem, .nodes = nodes};
        assert_true(reduced_drop_dominated(&reduced));
        assert_int_equal(nodes[0].count, CASES[c].left_count);
        assert_int_equal(nodes[1].count, CASES[c].count);
        for (int i = 0; i < nodes[0].count; i++)
            assert_int_equal(labels[i], CASES[c].left[i]);
        assert_int_equal(reduced_drop_dominated(&reduced), CASES[c].left_count > 1);
    }
}

// Edges that are a(x) + b(y), where nothing is forbidden, become costs of nodes: every choice of
// all nodes costs what it did, and lists hold the edges that are left, in their order.
static double sum_of(const struct drawn *of, const int *choice)
{
    double sum = 0;
    for (int i = 0; i < NODES; i++)
        sum += of->costs[i][choice[i]];
    for (int e = 0; e < of->reduced.edge_count; e++) {
        const struct reduced_edge *edge = &of->edges[e];
        int columns = of->counts[edge->ends[1]];
        if (!edge->is_gone)
            sum += edge->cost[choice[edge->ends[0]] * columns + choice[edge->ends[1]]];
    }
    return sum < REDUCED_FORBIDDEN ? sum : INFINITY;
}

static void all_sums(const struct drawn *of, double *sums)
{
    int choice[NODES] = {0}, count = 0;
    for (;;) {
        sums[count++] = sum_of(of, choice);
        int i = 0;
        while (i < NODES && ++choice[i] == of->counts[i])
            choice[i++] = 0;
        if (i == NODES) return;
    }
}

static bool is_sum(const struct drawn *of, int a, int b)
{
    for (int x = 0; x < of->counts[a]; x++)
        for (int y = 0; y < of->counts[b]; y++)
            if (of->pair[a][b][x][y] == REDUCED_FORBIDDEN ||
                of->pair[a][b][x][y] + of->pair[a][b][0][0] !=
                    of->pair[a][b][x][0] + of->pair[a][b][0][y])
                return false;
    return true;
}

static void edges_that_are_sums_become_costs_of_nodes(void **state)
{
    struct draw draw = draw_start("sums", 19);
    int gone = 0;
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct arena arena = {0};
        struct drawn of;
        double before[243] = {0}, after[243] = {0};
        bool any = false;
        draw_problem(&draw, &arena, &of, 2);
        // One that is gone already is none of the changes.
        if (of.reduced.edge_count > 0) of.edges[0].is_gone = round % 2;
        all_sums(&of, before);
        bool was_gone = of.reduced.edge_count > 0 && of.edges[0].is_gone;
        bool changed = reduced_split_edges(&of.reduced);
        all_sums(&of, after);
        assert_memory_equal(before, after, sizeof before);
        for (int e = 0; e < of.reduced.edge_count; e++) {
            bool goes = is_sum(&of, of.edges[e].ends[0], of.edges[e].ends[1]);
            bool is_old = e == 0 && was_gone;
            assert_int_equal(of.edges[e].is_gone, goes || is_old);
            any |= goes && !is_old;
            gone += goes;
        }
        assert_int_equal(changed, any);
        for (int i = 0; i < NODES; i++) {
            int at = 0;
            for (int e = 0; e < of.reduced.edge_count; e++) {
                const struct reduced_edge *edge = &of.edges[e];
                if (edge->is_gone || (edge->ends[0] != i && edge->ends[1] != i)) continue;
                assert_true(at < of.nodes[i].edge_count);
                assert_int_equal(of.lists[i][at++], e);
            }
            assert_int_equal(at, of.nodes[i].edge_count);
        }
        arena_free(&arena);
    }
    assert_true(gone > 300);
}

// Between 3 and 2 choices: 0 to 5 by rows of 3, then 10 to 60 the other way round, [x][y] on to
// [y][x], then hundreds the first way, one of them forbidden. Of a node with itself the diagonal.
static void edges_between_the_same_nodes_add_up(void **state)
{
    double first[] = {0, 1, 2, 3, 4, 5}, turned[] = {10, 20, 30, 40, 50, 60},
           again[] = {100, 200, 300, 400, 500, REDUCED_FORBIDDEN}, own[] = {7, 1, 2, 9};
    static const double SUMS[] = {110, 241, 322, 453, 534, REDUCED_FORBIDDEN};
    double costs[] = {1, REDUCED_FORBIDDEN};
    struct reduced_node nodes[] = {{.count = 2, .cost = costs}, {.count = 3}};
    struct reduced reduced = {.arena = *state, .nodes = nodes};
    reduced_connect(&reduced, 1, 0, first);
    reduced_connect(&reduced, 0, 1, turned);
    reduced_connect(&reduced, 1, 0, again);
    reduced_connect(&reduced, 0, 0, own);
    assert_int_equal(reduced.edge_count, 1);
    assert_int_equal(nodes[0].edge_count, 1);
    assert_int_equal(nodes[1].edge_count, 1);
    for (int cell = 0; cell < 6; cell++)
        assert_true(reduced.edges[0].cost[cell] == SUMS[cell]);
    assert_true(costs[0] == 8 && costs[1] == REDUCED_FORBIDDEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_between_the_same_nodes_add_up),
        cmocka_unit_test(what_nothing_supports_is_dropped),
        cmocka_unit_test(what_another_dominates_is_dropped),
        cmocka_unit_test(many_choices_are_looked_at_in_samples),
        cmocka_unit_test(edges_that_are_sums_become_costs_of_nodes),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
