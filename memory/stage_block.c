#include "memory/stage_block.h"

#include "plan/passes.h"

#include <assert.h>
#include <string.h>

struct reading {
    struct arena *arena;
    const struct program *program;
    const struct block_program *block;
    const struct block_gradients *gradients;
    struct block_steps *steps;
    int *value_of;   // [buffer]: the newest value, -1
    int *writer_of;  // [buffer]: the last step that wrote an external one, -1
    int *inner_of;   // [step]: the last exchange inside it, -1
    int *maker_of;   // [value]: step, -1
    int *gathered;   // [parameter]: value with it whole in this half of the work, -1
    int *room;       // [parameter]: value for its gradient, -1
    int *waiting;    // [parameter]: value with its gradient until the room is made, -1
    int *fetched;    // [gathering of forward]: value
    bool is_parted;
    int value_capacity;
};

static void add(struct arena *arena, int **list, int *count, int item)
{
    for (int i = 0; i < *count; i++) {
        if ((*list)[i] == item) return;
    }
    // Room for powers of two.
    if ((*count & (*count - 1)) == 0) {
        int *grown = ARENA_NEW(arena, int, *count ? 2 * *count : 1);
        if (*count) memcpy(grown, *list, (size_t)*count * sizeof *grown);
        *list = grown;
    }
    (*list)[(*count)++] = item;
}

static int new_value(struct reading *reading, int buffer)
{
    struct block_steps *steps = reading->steps;
    assert(steps->value_count < reading->value_capacity);
    int value = steps->value_count++;
    steps->values[value] = (struct block_value){buffer, -1, false, -1};
    reading->maker_of[value] = -1;
    reading->value_of[buffer] = value;
    return value;
}

static void add_after(struct reading *reading, int step, int before)
{
    struct block_step *of = &reading->steps->steps[step];
    if (before >= 0 && before != step) add(reading->arena, &of->after, &of->after_count, before);
}

static void add_read(struct reading *reading, int step, int value)
{
    struct block_step *of = &reading->steps->steps[step];
    add(reading->arena, &of->reads, &of->read_count, value);
    int maker = reading->maker_of[value];
    if (maker < 0) return;
    // A result is there when the exchanges inside its operator are done.
    add_after(reading, step, reading->inner_of[maker]);
}

static void add_write(struct reading *reading, int step, int value)
{
    struct block_step *of = &reading->steps->steps[step];
    add(reading->arena, &of->writes, &of->write_count, value);
    reading->maker_of[value] = step;
}

// A gradient, or a term of one: a parameter that two operators read.
static bool is_gradient(const struct block *block, int gradient, int tensor)
{
    int producer = block->tensors[gradient].producer;
    if (gradient == tensor || producer < 0) return gradient == tensor;
    const struct op *op = &block->ops[producer];
    bool is_term = false;
    for (int i = 0; i < op->input_count && op->kind == OP_ADD; i++)
        is_term = is_term || op->inputs[i] == tensor;
    return is_term;
}

static int parameter_of(const struct reading *reading, int tensor, bool gradient)
{
    const struct block_program *block = reading->block;
    for (int i = 0; i < block->parameter_count; i++) {
        int of = block->parameters[i].tensor;
        if (gradient) of = reading->gradients->of_parameter[of];
        if (of < 0) continue;
        if (gradient ? is_gradient(block->block, of, tensor) : of == tensor) return i;
    }
    return -1;
}

static bool is_flat(const struct reading *reading, const struct instr *instr)
{
    return instr->parameter && reading->block->buffers[instr->inputs[0]].tensor < 0;
}

