#include "planner/default_stack.h"
#include "core/file.h"
#include "plan/schedule.h"
#include "planner/choice.h"
#include "planner/meshes.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// A shipped stack and what is known of it.
struct entry {
    const struct stack *stack;
    int run_count;  // on the devices that count
    int all_count;  // on any device
};

static double peak_of(const struct device *device)
{
    const double *peaks = device->peak_flop_per_s;
    double peak = fmax(peaks[PRECISION_BF16], peaks[PRECISION_FP16]);
    return peak > 0 ? peak : peaks[PRECISION_FP32];
}

static double times_apart(double a, double b)
{
    return a > b ? a / b : b / a;
}

static double distance_of(const struct device *a, const struct device *b)
{
    if (strcmp(a->kind, b->kind) != 0) return INFINITY;
    return times_apart(peak_of(a), peak_of(b)) *
           times_apart(a->memory_bandwidth_bytes_per_s, b->memory_bandwidth_bytes_per_s);
}

static bool has_runs(const struct bands *bands, const char *device)
{
    return bands_runs(bands, device, "*") > 0;
}

// The measured device nearest to `device`; NULL without an error where none is of its kind. Equally
// near ones: the first by name.
static const struct device *nearest_device(struct arena *arena, const struct bands *bands,
                                           const struct device *device, struct err *err)
{
    int count = 0;
    const char **names = file_list_data(arena, "topologies/devices", &count);
    const struct device *nearest = NULL;
    double nearest_distance = INFINITY;
    for (int i = 0; i < count; i++) {
        if (!has_runs(bands, names[i])) continue;
        const struct device *other = device_load(arena, names[i], err);
        if (!other) return NULL;
        double distance = distance_of(device, other);
        if (distance >= nearest_distance) continue;
        nearest = other;
        nearest_distance = distance;
    }
    return nearest;
}

static bool is_before(const struct entry *a, const struct entry *b)
{
    if (a->run_count != b->run_count) return a->run_count > b->run_count;
    if (a->all_count != b->all_count) return a->all_count > b->all_count;
    return strcmp(a->stack->name, b->stack->name) < 0;
}

// The stacks for devices of this kind, most runs first. `near` NULL: on the clusters' own devices.
static struct entry *rank_stacks(struct arena *arena, const struct default_stack_question *question,
                                 const struct device *near, int *count, struct err *err)
{
    int name_count = 0;
    const char **names = file_list_data(arena, "cost_models/stacks", &name_count);
    struct entry *entries = ARENA_NEW(arena, struct entry, name_count + 1);
    const char *kind = question->clusters[0]->nodes[0].device->kind;
    *count = 0;
    for (int i = 0; i < name_count; i++) {
        struct entry entry = {.stack = stack_load(arena, names[i], err)};
        if (!entry.stack) return NULL;
        if (entry.stack->only_when_named || !stack_is_for(entry.stack, kind)) continue;
        entry.all_count = bands_runs(question->bands, "*", names[i]);
        if (near) entry.run_count = bands_runs(question->bands, near->name, names[i]);
        for (int j = 0; j < question->cluster_count && !near; j++) {
            entry.run_count += bands_cluster_runs(question->bands, question->clusters[j], names[i]);
        }
        int at = (*count)++;
        for (; at > 0 && is_before(&entry, &entries[at - 1]); at--) {
            entries[at] = entries[at - 1];
        }
        entries[at] = entry;
    }
    if (*count == 0) err_set(err, ERR_INPUT, "no shipped stack is for devices of kind %s", kind);
    return entries;
}

// The record of what is pinned; what is not is what every stack can do.
static struct parallel pinned(const struct pins *pins)
{
    struct parallel parallel = {.vpp = 1, .micro_batch = 1, .recompute_layers = -1};
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        const struct int_range *range = &pins->degree[axis];
        parallel.degree[axis] = range->set && range->low > 1 ? (int)range->low : 1;
    }
    bool asks_stages = pins->schedule >= 0 || (pins->vpp.set && pins->vpp.low > 1);
    if (asks_stages && !pins->degree[AXIS_PP].set) parallel.degree[AXIS_PP] = 2;
    parallel.sp = pins->sp == 1;
    struct int_range kind = pins_get(pins, CHOICE_TP_KIND);
    if (kind.set) parallel.tp_kind = (enum tp_kind)kind.low;
    if (pins->recompute >= 0) {
        parallel.recompute = recompute_of_value(pins->recompute, &parallel.recompute_classes);
    }
    if (pins->recompute_layers.set) parallel.recompute_layers = (int)pins->recompute_layers.low;
    if (pins->offload.set) parallel.offload = offload_of_value(pins->offload.low);
    if (pins->lora >= 0) parallel.lora = adapters_of_value(pins->lora);
    if (pins->overlap >= 0) parallel.overlap = (unsigned)pins->overlap;
    if (pins->passes >= 0) parallel.passes = (unsigned)pins->passes;
    parallel.layouts = pins->layouts;
    parallel.layout_count = pins->layout_count;
    return parallel;
}

