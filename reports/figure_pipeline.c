#include "core/units.h"
#include "reports/figure.h"

#include <math.h>

// The stages of a pipeline over the time of one step. Where tasks are narrower than the picture can
// show, each column shows what its stage does longest in it.

enum lane { LANE_WORK, LANE_BESIDE, LANE_COUNT };  // on the compute stream, and beside it
enum {
    COLUMNS_MAX = 1200,
    BOXES_MAX = 9000,
    TASKS_MAX = 5000,    // drawn one by one
    BEGIN_TASKS = 1500,  // of the beginning, where they are more
    KINDS = CHART_COLOR_COUNT
};

struct gantt {
    struct chart *chart;
    const struct schedule_shape *shape;
    const struct trace *trace;
    struct chart_series *series[KINDS];
};

static enum chart_color color_of(const struct schedule_shape *shape, const struct span *span)
{
    if (span->stream != STREAM_COMPUTE) return CHART_TRAFFIC;
    switch ((int)task_id_of(shape, span->task).kind) {
    case TASK_FORWARD:
        return CHART_FORWARD;
    case TASK_BACKWARD:
        return CHART_BACKWARD;
    case TASK_WEIGHT:
        return CHART_WEIGHT;
    default:
        return CHART_UPDATE;
    }
}

// What a stage does besides computing: hops and reductions on their own streams. Exposed
// communication inside a task stands in the lane of work, because compute waits for it.
static enum lane lane_of(const struct schedule_shape *shape, const struct span *span)
{
    if (span->stream == STREAM_COMPUTE) return LANE_WORK;
    if (span->stream == STREAM_PP || span->stream == STREAM_H2D || span->stream == STREAM_D2H)
        return LANE_BESIDE;
    bool is_slot = task_id_of(shape, span->task).kind < TASK_KIND_COUNT;
    return is_slot ? LANE_WORK : LANE_BESIDE;
}

static void add_box(struct gantt *gantt, int row, enum lane lane, enum chart_color color,
                    double from_s, double to_s)
{
    double top = row - 0.44, bottom = row + 0.22;
    if (lane == LANE_BESIDE) top = row + 0.26, bottom = row + 0.42;
    chart_mark(gantt->chart, gantt->series[color],
               &(struct chart_mark){.x0 = from_s, .x1 = to_s, .y0 = top, .y1 = bottom});
}

static void draw_tasks(struct gantt *gantt, double end_s)
{
    for (int64_t i = 0; i < gantt->trace->span_count; i++) {
        const struct span *span = &gantt->trace->spans[i];
        double start_s = 1e-9 * (double)span->start_ns, stop_s = 1e-9 * (double)span->end_ns;
        if (start_s >= end_s) continue;
        add_box(gantt, span->rank, lane_of(gantt->shape, span), color_of(gantt->shape, span),
                start_s, fmin(stop_s, end_s));
    }
}

// Nanoseconds of every colour in every column of one row and lane.
static void draw_row(struct gantt *gantt, int row, enum lane lane, int columns, double end_s)
{
    double *busy = ARENA_NEW(gantt->chart->arena, double, columns *KINDS);
    double width_s = end_s / columns;
    for (int64_t i = 0; i < gantt->trace->span_count; i++) {
        const struct span *span = &gantt->trace->spans[i];
        if (span->rank != row || lane_of(gantt->shape, span) != lane) continue;
        double start_s = 1e-9 * (double)span->start_ns, stop_s = 1e-9 * (double)span->end_ns;
        enum chart_color color = color_of(gantt->shape, span);
        for (int c = (int)(start_s / width_s); c < columns && c * width_s < stop_s; c++) {
            double from = fmax(start_s, c * width_s), to = fmin(stop_s, (c + 1) * width_s);
            if (to > from) busy[c * KINDS + (int)color] += to - from;
        }
    }
    int color = -1, begin = 0;
    for (int c = 0; c <= columns; c++) {
        int most = -1;
        double most_s = c < columns ? width_s : 0;
        for (int k = 0; c < columns && k < KINDS; k++)
            most_s -= busy[c * KINDS + k];  // what is left is waiting
        for (int k = 0; c < columns && k < KINDS; k++) {
            if (busy[c * KINDS + k] > most_s) most = k, most_s = busy[c * KINDS + k];
        }
        if (c < columns && most == color) continue;
        if (color >= 0)
            add_box(gantt, row, lane, (enum chart_color)color, begin * width_s, c * width_s);
        color = most;
        begin = c;
    }
}

