#include "reports/page/chart.h"

#include <assert.h>
#include <math.h>
#include <string.h>

const char *chart_color_hex(enum chart_color color)
{
    static const char *const HEX[CHART_COLOR_COUNT] = {"#043fad", "#cf7e1b", "#bc45f3", "#aa0504",
                                                       "#d4d9dd", "#3c8d80", "#a1182c", "#2f333c",
                                                       "#ed93f9", "#6d2c43"};
    assert(color < CHART_COLOR_COUNT);
    return HEX[color];
}

struct chart_series *chart_add(struct chart *chart, enum chart_kind kind, enum chart_color color,
                               const char *name)
{
    assert(chart->series_count < CHART_SERIES_MAX);
    struct chart_series *series = &chart->series[chart->series_count++];
    *series = (struct chart_series){.kind = kind, .color = color, .name = name};
    return series;
}

void chart_mark(const struct chart *chart, struct chart_series *series,
                const struct chart_mark *mark)
{
    ARENA_GROW(chart->arena, series->marks, series->count, series->capacity);
    series->marks[series->count++] = *mark;
}

int chart_rows_height(const struct chart_axis *axis, int row_count)
{
    if (axis->names_above) return 38 * row_count;
    int each = row_count <= 0 ? 0 : 480 / row_count;
    if (each > 30) each = 30;
    if (each < 7) each = 7;
    return each * row_count;
}

double chart_place(const struct chart_axis *axis, double value)
{
    assert(axis->high > axis->low);
    if (axis->scale == CHART_LOG) {
        assert(axis->low > 0 && value > 0);
        return log(value / axis->low) / log(axis->high / axis->low);
    }
    return (value - axis->low) / (axis->high - axis->low);
}

// 1, 2 or 5 times a power of ten, so that `most` steps of it cover the range.
static double step_of(double range, int most)
{
    assert(range > 0);
    double step = pow(10, floor(log10(range / most)));
    if (range / step <= most) return step;
    if (range / (2 * step) <= most) return 2 * step;
    return range / (5 * step) <= most ? 5 * step : 10 * step;
}

static int log_ticks(const struct chart_axis *axis, int most, double ticks[CHART_TICKS_MAX])
{
    int first = (int)ceil(log10(axis->low) - 1e-9), last = (int)floor(log10(axis->high) + 1e-9);
    static const double FINE[] = {1, 2, 5};
    bool is_fine = (last - first + 1) * 3 <= most;
    int each = is_fine ? 3 : 1, skip = 1 + (last - first) / most, count = 0;
    for (int power = first - 1; power <= last; power++) {
        if ((power - first) % skip) continue;
        for (int i = 0; i < each; i++) {
            double value = FINE[i] * pow(10, power);
            bool is_inside = value >= axis->low * (1 - 1e-9) && value <= axis->high * (1 + 1e-9);
            if (is_inside && count < CHART_TICKS_MAX) ticks[count++] = value;
        }
    }
    return count;
}

int chart_ticks(const struct chart_axis *axis, int most, double ticks[CHART_TICKS_MAX])
{
    assert(most > 0 && most <= CHART_TICKS_MAX);
    if (axis->scale == CHART_ROWS) return 0;
    if (axis->at) {
        int count = axis->at_count < CHART_TICKS_MAX ? axis->at_count : CHART_TICKS_MAX;
        memcpy(ticks, axis->at, (size_t)count * sizeof *ticks);
        return count;
    }
    if (axis->scale == CHART_LOG) return log_ticks(axis, most, ticks);
    double step = step_of(axis->high - axis->low, most);
    if (axis->is_whole && step < 1) step = 1;
    int count = 0;
    double first = ceil(axis->low / step - 1e-9);
    while (count < CHART_TICKS_MAX && (first + count) * step <= axis->high + 1e-9 * step) {
        ticks[count] = (first + count) * step + 0.0;  // not -0
        count++;
    }
    return count;
}
