#include "reports/comparison/run_compare.h"

#include "models/op.h"
#include "simulator/engine.h"

#include <stdlib.h>
#include <string.h>

static struct run_row *find_row(struct run_compare *compare, enum run_group group, const char *name)
{
    for (int i = 0; i < compare->row_count; i++) {
        struct run_row *row = &compare->rows[i];
        if (row->group == group && strcmp(row->name, name) == 0) return row;
    }
    struct run_row *row = &compare->rows[compare->row_count++];
    *row = (struct run_row){.group = group, .name = name};
    return row;
}

static const char *collective_text(struct arena *arena, enum axis axis, enum collective collective)
{
    return arena_print(arena, "%s %s", axis_name(axis), collective_name(collective));
}

static void add_measured(struct arena *arena, struct run_compare *compare)
{
    for (int i = 0; i < compare->result->kind_count; i++) {
        const struct run_kind *kind = &compare->result->kinds[i];
        const char *name = NULL;
        switch (kind->group) {
        case RUN_TASK:
            name = engine_task_name((enum engine_task)kind->index);
            break;
        case RUN_OPERATOR:
            name = op_rule((enum op_kind)kind->index)->name;
            break;
        case RUN_COLLECTIVE:
            name = collective_text(arena, kind->axis, (enum collective)kind->index);
            break;
        }
        struct run_row *row = find_row(compare, kind->group, name ? name : "other");
        row->count += kind->count;
        row->measured_s += kind->measured_s;
        row->bytes += kind->bytes;
    }
}

static int ranks_of_stage(const struct evaluation *evaluation)
{
    const struct program *program = evaluation->program;
    return program->mesh.rank_count / program->shape.stage_count;
}

// One rank of each stage is simulated; the others do the same.
static void add_predicted_tasks(struct run_compare *compare)
{
    const struct trace *trace = &compare->evaluation->simulation->trace;
    double ranks = ranks_of_stage(compare->evaluation);
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->spans[i];
        int kind = task_id_of(&compare->evaluation->program->shape, span->task).kind;
        bool is_inside = kind < TASK_KIND_COUNT && span->stream != STREAM_COMPUTE;
        if (is_inside) continue;
        struct run_row *row = find_row(compare, RUN_TASK, engine_task_name((enum engine_task)kind));
        row->predicted_s += ranks * (double)(span->end_ns - span->start_ns) * 1e-9;
        if (kind < ENGINE_GRADIENT_REDUCE) row->predicted_count += ranks;
    }
}

static void add_count(struct run_compare *compare, enum engine_task kind, double count)
{
    if (count > 0) find_row(compare, RUN_TASK, engine_task_name(kind))->predicted_count += count;
}

// Once a step, as priced.
static void add_predicted_counts(struct run_compare *compare)
{
    const struct program *program = compare->evaluation->program;
    const struct step_price *price = compare->evaluation->price;
    double ranks = ranks_of_stage(compare->evaluation);
    int stages = program->shape.stage_count;
    for (int at = 0; at < stages * program->shape.chunk_count; at++) {
        const struct step_counts *counts = &price->classes[program->class_of[at]].counts;
        add_count(compare, ENGINE_GRADIENT_REDUCE, ranks * counts->reduce);
        add_count(compare, ENGINE_SMALL_REDUCE, ranks * counts->small);
        add_count(compare, ENGINE_UPDATE, ranks * counts->update);
        add_count(compare, ENGINE_PARAMETER_GATHER, ranks * counts->gather);
    }
    if (price->tied_reduce_s > 0) add_count(compare, ENGINE_TIED_REDUCE, 2 * ranks);
    int norms = step_takes_norm(&program->workload) + step_takes_trust(&program->workload);
    add_count(compare, ENGINE_NORM, norms * ranks * stages);
}

// Payloads of what happens once a step; its seconds are in the trace.
static void add_predicted_work(struct run_compare *compare, const struct ledger_line *price,
                               double bytes)
{
    static const enum engine_task TASK_OF[ENTRY_COUNT] = {
        [ENTRY_REDUCE] = ENGINE_GRADIENT_REDUCE,
        [ENTRY_GATHER] = ENGINE_PARAMETER_GATHER,
        [ENTRY_SMALL] = ENGINE_SMALL_REDUCE,
        [ENTRY_TIED] = ENGINE_TIED_REDUCE,
    };
    if (!TASK_OF[price->entry]) return;
    find_row(compare, RUN_TASK, engine_task_name(TASK_OF[price->entry]))->predicted_bytes += bytes;
}

