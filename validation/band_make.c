#include "validation/band_make.h"
#include "validation/band_pairs.h"
#include "validation/selection.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Families' worth of the wider group. Chosen on 2026-11-21 by bands_coverage over the 596 published
// rows of tier A, together with the rule that no group is narrower than all: at 6, 12 and 24 91 to
// 93 % of the rows were inside, but at 24 only 78 % of the mixtures; without the rule 83 to 85 %.
// That was on left-out predictions of a solver that could stop at a corner; on those of the present
// one 12 holds 93 % of the rows, 95 % in the mean of families, mean high over low 1.40.
static const double CONCENTRATION = 12;
static const double TAIL = 0.05;
// Ratios are rounded outward to so many parts.
static const double ROUNDING = 1000;

enum { ANY = -1, KIND_COUNT = 3, KIND_DENSE = 0, KIND_NARROW = 1, KIND_MIXTURE = 2 };

// A residual with its names as numbers: where they stand among all names of the sample.
struct point {
    int device, stack, kind, unit;
    double value;  // log(measured / predicted)
};

struct family_names {
    const char **items;  // sorted
    int count;
};

// Logarithms of measured / predicted.
struct band_span {
    double low, high;
};

struct sample {
    struct arena *arena;
    struct family_names devices, stacks;
    struct family_names units;  // what weighs alike: families, or devices where these are unknown
    const char *kinds[KIND_COUNT];
    struct point *points;
    int count;
    struct band_span every_run;
};

struct group {
    int device, stack, kind;  // ANY
};
static const struct group EVERY_RUN = {ANY, ANY, ANY};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// What stands at `offset` of every residual, each once.
static struct family_names names_of(struct arena *arena, const struct residuals *residuals,
                                    size_t offset)
{
    struct family_names names = {.items = ARENA_NEW(arena, const char *, residuals->count)};
    for (int i = 0; i < residuals->count; i++) {
        const char *at = (const char *)&residuals->items[i] + offset;
        names.items[i] = *(const char *const *)at;
    }
    qsort(names.items, (size_t)residuals->count, sizeof *names.items, by_text);
    for (int i = 0; i < residuals->count; i++) {
        bool known = names.count && strcmp(names.items[names.count - 1], names.items[i]) == 0;
        if (!known) names.items[names.count++] = names.items[i];
    }
    return names;
}

static int name_index(const struct family_names *names, const char *text)
{
    const char **found =
        bsearch(&text, names->items, (size_t)names->count, sizeof *names->items, by_text);
    assert(found);
    return (int)(found - names->items);
}

static int compare(double a, double b)
{
    return (a > b) - (a < b);
}

// An order that does not depend on the one in which residuals came, so that sums do not either.
static int by_point(const void *a, const void *b)
{
    const struct point *left = a, *right = b;
    if (left->unit != right->unit) return left->unit - right->unit;
    if (left->device != right->device) return left->device - right->device;
    if (left->stack != right->stack) return left->stack - right->stack;
    if (left->kind != right->kind) return left->kind - right->kind;
    return compare(left->value, right->value);
}

// Of predictions that knew nothing of the family, or with `device_out` nothing of the device: then
// a device weighs as a family does else, because it is another device that is asked for.
static struct sample sample_new(struct arena *arena, const struct residuals *residuals,
                                bool device_out)
{
    size_t unit =
        device_out ? offsetof(struct residual, device) : offsetof(struct residual, family);
    struct sample sample = {
        .arena = arena,
        .devices = names_of(arena, residuals, offsetof(struct residual, device)),
        .stacks = names_of(arena, residuals, offsetof(struct residual, stack)),
        .units = names_of(arena, residuals, unit),
        .kinds = {band_kind(0, false), band_kind(0, true), band_kind(1, false)},
        .points = ARENA_NEW(arena, struct point, residuals->count),
        .count = residuals->count,
    };
    for (int i = 0; i < residuals->count; i++) {
        const struct residual *residual = &residuals->items[i];
        int kind = 0;
        while (strcmp(sample.kinds[kind], residual->kind) != 0) {
            kind++;
            assert(kind < KIND_COUNT);
        }
        assert(residual->measured_s > 0 && residual->left_out_s > 0 && residual->device_out_s > 0);
        sample.points[i] = (struct point){
            .device = name_index(&sample.devices, residual->device),
            .stack = name_index(&sample.stacks, residual->stack),
            .kind = kind,
            .unit = name_index(&sample.units, device_out ? residual->device : residual->family),
            .value = log(residual->measured_s /
                         (device_out ? residual->device_out_s : residual->left_out_s)),
        };
    }
    qsort(sample.points, (size_t)sample.count, sizeof(struct point), by_point);
    return sample;
}