// The parameters of the n-th gathering or scattering of a phase, as lowering puts them
// (plan/lower/lower.c): kind by kind, together with the combine pass, else one by one. Calls `mark`
// with each.
static void mark_covered(const struct reading *reading, int n,
                         bool (*is_in)(const struct storage *storage), int *values, int value)
{
    const struct block_program *block = reading->block;
    bool is_combined = pass_is_on(&reading->program->parallel, PASS_COMBINE);
    int at = 0;
    for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++) {
        struct storage storage = program_stores(reading->program, block, (enum parameter_kind)kind);
        bool is_moved = is_in(&storage);
        int64_t elements = 0;
        for (int i = 0; i < block->parameter_count && is_moved; i++) {
            if ((int)block->parameters[i].kind != kind) continue;
            elements += block->parameters[i].elements;
            if (at == n) values[i] = value;
            if (!is_combined) at++;
        }
        if (is_combined && elements > 0) at++;
    }
    assert(at > n && "a collective of parameters that lowering does not make");
}

// Inputs and output gradients come from outside.
static void place_boundaries(struct reading *reading)
{
    const struct block_program *block = reading->block;
    struct block_steps *steps = reading->steps;
    for (int i = 0; i < BLOCK_EDGES; i++) {
        int lists[] = {block->inputs[i], block->output_gradients[i]};
        int *into[] = {&steps->inputs[i], &steps->output_gradients[i]};
        for (int k = 0; k < 2; k++) {
            *into[k] = -1;
            if (lists[k] < 0) continue;
            if (reading->value_of[lists[k]] < 0) {
                int value = new_value(reading, lists[k]);
                steps->values[value].is_boundary = true;
            }
            *into[k] = reading->value_of[lists[k]];
        }
    }
}

// What follows returns the value that is read or written; -1: none.
static int read_external(struct reading *reading, int step, int buffer)
{
    struct block_step *of = &reading->steps->steps[step];
    int tensor = reading->block->buffers[buffer].tensor;
    add_after(reading, step, reading->writer_of[buffer]);
    int parameter = tensor < 0 ? -1 : parameter_of(reading, tensor, false);
    if (parameter < 0) return -1;
    of->reads_weights = true;
    int whole = reading->gathered[parameter];
    if (whole >= 0) add_read(reading, step, whole);
    return whole;
}

static int write_external(struct reading *reading, int step, int buffer)
{
    struct block_step *of = &reading->steps->steps[step];
    int tensor = reading->block->buffers[buffer].tensor;
    add_after(reading, step, reading->writer_of[buffer]);
    reading->writer_of[buffer] = step;
    int parameter = tensor < 0 ? -1 : parameter_of(reading, tensor, true);
    if (parameter < 0) return -1;
    int room = reading->room[parameter];
    if (room < 0) {
        of->writes_gradients = true;
        return -1;
    }
    // What B makes for a scattering in a slot of its own waits by itself: the room for all is made
    // there.
    bool waits = reading->is_parted && reading->block->instrs[step].phase == PHASE_BACKWARD;
    if (!waits) {
        add_read(reading, step, room);
        return room;
    }
    add_write(reading, step, new_value(reading, buffer));
    return reading->waiting[parameter] = reading->value_of[buffer];
}

// An in-place collective on what nobody made is an exchange inside an operator: its rows are there
// for as long as it runs.
static int read_buffer(struct reading *reading, int step, const struct instr *instr, int buffer)
{
    if (reading->block->buffers[buffer].external) return read_external(reading, step, buffer);
    if (reading->value_of[buffer] >= 0) {
        add_read(reading, step, reading->value_of[buffer]);
    } else {
        assert(instr->inner > 0 && "a buffer is read before it is made");
        add_write(reading, step, new_value(reading, buffer));
    }
    return reading->value_of[buffer];
}

static int write_buffer(struct reading *reading, int step, int buffer)
{
    if (reading->block->buffers[buffer].external) return write_external(reading, step, buffer);
    int older = reading->value_of[buffer];
    if (older >= 0 && reading->maker_of[older] == step) return older;
    int value = new_value(reading, buffer);
    reading->steps->values[value].older = older;
    if (older >= 0) add_read(reading, step, older);
    add_write(reading, step, value);
    return value;
}

