#include "cost_models/stack.h"
#include "plan/program.h"
#include "plan/unexecuted.h"
#include "topologies/provenance.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

// What a stack cannot run, with the first reason.

// The words of a refusal; without an arena any that are not NULL: search asks yes or no of most of
// what it meets, and the words would be a tenth of a short search.
__attribute__((format(printf, 2, 3))) static const char *refusal(struct arena *arena,
                                                                 const char *format, ...)
{
    if (!arena) return "refused";
    va_list args;
    va_start(args, format);
    const char *text = arena_vprint(arena, format, args);
    va_end(args);
    return text;
}

// The first bit of `wanted` that is not in `known`, or -1.
static int missing_bit(unsigned wanted, unsigned known)
{
    for (int bit = 0; wanted >> bit; bit++) {
        if (wanted >> bit & ~known >> bit & 1) return bit;
    }
    return -1;
}

static const char *refuse_axis(const struct stack *stack, const struct parallel *parallel,
                               struct arena *arena)
{
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        if (parallel->degree[axis] == 1 || stack->axes >> axis & 1) continue;
        return refusal(arena, "stack %s cannot split over %s", stack->name,
                       axis_name((enum axis)axis));
    }
    if (!(stack->tp_kinds >> parallel->tp_kind & 1)) {
        return refusal(arena, "stack %s has no %s tensor parallelism", stack->name,
                       tp_kind_name(parallel->tp_kind));
    }
    bool has_context = parallel->degree[AXIS_CP] > 1;
    if (!has_context || stack->cp_kinds >> parallel->cp_kind & 1) return NULL;
    return refusal(arena, "stack %s has no %s context parallelism", stack->name,
                   cp_kind_name(parallel->cp_kind));
}

// Axes of one rank lie nowhere.
static const char *refuse_order(const struct stack *stack, const struct parallel *parallel,
                                struct arena *arena)
{
    enum axis last = 0;
    for (int i = 0; i < parallel->order_count && stack->order_fixed; i++) {
        enum axis axis = parallel->order[i];
        if (parallel->degree[axis] == 1) continue;
        if (axis < last)
            return refusal(arena, "stack %s numbers its ranks over %s before %s", stack->name,
                           axis_name(axis), axis_name(last));
        last = axis;
    }
    return NULL;
}

// Without a pipeline the schedule is not used, and any may stand there.
static const char *refuse_schedule(const struct stack *stack, const struct parallel *parallel,
                                   struct arena *arena)
{
    bool pipelined = parallel->degree[AXIS_PP] > 1;
    if (!pipelined || stack->schedules >> parallel->schedule & 1) return NULL;
    return refusal(arena, "stack %s has no schedule %s", stack->name,
                   schedule_name(parallel->schedule));
}

static const char *refuse_zero_parts(const struct stack *stack, const struct parallel *parallel,
                                     struct arena *arena)
{
    bool has_parts = parallel->zero_gradients > 0 || parallel->zero_parameters > 0;
    if (!has_parts || stack_is_executed(stack)) return NULL;
    return refusal(arena,
                   "stack %s shards parameters, gradients and states over one group; meshwright "
                   "runs groups of their own (--zero-gradients, --zero-parameters)",
                   stack->name);
}

// Sharding beside a pipeline is an ability of its own.
static const char *refuse_zero(const struct stack *stack, const struct parallel *parallel,
                               struct arena *arena)
{
    bool pipelined = parallel->degree[AXIS_PP] > 1;
    if (!(stack->zero_stages >> parallel->zero & 1)) {
        return refusal(arena, "stack %s has no zero stage %d", stack->name, parallel->zero);
    }
    const char *parts = refuse_zero_parts(stack, parallel, arena);
    if (parts) return parts;
    if (!pipelined || stack->zero_stages_with_pipeline >> parallel->zero & 1) return NULL;
    return refusal(arena, "stack %s has no zero stage %d together with a pipeline", stack->name,
                   parallel->zero);
}

