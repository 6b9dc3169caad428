#include "plan/lower/relay.h"

#include <assert.h>
#include <string.h>

struct relay {
    int gather;           // instruction
    int *readers, count;  // instructions
    int *rows;            // of each: which input is what was gathered
    int first;            // of the readers
    int members;          // ranks
};

static bool reads(const struct instr *instr, int buffer)
{
    for (int i = 0; i < instr->input_count; i++)
        if (instr->inputs[i] == buffer) return true;
    return false;
}

static bool writes(const struct instr *instr, int buffer)
{
    for (int i = 0; i < instr->output_count; i++)
        if (instr->outputs[i] == buffer) return true;
    return false;
}

static const struct tensor *tensor_at(const struct lowering *low, int buffer)
{
    int tensor = low->program->buffers[buffer].tensor;
    return tensor < 0 ? NULL : &low->block->tensors[tensor];
}

// Tokens first, so that the rows of one sequence stand behind one another; dense.
static bool has_rows(const struct tensor *tensor)
{
    return tensor && tensor->rank > 2 && tensor->extents[0].dim == DIM_BATCH &&
           tensor->extents[1].dim == DIM_SEQ && tensor->density <= 0 &&
           tensor->element == ELEMENT_COMPUTE && tensor_find_dim(tensor, DIM_EXPERT) < 0;
}

// Whether all ranks have as much of a dim.
static bool is_even(const struct lowering *low, const struct tensor *tensor, enum dim dim,
                    const struct layout *layout)
{
    const struct extent *extent = &tensor->extents[tensor_find_dim(tensor, dim)];
    int64_t size = extent_size(extent, low->batch, low->request->seq_len);
    return size % mesh_size(low->mesh, layout_axes_on(layout, dim)) == 0;
}

static bool is_relayed(const struct lowering *low, const struct instr *gather)
{
    if (gather->collective != COLLECTIVE_ALL_GATHER || gather->parameter || gather->inner ||
        gather->streamed || gather->parent != AXIS_TP)
        return false;
    const struct tensor *tensor = tensor_at(low, gather->inputs[0]);
    bool is_of_tokens = gather->dim == DIM_BATCH || gather->dim == DIM_SEQ;
    return has_rows(tensor) && is_of_tokens && mesh_size(low->mesh, gather->axes) > 1 &&
           is_even(low, tensor, gather->dim, &low->program->buffers[gather->inputs[0]].layout);
}

// Whether a dim of a buffer is whole over these axes.
static bool is_whole(const struct lowering *low, int buffer, enum dim dim, unsigned axes)
{
    return (layout_axes_on(&low->program->buffers[buffer].layout, dim) & axes) == 0;
}

// A GEMM whose result has the rows of what was gathered, or a weight's gradient, which is summed
// over them.
static bool may_read_parts(const struct lowering *low, const struct instr *gather,
                           const struct instr *reader)
{
    if (reader->collective || reader->kind != OP_CONTRACT || reader->ragged ||
        reader->input_count != 2 || reader->inputs[0] == reader->inputs[1] ||
        reader->phase != gather->phase || reader->recompute != gather->recompute)
        return false;
    const struct op *op = &low->block->ops[reader->op];
    for (int i = 0; i < 2; i++)
        if (low->program->buffers[reader->inputs[i]].tensor != op->inputs[i]) return false;
    int other = reader->inputs[reader->inputs[0] == gather->outputs[0]];
    const struct tensor *beside = tensor_at(low, other);
    const struct tensor *result = tensor_at(low, reader->outputs[0]);
    if (!beside || !result) return false;
    bool is_summed = tensor_find_dim(result, gather->dim) < 0;
    int cut = is_summed ? other : reader->outputs[0];
    if (is_summed ? !low->program->buffers[reader->outputs[0]].external
                  : tensor_find_dim(beside, gather->dim) >= 0)
        return false;
    return has_rows(tensor_at(low, cut)) && is_whole(low, cut, gather->dim, gather->axes);
}

// Whether a reader may stand where the first does.
static bool may_move(const struct lowering *low, const struct relay *relay, int reader)
{
    const struct instr *instr = &low->program->instrs[reader];
    for (int i = relay->first; i < reader; i++) {
        const struct instr *between = &low->program->instrs[i];
        for (int k = 0; k < instr->input_count; k++)
            if (writes(between, instr->inputs[k])) return false;
        if (reads(between, instr->outputs[0]) || writes(between, instr->outputs[0])) return false;
    }
    return true;
}

static bool crosses(const struct block_program *program, int buffer)
{
    for (int i = 0; i < BLOCK_EDGES; i++) {
        if (program->outputs[i] == buffer || program->input_gradients[i] == buffer) return true;
    }
    return false;
}

