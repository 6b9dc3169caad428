#include "validation/band_unfitted.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LOW = 0.05, HIGH = 0.95;
static const double ROUNDING = 1000;  // ends are written to three digits, outwards

struct ratio {
    double value, weight;
    const char *software;
};

static int by_value(const void *a, const void *b)
{
    double x = ((const struct ratio *)a)->value, y = ((const struct ratio *)b)->value;
    return (x > y) - (x < y);
}

static const char *software_of(const struct row *row)
{
    return row->facts.software ? row->facts.software : row->stack;
}

// Weights of `count` ratios sum to the softwares' number, which it returns.
static int weigh(struct ratio *ratios, int count)
{
    int softwares = 0;
    for (int i = 0; i < count; i++) {
        int alike = 0, before = 0;
        for (int k = 0; k < count; k++) {
            bool is_same = strcmp(ratios[k].software, ratios[i].software) == 0;
            alike += is_same;
            before += is_same && k < i;
        }
        ratios[i].weight = 1.0 / alike;
        softwares += before == 0;
    }
    return softwares;
}

// The least value at or below which this share of the weight lies.
static double quantile(const struct ratio *ratios, int count, double weight)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += ratios[i].weight;
        if (sum >= weight - 1e-9) return ratios[i].value;
    }
    return ratios[count - 1].value;
}

struct anchored_band band_unfitted_make(struct arena *arena, const struct trials *trials,
                                        const char *tiers, const char *source)
{
    struct ratio *ratios = ARENA_NEW(arena, struct ratio, trials->count + 1);
    int count = 0;
    for (int i = 0; i < trials->count; i++) {
        const struct trial *trial = &trials->items[i];
        const struct row *row = trial->row;
        bool is_other = row->stack_then && trial->answered && row->step_s > 0;
        if (!is_other || !strchr(tiers, row->tier)) continue;
        ratios[count++] = (struct ratio){
            .value = row->step_s / trial->prediction.step_s,
            .software = software_of(row),
        };
    }
    if (count == 0) return (struct anchored_band){0};
    int softwares = weigh(ratios, count);
    qsort(ratios, (size_t)count, sizeof *ratios, by_value);
    double low = quantile(ratios, count, LOW * softwares);
    double high = quantile(ratios, count, HIGH * softwares);
    return (struct anchored_band){
        .low_ratio = fmin(floor(low * ROUNDING) / ROUNDING, 1),
        .high_ratio = fmax(ceil(high * ROUNDING) / ROUNDING, 1),
        .row_count = count,
        .family_count = softwares,
        .source = arena_print(arena,
                              "5th to 95th percentile of measured / predicted of software that no "
                              "constant had seen, softwares weighing alike: %s",
                              source),
    };
}