// Without classes, selective recompute is that of attention.
static const char *refuse_recompute(const struct stack *stack, const struct parallel *parallel,
                                    struct arena *arena)
{
    if (!(stack->recompute >> parallel->recompute & 1)) {
        return refusal(arena, "stack %s has no %s recompute", stack->name,
                       recompute_name(parallel->recompute));
    }
    bool is_part = parallel->recompute != RECOMPUTE_NONE && parallel->recompute_layers >= 0;
    if (is_part && stack->recompute_whole >> parallel->recompute & 1) {
        return refusal(arena, "stack %s has %s recompute of all layers alone", stack->name,
                       recompute_name(parallel->recompute));
    }
    if (parallel->recompute != RECOMPUTE_SELECTIVE) return NULL;
    unsigned classes = parallel->recompute_classes;
    int missing =
        missing_bit(classes ? classes : 1u << OP_CLASS_ATTENTION, stack->recompute_classes);
    if (missing < 0) return NULL;
    return refusal(arena, "stack %s has no selective recompute of %s", stack->name,
                   op_class_name((enum op_class)missing));
}

// The ability that moving these activations takes: of all of a layer, or of what full recompute
// leaves of it.
static unsigned activation_offloads(const struct parallel *parallel)
{
    bool on_nvme = parallel->offload.activations == TIER_NVME;
    unsigned all = 1u << (on_nvme ? OFFLOADS_ACTIVATIONS_NVME : OFFLOADS_ACTIVATIONS);
    bool is_recomputed = parallel->recompute == RECOMPUTE_FULL && parallel->recompute_layers < 0;
    if (is_recomputed) all |= 1u << (on_nvme ? OFFLOADS_CHECKPOINTS_NVME : OFFLOADS_CHECKPOINTS);
    return all;
}

bool stack_is_executed(const struct stack *stack)
{
    return stack->flags_of && strcmp(stack->flags_of, "meshwright plan") == 0;
}

bool stack_is_own_gpu(const struct stack *stack)
{
    return stack_is_executed(stack) && stack->device_kinds >> DEVICE_KIND_GPU & 1;
}

bool stack_has_videos(const struct stack *stack)
{
    return stack->cp_kinds >> CP_AXIAL & 1;
}

bool stack_lays_out(const struct stack *stack)
{
    return stack_is_executed(stack) || stack->lays_out;
}

static const char *refuse_unexecuted(const struct stack *stack, const struct parallel *parallel,
                                     struct arena *arena)
{
    const struct workload any = {0};
    const struct unexecuted *row = stack_is_executed(stack) ? unexecuted_of(&any, parallel) : NULL;
    if (!row) return NULL;
    return arena ? unexecuted_text(arena, row) : refusal(NULL, "refused");
}

void stack_moves_along(const struct stack *stack, int zero, struct offload *offload)
{
    assert(zero >= 0 && zero <= 3);
    bool leave = stack->gradients_leave_zero_stages >> zero & 1;
    if (offload->optimizer != TIER_DEVICE) offload->gradients |= leave;
}

// Gradients that leave whether or not a plan says so are said.
static const char *refuse_gradients(const struct stack *stack, const struct parallel *parallel,
                                    struct arena *arena)
{
    const struct offload *offload = &parallel->offload;
    struct offload along = *offload;
    struct err refused = {0};
    stack_moves_along(stack, parallel->zero, &along);
    if (along.gradients != offload->gradients)
        return refusal(arena,
                       "stack %s moves gradients beside the optimizer at zero stage %d: --offload "
                       "optimizer,gradients would run",
                       stack->name, parallel->zero);
    if (!offload_moves_gradients(offload)) return NULL;
    if (!(stack->offload >> OFFLOADS_GRADIENTS & 1))
        return refusal(arena, "stack %s cannot offload gradients", stack->name);
    unsigned stages = stack->gradients_leave_zero_stages;
    if (stages && !(stages >> parallel->zero & 1))
        return refusal(arena, "stack %s cannot offload gradients at zero stage %d", stack->name,
                       parallel->zero);
    if (offload->gradient_layers > 0 && !stack_is_executed(stack))
        return refusal(arena, "stack %s offloads gradients of all layers or of none", stack->name);
    if (!program_check_gradients(parallel, &refused)) return refusal(arena, "%s", refused.text);
    return NULL;
}

