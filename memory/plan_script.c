#include "memory/plan_script.h"

#include "memory/plan_script_write.h"

#include <assert.h>

// One pass over the schedule's order. Messages change places with respect to it: what a slot makes
// is sent at its end and what it needs is received at its beginning, which is within the lifetimes
// that the schedule gives them, and keeps stages from waiting for each other in a circle whatever
// order the scheduler chose.

static const struct stage_work *work_at(const struct script_writing *writing, int micro_batch,
                                        int chunk, int position)
{
    int index = micro_batch * writing->program->shape.chunk_count + chunk;
    return &writing->graph->works[index][position];
}

static struct script_spot spot_at(const struct script_writing *writing, int chunk, int position,
                                  int micro_batch, int slot)
{
    return (struct script_spot){chunk,
                                position,
                                micro_batch,
                                slot,
                                writing->graph->chunks[chunk].blocks[position],
                                work_at(writing, micro_batch, chunk, position)};
}

static struct script_spot spot_of(const struct script_writing *writing, int operator)
{
    const struct stage_graph *graph = writing->graph;
    return spot_at(writing, graph->chunk[operator], graph->position[operator],
                   graph->micro_batch[operator], graph->slot[operator]);
}

static int block_index(const struct script_writing *writing, const struct block_program *block)
{
    int index = 0;
    while (writing->program->blocks[index] != block)
        index++;
    assert(index < writing->program->block_count);
    return index;
}

// With room for so many operands.
static struct script_task *put(struct script_writing *writing, enum task_kind kind,
                               const struct script_spot *spot, int input_count, int output_count)
{
    struct script *script = writing->script;
    assert(script->task_count < writing->task_capacity);
    struct script_task *task = &script->tasks[script->task_count++];
    *task = (struct script_task){
        .kind = kind,
        .chunk = spot->chunk,
        .position = spot->position,
        .micro_batch = spot->micro_batch + writing->later_micro_batches,
        .slot = spot->slot + writing->later_slots,
        .slot_kind = writing->slots.slots[spot->slot].kind,
        .block = block_index(writing, spot->steps->program),
        .instr = -1,
        .inputs = ARENA_NEW(writing->arena, struct script_operand, input_count),
        .outputs = ARENA_NEW(writing->arena, struct script_operand, output_count),
        .stream = task_kind_stream(kind),
        .peer_stage = -1,
        .peer_chunk = -1,
        .unit = -1,
        .bucket = -1,
    };
    return task;
}

static void add_input(struct script_task *task, struct script_operand operand)
{
    task->inputs[task->input_count++] = operand;
}

static void add_output(struct script_task *task, struct script_operand operand)
{
    task->outputs[task->output_count++] = operand;
}

static enum stream stream_of(const struct instr *instr)
{
    bool is_local = !instr->collective || instr->collective == COLLECTIVE_SLICE;
    if (is_local) return STREAM_COMPUTE;
    if (instr->collective == COLLECTIVE_FETCH) return STREAM_H2D;
    return instr->parameter ? STREAM_DP : axis_stream(instr->parent);
}

static enum task_kind slot_kind(const struct instr *instr)
{
    return instr->phase == PHASE_FORWARD    ? TASK_FORWARD
           : instr->phase == PHASE_BACKWARD ? TASK_BACKWARD
                                            : TASK_WEIGHT;
}

static struct script_operand of_unit(const struct script_writing *writing, enum script_place place,
                                     int buffer, int unit)
{
    int parameter = writing->script->units[unit].first_parameter;
    return (struct script_operand){
        .place = place,
        .buffer = buffer,
        .parameter = parameter,
    };
}

static void cover(struct script_task *task, int first, int count)
{
    task->unit = first;
    task->unit_count = count;
}

static struct script_task *put_step(struct script_writing *writing, const struct script_spot *spot,
                                    int step, int input_count, int output_count)
{
    const struct instr *instr = &spot->steps->program->instrs[step];
    struct script_task *task = put(writing, TASK_INSTR, spot, input_count, output_count);
    task->instr = step;
    task->stream = stream_of(instr);
    task->slot_kind = slot_kind(instr);
    return task;
}

