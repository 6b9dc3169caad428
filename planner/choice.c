#include "planner/choice.h"
#include "core/units.h"
#include "plan/passes.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// How the values of a choice are written.
enum form {
    FORM_NUMBER,
    FORM_SWITCH,
    FORM_CP_KIND,
    FORM_RECOMPUTE,
    FORM_OFFLOAD,
    FORM_SCHEDULE,
    FORM_ATTENTION,
    FORM_OVERLAP,
    FORM_PASSES
};

// `range` and `word` are offsets in struct pins; a choice has one of them (-1: not this one).
struct choice_row {
    const char *name;
    enum form form;
    long range, word;
};

#define PIN_AT(member) (long)offsetof(struct pins, member)
#define DEGREE_AT(axis) (long)(offsetof(struct pins, degree) + (axis) * sizeof(struct int_range))

static const struct choice_row ROWS[CHOICE_COUNT] = {
    [CHOICE_TP] = {"tp", FORM_NUMBER, DEGREE_AT(AXIS_TP), -1},
    [CHOICE_SP] = {"sp", FORM_SWITCH, -1, PIN_AT(sp)},
    [CHOICE_CP] = {"cp", FORM_NUMBER, DEGREE_AT(AXIS_CP), -1},
    [CHOICE_CP_KIND] = {"cp_kind", FORM_CP_KIND, -1, PIN_AT(cp_kind)},
    [CHOICE_PP] = {"pp", FORM_NUMBER, DEGREE_AT(AXIS_PP), -1},
    [CHOICE_DP] = {"dp", FORM_NUMBER, DEGREE_AT(AXIS_DP), -1},
    [CHOICE_EP] = {"ep", FORM_NUMBER, DEGREE_AT(AXIS_EP), -1},
    [CHOICE_ETP] = {"etp", FORM_NUMBER, DEGREE_AT(AXIS_ETP), -1},
    [CHOICE_VPP] = {"vpp", FORM_NUMBER, PIN_AT(vpp), -1},
    [CHOICE_MICRO_BATCH] = {"micro_batch", FORM_NUMBER, PIN_AT(micro_batch), -1},
    [CHOICE_ZERO] = {"zero", FORM_NUMBER, PIN_AT(zero), -1},
    [CHOICE_ZERO_GROUP] = {"zero_group", FORM_NUMBER, PIN_AT(zero_group), -1},
    [CHOICE_RECOMPUTE] = {"recompute", FORM_RECOMPUTE, -1, PIN_AT(recompute)},
    [CHOICE_RECOMPUTE_LAYERS] = {"recompute_layers", FORM_NUMBER, PIN_AT(recompute_layers), -1},
    [CHOICE_OFFLOAD] = {"offload", FORM_OFFLOAD, PIN_AT(offload), -1},
    [CHOICE_SCHEDULE] = {"schedule", FORM_SCHEDULE, -1, PIN_AT(schedule)},
    [CHOICE_IN_FLIGHT] = {"in_flight", FORM_NUMBER, PIN_AT(in_flight), -1},
    [CHOICE_ATTENTION] = {"attention", FORM_ATTENTION, -1, PIN_AT(attention)},
    [CHOICE_OVERLAP] = {"overlap", FORM_OVERLAP, -1, PIN_AT(overlap)},
    [CHOICE_BUCKET_BYTES] = {"bucket_bytes", FORM_NUMBER, PIN_AT(bucket_bytes), -1},
    [CHOICE_PASSES] = {"passes", FORM_PASSES, -1, PIN_AT(passes)},
};

const char *choice_name(enum choice choice)
{
    assert((unsigned)choice < CHOICE_COUNT);
    return ROWS[choice].name;
}

const char *choice_option(struct arena *arena, enum choice choice)
{
    char *option = arena_print(arena, "--%s", choice_name(choice));
    for (char *at = option; *at; at++) {
        if (*at == '_') *at = '-';
    }
    return option;
}

// "micro-batch" and "--micro-batch" are "micro_batch".
static bool find_choice(const char *name, enum choice *choice)
{
    char plain[32];
    while (*name == '-') {
        name++;
    }
    snprintf(plain, sizeof plain, "%s", name);
    for (char *at = plain; *at; at++) {
        if (*at == '-') *at = '_';
    }
    for (int i = 0; i < CHOICE_COUNT; i++) {
        if (strcmp(ROWS[i].name, plain) != 0) continue;
        *choice = (enum choice)i;
        return true;
    }
    return false;
}

bool choice_from_name(const char *name, enum choice *choice, struct err *err)
{
    if (find_choice(name, choice)) return true;
    struct units_guess guess = {.text = name};
    for (int i = 0; i < CHOICE_COUNT; i++) {
        units_guess_offer(&guess, ROWS[i].name);
    }
    return guess.best
               ? err_set(err, ERR_USAGE, "unknown choice \"%s\": did you mean \"%s\"?", name,
                         guess.best)
               : err_set(err, ERR_USAGE, "unknown choice \"%s\": expected a pin such as tp", name);
}