// Fills in who reads what an instruction gathers; false: it is no relay.
static bool find(const struct lowering *low, int index, const int *relay_of, struct relay *relay)
{
    const struct block_program *program = low->program;
    const struct instr *gather = &program->instrs[index];
    if (!is_relayed(low, gather) || crosses(program, gather->outputs[0])) return false;
    relay->gather = index;
    relay->count = 0;
    relay->members = mesh_size(low->mesh, gather->axes);
    for (int i = index + 1; i < program->instr_count; i++) {
        const struct instr *reader = &program->instrs[i];
        if (writes(reader, gather->outputs[0]) || writes(reader, gather->inputs[0])) return false;
        if (!reads(reader, gather->outputs[0])) continue;
        if (relay_of[i] || !may_read_parts(low, gather, reader)) return false;
        if (relay->count == 0) relay->first = i;
        if (!may_move(low, relay, i)) return false;
        relay->rows[relay->count] = 1 + (reader->inputs[0] != gather->outputs[0]);
        relay->readers[relay->count++] = i;
    }
    return relay->count > 0;
}

static struct instr *put(struct lowering *low, const struct instr *instr)
{
    struct block_program *program = low->program;
    ARENA_GROW(low->arena, program->instrs, program->instr_count, low->instr_capacity);
    program->instrs[program->instr_count] = *instr;
    return &program->instrs[program->instr_count++];
}

static int next_part(struct lowering *low, const struct instr *gather, int behind)
{
    const struct buffer *own = &low->program->buffers[gather->inputs[0]];
    struct layout layout = own->layout;
    int made = lowering_buffer(low, own->tensor, &layout);
    low->program->buffers[made].behind = behind;
    low->program->buffers[made].relay_axes = gather->axes;
    return made;
}

static int hand_on(struct lowering *low, const struct instr *gather, int from, int behind,
                   int number)
{
    int to = next_part(low, gather, behind);
    struct instr *instr = put(low, gather);
    instr->collective = COLLECTIVE_SEND_RECV;
    instr->bytes = low->backing[from].whole_bytes;
    instr->inputs[0] = from;
    instr->outputs[0] = to;
    instr->relay = number;
    return to;
}

static void work(struct lowering *low, const struct instr *gather, const struct instr *reader,
                 int rows, int part, int number)
{
    struct instr *instr = put(low, reader);
    instr->rows = rows;
    instr->dim = gather->dim;
    instr->inputs[rows - 1] = part;
    instr->relay = number;
    lowering_measure(low, &low->block->ops[instr->op], instr);
    instr->merge = 0;
}

static void emit(struct lowering *low, const struct instr *before, const struct relay *relay,
                 int number)
{
    const struct instr *gather = &before[relay->gather];
    int part = gather->inputs[0], next = -1;
    for (int behind = 0; behind < relay->members; behind++) {
        if (behind + 1 < relay->members) next = hand_on(low, gather, part, behind + 1, number);
        for (int r = 0; r < relay->count; r++)
            work(low, gather, &before[relay->readers[r]], relay->rows[r], part, number);
        part = next;
    }
}

void lowering_relay(struct lowering *low)
{
    struct block_program *program = low->program;
    if (!low->request->parallel->tp_relay) return;
    int count = program->instr_count, phase = 0, number = 0;
    struct instr *before = ARENA_COPY(low->arena, struct instr, program->instrs, count);
    struct relay *relays = ARENA_NEW(low->arena, struct relay, count);
    int *relay_of = ARENA_NEW(low->arena, int, count);  // 1 + gather
    for (int i = 0; i < count; i++) {
        struct relay *relay = &relays[i];
        relay->readers = ARENA_NEW(low->arena, int, 2 * (before[i].collective ? count : 0));
        relay->rows = relay->readers + (before[i].collective ? count : 0);
        if (!before[i].collective || !find(low, i, relay_of, relay)) continue;
        relay_of[i] = 1 + i;
        for (int r = 0; r < relay->count; r++)
            relay_of[relay->readers[r]] = 1 + i;
    }
    program->instr_count = 0;
    for (int i = 0; i < count; i++) {
        while (phase < PHASE_COUNT && program->phase_first[phase] == i)
            program->phase_first[phase++] = program->instr_count;
        const struct relay *relay = relay_of[i] ? &relays[relay_of[i] - 1] : NULL;
        if (!relay) put(low, &before[i]);
        if (relay && i == relay->first) emit(low, before, relay, ++number);
    }
    while (phase <= PHASE_COUNT)
        program->phase_first[phase++] = program->instr_count;
}
