#include "tests/support/proof_pins.h"

#include "plan/passes.h"
#include "plan/stages.h"

#include <string.h>

struct drawing {
    struct arena *arena;
    struct draw *draw;
    const struct proof_question *question;
    const struct parallel *winner;
    struct pins *pins;
};

const char *pins_kind_name(enum pins_kind kind)
{
    static const char *const NAMES[PINS_KIND_COUNT] = {
        [PINS_BACK] = "back",     [PINS_ONE] = "one",       [PINS_TWO] = "two",
        [PINS_RANGE] = "range",   [PINS_FORBID] = "forbid", [PINS_MOVE] = "move",
        [PINS_STAGES] = "stages", [PINS_NEAR] = "near",     [PINS_LIFT] = "lift",
        [PINS_SHOWN] = "shown"};
    return NAMES[kind];
}

static int any_divisor(struct draw *draw, int64_t whole)
{
    int divisors[1024], count = 0;
    for (int64_t part = 1; part <= whole && count < 1024; part++) {
        if (whole % part == 0) divisors[count++] = (int)part;
    }
    return divisors[draw_int(draw, 0, count - 1)];
}

static unsigned any_subset(struct draw *draw, unsigned mask)
{
    return (unsigned)draw_bits(draw) & mask;
}

static int any_bit(struct draw *draw, unsigned mask, int otherwise)
{
    int bits[32], count = 0;
    for (int bit = 0; bit < 32; bit++) {
        if (mask >> bit & 1) bits[count++] = bit;
    }
    return count ? bits[draw_int(draw, 0, count - 1)] : otherwise;
}

// The layers of a stage, were they even.
static int layers_of_stage(const struct drawing *at)
{
    int stages = at->winner ? at->winner->degree[AXIS_PP] : 1;
    if (at->pins->degree[AXIS_PP].set) stages = (int)at->pins->degree[AXIS_PP].low;
    int layers = (at->question->graph->layer_count + stages - 1) / stages;
    return layers > 0 ? layers : 1;
}

static int64_t any_recompute(const struct drawing *at)
{
    const struct stack *stack = at->question->request.stack;
    enum recompute recompute = (enum recompute)any_bit(at->draw, stack->recompute, RECOMPUTE_NONE);
    if (recompute != RECOMPUTE_SELECTIVE) return recompute_value(recompute, 0);
    unsigned classes = any_subset(at->draw, at->question->classes & stack->recompute_classes);
    if (classes == 1u << OP_CLASS_ATTENTION) classes = 0;
    return recompute_value(recompute, classes);
}

static int64_t any_offload(const struct drawing *at)
{
    struct offload offload = {.optimizer = (enum tier)draw_int(at->draw, 0, TIER_COUNT - 1),
                              .activations = (enum tier)draw_int(at->draw, 0, TIER_COUNT - 1)};
    bool whole = draw_int(at->draw, 0, 1);
    int layers = draw_int(at->draw, 0, 2) ? draw_int(at->draw, 1, layers_of_stage(at)) : -1;
    unsigned classes = whole ? ~0u : any_subset(at->draw, at->question->classes | 1);
    for (int class = 0; class < OP_CLASS_COUNT; class ++) {
        bool moved = offload.activations != TIER_DEVICE && classes >> class & 1;
        offload.layers[class] = (int16_t)(moved ? layers : 0);
        if (moved && !whole && draw_int(at->draw, 0, 3) == 0) offload.layers[class] = -1;
    }
    if ((classes & ((1u << OP_CLASS_COUNT) - 1)) == 0) offload.activations = TIER_DEVICE;
    return offload_value(&offload);
}

static int any_stage_ranks(const struct drawing *at)
{
    return any_divisor(at->draw, at->question->request.cluster->rank_count);
}

// A word or a mask.
static int64_t any_word(const struct drawing *at, enum choice choice)
{
    const struct stack *stack = at->question->request.stack;
    switch (choice) {
    case CHOICE_SP:
        return draw_int(at->draw, 0, stack->sequence_parallel);
    case CHOICE_CP_KIND:
        return any_bit(at->draw, stack->cp_kinds, CP_RING);
    case CHOICE_RECOMPUTE:
        return any_recompute(at);
    case CHOICE_OFFLOAD:
        return any_offload(at);
    case CHOICE_SCHEDULE:
        return any_bit(at->draw, stack->schedules, SCHEDULE_1F1B);
    case CHOICE_ATTENTION:
        return any_bit(at->draw, stack->attention, ATTENTION_FLASH);
    case CHOICE_OVERLAP:
        if (draw_int(at->draw, 0, 2) == 0) return stack->overlap;
        return any_subset(at->draw, stack->overlap);
    case CHOICE_PASSES:
        if (draw_int(at->draw, 0, 1)) return any_subset(at->draw, stack->passes);
        return stack->passes & ~(1u << any_bit(at->draw, stack->passes, 0));
    default:
        return 0;
    }
}

