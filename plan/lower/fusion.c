#include "plan/lower/fusion.h"

#include "models/op.h"

#include <assert.h>
#include <string.h>

struct fusing {
    struct block_program *program;
    int (*from)[OP_INPUT_MAX];  // by instruction: who wrote its inputs; -1: nobody in the block
    int *kernel;                // by instruction: the first of its kernel
    bool *tainted;              // by kernel, see is_apart
};

static bool is_product(const struct instr *instr)
{
    return instr->kind == OP_CONTRACT || instr->kind == OP_ATTENTION ||
           instr->kind == OP_ATTENTION_BACKWARD;
}

// A view moves nothing and is no kernel.
static bool is_streaming(const struct instr *instr)
{
    bool is_compute = instr->collective == COLLECTIVE_NONE && !is_product(instr);
    return is_compute && instr->read_bytes + instr->write_bytes > 0;
}

static bool is_fusable_kind(enum op_kind kind)
{
    return op_rule(kind)->element_wise || kind == OP_NORM || kind == OP_NORM_BACKWARD;
}

// A GEMM that runs for several merged contractions has added up their input gradients.
static bool is_done_by_product(const struct fusing *fusing, int index)
{
    const struct instr *instr = &fusing->program->instrs[index];
    if (instr->kind != OP_ADD || instr->phase != PHASE_BACKWARD || instr->recompute) return false;
    int merge = 0;
    for (int i = 0; i < instr->input_count; i++) {
        int from = fusing->from[index][i];
        const struct instr *maker = from >= 0 ? &fusing->program->instrs[from] : NULL;
        if (!maker || maker->kind != OP_CONTRACT || maker->collective != COLLECTIVE_NONE ||
            maker->merge == 0 || (i > 0 && maker->merge != merge)) {
            return false;
        }
        merge = maker->merge;
    }
    return true;
}

static bool is_fusable(const struct fusing *fusing, int index)
{
    const struct instr *instr = &fusing->program->instrs[index];
    return is_streaming(instr) && is_fusable_kind(instr->kind) &&
           !is_done_by_product(fusing, index);
}

static struct fusing start(struct arena *arena, struct block_program *program)
{
    int count = program->instr_count;
    struct fusing fusing = {.program = program,
                            .from = arena_alloc(arena, (size_t)count + 1, sizeof *fusing.from),
                            .kernel = ARENA_NEW(arena, int, count + 1),
                            .tainted = ARENA_NEW(arena, bool, count + 1)};
    int *writer = ARENA_NEW(arena, int, program->buffer_count + 1);
    for (int b = 0; b < program->buffer_count; b++)
        writer[b] = -1;
    for (int i = 0; i < count; i++) {
        const struct instr *instr = &program->instrs[i];
        fusing.kernel[i] = i;
        for (int k = 0; k < instr->input_count; k++)
            fusing.from[i][k] = writer[instr->inputs[k]];
        for (int k = 0; k < instr->output_count; k++)
            writer[instr->outputs[k]] = i;
    }
    return fusing;
}

static bool reads_tainted(const struct fusing *fusing, int index)
{
    for (int k = 0; k < fusing->program->instrs[index].input_count; k++) {
        int from = fusing->from[index][k];
        if (from >= 0 && fusing->tainted[fusing->kernel[from]]) return true;
    }
    return false;
}

static bool reads_kernel(const struct fusing *fusing, int index, int kernel)
{
    for (int k = 0; k < fusing->program->instrs[index].input_count; k++) {
        int from = fusing->from[index][k];
        if (from >= 0 && fusing->kernel[from] == kernel) return true;
    }
    return false;
}

// Whether `index` can run in `kernel`: nothing that it reads was made, outside the kernel, from
// what the kernel makes. Kernels run as a whole, so that all of one is tainted when a member is.
static bool is_apart(struct fusing *fusing, int index, int kernel)
{
    assert(kernel >= 0 && kernel < index && "a kernel begins at its first member");
    memset(fusing->tainted, 0, (size_t)fusing->program->instr_count * sizeof *fusing->tainted);
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = kernel + 1; i < index; i++) {
            int own = fusing->kernel[i];
            if (own == kernel || fusing->tainted[own]) continue;
            if (!reads_kernel(fusing, i, kernel) && !reads_tainted(fusing, i)) continue;
            fusing->tainted[own] = changed = true;
        }
    }
    return !reads_tainted(fusing, index);
}

static bool is_linked(const struct fusing *fusing, int maker, int reader, int buffer)
{
    const struct instr *a = &fusing->program->instrs[maker];
    const struct instr *b = &fusing->program->instrs[reader];
    const struct buffer *buffers = fusing->program->buffers;
    const struct buffer *link = &buffers[buffer], *result = &buffers[b->outputs[0]];
    return a->phase == b->phase && a->recompute == b->recompute && is_fusable(fusing, maker) &&
           link->bytes == result->bytes;
}

