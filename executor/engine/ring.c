#include "executor/engine/engine.h"

#include <assert.h>
#include <string.h>

// Ring attention (Liu et al. 2023): the keys and values of the group's ranks pass by, one block at
// a time; out and log-sum-exp merge, gradients of keys and values travel with their blocks and come
// home, where the owner adds its own share: so they take no more exchanges than the keys. The
// streamed gathers and scatters of the script stand for this: they do nothing themselves but copy
// the own block in and the finished gradients out, and what passes is counted as theirs.

enum { KEYS_MAX = 2 };  // k and v

static const struct instr *instr_of(const struct engine *engine, const struct script_task *task)
{
    if (task->kind != TASK_INSTR) return NULL;
    return &engine_block(engine, task)->instrs[task->instr];
}

// The streamed collective in this task's micro-batch and block, `step` by `step` from the task,
// that made this buffer, or that takes it; -1.
static int streamed_of(const struct engine *engine, int task, int step, int buffer)
{
    const struct script_task *of = &engine->script->tasks[task];
    for (int t = task + step; t >= 0 && t < engine->script->task_count; t += step) {
        const struct script_task *other = &engine->script->tasks[t];
        if (other->slot != of->slot) return -1;
        const struct instr *instr = instr_of(engine, other);
        bool is_same =
            instr && other->position == of->position && instr->collective && instr->streamed;
        if (is_same && (step < 0 ? instr->outputs : instr->inputs)[0] == buffer) return t;
    }
    return -1;
}

static int maker_of(const struct engine *engine, int task, int buffer)
{
    return streamed_of(engine, task, -1, buffer);
}

