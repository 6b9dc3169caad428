#include "reports/page/figure.h"

#include <assert.h>
#include <math.h>

const struct figure *figures(int *count)
{
    static const struct figure FIGURES[] = {
        {"measured", figure_measured_steps},
        {"measured", figure_measured_ranks},
        {"measured", figure_measured_exchanges},
        {"measured", figure_measured_traffic},
        {"measured", figure_history},
        {"step", figure_waterfall},
        {"pipeline", figure_pipeline},
        {"pipeline", figure_pipeline_begin},
        {"pipeline", figure_injection},
        {"memory", figure_memory},
        {"memory", figure_memory_time},
        {"traffic", figure_traffic},
        {"roofline", figure_roofline},
        {"scaling", figure_scaling},
        {"sensitivity", figure_sensitivity},
        {"pareto", figure_pareto},
        {"pareto", figure_choice},
    };
    *count = sizeof FIGURES / sizeof *FIGURES;
    return FIGURES;
}

struct chart figure_new(struct arena *arena)
{
    return (struct chart){.arena = arena};
}

char *figure_seconds(struct arena *arena, double s)
{
    double magnitude = fabs(s);
    if (s == 0) return arena_copy(arena, "0");
    if (magnitude >= 0.9999) return arena_print(arena, "%.6g s", s);
    if (magnitude >= 0.9999e-3) return arena_print(arena, "%.6g ms", 1e3 * s);
    return arena_print(arena, "%.6g \xc2\xb5s", 1e6 * s);
}

// The square root, so that little is seen beside much.
double figure_shade(double much, double most)
{
    assert(most > 0 && much >= 0 && much <= most * (1 + 1e-9));
    return 0.15 + 0.85 * sqrt(much / most);
}

void figure_shades(struct chart *chart, enum chart_color color, double most,
                   char *(*text)(struct arena *arena, double much))
{
    assert(chart->shade_count == 0 && most > 0);
    static const double PARTS[] = {1, 1.0 / 4, 1.0 / 16, 1.0 / 64};
    chart->shade_color = color;
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++)
        chart->shades[chart->shade_count++] = (struct chart_shade){
            figure_shade(PARTS[i] * most, most), text(chart->arena, PARTS[i] * most)};
}

void figure_level(struct chart *chart, enum chart_color color, const char *name, double y)
{
    struct chart_series *line = chart_add(chart, CHART_LINE, color, name);
    line->dashed = true;
    chart_mark(chart, line, &(struct chart_mark){.x0 = chart->x.low, .y0 = y});
    chart_mark(chart, line, &(struct chart_mark){.x0 = chart->x.high, .y0 = y});
}