// The exchange inside an operator stands behind it.
static void follow_operator(struct reading *reading, int step, const struct instr *instr)
{
    int op = step - 1;
    while (op >= 0 && (reading->block->instrs[op].op != instr->op ||
                       reading->block->instrs[op].collective != COLLECTIVE_NONE))
        op--;
    assert(op >= 0);
    reading->steps->steps[step].is_inside = true;
    add_after(reading, step, op);
    add_after(reading, step, reading->inner_of[op]);
    reading->inner_of[op] = step;
    if (instr->collective != COLLECTIVE_ALL_REDUCE) return;
    // It reads on when that is done, and writes on, what nobody reads as well.
    const struct block_step *around = &reading->steps->steps[op];
    for (int i = 0; i < around->read_count; i++)
        add_read(reading, step, around->reads[i]);
    for (int i = 0; i < around->write_count; i++)
        add_read(reading, step, around->writes[i]);
}

// The n-th fetching of forward finds what is there at the end of backward.
static void note_left(struct reading *reading, const struct instr *instr, int whole, int n)
{
    const struct block_program *block = reading->block;
    struct block_value *values = reading->steps->values;
    if (block->weights_rounds == 0) return;
    if (instr->phase == PHASE_FORWARD) reading->fetched[n] = whole;
    bool is_last = instr->phase != PHASE_FORWARD || block->weights_turn;
    if (is_last) values[reading->fetched[n]].left = whole;
}

static void gather(struct reading *reading, int step, const struct instr *instr, int n)
{
    struct block_step *of = &reading->steps->steps[step];
    of->gathers = of->reads_weights = true;
    of->nth = n;
    int whole = new_value(reading, instr->outputs[0]);
    add_write(reading, step, whole);
    of->output_values[0] = whole;
    note_left(reading, instr, whole, n);
    mark_covered(reading, n, storage_gathers, reading->gathered, whole);
}

// What a scattering takes is written by every GEMM whose gradient it covers.
static void scatter(struct reading *reading, int step, const struct instr *instr)
{
    struct block_steps *steps = reading->steps;
    int room = reading->value_of[instr->inputs[0]];
    steps->steps[step].writes_gradients = true;
    steps->steps[step].nth = steps->steps[reading->maker_of[room]].nth;
    steps->steps[step].input_values[0] = room;
    add_read(reading, step, room);
    for (int i = 0; i < reading->block->parameter_count; i++) {
        if (reading->room[i] == room && reading->waiting[i] >= 0)
            add_read(reading, step, reading->waiting[i]);
    }
    for (int s = 0; s < reading->block->instr_count; s++) {
        const struct block_step *other = &steps->steps[s];
        for (int i = 0; i < other->read_count && s != step; i++) {
            if (other->reads[i] == room) add_after(reading, step, s);
        }
    }
}

static int add_step(struct reading *reading, enum task_kind kind, int instr)
{
    struct block_steps *steps = reading->steps;
    int step = steps->step_count++;
    struct block_step *made = &steps->steps[step];
    *made = (struct block_step){.kind = kind, .instr = instr, .nth = -1};
    for (int i = 0; i < OP_INPUT_MAX; i++)
        made->input_values[i] = -1;
    for (int i = 0; i < OP_OUTPUT_MAX; i++)
        made->output_values[i] = -1;
    reading->inner_of[step] = -1;
    return step;
}

// Steps that make room come behind the instructions, one for each scattering.
static void make_rooms(struct reading *reading)
{
    const struct block_program *block = reading->block;
    for (int i = block->phase_first[PHASE_WEIGHT], n = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        if (!instr->collective || !is_flat(reading, instr)) continue;
        int step = add_step(reading, TASK_ROOM, -1);
        int room = new_value(reading, instr->inputs[0]);
        add_write(reading, step, room);
        reading->steps->steps[step].nth = n;
        mark_covered(reading, n++, storage_scatters, reading->room, room);
    }
}

