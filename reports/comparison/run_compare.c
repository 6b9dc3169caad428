#include "reports/comparison/run_compare.h"

#include "core/sort.h"
#include "cost_models/offload.h"
#include "models/op.h"
#include "simulator/engine.h"

#include <assert.h>
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

// A fetch is from the host: it has no axis.
static const char *collective_text(struct arena *arena, enum axis axis, enum collective collective)
{
    assert(axis < AXIS_COUNT && collective < COLLECTIVE_COUNT);
    if (collective == COLLECTIVE_FETCH) return collective_name(collective);
    return arena_print(arena, "%s %s", axis_name(axis), collective_name(collective));
}

// Slots of the pipeline's schedule, as they are on the timeline.
static void add_measured(struct run_compare *compare)
{
    for (int i = 0; i < compare->result->kind_count; i++) {
        const struct run_kind *kind = &compare->result->kinds[i];
        if (kind->group != RUN_TASK || kind->index >= SLOT_KIND_COUNT) continue;
        struct run_row *row =
            find_row(compare, RUN_TASK, task_kind_name((enum task_kind)kind->index));
        row->count += kind->count;
        row->measured_s += kind->measured_s;
    }
}

// [(stage * chunks + chunk) * PHASE_COUNT + phase]: whether anything runs then. A chunk that is the
// embedding alone has no gradient to pass on, and nothing to do in B.
static bool *works_of(struct arena *arena, const struct run_compare *compare)
{
    const struct program *program = compare->evaluation->program;
    int chunks = program->shape.chunk_count;
    int works_count = program->shape.stage_count * chunks * PHASE_COUNT;
    bool *works = ARENA_NEW(arena, bool, works_count);
    bool is_fused = schedule_row(program->parallel.schedule)->backward_fused;
    for (int i = 0; i < compare->join.row_count; i++) {
        const struct run_joined *row = &compare->join.rows[i];
        if (row->task->kind != TASK_INSTR || row->predicted_count <= 0) continue;
        bool *work = &works[(row->stage * chunks + row->chunk) * PHASE_COUNT];
        enum phase phase = program->blocks[row->task->block]->instrs[row->task->instr].phase;
        work[phase] = true;
        if (is_fused && phase == PHASE_WEIGHT) work[PHASE_BACKWARD] = true;
    }
    return works;
}

// One rank of each stage is simulated; the others do the same.
static void add_predicted_slots(struct arena *arena, struct run_compare *compare)
{
    const struct trace *trace = &compare->evaluation->simulation->trace;
    const struct program *program = compare->evaluation->program;
    const bool *works = works_of(arena, compare);
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->spans[i];
        struct task_id id = task_id_of(&program->shape, span->task);
        int kind = id.kind;
        if (kind >= SLOT_KIND_COUNT || span->stream != STREAM_COMPUTE) continue;
        double ranks = mesh_stage_ranks(&program->mesh, span->rank);
        struct run_row *row = find_row(compare, RUN_TASK, task_kind_name((enum task_kind)kind));
        row->predicted_s += ranks * (double)(span->end_ns - span->start_ns) * 1e-9;
        int place = span->rank * program->shape.chunk_count + id.chunk;
        assert(place >= 0 && place < program->shape.stage_count * program->shape.chunk_count);
        if (works[place * PHASE_COUNT + kind]) row->predicted_count += ranks;
    }
    for (int i = 0; i < compare->row_count; i++) {
        struct run_row *row = &compare->rows[i];
        row->predicted_s = run_replica_count(program, row->predicted_s);
        row->predicted_count = run_replica_count(program, row->predicted_count);
    }
}

static struct run_row *row_of(struct arena *arena, struct run_compare *compare,
                              const struct graph_task *task)
{
    if (task->kind == TASK_SEND || task->kind == TASK_RECEIVE)
        return find_row(compare, RUN_TASK,
                        arena_print(arena, "%s %s", task_kind_name(task->kind),
                                    task_kind_name((enum task_kind)task->group)));
    if (task->kind != TASK_INSTR) return find_row(compare, RUN_TASK, task_kind_name(task->kind));
    const struct instr *instr =
        &compare->evaluation->program->blocks[task->block]->instrs[task->instr];
    if (instr->collective == COLLECTIVE_NONE)
        return find_row(compare, RUN_OPERATOR, op_rule(instr->kind)->name);
    if (instr->collective == COLLECTIVE_SLICE)
        return find_row(compare, RUN_OPERATOR, collective_name(instr->collective));
    // What is streamed is handed on from neighbour to neighbour, and priced so.
    enum collective collective = instr->streamed ? COLLECTIVE_SEND_RECV : instr->collective;
    return find_row(compare, RUN_COLLECTIVE, collective_text(arena, instr->parent, collective));
}

