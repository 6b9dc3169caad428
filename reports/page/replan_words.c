#include "reports/page/replan_words.h"
#include "core/json_write.h"
#include "core/units.h"
#include "plan/plan.h"
#include "reports/table/plan_table.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum direction { NEITHER, LESS_IS_BETTER, MORE_IS_BETTER };
// What must be the same in both plans before one can be said to be better.
enum basis { BASIS_NONE, BASIS_STEP, BASIS_RUN };

// One figure of two plans; one that is 0 is unknown.
struct replan_figure {
    const char *name;
    const char *object, *part, *key;  // where it stands; NULL part: in the object itself
    enum direction better;
    enum basis basis;
    char *(*text)(struct arena *arena, double value);
};

static char *money_text(struct arena *arena, double money)
{
    return money < 1000 ? arena_print(arena, "%.2f", money) : units_count(arena, money);
}

static const struct replan_figure FIGURES[] = {
    {"Step", "prediction", NULL, "step_s", LESS_IS_BETTER, BASIS_STEP, units_seconds},
    {"Tokens a second", "prediction", NULL, "tokens_per_s", MORE_IS_BETTER, BASIS_NONE,
     units_count},
    {"Tokens a second and GPU", "prediction", NULL, "tokens_per_s_per_gpu", MORE_IS_BETTER,
     BASIS_NONE, units_count},
    {"MFU", "prediction", NULL, "mfu_ratio", MORE_IS_BETTER, BASIS_NONE, units_ratio},
    {"Memory of the fullest GPU", "prediction", NULL, "reserved_bytes", NEITHER, BASIS_NONE,
     units_bytes},
    {"Memory of the device", "memory", NULL, "device_bytes", NEITHER, BASIS_NONE, units_bytes},
    {"Training", "prediction", "money", "train_s", LESS_IS_BETTER, BASIS_RUN, units_duration},
    {"Training without interruptions", "prediction", "money", "uninterrupted_s", LESS_IS_BETTER,
     BASIS_RUN, units_duration},
    {"Goodput", "prediction", "reliability", "goodput_ratio", MORE_IS_BETTER, BASIS_NONE,
     units_ratio},
    {"GPU-hours", "prediction", "money", "gpu_hours", LESS_IS_BETTER, BASIS_RUN, units_count},
    {"Money", "prediction", "money", "total", LESS_IS_BETTER, BASIS_RUN, money_text},
    {"Money for a billion tokens", "prediction", "money", "per_billion_tokens", LESS_IS_BETTER,
     BASIS_NONE, money_text},
};
enum { FIGURE_COUNT = sizeof FIGURES / sizeof *FIGURES };

static struct json member(const struct json *object, const char *key)
{
    struct err err = {0};
    return object->value && json_has(object, key) ? json_get(object, key, &err) : (struct json){0};
}

// 0 where there is none.
static double value_of(const struct json *plan, const struct replan_figure *figure)
{
    assert(figure->object && figure->key);
    struct err err = {0};
    struct json object = member(plan, figure->object), part = object;
    if (figure->part) part = member(&object, figure->part);
    struct json value = member(&part, figure->key);
    return value.value && json_is_number(&value) ? json_f64(&value, 0, INFINITY, &err) : 0;
}

static const char *currency_of(const struct json *plan)
{
    struct err err = {0};
    struct json prediction = member(plan, "prediction"), money = member(&prediction, "money"),
                currency = member(&money, "currency");
    return currency.value && json_is_text(&currency) ? json_text(&currency, &err) : "";
}

// A plan of a stack that cannot be read has figures all the same.
static const char *layout_of(struct arena *arena, const struct json *plan)
{
    struct err err = {0};
    struct parallel parallel = {0};
    struct json object = member(plan, "parallel"), named = member(plan, "stack");
    const struct stack *stack = named.value ? stack_read(arena, &named, &err) : NULL;
    bool known = stack && object.value && parallel_read(arena, &object, &parallel, &err);
    return known ? parallel_text(arena, &parallel, stack) : "";
}

static const char *text_of(struct arena *arena, const struct json *plan,
                           const struct replan_figure *figure)
{
    const char *text = figure->text(arena, value_of(plan, figure));
    if (figure->text != money_text) return text;
    return arena_print(arena, "%s %s", text, currency_of(plan));
}

// "25.1 s to 31.2 s"; "" without a band.
static const char *range_of(struct arena *arena, const struct json *plan)
{
    const struct replan_figure low = {.object = "prediction", .key = "step_s_low"};
    const struct replan_figure high = {.object = "prediction", .key = "step_s_high"};
    double low_s = value_of(plan, &low), high_s = value_of(plan, &high);
    if (low_s <= 0 || high_s <= 0) return "";
    return arena_print(arena, "%s to %s", units_seconds(arena, low_s),
                       units_seconds(arena, high_s));
}

static void write_words(struct json_writer *writer, const char *name, const char *before,
                        const char *now)
{
    json_open(writer, NULL, '{');
    json_put_text(writer, "name", name);
    json_put_text(writer, "before", before);
    json_put_text(writer, "now", now);
    json_put_text(writer, "change", "");
    json_close(writer, '}');
}