static void forget_gathered(struct reading *reading)
{
    for (int i = 0; i < reading->block->parameter_count; i++)
        reading->gathered[i] = -1;
}

static void read_instr(struct reading *reading, int step, int *gather_count)
{
    const struct instr *instr = &reading->block->instrs[step];
    if (instr->collective && is_flat(reading, instr)) {
        return instr_gathers(instr) ? gather(reading, step, instr, (*gather_count)++)
                                    : scatter(reading, step, instr);
    }
    struct block_step *of = &reading->steps->steps[step];
    for (int i = 0; i < instr->input_count; i++)
        of->input_values[i] = read_buffer(reading, step, instr, instr->inputs[i]);
    for (int i = 0; i < instr->output_count; i++)
        of->output_values[i] = write_buffer(reading, step, instr->outputs[i]);
    if (instr->inner > 0) follow_operator(reading, step, instr);
}

static int newest(const struct reading *reading, int buffer)
{
    return buffer < 0 ? -1 : reading->value_of[buffer];
}

// Of what is saved, in its last form.
static void move_saved(struct reading *reading, unsigned moved)
{
    struct block_steps *steps = reading->steps;
    const struct block_program *block = reading->block;
    steps->copy_out = steps->copy_in = -1;
    if (!moved) return;
    const enum op_class *class_of = lower_classes(reading->arena, block);
    for (int b = 0; b < block->buffer_count; b++) {
        if (!block->buffers[b].saved || !(moved >> class_of[b] & 1)) continue;
        if (steps->copy_out < 0) {
            steps->copy_out = add_step(reading, TASK_COPY_OUT, -1);
            steps->copy_in = add_step(reading, TASK_COPY_IN, -1);
            add_after(reading, steps->copy_in, steps->copy_out);
        }
        add_read(reading, steps->copy_out, reading->value_of[b]);
        add_write(reading, steps->copy_in, new_value(reading, b));
    }
}

static void read_all(struct reading *reading, unsigned moved)
{
    const struct block_program *block = reading->block;
    struct block_steps *steps = reading->steps;
    int gather_count = 0;
    forget_gathered(reading);
    for (int i = 0; i < block->parameter_count; i++)
        reading->room[i] = reading->waiting[i] = -1;
    for (int i = 0; i < block->instr_count; i++)
        add_step(reading, TASK_INSTR, i);
    place_boundaries(reading);
    make_rooms(reading);
    // Forward may be all that there is: of an embedding whose table is not trained.
    for (int i = 0; i <= block->instr_count; i++) {
        if (i == block->phase_first[PHASE_BACKWARD]) {
            for (int k = 0; k < BLOCK_EDGES; k++)
                steps->outputs[k] = newest(reading, block->outputs[k]);
            if (!block->weights_turn) forget_gathered(reading);
            gather_count = 0;
            move_saved(reading, moved);
        }
        if (i < block->instr_count) read_instr(reading, i, &gather_count);
    }
    for (int k = 0; k < BLOCK_EDGES; k++)
        steps->input_gradients[k] = newest(reading, block->input_gradients[k]);
}

static void put_rooms(const struct block_steps *steps, bool *is_made, int step, int *order,
                      int *count)
{
    const struct block_step *of = &steps->steps[step];
    for (int s = steps->program->instr_count; s < steps->step_count; s++) {
        if (steps->steps[s].kind != TASK_ROOM) continue;
        int room = steps->steps[s].writes[0];
        for (int i = 0; i < of->read_count && !is_made[s]; i++) {
            if (of->reads[i] != room) continue;
            is_made[s] = true;
            order[(*count)++] = s;
        }
    }
}

// Puts a step into an order, before it what makes room for what it writes, and what runs as one
// call with it.
static void put(const struct block_steps *steps, bool *is_made, int step, int *order, int *count)
{
    const struct instr *instrs = steps->program->instrs;
    for (int s = step; s <= instr_last(instrs, step); s++)
        put_rooms(steps, is_made, s, order, count);
    order[(*count)++] = step;
}