static void add_predicted_line(struct arena *arena, struct run_compare *compare,
                               const struct breakdown_line *line)
{
    const struct ledger_line *price = line->price;
    double ranks = ranks_of_stage(compare->evaluation);
    struct run_row *row = NULL;
    if (price->entry == ENTRY_OPERATOR && price->instr)
        row = find_row(compare, RUN_OPERATOR, op_rule(price->instr->kind)->name);
    if (price->entry == ENTRY_EXCHANGE)
        row = find_row(compare, RUN_COLLECTIVE,
                       collective_text(arena, part_axis(price->part), price->collective));
    add_predicted_work(compare, price, ranks * line->count * price->bytes);
    if (!row) return;
    row->predicted_s += ranks * line->alone_s;
    if (price->entry == ENTRY_EXCHANGE) row->predicted_bytes += ranks * line->count * price->bytes;
}

// Where a schedule does not part them, weight gradients are made inside B, and a run has no W.
static void join_backward(struct run_compare *compare)
{
    struct run_row *weight = find_row(compare, RUN_TASK, "W");
    if (weight->count > 0) return;
    find_row(compare, RUN_TASK, "B")->predicted_s += weight->predicted_s;
    struct run_row *end = &compare->rows[--compare->row_count];
    memmove(weight, weight + 1, (size_t)(end - weight) * sizeof *weight);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The first step touches memory for the first time and is left out, where there are others.
static double median_step(struct arena *arena, const struct run_result *result)
{
    int first = result->step_count > 1 ? 1 : 0, count = result->step_count - first;
    if (count < 1) return 0;
    double *sorted = ARENA_NEW(arena, double, count);
    memcpy(sorted, result->step_s + first, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

struct run_compare run_compare_make(struct arena *arena, const struct evaluation_request *request,
                                    const struct evaluation *evaluation,
                                    const struct ledger *ledger, struct run_memory memory,
                                    const struct run_result *result)
{
    int rows_max = TASK_NUMBER_KINDS + OP_KIND_COUNT + AXIS_COUNT * COLLECTIVE_COUNT + 1;
    struct run_compare compare = {.request = request,
                                  .evaluation = evaluation,
                                  .result = result,
                                  .rows = ARENA_NEW(arena, struct run_row, rows_max)};
    add_measured(arena, &compare);
    add_predicted_tasks(&compare);
    join_backward(&compare);
    add_predicted_counts(&compare);
    for (int stage = 0; stage < evaluation->program->shape.stage_count; stage++) {
        struct breakdown breakdown = breakdown_of_stage(
            arena, ledger, evaluation->program, evaluation->price, evaluation->simulation, stage);
        for (int i = 0; i < breakdown.count; i++)
            add_predicted_line(arena, &compare, &breakdown.lines[i]);
    }
    compare.predicted_step_s = evaluation->prediction.step_s;
    compare.measured_step_s = median_step(arena, result);
    const struct workload *workload = &request->workload;
    if (compare.measured_step_s > 0)
        compare.tokens_per_s =
            (double)(workload->global_batch * workload->seq_len) / compare.measured_step_s;
    compare.predicted = memory;
    return compare;
}

// Predicted rank r (one a stage) is process r, measured ranks come behind.
static const char *task_name(const void *context, const struct span *span, struct arena *scratch)
{
    const struct run_compare *compare = context;
    const struct trace *predicted = &compare->evaluation->simulation->trace;
    return predicted->task_name(predicted->context, span, scratch);
}

static const char *rank_name(const void *context, int rank, struct arena *scratch)
{
    const struct run_compare *compare = context;
    int predicted = compare->evaluation->simulation->trace.rank_count;
    return rank < predicted ? arena_print(scratch, "predicted, rank %d of the pipeline", rank)
                            : arena_print(scratch, "measured, rank %d", rank - predicted);
}

struct trace run_overlay(struct arena *arena, const struct run_compare *compare)
{
    const struct trace *predicted = &compare->evaluation->simulation->trace;
    const struct trace *measured = &compare->result->trace;
    struct trace overlay = {.rank_count = predicted->rank_count + measured->rank_count,
                            .task_name = task_name,
                            .rank_name = rank_name,
                            .context = compare};
    overlay.spans = ARENA_NEW(arena, struct span, predicted->span_count + measured->span_count);
    memcpy(overlay.spans, predicted->spans, (size_t)predicted->span_count * sizeof *overlay.spans);
    overlay.span_count = predicted->span_count;
    for (int64_t i = 0; i < measured->span_count; i++) {
        struct span *span = &overlay.spans[overlay.span_count++];
        *span = measured->spans[i];
        span->rank += predicted->rank_count;
    }
    return overlay;
}
