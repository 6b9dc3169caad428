#include "planner/space.h"

#include <assert.h>

// Ways to recompute worth trying, what recomputes least first. The classes are those whose outputs
// are large for the work of making them again: norms and activation functions, which are bound by
// memory, the way up from the low rank of latent attention (DeepSeek-V3 report, section 3.2.3), and
// the attention core. Of each set counts what the model and the stack have.
enum {
    LIGHT_CLASSES = 1 << OP_CLASS_NORM | 1 << OP_CLASS_ACTIVATION | 1 << OP_CLASS_UP,
};
static const struct {
    enum recompute recompute;
    unsigned classes;
} RECOMPUTES[] = {
    {RECOMPUTE_NONE, 0},
    {RECOMPUTE_SELECTIVE, 1u << OP_CLASS_NORM},
    {RECOMPUTE_SELECTIVE, 1u << OP_CLASS_ACTIVATION},
    {RECOMPUTE_SELECTIVE, LIGHT_CLASSES},
    {RECOMPUTE_SELECTIVE, 1u << OP_CLASS_ATTENTION},
    {RECOMPUTE_SELECTIVE, LIGHT_CLASSES | 1u << OP_CLASS_ATTENTION},
    {RECOMPUTE_PER_OP, 0},
    {RECOMPUTE_FULL, 0},
};

static void value_add(struct space_values *values, int value)
{
    assert(values->count < SPACE_VALUE_MAX);
    values->values[values->count++] = value;
}

// The values of a word or small number that the pins leave, in ascending order.
static struct space_values allowed_values(const struct pins *pins, enum choice choice, int count)
{
    struct space_values values = {0};
    for (int value = 0; value < count; value++) {
        if (pins_allow(pins, choice, value)) value_add(&values, value);
    }
    return values;
}

// The classes that the operators of a model have.
static unsigned classes_of(const struct graph *graph)
{
    unsigned classes = 0;
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        if (block->role != BLOCK_LAYER) continue;
        for (int o = 0; o < block->op_count; o++) {
            classes |= 1u << block->ops[o].class;
        }
    }
    return classes;
}

unsigned space_classes(const struct search_request *request, const struct graph *graph)
{
    return classes_of(graph) & request->stack->recompute_classes;
}

static bool value_has(const struct space_values *values, int value)
{
    for (int i = 0; i < values->count; i++) {
        if (values->values[i] == value) return true;
    }
    return false;
}

// A pinned set of classes need not be in the table.
struct space_values space_recomputes(const struct search_request *request,
                                     const struct graph *graph)
{
    const struct pins *pins = &request->pins;
    struct space_values values = {0};
    unsigned known = space_classes(request, graph);
    for (size_t i = 0; i < sizeof RECOMPUTES / sizeof *RECOMPUTES && pins->recompute < 0; i++) {
        unsigned classes = RECOMPUTES[i].classes & known;
        bool empty = RECOMPUTES[i].recompute == RECOMPUTE_SELECTIVE && classes == 0;
        empty = empty || (RECOMPUTES[i].recompute == RECOMPUTE_PER_OP &&
                          !(request->stack->recompute >> RECOMPUTE_PER_OP & 1));
        if (classes == 1u << OP_CLASS_ATTENTION) classes = 0;
        int value = recompute_value(RECOMPUTES[i].recompute, classes);
        if (empty || value_has(&values, value)) continue;
        if (pins_allow(pins, CHOICE_RECOMPUTE, value)) value_add(&values, value);
    }
    if (pins->recompute >= 0 && pins_allow(pins, CHOICE_RECOMPUTE, pins->recompute)) {
        value_add(&values, pins->recompute);
    }
    return values;
}

// The first attention that the stack has is the better one; the other is for pins, and for runs
// that are described and known to have it.
static struct space_values attentions_of(const struct search_request *request)
{
    struct space_values all = allowed_values(&request->pins, CHOICE_ATTENTION, ATTENTION_COUNT);
    unsigned wanted = request->stack->attention;
    enum attention described;
    if (search_describes_attention(request, &described)) wanted = 1u << described;
    for (int i = 0; i < all.count; i++) {
        if (!(wanted >> all.values[i] & 1)) continue;
        all.values[0] = all.values[i];
        break;
    }
    if (all.count > 1) all.count = 1;
    return all;
}

// Of the values that the pins leave those that the stack has, or all of them where that leaves
// none: then its refusal is the answer.
static struct space_values of_the_stack(struct space_values values, unsigned mask)
{
    struct space_values known = {0};
    for (int i = 0; i < values.count; i++) {
        if (mask >> values.values[i] & 1) value_add(&known, values.values[i]);
    }
    return known.count ? known : values;
}

void space_drop(struct space *space, enum drop why, const struct err *err)
{
    assert((unsigned)why < DROP_COUNT);
    space->dropped[why] += 1;
    if (space->refused.kind == ERR_NONE && err->kind) space->refused = *err;
}

// What is not searched has one value; where that is forbidden, no plan is left.
static bool leaves_fixed(const struct space *space)
{
    const struct pins *pins = &space->request->pins;
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
        bool is_fixed = !choice_is_searched(choice);
        if (is_fixed && !pins_allow(pins, choice, choice_value(&space->fixed, choice)))
            return false;
    }
    return true;
}

static struct parallel fixed_choices(const struct pins *pins, const struct stack *stack)
{
    struct parallel fixed = {.passes = stack->passes};
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
        struct int_range pin = pins_get(pins, choice);
        if (pin.set && !choice_is_searched(choice)) choice_put(&fixed, choice, pin.low);
    }
    if (!pins_get(pins, CHOICE_OVERLAP).set)
        fixed.overlap = stack_overlap_default(stack, fixed.tp_relay);
    fixed.layouts = pins->layouts;
    fixed.layout_count = pins->layout_count;
    return fixed;
}

struct space *space_make(struct arena *arena, const struct search_request *request,
                         const struct space_graphs *graphs)
{
    const struct pins *pins = &request->pins;
    const struct stack *stack = request->stack;
    struct space *space = ARENA_NEW(arena, struct space, 1);
    space->arena = arena;
    space->request = request;
    space->zeros = allowed_values(pins, CHOICE_ZERO, 4);
    space->schedules =
        of_the_stack(allowed_values(pins, CHOICE_SCHEDULE, SCHEDULE_KIND_COUNT), stack->schedules);
    space->attentions = attentions_of(request);
    space->switches = of_the_stack(allowed_values(pins, CHOICE_SP, 2),
                                   stack->sequence_parallel ? 1u << 0 | 1u << 1 : 1u << 0);
    space->cp_kinds =
        of_the_stack(allowed_values(pins, CHOICE_CP_KIND, CP_KIND_COUNT), stack->cp_kinds);
    space->fixed = fixed_choices(pins, stack);
    if (space->attentions.count == 0 || space->cp_kinds.count == 0) return space;
    if (!leaves_fixed(space)) return space;
    const struct graph *graph =
        graphs->of(graphs->context, (enum attention)space->attentions.values[0], 1);
    // A model with one sequence dim has no turns; who pins them is told.
    if (graph->frames == 0 && !pins_get(pins, CHOICE_CP_KIND).set)
        space->cp_kinds = of_the_stack(space->cp_kinds, ~(1u << CP_AXIAL));
    space->layer_count = graph->layer_count;
    space->recomputes = space_recomputes(request, graph);
    space_add_meshes(space, graphs);
    // Where there are legal meshes others are not what leaves no plan.
    if (space->group_count > 0) space->refused = (struct err){0};
    return space;
}