static int64_t any_value(const struct drawing *at, enum choice choice)
{
    const struct search_request *request = &at->question->request;
    int64_t experts = at->question->graph->expert_count;
    switch (choice) {
    case CHOICE_TP:
    case CHOICE_CP:
    case CHOICE_PP:
    case CHOICE_DP:
        return any_stage_ranks(at);
    case CHOICE_SP_H:
    case CHOICE_SP_W:
        return draw_int(at->draw, 1, 2);
    case CHOICE_EP:
        return any_divisor(at->draw, experts > 0 ? experts : 1);
    case CHOICE_ETP:
        return experts > 0 ? any_stage_ranks(at) : 1;
    case CHOICE_VPP:
        return draw_int(at->draw, 1, layers_of_stage(at));
    case CHOICE_MICRO_BATCH:
        return any_divisor(at->draw, request->workload.global_batch);
    case CHOICE_ZERO:
        return any_bit(at->draw, request->stack->zero_stages, 0);
    case CHOICE_ZERO_GROUP:
        return any_stage_ranks(at);
    case CHOICE_RECOMPUTE_LAYERS:
        return draw_int(at->draw, 0, layers_of_stage(at));
    case CHOICE_IN_FLIGHT:
        return draw_int(at->draw, 0, 40);
    case CHOICE_BUCKET_BYTES:
        return (int64_t)1 << draw_int(at->draw, 20, 30);
    default:
        return any_word(at, choice);
    }
}

static void pin(const struct drawing *at, enum choice choice, int64_t value)
{
    // The type of the pin of bucket bytes ends before 1 << 31; so does the option's.
    if (choice == CHOICE_BUCKET_BYTES && value > 1 << 30) value = 1 << 30;
    pins_set(at->pins, choice, value, value);
}

// As the command line takes them together: a way to recompute is of all layers unless it is said of
// how many, a cap belongs to a schedule that takes one.
static void pin_any(const struct drawing *at, enum choice choice)
{
    const struct stack *stack = at->question->request.stack;
    pin(at, choice, any_value(at, choice));
    bool recomputes = choice == CHOICE_RECOMPUTE && !at->pins->recompute_layers.set;
    if (recomputes) {
        bool all = at->pins->recompute == RECOMPUTE_NONE || draw_int(at->draw, 0, 2);
        pin(at, CHOICE_RECOMPUTE_LAYERS, all ? -1 : draw_int(at->draw, 1, layers_of_stage(at)));
    }
    bool capped = choice == CHOICE_IN_FLIGHT && at->pins->in_flight.low > 0;
    if (capped && stack->schedules >> SCHEDULE_ZB_AUTO & 1)
        pin(at, CHOICE_SCHEDULE, SCHEDULE_ZB_AUTO);
}

static enum choice any_searched(const struct drawing *at)
{
    for (;;) {
        enum choice choice = (enum choice)draw_int(at->draw, 0, CHOICE_COUNT - 1);
        if (!(at->question->fixed >> choice & 1)) return choice;
    }
}

static enum choice any_free(const struct drawing *at)
{
    for (;;) {
        enum choice choice = any_searched(at);
        if (!pins_get(at->pins, choice).set) return choice;
    }
}

static const char *draw_values(const struct drawing *at, int count)
{
    const char *keys = "";
    for (int i = 0; i < count; i++) {
        enum choice choice = any_free(at);
        pin_any(at, choice);
        keys = arena_print(at->arena, "%s%s%s", keys, i ? "+" : "", choice_name(choice));
    }
    return keys;
}

static const char *draw_range(const struct drawing *at)
{
    static const enum choice NUMBERS[] = {
        CHOICE_TP,          CHOICE_CP,   CHOICE_PP,         CHOICE_DP,
        CHOICE_EP,          CHOICE_ETP,  CHOICE_VPP,        CHOICE_VPP,
        CHOICE_MICRO_BATCH, CHOICE_ZERO, CHOICE_ZERO_GROUP, CHOICE_RECOMPUTE_LAYERS,
        CHOICE_IN_FLIGHT};
    enum choice choice = DRAW_ONE(at->draw, NUMBERS);
    if (pins_get(at->pins, choice).set) return NULL;
    int64_t a = any_value(at, choice), b = any_value(at, choice);
    if (choice == CHOICE_VPP) a = draw_int(at->draw, 1, 4);
    pins_set(at->pins, choice, a < b ? a : b, a < b ? b : a);
    return arena_print(at->arena, "%s..", choice_name(choice));
}

