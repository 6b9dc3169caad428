#include "core/units.h"
#include "reports/page/figure.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Where the seconds of a step go: parts one behind the other, so that the last ends at the step.

struct bar {
    const char *name;
    double s;
    enum chart_color color;
};

enum { PARTS_MAX = 13 };

// What rounding to nanoseconds leaves is no part.
static const double LEAST_RATIO = 1e-6;

const char *step_part_words(const char *term)
{
    static const char *const WORDS[][2] = {
        {"tensor parallel", "tensor-parallel communication"},
        {"context parallel", "context-parallel communication"},
        {"expert parallel", "expert communication"},
        {"data parallel", "data-parallel communication"},
        {"pipeline transfers", "pipeline communication"},
        {"offload copies", "copies to and from the host"},
        {"stage imbalance", "waiting for fuller stages"},
        {"bubble", "waiting in the pipeline (bubble)"},
        {"update", "optimizer update"},
    };
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        if (strcmp(term, WORDS[i][0]) == 0) return WORDS[i][1];
    }
    return term;
}

static int parts_of(const struct cost *cost, struct bar parts[PARTS_MAX])
{
    const struct bar all[] = {
        {"compute", cost->compute_s, CHART_FORWARD},
        {"recompute", cost->recompute_s, CHART_WEIGHT},
        {step_part_words("tensor parallel"), cost->exposed_s[PART_TP], CHART_TRAFFIC},
        {step_part_words("context parallel"), cost->exposed_s[PART_CP], CHART_TRAFFIC},
        {step_part_words("expert parallel"), cost->exposed_s[PART_EP], CHART_TRAFFIC},
        {step_part_words("data parallel"), cost->exposed_s[PART_DP], CHART_TRAFFIC},
        {step_part_words("pipeline transfers"), cost->exposed_pp_s, CHART_TRAFFIC},
        {step_part_words("offload copies"), cost->exposed_s[PART_OFFLOAD], CHART_TRAFFIC},
        {step_part_words("stage imbalance"), cost->imbalance_s, CHART_WAIT},
        {step_part_words("bubble"), cost->bubble_s, CHART_WAIT},
        {step_part_words("update"), cost->update_s, CHART_UPDATE},
        {"overhead", cost->overhead_s, CHART_WAIT},
    };
    int count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].s > LEAST_RATIO * cost->step_s) parts[count++] = all[i];
    }
    assert(count < PARTS_MAX && cost->step_s > 0);
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
    chart->how = "Each bar starts where the one above it ends, so the lengths add up to the step. "
                 "They are means over all ranks; communication that compute hides is left out.";
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
