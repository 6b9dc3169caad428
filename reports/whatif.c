#include "reports/whatif.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double SECONDS_PER_HOUR = 3600;

static enum whatif_goal goal_of(const struct whatif_question *question)
{
    bool limited = question->deadline_s > 0 || question->budget > 0;
    if (!limited) return WHATIF_COMPARE;
    if (question->tokens <= 0) return WHATIF_MOST_TOKENS;
    return question->deadline_s > 0 ? WHATIF_CHEAPEST : WHATIF_FASTEST;
}

// Prices can be compared where all have one and in one currency.
static bool check_prices(const struct sweep_points *points, struct whatif *whatif, struct err *err)
{
    bool needs_price = whatif->question.budget > 0 || whatif->question.credits > 0;
    whatif->is_priced = points->count > 0;
    for (int i = 0; i < points->count; i++) {
        const struct cluster *cluster = points->items[i].scenario.cluster;
        const char *currency = cluster->price.per_gpu_hour > 0 ? cluster->price.currency : NULL;
        if (!currency) {
            whatif->is_priced = false;
            if (!needs_price) continue;
            return err_set(err, ERR_USAGE,
                           "cluster %s has no price to hold against a budget; "
                           "--price-per-gpu-hour gives one",
                           cluster->name);
        }
        if (whatif->currency && strcmp(whatif->currency, currency) != 0) {
            return err_set(err, ERR_USAGE, "prices in %s (cluster %s) and in %s cannot be compared",
                           currency, cluster->name, whatif->currency);
        }
        whatif->currency = currency;
    }
    if (!whatif->is_priced) whatif->currency = NULL;
    return true;
}

// The most tokens within deadline and budget; both grow with the tokens in proportion.
static double most_tokens(const struct whatif *whatif, double time_s, double money)
{
    const struct whatif_question *question = &whatif->question;
    double tokens = INFINITY;
    if (question->deadline_s > 0) tokens = question->deadline_s / time_s * WHATIF_UNIT_TOKENS;
    if (question->budget > 0) {
        double funds = question->budget + question->credits;
        tokens = fmin(tokens, funds / money * WHATIF_UNIT_TOKENS);
    }
    return floor(tokens);
}

static bool makes_it(const struct whatif *whatif, const struct whatif_row *row)
{
    const struct whatif_question *question = &whatif->question;
    if (whatif->goal == WHATIF_MOST_TOKENS) return row->tokens >= 1;
    bool in_time = question->deadline_s <= 0 || row->time_s <= question->deadline_s;
    return in_time && (question->budget <= 0 || row->money <= question->budget);
}

static void fill_row(const struct whatif *whatif, struct whatif_row *row)
{
    const struct scenario_outcome *outcome = row->outcome;
    const struct cluster *cluster = row->point->scenario.cluster;
    row->fits = outcome->status == SCENARIO_FITS;
    if (!row->fits) return;
    bool known = outcome->goodput.is_known;
    row->goodput_ratio = known ? outcome->goodput.goodput_ratio : 1;
    double gpu_count = known ? outcome->goodput.gpu_count : cluster->rank_count;  // with spares
    bool has_run = whatif->question.tokens > 0;
    double tokens = has_run ? whatif->question.tokens : WHATIF_UNIT_TOKENS;
    row->time_s =
        has_run ? outcome->run_s : tokens / outcome->prediction.tokens_per_s / row->goodput_ratio;
    if (whatif->goal == WHATIF_MOST_TOKENS) {
        double hours = row->time_s * gpu_count / SECONDS_PER_HOUR;
        row->tokens = most_tokens(whatif, row->time_s, hours * cluster->price.per_gpu_hour);
        row->time_s *= row->tokens / WHATIF_UNIT_TOKENS;
    } else {
        row->tokens = tokens;
    }
    row->gpu_hours = row->time_s * gpu_count / SECONDS_PER_HOUR;
    double price = row->gpu_hours * cluster->price.per_gpu_hour;
    row->money = fmax(0, price - whatif->question.credits);
    row->cost = whatif->is_priced ? row->money : row->gpu_hours;
    row->makes_it = makes_it(whatif, row);
}

static int compare_values(double a, double b)
{
    return (a > b) - (a < b);
}

