#include "plan/documents.h"

#include "models/attended.h"

#include <assert.h>
#include <math.h>

static void apply_to(struct instr *instr, const struct op *op, double tokens)
{
    double share = attended_share(op, instr->kv_seq, tokens);
    if (share >= 1) return;
    instr->flop *= share;
    bool is_shorter = instr->window <= 0 || tokens < (double)instr->window;
    if (!is_shorter) return;
    instr->window = (int64_t)fmax(1, round(tokens));
    instr->chunked = true;
}

void documents_apply(struct program *program, double tokens)
{
    assert(tokens > 0);
    for (int b = 0; b < program->block_count; b++) {
        struct block_program *block = program->blocks[b];
        for (int i = 0; i < block->instr_count; i++) {
            struct instr *instr = &block->instrs[i];
            if (instr->kind != OP_ATTENTION && instr->kind != OP_ATTENTION_BACKWARD) continue;
            if (instr->collective != COLLECTIVE_NONE) continue;
            apply_to(instr, &block->block->ops[instr->op], tokens);
        }
    }
}
