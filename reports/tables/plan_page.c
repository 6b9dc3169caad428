#include "core/units.h"
#include "reports/page/markup.h"
#include "reports/tables/plan_text.h"

#include <assert.h>
#include <math.h>

static const char STYLE[] =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}td,th{padding:.15em .8em;border-bottom:1px solid #ddd;"
    "text-align:left}td.n{text-align:right}svg text{font:12px system-ui,sans-serif}";

enum { PLOT_WIDTH = 860, LEFT = 150, ROW = 22 };

// A lane a task: when it runs in the step.
static void put_timeline(struct markup *page, const struct table_prediction *prediction)
{
    assert(prediction->step_s > 0);
    int lanes = 0;
    for (int task = 0; task < TABLE_TASK_COUNT; task++)
        lanes += prediction->spans[task].s > 0;
    markup_print(page,
                 "<svg role=\"img\" aria-label=\"timeline of a step\" width=\"%d\" "
                 "height=\"%d\">",
                 PLOT_WIDTH, lanes * ROW + ROW);
    double scale = (PLOT_WIDTH - LEFT - 10) / prediction->step_s;
    for (int task = 0, lane = 0; task < TABLE_TASK_COUNT; task++) {
        const struct table_span *span = &prediction->spans[task];
        if (span->s <= 0) continue;
        const char *fill = table_task_talks((enum table_task)task) ? "#d95f02" : "#1b6ca8";
        markup_print(page, "<text x=\"0\" y=\"%d\">", lane * ROW + 15);
        markup_text(page, table_task_name((enum table_task)task));
        markup_print(page,
                     "</text><rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" "
                     "fill=\"%s\"><title>%.1f us</title></rect>",
                     LEFT + span->start_s * scale, lane * ROW + 3, fmax(1, span->s * scale),
                     ROW - 6, fill, span->s * 1e6);
        lane++;
    }
    markup_put(page, "</svg>");
}

// Bytes of tables on each rank's device, as bars.
static void put_ranks(struct arena *arena, struct markup *page, const struct table_plan *plan)
{
    assert(plan->placement->rank_count > 0);
    enum { HEIGHT = 160 };
    int ranks = plan->placement->rank_count;
    double *bytes = ARENA_NEW(arena, double, ranks), most = 1;
    for (int i = 0; i < plan->placement->piece_count; i++) {
        const struct table_piece *piece = &plan->placement->pieces[i];
        for (int r = 0; r < ranks; r++) {
            if (piece_is_on(piece, r))
                bytes[r] +=
                    (double)piece_bytes(piece, plan->request.workload.optimizer, TIER_DEVICE);
            most = fmax(most, bytes[r]);
        }
    }
    double width = (double)PLOT_WIDTH / ranks;
    markup_print(page,
                 "<svg role=\"img\" aria-label=\"bytes of tables by rank\" width=\"%d\" "
                 "height=\"%d\">",
                 PLOT_WIDTH, HEIGHT);
    for (int r = 0; r < ranks; r++) {
        double height = bytes[r] / most * (HEIGHT - 4);
        markup_print(page,
                     "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                     "fill=\"#1b6ca8\"><title>rank %d: %s</title></rect>",
                     r * width, HEIGHT - height, fmax(1, width - 1), height, r,
                     units_bytes(arena, bytes[r]));
    }
    markup_put(page, "</svg>");
}

static void put_lines(struct markup *page, const char *text)
{
    markup_put(page, "<pre>");
    markup_text(page, text);
    markup_put(page, "</pre>");
}

char *table_page(struct arena *arena, const struct table_plan *plan)
{
    struct markup page = {.arena = arena};
    markup_put(&page, "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
    markup_text(&page, plan->request.model->name);
    markup_print(&page, "</title><style>%s</style></head><body><h1>", STYLE);
    markup_text(&page, plan->request.model->name);
    markup_put(&page, " on ");
    markup_text(&page, plan->request.cluster->name);
    markup_print(&page, "</h1><p>%s samples/s, a step of %s samples in %s.</p><h2>The step</h2>",
                 units_count(arena, plan->prediction.samples_per_s),
                 units_count(arena, (double)plan->request.workload.global_batch),
                 units_seconds(arena, plan->prediction.step_s));
    put_timeline(&page, &plan->prediction);
    put_lines(&page, table_step_text(arena, plan));
    markup_put(&page, "<h2>Memory</h2><p>Bytes of tables on each rank's device:</p>");
    put_ranks(arena, &page, plan);
    put_lines(&page, table_memory_text(arena, plan));
    markup_put(&page, "<h2>Tables</h2>");
    put_lines(&page, table_placement_text(arena, plan->placement, TABLE_COUNT_MAX));
    markup_put(&page, "</body></html>\n");
    return page.text;
}
