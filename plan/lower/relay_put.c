#include "plan/lower/relay_put.h"

#include <assert.h>

bool relay_reads(const struct instr *instr, int buffer)
{
    for (int i = 0; i < instr->input_count; i++)
        if (instr->inputs[i] == buffer) return true;
    return false;
}

bool relay_writes(const struct instr *instr, int buffer)
{
    for (int i = 0; i < instr->output_count; i++)
        if (instr->outputs[i] == buffer) return true;
    return false;
}

bool relay_may_move(const struct lowering *low, int index, int to, int reader)
{
    const struct instr *instr = &low->program->instrs[index];
    int first = index < to ? index + 1 : to, end = index < to ? to : index;
    for (int i = first; i < end; i++) {
        const struct instr *between = &low->program->instrs[i];
        for (int k = 0; k < instr->input_count; k++)
            if (relay_writes(between, instr->inputs[k])) return false;
        bool is_read = i != reader && relay_reads(between, instr->outputs[0]);
        if (is_read || relay_writes(between, instr->outputs[0])) return false;
    }
    return true;
}

int relay_only_maker(const struct block_program *program, int buffer, int reader)
{
    int maker = -1;
    if (block_program_crosses(program, buffer)) return -1;
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (relay_reads(instr, buffer) && i != reader) return -1;
        if (!relay_writes(instr, buffer)) continue;
        if (maker >= 0 || i > reader) return -1;
        maker = i;
    }
    return maker;
}

struct instr *relay_put(struct lowering *low, const struct instr *instr)
{
    struct block_program *program = low->program;
    ARENA_GROW(low->arena, program->instrs, program->instr_count, low->instr_capacity);
    program->instrs[program->instr_count] = *instr;
    return &program->instrs[program->instr_count++];
}

int relay_part(struct lowering *low, int tensor, const struct layout *like, unsigned axes,
               int behind)
{
    int made = lowering_buffer(low, tensor, like);
    low->program->buffers[made].behind = behind;
    low->program->buffers[made].external = false;  // of a weight beside the state's own part
    low->program->buffers[made].relay_axes = axes;
    return made;
}

void relay_cut(struct lowering *low, int buffer, int pieces)
{
    assert(pieces > 1 && low->program->buffers[buffer].bytes % pieces == 0);
    low->program->buffers[buffer].pieces = pieces;
    low->program->buffers[buffer].bytes /= pieces;
    low->backing[buffer].whole_bytes /= pieces;
}

struct instr *relay_hand_on(struct lowering *low, const struct instr *like, unsigned axes, int from,
                            int to, int number)
{
    struct instr *instr = relay_put(low, like);
    instr->axes = axes;
    instr->collective = COLLECTIVE_SEND_RECV;
    instr->bytes = low->backing[from].whole_bytes;
    instr->inputs[0] = from;
    instr->outputs[0] = to;
    instr->combine = 0;
    instr->relay = number;
    return instr;
}

struct instr *relay_add_up(struct lowering *low, const struct instr *scatter, unsigned axes,
                           int came, int part, int number)
{
    struct instr *instr = relay_put(low, scatter);
    instr->axes = axes;
    instr->collective = COLLECTIVE_SLICE;
    instr->bytes = low->backing[came].whole_bytes;
    instr->inputs[0] = came;
    instr->outputs[0] = part;
    // A gradient of the state is told whether it has been begun.
    if (!low->program->buffers[part].external) instr->inputs[instr->input_count++] = part;
    instr->relay = number;
    return instr;
}

void relay_slice(struct lowering *low, const struct instr *gather, int own, int piece, int number)
{
    struct instr *instr = relay_put(low, gather);
    instr->collective = COLLECTIVE_SLICE;
    instr->bytes = low->backing[piece].whole_bytes;
    instr->inputs[0] = own;
    instr->outputs[0] = piece;
    instr->combine = 0;
    instr->relay = number;
}

void relay_work(struct lowering *low, const struct instr *change, const struct instr *like,
                int rows, int part, int number)
{
    assert(rows >= 1 && rows <= like->input_count + like->output_count);
    struct instr *instr = relay_put(low, like);
    instr->rows = rows;
    instr->dim = change->dim;
    instr->relay = number;
    if (rows > instr->input_count) {
        instr->outputs[rows - 1 - instr->input_count] = part;
    } else {
        instr->inputs[rows - 1] = part;
    }
    lowering_measure(low, &low->block->ops[instr->op], instr);
    instr->merge = 0;
}

void relay_put_sum(struct lowering *low, const struct instr *sum, int part, int members, int number)
{
    struct instr *instr = relay_put(low, sum);
    instr->outputs[0] = part;
    instr->flop /= members;
    instr->read_bytes /= members;
    instr->write_bytes /= members;
    instr->relay = number;
}
