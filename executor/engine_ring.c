#include "executor/engine.h"

#include <assert.h>
#include <string.h>

// Ring attention (Liu et al. 2023): the keys and values of the group's ranks pass by, one block at
// a time; out and log-sum-exp merge, gradients of keys and values travel with their blocks and end
// where they began. The streamed gathers and scatters of the script stand for this: they do nothing
// themselves but copy the own block in and the finished gradients out.

enum { KEYS_MAX = 2 };  // k and v

static const struct instr *instr_of(const struct engine *engine, const struct script_task *task)
{
    if (task->kind != SCRIPT_INSTR) return NULL;
    return &engine_block(engine, task)->instrs[task->instr];
}

// The streamed gather in this task's micro-batch and block that made this buffer; -1.
static int maker_of(const struct engine *engine, int task, int buffer)
{
    const struct script_task *of = &engine->script->tasks[task];
    for (int t = task - 1; t >= 0; t--) {
        const struct script_task *other = &engine->script->tasks[t];
        if (other->slot != of->slot) return -1;
        const struct instr *instr = instr_of(engine, other);
        bool is_same = instr && other->position == of->position && instr->collective &&
                       instr->streamed && instr->outputs[0] == buffer;
        if (is_same) return t;
    }
    return -1;
}

static bool is_attention(const struct instr *instr)
{
    return instr && instr->collective == COLLECTIVE_NONE &&
           (instr->kind == OP_ATTENTION || instr->kind == OP_ATTENTION_BACKWARD);
}

bool ring_is(const struct engine *engine, int task)
{
    return engine->prepared[task].source >= 0;
}

void ring_prepare(struct engine *engine)
{
    for (int t = 0; t < engine->script->task_count; t++) {
        const struct instr *instr = instr_of(engine, &engine->script->tasks[t]);
        engine->prepared[t].source = -1;
        if (!is_attention(instr)) continue;
        int key = instr->kind == OP_ATTENTION ? 1 : 2;
        engine->prepared[t].source = maker_of(engine, t, instr->inputs[key]);
    }
}

struct ring {
    struct engine *engine;
    int task;
    const struct script_task *of;
    struct member_group *group;
    int steps;  // exchanges
    bool is_backward;
    const struct script_task *sources[KEYS_MAX];  // the gathers
    int inputs[KEYS_MAX];                         // of the call
    int64_t block_bytes[KEYS_MAX];                // room for the largest block
    char *slots[KEYS_MAX][2];                     // of keys and values
    char *gradients[KEYS_MAX][2];
};

// What member `m` holds of key input i.
static struct held block_held(const struct ring *ring, int i, int m)
{
    const struct block_program *block = engine_block(ring->engine, ring->of);
    const struct instr *instr = instr_of(ring->engine, ring->sources[i]);
    return held_of_buffer(ring->engine->program, block, instr->inputs[0], ring->group->ranks[m]);
}

static bool start(struct ring *ring, struct engine *engine, int task)
{
    *ring = (struct ring){.engine = engine, .task = task, .of = &engine->script->tasks[task]};
    const struct instr *instr = instr_of(engine, ring->of);
    ring->is_backward = instr->kind == OP_ATTENTION_BACKWARD;
    for (int i = 0; i < KEYS_MAX; i++) {
        ring->inputs[i] = (ring->is_backward ? 2 : 1) + i;
        int made = maker_of(engine, task, instr->inputs[ring->inputs[i]]);
        if (made < 0) return err_set(engine->err, ERR_SYSTEM, "a value does not pass with its key");
        ring->sources[i] = &engine->script->tasks[made];
    }
    const struct instr *gather = instr_of(engine, ring->sources[0]);
    ring->steps = gather->stream_steps;
    ring->group = engine_group(engine, gather->axes, "ring");
    if (!ring->group) return false;
    for (int i = 0; i < KEYS_MAX; i++) {
        for (int m = 0; m < ring->group->count; m++) {
            int64_t bytes = block_held(ring, i, m).elements * engine->real_bytes;
            if (bytes > ring->block_bytes[i]) ring->block_bytes[i] = bytes;
        }
        char *slots = engine_address(engine, ring->sources[i], &ring->sources[i]->outputs[0]);
        ring->slots[i][0] = slots;
        ring->slots[i][1] = slots + ring->block_bytes[i];
        if (!ring->is_backward) continue;
        char *gradients = engine_address(engine, ring->of, &ring->of->outputs[1 + i]);
        ring->gradients[i][0] = gradients;
        ring->gradients[i][1] = gradients + ring->block_bytes[i];
    }
    return true;
}

static void show(const struct ring *ring, struct kernel_array *array, int i, int member, char *data)
{
    struct held held = block_held(ring, i, member);
    array->data = data;
    for (int d = 0; d < array->rank; d++) {
        array->sizes[d] = held.count[d];
        if (array->dims[d] != DIM_BATCH) array->first[d] = held.first[d];
    }
}

// Causal: no query here sees keys that begin behind its own.
static bool is_seen(const struct ring *ring, int member)
{
    const struct block_program *block = engine_block(ring->engine, ring->of);
    const struct instr *instr = instr_of(ring->engine, ring->of);
    int buffer = instr_of(ring->engine, ring->sources[0])->inputs[0];
    int dim = tensor_find_dim(&block->block->tensors[block->buffers[buffer].tensor], DIM_SEQ);
    if (!instr->causal || dim < 0) return true;
    return block_held(ring, 0, member).first[dim] <=
           block_held(ring, 0, ring->group->index).first[dim];
}

