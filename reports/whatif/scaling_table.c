#include "reports/whatif/scaling.h"

#include "core/table.h"
#include "core/units.h"
#include "reports/table/layout_legend.h"
#include "reports/table/model_text.h"
#include "reports/table/plan_table.h"
#include "reports/whatif/whatif_text.h"

#include <assert.h>

enum { COLUMN_MAX = 14 };

// The columns of one row, left to right; the header is made by the same walk.
struct cells {
    struct arena *arena;
    const struct scaling *scaling;
    const struct whatif_row *row;  // NULL: the header
    const char *texts[COLUMN_MAX];
    char aligns[COLUMN_MAX + 1];
    int count;
};

static void put(struct cells *cells, char align, const char *head, const char *text)
{
    assert(cells->count < COLUMN_MAX);
    cells->texts[cells->count] = cells->row ? text : head;
    cells->aligns[cells->count++] = align;
}

static void put_size(struct cells *cells)
{
    struct arena *arena = cells->arena;
    const struct scenario *scenario = cells->row ? &cells->row->point->scenario : NULL;
    put(cells, 'r', "GPUs",
        scenario ? arena_print(arena, "%d", scenario->cluster->rank_count) : "");
    put(cells, 'r', "batch",
        scenario ? arena_print(arena, "%lld", (long long)scenario->workload.global_batch) : "");
}

// Empty where nothing fits.
static void put_speed(struct cells *cells, double first)
{
    assert(!cells->row || !cells->row->fits || first > 0);
    struct arena *arena = cells->arena;
    bool fits = cells->row && cells->row->fits;
    const struct prediction *prediction = fits ? &cells->row->outcome->prediction : NULL;
    const struct scenario_request *request = cells->scaling->whatif->request;
    double speed = fits ? prediction->tokens_per_s_per_gpu : 0;
    put(cells, 'r', "step s", fits ? arena_print(arena, "%.4g", prediction->step_s) : "");
    put(cells, 'r', cells->row ? "" : model_config_rate_text(arena, request->model),
        fits ? units_count(arena, prediction->tokens_per_s) : "");
    put(cells, 'r', "per GPU", fits ? arena_print(arena, "%.0f", speed) : "");
    put(cells, 'r', "efficiency", fits ? units_percent(arena, speed / first) : "");
}

static void put_measured(struct cells *cells)
{
    struct arena *arena = cells->arena;
    const struct scaling *scaling = cells->scaling;
    const struct whatif_row *row = cells->row;
    if (scaling->measured.count == 0) return;
    int64_t gpus = row ? row->point->scenario.cluster->rank_count : 0;
    double measured = scaling_measured_at(&scaling->measured, gpus);
    double speed = row ? row->outcome->prediction.tokens_per_s_per_gpu : 0;
    const char *error = gpus == scaling->calibrated.gpus ? "calibrated"
                        : measured > 0 && row && row->fits
                            ? units_signed_percent(arena, speed / measured - 1)
                            : "";
    put(cells, 'r', "measured", measured > 0 ? arena_print(arena, "%.0f", measured) : "");
    put(cells, 'r', "error", error);
}

// Where a run is asked for: how long it takes, what it costs, and whether that is within the
// limits.
static void put_run(struct cells *cells)
{
    struct arena *arena = cells->arena;
    const struct whatif *whatif = cells->scaling->whatif;
    const struct whatif_row *row = cells->row && cells->row->fits ? cells->row : NULL;
    bool most = whatif->goal == WHATIF_MOST_TOKENS, limited = whatif->goal != WHATIF_COMPARE;
    if (whatif->question.tokens <= 0 && !limited) return;
    const struct whatif_unit unit = whatif_unit(whatif);
    if (most) put(cells, 'r', "tokens", row ? units_count(arena, row->tokens) : "");
    put(cells, 'r', unit.name, row ? arena_print(arena, "%.4g", row->time_s / unit.unit_s) : "");
    put(cells, 'r', whatif->is_priced ? whatif->currency : "GPU-hours",
        row ? units_count(arena, row->cost) : "");
    if (limited) put(cells, 'l', "ok", row ? row->makes_it ? "yes" : "no" : "");
}

static struct cells cells_of(struct arena *arena, const struct scaling *scaling,
                             const struct whatif_row *row, double first)
{
    struct cells cells = {.arena = arena, .scaling = scaling, .row = row};
    put_size(&cells);
    put_speed(&cells, first);
    put_measured(&cells);
    put_run(&cells);
    bool fits = row && row->fits;
    put(&cells, 'l', "layout",
        fits ? parallel_text(arena, &row->outcome->best.parallel, scaling->whatif->request->stack)
             : "does not fit");
    return cells;
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
    return arena_print(arena, "From %d to %d GPUs a GPU keeps %s of its speed: %s %s in all.\n",
                       least->point->scenario.cluster->rank_count,
                       last->point->scenario.cluster->rank_count,
                       units_ratio(arena, last->outcome->prediction.tokens_per_s_per_gpu / first),
                       units_count(arena, last->outcome->prediction.tokens_per_s),
                       model_config_rate_text(arena, whatif->request->model));
}

static const char *rows_text(struct arena *arena, const struct scaling *scaling, double first)
{
    const struct whatif *whatif = scaling->whatif;
    struct cells header = cells_of(arena, scaling, NULL, first);
    struct table table = table_new(arena, arena_copy(arena, header.aligns));
    table_row(&table, header.texts);
    struct layout_legend legend = {0};
    for (int i = 0; i < whatif->row_count; i++) {
        struct cells cells = cells_of(arena, scaling, &whatif->rows[i], first);
        table_row(&table, cells.texts);
        const struct whatif_row *row = &whatif->rows[i];
        if (row->fits)
            layout_legend_meet(&legend, &row->outcome->best.parallel,
                               scaling->whatif->request->stack);
    }
    return arena_print(arena, "%s%s", table_text(&table), layout_legend_text(arena, &legend));
}

char *scaling_table_text(struct arena *arena, const struct scaling *scaling,
                         const struct whatif_words *words)
{
    const struct whatif *whatif = scaling->whatif;
    double first = scaling_first(whatif);
    bool limited = whatif->goal != WHATIF_COMPARE;
    const char *tokens = "";
    if (whatif->question.tokens > 0) {
        tokens = arena_print(arena, ", %s tokens", units_count(arena, whatif->question.tokens));
    }
    return arena_print(arena, "%s on %s%s%s: %d number%s of GPUs\n%s%s%s%s%s%s",
                       model_config_text(arena, whatif->request->model),
                       whatif->sweep->clusters[0]->name, whatif_fixed_text(arena, whatif), tokens,
                       whatif->row_count, whatif->row_count == 1 ? "" : "s",
                       rows_text(arena, scaling, first), whatif_rejected_text(arena, whatif),
                       errors_text(arena, scaling), verdict_text(arena, whatif, first),
                       limited ? whatif_answer_text(arena, whatif) : "",
                       limited ? whatif_next_text(arena, whatif, words) : "");
}
