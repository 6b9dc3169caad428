#include "reports/whatif/whatif_refine.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool whatif_has_limit(const struct whatif_question *question)
{
    return question->deadline_s > 0 || question->budget > 0;
}

static double size_of(const struct whatif *whatif, const struct whatif_row *row)
{
    return row->point->at[sweep_size_axis(whatif->sweep)];
}

// Rows that differ in their size alone.
static bool is_same_curve(const struct whatif *whatif, const struct whatif_row *a,
                          const struct whatif_row *b)
{
    if (a->point->cluster != b->point->cluster) return false;
    for (int axis = SWEEP_SEQ_LEN; axis < SWEEP_AXIS_COUNT; axis++) {
        bool is_swept = whatif->sweep->axes[axis].count > 0;
        if (is_swept && a->point->at[axis] != b->point->at[axis]) return false;
    }
    return true;
}

// The next larger row of the curve; NULL: none.
static const struct whatif_row *next_row(const struct whatif *whatif, const struct whatif_row *row)
{
    const struct whatif_row *next = NULL;
    for (int i = 0; i < whatif->row_count; i++) {
        const struct whatif_row *other = &whatif->rows[i];
        if (size_of(whatif, other) <= size_of(whatif, row)) continue;
        if (next && size_of(whatif, other) >= size_of(whatif, next)) continue;
        if (is_same_curve(whatif, other, row)) next = other;
    }
    return next;
}

static double next_size(const struct whatif *whatif, const struct whatif_row *row, double size)
{
    assert(size > 0);
    int per_node = whatif->sweep->clusters[row->point->cluster]->nodes[0].gpus;
    if (sweep_size_axis(whatif->sweep) == SWEEP_NODES || size < per_node) return size + 1;
    return (floor(size / per_node) + 1) * per_node;
}

// Model flop of a token, the same whatever the plan; 0: nothing of the curve fits, and no bound is
// known.
static double flop_per_token(const struct whatif *whatif, const struct whatif_row *like)
{
    for (int i = 0; i < whatif->row_count; i++) {
        const struct whatif_row *row = &whatif->rows[i];
        if (!row->fits || !is_same_curve(whatif, row, like)) continue;
        const struct prediction *prediction = &row->outcome->prediction;
        return prediction->model_flop_per_s_per_gpu / prediction->tokens_per_s_per_gpu;
    }
    return 0;
}

// Of all devices and of the precisions that kernels of this one may compute in.
static double peak_flop_per_s(const struct cluster *cluster, enum precision precision)
{
    const enum precision used[] = {precision, PRECISION_BF16, PRECISION_FP16};
    double peak = 0;
    for (int i = 0; i < cluster->node_group_count; i++) {
        for (size_t k = 0; k < sizeof used / sizeof *used; k++)
            peak = fmax(peak, cluster->nodes[i].device->peak_flop_per_s[used[k]]);
    }
    return peak;
}

// The slowest step with which a size could be the answer, were there no interruptions: time and
// price grow with the step. INFINITY: any; `ideal` is asked at a step of its own.
static double slowest_s(const struct whatif *whatif, const struct money_request *ideal)
{
    const struct whatif_question *question = &whatif->question;
    const struct whatif_row *best = whatif_best(whatif);
    double time_s = question->deadline_s > 0 ? question->deadline_s : INFINITY;
    double funds = question->budget > 0 ? question->budget + question->credits : INFINITY;
    if (whatif->goal == WHATIF_MOST_TOKENS) {
        double tokens = money_most_tokens(ideal, time_s, funds);
        return best ? ideal->step_s * tokens / best->tokens : INFINITY;
    }
    struct money money = money_mean_of(ideal);
    double ratio = fmin(time_s / money.train_s, money.total > 0 ? funds / money.total : INFINITY);
    if (best && whatif->goal == WHATIF_FASTEST) ratio = fmin(ratio, best->time_s / money.train_s);
    if (best && whatif->goal == WHATIF_CHEAPEST) {
        ratio = fmin(ratio, whatif->is_priced ? (best->cost + question->credits) / money.total
                                              : best->cost / money.gpu_hours);
    }
    return ideal->step_s * ratio;
}