// Whole parameters gathered, or their gradients scattered.
static void put_flat(struct script_writing *writing, const struct script_spot *spot, int step)
{
    const struct block_step *of = &spot->steps->steps[step];
    const struct instr *instr = &spot->steps->program->instrs[step];
    bool gathers = instr_gathers(instr);
    int first, count = script_covered_units(writing, spot, of->nth, gathers, &first);
    struct script_task *task =
        put_step(writing, spot, step, gathers ? count : 1 + of->read_count, gathers ? 1 : count);
    cover(task, first, count);
    if (gathers) {
        for (int u = first; u < first + count; u++)
            add_input(task, of_unit(writing, PLACE_WEIGHT, instr->inputs[0], u));
        add_output(task, script_in_arena(writing, spot, of->output_values[0]));
        return;
    }
    add_input(task, script_in_arena(writing, spot, of->input_values[0]));
    for (int i = 0; i < of->read_count; i++) {
        if (of->reads[i] == of->input_values[0]) continue;
        struct script_operand waiting = script_in_arena(writing, spot, of->reads[i]);
        waiting.parameter = script_parameter_of(writing, spot, waiting.buffer, true);
        add_input(task, waiting);
    }
    for (int u = first; u < first + count; u++)
        add_output(task, of_unit(writing, PLACE_GRADIENT, instr->outputs[0], u));
}

static void put_instr(struct script_writing *writing, int operator, int index)
{
    struct script_spot spot = spot_of(writing, operator);
    const struct block_step *step = &spot.steps->steps[index];
    const struct block_program *block = spot.steps->program;
    const struct instr *instr = &block->instrs[index];
    if (step_is_term_sum(block, instr)) return;
    if (step->nth >= 0) return put_flat(writing, &spot, index);
    struct script_task *task =
        put_step(writing, &spot, index, instr->input_count, instr->output_count);
    for (int i = 0; i < instr->input_count; i++)
        add_input(task, script_operand_of(writing, &spot, step->input_values[i], instr->inputs[i],
                                          false));
    for (int i = 0; i < instr->output_count; i++)
        add_output(task, script_operand_of(writing, &spot, step->output_values[i],
                                           instr->outputs[i], true));
}

// All that an operator of the graph stands for.
static void put_instrs(struct script_writing *writing, int operator)
{
    const struct instr *instrs = spot_of(writing, operator).steps->program->instrs;
    int first = writing->graph->instr[operator];
    for (int i = first; i <= instr_last(instrs, first); i++)
        put_instr(writing, operator, i);
}

static int step_of(const struct script_spot *spot, int operator)
{
    int step = spot->steps->program->instr_count;
    while (spot->work->operators[step] != operator)
        step++;
    assert(step < spot->steps->step_count);
    return step;
}

static void put_own(struct script_writing *writing, int operator, enum task_kind kind)
{
    struct script_spot spot = spot_of(writing, operator);
    const struct block_step *step = &spot.steps->steps[step_of(&spot, operator)];
    struct script_task *task = put(writing, kind, &spot, step->read_count, step->write_count);
    for (int i = 0; i < step->read_count; i++)
        add_input(task, script_in_arena(writing, &spot, step->reads[i]));
    for (int i = 0; i < step->write_count; i++)
        add_output(task, script_in_arena(writing, &spot, step->writes[i]));
}

// Stage and chunk of the other end.
static void find_peer(const struct script_writing *writing, struct script_task *task)
{
    struct boundary_message message;
    bool has_peer = script_message(writing->script, task, 0, &message),
         sends = task->kind == TASK_SEND;
    assert(has_peer && "a message goes to another stage");
    (void)has_peer;
    task->peer_stage = sends ? message.to_stage : message.from_stage;
    task->peer_chunk = sends ? message.to_chunk : message.from_chunk;
    // Each direction to each chunk has a channel of its own: in a V two stages are neighbours
    // twice.
    task->channel = 2 * message.to_chunk + (task->slot_kind != TASK_FORWARD);
}

static struct script_spot edge_spot(const struct script_writing *writing, int slot, bool arrives)
{
    const struct stage_slot *of = &writing->slots.slots[slot];
    bool is_low = (of->kind == TASK_FORWARD) == arrives;
    int position = is_low ? 0 : writing->graph->chunks[of->chunk].count - 1;
    return spot_at(writing, of->chunk, position, of->micro_batch, slot);
}

// The values that a slot gets from its neighbour or has for it.
static const int *boundary_values(const struct script_writing *writing, int slot,
                                  const struct script_spot *spot, bool arrives)
{
    if (writing->slots.slots[slot].kind == TASK_FORWARD)
        return arrives ? spot->steps->inputs : spot->steps->outputs;
    return arrives ? spot->steps->output_gradients : spot->steps->input_gradients;
}

