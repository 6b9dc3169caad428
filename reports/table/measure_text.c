#include "reports/table/measure_text.h"

#include <assert.h>

static const char *percent(struct arena *arena, double ratio)
{
    return arena_print(arena, "%.2f%%", 100 * ratio);
}

char *measure_text(struct arena *arena, const struct measure_next *next)
{
    assert(next->plan_count > 0 && next->step_count >= 0);
    char *text = arena_print(arena,
                             "%d plans; taking the first may cost %s more than the fastest "
                             "of them, on average; its step is known to +-%s\n",
                             next->plan_count, percent(arena, next->regret_ratio),
                             percent(arena, next->spread_ratio));
    if (next->step_count == 0)
        return arena_print(
            arena, "%sNothing that could be measured changes the choice or the band\n", text);
    text = arena_print(arena, "%s%-2s %-11s %-8s %-9s %-9s %s\n", text, "#", "measure", "minutes",
                       "regret", "step", "what");
    double minutes = 0;
    for (int i = 0; i < next->step_count; i++) {
        const struct measure_step *step = &next->steps[i];
        const struct measure_row *row = measure_row(step->kind);
        minutes += row->minutes;
        text = arena_print(arena, "%s%-2d %-11s %-8.0f %-9s +-%-7s %s%s%s\n", text, i + 1,
                           row->name, row->minutes, percent(arena, step->regret_ratio),
                           percent(arena, step->spread_ratio), row->what,
                           row->on_two_nodes ? " (two nodes)" : "",
                           row->needs_software ? " (the software that trains)" : "");
    }
    return arena_print(arena,
                       "%sTogether about %.0f minutes. Regret and step are with this and all "
                       "above it measured.\n",
                       text, minutes);
}

char *measure_json_text(struct arena *arena, const struct measure_next *next)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "plan_count", next->plan_count);
    json_put_f64(&writer, "regret_ratio", next->regret_ratio);
    json_put_f64(&writer, "spread_ratio", next->spread_ratio);
    json_open(&writer, "measure", '[');
    for (int i = 0; i < next->step_count; i++) {
        const struct measure_step *step = &next->steps[i];
        json_open_flat(&writer, NULL, '{');
        json_put_text(&writer, "name", measure_row(step->kind)->name);
        json_put_f64(&writer, "duration_s", 60 * measure_row(step->kind)->minutes);
        json_put_f64(&writer, "regret_ratio", step->regret_ratio);
        json_put_f64(&writer, "spread_ratio", step->spread_ratio);
        json_put_bool(&writer, "lowers_regret", step->lowers_regret);
        json_close(&writer, '}');
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    return writer.text;
}