// The values of a word that the pins leave and the stack has; where there are none, those that the
// pins leave, so that the refusal names one of them.
static unsigned values_of(const struct pins *pins, enum choice choice, int count, unsigned known)
{
    assert(count > 0 && count <= 32 && "a mask has a bit for each value");
    unsigned allowed = 0;
    for (int value = 0; value < count; value++) {
        if (pins_allow(pins, choice, value)) allowed |= 1u << value;
    }
    return allowed & known ? allowed & known : allowed;
}

// A pinned number of chunks needs a schedule with chunks.
static unsigned schedules_of(const struct pins *pins, const struct stack *stack)
{
    unsigned chunked = 0;
    for (int i = 0; i < SCHEDULE_KIND_COUNT; i++) {
        if (schedule_takes_chunks((enum schedule_kind)i)) chunked |= 1u << i;
    }
    bool has_chunks = pins->vpp.set && pins->vpp.low > 1;
    return values_of(pins, CHOICE_SCHEDULE, SCHEDULE_KIND_COUNT,
                     has_chunks ? stack->schedules & chunked : stack->schedules) &
           (has_chunks ? chunked : ~0u);
}

// Whether some of the values that the pins leave can be run together; else the first refusal.
static bool can_run_pins(struct arena *arena, const struct stack *stack, const struct pins *pins,
                         const char **why)
{
    struct parallel parallel = pinned(pins);
    unsigned zeros = values_of(pins, CHOICE_ZERO, 4, stack->zero_stages);
    unsigned schedules = schedules_of(pins, stack);
    unsigned attentions = values_of(pins, CHOICE_ATTENTION, ATTENTION_COUNT, stack->attention);
    unsigned cp_kinds = values_of(pins, CHOICE_CP_KIND, CP_KIND_COUNT, stack->cp_kinds);
    const char *first = NULL;
    for (int i = 0; i < 4 * SCHEDULE_KIND_COUNT * ATTENTION_COUNT * CP_KIND_COUNT; i++) {
        int zero = i % 4, schedule = i / 4 % SCHEDULE_KIND_COUNT;
        int attention = i / 4 / SCHEDULE_KIND_COUNT % ATTENTION_COUNT;
        int cp_kind = i / 4 / SCHEDULE_KIND_COUNT / ATTENTION_COUNT;
        if (!(zeros >> zero & schedules >> schedule & attentions >> attention &
              cp_kinds >> cp_kind & 1)) {
            continue;
        }
        parallel.zero = zero;
        parallel.schedule = (enum schedule_kind)schedule;
        parallel.attention = (enum attention)attention;
        parallel.cp_kind = (enum cp_kind)cp_kind;
        if (stack_can_run(stack, &parallel, arena, why)) return true;
        if (!first) first = *why;
    }
    *why = first;
    return false;
}

static bool asks_layouts(const struct pins *pins)
{
    return pins->layout_count > 0 || pins->per_operator;
}

// What no search tries by itself and our executor alone runs: pins of more than `most` ask for it.
static const struct own_pin {
    enum choice choice;
    int most;
    const char *why;
} OWN_PINS[] = {{CHOICE_TP_RELAY, 1, "hands nothing on in parts"},
                {CHOICE_LOSS_CHUNKS, 1, "makes the scores of its loss whole"},
                {CHOICE_ZERO_GRADIENTS, 0, "has one shard group for all that ZeRO shards"},
                {CHOICE_ZERO_PARAMETERS, 0, "has one shard group for all that ZeRO shards"}};

// Why a stack that is not our executor's has not what is asked; NULL: it is not asked for.
static const char *asks_executor(const struct pins *pins)
{
    for (size_t i = 0; i < sizeof OWN_PINS / sizeof *OWN_PINS; i++) {
        struct int_range range = pins_get(pins, OWN_PINS[i].choice);
        if (range.set && range.low > OWN_PINS[i].most) return OWN_PINS[i].why;
    }
    if (meshes_are_asked(pins)) return "gives all stages one mesh";
    return pins->branches == BRANCHES_ON ? "has every stage hand on to the next" : NULL;
}

