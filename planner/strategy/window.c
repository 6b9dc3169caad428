#include "planner/strategy/window.h"
#include "core/random.h"
#include "planner/strategy/window_tables.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { CELLS = 1 << 21 };

struct choice_window *window_new(struct arena *arena, const struct choice_model *model)
{
    struct choice_window *window = ARENA_NEW(arena, struct choice_window, 1);
    window->model = model;
    window->index_of = ARENA_NEW(arena, int, model->node_count);
    for (int i = 0; i < model->node_count; i++)
        window->index_of[i] = -1;
    window->cell_most = CELLS + 2 * (int64_t)WINDOW_MOST * model->choices_most;
    window->cells = ARENA_NEW(arena, double, window->cell_most);
    window->bests = ARENA_NEW(arena, unsigned short, window->cell_most);
    window->labels = ARENA_NEW(arena, int, WINDOW_MOST * model->choices_most);
    return window;
}

static double extra_cost(const struct choice_window *window, const struct window_options *options,
                         int node, int choice)
{
    const struct choice_model *model = window->model;
    double sum = 0;
    for (int p = model->part_starts[node]; p < model->part_starts[node + 1]; p++) {
        const struct model_part *part = &model->parts[p];
        for (int i = 0; i < options->extra_count; i++) {
            const struct window_extra *extra = &options->extras[i];
            if (extra->point < part->birth || extra->point >= part->death) continue;
            sum += extra->price * model->usages[part->usage + choice];
        }
    }
    return sum;
}

// What a node may choose and what that costs beside the nodes outside.
static void open_node(struct choice_window *window, const struct window_options *options, int i,
                      const int *choice)
{
    const struct choice_model *model = window->model;
    int node = window->nodes[i], start = model->starts[node], own = choice[node], kept = 0;
    int count = model_choices(model, node);
    double *unary = window->cells + window->cell_count;
    int *domain = window->labels + window->label_count;
    for (int x = 0; x < count; x++) {
        unary[x] = model->cost[start + x];
        if (options->priced) unary[x] += options->price_ratio * options->priced[start + x];
        if (options->extra_count) unary[x] += extra_cost(window, options, node, x);
    }
    for (int a = model->arc_starts[node]; a < model->arc_starts[node + 1]; a++) {
        const struct model_arc *arc = &model->arcs[a];
        if (window->index_of[arc->node] >= 0) continue;
        const double *costs = arc->turned + (size_t)choice[arc->node] * (size_t)count;
        for (int x = 0; x < count; x++)
            unary[x] += costs[x];
        window->work += count;
    }
    for (int x = 0; x < count; x++) {
        bool may = !options->allowed || options->allowed[start + x];
        if (x != own && (!may || unary[x] >= REDUCED_FORBIDDEN / 2)) continue;
        domain[kept] = x;
        unary[kept++] = unary[x];
    }
    assert(kept > 0 && "what the node has stays open to it");
    window->domains[i] = domain;
    window->unary[i] = unary;
    window->sizes[i] = kept;
    window->is_fixed[i] = kept == 1;
    window->chosen[i] = domain[0];
    window->label_count += kept;
    window->cell_count += kept;
}

// What a node of the window that is fixed costs those that are not.
static void charge_fixed(struct choice_window *window, int i)
{
    const struct choice_model *model = window->model;
    int node = window->nodes[i];
    for (int a = model->arc_starts[node]; a < model->arc_starts[node + 1]; a++) {
        const struct model_arc *arc = &model->arcs[a];
        int other = window->index_of[arc->node];
        if (other < 0 || window->is_fixed[other]) continue;
        const double *row =
            arc->cost + (size_t)window->chosen[i] * (size_t)model_choices(model, arc->node);
        for (int x = 0; x < window->sizes[other]; x++)
            window->unary[other][x] += row[window->domains[other][x]];
    }
}

