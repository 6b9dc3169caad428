#include "cost_models/stack.h"
#include "plan/unfused.h"
#include "topologies/provenance.h"

#include <assert.h>
#include <string.h>

// What a stack can run are texts and flags; how fast it runs it are the numbers, each with a
// provenance. Limits are those of sense: a scale above 4 is a slip of the pen.
static const struct json_field FIELDS[] = {
    {JSON_TEXT(struct stack, name)},
    {JSON_TEXT(struct stack, description)},
    {JSON_OPT_TEXT(struct stack, release)},
    {JSON_OPT_ANY("releases")},
    {JSON_OPT_ANY("builds")},
    {JSON_OPT_ANY("with_experts")},
    {JSON_OPT_TEXT(struct stack, fork)},
    {JSON_OPT_ANY("aliases")},
    {JSON_OPT_BOOL(struct stack, only_when_named)},
    {JSON_OPT_ANY("device_kinds")},
    {JSON_ANY("schedules")},
    {JSON_ANY("zero_stages")},
    {JSON_ANY("zero_stages_with_pipeline")},
    {JSON_ANY("zero_stages_grouped")},
    {JSON_ANY("recompute")},
    {JSON_OPT_ANY("recompute_whole")},
    {JSON_ANY("recompute_classes")},
    {JSON_OPT_ANY("expert_recompute_classes")},
    {JSON_ANY("attention")},
    {JSON_OPT_ANY("unfused_attention")},
    {JSON_OPT_ANY("fp16_attention")},
    {JSON_ANY("axes")},
    {JSON_OPT_BOOL(struct stack, experts_only_when_named)},
    {JSON_OPT_ANY("tp_kinds")},
    {JSON_ANY("cp_kinds")},
    {JSON_BOOL(struct stack, cp_zigzag)},
    {JSON_BOOL(struct stack, sequence_parallel)},
    {JSON_OPT_BOOL(struct stack, adapters)},
    {JSON_OPT_BOOL(struct stack, stages_by_flop)},
    {JSON_OPT_BOOL(struct stack, order_fixed)},
    {JSON_OPT_BOOL(struct stack, fills_pipeline)},
    {JSON_OPT_BOOL(struct stack, fills_1f1b)},
    {JSON_OPT_BOOL(struct stack, splits_experts_as_tp)},
    {JSON_ANY("overlap")},
    {JSON_ANY("overlap_default")},
    {JSON_OPT_ANY("exposed_zero_stages")},
    {JSON_ANY("passes")},
    {JSON_OPT_ANY("joins")},
    {JSON_OPT_ANY("offload")},
    {JSON_OPT_ANY("offload_zero_stages")},
    {JSON_OPT_ANY("parameter_zero_stages")},
    {JSON_OPT_ANY("nvme_zero_stages")},
    {JSON_OPT_ANY("gradients_leave_zero_stages")},
    {JSON_ANY("fp8_gemms")},
    {JSON_ANY("fp4_gemms")},
    {JSON_OPT_TEXT(struct stack, flags_of)},
    {JSON_OPT_TEXT(struct stack, flags_joined)},
    {JSON_OPT_ANY("flags")},
    {JSON_F64(struct stack, gemm_scale, 0.05, 4)},
    {JSON_F64(struct stack, attention_forward_scale, 0.05, 4)},
    {JSON_F64(struct stack, attention_backward_scale, 0.05, 4)},
    {JSON_F64(struct stack, attention_flop_per_s_most, 0, 1e18)},
    {JSON_OPT_BOOL(struct stack, attention_native_with_fp4)},
    {JSON_F64(struct stack, element_wise_scale, 0.05, 4)},
    {JSON_F64(struct stack, host_op_s, 0, 1)},
    {JSON_OPT_F64(struct stack, host_norm, 1, 64)},
    {JSON_OPT_F64(struct stack, pipeline_sync_s, 0, 1)},
    {JSON_OPT_F64(struct stack, node_sync_s, 0, 1)},
    {JSON_F64(struct stack, host_task_s, 0, 1)},
    {JSON_F64(struct stack, unaligned_gemm_ratio, 0.05, 1)},
    {JSON_F64(struct stack, grouped_gemm_ratio, 0.05, 1)},
    {JSON_BOOL(struct stack, grouped_gemm_fused)},
    {JSON_F64(struct stack, permute_passes, 0, 8)},
    {JSON_F64(struct stack, route_kernels, 0, 64)},
    {JSON_F64(struct stack, expert_host_s, 0, 1)},
    {JSON_F64(struct stack, expert_stash_ratio, 0, 1)},
    {JSON_F64(struct stack, expert_graph_host_ratio, 0, 1)},
    {JSON_BOOL(struct stack, expert_graph)},
    {JSON_BOOL(struct stack, expert_fusion)},
    {JSON_OPT_BOOL(struct stack, expert_attention)},
    {JSON_OPT_BOOL(struct stack, narrow_head)},
    {JSON_BOOL(struct stack, dispatch_once)},
    {JSON_F64(struct stack, cast_bytes, 0, 64)},
    {JSON_F64(struct stack, cast_kernels, 0, 16)},
    {JSON_BOOL(struct stack, low_precision_gathers)},
    {JSON_BOOL(struct stack, cached_weight_cast)},
    {JSON_OPT_BOOL(struct stack, narrow_weights)},
    {JSON_BOOL(struct stack, delayed_scaling)},
    {JSON_OPT_F64(struct stack, loss_forward_bytes, 2, 256)},
    {JSON_OPT_F64(struct stack, loss_backward_bytes, 2, 256)},
    {JSON_OPT_F64(struct stack, accumulate_bytes, 2, 64)},
    {JSON_F64(struct stack, gradient_passes, 0, 16)},
    {JSON_F64(struct stack, overlap_ratio, 0, 1)},
    {JSON_F64(struct stack, tp_overlap_ratio, 0, 1)},
    {JSON_F64(struct stack, ep_overlap_ratio, 0, 1)},
    {JSON_BOOL(struct stack, ep_overlap_interleaved)},
    {JSON_F64(struct stack, expert_comm_units, 0, 1024)},
    {JSON_F64(struct stack, contention_ratio, 0, 1)},
    {JSON_F64(struct stack, network_scale, 0.05, 4)},
    {JSON_OPT_F64(struct stack, copy_ratio, 0.05, 1)},
    {JSON_OPT_F64(struct stack, host_update_ratio, 0.01, 1)},
    {JSON_F64(struct stack, step_overhead_s, 0, 1000)},
    {JSON_F64(struct stack, reduce_bytes, 1, 8)},
    {JSON_BOOL(struct stack, merge_contractions)},
    {JSON_OPT_BOOL(struct stack, gathers_each)},
    {JSON_OPT_BOOL(struct stack, lays_out)},
    {JSON_BOOL(struct stack, fp32_gradient_accumulation)},
    {JSON_BOOL(struct stack, dropout)},
    {JSON_BOOL(struct stack, vocab_parallel)},
    {JSON_BOOL(struct stack, accumulates_whole)},
    {JSON_OPT_BOOL(struct stack, accumulates_in_pipeline)},
    {JSON_BOOL(struct stack, owned_tensors)},
    {JSON_BOOL(struct stack, pipeline_scatter)},
    {JSON_BOOL(struct stack, post_validation)},
    {JSON_OPT_BOOL(struct stack, searched_zero_bubble)},
    {JSON_BOOL(struct stack, dummy_gradient)},
    {JSON_OPT_BOOL(struct stack, fp32_weights)},
    {JSON_OPT_BOOL(struct stack, score_buffer)},
    {JSON_OPT_BOOL(struct stack, walks_scans)},
    {JSON_I64(struct stack, bucket_bytes, 1, 1e15)},
    {JSON_F64(struct stack, bucket_bytes_per_rank, 0, 1e12)},
    {JSON_F64(struct stack, gradient_bytes, 1, 8)},
    {JSON_OPT_F64(struct stack, fp16_gradient_bytes, 1, 8)},
    {JSON_F64(struct stack, master_bytes, 0, 8)},
    {JSON_F64(struct stack, moment_bytes, 1, 8)},
    {JSON_OPT_F64(struct stack, reduce_buffer_bytes, 1, 8)},
    {JSON_F64(struct stack, logits_bytes_per_element, 2, 16)},
    {JSON_OPT_F64(struct stack, left_logits_bytes, 1, 16)},
    {JSON_OPT_BOOL(struct stack, keeps_gathers)},
    {JSON_OPT_BOOL(struct stack, regathers_between_nodes)},
    {JSON_I64(struct stack, reserve_bytes, 0, 1e12)},
    {JSON_F64(struct stack, reserve_ratio, 0, 1)},
    {JSON_OPT_F64(struct stack, pipeline_reserve_ratio, 0, 1)},
    {JSON_ANY("provenance")},
    {0},
};

