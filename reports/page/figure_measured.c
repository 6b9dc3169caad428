#include "core/units.h"
#include "reports/page/figure.h"

#include <assert.h>
#include <math.h>

// What a run of the plan took: step by step, rank by rank, stream by stream.

enum { ROWS_MAX = 32 };  // ranks that are drawn, the furthest behind first

bool figure_measured_steps(const struct report_facts *facts, struct chart *chart)
{
    const struct measured_run *run = facts->report->run;
    struct arena *arena = chart->arena;
    if (!run || run->step_count < 2) return false;
    double predicted_s = facts->report->evaluation->prediction.step_s, high_s = predicted_s;
    for (int i = 0; i < run->step_count; i++)
        high_s = fmax(high_s, run->step_s[i]);
    chart->name = "measured-steps";
    chart->title = "Seconds of each step";
    chart->how = "Each dot is a step of the slowest rank; the first one also loads and warms up. "
                 "The dashed line is what is predicted.";
    chart->x = (struct chart_axis){
        .label = "step", .low = 0.5, .high = run->step_count + 0.5, .is_whole = true};
    chart->y = (struct chart_axis){
        .label = "time of a step", .low = 0, .high = 1.08 * high_s, .format = figure_seconds};
    chart->height = 200;
    figure_level(chart, CHART_PLAIN, "predicted", predicted_s);
    struct chart_series *dots = chart_add(chart, CHART_POINTS, CHART_FORWARD, "measured");
    for (int i = 0; i < run->step_count; i++) {
        const char *title =
            arena_print(arena, "step %d: %s", i + 1, units_seconds(arena, run->step_s[i]));
        chart_mark(
            chart, dots,
            &(struct chart_mark){.x0 = i + 1, .y0 = run->step_s[i], .size = 3.5, .title = title});
    }
    return true;
}

static int row_count(const struct run_ranks *ranks)
{
    return ranks->rank_count < ROWS_MAX ? ranks->rank_count : ROWS_MAX;
}

// The names of the rows, the furthest behind on top.
static const char *const *rank_names(struct arena *arena, const struct run_ranks *ranks)
{
    assert(row_count(ranks) > 0);
    const char **names = ARENA_NEW(arena, const char *, row_count(ranks));
    for (int i = 0; i < row_count(ranks); i++)
        names[i] = arena_print(arena, "rank %d", ranks->ranks[i].rank);
    return names;
}

// What a rank did, one part behind the other, and a line at the compute that is predicted.
static void add_bars(struct chart *chart, const struct run_ranks *ranks, int count)
{
    assert(count > 0 && count <= ROWS_MAX);
    struct arena *arena = chart->arena;
    static const struct {
        enum chart_color color;
        const char *name;
    } DOES[] = {{CHART_FORWARD, "computes"}, {CHART_TRAFFIC, "exchanges"}, {CHART_WAIT, "waits"}};
    enum { DOES_COUNT = sizeof DOES / sizeof *DOES };
    struct chart_series *series[DOES_COUNT];
    for (int i = 0; i < DOES_COUNT; i++)
        series[i] = chart_add(chart, CHART_BOXES, DOES[i].color, DOES[i].name);
    struct chart_series *planned = chart_add(chart, CHART_BOXES, CHART_PLAIN, "predicted compute");
    for (int row = 0; row < count; row++) {
        const struct rank_times *times = &ranks->ranks[row];
        const double parts_s[DOES_COUNT] = {times->compute_s, times->exchange_s, times->wait_s};
        double from_s = 0;
        for (int i = 0; i < DOES_COUNT; i++) {
            const char *title = arena_print(arena, "rank %d %s: %s", times->rank, DOES[i].name,
                                            units_seconds(arena, parts_s[i]));
            if (parts_s[i] > 0) {
                chart_mark(chart, series[i],
                           &(struct chart_mark){.x0 = from_s,
                                                .x1 = fmin(from_s + parts_s[i], ranks->step_s),
                                                .y0 = row - 0.4,
                                                .y1 = row + 0.4,
                                                .title = title});
            }
            from_s += parts_s[i];
        }
        double at_s = times->predicted_compute_s, half_s = 0.002 * ranks->step_s;
        if (at_s <= half_s || at_s >= ranks->step_s - half_s) continue;
        chart_mark(
            chart, planned,
            &(struct chart_mark){
                .x0 = at_s - half_s, .x1 = at_s + half_s, .y0 = row - 0.46, .y1 = row + 0.46});
    }
}