static int *order_of(struct arena *arena, const struct block_steps *steps, const int *instrs,
                     int from, int to, bool *is_made, int *count)
{
    int *order = ARENA_NEW(arena, int, steps->step_count);
    *count = 0;
    bool copies_in = from == steps->program->phase_first[PHASE_BACKWARD] && from < to;
    if (copies_in && steps->copy_in >= 0) order[(*count)++] = steps->copy_in;
    for (int i = from; i < to; i++)
        put(steps, is_made, instrs ? instrs[i] : i, order, count);
    return order;
}

struct block_steps *block_steps_make(struct arena *arena, const struct program *program,
                                     const struct block_program *block, unsigned moved)
{
    struct block_steps *steps = ARENA_NEW(arena, struct block_steps, 1);
    int instrs = block->instr_count;
    struct reading reading = {
        .arena = arena,
        .program = program,
        .block = block,
        .steps = steps,
        .value_of = ARENA_NEW(arena, int, block->buffer_count),
        .writer_of = ARENA_NEW(arena, int, block->buffer_count),
        .inner_of = ARENA_NEW(arena, int, 2 * instrs + 2),
        .value_capacity = 2 * block->buffer_count + instrs * OP_OUTPUT_MAX,
        .gathered = ARENA_NEW(arena, int, block->parameter_count),
        .room = ARENA_NEW(arena, int, block->parameter_count),
        .waiting = ARENA_NEW(arena, int, block->parameter_count),
        .fetched = ARENA_NEW(arena, int, block->parameter_count),
        .is_parted = !schedule_row(program->parallel.schedule)->backward_fused,
    };
    for (int i = 0; i < program->gradients->block_count; i++) {
        if (program->gradients->blocks[i].block == block->block)
            reading.gradients = &program->gradients->blocks[i].gradients;
    }
    assert(reading.gradients);
    reading.maker_of = ARENA_NEW(arena, int, reading.value_capacity);
    for (int b = 0; b < block->buffer_count; b++)
        reading.value_of[b] = reading.writer_of[b] = -1;
    steps->program = block;
    steps->steps = ARENA_NEW(arena, struct block_step, 2 * instrs + 2);
    steps->values = ARENA_NEW(arena, struct block_value, reading.value_capacity);
    read_all(&reading, moved);
    int boundary = block->phase_first[PHASE_BACKWARD], weights = block->phase_first[PHASE_WEIGHT];
    bool *made = ARENA_NEW(arena, bool, steps->step_count);
    steps->forward = order_of(arena, steps, NULL, 0, boundary, made, &steps->forward_count);
    if (reading.is_parted) {
        steps->backward =
            order_of(arena, steps, NULL, boundary, weights, made, &steps->backward_count);
        steps->weight = order_of(arena, steps, NULL, weights, instrs, made, &steps->weight_count);
    } else {
        const int *fused = lower_fused_order(arena, block);
        steps->backward =
            order_of(arena, steps, fused, boundary, instrs, made, &steps->backward_count);
    }
    return steps;
}

bool block_step_is_left(const struct block_steps *steps, int step)
{
    const struct block_step *of = &steps->steps[step];
    return of->gathers && steps->values[of->writes[0]].left >= 0;
}

const char *block_step_name(struct arena *arena, const struct block_steps *steps,
                            const struct block_step *step, int position)
{
    if (step->kind != TASK_INSTR)
        return arena_print(arena, "%d %s", position, task_kind_name(step->kind));
    const struct block_program *program = steps->program;
    const struct instr *instr = &program->instrs[step->instr];
    if (!instr->collective)
        return arena_print(arena, "%d %s", position, program->block->ops[instr->op].name);
    int tensor = program->buffers[instr->inputs[0]].tensor;
    const char *of = tensor < 0 ? "flat" : program->block->tensors[tensor].name;
    return arena_print(arena, "%d %s %s", position, collective_name(instr->collective), of);
}
