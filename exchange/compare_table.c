#include "core/table.h"
#include "core/units.h"
#include "exchange/compare.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Tasks that are shown; the others are counted.
enum { SHOWN_TASKS = 12 };

static const char *runs_text(struct arena *arena, const struct compare_side *side)
{
    assert(side->count > 0);
    const struct side_file *first = &side->files[0];
    if (side->count > 1)
        return arena_print(arena, "%ss %s ...", side_kind_name(first->kind), first->path);
    return arena_print(arena, "%s %s", side_kind_name(first->kind), first->path);
}

static const char *samples_text(struct arena *arena, const struct compare_side *side)
{
    if (side->step_s.count == 1) return "1 step";
    const char *what = side->count > 1 ? "runs" : "steps";
    return arena_print(arena, "%d %s, half of them within %s", side->step_s.count, what,
                       units_seconds(arena, side->spread_s));
}

static const char *quantity(struct arena *arena, const char *metric, double value)
{
    return strcmp(metric, "peak_bytes") == 0 ? units_bytes(arena, value)
                                             : units_seconds(arena, value);
}

static const char *metric_title(const char *name)
{
    if (strcmp(name, "step_s") == 0) return "step";
    return strcmp(name, "s_per_token") == 0 ? "a token" : "peak memory";
}

static const char *metrics_text(struct arena *arena, const struct compare *compare)
{
    struct table table = table_new(arena, "lrrrl");
    table_row(&table, (const char *[]){"", "base", "new", "change", ""});
    for (int i = 0; i < compare->metric_count; i++) {
        const struct compare_metric *metric = &compare->metrics[i];
        const char *cells[] = {
            metric_title(metric->name), quantity(arena, metric->name, metric->base),
            quantity(arena, metric->name, metric->now), units_signed_percent(arena, metric->ratio),
            metric->is_judged ? verdict_name(metric->verdict) : "not judged"};
        table_row(&table, cells);
    }
    return table_text(&table);
}

static const char *choices_text(struct arena *arena, const struct compare *compare)
{
    if (compare->choice_count == 0) return "";
    struct table table = table_new(arena, "lll");
    table_row(&table, (const char *[]){"differs", "base", "new"});
    for (int i = 0; i < compare->choice_count; i++) {
        const struct compare_choice *choice = &compare->choices[i];
        const char *cells[] = {choice->key, choice->base ? choice->base : "-",
                               choice->now ? choice->now : "-"};
        table_row(&table, cells);
    }
    return arena_print(arena, "%s\n", table_text(&table));
}

static const char *signed_time(struct arena *arena, double s)
{
    return arena_print(arena, "%s%s", s < 0 ? "-" : "+", units_seconds(arena, fabs(s)));
}

static const char *times(struct arena *arena, double count, double s)
{
    return count > 0 ? units_seconds(arena, s) : "-";
}

static const char *tasks_text(struct arena *arena, const struct compare *compare)
{
    struct table table = table_new(arena, "lrrrrr");
    bool is_plan = compare->base->files[0].kind == SIDE_PLAN;
    const char *head[] = {is_plan ? "part of the step" : "task, a step of all ranks",
                          "count",
                          "base",
                          "new",
                          "change",
                          ""};
    table_row(&table, head);
    int shown = 0;
    double rest_s = 0;
    for (int i = 0; i < compare->task_count; i++) {
        const struct compare_task *task = &compare->tasks[i];
        if (shown == SHOWN_TASKS || task->change_s == 0) {
            rest_s += task->change_s;
            continue;
        }
        bool has_ratio = task->base_s > 0;
        const char *cells[] = {
            task->name,
            units_count(arena, task->count > 0 ? task->count : task->base_count),
            times(arena, task->base_count, task->base_s),
            times(arena, task->count, task->s),
            signed_time(arena, task->change_s),
            has_ratio ? units_signed_percent(arena, task->change_s / task->base_s) : "-"};
        table_row(&table, cells);
        shown++;
    }
    if (shown == 0) return "No task changed.\n";
    int left = compare->task_count - shown;
    assert(left >= 0);
    const char *text = table_text(&table);
    if (left == 0) return text;
    if (rest_s == 0)
        return arena_print(arena, "%s%d other%s did not change\n", text, left, left > 1 ? "s" : "");
    return arena_print(arena, "%sand %d more that change by %s together\n", text, left,
                       signed_time(arena, rest_s));
}

// How sure it is that the difference is none of the noise.
static const char *noise_text(struct arena *arena, const struct compare *compare)
{
    assert(compare->metric_count > 0 && compare->metrics[0].noise && "the step has noise");
    const struct noise *noise = compare->metrics[0].noise;
    int base = compare->base->step_s.count, now = compare->now->step_s.count;
    if (base == 1 && now == 1)
        return "one step a side: noise is not known, the threshold alone decides";
    bool is_more = compare->metrics[0].ratio >= 0;
    double chance = is_more ? noise->slower : noise->faster;
    double pairs = is_more ? noise->pairs_slower : noise->pairs_faster;
    const char *in_pairs = "";
    if (pairs < 1)
        in_pairs = arena_print(arena, ", and step by step in %s", units_ratio(arena, pairs));
    return arena_print(arena,
                       "by chance as much in %s of all exchanges of labels%s; noise above %s "
                       "(seed %d)",
                       units_ratio(arena, chance), in_pairs, units_ratio(arena, noise->level),
                       NOISE_SEED);
}

static const struct compare_metric *metric_of(const struct compare *compare, enum verdict verdict)
{
    for (int i = 0; i < compare->metric_count; i++) {
        const struct compare_metric *metric = &compare->metrics[i];
        if (metric->is_judged && metric->verdict == verdict) return metric;
    }
    return NULL;
}

// A verdict that is not the same is of a metric that is judged, which is then named.
static const char *verdict_text(struct arena *arena, const struct compare *compare)
{
    const struct compare_metric *metric = metric_of(compare, compare->verdict);
    const char *beyond = units_ratio(arena, compare->request.threshold_ratio);
    const struct compare_task *cause = compare->cause;
    if (compare->verdict == VERDICT_SAME) {
        bool is_noise = metric && fabs(metric->ratio) > compare->request.threshold_ratio;
        return is_noise ? "Same: the difference is within the noise.\n"
                        : arena_print(arena, "Same: within %s.\n", beyond);
    }
    const char *named = "";
    assert(metric && "a verdict is that of a judged metric");
    if (cause && metric == &compare->metrics[0]) {
        named = arena_print(arena, " Most of it: %s, %s.", cause->name,
                            signed_time(arena, cause->change_s));
    }
    return arena_print(arena, "%s: %s %s, more than %s.%s\n",
                       compare->verdict == VERDICT_REGRESSION ? "Regression" : "Improvement",
                       metric_title(metric->name), units_signed_percent(arena, metric->ratio),
                       beyond, named);
}

char *compare_text(struct arena *arena, const struct compare *compare)
{
    return arena_print(arena, "base: %s, %s\nnew:  %s, %s\n\n%s\n%s%s\n%s%s.\n",
                       runs_text(arena, compare->base), samples_text(arena, compare->base),
                       runs_text(arena, compare->now), samples_text(arena, compare->now),
                       metrics_text(arena, compare), choices_text(arena, compare),
                       tasks_text(arena, compare), verdict_text(arena, compare),
                       noise_text(arena, compare));
}