static void add_joined(struct arena *arena, struct run_compare *compare, enum task_kind kind)
{
    for (int i = 0; i < compare->join.row_count; i++) {
        const struct run_joined *joined = &compare->join.rows[i];
        if (joined->task->kind != kind) continue;
        struct run_row *row = row_of(arena, compare, joined->task);
        row->predicted_count += joined->predicted_count;
        row->count += joined->count;
        row->predicted_bytes += joined->predicted_bytes;
        row->bytes += joined->bytes;
        row->predicted_s += joined->predicted_s;
        row->measured_s += joined->s;
    }
}

// Where a schedule does not part them, weight gradients are made inside B, and a run has no W.
static void join_backward(struct run_compare *compare)
{
    struct run_row *weight = find_row(compare, RUN_TASK, "W");
    if (weight->count > 0) return;
    struct run_row *back = find_row(compare, RUN_TASK, "B");
    back->predicted_s += weight->predicted_s;
    struct run_row *end = &compare->rows[--compare->row_count];
    assert(weight <= end);
    memmove(weight, weight + 1, (size_t)(end - weight) * sizeof *weight);
}

// The first step touches memory for the first time and is left out, where there are others.
static double median_step(struct arena *arena, const struct run_result *result)
{
    int first = result->step_count > 1 ? 1 : 0, count = result->step_count - first;
    if (count < 1) return 0;
    double *sorted = ARENA_COPY(arena, double, result->step_s + first, count);
    return sort_median(sorted, (size_t)count);
}

// The first has nothing before it.
static double mean_between(const struct run_result *result)
{
    double sum_s = 0;
    for (int i = 1; i < result->step_count && result->between_s; i++)
        sum_s += result->between_s[i];
    return result->step_count > 1 ? sum_s / (result->step_count - 1) : 0;
}

// Of the stage that works most, since the step is as long as its.
static double moved_s(struct arena *arena, const struct evaluation_request *request,
                      const struct evaluation *evaluation)
{
    const struct breakdown breakdown = breakdown_make(arena, arena, request, evaluation);
    double s = 0;
    for (int i = 0; i < breakdown.count; i++) {
        const struct breakdown_line *line = &breakdown.lines[i];
        s += line->price->part == PART_OFFLOAD ? line->s : 0;
    }
    return s;
}

struct run_compare run_compare_make(struct arena *arena, const struct evaluation_request *request,
                                    const struct evaluation *evaluation,
                                    const struct ledger *ledger, struct run_memory memory,
                                    struct run_widths widths, const struct run_result *result)
{
    assert(result->step_count >= 0 && memory.peak_bytes >= 0);
    int rows_max = TASK_KIND_COUNT + 2 + OP_KIND_COUNT + (AXIS_COUNT + 1) * COLLECTIVE_COUNT + 1;
    struct run_compare compare = {.request = request,
                                  .evaluation = evaluation,
                                  .result = result,
                                  .rows = ARENA_NEW(arena, struct run_row, rows_max)};
    compare.join = run_join_make(arena, request, evaluation, ledger, widths, result);
    add_measured(&compare);
    add_predicted_slots(arena, &compare);
    join_backward(&compare);
    for (int kind = 0; kind < TASK_KIND_COUNT; kind++)
        add_joined(arena, &compare, (enum task_kind)kind);
    assert(compare.row_count <= rows_max);
    compare.predicted_step_s = evaluation->prediction.step_s;
    compare.measured_step_s = median_step(arena, result);
    compare.between_s = mean_between(result);
    const struct workload *workload = &request->workload;
    if (compare.measured_step_s > 0)
        compare.tokens_per_s =
            (double)(workload->global_batch * workload->seq_len) / compare.measured_step_s;
    compare.predicted = memory;
    compare.predicted_moved_s = moved_s(arena, request, evaluation);
    const struct price_context context = evaluation_context(request);
    if (memory.nvme_bytes > 0)
        compare.predicted_nvme_bytes_per_s = offload_bytes_per_s(&context, TIER_NVME);
    return compare;
}
