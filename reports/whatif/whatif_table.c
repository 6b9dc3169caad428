#include "reports/whatif/whatif.h"

#include "core/table.h"
#include "core/units.h"
#include "reports/table/layout_legend.h"
#include "reports/table/plan_table.h"
#include "reports/whatif/whatif_text.h"

#include <assert.h>
#include <string.h>

enum { COLUMN_MAX = 24 };

// The columns of one row, left to right; the header is made by the same walk.
struct cells {
    struct arena *arena;
    const struct whatif *whatif;
    const struct whatif_row *row;  // NULL: the header
    int rank;
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

static const char *goal_mark(const struct cells *cells)
{
    if (!cells->row) return "";
    const char *mark = cells->row->is_on_front ? "*" : " ";
    return arena_print(cells->arena, "%s%d", mark, cells->rank);
}

static const char *time_text(struct arena *arena, double value)
{
    return arena_print(arena, value < 9.95 ? "%.2f" : value < 999.5 ? "%.1f" : "%.0f", value);
}

static void put_place(struct cells *cells)
{
    const struct sweep *sweep = cells->whatif->sweep;
    const struct whatif_row *row = cells->row;
    const struct scenario *scenario = row ? &row->point->scenario : NULL;
    if (sweep->cluster_count > 1) put(cells, 'l', "cluster", row ? row->point->name : "");
    put(cells, 'r', "GPUs",
        row ? arena_print(cells->arena, "%d", scenario->cluster->rank_count) : "");
    if (cells->whatif->request->may_idle) {
        put(cells, 'r', "idle",
            row ? arena_print(cells->arena, "%d", row->outcome->idle_gpus) : "");
    }
    for (int axis = SWEEP_SEQ_LEN; axis < SWEEP_AXIS_COUNT; axis++) {
        bool follows = axis == SWEEP_GLOBAL_BATCH && sweep->sequences_per_gpu > 0;
        if (sweep->axes[axis].count < 2 && !follows) continue;
        const char *text =
            row ? sweep_value_text(cells->arena, (enum sweep_axis)axis, row->point->at[axis]) : "";
        put(cells, 'r', sweep_head((enum sweep_axis)axis), text);
    }
}

static void put_plan(struct cells *cells)
{
    struct arena *arena = cells->arena;
    const struct scenario_outcome *outcome = cells->row ? cells->row->outcome : NULL;
    static const double GIB = 1024.0 * 1024.0 * 1024.0;
    put(cells, 'r', "step s",
        outcome ? arena_print(arena, "%.4g", outcome->prediction.step_s) : "");
    put(cells, 'r', "MFU", outcome ? units_percent(arena, outcome->prediction.mfu_ratio) : "");
    put(cells, 'r', "GiB",
        outcome ? arena_print(arena, "%.0f", (double)outcome->prediction.reserved_bytes / GIB)
                : "");
}

static void put_answer(struct cells *cells)
{
    struct arena *arena = cells->arena;
    const struct whatif *whatif = cells->whatif;
    const struct whatif_row *row = cells->row;
    put(cells, 'r', "goodput", row ? units_percent(arena, row->goodput_ratio) : "");
    if (whatif->goal == WHATIF_MOST_TOKENS) {
        put(cells, 'r', "tokens", row ? units_count(arena, row->tokens) : "");
    }
    const struct whatif_unit unit = whatif_unit(whatif);
    put(cells, 'r', unit.name, row ? time_text(arena, row->time_s / unit.unit_s) : "");
    put(cells, 'r', whatif->is_priced ? whatif->currency : "GPU-hours",
        row ? units_count(arena, row->cost) : "");
    if (whatif->goal == WHATIF_CHEAPEST || whatif->goal == WHATIF_FASTEST) {
        put(cells, 'l', "ok", row ? row->makes_it ? "yes" : "no" : "");
    }
    put(cells, 'l', "layout",
        row ? parallel_text(arena, &row->outcome->best.parallel, whatif->request->stack) : "");
}

static struct cells cells_of(struct arena *arena, const struct whatif *whatif,
                             const struct whatif_row *row, int rank)
{
    struct cells cells = {.arena = arena, .whatif = whatif, .row = row, .rank = rank};
    put(&cells, 'r', "#", goal_mark(&cells));
    put_place(&cells);
    put_plan(&cells);
    put_answer(&cells);
    return cells;
}

static const char *rows_text(struct arena *arena, const struct whatif *whatif, int top)
{
    struct cells header = cells_of(arena, whatif, NULL, 0);
    struct table table = table_new(arena, arena_copy(arena, header.aligns));
    table_row(&table, header.texts);
    struct layout_legend legend = {0};
    int shown = whatif->fit_count < top ? whatif->fit_count : top;
    for (int i = 0; i < shown; i++) {
        const struct whatif_row *row = &whatif->rows[whatif->order[i]];
        struct cells cells = cells_of(arena, whatif, row, i + 1);
        table_row(&table, cells.texts);
        layout_legend_meet(&legend, &row->outcome->best.parallel, whatif->request->stack);
    }
    const char *text =
        arena_print(arena, "%s%s", table_text(&table), layout_legend_text(arena, &legend));
    if (whatif->front_count > 0) {
        text = arena_print(arena, "%s   * no other is faster and %s\n", text,
                           whatif->is_priced ? "cheaper" : "needs fewer GPU-hours");
    }
    if (shown < whatif->fit_count) {
        int hidden = whatif->fit_count - shown;
        text = arena_print(arena, "%s   ... %d more row%s (--top %d, or -o DIR for all)\n", text,
                           hidden, hidden == 1 ? "" : "s", whatif->fit_count);
    }
    return text;
}

char *whatif_table_text(struct arena *arena, const struct whatif *whatif, int top,
                        const struct whatif_words *words)
{
    const char *head = whatif_head_text(arena, whatif);
    const char *rows = whatif->fit_count > 0 ? rows_text(arena, whatif, top) : "";
    return arena_print(arena, "%s\n%s%s%s%s%s%s%s", head, rows, whatif_between_text(arena, whatif),
                       whatif_rejected_text(arena, whatif), whatif_past_text(arena, whatif),
                       whatif_answer_text(arena, whatif), whatif_devices_text(arena, whatif),
                       whatif_next_text(arena, whatif, words));
}
