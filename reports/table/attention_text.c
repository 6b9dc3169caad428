#include "reports/table/attention_text.h"
#include "cost_models/attention_unfused.h"

#include <assert.h>

// Of a block: whether it attends, and which rules of plan/unfused.inc some of that breaks.
struct found {
    bool attends;
    unsigned rules;  // 1 << enum unfused
};

static struct found look_at(const struct stack *stack, enum precision precision,
                            const struct block_program *block)
{
    struct found found = {0};
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        bool attends = instr->kind == OP_ATTENTION || instr->kind == OP_ATTENTION_BACKWARD;
        if (!attends || instr->collective != COLLECTIVE_NONE) continue;
        enum unfused rule = attention_unfused(stack, precision, block, instr);
        found.attends = true;
        if (rule != UNFUSED_COUNT) found.rules |= 1u << rule;
    }
    return found;
}

static const char *reasons(struct arena *arena, unsigned rules)
{
    const char *text = "";
    for (int rule = 0; rule < UNFUSED_COUNT; rule++) {
        if (rules >> rule & 1)
            text = arena_print(arena, "%s%s%s", text, *text ? ", " : "",
                               unfused_text((enum unfused)rule));
    }
    return text;
}

const char *attention_text(struct arena *arena, const struct stack *stack,
                           const struct evaluation *evaluation)
{
    const struct program *program = evaluation->program;
    int chunk_count = program->shape.stage_count * program->shape.chunk_count;
    int attending = 0, by_products = 0;
    unsigned rules = 0;
    for (int i = 0; i < chunk_count; i++) {
        const struct program_chunk *chunk = &program->chunks[program->class_of[i]];
        for (int u = 0; u < chunk->use_count; u++) {
            const struct block_use *use = &chunk->uses[u];
            const struct found found =
                look_at(stack, program->workload.precision, program->blocks[use->block_program]);
            attending += found.attends ? use->count : 0;
            by_products += found.rules ? use->count : 0;
            rules |= found.rules;
        }
    }
    assert(by_products <= attending);
    if (by_products == 0) return "";
    const char *of = attending == by_products ? "" : arena_print(arena, " of %d", attending);
    return arena_print(arena, "Attention of %d%s layer%s by products, slower than fused: %s",
                       by_products, of, attending == 1 ? "" : "s", reasons(arena, rules));
}
