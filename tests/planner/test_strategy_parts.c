#include "planner/strategy/model.h"
#include "planner/strategy/round.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

// The parts of the solver of strategies by themselves: what is laid out for it, parts of time made
// flat, and choices read off a dual, each against plain loops on drawn problems.

enum { NODES = 6, CHOICES_MOST = 4, EDGES_MOST = NODES * (NODES - 1) / 2, TIMES = 12 };

struct drawn {
    struct strategy_problem problem;
    struct reduced reduced;
    struct reduced_node nodes[NODES];
    struct reduced_edge edges[EDGES_MOST];
    double costs[NODES][CHOICES_MOST], pairs[EDGES_MOST][CHOICES_MOST * CHOICES_MOST];
    int labels[NODES][CHOICES_MOST];
};

static void draw_reduced(struct draw *draw, struct arena *arena, struct drawn *of)
{
    *of = (struct drawn){.problem = {.node_count = NODES}};
    of->reduced = (struct reduced){
        .arena = arena, .problem = &of->problem, .nodes = of->nodes, .edges = of->edges};
    for (int i = 0; i < NODES; i++) {
        of->nodes[i] = (struct reduced_node){.count = draw_int(draw, 1, CHOICES_MOST),
                                             .labels = of->labels[i],
                                             .cost = of->costs[i],
                                             .is_gone = draw_int(draw, 0, 7) == 0};
        for (int x = 0; x < of->nodes[i].count; x++) {
            of->costs[i][x] = draw_int(draw, 0, 20);
            of->labels[i][x] = 7 * x + i;
        }
    }
    for (int a = 0; a < NODES; a++) {
        for (int b = a + 1; b < NODES; b++) {
            if (of->nodes[a].is_gone || of->nodes[b].is_gone || draw_int(draw, 0, 2) == 0) continue;
            int e = of->reduced.edge_count++, kind = draw_int(draw, 0, 3);
            bool turned = draw_int(draw, 0, 1);
            of->edges[e] = (struct reduced_edge){.ends = {turned ? b : a, turned ? a : b},
                                                 .cost = of->pairs[e],
                                                 .is_gone = draw_int(draw, 0, 7) == 0};
            // Some matrices are the same numbers, in one shape or another.
            for (int k = 0; k < of->nodes[a].count * of->nodes[b].count; k++)
                of->pairs[e][k] = kind == 0                   ? 3 * k
                                  : draw_int(draw, 0, 2) == 0 ? REDUCED_FORBIDDEN
                                                              : draw_int(draw, 0, 20);
        }
    }
}

static int edge_between(const struct drawn *of, int a, int b)
{
    for (int e = 0; e < of->reduced.edge_count; e++) {
        const int *ends = of->edges[e].ends;
        if (of->edges[e].is_gone) continue;
        if ((ends[0] == a && ends[1] == b) || (ends[0] == b && ends[1] == a)) return e;
    }
    return -1;
}

static double pair_cost(const struct drawn *of, int e, int a, int x, int y)
{
    const struct reduced_edge *edge = &of->edges[e];
    int columns = of->nodes[edge->ends[1]].count;
    return edge->ends[0] == a ? edge->cost[x * columns + y] : edge->cost[y * columns + x];
}

static void check_arc(const struct drawn *of, const struct choice_model *model, int node,
                      const struct model_arc *arc)
{
    int a = model->names[node], b = model->names[arc->node], e = edge_between(of, a, b);
    int rows = of->nodes[a].count, columns = of->nodes[b].count;
    bool forbids = false;
    assert_true(e >= 0);
    assert_int_equal(arc->side, of->edges[e].ends[0] != a);
    for (int x = 0; x < rows; x++) {
        for (int y = 0; y < columns; y++) {
            double cost = pair_cost(of, e, a, x, y);
            forbids |= cost == REDUCED_FORBIDDEN;
            assert_true(arc->cost[x * columns + y] == cost);
            assert_true(arc->turned[y * rows + x] == cost);
        }
    }
    assert_int_equal(arc->forbids, forbids);
    // Equal matrices of one shape are one.
    for (int i = 0; i < model->arc_starts[model->node_count]; i++) {
        const struct model_arc *other = &model->arcs[i];
        if (other->side != 0 || arc->side != 0 || other == arc) continue;
        int from = 0;
        while (model->arc_starts[from + 1] <= i)
            from++;
        bool is_shape =
            model_choices(model, from) == rows && model_choices(model, other->node) == columns;
        bool is_same =
            is_shape && !memcmp(other->cost, arc->cost, (size_t)(rows * columns) * sizeof(double));
        assert_int_equal(other->cost == arc->cost, is_same);
    }
}

