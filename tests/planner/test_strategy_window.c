#include "planner/strategy/window.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>

// Windows of drawn problems against all choices of their nodes, one by one.

enum { NODES = 9, CHOICES = 4, EDGES = 18, TIMES = 6 };

static const char *list_text(struct arena *arena, struct draw *draw, int count, int most,
                             int forbidden_percent)
{
    const char *text = "";
    for (int i = 0; i < count; i++) {
        bool is_forbidden = draw_int(draw, 1, 100) <= forbidden_percent;
        text = arena_print(arena, "%s%s%lld", text, i ? "," : "[",
                           is_forbidden ? (long long)STRATEGY_FORBIDDEN
                                        : (long long)draw_int(draw, 0, most));
    }
    return arena_print(arena, "%s]", text);
}

// Every node is on several edges, so that little of it can be made smaller.
static struct choice_model *draw_model(struct arena *arena, struct draw *draw, int forbidden)
{
    const char *intervals = "", *costs = "", *usages = "", *ends = "", *pairs = "";
    for (int i = 0; i < NODES; i++) {
        const char *comma = i ? "," : "";
        int birth = draw_int(draw, 0, TIMES - 1);
        intervals = arena_print(arena, "%s%s[%d,%d]", intervals, comma, birth,
                                draw_int(draw, birth + 1, TIMES));
        costs = arena_print(arena, "%s%s%s", costs, comma, list_text(arena, draw, CHOICES, 30, 0));
        usages = arena_print(arena, "%s%s%s", usages, comma, list_text(arena, draw, CHOICES, 9, 0));
    }
    for (int e = 0; e < EDGES; e++) {
        const char *comma = e ? "," : "";
        int from = e % NODES, to = (from + 1 + e / NODES * draw_int(draw, 1, 3)) % NODES;
        ends = arena_print(arena, "%s%s[%d,%d]", ends, comma, from, to);
        pairs = arena_print(arena, "%s%s%s", pairs, comma,
                            list_text(arena, draw, CHOICES * CHOICES, 60, forbidden));
    }
    const char *text =
        arena_print(arena,
                    "{\"problem\":{\"nodes\":{\"intervals\":[%s],\"costs\":[%s],\"usages\":[%s]},"
                    "\"edges\":{\"nodes\":[%s],\"costs\":[%s]},\"usage_limit\":%d}}",
                    intervals, costs, usages, ends, pairs, 4 * NODES);
    struct strategy_problem *problem = ARENA_NEW(arena, struct strategy_problem, 1);
    struct err err = {0};
    assert_true(strategy_problem_parse(arena, "drawn", text, strlen(text), problem, &err));
    return model_make(arena, reduced_make(arena, problem));
}

// What a choice of all nodes costs with the options' prices; INFINITY: a pair is forbidden.
static double cost_of(const struct choice_model *model, const struct window_options *options,
                      const int *choice)
{
    double cost = 0;
    for (int i = 0; i < model->node_count; i++) {
        int at = model->starts[i] + choice[i];
        cost += model->cost[at];
        if (options->priced) cost += options->price_ratio * options->priced[at];
        for (int p = model->part_starts[i]; p < model->part_starts[i + 1]; p++) {
            const struct model_part *part = &model->parts[p];
            for (int k = 0; k < options->extra_count; k++) {
                const struct window_extra *extra = &options->extras[k];
                if (part->birth <= extra->point && extra->point < part->death)
                    cost += extra->price * model->usages[part->usage + choice[i]];
            }
        }
        for (int a = model->arc_starts[i]; a < model->arc_starts[i + 1]; a++) {
            const struct model_arc *arc = &model->arcs[a];
            int others = model_choices(model, arc->node);
            if (arc->side == 0) cost += arc->cost[choice[i] * others + choice[arc->node]];
        }
    }
    return cost >= REDUCED_FORBIDDEN / 2 ? INFINITY : cost;
}

static bool may_be(const struct window_options *options, const struct choice_model *model, int node,
                   int choice, int before)
{
    return choice == before || !options->allowed || options->allowed[model->starts[node] + choice];
}

