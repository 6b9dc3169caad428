#include "validation/anchor.h"
#include "validation/ranking.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LOW = 0.05, HIGH = 0.95, ROUNDING = 1000;

struct series {
    const char *name;
    const struct trial *trial;
};

// By name, then by size: the smallest run of a series comes first and is its anchor.
static int compare_series(const void *a, const void *b)
{
    const struct series *left = a, *right = b;
    int order = strcmp(left->name, right->name);
    if (order == 0) order = left->trial->row->facts.gpus - right->trial->row->facts.gpus;
    if (order == 0) order = strcmp(left->trial->row->id, right->trial->row->id);
    return order;
}

// Trials that can be scored, those of one series side by side, the fewest GPUs first.
static struct series *sort(struct arena *arena, const struct trials *trials, const char *tiers,
                           int *count)
{
    struct series *list = ARENA_NEW(arena, struct series, trials->count);
    *count = 0;
    for (int i = 0; i < trials->count; i++) {
        const struct trial *trial = &trials->items[i];
        bool is_scored = trial->answered && trial->row->step_s > 0;
        if (!is_scored || !strchr(tiers, trial->row->tier)) continue;
        list[(*count)++] = (struct series){row_series(arena, trial->row), trial};
    }
    qsort(list, (size_t)*count, sizeof *list, compare_series);
    return list;
}

// The trials of one series; the larger ones are predicted by what the others correct.
static bool add_series(struct arena *arena, const struct series *list, int count,
                       struct anchor_sweep *sweep, struct err *err)
{
    assert(count > 0);
    int gpus = list[0].trial->row->facts.gpus, anchors = 0;
    while (anchors < count && list[anchors].trial->row->facts.gpus == gpus)
        anchors++;
    if (anchors == count) return true;
    struct anchor_series *series = &sweep->series[sweep->series_count++];
    *series = (struct anchor_series){.name = list[0].name,
                                     .family = list[0].trial->row->family,
                                     .gpus = gpus,
                                     .first = sweep->row_count};
    struct trials trials = {.items = ARENA_NEW(arena, struct trial, count), .count = count};
    for (int i = 0; i < count; i++)
        trials.items[i] = *list[i].trial;
    struct fit_result result;
    if (!anchor_predict(arena, &trials, anchors, &series->anchor_count, &result, err)) return false;
    for (int i = anchors; i < count; i++) {
        struct anchor_row *row = &sweep->rows[sweep->row_count++];
        *row = (struct anchor_row){.trial = list[i].trial,
                                   .before_s = list[i].trial->prediction.step_s,
                                   .after_s = list[i].trial->prediction.step_s};
        if (series->anchor_count > 0) row->after_s = result.predictions[i].step_s;
        assert(row->before_s > 0 && row->after_s > 0);
        series->count++;
    }
    return true;
}

struct ratio {
    double value, weight;
};

static int compare_ratios(const void *a, const void *b)
{
    const struct ratio *left = a, *right = b;
    return (left->value > right->value) - (left->value < right->value);
}

static int family_rows(const struct anchor_sweep *sweep, const char *family)
{
    int count = 0;
    for (int i = 0; i < sweep->row_count; i++)
        count += strcmp(sweep->rows[i].trial->row->family, family) == 0;
    return count;
}

// The ends between which 90 % of the weight lies, of families that weigh alike; the quantile is the
// first ratio at which that much is reached.
static double quantile(const struct ratio *ratios, int count, double share)
{
    assert(count > 0 && share > 0 && share < 1);
    double all = 0, sum = 0;
    for (int i = 0; i < count; i++)
        all += ratios[i].weight;
    for (int i = 0; i < count; i++) {
        sum += ratios[i].weight;
        if (sum >= share * all) return ratios[i].value;
    }
    return ratios[count - 1].value;
}

// Families weigh alike, whatever their number of rows; ends are rounded outward.
static void make_band(struct arena *arena, const char *source, struct anchor_sweep *sweep)
{
    assert(sweep->row_count > 0 && sweep->family_count > 0);
    int count = sweep->row_count;
    struct ratio *ratios = ARENA_NEW(arena, struct ratio, count);
    for (int i = 0; i < count; i++) {
        const struct anchor_row *row = &sweep->rows[i];
        ratios[i].value = row->trial->row->step_s / row->after_s;
        ratios[i].weight = 1.0 / family_rows(sweep, row->trial->row->family);
    }
    qsort(ratios, (size_t)count, sizeof *ratios, compare_ratios);
    sweep->band = (struct anchored_band){
        .low_ratio = fmin(floor(quantile(ratios, count, LOW) * ROUNDING) / ROUNDING, 1),
        .high_ratio = fmax(ceil(quantile(ratios, count, HIGH) * ROUNDING) / ROUNDING, 1),
        .row_count = count,
        .family_count = sweep->family_count,
        .source = arena_print(arena,
                              "5th to 95th percentile of measured / predicted of larger runs, "
                              "constants corrected by the smallest of their series: %s",
                              source),
    };
}

// Errors of all rows alike, and of families alike.
static void score(struct arena *arena, struct anchor_sweep *sweep)
{
    int count = sweep->row_count;
    struct estimate *before = ARENA_NEW(arena, struct estimate, count);
    struct estimate *after = ARENA_NEW(arena, struct estimate, count);
    for (int i = 0; i < count; i++) {
        const struct anchor_row *row = &sweep->rows[i];
        double measured_s = row->trial->row->step_s;
        before[i] = (struct estimate){.measured = measured_s, .predicted = row->before_s};
        after[i] = (struct estimate){.measured = measured_s, .predicted = row->after_s};
    }
    sweep->before = score_of(before, count);
    sweep->after = score_of(after, count);
    for (int i = 0; i < count; i++) {
        const char *family = sweep->rows[i].trial->row->family;
        double weight = 1.0 / family_rows(sweep, family);
        bool is_first = true;
        for (int k = 0; k < i && is_first; k++)
            is_first = strcmp(sweep->rows[k].trial->row->family, family) != 0;
        sweep->family_count += is_first;
        sweep->before_family_mape += weight * fabs(before[i].predicted / before[i].measured - 1);
        sweep->family_mape += weight * fabs(after[i].predicted / after[i].measured - 1);
    }
    sweep->before_family_mape /= fmax(sweep->family_count, 1);
    sweep->family_mape /= fmax(sweep->family_count, 1);
}

bool anchor_sweep_make(struct arena *arena, const struct trials *trials, const char *tiers,
                       const char *source, struct anchor_sweep *sweep, struct err *err)
{
    *sweep = (struct anchor_sweep){
        .series = ARENA_NEW(arena, struct anchor_series, trials->count),
        .rows = ARENA_NEW(arena, struct anchor_row, trials->count),
    };
    int count = 0;
    const struct series *list = sort(arena, trials, tiers, &count);
    for (int first = 0, last; first < count; first = last) {
        last = first + 1;
        while (last < count && strcmp(list[first].name, list[last].name) == 0)
            last++;
        if (!add_series(arena, list + first, last - first, sweep, err)) return false;
    }
    score(arena, sweep);
    if (sweep->family_count >= ANCHOR_BAND_FAMILIES) make_band(arena, source, sweep);
    return true;
}
