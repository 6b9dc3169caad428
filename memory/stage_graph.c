#include "memory/stage_graph.h"

#include "cost_models/memory.h"
#include "memory/stage_chunks.h"
#include "memory/stage_draft.h"
#include "plan/passes.h"

#include <assert.h>

// Slot by slot, block by block, step by step. Every slot ends with an operator that waits for all
// of it and that all of the next slot waits for.

struct message {
    int tensors[BLOCK_EDGES], count;
    const struct stage_slot *slot;
};

struct building {
    struct draft draft;
    const struct program *program;
    int stage;
    struct stage_chunk *chunks;
    struct stage_work **works;  // [micro_batch * chunk_count + chunk][position]
    int weights, gradients;     // tensors
    bool gathers_ahead, messages_overlap;
    // Of the slot being written.
    int slot, slot_first, last_end;
    struct index_list gates;  // operators that everything in the slot follows
    bool *is_followed;        // by operator - slot_first: something in the slot follows it
    int followed_capacity;
    struct message sending;  // by the slot before
};

static struct stage_work *work_of(struct building *building, int micro_batch, int chunk,
                                  int position)
{
    int index = micro_batch * building->program->shape.chunk_count + chunk;
    struct arena *arena = building->draft.arena;
    const struct stage_chunk *blocks = &building->chunks[chunk];
    if (!building->works[index]) {
        building->works[index] = ARENA_NEW(arena, struct stage_work, blocks->count);
        for (int p = 0; p < blocks->count; p++) {
            struct stage_work *made = &building->works[index][p];
            const struct block_steps *steps = blocks->blocks[p];
            made->tensors = ARENA_NEW(arena, int, steps->value_count);
            made->operators = ARENA_NEW(arena, int, steps->step_count);
            for (int v = 0; v < steps->value_count; v++)
                made->tensors[v] = -1;
            for (int s = 0; s < steps->step_count; s++)
                made->operators[s] = -1;
        }
    }
    return &building->works[index][position];
}

static void mark_followed(struct building *building, int operator)
{
    if (operator>= building->slot_first)
        building->is_followed[operator- building->slot_first] = true;
}

static int add_operator(struct building *building, const struct draft_operator *operator)
{
    struct draft *draft = &building->draft;
    int made = draft_operator_add(draft, operator);
    int index = made - building->slot_first;
    ARENA_GROW(draft->arena, building->is_followed, index, building->followed_capacity);
    building->is_followed[index] = false;
    return made;
}

// An operator that is no instruction.
static int add_own(struct building *building, enum task_kind kind, const char *what,
                   const struct stage_slot *slot, int position)
{
    static const char KINDS[] = "FBW";
    struct draft_operator operator= {
        .name = arena_print(building->draft.arena, "%c%d.%d %s", KINDS[slot->kind],
                            slot->micro_batch, slot->chunk, what),
        .kind = kind,
        .instr = -1,
        .chunk = slot->chunk,
        .position = position,
        .micro_batch = slot->micro_batch,
        .slot = building->slot,
    };
    return add_operator(building, &operator);
}

static void reads(struct building *building, int operator, int tensor)
{
    struct draft_tensor read = building->draft.tensors[tensor];
    if (read.producer == operator) return;  // within a group
    draft_reads(&building->draft, operator, tensor);
    mark_followed(building, read.producer);
    if (read.finished > 0) draft_follows(&building->draft, operator, read.finished);
}

static void follows(struct building *building, int operator, int before)
{
    if (before == operator) return;
    draft_follows(&building->draft, operator, before);
    mark_followed(building, before);
}