int recompute_value(enum recompute recompute, unsigned classes)
{
    assert(classes == 0 || recompute == RECOMPUTE_SELECTIVE);
    return (int)recompute + RECOMPUTE_COUNT * (int)classes;
}

enum recompute recompute_of_value(int value, unsigned *classes)
{
    assert(value >= 0);
    *classes = (unsigned)value / RECOMPUTE_COUNT;
    return (enum recompute)(value % RECOMPUTE_COUNT);
}

int64_t choice_value(const struct parallel *parallel, enum choice choice)
{
    switch (choice) {
    case CHOICE_TP:
        return parallel->degree[AXIS_TP];
    case CHOICE_SP:
        return parallel->sp;
    case CHOICE_CP:
        return parallel->degree[AXIS_CP];
    case CHOICE_CP_KIND:
        return parallel->cp_kind;
    case CHOICE_PP:
        return parallel->degree[AXIS_PP];
    case CHOICE_DP:
        return parallel->degree[AXIS_DP];
    case CHOICE_EP:
        return parallel->degree[AXIS_EP];
    case CHOICE_ETP:
        return parallel->degree[AXIS_ETP];
    case CHOICE_VPP:
        return parallel->vpp;
    case CHOICE_MICRO_BATCH:
        return parallel->micro_batch;
    case CHOICE_ZERO:
        return parallel->zero;
    case CHOICE_ZERO_GROUP:
        return parallel->zero_group;
    case CHOICE_RECOMPUTE:
        return recompute_value(parallel->recompute, parallel->recompute_classes);
    case CHOICE_RECOMPUTE_LAYERS:
        return parallel->recompute_layers;
    case CHOICE_OFFLOAD:
        return offload_value(&parallel->offload);
    case CHOICE_SCHEDULE:
        return parallel->schedule;
    case CHOICE_IN_FLIGHT:
        return parallel->in_flight;
    case CHOICE_ATTENTION:
        return parallel->attention;
    case CHOICE_OVERLAP:
        return parallel->overlap;
    case CHOICE_BUCKET_BYTES:
        return parallel->bucket_bytes;
    case CHOICE_PASSES:
        return parallel->passes;
    case CHOICE_COUNT:
        break;
    }
    assert(0 && "a choice is a row of the table");
    return 0;
}

const char *choice_text(struct arena *arena, enum choice choice, int64_t value)
{
    unsigned classes = 0;
    switch (ROWS[choice].form) {
    case FORM_NUMBER:
        break;
    case FORM_SWITCH:
        return value ? "on" : "off";
    case FORM_CP_KIND:
        return cp_kind_name((enum cp_kind)value);
    case FORM_RECOMPUTE: {
        enum recompute recompute = recompute_of_value((int)value, &classes);
        return recompute_words(arena, recompute, classes);
    }
    case FORM_OFFLOAD: {
        struct offload offload = offload_of_value(value);
        return offload_words(arena, &offload);
    }
    case FORM_SCHEDULE:
        return schedule_name((enum schedule_kind)value);
    case FORM_ATTENTION:
        return attention_name((enum attention)value);
    case FORM_OVERLAP:
        return overlap_text(arena, (unsigned)value);
    case FORM_PASSES:
        return pass_text(arena, (unsigned)value);
    }
    if (choice == CHOICE_RECOMPUTE_LAYERS && value < 0) return "all";
    return arena_print(arena, "%lld", (long long)value);
}

static bool parse_word(enum form form, const char *text, int64_t *value)
{
    enum recompute recompute;
    enum schedule_kind schedule;
    enum attention attention;
    enum cp_kind cp_kind;
    struct offload offload;
    unsigned mask;
    switch (form) {
    case FORM_SWITCH:
        *value = strcmp(text, "on") == 0;
        return *value || strcmp(text, "off") == 0;
    case FORM_CP_KIND:
        if (!cp_kind_from_name(text, &cp_kind)) return false;
        return *value = cp_kind, true;
    case FORM_RECOMPUTE:
        if (!recompute_parse(text, &recompute, &mask)) return false;
        return *value = recompute_value(recompute, mask), true;
    case FORM_OFFLOAD:
        if (!offload_parse(text, &offload)) return false;
        return *value = offload_value(&offload), true;
    case FORM_SCHEDULE:
        if (!schedule_from_name(text, &schedule)) return false;
        return *value = schedule, true;
    case FORM_ATTENTION:
        if (!attention_from_name(text, &attention)) return false;
        return *value = attention, true;
    case FORM_OVERLAP:
        if (!overlap_parse(text, &mask)) return false;
        return *value = mask, true;
    case FORM_PASSES:
        if (!pass_parse(text, &mask)) return false;
        return *value = mask, true;
    case FORM_NUMBER:
        break;
    }
    return false;
}

