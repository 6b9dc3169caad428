#include "tests/support/script_change.h"

static void renumber(struct script *script, int from, int by, int gone)
{
    for (int t = 0; t < script->task_count; t++) {
        struct script_task *task = &script->tasks[t];
        int kept = 0;
        for (int i = 0; i < task->wait_count; i++) {
            if (task->waits[i] == gone) continue;
            task->waits[kept++] = task->waits[i] + (task->waits[i] >= from ? by : 0);
        }
        task->wait_count = kept;
    }
}

void script_change_drop(struct script *script, int task)
{
    for (int i = task; i + 1 < script->task_count; i++)
        script->tasks[i] = script->tasks[i + 1];
    script->task_count--;
    renumber(script, task, -1, task);
}

void script_change_insert(struct arena *arena, struct script *script, int at,
                          struct script_task task)
{
    struct script_task *tasks = ARENA_NEW(arena, struct script_task, script->task_count + 1);
    renumber(script, at, 1, -1);
    for (int i = 0; i < script->task_count; i++)
        tasks[i + (i >= at)] = script->tasks[i];
    tasks[at] = task;
    tasks[at].wait_count = 0;
    script->tasks = tasks;
    script->task_count++;
}
