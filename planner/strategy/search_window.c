#include "planner/strategy/search.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// A node that uses memory at the point, from a random start; -1: there is none.
static int node_at(struct choice_search *search, int point)
{
    const struct choice_model *model = search->model;
    if (model->part_count == 0) return -1;
    int start = search_draw(search, model->part_count);
    for (int i = 0; i < model->part_count; i++) {
        int p = start + i < model->part_count ? start + i : start + i - model->part_count;
        search->other_work++;
        if (model->parts[p].birth <= point && point < model->parts[p].death) {
            return model->part_nodes[p];
        }
    }
    return -1;
}

static int point_of(struct choice_search *search, int node)
{
    const struct choice_model *model = search->model;
    int count = model->part_starts[node + 1] - model->part_starts[node];
    if (count == 0) return -1;
    const struct model_part *part =
        &model->parts[model->part_starts[node] + search_draw(search, count)];
    return part->birth + search_draw(search, part->death - part->birth);
}

static int put_near(struct choice_search *search, int node, int front_count)
{
    const struct choice_model *model = search->model;
    for (int a = model->arc_starts[node]; a < model->arc_starts[node + 1]; a++) {
        int other = model->arcs[a].node;
        if (search->is_taken[other]) continue;
        search->is_taken[other] = 1;
        search->front[front_count++] = other;
    }
    return front_count;
}

static int seed_of(struct choice_search *search, bool has_excess)
{
    int seed = has_excess && search->hot_point >= 0 ? node_at(search, search->hot_point) : -1;
    return seed >= 0 ? seed : search_draw(search, search->model->node_count);
}

int search_grow(struct choice_search *search, int size, bool has_excess)
{
    assert(size >= 1 && size <= WINDOW_MOST);
    const struct choice_model *model = search->model;
    int count = 0, front_count = 0, seed = seed_of(search, has_excess), second = -1;
    bool is_wide = search_draw(search, 2) == 0;
    if (size > model->node_count) size = model->node_count;
    search->is_taken[seed] = 1;
    search->front[front_count++] = seed;
    if (search_draw(search, 3) == 0) {
        int point = has_excess ? search->hot_point : point_of(search, seed);
        if (point >= 0) second = node_at(search, point);
    }
    if (second >= 0 && !search->is_taken[second]) {
        search->is_taken[second] = 1;
        search->front[front_count++] = second;
    }
    int first = 0;
    while (count < size && first < front_count) {
        // In the order of distance, or anywhere along the front.
        int at = is_wide ? first : first + search_draw(search, front_count - first);
        int node = search->front[at];
        search->front[at] = search->front[first];
        search->front[first++] = node;
        search->nodes[count++] = node;
        front_count = put_near(search, node, front_count);
    }
    for (int i = 0; i < front_count; i++)
        search->is_taken[search->front[i]] = 0;
    search->other_work += front_count + 4 * count;
    return count;
}

// Allows what a few of the pool choose.
static void allow_pool(struct choice_search *search, int count)
{
    assert(search->pool_count > 0);
    enum { PLANS = 4 };
    const struct choice_model *model = search->model;
    int known = search->pool_count < SEARCH_POOL ? search->pool_count : SEARCH_POOL;
    int plans = 1 + search_draw(search, PLANS);
    for (int i = 0; i < count; i++) {
        int node = search->nodes[i];
        memset(search->allowed + model->starts[node], 0, (size_t)model_choices(model, node));
    }
    for (int plan = 0; plan < plans; plan++) {
        const int *choice = search->pool[search_draw(search, known)];
        for (int i = 0; i < count; i++)
            search->allowed[model->starts[search->nodes[i]] + choice[search->nodes[i]]] = 1;
    }
}

static double priced_of(const struct choice_search *search, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        int node = search->nodes[i];
        sum += search->priced[search->model->starts[node] + search->state->choice[node]];
    }
    return sum;
}

struct standing {
    double merit, cost, excess;
    int64_t forbidden;
};

