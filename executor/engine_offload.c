#include "executor/engine.h"

// What is offloaded waits in host memory, place by place of the script, until it comes back.

struct offloaded {
    struct offloaded *next;
    int chunk, position, micro_batch;
    char *memory;  // of all values, in order
};

static int64_t bytes_of(const struct engine *engine, const struct script_operand *operands,
                        int count)
{
    int64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += operands[i].bytes * engine->widen;
    return bytes;
}

static struct offloaded *find(struct engine *engine, const struct script_task *task)
{
    for (struct offloaded *at = engine->offloaded; at; at = at->next) {
        bool is_it = at->chunk == task->chunk && at->position == task->position &&
                     at->micro_batch == task->micro_batch;
        if (is_it) return at;
    }
    struct offloaded *made = ARENA_NEW(engine->arena, struct offloaded, 1);
    *made =
        (struct offloaded){engine->offloaded, task->chunk, task->position, task->micro_batch, NULL};
    int64_t bytes = bytes_of(engine, task->inputs, task->input_count);
    made->memory = host_memory(engine, bytes);
    return engine->offloaded = made;
}

bool offload_run(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    bool leaves = of->kind == SCRIPT_COPY_OUT;
    const struct script_operand *operands = leaves ? of->inputs : of->outputs;
    int count = leaves ? of->input_count : of->output_count;
    char *host = find(engine, of)->memory;
    if (!host) return false;
    measure_bytes(engine, task, bytes_of(engine, operands, count));
    for (int i = 0; i < count; i++) {
        char *device = engine_address(engine, of, &operands[i]);
        int64_t bytes = operands[i].bytes * engine->widen;
        const char *fault =
            leaves ? host_copy(engine, of->stream, COPY_TO_HOST, host, device, bytes)
                   : host_copy(engine, of->stream, COPY_FROM_HOST, device, host, bytes);
        if (!engine_ok(engine, task, fault)) return false;
        host += bytes;
    }
    return true;
}
