#include "reports/whatif/whatif.h"

#include "reports/whatif/scenario_share.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
            return err_set(err, ERR_USAGE,
                           "prices in %s (cluster %s) and in %s cannot be compared; "
                           "--currency-rate %s=N says what one %s is worth",
                           currency, cluster->name, whatif->currency, currency, currency);
        }
        whatif->currency = currency;
    }
    if (!whatif->is_priced) whatif->currency = NULL;
    return true;
}

// The most tokens within deadline and budget.
static double most_tokens(const struct whatif *whatif, const struct money_request *asked)
{
    const struct whatif_question *question = &whatif->question;
    double time_s = question->deadline_s > 0 ? question->deadline_s : INFINITY;
    double funds = question->budget > 0 ? question->budget + question->credits : INFINITY;
    return money_most_tokens(asked, time_s, funds);
}

static bool makes_it(const struct whatif *whatif, const struct whatif_row *row)
{
    const struct whatif_question *question = &whatif->question;
    if (whatif->goal == WHATIF_MOST_TOKENS) return row->tokens >= 1;
    bool in_time = question->deadline_s <= 0 || row->time_s <= question->deadline_s;
    return in_time && (question->budget <= 0 || row->money <= question->budget);
}

// Of the row's run, or where none is asked for of a billion tokens of one without an end.
static void fill_amounts(const struct whatif *whatif, const struct money_band *run,
                         struct whatif_row *row)
{
    assert(row->fits);
    const struct money *money = &run->money, *low = &run->low, *high = &run->high;
    bool has_run = row->tokens > 0;
    if (!has_run) row->tokens = WHATIF_UNIT_TOKENS;
    row->time_s = has_run ? money->train_s : money->billion_s;
    row->low_s = has_run ? low->train_s : low->billion_s;
    row->high_s = has_run ? high->train_s : high->billion_s;
    row->gpu_hours = has_run ? money->gpu_hours : money->billion_gpu_hours;
    row->per_billion = money->per_billion_tokens;
    double price = has_run ? money->total : money->per_billion_tokens;
    row->money = fmax(0, price - whatif->question.credits);
    row->cost = whatif->is_priced ? row->money : row->gpu_hours;
}

static void fill_row(const struct whatif *whatif, struct whatif_row *row)
{
    const struct scenario_outcome *outcome = row->outcome;
    const struct prediction *prediction = &outcome->prediction;
    row->fits = outcome->status == SCENARIO_FITS;
    if (!row->fits) return;
    struct money_band run = {prediction->money, prediction->money_low, prediction->money_high,
                             prediction->goodput};
    row->tokens = whatif->question.tokens;
    if (whatif->goal == WHATIF_MOST_TOKENS) {
        struct money_request asked = scenario_money(&row->point->scenario, outcome);
        asked.tokens = row->tokens = most_tokens(whatif, &asked);
        if (row->tokens > 0) run = money_of(&asked);
    }
    row->goodput_ratio = run.goodput.is_known ? run.goodput.goodput_ratio : 1;
    bool trains_none = whatif->goal == WHATIF_MOST_TOKENS && row->tokens <= 0;
    if (!trains_none) fill_amounts(whatif, &run, row);
    row->is_past = sweep_batch_is_past(whatif->sweep, row->point->scenario.workload.global_batch);
    row->makes_it = !row->is_past && makes_it(whatif, row);
}

static int compare_values(double a, double b)
{
    return (a > b) - (a < b);
}

struct whatif_ranked {
    const struct whatif *whatif;
    const struct whatif_row *row;
    int index;
};

// Rows that make it first, those whose batch is past last, then by the goal, then by the other
// measure, then in the sweep's order.
static int compare_ranked(const void *left, const void *right)
{
    const struct whatif_ranked *a = left, *b = right;
    const struct whatif_row *x = a->row, *y = b->row;
    if (x->makes_it != y->makes_it) return x->makes_it ? -1 : 1;
    if (x->is_past != y->is_past) return x->is_past ? 1 : -1;
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
        bool trains = row->tokens > 0 && !row->is_past;
        paces[i] = (struct pace){trains ? row->time_s / row->tokens : INFINITY,
                                 trains ? row->cost / row->tokens : INFINITY, row};
    }
    qsort(paces, (size_t)whatif->fit_count, sizeof *paces, compare_paces);
    assert(whatif->front_count == 0);
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
    struct whatif_ranked *ranked = ARENA_NEW(arena, struct whatif_ranked, points->count);
    for (int i = 0; i < points->count; i++) {
        struct whatif_row *row = &whatif->rows[i];
        row->point = &points->items[i];
        row->outcome = &outcomes[i];
        fill_row(whatif, row);
        if (!row->fits) continue;
        whatif->made_count += row->makes_it;
        whatif->past_count += row->is_past;
        ranked[whatif->fit_count++] = (struct whatif_ranked){whatif, row, i};
    }
    assert(whatif->made_count <= whatif->fit_count && whatif->fit_count <= whatif->row_count);
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