static bool in_group(const struct point *point, struct group group)
{
    return (group.device == ANY || group.device == point->device) &&
           (group.stack == ANY || group.stack == point->stack) &&
           (group.kind == ANY || group.kind == point->kind);
}

struct group_count {
    int rows, units;
};

// Points are sorted by unit, so that those of one unit lie together.
static struct group_count count_group(const struct sample *sample, struct group group)
{
    struct group_count count = {0};
    int unit = -1;
    for (int i = 0; i < sample->count; i++) {
        if (!in_group(&sample->points[i], group)) continue;
        count.rows++;
        if (sample->points[i].unit != unit) count.units++;
        unit = sample->points[i].unit;
    }
    return count;
}

// One step down: what weighed so far keeps c / (n + c), the rows of the group share n / (n + c),
// every unit of the group alike.
static void narrow(const struct sample *sample, struct group group, double *weights)
{
    int units = count_group(sample, group).units;
    if (units == 0) return;
    bool is_first = group.device == ANY && group.stack == ANY && group.kind == ANY;
    double total = units + (is_first ? 0 : CONCENTRATION);
    for (int i = 0; i < sample->count; i++) {
        weights[i] *= is_first ? 0 : CONCENTRATION / total;
    }
    for (int first = 0, end = 0; first < sample->count; first = end) {
        int rows = 0;
        while (end < sample->count && sample->points[end].unit == sample->points[first].unit) {
            rows += in_group(&sample->points[end++], group);
        }
        for (int i = first; i < end; i++) {
            if (in_group(&sample->points[i], group)) weights[i] += 1 / (rows * total);
        }
    }
}

struct weighted {
    double value, weight;
};

static int by_value(const void *a, const void *b)
{
    return compare(((const struct weighted *)a)->value, ((const struct weighted *)b)->value);
}

// The value at and below which `level` of the weight lies; `values` are sorted, weights sum to 1.
static double quantile(const struct weighted *values, int count, double level)
{
    assert(count > 0 && level > 0 && level <= 1);
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += values[i].weight;
        if (sum >= level - 1e-12) return values[i].value;
    }
    return values[count - 1].value;
}

// From the residuals, weighed from all of them down to those of `group`.
static struct band_span measure(const struct sample *sample, struct group group)
{
    double *weights = ARENA_NEW(sample->arena, double, sample->count);
    narrow(sample, EVERY_RUN, weights);
    if (group.kind != ANY) narrow(sample, (struct group){ANY, ANY, group.kind}, weights);
    if (group.stack != ANY) narrow(sample, (struct group){ANY, group.stack, group.kind}, weights);
    if (group.device != ANY) narrow(sample, group, weights);

    struct weighted *values = ARENA_NEW(sample->arena, struct weighted, sample->count);
    double squares = 0, sum = 0;
    for (int i = 0; i < sample->count; i++) {
        values[i].value = sample->points[i].value;
        values[i].weight = weights[i];
        squares += weights[i] * weights[i];
        sum += weights[i];
    }
    assert(fabs(sum - 1) < 1e-9);
    double effective = 1 / squares;  // Kish; the weights sum to 1
    // Of few residuals the largest seen says too little of the next one: the level of a conformal
    // bound, (n + 1) / n times as high.
    double level = fmin(1, (1 - TAIL) * (effective + 1) / effective);
    qsort(values, (size_t)sample->count, sizeof *values, by_value);
    double high = quantile(values, sample->count, level);
    for (int i = 0; i < sample->count; i++) {
        values[i].value = -values[i].value;
    }
    qsort(values, (size_t)sample->count, sizeof *values, by_value);
    return (struct band_span){-quantile(values, sample->count, level), high};
}

// A handful of families that happened to be predicted well does not show that the next one will
// be: a group widens the band of all runs and never narrows it.
static void set_ratios(const struct sample *sample, struct group group, struct band *band)
{
    struct band_span own = measure(sample, group), all = sample->every_run;
    double low = fmin(0, fmin(own.low, all.low)), high = fmax(0, fmax(own.high, all.high));
    band->low_ratio = fmax(0.01, floor(exp(low) * ROUNDING) / ROUNDING);
    band->high_ratio = fmin(100, ceil(exp(high) * ROUNDING) / ROUNDING);
}

enum { LISTED_UNITS = 4 };

