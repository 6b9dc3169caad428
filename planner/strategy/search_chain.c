#include "planner/strategy/search.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double REFUSED = REDUCED_FORBIDDEN / 2;

enum { CHAIN_MOST = 400 };

// Sets a node for the chain; it is not set again.
static void set_node(struct choice_search *search, int node, int choice)
{
    assert(!search->is_taken[node] && "a chain sets a node once");
    int chosen[] = {choice};
    search->journal_nodes[search->journal_count] = node;
    search->journal_choices[search->journal_count++] = search->state->choice[node];
    search->is_taken[node] = 1;
    state_move(search->state, &node, 1, chosen, NULL);
}

// The cheapest choice of a node beside what the chain has set; neighbours that it would have to
// take along count what they cost at least. -1: the chain breaks.
static int follow(struct choice_search *search, int node, double price_ratio)
{
    const struct choice_model *model = search->model;
    int best = -1, start = model->starts[node];
    double least = REFUSED;
    for (int x = 0; x < model_choices(model, node); x++) {
        double score = model->cost[start + x] + price_ratio * search->priced[start + x];
        for (int a = model->arc_starts[node]; a < model->arc_starts[node + 1]; a++) {
            const struct model_arc *arc = &model->arcs[a];
            int others = model_choices(model, arc->node);
            double at = arc->cost[x * others + search->state->choice[arc->node]];
            if (at >= REFUSED && search->is_taken[arc->node]) score = INFINITY;
            if (at < REFUSED) score += at;
        }
        search->other_work += model->arc_starts[node + 1] - model->arc_starts[node];
        if (score < least) least = score, best = x;
    }
    return best;
}

// Lets the neighbours of each set node that no longer fit it follow.
static bool run_chain(struct choice_search *search, double price_ratio)
{
    const struct choice_model *model = search->model;
    for (int i = 0; i < search->journal_count; i++) {
        int node = search->journal_nodes[i], own = search->state->choice[node];
        for (int a = model->arc_starts[node]; a < model->arc_starts[node + 1]; a++) {
            const struct model_arc *arc = &model->arcs[a];
            int others = model_choices(model, arc->node);
            if (arc->cost[own * others + search->state->choice[arc->node]] < REFUSED) continue;
            if (search->is_taken[arc->node] || search->journal_count == CHAIN_MOST) return false;
            int choice = follow(search, arc->node, price_ratio);
            if (choice < 0) return false;
            set_node(search, arc->node, choice);
        }
    }
    return true;
}

// Windows around what the chain has set, by the same goal; their moves join the journal.
static void polish(struct choice_search *search, enum search_goal goal, double price_ratio)
{
    enum { SIZE = 240, TRIES = 4 };
    int set = search->journal_count, nodes[SIZE], chosen[SIZE];
    const struct choice_model *model = search->model;
    for (int try = 0; try < TRIES && try * 60 <= set; try++) {
        int count = 0;
        nodes[count++] = search->journal_nodes[try == 0 ? 0 : search_draw(search, set)];
        search->front[nodes[0]] = 1;
        for (int i = 0; i < count && count < SIZE; i++) {
            for (int a = model->arc_starts[nodes[i]];
                 a < model->arc_starts[nodes[i] + 1] && count < SIZE; a++) {
                int other = model->arcs[a].node;
                // The node that the chain began with keeps its choice.
                if (search->front[other] || other == search->journal_nodes[0]) continue;
                search->front[other] = 1;
                nodes[count++] = other;
            }
        }
        for (int i = 0; i < count; i++)
            search->front[nodes[i]] = 0;
        struct window_options options = {
            .priced = search->priced, .price_ratio = price_ratio, .table_cap = 16384};
        if (goal == SEARCH_REPAIR && search->hot_point >= 0)
            options.extras[options.extra_count++] =
                (struct window_extra){search->hot_point, search->excess_price};
        int skip = nodes[0] == search->journal_nodes[0];
        window_solve(search->window, &options, nodes + skip, count - skip, search->state->choice);
        memcpy(chosen, search->window->chosen, sizeof chosen);
        state_move(search->state, nodes + skip, count - skip, chosen, NULL);
        for (int i = 0; i + skip < count; i++) {
            if (search->is_taken[nodes[i + skip]] ||
                chosen[i] == search->state->choice[nodes[i + skip]])
                continue;
            search->is_taken[nodes[i + skip]] = 1;
            search->journal_nodes[search->journal_count] = nodes[i + skip];
            search->journal_choices[search->journal_count++] = chosen[i];
        }
    }
}

// What the chain's nodes are priced at, more than before it.
static double priced_change(const struct choice_search *search)
{
    double sum = 0;
    for (int i = 0; i < search->journal_count; i++) {
        int node = search->journal_nodes[i];
        const double *priced = search->priced + search->model->starts[node];
        sum += priced[search->state->choice[node]] - priced[search->journal_choices[i]];
    }
    return sum;
}

static int first_node(struct choice_search *search, enum search_goal goal)
{
    const struct choice_model *model = search->model;
    if (goal == SEARCH_REPAIR && search->hot_point >= 0) {
        int count = search_grow(search, 1, true);
        if (count > 0) return search->nodes[0];
    }
    return search_draw(search, model->node_count);
}

bool search_chain(struct choice_search *search, enum search_goal goal)
{
    const struct choice_model *model = search->model;
    int node = first_node(search, goal), count = model_choices(model, node);
    if (count < 2) return false;
    int choice = search_draw(search, count - 1);
    choice += choice >= search->state->choice[node];
    assert(choice != search->state->choice[node]);
    double merit = search_merit(search, goal), price_ratio = search_draw(search, 5) / 4.0;
    int64_t forbidden = search->state->forbidden;
    search->journal_count = 0;
    set_node(search, node, choice);
    memset(search->front, 0, (size_t)model->node_count * sizeof(int));
    search->other_work += model->node_count / 8;
    bool ok = run_chain(search, price_ratio);
    if (ok) polish(search, goal, price_ratio);
    double after = search_merit(search, goal);
    if (goal == SEARCH_FEASIBLE && search->trade > 0)
        after += search->trade * priced_change(search);
    ok = ok && search->state->forbidden <= forbidden && after <= merit &&
         (goal != SEARCH_FEASIBLE || search->state->excess <= 0);
    bool gains = ok && after < merit;
    for (int i = 0; i < search->journal_count; i++)
        search->is_taken[search->journal_nodes[i]] = 0;
    if (!ok) {
        state_move(search->state, search->journal_nodes, search->journal_count,
                   search->journal_choices, NULL);
    }
    return gains;
}
