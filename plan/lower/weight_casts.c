#include "plan/lower/casts.h"

#include <assert.h>

enum { UNREAD = -1, REFUSED = -2 };

struct keeping {
    struct block_program *program;
    const struct mesh *mesh;
    int *lead;     // [tensor]: the first weight of those that are one with it; or as above
    int *members;  // [tensor]: how many those are
};

// The input of a GEMM that is a weight; -1.
static int weight_input(const struct block_program *program, const struct instr *instr)
{
    const struct op *op = &program->block->ops[instr->op];
    if (instr->collective != COLLECTIVE_NONE || instr->kind != OP_CONTRACT) return -1;
    for (int k = 0; k < instr->input_count; k++) {
        if (casts_is_plain_parameter(&program->block->tensors[op->inputs[k]])) return k;
    }
    return -1;
}

static int weight_of(const struct block_program *program, const struct instr *instr)
{
    int input = weight_input(program, instr);
    return input < 0 ? -1 : program->block->ops[instr->op].inputs[input];
}

// What is summed comes first of its dims or last, so that it is a matrix as it lies.
static bool is_matrix(const struct block_program *program, const struct instr *instr, int input)
{
    const struct op *op = &program->block->ops[instr->op];
    const struct tensor *weight = &program->block->tensors[op->inputs[input]];
    const struct tensor *result = &program->block->tensors[op->outputs[0]];
    int changes = 0;
    for (int i = 1; i < weight->rank; i++) {
        bool is_kept = tensor_find_dim(result, weight->extents[i].dim) >= 0;
        changes += is_kept != (tensor_find_dim(result, weight->extents[i - 1].dim) >= 0);
    }
    return changes == 1;
}

static bool may_read(const struct keeping *keeping, const struct instr *instr)
{
    const struct block_program *program = keeping->program;
    int input = weight_input(program, instr);
    const struct tensor *weight = &program->block->tensors[weight_of(program, instr)];
    return casts_is_product(program, keeping->mesh, instr) && !weight->tie &&
           !instr->input_views[input] && program->buffers[instr->inputs[input]].external &&
           is_matrix(program, instr, input);
}

// The weights that the GEMM of an instruction reads, which others may be part of.
static void read_together(const struct keeping *keeping, int index, int *lead, int *members)
{
    const struct block_program *program = keeping->program;
    int first = instr_first(program->instrs, index), last = instr_last(program->instrs, index);
    bool is_merged = last > first && program->instrs[first + 1].join == JOIN_MERGED;
    *lead = weight_of(program, &program->instrs[index]), *members = 1;
    if (!is_merged) return;
    *members = 0;
    for (int i = first; i <= last; i++) {
        int weight = weight_of(program, &program->instrs[i]);
        if (weight < 0) continue;
        if (weight < *lead) *lead = weight;
        ++*members;
    }
}

static void read_weight(struct keeping *keeping, int index)
{
    const struct instr *instr = &keeping->program->instrs[index];
    int weight = weight_of(keeping->program, instr), lead, members;
    if (weight < 0 || keeping->lead[weight] == REFUSED) return;
    read_together(keeping, index, &lead, &members);
    assert(lead >= 0 && lead <= weight && members >= 1);
    bool is_first = keeping->lead[weight] == UNREAD;
    bool is_alike = keeping->lead[weight] == lead && keeping->members[weight] == members;
    bool fits = may_read(keeping, instr) && (is_first || is_alike);
    keeping->lead[weight] = fits ? lead : REFUSED;
    keeping->members[weight] = members;
}

// All of those that are one, or none.
static bool is_kept(const struct keeping *keeping, int weight)
{
    int lead = weight < 0 ? REFUSED : keeping->lead[weight], count = 0;
    if (lead < 0) return false;
    for (int t = 0; t < keeping->program->block->tensor_count; t++)
        count += keeping->lead[t] == lead;
    return count == keeping->members[weight];
}

void casts_keep_weights(struct arena *arena, struct block_program *program, const struct mesh *mesh,
                        bool stays)
{
    int tensors = program->block->tensor_count;
    struct keeping keeping = {.program = program,
                              .mesh = mesh,
                              .lead = ARENA_NEW(arena, int, tensors),
                              .members = ARENA_NEW(arena, int, tensors)};
    program->linear_elements = program->linear_count = 0;
    if (!stays || program->block->role != BLOCK_LAYER) return;
    for (int t = 0; t < tensors; t++)
        keeping.lead[t] = UNREAD;
    for (int i = 0; i < program->instr_count; i++)
        read_weight(&keeping, i);
    for (int i = 0; i < program->instr_count; i++) {
        struct instr *instr = &program->instrs[i];
        if (is_kept(&keeping, weight_of(program, instr)))
            instr->weight_cast = 1 + weight_input(program, instr);
    }
    for (int p = 0; p < program->parameter_count; p++) {
        const struct parameter *parameter = &program->parameters[p];
        if (!is_kept(&keeping, parameter->tensor)) continue;
        program->linear_elements += parameter->elements;
        program->linear_count += keeping.lead[parameter->tensor] == parameter->tensor;
    }
}
