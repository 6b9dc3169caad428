#include "reports/whatif/whatif_chart.h"

#include "core/units.h"
#include "reports/table/model_text.h"
#include "reports/table/plan_table.h"
#include "reports/whatif/whatif_text.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Room for the points at both ends; a scale of one value has some too. Credits may leave nothing
// to pay: zeros have no place on a logarithmic scale, and need a scale where all is zero.
static void fit_axis(struct chart_axis *axis, double low, double high)
{
    bool wide = low > 0 && high > 20 * low;
    if (high <= 0) high = 1;
    axis->scale = wide ? CHART_LOG : CHART_LINEAR;
    axis->low = wide ? low / 1.3 : fmax(0, low - 0.1 * (high - low) - 0.02 * high);
    axis->high = wide ? high * 1.3 : high + 0.1 * (high - low) + 0.02 * high;
    assert(axis->low < axis->high);
}

static int by_time(const void *left, const void *right)
{
    const struct whatif_row *const *a = left, *const *b = right;
    return ((*a)->time_s > (*b)->time_s) - ((*a)->time_s < (*b)->time_s);
}

// Beside each other these are told apart by everybody (tests/reports/test_palette.c).
static const enum chart_color CLUSTER_COLORS[] = {CHART_FORWARD, CHART_BACKWARD, CHART_UPDATE,
                                                  CHART_WEIGHT, CHART_TRAFFIC};
enum { CLUSTER_COLOR_COUNT = sizeof CLUSTER_COLORS / sizeof *CLUSTER_COLORS, LABELS_MAX = 30 };

// What the picture is made of.
struct pareto {
    const struct whatif *whatif;
    struct chart *chart;
    struct chart_series *points[CLUSTER_COLOR_COUNT];  // of a cluster each, the last of the rest
    const char *names[CLUSTER_COLOR_COUNT];
    struct chart_series *labels;
    struct whatif_unit unit;
};

static int cluster_place(const struct pareto *pareto, const char *name)
{
    int at = 0;
    while (at < CLUSTER_COLOR_COUNT - 1 && pareto->names[at] &&
           strcmp(pareto->names[at], name) != 0)
        at++;
    assert(at < CLUSTER_COLOR_COUNT);
    return at;
}

// The clusters in the order of the rows; past the colours there are, the rest share the last.
static void add_clusters(struct pareto *pareto)
{
    const struct whatif *whatif = pareto->whatif;
    for (int i = 0; i < whatif->fit_count; i++) {
        const char *name = whatif->rows[whatif->order[i]].point->name;
        int at = cluster_place(pareto, name);
        if (pareto->names[at] && strcmp(pareto->names[at], name) != 0) {
            pareto->points[at]->name = "other clusters";
        } else if (!pareto->names[at]) {
            pareto->names[at] = name;
            pareto->points[at] = chart_add(pareto->chart, CHART_POINTS, CLUSTER_COLORS[at], name);
        }
    }
}

static void add_row(const struct pareto *pareto, const struct whatif_row *row, bool has_label)
{
    assert(row->fits && pareto->unit.unit_s > 0);
    struct arena *arena = pareto->chart->arena;
    struct chart_mark mark = {.x0 = row->time_s / pareto->unit.unit_s, .y0 = row->cost};
    mark.size = row->is_on_front ? 6 : 4;
    mark.title = arena_print(
        arena, "%s, %s: %s, %s %s", row->point->scenario.label,
        parallel_text(arena, &row->outcome->best.parallel, pareto->whatif->request->stack),
        units_duration(arena, row->time_s), units_count(arena, row->cost), pareto->chart->y.label);
    chart_mark(pareto->chart, pareto->points[cluster_place(pareto, row->point->name)], &mark);
    if (!has_label) return;
    // The colour says the cluster.
    size_t length = strlen(row->point->name);
    const char *label = row->point->scenario.label;
    bool is_named = strncmp(label, row->point->name, length) == 0 && label[length] == ',';
    mark.title = is_named ? label + length + strspn(label + length, ", ") : label;
    chart_mark(pareto->chart, pareto->labels, &mark);
}

static void add_front(const struct pareto *pareto)
{
    const struct whatif *whatif = pareto->whatif;
    const struct whatif_row **front =
        ARENA_NEW(pareto->chart->arena, const struct whatif_row *, whatif->fit_count);
    int count = 0;
    for (int i = 0; i < whatif->fit_count; i++) {
        const struct whatif_row *row = &whatif->rows[whatif->order[i]];
        if (row->is_on_front) front[count++] = row;
    }
    qsort(front, (size_t)count, sizeof *front, by_time);
    struct chart_series *line =
        chart_add(pareto->chart, CHART_LINE, CHART_PLAIN, "no other is faster and cheaper");
    for (int i = 0; i < count; i++) {
        const struct chart_mark mark = {.x0 = front[i]->time_s / pareto->unit.unit_s,
                                        .y0 = front[i]->cost};
        chart_mark(pareto->chart, line, &mark);
    }
}

// A limit that was asked for, across the whole picture.
static void add_limit(struct chart *chart, const char *name, struct chart_mark from,
                      struct chart_mark to)
{
    struct chart_series *line = chart_add(chart, CHART_LINE, CHART_LIMIT, name);
    line->dashed = true;
    chart_mark(chart, line, &from);
    chart_mark(chart, line, &to);
}

