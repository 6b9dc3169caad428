#include "reports/table/cuts_text.h"

#include <assert.h>
#include <math.h>

static const char *names(struct arena *arena, const struct search_result *result, bool bounded)
{
    const char *text = "";
    for (int i = 0; i < result->cut_count; i++) {
        const struct open_cut *cut = &result->cuts[i];
        if ((cut->bound_s > 0) != bounded) continue;
        text = arena_print(arena, "%s%s%s", text, *text ? ", " : "", cut_text(cut->cut));
    }
    return text;
}

const char *cuts_text(struct arena *arena, const struct search_result *result)
{
    double least_s = INFINITY;
    for (int i = 0; i < result->cut_count; i++)
        if (result->cuts[i].bound_s > 0) least_s = fmin(least_s, result->cuts[i].bound_s);
    const char *bounded = names(arena, result, true), *others = names(arena, result, false);
    const char *text = "";
    if (*bounded) {
        assert(isfinite(least_s) && result->best[0].closed_form_s > 0);
        double most_percent = 100 * (1 - least_s / result->best[0].closed_form_s);
        int digits = most_percent < 99 ? 2 : 3;  // two write 99.6 as 1e+02
        text = arena_print(arena, " Left out, at most %.*g %% faster: %s.", digits, most_percent,
                           bounded);
    }
    if (*others) text = arena_print(arena, "%s Left out, not bounded: %s.", text, others);
    return text;
}