const struct json_field *stack_fields(void)
{
    return FIELDS;
}

struct stack *stack_copy(struct arena *arena, const struct stack *stack)
{
    struct stack *copy = ARENA_NEW(arena, struct stack, 1);
    *copy = *stack;
    return copy;
}

static const char *schedule_text(int bit)
{
    return schedule_name((enum schedule_kind)bit);
}

static const char *recompute_text(int bit)
{
    return recompute_name((enum recompute)bit);
}

static const char *attention_text(int bit)
{
    return attention_name((enum attention)bit);
}

static const char *unfused_bit(int bit)
{
    return unfused_name((enum unfused)bit);
}

static const char *class_text(int bit)
{
    return op_class_name((enum op_class)bit);
}

static const char *axis_text(int bit)
{
    return axis_name((enum axis)bit);
}

static const char *tp_kind_text(int bit)
{
    return tp_kind_name((enum tp_kind)bit);
}

static const char *cp_kind_text(int bit)
{
    return cp_kind_name((enum cp_kind)bit);
}

static const char *pass_text(int bit)
{
    return pass_name((enum pass)bit);
}

static const char *join_text(int bit)
{
    return join_name((enum join)bit);
}

static const char *offload_text(int bit)
{
    static const char *const NAMES[OFFLOADS_COUNT] = {
        [OFFLOADS_OPTIMIZER] = "optimizer",
        [OFFLOADS_OPTIMIZER_NVME] = "optimizer@nvme",
        [OFFLOADS_ACTIVATIONS] = "activations",
        [OFFLOADS_ACTIVATIONS_NVME] = "activations@nvme",
        [OFFLOADS_CHECKPOINTS] = "checkpoints",
        [OFFLOADS_CHECKPOINTS_NVME] = "checkpoints@nvme",
        [OFFLOADS_CLASSES] = "classes",
        [OFFLOADS_PARAMETERS] = "parameters",
        [OFFLOADS_PARAMETERS_NVME] = "parameters@nvme",
        [OFFLOADS_GRADIENTS] = "gradients",
    };
    assert(bit >= 0 && bit < OFFLOADS_COUNT);
    return NAMES[bit];
}

