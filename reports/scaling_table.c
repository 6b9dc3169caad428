#include "reports/scaling.h"

#include "core/table.h"
#include "core/units.h"
#include "reports/plan_table.h"
#include "reports/whatif_text.h"

enum { COLUMN_COUNT = 9 };

// Columns without and with what was measured.
static int column_count(const struct scaling *scaling)
{
    return scaling->measured.count > 0 ? COLUMN_COUNT : COLUMN_COUNT - 2;
}

static void add_row(struct table *table, struct arena *arena, const struct scaling *scaling,
                    const struct whatif_row *row, double first)
{
    const struct prediction *prediction = &row->outcome->prediction;
    int64_t gpus = row->point->scenario.cluster->rank_count;
    double speed = prediction->tokens_per_s_per_gpu;
    double measured = scaling_measured_at(&scaling->measured, gpus);
    const char *figures[] = {"", "", "", "", ""};
    if (row->fits) {
        figures[0] = arena_print(arena, "%.4g", prediction->step_s);
        figures[1] = units_count(arena, prediction->tokens_per_s);
        figures[2] = arena_print(arena, "%.0f", speed);
        figures[3] = units_percent(arena, speed / first);
        figures[4] = parallel_text(arena, &row->outcome->best.parallel);
    } else {
        figures[4] = "does not fit";
    }
    const char *error = gpus == scaling->calibrated.gpus ? "calibrated"
                        : measured > 0 && row->fits
                            ? units_signed_percent(arena, speed / measured - 1)
                            : "";
    const char *cells[COLUMN_COUNT] = {
        arena_print(arena, "%lld", (long long)gpus),
        arena_print(arena, "%lld", (long long)row->point->scenario.workload.global_batch),
        figures[0],
        figures[1],
        figures[2],
        figures[3]};
    int at = 6;
    if (scaling->measured.count > 0) {
        cells[at++] = measured > 0 ? arena_print(arena, "%.0f", measured) : "";
        cells[at++] = error;
    }
    cells[at] = figures[4];
    table_row(table, cells);
}

static const char *errors_text(struct arena *arena, const struct scaling *scaling)
{
    const char *text = "";
    if (scaling->calibrated.gpus > 0) {
        text = arena_print(arena,
                           "Calibrated at %lld GPUs: every speed is the predicted one x %.4f.\n",
                           (long long)scaling->calibrated.gpus, scaling->ratio);
    }
    struct scaling_error error = scaling_error(scaling);
    if (error.count == 0) return text;
    return arena_print(
        arena, "%sOf %d %smeasured point%s the largest error is %s (%lld GPUs), the mean %s.\n",
        text, error.count, scaling->calibrated.gpus > 0 ? "other " : "",
        error.count == 1 ? "" : "s", units_ratio(arena, error.worst_ratio),
        (long long)error.worst_gpus, units_ratio(arena, error.mean_ratio));
}

static const char *verdict_text(struct arena *arena, const struct whatif *whatif, double first)
{
    const struct whatif_row *last = NULL, *least = NULL;
    for (int i = 0; i < whatif->row_count; i++) {
        const struct whatif_row *row = &whatif->rows[i];
        if (!row->fits) continue;
        if (!least) least = row;
        last = row;
    }
    if (!last) return "Nothing fits.\n";
    return arena_print(
        arena, "From %d to %d GPUs a GPU keeps %s of its speed: %s tokens/s in all.\n",
        least->point->scenario.cluster->rank_count, last->point->scenario.cluster->rank_count,
        units_ratio(arena, last->outcome->prediction.tokens_per_s_per_gpu / first),
        units_count(arena, last->outcome->prediction.tokens_per_s));
}

char *scaling_table_text(struct arena *arena, const struct scaling *scaling)
{
    static const char *const HEADS[] = {"GPUs",       "batch",    "step s", "tokens/s", "per GPU",
                                        "efficiency", "measured", "error",  "layout"};
    const struct whatif *whatif = scaling->whatif;
    bool has_measured = scaling->measured.count > 0;
    struct table table = table_new(arena, has_measured ? "rrrrrrrrl" : "rrrrrrl");
    const char *heads[COLUMN_COUNT];
    for (int i = 0; i < COLUMN_COUNT; i++) {
        heads[i] = HEADS[i];
    }
    heads[column_count(scaling) - 1] = HEADS[COLUMN_COUNT - 1];
    table_row(&table, heads);
    double first = scaling_first(whatif);
    for (int i = 0; i < whatif->row_count; i++) {
        add_row(&table, arena, scaling, &whatif->rows[i], first);
    }
    return arena_print(
        arena, "%s on %s%s: %d number%s of GPUs\n%s%s%s%s", whatif->request->model->name,
        whatif->sweep->clusters[0]->name, whatif_fixed_text(arena, whatif), whatif->row_count,
        whatif->row_count == 1 ? "" : "s", table_text(&table), whatif_rejected_text(arena, whatif),
        errors_text(arena, scaling), verdict_text(arena, whatif, first));
}