static double least_of(const struct choice_model *model, const struct window_options *options,
                       const int *nodes, int count, const int *before)
{
    int choice[NODES], digits[NODES] = {0};
    double least = INFINITY;
    memcpy(choice, before, sizeof choice);
    for (;;) {
        bool may = true;
        for (int i = 0; i < count; i++) {
            choice[nodes[i]] = digits[i];
            may = may && may_be(options, model, nodes[i], digits[i], before[nodes[i]]);
        }
        if (may) least = fmin(least, cost_of(model, options, choice));
        int i = 0;
        while (i < count && ++digits[i] == model_choices(model, nodes[i]))
            digits[i++] = 0;
        if (i == count) return least;
    }
}

struct asked {
    struct choice_model *model;
    struct choice_window *window;
    int nodes[NODES], count, before[NODES];
    double priced[NODES * CHOICES];
    unsigned char allowed[NODES * CHOICES];
    struct window_options options;
};

static void draw_question(struct draw *draw, struct asked *asked)
{
    struct choice_model *model = asked->model;
    int first = draw_int(draw, 0, model->node_count - 1),
        most = model->node_count < 6 ? model->node_count : 6;
    asked->count = draw_int(draw, 1, most);
    for (int i = 0; i < asked->count; i++)
        asked->nodes[i] = (first + 2 * i) % model->node_count;
    for (int i = 0; i < asked->count; i++)
        for (int k = 0; k < i; k++)
            if (asked->nodes[k] == asked->nodes[i]) asked->count = i;
    for (int i = 0; i < model->node_count; i++)
        asked->before[i] = draw_int(draw, 0, model_choices(model, i) - 1);
    for (int i = 0; i < model->choice_count; i++) {
        asked->priced[i] = draw_int(draw, 0, 20);
        asked->allowed[i] = draw_int(draw, 0, 2) > 0;
    }
    asked->options = (struct window_options){.table_cap = 1 << 14};
    if (draw_int(draw, 0, 1)) asked->options.priced = asked->priced;
    if (draw_int(draw, 0, 1)) asked->options.allowed = asked->allowed;
    asked->options.price_ratio = draw_int(draw, 0, 2);
    asked->options.extra_count = model->point_count > 0 ? draw_int(draw, 0, 2) : 0;
    for (int k = 0; k < asked->options.extra_count; k++)
        asked->options.extras[k] =
            (struct window_extra){draw_int(draw, 0, model->point_count - 1), draw_int(draw, 1, 5)};
}

// The choice with the window's answer in it.
static double answer_of(struct asked *asked)
{
    int choice[NODES];
    memcpy(choice, asked->before, sizeof choice);
    window_solve(asked->window, &asked->options, asked->nodes, asked->count, asked->before);
    for (int i = 0; i < asked->count; i++) {
        int node = asked->nodes[i], chosen = asked->window->chosen[i];
        assert_in_range(chosen, 0, model_choices(asked->model, node) - 1);
        assert_true(may_be(&asked->options, asked->model, node, chosen, asked->before[node]));
        choice[node] = chosen;
    }
    return cost_of(asked->model, &asked->options, choice);
}

static void windows_are_solved_as_by_trying_all(void **state)
{
    (void)state;
    struct draw draw = draw_start("windows", 20261129);
    int solved = 0, better = 0, large = 0;
    for (int i = 0; i < 30; i++) {
        struct arena arena = {0};
        struct asked asked = {.model = draw_model(&arena, &draw, i % 3 * 10)};
        asked.window = window_new(&arena, asked.model);
        for (int k = 0; k < 20 && asked.model->node_count > 1; k++) {
            draw_question(&draw, &asked);
            double before = cost_of(asked.model, &asked.options, asked.before);
            double least =
                least_of(asked.model, &asked.options, asked.nodes, asked.count, asked.before);
            int64_t work = asked.window->work;
            double found = answer_of(&asked);
            assert_true(found == least || fabs(found - least) < 1e-9);
            assert_true(asked.window->work > work);
            solved++, better += found<before, large += asked.count> 3;
            // Tables that hold little leave some as they are.
            asked.options.table_cap = 1;
            found = answer_of(&asked);
            assert_true(found >= least - 1e-9 && found <= before + 1e-9);
        }
        arena_free(&arena);
    }
    printf("# %d windows, %d of them better than before, %d of more than 3 nodes\n", solved, better,
           large);
    assert_true(solved > 300 && better > 150 && large > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_solved_as_by_trying_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