// Whether the stack can train the model in this precision; else why not. What is pinned has no say,
// so that a pin narrows what is searched and never changes the software; but what no search tries
// by itself: a grid of tp, layouts of operators, and what our executor alone runs.
static bool can_train(struct arena *arena, const struct stack *stack,
                      const struct default_stack_question *question, const char **why)
{
    struct err narrow = {0};
    if (!stack_check_precision(stack, question->precision, &narrow)) {
        *why = arena_print(arena, "runs no GEMMs in %s", precision_name(question->precision));
        return false;
    }
    struct int_range kind = pins_get(question->pins, CHOICE_TP_KIND);
    if (kind.set && !(stack->tp_kinds >> kind.low & 1)) {
        *why = arena_print(arena, "has no %s tensor parallelism",
                           tp_kind_name((enum tp_kind)kind.low));
        return false;
    }
    *why = "has no kernels for it";
    if (question->is_unexecuted && stack_is_executed(stack)) return false;
    *why = "has no diffusion transformers";
    if (question->is_video && !stack_has_videos(stack)) return false;
    *why = "lays no operator out by itself";
    if (asks_layouts(question->pins) && !stack_lays_out(stack)) return false;
    *why = asks_executor(question->pins);
    if (*why && !stack_is_executed(stack)) return false;
    *why = "cannot split over ep";
    if (question->has_experts && !(stack->axes >> AXIS_EP & 1)) return false;
    *why = "has no measured run with experts";
    return !question->has_experts || !stack->experts_only_when_named;
}

// Whether the stack has what is pinned; else why not, without its name.
static bool has_pinned(struct arena *arena, const struct stack *stack,
                       const struct default_stack_question *question, const char **why)
{
    if (question->pins->search_offload && !stack->offload)
        return *why = "moves nothing off the device", false;
    stack = stack_for_model(arena, stack, question->has_experts);
    if (can_run_pins(arena, stack, question->pins, why)) return true;
    const char *name = *why ? arena_print(arena, "stack %s ", stack->name) : "";
    size_t length = strlen(name);
    if (!*why) *why = "has no schedule for these pins";
    if (length && strncmp(*why, name, length) == 0) *why += length;
    return false;
}

static const char *runs_text(struct arena *arena, const struct default_stack_question *question,
                             const struct entry *entry, const struct device *near)
{
    const struct cluster *first = question->clusters[0];
    const char *own = bands_runs_text(arena, question->bands, first, entry->stack->name);
    if (!near && question->cluster_count == 1) return own;
    if (!near) return arena_print(arena, "%d measured runs on these devices", entry->run_count);
    const char *where =
        question->cluster_count == 1 ? own : "no measured run on any of these devices";
    return arena_print(arena, "%s, %d on the nearest device, %s", where, entry->run_count,
                       near->name);
}

// What has the pins that the taken stack lacks: its fork, or the first of those that can train the
// model. NULL: none has.
static const struct stack *first_that_can(struct arena *arena,
                                          const struct default_stack_question *question,
                                          const struct stack *taken, const struct entry *entries,
                                          int count)
{
    const char *why;
    struct err none = {0};
    const struct stack *fork = stack_for_schedule(arena, taken, question->pins->schedule, &none);
    if (fork && fork != taken && has_pinned(arena, fork, question, &why)) return fork;
    for (int i = 0; i < count; i++) {
        const struct stack *stack = entries[i].stack;
        if (can_train(arena, stack, question, &why) && has_pinned(arena, stack, question, &why))
            return stack;
    }
    return NULL;
}

bool default_stack_find(struct arena *arena, const struct default_stack_question *question,
                        struct default_stack *found, struct err *err)
{
    assert(question->cluster_count >= 1);
    bool is_known = false;
    for (int i = 0; i < question->cluster_count; i++) {
        is_known = is_known || bands_cluster_runs(question->bands, question->clusters[i], "*") > 0;
    }
    const struct device *device = question->clusters[0]->nodes[0].device, *near = NULL;
    if (!is_known) near = nearest_device(arena, question->bands, device, err);
    int count = 0;
    const struct entry *entries =
        err->kind ? NULL : rank_stacks(arena, question, near, &count, err);
    if (err->kind) return false;
    const char *passed = "", *why = NULL;
    int taken = 0;
    while (taken < count && !can_train(arena, entries[taken].stack, question, &why)) {
        // What is ours alone: not all that was never measured is told.
        bool is_told = !(asks_layouts(question->pins) || asks_executor(question->pins)) ||
                       entries[taken].run_count > 0;
        if (is_told)
            passed = arena_print(arena, "%s; %s, with %d, %s", passed, entries[taken].stack->name,
                                 entries[taken].run_count, why);
        taken++;
    }
    if (taken == count) taken = 0, passed = "";
    assert(taken < count && "no stack at all is an error, which was set");
    const struct entry *entry = &entries[taken];
    *found = (struct default_stack){
        .stack = entry->stack,
        .why = arena_print(arena, "%s%s", runs_text(arena, question, entry, near), passed),
    };
    if (has_pinned(arena, entry->stack, question, &why)) return true;
    const struct stack *other = first_that_can(arena, question, entry->stack, entries, count);
    if (!other) return true;
    err_set(err, ERR_USAGE, "stack %s, taken because --stack is not given (%s), %s; --stack %s can",
            entry->stack->name, runs_text(arena, question, entry, near), why, other->name);
    return false;
}
