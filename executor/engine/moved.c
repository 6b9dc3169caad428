#include "executor/engine/moved.h"
#include "executor/nvme.h"

#include <assert.h>

// Activations on NVMe: what leaves is copied into a room of the host and written from there, what
// comes back is read into one while the task before it runs. There are two rooms, as many as layers
// are in transit (cost_models/memory.h). What is written is there when it is read.

enum { ROOMS = 2, NOTHING = -1 };

struct room {
    char *memory;
    int64_t request;  // 1 + the last one; 0: none
    int holds;        // which of `backs` is read into it ahead, or NOTHING that is wanted
};

struct moved {
    struct nvme *nvme;
    int64_t *at;  // [task] where in the file what it moves is
    int *left;    // [task] that brings something back: the one with which it left
    int *backs;   // tasks that bring something back, in their order
    int back_count, next_back;
    struct room rooms[ROOMS];
    int out;  // the room that was filled last
};

static bool copies(const struct engine *engine, int task)
{
    enum task_kind kind = engine->script->tasks[task].kind;
    return kind == TASK_COPY_OUT || kind == TASK_COPY_IN;
}

int64_t moved_bytes(const struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    bool leaves = of->kind == TASK_COPY_OUT;
    const struct script_operand *operands = leaves ? of->inputs : of->outputs;
    int64_t bytes = 0;
    for (int i = 0; i < (leaves ? of->input_count : of->output_count); i++)
        bytes += operands[i].bytes * engine->widen;
    return bytes;
}

// A place in the file for what leaves: that of as much as has come back, else behind all. What
// comes back is where the last of its block and micro-batch has left to.
static int64_t place_all(struct engine *engine, struct moved *moved)
{
    const struct script *script = engine->script;
    int *out_of = ARENA_NEW(engine->scratch, int, script->task_count + 1);  // [place] 1 + task
    int64_t *ats = ARENA_NEW(engine->scratch, int64_t, script->task_count + 1);
    int64_t *sizes = ARENA_NEW(engine->scratch, int64_t, script->task_count + 1), end = 0;
    int places = 0;
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *of = &script->tasks[t];
        if (!copies(engine, t)) continue;
        bool leaves = of->kind == TASK_COPY_OUT;
        int64_t bytes = moved_bytes(engine, t);
        int p = 0;
        for (; p < places; p++) {
            const struct script_task *out = out_of[p] ? &script->tasks[out_of[p] - 1] : NULL;
            bool is_free = !out && sizes[p] == bytes;
            bool is_own = out && out->chunk == of->chunk && out->position == of->position &&
                          out->micro_batch == of->micro_batch;
            if (leaves ? is_free : is_own) break;
        }
        assert((leaves || p < places) && "what comes back has left");
        if (p == places) {
            ats[places] = end;
            sizes[places++] = bytes;
            end += bytes;
        }
        moved->at[t] = ats[p];
        moved->left[t] = out_of[p] - 1;
        out_of[p] = leaves ? 1 + t : 0;
        if (!leaves) moved->backs[moved->back_count++] = t;
    }
    return end;
}

bool moved_open(struct engine *engine)
{
    const struct script *script = engine->script;
    if (engine->program->parallel.offload.activations != TIER_NVME) return true;
    struct moved *moved = ARENA_NEW(engine->arena, struct moved, 1);
    moved->at = ARENA_NEW(engine->arena, int64_t, script->task_count + 1);
    moved->left = ARENA_NEW(engine->arena, int, script->task_count + 1);
    moved->backs = ARENA_NEW(engine->arena, int, script->task_count + 1);
    struct arena_mark mark = arena_mark(engine->scratch);
    int64_t bytes = place_all(engine, moved), largest = 0;
    arena_reset(engine->scratch, mark);
    for (int t = 0; t < script->task_count; t++) {
        int64_t own = copies(engine, t) ? moved_bytes(engine, t) : 0;
        if (own > largest) largest = own;
    }
    for (int i = 0; i < ROOMS; i++) {
        moved->rooms[i] = (struct room){host_memory(engine, largest + 1), 0, NOTHING};
        if (!moved->rooms[i].memory) return false;
    }
    moved->nvme = nvme_open(engine->arena, engine->request->options->nvme, bytes, engine->err);
    if (!moved->nvme) return false;
    engine->nvme_bytes += bytes;
    engine->drives[engine->drive_count++] = moved->nvme;
    engine->host_bytes += ROOMS * largest < bytes ? ROOMS * largest : bytes;
    engine->moved = moved;
    return true;
}

void moved_close(struct engine *engine)
{
    if (engine->moved) nvme_close(engine->moved->nvme);
}

void moved_start(struct engine *engine)
{
    if (engine->moved) engine->moved->next_back = 0;
}

// A room for something else, once what it is used for is done: one of which nothing is wanted, if
// there is; what was read ahead is read again when its time comes.
static struct room *take_room(struct engine *engine, int task, const struct room *but)
{
    struct moved *moved = engine->moved;
    int room = (moved->out + 1) % ROOMS;
    bool is_taken = &moved->rooms[room] == but || moved->rooms[room].holds != NOTHING;
    int other = (room + 1) % ROOMS;
    if (is_taken && &moved->rooms[other] != but) room = other;
    struct room *taken = &moved->rooms[room];
    const char *fault = taken->request ? nvme_wait(moved->nvme, taken->request - 1) : NULL;
    taken->request = 0;
    taken->holds = NOTHING;
    moved->out = room;
    return engine_ok(engine, task, fault) ? taken : NULL;
}

char *moved_out(struct engine *engine, int task)
{
    struct room *room = take_room(engine, task, NULL);
    return room ? room->memory : NULL;
}

void moved_write(struct engine *engine, int task)
{
    struct moved *moved = engine->moved;
    struct room *room = &moved->rooms[moved->out];
    room->request = 1 + nvme_start(moved->nvme, NVME_WRITE, room->memory, moved_bytes(engine, task),
                                   moved->at[task]);
}

static void start_read(struct engine *engine, struct room *room, int nth)
{
    struct moved *moved = engine->moved;
    int task = moved->backs[nth];
    room->holds = nth;
    room->request = 1 + nvme_start(moved->nvme, NVME_READ, room->memory, moved_bytes(engine, task),
                                   moved->at[task]);
}

// What comes next, if it has left by then.
static bool read_ahead(struct engine *engine, int task, int nth, const struct room *used)
{
    struct moved *moved = engine->moved;
    if (nth == moved->back_count || moved->left[moved->backs[nth]] >= task) return true;
    struct room *room = take_room(engine, task, used);
    if (room) start_read(engine, room, nth);
    return room != NULL;
}

char *moved_back(struct engine *engine, int task)
{
    struct moved *moved = engine->moved;
    int nth = moved->next_back++;
    struct room *room = NULL;
    assert(moved->backs[nth] == task);
    for (int i = 0; i < ROOMS; i++) {
        if (moved->rooms[i].holds == nth) room = &moved->rooms[i];
    }
    if (!room) {
        if (!(room = take_room(engine, task, NULL))) return NULL;
        start_read(engine, room, nth);
    }
    const char *fault = nvme_wait(moved->nvme, room->request - 1);
    room->request = 0;
    if (!engine_ok(engine, task, fault) || !read_ahead(engine, task, nth + 1, room)) return NULL;
    room->holds = NOTHING;
    return room->memory;
}
