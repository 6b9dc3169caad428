#include "simulator/engine.h"
#include "tests/support/run_case.h"
#include "tests/support/script_exchanges.h"

#include <math.h>

// What a run moved and held against what was planned for it.

static int ranks_of_stage(const struct run_outcome *found, int stage)
{
    return mesh_stage_ranks(&found->program->mesh, stage);
}

// The kind under which the engine counts a task.
static struct run_kind kind_of(const struct script *script, int task)
{
    const struct script_task *of = &script->tasks[task];
    if (of->kind != TASK_INSTR)
        return (struct run_kind){.group = RUN_TASK, .index = script_task_id(script, task).kind};
    const struct instr *instr = &script->program->blocks[of->block]->instrs[of->instr];
    enum collective collective = instr->streamed ? COLLECTIVE_SEND_RECV : instr->collective;
    return (struct run_kind){
        .group = RUN_COLLECTIVE, .index = (int)collective, .axis = instr->parent};
}

static bool is_alike(const struct run_kind *a, const struct run_kind *b)
{
    return a->group == b->group && a->index == b->index && a->axis == b->axis;
}

static int plan_bytes(const struct run_outcome *found)
{
    return found->program->workload.precision == PRECISION_FP32 ? 4 : 2;
}

// Flat collectives of gradients: they are planned in the plan's width, and reduced as reals.
static bool reduces_gradients(const struct script *script, int task)
{
    const struct script_task *of = &script->tasks[task];
    if (of->kind != TASK_INSTR || of->unit < 0) return false;
    const struct block_program *block = script->program->blocks[of->block];
    return block->instrs[of->instr].collective == COLLECTIVE_REDUCE_SCATTER;
}

// Of work of the step: weights that are gathered are those that kernels read.
static double step_bytes(const struct run_outcome *found, const struct run_kind *kind)
{
    bool gathers = kind->group == RUN_TASK && kind->index == TASK_PARAMETER_GATHER;
    return gathers ? found->compute_bytes : found->real_bytes;
}

// Bytes of a kind as the scripts have them, all ranks, and how far parts of uneven shards may be
// from those of the fullest rank, of which scripts speak.
static double planned_bytes(const struct run_outcome *found, const struct run_kind *kind,
                            double *slack)
{
    double bytes = 0, real = found->real_bytes;
    *slack = 0;
    for (int s = 0; s < found->program->shape.stage_count; s++) {
        const struct script *script = found->scripts[s];
        int ranks = ranks_of_stage(found, s);
        for (int t = 0; t < script->task_count; t++) {
            struct script_exchange exchanges[SCRIPT_EXCHANGE_MAX];
            struct run_kind own = kind_of(script, t);
            if (!is_alike(&own, kind)) continue;
            int count = script_exchanges(script, t, exchanges);
            for (int e = 0; e < count; e++) {
                double wide = (double)exchanges[e].bytes / plan_bytes(found) *
                              (reduces_gradients(script, t) ? real : found->compute_bytes);
                bytes += ranks * (wide + (double)exchanges[e].elements * step_bytes(found, kind));
                bool is_shared = script->tasks[t].kind == TASK_SMALL_REDUCE ||
                                 script->tasks[t].kind == TASK_TIED_REDUCE;
                // A shard of a unit may hold any part of a small parameter.
                if (is_shared) *slack += ranks * (double)exchanges[e].elements * real;
                if (exchanges[e].elements > 0)
                    *slack += ranks * real * found->program->mesh.rank_count;
            }
        }
    }
    return bytes;
}

// The first task at a place that did not run, or move, what the graph says.
static const char *place_difference(struct arena *arena, const struct run_outcome *found, int place)
{
    const struct step_graph *graph = found->scripts[0]->graph;
    const struct schedule_shape *shape = &found->program->shape;
    int chunk_places = shape->stage_count * shape->chunk_count;
    int stage = place < chunk_places ? place / shape->chunk_count : place - chunk_places;
    int first, count = step_graph_tasks(graph, place, &first);
    for (int t = first; t < first + count; t++) {
        const struct graph_task *task = &graph->tasks[t];
        const struct run_task *ran = &found->tasks[step_graph_number(graph, place, t)];
        double runs = ranks_of_stage(found, stage) * step_graph_count(graph, place, t);
        double bytes = runs * (task->bytes.compute * found->compute_bytes +
                               task->bytes.reals * found->real_bytes + task->bytes.plain);
        bool is_right = ran->count == runs && fabs(ran->bytes - bytes) <= 1e-9 * bytes;
        if (!is_right)
            return arena_print(arena,
                               "%s of block %d, instruction %d at place %d: %.17g of %.17g, "
                               "not %.17g of %.17g bytes",
                               task_kind_name(task->kind), task->block, task->instr, place,
                               ran->count, ran->bytes, runs, bytes);
    }
    return NULL;
}

// In fp16 no step may have been one whose gradients had room: then no task is known of.
static const char *tasks_difference(struct arena *arena, const struct run_outcome *found)
{
    const struct schedule_shape *shape = &found->program->shape;
    double ran = 0;
    for (int n = 0; n < found->task_count; n++)
        ran += found->tasks[n].count;
    for (int place = 0; ran > 0 && place < shape->stage_count * (shape->chunk_count + 1); place++) {
        const char *difference = place_difference(arena, found, place);
        if (difference) return difference;
    }
    return NULL;
}

const char *run_outcome_traffic(struct arena *arena, const struct run_outcome *found)
{
    for (int k = 0; k < found->kind_count; k++) {
        const struct run_kind *kind = &found->kinds[k];
        bool is_received = kind->group == RUN_TASK && kind->index == TASK_RECEIVE;
        bool is_update = kind->group == RUN_TASK && kind->index == TASK_UPDATE;
        // Those that pass to the host and back are no exchanges: tasks_difference has them.
        bool passes = kind->group == RUN_TASK &&
                      (kind->index == TASK_GRADIENT_OUT || kind->index == TASK_GRADIENT_IN);
        if (is_received || is_update || passes || kind->group == RUN_OPERATOR) continue;
        double slack, planned = planned_bytes(found, kind, &slack);
        if (fabs(kind->bytes - planned) <= slack + 1e-9 * planned) continue;
        return arena_print(arena, "%s %d of %s: %.0f bytes moved, %.0f planned",
                           kind->group == RUN_TASK ? "task" : "collective", kind->index,
                           axis_name(kind->axis), kind->bytes, planned);
    }
    return tasks_difference(arena, found);
}

int64_t run_outcome_planned_bytes(const struct run_outcome *found)
{
    return plan_scripts_peak_bytes((const struct script *const *)found->scripts, found->stack,
                                   found->real_bytes, found->compute_bytes);
}