static const char *phase_text(int bit)
{
    static const char *const NAMES[PHASE_COUNT] = {"forward", "backward", "weight"};
    return NAMES[bit];
}

static const char *device_kind_text(int bit)
{
    static const char *const NAMES[DEVICE_KIND_COUNT] = {"gpu", "npu", "cpu", "tpu", "hpu"};
    return NAMES[bit];
}

// Arrays of names, kept as a mask; without `name` of whole numbers. `first` is the lowest bit that
// may be named.
static const struct mask_field {
    const char *key;
    size_t offset;
    int first, count;
    const char *(*name)(int bit);
    bool may_be_empty;
    const char *ability;  // what stands before "=NAME" of one; "": nothing; NULL: it is none
} MASKS[] = {
    {"device_kinds", offsetof(struct stack, device_kinds), 0, DEVICE_KIND_COUNT, device_kind_text,
     true, NULL},
    {"schedules", offsetof(struct stack, schedules), 0, SCHEDULE_KIND_COUNT, schedule_text, true,
     "schedule"},
    {"zero_stages", offsetof(struct stack, zero_stages), 0, 4, NULL, false, "zero"},
    {"zero_stages_with_pipeline", offsetof(struct stack, zero_stages_with_pipeline), 0, 4, NULL,
     true, NULL},
    {"zero_stages_grouped", offsetof(struct stack, zero_stages_grouped), 0, 4, NULL, true, NULL},
    {"exposed_zero_stages", offsetof(struct stack, exposed_zero_stages), 0, 4, NULL, true, NULL},
    {"recompute", offsetof(struct stack, recompute), 0, RECOMPUTE_COUNT, recompute_text, false,
     "recompute"},
    {"recompute_whole", offsetof(struct stack, recompute_whole), 0, RECOMPUTE_COUNT, recompute_text,
     true, NULL},
    {"recompute_classes", offsetof(struct stack, recompute_classes), OP_CLASS_NONE + 1,
     OP_CLASS_COUNT, class_text, true, "recompute"},
    {"expert_recompute_classes", offsetof(struct stack, expert_recompute_classes),
     OP_CLASS_NONE + 1, OP_CLASS_COUNT, class_text, true, "recompute"},
    {"attention", offsetof(struct stack, attention), 0, ATTENTION_COUNT, attention_text, false,
     "attention"},
    {"unfused_attention", offsetof(struct stack, unfused_attention), 0, UNFUSED_COUNT, unfused_bit,
     true, NULL},
    {"fp16_attention", offsetof(struct stack, fp16_attention), 0, ATTENTION_COUNT, attention_text,
     true, NULL},
    {"axes", offsetof(struct stack, axes), 0, AXIS_COUNT, axis_text, true, ""},
    {"tp_kinds", offsetof(struct stack, tp_kinds), 0, TP_KIND_COUNT, tp_kind_text, false, NULL},
    {"cp_kinds", offsetof(struct stack, cp_kinds), 0, CP_KIND_COUNT, cp_kind_text, true, "cp-kind"},
    {"passes", offsetof(struct stack, passes), 0, PASS_COUNT, pass_text, true, NULL},
    {"joins", offsetof(struct stack, joins), 0, JOIN_COUNT, join_text, true, NULL},
    {"offload", offsetof(struct stack, offload), 0, OFFLOADS_COUNT, offload_text, true, "offload"},
    {"offload_zero_stages", offsetof(struct stack, offload_zero_stages), 0, 4, NULL, true, NULL},
    {"parameter_zero_stages", offsetof(struct stack, parameter_zero_stages), 0, 4, NULL, true,
     NULL},
    {"nvme_zero_stages", offsetof(struct stack, nvme_zero_stages), 0, 4, NULL, true, NULL},
    {"gradients_leave_zero_stages", offsetof(struct stack, gradients_leave_zero_stages), 0, 4, NULL,
     true, NULL},
    {"fp8_gemms", offsetof(struct stack, fp8_gemms), 0, PHASE_COUNT, phase_text, true, NULL},
    {"fp4_gemms", offsetof(struct stack, fp4_gemms), 0, PHASE_COUNT, phase_text, true, NULL},
};