static int add_value(struct building *building, const struct stage_slot *slot, int position,
                     int value)
{
    const struct block_steps *steps = building->chunks[slot->chunk].blocks[position];
    const struct block_value *of = &steps->values[value];
    const struct buffer *buffer = &steps->program->buffers[of->buffer];
    const char *name =
        buffer->tensor < 0 ? "flat" : steps->program->block->tensors[buffer->tensor].name;
    struct stage_work *work = work_of(building, slot->micro_batch, slot->chunk, position);
    struct draft_tensor tensor = {
        .name = arena_print(building->draft.arena, "%d.%d.%d %s #%d.%d", slot->micro_batch,
                            slot->chunk, position, name, of->buffer, value),
        .bytes = buffer->bytes,
        .producer = -1,
        .shares = of->older < 0 ? -1 : work->tensors[of->older],
        .overwrites = of->older >= 0,
        .chunk = slot->chunk,
        .position = position,
        .value = value,
        .micro_batch = slot->micro_batch,
        .buffer = of->buffer,
    };
    return work->tensors[value] = draft_tensor_add(&building->draft, &tensor);
}

// The tensor of a value; one of the boundary is that of the block beside it.
static int tensor_of(struct building *building, const struct stage_slot *slot, int position,
                     int value)
{
    struct stage_work *work = work_of(building, slot->micro_batch, slot->chunk, position);
    if (work->tensors[value] >= 0) return work->tensors[value];
    const struct stage_chunk *chunk = &building->chunks[slot->chunk];
    const struct block_steps *steps = chunk->blocks[position];
    struct stage_slot from = *slot;
    int left = steps->values[value].left;
    if (left >= 0 && slot->micro_batch > 0) {
        from.micro_batch--;
        return work->tensors[value] = tensor_of(building, &from, position, left);
    }
    assert(steps->values[value].is_boundary && "a value is read before it is made");
    bool is_forward = block_edge_of(steps->inputs, value) >= 0;
    int which = block_edge_of(is_forward ? steps->inputs : steps->output_gradients, value);
    int other = position + (is_forward ? -1 : 1);
    if (other < 0 || other == chunk->count) {
        from.chunk = (is_forward ? chunk->front : chunk->behind).chunk;
        assert(from.chunk >= 0 && "a message has not come");
        other = is_forward ? building->chunks[from.chunk].count - 1 : 0;
    }
    const struct block_steps *maker = building->chunks[from.chunk].blocks[other];
    int made = is_forward ? maker->outputs[which] : maker->input_gradients[which];
    assert(made >= 0);
    return work->tensors[value] = tensor_of(building, &from, other, made);
}

// Whether something in the slot from operator `first` on runs before this one.
static bool has_before(const struct building *building, int operator, int first)
{
    const struct draft *draft = &building->draft;
    const struct draft_operator *of = &draft->operators[operator];
    for (int i = 0; i < of->after.count; i++) {
        if (of->after.items[i] >= first) return true;
    }
    for (int i = 0; i < of->inputs.count; i++) {
        if (draft->tensors[of->inputs.items[i]].producer >= first) return true;
    }
    return false;
}

static void pass_gates(struct building *building, int operator)
{
    if (has_before(building, operator, building->slot_first)) return;
    for (int i = 0; i < building->gates.count; i++)
        draft_follows(&building->draft, operator, building->gates.items[i]);
}

static int emit(struct building *building, const struct stage_slot *slot, int position, int index)
{
    const struct block_steps *steps = building->chunks[slot->chunk].blocks[position];
    const struct block_step *step = &steps->steps[index];
    struct stage_work *work = work_of(building, slot->micro_batch, slot->chunk, position);
    // Instructions that run as one call are one operator.
    int first = step->kind == TASK_INSTR ? instr_first(steps->program->instrs, index) : index;
    int operator= work->operators[first];
    if (operator<0) {
        const char *name = block_step_name(building->draft.arena, steps, step, position);
        operator= add_own(building, step->kind, name, slot, position);
        building->draft.operators[operator].instr = step->instr;
    }
    work->operators[index] = operator;
    for (int i = 0; i < step->read_count; i++)
        reads(building, operator, tensor_of(building, slot, position, step->reads[i]));
    for (int i = 0; i < step->after_count; i++) {
        assert(work->operators[step->after[i]] >= 0);
        follows(building, operator, work->operators[step->after[i]]);
    }
    if (step->is_inside) draft_finishes(&building->draft, operator);
    for (int i = 0; i < step->write_count; i++)
        draft_makes(&building->draft, operator,
                    add_value(building, slot, position, step->writes[i]));
    if (step->reads_weights) draft_reads(&building->draft, operator, building->weights);
    if (step->writes_gradients) draft_reads(&building->draft, operator, building->gradients);
    return operator;
}

