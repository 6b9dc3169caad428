#include "exchange/nearest.h"

#include <assert.h>
#include <string.h>

// What a target can never be told of this model, found by asking it for plans that have one thing
// each.

// A plan that splits over one axis only, with copies that share what can be shared among them.
static struct parallel split_over(const struct stack *stack, enum axis axis, int ranks)
{
    assert(axis < AXIS_COUNT && ranks > 1);
    struct parallel parallel = {
        .vpp = 1,
        .micro_batch = 1,
        .schedule = SCHEDULE_1F1B,
        .recompute_layers = -1,
        .attention = stack->attention & 1U << ATTENTION_FLASH ? ATTENTION_FLASH : ATTENTION_UNFUSED,
        .overlap = stack->overlap_default,
        .passes = stack->passes};
    for (enum axis other = 0; other < AXIS_COUNT; other++)
        parallel.degree[other] = 1;
    if (axis == AXIS_ETP) parallel.degree[AXIS_TP] = ranks;
    parallel.degree[AXIS_DP] = axis == AXIS_EP ? ranks : 1;
    parallel.degree[axis] = ranks;
    parallel_default_order(&parallel);
    assert(parallel.degree[axis] == ranks);
    return parallel;
}

// What of a plan the target cannot express. False: there is no such plan of this model.
static bool judge_alone(struct arena *arena, const struct exchange_target *target,
                        const struct search_request *request, const struct parallel *parallel,
                        struct refusals *refusals)
{
    const struct facts_request asked = {request->model, request->stack, &request->workload,
                                        parallel, NULL};
    const struct facts *facts;
    struct settings settings;
    struct err unread = {0};
    return target_judge(arena, target, &asked, &facts, &settings, refusals, &unread);
}

// Whether this is refused of the plan however its copies are sharded: some programs have it beside
// sharding alone.
static bool refuses(struct arena *arena, const struct exchange_target *target,
                    const struct search_request *request, const struct parallel *parallel,
                    const char *fact)
{
    assert(fact && *fact);
    bool is_asked = false;
    for (int stage = 0; stage <= 3; stage++) {
        struct parallel sharded = *parallel;
        struct refusals refusals = {0};
        sharded.zero = stage;
        if (!(request->stack->zero_stages >> stage & 1)) continue;
        if (!judge_alone(arena, target, request, &sharded, &refusals)) continue;
        if (!refusals_hold(&refusals, fact)) return false;
        is_asked = true;
    }
    return is_asked;
}

// Whether the target can express no degree of the axis above one for this model. Of stages a number
// may be wrong for its layers, so every number is asked.
static bool is_beyond(struct arena *arena, const struct exchange_target *target,
                      const struct search_request *request, enum axis axis)
{
    enum { STAGES_MOST = 64 };
    int most = axis == AXIS_PP ? STAGES_MOST : 2;
    bool is_asked = false;
    for (int ranks = 2; ranks <= most; ranks++) {
        struct parallel parallel = split_over(request->stack, axis, ranks);
        for (enum cp_kind kind = 0; kind < (axis == AXIS_CP ? CP_KIND_COUNT : 1); kind++) {
            parallel.cp_kind = kind;
            bool is_refused =
                refuses(arena, target, request, &parallel, axis_name(axis)) ||
                (axis == AXIS_PP && refuses(arena, target, request, &parallel, "pieces"));
            struct refusals unread = {0};
            if (is_refused) is_asked = true;
            if (!is_refused && judge_alone(arena, target, request, &parallel, &unread))
                return false;
        }
    }
    return is_asked;
}

// What the target cannot run beside compute for this model, as far as copies alone tell; of
// exchanges of experts, which copies alone have none of, as far as their ranks do.
static void narrow_overlap(struct arena *arena, const struct exchange_target *target,
                           const struct search_request *request, struct stack *stack)
{
    for (unsigned bit = 1; bit <= stack->overlap; bit <<= 1) {
        enum axis axis = bit == OVERLAP_EP ? AXIS_EP : AXIS_DP;
        struct parallel parallel = split_over(request->stack, axis, 2);
        parallel.overlap = bit;
        const char *fact = arena_print(arena, "overlap.%s", overlap_text(arena, bit));
        if (!(stack->overlap & bit) || !refuses(arena, target, request, &parallel, fact)) continue;
        stack->overlap &= ~bit;
        stack->overlap_default &= ~bit;
    }
}