static bool is_writable(enum choice choice, int64_t value)
{
    return !(choice == CHOICE_RECOMPUTE_LAYERS && value < 0);
}

static const char *draw_forbidden(const struct drawing *at)
{
    enum choice choice = any_searched(at);
    int most = (int)(sizeof at->pins->forbidden / sizeof *at->pins->forbidden);
    if (at->pins->forbidden_count == most) return NULL;
    int64_t value = at->winner ? choice_value(at->winner, choice) : any_value(at, choice);
    if (!is_writable(choice, value) || pins_get(at->pins, choice).set) return NULL;
    at->pins->forbidden[at->pins->forbidden_count].key = choice_name(choice);
    at->pins->forbidden[at->pins->forbidden_count++].value = value;
    return arena_print(at->arena, "%s", choice_name(choice));
}

const int *winner_stages(struct arena *arena, const struct proof_question *question,
                         const struct parallel *winner)
{
    const struct graph *graph = question->graph;
    int stages = winner->degree[AXIS_PP], vpp = winner->vpp;
    struct chunk_span *spans = ARENA_NEW(arena, struct chunk_span, stages * vpp);
    int *layers = ARENA_NEW(arena, int, stages);
    struct err err = {0};
    if (!stages_split(graph, winner, spans, &err)) return NULL;
    for (int i = 0; i < stages * vpp; i++) {
        for (int k = spans[i].first; k < spans[i].first + spans[i].count; k++)
            layers[i / vpp] += graph->blocks[graph->sequence[k]].role == BLOCK_LAYER;
    }
    return layers;
}

static void pin_stages(const struct drawing *at, const int *layers, int count)
{
    at->pins->stage_layers = layers;
    at->pins->stage_layers_count = count;
}

// All that the winner has.
static void pin_winner(const struct drawing *at)
{
    for (int i = 0; i < CHOICE_COUNT; i++) {
        enum choice choice = (enum choice)i;
        pin(at, choice, choice_value(at->winner, choice));
    }
    if (at->winner->stage_layers_count > 0)
        pin_stages(at, at->winner->stage_layers, at->winner->stage_layers_count);
}

// One layer from a stage to another; the rest as the winner has it.
static const int *moved_stages(const struct drawing *at)
{
    int count = at->winner->degree[AXIS_PP];
    const int *had = count > 1 ? winner_stages(at->arena, at->question, at->winner) : NULL;
    if (!had) return NULL;
    int *layers = ARENA_NEW(at->arena, int, count);
    memcpy(layers, had, (size_t)count * sizeof *layers);
    int from = draw_int(at->draw, 0, count - 1), to = draw_int(at->draw, 0, count - 1);
    if (from == to || layers[from] == 0) return NULL;
    layers[from]--;
    layers[to]++;
    return layers;
}

static const char *draw_move(const struct drawing *at)
{
    const int *layers = at->winner ? moved_stages(at) : NULL;
    if (!layers) return NULL;
    pin_winner(at);
    pin_stages(at, layers, at->winner->degree[AXIS_PP]);
    return "stages";
}

// Layers thrown at stages, none of which stays empty unless it is the first or the last.
static const int *thrown_stages(const struct drawing *at, int count)
{
    int *layers = ARENA_NEW(at->arena, int, count);
    int left = at->question->graph->layer_count;
    for (int i = 0; i < count && left > 0; i++, left--)
        layers[i]++;
    for (; left > 0; left--)
        layers[draw_int(at->draw, 0, count - 1)]++;
    return layers;
}

static const int *even_stages(const struct drawing *at, int count)
{
    int *layers = ARENA_NEW(at->arena, int, count);
    int all = at->question->graph->layer_count, first = draw_int(at->draw, 0, count - 1);
    for (int i = 0; i < count; i++)
        layers[(first + i) % count] = all / count + (i < all % count);
    return layers;
}

