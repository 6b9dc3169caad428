#include "reports/whatif/whatif_chart.h"

#include "core/units.h"
#include "reports/table/plan_table.h"
#include "reports/whatif/whatif_text.h"

#include <math.h>
#include <stdlib.h>

// Room for the points at both ends; a scale of one value has some too. Credits may leave nothing
// to pay: zeros have no place on a logarithmic scale, and need a scale where all is zero.
static void fit_axis(struct chart_axis *axis, double low, double high)
{
    bool wide = low > 0 && high > 20 * low;
    if (high <= 0) high = 1;
    axis->scale = wide ? CHART_LOG : CHART_LINEAR;
    axis->low = wide ? low / 1.3 : fmax(0, low - 0.1 * (high - low) - 0.02 * high);
    axis->high = wide ? high * 1.3 : high + 0.1 * (high - low) + 0.02 * high;
}

static int by_time(const void *left, const void *right)
{
    const struct whatif_row *const *a = left, *const *b = right;
    return ((*a)->time_s > (*b)->time_s) - ((*a)->time_s < (*b)->time_s);
}

static void add_point(struct chart *chart, struct chart_series *series, double x, double y,
                      const struct whatif_row *row)
{
    const struct chart_mark mark = {
        .x0 = x,
        .y0 = y,
        .size = 4,
        .title = arena_print(chart->arena, "%s: %s", row->point->scenario.label,
                             parallel_text(chart->arena, &row->outcome->best.parallel))};
    chart_mark(chart, series, &mark);
}

bool whatif_pareto_chart(const struct whatif *whatif, struct chart *chart)
{
    if (whatif->fit_count == 0 || whatif->goal == WHATIF_MOST_TOKENS) return false;
    struct arena *arena = chart->arena;
    const struct whatif_unit unit = whatif_unit(whatif);
    double low_s = INFINITY, high_s = 0, low = INFINITY, high = 0;
    const struct whatif_row **front =
        ARENA_NEW(arena, const struct whatif_row *, whatif->fit_count);
    int front_count = 0;
    chart->name = "pareto";
    chart->title = "Time against cost";
    chart->how = "Each point is one scenario; further left is sooner, further down is cheaper, and "
                 "the line joins those that no other beats in both.";
    struct chart_series *others = chart_add(chart, CHART_POINTS, CHART_WAIT, "others");
    for (int i = 0; i < whatif->fit_count; i++) {
        const struct whatif_row *row = &whatif->rows[whatif->order[i]];
        low_s = fmin(low_s, row->time_s);
        high_s = fmax(high_s, row->time_s);
        low = fmin(low, row->cost);
        high = fmax(high, row->cost);
        if (row->is_on_front) {
            front[front_count++] = row;
        } else {
            add_point(chart, others, row->time_s / unit.unit_s, row->cost, row);
        }
    }
    if (front_count == whatif->fit_count) others->name = NULL;
    qsort(front, (size_t)front_count, sizeof *front, by_time);
    struct chart_series *line = chart_add(chart, CHART_LINE, CHART_FORWARD, NULL);
    struct chart_series *points =
        chart_add(chart, CHART_POINTS, CHART_FORWARD, "no other is faster and cheaper");
    for (int i = 0; i < front_count; i++) {
        const struct chart_mark mark = {.x0 = front[i]->time_s / unit.unit_s, .y0 = front[i]->cost};
        chart_mark(chart, line, &mark);
        add_point(chart, points, mark.x0, mark.y0, front[i]);
    }
    chart->x = (struct chart_axis){.label = arena_print(arena, "time of the run (%s)", unit.name),
                                   .format = units_count};
    chart->y = (struct chart_axis){.label = whatif->is_priced ? whatif->currency : "GPU-hours",
                                   .format = units_count};
    fit_axis(&chart->x, low_s / unit.unit_s, high_s / unit.unit_s);
    fit_axis(&chart->y, low, high);
    chart->height = 420;
    return true;
}

bool whatif_scaling_chart(const struct scaling *scaling, struct chart *chart)
{
    const struct whatif *whatif = scaling->whatif;
    double first = scaling_first(whatif), high = first, low_gpus = INFINITY, high_gpus = 0;
    if (whatif->fit_count < 2) return false;
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
        add_point(chart, points, gpus, speed, row);
        if (found > 0) add_point(chart, measured, gpus, found, row);
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
    chart->y = (struct chart_axis){
        .label = "tokens a second and GPU", .low = 0, .high = 1.1 * high, .format = units_count};
    chart->height = 420;
    return true;
}
