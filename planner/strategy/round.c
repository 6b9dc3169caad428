#include "planner/strategy/round.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double REFUSED = REDUCED_FORBIDDEN / 2;

struct rounding {
    const struct dual *dual;
    unsigned char *is_alive;  // [choice_count]
    int *alive_count;         // [node_count]
    bool *is_decided, *is_queued;
    int *queue, *order;
    double *score, *theirs;
    struct ranked {
        double key;
        int node;
    } * ranked;
};

struct rounding *rounding_new(struct arena *arena, const struct dual *dual)
{
    const struct choice_model *model = dual->model;
    struct rounding *rounding = ARENA_NEW(arena, struct rounding, 1);
    *rounding = (struct rounding){
        .dual = dual,
        .is_alive = ARENA_NEW(arena, unsigned char, model->choice_count),
        .alive_count = ARENA_NEW(arena, int, model->node_count),
        .is_decided = ARENA_NEW(arena, bool, model->node_count),
        .is_queued = ARENA_NEW(arena, bool, model->node_count),
        .queue = ARENA_NEW(arena, int, model->node_count),
        .score = ARENA_NEW(arena, double, model->choices_most),
        .theirs = ARENA_NEW(arena, double, model->choices_most),
        .ranked = ARENA_NEW(arena, struct ranked, model->node_count),
    };
    return rounding;
}

static bool has_support(const struct model_arc *arc, int y, const unsigned char *others_alive,
                        int others)
{
    const double *row = arc->cost + (size_t)y * (size_t)others;
    for (int x = 0; x < others; x++)
        if (others_alive[x] && row[x] < REFUSED) return true;
    return false;
}

// Takes from a neighbour of `from` what nothing left of `from` allows. A node that is left with
// nothing keeps what it had: a pair will be forbidden.
static bool prune(struct rounding *rounding, int node, const struct model_arc *back)
{
    const struct choice_model *model = rounding->dual->model;
    unsigned char *alive = rounding->is_alive + model->starts[node];
    const unsigned char *others = rounding->is_alive + model->starts[back->node];
    int count = model_choices(model, node), left = 0;
    unsigned char was[1024];
    if (count > (int)sizeof was) return false;
    memcpy(was, alive, (size_t)count);
    for (int y = 0; y < count; y++) {
        if (!alive[y]) continue;
        alive[y] = has_support(back, y, others, model_choices(model, back->node));
        left += alive[y];
    }
    if (left == 0) memcpy(alive, was, (size_t)count);
    bool changed = left > 0 && left < rounding->alive_count[node];
    if (left > 0) rounding->alive_count[node] = left;
    return changed;
}

static void propagate(struct rounding *rounding, int from)
{
    const struct choice_model *model = rounding->dual->model;
    int head = 0, tail = 0, capacity = model->node_count;
    rounding->queue[tail++ % capacity] = from;
    rounding->is_queued[from] = true;
    while (head < tail) {
        int node = rounding->queue[head++ % capacity];
        rounding->is_queued[node] = false;
        for (int a = model->arc_starts[node]; a < model->arc_starts[node + 1]; a++) {
            const struct model_arc *arc = &model->arcs[a];
            if (!arc->forbids || rounding->is_decided[arc->node]) continue;
            int b = model->arc_starts[arc->node];
            while (model->arcs[b].edge != arc->edge)
                b++;
            if (!prune(rounding, arc->node, &model->arcs[b]) || rounding->is_queued[arc->node]) {
                continue;
            }
            rounding->queue[tail++ % capacity] = arc->node;
            rounding->is_queued[arc->node] = true;
        }
    }
}

static void add_decided(const struct rounding *rounding, const struct model_arc *arc, int count,
                        const int *choice)
{
    const struct choice_model *model = rounding->dual->model;
    const double *own = rounding->dual->messages + model->messages[2 * arc->edge + arc->side];
    int others = model_choices(model, arc->node), other = choice[arc->node];
    for (int x = 0; x < count; x++)
        rounding->score[x] += arc->cost[x * others + other] + own[x];
}

