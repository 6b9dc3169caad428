#include "core/units.h"
#include "reports/page/figure.h"
#include "reports/page/section.h"
#include "reports/table/plan_table.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// The stages of a pipeline over the time of one step. Where tasks are narrower than the picture can
// show, each column shows what its stage does longest in it.

enum lane { LANE_WORK, LANE_BESIDE, LANE_COUNT };  // on the compute stream, and beside it
enum {
    COLUMNS_MAX = 1200,
    COLUMNS_LEAST = 120,
    BOXES_MAX = 6000,
    TASKS_MAX = 4500,    // drawn one by one
    BEGIN_TASKS = 1500,  // of the beginning, where they are more
    RANK_ROWS_MAX = 32,
    KINDS = CHART_COLOR_COUNT
};

struct gantt {
    struct chart *chart;
    const struct schedule_shape *shape;
    const struct trace *trace;
    const int *row_of;  // [rank] -1: not shown
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
    bool is_slot = task_id_of(shape, span->task).kind < SLOT_KIND_COUNT;
    return is_slot ? LANE_WORK : LANE_BESIDE;
}

static void add_box(struct gantt *gantt, int row, enum lane lane, enum chart_color color,
                    double from_s, double to_s)
{
    assert(gantt->series[color] && from_s <= to_s);
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
        if (start_s >= end_s || gantt->row_of[span->rank] < 0) continue;
        add_box(gantt, gantt->row_of[span->rank], lane_of(gantt->shape, span),
                color_of(gantt->shape, span), start_s, fmin(stop_s, end_s));
    }
}