struct steps_order {
    const int *steps;
    int count;
};

static struct steps_order order_of(const struct block_steps *steps, const struct stage_slot *slot)
{
    if (slot->kind == TASK_FORWARD)
        return (struct steps_order){steps->forward, steps->forward_count};
    if (slot->kind == TASK_WEIGHT) return (struct steps_order){steps->weight, steps->weight_count};
    return (struct steps_order){steps->backward, steps->backward_count};
}

// Weights that come from the host come behind what the slot has done so far: nothing else says
// when.
static void fetch_late(struct building *building, const struct block_steps *steps, int index,
                       int operator, int done)
{
    int instr = steps->steps[index].instr;
    if (instr < 0 || steps->program->instrs[instr].collective != COLLECTIVE_FETCH) return;
    for (int o = building->slot_first; o < done; o++) {
        if (!building->is_followed[o - building->slot_first]) follows(building, operator, o);
    }
}

// Whether a step has an operator already, or needs none.
static bool is_done(struct building *building, const struct stage_slot *slot, int position,
                    int step)
{
    const struct stage_work *work = work_of(building, slot->micro_batch, slot->chunk, position);
    const struct block_steps *steps = building->chunks[slot->chunk].blocks[position];
    return work->operators[step] >= 0 || (slot->micro_batch > 0 && block_step_is_left(steps, step));
}

// What a block waits for, if not yet written: its parameters, and what was moved. `is_ahead`: while
// another block works. `done`: operators that there were before those of that one.
static void emit_early(struct building *building, const struct stage_slot *slot, int position,
                       bool is_ahead, int done, struct index_list *made)
{
    const struct block_steps *steps = building->chunks[slot->chunk].blocks[position];
    struct steps_order order = order_of(steps, slot);
    for (int i = 0; i < order.count; i++) {
        const struct block_step *step = &steps->steps[order.steps[i]];
        bool gathers = step->gathers && (building->gathers_ahead || !is_ahead);
        bool is_early = gathers || step->kind == TASK_COPY_IN;
        if (!is_early || is_done(building, slot, position, order.steps[i])) continue;
        int operator= emit(building, slot, position, order.steps[i]);
        fetch_late(building, steps, order.steps[i], operator, done);
        pass_gates(building, operator);
        index_list_add(building->draft.arena, made, operator);
    }
}

// Copying out of a block ends when the next one, whose operators begin at `first`, has worked.
static void emit_copy_out(struct building *building, const struct stage_slot *slot, int position,
                          int first)
{
    const struct block_steps *steps = building->chunks[slot->chunk].blocks[position];
    if (steps->copy_out < 0) return;
    int all = building->draft.operator_count;
    int operator= emit(building, slot, position, steps->copy_out);
    for (int o = first; o < all; o++) {
        if (!building->is_followed[o - building->slot_first]) follows(building, operator, o);
    }
}

// `next`: the position that works behind this one, or -1.
static void emit_block(struct building *building, const struct stage_slot *slot, int position,
                       int next)
{
    const struct block_steps *steps = building->chunks[slot->chunk].blocks[position];
    struct steps_order order = order_of(steps, slot);
    struct index_list own = {0}, ahead = {0};
    int done = building->draft.operator_count;
    emit_early(building, slot, position, false, done, &own);
    if (next >= 0) emit_early(building, slot, next, true, done, &ahead);
    int first = building->draft.operator_count;
    for (int i = 0; i < order.count; i++) {
        if (is_done(building, slot, position, order.steps[i])) continue;
        int operator= emit(building, slot, position, order.steps[i]);
        pass_gates(building, operator);
        if (has_before(building, operator, first)) continue;
        for (int k = 0; k < ahead.count; k++)
            follows(building, operator, ahead.items[k]);
    }
    if (slot->kind != TASK_FORWARD) return;
    if (position > 0) emit_copy_out(building, slot, position - 1, first);
    if (next < 0) emit_copy_out(building, slot, position, first);
}