static void what_is_left_is_laid_out_node_by_node(void **state)
{
    struct draw draw = {4711};
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct arena arena = {0};
        struct drawn of;
        draw_reduced(&draw, &arena, &of);
        const struct choice_model *model = model_make(&arena, &of.reduced);
        int left = 0, choices = 0, most = 0, edges = 0, messages = 0;
        int64_t entries = 0;
        for (int i = 0; i < NODES; i++) {
            if (of.nodes[i].is_gone) continue;
            assert_int_equal(model->names[left], i);
            assert_int_equal(model->starts[left++], choices);
            for (int x = 0; x < of.nodes[i].count; x++)
                assert_true(model->cost[choices + x] == of.costs[i][x]);
            choices += of.nodes[i].count;
            most = of.nodes[i].count > most ? of.nodes[i].count : most;
        }
        for (int e = 0; e < of.reduced.edge_count; e++) {
            const int *ends = of.edges[e].ends;
            if (of.edges[e].is_gone) continue;
            int rows = of.nodes[ends[0]].count, columns = of.nodes[ends[1]].count;
            assert_int_equal(model->messages[2 * edges], messages);
            assert_int_equal(model->messages[2 * edges++ + 1], messages + rows);
            messages += rows + columns;
            entries += rows * columns;
        }
        assert_int_equal(model->node_count, left);
        assert_int_equal(model->choice_count, choices);
        assert_int_equal(model->starts[left], choices);
        assert_int_equal(model->choices_most, most);
        assert_int_equal(model->edge_count, edges);
        assert_int_equal(model->message_count, messages);
        assert_int_equal(model->entry_count, entries);
        assert_int_equal(model->arc_starts[left], 2 * edges);
        for (int i = 0; i < left; i++)
            for (int k = model->arc_starts[i]; k < model->arc_starts[i + 1]; k++)
                check_arc(&of, model, i, &model->arcs[k]);
        assert_int_equal(model->point_count, 0);
        // Choices become the strategies that they are called.
        int choice[NODES] = {0}, strategies[NODES];
        for (int i = 0; i < left; i++)
            choice[i] = of.nodes[model->names[i]].count - 1;
        model_expand(model, &of.reduced, choice, strategies);
        for (int i = 0; i < left; i++)
            assert_int_equal(strategies[model->names[i]], 7 * choice[i] + model->names[i]);
        arena_free(&arena);
    }
}

struct open_choices {
    const struct choice_model *model;
    const struct dual *dual;
    bool alive[NODES][CHOICES_MOST], is_decided[NODES];
    bool is_stuck;  // a node is left with nothing: whose turn it was then matters
};

static int alive_count(const struct open_choices *open, int node)
{
    int count = 0;
    for (int x = 0; x < model_choices(open->model, node); x++)
        count += open->alive[node][x];
    return count;
}

// Takes from who is not decided what nothing left of a node that changed allows, until nothing
// changes.
static void narrow(struct open_choices *open, int from)
{
    const struct choice_model *model = open->model;
    bool changed[NODES] = {false};
    changed[from] = true;
    for (bool any = true; any;) {
        any = false;
        for (int node = 0; node < model->node_count; node++) {
            if (!changed[node]) continue;
            changed[node] = false;
            for (int k = model->arc_starts[node]; k < model->arc_starts[node + 1]; k++) {
                const struct model_arc *arc = &model->arcs[k];
                int other = arc->node, before = alive_count(open, other);
                int columns = model_choices(model, other);
                if (open->is_decided[other]) continue;
                for (int y = 0; y < columns; y++) {
                    bool allowed = false;
                    for (int x = 0; x < model_choices(model, node); x++)
                        allowed |= open->alive[node][x] &&
                                   arc->cost[x * columns + y] < REDUCED_FORBIDDEN / 2;
                    open->alive[other][y] &= allowed;
                }
                open->is_stuck |= alive_count(open, other) == 0;
                if (alive_count(open, other) == before) continue;
                changed[other] = any = true;
            }
        }
    }
}

static double score_of(const struct open_choices *open, int node, int x, const int *choice)
{
    const struct choice_model *model = open->model;
    const double *messages = open->dual->messages;
    double score = open->dual->reduced[model->starts[node] + x];
    for (int k = model->arc_starts[node]; k < model->arc_starts[node + 1]; k++) {
        const struct model_arc *arc = &model->arcs[k];
        int columns = model_choices(model, arc->node);
        const double *own = messages + model->messages[2 * arc->edge + arc->side];
        const double *theirs = messages + model->messages[2 * arc->edge + 1 - arc->side];
        double least = 1e300;
        for (int y = 0; y < columns; y++) {
            double at = arc->cost[x * columns + y] +
                        (open->alive[arc->node][y] ? theirs[y] : REDUCED_FORBIDDEN);
            if (at < least) least = at;
        }
        if (open->is_decided[arc->node]) least = arc->cost[x * columns + choice[arc->node]];
        score += least + own[x];
    }
    return score;
}

static double key_of(const struct open_choices *open, enum round_order order, int node)
{
    const struct choice_model *model = open->model;
    const double *reduced = open->dual->reduced + model->starts[node];
    double low = 1e300, next = 1e300;
    if (order == ROUND_ONWARDS) return -node;
    if (order == ROUND_BACK) return node;
    if (order == ROUND_BY_DEGREE) return model->arc_starts[node + 1] - model->arc_starts[node];
    for (int x = 0; x < model_choices(model, node); x++) {
        if (reduced[x] < low)
            next = low, low = reduced[x];
        else if (reduced[x] < next)
            next = reduced[x];
    }
    return next - low;
}