bool choice_parse(enum choice choice, const char *text, int64_t *value, struct err *err)
{
    enum form form = ROWS[choice].form;
    if (form == FORM_NUMBER) {
        bool from_zero = choice == CHOICE_ZERO || choice == CHOICE_RECOMPUTE_LAYERS ||
                         choice == CHOICE_ZERO_GROUP || choice == CHOICE_IN_FLIGHT ||
                         choice == CHOICE_BUCKET_BYTES;
        int64_t low = from_zero ? 0 : 1;
        return units_parse_i64(text, ROWS[choice].name, low, INT_MAX, value, err);
    }
    if (parse_word(form, text, value)) return true;
    return err_set(err, ERR_USAGE, "%s: \"%s\" is none of its values", ROWS[choice].name, text);
}

struct pins pins_none(void)
{
    return (struct pins){.sp = -1,
                         .cp_kind = -1,
                         .recompute = -1,
                         .schedule = -1,
                         .attention = -1,
                         .overlap = -1,
                         .passes = -1};
}

struct int_range pins_get(const struct pins *pins, enum choice choice)
{
    const struct choice_row *row = &ROWS[choice];
    if (row->range >= 0) return *(const struct int_range *)((const char *)pins + row->range);
    int word = *(const int *)((const char *)pins + row->word);
    return (struct int_range){word, word, word >= 0};
}

void pins_set(struct pins *pins, enum choice choice, int64_t low, int64_t high)
{
    const struct choice_row *row = &ROWS[choice];
    assert(low <= high);
    if (row->range >= 0) {
        *(struct int_range *)((char *)pins + row->range) = (struct int_range){low, high, true};
    } else {
        assert(low == high && "a word has no range");
        *(int *)((char *)pins + row->word) = (int)low;
    }
}

void pins_clear(struct pins *pins, enum choice choice)
{
    const struct choice_row *row = &ROWS[choice];
    if (row->range >= 0) {
        *(struct int_range *)((char *)pins + row->range) = (struct int_range){0};
    } else {
        *(int *)((char *)pins + row->word) = -1;
    }
    int kept = 0;
    for (int i = 0; i < pins->forbidden_count; i++) {
        enum choice of;
        if (find_choice(pins->forbidden[i].key, &of) && of == choice) continue;
        pins->forbidden[kept++] = pins->forbidden[i];
    }
    pins->forbidden_count = kept;
}

bool pins_allow(const struct pins *pins, enum choice choice, int64_t value)
{
    struct int_range range = pins_get(pins, choice);
    if (range.set && (value < range.low || value > range.high)) return false;
    for (int i = 0; i < pins->forbidden_count; i++) {
        enum choice of;
        if (pins->forbidden[i].value != value) continue;
        if (find_choice(pins->forbidden[i].key, &of) && of == choice) return false;
    }
    return true;
}

bool pins_describe_pipeline(const struct pins *pins)
{
    static const enum choice PIPELINE[] = {CHOICE_PP, CHOICE_SCHEDULE, CHOICE_MICRO_BATCH};
    if (pins->supposed) return false;
    for (size_t i = 0; i < sizeof PIPELINE / sizeof *PIPELINE; i++) {
        struct int_range range = pins_get(pins, PIPELINE[i]);
        if (!range.set || range.low != range.high) return false;
    }
    return true;
}

bool search_describes_stages(const struct search_request *request)
{
    const struct pins *pins = &request->pins;
    return pins_describe_pipeline(pins) && pins->stage_layers_count == 0 &&
           pins->degree[AXIS_PP].low > 1;
}

bool search_describes_attention(const struct search_request *request, enum attention *attention)
{
    const struct pins *pins = &request->pins;
    bool is_open = !pins_get(pins, CHOICE_ATTENTION).set;
    bool is_fp16 = request->workload.precision == PRECISION_FP16;
    if (!is_open || !is_fp16 || !pins_describe_pipeline(pins)) return false;
    for (int value = 0; value < ATTENTION_COUNT; value++) {
        if (!(request->stack->fp16_attention >> value & 1)) continue;
        if (!pins_allow(pins, CHOICE_ATTENTION, value)) continue;
        *attention = (enum attention)value;
        return true;
    }
    return false;
}

bool pins_allow_all(const struct pins *pins, const struct parallel *parallel, enum choice *broken)
{
    for (int i = 0; i < CHOICE_COUNT; i++) {
        enum choice choice = (enum choice)i;
        if (pins_allow(pins, choice, choice_value(parallel, choice))) continue;
        if (broken) *broken = choice;
        return false;
    }
    return true;
}

bool pins_check(const struct pins *pins, struct err *err)
{
    for (int i = 0; i < pins->forbidden_count; i++) {
        enum choice choice;
        if (!choice_from_name(pins->forbidden[i].key, &choice, err)) return false;
    }
    return true;
}
