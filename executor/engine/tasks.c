#include "executor/array.h"
#include "executor/engine/engine.h"

#include <assert.h>

// What each task of the step graph took, on all ranks together: how often it ran, what it read and
// wrote or moved, and for how long. Those of one rank's script that are one task of the graph, in
// other micro-batches and layers, are added up. Counted while they run, not from the script.

enum { RAN, BYTES, TIMED, SECONDS, NUMBERS };

bool tasks_open(struct engine *engine)
{
    engine->ran = ARENA_NEW(engine->arena, int, engine->script->task_count + 1);
    engine->plain_bytes = ARENA_NEW(engine->arena, int64_t, engine->script->task_count + 1);
    engine->sums =
        ARENA_NEW(engine->arena, double, NUMBERS *(engine->script->graph->number_count + 1));
    return true;
}

void tasks_start_step(struct engine *engine)
{
    for (int t = 0; t < engine->script->task_count; t++)
        engine->ran[t] = 0;
}

void tasks_ran(struct engine *engine, int first, int count)
{
    assert(first >= 0 && count >= 0 && first + count <= engine->script->task_count);
    for (int t = first; t < first + count; t++)
        engine->ran[t]++;
}

void tasks_add(struct engine *engine, int task, int64_t bytes, bool is_timed, double seconds)
{
    assert(bytes >= 0 &&
           engine->script->tasks[task].in_graph < engine->script->graph->number_count);
    double *sums = engine->sums + (ptrdiff_t)NUMBERS * engine->script->tasks[task].in_graph;
    // What is replayed moves what it did when it ran by itself, in the first step that counts.
    if (segments_is_plain(engine, task)) {
        int64_t *plain = &engine->plain_bytes[task];
        if (*plain == 0) *plain = bytes;
        bytes = *plain;
    }
    sums[RAN] += engine->ran[task];
    sums[BYTES] += (double)bytes;
    sums[TIMED] += is_timed;
    sums[SECONDS] += is_timed ? seconds : 0;
}

bool tasks_finish(struct engine *engine, int steps, struct run_result *result)
{
    int count = engine->script->graph->number_count;
    const char *fault = engine->transport->host_sum(engine->world, engine->sums, NUMBERS * count);
    if (!engine_ok(engine, -1, fault)) return false;
    result->tasks = ARENA_NEW(engine->arena, struct run_task, count);
    result->task_count = count;
    for (int i = 0; i < count && steps > 0; i++) {
        const double *sums = engine->sums + (ptrdiff_t)NUMBERS * i;
        result->tasks[i] = (struct run_task){
            .count = sums[RAN] / steps,
            .bytes = sums[BYTES] / steps,
            .s = sums[TIMED] > 0 ? sums[SECONDS] / sums[TIMED] * sums[RAN] / steps : 0,
        };
    }
    return true;
}

static int64_t array_bytes(const struct engine *engine, const struct kernel_call *call,
                           const struct kernel_array *array)
{
    return call_held_elements(call, array) * engine_element_bytes(engine, array->element);
}

void tasks_measure_call(struct engine *engine, int task, const struct kernel_call *call)
{
    int64_t bytes = 0;
    for (int i = 0; i < call->input_count; i++)
        bytes += array_bytes(engine, call, &call->inputs[i]);
    for (int i = 0; i < call->output_count; i++)
        bytes += array_bytes(engine, call, &call->outputs[i]);
    if (call->cast_to) bytes += array_bytes(engine, call, &call->cast_from) / engine->compute_bytes;
    measure_bytes(engine, task, bytes);
}
