#include "plan/lower/casts.h"

#include "models/op.h"

#include <assert.h>

enum {
    ROW_DIMS = 2  // batch and seq, which a weight's gradient sums
};

struct casting {
    struct arena *arena;
    struct block_program *program;
    const struct mesh *mesh;
    int capacity;
    int *host;  // [buffer]: 1 + the instruction that casts it; 0: none
    int *cast;  // [buffer]: 1 + what holds it in 8 bits; 0: none yet
};

static const struct tensor *tensor_of(const struct block_program *program, int tensor)
{
    return &program->block->tensors[tensor];
}

bool casts_is_plain_parameter(const struct tensor *tensor)
{
    return tensor->role == TENSOR_PARAMETER && tensor_find_dim(tensor, DIM_GATE) < 0 &&
           tensor_find_dim(tensor, DIM_EXPERT) < 0;
}

static bool has_parameter(const struct block_program *program, const struct op *op)
{
    const struct op *forward = &program->block->ops[op->forward_op];
    for (int i = 0; i < forward->input_count; i++) {
        if (casts_is_plain_parameter(tensor_of(program, forward->inputs[i]))) return true;
    }
    return false;
}

// Whether all ranks hold as much of it.
static bool is_even(const struct block_program *program, const struct mesh *mesh, int buffer)
{
    const struct buffer *of = &program->buffers[buffer];
    const struct tensor *tensor = tensor_of(program, of->tensor);
    for (int i = 0; i < tensor->rank; i++) {
        const struct extent *extent = &tensor->extents[i];
        unsigned axes = layout_axes_on(&of->layout, extent->dim);
        bool is_known = extent->dim != DIM_BATCH && extent->dim != DIM_SEQ;
        if (is_known && extent->size % mesh_size(mesh, axes) != 0) return false;
    }
    return tensor->density <= 0 && layout_partial_axes(&of->layout) == 0;
}

bool casts_is_product(const struct block_program *program, const struct mesh *mesh,
                      const struct instr *instr)
{
    bool is_product = instr->collective == COLLECTIVE_NONE && instr->kind == OP_CONTRACT &&
                      instr->input_count == 2 && !instr->ragged && instr->gemm.batch == 1;
    if (!is_product || !has_parameter(program, &program->block->ops[instr->op])) return false;
    for (int k = 0; k < 2; k++) {
        if (!is_even(program, mesh, instr_input(program, instr, k))) return false;
    }
    return instr->gemm.m % CASTS_GRAIN == 0 && instr->gemm.n % CASTS_GRAIN == 0 &&
           instr->gemm.k % CASTS_GRAIN == 0;
}

static bool is_castable(const struct casting *casting, const struct instr *instr)
{
    return casts_is_product(casting->program, casting->mesh, instr);
}

// How many dims of an input come first that the product sums, if these are all it sums; or that it
// keeps (`sums` false), if those are all it keeps; -1: neither.
static int split_of(const struct casting *casting, const struct instr *instr, int input, bool sums)
{
    const struct op *op = &casting->program->block->ops[instr->op];
    const struct tensor *from = tensor_of(casting->program, op->inputs[input]);
    const struct tensor *to = tensor_of(casting->program, op->outputs[0]);
    int split = 0;
    for (int i = 0; i < from->rank; i++) {
        bool is_summed = tensor_find_dim(to, from->extents[i].dim) < 0;
        if (is_summed != sums) continue;
        if (i != split) return -1;
        split++;
    }
    return split > 0 && split < from->rank ? split : -1;
}

// Both inputs of a weight's gradient begin with what it sums, in one order, and its result is what
// they keep, one behind the other.
static bool is_turned_product(const struct casting *casting, const struct instr *instr)
{
    const struct op *op = &casting->program->block->ops[instr->op];
    int split = split_of(casting, instr, 0, true);
    if (split != ROW_DIMS || split_of(casting, instr, 1, true) != split) return false;
    const struct tensor *a = tensor_of(casting->program, op->inputs[0]);
    const struct tensor *b = tensor_of(casting->program, op->inputs[1]);
    const struct tensor *to = tensor_of(casting->program, op->outputs[0]);
    for (int i = 0; i < split; i++) {
        if (a->extents[i].dim != b->extents[i].dim) return false;
    }
    const struct tensor *first = to->extents[0].dim == a->extents[split].dim ? a : b;
    const struct tensor *second = first == a ? b : a;
    int rank = first->rank + second->rank - 2 * split;
    for (int i = 0; i < rank && rank == to->rank; i++) {
        int at = split + i - (i < first->rank - split ? 0 : first->rank - split);
        const struct tensor *of = i < first->rank - split ? first : second;
        if (to->extents[i].dim != of->extents[at].dim) return false;
    }
    return rank == to->rank;
}