static void join_near(struct choice_window *window)
{
    const struct choice_model *model = window->model;
    memset(window->near, 0, (size_t)window->count * sizeof *window->near);
    for (int i = 0; i < window->count; i++) {
        int node = window->nodes[i];
        for (int a = model->arc_starts[node]; a < model->arc_starts[node + 1]; a++) {
            int other = window->index_of[model->arcs[a].node];
            if (other < 0 || window->is_fixed[i] || window->is_fixed[other]) continue;
            window->near[i][other / 64] |= 1ull << other % 64;
        }
    }
}

static double table_size(const struct choice_window *window, int i)
{
    double size = window->sizes[i];
    for (int w = 0; w < WINDOW_WORDS; w++) {
        for (uint64_t bits = window->near[i][w]; bits; bits &= bits - 1)
            size *= window->sizes[64 * w + __builtin_ctzll(bits)];
    }
    return size;
}

// Takes the node out of its neighbourhood, whose members become neighbours where `fills`, and
// measures these anew.
static void take_out(struct choice_window *window, int i, bool fills, double *size)
{
    uint64_t around[WINDOW_WORDS];
    memcpy(around, window->near[i], sizeof around);
    for (int w = 0; w < WINDOW_WORDS; w++) {
        for (uint64_t bits = around[w]; bits; bits &= bits - 1) {
            int j = 64 * w + __builtin_ctzll(bits);
            for (int k = 0; fills && k < WINDOW_WORDS; k++)
                window->near[j][k] |= around[k];
            window->near[j][j / 64] &= ~(1ull << j % 64);
            window->near[j][i / 64] &= ~(1ull << i % 64);
        }
    }
    for (int w = 0; w < WINDOW_WORDS; w++) {
        for (uint64_t bits = around[w]; bits; bits &= bits - 1) {
            int j = 64 * w + __builtin_ctzll(bits);
            size[j] = table_size(window, j);
        }
    }
}

// The order of elimination, by the smallest table; nodes that no table can hold keep their choice.
static void find_order(struct choice_window *window, int table_cap, const int *choice)
{
    double size[WINDOW_MOST] = {0};
    bool waits[WINDOW_MOST] = {0};
    for (int i = 0; i < window->count; i++) {
        waits[i] = !window->is_fixed[i];
        size[i] = waits[i] ? table_size(window, i) : 0;
    }
    window->order_count = 0;
    for (;;) {
        int best = -1, worst = -1;
        double worst_key = 0;
        for (int i = 0; i < window->count; i++)
            if (waits[i] && (best < 0 || size[i] < size[best])) best = i;
        if (best < 0) return;
        bool fits = size[best] <= table_cap || size[best] <= window->sizes[best];
        // One in proportion to the logarithm of its table, more or less: the same nodes must not
        // keep their choices for ever.
        for (int i = 0; i < window->count && !fits; i++) {
            double key = waits[i] ? log2(size[i]) * random_uniform(&window->random) : -1;
            if (worst < 0 || key > worst_key) worst = i, worst_key = key;
        }
        int at = fits ? best : worst;
        assert(at >= 0 && waits[at]);
        waits[at] = false;
        take_out(window, at, fits, size);
        if (fits) {
            window->order[window->order_count++] = at;
        } else {
            window->is_fixed[at] = true;
            window->chosen[at] = choice[window->nodes[at]];
            charge_fixed(window, at);
        }
    }
}

void window_solve(struct choice_window *window, const struct window_options *options,
                  const int *nodes, int count, const int *choice)
{
    assert(count >= 0 && count <= WINDOW_MOST);
    window->nodes = nodes;
    window->count = count;
    window->cell_count = window->best_count = 0;
    window->label_count = window->factor_count = 0;
    for (int i = 0; i < count; i++)
        window->index_of[nodes[i]] = i;
    for (int i = 0; i < count; i++)
        open_node(window, options, i, choice);
    for (int i = 0; i < count; i++)
        if (window->is_fixed[i]) charge_fixed(window, i);
    join_near(window);
    find_order(window, options->table_cap, choice);
    window_tables_solve(window, choice);
    for (int i = 0; i < count; i++)
        window->index_of[nodes[i]] = -1;
}
