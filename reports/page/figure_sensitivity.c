#include "core/units.h"
#include "reports/page/constant_words.h"
#include "reports/page/figure.h"

#include <assert.h>
#include <math.h>

// What 10 % more and less of each constant does to the step: a tornado.

enum { ROWS = 12 };

static const char *signed_seconds(struct arena *arena, double s)
{
    if (s == 0) return "0";
    return arena_print(arena, "%s%s", s < 0 ? "\xe2\x88\x92" : "+", units_seconds(arena, fabs(s)));
}

static char *percent_text(struct arena *arena, double ratio)
{
    if (ratio == 0) return arena_copy(arena, "0");
    return arena_print(arena, "%s%.3g %%", ratio < 0 ? "\xe2\x88\x92" : "+", fabs(100 * ratio));
}

static void add_bar(struct chart *chart, struct chart_series *series, int row, double ratio,
                    const char *title)
{
    assert(isfinite(ratio));
    if (ratio == 0) return;
    double top = row - 0.42, bottom = row + 0.42;
    chart_mark(
        chart, series,
        &(struct chart_mark){
            .x0 = fmin(ratio, 0), .x1 = fmax(ratio, 0), .y0 = top, .y1 = bottom, .title = title});
}

bool figure_sensitivity(const struct report_facts *facts, struct chart *chart)
{
    const struct sensitivity *sensitivity = &facts->report->explain.sensitivity;
    struct arena *arena = chart->arena;
    int count = sensitivity->count < ROWS ? sensitivity->count : ROWS;
    if (count == 0) return false;
    assert(sensitivity->step_s > 0);
    const char **names = ARENA_NEW(arena, const char *, count);
    const char **values = ARENA_NEW(arena, const char *, count);
    double most = 0, step_s = sensitivity->step_s;
    for (int i = 0; i < count; i++) {
        const struct sensitivity_row *row = &sensitivity->rows[i];
        most = fmax(most, fmax(fabs(row->more_s), fabs(row->less_s)) / step_s);
        names[i] = constant_short_words(arena, row->constant);
        values[i] = constant_value_text(arena, row->constant);
    }
    if (most <= 0) return false;
    chart->name = "sensitivity";
    chart->title = "How the step changes with each assumption";
    chart->how = "Each bar is the step computed again with one assumption 10 % higher or lower "
                 "and the plan unchanged; bars to the left are faster. The values in use stand on "
                 "the right, or on a narrow screen under \"The values\".";
    chart->x = (struct chart_axis){.label = "change of the step",
                                   .low = -1.06 * most,
                                   .high = 1.06 * most,
                                   .format = percent_text};
    chart->y = (struct chart_axis){.scale = CHART_ROWS,
                                   .low = -0.5,
                                   .high = count - 0.5,
                                   .names = names,
                                   .values = values,
                                   .names_above = true,
                                   .values_optional = true};
    chart->height = chart_rows_height(&chart->y, count);
    struct chart_series *more = chart_add(chart, CHART_BOXES, CHART_FORWARD, "10 % higher");
    struct chart_series *less = chart_add(chart, CHART_BOXES, CHART_BACKWARD, "10 % lower");
    for (int i = 0; i < count; i++) {
        const struct sensitivity_row *row = &sensitivity->rows[i];
        if (row->can_grow)
            add_bar(chart, more, i, row->more_s / step_s,
                    arena_print(arena, "%s, %s, 10 %% higher: %s", names[i], values[i],
                                signed_seconds(arena, row->more_s)));
        add_bar(chart, less, i, row->less_s / step_s,
                arena_print(arena, "%s, %s, 10 %% lower: %s", names[i], values[i],
                            signed_seconds(arena, row->less_s)));
    }
    return true;
}
