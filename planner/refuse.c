#include "planner/refuse.h"

#include "plan/layout/grid.h"
#include "plan/program.h"
#include "planner/memo.h"
#include "simulator/evaluate.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

enum { VALUE_MAX = 256, SHOWN_MAX = 8 };

// The values of one choice among the legal plans.
struct values {
    int64_t items[VALUE_MAX];
    int count;
};

static void add_value(struct values *values, int64_t value)
{
    int at = values->count;
    for (int i = 0; i < values->count; i++) {
        if (values->items[i] == value) return;
    }
    if (values->count == VALUE_MAX) return;
    while (at > 0 && values->items[at - 1] > value) {
        values->items[at] = values->items[at - 1];
        at--;
    }
    values->items[at] = value;
    values->count++;
}

// What is moved of all layers stands for fewer of them.
static void add_moved(struct values *values, const struct space_tail *tail,
                      const struct space_recompute *recompute)
{
    for (int m = 0; m < tail->move_count; m++) {
        struct offload offload = space_moved(&tail->moves[m], tail->moves[m].layers_high);
        if (recompute->moves >> m & 1) add_value(values, offload_value(&offload));
    }
}

static void add_values(struct values *values, const struct space *space,
                       const struct space_group *group, const struct space_tail *tail,
                       enum choice choice)
{
    for (int i = 0; i < tail->recompute_count; i++) {
        const struct space_recompute *recompute = &tail->recomputes[i];
        for (int layers = recompute->layers_low; layers <= recompute->layers_high; layers++) {
            struct parallel parallel = space_parallel(space, group, tail, recompute, layers);
            if (choice == CHOICE_OFFLOAD) {
                add_moved(values, tail, recompute);
            } else {
                add_value(values, choice_value(&parallel, choice));
            }
            if (choice != CHOICE_RECOMPUTE_LAYERS) break;
        }
    }
}

static struct values legal_values(const struct search_request *request, enum choice choice)
{
    struct arena work = {0}, scratch = {0};
    struct memo *memo = memo_new(&work, &scratch, request);
    struct space_graphs graphs = {memo_graph_of, memo};
    struct space *space = space_make(&work, request, &graphs);
    struct values values = {0};
    for (int i = 0; i < space->group_count; i++) {
        const struct space_group *group = &space->groups[i];
        const struct space_tails *tails = space_tails(space, &graphs, group);
        for (int k = 0; k < tails->count; k++) {
            add_values(&values, space, group, &tails->tails[k], choice);
        }
    }
    arena_free(&scratch);
    arena_free(&work);
    return values;
}

// What is forbidden is no way out, unless nothing else is left: then lifting that is.
static void drop_forbidden(const struct pins *pins, enum choice choice, struct values *values)
{
    assert(values->count > 0 && values->count <= VALUE_MAX);
    struct pins open = *pins;
    pins_clear(&open, choice);
    memcpy(open.forbidden, pins->forbidden, sizeof open.forbidden);
    open.forbidden_count = pins->forbidden_count;
    struct values left = {0};
    for (int i = 0; i < values->count; i++) {
        if (pins_allow(&open, choice, values->items[i]))
            left.items[left.count++] = values->items[i];
    }
    if (left.count > 0) *values = left;
}

// "1, 2, 4, 8": those around `wanted` when there are many.
static const char *values_text(struct arena *arena, enum choice choice, const struct values *values,
                               int64_t wanted)
{
    assert(values->count > 0);
    int first = 0;
    while (first + SHOWN_MAX < values->count && values->items[first + SHOWN_MAX / 2] < wanted) {
        first++;
    }
    const char *text = "";
    for (int i = first; i < values->count && i < first + SHOWN_MAX; i++) {
        const char *value = choice_text(arena, choice, values->items[i]);
        text = arena_print(arena, "%s%s%s", text, i > first ? ", " : "", value);
    }
    return text;
}

static bool is_pinned(const struct pins *pins, enum choice choice)
{
    struct pins without = *pins;
    pins_clear(&without, choice);
    return pins_get(pins, choice).set || without.forbidden_count < pins->forbidden_count;
}

// The first refusal may be about a plan that another pin rules out anyway: only one that names the
// option, or the stack, is the reason.
static bool speaks_of(const char *reason, const char *option)
{
    size_t length = strlen(option);
    if (strncmp(reason, "stack ", 6) == 0) return true;
    return strncmp(reason, option, length) == 0 && (reason[length] == ' ' || reason[length] == ':');
}

// "4", "2..8"
static const char *pinned_text(struct arena *arena, const struct pins *pins, enum choice choice)
{
    struct int_range range = pins_get(pins, choice);
    if (!range.set) return "as forbidden";
    const char *low = choice_text(arena, choice, range.low);
    if (range.low == range.high) return low;
    return arena_print(arena, "%s..%s", low, choice_text(arena, choice, range.high));
}

// All values of a choice are asked for, also those that the search by itself would not take.
static void relax(const struct search_request *request, struct pins *pins, enum choice choice)
{
    static const enum choice WIDENED[] = {CHOICE_TP,   CHOICE_CP,   CHOICE_EP,        CHOICE_ETP,
                                          CHOICE_SP_H, CHOICE_SP_W, CHOICE_ZERO_GROUP};
    pins_clear(pins, choice);
    for (size_t i = 0; i < sizeof WIDENED / sizeof *WIDENED; i++) {
        if (WIDENED[i] == choice) pins_set(pins, choice, 1, request->cluster->rank_count);
    }
    int64_t batch = request->workload.global_batch;
    if (choice == CHOICE_OFFLOAD) pins->search_offload = true;
    if (choice == CHOICE_MICRO_BATCH) pins_set(pins, choice, 1, batch);
}