enum { MASK_COUNT = sizeof MASKS / sizeof *MASKS };

static unsigned *mask_of(struct stack *stack, const struct mask_field *field)
{
    return (unsigned *)((char *)stack + field->offset);
}

static unsigned read_bit(const struct json *item, const struct mask_field *field, struct err *err)
{
    if (!field->name) return 1u << json_i64(item, 0, field->count - 1, err);
    const char *text = json_text(item, err);
    for (int bit = field->first; bit < field->count && !err->kind; bit++)
        if (strcmp(field->name(bit), text) == 0) return 1u << bit;
    char known[256] = "";
    for (int bit = field->first; bit < field->count; bit++) {
        if (bit > field->first) strncat(known, ", ", sizeof known - strlen(known) - 1);
        strncat(known, field->name(bit), sizeof known - strlen(known) - 1);
    }
    json_fail(item, err, "expected one of %s, found \"%s\"", known, text ? text : "");
    return 0;
}

static unsigned read_mask(const struct json *object, const struct mask_field *field,
                          struct err *err)
{
    struct json list = json_get(object, field->key, err);
    int count = json_count(&list, err);
    unsigned mask = 0;
    for (int i = 0; i < count && !err->kind; i++) {
        struct json item = json_item(&list, i);
        mask |= read_bit(&item, field, err);
    }
    return mask;
}

static unsigned read_overlap(const struct json *object, const char *key, struct err *err)
{
    struct json value = json_get(object, key, err);
    const char *text = json_text(&value, err);
    unsigned overlap = 0;
    if (!err->kind && !overlap_parse(text, &overlap)) {
        json_fail(&value, err,
                  "expected none or some of grad-reduce,param-gather,tp,pp,cp,ep, found \"%s\"",
                  text);
    }
    return overlap;
}

