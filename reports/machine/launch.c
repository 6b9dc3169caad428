#include "reports/machine/launch.h"

#include "plan/layout/mesh.h"

#include <assert.h>
#include <string.h>

enum { FLAG_MAX = 64 };

struct list {
    struct arena *arena;
    const struct stack *stack;
    struct launch_flags flags;
    int64_t group_count;  // of shards
};

// A number never holds what it stands for, so this ends.
static const char *replaced(struct arena *arena, const char *text, const char *what, int64_t value)
{
    for (const char *at = strstr(text, what); at; at = strstr(text, what)) {
        text = arena_print(arena, "%.*s%lld%s", (int)(at - text), text, (long long)value,
                           at + strlen(what));
    }
    return text;
}

// "--recompute-modules core_attn" and "--recompute-modules layernorm" are one flag with two words.
static bool joins(struct list *list, const char *flag)
{
    size_t length = strcspn(flag, " ");
    for (int i = 0; i < list->flags.count && flag[length]; i++) {
        const char *other = list->flags.items[i];
        if (strncmp(other, flag, length + 1) != 0) continue;
        if (strcmp(other, flag) != 0) {
            const char *joined = list->stack->flags_joined;
            list->flags.items[i] =
                arena_print(list->arena, "%s%s%s", other, joined ? joined : " ", flag + length + 1);
        }
        return true;
    }
    return false;
}

static void put(struct list *list, const char *ability, int64_t value)
{
    assert(list->flags.count <= FLAG_MAX);
    const char *flag = stack_flag_of(list->stack, ability);
    if (!flag || *flag == '(') return;
    flag = replaced(list->arena, flag, "{}", value);
    flag = replaced(list->arena, flag, "{groups}", list->group_count);
    if (joins(list, flag) || list->flags.count == FLAG_MAX) return;
    list->flags.items[list->flags.count++] = flag;
}

static void put_word(struct list *list, const char *key, const char *word)
{
    put(list, arena_print(list->arena, "%s=%s", key, word), 0);
}

// In the order of a plan's choices, whatever the order of the stack's table.
static void put_mesh(struct list *list, const struct parallel *parallel)
{
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        if (parallel->degree[axis] == 1) continue;
        put(list, axis_name((enum axis)axis), parallel->degree[axis]);
    }
    if (parallel->tp_kind != TP_1D) put_word(list, "tp-kind", tp_kind_name(parallel->tp_kind));
    if (parallel->sp) put_word(list, "sp", "on");
    if (parallel->lora.rank > 0) put(list, "lora", parallel->lora.rank);
    if (parallel->degree[AXIS_CP] > 1) put_word(list, "cp-kind", cp_kind_name(parallel->cp_kind));
    if (parallel->degree[AXIS_PP] > 1) {
        put_word(list, "schedule", schedule_name(parallel->schedule));
        if (parallel->vpp > 1) put(list, "vpp", parallel->vpp);
        if (parallel->in_flight > 0) put(list, "in-flight", parallel->in_flight);
        if (parallel->stage_layers_count > 0) put(list, "stages", 0);
    }
    if (parallel->zero > 0) put(list, arena_print(list->arena, "zero=%d", parallel->zero), 0);
    if (parallel->zero > 0 && parallel->zero_group > 0) {
        put(list, "zero-group", parallel->zero_group);
    }
    if (parallel->zero > 1 && parallel->zero_gradients > 0)
        put(list, "zero-gradients", parallel->zero_gradients);
    if (parallel->zero > 2 && parallel->zero_parameters > 0)
        put(list, "zero-parameters", parallel->zero_parameters);
}

// Of whole layers a number, or the word; of classes the kind and each class.
static void put_recompute(struct list *list, const struct parallel *parallel)
{
    bool is_part = parallel->recompute == RECOMPUTE_FULL && parallel->recompute_layers >= 0;
    if (is_part) put(list, "recompute-layers", parallel->recompute_layers);
    if (parallel->recompute == RECOMPUTE_NONE || is_part) return;
    put_word(list, "recompute", recompute_name(parallel->recompute));
    if (parallel->recompute != RECOMPUTE_SELECTIVE) return;
    unsigned classes = parallel->recompute_classes;
    if (!classes) classes = 1u << OP_CLASS_ATTENTION;
    for (int class = 1; class < OP_CLASS_COUNT; class ++) {
        if (classes >> class & 1) put_word(list, "recompute", op_class_name((enum op_class) class));
    }
}

