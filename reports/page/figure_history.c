#include "core/units.h"
#include "reports/page/figure.h"

#include <assert.h>
#include <math.h>

// How long a step of the plan took, call by call of `bench`.

static void add_points(struct chart *chart, const struct report_history *history)
{
    struct arena *arena = chart->arena;
    struct chart_series *spread =
        chart_add(chart, CHART_BOXES, CHART_WAIT, "least to most of the runs");
    struct chart_series *line = chart_add(chart, CHART_LINE, CHART_FORWARD, NULL);
    struct chart_series *dots = chart_add(chart, CHART_POINTS, CHART_FORWARD, "median of a call");
    for (int i = 0; i < history->count; i++) {
        const struct history_point *point = &history->points[i];
        assert(point->low_s <= point->median_s && point->median_s <= point->high_s);
        const char *title = arena_print(
            arena, "%s UTC: %s, %d run%s from %s to %s", history_date_text(arena, point->date),
            units_seconds(arena, point->median_s), point->run_count,
            point->run_count == 1 ? "" : "s", units_seconds(arena, point->low_s),
            units_seconds(arena, point->high_s));
        if (point->high_s > point->low_s)
            chart_mark(chart, spread,
                       &(struct chart_mark){.x0 = i + 0.92,
                                            .x1 = i + 1.08,
                                            .y0 = point->low_s,
                                            .y1 = point->high_s,
                                            .title = title});
        chart_mark(chart, line, &(struct chart_mark){.x0 = i + 1, .y0 = point->median_s});
        chart_mark(
            chart, dots,
            &(struct chart_mark){.x0 = i + 1, .y0 = point->median_s, .size = 3.5, .title = title});
    }
}

bool figure_history(const struct report_facts *facts, struct chart *chart)
{
    const struct report_history *history = facts->report->history;
    struct arena *arena = chart->arena;
    if (!history || history->count == 0) return false;
    double predicted_s = facts->report->evaluation->prediction.step_s, high_s = predicted_s;
    for (int i = 0; i < history->count; i++)
        high_s = fmax(high_s, history->points[i].high_s);
    chart->name = "history";
    chart->title = "Seconds of a step over time";
    chart->how = arena_print(
        arena, "Each dot is a call of bench, from %s to %s. The dashed line is what is predicted.",
        history_date_text(arena, history->points[0].date),
        history_date_text(arena, history->points[history->count - 1].date));
    chart->x = (struct chart_axis){.label = "call of bench, oldest first",
                                   .low = 0.5,
                                   .high = history->count + 0.5,
                                   .is_whole = true};
    chart->y = (struct chart_axis){
        .label = "time of a step", .low = 0, .high = 1.08 * high_s, .format = figure_seconds};
    chart->height = 220;
    figure_level(chart, CHART_PLAIN, "predicted", predicted_s);
    add_points(chart, history);
    return true;
}