static const char *refuse_offload(const struct stack *stack, const struct parallel *parallel,
                                  struct arena *arena)
{
    const struct offload *offload = &parallel->offload;
    bool on_nvme = offload->optimizer == TIER_NVME;
    if (offload->optimizer != TIER_DEVICE) {
        int need = on_nvme ? OFFLOADS_OPTIMIZER_NVME : OFFLOADS_OPTIMIZER;
        unsigned stages = stack->offload_zero_stages ? stack->offload_zero_stages : ~0u;
        if (on_nvme && stack->nvme_zero_stages) stages &= stack->nvme_zero_stages;
        if (!(stack->offload >> need & 1)) {
            return refusal(arena, "stack %s cannot offload the optimizer%s", stack->name,
                           on_nvme ? " to NVMe" : "");
        }
        if (!(stages >> parallel->zero & 1)) {
            return refusal(arena, "stack %s cannot offload the optimizer%s at zero stage %d",
                           stack->name, on_nvme ? " to NVMe" : "", parallel->zero);
        }
        if (offload->optimizer_layers > 0 && !stack_is_executed(stack))
            return refusal(arena, "stack %s offloads the optimizer of all layers or of none",
                           stack->name);
    }
    if (offload_moves_parameters(offload)) {
        bool deep = offload->parameters == TIER_NVME;
        int need = deep ? OFFLOADS_PARAMETERS_NVME : OFFLOADS_PARAMETERS;
        if (!(stack->offload >> need & 1))
            return refusal(arena, "stack %s cannot offload parameters%s", stack->name,
                           deep ? " to NVMe" : "");
        unsigned stages = stack->parameter_zero_stages ? stack->parameter_zero_stages : ~0u;
        // Blocks gather their shards and fetch no whole weights.
        if (parallel->zero == 3) stages = 0;
        if (!(stages >> parallel->zero & 1))
            return refusal(arena, "stack %s cannot offload parameters at zero stage %d",
                           stack->name, parallel->zero);
        if (offload->parameter_layers > 0 && !stack_is_executed(stack))
            return refusal(arena, "stack %s offloads parameters of all layers or of none",
                           stack->name);
        struct err refused = {0};
        if (offload_keeps_some(offload) && !stack_is_executed(stack))
            return refusal(arena, "stack %s fetches parameters for each forward and backward",
                           stack->name);
        if (!stays_check(parallel, &refused)) return refusal(arena, "%s", refused.text);
    }
    if (!offload_moves_activations(offload)) return NULL;
    if (!(stack->offload & activation_offloads(parallel))) {
        return refusal(arena, "stack %s cannot offload activations%s%s", stack->name,
                       offload->activations == TIER_NVME ? " to NVMe" : "",
                       stack->offload >> OFFLOADS_CHECKPOINTS & 1 ? " without full recompute" : "");
    }
    if (offload_moves_alike(offload) || stack->offload >> OFFLOADS_CLASSES & 1) return NULL;
    return refusal(arena, "stack %s offloads activations of whole layers only", stack->name);
}

// What only our executor runs is said with the software that does.
static const char *refuse_others(const struct stack *stack, const struct parallel *parallel,
                                 struct arena *arena)
{
    if (!(stack->attention >> parallel->attention & 1)) {
        return refusal(arena, "stack %s has no %s attention", stack->name,
                       attention_name(parallel->attention));
    }
    if (parallel->replica_count > 0 && !stack_is_executed(stack)) {
        return refusal(arena,
                       "stack %s gives all replicas as many micro-batches; meshwright runs "
                       "unlike numbers",
                       stack->name);
    }
    if (parallel->sp && !stack->sequence_parallel) {
        return refusal(arena, "stack %s has no sequence parallelism", stack->name);
    }
    if (parallel->tp_relay > 1 && !stack_is_executed(stack)) {
        return refusal(arena, "stack %s hands nothing on in parts; meshwright does (--tp-relay)",
                       stack->name);
    }
    if (parallel->loss_chunks > 1 && !stack_is_executed(stack)) {
        return refusal(
            arena,
            "stack %s makes the scores of its loss whole; meshwright makes them in parts "
            "(--loss-chunks)",
            stack->name);
    }
    if (parallel->lora.rank > 0 && !stack->adapters) {
        return refusal(arena, "stack %s trains no adapters (--lora)", stack->name);
    }
    if (parallel->layout_count > 0 && !stack_lays_out(stack)) {
        return refusal(arena, "stack %s lays no operator out by itself", stack->name);
    }
    if (parallel->stage_ranks_count > 0 && !stack_is_executed(stack)) {
        return refusal(arena, "stack %s gives all stages as many ranks; meshwright runs others",
                       stack->name);
    }
    if (parallel_has_meshes(parallel) && !stack_is_executed(stack)) {
        return refusal(arena, "stack %s gives all stages one mesh; meshwright runs unlike ones",
                       stack->name);
    }
    unsigned overlap = parallel->overlap & ~stack->overlap;
    if (overlap) {
        return refusal(arena, "stack %s cannot overlap %s", stack->name,
                       arena ? overlap_text(arena, overlap) : "");
    }
    int pass = missing_bit(parallel->passes, stack->passes);
    if (pass < 0) return NULL;
    return refusal(arena, "stack %s has no pass %s", stack->name, pass_name((enum pass)pass));
}