bool figure_measured_ranks(const struct report_facts *facts, struct chart *chart)
{
    const struct run_ranks *ranks = &facts->report->ranks;
    struct arena *arena = chart->arena;
    int count = row_count(ranks);
    if (count == 0) return false;
    chart->name = "measured-ranks";
    chart->title = "What each rank did in the traced step";
    chart->how = "Ranks are ordered by how much longer they compute than the others of their "
                 "stage. Who computes longest lets the others wait, mostly in exchanges; the line "
                 "in a bar is the compute that is predicted.";
    chart->x = (struct chart_axis){.label = "time in the step",
                                   .low = 0,
                                   .high = 1.16 * ranks->step_s,
                                   .format = figure_seconds};
    const char **values = ARENA_NEW(arena, const char *, count);
    chart->y = (struct chart_axis){.scale = CHART_ROWS,
                                   .low = -0.5,
                                   .high = count - 0.5,
                                   .names = rank_names(arena, ranks),
                                   .values = values,
                                   .values_optional = true};
    chart->height = count < 3 ? 40 * count : chart_rows_height(&chart->y, count);
    for (int row = 0; row < count; row++)
        values[row] = units_signed_percent(arena, ranks->ranks[row].behind_ratio);
    add_bars(chart, ranks, count);
    return true;
}

static char *stream_text(struct arena *arena, double value)
{
    assert(lround(value) >= 0 && lround(value) < STREAM_COUNT);
    return arena_copy(arena, stream_name((enum stream)(int)lround(value)));
}

bool figure_measured_exchanges(const struct report_facts *facts, struct chart *chart)
{
    static const double AT[] = {STREAM_TP, STREAM_CP,  STREAM_EP, STREAM_DP,
                                STREAM_PP, STREAM_H2D, STREAM_D2H};
    const struct run_ranks *ranks = &facts->report->ranks;
    struct arena *arena = chart->arena;
    double most_s = 0;
    for (int row = 0; row < row_count(ranks); row++)
        for (int stream = STREAM_TP; stream < STREAM_COUNT; stream++)
            most_s = fmax(most_s, ranks->ranks[row].stream_s[stream]);
    if (most_s <= 0) return false;
    int count = row_count(ranks);
    chart->name = "measured-exchanges";
    chart->title = "How long each rank was in exchanges, by what they are over";
    chart->how = "The stronger the colour, the longer. It is measured time, waiting for the other "
                 "ranks included: whoever is late is pale where the others are dark.";
    chart->x = (struct chart_axis){.label = "exchanges over",
                                   .low = STREAM_TP - 0.5,
                                   .high = STREAM_COUNT - 0.5,
                                   .format = stream_text,
                                   .at = AT,
                                   .at_count = sizeof AT / sizeof *AT};
    chart->y = (struct chart_axis){
        .scale = CHART_ROWS, .low = -0.5, .high = count - 0.5, .names = rank_names(arena, ranks)};
    chart->height = count < 4 ? 40 * count : 22 * count;
    chart->width = 520;
    figure_shades(chart, CHART_TRAFFIC, most_s, units_seconds);
    struct chart_series *series = chart_add(chart, CHART_BOXES, CHART_TRAFFIC, NULL);
    for (int row = 0; row < count; row++) {
        for (int stream = STREAM_TP; stream < STREAM_COUNT; stream++) {
            double s = ranks->ranks[row].stream_s[stream];
            if (s <= 0) continue;
            const char *title =
                arena_print(arena, "rank %d, %s: %s", ranks->ranks[row].rank,
                            stream_name((enum stream)stream), units_seconds(arena, s));
            chart_mark(chart, series,
                       &(struct chart_mark){.x0 = stream - 0.46,
                                            .x1 = stream + 0.46,
                                            .y0 = row - 0.46,
                                            .y1 = row + 0.46,
                                            .title = title,
                                            .size = figure_shade(s, most_s)});
        }
    }
    return true;
}
