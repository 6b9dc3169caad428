#include "planner/traces.h"

#include "core/hash.h"

#include <assert.h>

static uint64_t hash_real(uint64_t hash, double value)
{
    return hash_bytes(hash, &value, sizeof value);
}

static uint64_t hash_buffer(const struct buffer *buffer)
{
    uint64_t hash = hash_bytes(HASH_START, buffer->layout.of, sizeof buffer->layout.of);
    hash = hash_word(hash, (uint64_t)buffer->bytes);
    return hash_word(hash, (uint64_t)buffer->saved << 1 | buffer->packed);
}

// Of what it is, not of where it stands: a kernel of several is told by the one that begins it.
static uint64_t hash_instr(const struct block_program *program, const struct instr *instr)
{
    const int64_t words[] = {
        instr->phase,        instr->recompute,
        instr->op,           instr->kind,
        instr->read_bytes,   instr->write_bytes,
        instr->kept_bytes,   instr->joined,
        instr->passing,      instr->merge,
        instr->collective,   instr->axes,
        instr->parent,       instr->combine,
        instr->bytes,        instr->dim,
        instr->to_dim,       instr->inner,
        instr->stream_steps, instr->gemm.batch,
        instr->gemm.m,       instr->gemm.n,
        instr->gemm.k,       instr->kernel > 0 ? 1 + program->instrs[instr->kernel - 1].op : 0,
    };
    uint64_t hash = hash_real(HASH_START, instr->flop);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        hash = hash_word(hash, (uint64_t)words[i]);
    return hash;
}

static void add(uint32_t *traces, const struct block_program *program, int buffer, uint64_t hash)
{
    if (buffer < 0 || program->buffers[buffer].tensor < 0) return;
    hash = hash_mix(hash ^ hash_buffer(&program->buffers[buffer]));
    traces[program->buffers[buffer].tensor] += (uint32_t)hash;
}

uint32_t *traces_of(struct arena *arena, const struct block_program *program)
{
    assert(program->block->tensor_count > 0);
    uint32_t *traces = ARENA_NEW(arena, uint32_t, program->block->tensor_count);
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        uint64_t hash = hash_instr(program, instr);
        for (int k = 0; k < instr->input_count; k++)
            add(traces, program, instr_input(program, instr, k), hash);
        for (int k = 0; k < instr->output_count; k++)
            add(traces, program, instr_output(program, instr, k), hash ^ 1);
    }
    return traces;
}

static bool changes(const struct op *op, const uint32_t *base, const uint32_t *changed)
{
    for (int i = 0; i < op->input_count; i++)
        if (changed[op->inputs[i]] != base[op->inputs[i]]) return true;
    for (int i = 0; i < op->output_count; i++)
        if (changed[op->outputs[i]] != base[op->outputs[i]]) return true;
    return false;
}

bool traces_meet(const struct block *block, const uint32_t *base, const uint32_t *a,
                 const uint32_t *b)
{
    for (int o = 0; o < block->op_count; o++)
        if (changes(&block->ops[o], base, a) && changes(&block->ops[o], base, b)) return true;
    return false;
}