static void emit_blocks(struct building *building, const struct stage_slot *slot)
{
    int count = building->chunks[slot->chunk].count;
    for (int i = 0; i < count; i++) {
        bool is_forward = slot->kind == TASK_FORWARD;
        int position = is_forward ? i : count - 1 - i;
        int next = i + 1 == count ? -1 : is_forward ? position + 1 : position - 1;
        emit_block(building, slot, position, next);
    }
}

// What a slot needs from outside: a message, or the seed of the loss's gradient.
static void receive(struct building *building, int index)
{
    const struct stage_slot *slot = &building->draft.slots->slots[index];
    if (slot->kind == TASK_WEIGHT) return;
    bool is_forward = slot->kind == TASK_FORWARD;
    const struct stage_chunk *chunk = &building->chunks[slot->chunk];
    struct stage_neighbour from = is_forward ? chunk->front : chunk->behind;
    if (from.chunk >= 0 || (is_forward && !from.exists)) return;
    // A message that came ahead is there; a seed is made when it is wanted.
    bool is_ahead = index > building->slot;
    bool came = from.exists && building->messages_overlap && index > 0;
    if (is_ahead ? !from.exists : came) return;
    int position = is_forward ? 0 : chunk->count - 1;
    const struct block_steps *steps = chunk->blocks[position];
    const int *values = is_forward ? steps->inputs : steps->output_gradients;
    int operator= from.exists ? add_own(building, TASK_RECEIVE, "receive", slot, position)
                              : add_own(building, TASK_SEED, "seed", slot, position);
    pass_gates(building, operator);
    for (int i = 0; i < BLOCK_EDGES; i++) {
        if (values[i] < 0) continue;
        draft_makes(&building->draft, operator, add_value(building, slot, position, values[i]));
    }
    if (is_ahead) index_list_add(building->draft.arena, &building->gates, operator);
}

// What a slot has for others; the losses go to whoever asks.
static struct message message_of(struct building *building, const struct stage_slot *slot)
{
    struct message message = {.slot = slot};
    if (slot->kind == TASK_WEIGHT) return message;
    bool is_forward = slot->kind == TASK_FORWARD;
    const struct stage_chunk *chunk = &building->chunks[slot->chunk];
    struct stage_neighbour to = is_forward ? chunk->behind : chunk->front;
    if (to.chunk >= 0 || (!is_forward && !to.exists)) return message;
    int position = is_forward ? chunk->count - 1 : 0;
    const struct block_steps *steps = chunk->blocks[position];
    const int *values = is_forward ? steps->outputs : steps->input_gradients;
    for (int i = 0; i < BLOCK_EDGES; i++) {
        if (values[i] < 0) continue;
        message.tensors[message.count++] = tensor_of(building, slot, position, values[i]);
    }
    return message;
}

// Ends with the slot: behind all that stands in it.
static void send(struct building *building, const struct message *message, const int *ends,
                 int end_count)
{
    if (message->count == 0) return;
    int operator= add_own(building, TASK_SEND, "send", message->slot, -1);
    for (int i = 0; i < message->count; i++)
        reads(building, operator, message->tensors[i]);
    for (int i = 0; i < end_count; i++)
        follows(building, operator, ends[i]);
    pass_gates(building, operator);
}

static int *unfollowed(struct building *building, int *count)
{
    int all = building->draft.operator_count - building->slot_first;
    int *ends = ARENA_NEW(building->draft.arena, int, all);
    *count = 0;
    for (int i = 0; i < all; i++) {
        if (!building->is_followed[i]) ends[(*count)++] = building->slot_first + i;
    }
    return ends;
}