// Slower than any processor in use: what a slip in the exponent leaves.
static const double FLOP_PER_S_LEAST = 1e9;

// What moves something says how fast, and nothing else does.
static void check_offload(const struct stack *stack, const struct json *object, struct err *err)
{
    const unsigned states = 1u << OFFLOADS_OPTIMIZER | 1u << OFFLOADS_OPTIMIZER_NVME;
    bool moves_states = (stack->offload & states) != 0;
    if ((stack->offload != 0) != (stack->copy_ratio > 0))
        json_fail(object, err, "expected copy_ratio where offload has some and nowhere else");
    if (moves_states != (stack->host_update_ratio > 0))
        json_fail(object, err,
                  "expected host_update_ratio where offload has optimizer and nowhere else");
    if (stack->gradients_leave_zero_stages && !(stack->offload >> OFFLOADS_GRADIENTS & 1))
        json_fail(object, err, "expected gradients in offload beside gradients_leave_zero_stages");
}

// What no single field can say.
static void check(const struct stack *stack, const struct json *object, struct err *err)
{
    for (int i = 0; i < MASK_COUNT && !err->kind; i++) {
        if (MASKS[i].may_be_empty || *mask_of((struct stack *)stack, &MASKS[i])) continue;
        struct json at = json_get(object, MASKS[i].key, err);
        json_fail(&at, err, "expected at least one");
    }
    double flop_per_s = stack->attention_flop_per_s_most;
    if (!err->kind && flop_per_s > 0 && flop_per_s < FLOP_PER_S_LEAST) {
        struct json at = json_get(object, "attention_flop_per_s_most", err);
        json_fail(&at, err, "expected 0 (no limit) or at least 1e9, found %g", flop_per_s);
    }
    if (!err->kind && stack->zero_stages_with_pipeline & ~stack->zero_stages) {
        struct json at = json_get(object, "zero_stages_with_pipeline", err);
        json_fail(&at, err, "expected a subset of zero_stages");
    }
    if (!err->kind && (stack->axes >> AXIS_CP & 1) != (stack->cp_kinds != 0)) {
        struct json at = json_get(object, "cp_kinds", err);
        json_fail(&at, err, "expected some where axes has cp and none elsewhere");
    }
    bool is_selective = stack->recompute >> RECOMPUTE_SELECTIVE & 1;
    if (!err->kind && is_selective != (stack->recompute_classes != 0)) {
        struct json at = json_get(object, "recompute_classes", err);
        json_fail(&at, err, "expected some where recompute has selective and none elsewhere");
    }
    if (!err->kind && stack->fp16_attention & ~stack->attention) {
        struct json at = json_get(object, "fp16_attention", err);
        json_fail(&at, err, "expected a subset of attention");
    }
    if (!err->kind) check_offload(stack, object, err);
    if (!err->kind && stack->overlap_default & ~stack->overlap) {
        struct json at = json_get(object, "overlap_default", err);
        json_fail(&at, err, "expected a subset of overlap");
    }
}

const struct stack *stack_read(struct arena *arena, const struct json *object, struct err *err)
{
    struct stack *stack = ARENA_NEW(arena, struct stack, 1);
    stack->tp_kinds = 1u << TP_1D;  // what files say nothing of that are older than the key
    json_read(object, FIELDS, stack, err);
    for (int i = 0; i < MASK_COUNT && !err->kind; i++) {
        if (!json_has(object, MASKS[i].key)) continue;  // optional
        *mask_of(stack, &MASKS[i]) = read_mask(object, &MASKS[i], err);
    }
    stack_read_aliases(arena, object, stack, err);
    stack_read_releases(arena, object, stack, err);
    if (!err->kind) stack->overlap = read_overlap(object, "overlap", err);
    if (!err->kind) stack->overlap_default = read_overlap(object, "overlap_default", err);
    if (!err->kind) check(stack, object, err);
    if (!err->kind) stack_read_flags(arena, object, stack, err);
    struct provenance_list list = {0};
    if (!err->kind) list = provenance_read(arena, object, "stack", err);
    stack->provenance = list.entries;
    stack->provenance_count = list.count;
    return err->kind ? NULL : stack;
}