// Of the kinds of recompute those that the target has for all layers, and which of them it has for
// the first few; of the stages of ZeRO those that it has for this model.
static void narrow_memory(struct arena *arena, const struct exchange_target *target,
                          const struct search_request *request, struct stack *stack)
{
    for (enum recompute kind = RECOMPUTE_SELECTIVE; kind < RECOMPUTE_COUNT; kind++) {
        struct parallel parallel = split_over(request->stack, AXIS_DP, 2);
        parallel.recompute = kind;
        if (!(stack->recompute >> kind & 1)) continue;
        if (refuses(arena, target, request, &parallel, "recompute")) stack->recompute ^= 1U << kind;
        parallel.recompute_layers = 1;
        if (refuses(arena, target, request, &parallel, "recompute"))
            stack->recompute_whole |= 1U << kind;
    }
    for (int stage = 1; stage <= 3; stage++) {
        struct parallel parallel = split_over(request->stack, AXIS_DP, 2);
        struct refusals refusals = {0};
        parallel.zero = stage;
        if (!(stack->zero_stages >> stage & 1)) continue;
        if (!judge_alone(arena, target, request, &parallel, &refusals) ||
            !refusals_hold(&refusals, "zero"))
            continue;
        stack->zero_stages &= ~(1U << stage);
        stack->zero_stages_with_pipeline &= ~(1U << stage);
    }
}

// Whether it can be told of no such plan, whatever is recomputed beside.
static bool is_never_moved(struct arena *arena, const struct exchange_target *target,
                           const struct search_request *request, const char *words,
                           const char *fact)
{
    struct parallel parallel = split_over(request->stack, AXIS_DP, 2);
    if (!offload_parse(words, &parallel.offload)) return true;
    for (enum recompute kind = RECOMPUTE_NONE; kind <= RECOMPUTE_FULL; kind++) {
        parallel.recompute = kind;
        if (!refuses(arena, target, request, &parallel, fact)) return false;
    }
    return true;
}

// What leaves the device: optimizer states, to the host or NVMe, and what layers keep.
static void narrow_offload(struct arena *arena, const struct exchange_target *target,
                           const struct search_request *request, struct stack *stack)
{
    static const struct {
        const char *words[3], *fact;
        unsigned bits;
    } KINDS[] = {
        {{"optimizer"}, "offload.optimizer", 1U << OFFLOADS_OPTIMIZER},
        {{"optimizer@nvme"}, "offload.optimizer", 1U << OFFLOADS_OPTIMIZER_NVME},
        {{"activations:1", "activations", "checkpoints"},
         "offload.activations",
         1U << OFFLOADS_ACTIVATIONS | 1U << OFFLOADS_CHECKPOINTS | 1U << OFFLOADS_CLASSES},
    };
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        bool is_never = (stack->offload & KINDS[i].bits) != 0;
        for (int k = 0; k < 3 && KINDS[i].words[k]; k++)
            is_never = is_never &&
                       is_never_moved(arena, target, request, KINDS[i].words[k], KINDS[i].fact);
        if (is_never) stack->offload &= ~KINDS[i].bits;
    }
}

bool target_narrow(struct arena *arena, const struct exchange_target *target,
                   struct search_request *request, const char **left_out, struct err *err)
{
    static const enum axis ASKED[] = {AXIS_TP, AXIS_CP, AXIS_EP, AXIS_ETP, AXIS_PP};
    struct stack *stack = ARENA_NEW(arena, struct stack, 1);
    *stack = *request->stack;
    *left_out = "";
    narrow_overlap(arena, target, request, stack);
    struct parallel halved = split_over(request->stack, AXIS_TP, 2);
    halved.sp = true;
    if (refuses(arena, target, request, &halved, "sp")) stack->sequence_parallel = false;
    narrow_memory(arena, target, request, stack);
    narrow_offload(arena, target, request, stack);
    for (size_t i = 0; i < sizeof ASKED / sizeof *ASKED; i++) {
        enum axis axis = ASKED[i];
        if (!(stack->axes >> axis & 1) || !is_beyond(arena, target, request, axis)) continue;
        if (request->pins.degree[axis].set && request->pins.degree[axis].low > 1)
            return err_set(err, ERR_USAGE, "%s cannot split this model over %s", target->program,
                           axis_name(axis));
        stack->axes &= ~(1U << axis);
        *left_out =
            arena_print(arena, "%s%s%s", *left_out, **left_out ? ", " : "", axis_name(axis));
    }
    assert(!(stack->axes & ~request->stack->axes) && "a target takes away, and gives nothing");
    request->stack = stack;
    return true;
}