// What a slot gets: a message, or the seed of the loss's gradient.
static void put_arrival(struct script_writing *writing, enum task_kind kind, int slot)
{
    struct script_spot spot = edge_spot(writing, slot, true);
    const int *values = boundary_values(writing, slot, &spot, true);
    struct script_task *task = put(writing, kind, &spot, 0, BLOCK_EDGES);
    for (int i = 0; i < BLOCK_EDGES; i++) {
        if (values[i] >= 0) add_output(task, script_in_arena(writing, &spot, values[i]));
    }
    if (kind == TASK_RECEIVE) find_peer(writing, task);
}

static void put_departure(struct script_writing *writing, int slot)
{
    struct script_spot spot = edge_spot(writing, slot, false);
    const int *values = boundary_values(writing, slot, &spot, false);
    bool is_forward = writing->slots.slots[slot].kind == TASK_FORWARD;
    bool is_loss = is_forward && !writing->graph->chunks[spot.chunk].behind.exists;
    struct script_task *task = put(writing, is_loss ? TASK_LOSS : TASK_SEND, &spot, BLOCK_EDGES, 0);
    for (int i = 0; i < BLOCK_EDGES; i++) {
        if (values[i] >= 0) add_input(task, script_in_arena(writing, &spot, values[i]));
    }
    if (!is_loss) find_peer(writing, task);
}

// Whether a message is that of a slot: F and B of one micro-batch may follow each other.
static bool belongs_to(const struct script_writing *writing, int operator, int slot)
{
    const struct stage_graph *graph = writing->graph;
    const struct stage_slot *of = &writing->slots.slots[slot];
    if (of->kind == TASK_WEIGHT || of->chunk != graph->chunk[operator] ||
        of->micro_batch != graph->micro_batch[operator])
        return false;
    bool arrives = graph->kind[operator] != TASK_SEND;
    struct script_spot spot = edge_spot(writing, slot, arrives);
    const int *values = boundary_values(writing, slot, &spot, arrives);
    const struct memory_operator *of_graph = &graph->graph->operators[operator];
    int tensor = arrives ? of_graph->outputs[0] : of_graph->inputs[0];
    int value = values[0] >= 0 ? values[0] : values[1];
    return value >= 0 && spot.work->tensors[value] == tensor;
}

struct moved_messages {
    bool *receives, *sends;  // [slot]: at its beginning, at its end
};

// Messages that the graph has in the slot before the one that needs them, or behind the one that
// makes them.
static struct moved_messages find_moved(const struct script_writing *writing)
{
    const struct stage_graph *graph = writing->graph;
    int count = writing->slots.count;
    struct moved_messages moved = {ARENA_NEW(writing->arena, bool, count),
                                   ARENA_NEW(writing->arena, bool, count)};
    for (int o = 0; o < graph->graph->operator_count; o++) {
        bool is_send = graph->kind[o] == TASK_SEND;
        if (!is_send && graph->kind[o] != TASK_RECEIVE) continue;
        if (belongs_to(writing, o, graph->slot[o])) continue;
        int slot = graph->slot[o] + (is_send ? -1 : 1);
        assert(slot >= 0 && slot < count && belongs_to(writing, o, slot));
        (is_send ? moved.sends : moved.receives)[slot] = true;
    }
    return moved;
}

static void put_operator(struct script_writing *writing, int operator)
{
    int slot = writing->graph->slot[operator];
    switch (writing->graph->kind[operator]) {
    case TASK_INSTR:
        return put_instrs(writing, operator);
    case TASK_COPY_OUT:
        return put_own(writing, operator, TASK_COPY_OUT);
    case TASK_COPY_IN:
        return put_own(writing, operator, TASK_COPY_IN);
    case TASK_SEED:
        return put_arrival(writing, TASK_SEED, slot);
    case TASK_RECEIVE:
        if (belongs_to(writing, operator, slot)) put_arrival(writing, TASK_RECEIVE, slot);
        return;
    case TASK_SEND:
        if (belongs_to(writing, operator, slot)) put_departure(writing, slot);
        return;
    case TASK_ROOM:  // memory and no work
    case TASK_SLOT_END:
        return;
    default:
        assert(false && "no task of a script");
    }
}