static int taker_of(const struct engine *engine, int task, int buffer)
{
    return streamed_of(engine, task, 1, buffer);
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
    bool has_worked;
    const struct script_task *sources[KEYS_MAX];  // the gathers
    int gathers[KEYS_MAX], scatters[KEYS_MAX];    // tasks
    int inputs[KEYS_MAX];                         // of the call
    int64_t block_bytes[KEYS_MAX];                // room for the largest block
    char *slots[KEYS_MAX][2];                     // of keys and values
    char *gradients[KEYS_MAX];
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
        ring->gathers[i] = made;
        if (!ring->is_backward) continue;
        ring->scatters[i] = taker_of(engine, task, instr->outputs[1 + i]);
        if (ring->scatters[i] < 0)
            return err_set(engine->err, ERR_SYSTEM, "nothing takes the gradients of passing keys");
    }
    const struct instr *gather = instr_of(engine, ring->sources[0]);
    ring->steps = gather->stream_steps;
    ring->group = engine_group(engine, gather->axes, "ring");
    if (!ring->group) return false;
    for (int i = 0; i < KEYS_MAX; i++) {
        for (int m = 0; m < ring->group->count; m++) {
            int64_t bytes = block_held(ring, i, m).elements * engine->compute_bytes;
            if (bytes > ring->block_bytes[i]) ring->block_bytes[i] = bytes;
        }
        char *slots = engine_address(engine, ring->sources[i], &ring->sources[i]->outputs[0]);
        ring->slots[i][0] = slots;
        ring->slots[i][1] = slots + ring->block_bytes[i];
        if (ring->is_backward)
            ring->gradients[i] = engine_address(engine, ring->of, &ring->of->outputs[1 + i]);
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

// Causal: no query here sees keys that begin behind its own, but for those of a prefix. Of halves
// the late one sees some keys of every rank.
static bool is_seen(const struct ring *ring, int member)
{
    const struct block_program *block = engine_block(ring->engine, ring->of);
    const struct instr *instr = instr_of(ring->engine, ring->of);
    int buffer = instr_of(ring->engine, ring->sources[0])->inputs[0];
    int dim = tensor_find_dim(&block->block->tensors[block->buffers[buffer].tensor], DIM_SEQ);
    if (!instr->causal || dim < 0 || ring->engine->program->order.half > 0) return true;
    int64_t first = block_held(ring, 0, member).first[dim];
    return first < block->block->ops[instr->op].prefix ||
           first <= block_held(ring, 0, ring->group->index).first[dim];
}

static bool work(struct ring *ring, int member, int at)
{
    struct engine *engine = ring->engine;
    struct kernel_call call;
    if (!is_seen(ring, member)) return true;
    if (!call_make(engine, ring->task, &call)) return false;
    for (int i = 0; i < KEYS_MAX; i++) {
        show(ring, &call.inputs[ring->inputs[i]], i, member, ring->slots[i][at]);
        if (!ring->is_backward) continue;
        show(ring, &call.outputs[1 + i], i, member, ring->gradients[i]);
        call.adds |= 1u << (1 + i);
    }
    call.merges = ring->has_worked;
    if (ring->is_backward && ring->has_worked) call.adds |= 1u;
    if (ring->is_backward && ring->has_worked && call.output_count > 3)
        call.adds |= 1u << 3;  // sink
    ring->has_worked = true;
    return engine_ok(engine, ring->task,
                     engine->backend->run(engine->device, ring->of->stream, &call));
}

// What is sent is copied, so that what comes may take its place. `as`: whose bytes they are.
static bool pass_one(struct ring *ring, int as, int channel, const char *from, int64_t sent,
                     char *to, int64_t received, int to_rank, int from_rank)
{
    struct engine *engine = ring->engine;
    const struct transport *transport = engine->transport;
    struct communicator *communicator = engine->request->communicator;
    measure_bytes(engine, as, sent * engine->compute_bytes);
    traffic_to(engine, to_rank, sent * engine->compute_bytes);
    return engine_ok(engine, ring->task,
                     transport->send(communicator, STREAM_CP, ELEMENT_COMPUTE, to_rank, channel,
                                     from, sent)) &&
           engine_ok(engine, ring->task,
                     transport->receive(communicator, STREAM_CP, ELEMENT_COMPUTE, from_rank,
                                        channel, to, received));
}

enum { RING_CHANNEL = 64 };  // above those of the pipeline

static int member_behind(const struct ring *ring, int steps)
{
    int count = ring->group->count;
    return (ring->group->index + count - steps % count) % count;
}

// Hands the keys of exchange `step` on, and takes the block in front of them.
static bool pass_keys(struct ring *ring, int step, int from_slot, int to_slot)
{
    int to = ring->group->ranks[(ring->group->index + 1) % ring->group->count];
    int from = ring->group->ranks[member_behind(ring, 1)];
    for (int i = 0; i < KEYS_MAX; i++) {
        if (!pass_one(ring, ring->gathers[i], RING_CHANNEL + i, ring->slots[i][from_slot],
                      block_held(ring, i, member_behind(ring, step - 1)).elements,
                      ring->slots[i][to_slot],
                      block_held(ring, i, member_behind(ring, step)).elements, to, from))
            return false;
    }
    return true;
}

// Hands the gradients of one block on and takes those of another: blocks so far behind the own.
static bool pass_gradients(struct ring *ring, int held_behind, int next_behind, int to_member,
                           int from_member)
{
    for (int i = 0; i < KEYS_MAX; i++) {
        if (!pass_one(ring, ring->scatters[i], RING_CHANNEL + KEYS_MAX + i, ring->gradients[i],
                      block_held(ring, i, member_behind(ring, held_behind)).elements,
                      ring->gradients[i],
                      block_held(ring, i, member_behind(ring, next_behind)).elements,
                      ring->group->ranks[to_member], ring->group->ranks[from_member]))
            return false;
    }
    return true;
}

static bool clear_gradients(struct ring *ring)
{
    struct engine *engine = ring->engine;
    for (int i = 0; i < KEYS_MAX; i++) {
        const char *fault = engine->backend->fill(engine->device, ring->of->stream,
                                                  ring->gradients[i], 0, ring->block_bytes[i]);
        if (!engine_ok(engine, ring->task, fault)) return false;
    }
    return true;
}

// The exchanges go on behind what has been put on the stream of the work, or the other way round.
static bool let_pass(struct ring *ring)
{
    return streams_join(ring->engine, ring->task, STREAM_CP, ring->of->stream);
}
static bool let_work(struct ring *ring)
{
    return streams_join(ring->engine, ring->task, ring->of->stream, STREAM_CP);
}

// Which of the two marks says that the work on the block in a slot is done.
static enum stream_mark mark_of(int step)
{
    return step % 2 ? MARK_RING_NEXT : MARK_RING;
}

// One's own block comes first, so that something has been seen when others merge. A block passes
// while the one before it is worked on: it takes the place of the one before that.
static bool run_forward(struct ring *ring)
{
    struct engine *engine = ring->engine;
    int task = ring->task;
    enum stream compute = ring->of->stream;
    if (!let_pass(ring) || !work(ring, ring->group->index, 0) ||
        !streams_mark(engine, task, mark_of(0), compute))
        return false;
    for (int s = 1; s <= ring->steps; s++) {
        if (s > 1 && !streams_follow(engine, task, mark_of(s), STREAM_CP)) return false;
        if (!pass_keys(ring, s, (s - 1) % 2, s % 2)) return false;
        if (!let_work(ring) || !work(ring, member_behind(ring, s), s % 2)) return false;
        if (!streams_mark(engine, task, mark_of(s), compute)) return false;
    }
    return true;
}

// One's own block comes last, when its gradients are home. Its keys stay where they are.
static bool run_backward(struct ring *ring)
{
    int count = ring->group->count, me = ring->group->index;
    if (!clear_gradients(ring)) return false;
    for (int s = 1; s <= ring->steps; s++) {
        if (!let_pass(ring) || !pass_keys(ring, s, s > 1, 1)) return false;
        if (s > 1 && !pass_gradients(ring, s - 1, s, (me + 1) % count, member_behind(ring, 1)))
            return false;
        if (!let_work(ring) || !work(ring, member_behind(ring, s), 1)) return false;
    }
    if (ring->steps > 0 && !let_pass(ring)) return false;
    if (ring->steps > 0 && !pass_gradients(ring, ring->steps, 0, member_behind(ring, ring->steps),
                                           (me + ring->steps) % count))
        return false;
    return let_work(ring) && work(ring, me, 0);
}

bool ring_run(struct engine *engine, int task)
{
    struct ring ring;
    struct kernel_call call;
    if (!start(&ring, engine, task) || !call_make(engine, task, &call)) return false;
    assert(ring.group);
    tasks_measure_call(engine, task, &call);
    return ring.is_backward ? run_backward(&ring) : run_forward(&ring);
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
        engine_address(engine, of, &of->inputs[0]), held.elements * engine->compute_bytes);
    return engine_ok(engine, task, fault);
}
