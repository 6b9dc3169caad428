#include "reports/run_tasks.h"

#include "core/units.h"
#include "cost_models/parameters.h"
#include "plan/script/script.h"

#include <assert.h>
#include <math.h>

struct joining {
    const struct evaluation *evaluation;
    const struct step_graph *graph;
    struct run_widths widths;
    double plan_bytes;  // of a number that kernels compute with, as planned
    double *task_s;     // [task of the graph] one of them, alone
};

static double bytes_of(const struct joining *joining, const struct task_bytes *bytes)
{
    return bytes->compute * joining->widths.compute_bytes +
           bytes->reals * joining->widths.real_bytes + bytes->plain;
}

// What an update takes is priced for a chunk, whatever its groups: of each as much as it has.
static void spread_update(struct joining *joining, int chunk, double s)
{
    const struct step_graph *graph = joining->graph;
    double all = 0;
    for (int t = graph->first[chunk]; t < graph->first[chunk + 1]; t++) {
        const struct graph_task *task = &graph->tasks[t];
        if (task->kind == SCRIPT_UPDATE) all += task->bytes.reals * task->count;
    }
    for (int t = graph->first[chunk]; t < graph->first[chunk + 1] && all > 0; t++) {
        if (graph->tasks[t].kind == SCRIPT_UPDATE)
            joining->task_s[t] += s * graph->tasks[t].bytes.reals / all;
    }
}

static void add_to(struct joining *joining, int chunk, enum script_kind kind, int group, double s)
{
    const struct step_graph *graph = joining->graph;
    for (int t = graph->first[chunk]; t < graph->first[chunk + 1]; t++) {
        const struct graph_task *task = &graph->tasks[t];
        bool is_it = task->kind == kind && (group < 0 || task->group == group);
        if (is_it) joining->task_s[t] += s / (group < 0 ? 1 : task->count);
    }
}

// In every micro-batch, of one block: of all its uses in all classes of chunks.
static void add_instr(struct joining *joining, const struct ledger_line *line)
{
    const struct step_graph *graph = joining->graph;
    if (line->of_instr == 0) return;
    for (int t = 0; t < graph->task_count; t++) {
        const struct graph_task *task = &graph->tasks[t];
        bool is_it = task->kind == SCRIPT_INSTR && task->block == line->block &&
                     task->instr == line->of_instr - 1;
        if (is_it) joining->task_s[t] += line->s;
    }
}

static void add_copies(struct joining *joining, const struct ledger_line *line)
{
    const struct step_graph *graph = joining->graph;
    enum script_kind kind = line->phase == PHASE_FORWARD ? SCRIPT_COPY_OUT : SCRIPT_COPY_IN;
    for (int t = graph->first[line->chunk]; t < graph->first[line->chunk + 1]; t++) {
        const struct graph_task *task = &graph->tasks[t];
        if (task->kind == kind && task->use == line->of_use - 1)
            joining->task_s[t] += line->s / task->count;
    }
}

static void add_everywhere(struct joining *joining, enum script_kind kind, double s)
{
    for (int t = 0; t < joining->graph->task_count; t++) {
        if (joining->graph->tasks[t].kind == kind) joining->task_s[t] += s;
    }
}

// What is of no task is what a step takes beside them: contention, and what a host takes.
static void add_line(struct joining *joining, const struct ledger_line *line)
{
    static const enum script_kind KINDS[ENTRY_COUNT] = {
        [ENTRY_REDUCE] = SCRIPT_GRADIENT_REDUCE,
        [ENTRY_GATHER] = SCRIPT_PARAMETER_GATHER,
        [ENTRY_SMALL] = SCRIPT_SMALL_REDUCE,
        [ENTRY_TIED] = SCRIPT_TIED_REDUCE,
        [ENTRY_NORM] = SCRIPT_NORM,
        [ENTRY_TRUST] = SCRIPT_TRUST,
    };
    switch (line->entry) {
    case ENTRY_OPERATOR:
    case ENTRY_EXCHANGE:
        return add_instr(joining, line);
    case ENTRY_COPY:
        return add_copies(joining, line);
    case ENTRY_UPDATE:
        return spread_update(joining, line->chunk, line->exposed_s);
    case ENTRY_HOP:
        add_everywhere(joining, SCRIPT_SEND, line->s);
        return add_everywhere(joining, SCRIPT_RECEIVE, line->s);
    case ENTRY_REDUCE:
    case ENTRY_GATHER:
    case ENTRY_SMALL:
        return add_to(joining, line->chunk, KINDS[line->entry], line->of_group - 1, line->s);
    case ENTRY_TIED:
    case ENTRY_NORM:
    case ENTRY_TRUST:
        return add_everywhere(joining, KINDS[line->entry], line->s);
    default:
        return;
    }
}

