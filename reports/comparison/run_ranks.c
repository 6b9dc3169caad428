#include "reports/comparison/run_ranks.h"
#include "core/sort.h"
#include "simulator/timeline.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { IN_COMPUTE = 1, IN_TASK = 2, BESIDE = 4, ANYTHING = 7 };

static int class_of(const struct schedule_shape *shape, const struct span *span)
{
    if (span->stream == STREAM_COMPUTE) return IN_COMPUTE;
    return task_id_of(shape, span->task).kind < SLOT_KIND_COUNT ? IN_TASK : BESIDE;
}

static int span_order(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

// In which any span of these classes runs; spans are those of one rank by their start.
static int64_t covered_ns(const struct schedule_shape *shape, const struct span *spans,
                          int64_t count, int classes)
{
    int64_t sum_ns = 0, until_ns = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!(class_of(shape, &spans[i]) & classes) || spans[i].end_ns <= until_ns) continue;
        int64_t from_ns = spans[i].start_ns > until_ns ? spans[i].start_ns : until_ns;
        sum_ns += spans[i].end_ns - from_ns;
        until_ns = spans[i].end_ns;
    }
    return sum_ns;
}

static void fill_times(const struct schedule_shape *shape, const struct span *spans, int64_t count,
                       int64_t step_ns, struct rank_times *times)
{
    int64_t all_ns = covered_ns(shape, spans, count, ANYTHING);
    // Of compute what no exchange inside a task takes.
    int64_t compute_ns = covered_ns(shape, spans, count, IN_COMPUTE | IN_TASK) -
                         covered_ns(shape, spans, count, IN_TASK);
    assert(compute_ns >= 0 && compute_ns <= all_ns && all_ns <= step_ns);
    times->compute_s = 1e-9 * (double)compute_ns;
    times->exchange_s = 1e-9 * (double)(all_ns - compute_ns);
    times->wait_s = 1e-9 * (double)(step_ns - all_ns);
    for (int64_t i = 0; i < count; i++)
        times->stream_s[spans[i].stream] += 1e-9 * (double)(spans[i].end_ns - spans[i].start_ns);
}

static int64_t last_end_ns(const struct trace *trace)
{
    int64_t end_ns = 0;
    for (int64_t i = 0; i < trace->span_count; i++)
        if (trace->spans[i].end_ns > end_ns) end_ns = trace->spans[i].end_ns;
    return end_ns;
}

// The ranks of a trace, one behind the other; returns how many.
static int times_of(struct arena *arena, struct arena *scratch, const struct schedule_shape *shape,
                    const struct trace *trace, struct rank_times **times)
{
    struct span *spans = ARENA_COPY(scratch, struct span, trace->spans, trace->span_count);
    qsort(spans, (size_t)trace->span_count, sizeof *spans, span_order);
    *times = ARENA_NEW(arena, struct rank_times, trace->rank_count);
    int64_t step_ns = last_end_ns(trace);
    int count = 0;
    for (int64_t first = 0, next; first < trace->span_count; first = next) {
        next = first;
        while (next < trace->span_count && spans[next].rank == spans[first].rank)
            next++;
        (*times)[count].rank = spans[first].rank;
        fill_times(shape, spans + first, next - first, step_ns, &(*times)[count++]);
    }
    assert(count <= trace->rank_count);
    return count;
}

// Stages have unlike work: a rank is behind where it is slower than those with the same.
static void compare_with_stage(struct arena *scratch, struct run_ranks *result)
{
    for (int i = 0; i < result->rank_count; i++) {
        struct arena_mark mark = arena_mark(scratch);
        double *alike = ARENA_NEW(scratch, double, result->rank_count);
        int count = 0;
        for (int other = 0; other < result->rank_count; other++)
            if (result->ranks[other].stage == result->ranks[i].stage)
                alike[count++] = result->ranks[other].compute_s;
        assert(count > 0 && "a rank is of its own stage");
        double median = sort_median(alike, (size_t)count);
        if (median > 0) result->ranks[i].behind_ratio = result->ranks[i].compute_s / median - 1;
        arena_reset(scratch, mark);
    }
}

static int behind_order(const void *a, const void *b)
{
    const struct rank_times *x = a, *y = b;
    if (x->behind_ratio != y->behind_ratio) return x->behind_ratio > y->behind_ratio ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int part_order(const void *a, const void *b)
{
    const struct path_part *x = a, *y = b;
    if (x->s != y->s) return x->s > y->s ? -1 : 1;
    return strcmp(x->what, y->what);
}

struct run_ranks run_ranks_make(struct arena *arena, struct arena *scratch,
                                const struct evaluation_request *request,
                                const struct evaluation *evaluation, const struct trace *trace)
{
    const struct program *program = evaluation->program;
    struct run_ranks result = {.step_s = 1e-9 * (double)last_end_ns(trace)};
    struct arena_mark mark = arena_mark(scratch);
    struct rank_times *planned;
    const struct trace *simulated = &evaluation->simulation->trace;
    int planned_count = times_of(scratch, scratch, &program->shape, simulated, &planned);
    result.rank_count = times_of(arena, scratch, &program->shape, trace, &result.ranks);
    struct rank_times **by_rank = ARENA_NEW(scratch, struct rank_times *, trace->rank_count);
    for (int i = 0; i < result.rank_count; i++) {
        struct rank_times *times = &result.ranks[i];
        assert(times->rank >= 0 && times->rank < trace->rank_count);
        by_rank[times->rank] = times;
        times->stage = mesh_stage_of(&program->mesh, times->rank);
        // The simulated trace has a rank for each stage.
        for (int k = 0; k < planned_count; k++)
            if (planned[k].rank == times->stage) times->predicted_compute_s = planned[k].compute_s;
    }
    compare_with_stage(scratch, &result);
    const struct trace named = timeline_measured(arena, scratch, request, evaluation, trace);
    run_path_walk(scratch, program, &named, by_rank, &result);
    qsort(result.ranks, (size_t)result.rank_count, sizeof *result.ranks, behind_order);
    qsort(result.parts, (size_t)result.part_count, sizeof *result.parts, part_order);
    for (int i = 0; i < result.part_count; i++)
        result.parts[i].what = arena_copy(arena, result.parts[i].what);
    arena_reset(scratch, mark);
    return result;
}