// Joins the kernel of the latest maker of an input that it can.
static void join(struct fusing *fusing, int index)
{
    const struct instr *instr = &fusing->program->instrs[index];
    int best = -1;
    for (int k = 0; k < instr->input_count; k++) {
        int from = fusing->from[index][k];
        if (from <= best || !is_linked(fusing, from, index, instr->inputs[k])) continue;
        if (is_apart(fusing, index, fusing->kernel[from])) best = from;
    }
    if (best >= 0) fusing->kernel[index] = fusing->kernel[best];
}

static bool is_boundary(const struct block_program *program, int buffer)
{
    for (int i = 0; i < BLOCK_EDGES; i++) {
        if (program->outputs[i] == buffer || program->input_gradients[i] == buffer) return true;
    }
    return program->buffers[buffer].external || program->buffers[buffer].saved;
}

// Whether what `maker` writes is read by its own kernel and by nobody else.
static bool is_inner(const struct fusing *fusing, int maker, int buffer)
{
    const struct block_program *program = fusing->program;
    int readers = 0;
    if (is_boundary(program, buffer)) return false;
    for (int i = maker + 1; i < program->instr_count; i++) {
        for (int k = 0; k < program->instrs[i].input_count; k++) {
            if (program->instrs[i].inputs[k] != buffer || fusing->from[i][k] != maker) continue;
            if (fusing->kernel[i] != fusing->kernel[maker]) return false;
            readers++;
        }
    }
    return readers > 0;
}

static bool reads(const struct instr *instr, int count, int buffer)
{
    for (int k = 0; k < count; k++) {
        if (instr->inputs[k] == buffer) return true;
    }
    return false;
}

static bool is_read_before(const struct fusing *fusing, int index, int buffer)
{
    for (int i = fusing->kernel[index]; i < index; i++) {
        const struct instr *instr = &fusing->program->instrs[i];
        bool is_member = fusing->kernel[i] == fusing->kernel[index];
        if (is_member && reads(instr, instr->input_count, buffer)) return true;
    }
    return false;
}

static void count_kept(struct fusing *fusing, int index)
{
    struct block_program *program = fusing->program;
    struct instr *instr = &program->instrs[index];
    // A sum over one row is a view, which moves nothing that could be kept.
    if (instr->read_bytes + instr->write_bytes == 0) return;
    // What a GEMM reads is in its own price.
    int inputs = instr->kind == OP_CONTRACT ? 0 : instr->input_count;
    for (int k = 0; k < inputs; k++) {
        int from = fusing->from[index][k], buffer = instr->inputs[k];
        if (reads(instr, k, buffer)) continue;  // counted once to begin with
        bool is_here = from >= 0 && fusing->kernel[from] == fusing->kernel[index];
        if (!is_here && !is_read_before(fusing, index, buffer)) continue;
        instr->kept_bytes += program->buffers[buffer].bytes;
    }
    for (int k = 0; k < instr->output_count; k++) {
        if (!is_inner(fusing, index, instr->outputs[k])) continue;
        instr->passing |= 1u << k;
        instr->kept_bytes += program->buffers[instr->outputs[k]].bytes;
    }
    assert(instr->kept_bytes <= instr->read_bytes + instr->write_bytes);
}

void fusion_mark(struct arena *arena, struct block_program *program)
{
    struct arena_mark mark = arena_mark(arena);
    struct fusing fusing = start(arena, program);
    for (int i = 0; i < program->instr_count; i++) {
        if (is_fusable(&fusing, i)) join(&fusing, i);
    }
    for (int i = 0; i < program->instr_count; i++) {
        if (!is_fusable(&fusing, i)) continue;
        count_kept(&fusing, i);
        if (fusing.kernel[i] != i) program->instrs[i].kernel = fusing.kernel[i] + 1;
    }
    arena_reset(arena, mark);
}

void fusion_count_kept(struct arena *arena, struct block_program *program)
{
    struct arena_mark mark = arena_mark(arena);
    struct fusing fusing = start(arena, program);
    for (int i = 0; i < program->instr_count; i++)
        fusing.kernel[i] = instr_first(program->instrs, i);
    for (int i = 0; i < program->instr_count; i++) {
        if (program->instrs[i].kernel || program->instrs[i].joined) count_kept(&fusing, i);
    }
    arena_reset(arena, mark);
}

struct fusion_counts fusion_count(const struct block_program *program)
{
    struct fusion_counts counts = {0};
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (!is_streaming(instr)) continue;
        double bytes = (double)(instr->read_bytes + instr->write_bytes);
        counts.kernels_before++;
        counts.kernels_after += instr->kernel == 0;
        counts.bytes_before += bytes;
        counts.bytes_after += bytes - (double)instr->kept_bytes;
    }
    return counts;
}
