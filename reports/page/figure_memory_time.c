#include "reports/page/figure.h"
#include "reports/table/plan_table.h"
#include "simulator/memory_time.h"

#include <assert.h>
#include <math.h>

// What is alive on a GPU of a stage over the time of a step (simulator/memory_time.h).

static const double GIB = 1024.0 * 1024.0 * 1024.0;
enum { STAGES_MAX = 4, COLUMNS = 600 };

// The most that is alive in each column of the picture. Returns the most of all.
static double draw_curve(const struct chart *chart, struct chart_series *series,
                         const struct memory_time *time, double end_s)
{
    assert(time->count > 0 && end_s > 0);
    double now = time->list[0].bytes, highest = now;
    int next = 1;
    for (int column = 0; column <= COLUMNS; column++) {
        double until_ns = 1e9 * end_s * (column + 1) / COLUMNS, most = now;
        for (; next < time->count && (double)time->list[next].at_ns < until_ns; next++) {
            now = time->list[next].bytes;
            most = fmax(most, now);
        }
        highest = fmax(highest, most);
        chart_mark(chart, series,
                   &(struct chart_mark){.x0 = end_s * column / COLUMNS, .y0 = most / GIB});
    }
    return highest;
}

// All where they are few; else the first, the fullest, one between and the last.
static int stages_shown(const struct evaluation *evaluation, int stages[STAGES_MAX])
{
    int last = evaluation->program->shape.stage_count - 1, count = 0;
    int wanted[STAGES_MAX] = {0, evaluation->worst_stage, last / 2, last};
    for (int i = 0; last < STAGES_MAX && i < STAGES_MAX; i++)
        wanted[i] = i < last ? i : last;
    for (int i = 0; i < STAGES_MAX; i++) {
        bool is_new = true;
        for (int k = 0; k < count; k++)
            is_new = is_new && stages[k] != wanted[i];
        if (is_new) stages[count++] = wanted[i];
    }
    assert(count > 0 && count <= STAGES_MAX);
    return count;
}

bool figure_memory_time(const struct report_facts *facts, struct chart *chart)
{
    static const enum chart_color COLORS[STAGES_MAX] = {CHART_FORWARD, CHART_BACKWARD, CHART_UPDATE,
                                                        CHART_WEIGHT};
    const struct report *report = facts->report;
    const struct evaluation *evaluation = report->evaluation;
    struct arena *arena = chart->arena;
    double end_s = evaluation->prediction.step_s;
    double limit = (double)evaluation->prediction.device_bytes, highest = limit;
    chart->name = "memory-time";
    chart->title = "Memory alive over one step";
    chart->x = (struct chart_axis){
        .label = "time in the step", .low = 0, .high = end_s, .format = figure_seconds};
    chart->height = 260;
    int stages[STAGES_MAX], count = stages_shown(evaluation, stages);
    bool has_stages = evaluation->program->shape.stage_count > 1;
    chart->how = arena_print(
        arena,
        "A line climbs with every forward pass whose activations wait for their backward pass. It "
        "has to stay below the dashed line, less the software's reserve.%s",
        count < evaluation->program->shape.stage_count
            ? " Drawn are the first stage, the fullest, one in the middle and the last."
            : "");
    for (int i = 0; i < count; i++) {
        struct memory_time time = memory_time(arena, evaluation->program, report->request->stack,
                                              &evaluation->simulation->trace, stages[i], stages[i]);
        const char *name = arena_print(arena, has_stages ? "stage %d" : "alive", stages[i]);
        struct chart_series *series = chart_add(chart, CHART_STEPS, COLORS[i], name);
        highest = fmax(highest, draw_curve(chart, series, &time, end_s));
    }
    if (evaluation->prediction.planned_bytes > 0)
        figure_level(chart, CHART_PLAIN, "allocated by the memory schedule",
                     (double)evaluation->prediction.peak_bytes / GIB);
    const char *noun = cluster_device_noun(report->request->cluster);
    const char *whose = cluster_has_one_device(report->request->cluster)
                            ? ""
                            : arena_print(arena, " of stage %d", evaluation->worst_stage);
    figure_level(chart, CHART_LIMIT, arena_print(arena, "what a %s%s has", noun, whose),
                 limit / GIB);
    chart->y = (struct chart_axis){.label = "GiB", .low = 0, .high = 1.05 * highest / GIB};
    return true;
}
