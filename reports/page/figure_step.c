#include "core/units.h"
#include "reports/page/figure.h"

#include <math.h>

// Where the seconds of a step go: parts one behind the other, so that the last ends at the step.

struct bar {
    const char *name;
    double s;
    enum chart_color color;
};

enum { PARTS_MAX = 13 };

// What rounding to nanoseconds leaves is no part.
static const double LEAST_RATIO = 1e-6;

static int parts_of(const struct cost *cost, struct bar parts[PARTS_MAX])
{
    const struct bar all[] = {
        {"compute", cost->compute_s, CHART_FORWARD},
        {"recompute", cost->recompute_s, CHART_WEIGHT},
        {"tensor-parallel communication", cost->exposed_s[PART_TP], CHART_TRAFFIC},
        {"context-parallel communication", cost->exposed_s[PART_CP], CHART_TRAFFIC},
        {"expert communication", cost->exposed_s[PART_EP], CHART_TRAFFIC},
        {"data-parallel communication", cost->exposed_s[PART_DP], CHART_TRAFFIC},
        {"pipeline communication", cost->exposed_pp_s, CHART_TRAFFIC},
        {"copies to and from the host", cost->exposed_s[PART_OFFLOAD], CHART_TRAFFIC},
        {"waiting for fuller stages", cost->imbalance_s, CHART_WAIT},
        {"waiting in the pipeline (bubble)", cost->bubble_s, CHART_WAIT},
        {"optimizer update", cost->update_s, CHART_UPDATE},
        {"overhead", cost->overhead_s, CHART_WAIT},
    };
    int count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].s > LEAST_RATIO * cost->step_s) parts[count++] = all[i];
    }
    parts[count++] = (struct bar){"the step", cost->step_s, CHART_PLAIN};
    return count;
}

bool figure_waterfall(const struct report_facts *facts, struct chart *chart)
{
    const struct cost *cost = &facts->report->evaluation->prediction.cost;
    struct arena *arena = chart->arena;
    struct bar parts[PARTS_MAX];
    int count = parts_of(cost, parts);
    const char **names = ARENA_NEW(arena, const char *, count);
    const char **values = ARENA_NEW(arena, const char *, count);
    chart->name = "waterfall";
    chart->title = "Where the seconds of one step go";
    chart->how = "Each bar starts where the one above it ends, so the lengths add up to the step; "
                 "what is drawn is the mean over all ranks, without communication that is hidden.";
    chart->x = (struct chart_axis){
        .label = "time in the step", .low = 0, .high = cost->step_s, .format = figure_seconds};
    chart->y = (struct chart_axis){.scale = CHART_ROWS,
                                   .low = -0.5,
                                   .high = count - 0.5,
                                   .names = names,
                                   .values = values,
                                   .names_above = true};
    chart->height = chart_rows_height(&chart->y, count);
    double from_s = 0;
    for (int i = 0; i < count; i++) {
        const struct bar *part = &parts[i];
        bool is_step = i == count - 1;
        if (is_step) from_s = 0;
        names[i] = part->name;
        values[i] = arena_print(arena, "%s \xc2\xb7 %s", units_seconds(arena, part->s),
                                units_ratio(arena, part->s / cost->step_s));
        struct chart_series *series = chart_add(chart, CHART_BOXES, part->color, NULL);
        chart_mark(
            chart, series,
            &(struct chart_mark){.x0 = from_s,
                                 .x1 = fmin(from_s + part->s, cost->step_s),
                                 .y0 = i - 0.42,
                                 .y1 = i + 0.42,
                                 .title = arena_print(arena, "%s: %s", part->name, values[i])});
        from_s += part->s;
    }
    return true;
}
