#include "reports/comparison/run_compare.h"
#include "simulator/engine.h"
#include "simulator/timeline.h"

#include <assert.h>
#include <string.h>

// Two timelines in one: predicted rank r (one a stage) is process r, measured ranks come behind.
struct overlay {
    struct trace predicted, measured;
};

// Which of the two a span of the overlay is of.
static const struct trace *half_of(const struct overlay *overlay, const struct span *span)
{
    assert(span->rank >= 0 &&
           span->rank < overlay->predicted.rank_count + overlay->measured.rank_count);
    return span->rank < overlay->predicted.rank_count ? &overlay->predicted : &overlay->measured;
}

static const char *task_name(const void *context, const struct span *span, struct arena *scratch)
{
    const struct trace *half = half_of(context, span);
    return half->task_name(half->context, span, scratch);
}

static const char *track_name(const void *context, const struct span *span)
{
    const struct trace *half = half_of(context, span);
    return half->track_name(half->context, span);
}

static const char *rank_name(const void *context, int rank, struct arena *scratch)
{
    int predicted = ((const struct overlay *)context)->predicted.rank_count;
    return rank < predicted ? arena_print(scratch, "predicted, rank %d of the pipeline", rank)
                            : arena_print(scratch, "measured, rank %d", rank - predicted);
}

static void span_args(const void *context, int64_t index, struct json_writer *writer)
{
    const struct overlay *overlay = context;
    int64_t count = overlay->predicted.span_count;
    assert(index >= 0 && index < count + overlay->measured.span_count);
    const struct trace *half = index < count ? &overlay->predicted : &overlay->measured;
    half->span_args(half->context, index < count ? index : index - count, writer);
}

static int span_parts(const void *context, int64_t index, struct arena *scratch,
                      struct span_part **parts)
{
    const struct trace *predicted = &((const struct overlay *)context)->predicted;
    if (index >= predicted->span_count) return 0;
    return predicted->span_parts(predicted->context, index, scratch, parts);
}

static void join_spans(struct arena *arena, const struct overlay *both, struct trace *shown)
{
    const struct trace *above = &both->predicted, *below = &both->measured;
    shown->spans = ARENA_NEW(arena, struct span, above->span_count + below->span_count);
    memcpy(shown->spans, above->spans, (size_t)above->span_count * sizeof *shown->spans);
    shown->span_count = above->span_count;
    for (int64_t i = 0; i < below->span_count; i++) {
        struct span *span = &shown->spans[shown->span_count++];
        *span = below->spans[i];
        span->rank += above->rank_count;
    }
}

// Arrows go between spans by their numbers, which those of the other half move.
static void join_flows(struct arena *arena, const struct overlay *both, struct trace *shown)
{
    const struct trace *above = &both->predicted, *below = &both->measured;
    struct trace_flow *flows =
        ARENA_NEW(arena, struct trace_flow, above->flow_count + below->flow_count);
    for (int64_t i = 0; i < above->flow_count; i++)
        flows[shown->flow_count++] = above->flows[i];
    for (int64_t i = 0; i < below->flow_count; i++) {
        struct trace_flow *flow = &flows[shown->flow_count++];
        *flow = below->flows[i];
        flow->from += above->span_count;
        flow->to += above->span_count;
    }
    assert(shown->flow_count == above->flow_count + below->flow_count);
    shown->flows = flows;
}

// Levels go by ranks, as spans do.
static void join_levels(struct arena *arena, const struct overlay *both, struct trace *shown)
{
    const struct trace *above = &both->predicted, *below = &both->measured;
    struct trace_level *levels =
        ARENA_NEW(arena, struct trace_level, above->level_count + below->level_count);
    for (int64_t i = 0; i < above->level_count; i++)
        levels[shown->level_count++] = above->levels[i];
    for (int64_t i = 0; i < below->level_count; i++) {
        struct trace_level *level = &levels[shown->level_count++];
        *level = below->levels[i];
        level->rank += above->rank_count;
    }
    assert(shown->level_count == above->level_count + below->level_count);
    shown->levels = levels;
}

struct trace run_overlay(struct arena *arena, struct arena *scratch,
                         const struct run_compare *compare)
{
    const struct evaluation *evaluation = compare->evaluation;
    struct overlay *both = ARENA_NEW(arena, struct overlay, 1);
    both->predicted = timeline_make(arena, scratch, compare->request, evaluation,
                                    &evaluation->simulation->trace, true);
    both->measured =
        timeline_measured(arena, scratch, compare->request, evaluation, &compare->result->trace);
    struct trace shown = {.rank_count = both->predicted.rank_count + both->measured.rank_count,
                          .task_name = task_name,
                          .track_name = track_name,
                          .rank_name = rank_name,
                          .span_args = span_args,
                          .span_parts = span_parts,
                          .context = both};
    join_spans(arena, both, &shown);
    join_flows(arena, both, &shown);
    join_levels(arena, both, &shown);
    return shown;
}
