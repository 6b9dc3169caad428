#include "executor/engine/engine.h"

#include "plan/lower/groups.h"

// Groups of instructions that the back end runs as one call (plan/lower/groups.h). Their tasks
// stand behind one another but for what the step does in between; the first of them runs all, and
// memory is planned so. With --poison, which looks at the arena behind every operator, each runs by
// itself but for the members of a GEMM, which rounds otherwise than they do; and so does what the
// back end has no rule for: a plan may be of other software.

static const struct instr *instr_of(const struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    return &engine_block(engine, of)->instrs[of->instr];
}

// The task of instruction `instr` in the same piece of work, behind `task`; -1.
static int task_behind(const struct engine *engine, int task, int instr)
{
    const struct script_task *tasks = engine->script->tasks, *of = &tasks[task];
    for (int t = task + 1; t < engine->script->task_count && tasks[t].slot == of->slot; t++) {
        bool is_it = tasks[t].kind == TASK_INSTR && tasks[t].instr == instr &&
                     tasks[t].chunk == of->chunk && tasks[t].position == of->position &&
                     tasks[t].micro_batch == of->micro_batch;
        if (is_it) return t;
    }
    return -1;
}

// Whether all can run where the first of them stands.
static bool find_members(const struct engine *engine, int task, int *members)
{
    const struct instr *first = instr_of(engine, task);
    unsigned joins = engine->backend->joins;
    int at = engine->script->tasks[task].instr;
    members[0] = task;
    for (int i = 0; i < first->joined; i++) {
        if (i > 0) members[i] = task_behind(engine, members[i - 1], at + i);
        if (members[i] < 0 || (i > 0 && !(joins >> first[i].join & 1))) return false;
        // A room for gradients that others are still in.
        if (i > 0 && engine->prepared[members[i]].enters) return false;
    }
    return true;
}

void joins_prepare(struct engine *engine)
{
    const struct run_options *options = engine->request->options;
    if (!engine->backend->run_joined || options->operators_apart) return;
    for (int t = 0; t < engine->script->task_count; t++) {
        int members[GROUP_MEMBERS_MAX] = {0};
        if (engine->script->tasks[t].kind != TASK_INSTR) continue;
        int count = instr_of(engine, t)->joined;
        if (count == 0 || (options->poison && instr_of(engine, t)[1].join != JOIN_MERGED)) continue;
        if (!find_members(engine, t, members)) continue;
        engine->prepared[t].joined = count;
        engine->prepared[t].members = ARENA_NEW(engine->arena, int, count);
        for (int i = 0; i < count; i++) {
            engine->prepared[t].members[i] = members[i];
            engine->prepared[members[i]].is_joined = i > 0;
        }
    }
}

int joins_wait_count(const struct engine *engine, int task)
{
    const struct prepared *of = &engine->prepared[task];
    int count = of->is_joined ? 0 : engine->script->tasks[task].wait_count;
    for (int i = 1; i < of->joined; i++)
        count += engine->script->tasks[of->members[i]].wait_count;
    return count;
}

bool joins_run(struct engine *engine, int task)
{
    struct kernel_call calls[GROUP_MEMBERS_MAX];
    const struct prepared *of = &engine->prepared[task];
    bool is_merged = instr_of(engine, of->members[1])->join == JOIN_MERGED;
    for (int i = 0; i < of->joined; i++) {
        if (!call_make(engine, of->members[i], &calls[i])) return false;
        calls[i].merged = is_merged;
        tasks_measure_call(engine, of->members[i], &calls[i]);
    }
    enum stream stream = engine->script->tasks[task].stream;
    return engine_ok(engine, task,
                     engine->backend->run_joined(engine->device, stream, calls, of->joined));
}