static bool work(struct ring *ring, int member, int at, bool is_first)
{
    struct engine *engine = ring->engine;
    struct kernel_call call;
    if (!call_make(engine, ring->task, &call)) return false;
    for (int i = 0; i < KEYS_MAX; i++) {
        show(ring, &call.inputs[ring->inputs[i]], i, member, ring->slots[i][at]);
        if (!ring->is_backward) continue;
        show(ring, &call.outputs[1 + i], i, member, ring->gradients[i][at]);
        call.adds |= 1u << (1 + i);
    }
    call.merges = !is_first;
    if (ring->is_backward && !is_first) call.adds |= 1u;
    if (ring->is_backward && !is_first && call.output_count > 3) call.adds |= 1u << 3;  // sink
    return engine_ok(engine, ring->task,
                     engine->backend->run(engine->device, ring->of->stream, &call));
}

static bool pass_one(struct ring *ring, int channel, const char *from, int64_t sent, char *to,
                     int64_t received, int to_rank, int from_rank)
{
    struct engine *engine = ring->engine;
    const struct transport *transport = engine->transport;
    struct communicator *communicator = engine->request->communicator;
    measure_bytes(engine, ring->task, sent * engine->real_bytes);
    return engine_ok(engine, ring->task,
                     transport->send(communicator, STREAM_CP, to_rank, channel, from, sent)) &&
           engine_ok(engine, ring->task,
                     transport->receive(communicator, STREAM_CP, from_rank, channel, to, received));
}

enum { RING_CHANNEL = 64 };  // above those of the pipeline

// Hands what is held on, of the block of member `held`, and takes the one in front of it.
static bool pass(struct ring *ring, int held_member, int next_member, int at, bool keys)
{
    int count = ring->group->count, me = ring->group->index;
    int to = ring->group->ranks[(me + 1) % count];
    int from = ring->group->ranks[(me + count - 1) % count];
    for (int i = 0; i < KEYS_MAX; i++) {
        int64_t elements = block_held(ring, i, held_member).elements;
        int64_t wanted = block_held(ring, i, next_member).elements;
        if (keys && !pass_one(ring, RING_CHANNEL + i, ring->slots[i][at], elements,
                              ring->slots[i][1 - at], wanted, to, from))
            return false;
        bool grads = ring->is_backward;
        if (grads && !pass_one(ring, RING_CHANNEL + KEYS_MAX + i, ring->gradients[i][at], elements,
                               ring->gradients[i][1 - at], wanted, to, from))
            return false;
    }
    return true;
}

static bool clear_gradients(struct ring *ring, int at)
{
    struct engine *engine = ring->engine;
    for (int i = 0; i < KEYS_MAX && ring->is_backward; i++) {
        const char *fault = engine->backend->fill(engine->device, ring->of->stream,
                                                  ring->gradients[i][at], 0, ring->block_bytes[i]);
        if (!engine_ok(engine, ring->task, fault)) return false;
    }
    return true;
}

// Gradients that stopped short of a whole round go to who holds the keys.
static bool bring_home(struct ring *ring, int at)
{
    int count = ring->group->count, me = ring->group->index;
    int owner = (me + count - ring->steps % count) % count, other = (me + ring->steps) % count;
    for (int i = 0; i < KEYS_MAX; i++) {
        char *to = ring->gradients[i][1 - at];
        if (!pass_one(ring, RING_CHANNEL + 2 * KEYS_MAX + i, ring->gradients[i][at],
                      block_held(ring, i, owner).elements, to, block_held(ring, i, me).elements,
                      ring->group->ranks[owner], ring->group->ranks[other]))
            return false;
    }
    return true;
}

// The finished gradients stand at the beginning of their memory.
static bool settle(struct ring *ring, int at)
{
    struct engine *engine = ring->engine;
    for (int i = 0; i < KEYS_MAX && at != 0; i++) {
        const char *fault = engine->backend->copy(engine->device, ring->of->stream, COPY_DEVICE,
                                                  ring->gradients[i][0], ring->gradients[i][1],
                                                  block_held(ring, i, ring->group->index).elements *
                                                      engine->real_bytes);
        if (!engine_ok(engine, ring->task, fault)) return false;
    }
    return true;
}

bool ring_run(struct engine *engine, int task)
{
    struct ring ring;
    if (!start(&ring, engine, task)) return false;
    int count = ring.group->count, me = ring.group->index, at = 0;
    if (!clear_gradients(&ring, 0)) return false;
    for (int s = 0; s <= ring.steps; s++) {
        int member = (me + count - s) % count;
        // One's own block comes first, so that something has been seen when others merge.
        if (is_seen(&ring, member) && !work(&ring, member, at, s == 0)) return false;
        if (s == ring.steps) break;
        if (!pass(&ring, member, (member + count - 1) % count, at, true)) return false;
        at = 1 - at;
    }
    if (!ring.is_backward) return true;
    if (ring.steps > 0) {
        if (!bring_home(&ring, at)) return false;
        at = 1 - at;
    }
    return settle(&ring, at);
}

// A streamed gather puts the own block where the ring begins; a streamed scatter takes the finished
// gradients from where they travelled to where they are wanted. The reader between them does the
// rest.
bool ring_settle(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct instr *instr = instr_of(engine, of);
    const struct block_program *block = engine_block(engine, of);
    bool gathers = instr->collective == COLLECTIVE_ALL_GATHER;
    int own = gathers ? instr->inputs[0] : instr->outputs[0];
    struct held held = held_of_buffer(engine->program, block, own, engine->rank);
    const char *fault = engine->backend->copy(
        engine->device, of->stream, COPY_DEVICE, engine_address(engine, of, &of->outputs[0]),
        engine_address(engine, of, &of->inputs[0]), held.elements * engine->real_bytes);
    return engine_ok(engine, task, fault);
}
