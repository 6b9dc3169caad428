#include "validation/band_remake.h"
#include "core/sort.h"
#include "validation/anchor.h"
#include "validation/ranking.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int family_count_of(const struct trial *const *trials, int count)
{
    int families = 0;
    for (int i = 0; i < count; i++) {
        bool is_known = false;
        for (int j = 0; j < i && !is_known; j++) {
            is_known = strcmp(trials[i]->row->family, trials[j]->row->family) == 0;
        }
        families += !is_known;
    }
    return families;
}

static const double TAIL = 0.05, ROUNDING = 1000;

// The level of a conformal bound: of few runs the largest ratio seen.
static struct memory_band memory_of(struct arena *arena, const struct trial *const *trials,
                                    int count, const char *source)
{
    assert(count > 0);
    double *ratios = ARENA_NEW(arena, double, count);
    for (int i = 0; i < count; i++) {
        ratios[i] = trials[i]->row->peak_bytes / (double)trials[i]->prediction.peak_bytes;
    }
    sort_f64s(ratios, (size_t)count);
    int rank = (int)ceil((count + 1) * (1 - TAIL));
    if (rank > count) rank = count;
    assert(rank >= 1 && rank <= count && ratios[0] > 0);
    int families = family_count_of(trials, count);
    return (struct memory_band){
        .stack = trials[0]->row->stack,
        .low_ratio = fmin(1, floor(ratios[count - rank] * ROUNDING) / ROUNDING),
        .high_ratio = fmax(1, ceil(ratios[rank - 1] * ROUNDING) / ROUNDING),
        .row_count = count,
        .family_count = families,
        .source = arena_print(arena,
                              "measured / predicted peak of allocated memory, %d runs of %d "
                              "famil%s, one alone no narrower than several: %s",
                              count, families, families == 1 ? "y" : "ies", source),
    };
}

// Rows of a stack stand side by side behind the sort.
static int by_stack(const void *a, const void *b)
{
    const struct trial *left = *(const struct trial *const *)a;
    const struct trial *right = *(const struct trial *const *)b;
    return strcmp(left->row->stack, right->row->stack);
}

// One family does not show what the next will do: its band is no narrower than the narrowest that
// several families gave.
static void widen_single_families(struct memory_band *bands, int count)
{
    const struct memory_band *least = NULL;
    for (int i = 0; i < count; i++) {
        bool is_narrower = !least || bands[i].high_ratio < least->high_ratio;
        if (bands[i].family_count > 1 && is_narrower) least = &bands[i];
    }
    for (int i = 0; i < count && least; i++) {
        if (bands[i].family_count > 1) continue;
        bands[i].low_ratio = fmin(bands[i].low_ratio, least->low_ratio);
        bands[i].high_ratio = fmax(bands[i].high_ratio, least->high_ratio);
    }
}

struct memory_band *memory_bands_make(struct arena *arena, const struct trials *trials,
                                      const char *tiers, const char *source, int *count)
{
    const struct trial **rows = ARENA_NEW(arena, const struct trial *, trials->count);
    int row_count = 0;
    for (int i = 0; i < trials->count; i++) {
        const struct trial *trial = &trials->items[i];
        bool is_known = trial->answered && trial->row->allocated && trial->row->peak_bytes > 0;
        if (is_known && strchr(tiers, trial->row->tier)) rows[row_count++] = trial;
    }
    qsort(rows, (size_t)row_count, sizeof *rows, by_stack);
    struct memory_band *bands = ARENA_NEW(arena, struct memory_band, row_count + 1);
    *count = 0;
    for (int first = 0, end; first < row_count; first = end) {
        for (end = first + 1; end < row_count && by_stack(&rows[first], &rows[end]) == 0;) {
            end++;
        }
        bands[(*count)++] = memory_of(arena, rows + first, end - first, source);
    }
    widen_single_families(bands, *count);
    return bands;
}

static struct residuals residuals_of(struct arena *arena, const struct trials *trials,
                                     const char *tiers, const struct left_out *left_out)
{
    struct residuals residuals = {ARENA_NEW(arena, struct residual, trials->count), 0};
    for (int i = 0; i < trials->count; i++) {
        const struct row *row = trials->items[i].row;
        const struct left_out_row *out = left_out_find(left_out, row->id);
        bool is_known = out && out->device_out_s > 0 && row->step_s > 0;
        if (!is_known || !strchr(tiers, row->tier)) continue;
        residuals.items[residuals.count++] = (struct residual){
            .device = row->device,
            .stack = row->stack,
            .kind = row_kind_name(row->kind),
            .family = row->family,
            .sweep = row_sweep(arena, row),
            .measured_s = row->step_s,
            .left_out_s = out->step_s,
            .device_out_s = out->device_out_s,
        };
    }
    return residuals;
}

// All groups of one file are made from the same trials, so that they agree.
const struct bands *bands_remake(struct arena *arena, const struct trials *trials,
                                 const char *tiers, const struct left_out *left_out,
                                 struct err *err)
{
    struct residuals residuals = residuals_of(arena, trials, tiers, left_out);
    if (residuals.count == 0) {
        err_set(err, ERR_INPUT, "no row of tier %s was predicted without its family and its device",
                tiers);
        return NULL;
    }
    struct bands *bands = ARENA_NEW(arena, struct bands, 1);
    *bands = *bands_make(arena, &residuals, left_out->source);
    const char *source = arena_print(arena, "validation of tier %s", tiers);
    bands->memory = memory_bands_make(arena, trials, tiers, source, &bands->memory_count);
    // Rows that no fit has seen tell as much of it as others.
    struct anchor_sweep sweep;
    if (!anchor_sweep_make(arena, trials, "AB", "validation of tiers A and B", &sweep, err))
        return NULL;
    bands->anchored = sweep.band;
    return bands;
}