static void put_offload(struct list *list, const struct offload *offload)
{
    static const char *const STATES[] = {"", "optimizer", "optimizer@nvme"};
    if (offload->optimizer != TIER_DEVICE) {
        put_word(list, "offload", STATES[offload->optimizer == TIER_NVME ? 2 : 1]);
    }
    if (offload_moves_parameters(offload))
        put_word(list, "offload",
                 offload->parameters == TIER_NVME ? "parameters@nvme" : "parameters");
    if (offload_moves_gradients(offload)) put_word(list, "offload", "gradients");
    if (!offload_moves_activations(offload)) return;
    const char *at = offload->activations == TIER_NVME ? "@nvme" : "";
    put(list, arena_print(list->arena, "offload=activations%s", at), offload->layers[0]);
    put_word(list, "offload", arena_print(list->arena, "checkpoints%s", at));
    for (int class = 1; class < OP_CLASS_COUNT; class ++) {
        if (offload->layers[class] == offload->layers[0]) continue;
        put_word(list, "offload", "classes");
        return;
    }
}

// Overlaps that have something to hide in this plan.
static void put_overlap(struct list *list, const struct parallel *parallel)
{
    const int *degree = parallel->degree;
    const struct {
        unsigned overlap;
        bool applies;
    } rows[] = {
        {OVERLAP_GRAD_REDUCE, degree[AXIS_DP] * degree[AXIS_CP] > 1},
        {OVERLAP_PARAM_GATHER, parallel->zero > 0},
        {OVERLAP_TP, parallel->sp},
        {OVERLAP_PP, degree[AXIS_PP] > 1},
        {OVERLAP_CP, degree[AXIS_CP] > 1},
        {OVERLAP_EP, degree[AXIS_EP] > 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].applies || !(parallel->overlap & rows[i].overlap)) continue;
        put_word(list, "overlap", overlap_text(list->arena, rows[i].overlap));
    }
}

struct launch_flags launch_flags(struct arena *arena, const struct stack *stack,
                                 const struct parallel *parallel, const struct workload *workload)
{
    int64_t ranks = parallel->degree[AXIS_DP] * (int64_t)parallel->degree[AXIS_CP];
    int64_t group = mesh_shard_ranks(parallel, STORED_GRADIENTS);
    assert(group > 0 && ranks > 0);
    struct list list = {
        .arena = arena,
        .stack = stack,
        .flags = {ARENA_NEW(arena, const char *, FLAG_MAX), 0},
        .group_count = ranks / group,
    };
    put_mesh(&list, parallel);
    bool has_own = parallel->degree[AXIS_PP] > 1 && stack_flag_of(stack, "pipeline-micro-batch");
    put(&list, has_own ? "pipeline-micro-batch" : "micro-batch", parallel->micro_batch);
    put(&list, "global-batch", workload->global_batch);
    put(&list, "seq-len", workload->seq_len);
    put_word(&list, "precision", precision_name(workload->precision));
    if (stack_has_narrow_weights(stack, workload->precision, parallel->zero))
        put(&list, "narrow-weights", 0);
    put_word(&list, "attention", attention_name(parallel->attention));
    put_recompute(&list, parallel);
    put_offload(&list, &parallel->offload);
    put_overlap(&list, parallel);
    return list.flags;
}

const char *launch_text(struct arena *arena, const struct stack *stack,
                        const struct parallel *parallel, const struct workload *workload)
{
    struct launch_flags flags = launch_flags(arena, stack, parallel, workload);
    const char *text = "";
    for (int i = 0; i < flags.count; i++) {
        text = arena_print(arena, "%s%s%s", text, i ? " " : "", flags.items[i]);
    }
    return text;
}