static void set_axes(struct pareto *pareto)
{
    const struct whatif *whatif = pareto->whatif;
    const struct whatif_question *question = &whatif->question;
    struct chart *chart = pareto->chart;
    bool has_budget = question->budget > 0 && whatif->is_priced;
    double low_s = question->deadline_s > 0 ? question->deadline_s : INFINITY, low = INFINITY;
    double high_s = question->deadline_s, high = 0;
    if (has_budget) low = high = question->budget;
    for (int i = 0; i < whatif->fit_count; i++) {
        const struct whatif_row *row = &whatif->rows[whatif->order[i]];
        low_s = fmin(low_s, row->time_s);
        high_s = fmax(high_s, row->time_s);
        low = fmin(low, row->cost);
        high = fmax(high, row->cost);
    }
    fit_axis(&chart->x, low_s / pareto->unit.unit_s, high_s / pareto->unit.unit_s);
    fit_axis(&chart->y, low, high);
    double at = question->deadline_s / pareto->unit.unit_s;
    if (question->deadline_s > 0)
        add_limit(chart, "the deadline", (struct chart_mark){.x0 = at, .y0 = chart->y.low},
                  (struct chart_mark){.x0 = at, .y0 = chart->y.high});
    if (has_budget)
        add_limit(chart, "the budget",
                  (struct chart_mark){.x0 = chart->x.low, .y0 = question->budget},
                  (struct chart_mark){.x0 = chart->x.high, .y0 = question->budget});
}

bool whatif_pareto_chart(const struct whatif *whatif, struct chart *chart)
{
    if (whatif->fit_count == 0 || whatif->goal == WHATIF_MOST_TOKENS) return false;
    struct arena *arena = chart->arena;
    struct pareto pareto = {.whatif = whatif, .chart = chart, .unit = whatif_unit(whatif)};
    chart->name = "pareto";
    chart->title = "Time and cost of each scenario";
    chart->how = "Each point is a scenario; further left is sooner, further down is cheaper. The "
                 "line joins those that no other beats in both.";
    chart->x =
        (struct chart_axis){.label = arena_print(arena, "time of the run (%s)", pareto.unit.name),
                            .format = units_count};
    chart->y = (struct chart_axis){.label = whatif->is_priced ? whatif->currency : "GPU-hours",
                                   .format = units_count};
    chart->height = 420;
    set_axes(&pareto);
    add_front(&pareto);
    add_clusters(&pareto);
    pareto.labels = chart_add(chart, CHART_LABELS, CHART_PLAIN, NULL);
    // Where there are too many to read, those that matter.
    bool has_room = whatif->fit_count <= LABELS_MAX;
    // Those of the front first: they have their names before room runs out.
    for (int i = 0; i < 2 * whatif->fit_count; i++) {
        const struct whatif_row *row = &whatif->rows[whatif->order[i % whatif->fit_count]];
        bool is_front_turn = i < whatif->fit_count;
        if (row->is_on_front == is_front_turn) add_row(&pareto, row, has_room || is_front_turn);
    }
    return true;
}

static void add_point(struct chart *chart, struct chart_series *series, double x, double y,
                      const struct whatif_row *row, const char *rate, const struct stack *stack)
{
    const struct chart_mark mark = {
        .x0 = x,
        .y0 = y,
        .size = 4,
        .title = arena_print(chart->arena, "%s, %s: %s %s a GPU", row->point->scenario.label,
                             parallel_text(chart->arena, &row->outcome->best.parallel, stack),
                             units_count(chart->arena, y), rate)};
    chart_mark(chart, series, &mark);
}

bool whatif_scaling_chart(const struct scaling *scaling, struct chart *chart)
{
    const struct whatif *whatif = scaling->whatif;
    double first = scaling_first(whatif), high = first, low_gpus = INFINITY, high_gpus = 0;
    if (whatif->fit_count < 2) return false;
    const char *rate = model_config_rate_text(chart->arena, whatif->request->model);
    chart->name = "scaling";
    chart->title = "Speed of a GPU as their number grows";
    chart->how = "A level line would be perfect scaling: what it falls is what more GPUs spend on "
                 "each other; measured points lie on the line where the prediction is right.";
    struct chart_series *line = chart_add(chart, CHART_LINE, CHART_FORWARD, NULL);
    struct chart_series *points = chart_add(chart, CHART_POINTS, CHART_FORWARD, "predicted");
    struct chart_series *measured = NULL;
    if (scaling->measured.count > 0) {
        measured = chart_add(chart, CHART_POINTS, CHART_BACKWARD, "measured");
    }
    for (int i = 0; i < whatif->row_count; i++) {
        const struct whatif_row *row = &whatif->rows[i];
        if (!row->fits) continue;
        double gpus = row->point->at[SWEEP_GPUS];
        double speed = row->outcome->prediction.tokens_per_s_per_gpu;
        double found = scaling_measured_at(&scaling->measured, (int64_t)gpus);
        const struct chart_mark mark = {.x0 = gpus, .y0 = speed};
        chart_mark(chart, line, &mark);
        add_point(chart, points, gpus, speed, row, rate, whatif->request->stack);
        if (found > 0) add_point(chart, measured, gpus, found, row, rate, whatif->request->stack);
        low_gpus = fmin(low_gpus, gpus);
        high_gpus = fmax(high_gpus, gpus);
        high = fmax(high, fmax(speed, found));
    }
    struct chart_series *ideal = chart_add(chart, CHART_LINE, CHART_PLAIN, "no loss");
    ideal->dashed = true;
    chart_mark(chart, ideal, &(struct chart_mark){.x0 = low_gpus, .y0 = first});
    chart_mark(chart, ideal, &(struct chart_mark){.x0 = high_gpus, .y0 = first});
    chart->x = (struct chart_axis){.label = "GPUs",
                                   .scale = CHART_LOG,
                                   .low = low_gpus / 1.2,
                                   .high = high_gpus * 1.2,
                                   .format = units_count};
    chart->y = (struct chart_axis){.label = arena_print(chart->arena, "%s of a GPU", rate),
                                   .low = 0,
                                   .high = 1.1 * high,
                                   .format = units_count};
    chart->height = 420;
    return true;
}