// The pinned degrees by themselves, whatever the number of GPUs: heads, layers, batch and sequence
// that they do not divide, or NULL. What is not pinned is 1, but for the ranks of experts.
static const char *indivisible(struct arena *arena, const struct search_request *request)
{
    const struct pins *pins = &request->pins;
    struct parallel parallel = {.vpp = 1,
                                .micro_batch = 1,
                                .recompute_layers = -1,
                                .schedule = SCHEDULE_1F1B,
                                .stage_layers = pins->stage_layers,
                                .stage_layers_count = pins->stage_layers_count};
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        const struct int_range *range = &pins->degree[axis];
        parallel.degree[axis] = range->set && range->low == range->high ? (int)range->low : 1;
    }
    struct int_range kind = pins_get(pins, CHOICE_TP_KIND);
    if (kind.set) parallel.tp_kind = (enum tp_kind)kind.low;
    int64_t parts = grid_batch_parts(&parallel);
    if (parts > 0) parallel.micro_batch = (int)parts;
    const struct int_range *micro = &pins->micro_batch;
    if (micro->set && micro->low == micro->high) parallel.micro_batch = (int)micro->low;
    if (pins->attention >= 0) parallel.attention = (enum attention)pins->attention;
    if (pins->lora >= 0) parallel.lora = adapters_of_value(pins->lora);
    parallel_default_order(&parallel);
    const struct graph *graph = evaluation_graph(arena, request->model, request->stack, &parallel);
    // Expert degrees take their ranks from the others, so those must have some.
    bool roomy = graph->expert_count > 0 && !pins->degree[AXIS_DP].set &&
                 request->workload.global_batch % graph->expert_count == 0;
    if (roomy) parallel.degree[AXIS_DP] = (int)graph->expert_count;
    int64_t ranks = parallel_rank_count(&parallel);
    if (ranks > INT_MAX) return NULL;
    struct cluster cluster = *request->cluster;
    cluster.rank_count = (int)ranks;
    struct err err = {0};
    if (program_check(graph, &cluster, &request->workload, &parallel, &err)) return NULL;
    return arena_copy(arena, err.text);
}

// Without any pin in the way it is the number of GPUs: fewer may do.
static bool refuse_gpus(struct arena *arena, const struct search_request *request,
                        const char *reason, struct err *err)
{
    enum { TRY_MAX = 64 };
    int ranks = request->cluster->rank_count;
    for (int gpus = ranks - 1; gpus >= 1 && gpus >= ranks - TRY_MAX; gpus--) {
        struct cluster fewer = *request->cluster;
        struct search_request smaller = *request;
        fewer.nodes =
            ARENA_COPY(arena, struct node_group, request->cluster->nodes, fewer.node_group_count);
        struct err refused = {0};
        smaller.cluster = &fewer;
        if (!cluster_take_gpus(&fewer, gpus, &refused)) break;
        if (legal_values(&smaller, CHOICE_TP).count == 0) continue;
        return err_set(err, ERR_USAGE, "no plan uses all %d GPUs (%s); --gpus %d has one", ranks,
                       reason, gpus);
    }
    return err_set(err, ERR_USAGE, "no plan uses all %d GPUs: %s", ranks, reason);
}

// Why there cannot be as many stages as --stages has numbers; NULL: there can.
static const char *refused_stages(struct arena *arena, const struct search_request *request)
{
    int stages = request->pins.stage_layers_count, ranks = request->cluster->rank_count;
    if (!pins_allow(&request->pins, CHOICE_PP, stages))
        return arena_print(arena, "--stages: %d numbers are as many stages; --pp is %s", stages,
                           pinned_text(arena, &request->pins, CHOICE_PP));
    if (ranks % stages == 0) return NULL;
    return arena_print(arena, "--stages: %d stages do not divide %d GPUs", stages, ranks);
}

bool refuse_empty(struct arena *arena, const struct search_request *request,
                  const struct space *space, struct err *err)
{
    const char *reason = space->refused.kind ? space->refused.text : NULL;
    bool any_pin = request->pins.stage_layers_count > 0;
    if (any_pin && !reason) reason = refused_stages(arena, request);
    if (any_pin && reason && speaks_of(reason, "--stages"))
        return err_set(err, ERR_USAGE, "%s", reason);
    const char *divides_not = indivisible(arena, request);
    if (divides_not) reason = divides_not;
    for (int i = 0; i < CHOICE_COUNT; i++) {
        enum choice choice = (enum choice)i;
        struct search_request relaxed = *request;
        struct int_range range = pins_get(&request->pins, choice);
        if (!is_pinned(&request->pins, choice)) continue;
        any_pin = true;
        relax(request, &relaxed.pins, choice);
        struct values values = legal_values(&relaxed, choice);
        if (values.count == 0) continue;
        drop_forbidden(&request->pins, choice, &values);
        const char *option = choice_option(arena, choice);
        if (divides_not && !speaks_of(divides_not, option)) continue;
        if (!reason || !speaks_of(reason, option)) {
            reason = arena_print(arena, "%s %s: no plan of batch %lld on %d GPUs has it", option,
                                 pinned_text(arena, &request->pins, choice),
                                 (long long)request->workload.global_batch,
                                 request->cluster->rank_count);
        }
        return err_set(err, ERR_USAGE, "%s; with all else as it is, %s may be %s", reason, option,
                       values_text(arena, choice, &values, range.low));
    }
    if (divides_not) return err_set(err, ERR_USAGE, "%s", divides_not);
    if (!reason) reason = any_pin ? "the pins contradict each other" : "nothing divides";
    if (any_pin) return err_set(err, ERR_USAGE, "no plan is left: %s", reason);
    return refuse_gpus(arena, request, reason, err);
}