static void end_slot(struct building *building, const struct stage_slot *slot, bool is_last)
{
    int end_count;
    int *ends = unfollowed(building, &end_count);
    struct message own = message_of(building, slot);
    bool is_loss =
        own.count > 0 && slot->kind == TASK_FORWARD && !building->chunks[slot->chunk].behind.exists;
    send(building, &building->sending, ends, end_count);
    building->sending = (struct message){.count = 0};
    bool is_now = !building->messages_overlap || is_last || is_loss;
    if (is_now) send(building, &own, ends, end_count);
    if (!is_now) building->sending = own;
    ends = unfollowed(building, &end_count);
    int end = add_own(building, TASK_SLOT_END, "end", slot, -1);
    for (int i = 0; i < end_count; i++)
        draft_follows(&building->draft, end, ends[i]);
    // An empty slot (an embedding has no B) ends behind the slot before.
    pass_gates(building, end);
    building->last_end = end;
}

static void emit_slot(struct building *building, int index)
{
    const struct stage_slots *slots = building->draft.slots;
    const struct stage_slot *slot = &slots->slots[index];
    bool is_last = index + 1 == slots->count;
    building->slot = index;
    building->slot_first = building->draft.operator_count;
    building->gates = (struct index_list){0};
    if (building->last_end >= 0)
        index_list_add(building->draft.arena, &building->gates, building->last_end);
    receive(building, index);
    if (building->messages_overlap && !is_last) receive(building, index + 1);
    emit_blocks(building, slot);
    end_slot(building, slot, is_last);
}

static void add_state(struct building *building, const struct stack *stack)
{
    struct memory_parts parts = memory_of_stage(building->program, stack, building->stage);
    struct draft_tensor tensor = {
        .producer = -1,
        .shares = -1,
        .persistent = true,
        .chunk = -1,
        .position = -1,
        .value = -1,
        .micro_batch = -1,
        .buffer = -1,
    };
    tensor.name = "weights";
    tensor.bytes = parts.weights_bytes;
    building->weights = draft_tensor_add(&building->draft, &tensor);
    tensor.name = "gradients";
    tensor.bytes = parts.gradients_bytes;
    building->gradients = draft_tensor_add(&building->draft, &tensor);
    tensor.name = "optimizer states";
    tensor.bytes = parts.optimizer_bytes;
    draft_tensor_add(&building->draft, &tensor);
}

static struct stage_graph *make(struct arena *arena, const struct program *of,
                                const struct stack *stack, int stage,
                                const struct stage_slots *slots, struct err *err)
{
    const struct program *program = program_at(of, stage, ARENA_NEW(arena, struct program, 1));
    unsigned overlap = passes_overlap(&program->parallel);
    struct building building = {
        .draft = {.arena = arena, .slots = slots},
        .program = program,
        .stage = stage,
        .chunks = stage_chunks_make(arena, program, stage),
        .gathers_ahead = overlap & OVERLAP_PARAM_GATHER,
        .messages_overlap = (overlap & OVERLAP_PP) && program->shape.stage_count > 1,
        .last_end = -1,
    };
    building.works =
        ARENA_NEW(arena, struct stage_work *, program->shape.chunk_count * slots->micro_batches);
    add_state(&building, stack);
    // Without a pipeline each micro-batch ends before the next begins.
    bool holds =
        slots->micro_batches < program->shape.micro_batch_count && program->shape.stage_count > 1;
    if (holds) {
        const struct draft_operator held = {
            .name = "held places",
            .kind = TASK_HOLD,
            .instr = -1,
            .chunk = -1,
            .position = -1,
            .micro_batch = -1,
            .slot = -1,
        };
        building.last_end = add_operator(&building, &held);
    }
    for (int i = 0; i < slots->count; i++)
        emit_slot(&building, i);
    if (holds) draft_hold_places(&building.draft);
    const char *name = arena_print(arena, "stage %d", stage);
    struct stage_graph *made = draft_finish(&building.draft, name, err);
    if (!made) return NULL;
    made->chunks = building.chunks;
    made->works = building.works;
    return made;
}

struct stage_graph *stage_graph_of(struct arena *arena, const struct program *program,
                                   const struct stack *stack, int stage, int micro_batches,
                                   struct err *err)
{
    struct stage_slots slots = stage_slots_of(arena, program, stage, micro_batches);
    return make(arena, program, stack, stage, &slots, err);
}