static bool is_close(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

bool run_joined_matches(const struct run_joined *row)
{
    if (row->predicted_count != row->count) return false;
    return row->task->is_ragged || is_close(row->predicted_bytes, row->bytes);
}

static void join_task(struct joining *joining, struct run_join *join, int place, int task,
                      const struct run_result *result)
{
    const struct program *program = joining->graph->program;
    int chunks = program->shape.chunk_count, stages = program->shape.stage_count;
    double ranks = program->mesh.rank_count / stages;
    int number = step_graph_number(joining->graph, place, task);
    const struct graph_task *of = &joining->graph->tasks[task];
    struct run_joined *row = &join->rows[join->row_count];
    bool is_chunk = place < stages * chunks;
    *row = (struct run_joined){
        .stage = is_chunk ? place / chunks : place - stages * chunks,
        .chunk = is_chunk ? place % chunks : -1,
        .task = of,
        .predicted_count = ranks * step_graph_count(joining->graph, place, task),
    };
    row->predicted_bytes = row->predicted_count * bytes_of(joining, &of->bytes);
    row->predicted_s = row->predicted_count * joining->task_s[task];
    if (number < result->task_count) {
        row->count = result->tasks[number].count;
        row->bytes = result->tasks[number].bytes;
        row->s = result->tasks[number].s;
    }
    if (row->predicted_count <= 0 && row->count <= 0) return;
    join->row_count++;
    join->predicted_count += row->predicted_count;
    join->count += row->count;
    join->unmatched_count += !run_joined_matches(row);
    join->is_ragged |= of->is_ragged;
}

struct run_join run_join_make(struct arena *arena, const struct evaluation_request *request,
                              const struct evaluation *evaluation, const struct ledger *ledger,
                              struct run_widths widths, const struct run_result *result)
{
    const struct program *program = evaluation->program;
    const struct step_rules rules = step_rules_of(request->stack, program);
    struct joining joining = {
        .evaluation = evaluation,
        .graph = step_graph_make(arena, program, &rules),
        .widths = widths,
    };
    joining.task_s = ARENA_NEW(arena, double, joining.graph->task_count);
    for (int i = 0; i < ledger->count; i++)
        add_line(&joining, &ledger->lines[i]);
    struct run_join join = {
        .program = program,
        .rows = ARENA_NEW(arena, struct run_joined, joining.graph->number_count),
    };
    int stages = program->shape.stage_count, chunks = program->shape.chunk_count;
    for (int place = 0; place < stages * (chunks + 1); place++) {
        int first, count = step_graph_tasks(joining.graph, place, &first);
        for (int t = first; t < first + count; t++)
            join_task(&joining, &join, place, t, result);
    }
    return join;
}

const char *run_joined_name(struct arena *arena, const struct run_join *join,
                            const struct run_joined *row)
{
    static const char *const PHASES[PHASE_COUNT] = {"F", "B", "W"};
    const struct graph_task *task = row->task;
    const char *what = script_kind_name(task->kind), *phase = "";
    if (task->kind == SCRIPT_INSTR) {
        const struct block_program *block = join->program->blocks[task->block];
        what = script_instr_name(arena, block, task->instr);
        phase = arena_print(arena, " %s", PHASES[block->instrs[task->instr].phase]);
    }
    const char *chunk = row->chunk >= 0 ? arena_print(arena, ".%d", row->chunk) : "";
    const char *use = task->use >= 0 ? arena_print(arena, "/%d", task->use) : "";
    return arena_print(arena, "%d%s%s%s %s", row->stage, chunk, use, phase, what);
}

const char *run_join_text(struct arena *arena, const struct run_join *join)
{
    enum { SHOWN = 5 };
    const char *predicted = units_count(arena, join->predicted_count);
    const char *measured = units_count(arena, join->count);
    if (join->unmatched_count == 0)
        return arena_print(arena, "%s tasks predicted, %s measured, none unmatched%s\n", predicted,
                           measured,
                           join->is_ragged ? "; rows of experts by number, not by bytes" : "");
    char *text = arena_print(arena, "%s tasks predicted, %s measured, %d kinds unmatched:\n",
                             predicted, measured, join->unmatched_count);
    for (int i = 0, shown = 0; i < join->row_count && shown < SHOWN; i++) {
        const struct run_joined *row = &join->rows[i];
        if (run_joined_matches(row)) continue;
        shown++;
        text = arena_print(arena, "%s  %s: %.6g (%.17g B) predicted, %.6g (%.17g B) measured\n",
                           text, run_joined_name(arena, join, row), row->predicted_count,
                           row->predicted_bytes, row->count, row->bytes);
    }
    return text;
}
