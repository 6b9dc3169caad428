#include "tests/support/mutate.h"

#include "core/arena.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

const char *mutation_name(enum mutation mutation)
{
    static const char *const NAMES[MUTATION_COUNT] = {"removed", "doubled", "other axes",
                                                      "other dim"};
    return NAMES[mutation];
}

static struct block_program *copy(struct arena *arena, const struct block_program *program)
{
    struct block_program *made = ARENA_NEW(arena, struct block_program, 1);
    *made = *program;
    made->instrs = ARENA_NEW(arena, struct instr, program->instr_count + 1);
    memcpy(made->instrs, program->instrs, (size_t)program->instr_count * sizeof *made->instrs);
    made->buffers = ARENA_NEW(arena, struct buffer, program->buffer_count);
    memcpy(made->buffers, program->buffers, (size_t)program->buffer_count * sizeof *made->buffers);
    for (int b = 0; b < made->buffer_count; b++) {
        made->buffers[b].birth = 0;
        made->buffers[b].death = INT_MAX;
        made->buffers[b].saved = true;
    }
    return made;
}

static void rename_buffer(int *buffer, int from, int to)
{
    if (*buffer == from) *buffer = to;
}

static void remove_at(struct block_program *program, int at)
{
    int from = program->instrs[at].outputs[0], to = program->instrs[at].inputs[0];
    program->instr_count--;
    for (int i = at; i < program->instr_count; i++)
        program->instrs[i] = program->instrs[i + 1];
    for (int i = at; i < program->instr_count; i++) {
        struct instr *instr = &program->instrs[i];
        for (int n = 0; n < instr->input_count; n++)
            rename_buffer(&instr->inputs[n], from, to);
        // What is reduced in place now happens to the other buffer.
        bool in_place = instr->collective == COLLECTIVE_ALL_REDUCE && instr->outputs[0] == from;
        if (in_place) instr->outputs[0] = to;
    }
    for (int i = 0; i < 2; i++) {
        rename_buffer(&program->outputs[i], from, to);
        rename_buffer(&program->input_gradients[i], from, to);
    }
}

static bool double_at(struct block_program *program, int at)
{
    struct instr again = program->instrs[at];
    bool sums =
        again.collective == COLLECTIVE_ALL_REDUCE || again.collective == COLLECTIVE_REDUCE_SCATTER;
    bool is_tensor = program->buffers[again.inputs[0]].tensor >= 0;
    if (!sums) return false;
    if (is_tensor && again.collective == COLLECTIVE_REDUCE_SCATTER) {
        again.collective = COLLECTIVE_ALL_REDUCE;
        again.dim = DIM_NONE;
        again.inputs[0] = again.outputs[0];
        again.bytes = program->buffers[again.outputs[0]].bytes;
    }
    for (int i = program->instr_count++; i > at; i--)
        program->instrs[i] = program->instrs[i - 1];
    program->instrs[at + 1] = again;
    return true;
}

static bool change_axes(struct draw *draw, const struct mesh *mesh, struct instr *instr)
{
    unsigned all = (1u << mesh->axis_count) - 1, axis = 0;
    if (instr->axes == all && mesh->axis_count == 1) return false;
    // To know the counts of more ranks than send rows is no fault.
    bool counts = instr->inner > 0 && instr->collective == COLLECTIVE_ALL_GATHER;
    do {
        axis = 1u << draw_int(draw, 0, mesh->axis_count - 1);
    } while (instr->axes == axis);
    if (counts && !(instr->axes & axis)) return false;
    instr->axes ^= axis;
    return true;
}

static bool change_dim(struct draw *draw, const struct block_program *program, struct instr *instr)
{
    int tensor = program->buffers[instr->inputs[0]].tensor;
    if (tensor < 0 || instr->collective == COLLECTIVE_ALL_REDUCE) return false;
    if (instr->collective == COLLECTIVE_ALL_TO_ALL) {
        enum dim dim = instr->dim;
        instr->dim = instr->to_dim;
        instr->to_dim = dim;
        return true;
    }
    const struct tensor *of = &program->block->tensors[tensor];
    if (of->rank == 1) return false;
    enum dim dim = instr->dim;
    while (dim == instr->dim)
        dim = of->extents[draw_int(draw, 0, of->rank - 1)].dim;
    instr->dim = dim;
    return true;
}

struct block_program *mutate(struct arena *arena, struct draw *draw, const struct mesh *mesh,
                             const struct block_program *program, int at, enum mutation mutation)
{
    struct block_program *made = copy(arena, program);
    bool changed = true;
    assert(program->instrs[at].collective != COLLECTIVE_NONE);
    switch (mutation) {
    case MUTATION_REMOVE:
        remove_at(made, at);
        break;
    case MUTATION_DOUBLE:
        changed = double_at(made, at);
        break;
    case MUTATION_AXES:
        changed = change_axes(draw, mesh, &made->instrs[at]);
        break;
    case MUTATION_DIM:
        changed = change_dim(draw, program, &made->instrs[at]);
        break;
    default:
        assert(false && "no such mutation");
    }
    return changed ? made : NULL;
}
