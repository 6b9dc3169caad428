#include "reports/figure.h"
#include "core/units.h"

const struct figure *figures(int *count)
{
    static const struct figure FIGURES[] = {
        {"step", figure_waterfall},          {"pipeline", figure_pipeline},
        {"pipeline", figure_straggler},      {"memory", figure_memory},
        {"memory", figure_memory_time},      {"traffic", figure_traffic},
        {"roofline", figure_roofline},       {"scaling", figure_scaling},
        {"sensitivity", figure_sensitivity}, {"pareto", figure_pareto},
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
    return s == 0 ? arena_copy(arena, "0") : units_seconds(arena, s);
}
