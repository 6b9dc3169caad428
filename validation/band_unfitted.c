#include "validation/band_unfitted.h"

#include <assert.h>
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
    assert(count > 0 && weight > 0);
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += ratios[i].weight;
        if (sum >= weight - 1e-9) return ratios[i].value;
    }
    return ratios[count - 1].value;
}

// Of software that is asked of another stack than its own.
static struct ratio *find_ratios(struct arena *arena, const struct trials *trials,
                                 const char *tiers, double (*ratio_of)(const struct trial *trial),
                                 int *count)
{
    struct ratio *ratios = ARENA_NEW(arena, struct ratio, trials->count + 1);
    *count = 0;
    for (int i = 0; i < trials->count; i++) {
        const struct trial *trial = &trials->items[i];
        const struct row *row = trial->row;
        bool is_other = row->stack_then && trial->answered && strchr(tiers, row->tier);
        double value = is_other ? ratio_of(trial) : 0;
        if (value > 0) ratios[(*count)++] = (struct ratio){value, 0, software_of(row)};
    }
    return ratios;
}

// Above 1: the step took longer than predicted.
static double time_ratio(const struct trial *trial)
{
    return trial->row->step_s / trial->prediction.step_s;
}

static double memory_ratio(const struct trial *trial)
{
    bool is_known = trial->row->allocated && trial->row->peak_bytes > 0;
    return is_known ? trial->row->peak_bytes / (double)trial->prediction.peak_bytes : 0;
}

// Softwares weigh alike; where `or_runs`, runs do instead if that is wider.
static struct anchored_band band_of(struct arena *arena, struct ratio *ratios, int count,
                                    bool or_runs, const char *source)
{
    if (count == 0) return (struct anchored_band){0};
    int softwares = weigh(ratios, count);
    assert(softwares > 0 && softwares <= count);
    qsort(ratios, (size_t)count, sizeof *ratios, by_value);
    double low = quantile(ratios, count, LOW * softwares);
    double high = quantile(ratios, count, HIGH * softwares);
    for (int i = 0; i < count; i++)
        ratios[i].weight = or_runs ? 1 : ratios[i].weight;
    double weight = or_runs ? count : softwares;
    low = fmin(low, quantile(ratios, count, LOW * weight));
    high = fmax(high, quantile(ratios, count, HIGH * weight));
    assert(low > 0 && low <= high);
    return (struct anchored_band){
        .low_ratio = fmin(floor(low * ROUNDING) / ROUNDING, 1),
        .high_ratio = fmax(ceil(high * ROUNDING) / ROUNDING, 1),
        .row_count = count,
        .family_count = softwares,
        .source =
            arena_print(arena,
                        "5th to 95th percentile of measured / predicted of software that no "
                        "constant had seen, softwares%s: %s",
                        or_runs ? " or runs weighing alike, the wider" : " weighing alike", source),
    };
}

struct anchored_band band_unfitted_make(struct arena *arena, const struct trials *trials,
                                        const char *tiers, const char *source)
{
    int count = 0;
    struct ratio *ratios = find_ratios(arena, trials, tiers, time_ratio, &count);
    return band_of(arena, ratios, count, false, source);
}

struct memory_band band_unfitted_memory(struct arena *arena, const struct trials *trials,
                                        const char *tiers, const char *source)
{
    int count = 0;
    struct ratio *ratios = find_ratios(arena, trials, tiers, memory_ratio, &count);
    struct anchored_band band = band_of(arena, ratios, count, true, source);
    return (struct memory_band){
        .stack = MEMORY_OF_ANY,
        .low_ratio = band.low_ratio,
        .high_ratio = band.high_ratio,
        .row_count = band.row_count,
        .family_count = band.family_count,
        .source = band.source,
    };
}
