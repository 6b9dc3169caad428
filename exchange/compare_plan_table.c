#include "core/table.h"
#include "core/units.h"
#include "exchange/compare_plan.h"
#include "exchange/trace_kinds.h"
#include "reports/table/model_text.h"

#include <assert.h>
#include <math.h>

enum { SHOWN_KINDS = 14 };

static void put(struct table *table, const char *name, const char *predicted, const char *measured,
                double ratio)
{
    const char *cells[] = {name, predicted, measured,
                           ratio > 0 ? arena_print(table->arena, "%.2f", ratio) : "-"};
    table_row(table, cells);
}

static const char *figures_text(struct arena *arena, const struct plan_compare *compare)
{
    const struct prediction *prediction = &compare->evaluation->prediction;
    const struct measurement *measured = compare->measured;
    struct table table = table_new(arena, "lrrr");
    table_row(&table, (const char *[]){"", "predicted", "measured", "ratio"});
    put(&table, "step", units_seconds(arena, prediction->step_s),
        units_seconds(arena, measured->median_s), compare->ratio);
    put(&table, model_rate_text(compare->evaluation->graph),
        units_count(arena, prediction->tokens_per_s),
        units_count(arena, prediction->tokens_per_s / compare->ratio), 1 / compare->ratio);
    if (measured->peak_bytes > 0) {
        double predicted =
            (double)(measured->is_reserved ? prediction->reserved_bytes : prediction->peak_bytes);
        put(&table, measured->is_reserved ? "reserved memory" : "allocated memory",
            units_bytes(arena, predicted), units_bytes(arena, measured->peak_bytes),
            measured->peak_bytes / predicted);
    }
    // What a trainer counts as FLOP is its own: set beside ours, without a ratio.
    if (measured->flop_per_s_per_gpu > 0)
        put(&table, "FLOP/s of a GPU",
            units_flop_per_s(arena, prediction->model_flop_per_s_per_gpu),
            units_flop_per_s(arena, measured->flop_per_s_per_gpu), 0);
    return table_text(&table);
}

// The rows come sorted by their difference: what is cut off explains least.
static const char *kinds_text(struct arena *arena, const struct plan_compare *compare)
{
    if (compare->row_count == 0) return "";
    struct table table = table_new(arena, "lrrrrr");
    table_row(&table, (const char *[]){"a step of a rank", "predicted count", "count", "predicted",
                                       "measured", "difference"});
    for (int i = 0; i < compare->row_count && i < SHOWN_KINDS; i++) {
        const struct kind_row *row = &compare->rows[i];
        double more_s = row->s - row->predicted_s;
        const char *cells[] = {
            row->kind,
            units_count(arena, row->predicted_count),
            units_count(arena, row->count),
            row->predicted_s > 0 ? units_seconds(arena, row->predicted_s) : "-",
            row->s > 0 ? units_seconds(arena, row->s) : "-",
            arena_print(arena, "%s%s", more_s < 0 ? "-" : "+", units_seconds(arena, fabs(more_s)))};
        table_row(&table, cells);
    }
    const struct kind_row *most = &compare->rows[0];
    const char *waits = trace_kind_is_communication(most->kind)
                            ? " (a kernel of a collective also waits for the other ranks)"
                            : "";
    return arena_print(arena, "\n%sThe largest difference is in %s%s.\n", table_text(&table),
                       most->kind, waits);
}

static const char *causes_text(struct arena *arena, const struct plan_compare *compare)
{
    if (compare->cause_count == 0) return "";
    struct table table = table_new(arena, "lrrr");
    table_row(&table, (const char *[]){"would alone explain it", "is", "would be", "step per 1 %"});
    for (int i = 0; i < compare->cause_count; i++) {
        const struct lone_cause *cause = &compare->causes[i];
        const char *cells[] = {
            arena_print(arena, "%s %s", cause->constant->owner_name, cause->constant->key),
            arena_print(arena, "%.4g", *cause->constant->value),
            arena_print(arena, "%.4g", cause->wanted),
            arena_print(arena, "%+.2f %%", cause->elasticity)};
        table_row(&table, cells);
    }
    return arena_print(arena, "\n%s", table_text(&table));
}

static const char *verdict_text(struct arena *arena, const struct plan_compare *compare)
{
    assert(compare->verdict <= VERDICT_IMPROVEMENT);
    const struct prediction *prediction = &compare->evaluation->prediction;
    const char *limit = compare->threshold_ratio < 0
                            ? arena_print(arena, "the band of the prediction, %s to %s",
                                          units_seconds(arena, prediction->step_s_low),
                                          units_seconds(arena, prediction->step_s_high))
                            : units_ratio(arena, compare->threshold_ratio);
    switch (compare->verdict) {
    case VERDICT_REGRESSION:
        return arena_print(arena, "Regression: slower than predicted by more than %s.\n", limit);
    case VERDICT_IMPROVEMENT:
        return arena_print(arena, "Improvement: faster than predicted by more than %s.\n", limit);
    case VERDICT_SAME:
        break;
    }
    return arena_print(arena, "Same: within %s.\n", limit);
}

char *plan_compare_text(struct arena *arena, const struct plan_compare *compare)
{
    const struct measurement *measured = compare->measured;
    const char *spread = "";
    if (measured->step_s.count > 1) {
        spread = arena_print(arena, ", half of them within %s",
                             units_seconds(arena, samples_spread(arena, measured->step_s)));
    }
    return arena_print(arena, "measured: %s, %s, %d step%s%s\n\n%s%s%s\n%s", measured->path,
                       measured->framework, measured->step_s.count,
                       measured->step_s.count == 1 ? "" : "s", spread, figures_text(arena, compare),
                       kinds_text(arena, compare), causes_text(arena, compare),
                       verdict_text(arena, compare));
}