static bool draw(const struct report_facts *facts, const struct trace *trace, double end_s,
                 bool one_by_one, struct chart *chart)
{
    const struct evaluation *evaluation = facts->report->evaluation;
    if (trace->span_count == 0) return false;
    struct arena *arena = chart->arena;
    int rows = trace->rank_count;
    const char **names = ARENA_NEW(arena, const char *, rows);
    for (int i = 0; i < rows; i++)
        names[i] = arena_print(arena, rows > 1 ? "stage %d" : "GPU", i);
    chart->x = (struct chart_axis){
        .label = "time in the step", .low = 0, .high = end_s, .format = figure_seconds};
    chart->y =
        (struct chart_axis){.scale = CHART_ROWS, .low = -0.5, .high = rows - 0.5, .names = names};
    chart->height = chart_rows_height(&chart->y, rows);
    if (rows < 3) chart->height = 48 * rows;
    struct gantt gantt = {.chart = chart, .shape = &evaluation->program->shape, .trace = trace};
    static const struct {
        enum chart_color color;
        const char *name;
    } KIND_NAMES[] = {{CHART_FORWARD, "forward"},
                      {CHART_BACKWARD, "backward"},
                      {CHART_WEIGHT, "weight gradients"},
                      {CHART_TRAFFIC, "communication"},
                      {CHART_UPDATE, "norm and update"}};
    for (size_t i = 0; i < sizeof KIND_NAMES / sizeof *KIND_NAMES; i++) {
        gantt.series[KIND_NAMES[i].color] =
            chart_add(chart, CHART_BOXES, KIND_NAMES[i].color, KIND_NAMES[i].name);
    }
    if (one_by_one) {
        draw_tasks(&gantt, end_s);
        return true;
    }
    int columns = BOXES_MAX / rows;
    if (columns > COLUMNS_MAX) columns = COLUMNS_MAX;
    if (columns < 200) columns = 200;
    for (int row = 0; row < rows; row++) {
        draw_row(&gantt, row, LANE_WORK, columns, end_s);
        draw_row(&gantt, row, LANE_BESIDE, columns, end_s);
    }
    return true;
}

static bool has_room(const struct trace *trace)
{
    return trace->span_count <= TASKS_MAX;
}

bool figure_pipeline_begin(const struct report_facts *facts, struct chart *chart)
{
    const struct trace *trace = &facts->report->evaluation->simulation->trace;
    if (has_room(trace)) return false;
    // Spans are sorted by their start.
    double end_s = 1e-9 * (double)trace->spans[BEGIN_TASKS].start_ns;
    if (end_s <= 0) return false;
    chart->name = "pipeline-begin";
    chart->title = "Its beginning, task by task";
    chart->how = "How the pipeline fills: the order in which every stage takes its micro-batches.";
    return draw(facts, trace, end_s, true, chart);
}

bool figure_pipeline(const struct report_facts *facts, struct chart *chart)
{
    const struct evaluation *evaluation = facts->report->evaluation;
    bool has_stages = evaluation->program->shape.stage_count > 1;
    chart->name = "pipeline";
    chart->title = has_stages ? "The pipeline over one step" : "One GPU over one step";
    bool one_by_one = has_room(&evaluation->simulation->trace);
    chart->how = arena_print(
        chart->arena,
        "%s: gaps are waiting, the thin line below a row is communication that runs beside "
        "compute.%s",
        has_stages ? "One row a pipeline stage, time to the right" : "Time runs to the right",
        one_by_one ? ""
                   : " There are more tasks than pixels: each column has the colour of what "
                     "takes most of it.");
    double end_s = evaluation->prediction.step_s;
    if (facts->report->straggler.slowdown_ratio > 0)
        end_s = fmax(end_s, facts->report->straggler.step_s);
    return draw(facts, &evaluation->simulation->trace, end_s, one_by_one, chart);
}

bool figure_straggler(const struct report_facts *facts, struct chart *chart)
{
    const struct report_straggler *straggler = &facts->report->straggler;
    if (straggler->slowdown_ratio <= 0) return false;
    double step_s = facts->report->evaluation->prediction.step_s;
    struct arena *arena = chart->arena;
    chart->name = "straggler";
    chart->title = arena_print(
        arena, "The same with rank %d computing %.3g times as long: %s a step, %s", straggler->rank,
        straggler->slowdown_ratio, units_seconds(arena, straggler->step_s),
        units_signed_percent(arena, straggler->step_s / step_s - 1));
    chart->how = arena_print(arena,
                             "The pipeline that rank %d is in, on the same clock as above: its "
                             "stage %d is the slow one, and all the others wait for it.",
                             straggler->rank, straggler->stage);
    return draw(facts, &straggler->trace, fmax(step_s, straggler->step_s),
                has_room(&straggler->trace), chart);
}