static const char *draw_stages(const struct drawing *at)
{
    if (at->pins->stage_layers_count > 0) return NULL;
    int count = at->winner ? at->winner->degree[AXIS_PP] : 1;
    if (count == 1 || draw_int(at->draw, 0, 3) == 0) count = any_stage_ranks(at);
    if (count == 1 || count > at->question->graph->layer_count) return NULL;
    bool moves = at->winner && count == at->winner->degree[AXIS_PP] && draw_int(at->draw, 0, 2);
    const int *layers = moves                      ? moved_stages(at)
                        : draw_int(at->draw, 0, 2) ? even_stages(at, count)
                                                   : thrown_stages(at, count);
    if (layers) pin_stages(at, layers, count);
    return layers ? "stages" : NULL;
}

static const char *draw_near(const struct drawing *at)
{
    const char *keys = "";
    if (!at->winner) return NULL;
    pin_winner(at);
    int changes = draw_int(at->draw, 1, 2);
    for (int i = 0; i < changes; i++) {
        enum choice choice = any_searched(at);
        pins_clear(at->pins, choice);
        pin_any(at, choice);
        bool axis = choice == CHOICE_TP || choice == CHOICE_CP || choice == CHOICE_PP;
        if (axis) pins_clear(at->pins, CHOICE_DP);
        if (choice == CHOICE_PP || choice == CHOICE_DP) pin_stages(at, NULL, 0);
        if (choice == CHOICE_DP) pins_clear(at->pins, CHOICE_PP);
        if (choice == CHOICE_TP) pins_clear(at->pins, CHOICE_ETP);
        keys = arena_print(at->arena, "%s%s%s", keys, i ? "+" : "", choice_name(choice));
    }
    return keys;
}

// The wider question's answer must be no slower than this one's.
static const char *draw_lift(const struct drawing *at)
{
    enum choice choice = (enum choice)draw_int(at->draw, 0, CHOICE_COUNT - 1);
    struct int_range range = pins_get(at->pins, choice);
    if (!range.set) return NULL;
    pins_clear(at->pins, choice);
    if (choice == CHOICE_RECOMPUTE) pins_clear(at->pins, CHOICE_RECOMPUTE_LAYERS);
    if (choice == CHOICE_SCHEDULE) pins_clear(at->pins, CHOICE_IN_FLIGHT);
    return arena_print(at->arena, "%s", choice_name(choice));
}

static const char *draw_back(const struct drawing *at)
{
    if (!at->winner) return NULL;
    pin_winner(at);
    return "all";
}

static const char *draw_one(const struct drawing *at)
{
    return draw_values(at, 1);
}

static const char *draw_two(const struct drawing *at)
{
    return draw_values(at, 2);
}

// Whether pins ask for nothing that the question's own do not leave.
static bool are_within(const struct pins *pins, const struct pins *own)
{
    for (int i = 0; i < CHOICE_COUNT; i++) {
        struct int_range wide = pins_get(own, (enum choice)i),
                         range = pins_get(pins, (enum choice)i);
        if (wide.set && (!range.set || range.low < wide.low || range.high > wide.high))
            return false;
    }
    int count = own->stage_layers_count;
    if (count == 0) return true;
    return pins->stage_layers_count == count &&
           memcmp(pins->stage_layers, own->stage_layers, (size_t)count * sizeof(int)) == 0;
}

bool pins_draw(struct arena *arena, struct draw *draw, enum pins_kind kind,
               const struct proof_question *question, const struct parallel *winner,
               struct pins *pins, const char **keys)
{
    static const char *(*const DRAWS[PINS_KIND_COUNT])(const struct drawing *) = {
        [PINS_BACK] = draw_back,     [PINS_ONE] = draw_one,          [PINS_TWO] = draw_two,
        [PINS_RANGE] = draw_range,   [PINS_FORBID] = draw_forbidden, [PINS_MOVE] = draw_move,
        [PINS_STAGES] = draw_stages, [PINS_NEAR] = draw_near,        [PINS_LIFT] = draw_lift,
        [PINS_SHOWN] = draw_back};
    const struct pins *own = &question->request.pins;
    *pins = *own;
    const struct drawing at = {arena, draw, question, winner, pins};
    *keys = DRAWS[kind](&at);
    if (*keys == NULL) return false;
    if (kind == PINS_LIFT) return true;
    // Changing a choice clears what was forbidden of it.
    if (pins->forbidden_count < own->forbidden_count) {
        memcpy(pins->forbidden, own->forbidden, sizeof pins->forbidden);
        pins->forbidden_count = own->forbidden_count;
    }
    return are_within(pins, own);
}
