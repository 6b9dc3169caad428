#include "reports/table/why_table.h"
#include "core/table.h"
#include "core/units.h"
#include "reports/table/plan_table.h"

#include <assert.h>
#include <math.h>

static const char *signed_seconds(struct arena *arena, double seconds)
{
    if (seconds < 0) return arena_print(arena, "-%s", units_seconds(arena, -seconds));
    return arena_print(arena, "+%s", units_seconds(arena, seconds));
}

// Sums in another order differ in the last digits, which mean nothing.
static double difference_s(const struct explanation_term *term)
{
    double more_s = term->other_s - term->winner_s;
    return fabs(more_s) < 1e-8 * fmax(term->other_s, term->winner_s) ? 0 : more_s;
}

static char *terms_text(struct arena *arena, const struct explanation *explanation)
{
    static const char *const HEADER[] = {"part of the step", "best", "asked", "difference"};
    struct table table = table_new(arena, "lrrr");
    table_row(&table, HEADER);
    for (int i = 0; i < explanation->term_count; i++) {
        const struct explanation_term *term = &explanation->terms[i];
        if (term->winner_s <= 0 && term->other_s <= 0) continue;
        const char *cells[] = {term->name, units_seconds(arena, term->winner_s),
                               units_seconds(arena, term->other_s),
                               signed_seconds(arena, difference_s(term))};
        table_row(&table, cells);
    }
    return table_text(&table);
}

char *explanation_text(struct arena *arena, const char *asked,
                       const struct explanation *explanation, const struct stack *stack)
{
    assert(explanation->is_winner || explanation->possible || explanation->reason);
    if (explanation->is_winner) return arena_print(arena, "%s: the best plan has it.\n", asked);
    if (!explanation->possible) {
        return arena_print(arena, "%s: impossible: %s\n", asked, explanation->reason);
    }
    // Where nothing fits there is no best plan to set beside it.
    return arena_print(arena, "%s: %s\n%s plan with it: %s\n%s", asked,
                       explanation->fits ? explanation->text : explanation->reason,
                       explanation->fits ? "best" : "closest",
                       parallel_text(arena, &explanation->other.parallel, stack),
                       explanation->term_count > 0 ? terms_text(arena, explanation) : "");
}