static bool is_weight_gradient(const struct casting *casting, const struct instr *instr)
{
    return instr->phase == PHASE_WEIGHT && is_castable(casting, instr) &&
           is_turned_product(casting, instr);
}

// What casts for others reads the whole of a packed buffer: it is the first of GEMMs that are one.
static bool may_host(const struct casting *casting, int index, int input)
{
    const struct block_program *program = casting->program;
    const struct instr *instr = &program->instrs[index];
    if (!is_castable(casting, instr) || instr->output_count != 1) return false;
    if (casts_is_plain_parameter(tensor_of(program, program->block->ops[instr->op].inputs[input])))
        return false;
    if (split_of(casting, instr, input, false) != ROW_DIMS) return false;
    return !instr->input_views[input] || (instr->joined > 0 && instr[1].join == JOIN_MERGED);
}

// Who writes a buffer later casts it anew.
static void find_hosts(struct casting *casting)
{
    const struct block_program *program = casting->program;
    for (int i = 0; i < program->phase_first[PHASE_WEIGHT]; i++) {
        const struct instr *instr = &program->instrs[i];
        for (int k = 0; k < instr->input_count; k++) {
            int buffer = instr->inputs[k];
            if (!casting->host[buffer] && may_host(casting, i, k)) casting->host[buffer] = 1 + i;
        }
        for (int k = 0; k < instr->output_count; k++)
            casting->host[instr->outputs[k]] = 0;
    }
}

static void make_cast(struct casting *casting, int buffer)
{
    assert(casting->host[buffer] > 0 && casting->cast[buffer] == 0);
    struct block_program *program = casting->program;
    struct instr *host = &program->instrs[casting->host[buffer] - 1];
    ARENA_GROW(casting->arena, program->buffers, program->buffer_count, casting->capacity);
    struct buffer made = program->buffers[buffer];
    made.bytes = CAST_HEAD_BYTES + made.bytes / 2;  // of 16 bits
    made.packed = made.external = false;
    made.cast = true;
    program->buffers[program->buffer_count] = made;
    assert(host->output_count == 1 && "an instruction casts one of its operands");
    host->outputs[host->output_count++] = program->buffer_count;
    host->cast = host->inputs[0] == buffer ? 1 : 2;
    casting->cast[buffer] = 1 + program->buffer_count++;
}

// Those that run as one read alike.
static bool takes_cast(const struct casting *casting, int index, int input)
{
    const struct instr *instrs = casting->program->instrs;
    int first = instr_first(instrs, index), last = instr_last(instrs, index);
    for (int i = first; i <= last; i++) {
        bool fits = is_weight_gradient(casting, &instrs[i]) &&
                    instrs[i].inputs[input] == instrs[index].inputs[input];
        if (!fits) return false;
    }
    return true;
}

void casts_form(struct arena *arena, struct block_program *program, int buffer_capacity,
                const struct mesh *mesh)
{
    int count = program->buffer_count;
    struct casting casting = {.arena = arena,
                              .program = program,
                              .mesh = mesh,
                              .capacity = buffer_capacity > count ? buffer_capacity : count,
                              .host = ARENA_NEW(arena, int, count),
                              .cast = ARENA_NEW(arena, int, count)};
    if (program->block->role != BLOCK_LAYER) return;
    find_hosts(&casting);
    int *taken = ARENA_NEW(arena, int, program->instr_count);  // 1 << input
    for (int i = program->phase_first[PHASE_WEIGHT]; i < program->instr_count; i++) {
        for (int k = 0; k < program->instrs[i].input_count; k++) {
            int buffer = program->instrs[i].inputs[k];
            if (casting.host[buffer] && takes_cast(&casting, i, k)) taken[i] |= 1 << k;
        }
    }
    for (int i = program->phase_first[PHASE_WEIGHT]; i < program->instr_count; i++) {
        struct instr *instr = &program->instrs[i];
        for (int k = 0; k < instr->input_count; k++) {
            int buffer = instr->inputs[k];
            if (!(taken[i] >> k & 1)) continue;
            const struct instr *host = &program->instrs[casting.host[buffer] - 1];
            bool is_full = host->output_count > 1 && !casting.cast[buffer];
            if (is_full) continue;  // of one value a product
            if (!casting.cast[buffer]) make_cast(&casting, buffer);
            instr->inputs[k] = casting.cast[buffer] - 1;
        }
    }
}
