#include "reports/table/per_operator_text.h"

#include "core/units.h"

#include <assert.h>
#include <math.h>

// A change that gains nothing alone is there because another needs it.
static const char *changes_text(struct arena *arena, const struct per_operator *layouts)
{
    assert(layouts->change_count >= 0);
    const char *text = "";
    for (int i = 0; i < layouts->change_count; i++) {
        const struct operator_change *change = &layouts->changes[i];
        const char *gain =
            isnan(change->gain_s)
                ? "only together with others"
                : arena_print(arena, "%s a step", units_seconds(arena, change->gain_s));
        const char *where =
            change->stage < 0 ? "" : arena_print(arena, " on stage %d", change->stage);
        text = arena_print(arena, "%s      %s%s: %s in place of %s over tp (%s)\n", text,
                           change->operator, where, change->now, change->was, gain);
    }
    return text;
}

char *per_operator_text(struct arena *arena, const struct per_operator_found *found)
{
    const struct per_operator *best = &found->best;
    const char *asked =
        arena_print(arena, "%s asked, %s priced", units_counted(arena, found->plan_count, "plan"),
                    units_counted(arena, found->priced_count, "layout"));
    // Of a plan without tp its own layouts alone are priced.
    if (found->priced_count == found->plan_count)
        asked = found->plan_count == 1
                    ? "the best plan has no tp"
                    : arena_print(arena, "none of the %d best plans has tp", found->plan_count);
    if (!found->is_better)
        return arena_print(arena, "By operator: nothing is faster than the table (%s)\n", asked);
    const char *solved =
        best->gap_ratio > 0 ? arena_print(arena, "gap %.1g %%", 100 * best->gap_ratio) : "proven";
    double less_ratio = 1 - best->found_s / found->was.closed_form_s;
    return arena_print(
        arena,
        "By operator: %s a step, %.3g %% less than the best by the table; by the table this plan "
        "takes %s (%s)\n"
        "%s"
        "      of tp in a micro-batch, each kind of block once: %s\n"
        "                                     by the table: %s\n"
        "      problem: %d layouts of %d operators, %s\n",
        units_seconds(arena, best->found_s), 100 * less_ratio, units_seconds(arena, best->table_s),
        asked, changes_text(arena, best), best->after, best->before, best->choice_count,
        best->operator_count, solved);
}
