#include "reports/table/anchor_text.h"
#include "core/units.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Constants that moved by less are not worth a line.
static const double MOVED_LEAST = 0.005;
enum { LINES_MAX = 6 };
// A run that stays further off is told of: constants are not known that badly.
static const char UNMET[] = ": the rest is no constant's (another load, data, a slow link?)";

static double moved_of(const struct fit_constant *constant)
{
    return constant->prior > 0 ? constant->value / constant->prior - 1 : 0;
}

static int compare_moves(const void *a, const void *b)
{
    const struct fit_constant *left = *(const struct fit_constant *const *)a;
    const struct fit_constant *right = *(const struct fit_constant *const *)b;
    double more = fabs(moved_of(right)) - fabs(moved_of(left));
    return more > 0 ? 1 : more < 0 ? -1 : strcmp(left->key, right->key);
}

static char *moves_text(struct arena *arena, const struct anchor *anchor)
{
    const struct fit_constant **list =
        ARENA_NEW(arena, const struct fit_constant *, anchor->constant_count);
    int count = 0;
    for (int i = 0; i < anchor->constant_count; i++)
        if (fabs(moved_of(&anchor->constants[i])) >= MOVED_LEAST)
            list[count++] = &anchor->constants[i];
    qsort(list, (size_t)count, sizeof *list, compare_moves);
    char *text = arena_copy(arena, "");
    for (int i = 0; i < count && i < LINES_MAX; i++)
        text = arena_print(arena, "%s  %s of %s %s, to %.4g\n", text, list[i]->key,
                           list[i]->owner_name, units_signed_percent(arena, moved_of(list[i])),
                           list[i]->value);
    if (count <= LINES_MAX) return text;
    return arena_print(arena, "%s  and %d that moved less\n", text, count - LINES_MAX);
}

char *anchor_text(struct arena *arena, const struct anchor *anchor)
{
    assert(anchor->used_count <= anchor->run_count);
    char *text = arena_print(arena, "Anchored to %d measured run%s:\n", anchor->used_count,
                             anchor->used_count == 1 ? "" : "s");
    for (int i = 0; i < anchor->run_count; i++) {
        const struct anchor_run *run = &anchor->runs[i];
        text =
            arena_print(arena, "%s  %s: measured %s, predicted %s", text, run->name,
                        units_seconds(arena, run->measured_s), units_seconds(arena, run->before_s));
        text = run->is_used
                   ? arena_print(arena, "%s, corrected %s%s\n", text,
                                 units_seconds(arena, run->after_s), run->is_met ? "" : UNMET)
                   : arena_print(arena, "%s; left aside: its memory is nearly full\n", text);
    }
    return arena_print(arena, "%s%s", text, moves_text(arena, anchor));
}

static bool is_first_of_family(const struct anchor_sweep *sweep, int index)
{
    for (int i = 0; i < index; i++)
        if (strcmp(sweep->series[i].family, sweep->series[index].family) == 0) return false;
    return true;
}

// One line for all series of a family.
static char *family_text(struct arena *arena, const struct anchor_sweep *sweep, int first)
{
    const char *family = sweep->series[first].family;
    int series = 0, anchors = 0, rows = 0;
    double before = 0, after = 0;
    for (int i = first; i < sweep->series_count; i++) {
        const struct anchor_series *one = &sweep->series[i];
        if (strcmp(one->family, family) != 0) continue;
        series++;
        anchors += one->anchor_count;
        for (int k = one->first; k < one->first + one->count; k++) {
            const struct anchor_row *row = &sweep->rows[k];
            double measured_s = row->trial->row->step_s;
            assert(measured_s > 0);
            before += fabs(row->before_s / measured_s - 1);
            after += fabs(row->after_s / measured_s - 1);
            rows++;
        }
    }
    assert(rows > 0);
    return arena_print(arena, "%-24s %6d %7d %6d  %7.1f%% %7.1f%%\n", family, series, anchors, rows,
                       100 * before / rows, 100 * after / rows);
}

char *anchor_sweep_text(struct arena *arena, const struct anchor_sweep *sweep)
{
    char *text = arena_print(arena, "%-24s %6s %7s %6s  %8s %8s\n", "family", "series", "anchors",
                             "larger", "shipped", "anchored");
    for (int i = 0; i < sweep->series_count; i++)
        if (is_first_of_family(sweep, i))
            text = arena_print(arena, "%s%s", text, family_text(arena, sweep, i));
    text = arena_print(
        arena,
        "%s\nLarger runs (%d of %d families): MAPE %.1f%%, bias %+.1f%% with shipped "
        "constants; MAPE %.1f%%, median %.1f%%, bias %+.1f%% anchored to the "
        "smallest runs of their series\nMean over families: %.1f%%, anchored "
        "%.1f%%\n",
        text, sweep->row_count, sweep->family_count, 100 * sweep->before.mape,
        100 * sweep->before.bias, 100 * sweep->after.mape, 100 * sweep->after.median,
        100 * sweep->after.bias, 100 * sweep->before_family_mape, 100 * sweep->family_mape);
    if (sweep->band.row_count == 0) return text;
    return arena_print(arena,
                       "%sBand of an anchored prediction: measured / predicted %.3f to %.3f\n",
                       text, sweep->band.low_ratio, sweep->band.high_ratio);
}
