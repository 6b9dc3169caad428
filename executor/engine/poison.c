#include "executor/engine/engine.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

// --poison: memory of the arena that holds nothing is full of NaN, so that who reads what is not
// there makes NaN, which is found behind the task, and guards stand round the arena. A value is
// dead behind the last task that touches its memory before another value is made there.

enum { GUARD_BYTES = 4096, GUARD_BYTE = 0xA5, DEAD_BYTE = 0xFF };

int64_t poison_guard_bytes(const struct engine *engine)
{
    return engine->request->options->poison ? GUARD_BYTES : 0;
}

struct open_value {
    int64_t offset, bytes;
    int first, buffer;  // the task that made it, and of its block's buffers which
    int last;           // task that touched it
};

struct finding {
    struct engine *engine;
    struct open_value *open;
    int open_count;
};

static void end_value(struct finding *finding, int index)
{
    struct engine *engine = finding->engine;
    const struct open_value *value = &finding->open[index];
    assert(value->first <= value->last && "a value is touched behind its maker");
    engine->ends[engine->end_count++] =
        (struct value_end){value->first, value->last, value->offset, value->bytes};
    finding->open[index] = finding->open[--finding->open_count];
}

static bool overlaps(const struct open_value *value, const struct script_operand *operand)
{
    return operand->offset < value->offset + value->bytes &&
           value->offset < operand->offset + operand->bytes;
}

// Reading a part keeps the whole value alive.
static void read_operand(struct finding *finding, const struct script_operand *operand, int task)
{
    for (int i = 0; i < finding->open_count; i++) {
        if (overlaps(&finding->open[i], operand)) finding->open[i].last = task;
    }
}

// Whether a task writes another part of the packed rows, or of those that come one by one, that a
// value is.
static bool goes_on(const struct finding *finding, const struct open_value *value,
                    const struct script_operand *operand, int task)
{
    const struct script_task *tasks = finding->engine->script->tasks;
    const struct script_task *maker = &tasks[value->first], *of = &tasks[task];
    if (of->kind != TASK_INSTR || value->buffer != operand->buffer || operand->buffer < 0)
        return false;
    const struct block_program *block = engine_block(finding->engine, of);
    bool is_part = block->buffers[operand->buffer].packed || block->instrs[of->instr].rows;
    return is_part && maker->chunk == of->chunk && maker->position == of->position &&
           maker->micro_batch == of->micro_batch;
}

// Written in place, it is the same value; else what was there is dead.
static void write_operand(struct finding *finding, const struct script_operand *operand, int task)
{
    for (int i = 0; i < finding->open_count; i++) {
        struct open_value *value = &finding->open[i];
        if (!overlaps(value, operand)) continue;
        bool is_inside = operand->offset >= value->offset &&
                         operand->offset + operand->bytes <= value->offset + value->bytes;
        bool is_same =
            operand->adds || value->last == task || goes_on(finding, value, operand, task);
        if (is_inside && is_same) {
            value->last = task;
            return;
        }
        end_value(finding, i--);
    }
    finding->open[finding->open_count++] =
        (struct open_value){operand->offset, operand->bytes, task, operand->buffer, task};
}

static bool is_in_arena(const struct script_operand *operand)
{
    return operand->place == PLACE_ARENA && operand->bytes > 0;
}

// Ends are taken in the order in which tasks run.
static int by_task(const void *a, const void *b)
{
    const struct value_end *x = a, *y = b;
    if (x->task != y->task) return x->task < y->task ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

// An exchange inside an operator goes on with what that reads and writes.
static void read_around(struct finding *finding, int task)
{
    int owner = finding->engine->prepared[task].owner;
    if (owner < 0) return;
    const struct script_task *of = &finding->engine->script->tasks[owner];
    for (int i = 0; i < of->input_count + of->output_count; i++) {
        const struct script_operand *operand =
            i < of->input_count ? &of->inputs[i] : &of->outputs[i - of->input_count];
        if (is_in_arena(operand)) read_operand(finding, operand, task);
    }
}

void poison_prepare(struct engine *engine)
{
    const struct script *script = engine->script;
    int outputs = 0;
    for (int t = 0; t < script->task_count; t++)
        outputs += script->tasks[t].output_count;
    engine->ends = ARENA_NEW(engine->arena, struct value_end, outputs + 1);
    struct finding finding = {.engine = engine,
                              .open = ARENA_NEW(engine->arena, struct open_value, outputs + 1)};
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        for (int i = 0; i < task->input_count; i++) {
            if (is_in_arena(&task->inputs[i])) read_operand(&finding, &task->inputs[i], t);
        }
        read_around(&finding, t);
        for (int i = 0; i < task->output_count; i++) {
            if (is_in_arena(&task->outputs[i])) write_operand(&finding, &task->outputs[i], t);
        }
    }
    while (finding.open_count > 0)
        end_value(&finding, finding.open_count - 1);
    assert(engine->end_count <= outputs && "each output makes one value at most");
    qsort(engine->ends, (size_t)engine->end_count, sizeof *engine->ends, by_task);
}

bool poison_start(struct engine *engine)
{
    assert(engine->end_count == 0 ||
           engine->ends[engine->end_count - 1].task < engine->script->task_count);
    int64_t bytes = engine->script->arena_bytes * engine->widen;
    const struct backend *backend = engine->backend;
    engine->next_end = 0;
    if (!engine->request->options->poison) return true;
    return engine_ok(engine, -1,
                     backend->fill(engine->device, STREAM_COMPUTE, engine->memory - GUARD_BYTES,
                                   GUARD_BYTE, bytes + 2 * GUARD_BYTES)) &&
           engine_ok(
               engine, -1,
               backend->fill(engine->device, STREAM_COMPUTE, engine->memory, DEAD_BYTE, bytes));
}

