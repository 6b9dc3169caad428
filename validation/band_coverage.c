#include "validation/band_make.h"

#include <string.h>

static bool is_of(const struct residual *residual, const char *kind)
{
    return !kind || strcmp(residual->kind, kind) == 0;
}

// Is there no residual of this family before `at`?
static bool is_first(const struct residuals *residuals, int at)
{
    for (int i = 0; i < at; i++) {
        if (strcmp(residuals->items[i].family, residuals->items[at].family) == 0) return false;
    }
    return true;
}

static struct residuals without(struct arena *arena, const struct residuals *residuals,
                                const char *family)
{
    struct residuals rest = {ARENA_NEW(arena, struct residual, residuals->count), 0};
    for (int i = 0; i < residuals->count; i++) {
        if (strcmp(residuals->items[i].family, family) == 0) continue;
        rest.items[rest.count++] = residuals->items[i];
    }
    return rest;
}

// Adds the rows of `family` to the sums that `coverage` holds until the end.
static void add_family(const struct residuals *residuals, const struct bands *bands,
                       const char *family, const char *kind, struct band_coverage *coverage)
{
    int rows = 0, covered = 0;
    for (int i = 0; i < residuals->count; i++) {
        const struct residual *row = &residuals->items[i];
        if (strcmp(row->family, family) != 0 || !is_of(row, kind)) continue;
        const struct band *band = bands_find(bands, row->device, row->stack, row->kind, false);
        double ratio = row->measured_s / row->left_out_s;
        rows++;
        covered += ratio >= band->low_ratio && ratio <= band->high_ratio;
        coverage->width += band->high_ratio / band->low_ratio;
    }
    if (rows == 0) return;
    coverage->row_count += rows;
    coverage->family_count++;
    coverage->covered_ratio += covered;
    coverage->covered_family_ratio += (double)covered / rows;
}

struct band_coverage bands_coverage(struct arena *scratch, const struct residuals *residuals,
                                    const char *kind)
{
    struct band_coverage coverage = {0};
    struct arena_mark mark = arena_mark(scratch);
    for (int i = 0; i < residuals->count; i++) {
        const char *family = residuals->items[i].family;
        if (!is_first(residuals, i)) continue;
        struct residuals rest = without(scratch, residuals, family);
        if (rest.count > 0) {
            add_family(residuals, bands_make(scratch, &rest, ""), family, kind, &coverage);
        }
        arena_reset(scratch, mark);
    }
    if (coverage.row_count == 0) return coverage;
    coverage.covered_ratio /= coverage.row_count;
    coverage.width /= coverage.row_count;
    coverage.covered_family_ratio /= coverage.family_count;
    return coverage;
}