static void add_open(const struct rounding *rounding, const struct model_arc *arc, int count)
{
    const struct choice_model *model = rounding->dual->model;
    const double *own = rounding->dual->messages + model->messages[2 * arc->edge + arc->side];
    const double *theirs =
        rounding->dual->messages + model->messages[2 * arc->edge + 1 - arc->side];
    const unsigned char *alive = rounding->is_alive + model->starts[arc->node];
    int others = model_choices(model, arc->node);
    for (int y = 0; y < others; y++)
        rounding->theirs[y] = alive[y] ? theirs[y] : REDUCED_FORBIDDEN;
    for (int x = 0; x < count; x++) {
        const double *row = arc->cost + (size_t)x * (size_t)others;
        double low = row[0] + rounding->theirs[0];
        for (int y = 1; y < others; y++) {
            double at = row[y] + rounding->theirs[y];
            low = at < low ? at : low;
        }
        rounding->score[x] += low + own[x];
    }
}

static int decide(const struct rounding *rounding, int node, const int *choice)
{
    const struct choice_model *model = rounding->dual->model;
    int count = model_choices(model, node), best = -1;
    const unsigned char *alive = rounding->is_alive + model->starts[node];
    memcpy(rounding->score, rounding->dual->reduced + model->starts[node],
           (size_t)count * sizeof(double));
    for (int a = model->arc_starts[node]; a < model->arc_starts[node + 1]; a++) {
        const struct model_arc *arc = &model->arcs[a];
        if (rounding->is_decided[arc->node])
            add_decided(rounding, arc, count, choice);
        else
            add_open(rounding, arc, count);
    }
    for (int x = 0; x < count; x++)
        if (alive[x] && (best < 0 || rounding->score[x] < rounding->score[best])) best = x;
    return best;
}

// Gap between the cheapest and the next: what is surest is decided first.
static double margin_of(const struct dual *dual, int node)
{
    const struct choice_model *model = dual->model;
    double low = INFINITY, next = INFINITY;
    for (int x = model->starts[node]; x < model->starts[node + 1]; x++) {
        double at = dual->reduced[x];
        if (at < low)
            next = low, low = at;
        else if (at < next)
            next = at;
    }
    return next - low;
}

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *left = a, *right = b;
    if (left->key != right->key) return left->key > right->key ? -1 : 1;
    return left->node < right->node ? -1 : left->node > right->node;
}

static void rank(struct rounding *rounding, enum round_order order)
{
    assert((unsigned)order < ROUND_ORDER_COUNT);
    const struct choice_model *model = rounding->dual->model;
    for (int i = 0; i < model->node_count; i++) {
        double key = order == ROUND_ONWARDS     ? -i
                     : order == ROUND_BACK      ? i
                     : order == ROUND_BY_DEGREE ? model->arc_starts[i + 1] - model->arc_starts[i]
                                                : margin_of(rounding->dual, i);
        rounding->ranked[i] = (struct ranked){key, i};
    }
    qsort(rounding->ranked, (size_t)model->node_count, sizeof(struct ranked), compare_ranked);
}

void rounding_choose(struct rounding *rounding, enum round_order order, int *choice)
{
    const struct choice_model *model = rounding->dual->model;
    rank(rounding, order);
    memset(rounding->is_alive, 1, (size_t)model->choice_count);
    memset(rounding->is_decided, 0, (size_t)model->node_count * sizeof(bool));
    for (int i = 0; i < model->node_count; i++)
        rounding->alive_count[i] = model_choices(model, i);
    for (int i = 0; i < model->node_count; i++) {
        int node = rounding->ranked[i].node, count = model_choices(model, node);
        choice[node] = decide(rounding, node, choice);
        assert(choice[node] >= 0 && "of every node a choice is left");
        memset(rounding->is_alive + model->starts[node], 0, (size_t)count);
        rounding->is_alive[model->starts[node] + choice[node]] = 1;
        rounding->is_decided[node] = true;
        bool narrows = rounding->alive_count[node] > 1;
        rounding->alive_count[node] = 1;
        if (narrows) propagate(rounding, node);
    }
}