// "sc21, vtrain-single and 3 more"
static const char *units_text(const struct sample *sample, struct group group)
{
    int count = count_group(sample, group).units, listed = 0, unit = -1;
    const char *text = "";
    for (int i = 0; i < sample->count && listed < LISTED_UNITS; i++) {
        const struct point *point = &sample->points[i];
        if (!in_group(point, group) || point->unit == unit) continue;
        unit = point->unit;
        text = arena_print(sample->arena, "%s%s%s", text, listed++ ? ", " : "",
                           sample->units.items[unit]);
    }
    if (count <= LISTED_UNITS) return text;
    return arena_print(sample->arena, "%s and %d more", text, count - LISTED_UNITS);
}

static const char *source_text(const struct sample *sample, struct group group,
                               enum confidence confidence, const char *source)
{
    bool has_wider_stack = group.device != ANY && group.stack != ANY;
    const char *wider = has_wider_stack ? "other runs of the stack and all runs" : "all runs";
    if (count_group(sample, group).rows == 0) {
        return arena_print(sample->arena, "no such run; %s: %s", wider, source);
    }
    const char *unknown = confidence == CONFIDENCE_DATASHEET ? "device" : "family";
    return arena_print(sample->arena,
                       "5th to 95th percentile of measured / predicted without its %s, %s, weighed "
                       "with %s and no narrower than that of all: %s",
                       unknown, units_text(sample, group), wider, source);
}

static struct band make_band(const struct sample *sample, struct group group,
                             enum confidence confidence, const char *source)
{
    struct group_count own = count_group(sample, group);
    struct band band = {
        .device = group.device == ANY ? "*" : sample->devices.items[group.device],
        .stack = group.stack == ANY ? "*" : sample->stacks.items[group.stack],
        .kind = sample->kinds[group.kind],
        .confidence = confidence,
        .row_count = own.rows,
        .family_count = own.units,
        .source = source_text(sample, group, confidence, source),
    };
    set_ratios(sample, group, &band);
    return band;
}

// A named device: what it was measured with, and what holds for it with any other stack.
static void add_device(const struct sample *sample, int device, const char *source,
                       struct bands *bands)
{
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        for (int stack = ANY; stack < sample->stacks.count; stack++) {
            struct group group = {device, stack, kind};
            int rows = count_group(sample, group).rows;
            if (stack != ANY && rows == 0) continue;
            bool validated = stack != ANY && rows >= BAND_VALIDATED_ROWS;
            bands->rows[bands->count++] = make_band(
                sample, group, validated ? CONFIDENCE_VALIDATED : CONFIDENCE_EXTRAPOLATED, source);
        }
    }
}

// Devices that no row names, with kernels measured and without. Not knowing more never makes a
// band narrower.
static void add_unnamed(const struct sample *sample, const struct sample *device_out,
                        const char *source, struct bands *bands)
{
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        for (int stack = ANY; stack < sample->stacks.count; stack++) {
            struct group group = {ANY, stack, kind};
            if (stack != ANY && count_group(sample, group).rows == 0) continue;
            struct band known = make_band(sample, group, CONFIDENCE_EXTRAPOLATED, source);
            struct band unknown = make_band(device_out, group, CONFIDENCE_DATASHEET, source);
            unknown.family_count = known.family_count;
            unknown.low_ratio = fmin(unknown.low_ratio, known.low_ratio);
            unknown.high_ratio = fmax(unknown.high_ratio, known.high_ratio);
            bands->rows[bands->count++] = known;
            bands->rows[bands->count++] = unknown;
        }
    }
}

static struct bands *make_rows(struct arena *arena, const struct residuals *residuals,
                               const char *source)
{
    assert(residuals->count > 0);
    struct sample sample = sample_new(arena, residuals, false);
    struct sample device_out = sample_new(arena, residuals, true);
    sample.every_run = measure(&sample, EVERY_RUN);
    device_out.every_run = measure(&device_out, EVERY_RUN);
    int most = KIND_COUNT * (sample.devices.count + 2) * (sample.stacks.count + 1);
    struct bands *bands = ARENA_NEW(arena, struct bands, 1);
    bands->rows = ARENA_NEW(arena, struct band, most);
    for (int device = 0; device < sample.devices.count; device++) {
        add_device(&sample, device, source, bands);
    }
    add_unnamed(&sample, &device_out, source, bands);
    return bands;
}

const struct bands *bands_make(struct arena *arena, const struct residuals *residuals,
                               const char *source)
{
    struct bands *bands = make_rows(arena, residuals, source);
    bands->pairs = band_pairs_make(arena, residuals, source, &bands->pairs_count);
    bands->selection = selection_make(arena, residuals, source);
    return bands;
}
