#include "core/units.h"
#include "reports/page/figure.h"
#include "reports/table/plan_table.h"
#include "simulator/unlike.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// What each stage holds at its fullest moment, in the parts of the memory model.

static const double GIB = 1024.0 * 1024.0 * 1024.0;

struct class_row {
    const char *name;
    enum chart_color color;
    double size;  // how dark
    size_t offset;
};
#define CLASS(name, color, size, member)                         \
    {                                                            \
        name, color, size, offsetof(struct memory_parts, member) \
    }
static const struct class_row CLASSES[] = {
    CLASS("weights", CHART_FORWARD, 1, weights_bytes),
    CLASS("gradients", CHART_BACKWARD, 1, gradients_bytes),
    CLASS("optimizer", CHART_UPDATE, 1, optimizer_bytes),
    CLASS("activations", CHART_WEIGHT, 1, activations_bytes),
    CLASS("working memory", CHART_WORKING, 1, transient_bytes),
    CLASS("logits", CHART_LOGITS, 1, logits_bytes),
    CLASS("buffers", CHART_TRAFFIC, 1, buffers_bytes),
    CLASS("planned arena", CHART_WEIGHT, 1, planned_bytes),
    CLASS("reserve", CHART_WAIT, 1, reserve_bytes),
};
enum { CLASS_COUNT = sizeof CLASSES / sizeof *CLASSES, ROWS_MAX = 32 };

static double bytes_of(const struct memory_parts *memory, const struct class_row *row)
{
    int64_t bytes;
    memcpy(&bytes, (const char *)memory + row->offset, sizeof bytes);
    return (double)bytes;
}

// Of the stage's smallest device.
static double limit_of(const struct report_facts *facts, int stage)
{
    assert(stage >= 0 && stage < facts->report->evaluation->program->shape.stage_count);
    const struct mesh *mesh = &facts->report->evaluation->program->mesh;
    return (double)unlike_stage_bytes(facts->report->request->cluster, mesh, stage) / GIB;
}

static void mark(struct chart *chart, struct chart_series *series, double x, double y)
{
    struct chart_mark at = {.x0 = x, .y0 = y};
    chart_mark(chart, series, &at);
}

// A line down the rows, at what the devices of each have.
static void add_limits(struct chart *chart, const char *name, const double *limits, int rows)
{
    assert(rows > 0);
    struct chart_series *series = chart_add(chart, CHART_LINE, CHART_LIMIT, name);
    series->dashed = true;
    mark(chart, series, limits[0], -0.5);
    for (int row = 1; row < rows; row++) {
        if (limits[row] == limits[row - 1]) continue;
        mark(chart, series, limits[row - 1], row - 0.5);
        mark(chart, series, limits[row], row - 0.5);
    }
    mark(chart, series, limits[rows - 1], rows - 0.5);
}

static void add_classes(const struct report_facts *facts, struct chart *chart, const int *stages,
                        int rows)
{
    assert(rows > 0 && rows <= ROWS_MAX);
    const struct memory_parts *memories = facts->report->evaluation->stage_memory;
    bool is_planned = facts->report->evaluation->prediction.planned_bytes > 0;
    double *at = ARENA_NEW(chart->arena, double, rows);
    for (int c = 0; c < CLASS_COUNT; c++) {
        const struct class_row *class = &CLASSES[c];
        bool is_arena = class->offset == offsetof(struct memory_parts, planned_bytes);
        if (is_arena && !is_planned) continue;
        struct chart_series *series = chart_add(chart, CHART_BOXES, class->color, class->name);
        for (int row = 0; row < rows; row++) {
            double bytes = bytes_of(&memories[stages[row]], class);
            if (bytes <= 0) continue;
            const char *title = arena_print(chart->arena, "stage %d, %s: %s", stages[row],
                                            class->name, units_bytes(chart->arena, bytes));
            chart_mark(chart, series,
                       &(struct chart_mark){.x0 = at[row],
                                            .x1 = at[row] + bytes / GIB,
                                            .y0 = row - 0.36,
                                            .y1 = row + 0.36,
                                            .size = class->size,
                                            .title = title});
            at[row] += bytes / GIB;
        }
    }
}

bool figure_memory(const struct report_facts *facts, struct chart *chart)
{
    const struct evaluation *evaluation = facts->report->evaluation;
    int stage_count = evaluation->program->shape.stage_count;
    int rows = stage_count < ROWS_MAX ? stage_count : ROWS_MAX;
    struct arena *arena = chart->arena;
    const char **names = ARENA_NEW(arena, const char *, rows);
    int *stages = ARENA_NEW(arena, int, rows);
    double *limits = ARENA_NEW(arena, double, rows);
    double most = (double)evaluation->prediction.reserved_bytes / GIB;
    for (int row = 0; row < rows; row++) {
        stages[row] = rows == 1 ? 0 : (int)((int64_t)row * (stage_count - 1) / (rows - 1));
        limits[row] = limit_of(facts, stages[row]);
        most = fmax(most, limits[row]);
        names[row] = arena_print(arena, stage_count > 1 ? "stage %d" : "a rank", stages[row]);
    }
    chart->name = "memory";
    const char *noun = cluster_device_noun(facts->report->request->cluster);
    chart->title = stage_count > 1
                       ? arena_print(arena, "What a %s of each stage holds at its fullest", noun)
                       : arena_print(arena, "What a %s holds at its fullest", noun);
    chart->how = "A bar that ends left of the dashed line fits; the gap between them is spare.";
    chart->x = (struct chart_axis){.label = "GiB", .low = 0, .high = 1.04 * most};
    chart->y =
        (struct chart_axis){.scale = CHART_ROWS, .low = -0.5, .high = rows - 0.5, .names = names};
    chart->height = rows < 3 ? 44 * rows : chart_rows_height(&chart->y, rows);
    add_classes(facts, chart, stages, rows);
    add_limits(chart, arena_print(arena, "what a %s has", noun), limits, rows);
    return true;
}