static void choose_by_hand(struct open_choices *open, enum round_order order, int *choice)
{
    const struct choice_model *model = open->model;
    for (int i = 0; i < model->node_count; i++) {
        int node = -1, best = -1;
        for (int other = 0; other < model->node_count; other++) {
            if (open->is_decided[other]) continue;
            if (node < 0 || key_of(open, order, other) > key_of(open, order, node)) node = other;
        }
        for (int x = 0; x < model_choices(model, node); x++) {
            if (!open->alive[node][x]) continue;
            if (best < 0 || score_of(open, node, x, choice) < score_of(open, node, best, choice))
                best = x;
        }
        if (open->is_stuck) return;
        bool narrows = alive_count(open, node) > 1;
        choice[node] = best;
        for (int x = 0; x < CHOICES_MOST; x++)
            open->alive[node][x] = x == best;
        open->is_decided[node] = true;
        if (narrows) narrow(open, node);
    }
}

static void choices_are_read_off_one_after_the_other(void **state)
{
    struct draw draw = {1711};
    int checked = 0;
    (void)state;
    for (int round = 0; round < 1200; round++) {
        struct arena arena = {0};
        struct drawn of;
        draw_reduced(&draw, &arena, &of);
        const struct choice_model *model = model_make(&arena, &of.reduced);
        struct dual *dual = dual_new(&arena, model);
        for (int i = 0; i < model->message_count; i++)
            dual->messages[i] = draw_int(&draw, -4, 4);
        for (int x = 0; x < model->choice_count; x++)
            dual->reduced[x] += draw_int(&draw, -4, 4);
        struct rounding *rounding = rounding_new(&arena, dual);
        for (int order = 0; order < ROUND_ORDER_COUNT; order++) {
            struct open_choices open = {.model = model, .dual = dual};
            int choice[NODES] = {0}, wanted[NODES] = {0};
            memset(open.alive, 1, sizeof open.alive);
            rounding_choose(rounding, (enum round_order)order, choice);
            for (int i = 0; i < model->node_count; i++)
                assert_in_range(choice[i], 0, model_choices(model, i) - 1);
            choose_by_hand(&open, (enum round_order)order, wanted);
            if (open.is_stuck) continue;
            checked++;
            assert_memory_equal(choice, wanted, (size_t)model->node_count * sizeof *choice);
        }
        arena_free(&arena);
    }
    assert_in_range(checked, 1000, 4800);
}

// What a node uses over time stays what it is, in parts that follow each other, as few as say it.
static void parts_of_time_become_flat(void **state)
{
    struct draw draw = {99};
    int joined = 0;
    (void)state;
    for (int round = 0; round < 1500; round++) {
        struct arena arena = {0};
        struct drawn of;
        double used[TIMES][CHOICES_MOST] = {{0}};
        draw_reduced(&draw, &arena, &of);
        struct reduced_node *node = &of.nodes[0];
        node->is_gone = false;
        int count = draw_int(&draw, 2, 5), wanted = 0;
        node->parts = ARENA_NEW(&arena, struct reduced_part, count);
        node->part_count = count;
        for (int p = 0; p < count; p++) {
            int birth = draw_int(&draw, 0, TIMES - 1), death = draw_int(&draw, birth, TIMES);
            double *usage = ARENA_NEW(&arena, double, node->count);
            for (int x = 0; x < node->count; x++)
                usage[x] = draw_int(&draw, 0, 2);
            node->parts[p] = (struct reduced_part){birth, death, usage};
            for (int t = birth; t < death; t++)
                for (int x = 0; x < node->count; x++)
                    used[t][x] += usage[x];
        }
        reduced_flatten(&of.reduced);
        size_t bytes = (size_t)node->count * sizeof(double);
        static const double NOTHING[CHOICES_MOST];
        for (int t = 0; t < TIMES; t++) {
            bool is_nothing = !memcmp(used[t], NOTHING, bytes);
            wanted += !is_nothing && (t == 0 || memcmp(used[t], used[t - 1], bytes));
        }
        assert_int_equal(node->part_count, wanted);
        joined += wanted < count;
        for (int t = 0; t < TIMES; t++) {
            const double *found = NOTHING;
            for (int p = 0; p < node->part_count; p++)
                if (node->parts[p].birth <= t && t < node->parts[p].death)
                    found = node->parts[p].usage;
            assert_memory_equal(found, used[t], bytes);
        }
        for (int p = 1; p < node->part_count; p++)
            assert_true(node->parts[p - 1].death <= node->parts[p].birth);
        arena_free(&arena);
    }
    assert_true(joined > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_is_laid_out_node_by_node),
        cmocka_unit_test(choices_are_read_off_one_after_the_other),
        cmocka_unit_test(parts_of_time_become_flat),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
