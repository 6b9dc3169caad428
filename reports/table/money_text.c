#include "reports/table/money_text.h"
#include "core/units.h"

#include <assert.h>
#include <math.h>

// " (37.2 to 51.0)" for an amount at the two ends of the band.
static const char *between(struct arena *arena, const struct prediction *prediction,
                           const char *low, const char *high)
{
    return prediction->band ? arena_print(arena, " (%s to %s)", low, high) : "";
}

static const char *price_text(struct arena *arena, const struct prediction *prediction)
{
    assert(prediction->money.currency);
    const struct money *money = &prediction->money, *low = &prediction->money_low,
                       *high = &prediction->money_high;
    return arena_print(
        arena, "      %s %s%s, %s %s%s per 1B tokens\n", units_count(arena, money->total),
        money->currency,
        between(arena, prediction, units_count(arena, low->total), units_count(arena, high->total)),
        units_count(arena, money->per_billion_tokens), money->currency,
        between(arena, prediction, units_count(arena, low->per_billion_tokens),
                units_count(arena, high->per_billion_tokens)));
}

const char *money_text(struct arena *arena, double tokens, const struct prediction *prediction,
                       const char *device)
{
    const struct money *money = &prediction->money, *low = &prediction->money_low,
                       *high = &prediction->money_high;
    if (tokens <= 0) return "";
    if (!isfinite(money->train_s)) {
        return arena_print(arena,
                           "      %s never end: interruptions come faster than "
                           "checkpoints\n",
                           units_counted(arena, tokens, "token"));
    }
    return arena_print(arena, "      %s take%s %s%s%s,\n      %s %s-hours%s\n%s",
                       units_counted(arena, tokens, "token"), tokens == 1 ? "s" : "",
                       units_duration(arena, money->train_s),
                       between(arena, prediction, units_duration(arena, low->train_s),
                               units_duration(arena, high->train_s)),
                       prediction->goodput.is_known ? " with interruptions" : "",
                       units_count(arena, money->gpu_hours), device,
                       between(arena, prediction, units_count(arena, low->gpu_hours),
                               units_count(arena, high->gpu_hours)),
                       money->currency ? price_text(arena, prediction) : "");
}