// False: not even a plan that computes at the peak all the time could be the answer. Else the point
// is searched for plans that could.
static bool may_be_better(const struct whatif *whatif, double token_flop, struct sweep_point *point)
{
    // The search compares closed forms, and events may be faster by so much.
    static const double SLACK_RATIO = 1.05;
    struct scenario *scenario = &point->scenario;
    if (sweep_batch_is_past(whatif->sweep, scenario->workload.global_batch)) return false;
    double peak = peak_flop_per_s(scenario->cluster, scenario->workload.precision);
    if (token_flop <= 0 || peak <= 0) return true;
    double step_tokens =
        (double)scenario->workload.global_batch * (double)scenario->workload.seq_len;
    const struct money_request ideal = {
        .cluster = scenario->cluster,
        .step_s = step_tokens * token_flop / (peak * scenario->cluster->rank_count),
        .step_tokens = step_tokens,
        .tokens = whatif->question.tokens,
    };
    double most_s = slowest_s(whatif, &ideal);
    if (isfinite(most_s)) scenario->slowest_s = SLACK_RATIO * most_s;
    return most_s >= ideal.step_s;
}

struct between {
    struct arena *arena;
    const struct whatif *whatif;
    struct sweep_points *found;
    int room;
};

static bool add_point(struct between *between, const struct whatif_row *row, double size,
                      double token_flop, struct err *err)
{
    struct sweep_points *found = between->found;
    struct sweep_point point;
    if (!sweep_point_of_size(between->arena, between->whatif->sweep, row->point, size, &point,
                             err)) {
        return false;
    }
    if (!may_be_better(between->whatif, token_flop, &point)) return true;
    ARENA_GROW(between->arena, found->items, found->count, between->room);
    found->items[found->count++] = point;
    return true;
}

// Sizes past `row` and before the next one of its curve that may be better.
static bool add_gap(struct between *between, const struct whatif_row *row, struct err *err)
{
    const struct whatif *whatif = between->whatif;
    const struct whatif_row *next = next_row(whatif, row);
    if (!next) return true;
    assert(size_of(whatif, next) > size_of(whatif, row));
    double token_flop = flop_per_token(whatif, row), last = size_of(whatif, next);
    double size = next_size(whatif, row, size_of(whatif, row));
    // Within a node one GPU more each time, then whole nodes: plans seldom fit what is between.
    while (size < last) {
        if (!add_point(between, row, size, token_flop, err)) return false;
        size = next_size(whatif, row, size);
    }
    return true;
}

// The gaps on both sides of the best row.
static bool is_beside(const struct whatif *whatif, const struct whatif_row *row,
                      const struct whatif_row *best)
{
    return row == best ||
           (best && is_same_curve(whatif, row, best) && next_row(whatif, row) == best);
}

static void thin(struct sweep_points *points, int most)
{
    assert(most > 0 && points->count > most);
    int stride = (points->count + most - 1) / most, kept = 0;
    // From the middle of each stride, so that what is left out lies on both sides.
    for (int i = stride / 2; i < points->count; i += stride)
        points->items[kept++] = points->items[i];
    points->count = kept;
}

bool whatif_between(struct arena *arena, const struct whatif *whatif, bool is_first,
                    struct sweep_points *more, int *untried, struct err *err)
{
    struct sweep_points all = {0}, near = {0};
    struct between of_all = {.arena = arena, .whatif = whatif, .found = &all};
    struct between of_near = {.arena = arena, .whatif = whatif, .found = &near};
    const struct whatif_row *best = whatif_best(whatif);
    assert(whatif_has_limit(&whatif->question));
    for (int i = 0; i < whatif->row_count; i++) {
        const struct whatif_row *row = &whatif->rows[i];
        if (!add_gap(&of_all, row, err)) return false;
        if (is_beside(whatif, row, best) && !add_gap(&of_near, row, err)) return false;
    }
    bool takes_all = is_first || all.count <= WHATIF_BETWEEN_MAX;
    *more = takes_all ? all : near;
    *untried = all.count;
    if (more->count > WHATIF_BETWEEN_MAX) thin(more, WHATIF_BETWEEN_MAX);
    return true;
}
