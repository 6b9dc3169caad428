#include "reports/comparison/run_tasks.h"

#include "core/units.h"
#include "cost_models/parameters.h"
#include "plan/script/script.h"

#include <assert.h>
#include <math.h>

struct joining {
    const struct step_graph *graph;
    const struct task_prices *prices;
    struct run_widths widths;
};

static double bytes_of(const struct joining *joining, const struct task_bytes *bytes)
{
    assert(joining->widths.real_bytes > 0 && joining->widths.compute_bytes > 0);
    return bytes->compute * joining->widths.compute_bytes +
           bytes->reals * joining->widths.real_bytes + bytes->plain;
}

// Sums in two orders differ in their last bits.
static bool is_close(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

bool run_joined_matches(const struct run_joined *row)
{
    if (row->predicted_count != row->count) return false;
    return row->is_routed || is_close(row->predicted_bytes, row->bytes);
}

// However tokens choose, experts have as many rows on all ranks together, unless some are dropped
// or room for more is planned; between ranks goes what its own rank has no expert for.
static bool is_routed(const struct program *program, const struct graph_task *task)
{
    const struct workload *workload = &program->workload;
    bool is_kernel =
        task->kind == TASK_INSTR &&
        program->blocks[task->block]->instrs[task->instr].collective == COLLECTIVE_NONE;
    bool keeps_all = workload->capacity_factor <= 0 && workload->expert_imbalance <= 1;
    return task->is_ragged && !(is_kernel && keeps_all);
}

double run_replica_count(const struct program *program, double count)
{
    const struct parallel *parallel = &program->parallel;
    if (parallel->replica_count == 0) return count;
    int64_t all = program->workload.global_batch / parallel->micro_batch;
    int64_t most = (int64_t)parallel->degree[AXIS_DP] * program->shape.micro_batch_count;
    assert(all > 0 && all <= most && "no replica has more than the most");
    return count * (double)all / (double)most;
}

// Places are the chunks of all stages, then the stages as a whole.
static void join_task(struct joining *joining, struct run_join *join, int place, int task,
                      const struct run_result *result)
{
    const struct program *program = joining->graph->program;
    int chunks = program->shape.chunk_count, stages = program->shape.stage_count;
    int number = step_graph_number(joining->graph, place, task);
    const struct graph_task *of = &joining->graph->tasks[task];
    struct run_joined *row = &join->rows[join->row_count];
    assert(join->row_count < joining->graph->number_count && place < stages * (chunks + 1));
    bool is_chunk = place < stages * chunks;
    int stage = is_chunk ? place / chunks : place - stages * chunks;
    int ranks = mesh_stage_ranks(&program->mesh, stage);
    *row = (struct run_joined){
        .stage = stage,
        .chunk = is_chunk ? place % chunks : -1,
        .task = of,
        .pricing = task_pricing_of(joining->prices, task),
        .is_routed = is_routed(program, of),
        .predicted_count = ranks * step_graph_count(joining->graph, place, task),
    };
    if (is_chunk && of->is_repeated)
        row->predicted_count = run_replica_count(program, row->predicted_count);

    // Shares of a bucket that are thirds of it add up to whole bytes but for their last bits.
    double bytes = row->predicted_count * bytes_of(joining, &of->bytes), whole = nearbyint(bytes);
    row->predicted_bytes = is_close(bytes, whole) ? whole : bytes;
    row->predicted_s = row->predicted_count * joining->prices->s[task];
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
    join->is_routed |= row->is_routed;
}

struct run_join run_join_make(struct arena *arena, const struct evaluation_request *request,
                              const struct evaluation *evaluation, const struct ledger *ledger,
                              struct run_widths widths, const struct run_result *result)
{
    const struct program *program = evaluation->program;
    const struct step_rules rules = step_rules_of(request->stack, program);
    const struct step_graph *graph = step_graph_make(arena, program, &rules);
    const struct task_prices prices = task_prices_of(arena, graph, ledger);
    assert((prices.unrun_s <= 0 || !stack_is_executed(request->stack)) && "priced, but never run");
    struct joining joining = {.graph = graph, .prices = &prices, .widths = widths};
    struct run_join join = {
        .program = program,
        .rows = ARENA_NEW(arena, struct run_joined, graph->number_count),
    };
    int stages = program->shape.stage_count, chunks = program->shape.chunk_count;
    for (int place = 0; place < stages * (chunks + 1); place++) {
        int first, count = step_graph_tasks(graph, place, &first);
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
    const char *what = task_kind_name(task->kind), *phase = "";
    if (task->kind == TASK_INSTR) {
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
    assert(join->unmatched_count <= join->row_count);
    enum { SHOWN = 5 };
    const char *predicted = units_count(arena, join->predicted_count);
    const char *measured = units_count(arena, join->count);
    if (join->unmatched_count == 0)
        return arena_print(arena, "%s tasks predicted, %s measured, none unmatched%s\n", predicted,
                           measured,
                           join->is_routed ? "; what routing decides by number, not by bytes" : "");
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
