#include "reports/table/layout_legend.h"

#include <assert.h>

// The words of --help: an axis that is added is explained here as well.
static const char *const AXIS_HELP[AXIS_COUNT] = {
#define CHOICE_DEGREE(id, help) [AXIS_##id] = (help),
#include "plan/choices.inc"
};

// Axes of one rank have no place in the order.
static bool is_default_order(const struct parallel *parallel)
{
    assert(parallel->order_count <= AXIS_COUNT);
    struct parallel other = *parallel;
    parallel_default_order(&other);
    int used[2][AXIS_COUNT], counts[2] = {0};
    const struct parallel *orders[] = {parallel, &other};
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < orders[i]->order_count; j++) {
            enum axis axis = orders[i]->order[j];
            if (parallel->degree[axis] > 1) used[i][counts[i]++] = (int)axis;
        }
    }
    for (int j = 0; j < counts[0] && j < counts[1]; j++) {
        if (used[0][j] != used[1][j]) return false;
    }
    return true;
}

bool parallel_is_unfused(const struct parallel *parallel, const struct stack *stack)
{
    return stack && parallel->attention == ATTENTION_UNFUSED &&
           stack->attention >> ATTENTION_FLASH & 1;
}

bool parallel_has_other_passes(const struct parallel *parallel, const struct stack *stack)
{
    return stack && parallel->passes != stack->passes;
}

void layout_legend_meet(struct layout_legend *legend, const struct parallel *parallel,
                        const struct stack *stack)
{
    assert(parallel->micro_batch > 0);
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        bool always = axis == AXIS_TP || axis == AXIS_PP || axis == AXIS_DP;
        if (always || parallel->degree[axis] > 1) legend->seen[axis] = true;
    }
    legend->any = true;
    legend->sp |= parallel->sp;
    legend->zero_group |= parallel->zero_group > 0;
    legend->zero_parts |= parallel->zero_gradients > 0 || parallel->zero_parameters > 0;
    legend->vpp |= parallel->vpp > 1;
    legend->schedule |= parallel->degree[AXIS_PP] > 1 && parallel->schedule != SCHEDULE_1F1B &&
                        parallel->schedule != SCHEDULE_INTERLEAVED;
    legend->recompute |= parallel->recompute == RECOMPUTE_FULL;
    legend->recompute |= parallel->recompute == RECOMPUTE_SELECTIVE;
    legend->per_op |= parallel->recompute == RECOMPUTE_PER_OP;
    legend->recompute_layers |=
        parallel->recompute != RECOMPUTE_NONE && parallel->recompute_layers >= 0;
    legend->offload |= !offload_is_none(&parallel->offload);
    legend->unfused |= parallel_is_unfused(parallel, stack);
    legend->lora |= parallel->lora.rank > 0;
    legend->loss |= parallel->loss_chunks > 1;
    legend->passes |= parallel_has_other_passes(parallel, stack);
    legend->relay |= parallel->tp_relay > 1;
    legend->overlap |= parallel->overlap != stack_overlap_default(stack, parallel->tp_relay);
    legend->bucket |= parallel->bucket_bytes > 0;
    legend->uneven |= parallel->stage_layers_count > 0;
    legend->batches |= parallel->replica_count > 0;
    legend->meshes |= parallel_has_meshes(parallel);
    legend->branches |= parallel->branches;
    legend->laid_out |= parallel->layout_count > 0;
    legend->order |= !is_default_order(parallel);
}

const char *layout_legend_text(struct arena *arena, const struct layout_legend *legend)
{
    if (!legend->any) return "";
    const char *text = "   layout:", *data = "", *gap = " ";
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        if (!legend->seen[axis]) continue;
        const char *sp = axis == AXIS_TP && legend->sp ? "; sp sequence parallel beside it" : "";
        const char *words = arena_print(arena, "%s %s%s", axis_name(axis), AXIS_HELP[axis], sp);
        // As in the layout itself, data parallelism comes last.
        if (axis == AXIS_DP) data = arena_print(arena, "; %s", words);
        if (axis != AXIS_DP) text = arena_print(arena, "%s%s%s", text, gap, words), gap = "; ";
    }
    text = arena_print(arena, "%s%s; mb sequences of a micro-batch; z stage of ZeRO", text, data);
    const struct {
        bool is_met;
        const char *words;
    } rest[] = {
        {legend->zero_group, "/8 sharded over so many ranks"},
        {legend->zero_parts, "g8 p8 gradients and parameters over so many"},
        {legend->vpp, "v model chunks of a stage"},
        {legend->schedule, "gpipe or zb the schedule"},
        {legend->recompute, "full, selective or classes of operators recomputed"},
        {legend->per_op, "per-op all but attention and every second product recomputed"},
        {legend->recompute_layers, ":1 in so many layers of each stage"},
        {legend->offload, "offload kept off the device"},
        {legend->unfused, "unfused attention by whole matrices of scores"},
        {legend->lora, "lora rank of the adapters that are trained"},
        {legend->loss, "loss/8 parts in which the scores of the loss are made"},
        {legend->passes, "passes all that is done to the graph"},
        {legend->relay, "relay parts in which what tp gathers is handed on"},
        {legend->overlap, "overlap all that runs beside compute"},
        {legend->bucket, "bucket bytes that are reduced in one message"},
        {legend->uneven, "uneven stages of unlike length"},
        {legend->batches, "batches 8x5+8x3 replicas and the micro-batches of each"},
        {legend->meshes, "stage-tp, stage-ranks tp and ranks of each stage"},
        {legend->branches, "branches of the model side by side, on stages of their own"},
        {legend->laid_out, "laid-out single operators laid out otherwise than the others"},
        {legend->order, "tp>pp>dp the axes from the nearest GPUs outward"},
    };
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        if (rest[i].is_met) text = arena_print(arena, "%s; %s", text, rest[i].words);
    }
    return arena_print(arena, "%s\n", text);
}