// Whether an exchange inside the operator stands behind it.
static bool is_exchanging(const struct block_program *block, int at)
{
    const struct instr *instr = &block->instrs[at], *next = instr + 1;
    return at + 1 < block->instr_count && next->inner > 0 && next->op == instr->op;
}

// Whether an instruction has written all of its results when it is done: not with an exchange
// inside, blocks that pass by, parts, rows of experts, of which some do not exist, a part of packed
// rows, or what runs as one with others.
static bool is_all_there(const struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    if (of->kind != TASK_INSTR || ring_is(engine, task)) return false;
    if (engine->prepared[task].joined || engine->prepared[task].is_joined) return false;
    const struct block_program *block = engine_block(engine, of);
    const struct instr *instr = &block->instrs[of->instr];
    bool is_loss = instr->collective == COLLECTIVE_NONE && op_is_loss(instr->kind);
    bool is_piece = instr->collective && block->buffers[instr->inputs[0]].is_own;
    if (instr->inner > 0 || instr->streamed || instr->rows || is_loss || is_piece ||
        is_exchanging(block, of->instr))
        return false;
    for (int i = 0; i < of->output_count; i++) {
        if (of->outputs[i].buffer < 0 || instr->output_views[i]) return false;
        int tensor = block->buffers[of->outputs[i].buffer].tensor;
        if (tensor < 0 || block->block->tensors[tensor].density > 0) return false;
    }
    return true;
}

static bool is_real(const struct engine *engine, const struct script_task *of, int output)
{
    const struct block_program *block = engine_block(engine, of);
    const struct buffer *buffer = &block->buffers[of->outputs[output].buffer];
    enum element element = block->block->tensors[buffer->tensor].element;
    if (buffer->cast) return false;
    return element == ELEMENT_COMPUTE || element == ELEMENT_FP32;
}

// Back ends sum reals; what is narrower is summed here.
static bool sum_squares(struct engine *engine, int task, const struct script_operand *operand,
                        double *squares)
{
    const struct script_task *of = &engine->script->tasks[task];
    struct held held =
        held_of_buffer(engine->program, engine_block(engine, of), operand->buffer, engine->rank);
    enum element element = engine_element(engine, of, operand);
    const char *at = engine_address(engine, of, operand);
    if (engine_element_bytes(engine, element) == engine->real_bytes)
        return engine_ok(
            engine, task,
            engine->backend->sum_squares(engine->device, of->stream, at, held.elements, squares));
    double *values = ARENA_NEW(engine->scratch, double, held.elements + 1);
    if (!numbers_read(engine, task, element, at, held.elements, values)) return false;
    for (int64_t i = 0; i < held.elements; i++)
        *squares += values[i] * values[i];
    return true;
}

static bool results_are_numbers(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    if (!is_all_there(engine, task)) return true;
    for (int i = 0; i < of->output_count; i++) {
        const struct script_operand *operand = &of->outputs[i];
        if (operand->place != PLACE_ARENA || !is_real(engine, of, i)) continue;
        double squares = 0;
        if (!sum_squares(engine, task, operand, &squares)) return false;
        if (isnan(squares))
            return engine_ok(engine, task,
                             "its result is no number: it read memory that holds nothing, or "
                             "training has diverged");
    }
    return true;
}

bool poison_after(struct engine *engine, int task)
{
    if (!streams_settle(engine) || !results_are_numbers(engine, task)) return false;
    while (engine->next_end < engine->end_count && engine->ends[engine->next_end].task == task) {
        assert(engine->ends[engine->next_end].first <= task && "what is dead has lived");
        const struct value_end *end = &engine->ends[engine->next_end++];
        const char *fault = engine->backend->fill(engine->device, STREAM_COMPUTE,
                                                  engine->memory + end->offset * engine->widen,
                                                  DEAD_BYTE, end->bytes * engine->widen);
        if (!engine_ok(engine, task, fault)) return false;
    }
    return streams_settle(engine);
}

static bool is_whole(struct engine *engine, const char *guard)
{
    unsigned char *bytes = ARENA_NEW(engine->scratch, unsigned char, GUARD_BYTES);
    const char *fault = engine->backend->copy(engine->device, STREAM_COMPUTE, COPY_TO_HOST, bytes,
                                              guard, GUARD_BYTES);
    if (!engine_ok(engine, -1, fault)) return false;
    if (!engine_ok(engine, -1, engine->backend->synchronize(engine->device, STREAM_COMPUTE)))
        return false;
    for (int i = 0; i < GUARD_BYTES; i++) {
        if (bytes[i] != GUARD_BYTE)
            return err_set(engine->err, ERR_SYSTEM,
                           "something wrote outside the arena, %s it: byte %d of its guard",
                           guard < engine->memory ? "before" : "behind", i);
    }
    return true;
}

// Gradients are added up outside the arena: what went into them shows in their norm.
bool poison_check(struct engine *engine, double loss)
{
    if (!engine->request->options->poison) return true;
    if (isnan(loss) || isnan(engine->norm))
        return err_set(engine->err, ERR_SYSTEM,
                       "rank %d, step %d: loss %g, norm of the gradients %g: something read memory "
                       "that holds nothing, or training has diverged",
                       engine->rank, engine->step + 1, loss, engine->norm);
    int64_t bytes = engine->script->arena_bytes * engine->widen;
    return is_whole(engine, engine->memory - GUARD_BYTES) &&
           is_whole(engine, engine->memory + bytes);
}
