#include "executor/engine/moved.h"

#include <assert.h>

// What is offloaded waits in host memory, place by place of the script, until it comes back; or
// passes through it on the way to a drive (executor/engine/moved.c).

struct offloaded {
    struct offloaded *next;
    int chunk, position, micro_batch;  // that is there; chunk -1: it came back
    char *memory;                      // of all values, in order
    int64_t bytes;
};

// Of a place in the arena what is filled: where all is widened reals take half of theirs, which are
// as wide as they were. Rows of experts may take all.
static int64_t held_bytes(const struct engine *engine, const struct script_task *task,
                          const struct script_operand *operand, int64_t room_bytes)
{
    const struct block_program *block = engine_block(engine, task);
    int tensor = block->buffers[operand->buffer].tensor;
    const struct buffer *buffer = &block->buffers[operand->buffer];
    bool is_room = buffer->packed || buffer->cast || tensor < 0;
    if (is_room || block->block->tensors[tensor].density > 0) return room_bytes;
    enum element element = engine_element(engine, task, operand);
    return held_of_buffer(engine->program, block, operand->buffer, engine->rank).elements *
           engine_element_bytes(engine, element);
}

// What left last from a place: each leaves once before it comes back.
static struct offloaded *find(struct engine *engine, int chunk, int position, int micro_batch)
{
    for (struct offloaded *at = engine->offloaded; at; at = at->next) {
        bool is_it =
            at->chunk == chunk && at->position == position && at->micro_batch == micro_batch;
        if (is_it) return at;
    }
    return NULL;
}

// Room for what leaves: what came back left its own, else new. Both ways have a stream of their
// own, and a copy into used room comes behind the one out of it.
static struct offloaded *make_room(struct engine *engine, int task, int64_t bytes)
{
    assert(bytes > 0 && "an empty place neither leaves nor comes back");
    const struct script_task *of = &engine->script->tasks[task];
    struct offloaded *room = engine->offloaded;
    while (room && (room->chunk >= 0 || room->bytes != bytes))
        room = room->next;
    if (room) {
        if (!streams_join(engine, task, of->stream, STREAM_H2D)) return NULL;
    } else {
        room = ARENA_NEW(engine->arena, struct offloaded, 1);
        room->bytes = bytes;
        room->memory = host_memory(engine, bytes);
        if (!room->memory) return NULL;
        room->next = engine->offloaded;
        engine->offloaded = room;
        engine->host_bytes += bytes;
    }
    room->chunk = of->chunk;
    room->position = of->position;
    room->micro_batch = of->micro_batch;
    return room;
}

// Where the host has what a task takes out or brings back, and then keeps.
static char *host_side(struct engine *engine, int task, struct offloaded **room)
{
    const struct script_task *of = &engine->script->tasks[task];
    bool leaves = of->kind == TASK_COPY_OUT;
    if (engine->moved) return leaves ? moved_out(engine, task) : moved_back(engine, task);
    *room = leaves ? make_room(engine, task, moved_bytes(engine, task))
                   : find(engine, of->chunk, of->position, of->micro_batch);
    assert((leaves || *room) && "what comes back has left");
    return *room ? (*room)->memory : NULL;
}

// The rooms that what is on a drive passes through are used again: copies have to be done.
static bool pass_on(struct engine *engine, int task)
{
    enum stream stream = engine->script->tasks[task].stream;
    const char *fault = NULL;
    if (engine->backend->is_asynchronous)
        fault = engine->backend->synchronize(engine->device, stream);
    if (!engine_ok(engine, task, fault)) return false;
    if (engine->script->tasks[task].kind == TASK_COPY_OUT) moved_write(engine, task);
    return true;
}

bool offload_run(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    bool leaves = of->kind == TASK_COPY_OUT;
    const struct script_operand *operands = leaves ? of->inputs : of->outputs;
    int count = leaves ? of->input_count : of->output_count;
    struct offloaded *room = NULL;
    moving_begin(engine);
    char *host = host_side(engine, task, &room);
    if (!host) return false;
    for (int i = 0; i < count; i++) {
        char *device = engine_address(engine, of, &operands[i]);
        int64_t room_bytes = operands[i].bytes * engine->widen;
        int64_t bytes = held_bytes(engine, of, &operands[i], room_bytes);
        assert(bytes >= 0 && bytes <= room_bytes && "a value has room where it waits");
        measure_bytes(engine, task, bytes);
        const char *fault =
            leaves ? host_copy(engine, of->stream, COPY_TO_HOST, host, device, bytes)
                   : host_copy(engine, of->stream, COPY_FROM_HOST, device, host, bytes);
        if (!engine_ok(engine, task, fault)) return false;
        host += room_bytes;
    }
    assert((!room || host == room->memory + room->bytes) && "all of the place was moved");
    if (engine->moved && !pass_on(engine, task)) return false;
    if (room && !leaves) room->chunk = -1;
    moving_end(engine);
    return true;
}
