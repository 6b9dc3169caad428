#include "executor/engine/engine.h"

// Operators in a row that the back end runs as one: a GEMM, its bias and its activation; or the
// gradients of a weight and a bias. What only the next of them reads is then written nowhere. They
// run where the first of them stood, so that what the later ones write must not take the place of
// what the first ones read, which is dead by then otherwise.

enum { JOINED_MAX = 3 };

static const struct instr *instr_of(const struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    return &engine_block(engine, of)->instrs[of->instr];
}

static bool is_boundary(const struct block_program *block, int buffer)
{
    for (int i = 0; i < 2; i++) {
        if (block->outputs[i] == buffer || block->input_gradients[i] == buffer) return true;
    }
    return block->buffers[buffer].external || block->buffers[buffer].saved;
}

// Whether one instruction alone reads what a task makes.
static bool is_read_once(const struct engine *engine, int task)
{
    const struct block_program *block = engine_block(engine, &engine->script->tasks[task]);
    int buffer = instr_of(engine, task)->outputs[0], readers = 0;
    if (is_boundary(block, buffer)) return false;
    for (int i = 0; i < block->instr_count; i++) {
        for (int k = 0; k < block->instrs[i].input_count; k++)
            readers += block->instrs[i].inputs[k] == buffer;
    }
    return readers == 1;
}

static bool overlaps(const struct script_operand *a, const struct script_operand *b)
{
    return a->place == PLACE_ARENA && b->place == PLACE_ARENA && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

// What a task of a row writes leaves what the others read from outside alone.
static bool is_apart(const struct engine *engine, int first, int count)
{
    const struct script_task *tasks = &engine->script->tasks[first];
    for (int writer = 1; writer < count; writer++) {
        for (int reader = 0; reader < count; reader++) {
            for (int i = 0; i < tasks[reader].input_count; i++) {
                const struct script_operand *input = &tasks[reader].inputs[i];
                const struct script_operand *before =
                    &tasks[reader > 0 ? reader - 1 : 0].outputs[0];
                bool is_inner = reader > 0 && input->place == PLACE_ARENA &&
                                before->place == PLACE_ARENA && input->offset == before->offset;
                if (!is_inner && overlaps(&tasks[writer].outputs[0], input)) return false;
            }
        }
    }
    return true;
}

static int joined_at(struct engine *engine, int task)
{
    struct kernel_call calls[JOINED_MAX];
    int count = 0, last = engine->script->task_count;
    unsigned written = 0;
    for (int t = task; t < last && count < JOINED_MAX; t++, count++) {
        bool fits = count == 0 ? segments_is_plain(engine, t) : segments_goes_on(engine, t);
        bool is_one = fits && engine->script->tasks[t].kind == TASK_INSTR &&
                      engine->script->tasks[t].output_count == 1;
        if (!is_one || !call_make(engine, t, &calls[count])) break;
    }
    int joined = engine->backend->joins(calls, count, &written);
    for (int i = 0; i + 1 < joined; i++) {
        if (!(written >> i & 1) && !is_read_once(engine, task + i)) return 0;
    }
    return joined > 0 && is_apart(engine, task, joined) ? joined : 0;
}

void joins_prepare(struct engine *engine)
{
    const struct run_options *options = engine->request->options;
    if (!engine->backend->joins || options->poison || options->operators_apart) return;
    for (int t = 0; t < engine->script->task_count; t++) {
        const struct script_task *of = &engine->script->tasks[t];
        if (of->kind != TASK_INSTR || instr_of(engine, t)->collective) continue;
        enum op_kind kind = instr_of(engine, t)->kind;
        bool may_begin = kind == OP_CONTRACT || kind == OP_REDUCE;
        if (!may_begin || engine->prepared[t].is_joined) continue;
        struct arena_mark mark = arena_mark(engine->scratch);
        int joined = joined_at(engine, t);
        arena_reset(engine->scratch, mark);
        if (joined == 0) continue;
        engine->prepared[t].joined = joined;
        for (int i = 1; i < joined; i++)
            engine->prepared[t + i].is_joined = true;
    }
}

bool joins_run(struct engine *engine, int task)
{
    struct kernel_call calls[JOINED_MAX];
    int count = engine->prepared[task].joined;
    for (int i = 0; i < count; i++) {
        if (!call_make(engine, task + i, &calls[i])) return false;
        tasks_measure_call(engine, task + i, &calls[i]);
    }
    enum stream stream = engine->script->tasks[task].stream;
    return engine_ok(engine, task,
                     engine->backend->run_joined(engine->device, stream, calls, count));
}
