#include "reports/page/figure.h"

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
