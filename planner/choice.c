#include "planner/choice.h"

#include <assert.h>
#include <string.h>

// Where the pin of a choice is in struct pins: a range, or a word (-1: not pinned).
struct pin_place {
    size_t offset;
    bool is_word;
};

static const struct pin_place PLACES[CHOICE_COUNT] = {
#define RANGE_AT(id, member) [CHOICE_##id] = {offsetof(struct pins, member), false},
#define WORD_AT(id, member) [CHOICE_##id] = {offsetof(struct pins, member), true},
#define CHOICE_DEGREE(id, ...) \
    [CHOICE_##id] = {offsetof(struct pins, degree) + AXIS_##id * sizeof(struct int_range), false},
#define CHOICE_NUMBER(id, member, ...) RANGE_AT(id, member)
#define CHOICE_SIZE(id, member, ...) RANGE_AT(id, member)
#define CHOICE_SWITCH(id, member, ...) WORD_AT(id, member)
#define CHOICE_WORD(id, member, ...) WORD_AT(id, member)
#define CHOICE_WORDS(id, member, pin, ...) pin##_AT(id, member)
#include "plan/choices.inc"
};

struct pins pins_none(void)
{
    struct pins pins = {0};
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++)
        pins_clear(&pins, choice);
    return pins;
}

struct int_range pins_get(const struct pins *pins, enum choice choice)
{
    assert((unsigned)choice < CHOICE_COUNT);
    const struct pin_place *place = &PLACES[choice];
    if (!place->is_word) return *(const struct int_range *)((const char *)pins + place->offset);
    int word = *(const int *)((const char *)pins + place->offset);
    return (struct int_range){word, word, word >= 0};
}

void pins_set(struct pins *pins, enum choice choice, int64_t low, int64_t high)
{
    const struct pin_place *place = &PLACES[choice];
    assert(low <= high);
    if (!place->is_word) {
        *(struct int_range *)((char *)pins + place->offset) = (struct int_range){low, high, true};
    } else {
        assert(low == high && "a word has no range");
        *(int *)((char *)pins + place->offset) = (int)low;
    }
}

void pins_clear(struct pins *pins, enum choice choice)
{
    assert((unsigned)choice < CHOICE_COUNT);
    const struct pin_place *place = &PLACES[choice];
    if (!place->is_word) {
        *(struct int_range *)((char *)pins + place->offset) = (struct int_range){0};
    } else {
        *(int *)((char *)pins + place->offset) = -1;
    }
    int kept = 0;
    for (int i = 0; i < pins->forbidden_count; i++) {
        enum choice of;
        if (choice_find(pins->forbidden[i].key, &of) && of == choice) continue;
        pins->forbidden[kept++] = pins->forbidden[i];
    }
    pins->forbidden_count = kept;
}

static bool is_in(const struct int_range *range, int64_t value)
{
    return value >= range->low && value <= range->high;
}

// States that are asked to leave may take their gradients along: the moves of a search do so where
// software does (stack_moves_along), and nowhere else.
static bool is_along(const struct int_range *range, enum choice choice, int64_t value)
{
    if (choice != CHOICE_OFFLOAD) return false;
    struct offload offload = offload_of_value(value);
    if (!offload.gradients || offload.gradient_layers > 0) return false;
    offload.gradients = false;
    return is_in(range, offload_value(&offload));
}

bool pins_allow(const struct pins *pins, enum choice choice, int64_t value)
{
    struct int_range range = pins_get(pins, choice);
    if (range.set && !is_in(&range, value) && !is_along(&range, choice, value)) return false;
    for (int i = 0; i < pins->forbidden_count; i++) {
        enum choice of;
        if (pins->forbidden[i].value != value) continue;
        if (choice_find(pins->forbidden[i].key, &of) && of == choice) return false;
    }
    return true;
}

static bool all_one_value(const struct pins *pins, const enum choice *choices, int count)
{
    for (int i = 0; i < count; i++) {
        struct int_range range = pins_get(pins, choices[i]);
        if (!range.set || range.low != range.high) return false;
    }
    return !pins->supposed;
}

bool pins_describe_pipeline(const struct pins *pins)
{
    static const enum choice PIPELINE[] = {CHOICE_PP, CHOICE_SCHEDULE, CHOICE_MICRO_BATCH};
    return all_one_value(pins, PIPELINE, sizeof PIPELINE / sizeof *PIPELINE);
}

bool pins_describe_run(const struct pins *pins)
{
    static const enum choice RUN[] = {CHOICE_TP, CHOICE_PP, CHOICE_DP, CHOICE_MICRO_BATCH};
    return all_one_value(pins, RUN, sizeof RUN / sizeof *RUN);
}

bool search_describes_stages(const struct search_request *request)
{
    const struct pins *pins = &request->pins;
    return pins_describe_pipeline(pins) && pins->stage_layers_count == 0 &&
           pins->degree[AXIS_PP].low > 1;
}

bool search_fixes_stages(const struct search_request *request)
{
    return request->pins.stage_layers_count > 0 || request->stack->stages_by_flop ||
           search_describes_stages(request);
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