bool stack_check_executed(const struct stack *stack, const struct workload *workload,
                          const struct parallel *parallel, struct err *err)
{
    return !stack_is_executed(stack) || unexecuted_check(workload, parallel, err);
}

const struct stack *stack_with_rules(struct arena *arena, const struct stack *stack,
                                     const struct stack *of)
{
    struct stack *ruled = stack_copy(arena, stack);
    ruled->stages_by_flop = of->stages_by_flop;
    ruled->fills_pipeline = of->fills_pipeline;
    ruled->fills_1f1b = of->fills_1f1b;
    ruled->splits_experts_as_tp = of->splits_experts_as_tp;
    return ruled;
}

bool stack_check_rounds(const struct stack *stack, enum schedule_kind schedule, int stage_count,
                        int64_t micro_batch_count, struct err *err)
{
    assert(stage_count >= 1);
    const char *taken = NULL;
    if (stack->fills_pipeline && micro_batch_count < stage_count - 1)
        taken = "takes no fewer micro-batches a step than stages behind the first";
    if (stack->fills_1f1b && schedule == SCHEDULE_1F1B && stage_count > 1 &&
        micro_batch_count < stage_count)
        taken = "takes no fewer micro-batches a step of 1f1b than stages";
    if (!taken) return true;
    return err_set(err, ERR_USAGE, "--pp %d: stack %s %s; this plan has %lld", stage_count,
                   stack->name, taken, (long long)micro_batch_count);
}

bool stack_check_experts(const struct stack *stack, int64_t expert_count, int tp, int etp,
                         struct err *err)
{
    if (!stack->splits_experts_as_tp || expert_count == 0 || etp == tp) return true;
    return err_set(err, ERR_USAGE, "--etp %d: stack %s splits experts as all else, by tp %d", etp,
                   stack->name, tp);
}

// The first reason is the one that is shown.
bool stack_can_run(const struct stack *stack, const struct parallel *parallel, struct arena *arena,
                   const char **why)
{
    assert(parallel->zero >= 0 && parallel->zero <= 3);
    static const char *(*const REFUSALS[])(const struct stack *, const struct parallel *,
                                           struct arena *) = {
        refuse_axis,       refuse_order,   refuse_schedule,  refuse_zero,   refuse_recompute,
        refuse_unexecuted, refuse_offload, refuse_gradients, refuse_others,
    };
    const char *first = NULL;
    for (size_t i = 0; i < sizeof REFUSALS / sizeof *REFUSALS && !first; i++)
        first = REFUSALS[i](stack, parallel, why ? arena : NULL);
    if (why) *why = first;
    return !first;
}

bool stack_check_precision(const struct stack *stack, enum precision precision, struct err *err)
{
    bool has_none = (precision == PRECISION_FP8 && !stack->fp8_gemms) ||
                    (precision == PRECISION_FP4 && !stack->fp4_gemms);
    if (!has_none) return true;
    return err_set(err, ERR_USAGE, "--precision %s: stack %s runs no GEMMs in it",
                   precision_name(precision), stack->name);
}

// What is said of bytes that are held says nothing of seconds.
static bool is_of_memory(const char *key)
{
    static const char *const KEYS[] = {
        "gradient_bytes",      "fp16_gradient_bytes",      "master_bytes",      "moment_bytes",
        "reduce_buffer_bytes", "logits_bytes_per_element", "left_logits_bytes", "reserve_bytes",
        "reserve_ratio",       "pipeline_reserve_ratio",
    };
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        if (strcmp(KEYS[i], key) == 0) return true;
    }
    return false;
}

bool stack_is_fitted(const struct stack *stack)
{
    for (int i = 0; i < stack->provenance_count; i++) {
        const struct provenance *entry = &stack->provenance[i];
        bool is_of_runs = entry->kind == PROVENANCE_FITTED || entry->kind == PROVENANCE_MEASURED;
        if (is_of_runs && !is_of_memory(entry->key)) return true;
    }
    return false;
}