// A step of another size is no longer or shorter step, nor a run of other tokens a dearer one.
static bool is_comparable(const struct json *before, const struct json *now, enum basis basis)
{
    static const struct replan_figure SEQ_LEN = {.object = "workload", .key = "seq_len"};
    static const struct replan_figure BATCH = {.object = "workload", .key = "global_batch"};
    static const struct replan_figure TOKENS = {.object = "workload", .key = "tokens"};
    if (basis == BASIS_RUN) return value_of(before, &TOKENS) == value_of(now, &TOKENS);
    double old = value_of(before, &SEQ_LEN) * value_of(before, &BATCH);
    return basis == BASIS_NONE || old == value_of(now, &SEQ_LEN) * value_of(now, &BATCH);
}

// Less would be written as +0.0%.
static const double LEAST_RATIO = 0.0005;

// Whether the plan says that it does not fit: nothing is faster than what cannot run.
static bool lacks_memory(const struct json *plan)
{
    struct err err = {0};
    struct json memory = member(plan, "memory"), fits = member(&memory, "fits");
    return fits.value && !json_bool(&fits, &err) && !err.kind;
}

static void write_figure(struct json_writer *writer, const struct replan_figure *figure,
                         const struct json *before, const struct json *now)
{
    double old = value_of(before, figure), new = value_of(now, figure);
    if (new <= 0) return;
    json_open(writer, NULL, '{');
    json_put_text(writer, "name", figure->name);
    json_put_text(writer, "before", old > 0 ? text_of(writer->arena, before, figure) : "unknown");
    json_put_text(writer, "now", text_of(writer->arena, now, figure));
    bool is_fair = figure->better == NEITHER || !(lacks_memory(before) || lacks_memory(now));
    bool differs = is_fair && old > 0 && fabs(new / old - 1) >= LEAST_RATIO;
    json_put_text(writer, "change",
                  differs ? units_signed_percent(writer->arena, new / old - 1) : "");
    if (differs && figure->better != NEITHER && is_comparable(before, now, figure->basis))
        json_put_bool(writer, "better", (new < old) == (figure->better == LESS_IS_BETTER));
    json_close(writer, '}');
}

// "A step takes 14.1 s instead of 27.5 s, 48.8 % less"
static const char *compared(struct arena *arena, const struct replan_figure *figure,
                            const char *what, const struct json *before, const struct json *now)
{
    double old = value_of(before, figure), new = value_of(now, figure);
    if (new <= 0) return "";
    const char *text = text_of(arena, now, figure);
    if (lacks_memory(now)) return arena_print(arena, "%s %s if it did fit", what, text);
    if (lacks_memory(before)) {
        return arena_print(arena, "%s %s, and the plan before does not fit", what, text);
    }
    if (old <= 0) return arena_print(arena, "%s %s", what, text);
    if (fabs(new / old - 1) < LEAST_RATIO)
        return arena_print(arena, "%s %s, as before", what, text);
    return arena_print(arena, "%s %s instead of %s, %s %s", what, text,
                       text_of(arena, before, figure), units_ratio(arena, fabs(new / old - 1)),
                       new < old ? "less" : "more");
}

static const struct replan_figure *figure_of(const char *key)
{
    for (int i = 0; i < FIGURE_COUNT; i++) {
        if (strcmp(FIGURES[i].key, key) == 0) return &FIGURES[i];
    }
    return NULL;
}

// Of a run of other tokens how long it takes and what it costs, as it is: "300 B tokens take 21.8
// days and cost 167,512 USD"; "" where the tokens are the same or the time is not known.
static const char *run_text(struct arena *arena, const struct json *before, const struct json *now)
{
    static const struct replan_figure TOKENS = {.object = "workload", .key = "tokens"};
    const struct replan_figure *time = figure_of("train_s"), *total = figure_of("total");
    assert(time && total);
    if (is_comparable(before, now, BASIS_RUN) || value_of(now, time) <= 0) return "";
    const char *text =
        arena_print(arena, "%s tokens take %s", units_count(arena, value_of(now, &TOKENS)),
                    text_of(arena, now, time));
    if (value_of(now, total) <= 0) return text;
    return arena_print(arena, "%s and cost %s", text, text_of(arena, now, total));
}

static const char *sentence(struct arena *arena, const struct json *before, const struct json *now)
{
    const char *run = run_text(arena, before, now);
    if (*run) return arena_print(arena, "%s.", run);
    const struct replan_figure *step = figure_of("step_s"), *rate = figure_of("tokens_per_s");
    const struct replan_figure *total = figure_of("total"),
                               *billion = figure_of("per_billion_tokens");
    assert(step && rate && total && billion);
    const char *speed = is_comparable(before, now, BASIS_STEP)
                            ? compared(arena, step, "A step takes", before, now)
                            : compared(arena, rate, "Tokens a second are", before, now);
    bool has_total = value_of(now, total) > 0 && is_comparable(before, now, BASIS_RUN);
    const char *money = has_total ? compared(arena, total, "the training costs", before, now)
                                  : compared(arena, billion, "a billion tokens cost", before, now);
    return arena_print(arena, "%s%s%s.", speed, *money ? "; " : "", money);
}

char *replan_words(struct arena *arena, const struct json *before, const struct json *now)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_text(&writer, "sentence", sentence(arena, before, now));
    json_open(&writer, "figures", '[');
    write_words(&writer, "Layout", layout_of(arena, before), layout_of(arena, now));
    for (int i = 0; i < FIGURE_COUNT; i++) {
        write_figure(&writer, &FIGURES[i], before, now);
        const char *range = range_of(arena, now);
        if (i == 0 && *range)
            write_words(&writer, "Step, 90 % band", range_of(arena, before), range);
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    return writer.text;
}
