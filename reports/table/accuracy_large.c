#include "core/table.h"
#include "core/units.h"
#include "reports/table/accuracy_table.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_gpus(const void *a, const void *b)
{
    const struct trial *left = *(const struct trial *const *)a;
    const struct trial *right = *(const struct trial *const *)b;
    if (left->row->facts.gpus != right->row->facts.gpus)
        return right->row->facts.gpus - left->row->facts.gpus;
    return strcmp(left->row->id, right->row->id);
}

static void put_trial(struct arena *arena, struct table *table, const struct trial *trial)
{
    assert(trial->row->step_s > 0);
    const struct row *row = trial->row;
    const struct prediction *prediction = &trial->prediction;
    const char *gpus = units_count(arena, row->facts.gpus);
    const char *tier = arena_print(arena, "%c", row->tier);
    const char *measured = units_seconds(arena, row->step_s);
    if (!trial->answered) {
        table_row(table, (const char *[]){row->id, tier, gpus, measured, "-", "failed", "-"});
        return;
    }
    bool is_inside =
        row->step_s >= prediction->step_s_low && row->step_s <= prediction->step_s_high;
    table_row(table, (const char *[]){
                         row->id, tier, gpus, measured, units_seconds(arena, prediction->step_s),
                         units_signed_percent(arena, prediction->step_s / row->step_s - 1),
                         is_inside ? "yes" : "no"});
}

char *accuracy_large_text(struct arena *arena, const struct trials *trials)
{
    struct table table = table_new(arena, "llrrrrl");
    const struct trial **list = ARENA_NEW(arena, const struct trial *, trials->count);
    struct estimate *estimates = ARENA_NEW(arena, struct estimate, trials->count);
    int count = 0;
    for (int i = 0; i < trials->count; i++) {
        const struct trial *trial = &trials->items[i];
        if (trial->row->step_s <= 0 || trial->row->gave_nothing) continue;
        list[count] = trial;
        estimates[count++] = (struct estimate){
            .measured = trial->row->step_s,
            .predicted = trial->answered ? trial->prediction.step_s : 0,
            .low = trial->answered ? trial->prediction.step_s_low : 0,
            .high = trial->answered ? trial->prediction.step_s_high : 0,
        };
    }
    qsort(list, (size_t)count, sizeof *list, by_gpus);
    table_row(&table,
              (const char *[]){"run", "tier", "GPUs", "measured", "predicted", "error", "inside"});
    for (int i = 0; i < count; i++)
        put_trial(arena, &table, list[i]);
    assert(count <= trials->count);
    struct score score = score_of(estimates, count);
    return arena_print(arena,
                       "%s%d runs: MAPE %.1f%%, median %.1f%%, bias %+.1f%%, inside %.1f%%\n",
                       table_text(&table), score.row_count, 100 * score.mape, 100 * score.median,
                       100 * score.bias, 100 * score.covered_ratio);
}
