#include "planner/strategy/dual.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

struct dual *dual_new(struct arena *arena, const struct choice_model *model)
{
    assert(model->choices_most > 0 || model->node_count == 0);
    struct dual *dual = ARENA_NEW(arena, struct dual, 1);
    *dual = (struct dual){
        .model = model,
        .prices = ARENA_NEW(arena, double, model->point_count),
        .reduced = ARENA_NEW(arena, double, model->choice_count),
        .messages = ARENA_NEW(arena, double, model->message_count),
        .scratch = ARENA_NEW(arena, double, 2 * model->choices_most),
    };
    memcpy(dual->reduced, model->cost, (size_t)model->choice_count * sizeof(double));
    return dual;
}

void dual_copy(struct dual *dual, const struct dual *from)
{
    assert(dual->model == from->model);
    const struct choice_model *model = dual->model;
    memcpy(dual->prices, from->prices, (size_t)model->point_count * sizeof(double));
    memcpy(dual->reduced, from->reduced, (size_t)model->choice_count * sizeof(double));
    memcpy(dual->messages, from->messages, (size_t)model->message_count * sizeof(double));
    dual->constant = from->constant;
    dual->bound = from->bound;
}

// The least of `others` sums of a row and a message.
static double least_of_row(const double *row, const double *message, int others)
{
    double low = row[0] + message[0];
    for (int y = 1; y < others; y++) {
        double at = row[y] + message[y];
        low = at < low ? at : low;
    }
    return low;
}

// Two numbers side by side, as every 64-bit processor adds and compares them at once.
typedef double pair __attribute__((vector_size(16)));

static pair pair_at(const double *numbers)
{
    pair both;
    memcpy(&both, numbers, sizeof both);
    return both;
}

static pair lesser(pair a, pair b)
{
    for (int k = 0; k < 2; k++)
        a[k] = a[k] < b[k] ? a[k] : b[k];
    return a;
}

// Eight columns at once: `turned` has `count` of them in a row for each of the `others` numbers.
static void least_of_eight(const double *turned, int count, const double *message, int others,
                           double *least)
{
    enum { PAIRS = 4 };
    pair low[PAIRS];
    for (int k = 0; k < PAIRS; k++)
        low[k] = pair_at(turned + 2 * k) + message[0];
    for (int y = 1; y < others; y++) {
        const double *at = turned + (ptrdiff_t)y * count;
        low[0] = lesser(pair_at(at) + message[y], low[0]);
        low[1] = lesser(pair_at(at + 2) + message[y], low[1]);
        low[2] = lesser(pair_at(at + 4) + message[y], low[2]);
        low[3] = lesser(pair_at(at + 6) + message[y], low[3]);
    }
    memcpy(least, low, sizeof low);
}

static void least_of_two(const double *turned, int count, const double *message, int others,
                         double *least)
{
    pair low = pair_at(turned) + message[0];
    for (int y = 1; y < others; y++)
        low = lesser(pair_at(turned + (ptrdiff_t)y * count) + message[y], low);
    memcpy(least, &low, sizeof low);
}

// What comes over the edge: least[x] = min over y of cost(x, y) + messages of both ends.
static void collect(const struct dual *dual, const struct model_arc *arc, int count, double *least)
{
    const struct choice_model *model = dual->model;
    int others = model_choices(model, arc->node), x = 0;
    const double *own = dual->messages + model->messages[2 * arc->edge + arc->side];
    const double *theirs = dual->messages + model->messages[2 * arc->edge + 1 - arc->side];
    for (; x + 8 <= count; x += 8)
        least_of_eight(arc->turned + x, count, theirs, others, least + x);
    for (; x + 2 <= count; x += 2)
        least_of_two(arc->turned + x, count, theirs, others, least + x);
    for (; x < count; x++)
        least[x] = least_of_row(arc->cost + (ptrdiff_t)x * others, theirs, others);
    for (x = 0; x < count; x++)
        least[x] += own[x];
}

static int round_node(const struct dual *dual, int node, bool onwards, const int *rounded)
{
    const struct choice_model *model = dual->model;
    int count = model_choices(model, node), best = 0;
    double *score = dual->scratch + model->choices_most;
    memcpy(score, dual->reduced + model->starts[node], (size_t)count * sizeof(double));
    for (int a = model->arc_starts[node]; a < model->arc_starts[node + 1]; a++) {
        const struct model_arc *arc = &model->arcs[a];
        if ((arc->node < node) != onwards) continue;
        int other = rounded[arc->node];
        const double *own = dual->messages + model->messages[2 * arc->edge + arc->side];
        const double *costs = arc->turned + (ptrdiff_t)other * count;
        for (int x = 0; x < count; x++)
            score[x] += costs[x] + own[x];
    }
    for (int x = 1; x < count; x++)
        if (score[x] < score[best]) best = x;
    return best;
}

static void sweep_node(struct dual *dual, int node, bool onwards, int *rounded)
{
    const struct choice_model *model = dual->model;
    int count = model_choices(model, node), ahead = 0, behind = 0;
    double *at = dual->reduced + model->starts[node], *least = dual->scratch;
    for (int a = model->arc_starts[node]; a < model->arc_starts[node + 1]; a++) {
        const struct model_arc *arc = &model->arcs[a];
        if ((arc->node < node) != onwards) {
            ahead++;
            continue;
        }
        behind++;
        collect(dual, arc, count, least);
        double *own = dual->messages + model->messages[2 * arc->edge + arc->side];
        for (int x = 0; x < count; x++)
            own[x] -= least[x], at[x] += least[x];
    }
    if (rounded) rounded[node] = round_node(dual, node, onwards, rounded);
    double low = at[0];
    for (int x = 1; x < count; x++)
        low = at[x] < low ? at[x] : low;
    dual->constant += low;
    double share = 1.0 / (ahead > behind ? ahead : behind > 0 ? behind : 1);
    for (int x = 0; x < count; x++) {
        at[x] -= low;
        least[x] = at[x] * share;
        at[x] = ahead == behind || ahead > behind ? 0 : at[x] - ahead * least[x];
    }
    if (ahead == 0) {
        for (int x = 0; x < count; x++)
            at[x] = least[x] / share;
        return;
    }
    for (int a = model->arc_starts[node]; a < model->arc_starts[node + 1]; a++) {
        const struct model_arc *arc = &model->arcs[a];
        if ((arc->node < node) == onwards) continue;
        double *own = dual->messages + model->messages[2 * arc->edge + arc->side];
        for (int x = 0; x < count; x++)
            own[x] += least[x];
    }
}

