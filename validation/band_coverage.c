#include "validation/band_make.h"

#include <assert.h>
#include <string.h>

static bool is_of_family(const struct residual *residual, const char *family)
{
    return strcmp(residual->family, family) == 0;
}

// The order of the others is kept, so that sums come out the same.
static struct residuals without(struct arena *arena, const struct residuals *residuals,
                                const char *family)
{
    struct residuals rest = {ARENA_NEW(arena, struct residual, residuals->count), 0};
    for (int i = 0; i < residuals->count; i++) {
        if (!is_of_family(&residuals->items[i], family))
            rest.items[rest.count++] = residuals->items[i];
    }
    return rest;
}

// Each family is judged by bands that were made without it.
const struct band *bands_left_out(struct arena *arena, const struct residuals *residuals)
{
    struct band *left_out = ARENA_NEW(arena, struct band, residuals->count);
    struct arena scratch = {0};
    struct arena_mark mark = arena_mark(&scratch);
    for (int first = 0; first < residuals->count; first++) {
        if (left_out[first].kind) continue;  // one of an earlier family
        const char *family = residuals->items[first].family;
        struct residuals rest = without(&scratch, residuals, family);
        assert(rest.count > 0);
        const struct bands *bands = bands_make(&scratch, &rest, "");
        for (int i = first; i < residuals->count; i++) {
            const struct residual *row = &residuals->items[i];
            if (!is_of_family(row, family)) continue;
            left_out[i] = *bands_find(bands, row->device, row->stack, row->kind, false);
            left_out[i].kind = row->kind;
            left_out[i].source = arena_copy(arena, left_out[i].source);
        }
        arena_reset(&scratch, mark);
    }
    arena_free(&scratch);
    return left_out;
}

struct tally {
    int rows, covered;
};

// Of the rows of this kind and of the family of the row at `first`; none if an earlier row was
// already of that family.
static struct tally count_family(const struct residuals *residuals, const struct band *left_out,
                                 const char *kind, int first)
{
    const char *family = residuals->items[first].family;
    struct tally tally = {0};
    for (int i = 0; i < first; i++) {
        if (is_of_family(&residuals->items[i], family)) return tally;
    }
    for (int i = first; i < residuals->count; i++) {
        const struct residual *row = &residuals->items[i];
        if (!is_of_family(row, family) || (kind && strcmp(row->kind, kind) != 0)) continue;
        double ratio = row->measured_s / row->left_out_s;
        tally.rows++;
        tally.covered += ratio >= left_out[i].low_ratio && ratio <= left_out[i].high_ratio;
    }
    return tally;
}

struct band_coverage bands_coverage(const struct residuals *residuals, const struct band *left_out,
                                    const char *kind)
{
    struct band_coverage coverage = {0};
    double covered = 0, covered_families = 0, width = 0;
    for (int i = 0; i < residuals->count; i++) {
        if (!kind || strcmp(residuals->items[i].kind, kind) == 0) {
            width += left_out[i].high_ratio / left_out[i].low_ratio;
        }
        struct tally tally = count_family(residuals, left_out, kind, i);
        if (tally.rows == 0) continue;
        coverage.row_count += tally.rows;
        coverage.family_count++;
        covered += tally.covered;
        assert(tally.covered <= tally.rows);
        covered_families += (double)tally.covered / tally.rows;
    }
    if (coverage.row_count == 0) return coverage;
    coverage.covered_ratio = covered / coverage.row_count;
    coverage.covered_family_ratio = covered_families / coverage.family_count;
    coverage.width_ratio = width / coverage.row_count;
    return coverage;
}
