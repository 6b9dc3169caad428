#include "plan/ties.h"

#include <assert.h>
#include <string.h>

// Names in the order in which they are met, each a bit.
struct tie_names {
    const char *names[TIE_MAX];
    int64_t elements[TIE_MAX];
    int count;
};

static unsigned bit_of(struct tie_names *names, const char *name, int64_t elements)
{
    int i = 0;
    while (i < names->count && strcmp(names->names[i], name) != 0)
        i++;
    assert(i < TIE_MAX);
    if (i == names->count) {
        names->names[names->count++] = name;
        names->elements[i] = elements;
    }
    assert(names->elements[i] == elements && "what is tied lies in one layout");
    return 1u << i;
}

bool ties_has(const struct block *block, const char *name)
{
    for (int t = 0; t < block->tensor_count; t++)
        if (block->tensors[t].tie && strcmp(block->tensors[t].tie, name) == 0) return true;
    return false;
}

static unsigned block_bits(struct tie_names *names, const struct block *block)
{
    unsigned bits = 0;
    for (int t = 0; t < block->tensor_count; t++)
        if (block->tensors[t].tie) bits |= bit_of(names, block->tensors[t].tie, 0);
    return bits;
}

bool ties_any(const struct graph *graph)
{
    unsigned seen = 0;
    struct tie_names names = {.count = 0};
    for (int i = 0; i < graph->sequence_count; i++) {
        unsigned bits = block_bits(&names, &graph->blocks[graph->sequence[i]]);
        if (seen & bits) return true;
        seen |= bits;
    }
    return false;
}

static unsigned chunk_bits(struct tie_names *names, const struct program *program, int place)
{
    const struct program_chunk *chunk = &program->chunks[program->class_of[place]];
    unsigned bits = 0;
    for (int u = 0; u < chunk->use_count; u++) {
        const struct block_program *block = program->blocks[chunk->uses[u].block_program];
        for (int p = 0; p < block->parameter_count; p++) {
            const struct parameter *parameter = &block->parameters[p];
            if (parameter->tie && parameter_kind_is_trained(parameter->kind))
                bits |= bit_of(names, parameter->tie, parameter->elements);
        }
    }
    return bits;
}

static int stages_with(const unsigned *bits, int count, int name, int *stages)
{
    int found = 0;
    for (int s = 0; s < count; s++)
        if (bits[s] >> name & 1) stages[found++] = s;
    return found;
}

void ties_find(struct arena *arena, struct program *program)
{
    const struct schedule_shape *shape = &program->shape;
    unsigned bits[STAGE_MAX];
    int stages[STAGE_MAX];
    struct tie_names names = {.count = 0};
    program->ties = NULL;
    program->tie_count = 0;
    if (shape->stage_count == 1) return;
    for (int s = 0; s < shape->stage_count; s++) {
        bits[s] = 0;
        for (int c = 0; c < shape->chunk_count; c++)
            bits[s] |= chunk_bits(&names, program, s * shape->chunk_count + c);
    }
    struct tied *ties = ARENA_NEW(arena, struct tied, names.count + 1);
    for (int i = 0; i < names.count; i++) {
        int count = stages_with(bits, shape->stage_count, i, stages);
        if (count < 2) continue;
        ties[program->tie_count++] = (struct tied){
            names.names[i], ARENA_COPY(arena, int, stages, count), count, names.elements[i]};
    }
    program->ties = ties;
}

int ties_at(const struct program *program, int stage, const char *name)
{
    for (int i = 0; name && i < program->tie_count; i++) {
        const struct tied *tied = &program->ties[i];
        for (int s = 0; strcmp(tied->tie, name) == 0 && s < tied->stage_count; s++)
            if (tied->stages[s] == stage) return i;
    }
    return -1;
}

bool ties_check(const struct graph *graph, const struct parallel *parallel,
                const struct chunk_span *spans, struct err *err)
{
    int first[TIE_MAX], chunks = parallel->degree[AXIS_PP] * parallel->vpp;
    struct tie_names names = {.count = 0};
    for (int at = 0; at < chunks; at++) {
        int stage = at / parallel->vpp, known = names.count;
        unsigned bits = 0;
        for (int i = spans[at].first; i < spans[at].first + spans[at].count; i++)
            bits |= block_bits(&names, &graph->blocks[graph->sequence[i]]);
        for (int t = 0; t < names.count; t++) {
            if (t >= known) first[t] = stage;
            if (!(bits >> t & 1)) continue;
            int tps[] = {parallel_stage_tp(parallel, first[t]), parallel_stage_tp(parallel, stage)};
            int ranks[] = {parallel_stage_ranks(parallel, first[t]),
                           parallel_stage_ranks(parallel, stage)};
            const char *what = strcmp(names.names[t], "embedding.token.weight") == 0
                                   ? "tied embeddings"
                                   : names.names[t];
            if (ranks[0] != ranks[1])
                return err_set(err, ERR_USAGE,
                               "--stage-ranks: stages %d and %d share %s, which lie in one layout; "
                               "give both as many ranks, not %d and %d",
                               first[t], stage, what, ranks[0], ranks[1]);
            if (tps[0] != tps[1])
                return err_set(err, ERR_USAGE,
                               "--stage-tp: stages %d and %d share %s, which lie in one layout; "
                               "give both as many ranks of tp, not %d and %d",
                               first[t], stage, what, tps[0], tps[1]);
        }
    }
    return true;
}