static struct standing standing_of(const struct choice_search *search, enum search_goal goal,
                                   int count)
{
    struct standing standing = {
        .cost = search->state->cost,
        .excess = search->state->excess,
        .forbidden = search->state->forbidden,
    };
    double ratio = goal == SEARCH_PRICED ? 1 : goal == SEARCH_FEASIBLE ? search->trade : 0;
    standing.merit = search_merit(search, goal);
    if (ratio > 0) standing.merit += ratio * priced_of(search, count);
    return standing;
}

static bool is_better(enum search_goal goal, const struct standing *before,
                      const struct standing *after)
{
    if (after->forbidden != before->forbidden) return after->forbidden < before->forbidden;
    if (goal == SEARCH_FEASIBLE && after->excess > 0) return false;
    return after->merit <= before->merit + (goal == SEARCH_PRICED ? INFINITY : 0);
}

// What it costs more at the point that it exceeds, so that the next answer leaves it alone.
static void charge_point(struct choice_search *search, struct window_options *options, int point,
                         double gain, double over)
{
    static const double AT_LEAST = 1e-6;
    double factor = 0.6 + 0.1 * search_draw(search, 9);
    double price = factor * fmax(gain, 1) / fmax(over, 1);
    if (options->extra_count == WINDOW_EXTRAS) return;
    options->extras[options->extra_count++] = (struct window_extra){point, fmax(price, AT_LEAST)};
}

// Tries an answer: kept where it serves the goal. `again`: the next try may do better.
static double try_answer(struct choice_search *search, enum search_goal goal, int count,
                         struct window_options *options, bool *again)
{
    struct standing before = standing_of(search, goal, count);
    bool moves = false;
    for (int i = 0; i < count; i++) {
        search->chosen[i] = search->window->chosen[i];
        moves |= search->chosen[i] != search->state->choice[search->nodes[i]];
    }
    *again = false;
    if (!moves) return 0;
    int point = -1;
    state_move(search->state, search->nodes, count, search->chosen, &point);
    struct standing after = standing_of(search, goal, count);
    if (is_better(goal, &before, &after)) {
        double gain = before.merit - after.merit;
        return gain > 0 || after.forbidden < before.forbidden ? fmax(gain, 1) : 0;
    }
    double over = point >= 0 ? search->state->used[point] - search->model->room[point] : 0;
    state_move(search->state, search->nodes, count, search->chosen, NULL);
    *again = goal == SEARCH_FEASIBLE;
    if (point >= 0 && after.merit <= before.merit)
        charge_point(search, options, point, before.merit - after.merit, over);
    else if (options->price_ratio > search->trade)
        options->price_ratio =
            fmax(search->trade, options->price_ratio < 0.05 ? 0 : 0.4 * options->price_ratio);
    else
        *again = false;
    return 0;
}

double search_window(struct choice_search *search, enum search_goal goal,
                     const struct search_arm *arm, int count)
{
    enum { TRIES = 6, RATIOS = 4 };
    bool from_pool = arm->from_pool && search->pool_count > 0, again = true;
    struct window_options options = {
        .priced = search->priced,
        .price_ratio = goal == SEARCH_PRICED ? 1 : search_draw(search, RATIOS + 1) / (double)RATIOS,
        .allowed = from_pool ? search->allowed : NULL,
        .table_cap = arm->table_cap,
    };
    if (goal == SEARCH_FEASIBLE) options.price_ratio = fmax(options.price_ratio, search->trade);
    if (goal == SEARCH_REPAIR && search_draw(search, 3) > 0) {
        options.priced = search->repair_priced;
        options.price_ratio = 1;
    } else if (goal == SEARCH_REPAIR && search->hot_point >= 0) {
        options.extras[options.extra_count++] =
            (struct window_extra){search->hot_point, search->excess_price};
    }
    if (from_pool) allow_pool(search, count);
    double gain = 0;
    for (int i = 0; i < TRIES && again && gain == 0; i++) {
        window_solve(search->window, &options, search->nodes, count, search->state->choice);
        search->other_work += 20 * count;
        gain = try_answer(search, goal, count, &options, &again);
    }
    return gain;
}
