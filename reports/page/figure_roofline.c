#include "core/units.h"
#include "reports/page/figure.h"

#include <assert.h>
#include <math.h>

// The operators of the busiest stage under the roof of their device: the peak of its matrix units
// and what its memory can feed (Williams, Waterman and Patterson, 2009, "Roofline: an insightful
// visual performance model for multicore architectures").

// "100 T" of flop a second.
static char *rate_text(struct arena *arena, double flop_per_s)
{
    static const char *const PREFIXES[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t i = 0;
    for (; flop_per_s >= 999.5 && i + 1 < sizeof PREFIXES / sizeof *PREFIXES; i++)
        flop_per_s /= 1000;
    return arena_print(arena, "%.3g %s", flop_per_s, PREFIXES[i]);
}

// Both axes are logarithmic: what has no flop or no bytes has no place on them.
static bool is_shown(const struct breakdown_line *line)
{
    return !breakdown_is_communication(line) && line->flop > 0 && line->bytes > 0 && line->s > 0;
}

static void add_point(const struct chart *chart, struct chart_series *series,
                      const struct breakdown_line *line, double step_s)
{
    assert(is_shown(line) && step_s > 0);
    struct arena *arena = chart->arena;
    const char *pass = line->price->recompute                 ? "recomputed"
                       : line->price->phase == PHASE_FORWARD  ? "forward"
                       : line->price->phase == PHASE_BACKWARD ? "backward"
                                                              : "weight gradient";
    const char *title =
        arena_print(arena, "%s, %s: %s, %s of the step, %s", line->price->what, pass,
                    units_seconds(arena, line->s), units_ratio(arena, line->s / step_s),
                    units_flop_per_s(arena, line->flop / line->s));
    chart_mark(chart, series,
               &(struct chart_mark){.x0 = line->flop / line->bytes,
                                    .y0 = line->flop / line->s,
                                    .size = 3 + 22 * sqrt(line->s / step_s),
                                    .title = title});
}

static void add_roof(struct chart *chart, const struct device *device, double peak)
{
    assert(peak > 0 && device->memory_bandwidth_bytes_per_s > 0);
    double slope = device->memory_bandwidth_bytes_per_s, knee = peak / slope;
    struct chart_series *roof =
        chart_add(chart, CHART_LINE, CHART_PLAIN, "peak rate and memory bandwidth");
    double left = fmax(chart->x.low, chart->y.low / slope);
    if (knee > left) chart_mark(chart, roof, &(struct chart_mark){.x0 = left, .y0 = left * slope});
    if (knee > chart->x.low && knee < chart->x.high)
        chart_mark(chart, roof, &(struct chart_mark){.x0 = knee, .y0 = peak});
    chart_mark(chart, roof, &(struct chart_mark){.x0 = chart->x.high, .y0 = peak});
}

bool figure_roofline(const struct report_facts *facts, struct chart *chart)
{
    const struct breakdown *breakdown = &facts->report->explain.breakdown;
    const struct evaluation_request *request = facts->report->request;
    enum precision precision = request->workload.precision;
    const struct device *device = cluster_slowest_device(request->cluster, precision);
    double peak = device->peak_flop_per_s[precision];
    double x_low = INFINITY, x_high = 0, y_low = INFINITY, y_high = peak;
    for (int i = 0; i < breakdown->count; i++) {
        const struct breakdown_line *line = &breakdown->lines[i];
        if (!is_shown(line)) continue;
        x_low = fmin(x_low, line->flop / line->bytes);
        x_high = fmax(x_high, line->flop / line->bytes);
        y_low = fmin(y_low, line->flop / line->s);
        y_high = fmax(y_high, line->flop / line->s);
    }
    if (x_high <= 0 || peak <= 0) return false;
    double knee = peak / device->memory_bandwidth_bytes_per_s;
    chart->name = "roofline";
    chart->title = arena_print(chart->arena, "Operators under the roof of %s", device->name);
    chart->how =
        "Each dot is an operator; the larger it is, the more of the step it takes. Dots near "
        "the roof use the device fully; those left of its bend wait for memory.";
    chart->x = (struct chart_axis){.label = "flop a byte of memory traffic",
                                   .scale = CHART_LOG,
                                   .low = 0.6 * fmin(x_low, knee),
                                   .high = 2 * fmax(x_high, knee)};
    chart->y = (struct chart_axis){.label = "flop a second",
                                   .scale = CHART_LOG,
                                   .low = 0.5 * y_low,
                                   .high = 1.8 * y_high,
                                   .format = rate_text};
    chart->height = 320;
    add_roof(chart, device, peak);
    static const struct {
        enum phase phase;
        enum chart_color color;
        const char *name;
    } PHASES[] = {{PHASE_FORWARD, CHART_FORWARD, "forward"},
                  {PHASE_BACKWARD, CHART_BACKWARD, "backward"},
                  {PHASE_WEIGHT, CHART_WEIGHT, "weight gradients"}};
    for (size_t i = 0; i < sizeof PHASES / sizeof *PHASES; i++) {
        struct chart_series *series =
            chart_add(chart, CHART_POINTS, PHASES[i].color, PHASES[i].name);
        for (int k = 0; k < breakdown->count; k++) {
            const struct breakdown_line *line = &breakdown->lines[k];
            if (is_shown(line) && line->price->phase == PHASES[i].phase)
                add_point(chart, series, line, breakdown->step_s);
        }
    }
    return true;
}