static void write_mask(struct json_writer *writer, const struct stack *stack,
                       const struct mask_field *field)
{
    unsigned mask = *mask_of((struct stack *)stack, field);
    json_open_flat(writer, field->key, '[');
    for (int bit = field->first; bit < field->count; bit++) {
        if (!(mask >> bit & 1)) continue;
        if (field->name) {
            json_put_text(writer, NULL, field->name(bit));
        } else {
            json_put_i64(writer, NULL, bit);
        }
    }
    json_close(writer, ']');
}

enum { ABILITY_MAX = 128 };

const char **stack_abilities(struct arena *arena, const struct stack *stack, int *count)
{
    const char **names = ARENA_NEW(arena, const char *, ABILITY_MAX);
    *count = 0;
    for (int i = 0; i < MASK_COUNT; i++) {
        const struct mask_field *field = &MASKS[i];
        unsigned mask = field->ability ? *mask_of((struct stack *)stack, field) : 0;
        bool has_none =
            field->first == 0 && field->ability && (!field->name || field->name == recompute_text);
        for (int bit = has_none ? 1 : 0; mask >> bit; bit++) {
            if (!(mask >> bit & 1)) continue;
            const char *name = field->name ? field->name(bit) : arena_print(arena, "%d", bit);
            if (*field->ability) name = arena_print(arena, "%s=%s", field->ability, name);
            names[(*count)++] = name;
        }
    }
    for (unsigned bit = 0; stack->overlap >> bit; bit++) {
        if (!(stack->overlap >> bit & 1)) continue;
        names[(*count)++] = arena_print(arena, "overlap=%s", overlap_text(arena, 1u << bit));
    }
    if (stack->sequence_parallel) names[(*count)++] = "sp=on";
    if (stack->adapters) names[(*count)++] = "lora";
    if (stack->fp8_gemms) names[(*count)++] = "precision=fp8";
    if (stack->fp4_gemms) names[(*count)++] = "precision=fp4";
    if (stack->narrow_weights) names[(*count)++] = "narrow-weights";
    assert(*count <= ABILITY_MAX);
    return names;
}

// The members that FIELDS leaves to be written by hand.
static void write_any(struct json_writer *writer, const struct stack *stack, const char *key)
{
    struct arena *arena = writer->arena;
    for (int i = 0; i < MASK_COUNT; i++) {
        if (strcmp(MASKS[i].key, key) == 0) write_mask(writer, stack, &MASKS[i]);
    }
    if (strcmp(key, "overlap") == 0) {
        json_put_text(writer, key, overlap_text(arena, stack->overlap));
    } else if (strcmp(key, "overlap_default") == 0) {
        json_put_text(writer, key, overlap_text(arena, stack->overlap_default));
    } else if (strcmp(key, "aliases") == 0) {
        stack_write_aliases(writer, stack);
    } else if (strcmp(key, "flags") == 0) {
        stack_write_flags(writer, stack);
    } else if (strcmp(key, "provenance") == 0) {
        stack_write_provenance(writer, stack);
    }
}

static bool has_any(const struct stack *stack, const char *key)
{
    bool found = (strcmp(key, "aliases") == 0 && stack->alias_count > 0) ||
                 (strcmp(key, "flags") == 0 && stack->flag_count > 0);
    for (int i = 0; i < MASK_COUNT; i++) {
        bool is_set = *mask_of((struct stack *)stack, &MASKS[i]) != 0;
        found = found || (is_set && strcmp(MASKS[i].key, key) == 0);
    }
    return found;
}

void stack_write(struct json_writer *writer, const char *key, const struct stack *stack)
{
    json_open(writer, key, '{');
    const struct json_field *field = json_put_fields(writer, FIELDS, stack);
    for (; field->key; field = json_put_fields(writer, field + 1, stack)) {
        if (!field->optional || has_any(stack, field->key)) write_any(writer, stack, field->key);
    }
    json_close(writer, '}');
}

unsigned stack_joins(const struct stack *stack)
{
    unsigned joins = stack->joins ? stack->joins : 1u << JOIN_CHAIN;
    joins |= (unsigned)stack->gathers_each << JOIN_APART;
    return joins | (unsigned)stack->merge_contractions << JOIN_MERGED;
}