void dual_sweep(struct dual *dual, bool onwards, int *rounded)
{
    const struct choice_model *model = dual->model;
    for (int i = 0; i < model->node_count; i++)
        sweep_node(dual, onwards ? i : model->node_count - 1 - i, onwards, rounded);
    dual->bound = dual->constant;
    for (int t = 0; t < model->point_count; t++)
        dual->bound -= dual->prices[t] * model->room[t];
}

void dual_price_choices(const struct choice_model *model, struct arena *scratch,
                        const double *prices, double *added)
{
    struct arena_mark mark = arena_mark(scratch);
    double *sums = ARENA_NEW(scratch, double, model->point_count + 1);
    for (int t = 0; t < model->point_count; t++)
        sums[t + 1] = sums[t] + prices[t];
    memset(added, 0, (size_t)model->choice_count * sizeof(double));
    for (int p = 0; p < model->part_count; p++) {
        const struct model_part *part = &model->parts[p];
        double price = sums[part->death] - sums[part->birth];
        int node = model->part_nodes[p], start = model->starts[node];
        if (price == 0) continue;
        for (int x = 0; x < model_choices(model, node); x++)
            added[start + x] += price * model->usages[part->usage + x];
    }
    arena_reset(scratch, mark);
}

void dual_set_prices(struct dual *dual, struct arena *scratch, const double *prices)
{
    const struct choice_model *model = dual->model;
    struct arena_mark mark = arena_mark(scratch);
    double *change = ARENA_NEW(scratch, double, model->point_count);
    double *added = ARENA_NEW(scratch, double, model->choice_count);
    for (int t = 0; t < model->point_count; t++)
        change[t] = prices[t] - dual->prices[t];
    dual_price_choices(model, scratch, change, added);
    for (int i = 0; i < model->choice_count; i++)
        dual->reduced[i] += added[i];
    memcpy(dual->prices, prices, (size_t)model->point_count * sizeof(double));
    arena_reset(scratch, mark);
}

static const double UNITS = 0x1p40;  // of a whole cost

static __int128 whole(double value)
{
    return (__int128)(value * UNITS);
}

// The least of a node: its cost and price, less what its messages moved to edges.
static __int128 least_of_node(const struct choice_model *model, const __int128 *moved, int node,
                              const __int128 *price_sums)
{
    __int128 least = 0;
    int start = model->starts[node];
    for (int x = start; x < model->starts[node + 1]; x++) {
        __int128 sum = whole(model->cost[x]) - moved[x];
        for (int p = model->part_starts[node]; p < model->part_starts[node + 1]; p++) {
            const struct model_part *part = &model->parts[p];
            sum += (price_sums[part->death] - price_sums[part->birth]) *
                   (int64_t)model->usages[part->usage + x - start];
        }
        if (x == start || sum < least) least = sum;
    }
    return least;
}

static __int128 least_of_edge(const struct dual *dual, const struct model_arc *arc, int node)
{
    const struct choice_model *model = dual->model;
    const double *own = dual->messages + model->messages[2 * arc->edge + arc->side];
    const double *theirs = dual->messages + model->messages[2 * arc->edge + 1 - arc->side];
    int others = model_choices(model, arc->node);
    __int128 least = 0;
    for (int x = 0; x < model_choices(model, node); x++) {
        for (int y = 0; y < others; y++) {
            __int128 sum = whole(arc->cost[x * others + y]) + whole(own[x]) + whole(theirs[y]);
            if ((x == 0 && y == 0) || sum < least) least = sum;
        }
    }
    return least;
}

int64_t dual_certified(const struct dual *dual, struct arena *scratch)
{
    assert(!dual->model->is_impossible && "where nothing fits there is no bound to prove");
    const struct choice_model *model = dual->model;
    struct arena_mark mark = arena_mark(scratch);
    __int128 *sums = ARENA_NEW(scratch, __int128, model->point_count + 1), bound = 0;
    __int128 *moved = ARENA_NEW(scratch, __int128, model->choice_count);
    for (int t = 0; t < model->point_count; t++) {
        __int128 price = whole(dual->prices[t]);
        sums[t + 1] = sums[t] + price;
        bound -= price * (int64_t)model->room[t];
    }
    for (int i = 0; i < model->node_count; i++) {
        for (int a = model->arc_starts[i]; a < model->arc_starts[i + 1]; a++) {
            const struct model_arc *arc = &model->arcs[a];
            const double *own = dual->messages + model->messages[2 * arc->edge + arc->side];
            for (int x = 0; x < model_choices(model, i); x++)
                moved[model->starts[i] + x] += whole(own[x]);
            if (arc->side == 0) bound += least_of_edge(dual, arc, i);
        }
        bound += least_of_node(model, moved, i, sums);
    }
    arena_reset(scratch, mark);
    __int128 unit = (__int128)UNITS, rest = bound % unit;
    return (int64_t)(bound / unit) + (rest > 0);
}
