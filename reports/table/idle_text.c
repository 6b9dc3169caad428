#include "reports/table/idle_text.h"
#include "core/units.h"

#include <assert.h>
#include <math.h>

const char *idle_hint_text(struct arena *arena, const struct search_request *request,
                           const struct idle_hint *hint, double best_s)
{
    assert(hint->gpus > 0 && hint->gpus < request->cluster->rank_count);
    int all = request->cluster->rank_count;
    if (isinf(best_s)) {
        return arena_print(arena,
                           "%s of the %s GPUs have a plan that fits, of %s a step: --idle ok "
                           "leaves %s idle",
                           units_count(arena, hint->gpus), units_count(arena, all),
                           units_seconds(arena, hint->step_s),
                           units_count(arena, all - hint->gpus));
    }
    return arena_print(arena, "%s of the %s GPUs do it in %s (%s): --idle ok leaves %s idle",
                       units_count(arena, hint->gpus), units_count(arena, all),
                       units_seconds(arena, hint->step_s),
                       units_signed_percent(arena, hint->step_s / best_s - 1),
                       units_count(arena, all - hint->gpus));
}

const char *idle_answer_text(struct arena *arena, const struct search_request *request,
                             const struct idle_answer *answer, const struct search_result *result)
{
    const char *all = units_count(arena, request->cluster->rank_count);
    int idle = request->cluster->rank_count - answer->cluster->rank_count;
    assert(idle >= 0);
    if (idle == 0 && result->status == SEARCH_STOPPED) {
        return "Idle: none; not every smaller number of GPUs was searched\n";
    }
    if (idle == 0) {
        return arena_print(arena, "Idle: none; no smaller number of GPUs is faster than %s\n", all);
    }
    double step_s = result->best[0].cost.step_s;
    const char *whole = arena_print(arena, "and all %s have no plan that fits", all);
    if (answer->all_s > 0) {
        whole = arena_print(arena, "all %s take %s (%s)", all, units_seconds(arena, answer->all_s),
                            units_signed_percent(arena, step_s / answer->all_s - 1));
    }
    return arena_print(arena,
                       "Idle: %s of %s GPUs; %s take %s, %s\n"
                       "      GPU-hours and money count all %s, MFU and tokens/s per GPU those in "
                       "use\n",
                       units_count(arena, idle), all,
                       units_count(arena, answer->cluster->rank_count),
                       units_seconds(arena, step_s), whole, all);
}