struct ranked {
    const struct whatif *whatif;
    const struct whatif_row *row;
    int index;
};

// Rows that make it first, then by the goal, then by the other measure, then in the sweep's order.
static int compare_ranked(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;
    const struct whatif_row *x = a->row, *y = b->row;
    if (x->makes_it != y->makes_it) return x->makes_it ? -1 : 1;
    bool by_cost = a->whatif->request->objective == OBJECTIVE_COST;
    // Of those that miss the deadline the fastest is nearest to it.
    if (a->whatif->goal == WHATIF_CHEAPEST) by_cost = x->makes_it;
    int order = 0;
    if (a->whatif->goal == WHATIF_MOST_TOKENS) order = compare_values(y->tokens, x->tokens);
    if (order == 0 && by_cost) order = compare_values(x->cost, y->cost);
    if (order == 0) order = compare_values(x->time_s, y->time_s);
    if (order == 0) order = compare_values(x->cost, y->cost);
    return order ? order : a->index - b->index;
}

bool whatif_check(const struct whatif_question *question, const struct sweep_points *points,
                  struct err *err)
{
    struct whatif unasked = {.question = *question};
    return check_prices(points, &unasked, err);
}

struct pace {
    double time_s, cost;  // of one token
    struct whatif_row *row;
};

static int compare_paces(const void *left, const void *right)
{
    const struct pace *a = left, *b = right;
    int order = compare_values(a->time_s, b->time_s);
    return order ? order : compare_values(a->cost, b->cost);
}

// What no other row beats in one measure without losing in the other: in the order of time, what is
// cheaper than all before it. Equals stand together.
static void mark_front(struct arena *arena, struct whatif *whatif)
{
    struct pace *paces = ARENA_NEW(arena, struct pace, whatif->fit_count);
    for (int i = 0; i < whatif->fit_count; i++) {
        struct whatif_row *row = &whatif->rows[whatif->order[i]];
        double tokens = fmax(1, row->tokens);
        paces[i] = (struct pace){row->time_s / tokens, row->cost / tokens, row};
    }
    qsort(paces, (size_t)whatif->fit_count, sizeof *paces, compare_paces);
    double time_s = 0, cost = INFINITY;
    for (int i = 0; i < whatif->fit_count; i++) {
        bool equal = paces[i].time_s == time_s && paces[i].cost == cost;
        if (!equal && paces[i].cost >= cost) continue;
        time_s = paces[i].time_s;
        cost = paces[i].cost;
        paces[i].row->is_on_front = true;
        whatif->front_count++;
    }
}

bool whatif_make(struct arena *arena, const struct whatif_question *question,
                 const struct sweep *sweep, const struct scenario_request *request,
                 const struct sweep_points *points, const struct scenario_outcome *outcomes,
                 struct whatif *whatif, struct err *err)
{
    *whatif = (struct whatif){
        .question = *question, .goal = goal_of(question), .sweep = sweep, .request = request};
    if (!check_prices(points, whatif, err)) return false;
    whatif->row_count = points->count;
    whatif->rows = ARENA_NEW(arena, struct whatif_row, points->count);
    whatif->order = ARENA_NEW(arena, int, points->count);
    whatif->searched_count = scenarios_searched(outcomes, points->count);
    struct ranked *ranked = ARENA_NEW(arena, struct ranked, points->count);
    for (int i = 0; i < points->count; i++) {
        struct whatif_row *row = &whatif->rows[i];
        row->point = &points->items[i];
        row->outcome = &outcomes[i];
        fill_row(whatif, row);
        if (!row->fits) continue;
        whatif->made_count += row->makes_it;
        ranked[whatif->fit_count++] = (struct ranked){whatif, row, i};
    }
    qsort(ranked, (size_t)whatif->fit_count, sizeof *ranked, compare_ranked);
    for (int i = 0; i < whatif->fit_count; i++) {
        whatif->order[i] = ranked[i].index;
    }
    mark_front(arena, whatif);
    return true;
}

const struct whatif_row *whatif_best(const struct whatif *whatif)
{
    if (whatif->made_count == 0) return NULL;
    const struct whatif_row *best = &whatif->rows[whatif->order[0]];
    assert(best->makes_it);
    return best;
}
