#include "planner/strategy/window_tables.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Cells that a table and a line of costs may still take.
enum { SCOPE_MOST = 20, SPARE = 1 << 18 };

static double *take_cells(struct choice_window *window, int64_t count)
{
    assert(window->cell_count + count <= window->cell_most);
    double *cells = window->cells + window->cell_count;
    window->cell_count += count;
    return cells;
}

// The edges between two nodes that are both free, cut down to what they may choose.
static bool put_pairs(struct choice_window *window)
{
    const struct choice_model *model = window->model;
    for (int i = 0; i < window->count; i++) {
        int node = window->nodes[i];
        if (window->is_fixed[i]) continue;
        for (int a = model->arc_starts[node]; a < model->arc_starts[node + 1]; a++) {
            const struct model_arc *arc = &model->arcs[a];
            int j = window->index_of[arc->node];
            if (j < 0 || arc->side == 1 || window->is_fixed[j]) continue;
            int others = model_choices(model, arc->node);
            int64_t count = (int64_t)window->sizes[i] * window->sizes[j];
            if (window->cell_count + count + SPARE > window->cell_most ||
                window->factor_count == WINDOW_PAIRS) {
                return false;
            }
            double *cells = take_cells(window, count);
            struct window_factor *factor = &window->factors[window->factor_count++];
            *factor = (struct window_factor){.scope = {i, j}, .count = 2, .cells = cells};
            for (int x = 0; x < window->sizes[i]; x++) {
                const double *row = arc->cost + (size_t)window->domains[i][x] * (size_t)others;
                for (int y = 0; y < window->sizes[j]; y++)
                    *cells++ = row[window->domains[j][y]];
            }
        }
    }
    return true;
}

// A factor of the node that is eliminated, walked along with the table that takes its place.
struct table_walk {
    const double *cells;
    int own;                // step of the node itself
    int steps[SCOPE_MOST];  // of each variable of the table
};

struct elimination {
    int scope[SCOPE_MOST], count, size;
    struct table_walk walks[2 * WINDOW_MOST];
    int walk_count;
};

static int position(const int *scope, int count, int variable)
{
    int at = 0;
    while (at < count && scope[at] != variable)
        at++;
    return at;
}

// Gathers the factors of a node and the scope of its table.
static void gather(struct choice_window *window, int node, struct elimination *elimination)
{
    struct window_factor of_node[2 * WINDOW_MOST];
    elimination->count = elimination->walk_count = 0;
    elimination->size = 1;
    for (int f = window->factor_count - 1; f >= 0; f--) {
        const struct window_factor *factor = &of_node[elimination->walk_count];
        const struct window_factor *at = &window->factors[f];
        if (position(at->scope, at->count, node) == at->count) continue;
        of_node[elimination->walk_count++] = *at;
        window->factors[f] = window->factors[--window->factor_count];
        for (int s = 0; s < factor->count; s++) {
            int variable = factor->scope[s];
            if (variable == node) continue;
            if (position(elimination->scope, elimination->count, variable) < elimination->count) {
                continue;
            }
            assert(elimination->count < SCOPE_MOST && "tables have a cap, nodes two choices");
            elimination->scope[elimination->count++] = variable;
            elimination->size *= window->sizes[variable];
        }
    }
    for (int f = 0; f < elimination->walk_count; f++) {
        struct table_walk *walk = &elimination->walks[f];
        int step = 1;
        *walk = (struct table_walk){.cells = of_node[f].cells};
        for (int s = of_node[f].count - 1; s >= 0; s--) {
            int variable = of_node[f].scope[s];
            if (variable == node)
                walk->own = step;
            else
                walk->steps[position(elimination->scope, elimination->count, variable)] = step;
            step *= window->sizes[variable];
        }
    }
}

static double least_of(const double *costs, int count, unsigned short *best)
{
    int at = 0;
    for (int x = 1; x < count; x++)
        if (costs[x] < costs[at]) at = x;
    *best = (unsigned short)at;
    return costs[at];
}

static void step_on(const struct choice_window *window, struct elimination *elimination,
                    int *digits)
{
    for (int s = elimination->count - 1; s >= 0; s--) {
        bool wraps = ++digits[s] == window->sizes[elimination->scope[s]];
        int by = wraps ? 1 - window->sizes[elimination->scope[s]] : 1;
        for (int f = 0; f < elimination->walk_count; f++)
            elimination->walks[f].cells += (ptrdiff_t)by * elimination->walks[f].steps[s];
        if (!wraps) return;
        digits[s] = 0;
    }
}

static void fill_table(struct choice_window *window, int node, struct elimination *elimination,
                       double *table, unsigned short *best)
{
    int digits[SCOPE_MOST] = {0}, count = window->sizes[node];
    double *costs = window->cells + window->cell_count;
    for (int at = 0; at < elimination->size; at++) {
        memcpy(costs, window->unary[node], (size_t)count * sizeof(double));
        for (int f = 0; f < elimination->walk_count; f++) {
            const struct table_walk *walk = &elimination->walks[f];
            for (int x = 0; x < count; x++)
                costs[x] += walk->cells[x * walk->own];
        }
        table[at] = least_of(costs, count, &best[at]);
        step_on(window, elimination, digits);
    }
    window->work += (int64_t)elimination->size * count * (elimination->walk_count + 1);
}

static void eliminate(struct choice_window *window, int at, struct elimination *elimination)
{
    int node = window->order[at];
    gather(window, node, elimination);
    double *table = take_cells(window, elimination->size);
    unsigned short *best = window->bests + window->best_count;
    window->best_count += elimination->size;
    fill_table(window, node, elimination, table, best);
    window->traces[at].count = elimination->count;
    window->traces[at].best = best;
    memcpy(window->traces[at].scope, elimination->scope, sizeof elimination->scope);
    if (elimination->count == 1) {
        for (int x = 0; x < elimination->size; x++)
            window->unary[elimination->scope[0]][x] += table[x];
    } else if (elimination->count > 1) {
        struct window_factor *factor = &window->factors[window->factor_count++];
        *factor = (struct window_factor){.count = elimination->count, .cells = table};
        memcpy(factor->scope, elimination->scope, sizeof elimination->scope);
    }
}

void window_tables_solve(struct choice_window *window, const int *choice)
{
    struct elimination elimination;
    int picked[WINDOW_MOST] = {0};
    bool fits = put_pairs(window);
    for (int at = 0; at < window->order_count; at++) {
        // Out of room: nothing is chosen anew.
        fits = fits && window->cell_count + SPARE <= window->cell_most;
        if (!fits) {
            for (int i = 0; i < window->count; i++)
                window->chosen[i] = choice[window->nodes[i]];
            return;
        }
        eliminate(window, at, &elimination);
    }
    for (int at = window->order_count - 1; at >= 0; at--) {
        int index = 0, node = window->order[at];
        for (int s = 0; s < window->traces[at].count; s++) {
            int variable = window->traces[at].scope[s];
            index = index * window->sizes[variable] + picked[variable];
        }
        picked[node] = window->traces[at].best[index];
        window->chosen[node] = window->domains[node][picked[node]];
    }
}