// Where each slot begins in the order, and where the last ends.
static int *slot_firsts(const struct script_writing *writing, const int *order)
{
    const struct stage_graph *graph = writing->graph;
    int *firsts = ARENA_NEW(writing->arena, int, writing->slots.count + 1);
    for (int i = 0, slot = -1; i < graph->graph->operator_count; i++) {
        if (graph->slot[order[i]] == slot) continue;
        assert(graph->slot[order[i]] == slot + 1);
        firsts[++slot] = i;
    }
    firsts[writing->slots.count] = graph->graph->operator_count;
    return firsts;
}

static void put_slots(struct script_writing *writing, const struct stage_unroll *unroll,
                      const int *order)
{
    struct moved_messages moved = find_moved(writing);
    const int *firsts = slot_firsts(writing, order);
    for (int s = 0; s < unroll->slots.count; s++) {
        int slot = unroll->like[s];
        writing->later_slots = s - slot;
        writing->later_micro_batches =
            unroll->slots.slots[s].micro_batch - writing->slots.slots[slot].micro_batch;
        if (moved.receives[slot]) put_arrival(writing, TASK_RECEIVE, slot);
        for (int i = firsts[slot]; i < firsts[slot + 1]; i++)
            put_operator(writing, order[i]);
        if (moved.sends[slot]) put_departure(writing, slot);
    }
}

// Parameters of a block at one position stand together.
static void find_parameters(struct script_writing *writing)
{
    const struct script *script = writing->script;
    int chunks = writing->program->shape.chunk_count;
    writing->first_parameter = ARENA_NEW(writing->arena, int *, chunks);
    for (int c = 0; c < chunks; c++)
        writing->first_parameter[c] =
            ARENA_NEW(writing->arena, int, writing->graph->chunks[c].count);
    for (int i = script->parameter_count - 1; i >= 0; i--) {
        const struct script_parameter *parameter = &script->parameters[i];
        writing->first_parameter[parameter->chunk][parameter->position] = i;
    }
}

// At most.
static int count_tasks(const struct script_writing *writing, const struct stage_unroll *unroll)
{
    const struct stage_graph *graph = writing->graph;
    int *counts = ARENA_NEW(writing->arena, int, writing->slots.count), count = 0;
    for (int o = 0; o < graph->graph->operator_count; o++) {
        int first = graph->instr[o];
        if (graph->slot[o] < 0) continue;
        counts[graph->slot[o]]++;
        if (graph->kind[o] != TASK_INSTR) continue;
        counts[graph->slot[o]] +=
            instr_last(spot_of(writing, o).steps->program->instrs, first) - first;
    }
    for (int s = 0; s < unroll->slots.count; s++)
        count += counts[unroll->like[s]];
    return count;
}

struct script *plan_script_stage(struct arena *arena, const struct program *whole,
                                 const struct stage_graph *graph, int stage,
                                 const struct stage_unroll *unroll,
                                 const struct stage_schedule *schedule, int64_t alignment,
                                 const struct step_rules *rules)
{
    const struct program *program = program_at(whole, stage, ARENA_NEW(arena, struct program, 1));
    struct arena scratch = {0};
    struct script *script = ARENA_NEW(arena, struct script, 1);
    *script = (struct script){
        .program = program,
        .graph = step_graph_make(arena, program, rules),
        .stage = stage,
        .rules = *rules,
        .arena_bytes = schedule->arena_bytes,
        .alignment = alignment,
    };
    struct script_writing writing = {
        .arena = arena,
        .program = program,
        .graph = graph,
        .offsets = schedule->offsets,
        .script = script,
        .slots = stage_slots_of(&scratch, program, stage, graph->micro_batches),
    };
    bool is_whole = unroll->slots.micro_batches == graph->micro_batches;
    assert((is_whole || program->parallel.offload.between_layers == 0) && "weights stay");
    writing.task_capacity = count_tasks(&writing, unroll);
    script_add_state(arena, script);
    // What runs once a step is put between them: then they stand in the arena.
    script->tasks = ARENA_NEW(&scratch, struct script_task, writing.task_capacity);
    find_parameters(&writing);
    put_slots(&writing, unroll, schedule->order);
    script_add_firsts(script);
    script_add_step(arena, script);
    script_add_waits(arena, script);
    script_number(script);
    arena_free(&scratch);
    return script;
}