// Nanoseconds of every colour in every column of one row and lane.
static void draw_row(struct gantt *gantt, int row, enum lane lane, int columns, double end_s)
{
    assert(columns > 0 && end_s > 0);
    double *busy = ARENA_NEW(gantt->chart->arena, double, columns *KINDS);
    double width_s = end_s / columns;
    for (int64_t i = 0; i < gantt->trace->span_count; i++) {
        const struct span *span = &gantt->trace->spans[i];
        if (gantt->row_of[span->rank] != row || lane_of(gantt->shape, span) != lane) continue;
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

// What is drawn: the rows, where each rank's spans go, and until when.
struct pipeline_rows {
    const struct trace *trace;
    const char **names;
    int count;
    int *of;  // [rank]
};

static bool draw(const struct schedule_shape *shape, const struct pipeline_rows *rows, double end_s,
                 bool one_by_one, struct chart *chart)
{
    assert(rows->count > 0 && end_s > 0);
    if (rows->trace->span_count == 0) return false;
    chart->x = (struct chart_axis){
        .label = "time in the step", .low = 0, .high = end_s, .format = figure_seconds};
    chart->y = (struct chart_axis){
        .scale = CHART_ROWS, .low = -0.5, .high = rows->count - 0.5, .names = rows->names};
    chart->height = rows->count < 3 ? 48 * rows->count : chart_rows_height(&chart->y, rows->count);
    struct gantt gantt = {.chart = chart, .shape = shape, .trace = rows->trace, .row_of = rows->of};
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
    int columns = BOXES_MAX / rows->count;
    if (columns > COLUMNS_MAX) columns = COLUMNS_MAX;
    if (columns < COLUMNS_LEAST) columns = COLUMNS_LEAST;
    for (int row = 0; row < rows->count; row++) {
        draw_row(&gantt, row, LANE_WORK, columns, end_s);
        draw_row(&gantt, row, LANE_BESIDE, columns, end_s);
    }
    return true;
}

// One row a stage.
static struct pipeline_rows rows_of_stages(struct arena *arena, const struct trace *trace)
{
    int count = trace->rank_count;
    struct pipeline_rows rows = {trace, ARENA_NEW(arena, const char *, count), count,
                                 ARENA_NEW(arena, int, count)};
    for (int i = 0; i < count; i++) {
        rows.names[i] = arena_print(arena, count > 1 ? "stage %d" : "a rank", i);
        rows.of[i] = i;
    }
    return rows;
}

// "x1.2" of a rank that is named "rank 17 (x1.2)"; of others what says how they fare.
static const char *fate(struct arena *arena, const struct trace *trace, int rank)
{
    const char *text = strchr(trace->rank_name(trace->context, rank, arena), '(');
    return text ? text : "";
}

// One row for each stage and way to fare: a slow rank, one in step with it, one of the others.
static struct pipeline_rows rows_of_ranks(struct arena *arena, const struct program *program,
                                          const struct trace *trace)
{
    const struct mesh *mesh = &program->mesh;
    struct pipeline_rows rows = {trace, ARENA_NEW(arena, const char *, RANK_ROWS_MAX), 0,
                                 ARENA_NEW(arena, int, trace->rank_count)};
    const char *fates[RANK_ROWS_MAX];
    int stages[RANK_ROWS_MAX], stage_count = program->shape.stage_count;
    for (int rank = 0; rank < trace->rank_count; rank++)
        rows.of[rank] = -1;
    for (int stage = 0; stage < stage_count; stage++) {
        for (int rank = 0; rank < trace->rank_count && rows.count < RANK_ROWS_MAX; rank++) {
            if (trace->appears && !trace->appears[rank]) continue;
            if (mesh_stage_of(mesh, rank) != stage) continue;
            const char *own = fate(arena, trace, rank);
            bool is_new = true;
            for (int i = 0; i < rows.count; i++)
                is_new = is_new && !(stages[i] == stage && strcmp(fates[i], own) == 0);
            if (!is_new) continue;
            stages[rows.count] = stage;
            fates[rows.count] = own;
            assert(rows.count < RANK_ROWS_MAX);
            int length = (int)strcspn(own, ")");
            bool is_slow = strncmp(own, "(x", 2) == 0;
            rows.names[rows.count] = is_slow
                                         ? arena_print(arena, "%d %.*s", rank, length - 1, own + 1)
                                         : arena_print(arena, "rank %d", rank);
            rows.of[rank] = rows.count++;
        }
    }
    return rows;
}

// As many tasks as a reader can tell apart, and as a page can hold.
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
    chart->title = "The beginning of the step, task by task";
    chart->how = "How the pipeline fills, and in which order each stage takes its micro-batches.";
    struct pipeline_rows rows = rows_of_stages(chart->arena, trace);
    return draw(&facts->report->evaluation->program->shape, &rows, end_s, true, chart);
}

bool figure_pipeline(const struct report_facts *facts, struct chart *chart)
{
    const struct evaluation *evaluation = facts->report->evaluation;
    bool has_stages = evaluation->program->shape.stage_count > 1;
    chart->name = "pipeline";
    chart->title = has_stages ? "The pipeline over one step"
                              : arena_print(chart->arena, "One %s over one step",
                                            cluster_device_noun(facts->report->request->cluster));
    bool one_by_one = has_room(&evaluation->simulation->trace);
    chart->how = arena_print(
        chart->arena,
        "%s. Gaps are waiting; the thin line below a row is communication that runs beside "
        "compute.%s",
        has_stages ? "Each row is a pipeline stage, and time runs to the right"
                   : "Time runs to the right",
        one_by_one
            ? ""
            : " There are more tasks than pixels: where they are too short to be seen one by "
              "one, their colours mix.");
    double end_s = evaluation->prediction.step_s;
    if (facts->report->injection) end_s = fmax(end_s, facts->report->injected.step_s);
    struct pipeline_rows rows = rows_of_stages(chart->arena, &evaluation->simulation->trace);
    return draw(&evaluation->program->shape, &rows, end_s, one_by_one, chart);
}

bool figure_injection(const struct report_facts *facts, struct chart *chart)
{
    const struct report *report = facts->report;
    const struct injection_result *result = &report->injected;
    if (!report->injection) return false;
    const struct program *program = report->evaluation->program;
    struct arena *arena = chart->arena;
    const struct trace *trace = &result->simulation->trace;
    chart->name = "injection";
    chart->title = arena_print(arena, "The same with the faults: %s a step, %s",
                               units_seconds(arena, result->step_s),
                               page_signed_percent(arena, result->step_s / result->planned_s - 1));
    chart->how =
        "Each row is one rank, on the same clock as above: slow ones with their factor, and of "
        "each stage one that keeps step with them and one of a pipeline that is not concerned. "
        "Gaps are waiting.";
    struct pipeline_rows rows = rows_of_ranks(arena, program, trace);
    return draw(&program->shape, &rows, fmax(result->planned_s, result->step_s), has_room(trace),
                chart);
}
